// SPDX-License-Identifier: Apache-2.0
// SP508: tied embeddings in two layouts. Tokens look up rows of a matrix, and
// the same matrix makes logits; a plan that treats both as though they had
// nothing to do with each other moves the weight, or lets two copies part.
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

// Of a program that looks up rows of a parameter and multiplies by it: the two
// read it in different layouts, and devices send parts of it to each other for
// that. Axes over which both gather it (FSDP) count for neither. Bytes are
// those of the types that a run keeps numbers in.
void report_tied_uses(const Program& program, Storage storage, Storage reduce,
                      Diagnostics& diags);

// Of a model that stores table and head though they are tied: their specs put
// the vocabulary, or the features, on different axes. REQUIRES: the model says
// that they are tied (`tie_word_embeddings`).
void report_tied_copies(const Manifest& manifest, const Plan& plan,
                        Diagnostics& diags);

// SP507: parameters that a forward pass never reads, such as those of layers
// that no pipeline stage was given.

struct UnreadScope {
  // The graph is meant to be the whole model: everything unread is reported,
  // not only parameters whose like is read.
  bool whole_model = false;
  // Only the first so many layers are run; others are left out on purpose.
  std::optional<int64_t> layers;
};

// Parameters are alike whose names differ in numbers only (core/fold.h). One
// finding, which names them by these numbers. Read is what the outputs or the
// probes are computed from: a layer whose result nobody uses is dropped, too.
void report_unread_parameters(const Graph& graph, const Manifest& manifest,
                              const UnreadScope& scope, Diagnostics& diags);

// SP505: a bias that is added once per device.

// Biases of which every device of a model axis adds its own to a sum over these
// devices, as TPDense does in mode scatter: parameters [n, ..] that are summed
// over their first dimension and added to a product that contracts the first
// dimension, of the same size, of another parameter. SP505 warns of them.
std::vector<ValueId> repeated_biases(const Graph& graph);

// SP501, SP502: what is resharded without being asked for.

// The value that a collective serves, as the graph file names it: the result of
// the operation that needs it or, for outputs, what is moved.
std::string served_value(const Program& program, const Instruction& at);

}  // namespace shardplan
