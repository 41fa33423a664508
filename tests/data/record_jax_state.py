# SPDX-License-Identifier: Apache-2.0
"""Records what JAX and optax make of specs that shardplan resolved.

    pip install "jax[cpu]==0.10.2" optax==0.2.8
    python tests/data/record_jax_state.py build/release/shardplan

Writes tests/data/jax/state.json and uneven.json. The specs are the program's;
everything else is JAX's own answer: the shape of a shard is
NamedSharding.shard_shape, the leaves of an optimizer are those of
jax.eval_shape of its init, and their specs are what JAX infers on a mesh of
explicit axes. No device is needed for state.json; uneven.json compiles for
forced host devices and reads the local shape from the compiled program.

state.json: per case (model, rules, mesh) its rows
    [tensors, dtype, shape, spec, local shape, leaves]
where `leaves` numbers an entry of `leaves`: [roles, shape, spec, local shape],
and roles are "optimizer/leaf". A leaf has the dtype of its parameter, as optax
leaves it. `alone` holds the leaves that belong to no parameter.
"""
import collections
import json
import os
import pathlib
import subprocess
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=16"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

DATA = pathlib.Path(__file__).parent
OUT = DATA / "jax"
DTYPES = {"bf16": jnp.bfloat16, "f32": jnp.float32, "f16": jnp.float16}
OPTIMIZERS = {
    "adamw": optax.adamw(1e-3),
    "adafactor": optax.adafactor(1e-3),
    "lion": optax.lion(1e-3),
    "sgd": optax.sgd(1e-3),
    "sgd-momentum": optax.sgd(1e-3, momentum=0.9),
    "muon": optax.contrib.muon(1e-3),
}
# (config, rules, meshes). Meshes that do not divide everything are wanted:
# what the program then leaves of a spec must be legal for JAX.
CASES = [
    ("configs/llama-3.2-1b.json", "@llama",
     ["fsdp=8,tp=4", "dp=2,fsdp=4,tp=2", "fsdp=64", "tp=16", "fsdp=3,tp=5"]),
    ("configs/llama-3.1-8b.json", "@llama",
     ["fsdp=8,tp=4", "fsdp=64", "dp=2,fsdp=16,sp=2,tp=8"]),
    ("configs/qwen3-30b-a3b.json", "@qwen3_moe",
     ["fsdp=8,tp=4", "dp=2,fsdp=4,tp=2", "fsdp=4,ep=8,tp=2"]),
    ("configs/gpt2.json", "@gpt2",
     ["fsdp=8,tp=4", "dp=2,fsdp=4,tp=2", "fsdp=64", "fsdp=7"]),
    ("configs/gemma-2-2b.json", "@gemma2",
     ["fsdp=8,tp=4", "dp=2,fsdp=4,tp=2", "fsdp=64", "tp=16"]),
    ("configs/mixtral-8x7b.json", "@mixtral",
     ["fsdp=8,tp=4", "fsdp=4,ep=8", "fsdp=64"]),
    ("validation/deepseek2-16b.json", "validation/deepseek2-16b.rules.yaml",
     ["fsdp=4", "fsdp=8,tensor=4", "fsdp=4,expert=4,tensor=2", "fsdp=48"]),
]
# Dimensions that their axes do not divide.
UNEVEN = [
    ((50257, 768), ("tp", "fsdp")), ((17, 64), ("tp", None)),
    ((5, 7), ("fsdp", "tp")), ((3, 8), (("fsdp", "tp"), None)),
    ((10, 4), (("fsdp", "tp"), None)), ((1, 6), ("tp", "fsdp")),
    ((33, 6, 9), (None, ("tp", "fsdp"), "dp")), ((13,), (("dp", "fsdp"),)),
]
UNEVEN_MESHES = [{"dp": 2, "fsdp": 2, "tp": 4}, {"dp": 1, "fsdp": 3, "tp": 2},
                 {"dp": 1, "fsdp": 4, "tp": 3}]


def resolve(program, model, rules, mesh):
    path = DATA / rules if not rules.startswith("@") else rules
    report = subprocess.run(
        [program, "resolve", DATA / model, "--rules", path, "--mesh", mesh,
         "--json", "--isolated"], stdout=subprocess.PIPE, check=False)
    return json.loads(report.stdout)


def to_spec(entries):
    return P(*(tuple(e) if isinstance(e, list) else e for e in entries))


def from_spec(spec, rank):
    entries = [list(e) if isinstance(e, tuple) else e for e in spec]
    return entries + [None] * (rank - len(entries))


def explicit_mesh(axes):
    return AbstractMesh(tuple(axes.values()), tuple(axes),
                        axis_types=(AxisType.Explicit,) * len(axes))


def leaf_of(path, names):
    """The parameter that a leaf belongs to, and what the leaf is called."""
    keys = [getattr(k, "key", getattr(k, "name", None)) for k in path]
    role = [k for k in keys if isinstance(k, str)
            and k not in names and k != "inner_states"
            and k not in ("adam", "muon", "inner_state")][-1]
    owner = [k for k in keys if k in names]
    group = [k for k in keys if k in ("adam", "muon")]
    return (owner or [None])[0], role, (group or [None])[0]


def entry(mesh, leaf):
    if leaf.sharding is None:
        return [list(leaf.shape), [None] * len(leaf.shape), list(leaf.shape)]
    assert leaf.sharding.mesh == mesh
    return [list(leaf.shape), from_spec(leaf.sharding.spec, len(leaf.shape)),
            list(leaf.sharding.shard_shape(leaf.shape))]


def state_of(mesh, parameters):
    """Leaves per parameter, and those of no parameter, of every optimizer."""
    per, alone = collections.defaultdict(list), []
    with jax.sharding.use_abstract_mesh(mesh):
        for name, optimizer in OPTIMIZERS.items():
            state = jax.eval_shape(optimizer.init, parameters)
            for path, leaf in jax.tree_util.tree_leaves_with_path(state):
                owner, role, group = leaf_of(path, parameters)
                row = entry(mesh, leaf)
                if owner is None:
                    role = f"{name}/{group}/{role}" if group else f"{name}/{role}"
                    alone.append([role, leaf.dtype.name, row[0]])
                    continue
                assert leaf.dtype == parameters[owner].dtype, (path, leaf)
                per[owner].append((f"{name}/{role}", row))
    return per, alone


def grouped(leaves):
    """[(role, row)] as [roles, shape, spec, local], rows once each."""
    roles = {}
    for role, row in leaves:
        roles.setdefault(json.dumps(row), []).append(role)
    return [[sorted(names), *json.loads(row)] for row, names in roles.items()]


def case(program, model, rules, mesh_text, shared):
    report = resolve(program, model, rules, mesh_text)
    axes = report["summary"]["mesh"]
    mesh = explicit_mesh(axes)
    classes = collections.Counter(
        json.dumps([row["dtype"], row["shape"], row["spec"]])
        for row in report["tables"]["placements"])
    parameters = {}
    for key in classes:
        dtype, shape, spec = json.loads(key)
        parameters[key] = jax.ShapeDtypeStruct(
            shape, DTYPES[dtype], sharding=NamedSharding(mesh, to_spec(spec)))
    per, alone = state_of(mesh, parameters)
    assert alone == shared.setdefault("alone", alone)
    rows = []
    for key, count in classes.items():
        dtype, shape, spec = json.loads(key)
        parameter = parameters[key]
        leaves = grouped(per[key])
        number = shared["leaves"].setdefault(json.dumps(leaves),
                                             len(shared["leaves"]))
        local = parameter.sharding.shard_shape(parameter.shape)
        rows.append([count, dtype, shape, spec, list(local), number])
    return {"model": model, "rules": rules, "mesh": mesh_text, "rows": rows}


def padded(axes, shape, spec):
    """Local shape of a value that jit constrains to the spec: GSPMD's."""
    devices = np.array(jax.devices()[:np.prod(list(axes.values()))])
    mesh = Mesh(devices.reshape(tuple(axes.values())), tuple(axes))
    sharding = NamedSharding(mesh, to_spec(spec))

    def constrained(key):
        value = jax.random.uniform(key, shape)
        return jnp.sum(jax.lax.with_sharding_constraint(value, sharding))

    key = jax.random.key(0)
    text = jax.jit(constrained).lower(key).compile().as_text()
    want = [(-(-d // np.prod([axes[a] for a in ([e] if isinstance(e, str)
                                                else e or [])], dtype=int)))
            for d, e in zip(shape, list(spec) + [None] * len(shape))]
    shapes = "f32[" + ",".join(str(int(n)) for n in want) + "]"
    return [int(n) for n in want] if shapes in text else None


def uneven():
    rows = []
    for axes in UNEVEN_MESHES:
        mesh = AbstractMesh(tuple(axes.values()), tuple(axes))
        for shape, spec in UNEVEN:
            try:
                local = NamedSharding(mesh, to_spec(spec)).shard_shape(shape)
                refused = False
            except ValueError:
                local, refused = None, True
            rows.append({
                "mesh": ",".join(f"{a}={n}" for a, n in axes.items()),
                "shape": shape, "spec": spec, "refused": refused,
                "shard_shape": local, "gspmd": padded(axes, shape, spec)})
    return rows


def lines(rows):
    return "[\n" + ",\n".join("  " + json.dumps(r) for r in rows) + "\n]"


def main():
    OUT.mkdir(exist_ok=True)
    program = os.path.abspath(sys.argv[1])
    source = f"jax {jax.__version__}, optax {optax.__version__}"
    shared = {"leaves": {}}
    cases = [case(program, model, rules, mesh, shared)
             for model, rules, meshes in CASES for mesh in meshes]
    leaves = [json.loads(k) for k in shared["leaves"]]
    parts = [f'"source": {json.dumps(source)}',
             f'"alone": {lines(shared["alone"])}',
             f'"leaves": {lines(leaves)}']
    texts = []
    for c in cases:
        rows = c.pop("rows")
        texts.append(json.dumps(c)[:-1] + f', "rows": {lines(rows)}}}')
    parts.append('"cases": [\n' + ",\n".join(texts) + "\n]")
    (OUT / "state.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")
    (OUT / "uneven.json").write_text(
        f'{{"source": {json.dumps(source)},\n"rows": {lines(uneven())}}}\n')


if __name__ == "__main__":
    main()
