#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what transformers saves of small models: the judge of the architectures.

    python3 record_architectures.py v4.jsonl              # with transformers 4.57.6
    python3 record_architectures.py v5.jsonl              # with transformers 5.23.0
    python3 record_architectures.py v5.jsonl --types glm,olmo
    python3 record_architectures.py v5.jsonl --types opt --show

Every case below is built on the CPU with random weights and saved with
save_pretrained into a temporary folder; what is recorded are the names and shapes
in the headers of the safetensors files. Cases of real sizes, and those that have all
defaults of the class but the count of layers, are built on the meta device instead;
there save_pretrained hands its tensors to us and not to safetensors. Nothing is
downloaded. With --types, the
lines of other types that the file has already are kept.

A line has
  model_type, case, class, transformers
  config    config.json as saved
  given     the keys from which the model was made, as a config that lacks all the
            others: those are the defaults of the configuration class
  tensors   [name with every number replaced by *, shape, how many], sorted

A type that the installed version lacks is left out; a case that makes no model is
told on stderr.
"""
import argparse
import glob
import json
import logging
import os
import re
import struct
import sys
import tempfile
import warnings

D = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
         num_attention_heads=4)
KV = dict(D, num_key_value_heads=2)
MOE = dict(KV, moe_intermediate_size=20)
GPT = dict(vocab_size=96, n_embd=32, n_layer=3, n_head=4, n_positions=20)
TIED = dict(tie_word_embeddings=True)
UNTIED = dict(tie_word_embeddings=False)
MIX = dict(layer_types=["full_attention", "sliding_attention", "full_attention"])
BIAS = dict(attention_bias=True)
MLA = dict(D, kv_lora_rank=8, q_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4,
           v_head_dim=5, num_key_value_heads=4, moe_intermediate_size=20)

# By model type: what its cases change, after what all of them have. `classes`: for
# the first case, other classes than the causal one.
CASES = {
    "llama": (KV, [{}, dict(head_dim=10, attention_bias=True, mlp_bias=True), dict(TIED)]),
    "mistral": (KV, [{}, dict(head_dim=10), dict(TIED, sliding_window=None)]),
    "qwen2": (KV, [{}, TIED]),
    "qwen3": (KV, [{}, dict(TIED, attention_bias=True, head_dim=10)]),
    "mixtral": (dict(KV, num_local_experts=3), [{}, dict(head_dim=10), TIED]),
    "qwen3_moe": (dict(MOE, num_experts=3), [{}, dict(mlp_only_layers=[1], head_dim=10), TIED]),
    "gemma2": (KV, [{}, dict(UNTIED, head_dim=10, attention_bias=True)]),
    "gemma3_text": (KV, [{}, dict(UNTIED, head_dim=10, attention_bias=True)]),
    "gemma": (KV, [{}, dict(head_dim=10), dict(UNTIED, attention_bias=True, head_dim=6), dict(num_key_value_heads=1)]),
    "qwen2_moe": (dict(MOE, num_experts=3, shared_expert_intermediate_size=28),
                  [{}, TIED, dict(qkv_bias=False), dict(mlp_only_layers=[1]),
                   dict(decoder_sparse_step=2, num_hidden_layers=4), dict(num_key_value_heads=4)]),
    "phi3": (KV, [{}, TIED, dict(num_key_value_heads=None), dict(sliding_window=8), dict(head_dim=10)]),
    "phi": (D, [{}, TIED, dict(num_key_value_heads=2), dict(qk_layernorm=True)]),
    "starcoder2": (KV, [{}, UNTIED, dict(use_bias=False), dict(num_key_value_heads=1, sliding_window=8)]),
    "cohere": (D, [{}, dict(use_qk_norm=True, num_key_value_heads=2), dict(BIAS), dict(UNTIED)]),
    "cohere2": (D, [{}, dict(num_key_value_heads=2), BIAS, UNTIED, MIX]),
    "olmo": (D, [{}, dict(num_key_value_heads=2), dict(BIAS, **TIED), dict(clip_qkv=8.0)]),
    "olmo2": (D, [{}, dict(num_key_value_heads=2), dict(BIAS, **TIED)]),
    "olmo3": (D, [{}, dict(num_key_value_heads=2), dict(BIAS, **TIED), MIX]),
    "olmoe": (dict(D, num_experts=3, num_experts_per_tok=2), [{}, dict(num_key_value_heads=2), dict(BIAS, **TIED), dict(norm_topk_prob=True)]),
    "granite": (D, [{}, dict(num_key_value_heads=2), dict(BIAS, **TIED), dict(mlp_bias=True)]),
    "granitemoe": (dict(D, num_local_experts=3), [{}, dict(num_key_value_heads=2), dict(BIAS, **TIED)]),
    "granitemoeshared": (dict(D, num_local_experts=3), [{}, dict(num_key_value_heads=2, shared_intermediate_size=28), dict(BIAS, shared_intermediate_size=16, **TIED)]),
    "smollm3": (KV, [{}, UNTIED, dict(BIAS, mlp_bias=True), dict(no_rope_layers=[1, 0, 1])]),
    "glm": (KV, [{}, dict(head_dim=10), dict(attention_bias=False, head_dim=8), dict(head_dim=8, **TIED)]),
    "glm4": (KV, [{}, dict(head_dim=10), dict(attention_bias=False, head_dim=8), dict(head_dim=8, **TIED)]),
    "glm4_moe": (dict(MOE, n_routed_experts=4, num_experts_per_tok=2, num_nextn_predict_layers=0),
                 [{}, dict(head_dim=10, use_qk_norm=True), dict(BIAS, n_shared_experts=2), dict(first_k_dense_replace=2),
                  dict(first_k_dense_replace=0, **TIED)]),
    "stablelm": (D, [dict(num_key_value_heads=4), dict(num_key_value_heads=2, use_qkv_bias=True),
                     dict(num_key_value_heads=2, qk_layernorm=True), dict(num_key_value_heads=4, use_parallel_residual=True, **TIED)]),
    "falcon": (dict(vocab_size=96, hidden_size=32, num_hidden_layers=3, num_attention_heads=4),
               [{}, dict(multi_query=False, alibi=True, bias=True), dict(parallel_attn=False), UNTIED,
                dict(new_decoder_architecture=True, num_kv_heads=2), dict(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1, bias=True),
                dict(new_decoder_architecture=True), dict(ffn_hidden_size=40, multi_query=False),
                dict(new_decoder_architecture=True, parallel_attn=False, num_kv_heads=1),
                dict(num_ln_in_parallel_attn=2)]),
    "gpt_neox": (D, [{}, dict(attention_bias=False), dict(use_parallel_residual=False), TIED]),
    "gptj": (dict(GPT, rotary_dim=4), [{}, dict(n_inner=40), TIED]),
    "gpt_neo": (dict(vocab_size=96, hidden_size=32, num_layers=2, num_heads=4, max_position_embeddings=20,
                     attention_types=[[["global", "local"], 1]]),
                [{}, dict(intermediate_size=40), UNTIED, dict(num_layers=4, attention_types=[[["global"], 1], [["global", "local", "local"], 1]])]),
    "gpt_bigcode": (GPT, [{}, dict(multi_query=False), dict(n_inner=40), UNTIED]),
    "opt": (dict(vocab_size=96, hidden_size=32, ffn_dim=48, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=20, pad_token_id=1),
            [{}, dict(word_embed_proj_dim=16, do_layer_norm_before=False), dict(enable_bias=False), dict(layer_norm_elementwise_affine=False),
             dict(do_layer_norm_before=False), UNTIED, dict(word_embed_proj_dim=16), dict(UNTIED, word_embed_proj_dim=16), dict(_remove_final_layer_norm=True)]),
    "bloom": (dict(vocab_size=96, hidden_size=32, n_layer=3, n_head=4), [{}, UNTIED, dict(apply_residual_connection_post_layernorm=True), dict(slow_but_exact=True)]),
    "mpt": (dict(vocab_size=96, d_model=32, n_layers=3, n_heads=4, max_seq_len=20), [{}, UNTIED, dict(expansion_ratio=2), dict(no_bias=False),
            dict(attn_config=dict(attn_type="multihead_attention", alibi=False))]),
    "deepseek_v2": (dict(MLA, n_routed_experts=4, num_experts_per_tok=2),
                    [{}, dict(q_lora_rank=None), dict(first_k_dense_replace=1), dict(BIAS, mlp_bias=True, n_shared_experts=1, first_k_dense_replace=1), TIED,
                     dict(first_k_dense_replace=3)]),
    "glm_moe_dsa": (dict(MLA, n_routed_experts=4, num_experts_per_tok=2, index_head_dim=8, index_n_heads=4),
                    [{}, dict(num_hidden_layers=5), dict(BIAS, n_shared_experts=2, first_k_dense_replace=1), dict(num_hidden_layers=4, **TIED),
                     dict(num_hidden_layers=4, mlp_layer_types=["dense", "sparse", "sparse", "dense"]),
                     dict(num_hidden_layers=4, indexer_types=["full", "shared", "full", "shared"]),
                     dict(num_hidden_layers=8, index_topk_freq=4)]),
    "seed_oss": (KV, [{}, dict(head_dim=10, attention_bias=False), dict(attention_out_bias=True, mlp_bias=True), TIED]),
    "arcee": (D, [{}, dict(num_key_value_heads=2), dict(BIAS, mlp_bias=True, head_dim=10), TIED]),
    "apertus": (D, [{}, dict(num_key_value_heads=2), BIAS, TIED]),
    "ernie4_5": (KV, [{}, dict(head_dim=10), dict(use_bias=True), UNTIED]),
    "ernie4_5_moe": (dict(MOE, moe_num_experts=4, moe_k=2), [{}, dict(use_bias=True), UNTIED, dict(moe_num_shared_experts=0), dict(moe_layer_start_index=0, moe_layer_interval=2, num_hidden_layers=5),
                     dict(moe_layer_end_index=1, num_hidden_layers=4), dict(moe_num_shared_experts=1, moe_layer_start_index=2)]),
    "exaone4": (KV, [{}, TIED, dict(num_key_value_heads=4), dict(sliding_window=8, sliding_window_pattern=2), dict(head_dim=10)]),
    "hunyuan_v1_dense": (KV, [dict(head_dim=8), dict(head_dim=10, **BIAS), dict(head_dim=8, **TIED), dict(num_key_value_heads=None, head_dim=16)]),
    "hunyuan_v1_moe": (dict(KV, num_experts=3, moe_topk=2), [dict(head_dim=8), dict(head_dim=10, **BIAS), dict(head_dim=8, **TIED), dict(num_experts=1, head_dim=8, moe_topk=1)]),
    "nemotron": (dict(KV), [{}, dict(BIAS, mlp_bias=True), TIED, dict(head_dim=10), dict(num_key_value_heads=4)]),
    "minimax_m2": (dict(KV, num_local_experts=4, num_experts_per_tok=2), [{}, dict(head_dim=10), TIED, dict(num_key_value_heads=4, head_dim=8)]),
    "dots1": (dict(MOE, n_routed_experts=4, n_shared_experts=2, num_experts_per_tok=2), [{}, dict(first_k_dense_replace=1), dict(BIAS, first_k_dense_replace=2), TIED, dict(n_shared_experts=1, num_key_value_heads=4)]),
    "phimoe": (dict(KV, num_local_experts=3), [{}, dict(BIAS), dict(lm_head_bias=True), TIED, dict(TIED, lm_head_bias=True)]),
    "dbrx": (dict(vocab_size=96, d_model=32, n_heads=4, n_layers=2, max_seq_len=20),
             [dict(attn_config=dict(kv_n_heads=2, rope_theta=1e4), ffn_config=dict(ffn_hidden_size=40, moe_num_experts=3)),
              dict(attn_config=dict(rope_theta=1e4), ffn_config=dict(ffn_hidden_size=16, moe_num_experts=2, ffn_act_fn={"name": "silu"})),
              dict(attn_config=dict(kv_n_heads=4, clip_qkv=8, rope_theta=5e5), ffn_config=dict(ffn_hidden_size=24))]),
    "llama4_text": (dict(KV, intermediate_size_mlp=56, num_local_experts=3, head_dim=8),
                    [{}, dict(head_dim=10), dict(interleave_moe_layer_step=2, num_hidden_layers=4), dict(moe_layers=[1]), dict(BIAS), TIED]),
    "flex_olmo": (dict(D, num_experts=3, num_experts_per_tok=2), [{}, dict(num_key_value_heads=2), dict(BIAS, **TIED)]),
    "helium": (dict(KV, head_dim=8), [{}, dict(head_dim=16, num_attention_heads=2), dict(attention_bias=True, mlp_bias=True), TIED]),
    "diffllama": (D, [{}, dict(num_key_value_heads=2), dict(BIAS, head_dim=10), TIED]),
    "bitnet": (KV, [{}, TIED, BIAS, dict(num_key_value_heads=4)]),
    "nanochat": (D, [{}, dict(num_key_value_heads=2), BIAS, TIED]),
    "vaultgemma": (KV, [{}, dict(head_dim=10), dict(UNTIED, head_dim=8, attention_bias=True), MIX]),
    "codegen": (dict(GPT, rotary_dim=4), [{}, dict(n_inner=40), TIED]),
    "xglm": (dict(vocab_size=96, d_model=32, ffn_dim=48, num_layers=3, attention_heads=4, max_position_embeddings=20, pad_token_id=1), [{}, UNTIED, dict(scale_embedding=False)]),
    "ctrl": (dict(vocab_size=96, n_embd=32, dff=48, n_layer=3, n_head=4, n_positions=20), [{}, UNTIED]),
    "openai-gpt": (GPT, [{}, UNTIED]),
    "biogpt": (dict(D, max_position_embeddings=20, pad_token_id=1), [{}, UNTIED]),
    "persimmon": (D, [{}, TIED, dict(qk_layernorm=False)]),
    "minimax": (dict(KV, num_local_experts=3, block_size=4), [{}, dict(head_dim=10), dict(TIED, layer_types=["full_attention", "full_attention", "linear_attention"]), dict(num_key_value_heads=4, num_hidden_layers=4)]),
    "longcat_flash": (dict(vocab_size=96, hidden_size=32, ffn_hidden_size=48, expert_ffn_hidden_size=20, num_layers=2, num_attention_heads=4, kv_lora_rank=8, q_lora_rank=12,
                           qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, n_routed_experts=4, moe_topk=2, zero_expert_num=2, head_dim=4),
                      [{}, BIAS, TIED, dict(zero_expert_num=0), dict(router_bias=True)]),
    "ministral": (dict(KV, head_dim=8), [{}, dict(head_dim=10), TIED, dict(num_key_value_heads=4), MIX]),
    "qwen3_next": (dict(MOE, num_experts=4, num_experts_per_tok=2, num_hidden_layers=4, shared_expert_intermediate_size=28, linear_num_key_heads=2, linear_num_value_heads=4,
                        linear_key_head_dim=6, linear_value_head_dim=5, head_dim=8),
                   [{}, dict(head_dim=10, attention_bias=True), dict(linear_conv_kernel_dim=3, linear_num_value_heads=2, mlp_only_layers=[1]), dict(decoder_sparse_step=2, **TIED),
                    dict(layer_types=["full_attention", "linear_attention", "full_attention", "full_attention"]), dict(full_attention_interval=2)]),
}


# Their classes have no defaults that make a model.
NO_DEFAULTS = {"hunyuan_v1_dense", "hunyuan_v1_moe", "nemotron", "dots1", "ministral"}

# Of real sizes, with the keys that files on the Hub have, or lack.
REAL = {
    "gemma": [dict(vocab_size=256000, hidden_size=2048, intermediate_size=16384, num_hidden_layers=18, num_attention_heads=8,
                   num_key_value_heads=1, head_dim=256, hidden_act="gelu")],
    "phi3": [dict(vocab_size=32064, hidden_size=3072, intermediate_size=8192, num_hidden_layers=32, num_attention_heads=32,
                  num_key_value_heads=32, sliding_window=2047, attention_bias=False)],
    "phi": [dict(vocab_size=51200, hidden_size=2560, intermediate_size=10240, num_hidden_layers=32, num_attention_heads=32,
                 num_key_value_heads=None, qk_layernorm=False)],
    "falcon": [dict(hidden_size=4544, num_hidden_layers=32, num_attention_heads=71, multi_query=True, parallel_attn=True, bias=False, alibi=False,
                    new_decoder_architecture=False, vocab_size=65024),
               dict(hidden_size=8192, num_hidden_layers=60, num_attention_heads=128, num_kv_heads=8, parallel_attn=True, bias=False, alibi=False,
                    new_decoder_architecture=True, vocab_size=65024),
               dict(hidden_size=2048, num_hidden_layers=24, num_attention_heads=32, alibi=True, multi_query=False, parallel_attn=False, bias=True, vocab_size=50304)],
    "gpt_neox": [dict(vocab_size=50304, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=8, rotary_pct=0.25)],
    "gptj": [dict(vocab_size=50400, n_embd=4096, n_layer=28, n_head=16, n_inner=None, n_positions=2048, rotary_dim=64)],
    "codegen": [dict(vocab_size=51200, n_embd=1024, n_layer=20, n_head=16, n_ctx=2048, n_positions=2048, rotary_dim=32)],
    "opt": [dict(vocab_size=50272, hidden_size=1024, ffn_dim=4096, num_hidden_layers=24, num_attention_heads=16, max_position_embeddings=2048,
                 word_embed_proj_dim=512, do_layer_norm_before=False, pad_token_id=1),
            dict(vocab_size=50272, hidden_size=768, ffn_dim=3072, num_hidden_layers=12, num_attention_heads=12, max_position_embeddings=2048,
                 word_embed_proj_dim=768, _remove_final_layer_norm=False, pad_token_id=1)],
    "bloom": [dict(vocab_size=250880, n_embed=1024, n_layer=24, num_attention_heads=16, pad_token_id=3)],
    "mpt": [dict(vocab_size=50432, d_model=4096, n_layers=32, n_heads=32, max_seq_len=2048, expansion_ratio=4, no_bias=True)],
    "gpt_bigcode": [dict(vocab_size=49152, n_embd=6144, n_layer=40, n_head=48, n_inner=24576, n_positions=8192, multi_query=True)],
    "starcoder2": [dict(vocab_size=49152, hidden_size=6144, intermediate_size=24576, num_hidden_layers=40, num_attention_heads=48, num_key_value_heads=4,
                        sliding_window=4096, use_bias=True)],
    "qwen2_moe": [dict(vocab_size=151936, hidden_size=2048, intermediate_size=5632, moe_intermediate_size=1408, shared_expert_intermediate_size=5632,
                       num_experts=60, num_hidden_layers=24, num_attention_heads=16, num_key_value_heads=16, decoder_sparse_step=1)],
    "cohere": [dict(vocab_size=256000, hidden_size=8192, intermediate_size=22528, num_hidden_layers=40, num_attention_heads=64, num_key_value_heads=64,
                    use_qk_norm=False),
               dict(vocab_size=256000, hidden_size=12288, intermediate_size=33792, num_hidden_layers=64, num_attention_heads=96, num_key_value_heads=8,
                    use_qk_norm=True)],
    "deepseek_v2": [dict(vocab_size=102400, hidden_size=2048, intermediate_size=10944, moe_intermediate_size=1408, num_hidden_layers=27,
                         num_attention_heads=16, num_key_value_heads=16, n_shared_experts=2, n_routed_experts=64, moe_layer_freq=1, first_k_dense_replace=1,
                         kv_lora_rank=512, q_lora_rank=None, qk_rope_head_dim=64, v_head_dim=128, qk_nope_head_dim=128)],
    "glm4_moe": [dict(vocab_size=151552, hidden_size=4096, intermediate_size=10944, moe_intermediate_size=1408, num_hidden_layers=46,
                      num_attention_heads=96, num_key_value_heads=8, head_dim=128, n_routed_experts=128, n_shared_experts=1, first_k_dense_replace=1,
                      use_qk_norm=False, attention_bias=True, num_nextn_predict_layers=0)],
    "llama4_text": [dict(vocab_size=202048, hidden_size=5120, intermediate_size=8192, intermediate_size_mlp=16384, num_hidden_layers=48,
                         num_attention_heads=40, num_key_value_heads=8, head_dim=128, num_local_experts=16, interleave_moe_layer_step=1, no_rope_layers=[]),
                    dict(vocab_size=202048, hidden_size=5120, intermediate_size=8192, intermediate_size_mlp=16384, num_hidden_layers=48,
                         num_attention_heads=40, num_key_value_heads=8, head_dim=128, num_local_experts=128, interleave_moe_layer_step=2)],
    "ernie4_5_moe": [dict(vocab_size=103424, hidden_size=2560, intermediate_size=12288, moe_intermediate_size=1536, num_hidden_layers=28,
                          num_attention_heads=20, num_key_value_heads=4, moe_num_experts=64, moe_k=6, moe_layer_start_index=1, moe_layer_end_index=27,
                          moe_layer_interval=1, moe_num_shared_experts=2, use_bias=False)],
    "stablelm": [dict(vocab_size=100352, hidden_size=2048, intermediate_size=5632, num_hidden_layers=24, num_attention_heads=32, num_key_value_heads=32,
                      use_qkv_bias=True)],
    "exaone4": [dict(vocab_size=102400, hidden_size=5120, intermediate_size=27392, num_hidden_layers=64, num_attention_heads=40, num_key_value_heads=8,
                     head_dim=128, sliding_window=4096, sliding_window_pattern="LLLG", layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 16),
                dict(vocab_size=102400, hidden_size=2048, intermediate_size=4096, num_hidden_layers=30, num_attention_heads=32, num_key_value_heads=8,
                     head_dim=64, sliding_window=None, sliding_window_pattern=None, layer_types=["full_attention"] * 30, **TIED)],
    "hunyuan_v1_moe": [dict(vocab_size=128167, hidden_size=4096, intermediate_size=3072, moe_intermediate_size=[3072] * 32, num_hidden_layers=32,
                            num_attention_heads=32, num_key_value_heads=8, head_dim=128, num_experts=64, moe_topk=[8] * 32, num_shared_expert=[1] * 32, **TIED)],
    "nemotron": [dict(vocab_size=256000, hidden_size=3072, intermediate_size=9216, num_hidden_layers=32, num_attention_heads=24, num_key_value_heads=8,
                      head_dim=128)],
    "qwen3_next": [dict(vocab_size=151936, hidden_size=2048, intermediate_size=5120, moe_intermediate_size=512, shared_expert_intermediate_size=512,
                        num_hidden_layers=12, num_attention_heads=16, num_key_value_heads=2, head_dim=256, num_experts=512, decoder_sparse_step=1,
                        full_attention_interval=4, linear_conv_kernel_dim=4, linear_key_head_dim=128, linear_num_key_heads=16, linear_num_value_heads=32,
                        linear_value_head_dim=128, mlp_only_layers=[])],
    "glm_moe_dsa": [dict(vocab_size=154880, hidden_size=6144, intermediate_size=12288, moe_intermediate_size=2048, num_hidden_layers=6,
                         num_attention_heads=64, num_key_value_heads=64, n_routed_experts=256, n_shared_experts=1, first_k_dense_replace=3,
                         kv_lora_rank=512, q_lora_rank=2048, qk_rope_head_dim=64, v_head_dim=256, qk_nope_head_dim=192, head_dim=64,
                         index_head_dim=128, index_n_heads=32, index_topk=2048, moe_layer_freq=1)],
    "granitemoe": [dict(vocab_size=49155, hidden_size=1536, intermediate_size=512, num_hidden_layers=32, num_attention_heads=24, num_key_value_heads=8,
                        num_local_experts=40, **TIED)],
}

# Attention asks for head_dim though the configuration class does not declare it.
for _type in """qwen2_moe phi starcoder2 cohere cohere2 olmo olmo2 olmo3 olmoe granite granitemoe granitemoeshared
        smollm3 glm4_moe apertus ernie4_5_moe dots1 phimoe flex_olmo bitnet nanochat minimax""".split():
    CASES[_type][1].append(dict(head_dim=10))
CASES["phi"][1].append(dict(head_dim=10, qk_layernorm=True))
for _type in ("qwen2_moe", "qwen3_next"):
    CASES[_type][1].append(dict(num_experts=0))
CASES["deepseek_v2"][1].append(dict(n_shared_experts=None))
for _type in ("olmo3", "cohere2", "exaone4", "ministral", "smollm3", "dots1", "qwen2_moe"):
    CASES[_type][1].append(dict(MIX, sliding_window=8))
for _type in "smollm3 seed_oss ernie4_5 bitnet apertus nanochat mixtral".split():
    CASES[_type][1].append(dict(num_key_value_heads=None))
for _type in "seed_oss ernie4_5 minimax_m2 llama4_text arcee nemotron".split():
    CASES[_type][1].append(dict(head_dim=None))


def classes_of(model_type):
    """The causal class, the base class, and those that classify."""
    from transformers.models.auto import modeling_auto as auto

    found = {}
    for what, mapping in (("causal", auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES), ("base", auto.MODEL_MAPPING_NAMES),
                          ("sequence", auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES),
                          ("token", auto.MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES),
                          ("answer", auto.MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES)):
        name = mapping.get(model_type)
        if name:
            found[what] = name[0] if isinstance(name, (list, tuple)) else name
    return found


def header(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        names = json.loads(f.read(size))
    return {name: what["shape"] for name, what in names.items() if name != "__metadata__"}


def folded(tensors):
    count = {}
    for name, shape in tensors.items():
        key = (re.sub(r"\d+", "*", name), tuple(shape))
        count[key] = count.get(key, 0) + 1
    return [[name, list(shape), n] for (name, shape), n in sorted(count.items())]


def saved_files(folder):
    tensors = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        tensors.update(header(path))
    return tensors


def defaults_but_layers(model_type):
    """The keys that make a few layers of what is otherwise as the class has it."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if model_type == "gpt_neo":  # its list says how many there are
        return {}
    aliases = getattr(CONFIG_MAPPING[model_type], "attribute_map", None) or {}
    key = aliases.get("num_hidden_layers", "num_hidden_layers")
    if model_type == "longcat_flash":
        key = "num_layers"
    return {key: 5}


def record(model_type, given, class_name, meta=False):
    import torch
    import transformers
    from transformers import AutoConfig

    torch.manual_seed(0)
    special = {} if "pad_token_id" in given else {"pad_token_id": 0}
    config = AutoConfig.for_model(model_type, **special, bos_token_id=0, eos_token_id=0, **json.loads(json.dumps(given)))
    with torch.device("meta" if meta else "cpu"):
        model = getattr(transformers, class_name)(config)
    handed = {}

    def take(tensors, *_, **__):
        handed.update({name: list(tensor.shape) for name, tensor in tensors.items()})

    modeling = transformers.modeling_utils
    save_file = modeling.safe_save_file
    if meta:
        modeling.safe_save_file = take
    try:
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            with open(os.path.join(folder, "config.json")) as f:
                saved = json.load(f)
            return saved, folded(handed if meta else saved_files(folder))
    finally:
        modeling.safe_save_file = save_file


def first_line(error):
    return (type(error).__name__ + ": " + re.sub(r"\s+", " ", str(error)).strip())[:200]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out")
    parser.add_argument("--types", type=lambda s: s.split(","), default=None)
    parser.add_argument("--show", action="store_true", help="print the tensors of the first case, and how others differ")
    args = parser.parse_args()

    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    version = transformers.__version__
    types = args.types or list(CASES)
    lines = []
    if os.path.exists(args.out):
        with open(args.out) as f:
            lines = [line for line in f if json.loads(line)["model_type"] not in types]
    for model_type in types:
        if model_type not in CONFIG_MAPPING:
            print(model_type, "is not in", version, file=sys.stderr)
            continue
        base, changes = CASES[model_type]
        classes = classes_of(model_type)
        todo = []
        for number, change in enumerate(changes):
            title = ",".join(f"{k}={v}" for k, v in change.items()) or "plain"
            todo.append((title, {**base, **change}, classes["causal"], False))
            if number in (0, 1) and "base" in classes:
                todo.append((title + " (base)", {**base, **change}, classes["base"], False))
        if model_type not in NO_DEFAULTS:
            todo.append(("defaults", defaults_but_layers(model_type), classes["causal"], True))
        for number, given in enumerate(REAL.get(model_type, [])):
            todo.append((f"real {number}", given, classes["causal"], True))
        for what in ("sequence", "token", "answer"):
            if what in classes:
                todo.append((what, dict(base, **(changes[0])), classes[what], False))
        before = None
        for title, given, class_name, meta in todo:
            try:
                saved, tensors = record(model_type, given, class_name, meta)
            except Exception as e:
                print(model_type, title, class_name, "FAILED:", first_line(e), file=sys.stderr)
                continue
            given = {"architectures": [class_name], "model_type": model_type, "transformers_version": version, **given}
            line = {"model_type": model_type, "case": title, "class": class_name, "transformers": version, "config": saved, "given": given, "tensors": tensors}
            lines.append(json.dumps(line) + "\n")
            if args.show:
                now = {(n, *s): c for n, s, c in tensors}
                print("==", version, model_type, class_name, title)
                for key, c in now.items():
                    if before is None or before.get(key) != c:
                        print("  +" if before is not None else "   ", *key, "x", c)
                for key, c in (before or {}).items():
                    if key not in now:
                        print("  -", *key, "x", c)
                if before is None:
                    before = now
        with open(args.out + ".part", "w") as f:
            f.writelines(lines)
        os.replace(args.out + ".part", args.out)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
