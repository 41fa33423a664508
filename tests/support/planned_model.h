// SPDX-License-Identifier: Apache-2.0
// Plans, and what the rules of an exported text say of their parameters: for
// the property that reading what was written gives the same plan.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/plan.h"
#include "io/export.h"
#include "io/load.h"
#include "resolve/match.h"
#include "tests/support/builders.h"
#include "tests/support/generators.h"
#include "tests/support/property.h"

namespace shardplan::testing {

inline PartitionSpec without_trailing(PartitionSpec spec) {
  while (!spec.dims.empty() && spec.dims.back().empty()) spec.dims.pop_back();
  return spec;
}

// The spec that the first rule found gives, in dimensions from the first.
inline std::optional<PartitionSpec> spec_by_rules(const RuleSet& rules,
                                                  const Manifest& manifest,
                                                  size_t parameter) {
  Diagnostics diags;
  const auto matcher = Matcher::compile(rules, false, diags);
  if (!matcher) bad_text("rules do not compile", "");
  std::vector<int> found;
  matcher->find_one_by_one(manifest.name(parameter), found);
  if (found.empty()) return std::nullopt;
  const Rule& rule = rules.rules[static_cast<size_t>(found.front())];
  PartitionSpec spec;
  const size_t rank = manifest.type(parameter).shape.size();
  const size_t size = rule.spec.dims.size();
  spec.dims.resize(rank);
  for (size_t i = 0; i < size; ++i) {
    const size_t dim = rule.from_last ? rank + i - size : i;
    if (dim < rank) spec.dims[dim] = rule.spec.dims[i];
  }
  return without_trailing(spec);
}

inline Plan empty_plan(Mesh mesh) {
  return {std::move(mesh), OnIndivisible::Drop, true, {}, {}, {}, {}};
}

struct PlannedModel {
  Manifest manifest;
  Plan plan;
};

// A plan with these final specs, one per parameter.
inline PlannedModel planned(const std::vector<NamedType>& tensors,
                            const std::vector<std::string>& specs,
                            const std::string& mesh_text) {
  PlannedModel model{manifest(tensors), empty_plan(mesh(mesh_text))};
  for (size_t i = 0; i < tensors.size(); ++i) {
    Placement placement;
    placement.type = model.manifest.type(i);
    placement.rule = 1;
    placement.spec = spec(specs[i]);
    placement.requested = placement.spec;
    model.plan.placements.push_back(placement);
    model.plan.placement_of.push_back(static_cast<uint32_t>(i));
  }
  return model;
}

inline RuleSet read_rules(const RuleDialect& dialect, const std::string& text,
                          Diagnostics& diags, AxisNames axes = {}) {
  RuleSet rules;
  const auto source = std::make_shared<SourceFile>("written", text);
  if (!dialect.recognize(text)) bad_text("not recognised", text);
  if (!dialect.read(source, {std::nullopt, std::move(axes)}, rules, diags)) {
    bad_text("not read back", text);
  }
  return rules;
}

// Any model on any mesh, every parameter placed by itself.
inline PlannedModel any_planned_model() {
  PlannedModel model{draw_manifest(), empty_plan(draw_mesh())};
  for (size_t i = 0; i < model.manifest.size(); ++i) {
    Placement placement;
    placement.type = model.manifest.type(i);
    placement.spec =
        draw_legal_spec(model.plan.mesh, placement.type.shape.size());
    model.plan.placements.push_back(placement);
    model.plan.placement_of.push_back(static_cast<uint32_t>(i));
  }
  return model;
}

}  // namespace shardplan::testing
