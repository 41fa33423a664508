# SPDX-License-Identifier: Apache-2.0
"""Records tiny checkpoints with what transformers computes from them.

Every case is a model class of transformers with a small config and random
numbers, saved by save_pretrained to tests/data/checkpoints/NAME. It is then
loaded again from there in float32, so that numbers kept in float16 and bfloat16
are cast up, and run on fixed tokens; NAME.expected.safetensors holds the tokens
and the outputs.

    pip install transformers==4.57.3 torch safetensors
    python tests/data/record_checkpoints.py

Those of CASES_5 are what transformers 5 saves, or holds in memory (`raw`), with
settings that it does not look at:

    pip install transformers==5.23.0 torch safetensors
    python tests/data/record_checkpoints.py --five

Names behind that record these cases alone.

Variants hold the numbers of another checkpoint under other names, so its
outputs are theirs:
- `flax`: layers by number, kernels [in, out], experts stacked [E, in, out], as
  EasyDeL names them;
- `scanned`: the same with layers stacked in the first dimension;
- `fused`: experts as transformers 5 holds them in memory, gate and up in one.
"""

import pathlib
import re
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

OUT = pathlib.Path(__file__).parent / "checkpoints"

BATCH, LENGTH, VOCAB = 2, 12, 96
DENSE = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=56,
             num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64, bos_token_id=None, eos_token_id=None,
             pad_token_id=None)
BERT = dict(model_type="bert", vocab_size=VOCAB, hidden_size=32,
            num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            max_position_embeddings=20)
# Wavelengths of 16 positions and less are kept, of 64 and more divided by 8:
# the frequencies of 16-wide heads lie on both sides and between.
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=64)
# Name: model class, dtype that is saved, largest shard, config.
CASES = {
    "llama": ("LlamaForCausalLM", torch.float32, None, dict(
        DENSE, model_type="llama", hidden_size=48, head_dim=16,
        intermediate_size=72, rope_scaling=LLAMA3, rms_norm_eps=1e-5,
        max_position_embeddings=512)),
    "mistral": ("MistralForCausalLM", torch.float16, "24KB", dict(
        DENSE, model_type="mistral", sliding_window=5, rope_theta=1000.0)),
    "qwen2": ("Qwen2ForCausalLM", torch.bfloat16, None, dict(
        DENSE, model_type="qwen2", rope_theta=1e6)),
    "qwen3": ("Qwen3ForCausalLM", torch.float32, None, dict(
        DENSE, model_type="qwen3", head_dim=12, tie_word_embeddings=True,
        num_key_value_heads=1)),
    "mixtral": ("MixtralForCausalLM", torch.float32, None, dict(
        DENSE, model_type="mixtral", num_local_experts=4, num_experts_per_tok=2,
        intermediate_size=40)),
    "qwen3_moe": ("Qwen3MoeForCausalLM", torch.float32, None, dict(
        DENSE, model_type="qwen3_moe", num_hidden_layers=3, num_experts=8,
        num_experts_per_tok=3, norm_topk_prob=True, mlp_only_layers=[1],
        moe_intermediate_size=12, head_dim=10)),
    "gpt2": ("GPT2LMHeadModel", torch.float32, None, dict(
        model_type="gpt2", vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4,
        n_positions=24, bos_token_id=None, eos_token_id=None)),
    "bert": ("BertModel", torch.float32, None, BERT),
    "bert-mlm": ("BertForMaskedLM", torch.bfloat16, None, BERT),
    "gemma": ("GemmaForCausalLM", torch.float32, None, dict(
        DENSE, model_type="gemma", head_dim=12, num_key_value_heads=1,
        hidden_act="gelu_pytorch_tanh")),
    # Heads of 12, queries scaled as if they had 10.
    "gemma2": ("Gemma2ForCausalLM", torch.float32, None, dict(
        DENSE, model_type="gemma2", head_dim=12, query_pre_attn_scalar=10,
        sliding_window=5, attn_logit_softcapping=2.0,
        final_logit_softcapping=1.5, num_hidden_layers=3)),
    # Three of four layers with a window and positions of their own.
    "gemma3_text": ("Gemma3ForCausalLM", torch.float32, None, dict(
        DENSE, model_type="gemma3_text", head_dim=12, query_pre_attn_scalar=9,
        sliding_window=5, sliding_window_pattern=4, num_hidden_layers=4,
        rope_theta=2000.0, rope_local_base_freq=100.0,
        rope_scaling=dict(rope_type="linear", factor=4.0))),
}
# Name: model class, config, whether the names are those in memory.
SMALL = dict(vocab_size=VOCAB, hidden_size=16, intermediate_size=24,
             num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=32, bos_token_id=None, eos_token_id=None,
             pad_token_id=None)
CASES_5 = {
    "llama-partial5": ("LlamaForCausalLM", dict(
        SMALL, model_type="llama", partial_rotary_factor=0.5), False),
    "llama-base5": ("LlamaModel", dict(SMALL, model_type="llama"), False),
    "mixtral-raw5": ("MixtralForCausalLM", dict(
        SMALL, model_type="mixtral", num_local_experts=4,
        num_experts_per_tok=2, norm_topk_prob=False), True),
    "qwen3_moe-raw5": ("Qwen3MoeForCausalLM", dict(
        SMALL, model_type="qwen3_moe", num_experts=4, num_experts_per_tok=2,
        norm_topk_prob=False, moe_intermediate_size=12, head_dim=8), True),
    "bert-untied5": ("BertForMaskedLM", dict(
        BERT, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
        tie_word_embeddings=False), False),
    "gpt2-base5": ("GPT2Model", dict(
        model_type="gpt2", vocab_size=VOCAB, n_embd=16, n_layer=1, n_head=4,
        n_positions=24, bos_token_id=None, eos_token_id=None), False),
    # Its own positions for each kind of attention, as version 5 writes them.
    "gemma3_text-kinds5": ("Gemma3ForCausalLM", dict(
        SMALL, model_type="gemma3_text", head_dim=8, query_pre_attn_scalar=9,
        sliding_window=4, num_hidden_layers=2,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=4.0,
                                rope_theta=2000.0),
            sliding_attention=dict(rope_type="default", rope_theta=100.0))),
        False),
    "gemma2-untied5": ("Gemma2ForCausalLM", dict(
        SMALL, model_type="gemma2", head_dim=8, query_pre_attn_scalar=8,
        sliding_window=4, attn_logit_softcapping=None,
        final_logit_softcapping=None, tie_word_embeddings=False,
        num_hidden_layers=2), False),
}
# Name: what it holds the numbers of, how it names them.
VARIANTS = {
    "llama-flax": ("llama", "flax"),
    "llama-scanned": ("llama", "scanned"),
    "mixtral-flax": ("mixtral", "flax"),
    "mixtral-scanned": ("mixtral", "scanned"),
    "qwen3_moe-fused": ("qwen3_moe", "fused"),
}


def draw(model, generator):
    """Numbers with which no weight is without effect on the outputs."""
    for name, tensor in model.named_parameters():
        numbers = torch.randn(tensor.shape, generator=generator)
        if tensor.dim() == 1:
            numbers *= 0.3
            if name.endswith("weight"):
                numbers += 1
        elif "embed" not in name and "wte" not in name and "wpe" not in name:
            is_conv = type(model).__name__.startswith("GPT2")
            numbers *= 1.5 * tensor.shape[0 if is_conv else 1] ** -0.5
        tensor.data.copy_(numbers)


def save(name, case, seed):
    kind, dtype, shard, config = case
    where = OUT / name
    shutil.rmtree(where, ignore_errors=True)
    model = getattr(transformers, kind)(AutoConfig.for_model(**config))
    draw(model, torch.Generator().manual_seed(seed))
    sizes = {} if shard is None else {"max_shard_size": shard}
    model.to(dtype).save_pretrained(where, **sizes)
    (where / "generation_config.json").unlink(missing_ok=True)


def run(name, case):
    model = getattr(transformers, case[0]).from_pretrained(
        OUT / name, dtype=torch.float32, attn_implementation="eager").eval()
    assert all(t.dtype == torch.float32 for t in model.parameters())
    tokens = torch.randint(0, VOCAB, (BATCH, LENGTH),
                           generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        outputs = model(input_ids=tokens)
    kept = {"input_ids": tokens}
    for key in ("logits", "last_hidden_state", "pooler_output"):
        if outputs.get(key) is not None:
            kept[key] = outputs[key].contiguous()
    save_file(kept, OUT / f"{name}.expected.safetensors",
              {"source": f"transformers {transformers.__version__}"})
    largest = max(v.abs().max().item() for k, v in kept.items()
                  if k != "input_ids")
    print(f"{name}: largest output {largest:.2f}")


def flax_name(name):
    """Of a matrix or vector that keeps its meaning."""
    path = name.split(".")
    if path[-1] == "weight":
        path[-1] = "embedding" if path[-2] == "embed_tokens" else "kernel"
    return "/".join(path)


def to_flax(tensors):
    named = {}
    experts = {}
    for name, tensor in tensors.items():
        is_matrix = tensor.dim() == 2 and "embed_tokens" not in name
        tensor = tensor.T if is_matrix else tensor
        expert = re.fullmatch(r"(.*)\.experts\.(\d+)\.(\w+)\.weight", name)
        if expert:
            stack = f"{expert[1]}.experts.{expert[3]}.weight"
            experts.setdefault(stack, {})[int(expert[2])] = tensor
        else:
            named[flax_name(name)] = tensor
    for name, stack in experts.items():
        named[flax_name(name)] = torch.stack(
            [stack[i] for i in range(len(stack))])
    return named


def to_scanned(tensors):
    named = {}
    layers = {}
    for name, tensor in to_flax(tensors).items():
        layer = re.fullmatch(r"(model/layers)/(\d+)/(.*)", name)
        if layer:
            layers.setdefault(f"params/{layer[1]}/{layer[3]}", {})[
                int(layer[2])] = tensor
        else:
            named[f"params/{name}"] = tensor
    for name, stack in layers.items():
        named[name] = torch.stack([stack[i] for i in range(len(stack))])
    return named


def to_fused(tensors):
    named = {}
    experts = {}
    for name, tensor in tensors.items():
        expert = re.fullmatch(r"(.*\.experts)\.(\d+)\.(\w+)\.weight", name)
        if expert:
            experts.setdefault(expert[1], {})[int(expert[2]), expert[3]] = tensor
        else:
            named[name] = tensor
    for name, parts in experts.items():
        count = len(parts) // 3
        named[name + ".gate_up_proj"] = torch.stack(
            [torch.cat([parts[i, "gate_proj"], parts[i, "up_proj"]])
             for i in range(count)])
        named[name + ".down_proj"] = torch.stack(
            [parts[i, "down_proj"] for i in range(count)])
    return named


def rename(name, origin, how):
    where = OUT / name
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    tensors = load_file(OUT / origin / "model.safetensors")
    convert = {"flax": to_flax, "scanned": to_scanned, "fused": to_fused}[how]
    save_file({k: v.contiguous() for k, v in convert(tensors).items()},
              where / "model.safetensors")
    shutil.copy(OUT / origin / "config.json", where)


def wanted(name):
    names = [each for each in sys.argv[1:] if each != "--five"]
    return not names or name in names


def record_five():
    for seed, (name, (kind, config, raw)) in enumerate(CASES_5.items()):
        if not wanted(name):
            continue
        case = (kind, torch.float32, None, config)
        save(name, case, seed)
        run(name, case)
        if raw:
            model = getattr(transformers, kind).from_pretrained(OUT / name)
            save_file({k: v.contiguous() for k, v in model.state_dict().items()},
                      OUT / name / "model.safetensors")


def main():
    OUT.mkdir(exist_ok=True)
    if "--five" in sys.argv:
        record_five()
        return
    for seed, (name, case) in enumerate(CASES.items()):
        if wanted(name):
            save(name, case, seed)
            run(name, case)
    for name, (origin, how) in VARIANTS.items():
        if wanted(name):
            rename(name, origin, how)


if __name__ == "__main__":
    main()
