#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds which layers of every architecture are quantised against transformers.

    python3 judge_quantised_layers.py SHARDPLAN      # with transformers 4.57.6, or 5.23.0

For every type and class of architectures.jsonl the model is made on the meta device; the
weights of the layers that transformers would convert to 8 bits are given that dtype, the
names that save_pretrained hands over are those of a checkpoint, and the program must say
the same of the config. Nothing is downloaded, and no values are made. Prints what differs
and what is refused; the exit code is 1 where something differs.
"""
import json
import logging
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings


def is_kept(version, name, keys):
    if version >= 5:
        from transformers.quantizers.quantizers_utils import should_convert_module

        return not should_convert_module(name, keys)
    return name.split(".")[-1] in keys or any(key + "." in name or key == name for key in keys)


def checkpoint(version, config):
    """The config as saved, and the names of weights of 8 bits."""
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.pytorch_utils import Conv1D

    if version >= 5:
        from transformers.quantizers.base import get_keys_to_not_convert
    else:
        from transformers.integrations import get_keys_to_not_convert
    linear = torch.nn.Linear
    given = {key: value for key, value in config.items() if key not in ("model_type", "transformers_version")}
    with torch.device("meta"):
        model = getattr(transformers, config["architectures"][0])(CONFIG_MAPPING[config["model_type"]](**json.loads(json.dumps(given))))
    keys = get_keys_to_not_convert(model) + list(getattr(model, "_keep_in_fp32_modules", None) or [])
    for name, module in list(model.named_modules()):
        converted = isinstance(module, Conv1D) or (type(module) is linear if version >= 5 else isinstance(module, linear))
        if converted and not is_kept(version, name, keys):
            module.weight = torch.nn.Parameter(torch.empty(module.weight.shape, dtype=torch.int8, device="meta"), requires_grad=False)
    names = set()

    def take(tensors, *_, **__):
        names.update(name for name, tensor in tensors.items() if tensor.dtype == torch.int8)

    modeling = transformers.modeling_utils
    save_file, modeling.safe_save_file = modeling.safe_save_file, take
    try:
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            return json.loads((pathlib.Path(folder) / "config.json").read_text()), names
    finally:
        modeling.safe_save_file = save_file


def program_says(program, config):
    """Names of weights of 8 bits; a text where the config is refused."""
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
        done = subprocess.run([program, "inspect", folder, "--format", "json"], capture_output=True, text=True)
    said = json.loads(done.stdout)
    if done.returncode != 0:
        return json.dumps(said)[:300]
    names = set()

    def collect(node):
        if isinstance(node, dict):
            if node.get("dtype") == "i8" and "parameter" in node:
                names.add(node["parameter"])
        for each in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            collect(each)

    collect(said)
    return names


def folded(names):
    return {re.sub(r"\d+", "*", name) for name in names}


def main():
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    import transformers

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    version = int(transformers.__version__.split(".")[0])
    seen, good, bad, refused = {}, 0, 0, 0
    for line in pathlib.Path(__file__).with_name("architectures.jsonl").read_text().splitlines():
        row = json.loads(line)
        config = row["config"]
        if "refused" in row or "architectures" not in config:
            continue
        kind = config["model_type"], config["architectures"][0]
        if seen.get(kind, 0) == 2:
            continue
        try:
            saved, wanted = checkpoint(version, config)
        except Exception:  # not of this version
            continue
        seen[kind] = seen.get(kind, 0) + 1
        ours = program_says(sys.argv[1], saved)
        if isinstance(ours, str):
            print("refused", *kind, ours)
            refused += 1
        elif folded(ours) != folded(wanted):
            print("differs", *kind, "+", sorted(folded(ours) - folded(wanted)), "-", sorted(folded(wanted) - folded(ours)))
            bad += 1
        else:
            good += 1
    print(good, "agree,", bad, "differ,", refused, "refused")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
