// SPDX-License-Identifier: Apache-2.0
// The export target `python`: a table of rules as in EasyLM, EasyDeL and
// eFormer. The table names only mesh axes and declares none: declared axes that
// the mesh lacks have size 1 and are left out.
#include "io/export.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"
#include "base/words.h"
#include "syntax/python.h"

namespace shardplan {
namespace {

constexpr std::string_view kName = "python";

// Returns whether the name means a mesh axis, or nothing known, both with and
// without the logical and semantic axes of the rules file.
bool is_mesh_axis(const AxisName& name, const RuleSet& rules,
                  const Mesh& mesh) {
  if (!is_axis_name(name) || name == "_") return false;  // "logical:embed"
  if (find_named(rules.logical_rules, name) != nullptr) return false;
  return mesh.find(name) || contains(rules.declared_axes, name) ||
         !find_semantic_token(name, true);
}

bool names_mesh_axes_only(const RuleSet& rules, const Mesh& mesh) {
  return std::ranges::all_of(rules.rules, [&](const Rule& rule) {
    return std::ranges::all_of(axes_in(rule.spec), [&](const AxisName& axis) {
      return is_mesh_axis(axis, rules, mesh);
    });
  });
}

std::string why_resolved(const ExportInput& input) {
  std::string why = why_no_rules(input);
  if (!why.empty()) return why;
  for (const Rule& rule : input.rules->rules) {
    if (!rule.deal.empty()) return "a rule places whole experts";
  }
  if (!names_mesh_axes_only(*input.rules, input.plan.mesh)) {
    return "the rules name axes that the mesh lacks";
  }
  const auto& placements = input.plan.placements;
  const bool logical = std::ranges::any_of(placements, [](const Placement& p) {
    return p.rule == 0 && p.requested;
  });
  return logical ? "logical axes place some parameters" : "";
}

// Removes declared axes that the mesh lacks, and adds them to `left_out`.
PartitionSpec on_mesh(const PartitionSpec& spec, const ExportInput& input,
                      AxisNames& left_out) {
  PartitionSpec result = spec;
  for (AxisNames& axes : result.dims) {
    erase_if(axes, [&](const AxisName& axis) {
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

// The export target `jax`: a Python module with a dict from names to
// PartitionSpecs, and the mesh. The module depends only on JAX and NumPy.

constexpr std::string_view kJaxName = "jax";

constexpr std::string_view kMakeMesh = R"(

def make_mesh(devices=None):
    """The mesh over `devices` (all of this process's, if None), row-major."""
    devices = jax.devices() if devices is None else list(devices)
    if len(devices) != math.prod(MESH_SHAPE):
        raise ValueError(
            "the mesh has %d devices, not %d"
            % (math.prod(MESH_SHAPE), len(devices))
        )
    grid = np.array(devices, dtype=object).reshape(MESH_SHAPE)
    return Mesh(grid, AXIS_NAMES)
)";

// A view is another mesh over the same devices in the same order.
constexpr std::string_view kMakeMeshes = R"(

def make_meshes(devices=None):
    """The mesh (key None) and its views by name, over the same devices."""
    mesh = make_mesh(devices)
    meshes = {None: mesh}
    for name, (axes, sizes) in VIEWS.items():
        meshes[name] = Mesh(mesh.devices.reshape(sizes), axes)
    return meshes


def named_shardings(devices=None):
    """A NamedSharding per parameter, on its mesh or view."""
    meshes = make_meshes(devices)
    return {
        name: NamedSharding(meshes[PARAMETER_VIEWS.get(name)], spec)
        for name, spec in PARTITION_SPECS.items()
    }
)";

template <typename Range, typename TextOf>
std::string tuple_text(const Range& range, TextOf text_of) {
  return "(" + joined_of(range, ", ", text_of) +
         (range.size() == 1 ? ",)" : ")");
}

// Returns `(4, 2)` or `(8,)`.
std::string sizes_text(const std::vector<Axis>& axes) {
  return tuple_text(axes,
                    [](const Axis& axis) { return std::to_string(axis.size); });
}

AxisNames names_of(const std::vector<Axis>& axes) {
  AxisNames names;
  for (const Axis& axis : axes) names.push_back(axis.name);
  return names;
}

// Returns the views that parameters are placed on, and the view of each such
// parameter; empty if there are none.
std::string views_text(const ExportInput& input) {
  const Plan& plan = input.plan;
  std::string views;
  for (const MeshView& view : plan.mesh.views()) {
    if (std::ranges::none_of(plan.placements, [&](const Placement& placement) {
          return placement.view == view.name;
        })) {
      continue;
    }
    views += "    " + python_string(view.name) + ": (" +
             python_names(names_of(view.axes)) + ", " + sizes_text(view.axes) +
             "),\n";
  }
  if (views.empty()) return "";
  std::string parameters;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const std::string& view = plan.of(i).view;
    if (view.empty() || is_left_out(input, i)) continue;
    parameters += "    " + python_string(input.manifest.name(i)) + ": " +
                  python_string(view) + ",\n";
  }
  return "\n# Axes and axis sizes of each view.\nVIEWS = {\n" + views +
         "}\n\n# Parameters placed on a view instead of the mesh.\n"
         "PARAMETER_VIEWS = {\n" +
         parameters + "}\n";
}

std::optional<std::string> write_jax(const ExportInput& input,
                                     Diagnostics& diags) {
  if (!specs_are_expressible(input, kJaxName, diags)) return std::nullopt;
  std::string entries;
  int64_t left_out = 0;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    if (is_left_out(input, i)) {
      ++left_out;
      continue;
    }
    entries += "    " + python_string(input.manifest.name(i)) + ": " +
               python_spec(input.plan.of(i).spec) + ",\n";
  }
  std::vector<std::string> lines =
      header_lines(input, "A PartitionSpec per parameter", kJaxName);
  add_left_out(left_out, lines);
  note_activations(input, kJaxName, diags);
  note_slices(input, kJaxName, diags);
  const std::vector<Axis>& axes = input.plan.mesh.axes();
  const std::string views = views_text(input);
  return comment_text(lines) + "\"\"\"How parameters are sharded: " +
         (views.empty() ? "PARTITION_SPECS over make_mesh()"
                        : "named_shardings()") +
         ".\"\"\"\n\nimport math\n\nimport jax\nimport numpy as np\n"
         "from jax.sharding import Mesh, " +
         (views.empty() ? "" : "NamedSharding, ") +
         "PartitionSpec\n\nAXIS_NAMES = " + python_names(names_of(axes)) +
         "\nMESH_SHAPE = " + sizes_text(axes) + "\n" + views +
         "\nPARTITION_SPECS = {" + (entries.empty() ? "" : "\n") + entries +
         "}\n" + std::string(kMakeMesh) +
         std::string(views.empty() ? "" : kMakeMeshes);
}

// The export target `flax`: logical axis rules of flax, and the logical axes of
// the parameters. JAX rejects axes that do not divide a dimension, so a plan
// that drops such axes cannot be expressed.

constexpr std::string_view kFlaxName = "flax";

std::string label_text(const std::optional<std::string>& label) {
  return label ? python_string(*label) : "None";
}

// Returns `("embed", None)`, `("embed",)` or `()`.
std::string labels_text(const AxisLabels& labels) {
  return tuple_text(labels, label_text);
}

bool divides_everything(const ExportInput& input, Diagnostics& diags) {
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    for (const Correction& c : input.plan.of(i).corrections) {
      if (c.code != Code::IndivisibleDimension) continue;
      diags
          .error(Code::Inexpressible, input.manifest.where(i),
                 "`flax` cannot leave dimension " + std::to_string(c.dim) +
                     " of " + in_backticks(input.manifest.name(i)) +
                     " unsharded: the rules shard it, which JAX rejects")
          .fact(c.reason)
          .help("change the rules or the size, or use `--to jax`");
      return false;
    }
  }
  return true;
}

std::string axes_text_of(const ExportInput& input, int64_t& without) {
  std::string text;
  for (size_t i = 0; i < input.manifest.size(); ++i) {
    const AxisLabels* labels = input.manifest.axes(i);
    if (labels == nullptr) {
      ++without;
      continue;
    }
    text += "    " + python_string(input.manifest.name(i)) + ": " +
            labels_text(*labels) + ",\n";
  }
  return text;
}

std::optional<std::string> write_flax(const ExportInput& input,
                                      Diagnostics& diags) {
  const RuleSet* rules = logical_rules_of(input, kFlaxName, diags);
  const bool good = specs_are_expressible(input, kFlaxName, diags);
  if (rules == nullptr || !good || !divides_everything(input, diags)) {
    return std::nullopt;
  }
  std::vector<std::string> lines =
      header_lines(input, "Logical axis rules, as given", kFlaxName);
  int64_t without = 0;
  const std::string axes = axes_text_of(input, without);
  if (without > 0) {
    lines.push_back(plural(without, "parameter") +
                    " left out: no logical axes in the model");
  }
  note_activations(input, kFlaxName, diags);
  note_slices(input, kFlaxName, diags);
  std::string text = comment_text(lines) + "LOGICAL_AXIS_RULES = (\n";
  for (const LogicalRule& rule : rules->logical_rules) {
    text += "    (" + label_text(rule.name) + ", " + python_axes(rule.axes) +
            "),\n";
  }
  return text + ")\n\nLOGICAL_AXES = {" + (axes.empty() ? "" : "\n") + axes +
         "}\n";
}

}  // namespace

const ExportTarget kPythonTarget = {
    kName, "a table of patterns and PartitionSpecs (EasyLM, EasyDeL, eFormer)",
    write};

const ExportTarget kJaxTarget = {
    kJaxName, "a Python module: a PartitionSpec per parameter, and the mesh",
    write_jax, ExportViews::Views};

const ExportTarget kFlaxTarget = {
    kFlaxName, "flax logical axis rules, and the parameters' logical axes",
    write_flax};

}  // namespace shardplan
