// SPDX-License-Identifier: Apache-2.0
// The format `maxtext-model`: MaxText's configs as models,
// `models/llama3-8b.yml`, or the config of a run that names one (`model_name`)
// or gives the sizes itself.
//
// A decoder block of MaxText computes the same as some class of transformers,
// so its config is rewritten as that class's config.json, which determines the
// tensors. The scheme `maxtext` then gives them MaxText's names, shapes and
// logical axes. Compared with MaxText 0.2.5: tests/data/maxtext_models.jsonl.
//
// Invariant: a key that adds, removes or reshapes arrays is either rewritten or
// refused (SP009); none is ignored.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/formats.h"
#include "io/load.h"
#include "io/maxtext/config.h"
#include "model/config_reader.h"
#include "model/naming/name_scheme.h"
#include "syntax/document.h"

namespace shardplan {
namespace {

// The values of base.yml (MaxText 0.2.5), for keys that a file does not have.
struct DefaultValue {
  std::string_view name;
  int64_t value;
};
constexpr DefaultValue kDefaults[] = {
    {"base_emb_dim", 2048},
    {"base_num_query_heads", 16},
    {"base_num_kv_heads", 16},
    {"base_mlp_dim", 7168},
    {"base_num_decoder_layers", 16},
    {"head_dim", 128},
    {"vocab_size", 32000},
    {"num_experts", 1},
    {"num_experts_per_tok", 1},
    {"shared_experts", 0},
    {"first_num_dense_layers", 0},
    {"interleave_moe_layer_step", 1},
    {"q_lora_rank", 0},
    {"kv_lora_rank", 512},
    {"qk_nope_head_dim", 128},
    {"qk_rope_head_dim", 64},
    {"v_head_dim", 128},
    {"inhomogeneous_layer_cycle_interval", 1},
    {"gdn_conv_kernel_dim", 4},
    {"gdn_key_head_dim", 128},
    {"gdn_value_head_dim", 128},
    {"gdn_num_key_heads", 16},
    {"gdn_num_value_heads", 32},
    {"indexer_n_heads", 64},
    {"indexer_head_dim", 128},
    {"indexer_topk", 2048},
    {"global_head_dim", 0},
    {"global_num_kv_heads", 0},
    {"mhc_expansion_rate", 1},
    {"first_num_hash_layers", 0},
    {"o_groups", 0},
    {"o_lora_rank", 0},
    {"sliding_window_size", 0},
};

// A key that changes MaxText's arrays, except when its value is one of `plain`,
// which have the same effect as leaving the key out.
struct Structural {
  std::string_view key;
  std::span<const std::string_view> plain;
};
constexpr std::string_view kOff[] = {"false", "False"};
constexpr std::string_view kOn[] = {"true", "True"};
constexpr std::string_view kNone[] = {"0", "-1", "[]", ""};
constexpr std::string_view kOne[] = {"1"};
constexpr std::string_view kAtMostOne[] = {"0", "1", "-1"};
constexpr std::string_view kNoText[] = {"", "none", "None"};
constexpr std::string_view kPlainAttention[] = {"global", "local_sliding",
                                                "chunk", "full"};
// Each activation adds one matrix product into the MLP.
constexpr std::string_view kActivations = "mlp_activations";
constexpr Structural kStructural[] = {
    {kActivations, {}},
    {"scan_layers", kOn},
    {"fused_qkv", kOff},
    {"fused_mlp", kOff},
    {"attention_bias", kOff},
    {"mlp_bias", kOff},
    {"attention_sink", kOff},
    {"use_qk_norm", kOff},
    {"use_post_attn_norm", kOff},
    {"use_post_ffw_norm", kOff},
    {"share_kv_projections", kOff},
    {"use_indexer", kOff},
    {"routed_bias", kOff},
    {"use_audio", kOff},
    {"use_multimodal", kOff},
    {"attention_type", kPlainAttention},
    {"quantization", kNoText},
    {"param_scan_axis", kOne},
    {"global_parameter_scale", kOne},
    {"num_experts", kAtMostOne},
    {"shared_experts", kNone},
    {"first_num_dense_layers", kNone},
    {"interleave_moe_layer_step", kAtMostOne},
    {"trainable_position_size", kNone},
    {"attention_output_dim", kNone},
    {"moe_expert_input_dim", kNone},
    {"mtp_num_layers", kNone},
    {"engram_layers", kNone},
    {"mhc_expansion_rate", kAtMostOne},
    {"first_num_hash_layers", kNone},
    {"hidden_size_per_layer_input", kNone},
    {"vocab_size_per_layer_input", kNone},
    {"num_kv_shared_layers", kNone},
    {"global_head_dim", kNone},
    {"global_num_kv_heads", kNone},
    {"ici_pipeline_parallelism", kAtMostOne},
    {"dcn_pipeline_parallelism", kAtMostOne},
};

// A key of the config.json, and the MaxText key with the same value.
struct Renamed {
  std::string_view name;
  std::string_view from;
};
constexpr Renamed kEvery[] = {
    {"hidden_size", "base_emb_dim"},
    {"num_attention_heads", "base_num_query_heads"},
    {"num_key_value_heads", "base_num_kv_heads"},
    {"vocab_size", "vocab_size"},
};
constexpr Renamed kMixtral[] = {{"num_local_experts", "num_experts"},
                                {"num_experts_per_tok", "num_experts_per_tok"},
                                {"intermediate_size", "base_moe_mlp_dim"}};
constexpr Renamed kQwenMoe[] = {{"num_experts", "num_experts"},
                                {"num_experts_per_tok", "num_experts_per_tok"},
                                {"moe_intermediate_size", "base_moe_mlp_dim"}};
constexpr Renamed kGptOss[] = {{"num_local_experts", "num_experts"},
                               {"num_experts_per_tok", "num_experts_per_tok"},
                               {"intermediate_size", "base_moe_mlp_dim"},
                               {"sliding_window", "sliding_window_size"}};
constexpr Renamed kGemma[] = {{"sliding_window", "sliding_window_size"}};
constexpr Renamed kLlama4[] = {
    {"num_local_experts", "num_experts"},
    {"num_experts_per_tok", "num_experts_per_tok"},
    {"intermediate_size", "base_moe_mlp_dim"},
    {"intermediate_size_mlp", "base_mlp_dim"},
    {"interleave_moe_layer_step", "interleave_moe_layer_step"}};
constexpr Renamed kQwenNext[] = {
    {"num_experts", "num_experts"},
    {"num_experts_per_tok", "num_experts_per_tok"},
    {"moe_intermediate_size", "base_moe_mlp_dim"},
    {"shared_expert_intermediate_size", "base_moe_mlp_dim"},
    {"linear_conv_kernel_dim", "gdn_conv_kernel_dim"},
    {"linear_key_head_dim", "gdn_key_head_dim"},
    {"linear_value_head_dim", "gdn_value_head_dim"},
    {"linear_num_key_heads", "gdn_num_key_heads"},
    {"linear_num_value_heads", "gdn_num_value_heads"},
    {"full_attention_interval", "inhomogeneous_layer_cycle_interval"}};
constexpr Renamed kDeepseek[] = {
    {"n_routed_experts", "num_experts"},
    {"num_experts_per_tok", "num_experts_per_tok"},
    {"moe_intermediate_size", "base_moe_mlp_dim"},
    {"n_shared_experts", "shared_experts"},
    {"first_k_dense_replace", "first_num_dense_layers"},
    {"kv_lora_rank", "kv_lora_rank"},
    {"qk_nope_head_dim", "qk_nope_head_dim"},
    {"qk_rope_head_dim", "qk_rope_head_dim"},
    {"v_head_dim", "v_head_dim"},
    {"index_n_heads", "indexer_n_heads"},
    {"index_head_dim", "indexer_head_dim"},
    {"index_topk", "indexer_topk"}};
constexpr Renamed kDeepseek4[] = {
    {"n_routed_experts", "num_experts"},
    {"num_experts_per_tok", "num_experts_per_tok"},
    {"moe_intermediate_size", "base_moe_mlp_dim"},
    {"n_shared_experts", "shared_experts"},
    {"q_lora_rank", "q_lora_rank"},
    {"qk_rope_head_dim", "qk_rope_head_dim"},
    {"num_hash_layers", "first_num_hash_layers"},
    {"hc_mult", "mhc_expansion_rate"},
    {"o_groups", "o_groups"},
    {"o_lora_rank", "o_lora_rank"},
    {"index_n_heads", "indexer_n_heads"},
    {"index_head_dim", "indexer_head_dim"},
    {"index_topk", "indexer_topk"}};
constexpr Renamed kGemma4[] = {{"sliding_window", "sliding_window_size"},
                               {"global_head_dim", "global_head_dim"}};
constexpr Renamed kGemma4Moe[] = {
    {"sliding_window", "sliding_window_size"},
    {"global_head_dim", "global_head_dim"},
    {"num_experts", "num_experts"},
    {"top_k_experts", "num_experts_per_tok"},
    {"moe_intermediate_size", "base_moe_mlp_dim"}};

// A decoder block, and the class of transformers with the same tensors.
struct DecoderBlock {
  std::string_view name;
  // Selects one of several blocks with the same name: a key that must be on
  // (or, for `num_experts`, above 1); "" for the last of them.
  std::string_view where;
  std::string_view model_type;
  std::string_view class_name;
  std::span<const Renamed> keys = {};
  // Structural keys that `keys` or the class handle, whatever their value.
  std::span<const std::string_view> reads = {};
  // Structural keys that are always on in the class, so they may be on here.
  std::span<const std::string_view> has = {};
  int layers = 1;  // layers of the class per counted layer
};
constexpr std::string_view kExperts[] = {"num_experts"};
constexpr std::string_view kQkNorm[] = {"use_qk_norm"};
constexpr std::string_view kAnyQkNorm[] = {"use_qk_norm", "num_experts",
                                           "shared_experts"};
constexpr std::string_view kBias[] = {"attention_bias"};
constexpr std::string_view kSandwich[] = {"use_post_attn_norm",
                                          "use_post_ffw_norm"};
constexpr std::string_view kGptOssHas[] = {"attention_bias", "attention_sink",
                                           "mlp_bias", "routed_bias"};
constexpr std::string_view kLlama4Reads[] = {"num_experts", "shared_experts",
                                             "use_qk_norm",
                                             "interleave_moe_layer_step"};
constexpr std::string_view kDeepseekReads[] = {"num_experts", "shared_experts",
                                               "first_num_dense_layers",
                                               "attention_type"};
constexpr std::string_view kDeepseek4Reads[] = {
    "num_experts", "shared_experts", "first_num_hash_layers",
    "mhc_expansion_rate", "attention_type"};
constexpr std::string_view kGemma4Reads[] = {
    "num_experts",         "shared_experts",     "share_kv_projections",
    "global_num_kv_heads", "use_post_attn_norm", "use_post_ffw_norm",
    "global_head_dim"};
constexpr std::string_view kRoutedBias[] = {"routed_bias"};
constexpr std::string_view kIndexer[] = {"use_indexer", "routed_bias"};
constexpr DecoderBlock kBlocks[] = {
    {"llama2", "", "llama", "LlamaForCausalLM"},
    {"mistral", "", "mistral", "MistralForCausalLM"},
    {"mixtral", "", "mixtral", "MixtralForCausalLM", kMixtral, kExperts},
    {"gemma", "", "gemma", "GemmaForCausalLM"},
    {"gemma2", "", "gemma2", "Gemma2ForCausalLM", kGemma, {}, kSandwich, 2},
    {"gemma3", "", "gemma3_text", "Gemma3ForCausalLM", kGemma, {}, kSandwich},
    {"gemma4", "num_experts", "gemma4_text", "Gemma4ForCausalLM", kGemma4Moe,
     kGemma4Reads},
    {"gemma4", "", "gemma4_text", "Gemma4ForCausalLM", kGemma4, kGemma4Reads},
    {"qwen2", "", "qwen2", "Qwen2ForCausalLM", {}, {}, kBias},
    {"qwen3", "", "qwen3", "Qwen3ForCausalLM", {}, {}, kQkNorm},
    {"qwen3_moe", "", "qwen3_moe", "Qwen3MoeForCausalLM", kQwenMoe, kExperts,
     kQkNorm},
    {"qwen3_next", "", "qwen3_next", "Qwen3NextForCausalLM", kQwenNext,
     kAnyQkNorm},
    {"qwen3_5", "num_experts", "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM",
     kQwenNext, kAnyQkNorm},
    {"deepseek", "use_indexer", "deepseek_v32", "DeepseekV32ForCausalLM",
     kDeepseek, kDeepseekReads, kIndexer},
    {"deepseek", "routed_bias", "deepseek_v3", "DeepseekV3ForCausalLM",
     kDeepseek, kDeepseekReads, kRoutedBias},
    {"deepseek", "", "deepseek_v2", "DeepseekV2ForCausalLM", kDeepseek,
     kDeepseekReads},
    {"deepseek4", "", "deepseek_v4", "DeepseekV4ForCausalLM", kDeepseek4,
     kDeepseek4Reads, kIndexer},
    {"gpt_oss", "", "gpt_oss", "GptOssForCausalLM", kGptOss, kExperts,
     kGptOssHas},
    {"llama4", "", "llama4_text", "Llama4ForCausalLM", kLlama4, kLlama4Reads},
    {"olmo3", "", "olmo3", "Olmo3ForCausalLM", kGemma, {}, kQkNorm},
};

// YAML 1.1, which MaxText reads, also has numbers such as "262_144".
std::optional<int64_t> integer_of(const Node& node) {
  if (const auto number = node.integer()) return number;
  std::string digits;
  for (const char c : node.text()) {
    if (c == '_' && !digits.empty()) continue;
    if (!is_digit(c)) return std::nullopt;
    digits += c;
  }
  return parse_integer(digits);
}

bool overrides_model(const MaxtextConfig& config) {
  const auto node = find_inherited(config, "override_model_config");
  return node && contains(kOn, node->text());
}

class ConfigWriter {
 public:
  ConfigWriter(const MaxtextConfig& config, Diagnostics& diags)
      : config_(config), diags_(diags) {}

  // Returns the config.json; nullopt, with errors reported, on failure.
  std::optional<std::string> write() {
    const DecoderBlock* const block = find_block();
    if (block == nullptr || !check_structure(*block)) return std::nullopt;
    text_ = "{\"model_type\": \"" + std::string(block->model_type) +
            "\", \"architectures\": [\"" + std::string(block->class_name) +
            "\"]";
    for (const Renamed& key : kEvery) add_size(key);
    const int64_t layers = size("base_num_decoder_layers");
    if (layers > 0 && layers <= INT32_MAX) {
      add("num_hidden_layers", std::to_string(layers * block->layers));
    }
    if (block->name != "deepseek") add_size({"head_dim", "head_dim"});
    if (find_named(block->keys, "intermediate_size") == nullptr) {
      add_size({"intermediate_size", "base_mlp_dim"});
    }
    for (const Renamed& key : block->keys) add_size(key);
    add("tie_word_embeddings",
        is_on("logits_via_embedding") ? "true" : "false");
    add("dtype", "\"" + weight_dtype() + "\"");
    add_number({"rms_norm_eps", "normalization_layer_epsilon"});
    add_number({"rope_theta", "rope_max_timescale"});
    add_more(*block, layers);
    return good_ ? std::optional(text_ + "}\n") : std::nullopt;
  }

 private:
  // Like MaxText, prefers the model's own file to the files of the run, unless
  // these override it.
  std::optional<Node> find(std::string_view key) const {
    const auto first = config_.layers.front().root().find(key);
    if (first && overrides_model(config_)) return first;
    if (const auto own = find_in(config_.model, key)) return own;
    return find_inherited(config_, key);
  }

  bool is_on(std::string_view key) const {
    const auto node = find(key);
    return node &&
           (node->boolean().value_or(false) || contains(kOn, node->text()));
  }

  int64_t size(std::string_view key) {
    const auto node = find(key);
    if (!node) {
      const auto* const value = find_named(kDefaults, key);
      if (value != nullptr) return value->value;
      good_ = false;
      diags_.error(Code::UnsupportedConfig, root(),
                   "this MaxText config has no " + in_backticks(key));
      return 0;
    }
    const auto value = integer_of(*node);
    if (value && *value >= 0) return *value;
    good_ = false;
    diags_.error(Code::MalformedDocument, node->span(),
                 in_backticks(key) + " must be a whole number, not " +
                     in_backticks(node->text()));
    return 0;
  }

  void add(std::string_view key, const std::string& value) {
    text_ += ",\n \"" + std::string(key) + "\": " + value;
  }
  void add_size(const Renamed& key) {
    add(key.name, std::to_string(size(key.from)));
  }

  void add_number(const Renamed& key) {
    const auto node = find(key.from);
    if (!node) return;
    std::optional<double> number = node->number();
    if (!number) {
      const auto whole = integer_of(*node);
      if (whole) number = static_cast<double>(*whole);
    }
    if (!number || !std::isfinite(*number)) return;
    std::array<char, 32> digits{};
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(), *number);
    add(key.name, std::string(digits.data(), end.ptr));
  }

  // Adds keys that the class needs and MaxText's config does not have.
  void add_more(const DecoderBlock& block, int64_t layers) {
    if (layers <= 0 || layers > kMaxLayers) return;
    if (block.name == "deepseek") {
      const int64_t rank = size("q_lora_rank");
      add("q_lora_rank", rank > 0 ? std::to_string(rank) : "null");
      add("n_group", "1");
      add("topk_group", "1");
    } else if (block.name == "gemma4") {
      add("attention_k_eq_v", is_on("share_kv_projections") ? "true" : "false");
      add("enable_moe_block", size("num_experts") > 1 ? "true" : "false");
      const int64_t heads = size("global_num_kv_heads");
      if (heads > 0) add("num_global_key_value_heads", std::to_string(heads));
      add("hidden_size_per_layer_input", "0");
      add("num_kv_shared_layers", "0");
    } else if (block.name == "deepseek4") {
      add_ratios(layers);
    }
  }

  void add_ratios(int64_t layers) {
    const auto list = find("compress_ratios");
    if (!list || !list->is_list()) return;
    std::string ratios = "[";
    for (size_t i = 0; i < list->size() && good_; ++i) {
      const auto value = integer_of(list->item(i));
      if (!value || static_cast<int64_t>(i) > layers) continue;
      ratios += (i > 0 ? ", " : "") + std::to_string(*value);
    }
    add("compress_ratios", ratios + "]");
  }

  std::string weight_dtype() const {
    const auto node = find("weight_dtype");
    return node && node->is_string() && find_dtype(node->text())
               ? std::string(node->text())
               : "float32";
  }

  const DecoderBlock* find_block() {
    const auto named = find("decoder_block");
    const std::string_view name = named ? named->text() : "llama2";
    for (const DecoderBlock& block : kBlocks) {
      if (block.name != name) continue;
      if (block.where.empty() || is_on(block.where) ||
          (block.where == "num_experts" && size("num_experts") > 1)) {
        return &block;
      }
    }
    std::vector<std::string> known = all_names(kBlocks);
    known.erase(std::unique(known.begin(), known.end()), known.end());
    diags_
        .error(Code::UnsupportedConfig, named ? named->span() : root(),
               "MaxText's decoder block " + in_backticks(name) +
                   " is not supported")
        .fact("supported: " + quoted_names(known))
        .help(std::string(kUseDump));
    return nullptr;
  }

  bool check_structure(const DecoderBlock& block) {
    for (const Structural& each : kStructural) {
      const auto node = find(each.key);
      if (!node || contains(block.reads, each.key)) continue;
      // The text of a list is empty, which would look like a plain value.
      const bool plain =
          node->is_null() ||
          (node->is_list() ? node->size() == (each.key == kActivations ? 2 : 0)
                           : contains(each.plain, node->text()));
      if (plain || contains(block.has, each.key)) continue;
      diags_
          .error(Code::UnsupportedConfig, node->span(),
                 in_backticks(each.key) + " changes the arrays of " +
                     in_backticks(block.name) +
                     " in a way that is not supported")
          .help(std::string(kUseDump));
      return false;
    }
    return true;
  }

  Span root() const { return config_.layers.front().root().span(); }

  static constexpr int64_t kMaxLayers = 100000;
  static constexpr std::string_view kUseDump =
      "give MaxText's sharding dump (`named_shardings.json`) or the checkpoint "
      "as the model";

  const MaxtextConfig& config_;
  Diagnostics& diags_;
  std::string text_;
  bool good_ = true;
};

bool recognize_model(std::string_view head) {
  constexpr std::string_view kSizes[] = {
      "decoder_block:", "base_emb_dim:", "base_mlp_dim:",
      "base_num_decoder_layers:"};
  const auto has = [&](std::string_view key) { return begins_line(head, key); };
  return std::ranges::any_of(kSizes, has) ||
         (has("model_name:") && has("base_config:"));
}

// A run's file may not contradict the model's file unless it overrides it.
bool check_agreement(const MaxtextConfig& config, Diagnostics& diags) {
  const auto named = find_model_name(config);
  if (named && !config.model) {
    diags
        .error(Code::UnreadableFile, named->span(),
               "`models/" + std::string(named->text()) +
                   ".yml`, which has the sizes of this model, was not found "
                   "next to this file or in a parent folder")
        .help("give that file as the model, and this one with `--rules`");
    return false;
  }
  if (config.missing_base) {
    diags
        .report(Code::UnsupportedKey, Severity::Warning,
                config.missing_base->span(),
                "`base_config: " + std::string(config.missing_base->text()) +
                    "` was not found: missing sizes are taken from MaxText's "
                    "base.yml")
        .help("put the file next to this one");
  }
  if (!config.model || overrides_model(config)) return true;
  const Node own = config.layers.front().root();
  for (size_t i = 0; i < own.size(); ++i) {
    const auto of_model = find_in(config.model, own.key(i));
    if (!of_model || of_model->text() == own.item(i).text() ||
        of_model->is_string() != own.item(i).is_string()) {
      continue;
    }
    diags
        .error(Code::UnsupportedConfig, own.key_span(i),
               in_backticks(own.key(i)) +
                   " differs from the model's own file, which MaxText rejects")
        .label(of_model->span(), "the model's own value")
        .help("remove it, or set `override_model_config: true`");
    return false;
  }
  return true;
}

std::shared_ptr<const Document> config_of_model(const ManifestSource& source,
                                                Host& host,
                                                Diagnostics& diags) {
  diags.add_source(source.file);
  const auto config = read_maxtext_config(
      source.file, source.path == "-" ? nullptr : &host, diags);
  if (!config) return nullptr;
  for (const SourcePtr& each : sources_of(*config)) diags.add_source(each);
  if (!check_agreement(*config, diags)) return nullptr;
  const auto text = ConfigWriter(*config, diags).write();
  if (!text) return nullptr;
  const auto rewritten = std::make_shared<SourceFile>(
      source.file->name() + ", as a config.json", *text);
  auto document = parse_document(rewritten, diags);
  if (!document) return nullptr;
  diags.add_source(rewritten);
  return std::make_shared<const Document>(*std::move(document));
}

std::optional<Manifest> read_model(const ManifestSource& source, Host& host,
                                   Diagnostics& diags) {
  const auto document = config_of_model(source, host, diags);
  if (document == nullptr) return std::nullopt;
  ConfigReading reading = source.reading;
  if (reading.scheme == nullptr) reading.scheme = find_name_scheme("maxtext");
  auto manifest = synthesize_manifest(*document, diags, reading);
  if (!manifest) return std::nullopt;
  manifest->title = source.path;
  manifest->sources.push_back(document->shared_source());
  manifest->config = document;
  return manifest;
}

}  // namespace

const ManifestFormat kMaxtextModel = {
    "maxtext-model", "MaxText's model files and configs that name one",
    recognize_model, read_model};

}  // namespace shardplan
