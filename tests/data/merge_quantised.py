#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes quantised.jsonl of what record_quantised.py wrote, and marks what is refused.

    python3 merge_quantised.py SHARDPLAN quantised.jsonl v4.jsonl v5.jsonl

Keys of configs that say nothing of tensors are left out. Two lines of the same config (but for the version) and tensors count once. A config that
the program refuses has what it says first as `refused`: look through these before the
file is committed, since the test only holds the program to them.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

NOISE = re.compile(r"dropout|pdrop|_token_id$|initializer|^use_cache$|^(output_|return_|_name_or_path|num_beams|label2id|temperature)|_eps$")


def lean(config):
    """Without keys that say nothing of tensors."""
    if isinstance(config, dict):
        return {key: lean(value) for key, value in config.items() if not NOISE.search(key)}
    return config


def first_problem(program, row):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(row["config"], f)
        if "beside" in row:
            with open(os.path.join(folder, "hf_quant_config.json"), "w") as f:
                json.dump(row["beside"], f)
        done = subprocess.run([program, "inspect", folder, "--format", "concise"], capture_output=True, text=True)
        for line in (done.stdout + done.stderr).splitlines():
            if " error[" in line:
                code, message = line.split(" error[", 1)[1].split("] ", 1)
                return f"{code} {message}"
    return None


def main():
    program, out, *files = sys.argv[1:]
    seen = set()
    lines = []
    refused = 0
    for path in files:
        with open(path) as f:
            for line in f:
                row = json.loads(line)
                row["config"] = lean(row["config"])
                key = json.dumps([row["method"], row["case"], row["transformers"][0], row["config"], row["tensors"]], sort_keys=True)
                if key in seen:
                    continue
                seen.add(key)
                problem = first_problem(program, row)
                if problem:
                    row["refused"] = problem
                    del row["tensors"]
                    refused += 1
                lines.append(json.dumps(row, separators=(",", ":"), sort_keys=True) + "\n")
    with open(out, "w") as f:
        f.writelines(lines)
    print(len(lines), "cases,", refused, "refused")


if __name__ == "__main__":
    main()
