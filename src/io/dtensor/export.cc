// SPDX-License-Identifier: Apache-2.0
// The export target `dtensor`: the resolved table as placements per mesh
// dimension, as docs/formats/dtensor.md describes. Mesh dimensions that shard
// the same dimension of a tensor do so in the order of the mesh. Another order
// is refused, since PyTorch can express it only with a private class.
#include "io/export.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "io/dtensor/placements.h"
#include "syntax/python.h"

namespace shardplan {
namespace {

// Keys are fnmatch patterns.
std::string escaped_key(std::string_view name) {
  std::string key;
  for (const char c : name) {
    key += contains("*?[", c) ? std::string{'[', c, ']'} : std::string{c};
  }
  return key;
}

// Returns why a placement cannot be expressed, or "".
std::string problem_of(const Placement& placement, const Plan& plan) {
  if (!placement.stored_dims.empty())
    return "`--declare` changes how it is stored";
  if (placement.requested && names_unconstrained(placement.requested_spec())) {
    return "a dimension is UNCONSTRAINED, which placements cannot express";
  }
  for (size_t dim = 0; dim < placement.spec.dims.size(); ++dim) {
    const AxisNames& axes = placement.spec.dims[dim];
    const auto number = [&](const AxisName& axis) {
      return *plan.mesh.find(axis);
    };
    if (!std::ranges::is_sorted(axes, {}, number)) {
      return "dimension " + std::to_string(dim) + " is sharded over " +
             axes_text(axes) + ", not in the order of the mesh " +
             mesh_text(plan.mesh);
    }
    const int64_t size = placement.type.shape[dim];
    const int64_t shards = shard_count(plan.mesh, axes);
    if (plan.on_indivisible == OnIndivisible::Pad && size % shards != 0) {
      return "dimension " + std::to_string(dim) + " of size " +
             std::to_string(size) + " is padded to a multiple of " +
             std::to_string(shards) + "; DTensor stores shorter shards instead";
    }
  }
  return "";
}

std::string placements_text(const PartitionSpec& spec, const Mesh& mesh) {
  return "[" +
         joined_of(mesh.axes(), ", ",
                   [&](const Axis& axis) {
                     return "\"" + placement_text(spec, axis.name) + "\"";
                   }) +
         "]";
}

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags) {
  const Plan& plan = input.plan;
  std::vector<std::string> texts;  // per placement; empty: refused
  for (const Placement& placement : plan.placements) {
    const bool good = problem_of(placement, plan).empty();
    texts.push_back(good ? placements_text(placement.spec, plan.mesh) : "");
  }
  const std::vector<Axis>& axes = plan.mesh.axes();
  const std::string names = joined_of(
      axes, ", ", [](const Axis& axis) { return python_quoted(axis.name); });
  const std::string sizes = joined_of(axes, ", ", [](const Axis& axis) {
    return python_quoted(axis.name) + ": " + std::to_string(axis.size);
  });
  std::string text = "{\n  \"mesh_dim_names\": [" + names +
                     "],\n  \"mesh\": {" + sizes + "},\n  \"placements\": {";
  std::set<uint32_t> refused;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const uint32_t number = plan.placement_of[i];
    if (texts[number].empty()) {
      if (!refused.insert(number).second) continue;
      diags
          .error(Code::Inexpressible, {},
                 in_backticks(input.manifest.name(i)) +
                     " cannot be expressed in placements")
          .fact(problem_of(plan.placements[number], plan))
          .fact("this is the placement of " +
                plural(std::ranges::count(plan.placement_of, number),
                       "parameter"))
          .help(
              "list the axes of a dimension in mesh order, use "
              "`--on-indivisible chunk` like PyTorch, or export to another "
              "target")
          .parameters({std::string(input.manifest.name(i))});
      continue;
    }
    text += i == 0 ? "\n" : ",\n";
    text += "    " + python_quoted(escaped_key(input.manifest.name(i))) + ": " +
            texts[number];
  }
  if (!refused.empty()) return std::nullopt;
  text += input.manifest.size() == 0 ? "}\n}\n" : "\n  }\n}\n";
  return text;
}

}  // namespace

const ExportTarget kDtensorTarget = {
    "dtensor", "PyTorch DTensor placements per parameter, in JSON", write};

}  // namespace shardplan
