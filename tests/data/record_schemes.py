# SPDX-License-Identifier: Apache-2.0
"""Records how other programs than a checkpoint call a model's tensors: the judge of
rules/schemes.

    python record_schemes.py v4.jsonl --keep FOLDER   # with transformers 4.57.6
    python record_schemes.py v5.jsonl                 # with transformers 5.23.0
    python record_schemes.py v4in5.jsonl --of FOLDER  # with 5.23.0, what 4.57.6 saved
    python record_schemes.py gguf.jsonl --llama-cpp FOLDER
    python record_schemes.py released.jsonl --llama-cpp FOLDER --released SHARDPLAN   # with 4.57.6
    python record_schemes.py --merge SHARDPLAN v4.jsonl v5.jsonl v4in5.jsonl ..

The cases are those of record_architectures.py and architecture_cases.py, built on the
CPU with random weights. Without --llama-cpp the tensors are those of the model in the
memory of the installed transformers: parameters and persistent buffers, of tied ones
that which save_pretrained keeps. With it, save_pretrained writes the model, and
convert_hf_to_gguf.py of llama.cpp in FOLDER (the sdist of llama-cpp-python has it in
vendor/llama.cpp) converts it with --outtype bf16 and, unless there are such layers, --no-nextn; the
vocabulary is left out. Where the metadata of a small config is not what the
converter asks for, the tensors are those that it was about to write. Nothing is
downloaded.

A line has
  scheme, case, by
  config    config.json as saved
  tensors   [name with every number replaced by *, shape, how many, dtype], sorted;
            of gguf the dtype is f32 where it stays that in a file of bf16, else null;
            shapes in the order of PyTorch
  saved     the same of what save_pretrained writes, with names in full; not kept by
            --merge

With --released the models are those of which transformers has no class, or which it saves
under other names than those that were released (RELEASED): the converter reads a file of
zeros, with the names and shapes that SHARDPLAN gives.

With --of the models are loaded with from_pretrained, from what another version wrote
with --keep.

--merge writes schemes.jsonl: lines of other schemes stay (with --add all that are there);
of every type those cases are
kept whose saved names are those that SHARDPLAN gives, and which have names, or tensors
that are renamed, that the cases before them did not have; of types that are not renamed,
the smallest case.
"""

import argparse
import collections
import importlib
import json
import logging
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")

NOISE = re.compile(
    r"dropout|pdrop|_token_id$|^(bos|eos|pad|sep)_|initializer|^use_cache$|"
    r"^(architectures_|chunk_size|problem_type|tokenizer_class|pretraining_tp|output_(?!embedding)|return_|_name_or_path|router_|"
    r"is_encoder_decoder|temperature|top_[kp]|num_beams|label2id|_attn)|_eps$|epsilon")
TASKS = re.compile(r"\((sequence|token|answer)\)")


FURTHER = "layers that predict further tokens"
FIRST = "the first checkpoints"


def as_released(case, config, tensors):
    """Names and shapes of released checkpoints that transformers does not write."""
    if case == FIRST:  # GPT-2 without a prefix, and with its masks
        config.pop("transformers_version")
        for name in list(tensors):
            tensors[name.removeprefix("transformer.")] = tensors.pop(name)
        size = config["n_positions"]
        for layer in range(config["n_layer"]):
            tensors[f"h.{layer}.attn.bias"] = [1, 1, size, size]
    if case != FURTHER:
        return
    if config["model_type"] == "glm4_moe":  # of a config that transformers 5 wrote there are none
        config["transformers_version"] = "4.57.6"
    last = max(int(name.split(".")[2]) for name in tensors if name.startswith("model.layers."))
    new = f"model.layers.{last + 1}."
    for name, tensor in list(tensors.items()):
        if name.startswith(f"model.layers.{last}."):
            tensors[new + name.split(".", 3)[3]] = tensor
    rows, hidden = tensors["model.embed_tokens.weight"]
    for name, shape in (("embed_tokens", [rows, hidden]), ("enorm", [hidden]), ("hnorm", [hidden]),
                        ("eh_proj", [hidden, 2 * hidden]), ("shared_head.norm", [hidden]),
                        ("shared_head.head", [rows, hidden])):
        if len(shape) == 1 or name == "eh_proj" or "index_topk" not in config:
            tensors[f"{new}{name}.weight"] = shape


def more_cases():
    """Types that have scripts of their own elsewhere, and what converters look at."""
    from architecture_cases import (
        DB, DENSE, ENC, G3N, G4V, IV, KV2, L4V, MB, MT, MV, SIGV, SLIDE, T3, T3M, TEXT2)

    gpt = dict(vocab_size=96, n_embd=32, n_layer=2, n_head=4, n_positions=20)
    yield "gpt2", "plain", "GPT2LMHeadModel", gpt
    yield "gpt2", "untied", "GPT2LMHeadModel", dict(gpt, tie_word_embeddings=False, n_inner=40)
    yield "gpt2", "base", "GPT2Model", gpt
    yield "gpt2", FIRST, "GPT2LMHeadModel", gpt
    for case, name in ("base", "Model"), ("masked", "ForMaskedLM"), ("pre", "ForPreTraining"):
        yield "bert", case, f"Bert{name}", ENC
    yield "bert", "untied", "BertForMaskedLM", dict(ENC, tie_word_embeddings=False)
    names = {"id2label": {"0": "no", "1": "yes"}, "label2id": {"no": 0, "yes": 1}}
    for kind, name, given in (
            ("bert", "Bert", ENC), ("roberta", "Roberta", ENC), ("xlm-roberta", "XLMRoberta", ENC),
            ("camembert", "Camembert", ENC), ("modernbert", "ModernBert", MB), ("distilbert", "DistilBert", DB)):
        for case, more in ("2 labels", {}), ("1 label", {"num_labels": 1}), ("5 labels", {"num_labels": 5}), ("named labels", names):
            yield kind, f"sequence, {case}", f"{name}ForSequenceClassification", {**given, **more}
    v3 = dict(DENSE, num_hidden_layers=4, num_key_value_heads=4, kv_lora_rank=8, q_lora_rank=12,
              qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, moe_intermediate_size=20,
              n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1,
              first_k_dense_replace=1, num_nextn_predict_layers=0)
    further = {"num_nextn_predict_layers": 1}
    dsa = dict(v3, index_head_dim=8, index_n_heads=4)
    yield "deepseek_v3", FURTHER, "DeepseekV3ForCausalLM", {**v3, **further}
    yield "glm4_moe_lite", FURTHER, "Glm4MoeLiteForCausalLM", {**v3, **further}
    yield "glm_moe_dsa", FURTHER, "GlmMoeDsaForCausalLM", {**dsa, **further}
    yield "deepseek_v32", FURTHER, "DeepseekV32ForCausalLM", {**dsa, **further}
    yield "glm4_moe", FURTHER, "Glm4MoeForCausalLM", dict(
        KV2, n_routed_experts=4, moe_intermediate_size=20, first_k_dense_replace=1, use_qk_norm=True, **further)
    for kind in "deepseek_v3", "kimi_k2":
        yield kind, "plain", "DeepseekV3ForCausalLM", v3
        yield kind, "biased", "DeepseekV3ForCausalLM", dict(
            v3, q_lora_rank=None, attention_bias=True, n_shared_experts=2)
    gemma3n = dict(G3N, altup_num_inputs=4, layer_types=SLIDE)
    yield "gemma3n_text", "four inputs", "Gemma3nForCausalLM", gemma3n
    yield "gemma3n_text", "four inputs, untied", "Gemma3nForCausalLM", dict(
        gemma3n, num_kv_shared_layers=0, tie_word_embeddings=False,
        intermediate_size=[48, 40, 48, 64], vocab_size_per_layer_input=120)
    oss = dict(KV2, num_local_experts=3, head_dim=10)
    yield "gpt_oss", "plain", "GptOssForCausalLM", oss
    yield "gpt_oss", "tied", "GptOssForCausalLM", dict(oss, tie_word_embeddings=True,
                                                       attention_bias=False)
    gemma3 = dict(text_config=dict(KV2, head_dim=10, pad_token_id=0), vision_config=dict(SIGV, hidden_size=40),
                  mm_tokens_per_image=1)
    yield "gemma3", "plain", "Gemma3ForConditionalGeneration", gemma3
    yield "gemma3", "base", "Gemma3Model", gemma3
    for kind, name, config in (
            ("qwen2_vl_text", "Qwen2VLTextModel", TEXT2), ("qwen2_5_vl_text", "Qwen2_5_VLTextModel", TEXT2),
            ("qwen3_vl_text", "Qwen3VLTextModel", T3), ("qwen3_vl_moe_text", "Qwen3VLMoeTextModel", T3M),
            ("mllama_text_model", "MllamaTextModel", MT), ("mllama_vision_model", "MllamaVisionModel", MV),
            ("internvl_vision", "InternVLVisionModel", IV), ("gemma4_vision", "Gemma4VisionModel", G4V),
            ("llama4_vision_model", "Llama4VisionModel", L4V)):
        yield kind, "part", name, config
    llama3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                  original_max_position_embeddings=64, rope_theta=1e4)
    long = dict(rope_type="longrope", short_factor=[1.0] * 4, long_factor=[2.0] * 4, rope_theta=1e4,
                original_max_position_embeddings=64)
    yield "llama4", "rope llama3", "Llama4ForConditionalGeneration", dict(
        vision_config=L4V, text_config=dict(
            KV2, head_dim=10, intermediate_size_mlp=56, num_local_experts=3, pad_token_id=0,
            rope_parameters=llama3, rope_scaling=llama3))
    dynamic = dict(rope_type="dynamic", alpha=1000.0, factor=1.0, rope_theta=1e4)
    for kind, name, scaling in (
            ("llama", "Llama", llama3), ("exaone4", "Exaone4", llama3), ("apertus", "Apertus", llama3),
            ("smollm3", "SmolLM3", llama3), ("granite", "Granite", llama3), ("arcee", "Arcee", llama3),
            ("mistral", "Mistral", llama3), ("mixtral", "Mixtral", llama3), ("phi3", "Phi3", long), ("phimoe", "Phimoe", long), ("minicpm3", "MiniCPM3", long),
            ("llama", "Llama", long), ("hunyuan_v1_dense", "HunYuanDenseV1", dynamic)):
        more = dict(num_local_experts=3) if kind in ("mixtral", "phimoe") else {}
        if kind == "minicpm3":
            more = dict(kv_lora_rank=8, q_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=8,
                        v_head_dim=5, num_key_value_heads=4)
        yield kind, "rope " + scaling["rope_type"], f"{name}ForCausalLM", {
            **KV2, "head_dim": 8, "pad_token_id": 0, "max_position_embeddings": 256,
            "original_max_position_embeddings": 64, "rope_parameters": scaling, "rope_scaling": scaling, **more}


def cases():
    """(model type, case, class, config)"""
    from architecture_cases import CASES as other
    from record_architectures import CASES as causal
    from record_architectures import classes_of

    for kind, (base, changes) in causal.items():
        classes = classes_of(kind)
        if "causal" not in classes:
            continue
        for number, change in enumerate(changes):
            case = ",".join(f"{k}={v}" for k, v in change.items()) or "plain"
            tokens = {"bos_token_id": 0, "eos_token_id": 0}
            if "pad_token_id" not in base:
                tokens["pad_token_id"] = 0
            config = {**tokens, **base, **change}
            yield kind, case, classes["causal"], config
            if number == 0:
                for what in ("base", "sequence", "token", "answer"):
                    if what in classes:
                        yield kind, f"{case} ({what})", classes[what], config
    for kind, some in other.items():
        for case, name, config in some:
            yield kind, case, name, config
    yield from more_cases()


def released():
    """(case, config) of models under the names of their released checkpoints."""
    base = dict(vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
                num_attention_heads=4, max_position_embeddings=64, rms_norm_eps=1e-6,
                transformers_version="4.57.1", torch_dtype="bfloat16")

    def of(kind, name, **more):
        return {"model_type": kind, "architectures": [name], **base, **more}

    qwen = of("qwen", "QWenLMHeadModel", intermediate_size=96, kv_channels=8, seq_length=64,
              layer_norm_epsilon=1e-6, tie_word_embeddings=False)
    yield "plain", {**qwen, "no_bias": True}
    yield "biases", {**qwen, "no_bias": False, "num_hidden_layers": 2}
    # Falcon before it was in transformers.
    old = dict(vocab_size=96, hidden_size=32, n_layer=2, n_head=4, layer_norm_epsilon=1e-5,
               transformers_version="4.27.4", torch_dtype="bfloat16")
    for name in "RWForCausalLM", "FalconForCausalLM":
        yield f"40B, {name}", {"model_type": "RefinedWeb", "architectures": [name], **old, "n_head_kv": 2, "bias": False}
    yield "7B", {"model_type": "RefinedWebModel", "architectures": ["RWForCausalLM"], **old,
                 "multi_query": True, "parallel_attn": True, "bias": False}
    yield "1B", {"model_type": "RefinedWebModel", "architectures": ["RWForCausalLM"], **old,
                 "multi_query": False, "parallel_attn": False, "bias": True, "alibi": True}
    latent = dict(kv_lora_rank=8, q_lora_rank=None, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
                  moe_intermediate_size=20, first_k_dense_replace=1, routed_scaling_factor=1.5)
    kimi = of("kimi_linear", "KimiLinearForCausalLM", num_key_value_heads=4, **latent, num_experts=5,
              num_experts_per_token=2, num_shared_experts=1, num_expert_group=1, topk_group=1,
              num_nextn_predict_layers=0, tie_word_embeddings=False,
              linear_attn_config=dict(full_attn_layers=[2], kda_layers=[1, 3], head_dim=6, num_heads=4, short_conv_kernel_size=4))
    yield "one head of keys", {**kimi, "num_key_value_heads": 1}
    yield "plain", kimi
    yield "two dense layers", {**kimi, "num_shared_experts": 2, "first_k_dense_replace": 2}
    deepseek = {**base, **latent, "model_type": "kimi_k2", "architectures": ["DeepseekV3ForCausalLM"],
                "num_key_value_heads": 4, "n_routed_experts": 5, "n_shared_experts": 1, "num_experts_per_tok": 2,
                "n_group": 1, "topk_group": 1, "num_nextn_predict_layers": 0, "tie_word_embeddings": False}
    tower = dict(vt_hidden_size=16, vt_num_hidden_layers=1, vt_num_attention_heads=2, vt_intermediate_size=24, patch_size=14,
                 init_pos_emb_height=4, init_pos_emb_width=4, init_pos_emb_time=2, merge_kernel_size=[2, 2],
                 mm_hidden_size=16, text_hidden_size=32, projector_hidden_size=16)
    for case, text in ("plain", deepseek), ("narrow queries", {**deepseek, "q_lora_rank": 10}):
        yield case, {"model_type": "kimi_k25", "architectures": ["KimiK25ForConditionalGeneration"],
                     "text_config": text, "vision_config": tower, "tie_word_embeddings": False,
                     "transformers_version": "4.57.1", "torch_dtype": "bfloat16"}
    minimax = dict(num_key_value_heads=2, head_dim=8, num_local_experts=3, num_experts_per_tok=2, rotary_dim=4,
                   tie_word_embeddings=False, attn_type_list=[0, 1, 0], shared_intermediate_size=0,
                   **{f"layernorm_{what}_{which}": 1.0 for what in ("full_attention", "linear_attention", "mlp") for which in ("alpha", "beta")})
    yield "M1", of("minimax_m1", "MiniMaxM1ForCausalLM", **minimax)
    yield "Text 01", of("minimax_text_01", "MiniMaxText01ForCausalLM", **minimax)
    m3 = dict(num_key_value_heads=2, head_dim=8, dense_intermediate_size=40, shared_intermediate_size=24, num_local_experts=3,
              num_experts_per_tok=2, rotary_dim=4, n_shared_experts=1, routed_scaling_factor=2.0, use_qk_norm=True,
              qk_norm_type="per_head", use_routing_bias=True, tie_word_embeddings=False, moe_layer_freq=[0, 1, 1],
              sparse_attention_config=dict(sparse_num_index_heads=2, sparse_index_dim=6, sparse_topk_blocks=2, sparse_block_size=16,
                                           sparse_local_block=1, sparse_attention_freq=[0, 1, 1]))
    yield "plain", of("minimax_m3", "MiniMaxM3SparseForCausalLM", **m3)
    yield "plain", {"model_type": "minimax_m3_vl", "architectures": ["MiniMaxM3SparseForConditionalGeneration"],
                    "text_config": {**base, **m3, "model_type": "minimax_m3_vl_text"},
                    "vision_config": dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, patch_size=14,
                                          image_size=28, projection_dim=32),
                    "projector_hidden_size": 32, "transformers_version": "4.57.1", "torch_dtype": "bfloat16"}
    step = of("step3p5", "Step3p5ForCausalLM", num_attention_groups=2, head_dim=8, sliding_window=16, attention_bias=False, mlp_bias=False,
              tie_word_embeddings=False, moe_num_experts=5, moe_top_k=2, moe_intermediate_size=20, share_expert_dim=24,
              moe_layers_enum="1,2", rope_theta=10000.0, layer_types=["full_attention", "sliding_attention", "full_attention"],
              partial_rotary_factors=[0.5, 1.0, 0.5], attention_other_setting=dict(num_attention_heads=6, num_attention_groups=2))
    yield "plain", step
    llama3 = {**step, "rope_scaling": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                       "original_max_position_embeddings": 32}}
    yield "rope llama3", llama3
    for case, text in ("plain", step), ("rope llama3", llama3):
        yield case, {"model_type": "step3p7", "architectures": ["Step3p7ForConditionalGeneration"], "text_config": text,
                     "vision_config": dict(width=16, layers=1, heads=2, image_size=56, patch_size=14),
                     "transformers_version": "4.57.1", "torch_dtype": "bfloat16", "tie_word_embeddings": False}
    # Its encoder of images has 300 million parameters, whatever the config says.
    from architecture_cases import G3N, SLIDE

    text = dict(G3N, model_type="gemma3n_text", altup_num_inputs=4, layer_types=SLIDE, activation_sparsity_pattern=[0.0] * 4)
    yield "plain", {"model_type": "gemma3n", "architectures": ["Gemma3nForConditionalGeneration"], "text_config": text,
                    "audio_config": dict(model_type="gemma3n_audio", hidden_size=24, conf_num_hidden_layers=1, conf_num_attention_heads=4, vocab_size=16),
                    "vision_config": dict(model_type="gemma3n_vision"), "transformers_version": "4.57.1", "torch_dtype": "bfloat16"}
    # transformers calls its class PhimoeForCausalLM; the released checkpoint has that of its own code.
    phimoe = of("phimoe", "PhiMoEForCausalLM", num_key_value_heads=2, num_local_experts=3, num_experts_per_tok=2,
                original_max_position_embeddings=64, attention_bias=True, lm_head_bias=True, tie_word_embeddings=False)
    yield "plain", phimoe
    yield "rope longrope", {**phimoe, "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "short_mscale": 1.2,
                                                       "long_mscale": 1.2, "original_max_position_embeddings": 64}}


def model_class(name, kind):
    import transformers

    try:
        return getattr(transformers, name)
    except AttributeError:
        package = transformers.CONFIG_MAPPING[kind].__module__.rsplit(".", 1)
        module = package[1].replace("configuration_", "modeling_")
        return getattr(importlib.import_module(f"{package[0]}.{module}"), name)


def folded(tensors):
    """[(name, shape, dtype)] with numbers replaced, and counted."""
    count = collections.Counter((re.sub(r"\d+", "*", name), tuple(shape), dtype)
                                for name, shape, dtype in tensors)
    return [[name, list(shape), n, dtype]
            for (name, shape, dtype), n in sorted(count.items(), key=lambda item: str(item))]


def header(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        names = json.loads(file.read(size))
    return {name: what["shape"] for name, what in names.items() if name != "__metadata__"}


def build(kind, class_name, config):
    import torch
    import transformers

    torch.manual_seed(0)
    loaded = transformers.AutoConfig.for_model(kind, **json.loads(json.dumps(config)))
    return model_class(class_name, kind)(loaded)


def handed_over(model, **options):
    """What save_pretrained would write, and the config that it does write."""
    import transformers

    handed = {}

    def take(tensors, *_, **__):
        handed.update({name: list(tensor.shape) for name, tensor in tensors.items()})

    modeling = transformers.modeling_utils
    save_file = modeling.safe_save_file
    modeling.safe_save_file = take
    try:
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder, **options)
            return handed, json.loads(pathlib.Path(folder, "config.json").read_text())
    finally:
        modeling.safe_save_file = save_file


def in_memory(model, major):
    """Names and shapes of the model, those of tied tensors once."""
    if major < 5:
        mapping = model._checkpoint_conversion_mapping
        model._checkpoint_conversion_mapping = {}
        tensors, _ = handed_over(model)
        model._checkpoint_conversion_mapping = mapping
    else:
        tensors, _ = handed_over(model, save_original_format=False)
    state = model.state_dict()
    kept = {state[name].data_ptr() for name in tensors}
    for name, tensor in state.items():  # those that are never saved
        if name not in tensors and tensor.data_ptr() not in kept:
            tensors[name] = list(tensor.shape)
    return tensors


def as_published(config):
    """The sizes of Gemma 4's heads as its published configs have them."""
    text = config.get("text_config", config)
    sizes = text.get("per_layer_config")
    if sizes and all(list(layer) == ["head_dim"] for layer in sizes.values()):
        del text["per_layer_config"]
        text["global_head_dim"] = next(iter(sizes.values()))["head_dim"]


def record_memory(kind, case, class_name, config, keep=None):
    import transformers

    version = transformers.__version__
    major = int(version.split(".")[0])
    model = build(kind, class_name, config)
    saved, written = handed_over(model)
    tensors = in_memory(model, major)
    written.setdefault("architectures", [class_name])  # Qwen2-VL of 4.57 leaves it out
    as_published(written)
    as_released(case, written, saved)
    row = {"scheme": f"transformers-{major}", "case": case, "by": f"transformers {version}",
           "config": written,
           "tensors": folded((name, shape, None) for name, shape in tensors.items()),
           "saved": saved, "full": tensors}
    if keep:
        model.save_pretrained(keep)
        (keep / "row.json").write_text(json.dumps(row))
    return row


def record_again(folder):
    """A model that another version saved, in the memory of this one."""
    import transformers

    version = transformers.__version__
    row = json.loads((folder / "row.json").read_text())
    config = row["config"]
    model = model_class(config["architectures"][0], config["model_type"]).from_pretrained(folder)
    tensors = in_memory(model, int(version.split(".")[0]))
    return {**row, "scheme": f"transformers-{version.split('.')[0]}",
            "case": f"{row['case']}, saved by {row['by']}", "by": f"transformers {version}",
            "tensors": folded((name, shape, None) for name, shape in tensors.items()),
            "full": tensors}


def no_vocabulary(converter):
    """The names of tensors need no tokenizer."""
    for base in [converter, *converter.__mro__]:
        if "set_vocab" in vars(base):
            base.set_vocab = lambda self: None


def written_gguf(conversion_of, out):
    """[(name, shape, f32 or none)] of the file, or of what was to be written: the
    metadata of a small config may lack what the converter asks for."""
    import gguf

    def dtype(tensor_type):
        return "f32" if tensor_type == gguf.GGMLQuantizationType.F32 else None

    conversion_of.prepare_tensors()
    (tensors,) = conversion_of.gguf_writer.tensors
    prepared = [(name, list(map(int, info.shape)), dtype(info.dtype)) for name, info in tensors.items()]
    conversion_of.prepare_tensors = lambda: None
    try:
        conversion_of.write()
    except Exception:
        return prepared
    return [(tensor.name, [int(n) for n in reversed(tensor.shape)], dtype(tensor.tensor_type))
            for tensor in gguf.GGUFReader(out).tensors]


# What the converter asks of a config beyond what its tensors need.
ASKED = {
    "t5": {"decoder_start_token_id": 0},
    "glm4_moe_lite": {"num_key_value_heads": 4}, "youtu": {"num_key_value_heads": 4},
    "deepseek_v32": {"num_key_value_heads": 4}, "minicpm3": {"num_key_value_heads": 4},
    "falcon_h1": {"mamba_d_ssm": 64},
}


def convert(folder, case):
    """What the converter makes of the text model of a folder."""
    import conversion
    import gguf
    import torch

    hparams = conversion.ModelBase.load_hparams(folder, False)
    name = conversion.get_model_architecture(hparams, conversion.ModelType.TEXT)
    converter = conversion.get_model_class(name, mmproj=False)
    no_vocabulary(converter)
    converter.no_mtp = converter.supports_mtp_export and case != FURTHER
    out = folder / "out.gguf"
    with torch.inference_mode():
        conversion_of = converter(folder, gguf.LlamaFileType.MOSTLY_BF16, out)
        conversion_of = getattr(conversion_of, "impl", conversion_of)
        return written_gguf(conversion_of, out)


def record_released(program, case, config):
    """A checkpoint of zeros with the names and shapes that the program gives."""
    import torch
    import transformers
    from safetensors.torch import save_file

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "config.json").write_text(json.dumps(config))
        saved = given(program, folder / "config.json")
        zeros = {name: torch.zeros(shape, dtype=torch.bfloat16) for name, shape in saved.items()}
        save_file(zeros, folder / "model.safetensors", metadata={"format": "pt"})
        tensors = convert(folder, case)
    return {"scheme": "gguf", "case": case,
            "by": f"llama-cpp-python {LLAMA_CPP}, transformers {transformers.__version__}",
            "config": config, "tensors": folded(tensors), "saved": saved,
            "full": {name: [shape, dtype] for name, shape, dtype in tensors}}


def record_gguf(kind, case, class_name, config):
    import torch
    import transformers
    from safetensors.torch import save_file

    if kind == "qwen3_vl_moe" and transformers.__version__ >= "5":
        raise ValueError("experts that 5 saves are taken for those of 4, and cut the wrong way")
    said = {key: value for key, value in config.items() if value is not None}
    model = build(kind, class_name, {**config, **ASKED.get(kind, {}), **said})
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        folder = pathlib.Path(folder)
        vocabulary = {str(i): i for i in range(96)}
        (folder / "tokenizer.json").write_text(
            json.dumps({"model": {"vocab": vocabulary}, "added_tokens": []}))
        written = json.loads((folder / "config.json").read_text())
        as_published(written)
        (folder / "config.json").write_text(json.dumps(written))
        saved = header(folder / "model.safetensors")
        as_released(case, written, saved)
        if case in (FIRST, FURTHER):
            (folder / "config.json").write_text(json.dumps(written))
            zeros = {name: torch.zeros(shape) for name, shape in saved.items()}
            save_file(zeros, folder / "model.safetensors", metadata={"format": "pt"})
        tensors = convert(folder, case)
    return {"scheme": "gguf", "case": case,
            "by": f"llama-cpp-python {LLAMA_CPP}, transformers {transformers.__version__}",
            "config": written, "tensors": folded(tensors), "saved": saved,
            "full": {name: [shape, dtype] for name, shape, dtype in tensors}}


LLAMA_CPP = ""


def lean(config):
    """Without keys that say nothing of tensors."""
    if isinstance(config, dict):
        return {key: lean(value) for key, value in config.items()
                if not NOISE.search(key) and "Infinity" not in json.dumps(value)}
    return config


def given(program, path):
    """Names and shapes that the program gives a config; none where it refuses it."""
    run = subprocess.run([program, "inspect", path, "--json", "--expand", "--isolated"],
                         capture_output=True, text=True)
    if run.returncode != 0:
        return None
    tables = json.loads(run.stdout)["tables"]
    return {tensor[key]: tensor["shape"]
            for table, key in (("parameters", "parameter"), ("buffers", "buffer"))
            for tensor in tables.get(table, [])}


def reads(program, row):
    """Whether the program gives the names that were saved."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "config.json")
        path.write_text(json.dumps(lean(row["config"])))
        return row["saved"] == given(program, path)


def merge(program, files, add):
    out = pathlib.Path(__file__).parent / "schemes.jsonl"
    rows = [json.loads(line) for file in files for line in open(file)]
    schemes = set() if add else {row["scheme"] for row in rows}
    lines = []
    if out.exists():
        lines = [line for line in out.read_text().splitlines(keepends=True)
                 if json.loads(line)["scheme"] not in schemes]
    same = [row for row in rows if row["scheme"] != "gguf" and row["saved"] == row["full"]]
    same.sort(key=lambda row: len(json.dumps(row["tensors"])))
    renamed = [row for row in rows if row["scheme"] == "gguf" or row["saved"] != row["full"]]
    known = collections.defaultdict(set)
    for line in lines:
        row = json.loads(line)
        known[row["scheme"], row["config"]["model_type"]] |= {name for name, *_ in row["tensors"]}
    for number, row in enumerate(renamed + same):
        config = row["config"]
        key = row["scheme"], config["model_type"]
        names = {name for name, *_ in row["tensors"]}
        if row["scheme"] != "gguf":
            saved, full = row["saved"].items(), row["full"].items()
            names = {re.sub(r"\d+", "*", name) for name, shape in saved if (name, shape) not in full}
            names |= {re.sub(r"\d+", "*", name) for name, shape in full if (name, shape) not in saved}
        if (key in known if number >= len(renamed) else names <= known[key]) or not reads(program, row):
            continue
        known[key] |= names
        kept = {"scheme": row["scheme"], "case": row["case"], "by": row["by"],
                "config": lean(config), "tensors": row["tensors"]}
        lines.append(json.dumps(kept, separators=(",", ":")) + "\n")
    out.write_text("".join(lines))
    print(collections.Counter(json.loads(line)["scheme"] for line in lines))


def main():
    global LLAMA_CPP
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--llama-cpp", type=pathlib.Path)
    parser.add_argument("--types", type=lambda text: text.split(","))
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--of", type=pathlib.Path)
    parser.add_argument("--released", metavar="SHARDPLAN")
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("--add", action="store_true")
    args = parser.parse_args()
    if args.merge:
        return merge(args.files[0], args.files[1:], args.add)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    record = record_memory
    if args.llama_cpp:
        sys.path[:0] = [str(args.llama_cpp), str(args.llama_cpp / "gguf-py")]
        LLAMA_CPP = re.search(r"[\d.]+\d", args.llama_cpp.resolve().parts[-3])[0]
        record = record_gguf
    out = pathlib.Path(args.files[0])
    lines = []
    if out.exists() and args.types:
        lines = [line for line in out.read_text().splitlines(keepends=True)
                 if json.loads(line)["config"]["model_type"] not in args.types]
    missing = set()
    if args.released:
        for case, config in released():
            if args.types and config["model_type"] not in args.types:
                continue
            try:
                lines.append(json.dumps(record_released(args.released, case, config)) + "\n")
            except (Exception, SystemExit) as error:
                print(config["model_type"], case, f"{type(error).__name__}: {error}"[:250], flush=True)
        out.write_text("".join(lines))
        return
    if args.of:
        for folder in sorted(args.of.iterdir()):
            try:
                lines.append(json.dumps(record_again(folder)) + "\n")
            except Exception as error:
                print(folder.name, f"{type(error).__name__}: {error}"[:250], flush=True)
        out.write_text("".join(lines))
        return
    for number, (kind, case, class_name, config) in enumerate(cases()):
        if args.types and kind not in args.types or kind in missing:
            continue
        if kind not in transformers.CONFIG_MAPPING:
            missing.add(kind)
            continue
        more = {"keep": args.keep / f"{number:04d}"} if args.keep else {}
        try:
            lines.append(json.dumps(record(kind, case, class_name, config, **more)) + "\n")
        except (Exception, SystemExit) as error:
            print(kind, case, class_name, f"{type(error).__name__}: {error}"[:250], flush=True)
    out.write_text("".join(lines))
    print("not in", transformers.__version__, *sorted(missing))


if __name__ == "__main__":
    sys.exit(main())
