#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what transformers' configuration classes take for absent keys.

    python3 record_config_classes.py record v4.json     # with transformers 4.57.6
    python3 record_config_classes.py record v5.json     # with transformers 5.23.0
    python3 record_config_classes.py merge v4.json v5.json config_classes.jsonl

`record` needs PyTorch (a CPU will do), transformers and, for the models with a
vision tower of timm, timm and torchvision. It goes on with a file that is there
already: a type that the file has is not recorded again, unless --again is given.
`--types a,b` takes only these. Nothing is downloaded; models are built on the
meta device. `merge` needs neither.

A recording has per model type
  class          the configuration class
  classes        the classes that the Auto classes map the type to
  defaults       what the class takes for a key that config.json lacks: what the
                 class declares (in the dataclass or in __init__); for keys that
                 it does not declare what its instance has
  derived        keys whose value, when they are absent, depends on other keys:
                 `defaults` then has what is declared, mostly null
  undeclared     keys that the class does not declare and that change the tensors
                 all the same, as the model asks for them (getattr) or the class
                 takes them out of its **kwargs, with what stands for them when
                 they are absent (null also where that is computed)
  attribute_map  other names of keys
  sections       model types of sections that do not say theirs
  shapes         keys that, changed alone, change names, shapes or ties of the
                 tensors that the model saves (parameters and persistent buffers);
                 tried where derived keys are absent and where they are given
  shapes_if      keys that do so only when another key, one of those listed, has
                 another value than its default (say a switch that is off), or is
                 changed too as both must fit
  section_shapes keys of sections that change the tensors of the whole model, while
                 `shapes` and `shapes_if` of the section's own type lack them (a
                 projector between two sections, say, and ties)
  unprobed       keys of which no change made a model, with the first error
  not_built      why no model could be built at all
  built          the classes whose tensors were looked at
Token ids, generation parameters, what steers outputs, and what does not differ
from PretrainedConfig itself is left out. Infinite numbers are strings.

The shipped file has one line per model type, of the newest version that has the
type, and in `older` what the other versions have differently ("<absent>": the
key is not there). `shapes` is the union over the versions; `unprobed` has what no
version could tell.
"""
import argparse
import ast
import contextlib
import dataclasses
import importlib
import inspect
import json
import math
import os
import re
import signal
import sys
import textwrap
import time
import typing
import warnings

LONGEST_LIST = 8
LAYERS = 4
EXPERTS = 4
SECONDS = 20  # for one model

# The first line is recorded first.
TYPES = """
llama mistral mixtral qwen2 qwen3 qwen3_moe gemma2 gemma3 gemma3_text siglip_vision_model gpt2 bert gpt_oss deepseek_v3 t5 qwen3_next
qwen2_moe qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text
qwen3_vl qwen3_vl_text qwen3_vl_moe qwen3_vl_moe_text qwen3_omni_moe gemma gemma3n gemma3n_text gemma4 gemma4_text gemma4_audio
siglip2_vision_model clip clip_vision_model clip_text_model siglip siglip_text_model gpt_neo gpt_neox gpt_bigcode gptj
roberta xlm-roberta distilbert albert electra deberta-v2 modernbert umt5 mt5 bart mbart m2m_100 pegasus marian whisper
vit phi phi3 phimoe phi4_multimodal deepseek_v2 deepseek_v4 kimi_k2 glm glm4 glm4_moe glm_moe_dsa chatglm
falcon falcon_h1 falcon_mamba mamba mamba2 jamba bamba nemotron nemotron_h zamba2
granite granitemoe granitemoehybrid granitemoeshared olmo olmo2 olmo3 olmoe stablelm starcoder2 cohere cohere2 command-r
dbrx mpt opt bloom persimmon exaone4 ernie4_5 ernie4_5_moe hunyuan_v1_dense hunyuan_v1_moe minimax minimax_m2 minimax_m3
llama4 llama4_text llama4_vision_model mistral3 ministral ministral3 pixtral llava llava_next
mllama mllama_text_model mllama_vision_model paligemma idefics3 smollm3 smolvlm smolvlm_vision internvl internvl_vision
recurrent_gemma rwkv xlstm lfm2 lfm2_moe apertus arcee helium seed_oss dots1 flex_olmo longcat_flash step3p7
bitnet diffllama doge nanochat vaultgemma t5gemma wav2vec2 blenderbot xglm biogpt codegen ctrl openai-gpt mpnet longformer dinov2
""".split()

KEPT = """tie_word_embeddings is_encoder_decoder add_cross_attention is_decoder
cross_attention_hidden_size tie_encoder_decoder num_labels""".split()

# use_cache is kept: it is in most files, and says nothing about generated text.
SKIPPED = """transformers_version architectures id2label label2id problem_type torchscript return_dict
use_bfloat16 chunk_size_feed_forward dtype torch_dtype pruned_heads finetuning_task tf_legacy_loss
name_or_path model_type suppress_tokens begin_suppress_tokens max_length min_length do_sample early_stopping
num_beams num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty length_penalty
no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids num_return_sequences remove_invalid_values
exponential_decay_length_penalty task_specific_params tokenizer_class prefix forced_bos_token_id
forced_eos_token_id max_new_tokens return_dict_in_generate output_attentions output_auxiliary_logits
output_hidden_states output_logits output_past output_retrieved output_router_logits output_scores
output_segmentation""".split()

LAYER_KEYS = """num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers
num_encoder_layers depth num_blocks n_blocks encoder_num_hidden_layers decoder_num_hidden_layers
num_global_layers""".split()

EXPERT_KEYS = """num_experts num_local_experts n_routed_experts moe_num_experts num_routed_experts
n_experts num_global_experts""".split()

# Where keys that are smaller alone do not make a model, or one that shows too little.
# None: as it is.
SMALL = {
    "apertus": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 96,
    },
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "dbrx": {"attn_config": {"rope_theta": 10000.0}},
    "dots1": {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2},
    "dots3_note_text": {"num_hidden_layers": None},
    "dots3_note_vision_encoder": {"num_hidden_layers": None},
    "emu3": {"vocabulary_map": {"<image>": 1, "<|visual token 000000|>": 2, "<|visual token 000001|>": 3}},
    "gemma3n_text": {"num_hidden_layers": 10, "num_kv_shared_layers": 5},
    "gemma4_assistant": {
        "text_config": {
            "model_type": "gemma4_text",
            "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0,
            "num_hidden_layers": 6,
            "num_kv_shared_layers": 6,
        }
    },
    "gpt_neo": {"num_layers": LAYERS, "attention_types": [[["global", "local"], LAYERS // 2]]},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "jamba": {"num_hidden_layers": 16},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * (LAYERS // 2)},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "qwen4_exp_text": {
        "num_experts": 16,
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 256,
        "indexer_budget": 64,
        "indexer_compress_ratio": 4,
    },
    "zamba": {"num_hidden_layers": 16},
    "zamba2": {"num_hidden_layers": 6, "layers_block_type": ["mamba", "mamba", "hybrid"] * 2},
}
MROPE = {"rope_type": "default", "mrope_section": [24, 20, 20]}
SMALL_BEFORE_5 = {
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * (LAYERS // 2)},
    "mllama_text_model": {"rope_scaling": {"rope_type": "default"}},
    "phi4_multimodal": {"vision_config": {"num_hidden_layers": 2}, "audio_config": {"num_blocks": 2}},
    "qwen3_omni_moe_text": {"rope_scaling": MROPE},
    "qwen3_vl_moe_text": {"rope_scaling": MROPE},
    "qwen3_vl_text": {"rope_scaling": MROPE},
}

# What a key needs beside it.
COMPANIONS = {
    "add_cross_attention": {"is_decoder": True},
    "enable_moe_block": {"num_experts": EXPERTS, "top_k_experts": 2, "moe_intermediate_size": 64},
}

ACTIVATIONS = ["relu", "gelu", "silu"]
WORDS = {
    "feed_forward_proj": ["relu", "gated-gelu", "gated-silu", "gelu"],
    "position_embedding_type": ["absolute", "relative_key", "relative_key_query", "rotary", "nope"],
    "norm_type": ["layer_norm", "rms_norm", "rmsnorm", "layernorm"],
    "hybrid_override_pattern": ["M*M-", "MMMM", "M*ME"],
    "index_topk_pattern": ["FSSF", "FFFF"],
}
LAYER_WORDS = """full_attention sliding_attention linear_attention chunked_attention attention mamba conv moe mlp
recurrent hybrid hybrid_sliding sparse dense indexed_attention compressed_sparse_attention
heavily_compressed_attention minimax_m3_sparse""".split()


def plain(value):
    """Value as JSON has it, and whether it is a scalar or a list of scalars."""
    if isinstance(value, float) and not math.isfinite(value):
        return ("NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"), True
    if value is None or isinstance(value, (bool, int, float, str)):
        return value, True
    if isinstance(value, (list, tuple)):
        items = [plain(v) for v in value]
        return [v for v, _ in items], all(ok and not isinstance(v, list) for v, ok in items)
    return None, False


def first_line(error):
    while error.__cause__ is not None:
        error = error.__cause__
    text = re.sub(r"\s+", " ", str(error)).strip()
    return (type(error).__name__ + ": " + text)[:100]


@contextlib.contextmanager
def at_most(seconds):
    def stop(signum, frame):
        raise TimeoutError("took too long")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# ---------------------------------------------------------------- configurations


def declared(cls):
    """Keys that a configuration class declares: {key: (default, annotation)}."""
    from transformers import PretrainedConfig

    missing = inspect.Parameter.empty
    init = cls.__init__
    if dataclasses.is_dataclass(cls) and hasattr(init, "__wrapped__"):
        found = {}
        for field in dataclasses.fields(cls):
            if field.default is not dataclasses.MISSING:
                value = field.default
            elif field.default_factory is not dataclasses.MISSING:
                value = field.default_factory()
            else:
                value = missing
            found[field.name] = (value, field.type)
        return found
    found = {}
    if init is PretrainedConfig.__init__:
        return found
    for name, p in inspect.signature(init).parameters.items():
        if name != "self" and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            found[name] = (p.default, p.annotation)
    return found


def inherited(cls, own):
    """What base classes declare with null and `cls` hands on with its **kwargs."""
    from transformers import PretrainedConfig

    found = {}
    if dataclasses.is_dataclass(cls) and hasattr(cls.__init__, "__wrapped__"):
        return found
    for base in cls.__mro__[1:]:
        if base is PretrainedConfig or not issubclass(base, PretrainedConfig):
            continue
        for key, (value, annotation) in declared(base).items():
            if key not in own and value is None:
                found.setdefault(key, (None, annotation))
    return found


def attributes(config):
    found = {k: v for k, v in vars(config).items() if not k.startswith("_")}
    try:
        found["num_labels"] = config.num_labels
    except Exception:
        pass
    return found


def skipped(key):
    return key.startswith("_") or key.endswith(("_token_id", "_token_ids")) or key in SKIPPED


def section_keys(cls):
    try:
        return dict(getattr(cls, "sub_configs", None) or {})
    except Exception:
        return {}


def before_5():
    import transformers

    return int(transformers.__version__.split(".")[0]) < 5


def by_hand(kind):
    return {**SMALL.get(kind, {}), **(SMALL_BEFORE_5.get(kind, {}) if before_5() else {})}


def defaults_of(cls):
    """(defaults, derived, declared keys, instance or None, error)"""
    from transformers import PretrainedConfig

    own = declared(cls)
    base = attributes(PretrainedConfig())
    base_keys = set(base)
    if dataclasses.is_dataclass(PretrainedConfig):
        base_keys |= {f.name for f in dataclasses.fields(PretrainedConfig)}
    error = None
    try:
        instance = cls()
        has = attributes(instance)
    except Exception as e:
        instance, has, error = None, {}, first_line(e)
        with contextlib.suppress(Exception):
            instance = cls(**by_hand(cls.model_type))
            has = attributes(instance)
    for key, what in inherited(cls, own).items():
        try:
            if instance is not None and plain(attributes(cls(**{key: None})).get(key)) == plain(has.get(key)):
                own[key] = what
        except Exception:
            pass
    sections = section_keys(cls)
    defaults, derived = {}, set()
    aliases = dict(getattr(cls, "attribute_map", None) or {})
    for key in list(own) + [k for k in has if k not in own]:
        if skipped(key) or key in sections:
            continue
        if key in own and own[key][0] is not inspect.Parameter.empty:
            value = own[key][0]
        elif key in has:
            value = has[key]
        else:
            continue
        if key not in KEPT and key in base_keys:
            if key in base and plain(base[key]) == plain(has.get(key, value)):
                continue
        json_value, ok = plain(value)
        real = aliases.get(key, key)
        if key in own and real in has and plain(has[real]) != plain(value):
            derived.add(key)
        if not ok or (isinstance(json_value, list) and len(json_value) > LONGEST_LIST):
            continue
        defaults[key] = json_value
    return defaults, derived, own, instance, error


def default_sections(cls, instance):
    found = {}
    for key, section_class in section_keys(cls).items():
        kind = None
        for given in ({key: {}}, None):
            try:
                config = cls(**given) if given is not None else instance
                kind = getattr(getattr(config, key), "model_type", None)
            except Exception:
                kind = None
            if kind:
                break
        kind = kind or getattr(section_class, "model_type", None)
        if kind:
            found[key] = kind
    return found


# ------------------------------------------------------------------------ models


def auto_classes():
    from transformers.models.auto import modeling_auto as auto

    return {
        "causal": auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        "base": auto.MODEL_MAPPING_NAMES,
        "image_text": auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
        "seq2seq": auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        "masked": auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    }


def classes_of(kind):
    found = {}
    for name, mapping in auto_classes().items():
        if kind in mapping:
            what = mapping[kind]
            found[name] = what if isinstance(what, str) else list(what)
    return found


def model_class(name):
    import transformers

    return getattr(transformers, name)


def modeling_modules(cls):
    """The modules beside the configuration's that have models."""
    package = cls.__module__.rsplit(".", 1)[0]
    folder = os.path.dirname(importlib.import_module(cls.__module__).__file__)
    for name in sorted(os.listdir(folder)):
        if re.match(r"modeling_(?!tf_|flax_).*\.py$", name):
            yield package + "." + name[:-3]


def model_classes(cls, kind, classes, encoder_decoder, has_sections):
    """The classes whose tensors are looked at."""
    from transformers.models.auto import modeling_auto as auto

    speech = auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES.get(kind)
    classes = {**classes, **({"speech": speech} if speech else {})}
    order = ["causal", "masked", "seq2seq", "image_text", "base"]
    if encoder_decoder:
        order = ["seq2seq", "speech", "image_text", "base", "causal", "masked"]
    elif has_sections:
        order = ["image_text", "causal", "seq2seq", "base", "masked"]
    found = []
    for name in order:
        what = classes.get(name)
        if what:
            found += [what] if isinstance(what, str) else what
    result = []
    for name in found:
        try:
            result.append(model_class(name))
        except Exception:
            continue
    # Classes of sections are in no Auto class.
    if not result:
        from transformers import PreTrainedModel

        for module in modeling_modules(cls):
            for value in vars(importlib.import_module(module)).values():
                if inspect.isclass(value) and issubclass(value, PreTrainedModel):
                    if getattr(value, "config_class", None) is cls and not value.__name__.endswith("PreTrainedModel"):
                        result.append(value)
    return result


def no_initialization():
    for where in ("transformers.initialization", "transformers.modeling_utils"):
        try:
            return getattr(importlib.import_module(where), "no_init_weights")()
        except Exception:
            continue
    return contextlib.nullcontext()


def tensors(model_class, config):
    """Names, shapes and ties of what a model saves."""
    import torch

    try:
        with at_most(SECONDS), torch.device("meta"), no_initialization():
            model = model_class(config)
    except NotImplementedError as e:
        # Some activations read their numbers back.
        if "meta tensor" not in str(e) or getattr(config, "hidden_size", 1000) > 256:
            raise
        with at_most(SECONDS), no_initialization():
            model = model_class(config)
    with at_most(SECONDS):
        model.tie_weights()
    buffers = {name for name, _ in model.named_buffers(remove_duplicate=False)}
    state = model.state_dict(keep_vars=True)
    shapes, same = set(), {}
    for name, tensor in state.items():
        if not hasattr(tensor, "shape"):
            continue
        shapes.add((name, tuple(tensor.shape), name in buffers))
        same.setdefault(id(tensor), []).append(name)
    ties = frozenset(tuple(sorted(names)) for names in same.values() if len(names) > 1)
    listed = getattr(model, "all_tied_weights_keys", None)
    if listed is None:
        listed = {}
    return frozenset(shapes), ties, frozenset(listed)


# ----------------------------------------------------------------------- probing


class Words:
    """Words that the sources of a configuration compare a key with."""

    def __init__(self, cls):
        self.compared = {}
        self.text = ""
        self.models = ast.Module([], [])
        modules = [cls.__module__] + list(modeling_modules(cls))
        for name in modules:
            try:
                text = open(importlib.util.find_spec(name).origin).read()
            except Exception:
                continue
            self.text += text
            tree = ast.parse(text)
            if name != cls.__module__:
                self.models.body += tree.body
            for node in ast.walk(tree):
                if isinstance(node, ast.Compare):
                    self.compare([node.left] + node.comparators)
                elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    if node.func.attr == "startswith":
                        self.compare([node.func.value] + node.args)
        self.doc = "".join(c.__doc__ or "" for c in cls.__mro__[:2])
        self.literals = {}
        for base in cls.__mro__:
            for key, value in vars(base).get("__annotations__", {}).items():
                self.literals.setdefault(key, value)

    def compare(self, sides):
        names = [n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in sides]
        said = []
        for side in sides:
            for node in [side] + list(getattr(side, "elts", [])):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    said.append(node.value)
        for name in names:
            if name and said:
                self.compared.setdefault(name, []).extend(said)

    def of(self, key):
        found = list(self.compared.get(key, []))
        for value in typing.get_args(self.literals.get(key)) or []:
            found += [v for v in (value, *typing.get_args(value)) if isinstance(v, str)]
        paragraph = re.search(r"^ *" + re.escape(key) + r" \(.*?(?=^ *\w+ \(|\Z)", self.doc, re.S | re.M)
        if paragraph:
            found += re.findall(r"[`'\"]{1,2}\"?([\w-]+)\"?[`'\"]{1,2}", paragraph.group(0).split(":", 1)[-1])
        return found

    def layers(self):
        found = [w for w in LAYER_WORDS if '"' + w + '"' in self.text]
        return found if len(found) > 1 else LAYER_WORDS

    def asked(self, cls):
        """Keys that models ask for with getattr, and the class for of its **kwargs: {key: default}."""
        from transformers import PretrainedConfig

        found = {}

        def note(key, default):
            try:
                value = ast.literal_eval(default) if default is not None else None
            except ValueError:
                value = None
            found.setdefault(key, value if plain(value)[1] else None)

        for node in ast.walk(self.models):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("getattr", "hasattr")
                and len(node.args) > 1
                and isinstance(node.args[1], ast.Constant)
                and "config" in ast.unparse(node.args[0])
            ):
                note(node.args[1].value, node.args[2] if len(node.args) > 2 else None)
        for base in cls.__mro__:
            if base is PretrainedConfig or not issubclass(base, PretrainedConfig):
                continue
            with contextlib.suppress(Exception):
                tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
                for node in ast.walk(tree):
                    if (
                        isinstance(node, ast.Call)
                        and isinstance(node.func, ast.Attribute)
                        and node.func.attr in ("pop", "get")
                        and ast.unparse(node.func.value) == "kwargs"
                        and isinstance(node.args[0], ast.Constant)
                    ):
                        note(node.args[0].value, node.args[1] if len(node.args) > 1 else None)
        return {k: v for k, v in found.items() if isinstance(k, str)}


def changes(key, value, annotation, words):
    """Other values for a key."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        tried = [value * 2, value + 1, value // 2 if value > 1 else 2, 0, None, 64]
        if "feature_layer" in key:
            tried.append([value, value])
    elif isinstance(value, float):
        tried = [value * 2 if value else 0.5, value / 4, 1.0]
    elif isinstance(value, str):
        tried = list(WORDS.get(key, []))
        if "act" in key or key in ("feed_forward_proj", "afn"):
            tried += ACTIVATIONS
        tried += words.of(key)
    elif isinstance(value, (list, tuple)):
        tried = list_changes(key, list(value), words)
        if isinstance(value, tuple):
            tried = [tuple(v) if isinstance(v, list) else v for v in tried]
    elif value is None:
        says = str(annotation)
        if "rope" in key and "rope_dim" not in key:
            return [
                {"rope_type": "linear", "type": "linear", "factor": 2.0, "rope_theta": 1000.0},
                {"type": "linear", "factor": 2.0},
            ]
        free = annotation in (inspect.Parameter.empty, None, typing.Any) or says in ("", "None")
        tried = []
        if free or "int" in says:
            tried += [2, 64, 96]
        if free or "bool" in says:
            tried += [True, False]
        if free or "float" in says:
            tried += [0.5]
        if free or "str" in says:
            tried += WORDS.get(key, []) + words.of(key)
        if re.search("layers?_.*type|block_type", key):
            tried += [[w] * LAYERS for w in words.layers()]
        elif free or "list" in says.lower() or "tuple" in says.lower():
            tried += [[0], [0, 1], [1] * LAYERS, [4] * LAYERS]
    else:
        return []
    found = []
    for other in tried:
        if type(other) is type(value) and other == value:
            continue
        if not any(type(other) is type(f) and other == f for f in found):
            found.append(other)
    return found


def list_changes(key, value, words):
    tried = []
    if value and all(isinstance(v, str) for v in value):
        others = words.of(key) + words.layers() + list(value)
        for word in dict.fromkeys(others):
            tried.append(value[:-1] + [word])
            tried.append([word] + value[1:])
            tried.append([word] * len(value))
    elif value and all(isinstance(v, bool) for v in value):
        tried += [[not v for v in value], value[:-1] + [not value[-1]]]
    elif value and all(isinstance(v, (int, float)) for v in value):
        tried += [[v * 2 for v in value], [v + 1 for v in value], value[:-1] + [value[-1] * 2], value[:-1] + [0]]
        tried += [[0] * len(value), [1] * len(value)]
    elif not value:
        tried += [[0], [0, 1], [1, 2]]
    if value:
        tried += [value[:-1], value[::-1], [], value + value[-1:]]
    return tried


# Where switches show what they do only together: {type: [(the switch that is named, keys)]}.
CONTEXTS = {
    "deberta-v2": [
        (
            "relative_attention",
            {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "norm_rel_ebd": "layer_norm"},
        )
    ],
    "qwen4_exp_text": [("ple_layer_ids", {"ple_layer_ids": [1], "ngram_vocab_size_base": 1000})],
}

# Keys that go with a key, where that alone makes no model and lists are not all that must fit.
TOGETHER = {
    "gpt_neo": {
        "num_layers": {"num_layers": 2, "attention_types": [[["global", "local"], 1]]},
        "attention_types": {"attention_types": [[["global"], LAYERS]]},
    },
    "internlm3": {
        "attention_bias": {"attention_bias": True, "mlp_bias": True},
        "mlp_bias": {"attention_bias": True, "mlp_bias": True},
    },
}


class Probe:
    def __init__(self, cls, kind, own, instance, classes):
        self.cls, self.kind, self.own = cls, kind, own
        self.words = Words(cls)
        self.small = small_keys(cls, kind, own, instance)
        encoder_decoder = bool(getattr(instance, "is_encoder_decoder", False))
        candidates = model_classes(cls, kind, classes, encoder_decoder, bool(section_keys(cls)))
        self.built, error = [], None
        masked = classes.get("masked")
        attempts = [self.small, {**self.small, **{k: 8 for k in self.small if k in EXPERT_KEYS}}]
        for small in attempts:
            for model in candidates:
                # Encoders have heads of their own.
                if self.built and model.__name__ != masked:
                    continue
                try:
                    config = self.config(small)
                    tensors(model, config)
                    self.base_config = attributes(config)
                    self.small = small
                    self.built.append(model)
                except (Exception, TimeoutError) as e:
                    error = error or (model.__name__ + ": " + first_line(e))
            if self.built:
                self.base_tensors = [tensors(m, self.config(small)) for m in self.built]
                self.start, self.start_tensors = small, self.base_tensors
                break
        self.error = None if self.built else (error or "no model class")[:200]

    def config(self, keys):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            config = self.cls(**keys)
        if hasattr(config, "validate"):
            config.validate()
        return config

    def differs(self, keys):
        """Whether other keys change the tensors; raises when no model is built."""
        config = self.config({**self.start, **keys})
        error, worked = None, False
        for model, before in zip(self.built, self.start_tensors):
            try:
                if tensors(model, config) != before:
                    return True
                worked = True
            except (Exception, TimeoutError) as e:
                error = e
        if not worked:
            raise error
        return False

    def start_from(self, keys):
        """Lets changes be to a configuration with these keys; whether it makes a model."""
        try:
            start = {**self.small, **keys}
            self.start_tensors = [tensors(m, self.config(start)) for m in self.built]
            self.start = start
            return True
        except (Exception, TimeoutError):
            self.start, self.start_tensors = self.small, self.base_tensors
            return False

    def derived_given(self, derived):
        """What derived keys come to, as if a file said it."""
        found = {}
        for key in derived:
            value = self.base_config.get(key)
            if key in self.own and key not in self.small and plain(value)[1] and value is not None:
                found[key] = list(value) if isinstance(value, tuple) else value
        return found

    def quiet(self, keys):
        """Of changes that should not matter, those that do or that fail."""
        if not keys:
            return []
        try:
            if not self.differs(dict(keys)):
                return []
        except (Exception, TimeoutError):
            pass
        if len(keys) == 1:
            return [keys[0][0]]
        middle = len(keys) // 2
        return self.quiet(keys[:middle]) + self.quiet(keys[middle:])

    def run(self, keys, derived):
        """(shapes, shapes_if, unprobed)"""
        plans, calm = self.plans(keys)
        switches = {}
        shapes, worked, failed = self.once(plans, calm, switches)
        given = self.derived_given(derived)
        if given:
            # Some lists must fit others that change: then without the lists.
            numbers = {k: v for k, v in given.items() if not isinstance(v, list)}
            for keys in (given, numbers) if len(numbers) < len(given) else (given,):
                if keys and self.start_from(keys):
                    rest = {k: v for k, v in plans.items() if k not in shapes}
                    more, worked_too, failed_too = self.once(rest, calm, switches)
                    shapes |= more
                    worked |= worked_too
                    failed = {**failed_too, **failed}
        shapes_if = {}
        self.contexts = [(key, {key: other}) for key, other in switches.items()] + CONTEXTS.get(self.kind, [])
        for switch, keys in self.contexts:
            if not self.start_from(keys):
                continue
            rest = {k: v for k, v in plans.items() if k not in shapes and k != switch}
            more, worked_too, _ = self.once(rest, calm, {})
            worked |= worked_too
            for key in more:
                shapes_if.setdefault(key, []).append(switch)
        for key, companions in COMPANIONS.items():
            if key not in failed or key in shapes or not self.start_from(companions):
                continue
            with contextlib.suppress(Exception, TimeoutError):
                switched = plans[key][0]
                if self.differs({key: switched}):
                    shapes_if.setdefault(key, []).extend(companions)
                    if self.start_from({**companions, key: switched}):
                        rest = {k: v for k, v in plans.items() if k not in shapes and k != key}
                        for other in self.once(rest, calm, {})[0]:
                            shapes_if.setdefault(other, []).append(key)
        for name, real in (getattr(self.cls, "attribute_map", None) or {}).items():
            if {name, real} & shapes:
                shapes |= {name, real} & set(plans)
        unprobed = {k: v for k, v in failed.items() if k not in worked | shapes | set(shapes_if)}
        self.start_from({})
        for key in list(unprobed):
            keys = TOGETHER.get(self.kind, {}).get(key)
            if keys is None and key in LAYER_KEYS:
                before = self.base_config.get(key)
                keys = {k: v[: before // 2] for k, v in self.small.items() if isinstance(v, list) and len(v) == before}
                keys[key] = before // 2
            with contextlib.suppress(Exception, TimeoutError):
                if keys and self.differs(keys):
                    shapes.add(key)
                    del unprobed[key]
        for key in list(unprobed):
            partner = self.partner(key, plans)
            if partner:
                shapes_if[key] = [partner]
                del unprobed[key]
        self.start_from({})
        return shapes, shapes_if, unprobed

    def partner(self, key, plans):
        """Another number that must change with a key, for that to change the tensors."""
        numbers = {k: v for k, v in self.base_config.items() if type(v) is int and v > 1 and k in plans}
        for other, value in numbers.items():
            if key not in numbers or other == key:
                continue
            for mine, theirs in ((numbers[key] * 2, value * 2), (numbers[key] * 2, value // 2)):
                try:
                    if self.start_from({other: theirs}):
                        if self.differs({key: mine}):
                            return other
                    elif self.differs({key: mine, other: theirs}):
                        return other
                except (Exception, TimeoutError):
                    continue
        return None

    def undeclared(self, known):
        """Keys that are not declared and change tensors, and what stands for them."""
        found = {}
        for _, keys in [("", {})] + self.contexts:
            if not self.start_from(keys):
                continue
            for key, default in self.words.asked(self.cls).items():
                if key in known or key in found or skipped(key) or key in section_keys(self.cls):
                    continue
                for other in changes(key, default, inspect.Parameter.empty, self.words):
                    try:
                        if self.differs({key: other}):
                            found[key] = plain(default)[0]
                            break
                    except (Exception, TimeoutError):
                        continue
        self.start_from({})
        return found

    def sections(self, entry, types):
        """Keys of sections that change the tensors of this model and not of the section's own type."""
        found = {}
        for name, kind in entry.get("sections", {}).items():
            section = self.base_config.get(name)
            given = self.small.get(name, {})
            if section is None or kind not in types or not isinstance(given, dict):
                continue
            inner = types[kind]
            known = {*inner.get("shapes", []), *inner.get("shapes_if", {}), *section_keys(type(section)), "num_labels"}
            own, has = declared(type(section)), attributes(section)
            for key in inner["defaults"]:
                value = has.get(key)
                if key in known or isinstance(value, float):
                    continue
                annotation = own.get(key, (None, inspect.Parameter.empty))[1]
                for other in changes(key, value, annotation, self.words)[:3]:
                    try:
                        if self.differs({name: {**given, key: other}}):
                            found.setdefault(name, []).append(key)
                            break
                    except (Exception, TimeoutError):
                        continue
        return {k: sorted(v) for k, v in found.items()}

    def plans(self, keys):
        values = {}
        for key in keys:
            if key in self.base_config:
                values[key] = self.base_config[key]
            elif key in self.own:
                values[key] = self.own[key][0]
            else:
                continue
        plans = {}
        for key, value in values.items():
            annotation = self.own.get(key, (None, inspect.Parameter.empty))[1]
            plans[key] = changes(key, value, annotation, self.words)
            # What stands for null may be another kind of value than what it becomes.
            declared_value = self.own.get(key, (value,))[0]
            if declared_value is not None and plain(declared_value) != plain(value) and plain(declared_value)[1]:
                plans[key] += changes(key, declared_value, annotation, self.words)
        calm = [
            k
            for k, v in values.items()
            if isinstance(v, float) or re.search(r"drop|_eps|epsilon|use_cache|_std$|_coef|token_index", k)
        ]
        return plans, calm

    def once(self, plans, calm, switches):
        """(keys that change tensors, keys of which a change made a model, first errors)"""
        shapes, worked, failed = set(), set(), {}
        calm = [k for k in calm if k in plans]
        loud = set(self.quiet([(k, plans[k][0]) for k in calm if plans[k]]))
        loud |= set(self.quiet([(k, plans[k][1]) for k in calm if k not in loud and len(plans[k]) > 1]))
        for key, plan in plans.items():
            if key in calm and key not in loud:
                worked.add(key)
                continue
            for other in plan:
                try:
                    if self.differs({key: other}):
                        shapes.add(key)
                        value = self.base_config.get(key)
                        # Numbers that say how much of something is there may say that there is none.
                        if not isinstance(value, (int, float)) or value <= 1:
                            switches.setdefault(key, other)
                        break
                    worked.add(key)
                except (Exception, TimeoutError) as e:
                    failed.setdefault(key, first_line(e))
        return shapes, worked, failed

    def dependents(self, keys):
        """Keys that are not given and change when another one does."""
        found = set()
        given = set(self.small)
        aliases = dict(getattr(self.cls, "attribute_map", None) or {})
        for key in keys:
            if key not in self.base_config and key not in self.own:
                continue
            value = self.base_config.get(key, self.own.get(key, (None,))[0])
            annotation = self.own.get(key, (None, inspect.Parameter.empty))[1]
            for other in changes(key, value, annotation, self.words)[:3]:
                try:
                    has = attributes(self.config({**self.small, key: other}))
                except Exception:
                    continue
                for name, before in self.base_config.items():
                    if name in (key, aliases.get(key), "num_labels") or name in given or not plain(before)[1]:
                        continue
                    if name in has and plain(has[name]) != plain(before):
                        found.add(name)
        return found


def small_keys(cls, kind, own, instance):
    """Keys that make a small model of a type."""
    has = attributes(instance)
    aliases = dict(getattr(cls, "attribute_map", None) or {})
    small = {}
    depth = None
    for key in dict.fromkeys(list(own) + list(has)):
        if any(aliases.get(k) == key for k in small):
            continue  # the other name says it
        value = has.get(aliases.get(key, key))
        given = own.get(key, (value, None))[0]
        if given is None or isinstance(value, bool) or not isinstance(value, int):
            continue
        if key in LAYER_KEYS and value > LAYERS:
            if key == "num_hidden_layers" or depth is None:
                depth = value
            small[key] = LAYERS
        elif key in EXPERT_KEYS and value > EXPERTS:
            small[key] = EXPERTS
    for key, value in by_hand(kind).items():
        small[key] = value
        if value is None:
            del small[key]
            depth = None
    for key, (value, _) in own.items():
        if isinstance(value, (list, tuple)) and depth and len(value) == depth:
            small[key] = list(value)[:LAYERS]
    for key in section_keys(cls):
        section = getattr(instance, key, None)
        if section is None or not hasattr(section, "model_type") or key in small:
            continue
        inner = type(section)
        keys = section_start(section)
        keys.update(small_keys(inner, section.model_type, declared(inner), section))
        if section.model_type:
            keys["model_type"] = section.model_type
        small[key] = keys
    return small


def section_start(section):
    """What a section has that its class alone would not have."""
    try:
        usual = attributes(type(section)())
    except Exception:
        return {}
    found = {}
    own = declared(type(section))
    for key, value in attributes(section).items():
        if skipped(key) or key in section_keys(type(section)) or key == "num_labels":
            continue
        if isinstance(value, (list, tuple)) and own.get(key, (0, 0))[0] is None:
            continue
        if plain(value)[1] and plain(value) != plain(usual.get(key)):
            found[key] = value
    return found


# --------------------------------------------------------------------- recording


def record_type(kind, cls):
    defaults, derived, own, instance, error = defaults_of(cls)
    entry = {"class": cls.__name__, "classes": classes_of(kind), "defaults": defaults}
    aliases = dict(getattr(cls, "attribute_map", None) or {})
    if aliases:
        entry["attribute_map"] = aliases
    sections = default_sections(cls, instance)
    if sections:
        entry["sections"] = sections
    inner = {}
    if error:
        entry["from_signature"] = True
    if instance is None:
        entry["not_built"] = error
    else:
        for key in sections:
            section = getattr(instance, key, None)
            if section is None:
                try:
                    section = getattr(cls(**{key: {}}), key)
                except Exception:
                    continue
            if getattr(section, "model_type", None):
                inner[section.model_type] = type(section)
        probe = Probe(cls, kind, own, instance, entry["classes"])
        if probe.error:
            entry["not_built"] = probe.error
        else:
            long_lists = {
                k
                for k, v in {**{k: v for k, (v, _) in own.items()}, **probe.base_config}.items()
                if isinstance(v, (list, tuple)) and plain(v)[1]
            }
            keys = [k for k in dict.fromkeys([*defaults, *sorted(long_lists)]) if not skipped(k) and k not in sections]
            keys = [k for k in keys if k != "num_labels"]
            derived |= {k for k in probe.dependents(keys) if k in keys}
            shapes, shapes_if, unprobed = probe.run(keys, derived)
            entry["shapes"] = sorted(shapes)
            undeclared = probe.undeclared({*defaults, *long_lists, *own, *aliases})
            if undeclared:
                entry["undeclared"] = undeclared
            if shapes_if:
                entry["shapes_if"] = {k: sorted(set(v)) for k, v in sorted(shapes_if.items())}
            if unprobed:
                entry["unprobed"] = dict(sorted(unprobed.items()))
            entry["built"] = [m.__name__ for m in probe.built]
    if derived:
        entry["derived"] = sorted(derived)
    return entry, inner


def record(out, only, again):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")
    import logging

    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    version = transformers.__version__
    recorded = {"transformers": version, "torch": torch.__version__, "types": {}}
    if os.path.exists(out):
        with open(out) as f:
            before = json.load(f)
        if before["transformers"] != version:
            sys.exit(f"{out} is of transformers {before['transformers']}")
        recorded["types"] = before["types"]
    wanted = list(only or dict.fromkeys(TYPES + sorted(auto_classes()["causal"])))
    work = [(kind, None) for kind in wanted]
    done = set()
    while work:
        kind, cls = work.pop(0)
        if kind in done or (kind in recorded["types"] and not again):
            continue
        if cls is None:
            if kind not in CONFIG_MAPPING:
                continue
            done.add(kind)
            try:
                cls = CONFIG_MAPPING[kind]
            except Exception as e:
                print(kind, "no class:", first_line(e), file=sys.stderr)
                continue
        done.add(kind)
        start = time.time()
        try:
            entry, inner = record_type(kind, cls)
        except (Exception, TimeoutError) as e:
            print(kind, "FAILED:", first_line(e), file=sys.stderr)
            if os.environ.get("RECORD_TRACE"):
                raise
            continue
        recorded["types"][kind] = entry
        for name, section in inner.items():
            if only is None and name not in done and (name not in wanted or name not in CONFIG_MAPPING):
                work.append((name, CONFIG_MAPPING[name] if name in CONFIG_MAPPING else section))
        print(
            f"{kind} {time.time() - start:.1f} s, {len(entry.get('shapes', []))} shapes,"
            f" {len(entry.get('unprobed', []))} unprobed {entry.get('not_built', '')}",
            flush=True,
        )
        save(recorded, out)
    # What sections do in the whole needs what is recorded of their own types.
    for kind, entry in recorded["types"].items():
        if not entry.get("sections") or "built" not in entry or kind not in CONFIG_MAPPING:
            continue
        if "section_shapes" in entry and not again or only and kind not in only:
            continue
        start = time.time()
        cls = CONFIG_MAPPING[kind]
        _, _, own, instance, _ = defaults_of(cls)
        probe = Probe(cls, kind, own, instance, entry["classes"])
        entry["section_shapes"] = {} if probe.error else probe.sections(entry, recorded["types"])
        print(f"{kind} {time.time() - start:.1f} s, sections {entry['section_shapes']}", flush=True)
        save(recorded, out)


def save(recorded, out):
    with open(out + ".part", "w") as f:
        json.dump(recorded, f, indent=1, sort_keys=True)
        f.write("\n")
    os.replace(out + ".part", out)


# ----------------------------------------------------------------------- merging


def newer_last(recording):
    return [int(n) for n in re.findall(r"\d+", recording["transformers"])[:3]]


# What a class of transformers 4 calls itself, where the Auto classes call it otherwise.
CALLS_ITSELF = {"Glm4vMoe_text": "glm4v_moe_text"}


def merge(files, out):
    recordings = []
    for name in files:
        with open(name) as f:
            recordings.append(json.load(f))
        types = recordings[-1]["types"]
        if recordings[-1]["transformers"].startswith("4"):
            types.update({own: types[known] for own, known in CALLS_ITSELF.items() if known in types})
    recordings.sort(key=newer_last)
    lines = []
    for kind in sorted({k for r in recordings for k in r["types"]}):
        have = [(r["transformers"], r["types"][kind]) for r in recordings if kind in r["types"]]
        newest = have[-1][1]
        line = {"model_type": kind, "versions": [v for v, _ in have]}
        for member in ("class", "classes", "defaults", "sections", "attribute_map", "from_signature", "not_built"):
            line[member] = newest.get(member)
        older = {}
        for version, entry in have[:-1]:
            differs = {}
            for key in {*entry["defaults"], *newest["defaults"]}:
                if key not in entry["defaults"]:
                    differs[key] = "<absent>"
                elif key not in newest["defaults"] or not same(entry["defaults"][key], newest["defaults"][key]):
                    differs[key] = entry["defaults"][key]
            if differs:
                older[version] = differs
        line["older"] = older
        shapes = {k for _, e in have for k in e.get("shapes", [])}
        line["shapes"] = sorted(shapes)
        conditions = {}
        for _, entry in have:
            for key, switches in entry.get("shapes_if", {}).items():
                if key not in shapes:
                    conditions.setdefault(key, set()).update(switches)
        inside = {}
        for _, entry in have:
            for section, keys in entry.get("section_shapes", {}).items():
                inside.setdefault(section, set()).update(keys)
        line["section_shapes"] = {k: sorted(v) for k, v in inside.items()}
        line["undeclared"] = {k: v for _, e in have for k, v in e.get("undeclared", {}).items()}
        line["shapes_if"] = {k: sorted(v) for k, v in conditions.items()}
        line["derived"] = sorted({k for _, e in have for k in e.get("derived", [])})
        failed = {k for _, e in have for k in e.get("unprobed", {})}
        probed = {
            k
            for _, e in have
            if "not_built" not in e
            for k in e["defaults"]
            if k not in e.get("unprobed", {})
        }
        line["unprobed"] = sorted(failed - shapes - probed - set(conditions))
        line = {k: v for k, v in line.items() if v not in (None, {}, [], "")}
        lines.append(json.dumps(line, separators=(",", ":"), sort_keys=True, allow_nan=False))
    with open(out, "w") as f:
        f.write("\n".join(lines) + "\n")


def same(a, b):
    return type(a) is type(b) and a == b or (type(a) in (int, float) and type(b) in (int, float) and a == b)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    one = modes.add_parser("record", help="record with the transformers that is installed")
    one.add_argument("out")
    one.add_argument("--types", type=lambda s: s.split(","), default=None)
    one.add_argument("--again", action="store_true")
    both = modes.add_parser("merge", help="merge recordings")
    both.add_argument("recordings", nargs="+")
    both.add_argument("out")
    args = parser.parse_args()
    if args.mode == "record":
        record(args.out, args.types, args.again)
    else:
        merge(args.recordings, args.out)


if __name__ == "__main__":
    main()
