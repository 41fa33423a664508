// SPDX-License-Identifier: Apache-2.0
// The names of tensors in checkpoints that are buffers, not parameters.
#include <string_view>

#include "base/words.h"
#include "io/formats.h"

namespace shardplan {
namespace {

bool is_float(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

// Returns whether the shape is [1, 1, n, n], as in GPT-2 and similar models; a
// projection's bias never has this shape.
bool is_causal_mask(const Shape& shape) {
  return shape.size() == 4 && shape[0] == 1 && shape[1] == 1 &&
         shape[2] == shape[3];
}

bool is_single(const Shape& shape) {
  return shape.empty() || shape == Shape{1};
}

// Removes the last component of `name` and returns it.
std::string_view cut_last(std::string_view& name) {
  const size_t begin = name.find_last_of("./") + 1;  // npos + 1 is 0
  const std::string_view last = name.substr(begin);
  name = name.substr(0, begin == 0 ? 0 : begin - 1);
  return last;
}

// Returns whether a tensor named like a projection's weight or bias is a
// buffer: a causal mask, or in GGUF the RoPE factors and router correction
// biases.
bool is_module_buffer(std::string_view module, bool bias,
                      const TensorType& type) {
  if (bias && (module == "attn" || module == "attention")) {
    return is_causal_mask(type.shape);
  }
  if (type.shape.size() != 1 || !is_float(type.dtype)) return false;
  if (bias) return module == "exp_probs_b";
  return has_word("rope_freqs rope_factors_long rope_factors_short", module);
}

}  // namespace

bool is_known_buffer(std::string_view name, const TensorType& type) {
  const Shape& shape = type.shape;
  const size_t rank = shape.size();
  const bool is_real = is_float(type.dtype);
  // This quick test suffices for most weights.
  if (rank != 1 && name.ends_with("weight")) return false;
  const std::string_view leaf = cut_last(name);
  if (leaf == "bias" || leaf == "weight") {
    return is_module_buffer(cut_last(name), leaf == "bias", type);
  }
  if (leaf == "masked_bias" || leaf == "scale_attn") return is_single(shape);
  if (leaf == "causal_mask") return is_causal_mask(shape);
  if (leaf == "position_ids") {
    return rank <= 2 && (type.dtype == DType::I64 || type.dtype == DType::I32);
  }
  if (leaf == "inv_freq" || leaf == "e_score_correction_bias") {
    return rank == 1 && is_real;
  }
  // DeepSeek's FP8 has one scale per block of a matrix. MXFP4's scales (u8) are
  // half of a weight's encoding and are placed with it.
  if (leaf == "weight_scale_inv") {
    return rank == 2 && (is_real || type.dtype == DType::F8E8M0);
  }
  // DeepSeek V4's block scales. Those of its 4-bit experts are part of the
  // weight's encoding, like MXFP4's.
  if (leaf == "scale" && type.dtype == DType::F8E8M0 && rank == 2) {
    cut_last(name);
    cut_last(name);
    return cut_last(name) != "experts";
  }
  if (has_word("weight_scale _weight_scale input_scale", leaf)) {
    return rank <= 2 && is_real;
  }
  // Single numbers: the scale of a whole tensor or of activations, or the
  // packing of bytes.
  if (has_word("weight_scale_2 weight_global_scale input_global_scale "
               "activation_scale k_scale v_scale",
               leaf)) {
    return is_single(shape) && is_real;
  }
  if (leaf == "weight_format") return rank == 0 && type.dtype == DType::U8;
  if (leaf == "weight_shape") {
    return shape == Shape{2} && type.dtype == DType::I64;
  }
  // bitsandbytes stores the values of its 4-bit codes, and a text.
  if (leaf == "quant_map") return shape == Shape{16} && is_real;
  if (leaf == "nested_quant_map") return shape == Shape{256} && is_real;
  return leaf.starts_with("bitsandbytes__") && rank == 1 &&
         type.dtype == DType::U8;
}

}  // namespace shardplan
