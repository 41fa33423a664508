// SPDX-License-Identifier: Apache-2.0
// Fit: whether what was asked for fits the memory of a device.
//
// What is needed is known as a range. It fits where the upper end does, does
// not fit where the lower end exceeds the memory, and may fit in between. Every
// command that answers the question asks fit_of() (evaluate/fit.h).
// Units: bytes of the fullest device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "memory/budget.h"

namespace shardplan {

struct Fit {
  int64_t needed = 0;               // the upper end
  std::optional<int64_t> usable;    // empty: no limit is known
  std::optional<bool> fits;         // empty: without a limit, or it may fit
  std::optional<int64_t> headroom;  // usable - needed; >= 0 where it fits

  // True where it fits, or where no limit is known.
  bool surely() const { return !usable || fits.value_or(false); }
  bool perhaps() const { return usable && !fits; }
};

// The same with a change, judged again.
struct TriedChange {
  std::string flags;  // "--zero 2"
  int64_t lower = 0;
  int64_t upper = 0;
  Fit fit = {};
};

Fit fit_between(const std::optional<DeviceLimit>& limit, int64_t lower,
                int64_t upper);

}  // namespace shardplan
