// SPDX-License-Identifier: Apache-2.0
// The limit of the program's own memory (--max-memory), and the error that
// reports that it was exceeded.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/diagnostic.h"
#include "base/host.h"

namespace shardplan::cli {

// Returns three quarters of the memory that this machine, or the control group
// of this process, offers. Returns empty if neither is known.
std::optional<int64_t> default_max_memory(Host& host);

// Reports SP017 about the last allocation that was refused (base/allocation.h)
// in a run of `command`.
void report_no_memory(std::string_view command, Diagnostics& diags);

}  // namespace shardplan::cli
