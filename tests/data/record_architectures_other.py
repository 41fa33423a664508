# SPDX-License-Identifier: Apache-2.0
"""Records the tensors that transformers writes, as the judge of architecture files.

    python record_architectures.py OUT.jsonl [--types t5,vit] [--list]

For every model type below it makes small configs, builds the class on the CPU,
calls save_pretrained and reads the headers of the safetensors files. OUT gets a
line per case: model_type, case, transformers, config (config.json as saved) and
tensors, [name with its indices replaced by *, shape, how many].
With --types, lines of other types that OUT has already are kept.

Cases come from architecture_cases.py beside this file. A class or a key that the
installed version does not have is reported and left out. Needs PyTorch and
transformers; nothing is downloaded.
"""

import argparse
import importlib
import json
import logging
import os
import pathlib
import re
import struct
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "critical")

import torch  # noqa: E402
import transformers  # noqa: E402
from architecture_cases import CASES  # noqa: E402


def model_class(name, kind):
    try:
        return getattr(transformers, name)
    except AttributeError:
        package = transformers.CONFIG_MAPPING[kind].__module__.rsplit(".", 1)
        module = package[1].replace("configuration_", "modeling_")
        return getattr(importlib.import_module(f"{package[0]}.{module}"), name)


def headers(folder):
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
        for name, tensor in header.items():
            if name != "__metadata__":
                yield name, tensor["shape"]


def folded(state):
    classes = {}
    for name, shape in state:
        key = (re.sub(r"(?<![^.])\d+(?![^.])", "*", name), tuple(shape))
        classes[key] = classes.get(key, 0) + 1
    return [[name, list(shape), n] for (name, shape), n in sorted(classes.items())]


def record(kind, case, class_name, config):
    loaded = transformers.AutoConfig.for_model(kind, **json.loads(json.dumps(config)))
    of = model_class(class_name, kind)
    # A class of one part of the model, under the config of the whole.
    parts = [getattr(loaded, key) for key in ("text_config", "vision_config", "audio_config")
             if getattr(of, "config_class", None) and isinstance(getattr(loaded, key, None), of.config_class)]
    part = parts[0] if parts and not isinstance(loaded, of.config_class) else None
    model = of(part or loaded)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model.save_pretrained(folder)
        if part is not None:
            loaded.architectures = [class_name]
            loaded.save_pretrained(folder)
        saved = json.loads((folder / "config.json").read_text())
        tensors = folded(headers(folder))
    return {"model_type": kind, "case": case, "transformers": transformers.__version__,
            "config": saved, "tensors": tensors}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--types", type=lambda text: text.split(","), default=list(CASES))
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    lines = []
    if args.out.exists():
        lines = [json.loads(line) for line in args.out.read_text().splitlines()]
    lines = [line for line in lines if line["model_type"] not in args.types]
    for kind in args.types:
        if kind not in transformers.CONFIG_MAPPING:
            print(kind, "is not in", transformers.__version__)
            continue
        for case, class_name, config in CASES[kind]:
            try:
                lines.append(record(kind, case, class_name, config))
            except Exception as error:
                print(kind, case, f"{type(error).__name__}: {error}"[:300], flush=True)
    args.out.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
