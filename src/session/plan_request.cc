// SPDX-License-Identifier: Apache-2.0
#include "session/plan_request.h"

#include <string>
#include <vector>

#include "core/mesh.h"

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
