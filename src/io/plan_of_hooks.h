// SPDX-License-Identifier: Apache-2.0
// Tensor-parallel plans that module hooks run: transformers' `tp_plan` and
// PyTorch's parallelize_module. Hooks run exactly the collectives that the
// plan's styles name.
#pragma once

#include <string_view>

#include "base/source.h"
#include "core/rules.h"

namespace shardplan {

// Completes a plan over one axis: declares the axis and appends a rule that
// replicates every parameter that no entry of the plan names.
void end_plan_of_hooks(std::string_view axis, Span where, RuleSet& rules);

}  // namespace shardplan
