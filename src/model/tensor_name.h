// SPDX-License-Identifier: Apache-2.0
// The meaning of a tensor's name: which projection of attention it is, whether
// it is stored transposed, and whether it is one expert or a stack of all
// experts.
//
// Only the last components of a name count (`self_attn`, `q_proj`, `weight`),
// and only exact spellings of Hugging Face, Flax, EasyDeL, EasyLM, MaxText and
// llama.cpp; a name that merely resembles one has no meaning. A million names
// are read without allocation.
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

// The end of a name. `module` is the module that the parameter belongs to; if
// the last component is not `weight`, `kernel`, `bias` or `scale`, `module` is
// that component. Wrappers that PEFT adds around an adapted module are skipped
// (`base_layer`).
struct TensorName {
  std::string_view parent;
  std::string_view module;
  std::string_view leaf;
};
TensorName split_name(std::string_view name);

// Returns whether a component names an attention block.
bool is_attention(std::string_view component);

// Returns whether a tensor belongs to an attention block: it is below one or,
// in llama.cpp, has a name like `blk.0.attn_q.weight`.
bool in_attention(const TensorName& name);

// Returns whether a tensor belongs to a tower beside the language model
// (vision, audio), whose heads are not among the facts.
bool in_other_tower(std::string_view name);

// A projection of attention.
enum class Role : uint8_t {
  Query,
  Key,
  Value,
  LatentUp,  // MLA: from a latent to all heads; no fact gives its size
  Output,
  ConvOutput,  // GPT-2's: stored transposed
};
std::optional<Role> role_of(const TensorName& name);

// Weight: [out, in]. Kernel: [in, out].
enum class TensorKind : uint8_t { Weight, Kernel, Bias };
std::optional<TensorKind> tensor_kind(const TensorName& name);

// `experts/gate_proj/kernel` and llama.cpp's `ffn_gate_exps.weight` are
// stacked; `experts.3.w1.weight` is number 3; shared experts, routers and dense
// layers are neither.
struct ExpertName {
  bool stacked = false;
  std::optional<int64_t> number = {};
  std::string_view digits = {};  // `number` as written, even if it is too large
};
ExpertName expert_name(std::string_view name);

// Layout hints: properties of one tensor's layout that follow only from all
// tensors of the model.
//
// `dense_h_to_4h` of [27392, 4096] packs gate and up if its sibling
// `dense_4h_to_h` has 13,696 columns, and is a plain projection if that has
// 27,392. `layers/mlp/up_proj/kernel` of [24, 64, 256] is a stack of 24 layers
// if the shape of every tensor below `layers` starts with 24.

// Sizes of all tensors below one name for layers (`decoder/layers`) without
// layer numbers.
struct StackEvidence {
  int64_t tensors = 0;
  size_t least_rank = SIZE_MAX;
  size_t most_rank = 0;
  // The size that all tensors have in their first and in their second
  // dimension; empty once two differ.
  std::optional<int64_t> first, second;
};

struct LayoutHints {
  // Rows of gate and up alternate in experts (gpt-oss: only its experts have
  // biases).
  bool alternating_experts = false;
  // The sizes of the down projections' inputs (rank 2 only), by module.
  std::map<std::string, std::set<int64_t>, std::less<>> down_inputs;
  // The last two dimensions of stacked experts' down projections.
  std::set<std::pair<int64_t, int64_t>> expert_downs;
  std::map<std::string, StackEvidence, std::less<>> stacks;
  QuantBlocksByName blocks;  // empty where no scales determine them
  // Parameters that an architecture explains; null for a model without one.
  std::shared_ptr<const ParameterKinds> kinds;
};

// Collects the hints. O(classes), except for stacks with a number before them
// (`towers.0.layers`).
//
// REQUIRES: parameters of one class are of one type.
LayoutHints layout_hints(const Manifest& manifest, const Folding& folding);
// Does the same if nothing is folded yet. O(parameters).
LayoutHints layout_hints(const Manifest& manifest);

// Returns the name for layers that a tensor is below, if no number follows it:
// `decoder/layers` for `decoder/layers/mlp/wi/kernel`, empty for
// `model.layers.0.mlp.up_proj.weight`.
std::string_view stack_of(std::string_view name);

// The dimension along which the layers of a stack are stacked, and their
// number; empty if that is not known. `layers` is the number in the facts.
struct StackedLayers {
  size_t dim = 0;
  int64_t layers = 0;
};
std::optional<StackedLayers> stacked_layers(const StackEvidence& stack,
                                            std::optional<int64_t> layers);

// Returns the sibling that reads the outputs of a module of this name:
// `down_proj` for `gate_up_proj`; empty for other modules.
std::string_view down_module(std::string_view up_module);

// The vocabulary dimension of a tensor.

// The use of a vocabulary tensor according to its name: rows that tokens look
// up, or the product that computes logits.
enum class VocabUse : uint8_t { Table, Head };
std::optional<VocabUse> vocab_use(std::string_view name);

// Returns the dimension of an embedding or output head that is the vocabulary,
// inferred from its name and the vocabulary size in the facts; without that
// size, from the layout that the name implies. Returns empty for any other
// tensor.
std::optional<size_t> vocab_dim(std::string_view name, const TensorType& type,
                                const Facts& facts);

}  // namespace shardplan
