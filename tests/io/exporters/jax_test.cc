// SPDX-License-Identifier: Apache-2.0
// That Python imports it, and what JAX makes of it, is recorded by
// tests/data/record_jax_export.py.
#include <doctest/doctest.h>

#include "tests/support/exported.h"

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

}  // namespace
}  // namespace shardplan
