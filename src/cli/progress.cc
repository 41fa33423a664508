// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <string>

#include "base/allocation.h"
#include "base/text.h"

namespace shardplan::cli {
namespace {

constexpr double kPatience = 0.5;  // seconds before anything is shown
constexpr std::string_view kEraseLine = "\r\x1b[K";

}  // namespace

Progress::Progress(Host& host, bool enabled)
    : host_(host), enabled_(enabled && host.is_terminal(Stream::Err)) {
  if (enabled_) start_ = host.now();
}

void Progress::stage(std::string_view text) {
  note_work(text);
  if (!enabled_ || host_.now() - start_ < kPatience) return;
  // The last column stays free: filling it would wrap on some terminals.
  const int width = host_.terminal_width().value_or(80) - 1;
  std::string line(kEraseLine);
  line += elide_middle(printable(text) + " ...", width, false);
  shown_ = host_.write(Stream::Err, line);
}

void Progress::clear() {
  if (shown_) host_.write(Stream::Err, kEraseLine);
  shown_ = false;
}

}  // namespace shardplan::cli
