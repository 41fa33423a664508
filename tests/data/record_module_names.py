#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what transformers calls, in memory, the linear layers that it saves under other names.

    python3 record_module_names.py v4.jsonl          # with transformers 4.57.6
    python3 record_module_names.py v5.jsonl          # with transformers 5.23.0 or later

and the two files one after the other are module_names.jsonl. Lists of modules that are not
quantised are read against names in memory, so the program must know these. For the first
config of every type and class of architectures.jsonl that this major version wrote, the model
is made with random weights or none, and its linear layers are saved. Nothing is downloaded.

A line has
  case          as in architectures.jsonl
  config        as there
  transformers  the version
  modules       [saved name of a linear layer, its name in memory], numbers replaced by *, sorted
and there are none for models in which all names are the same.
"""
import argparse
import json
import logging
import pathlib
import re
import tempfile
import warnings


# Classes that no config of architectures.jsonl has, by one of the same config.
MORE = {
    "Gemma3Model": "Gemma3ForConditionalGeneration",
    "Qwen2VLModel": "Qwen2VLForConditionalGeneration",
    "Qwen2_5_VLModel": "Qwen2_5_VLForConditionalGeneration",
}


def folded(name):
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)


def linear_modules(model):
    import torch
    from transformers.pytorch_utils import Conv1D

    for name, module in model.named_modules():
        if isinstance(module, (torch.nn.Linear, Conv1D)) and "weight" in module._parameters:
            yield name


def saved_names(version, model):
    """[saved name of the weight, name in memory]"""
    import transformers

    state = model.state_dict()
    keys = [module + ".weight" for module in linear_modules(model)]
    keys = [key for key in keys if key in state]
    if version >= 5:
        from transformers.core_model_loading import revert_weight_conversion

        return [(name, key) for key in keys for name in revert_weight_conversion(model, {key: state[key]})]
    in_memory = {}  # of tied ones the first
    for key in state:
        in_memory.setdefault(state[key].data_ptr(), key)
    pairs = []

    def take(tensors, *_, **__):
        pairs.extend((name, in_memory[tensor.data_ptr()]) for name, tensor in tensors.items() if in_memory.get(tensor.data_ptr()) in keys)

    modeling = transformers.modeling_utils
    save_file, modeling.safe_save_file = modeling.safe_save_file, take
    try:
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
    finally:
        modeling.safe_save_file = save_file
    return pairs


def record(version, config):
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    given = {key: value for key, value in config.items() if key not in ("model_type", "transformers_version")}
    given = json.loads(json.dumps(given))
    for part in [given, *[given[key] for key in ("text_config", "thinker_config") if key in given]]:
        for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
            part[key] = 0  # those of the class may lie beyond the vocabulary
    # transformers 4 cannot save what is on the meta device.
    with torch.device("meta" if version >= 5 else "cpu"):
        model = getattr(transformers, config["architectures"][0])(CONFIG_MAPPING[config["model_type"]](**given))
    pairs = {(folded(a[: -len(".weight")]), folded(b[: -len(".weight")])) for a, b in saved_names(version, model) if a.endswith(".weight")}
    return sorted(list(pair) for pair in pairs) if any(a != b for a, b in pairs) else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    import transformers

    transformers.utils.logging.set_verbosity_error()
    version = int(transformers.__version__.split(".")[0])
    seen = set()
    lines = []
    failed = []
    rows = [json.loads(line) for line in pathlib.Path(__file__).with_name("architectures.jsonl").read_text().splitlines()]
    for row in list(rows):
        classes = row["config"].get("architectures") or [""]
        if classes[0] in MORE:
            rows.append({**row, "config": {**row["config"], "architectures": [MORE[classes[0]]]}})
    for row in rows:
        config = row["config"]
        kind = (config.get("model_type"), str(config.get("architectures")), config.get("tie_word_embeddings"))
        if kind in seen or not config.get("transformers_version", "").startswith(f"{version}.") or "refused" in row:
            continue
        try:
            modules = record(version, config)
        except Exception as error:  # another version than the one that wrote the config
            failed.append((kind, f"{type(error).__name__}: {str(error)[:80]}"))
            continue
        seen.add(kind)
        if modules:
            lines.append(json.dumps({"case": row["case"], "config": config, "transformers": transformers.__version__, "modules": modules},
                                    sort_keys=True, separators=(",", ":")))
    pathlib.Path(arguments.out).write_text("".join(each + "\n" for each in lines))
    print(f"{len(seen)} models, {len(lines)} with other names")
    for kind, why in failed:
        if kind not in seen:
            print("not made:", *kind, why)


if __name__ == "__main__":
    main()
