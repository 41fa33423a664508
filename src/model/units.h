// SPDX-License-Identifier: Apache-2.0
// Units: the parts of a dimension that must not be split, even if their number
// of rows is divisible.
//
// `k_proj` of a model with 8 KV heads has 1,024 rows, which 16 divides, yet
// half a head per device is wrong (SP206). A unit says that a dimension
// consists of `count` equal parts (attention heads, experts, quantisation
// blocks), so it may be sharded n ways only if n divides `count`; or that it is
// packed: several tensors side by side, of which a contiguous shard would have
// one and not the others.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/words.h"
#include "core/fold.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/rules.h"
#include "core/types.h"
#include "model/tensor_name.h"

namespace shardplan {

enum class UnitKind : uint8_t {
  Head,
  KvHead,
  HeadGroup,     // query heads with the key and value head that they share
  FusedQkv,      // packed: q, k, v
  PackedGateUp,  // packed: gate, up
  GateUpPair,    // a gate row and its up row, alternating
  Expert,
  ExpertGroup,  // experts that routing selects together
  QuantBlock,   // elements that share a scale
  Layer,        // of scanned layers, stacked along the dimension
};
std::string_view unit_name(UnitKind kind);  // "head", "KV head", "expert"

// One of the tensors that a dimension packs.
struct Part {
  std::string_view name;  // "gate", "k"
  int64_t rows = 0;
  int64_t count = 0;  // units in it: heads, or rows
  bool kv = false;    // consists of KV heads
};

struct Unit {
  int dim = 0;  // 0-based
  UnitKind kind = UnitKind::Head;
  int64_t count = 1;  // units in the dimension; 1: any shard splits it
  // The dimension is part of one unit: an element of it is less than a unit.
  bool inside = false;
  std::vector<Part> parts = {};  // of a packed dimension; else empty
  // Query heads of the model if KV heads can be replicated; else 0.
  int64_t queries = 0;
  // Less than a unit cannot be stored, so every axis must respect the unit,
  // even axes over which a weight is gathered before use.
  bool atomic = false;
};

// Returns the units of a parameter. They are determined by its name (Hugging
// Face, Flax, EasyDeL, MaxText, Megatron and vLLM spellings, weights and
// biases, either layout), its shape, the facts, and hints from all names
// together. Returns none if the name is not known or the shape contradicts the
// facts.
std::vector<Unit> units_of(std::string_view name, const TensorType& type,
                           const Facts& facts, const LayoutHints& hints = {});

// Returns the axes of a dimension that must not split its units. Batch axes
// (fsdp, dp, data, replica) may split them, since a weight is gathered over
// them before use. For stacked layers every axis counts except pipeline axes
// (pp, stage, ..). Axes of experts and sequences (ep, sp, cp) may split
// quantisation blocks: their devices have other tokens, and shipped rule sets
// shard stored hidden dimensions over them. If a block is the storage format
// itself (`atomic`), every axis counts.
AxisNames cutting_axes(const Unit& unit, AxisNames axes);

// Returns whether that many shards split a unit, or give a device one part of a
// packed dimension without the others, if the parameter is stored as declared.
bool is_cut(const Unit& unit, int64_t shards, const Declarations& declared);

// The stored size of a dimension under a declaration, and the reason; `why` is
// empty if no declaration applies. stored_size() computes it for a dimension of
// `size` rows with `shards` shards.
struct StoredSize {
  int64_t size = 0;
  std::string why;
};
StoredSize stored_size(const Unit& unit, int64_t size, int64_t shards,
                       const Declarations& declared);

// Everything about a model that determines the units of its tensors.

struct UnitFacts {
  Facts facts;  // given, or inferred
  LayoutHints hints;
  // How inferred facts were found; empty if the facts were given.
  std::vector<std::string> why;

  // Returns whether the facts come from a config or the manifest and are
  // trusted.
  bool are_trusted() const {
    return facts.from == FactsFrom::Config || facts.from == FactsFrom::Manifest;
  }
};

// Collects the facts and hints. Names are read once per class; `folding` is by
// placement or by type.
UnitFacts unit_facts(const Manifest& manifest, const Folding& folding);
// Does the same if nothing is folded yet. O(parameters).
UnitFacts unit_facts(const Manifest& manifest);

// The mesh axes that shard the batch, by their usual names.
//
// A weight that such an axis shards is gathered over it before use (FSDP), and
// the sequences of the batch are distributed over it. eformer's PartitionAxis
// calls them fsdp and dp, levanter and t5x data, torchtitan dp_shard and
// dp_replicate; in a view for experts they are edp and efsdp (Megatron,
// torchtitan).

inline constexpr std::array<std::string_view, 8> kGatheredAxes = {
    "dp",  "fsdp",  "data",     "replica",
    "edp", "efsdp", "dp_shard", "dp_replicate"};

inline bool is_gathered_axis(std::string_view axis) {
  return contains(kGatheredAxes, axis);
}

// Returns whether an axis has a usual name for tensor parallelism.
inline bool is_tensor_axis(std::string_view axis) {
  return axis == "tp" || axis == "tensor" || axis == "model";
}

// Returns whether an axis has a usual name for pipeline stages.
bool is_pipeline_axis(std::string_view axis);

// Axes over which devices replicate the model and process other sequences (data
// parallelism without sharding), by their usual names.
inline constexpr std::array<std::string_view, 8> kDataAxes = {
    "dp",  "data", "replica",     "batch", "data_parallel",
    "ddp", "edp",  "dp_replicate"};

inline bool is_data_axis(std::string_view axis) {
  return contains(kDataAxes, axis);
}

}  // namespace shardplan
