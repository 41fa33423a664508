// SPDX-License-Identifier: Apache-2.0
// A smaller model that shards like a large one, so that the large one's plan
// can be run anywhere.
//
// Kept: names, their order, dtypes; numbers of heads, KV heads, groups, experts
// and experts per token; of every other size its remainder modulo the number of
// devices, and so modulo every product of mesh axes (of a head's size modulo
// every axis, since it is heads * head_dim that is cut); which sizes are
// products (heads * head_dim) and that they are as wide as the residual stream
// where they were. So every spec that the large model has is legal for the
// small one, and one that is corrected there is corrected here. Of the layers
// the first are left, as many as the pass or shrunk_layers says. Not kept:
// everything that is about magnitude, as bytes, and what `--min-size` leaves
// out.
#pragma once

#include <cstdint>
#include <optional>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "model/forward/forward.h"
#include "model/model.h"

namespace shardplan {

// The smallest size from `minimum` up that leaves the same rest as `size`, and
// is no larger. REQUIRES: size, modulus, minimum > 0.
int64_t shrunk_size(int64_t size, int64_t modulus, int64_t minimum);

// The first layers, of which every other has the tensors and shapes of one, and
// two at least: behind dense layers the first one with experts. One is enough
// where many experts on many devices make a layer large.
int64_t shrunk_layers(const ForwardDefinition& model, const Manifest& manifest,
                      const Mesh& mesh);

// Errors as write_forward, and those of build_graph where the large model's own
// shapes do not fit. `input.pass.layers`: how many layers are kept. The smaller
// model has the parameters and buffers that the pass reads, and facts of its
// own.
std::optional<Model> shrink(const ForwardDefinition& model,
                            const ForwardInput& input, const Mesh& mesh,
                            Diagnostics& diags);

}  // namespace shardplan
