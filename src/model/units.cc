// SPDX-License-Identifier: Apache-2.0
#include "model/units.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "model/facts.h"
#include "model/unit_kinds.h"

namespace shardplan {
namespace {

// Axes whose devices each hold some of the layers: MaxText's `stage`, and what
// others call it.
constexpr std::array<std::string_view, 5> kPipelineAxes = {
    "stage", "stages", "pp", "pipe", "pipeline"};

// Axes whose devices work on other experts or tokens.
constexpr std::array<std::string_view, 3> kTokenAxes = {"ep", "sp", "cp"};

bool is_one_of(std::span<const std::string_view> names, const AxisName& axis) {
  return std::find(names.begin(), names.end(), axis) != names.end();
}

// As many shards as whole copies of each KV head.
bool replicates(const Unit& unit, int64_t heads, int64_t shards,
                const Declarations& declared) {
  return declared.replicate_kv_heads && shards > heads && shards % heads == 0 &&
         (unit.queries == 0 || unit.queries % shards == 0);
}

bool is_interleaved(const Unit& unit, const Declarations& declared) {
  return unit.kind == UnitKind::FusedQkv ? declared.interleave_qkv
                                         : declared.interleave_gate_up;
}

bool cuts_parts(const Unit& unit, int64_t shards,
                const Declarations& declared) {
  if (!is_interleaved(unit, declared)) return true;
  return std::any_of(
      unit.parts.begin(), unit.parts.end(), [&](const Part& part) {
        return part.count % shards != 0 &&
               !(part.kv && replicates(unit, part.count, shards, declared));
      });
}

std::string replication_text(int64_t shards, int64_t heads) {
  return "replicate-kv-heads: one of " + plural(heads, "KV head") +
         " on each of " + std::to_string(shards) + " shards";
}

std::string interleaving_text(UnitKind kind, int64_t shards) {
  return (kind == UnitKind::FusedQkv
              ? "interleave-qkv: its part of q, k and v on each of "
              : "interleave-gate-up: its part of gate and up on each of ") +
         std::to_string(shards) + " shards";
}

StoredSize stored_parts(const Unit& unit, int64_t size, int64_t shards,
                        const Declarations& declared) {
  StoredSize stored{0, interleaving_text(unit.kind, shards)};
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
  return kNames.at(static_cast<size_t>(kind));
}

std::vector<Unit> units_of(std::string_view name, const TensorType& type,
                           const ModelFacts& facts, const LayoutHints& hints) {
  const NamedTensor tensor{name, split_name(name), type};
  std::vector<Unit> units = in_attention(tensor.tail)
                                ? attention_units(tensor, facts)
                                : expert_units(tensor, facts);
  if (const auto packed = gate_up_unit(tensor, hints)) {
    units.push_back(*packed);
  }
  for (const Unit& unit : block_units(tensor, facts, hints))
    units.push_back(unit);
  if (const auto layer = layer_unit(tensor, facts, hints)) {
    units.push_back(*layer);
  }
  return units;
}

AxisNames cutting_axes(const Unit& unit, AxisNames axes) {
  if (unit.stored) return axes;
  std::erase_if(axes, [&](const AxisName& axis) {
    if (unit.kind == UnitKind::Layer) return is_one_of(kPipelineAxes, axis);
    return is_gathered_axis(axis) ||
           (unit.kind == UnitKind::QuantBlock && is_one_of(kTokenAxes, axis));
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
  // Not cut, though the shards do not divide the units: they are replicated.
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
  if (known.given()) return known;
  InferredFacts inferred = infer_facts(manifest, folding);
  known.facts = std::move(inferred.facts);
  known.why = std::move(inferred.why);
  return known;
}

UnitFacts unit_facts(const Manifest& manifest) {
  return unit_facts(manifest, fold_by_type(manifest));
}

}  // namespace shardplan
