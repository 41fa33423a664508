// SPDX-License-Identifier: Apache-2.0
// Orbax checkpoints: `_METADATA`, a byte 0xff, `_sharding`, and so on for the
// `.zarray` of the array `w`. The shardings are read as rules too.
#include <algorithm>
#include <vector>

#include "tests/fuzz/fuzz_manifest.h"

FUZZ_TARGET(orbax) {
  using namespace shardplan;
  std::string_view rest = fuzz::text_of(data, size);
  testing::MemoryHost host;
  for (const char* name : {"c/_METADATA", "c/_sharding", "c/w/.zarray"}) {
    const size_t end = std::min(rest.find('\xff'), rest.size());
    host.files[name] = std::string(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  fuzz::load_and_check("c", host);
  Diagnostics diags;
  const std::vector<std::string> paths = {"c"};
  const auto rules = load_rules(paths, "orbax", {}, host, diags);
  fuzz::require(rules.has_value() || diags.has_errors(),
                "a refusal has a reason");
  return 0;
}
