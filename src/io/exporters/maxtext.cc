// SPDX-License-Identifier: Apache-2.0
// The part of a MaxText configuration that says how a model is sharded: mesh
// axes, logical axis rules, and how much of each axis is within a slice (ici)
// and over slices (dcn). Parameters and their axes are MaxText's own.
#include <algorithm>
#include <string>

#include "base/text.h"
#include "io/exporters/exporters.h"
#include "io/expressible.h"
#include "io/yaml_text.h"

namespace shardplan {
namespace {

constexpr std::string_view kName = "maxtext";

std::string list_text(const AxisNames& names) {
  std::string text = "[";
  for (const AxisName& name : names) {
    if (text.size() > 1) text += ", ";
    text += yaml_word(name);
  }
  return text + "]";
}

// MaxText keeps the longest prefix of a dimension's axes that divides it.
bool keeps_prefixes(const ExportInput& input, Diagnostics& diags) {
  if (input.plan.on_indivisible == OnIndivisible::Prefix) return true;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    for (const Correction& c : input.plan.of(i).corrections) {
      if (c.code != Code::IndivisibleDimension || c.dropped.size() < 2) {
        continue;
      }
      diags
          .error(Code::Inexpressible, input.manifest.where(i),
                 "`maxtext` may keep some axes of dimension " +
                     std::to_string(c.dim) + " of `" +
                     printable(input.manifest.name(i)) +
                     "`, of which this plan keeps none")
          .fact(c.reason)
          .help("export with `--on-indivisible prefix`");
      return false;
    }
  }
  return true;
}

bool names_are_given(const RuleSet& rules, Diagnostics& diags) {
  for (const LogicalRule& rule : rules.logical_rules) {
    if (rule.name) continue;
    diags
        .error(Code::Inexpressible, rule.where,
               "`maxtext` has no rule for dimensions without a name")
        .help("remove this rule, which places nothing in flax");
    return false;
  }
  return true;
}

// How often the axis is repeated over slices; 1 where that is not known to be
// a part of its size.
int64_t slices_of(const Axis& axis, const RuleSet& rules) {
  for (const AxisRequest& dcn : rules.dcn_mesh) {
    if (dcn.name == axis.name && dcn.size > 0 && axis.size % dcn.size == 0) {
      return dcn.size;
    }
  }
  return 1;
}

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags) {
  const RuleSet* rules = logical_rules_of(input, kName, diags);
  const bool good = specs_are_expressible(input, kName, diags);
  if (rules == nullptr || !good || !keeps_prefixes(input, diags) ||
      !names_are_given(*rules, diags)) {
    return std::nullopt;
  }
  note_activations(input, kName, diags);
  const Mesh& mesh = input.plan.mesh;
  AxisNames axes;
  std::string sizes;
  std::string slices;
  for (const Axis& axis : mesh.axes()) {
    axes.push_back(axis.name);
    const int64_t dcn = slices_of(axis, *rules);
    // MaxText's one axis that is called otherwise than its parallelism.
    const std::string name = axis.name == "stage" ? "pipeline" : axis.name;
    sizes += "ici_" + name +
             "_parallelism: " + std::to_string(axis.size / dcn) + "\n";
    slices += "dcn_" + name + "_parallelism: " + std::to_string(dcn) + "\n";
  }
  std::string text =
      comment_text(header_lines(input, "Logical axis rules, as given", kName)) +
      "mesh_axes: " + list_text(axes) + "\nlogical_axis_rules:\n";
  for (const LogicalRule& rule : rules->logical_rules) {
    text += "  - [" + yaml_word(*rule.name) + ", " +
            (rule.axes.size() == 1 ? yaml_word(rule.axes.front())
                                   : list_text(rule.axes)) +
            "]\n";
  }
  return text + sizes + slices;
}

}  // namespace

const ExportTarget kMaxTextTarget = {
    kName, "mesh, parallelism and logical axis rules of a MaxText config",
    write};

}  // namespace shardplan
