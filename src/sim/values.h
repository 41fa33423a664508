// SPDX-License-Identifier: Apache-2.0
// What a simulated run computes with: the same stored inputs and parameters for
// every run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "graph/graph.h"
#include "graph/tensor.h"

namespace shardplan {

// Whole inputs and parameters of a graph, made or mapped when they are asked
// for, so that none is held longer than it is used. The same number gives the
// same tensor. REQUIRES of its callers: the value is an input or a parameter.
using ReadValue = std::function<Tensor(ValueId value, Element element)>;

enum class ValueSource : uint8_t {
  Random,      // normal, every tensor varied, weights scaled by fan_in^-1/2
  Init,        // parameters as their initialisers draw them
  Field,       // residues modulo field::kPrime
  Checkpoint,  // parameters as the model's files hold them
};
std::optional<ValueSource> find_value_source(std::string_view name);

// Draws values of the graph, which must outlive what is returned: doubles in
// the field, else float32, converted where doubles are asked for. Value i draws
// from fold_in(key(seed), i), where i counts values in the order of the graph,
// parameters apart from inputs; so the parameters of a lone linear layer are
// those that flax.nnx gives it with Rngs(seed). Empty, with the reason
// reported, when an initialiser does not fit its shape (SP015).
std::optional<ReadValue> draw_values(const Graph& graph, ValueSource source,
                                     int64_t seed, Diagnostics& diags,
                                     int threads = 1);

// Fresh numbers for one value, whatever its kind.
Tensor random_value(const Value& value, ValueSource source, int64_t seed,
                    uint32_t index, int threads = 1);

// Outputs that another program recorded, compared with those of the runs: does
// the graph compute what the model's own framework does?

// Of a recording in float32 or doubles: frameworks differ in the order of their
// sums, which moves the outputs of the tiny checkpoints of tests/data by about
// 1e-6.
inline constexpr double kExpectedTolerance = 1e-5;
// A recording is rounded as its type is, and not in the order of our sums: it
// may be off by so many times what our own run in float32 is.
inline constexpr double kTimesOwnRounding = 32;
// Beyond this no rounding is taken for the reason, of float32.
inline constexpr double kMostRounding = 1e-3;

// How far an output is from what was recorded: the largest |y - expected| over
// the largest finite |expected|. NaN where either is; 0/0 is 0, and infinities
// agree with themselves only.
struct ExpectedError {
  ValueId value;         // of the graph; an output of it
  double unsharded = 0;  // in working precision
  double sharded = 0;    // the same
  double exact = 0;      // of both runs in doubles, the larger one
  double tolerance = kExpectedTolerance;  // what rounding may make of `exact`

  bool agrees() const { return exact < tolerance; }
};

// The results of the runs: in doubles, and in working precision.
struct RunOutputs {
  std::span<const Tensor> exact_unsharded;
  std::span<const Tensor> exact_sharded;
  std::span<const Tensor> unsharded;
  std::span<const Tensor> sharded;
};

// The outputs that `expected` holds under their names ("logits"), in the order
// of the graph; other tensors of it are passed over. The only output is also
// the only tensor, whatever its name. SP010 when it holds none of them, or
// something of another shape, without a number or of no floating-point type.
// REQUIRES: one tensor of each run per output of the graph, one stored tensor
// per parameter of the manifest.
std::optional<std::vector<ExpectedError>> compare_expected(
    const Graph& graph, const RunOutputs& outputs, const Manifest& expected,
    const StoredTensors& numbers, Diagnostics& diags);

}  // namespace shardplan
