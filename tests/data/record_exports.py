#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records whether what `shardplan export` writes runs: plans in transformers (`--to hf-tp-plan`) and placements in PyTorch (`--to dtensor`).

    pip install torch transformers
    python tests/data/record_exports.py build/release/shardplan tests/data/exports.jsonl

The models are those of record_hf_tp_runs.py, run as there. A line has the model's `name` and
`config`, the `rules`, `mesh` and target (`to`) of the export, the `text` that was written, and
`forward` and `backward` as in hf_tp_runs.jsonl.

Placements are given to `distribute_tensor`; DTensor finds the collectives. What is no DTensor is
whole on every process.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication

import record_hf_tp_runs as runs

ATTENTION = [["q_proj|k_proj|v_proj", "weight", ["tp", None]], ["q_proj|k_proj|v_proj", "bias", ["tp"]], ["o_proj", "weight", [None, "tp"]]]
MLP = [["gate_proj|up_proj", "weight", ["tp", None]], ["gate_proj|up_proj", "bias", ["tp"]], ["down_proj", "weight", [None, "tp"]]]
ENDS = [["embed_tokens", "weight", ["tp", None]], ["lm_head", "weight", ["tp", None]]]
# Experts that are stored one by one, cut each or dealt out.
PARTS = [["experts\\.\\d+\\.(?:gate_proj|up_proj|w1|w3)", "weight", ["tp", None]], ["experts\\.\\d+\\.(?:down_proj|w2)", "weight", [None, "tp"]]]
DEALT = [["experts\\.\\d+\\..*", "weight", [], {"deal": "tp"}]]
STACKS = [["experts\\.(?:gate_up|down)_proj(?:_bias)?", "", ["tp"]]]
PARTS_OF_STACKS = [["experts\\.gate_up_proj", "", [None, None, "tp"]], ["experts\\.gate_up_proj_bias", "", [None, "tp"]], ["experts\\.down_proj", "", [None, "tp", None]]]
SINKS = [["self_attn\\.sinks", "", ["tp"]]]
CASES = [
    ("llama", ATTENTION + MLP + ENDS),
    ("llama biased", ATTENTION + MLP + ENDS),
    ("llama tied", ATTENTION + MLP + ENDS),
    ("llama tied", ATTENTION + MLP + [["embed_tokens", "weight", [None, "tp"]]]),
    ("qwen2", ENDS + MLP),
    ("qwen3", ATTENTION + MLP + ENDS),
    ("gemma2", ATTENTION + MLP + ENDS),
    ("qwen3_moe", PARTS + ATTENTION + MLP + ENDS),
    ("mixtral", PARTS + ATTENTION + ENDS),
    ("olmoe", PARTS + ENDS),
    ("qwen3_moe experts", DEALT + ATTENTION + MLP + ENDS),
    ("mixtral experts", DEALT + ATTENTION + ENDS),
    ("gpt_oss experts", STACKS + ENDS),
    ("gpt_oss", SINKS + ATTENTION + ENDS),
    ("gpt_oss", PARTS_OF_STACKS + ENDS),
    ("deepseek_v2", PARTS + MLP),
]
# The same over two axes.
SHARDED = [["q_proj|k_proj|v_proj|gate_proj|up_proj", "weight", ["tp", "fsdp"]], ["o_proj|down_proj", "weight", ["fsdp", "tp"]]]
SHARDED_ENDS = [["embed_tokens", "weight", ["fsdp", "tp"]], ["lm_head", "weight", ["tp", "fsdp"]]]
PLACED = [
    ("llama", "tp=2", ATTENTION + MLP + ENDS),
    ("llama biased", "tp=2", ATTENTION + MLP + ENDS),
    ("llama tied", "tp=2", ATTENTION + MLP + ENDS),
    ("llama tied", "tp=2", ATTENTION + MLP + [["embed_tokens", "weight", [None, "tp"]]]),
    ("qwen3", "tp=2", ATTENTION + MLP + ENDS),
    ("gemma2", "tp=2", ATTENTION + MLP + ENDS),
    ("llama", "fsdp=2,tp=2", SHARDED + SHARDED_ENDS),
    ("llama", "fsdp=2,tp=2", [["_proj", "weight", [None, ["fsdp", "tp"]]], ["norm", "weight", ["fsdp"]]]),
    ("qwen3", "fsdp=2,tp=2", SHARDED + SHARDED_ENDS),
    ("gemma2", "tp=2,fsdp=2", SHARDED + SHARDED_ENDS),
    ("olmo2", "fsdp=2,tp=2", SHARDED + SHARDED_ENDS),
]


def rules_of(parts):
    rules = []
    for module, leaf, spec, *more in parts:
        pattern = "^lm_head\\.weight$" if module == "lm_head" else f"\\.(?:{module})" + (f"\\.{leaf}$" if leaf else "$")
        rules.append({"pattern": pattern, "spec": spec, **(more[0] if more else {})})
    return json.dumps({"rules": rules + [[".*", []]]}, indent=1)


def exported(binary, config, rules, mesh, target):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("config.json", json.dumps(config)), ("rules.yaml", rules)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        return subprocess.run([binary, "export", "config.json", "--rules", "rules.yaml", "--mesh", mesh, "--to", target],
                              cwd=folder, capture_output=True, text=True)


def run_styles(title, written):
    with runs.whole_model(title) as (folder, ids, wanted, own, of_experts, _):
        experts = {key: style for key, style in written["tp_plan"].items() if style in ("grouped_gemm", "ep_dispatch_experts")}
        # What the model's own plan has besides places nothing.
        others = {**{key: "replicate" for key in own}, **{key: style for key, style in written["tp_plan"].items() if key not in experts}}
        size = runs.dist.get_world_size()
        how = {"ep_size": size, "ep_plan": {**{key: "replicate" for key in of_experts}, **experts}} if experts else {}
        runs.asked = lambda *unused: runs.DistributedConfig(tp_size=size, tp_plan=others, **how)
        return runs.record(title, folder, ids, wanted, own, None)


def run_placements(title, written):
    mesh = init_device_mesh("cpu", tuple(written["mesh"].values()), mesh_dim_names=tuple(written["mesh"]))
    with runs.whole_model(title) as (folder, ids, wanted, _, _, _):
        model = runs.transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float64, attn_implementation="eager")
        for name, parameter in list(model.named_parameters()):
            placements = [eval(text, {"Replicate": Replicate, "Shard": Shard}) for text in written["placements"][name]]
            module, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(module), leaf, torch.nn.Parameter(distribute_tensor(parameter.data, mesh, placements)))
        model.tie_weights()
        # DTensor cannot add to the sum over a table whose rows are cut, nor its gradient to others: RowwiseParallel makes it whole, too.
        whole = [Replicate()] * mesh.ndim
        model.get_input_embeddings().register_forward_hook(
            lambda _, __, output: DTensor.from_local(output.redistribute(placements=whole).to_local(), mesh, whole))

        def forward():
            with torch.no_grad(), implicit_replication():
                return runs.is_alike(runs.whole(model(input_ids=ids).logits), wanted[0])

        def backward():
            with implicit_replication():
                found = runs.gradients(model.train(), ids)
            return all(runs.is_alike(found[name], each) for name, each in wanted[1].items())

        first = runs.judge(forward)
        return first, runs.judge(backward) if first[0] != "error" else None


def run(title, target, file_name):
    """On one of the processes: compares the model as it was written with the model on one process."""
    with open(file_name, encoding="utf-8") as file:
        written = json.load(file)
    runs.dist.init_process_group("gloo")
    result = run_styles(title, written) if target == "hf-tp-plan" else run_placements(title, written)
    if runs.dist.get_rank() == 0:
        print("END " + json.dumps(result), flush=True)
    runs.dist.destroy_process_group()


def config_of(title):
    config = runs.transformers.AutoConfig.for_model(title.split()[0], **runs.MODELS[title])
    name = runs.transformers.AutoModelForCausalLM._model_mapping[type(config)].__name__
    return {**json.loads(config.to_json_string()), "architectures": [name]}


def main():
    if "RANK" in os.environ:
        return run(*sys.argv[1:4])
    cases = [(title, "hf-tp-plan", "tp=2", parts) for title, parts in CASES] + [(title, "dtensor", mesh, parts) for title, mesh, parts in PLACED]
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        for title, target, mesh, parts in cases:
            config = config_of(title)
            rules = rules_of(parts)
            written = exported(os.path.abspath(sys.argv[1]), config, rules, mesh, target)
            if not written.stdout:
                print(title, written.stderr)
                continue
            processes = math.prod(int(axis.split("=")[1]) for axis in mesh.split(","))
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                file.write(written.stdout)
                file.flush()
                process = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), __file__,
                                          title, target, file.name], capture_output=True, text=True)
            found = [text[4:] for text in process.stdout.splitlines() if text.startswith("END ")]
            forward, backward = json.loads(found[0]) if found else (["error", process.stderr[-300:]], None)
            out.write(json.dumps({"name": title, "config": config, "rules": rules, "mesh": mesh, "to": target, "text": written.stdout,
                                  "forward": forward, "backward": backward}) + "\n")
            print(title, target, mesh, forward, backward, "SP020" if "warning[SP020]" in written.stderr else "")


if __name__ == "__main__":
    main()
