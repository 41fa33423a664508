// SPDX-License-Identifier: Apache-2.0
// What the program itself may allocate (--max-memory), and what is said where
// that is not enough.
#pragma once

#include <cstdint>
#include <optional>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/options.h"

namespace shardplan::cli {

// Three quarters of what this machine, or the control group that we are in,
// gives its programs. Empty where nothing says what that is.
std::optional<int64_t> default_max_memory(Host& host);

// SP017 about the last allocation that was refused (base/allocation.h).
void report_no_memory(const Options& options, Diagnostics& diags);

}  // namespace shardplan::cli
