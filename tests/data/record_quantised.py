#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what libraries store of small quantised models: the judge of quantisation.

    python3 record_quantised.py v4.jsonl          # with transformers 4.57.6
    python3 record_quantised.py v5.jsonl          # with transformers 5.23.0
    python3 record_quantised.py v5.jsonl --methods bnb,mlx

and the two files one after the other are quantised.jsonl. Models have random weights
and are made on the CPU; nothing is downloaded. By method:

  fp8, bnb, torchao (0.18)
             from_pretrained with the quantisation, and save_pretrained
  ct         compressed-tensors 0.20: its config applied, the model compressed
  awq        transformers 4's replacement, with the layer of autoawq 0.2.9
  gptq       optimum 2.3's replacement, with the layer of auto-gptq 0.7.1
  modelopt   nvidia-modelopt 0.47: quantised and exported
  mlx        mlx-lm 0.32: its model of the type, quantised

A method whose library is not installed is left out. `AWQ` and `GPTQ` in the environment
name the files of the two layers (awq/modules/linear/gemm.py and
auto_gptq/nn_modules/qlinear/qlinear_cuda_old.py), whose packages do not install where
there is no GPU.

A line has
  method, case, transformers
  config    config.json as saved, with what is said of the quantisation
  beside    hf_quant_config.json, where there is one
  tensors   [name with every number replaced by *, dtype, shape, how many], sorted
"""
import argparse
import glob
import importlib.util
import json
import logging
import os
import re
import struct
import sys
import tempfile
import types
import warnings

SMALL = dict(vocab_size=256, hidden_size=128, intermediate_size=384, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, tie_word_embeddings=False)
ODD = dict(vocab_size=250, hidden_size=192, intermediate_size=320, num_hidden_layers=2, num_attention_heads=6,
           num_key_value_heads=3, head_dim=32, tie_word_embeddings=False)
MOE = dict(SMALL, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=128)
MLA = dict(SMALL, num_key_value_heads=4, kv_lora_rank=64, q_lora_rank=96, qk_nope_head_dim=32, qk_rope_head_dim=32, v_head_dim=32,
           n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, first_k_dense_replace=1, moe_intermediate_size=128, num_nextn_predict_layers=0)

# Type, class, keys.
MODELS = {
    "llama": ("llama", "LlamaForCausalLM", SMALL),
    "llama odd": ("llama", "LlamaForCausalLM", ODD),
    "llama tied": ("llama", "LlamaForCausalLM", dict(SMALL, tie_word_embeddings=True)),
    "llama biased": ("llama", "LlamaForCausalLM", dict(SMALL, attention_bias=True, mlp_bias=True)),
    "llama base": ("llama", "LlamaModel", SMALL),
    "llama sequence": ("llama", "LlamaForSequenceClassification", SMALL),
    "llama token": ("llama", "LlamaForTokenClassification", SMALL),
    "qwen2": ("qwen2", "Qwen2ForCausalLM", SMALL),
    "qwen3": ("qwen3", "Qwen3ForCausalLM", ODD),
    "gemma2": ("gemma2", "Gemma2ForCausalLM", dict(SMALL, head_dim=32, tie_word_embeddings=True)),
    "phi3": ("phi3", "Phi3ForCausalLM", SMALL),
    "mixtral": ("mixtral", "MixtralForCausalLM", dict(SMALL, num_local_experts=3)),
    "qwen3_moe": ("qwen3_moe", "Qwen3MoeForCausalLM", dict(MOE, mlp_only_layers=[1])),
    "qwen2_moe": ("qwen2_moe", "Qwen2MoeForCausalLM", dict(MOE, shared_expert_intermediate_size=128)),
    "deepseek_v3": ("deepseek_v3", "DeepseekV3ForCausalLM", MLA),
    "gpt_neox": ("gpt_neox", "GPTNeoXForCausalLM", {k: v for k, v in SMALL.items() if k != "num_key_value_heads"}),
    "opt": ("opt", "OPTForCausalLM", dict(vocab_size=256, hidden_size=128, ffn_dim=256, num_hidden_layers=2, num_attention_heads=4,
                                          max_position_embeddings=32, word_embed_proj_dim=128)),
    "qwen2_vl": ("qwen2_vl", "Qwen2VLForConditionalGeneration",
                 dict(text_config=dict(SMALL, rope_scaling={"type": "mrope", "mrope_section": [4, 6, 6]}),
                      vision_config=dict(depth=1, embed_dim=64, hidden_size=128, num_heads=4, mlp_ratio=2, patch_size=4),
                      tie_word_embeddings=False)),
}
TEXT = ["llama", "llama odd", "llama tied", "llama biased", "llama base", "llama sequence", "llama token", "qwen2", "qwen3", "gemma2", "phi3",
        "mixtral", "qwen3_moe", "qwen2_moe", "deepseek_v3", "gpt_neox", "opt"]

DTYPES = {"F64": "f64", "F32": "f32", "F16": "f16", "BF16": "bf16", "I64": "i64", "I32": "i32", "I16": "i16", "I8": "i8",
          "U64": "u64", "U32": "u32", "U16": "u16", "U8": "u8", "BOOL": "bool", "F8_E4M3": "f8_e4m3", "F8_E5M2": "f8_e5m2", "F8_E8M0": "f8_e8m0"}


def header(path):
    with open(path, "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        names = json.loads(f.read(size))
    return {name: (DTYPES[what["dtype"]], what["shape"]) for name, what in names.items() if name != "__metadata__"}


def folded(tensors):
    count = {}
    for name, (dtype, shape) in tensors.items():
        # Not the number in `qdq_0` and the like: layers are between dots.
        key = (re.sub(r"(?<=\.)\d+(?=\.)", "*", name), dtype, tuple(shape))
        count[key] = count.get(key, 0) + 1
    return [[name, dtype, list(shape), n] for (name, dtype, shape), n in sorted(count.items())]


def read_folder(folder):
    tensors = {}
    for path in glob.glob(os.path.join(folder, "*.safetensors")):
        tensors.update(header(path))
    with open(os.path.join(folder, "config.json")) as f:
        config = json.load(f)
    beside = None
    if os.path.exists(os.path.join(folder, "hf_quant_config.json")):
        with open(os.path.join(folder, "hf_quant_config.json")) as f:
            beside = json.load(f)
    return config, beside, folded(tensors)


def make(title, dtype="bfloat16"):
    import torch
    import transformers
    from transformers import AutoConfig

    torch.manual_seed(0)
    model_type, class_name, given = MODELS[title]
    config = AutoConfig.for_model(model_type, pad_token_id=0, bos_token_id=0, eos_token_id=0, **json.loads(json.dumps(given)))
    config.torch_dtype = getattr(torch, dtype)
    config.architectures = [class_name]
    model = getattr(transformers, class_name)(config).to(getattr(torch, dtype))
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):  # as from_pretrained leaves it
            buffer.data = buffer.data.float()
    return model, class_name


def loaded(title, quantisation, dtype="bfloat16"):
    """Quantised by transformers as it loads the model."""
    import torch
    import transformers

    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as folder:
        model, class_name = make(title, dtype)
        model.save_pretrained(plain)
        model = getattr(transformers, class_name).from_pretrained(
            plain, quantization_config=quantisation, dtype=getattr(torch, dtype), device_map="cpu")
        model.save_pretrained(folder)
        return read_folder(folder)


def fp8_cases():
    from transformers import FineGrainedFP8Config
    from transformers.quantizers import quantizer_finegrained_fp8 as quantizer

    quantizer.FineGrainedFP8HfQuantizer.validate_environment = lambda *_, **__: None
    lists = {"": None, "head and gates": ["lm_head", "mlp.gate"], "a layer": ["model.layers.0", "lm_head"], "attention": ["self_attn"],
             "nothing": ["nothing"], "end": ["down_proj", "q_b_proj"]}
    for title in TEXT + ["qwen2_vl"]:
        for name, kept in lists.items():
            if name and title not in ("llama", "qwen3_moe", "deepseek_v3", "mixtral"):
                continue
            # Version 4 makes scales of fewer dimensions where there is one block.
            for block in [(32, 32)] if name else [(128, 128), (32, 32), (16, 64)]:
                config = FineGrainedFP8Config(modules_to_not_convert=kept, weight_block_size=block)
                # Version 4 makes scales of the dtype of the model.
                yield f"{title}, {name or 'no list'}, {block[0]}", lambda t=title, c=config: loaded(t, c, "float32")


def bnb_cases():
    import torch
    from transformers import BitsAndBytesConfig

    for title in TEXT + ["qwen2_vl"]:
        for name, config in {
            "8 bits": dict(load_in_8bit=True),
            "4 bits": dict(load_in_4bit=True),
            "nf4, f16": dict(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float16),
        }.items():
            # Version 4 loads the biases of these routers in the dtype of the model.
            dtype = "float32" if title == "deepseek_v3" else "float16" if "f16" in name else "bfloat16"
            yield f"{title}, {name}", lambda t=title, c=config, d=dtype: loaded(t, BitsAndBytesConfig(**c), d)
    for title in ("llama", "qwen3_moe"):
        for name, kept in {"head": ["lm_head"], "attention": ["self_attn", "lm_head"], "a layer": ["model.layers.1", "lm_head"], "some": ["o_proj"],
                           "nothing": []}.items():
            yield f"{title}, 4 bits, {name}", lambda t=title, k=kept: loaded(t, BitsAndBytesConfig(load_in_4bit=True, llm_int8_skip_modules=k))
    yield "llama, double", lambda: loaded("llama", BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_use_double_quant=True))


def ct_scheme(bits, kind, strategy, inputs=None, **more):
    weights = dict(num_bits=bits, type=kind, strategy=strategy, symmetric=True, dynamic=False, **more)
    return dict(targets=["Linear"], weights=weights, input_activations=inputs)


def compressed(title, groups, ignore, form):
    import torch
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, QuantizationStatus, apply_quantization_config

    model, _ = make(title)
    given = json.loads(json.dumps(groups))
    config = QuantizationConfig(config_groups=given, ignore=ignore, format=form, quantization_status="initialized")
    with warnings.catch_warnings():
        apply_quantization_config(model, config)
    for name, parameter in model.named_parameters():
        if name.endswith(("_scale", "global_scale")):
            parameter.data = torch.ones_like(parameter)
    for module in model.modules():
        if hasattr(module, "quantization_status"):
            module.quantization_status = QuantizationStatus.FROZEN
    compressor = ModelCompressor.from_pretrained_model(model, quantization_format=form)
    compressor.compress_model(model)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        compressor.update_config(folder)
        return read_folder(folder)


def ct_cases():
    token = dict(num_bits=8, type="float", strategy="token", dynamic=True, symmetric=True)
    tokens = dict(token, type="int")
    static = dict(num_bits=8, type="float", strategy="tensor", dynamic=False, symmetric=True)
    local = dict(num_bits=4, type="float", strategy="tensor_group", dynamic="local", group_size=16, symmetric=True)
    schemes = {
        "fp8 channel": (ct_scheme(8, "float", "channel", token), "float-quantized"),
        "fp8 tensor": (ct_scheme(8, "float", "tensor", static), "float-quantized"),
        "fp8 block": (ct_scheme(8, "float", "block", token, block_structure=[128, 64]), "float-quantized"),
        "fp8 weights": (ct_scheme(8, "float", "channel"), "naive-quantized"),
        "int8 channel": (ct_scheme(8, "int", "channel", tokens), "int-quantized"),
        "int8 static": (ct_scheme(8, "int", "channel", dict(static, type="int")), "int-quantized"),
        "int4 group": (ct_scheme(4, "int", "group", group_size=64), "pack-quantized"),
        "int4 channel": (ct_scheme(4, "int", "channel"), "pack-quantized"),
        "int8 packed": (ct_scheme(8, "int", "group", group_size=32), "pack-quantized"),
        "nvfp4": (ct_scheme(4, "float", "tensor_group", local, group_size=16), "nvfp4-pack-quantized"),
        "nvfp4 weights": (ct_scheme(4, "float", "tensor_group", group_size=16), "nvfp4-pack-quantized"),
        "mxfp4": (ct_scheme(4, "float", "group", group_size=32), "mxfp4-pack-quantized"),
    }
    asymmetric = ct_scheme(4, "int", "group", group_size=64)
    asymmetric["weights"]["symmetric"] = False
    schemes["int4 asymmetric"] = (asymmetric, "pack-quantized")
    for name, (scheme, form) in schemes.items():
        for title in ["llama", "llama odd", "qwen2", "qwen3_moe", "deepseek_v3"]:
            yield f"{title}, {name}", lambda t=title, s=scheme, f=form: compressed(t, {"group_0": s}, ["lm_head", "re:.*mlp.gate$"], f)
    int4, form = schemes["int4 group"]
    for title in TEXT + ["qwen2_vl"]:
        yield f"{title}, head", lambda t=title: compressed(t, {"group_0": int4}, ["lm_head"], form)
    for name, ignore in {"nothing": [], "a layer": ["re:model.layers.0.*"], "names": ["lm_head", "model.layers.1.self_attn.q_proj", "model.layers.0.mlp"],
                         "middle": ["re:.*self_attn", "re:.*down_proj$"]}.items():
        yield f"llama, {name}", lambda i=ignore: compressed("llama", {"group_0": int4}, i, form)
    some = dict(int4, targets=["re:.*mlp.*proj$"])
    yield "llama, targets", lambda: compressed("llama", {"group_0": some}, [], form)
    names = dict(int4, targets=["model.layers.0.mlp.up_proj", "re:.*v_proj"])
    yield "llama, named targets", lambda: compressed("llama", {"group_0": names}, ["model.layers.1.self_attn.v_proj"], form)


def layer_class(path, name, stubs=()):
    import transformers.integrations.bitsandbytes  # which looks for packages

    for stub in stubs:
        module = types.ModuleType(stub)
        module.__getattr__ = lambda _: lambda *_, **__: (None, None)
        sys.modules[stub] = module
    spec = importlib.util.spec_from_file_location("layer_of_" + name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for stub in stubs:
        del sys.modules[stub]
    return getattr(module, name)


def awq(title, kept, group):
    import torch
    from transformers import AwqConfig
    from transformers.integrations import awq as integration
    from transformers.quantizers.base import HfQuantizer

    module = types.ModuleType("awq.modules.linear.gemm")
    module.WQLinear_GEMM = layer_class(os.environ["AWQ"], "WQLinear_GEMM",
                                       ["awq", "awq.modules", "awq.modules.linear", "awq.utils", "awq.utils.module", "awq.utils.utils", "awq.utils.packing_utils", "awq.modules.triton", "awq.modules.triton.gemm", "awq_ext"])
    sys.modules["awq.modules.linear.gemm"] = module
    integration.is_auto_awq_available = lambda: True
    model, _ = make(title, "float16")
    config = AwqConfig(bits=4, group_size=group, zero_point=True, version="gemm")
    config.modules_to_not_convert = kept  # given at once, the package would be asked for
    keys = HfQuantizer.get_modules_to_not_convert(model, kept, None, add_default_skips=True)
    integration.replace_with_awq_linear(model, modules_to_not_convert=keys, quantization_config=config)
    model.config.quantization_config = config.to_dict()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model.save_pretrained(folder)
        return read_folder(folder)


def awq_cases():
    import transformers

    if int(transformers.__version__.split(".")[0]) > 4:
        return
    for title in [t for t in TEXT if t != "gpt_neox"] + ["qwen2_vl"]:
        yield f"{title}, no list", lambda t=title: awq(t, None, 64)
    for name, kept in {"gate": ["gate"], "mlp.gate": ["mlp.gate."], "a layer": ["model.layers.0."], "some": ["k_proj", "v_proj"]}.items():
        for title in ("llama", "qwen3_moe", "mixtral"):
            yield f"{title}, {name}", lambda t=title, k=kept: awq(t, k, 128 if t != "llama" else -1)
    yield "qwen2_vl, visual", lambda: awq("qwen2_vl", ["visual"], 32)


def gptq(title, bits, group, **more):
    import torch
    from optimum.gptq import quantizer
    from optimum.gptq import utils

    layer = layer_class(os.environ["GPTQ"], "QuantLinear", ["auto_gptq", "auto_gptq.nn_modules"])

    def select(self, *_, **__):
        class Layer(layer):
            def __init__(self, bits, group_size, desc_act, sym, inputs, outputs, bias, weight_dtype):
                super().__init__(bits, group_size, inputs, outputs, bias, weight_dtype=weight_dtype)

        self.quant_linear = Layer

    quantizer.GPTQQuantizer.select_quant_linear = select
    quantizer.QuantizeConfig = lambda *_, **__: None
    quantizer.FORMAT = quantizer.METHOD = str
    model, _ = make(title, "float16")
    config = dict(bits=bits, group_size=group, desc_act=more.pop("desc_act", False), sym=True)
    made = quantizer.GPTQQuantizer(**config, **more)
    made.convert_model(model)
    said = dict(config, quant_method="gptq", checkpoint_format="gptq", true_sequential=True, damp_percent=0.1, **more)
    model.config.quantization_config = said
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        model.save_pretrained(folder)
        return read_folder(folder)


def gptq_cases():
    for title in [t for t in TEXT if "sequence" not in t and "token" not in t]:
        yield f"{title}, 4 bits", lambda t=title: gptq(t, 4, 64)
    for bits, group in (8, 32), (4, -1), (2, 64):
        yield f"llama, {bits} bits, {group}", lambda b=bits, g=group: gptq("llama", b, g)
    yield "llama, reordered", lambda: gptq("llama", 4, 64, desc_act=True)
    inside = [["self_attn.k_proj", "self_attn.v_proj"], ["self_attn.q_proj"], ["mlp.up_proj", "mlp.down_proj"]]
    yield "llama, inside", lambda: gptq("llama", 4, 64, modules_in_block_to_quantize=inside)
    yield "llama, block", lambda: gptq("llama", 4, 64, block_name_to_quantize="model.layers")


def modelopt(title, form, strip=False):
    import torch
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint

    model, _ = make(title)
    ids = torch.arange(32).reshape(2, 16)
    model = mtq.quantize(model, getattr(mtq, form), lambda m: m(ids))
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        export_hf_checkpoint(model, export_dir=folder)
        config, beside, tensors = read_folder(folder)
        if strip:
            config.pop("quantization_config", None)
        return config, beside, tensors


def modelopt_cases():
    for title in ["llama", "llama odd", "llama tied", "llama biased", "qwen2", "qwen3", "phi3", "mixtral", "qwen3_moe", "deepseek_v3", "gemma2"]:
        for form in "FP8_DEFAULT_CFG", "NVFP4_DEFAULT_CFG":
            for strip in (True, False):
                yield f"{title}, {form[:5]}{', file' if strip else ''}", lambda t=title, f=form, s=strip: modelopt(t, f, s)


def mlx(title, bits, group, predicate=None):
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_lm.utils import _get_classes, quantize_model

    mx.set_default_device(mx.cpu)
    with tempfile.TemporaryDirectory() as folder:
        model, _ = make(title)
        model.save_pretrained(folder)
        config, _, _ = read_folder(folder)
    model_class, args = _get_classes(config)
    model = model_class(args.from_dict(config))
    model.set_dtype(mx.bfloat16)
    model, config = quantize_model(model, config, group, bits, quant_predicate=predicate)
    names = {"bfloat16": "bf16", "uint32": "u32", "float32": "f32"}
    tensors = {name: (names[str(value.dtype).split(".")[-1]], list(value.shape)) for name, value in tree_flatten(model.parameters())}
    return config, None, folded(tensors)


def mlx_cases():
    for title in ["llama", "llama odd", "llama tied", "llama biased", "qwen2", "qwen3", "gemma2", "phi3", "mixtral", "qwen3_moe", "deepseek_v3"]:
        yield f"{title}, 4 bits", lambda t=title: mlx(t, 4, 64)
    for bits, group in (8, 32), (3, 64), (6, 128):
        yield f"llama, {bits} bits, {group}", lambda b=bits, g=group: mlx("llama", b, g)
    yield "llama, mixed", lambda: mlx("llama", 4, 64, lambda path, _: {"group_size": 32, "bits": 8} if "down_proj" in path else True)
    yield "llama, a layer", lambda: mlx("llama", 4, 64, lambda path, _: {"group_size": 128, "bits": 8} if "layers.1." in path else True)


def torchao_cases():
    from torchao.quantization import (Float8DynamicActivationFloat8WeightConfig, Float8WeightOnlyConfig, Int8DynamicActivationInt8WeightConfig,
                                      Int8WeightOnlyConfig, PerGroup, PerRow, PerTensor, quant_api)
    from transformers import TorchAoConfig

    quant_api._check_hardware_support = lambda *_, **__: None
    forms = {
        "int8": Int8WeightOnlyConfig(),
        "int8 tensor": Int8WeightOnlyConfig(granularity=PerTensor()),
        "int8 group": Int8WeightOnlyConfig(granularity=PerGroup(32)),
        "int8 dynamic": Int8DynamicActivationInt8WeightConfig(),
        "float8": Float8WeightOnlyConfig(),
        "float8 tensor": Float8DynamicActivationFloat8WeightConfig(granularity=PerTensor()),
        "float8 row": Float8DynamicActivationFloat8WeightConfig(granularity=PerRow()),
    }
    for title in TEXT + ["qwen2_vl"]:
        dtype = "float32" if title == "deepseek_v3" else "bfloat16"  # as it is loaded
        for name in forms if title in ("llama", "llama odd") else ["int8", "float8"]:
            yield f"{title}, {name}", lambda t=title, f=forms[name], d=dtype: loaded(t, TorchAoConfig(quant_type=f), d)
    for title in ("llama", "qwen3_moe", "gpt_neox"):
        for name, kept in {"head": ["lm_head"], "attention": ["self_attn", "lm_head"], "a layer": ["model.layers.1", "lm_head"], "some": ["o_proj"]}.items():
            yield f"{title}, {name}", lambda t=title, k=kept: loaded(t, TorchAoConfig(quant_type=Int8WeightOnlyConfig(), modules_to_not_convert=k))


METHODS = {"torchao": torchao_cases, "fp8": fp8_cases, "bnb": bnb_cases, "ct": ct_cases, "awq": awq_cases, "gptq": gptq_cases, "modelopt": modelopt_cases, "mlx": mlx_cases}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out")
    parser.add_argument("--methods", type=lambda s: s.split(","), default=list(METHODS))
    args = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
    os.environ.setdefault("TQDM_DISABLE", "1")
    import transformers

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    lines = []
    if os.path.exists(args.out):
        with open(args.out) as f:
            lines = [line for line in f if json.loads(line)["method"] not in args.methods]
    for method in args.methods:
        good = 0
        try:
            cases = list(METHODS[method]())
        except ImportError as e:
            print(method, "left out:", e, file=sys.stderr)
            continue
        for title, case in cases:
            try:
                config, beside, tensors = case()
            except Exception as e:  # told, and left out
                print(method, title, "FAILED:", type(e).__name__, str(e)[:300].replace("\n", " "), file=sys.stderr)
                continue
            line = {"method": method, "case": title, "transformers": transformers.__version__, "config": config, "tensors": tensors}
            if beside is not None:
                line["beside"] = beside
            lines.append(json.dumps(line, separators=(",", ":")) + "\n")
            good += 1
        print(method, good, "of", len(cases), file=sys.stderr)
        with open(args.out, "w") as f:
            f.writelines(lines)


if __name__ == "__main__":
    main()
