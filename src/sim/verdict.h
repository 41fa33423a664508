// SPDX-License-Identifier: Apache-2.0
// Whether two runs computed the same, and how much precision sharding costs.
//
// Structural: both runs in double precision, so that what remains of their
// difference is rounding unless the plan is wrong. Precision is reported and
// never the verdict.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "graph/rounding.h"
#include "graph/tensor.h"

namespace shardplan {

inline constexpr double kMismatch = 0x1p-30;
inline constexpr double kLargeAmplification = 4;
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// max(|y_r|, median |y|) of every row r, in the 2-norm over what is finite;
// rows run along the last dimension.
std::vector<double> row_scales(const Tensor& y64);

// max over rows r of |s_r - y_r| / max(|y_r|, median |y|). 0 when both are all
// zero, infinite when y alone is. NaNs and infinities are equal where both runs
// have the same, so that the numbers beside them are compared: that they are
// there is another finding (sim/non_finite.h), without which 0 means nothing.
double structural_error(const Tensor& y64, const Tensor& s64);
// The largest over several results.
double structural_error(std::span<const Tensor> y64,
                        std::span<const Tensor> s64);

// sqrt(sum |s - y64|^2 / sum |u - y64|^2) over all rows of all results, u and s
// the unsharded and the sharded run in the working precision; 0/0 is 1. NaN
// where one of the numbers is not finite.
double error_amplification(std::span<const Tensor> y64,
                           std::span<const Tensor> u,
                           std::span<const Tensor> s);

// sqrt(sum |x - y64|^2 / sum |y64|^2) over all rows, 0/0 being 0. NaN where one
// of the numbers is not finite.
double relative_error(const Tensor& y64, const Tensor& x);

// gamma_n = n u / (1 - n u); empty where n u >= 1.
std::optional<double> gamma(int64_t n, double unit_roundoff);

// For a product of contraction length `length` over `shards` shards, added up
// in `reduce` and kept in `storage`: max |s - y64| / (gamma_length(u) |A||B| +
// gamma_shards(u_reduce) sum|P| + u_storage |y64|), u that of float32, 0/0
// being 0; empty where a gamma is, or a number is not finite. What each of
// these roundings may lose to underflow is added to the bound. `products` is
// |A||B|, `partials` sum|P|.
std::optional<double> bound_ratio(const Tensor& y64, const Tensor& s,
                                  const Tensor& products,
                                  const Tensor& partials, int64_t length,
                                  int64_t shards, Storage reduce = Storage::F32,
                                  Storage storage = Storage::F32);

}  // namespace shardplan
