// SPDX-License-Identifier: Apache-2.0
// Findings about views of the mesh (core/mesh.h) and experts: views that place
// nothing, ranks with different numbers of experts, and an axis of the mesh
// that should be one of a view.
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "base/words.h"
#include "findings/checks.h"
#include "findings/findings.h"
#include "model/tensor_name.h"
#include "model/units.h"

namespace shardplan {
namespace {

// Returns the views that have rules.
std::set<std::string> views_of_rules(const LintInput& input) {
  std::set<std::string> views;
  for (const PlanRule& rule : input.plan.rules) views.insert(rule.view);
  if (input.rules != nullptr) {
    for (const LogicalRule& rule : input.rules->logical_rules) {
      views.insert(rule.view);
    }
  }
  views.erase("");
  return views;
}

constexpr std::array<std::string_view, 6> kExpertAxes = {
    "ep", "expert", "experts", "expert_parallel", "moe", "ep_shard"};

// Returns whether rules shard the batch over the axis: EasyDeL's `batch_axis`,
// MaxText's `activation_batch`, t5x's `batch`.
bool shards_batch(const LintInput& input, const AxisName& axis) {
  if (contains(input.options.batch_axes, axis)) return true;
  if (input.rules == nullptr) return false;
  if (const auto& table = input.rules->partition_axis) {
    const auto field = find_partition_field("batch_axis");
    if (field && (*table)[*field] && contains((*table)[*field]->axes, axis)) {
      return true;
    }
  }
  bool any_of_batch = false;
  for (const LogicalRule& rule : input.rules->logical_rules) {
    if (!rule.name || !contains(*rule.name, "batch")) continue;
    any_of_batch = true;
    if (contains(rule.axes, axis)) return true;
  }
  // Whole files of MaxText and t5x shard the batch; a partial file without such
  // a rule leaves this open.
  return !any_of_batch && !input.rules->logical_rules.empty() &&
         !input.rules->architecture_labels;
}

bool is_of_experts(std::string_view name) {
  const ExpertName expert = expert_name(name);
  return expert.stacked || expert.number;
}

// Returns "--mesh dp=16,tp=2 --view experts:ep=8,edp=4": the same devices, with
// the size of `axis` moved to an axis of data parallelism of the mesh. Returns
// "" if the pipeline's axis is neither first nor last, since only there can a
// view have it in the same place.
std::string flags_with_view(const LintInput& input, const AxisName& axis) {
  const Mesh& mesh = input.plan.mesh;
  const int64_t size = mesh.size_of(axis);
  const AxisName& stages = input.options.pipeline_axis;
  std::vector<Axis> axes;
  for (const Axis& each : mesh.axes()) {
    if (each.name != axis) axes.push_back(each);
  }
  auto grown = std::ranges::find_if(axes, is_gathered_axis, &Axis::name);
  if (grown == axes.end()) {
    grown = std::ranges::find_if(axes, is_data_axis, &Axis::name);
  }
  if (grown != axes.end()) {
    grown->size *= size;
  } else {
    const bool is_staged = !axes.empty() && axes.front().name == stages;
    axes.insert(axes.begin() + (is_staged ? 1 : 0), {"dp", size});
  }
  int64_t copies = 1;
  bool has_storage = false;
  for (const Axis& each : axes) {
    if (each.name == stages) continue;
    if (is_data_axis(each.name)) {
      copies *= each.size;
    } else if (is_gathered_axis(each.name)) {
      has_storage = true;
    }
  }
  const bool is_staged = mesh.find(stages).has_value();
  const int64_t within =
      mesh.devices() / (is_staged ? mesh.size_of(stages) : 1) / size;
  std::vector<Axis> view = {{axis, size}};
  // Parameters that are stored in shards remain so.
  if (has_storage && within > 1) {
    const int64_t shared = within % copies == 0 ? copies : 1;
    if (shared > 1) view.push_back({"edp", shared});
    view.push_back({"efsdp", within / shared});
  } else if (within > 1) {
    view.push_back({"edp", within});
  }
  if (is_staged) {
    const Axis of_stages = {stages, mesh.size_of(stages)};
    if (axes.front().name == stages) {
      view.insert(view.begin(), of_stages);
    } else if (axes.back().name == stages) {
      view.push_back(of_stages);
    } else {
      return {};
    }
  }
  return "--mesh " + axes_text(axes) + " --view experts:" + axes_text(view);
}

}  // namespace

bool is_placed_over(const Plan& plan, std::string_view view) {
  return std::ranges::any_of(plan.placements, [&](const Placement& placement) {
    return placement.view == view;
  });
}

std::string view_with_axis(const Mesh& mesh, const AxisName& axis) {
  return std::string(mesh.view_of({axis}).value_or(""));
}

bool is_view_of_rules(const LintInput& input, const std::string& view) {
  return views_of_rules(input).contains(view);
}

void help_with_view(const LintInput& input, const MeshView& view,
                    Diagnostics::Builder& report) {
  const std::set<std::string> known = views_of_rules(input);
  const std::string flag = view.name + ":" + axes_text(view.axes);
  if (known.contains(view.name)) {
    report.help(
        "its rules match no parameter of this model: leave out `--view " +
        flag + "`");
    return;
  }
  for (const std::string& other : known) {
    report.help("the rules are for view `" + other + "`: write `--view " +
                other + ":" + axes_text(view.axes) + "`");
  }
  if (known.empty()) {
    report.help("write rules with `view: " + view.name +
                "`, or leave out `--view " + flag + "`");
  }
}

void report_axes_of_views(const LintInput& input, Diagnostics& diags) {
  const Plan& plan = input.plan;
  for (size_t i = 0; i < plan.rules.size(); ++i) {
    const PlanRule& rule = plan.rules[i];
    // Shipped rules name `ep` for meshes without a view.
    if (rule.shipped || rule.decided == 0 || !rule.view.empty()) continue;
    for (size_t dim = 0; dim < rule.spec.dims.size(); ++dim) {
      for (const AxisName& axis : rule.spec.dims[dim]) {
        const std::string view = view_with_axis(plan.mesh, axis);
        if (view.empty() || !contains(plan.declared_axes, axis)) continue;
        const int number = static_cast<int>(i) + 1;
        auto report = diags.report(
            Code::AbsentAxis, spec_span(input, number, static_cast<int>(dim)),
            "`" + axis + "` is declared for the mesh, but only view `" + view +
                "` has it: counted as size 1");
        report.about({number, static_cast<int>(dim), ""});
        report.help("write the rule as `{pattern: .., view: " + view +
                    ", spec: ..}` if you mean the axis of the view");
      }
    }
  }
}

void check_unused_views(const LintInput& input, Diagnostics& diags) {
  if (input.naming.of_names || input.naming.of_labels) return;
  for (const MeshView& view : input.plan.mesh.views()) {
    const bool is_said =
        std::ranges::any_of(input.naming.axes, [&](const auto& each) {
          return view_with_axis(input.plan.mesh, each.axis) == view.name;
        });
    if (is_said || is_placed_over(input.plan, view.name)) continue;
    auto report =
        diags.report(Code::UnusedAxis, {},
                     "no parameter is placed over view `" + view.name + "`");
    report.fact("its axes are " + axes_text(view.axes));
    help_with_view(input, view, report);
  }
}

void report_uneven_dealing(const LintInput& input, Diagnostics& diags) {
  // All experts of a layer along one axis are one finding.
  std::set<std::pair<AxisName, int64_t>> said;
  for (size_t i = 0; i < input.plan.placements.size(); ++i) {
    const Placement& placement = input.plan.placements[i];
    if (!placement.dealt) continue;
    const ExpertPlacement& dealt = *placement.dealt;
    if (dealt.experts % dealt.size == 0 ||
        !said.insert({dealt.axis, dealt.experts}).second) {
      continue;
    }
    const int64_t most = ceil_div(dealt.experts, dealt.size);
    const int64_t least = dealt.experts / dealt.size;
    std::vector<std::string> names;
    int64_t count = 0;
    for (size_t other = i; other < input.plan.placements.size(); ++other) {
      const auto& same = input.plan.placements[other].dealt;
      if (!same || same->axis != dealt.axis || same->experts != dealt.experts) {
        continue;
      }
      const auto members = input.of_placement.of(other);
      count += count_of(input, members);
      append_names(input.manifest, members, names);
    }
    auto report =
        diags.report(Code::UnevenShards, asked_span(input, placement, 0),
                     plural(dealt.experts, "expert") +
                         " are distributed unevenly over axis `" + dealt.axis +
                         "` of size " + std::to_string(dealt.size));
    report.about({placement.rule, -1, ""});
    if (input.summary == nullptr) {
      report.fact("ranks hold " + std::to_string(most) + " or " +
                  std::to_string(least) + " experts of each layer, including " +
                  names_text(names));
      report.fact(
          "Megatron and transformers reject this size; vLLM gives the first "
          "ranks one more expert");
      const std::vector<int64_t> sizes = common_divisors(
          dealt.experts, dealt.experts, input.plan.mesh.devices());
      report.help("`" + dealt.axis + "` may be " +
                  list_text(sizes, sizes.size()));
    }
    report.parameters(std::move(names)).findings(count);
  }
}

void check_expert_axes(const LintInput& input, Diagnostics& diags) {
  const Plan& plan = input.plan;
  if (!plan.mesh.views().empty()) return;
  for (const Axis& axis : plan.mesh.axes()) {
    if (axis.size == 1 || !contains(kExpertAxes, axis.name) ||
        axis.name == input.options.pipeline_axis ||
        contains(input.options.named_axes, axis.name) ||
        shards_batch(input, axis.name)) {
      continue;
    }
    std::vector<std::string> names;
    for (size_t i = 0; i < input.folding.classes.size(); ++i) {
      const ParameterClass& c = input.folding.classes[i];
      const Placement& placement = plan.placements[c.kind];
      const bool is_on =
          contains(axes_in(placement.spec), axis.name) ||
          (placement.dealt && placement.dealt->axis == axis.name);
      if (!is_on || !is_of_experts(input.manifest.name(c.first))) continue;
      append_names(input.manifest, input.of_class.of(i), names);
    }
    if (names.empty()) continue;
    auto report = diags.report(
        Code::ExpertsBesideBatch, {},
        "axis `" + axis.name + "` shards experts but not the batch");
    report.about({0, -1, axis.name});
    if (input.summary != nullptr) continue;
    report.fact(
        "every device along it has the same tokens, so weights are gathered or "
        "outputs all-reduced, instead of the all-to-alls of expert "
        "parallelism: " +
        names_text(names));
    const std::string flags = flags_with_view(input, axis.name);
    const bool knows_views =
        input.rules != nullptr && input.rules->view_axes.contains("experts");
    if (flags.empty()) {
      report.help("remove `" + axis.name +
                  "` from `--mesh`, and give experts their own view with "
                  "`--view experts:" +
                  axis.name + "=N,..`");
    } else if (knows_views) {
      report.help("write `" + flags +
                  "`: the same devices, with tokens sent to their experts");
    } else {
      report.help("write `" + flags +
                  "`, with rules that have `view: experts` for the experts");
    }
    report.help("or name `" + axis.name +
                "` in `--batch-axes` if it also shards the batch");
  }
}

}  // namespace shardplan
