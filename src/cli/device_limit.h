// SPDX-License-Identifier: Apache-2.0
// What a device may hold, from --memory, --hardware and --reserve.
#pragma once

#include <cstdint>
#include <optional>

#include "base/diagnostic.h"
#include "base/host.h"
#include "cli/options.h"
#include "memory/budget.h"

namespace shardplan::cli {

// Empty when neither --memory nor --hardware is given, which is no mistake, or
// when the profile cannot be read or states no memory: then
// diags.cannot_run(). --memory overrides the profile's size, but a profile
// that is named is read all the same.
std::optional<DeviceLimit> device_limit(const Options& options, Host& host,
                                        Diagnostics& diags);

// --reserve in bytes, rounded up: as given, or the fraction of what is usable.
// Empty, with the reason reported (SP010), for a fraction without a limit.
std::optional<int64_t> reserve_bytes(const Options& options,
                                     const std::optional<DeviceLimit>& limit,
                                     Diagnostics& diags);

}  // namespace shardplan::cli
