// SPDX-License-Identifier: Apache-2.0
// What the program itself may allocate (--max-memory), and what is said where
// that is not enough.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/diagnostic.h"
#include "base/host.h"

namespace shardplan::cli {

// Three quarters of what this machine, or the control group that we are in,
// gives its programs. Empty where nothing says what that is.
std::optional<int64_t> default_max_memory(Host& host);

// SP017 about the last allocation that was refused (base/allocation.h), in a
// run of that command.
void report_no_memory(std::string_view command, Diagnostics& diags);

}  // namespace shardplan::cli
