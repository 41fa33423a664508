// SPDX-License-Identifier: Apache-2.0
// Lines that the runners of CI jobs take for commands.
//
// GitHub's runner obeys `::name ..::text` at the beginning of any line of a
// job's log, behind blanks too, and `##[name ..]text` anywhere in one; Azure's
// and TeamCity's have `##vso[..]` and `##teamcity[..]`. What people are shown
// holds names from files, so there the first sign of these is escaped, as
// printable() does it.
#pragma once

#include <string>
#include <string_view>

#include "report/report.h"

namespace shardplan {

// Whole lines (the last may lack its end) without commands.
std::string without_commands(std::string_view lines);

// Passes on text that comes in pieces, line by line. finish() hands over a last
// line without an end; false once the sink has refused anything.
class LineGuard {
 public:
  // `sink` must outlive the guard.
  explicit LineGuard(const TextSink& sink) : sink_(sink) {}
  bool write(std::string_view piece);
  bool finish();

 private:
  const TextSink& sink_;
  std::string rest_;
  bool refused_ = false;
};

}  // namespace shardplan
