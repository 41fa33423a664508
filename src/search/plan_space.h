// SPDX-License-Identifier: Apache-2.0
// PlanSpace: every way that is considered to run a model's training step on a
// number of devices, limited to what a framework supports.
//
// A mesh is a product of
//
//   pp    stages of layers, as even as possible, or with fewer layers beside
//         the embedding and the head; 1F1B, or interleaved in chunks
//   dp    replicas of the weights, whose optimizer state may be sharded (ZeRO)
//   fsdp  shards of the weights, which are gathered before use
//   sp    shards of each sequence (context parallelism)
//   tp    shards of each matmul (tensor parallelism) and, with
//         `tokens_over_tensor`, of the tokens between matmuls (Megatron's
//         sequence parallelism)
//
// in this order, from major to minor, or with one axis moved to the end, where
// it uses the fastest link. Whole experts are placed over `ep` of a view of a
// stage's devices, and each is sharded over `etp`, which is 1 or tp. The batch
// runs in micro-batches, whose number divides each data-parallel group's share,
// and a recompute policy decides what layers save for backward.
//
// The space is traversed in three steps: shapes, passes (what one device
// computes at a time), points.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "core/mesh.h"
#include "search/best_first.h"

namespace shardplan {

// The axes, in the order above.
enum class PlanAxis : uint8_t { Stages, Replicas, Shards, Sequence, Tensor };
inline constexpr int kPlanAxes = 5;
inline constexpr std::string_view kPlanAxisNames[] = {"pp", "dp", "fsdp", "sp",
                                                      "tp"};

struct PlanPoint {
  int64_t sizes[kPlanAxes] = {1, 1, 1, 1, 1};
  PlanAxis innermost = PlanAxis::Tensor;
  int64_t experts = 1;        // ep; 1: experts have no view
  int64_t expert_tensor = 1;  // etp
  bool tokens_over_tensor = false;
  int zero = 0;  // over dp
  int64_t microbatches = 1;
  int64_t chunks = 1;     // per stage; more than 1: interleaved
  bool balanced = false;  // stages have the layers of stage_layers()
  size_t remat = 0;       // index into PlanSpace::remats

  int64_t of(PlanAxis axis) const { return nth(sizes, axis); }
  int64_t& of(PlanAxis axis) { return nth(sizes, axis); }
  // Returns the number of data-parallel groups, which hold different sequences.
  int64_t data() const { return of(PlanAxis::Replicas) * of(PlanAxis::Shards); }
  auto operator<=>(const PlanPoint&) const = default;
};

// Returns the mesh without axes of size 1, and with the view if experts have
// one.
Mesh mesh_of(const PlanPoint& point);
// Returns the axes of "experts:efsdp=2,ep=8"; empty if experts have no view.
std::vector<Axis> expert_axes(const PlanPoint& point);

// The features of a framework (EasyDeL, MaxText: jax; torchtitan, transformers:
// torch). `any` has all of them.
struct FrameworkFeatures {
  std::string_view name;
  bool stages = true;
  bool shards = true;    // weights sharded (FSDP)
  bool zero_one = true;  // optimizer state sharded over replicas
  bool tokens_over_tensor = true;
  bool interleaves = true;
  // Any axis may be innermost. Otherwise only stages may be, and only without
  // tensor and sequence parallelism (Megatron's --use-tp-pp-dp-mapping).
  bool moves_axes = true;
  // The target of `export` that can express its tensor parallelism; empty: a
  // compiler runs any.
  std::string_view written_as = {};
  // Recompute policies; the one that saves the most comes first.
  std::vector<std::string_view> remats = {"none", "dots", "full"};
};
const FrameworkFeatures& framework_features(std::string_view name);

struct PlanSpace {
  int64_t devices = 1;
  // The number of devices that the fastest link connects. If it connects all of
  // them, the order of axes does not matter.
  int64_t domain = 1;
  int64_t batch = 1;
  int64_t seq = 1;
  int64_t layers = 1;
  // The number of layers that take as long as multiplying by the head.
  double head = 0;
  int64_t experts = 0;  // per layer; 0: none
  FrameworkFeatures features;
  std::vector<std::string> remats;  // the policy that saves the most comes
                                    // first
  std::vector<PlanAxis> over;       // axes that may be longer than 1
  // The only mesh to consider: its sizes and its last axis.
  std::optional<PlanPoint> fixed;
  std::vector<int64_t> microbatches;  // as requested; empty: all that divide
};

// Returns the layers of each stage. Empty: as even as possible, with the
// remainder on the first stages. With `balanced`, the embedding counts as up to
// one layer and the head as one or more, so that the slowest stage has the
// least work: Megatron calls this accounting for embedding and loss in the
// split.
std::vector<int64_t> stage_layers(const PlanSpace& space,
                                  const PlanPoint& point);

// Returns the meshes, without the split of data parallelism into dp and fsdp:
// all of it is in Shards, or in Replicas if the framework does not shard
// weights.
std::vector<PlanPoint> plan_shapes(const PlanSpace& space);
// Returns the passes of a shape: micro-batches, chunks and policies.
std::vector<PlanPoint> plan_passes(const PlanSpace& space,
                                   const PlanPoint& shape);
// Returns the passes that differ from this one in a single choice, or that move
// a factor from one axis to another.
std::vector<PlanPoint> plan_neighbours(const PlanSpace& space,
                                       const PlanPoint& pass);
// Returns the points of a pass. The first has the smallest state, and tensor
// parallelism on the fastest link.
std::vector<PlanPoint> plan_points(const PlanSpace& space,
                                   const PlanPoint& pass);

}  // namespace shardplan
