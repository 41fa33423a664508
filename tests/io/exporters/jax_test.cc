// SPDX-License-Identifier: Apache-2.0
// That Python imports it, and what JAX makes of it, is recorded by
// tests/data/record_jax_export.py.
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/spec.h"
#include "tests/support/exported.h"
#include "tests/support/memory_host.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

using testing::exported;

TEST_CASE("a module has every spec, the mesh and a function that makes it") {
  CHECK(exported("jax",
                 {testing::manifest({{"layers/0/w", "f32[8, 8]"},
                                     {"say \"hi\"\\", "f32[7]"},
                                     {"other", "f32[8]"}}),
                  testing::rules({{"w$", "(fsdp, tp), None"}, {"hi", "tp"}}),
                  testing::mesh("fsdp=2,tp=2")}) ==
        R"py(# A PartitionSpec per parameter; `shardplan export --to jax`.
# model: m.json
# mesh: fsdp=2,tp=2
# 1 parameter that no rule is found in (SP101): left out
"""How parameters are sharded: PARTITION_SPECS over make_mesh()."""

import math

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

AXIS_NAMES = ("fsdp", "tp")
MESH_SHAPE = (2, 2)

PARTITION_SPECS = {
    "layers/0/w": PartitionSpec(("fsdp", "tp"), None),
    "say \"hi\"\\": PartitionSpec(),
}


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
)py");
}

TEST_CASE("a mesh of one axis is a tuple, too") {
  const std::string text = exported(
      "jax",
      {testing::manifest({}), testing::rules({}), testing::mesh("tp=2")});
  CHECK(text.find("AXIS_NAMES = (\"tp\",)\nMESH_SHAPE = (2,)\n\n"
                  "PARTITION_SPECS = {}\n") != std::string::npos);
}

std::string recorded(const char* name) {
  std::ifstream file(source_dir() / "tests/data/jax" / name);
  return {std::istreambuf_iterator<char>(file), {}};
}

PartitionSpec spec_of(const nlohmann::json& entries) {
  PartitionSpec spec;
  for (const auto& entry : entries) {
    AxisNames axes;
    if (entry.is_string()) axes = {entry.get<std::string>()};
    if (entry.is_array()) axes = entry.get<AxisNames>();
    spec.dims.push_back(axes);
  }
  return spec;
}

TEST_CASE("what Python and JAX imported is what is written") {
  const auto recording = nlohmann::json::parse(recorded("export.json"));
  testing::MemoryHost host;
  host.files["model.json"] = recorded("export_model.json");
  host.files["rules.yaml"] = recorded("export_rules.yaml");
  for (const char* target : {"jax", "python"}) {
    host.out.clear();
    CHECK(cli::run({"export", "model.json", "--rules", "rules.yaml", "--mesh",
                    "fsdp=4,tp=2", "--to", target, "--exit-zero"},
                   host) == 0);
    CHECK(host.out == recording.at("texts").at(target));
  }
}

TEST_CASE("JAX gives every device the slices that the plan gives it") {
  const auto recording = nlohmann::json::parse(recorded("export.json"));
  const Mesh mesh = testing::mesh("fsdp=4,tp=2");
  const auto model = nlohmann::json::parse(recorded("export_model.json"));
  for (const auto& entry : recording.at("parameters").items()) {
    const std::string name = entry.key();
    const nlohmann::json& answer = entry.value();
    CAPTURE(name);
    const PartitionSpec spec = spec_of(answer.at("spec"));
    const Shape shape = model.at("parameters").at(name).at("shape");
    for (int64_t device = 0; device < mesh.devices(); ++device) {
      const auto& slices = answer.at("slices").at(static_cast<size_t>(device));
      for (size_t dim = 0; dim < shape.size(); ++dim) {
        const AxisNames axes =
            dim < spec.dims.size() ? spec.dims[dim] : AxisNames();
        const Slice slice = dimension_slice(mesh, axes, Cut::Even, shape[dim],
                                            mesh.coordinates(device));
        CHECK(slices.at(dim) == nlohmann::json({slice.begin, slice.end}));
      }
    }
  }
}

}  // namespace
}  // namespace shardplan
