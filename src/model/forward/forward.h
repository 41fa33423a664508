// SPDX-License-Identifier: Apache-2.0
// Forward passes of models, from what the blocks of their architecture compute
// (docs/formats/architecture.md): a graph as a file would describe it, with the
// parameters under the names that the manifest has, whichever convention these
// follow (model/forward/parameter_names.h), and its values labelled with
// semantic axes.
#pragma once

#include <cstdint>
#include <optional>

#include "base/diagnostic.h"
#include "core/graph_description.h"
#include "model/forward/definition.h"
#include "model/forward/writer.h"

namespace shardplan {

// A model with more layers is refused: a graph has nodes for each.
inline constexpr int64_t kMaxModelLayers = 10'000;

// A forward pass of the model; empty when it was refused (SP009, SP013), or
// when parameters are missing (SP015).
std::optional<GraphDescription> write_forward(const ForwardDefinition& model,
                                              const ForwardInput& input,
                                              Diagnostics& diags);

// How many of the model's layers the pass runs.
int64_t layers_run(const ForwardPass& pass, int64_t layers);

}  // namespace shardplan
