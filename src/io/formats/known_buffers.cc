// SPDX-License-Identifier: Apache-2.0
#include "io/formats/formats.h"

namespace shardplan {
namespace {

bool is_float(DType dtype) {
  return dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16;
}

// [1, 1, n, n], as GPT-2 and its kin keep it; never a projection's bias.
bool is_causal_mask(const Shape& shape) {
  return shape.size() == 4 && shape[0] == 1 && shape[1] == 1 &&
         shape[2] == shape[3];
}

bool is_single(const Shape& shape) {
  return shape.empty() || shape == Shape{1};
}

// Takes the last component off `name` and gives it.
std::string_view cut_last(std::string_view& name) {
  const size_t split = name.find_last_of("./");
  const std::string_view last =
      split == name.npos ? name : name.substr(split + 1);
  name = name.substr(0, split == name.npos ? 0 : split);
  return last;
}

// Named as a projection's weight or bias would be: masks, and in GGUF the
// factors of rotation and the biases that correct a router.
bool is_module_buffer(std::string_view module, bool bias,
                      const TensorType& type) {
  if (bias && (module == "attn" || module == "attention")) {
    return is_causal_mask(type.shape);
  }
  if (type.shape.size() != 1 || !is_float(type.dtype)) return false;
  if (bias) return module == "exp_probs_b";
  return module == "rope_freqs" || module == "rope_factors_long" ||
         module == "rope_factors_short";
}

}  // namespace

bool is_known_buffer(std::string_view name, const TensorType& type) {
  const Shape& shape = type.shape;
  const std::string_view leaf = cut_last(name);
  if (leaf == "bias" || leaf == "weight") {
    return is_module_buffer(cut_last(name), leaf == "bias", type);
  }
  if (leaf == "masked_bias") return is_single(shape);
  if (leaf == "inv_freq") return shape.size() == 1 && is_float(type.dtype);
  if (leaf == "e_score_correction_bias") {
    return shape.size() == 1 && is_float(type.dtype);
  }
  // DeepSeek's FP8: one scale per block of a matrix. MXFP4's scales (u8) are
  // half of a weight's encoding and are placed with it.
  if (leaf == "weight_scale_inv") {
    return shape.size() == 2 && is_float(type.dtype);
  }
  if (leaf == "weight_scale" || leaf == "input_scale") {
    return shape.size() <= 2 && is_float(type.dtype);
  }
  return false;
}

}  // namespace shardplan
