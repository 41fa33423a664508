// SPDX-License-Identifier: Apache-2.0
// `diff --semantics A,B MODEL`: one model and its rules under two readings
// (resolve/framework_semantics.h), and the parameters that the two readings
// place differently.
#pragma once

#include "cli/commands.h"

namespace shardplan::cli {

// REQUIRES: the options name two readings.
Exit diff_semantics(Context& context);

}  // namespace shardplan::cli
