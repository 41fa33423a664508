// SPDX-License-Identifier: Apache-2.0
// What a tensor's name says about it: which projection of attention, which way
// round it is stored, one expert or all of them stacked.
//
// Only the last components of a name count (`self_attn`, `q_proj`, `weight`),
// and only exact spellings of Hugging Face, Flax, EasyDeL, EasyLM, MaxText and
// llama.cpp; a name that merely resembles one says nothing. A million names are
// read without allocation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/facts.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/types.h"
#include "model/quant_scales.h"

namespace shardplan {

// The end of a name. `module` is what the parameter belongs to; where the last
// component is no `weight`, `kernel`, `bias` or `scale`, it is that component.
// What PEFT puts around a module that it adapts is left out (`base_layer`).
struct TensorName {
  std::string_view parent;
  std::string_view module;
  std::string_view leaf;
};
TensorName split_name(std::string_view name);

// Whether a component names an attention block.
bool is_attention(std::string_view component);

// Whether a name is that of a tensor of an attention block: below one, or, as
// llama.cpp has it, `blk.0.attn_q.weight`.
bool in_attention(const TensorName& name);

// Whether a name lies in a tower beside the language model (vision, audio),
// which has heads of its own that the facts do not tell.
bool in_other_tower(std::string_view name);

// A projection of attention.
enum class Role : uint8_t {
  Query,
  Key,
  Value,
  LatentUp,  // MLA: from a latent to all heads, whose size no fact tells
  Output,
  ConvOutput,  // GPT-2's: stored the other way round
};
std::optional<Role> role_of(const TensorName& name);

// Weight: [out, in]. Kernel: [in, out].
enum class TensorKind : uint8_t { Weight, Kernel, Bias };
std::optional<TensorKind> tensor_kind(const TensorName& name);

// `experts/gate_proj/kernel` and llama.cpp's `ffn_gate_exps.weight` are
// stacked, `experts.3.w1.weight` is number 3; shared experts, routers and dense
// layers are neither.
struct ExpertName {
  bool stacked = false;
  std::optional<int64_t> number;
  std::string_view digits = {};  // `number` as written, also if it is too large
};
ExpertName expert_name(std::string_view name);

// Layout hints: what only all tensors of a model together tell about how one of
// them is laid out.
//
// `dense_h_to_4h` of [27392, 4096] is packed gate and up where its sibling
// `dense_4h_to_h` takes 13,696 columns, and a plain projection where it takes
// 27,392. `layers/mlp/up_proj/kernel` of [24, 64, 256] is a stack of 24 layers
// where every tensor below `layers` starts with 24.

// Sizes of all tensors below one name for layers (`decoder/layers`), without
// numbers.
struct StackEvidence {
  int64_t tensors = 0;
  size_t least_rank = SIZE_MAX;
  size_t most_rank = 0;
  // The size that all have in their first and in their second dimension; empty
  // once two differ.
  std::optional<int64_t> first, second;
};

struct LayoutHints {
  // Experts' gate and up alternate (gpt-oss: only there they have biases).
  bool alternating_experts = false;
  // What the down projections take: their rank-2 input sizes, by module.
  std::map<std::string, std::set<int64_t>, std::less<>> down_inputs;
  // The last two dimensions of stacked experts' down projections.
  std::set<std::pair<int64_t, int64_t>> expert_downs;
  std::map<std::string, StackEvidence, std::less<>> stacks;
  QuantBlocksByName blocks;  // where scales tell them
  // Of parameters that an architecture explains; null for a model without.
  std::shared_ptr<const ParameterKinds> kinds;
};

// O(classes), but where a stack has a number in front (`towers.0.layers`).
// REQUIRES: parameters of one class are of one type.
LayoutHints layout_hints(const Manifest& manifest, const Folding& folding);
// The same where nothing is folded yet. O(parameters).
LayoutHints layout_hints(const Manifest& manifest);

// The name for layers that a tensor lies below, where no number follows:
// `decoder/layers` of `decoder/layers/mlp/wi/kernel`, empty for
// `model.layers.0.mlp.up_proj.weight`.
std::string_view stack_of(std::string_view name);

// The dimension along which the layers of a stack are stacked, and their
// number; empty when that is not known. `layers` is the number that the facts
// give.
struct StackedLayers {
  size_t dim = 0;
  int64_t layers = 0;
};
std::optional<StackedLayers> stacked_layers(const StackEvidence& stack,
                                            std::optional<int64_t> layers);

// The sibling that takes what a module of this name gives: `down_proj` of
// `gate_up_proj`; empty for other modules.
std::string_view down_module(std::string_view up_module);

// Where the vocabulary is in a tensor.

// What a tensor's name says that it is for: rows that tokens look up, or the
// product that makes logits.
enum class VocabUse : uint8_t { Table, Head };
std::optional<VocabUse> vocab_use(std::string_view name);

// The dimension of an embedding or output head that is the vocabulary, inferred
// from its name and the facts' size; without that, from the layout that the
// name tells. Empty for anything else.
std::optional<size_t> vocab_dim(std::string_view name, const TensorType& type,
                                const Facts& facts);

}  // namespace shardplan
