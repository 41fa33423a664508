// SPDX-License-Identifier: Apache-2.0
// Brackets from shapes enclose those from forward passes, wherever there are
// both.
#include "activations/shapes.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "activations/step_memory.h"
#include "base/allocation.h"
#include "io/formats.h"
#include "model/forward/recognise.h"
#include "resolve/resolve.h"
#include "sim/repeated_layers.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/thinned.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::Json;
using testing::mesh;

struct Case {
  std::string text;
  Json config;
};

// One of each type and class, and of every `stride`-th else.
std::vector<Case> recorded_configs(size_t stride) {
  std::vector<Case> cases;
  std::set<std::string> seen;
  size_t number = 0;
  for (const char* file : {"logits.jsonl", "architectures.jsonl"}) {
    std::ifstream stream(testing::data_path(file));
    for (std::string line; std::getline(stream, line);) {
      const Json record = Json::parse(line);
      if (!record.contains("config")) continue;
      Json config = record.at("config");
      const std::string type = config.value("model_type", "?");
      const std::string name =
          type + config.value("architectures", Json()).dump();
      if (!seen.insert(name).second && ++number % stride != 0) continue;
      cases.push_back({type + " " + record.value("case", std::string()),
                       std::move(config)});
    }
  }
  return cases;
}

struct Trial {
  std::string mesh = "fsdp=2";
  std::string remat = "none";
  bool scores = false;
  bool dropout = false;
  int64_t length = 20;
};

const std::array<Trial, 8> kTrials = {{
    {"fsdp=2", "none", false, false, 20},
    {"fsdp=2", "full", true, false, 64},
    {"fsdp=2", "dots", false, true, 20},
    {"fsdp=2,tp=2", "none", true, true, 20},
    {"fsdp=2,tp=2", "full", false, false, 20},
    {"fsdp=2,tp=2", "block", false, false, 64},
    {"tp=2", "minimal", false, false, 20},
    {"fsdp=4", "selective", true, false, 64},
}};

StepOptions options_of(const Trial& trial) {
  StepOptions step;
  Diagnostics diags;
  const auto remat = read_remat(trial.remat, diags);
  REQUIRE_MESSAGE(remat, testing::messages(diags));
  step.remat = *remat;
  step.segments.dropout.mlp = trial.dropout;
  if (trial.scores) step.segments.attention = AttentionKind::Scores;
  return step;
}

// A model on a mesh, with rules for every architecture.
struct Placed {
  std::unique_ptr<testing::Synthesis> synthesis;
  std::optional<Plan> plan;
  std::optional<Budget> budget;
  BudgetOptions how = {};

  const Manifest& manifest() const { return *synthesis->manifest; }
};

std::optional<Placed> placed(const Json& config, const RuleSet& rules,
                             const char* axes) {
  Placed result;
  result.synthesis = testing::synthesize(config);
  if (!result.synthesis->manifest) return std::nullopt;
  Diagnostics diags;
  REQUIRE(label_parameters(*result.synthesis->manifest));
  result.plan = resolve(result.manifest(), rules, mesh(axes), {}, diags);
  REQUIRE_MESSAGE(result.plan, testing::messages(diags));
  result.budget =
      make_budget(result.manifest(), *result.plan, result.how, diags);
  REQUIRE_MESSAGE(result.budget, testing::messages(diags));
  return result;
}

constexpr int64_t kSequences = 2;

ShapedLayers shaped(const Placed& of, const Json& config,
                    const StepOptions& step, int64_t length,
                    std::vector<bool> frozen = {}) {
  ShapedWorkload workload;
  workload.frozen = std::move(frozen);
  workload.sequences = kSequences;
  workload.length = workload.source_length = length;
  workload.batch = {"fsdp"};
  workload.gathered = {"fsdp"};
  workload.experts_per_token =
      config_experts_per_token(testing::parsed_config(config)->root());
  return layers_by_shapes(of.manifest(), *of.plan, workload, step);
}

MemoryBracket bracket_of(const Placed& of, const StepLayers& layers,
                         const StepOptions& step) {
  Diagnostics diags;
  const auto bracket = step_memory(
      {of.manifest(), *of.plan, *of.budget, of.how, layers}, step, diags);
  REQUIRE_MESSAGE(bracket, testing::messages(diags));
  return *bracket;
}

// Empty where there is no forward pass of that length.
std::optional<StepLayers> by_forward_pass(const Placed& of, const Json& config,
                                          const RuleSet& rules,
                                          const StepOptions& step,
                                          int64_t length,
                                          std::vector<bool> frozen = {}) {
  Diagnostics diags;
  auto model = recognise_model(of.manifest(), testing::parsed_config(config),
                               nullptr, diags);
  if (!model) return std::nullopt;
  ForwardPass pass;
  pass.batch = kSequences * of.plan->mesh.size_of("fsdp");
  pass.length = length;
  ForwardGraphs forward =
      forward_graphs(of.manifest(), *std::move(model), pass, std::move(frozen));
  const auto program = partition_layers(
      forward, {of.manifest(), *of.plan, &rules, {}},
      [](const Program&, const LayerCycle&) { return true; }, EqualLayers::Once,
      diags);
  if (!program) return std::nullopt;
  return step_layers(forward, *program, step,
                     segments_of(program->program, step.segments, {}));
}

const RuleSet& shipped_rules() {
  static testing::MemoryHost host;
  static const auto rules = testing::loaded_rules(host, "@all_models");
  REQUIRE(rules->rules);
  return *rules->rules;
}

ShapedLayers shaped_config(const Json& config, const char* axes = "fsdp=2",
                           const StepOptions& step = {}) {
  const auto of = placed(config, shipped_rules(), axes);
  REQUIRE(of);
  return shaped(*of, config, step, 16);
}

const Json kMistral = {{"architectures", {"MistralForCausalLM"}},
                       {"model_type", "mistral"},
                       {"vocab_size", 512},
                       {"hidden_size", 64},
                       {"intermediate_size", 160},
                       {"num_hidden_layers", 3},
                       {"num_attention_heads", 8},
                       {"num_key_value_heads", 2},
                       {"torch_dtype", "bfloat16"}};

Int128 saved(const StepLayers& layers, size_t segment, SavingMode mode) {
  return layers.plain.at(segment).memory.at(static_cast<size_t>(mode)).saved;
}

}  // namespace

// Where a forward pass is known, its whole bracket lies within that of shapes.
TEST_CASE("shapes: their bracket encloses that of a forward pass") {
  const RuleSet& rules = shipped_rules();
  std::set<std::string> types;
  size_t trials = 0;
  size_t frozen_trials = 0;
  size_t estimates = 0;
  size_t number = 0;
  testing::Thinned rows{5};
  for (const Case& each : recorded_configs(9)) {
    // Sanitizers, whose own allocation is not counted, take minutes for all.
    if (rows.skips()) continue;
    CAPTURE(each.text);
    // Two of the trials for each; a model is met several times.
    for (size_t t = 0; t < 2; ++t) {
      const Trial& trial = kTrials.at(number++ % kTrials.size());
      CAPTURE(trial.mesh);
      CAPTURE(trial.remat);
      CAPTURE(trial.scores);
      const auto of = placed(each.config, rules, trial.mesh.c_str());
      if (!of) break;
      const StepOptions step = options_of(trial);
      // In the second one a part is frozen, another one in each model.
      std::vector<bool> frozen;
      for (size_t i = 0; t > 0 && i < of->manifest().size(); ++i) {
        frozen.push_back((i / 2 + number) % 3 != 0);
      }
      const auto graph =
          by_forward_pass(*of, each.config, rules, step, trial.length, frozen);
      if (!graph) continue;
      ShapedLayers shapes =
          shaped(*of, each.config, step, trial.length, frozen);
      shapes.layers.frozen = frozen;
      if (!shapes.unknown.empty()) {
        CHECK(shapes.unknown == "no part of the model reads tokens");
        continue;
      }
      const MemoryBracket inner = bracket_of(*of, *graph, step);
      const MemoryBracket outer = bracket_of(*of, shapes.layers, step);
      CHECK(outer.lower() <= inner.lower());
      CHECK(outer.upper() >= inner.upper());
      CHECK(outer.lower() <= outer.estimate());
      CHECK(outer.estimate() <= outer.upper());
      types.insert(each.config.value("model_type", "?"));
      if (!frozen.empty()) {
        ++frozen_trials;
        continue;
      }
      estimates += outer.estimate() >= inner.lower() &&
                   outer.estimate() <= inner.upper();
      ++trials;
    }
  }
  CHECK(trials > (kCountsAllocations ? 150U : 25U));
  CHECK(frozen_trials > (kCountsAllocations ? 150U : 25U));
  CHECK(types.size() > (kCountsAllocations ? 55U : 15U));
  // The estimate is one of what a forward pass may hold, nearly always.
  CHECK(estimates * 10 > trials * 9);
}

// Every architecture is answered, or refused for a reason that is known.
TEST_CASE("shapes: what does not follow from them is refused") {
  const RuleSet& rules = shipped_rules();
  std::map<std::string, std::set<std::string>> refused;
  std::set<std::string> answered;
  for (const Case& each : recorded_configs(1'000'000)) {
    const auto of = placed(each.config, rules, "fsdp=2,tp=2");
    if (!of) continue;
    CAPTURE(each.text);
    const std::string type = each.config.value("model_type", "?");
    const ShapedLayers model = shaped(*of, each.config, {}, 16);
    if (!model.unknown.empty()) {
      CHECK(model.layers.plain.empty());
      refused[type].insert(model.unknown);
      continue;
    }
    const MemoryBracket bracket = bracket_of(*of, model.layers, {});
    CHECK(bracket.rows.at(kCategories).bytes[0] > 0);
    CHECK(bracket.lower() <= bracket.estimate());
    CHECK(bracket.estimate() <= bracket.upper());
    answered.insert(type);
  }
  CHECK(answered.size() > 140);
  const std::set<std::string> kShared = {"albert", "zamba2", "longcat_flash"};
  for (const auto& each : refused) {
    const std::string type = each.first;
    CAPTURE(type);
    for (const std::string& reason : each.second) {
      CAPTURE(reason);
      CHECK((reason == "no part of the model reads tokens" ||
             kShared.count(type) == 1));
    }
  }
  CHECK(refused.count("albert") == 1);
}

// What PyTorch keeps of models whose forward pass is not known here
// (tests/data/saved_shapes.jsonl, record_saved_shapes.py).
TEST_CASE("shapes: brackets hold what PyTorch keeps") {
  std::ifstream lines(testing::data_path("saved_shapes.jsonl"));
  std::vector<double> widths;
  for (std::string line; std::getline(lines, line);) {
    const Json recorded = Json::parse(line);
    const std::string name = recorded.at("name");
    CAPTURE(name);
    const Json& config = recorded.at("config");
    const auto of = placed(config, shipped_rules(), "fsdp=1");
    REQUIRE_MESSAGE(of, testing::messages(testing::synthesize(config)->diags));
    StepOptions step;
    step.segments.element_bytes = recorded.at("dtype") == "float32" ? 4 : 2;
    if (recorded.at("attention") == "eager") {
      step.segments.attention = AttentionKind::Scores;
    }
    if (recorded.at("checkpointing").get<bool>()) {
      step.remat.policy = find_remat_policy("full");
    }
    ShapedWorkload workload;
    const Json& inputs = recorded.at("inputs");
    workload.sequences = inputs.at("input_ids").at(0);
    workload.length = workload.source_length = inputs.at("input_ids").at(1);
    if (inputs.contains("decoder_input_ids")) {
      workload.length = inputs.at("decoder_input_ids").at(1);
    }
    workload.experts_per_token =
        config_experts_per_token(testing::parsed_config(config)->root());
    const ShapedLayers model =
        layers_by_shapes(of->manifest(), *of->plan, workload, step);
    REQUIRE(model.unknown == "");
    std::array<int64_t, kSavingModes> saved{};
    std::array<int64_t, kSavingModes> peak{};
    for (size_t k = 0; k < kSavingModes; ++k) {
      for (const Segment& segment : model.layers.recomputed) {
        const SegmentMemory& memory = segment.memory.at(k);
        const auto alive =
            static_cast<int64_t>(std::max(memory.backward, memory.forward));
        peak[k] = std::max(peak[k], saved[k] + alive);
        saved[k] += static_cast<int64_t>(memory.saved);
      }
    }
    const Json& live = recorded.at("live");
    CHECK(saved[0] <= recorded.at("saved").at("forward").get<int64_t>());
    CHECK(saved[2] >= recorded.at("saved").at("forward").get<int64_t>());
    CHECK(peak[0] <= live.at("backward_peak").get<int64_t>());
    CHECK(peak[2] >= live.at("backward_peak").get<int64_t>() -
                         live.at("backward_gradients").get<int64_t>());
    widths.push_back(static_cast<double>(peak[2]) /
                     static_cast<double>(peak[0]));
  }
  CHECK(widths.size() > 75);
  std::sort(widths.begin(), widths.end());
  // The median: beside coverage, so that neither is bought with the other.
  CHECK(widths[widths.size() / 2] < 15);
}

// By hand: two norms in and out, q, k, v, what attention gives, gate, up,
// their product; and a number of each norm in float32.
TEST_CASE(
    "shapes: the estimate of a decoder's layer is what its kernels read") {
  const ShapedLayers model = shaped_config(kMistral);
  const int64_t tokens = kSequences * 16;
  REQUIRE(model.layers.plain.size() == 5);
  CHECK(model.layers.plain[1].label == "layers.0");
  CHECK(saved(model.layers, 1, SavingMode::Fused) ==
        2 * tokens * (4 * 64 + (64 + 2 * 16) + 64 + 3 * 160) + tokens * 2 * 4);
  CHECK(saved(model.layers, 1, SavingMode::Least) ==
        2 * tokens * (64 + (64 + 2 * 16) + 64 + 2 * 160));
  CHECK(model.layers.layers == 3);
  CHECK(model.left_out.empty());
}

TEST_CASE("shapes: tensor parallelism cuts what its weights cut") {
  const int64_t tokens = kSequences * 16;
  const ShapedLayers model = shaped_config(kMistral, "tp=2");
  CHECK(saved(model.layers, 1, SavingMode::Least) ==
        2 * tokens * (64 + (64 + 2 * 16 + 64 + 2 * 160) / 2));
}

TEST_CASE("shapes: the least of a part is what trained matrices read") {
  const auto of = placed(kMistral, shipped_rules(), "fsdp=2");
  REQUIRE(of);
  const int64_t tokens = kSequences * 16;
  StepOptions step;
  std::vector<bool> frozen;
  for (size_t i = 0; i < of->manifest().size(); ++i) {
    const std::string name(of->manifest().name(i));
    frozen.push_back(name.find("layers.1.self_attn.v_proj") == name.npos &&
                     name.find("layers.2.mlp") == name.npos &&
                     name.find("layers.0.input") == name.npos);
  }
  const ShapedLayers model = shaped(*of, kMistral, step, 16, frozen);
  CHECK(saved(model.layers, 1, SavingMode::Least) == 0);
  // The narrower side of v_proj, and of the MLP's.
  CHECK(saved(model.layers, 2, SavingMode::Least) == 2 * tokens * 16);
  CHECK(saved(model.layers, 3, SavingMode::Least) == 2 * tokens * 64);
  Diagnostics diags;
  step.remat = *read_remat("full", diags);
  const ShapedLayers again = shaped(*of, kMistral, step, 16, frozen);
  const auto least = [&](size_t segment) {
    return again.layers.recomputed.at(segment).memory.front().saved;
  };
  CHECK(least(1) == 0);
  CHECK(least(2) == 2 * tokens * 64);
}

TEST_CASE("shapes: a layer that is computed again keeps its input") {
  StepOptions step;
  Diagnostics diags;
  step.remat = *read_remat("full", diags);
  const ShapedLayers model = shaped_config(kMistral, "fsdp=2", step);
  for (const SegmentMemory& memory : model.layers.recomputed.at(1).memory) {
    CHECK(memory.saved == Int128{2} * kSequences * 16 * 64);
  }
}

TEST_CASE("shapes: what no device holds is no small number") {
  const auto of = placed(kMistral, shipped_rules(), "fsdp=1");
  REQUIRE(of);
  ShapedWorkload workload;
  workload.sequences = workload.length = workload.source_length = int64_t{1}
                                                                  << 40U;
  StepOptions step;
  step.segments.attention = AttentionKind::Scores;
  const ShapedLayers model =
      layers_by_shapes(of->manifest(), *of->plan, workload, step);
  Diagnostics diags;
  CHECK(!step_memory(
      {of->manifest(), *of->plan, *of->budget, of->how, model.layers}, step,
      diags));
  CHECK(testing::messages(diags).find("exceeds 63 bits") != std::string::npos);
}

TEST_CASE("shapes: what quantised weights are computed with is not guessed") {
  Json config = testing::sample_config("deepseek-v3");
  const ShapedLayers model = shaped_config(config);
  CHECK(model.unknown.find("is stored quantised") != std::string::npos);
}

TEST_CASE("shapes: of a model that sees, the text alone is answered") {
  for (const Case& each : recorded_configs(1'000'000)) {
    if (each.config.value("model_type", "") != "qwen3_vl") continue;
    const ShapedLayers model = shaped_config(each.config);
    CAPTURE(each.text);
    CHECK(model.unknown.empty());
    REQUIRE(model.left_out.size() == 1);
    CHECK(model.left_out[0].ends_with("visual`"));
  }
}

TEST_CASE("shapes: how many experts a token goes to must be said") {
  Json config = testing::sample_config("mixtral-8x7b");
  CHECK(shaped_config(config).unknown.empty());
  const auto of = placed(config, shipped_rules(), "fsdp=2");
  REQUIRE(of);
  ShapedWorkload workload;
  const ShapedLayers model =
      layers_by_shapes(of->manifest(), *of->plan, workload, {});
  CHECK(model.unknown == "the number of experts per token is unknown");
}

}  // namespace shardplan
