// SPDX-License-Identifier: Apache-2.0
// Reads the facts that a config states, whatever its model type and spelling.
#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "model/architecture/values.h"
#include "model/architectures.h"
#include "model/from_config.h"
#include "model/generation_state.h"

namespace shardplan {
namespace {

// Returns the first positive integer among the keys' values.
std::optional<int64_t> find_size(const Node& config,
                                 std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    const auto value = config.find(key);
    const auto number = value ? value->integer() : std::nullopt;
    if (number && *number > 0) return number;
  }
  return std::nullopt;
}

// Values of a config as an architecture reads them. Nothing is reported, since
// errors may concern values that are not needed here.
struct Reading {
  std::shared_ptr<const Architecture> architecture;
  Diagnostics diags = {};
  ConfigReader reader;
  ConfigValues values;

  Reading(std::shared_ptr<const Architecture> of, const Node& config,
          ConfigValues::Place place = ConfigValues::Place::Own)
      : architecture(std::move(of)),
        reader(config, "", diags),
        values(*architecture, reader, 0, place) {}

  std::optional<int64_t> size(std::string_view name) {
    const ConfigValue* const value = values.find(name);
    if (value == nullptr || value->kind != ConfigValue::Kind::Integer) {
      return std::nullopt;
    }
    return value->integer;
  }
};

std::optional<int64_t> find_kv_heads(const Node& config,
                                     std::optional<int64_t> heads) {
  if (const auto count = find_size(
          config, {"num_key_value_heads", "num_kv_heads", "n_kv_heads"})) {
    return count;
  }
  // Falcon and GPTBigCode use a switch, each with its own meaning.
  if (config.find("multi_query")) return std::nullopt;
  return heads;
}

std::optional<int64_t> find_head_dim(const Node& config,
                                     std::optional<int64_t> heads) {
  if (const auto size = find_size(config, {"head_dim", "kv_channels"})) {
    return size;
  }
  const auto hidden = find_size(config, {"hidden_size", "n_embd", "d_model"});
  if (hidden && heads && *hidden % *heads == 0) return *hidden / *heads;
  return std::nullopt;
}

// Windows of layers for a model type whose architecture, if there is one, does
// not determine them. Only `layer_types` is read. If there is a
// `sliding_window` without it, all layers are assumed to attend to all tokens,
// which never underestimates. Layers without keys and values (recurrent ones)
// and layers that share another layer's are kUnknownWindow.

// Keys with which model types without `layer_types` mix attention layers with
// other layers.
constexpr std::string_view kHybridKeys[] = {
    "attn_layer_indices", "attn_layer_period", "full_attention_interval",
    "hybrid_override_pattern", "layers_block_type"};

// Returns the window that a word of `layer_types` means.
int64_t window_of_type(std::string_view type, const Node& config) {
  if (type == "full_attention" || type == "attention") return 0;
  if (type == "sliding_attention") {
    return find_size(config, {"sliding_window"}).value_or(kUnknownWindow);
  }
  if (type == "chunked_attention") {
    return find_size(config, {"attention_chunk_size"}).value_or(kUnknownWindow);
  }
  return kUnknownWindow;
}

std::vector<int64_t> listed_windows(const Node& config, int64_t layers) {
  const auto types = config.find("layer_types");
  const bool listed = types && types->is_list();
  std::vector<int64_t> windows;
  for (size_t i = 0; listed && i < types->size(); ++i) {
    windows.push_back(window_of_type(types->item(i).text(), config));
  }
  if (!listed) windows.assign(to_size(layers), 0);
  const bool hybrid = std::ranges::any_of(
      kHybridKeys,
      [&](std::string_view key) { return config.find(key).has_value(); });
  const auto end = std::ssize(windows);
  int64_t unknown = find_size(config, {"num_kv_shared_layers"}).value_or(0);
  if (hybrid && !types) unknown = end;
  std::fill(windows.begin() + std::max<int64_t>(0, end - unknown),
            windows.end(), kUnknownWindow);
  return windows;
}

// Returns Facts::windows; there is no `reading` of an unknown model type.
std::vector<int64_t> layer_windows(const Node& config,
                                   std::optional<Reading>& reading,
                                   int64_t layers) {
  if (layers > kMaxCount) return {};
  std::vector<int64_t> windows;
  const ValueRule* const rule =
      reading ? reading->architecture->find_value("window") : nullptr;
  if (rule == nullptr || rule->of_forward) {
    windows = listed_windows(config, layers);
  } else {
    std::string why;
    const auto* const table = reading->values.find_table("window", why);
    if (table == nullptr) windows.assign(to_size(layers), kUnknownWindow);
    for (size_t i = 0; table != nullptr && i < table->size(); ++i) {
      windows.push_back((*table)[i].integer);
    }
  }
  const bool all_see_all =
      std::ranges::count(windows, 0) == std::ssize(windows);
  return all_see_all ? std::vector<int64_t>() : windows;
}

// Returns the dtype of computation, from `dtype` or the older `torch_dtype`, if
// it is known.
std::optional<DType> named_dtype(const Node& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const auto value = config.find(key);
    if (!value || !value->is_string()) continue;
    std::string_view text = value->text();
    if (text.starts_with("torch.")) text.remove_prefix(6);
    if (const auto dtype = find_dtype(text)) return dtype;
  }
  return std::nullopt;
}

// Returns the state of the whole config's layers, since its classes define how
// parts are combined; or that of the text model if the whole has no known type.
LayerStates layer_state(const Node& config, const Node& text,
                        const std::shared_ptr<const Architecture>& architecture,
                        const Facts& facts) {
  ArchitectureChoice choice = architecture != nullptr
                                  ? choose_class(architecture, config)
                                  : choose_architecture(config);
  const bool whole = static_cast<bool>(choice);
  if (!whole) choice = choose_architecture(text);
  if (!choice) return {};
  const ArchitectureClass* model_class = choice.model_class;
  if (model_class == nullptr && !choice.architecture->classes.empty()) {
    model_class = &choice.architecture->classes.front();
  }
  if (model_class == nullptr ||
      !declares_state(*choice.architecture, *model_class)) {
    return {};
  }
  auto dtype = named_dtype(config);
  if (!dtype) dtype = named_dtype(text);
  Reading reading(choice.architecture, whole ? config : text);
  auto state = generation_state(reading.values, *model_class, facts.windows,
                                dtype.value_or(DType::F32));
  if (state) return *std::move(state);
  // The layers store state of an unknown size.
  const int64_t layers = facts.layers.value_or(0);
  if (layers > kMaxCount) return {};
  return {{{false, {}}}, std::vector<uint32_t>(to_size(layers), 0)};
}

// Reads the quantisation block: FP8 gives it as [rows, columns]; in MXFP4, 32
// values of a row share a scale (OCP Microscaling Formats v1.0, 5.3).
void read_quantization(const Node& config, Facts& facts) {
  const auto section = config.find("quantization_config");
  if (!section || !section->is_map()) return;
  const auto method = section->find("quant_method");
  if (method && method->text() == "mxfp4") {
    facts.quant_rows = 1;
    facts.quant_columns = 32;
    return;
  }
  const auto block = section->find("weight_block_size");
  if (!block || !block->is_list() || block->size() != 2) return;
  const auto rows = block->item(0).integer();
  const auto columns = block->item(1).integer();
  if (!rows || !columns || *rows < 1 || *columns < 1) return;
  facts.quant_rows = rows;
  facts.quant_columns = columns;
}

}  // namespace

std::optional<int64_t> config_positions(const Manifest& manifest) {
  if (manifest.config == nullptr) return std::nullopt;
  return find_size(
      manifest.config->root(),
      {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length"});
}

std::optional<int64_t> config_experts_per_token(const Node& root) {
  for (const auto& map : {root.find("text_config"), std::optional(root),
                          root.find("ffn_config")}) {
    if (!map) continue;
    const auto count =
        find_size(*map, {"num_experts_per_tok", "num_experts_per_token",
                         "moe_topk", "moe_top_k", "moe_k", "top_k_experts"});
    if (count) return count;
  }
  return std::nullopt;
}

std::string config_model_type(const Node& config) {
  const auto given = config.find("model_type");
  if (given && !given->is_null()) return std::string(given->text());
  const auto architecture = choose_architecture(config).architecture;
  if (architecture == nullptr || architecture->model_types.empty()) return "";
  return architecture->model_types.front();
}

Facts config_facts(const Node& config,
                   const std::shared_ptr<const Architecture>& architecture) {
  const auto inner = config.find("text_config");
  const auto whole = architecture != nullptr
                         ? architecture
                         : choose_architecture(config).architecture;
  const ConfigSection* part = nullptr;
  for (size_t i = 0; whole && i < whole->sections.size(); ++i) {
    if (whole->sections[i].key == "text_config") part = &whole->sections[i];
  }
  // A text model without its own map has its class's defaults, unless its keys
  // may be at the top level.
  Diagnostics quiet;
  const bool has_map = inner && inner->is_map();
  const bool by_class = !has_map && part != nullptr && !part->is_flat(config);
  const bool nested = has_map || by_class;
  const Node map =
      has_map ? *inner
      : by_class
          ? ConfigReader(config, "", quiet).empty_section(part->key).map()
          : config;
  std::optional<Reading> reading;
  if (architecture == nullptr) {
    const ArchitectureChoice choice = choose_architecture(map);
    const ConfigSection* const flat = flat_part(choice, map);
    if (flat != nullptr) {
      reading.emplace(flat->architecture, map, ConfigValues::Place::Flat);
    } else if (choice) {
      reading.emplace(choice.architecture, map);
    }
  }
  // gemma3's text_config may not name its type. Then the architecture of the
  // whole config, or of the part that it declares, reads the map.
  if (!reading && !nested && whole != nullptr) reading.emplace(whole, map);
  if (!reading && nested && part != nullptr) {
    reading.emplace(part->architecture, map);
  }

  Facts facts;
  facts.heads =
      find_size(map, {"num_attention_heads", "n_head", "n_heads", "num_heads"});
  if (!facts.heads && reading) facts.heads = reading->size("heads");
  facts.experts =
      find_size(map, {"num_local_experts", "n_routed_experts", "num_experts"});
  facts.expert_groups = find_size(map, {"n_group"});
  facts.experts_per_token = config_experts_per_token(config);
  facts.vocab = find_size(map, {"vocab_size"});
  read_quantization(nested && map.find("quantization_config") ? map : config,
                    facts);
  facts.layers = find_size(
      map, {"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  // These values may have other keys, or be defaults of the class.
  if (reading) {
    for (const auto& [name, member] : {std::pair{"experts", &Facts::experts},
                                       std::pair{"vocab", &Facts::vocab},
                                       std::pair{"layers", &Facts::layers}}) {
      std::optional<int64_t>& fact = facts.*member;
      if (!fact) fact = reading->size(name);
      if (fact == 0) fact.reset();
    }
  }
  if (const auto rank = find_size(map, {"kv_lora_rank"})) {
    // Latent attention: each head has its own part of kv_b_proj, and heads of
    // q, of k with v, and of the output differ in size. Rotated positions are
    // cached beside the latent.
    facts.kv_heads = facts.heads;
    facts.value_dim = find_size(map, {"v_head_dim"});
    if (const auto rope = find_size(map, {"qk_rope_head_dim"})) {
      facts.kv_latent = checked_add(*rank, *rope);
    }
  } else {
    facts.kv_heads =
        reading ? reading->size("kv_heads") : find_kv_heads(map, facts.heads);
    facts.head_dim =
        reading ? reading->size("head_dim") : find_head_dim(map, facts.heads);
  }
  if (facts.layers) {
    facts.windows = layer_windows(map, reading, *facts.layers);
  }
  facts.state = layer_state(config, map, architecture, facts);
  if (facts.heads || facts.kv_heads || facts.experts || facts.layers) {
    facts.from = FactsFrom::Config;
  }
  return facts;
}

}  // namespace shardplan
