// SPDX-License-Identifier: Apache-2.0
// Plans of styles, whose hooks run exactly the collectives that they name:
// transformers' `tp_plan` and PyTorch's parallelize_module.
#pragma once

#include <string_view>

#include "base/source.h"
#include "core/rules.h"

namespace shardplan {

// Ends a plan over one axis, which it declares: by a last rule whatever no
// entry of the plan names is whole on every device.
void end_plan_of_hooks(std::string_view axis, Span where, RuleSet& rules);

}  // namespace shardplan
