// SPDX-License-Identifier: Apache-2.0
// Findings about programs: implicit reshards (SP501, SP502), repeated biases
// (SP505), unread parameters (SP507) and tied embeddings (SP508).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "graph/elementwise.h"
#include "graph/graph.h"
#include "spmd/program.h"

namespace shardplan {

// SP501, SP502: implicit reshards.

// Returns the name, in the graph file, of the value that a collective serves:
// the result of the operation that needs it or, for outputs, the moved value.
std::string served_value(const Program& program, const Instruction& at);

// SP505: a bias that is added once per device.

// Returns the biases that are added once per device (SP505): every device along
// a model axis adds its own to a sum over these devices, as TPDense does in
// mode scatter. These are parameters [n, ..] that are summed over their first
// dimension and added to a product that contracts the first dimension, of the
// same size, of another parameter.
std::vector<ValueId> repeated_biases(const Graph& graph);

// SP507: parameters that a forward pass never reads, such as those of layers
// that no pipeline stage runs.

struct UnreadScope {
  // The graph is meant to be the whole model: every unread parameter is
  // reported, not only those of which similar ones are read.
  bool whole_model = false;
  // Only the first layers, of this number, are run; the others are omitted on
  // purpose.
  std::optional<int64_t> layers;
};

// Reports one finding, with the parameters folded by the numbers in their names
// (core/fold.h); names that differ only in numbers are similar. A parameter is
// read if the outputs or the probes are computed from it, so a layer whose
// result nobody uses is reported as well.
void report_unread_parameters(const Graph& graph, const Manifest& manifest,
                              const UnreadScope& scope, Diagnostics& diags);

// SP508: tied embeddings in two layouts. Tokens look up rows of a matrix, and
// the same matrix computes logits. A plan that treats the two uses as unrelated
// moves the weight, or lets two copies diverge.
//
// Reports a parameter that is both looked up and multiplied by, if the two uses
// read it in different layouts and devices exchange parts of it for that. Axes
// over which both gather it (FSDP) do not count. Bytes are those of the types
// in which a run stores numbers.
void report_tied_uses(const Program& program, Storage storage, Storage reduce,
                      Diagnostics& diags);

// Reports a model that stores the token embedding and the head separately
// though they are tied, if their specs shard the vocabulary or the features
// over different axes. REQUIRES: the model declares that they are tied
// (`tie_word_embeddings`).
void report_tied_copies(const Manifest& manifest, const Plan& plan,
                        Diagnostics& diags);

}  // namespace shardplan
