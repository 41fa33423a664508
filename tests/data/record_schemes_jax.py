#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what EasyDeL and MaxText make of the same config.json.

    pip install easydel pillow torch                  # 0.3.0, Python 3.11 or newer
    python tests/data/record_schemes_jax.py easydel part.jsonl
    pip install easydel==0.0.80                       # Python 3.10, packages of December 2024
    python tests/data/record_schemes_jax.py easydel-linen part3.jsonl
    pip install maxtext (and what it imports)         # 0.2.5, Python 3.12 or newer
    python tests/data/record_schemes_jax.py maxtext part2.jsonl
    python tests/data/record_schemes_jax.py merge SHARDPLAN part*.jsonl

merge writes tests/data/schemes_jax.jsonl. What SHARDPLAN refuses is kept as `refused`;
where it has other tensors nothing is written, and the case is printed.

The configs are those of record_architectures.py and architecture_cases.py as the
transformers beside the program saves them, and one of each type in architectures.jsonl
that transformers 4 wrote. Models are built abstractly, on the CPU:
names and shapes, no values. Names are as partition rules see them, joined with
slashes. A line is a case: the config, and the tensors with numbers in names
replaced by `*`, their shapes, how many there are, and null (both programs
leave the dtype to whoever runs them).
"""
import argparse
import collections
import json
import logging
import os
import pathlib
import re
import sys
import warnings

HERE = pathlib.Path(__file__).parent
BASE = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=64)
EXTRA = {
    "gpt2": [dict(vocab_size=96, n_embd=32, n_layer=3, n_head=4, n_positions=16),
             dict(vocab_size=96, n_embd=48, n_layer=2, n_head=3, n_positions=24, n_inner=80, tie_word_embeddings=False)],
    "gpt_oss": [dict(BASE, num_key_value_heads=2, head_dim=8, num_local_experts=5, num_experts_per_tok=2, layer_types=["full_attention"] * 3),
                dict(BASE, num_key_value_heads=2, head_dim=10, num_local_experts=3, num_experts_per_tok=2, num_hidden_layers=2,
                     tie_word_embeddings=True, layer_types=["full_attention", "sliding_attention"])],
    "deepseek_v3": [dict(BASE, num_key_value_heads=4, moe_intermediate_size=20, n_routed_experts=8, n_shared_experts=1, kv_lora_rank=12,
                         q_lora_rank=None, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=10, n_group=2, topk_group=1,
                         first_k_dense_replace=1, num_experts_per_tok=2),
                    dict(BASE, num_key_value_heads=4, moe_intermediate_size=20, n_routed_experts=8, n_shared_experts=2, kv_lora_rank=12,
                         q_lora_rank=14, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=10, n_group=2, topk_group=1,
                         first_k_dense_replace=2, num_experts_per_tok=2),
                    dict(BASE, num_key_value_heads=4, moe_intermediate_size=20, n_routed_experts=8, n_shared_experts=2, kv_lora_rank=12,
                         q_lora_rank=14, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=10, n_group=2, topk_group=1, num_hidden_layers=5,
                         first_k_dense_replace=2, num_experts_per_tok=2, attention_bias=True)],
    # More layers than a few, for programs that stack them in cycles.
    "gemma2": [dict(BASE, num_key_value_heads=2, head_dim=10, num_hidden_layers=4), dict(BASE, num_key_value_heads=1, head_dim=8, num_hidden_layers=6),
               dict(BASE, num_key_value_heads=2, head_dim=10, num_hidden_layers=4, tie_word_embeddings=False)],
    "gemma3_text": [dict(BASE, num_key_value_heads=2, head_dim=10, num_hidden_layers=layers) for layers in (6, 8, 12, 19)],
    "qwen3_next": [dict(BASE, num_key_value_heads=2, head_dim=10, num_hidden_layers=8, num_experts=5, num_experts_per_tok=2, moe_intermediate_size=20,
                        shared_expert_intermediate_size=20, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6,
                        linear_value_head_dim=5, linear_conv_kernel_dim=3),
                   dict(BASE, num_key_value_heads=2, head_dim=8, num_hidden_layers=4, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=24,
                        shared_expert_intermediate_size=24, linear_num_key_heads=4, linear_num_value_heads=4, linear_key_head_dim=8,
                        linear_value_head_dim=8)],
    "llama4_text": [dict(BASE, num_key_value_heads=2, head_dim=10, intermediate_size_mlp=56, num_local_experts=3, num_hidden_layers=8),
                    dict(BASE, num_key_value_heads=2, head_dim=10, intermediate_size_mlp=56, num_local_experts=3, num_hidden_layers=8,
                         interleave_moe_layer_step=2),
                    dict(BASE, num_key_value_heads=2, head_dim=8, intermediate_size_mlp=48, num_local_experts=5, num_hidden_layers=4)],
    "olmo3": [dict(BASE, num_hidden_layers=8), dict(BASE, num_hidden_layers=4, num_key_value_heads=2)],
    "deepseek_v2": [dict(BASE, num_key_value_heads=4, moe_intermediate_size=20, n_routed_experts=4, n_shared_experts=2, kv_lora_rank=8, q_lora_rank=None,
                         qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=10, first_k_dense_replace=2, num_hidden_layers=5, num_experts_per_tok=2)],
}
EXTRA["deepseek_v3"].append(dict(EXTRA["deepseek_v3"][1], num_nextn_predict_layers=1))
EXTRA["glm4_moe"] = [dict(BASE, num_key_value_heads=2, head_dim=8, moe_intermediate_size=20, n_routed_experts=4, num_experts_per_tok=2,
                          first_k_dense_replace=1, num_nextn_predict_layers=2)]
EXTRA["qwen2"] = [dict(BASE, num_key_value_heads=1, num_hidden_layers=5)]
EXTRA["qwen3"] = [dict(BASE, num_key_value_heads=2, head_dim=10, num_hidden_layers=2)]
EXTRA["qwen3_moe"] = [dict(BASE, num_key_value_heads=2, head_dim=10, moe_intermediate_size=20, num_experts=5, num_experts_per_tok=2, num_hidden_layers=4)]
EXTRA["mixtral"] = [dict(BASE, num_key_value_heads=1, head_dim=8, num_local_experts=5, num_hidden_layers=2)]
EXTRA["qwen3_5_moe_text"] = [{**{key: value for key, value in given.items() if key != "intermediate_size"}, "head_dim": 256}
                             for given in EXTRA["qwen3_next"]]
GEMMA4 = dict(BASE, num_key_value_heads=2, head_dim=8, global_head_dim=10, num_kv_shared_layers=0, hidden_size_per_layer_input=0, attention_k_eq_v=True)
EXTRA["gemma4_text"] = [
    dict(GEMMA4, num_hidden_layers=layers, layer_types=["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(layers)], **more)
    for layers, more in ((6, {}), (12, dict(num_global_key_value_heads=1)), (6, dict(attention_k_eq_v=False)),
                         (6, dict(num_global_key_value_heads=1, enable_moe_block=True, num_experts=3, top_k_experts=2, moe_intermediate_size=20)),
                         (12, dict(enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=20, tie_word_embeddings=False)))]
# Configs as they lie beside released checkpoints, whose names transformers does not write.
V4 = dict(model_type="deepseek_v4", architectures=["DeepseekV4ForCausalLM"], torch_dtype="bfloat16", transformers_version="4.57.1", vocab_size=96, hidden_size=32,
          num_attention_heads=4, head_dim=8, qk_rope_head_dim=4, q_lora_rank=12, o_groups=2, o_lora_rank=6, moe_intermediate_size=20, n_routed_experts=3,
          num_experts_per_tok=2, hc_mult=3, index_n_heads=2, index_head_dim=10, index_topk=4, sliding_window=8, tie_word_embeddings=False)
RELEASED = [("released 3 + 4", dict(V4, num_hidden_layers=7, num_hash_layers=3, num_nextn_predict_layers=0, compress_ratios=[0, 0, 4, 128, 4, 128, 4])),
            ("released 2 + 2", dict(V4, num_hidden_layers=4, num_hash_layers=2, hc_mult=2, n_routed_experts=5, num_nextn_predict_layers=1,
                                    compress_ratios=[128, 0, 128, 4, 0]))]
VISION = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=14)
EXTRA["gemma3"] = [dict(text_config=given, vision_config=VISION, mm_tokens_per_image=4) for given in EXTRA["gemma3_text"]]
EXTRA["gemma4"] = [dict(text_config=given, vision_config=dict(VISION, head_dim=12, global_head_dim=12, num_key_value_heads=2)) for given in EXTRA["gemma4_text"]]
LLAMA = dict(BASE, num_key_value_heads=2)
EXTRA["llava"] = [dict(text_config=dict(LLAMA, model_type="llama"), vision_config=dict(VISION, model_type="clip_vision_model", projection_dim=16)),
                  dict(text_config=dict(LLAMA, model_type="mistral", head_dim=10), vision_config=dict(VISION, model_type="clip_vision_model", projection_dim=16),
                       multimodal_projector_bias=False)]
EXTRA["mistral3"] = [dict(text_config=dict(LLAMA, model_type="mistral", head_dim=10), vision_config=dict(VISION, model_type="pixtral", head_dim=12), **more)
                     for more in ({}, dict(spatial_merge_size=3, multimodal_projector_bias=True))]
TOWER = dict(hidden_size=24, intermediate_size=40, depth=2, num_heads=2, out_hidden_size=32, patch_size=14, deepstack_visual_indexes=[0])
EXTRA["qwen3_vl"] = [dict(text_config=dict(LLAMA, head_dim=10), vision_config=TOWER),
                     dict(text_config=dict(LLAMA, head_dim=8, num_hidden_layers=2), vision_config=dict(TOWER, depth=3, num_position_embeddings=16))]
EXTRA["llama4"] = [dict(text_config=given, vision_config=VISION) for given in EXTRA["llama4_text"]]
EXTRA["gpt_oss"].append(dict(EXTRA["gpt_oss"][0], num_hidden_layers=4, layer_types=["sliding_attention", "full_attention"] * 2))
EXTRA_CLASSES = {"gpt2": "GPT2LMHeadModel", "gpt_oss": "GptOssForCausalLM", "deepseek_v3": "DeepseekV3ForCausalLM",
                 "gemma4": "Gemma4ForConditionalGeneration", "llava": "LlavaForConditionalGeneration", "mistral3": "Mistral3ForConditionalGeneration",
                 "qwen3_vl": "Qwen3VLForConditionalGeneration", "gemma3": "Gemma3ForConditionalGeneration", "gemma4_text": "Gemma4ForCausalLM", "llama4": "Llama4ForConditionalGeneration"}
NOISE = re.compile(
    r"dropout|pdrop|_token_id$|^(bos|eos|pad|sep)_|initializer|^use_cache$|^rope_|"
    r"^(architectures_|pretraining_tp|output_(?!embedding)|return_|_name_or_path|router_|"
    r"is_encoder_decoder|temperature|top_[kp]|num_beams|label2id|_attn)|_eps$|epsilon")


def saved(model_type, class_name, given):
    """config.json as transformers writes it, without what says nothing of tensors."""
    import transformers
    from record_schemes import as_published
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[model_type](**{"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, **json.loads(json.dumps(given))})
    config.architectures = [class_name]
    written = json.loads(config.to_json_string(use_diff=True))
    as_published(written)
    written["transformers_version"] = transformers.__version__
    return {key: value for key, value in written.items() if not NOISE.search(key) and "Infinity" not in json.dumps(value)}


def causal(class_name):
    return class_name.endswith(("ForCausalLM", "LMHeadModel"))


# Classes of sequence classification: of each type one plain config and one that is tied.
CLASSIFIERS = {
    "llama": "Llama", "mistral": "Mistral", "mixtral": "Mixtral", "qwen2": "Qwen2", "qwen3": "Qwen3", "qwen2_moe": "Qwen2Moe", "qwen3_moe": "Qwen3Moe",
    "gemma": "Gemma", "gemma2": "Gemma2", "gemma3_text": "Gemma3Text", "glm": "Glm", "glm4": "Glm4", "gpt_oss": "GptOss", "smollm3": "SmolLM3",
    "seed_oss": "SeedOss", "exaone4": "Exaone4"}


def cases():
    """(model type, class, case, config, made by this transformers)."""
    import architecture_cases
    import record_architectures
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    rows = [json.loads(line) for line in open(HERE / "architectures.jsonl")]
    rows = [row for row in rows if causal((row["config"].get("architectures") or [""])[0]) and not row.get("refused")]
    names = {**EXTRA_CLASSES, **{row["config"]["model_type"]: row["config"]["architectures"][0] for row in rows}}
    todo = []
    for model_type, (base, changes) in record_architectures.CASES.items():
        for change in changes:
            title = ",".join(f"{k}={v}" for k, v in change.items()) or "plain"
            todo.append((model_type, title, names.get(model_type), {**base, **change}))
        for number, given in enumerate(record_architectures.REAL.get(model_type, [])):
            todo.append((model_type, f"real {number}", names.get(model_type), given))
    for model_type, listed in architecture_cases.CASES.items():
        todo += [(model_type, case, name, given) for case, name, given in listed if causal(name)]
    for model_type, listed in EXTRA.items():
        todo += [(model_type, f"extra {number}", names.get(model_type), given) for number, given in enumerate(listed)]
    for model_type, case, class_name, given in todo:
        if model_type in CONFIG_MAPPING and class_name:
            yield model_type, class_name, case, lambda m=model_type, c=class_name, g=given: saved(m, c, g)
    for case, config in RELEASED:
        yield config["model_type"], config["architectures"][0], case, lambda c=config: c
    for model_type, stem in CLASSIFIERS.items():
        base, changes = record_architectures.CASES.get(model_type) or (EXTRA[model_type][0], [{}])
        for case, more in ("classifier", {}), ("classifier, tied", dict(tie_word_embeddings=True)):
            given = {**base, **changes[0], **more, "num_labels": 5}
            name = stem + "ForSequenceClassification"
            yield model_type, name, case, lambda m=model_type, c=name, g=given: saved(m, c, g)
    # One of each type as transformers 4 wrote it.
    seen = set()
    for row in rows:
        config = row["config"]
        model_type = config["model_type"]
        if model_type in seen or not config["transformers_version"].startswith("4"):
            continue
        seen.add(model_type)
        yield model_type, config["architectures"][0], row["case"] + ", transformers 4", lambda c=config: c


def folded(tensors):
    count = collections.Counter((re.sub(r"\d+", "*", name), tuple(shape)) for name, shape in tensors)
    return [[name, list(shape), n, None] for (name, shape), n in sorted(count.items())]


# EasyDeL 0.3.0 builds GPT-2 with biases and OPT with an MLP of other sizes than the config says; DBRX it does not build.
# Gemma 4 shares keys and values between layers only when it computes.
LEFT_OUT = {"gpt2", "opt", "dbrx", "gemma4_text"}


class EasyDel:
    def __init__(self):
        import easydel
        import jax.numpy as jnp
        from flax import nnx

        easydel.LlamaConfig  # fills the registry
        from easydel.infra.factory import TaskType, registry

        self.registry = registry
        self.tasks = {"ForCausalLM": TaskType.CAUSAL_LM, "LMHeadModel": TaskType.CAUSAL_LM,
                      "ForConditionalGeneration": TaskType.IMAGE_TEXT_TO_TEXT, "ForSequenceClassification": TaskType.SEQUENCE_CLASSIFICATION}
        self.jnp, self.nnx = jnp, nnx
        self.by = "easydel " + easydel.__version__

    def task(self, class_name):
        return next((task for end, task in self.tasks.items() if class_name.endswith(end)), None)

    def has(self, model_type, class_name):
        return model_type not in LEFT_OUT and model_type in self.registry._task_registry.get(self.task(class_name), ())

    def tensors(self, model_type, config):
        from eformer.pytree import named_tree_map

        found = self.registry.get_module_registration(self.task(config["architectures"][0]), model_type)
        skip = ("architectures", "transformers_version", "model_type", "dtype", "torch_dtype", "quantization_config")
        made = found.config(**{k: v for k, v in json.loads(json.dumps(config)).items() if k not in skip})
        f32 = self.jnp.float32
        model = found.module.lazy_init(config=made, dtype=f32, param_dtype=f32, precision=None, rngs=self.nnx.Rngs(0))
        tensors = []
        named_tree_map(lambda name, leaf: tensors.append((name, tuple(leaf.shape))), model.graphtree_params_shape, sep="/")
        return tensors


class EasyDelLinen:
    """EasyDeL's last release with modules of Flax Linen."""

    def __init__(self):
        import easydel
        import jax
        import jax.numpy as jnp
        from easydel.modules.factory import TaskType, registry

        self.registry, self.task = registry, TaskType.CAUSAL_LM
        self.types = set(registry._task_registry[self.task])
        self.jax, self.jnp = jax, jnp
        self.by = "easydel " + easydel.__version__

    def has(self, model_type, class_name):
        return model_type in self.types and causal(class_name)

    def tensors(self, model_type, config):
        from flax.traverse_util import flatten_dict

        found = self.registry.get_module_registration(self.task, model_type)
        skip = ("architectures", "transformers_version", "model_type", "dtype", "torch_dtype", "quantization_config",
                "cache_implementation")
        given = {k: v for k, v in json.loads(json.dumps(config)).items() if k not in skip}
        if "num_experts" in given:  # it is run once, and no more can be picked
            given["num_experts_per_tok"] = min(2, given["num_experts"])
        made = found.config(**given)
        f32 = self.jnp.float32
        model = found.module(made, dtype=f32, param_dtype=f32, _do_init=False)
        tree = self.jax.eval_shape(lambda: model.init_weights(self.jax.random.PRNGKey(0), (1, 4)))
        return [(name, tuple(leaf.shape)) for name, leaf in flatten_dict(tree, sep="/").items()]


class Unfit(Exception):
    """A config of which MaxText knows nothing."""


def unless(condition, what):
    if not condition:
        raise Unfit(what)


def maxtext_dense(c, model):
    unless(not c.get("mlp_bias") and (model in ("qwen2.5-7b", "gpt-oss-20b") or not c.get("attention_bias")), "biases")
    heads = c["num_attention_heads"]
    return dict(
        model_name=model, base_emb_dim=c["hidden_size"], base_mlp_dim=c.get("intermediate_size", 48), vocab_size=c["vocab_size"],
        base_num_query_heads=heads, base_num_kv_heads=c.get("num_key_value_heads") or heads,
        head_dim=c.get("head_dim") or c["hidden_size"] // heads, base_num_decoder_layers=c["num_hidden_layers"],
        logits_via_embedding=bool(c.get("tie_word_embeddings", model.startswith("gemma"))))


def maxtext_experts(c, model, experts, mlp="intermediate_size"):
    unless(not c.get("mlp_only_layers") and c.get("decoder_sparse_step", 1) == 1, "layers without experts")
    return dict(maxtext_dense(c, model), base_moe_mlp_dim=c[mlp], num_experts=experts,
                num_experts_per_tok=1 if model.startswith("llama4") else min(2, experts))


def maxtext_deepseek(c, model):
    dense = c["first_k_dense_replace"]
    return dict(
        maxtext_experts(c, model, c["n_routed_experts"], "moe_intermediate_size"), first_num_dense_layers=dense,
        shared_experts=c["n_shared_experts"], q_lora_rank=c["q_lora_rank"] or 0, kv_lora_rank=c["kv_lora_rank"], head_dim=c["qk_nope_head_dim"],
        qk_nope_head_dim=c["qk_nope_head_dim"], qk_rope_head_dim=c["qk_rope_head_dim"], v_head_dim=c["v_head_dim"],
        base_mlp_dim=c["intermediate_size" if dense else "moe_intermediate_size"], base_num_kv_heads=c["num_attention_heads"])


def maxtext_deepseek32(c):
    kinds = ["dense" if i < c["first_k_dense_replace"] else "sparse" for i in range(c["num_hidden_layers"])]
    unless(c.get("mlp_layer_types") in (None, kinds), "experts in other layers")
    return dict(maxtext_deepseek(c, "deepseek3.2-671b"), indexer_n_heads=c["index_n_heads"], indexer_head_dim=c["index_head_dim"], attention="dot_product")


def maxtext_gemma2(c):
    unless(c["num_hidden_layers"] % 2 == 0, "an odd number of layers")
    return dict(maxtext_dense(c, "gemma2-2b"), base_num_decoder_layers=c["num_hidden_layers"] // 2)


def maxtext_gemma4(c):
    unless(not c.get("hidden_size_per_layer_input") and not c.get("num_kv_shared_layers"), "models that it has without scanned layers alone")
    kinds = ["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(c["num_hidden_layers"])]
    unless(c.get("layer_types") == kinds, "another order of layers")
    shared = bool(c.get("attention_k_eq_v"))
    said = dict(global_head_dim=c["global_head_dim"], share_kv_projections=shared,
                global_num_kv_heads=(shared and c.get("num_global_key_value_heads")) or c["num_key_value_heads"])
    if not c.get("enable_moe_block"):
        return dict(maxtext_dense(c, "gemma4-31b"), **said)
    return dict(maxtext_experts(c, "gemma4-26b", c["num_experts"], "moe_intermediate_size"), **said)


def maxtext_deepseek4(c):
    hashed, layers = c["num_hash_layers"], c["num_hidden_layers"]
    unless(layers > hashed and (layers - hashed) % 2 == 0, "an odd layer")
    ratios = c["compress_ratios"][:layers]
    unless(ratios[hashed:] == [128, 4] * ((layers - hashed) // 2), "another order of layers")
    return dict(
        maxtext_experts(dict(c, num_key_value_heads=1, intermediate_size=c["moe_intermediate_size"]), "deepseek4-284b", c["n_routed_experts"],
                        "moe_intermediate_size"),
        attention="dot_product", compress_ratios=json.dumps(ratios).replace(" ", ""), first_num_hash_layers=hashed,
        num_experts_per_tok=c["num_experts_per_tok"], mhc_expansion_rate=c["hc_mult"], indexer_head_dim=c["index_head_dim"],
        indexer_n_heads=c["index_n_heads"], q_lora_rank=c["q_lora_rank"], o_groups=c["o_groups"], o_lora_rank=c["o_lora_rank"],
        qk_rope_head_dim=c["qk_rope_head_dim"])


def maxtext_llama4(c):
    step = c["interleave_moe_layer_step"]
    unless(c.get("moe_layers") in (None, list(range(step - 1, c["num_hidden_layers"], step))), "experts in other layers")
    model = "llama4-17b-16e" if step == 1 else "llama4-17b-128e"
    return dict(
        maxtext_experts(c, model, c["num_local_experts"]), base_mlp_dim=c["intermediate_size_mlp"] if step > 1 else c["intermediate_size"],
        interleave_moe_layer_step=step)


def maxtext_qwen3_next(c, model="qwen3-next-80b-a3b"):
    interval = c.get("full_attention_interval") or 4
    kinds = ["full_attention" if (i + 1) % interval == 0 else "linear_attention" for i in range(c["num_hidden_layers"])]
    unless(c.get("layer_types") in (None, kinds), "another order of layers")
    unless(c["shared_expert_intermediate_size"] == c["moe_intermediate_size"], "a shared expert of another size")
    return dict(
        maxtext_experts(c, model, c["num_experts"], "moe_intermediate_size"), gdn_conv_kernel_dim=c["linear_conv_kernel_dim"],
        gdn_key_head_dim=c["linear_key_head_dim"], gdn_value_head_dim=c["linear_value_head_dim"],
        gdn_num_key_heads=c["linear_num_key_heads"], gdn_num_value_heads=c["linear_num_value_heads"],
        inhomogeneous_layer_cycle_interval=interval)


MAXTEXT = {
    "llama": lambda c: maxtext_dense(c, "llama2-7b"),
    "mistral": lambda c: maxtext_dense(c, "mistral-7b"),
    "mixtral": lambda c: maxtext_experts(c, "mixtral-8x7b", c["num_local_experts"]),
    "gemma": lambda c: maxtext_dense(c, "gemma-2b"),
    "gemma2": maxtext_gemma2,
    "gemma3_text": lambda c: maxtext_dense(c, "gemma3-4b"),
    "deepseek_v4": maxtext_deepseek4,
    "gemma4_text": maxtext_gemma4,
    "qwen2": lambda c: maxtext_dense(c, "qwen2.5-7b"),
    "qwen3": lambda c: maxtext_dense(c, "qwen3-8b"),
    "qwen3_moe": lambda c: maxtext_experts(c, "qwen3-30b-a3b", c.get("num_experts") or c["num_local_experts"], "moe_intermediate_size"),
    "qwen3_next": maxtext_qwen3_next,
    "qwen3_5_moe_text": lambda c: maxtext_qwen3_next(c, "qwen3.5-35b-a3b"),
    "deepseek_v2": lambda c: maxtext_deepseek(c, "deepseek2-16b"),
    "deepseek_v3": lambda c: maxtext_deepseek(c, "deepseek3-671b"),
    "deepseek_v32": maxtext_deepseek32,
    "gpt_oss": lambda c: dict(maxtext_experts(c, "gpt-oss-20b", c["num_local_experts"]), inhomogeneous_layer_cycle_interval=2),
    "llama4_text": maxtext_llama4,
    "olmo3": lambda c: maxtext_dense(c, "olmo3-7b"),
    # The text part alone: `use_multimodal` is off by default.
    "gemma3": lambda c: maxtext_dense(c["text_config"], "gemma3-4b"),
    "gemma4": lambda c: maxtext_gemma4(c["text_config"]),
    "llama4": lambda c: maxtext_llama4(c["text_config"]),
}


class MaxText:
    """Scanned layers, as is its default; its own table of names as a second witness."""

    def __init__(self):
        import importlib.metadata

        import jax
        import maxtext
        from maxtext.checkpoint_conversion.utils import param_mapping
        from maxtext.configs import pyconfig
        from maxtext.utils import maxtext_utils, model_creation_utils

        self.jax, self.config, self.utils, self.creation = jax, pyconfig, maxtext_utils, model_creation_utils
        self.mapping = param_mapping.PARAM_MAPPING
        self.base = os.path.join(os.path.dirname(maxtext.__file__), "configs", "base.yml")
        self.by = "maxtext " + importlib.metadata.version("maxtext")
        self.witness = {}

    def has(self, model_type, class_name):
        return model_type in MAXTEXT and not class_name.endswith("ForSequenceClassification")

    def tensors(self, model_type, config):
        overrides = MAXTEXT[model_type](config)
        fixed = dict(override_model_config=True, max_target_length=16, per_device_batch_size=1, skip_jax_distributed_system=True,
                     run_name="none", enable_checkpointing=False, log_config=False)
        made = self.config.initialize(["", self.base, *(f"{k}={str(v).lower() if isinstance(v, bool) else v}" for k, v in {**fixed, **overrides}.items())])
        model = self.creation.create_model(made, self.utils.get_mesh_from_config(made))
        tree = self.utils.get_abstract_param(model, made)
        tensors = []
        for path, leaf in self.jax.tree_util.tree_flatten_with_path(tree)[0]:
            keys = [getattr(key, "key", getattr(key, "name", None)) for key in path]
            if keys[-1] == "value":
                keys.pop()
            tensors.append(("/".join(["params", *map(str, keys)]), tuple(leaf.shape)))
        self.check(overrides["model_name"], config, made, tensors)
        return tensors

    def check(self, model, config, made, tensors):
        """MaxText's table for checkpoints of transformers names the same arrays."""
        name = {"llama2-7b": "llama3.1-8b", "mistral-7b": "llama3.1-8b"}.get(model, model)
        if name not in self.mapping:
            return
        config = config.get("text_config", config)
        text = dict(config, head_dim=config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
        table = self.mapping[name](dict(text, text_config=text, vision_config={"num_hidden_layers": 0}, num_experts=made.num_experts), made, scan_layers=True)
        said = set()
        for keys in table:
            said.update([keys] if isinstance(keys, str) else keys)
        said = {"params/" + key.replace("-", "/") for key in said}
        lacking = sorted({name for name, _ in tensors} - said)
        self.witness = {"table": {str(k): v for k, v in table.items()}, "lacking": lacking}
        if lacking:
            print("not in MaxText's table:", *lacking, file=sys.stderr)


PROGRAMS = {"easydel": EasyDel, "easydel-linen": EasyDelLinen, "maxtext": MaxText}


def first_line(error):
    return (type(error).__name__ + ": " + re.sub(r"\s+", " ", str(error)).strip())[:300]


def merge(program, files):
    import subprocess
    import tempfile

    lines, differing = [], 0
    for line in (line for file in files for line in open(file)):
        row = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "config.json"
            path.write_text(json.dumps(row["config"]))
            run = subprocess.run([program, "inspect", path, "--scheme", row["scheme"], "--json", "--expand", "--isolated"],
                                 capture_output=True, text=True)
        report = json.loads(run.stdout)
        row.pop("refused", None)
        if run.returncode != 0:
            row["refused"] = True
        else:
            tables = report["tables"]
            ours = [(tensor[key], tensor["shape"]) for table, key in (("parameters", "parameter"), ("buffers", "buffer"))
                    for tensor in tables.get(table, [])]
            if folded(ours) != row["tensors"]:
                differing += 1
                print(row["scheme"], row["config"]["model_type"], row["case"], "differs")
        lines.append(json.dumps(row, separators=(",", ":")) + "\n")
    if differing == 0:
        (HERE / "schemes_jax.jsonl").write_text("".join(lines))
    print(len(lines), "cases,", sum('"refused":true' in line for line in lines), "refused,", differing, "other")
    return 1 if differing else 0


def main():
    if sys.argv[1:2] == ["merge"]:
        return merge(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("out")
    parser.add_argument("--types", type=lambda s: s.split(","), default=None)
    parser.add_argument("--class", dest="of", default="", help="only classes whose names end so")
    args = parser.parse_args()

    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
    warnings.simplefilter("ignore")
    program = PROGRAMS[args.program]()
    logging.disable(logging.CRITICAL)
    lines = []
    if args.types and os.path.exists(args.out):
        lines = [line for line in open(args.out) if json.loads(line)["config"]["model_type"] not in args.types]
    known = set()
    for model_type, class_name, case, make in cases():
        if args.types and model_type not in args.types or not program.has(model_type, class_name) or not class_name.endswith(args.of):
            continue
        try:
            config = make()
            tensors = folded(program.tensors(model_type, config))
        except Exception as e:
            print(model_type, case, "FAILED:", first_line(e), file=sys.stderr, flush=True)
            continue
        kind = json.dumps(config, sort_keys=True)
        if kind in known:
            continue
        known.add(kind)
        print(model_type, case, len(tensors), file=sys.stderr, flush=True)
        line = {"scheme": args.program, "case": case, "by": program.by, "config": config, "tensors": tensors}
        lines.append(json.dumps(line, separators=(",", ":")) + "\n")
        with open(args.out, "w") as f:
            f.writelines(lines)


if __name__ == "__main__":
    sys.exit(main())
