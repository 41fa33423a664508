# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch keeps for backward where a part of a model is trained alone.

    pip install transformers==5.24.0 torch peft==0.21.2
    OMP_NUM_THREADS=1 python tests/data/record_trained.py tests/data/trained.jsonl
    OMP_NUM_THREADS=1 python tests/data/record_trained.py tests/data/trained.jsonl --only llama
    python tests/data/record_trained.py tests/data/peft/llama-3.2-1b-lora.json --manifest

As record_saved.py, whose models and measures these are: tiny, with random weights, in
training, on the CPU. A line of trained.jsonl:

- `name`, `class`, `config`, `dtype`, `attention`, `checkpointing`, `inputs`, `versions`
  as there
- `trainable`: the pattern that is found in the names of what has `requires_grad`, and
  of nothing else
- `adapters`: null, or what PEFT's LoraConfig was given; then `parameters` has all of
  the model by name, numbers of layers replaced by *: [dtype, shape]
- `elements`: of what is trained, and of all
- `saved`: bytes that the graph behind the logits holds, without parameters and buffers
- `peak`: bytes that are alive at most until the loss is there or in its backward
  pass, of which `gradients` are gradients of parameters
"""

import argparse
import importlib.util
import json
import pathlib
import re
import sys

import peft
import torch
import transformers

HERE = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("record_saved", HERE / "record_saved.py")
record_saved = importlib.util.module_from_spec(spec)
spec.loader.exec_module(record_saved)
record_logits = record_saved.record_logits

CONFIGS = {kind: (record_saved.CLASSES.get(name, f"{name}ForCausalLM"), configs[0])
           for name, kind, configs in record_saved.MODELS}
LORA = r"\.lora_[AB]\."
WAYS = {"sdpa-float32": ("sdpa", "float32"), "sdpa-bfloat16": ("sdpa", "bfloat16"),
        "eager-float32": ("eager", "float32"), "eager-bfloat16": ("eager", "bfloat16")}
FEW = ("sdpa-bfloat16", "eager-float32")

# What is trained, by kind of model.
PARTS = {
    "llama": {"norm": "norm", "queries": r"(q|v)_proj", "head": "lm_head", "last": r"layers\.1\.", "first": r"layers\.0\.",
              "layers": r"layers\.", "embedding": "embed_tokens", "down": "down_proj", "gate": "gate_proj", "output": "o_proj",
              "one": r"layers\.1\.mlp\.up_proj", "all": "."},
    "gpt2": {"bias": r"\.bias", "norm": r"ln_", "attention": "c_attn", "last": r"h\.1\.", "table": "wte", "positions": "wpe"},
    "qwen3": {"norm": "norm", "heads": r"q_norm|k_norm", "last": r"layers\.1\."},
    "gemma2": {"norm": "norm", "last": r"layers\.1\.", "queries": "q_proj"},
    "phi3": {"qkv": "qkv_proj", "down": "down_proj"},
    "phi": {"norm": "norm", "fc2": "fc2"},
    "cohere": {"norm": "norm", "values": "v_proj"},
    "gpt_neox": {"attention": "attention", "last": r"layers\.1\."},
    "mixtral": {"experts": "experts", "router": r"(mlp|block_sparse_moe)\.gate\.", "attention": "self_attn", "last": r"layers\.1\."},
    "olmoe": {"experts": "experts", "attention": "self_attn"},
    "deepseek_v3": {"latent": r"kv_b_proj", "last": r"layers\.1\."},
    "t5": {"decoder": "decoder", "encoder": "encoder", "norm": "layer_norm"},
    "bert": {"head": r"cls\.", "last": r"layer\.1\.", "norm": "LayerNorm"},
    "vit": {"head": "classifier", "norm": "layernorm", "last": r"layers?\.1\."},
}
# LoraConfig, and what else is trained.
ADAPTERS = {
    "llama": {"queries": dict(target_modules=["q_proj", "v_proj"]), "linear": dict(target_modules="all-linear"),
              "output": dict(target_modules=["o_proj"]), "mlp": dict(target_modules=["gate_proj", "down_proj"]),
              "one": dict(target_modules=["q_proj", "v_proj"], layers_to_transform=[1]),
              "head": dict(target_modules=["q_proj"], modules_to_save=["lm_head"]),
              "dropout": dict(target_modules=["q_proj", "v_proj"], lora_dropout=0.1),
              "linear-dropout": dict(target_modules="all-linear", lora_dropout=0.1)},
    "gpt2": {"attention": dict(target_modules=["c_attn"], fan_in_fan_out=True),
             "all": dict(target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)},
    "qwen3": {"linear": dict(target_modules="all-linear")},
    "phi3": {"linear": dict(target_modules="all-linear")},
    "gemma2": {"linear": dict(target_modules="all-linear")},
    "mixtral": {"attention": dict(target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])},
}


def cases():
    for kind, parts in PARTS.items():
        for way in WAYS if kind == "llama" else FEW:
            if kind in record_saved.NO_SDPA and way.startswith("sdpa"):
                way = way.replace("sdpa", "eager")
            for part, pattern in parts.items():
                yield case_of(kind, way, part, pattern, None)
    for part in ("queries", "last", "norm"):
        yield case_of("llama", "sdpa-bfloat16", part, PARTS["llama"][part], None, checkpointing=True)
    for kind, adapters in ADAPTERS.items():
        for way in WAYS if kind == "llama" else FEW:
            if kind in record_saved.NO_SDPA and way.startswith("sdpa"):
                way = way.replace("sdpa", "eager")
            for part, asked in adapters.items():
                yield case_of(kind, way, f"lora-{part}", trainable(asked), asked)
    for part in ("queries", "linear"):
        asked = ADAPTERS["llama"][part]
        yield case_of("llama", "sdpa-bfloat16", f"lora-{part}", trainable(asked), asked, checkpointing=True)
        yield case_of("llama", "sdpa-bfloat16", f"lora-{part}-narrow", trainable(asked), asked, wide=False)


def trainable(asked):
    return LORA + "".join(r"|\.modules_to_save\." for _ in asked.get("modules_to_save", [])[:1])


def case_of(kind, way, part, pattern, adapters, checkpointing=False, wide=True):
    attention, dtype = WAYS[way]
    name, config = CONFIGS[kind]
    return {"class": name, "kind": kind, "config": config, "attention": attention, "dtype": dtype, "experts": None,
            "autocast": None, "batch": 2, "seq": 24, "checkpointing": checkpointing, "more": {},
            "name": f"{kind}-{way}-{part}{'-checkpointing' if checkpointing else ''}",
            "trainable": pattern, "adapters": adapters, "wide": wide}


def built(case):
    model = record_saved.built(case, case["config"])
    if case["adapters"] is None:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(re.search(case["trainable"], name) is not None)
        return model
    torch.manual_seed(3)
    asked = peft.LoraConfig(r=4, lora_alpha=8, **case["adapters"])
    return peft.get_peft_model(model, asked, autocast_adapter_dtype=case["wide"]).train()


def record(case):
    model = built(case)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad != (re.search(case["trainable"], name) is not None):
            raise ValueError(f"{name} is trained: {parameter.requires_grad}")
    inputs, labels = record_saved.inputs_of(model, case)
    saved = record_saved.saved_by(model, case, inputs)
    passes = record_saved.trained(model, case, inputs, labels, None)
    peak = max(passes[1], passes[2], key=lambda each: each[0])
    plain = record_saved.built(case, case["config"])
    result = {"name": case["name"], "class": case["class"],
              "config": record_logits.kept_config(plain, {"class": case["class"], "config": case["config"]}),
              **{key: case[key] for key in ("dtype", "attention", "checkpointing", "trainable", "adapters")},
              "inputs": {key: list(each.shape) for key, each in inputs.items()},
              "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__,
                           "peft": peft.__version__},
              "elements": [sum(each.numel() for each in model.parameters() if each.requires_grad),
                           sum(each.numel() for each in model.parameters())],
              "saved": record_saved.total(saved), "peak": peak[0], "gradients": peak[2]}
    if case["adapters"] is not None:
        result["parameters"] = {name: [str(each.dtype).removeprefix("torch."), list(each.shape)]
                                for name, each in folded(model).items()}
    return result


def folded(model):
    """Parameters by name, with * for the number of a layer where all layers have it."""
    named = dict(model.named_parameters())
    layers = model.config.num_hidden_layers
    found = {}
    for name, each in named.items():
        layer = re.search(r"(?<=\.)\d+(?=\.)", name)
        if layer is None:
            found[name] = each
            continue
        alike = [f"{name[:layer.start()]}{number}{name[layer.end():]}" for number in range(layers)]
        whole = all(one in named and named[one].shape == each.shape for one in alike)
        found[f"{name[:layer.start()]}*{name[layer.end():]}" if whole else name] = each
    return found


def write_manifest(path):
    """Llama 3.2 1B with a LoRA on attention, without weights."""
    config = transformers.AutoConfig.from_pretrained(HERE / "configs/llama-3.2-1b.json")
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=16, lora_alpha=32, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]))
    facts = {"heads": config.num_attention_heads, "kv_heads": config.num_key_value_heads, "head_dim": config.head_dim}
    lines = [f"  {json.dumps(name)}: " + json.dumps({"shape": list(each.shape), "dtype": str(each.dtype).removeprefix("torch.")})
             for name, each in model.named_parameters()]
    path.write_text(f'{{"name": {json.dumps(path.stem)}, "facts": {json.dumps(facts)}, "parameters": {{\n'
                    + ",\n".join(lines) + "\n}}\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--only", default="", help="a part of names")
    parser.add_argument("--manifest", action="store_true", help="write the manifest of a large model with adapters instead")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    if options.manifest:
        write_manifest(options.file)
        return 0
    return record_saved.write_records(options, cases(), record)


if __name__ == "__main__":
    sys.exit(main())
