// SPDX-License-Identifier: Apache-2.0
// Units from an architecture's explanation of a parameter, by the labels of
// dimensions instead of names.
#include <algorithm>
#include <initializer_list>

#include "base/checked.h"
#include "core/fold.h"
#include "model/architecture/axis_labels.h"
#include "model/units.h"

namespace shardplan {
namespace {

constexpr std::string_view kOtherHeads = "_heads";  // of linear attention, ..

// Returns whether rows alternate: one of every part.
bool is_alternating(const DimKind& dim) {
  return dim.count > 0 && dim.parts.size() > 1 &&
         std::ranges::all_of(
             dim.parts, [](const DimPart& part) { return part.rows == 1; });
}

bool has_parts(const DimKind& dim,
               std::initializer_list<std::string_view> names) {
  return std::ranges::all_of(names, [&](std::string_view name) {
    return std::ranges::any_of(
        dim.parts, [&](const DimPart& part) { return part.name == name; });
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

}  // namespace

const ParameterKind* find_kind(std::string_view name, const TensorType& type,
                               const LayoutHints& hints) {
  if (hints.kinds == nullptr) return nullptr;
  const auto found = hints.kinds->find({folded_name(name), type.shape});
  if (found == hints.kinds->end()) return nullptr;
  SHARDPLAN_CHECK(found->second.size() == type.shape.size());
  return &found->second;
}

std::vector<Unit> units_of_kind(const ParameterKind& kind,
                                const TensorType& type, const Facts& facts) {
  std::vector<Unit> units;
  for (size_t i = 0; i < kind.size(); ++i) {
    const DimKind& dim = kind[i];
    const int index = static_cast<int>(i);
    // Without a count, each element is a head or belongs to one.
    const int64_t count = dim.count > 0 ? dim.count : type.shape[i];
    if (dim.count == 0 && !dim.parts.empty()) {
      if (const auto packed = packed_unit(dim, index, facts)) {
        units.push_back(*packed);
      }
    } else if (is_alternating(dim)) {
      units.push_back({index, UnitKind::GateUpPair, dim.count});
    } else if (dim.label == kKvHeadsLabel && has_parts(dim, {"q", "k", "v"})) {
      // A group has a KV head's query heads, its key and its value.
      units.push_back({index,
                       UnitKind::HeadGroup,
                       dim.count,
                       false,
                       {},
                       facts.heads.value_or(0)});
    } else if (dim.label == kHeadsLabel || (dim.label.ends_with(kOtherHeads) &&
                                            dim.label != kKvHeadsLabel)) {
      units.push_back({index, UnitKind::Head, count});
    } else if (dim.label == kKvHeadsLabel) {
      units.push_back({index,
                       UnitKind::KvHead,
                       dim.count,
                       false,
                       {},
                       facts.heads.value_or(0)});
    } else if (dim.label == kExpertsLabel && dim.count > 0) {
      units.push_back({index, UnitKind::Expert, dim.count});
      const int64_t groups = facts.expert_groups.value_or(1);
      if (groups > 1 && dim.count % groups == 0) {
        units.push_back({index, UnitKind::ExpertGroup, groups});
      }
    }
  }
  return units;
}

}  // namespace shardplan
