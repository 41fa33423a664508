// SPDX-License-Identifier: Apache-2.0
// Name resolution: turns the names in a spec into mesh axes.
//
// A name that the mesh has, or that is declared, is that axis, whatever else it
// could mean. Otherwise it is a semantic axis (`HEAD`, `__HEAD__`), which
// PartitionAxis and the mode turn into axes, or a logical axis (`embed`), which
// the logical rules place. A prefix `mesh:` or `logical:` decides between them.
// Any other name stays as it is, for correction to refuse (SP201).
//
// Logical axes are labels of dimensions, such as `embed` or `mlp`, and rules
// map them to mesh axes. The order of the rules is their priority: a rule gives
// its mesh axes to the first dimension with its name, unless that dimension
// already has some or one of the axes is in use. So a later rule of the same
// name is a fallback for a blocked one, and a rule that maps a name to None
// ends the search for that name. Source: flax.linen.spmd; its behaviour of
// March 2024 differs in some cases and is implemented as well (FlaxVersion).
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

// The treatment of dimensions that no rule places, as in flax.
enum class RulesFallback : uint8_t {
  AxisIsUnsharded,  // they are unsharded
  RaiseError,
  NoConstraint,  // the whole array stays unconstrained
};
std::string_view fallback_name(RulesFallback fallback);
std::optional<RulesFallback> find_fallback(std::string_view name);

// The version of flax to follow. Unlike today's, flax of March 2024 lets a rule
// for None place the first unlabelled dimension, counts unlabelled dimensions
// as not placed, and treats UNCONSTRAINED as an ordinary name and axis.
enum class FlaxVersion : uint8_t { Current, March2024 };

struct LogicalDim {
  // Whether a rule placed the dimension, or it has no label and needs no rule.
  bool placed = false;
  AxisNames axes;  // empty: None
  int rule = 0;    // 1-based; 0 when no rule decided
  // Rules of its name that were blocked because one of their axes was already
  // in use. Ascending.
  std::vector<int> blocked;
};

struct LogicalMapping {
  std::vector<LogicalDim> dims;  // one per label
  // Labels of several dimensions, in order of first occurrence. flax refuses
  // these, and `dims` is then empty.
  std::vector<std::string> repeated;
  // The view whose axes the dimensions have; empty: the mesh itself. No value
  // if they have none.
  std::optional<std::string> view = {};
};

// The view that the axes of each rule belong to. An array has axes of one view:
// that of the first rule that places one of its dimensions.
struct LogicalViews {
  // Per rule; no value if it names no axis.
  std::vector<std::optional<std::string>> of;
  // The view of the array, if it is known from the start.
  std::optional<std::string> taken = {};
};

// An index of the rules by label, since there may be as many rules as arrays.
class LogicalIndex {
 public:
  // The rules must outlive it.
  explicit LogicalIndex(std::span<const LogicalRule> rules);

  // Returns the rules for a label: 1-based, ascending.
  std::span<const int> of(std::string_view name) const;
  // Returns the rules for any of the labels, and those for None.
  std::set<int> of_any(const AxisLabels& labels) const;

 private:
  std::map<std::string_view, std::vector<int>> numbers_;
  std::vector<int> nameless_;
};

// Maps the labels of one array to mesh axes. `reserved` axes are in use from
// the start. Under LogicalReading::Mapping an axis need not be free, and the
// last rule of a name wins. `index` indexes the same rules; without it, all
// rules are tried. Without `views`, the mesh has none.
LogicalMapping map_logical_axes(
    const AxisLabels& labels, std::span<const LogicalRule> rules,
    FlaxVersion version = FlaxVersion::Current,
    LogicalReading reading = LogicalReading::Priority,
    const AxisNames& reserved = {}, const LogicalIndex* index = nullptr,
    const LogicalViews* views = nullptr);

// Returns whether every dimension is placed.
bool is_placed(const LogicalMapping& mapping);
// Returns one entry per dimension; those not placed are unsharded.
PartitionSpec spec_of(const LogicalMapping& mapping);

// The vocabulary of a set of rules on a mesh. Literal and semantic axes of a
// spec are reserved first; the logical axes of all its dimensions then share
// the remaining axes, in the order of their rules.

// The options that determine how names are read.
struct NameReading {
  Mode mode = Mode::Train;
  RulesFallback fallback = RulesFallback::AxisIsUnsharded;
  FlaxVersion flax = FlaxVersion::Current;
};

enum class NameKind : uint8_t { Mesh, Semantic, Logical, Unknown };

struct ResolvedNames {
  // The mesh axes; entries beyond the rank contain the names as written.
  PartitionSpec spec;
  // Per dimension, the logical rule (1-based) that placed it, or 0.
  std::vector<int> logical_rules;
  // SP110 and SP111: the logical axes that were not placed.
  std::vector<Correction> corrections;
  // The view that logical axes were placed over; empty: the mesh, or none was
  // placed.
  std::string view = {};
};

// Returns whether a correction is one of these.
inline bool is_unplaced_label(const Correction& correction) {
  return correction.code == Code::UnplacedLogicalAxis ||
         correction.code == Code::RepeatedLogicalAxis;
}

class Vocabulary {
 public:
  // REQUIRES: `rules` and `mesh` outlive this object.
  Vocabulary(const RuleSet& rules, const Mesh& mesh,
             const NameReading& reading);

  NameKind kind_of(std::string_view name) const;
  // Returns whether a name without a prefix is a mesh axis and also a logical
  // axis whose rules would give it other axes (SP112).
  bool is_ambiguous(std::string_view name) const;
  // Returns the names in the rules' specs that are semantic or logical axes, or
  // have a prefix; sorted.
  AxisNames others() const;
  // Returns the mesh axes that the rules mention: in specs of parameters and
  // values, in logical rules, in a mesh of their own, and in PartitionAxis if
  // it is given or used; sorted.
  AxisNames mentioned() const;
  // Returns whether every name is a mesh axis or unknown, without a prefix.
  bool is_literal(const PartitionSpec& spec) const;

  // Resolves the names of a spec. `mode` overrides that of the reading; `view`
  // is that of the rule.
  ResolvedNames of(const PartitionSpec& written, size_t rank,
                   std::optional<Mode> mode = {},
                   std::string_view view = {}) const;
  // Resolves labels, each of which is a logical axis even if the mesh has an
  // axis of that name. If `dealt_by` places the array whole, its dimensions get
  // other axes of the same view.
  ResolvedNames of_labels(const AxisLabels& labels,
                          const LogicalRule* dealt_by = nullptr) const;
  // Returns the logical rule that places whole experts; null: there is none.
  const LogicalRule* dealer() const;

 private:
  bool is_literal(const AxisName& name) const;
  AxisNames semantic_axes(std::string_view name, Mode mode) const;
  void place_logical(const AxisLabels& labels, const std::vector<size_t>& dims,
                     const AxisNames& reserved, std::string_view view,
                     ResolvedNames& names_meant) const;
  // Returns the view of the axes of a spec that names no view; no value if no
  // axis is known.
  std::optional<std::string> view_of(const AxisNames& axes) const;

  const RuleSet& rules_;
  const Mesh& mesh_;
  NameReading reading_;
  PartitionAxis axis_;
  // A set, since there may be as many names as rules, and each rule looks names
  // up.
  std::set<std::string_view> declared_;
  LogicalIndex logical_;
  LogicalViews views_;  // of the logical rules, if the mesh has views
};

// Returns a spec for the last dimensions as a spec for all dimensions of an
// array. One that is too long loses its first entries, unless the rule says
// otherwise.
PartitionSpec aligned_to_last(const Rule& rule, size_t rank);

// `mesh:tp` is {"mesh", "tp"}; a name without a prefix has an empty prefix.
struct PrefixedName {
  std::string_view prefix;
  std::string_view name;
};
PrefixedName split_prefix(std::string_view name);

// Returns labels as a spec: a label becomes a name, and no label becomes null.
PartitionSpec spec_of_labels(const AxisLabels& labels);

}  // namespace shardplan
