// SPDX-License-Identifier: Apache-2.0
// Runs the shipped graphs on the numbers of a conformance vector.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/conformance/runner/vector_case.h"
#include "core/graph_description.h"
#include "graph/tensor.h"
#include "spmd/program.h"

namespace shardplan::conformance {

// Converts nested lists to a row-major f32 tensor, whose shape is that of the
// first items. `shape` is for lists that do not show their shape, such as empty
// ones.
Tensor decode_tensor(const Json& nested);
Tensor decode_tensor(const Json& nested, const Shape& shape);
// Converts the tensor's numbers to nested lists.
Json encode_tensor(const Tensor& tensor);

// Stacks one tensor per device, all of one shape, along a new leading
// dimension.
Tensor stacked(const std::vector<Tensor>& tensors);

std::optional<GraphDescription> shipped_graph(const std::string& name,
                                              const DimSizes& dims,
                                              Diagnostics& diags);

// Returns the part of the graph's first output that each of `devices` along the
// axis `tp` holds after a sharded run; values are placed according to the
// graph's specs. `given` maps the graph's names of inputs and parameters to
// their values.
std::optional<std::vector<Tensor>> run_on_devices(
    const GraphDescription& description,
    const std::map<std::string, Tensor>& given, int64_t devices,
    Diagnostics& diags, Overlap overlap = Overlap::Off);

}  // namespace shardplan::conformance
