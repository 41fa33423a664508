#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what transformers computes under tensor-parallel plans, whole and broken: the
judge of plans that hooks run.

    pip install torch transformers
    python tests/data/record_hf_tp_runs.py tests/data/hf_tp_runs.jsonl [TITLE ..]

and with transformers 4.57, whose styles are others, into hf_tp_runs_4.jsonl.

Small models of random weights run on two processes (gloo), in double precision, under the
plan that transformers has for them and under the same with one or two entries changed.
Their logits, and the gradients of a loss, are compared with those of the model on one
process. Models whose title ends in `experts` run their `ep_plan` as well. A line has

- `name`, the `model` among those below, `changed` entries of its plan
- in the first line of a model, its `config` as saved and `plan` as transformers resolved it
- `forward`: `right`, `wrong` (numbers that differ) or `error`, with what it says
- `backward`: the same of gradients; null where forward is an error
- `versions`
"""
import contextlib
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
os.environ.setdefault("TQDM_DISABLE", "1")
import torch
import torch.distributed as dist
import transformers
from torch.distributed.tensor import DTensor
from transformers.distributed import DistributedConfig

IS_OLD = transformers.__version__.startswith("4.")

BASE = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, tie_word_embeddings=False, pad_token_id=None, bos_token_id=None,
            eos_token_id=None, use_cache=False, attn_implementation="eager")
MODELS = {
    "llama": BASE,
    "llama biased": dict(BASE, attention_bias=True, mlp_bias=True),
    "llama tied": dict(BASE, tie_word_embeddings=True),
    "qwen2": BASE,
    "qwen3": BASE,
    "gemma2": dict(BASE, query_pre_attn_scalar=8),
    "phi3": BASE,
    "olmo2": BASE,
    "cohere": BASE,
    "glm4": dict(BASE, partial_rotary_factor=0.5),
    "qwen3_moe": dict(BASE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, mlp_only_layers=[0]),
    "mixtral": dict(BASE, num_local_experts=4, num_experts_per_tok=2),
    "gpt_oss": dict(BASE, num_local_experts=4, num_experts_per_tok=2),
    "qwen2_moe": dict(BASE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24, mlp_only_layers=[]),
    "olmoe": dict(BASE, num_experts=4, num_experts_per_tok=2),
    "deepseek_v2": dict(BASE, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, first_k_dense_replace=1, n_shared_experts=1,
                        q_lora_rank=None, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8, topk_method="greedy", n_group=1, topk_group=1,
                        num_key_value_heads=4, head_dim=4),
    "deepseek_v3": dict(BASE, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, first_k_dense_replace=1, n_shared_experts=1,
                        q_lora_rank=12, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8, n_group=1, topk_group=1, num_key_value_heads=4, head_dim=4),
    "qwen3_moe experts": dict(BASE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, mlp_only_layers=[0]),
    "gpt_oss experts": dict(BASE, num_local_experts=4, num_experts_per_tok=2),
    "mixtral experts": dict(BASE, num_local_experts=4, num_experts_per_tok=2),
}
# What a style may be mistaken for.
OTHERS = {"colwise": ["replicate", "rowwise", "colwise_gather_output"], "rowwise": ["replicate", "colwise", "rowwise_split_input"],
          "embedding_rowwise": ["replicate", "embedding_colwise"], "colwise_gather_output": ["replicate", "colwise", "rowwise"],
          "packed_colwise": ["replicate", "colwise"], "packed_rowwise": ["replicate", "rowwise"],
          "replicated_with_grad_allreduce": ["replicate"], "moe_tp_experts": ["replicate"], "all_reduce": ["replicate"],
          "colwise_rep": ["replicate", "colwise", "rowwise"], "rowwise_rep": ["replicate", "rowwise", "colwise_rep"],
          "grouped_gemm": ["replicate"], "ep_dispatch_experts": ["replicate"], "mla_kv_a_proj": ["replicate", "colwise"]}
# Before version 5.2.
OLD_NAMES = {"colwise_gather_output": "colwise_rep", "rowwise_split_input": "rowwise_rep"}
if IS_OLD:
    OTHERS = {key: [OLD_NAMES.get(each, each) for each in others] for key, others in OTHERS.items()}
ATTENTION = {"model.layers.*.self_attn.q_proj": "colwise", "model.layers.*.self_attn.k_proj": "colwise",
             "model.layers.*.self_attn.v_proj": "colwise", "model.layers.*.self_attn.o_proj": "rowwise"}
EXPERTS = {"model.layers.*.mlp.experts": "moe_tp_experts", "model.layers.*.mlp.experts.down_proj": "rowwise"}
# Entries for what a plan leaves whole.
MORE = {
    "gpt_oss": [ATTENTION, {**ATTENTION, "model.layers.*.self_attn.sinks": "colwise", "model.layers.*.self_attn": "local_params"},
                {**ATTENTION, "model.layers.*.self_attn.sinks": "colwise"}, {**ATTENTION, "model.layers.*.self_attn": "local_params"},
                {"model.layers.*.self_attn.sinks": "colwise", "model.layers.*.self_attn": "local_params"}],
    "mixtral": [{"model.layers.*.mlp.gate": "colwise"}, {"model.layers.*.mlp.gate": "colwise_gather_output"}],
    "deepseek_v3": [{"model.layers.*.self_attn.kv_a_proj_with_mqa": "mla_kv_a_proj"}],
}


def mutations(title, plan):
    yield {}
    yield from MORE.get(title, [])
    for key, style in plan.items():
        for other in OTHERS.get(style, ["replicate"]):
            yield {key: other}
    ends = {key.rsplit(".", 1)[-1]: key for key in plan}
    for pair in (("o_proj", "down_proj"), ("q_proj", "k_proj"), ("k_proj", "v_proj"), ("gate_proj", "up_proj")):
        if all(end in ends for end in pair):
            yield {ends[end]: "colwise" if plan[ends[end]] == "rowwise" else "replicate" for end in pair}
    if all(end in ends for end in ("q_proj", "k_proj", "v_proj", "o_proj")):
        yield {ends[end]: "replicate" for end in ("q_proj", "k_proj", "v_proj", "o_proj")}
        gather, split = OLD_NAMES if not IS_OLD else OLD_NAMES.values()
        yield {**{ends[end]: gather for end in ("q_proj", "k_proj", "v_proj")}, ends["o_proj"]: split}


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def is_alike(found, wanted):
    """Norms and losses are computed in float32, whatever the model is in."""
    return found.shape == wanted.shape and bool((found - wanted).abs().max() <= 1e-5 * wanted.abs().max())


def gradients(model, ids):
    model.zero_grad(set_to_none=True)
    model(input_ids=ids, labels=ids).loss.backward()
    return {name: whole(each.grad).detach().clone() for name, each in model.named_parameters() if each.grad is not None}


def said(error):
    text = re.sub(r"0x[0-9a-f]+", "0x", str(error)).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}"[:200]


def together(result):
    """Of all processes: an error of one is an error of the run."""
    all_of_them = [None] * dist.get_world_size()
    dist.all_gather_object(all_of_them, result)
    for wanted in ("error", "wrong"):
        for each in all_of_them:
            if each and each[0] == wanted:
                return each
    return all_of_them[0]


def judge(run):
    try:
        return together(["right" if run() else "wrong", ""])
    except Exception as error:  # what the library says of it
        return together(["error", said(error)])


def experts_of(title):
    # gpt-oss's own loop does not know of experts that are elsewhere.
    return "batched_mm" if title == "gpt_oss experts" else "eager"


def asked(title, changed):
    size = dist.get_world_size()
    if title.endswith(" experts"):
        return DistributedConfig(tp_size=size, tp_plan="auto", ep_size=size, ep_plan=changed or None)
    return DistributedConfig(tp_size=size, tp_plan=changed or "auto")


def load(title, folder, plan, changed):
    if not IS_OLD:
        return transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float64, attn_implementation="eager", experts_implementation=experts_of(title),
            distributed_config=asked(title, changed))
    # It asks for an accelerator whether there is one or not.
    torch._C._get_accelerator = lambda *unused: torch.device("cpu")
    config = transformers.AutoConfig.from_pretrained(folder)
    entries = {**plan, **changed}
    config.base_model_tp_plan = {key.removeprefix("model."): style for key, style in entries.items()}
    return transformers.AutoModelForCausalLM.from_pretrained(folder, config=config, dtype=torch.float64, attn_implementation="eager",
                                                             tp_plan="auto")


def record(title, folder, ids, wanted, plan, changed):
    state = {}

    def forward():
        model = load(title, folder, plan, changed)
        state["model"] = model
        with torch.no_grad():
            logits = whole(model(input_ids=ids).logits)
        return is_alike(logits, wanted[0])

    def backward():
        found = gradients(state["model"].train(), ids)
        return found.keys() == wanted[1].keys() and all(
            is_alike(found[name], each) for name, each in wanted[1].items())

    first = judge(forward)
    second = judge(backward) if first[0] != "error" else None
    return first, second


@contextlib.contextmanager
def whole_model(title):
    """The model on one process, on each of them: where it is saved, tokens, its logits and gradients, its plans and config."""
    with tempfile.TemporaryDirectory() as own:
        folders = [own]
        dist.broadcast_object_list(folders, 0)
        folder = folders[0]
        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(title.split()[0], **MODELS[title])
        if dist.get_rank() == 0:
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float64)
            # Biases begin as zeros, and what is added twice would not show.
            for each in model.parameters():
                each.data.add_(torch.randn_like(each) * 0.2)
            model.save_pretrained(folder)
        dist.barrier()
        ids = torch.arange(12).reshape(2, 6) * 5 % 64
        how = {} if IS_OLD else {"experts_implementation": experts_of(title)}
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", **how)
        plan = dict(model.tp_plan)
        if IS_OLD:
            plan = {key: style for key, style in plan.items() if key.startswith("model.")}
        with torch.no_grad():
            logits = model(input_ids=ids).logits
        wanted = logits, gradients(model.train(), ids)
        with open(folder + "/config.json", encoding="utf-8") as file:
            saved = json.load(file)
        yield folder, ids, wanted, plan, dict(getattr(model, "ep_plan", None) or {}), saved
        dist.barrier()


def run(title, first):
    """The cases of a model from one on, a line each, behind a line that begins it."""
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=8))
    with whole_model(title) as (folder, ids, wanted, plan, of_experts, saved):
        changeable = plan
        if title.endswith(" experts"):
            changeable = of_experts
            plan = {**plan, **of_experts}
        for number, changed in enumerate(mutations(title, changeable)):
            if number < first:
                continue
            name = title + "".join(f", {key.removeprefix('model.')}: {style}" for key, style in changed.items())
            line = {"name": name, "model": title, "changed": changed, "forward": None, "backward": None,
                    "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}}
            if number == 0:
                line.update(config=saved, plan=plan)
            if dist.get_rank() == 0:
                print("BEGIN " + json.dumps(line), flush=True)
            line["forward"], line["backward"] = record(title, folder, ids, wanted, plan, changed)
            if dist.get_rank() == 0:
                print("END " + json.dumps(line), flush=True)
    dist.destroy_process_group()


def main():
    if "RANK" in os.environ:
        return run(sys.argv[1], int(sys.argv[2]))
    old = ["llama", "llama biased", "qwen3", "gemma2", "phi3", "olmo2", "cohere", "glm4", "mixtral"]
    titles = sys.argv[2:] or (old if IS_OLD else list(MODELS))
    with open(sys.argv[1], "a" if sys.argv[2:] else "w", encoding="utf-8") as out:
        for title in titles:
            done = 0
            while True:
                # Processes of which one stops and one waits end with the case.
                process = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", __file__, title, str(done)],
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
            print(title, done, "" if process.returncode == 0 else process.stderr[-300:], flush=True)


if __name__ == "__main__":
    main()
