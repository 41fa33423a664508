// SPDX-License-Identifier: Apache-2.0
// Logical axes: dimensions labelled `embed` or `mlp`, and rules that map labels
// to mesh axes.
//
// Rules are taken in order, and the order is their priority: a rule gives its
// mesh axes to the first dimension of its name, unless that dimension has been
// given some already or one of the axes is in use. So a later rule of the same
// name is a fallback for where an earlier one was blocked, and a rule to None
// ends the search for its name. Source: flax.linen.spmd, whose behaviour of
// March 2024 differs in corners and is kept apart.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"
#include "core/manifest.h"
#include "core/mesh.h"
#include "core/partition_axis.h"
#include "core/plan.h"
#include "core/rules.h"
#include "core/spec.h"

namespace shardplan {

// What flax does with dimensions that no rule places.
enum class RulesFallback : uint8_t {
  AxisIsUnsharded,  // they are unsharded
  RaiseError,
  NoConstraint,  // the whole array stays as it is
};
std::string_view fallback_name(RulesFallback fallback);
std::optional<RulesFallback> find_fallback(std::string_view name);

// Where flax of March 2024 differs from today's: a rule for None takes the
// first unlabelled dimension, unlabelled dimensions count as not placed, and
// UNCONSTRAINED is a name and an axis like any other.
enum class FlaxVersion : uint8_t { Current, March2024 };

struct LogicalDim {
  // Placed, by a rule or by having no label; else no rule could.
  bool placed = false;
  AxisNames axes;  // empty: None
  int rule = 0;    // 1-based; 0 when no rule decided
  // Rules of its name that were found blocked, because an axis of theirs was in
  // use by then. Ascending.
  std::vector<int> blocked;
};

struct LogicalMapping {
  std::vector<LogicalDim> dims;  // one per label
  // Labels given to several dimensions, in order of first occurrence: flax
  // refuses these, and `dims` is empty then.
  std::vector<std::string> repeated;
  // The view whose axes the dimensions have; empty: of the mesh. No value where
  // they have none.
  std::optional<std::string> view = {};
};

// Which view the axes of each rule belong to. An array has axes of one view:
// those of the first rule that places one of its dimensions.
struct LogicalViews {
  // Per rule; no value where it names no axis.
  std::vector<std::optional<std::string>> of;
  // The view of the array, where that is known from the start.
  std::optional<std::string> taken = {};
};

// Which rules name a label: there may be as many rules as arrays.
class LogicalIndex {
 public:
  // The rules must outlive it.
  explicit LogicalIndex(std::span<const LogicalRule> rules);

  // 1-based, ascending.
  std::span<const int> of(std::string_view name) const;
  // Those of all labels, and those for None.
  std::set<int> of_any(const AxisLabels& labels) const;

 private:
  std::map<std::string_view, std::vector<int>> numbers_;
  std::vector<int> nameless_;
};

// `reserved` axes are in use from the start. LogicalReading::Mapping asks no
// axis to be free, and the last rule of a name counts. `index` is of the same
// rules; without it all of them are gone through. Without `views` there are
// none.
LogicalMapping map_logical_axes(
    const AxisLabels& labels, std::span<const LogicalRule> rules,
    FlaxVersion version = FlaxVersion::Current,
    LogicalReading reading = LogicalReading::Priority,
    const AxisNames& reserved = {}, const LogicalIndex* index = nullptr,
    const LogicalViews* views = nullptr);

// True when every dimension is placed.
bool is_placed(const LogicalMapping& mapping);
// One entry per dimension; those not placed are unsharded.
PartitionSpec spec_of(const LogicalMapping& mapping);

// Name resolution: from the names in a spec to mesh axes.
//
// A name that the mesh has, or that is declared, is that axis, whatever else it
// could mean. Else it is a semantic axis (`HEAD`, `__HEAD__`), which
// PartitionAxis and the mode turn into axes, or a logical axis (`embed`), which
// the logical rules place; `mesh:` and `logical:` in front decide. Any other
// name stays as it is, for correction to refuse (SP201).
//
// Literal and semantic axes are reserved first; the logical axes of all
// dimensions share what is left, by the order of their rules.

// How names are read.
struct NameReading {
  Mode mode = Mode::Train;
  RulesFallback fallback = RulesFallback::AxisIsUnsharded;
  FlaxVersion flax = FlaxVersion::Current;
};

enum class NameKind : uint8_t { Mesh, Semantic, Logical, Unknown };

struct ResolvedNames {
  // Mesh axes; entries beyond the rank keep the names as written.
  PartitionSpec spec;
  // Per dimension, the logical rule (1-based) that placed it, or 0.
  std::vector<int> logical_rules;
  // SP110 and SP111: logical axes that were not placed.
  std::vector<Correction> corrections;
  // The view that logical axes were placed over; empty: the mesh, or none.
  std::string view = {};
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

  // `mode` instead of the reading's. `view`: that of the rule.
  ResolvedNames of(const PartitionSpec& written, size_t rank,
                   std::optional<Mode> mode = {},
                   std::string_view view = {}) const;
  // Every label is a logical axis, whatever the mesh has. `dealt_by` deals the
  // array out, so that its dimensions have other axes of the same view.
  ResolvedNames of_labels(const AxisLabels& labels,
                          const LogicalRule* dealt_by = nullptr) const;
  // The logical rule that deals experts out; null: none does.
  const LogicalRule* dealer() const;

 private:
  AxisNames semantic_axes(std::string_view name, Mode mode) const;
  void place_logical(const AxisLabels& labels, const std::vector<size_t>& dims,
                     const AxisNames& reserved, std::string_view view,
                     ResolvedNames& names_meant) const;
  // The view of axes in a spec that says none; no value where no axis is known.
  std::optional<std::string> view_of(const AxisNames& axes) const;

  const RuleSet& rules_;
  const Mesh& mesh_;
  NameReading reading_;
  PartitionAxis axis_;
  // There may be as many names as rules, and each is looked up for each rule.
  std::set<std::string_view> declared_;
  LogicalIndex logical_;
  LogicalViews views_;  // of the logical rules, where the mesh has views
};

// The spec for the last dimensions of an array, as one for all of them; what is
// too long loses its first entries, unless the rule says otherwise.
PartitionSpec aligned_to_last(const Rule& rule, size_t rank);

// `mesh:tp` is {"mesh", "tp"}; a name without a prefix has an empty one.
struct PrefixedName {
  std::string_view prefix;
  std::string_view name;
};
PrefixedName split_prefix(std::string_view name);

// A logical spec as a spec: labels become names, none becomes null.
PartitionSpec spec_of_labels(const AxisLabels& labels);

}  // namespace shardplan
