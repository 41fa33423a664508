// SPDX-License-Identifier: Apache-2.0
#include "cost/residual.h"

#include <algorithm>
#include <cmath>

namespace shardplan {
namespace {

// Returns how far a part may be from what it counts for, in the direction of
// the difference: upwards as if nothing of it were hidden, downwards as if all
// were hidden that may be.
double slack_of(const ResidualPart& part, bool is_slower) {
  if (is_slower) return std::max(0.0, part.upper - part.counted);
  const bool may_hide = part.counted < part.estimate;
  return std::max(0.0, part.counted - (may_hide ? 0 : part.lower));
}

// Divides the difference among parts in proportion to the squares of their
// slack. What would exceed a part's own range is left to the others, and what
// exceeds all of theirs to none.
void share_out(Residual& residual) {
  const double difference = residual.difference();
  const bool is_slower = difference > 0;
  double rest = std::abs(difference);
  std::vector<ResidualPart*> open;
  for (ResidualPart& part : residual.parts) {
    if (slack_of(part, is_slower) > 0) open.push_back(&part);
  }
  while (!open.empty()) {
    double squares = 0;
    for (const ResidualPart* part : open) {
      squares += std::pow(slack_of(*part, is_slower), 2);
    }
    const double scale = rest / squares;
    const auto is_full = [&](const ResidualPart* part) {
      return scale * slack_of(*part, is_slower) > 1;
    };
    const bool none_is_full = std::ranges::none_of(open, is_full);
    for (ResidualPart* part : open) {
      const double slack = slack_of(*part, is_slower);
      if (!none_is_full && !is_full(part)) continue;
      const double share = none_is_full ? scale * slack * slack : slack;
      part->share = is_slower ? share : -share;
      if (!none_is_full) rest -= slack;
    }
    if (none_is_full) return;
    std::erase_if(open, is_full);
  }
}

void explain(Residual& residual) {
  const double difference = residual.difference();
  share_out(residual);
  for (ResidualPart& part : residual.parts) {
    const double needed = part.estimate + difference;
    if (part.estimate <= 0 || needed < 0) continue;
    part.alone = needed / part.estimate;
    part.alone_is_in_range =
        std::abs(difference) <= slack_of(part, difference > 0);
  }
}

}  // namespace

Residual time_residual(const StepTime& time, double measured) {
  Residual residual = {
      measured, time.total.lower, time.total.estimate, time.total.upper, {}};
  for (const StepTimePart& part : time.parts) {
    residual.parts.push_back({part.part, part.part, part.seconds.lower,
                              part.seconds.estimate, part.seconds.upper,
                              part.exposed});
  }
  explain(residual);
  return residual;
}

Residual memory_residual(const MemoryBracket& bracket, int64_t measured) {
  const auto real = [](int64_t bytes) { return static_cast<double>(bytes); };
  Residual residual = {real(measured),
                       real(bracket.lower()),
                       real(bracket.estimate()),
                       real(bracket.upper()),
                       {}};
  for (const BracketRow& row : bracket.rows) {
    const double estimate = real(row.bytes[1]);
    // Each column is of its own peak, at which a part may be smaller.
    residual.parts.push_back(
        {row.category, row.title, std::min(real(row.bytes[0]), estimate),
         estimate, std::max(real(row.bytes[2]), estimate), estimate});
  }
  explain(residual);
  return residual;
}

}  // namespace shardplan
