// SPDX-License-Identifier: Apache-2.0
// Possible fixes: changes that may remove a finding, to be tried one by one.
//
// Each function examines only the placements of the finding's parameters and
// proposes a few changes; advise/what_if.h determines which of them help, and
// their cost. Texts are statements without the cost.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "advise/rule_edit.h"
#include "advise/what_if.h"
#include "base/checked.h"
#include "base/diagnostic.h"

namespace shardplan {

struct PossibleFix {
  Placing change;
  Fix fix;  // without the measured bytes and the edits
  // The preference before bytes are compared: 0 does what the rules seem to
  // mean, 1 needs another mesh or a declaration, 2 gives up what was requested.
  int tier = 0;
};
using PossibleFixes = std::vector<PossibleFix>;

// A finding and its parameters, by number.
struct Found {
  const Planned& planned;
  const Diagnostic& diagnostic;
  std::span<const uint32_t> parameters;
  int64_t& work;  // grows by the items visited to find candidates

  // Returns the placement of the first parameter. REQUIRES: there is one.
  const Placement& placement() const {
    return planned.plan.of(parameters.front());
  }
  const PlanRule& rule(int number) const {
    return nth(planned.plan.rules, number - 1);
  }
  bool is_editable(int number) const {
    return shardplan::is_editable(nth(planned.rules.rules, number - 1));
  }
};

// Returns the changes that the functions below propose for the finding's code.
PossibleFixes possible_fixes_for(const Found& found);

// SP203, SP206, SP303: sizes of axes, padding, other dimensions.
void add_size_fixes(const Found& found, PossibleFixes& all);
// SP304: changes for its largest losses.
void add_loss_fixes(const Found& found, PossibleFixes& all);
// SP104, SP201, SP202, SP204, SP208, SP302: entries of specs.
void add_spec_fixes(const Found& found, PossibleFixes& all);
// SP101, SP102, SP103, SP106, SP107: patterns and the order of rules.
void add_rule_fixes(const Found& found, PossibleFixes& all);

// Shared helpers.

// Adds `change` with its text.
void add_rule_change(const Found& found, RuleChange change, int tier,
                     PossibleFixes& all);
// Gives a rule another spec or pattern, if it is editable.
void add_spec_change(const Found& found, int rule, const PartitionSpec& spec,
                     int tier, PossibleFixes& all);
void add_pattern_change(const Found& found, int rule, std::string pattern,
                        PossibleFixes& all);
// Returns whether a rule decides the placement, with a spec of mesh axes, which
// fixes can edit. Semantic and logical axes are changed where they are defined.
bool asks_by_axes(const Placement& placement);
// Gives `parameters`, all decided by `rule`, another spec: by a new rule before
// `rule`, if that decides others as well or is not editable; and in `rule`
// itself, if it is editable, which then affects the others as well.
void add_respec(const Found& found, int rule,
                std::span<const uint32_t> parameters, const PartitionSpec& spec,
                int tier, PossibleFixes& all);
// Returns the folded names of parameters, with `*` for numbers, each once.
// Empty if the form of a rule at `place` does not need names.
std::vector<std::string> folded_names_of(const Found& found,
                                         std::span<const uint32_t> parameters,
                                         int place);
// Returns the classes of the parameters, each once.
std::vector<uint32_t> classes_of(const Found& found,
                                 std::span<const uint32_t> parameters);
// Returns a pattern that matches the parameters and no others, of those that
// `before`, a later rule or no rule decides.
std::optional<std::string> pattern_before(const Found& found,
                                          std::span<const uint32_t> parameters,
                                          int before);
// Returns specs that distribute the free axes over the dimensions of a
// placement. Each axis is on one dimension, after the axes that `base` has
// there, or on none. The specs need no correction and store less than `base`; a
// few with the fewest bytes, in ascending order.
std::vector<PartitionSpec> spread(const Planned& planned,
                                  const Placement& placement,
                                  const PartitionSpec& base,
                                  const AxisNames& free);
// Returns the axes, larger than 1, of the placement's view that neither the
// spec nor `dealt` uses.
AxisNames free_axes(const Plan& plan, const Placement& placement,
                    const PartitionSpec& spec);

}  // namespace shardplan
