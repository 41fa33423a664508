// SPDX-License-Identifier: Apache-2.0
// Semantic and logical names: what was not placed, and what is unclear.
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.h"
#include "resolve/lint.h"
#include "resolve/match.h"
#include "resolve/meaning.h"

namespace shardplan {
namespace {

// One finding for all parameters that lose the same label for the same reason.
struct LostLabel {
  Code code;
  std::string label;
  std::string reason;
  int rule;
  auto operator<=>(const LostLabel&) const = default;  // NOLINT: no pointer
};
struct Losers {
  int dim = 0;
  int64_t held = 0;  // bytes per device
  Span where;
  std::vector<std::string> names;
  int64_t count = 0;  // of parameters
};

// The last rule of that name, where another would go behind it.
Span last_rule_of(const LintInput& input, const std::string& label) {
  Span where;
  if (input.rules == nullptr) return where;
  for (const LogicalRule& rule : input.rules->logical_rules) {
    if (rule.name && *rule.name == label) where = rule.where;
  }
  return where;
}

void report_lost(const LintInput& input, const LostLabel& lost, Losers losers,
                 Diagnostics& diags) {
  const bool repeats = lost.code == Code::RepeatedLogicalAxis;
  const Severity severity = !repeats && input.options.raise_unplaced
                                ? Severity::Error
                                : code_info(lost.code).severity;
  auto report = diags.report(
      lost.code, severity, losers.where,
      repeats ? "the logical axes of " + names_text(losers.names) +
                    " cannot be told apart"
              : "logical axis `" + printable(lost.label) + "` of " +
                    names_text(losers.names) + " is not placed");
  const Span last = last_rule_of(input, lost.label);
  if (last && !repeats) report.label(last, "the last rule for it");
  report.fact(lost.reason);
  report.fact("dimension " + std::to_string(losers.dim) +
              " becomes unsharded: " +
              bytes_text(static_cast<double>(losers.held)) + " per device");
  if (repeats) {
    report.help("give each dimension of an array a name of its own");
  } else if (last) {
    report.help("add a later rule that gives `" + printable(lost.label) +
                "` other axes, or `null` to leave it unsharded on purpose");
  } else {
    report.help("add a rule `[" + printable(lost.label) +
                ", null]`, or with axes instead of `null`");
  }
  name_parameters(report, std::move(losers.names), losers.count);
}

void lint_lost_labels(const LintInput& input, Diagnostics& diags) {
  std::map<LostLabel, Losers> all;
  for (size_t i = 0; i < input.plan.placements.size(); ++i) {
    const Placement& placement = input.plan.placements[i];
    const std::span<const uint32_t> members = input.of_placement.of(i);
    // A repeated label makes one finding of all the labels of an array.
    bool repeats = false;
    for (const Correction& c : placement.corrections) {
      const bool is_repeat = c.code == Code::RepeatedLogicalAxis;
      if (!is_repeat && c.code != Code::UnplacedLogicalAxis) continue;
      if (is_repeat && std::exchange(repeats, true)) continue;
      // Said once for all of them (SP115).
      if (!is_repeat && input.meeting.misses_labels) continue;
      const std::string label = c.dropped.empty() ? "" : c.dropped.front();
      const auto [entry, is_new] =
          all.try_emplace({c.code, label, c.reason, placement.rule}, Losers{});
      Losers& losers = entry->second;
      if (is_new) {
        losers.dim = c.dim;
        losers.where = placement.rule > 0
                           ? spec_span(input, placement.rule, c.dim)
                           : input.manifest.where(members.front());
      }
      const int64_t count = count_of(input, members);
      losers.count += count;
      losers.held += count * placement.bytes_per_device;
      for (std::string& name : names_of(input.manifest, members)) {
        losers.names.push_back(std::move(name));
      }
    }
  }
  for (auto& [lost, losers] : all) {
    report_lost(input, lost, std::move(losers), diags);
  }
}

void lint_ambiguous(const LintInput& input, Diagnostics& diags) {
  const Vocabulary names(*input.rules, input.plan.mesh, {});
  for (const Rule& rule : input.rules->rules) {
    for (size_t dim = 0; dim < rule.spec.dims.size(); ++dim) {
      for (const AxisName& name : rule.spec.dims[dim]) {
        if (!names.is_ambiguous(name)) continue;
        const Span where =
            dim < rule.dim_where.size() ? rule.dim_where[dim] : rule.spec_where;
        auto report = diags.error(
            Code::AmbiguousAxis, where,
            "`" + printable(name) + "` is a mesh axis and a logical axis");
        report.label(last_rule_of(input, name), "the logical axis");
        report.fact("it is taken for the mesh axis, of size " +
                    std::to_string(input.plan.mesh.size_of(name)));
        report.help("write `mesh:" + name + "` or `logical:" + name + "`");
        report.findings(1);
      }
    }
  }
}

void lint_overridden(const LintInput& input, Diagnostics& diags) {
  std::map<int, std::vector<uint32_t>> taken;  // parameters by catch-all rule
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const int rule = input.plan.of(i).rule;
    if (rule < 1 || input.manifest.axes(i) == nullptr) continue;
    if (!is_catch_all(
            input.plan.rules[static_cast<size_t>(rule) - 1].pattern)) {
      continue;
    }
    taken[rule].push_back(static_cast<uint32_t>(i));
  }
  for (const auto& [rule, parameters] : taken) {
    std::vector<std::string> names = names_of(input.manifest, parameters);
    auto report =
        diags.report(Code::OverriddenLogicalAxes, rule_span(input, rule),
                     "the catch-all " + rule_text(input.plan, rule) +
                         " decides " + names_text(names) + ", which " +
                         (names.size() > 1 ? "have" : "has") + " logical axes");
    report.fact("a rule found in a name comes before logical axis rules");
    report.help(
        "remove the catch-all: what no rule is found in is then placed "
        "by its logical axes");
    report.about({rule, -1, ""});
    name_parameters(report, std::move(names), count_of(input, parameters));
  }
}

}  // namespace

void lint_names(const LintInput& input, Diagnostics& diags) {
  lint_lost_labels(input, diags);
  if (input.rules == nullptr || input.rules->logical_rules.empty()) return;
  lint_ambiguous(input, diags);
  lint_overridden(input, diags);
}

}  // namespace shardplan
