// SPDX-License-Identifier: Apache-2.0
#include "io/gguf_types.h"

#include <array>
#include <utility>

namespace shardplan {
namespace {

// ggml.h, enum ggml_type.
constexpr std::array<std::pair<uint32_t, DType>, 32> kTypes = {{
    {0, DType::F32},     {1, DType::F16},      {2, DType::Q4_0},
    {3, DType::Q4_1},    {6, DType::Q5_0},     {7, DType::Q5_1},
    {8, DType::Q8_0},    {9, DType::Q8_1},     {10, DType::Q2_K},
    {11, DType::Q3_K},   {12, DType::Q4_K},    {13, DType::Q5_K},
    {14, DType::Q6_K},   {15, DType::Q8_K},    {16, DType::IQ2_XXS},
    {17, DType::IQ2_XS}, {18, DType::IQ3_XXS}, {19, DType::IQ1_S},
    {20, DType::IQ4_NL}, {21, DType::IQ3_S},   {22, DType::IQ2_S},
    {23, DType::IQ4_XS}, {24, DType::I8},      {25, DType::I16},
    {26, DType::I32},    {27, DType::I64},     {28, DType::F64},
    {29, DType::IQ1_M},  {30, DType::BF16},    {34, DType::TQ1_0},
    {35, DType::TQ2_0},  {39, DType::MXFP4},
}};

constexpr std::string_view kRemoved = "which ggml has removed";
constexpr std::string_view kLater = "which this version does not read";
constexpr std::array<std::pair<uint32_t, RefusedType>, 11> kRefused = {{
    {4, {"Q4_2", kRemoved}},
    {5, {"Q4_3", kRemoved}},
    {31, {"Q4_0_4_4", kRemoved}},
    {32, {"Q4_0_4_8", kRemoved}},
    {33, {"Q4_0_8_8", kRemoved}},
    {36, {"IQ4_NL_4_4", kRemoved}},
    {37, {"IQ4_NL_4_8", kRemoved}},
    {38, {"IQ4_NL_8_8", kRemoved}},
    {40, {"NVFP4", kLater}},
    {41, {"Q1_0", kLater}},
    {42, {"Q2_0", kLater}},
}};

}  // namespace

std::optional<DType> ggml_dtype(uint32_t number) {
  for (const auto& [known, dtype] : kTypes) {
    if (known == number) return dtype;
  }
  return std::nullopt;
}

std::optional<RefusedType> refused_ggml_type(uint32_t number) {
  for (const auto& [known, type] : kRefused) {
    if (known == number) return type;
  }
  return std::nullopt;
}

}  // namespace shardplan
