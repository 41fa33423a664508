# SPDX-License-Identifier: Apache-2.0
"""Judges how mutated configs are read, against what save_pretrained writes.

Takes recorded configs (tests/data/architectures.jsonl) of the installed version of
transformers, changes, drops or nulls one to three of their keys, builds the model on
the CPU, and compares names and shapes with those of `shardplan inspect`. Prints a line
per type: right, refused, wrong (with what was changed), or unbuildable, where
transformers makes no model of it. Exits with 1 where anything is wrong.

    python tests/data/judge_mutated_configs.py SHARDPLAN COUNT SEED [TYPE,TYPE,..] \\
        [--record OUT.jsonl]

--record appends what is wrong to a file, as merge_architectures.py reads it: once it
is right or refused, `merge_architectures.py --add SHARDPLAN OUT.jsonl` keeps it.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ["TRANSFORMERS_VERBOSITY"] = "critical"

import torch  # noqa: E402
import transformers  # noqa: E402

torch.set_num_threads(1)
RECORDED = pathlib.Path(__file__).parent / "architectures.jsonl"
# Keys that say nothing of tensors, or that say what the model is.
KEPT = re.compile(r"token|version|model_type|architectures|dtype|max_window|dropout|"
                  r"image|patch|^num_labels|eps|seed")
LARGE = {"hidden_size": 6000, "intermediate_size": 6000, "vocab_size": 6000,
         "d_model": 6000, "num_hidden_layers": 16}


def is_mutable(key, value):
    if KEPT.search(key):
        return False
    if isinstance(value, list):
        return 0 < len(value) < 100 and not isinstance(value[0], (dict, list))
    return isinstance(value, (int, bool, type(None))) or "act" in key and isinstance(value, str)


def mutated(config, draw):
    """The config with some keys changed, and how they were."""
    config = json.loads(json.dumps(config))
    changes = []
    for _ in range(draw.choice((1, 1, 2, 3))):
        part = config
        sections = [key for key in config if key.endswith("_config")
                    and isinstance(config[key], dict)]
        if sections and draw.random() < 0.6:
            part = config[draw.choice(sections)]
        keys = [key for key, value in part.items() if is_mutable(key, value)]
        if not keys:
            continue
        key = draw.choice(keys)
        value = part[key]
        if draw.random() < 0.3:
            del part[key]
        elif isinstance(value, bool):
            part[key] = not value
        elif isinstance(value, str):
            part[key] = draw.choice(("relu", "gelu", "silu", "xielu", "prelu"))
        elif isinstance(value, list):
            part[key] = draw.choice((value[:-1], value + value[-1:], value[::-1], None))
        elif value is None:
            part[key] = draw.choice((1, 2, 4, 8, 16))
        else:
            part[key] = draw.choice((value + 1, value * 2, max(1, value - 1), None,
                                     value + 2, max(1, value // 2)))
        changes.append(f"{key}={part[key]}" if key in part else f"no {key}")
    return config, "mutated: " + ", ".join(changes)


def folded(name):
    return re.sub(r"\d+", "*", name)


def saved(config):
    """What transformers writes; raises where it makes no model."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "config.json").write_text(json.dumps(config))
        loaded = transformers.AutoConfig.from_pretrained(folder)
        for key, most in LARGE.items():
            value = getattr(loaded, key, 0)
            if isinstance(value, int) and value > most:
                raise ValueError("too large to be made here")
        model = getattr(transformers, config["architectures"][0])(loaded)
        model.save_pretrained(folder / "saved")
        counts = collections.Counter()
        for path in (folder / "saved").glob("*.safetensors"):
            with path.open("rb") as stream:
                header = stream.read(struct.unpack("<Q", stream.read(8))[0])
            for name, tensor in json.loads(header).items():
                if name != "__metadata__":
                    counts[folded(name), tuple(tensor["shape"])] += 1
        return counts


def ours(program, config):
    """What SHARDPLAN reads; None where it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        run = subprocess.run([program, "inspect", path, "--json", "--expand",
                              "--isolated"], capture_output=True, text=True)
    if run.returncode != 0:
        return None
    counts = collections.Counter()
    tables = json.loads(run.stdout)["tables"]
    for table, key in (("parameters", "parameter"), ("buffers", "buffer")):
        for row in tables.get(table, []):
            counts[folded(row[key]), tuple(row["shape"])] += 1
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program")
    parser.add_argument("count", type=int)
    parser.add_argument("seed")
    parser.add_argument("types", nargs="?", type=lambda text: text.split(","))
    parser.add_argument("--record", type=pathlib.Path)
    args = parser.parse_args()
    bases = collections.defaultdict(list)
    for line in RECORDED.open():
        row = json.loads(line)
        config = row["config"]
        if (config.get("transformers_version") == transformers.__version__
                and "tensors" in row and sum(t[2] for t in row["tensors"]) < 400):
            bases[config["model_type"]].append(config)
    types = args.types or sorted(bases)
    total = collections.Counter()
    for model_type in types:
        verdicts = collections.Counter()
        draw = random.Random(f"{args.seed} {model_type}")
        for _ in range(args.count if bases[model_type] else 0):
            config, changes = mutated(draw.choice(bases[model_type]), draw)
            try:
                expected = saved(config)
            except Exception:  # whatever transformers raises: it makes no model
                expected = None
            found = ours(args.program, config)
            if expected is None:
                verdict = "unbuildable, " + ("refused" if found is None else "read")
            elif found is None:
                verdict = "refused"
            else:
                verdict = "right" if found == expected else "wrong"
            if verdict == "wrong":
                print("wrong:", json.dumps(config))
                print("  only ours:", list((found - expected).items())[:3])
                print("  only saved:", list((expected - found).items())[:3])
                if args.record:
                    row = {"model_type": model_type, "case": changes, "config": config,
                           "transformers": transformers.__version__,
                           "tensors": [[name, shape, n] for (name, shape), n
                                       in sorted(expected.items())]}
                    with args.record.open("a") as stream:
                        stream.write(json.dumps(row) + "\n")
            verdicts[verdict] += 1
        total += verdicts
        print(model_type, dict(verdicts), flush=True)
    print(dict(total))
    return 1 if total["wrong"] else 0


sys.exit(main())
