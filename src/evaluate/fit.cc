// SPDX-License-Identifier: Apache-2.0
#include "evaluate/fit.h"

#include <algorithm>

namespace shardplan {

Fit fit_of(const Budget& budget, const MemoryBracket* step) {
  const int64_t state = budget.classes.front().total;
  if (step == nullptr) return fit_between(budget.limit, state, state);
  if (budget.fits()) {
    return fit_between(budget.limit, step->lower(), step->upper());
  }
  const int64_t upper = std::max(state, step->upper());
  return fit_between(budget.limit, upper, upper);
}

Fit fit_of(const Serving& serving) {
  const int64_t usable = serving.device.usable;
  Fit fit;
  fit.usable = usable;
  if (!serving.problems.empty()) {
    fit.needed = serving.stage().weights.total;
    fit.fits = false;
    return fit;
  }
  if (!serving.uncounted.empty()) {
    // Only the weights are certain: they may not fit, but whether the cache
    // fits is unknown.
    fit.needed = usable - std::max<int64_t>(serving.headroom(0), 0);
    if (serving.missing_at_start > 0 || serving.missing_for_steps > 0 ||
        !serving.holds(2)) {
      fit.fits = false;
    }
    return fit;
  }
  const int64_t missing =
      std::max(serving.missing_at_start, serving.missing_for_steps);
  const bool holds = missing == 0 && serving.holds(0);
  int64_t headroom = serving.headroom(0);
  if (missing > 0) headroom = std::min(headroom, -missing);
  // Pools consist of whole pages and states, so bytes alone may not decide.
  headroom =
      holds ? std::max<int64_t>(headroom, 0) : std::min<int64_t>(headroom, -1);
  fit.headroom = headroom;
  fit.needed = usable - headroom;
  if (holds) fit.fits = true;
  if (missing > 0 || !serving.holds(2)) fit.fits = false;
  return fit;
}

}  // namespace shardplan
