// SPDX-License-Identifier: Apache-2.0
#include "evaluate/stored_weights.h"

#include <algorithm>
#include <string_view>

namespace shardplan {
namespace {

constexpr double kByteBits = 8;

// Returns the name of a weight without the suffix that marks a weight; the
// names of its scales and zero points start with the result.
std::string_view quantised_module(std::string_view name) {
  for (const std::string_view end :
       {"weight_packed", "qweight", "weight", "_blocks"}) {
    if (name.ends_with(end)) {
      name.remove_suffix(end.size());
      break;
    }
  }
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

bool is_eight_bit_float(DType dtype) {
  return dtype == DType::F8E4M3 || dtype == DType::F8E5M2 ||
         dtype == DType::F8E4M3FN || dtype == DType::F8E4M3FNUZ ||
         dtype == DType::F8E5M2FNUZ;
}

}  // namespace

Precision precision_in(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return Precision::F16;
    case DType::BF16:
      return Precision::BF16;
    default:
      return Precision::F32;
  }
}

double bits_of(DType dtype) {
  const DTypeBlock block = dtype_block(dtype);
  return static_cast<double>(block.bits) / block.elements;
}

StoredWeights::StoredWeights(const Manifest& manifest,
                             const HardwareProfile& card, DType plain,
                             std::optional<DType> instead)
    : manifest_(manifest),
      card_(card),
      plain_(precision_in(plain)),
      plain_bits_(bits_of(plain)),
      instead_(instead) {}

StoredWeight StoredWeights::of(size_t index, Int128 numbers) {
  const TensorType& type = manifest_.type(index);
  StoredWeight stored;
  stored.precision = plain_;
  const bool is_plain = type.dtype == DType::F32 || type.dtype == DType::F16 ||
                        type.dtype == DType::BF16;
  if (is_plain && type.elements() == numbers) {
    const DType dtype = instead_.value_or(type.dtype);
    stored.bits = std::min(bits_of(dtype), plain_bits_);
    if (is_eight_bit_float(dtype)) {
      stored.precision = computed_in(Precision::F8);
    }
    return stored;
  }
  if (!found_) find_all();
  const Scaling& scaling =
      scalings_[std::string(quantised_module(manifest_.name(index)))];
  const auto elements = static_cast<double>(numbers);
  const double own = static_cast<double>(type.bytes()) * kByteBits / elements;
  stored.bits = own + scaling.bytes * kByteBits / elements;
  constexpr double kFour = 4.01;  // with the padding of the last word
  if (own > kFour) {
    if (is_eight_bit_float(type.dtype)) {
      stored.precision = computed_in(Precision::F8);
    }
  } else if (scaling.scales == Scales::EightBits) {
    // NVFP4 also quantises activations.
    stored.precision = computed_in(Precision::F4);
  } else if (scaling.scales == Scales::Powers && has(Precision::F4)) {
    // MXFP4 weights meet activations in MXFP8.
    stored.precision = computed_in(Precision::F8);
  }
  return stored;
}

bool StoredWeights::has(Precision precision) const {
  return std::ranges::any_of(card_.flops_per_second, [&](const auto& rate) {
    return rate.first == precision;
  });
}

Precision StoredWeights::computed_in(Precision precision) const {
  return has(precision) ? precision : plain_;
}

void StoredWeights::find_all() {
  found_ = true;
  for (size_t i = 0; i < manifest_.any_size(); ++i) {
    const std::string_view name = manifest_.any_name(i);
    size_t at = name.rfind("scale");
    if (at == std::string_view::npos) at = name.rfind("qzeros");
    if (at == std::string_view::npos) continue;
    std::string_view module = name.substr(0, at);
    while (module.ends_with('_') || module.ends_with('.')) {
      module.remove_suffix(1);
    }
    if (module.ends_with(".weight")) module = quantised_module(module);
    Scaling& scaling = scalings_[std::string(module)];
    const TensorType& type = manifest_.any_type(i);
    scaling.bytes += static_cast<double>(type.bytes());
    if (type.elements() < 2) continue;
    if (is_eight_bit_float(type.dtype)) scaling.scales = Scales::EightBits;
    if (type.dtype == DType::U8 || type.dtype == DType::F8E8M0) {
      scaling.scales = Scales::Powers;
    }
  }
}

}  // namespace shardplan
