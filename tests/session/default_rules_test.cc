// SPDX-License-Identifier: Apache-2.0
// Where no rules are given: whatever a config of any architecture, class and
// quantiser makes, a rule places it, and scales go where their weights go.
#include "session/default_rules.h"

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/memory_host.h"
#include "tests/support/shipped_rules.h"
#include "tests/support/thinned.h"

namespace shardplan {
namespace {

using testing::Json;

std::vector<std::pair<std::string, Json>> quantisers() {
  const Json group = {{"num_bits", 4},
                      {"type", "int"},
                      {"symmetric", false},
                      {"strategy", "group"},
                      {"group_size", 16}};
  const Json nvfp4 = {{"num_bits", 4},
                      {"type", "float"},
                      {"symmetric", true},
                      {"strategy", "tensor_group"},
                      {"group_size", 16}};
  const auto compressed = [](const char* format, const Json& weights) {
    return Json{
        {"quant_method", "compressed-tensors"},
        {"quantization_status", "compressed"},
        {"format", format},
        {"ignore", {"lm_head"}},
        {"config_groups",
         {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
  };
  return {
      {"fp8", {{"quant_method", "fp8"}, {"weight_block_size", {16, 16}}}},
      {"ct int4", compressed("pack-quantized", group)},
      {"ct nvfp4", compressed("nvfp4-pack-quantized", nvfp4)},
      {"modelopt nvfp4",
       {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}},
      {"modelopt fp8", {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}},
      {"awq",
       {{"quant_method", "awq"},
        {"bits", 4},
        {"group_size", 16},
        {"zero_point", true}}},
      {"gptq", {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 16}}},
      {"bnb 8", {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}}},
      {"bnb 4",
       {{"quant_method", "bitsandbytes"},
        {"load_in_4bit", true},
        {"bnb_4bit_use_double_quant", true}}},
      {"mxfp4", {{"quant_method", "mxfp4"}}},
  };
}

std::string stem_of(std::string_view name) {
  for (const std::string_view end :
       {".weight.absmax", ".weight.nested_absmax"}) {
    if (name.ends_with(end)) return "";
  }
  const size_t dot = name.rfind('.');
  return std::string(name.substr(0, dot == name.npos ? 0 : dot));
}

// A label of one module is on the same axes in all of its tensors, or on none.
void check_scales(const Manifest& manifest, const Plan& plan) {
  std::map<std::pair<std::string, std::string>, AxisNames> axes;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const std::string stem = stem_of(manifest.name(i));
    const AxisLabels* const labels = manifest.axes(i);
    if (labels == nullptr || stem.empty()) continue;
    const PartitionSpec& spec = plan.placements[plan.placement_of[i]].spec;
    for (size_t d = 0; d < spec.dims.size() && d < labels->size(); ++d) {
      if (!(*labels)[d] || spec.dims[d].empty()) continue;
      const auto [known, is_new] =
          axes.try_emplace({stem, *(*labels)[d]}, spec.dims[d]);
      CHECK_MESSAGE(known->second == spec.dims[d], manifest.name(i));
    }
  }
}

TEST_CASE("default rules: nothing that follows from a config is left out") {
  std::ifstream stream(testing::data_path("architectures.jsonl"));
  REQUIRE(stream);
  std::set<std::string> seen;
  std::map<std::string, size_t> placed;
  size_t instead = 0;
  testing::Thinned rows{5};
  for (std::string line; std::getline(stream, line);) {
    const Json row = Json::parse(line);
    Json config = row.at("config");
    if (row.contains("refused") ||
        !seen.insert(config.at("model_type").get<std::string>() +
                     config.value("architectures", Json()).dump())
             .second ||
        rows.skips()) {
      continue;
    }
    CAPTURE(config.at("model_type").get<std::string>());
    CAPTURE(config.value("architectures", Json()).dump());
    auto all = quantisers();
    all.emplace_back("none", Json());
    for (const auto& each : all) {
      const std::string& name = each.first;
      const Json& quantiser = each.second;
      CAPTURE(name);
      if (!quantiser.is_null()) config["quantization_config"] = quantiser;
      if (quantiser.is_null()) config.erase("quantization_config");
      // Whole blocks of 32, which MXFP4 needs.
      if (name == "mxfp4") config["intermediate_size"] = 64;
      const auto model = testing::synthesize(config);
      if (!model->manifest) continue;  // refused, for a reason
      Manifest manifest = *model->manifest;
      testing::MemoryHost host;
      const DefaultSet set = default_set(manifest, PlanRequest(), host);
      REQUIRE(!set.name.empty());
      const RuleSet& rules = testing::shipped_rules(set.name);
      if (rules.architecture_labels) REQUIRE(label_parameters(manifest));
      Diagnostics diags;
      const auto plan = resolve(manifest, rules,
                                testing::mesh("fsdp=2,ep=2,tp=2"), {}, diags);
      REQUIRE(plan);
      for (size_t i = 0; i < manifest.size(); ++i) {
        const Placement& placement = plan->placements[plan->placement_of[i]];
        CHECK_MESSAGE(!plan->is_unmatched(placement), manifest.name(i));
      }
      check_scales(manifest, *plan);
      ++placed[name];
      if (set.why.find(" has no rule for ") != set.why.npos) ++instead;
    }
  }
  CHECK(placed["none"] > rows.of(400));
  CHECK(instead > rows.of(20));
  for (const char* name : {"fp8", "ct int4", "ct nvfp4", "modelopt nvfp4",
                           "modelopt fp8", "bnb 8", "bnb 4"}) {
    CHECK_MESSAGE(placed[name] > rows.of(100), name);
  }
  if (kCountsAllocations) CHECK(placed["mxfp4"] > 0);
}

TEST_CASE("default rules: the set of the type where it has a rule for all") {
  testing::MemoryHost host;
  const auto set_of = [&](const Json& config) {
    const auto model = testing::synthesize(config);
    return default_set(model->good(), PlanRequest(), host);
  };
  Json llama = testing::small_config("llama");
  CHECK(set_of(llama).name == "@llama");
  CHECK(set_of(llama).why == "model type `llama`");
  llama["quantization_config"] = {{"quant_method", "fp8"},
                                  {"weight_block_size", {16, 16}}};
  // Scales of blocks are buffers.
  CHECK(set_of(llama).name == "@llama");
  llama["quantization_config"] = {{"quant_method", "bitsandbytes"},
                                  {"load_in_8bit", true}};
  CHECK(set_of(llama).name == "@all_models");
  CHECK(set_of(llama).why.find("`@llama` has no rule for `model.layers.*.") !=
        std::string::npos);
  llama.erase("quantization_config");
  llama["architectures"] = {"LlamaForSequenceClassification"};
  CHECK(set_of(llama).why ==
        "any model built from a config: `@llama` has no rule for "
        "`score.weight`");
}

}  // namespace
}  // namespace shardplan
