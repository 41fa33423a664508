// SPDX-License-Identifier: Apache-2.0
// StableHLO modules, as a model and as rules.
#include <memory>

#include "io/dialects.h"
#include "io/formats.h"
#include "tests/fuzz/fuzz_manifest.h"

FUZZ_TARGET(stablehlo) {
  using namespace shardplan;
  const auto source = std::make_shared<SourceFile>(
      "module", std::string(fuzz::text_of(data, size)));
  testing::MemoryHost host;
  Diagnostics diags;
  const auto manifest = kStableHlo.read({"module", "", source}, host, diags);
  fuzz::require(manifest.has_value() || diags.has_errors(),
                "a refusal has a reason");
  diags = {};
  RuleSet rules;
  const bool good =
      kShardy.read(source, {std::nullopt, {"a", "b"}}, rules, diags);
  fuzz::require(good || diags.has_errors(), "a refusal has a reason");
  if (good && manifest) {
    fuzz::require(rules.rules.size() <= manifest->size(),
                  "a rule belongs to an argument");
  }
  return 0;
}
