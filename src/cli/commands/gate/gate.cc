// SPDX-License-Identifier: Apache-2.0
// `shardplan gate`: the effect of a change on every target, before it is
// merged.
//
// Settings that decide what fails (--fail-on, --allow, --deny, the baseline,
// ..) are read from the base side, so that a change cannot approve itself. A
// change of these settings is itself reported.
#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "base/parallel.h"
#include "base/words.h"
#include "cli/commands.h"
#include "cli/commands/gate/following.h"
#include "cli/commands/gate/judging.h"
#include "cli/commands/gate/sides.h"
#include "cli/config.h"
#include "cli/flag_values.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/targets.h"
#include "cli/views/gate_remarks.h"
#include "cli/views/gate_tables.h"
#include "cli/views/rule_changes_report.h"
#include "gate/baseline.h"
#include "gate/changes.h"
#include "gate/rule_changes.h"
#include "io/load.h"

namespace shardplan::cli {
namespace {

struct Gate {
  Context& context;
  GateSide base;
  GateSide head;
  FailOn fail_on;
  std::vector<GatedTarget> targets;
  std::vector<GateChange> changes;  // without a target: settings, the baseline
  std::vector<bool> used;           // entries of the base's baseline
};

// Adds changes that fail only when the head is checked with the base's request.
void add_failures_as_before(const FailOn& fail_on, GatedTarget& gated) {
  FailOn counts = fail_on;
  counts.any_change = false;
  for (GateChange& change : gated.changes_as_before) {
    const auto is_known = [&](const GateChange& other) {
      return other.fails && other.kind == change.kind &&
             other.what == change.what && other.key == change.key;
    };
    if (!fails_gate(counts, change) ||
        std::ranges::any_of(gated.changes, is_known)) {
      continue;
    }
    change.fails = true;
    gated.changes.push_back(change);
  }
}

// Returns the severity of SP604 for a target that is no longer checked,
// according to the base and the command line.
Severity severity_of_gone(const Gate& gate, const GatedTarget& gated) {
  std::vector<Setting> settings = gated.base_settings;
  std::erase_if(settings, [](const Setting& setting) {
    return setting.flag->name != "allow" && setting.flag->name != "deny";
  });
  const std::vector<Setting> over = severity_settings(gate.context.options);
  settings.insert(settings.end(), over.begin(), over.end());
  Options options;
  Diagnostics diags;
  apply_settings(settings, options, diags);
  apply_severities(options, diags);
  return diags.severity_of(Code::DroppedTarget);
}

// Makes a target that is no longer checked fail, unless the base allows it.
void mark_gone(Severity severity, GatedTarget& gated) {
  if (gated.gone.empty() || severity != Severity::Error) return;
  for (GateChange& change : gated.changes) {
    if (change.what != "target") continue;
    change.fails = true;
    change.reported = true;
  }
}

void judge_all(Gate& gate) {
  const std::vector<Setting> over = severity_settings(gate.context.options);
  const size_t count = gate.targets.size();
  std::vector<std::vector<bool>> used(count);
  WorkProgress work(gate.context.progress, "target", count);
  parallel_for(
      static_cast<int64_t>(count),
      thread_count(gate.context.options.planning.jobs), [&](int64_t i) {
        const auto k = static_cast<size_t>(i);
        work.begin(gate.targets[k].name);
        judge_gated({gate.base, gate.head, over, used[k]}, gate.targets[k]);
      });
  if (gate.base.baseline) gate.used.resize(gate.base.baseline->accepted.size());
  for (const std::vector<bool>& of_target : used) {
    for (size_t i = 0; i < of_target.size(); ++i) {
      if (of_target[i]) gate.used[i] = true;
    }
  }
  for (GatedTarget& gated : gate.targets) {
    const bool is_timed_as_before =
        gated.as_before && side_of(*gated.as_before).time != nullptr;
    for (GateChange& change : gated.changes) {
      change.fails = fails_gate(gate.fail_on, change);
      // The head no longer asks for this time, but judge_as_before() estimated
      // it.
      if (change.kind == GateKind::Time && change.after == ChangeValue() &&
          is_timed_as_before && !gate.fail_on.any_change) {
        change.fails = false;
      }
    }
    add_failures_as_before(gate.fail_on, gated);
    mark_gone(severity_of_gone(gate, gated), gated);
  }
  for (GateChange& change : gate.changes) {
    change.fails = fails_gate(gate.fail_on, change);
  }
}

// Adds the changes of the rules themselves, once for each pair of files.
void add_rule_changes(Gate& gate) {
  std::set<std::string> seen;
  for (const GatedTarget& gated : gate.targets) {
    if (!gated.before || !gated.checked || gated.failed_to_run) continue;
    const Session& before = *gated.before->session;
    const Session& after = *gated.checked->session;
    if (!before.rules || !after.rules ||
        is_same_text(*before.rules, *after.rules)) {
      continue;
    }
    std::string key;
    for (const auto* rules : {&*before.rules, &*after.rules}) {
      for (const SourcePtr& source : rules->sources) {
        key += source->name() + '\x1f';
      }
      key += '\x1e';
    }
    if (!seen.insert(std::move(key)).second) continue;
    const Manifest* const models[] = {&after.model.manifest};
    const auto found = compare_rules({*before.rules, *after.rules, models, 1},
                                     gate.context.diags);
    if (!found) continue;
    for (const RuleSetChange& change : found->changes) {
      // Nothing shows that these labels ever meet in one array.
      if (change.how == ChangeHow::Contest &&
          change.from == RuleSetChange::From::Nowhere) {
        continue;
      }
      gate.changes.push_back(gate_change(change));
      gate.changes.back().fails = fails_gate(gate.fail_on, gate.changes.back());
    }
  }
}

std::optional<std::string> setting_path(const GateSide& side,
                                        std::string_view flag) {
  if (!side.config) return std::nullopt;
  std::optional<std::string> path;
  for (const Setting& setting : side.config->settings) {
    if (setting.flag->name == flag) path = path_of(setting);
  }
  return path;
}

// Returns false, with the reason reported, if a baseline that is named is
// broken.
bool read_side_baseline(GateSide& side, const std::optional<std::string>& path,
                        Host& host, Diagnostics& diags) {
  if (!path) return true;
  SourcePtr source = read_source(*path, kWholeFile, host, diags);
  if (source == nullptr) return false;
  side.baseline = read_baseline(std::move(source), diags);
  return side.baseline.has_value();
}

void add_baseline_changes(const GateSide& base, const GateSide& head,
                          std::vector<GateChange>& changes) {
  static const Baseline kNone;
  const Baseline& before = base.baseline ? *base.baseline : kNone;
  const Baseline& after = head.baseline ? *head.baseline : kNone;
  const auto add_missing = [&](const Baseline& all, const Baseline& others,
                               bool of_base) {
    for (const AcceptedFinding& entry : all.accepted) {
      const auto& list = others.accepted;
      if (contains(list, entry)) continue;
      GateChange change =
          setting_change("", "baseline", of_base ? entry.reason : "",
                         of_base ? "" : entry.reason, entry.where, of_base);
      change.what = code_id(entry.code);
      change.text = std::string(of_base ? "no longer accepted"
                                        : "accepted as of this change") +
                    (entry.about.empty() ? "" : ": " + entry.about);
      changes.push_back(std::move(change));
    }
  };
  add_missing(before, after, true);
  add_missing(after, before, false);
}

// Reads the settings that decide from the base side. Returns false if one is
// broken.
bool read_decisions(Gate& gate) {
  Context& context = gate.context;
  const GateRequest& asked = context.options.gate;
  Options options;
  if (gate.base.config) {
    for (const Setting& setting : gate.base.config->settings) {
      const std::string_view name = setting.flag->name;
      if (name == "fail-on" || name == "allow" || name == "deny") {
        setting.flag->apply(setting, options, context.diags);
      }
    }
    apply_severities(options, context.diags);
  }
  FailOn by_default;
  for (const std::string_view each : kGateFailOn) add_fail_on(each, by_default);
  gate.fail_on = context.options.diff.fail_on.value_or(
      options.diff.fail_on.value_or(by_default));
  const bool fine =
      read_side_baseline(
          gate.base,
          asked.baseline ? asked.baseline : setting_path(gate.base, "baseline"),
          asked.baseline ? context.host : static_cast<Host&>(*gate.base.host),
          context.diags) &&
      (asked.baseline ||
       read_side_baseline(gate.head, setting_path(gate.head, "baseline"),
                          *gate.head.host, context.diags));
  if (!fine || context.diags.cannot_run()) return false;
  if (!asked.baseline) add_baseline_changes(gate.base, gate.head, gate.changes);
  std::vector<Setting> was;
  std::vector<Setting> is;
  const auto take = [](const GateSide& side, std::vector<Setting>& settings) {
    if (!side.config) return;
    for (const Setting& setting : side.config->settings) {
      // The other settings are reported with each target.
      if (decides(setting)) settings.push_back(setting);
    }
  };
  take(gate.base, was);
  take(gate.head, is);
  add_setting_changes("", was, is, gate.changes);
  return true;
}

bool has_targets(const GateSide& side) {
  return side.config && !side.config->targets.empty();
}

// Returns whether there is anything to check; otherwise reports the reason.
bool has_work(const Gate& gate) {
  if (has_targets(gate.base) || has_targets(gate.head)) return true;
  const std::string path = join_path(gate.head.folder, "shardplan.yaml");
  const bool there = gate.base.config || gate.head.config;
  gate.context.diags
      .error(Code::Usage, {},
             there ? "`" + path + "` has no targets on either side"
                   : "no `" + path + "` on either side")
      .help(
          "define what to judge in it: `targets: {NAME: {model: config.json, "
          "rules: [rules.yaml], mesh: [fsdp=8]}}`");
  return false;
}

GateTarget view_of(const GatedTarget& gated) {
  GateTarget view;
  view.name = gated.name;
  view.changes = &gated.changes;
  view.collectives = gated.collectives;
  view.categories = gated.categories;
  view.times = gated.times;
  view.could_not_run = gated.failed_to_run;
  if (gated.checked) {
    view.errors = gated.checked->diags.count(Severity::Error);
    view.warnings = gated.checked->diags.count(Severity::Warning);
  }
  return view;
}

// Adds the new findings of each target at their lines. A finding is an error
// only if it fails the gate.
void add_new_diagnostics(const Gate& gate, Diagnostics& diags) {
  std::vector<Diagnostics> kept(gate.targets.size());
  std::vector<TargetFindings> found;
  for (size_t i = 0; i < gate.targets.size(); ++i) {
    const GatedTarget& gated = gate.targets[i];
    const auto take = [&](const CheckedTarget& checked) {
      kept[i].add_sources(checked.diags);
      for (const Diagnostic& diagnostic : checked.diags.all()) {
        if (gated.failed_to_run) {
          if (prevents_running(diagnostic.code)) kept[i].add(diagnostic);
          continue;
        }
        if (auto shown = new_finding(gated.changes, diagnostic)) {
          kept[i].add(*std::move(shown));
        }
      }
    };
    if (gated.before && gated.failed_to_run) take(*gated.before);
    if (gated.checked) take(*gated.checked);
    if (gated.as_before) {
      kept[i].add_sources(gated.as_before->diags);
      for (const Diagnostic& diagnostic : gated.as_before->diags.all()) {
        const GateChange* change =
            change_of(gated.changes_as_before, diagnostic);
        if (change != nullptr && change->fails) kept[i].add(diagnostic);
      }
    }
    found.push_back({gated.name, &kept[i]});
  }
  add_findings_of(found, diags);
}

// Adds an error for each change that fails and is not itself a finding.
void add_failures(const Gate& gate, Diagnostics& diags) {
  std::vector<Diagnostics> kept(gate.targets.size() + 1);
  std::vector<TargetFindings> found;
  const auto report = [&](const GateChange& change, Diagnostics& into) {
    report_failure(change, gate.base.files == nullptr, into);
  };
  for (size_t i = 0; i < gate.targets.size(); ++i) {
    const GatedTarget& gated = gate.targets[i];
    if (gated.before) kept[i].add_sources(gated.before->diags);
    if (gated.checked) kept[i].add_sources(gated.checked->diags);
    if (gated.as_before) kept[i].add_sources(gated.as_before->diags);
    for (const GateChange& change : gated.changes) report(change, kept[i]);
    found.push_back({gated.name, &kept[i]});
  }
  add_findings_of(found, diags);
  for (const GateChange& change : gate.changes) report(change, diags);
}

// Adds warnings for targets that differ and whose times cannot be compared as
// requested.
void add_unjudged_times(const Gate& gate, Diagnostics& diags) {
  std::vector<Diagnostics> kept(gate.targets.size());
  std::vector<TargetFindings> found;
  for (size_t i = 0; i < gate.targets.size(); ++i) {
    const GatedTarget& gated = gate.targets[i];
    if (!gated.before || !gated.checked || gated.failed_to_run) continue;
    const std::string why = unjudged_time(gate.fail_on, side_of(*gated.before),
                                          side_of(*gated.checked));
    if (why.empty()) continue;
    report_unjudged_time(why, kept[i]);
    found.push_back({gated.name, &kept[i]});
  }
  add_findings_of(found, diags);
}

void add_warnings(const Gate& gate, Diagnostics& diags) {
  for (const GatedTarget& gated : gate.targets) {
    if (gated.gone.empty()) continue;
    const bool is_dropped = gated.head == nullptr;
    const Severity severity = severity_of_gone(gate, gated);
    if (severity == Severity::Off) continue;
    diags
        .report(Code::DroppedTarget, severity,
                is_dropped ? gated.base->where : gated.head->where,
                "target `" + gated.name + "` " +
                    (is_dropped ? "is dropped" : "now has different contents"))
        .fact(gated.gone)
        .help(
            "keep its contents, under this name or another, or first add "
            "`allow: [SP604]` to the `shardplan.yaml` of the base");
  }
  if (gate.base.baseline && gate.context.options.gate.targets.empty()) {
    report_stale(*gate.base.baseline, gate.used, diags);
  }
}

Exit report_gate(Gate& gate) {
  Context& context = gate.context;
  GateView view;
  view.base = gate.base.title;
  view.head = gate.head.title;
  view.base_is_there = gate.base.files == nullptr;
  view.changes = &gate.changes;
  view.exact = context.options.output.exact;
  view.expand = context.options.output.expand;
  for (const GatedTarget& gated : gate.targets) {
    view.targets.push_back(view_of(gated));
  }
  add_new_diagnostics(gate, context.diags);
  add_failures(gate, context.diags);
  add_unjudged_times(gate, context.diags);
  add_warnings(gate, context.diags);
  view.verdict = context.diags.cannot_run()   ? "Could not run"
                 : context.diags.has_errors() ? "Fails"
                                              : "Passes";
  Report report = gate_report(view);
  const Diagnostics remarks = gate_remarks(view);
  report.remarks = &remarks;
  report.main_file = join_path(gate.head.folder, "shardplan.yaml");
  if (GitTreeHost* files = gate.head.files.get()) {
    report.is_there = [files](const std::string& path) {
      return files->file_info(path).has_value();
    };
  }
  return finish_in_part(context, std::move(report));
}

bool choose(Gate& gate) {
  const std::vector<std::string>& patterns = gate.context.options.gate.targets;
  std::vector<Target> named(gate.targets.size());
  for (size_t i = 0; i < named.size(); ++i)
    named[i].name = gate.targets[i].name;
  for (const GatedTarget& gated : gate.targets) {
    if (gated.renamed_from.empty()) continue;
    named.emplace_back().name = gated.renamed_from;
  }
  const auto chosen =
      chosen_targets(std::move(named), patterns, gate.context.diags);
  if (!chosen) return false;
  std::erase_if(gate.targets, [&](const GatedTarget& gated) {
    return std::ranges::none_of(*chosen, [&](const Target& target) {
      return target.name == gated.name || target.name == gated.renamed_from;
    });
  });
  return true;
}

}  // namespace

Exit run_gate(Context& context) {
  Gate gate = {context, {}, {}, {}, {}, {}, {}};
  gate.base.base = true;
  const std::vector<std::string>& arguments = context.options.arguments;
  const auto mutex = std::make_shared<std::mutex>();
  const bool opened = arguments.size() == 2
                          ? open_folder(arguments[0], gate.base, mutex,
                                        context.host, context.diags) &&
                                open_folder(arguments[1], gate.head, mutex,
                                            context.host, context.diags)
                          : open_revisions(arguments[0], gate.base, gate.head,
                                           context.host, context.diags);
  if (!opened || !was_seen_whole(gate.base, context.diags) ||
      !was_seen_whole(gate.head, context.diags) || !has_work(gate) ||
      !read_decisions(gate)) {
    return Exit::CouldNotRun;
  }
  gate.targets = pair_targets(gate.base, gate.head);
  follow_targets(gate.base, gate.head, severity_settings(context.options),
                 context.options.planning.jobs, gate.targets);
  if (!choose(gate)) return Exit::CouldNotRun;
  for (GatedTarget& gated : gate.targets) {
    add_target_changes(gate.base, gate.head, gated);
  }
  judge_all(gate);
  was_seen_whole(gate.base, context.diags);
  was_seen_whole(gate.head, context.diags);
  add_rule_changes(gate);
  return report_gate(gate);
}

std::vector<Flag> gate_flags() {
  return {
      {"baseline", Takes::File, "FILE", "Diagnostics",
       "accepted findings, each with a reason", "check gate",
       [](auto& s, auto& o, auto&) { o.gate.baseline = path_of(s); }},
      {"write-baseline", Takes::File, "FILE", "Diagnostics",
       "write all findings to FILE as accepted", "check",
       [](auto& s, auto& o, auto&) { o.gate.new_baseline = path_of(s); }, false,
       false},
      {"target", Takes::Text, "NAME", "Inputs",
       "only targets with this name; `*` matches any text; may repeat",
       "check gate",
       [](auto& s, auto& o, auto&) { o.gate.targets.push_back(s.value); }, true,
       false},
  };
}

}  // namespace shardplan::cli
