#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records which entry of a tensor-parallel plan transformers finds for a name.

    pip download --no-deps -d wheels transformers==4.57.1
    pip download --no-deps -d wheels transformers==5.23.0
    python3 tests/data/record_hf_tp_plan.py wheels/*4.57.1*.whl \\
        wheels/*5.23.0*.whl > tests/data/hf_tp_plan.json

Only the functions that look names up are run, so PyTorch is not needed.
"""
import ast
import json
import re
import sys
import zipfile

PLAN = {
    "model.layers.*.self_attn.q_proj": "colwise",
    "model.layers.*.self_attn.o_proj": "rowwise",
    "model.layers.*.self_attn.o_proj.bias": "colwise",
    "model.layers.*.mlp.experts.*.w*": "rowwise_rep",
    "model.layers.*.mlp.experts.*.w1": "local_colwise",
    "model.layers.*.mlp.experts": "gather",
    "model.layers.*.mlp.experts.gate_up_proj": "packed_colwise",
    "model.blocks.*.1.up": "grouped_gemm",
    "0.down": "local_rowwise",
    "lm_head": "colwise_rep",
}

NAMES = [
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.31.self_attn.q_proj.bias",
    "model.layers.0.self_attn.q_proj",
    "model.layers.0.self_attn.q_proj.base.weight",
    "layers.0.self_attn.q_proj.weight",
    "model.layers.7.self_attn.o_proj.weight",
    "model.layers.7.self_attn.o_proj.bias",
    "model.layers.7.self_attn.o_proj.weight_scale_inv",
    "model.layers.0.mlp.experts.3.w1.weight",
    "model.layers.0.mlp.experts.3.w2.weight",
    "model.layers.0.mlp.experts.3.w2.bias",
    "model.layers.0.mlp.experts.gate_up_proj",
    "model.layers.0.mlp.experts.down_proj",
    "model.layers.0.mlp.experts.gate_up_proj.weight",
    "model.blocks.2.1.up.weight",
    "model.blocks.2.3.up.weight",
    "model.blocks.2.1.1.up.weight",
    "0.down.weight",
    "1.down.weight",
    "12.down",
    "lm_head.weight",
    "lm_head",
    "model.lm_head.weight",
    "model.norm.weight",
    "a.0.1.2.3.b",
    "a.0",
    "a1.02.b3c.4",
    "10",
    "conv1.2d.weight",
]


def functions(wheel, path, names):
    """The functions of those names in one file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        tree = ast.parse(archive.read(path))
    tree.body = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in names
    ]
    for node in tree.body:
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
    scope = {"re": re}
    exec(compile(tree, path, "exec"), scope)
    return [scope[name] for name in names]


def main(before, since):
    (old,) = functions(
        before,
        "transformers/integrations/tensor_parallel.py",
        ["_get_parameter_tp_plan"],
    )
    fold, new = functions(
        since,
        "transformers/distributed/parallel_utils.py",
        ["replace_layer_number_by_wildcard", "_get_parameter_plan"],
    )
    rows = [
        {
            "name": name,
            "folded": fold(name),
            "before": old(name, PLAN),
            "since": new(name, PLAN),
        }
        for name in NAMES
    ]
    print(json.dumps({"plan": PLAN, "rows": rows}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
