// SPDX-License-Identifier: Apache-2.0
// Escapes text that the runners of CI jobs would execute as commands.
//
// GitHub's runner executes `::name ..::text` at the beginning of any line of a
// job's log, also after blanks, and `##[name ..]text` anywhere in a line; the
// runners of Azure and TeamCity have `##vso[..]` and `##teamcity[..]`. Text for
// people contains names from files, so the first character of such a command is
// escaped, in the form of printable().
#pragma once

#include <string>
#include <string_view>

#include "report/report.h"

namespace shardplan {

// Returns whole lines without commands; the last line may lack its end.
std::string without_commands(std::string_view lines);

// Passes on text that arrives in pieces, line by line. finish() passes on a
// last line without an end, and returns false if the sink has refused any text.
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
