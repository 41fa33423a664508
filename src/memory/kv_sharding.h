// SPDX-License-Identifier: Apache-2.0
// How a plan cuts the KV cache: over which mesh axes, and how that was told.
//
// A cache is not a parameter, so no rule places it. Its heads are where the
// key projections put them: the axes that shard the KV heads of `k_proj`,
// without those that gather a weight before use. Where the plan leaves `k_proj`
// whole, every device computes all KV heads, and so is taken to cache them all;
// vLLM, which then keeps one head per rank, is `--kv-axes tp`. A latent (MLA)
// has no heads to cut. Sequences are dealt out over the axes of the batch.
// Whoever asks for axes by name gets those: an axis then leaves what it would
// have been taken for otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "memory/kv_cache.h"

namespace shardplan {

// The dimension of a key projection that consists of KV heads.
struct KeyProjection {
  size_t parameter = 0;
  int dim = 0;

  bool operator==(const KeyProjection&) const = default;
};
// In manifest order; needs facts that a config or the manifest states.
std::vector<KeyProjection> key_projections(const Manifest& manifest);

// Axes of the mesh larger than 1, no axis twice.
struct KvAxes {
  AxisNames heads;
  AxisNames batch;
  AxisNames sequence;
  // Why those over heads: "as `model.layers.0.self_attn.k_proj.weight` is
  // sharded".
  std::string heads_from;

  bool operator==(const KvAxes&) const = default;
};

// What was asked for by name; each empty when nothing was.
struct KvAxesAsked {
  AxisNames heads = {};     // --kv-axes
  AxisNames batch = {};     // --batch-axes
  AxisNames sequence = {};  // --sequence-axes
};

// SP010 for an axis that the mesh does not have and nobody declared, and for
// one that is asked for twice.
std::optional<KvAxes> kv_axes(const Manifest& manifest,
                              const std::vector<KeyProjection>& projections,
                              const Plan& plan, const KvAxesAsked& asked,
                              Diagnostics& diags);
KvSharding kv_sharding(const Mesh& mesh, const KvAxes& axes);

// Both in one, for a single plan.
std::optional<KvSharding> kv_sharding(const Manifest& manifest,
                                      const Plan& plan,
                                      const AxisNames& kv_axes,
                                      const AxisNames& batch_axes,
                                      const AxisNames& sequence_axes,
                                      Diagnostics& diags);

// kv_layers() of a manifest's facts, or a report of what they lack.
std::optional<std::vector<KvLayer>> kv_layers(const Manifest& manifest,
                                              Diagnostics& diags);

}  // namespace shardplan
