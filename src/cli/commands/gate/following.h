// SPDX-License-Identifier: Apache-2.0
// Follows targets of the base that the head has dropped, renamed, or given
// other settings, so that a change cannot pass because the part that it breaks
// is no longer checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands/gate/judging.h"
#include "cli/commands/gate/sides.h"
#include "cli/flags.h"
#include "cli/targets.h"

namespace shardplan::cli {

// Pairs targets that only one side has if their contents agree: the same
// parameters on the same mesh, in the same mode, with the same estimates
// requested. The base target becomes the first matching target of the head,
// preferably one with the same rules; further matching targets are compared
// with it as well. `over` are settings of the command line.
void follow_targets(const GateSide& base, const GateSide& head,
                    const std::vector<Setting>& over, int jobs,
                    std::vector<GatedTarget>& targets);

// Checks the head's version of a target with the request that the base made: on
// the base's mesh, in its mode, over its tokens. Returns empty if both sides
// make the same request, if one uses a saved plan, or if the target cannot be
// checked that way.
std::optional<CheckedTarget> judge_as_before(const GateSide& base,
                                             const GateSide& head,
                                             const std::vector<Setting>& over,
                                             const GatedTarget& gated);
// Returns the changes that count although the head makes another request:
// memory, time and placements, and findings if the mesh is the same.
std::vector<GateChange> changes_as_before(const CheckedTarget& before,
                                          const CheckedTarget& after,
                                          const std::string& target);

// Returns why a target of the head is no longer the same as on the base side,
// which is when it has less than half of the base's parameters; "" if it is the
// same.
std::string why_dropped(const CheckedTarget& before,
                        const CheckedTarget& after);

}  // namespace shardplan::cli
