// SPDX-License-Identifier: Apache-2.0
// Exports a plan, reads it back, and follows the hooks that were written.
#include "session/exported_plan.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/source.h"
#include "base/words.h"
#include "core/rules.h"
#include "evaluate/stacked_experts.h"
#include "io/dialects.h"
#include "io/export.h"
#include "io/load.h"
#include "resolve/resolve.h"
#include "sim/forward_collectives.h"

namespace shardplan {
namespace {

// Returns the same plan on the devices of one tensor-parallel group.
Plan over_tensor_alone(const Plan& plan) {
  const AxisName tensor = "tp";
  const AxisName expert_tensor = "etp";
  Plan alone = plan;
  alone.mesh = Mesh({{tensor, plan.mesh.size_of(tensor)}});
  for (Placement& placement : alone.placements) {
    placement.dealt.reset();
    placement.view.clear();
    for (AxisNames& axes : placement.spec.dims) {
      const bool is_sharded =
          contains(axes, tensor) || contains(axes, expert_tensor);
      axes = is_sharded ? AxisNames{tensor} : AxisNames{};
    }
    measure(placement, alone.mesh, alone.on_indivisible);
  }
  return alone;
}

}  // namespace

void follow_written_hooks(const Model& model, const Plan& plan,
                          const std::string& text, const ForwardPass& pass,
                          Diagnostics& diags) {
  const auto dialects = rule_dialects();
  const auto dialect =
      std::ranges::find(dialects, kHfTpPlanTarget.name, &RuleDialect::name);
  const auto report_unknown = [&](std::string why) {
    diags
        .report(Code::NotAsHooks, Severity::Note, {},
                "unknown whether hooks run the plan")
        .fact(std::move(why));
  };
  if (model.forward() == nullptr) {
    report_unknown("no forward pass is known for this model");
    return;
  }
  RuleSet rules;
  Diagnostics found = diags.fresh();
  const bool reads = dialect->read(std::make_shared<SourceFile>("plan", text),
                                   {}, rules, found);
  SHARDPLAN_CHECK(reads);
  ResolveOptions options;
  options.on_indivisible = plan.on_indivisible;
  const Manifest* manifest = &model.manifest;
  auto read = resolve(*manifest, rules, plan.mesh, options, found);
  SHARDPLAN_CHECK(read.has_value());
  // Experts placed whole run as a stack.
  const bool is_dealt = std::ranges::any_of(
      read->placements, [](const Placement& p) { return p.dealt.has_value(); });
  const auto stacked =
      stacked_experts(*manifest, {}, is_dealt ? 1 : kFewestStacked);
  auto of_stacks = stacked ? stacked_plan(*stacked, *read) : std::nullopt;
  if (of_stacks) {
    read = std::move(of_stacks);
    manifest = &stacked->manifest;
  } else if (is_dealt) {
    report_unknown("experts of one layer are placed differently");
    return;
  }
  ForwardGraphs graphs = forward_graphs(*manifest, *model.forward(), pass);
  const bool is_followed =
      forward_collectives(graphs, {*manifest, *read, &rules, {}}, found)
          .has_value();
  std::string problem = "the forward pass could not be followed";
  for (const Diagnostic& each : found.all()) {
    if (each.code == Code::NotAsHooks) diags.add(each);
    if (each.severity == Severity::Error) problem = each.message;
  }
  if (!is_followed) report_unknown(std::move(problem));
}

TensorParallelism tensor_parallelism_in(std::string_view target,
                                        const Model& model, const Plan& plan) {
  const bool has_styles = target == kHfTpPlanTarget.name;
  const Plan written = has_styles ? over_tensor_alone(plan) : plan;
  Diagnostics found;
  const auto text = export_text(*find_export_target(target),
                                {model.manifest, written}, found);
  if (text && has_styles) {
    follow_written_hooks(model, written, *text, {}, found);
  }
  TensorParallelism result;
  for (const Diagnostic& each : found.all()) {
    if (each.severity == Severity::Error ||
        (each.severity == Severity::Warning && each.code == Code::NotAsHooks)) {
      result.problem = code_id(each.code) + ": " + each.message;
      return result;
    }
    if (each.code == Code::NotAsHooks) result.unknown = each.facts.front();
  }
  SHARDPLAN_CHECK(text.has_value());
  return result;
}

}  // namespace shardplan
