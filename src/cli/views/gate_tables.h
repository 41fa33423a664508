// SPDX-License-Identifier: Apache-2.0
// The report of `gate`: what changed, target by target, most important first.
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
  std::string verdict;  // "Passes", as the exit code has it
  std::string base;  // "1a2b3c4", "old/"
  std::string head;
  // Whether lines of the base can be looked at: not those of a revision.
  bool base_is_there = true;
  std::vector<GateTarget> targets;
  const std::vector<GateChange>* changes = nullptr;  // of no target
  std::string general = "All targets";               // what those are shown as
  bool exact = false;
  bool expand = false;
};

// Refers to the changes: they must outlive the report.
Report gate_report(const GateView& view);

// What categories of memory take, before and after, for people.
Table category_table(const std::vector<CategoryChange>& categories, bool exact);
// What parts of a step take that is not hidden, the same way.
Table time_table(const std::vector<TimeChange>& times);

// "the fullest device holds more: 12.1 GiB → 20.1 GiB (+8.0 GiB)"
std::string change_text(const GateChange& change);

// The columns of tables.gate_changes and a row of it.
std::vector<Column> gate_columns();
Row gate_row(const GateChange& change);

}  // namespace shardplan::cli
