// SPDX-License-Identifier: Apache-2.0
// What classes of transformers keep for backward, and loops of JAX, layer by
// layer: sums of what their operations save, as their sources say. The same
// sums, with the sizes of the models, are within 0.2 % of what forward passes
// of Llama and TinyLlama had allocated on an H200.
#include "evaluate/torch_class.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include "evaluate/step.h"
#include "memory/budget.h"
#include "model/forward/recognise.h"
#include "resolve/resolve.h"
#include "tests/support/builders.h"
#include "tests/support/hf_config.h"
#include "tests/support/loaded_rules.h"
#include "tests/support/memory_host.h"
#include "tests/support/messages.h"
#include "tests/support/whole_model.h"

namespace shardplan {
namespace {

using testing::Json;

constexpr int64_t kHidden = 64;
constexpr int64_t kInner = 192;
constexpr int64_t kHeads = 8;
constexpr int64_t kSharing = 2;  // heads of keys and values
constexpr int64_t kHeadDim = 8;
constexpr int64_t kLength = 256;
constexpr int64_t kBatch = 8;

Json config_of(const char* type, const char* class_name, int layers) {
  return {{"architectures", {class_name}},
          {"model_type", type},
          {"hidden_size", kHidden},
          {"intermediate_size", kInner},
          {"num_hidden_layers", layers},
          {"num_attention_heads", kHeads},
          {"num_key_value_heads", kSharing},
          {"head_dim", kHeadDim},
          {"vocab_size", 64},
          {"hidden_act", "silu"},
          {"max_position_embeddings", kLength},
          {"rms_norm_eps", 1e-6},
          {"tie_word_embeddings", false},
          {"torch_dtype", "float32"}};
}

struct Asked {
  const char* type = "llama";
  const char* class_name = "LlamaForCausalLM";
  StepPrecision precision = StepPrecision::BF16;
  const char* hardware = "h100-sxm";
  const char* framework = "torch";
  Kernels kernels = Kernels::Any;
  const char* remat = "none";
  int vocab = 64;
  bool casts = false;  // weights in float32, computed with in bf16
};

MemoryBracket bracket_of(const Asked& asked, int layers) {
  Json config = config_of(asked.type, asked.class_name, layers);
  config["vocab_size"] = asked.vocab;
  const auto synthesis = testing::synthesize(config);
  REQUIRE(synthesis->manifest);
  const Manifest& manifest = *synthesis->manifest;
  testing::MemoryHost host;
  const auto rules = testing::loaded_rules(host, "@all_models");
  REQUIRE(rules->rules);
  Diagnostics diags;
  const auto plan =
      resolve(manifest, *rules->rules, testing::mesh("fsdp=1"), {}, diags);
  REQUIRE(plan);
  BudgetOptions how;
  how.state.optimizer = Optimizer::AdamW;
  how.state = with_precision(how.state, asked.precision, DType::F32);
  if (asked.casts) how.state.compute_dtype = DType::BF16;
  const auto budget = make_budget(manifest, *plan, how, diags);
  REQUIRE(budget);
  const auto runnable =
      recognise_model(manifest, testing::parsed_config(config), nullptr, diags);
  REQUIRE(runnable);
  StepModel model;
  model.runnable = &*runnable;
  model.most_stored = DType::F32;
  StepOptions step;
  step.framework = find_framework(asked.framework);
  step.kernels = asked.kernels;
  step.remat.policy = find_remat_policy(asked.remat);
  const AskedMemory memory;
  Steps steps(memory, model, manifest, *plan, &*rules->rules);
  const auto judged = steps.judge(
      {kBatch, kLength}, how, *budget,
      model.sized(step, how.state, std::string(asked.hardware), false), nullptr,
      diags);
  REQUIRE_MESSAGE(judged, testing::messages(diags));
  return judged->bracket;
}

int64_t row_of(const MemoryBracket& bracket, std::string_view category,
               size_t answer) {
  for (const BracketRow& row : bracket.rows) {
    if (row.category == category) return row.bytes.at(answer);
  }
  return 0;
}

// Bytes that a layer keeps for each token, by the estimate.
double kept_by_layer(const Asked& asked) {
  const auto held = [&](int layers) {
    return row_of(bracket_of(asked, layers), "activations", 1);
  };
  return static_cast<double>(held(6) - held(4)) / (2 * kBatch * kLength);
}

bool is_about(double found, int64_t expected) {
  CAPTURE(found);
  CAPTURE(expected);
  const auto wanted = static_cast<double>(expected);
  const bool near = found > wanted * 0.99 && found < wanted * 1.01;
  CHECK(near);
  return near;
}

// Of attention in 16 bits: queries, keys, values, the result, a number per
// query.
constexpr int64_t kAttention =
    2 * kHeadDim * (2 * kHeads + 2 * kSharing) + 4 * kHeads;
constexpr int64_t kMlp = 2 * 4 * kInner;  // gate, its SiLU, up, their product

TEST_CASE("torch classes: norms keep a copy in float32, not their input") {
  constexpr int64_t kNorm = (4 + 2 + 2) * kHidden;  // copy, rounded, result
  is_about(kept_by_layer({}), 2 * kNorm + kAttention + kMlp);
}

TEST_CASE("torch classes: autocast casts what each product reads") {
  Asked asked;
  asked.precision = StepPrecision::Autocast;
  // Input and what the weight multiplies, in float32; queries, keys, values,
  // gate and up each have a copy of the result.
  constexpr int64_t kNorms = 2 * 2 * 4 * kHidden + 5 * 2 * kHidden;
  is_about(kept_by_layer(asked), kNorms + kAttention + kMlp);
}

TEST_CASE("torch classes: in float32 grouped attention holds its scores") {
  Asked asked;
  asked.precision = StepPrecision::F32;
  constexpr int64_t kNorms = 2 * 3 * 4 * kHidden;
  constexpr int64_t kScores = 4 * kHeads * kLength + 4 * 4 * kHeads * kHeadDim;
  is_about(kept_by_layer(asked), kNorms + kScores + 2 * kMlp);
  // A CPU has a kernel for it, and repeats keys and values.
  asked.hardware = "cpu";
  CHECK(kept_by_layer(asked) < static_cast<double>(kNorms + kScores));
}

TEST_CASE("torch classes: whose norms round after their weight keeps more") {
  Asked wide;
  wide.type = "olmo2";
  wide.class_name = "Olmo2ForCausalLM";
  Asked plain;
  // OLMo 2 has norms of all queries and of all keys besides.
  const double more = kept_by_layer(wide) - kept_by_layer(plain);
  CHECK(more > 2.0 * 2 * kHidden);
}

// What a class drops out in training, from small configs with these keys.
TEST_CASE("torch classes: a config's rates say what is dropped out") {
  const Json gpt2 = {{"architectures", {"GPT2LMHeadModel"}},
                     {"model_type", "gpt2"},
                     {"n_embd", 64},
                     {"n_layer", 2},
                     {"n_head", 4},
                     {"n_positions", 64},
                     {"vocab_size", 96}};
  const Json bert = {{"architectures", {"BertForMaskedLM"}},
                     {"model_type", "bert"},
                     {"hidden_size", 64},
                     {"num_hidden_layers", 2},
                     {"num_attention_heads", 4},
                     {"intermediate_size", 128},
                     {"vocab_size", 96}};
  const Json opt = {{"architectures", {"OPTForCausalLM"}},
                    {"model_type", "opt"},
                    {"hidden_size", 64},
                    {"word_embed_proj_dim", 64},
                    {"num_hidden_layers", 2},
                    {"num_attention_heads", 4},
                    {"ffn_dim", 128},
                    {"vocab_size", 96}};
  const Json t5 = {{"architectures", {"T5ForConditionalGeneration"}},
                   {"model_type", "t5"},
                   {"d_model", 64},
                   {"d_kv", 16},
                   {"d_ff", 128},
                   {"num_layers", 2},
                   {"num_heads", 4},
                   {"vocab_size", 96}};
  const auto dropped = [](Json config, const Json& changes, bool on_cpu,
                          std::optional<bool> asked) {
    config.update(changes);
    const auto synthesis = testing::synthesize(config);
    REQUIRE(synthesis->manifest);
    Diagnostics diags;
    const auto model = recognise_model(
        *synthesis->manifest, testing::parsed_config(config), nullptr, diags);
    REQUIRE_MESSAGE(model, testing::messages(diags));
    StepOptions step;
    step.drops_out = asked;
    run_torch_class(*model, on_cpu, step);
    return step;
  };
  const auto of = [&](const Json& config, const Json& changes) {
    return dropped(config, changes, false, {}).segments.dropout;
  };
  const Json zero_gpt2 = {
      {"embd_pdrop", 0.0}, {"resid_pdrop", 0.0}, {"attn_pdrop", 0.0}};
  CHECK_FALSE(of(gpt2, zero_gpt2).any());
  // What a config leaves out is as its class has it: 0.1 everywhere.
  CHECK(of(gpt2, Json::object()) == Dropout{true, true, true, false, true});
  Json residual = zero_gpt2;
  residual["resid_pdrop"] = 0.1;
  CHECK(of(gpt2, residual) == Dropout{false, true, true});
  CHECK(of(bert, {{"hidden_dropout_prob", 0}}) ==
        Dropout{false, false, false, false, true});
  CHECK(of(opt, {{"dropout", 0.1}}) == Dropout{false, true, true});
  CHECK(of(t5, {{"dropout_rate", 0.1}}) ==
        Dropout{true, true, true, true, true});
  CHECK(of(config_of("llama", "LlamaForCausalLM", 2),
           {{"attention_dropout", 0.1}}) ==
        Dropout{false, false, false, false, true});
  // A flag goes before it: all that the class can drop, or nothing.
  CHECK(dropped(t5, {{"dropout_rate", 0.0}}, false, true).segments.dropout ==
        Dropout{true, true, true, true, true, true});
  CHECK_FALSE(
      dropped(gpt2, Json::object(), false, false).segments.dropout.any());
  // A CPU has no kernel of attention that drops, and masks of whole numbers.
  const StepOptions cpu = dropped(gpt2, Json::object(), true, {});
  CHECK(cpu.segments.attention == AttentionKind::Scores);
  CHECK(cpu.segments.dropout.wide_masks);
}

TEST_CASE("torch classes: names and shapes alone tell no class") {
  const auto synthesis =
      testing::synthesize(config_of("llama", "LlamaForCausalLM", 2));
  REQUIRE(synthesis->manifest);
  Diagnostics diags;
  const auto named =
      recognise_model(*synthesis->manifest, nullptr, nullptr, diags);
  REQUIRE(named);
  REQUIRE_FALSE(named->has_config);
  StepOptions step;
  run_torch_class(*named, false, step);
  CHECK(step.segments == SegmentOptions());
  CHECK_FALSE(step.segments.is_eager);
}

TEST_CASE("torch classes: a compiled loss keeps logits in their dtype") {
  const Json config = config_of("llama", "LlamaForCausalLM", 2);
  const auto synthesis = testing::synthesize(config);
  REQUIRE(synthesis->manifest);
  Diagnostics diags;
  const auto runnable = recognise_model(
      *synthesis->manifest, testing::parsed_config(config), nullptr, diags);
  REQUIRE(runnable);
  StepOptions step;
  step.kernels = Kernels::Fused;
  run_torch_class(*runnable, false, step);
  const SegmentOptions unknown;
  CHECK(step.segments.loss[0] == unknown.loss[0]);
  CHECK(step.segments.loss[1] == LossCopies{3, 0});
  CHECK(step.segments.loss[2] == unknown.loss[2]);
  CHECK_FALSE(step.segments.is_eager);
}

TEST_CASE("torch classes: the bracket is narrow where all is known") {
  for (const auto precision :
       {StepPrecision::F32, StepPrecision::BF16, StepPrecision::Autocast}) {
    Asked asked;
    asked.precision = precision;
    const MemoryBracket bracket = bracket_of(asked, 6);
    CHECK(bracket.lower() <= bracket.estimate());
    CHECK(bracket.estimate() <= bracket.upper());
    if (precision == StepPrecision::F32) {
      // Versions of PyTorch hold scores of grouped heads, or do not.
      REQUIRE(!bracket.widened.empty());
      CHECK(std::ranges::any_of(bracket.widened, [](const Widening& row) {
        return row.cause.starts_with("attention: ") && row.bytes > 0;
      }));
      continue;
    }
    const auto workspaces = int64_t{64} << 20;  // most of it, of a small model
    CHECK(static_cast<double>(bracket.upper() - workspaces) <
          1.3 * static_cast<double>(bracket.lower()));
  }
}

Asked in_jax() {
  Asked asked;
  asked.framework = "jax";
  return asked;
}

TEST_CASE("jax: a loop keeps what backward of every operation reads") {
  // The copy in float32, what it is rounded to, and the result of a norm.
  constexpr int64_t kNorm = (4 + 2 + 2) * kHidden;
  // Beside gate, SiLU, up and their product the sigmoid and its derivative.
  constexpr int64_t kSilu = 2 * 6 * kInner;
  is_about(kept_by_layer(in_jax()), 2 * kNorm + kAttention + kSilu);
  // Where kernels fuse, or layers stand without a loop, it is less.
  Asked fused = in_jax();
  fused.kernels = Kernels::Fused;
  CHECK(bracket_of(fused, 6).lower() < bracket_of(in_jax(), 6).lower());
  CHECK(bracket_of(fused, 6).upper() < bracket_of(in_jax(), 6).upper());
}

TEST_CASE("jax: what is computed again is fused with its readers") {
  Asked again = in_jax();
  again.remat = "full";
  is_about(kept_by_layer(again), 2 * kHidden);
  // Of 2048 tokens while the one layer runs: gate, up and the gradients of both
  // and of what the last product reads; more where it is as operations are.
  const MemoryBracket one = bracket_of(again, 1);
  CHECK(row_of(one, "activations", 1) < 2 * 9 * kInner * kBatch * kLength);
  CHECK(row_of(one, "activations", 2) > 2 * 9 * kInner * kBatch * kLength);
}

// Numbers of a layer's weights.
constexpr int64_t kLayer = 2 * kHidden * kHeads * kHeadDim +
                           2 * kHidden * kSharing * kHeadDim +
                           3 * kHidden * kInner + 2 * kHidden;

TEST_CASE("jax: gradients of layers are there with their loop") {
  Asked mixed = in_jax();
  mixed.precision = StepPrecision::F32;
  mixed.casts = true;
  mixed.vocab = 96;
  const MemoryBracket loop = bracket_of(mixed, 6);
  const int64_t head = int64_t{96} * kHidden;
  // The head's is as its product made it.
  CHECK(row_of(loop, "gradients", 1) == 4 * 6 * kLayer + 2 * head);
  // Logits of many words are more than all of it, and it is not there yet.
  mixed.vocab = 8192;
  mixed.remat = "full";
  const MemoryBracket loss = bracket_of(mixed, 2);
  CHECK(loss.moment == "backward of head and loss");
  CHECK(row_of(loss, "gradients", 1) == int64_t{2} * 8192 * kHidden);
  CHECK(row_of(loss, "gradients", 2) ==
        4 * (2 * kLayer + int64_t{8192} * kHidden));
}

TEST_CASE("jax: layers keep casts of weights where they keep all") {
  Asked mixed = in_jax();
  mixed.precision = StepPrecision::F32;
  mixed.casts = true;
  const auto buffers = [&](int layers) {
    return row_of(bracket_of(mixed, layers), "buffers", 1);
  };
  constexpr int64_t kMatrices = kLayer - 2 * kHidden;
  CHECK(buffers(6) - buffers(4) == 2 * 2 * kMatrices);
  mixed.remat = "full";
  CHECK(buffers(6) == buffers(4));
}

}  // namespace
}  // namespace shardplan
