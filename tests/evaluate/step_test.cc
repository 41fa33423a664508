// SPDX-License-Identifier: Apache-2.0
// Brackets of a training step for every architecture with a forward pass.
#include "evaluate/step.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "activations/bracket_rows.h"
#include "base/allocation.h"
#include "evaluate/plan_judge.h"
#include "memory/budget.h"
#include "model/architectures.h"
#include "model/forward/recognise.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/thinned.h"
#include "tests/support/trained.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::Json;

using Ends = std::array<int64_t, kSavingModes>;

Ends row_of(const MemoryBracket& bracket, const char* category) {
  for (const BracketRow& row : bracket.rows) {
    if (row.category == category) return row.bytes;
  }
  return {};
}

void check_sums(const MemoryBracket& bracket) {
  Ends sums{};
  for (const BracketRow& row : bracket.rows) {
    for (size_t k = 0; k < kSavingModes; ++k) {
      CHECK(row.bytes[k] >= 0);
      sums[k] += row.bytes[k];
    }
  }
  CHECK(sums == bracket.total);
  CHECK(bracket.lower() <= bracket.estimate());
  CHECK(bracket.estimate() <= bracket.upper());
}

// Each keeps what the next one does, and more.
const std::vector<std::array<const char*, 2>> kMoreAndLess = {
    {"none", "minimal_with_context"},
    {"minimal_with_context", "dots"},
    {"minimal_with_context", "block"},
    {"dots", "full"},
    {"block", "full"}};

// Bytes by category are the total of every class of devices, where these are
// not alike: stages, shards of parts that do not divide. Whether there was an
// answer.
bool sums_hold(const StepModel& model, const Manifest& manifest,
               const RuleSet& rules, const char* axes,
               const AskedMemory& asked) {
  CAPTURE(axes);
  Diagnostics diags;
  const auto plan = resolve(manifest, rules, testing::mesh(axes), {}, diags);
  REQUIRE(plan);
  BudgetOptions how;
  how.state.optimizer = Optimizer::AdamW;
  how.reserve = 1000;
  if (axes[0] == 'p') how.stages = Stages{"pp", {}};
  const auto budget = make_budget(manifest, *plan, how, diags);
  if (!budget) return false;  // fewer layers than stages
  for (const BudgetClass& device : budget->classes) {
    CAPTURE(device.label);
    CHECK(std::accumulate(device.bytes.begin(), device.bytes.end(),
                          int64_t{0}) == device.total);
  }
  Steps steps(asked, model, manifest, *plan, &rules);
  StepOptions step;
  step.microbatches = 2;
  const auto judged =
      steps.judge({6, 9}, how, *budget, model.sized(step, how.state, {}, false),
                  nullptr, diags);
  if (!judged) return false;
  const MemoryBracket* const bracket = &judged->bracket;
  check_sums(*bracket);
  Ends most{};
  for (const StageBracket& stage : bracket->stages) {
    for (size_t k = 0; k < kSavingModes; ++k) {
      most[k] = std::max(most[k], stage.total[k]);
    }
  }
  if (!bracket->stages.empty()) CHECK(most == bracket->total);
  return true;
}

// One config of each type.
std::vector<Json> one_of_each() {
  std::vector<Json> records;
  std::set<std::string> types;
  std::ifstream lines(testing::data_path("logits.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    Json record = Json::parse(line);
    const std::string type = record.at("config").value("model_type", "?");
    if (types.insert(type).second) records.push_back(std::move(record));
  }
  return records;
}

TEST_CASE(
    "steps: more rematerialisation never holds more, a larger batch never "
    "less, "
    "of every architecture") {
  testing::MemoryHost host;
  const auto rules = testing::loaded_rules(host, "@all_models");
  REQUIRE(rules->rules);
  int answered = 0;
  int unequal = 0;
  testing::Thinned rows{6};
  for (const Json& record : one_of_each()) {
    if (rows.skips()) continue;
    const Json& config = record.at("config");
    CAPTURE(config.value("model_type", "?"));
    const auto synthesis = testing::synthesize(config);
    if (!synthesis->manifest) continue;
    Manifest& manifest = *synthesis->manifest;
    REQUIRE(label_parameters(manifest));
    Diagnostics diags;
    const auto plan = resolve(manifest, *rules->rules,
                              testing::mesh("fsdp=2,tp=2"), {}, diags);
    REQUIRE(plan);
    const BudgetOptions how;
    const auto budget = make_budget(manifest, *plan, how, diags);
    REQUIRE(budget);
    StepModel model;
    const auto runnable = recognise_model(
        manifest, testing::parsed_config(config), nullptr, diags);
    if (!runnable) continue;
    model.runnable = &*runnable;
    model.most_stored = DType::BF16;
    AskedMemory asked;
    if (record.at("inputs").contains("decoder_input_ids")) {
      asked.source_seq = 8;
    }
    Steps steps(asked, model, manifest, *plan, &*rules->rules);
    const auto bracket_of = [&](int64_t batch, const StepOptions& step) {
      const auto judged = steps.judge(
          {batch, 8}, how, *budget,
          model.sized(step, how.state, std::string("h100-sxm"), false), nullptr,
          diags);
      REQUIRE_MESSAGE(judged, testing::messages(diags));
      check_sums(judged->bracket);
      return judged->bracket;
    };
    for (const char* axes : {"pp=2,tp=2", "fsdp=3"}) {
      unequal += sums_hold(model, manifest, *rules->rules, axes, asked) ? 1 : 0;
    }
    std::map<std::string, Ends> held;
    for (const char* name :
         {"none", "minimal_with_context", "dots", "block", "full"}) {
      StepOptions step;
      step.remat = *read_remat(name, diags);
      held[name] = bracket_of(4, step).total;
    }
    for (const auto& pair : kMoreAndLess) {
      const std::string more = pair[0];
      const std::string less = pair[1];
      CAPTURE(more);
      CAPTURE(less);
      // A policy keeps a product as it is made. That of phi3's fused
      // projections is whole on every device of `tp`, which takes its part of
      // gate and up afterwards: backward reads these parts alone, so that the
      // estimate without a policy is less.
      const bool fused_projections =
          more == "none" && config.value("model_type", "?") == "phi3";
      for (size_t k = 0; k < kSavingModes; ++k) {
        if (fused_projections && k == 1) continue;
        CAPTURE(k);
        CHECK(held[less][k] <= held[more][k]);
      }
    }
    const MemoryBracket any = bracket_of(4, {});
    for (const FrameworkDef& each : frameworks()) {
      CAPTURE(each.name);
      StepOptions step;
      step.framework = &each;
      const MemoryBracket known = bracket_of(4, step);
      // Beside what libraries hold for themselves.
      const Ends workspaces = row_of(known, "workspaces");
      // Where operations are known, a margin is left (bracket_rows.h).
      CHECK(known.lower() - workspaces[0] >=
            any.lower() * (100 - kActivationSlack) / 100);
      CHECK(known.upper() - workspaces[2] <= any.upper());
    }
    for (const char* name : {"none", "full"}) {
      StepOptions step;
      step.remat = *read_remat(name, diags);
      const Ends twice = bracket_of(8, step).total;
      for (size_t k = 0; k < kSavingModes; ++k) {
        CHECK(twice[k] >= held[name][k]);
      }
    }
    ++answered;
  }
  CHECK(answered > (kCountsAllocations ? 75 : 10));
  CHECK(unequal > answered);
}

TEST_CASE("weights are gathered over axes that cut tokens, and no heads") {
  AskedMemory asked;
  const Mesh mesh = testing::mesh("fsdp=2,sp=4,tp=2,cp=2");
  CHECK(step_token_axes(asked, nullptr, mesh) == AxisNames{"sp"});
  CHECK(step_token_axes(asked, nullptr, testing::mesh("fsdp=2,sp=1")).empty());
  asked.axes.sequence = {"cp", "tp"};
  CHECK(step_token_axes(asked, nullptr, mesh) == AxisNames{"cp"});
  // Of these stages hold layers.
  asked.options.stages = Stages{"cp", {}};
  CHECK(step_token_axes(asked, nullptr, mesh).empty());
}

// Whatever the axis is called over which a batch or its tokens are cut.
TEST_CASE("a mesh whose sp cuts weights gathers them as one with fsdp does") {
  testing::MemoryHost host;
  const auto rules = testing::loaded_rules(host, "@llama");
  REQUIRE(rules->rules);
  auto synthesis = testing::synthesize(testing::kLlama);
  const Model model(std::move(synthesis->good()));
  AskedMemory memory;
  memory.workload = Workload{8, 16};
  memory.options.state.optimizer = Optimizer::AdamW;
  const auto gathered = [&](const char* axes) {
    Diagnostics diags;
    const auto plan =
        resolve(model.manifest, *rules->rules, testing::mesh(axes), {}, diags);
    REQUIRE_MESSAGE(plan, testing::messages(diags));
    LayerCache layers;
    const auto judge =
        PlanJudge::of({model, &*rules->rules, memory}, *plan, layers, diags);
    REQUIRE_MESSAGE(judge, testing::messages(diags));
    const auto budget = judge->budget({}, diags);
    REQUIRE_MESSAGE(budget, testing::messages(diags));
    std::vector<std::array<int64_t, 2>> bytes;
    for (const GatheredClass& each : budget->gathered) {
      bytes.push_back({each.sharded, each.gathered});
    }
    return std::pair(bytes, budget->replicated_gradients);
  };
  const auto expected = gathered("fsdp=8,sp=1,tp=2");
  CHECK(expected.first.front()[1] > 0);
  for (const char* axes :
       {"fsdp=4,sp=2,tp=2", "fsdp=2,sp=4,tp=2", "fsdp=1,sp=8,tp=2"}) {
    CAPTURE(axes);
    CHECK(gathered(axes) == expected);
  }
}

}  // namespace
}  // namespace shardplan
