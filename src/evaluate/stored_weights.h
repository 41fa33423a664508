// SPDX-License-Identifier: Apache-2.0
// StoredWeights: how the weights of a model are stored, as far as it determines
// how long matmuls with them take: the bits that are read, and the precision of
// the computation.
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

Precision precision_in(DType dtype);  // of matmuls with floats of this dtype
double bits_of(DType dtype);          // of one element

struct StoredWeight {
  double bits = 16;  // per element, including scales
  Precision precision = Precision::BF16;
};

// All weights of one model, on one card. The manifest, as stored, and the card
// must outlive it.
class StoredWeights {
 public:
  // `plain`: the dtype of activations, to which floats are converted on load.
  // `instead`: the dtype that floats are stored in, if the request overrides
  // it.
  StoredWeights(const Manifest& manifest, const HardwareProfile& card,
                DType plain, std::optional<DType> instead);

  // Describes parameter `index`, which stands for `numbers` elements. Matmuls
  // run in 8 or 4 bits if the weight is stored so, its scales show that
  // activations are quantised as well, and the card has a rate for that
  // precision.
  StoredWeight of(size_t index, Int128 numbers);

 private:
  // The kind of per-group scales, as far as it determines the matmul's
  // precision.
  enum class Scales : uint8_t { Wide, EightBits, Powers };
  // The scales and offsets that are stored beside a weight's values.
  struct Scaling {
    double bytes = 0;
    Scales scales = Scales::Wide;
  };
  bool has(Precision precision) const;
  Precision computed_in(Precision precision) const;
  void find_all();

  const Manifest& manifest_;
  const HardwareProfile& card_;
  Precision plain_;
  double plain_bits_;
  std::optional<DType> instead_;
  bool found_ = false;
  std::unordered_map<std::string, Scaling> scalings_;  // by module
};

}  // namespace shardplan
