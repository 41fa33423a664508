// SPDX-License-Identifier: Apache-2.0
// How the weights of a model are stored, as far as it decides how long products
// with them take: the bits that are read, and the precision that computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/checked.h"
#include "core/hardware.h"
#include "core/manifest.h"
#include "core/types.h"

namespace shardplan {

Precision precision_in(DType dtype);  // of products of floats of this dtype
double bits_of(DType dtype);          // of one element

struct StoredWeight {
  double bits = 16;  // of a number, scales included
  Precision precision = Precision::BF16;
};

// All of one model, on one card. The manifest, as stored, and the card must
// outlive it.
class StoredWeights {
 public:
  // `plain`: of activations, to which floats are converted as they are loaded.
  // `instead`: what floats are stored as, where that is asked for.
  StoredWeights(const Manifest& manifest, const HardwareProfile& card,
                DType plain, std::optional<DType> instead);

  // Describes parameter `index`, which stands for so many numbers. Products run
  // in 8 or 4 bits if the weight does, its scales say that activations are
  // quantised as well, and the card has a rate for it.
  StoredWeight of(size_t index, Int128 numbers);

 private:
  // Scales of groups, as far as they say how products are computed.
  enum class Scales : uint8_t { Wide, EightBits, Powers };
  // Scales and offsets that are stored beside a weight's values.
  struct Beside {
    double bytes = 0;
    Scales scales = Scales::Wide;
  };
  bool has(Precision precision) const;
  Precision computed_in(Precision precision) const;
  const Beside& beside_of(const std::string& name);
  void find_all();

  const Manifest& manifest_;
  const HardwareProfile& card_;
  Precision plain_;
  double plain_bits_;
  std::optional<DType> instead_;
  bool found_ = false;
  std::unordered_map<std::string, Beside> beside_;  // by module
};

}  // namespace shardplan
