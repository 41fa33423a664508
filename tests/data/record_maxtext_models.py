#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what MaxText makes of the model files that it ships.

    pip install maxtext jax==0.10.2 flax optax orbax-checkpoint omegaconf pydantic \\
        transformers sympy jinja2 absl-py                  # 0.2.5, Python 3.12
    python tests/data/record_maxtext_models.py part.jsonl
    python tests/data/record_maxtext_models.py --merge SHARDPLAN part.jsonl

--merge writes tests/data/maxtext_models.jsonl. Models are built abstractly, on the CPU.
A line is a model file: its keys, and the arrays with numbers in names replaced by `*`,
their shapes, how many there are, and their logical axes. What SHARDPLAN refuses is kept
as `refused`, without arrays; where it has others nothing is written.

MaxText imports much that is not needed to build a model (input pipelines, clouds);
what is not installed is taken as an empty module.
"""
import collections
import glob
import importlib.abc
import importlib.machinery
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).parent
REAL = ("jax", "jaxlib", "flax", "numpy", "maxtext", "optax", "orbax", "transformers")
ABSENT = ("tensorflow", "tensorflow_datasets", "tensorflow_text", "google.cloud", "grain", "datasets", "tunix", "pathwaysutils",
          "cloud_tpu_diagnostics", "cloud_accelerator_diagnostics", "ml_goodput_measurement", "tokamax", "vllm", "jetstream", "librosa",
          "tensorboardX", "gcsfs", "google_cloud_mldiagnostics", "tpu_inference", "PIL", "torch", "evaluate", "drjax", "pylatexenc", "aqt",
          "qwix", "seqio", "sentencepiece")
# Of vision and sound: `use_multimodal` is off by default, but not in every file.
OTHER_PARTS = ("vision", "Vision", "audio", "Audio")


class Anything:
    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        return Anything()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __mro_entries__(self, _):
        return (object,)

    def __getitem__(self, _):
        return Anything()

    def __or__(self, _):
        return Anything()

    __ror__ = __or__

    def __iter__(self):
        return iter(())


class Empty(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] not in REAL and any(name == each or name.startswith(each + ".") for each in ABSENT):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Empty(spec.name)

    def exec_module(self, module):
        pass


def arrays(name, base):
    import jax
    from maxtext.configs import pyconfig
    from maxtext.utils import maxtext_utils, model_creation_utils

    said = dict(override_model_config="true", max_target_length=16, per_device_batch_size=1, skip_jax_distributed_system="true",
                run_name="none", enable_checkpointing="false", log_config="false", model_name=name, attention="dot_product",
                use_multimodal="false")
    made = pyconfig.initialize(["", base, *(f"{key}={value}" for key, value in said.items())])
    model = model_creation_utils.create_model(made, maxtext_utils.get_mesh_from_config(made))
    tree = maxtext_utils.get_abstract_param(model, made)
    leaves = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda x: hasattr(x, "names") or hasattr(x, "sharding_names"))[0]
    count = collections.Counter()
    for path, leaf in leaves:
        keys = [getattr(key, "key", getattr(key, "name", None)) for key in path]
        if keys[-1] == "value":
            keys.pop()
        full = "/".join(["params", *map(str, keys)])
        if any(part in full for part in OTHER_PARTS):
            continue
        shape = tuple(getattr(leaf, "value", leaf).shape)
        axes = list(getattr(leaf, "names", None) or ())
        # Flax leaves dimensions whole that it has no label for.
        count[re.sub(r"\d+", "*", full), shape, json.dumps(axes + [None] * (len(shape) - len(axes)))] += 1
    return sorted([tensor, list(shape), number, json.loads(axes)] for (tensor, shape, axes), number in count.items())


def record(out):
    os.environ.update(JAX_PLATFORMS="cpu", HF_HUB_OFFLINE="1")
    sys.meta_path.append(Absent())
    import jax.experimental.xla_metadata as metadata

    if not hasattr(metadata, "must_fuse_call"):
        metadata.must_fuse_call = lambda function=None, **_: function
    import importlib.metadata

    import maxtext
    import yaml

    configs = os.path.join(os.path.dirname(maxtext.__file__), "configs")
    with open(out, "w") as file:
        for path in sorted(glob.glob(os.path.join(configs, "models", "*.yml"))):
            name = os.path.basename(path)[:-4]
            row = dict(model=name, by="maxtext " + importlib.metadata.version("maxtext"), config=yaml.safe_load(open(path)))
            for key in ("logical_axis_rules", "mesh_axes", "data_sharding", "override_logical_axis_rules"):
                row["config"].pop(key, None)
            try:
                row["tensors"] = arrays(name, os.path.join(configs, "base.yml"))
            except Exception as error:  # of which there are many kinds
                row["problem"] = (type(error).__name__ + ": " + re.sub(r"\s+", " ", str(error)))[:200]
            file.write(json.dumps(row) + "\n")
            file.flush()
    return 0


def merge(program, part):
    lines, differing, refused = [], 0, []
    for line in open(part):
        row = json.loads(line)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "model.yml"
            path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in row["config"].items()))
            run = subprocess.run([program, "inspect", path, "--json", "--expand", "--isolated"], capture_output=True, text=True)
        if run.returncode != 0:
            row["refused"] = True
            row.pop("tensors", None)
            refused.append(row["model"])
        elif "tensors" not in row:
            print(row["model"], "is read, but not built by MaxText here:", row["problem"])
        else:
            ours = collections.Counter()
            tables = json.loads(run.stdout)["tables"]
            for table, key in (("parameters", "parameter"), ("buffers", "buffer")):
                for tensor in tables.get(table, []):
                    ours[re.sub(r"\d+", "*", tensor[key]), tuple(tensor["shape"])] += 1
            theirs = collections.Counter()
            for name, shape, number, _ in row["tensors"]:
                theirs[name, tuple(shape)] += number
            if ours != theirs:
                differing += 1
                print(row["model"], "differs:", *sorted((ours - theirs) | (theirs - ours))[:6], sep="\n  ")
        lines.append(json.dumps(row, separators=(",", ":")) + "\n")
    print(len(lines), "models,", differing, "other,", len(refused), "refused:", *refused)
    if differing == 0:
        (HERE / "maxtext_models.jsonl").write_text("".join(lines))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(merge(*sys.argv[2:]) if sys.argv[1] == "--merge" else record(sys.argv[1]))
