// SPDX-License-Identifier: Apache-2.0
// Shows the status line, but only if a run takes long and not too often.
#include "cli/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/allocation.h"
#include "base/text.h"

namespace shardplan::cli {
namespace {

constexpr double kPatience = 0.5;  // seconds before anything is shown
constexpr std::string_view kEraseLine = "\r\x1b[K";
// Seconds between two displayed steps of the same work.
constexpr double kBetweenSteps = 0.1;
// The time left is shown only once this many seconds have passed and this
// fraction of the work is done.
constexpr double kLeastElapsed = 1;
constexpr double kLeastDone = 0.02;

// "12 s", "3 min 20 s", "2 h 5 min"
std::string seconds_text(double seconds) {
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) {
    return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) +
           " s";
  }
  return std::to_string(whole / 3600) + " h " +
         std::to_string(whole % 3600 / 60) + " min";
}

// Rounds up to a coarser unit the longer the time is: readers trust every digit
// of an estimate.
double rounded_left(double seconds) {
  const double unit = seconds < 20 ? 1 : seconds < 120 ? 5 : 60;
  return std::ceil(seconds / unit) * unit;
}

}  // namespace

Progress::Progress(Host& host, bool enabled)
    : host_(host), enabled_(enabled && host.is_terminal(Stream::Err)) {
  if (enabled_) start_ = host.now();
}

void Progress::stage(std::string_view text) {
  set_current_work(text);
  if (!enabled_) return;
  const double elapsed = host_.now() - start_;
  work_.clear();
  if (elapsed < kPatience) return;
  show(text, elapsed < kLeastElapsed ? "" : " " + seconds_text(elapsed));
}

void Progress::step(std::string_view work, std::string_view text, double done) {
  set_current_work(text);
  if (!enabled_) return;
  const double now = host_.now();
  const bool begins = work_ != work;
  if (begins) {
    work_ = work;
    work_start_ = now;
  }
  if (now - start_ < kPatience || (!begins && now - last_ < kBetweenSteps)) {
    return;
  }
  last_ = now;
  std::string times;
  if (now - start_ >= kLeastElapsed) times = " " + seconds_text(now - start_);
  const double spent = now - work_start_;
  if (spent >= kLeastElapsed && done >= kLeastDone && done < 1) {
    times += ", about " +
             seconds_text(rounded_left(spent * (1 - done) / done)) + " left";
  }
  show(text, times);
}

void Progress::show(std::string_view text, std::string_view times) {
  // The last column stays free: filling it would wrap on some terminals.
  const int width =
      host_.terminal_width().value_or(80) - 1 - static_cast<int>(times.size());
  std::string line(kEraseLine);
  line += elide_middle(printable(text) + " ...", std::max(width, 1), false);
  line += times;
  shown_ = host_.write(Stream::Err, line);
}

void Progress::clear() {
  if (shown_) host_.write(Stream::Err, kEraseLine);
  shown_ = false;
}

}  // namespace shardplan::cli
