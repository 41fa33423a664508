// SPDX-License-Identifier: Apache-2.0
// Values: the stored inputs and parameters that all simulated runs share, and
// the comparison of outputs with recorded ones.
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

// Returns a whole input or parameter of a graph. It is made or mapped on
// request, so that no value is held longer than it is used. The same value is
// always the same tensor. REQUIRES: the value is an input or a parameter.
using ReadValue = std::function<Tensor(ValueId value, Element element)>;

enum class ValueSource : uint8_t {
  Random,      // normal numbers in every tensor; weights times fan_in^-1/2
  Init,        // parameters drawn by their initialisers
  Field,       // residues modulo field::kPrime
  Checkpoint,  // parameters from the model's files
};
std::optional<ValueSource> find_value_source(std::string_view name);

// Returns a function that draws the values of `graph`, which must outlive it:
// doubles in the field, otherwise float32, converted if doubles are requested.
// Value i draws from fold_in(key(seed), i), where i counts values in the order
// of the graph, parameters separately from inputs. So the parameters of a
// single linear layer are those that flax.nnx gives it with Rngs(seed). Returns
// nothing, with the reason reported, if an initialiser does not fit its shape
// (SP015).
std::optional<ReadValue> draw_values(const Graph& graph, ValueSource source,
                                     int64_t seed, Diagnostics& diags,
                                     int threads = 1);

// Draws fresh numbers for one value of any kind.
Tensor random_value(const Value& value, ValueSource source, int64_t seed,
                    uint32_t index, int threads = 1);

// Comparison with outputs that another program recorded: does the graph compute
// what the model's own framework computes?

// Tolerance for a recording in float32 or in doubles. Frameworks add up sums in
// different orders, which moves the outputs of the tiny checkpoints in
// tests/data by about 1e-6.
inline constexpr double kExpectedTolerance = 1e-5;
// A recording is rounded to its own type, and its sums have another order than
// ours. Its error may be this many times that of our own run in float32.
inline constexpr double kTimesOwnRounding = 32;
// The largest error of a float32 recording that counts as rounding.
inline constexpr double kMostRounding = 1e-3;

// The distance of an output from its recording: the largest |y - expected|
// divided by the largest finite |expected|. NaN if either is NaN; 0/0 is 0, and
// an infinity agrees only with itself.
struct ExpectedError {
  ValueId value;         // an output of the graph
  double unsharded = 0;  // in working precision
  double sharded = 0;    // in working precision
  double exact = 0;      // in doubles, the larger error of both runs
  double tolerance = kExpectedTolerance;  // `exact` that rounding may cause

  bool agrees() const { return exact < tolerance; }
};

// The outputs of the runs, in double precision and in working precision.
struct RunOutputs {
  std::span<const Tensor> exact_unsharded;
  std::span<const Tensor> exact_sharded;
  std::span<const Tensor> unsharded;
  std::span<const Tensor> sharded;
};

// Compares outputs with the tensors in `expected` that have their names
// ("logits"), in the order of the graph, and ignores other tensors. If there is
// one output and one tensor, they are compared whatever their names. SP010 if
// `expected` has none of the outputs, or a tensor that has another shape, has
// no elements, or is not floating-point. REQUIRES: `outputs` has one tensor per
// run and output of the graph; `numbers` has one stored tensor per parameter of
// the manifest.
std::optional<std::vector<ExpectedError>> compare_expected(
    const Graph& graph, const RunOutputs& outputs, const Manifest& expected,
    const StoredTensors& numbers, Diagnostics& diags);

}  // namespace shardplan
