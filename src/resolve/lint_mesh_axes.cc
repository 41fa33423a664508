// SPDX-License-Identifier: Apache-2.0
#include "resolve/lint_mesh_axes.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "base/text.h"
#include "resolve/correct.h"
#include "resolve/resolve.h"

namespace shardplan {
namespace {

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string quoted(std::string_view text) {
  return "`" + printable(text) + "`";
}

// Words for the same kind of parallelism.
constexpr std::array<std::array<std::string_view, 6>, 6> kAlike = {{
    {"tp", "tensor", "model", "mp", "tensor_parallel", "mdl"},
    {"dp", "data", "replica", "batch", "data_parallel", "ddp"},
    {"fsdp", "data", "zero", "shard", "dp_shard", "fully_sharded"},
    {"ep", "expert", "experts", "expert_parallel", "moe", "ep_shard"},
    {"sp", "seq", "sequence", "context", "cp", "context_parallel"},
    {"pp", "stage", "pipe", "pipeline", "pipeline_parallel", "stages"},
}};

bool is_for_copies(const AxisName& axis) {
  return axis == "dp" || axis == "data" || axis == "replica" || axis == "batch";
}

// The axis of the rules that the mesh seems to call otherwise; empty for none.
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
  if (is_word || axis.size() < kShortest) return "";
  return nearest(axis, absent).value_or("");
}

// Whether one of these, which neither the mesh nor a declaration has, may be
// meant to be `axis`: that is told as an unknown axis (SP201), and by what is
// near to it there.
bool is_misspelt(const AxisName& axis, const AxisNames& unknown) {
  const AxisNames known = {axis};
  return !meant_axis(unknown, axis).empty() ||
         std::any_of(unknown.begin(), unknown.end(), [&](const AxisName& name) {
           return nearest(name, known).has_value();
         });
}

// The names that the mesh lacks.
AxisNames lacking(const Mesh& mesh, AxisNames names) {
  std::erase_if(names, [&](const AxisName& name) { return mesh.find(name); });
  return names;
}

std::string renamed_mesh(const Mesh& mesh, const AxisName& from,
                         const AxisName& to) {
  std::vector<Axis> axes = mesh.axes();
  for (Axis& axis : axes) {
    if (axis.name == from) axis.name = to;
  }
  return mesh_text(Mesh(std::move(axes)));
}

void report_unmentioned(const LintInput& input,
                        const Meeting::Unmentioned& unmentioned,
                        Diagnostics& diags) {
  const auto& [axis, meant] = unmentioned;
  const Mesh& mesh = input.plan.mesh;
  const AxisNames named = axes_in_specs(input.plan);
  const std::string used =
      named.empty()
          ? "the rules declare " + quoted_list(input.plan.declared_axes)
          : "the rules use " + quoted_list(named);
  auto report =
      diags.report(Code::UnmentionedAxis, {},
                   !meant.empty() ? used + "; the mesh has " + quoted(axis) +
                                        ": did you mean " + quoted(meant) + "?"
                                  : "the rules neither name nor declare " +
                                        quoted(axis) + ", which the mesh has");
  if (meant.empty()) report.fact(used);
  report.fact(
      "every parameter is stored " + std::to_string(mesh.size_of(axis)) +
      " times over " + quoted(axis) + ": " +
      bytes_text(static_cast<double>(input.memory.max)) + " per device");
  if (!meant.empty()) {
    report.help("write `--mesh " + renamed_mesh(mesh, axis, meant) + "`");
  } else if (!is_for_copies(axis)) {
    report.help("name " + quoted(axis) + " in a rule");
  }
  report.help("declare it with `--axes " + axis +
              "`, or below `axes:` in the rules, where it is for data "
              "parallelism alone");
  const bool is_free = meant.empty() && !is_for_copies(axis);
  report.about({0, -1, is_free ? axis : ""});
}

// Declared axes that a spec names and the mesh lacks, what they are counted as,
// and what others make of them.
void report_absent(const LintInput& input, bool misnamed, Diagnostics& diags) {
  const Plan& plan = input.plan;
  AxisNames present = plan.declared_axes;
  std::erase_if(present,
                [&](const AxisName& axis) { return !plan.mesh.find(axis); });
  AxisNames absent;
  int64_t parameters = 0;
  Int128 more = 0;
  for (size_t i = 0; i < plan.placements.size(); ++i) {
    const Placement& placement = plan.placements[i];
    if (!placement.requested) continue;
    const auto& dims = placement.asked().dims;
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
    other.spec = correct(placement.asked(), stored_shape(placement), plan.mesh,
                         present, plan.on_indivisible)
                     .spec;
    measure(other, plan.mesh, plan.on_indivisible);
    const auto count = static_cast<int64_t>(input.of_placement.of(i).size());
    parameters += count;
    more += static_cast<Int128>(other.bytes_per_device -
                                placement.bytes_per_device) *
            count;
  }
  if (absent.empty()) return;
  auto report =
      diags.report(Code::AbsentAxis, {},
                   "the mesh lacks " + quoted_list(absent) +
                       ", which the rules declare: counted as size 1");
  report.fact(
      (parameters == 1
           ? std::string("the spec of 1 parameter names ")
           : "the specs of " + plural(parameters, "parameter") + " name ") +
      (absent.size() == 1 ? "it" : "them") +
      "; eFormer would leave such dimensions whole, " +
      (more == 0
           ? ""
           : bytes_text(static_cast<double>(more)) + " more per device, ") +
      "and JAX refuse such specs");
  report.findings(1);
  if (misnamed) return;  // the mesh is to be written anew anyway
  std::string mesh = mesh_text(plan.mesh);
  for (const AxisName& axis : absent) mesh += "," + axis + "=1";
  report.help("`--mesh " + mesh + "` is the same plan, and read alike by all");
}

}  // namespace

std::string quoted_list(const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, names.size()); ++i) {
    text += (i == 0 ? "" : ", ") + quoted(names[i]);
  }
  return names.size() > kShown ? text + ", .." : text;
}

std::vector<Meeting::Unmentioned> unmentioned_axes(const LintInput& input) {
  std::vector<Meeting::Unmentioned> all;
  const Plan& plan = input.plan;
  const LintOptions& options = input.options;
  const AxisNames named = axes_in_specs(plan);
  // Rules that shard nothing at all say so for every axis.
  if (named.empty() && plan.declared_axes.empty()) return all;
  const AxisNames declared = lacking(plan.mesh, plan.declared_axes);
  AxisNames unknown = lacking(plan.mesh, named);
  std::erase_if(unknown, [&](const AxisName& axis) {
    return contains(plan.declared_axes, axis);
  });
  for (const Axis& axis : plan.mesh.axes()) {
    if (axis.size == 1 || contains(named, axis.name) ||
        contains(plan.declared_axes, axis.name) ||
        contains(options.named_axes, axis.name) ||
        contains(options.zero_axes, axis.name) ||
        axis.name == options.pipeline_axis) {
      continue;
    }
    const bool shards = std::any_of(
        plan.placements.begin(), plan.placements.end(), [&](const auto& p) {
          return std::any_of(
              p.spec.dims.begin(), p.spec.dims.end(),
              [&](const AxisNames& axes) { return contains(axes, axis.name); });
        });
    if (shards || is_misspelt(axis.name, unknown)) continue;
    all.push_back({axis.name, meant_axis(declared, axis.name)});
  }
  return all;
}

void lint_mesh_axes(const LintInput& input, Diagnostics& diags) {
  bool misnamed = false;
  for (const auto& unmentioned : input.meeting.unmentioned) {
    report_unmentioned(input, unmentioned, diags);
    misnamed = misnamed || !unmentioned.meant.empty();
  }
  report_absent(input, misnamed, diags);
}

}  // namespace shardplan
