// SPDX-License-Identifier: Apache-2.0
// The resolved table as placements per mesh dimension, which docs/formats/
// dtensor.md describes. Mesh dimensions that shard one dimension of a tensor do
// so in the order of the mesh: another order is refused, since PyTorch can say
// it only by a private class.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.h"
#include "base/text.h"
#include "io/exporters/exporters.h"

namespace shardplan {
namespace {

std::string json_quoted(std::string_view text) {
  std::string result;
  append_json_string(result, text);
  return result;
}

// Keys are fnmatch patterns.
std::string escaped_key(std::string_view name) {
  std::string key;
  for (const char c : name) {
    const bool special = c == '*' || c == '?' || c == '[';
    if (special) key += '[';
    key += c;
    if (special) key += ']';
  }
  return key;
}

// Why a placement cannot be said, or empty.
std::string problem_of(const Placement& placement, const Plan& plan) {
  if (!placement.stored.empty()) return "it is stored otherwise, as declared";
  if (placement.requested) {
    for (const AxisNames& axes : placement.asked().dims) {
      if (std::find(axes.begin(), axes.end(), kUnconstrained) != axes.end()) {
        return "a dimension is UNCONSTRAINED, and placements leave nothing "
               "open";
      }
    }
  }
  for (size_t dim = 0; dim < placement.spec.dims.size(); ++dim) {
    const AxisNames& axes = placement.spec.dims[dim];
    const auto number = [&](const AxisName& axis) {
      return *plan.mesh.find(axis);
    };
    const bool in_order = std::is_sorted(
        axes.begin(), axes.end(), [&](const AxisName& a, const AxisName& b) {
          return number(a) < number(b);
        });
    if (!in_order) {
      return "dimension " + std::to_string(dim) + " is cut over " +
             axes_text(axes) + ", which is not the order of the mesh " +
             mesh_text(plan.mesh);
    }
    const int64_t size = placement.type.shape[dim];
    if (plan.on_indivisible == OnIndivisible::Pad &&
        size % shard_count(plan.mesh, axes) != 0) {
      return "dimension " + std::to_string(dim) + " of size " +
             std::to_string(size) + " is padded to a multiple of " +
             std::to_string(shard_count(plan.mesh, axes)) +
             "; DTensor stores shorter shards instead";
    }
  }
  return "";
}

std::string placements_text(const PartitionSpec& spec, const Mesh& mesh) {
  std::string text = "[";
  for (const Axis& axis : mesh.axes()) {
    std::string placement = "Replicate()";
    for (size_t dim = 0; dim < spec.dims.size(); ++dim) {
      const AxisNames& axes = spec.dims[dim];
      if (std::find(axes.begin(), axes.end(), axis.name) != axes.end()) {
        placement = "Shard(" + std::to_string(dim) + ")";
      }
    }
    text += (text.size() == 1 ? "\"" : ", \"") + placement + "\"";
  }
  return text + "]";
}

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags) {
  const Plan& plan = input.plan;
  std::vector<std::string> texts;  // per placement; empty: refused
  for (const Placement& placement : plan.placements) {
    const bool good = problem_of(placement, plan).empty();
    texts.push_back(good ? placements_text(placement.spec, plan.mesh) : "");
  }
  std::string names;
  std::string sizes;
  for (const Axis& axis : plan.mesh.axes()) {
    const std::string comma = names.empty() ? "" : ", ";
    names += comma + json_quoted(axis.name);
    sizes += comma + json_quoted(axis.name) + ": " + std::to_string(axis.size);
  }
  std::string text = "{\n  \"mesh_dim_names\": [" + names +
                     "],\n  \"mesh\": {" + sizes + "},\n  \"placements\": {";
  std::vector<bool> told(plan.placements.size());
  bool good = true;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const uint32_t number = plan.placement_of[i];
    if (texts[number].empty()) {
      good = false;
      if (told[number]) continue;
      told[number] = true;
      diags
          .error(Code::Inexpressible, {},
                 "`" + printable(input.manifest.name(i)) +
                     "` cannot be said in placements")
          .fact(problem_of(plan.placements[number], plan))
          .fact(std::to_string(std::count(plan.placement_of.begin(),
                                          plan.placement_of.end(), number)) +
                " parameters are placed so")
          .help(
              "name the axes of a dimension in the order of the mesh, use "
              "`--on-indivisible chunk` as PyTorch does, or export to "
              "another target")
          .parameters({std::string(input.manifest.name(i))});
      continue;
    }
    text += i == 0 ? "\n" : ",\n";
    text += "    " + json_quoted(escaped_key(input.manifest.name(i))) + ": " +
            texts[number];
  }
  if (!good) return std::nullopt;
  text += input.manifest.size() == 0 ? "}\n}\n" : "\n  }\n}\n";
  return text;
}

}  // namespace

const ExportTarget kDtensorTarget = {
    "dtensor", "placements of PyTorch's DTensor per parameter, in JSON", write};

}  // namespace shardplan
