# SPDX-License-Identifier: Apache-2.0
"""Records that Python and JAX take what `export` writes, and what they make of it.

    pip install "jax[cpu]==0.10.2"
    python tests/data/record_jax_export.py build/release/shardplan

Writes tests/data/jax/export.json: the texts of `--to jax` and `--to python` for
a small model, the mesh that the module's make_mesh() gives on 8 forced host
devices, the slices that every device holds under each of its PartitionSpecs
(NamedSharding.devices_indices_map), and the spec that Python's own re.search
finds in the table for every name. Both are imported as modules.
"""
import importlib.util
import json
import os
import pathlib
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy as np
from jax.sharding import NamedSharding

DATA = pathlib.Path(__file__).parent
OUT = DATA / "jax" / "export.json"
MESH = "fsdp=4,tp=2"


def export(program, folder, target):
    return subprocess.run(
        [program, "export", "model.json", "--rules", "rules.yaml", "--mesh",
         MESH, "--to", target, "-q", "--isolated", "--exit-zero"],
        cwd=folder, stdout=subprocess.PIPE, check=True).stdout.decode()


def imported(folder, name, text):
    path = pathlib.Path(folder) / f"{name}.py"
    path.write_text(text)
    py_compile.compile(str(path), doraise=True)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entries(spec):
    return [list(e) if isinstance(e, tuple) else e for e in spec]


def bounds(index, shape):
    return [list(s.indices(size)[:2]) for s, size in zip(index, shape)]


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    shapes = {
        name: value["shape"] for name, value in json.loads(
            (DATA / "jax/export_model.json").read_text())["parameters"].items()}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(DATA / "jax/export_model.json", folder + "/model.json")
        shutil.copy(DATA / "jax/export_rules.yaml", folder + "/rules.yaml")
        texts = {t: export(program, folder, t) for t in ("jax", "python")}
        specs = imported(folder, "specs", texts["jax"])
        table = imported(folder, "table", texts["python"])
    mesh = specs.make_mesh()
    assert list(specs.PARTITION_SPECS) == list(shapes)
    try:
        specs.make_mesh(jax.devices()[:3])
        raise AssertionError("three devices made a mesh of eight")
    except ValueError:
        pass
    parameters = {}
    for name, shape in shapes.items():
        spec = specs.PARTITION_SPECS[name]
        sharding = NamedSharding(mesh, spec)
        jax.device_put(np.zeros(shape, np.float32), sharding)
        slices = sharding.devices_indices_map(tuple(shape))
        found = [s for pattern, s in table.RULES if re.search(pattern, name)]
        parameters[name] = {
            "spec": entries(spec),
            "slices": [bounds(slices[d], shape) for d in jax.devices()],
            "rule": entries(found[0]) if found else None,
        }
    recording = {
        "jax_version": jax.__version__,
        "texts": texts,
        "axis_names": list(mesh.axis_names),
        "device_ids": [[d.id for d in row] for row in mesh.devices],
        "parameters": parameters,
    }
    OUT.write_text(json.dumps(recording, indent=1, ensure_ascii=False) + "\n")


main()
