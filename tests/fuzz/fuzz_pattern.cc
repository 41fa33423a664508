// SPDX-License-Identifier: Apache-2.0
// The pattern mini-language, in both readings.
#include <memory>

#include "io/pattern_rules.h"
#include "tests/fuzz/fuzz_dialect.h"

FUZZ_TARGET(pattern) {
  using namespace shardplan;
  for (const auto reading :
       {PatternReading::Strict, PatternReading::Original}) {
    RuleSet rules;
    Diagnostics diags;
    const auto source = std::make_shared<SourceFile>(
        "--pattern", std::string(fuzz::text_of(data, size)));
    const bool good = read_pattern(source, reading, rules, diags);
    fuzz::require(good || diags.has_errors(), "a refusal has a reason");
    if (good) fuzz::resolve_and_check(rules);
  }
  return 0;
}
