// SPDX-License-Identifier: Apache-2.0
// Device memory: the bytes of parameters that every device stores under a plan.
//
// All devices store the same bytes, unless pipeline stages or ranks of whole
// experts differ, or the policy is `chunk` or `rows` (Cut::Chunked). Under
// these two, shards differ, but along each axis only at a few coordinates, so
// 100,000 devices fall into a handful of classes whose shards of every tensor
// are of equal size, and take no longer than 8 devices. Identity: bytes over
// all devices = sum of replicas x logical bytes + padding.
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

// The coordinates of each axis at which a shard's size changes.
using Breakpoints = std::map<AxisName, std::set<int64_t>>;

// Adds the breakpoints of one tensor under Cut::Chunked. Returns false if all
// of its shards are equal.
bool add_breakpoints(const Mesh& mesh, const Shape& shape,
                     const PartitionSpec& spec, Breakpoints& breakpoints);

// Adds the breakpoints of experts that are placed whole, where ranks hold
// different numbers of them. Returns false if all ranks hold equally many, or
// if `dealt` is empty.
bool add_breakpoints(const std::optional<ExpertPlacement>& dealt,
                     Breakpoints& breakpoints);
// Returns how many of `count` parameters with this `dealt` a device at these
// coordinates holds.
int64_t held_at(const std::optional<ExpertPlacement>& dealt, const Mesh& mesh,
                int64_t count, const std::vector<int64_t>& coordinates);
// Returns how many of them the device with the most holds.
int64_t most_held(const std::optional<ExpertPlacement>& dealt, int64_t count);

// Returns the mesh whose own axes distinguish the device classes: `mesh` itself
// or the first view that has all axes with breakpoints, else the mesh of their
// sub-axes (core/views.h). In the last case, the breakpoints of an axis that
// consists of several sub-axes become all coordinates of these sub-axes.
// Returns no value if the mesh has no sub-axes.
std::optional<Mesh> grid_of(const Mesh& mesh, Breakpoints& breakpoints);

// The devices between neighbouring breakpoints of every axis.
struct CoordinateClass {
  std::vector<int64_t>
      coordinates;  // of the first of these devices, per axis of the mesh
  int64_t devices = 1;
};

// Returns the classes, that of device 0 first; no value if there are more than
// `most`. REQUIRES, here and in ClassSums: `grid` and `breakpoints` are results
// of grid_of(`mesh`).
std::optional<std::vector<CoordinateClass>> coordinate_classes(
    const Mesh& mesh, const Mesh& grid, const Breakpoints& breakpoints,
    int64_t most);

// Sums over the classes of coordinate_classes(), in the same order.
//
// A tensor's contribution changes only at its own breakpoints, which are few,
// so it is added to whole boxes of classes: as differences at their corners,
// which finish() accumulates. The cost is thus the sum of the numbers of
// tensors and classes, not their product.
class ClassSums {
 public:
  // A box of classes: on each axis of the grid, the class numbers from `begin`
  // up to, but excluding, `end`.
  struct Box {
    std::vector<size_t> begin;
    std::vector<size_t> end;
    std::vector<int64_t> coordinates;  // of its first device, per axis of the
                                       // mesh
    int64_t devices = 1;
  };

  // `all` are the breakpoints that the classes were made from.
  ClassSums(const Mesh& mesh, const Mesh& grid, const Breakpoints& all);

  size_t classes() const { return classes_; }
  // Calls on_box(box) for each box between the breakpoints `own`, which are a
  // subset of `all`.
  void each_box(const Breakpoints& own,
                const std::function<void(const Box&)>& on_box) const;
  // Adds `value` to every class of the box. `sums` has one element per class,
  // initially zero, and holds differences until finish() is called.
  void add(const Box& box, Int128 value, std::vector<Int128>& sums) const;
  void finish(std::vector<Int128>& sums) const;

 private:
  const Mesh& mesh_;
  const Mesh& grid_;
  std::vector<std::vector<int64_t>> starts_;  // first coordinates of the runs
                                              // of each axis
  std::vector<size_t> strides_;
  size_t classes_ = 1;
  Box whole_;  // all classes: the box of a tensor without breakpoints
};

// Returns the bytes of a tensor's shard at these coordinates under
// Cut::Chunked.
int64_t chunk_bytes(const Mesh& mesh, const TensorType& type,
                    const PartitionSpec& spec,
                    const std::vector<int64_t>& coordinates);

// Memory of all devices. Under Cut::Chunked it is computed per class of devices
// whose coordinates get equally many rows of every tensor.

// A number of devices that store equally many bytes each.
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

// The stages of a pipeline that hold each parameter of a model.
struct ParameterStages {
  AxisName axis;
  int64_t stages = 1;
  // The stage that holds a parameter, and a second stage that holds a copy, as
  // for a tied embedding; -1: none. If `first` is -1, every stage holds the
  // parameter, as with stacked layers that their spec shards over the axis.
  struct StagePair {
    int32_t first = -1;
    int32_t second = -1;
  };
  std::vector<StagePair> of;    // per parameter
  std::vector<int64_t> layers;  // of each stage
  bool uneven = false;          // StagePlan::uneven (memory/stages.h)

  bool is_on_all(size_t parameter) const { return of[parameter].first < 0; }
};

// How many parameters there are of each kind, for example of each placement of
// a plan.
using PlacementCounts = std::vector<int64_t>;
struct StagedCounts {
  PlacementCounts all = {};  // each parameter once
  // With a pipeline: the axis, and what the devices of each stage hold.
  AxisName axis = {};
  std::vector<PlacementCounts> of_stage = {};

  // Returns the parameters of a kind on the stage that holds the most of them.
  int64_t most_of(size_t kind) const;
  // Returns the sum over all stages; a parameter on two of them counts twice.
  int64_t held(size_t kind) const;
  // Returns the parameters of a kind that every stage holds as copies: all of
  // them without a pipeline, those on both stages if there are two, else none.
  int64_t everywhere(size_t kind) const;
};
// `kind_of` gives the kind of each parameter, numbered from 0 up to `kinds`;
// null `stages`: there is no pipeline.
StagedCounts staged_counts(std::span<const uint32_t> kind_of, size_t kinds,
                           const ParameterStages* stages);
// Returns the same counts per placement of the plan, whose placement_of maps
// the kinds of `counts` to placements. A parameter whose spec shards over the
// pipeline's axis counts on every stage.
StagedCounts placed_counts(const Plan& plan, const StagedCounts& counts);

// Returns the bytes that every device stores. Reports SP007 if the bytes of one
// device exceed 63 bits, or if there are more classes of devices than can be
// computed in reasonable time. Adds to `work` the number of times that a
// placement was examined.
std::optional<DeviceMemory> device_memory(const Plan& plan,
                                          const StagedCounts& counts,
                                          Diagnostics& diags,
                                          int64_t* work = nullptr);
// The same without a pipeline.
std::optional<DeviceMemory> device_memory(const Manifest& manifest,
                                          const Plan& plan, Diagnostics& diags);

// The ratios of the JSON report (docs/formats/report.md). N: devices; b: bytes
// stored on a device; per tensor, B: logical bytes, R: replicas, S: shards.
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

// How far the bytes per device are from equal, each measure in [0, 1].
struct Imbalance {
  double total_variation = 0;
  double total_distance = 0;
  double chi_square = 0;
  double kl_divergence = 0;
};
Imbalance imbalance(const DeviceMemory& memory);

// A class of parameters that is replicated, and the bytes that this costs.
struct Repetition {
  uint32_t parameter_class = 0;  // of the folding
  AxisNames over;                // mesh axes larger than 1 that replicate it
  int64_t replicas = 1;
  Int128 extra_per_device = 0;  // bytes beyond 1/N of its bytes
};
// Returns the replicated classes, the most expensive first. Here and below,
// null `stages` mean that there is no pipeline.
std::vector<Repetition> repetitions(const Plan& plan, const Folding& folding,
                                    const ParameterStages* stages = nullptr);

// The bytes that a mesh axis saves: bytes per device if it were of size 1,
// minus bytes per device as planned. The axis of a pipeline shards the
// parameters that are not on every stage.
struct AxisSaving {
  AxisName axis;
  int64_t size = 1;
  int64_t sharded_tensors = 0;  // tensors that it shards
  Int128 saved_per_device = 0;
};
std::vector<AxisSaving> axis_savings(const Plan& plan,
                                     const StagedCounts& counts);

// Sums over groups of parameters: by dtype, by module and by rule.

struct GroupSum {
  std::string name;
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;  // logical
  // Bytes of the largest shards; with a pipeline, on the stage that holds the
  // most.
  int64_t bytes_per_device = 0;
};

// All three list groups in order of first appearance, except that by_rule sorts
// by rule number. `folding` is by placement.
std::vector<GroupSum> by_dtype(const Plan& plan, const Folding& folding,
                               const ParameterStages* stages = nullptr);
// Groups by the path before the first number, at most two components and never
// the leaf: `model.layers.0.mlp.w` belongs to `model.layers`.
std::vector<GroupSum> by_module(const Plan& plan, const Folding& folding,
                                const ParameterStages* stages = nullptr);
// Groups by rule: `1`, `2`, ..; then `axes` for parameters placed by their
// logical axes, and `none` for those that no rule decided.
std::vector<GroupSum> by_rule(const Plan& plan, const Folding& folding,
                              const ParameterStages* stages = nullptr);

std::string module_of(std::string_view folded_name);

}  // namespace shardplan
