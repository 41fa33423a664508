// SPDX-License-Identifier: Apache-2.0
// A target of `gate`: what it is on either side, and what became of it.
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

// Whether a setting says what is a finding or fails. Such are read from
// the base side.
bool decides(const Setting& setting);

// Whether settings are the same flags with the same values, in the same order.
bool are_alike(const std::vector<Setting>& a, const std::vector<Setting>& b);

// A target on the sides that have it, with the settings that hold there.
struct GatedTarget {
  std::string name;
  std::string was_called;  // on the base side; "": the same
  const Target* base = nullptr;
  const Target* head = nullptr;
  std::vector<Setting> base_settings;
  std::vector<Setting> head_settings;
  // What came of it.
  std::vector<GateChange> changes;
  CollectiveCoverage collectives;
  std::vector<CategoryChange> categories;  // of memory
  std::vector<TimeChange> times;           // parts of a step
  std::optional<JudgedTarget> judged;      // as it is now, else as it was
  std::optional<JudgedTarget> before;      // where something differs
  // By what the base asked, where the head asks something else, and those of
  // its changes that count where they fail.
  std::optional<JudgedTarget> as_before;
  std::vector<GateChange> changes_as_before;
  // Why what the base judged is not judged any more; "" where it is.
  std::string gone;
  bool failed_to_run = false;

  const std::string& name_in_base() const {
    return was_called.empty() ? name : was_called;
  }
};

// A target's settings on the head side: those that decide are the base's.
std::vector<Setting> head_settings(const GateSide& base, const GateSide& head,
                                   const GatedTarget& target);
// The part of a path below a side's folder.
std::string path_below(const GateSide& side, const std::string& path);

std::vector<GatedTarget> pair_targets(const GateSide& base,
                                      const GateSide& head);

// A setting that is another; "" is none. `of_base`: the line is.
GateChange setting_change(std::string target, std::string_view what,
                          const std::string& before, const std::string& after,
                          Span where, bool of_base);
// What is set otherwise, one change per flag. Paths are compared as they are
// written: the sides may be two folders.
void add_setting_changes(const std::string& target,
                         const std::vector<Setting>& base,
                         const std::vector<Setting>& head,
                         std::vector<GateChange>& changes);
// Target on one side alone, or set otherwise.
void add_target_changes(const GateSide& base, const GateSide& head,
                        GatedTarget& gated);

// All that judging a target needs.
struct Judging {
  const GateSide& base;
  const GateSide& head;
  const std::vector<Setting>& over;  // of the command line
  std::vector<bool>& used;           // of the base's baseline, by the head
};
// Judges either side, as far as it tells anything, and adds what changed. For
// several targets at once.
void judge_gated(const Judging& judging, GatedTarget& gated);

}  // namespace shardplan::cli
