#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what train steps of adapters have allocated at their peak: the judge of what
PEFT keeps of experts that it adds adapters to, and autograd of torchao's weights.

    pip install torch transformers peft torchao
    OMP_NUM_THREADS=1 python tests/data/record_lora_steps.py tests/data/lora_steps.jsonl

Two steps of small models of transformers with random weights run on the CPU without
compilation: forward, the loss of the class, backward, AdamW of the adapters,
zero_grad(set_to_none=True). Every operation is looked at, and the storages that are
alive are added up; PyTorch's MemTracker takes no frozen parameters. A line has

- `name`, and `config`, as saved
- `lora`, as `--lora` takes it
- `batch`, `seq`; `checkpointing` of every layer, without reentrance
- `experts`: how transformers runs them
- `peak`, in bytes
- `versions`
"""
import json
import logging
import sys
import tempfile
import warnings
import weakref

import peft
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

BASE = dict(vocab_size=4000, hidden_size=128, intermediate_size=320, num_hidden_layers=4,
            num_attention_heads=4, num_key_value_heads=2, head_dim=32, use_cache=False,
            tie_word_embeddings=False, max_position_embeddings=512, pad_token_id=None,
            bos_token_id=None, eos_token_id=None)
WIDE = dict(BASE, hidden_size=256, intermediate_size=704, num_hidden_layers=6,
            num_attention_heads=8, num_key_value_heads=4)
MOE = dict(BASE, num_experts=16, num_local_experts=16, num_experts_per_tok=2,
           moe_intermediate_size=96)
MODELS = {"qwen3_moe": dict(MOE, mlp_only_layers=[]), "olmoe": dict(MOE, intermediate_size=96),
          "mixtral": dict(MOE, intermediate_size=192, num_local_experts=8),
          "gpt_oss": dict(MOE, intermediate_size=128, head_dim=32), "llama": WIDE}


def cases():
    for kind in ("qwen3_moe", "olmoe", "mixtral"):
        for checkpointing in (False, True):
            for seq in (16, 200):
                yield kind, "all-linear", None, seq, checkpointing
    for targets in ("experts.gate_up_proj+experts.down_proj", "q_proj+experts.down_proj"):
        yield "gpt_oss", targets, None, 48, False
        yield "gpt_oss", targets, None, 48, True
        yield "qwen3_moe", targets, None, 48, False
    for form in ("Int8WeightOnlyConfig", "Float8WeightOnlyConfig"):
        for checkpointing in (False, True):
            for seq in (16, 200):
                yield "llama", "all-linear", form, seq, checkpointing
    yield "llama", "q_proj+v_proj", "Int8WeightOnlyConfig", 64, False
    yield "qwen3_moe", "q_proj+v_proj", "Int8WeightOnlyConfig", 64, True


class Peak(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.live, self.now, self.peak = {}, 0, 0

    def add(self, tensor):
        if not isinstance(tensor, torch.Tensor):
            return
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) and hasattr(tensor, "__tensor_flatten__"):
            for name in tensor.__tensor_flatten__()[0]:
                self.add(getattr(tensor, name))
            return
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self.live:
            return
        self.now += size
        self.peak = max(self.peak, self.now)

        def gone(_):
            self.now -= size
            self.live.pop(key, None)

        self.live[key] = weakref.ref(storage, gone)

    def __torch_dispatch__(self, function, _, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for each in tree_flatten(result)[0]:
            self.add(each)
        return result


def record(kind, targets, form, seq, checkpointing):
    import torchao.quantization

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **MODELS[kind])
    quantisation = form and transformers.TorchAoConfig(quant_type=getattr(torchao.quantization, form)())
    with tempfile.TemporaryDirectory() as folder:
        transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16,
                                                                  quantization_config=quantisation)
        model.config.save_pretrained(folder)
        with open(folder + "/config.json", encoding="utf-8") as file:
            saved = json.load(file)
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    names = targets.split("+")
    stacks = [name for name in names if "experts." in name]
    modules = [name for name in names if name not in stacks]
    model = peft.get_peft_model(model, peft.LoraConfig(
        r=4, target_modules=targets if targets == "all-linear" else modules, target_parameters=stacks or None))
    model.train()
    ids = torch.randint(0, config.vocab_size, (2, seq))
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-3)
    tracker = Peak()
    for each in [*model.parameters(), *model.buffers(), ids]:
        tracker.add(each)
    with tracker:
        for _ in range(2):
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    how = "-checkpointing" if checkpointing else ""
    return {"name": f"{kind}-{form or 'plain'}-{targets}-{seq}{how}", "config": saved,
            "lora": f"r=4,targets={targets}", "batch": 2, "seq": seq, "checkpointing": checkpointing,
            "experts": getattr(model.config, "_experts_implementation", None), "peak": tracker.peak,
            "versions": {each.__name__: each.__version__.split("+")[0] for each in (torch, transformers, peft, torchao)}}


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for case in cases():
            line = record(*case)
            print(line["name"], line["peak"], flush=True)
            out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
