#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the bytes of the slots that engines set aside for adapters: the judge of
`--max-loras`, `--max-lora-rank` and `--fully-sharded-loras`.

    pip download --no-deps vllm==0.33.0 sglang==0.5.23; unzip each wheel
    python3 record_lora_slots.py VLLM_FOLDER SGLANG_FOLDER lora_slots.jsonl

The engines' own classes run, beside a torch that notes what is allocated: no GPU is needed, and
nothing but their Python files. A line has the engine, the model, four slots' rank, the ranks of
a group (`tp`), over how many of them experts are dealt out (`ep`), whether slots are fully
sharded, and the bytes on one rank of linear layers and of all layers.
"""
import importlib
import importlib.util
import json
import math
import sys
import types
from unittest.mock import MagicMock

SLOTS = 4
LLAMA = dict(hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
             intermediate_size=14336, num_hidden_layers=32, vocab_size=128256)
QWEN3_MOE = dict(hidden_size=2048, num_attention_heads=32, num_key_value_heads=4, head_dim=128,
                 intermediate_size=6144, moe_intermediate_size=768, num_experts=128,
                 num_hidden_layers=48, vocab_size=151936)
MODELS = {"llama": LLAMA, "qwen3_moe": QWEN3_MOE}
WIDTHS = {"half": 2, "long": 8, "int": 4}
allocated = []


class Tensor:
    def __init__(self, shape):
        self.shape = tuple(shape)

    def dim(self):
        return len(self.shape)

    def view(self, *shape):
        return self

    def __getitem__(self, at):
        return Tensor(self.shape[1:])


def zeros(*shape, dtype=None, device=None):
    shape = shape[0] if isinstance(shape[0], (tuple, list)) else shape
    allocated.append(math.prod(shape) * 2)
    return Tensor(shape)


def tensor(values, dtype=None, device=None):
    allocated.append(len(values) * WIDTHS.get(dtype, 4))
    return Tensor((len(values),))


def divide(a, b):
    assert a % b == 0
    return a // b


class Module:
    def __init__(self):
        pass


def stub(name, **members):
    module = MagicMock(**members)
    module.__path__ = []
    sys.modules[name] = module
    return module


def stub_torch():
    torch = MagicMock(long="long", int="int")
    torch.zeros, torch.tensor = zeros, tensor
    torch.nn = types.ModuleType("torch.nn")
    torch.nn.Module, torch.nn.functional = Module, MagicMock()
    sys.modules.update({"torch": torch, "torch.nn": torch.nn,
                        "torch.nn.functional": torch.nn.functional,
                        "transformers": MagicMock()})


def made(kind, **members):
    result = kind()
    result.weight = MagicMock()
    result.__dict__.update(members)
    return result


class Vllm:
    ORDER = """VocabParallelEmbedding ColumnParallelLinear MergedColumnParallelLinear
        QKVParallelLinear MergedQKVParallelLinear RowParallelLinear ReplicatedLinear
        ColumnParallelLinear.Sharded QKVParallelLinear.Sharded
        MergedColumnParallelLinear.Sharded MergedQKVParallelLinear.Sharded
        RowParallelLinear.Sharded FusedMoE""".split()

    def __init__(self, folder):
        kinds = {}
        for name, base in (("LinearBase", Module), ("VocabParallelEmbedding", Module),
                           ("MoERunner", Module)):
            kinds[name] = type(name, (base,), {})
        for name in ("ReplicatedLinear", "ColumnParallelLinear", "RowParallelLinear"):
            kinds[name] = type(name, (kinds["LinearBase"],), {})
        for name in ("MergedColumnParallelLinear", "QKVParallelLinear"):
            kinds[name] = type(name, (kinds["ColumnParallelLinear"],), {})
        kinds["ParallelLMHead"] = type("ParallelLMHead", (kinds["VocabParallelEmbedding"],), {})
        self.kinds, self.tp = kinds, 1
        self.impl = type("Impl", (), {})
        layers = "vllm.model_executor.layers"
        for name in ["vllm", "vllm.envs", "vllm.config", "vllm.config.lora", "vllm.distributed",
                     "vllm.distributed.utils", "vllm.forward_context", "vllm.model_executor",
                     "vllm.model_executor.custom_op", layers, layers + ".fused_moe",
                     layers + ".fused_moe.fused_moe", layers + ".fused_moe.experts",
                     layers + ".fused_moe.experts.lora_context",
                     layers + ".fused_moe.experts.lora_experts_mixin",
                     layers + ".fused_moe.fused_moe_modular_method",
                     layers + ".fused_moe.modular_kernel", layers + ".logits_processor",
                     "vllm.platforms", "vllm.utils", "vllm.utils.multi_stream_utils",
                     "vllm.utils.torch_utils", "vllm.utils.math_utils", "vllm.lora"]:
            stub(name)
        stub(layers + ".linear", **kinds)
        stub(layers + ".vocab_parallel_embedding", **kinds)
        modules = sys.modules
        modules["vllm"].envs = modules["vllm.envs"]
        modules["vllm.envs"].VLLM_LORA_ENABLE_DUAL_STREAM = False
        modules[layers + ".fused_moe"].MoERunner = kinds["MoERunner"]
        modules["vllm.model_executor.custom_op"].maybe_get_oot_by_class = lambda kind: kind
        modules["vllm.distributed.utils"].divide = divide
        modules["vllm.distributed"].get_tensor_model_parallel_world_size = lambda: self.tp
        modules[layers + ".fused_moe.modular_kernel"].FusedMoEKernelModularImpl = self.impl
        package = types.ModuleType("vllm.lora.layers")
        package.__path__ = [folder + "/vllm/lora/layers"]
        modules["vllm.lora.layers"] = package
        loaded = [importlib.import_module("vllm.lora.layers." + name) for name in (
            "base", "base_linear", "column_parallel_linear", "row_parallel_linear",
            "replicated_linear", "vocab_parallel_embedding", "logits_processor", "fused_moe")]
        self.logits = loaded[6].LogitsProcessorWithLoRA
        named = [name.replace(".Sharded", "") + "With" + ("Sharded" * (".Sharded" in name)) +
                 "LoRA" for name in self.ORDER]
        self.classes = [getattr(module, name) for name in named for module in loaded
                        if name in vars(module) and vars(module)[name].__module__ ==
                        module.__name__]

    def wrap(self, layer, config, packed):
        for kind in self.classes:
            if kind.can_replace_layer(source_layer=layer, lora_config=config,
                                      packed_modules_list=packed, model_config=None):
                kind(layer).create_lora_weights(SLOTS, config, None)
                return
        raise SystemExit(f"nothing adapts {type(layer).__name__}")

    def experts(self, model, tp, ep):
        of = types.SimpleNamespace(
            hidden_dim=model["hidden_size"], num_experts=model["num_experts"],
            num_local_experts=model["num_experts"] // ep, is_act_and_mul=True,
            intermediate_size_per_partition=model["moe_intermediate_size"] // (tp // ep),
            experts_per_token=8, moe_parallel_config=types.SimpleNamespace(
                tp_size=tp // ep, tp_rank=0, use_ep=ep > 1, ep_rank=0,
                all2all_backend="allgather_reducescatter", is_sequence_parallel=False))
        runner = made(self.kinds["MoERunner"], moe_config=of, _shared_experts=None,
                      routed_experts=MagicMock(), _quant_method=MagicMock(),
                      _replace_quant_method=lambda method: None)
        runner.routed_experts.quant_method.is_monolithic = False
        runner.routed_experts.quant_method.moe_kernel.impl = self.impl()
        return runner

    def bytes_of(self, model, rank, tp, ep, sharded):
        self.tp = tp
        config = types.SimpleNamespace(max_loras=SLOTS, max_lora_rank=rank, lora_dtype="half",
                                       fully_sharded_loras=sharded,
                                       enable_moe_shared_loras=False)
        kinds, hidden, head = self.kinds, model["hidden_size"], model["head_dim"]
        heads, kv_heads = model["num_attention_heads"], model["num_key_value_heads"]
        kept = max(1, kv_heads // tp)
        shared = dict(tp_size=tp, tp_rank=0)
        layers = [
            (made(kinds["QKVParallelLinear"], input_size=hidden, num_heads=heads // tp,
                  num_kv_heads=kept, head_size=head, total_num_heads=heads,
                  total_num_kv_heads=kv_heads, num_kv_head_replicas=max(1, tp // kv_heads),
                  output_sizes=[heads * head, kept * head * tp, kept * head * tp],
                  output_size_per_partition=(heads // tp + 2 * kept) * head, **shared),
             ["q", "k", "v"]),
            (made(kinds["RowParallelLinear"], input_size=heads * head, output_size=hidden,
                  input_size_per_partition=heads * head // tp, **shared), [])]
        if "num_experts" in model:
            layers += [(made(kinds["ReplicatedLinear"], input_size=hidden,
                             output_size=model["num_experts"], **shared), []),
                       (self.experts(model, tp, ep), ["w1", "w3"])]
        else:
            width = model["intermediate_size"]
            layers += [(made(kinds["MergedColumnParallelLinear"], input_size=hidden,
                             output_sizes=[width, width],
                             output_size_per_partition=2 * width // tp, **shared), ["g", "u"]),
                       (made(kinds["RowParallelLinear"], input_size=width, output_size=hidden,
                             input_size_per_partition=width // tp, **shared), [])]
        allocated.clear()
        for layer, packed in layers:
            self.wrap(layer, config, packed)
        linear = sum(allocated) * model["num_hidden_layers"]
        allocated.clear()
        vocabulary = model["vocab_size"]
        self.wrap(made(kinds["VocabParallelEmbedding"], org_vocab_size=vocabulary,
                       embedding_dim=hidden), config, [])
        head = self.logits(types.SimpleNamespace(vocab_size=vocabulary), hidden, None, None,
                           list(range(vocabulary)) if tp > 1 else None)
        head.create_lora_weights(SLOTS, config, None)
        return linear, linear + sum(allocated)


class Sglang:
    def __init__(self, folder):
        root = "sglang.srt."
        for name in ["sglang", "sglang.srt"] + [root + each for each in (
                "distributed", "environ", "layers", "layers.utils", "lora",
                "lora.eviction_policy", "lora.layers", "lora.lora", "lora.lora_config",
                "lora.lora_registry", "runtime_context", "utils", "utils.hf_transformers_utils",
                "model_executor", "model_executor.forward_batch_info", "layers.moe",
                "layers.moe.utils", "layers.moe.fused_moe_triton",
                "layers.moe.fused_moe_triton.layer", "layers.vocab_parallel_embedding")]:
            stub(name)
        self.experts, self.head = type("FusedMoE", (), {}), type("ParallelLMHead", (), {})
        self.ranks = types.SimpleNamespace()
        modules = sys.modules
        modules[root + "distributed"].divide = divide
        modules[root + "layers.moe.fused_moe_triton.layer"].FusedMoE = self.experts
        modules[root + "layers.vocab_parallel_embedding"].ParallelLMHead = self.head
        runner = MagicMock()
        for name in ("flashinfer_cutlass", "flashinfer_cutedsl", "flashinfer_trtllm",
                     "flashinfer_trtllm_routed", "flashinfer_mxfp4", "hpc_ops"):
            setattr(runner, "is_" + name, lambda: False)
        modules[root + "layers.moe.utils"].get_moe_runner_backend = lambda: runner
        modules[root + "runtime_context"].get_parallel = lambda: self.ranks
        for name in ("utils", "mem_pool"):
            spec = importlib.util.spec_from_file_location(
                root + "lora." + name, f"{folder}/sglang/srt/lora/{name}.py")
            self.pool = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = self.pool
            spec.loader.exec_module(self.pool)

    def bytes_of(self, model, rank, tp, ep, sharded):
        self.ranks.__dict__.update(tp_size=tp, tp_rank=0, attn_tp_size=tp, moe_ep_size=ep,
                                   moe_ep_rank=0, moe_tp_size=tp // ep, moe_tp_rank=0)
        head = self.head()
        head.shard_indices = types.SimpleNamespace(num_org_elements=model["vocab_size"] // tp)
        parts = ([self.experts()] if "num_experts" in model else []) + [head]
        of = types.SimpleNamespace(
            config=types.SimpleNamespace(**model), modules=lambda: parts,
            named_modules=lambda: [("lm_head", part) for part in parts],
            parameters=lambda: iter([MagicMock()]))
        found = []
        for more in ((), ("embed_tokens", "lm_head")):
            allocated.clear()
            self.pool.LoRAMemoryPool(of.config, SLOTS, None, rank,
                                     {"qkv_proj", "o_proj", "gate_up_proj", "down_proj", *more},
                                     of, "lru", 0)
            found.append(sum(allocated))
        return found


def main():
    vllm, sglang, path = sys.argv[1:]
    stub_torch()
    engines = {"vllm": Vllm(vllm), "sglang": Sglang(sglang)}
    with open(path, "w") as out:
        for engine, pool in engines.items():
            for name, model in MODELS.items():
                for rank in (16, 64):
                    for tp in (1, 2, 8):
                        ways = [(1, False)]
                        if engine == "vllm":
                            ways.append((1, True))
                        if "num_experts" in model and tp > 1:
                            ways.append((tp, False))
                        for ep, sharded in ways:
                            linear, every = pool.bytes_of(model, rank, tp, ep, sharded)
                            row = dict(engine=engine, model=name, rank=rank, tp=tp, ep=ep,
                                       fully_sharded=sharded, linear=linear, all=every)
                            out.write(json.dumps(row) + "\n")


main()
