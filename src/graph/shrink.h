// SPDX-License-Identifier: Apache-2.0
// Shrinking: makes a smaller model that shards like a large one, so that the
// large model's plan can be run anywhere.
//
// The smaller model has the same names, order and dtypes, and the same numbers
// of heads, KV heads, groups, experts and experts per token. Every other size
// has the same remainder modulo the number of devices, and so modulo every
// product of mesh axes (a head's size modulo every axis, since heads * head_dim
// is what is sharded). The same sizes are products (heads * head_dim) or as
// wide as the residual stream. So every spec that is legal for the large model
// is legal for the small one, and a spec that is corrected for one is corrected
// for the other. Only the first layers remain, as many as the pass or
// shrunk_layers says. Magnitudes, such as bytes, and what `--min-size` excludes
// are not preserved.
#pragma once

#include <cstdint>
#include <optional>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "model/forward/forward.h"
#include "model/model.h"

namespace shardplan {

// Returns the smallest size that is at least `minimum` and has the same
// remainder as `size` modulo `modulus`, but at most `size`. REQUIRES: size is
// not negative; modulus, minimum > 0.
int64_t shrunk_size(int64_t size, int64_t modulus, int64_t minimum);

// Returns how many of the first layers suffice for every other layer to have
// the tensors and shapes of one of them. There are at least two; after dense
// layers, they include the first one with experts. One layer is enough where
// many experts on many devices make a layer large.
int64_t shrunk_layers(const ForwardDefinition& model, const Manifest& manifest,
                      const Mesh& mesh);

// Returns the smaller model, with the parameters and buffers that the pass
// reads and its own facts. `input.pass.layers` is the number of layers to
// include. Reports the errors of write_forward, and those of build_graph if the
// large model's own shapes do not fit.
std::optional<Model> shrink(const ForwardDefinition& model,
                            const ForwardInput& input, const Mesh& mesh,
                            Diagnostics& diags);

}  // namespace shardplan
