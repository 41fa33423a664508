// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/shipped.h"
#include "io/formats.h"
#include "model/architectures.h"

namespace shardplan {
namespace {

// A model type ignores the keys that it does not know.
constexpr std::string_view kSampleSizes = R"(
  "hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 64,
  "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
  "head_dim": 32, "vocab_size": 64, "max_position_embeddings": 16,
  "type_vocab_size": 2, "n_embd": 64, "n_layer": 2, "n_head": 2,
  "n_positions": 16, "num_local_experts": 2, "num_experts": 2,
  "num_experts_per_tok": 1, "n_routed_experts": 2, "n_shared_experts": 1,
  "first_k_dense_replace": 1, "kv_lora_rank": 8, "q_lora_rank": 8,
  "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8,
  "attention_bias": true, "mlp_bias": true, "image_size": 16,
  "patch_size": 8, "vision_use_head": false)";

// The vision tower of multimodal model types.
constexpr std::string_view kSampleTower = R"(
  "model_type": "siglip_vision_model", "hidden_size": 64,
  "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2,
  "image_size": 16, "patch_size": 8, "num_channels": 3, "vision_use_head": false)";

std::string sample_config(const Architecture& all,
                          const ArchitectureClass& model_class) {
  const std::string sizes(kSampleSizes);
  // The head is stored separately unless the architecture restricts `tied`.
  const bool tied = std::ranges::any_of(
      all.requirements,
      [](const Requirement& r) { return r.that.mentions("tied"); });
  return "{\"model_type\": \"" + all.model_types.front() +
         "\", \"architectures\": [\"" + model_class.class_name + "\"]," +
         sizes + (tied ? "" : R"(, "tie_word_embeddings": false)") +
         ", \"text_config\": {" + sizes + "}, \"vision_config\": {" +
         std::string(kSampleTower) + "}}";
}

// Returns the architectures, starting with those that most others build on.
std::vector<std::shared_ptr<const Architecture>> most_general_first() {
  std::vector<std::shared_ptr<const Architecture>> all;
  std::map<std::string, int> builders;
  for (const std::string& name : shipped_names("models")) {
    all.push_back(find_architecture(name));
    SHARDPLAN_CHECK(all.back() != nullptr);
    const auto* const text = all.back()->find_section("text");
    if (text != nullptr) all.push_back(text->architecture);
    auto base = all.back();
    while (!base->like.empty()) {
      ++builders[base->like];
      base = find_architecture(base->like);
    }
  }
  std::ranges::stable_sort(all, [&](const auto& a, const auto& b) {
    return builders[a->name] > builders[b->name];
  });
  return all;
}

std::vector<Manifest> make_samples() {
  std::vector<Manifest> samples;
  for (const auto& all : most_general_first()) {
    for (const ArchitectureClass& model_class : all->classes) {
      Diagnostics diags;
      const auto config =
          parse_document(std::make_shared<SourceFile>(
                             "config.json", sample_config(*all, model_class)),
                         diags);
      SHARDPLAN_CHECK(config.has_value());
      auto sample = synthesize_manifest(*config, diags);
      SHARDPLAN_CHECK(sample.has_value());
      sample->title = all->model_types.front();
      samples.push_back(*std::move(sample));
    }
  }
  return samples;
}

}  // namespace

const std::vector<Manifest>& family_samples() {
  static const std::vector<Manifest> kSamples = make_samples();
  return kSamples;
}

}  // namespace shardplan
