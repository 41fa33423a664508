// SPDX-License-Identifier: Apache-2.0
// PossibleFixes: changes that may remove a finding, to be tried in turn.
//
// Each function looks at the placements of the finding's parameters only, and
// proposes a handful; advise/what_if.h says which of them help, and what they
// cost. Texts are statements without the cost.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "advise/rule_edit.h"
#include "advise/what_if.h"
#include "base/diagnostic.h"

namespace shardplan {

struct PossibleFix {
  Placing change;
  Fix fix;  // without effect and edits
  // Which to prefer before bytes are compared: 0 does what the rules seem to
  // mean, 1 needs another mesh, 2 gives up what was asked for.
  int tier = 0;
};
using PossibleFixes = std::vector<PossibleFix>;

// The finding and its parameters, by number.
struct Found {
  const Planned& planned;
  const Diagnostic& diagnostic;
  std::span<const uint32_t> parameters;
  int64_t& work;  // grows by what is visited to find candidates

  // Of the first parameter. REQUIRES: there is one.
  const Placement& placement() const {
    return planned.plan.of(parameters.front());
  }
};

// Everything below, by the finding's code.
PossibleFixes possible_fixes_for(const Found& found);

// SP203, SP206, SP303: sizes of axes, padding, other dimensions.
void add_size_fixes(const Found& found, PossibleFixes& all);
// SP304: what its largest losses need.
void add_loss_fixes(const Found& found, PossibleFixes& all);
// SP104, SP201, SP202, SP204, SP302: entries of specs.
void add_spec_fixes(const Found& found, PossibleFixes& all);
// SP101, SP102, SP103, SP106, SP107: patterns and the order of rules.
void add_rule_fixes(const Found& found, PossibleFixes& all);

// What they share.

// `change` with words for it.
void add_rule_change(const Found& found, RuleChange change, int tier,
                     PossibleFixes& all);
// A rule decides it, with a spec of mesh axes: what fixes can edit. Specs of
// semantic or logical axes are changed where those are defined.
bool asks_by_axes(const Placement& placement);
// Gives `parameters`, all decided by `rule`, another spec: where the rule has
// others, by a rule of their own in front of it; and in the rule itself, which
// the others then have too.
void add_respec(const Found& found, int rule,
                std::span<const uint32_t> parameters, const PartitionSpec& spec,
                int tier, PossibleFixes& all);
// The names of parameters, with `*` for numbers, each once. Empty where a rule
// that is to stand before `place` is not written by them.
std::vector<std::string> folded_names_of(const Found& found,
                                         std::span<const uint32_t> parameters,
                                         int place);
// The classes of the parameters, each once.
std::vector<uint32_t> classes_of(const Found& found,
                                 std::span<const uint32_t> parameters);
// A pattern for the parameters and no others that `before` or a later rule
// decides, or none does.
std::optional<std::string> pattern_before(const Found& found,
                                          std::span<const uint32_t> parameters,
                                          int before);
// The free axes over the dimensions of a placement, each on one of them behind
// the axes that `base` has there, or on none: every way that needs no
// correction and holds less than `base` does; least bytes first, a few.
std::vector<PartitionSpec> spread(const Planned& planned,
                                  const Placement& placement,
                                  const PartitionSpec& base,
                                  const AxisNames& free);
// The axes of the mesh, larger than 1, that a spec does not name.
AxisNames free_axes(const Plan& plan, const Placement& placement,
                    const PartitionSpec& spec);

}  // namespace shardplan
