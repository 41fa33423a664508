// SPDX-License-Identifier: Apache-2.0
// Units: what of a dimension must stay whole, though numbers would divide it.
//
// `k_proj` of a model with 8 KV heads has 1,024 rows, which 16 divides; half a
// head per device is wrong all the same (SP206). A unit says that a dimension
// consists of `count` equal parts (attention heads, experts, quantisation
// blocks), so it may be cut into n shards only where n divides `count`; or that
// it is packed: several tensors side by side, of which a contiguous shard would
// hold one and not the others.
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
  ExpertGroup,  // experts that routing chooses together
  QuantBlock,   // elements that share a scale
  Layer,        // of scanned layers, stacked along the dimension
};
std::string_view unit_name(UnitKind kind);  // "head", "KV head", "expert"

// One of the tensors that are packed in a dimension.
struct Part {
  std::string_view name;  // "gate", "k"
  int64_t rows = 0;
  int64_t count = 0;  // units in it: heads, or rows
  bool kv = false;    // consists of KV heads
};

struct Unit {
  int dim = 0;  // 0-based
  UnitKind kind = UnitKind::Head;
  int64_t count = 1;  // units in the dimension; 1: any cut splits it
  // The dimension lies within one unit: an element of it is less than a unit.
  bool inside = false;
  std::vector<Part> parts = {};  // of a packed dimension; else empty
  // Query heads of the model, where KV heads can be replicated; else 0.
  int64_t queries = 0;
  // Less than a unit cannot be stored, so that every axis meets it, also those
  // over which a weight is gathered before use.
  bool atomic = false;
};

// The units of a parameter, known by its name (Hugging Face, Flax, EasyDeL,
// MaxText, Megatron and vLLM spellings, weights and biases, either layout), its
// shape, the facts and what all names together tell. Nothing is claimed where a
// name is not known or the shape does not agree with the facts.
std::vector<Unit> units_of(std::string_view name, const TensorType& type,
                           const Facts& facts, const LayoutHints& hints = {});

// The axes of a dimension that meet its units. Those of the batch (fsdp, dp,
// data, replica) do not: a weight is gathered over them before use. For stacked
// layers every axis counts, but for those of a pipeline (pp, stage, ..).
// Quantisation blocks do not meet axes of experts and sequences (ep, sp, cp)
// either, whose devices have other tokens: shipped sets store hidden dimensions
// over them, unless a block is how the elements are stored.
AxisNames cutting_axes(const Unit& unit, AxisNames axes);

// Whether a cut into that many shards splits a unit or gives a device one part
// of a packed dimension without the others, stored as declared.
bool is_cut(const Unit& unit, int64_t shards, const Declarations& declared);

// What a declaration makes of a dimension of `size` rows cut into `shards`: its
// stored size and why, or an empty `why` where none applies.
struct StoredSize {
  int64_t size = 0;
  std::string why;
};
StoredSize stored_size(const Unit& unit, int64_t size, int64_t shards,
                       const Declarations& declared);

// Everything that must be known of a model to tell the units of its tensors.

struct UnitFacts {
  Facts facts;  // given, or inferred
  LayoutHints hints;
  // How inferred facts were come by; empty where they were given.
  std::vector<std::string> why;

  // From a config or the manifest, and taken at their word.
  bool given() const {
    return facts.from == FactsFrom::Config || facts.from == FactsFrom::Manifest;
  }
};

// Names are read once per class; `folding` is by placement or by type.
UnitFacts unit_facts(const Manifest& manifest, const Folding& folding);
// The same where nothing is folded yet. O(parameters).
UnitFacts unit_facts(const Manifest& manifest);

// The mesh axes that shard the batch, by their usual names.
//
// A weight that such an axis shards is gathered over it before use (FSDP), and
// sequences are dealt out over it. eformer's PartitionAxis calls them fsdp and
// dp, levanter and t5x data, torchtitan dp_shard and dp_replicate; in a view
// for experts they are edp and efsdp (Megatron, torchtitan).

inline constexpr std::array<std::string_view, 8> kGatheredAxes = {
    "dp",  "fsdp",  "data",     "replica",
    "edp", "efsdp", "dp_shard", "dp_replicate"};

inline bool is_gathered_axis(std::string_view axis) {
  return contains(kGatheredAxes, axis);
}

// Whether an axis is that of tensor parallelism, by its usual names.
inline bool is_tensor_axis(std::string_view axis) {
  return axis == "tp" || axis == "tensor" || axis == "model";
}

// Whether an axis is that of a pipeline's stages, by its usual names.
bool is_pipeline_axis(std::string_view axis);

// Axes over which devices hold copies of the model and work on other sequences
// (data parallelism without sharding), by their usual names.
inline constexpr std::array<std::string_view, 8> kDataAxes = {
    "dp",  "data", "replica",     "batch", "data_parallel",
    "ddp", "edp",  "dp_replicate"};

inline bool is_data_axis(std::string_view axis) {
  return contains(kDataAxes, axis);
}

// The kinds of units, one function and one file each; units.cc asks them all.

// A parameter, read.
struct NamedTensor {
  std::string_view name;
  TensorName tail;
  const TensorType& type;
};

// Heads, KV heads, head groups and fused q, k, v. REQUIRES: in_attention.
std::vector<Unit> attention_units(const NamedTensor& tensor,
                                  const Facts& facts);
// Packed gate and up, concatenated or alternating.
std::optional<Unit> gate_up_unit(const NamedTensor& tensor,
                                 const LayoutHints& hints);
// Experts and groups of them.
std::vector<Unit> expert_units(const NamedTensor& tensor, const Facts& facts);
// Quantisation blocks.
std::vector<Unit> block_units(const NamedTensor& tensor, const Facts& facts,
                              const LayoutHints& hints);
// The same by what an architecture says of it.
std::vector<Unit> blocks_of_kind(const ParameterKind& kind,
                                 const NamedTensor& tensor);
// What an architecture says of a parameter; null where none explains it.
const ParameterKind* find_kind(std::string_view name, const TensorType& type,
                               const LayoutHints& hints);
// Heads, KV heads, head groups, packed parts and experts, by labels.
std::vector<Unit> units_of_kind(const ParameterKind& kind,
                                const TensorType& type, const Facts& facts);
// The stack of scanned layers.
std::optional<Unit> layer_unit(const NamedTensor& tensor, const Facts& facts,
                               const LayoutHints& hints);

}  // namespace shardplan
