// SPDX-License-Identifier: Apache-2.0
// The flags of `simulate`. Rows of the one table of flags (cli/flags.h), kept
// apart because they are many.
#pragma once

#include <vector>

#include "cli/flags.h"

namespace shardplan::cli {

const std::vector<Flag>& simulate_flags();

}  // namespace shardplan::cli
