// SPDX-License-Identifier: Apache-2.0
// The set for every model (rules/logical/all_models.yaml), which places
// dimensions by their labels: it says what the sets for one type say, and has a
// rule for every label.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core/fold.h"
#include "io/formats.h"
#include "io/load.h"
#include "tests/support/hf_config.h"
#include "tests/support/linted.h"
#include "tests/support/memory_host.h"
#include "tests/support/safetensors.h"
#include "tests/support/shipped_rules.h"
#include "tests/support/thinned.h"

namespace shardplan {
namespace {

using testing::Json;

constexpr const char* kEveryModel = "@all_models";
constexpr const char* kDenseMeshes[] = {"fsdp=2,tp=2", "dp=2,fsdp=2,tp=4,sp=2"};
constexpr const char* kExpertMeshes[] = {"fsdp=2,tp=2",
                                         "fsdp=2,ep=2,tp=2",
                                         "ep=2,tp=2,sp=2",
                                         "fsdp=2,tp=4 experts:ep=4,edp=2",
                                         "tp=8 experts:ep=2,etp=2,efsdp=2",
                                         "fsdp=2,dp=2 experts:efsdp=2,ep=2"};

// `mesh` may have a view behind a blank: "fsdp=4,tp=8 experts:ep=8,edp=4".
Mesh mesh_of(const std::string& text) {
  const size_t blank = text.find(' ');
  if (blank == std::string::npos) return testing::mesh(text);
  return testing::mesh_with_views(text.substr(0, blank),
                                  {text.substr(blank + 1)});
}

Plan plan_of(const Manifest& manifest, const std::string& named,
             const std::string& mesh_text) {
  Diagnostics diags;
  const Mesh mesh = mesh_of(mesh_text);
  RuleSet rules = testing::shipped_rules(named);
  mark_inactive_views(rules, mesh);
  auto plan = resolve(manifest, rules, mesh, {}, diags);
  REQUIRE(plan);
  return *std::move(plan);
}

std::string placed_text(const Placement& placement) {
  const auto& dealt = placement.dealt;
  return spec_text(placement.spec) +
         (dealt ? " dealt over " + dealt->axis : "") +
         (placement.view.empty() ? "" : " of " + placement.view);
}

// What differs between the two, by folded name; and how many are the same.
struct Comparison {
  std::map<std::string, std::string> different;
  size_t same = 0;
};

void compare(Manifest manifest, const std::string& type, Comparison& result) {
  const Manifest named = manifest;
  REQUIRE(label_parameters(manifest));
  // Where a set does not use an axis, more of it shards nothing.
  const std::vector<Rule>& rules = testing::shipped_rules("@" + type).rules;
  const bool experts =
      std::any_of(rules.begin(), rules.end(), [](const Rule& rule) {
        return spec_text(rule.spec).find("ep") != std::string::npos;
      });
  std::vector<std::string> meshes;
  if (experts) {
    meshes.assign(std::begin(kExpertMeshes), std::end(kExpertMeshes));
  } else {
    meshes.assign(std::begin(kDenseMeshes), std::end(kDenseMeshes));
  }
  for (const std::string& mesh : meshes) {
    const Plan one = plan_of(named, "@" + type, mesh);
    const Plan other = plan_of(manifest, kEveryModel, mesh);
    for (size_t i = 0; i < manifest.size(); ++i) {
      const Placement& a = one.placements[one.placement_of[i]];
      const Placement& b = other.placements[other.placement_of[i]];
      // The sets for one type are for one task.
      if (a.rule == 0) continue;
      if (a.spec == b.spec && a.dealt == b.dealt && a.view == b.view) {
        ++result.same;
        continue;
      }
      result.different[type + " " + folded_name(manifest.name(i))] =
          mesh + ": " + placed_text(a) + " and " + placed_text(b);
    }
  }
}

TEST_CASE("labels: one set says what the sets for one type say") {
  Comparison found;
  for (const Manifest& sample : family_samples()) {
    std::string type = sample.title;
    if (type.ends_with("_text")) type.resize(type.size() - 5);
    compare(sample, type, found);
  }
  for (const auto& each : found.different) {
    CHECK_MESSAGE(false, each.first << " " << each.second);
  }
  CHECK(found.same > 1000);
}

TEST_CASE("labels: real sizes are placed alike") {
  Comparison found;
  for (const char* name :
       {"llama-3.1-8b", "llama-3.1-70b", "mixtral-8x7b", "qwen3-30b-a3b",
        "deepseek-v3", "gemma-2-9b", "mistral-7b"}) {
    CAPTURE(name);
    const auto model = testing::synthesize(testing::sample_config(name));
    const Manifest& manifest = model->good();
    compare(manifest, manifest.model_type, found);
  }
  for (const auto& each : found.different) {
    CHECK_MESSAGE(false, each.first << " " << each.second);
  }
  CHECK(found.same > 100'000);
}

TEST_CASE("labels: every label of every architecture has a rule") {
  std::ifstream stream(testing::data_path("architectures.jsonl"));
  REQUIRE(stream);
  const RuleSet& rules = testing::shipped_rules(kEveryModel);
  std::set<std::string> seen;
  size_t models = 0;
  testing::Thinned rows{5};
  for (std::string line; std::getline(stream, line);) {
    const Json row = Json::parse(line);
    const Json& config = row.at("config");
    if (row.contains("refused") ||
        !seen.insert(config.at("model_type").get<std::string>() +
                     config.value("architectures", Json()).dump())
             .second ||
        rows.skips()) {
      continue;
    }
    CAPTURE(row.at("case").get<std::string>());
    CAPTURE(config.at("model_type").get<std::string>());
    const auto model = testing::synthesize(config);
    Manifest manifest = model->good();
    REQUIRE(label_parameters(manifest));
    for (const char* mesh :
         {"fsdp=1", "fsdp=2,ep=2,tp=2", "fsdp=2,tp=2 experts:ep=2,etp=2"}) {
      const auto found = testing::lint_of(manifest, rules, mesh_of(mesh));
      for (const Code code :
           {Code::UnplacedLogicalAxis, Code::RepeatedLogicalAxis,
            Code::UnmatchedParameter}) {
        for (const Diagnostic& each : found.find(code)) {
          CHECK_MESSAGE(false, each.message);
        }
      }
    }
    ++models;
  }
  CHECK(models > rows.of(400));
}

// A checkpoint of the config in a folder, whose first tensor may be renamed.
Manifest stored_beside(const Json& config, const std::string& first_name = "") {
  const auto made = testing::synthesize(config);
  std::vector<testing::StoredTensor> tensors;
  for (size_t i = 0; i < made->good().any_size(); ++i) {
    tensors.push_back({std::string(made->good().any_name(i)), "F32",
                       made->good().any_type(i).shape});
  }
  if (!first_name.empty()) tensors.front().name = first_name;
  testing::MemoryHost host;
  host.files["m/config.json"] = config.dump();
  host.files["m/model.safetensors"] = testing::safetensors(tensors);
  Diagnostics diags;
  auto manifest = load_manifest("m/model.safetensors", host, diags);
  REQUIRE(manifest);
  return *std::move(manifest);
}

TEST_CASE("weights beside a config have its labels, and its heads") {
  const Json config = {
      {"model_type", "gpt_neox"}, {"architectures", {"GPTNeoXForCausalLM"}},
      {"vocab_size", 64},         {"hidden_size", 48},
      {"intermediate_size", 64},  {"num_hidden_layers", 1},
      {"num_attention_heads", 6}, {"max_position_embeddings", 32}};
  Manifest manifest = stored_beside(config);
  CHECK_FALSE(find_unexplained(manifest));
  CHECK(label_parameters(manifest));
  // Six heads, each with its q, k and v, in a dimension of 144.
  const auto found = manifest.kinds->find(
      {"gpt_neox.layers.*.attention.query_key_value.weight", {144, 48}});
  REQUIRE(found != manifest.kinds->end());
  CHECK(found->second.front().count == 6);
}

TEST_CASE("weights without scales of blocks are not in blocks") {
  const Json config = {
      {"model_type", "llama"},
      {"transformers_version", "4.57.1"},
      {"vocab_size", 256},
      {"hidden_size", 256},
      {"intermediate_size", 256},
      {"num_hidden_layers", 1},
      {"num_attention_heads", 4},
      {"quantization_config",
       {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}}};
  testing::MemoryHost host;
  host.files["m/config.json"] = config.dump();
  const std::string mlp = "model.layers.0.mlp.";
  host.files["m/model.safetensors"] =
      testing::safetensors({{mlp + "gate_proj.weight", "F8_E4M3", {256, 256}},
                            {mlp + "gate_proj.weight_scale_inv", "F32", {2, 2}},
                            {mlp + "up_proj.weight", "F8_E4M3", {256, 256}},
                            {mlp + "up_proj.weight_scale", "F32", {}}});
  Diagnostics diags;
  const auto manifest = load_manifest("m/model.safetensors", host, diags);
  REQUIRE(manifest);
  REQUIRE(manifest->kinds);
  const auto block_of = [&](const std::string& name) {
    return manifest->kinds->at({"model.layers.*.mlp." + name, {256, 256}})
        .front()
        .block;
  };
  CHECK(block_of("gate_proj.weight") == 128);
  CHECK(block_of("up_proj.weight") == 0);
}

TEST_CASE("buffers that an architecture names are none of the parameters") {
  // final_logits_bias; expert_bias; beta and eps of xIELU.
  const Json sizes = {{"vocab_size", 64},
                      {"hidden_size", 48},
                      {"intermediate_size", 64},
                      {"num_hidden_layers", 2},
                      {"num_attention_heads", 6},
                      {"num_key_value_heads", 2},
                      {"head_dim", 8}};
  Json afmoe = sizes;
  afmoe.update({{"model_type", "afmoe"},
                {"num_experts", 4},
                {"moe_intermediate_size", 16},
                {"num_dense_layers", 1},
                {"num_shared_experts", 1}});
  Json apertus = sizes;
  apertus["model_type"] = "apertus";
  apertus.erase("head_dim");
  const Json bart = {{"model_type", "bart"},
                     {"vocab_size", 64},
                     {"d_model", 48},
                     {"encoder_layers", 1},
                     {"decoder_layers", 1},
                     {"encoder_ffn_dim", 64},
                     {"decoder_ffn_dim", 64},
                     {"tie_word_embeddings", true},
                     {"encoder_attention_heads", 6},
                     {"decoder_attention_heads", 6}};
  for (const Json& config : {afmoe, apertus, bart}) {
    CAPTURE(config.at("model_type").get<std::string>());
    const auto made = testing::synthesize(config);
    Manifest manifest = stored_beside(config);
    CHECK_FALSE(made->good().buffers().empty());
    CHECK(manifest.size() == made->good().size());
    CHECK(manifest.buffers().size() == made->good().buffers().size());
    CHECK(manifest.total_bytes() == made->good().total_elements() * 4);
    CHECK(manifest.facts.heads == 6);
    CHECK(label_parameters(manifest));
  }
}

TEST_CASE("a tensor that does not follow from the config has no labels") {
  const Json config = testing::small_config("llama");
  Manifest manifest = stored_beside(config, "another");
  const auto other = find_unexplained(manifest);
  REQUIRE(other);
  CHECK(manifest.name(*other) == "another");
  CHECK(label_parameters(manifest));
  for (size_t i = 0; i < manifest.size(); ++i) {
    CHECK((manifest.axes(i) == nullptr) == (i == *other));
  }
}

}  // namespace
}  // namespace shardplan
