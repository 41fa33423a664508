#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what transformers' own tensor-parallel plans do to its models.

    python3 tests/data/record_hf_tp_plan_models.py tests/data/hf_tp_plan_models.json

Needs PyTorch and transformers; run once per version, 4.57.3 and 5.23.0: the
file keeps what it has of other versions. For every configuration class that has
`base_model_tp_plan`, the model is built on the meta device, `model.tp_plan` is
taken, and transformers' own styles shard each parameter over two devices.
Recorded are the plans that the configuration file says, `model.tp_plan`, and per
parameter its number of dimensions and the dimension that is sharded. Layers that
are alike are folded: only number 0 of each is there.

In names and keys `>` stands for the record's `prefix`, `~` for `.weight`. Maps are turned around,
from a style or an outcome to all names that have it.
"""
import ast
import glob
import importlib
import inspect
import json
import os
import re
import sys

import torch
import torch.distributed as dist
import transformers
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import PreTrainedModel

DEVICES = 2
ROOT = os.path.dirname(transformers.__file__)
# Where a configuration's defaults do not make a model.
OVERRIDES = {"Lfm2MoeConfig": {"layer_types": ["conv", "full_attention"] * 16}}
INSTEAD_OF_NONE = {
    "head_dim": 64,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "top_k_experts": 2,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "num_key_value_heads": 2,
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 64,
    "indexer_budget": 64,
    "ple_embed_dim": 64,
    "dropout_rate": 0.0,
}


def says(path):
    """Whether classes are strict, and their model types and plans."""
    strict = False
    classes = []
    for node in ast.parse(open(path).read()).body:
        if not isinstance(node, ast.ClassDef):
            continue
        strict |= any(getattr(d, "id", "") == "strict" for d in node.decorator_list)
        found = {}
        for line in node.body:
            if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
                found[line.targets[0].id] = line.value
            elif isinstance(line, ast.AnnAssign) and line.value is not None:
                found[line.target.id] = line.value
        if "base_model_tp_plan" not in found:
            continue
        try:
            plan = ast.literal_eval(found["base_model_tp_plan"])
        except ValueError:
            plan = "computed"
        if plan:
            kind = found.get("model_type")
            classes.append({"type": kind.value if kind else "", "plan": plan, "name": node.name})
    return strict, classes


def sub_configs(config, seen=()):
    result = []
    for other in (getattr(config, "sub_configs", None) or {}).values():
        if isinstance(other, type) and other not in seen:
            result += [other, *sub_configs(other, (*seen, other))]
    return result


def fill(config):
    for name, value in INSTEAD_OF_NONE.items():
        if getattr(config, name, value) is None or (
            name in ("dropout_rate", "shared_expert_intermediate_size")
            and not hasattr(config, name)
        ):
            setattr(config, name, value)
    for name in getattr(config, "sub_configs", None) or {}:
        if getattr(config, name, None) is not None:
            fill(getattr(config, name))


def build(model_class):
    problems = []
    for filled in (False, True):
        try:
            kind = model_class.config_class
            config = kind(**OVERRIDES.get(kind.__name__, {}))
            if filled:
                fill(config)
            with torch.device("meta"):
                model = model_class(config)
            if model.tp_plan is not None:  # else a base of several models
                return model
            problems.append("no plan")
        except Exception as problem:  # one of many kinds, by model
            problems.append(f"{type(problem).__name__}: {problem}"[:90])
    print(f"  {model_class.__name__}: {problems}", file=sys.stderr)
    return None


def sharded_by_dtensors(model, mesh):
    """transformers 5.23."""
    from torch.distributed.tensor import DTensor
    from transformers.distributed.parallel_utils import ALL_PARALLEL_STYLES

    result = {n: [p.ndim, None] for n, p in model.named_parameters(remove_duplicate=False)}
    names = {n for n, _ in model.named_parameters()}
    modules = dict(model.named_modules())
    for name, style in model._expand_parallel_plan(dict(model.tp_plan)).items():
        if name in names:
            module, _, last = name.rpartition(".")
            ALL_PARALLEL_STYLES[style].shard_param(modules[module], last, mesh)
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if isinstance(parameter, DTensor) and not parameter.placements[0].is_replicate():
            result[name][1] = parameter.placements[0].dim % parameter.ndim
    return result


class Slice:
    """A tensor that looks like a slice of safetensors."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.shape = tensor.shape

    def get_dtype(self):
        return "F32"

    def dim(self):
        return self.tensor.dim()

    def __getitem__(self, index):
        return self.tensor[index]


def sharded_by_slices(model, mesh):
    """transformers 4.57."""
    from transformers.integrations import tensor_parallel

    result = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        result[name] = [parameter.ndim, None]
        style = tensor_parallel._get_parameter_tp_plan(name, model.tp_plan)
        if style is None:
            continue
        layer = tensor_parallel.ALL_PARALLEL_STYLES[style]
        kind = name.rsplit(".", 1)[-1]
        try:
            shard = layer.partition_tensor(
                Slice(parameter), parameter, kind, torch.float32, False, 0, mesh
            )
        except NotImplementedError:  # styles of activations
            continue
        shard = shard.to_local() if hasattr(shard, "to_local") else shard
        cut = [d for d in range(parameter.ndim) if shard.shape[d] != parameter.shape[d]]
        assert len(cut) <= 1, name
        result[name][1] = cut[0] if cut else None
    return result


def models_of(config, folder):
    """Classes of models that have the configuration, whole ones first."""
    found = []
    for path in sorted(glob.glob(f"{folder}/modeling_*.py")):
        name = os.path.basename(path)[:-3]
        if "_tf_" in name or "flax" in name:
            continue
        module = importlib.import_module(
            f"transformers.models.{os.path.basename(folder)}.{name}"
        )
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if (
                kind.__module__ == module.__name__
                and issubclass(kind, PreTrainedModel)
                and not kind.__name__.endswith("PreTrainedModel")
                and getattr(kind, "config_class", None)
                and (kind.config_class is config or config in sub_configs(kind.config_class))
            ):
                found.append(kind)
    ends = ("ForConditionalGeneration", "ForCausalLM", "ForMaskedLM")

    def rank(kind):
        end = [i for i, end in enumerate(ends) if kind.__name__.endswith(end)]
        return (kind.config_class is config, end[0] if end else 9, kind.__name__)

    return sorted(found, key=rank)


def inverted(pairs, prefix):
    result = {}
    for name, value in pairs:
        short = ">" + name[len(prefix):] if prefix and name.startswith(prefix) else name
        result.setdefault(value, []).append(re.sub(r"\.weight$", "~", short))
    return {value: " ".join(dict.fromkeys(names)) for value, names in result.items()}


def outcome(rank, dim):
    return f"{rank}" if dim is None else f"{rank}/{dim}"


def fold(name):
    return re.sub(r"(^|\.)\d+(?=\.|$)", r"\g<1>0", name)


def record(model, mesh):
    plan = dict(model.tp_plan)
    shard = sharded_by_dtensors if transformers.__version__[0] == "5" else sharded_by_slices
    table = {}
    for name, (rank, dim) in shard(model, mesh).items():
        table.setdefault((fold(name), outcome(rank, dim)))
    prefixes = [m.group(0) for n, _ in table if (m := re.match(r".*?\.0\.", n))]
    prefix = max(set(prefixes), key=prefixes.count) if prefixes else ""
    return {
        "model": type(model).__name__,
        "prefix": prefix,
        "tp_plan": inverted(plan.items(), prefix.replace(".0.", ".*.")),
        "parameters": inverted(table, prefix),
    }


def main(out):
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=DEVICES)
    mesh = init_device_mesh("cpu", (DEVICES,), mesh_dim_names=("tp",))
    PreTrainedModel.init_weights = lambda self: None
    files = []
    for path in sorted(glob.glob(f"{ROOT}/models/*/configuration_*.py")):
        strict, classes = says(path)
        if not classes:
            continue
        folder = os.path.dirname(path)
        module = importlib.import_module(
            f"transformers.models.{os.path.basename(folder)}.{os.path.basename(path)[:-3]}"
        )
        models = []
        for each in classes:
            for kind in models_of(getattr(module, each.pop("name")), folder):
                if kind.__name__ in [model["model"] for model in models]:
                    break
                model = build(kind)
                if model is not None:
                    models.append(record(model, mesh))
                    break
            else:
                print(f"NO MODEL {path}", file=sys.stderr)
            if each["plan"] != "computed":
                each["plan"] = inverted(each["plan"].items(), "layers.*.")
        files.append({
            "file": os.path.basename(path),
            "strict": strict,
            "classes": classes,
            "models": models,
        })
    versions = json.load(open(out)) if os.path.exists(out) else {}
    versions[transformers.__version__] = files
    with open(out, "w") as file:
        file.write("{\n")
        for i, (version, rows) in enumerate(sorted(versions.items())):
            lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
            file.write(f'{json.dumps(version)}: [\n{lines}\n]{"," if i + 1 < len(versions) else ""}\n')
        file.write("}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
