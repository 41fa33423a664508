// SPDX-License-Identifier: Apache-2.0
// MaxText's `named_shardings.json`: for each array a rule for its name alone,
// with the spec that it had.
#include "io/maxtext_dump.h"

#include <utility>
#include <vector>

#include "io/dialects/dialects.h"
#include "io/recorded_sharding.h"

namespace shardplan {
namespace {

bool read(SourcePtr source, const RuleReading&, RuleSet& rules,
          Diagnostics& diags) {
  const auto dump = read_maxtext_dump(source, diags);
  if (!dump) return false;
  if (!dump->named) {
    diags
        .error(Code::UnrecognizedFormat, {},
               "`" + source->name() +
                   "` has logical axes, not the specs they became")
        .help(
            "give `named_shardings.json` as rules, or this as the model and "
            "`logical_axis_rules` as rules");
    return false;
  }
  std::vector<RecordedSharding> shardings;
  for (const DumpEntry& entry : dump->entries) {
    shardings.push_back(entry.sharding);
  }
  RecordedMesh mesh = common_mesh(shardings, diags);
  if (!mesh.axes.empty()) {
    rules.mesh = std::move(mesh.axes);
    rules.mesh_where = mesh.where;
  }
  add_recorded_rules(shardings, rules, diags);
  rules.sources.push_back(std::move(source));
  return true;
}

}  // namespace

const RuleDialect kMaxtextDumpRules = {
    "maxtext-dump", "the shardings in MaxText's `named_shardings.json`",
    is_maxtext_dump, read};

}  // namespace shardplan
