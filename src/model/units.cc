// SPDX-License-Identifier: Apache-2.0
// Units of a parameter come from an architecture's explanation of it, by the
// labels of its dimensions, or from its name (named_units.h). An adapter has
// the units of the weight that it adapts. Quantisation blocks and stacked
// layers are added to either.
#include "model/units.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "model/architecture/axis_labels.h"
#include "model/facts.h"
#include "model/named_units.h"
#include "model/quant_scales.h"

namespace shardplan {
namespace {

// Axes whose devices each store some of the layers: MaxText's `stage`, and its
// names elsewhere.
constexpr std::array<std::string_view, 5> kPipelineAxes = {
    "stage", "stages", "pp", "pipe", "pipeline"};

// Axes whose devices process other experts or tokens.
constexpr std::array<std::string_view, 3> kTokenAxes = {"ep", "sp", "cp"};

// Returns an architecture's explanation of a parameter; null if none explains
// it.
const ParameterKind* find_kind(std::string_view name, const TensorType& type,
                               const LayoutHints& hints) {
  if (hints.kinds == nullptr) return nullptr;
  const auto found = hints.kinds->find({folded_name(name), type.shape});
  if (found == hints.kinds->end()) return nullptr;
  SHARDPLAN_CHECK(found->second.size() == type.shape.size());
  return &found->second;
}

// Returns whether rows alternate: one of every part.
bool is_alternating(const DimKind& dim) {
  return dim.count > 0 && dim.parts.size() > 1 &&
         std::ranges::all_of(
             dim.parts, [](const DimPart& part) { return part.rows == 1; });
}

bool has_parts(const DimKind& dim,
               std::initializer_list<std::string_view> names) {
  return std::ranges::all_of(names, [&](std::string_view name) {
    return find_named(dim.parts, name) != nullptr;
  });
}

// Returns the unit of a dimension with several tensors side by side, of each of
// which a device needs its part: q, k and v, or gate and up.
std::optional<Unit> packed_unit(const DimKind& dim, int index,
                                const Facts& facts) {
  const bool qkv = has_parts(dim, {"q", "k", "v"});
  if (!qkv && !has_parts(dim, {"gate", "up"})) return std::nullopt;
  Unit unit{index, qkv ? UnitKind::FusedQkv : UnitKind::PackedGateUp};
  for (const DimPart& part : dim.parts) {
    unit.parts.push_back({part.name, part.rows,
                          part.count > 0 ? part.count : part.rows,
                          part.label == kKvHeadsLabel});
  }
  const bool queries = dim.parts.front().label == kHeadsLabel;
  if (qkv && queries) unit.queries = facts.heads.value_or(0);
  return unit;
}

// Returns heads, KV heads, head groups, packed parts and experts, by the labels
// of dimensions.
std::vector<Unit> units_of_kind(const ParameterKind& kind,
                                const TensorType& type, const Facts& facts) {
  std::vector<Unit> units;
  for (size_t i = 0; i < kind.size(); ++i) {
    const DimKind& dim = kind[i];
    const int index = static_cast<int>(i);
    if (dim.count == 0 && !dim.parts.empty()) {
      if (const auto packed = packed_unit(dim, index, facts)) {
        units.push_back(*packed);
      }
    } else if (is_alternating(dim)) {
      units.push_back({index, UnitKind::GateUpPair, dim.count});
    } else if (dim.label == kKvHeadsLabel) {
      // A group has a KV head's query heads, its key and its value.
      const bool grouped = has_parts(dim, {"q", "k", "v"});
      Unit unit{index, grouped ? UnitKind::HeadGroup : UnitKind::KvHead,
                dim.count};
      unit.queries = facts.heads.value_or(0);
      units.push_back(unit);
    } else if (dim.label == kHeadsLabel || dim.label.ends_with("_heads")) {
      // Without a count, each element is a head or belongs to one.
      units.push_back(
          {index, UnitKind::Head, dim.count > 0 ? dim.count : type.shape[i]});
    } else if (dim.label == kExpertsLabel && dim.count > 0) {
      add_expert_units(i, dim.count, facts, units);
    }
  }
  return units;
}

// Returns the architecture's explanation of the adapted weight; null if there
// is none.
const ParameterKinds::value_type* kind_of_layer(const std::string& layer,
                                                const LayoutHints& hints) {
  if (hints.kinds == nullptr) return nullptr;
  for (const char* end : {".base_layer.weight", ".weight"}) {
    const std::string name = folded_name(layer + end);
    const auto found = hints.kinds->lower_bound({name, Shape{}});
    if (found != hints.kinds->end() && found->first.first == name &&
        found->second.size() == 2) {
      return &*found;
    }
  }
  return nullptr;
}

// Returns the units of `q_proj.lora_B.weight` or
// `q_proj.lora_B.default.weight`; empty if the name is no such adapter of a
// linear layer.
//
// For a linear layer [out, in], PEFT's `lora_B` [out, rank] produces the
// layer's outputs and `lora_A` [rank, in] reads its inputs. Sharding one of
// these dimensions therefore splits the same units as sharding the layer's own
// (SP206). The rank has no units, and neither have other kinds of adapters.
std::optional<std::vector<Unit>> adapter_units(std::string_view name,
                                               const TensorType& type,
                                               const Facts& facts,
                                               const LayoutHints& hints) {
  const size_t at = name.rfind(".lora_");
  if (at == name.npos || !name.ends_with(".weight")) return std::nullopt;
  const std::string_view part = name.substr(at + 1);
  const bool is_output = part.starts_with("lora_B.");
  if ((!is_output && !part.starts_with("lora_A.")) ||
      std::ranges::count(part, '.') > 2) {
    return std::nullopt;
  }
  std::vector<Unit> units;
  if (type.shape.size() != 2) return units;
  const std::string layer(name.substr(0, at));
  const size_t dim = is_output ? 0 : 1;
  if (const auto* of = kind_of_layer(layer, hints)) {
    // A weight of GPT-2 is stored transposed.
    const auto& [known, kind] = *of;
    const bool turned = role_of(split_name(known.first)) == Role::ConvOutput ||
                        known.second[dim] != type.shape[dim];
    const size_t own = turned ? 1 - dim : dim;
    if (known.second[own] != type.shape[dim]) return units;
    ParameterKind two(2);
    two[dim] = kind[own];
    units = units_of_kind(two, type, facts);
  } else {
    const std::string weight = layer + ".weight";
    const NamedTensor tensor{weight, split_name(weight), type};
    if (in_attention(tensor.tail)) units = attention_units(tensor, facts);
  }
  // The rank may happen to equal the size of a unit's dimension.
  std::erase_if(units, [&](const Unit& unit) {
    return unit.dim != static_cast<int>(dim);
  });
  return units;
}

// Quantisation blocks: elements that share a scale.
//
// The facts give the rows and columns of a block, in the last two dimensions of
// every quantised matrix (FP8: 128 x 128; formats that quantise along a row: 1
// x 32 or 1 x 256). A shard must begin where a block begins. MXFP4 checkpoints
// store a block as 16 bytes in a separate dimension, the last of `_blocks`.
// Without such facts, or if a weight has another number of scales than they
// imply, the shapes of its scales determine its blocks (quant_scales.h).
//
// The types of GGUF are blocks: 32 or 256 elements of a row are packed with
// their scales, so no part of a block can be stored at all.

void add_block_unit(const Shape& shape, size_t dim, int64_t block, bool atomic,
                    std::vector<Unit>& units) {
  const int64_t size = shape[dim];
  if (block < 2 || size < 1) return;
  // If the last block is smaller, equal shards cannot all begin at blocks.
  const int64_t count = size % block == 0 ? size / block : 1;
  units.push_back({static_cast<int>(dim), UnitKind::QuantBlock, count});
  units.back().atomic = atomic;
}

// Returns whether the tensor is itself a scale: scales are not quantised,
// though they may have a quantised type.
bool is_scale(std::string_view leaf) {
  return leaf.ends_with("scale") || leaf.ends_with("scales") ||
         leaf.ends_with("scale_inv") || leaf.ends_with("zero_point");
}

// Returns whether a weight has as many scales as blocks of the given size: a
// checkpoint may store some weights with a method of other blocks.
bool has_blocks(const QuantBlocks& tensor_blocks, const Shape& shape,
                const Facts& facts) {
  const size_t rank = shape.size();
  return tensor_blocks.scales_shape.size() == rank &&
         tensor_blocks.scales_shape[rank - 2] ==
             ceil_div(shape[rank - 2], facts.quant_rows.value_or(1)) &&
         tensor_blocks.scales_shape[rank - 1] ==
             ceil_div(shape[rank - 1], facts.quant_columns.value_or(1));
}

// Returns whether the last dimension is the bytes of MXFP4 blocks, of which no
// part can be stored.
bool has_bytes_of_blocks(const NamedTensor& tensor) {
  return tensor.tail.module.ends_with("_blocks") &&
         tensor.type.shape.size() == 4 && tensor.type.dtype == DType::U8;
}

// Adds the quantisation blocks that an architecture declares.
void add_declared_blocks(const ParameterKind& kind, const NamedTensor& tensor,
                         std::vector<Unit>& units) {
  const DType dtype = tensor.type.dtype;
  const bool plain = dtype == DType::F32 || dtype == DType::BF16 ||
                     dtype == DType::F16 || dtype == DType::F64;
  // The layer of this weight is not quantised, though others are.
  if (plain && tensor.tail.leaf == "weight") return;
  for (size_t dim = 0; dim < kind.size(); ++dim) {
    add_block_unit(tensor.type.shape, dim, kind[dim].block,
                   dim == 3 && has_bytes_of_blocks(tensor), units);
  }
}

// Adds the quantisation blocks that type, scales and facts imply.
void add_implied_blocks(const NamedTensor& tensor, const Facts& facts,
                        const LayoutHints& hints, std::vector<Unit>& units) {
  const Shape& shape = tensor.type.shape;
  const size_t rank = shape.size();
  const int64_t packed = dtype_block(tensor.type.dtype).elements;
  if (packed > 1) {
    if (rank > 0) add_block_unit(shape, rank - 1, packed, true, units);
    return;
  }
  if (has_bytes_of_blocks(tensor)) {
    units.push_back({3, UnitKind::QuantBlock, 1, true});
    return;
  }
  const QuantBlocks* const tensor_blocks =
      find_blocks(hints.blocks, tensor.name, shape);
  if (rank > 1 && is_quantised(tensor.type.dtype) &&
      (facts.quant_rows || facts.quant_columns) &&
      !is_scale(tensor.tail.leaf) &&
      (tensor_blocks == nullptr || has_blocks(*tensor_blocks, shape, facts))) {
    add_block_unit(shape, rank - 2, facts.quant_rows.value_or(1), false, units);
    add_block_unit(shape, rank - 1, facts.quant_columns.value_or(1), false,
                   units);
  } else if (tensor_blocks != nullptr) {
    for (size_t dim = 0; dim < rank; ++dim) {
      add_block_unit(shape, dim, tensor_blocks->blocks[dim], false, units);
    }
  }
}

// Returns the stack of scanned layers: one tensor stores all layers, along its
// first dimension or its second (MaxText). A loop processes one layer at a
// time, so layers must not be sharded over devices, except over the stages of a
// pipeline. Rules that were written for separate layers apply to the wrong
// dimension here.
std::optional<Unit> layer_unit(const NamedTensor& tensor, const Facts& facts,
                               const LayoutHints& hints) {
  const std::string_view stack = stack_of(tensor.name);
  const auto evidence = hints.stacks.find(stack);
  if (stack.empty() || evidence == hints.stacks.end()) return std::nullopt;
  const auto stacked = stacked_layers(evidence->second, facts.layers);
  if (!stacked || stacked->dim >= tensor.type.shape.size()) return std::nullopt;
  return Unit{static_cast<int>(stacked->dim), UnitKind::Layer, stacked->layers};
}

// Returns whether there are exactly enough shards for whole copies of each KV
// head.
bool replicates(const Unit& unit, int64_t heads, int64_t shards,
                const Declarations& declared) {
  return declared.replicate_kv_heads && shards > heads && shards % heads == 0 &&
         (unit.queries == 0 || unit.queries % shards == 0);
}

bool cuts_parts(const Unit& unit, int64_t shards,
                const Declarations& declared) {
  const bool interleaved = unit.kind == UnitKind::FusedQkv
                               ? declared.interleave_qkv
                               : declared.interleave_gate_up;
  return !interleaved || std::ranges::any_of(unit.parts, [&](const Part& part) {
    return part.count % shards != 0 &&
           !(part.kv && replicates(unit, part.count, shards, declared));
  });
}

std::string replication_text(int64_t shards, int64_t heads) {
  return "replicate-kv-heads: one of " + plural(heads, "KV head") +
         " on each of " + std::to_string(shards) + " shards";
}

StoredSize stored_parts(const Unit& unit, int64_t size, int64_t shards,
                        const Declarations& declared) {
  const char* const what =
      unit.kind == UnitKind::FusedQkv
          ? "interleave-qkv: its part of q, k and v on each of "
          : "interleave-gate-up: its part of gate and up on each of ";
  StoredSize stored{0, what + std::to_string(shards) + " shards"};
  int64_t replicated = 0;
  for (const Part& part : unit.parts) {
    const bool copies =
        part.kv && replicates(unit, part.count, shards, declared);
    const auto rows =
        checked_mul(part.rows / part.count, copies ? shards : part.count);
    const auto sum = rows ? checked_add(stored.size, *rows) : std::nullopt;
    if (!sum) return {size, ""};
    stored.size = *sum;
    if (copies) replicated = part.count;
  }
  if (replicated > 0) stored.why += "; " + replication_text(shards, replicated);
  return stored;
}

}  // namespace

std::string_view unit_name(UnitKind kind) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "head",
      "KV head",
      "head group",
      "fused q, k, v",
      "packed gate and up",
      "gate/up pair",
      "expert",
      "expert group",
      "quantisation block",
      "stacked layer"};
  return nth(kNames, kind);
}

std::vector<Unit> units_of(std::string_view name, const TensorType& type,
                           const Facts& facts, const LayoutHints& hints) {
  if (auto units = adapter_units(name, type, facts, hints)) return *units;
  const NamedTensor tensor{name, split_name(name), type};
  const ParameterKind* const kind = find_kind(name, type, hints);
  std::vector<Unit> units = kind != nullptr ? units_of_kind(*kind, type, facts)
                                            : named_units(tensor, facts, hints);
  // The block declared for this tensor takes precedence over the config's
  // general block size, since a checkpoint may store some layers with other
  // blocks, or none.
  if (kind != nullptr && std::ranges::any_of(*kind, [](const DimKind& dim) {
        return dim.block != 1;
      })) {
    add_declared_blocks(*kind, tensor, units);
  } else {
    add_implied_blocks(tensor, facts, hints, units);
  }
  if (const auto layer = layer_unit(tensor, facts, hints)) {
    units.push_back(*layer);
  }
  return units;
}

bool is_pipeline_axis(std::string_view axis) {
  return contains(kPipelineAxes, axis);
}

AxisNames cutting_axes(const Unit& unit, AxisNames axes) {
  if (unit.atomic) return axes;
  erase_if(axes, [&](const AxisName& axis) {
    if (unit.kind == UnitKind::Layer) return is_pipeline_axis(axis);
    return is_gathered_axis(axis) ||
           (unit.kind == UnitKind::QuantBlock && contains(kTokenAxes, axis));
  });
  return axes;
}

bool is_cut(const Unit& unit, int64_t shards, const Declarations& declared) {
  if (shards == 1) return false;
  if (unit.kind == UnitKind::Layer) return true;
  if (!unit.parts.empty()) return cuts_parts(unit, shards, declared);
  if (unit.count % shards == 0) return false;
  const bool may_replicate = !unit.inside && (unit.kind == UnitKind::KvHead ||
                                              unit.kind == UnitKind::HeadGroup);
  return !may_replicate || !replicates(unit, unit.count, shards, declared);
}

StoredSize stored_size(const Unit& unit, int64_t size, int64_t shards,
                       const Declarations& declared) {
  StoredSize none{size, ""};
  if (shards == 1 || unit.inside || is_cut(unit, shards, declared)) return none;
  if (!unit.parts.empty()) return stored_parts(unit, size, shards, declared);
  if (unit.count % shards == 0) return none;
  // The shards do not divide the units and yet split none: units are
  // replicated.
  std::optional<int64_t> stored;
  if (unit.kind == UnitKind::KvHead) {
    stored = checked_mul(size, shards / unit.count);
  } else {
    const int64_t head = size / (unit.queries + 2 * unit.count);
    stored = checked_mul(unit.queries + 2 * shards, head);
  }
  if (!stored) return none;
  return {*stored, replication_text(shards, unit.count)};
}

UnitFacts unit_facts(const Manifest& manifest, const Folding& folding) {
  UnitFacts known{manifest.facts, layout_hints(manifest, folding), {}};
  if (known.are_trusted()) return known;
  InferredFacts inferred = infer_facts(manifest, folding);
  known.facts = std::move(inferred.facts);
  known.why = std::move(inferred.why);
  return known;
}

UnitFacts unit_facts(const Manifest& manifest) {
  return unit_facts(manifest, fold_by_type(manifest));
}

}  // namespace shardplan
