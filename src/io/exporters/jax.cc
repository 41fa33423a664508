// SPDX-License-Identifier: Apache-2.0
// A Python module for JAX: a dict of name to PartitionSpec, and the mesh. It
// needs nothing of ours.
#include <string>

#include "io/exporters/exporters.h"
#include "io/expressible.h"
#include "io/python_text.h"
#include "io/resolved_table.h"

namespace shardplan {
namespace {

constexpr std::string_view kName = "jax";

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

// `(4, 2)`, `(8,)`.
std::string sizes_text(const Mesh& mesh) {
  std::string text = "(";
  for (const Axis& axis : mesh.axes()) {
    text += (text.size() == 1 ? "" : " ") + std::to_string(axis.size) + ",";
  }
  if (mesh.axes().size() > 1) text.pop_back();
  return text + ")";
}

AxisNames names_of(const Mesh& mesh) {
  AxisNames names;
  for (const Axis& axis : mesh.axes()) names.push_back(axis.name);
  return names;
}

std::optional<std::string> write(const ExportInput& input, Diagnostics& diags) {
  if (!specs_are_expressible(input, kName, diags)) return std::nullopt;
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
      header_lines(input, "A PartitionSpec per parameter", kName);
  add_left_out(left_out, lines);
  note_activations(input, kName, diags);
  note_slices(input, kName, diags);
  return comment_text(lines) +
         "\"\"\"How parameters are sharded: PARTITION_SPECS over "
         "make_mesh().\"\"\"\n\n"
         "import math\n\nimport jax\nimport numpy as np\n"
         "from jax.sharding import Mesh, PartitionSpec\n\n"
         "AXIS_NAMES = " +
         python_names(names_of(input.plan.mesh)) +
         "\nMESH_SHAPE = " + sizes_text(input.plan.mesh) +
         "\n\nPARTITION_SPECS = {" + (entries.empty() ? "" : "\n") + entries +
         "}\n" + std::string(kMakeMesh);
}

}  // namespace

const ExportTarget kJaxTarget = {
    kName, "a Python module: a PartitionSpec per parameter, and the mesh",
    write};

}  // namespace shardplan
