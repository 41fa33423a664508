// SPDX-License-Identifier: Apache-2.0
// Placements of DTensor, with names of mesh dimensions from outside.
#include <memory>

#include "io/dialects.h"
#include "resolve/match.h"
#include "tests/fuzz/fuzz.h"

FUZZ_TARGET(dtensor) {
  using namespace shardplan;
  const auto source = std::make_shared<SourceFile>(
      "placements", std::string(fuzz::text_of(data, size)));
  Diagnostics diags;
  RuleSet rules;
  const bool good =
      kDtensor.read(source, {std::nullopt, {"dp", "tp"}}, rules, diags);
  fuzz::require(good || diags.has_errors(), "a refusal has a reason");
  if (!good) return 0;
  for (const Rule& rule : rules.rules) {
    fuzz::require(rule.spec.dims.size() == rule.dim_where.size(),
                  "every entry has a place");
    fuzz::require(rule.spec.dims.size() <= 64, "ranks are bounded");
  }
  Matcher::compile(rules, false, diags);
  return 0;
}
