// SPDX-License-Identifier: Apache-2.0
// Hashes of texts: SHA-256 for fingerprints, and eformer's get_safe_hash_int.
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

// SHA-256 of a text that is given piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();

  void update(std::string_view text);
  // In hex, lower case. Call once.
  std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// Plan: where every parameter of a manifest goes on a mesh.
//
// The waist of the program: rules or a saved file make a Plan; memory reports,
// diffs and exports read one. A model of a million tensors has few distinct
// placements, so each is kept once and a parameter holds its number.
// Invariants: exactly one placement number per parameter, in manifest order;
// every final spec is legal for its shape on the mesh (see Sharding), where
// `pad`, `chunk` and `rows` also allow indivisible dimensions.

// What to do with a dimension that is not divisible by its axes.
enum class OnIndivisible : uint8_t {
  Drop,    // unshard the whole dimension (eformer)
  Prefix,  // keep the longest prefix of its axes that divides (MaxText)
  Pad,     // keep; every shard stores ceil(d/n) rows (GSPMD)
  Chunk,   // keep; torch.chunk, axis by axis (DTensor)
  Rows,    // axes of the batch cut dimension 0 in chunks, whatever dimension
           // was asked for (FSDP2's fully_shard); all else as Drop
  Error,   // as Drop, and SP203 is an error
};
std::string_view policy_name(OnIndivisible policy);
std::optional<OnIndivisible> find_policy(std::string_view name);
std::vector<std::string> on_indivisible_names();
inline Cut cut_of(OnIndivisible policy) {
  return policy == OnIndivisible::Chunk || policy == OnIndivisible::Rows
             ? Cut::Chunked
             : Cut::Even;
}
// Whether shards of a dimension may differ.
inline bool allows_uneven(OnIndivisible policy) {
  return policy == OnIndivisible::Pad || cut_of(policy) == Cut::Chunked;
}

// A departure from what a rule asked for.
struct Correction {
  int dim = 0;  // 0-based, of what was asked for (Placement::asked)
  Code code = Code::IndivisibleDimension;
  AxisNames dropped;
  std::string reason;

  bool operator==(const Correction&) const = default;
};

// A dimension that is stored as was declared (core/rules.h): of another
// size than the checkpoint has, or of the same size but reordered.
struct StoredDim {
  int dim = 0;       // 0-based
  int64_t size = 0;  // as stored, over all shards; at least the logical size
  std::string why;   // "pad-vocab=128: smallest multiple ..."

  auto operator<=>(const StoredDim&) const = default;
};

// A parameter that is dealt out whole: an expert that is stored by itself,
// which no spec can place, since none of its dimensions counts experts. The
// ranks along `axis` hold blocks of consecutive experts: expert e of E is on
// rank floor(e * size / E). Where the size divides E, Megatron, vLLM and
// transformers do the same. What the spec names cuts it there.
struct Dealt {
  AxisName axis;
  int64_t size = 1;     // of the axis
  int64_t experts = 1;  // of each layer, E
  // The rank that holds the expert, if the experts of a layer differ; -1: the
  // placement is shared by all of them.
  int64_t rank = -1;

  bool operator==(const Dealt&) const = default;
};
int64_t rank_of_expert(const Dealt& dealt, int64_t expert);
// Of `count` parameters with such a placement, those of one rank. Of an alike
// placement, `count` is a multiple of its experts.
int64_t dealt_to(const Dealt& dealt, int64_t count, int64_t rank);
// Those of the rank that has the most.
int64_t most_dealt(const Dealt& dealt, int64_t count);
// Whether every rank has as many.
bool is_dealt_evenly(const Dealt& dealt);

struct Placement {
  TensorType type;
  int rule = 0;  // 1-based; 0 when no rule decided
  // As written: the rule's spec or, with no rule, the manifest's logical axes.
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
  std::optional<Dealt> dealt = {};
  // The view of the mesh that the axes of `spec` and `dealt` belong to; empty:
  // the mesh itself.
  std::string view = {};

  // What `requested` means in mesh axes, one entry per dimension, where it
  // names semantic or logical axes or counts dimensions from the last.
  std::optional<PartitionSpec> meant = {};
  // Per dimension of `meant`, the logical axis rule (1-based) that placed it;
  // 0: none did. Empty when no dimension has a logical axis.
  std::vector<int> logical_rules = {};

  // What was asked for, in mesh axes. REQUIRES: `requested` is there.
  const PartitionSpec& asked() const { return meant ? *meant : *requested; }
};

// A rule as a plan remembers it, after its file is gone, and how it fared.
struct PlanRule {
  std::string pattern;
  PartitionSpec spec;
  std::string file;
  int64_t line = 0;
  bool shipped = false;
  bool shards_parts = false;
  std::string view = {};  // the rule is of that view alone; empty: of any
  AxisName deal = {};     // the axis that experts are dealt out over; or empty
  ModuleHook hook = {};   // in a plan that hooks run
  int64_t found = 0;      // names that the pattern is found in
  int64_t won = 0;        // names that it decided
  // Rules that took all of its names (1-based, ascending); empty unless it was
  // found and won none.
  std::vector<int> shadowed_by;

  bool operator==(const PlanRule&) const = default;
};

struct Plan {
  Mesh mesh;
  OnIndivisible on_indivisible = OnIndivisible::Drop;
  // Strict: scalars are placed without asking the rules.
  bool strict = true;
  AxisNames
      declared_axes;  // axes that rules may name though the mesh lacks them
  std::vector<PlanRule> rules;
  std::vector<Placement> placements;   // distinct
  std::vector<uint32_t> placement_of;  // per parameter of the manifest
  Declarations declarations = {};      // what `stored_dims` follow from
  // Names in the rules' specs that are no mesh axes, but stand for some.
  AxisNames other_names = {};
  RunAs run_as = RunAs::Compiler;  // of the rules
  AxisName hook_axis = {};         // as RuleSet::hook_axis

  const Placement& of(size_t parameter) const {
    return placements[placement_of[parameter]];
  }
  // No rule was found in the parameter's name (unlike a scalar in strict mode,
  // for which none was sought).
  bool is_unmatched(const Placement& placement) const {
    return placement.rule == 0 && !placement.requested &&
           !(strict && placement.type.shape.empty());
  }
};

// The shape that all shards together store: the type's, but for what is
// declared.
Shape stored_shape(const Placement& placement);

// Fills local_shape, bytes_per_device, shards, replicas and view from type,
// stored dimensions, spec and `dealt`.
void measure(Placement& placement, const Mesh& mesh, OnIndivisible policy);

// SHA-256, in hex, of the RFC 8785 form of
// {"mesh": [[axis, size], ..], "parameters": [[name, dtype, shape, spec], ..]},
// followed by "stored": [[name, shape], ..] of the parameters whose stored
// shape is another, "views": [[name, [[axis, size], ..]], ..] of the views that
// a placement uses and "dealt": [[name, axis, experts], ..] of the parameters
// that are dealt out, when there are any.
std::string fingerprint(const Manifest& manifest, const Plan& plan);

// Device slices: which slice of one tensor lies on which device.
//
// A device's slice follows from its coordinates (core/spec.h), its id is their
// row-major index. Slices are of the stored shape, and end where rows do: what
// a shard stores beyond is padding.

// What one device holds.
struct HeldSlice {
  std::vector<int64_t> coordinates;  // per axis of mesh.all_axes()
  std::vector<Slice> slices;         // per dimension
  std::vector<int64_t> padding;      // per dimension: rows without content

  bool operator==(const HeldSlice&) const = default;
};
// Whether the device is on the rank that an expert with this placement is dealt
// to; `rank` is meant where the placement does not say it. Always, for what is
// not dealt out.
bool is_held(const Placement& placement, const Mesh& mesh, int64_t rank,
             int64_t device);
// Coordinates are those of all axes of the mesh and its views. REQUIRES: 0 <=
// device < mesh.devices().
HeldSlice held_slice(const Placement& placement, const Mesh& mesh,
                     OnIndivisible policy, int64_t device);

// The shards of a tensor, as a grid with the tensor's rank.
struct DeviceSlices {
  // Per dimension, by the shard's index in it. All have at least one.
  std::vector<std::vector<Slice>> slices;
  std::vector<std::vector<int64_t>> padding;
  // Per shard, row-major by the indices: who holds it, ascending.
  std::vector<std::vector<int64_t>> devices;

  // The number of the shard with these indices, one per dimension.
  size_t number(const std::vector<size_t>& indices) const;
};

// More devices make no map that somebody could read.
inline constexpr int64_t kMaxMappedDevices = int64_t{1} << 17;
// `rank` as in is_held. REQUIRES: mesh.devices() <= kMaxMappedDevices.
DeviceSlices device_slices(const Placement& placement, const Mesh& mesh,
                           OnIndivisible policy, int64_t rank = 0);

}  // namespace shardplan
