// SPDX-License-Identifier: Apache-2.0
// Facts: what is known of a model beyond the shapes of its parameters.
//
// A config.json or the `facts` of a manifest states them, or they are inferred
// from names and shapes. An absent fact is unknown, never zero.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"
#include "core/types.h"

namespace shardplan {

// The origin of the facts. Facts from a config or a manifest are trusted, so
// SP206 is an error; inferred facts only cause a warning.
enum class FactsFrom : uint8_t { None, Inferred, Manifest, Config };

// A tensor that a layer caches while it generates.
struct CachedTensor {
  enum class Per : uint8_t {
    Token,     // one entry per token so far: keys and values, a latent
    Source,    // one per encoder token: keys and values of cross-attention
    Sequence,  // of constant size: a recurrent state
  };
  std::string name;  // "kv", "latent", "ssm"
  Per per = Per::Token;
  // The number of parts that devices can share out (KV heads or channels), and
  // the elements per part for one token or sequence. With 0 heads the tensor
  // stays whole, and `width` is all of it.
  int64_t heads = 0;
  int64_t width = 0;
  // Per::Token: how many tokens back the layer sees, 0 for all of them.
  // Per::Source: the number of encoder tokens, 0 if the model does not
  // determine it.
  int64_t tokens = 0;
  // Per::Token: how many tokens share one entry, in layers that compress them.
  int64_t every = 1;
  // Per::Sequence: the dtype; absent: that of the KV cache.
  std::optional<DType> dtype = std::nullopt;
  // For heads that are also parameters: the architecture's name for their
  // number, and the folded name of the module: "model.layers.*.mixer".
  std::string label = {};
  std::string module = {};
  // Per::Sequence: the product of the state's dimensions after the first, which
  // divides `width`. For a convolution state it is the number of tokens that
  // the convolution sees.
  int64_t columns = 1;

  bool operator==(const CachedTensor&) const = default;
};
// The names of CachedTensor::Per in files.
inline constexpr std::array<std::string_view, 3> kCachedPerNames = {
    "token", "source", "sequence"};
struct LayerState {
  bool known = true;
  std::vector<CachedTensor> cached;  // empty: the layer caches nothing

  bool operator==(const LayerState&) const = default;
};
// More than any model has. Each cached tensor has an entry for every layer.
inline constexpr size_t kMaxCachedTensors = 16;
inline constexpr size_t kMaxStateLayers = 100'000;

// The cached tensors of all layers: the distinct layer states, and the index of
// each layer's state.
struct LayerStates {
  std::vector<LayerState> kinds;
  std::vector<uint32_t> layers;

  bool operator==(const LayerStates&) const = default;
};

struct Facts {
  FactsFrom from = FactsFrom::None;
  std::optional<int64_t> layers;
  std::optional<int64_t> heads;
  std::optional<int64_t> kv_heads;
  std::optional<int64_t> head_dim;   // size of a query or key head
  std::optional<int64_t> value_dim;  // size of a value head, where it differs
  // Latent attention (MLA): the elements that a layer caches for one token,
  // kv_lora_rank + qk_rope_head_dim. head_dim is then unknown.
  std::optional<int64_t> kv_latent;
  std::optional<int64_t> experts;
  std::optional<int64_t> expert_groups;  // groups that routing chooses among
  // The number of experts that a token is routed to. It comes from the config
  // even where another source states the other facts.
  std::optional<int64_t> experts_per_token;
  std::optional<int64_t> vocab;
  // Quantisation block: the rows and columns that share one scale.
  std::optional<int64_t> quant_rows;
  std::optional<int64_t> quant_columns;
  // The number of tokens that each layer's attention sees; 0: all of them,
  // kUnknownWindow: the layer caches something else of unknown size. Empty if
  // nothing is known; for a config that means that every layer sees all tokens.
  std::vector<int64_t> windows;
  // The caches of the layers, as the architecture states them. It has no layers
  // if the architecture does not state them; then `heads` and `windows`
  // determine the cache.
  LayerStates state;
};
inline constexpr int64_t kUnknownWindow = -1;

// The single-number facts that manifests may state, with their names in files
// and reports.
struct FactField {
  std::string_view name;
  std::optional<int64_t> Facts::*member;
};
inline constexpr std::array<FactField, 11> kFactFields = {{
    {"layers", &Facts::layers},
    {"heads", &Facts::heads},
    {"kv_heads", &Facts::kv_heads},
    {"head_dim", &Facts::head_dim},
    {"value_dim", &Facts::value_dim},
    {"kv_latent", &Facts::kv_latent},
    {"experts", &Facts::experts},
    {"expert_groups", &Facts::expert_groups},
    {"vocab", &Facts::vocab},
    {"quant_rows", &Facts::quant_rows},
    {"quant_columns", &Facts::quant_columns},
}};

}  // namespace shardplan
