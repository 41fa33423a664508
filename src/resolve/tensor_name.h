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
#include <optional>
#include <string_view>

namespace shardplan {

// The end of a name. `module` is what the parameter belongs to; where the last
// component is no `weight`, `kernel`, `bias` or `scale`, it is that component.
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
// stacked, `experts.3.w1.weight` is number 3; shared experts and dense layers
// are neither.
struct ExpertName {
  bool stacked = false;
  std::optional<int64_t> number;
  std::string_view digits = {};  // `number` as written, also if it is too large
};
ExpertName expert_name(std::string_view name);

}  // namespace shardplan
