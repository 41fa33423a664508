// SPDX-License-Identifier: Apache-2.0
// Two sets of rules, and what became of each rule and label: without a model,
// so that a change of rules can be judged where only they are known.
//
// Rules are told apart by their pattern, several of one pattern by their order.
// What a rule decides is asked of names: of models that are given, of small
// models of the families that we know, and of names made from the patterns. A
// name whose rule is another one on each side, with another spec, is a witness.
// That there is no witness says nothing of other names, and is put so.
//
// Labels (logical axes) have the axes of their first rule, and later rules for
// where an earlier label has one of these. Labels of one array compete; which
// ones share an array is known from labelled models and from specs of rules
// that name several, and any others might.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "base/source.h"
#include "core/manifest.h"
#include "core/rules.h"
#include "core/spec.h"

namespace shardplan {

enum class ChangeKind : uint8_t {
  Label,   // a logical or semantic axis
  Rule,    // of parameters, or of graph values
  Axis,    // declared, or of the rules' own mesh
  Reading  // how logical rules are read
};
std::string_view kind_name(ChangeKind kind);  // "label"

enum class ChangeHow : uint8_t {
  Added,
  Removed,
  Changed,   // another spec
  Fallback,  // a later rule of a label
  Contest,   // other axes in arrays that have both this label and `by`
  Takeover,  // `witness` has another rule: this one, and `by` before
  Moved,     // among other rules, and no witness was found
};
std::string_view how_name(ChangeHow how);  // "takeover"

// What a dimension of a spec lost and gained, in mesh axes.
struct DimensionChange {
  int dim = 0;
  AxisNames lost;
  AxisNames gained;

  bool operator==(const DimensionChange&) const = default;
};

struct RuleSetChange {
  ChangeKind kind = ChangeKind::Rule;
  ChangeHow how = ChangeHow::Changed;
  // The pattern or label; of a takeover that of the rule that decides now.
  std::string what;
  bool of_values = false;  // a rule of `activations`
  int occurrence = 0;      // of several rules of one pattern or label, from 0

  // As written; of a label one dimension. Absent: not there. Of a takeover the
  // specs of both rules, of a contest the axes in an array with both labels.
  std::optional<PartitionSpec> before;
  std::optional<PartitionSpec> after;
  // Of kinds Axis and Reading.
  std::string text_before;
  std::string text_after;
  // The pattern or label; none where it is not there.
  Span before_where;
  Span after_where;

  // Mesh axes that the whole spec no longer names, or names now; an axis that
  // went to another dimension is only in `dims`.
  AxisNames lost;
  AxisNames gained;
  std::vector<DimensionChange> dims;
  // It matters where one of these has more than one device; with
  // `matters_together`, where at least two have (they only changed places).
  AxisNames matters;
  bool matters_together = false;

  // Contest: who has the axes now, or had those that were gained. Takeover: who
  // decided before ("": no rule). Moved, and Added before others: the first of
  // `crossed` rules of other specs that now stand on the other side of it.
  std::string by;
  Span by_where;
  AxisNames contested;  // axes that both labels claim
  int64_t crossed = 0;
  bool stands_before = false;  // Moved: `by` stands behind it now
  // Names were found in which both patterns are, though another rule decides
  // them; not all pairs were tried.
  bool is_shadowed = false;
  bool is_untried = false;

  // A name, or that of an array with both labels; "" where none was found. Of a
  // removed rule a name that no rule decides now. And whose it is: a model's
  // title, a family, "" of names made from the patterns.
  std::string witness;
  std::string witness_of;
  enum class From : uint8_t {
    Nowhere,
    Model,
    Family,
    Patterns
  } from = From::Nowhere;
};

struct RuleComparison {
  const RuleSet& before;
  const RuleSet& after;
  // Models whose names and labels are known, in the order of preference.
  std::span<const Manifest* const> models = {};
  int jobs = 1;
};

struct RuleSetChanges {
  // Labels first, then rules, rules of values, axes; each in the order of the
  // file after, what was removed behind. Empty: nothing changed that could
  // matter.
  std::vector<RuleSetChange> changes;
  std::vector<std::string> notes;  // what was not looked at, and why
};

// No value where a pattern cannot be compiled (SP105).
std::optional<RuleSetChanges> compare_rules(const RuleComparison& comparison,
                                            Diagnostics& diags);

// Whether both were read from the same text.
bool is_same_text(const RuleSet& a, const RuleSet& b);

}  // namespace shardplan
