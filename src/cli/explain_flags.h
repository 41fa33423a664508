// SPDX-License-Identifier: Apache-2.0
// The flags that say what `explain` explains. Rows of the one table of flags
// (cli/flags.h), kept apart because they are many.
#pragma once

#include <vector>

#include "cli/flags.h"

namespace shardplan::cli {

const std::vector<Flag>& explain_flags();

}  // namespace shardplan::cli
