#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records which slices JAX gives to devices under two meshes over one array.

    python3 tests/data/record_views.py > tests/data/views.jsonl

A model with experts has one jax.sharding.Mesh for attention and another one,
with other axes, for its experts; both are reshapes of one array of devices,
which is what `--view` says. A line has the sizes of both, the spec, the mesh
that the spec is of (`view`: the second one), the shape, and of every device
where its slice begins and ends, dimension by dimension, as
NamedSharding.devices_indices_map has them. Sizes, shapes and specs are drawn
with a fixed seed; sizes of the second mesh are any factors, also such that no
axis of one mesh is a part of an axis of the other.
"""

import json
import os
import random
import sys

DEVICES = 24
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

RECORDS = 240


def factors(number, draw):
    """`number` as a product of two or three sizes."""
    sizes = []
    for _ in range(draw.randrange(1, 3)):
        size = draw.choice([n for n in range(1, number + 1)
                            if number % n == 0])
        sizes.append(size)
        number //= size
    return sizes + [number]


def drawn_spec(axes, rank, draw):
    """Some of the axes, each on one dimension, in any order."""
    names = [name for name, _ in axes]
    draw.shuffle(names)
    dims = [[] for _ in range(rank)]
    for name in names:
        dim = draw.randrange(rank + 1)
        if dim < rank:
            dims[dim].append(name)
    return dims


def record(draw):
    count = draw.choice([4, 6, 8, 12, 16, 24])
    devices = np.array(jax.devices()[:count])
    lists = [[(prefix + str(i), size)
              for i, size in enumerate(factors(count, draw))]
             for prefix in ("m", "e")]
    meshes = [Mesh(devices.reshape([size for _, size in axes]),
                   [name for name, _ in axes]) for axes in lists]
    which = draw.randrange(2)
    rank = draw.randrange(1, 4)
    dims = drawn_spec(lists[which], rank, draw)
    sizes = dict(lists[which])
    shape = []
    for names in dims:
        size = draw.randrange(1, 4)
        for name in names:
            size *= sizes[name]
        shape.append(size)
    spec = PartitionSpec(*[tuple(names) if names else None for names in dims])
    held = NamedSharding(meshes[which], spec).devices_indices_map(tuple(shape))
    slices = []
    for device in devices:
        at = [part.indices(size) for part, size in zip(held[device], shape)]
        slices.append([[begin, end] for begin, end, _ in at])
    return {"mesh": lists[0], "experts": lists[1],
            "view": "experts" if which else "", "shape": shape, "spec": dims,
            "slices": slices}


def main():
    draw = random.Random(7)
    print(json.dumps({"jax": jax.__version__}))
    for _ in range(RECORDS):
        json.dump(record(draw), sys.stdout, separators=(",", ":"))
        print()


if __name__ == "__main__":
    main()
