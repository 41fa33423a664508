// SPDX-License-Identifier: Apache-2.0
// Device classes: devices whose shards of every tensor are of equal size.
//
// Under torch.chunk shards differ, but along each axis only at a few
// coordinates; so 100,000 devices fall into a handful of classes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "base/diagnostic.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/plan.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan {

// Coordinates of an axis at which a shard's size changes.
using Breakpoints = std::map<AxisName, std::set<int64_t>>;

// Adds those of one tensor under Cut::Chunked; false when all its shards are
// equal.
bool add_breakpoints(const Mesh& mesh, const Shape& shape,
                     const PartitionSpec& spec, Breakpoints& breakpoints);

// Adds those of experts that are dealt out, where ranks hold different numbers
// of them; false when all hold as many, or where nothing is dealt out.
bool add_breakpoints(const std::optional<Dealt>& dealt,
                     Breakpoints& breakpoints);
// How many of `count` such parameters a device at these coordinates holds.
int64_t held_at(const std::optional<Dealt>& dealt, const Mesh& mesh,
                int64_t count, const std::vector<int64_t>& coordinates);
// Those of a device that holds the most.
int64_t most_held(const std::optional<Dealt>& dealt, int64_t count);

// The mesh along whose own axes devices are told apart: the mesh itself or the
// view that has all axes with breakpoints; else that of their sub-axes
// (core/views.h). Breakpoints of an axis that consists of several sub-axes
// become all coordinates of these. Empty where there are no sub-axes.
std::optional<Mesh> grid_of(const Mesh& mesh, Breakpoints& breakpoints);

// Devices between the breakpoints of every axis.
struct CoordinateClass {
  std::vector<int64_t>
      coordinates;  // of the first of them, per axis of the mesh
  int64_t devices = 1;
};

// The class of device 0 comes first. Empty when there are more than `most`.
// REQUIRES, here and of ClassSums: `grid` and `breakpoints` are those of
// grid_of(`mesh`).
std::optional<std::vector<CoordinateClass>> coordinate_classes(
    const Mesh& mesh, const Mesh& grid, const Breakpoints& breakpoints,
    int64_t most);

// Sums over the classes of coordinate_classes(), in its order.
//
// What one tensor adds changes at its own breakpoints alone, which are few, so
// it is added to boxes of classes: as differences at their corners, which
// finish() adds up. Tensors and classes then cost their sum, not their product.
class ClassSums {
 public:
  // A box, by classes' numbers on each axis of the mesh: from `begin` up to
  // `end`.
  struct Box {
    std::vector<size_t> begin;
    std::vector<size_t> end;
    std::vector<int64_t> coordinates;  // of its first device, as above
    int64_t devices = 1;
  };

  // `all` are the breakpoints that the classes were made of.
  ClassSums(const Mesh& mesh, const Mesh& grid, const Breakpoints& all);

  size_t classes() const { return classes_; }
  // Calls on_box(box) for each box between the breakpoints `own`, which are
  // among those that `all` was made of.
  void each_box(const Breakpoints& own,
                const std::function<void(const Box&)>& on_box) const;
  // `sums` has an element for each class, zero at first.
  void add(const Box& box, Int128 value, std::vector<Int128>& sums) const;
  void finish(std::vector<Int128>& sums) const;

 private:
  // Fills the coordinates of a box, whose first device has these on the grid.
  void locate(const std::vector<int64_t>& on_grid, Box& box) const;

  const Mesh& mesh_;
  const Mesh& grid_;
  std::vector<std::vector<int64_t>> starts_;  // of the runs of each axis
  std::vector<size_t> strides_;
  size_t classes_ = 1;
  Box whole_;  // all of them, for what has no breakpoints
};

// Bytes of a tensor's shard at the given coordinates, under Cut::Chunked.
int64_t chunk_bytes(const Mesh& mesh, const TensorType& type,
                    const PartitionSpec& spec,
                    const std::vector<int64_t>& coordinates);

// Analysis: what a plan makes every device store.
//
// Under every policy but `chunk` all devices store the same bytes. Under
// `chunk` they differ, and are computed per class of devices whose coordinates
// get equally many rows of every tensor, so 100,000 devices are as quick as 8.
// Identity: bytes over all devices = sum of replicas x logical bytes + padding.

// Devices that store equally many bytes.
struct DeviceClass {
  int64_t bytes = 0;
  int64_t devices = 0;
};

struct DeviceMemory {
  std::vector<DeviceClass> classes;  // by bytes, descending
  int64_t max = 0;
  int64_t min = 0;
  double mean = 0;
  Int128 total = 0;  // over all devices
};

// A pipeline: which of its stages hold each parameter of a model.
struct ParameterStages {
  AxisName axis;
  int64_t stages = 1;
  // A stage, and a second one that has a copy, as of a tied embedding; -1:
  // none. Without a first one every stage has it, as stacked layers that their
  // spec cuts over the axis.
  struct Held {
    int32_t first = -1;
    int32_t second = -1;
  };
  std::vector<Held> of;         // per parameter
  std::vector<int64_t> layers;  // of each stage
  bool uneven = false;          // they do not divide, and nobody named them

  bool is_on_all(size_t parameter) const { return of[parameter].first < 0; }
};

// How many parameters there are of each kind, such as a plan's placements.
using PlacementCounts = std::vector<int64_t>;
struct StagedCounts {
  PlacementCounts all = {};  // each parameter once
  // With a pipeline: what the devices of each stage hold.
  AxisName axis = {};
  std::vector<PlacementCounts> of_stage = {};

  // What the stage that holds the most of a kind has of it.
  int64_t most_of(size_t kind) const;
  // Over all stages; a parameter on two of them counts twice.
  int64_t held(size_t kind) const;
  // Those that every stage has, though no spec cuts them: all without a
  // pipeline, of two stages what is on two.
  int64_t everywhere(size_t kind) const;
};
// `kind_of` numbers each parameter's kind, from 0 up to `kinds`; null stages:
// there is no pipeline.
StagedCounts staged_counts(std::span<const uint32_t> kind_of, size_t kinds,
                           const ParameterStages* stages);
// The same of a plan's placements, where `kind_of` of `counts` have one each.
// What a spec cuts over the pipeline's axis is on every stage.
StagedCounts placed_counts(const Plan& plan, const StagedCounts& counts);

// SP007 when the bytes of one device exceed 63 bits, or when `chunk` makes more
// kinds of devices than can be told apart in reasonable time. `work` grows by
// how many times a placement was looked at.
std::optional<DeviceMemory> device_memory(const Plan& plan,
                                          const StagedCounts& counts,
                                          Diagnostics& diags,
                                          int64_t* work = nullptr);
// Without a pipeline.
std::optional<DeviceMemory> device_memory(const Manifest& manifest,
                                          const Plan& plan, Diagnostics& diags);

// The ratios of the JSON report; definitions in docs/formats/report.md.
struct Balance {
  double balance_score = 1;        // mean(b) / max(b)
  double efficiency = 1;           // sum(B) / (N max(b))
  double replication_factor = 1;   // sum(R B) / sum(B)
  int64_t padding_bytes = 0;       // sum(b) - sum(R B)
  double replicated_fraction = 0;  // bytes of tensors with S = 1 / sum(B)
  int64_t sharded_tensors = 0;
  int64_t sharded_elements = 0;
};
Balance balance(const Plan& plan, const StagedCounts& counts,
                int64_t total_bytes, const DeviceMemory& memory);
Balance balance(const Manifest& manifest, const Plan& plan,
                const DeviceMemory& memory);  // without a pipeline

// How far bytes per device are from equal, each in [0, 1].
struct Imbalance {
  double total_variation = 0;
  double total_distance = 0;
  double chi_square = 0;
  double kl_divergence = 0;
};
Imbalance imbalance(const DeviceMemory& memory);

// A class of parameters that is held more than once, and what that costs.
struct Repetition {
  uint32_t parameter_class = 0;  // of the folding
  AxisNames over;                // mesh axes larger than 1 that repeat it
  int64_t replicas = 1;
  Int128 extra_per_device = 0;  // bytes beyond 1/N of it
};
// Largest first. Here and below null stages mean that there is no pipeline.
std::vector<Repetition> repetitions(const Plan& plan, const Folding& folding,
                                    const ParameterStages* stages = nullptr);

// What each mesh axis saves: bytes per device if it were of size 1 minus bytes
// per device as planned. A pipeline's axis shards what is not on every stage.
struct AxisSaving {
  AxisName axis;
  int64_t size = 1;
  int64_t sharded_tensors = 0;  // tensors that it shards
  Int128 saved_per_device = 0;
};
std::vector<AxisSaving> axis_savings(const Plan& plan,
                                     const StagedCounts& counts);

// Sums over groups of parameters: by dtype, by top-level module, by rule.

struct GroupSum {
  std::string name;
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;  // logical
  // Of the largest shards; with a pipeline, of the stage that has the most.
  int64_t bytes_per_device = 0;
};

// In order of first appearance. `folding` is by placement.
std::vector<GroupSum> by_dtype(const Plan& plan, const Folding& folding,
                               const ParameterStages* stages = nullptr);
// By the path before the first number, at most two components and never
// the leaf: `model.layers.0.mlp.w` belongs to `model.layers`.
std::vector<GroupSum> by_module(const Plan& plan, const Folding& folding,
                                const ParameterStages* stages = nullptr);
// `1`, `2`, ... ; `none` for parameters that no rule decided.
std::vector<GroupSum> by_rule(const Plan& plan, const Folding& folding,
                              const ParameterStages* stages = nullptr);

std::string module_of(std::string_view folded_name);

}  // namespace shardplan
