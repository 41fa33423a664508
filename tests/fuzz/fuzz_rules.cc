// SPDX-License-Identifier: Apache-2.0
// Rules files, and the patterns in them: what compiles is found alike by the
// combined automaton and by a loop over the rules.
#include "io/load.h"
#include "resolve/match.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/memory_host.h"

FUZZ_TARGET(rules) {
  using namespace shardplan;
  testing::MemoryHost host;
  host.files["rules"] = std::string(fuzz::text_of(data, size));
  Diagnostics diags;
  const std::string paths[] = {"rules"};
  const std::optional<RuleSet> rules =
      load_rules(paths, std::nullopt, {}, host, diags);
  fuzz::require(rules.has_value() || diags.has_errors(),
                "a refusal has a reason");
  if (!rules) return 0;
  const auto matcher = Matcher::compile(*rules, (size & 1U) != 0, diags);
  if (!matcher) return 0;
  std::vector<int> found;
  std::vector<int> one_by_one;
  for (const std::string_view name :
       {"", "model.layers.0.self_attn.q_proj.weight", "a/b/c", "größe"}) {
    matcher->find(name, found);
    matcher->find_one_by_one(name, one_by_one);
    fuzz::require(found == one_by_one, "the automaton is the loop");
  }
  return 0;
}
