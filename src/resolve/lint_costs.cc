// SPDX-License-Identifier: Apache-2.0
// What a plan as a whole leaves replicated: unused axes, large parameters, and
// sharding that was asked for and lost.
#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "resolve/lint.h"

namespace shardplan {
namespace {

bool contains(const AxisNames& axes, const AxisName& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Told as SP208.
bool is_unmentioned(const LintInput& input, const AxisName& axis) {
  const auto& all = input.meeting.unmentioned;
  return std::any_of(all.begin(), all.end(),
                     [&](const auto& each) { return each.axis == axis; });
}

// Rules that shard nothing because names or axes are called otherwise: what
// they leave replicated is a consequence, and no rule would help.
bool is_for_others(const LintInput& input) {
  const Meeting& meeting = input.meeting;
  return meeting.misses_names || meeting.misses_labels ||
         std::any_of(meeting.unmentioned.begin(), meeting.unmentioned.end(),
                     [](const auto& each) { return !each.meant.empty(); });
}

std::string amount(Int128 bytes) {
  return bytes_text(static_cast<double>(bytes));
}

PlacementCounts placement_counts(const LintInput& input) {
  PlacementCounts counts;
  for (size_t i = 0; i < input.plan.placements.size(); ++i) {
    counts.push_back(count_of(input, input.of_placement.of(i)));
  }
  return counts;
}

int64_t total_bytes(const LintInput& input) {
  return input.summary == nullptr ? input.manifest.total_bytes()
                                  : input.summary->total_bytes;
}

void lint_unused_axes(const LintInput& input, Diagnostics& diags) {
  // What rules shard that meet no name cannot be told.
  if (input.meeting.misses_names || input.meeting.misses_labels) return;
  for (const AxisSaving& saving :
       axis_savings(input.plan, placement_counts(input))) {
    const AxisNames& zero = input.options.zero_axes;
    if (saving.size == 1 || saving.sharded_tensors > 0 ||
        saving.axis == input.options.pipeline_axis ||
        contains(zero, saving.axis) || is_unmentioned(input, saving.axis)) {
      continue;
    }
    auto report = diags.report(
        Code::UnusedAxis, {}, "axis `" + saving.axis + "` shards no parameter");
    report.fact(
        "every parameter is stored " + std::to_string(saving.size) +
        " times over `" + saving.axis +
        "`; sharding all of them over it too would save " +
        amount(input.memory.max - ceil_div(input.memory.max, saving.size)) +
        " per device");
    report.about({0, -1, saving.axis});
    report.help("name `" + saving.axis + "` in a rule");
    report.help("`--allow SP204` if it is for data parallelism alone");
  }
}

// A parameter counts as large from 1 MiB and a thousandth of the model.
constexpr int64_t kLargeBytes = int64_t{1} << 20;
constexpr int64_t kLargeFraction = 1000;

void lint_large(const LintInput& input, Diagnostics& diags) {
  if (input.plan.mesh.devices() == 1 || !input.options.zero_axes.empty() ||
      is_for_others(input)) {
    return;
  }
  for (size_t i = 0; i < input.folding.classes.size(); ++i) {
    const ParameterClass& c = input.folding.classes[i];
    const Placement& placement = input.plan.placements[c.kind];
    const int64_t bytes = placement.type.bytes();
    // What correction or a missing rule did is reported there.
    if (placement.shards > 1 || !placement.corrections.empty() ||
        input.plan.is_unmatched(placement) || bytes < kLargeBytes ||
        bytes < total_bytes(input) / kLargeFraction) {
      continue;
    }
    std::vector<std::string> names =
        names_of(input.manifest, input.of_class.of(i));
    auto report = diags.report(
        Code::LargeReplicatedParameter, asked_span(input, placement, 0),
        "every device holds all of " + names_text(names));
    report.fact(
        type_text(placement.type) + " is " +
        amount(static_cast<Int128>(bytes) * c.count) +
        " per device; spread over all " +
        count_text(input.plan.mesh.devices()) + " devices it would be " +
        amount(static_cast<Int128>(ceil_div(bytes, input.plan.mesh.devices())) *
               c.count));
    report.help("shard a dimension in " +
                rule_text(input.plan, placement.rule));
    report.about({placement.rule, -1, ""});
    name_parameters(report, std::move(names), c.count);
  }
}

// "SP203", "SP203 or SP207": the corrections that can cost memory.
std::string causes(const Plan& plan) {
  std::set<Code> codes;
  for (const Placement& placement : plan.placements) {
    for (const Correction& correction : placement.corrections) {
      if (correction.code == Code::IndivisibleDimension ||
          correction.code == Code::SmallParameter) {
        codes.insert(correction.code);
      }
    }
  }
  std::string text;
  for (const Code code : codes) {
    text += (text.empty() ? "" : " or ") + code_id(code);
  }
  return text;
}

void lint_lost(const LintInput& input, Diagnostics& diags) {
  Int128 asked = 0;
  std::vector<std::pair<Int128, size_t>> losses;  // extra bytes, placement
  for (size_t i = 0; i < input.plan.placements.size(); ++i) {
    const Placement& placement = input.plan.placements[i];
    const int64_t count = count_of(input, input.of_placement.of(i));
    const int64_t requested = requested_bytes(input.plan, placement);
    asked += static_cast<Int128>(requested) * count;
    const Int128 extra =
        static_cast<Int128>(placement.bytes_per_device - requested) * count;
    if (extra > 0) losses.emplace_back(extra, i);
  }
  const Int128 growth = static_cast<Int128>(input.memory.max) - asked;
  const double fraction =
      asked == 0 ? 0 : static_cast<double>(growth) / static_cast<double>(asked);
  if (growth <= 0 || fraction <= input.options.tolerance) return;
  std::stable_sort(
      losses.begin(), losses.end(),
      [](const auto& a, const auto& b) { return a.first > b.first; });
  auto report =
      diags.report(Code::ShardingLost, {},
                   "corrections cost " + amount(growth) + " per device, " +
                       percent_text(fraction) + " more than asked for");
  report.fact("the fullest device holds " + amount(input.memory.max) +
              "; as asked for, padded, it would hold " + amount(asked));
  report.fact("the tolerance is " + percent_text(input.options.tolerance));
  constexpr size_t kShown = 3;
  for (size_t i = 0; i < std::min(kShown, losses.size()); ++i) {
    const std::vector<std::string> names =
        names_of(input.manifest, input.of_placement.of(losses[i].second));
    report.fact(names_text(names) + ": " + amount(losses[i].first));
  }
  report.help("change what " + causes(input.plan) +
              " names, or raise `--tolerance`");
}

void lint_replicated(const LintInput& input, Diagnostics& diags) {
  if (!input.options.max_replicated) return;
  const Balance ratios = balance(input.plan, placement_counts(input),
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
      .help("`shardplan analyze` lists where repetition comes from");
}

}  // namespace

void lint_costs(const LintInput& input, Diagnostics& diags) {
  lint_unused_axes(input, diags);
  lint_large(input, diags);
  lint_lost(input, diags);
  lint_replicated(input, diags);
}

}  // namespace shardplan
