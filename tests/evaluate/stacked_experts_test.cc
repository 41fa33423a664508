// SPDX-License-Identifier: Apache-2.0
#include "evaluate/stacked_experts.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/allocation.h"
#include "evaluate/step.h"
#include "memory/budget.h"
#include "model/architectures.h"
#include "model/forward/recognise.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/placed.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::manifest;
using testing::placed;
using testing::rules;
using testing::spec;

struct Entry {
  std::string name;
  std::string type;
};

// A layer of 16 experts, a router and an embedding.
std::vector<Entry> sixteen() {
  std::vector<Entry> entries = {{"embed.weight", "bf16[64, 32]"}};
  for (int e = 0; e < 16; ++e) {
    const std::string at = "layers.3.mlp.experts." + std::to_string(e);
    entries.push_back({at + ".up_proj.weight", "bf16[48, 32]"});
    entries.push_back({at + ".down_proj.weight", "bf16[32, 48]"});
  }
  entries.push_back({"layers.3.mlp.gate.weight", "bf16[16, 32]"});
  return entries;
}

Manifest manifest_of(const std::vector<Entry>& entries) {
  Manifest result;
  for (const Entry& entry : entries) {
    result.add(entry.name, testing::type(entry.type), {});
  }
  return result;
}

TEST_CASE("stacked experts: parameters of alike experts are one") {
  const Manifest model = manifest_of(sixteen());
  std::vector<bool> frozen(model.size(), true);
  frozen.back() = false;
  const auto stacked = stacked_experts(model, frozen);
  REQUIRE(stacked);
  REQUIRE(stacked->manifest.size() == 4);
  CHECK(stacked->manifest.name(1) == "layers.3.mlp.experts.up_proj.weight");
  CHECK(stacked->manifest.type(1).shape == Shape{16, 48, 32});
  CHECK(stacked->manifest.type(2).shape == Shape{16, 32, 48});
  CHECK(stacked->manifest.total_bytes() == model.total_bytes());
  CHECK(stacked->frozen == std::vector<bool>{true, true, true, false});
  CHECK(stacked->experts == std::vector<int64_t>{0, 16, 16, 0});
  CHECK(stacked->first == std::vector<uint32_t>{0, 1, 2, 33});
  CHECK(stacked->part_of.front() == 0);
  CHECK(stacked->part_of[31] == 1);
  CHECK(stacked->part_of[32] == 2);
  CHECK(stacked->part_of.back() == 3);
  CHECK(of_parts(*stacked, {-1, 3, 4, 5})[32] == 4);

  const auto rows =
      rules({{"up_proj", "tp, fsdp"}, {"down_proj", "fsdp, tp"}, {".", ""}});
  const Plan plan = placed(model, rows, "fsdp=2,tp=4");
  const auto made = stacked_plan(*stacked, plan);
  REQUIRE(made);
  CHECK(made->of(1).spec == spec("None, tp, fsdp"));
  CHECK(made->of(1).local_shape == Shape{16, 12, 16});
  CHECK(made->of(0).spec == plan.of(0).spec);
  CHECK(made->rules == plan.rules);
  CHECK(made->of(1).rule == plan.of(1).rule);
  int64_t bytes = 0;
  int64_t as_stacks = 0;
  for (size_t i = 0; i < model.size(); ++i)
    bytes += plan.of(i).bytes_per_device;
  for (size_t i = 0; i < made->placement_of.size(); ++i) {
    as_stacks += made->of(i).bytes_per_device;
  }
  CHECK(as_stacks == bytes);
  // One expert is placed otherwise.
  const auto one =
      rules({{"experts.7.up_proj", ""}, {"up_proj", "tp, fsdp"}, {".", ""}});
  CHECK_FALSE(stacked_plan(*stacked, placed(model, one, "fsdp=2,tp=4")));
}

TEST_CASE("stacked experts: what differs in more than its number is none") {
  const auto changed = [](const auto& change) {
    std::vector<Entry> entries = sixteen();
    change(entries);
    return stacked_experts(manifest_of(entries), {}).has_value();
  };
  CHECK(changed([](auto&) {}));
  CHECK_FALSE(changed([](auto& all) { all[5].type = "bf16[48, 16]"; }));
  CHECK_FALSE(changed([](auto& all) { all[5].type = "f32[48, 32]"; }));
  // One is missing; one too few to be worth it.
  CHECK_FALSE(changed([](auto& all) { all.erase(all.begin() + 5); }));
  CHECK_FALSE(changed(
      [](auto& all) { all.erase(all.begin() + 31, all.begin() + 33); }));
  // The name of the stack is taken.
  CHECK_FALSE(changed([](auto& all) {
    all.push_back({"layers.3.mlp.experts.up_proj.weight", "bf16[2]"});
  }));
  // Nobody computes an adapter of a stack.
  CHECK_FALSE(changed([](auto& all) {
    all.push_back(
        {"layers.3.mlp.experts.0.up_proj.lora_A.weight", "f32[2, 32]"});
  }));
  // One of them is trained.
  const Manifest model = manifest_of(sixteen());
  std::vector<bool> frozen(model.size(), true);
  frozen[7] = false;
  CHECK_FALSE(stacked_experts(model, frozen));
}

// A config of the type with 16 experts.
std::optional<Json> with_sixteen(Json config) {
  bool is_set = false;
  for (const char* key : {"num_experts", "n_routed_experts",
                          "num_local_experts", "moe_num_experts"}) {
    if (!config.contains(key) || !config[key].is_number()) continue;
    config[key] = 16;
    is_set = true;
  }
  if (!is_set) return std::nullopt;
  return config;
}

TEST_CASE("stacked experts: brackets are those of experts one by one") {
  testing::MemoryHost host;
  const auto all = testing::loaded_rules(host, "@all_models");
  REQUIRE(all->rules);
  const RuleSet names = rules({{"(gate|up)_proj", "tp, fsdp"},
                               {"down_proj", "fsdp, tp"},
                               {"embed|lm_head", "tp, None"},
                               {".", ""}});
  std::set<std::string> judged;
  std::ifstream lines(testing::data_path("logits.jsonl"));
  // Sanitizers, whose own allocation is not counted, look at few.
  const size_t most = kCountsAllocations ? 100 : 3;
  for (std::string line; judged.size() < most && std::getline(lines, line);) {
    const auto config = with_sixteen(Json::parse(line).at("config"));
    if (!config || judged.count(config->value("model_type", "?")) > 0) continue;
    CAPTURE(config->dump());
    const auto synthesis = testing::synthesize(*config);
    if (!synthesis->manifest) continue;
    Manifest& model = *synthesis->manifest;
    Diagnostics diags;
    StepModel one_by_one;
    const auto runnable =
        recognise_model(model, testing::parsed_config(*config), nullptr, diags);
    if (!runnable) continue;
    one_by_one.runnable = &*runnable;
    one_by_one.most_stored = DType::BF16;
    StepModel as_stacks = one_by_one;
    as_stacks.stacked = stacked_experts(model, {});
    if (!as_stacks.stacked) continue;
    REQUIRE(label_parameters(model));
    // Rules for labels and, of every other model, for names.
    const bool by_name = judged.size() % 2 == 1;
    const RuleSet& by = by_name ? names : *all->rules;
    const auto plan =
        resolve(model, by, testing::mesh("fsdp=2,tp=2"), {}, diags);
    REQUIRE(plan);
    const BudgetOptions how;
    const auto budget = make_budget(model, *plan, how, diags);
    REQUIRE(budget);
    const AskedMemory asked;
    Steps slow(asked, one_by_one, model, *plan, &by);
    Steps fast(asked, as_stacks, model, *plan, &by);
    for (const Kernels kernels :
         {Kernels::Any, Kernels::Fused, Kernels::Eager}) {
      for (const char* remat : {"none", "dots", "block"}) {
        CAPTURE(remat);
        StepOptions step;
        step.kernels = kernels;
        step.remat = *read_remat(remat, diags);
        const auto a =
            slow.judge({4, 8}, how, *budget,
                       one_by_one.sized(step, {}, {}, false), nullptr, diags);
        const auto b =
            fast.judge({4, 8}, how, *budget,
                       as_stacks.sized(step, {}, {}, false), nullptr, diags);
        REQUIRE_MESSAGE(a, testing::messages(diags));
        REQUIRE_MESSAGE(b, testing::messages(diags));
        const MemoryBracket& each = a->bracket;
        const MemoryBracket& stacks = b->bracket;
        // Tokens of an expert are rounded up.
        CHECK(std::abs(each.estimate() - stacks.estimate()) <=
              each.estimate() / 1000);
        CHECK(std::abs(each.upper() - stacks.upper()) <= each.upper() / 1000);
        // Answers one by one have a gradient each beside that of all.
        CHECK(stacks.lower() <= each.lower());
        CHECK(stacks.lower() >= each.lower() * 8 / 10);
      }
    }
    judged.insert(config->value("model_type", "?"));
  }
  CHECK(judged.size() >= std::min<size_t>(most, 8));
}

}  // namespace
}  // namespace shardplan
