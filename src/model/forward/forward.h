// SPDX-License-Identifier: Apache-2.0
// Forward passes: the graph of a model, written from what the blocks of its
// architecture compute (docs/formats/architecture.md). The graph is described
// like a graph file. Parameters have their names in the manifest, whichever
// convention these follow (model/forward/parameter_names.h), and values are
// labelled with semantic axes.
#pragma once

#include <cstdint>
#include <optional>

#include "base/diagnostic.h"
#include "core/graph_description.h"
#include "model/forward/definition.h"
#include "model/forward/writer.h"

namespace shardplan {

// The maximum number of layers. The limit exists because a graph has nodes for
// each layer.
inline constexpr int64_t kMaxModelLayers = 10'000;

// Returns the forward pass of the model; nothing if it was refused (SP009,
// SP013) or parameters are missing (SP015).
std::optional<GraphDescription> write_forward(const ForwardDefinition& model,
                                              const ForwardInput& input,
                                              Diagnostics& diags);

// Returns how many of the model's layers the pass runs.
int64_t layers_run(const ForwardPass& pass, int64_t layers);

}  // namespace shardplan
