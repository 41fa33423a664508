#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch's parallelize_module computes under plans of styles, whole and broken:
the judge of `dtensor` plans that hooks run.

    pip install torch
    python tests/data/record_torch_tp_runs.py tests/data/torch_tp_runs.jsonl

A small Llama, written as torchtitan writes it but with the names of transformers, runs on two
processes (gloo) in double precision, under plans of tensor parallelism without and with parts of
sequences, and the same with entries changed. A line has

- `name`, the `plan` as entries of a Python dictionary
- `forward`: `right`, `wrong` (numbers that differ) or `error`, with what it says
- `backward`: the same of gradients; null where forward is an error
- `config` in the first line, of the model, and `versions`
"""
import datetime
import json
import re
import subprocess
import sys
import warnings

import os
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, PrepareModuleOutput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
          "max_position_embeddings": 64, "tie_word_embeddings": False, "torch_dtype": "float32"}


def rotated(x):
    length, width = x.shape[1], x.shape[-1]
    angles = torch.outer(torch.arange(length, dtype=x.dtype), 10000.0 ** (-torch.arange(0, width, 2, dtype=x.dtype) / width))
    cos, sin = (f(angles).repeat(1, 2)[None, :, None] for f in (torch.cos, torch.sin))
    return x * cos + torch.cat((-x[..., width // 2:], x[..., :width // 2]), -1) * sin


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(32, 8 * heads, bias=False) for heads in (4, 2, 2))
        self.o_proj = nn.Linear(32, 32, bias=False)

    def forward(self, x, ignored=None):
        batch, length = x.shape[:2]
        q, k, v = (each(x).view(batch, length, -1, 8) for each in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotated(q), rotated(k)
        k, v = (each.repeat_interleave(q.shape[2] // each.shape[2], 2) for each in (k, v))
        made = F.scaled_dot_product_attention(*(each.transpose(1, 2) for each in (q, k, v)), is_causal=True)
        return self.o_proj(made.transpose(1, 2).reshape(batch, length, -1))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj, self.down_proj = nn.Linear(32, 48, bias=False), nn.Linear(32, 48, bias=False), nn.Linear(48, 32, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(32, 1e-5), nn.RMSNorm(32, 1e-5)
        self.self_attn, self.mlp = Attention(), Mlp()

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x), None)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(64, 32)
        self.model.layers = nn.ModuleList(Layer() for _ in range(2))
        self.model.norm = nn.RMSNorm(32, 1e-5)
        self.lm_head = nn.Linear(32, 64, bias=False)

    def forward(self, ids):
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x)
        return self.lm_head(self.model.norm(x))


LAYER = "model.layers.*."
INTO = {LAYER + "self_attn.q_proj": "ColwiseParallel()", LAYER + "self_attn.k_proj": "ColwiseParallel()", LAYER + "self_attn.v_proj": "ColwiseParallel()",
        LAYER + "mlp.gate_proj": "ColwiseParallel()", LAYER + "mlp.up_proj": "ColwiseParallel()"}
HEAD = {"model.embed_tokens": "RowwiseParallel(input_layouts=Replicate())", "lm_head": "ColwiseParallel(output_layouts=Replicate())"}
TENSOR = {**HEAD, **INTO, LAYER + "self_attn.o_proj": "RowwiseParallel()", LAYER + "mlp.down_proj": "RowwiseParallel()"}
PREPARE = "PrepareModuleInput(input_layouts=(Shard(1), None), desired_input_layouts=(Replicate(), None))"
SEQUENCE = {"model.embed_tokens": "RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))",
            LAYER + "input_layernorm": "SequenceParallel()", LAYER + "self_attn": PREPARE, **INTO,
            LAYER + "self_attn.o_proj": "RowwiseParallel(output_layouts=Shard(1))",
            LAYER + "post_attention_layernorm": "SequenceParallel()",
            LAYER + "mlp": "PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))",
            LAYER + "mlp.down_proj": "RowwiseParallel(output_layouts=Shard(1))",
            "model.norm": "SequenceParallel()", "lm_head": "ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())"}
# As SEQUENCE, with local tensors everywhere.
LOCAL = {key: style.replace("SequenceParallel()", "SequenceParallel(use_local_output=True)").replace("(Replicate(), None))", "(Replicate(), None), use_local_output=True)")
         .replace("(Replicate(),))", "(Replicate(),), use_local_output=True)") for key, style in SEQUENCE.items()}
STYLES = ["ColwiseParallel()", "RowwiseParallel()", "ColwiseParallel(output_layouts=Replicate())", "RowwiseParallel(input_layouts=Replicate())",
          "RowwiseParallel(output_layouts=Shard(1))", "ColwiseParallel(input_layouts=Shard(1))"]


def plans():
    for title, plan in (("tensor", TENSOR), ("sequence", SEQUENCE), ("local sequence", LOCAL)):
        yield title, plan
        for key in plan:
            yield f"{title}, without {key}", {each: style for each, style in plan.items() if each != key}
            for style in STYLES:
                if "Prepare" not in plan[key] and "Sequence" not in plan[key] and style != plan[key]:
                    yield f"{title}, {key}: {style}", {**plan, key: style}
        norms = {key: "SequenceParallel()" if "local" not in title else "SequenceParallel(use_local_output=True)" for key in SEQUENCE if "norm" in key}
        if title == "tensor":
            yield "tensor, with norms of parts", {**plan, **norms}
    yield "tensor, no attention", {key: style for key, style in TENSOR.items() if "self_attn" not in key}
    yield "tensor, DTensors of attention", {key: style.replace("ColwiseParallel()", "ColwiseParallel(use_local_output=False)") if "self_attn" in key else style
                                           for key, style in TENSOR.items()}
    yield "sequence, loss of parts", {**SEQUENCE, "lm_head": "ColwiseParallel(input_layouts=Shard(1), use_local_output=False)"}


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def is_alike(found, wanted):
    return found.shape == wanted.shape and bool((found - wanted).abs().max() <= 1e-6 * wanted.abs().max())


def gradients(model, ids, weights):
    model.zero_grad(set_to_none=True)
    (whole(model(ids)) * weights).sum().backward()
    return {name: whole(each.grad).detach().clone() for name, each in model.named_parameters() if each.grad is not None}


def said(error):
    return f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]+', '0x', str(error)).strip()}".split("\n")[0][:160]


def judge(run):
    try:
        result = ["right" if run() else "wrong", ""]
    except Exception as error:  # what the library says of it
        result = ["error", said(error)]
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, result)
    return next((each for wanted in ("error", "wrong") for each in every if each[0] == wanted), every[0])


def run(first):
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=8))
    torch.set_default_dtype(torch.float64)
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = Model()
    for each in model.parameters():
        each.data.add_(torch.randn_like(each) * 0.2)
    ids, weights = torch.arange(12).reshape(2, 6) * 5 % 64, torch.randn(2, 6, 64)
    state = {name: each.clone() for name, each in model.state_dict().items()}
    with torch.no_grad():
        logits = model(ids)
    wanted = gradients(model, ids, weights)
    for number, (name, plan) in enumerate(plans()):
        if number < first:
            continue
        line = {"name": name, "plan": plan, "forward": None, "backward": None, "versions": {"torch": torch.__version__.split("+")[0]}}
        if number == 0:
            line["config"] = CONFIG
        if dist.get_rank() == 0:
            print("BEGIN " + json.dumps(line), flush=True)
        made = {}

        def forward():
            made["model"] = each = Model()
            each.load_state_dict(state)
            parallelize_module(each, mesh, {key: eval(style) for key, style in plan.items()})
            with torch.no_grad():
                return is_alike(whole(each(ids)), logits)

        def backward():
            found = gradients(made["model"], ids, weights)
            return found.keys() == wanted.keys() and all(is_alike(found[key], each) for key, each in wanted.items())

        line["forward"] = judge(forward)
        line["backward"] = judge(backward) if line["forward"][0] != "error" else None
        if dist.get_rank() == 0:
            print("END " + json.dumps(line), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main():
    if "RANK" in os.environ:
        return run(int(sys.argv[1]))
    done = 0
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        while True:
            # Processes of which one stops and one waits end with the case.
            process = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", __file__, str(done)],
                                     capture_output=True, text=True)
            begun = None
            for text in process.stdout.splitlines():
                word, _, line = text.partition(" ")
                if word == "BEGIN":
                    begun = json.loads(line)
                elif word == "END":
                    begun = None
                    done += 1
                    out.write(line + "\n")
            if begun is None:
                break
            begun["forward"] = ["error", "the processes wait for one another"]
            out.write(json.dumps(begun) + "\n")
            done += 1
    print(done, "" if process.returncode == 0 else process.stderr[-600:])


if __name__ == "__main__":
    main()
