# SPDX-License-Identifier: Apache-2.0
"""Records what JAX and XLA make of the programs of program_table.py.

    pip install "jax[cpu]==0.10.2"
    python tests/vectors/record_programs.py

Writes tests/data/jax/programs.json, one program per line: the program as a
graph file of shardplan, its mesh, the specs of its parameters, the results on 8
forced host devices in float32, the layouts that XLA gave them, and every
collective of the compiled HLO. An unsharded run in JAX agrees with the results,
or nothing is written.

Numbers of a tensor are not stored: element i, row-major, of a tensor is made
from hash(i + hash of its name), see `numbers`.

A collective is {kind, axes, ranks, element, operand, result, bytes}: the mesh
axes along which its devices lie (fewer ranks than these axes have is a part of
them), local shapes, and the bytes that the busiest device sends on a ring. One
of several operands has a row for each, with its share. `sliced` marks an
all-reduce of which every device keeps a slice only: XLA's CPU backend has no
pass that makes a reduce-scatter of it, as those of GPUs and TPUs do. Programs
have no loops, so everything runs once.
"""
import json
import os
import pathlib
import re

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from program_table import PROGRAMS

OUT = pathlib.Path(__file__).parent.parent / "data/jax/programs.json"


# The table's texts.

def spec_entries(text):
    """"dp+tp -" as [["dp", "tp"], None]."""
    entries = [e.split("+") for e in text.replace(".", " ").split()]
    return [None if e == ["-"] else e[0] if len(e) == 1 else e
            for e in entries]


def partition_spec(entries):
    return P(*(tuple(e) if isinstance(e, list) else e for e in entries))


def tensor_of(text):
    shape, _, spec = text.partition(" : ")
    shape, _, limit = shape.partition(" ids")
    tensor = {"shape": [int(n) for n in shape.split(",")],
              "spec": spec_entries(spec)}
    if limit:
        tensor |= {"dtype": "i32", "below": int(limit)}
    return tensor


def attribute(name, text):
    if name == "spec":
        return spec_entries(text)
    if name in ("equation", "approximate"):
        return text
    if name in ("dims", "sizes", "shape", "order"):
        return [int(n) for n in text.split(",")]
    return float(text) if "." in text else int(text)


def op_of(line):
    results, _, right = line.partition(" = ")
    op, *words = right.split()
    given = [w.split("=", 1) for w in words if "=" in w]
    results = results.split()
    return {"op": op, "in": [w for w in words if "=" not in w],
            "out": results[0] if len(results) == 1 else results,
            **{name: attribute(name, text) for name, text in given}}


def numbers(name, tensor):
    """Eighths in [-1, 1], or integers below the limit; C++ makes the same
    (tests/support/recorded_programs.cc)."""
    start = 2166136261  # FNV-1a
    for byte in name.encode():
        start = (start ^ byte) * 16777619 % 2**32
    h = np.arange(np.prod(tensor["shape"], dtype=np.int64), dtype=np.uint32)
    h += np.uint32(start)  # then the finaliser of MurmurHash3
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
    h ^= h >> np.uint32(16)
    if "below" in tensor:
        values = (h % np.uint32(tensor["below"])).astype(np.int32)
    else:
        values = ((h % np.uint32(17)).astype(np.float32) - 8) / 8
    return values.reshape(tensor["shape"])


# Operations as a user of JAX writes them; `a` are attributes.

def rms_norm(a, x, w):
    return x * lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + a["epsilon"]) * w


def layer_norm(a, x, w, b):
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean((x - mean)**2, -1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + a["epsilon"]) * w + b


def causal_mask(a, x):
    return jnp.where(jnp.tril(jnp.ones(x.shape[-2:], bool)), x, -jnp.inf)


def reduction(function):
    return lambda a, x: function(x, tuple(a["dims"]), keepdims=bool(a["keep"]))


OPS = {
    "einsum": lambda a, x, y: jnp.einsum(a["equation"], x, y),
    "linear": lambda a, x, w, b: x @ w + b,
    "add": lambda a, x, y: x + y,
    "multiply": lambda a, x, y: x * y,
    "scale": lambda a, x: x * a["by"],
    "relu": lambda a, x: jax.nn.relu(x),
    "silu": lambda a, x: jax.nn.silu(x),
    "tanh": lambda a, x: jnp.tanh(x),
    "gelu": lambda a, x: jax.nn.gelu(x, a["approximate"] == "tanh"),
    "sum": reduction(jnp.sum),
    "mean": reduction(jnp.mean),
    "max": reduction(jnp.max),
    "softmax": lambda a, x: jax.nn.softmax(x, a["dim"]),
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "causal_mask": causal_mask,
    "embedding": lambda a, table, ids: table[ids],
    "reshape": lambda a, x: x.reshape(a["shape"]),
    "transpose": lambda a, x: x.transpose(a["order"]),
    "slice": lambda a, x: lax.slice_in_dim(x, a["begin"], a["end"],
                                           axis=a["dim"]),
    "split": lambda a, x: jnp.split(x, np.cumsum(a["sizes"])[:-1], a["dim"]),
    "concatenate": lambda a, *x: jnp.concatenate(x, a["dim"]),
}


def function_of(ops, outputs, mesh):
    """Without a mesh, constraints do nothing."""
    def function(values):
        values = dict(values)
        for op in ops:
            operands = [values[name] for name in op["in"]]
            if op["op"] != "constraint":
                made = OPS[op["op"]](op, *operands)
            elif mesh:
                made = lax.with_sharding_constraint(
                    operands[0],
                    NamedSharding(mesh, partition_spec(op["spec"])))
            else:
                made = operands[0]
            if isinstance(op["out"], list):
                values.update(zip(op["out"], made))
            else:
                values[op["out"]] = made
        return {name: values[name] for name in outputs}
    return function


# Compiled HLO.

def mesh_of(text):
    return {axis: int(size) for axis, size in
            (part.split("=") for part in text.split(","))}


def iota(text):
    """"[4,2]T(1,0)" or "[8]": device numbers in that order."""
    shape, order = re.fullmatch(r"\[([\d,]+)\](?:T\(([\d,]+)\))?",
                                text).groups()
    shape = [int(n) for n in shape.split(",")]
    ids = np.arange(np.prod(shape)).reshape(shape)
    if order:
        ids = ids.transpose([int(n) for n in order.split(",")])
    return ids.reshape(-1)


def mesh_groups(text):
    """"mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)) {'a', 'b':(2)2}": groups
    along axes of a mesh of the compiler's own, or along a part of one:
    (elements before it) its size."""
    axes, ids, wanted = re.fullmatch(
        r"mesh\[(.*?)\](?:, device_ids=\((.*?)\))? \{(.*)\}", text).groups()
    sizes = {name: int(size) for name, size in
             re.findall(r"'(\w+)'=(\d+)", axes)}
    shape, along = [], []
    cut = {name: (int(before), int(size)) for name, before, size in
           re.findall(r"'(\w+)':\((\d+)\)(\d+)", wanted)}
    whole = re.findall(r"'(\w+)'(?!:)", wanted)
    for name, size in sizes.items():
        before, part = cut.get(name, (1, size))
        if name in cut or name in whole:
            along.append(len(shape) + 1)
        shape += [before, part, size // (before * part)]
    devices = iota(ids) if ids else np.arange(np.prod(shape))
    devices = devices.reshape(shape)
    rest = [d for d in range(len(shape)) if d not in along]
    count = int(np.prod([shape[d] for d in along]))
    return devices.transpose(rest + along).reshape(-1, count).tolist()


def replica_groups(text):
    if text.startswith("mesh["):
        return mesh_groups(text)
    if text.startswith("{"):
        return [[int(n) for n in group.split(",")]
                for group in re.findall(r"\{([\d,]+)\}", text[1:])]
    shape, order = text.split("<=")
    count = int(re.fullmatch(r"\[\d+,(\d+)\]", shape).group(1))
    return iota(order).reshape(-1, count).tolist()


def axes_of(groups, mesh):
    """Axes along which the devices of a group differ, in the mesh's order."""
    coordinates = np.stack(np.unravel_index(np.arange(8), list(mesh.values())))
    found = set()
    for group in groups:
        for axis, row in zip(mesh, coordinates):
            if len(set(row[group].tolist())) > 1:
                found.add(axis)
    return [axis for axis in mesh if axis in found]


SHAPE = r"(\w+)\[([\d,]*)\](?:\{[^}]*\})?"
LINE = re.compile(r"\s*(?:ROOT )?%([\w.-]+) = (\(.*?\)|" + SHAPE +
                  r") ([\w-]+)\((.*?)\)(.*)")


class Instruction:
    def __init__(self, match):
        self.name, shapes, _, _, self.opcode, operands, self.rest = (
            match.groups())
        self.shapes = [(element, [int(n) for n in dims.split(",") if n])
                       for element, dims in re.findall(SHAPE, shapes)]
        self.operands = re.findall(r"%([\w.-]+)", operands)
        self.number = operands  # of a parameter

    def attribute(self, name):
        found = re.search(name + r"=(mesh\[.*?\}|\{\{.*?\}\}|\{\}|[^ ]*?)"
                          r"(?:, \w+=|$)", self.rest)
        return found and found.group(1)


def computations(text):
    """By name, their instructions in order; the entry is "ENTRY"."""
    found, body = {}, None
    for line in text.splitlines():
        head = re.match(r"(ENTRY )?%([\w.-]+) \(.*\{$", line)
        if head:
            body = found.setdefault(head.group(1) and "ENTRY" or head.group(2),
                                    [])
        elif body is not None and (match := LINE.match(line)):
            body.append(Instruction(match))
    return found


def only_sliced(name, body, known):
    """Whether every reader of a value keeps a slice of it, and there is one."""
    readers = [i for i in body if name in i.operands]
    for reader in readers:
        if reader.opcode in ("bitcast", "copy", "get-tuple-element"):
            fine = only_sliced(reader.name, body, known)
        elif reader.opcode == "fusion":
            inner = known[re.search(r"calls=%([\w.-]+)", reader.rest).group(1)]
            number = str(reader.operands.index(name))
            parameter = next(i for i in inner if i.opcode == "parameter" and
                             i.number == number)
            fine = only_sliced(parameter.name, inner, known)
        else:
            fine = (reader.opcode == "dynamic-slice" and
                    reader.operands[0] == name)
        if not fine:
            return False
    return bool(readers)


KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all",
         "collective-permute")
BYTES = {"f32": 4, "s32": 4, "u32": 4, "bf16": 2, "pred": 1}


def sent_bytes(kind, ranks, operand, result):
    """Of the busiest device, on a ring."""
    if kind == "collective-permute":
        return operand
    whole = result if kind == "all-gather" else operand
    return whole * (ranks - 1) // ranks * (2 if kind == "all-reduce" else 1)


def collectives_of(text, mesh):
    known = computations(text)
    for name, body in known.items():
        if name != "ENTRY":
            assert not any(i.opcode.startswith(KINDS) for i in body), text
    body, found = known["ENTRY"], []
    by_name = {i.name: i for i in body}
    for i in body:
        assert i.opcode not in ("while", "conditional", "call"), text
        kind = i.opcode.removesuffix("-start")
        if kind not in KINDS:
            assert i.opcode.endswith("-done") or not i.opcode.startswith(
                KINDS), i.opcode
            continue
        assert not i.opcode.endswith("-start"), "shapes of these are pairs"
        if kind == "collective-permute":
            groups = [[a, b] for a, b in replica_groups(
                i.attribute("source_target_pairs")) if a != b]
            ranks = 2
        else:
            groups = replica_groups(i.attribute("replica_groups"))
            ranks = len(groups[0])
            assert all(len(g) == ranks for g in groups), i.rest
        if not groups or ranks == 1:
            continue
        operands = [by_name[name].shapes[0] for name in i.operands]
        results = i.shapes
        if kind == "all-to-all" and len(operands) == ranks:
            # In pieces, one per rank: one tensor all the same.
            element, shape = operands[0]
            assert len(set(map(str, operands))) == 1, text
            operands = results = [(element, [ranks, *shape])]
        assert len(operands) == len(results), i.rest
        for (element, operand), (_, result) in zip(operands, results):
            size = BYTES[element]
            row = {"kind": kind, "axes": axes_of(groups, mesh),
                   "ranks": ranks, "element": element, "operand": operand,
                   "result": result,
                   "bytes": sent_bytes(kind, ranks,
                                       size * int(np.prod(operand)),
                                       size * int(np.prod(result)))}
            if kind == "all-reduce" and len(operands) == 1 and only_sliced(
                    i.name, body, known):
                row["sliced"] = True
            found.append(row)
    return found


# One program.

def layout_of(sharding, rank):
    entries = [list(e) if isinstance(e, tuple) else e for e in sharding.spec]
    entries = [e[0] if isinstance(e, list) and len(e) == 1 else e or None
               for e in entries]
    return entries + [None] * (rank - len(entries))


def parsed(entry):
    inputs = {n: tensor_of(t) for n, t in entry["inputs"].items()}
    parameters = {n: tensor_of(t) for n, t in entry["parameters"].items()}
    ops = [op_of(line) for line in entry["ops"]]
    made = [n for op in ops for n in np.atleast_1d(op["out"]).tolist()]
    read = {n for op in ops for n in op["in"]}
    return inputs, parameters, ops, [n for n in made if n not in read]


def graph_of(name, inputs, parameters, ops, outputs, out):
    """Specs asked for of results are constraints at the end, unless the
    program ends with them."""
    said = {op["out"] for op in ops if op["op"] == "constraint"}
    pinned = {n: n + "_out" for n in outputs
              if out is not None and n not in said}
    return {
        "graph": name, "inputs": inputs,
        "parameters": {n: {"shape": t["shape"]} for n, t in
                       parameters.items()},
        "ops": ops + [{"op": "constraint", "in": [n], "out": end, "spec": out}
                      for n, end in pinned.items()],
        "outputs": [pinned.get(n, n) for n in outputs]}


def record(entry):
    inputs, parameters, ops, outputs = parsed(entry)
    tensors = inputs | parameters
    sizes = mesh_of(entry["mesh"])
    mesh = Mesh(np.asarray(jax.devices()).reshape(list(sizes.values())),
                tuple(sizes))
    out = None if entry["out"] is None else spec_entries(entry["out"])
    values = {n: numbers(n, t) for n, t in tensors.items()}
    shardings = {n: NamedSharding(mesh, partition_spec(t["spec"]))
                 for n, t in tensors.items()}
    more = {} if out is None else {"out_shardings": {
        n: NamedSharding(mesh, partition_spec(out)) for n in outputs}}
    compiled = jax.jit(function_of(ops, outputs, mesh), in_shardings=(
        shardings,), **more).lower(values).compile()
    answers = compiled(jax.device_put(values, shardings))
    alone = function_of(ops, outputs, None)(values)
    results = []
    for name in outputs:
        answer = np.asarray(answers[name])
        assert answer.dtype == np.float32
        np.testing.assert_allclose(answer, alone[name], rtol=1e-4, atol=1e-4)
        results.append({
            "shape": list(answer.shape),
            "spec": layout_of(compiled.output_shardings[name], answer.ndim),
            "values": [json.loads(str(v)) for v in answer.reshape(-1)]})
    return {
        "name": entry["name"], "group": entry["group"], "mesh": entry["mesh"],
        "specs": {n: t["spec"] for n, t in parameters.items()},
        "graph": graph_of(entry["name"], inputs, parameters, ops, outputs, out),
        "results": results,
        "collectives": collectives_of(compiled.as_text(), sizes)}


def main():
    lines = []
    for entry in PROGRAMS:
        row = record(entry)
        print(row["name"], "|", row["mesh"], "|",
              *(f"{c['kind']}{'/' * ('sliced' in c)}"
                f"({'+'.join(c['axes'])}:{c['ranks']}) {c['bytes']}"
                for c in row["collectives"]))
        lines.append(json.dumps(row, separators=(",", ":")))
    names = [entry["name"] for entry in PROGRAMS]
    assert len(set(names)) == len(names)
    versions = {"jax": jax.__version__, "jaxlib": jaxlib.__version__,
                "shardy": jax.config.jax_use_shardy_partitioner}
    OUT.write_text(json.dumps(versions)[:-1] + ', "programs": [\n' +
                   ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
