// SPDX-License-Identifier: Apache-2.0
// RuleSetChange: a difference between two rule sets, and what it means for each
// rule and label. It needs no model, so that a change of rules can be judged
// where only the rules are known.
//
// Rules are identified by their pattern, and rules with the same pattern by
// their order. The rule that decides a name is found for names of given models,
// of small models of known families, and for names made from the patterns. A
// name is a witness if different rules with different specs decide it on each
// side. The absence of a witness proves nothing about other names, and is
// reported so.
//
// Labels (logical axes) get the axes of their first rule, or of later rules if
// an earlier label already has one of these axes. Labels of one array compete.
// Labelled models, and specs that name several labels, show which labels share
// an array; any others might.
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
  Rule,    // for parameters, or for graph values
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
  Takeover,  // this rule decides `witness`; before, `by` did
  Moved,     // among other rules, without a witness
};
std::string_view how_name(ChangeHow how);  // "takeover"

// The mesh axes that a dimension of a spec lost and gained.
struct DimensionChange {
  int dim = 0;
  AxisNames lost;
  AxisNames gained;

  bool operator==(const DimensionChange&) const = default;
};

struct RuleSetChange {
  ChangeKind kind = ChangeKind::Rule;
  ChangeHow how = ChangeHow::Changed;
  // The pattern or label. Takeover: the pattern of the rule that decides now.
  std::string what;
  bool of_values = false;  // a rule for `activations`
  int occurrence = 0;      // index among rules of one pattern or label

  // The specs as written; a label has one dimension. Empty: absent on that
  // side. Takeover: the specs of both rules. Contest: the axes in an array with
  // both labels.
  std::optional<PartitionSpec> before;
  std::optional<PartitionSpec> after;
  // For kinds Axis and Reading.
  std::string text_before;
  std::string text_after;
  // The location of the pattern or label; empty if it is absent.
  Span before_where;
  Span after_where;

  // Mesh axes that only the old or only the new spec names. An axis that moved
  // to another dimension is only in `dims`.
  AxisNames lost;
  AxisNames gained;
  std::vector<DimensionChange> dims;
  // The change has an effect if one of these axes has more than one device or,
  // with `matters_together`, if at least two have (they only changed places).
  AxisNames matters;
  bool matters_together = false;

  // Contest: the label that has the axes now, or that had the gained ones.
  // Takeover: the pattern that decided before ("": no rule). Moved, and Added
  // before others: the first of `crossed` rules with other specs whose order
  // relative to this rule changed.
  std::string by;
  Span by_where;
  AxisNames contested;  // axes that both labels claim
  int64_t crossed = 0;
  bool precedes = false;  // Moved: this rule now precedes `by`
  // is_shadowed: some names match both patterns, but another rule decides them.
  // is_untried: not all pairs were tried.
  bool is_shadowed = false;
  bool is_untried = false;

  // A witness: a name, or the name of an array with both labels; "" if none was
  // found. Removed: a name that no rule decides now. `witness_of` is its
  // origin: a model's title, a family, or "" for names made from the patterns.
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
  // Models whose names and labels are known, in order of preference.
  std::span<const Manifest* const> models = {};
  int jobs = 1;
};

struct RuleSetChanges {
  // Labels first, then rules, rules for values, axes. Each is in the order of
  // the file after the change, with removed ones last. Empty: no relevant
  // change.
  std::vector<RuleSetChange> changes;
  std::vector<std::string> notes;  // what was not compared, and why
};

// Compares two rule sets. Empty if a pattern does not compile (SP105).
std::optional<RuleSetChanges> compare_rules(const RuleComparison& comparison,
                                            Diagnostics& diags);

// Returns whether both were read from the same text.
bool is_same_text(const RuleSet& a, const RuleSet& b);

}  // namespace shardplan
