// SPDX-License-Identifier: Apache-2.0
// Infers facts of a model from names and shapes alone, for manifests without
// facts.
//
// Exact evidence is used first: kernels with a dimension for heads, attention
// sinks, norms per head. Otherwise the size of a head is guessed from the
// hidden size, and `why` says so. Tensors that contradict each other give no
// fact. The number of layers is not inferred, because extra layers (multi-token
// prediction) are numbered like the others.
#pragma once

#include <string>
#include <vector>

#include "core/fold.h"
#include "core/manifest.h"

namespace shardplan {

// `facts.from` is Inferred, or None if nothing is known. `why` says how each
// fact was found, for the diagnostic: "head_dim 128 from the norms of queries
// and keys".
struct InferredFacts {
  Facts facts;
  std::vector<std::string> why;
};

// Infers the facts. Names are read once per class, numbers of experts once per
// parameter.
//
// REQUIRES: parameters of one class are of one type.
InferredFacts infer_facts(const Manifest& manifest, const Folding& folding);

}  // namespace shardplan
