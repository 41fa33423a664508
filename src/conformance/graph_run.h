// SPDX-License-Identifier: Apache-2.0
// Runs of the shipped graphs on the numbers of a vector.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "conformance/vector_case.h"
#include "core/graph_description.h"
#include "graph/tensor.h"
#include "spmd/program.h"

namespace shardplan::conformance {

// Nested lists as a row-major f32 tensor, of the shape of the first items;
// `shape` is for lists that have none to show it.
Tensor decode_tensor(const Json& nested);
Tensor decode_tensor(const Json& nested, const Shape& shape);
// Nested lists of the tensor's numbers.
Json encode_tensor(const Tensor& tensor);

// One tensor per device of one shape, along a new leading dimension.
Tensor stacked(const std::vector<Tensor>& tensors);

std::optional<GraphDescription> shipped_graph(const std::string& name,
                                              const DimSizes& dims,
                                              Diagnostics& diags);

// What each of `devices` along the axis `tp` has of the graph's first output
// after a sharded run; values lie where the graph's specs say. `given` holds
// inputs and parameters by their names in the graph.
std::optional<std::vector<Tensor>> run_on_devices(
    const GraphDescription& description,
    const std::map<std::string, Tensor>& given, int64_t devices,
    Diagnostics& diags, Overlap overlap = Overlap::Off);

}  // namespace shardplan::conformance
