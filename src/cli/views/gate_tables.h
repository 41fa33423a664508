// SPDX-License-Identifier: Apache-2.0
// The report of `gate`: what changed, target by target, most important changes
// first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gate/changes.h"
#include "gate/collective_changes.h"
#include "gate/time_changes.h"
#include "report/report.h"

namespace shardplan::cli {

struct GateTarget {
  std::string name;
  const std::vector<GateChange>* changes = nullptr;
  bool could_not_run = false;
  int64_t errors = 0;
  int64_t warnings = 0;
  CollectiveCoverage collectives;
  std::vector<CategoryChange> categories;  // of memory
  std::vector<TimeChange> times;           // parts of a step
};

struct GateView {
  std::string verdict;  // "Passes"; agrees with the exit code
  std::string base;     // "1a2b3c4", "old/"
  std::string head;
  // Whether the reader can open lines of the base; false if it is a git
  // revision.
  bool base_is_there = true;
  std::vector<GateTarget> targets;
  const std::vector<GateChange>* changes = nullptr;  // changes of no target
  std::string general = "All targets";               // heading of those changes
  bool exact = false;
  bool expand = false;
};

// Returns the report, which refers to the changes: they must outlive it.
Report gate_report(const GateView& view);

// Returns the bytes of each memory category before and after, for people.
Table category_table(const std::vector<CategoryChange>& categories, bool exact);
// Returns the unhidden time of each part of a step before and after, for
// people.
Table time_table(const std::vector<TimeChange>& times);

// Returns a change as text: "the fullest device holds more: 12.1 GiB → 20.1 GiB
// (+8.0 GiB)".
std::string change_text(const GateChange& change);

}  // namespace shardplan::cli
