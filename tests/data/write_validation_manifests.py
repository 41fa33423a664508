# SPDX-License-Identifier: Apache-2.0
"""Writes the native manifests of tests/data/validation.

    python3 tests/data/write_validation_manifests.py

Each is an architecture that a published number is about, from its shapes:
- deepseek2-16b: MaxText's scanned parameters, as its own listing of logical
  shardings has them (AI-Hypercomputer/maxtext, commit 807d011,
  tests/utils/sharding_info/deepseek2-16b/v5p-16/slice_4);
- megatron-gpt-7b: the GPT model of the example output of Megatron-LM's pull
  request 482, and the final norm that its listing leaves out;
- gpt2-124m-padded: GPT-2 with the vocabulary that llm.c pads to 50,304;
- zero-7.5b: 7.5 billion parameters, as the table of the ZeRO paper has them.
"""
import json
import pathlib

OUT = pathlib.Path(__file__).parent / "validation"


def write(name, dtype, shapes):
    rows = ",\n".join(
        f'    {json.dumps(key)}: {{"shape": {json.dumps(shape)}, '
        f'"dtype": "{dtype}"}}' for key, shape in shapes.items())
    (OUT / f"{name}.json").write_text(
        f'{{\n  "name": "{name}",\n  "parameters": {{\n{rows}\n  }}\n}}\n')


def deepseek2_16b():
    shapes = {"params/decoder/decoder_norm/scale": [2048]}
    for group, layers in (("dense_layers", 1), ("moe_layers", 26)):
        base = f"params/decoder/{group}/"
        if layers == 1:
            for name in ("wi_0", "wi_1"):
                shapes[f"{base}mlp/{name}/kernel"] = [2048, 1, 10944]
            shapes[f"{base}mlp/wo/kernel"] = [10944, 1, 2048]
        else:
            block = f"{base}DeepSeekMoeBlock_0/"
            shapes[f"{block}MoeBlock_0/gate/kernel"] = [2048, layers, 64]
            for name in ("wi_0", "wi_1"):
                shapes[f"{block}MoeBlock_0/{name}"] = [64, layers, 2048, 1408]
            shapes[f"{block}MoeBlock_0/wo"] = [64, layers, 1408, 2048]
            for name in ("wi_0", "wi_1"):
                shapes[f"{block}shared_experts/{name}/kernel"] = [2048, layers,
                                                                  2816]
            shapes[f"{block}shared_experts/wo/kernel"] = [2816, layers, 2048]
        for norm in ("post", "pre"):
            shapes[f"{base}{norm}_self_attention_layer_norm/scale"] = [2048,
                                                                       layers]
        attention = f"{base}self_attention/"
        shapes[f"{attention}kv_norm/scale"] = [512, layers]
        shapes[f"{attention}out/kernel"] = [16, layers, 128, 2048]
        shapes[f"{attention}query/kernel"] = [2048, layers, 16, 192]
        shapes[f"{attention}wkv_a/kernel"] = [2048, layers, 576]
        shapes[f"{attention}wkv_b/kernel"] = [512, layers, 16, 256]
    shapes["params/decoder/logits_dense/kernel"] = [2048, 102400]
    shapes["params/token_embedder/embedding"] = [102400, 2048]
    return shapes


def megatron_gpt_7b():
    hidden, inner, layers = 4096, 10880, 32
    model = "language_model."
    shapes = {
        f"{model}embedding.word_embeddings.weight": [50432, hidden],
        f"{model}embedding.position_embeddings.weight": [2048, hidden],
    }
    for i in range(layers):
        base = f"{model}encoder.layers.{i}."
        for name, shape in (("self_attention.query_key_value",
                             [3 * hidden, hidden]),
                            ("self_attention.dense", [hidden, hidden]),
                            ("mlp.dense_h_to_4h", [2 * inner, hidden]),
                            ("mlp.dense_4h_to_h", [hidden, inner])):
            shapes[f"{base}{name}.weight"] = shape
            shapes[f"{base}{name}.bias"] = shape[:1]
        for name in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"{base}{name}.weight"] = [hidden]
            shapes[f"{base}{name}.bias"] = [hidden]
    for part in ("weight", "bias"):
        shapes[f"{model}encoder.final_layernorm.{part}"] = [hidden]
    return shapes


def gpt2_124m_padded():
    width, layers = 768, 12
    shapes = {"wte.weight": [50304, width], "wpe.weight": [1024, width]}
    for i in range(layers):
        base = f"h.{i}."
        for name, shape in (("ln_1", [width]), ("ln_2", [width]),
                            ("attn.c_attn", [width, 3 * width]),
                            ("attn.c_proj", [width, width]),
                            ("mlp.c_fc", [width, 4 * width]),
                            ("mlp.c_proj", [4 * width, width])):
            shapes[f"{base}{name}.weight"] = shape
            shapes[f"{base}{name}.bias"] = shape[-1:]
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = [width]
    return shapes


def main():
    OUT.mkdir(exist_ok=True)
    write("deepseek2-16b", "f32", deepseek2_16b())
    write("megatron-gpt-7b", "bf16", megatron_gpt_7b())
    write("gpt2-124m-padded", "bf16", gpt2_124m_padded())
    write("zero-7.5b", "bf16", {f"layers.{i}.weight": [10000, 7500]
                                for i in range(100)})


if __name__ == "__main__":
    main()
