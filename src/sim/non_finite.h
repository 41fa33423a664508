// SPDX-License-Identifier: Apache-2.0
// Infinities and NaNs of a run: two of them compare as equal, or as nothing, so
// that they have to be found before anything is compared.
//
// The -inf of a causal mask is meant, and so is what is computed of it as long
// as it stays -inf; everything else that is not finite is found.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/graph.h"
#include "graph/tensor.h"

namespace shardplan {

struct NonFinite {
  int value = 0;        // of the graph
  int64_t device = -1;  // of a sharded run; -1: the unsharded one
  int64_t count = 0;    // of `elements` numbers of the value, or of the part
  int64_t elements = 0;
  double worst = 0;  // NaN, inf or -inf, the first of these that there is
};

// What kinds of numbers a tensor holds.
struct NumberKinds {
  int64_t elements = 0;
  int64_t nan = 0;
  int64_t infinite = 0;  // +inf
  int64_t minus_infinite = 0;
  bool all_zero = false;  // and there are some
};
NumberKinds kinds_of(const Tensor& tensor);

// The numbers of a value that are not finite and not meant to be.
std::optional<NonFinite> non_finite_of(const NumberKinds& kinds, int value,
                                       int64_t device, bool masked);

// Whether the -inf in a node's result are a mask's; `masked`: the same of
// values before.
bool passes_mask(const GraphNode& node, const std::vector<bool>& masked);

}  // namespace shardplan
