// SPDX-License-Identifier: Apache-2.0
// Axes that only the mesh or only the rules have: SP208 and SP209, which
// lint_mesh_axes (findings/lint.h) tells.
#pragma once

#include <string>
#include <vector>

#include "findings/lint.h"

namespace shardplan {

// "`tp`, `fsdp`, .."; the first five.
std::string quoted_list(const std::vector<std::string>& names);

// Axes of the mesh, of more than one device, that shard nothing and that
// neither the rules nor the options know. None where the rules shard nothing at
// all. An axis that the rules misspell is left out: that is SP201.
std::vector<Meeting::Unmentioned> unmentioned_axes(const LintInput& input);

}  // namespace shardplan
