// SPDX-License-Identifier: Apache-2.0
// Values of a graph that are all there at once, where the program reads or
// makes each when it needs it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/diagnostic.h"
#include "graph/graph.h"
#include "graph/tensor.h"
#include "sim/simulate.h"
#include "sim/values.h"

namespace shardplan {

// All values of the graph. `given` holds inputs and parameters; what it holds
// in the place of results is not looked at. REQUIRES: every input and parameter
// is given in its shape, with elements of `arithmetic`.
PerValue<Tensor> evaluate(const Graph& graph, const PerValue<Tensor>& given,
                          Arithmetic arithmetic, int threads = 1);

// All of them at once: one tensor per value of the graph, empty for results.
std::optional<PerValue<Tensor>> make_values(const Graph& graph,
                                            ValueSource source, int64_t seed,
                                            Diagnostics& diags);
// What gives tensors that are there, and converts them where need be.
ReadValue read_from(PerValue<Tensor> values);
// The same of tensors that are there.
Simulation simulate(const Program& program, const PerValue<Tensor>& values,
                    const SimulateOptions& options);

}  // namespace shardplan
