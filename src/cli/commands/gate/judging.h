// SPDX-License-Identifier: Apache-2.0
// Checks one target of `gate` on both sides and compares the results.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/source.h"
#include "cli/commands/gate/sides.h"
#include "cli/config.h"
#include "cli/targets.h"
#include "gate/changes.h"
#include "gate/collective_changes.h"
#include "gate/time_changes.h"

namespace shardplan::cli {

// Returns whether a setting decides what counts as a finding or what fails.
// Such settings are read from the base side.
bool decides(const Setting& setting);

// Returns whether the settings are the same flags with the same values, in the
// same order.
bool same_settings(const std::vector<Setting>& a,
                   const std::vector<Setting>& b);

// A target on the sides that have it, with the settings that apply there.
struct GatedTarget {
  std::string name;
  std::string renamed_from;  // its name on the base side; "": the same
  const Target* base = nullptr;
  const Target* head = nullptr;
  std::vector<Setting> base_settings;
  std::vector<Setting> head_settings;
  // The results of the comparison.
  std::vector<GateChange> changes;
  CollectiveCoverage collectives;
  std::vector<CategoryChange> categories;  // of memory
  std::vector<TimeChange> times;           // parts of a step
  std::optional<CheckedTarget> checked;    // the head, else the base
  std::optional<CheckedTarget> before;     // the base side, if the sides differ
  // The head side checked with the base's request, if the head makes another
  // one, and those of its changes that count if they fail.
  std::optional<CheckedTarget> as_before;
  std::vector<GateChange> changes_as_before;
  // Why a target that the base checked is no longer checked; "" if it still is.
  std::string gone;
  bool failed_to_run = false;

  const std::string& name_in_base() const {
    return renamed_from.empty() ? name : renamed_from;
  }
};

// Returns a target's settings on the head side, with those that decide taken
// from the base side.
std::vector<Setting> head_settings(const GateSide& base, const GateSide& head,
                                   const GatedTarget& target);
// Returns the part of a path below a side's folder.
std::string path_below(const GateSide& side, const std::string& path);

std::vector<GatedTarget> pair_targets(const GateSide& base,
                                      const GateSide& head);

// Returns the change of a setting; "" is no value. `of_base`: `where` is a line
// of the base.
GateChange setting_change(std::string target, std::string_view what,
                          const std::string& before, const std::string& after,
                          Span where, bool of_base);
// Adds one change per flag that is set differently. Paths are compared as they
// are written, since the sides may be two folders.
void add_setting_changes(const std::string& target,
                         const std::vector<Setting>& base,
                         const std::vector<Setting>& head,
                         std::vector<GateChange>& changes);
// Adds changes for a target that only one side has or whose settings differ.
void add_target_changes(const GateSide& base, const GateSide& head,
                        GatedTarget& gated);

// The inputs that checking a target needs.
struct Judging {
  const GateSide& base;
  const GateSide& head;
  const std::vector<Setting>& over;  // settings of the command line
  std::vector<bool>& used;           // by the head, of the base's baseline
};
// Checks the sides whose result can matter, and adds the changes. May run for
// several targets in parallel.
void judge_gated(const Judging& judging, GatedTarget& gated);

}  // namespace shardplan::cli
