# SPDX-License-Identifier: Apache-2.0
"""Judges how mutated configs are read, against what save_pretrained writes.

Takes recorded configs (tests/data/architectures.jsonl) of the installed version of
transformers, changes, drops or nulls one to three of their keys, builds the model on
the CPU, and compares names and shapes with those of `shardplan inspect`. Prints a line
per type: right, refused, wrong (with what was changed), or unbuildable, where
transformers makes no model of it. Exits with 1 where anything is wrong.

    python tests/data/judge_mutated_configs.py SHARDPLAN COUNT SEED [TYPE,TYPE,..]
"""

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


def mutated(config, draw):
    config = json.loads(json.dumps(config))
    for _ in range(draw.choice((1, 1, 2, 3))):
        part = config
        sections = [key for key in config if key.endswith("_config")
                    and isinstance(config[key], dict)]
        if sections and draw.random() < 0.6:
            part = config[draw.choice(sections)]
        keys = [key for key, value in part.items() if not KEPT.search(key)
                and isinstance(value, (int, bool, type(None)))]
        if not keys:
            continue
        key = draw.choice(keys)
        value = part[key]
        if draw.random() < 0.3:
            del part[key]
        elif isinstance(value, bool):
            part[key] = not value
        elif value is None:
            part[key] = draw.choice((1, 2, 4, 8, 16))
        else:
            part[key] = draw.choice((value + 1, value * 2, max(1, value - 1), None,
                                     value + 2, max(1, value // 2)))
    return config


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
    program, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    bases = collections.defaultdict(list)
    for line in RECORDED.open():
        row = json.loads(line)
        config = row["config"]
        if (config.get("transformers_version") == transformers.__version__
                and "tensors" in row and sum(t[2] for t in row["tensors"]) < 400):
            bases[config["model_type"]].append(config)
    types = sys.argv[4].split(",") if len(sys.argv) > 4 else sorted(bases)
    draw = random.Random(seed)
    total = collections.Counter()
    for model_type in types:
        verdicts = collections.Counter()
        for _ in range(count if bases[model_type] else 0):
            config = mutated(draw.choice(bases[model_type]), draw)
            try:
                expected = saved(config)
            except Exception:  # whatever transformers raises: it makes no model
                expected = None
            found = ours(program, config)
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
            verdicts[verdict] += 1
        total += verdicts
        print(model_type, dict(verdicts), flush=True)
    print(dict(total))
    return 1 if total["wrong"] else 0


sys.exit(main())
