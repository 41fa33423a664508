// SPDX-License-Identifier: Apache-2.0
// Readers of rules: a refusal has a reason, and what is read can be resolved.
#include <memory>
#include <string>

#include "core/fold.h"
#include "core/manifest.h"
#include "io/dialects.h"
#include "io/load.h"
#include "io/pattern_rules.h"
#include "resolve/match.h"
#include "resolve/resolve.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/memory_host.h"

namespace shardplan::fuzz {

inline Manifest labelled_model() {
  Manifest manifest;
  manifest.add("h/0/mlp/kernel", {DType::F32, {8, 12}}, {});
  manifest.set_axes(0, {"embed", "mlp"});
  manifest.add("wte/embedding", {DType::F32, {16, 8}}, {});
  manifest.set_axes(1, {"vocab", std::nullopt});
  manifest.add("step", {DType::I32, {}}, {});
  return manifest;
}

// Nothing lost: every parameter has a placement, of its own rank or `[]`.
inline void resolve_and_check(const RuleSet& rules) {
  const Manifest manifest = labelled_model();
  const Mesh mesh({{"fsdp", 2}, {"tp", 2}});
  Diagnostics diags;
  const auto plan = resolve(manifest, rules, mesh, {}, diags);
  require(plan.has_value() || diags.has_errors(), "a refusal has a reason");
  if (!plan) return;
  require(plan->placement_of.size() == manifest.size(), "all are placed");
  for (size_t i = 0; i < manifest.size(); ++i) {
    const Placement& placement = plan->of(i);
    require(placement.spec.dims.empty() ||
                placement.spec.dims.size() == placement.type.shape.size(),
            "a spec has the rank, or is empty");
  }
}

inline int read_rules_as(const char* dialect, const uint8_t* data,
                         size_t size) {
  testing::MemoryHost host;
  host.files["rules"] = std::string(text_of(data, size));
  Diagnostics diags;
  const std::string paths[] = {"rules"};
  const auto rules = load_rules(paths, dialect, {}, host, diags);
  require(rules.has_value() || diags.has_errors(), "a refusal has a reason");
  if (rules) resolve_and_check(*rules);
  return 0;
}

}  // namespace shardplan::fuzz

// Rules files, and the patterns in them: what compiles is found alike by the
// combined automaton and by a loop over the rules.
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

// Tables in Python source.
FUZZ_TARGET(python) {
  return shardplan::fuzz::read_rules_as("python", data, size);
}

// Lists of logical axis rules.
FUZZ_TARGET(flax) { return shardplan::fuzz::read_rules_as("flax", data, size); }

// MaxText's configs.
FUZZ_TARGET(maxtext) {
  return shardplan::fuzz::read_rules_as("maxtext", data, size);
}

// Levanter's trainer configs.
FUZZ_TARGET(levanter) {
  return shardplan::fuzz::read_rules_as("levanter", data, size);
}

// Tensor-parallel plans: every rule but the last tells its key, which names
// fold to.
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

// Placements of DTensor, with names of mesh dimensions from outside.
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

// The pattern mini-language, in both readings.
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
