// SPDX-License-Identifier: Apache-2.0
// The `_sharding` of an Orbax checkpoint: for each array a rule for its name
// alone, with the spec that it had.
#include <utility>

#include "io/dialects/dialects.h"
#include "io/orbax_checkpoint.h"

namespace shardplan {
namespace {

bool read(SourcePtr source, const RuleReading&, RuleSet& rules,
          Diagnostics& diags) {
  const auto shardings = read_orbax_sharding(source, diags);
  if (!shardings) return false;
  RecordedMesh mesh = common_mesh(*shardings, diags);
  if (!mesh.axes.empty()) {
    rules.mesh = std::move(mesh.axes);
    rules.mesh_where = mesh.where;
  }
  add_recorded_rules(*shardings, rules, diags);
  rules.sources.push_back(std::move(source));
  return true;
}

}  // namespace

const RuleDialect kOrbaxRules = {
    "orbax", "the shardings recorded in an Orbax checkpoint's `_sharding`",
    is_orbax_sharding, read};

}  // namespace shardplan
