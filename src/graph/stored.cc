// SPDX-License-Identifier: Apache-2.0
#include "graph/stored.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/check.h"

namespace shardplan {
namespace {

// Numbers are taken as they lie in the file.
static_assert(std::endian::native == std::endian::little);

template <typename Bits>
Bits read_bits(const std::byte* data) {
  Bits bits;
  std::memcpy(&bits, data, sizeof bits);
  return bits;
}

float from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16U);
}

// IEEE 754 binary16: 1 bit of sign, 5 of exponent (bias 15), 10 of fraction.
float from_f16(uint16_t bits) {
  constexpr uint32_t kRebias = (127U - 15U) << 23U;
  const uint32_t sign = (bits & 0x8000U) << 16U;
  const uint32_t magnitude = (bits & 0x7fffU) << 13U;
  if ((bits & 0x7c00U) == 0x7c00U) {  // infinite or NaN
    return std::bit_cast<float>(sign | 0x7f800000U | magnitude);
  }
  if ((bits & 0x7c00U) != 0)
    return std::bit_cast<float>(sign | (magnitude + kRebias));
  // Zero or subnormal: multiples of 2^-24.
  const float value = static_cast<float>(bits & 0x03ffU) * 0x1p-24F;
  return sign != 0 ? -value : value;
}

template <typename To, typename Convert>
void convert(const std::byte* data, int64_t count, size_t stride, To* target,
             Convert convert_one) {
  for (int64_t i = 0; i < count; ++i) {
    target[i] = static_cast<To>(convert_one(data));
    data += stride;
  }
}

template <typename To>
void convert_all(const StoredTensor& stored, int64_t count, To* target) {
  const std::byte* data = stored.data;
  switch (stored.dtype) {
    case DType::F64:
      convert(data, count, sizeof(double), target, read_bits<double>);
      return;
    case DType::F32:
      convert(data, count, sizeof(float), target, read_bits<float>);
      return;
    case DType::F16:
      convert(data, count, sizeof(uint16_t), target, [](const std::byte* at) {
        return from_f16(read_bits<uint16_t>(at));
      });
      return;
    case DType::BF16:
      convert(data, count, sizeof(uint16_t), target, [](const std::byte* at) {
        return from_bf16(read_bits<uint16_t>(at));
      });
      return;
    default:
      SHARDPLAN_CHECK(is_computable(stored.dtype));
  }
}

bool is_aligned(const std::byte* data, size_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

}  // namespace

bool is_computable(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 ||
         dtype == DType::BF16;
}

Tensor load(const StoredTensor& stored, Element element) {
  SHARDPLAN_CHECK(is_computable(stored.dtype) && stored.data != nullptr);
  if (stored.dtype == DType::F32 && element == Element::F32 &&
      is_aligned(stored.data, alignof(float))) {
    // Tensors share storage that may be written; nobody writes a parameter.
    return tensor_over(element, stored.shape,
                       {std::const_pointer_cast<void>(stored.owner),
                        const_cast<std::byte*>(stored.data)});
  }
  Tensor tensor = make_tensor(element, stored.shape);
  const int64_t count = tensor.elements();
  if (element == Element::F32) {
    convert_all(stored, count, tensor.data<float>());
  } else {
    convert_all(stored, count, tensor.data<double>());
  }
  return tensor;
}

}  // namespace shardplan
