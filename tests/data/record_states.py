#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what layers keep while a model generates: the judge of `cache` and `state`.

    python3 record_states.py part4.jsonl       # with transformers 4.57.6
    python3 record_states.py part5.jsonl       # with transformers 5.23.0
    cat part4.jsonl part5.jsonl > states.jsonl

Takes the small configs of architectures.jsonl that the installed version of transformers
wrote, builds each model in bfloat16 (float32 where it does not run in that) on the CPU with random weights, runs one forward pass of
TOKENS tokens with `use_cache`, and records what the cache then holds of each layer. Of
configs of one type that give the same, one is kept. Nothing is downloaded.

A line has
  config    as architectures.jsonl has it, with the dtype
  tokens    how many were run
  source    how many the encoder was given, for models that have one
  layers    per layer what it keeps of one sequence:
              token   bytes of one token, and how many tokens are there
              source  the same of the encoder's tokens
              state   [name, bytes] of what is kept however long the sequence is; of DeepSeek V4
                      also entries that tokens became (compressed_kv), and what is yet to
                      become one (buffer_*, overlap_*)

What is kept follows the code of transformers. Where that keeps more than a layer can ever
read, or other than the program counts, the line says it as it is and the test allows for it:
  - A sliding layer of DynamicCache holds the window less one token, since the next one comes
    on top; where a class has no sliding layers in its cache, it holds all tokens.
  - A cache of one size for all tokens (StaticCache, and the ring of recurrent_gemma) is
    allocated ahead; then `token` has no count of tokens.
  - Layers that share another's keys and values keep nothing of their own.
  - transformers 4 keeps keys and values of all heads where version 5 keeps a latent, has
    states of Mamba in the model's dtype, which are float32 in version 5, and gives attention
    layers of lfm2 a convolution's state, too.
  - mllama is run without an image, so its cross attention keeps nothing.
  - Local layers of gpt_neo keep all tokens, and so does the program count them.
"""
import argparse
import json
import logging
import os
import re
import sys
import warnings

GQA = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2)
# Configs beside those that are recorded: of a shape that runs.
EXTRA = [
    dict(model_type="xlstm", architectures=["xLSTMForCausalLM"], vocab_size=96, hidden_size=128, embedding_dim=128,
         num_heads=4, num_hidden_layers=2, num_blocks=2, qk_dim_factor=0.5, v_dim_factor=1.0, ffn_proj_factor=2.667,
         ffn_round_up_to_multiple_of=64, use_bias=False, weight_mode="single", chunkwise_kernel="chunkwise--native_autograd",
         sequence_kernel="native_sequence__native", step_kernel="native", mode="inference"),
    dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=32),
    dict(GQA, model_type="gpt_oss", architectures=["GptOssForCausalLM"], head_dim=8, num_local_experts=4,
         num_experts_per_tok=2, sliding_window=8),
    dict(model_type="deepseek_v3", architectures=["DeepseekV3ForCausalLM"], vocab_size=96, hidden_size=32,
         intermediate_size=48, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
         q_lora_rank=12, kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, n_routed_experts=4,
         num_experts_per_tok=2, n_shared_experts=1, n_group=1, topk_group=1, first_k_dense_replace=1),
    dict(GQA, model_type="gemma3_text", architectures=["Gemma3ForCausalLM"], num_hidden_layers=7, head_dim=8, sliding_window=8),
    dict(GQA, model_type="gemma2", architectures=["Gemma2ForCausalLM"], head_dim=8, sliding_window=8),
    dict(GQA, model_type="mistral", architectures=["MistralForCausalLM"], sliding_window=8),
    dict(model_type="axk1", architectures=["AXK1ForCausalLM"], vocab_size=96, hidden_size=32, intermediate_size=48,
         moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4, q_lora_rank=12, kv_lora_rank=8,
         qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, n_routed_experts=4, num_experts_per_tok=2, n_group=1, topk_group=1),
    dict(GQA, model_type="glm4v_text", architectures=["Glm4vTextModel"], pad_token_id=0,
         rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[2, 1, 1])),
    dict(GQA, model_type="glm4v_moe_text", architectures=["Glm4vMoeTextModel"], pad_token_id=0, moe_intermediate_size=20, n_routed_experts=4,
         n_shared_experts=1, num_experts_per_tok=2, rope_parameters=dict(rope_type="default", rope_theta=10000.0, mrope_section=[1, 1, 0])),
    dict(model_type="gemma3", architectures=["Gemma3ForConditionalGeneration"],
         text_config=dict(GQA, model_type="gemma3_text", head_dim=8, num_hidden_layers=7, sliding_window=8),
         vision_config=dict(model_type="siglip_vision_model", hidden_size=32, intermediate_size=48, num_hidden_layers=1,
                            num_attention_heads=4, image_size=28, patch_size=14)),
    dict(GQA, model_type="gemma4_text", architectures=["Gemma4ForCausalLM"], num_hidden_layers=6, head_dim=8,
         global_head_dim=16, sliding_window=8, num_kv_shared_layers=2, hidden_size_per_layer_input=8,
         vocab_size_per_layer_input=96, layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2),
    dict(GQA, model_type="gemma4_text", architectures=["Gemma4ForCausalLM"], num_hidden_layers=6, head_dim=8,
         global_head_dim=16, num_global_key_value_heads=1, attention_k_eq_v=True, sliding_window=8, num_kv_shared_layers=0,
         hidden_size_per_layer_input=8, vocab_size_per_layer_input=96,
         layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2),
    # Rates of which the tokens are one short: buffers are full.
    dict(vocab_size=96, hidden_size=32, model_type="deepseek_v4", architectures=["DeepseekV4ForCausalLM"], num_hidden_layers=4,
         num_attention_heads=4, head_dim=8, qk_rope_head_dim=4, q_lora_rank=12, o_groups=2, o_lora_rank=6, moe_intermediate_size=20,
         n_routed_experts=4, num_experts_per_tok=2, hc_mult=2, index_n_heads=2, index_head_dim=10, index_topk=512, sliding_window=6,
         layer_types=["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention", "compressed_sparse_attention"],
         mlp_layer_types=["moe"] * 4, compress_rates={"compressed_sparse_attention": 4, "heavily_compressed_attention": 6}),
    dict(GQA, model_type="llama4_text", architectures=["Llama4ForCausalLM"], intermediate_size_mlp=56, num_local_experts=3,
         head_dim=8, num_hidden_layers=4, attention_chunk_size=8),
]

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = 11
SOURCE = 9
MOST_ELEMENTS = 6_000_000
# No decoders, or parts of other models.
SKIPPED = re.compile("Masked|PreTraining|Encoder|Vision|Classification|QuestionAnswering|ImageModel|ForCTC")


def first_line(error):
    return (type(error).__name__ + ": " + re.sub(r"\s+", " ", str(error)).strip())[:200]


def tensors_of(holder):
    """What an object or map holds by name."""
    items = holder.items() if isinstance(holder, dict) else vars(holder).items()
    return dict(items)


class Found:
    """What is found, by layer."""

    def __init__(self):
        self.layers = {}

    def layer(self, number):
        return self.layers.setdefault(number, {"token": [], "source": [], "state": []})

    def add(self, number, name, tensor, what):
        if tensor is None or not hasattr(tensor, "shape") or tensor.numel() == 0:
            return
        # Keys that are values, too.
        known = [kept for some in self.layer(number).values() for _, kept in some]
        if any(kept.data_ptr() == tensor.data_ptr() and kept.shape == tensor.shape for kept in known):
            return
        if tensor.dtype.is_floating_point:
            self.layer(number)[what].append((name, tensor))


def is_tensor(x):
    return hasattr(x, "numel")


def walk_cache(cache, found, what="token"):
    """Of every kind of cache that transformers has."""
    if cache is None:
        return
    if hasattr(cache, "self_attention_cache"):
        walk_cache(cache.self_attention_cache, found, "token")
        walk_cache(cache.cross_attention_cache, found, "source")
        return
    if isinstance(cache, (tuple, list)):
        for number, layer in enumerate(cache):
            for index, tensor in enumerate(layer):
                found.add(number, str(index), tensor, what if index < 2 else "source")
        return
    if hasattr(cache, "layers") and isinstance(cache.layers, list):
        for number, layer in enumerate(cache.layers):
            found.layer(number)
            for name, value in tensors_of(layer).items():
                values = value if isinstance(value, (list, tuple)) else value.values() if isinstance(value, dict) else [value]
                for each in values:
                    if is_tensor(each):
                        token = name in ("keys", "values", "idx_keys") or "index" in name
                        found.add(number, name, each, what if token else "state")
    for name, value in tensors_of(cache).items():
        if name in ("layers", "is_updated"):
            continue
        token = name in ("key_cache", "value_cache", "_key_cache", "_value_cache")
        if isinstance(value, dict):
            for number, entry in value.items():
                for each in entry if isinstance(entry, (tuple, list)) else [entry]:
                    if is_tensor(each):
                        found.add(number, name, each, "token" if token else "state")
        elif isinstance(value, (list, tuple)):
            for number, each in enumerate(value):
                if is_tensor(each):
                    found.add(number, name, each, "token" if token else "state")
        elif is_tensor(value) and value.dim() > 2 and name.endswith("states"):
            for number in range(value.shape[0]):
                found.add(number, name, value[number], "state")


def walk_modules(model, found):
    """recurrent_gemma keeps its state in its modules."""
    for name, module in model.named_modules():
        numbers = re.findall(r"layers\.(\d+)\.", name + ".")
        if not numbers:
            continue
        for key in ("recurrent_states", "conv1d_state"):
            found.add(int(numbers[0]), key, getattr(module, key, None), "state")
        for key in ("key_states", "value_states"):
            found.add(int(numbers[0]), key, getattr(module, key, None), "token")


def walk_rwkv(state, found):
    for index, tensor in enumerate(state):
        for number in range(tensor.shape[-1]):
            found.add(number, str(index), tensor[..., number], "state")


def summary(found, count):
    layers = []
    for number in range(count):
        kept = found.layers.get(number, {"token": [], "source": [], "state": []})
        line = {}
        for what in ("token", "source"):
            if kept[what]:
                tokens = {t.shape[-2] for _, t in kept[what]}
                if len(tokens) != 1:
                    raise ValueError("tokens differ: " + str([t.shape for _, t in kept[what]]))
                tokens = tokens.pop()
                size = sum(t.numel() * t.element_size() for _, t in kept[what])
                line[what] = [size // tokens, tokens]
        if kept["state"]:
            line["state"] = [[n, t.numel() * t.element_size()] for n, t in kept["state"]]
        layers.append(line)
    return layers


def runnable(made):
    """What no cache depends on, so that small models run."""
    for part in [made] + [p for p in vars(made).values() if hasattr(p, "to_dict")]:
        vocab = getattr(part, "vocab_size", None)
        for key in ("pad_token_id", "pad_index"):
            pad = getattr(part, key, None)
            if vocab and pad is not None and not 0 <= pad < vocab:
                setattr(part, key, 0)
        experts = [getattr(part, k, None) for k in ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")]
        experts = [n for n in experts if isinstance(n, int) and n > 0]
        for key in ("num_experts_per_tok", "moe_k"):
            chosen = getattr(part, key, None)
            if experts and isinstance(chosen, int) and chosen > experts[0]:
                setattr(part, key, experts[0])
        try:
            heads = getattr(part, "num_attention_heads", None)
        except Exception:  # they differ between layers
            continue
        if getattr(part, "kv_lora_rank", None) and heads:
            part.num_key_value_heads = heads
        # Positions in three dimensions share out the halves of a head.
        if heads and part.model_type.startswith("qwen") and "vl" in part.model_type:
            half = (getattr(part, "head_dim", None) or part.hidden_size // heads) // 2
            sections = [half - 2 * (half // 3), half // 3, half // 3]
            for key in ("rope_scaling", "rope_parameters"):
                if hasattr(part, key):
                    said = getattr(part, key) or {"rope_type": "default"}
                    setattr(part, key, {**said, "mrope_section": sections})
        attention = getattr(part, "attn_config", None)
        if part.model_type == "dbrx":
            attention.clip_qkv = attention.clip_qkv or 8
            attention.rope_theta = 10000.0
        part._experts_implementation = "eager"
        part._attn_implementation = "eager"


def class_of(config):
    """The one that generates, of a config that names none."""
    from transformers.models.auto import modeling_auto as auto

    for mapping in (auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
                    auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES):
        if config["model_type"] in mapping:
            return mapping[config["model_type"]]
    return ""


def record(config, class_name, dtype):
    import torch
    import transformers
    from transformers import AutoConfig

    torch.manual_seed(0)
    config = {k: v for k, v in config.items() if k != "transformers_version"}
    model_type = config.pop("model_type")
    made = AutoConfig.for_model(model_type, **config)
    runnable(made)
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        model = getattr(transformers, class_name)(made).eval()
    finally:
        torch.set_default_dtype(torch.float32)
    text = made.get_text_config() if hasattr(made, "get_text_config") else made
    vocab = min(getattr(text, "vocab_size", 64) or 64, 64)
    ids = torch.randint(3, vocab - 4, (1, TOKENS))
    arguments = dict(input_ids=ids, use_cache=True)
    source = None
    if getattr(made, "is_encoder_decoder", False):
        arguments = dict(decoder_input_ids=ids, use_cache=True)
        if hasattr(made, "num_mel_bins"):
            arguments["input_features"] = torch.zeros(1, made.num_mel_bins, 2 * made.max_source_positions, dtype=getattr(torch, dtype))
            source = made.max_source_positions
        else:
            arguments["input_ids"] = torch.randint(3, vocab - 4, (1, SOURCE))
            source = SOURCE
    inner = []
    if model_type == "recurrent_gemma":
        # Version 5 makes a cache that it does not hand on.
        module = sys.modules[type(model).__module__]
        made_by = getattr(module, "DynamicCache", None)
        if made_by:
            module.DynamicCache = lambda *a, **k: inner.append(made_by(*a, **k)) or inner[-1]
    with torch.no_grad():
        out = model(**arguments)
    if inner:
        module.DynamicCache = made_by
    found = Found()
    count = getattr(text, "decoder_layers", None) or getattr(text, "num_decoder_layers", None) or getattr(text, "num_hidden_layers", None) or text.num_layers
    if model_type == "longcat_flash":
        count = 2 * text.num_layers
    for key in ("past_key_values", "cache_params", "mems"):
        walk_cache(getattr(out, key, None), found)
    if model_type == "rwkv":
        walk_rwkv(out.state, found)
    if model_type == "recurrent_gemma":
        walk_modules(model, found)
        for cache in inner:
            walk_cache(cache, found)
    if not found.layers and source is None and hasattr(model, "generate"):
        # Some caches are made by `generate` alone.
        with torch.no_grad():
            out = model.generate(ids, max_new_tokens=1, do_sample=False, return_dict_in_generate=True)
        walk_cache(out.past_key_values, found)
    return summary(found, count), source


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out")
    parser.add_argument("--types", type=lambda s: s.split(","), default=None)
    args = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
    import torch
    import transformers

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    version = transformers.__version__
    seen = set()
    lines = 0
    with open(os.path.join(HERE, "architectures.jsonl")) as f:
        rows = [json.loads(text) for text in f]
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    extra = [config for config in EXTRA if config["model_type"] in CONFIG_MAPPING]
    rows += [{"config": {**config, "transformers_version": version}, "tensors": [["", [1], 1]]} for config in extra]
    with open(args.out, "w") as out:
        for row in rows:
            config = row["config"]
            model_type = config["model_type"]
            if config.get("transformers_version") != version or (args.types and model_type not in args.types):
                continue
            class_name = (config.get("architectures") or [class_of(config)])[0]
            elements = 0
            for _, shape, count in row.get("tensors", []):
                size = count
                for n in shape:
                    size *= n
                elements += size
            if not elements or elements > MOST_ELEMENTS or SKIPPED.search(class_name):
                continue
            config = {k: v for k, v in config.items() if k not in ("torch_dtype", "_name_or_path")}
            layers = None
            for dtype in ("bfloat16", "float32"):
                try:
                    layers, source = record(config, class_name, dtype)
                    config["dtype"] = dtype
                    break
                except Exception as e:
                    print(model_type, row.get("case"), class_name, dtype, "FAILED:", first_line(e), file=sys.stderr)
            if layers is None:
                continue
            if not any(layers):
                print(model_type, row.get("case"), class_name, "keeps nothing", file=sys.stderr)
                continue
            key = json.dumps([model_type, class_name, layers])
            if key in seen:
                continue
            seen.add(key)
            line = {"config": config, "tokens": TOKENS, "layers": layers}
            if source:
                line["source"] = source
            out.write(json.dumps(line, separators=(",", ":"), sort_keys=True) + "\n")
            out.flush()
            lines += 1
    print(lines, "lines", file=sys.stderr)


if __name__ == "__main__":
    main()
