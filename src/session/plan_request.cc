// SPDX-License-Identifier: Apache-2.0
#include "session/plan_request.h"

namespace shardplan {

RuleReading rule_reading(const PlanRequest& request) {
  return {request.table, request.axes, request.answers};
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
