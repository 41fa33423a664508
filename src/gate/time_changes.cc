// SPDX-License-Identifier: Apache-2.0
// Compares the times of the two sides of a target, in total and by part.
#include "gate/time_changes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace shardplan {
namespace {

constexpr std::string_view kTimeOf = " time";

std::string time_of(const TargetSide& side) {
  return std::string(side.timed) + std::string(kTimeOf);
}

// Returns "all-reduce over tp +300 ms, products -20.0 ms", from exposed times.
std::string slowed_text(const std::vector<TimeChange>& parts) {
  std::vector<std::pair<double, std::string_view>> slowed;
  for (const TimeChange& each : parts) {
    if (&each == &parts.back()) continue;  // the total
    const double by = (each.after ? each.after->exposed : 0) -
                      (each.before ? each.before->exposed : 0);
    if (by != 0) slowed.emplace_back(by, each.part);
  }
  return largest_text(std::move(slowed),
                      [](double seconds) { return seconds_text(seconds); });
}

// Sums in another order differ in their last digits.
bool is_near(double a, double b) {
  constexpr double kRounding = 1e-9;
  return std::abs(a - b) <= kRounding * std::max(a, b);
}
bool is_alike(const TimeChange::Side& a, const TimeChange::Side& b) {
  return is_near(a.seconds.lower, b.seconds.lower) &&
         is_near(a.seconds.estimate, b.seconds.estimate) &&
         is_near(a.seconds.upper, b.seconds.upper) &&
         is_near(a.exposed, b.exposed);
}

std::string untimed_text(const TargetSide& side) {
  const std::string timed(side.timed);
  return side.untimed.empty()
             ? "no " + timed + " time on hardware was requested"
             : "there is no " + timed + " time: " + std::string(side.untimed);
}

}  // namespace

std::vector<TimeChange> time_part_changes(const TargetSide& was,
                                          const TargetSide& is) {
  const StepTime* const before = was.time;
  const StepTime* const after = is.time;
  // A prompt's time is not comparable with a token's.
  if (before == nullptr || after == nullptr || was.timed != is.timed) return {};
  std::vector<TimeChange> all;
  const auto of = [&](const std::string& part) -> TimeChange& {
    const auto found = std::ranges::find(all, part, &TimeChange::part);
    if (found != all.end()) return *found;
    return all.emplace_back(TimeChange{part, {}, {}});
  };
  const auto add = [&](const StepTime& time,
                       std::optional<TimeChange::Side> TimeChange::*side) {
    for (const StepTimePart& row : time.parts) {
      of(row.part).*side = TimeChange::Side{row.seconds, row.exposed};
    }
  };
  add(*after, &TimeChange::after);
  add(*before, &TimeChange::before);
  const auto total = [](const StepTime& time) {
    return TimeChange::Side{time.total, time.total.estimate};
  };
  const std::string timed(is.timed);
  all.push_back({timed, total(*before), total(*after)});
  std::erase_if(all, [](const TimeChange& change) {
    return change.before && change.after &&
           is_alike(*change.before, *change.after);
  });
  if (!all.empty() && all.back().part != timed) {
    all.push_back({timed, total(*before), total(*after)});
  }
  return all;
}

void add_time_changes(const TargetSide& before, const TargetSide& after,
                      std::vector<GateChange>& changes) {
  if (before.time == nullptr && after.time == nullptr) return;
  if (before.timed != after.timed && before.time != nullptr &&
      after.time != nullptr) {
    TargetSide other = after;
    other.time = nullptr;
    other.timed = before.timed;
    add_time_changes(before, other, changes);
    other.timed = after.timed;
    add_time_changes(other, after, changes);
    return;
  }
  if (before.time == nullptr || after.time == nullptr) {
    const TargetSide& without = before.time == nullptr ? before : after;
    const TargetSide& with = before.time == nullptr ? after : before;
    GateChange& change = changes.emplace_back();
    change.kind = GateKind::Time;
    change.what = time_of(with);
    if (before.time != nullptr) {
      change.before = ChangeSeconds{before.time->total.estimate};
    }
    if (after.time != nullptr) {
      change.after = ChangeSeconds{after.time->total.estimate};
    }
    change.text = std::string(&without == &before ? "before" : "after") +
                  " the change " + untimed_text(without);
    return;
  }
  const Seconds& was = before.time->total;
  const Seconds& is = after.time->total;
  const auto add = [&](const char* end, double from, double to,
                       std::string text = "") {
    if (is_near(from, to)) return;
    changes.push_back({.kind = GateKind::Time,
                       .what = time_of(after) + end,
                       .before = ChangeSeconds{from},
                       .after = ChangeSeconds{to},
                       .text = std::move(text),
                       .time_growth = from > 0 ? to / from - 1 : 0});
  };
  const std::string slowed = slowed_text(time_part_changes(before, after));
  add("", was.estimate, is.estimate,
      slowed.empty() ? "" : "estimated, exposed: " + slowed);
  add(", at least", was.lower, is.lower);
  add(", at most", was.upper, is.upper);
}

bool takes_too_long(const FailOn& fail_on, const GateChange& change) {
  if (!fail_on.time || !change.what.ends_with(kTimeOf)) return false;
  const ChangeValue untimed;
  return change.before != untimed &&
         (change.after == untimed || change.time_growth > *fail_on.time);
}

std::string unjudged_time(const FailOn& fail_on, const TargetSide& before,
                          const TargetSide& after) {
  if (!fail_on.time || before.time != nullptr) return "";
  if (after.time != nullptr) return "before the change " + untimed_text(before);
  return untimed_text(after.untimed.empty() ? before : after);
}

}  // namespace shardplan
