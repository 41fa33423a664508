// SPDX-License-Identifier: Apache-2.0
#include "cli/device_limit.h"

#include <cmath>

#include "base/text.h"
#include "io/hardware.h"

namespace shardplan::cli {

std::optional<DeviceLimit> device_limit(const Options& options, Host& host,
                                        Diagnostics& diags) {
  const MemoryOptions& memory = options.memory;
  std::optional<HardwareProfile> profile;
  if (memory.hardware) {
    profile = load_hardware(*memory.hardware, host, diags);
    if (!profile) return std::nullopt;
  }
  if (memory.limit) {
    return DeviceLimit{"--memory", *memory.limit, *memory.limit, false};
  }
  if (!profile) return std::nullopt;
  if (!profile->hbm_bytes) {
    return diags
        .error(Code::Usage, {},
               "hardware profile `" + profile->name +
                   "` does not say how much memory a device has")
        .help("`--memory SIZE` says it");
  }
  const int64_t nominal = profile->hbm_bytes->value;
  const auto& usable = profile->hbm_usable_bytes;
  return DeviceLimit{profile->name, nominal, usable ? usable->value : nominal,
                     !usable || usable->estimated};
}

std::optional<int64_t> reserve_bytes(const Options& options,
                                     const std::optional<DeviceLimit>& limit,
                                     Diagnostics& diags) {
  const double fraction = options.memory.reserve_fraction;
  if (fraction == 0) return options.memory.reserve;
  if (!limit) {
    return diags
        .error(Code::Usage, {},
               "`--reserve` is a fraction of a memory that nothing states")
        .help("`--hardware` or `--memory` says what a device has");
  }
  return static_cast<int64_t>(
      std::ceil(fraction * static_cast<double>(limit->usable)));
}

}  // namespace shardplan::cli
