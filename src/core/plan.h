// SPDX-License-Identifier: Apache-2.0
// Plan: the placement of every parameter of a manifest on a mesh.
//
// A Plan is the interface between the two halves of the program: rules or a
// saved file produce one; memory reports, diffs and exports read one. A model
// of a million tensors has few distinct placements, so each is stored once and
// a parameter refers to it by number. Invariants: exactly one placement number
// per parameter, in manifest order; every final spec is legal for its shape on
// the mesh (see Sharding), where `pad`, `chunk` and `rows` also allow
// indivisible dimensions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "core/spec.h"
#include "core/types.h"

namespace shardplan {

// The policy for a dimension that is not divisible by its axes.
enum class OnIndivisible : uint8_t {
  Drop,    // unshard the whole dimension (eformer)
  Prefix,  // keep the longest prefix of its axes that divides (MaxText)
  Pad,     // keep; every shard stores ceil(d/n) rows (GSPMD)
  Chunk,   // keep; torch.chunk, axis by axis (DTensor)
  Rows,    // batch axes shard dimension 0 in chunks, whatever dimension was
           // requested (FSDP2's fully_shard); otherwise as Drop
  Error,   // as Drop, but SP203 is an error
};
std::string_view policy_name(OnIndivisible policy);
std::optional<OnIndivisible> find_policy(std::string_view name);
std::vector<std::string> on_indivisible_names();
inline Cut cut_of(OnIndivisible policy) {
  return policy == OnIndivisible::Chunk || policy == OnIndivisible::Rows
             ? Cut::Chunked
             : Cut::Even;
}
// Returns whether shards of a dimension may differ in size.
inline bool allows_uneven(OnIndivisible policy) {
  return policy == OnIndivisible::Pad || cut_of(policy) == Cut::Chunked;
}

// A deviation from the requested spec.
struct Correction {
  int dim = 0;  // 0-based, in Placement::requested_spec()
  Code code = Code::IndivisibleDimension;
  AxisNames dropped;
  std::string reason;

  bool operator==(const Correction&) const = default;
};

// A dimension that is stored as declared (core/rules.h): larger than in the
// checkpoint, or of the same size but reordered.
struct StoredDim {
  int dim = 0;       // 0-based
  int64_t size = 0;  // stored size over all shards; at least the logical size
  std::string why;   // "pad-vocab=128: smallest multiple ..."

  auto operator<=>(const StoredDim&) const = default;
};

// The placement of a whole expert that is stored as a separate parameter. No
// spec can express it, since none of its dimensions counts experts. The ranks
// along `axis` hold blocks of consecutive experts: expert e of E is on rank
// floor(e * size / E). If the size divides E, Megatron, vLLM and transformers
// do the same. The spec shards the expert further on its rank.
struct ExpertPlacement {
  AxisName axis;
  int64_t size = 1;     // of the axis
  int64_t experts = 1;  // E, per layer
  // The rank that holds the expert, if the experts of a layer have different
  // placements; -1: they all share this placement.
  int64_t rank = -1;

  bool operator==(const ExpertPlacement&) const = default;
};
int64_t rank_of_expert(const ExpertPlacement& dealt, int64_t expert);
// Returns how many of `count` parameters with this placement are on the rank.
// If the experts share the placement, `count` is a multiple of `experts`.
int64_t count_on_rank(const ExpertPlacement& dealt, int64_t count,
                      int64_t rank);
// The same for the rank that has the most.
int64_t max_on_rank(const ExpertPlacement& dealt, int64_t count);
// Spreads `amount`, of one parameter, over the ranks: the sum over the experts
// of a layer is what the rank with the most holds, or the average rank if the
// experts have different placements. `amount` itself without a placement.
Int128 part_on_rank(const std::optional<ExpertPlacement>& dealt, Int128 amount);
// Returns whether every rank has equally many.
bool is_even(const ExpertPlacement& dealt);

struct Placement {
  TensorType type;
  int rule = 0;  // 1-based; 0 when no rule decided
  // The spec as written: the rule's or, without a rule, the manifest's logical
  // axes.
  std::optional<PartitionSpec> requested;
  PartitionSpec spec;  // after correction
  std::vector<Correction> corrections;
  std::vector<StoredDim> stored_dims =
      {};  // by dimension; empty: nothing declared

  Shape local_shape;             // stored shape of the largest shard
  int64_t bytes_per_device = 0;  // of the largest shard
  int64_t shards = 1;            // product of the sizes of the axes in `spec`
  // Copies of each shard: devices / (shards x size of the axis of `dealt`).
  int64_t replicas = 1;
  std::optional<ExpertPlacement> dealt = {};
  // The mesh view that the axes of `spec` and `dealt` belong to; empty: the
  // mesh itself.
  std::string view = {};

  // `requested` in mesh axes, one entry per dimension. Set if `requested` names
  // semantic or logical axes or counts dimensions from the last.
  std::optional<PartitionSpec> resolved = {};
  // Per dimension of `resolved`, the logical axis rule (1-based) that placed
  // it; 0: no rule. Empty if no dimension has a logical axis.
  std::vector<int> logical_rules = {};

  // The requested spec, in mesh axes. REQUIRES: `requested` has a value.
  const PartitionSpec& requested_spec() const {
    return resolved ? *resolved : *requested;
  }
};

// A rule as stored in a plan, without its file, and what it matched.
struct PlanRule {
  std::string pattern;
  PartitionSpec spec;
  std::string file;
  int64_t line = 0;
  bool shipped = false;
  bool shards_parts = false;
  std::string view = {};  // the only view that the rule applies to; empty: any
  AxisName deal = {};     // axis of whole experts (Rule::deal); or empty
  ModuleHook hook = {};   // set if hooks run the plan
  int64_t matched = 0;    // names that the pattern matches
  int64_t decided = 0;    // names whose placement it determined
  // The rules that decided all of its names (1-based, ascending). Empty unless
  // it matched names and decided none.
  std::vector<int> shadowed_by;

  bool operator==(const PlanRule&) const = default;
};

struct Plan {
  Mesh mesh;
  OnIndivisible on_indivisible = OnIndivisible::Drop;
  // Strict mode: scalars are placed without consulting the rules.
  bool strict = true;
  AxisNames
      declared_axes;  // axes that rules may name though the mesh lacks them
  std::vector<PlanRule> rules;
  std::vector<Placement> placements;   // distinct
  std::vector<uint32_t> placement_of;  // per parameter of the manifest
  Declarations declarations = {};      // the source of `stored_dims`
  // Names in the rules' specs that are not mesh axes but stand for some.
  AxisNames other_names = {};
  RunAs run_as = RunAs::Compiler;  // as in the rules
  AxisName hook_axis = {};         // as RuleSet::hook_axis

  const Placement& of(size_t parameter) const {
    return placements[placement_of[parameter]];
  }
  // Returns whether no rule matched the parameter's name. Scalars in strict
  // mode are not unmatched, since no rule is consulted for them.
  bool is_unmatched(const Placement& placement) const {
    return placement.rule == 0 && !placement.requested &&
           !(strict && placement.type.shape.empty());
  }
};

// The shape that all shards together store: the type's, except for declared
// dimensions.
Shape stored_shape(const Placement& placement);

// Computes local_shape, bytes_per_device, shards, replicas and view from type,
// stored dimensions, spec and `dealt`.
void measure(Placement& placement, const Mesh& mesh, OnIndivisible policy);

// Returns the SHA-256, in hex, of the RFC 8785 form of {"mesh": [[axis, size],
// ..], "parameters": [[name, dtype, shape, spec], ..]}, followed, if not empty,
// by "stored": [[name, shape], ..] for the parameters whose stored shape
// differs, "views": [[name, [[axis, size], ..]], ..] for the views that a
// placement uses and "dealt": [[name, axis, experts], ..] for the experts that
// are placed whole.
std::string fingerprint(const Manifest& manifest, const Plan& plan);

// Device slices: the slice of a tensor that each device holds.
//
// A device's slice follows from its coordinates (core/spec.h); its id is their
// row-major index. Slices refer to the stored shape and contain only real rows;
// the rows that a shard stores beyond them are padding.

// The slice of a tensor on one device.
struct HeldSlice {
  std::vector<int64_t> coordinates;  // per axis of mesh.all_axes()
  std::vector<Slice> slices;         // per dimension
  std::vector<int64_t> padding;      // rows without content, per dimension

  bool operator==(const HeldSlice&) const = default;
};
// Returns whether the device is on the rank that holds an expert with this
// placement. `rank` is used if the placement has no rank of its own. Always
// true for parameters that are not whole experts.
bool is_held(const Placement& placement, const Mesh& mesh, int64_t rank,
             int64_t device);
// Returns the device's slice, with coordinates on all axes of the mesh and its
// views. REQUIRES: 0 <= device < mesh.devices().
HeldSlice held_slice(const Placement& placement, const Mesh& mesh,
                     OnIndivisible policy, int64_t device);

// The shards of a tensor, as a grid of the tensor's rank.
struct DeviceSlices {
  // Per dimension, indexed by the shard's index in it. None is empty.
  std::vector<std::vector<Slice>> slices;
  std::vector<std::vector<int64_t>> padding;
  // Per shard, row-major: the devices that hold it, ascending.
  std::vector<std::vector<int64_t>> devices;

  // The row-major number of the shard with these indices, one per dimension.
  size_t number(const std::vector<size_t>& indices) const;
};

// A map of more devices would not be readable.
inline constexpr int64_t kMaxMappedDevices = int64_t{1} << 17;
// `rank` as in is_held. REQUIRES: mesh.devices() <= kMaxMappedDevices.
DeviceSlices device_slices(const Placement& placement, const Mesh& mesh,
                           OnIndivisible policy, int64_t rank = 0);

// Sha256: computes SHA-256 incrementally, for fingerprints.
class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void update(std::string_view text);
  // Returns the digest in lower-case hex. Call once.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace shardplan
