#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what EasyDeL's partition rules are under each of their conditions.

    pip download --no-deps -d wheels easydel==0.2.0
    pip download --no-deps -d wheels easydel==0.1.4.1
    python3 tests/data/record_easydel_tables.py wheels/*.whl \\
        > tests/data/easydel_tables.json

The methods are run with stubs for JAX and eformer, so neither is needed; the
specs of experts are those of EasyDeL's own get_moe_partition_spec. Per method
there are the pieces that it consists of, and per set of answers the patterns
with their specs: a preset's name, or axes.
"""
import ast
import itertools
import json
import os
import sys
import zipfile

TABLES = {
    "0.2.0": [
        "mixtral/mixtral", "deepseek_v2/deepseek", "deepseek_v3/deepseek",
        "qwen2_moe/qwen2_moe", "qwen3_moe/qwen3_moe", "qwen3_next/qwen3_next",
        "gpt_oss/gpt_oss", "llama4/llama4", "glm4_moe/glm4_moe", "grok_1/grok_1",
    ],
    "0.1.4.1": ["roberta/roberta", "gemma3/gemma3"],
}
CONDITIONS = [
    "use_expert_tensor_mode", "fsdp_is_ep_bound", "sp_is_ep_bound",
    "fully_sharded_data_parallel",
]
PRESETS = ["ColumnWise", "RowWise", "Replicated"]
AXES = {
    "EP": "__EXPERT_PARALLEL__", "FSDP": "__FULLY_SHARDED_DATA_PARALLEL__",
    "SP": "__SEQUENCE_PARALLEL__", "TP": "__TENSOR_PARALLEL__",
}


class Anything:
    """Stands for whatever a method looks at besides."""

    def __getattr__(self, name):
        return Anything()

    def resolve(self, preset):
        return preset


def spec(*entries):
    dims = [[e] if isinstance(e, str) else list(e or []) for e in entries]
    return [[axis for axis in dim if axis is not None] for dim in dims]


def method_of(tree):
    """The methods that return tables, by class."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "_get_partition_rules":
            yield node.name, node
        if not isinstance(node, ast.ClassDef):
            continue
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef) and inner.name == "get_partition_rules":
                yield node.name, inner


def bare(function):
    function.returns = None
    function.decorator_list = []
    for argument in function.args.args:
        argument.annotation = None
    return function


def run(body, scope):
    tree = ast.fix_missing_locations(ast.Module(body=body, type_ignores=[]))
    exec(compile(tree, "easydel", "exec"), scope)


def expert_function(wheel):
    for name in wheel.namelist():
        if not name.endswith("layers/moe/utils.py"):
            continue
        for node in ast.parse(wheel.read(name)).body:
            if isinstance(node, ast.FunctionDef) and node.name == "get_moe_partition_spec":
                return bare(node)
    return None


def pairs(value):
    """A table's rules as [pattern, expression]; a choice of tables as three."""
    if isinstance(value, ast.IfExp):
        return {
            "condition": ast.unparse(value.test),
            "then": pairs(value.body),
            "else": pairs(value.orelse),
        }
    return [
        [ast.literal_eval(item.elts[0]), ast.unparse(item.elts[1])]
        for item in value.elts
    ]


def evaluate(function, experts, answers):
    def sharding():
        return None

    sharding.PartitionSpec = spec
    jax = Anything()
    jax.__dict__["sharding"] = sharding
    scope = {
        "PartitionSpec": spec, "jax": jax,
        "resolve_eformer_axis": lambda axis, _: AXES[axis],
        **{name: name for name in [*PRESETS, *AXES]},
    }
    if experts is not None:
        run([experts], scope)
    run([function], scope)
    config = Anything()
    config.__dict__.update(answers)
    names = [argument.arg for argument in function.args.args]
    given = {k: v for k, v in answers.items() if k in names}
    return [list(rule) for rule in scope[function.name](config, **given)]


def main(paths):
    records = []
    for path in sorted(paths):
        wheel = zipfile.ZipFile(path)
        version = os.path.basename(path).split("-")[1]
        experts = expert_function(wheel)
        for name in TABLES[version]:
            source = wheel.read(f"easydel/modules/{name}_configuration.py")
            for kind, function in method_of(ast.parse(source)):
                text = ast.unparse(function)
                if not isinstance(function.body[-1], ast.Return):
                    continue
                try:
                    table = pairs(function.body[-1].value)
                except (AttributeError, IndexError):
                    continue  # joined of others
                used = [c for c in CONDITIONS if c in text]
                locals_ = [
                    ast.unparse(line) for line in function.body
                    if isinstance(line, ast.Assign)
                ]
                function = bare(function)
                readings = []
                for values in itertools.product([False, True], repeat=len(used)):
                    answers = dict(zip(used, values))
                    readings.append(
                        {"answers": answers, "rules": evaluate(function, experts, answers)}
                    )
                records.append({
                    "version": version, "class": kind, "locals": locals_,
                    "table": table, "readings": readings,
                })
    print("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in records) + "\n]")


if __name__ == "__main__":
    main(sys.argv[1:])
