// SPDX-License-Identifier: Apache-2.0
// What a simulated run computes with: the same stored inputs and parameters for
// every run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "graph/graph.h"
#include "graph/tensor.h"

namespace shardplan {

// Whole inputs and parameters of a graph, made or mapped when they are asked
// for, so that none is held longer than it is used. The same number gives the
// same tensor. REQUIRES of its callers: the value is an input or a parameter.
using ReadValue = std::function<Tensor(int value, Element element)>;

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
                                     int64_t seed, Diagnostics& diags);

// All of them at once: one tensor per value of the graph, empty for results.
std::optional<std::vector<Tensor>> make_values(const Graph& graph,
                                               ValueSource source, int64_t seed,
                                               Diagnostics& diags);
// What gives tensors that are there, and converts them where need be.
ReadValue read_from(std::vector<Tensor> values);

// Fresh numbers for one value, whatever its kind.
Tensor random_value(const Value& value, ValueSource source, int64_t seed,
                    uint32_t index);

}  // namespace shardplan
