// SPDX-License-Identifier: Apache-2.0
// Facts: what the shapes of a model alone do not tell.
//
// A config.json or a manifest's `facts` states them, or they are inferred from
// names and shapes. Absent ones are unknown, never zero.
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

// Who says so: facts from a config or a manifest are taken at their word
// (SP206 is an error), inferred ones only warn.
enum class FactsFrom : uint8_t { None, Inferred, Manifest, Config };

// What a layer keeps while it generates.
struct KeptTensor {
  enum class Per : uint8_t {
    Token,     // of those seen so far: keys and values, a latent
    Source,    // of those that an encoder gives: keys and values that cross
    Sequence,  // however long it is: a recurrent state
  };
  std::string name;  // "kv", "latent", "ssm"
  Per per = Per::Token;
  // Parts that devices can share out, KV heads or channels, and elements of
  // each, for one token or sequence. 0: all of it stays together.
  int64_t heads = 0;
  int64_t width = 0;
  // Of tokens: how far the layer reaches back, 0 for all. Of a source: how many
  // there are, 0 where that does not follow from the model.
  int64_t tokens = 0;
  // Of tokens: how many become one entry, where the layer compresses them.
  int64_t every = 1;
  // Of what is kept per sequence; none: that of the cache.
  std::optional<DType> dtype = std::nullopt;
  // Where its heads are parameters, too: what the architecture calls their
  // number, and the module, folded: "model.layers.*.mixer".
  std::string label = {};
  std::string module = {};
  // Of a state: the size of its dimensions behind the first, which divides the
  // width. Of the state of a convolution these are the tokens that it reaches.
  int64_t columns = 1;

  bool operator==(const KeptTensor&) const = default;
};
// KeptTensor::Per in files.
inline constexpr std::array<std::string_view, 3> kKeptPer = {"token", "source",
                                                             "sequence"};
struct LayerState {
  bool known = true;
  std::vector<KeptTensor> kept;  // none: it keeps nothing

  bool operator==(const LayerState&) const = default;
};
// More than any model has; each takes an entry for every layer.
inline constexpr size_t kMaxKept = 16;
inline constexpr size_t kMaxStateLayers = 100'000;

// Of all layers: those that are alike, and which of these each layer is.
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
  std::optional<int64_t> head_dim;   // of a query and a key
  std::optional<int64_t> value_dim;  // of a value, where it differs
  // Latent attention (MLA): elements that a layer caches for one token, that is
  // kv_lora_rank + qk_rope_head_dim. Then no head_dim is known.
  std::optional<int64_t> kv_latent;
  std::optional<int64_t> experts;
  std::optional<int64_t> expert_groups;  // that routing chooses among
  // How many experts a token goes to; a config says it, whoever states the
  // rest.
  std::optional<int64_t> experts_per_token;
  std::optional<int64_t> vocab;
  // Quantisation block: rows and columns that share one scale.
  std::optional<int64_t> quant_rows;
  std::optional<int64_t> quant_columns;
  // Tokens that attention of each layer reaches back; 0: all of them,
  // kUnknownWindow: it keeps something else, and nobody says how much. Empty
  // when nothing is said, which for a config means that every layer sees all.
  std::vector<int64_t> windows;
  // What layers keep, where the architecture says it; without layers where
  // nothing does, and then heads and windows tell.
  LayerStates state;
};
inline constexpr int64_t kUnknownWindow = -1;

// The facts that are one number and that manifests may state, with their names
// in files and reports.
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
