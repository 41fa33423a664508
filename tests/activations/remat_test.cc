// SPDX-License-Identifier: Apache-2.0
// What policies of rematerialisation keep, offload and refuse.
#include "activations/remat.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "activations/segments.h"
#include "tests/support/messages.h"
#include "tests/support/trained.h"

namespace shardplan {
namespace {

using testing::activations_in;
using testing::bracket_of;
using testing::Json;
using testing::kGpt2;
using testing::kLlama;
using testing::kTokens;
using testing::remat_policy;
using testing::Trained;
using testing::trained;

TEST_CASE("policies of names are read, or refused") {
  const auto refused = [](const char* text) {
    Diagnostics diags;
    CHECK(!read_remat(text, diags));
    return testing::messages(diags);
  };
  CHECK(remat_text(remat_policy("save_only_these_names:query_proj,mlpwo")) ==
        "save_only_these_names:query_proj,mlpwo");
  // Copies keep the policy that they point to.
  Remat copied;
  {
    const Remat first = remat_policy("custom:out_proj=device");
    copied = first;
  }
  CHECK(remat_text(copied) == "custom:out_proj=device");
  CHECK(copied.policy->saved == std::vector<std::string_view>{"attn.output"});
  CHECK(refused("save_only_these_names:query_prj") ==
        "SP010 `--remat` has no layer value `query_prj`");
  CHECK(refused("save_and_offload_only_these_names:query_proj") ==
        "SP010 `--remat save_and_offload_only_these_names` takes two lists of "
        "names");
  CHECK(refused("custom:query_proj=host") ==
        "SP010 `--remat custom` does not say where `query_proj=host` is kept");
}

TEST_CASE("a policy that nobody knows is refused with the nearest name") {
  Diagnostics diags;
  CHECK(!read_remat("dot", diags));
  CHECK(testing::messages(diags).find("SP010") != std::string::npos);
  CHECK(remat_text(*read_remat("full:block:4", diags)) == "full:block:4");
  CHECK(remat_text(*read_remat("full:uniform:2", diags)) == "full:uniform:2");
  CHECK(remat_text(*read_remat("selective:2", diags)) == "selective:2");
  CHECK(!read_remat("full:block:0", diags));
  CHECK(remat_text(remat_policy("selective:core_attn,moe_act")) ==
        "selective:core_attn,moe_act");
  Diagnostics refused;
  CHECK(!read_remat("selective:moe_activation", refused));
  CHECK(testing::messages(refused) ==
        "SP010 `--remat selective` has no module `moe_activation`");
  CHECK(!read_remat("selective:", diags));
  CHECK(!read_remat("", diags));
}

TEST_CASE(
    "more rematerialisation never holds more, a larger batch never less") {
  for (const Json& config : {kLlama, kGpt2}) {
    const auto one = trained(config, "fsdp=2,tp=2", {4, 16, {}, {}});
    const auto two = trained(config, "fsdp=2,tp=2", {8, 16, {}, {}});
    for (size_t k = 0; k < kSavingModes; ++k) {
      int64_t before = INT64_MAX;
      for (const char* name :
           {"none", "minimal_with_context", "dots", "full"}) {
        CAPTURE(name);
        StepOptions step;
        step.remat = remat_policy(name);
        const int64_t held = activations_in(bracket_of(*one, step), k);
        CHECK(held <= before);
        CHECK(activations_in(bracket_of(*two, step), k) >= held);
        before = held;
      }
    }
  }
}

// Latent attention, a dense layer and some with experts.
const Json kDeepseek = {{"architectures", {"DeepseekV3ForCausalLM"}},
                        {"model_type", "deepseek_v3"},
                        {"torch_dtype", "bfloat16"},
                        {"vocab_size", 512},
                        {"num_hidden_layers", 4},
                        {"hidden_size", 64},
                        {"intermediate_size", 96},
                        {"num_attention_heads", 4},
                        {"num_key_value_heads", 4},
                        {"max_position_embeddings", 64},
                        {"rms_norm_eps", 1e-6},
                        {"hidden_act", "silu"},
                        {"q_lora_rank", 24},
                        {"kv_lora_rank", 16},
                        {"qk_nope_head_dim", 16},
                        {"qk_rope_head_dim", 8},
                        {"v_head_dim", 16},
                        {"first_k_dense_replace", 1},
                        {"n_routed_experts", 4},
                        {"n_shared_experts", 1},
                        {"moe_intermediate_size", 32},
                        {"num_experts_per_tok", 2},
                        {"n_group", 1},
                        {"topk_group", 1},
                        {"norm_topk_prob", true},
                        {"routed_scaling_factor", 1.0},
                        {"scoring_func", "sigmoid"},
                        {"num_nextn_predict_layers", 0}};

Int128 saved_in_layers(const Trained& all, const SegmentOptions& options,
                       const Remat& remat) {
  Int128 sum = 0;
  for (const Segment& segment :
       segments_of(all.program->program, options, remat)) {
    if (segment.is_layer) sum += segment.memory.at(1).saved;
  }
  return sum;
}

TEST_CASE("modules of Megatron-LM that are computed again keep nothing") {
  const auto all =
      trained(kDeepseek, "fsdp=1", {4, 16, {}, {}}, EqualLayers::Each);
  const SegmentOptions options;
  const int64_t layers = 4;
  const int64_t sparse = 3;
  const int64_t places = kTokens * 2;  // of experts
  constexpr int64_t kBytes = 2;
  const auto saves = [&](const char* modules) {
    return static_cast<int64_t>(
        saved_in_layers(*all, options, {}) -
        saved_in_layers(*all, options, remat_policy(modules)));
  };
  CHECK(saves("selective:core_attn") == 0);  // flash
  // What norms give, and a number for each row, in front of experts and of
  // attention.
  CHECK(saves("selective:layernorm") ==
        (layers + sparse) * kTokens * (64 * kBytes + 4));
  CHECK(saves("selective:moe_act") == sparse * places * 32 * kBytes);
  CHECK(saves("selective:shared_experts") ==
        sparse * kTokens * 3 * 32 * kBytes);
  CHECK(saves("selective:shared_experts,moe_act") ==
        saves("selective:shared_experts") + saves("selective:moe_act"));
  // Gate, up and their product; its norm, with a number for each row.
  CHECK(saves("selective:mlp") ==
        kTokens * (3 * 96 * kBytes + 64 * kBytes + 4));
  // Of latent attention, what its first products give stays alone.
  std::map<std::string, Int128> kept;
  for (const Segment& segment :
       segments_of(all->program->program, options,
                   remat_policy("selective:mla_up_proj"))) {
    for (const auto& value : segment.memory.at(1).saved_by) {
      kept[value.first] += value.second;
    }
  }
  CHECK(kept.count("layers.*.attn.key") == 0);
  CHECK(kept.count("layers.*.attn.kv") == 0);
  CHECK(kept.at("layers.*.attn.query") == layers * kTokens * 24 * kBytes);
  CHECK(saves("selective:moe") > saves("selective:shared_experts,moe_act"));
  CHECK(saves("selective:moe,mlp,layernorm,mla_up_proj") >
        saves("selective:moe,mlp"));
  // With scores, those go as well.
  SegmentOptions scores;
  scores.attention = AttentionKind::Scores;
  CHECK(
      saved_in_layers(*all, scores, remat_policy("selective:core_attn,mlp")) ==
      saved_in_layers(*all, options, remat_policy("selective:mlp")));
}

TEST_CASE("what a policy offloads is in host memory, and not on the device") {
  const auto all = trained(kLlama, "fsdp=1", {4, 16, {}, {}});
  StepOptions step;
  const auto bracket = [&](const std::string& remat) {
    step.remat = remat_policy(remat.c_str());
    return bracket_of(*all, step);
  };
  const auto host = [&](const std::string& remat) {
    return bracket(remat).host[1];
  };
  const int64_t h = 64;
  const int64_t kv = 16;
  // Six layers, two bytes.
  const int64_t each = 6 * 2 * kTokens;
  CHECK(!bracket("dots").offloads);
  CHECK(bracket("qkv_proj_offloaded").offloads);
  CHECK(host("qkv_proj_offloaded") == each * (h + 2 * kv));
  CHECK(host("save_and_offload_only_these_names::query_proj,key_proj,"
             "value_proj") == host("qkv_proj_offloaded"));
  CHECK(host("custom:query_proj=offload,key_proj=remat") == each * h);
  CHECK(host("save_and_offload_only_these_names::decoder_layer_input") ==
        each * h);
  CHECK(host("save_and_offload_only_these_names:query_proj:context") ==
        each * h);
  // As many bytes as are saved where none are offloaded.
  for (const auto& pair :
       {std::pair("minimal_offloaded", "minimal"),
        std::pair("save_and_offload_only_these_names::query_proj,mlpwo",
                  "save_only_these_names:query_proj,mlpwo"),
        std::pair("offload_activations", "none")}) {
    const char* const away = pair.first;
    const char* const here = pair.second;
    CAPTURE(away);
    Int128 moved = 0;
    Int128 saved = 0;
    Int128 kept = 0;
    for (const Segment& segment :
         segments_of(all->program->program, {}, remat_policy(away))) {
      moved += segment.memory[1].offloaded;
      saved += segment.memory[1].saved;
    }
    for (const Segment& segment :
         segments_of(all->program->program, {}, remat_policy(here))) {
      kept += segment.memory[1].saved;
      CHECK(segment.memory[1].offloaded == 0);
    }
    CHECK(moved > 0);
    CHECK(saved + moved == kept);
    CHECK(bracket(away).lower() <= bracket(here).lower());
  }
}

}  // namespace
}  // namespace shardplan
