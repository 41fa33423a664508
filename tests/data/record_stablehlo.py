#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what JAX lowers for arguments with named shardings.

    python3 -m venv venv && venv/bin/pip install jax==0.6.2
    venv/bin/python tests/data/record_stablehlo.py tests/data/stablehlo

writes shardy.mlir (the Shardy partitioner) and gspmd.mlir (the older one), both
with locations, plain.mlir (Shardy, without), and arguments.json: the path,
shape, dtype and PartitionSpec of every argument, as they were passed. With
--exported, and jax==0.5.3 flatbuffers absl-py, it writes exported.mlir alone:
what jax.export gives, whose shardings are texts in attributes of XLA.
"""

import json
import os
import re
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

MESH = Mesh(np.array(jax.devices()).reshape(2, 2, 2), ("dp", "fsdp", "tp"))

# Path, shape, dtype, spec.
ARGUMENTS = [
    (("embed", "embedding"), (32, 16), jnp.bfloat16, P("tp", ("dp", "fsdp"))),
    (("layers", 0, "kernel"), (16, 8), jnp.float32, P("fsdp", "tp")),
    (("layers", 1, "kernel"), (16, 8), jnp.float32, P(("tp", "fsdp"), None)),
    (("layers", 2, "kernel"), (16, 8), jnp.float32, P(None, ("fsdp", "dp"))),
    (("norm", "scale"), (8,), jnp.float32, P("tp")),
    (("norm", "bias"), (8,), jnp.float16, P()),
    (("scales",), (4, 4), jnp.float8_e4m3fn, P("dp")),
    (("step",), (), jnp.int32, P()),
    (("mask",), (2, 2, 2), jnp.bool_, P("tp", "dp", "fsdp")),
    (("phase",), (4,), jnp.complex64, P(("dp", "tp"))),
    (("count",), (4,), jnp.uint8, P("fsdp")),
]


def shaped():
    params = {}
    for path, shape, dtype, spec in ARGUMENTS:
        at = params
        for part, after in zip(path, path[1:] + (None,)):
            if after is None:
                at[part] = jax.ShapeDtypeStruct(
                    shape, dtype, sharding=NamedSharding(MESH, spec)
                )
            else:
                at = at.setdefault(part, {})
    params["layers"] = [params["layers"][i] for i in range(3)]
    return params


def exported():
    from jax import export

    jax.config.update("jax_use_shardy_partitioner", True)
    step = jax.jit(lambda params: params["norm"]["scale"] * 2, keep_unused=True)
    text = export.deserialize(export.export(step)(shaped()).serialize()).mlir_module()
    return re.sub(r'loc\("[^"]*\.py":[^)]*\)', "loc(unknown)", text)


def lower(shardy, locations):
    jax.config.update("jax_use_shardy_partitioner", shardy)
    params = shaped()
    step = jax.jit(lambda params: params["norm"]["scale"] * 2, keep_unused=True)
    text = step.lower(params).as_text(debug_info=locations)
    # Places in this file say nothing of the model.
    return re.sub(r'loc\("[^"]*\.py":[^)]*\)', "loc(unknown)", text)


def entry(axes):
    return list(axes) if isinstance(axes, tuple) else axes


def main(folder):
    os.makedirs(folder, exist_ok=True)

    def save(name, text):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text.rstrip() + "\n")

    if "--exported" in sys.argv:
        save("exported.mlir", exported())
        return
    save("shardy.mlir", lower(True, True))
    save("plain.mlir", lower(True, False))
    save("gspmd.mlir", lower(False, True))
    save(
        "arguments.json",
        json.dumps(
            [
                {
                    "name": "/".join(["params", *map(str, path)]),
                    "shape": list(shape),
                    "dtype": jnp.dtype(dtype).name,
                    "spec": [entry(axes) for axes in spec],
                }
                for path, shape, dtype, spec in ARGUMENTS
            ],
            indent=1,
        ),
    )


if __name__ == "__main__":
    main(sys.argv[1])
