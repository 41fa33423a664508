# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch keeps for backward of models whose forward pass is not known here.

    pip install transformers==5.24.0 torch
    OMP_NUM_THREADS=1 python tests/data/record_saved_shapes.py tests/data/saved_shapes.jsonl

A line of saved_shapes.jsonl is one of saved.jsonl (record_saved.py) without `parts`,
`layer_parts` and `at_peak`: brackets from shapes say nothing of them.
"""

import argparse
import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("record_saved", HERE / "record_saved.py")
saved = importlib.util.module_from_spec(spec)
spec.loader.exec_module(saved)

BASE, GROUPED, EXPERTS, GPT = saved.BASE, saved.GROUPED, saved.EXPERTS, saved.GPT
ENCODER = dict(BASE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=0)
BART = dict(vocab_size=131, d_model=40, encoder_layers=2, decoder_layers=2, encoder_attention_heads=5, decoder_attention_heads=5,
            encoder_ffn_dim=72, decoder_ffn_dim=88, max_position_embeddings=64, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0,
            pad_token_id=0, bos_token_id=None, eos_token_id=1, decoder_start_token_id=0)
DELTA = dict(linear_conv_kernel_dim=4, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4)
STATES = dict(mamba_n_heads=12, mamba_d_head=8, mamba_d_state=12, mamba_d_conv=4, mamba_expand=2, mamba_n_groups=2, mamba_chunk_size=8)

# Class, type of model, configs.
MODELS = [
    ("Bloom", "bloom", [dict(vocab_size=131, hidden_size=40, n_layer=2, n_head=5, hidden_dropout=0.0, attention_dropout=0.0, pad_token_id=None)]),
    ("Mpt", "mpt", [dict(vocab_size=131, d_model=40, n_layers=2, n_heads=4, max_seq_len=64)]),
    ("GPTBigCode", "gpt_bigcode", [GPT]),
    ("GPTNeo", "gpt_neo", [dict(vocab_size=131, hidden_size=40, num_layers=2, num_heads=5, intermediate_size=72, max_position_embeddings=64,
                                attention_types=[[["global", "local"], 1]], window_size=8, resid_dropout=0.0, embed_dropout=0.0, attention_dropout=0.0)]),
    ("Apertus", "apertus", [GROUPED]),
    ("BioGpt", "biogpt", [dict(BASE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, activation_dropout=0.0, layerdrop=0.0, pad_token_id=1)]),
    ("XGLM", "xglm", [dict(vocab_size=131, d_model=40, ffn_dim=72, num_layers=2, attention_heads=5, max_position_embeddings=64, dropout=0.0,
                           attention_dropout=0.0, activation_dropout=0.0, layerdrop=0.0, pad_token_id=1)]),
    ("DiffLlama", "diffllama", [dict(GROUPED, num_attention_heads=6, num_key_value_heads=2)]),
    ("VaultGemma", "vaultgemma", [dict(GROUPED, head_dim=10, layer_types=["full_attention", "sliding_attention"], sliding_window=8)]),
    ("Phimoe", "phimoe", [dict(GROUPED, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)]),
    ("GraniteMoeShared", "granitemoeshared", [dict(GROUPED, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=40)]),
    ("FlexOlmo", "flex_olmo", [dict(GROUPED, num_experts=4, num_experts_per_tok=2)]),
    ("Qwen3Next", "qwen3_next", [dict(EXPERTS, num_experts=4, head_dim=10, shared_expert_intermediate_size=24, layer_types=["linear_attention", "full_attention"], **DELTA)]),
    ("OlmoHybrid", "olmo_hybrid", [dict(GROUPED, layer_types=["linear_attention", "full_attention"], **DELTA)]),
    ("FalconH1", "falcon_h1", [dict(GROUPED, head_dim=8, mamba_d_ssm=96, **STATES)]),
    ("Bamba", "bamba", [dict(GROUPED, attn_layer_indices=[1], **STATES)]),
    ("GraniteMoeHybrid", "granitemoehybrid", [dict(GROUPED, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=40,
                                                   layer_types=["mamba", "attention"], **STATES)]),
    ("Lfm2", "lfm2", [dict(GROUPED, layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False)]),
    ("RecurrentGemma", "recurrent_gemma", [dict(BASE, num_key_value_heads=1, lru_width=40, attention_window_size=64, block_types=["recurrent", "attention"])]),
    ("Rwkv", "rwkv", [dict(vocab_size=131, hidden_size=40, attention_hidden_size=40, intermediate_size=72, num_hidden_layers=2, context_length=64)]),
    ("Doge", "doge", [dict(GROUPED, hidden_dropout=0.0)]),
    ("MiniCPM3", "minicpm3", [dict(BASE, num_key_value_heads=5, kv_lora_rank=12, q_lora_rank=14, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=10)]),
    ("Roberta", "roberta", [ENCODER]),
    ("Electra", "electra", [dict(ENCODER, embedding_size=24)]),
    ("DebertaV2", "deberta-v2", [dict(ENCODER, relative_attention=True, share_att_key=True, position_buckets=8, pos_att_type=["p2c", "c2p"], max_relative_positions=16)]),
    ("MPNet", "mpnet", [ENCODER]),
    ("ModernBert", "modernbert", [dict(BASE, cls_token_id=None, sep_token_id=None, pad_token_id=0, local_attention=8, embedding_dropout=0.0, mlp_dropout=0.0)]),
    ("Bart", "bart", [BART]),
    ("Pegasus", "pegasus", [BART]),
    ("Marian", "marian", [dict(BART, forced_eos_token_id=None)]),
]
CLASSES = {"GPTBigCode": "GPTBigCodeForCausalLM", "Bart": "BartForConditionalGeneration", "Pegasus": "PegasusForConditionalGeneration",
           "Marian": "MarianMTModel", **{each: f"{each}ForMaskedLM" for each in ("Roberta", "Electra", "DebertaV2", "MPNet", "ModernBert")}}
ENCODERS = ("roberta", "electra", "deberta-v2", "mpnet", "modernbert")


def cases():
    for name, kind, configs in MODELS:
        for config in configs:
            for attention, dtype, checkpointing in (("sdpa", "float32", False), ("eager", "bfloat16", False), ("eager", "float32", True)):
                yield {"class": CLASSES.get(name, f"{name}ForCausalLM"), "kind": kind, "config": config, "attention": attention,
                       "experts": None, "dtype": dtype, "autocast": None, "batch": 2, "seq": 24, "checkpointing": checkpointing, "more": {},
                       "name": f"{kind}-{attention}-{dtype}{'-checkpointing' if checkpointing else ''}"}


def run(model, case, inputs, labels=None):
    takes = {} if case["kind"] in ENCODERS else {"use_cache": False}
    if labels is not None:
        takes["labels"] = labels
    saved.torch.manual_seed(2)
    return model(**inputs, **takes)


def record(case):
    model = saved.built(case, case["config"])
    inputs, labels = saved.inputs_of(model, case)
    forward = saved.saved_by(model, case, inputs)
    live = saved.alive(model, case, inputs, labels)
    return {"name": case["name"], "class": case["class"],
            "config": saved.record_logits.kept_config(model, {"class": case["class"], "config": case["config"]}),
            **{key: case[key] for key in ("dtype", "attention", "checkpointing")},
            "inputs": {key: list(each.shape) for key, each in inputs.items()},
            "versions": {"torch": saved.torch.__version__.split("+")[0], "transformers": saved.transformers.__version__},
            "saved": {"forward": saved.total(forward)},
            "live": {key: each for key, each in live.items() if key != "at_peak"}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--only", default="", help="a part of names")
    options = parser.parse_args()
    saved.run = run
    return saved.write_records(options, cases(), record)


if __name__ == "__main__":
    sys.exit(main())
