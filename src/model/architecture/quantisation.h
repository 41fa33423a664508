// SPDX-License-Identifier: Apache-2.0
// Quantisation: which tensors stand for the weight of a linear layer in a
// quantised checkpoint.
//
// FP8 (DeepSeek): `weight` as F8_E4M3 and one f32 scale per block of it,
// `weight_scale_inv`, which is no parameter. MXFP4 (gpt-oss): experts, whose
// kernels are stacked, as `_blocks` of 32 values of 4 bits in 16 bytes and
// `_scales` with one exponent byte per block (OCP Microscaling Formats v1.0,
// 5.3). Blocks run along the contracted dimension, which for this is stored
// last; scales are half of a weight's encoding, so they are parameters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/manifest.h"
#include "core/types.h"
#include "model/architecture/values.h"

namespace shardplan {

// What a diagnostic says of a quantisation that is not known.
inline constexpr std::string_view kPackedTensors =
    "its checkpoint holds packed tensors that the config does not describe";
inline constexpr std::string_view kUseTensors =
    "the model's safetensors files give its tensors without the config";

struct Quantisation {
  enum class Method : uint8_t { None, Fp8, Mxfp4 };
  Method method = Method::None;
  // Rows and columns of a matrix [out, in] that share a scale.
  int64_t block_rows = 1;
  int64_t block_columns = 1;
};

// The quantisation of a config, in one of the methods that the architecture
// knows; any other is SP009, however it is said: nothing of it is read as plain
// numbers. Empty when something was reported.
std::optional<Quantisation> read_quantisation(const Architecture& architecture,
                                              ConfigReader& config);

// A tensor of a checkpoint.
struct ModelTensor {
  std::string name;
  TensorType type;
  bool buffer = false;
  ParameterKind kind = {};
};

// A linear layer before it is stored.
struct LinearWeight {
  std::string name;    // "mlp.up_proj"
  std::string weight;  // what its weight is called behind that
  Shape stack;         // dimensions in front: experts
  int64_t out = 0;
  int64_t in = 0;
  bool inputs_first = false;
  DType dtype = DType::F32;
  ParameterKind stack_kind = {};
  DimKind out_kind = {};
  DimKind in_kind = {};
};

// The tensors of its weight. SP009 where its sizes do not fit the blocks.
std::optional<std::vector<ModelTensor>> store_weight(
    const LinearWeight& linear, const Quantisation& quantisation,
    ConfigReader& config);

}  // namespace shardplan
