// SPDX-License-Identifier: Apache-2.0
// Reads a request's rules and views, and the degrees of expert parallelism that
// frameworks use.
#include "session/plan_request.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "core/mesh.h"
#include "evaluate/step.h"
#include "findings/findings.h"
#include "model/units.h"

namespace shardplan {

RuleReading rule_reading(const PlanRequest& request) {
  RuleReading reading{request.table, request.axes, request.answers,
                      request.state_rules_ask || request.other_side_asks};
  if (!reading.axes.empty() || request.mesh == nullptr) return reading;
  // The mesh names the axes for files that name none, as `fsdp=4`. Errors in it
  // are reported when the mesh is made.
  Diagnostics ignored;
  const auto mesh = parse_mesh_text(*request.mesh, ignored);
  for (const AxisRequest& axis : mesh.value_or(std::vector<AxisRequest>())) {
    reading.axes.push_back(axis.name + "=" + std::to_string(axis.size));
  }
  return reading;
}

namespace {

// A framework's names for its degrees, and its order of axes.
struct ExpertFramework {
  std::string_view title;
  std::string_view experts_flag;
  std::string_view tensor_flag;
  std::string_view axes;    // major to minor
  std::string_view region;  // the devices that the degrees divide
};
constexpr ExpertFramework kMegatron = {
    "Megatron", "--expert-model-parallel-size", "--expert-tensor-parallel-size",
    "pp, dp, cp and tp", "of a stage"};
constexpr ExpertFramework kTorchtitan = {
    "torchtitan", "--expert-parallel-degree", "--expert-tensor-parallel-degree",
    "pp, dp_replicate, dp_shard, cp and tp", "along dp_shard x cp x tp"};

// The kinds of axes, from major to minor in both frameworks.
enum class AxisPlace : uint8_t { Stages, Copies, Storage, Tokens, Tensor };

std::optional<AxisPlace> place_of_axis(const AxisName& axis) {
  if (is_pipeline_axis(axis)) return AxisPlace::Stages;
  if (is_data_axis(axis)) return AxisPlace::Copies;
  if (is_gathered_axis(axis)) return AxisPlace::Storage;
  if (axis == "cp" || axis == "sp") return AxisPlace::Tokens;
  if (is_tensor_axis(axis)) return AxisPlace::Tensor;
  return std::nullopt;
}

// Returns the axes of the mesh larger than 1, each with its place. Empty, with
// the reason reported, if they are not the framework's.
std::optional<std::vector<std::pair<AxisPlace, Axis>>> placed_axes(
    const ExpertFramework& framework, const Mesh& mesh, Diagnostics& diags) {
  std::vector<std::pair<AxisPlace, Axis>> placed;
  const std::string title(framework.title);
  const std::string axes(framework.axes);
  for (const Axis& axis : mesh.axes()) {
    if (axis.size == 1) continue;
    const auto place = place_of_axis(axis.name);
    if (!place) {
      return diags
          .error(
              Code::Usage, {},
              title + " has no axis `" + axis.name + "`: its axes are " + axes)
          .fact("the mesh is " + mesh_text(mesh))
          .help(
              "leave out its flags and set the expert axes with `--view "
              "experts:..`");
    }
    placed.emplace_back(*place, axis);
  }
  constexpr auto kPlace = &std::pair<AxisPlace, Axis>::first;
  if (std::ranges::is_sorted(placed, {}, kPlace)) return placed;
  std::ranges::stable_sort(placed, {}, kPlace);
  std::vector<Axis> sorted;
  for (const auto& [place, axis] : placed) sorted.push_back(axis);
  return diags
      .error(Code::Usage, {},
             title + " orders devices by " + axes + ", but the mesh is " +
                 mesh_text(mesh))
      .help("write `--mesh " + axes_text(sorted) + "`");
}

// Returns "`--expert-parallel-degree 8` and `--expert-tensor-parallel-degree
// 2`".
std::string flags_text(const ExpertFramework& framework,
                       const ExpertDegrees& degrees) {
  std::vector<std::string> flags;
  const auto add = [&](std::string_view flag, std::optional<int64_t> degree) {
    if (!degree) return;
    flags.push_back(std::string(flag) + " " + std::to_string(*degree));
  };
  add(framework.experts_flag, degrees.experts);
  add(framework.tensor_flag, degrees.tensor);
  return quoted_names(flags);
}

// The degrees on a mesh, and the problems with them.
struct DegreesOnMesh {
  const ExpertFramework& framework;
  int64_t ep = 1;
  int64_t etp = 1;
  int64_t tp = 1;      // of the mesh
  int64_t region = 1;  // devices that both divide
  int64_t within = 1;  // of `region`, those left for ep
  std::vector<std::string> problems = {};
  std::vector<std::string> helps = {};

  std::string devices() const {
    return plural(region, "device") + " " + std::string(framework.region);
  }
  void refuse(std::string what, const std::string& by) {
    problems.push_back(std::move(what) + " are not divisible by " + by);
  }
  void may_be(std::string_view flag, const std::vector<int64_t>& legal,
              const std::string& why = "") {
    helps.push_back("`" + std::string(flag) + "` may be " +
                    list_text(legal, legal.size()) + why);
  }
};

void check_tensor_degree(DegreesOnMesh& of) {
  of.within = of.region;
  const std::string_view flag = of.framework.tensor_flag;
  if (&of.framework == &kTorchtitan && of.etp != 1 && of.etp != of.tp) {
    of.problems.push_back("experts are sharded over 1 device or over `tp` (" +
                          std::to_string(of.tp) + "), not over " +
                          std::to_string(of.etp));
    of.helps.push_back("`" + std::string(flag) + "` may be 1" +
                       (of.tp > 1 ? " or " + std::to_string(of.tp) : ""));
  } else if (of.region % of.etp != 0) {
    of.refuse(of.devices(), std::to_string(of.etp));
    of.may_be(flag, common_divisors(of.region, of.region, of.region));
  } else {
    of.within /= of.etp;
  }
}

void check_expert_degree(DegreesOnMesh& of, std::optional<int64_t> experts,
                         bool tensor_is_default) {
  const bool divides_devices = of.within % of.ep == 0;
  const bool divides_experts = !experts || *experts % of.ep == 0;
  if (divides_devices && divides_experts) return;
  const std::string ep = std::to_string(of.ep);
  const bool is_cut = of.within != of.region;
  if (!divides_devices) {
    of.refuse(
        of.devices(),
        is_cut ? ep + " x " + std::to_string(of.etp) + " (ep x etp)" : ep);
  }
  if (!divides_experts) of.refuse(plural(*experts, "expert"), ep);
  of.may_be(of.framework.experts_flag,
            common_divisors(of.within, experts.value_or(of.within), of.within),
            experts ? " (divisors of " + count_text(of.region) +
                          (is_cut ? " / " + count_text(of.etp) : "") +
                          " devices and of " + plural(*experts, "expert") + ")"
                    : "");
  if (is_cut && tensor_is_default && divides_experts &&
      of.region % of.ep == 0) {
    of.helps.push_back("or add `" + std::string(of.framework.tensor_flag) +
                       " 1`: without it experts are also sharded over `tp`");
  }
}

}  // namespace

bool is_named_in_rules(const RuleSet& rules, const AxisName& axis) {
  const auto names_it = [&](const AxisNames& axes) {
    return contains(axes, axis);
  };
  return std::ranges::any_of(rules.rules,
                             [&](const Rule& rule) {
                               return std::ranges::any_of(rule.spec.dims,
                                                          names_it);
                             }) ||
         std::ranges::any_of(rules.logical_rules, names_it, &LogicalRule::axes);
}

std::vector<std::string> asked_views(const PlanRequest& request) {
  std::vector<std::string> names;
  for (const SourcePtr& text : request.views) {
    const std::string_view view = text->text();
    names.emplace_back(view.substr(0, view.find(':')));
  }
  const bool titan = request.torchtitan.experts.value_or(1) > 1;
  if (request.megatron.given() || titan) names.emplace_back(kExpertView);
  return names;
}

std::optional<ViewRequest> expert_view(const PlanRequest& request,
                                       const Mesh& mesh,
                                       std::optional<int64_t> experts,
                                       Diagnostics& diags) {
  ViewRequest view{std::string(kExpertView), {}, {}, {}};
  const bool titan = request.torchtitan.given();
  if (!request.asks_experts()) return view;
  if (titan && request.megatron.given()) {
    return diags
        .error(Code::Usage, {},
               "expert parallelism is given in flags of both Megatron and "
               "torchtitan")
        .fact(flags_text(kMegatron, request.megatron))
        .fact(flags_text(kTorchtitan, request.torchtitan))
        .help("use the flags of one framework");
  }
  const ExpertFramework& framework = titan ? kTorchtitan : kMegatron;
  const ExpertDegrees& asked = titan ? request.torchtitan : request.megatron;
  DegreesOnMesh of{framework, asked.experts.value_or(1)};
  if (titan && of.ep == 1) {
    if (asked.tensor.value_or(1) == 1) return view;
    return diags
        .error(Code::Usage, {},
               "torchtitan ignores " + flags_text(kTorchtitan, asked) +
                   " without expert parallelism")
        .help("also give `--expert-parallel-degree`");
  }
  const auto placed = placed_axes(framework, mesh, diags);
  if (!placed) return std::nullopt;
  const auto add = [&](const AxisName& name, int64_t size) {
    view.axes.push_back({name, size, {}, {}, {}});
  };
  std::string copies;  // an axis that may not be meant as dp_replicate
  for (const auto& [place, axis] : *placed) {
    const bool is_replicated = titan && place == AxisPlace::Copies;
    if (place == AxisPlace::Stages || is_replicated) {
      add(axis.name, axis.size);
    } else {
      of.region *= axis.size;
    }
    if (place == AxisPlace::Tensor) of.tp *= axis.size;
    if (is_replicated && axis.name != "dp_replicate") copies = axis.name;
  }
  of.etp = asked.tensor.value_or(titan ? 1 : of.tp);
  check_tensor_degree(of);
  check_expert_degree(of, experts, !asked.tensor);
  if (of.problems.empty()) {
    add(titan ? "efsdp" : "edp", of.within / of.ep);
    add("ep", of.ep);
    if (!titan || of.etp > 1) add("etp", of.etp);
    return view;
  }
  if (!copies.empty() && of.within % of.ep != 0) {
    of.helps.push_back(
        "`" + copies +
        "` counts as dp_replicate, which holds replicas: call it `fsdp` or "
        "`dp_shard` if weights are sharded over it");
  }
  auto report = diags.error(Code::Usage, {},
                            std::string(framework.title) + " rejects " +
                                flags_text(framework, asked) + ": " +
                                of.problems.front());
  for (size_t i = 1; i < of.problems.size(); ++i) report.fact(of.problems[i]);
  report.fact("the mesh is " + mesh_text(mesh));
  for (std::string& help : of.helps) report.help(std::move(help));
  return report;
}

NameReading name_reading(const PlanRequest& request) {
  return {request.mode, request.fallback, request.flax};
}

ResolveOptions resolve_options(const PlanRequest& request, Host& host) {
  ResolveOptions how;
  how.min_size = request.min_size;
  how.on_indivisible = request.on_indivisible.value_or(
      request.cuts_rows ? OnIndivisible::Rows : OnIndivisible::Drop);
  how.strict = request.strict;
  how.declarations = request.declarations;
  how.names = name_reading(request);
  how.auto_unmatched = request.unmatched == Unmatched::Auto;
  how.parity = request.parity;
  how.jobs = request.jobs > 0 ? request.jobs : host.processors();
  return how;
}

LintOptions lint_options(const PlanRequest& request) {
  LintOptions how{request.tolerance, request.max_replicated,
                  request.unmatched != Unmatched::Error};
  how.verbose = request.verbose;
  return how;
}

}  // namespace shardplan
