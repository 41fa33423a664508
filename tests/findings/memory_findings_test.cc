// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "evaluate/evaluate.h"
#include "findings/findings.h"
#include "memory/budget.h"
#include "memory/stages.h"
#include "session/suggestions.h"
#include "tests/support/placed.h"

namespace shardplan {
namespace {

struct OverMemory {
  std::vector<std::string> facts;
  std::vector<std::string> help;
  std::string message;
};

OverMemory over_memory(Manifest manifest, const std::string& mesh,
                       const BudgetOptions& options,
                       const std::string& spec = "") {
  const Model model(std::move(manifest));
  const Plan plan =
      testing::placed(model.manifest, testing::rules({{".", spec}}), mesh);
  AskedMemory memory;
  memory.options = options;
  LayerCache layers;
  Diagnostics diags;
  const auto judge =
      PlanJudge::of({model, nullptr, memory}, plan, layers, diags);
  REQUIRE(judge);
  const auto budget = judge->budget({}, diags);
  REQUIRE(budget);
  const std::vector<TriedChange> tried = tried_states(*judge, *budget);
  MemoryInput input{model.manifest, plan, *judge->held().groups, options,
                    *budget};
  if (!budget->fits()) input.tried = &tried;
  lint(input, diags);
  if (diags.all().empty()) return {};
  const Diagnostic& found = diags.all().front();
  return {found.facts, found.help, found.message};
}

BudgetOptions adamw(int64_t limit) {
  BudgetOptions options;
  options.state.optimizer = Optimizer::AdamW;
  options.limit = DeviceLimit{"chip", limit + 1024, limit};
  return options;
}

bool any_contains(const std::vector<std::string>& lines,
                  const std::string& text) {
  for (const std::string& line : lines) {
    if (line.find(text) != std::string::npos) return true;
  }
  return false;
}

TEST_CASE("a plan that fits is not a finding") {
  const Manifest manifest = testing::manifest({{"w", "f32[1024]"}});
  CHECK(over_memory(manifest, "dp=4", adamw(4 * 4096 + 4)).message.empty());
}

TEST_CASE("what is missing and what would help is computed") {
  const Manifest manifest = testing::manifest({{"w", "f32[1024]"}});
  // 4 KiB each of weights, gradient and two moments, and a counter.
  const OverMemory found =
      over_memory(manifest, "dp=4", adamw(4 * 4096 - 1024 + 4));
  CHECK(found.message ==
        "the plan needs 16.0 KiB per device, 1.00 KiB over capacity");
  REQUIRE(found.facts.size() == 2);
  CHECK(found.facts[0] ==
        "optimizer state 8.00 KiB, parameters 4.00 KiB, "
        "gradients 4.00 KiB");
  CHECK(found.facts[1] == "chip: 15.0 KiB usable of 16.0 KiB");
  CHECK(any_contains(found.help,
                     "`--zero 1 --zero-axes dp` would need 10.0 KiB per "
                     "device: it fits, with 5.00 KiB to spare"));
  CHECK(any_contains(found.help, "`--moment-dtype bf16` would need 12.0 KiB"));
  CHECK(any_contains(found.help, "`--optimizer lion` would need 12.0 KiB"));
  CHECK(any_contains(found.help,
                     "parameters and training state are 16.0 KiB in total: 4 "
                     "devices could hold them at 4.00 KiB each"));
}

TEST_CASE("how many devices would do is reported where none of these does") {
  const Manifest manifest = testing::manifest({{"w", "f32[1024]"}});
  const OverMemory found = over_memory(manifest, "tp=2", adamw(2048), "tp");
  CHECK_FALSE(any_contains(found.help, "--zero"));
  CHECK(any_contains(
      found.help,
      "at least 9 devices of this kind are needed (5 times as many)"));
}

TEST_CASE(
    "a smaller batch or context is offered where the cache is too large") {
  Manifest manifest = testing::manifest({{"w", "bf16[512]"}});
  manifest.facts.from = FactsFrom::Manifest;
  manifest.facts.layers = 1;
  manifest.facts.heads = 1;
  manifest.facts.kv_heads = 1;
  manifest.facts.head_dim = 8;
  BudgetOptions options;
  options.kv = KvRequest{4, 100, DType::BF16, 1, false};
  // 32 bytes a token: room for 256 tokens beside 1 KiB of weights.
  options.limit = DeviceLimit{"--memory", 1024 + 256 * 32, 1024 + 256 * 32};
  const OverMemory found = over_memory(manifest, "tp=1", options);
  CHECK(any_contains(found.help, "`--batch 2` would fit at 100 tokens"));
  CHECK(any_contains(found.help, "`--seq 64` would fit at batch 4"));
}

TEST_CASE("layers that do not divide by stages are said") {
  const Manifest manifest = testing::manifest(
      {{"h/0/w", "f32[4]"}, {"h/1/w", "f32[4]"}, {"h/2/w", "f32[4]"}});
  const Plan plan =
      testing::placed(manifest, testing::rules({{".", ""}}), "pp=2");
  const auto found = [&](const Stages& stages) {
    LintOptions how;
    how.stages = parameter_stages(
        manifest, plan, layer_groups(manifest, plan.placement_of), stages);
    Diagnostics diags;
    REQUIRE(judge_plan(Model(manifest), nullptr, plan, how,
                       std::array{Needs::WholePlan}, diags));
    return diags;
  };
  const Diagnostics uneven = found({"pp", {}});
  REQUIRE_FALSE(uneven.all().empty());
  const Diagnostic& first = uneven.all().back();
  CHECK(first.code == Code::UnevenStages);
  CHECK(first.message == "3 layers do not divide evenly into 2 stages");
  CHECK(any_contains(first.help, "--stages pp:2,1"));
  const Diagnostics named = found({"pp", {1, 2}});
  for (const Diagnostic& each : named.all()) {
    CHECK(each.code != Code::UnevenStages);
  }
}

TEST_CASE("every category has a title") {
  for (size_t i = 0; i < kCategories; ++i) {
    CHECK_FALSE(category_title(static_cast<Category>(i)).empty());
  }
}

}  // namespace

}  // namespace shardplan
