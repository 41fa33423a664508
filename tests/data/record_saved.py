# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch keeps for backward, and what is alive while it runs.

    pip install transformers==5.23.0 torch
    OMP_NUM_THREADS=1 python tests/data/record_saved.py tests/data/saved.jsonl
    OMP_NUM_THREADS=1 python tests/data/record_saved.py tests/data/saved.jsonl --only llama

Models are tiny, with random weights, in training, without compilation, on the
CPU; the kernel of attention, where there is one, is the one for CPUs. The second
command records anew the cases whose names have that part. A line of saved.jsonl:

- `name`, `class`, `config` as that class writes it, and what `config` does not
  say: `dtype` of the weights, `autocast` (a dtype or null), `attention` and
  `experts` (implementations of transformers), `checkpointing` (of every layer),
  `inputs` by name (shape) without labels, `versions`
- `saved`: bytes of `forward` (inputs to logits), of `loss` beyond that (labels to
  the loss of the class), and of one more `layer` (forward of a model with one more
  than `config` says, of the kind `layer_kind`, less forward of this one; of
  encoders with decoders one more of each)
- `parts`: where these are. A part is [phase, module, function, shape, dtype, bytes,
  count]: the module of the model, numbers in its name replaced by *, and the function
  (of Python; `apply` are those that stand in none) within which a storage was saved
  first; shape and dtype of the tensor that was saved, bytes of its storage, and how
  often; the phase is `forward` or `loss`. Where experts take turns (`eager`), what
  those of a layer or of all layers keep is one part, `*` tokens long
- `layer_parts`: parts of forward of the larger model less those of this one, with
  negative counts where it has less
- `live`: bytes of storages alive after `forward` where the logits are held, and
  after `loss` where only that is held; the most at once in `forward_peak` and, in a
  backward pass of the loss after it, `backward_peak`, of which `backward_gradients`
  are gradients of parameters; `at_peak`, what is alive at the higher of both:
  [operation that made it, shape, bytes, count], the largest first, at most 12, then
  the rest as one

Bytes are of unique storages that the graph behind the logits, or the loss, holds: what
was saved for a choice that has no gradient is gone by then. Storages of parameters and
buffers do not count, inputs and labels do. What `live` counts are tensors that
operations return; what a kernel takes for itself in between is not seen. Tensors that a
checkpoint holds besides the inputs of a layer (positions, masks) are in `live`, not in
`saved`.
"""

import argparse
import collections
import gc
import importlib.util
import json
import pathlib
import sys
import weakref

import torch
import transformers
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

HERE = pathlib.Path(__file__).parent
spec = importlib.util.spec_from_file_location("record_logits", HERE / "record_logits.py")
record_logits = importlib.util.module_from_spec(spec)
spec.loader.exec_module(record_logits)

AT_PEAK = 12  # kinds of storages that are told
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers")
# Lists with an entry for each layer: the last is repeated for one more.
PER_LAYER = ("layer_types", "mlp_layer_types", "no_rope_layers")

BASE = dict(vocab_size=131, hidden_size=40, intermediate_size=72, num_hidden_layers=2,
            num_attention_heads=5, max_position_embeddings=64, attention_dropout=0.0,
            pad_token_id=None, bos_token_id=None, eos_token_id=None)
WIDE = dict(BASE, vocab_size=203, hidden_size=48, intermediate_size=88, num_attention_heads=6,
            num_key_value_heads=2)
GROUPED = dict(BASE, hidden_size=48, num_attention_heads=6, num_key_value_heads=2)
# Sizes of experts are multiples of 8: grouped products of bfloat16 want 16 bytes.
EXPERTS = dict(GROUPED, num_experts_per_tok=2, moe_intermediate_size=24)
LATENT = dict(BASE, num_key_value_heads=5, moe_intermediate_size=24, n_routed_experts=8, n_shared_experts=1,
              kv_lora_rank=12, q_lora_rank=14, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=10, n_group=2,
              topk_group=1, first_k_dense_replace=1, num_experts_per_tok=2)
GPT = dict(vocab_size=131, n_embd=40, n_layer=2, n_head=5, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0,
           attn_pdrop=0.0, pad_token_id=None, bos_token_id=None, eos_token_id=None)
T5 = dict(vocab_size=131, d_model=40, d_kv=6, d_ff=72, num_layers=2, num_decoder_layers=2, num_heads=5,
          dropout_rate=0.0, relative_attention_num_buckets=8, relative_attention_max_distance=20,
          pad_token_id=0, decoder_start_token_id=0, eos_token_id=1)
VIT = dict(hidden_size=40, intermediate_size=72, num_hidden_layers=2, num_attention_heads=5, image_size=28, patch_size=7,
           num_labels=11, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
BERT = dict(BASE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
MAMBA = dict(vocab_size=131, hidden_size=40, num_hidden_layers=2, state_size=12, expand=2, conv_kernel=4,
             pad_token_id=None, bos_token_id=None, eos_token_id=None)
BART = dict(vocab_size=131, d_model=40, encoder_layers=2, decoder_layers=2, encoder_attention_heads=5, decoder_attention_heads=5,
            encoder_ffn_dim=72, decoder_ffn_dim=72, max_position_embeddings=64, dropout=0.0, attention_dropout=0.0,
            activation_dropout=0.0, pad_token_id=1, bos_token_id=0, eos_token_id=2, decoder_start_token_id=2)
SHARED = dict(EXPERTS, num_experts=4, shared_expert_intermediate_size=40)
DELTA = dict(GROUPED, head_dim=10, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6,
             linear_value_head_dim=8, linear_conv_kernel_dim=4, layer_types=["linear_attention", "full_attention"])
WINDOW = {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": 8}

# Class, type of model, configs; each is run in all its ways().
MODELS = [
    ("Llama", "llama", [GROUPED, dict(WIDE, num_key_value_heads=6, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)]),
    ("Mistral", "mistral", [dict(GROUPED, sliding_window=None), dict(WIDE, sliding_window=8)]),
    ("Qwen2", "qwen2", [GROUPED]),
    ("Qwen3", "qwen3", [dict(GROUPED, head_dim=10)]),
    ("Gemma", "gemma", [dict(GROUPED, head_dim=10, num_key_value_heads=1)]),
    ("Gemma2", "gemma2", [dict(GROUPED, head_dim=10, **WINDOW)]),
    ("Gemma3", "gemma3_text", [dict(GROUPED, head_dim=10, **WINDOW)]),
    ("Phi3", "phi3", [GROUPED]),
    ("Phi", "phi", [dict(GROUPED, resid_pdrop=0.0, embd_pdrop=0.0)]),
    ("Olmo2", "olmo2", [GROUPED]),
    ("GPT2LMHead", "gpt2", [GPT, dict(GPT, n_embd=48, n_head=6, n_inner=88, vocab_size=203, activation_function="gelu")]),
    ("GPTNeoX", "gpt_neox", [dict(BASE, hidden_dropout=0.0)]),
    ("GPTJ", "gptj", [dict(GPT, rotary_dim=4)]),
    ("OPT", "opt", [dict(vocab_size=131, hidden_size=40, ffn_dim=72, num_hidden_layers=2, num_attention_heads=5, max_position_embeddings=64,
                         dropout=0.0, attention_dropout=0.0, word_embed_proj_dim=40, pad_token_id=1, bos_token_id=None, eos_token_id=None)]),
    ("Cohere", "cohere", [dict(GROUPED, use_qk_norm=True)]),
    ("StableLm", "stablelm", [GROUPED]),
    ("Starcoder2", "starcoder2", [dict(GROUPED, residual_dropout=0.0, embedding_dropout=0.0, sliding_window=None)]),
    ("Granite", "granite", [dict(GROUPED, residual_multiplier=0.5, embedding_multiplier=2.0, logits_scaling=3.0)]),
    ("Falcon", "falcon", [dict(vocab_size=131, hidden_size=40, ffn_hidden_size=72, num_hidden_layers=2, num_attention_heads=5, hidden_dropout=0.0,
                               attention_dropout=0.0, bos_token_id=None, eos_token_id=None)]),
    ("Nemotron", "nemotron", [dict(GROUPED, head_dim=8)]),
    ("Glm4", "glm4", [dict(GROUPED, head_dim=8)]),
    ("Mixtral", "mixtral", [dict(GROUPED, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)]),
    ("Qwen2Moe", "qwen2_moe", [dict(EXPERTS, num_experts=4, shared_expert_intermediate_size=40, use_sliding_window=False)]),
    ("Qwen3Moe", "qwen3_moe", [dict(EXPERTS, num_experts=4, head_dim=10)]),
    ("DeepseekV3", "deepseek_v3", [LATENT]),
    ("GptOss", "gpt_oss", [dict(GROUPED, head_dim=8, num_local_experts=4, num_experts_per_tok=2, **WINDOW)]),
    ("Olmoe", "olmoe", [dict(GROUPED, num_experts=4, num_experts_per_tok=2)]),
    ("T5", "t5", [T5, dict(T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)]),
    ("ViT", "vit", [VIT]),
    ("Bert", "bert", [BERT]),
    ("Mamba2", "mamba2", [dict(MAMBA, num_heads=10, head_dim=8, n_groups=2, chunk_size=8)]),
    ("Mamba", "mamba", [MAMBA]),
    ("Apertus", "apertus", [GROUPED]),
    ("Bloom", "bloom", [dict(vocab_size=131, hidden_size=40, n_layer=2, n_head=5, hidden_dropout=0.0, attention_dropout=0.0,
                             pad_token_id=None, bos_token_id=None, eos_token_id=None)]),
    ("Mpt", "mpt", [dict(vocab_size=131, d_model=40, n_layers=2, n_heads=5, expansion_ratio=2, max_seq_len=64, emb_pdrop=0.0,
                         resid_pdrop=0.0)]),
    ("GPTBigCode", "gpt_bigcode", [GPT]),
    ("Afmoe", "afmoe", [dict(EXPERTS, head_dim=8, num_experts=4, num_shared_experts=1, num_dense_layers=1, mup_enabled=True, **WINDOW)]),
    ("FlexOlmo", "flex_olmo", [dict(GROUPED, num_experts=4, num_experts_per_tok=2)]),
    ("GraniteMoeShared", "granitemoeshared", [dict(GROUPED, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=40)]),
    ("SolarOpen", "solar_open", [dict(EXPERTS, head_dim=8, n_routed_experts=4, n_shared_experts=1, n_group=2, topk_group=1)]),
    ("ExaoneMoe", "exaone_moe", [dict(EXPERTS, head_dim=8, num_experts=4, num_shared_experts=1, n_group=2, topk_group=1,
                                      mlp_layer_types=["dense", "sparse"], layer_types=["sliding_attention", "full_attention"],
                                      sliding_window=8, sliding_window_pattern="LG")]),
    ("Qwen3Next", "qwen3_next", [dict(DELTA, **{k: v for k, v in SHARED.items() if k not in DELTA})]),
    ("Qwen3_5", "qwen3_5_text", [DELTA]),
    ("Roberta", "roberta", [dict(BERT, pad_token_id=1)]),
    ("Bart", "bart", [BART]),
    ("Pegasus", "pegasus", [dict(BART, pad_token_id=0, eos_token_id=1)]),
]
CLASSES = {"T5": "T5ForConditionalGeneration", "ViT": "ViTForImageClassification", "Bert": "BertForMaskedLM",
           "GPT2LMHead": "GPT2LMHeadModel", "Roberta": "RobertaForMaskedLM", "Bart": "BartForConditionalGeneration",
           "Pegasus": "PegasusForConditionalGeneration"}
# Of operations that others have: once in each precision.
FEW = ("apertus", "bloom", "mpt", "gpt_bigcode", "afmoe", "flex_olmo", "granitemoeshared", "solar_open", "exaone_moe",
       "qwen3_next", "qwen3_5_text", "roberta", "bart", "pegasus")
EAGER_ALONE = ("bloom", "mpt")  # transformers has no other
NO_ATTENTION = ("mamba", "mamba2")
# transformers refuses it, for sinks, caps and products in float32.
NO_SDPA = ("gpt_oss", "gemma2", "gptj")


def cases():
    for name, kind, configs in MODELS:
        for number, config in enumerate(configs):
            for way in ways(kind, number):
                yield {"class": CLASSES.get(name, f"{name}ForCausalLM"), "kind": kind, "config": config,
                       **{"attention": "eager", "experts": None, "dtype": "float32", "autocast": None,
                          "batch": 2, "seq": 24, "checkpointing": False, "more": {}, **way},
                       "name": f"{kind}{number if number else ''}-{label(kind, way)}"}


def label(kind, way):
    parts = ["" if kind in NO_ATTENTION else way.get("attention", "eager"), way.get("experts") or "", way.get("dtype", "float32"),
             f"autocast-{way['autocast']}" if way.get("autocast") else "",
             f"{way['batch']}x{way['seq']}" if "seq" in way else "",
             "checkpointing" if way.get("checkpointing") else "", way.get("called", "")]
    return "-".join(part for part in parts if part)


def ways(kind, number):
    attentions = ["eager"] if kind in (*NO_ATTENTION, *NO_SDPA, *EAGER_ALONE) else ["sdpa", "eager"]
    if kind in FEW:
        yield dict(attention=attentions[-1], dtype="float32")
        yield dict(attention=attentions[0], dtype="bfloat16")
        return
    for attention in attentions:
        for dtype in ("float32", "bfloat16"):
            if number == 0 or (attention, dtype) == ("sdpa", "bfloat16"):
                yield dict(attention=attention, dtype=dtype)
    yield dict(attention=attentions[0], dtype="bfloat16", batch=3, seq=17)
    if number == 0:
        yield dict(attention=attentions[0], dtype="bfloat16", checkpointing=True)
    if kind in ("llama", "gpt2", "mixtral", "qwen3", "t5") and number == 0:
        yield dict(attention="sdpa", dtype="float32", autocast="bfloat16")
        yield dict(attention="eager", dtype="float32", autocast="bfloat16")
    if kind in ("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v3", "gpt_oss", "olmoe"):
        for experts in ("eager", "batched_mm"):
            yield dict(attention=attentions[0], dtype="bfloat16", experts=experts)
    if kind == "llama" and number == 0:
        yield dict(attention="sdpa", dtype="bfloat16", batch=1, seq=64)
        yield dict(attention="eager", dtype="bfloat16", batch=4, seq=40)
        yield dict(attention="eager", dtype="float32", checkpointing=True)
        yield dict(attention="sdpa", dtype="bfloat16", more=dict(attention_dropout=0.1), called="dropout")
        yield dict(attention="eager", dtype="bfloat16", more=dict(attention_dropout=0.1), called="dropout")
        yield dict(attention="sdpa", dtype="bfloat16", more=dict(hidden_act="gelu"), called="gelu")
        yield dict(attention="sdpa", dtype="bfloat16", more=dict(hidden_act="relu2"), called="relu2")
    if kind == "gpt2" and number == 0:
        for attention in ("sdpa", "eager"):
            yield dict(attention=attention, dtype="bfloat16", more=dict(resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1), called="dropout")


def longer(config):
    """The config with one more layer of the last kind."""
    config = dict(config)
    for key in LAYERS:
        if config.get(key):
            config[key] += 1
    for key in PER_LAYER:
        if config.get(key):
            config[key] = [*config[key], config[key][-1]]
    return config


def built(case, config):
    torch.manual_seed(0)
    kind = getattr(transformers, case["class"])
    asked = transformers.AutoConfig.for_model(case["kind"], **config)
    asked._attn_implementation = case["attention"]
    if case["experts"]:
        asked._experts_implementation = case["experts"]
    asked.use_cache = False
    model = kind(asked).to(getattr(torch, case["dtype"])).train()
    if case["checkpointing"]:
        model.activation_checkpointing_enable()
    return model


def inputs_of(model, case):
    config = model.config
    torch.manual_seed(1)
    if case["kind"] == "vit":
        pixels = torch.randn(case["batch"], config.num_channels, config.image_size, config.image_size)
        return ({"pixel_values": pixels.to(getattr(torch, case["dtype"]))},
                torch.randint(config.num_labels, (case["batch"],)))
    ids = torch.randint(config.vocab_size, (case["batch"], case["seq"]))
    if not config.is_encoder_decoder:
        return {"input_ids": ids}, ids.clone()
    words = torch.randint(config.vocab_size, (case["batch"], case["seq"] - 5))
    return {"input_ids": ids, "decoder_input_ids": words}, words.clone()


def run(model, case, inputs, labels=None):
    takes = {} if case["kind"] in ("vit", "bert", "roberta") else {"use_cache": False}
    if labels is not None:
        takes["labels"] = labels
    torch.manual_seed(2)  # dropout
    with torch.autocast("cpu", dtype=getattr(torch, case["autocast"] or "bfloat16"), enabled=bool(case["autocast"])):
        return model(**inputs, **takes)


class Functions(TorchFunctionMode):
    """The innermost function of Python that runs."""

    def __init__(self):
        super().__init__()
        self.running = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.running.append(getattr(func, "__name__", str(func)))
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.running.pop()


def own_storages(model):
    return {each.untyped_storage().data_ptr() for each in [*model.parameters(), *model.buffers()]}


class Saved:
    """What the graph of autograd holds instead of a tensor."""

    def __init__(self, tensor):
        self.tensor = tensor


def saved_by(model, case, inputs, labels=None):
    """Parts, by [module, function, shape, dtype, bytes], of what is held while the
    logits, or the loss, are."""
    own, inside, functions = own_storages(model), [], Functions()
    found = {}  # by address: all that saved it; no address is used twice, since it is held
    held = []

    def pack(tensor):
        storage = tensor.untyped_storage()
        saved = Saved(tensor.detach())
        if storage.data_ptr() not in own:
            held.append(storage)
            found.setdefault(storage.data_ptr(), []).append((
                (inside[-1] if inside else "", functions.running[-1] if functions.running else "apply",
                 tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), storage.nbytes()), weakref.ref(saved)))
        return saved

    hooks = []
    for name, module in model.named_modules():
        where = starred(name)
        hooks.append(module.register_forward_pre_hook(lambda *_, where=where: inside.append(where)))
        hooks.append(module.register_forward_hook(lambda *_: (inside.pop(), None)[1], always_call=True))
    with functions, torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.tensor):
        out = run(model, case, inputs, labels)
    for each in hooks:
        each.remove()
    kept = out.logits if labels is None else out.loss
    del out
    gc.collect()
    parts = collections.Counter()
    for savers in found.values():
        alive = [key for key, saved in savers if saved() is not None]
        parts.update(alive[:1])
    del kept
    return parts


def starred(name):
    """Numbers of layers and experts, not those within a word."""
    return ".".join("*" if each.isdigit() else each for each in name.split("."))


class Alive(TorchDispatchMode):
    """Bytes of storages that operations made and that are still held.

    `stop` is the number of the allocation after which all are listed."""

    def __init__(self, model, given, stop=None):
        super().__init__()
        self.own = own_storages(model)
        self.now = self.peak = self.peak_at = self.count = self.gradients = self.peak_gradients = 0
        self.storages, self.stop, self.listed = {}, stop, None
        for each in given:
            self.add("input", each)

    def add(self, made_by, tensor):
        storage = tensor.untyped_storage()
        key = id(storage)
        if key in self.storages or storage.data_ptr() in self.own or storage.nbytes() == 0:
            return
        size = storage.nbytes()
        self.storages[key] = (weakref.ref(storage, lambda _: self.drop(key)), size, made_by, tuple(tensor.shape), [False])
        self.now += size
        self.count += 1
        if self.now > self.peak:
            self.peak, self.peak_at, self.peak_gradients = self.now, self.count, self.gradients
        if self.count == self.stop:
            self.listed = [each[1:4] + (each[4][0],) for each in self.storages.values()]

    def drop(self, key):
        _, size, _, _, gradient = self.storages.pop(key)
        self.now -= size
        if gradient[0]:
            self.gradients -= size

    def mark_gradient(self, parameter):
        entry = self.storages.get(id(parameter.grad.untyped_storage()))
        if entry is not None and not entry[4][0]:
            entry[4][0] = True
            self.gradients += entry[1]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for each in tree_iter(out):
            if isinstance(each, torch.Tensor):
                self.add(str(func).removeprefix("aten.").split(".")[0], each)
        return out


def alive(model, case, inputs, labels):
    with Alive(model, inputs.values()) as mode:
        logits = run(model, case, inputs).logits
        gc.collect()
        found = {"forward": mode.now}
    del logits
    first = trained(model, case, inputs, labels, None)
    highest = max(first[1], first[2], key=lambda each: each[0])
    again = trained(model, case, inputs, labels, highest[1])
    kinds = collections.Counter()
    for size, made_by, shape, gradient in again[3]:
        kinds[("gradient of a parameter" if gradient else made_by, () if gradient else shape, 0 if gradient else size)] += size if gradient else 1
    at_peak = sorted(([kind[0], list(kind[1]), kind[2] if kind[2] else count, count if kind[2] else 1] for kind, count in kinds.items()),
                     key=lambda each: (-each[2] * each[3], each))
    rest = sum(each[2] * each[3] for each in at_peak[AT_PEAK:])
    if rest:
        at_peak = [*at_peak[:AT_PEAK], ["others", [], rest, 1]]
    if sum(each[2] * each[3] for each in at_peak) != highest[0]:
        raise ValueError("the second run differs from the first")
    return {**found, "loss": first[0], "forward_peak": first[1][0], "backward_peak": first[2][0],
            "backward_gradients": first[2][2], "at_peak": at_peak}


def trained(model, case, inputs, labels, stop):
    """Alive after the loss, (peak, its allocation, gradients in it) of both passes,
    and what is listed at `stop`."""
    for each in model.parameters():
        each.grad = None
    with Alive(model, [*inputs.values(), labels], stop) as mode:
        hooks = [each.register_post_accumulate_grad_hook(mode.mark_gradient)
                 for each in model.parameters() if each.requires_grad]
        loss = run(model, case, inputs, labels).loss
        gc.collect()
        after, forward = mode.now, (mode.peak, mode.peak_at, 0)
        mode.peak = 0
        loss.backward()
        backward = (mode.peak, mode.peak_at, mode.peak_gradients)
        for each in hooks:
            each.remove()
    return after, forward, backward, mode.listed


def total(parts):
    return sum(key[4] * count for key, count in parts.items())


def listed(case, phase, parts):
    found = collections.Counter()
    for (module, function, shape, dtype, size), count in parts.items():
        if case["experts"] == "eager" and ".experts" in module:  # as many tokens as come
            found[(module, function, ("*", *shape[1:]), dtype, 0)] += size * count
        else:
            found[(module, function, shape, dtype, size)] += count
    listed = [[*([phase] if phase else []), module, function, list(shape), dtype, *((size, count) if size else (count, 1))]
              for (module, function, shape, dtype, size), count in found.items() if count]
    return sorted(listed, key=lambda each: json.dumps(each))


def layer_kind(config):
    for key in PER_LAYER:
        kinds = getattr(config, key, None)
        if kinds:
            return kinds[-1]
    return None


def record(case):
    config = {**case["config"], **case["more"]}
    model = built(case, config)
    inputs, labels = inputs_of(model, case)
    forward = saved_by(model, case, inputs)
    loss = saved_by(model, case, inputs, labels)
    loss.subtract(forward)
    more = built(case, longer(config))
    layer = saved_by(more, case, inputs)
    layer.subtract(forward)
    result = {"name": case["name"], "class": case["class"],
              "config": record_logits.kept_config(model, {"class": case["class"], "config": config}),
              **{key: case[key] for key in ("dtype", "autocast", "attention")},
              "experts": getattr(model.config, "_experts_implementation", None) if "experts" in str(model).lower() else None,
              "checkpointing": case["checkpointing"],
              "inputs": {key: list(each.shape) for key, each in inputs.items()},
              "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__},
              "saved": {"forward": total(forward), "loss": total(loss), "layer": total(layer)},
              "layer_kind": layer_kind(more.config),
              "live": alive(model, case, inputs, labels),
              "parts": listed(case, "forward", forward) + listed(case, "loss", loss), "layer_parts": listed(case, None, layer)}
    if case["kind"] in NO_ATTENTION:
        result["attention"] = None
    return result


def write_records(options, cases, record):
    """Into `options.file`: the cases whose names have `options.only`, anew, the
    others as they are there."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    old = {case["name"]: case for case in record_logits.read_lines(options.file)} if options.file.exists() else {}
    new, refused = {}, 0
    for case in cases:
        if options.only not in case["name"]:
            if case["name"] in old:
                new[case["name"]] = old[case["name"]]
            continue
        try:
            new[case["name"]] = record(case)
            print(f"{case['name']}: {new[case['name']]['saved']}", flush=True)
        except Exception as problem:  # of any library code
            refused += 1
            print(f"{case['name']}: {type(problem).__name__}: {problem}", file=sys.stderr, flush=True)
    record_logits.write_lines(options.file, new.values())
    return 1 if refused else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--only", default="", help="a part of names")
    options = parser.parse_args()
    return write_records(options, cases(), record)


if __name__ == "__main__":
    sys.exit(main())
