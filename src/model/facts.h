// SPDX-License-Identifier: Apache-2.0
// Facts of a model inferred from names and shapes alone, for manifests that
// bring none.
//
// What is exact is used first (kernels that keep heads apart, attention sinks,
// norms per head); else the size of a head is guessed from the hidden size, and
// `why` says so. Tensors that contradict each other tell nothing. The number of
// layers is not inferred: extra layers (multi-token prediction) are numbered
// like the others.
#pragma once

#include <string>
#include <vector>

#include "core/fold.h"
#include "core/manifest.h"

namespace shardplan {

// `facts.from` is Inferred, or None when nothing is known. `why` says how
// each fact was come by, for the diagnostic: "head_dim 128 from the norms of
// queries and keys".
struct InferredFacts {
  Facts facts;
  std::vector<std::string> why;
};

// Names are read once per class, numbers of experts once per parameter.
// REQUIRES: parameters of one class are of one type.
InferredFacts infer_facts(const Manifest& manifest, const Folding& folding);

}  // namespace shardplan
