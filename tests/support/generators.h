// SPDX-License-Identifier: Apache-2.0
// Draws the nouns (tests/support/property.h). Sizes are small, so that a
// property may visit every device, and often indivisible, since that is where
// mistakes are.
//
//   CHECK(holds("...", [] {
//     const Mesh mesh = testing::draw_mesh();
//     const PartitionSpec spec = testing::draw_legal_spec(mesh, 3);
//     ...
//   }));
#pragma once

#include <cstddef>

#include "core/manifest.h"
#include "core/mesh.h"
#include "core/spec.h"
#include "core/types.h"
#include "tests/support/property.h"

namespace shardplan::testing {

inline constexpr const char* kAxisNames[] = {"dp", "fsdp", "tp", "sp", "ep"};

// One to four axes of one to five devices.
Mesh draw_mesh();

// Names only axes of the mesh, each at most once; may be shorter than `rank`.
PartitionSpec draw_legal_spec(const Mesh& mesh, size_t rank);

// As users write them: axes may repeat or be unknown, ranks may not fit.
PartitionSpec draw_any_spec();

// Sizes 0 to 24, those that divide well among them more often.
Shape draw_shape(size_t max_rank = 4);

DType draw_dtype();

TensorType draw_tensor_type(size_t max_rank = 4);

// Up to twelve parameters named like a model's; names are unique.
Manifest draw_manifest();
// What `draw` makes of its draws, shown as a manifest.
Manifest draw_manifest(Manifest (*draw)());

}  // namespace shardplan::testing
