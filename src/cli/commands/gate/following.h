// SPDX-License-Identifier: Apache-2.0
// Targets of the base that the head has no more, has under another name, or
// asks something else: a change must not pass because what it breaks is no
// longer looked at.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands/gate/judging.h"
#include "cli/commands/gate/sides.h"
#include "cli/flags.h"
#include "cli/targets.h"

namespace shardplan::cli {

// Pairs targets that one side alone has by what they hold: the same parameters
// on the same mesh, in the same mode, with the same parts asked about. The
// first target of the head that holds it, those with the same rules first, is
// what became of a target; further ones are compared with it as well.
// `over` is of the command line.
void follow_targets(const GateSide& base, const GateSide& head,
                    const std::vector<Setting>& over, int jobs,
                    std::vector<GatedTarget>& targets);

// What a head that asks something else of a target would answer to what the
// base asked: on its mesh, in its mode, over its tokens. Empty where the head
// asks the same, where a saved plan has the answer, and where there is none.
std::optional<JudgedTarget> judge_as_before(const GateSide& base,
                                            const GateSide& head,
                                            const std::vector<Setting>& over,
                                            const GatedTarget& gated);
// Returns the changes that count though the head asks something else: memory,
// time and placements, and findings if the mesh is the same.
std::vector<GateChange> changes_as_before(const JudgedTarget& before,
                                          const JudgedTarget& after,
                                          const std::string& target);

// Why a judged target of the head is no longer what the base had; "" where it
// is: few of the base's parameters are there.
std::string no_longer_holds(const JudgedTarget& before,
                            const JudgedTarget& after);

}  // namespace shardplan::cli
