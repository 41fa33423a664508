// SPDX-License-Identifier: Apache-2.0
// Storage in low precision: numbers are computed in float32 and kept in fewer
// bits.
//
// Rounding is to nearest, ties to even (IEEE 754-2019, 4.3.1); numbers beyond
// the range of float16 become infinite, its subnormals are kept.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/tensor.h"

namespace shardplan {

enum class Storage : uint8_t { F32, BF16, F16 };
std::optional<Storage> find_storage(std::string_view name);  // "bf16"
std::string_view storage_name(Storage storage);
int64_t storage_bytes(Storage storage);  // of one element
// Half the distance from 1 to the next larger number.
double unit_roundoff(Storage storage);
// Half of the least number above 0: the error of rounding is at most the unit
// roundoff times the number plus this, where nothing overflows (Higham,
// "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 2.1).
double underflow_unit(Storage storage);

float rounded(float number, Storage storage);
// Rounds every number in place; a view rounds what it sees. REQUIRES: the
// tensor is of float32.
void round_to(const Tensor& tensor, Storage storage, int threads = 1);

}  // namespace shardplan
