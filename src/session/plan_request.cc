// SPDX-License-Identifier: Apache-2.0
#include "session/plan_request.h"

#include <string>
#include <vector>

#include "base/checked.h"
#include "base/text.h"
#include "core/mesh.h"
#include "model/units.h"

namespace shardplan {

RuleReading rule_reading(const PlanRequest& request) {
  RuleReading reading{request.table, request.axes, request.answers,
                      request.state_rules_ask || request.other_side_asks};
  if (!reading.axes.empty() || request.mesh == nullptr) return reading;
  // A mesh has names for files that give none, as `fsdp=4`. What is wrong with
  // it is reported where it is made.
  Diagnostics ignored;
  const auto mesh = parse_mesh_text(*request.mesh, ignored);
  for (const AxisRequest& axis : mesh.value_or(std::vector<AxisRequest>())) {
    reading.axes.push_back(axis.name + "=" + std::to_string(axis.size));
  }
  return reading;
}

bool asks_for_expert_view(const PlanRequest& request) {
  return request.expert_parallel || request.expert_tensor_parallel;
}

std::optional<ViewRequest> expert_view(const PlanRequest& request,
                                       const Mesh& mesh, Diagnostics& diags) {
  ViewRequest view{"experts", {}, {}, {}};
  if (!asks_for_expert_view(request)) return view;
  const int64_t ep = request.expert_parallel.value_or(1);
  const int64_t etp =
      request.expert_tensor_parallel.value_or(mesh.size_of("tp"));
  int64_t devices = mesh.devices();
  const Axis& first = mesh.axes().front();
  const auto add = [&](const AxisName& name, int64_t size) {
    view.axes.push_back({name, size, {}, {}, {}});
  };
  if (is_pipeline_axis(first.name)) {
    add(first.name, first.size);
    devices /= first.size;
  }
  const auto both = checked_mul(ep, etp);
  if (!both || devices % *both != 0) {
    return diags
        .error(Code::Usage, {},
               "expert parallelism of " + std::to_string(ep) +
                   " and tensor parallelism of experts of " +
                   std::to_string(etp) + " do not divide the " +
                   plural(devices, "device") + " of a stage")
        .fact("the mesh is " + mesh_text(mesh))
        .help(
            "choose `--expert-model-parallel-size` and "
            "`--expert-tensor-parallel-size` such that their product divides "
            "it; without the latter it is the size of `tp`");
  }
  add("edp", devices / *both);
  add("ep", ep);
  add("etp", etp);
  return view;
}

NameReading name_reading(const PlanRequest& request) {
  return {request.mode, request.fallback, request.flax};
}

ResolveOptions resolve_options(const PlanRequest& request, Host& host) {
  ResolveOptions how;
  how.min_size = request.min_size;
  how.on_indivisible = request.on_indivisible;
  how.strict = request.strict;
  how.declarations = request.declarations;
  how.names = name_reading(request);
  how.auto_unmatched = request.unmatched == Unmatched::Auto;
  how.parity = request.parity;
  how.jobs = request.jobs > 0 ? request.jobs : host.processors();
  return how;
}

LintOptions lint_options(const PlanRequest& request) {
  return {request.tolerance, request.max_replicated,
          request.unmatched != Unmatched::Error};
}

}  // namespace shardplan
