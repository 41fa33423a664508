#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what PEFT adds to small models: the judge of `--lora`.

    python3 record_lora.py lora.jsonl      # transformers 5, PEFT 0.19 or later

Every model is built on the meta device in bfloat16 from a config of a few layers;
nothing is downloaded. A line has
  model_type, targets   as `--lora` takes them; `all-linear` or names with `+`
  rank
  config                config.json as saved
  adapted               [name, shape, dtype] of all parameters that are adapters or
                        that an adapter stands beside, in PEFT's order
A list of targets that PEFT refuses has `adapted: null`.
"""
import json
import logging
import sys
import tempfile
import warnings

import peft
import torch
import transformers

D = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
         num_attention_heads=4)
KV = dict(D, num_key_value_heads=2, head_dim=8)
LLAMA = ["all-linear", "q_proj+v_proj", "q_proj+k_proj+v_proj+o_proj",
         "gate_proj+up_proj+down_proj", "layers.1.self_attn.q_proj", "q_proj+nothing"]
HEAD = LLAMA + ["q_proj+lm_head"]
MOE = dict(num_experts=4, num_local_experts=4, num_experts_per_tok=2,
           moe_intermediate_size=16)
EXPERTS = ["all-linear", "gate_proj+up_proj+down_proj", "q_proj+gate_proj",
           "w1+w2+w3+o_proj", "mlp.down_proj+k_proj", "gate+q_proj", "shared_expert_gate+q_proj"]
CASES = {
    "llama": (dict(KV, attention_bias=True, tie_word_embeddings=False), HEAD),
    "mistral": (KV, HEAD),
    "qwen2": (dict(KV, tie_word_embeddings=False), HEAD),
    "qwen3": (KV, LLAMA),
    "gemma2": (KV, LLAMA),
    "gemma3_text": (KV, LLAMA),
    "olmo2": (KV, HEAD),
    "phi3": (dict(KV, pad_token_id=0),
             ["all-linear", "qkv_proj", "qkv_proj+o_proj", "gate_up_proj+down_proj",
              "layers.0.self_attn.qkv_proj", "o_proj+lm_head"]),
    "gpt2": (dict(vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=64),
             ["all-linear", "c_attn", "c_attn+c_proj", "c_fc", "mlp.c_proj",
              "h.1.attn.c_attn"]),
    "gpt_neox": (D, ["all-linear", "query_key_value", "query_key_value+dense",
                     "dense_h_to_4h+dense_4h_to_h", "layers.1.attention.dense",
                     "embed_out"]),
    "opt": (dict(vocab_size=96, hidden_size=32, ffn_dim=48, num_hidden_layers=2,
                 num_attention_heads=4, word_embed_proj_dim=32),
            ["all-linear", "q_proj+v_proj", "out_proj", "fc1+fc2",
             "layers.1.self_attn.k_proj", "k_proj+fc1"]),
    "bloom": (dict(vocab_size=96, hidden_size=32, n_layer=2, n_head=4),
              ["all-linear", "query_key_value", "dense", "dense_h_to_4h",
               "dense_4h_to_h", "h.0.mlp.dense_h_to_4h"]),
    "falcon": (dict(vocab_size=96, hidden_size=32, num_hidden_layers=2,
                    num_attention_heads=4),
               ["all-linear", "query_key_value", "dense", "dense_h_to_4h",
                "query_key_value+dense_4h_to_h", "h.1.self_attention.dense"]),
    "mixtral": (dict(KV, **MOE), HEAD),
    "qwen3_moe": (dict(KV, **MOE, decoder_sparse_step=2), LLAMA),
    "deepseek_v3": (dict(KV, n_routed_experts=4, num_experts_per_tok=2, n_group=1,
                         topk_group=1, first_k_dense_replace=1, kv_lora_rank=16,
                         q_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8,
                         v_head_dim=8, moe_intermediate_size=16),
                    ["all-linear", "q_a_proj+q_b_proj",
                     "kv_a_proj_with_mqa+kv_b_proj", "o_proj",
                     "gate_proj+up_proj+down_proj", "shared_experts.down_proj"]),
    # Judges of what was written of stacks of experts.
    **{kind: (dict(KV, **MOE, pad_token_id=0, n_routed_experts=4, first_k_dense_replace=1,
                   n_group=1, topk_group=1, **more), EXPERTS)
       for kind, more in {
           "olmoe": {}, "glm4_moe": {}, "flex_olmo": {}, "minimax_m2": {}, "cohere2_moe": {},
           "ernie4_5_moe": dict(moe_num_experts=4, moe_k=2), "afmoe": {}, "exaone_moe": {},
           "hunyuan_v1_moe": dict(moe_topk=2), "solar_open": {}, "qwen2_moe": {},
           "granitemoe": {}, "jamba": {}, "phimoe": {}, "qwen3_5_moe_text": {},
           "mimo_v2_flash": {}, "laguna": {}, "llama4_text": {}, "minimax": {}}.items()},
    "gpt_oss": (dict(KV, **MOE), ["all-linear", "q_proj+v_proj", "gate_up_proj", "router"]),
    "mamba": (dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, state_size=4),
              ["all-linear", "in_proj", "out_proj", "x_proj+dt_proj",
               "in_proj+out_proj", "layers.1.mixer.in_proj"]),
}


def adapted(config, targets, rank):
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
        model = model.to(torch.bfloat16)
        names = targets if targets == "all-linear" else targets.split("+")
        try:
            model = peft.get_peft_model(model, peft.LoraConfig(r=rank,
                                                               target_modules=names))
        except ValueError as error:
            print(config.model_type, targets, str(error)[:90], file=sys.stderr)
            return None
    return [[name, list(each.shape), str(each.dtype).removeprefix("torch.")]
            for name, each in model.named_parameters()
            if "lora_" in name or "base_layer" in name]


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for model_type, (given, lists) in CASES.items():
            config = transformers.AutoConfig.for_model(model_type, **given)
            with torch.device("meta"):
                model = transformers.AutoModelForCausalLM.from_config(config)
            config.architectures = [type(model).__name__]
            config.dtype = torch.bfloat16
            with tempfile.TemporaryDirectory() as folder:
                config.save_pretrained(folder)
                with open(folder + "/config.json", encoding="utf-8") as file:
                    saved = json.load(file)
            for i, targets in enumerate(lists):
                rank = (4, 8, 16)[i % 3]
                line = {"model_type": model_type, "targets": targets, "rank": rank,
                        "transformers": transformers.__version__,
                        "peft": peft.__version__, "config": saved,
                        "adapted": adapted(config, targets, rank)}
                out.write(json.dumps(line, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
