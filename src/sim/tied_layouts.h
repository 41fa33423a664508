// SPDX-License-Identifier: Apache-2.0
// SP508: tied embeddings in two layouts. Tokens look up rows of a matrix, and
// the same matrix makes logits; a plan that treats both as though they had
// nothing to do with each other moves the weight, or lets two copies part.
#pragma once

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/plan.h"
#include "graph/rounding.h"
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
// that they are tied (ModelConfig::tied).
void report_tied_copies(const Manifest& manifest, const Plan& plan,
                        Diagnostics& diags);

}  // namespace shardplan
