// SPDX-License-Identifier: Apache-2.0
// Meaning: from the names in a spec to mesh axes.
//
// A name that the mesh has, or that is declared, is that axis, whatever else it
// could mean. Else it is a semantic axis (`HEAD`, `__HEAD__`), which
// PartitionAxis and the mode turn into axes, or a logical axis (`embed`), which
// the logical rules place; `mesh:` and `logical:` in front decide. Any other
// name stays as it is, for correction to refuse (SP201).
//
// Literal and semantic axes are reserved first; the logical axes of all
// dimensions share what is left, by the order of their rules.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/manifest.h"
#include "core/mesh.h"
#include "core/mode.h"
#include "core/partition_axis.h"
#include "core/plan.h"
#include "core/rules.h"
#include "core/spec.h"
#include "resolve/logical_axes.h"

namespace shardplan {

// How names are read.
struct NameReading {
  Mode mode = Mode::Train;
  RulesFallback fallback = RulesFallback::AxisIsUnsharded;
  FlaxVersion flax = FlaxVersion::Current;
};

enum class NameKind : uint8_t { Mesh, Semantic, Logical, Unknown };

struct Meaning {
  // Mesh axes; entries beyond the rank keep the names as written.
  PartitionSpec spec;
  // Per dimension, the logical rule (1-based) that placed it, or 0.
  std::vector<int> logical_rules;
  // SP110 and SP111: logical axes that were not placed.
  std::vector<Correction> corrections;
};

class Vocabulary {
 public:
  // REQUIRES: both outlive this.
  Vocabulary(const RuleSet& rules, const Mesh& mesh,
             const NameReading& reading);

  NameKind kind_of(std::string_view name) const;
  // A mesh axis that is also a logical axis, and is written as neither: its
  // logical rules would give it other axes (SP112).
  bool is_ambiguous(std::string_view name) const;
  // The names in the rules' specs that are semantic or logical axes, or have a
  // prefix; sorted.
  AxisNames others() const;
  // The mesh axes that the rules know: from specs of parameters and values,
  // logical rules, a mesh of their own, and PartitionAxis where it is given or
  // used; sorted.
  AxisNames mentioned() const;
  // Every name is a mesh axis, or unknown.
  bool is_literal(const PartitionSpec& spec) const;

  // `mode` instead of the reading's.
  Meaning of(const PartitionSpec& written, size_t rank,
             std::optional<Mode> mode = {}) const;
  // Every label is a logical axis, whatever the mesh has.
  Meaning of_labels(const AxisLabels& labels) const;

 private:
  AxisNames semantic_axes(std::string_view name, Mode mode) const;
  void place_logical(const AxisLabels& labels, const std::vector<size_t>& dims,
                     const AxisNames& reserved, Meaning& meaning) const;

  const RuleSet& rules_;
  const Mesh& mesh_;
  NameReading reading_;
  PartitionAxis axis_;
  // There may be as many names as rules, and each is looked up for each rule.
  std::set<std::string_view> declared_;
  LogicalIndex logical_;
};

// The spec for the last dimensions of an array, as one for all of them; what is
// too long loses its first entries.
PartitionSpec aligned_to_last(const PartitionSpec& spec, size_t rank);

// `mesh:tp` is {"mesh", "tp"}; a name without a prefix has an empty one.
struct PrefixedName {
  std::string_view prefix;
  std::string_view name;
};
PrefixedName split_prefix(std::string_view name);

// A logical spec as a spec: labels become names, none becomes null.
PartitionSpec spec_of_labels(const AxisLabels& labels);

}  // namespace shardplan
