// SPDX-License-Identifier: Apache-2.0
// Rules: patterns over parameter names, in order, each with a spec.
//
// The first rule whose pattern is found (re.search) in a name decides it. Rule
// numbers are 1-based over all rule files in the order read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/source.h"
#include "core/mesh.h"
#include "core/spec.h"

namespace shardplan {

struct Rule {
  std::string pattern;  // Python's re syntax
  PartitionSpec spec;
  Span where;                   // the pattern
  Span spec_where;              // the whole spec
  std::vector<Span> dim_where;  // per entry of the spec
  // Shipped sets cover many models and two naming schemes: that one of their
  // rules is found in no name is not worth a warning.
  bool shipped = false;
  // The whole rule, where its file can be edited; else nothing.
  Span item_where = {};
};

struct RuleSet {
  std::vector<Rule> rules;
  // Axes that rules may name though the mesh lacks them (then of size 1).
  AxisNames declared_axes;
  // `mesh:` of the first file that has one.
  std::optional<std::vector<AxisRequest>> mesh;
  Span mesh_where;
  std::vector<SourcePtr> sources;  // keeps spans alive
};

}  // namespace shardplan
