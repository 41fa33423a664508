# SPDX-License-Identifier: Apache-2.0
"""Records what the modules of transformers have, as the judge of hf_config.

Builds every case on the meta device (no weights, no downloads), renames its
state to the names that checkpoints on the Hub have, and writes tests/data/hf:
whole lists for the small cases below, folded ones for tests/data/configs.

    pip install transformers==4.57.3 torch
    python tests/data/record_hf_manifests.py

Known differences between the modules and the Hub, undone here:
- a tied lm_head is in the state dict, but not in the file, as is bert's
  cls.predictions.decoder;
- GPT-2 checkpoints lack the prefix `transformer.` and hold the causal masks;
- gemma3 with vision was renamed by transformers 4.52 after the Hub;
- gpt_oss experts are replaced by the MXFP4 module, deepseek_v3 linears by the
  FP8 one, where the config says so;
- transformers drops DeepSeek's MTP layer: not judged here.
"""

import json
import pathlib
import re

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations.finegrained_fp8 import FP8Linear
from transformers.integrations.mxfp4 import Mxfp4GptOssExperts

DATA = pathlib.Path(__file__).parent
OUT = DATA / "hf"

DENSE = dict(vocab_size=96, hidden_size=32, intermediate_size=48,
             num_hidden_layers=2, num_attention_heads=4)
VISION = dict(hidden_size=24, image_size=28, intermediate_size=40,
              model_type="siglip_vision_model", num_attention_heads=2,
              num_hidden_layers=2, patch_size=14, vision_use_head=False)
MLA = dict(kv_lora_rank=8, q_lora_rank=12, qk_nope_head_dim=6,
           qk_rope_head_dim=4, v_head_dim=5)
V3 = dict(DENSE, **MLA, moe_intermediate_size=16, n_routed_experts=4,
          n_shared_experts=2, first_k_dense_replace=1, n_group=1, topk_group=1,
          num_experts_per_tok=2, num_key_value_heads=4)
BERT = dict(DENSE, model_type="bert", max_position_embeddings=20)
FP8 = dict(quant_method="fp8", weight_block_size=[16, 16], fmt="e4m3")
SMALL = {
    "llama": dict(DENSE, model_type="llama"),
    "llama-kv-null": dict(DENSE, model_type="llama", num_key_value_heads=None,
                          head_dim=None),
    "llama-tied-biased": dict(DENSE, model_type="llama", num_key_value_heads=2,
                              head_dim=24, tie_word_embeddings=True,
                              attention_bias=True, mlp_bias=True),
    "mistral": dict(DENSE, model_type="mistral", num_attention_heads=8),
    "mistral-head-dim": dict(DENSE, model_type="mistral", head_dim=10,
                             num_key_value_heads=2),
    "qwen2": dict(DENSE, model_type="qwen2", num_key_value_heads=2),
    "qwen2-default-kv": dict(DENSE, model_type="qwen2",
                             num_attention_heads=32),
    "qwen2-tied": dict(DENSE, model_type="qwen2", num_key_value_heads=None,
                       tie_word_embeddings=True),
    "qwen3": dict(DENSE, model_type="qwen3", num_key_value_heads=2),
    "qwen3-biased": dict(DENSE, model_type="qwen3", num_key_value_heads=2,
                         head_dim=10, attention_bias=True),
    "qwen3-kv-null": dict(DENSE, model_type="qwen3", num_key_value_heads=None),
    "mixtral": dict(DENSE, model_type="mixtral", num_attention_heads=8,
                    num_local_experts=3),
    "mixtral-nulls": dict(DENSE, model_type="mixtral", num_local_experts=2,
                          num_key_value_heads=None, head_dim=None),
    "qwen3_moe": dict(DENSE, model_type="qwen3_moe", num_experts=3,
                      moe_intermediate_size=20),
    "qwen3_moe-some-dense": dict(
        DENSE, model_type="qwen3_moe", num_hidden_layers=6, num_experts=3,
        decoder_sparse_step=2, mlp_only_layers=[3], head_dim=10,
        moe_intermediate_size=20, num_key_value_heads=2, attention_bias=True),
    "gemma2": dict(DENSE, model_type="gemma2"),
    "gemma2-untied": dict(DENSE, model_type="gemma2", num_key_value_heads=2,
                          head_dim=10, attention_bias=True,
                          tie_word_embeddings=False),
    "gemma3_text": dict(DENSE, model_type="gemma3_text"),
    "gemma3_text-untied": dict(DENSE, model_type="gemma3_text", head_dim=10,
                               num_key_value_heads=2, attention_bias=True,
                               tie_word_embeddings=False),
    "gemma3": dict(model_type="gemma3", vision_config=VISION,
                   mm_tokens_per_image=4,
                   architectures=["Gemma3ForConditionalGeneration"],
                   text_config=dict(model_type="gemma3_text", hidden_size=32,
                                    intermediate_size=48,
                                    num_hidden_layers=2)),
    "gpt2": dict(model_type="gpt2", vocab_size=96, n_embd=32, n_layer=2,
                 n_head=4, n_positions=16),
    "gpt2-inner": dict(model_type="gpt2", vocab_size=96, n_embd=32, n_layer=1,
                       n_head=4, n_positions=16, n_inner=40),
    "bert": dict(BERT, architectures=["BertModel"]),
    "bert-masked-lm": dict(BERT, architectures=["BertForMaskedLM"],
                           type_vocab_size=3),
    "gpt_oss": dict(DENSE, model_type="gpt_oss", num_local_experts=3,
                    num_attention_heads=8),
    "gpt_oss-nulls": dict(DENSE, model_type="gpt_oss", num_local_experts=3,
                          num_key_value_heads=None, head_dim=None),
    "gpt_oss-mxfp4": dict(DENSE, model_type="gpt_oss", num_local_experts=3,
                          intermediate_size=64, head_dim=12,
                          num_key_value_heads=2, attention_bias=False,
                          quantization_config=dict(quant_method="mxfp4")),
    "deepseek_v3": dict(V3, model_type="deepseek_v3"),
    "deepseek_v3-biased": dict(V3, model_type="deepseek_v3", q_lora_rank=None,
                               attention_bias=True),
    "deepseek_v3-biased-lora": dict(V3, model_type="deepseek_v3",
                                    attention_bias=True),
    "deepseek_v3-fp8": dict(V3, model_type="deepseek_v3",
                            quantization_config=FP8),
}


def build(config):
    config = dict(config)
    quantization = config.pop("quantization_config", {})
    loaded = AutoConfig.for_model(**config)
    with torch.device("meta"):
        kind = AutoModelForCausalLM
        if config["model_type"] == "gemma3":
            kind = transformers.AutoModelForImageTextToText
        if config["model_type"] == "bert":
            kind = {"BertModel": transformers.AutoModel,
                    "BertForMaskedLM": transformers.AutoModelForMaskedLM}[
                        config["architectures"][0]]
        model = kind.from_config(loaded)
        if quantization.get("quant_method") == "mxfp4":
            for layer in model.model.layers:
                layer.mlp.experts = Mxfp4GptOssExperts(loaded)
        if quantization.get("quant_method") == "fp8":
            use_fp8(model.model.layers, quantization["weight_block_size"])
    return model, loaded


def use_fp8(layers, block):
    linears = [(name, module) for name, module in layers.named_modules()
               if isinstance(module, torch.nn.Linear)]
    for name, module in linears:
        parent, _, leaf = name.rpartition(".")
        setattr(layers.get_submodule(parent), leaf,
                FP8Linear(module.in_features, module.out_features,
                          module.bias is not None, block_size=tuple(block)))


def hub_state(model, config):
    state = [(name, list(t.shape)) for name, t in model.state_dict().items()]
    if getattr(config, "tie_word_embeddings", True):
        state = [(name, s) for name, s in state
                 if name != "lm_head.weight" and ".decoder." not in name]
    if config.model_type == "gpt2":
        state += [(name, list(t.shape)) for name, t in model.named_buffers()
                  if name.endswith(".attn.bias")]
        state = [(name.removeprefix("transformer."), s) for name, s in state]
    if config.model_type == "gemma3":
        mapping = model._checkpoint_conversion_mapping
        for hub, module in mapping.items():
            state = [(re.sub("^" + re.escape(module), hub.lstrip("^"), name), s)
                     for name, s in state]
    return state


def folded(state):
    classes = {}
    for name, shape in state:
        key = (re.sub(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)", "*", name), tuple(shape))
        classes[key] = classes.get(key, 0) + 1
    return [[name, list(shape), n] for (name, shape), n in classes.items()]


def write(name, record, rows_key):
    rows = record.pop(rows_key)
    text = json.dumps(record, indent=2)[:-2]
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    text += f',\n  "{rows_key}": [\n{lines}\n  ]\n}}\n'
    (OUT / f"{name}.json").write_text(text)
    print(name, len(rows))


def main():
    OUT.mkdir(exist_ok=True)
    source = f"transformers {transformers.__version__}"
    for name, config in SMALL.items():
        state = hub_state(*build(config))
        write(f"small-{name}", {"source": source, "config": config,
                                "tensors": state}, "tensors")
    for path in sorted((DATA / "configs").glob("*.json")):
        config = json.loads(path.read_text())
        if config.get("num_nextn_predict_layers"):
            config["num_nextn_predict_layers"] = 0
        state = hub_state(*build(config))
        elements = sum(torch.Size(shape).numel() for _, shape in state)
        write(f"real-{path.stem}", {
            "source": source, "config_file": path.name,
            "tensor_count": len(state), "element_count": elements,
            "folded": folded(state)}, "folded")


if __name__ == "__main__":
    main()
