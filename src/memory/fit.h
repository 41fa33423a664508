// SPDX-License-Identifier: Apache-2.0
// Fit: whether a configuration fits the memory of a device.
//
// The needed memory is a range. The configuration fits if the upper end fits,
// does not fit if the lower end exceeds the memory, and may fit in between.
// Every command that answers this question calls fit_of() (evaluate/fit.h).
// Units: bytes of the fullest device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "memory/budget.h"

namespace shardplan {

struct Fit {
  int64_t needed = 0;               // the upper end
  std::optional<int64_t> usable;    // no value: no limit is known
  std::optional<bool> fits;         // no value: no limit, or it may fit
  std::optional<int64_t> headroom;  // usable - needed; >= 0 if it fits

  // Returns true if it fits, or if no limit is known.
  bool will_fit() const { return !usable || fits.value_or(false); }
  bool may_fit() const { return usable && !fits; }
};

// The fit after a change to the configuration.
struct TriedChange {
  std::string flags;  // "--zero 2"
  int64_t lower = 0;
  int64_t upper = 0;
  Fit fit = {};
};

inline Fit fit_between(const std::optional<DeviceLimit>& limit, int64_t lower,
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
