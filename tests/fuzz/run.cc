// SPDX-License-Identifier: Apache-2.0
// The whole program in memory: any command, any flags, any files.
//
// The input is cut at bytes 0xff: command line (arguments cut at newlines),
// model, rules, shardplan.yaml. The program must exit with 0, 1 or 2, and say
// why where it is 2: 3 would be a bug of ours.
#include <vector>

#include "cli/commands.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/memory_host.h"

namespace {

std::vector<std::string> cut(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

FUZZ_TARGET(run) {
  using namespace shardplan;
  std::vector<std::string> parts = cut(fuzz::text_of(data, size), '\xff');
  parts.resize(4);
  testing::MemoryHost host;
  host.processor_count = 2;
  host.files["model"] = parts[1];
  host.files["rules.yaml"] = parts[2];
  if (!parts[3].empty()) host.files["shardplan.yaml"] = parts[3];
  host.input = parts[1];
  const int code = cli::run(cut(parts[0], '\n'), host);
  if (code < 0 || code > 2) std::fputs(host.err.c_str(), stderr);
  fuzz::require(code >= 0 && code <= 2, "the program exits with 0, 1 or 2");
  fuzz::require(code != 2 || !(host.out + host.err).empty(),
                "an exit of 2 is explained");
  return 0;
}
