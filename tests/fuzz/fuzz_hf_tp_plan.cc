// SPDX-License-Identifier: Apache-2.0
// Tensor-parallel plans: every rule but the last tells its key, which names
// fold to.
#include <memory>

#include "core/fold.h"
#include "io/dialects.h"
#include "resolve/match.h"
#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(hf_tp_plan) {
  using namespace shardplan;
  const auto source = std::make_shared<SourceFile>(
      "plan", std::string(fuzz::text_of(data, size)));
  Diagnostics diags;
  RuleSet rules;
  const bool good = kHfTpPlan.read(source, {}, rules, diags);
  fuzz::require(good || diags.has_errors(), "a refusal has a reason");
  if (!good) return 0;
  for (size_t i = 0; i + 1 < rules.rules.size(); ++i) {
    fuzz::require(key_of_pattern(rules.rules[i].pattern).has_value(),
                  "a rule has its key");
  }
  Matcher::compile(rules, false, diags);
  return 0;
}
