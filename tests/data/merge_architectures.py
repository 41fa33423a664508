# SPDX-License-Identifier: Apache-2.0
"""Joins recordings of what save_pretrained writes to tests/data/architectures.jsonl.

Keeps of every model type, class and version a few cases, with the config as saved and
as given, without keys that say nothing of tensors, and the folded names and shapes.
What SHARDPLAN refuses is kept as `refused`. Where it has other tensors nothing is
written down: the case is printed, and the exit code is 1.

    python tests/data/record_architectures.py .. > v5.jsonl      # with either version
    python tests/data/merge_architectures.py SHARDPLAN v4.jsonl v5.jsonl ..
    python tests/data/merge_architectures.py --add SHARDPLAN mutated.jsonl

With --add what is there stays, and all cases of the files come to it, in place of
those that have the same config.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

NOISE = re.compile(
    r"dropout|pdrop|_token_id$|^(bos|eos|pad|sep)_|initializer|^use_cache$|^rope_|"
    r"^(architectures_|pretraining_tp|output_(?!embedding|proj_dims)|return_|_name_or_path|router_|"
    r"is_encoder_decoder|temperature|top_[kp]|num_beams|label2id|_attn)|_eps$|epsilon")
CASES = 3


def lean(config):
    """Without keys that say nothing of tensors."""
    if isinstance(config, dict):
        return {key: lean(value) for key, value in config.items()
                if not NOISE.search(key) and "Infinity" not in json.dumps(value)}
    return config


def ours(program, config):
    """Folded names and shapes with their counts; None where it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        run = subprocess.run([program, "inspect", path, "--json", "--expand",
                              "--isolated"], capture_output=True, text=True)
    report = json.loads(run.stdout)
    if run.returncode != 0:
        return None
    counts = collections.Counter()
    for table, key in (("parameters", "parameter"), ("buffers", "buffer")):
        for row in report["tables"].get(table, []):
            name = row[key]
            counts[re.sub(r"\d+", "*", name), tuple(row["shape"])] += row.get("count", 1)
    return counts


def main():
    parser = argparse.ArgumentParser(description="Joins recordings; see the file's head.")
    parser.add_argument("--add", action="store_true")
    parser.add_argument("program")
    parser.add_argument("files", nargs="+")
    given = parser.parse_args()
    adds, program, files = given.add, given.program, given.files
    taken = collections.Counter()
    out = pathlib.Path(__file__).parent / "architectures.jsonl"
    kept_lines = out.read_text().splitlines(keepends=True) if adds else []
    added = {json.dumps(lean(json.loads(line)["config"]), sort_keys=True)
             for file in files for line in open(file)}
    kept_lines = [line for line in kept_lines if
                  json.dumps(json.loads(line)["config"], sort_keys=True) not in added]
    verdicts = collections.Counter()
    new = out.with_suffix(".new")
    with new.open("w") as stream:
        stream.writelines(kept_lines)
        for file in files:
            for line in open(file):
                row = json.loads(line)
                config = row["config"]
                kind = (row["model_type"], row["transformers"],
                        str(config.get("architectures")))
                if taken[kind] >= CASES and not adds:
                    continue
                taken[kind] += 1
                kept = {"case": row["case"], "config": lean(config)}
                expected = collections.Counter()
                for name, shape, count in row["tensors"]:
                    expected[re.sub(r"\d+", "*", name), tuple(shape)] += count
                found = ours(program, kept["config"])
                if found is None:
                    verdict = "refused"
                    kept["refused"] = True
                elif found == expected:
                    verdict = "agrees"
                    kept["tensors"] = [[name, shape, count]
                                       for (name, shape), count in sorted(expected.items())]
                else:
                    verdict = "differs"
                    print("differs:", *kind, row["case"])
                    print("  only ours:", list((found - expected).items())[:3])
                    print("  only recorded:", list((expected - found).items())[:3])
                verdicts[verdict] += 1
                if verdict != "differs":
                    stream.write(json.dumps(kept, separators=(",", ":")) + "\n")
    os.replace(new, out)
    print(dict(verdicts))
    return 1 if verdicts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
