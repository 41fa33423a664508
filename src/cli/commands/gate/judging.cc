// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/gate/judging.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/words.h"
#include "cli/commands/gate/following.h"
#include "cli/commands/simulate/forward.h"
#include "cli/flags.h"
#include "gate/baseline.h"

namespace shardplan::cli {
namespace {

// Settings that decide what counts as a finding or what fails, and those that
// change findings but no placement.
constexpr std::string_view kDeciding =
    "allow deny fail-on baseline exit-zero max-replicated tolerance unmatched";

std::vector<Setting> settings_of(const GateSide& side, const Target& target) {
  return target_settings(side.config->settings, target.settings);
}

std::string settings_text(const std::vector<Setting>& settings,
                          std::string_view flag) {
  std::string text;
  for (const Setting& setting : settings) {
    if (setting.flag->name != flag) continue;
    const std::string value =
        setting.flag->takes == Takes::Nothing ? "true" : setting.value;
    text += (text.empty() ? "" : ", ") + value;
  }
  return text;
}

Span place_of_setting(const std::vector<Setting>& settings,
                      std::string_view flag) {
  for (const Setting& setting : settings) {
    if (setting.flag->name == flag) return setting.where;
  }
  return {};
}

// Returns the settings that are shown with the target. Settings that decide and
// apply to all targets are shown only once, elsewhere.
std::vector<Setting> shown_settings(const GateSide& side,
                                    const Target& target) {
  std::vector<Setting> settings = settings_of(side, target);
  std::erase_if(settings, decides);
  for (const Setting& own : target.settings) {
    if (decides(own)) settings.push_back(own);
  }
  return settings;
}

// Adds the findings of a target that only the head has; all of them are new.
void add_new_findings(const CheckedTarget& checked,
                      std::vector<GateChange>& changes) {
  const Diagnostics none;
  for (GateChange& change : finding_changes(none, checked.diags)) {
    change.target = checked.name;
    changes.push_back(std::move(change));
  }
}

// Removes the findings that the base's baseline accepts.
void accept_side(const Judging& judging, const GateSide& side,
                 const std::string& name, Diagnostics& diags) {
  std::vector<bool> ignored;
  if (const auto& baseline = judging.base.baseline) {
    accept(*baseline, name, diags, side.base ? ignored : judging.used);
  }
}

// Checks one side, with all findings, accepted or not.
CheckedTarget judge_side(const Judging& judging, const GateSide& side,
                         GatedTarget& gated, Host& host) {
  std::vector<Setting> settings =
      side.base ? gated.base_settings : gated.head_settings;
  settings.insert(settings.end(), judging.over.begin(), judging.over.end());
  CheckedTarget checked = check_target(side.base ? *gated.base : *gated.head,
                                       settings, Fixes::Leave, host);
  if (checked.session && !checked.diags.cannot_run()) return checked;
  gated.failed_to_run = true;
  for (Diagnostic& diagnostic : checked.diags.all()) {
    if (!prevents_running(diagnostic.code)) continue;
    diagnostic.facts.push_back(
        (side.base ? "on the base side, " : "on the head side, ") + side.title);
  }
  return checked;
}

// Returns whether the base side has the same settings and files as were read on
// the head side, so that checking it would give the same result.
bool is_unchanged(const Judging& judging, const GatedTarget& gated,
                  const WatchingHost& seen) {
  if (gated.base == nullptr || gated.failed_to_run || !gated.changes.empty() ||
      !same_settings(gated.base_settings, gated.head_settings)) {
    return false;
  }
  const std::string& from = judging.head.folder;
  const std::string& to = judging.base.folder;
  return seen.would_see_the_same(
      *judging.base.host, [&](const std::string& path) {
        const bool is_below = !from.empty() && path.starts_with(from + "/");
        return is_below ? to + path.substr(from.size()) : path;
      });
}

// Finds fixes for new findings only, since those are shown.
void find_fixes_of_new(const Judging& judging, GatedTarget& gated) {
  Diagnostics left = gated.checked->diags;
  accept_side(judging, judging.head, gated.name_in_base(), left);
  const Diagnostics none;
  const std::vector<GateChange> found =
      finding_changes(gated.before ? gated.before->diags : none, left);
  const auto is_new = [&](const Diagnostic& diagnostic) {
    const GateChange* change = change_of(found, diagnostic);
    return change != nullptr && change->severity != Severity::Off;
  };
  const auto& all = gated.checked->diags.all();
  if (std::ranges::none_of(all, is_new)) return;
  find_fixes_of(*gated.checked, is_new, *judging.head.host);
}

void add_found_changes(GatedTarget& gated) {
  if (gated.base == nullptr) {
    add_new_findings(*gated.checked, gated.changes);
    return;
  }
  ComparedCollectives collectives =
      compare_collectives(*gated.before, *gated.checked);
  gated.collectives = std::move(collectives.coverage);
  gated.categories =
      category_changes(side_of(*gated.before), side_of(*gated.checked));
  gated.times =
      time_part_changes(side_of(*gated.before), side_of(*gated.checked));
  for (GateChange& change : target_changes(gated.name, side_of(*gated.before),
                                           side_of(*gated.checked),
                                           std::move(collectives.changes))) {
    gated.changes.push_back(std::move(change));
  }
}

// Checks the target with the base's request as well, so that a changed request
// does not hide a changed answer.
void add_changes_as_before(const Judging& judging, GatedTarget& gated) {
  if (gated.base == nullptr) return;
  gated.as_before =
      judge_as_before(judging.base, judging.head, judging.over, gated);
  gated.gone = why_dropped(*gated.before, *gated.checked);
  if (!gated.gone.empty()) {
    const Target& now = *gated.head;
    gated.changes.push_back(setting_change(gated.name, "target", gated.name,
                                           gated.name, now.where, false));
    gated.changes.back().text = gated.gone;
  }
  if (!gated.as_before) return;
  accept_side(judging, judging.head, gated.name_in_base(),
              gated.as_before->diags);
  gated.changes_as_before =
      changes_as_before(*gated.before, *gated.as_before, gated.name);
}

}  // namespace

bool same_settings(const std::vector<Setting>& a,
                   const std::vector<Setting>& b) {
  return std::ranges::equal(a, b, [](const Setting& one, const Setting& other) {
    return one.flag == other.flag && one.value == other.value;
  });
}

bool decides(const Setting& setting) {
  return has_word(kDeciding, setting.flag->name);
}

std::vector<Setting> head_settings(const GateSide& base, const GateSide& head,
                                   const GatedTarget& target) {
  std::vector<Setting> settings = settings_of(head, *target.head);
  std::erase_if(settings, decides);
  std::vector<Setting> deciding;
  if (target.base != nullptr) {
    deciding = target.base_settings;
  } else if (base.config) {
    deciding = remaining_settings(base.config->settings, {}, "check");
  }
  for (const Setting& setting : deciding) {
    if (decides(setting)) settings.push_back(setting);
  }
  return settings;
}

GateChange setting_change(std::string target, std::string_view what,
                          const std::string& before, const std::string& after,
                          Span where, bool of_base) {
  GateChange change;
  change.kind = what == "baseline" ? GateKind::Baseline : GateKind::Target;
  change.target = std::move(target);
  change.what = what;
  if (!before.empty()) change.before = before;
  if (!after.empty()) change.after = after;
  if (where) {
    change.line = {where.file->name(), where.file->position(where.begin).line,
                   of_base, where};
  }
  return change;
}

void add_setting_changes(const std::string& target,
                         const std::vector<Setting>& base,
                         const std::vector<Setting>& head,
                         std::vector<GateChange>& changes) {
  std::set<std::string_view> names;
  for (const auto* side : {&base, &head}) {
    for (const Setting& setting : *side) names.insert(setting.flag->name);
  }
  for (const std::string_view name : names) {
    const std::string was = settings_text(base, name);
    const std::string is = settings_text(head, name);
    if (was == is) continue;
    const Span now = place_of_setting(head, name);
    changes.push_back(setting_change(
        target, name, was, is, now ? now : place_of_setting(base, name), !now));
  }
}

std::string path_below(const GateSide& side, const std::string& path) {
  const std::string folder = side.folder.empty() ? "" : side.folder + "/";
  return path.starts_with(folder) ? path.substr(folder.size()) : path;
}

std::vector<GatedTarget> pair_targets(const GateSide& base,
                                      const GateSide& head) {
  std::vector<GatedTarget> targets;
  std::map<std::string, size_t> numbers;
  const auto of = [&](const std::string& name) -> GatedTarget& {
    const auto [entry, is_new] = numbers.emplace(name, targets.size());
    if (is_new) targets.emplace_back().name = name;
    return targets[entry->second];
  };
  if (base.config) {
    for (const Target& target : base.config->targets) {
      GatedTarget& gated = of(target.name);
      gated.base = &target;
      gated.base_settings = settings_of(base, target);
    }
  }
  if (head.config) {
    for (const Target& target : head.config->targets) {
      GatedTarget& gated = of(target.name);
      gated.head = &target;
      gated.head_settings = head_settings(base, head, gated);
    }
  }
  return targets;
}

void add_target_changes(const GateSide& base, const GateSide& head,
                        GatedTarget& gated) {
  std::vector<GateChange>& changes = gated.changes;
  if (gated.base == nullptr || gated.head == nullptr) {
    const Target& only = gated.head != nullptr ? *gated.head : *gated.base;
    const bool is_new = gated.head != nullptr;
    changes.push_back(
        setting_change(gated.name, "target", is_new ? "" : gated.name,
                       is_new ? gated.name : "", only.where, !is_new));
    changes.back().text = is_new ? "it is new" : "it is dropped";
    if (!is_new) gated.gone = "this change removes it from the checks";
    return;
  }
  if (!gated.renamed_from.empty()) {
    changes.push_back(setting_change(gated.name, "target", gated.renamed_from,
                                     gated.name, gated.head->where, false));
    changes.back().text = "it was renamed";
  }
  const std::string was = path_below(base, gated.base->model);
  const std::string is = path_below(head, gated.head->model);
  if (was != is) {
    changes.push_back(
        setting_change(gated.name, "model", was, is, gated.head->where, false));
  }
  add_setting_changes(gated.name, shown_settings(base, *gated.base),
                      shown_settings(head, *gated.head), changes);
}

void judge_gated(const Judging& judging, GatedTarget& gated) {
  const auto judge_base = [&] {
    CheckedTarget checked =
        judge_side(judging, judging.base, gated, *judging.base.host);
    accept_side(judging, judging.base, gated.name_in_base(), checked.diags);
    return checked;
  };
  if (gated.head == nullptr) {
    gated.checked = judge_base();
    return;
  }
  WatchingHost watched(*judging.head.host);
  gated.checked = judge_side(judging, judging.head, gated, watched);
  const bool is_same = is_unchanged(judging, gated, watched);
  if (!is_same && gated.base != nullptr) gated.before = judge_base();
  if (!is_same && !gated.failed_to_run) find_fixes_of_new(judging, gated);
  accept_side(judging, judging.head, gated.name_in_base(),
              gated.checked->diags);
  if (!is_same && !gated.failed_to_run) {
    add_found_changes(gated);
    add_changes_as_before(judging, gated);
  }
}

}  // namespace shardplan::cli
