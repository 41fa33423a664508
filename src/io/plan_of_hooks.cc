// SPDX-License-Identifier: Apache-2.0
#include "io/plan_of_hooks.h"

#include <algorithm>
#include <utility>

namespace shardplan {

void end_plan_of_hooks(std::string_view axis, Span where, RuleSet& rules) {
  Rule rest;
  rest.pattern = ".*";
  rest.where = where;
  rest.spec_where = where;
  rules.rules.push_back(std::move(rest));
  AxisNames& axes = rules.declared_axes;
  if (std::find(axes.begin(), axes.end(), axis) == axes.end()) {
    axes.emplace_back(axis);
  }
  rules.run_as = RunAs::Hooks;
}

}  // namespace shardplan
