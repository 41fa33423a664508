// SPDX-License-Identifier: Apache-2.0
// Findings about axes of the mesh that the rules do not use, and axes of the
// rules that the mesh lacks.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "findings/checks.h"
#include "findings/findings.h"
#include "model/units.h"
#include "resolve/correct.h"
#include "resolve/resolve.h"

namespace shardplan {
namespace {

using UnmentionedAxis = NamingMismatch::UnmentionedAxis;

// Names for the same kind of parallelism, one kind per row.
constexpr std::array<std::array<std::string_view, 6>, 6> kAlike = {{
    {"tp", "tensor", "model", "mp", "tensor_parallel", "mdl"},
    {"dp", "data", "replica", "batch", "data_parallel", "ddp"},
    {"fsdp", "data", "zero", "shard", "dp_shard", "fully_sharded"},
    {"ep", "expert", "experts", "expert_parallel", "moe", "ep_shard"},
    {"sp", "seq", "sequence", "context", "cp", "context_parallel"},
    {"pp", "stage", "pipe", "pipeline", "pipeline_parallel", "stages"},
}};

// Returns the axis of the rules that the mesh seems to name differently; or "".
AxisName meant_axis(const AxisNames& absent, const AxisName& axis) {
  constexpr size_t kShortest = 3;  // any two letters are near any others
  bool is_word = false;
  for (const auto& words : kAlike) {
    if (!contains(words, axis)) continue;
    is_word = true;
    for (const AxisName& name : absent) {
      if (contains(words, name)) return name;
    }
  }
  if (is_word || axis.text().size() < kShortest) return "";
  return nearest(axis, texts_of(absent)).value_or("");
}

// Returns whether one of the unknown axes may be a misspelling of `axis`. That
// is reported as an unknown axis (SP201), with the nearest name.
bool is_misspelled(const AxisName& axis, const AxisNames& unknown) {
  const std::vector<std::string> known = {axis};
  return !meant_axis(unknown, axis).empty() ||
         std::ranges::any_of(unknown, [&](const AxisName& name) {
           return nearest(name, known).has_value();
         });
}

// Returns the names that the mesh lacks.
AxisNames lacking(const Mesh& mesh, AxisNames names) {
  erase_if(names, [&](const AxisName& name) { return mesh.find(name); });
  return names;
}

// Returns "fsdp=4,tp=2", with one axis renamed.
std::string renamed_text(std::vector<Axis> axes, const AxisName& from,
                         const AxisName& to) {
  for (Axis& axis : axes) {
    if (axis.name == from) axis.name = to;
  }
  return axes_text(axes);
}

// Adds facts and help about an axis of a view.
void report_unmentioned_of_view(const LintInput& input,
                                const UnmentionedAxis& unmentioned,
                                Diagnostics::Builder& report) {
  const auto& [axis, meant] = unmentioned;
  const std::string name = view_with_axis(input.plan.mesh, axis);
  const bool is_used = is_placed_over(input.plan, name);
  report.fact(is_used ? "parameters placed over the view are replicated " +
                            std::to_string(input.plan.mesh.size_of(axis)) +
                            " times over " + in_backticks(axis)
                      : "no parameter is placed over the view");
  if (!meant.empty()) {
    report.help("write `--view " + name + ":" +
                renamed_text(input.plan.mesh.axes_of(name), axis, meant) + "`");
  } else if (!is_used) {
    help_with_view(input, {name, input.plan.mesh.axes_of(name)}, report);
  } else {
    report.help("use " + in_backticks(axis) + " in a rule with `view: " + name +
                "`, or declare it with `--axes " + axis +
                "` if it only holds replicas");
  }
  report.about({0, -1, ""});
}

void report_unmentioned(const LintInput& input,
                        const UnmentionedAxis& unmentioned,
                        Diagnostics& diags) {
  const auto& [axis, meant] = unmentioned;
  const Mesh& mesh = input.plan.mesh;
  const AxisNames named = axes_in_specs(input.plan);
  const std::string used =
      named.empty() ? "the rules declare " +
                          quoted_list(texts_of(input.plan.declared_axes))
                    : "the rules use " + quoted_list(texts_of(named));
  const std::string view = view_with_axis(mesh, axis);
  const std::string who = named_view(view);
  auto report = diags.report(
      Code::UnmentionedAxis, {},
      !meant.empty() ? used + "; " + who + " has " + in_backticks(axis) +
                           ": did you mean " + in_backticks(meant) + "?"
                     : who + " has axis " + in_backticks(axis) +
                           ", which the rules neither use nor declare");
  if (meant.empty()) report.fact(used);
  if (!view.empty()) {
    return report_unmentioned_of_view(input, unmentioned, report);
  }
  report.fact("every parameter is replicated " +
              std::to_string(mesh.size_of(axis)) + " times over " +
              in_backticks(axis) + ": " + bytes_text(input.memory.max) +
              " per device");
  report.bytes(static_cast<double>(input.memory.max));
  if (!meant.empty()) {
    report.help("write `--mesh " + renamed_text(mesh.axes(), axis, meant) +
                "`");
  } else if (!is_data_axis(axis)) {
    report.help(help_to_name(input, axis));
  }
  const bool is_ours = form_of(input) == nullptr;
  report.help("declare it with `--axes " + axis + "`" +
              (is_ours ? " or under `axes:` in the rules" : "") +
              " if it is only for data parallelism");
  const bool is_free = meant.empty() && !is_data_axis(axis);
  report.about({0, -1, is_free ? axis : ""});
}

// Reports declared axes that a spec names and the mesh lacks, what they count
// as, and what other frameworks do.
void report_absent(const LintInput& input, bool misnamed, Diagnostics& diags) {
  const Plan& plan = input.plan;
  const RuleForm* const form = form_of(input);
  const bool is_sized = form != nullptr && form->sizes_declared;
  if (is_sized && !input.options.verbose) return;
  AxisNames present = plan.declared_axes;
  erase_if(present,
           [&](const AxisName& axis) { return !plan.mesh.find(axis); });
  const bool labels_are_shipped =
      input.rules != nullptr &&
      std::ranges::all_of(input.rules->logical_rules, &LogicalRule::shipped);
  AxisNames absent;
  int64_t parameters = 0;
  Int128 more = 0;
  for (size_t i = 0; i < plan.placements.size(); ++i) {
    const Placement& placement = plan.placements[i];
    const bool in_view = !requested_view(plan, placement).empty();
    if (in_view || !placement.requested) continue;  // eFormer, JAX: no views
    // Shipped rules name axes for every mesh.
    const bool is_shipped = placement.rule > 0
                                ? rule_of(plan, placement.rule).shipped
                                : labels_are_shipped;
    if (is_shipped && !input.options.verbose) continue;
    const auto& dims = placement.requested_spec().dims;
    const size_t rank = placement.type.shape.size();
    bool lacks = false;
    for (size_t dim = 0; dim < std::min(rank, dims.size()); ++dim) {
      for (const AxisName& axis : dims[dim]) {
        if (plan.mesh.find(axis) || !contains(plan.declared_axes, axis)) {
          continue;
        }
        lacks = true;
        if (!contains(absent, axis)) absent.push_back(axis);
      }
    }
    if (!lacks) continue;
    Placement other = placement;
    other.spec =
        corrected_again(plan, placement, present, plan.on_indivisible).spec;
    measure(other, plan.mesh, plan.on_indivisible);
    const int64_t count = std::ssize(input.of_placement.of(i));
    parameters += count;
    more += static_cast<Int128>(other.bytes_per_device -
                                placement.bytes_per_device) *
            most_held(placement.dealt, count);
  }
  if (absent.empty()) return;
  auto report =
      diags.report(Code::AbsentAxis, {},
                   "the mesh lacks " + quoted_list(texts_of(absent)) +
                       ", which the rules declare: counted as size 1");
  report.fact(
      (parameters == 1
           ? std::string("the spec of 1 parameter names ")
           : "the specs of " + plural(parameters, "parameter") + " name ") +
      (absent.size() == 1 ? "it" : "them") +
      "; eFormer would replicate these dimensions" +
      (more == 0 ? "" : " (+" + bytes_text(more) + " per device)") +
      "; JAX would reject the specs");
  if (misnamed) return;  // the mesh has to be changed anyway
  std::string mesh = mesh_text(plan.mesh);
  for (const AxisName& axis : absent) mesh += "," + axis + "=1";
  report.help("`--mesh " + mesh +
              "` is the same plan, and every tool reads it alike");
}

}  // namespace

std::vector<UnmentionedAxis> unmentioned_axes(const LintInput& input) {
  std::vector<UnmentionedAxis> all;
  const Plan& plan = input.plan;
  const LintOptions& options = input.options;
  const AxisNames named = axes_in_specs(plan);
  // Rules that shard nothing at all leave every axis unused.
  if (named.empty() && plan.declared_axes.empty()) return all;
  const AxisNames declared = lacking(plan.mesh, plan.declared_axes);
  AxisNames unknown = lacking(plan.mesh, named);
  erase_if(unknown, [&](const AxisName& axis) {
    return contains(plan.declared_axes, axis);
  });
  for (const Axis& axis : plan.mesh.all_axes()) {
    if (axis.size == 1 || contains(named, axis.name) ||
        contains(plan.declared_axes, axis.name) ||
        contains(options.named_axes, axis.name) ||
        contains(options.zero_axes, axis.name) ||
        axis.name == options.pipeline_axis) {
      continue;
    }
    const bool shards = std::ranges::any_of(
        plan.placements,
        [&](const auto& p) { return contains(axes_in(p.spec), axis.name); });
    if (shards || is_misspelled(axis.name, unknown)) continue;
    // A view that places nothing is one finding, not one for each axis, unless
    // the rules use another name for the axis.
    const std::string view = view_with_axis(plan.mesh, axis.name);
    const AxisName meant = view.empty() || is_view_of_rules(input, view)
                               ? meant_axis(declared, axis.name)
                               : AxisName();
    const bool is_said =
        !view.empty() && meant.empty() && !is_placed_over(plan, view) &&
        std::ranges::any_of(all, [&](const UnmentionedAxis& each) {
          return view_with_axis(plan.mesh, each.axis) == view;
        });
    if (!is_said) all.push_back({axis.name, meant});
  }
  return all;
}

void check_mesh_axes(const LintInput& input, Diagnostics& diags) {
  bool misnamed = false;
  for (const auto& unmentioned : input.naming.axes) {
    report_unmentioned(input, unmentioned, diags);
    misnamed = misnamed || !unmentioned.in_rules.empty();
  }
  report_absent(input, misnamed, diags);
  report_axes_of_views(input, diags);
}

}  // namespace shardplan
