// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/spec.h"
#include "tests/support/exported.h"
#include "tests/support/json_axes.h"
#include "tests/support/memory_host.h"
#include "tests/support/source_dir.h"

namespace shardplan {
namespace {

using testing::exported;
using testing::Exporting;

Exporting model() {
  return {
      testing::manifest({{"layers/0/w", "f32[8, 8]"},
                         {"layers/1/w", "f32[8, 8]"},
                         {"norm", "f32[7]"}}),
      testing::rules({{"\\d/w$", "(fsdp, sp), tp"}, {"norm", "sp"}}, {"sp"}),
      testing::mesh("fsdp=2,tp=2")};
}

TEST_CASE("rules of mesh axes are written, without axes the mesh lacks") {
  CHECK(exported("python", model()) ==
        R"py(# Partition rules, as given; `shardplan export --to python`.
# model: m.json
# mesh: fsdp=2,tp=2
# declared axes that the mesh lacks are left out: sp
from jax.sharding import PartitionSpec

RULES = (
    (r"\d/w$", PartitionSpec("fsdp", "tp")),
    ("norm", PartitionSpec(None)),
)
)py");
}

TEST_CASE("rules that name other axes become one entry per layer") {
  const char* const specs[] = {"EMBED, fsdp", "logical:mlp, tp", "mlp, tp",
                               "mesh:fsdp, tp"};
  for (const char* spec : specs) {
    CAPTURE(spec);
    Exporting what = model();
    what.rules.rules[0].spec = testing::spec(spec);
    what.rules.logical_rules = {{"mlp", {"fsdp"}, {}, {}}};
    const std::string text = exported("python", what);
    CHECK(text.find("# the rules name axes that the mesh lacks\n") !=
          std::string::npos);
    CHECK(text.find("    (\"^layers/[0-9]+/w$\", PartitionSpec(") !=
          std::string::npos);
  }
}

// An axis was written twice where the plan used it once.
TEST_CASE("rules that use an axis twice become one entry per layer") {
  Exporting what = model();
  for (const char* spec : {"tp, tp", "(tp, tp)", "tp, mesh:tp", "HEAD, tp"}) {
    CAPTURE(spec);
    what.rules.rules[0].spec = testing::spec(spec);
    const std::string text = exported("python", what);
    CHECK(text.find("# Partition rules, one per parameter or layer") == 0);
    CHECK(text.find("    (\"^layers/[0-9]+/w$\", PartitionSpec(\"tp\", "
                    "None)),\n") != std::string::npos);
  }
  // Nor by a rule that decides nothing.
  what = model();
  what.rules.rules.push_back(what.rules.rules[0]);
  what.rules.rules.back().spec = testing::spec("tp, None, tp");
  CHECK(exported("python", what).find("(SP202)") != std::string::npos);
  // The sound twin is written as it is.
  what.rules.rules.back().spec = testing::spec("tp, None, fsdp");
  CHECK(exported("python", what).find("(r\"\\d/w$\"") != std::string::npos);
}

TEST_CASE("an unknown axis stays: its reader meets the same mistake") {
  Exporting what = model();
  what.rules.rules[0].spec = testing::spec("model");
  CHECK(exported("python", what).find("PartitionSpec(\"model\")") !=
        std::string::npos);
}

TEST_CASE("without rules or parameters the table is empty") {
  CHECK(exported("python", {testing::manifest({}), testing::rules({}),
                            testing::mesh("tp=2")})
            .ends_with("\nRULES = ()\n"));
}

// That Python imports it, and what JAX makes of it, is recorded by
// tests/data/record_jax_export.py.

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
# 1 parameter left out: no matching rule (SP101)
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

Exporting flax_model() {
  Exporting what{testing::manifest({{"wi", "f32[8, 8]"},
                                    {"scale", "f32[8]"},
                                    {"step", "i32[]"},
                                    {"other", "f32[8]"}}),
                 testing::rules({}), testing::mesh("fsdp=2,tp=2")};
  what.model.set_axes(0, {"embed", "mlp"});
  what.model.set_axes(1, {std::nullopt});
  what.model.set_axes(2, {});
  what.rules.logical_rules = {{"embed", {"fsdp"}, {}, {}},
                              {"mlp", {"fsdp", "tp"}, {}, {}},
                              {"norm", {}, {}, {}},
                              {std::nullopt, {"tp"}, {}, {}}};
  return what;
}

TEST_CASE("logical axis rules come with the axes of the parameters") {
  CHECK(exported("flax", flax_model()) ==
        R"py(# Logical axis rules, as given; `shardplan export --to flax`.
# model: m.json
# mesh: fsdp=2,tp=2
# 1 parameter left out: no logical axes in the model
LOGICAL_AXIS_RULES = (
    ("embed", "fsdp"),
    ("mlp", ("fsdp", "tp")),
    ("norm", None),
    (None, "tp"),
)

LOGICAL_AXES = {
    "wi": ("embed", "mlp"),
    "scale": (None,),
    "step": (),
}
)py");
}

TEST_CASE("what is not a logical axis rule cannot be said") {
  Exporting what = flax_model();
  what.rules = testing::rules({{"wi", "tp"}, {"o", "tp"}});
  CHECK(
      exported("flax", what) ==
      "SP014 rules:1:1 `flax` cannot express pattern rules such as `wi` and 1 "
      "more");
  what.rules = RuleSet();
  CHECK(exported("flax", what) ==
        "SP014 `flax` needs logical axis rules, but there are none");
  what.saved = true;
  CHECK(exported("flax", what) ==
        "SP014 `flax` needs logical axis rules: a saved plan has no rules");
  what = flax_model();
  what.rules.logical_reading = LogicalReading::Mapping;
  CHECK(exported("flax", what) ==
        "SP014 `flax` assigns each mesh axis once, by priority, but this is a "
        "mapping, which assigns it to every name");
}

TEST_CASE("an axis that the plan uses once is not written twice") {
  for (const char* target : {"flax", "maxtext"}) {
    Exporting what = flax_model();
    what.rules.logical_rules.resize(3);
    what.rules.logical_rules[1].axes = {"tp", "tp"};
    CHECK(exported(target, what)
              .find("` cannot express how the plan resolves (tp, tp), which "
                    "names an axis twice") != std::string::npos);
    what.rules.logical_rules[1].axes = {"tp"};
    CHECK(exported(target, what).find("SP014") == std::string::npos);
  }
}

TEST_CASE("axes are declared by having them") {
  Exporting what = flax_model();
  what.rules.declared_axes = {"tp", "sp"};
  what.rules.logical_rules[1].axes = {"fsdp", "sp"};
  CHECK(exported("flax", what) ==
        "SP014 `flax` cannot declare axes, and the mesh has no `sp`");
  what.mesh = testing::mesh("fsdp=2,tp=2,sp=1");
  CHECK(exported("flax", what).find("(\"mlp\", (\"fsdp\", \"sp\"))") !=
        std::string::npos);
}

TEST_CASE("activations and slices are left out with a note") {
  Exporting what = flax_model();
  what.rules.activations = testing::rules({{"hidden", "tp"}}).rules;
  what.rules.activations[0].where = {};
  what.rules.dcn_mesh = {{"fsdp", 2, {}, {}, {}}, {"tp", 1, {}, {}, {}}};
  CHECK(exported("flax", what)
            .ends_with(
                "}\nSP014 note `flax` leaves out activation specs\n"
                "SP014 note `flax` does not record which axes span slices"));
}

}  // namespace

}  // namespace shardplan
