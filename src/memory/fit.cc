// SPDX-License-Identifier: Apache-2.0
#include "memory/fit.h"

namespace shardplan {

Fit fit_between(const std::optional<DeviceLimit>& limit, int64_t lower,
                int64_t upper) {
  Fit fit;
  fit.needed = upper;
  if (!limit) return fit;
  fit.usable = limit->usable;
  fit.headroom = limit->usable - upper;
  if (upper <= limit->usable) fit.fits = true;
  if (lower > limit->usable) fit.fits = false;
  return fit;
}

}  // namespace shardplan
