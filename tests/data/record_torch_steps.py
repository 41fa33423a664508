# SPDX-License-Identifier: Apache-2.0
"""Records what whole train steps of PyTorch have allocated at their peak.

    pip install transformers==5.23.0 torch
    OMP_NUM_THREADS=1 python tests/data/record_torch_steps.py tests/data/torch_steps.jsonl
    OMP_NUM_THREADS=1 python tests/data/record_torch_steps.py tests/data/torch_steps.jsonl --only llama

Two steps of small models of transformers with random weights run on the CPU without
compilation: forward, the loss of the class, backward, AdamW,
zero_grad(set_to_none=True). PyTorch's own MemTracker counts the storages that are alive,
and FSDPMemTracker where layers are sharded: by FSDP2 over as many ranks of a group that
sends nothing, of which this process is the first, so that what is gathered is there and
means nothing. The second command records anew the cases whose names have that part,
`--missing` those that the file does not have. A line of torch_steps.jsonl:

- `name`, and `config`, as its class writes it
- `dtype` of parameters; `compute`, what weights are cast to as they are gathered (null:
  nothing; gradients are reduced in float32)
- `ranks`; 1: no FSDP. `wrapped`: `layers`, what is outside of them is the root's, or
  `all`, embedding and head are modules of their own
- `batch` (of this rank), `seq`; `attention`, of transformers; `checkpointing` of every
  layer, without reentrance
- `optimizer`: `foreach`, `fused` or `loop`; `update`, which optimizer, as `--optimizer`
  calls it (AdamW where there is none)
- `microbatches`, whose gradients are added up (1 where there is none); `clipped`: their
  norm is, before the update
- `peak`: bytes at the peak, by what FSDPMemTracker and MemTracker call them; `Total` is
  their sum. A GPU's workspaces are not there
- `later`: recorded once `--framework torch` was written, to judge it
- `versions`
"""

import argparse
import functools
import json
import pathlib

import torch
import torch.distributed
import transformers
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore

RANKS = 8
OPTIMIZERS = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, "sgd-momentum": functools.partial(torch.optim.SGD, momentum=0.9),
              "adafactor": torch.optim.Adafactor}

LLAMA = dict(vocab_size=4000, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=8,
             num_key_value_heads=4, head_dim=32, tie_word_embeddings=False, use_cache=False, max_position_embeddings=512,
             attention_dropout=0.0, pad_token_id=None, bos_token_id=None, eos_token_id=None)
GPT2 = dict(vocab_size=4000, n_embd=256, n_layer=6, n_head=8, n_positions=512, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            use_cache=False, pad_token_id=None, bos_token_id=None, eos_token_id=None)
WIDE = dict(LLAMA, vocab_size=9000, hidden_size=384, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=12, head_dim=32)
MODELS = {"llama": ("Llama", LLAMA), "qwen3": ("Qwen3", LLAMA), "mistral": ("Mistral", dict(LLAMA, sliding_window=None)),
          "olmo2": ("Olmo2", LLAMA), "gpt2": ("GPT2LMHead", GPT2),
          "qwen2": ("Qwen2", dict(WIDE, use_sliding_window=False)), "phi3": ("Phi3", WIDE), "starcoder2": ("Starcoder2", dict(WIDE, residual_dropout=0.0, embedding_dropout=0.0)),
          "stablelm": ("StableLm", WIDE), "granite": ("Granite", WIDE), "cohere": ("Cohere", WIDE), "gpt_neox": ("GPTNeoX", WIDE),
          "opt": ("OPT", dict(vocab_size=4000, hidden_size=256, word_embed_proj_dim=256, ffn_dim=1024, num_hidden_layers=6, num_attention_heads=8,
                              max_position_embeddings=512, dropout=0.1, attention_dropout=0.0, use_cache=False)),
          "gemma2": ("Gemma2", dict(LLAMA, sliding_window=64, layer_types=["sliding_attention", "full_attention"] * 3))}


def cases():
    def case(name, kind, **more):
        return {"name": name, "kind": kind, "dtype": "float32", "compute": None, "ranks": 1, "wrapped": None, "batch": 4,
                "seq": 256, "attention": "sdpa", "checkpointing": False, "optimizer": "foreach", "later": False, **more}

    sharded = dict(ranks=RANKS, wrapped="layers")
    mixed = dict(sharded, compute="bfloat16")
    for kind in ("llama", "gpt2"):
        for label, more in (("", {}), ("-checkpointing", dict(checkpointing=True)), ("-bfloat16", dict(dtype="bfloat16", optimizer="fused")),
                            ("-short", dict(batch=1, seq=16)), ("-short-fused", dict(batch=1, seq=16, optimizer="fused")),
                            ("-fsdp", sharded), ("-fsdp-mixed", mixed), ("-fsdp-mixed-checkpointing", dict(mixed, checkpointing=True)),
                            ("-fsdp-mixed-short", dict(mixed, batch=1, seq=16))):
            yield case(kind + label, kind, **more)
    yield case("llama-fsdp-all-mixed", "llama", **dict(mixed, wrapped="all"))
    yield case("llama-scores", "llama", attention="eager")
    for kind in ("qwen3", "mistral", "olmo2", "gemma2"):
        attention = "eager" if kind == "gemma2" else "sdpa"
        yield case(kind, kind, attention=attention)
        yield case(f"{kind}-bfloat16-checkpointing", kind, dtype="bfloat16", checkpointing=True, attention=attention)
        yield case(f"{kind}-fsdp-mixed", kind, **dict(mixed, attention=attention))
    for kind in ("qwen2", "phi3", "starcoder2", "stablelm", "granite", "cohere", "gpt_neox"):
        longer = dict(batch=2, seq=384, later=True)
        yield case(f"{kind}-384", kind, **longer)
        yield case(f"{kind}-384-bfloat16-fused", kind, **dict(longer, dtype="bfloat16", optimizer="fused"))
        yield case(f"{kind}-384-fsdp-mixed-checkpointing", kind, **dict(mixed, **longer, checkpointing=True))
        yield case(f"{kind}-tiny-fsdp", kind, **dict(sharded, batch=1, seq=8, later=True))


    # Gradients that are added up, other optimizers, dropout: recorded beside what was
    # written of them.
    short = dict(batch=2, seq=32)
    dropped = dict(resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1)
    for kind in ("llama", "gpt2", "qwen2", "gpt_neox"):
        yield case(f"{kind}-microbatches", kind, microbatches=3, optimizer="fused")
        yield case(f"{kind}-microbatches-short", kind, **short, microbatches=2, optimizer="fused", dtype="bfloat16")
        yield case(f"{kind}-microbatches-checkpointing", kind, **short, microbatches=2, checkpointing=True)
        for update in ("sgd", "sgd-momentum", "adafactor"):
            yield case(f"{kind}-{update}", kind, **short, update=update, optimizer="loop" if update == "adafactor" else "foreach")
        yield case(f"{kind}-loop-clipped", kind, **short, optimizer="loop", clipped=True)
    yield case("llama-microbatches-fsdp", "llama", **dict(sharded, batch=2, microbatches=2))
    yield case("gpt2-dropout", "gpt2", changed=dropped)
    yield case("gpt2-dropout-eager", "gpt2", changed=dropped, attention="eager")
    yield case("gpt_neox-dropout", "gpt_neox", changed=dict(hidden_dropout=0.1))
    yield case("opt-dropout", "opt")


def outside(model):
    inner = model.base_model
    return [getattr(inner, "embed_tokens", None) or inner.wte, model.lm_head]


def layers(model):
    return getattr(model.base_model, "layers", None) or model.base_model.h


def record(case):
    name, config = MODELS[case["kind"]]
    klass = getattr(transformers, f"{name}ForCausalLM" if name != "GPT2LMHead" else "GPT2LMHeadModel")
    config = klass.config_class(**{**config, **case.get("changed", {})})
    torch.manual_seed(0)
    model = klass._from_config(config, dtype=getattr(torch, case["dtype"]), attn_implementation=case["attention"])
    model.train()
    if case["checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    ids = torch.randint(0, config.vocab_size, (case["batch"], case["seq"]))
    if case["ranks"] > 1:
        how = MixedPrecisionPolicy(param_dtype=getattr(torch, case["compute"]), reduce_dtype=torch.float32) if case["compute"] else MixedPrecisionPolicy()
        mesh = init_device_mesh("cpu", (case["ranks"],))
        for module in [*layers(model), *(outside(model) if case["wrapped"] == "all" else [])]:
            fully_shard(module, mesh=mesh, mp_policy=how)
        fully_shard(model, mesh=mesh, mp_policy=how)
    how = {"foreach": case["optimizer"] == "foreach"} if case["optimizer"] != "fused" else {"fused": True}
    optimizer = OPTIMIZERS[case.get("update", "adamw")](model.parameters(), lr=1e-3, **how)
    if case["ranks"] > 1:
        tracker = FSDPMemTracker(model, optimizer)
        tracker.track_inputs((ids,))
    else:
        tracker = MemTracker()
        tracker.track_external(model, optimizer, ids)
    with tracker:
        for step in range(2):
            for part in range(case.get("microbatches", 1)):
                if step or part:
                    tracker.reset_mod_stats()
                model(input_ids=ids, labels=ids).loss.backward()
            if case.get("clipped"):
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    [peak] = tracker.get_tracker_snapshot("peak").values()
    written = {key: value for key, value in config.to_dict().items()
               if key in (*MODELS[case["kind"]][1], *case.get("changed", {}), "model_type", "rms_norm_eps", "hidden_act", "hidden_activation", "activation_function",
                          "layer_norm_epsilon", "query_pre_attn_scalar", "attn_logit_softcapping", "layer_norm_eps", "norm_epsilon", "use_bias", "use_parallel_residual", "partial_rotary_factor",
                          "rotary_pct", "logit_scale", "use_qk_norm", "embedding_multiplier", "residual_multiplier", "logits_scaling", "attention_multiplier", "final_logit_softcapping", "rope_parameters")}
    return {"name": case["name"], "config": {"architectures": [klass.__name__], **written},
            **{key: each for key, each in case.items() if key not in ("name", "kind", "changed")},
            "peak": {str(getattr(kind, "name", kind)): size for kind, size in peak.items()},
            "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--only", default="", help="a part of names")
    parser.add_argument("--missing", action="store_true", help="those that the file does not have")
    options = parser.parse_args()
    old = {}
    if options.file.exists():
        old = {case["name"]: case for case in map(json.loads, options.file.read_text().splitlines())}
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    new = []
    for case in cases():
        name = case["name"]
        if options.only in name and not (options.missing and name in old):
            new.append(record(case))
            print(f"{name}: {new[-1]['peak']}", flush=True)
        elif name in old:
            new.append(old[name])
    options.file.write_text("".join(json.dumps(case) + "\n" for case in new))


if __name__ == "__main__":
    main()
