// SPDX-License-Identifier: Apache-2.0
// Findings about sharding that a plan as a whole lacks: unused axes, large
// replicated parameters, and requested sharding that was lost.
#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "findings/checks.h"
#include "findings/findings.h"
#include "model/units.h"

namespace shardplan {
namespace {

// Returns whether the axis is reported as SP208.
bool is_unmentioned(const LintInput& input, const AxisName& axis) {
  return std::ranges::count(input.naming.axes, axis,
                            &NamingMismatch::UnmentionedAxis::axis) > 0;
}

// Returns whether rules shard nothing because names or axes differ. The
// replication is then a consequence, and no other rule would help.
bool is_for_others(const LintInput& input) {
  const NamingMismatch& naming = input.naming;
  return naming.of_names || naming.of_labels ||
         std::ranges::any_of(naming.axes, [](const auto& each) {
           return !each.in_rules.empty();
         });
}

StagedCounts counts_by_placement(const LintInput& input) {
  if (input.summary != nullptr) {
    return placed_counts(input.plan, input.summary->counts);
  }
  return staged_counts(input.plan.placement_of, input.plan.placements.size(),
                       input.options.stages.get());
}

// Returns the devices that hold the layers of one stage; all without a
// pipeline.
int64_t devices_of_stage(const LintInput& input) {
  const Mesh& mesh = input.plan.mesh;
  const AxisName& axis = input.options.pipeline_axis;
  return mesh.find(axis) ? mesh.devices() / mesh.size_of(axis) : mesh.devices();
}

int64_t total_bytes(const LintInput& input) {
  return input.summary == nullptr ? input.manifest.total_bytes()
                                  : input.summary->total_bytes;
}

// Returns the bytes on the fullest device; for a view, those placed over it.
int64_t held_over(const LintInput& input, std::string_view view) {
  if (view.empty()) return input.memory.max;
  PerDevice held(input);
  for (size_t i = 0; i < input.plan.placements.size(); ++i) {
    const Placement& placement = input.plan.placements[i];
    if (placement.view != view) continue;
    held.add(input.of_placement.of(i), placement.bytes_per_device);
  }
  return static_cast<int64_t>(held.most());
}

// A parameter counts as large from 1 MiB and a thousandth of the model.
constexpr int64_t kLargeBytes = int64_t{1} << 20;
constexpr int64_t kLargeFraction = 1000;

// Returns "SP203" or "SP203 or SP207": the corrections that can cost memory.
std::string causes(const Plan& plan) {
  constexpr std::array kCostly = {Code::IndivisibleDimension,
                                  Code::UnevenShards, Code::SmallParameter};
  std::set<Code> codes;
  for (const Placement& placement : plan.placements) {
    for (const Correction& correction : placement.corrections) {
      if (contains(kCostly, correction.code)) codes.insert(correction.code);
    }
  }
  return joined_of(codes, " or ", code_id);
}

void report_lost_bytes(const LintInput& input, Diagnostics& diags) {
  PerDevice asked_of(input);
  std::vector<std::pair<Int128, size_t>> losses;  // extra bytes, placement
  for (size_t i = 0; i < input.plan.placements.size(); ++i) {
    const Placement& placement = input.plan.placements[i];
    const std::span<const uint32_t> members = input.of_placement.of(i);
    const int64_t requested = requested_bytes(input.plan, placement);
    asked_of.add(members, requested);
    const Int128 extra =
        per_device(input, members, placement.bytes_per_device - requested);
    if (extra > 0) losses.emplace_back(extra, i);
  }
  const Int128 asked = asked_of.most();
  const Int128 growth = static_cast<Int128>(input.memory.max) - asked;
  const double fraction =
      asked == 0 ? 0 : static_cast<double>(growth) / static_cast<double>(asked);
  if (growth <= 0 || fraction <= input.options.tolerance) return;
  std::ranges::stable_sort(losses, std::ranges::greater(),
                           &std::pair<Int128, size_t>::first);
  auto report =
      diags.report(Code::ShardingLost, {},
                   "dropped sharding costs " + bytes_text(growth) +
                       " per device (+" + percent_text(fraction) + ")");
  report.fact("the fullest device holds " + bytes_text(input.memory.max) +
              "; with the requested specs, padded, it would hold " +
              bytes_text(asked));
  report.bytes(static_cast<double>(growth));
  report.fact("the tolerance is " + percent_text(input.options.tolerance));
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < std::min(kShown, losses.size()); ++i) {
    const std::vector<std::string> names =
        names_of(input.manifest, input.of_placement.of(losses[i].second));
    report.fact(names_text(names) + ": " + bytes_text(losses[i].first));
  }
  report.help("fix what " + causes(input.plan) +
              " reports, or raise `--tolerance`");
}

void report_replicated_bytes(const LintInput& input, Diagnostics& diags) {
  if (!input.options.max_replicated) return;
  const Balance ratios = balance(input.plan, counts_by_placement(input),
                                 total_bytes(input), input.memory);
  if (ratios.replicated_fraction <= *input.options.max_replicated) return;
  diags
      .report(Code::ShardingLost, {},
              percent_text(ratios.replicated_fraction) +
                  " of the bytes are not sharded at all")
      .fact("they take " +
            bytes_text(ratios.replicated_fraction *
                       static_cast<double>(total_bytes(input))) +
            " on every device")
      .fact("`--max-replicated` allows " +
            percent_text(*input.options.max_replicated))
      .help("`shardplan analyze` lists where replication comes from");
}

}  // namespace

void check_unused_axes(const LintInput& input, Diagnostics& diags) {
  check_unused_views(input, diags);
  // It is not known what rules would shard that match no name.
  if (input.naming.of_names || input.naming.of_labels) return;
  const std::vector<AxisSaving> savings =
      axis_savings(input.plan, counts_by_placement(input));
  const bool any_sharded = std::ranges::any_of(
      savings, [](const AxisSaving& each) { return each.sharded_tensors > 0; });
  for (const AxisSaving& saving : savings) {
    const std::string view = view_with_axis(input.plan.mesh, saving.axis);
    if (saving.size == 1 || saving.sharded_tensors > 0 ||
        (!view.empty() && !is_placed_over(input.plan, view)) ||
        saving.axis == input.options.pipeline_axis ||
        contains(input.options.zero_axes, saving.axis) ||
        is_unmentioned(input, saving.axis)) {
      continue;
    }
    // Copies over an axis of sequences or tokens are meant, unless nothing at
    // all is sharded.
    const bool meant =
        (is_data_axis(saving.axis) || saving.axis == "cp") && any_sharded;
    auto report = diags.report(
        Code::UnusedAxis,
        meant ? Severity::Note : code_info(Code::UnusedAxis).severity, {},
        "axis `" + saving.axis + "` shards no parameter");
    const int64_t held = held_over(input, view);
    const int64_t saved = held - ceil_div(held, saving.size);
    report.bytes(static_cast<double>(saved));
    report.fact((view.empty() ? std::string("every parameter")
                              : "every parameter over view `" + view + "`") +
                " is replicated " + std::to_string(saving.size) +
                " times over `" + saving.axis +
                "`; sharding all of them over it would save " +
                bytes_text(saved) + " per device");
    report.about({0, -1, saving.axis});
    report.help(help_to_name(input, saving.axis) +
                (view.empty() ? "" : " with `view: " + view + "`"));
    if (!meant) {
      report.help("`--allow SP204` if it is only for data parallelism");
    }
  }
}

void check_large_replicas(const LintInput& input, Diagnostics& diags) {
  // With stages, only the devices of one stage hold a replicated parameter.
  const int64_t devices = devices_of_stage(input);
  const bool staged = devices < input.plan.mesh.devices();
  if (devices == 1 || !input.options.zero_axes.empty() ||
      is_for_others(input)) {
    return;
  }
  for (size_t i = 0; i < input.folding.classes.size(); ++i) {
    const ParameterClass& c = input.folding.classes[i];
    const Placement& placement = input.plan.placements[c.kind];
    const int64_t bytes = placement.type.bytes();
    // Effects of corrections or a missing rule are reported there.
    const bool is_spread = placement.dealt && placement.dealt->size > 1;
    if (placement.shards > 1 || is_spread || !placement.corrections.empty() ||
        input.plan.is_unmatched(placement) || bytes < kLargeBytes ||
        bytes < total_bytes(input) / kLargeFraction) {
      continue;
    }
    std::vector<std::string> names =
        names_of(input.manifest, input.of_class.of(i));
    auto report = diags.report(
        Code::LargeReplicatedParameter, asked_span(input, placement, 0),
        std::string(staged ? "every device of a stage" : "every device") +
            " holds all of " + names_text(names));
    const Int128 held = per_device(input, input.of_class.of(i), 1);
    report.fact(type_text(placement.type) + " is " + bytes_text(bytes * held) +
                " per device; sharded over all " + count_text(devices) +
                " devices" + (staged ? " of a stage" : "") + " it would be " +
                bytes_text(ceil_div(bytes, devices) * held));
    report.bytes(static_cast<double>(bytes * held));
    report.help(is_of_dialect(input, placement.rule)
                    ? "no entry of the plan names it; add one with the style "
                      "whose collectives the module needs"
                    : "shard a dimension in " +
                          rule_text(input.plan, placement.rule));
    report.about({placement.rule, -1, ""});
    report.parameters(std::move(names)).findings(c.count);
  }
}

void check_lost_sharding(const LintInput& input, Diagnostics& diags) {
  report_lost_bytes(input, diags);
  report_replicated_bytes(input, diags);
}

}  // namespace shardplan
