# SPDX-License-Identifier: Apache-2.0
"""Records the tensors of classes that have no case yet, over configs that have one.

    python record_heads.py SHARDPLAN OUT.jsonl [--types bert,t5] [--known]

For every model type of architectures.jsonl it takes the classes that the Auto classes of
transformers map the type to, and the models of its module, and of these the ones that
SHARDPLAN refuses (all, with --known). Each is built over the first two configs that this
version recorded of the type, the second with five labels, and recorded as
record_architectures_other.py does it. merge_architectures.py --add takes the result.
"""

import argparse
import importlib
import inspect
import json
import pathlib
import re
import subprocess
import tempfile

import record_architectures_other as recorder
import torch
import transformers
from transformers.models.auto import modeling_auto

LABELS = {"id2label": {str(i): f"L{i}" for i in range(5)}, "label2id": {f"L{i}": i for i in range(5)}}


def classes_of(kind):
    names = set()
    for mapping in vars(modeling_auto):
        if mapping.startswith("MODEL_") and mapping.endswith("_MAPPING_NAMES"):
            found = getattr(modeling_auto, mapping).get(kind) or ()
            names.update([found] if isinstance(found, str) else found)
    config = transformers.CONFIG_MAPPING[kind]
    try:
        module = importlib.import_module(config.__module__.replace("configuration_", "modeling_"))
    except ModuleNotFoundError:  # a configuration class alone, of models with code of their own
        module = None
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if inspect.isclass(value) and getattr(value, "config_class", None) is config and not name.endswith("PreTrainedModel"):
            names.add(name)
    return sorted(names)


def known(program, kind):
    """The classes of a type that the program reads, as its message of another one says."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"model_type": kind, "architectures": ["Another"]}, file)
        file.flush()
        run = subprocess.run([program, "inspect", file.name, "--isolated"], capture_output=True, text=True)
    found = re.search(r"supported for `[^`]*`: (.*)", run.stdout + run.stderr)
    return set(found.group(1).strip().split(", ")) if found else set()


def configs():
    found = {}
    for line in (pathlib.Path(__file__).parent / "architectures.jsonl").open():
        row = json.loads(line)
        config = row["config"]
        if config.get("transformers_version") != transformers.__version__ or "tensors" not in row:
            continue
        kind = config.pop("model_type")
        for key in "architectures", "transformers_version":
            config.pop(key, None)
        if config not in found.setdefault(kind, []):
            found[kind].append(config)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--types", type=lambda text: text.split(","))
    parser.add_argument("--known", action="store_true")
    args = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    lines = []
    for kind, given in configs().items():
        if kind not in transformers.CONFIG_MAPPING or args.types and kind not in args.types:
            continue
        skipped = set() if args.known else known(args.program, kind)
        for name in classes_of(kind):
            if name in skipped:
                continue
            for number, config in enumerate(given[:2]):
                case = f"{name} {number}"
                try:
                    lines.append(recorder.record(kind, case, name, {**config, **(LABELS if number else {})}))
                except Exception as error:
                    print(kind, case, f"{type(error).__name__}: {error}"[:200], flush=True)
                else:
                    lines[-1]["config"].setdefault("architectures", [name])
    args.out.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
