#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the originals answer to random questions, as conformance vectors.

Three environments, since the originals changed: `then` is flax 0.8.2 with jax
0.4.25, `now` eformer 0.0.90 and flax 0.12.6 with jax 0.8.2, `head` the same
with eformer 0.0.101. Each answers what it can:

    python3 record_random.py cases > cases.json
    then/bin/python record_random.py then < cases.json > then.json
    now/bin/python record_random.py now < cases.json > now.json
    head/bin/python record_random.py head < cases.json > head.json
    python3 record_random.py merge cases.json then.json now.json head.json \
        > tests/vectors/recorded.json
"""
import json
import os
import sys

from random_questions import FIELDS, make_cases, product


def write(value):
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def decode(value, of_list=tuple):
    """Lists of a vector are tuples, but for those marked."""
    if isinstance(value, dict):
        if "$list" in value:
            return [decode(v) for v in value["$list"]]
        if "$tuple" in value:
            return tuple(decode(v) for v in value["$tuple"])
        if "$unconstrained" in value:
            from jax.sharding import PartitionSpec
            return PartitionSpec.UNCONSTRAINED
        return {k: decode(v, of_list) for k, v in value.items()}
    if isinstance(value, list):
        return of_list(decode(v, of_list) for v in value)
    return value


def encode(value):
    from jax.sharding import PartitionSpec
    if value is PartitionSpec.UNCONSTRAINED:
        return {"$unconstrained": True}
    if type(value).__name__ == "_UnassignedAxis":
        return {"$unassigned": True}
    if isinstance(value, PartitionSpec):
        return [encode(v) for v in value]
    if isinstance(value, (tuple, list)):
        return [encode(v) for v in value]
    if isinstance(value, dict):
        return {k: encode(v) for k, v in value.items()}
    return value


def partition_spec(value):
    from jax.sharding import PartitionSpec
    return PartitionSpec(*decode(value))


def jax_mesh(value):
    import jax
    import numpy as np
    count = product(value["shape"])
    return jax.sharding.Mesh(
        np.asarray(jax.devices()[:count]).reshape(value["shape"]),
        value["axis_names"])


def flax_answer(function, inputs):
    from flax.linen import spmd
    names = decode(inputs["array_dim_names"])
    rules = decode(inputs["rules"])
    if function == "flax.logical_to_mesh_axes":
        return spmd.logical_to_mesh_axes(names, rules)
    if function == "flax._logical_to_mesh_axes":
        return spmd._logical_to_mesh_axes(names, rules)
    applied = []
    spmd._with_sharding_constraint = lambda x, axes, *a, **k: applied.append(axes)
    spmd.with_logical_constraint(
        0.0, names, rules=rules, fallback=spmd.RulesFallback(inputs["fallback"]))
    return {"constraint": encode(applied[0]) if applied else "none_applied"}


def partition_axis(inputs):
    from eformer.common_types import NOT_GIVEN
    from eformer.escale.partition.manager import PartitionAxis
    return PartitionAxis(**{
        k: NOT_GIVEN if v == "$NOT_GIVEN" else decode(v)
        for k, v in inputs.get("kwargs", {}).items()})


def manager_answer(inputs):
    from eformer import common_types
    from eformer.escale.partition.manager import PartitionManager
    given = {}
    if "axes_class" in inputs:
        given["axes"] = getattr(common_types, inputs["axes_class"])
    if "dynamic_class" in inputs:
        given["dynamic_axes"] = getattr(common_types, inputs["dynamic_class"])
    for key, name in (("axes_instance", "axes"),
                      ("dynamic_instance", "dynamic_axes")):
        if key in inputs:
            instance = inputs[key]
            given[name] = instance and common_types.DynamicShardingAxes(
                list(decode(instance["axes"])), instance["mode"])
    if "axes" in inputs:
        given["axes"] = list(decode(inputs["axes"]))
    for key in ("mode", "shape"):
        if key in inputs:
            given[key] = decode(inputs[key])
    return PartitionManager(partition_axis(inputs)).resolve(**given)


def layout_answer(inputs):
    import jax
    on = jax_mesh(inputs["mesh"])
    size = tuple(inputs["shape"])
    sharding = jax.sharding.NamedSharding(on, partition_spec(inputs["spec"]))
    sharding.check_compatible_aval(size)
    local = sharding.shard_shape(size)
    places = sharding.devices_indices_map(size)
    slices = []
    for device in on.devices.flat:
        slices.append([list(s.indices(n)[:2]) for s, n in zip(places[device], size)])
    spec_axes = [a if isinstance(a, tuple) else (a,) for a in sharding.spec if a]
    shards = product(on.shape[n] for axes in spec_axes for n in axes)
    indices = [[s[0] // w if w else 0 for s, w in zip(row, local)] for row in slices]
    return {"shard_shape": list(local), "num_distinct_shards": shards,
            "replication": on.size // shards,
            "shard_index[device]": indices, "slices[device]": slices}


def match_answer(inputs):
    import jax
    import numpy as np
    from eformer.escale.partition import constraints

    def arrays(node):
        if isinstance(node, dict) and "$shape" in node:
            return np.broadcast_to(np.float32(0), node["$shape"])
        if isinstance(node, dict) and "$tuple" in node:
            return tuple(arrays(n) for n in node["$tuple"])
        if isinstance(node, dict):
            return {k: arrays(v) for k, v in node.items()}
        if isinstance(node, list):
            return [arrays(n) for n in node]
        return node

    more = {} if inputs["min_size"] == "default" else {
        "min_size": inputs["min_size"]}
    specs = constraints.match_partition_rules(
        [(p, partition_spec(s)) for p, s in inputs["rules"]],
        arrays(inputs["tree"]), strict=inputs["strict"], **more)
    leaves = jax.tree_util.tree_flatten_with_path(
        specs, is_leaf=lambda x: isinstance(x, jax.sharding.PartitionSpec))[0]
    key = lambda k: str(getattr(k, "key", getattr(k, "idx", "")))
    return [["/".join(key(k) for k in path), encode(leaf)]
            for path, leaf in leaves]


def pattern_answer(inputs):
    from eformer.escale.partition import constraints
    default = inputs["default_spec"]
    find = constraints.create_pattern_based_partition_spec(
        inputs["pattern"], jax_mesh({"axis_names": ["x"], "shape": [1]}),
        None if default is None else partition_spec(default))
    result = {}
    for name in inputs["names"]:
        try:
            result[name] = encode(find(name, None))
        except Exception as error:  # re.error
            result[name] = {"error": {"type": "error", "message": str(error)}}
    # What it read is hidden in its closure.
    cells = dict(zip(find.__code__.co_freevars, find.__closure__))
    read = [c.cell_contents for c in cells.values()
            if isinstance(c.cell_contents, list)][0]
    return {"rules": [[p, encode(s)] for p, s in read], "result": result}


def eformer_answer(function, inputs):
    import numpy as np
    from eformer.escale.mesh import creation
    from eformer.escale.partition import auto_spec, constraints, manager
    if function == "PartitionAxis":
        made = partition_axis(inputs)
        return {f: getattr(made, f) for f in FIELDS}
    if function == "PartitionAxis.resolve_axis":
        return partition_axis(inputs).resolve_axis(
            decode(inputs["axes"]), inputs["mode"])
    if function == "PartitionAxis.resolve_spec":
        return partition_axis(inputs).resolve_spec(
            decode(inputs["axes"]), inputs["mode"])
    if function == "PartitionManager.resolve":
        return manager_answer(inputs)
    if function == "get_safe_hash_int":
        return str(manager.get_safe_hash_int(inputs["text"], inputs["algorithm"]))
    if function == "get_corrected_named_sharding":
        with jax_mesh(inputs["mesh"]) as on:
            made = constraints.get_corrected_named_sharding(
                tuple(inputs["shape"]), partition_spec(inputs["spec"]))
        return {"spec": encode(made.spec), "mesh_axis_names": list(on.axis_names)}
    if function == "shard_layout":
        return layout_answer(inputs)
    if function == "match_partition_rules":
        return match_answer(inputs)
    if function == "create_pattern_based_partition_spec":
        return pattern_answer(inputs)
    if function == "auto_partition_spec":
        names = inputs["names"]
        return auto_spec.auto_partition_spec(
            np.broadcast_to(np.float32(0), inputs["shape"]),
            jax_mesh(inputs["mesh"]), names and list(decode(names)),
            inputs["min_sharding_size"], inputs["reverse"])
    if function in ("create_mesh", "parse_mesh_from_string"):
        if function == "create_mesh":
            # The sizes are those of this array; the mesh adds no check.
            sizes = np.arange(8).reshape(inputs["axis_dims"]).shape
            return {"axis_names": inputs["axis_names"], "shape": list(sizes)}
        made = creation.parse_mesh_from_string(inputs["axis_dims"],
                                               inputs["names"])
        return {"axis_names": list(made.axis_names),
                "shape": list(made.devices.shape)}
    if function == "get_axes_size_in_mesh":
        names = inputs["axis_names"]
        return int(constraints.get_axes_size_in_mesh(names,
                                                     jax_mesh(inputs["mesh"])))
    value = decode(inputs["specs"])
    return sorted(constraints.get_names_from_partition_spec(value))


def who_answers(function):
    if function.startswith("flax."):
        return ("then", "now")
    if function.startswith("Partition"):
        return ("now", "head")
    # The earlier version of the one walks a set, in any order.
    if function in ("auto_partition_spec", "parse_mesh_from_string"):
        return ("head",)
    return ("now",)


def answer(environment):
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    # parse_mesh_from_string takes all devices that there are.
    count = "8" if environment == "head" else "32"
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=" + count
    answers = {}
    for case in json.load(sys.stdin):
        function = case["function"]
        if environment not in who_answers(function):
            continue
        try:
            ask = flax_answer if function.startswith("flax.") else eformer_answer
            answers[case["id"]] = {"expected": encode(ask(function, case["inputs"]))}
        except Exception as error:
            answers[case["id"]] = {"error": {"type": type(error).__name__,
                                             "message": str(error)}}
    write(answers)


def merge(cases, then, now, head):
    out = []
    for case in cases:
        key = case["id"]
        old, new = (then, now) if case["function"].startswith("flax.") else (now, head)
        first = old[key] if key in old else new[key]
        case.update(first)
        latest = new.get(key)
        if latest and latest != first:
            case.update({k + "_head": v for k, v in latest.items()})
        out.append(case)
    print("[" + ",\n".join(json.dumps(c, ensure_ascii=False) for c in out) + "]")


def main():
    task = sys.argv[1]
    if task == "cases":
        write(make_cases())
    elif task == "merge":
        merge(*(json.load(open(path)) for path in sys.argv[2:6]))
    else:
        answer(task)


if __name__ == "__main__":
    main()
