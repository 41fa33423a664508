// SPDX-License-Identifier: Apache-2.0
// A table of rules as EasyLM, EasyDeL and eFormer have it. It names mesh axes
// only, and declares none: declared axes that the mesh lacks have size 1 and
// are left out.
#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "io/exporters/exporters.h"
#include "io/expressible.h"
#include "io/python_text.h"
#include "io/resolved_table.h"

namespace shardplan {
namespace {

constexpr std::string_view kName = "python";

bool contains(const AxisNames& names, const AxisName& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Whether the name is a mesh axis, or unknown, with and without what the rules
// file says about logical and semantic axes.
bool is_mesh_axis(const AxisName& name, const RuleSet& rules,
                  const Mesh& mesh) {
  if (!is_axis_name(name) || name == "_") return false;  // "logical:embed"
  const bool logical =
      std::any_of(rules.logical_rules.begin(), rules.logical_rules.end(),
                  [&](const LogicalRule& rule) { return rule.name == name; });
  if (logical) return false;
  return mesh.find(name) || contains(rules.declared_axes, name) ||
         !find_semantic_token(name, true);
}

bool names_mesh_axes_only(const RuleSet& rules, const Mesh& mesh) {
  for (const Rule& rule : rules.rules) {
    for (const AxisNames& axes : rule.spec.dims) {
      for (const AxisName& axis : axes) {
        if (!is_mesh_axis(axis, rules, mesh)) return false;
      }
    }
  }
  return true;
}

std::string why_resolved(const ExportInput& input) {
  std::string why = why_no_rules(input);
  if (!why.empty()) return why;
  if (!names_mesh_axes_only(*input.rules, input.plan.mesh)) {
    return "the rules name axes that are none of the mesh";
  }
  const auto& placements = input.plan.placements;
  const bool logical = std::any_of(
      placements.begin(), placements.end(),
      [](const Placement& p) { return p.rule == 0 && p.requested; });
  return logical ? "logical axes place some parameters" : "";
}

// Without the declared axes that the mesh lacks; those go to `left_out`.
PartitionSpec on_mesh(const PartitionSpec& spec, const ExportInput& input,
                      AxisNames& left_out) {
  PartitionSpec result = spec;
  for (AxisNames& axes : result.dims) {
    std::erase_if(axes, [&](const AxisName& axis) {
      const bool absent = !input.plan.mesh.find(axis) &&
                          contains(input.rules->declared_axes, axis);
      if (absent && !contains(left_out, axis)) left_out.push_back(axis);
      return absent;
    });
  }
  return result;
}

std::string entry_text(const std::string& pattern, const PartitionSpec& spec) {
  return "    (" + python_string(pattern) + ", " + python_spec(spec) + "),\n";
}

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags) {
  if (!specs_are_expressible(input, kName, diags)) return std::nullopt;
  const std::string why = why_resolved(input);
  std::string entries;
  std::vector<std::string> lines;
  if (why.empty()) {
    lines = header_lines(input, "Partition rules, as given", kName);
    AxisNames left_out;
    for (const Rule& rule : input.rules->rules) {
      entries += entry_text(rule.pattern, on_mesh(rule.spec, input, left_out));
    }
    if (!left_out.empty()) {
      std::string names;
      for (const AxisName& axis : left_out) names += " " + axis;
      lines.push_back("declared axes that the mesh lacks are left out:" +
                      names);
    }
  } else {
    if (!names_are_expressible(input, kName, diags)) return std::nullopt;
    lines = header_lines(input, "Partition rules, one per parameter or layer",
                         kName);
    lines.push_back(why);
    const ResolvedTable table = resolved_table(input);
    for (const TableEntry& entry : table.entries) {
      entries += entry_text(entry.pattern, entry.spec);
    }
    add_left_out(table.left_out, lines);
  }
  note_activations(input, kName, diags);
  note_slices(input, kName, diags);
  return comment_text(lines) +
         "from jax.sharding import PartitionSpec\n\nRULES = (" +
         (entries.empty() ? "" : "\n") + entries + ")\n";
}

}  // namespace

const ExportTarget kPythonTarget = {
    kName, "a table of patterns and PartitionSpecs (EasyLM, EasyDeL, eFormer)",
    write};

}  // namespace shardplan
