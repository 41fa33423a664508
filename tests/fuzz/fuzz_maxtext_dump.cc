// SPDX-License-Identifier: Apache-2.0
// MaxText's dumps: the named one, a byte 0xff, the logical one. The named one
// is read as rules too.
#include <algorithm>
#include <vector>

#include "tests/fuzz/fuzz_manifest.h"

FUZZ_TARGET(maxtext_dump) {
  using namespace shardplan;
  const std::string_view text = fuzz::text_of(data, size);
  const size_t end = std::min(text.find('\xff'), text.size());
  testing::MemoryHost host;
  host.files["d/named_shardings.json"] = std::string(text.substr(0, end));
  host.files["d/logical_shardings.json"] =
      std::string(text.substr(std::min(end + 1, text.size())));
  fuzz::load_and_check("d", host);
  Diagnostics diags;
  const std::vector<std::string> paths = {"d"};
  const auto rules = load_rules(paths, "maxtext-dump", {}, host, diags);
  fuzz::require(rules.has_value() || diags.has_errors(),
                "a refusal has a reason");
  return 0;
}
