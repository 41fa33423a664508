// SPDX-License-Identifier: Apache-2.0
// PlanSpace: every way to run a model's training step on so many devices that
// is considered, and what of it a framework has.
//
// A mesh is a product of
//
//   pp    stages of layers, as even as can be, or with fewer layers beside the
//         embedding and the head; 1F1B, or interleaved in chunks
//   dp    copies of the weights, whose optimizer state may be shared out (ZeRO)
//   fsdp  weights in parts that are gathered before use
//   sp    parts of each sequence (context parallelism)
//   tp    parts of each product (tensor parallelism), and with
//         `tokens_over_tensor` of tokens between products (Megatron's sequence
//         parallelism)
//
// in this order, major to minor, or with one of them moved to the end, where it
// lies inside the fastest link. Experts are dealt out over `ep` of a view of
// the devices of a stage, and cut over `etp`, which is 1 or tp. The batch is
// done in micro-batches that divide what the devices of dp and fsdp have of it,
// and layers keep what a policy says.
//
// The space is walked in three steps: shapes, passes (what is computed on one
// device at a time), points.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  int64_t chunks = 1;     // of a stage, where interleaved
  bool balanced = false;  // stages have layers as stage_layers() says
  size_t remat = 0;       // of PlanSpace::remats

  int64_t of(PlanAxis axis) const { return sizes[static_cast<size_t>(axis)]; }
  int64_t& of(PlanAxis axis) { return sizes[static_cast<size_t>(axis)]; }
  // Devices that have other sequences.
  int64_t data() const { return of(PlanAxis::Replicas) * of(PlanAxis::Shards); }
  auto operator<=>(const PlanPoint&) const = default;
};

// Without axes of size 1; with the view where experts have one.
Mesh mesh_of(const PlanPoint& point);
// "experts:efsdp=2,ep=8"; empty where there is none.
std::vector<Axis> expert_axes(const PlanPoint& point);

// What a framework can run (EasyDeL, MaxText: jax; torchtitan, transformers:
// torch). `any` is whoever has all of it.
struct FrameworkWays {
  std::string_view name;
  bool stages = true;
  bool shards = true;    // weights in parts (FSDP)
  bool zero_one = true;  // optimizer state shared out over copies
  bool tokens_over_tensor = true;
  bool interleaves = true;
  // Any axis may be innermost; else stages alone, where no product and no
  // sequence is in parts (Megatron's --use-tp-pp-dp-mapping).
  bool moves_axes = true;
  // The target of `export` that has words for its tensor parallelism; empty: a
  // compiler runs any.
  std::string_view written_as = {};
  // The policy that keeps most comes first.
  std::vector<std::string_view> remats = {"none", "dots", "full"};
};
const FrameworkWays& framework_ways(std::string_view name);

struct PlanSpace {
  int64_t devices = 1;
  // How many devices the fastest link connects. Where that is all of them, it
  // does not matter which axis lies inside.
  int64_t domain = 1;
  int64_t batch = 1;
  int64_t seq = 1;
  int64_t layers = 1;
  // The layers that multiplying by the head takes as long as.
  double head = 0;
  int64_t experts = 0;  // of a layer; 0: none
  FrameworkWays ways;
  std::vector<std::string> remats;  // what keeps most first
  std::vector<PlanAxis> over;       // axes that may be longer than 1
  // The only mesh that is considered: its sizes and which axis is last.
  std::optional<PlanPoint> fixed;
  std::vector<int64_t> microbatches;  // asked for; empty: all that divide
};

// The layers of each stage. Empty: as even as can be, the remainder to the
// first stages. With `balanced` the embedding counts as up to one layer and the
// head as one or more, so that the slowest stage has least work: what Megatron
// calls accounting for embedding and loss in the split.
std::vector<int64_t> stage_layers(const PlanSpace& space,
                                  const PlanPoint& point);

// A mesh but for how data parallelism is split in dp and fsdp: both in
// Shards, or in Replicas where a framework has no others. With their number of
// points.
std::vector<PlanPoint> plan_shapes(const PlanSpace& space);
// The passes of a shape: micro-batches, chunks and policies.
std::vector<PlanPoint> plan_passes(const PlanSpace& space,
                                   const PlanPoint& shape);
// Passes that differ from this one in a single choice, or in an axis that is
// longer by what another is shorter.
std::vector<PlanPoint> plan_neighbours(const PlanSpace& space,
                                       const PlanPoint& pass);
// The points of a pass. The first has the least state, and tensor parallelism
// inside the fastest link.
std::vector<PlanPoint> plan_points(const PlanSpace& space,
                                   const PlanPoint& pass);

}  // namespace shardplan
