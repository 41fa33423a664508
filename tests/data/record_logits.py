# SPDX-License-Identifier: Apache-2.0
"""Records what transformers computes of tiny models.

Weights are not stored: both sides draw them from a tensor's name in the
checkpoint, its shape and the index of a number (numbers_of). A line of
logits.jsonl has

- `name`, and `class`, a model class of transformers;
- `config` as that class writes it;
- `inputs` by name: shape, and the limit of integers;
- `outputs` by name: shape, the largest absolute number, and every `step`-th
  number in row-major order.

    pip install transformers==5.23.0 torch safetensors
    python tests/data/record_logits.py tests/data/logits.jsonl
    python tests/data/record_logits.py tests/data/logits.jsonl --add CASES.json
    python tests/data/record_logits.py tests/data/logits.jsonl --mutate 3 SEED OUT

The first records all anew. CASES.json is a list of {"name", "class", "config"},
perhaps with "inputs", and "attention" where that is not `eager`; those of names
that there are already are replaced. The third changes what is recorded at random, for judging with fresh cases:

    SHARDPLAN_LOGITS=OUT shardplan_tests -tc='*recorded logits*'

`--write FOLDER` keeps the checkpoints and NAME.expected.safetensors, for

    shardplan simulate FOLDER/NAME --expect FOLDER/NAME.expected.safetensors ..

Under transformers 4.57 configs are brought to the keys of that version first.

A case is refused where a number is not finite, and where a weight has no effect
on the outputs, unless it says so: "idle": ["ends of its name", ..].
"""

import argparse
import inspect
import json
import math
import os
import pathlib
import random
import shutil
import sys
import tempfile

import numpy
import torch
import transformers
from safetensors.torch import load_file, save_file

KEPT = 128  # numbers of an output
# Keys that say nothing of what is computed.
NOISE = {"_name_or_path", "architectures", "bos_token_id", "eos_token_id",
         "pad_token_id", "sep_token_id", "cls_token_id", "mask_token_id",
         "torch_dtype", "dtype", "use_cache", "initializer_range",
         "output_attentions", "output_hidden_states", "return_dict",
         "chunk_size_feed_forward", "id2label", "label2id", "problem_type"}
IDS = {"input_ids", "decoder_input_ids"}


def mixed(z):
    """The output of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return z ^ (z >> numpy.uint64(31))


def bits_of(name, count):
    """64 bits per number; the seed is FNV-1a of the name."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    steps = numpy.arange(1, count + 1, dtype=numpy.uint64)
    return mixed(numpy.uint64(seed) +
                 steps * numpy.uint64(0x9E3779B97F4A7C15))


def numbers_of(name, shape):
    """Uniform: vectors within 0.5 of 0, or of 1 where they are called weight;
    of others the deviation is 1.5 by the root of the last dimension."""
    count = math.prod(shape)
    numbers = (bits_of(name, count) >> numpy.uint64(40)).astype(numpy.float64)
    numbers = numbers / 2.0**23 - 1
    if len(shape) <= 1:
        numbers = numbers * 0.5 + (1 if name.endswith("weight") else 0)
    else:
        numbers = numbers * (1.5 * math.sqrt(3.0 / shape[-1]))
    return torch.from_numpy(numbers.astype(numpy.float32).reshape(shape))


def input_of(name, of):
    if "below" in of:
        ids = bits_of(name, math.prod(of["shape"])) % numpy.uint64(of["below"])
        return torch.from_numpy(ids.astype(numpy.int64).reshape(of["shape"]))
    return numbers_of(name, of["shape"])


def is_four():
    return transformers.__version__.startswith("4.")


def older(config):
    """Positions as configs of transformers 4 state them."""
    config = {k: older(v) if isinstance(v, dict) and "model_type" in v else v
              for k, v in config.items() if k not in ("rope_parameters", "dtype")
              } | ({"rope_parameters": config["rope_parameters"]}
                   if "rope_parameters" in config else {})
    rope = dict(config.pop("rope_parameters", None) or {})
    if "sliding_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = dict(rope["full_attention"])
    for key in ("rope_theta", "partial_rotary_factor"):
        if key in rope:
            config[key] = rope.pop(key)
    if rope.get("rope_type", "default") != "default":
        config["rope_scaling"] = rope
    config.setdefault("pad_token_id", None)  # beyond tiny vocabularies
    return config


def with_infinities(value):
    """{"__float__": "Infinity"} as the number that it stands for."""
    if isinstance(value, list):
        return [with_infinities(each) for each in value]
    if isinstance(value, dict) and "__float__" in value:
        return float(value["__float__"])
    return value


def config_of(case):
    config = {k: with_infinities(v) for k, v in case["config"].items()}
    if is_four():
        config = older(config)
        config.pop("transformers_version", None)
    kind = config.pop("model_type")
    return transformers.AutoConfig.for_model(kind, **config)


def without_infinities(value):
    """As transformers 5 saves them: JSON has no infinite numbers."""
    if isinstance(value, (list, tuple)):
        return [without_infinities(each) for each in value]
    if isinstance(value, float) and math.isinf(value):
        return {"__float__": "Infinity" if value > 0 else "-Infinity"}
    return value


def kept_config(model, case):
    config = {k: without_infinities(v)
              for k, v in model.config.to_dict().items()}
    defaults = {"architectures": [case["class"]],
                "transformers_version": transformers.__version__}
    kept = {k: v for k, v in config.items() if k not in NOISE or
            k in ("pad_token_id",) and case["config"].get(k) is not None}
    for each in ("id2label",):
        if each in case["config"]:
            kept[each] = case["config"][each]
    kept.pop("transformers_version", None)
    return {**defaults, **kept}


def default_inputs(config):
    text = config.get_text_config()
    ids = {"shape": [2, 12], "below": text.vocab_size}
    inputs = {"input_ids": ids}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = {"shape": [2, 9],
                                       "below": text.vocab_size}
    return inputs


def sampled(output):
    flat = output.detach().flatten()
    step = max(1, flat.numel() // KEPT)
    while any(step % p == 0 and flat.numel() % p == 0 and step > 1
              for p in (2, 3, 5, 7, 11, 13)):
        step += 1
    return {"shape": list(output.shape), "largest": flat.abs().max().item(),
            "step": step,
            "values": [float(f"{x:.8g}") for x in flat[::step].tolist()]}


def idle_weights(model, outputs):
    """Weights whose gradient is nothing."""
    total = sum((each * numbers_of(name, list(each.shape))).sum()
                for name, each in outputs.items())
    total.backward()
    return [name for name, p in model.named_parameters()
            if p.grad is None or not p.grad.abs().max() > 0]


def record(case, write=None):
    kind = getattr(transformers, case["class"])
    model = kind(config_of(case)).float()
    config = kept_config(model, case)
    with tempfile.TemporaryDirectory() as folder:
        where = pathlib.Path(folder)
        model.save_pretrained(where, max_shard_size="10GB")
        path = where / "model.safetensors"
        tensors = {name: numbers_of(name, list(each.shape)).to(
            torch.float32 if each.is_floating_point() else each.dtype)
            for name, each in load_file(path).items()}
        save_file(tensors, path, {"format": "pt"})
        if write is not None:
            shutil.copytree(where, write / case["name"], dirs_exist_ok=True)
        model, info = kind.from_pretrained(
            where, dtype=torch.float32, attn_implementation=case.get("attention", "eager"),
            output_loading_info=True,
            **({} if is_four() else {"experts_implementation": "eager"}))
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info.get(problem):
            raise ValueError(f"{problem}: {list(info[problem])[:3]}")
    model = model.eval()
    inputs = case.get("inputs") or default_inputs(model.config)
    for of in inputs.values():
        if "below" in of:
            of["below"] = model.config.get_text_config().vocab_size
    given = {name: input_of(name, of) for name, of in inputs.items()}
    takes = inspect.signature(model.forward).parameters
    found = model(**given,
                  **({"use_cache": False} if "use_cache" in takes else {}))
    outputs = {key: found[key] for key in
               ("logits", "start_logits", "end_logits", "last_hidden_state",
                "pooler_output")
               if found.get(key) is not None}
    if write is not None:
        save_file({**{k: v.contiguous() for k, v in given.items()},
                   **{k: v.detach().contiguous() for k, v in outputs.items()}},
                  write / f"{case['name']}.expected.safetensors")
    for key, each in outputs.items():
        if not torch.isfinite(each).all():
            raise ValueError(f"{key} is not finite")
    # Of experts that are parameters of their own some are not chosen.
    idle = [name for name in idle_weights(model, outputs)
            if ".experts." not in name and
            not any(name.endswith(end) for end in case.get("idle", []))]
    if idle:
        raise ValueError(f"without effect: {idle[:4]}")
    result = {"name": case["name"], "class": case["class"], "config": config,
              "inputs": inputs,
              "outputs": {k: sampled(v) for k, v in outputs.items()}}
    for key in ("idle", "attention"):
        if key in case:
            result[key] = case[key]
    return result


def mutated(case, rng):
    """Sizes and flags of a config, changed; may be one that cannot be."""
    config = dict(case["config"])
    keys = [k for k, v in config.items() if k not in NOISE and (
        isinstance(v, bool) or isinstance(v, (int, float)) and v > 0)]
    for key in rng.sample(keys, min(len(keys), rng.randint(1, 3))):
        value = config[key]
        if isinstance(value, bool):
            config[key] = not value
        elif isinstance(value, int):
            config[key] = max(1, rng.choice(
                [value + 1, value - 1, value * 2, value // 2]))
        else:
            config[key] = value * rng.choice([0.5, 0.75, 1.5])
    words = case["config"].get("vocab_size")
    inputs = {name: {**of, "below": config["vocab_size"]}
              if words is not None and of.get("below") == words else of
              for name, of in case.get("inputs", {}).items()}
    return {**case, "config": config, "inputs": inputs}


def read_lines(path):
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def write_lines(path, cases):
    text = "".join(json.dumps(case) + "\n" for case in cases)
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    os.replace(temporary, path)


def record_all(cases, quiet=False, write=None):
    """What can be recorded, and how many could not."""
    done, refused = [], 0
    for case in cases:
        try:
            done.append(record(case, write))
            if not quiet:
                sizes = {k: round(v["largest"], 3)
                         for k, v in done[-1]["outputs"].items()}
                print(f"{case['name']}: largest {sizes}", flush=True)
        except Exception as problem:  # of any library code
            refused += 1
            if not quiet:
                print(f"{case['name']}: {type(problem).__name__}: {problem}",
                      file=sys.stderr, flush=True)
    return done, refused


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--add", type=pathlib.Path)
    parser.add_argument("--mutate", nargs=3, metavar=("N", "SEED", "OUT"))
    parser.add_argument("--only", default="", help="a part of names")
    parser.add_argument("--write", type=pathlib.Path, metavar="FOLDER")
    options = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    old = read_lines(options.file)
    if options.mutate:
        count, seed, out = options.mutate
        rng = random.Random(int(seed))
        chosen = [case for case in old if options.only in case["name"]]
        cases = [{**mutated(case, rng), "name": f"{case['name']}.{n}",
                  "outputs": {}}
                 for case in chosen for n in range(int(count))]
        done, refused = record_all(cases, quiet=True, write=options.write)
        write_lines(pathlib.Path(out), done)
        print(f"{len(done)} recorded, {refused} that transformers refuses")
        return 0
    if options.add:
        new, refused = record_all(json.loads(options.add.read_text()))
    else:
        new, refused = record_all(
            [case for case in old if options.only in case["name"]],
            write=options.write)
    by_name = {case["name"]: case for case in old}
    by_name.update((case["name"], case) for case in new)
    if is_four() and not options.add:  # for judging, none of the recordings
        by_name = {case["name"]: case for case in new}
    write_lines(options.file, by_name.values())
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
