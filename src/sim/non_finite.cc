// SPDX-License-Identifier: Apache-2.0
#include "sim/non_finite.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "graph/elementwise.h"

namespace shardplan {
namespace {

template <typename T>
void count(const T* numbers, int64_t n, int64_t step, NumberKinds& kinds) {
  // Nearly all numbers are finite: x - x is then 0, and else NaN. Several sums,
  // since one would wait for itself.
  constexpr int64_t kLanes = 8;
  std::array<T, kLanes> rests{};
  bool any = false;
  for (int64_t i = 0; i < n; ++i) {
    const T x = numbers[i * step];
    rests[static_cast<size_t>(i % kLanes)] += x - x;
    any = any || x != 0;
  }
  kinds.all_zero = kinds.all_zero && !any;
  const T rest = std::accumulate(rests.begin(), rests.end(), T{0});
  if (!std::isnan(rest)) return;
  for (int64_t i = 0; i < n; ++i) {
    const T x = numbers[i * step];
    if (std::isnan(x)) {
      ++kinds.nan;
    } else if (std::isinf(x)) {
      ++(x > 0 ? kinds.infinite : kinds.minus_infinite);
    }
  }
}

}  // namespace

NumberKinds kinds_of(const Tensor& tensor) {
  NumberKinds kinds;
  kinds.elements = tensor.elements();
  kinds.all_zero = kinds.elements > 0;
  const auto walk = [&](auto type) {
    using T = typename decltype(type)::type;
    for_each_row<1>(tensor.shape, std::array<Strides, 1>{tensor.strides},
                    [&](int64_t n, const std::array<int64_t, 1>& offsets,
                        const std::array<int64_t, 1>& steps) {
                      count(tensor.data<T>() + offsets[0], n, steps[0], kinds);
                    });
  };
  if (tensor.element == Element::F32) {
    walk(std::type_identity<float>{});
  } else {
    walk(std::type_identity<double>{});
  }
  return kinds;
}

std::optional<NonFinite> non_finite_of(const NumberKinds& kinds, int value,
                                       int64_t device, bool masked) {
  const int64_t minus = masked ? 0 : kinds.minus_infinite;
  const int64_t count = kinds.nan + kinds.infinite + minus;
  if (count == 0) return std::nullopt;
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  double worst = -kInfinite;
  if (kinds.infinite > 0) worst = kInfinite;
  if (kinds.nan > 0) worst = std::numeric_limits<double>::quiet_NaN();
  return NonFinite{value, device, count, kinds.elements, worst};
}

bool passes_mask(const GraphNode& node, const std::vector<bool>& masked) {
  return node.op->name == "causal_mask" ||
         std::any_of(node.operands.begin(), node.operands.end(),
                     [&](int v) { return masked[static_cast<size_t>(v)]; });
}

}  // namespace shardplan
