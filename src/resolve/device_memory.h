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

// Devices between the breakpoints of every axis.
struct CoordinateClass {
  std::vector<int64_t> coordinates;  // of the first of them
  int64_t devices = 1;
};

// The class of device 0 comes first. Empty when there are more than `most`.
std::optional<std::vector<CoordinateClass>> coordinate_classes(
    const Mesh& mesh, const Breakpoints& breakpoints, int64_t most);

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
    std::vector<int64_t> coordinates;  // of its first device
    int64_t devices = 1;
  };

  // `all` are the breakpoints that the classes were made of.
  ClassSums(const Mesh& mesh, const Breakpoints& all);

  size_t classes() const { return classes_; }
  // Calls on_box(box) for each box between the breakpoints `own`, which are
  // among `all`.
  void each_box(const Breakpoints& own,
                const std::function<void(const Box&)>& on_box) const;
  // `sums` has an element for each class, zero at first.
  void add(const Box& box, Int128 value, std::vector<Int128>& sums) const;
  void finish(std::vector<Int128>& sums) const;

 private:
  const Mesh& mesh_;
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

// SP007 when the bytes of one device exceed 63 bits, or when `chunk` makes more
// kinds of devices than can be told apart in reasonable time.
std::optional<DeviceMemory> device_memory(const Manifest& manifest,
                                          const Plan& plan, Diagnostics& diags);

// The same, and those below, for a plan whose placements have `counts`
// parameters: all that they need of a model. `work` grows by how many times a
// placement was looked at.
using PlacementCounts = std::vector<int64_t>;
std::optional<DeviceMemory> device_memory(const Plan& plan,
                                          const PlacementCounts& counts,
                                          Diagnostics& diags,
                                          int64_t* work = nullptr);

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
Balance balance(const Manifest& manifest, const Plan& plan,
                const DeviceMemory& memory);
Balance balance(const Plan& plan, const PlacementCounts& counts,
                int64_t total_bytes, const DeviceMemory& memory);

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
// Largest first.
std::vector<Repetition> repetitions(const Plan& plan, const Folding& folding);

// What each mesh axis saves: bytes per device if it were of size 1 minus bytes
// per device as planned.
struct AxisSaving {
  AxisName axis;
  int64_t size = 1;
  int64_t sharded_tensors = 0;  // tensors that it shards
  Int128 saved_per_device = 0;
};
std::vector<AxisSaving> axis_savings(const Manifest& manifest,
                                     const Plan& plan);
std::vector<AxisSaving> axis_savings(const Plan& plan,
                                     const PlacementCounts& counts);

// Sums over groups of parameters: by dtype, by top-level module, by rule.

struct GroupSum {
  std::string name;
  int64_t tensors = 0;
  int64_t elements = 0;
  int64_t bytes = 0;             // logical
  int64_t bytes_per_device = 0;  // of the largest shards
};

// In order of first appearance. `folding` is by placement.
std::vector<GroupSum> by_dtype(const Plan& plan, const Folding& folding);
// By the path before the first number, at most two components and never
// the leaf: `model.layers.0.mlp.w` belongs to `model.layers`.
std::vector<GroupSum> by_module(const Plan& plan, const Folding& folding);
// `1`, `2`, ... ; `none` for parameters that no rule decided.
std::vector<GroupSum> by_rule(const Plan& plan, const Folding& folding);

std::string module_of(std::string_view folded_name);

}  // namespace shardplan
