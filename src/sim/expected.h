// SPDX-License-Identifier: Apache-2.0
// Outputs that another program recorded, compared with those of the runs: does
// the graph compute what the model's own framework does?
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/stored_tensor.h"
#include "graph/graph.h"
#include "graph/tensor.h"

namespace shardplan {

// Float32 on both sides: frameworks differ in the order of their sums, which
// moves the outputs of the tiny checkpoints of tests/data by about 1e-6.
inline constexpr double kExpectedTolerance = 1e-5;

// How far an output is from what was recorded: the largest |y - expected| over
// the largest finite |expected|. NaN where either is; 0/0 is 0, and infinities
// agree with themselves only.
struct ExpectedError {
  int value = 0;  // of the graph; an output of it
  double unsharded = 0;
  double sharded = 0;

  bool agrees(double tolerance = kExpectedTolerance) const {
    return unsharded < tolerance && sharded < tolerance;
  }
};

// The outputs that `expected` holds under their names ("logits"), in the order
// of the graph; other tensors of it are passed over. SP010 when it holds none
// of them, or something of another shape or of no floating-point type.
// REQUIRES: one tensor of each run per output of the graph, one stored tensor
// per parameter of the manifest.
std::optional<std::vector<ExpectedError>> compare_expected(
    const Graph& graph, std::span<const Tensor> unsharded,
    std::span<const Tensor> sharded, const Manifest& expected,
    const StoredTensors& numbers, Diagnostics& diags);

}  // namespace shardplan
