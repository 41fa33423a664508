# SPDX-License-Identifier: Apache-2.0
"""Records how much memory XLA plans for train steps on CPUs and GPUs.

    pip install jax==0.10.2
    python tests/data/record_xla_memory.py tests/data/xla_memory.jsonl
    python tests/data/record_xla_memory.py tests/data/xla_memory.jsonl --only scan

and those whose names begin with `h200` with

    pip install jax[cuda13]==0.11.2
    python tests/data/record_xla_memory.py tests/data/xla_memory.jsonl --only h200

Nothing runs: steps of a decoder as Llama's and one as GPT-2's, written here in plain
JAX, are compiled for eight devices of the CPU, or for GPUs, of which none is needed. A
step is a forward pass, the mean cross entropy of the logits in float32, its gradients,
and AdamW. The second command records anew the cases whose names have that part. The
compiler for CPUs computes bfloat16 in float32, and mostly keeps it so. A line of
xla_memory.jsonl:

- `name`, and `config`, of which transformers makes a model with these parameters
- `stacked`: null, or that there is one tensor for each of a layer's parameters, with
  the layers as its first dimension and no number in its name, over which the step
  scans; otherwise layers come one after the other
- `mesh`, sizes by axis in order; `rules`, [pattern of the whole name, spec], the first
  that matches holds; of stacked ones it starts behind the layers; `batch_axes` of the
  ids, labels and the residual stream (a constraint after each sum); the table of words
  is gathered, but for the axis of its rows, before rows are taken from it
- `batch`, `seq`; `dtype` of parameters; `compute`, of what runs on them (casts of
  parameters included); `state`, of both moments
- `remat`: `none`, or the policy of jax.checkpoint around each layer
- `donated`: whether parameters and state are
- `flags` of XLA beyond the number of devices
- of steps compiled for GPUs, `target`: `h200` (none is needed: the compiler is told what
  one is); `attention`: `scores`, as those of the CPU have it, or what
  jax.nn.dot_product_attention runs, `xla` or `cudnn` (`largest` and `residuals` are not
  recorded); `casts` of parameters to `compute`:
  of all in front of the `step`, or of a `layer`'s in it
- `later`: recorded once `--framework jax` was written, to judge it
- `bytes` of a device, as memory_analysis() says: `arguments`, `outputs`, `aliases` (of
  outputs that take the place of arguments), `temporaries`, `code`, and `peak`, which
  for CPUs leaves the temporaries out
- `largest`, what fills the one block of temporaries: of the values that the compiler
  placed in it, from the largest on, those that share no bytes with one before:
  [shape on a device, bytes, count], while they are a 500th of it; they are not
  all alive at once, but what a loop keeps of every layer is
- `live`, bytes of the values, arguments aside, that are alive at once in the order that
  the compiler chose, where they are the most (the temporaries are more by what could
  not be packed, and what may run at once, and less by what takes the place of donated
  arguments); `at_peak`, which: [shape, bytes, count],
  those of at least a 500th, then the rest as one; `several` is one result of several
- `residuals`, what JAX itself keeps of one layer for its gradients, before XLA, which
  makes some of it anew and drops what is there twice, but for the layer's parameters:
  [what made it, dtype, shape over all devices, count]; `input` is the layer's, and
  what is made in functions of JAX is called by their names
- `versions`
"""

import argparse
import collections
import contextlib
import functools
import glob
import io
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

DEVICES = 8
# By default the compiler for CPUs orders what it can to run at once, and brings
# what each layer computes anew forward to all the others; so layers that stand one
# after the other are compiled with the order that needs little memory.
SPARING = "--xla_cpu_enable_concurrency_optimized_scheduler=false"
# What a compiler for GPUs asks a device for.
TARGETS = {"h200": """gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: 233472
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535
  block_dim_limit_z: 65535 memory_bandwidth: 4800000000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 150000000000 shared_memory_per_block_optin: 232448 cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 20 } runtime_version { major: 13 } device_description_str: "NVIDIA H200"
"""}
LEAST = 500  # of the temporaries, the part that is told

LLAMA = dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=2048, hidden_size=256, intermediate_size=704,
             num_hidden_layers=5, num_attention_heads=8, num_key_value_heads=8, head_dim=32, hidden_act="silu", rms_norm_eps=1e-5,
             rope_theta=10000.0, max_position_embeddings=512, tie_word_embeddings=False, attention_bias=False, mlp_bias=False)
GPT2 = dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], vocab_size=2048, n_embd=256, n_layer=5, n_head=8, n_positions=512,
            n_inner=None, activation_function="gelu_new", layer_norm_epsilon=1e-5, tie_word_embeddings=True)

LLAMA_RULES = [
    [r"model\.embed_tokens\.weight", ["tp", "fsdp"]],
    [r".*\.(q|k|v|gate|up)_proj\.weight", ["tp", "fsdp"]],
    [r".*\.(o|down)_proj\.weight", ["fsdp", "tp"]],
    [r"lm_head\.weight", ["tp", "fsdp"]],
    [r".*norm\.weight", []],
]
GPT2_RULES = [
    [r"transformer\.wte\.weight", ["tp", "fsdp"]],
    [r"transformer\.wpe\.weight", [None, "fsdp"]],
    [r".*\.(c_attn|c_fc)\.weight", ["fsdp", "tp"]],
    [r".*\.c_proj\.weight", ["tp", "fsdp"]],
    [r".*\.(c_attn|c_fc)\.bias", ["tp"]],
    [r".*", []],
]
REMATS = ("none", "dots_saveable", "dots_with_no_batch_dims_saveable", "nothing_saveable")
MESHES = {"fsdp8": {"fsdp": 8}, "fsdp4-tp2": {"fsdp": 4, "tp": 2}, "tp8": {"tp": 8}, "dp2-fsdp2-tp2": {"dp": 2, "fsdp": 2, "tp": 2},
          "fsdp2-tp4": {"fsdp": 2, "tp": 4}, "dp4-tp2": {"dp": 4, "tp": 2},
          "one": {"tp": 1}, "tp2": {"tp": 2}, "tp4": {"tp": 4}, "dp4": {"dp": 4}, "dp8": {"dp": 8}}
OLD_MESHES = ("fsdp8", "fsdp4-tp2", "tp8", "dp2-fsdp2-tp2")


def cases():
    def case(name, config, mesh, **more):
        return {"name": name, "config": config, "stacked": None, "mesh": MESHES[mesh],
                "batch": 16, "seq": 192, "dtype": "float32", "compute": "float32", "state": "float32",
                "remat": "none", "donated": True, "flags": "", **more}

    for mesh in OLD_MESHES:
        for remat in REMATS:
            yield case(f"llama-scan-{mesh}-{remat}", LLAMA, mesh, stacked=True, remat=remat)
    for mesh in ("fsdp8", "fsdp4-tp2"):
        for remat in REMATS:
            yield case(f"llama-{mesh}-{remat}", LLAMA, mesh, remat=remat, flags=SPARING)
    for remat in ("none", "nothing_saveable"):
        yield case(f"llama-tp8-{remat}", LLAMA, "tp8", remat=remat, flags=SPARING)
        yield case(f"llama-dp2-fsdp2-tp2-{remat}", LLAMA, "dp2-fsdp2-tp2", remat=remat, flags=SPARING)
    for layers in (3, 7):
        for remat in ("none", "nothing_saveable"):
            yield case(f"llama-scan-fsdp8-{remat}-{layers}-layers", dict(LLAMA, num_hidden_layers=layers), "fsdp8", stacked=True, remat=remat)
            yield case(f"llama-fsdp8-{remat}-{layers}-layers", dict(LLAMA, num_hidden_layers=layers), "fsdp8", remat=remat, flags=SPARING)
    for batch, seq in ((32, 192), (8, 384)):
        for remat in ("none", "nothing_saveable"):
            yield case(f"llama-scan-fsdp8-{remat}-{batch}x{seq}", LLAMA, "fsdp8", stacked=True, remat=remat, batch=batch, seq=seq)
    wide = dict(LLAMA, hidden_size=512, intermediate_size=1408, head_dim=64, num_key_value_heads=2, vocab_size=8192)
    for remat in ("none", "nothing_saveable"):
        yield case(f"llama-scan-fsdp4-tp2-{remat}-wide-grouped", wide, "fsdp4-tp2", stacked=True, remat=remat)
    for mesh in ("fsdp8", "fsdp4-tp2"):
        for remat in ("none", "nothing_saveable"):
            yield case(f"llama-scan-{mesh}-{remat}-bfloat16", LLAMA, mesh, stacked=True, remat=remat, dtype="bfloat16", compute="bfloat16")
    yield case("llama-scan-fsdp8-none-mixed", LLAMA, "fsdp8", stacked=True, compute="bfloat16")
    yield case("llama-scan-fsdp8-nothing_saveable-mixed", LLAMA, "fsdp8", stacked=True, compute="bfloat16", remat="nothing_saveable")
    yield case("llama-scan-fsdp8-none-kept", LLAMA, "fsdp8", stacked=True, donated=False)
    for mesh in ("fsdp8", "fsdp4-tp2"):
        for remat in ("none", "dots_saveable", "nothing_saveable"):
            yield case(f"gpt2-scan-{mesh}-{remat}", GPT2, mesh, stacked=True, remat=remat)
    for remat in ("none", "nothing_saveable"):
        yield case(f"gpt2-fsdp8-{remat}", GPT2, "fsdp8", remat=remat, flags=SPARING)
        yield case(f"gpt2-tp8-{remat}", GPT2, "tp8", remat=remat, flags=SPARING)
        yield case(f"llama-fsdp8-{remat}-concurrent", LLAMA, "fsdp8", remat=remat)
        yield case(f"llama-scan-fsdp8-{remat}-sparing", LLAMA, "fsdp8", remat=remat, stacked=True, flags=SPARING)
    # Recorded once `--framework jax` was written, to judge it.
    other = dict(LLAMA, hidden_size=384, intermediate_size=896, num_hidden_layers=4, num_attention_heads=12, num_key_value_heads=4, vocab_size=5120)
    small = dict(GPT2, n_embd=192, n_head=6, n_layer=8, vocab_size=3072)
    for remat in REMATS:
        yield case(f"llama-scan-fsdp2-tp4-{remat}-other", other, "fsdp2-tp4", stacked=True, remat=remat, batch=8, seq=256, later=True)
        yield case(f"gpt2-scan-dp4-tp2-{remat}-small", small, "dp4-tp2", stacked=True, remat=remat, batch=32, seq=128, later=True)
    for remat in ("none", "nothing_saveable"):
        yield case(f"gpt2-scan-fsdp2-tp4-{remat}-other", dict(small, vocab_size=8192), "fsdp2-tp4", stacked=True, remat=remat, batch=8, seq=320, later=True)
        yield case(f"llama-scan-fsdp8-{remat}-short", other, "fsdp8", stacked=True, remat=remat, batch=8, seq=32, later=True)
    # Without FSDP: these decided what `--framework jax` says of SiLU, stacks and casts.
    deep = dict(LLAMA, num_hidden_layers=9, hidden_size=192, intermediate_size=512, num_attention_heads=6, num_key_value_heads=6)
    grouped = dict(LLAMA, hidden_size=320, intermediate_size=832, num_attention_heads=8, num_key_value_heads=2, head_dim=40, vocab_size=1536)
    wide = dict(GPT2, n_embd=320, n_head=4, n_layer=6, vocab_size=1024)
    for mesh, remats in (("one", ("none", "dots_saveable", "nothing_saveable")), ("tp2", ("none",)), ("tp8", ("none", "nothing_saveable")), ("dp8", ("none",))):
        for remat in remats:
            yield case(f"llama-scan-{mesh}-{remat}-grouped", grouped, mesh, stacked=True, remat=remat, batch=8, seq=128)
    yield case("llama-scan-one-none-deep", deep, "one", stacked=True, batch=2, seq=64)
    for remat in REMATS:
        yield case(f"gpt2-scan-one-{remat}-wide", wide, "one", stacked=True, remat=remat, batch=4, seq=96)
    for mesh in ("one", "tp8", "dp8"):
        yield case(f"llama-scan-{mesh}-none-cast", grouped, mesh, stacked=True, batch=8, seq=128, compute="bfloat16")
    # Recorded once that was written, to judge it.
    narrow = dict(LLAMA, num_hidden_layers=6, hidden_size=448, intermediate_size=640, num_attention_heads=14, num_key_value_heads=14, vocab_size=768)
    for mesh, remat, batch, seq in (("one", "none", 4, 160), ("tp2", "dots_with_no_batch_dims_saveable", 4, 160), ("tp2", "nothing_saveable", 6, 96),
                                    ("tp2", "none", 2, 256)):
        yield case(f"llama-scan-{mesh}-{remat}-narrow", narrow, mesh, stacked=True, remat=remat, batch=batch, seq=seq, later=True)
    # The same, but for `three` and `six` of GPT-2, which decided that grouped heads are repeated, what GELU keeps and an arena's holes.
    for hidden, mlp, layers, heads, kv, vocab, mesh, batch, seq, remat, word in (
            (256, 1024, 4, 8, 2, 1024, "one", 8, 64, "none", "four"), (512, 1536, 3, 8, 1, 512, "one", 4, 256, "none", "three"),
            (384, 1024, 8, 6, 6, 4096, "tp2", 8, 128, "none", "eight"), (256, 768, 6, 8, 4, 8192, "tp4", 4, 256, "none", "six"),
            (320, 896, 5, 10, 5, 2048, "dp4", 16, 64, "none", "five"), (512, 1408, 2, 16, 4, 32000, "one", 2, 128, "none", "two"),
            (256, 1024, 4, 8, 2, 1024, "one", 8, 64, "nothing_saveable", "four"), (256, 704, 6, 8, 8, 2048, "tp2", 8, 128, "dots_saveable", "six"),
            (512, 640, 12, 8, 8, 256, "one", 1, 512, "none", "twelve")):
        config = dict(LLAMA, hidden_size=hidden, intermediate_size=mlp, num_hidden_layers=layers, num_attention_heads=heads,
                      num_key_value_heads=kv, head_dim=hidden // heads, vocab_size=vocab)
        later = {} if word == "three" else {"later": True}
        yield case(f"llama-scan-{mesh}-{remat}-{word}", config, mesh, stacked=True, remat=remat, batch=batch, seq=seq, **later)
    for hidden, heads, layers, vocab, mesh, batch, seq, word in ((256, 8, 4, 2048, "one", 8, 128, "four"), (384, 6, 8, 1024, "tp2", 4, 256, "eight"),
                                                                 (320, 5, 6, 512, "one", 16, 48, "six")):
        config = dict(GPT2, n_embd=hidden, n_head=heads, n_layer=layers, vocab_size=vocab)
        later = {} if word == "six" else {"later": True}
        yield case(f"gpt2-scan-{mesh}-none-{word}", config, mesh, stacked=True, batch=batch, seq=seq, **later)

    # Recorded once `--framework jax` knew what loops keep, to judge that.
    for mesh in ("one", "fsdp8", "tp2", "fsdp4-tp2"):
        for remat in ("none", "dots_with_no_batch_dims_saveable", "nothing_saveable"):
            config = dict(LLAMA, hidden_size=384, intermediate_size=1152, num_hidden_layers=10, num_attention_heads=6, num_key_value_heads=6,
                          head_dim=64, vocab_size=3072)
            yield case(f"llama-scan-{mesh}-{remat}-ten", config, mesh, stacked=True, remat=remat, batch=8, seq=160, later=True)
    # For GPUs.
    yield from gpu_cases(case)


def gpu_cases(case):
    def llama(hidden, mlp, layers, heads, kv, vocab):
        return dict(LLAMA, hidden_size=hidden, intermediate_size=mlp, num_hidden_layers=layers, num_attention_heads=heads,
                    num_key_value_heads=kv, head_dim=hidden // heads, vocab_size=vocab, max_position_embeddings=8192)

    def gpt2(hidden, layers, heads, vocab):
        return dict(GPT2, n_embd=hidden, n_layer=layers, n_head=heads, vocab_size=vocab, n_positions=4096)

    def step(word, config, remat, attention, batch, seq, mesh="one", casts="layer", **more):
        rest = "".join(f"-{each}" for each in (more["compute"] if "compute" in more else "bfloat16" if "dtype" in more else "", "step" if casts == "step" else "", word) if each)
        return case(f"h200-{config['model_type']}-scan-{mesh}-{remat}-{attention}{rest}", config, mesh, stacked=True, batch=batch, seq=seq,
                    remat=remat, target="h200", attention=attention, casts=casts, **{"compute": "bfloat16", **more})

    for remat in ("none", "dots_with_no_batch_dims_saveable", "nothing_saveable"):
        for attention in ("cudnn", "xla"):
            yield step("small", llama(1024, 2816, 12, 16, 16, 32000), remat, attention, 4, 1024)
            yield step("wide", llama(4096, 14336, 4, 32, 8, 128256), remat, attention, 2, 2048)
            yield step("deep", llama(1536, 8960, 28, 12, 2, 151936), remat, attention, 1, 4096)
        yield step("small", llama(1024, 2816, 12, 16, 16, 32000), remat, "xla", 4, 1024, compute="float32")
        yield step("small", llama(1024, 2816, 12, 16, 16, 32000), remat, "cudnn", 4, 1024, casts="step")
        yield step("small", gpt2(1024, 12, 16, 50304), remat, "cudnn", 4, 1024)
        yield step("small", llama(1024, 2816, 12, 16, 16, 32000), remat, "cudnn", 32, 1024, "fsdp8")
        yield step("small", llama(1024, 2816, 12, 16, 16, 32000), remat, "cudnn", 16, 1024, "fsdp4-tp2")
        yield step("small", llama(1024, 2816, 12, 16, 16, 32000), remat, "cudnn", 4, 1024, "tp4")
    other, tall = llama(2560, 9728, 9, 32, 8, 49152), llama(768, 3072, 20, 12, 12, 64000)
    for remat in ("none", "dots_with_no_batch_dims_saveable", "nothing_saveable"):
        yield step("other", other, remat, "cudnn", 2, 4096)
        yield step("other", other, remat, "cudnn", 8, 2048, "dp2-fsdp2-tp2")
        # Recorded once that was written, to judge it.
        yield step("tall", tall, remat, "xla", 2, 1024, later=True)
        yield step("tall", tall, remat, "cudnn", 8, 1024, later=True, dtype="bfloat16")
        yield step("tall", gpt2(1280, 10, 20, 32768), remat, "cudnn", 8, 512, later=True)
        yield step("tall", tall, remat, "xla", 2, 1024, later=True, compute="float32")


# ---- the models: parameters by their names in transformers, in its layouts


def shapes_of(config):
    """Shapes of what stands outside of layers, and of a layer."""
    if config["model_type"] == "llama":
        hidden, mlp, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
        q, kv = (config[key] * config["head_dim"] for key in ("num_attention_heads", "num_key_value_heads"))
        outside = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,), "lm_head.weight": (vocab, hidden)}
        layer = {"self_attn.q_proj.weight": (q, hidden), "self_attn.k_proj.weight": (kv, hidden), "self_attn.v_proj.weight": (kv, hidden),
                 "self_attn.o_proj.weight": (hidden, q), "mlp.gate_proj.weight": (mlp, hidden), "mlp.up_proj.weight": (mlp, hidden),
                 "mlp.down_proj.weight": (hidden, mlp), "input_layernorm.weight": (hidden,), "post_attention_layernorm.weight": (hidden,)}
        return outside, layer, "model.layers", config["num_hidden_layers"]
    hidden, vocab = config["n_embd"], config["vocab_size"]
    mlp = config["n_inner"] or 4 * hidden
    outside = {"transformer.wte.weight": (vocab, hidden), "transformer.wpe.weight": (config["n_positions"], hidden),
               "transformer.ln_f.weight": (hidden,), "transformer.ln_f.bias": (hidden,)}
    layer = {"attn.c_attn.weight": (hidden, 3 * hidden), "attn.c_attn.bias": (3 * hidden,), "attn.c_proj.weight": (hidden, hidden),
             "attn.c_proj.bias": (hidden,), "mlp.c_fc.weight": (hidden, mlp), "mlp.c_fc.bias": (mlp,), "mlp.c_proj.weight": (mlp, hidden),
             "mlp.c_proj.bias": (hidden,), **{f"ln_{n}.{kind}": (hidden,) for n in (1, 2) for kind in ("weight", "bias")}}
    return outside, layer, "transformer.h", config["n_layer"]


def parameters_of(case):
    """Shape and spec of each parameter."""
    outside, layer, prefix, count = shapes_of(case["config"])
    found = {name: (shape, spec_of(case, name)) for name, shape in outside.items()}
    for name, shape in layer.items():
        if case["stacked"]:
            full = f"{prefix}.{name}"
            found[full] = ((count, *shape), [None, *spec_of(case, full)])
        else:
            for n in range(count):
                full = f"{prefix}.{n}.{name}"
                found[full] = (shape, spec_of(case, full))
    return found


def spec_of(case, name):
    rules = LLAMA_RULES if case["config"]["model_type"] == "llama" else GPT2_RULES
    for pattern, spec in rules:
        if re.fullmatch(pattern, name):
            return [axis if axis in case["mesh"] else None for axis in spec]
    raise ValueError(f"no rule for {name}")


def attention(jnp, jax, q, k, v, by):
    """Of [batch, seq, heads, head_dim], causal; scores in float32."""
    if by != "scores":
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation=by)
    groups = q.shape[2] // k.shape[2]
    if groups > 1:
        k, v = jnp.repeat(k, groups, axis=2), jnp.repeat(v, groups, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * q.shape[-1] ** -0.5
    seen = jnp.tril(jnp.ones((q.shape[1], q.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1).astype(v.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def llama_layer(jnp, jax, config, hold, by, p, x):
    def norm(weight, x):
        wide = x.astype(jnp.float32)
        wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + config["rms_norm_eps"])
        return weight * wide.astype(x.dtype)

    def rotate(x):
        half = x.shape[-1] // 2
        steps = config["rope_theta"] ** (-jnp.arange(half, dtype=jnp.float32) / half)
        angles = jnp.arange(x.shape[1], dtype=jnp.float32)[:, None] * steps
        cos, sin = (jnp.concatenate([f(angles)] * 2, -1)[None, :, None, :].astype(x.dtype) for f in (jnp.cos, jnp.sin))
        return x * cos + jnp.concatenate([-x[..., half:], x[..., :half]], -1) * sin

    batch, seq, _ = x.shape
    h = norm(p["input_layernorm.weight"], x)
    q, k, v = (jnp.einsum("bsh,oh->bso", h, p[f"self_attn.{n}_proj.weight"]).reshape(batch, seq, -1, config["head_dim"]) for n in "qkv")
    a = attention(jnp, jax, rotate(q), rotate(k), v, by).reshape(batch, seq, -1)
    x = hold(x + jnp.einsum("bso,ho->bsh", a, p["self_attn.o_proj.weight"]))
    h = norm(p["post_attention_layernorm.weight"], x)
    gate, up = (jnp.einsum("bsh,oh->bso", h, p[f"mlp.{n}_proj.weight"]) for n in ("gate", "up"))
    return hold(x + jnp.einsum("bso,ho->bsh", jax.nn.silu(gate) * up, p["mlp.down_proj.weight"]))


def layer_norm(jnp, jax, epsilon, p, name, x):
    wide = x.astype(jnp.float32)
    wide = wide - jnp.mean(wide, axis=-1, keepdims=True)
    wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + epsilon)
    return wide.astype(x.dtype) * p[f"{name}.weight"] + p[f"{name}.bias"]


def gpt2_layer(jnp, jax, config, hold, by, p, x):
    batch, seq, hidden = x.shape
    h = layer_norm(jnp, jax, config["layer_norm_epsilon"], p, "ln_1", x)
    qkv = jnp.einsum("bsh,ho->bso", h, p["attn.c_attn.weight"]) + p["attn.c_attn.bias"]
    q, k, v = (each.reshape(batch, seq, config["n_head"], -1) for each in jnp.split(qkv, 3, axis=-1))
    a = attention(jnp, jax, q, k, v, by).reshape(batch, seq, hidden)
    x = hold(x + jnp.einsum("bso,oh->bsh", a, p["attn.c_proj.weight"]) + p["attn.c_proj.bias"])
    h = layer_norm(jnp, jax, config["layer_norm_epsilon"], p, "ln_2", x)
    h = jax.nn.gelu(jnp.einsum("bsh,ho->bso", h, p["mlp.c_fc.weight"]) + p["mlp.c_fc.bias"], approximate=True)
    return hold(x + jnp.einsum("bso,oh->bsh", h, p["mlp.c_proj.weight"]) + p["mlp.c_proj.bias"])


def residuals_of(layer, parameters, x):
    """As JAX prints them."""
    from jax.ad_checkpoint import print_saved_residuals

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        print_saved_residuals(layer, parameters, x)
    found = collections.Counter()
    for line in printed.getvalue().splitlines():
        dtype, shape, made = re.fullmatch(r"(\w+)\[([\d,]*)\] (.*)", line).groups()
        if "from the argument p[" in made or made == "from a literal":
            continue
        by = re.match(r"output of (?:jitted function '(\w+)'|(\w+))|from the argument x", made)
        found[(by[1] or by[2] or "input", dtype, tuple(map(int, filter(None, shape.split(",")))))] += 1
    return sorted([by, dtype, list(shape), count] for (by, dtype, shape), count in found.items())


def devices_of(case):
    import jax

    if "target" not in case:
        return jax.devices()
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="cuda", topology_name=case["target"], topology=f"1x1x{math.prod(case['mesh'].values())}",
                                        target_config=TARGETS[case["target"]]).devices


def compiled(case):
    import jax
    import jax.numpy as jnp
    import numpy
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    config, sizes = case["config"], case["mesh"]
    devices = devices_of(case)
    mesh = Mesh(numpy.array(devices[: math.prod(sizes.values())]).reshape(*sizes.values()), tuple(sizes))
    batch_axes = tuple(axis for axis in sizes if axis != "tp")
    of = lambda *spec: NamedSharding(mesh, PartitionSpec(*spec))  # noqa: E731
    rows, vocab = batch_axes or None, "tp" if "tp" in sizes else None
    hold = lambda x: jax.lax.with_sharding_constraint(x, of(rows, None, None))  # noqa: E731
    llama = config["model_type"] == "llama"
    _, inside, prefix, count = shapes_of(config)
    layer = functools.partial(llama_layer if llama else gpt2_layer, jnp, jax, config, hold, case.get("attention", "scores"))
    in_layer = case.get("casts") == "layer"
    if in_layer:
        inner = layer
        layer = lambda p, x: inner({name: each.astype(case["compute"]) for name, each in p.items()}, x)  # noqa: E731
    if case["remat"] != "none":
        layer = jax.checkpoint(layer, policy=getattr(jax.checkpoint_policies, case["remat"]), prevent_cse=not case["stacked"])

    whole = jax.ShapeDtypeStruct((case["batch"], case["seq"], config["hidden_size"] if llama else config["n_embd"]), case["compute"])
    residuals = [] if case.get("target") else residuals_of(layer, {name: jax.ShapeDtypeStruct(shape, case["compute"]) for name, shape in inside.items()}, whole)

    def logits_of(p, ids):
        p = {name: each if in_layer and name.startswith(prefix) else each.astype(case["compute"]) for name, each in p.items()}
        table = jax.lax.with_sharding_constraint(p["model.embed_tokens.weight" if llama else "transformer.wte.weight"], of(vocab, None))
        x = hold(table[ids] if llama else table[ids] + p["transformer.wpe.weight"][: ids.shape[1]])
        if case["stacked"]:
            stacks = {name: p[f"{prefix}.{name}"] for name in inside}
            x, _ = jax.lax.scan(lambda x, one: (layer(one, x), None), x, stacks)
        else:
            for n in range(count):
                x = layer({name: p[f"{prefix}.{n}.{name}"] for name in inside}, x)
        if llama:
            wide = x.astype(jnp.float32)
            wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + config["rms_norm_eps"])
            return jnp.einsum("bsh,vh->bsv", p["model.norm.weight"] * wide.astype(x.dtype), p["lm_head.weight"])
        x = layer_norm(jnp, jax, config["layer_norm_epsilon"], p, "transformer.ln_f", x)
        return jnp.einsum("bsh,vh->bsv", x, p["transformer.wte.weight"])

    def loss_of(p, ids, labels):
        logits = logits_of(p, ids).astype(jnp.float32)
        right = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - right)

    def step(p, m, v, count, ids, labels):
        loss, gradients = jax.value_and_grad(loss_of)(p, ids, labels)
        count = count + 1
        new_p, new_m, new_v = {}, {}, {}
        for name, g in gradients.items():
            g = g.astype(jnp.float32)
            new_m[name] = (0.9 * m[name] + 0.1 * g).astype(m[name].dtype)
            new_v[name] = (0.95 * v[name] + 0.05 * g * g).astype(v[name].dtype)
            change = (new_m[name] / (1 - 0.9**count)) / (jnp.sqrt(new_v[name] / (1 - 0.95**count)) + 1e-8)
            new_p[name] = (p[name] - 1e-3 * (change + 0.1 * p[name])).astype(p[name].dtype)
        return new_p, new_m, new_v, count, loss

    specs = parameters_of(case)
    shaped = lambda dtype: {name: jax.ShapeDtypeStruct(shape, dtype, sharding=of(*spec))  # noqa: E731
                            for name, (shape, spec) in specs.items()}
    ids = jax.ShapeDtypeStruct((case["batch"], case["seq"]), jnp.int32, sharding=of(rows, None))
    number = jax.ShapeDtypeStruct((), jnp.float32, sharding=of())
    shardings = {name: of(*spec) for name, (_, spec) in specs.items()}
    jitted = jax.jit(step, donate_argnums=(0, 1, 2, 3) if case["donated"] else (),
                     out_shardings=(shardings, shardings, shardings, of(), of()))
    return jitted.lower(shaped(case["dtype"]), shaped(case["state"]), shaped(case["state"]), number, ids, ids).compile(), batch_axes, residuals


def record_here(case):
    """In a process of its own, since XLA reads its flags once."""
    folder = os.environ["DUMPED"]
    step, batch_axes, residuals = compiled(case)
    found = step.memory_analysis()
    import jax

    rules = LLAMA_RULES if case["config"]["model_type"] == "llama" else GPT2_RULES
    order = ("name", "config", "stacked", "mesh")
    return {**{key: case[key] for key in order},
            "rules": [[pattern, [axis if axis in case["mesh"] else None for axis in spec]] for pattern, spec in rules],
            "batch_axes": list(batch_axes), **{key: each for key, each in case.items() if key not in order},
            "bytes": {"arguments": found.argument_size_in_bytes, "outputs": found.output_size_in_bytes, "aliases": found.alias_size_in_bytes,
                      "temporaries": found.temp_size_in_bytes, "code": found.generated_code_size_in_bytes,
                      "peak": getattr(found, "peak_memory_in_bytes", None)},
            "largest": largest_in(folder), **live_in(folder), "residuals": residuals, "versions": {"jax": jax.__version__, "jaxlib": jax.lib.__version__}}


def largest_in(folder):
    [path] = glob.glob(f"{folder}/*jit_step*buffer-assignment.txt")
    block = re.search(r"^allocation \d+: size (\d+), preallocated-temp:\n((?: value: .*\n)*)", pathlib.Path(path).read_text(), re.M)
    if block is None:
        return []
    values = [(int(size), int(begin), shape) for size, begin, shape in
              re.findall(r"\(size=(\d+),offset=(\d+)\): (\w+\[[\d,]*\])", block[2])]
    taken, found = [], collections.Counter()
    for size, begin, shape in sorted(values, key=lambda each: (-each[0], -each[2].count(","), each[2], each[1])):
        if size * LEAST >= int(block[1]) and all(begin + size <= other or end <= begin for other, end in taken):
            taken.append((begin, begin + size))
            found[(shape, size)] += 1
    return [[shape, size, count] for (shape, size), count in found.items()]


def live_in(folder):
    [path] = glob.glob(f"{folder}/*jit_step*live-range.txt")
    section = re.search(r"Live ranges at \d+ \(peak\):\n((?: +\S+\{[\d,]*\}: \d+ bytes.*\n)+)", pathlib.Path(path).read_text())
    [program] = glob.glob(f"{folder}/*jit_step*_after_optimizations.txt")
    shapes, arguments, entry = {}, set(), False
    for line in pathlib.Path(program).read_text().splitlines():
        entry = line.startswith("ENTRY") or (entry and line != "}")
        made = re.match(r" +(?:ROOT )?%?(\S+) = (\w+\[[\d,]*\])?", line)
        if made:
            shapes[made[1]] = made[2] or "several"
            if entry and re.search(r" parameter\(\d+\)", line):
                arguments.add(made[1])
    found = collections.Counter()
    for name, size in re.findall(r"(\S+)\{[\d,]*\}: (\d+) bytes", section[1]):
        if name not in arguments:
            found[(shapes[name], int(size))] += 1
    total = sum(size * count for (_, size), count in found.items())
    at_peak = [[shape, size, count] for (shape, size), count in sorted(found.items(), key=lambda each: (-each[0][1], each[0]))
               if size * LEAST >= total]
    rest = total - sum(size * count for _, size, count in at_peak)
    return {"live": total, "at_peak": [*at_peak, ["others", rest, 1]] if rest else at_peak}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--only", default="", help="a part of names")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        case = next(each for each in cases() if each["name"] == options.one)
        options.file.write_text(json.dumps(record_here(case)) + "\n")
        return 0
    old = {}
    if options.file.exists():
        old = {case["name"]: case for case in map(json.loads, options.file.read_text().splitlines())}
    new, failed = {}, 0
    for case in cases():
        name = case["name"]
        if options.only not in name:
            if name in old:
                new[name] = old[name]
            continue
        with tempfile.TemporaryDirectory() as folder:
            flags = (f"--xla_gpu_autotune_level=0 --xla_force_host_platform_device_count={DEVICES} {case['flags']} --xla_dump_to={folder}/dump --xla_dump_hlo_as_text")
            part = pathlib.Path(folder) / "part.jsonl"
            ran = subprocess.run([sys.executable, __file__, str(part), "--one", name],
                                 env={**os.environ, "XLA_FLAGS": flags, "DUMPED": f"{folder}/dump", "JAX_PLATFORMS": "cpu",
                                      "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1"})
            if ran.returncode:
                failed += 1
                continue
            new[name] = json.loads(part.read_text())
        print(f"{name}: {new[name]['bytes']}", flush=True)
    options.file.write_text("".join(json.dumps(case) + "\n" for case in new.values()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
