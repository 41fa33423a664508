# SPDX-License-Identifier: Apache-2.0
"""Instructions of fixed workloads, against those on record.

    python3 tests/bench/instructions.py build/release/shardplan [--update]
        [--only WORD] [--jobs N] [--record FILE]

Times of a busy machine say little; the number of instructions is the same
whenever the same program does the same work. valgrind counts them, and shows
every program the same processor, so that libraries choose the same code. What
was counted is kept in instructions.json by compiler, C library, valgrind and
the instruction sets that valgrind can pass on. Where the record has the same
key, more than 5 % above it is a failure (exit 1) and more than 5 % below it a
line that asks to record it; under another key the ratios are only shown.

`--update` records what is counted now: on purpose, in a commit that says why.

Whoever brings the same model in another form, or fewer rules for it, waits no
longer: RATIOS are of two workloads of one run, on any machine, and a larger one
fails.

Inputs are written anew into a temporary folder, from the functions below, and
the same each time. `simulate` runs in integers (`--values field`) and in
floats, with one thread and small products, but its products are still BLIS's
kernels.
"""

import argparse
import base64
import json
import math
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORD = pathlib.Path(__file__).with_name("instructions.json")
CONFIGS = ROOT / "tests" / "data" / "configs"
SHIPPED = ROOT / "rules"
SLACK = 0.05


# Inputs.

def names(count):
    """A mixture of experts, as tests/bench/model.cc has it."""
    result = ["model.embed_tokens.weight", "lm_head.weight"]
    layer = 0
    while len(result) < count:
        at = f"model.layers.{layer}."
        for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
            result.append(f"{at}self_attn.{part}.weight")
        result.append(at + "input_layernorm.weight")
        result.append(at + "post_attention_layernorm.weight")
        for expert in range(256):
            for part in ("gate_proj", "up_proj", "down_proj"):
                result.append(f"{at}mlp.experts.{expert}.{part}.weight")
        layer += 1
    return result[:count]


def shape(name):
    if "norm" in name:
        return [7168]
    return [7168, 2048] if "down_proj" in name else [2048, 7168]


def manifest(tensors):
    lines = [f'  "{name}": {{"shape": {list(size)}, "dtype": "bf16"}}'
             for name, size in tensors]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def model(count):
    return manifest((name, shape(name)) for name in names(count))


def rules(entries):
    return "rules:\n" + "".join(
        f"  - ['{pattern}', {spec}]\n" for pattern, spec in entries)


MODEL_RULES = [
    (r"embed_tokens\.weight$", "[fsdp, tp]"),
    (r"lm_head\.weight$", "[fsdp, tp]"),
    (r"self_attn\.(q|k|v)_proj\.weight$", "[tp, fsdp]"),
    (r"self_attn\.o_proj\.weight$", "[fsdp, tp]"),
    (r"layernorm\.weight$", "[]"),
    (r"experts\.\d+\.(gate|up)_proj", "[tp, fsdp]"),
    (r"experts\.\d+\.down_proj", "[fsdp, tp]"),
]


def unused_rules(count):
    """Rules for layers that the model has not, in front of those for it."""
    return rules([(rf"layers\.{1000 + i}\.mlp\.experts\.\d+\.up", "[fsdp, tp]")
                  for i in range(count)] + MODEL_RULES)


def odd_model(kinds, layers):
    """Matrices of which no dimension is divisible, a size for each kind."""
    return manifest(
        (f"model.layers.{layer}.block{kind}.weight", [1001 + 2 * kind, 77])
        for layer in range(layers) for kind in range(kinds))


def odd_rules(kinds):
    return rules([(rf"block{kind}\.weight$", "[fsdp, tp]")
                  for kind in range(kinds)])


def rule_per_name(count):
    return rules([(name.replace(".", r"\.") + "$", "[fsdp, tp]")
                  for name in names(count)])


def targets(count):
    """Of Llama 3.1 70B, each on another mesh."""
    meshes = [f'      - "fsdp={1 + i // 10},tp={1 + i % 10}"\n'
              for i in range(count)]
    return ("targets:\n  llama:\n    model: model.json\n    rules: rules.yaml\n"
            "    optimizer: adamw\n    hardware: h100-sxm\n    mesh:\n"
            + "".join(meshes))


def gate_sides(count):
    """Two folders: in the second the embedding is no longer on tp."""
    rules_text = (SHIPPED / "models/llama.yaml").read_text("utf-8")
    line = "embedding)$', [tp,"
    assert rules_text.count(line) == 1
    changed = rules_text.replace(line, line.replace("[tp,", "[null,"))
    model_text = (CONFIGS / "llama-3.1-70b.json").read_text("utf-8")
    return {f"{side}/{name}": text for side, rules_of in
            (("old", rules_text), ("new", changed)) for name, text in
            (("rules.yaml", rules_of), ("model.json", model_text),
             ("shardplan.yaml", targets(count)))}


# As small as makes products of 128 rows for the kernels of large ones: valgrind
# takes some 50 times as long for fused multiply-adds as for others.
SMALL_LLAMA = {
    "model_type": "llama", "hidden_size": 128, "intermediate_size": 256,
    "num_hidden_layers": 1, "num_attention_heads": 8,
    "num_key_value_heads": 4, "vocab_size": 256, "rms_norm_eps": 1e-5}


# A model whose forward pass is not known.
GPT_NEO = {
    "model_type": "gpt_neo", "hidden_size": 2560, "num_layers": 32,
    "num_heads": 20, "attention_types": [[["global", "local"], 16]],
    "vocab_size": 50257, "max_position_embeddings": 2048, "window_size": 256}


class Workload:
    """A command line in a folder where `files` (name: text) lie. `prepare` are
    command lines that are run before, uncounted."""

    def __init__(self, name, command, files=None, prepare=()):
        self.name, self.command = name, command
        self.files, self.prepare = files or {}, prepare


def config(name, folder=CONFIGS):
    return {f"{name}.json": (folder / f"{name}.json").read_text("utf-8")}


def fp8_deepseek(kept):
    """DeepSeek V3 with a list of modules, as GLM 5 has one."""
    made = json.loads(config("deepseek-v3")["deepseek-v3.json"])
    modules = [f"model.layers.{i}.{name}" for i in range(61) for name in
               ("input_layernorm", "post_attention_layernorm", "eh_proj",
                "self_attn.q_a_layernorm", "self_attn.kv_a_layernorm",
                "self_attn.indexer.k_norm", "self_attn.indexer.weights_proj",
                "enorm", "hnorm", "mlp.gate.bias", "shared_head.norm",
                "shared_head.head")]
    made["quantization_config"] = {
        "quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": ["lm_head", *modules[:kept - 1]]}
    return json.dumps(made)


def llama(layers, hidden, mlp, vocab, heads, kv_heads):
    """Names and shapes of a Llama's parameters, as transformers has them."""
    kv = hidden // heads * kv_heads
    yield "model.embed_tokens.weight", [vocab, hidden]
    for layer in range(layers):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", [hidden]
        yield at + "self_attn.q_proj.weight", [hidden, hidden]
        yield at + "self_attn.k_proj.weight", [kv, hidden]
        yield at + "self_attn.v_proj.weight", [kv, hidden]
        yield at + "self_attn.o_proj.weight", [hidden, hidden]
        yield at + "post_attention_layernorm.weight", [hidden]
        yield at + "mlp.gate_proj.weight", [mlp, hidden]
        yield at + "mlp.up_proj.weight", [mlp, hidden]
        yield at + "mlp.down_proj.weight", [hidden, mlp]
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [vocab, hidden]


def safetensors(of_names):
    """A file of one element each."""
    tensors, end = {}, 0
    for name in of_names:
        tensors[name] = {"dtype": "BF16", "shape": [1, 1],
                         "data_offsets": [end, end + 2]}
        end += 2
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * end


def header(of_names, order=None):
    """The header of a file with a model's real sizes, as PyTorch writes it, the
    data of which is in the order of the names, or in another one."""
    tensors, end = {"__metadata__": {"format": "pt"}}, 0
    for name in of_names:
        tensors[name] = None
    for name in order or of_names:
        size = shape(name)
        begin, end = end, end + 2 * math.prod(size)
        tensors[name] = {"dtype": "BF16", "shape": size,
                         "data_offsets": [begin, end]}
    text = json.dumps(tensors, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def real_shards(count, files):
    """An index, sorted as transformers has it, and headers."""
    every = names(count)
    per = -(-count // files)
    written, weights = {}, {}
    for i in range(files):
        part = every[i * per:(i + 1) * per]
        file = f"model-{i + 1:05}-of-{files:05}.safetensors"
        written[file] = header(sorted(part))
        weights.update((name, file) for name in part)
    written["model.safetensors.index.json"] = json.dumps(
        {"metadata": {"total_size": sum(2 * math.prod(shape(name))
                                        for name in every)},
         "weight_map": dict(sorted(weights.items()))}, indent=2)
    return written


def real_gguf(count):
    """The same with the sizes of f16."""
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, count, 1))
    out += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    end = 0
    for name in names(count):
        size = shape(name)
        out += text(name) + struct.pack(f"<I{len(size)}Q", len(size),
                                        *reversed(size))
        out += struct.pack("<IQ", 1, end)
        end += 2 * math.prod(size)
    return bytes(out)


def shuffled(of_names):
    result = list(of_names)
    random.Random(1).shuffle(result)
    return result


def shards(count):
    """An index, and a file for each hundred tensors."""
    files, weights = {}, {}
    every = names(count)
    for begin in range(0, count, 100):
        file = f"model-{begin:07}.safetensors"
        files[file] = safetensors(every[begin:begin + 100])
        weights.update((name, file) for name in every[begin:begin + 100])
    files["model.safetensors.index.json"] = json.dumps(
        {"metadata": {}, "weight_map": weights})
    return files


def gguf(count):
    def text(value):
        return struct.pack("<Q", len(value)) + value.encode()
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, count, 1))
    out += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    for i, name in enumerate(names(count)):
        out += text(name) + struct.pack("<IQQIQ", 2, 1, 1, 0, 32 * i)
    return bytes(out + b"\0" * (-len(out) % 32 + 32 * count))


def yaml(count):
    return "".join(f"{name}: {{shape: {shape(name)}, dtype: bf16}}\n"
                   for name in names(count))


def paths(count):
    """The names as keys of a tree, as JAX's programs have them."""
    for name in names(count):
        yield ["params", *name.split(".")]


def orbax(count):
    """A checkpoint's metadata, with the shapes that eight devices wrote."""
    tree, shardings = {}, {}
    for keys in paths(count):
        rows, *columns = shape(".".join(keys))
        tree[str(tuple(keys))] = {
            "key_metadata": [{"key": key, "key_type": 2} for key in keys],
            "value_metadata": {"value_type": "jax.Array",
                               "skip_deserialize": False,
                               "write_shape": [rows // 8, *columns]}}
        name = base64.b64encode(".".join(keys).encode()).decode()
        shardings[name] = json.dumps(
            {"sharding_type": "NamedSharding", "shape": [8],
             "axis_names": ["fsdp"], "partition_spec": ["fsdp"],
             "device_mesh": {"mesh": [{"id": i} for i in range(8)]}})
    return {"ckpt/_METADATA": json.dumps(
                {"tree_metadata": tree, "use_ocdbt": True}),
            "ckpt/_sharding": json.dumps(shardings)}


def maxtext_dump(count):
    mesh = {"axis_names": ["fsdp", "tp"], "shape": {"fsdp": 16, "tp": 4}}
    return json.dumps(
        {".params/" + "/".join(f"['{key}']" for key in keys):
         {"mesh": mesh, "partition_spec": ["fsdp"],
          "shape": shape(".".join(keys))} for keys in paths(count)})


ONE_RULE = rules([(r"\.weight$", "[fsdp, tp]")])
MESH = ["--mesh", "fsdp=16,tp=4", "--jobs", "1"]
LARGE = {"model.json": model(100000), "rules.yaml": rules(MODEL_RULES)}


def readers():
    """What each format costs to read; hf-config and native are elsewhere."""
    llama = config("llama-3.1-70b")
    on = ["llama-3.1-70b.json", "--rules", "@llama", *MESH]
    written = [
        Workload(f"read, {name}", command + [file], llama,
                 [["export", *on, "--to", target, "-o", file]])
        for name, command, target, file in (
            ("StableHLO", ["inspect"], "shardy", "model.mlir"),
            ("rules in Python", ["check", *on[:1], *MESH, "--rules"],
             "python", "rules.py"),
            ("placements of DTensor", ["check", *on[:1], *MESH, "--rules"],
             "dtensor", "placements.json"))]
    return [
        Workload("read, safetensors", ["inspect", "model.safetensors"],
                 {"model.safetensors": safetensors(names(5000))}),
        Workload("read, shards", ["inspect", "model.safetensors.index.json"],
                 shards(2000)),
        Workload("read, GGUF", ["inspect", "model.gguf"],
                 {"model.gguf": gguf(5000)}),
        Workload("read, YAML", ["inspect", "model.yaml"],
                 {"model.yaml": yaml(1000)}),
        Workload("read, Orbax", ["inspect", "ckpt"], orbax(1000)),
        Workload("read, a dump of MaxText", ["inspect", "named_shardings.json"],
                 {"named_shardings.json": maxtext_dump(2000)}),
        *written,
        Workload("read, a plan", ["resolve", "llama-3.1-70b.json", "--plan",
                                  "a.plan.json"], llama,
                 [["resolve", *on, "-o", "a.plan.json"]]),
    ]


# Tensors of what RATIOS compare.
ALIKE = 20000
ADAM = ["--optimizer", "adamw"]
PYTHON = ["--to", "python"]


def qwen3_moe(of):
    """Names and shapes of the parameters that follow from a config."""
    hidden, heads = of["hidden_size"], of["num_attention_heads"]
    rows, mlp = of["head_dim"] * heads, of["moe_intermediate_size"]
    kv = of["head_dim"] * of["num_key_value_heads"]
    yield "model.embed_tokens.weight", [of["vocab_size"], hidden]
    for layer in range(of["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        yield at + "self_attn.q_proj.weight", [rows, hidden]
        yield at + "self_attn.k_proj.weight", [kv, hidden]
        yield at + "self_attn.v_proj.weight", [kv, hidden]
        yield at + "self_attn.o_proj.weight", [hidden, rows]
        yield at + "self_attn.q_norm.weight", [of["head_dim"]]
        yield at + "self_attn.k_norm.weight", [of["head_dim"]]
        yield at + "mlp.gate.weight", [of["num_experts"], hidden]
        for expert in range(of["num_experts"]):
            each = f"{at}mlp.experts.{expert}."
            yield each + "gate_proj.weight", [mlp, hidden]
            yield each + "up_proj.weight", [mlp, hidden]
            yield each + "down_proj.weight", [hidden, mlp]
        yield at + "input_layernorm.weight", [hidden]
        yield at + "post_attention_layernorm.weight", [hidden]
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [of["vocab_size"], hidden]


def forms():
    """One model in the forms in which people have it, and a catch-all beside
    rules that share its work."""
    every = names(ALIKE)
    files = {"model.json": model(ALIKE), "seven.yaml": rules(MODEL_RULES),
             "seven-more.yaml": rules(MODEL_RULES[:4] + [
                 (MODEL_RULES[4][0], "[fsdp]")] + MODEL_RULES[5:]),
             "all.yaml": rules([(".*", "[fsdp]")]),
             "all-more.yaml": rules([(".*", "[tp]")]),
             "unused.yaml": rules([("nothing", "[tp]"), (".*", "[fsdp]")])}
    qwen = config("qwen3-30b-a3b")

    def inspected(what, file, texts):
        return Workload(f"one model: {what}", ["inspect", file], texts)

    def checked(what, file, command="check", *more):
        return Workload(f"one model: {what}",
                        [command, "model.json", "--rules", file, *MESH, *more],
                        files)

    def compared(what, before, after):
        return Workload(f"one model: {what}",
                        ["diff", "model.json", "--before", before, "--after",
                         after, *MESH], files)
    return [
        inspected("a manifest", "model.json", files),
        inspected("a header", "a.safetensors",
                  {"a.safetensors": header(sorted(every))}),
        inspected("a shuffled header", "a.safetensors",
                  {"a.safetensors": header(shuffled(every), sorted(every))}),
        inspected("160 shards", "model.safetensors.index.json",
                  real_shards(ALIKE, 160)),
        inspected("GGUF", "a.gguf", {"a.gguf": real_gguf(ALIKE)}),
        inspected("a config", "qwen3-30b-a3b.json", qwen),
        inspected("a manifest of the config", "model.json",
                  {"model.json": manifest(qwen3_moe(json.loads(
                      qwen["qwen3-30b-a3b.json"])))}),
        checked("seven rules", "seven.yaml"),
        checked("a catch-all", "all.yaml"),
        checked("a catch-all behind an unused rule", "unused.yaml"),
        checked("seven rules, analyze", "seven.yaml", "analyze", *ADAM),
        checked("a catch-all, analyze", "all.yaml", "analyze", *ADAM),
        checked("seven rules, export", "seven.yaml", "export", *PYTHON),
        checked("a catch-all, export", "all.yaml", "export", *PYTHON),
        compared("seven rules, diff", "seven.yaml", "seven-more.yaml"),
        compared("a catch-all, diff", "all.yaml", "all-more.yaml"),
    ]


# Of two workloads, and how much more than the second the first may take. Both
# start the program: where that gets cheaper, ratios rise.
RATIOS = [
    *((f"one model: {what}", "one model: a manifest", most)
      for what, most in (("a header", 1.5), ("a shuffled header", 1.5),
                         ("160 shards", 1.7), ("GGUF", 1.5))),
    ("one model: a config", "one model: a manifest of the config", 1.5),
    *((f"one model: {what}", "one model: seven rules", most)
      for what, most in (("a catch-all", 1.5),
                         ("a catch-all behind an unused rule", 1.55))),
    *((f"one model: a catch-all, {command}",
       f"one model: seven rules, {command}", 1.55)
      for command in ("analyze", "export", "diff"))]


def renderers():
    """Of rows, and of findings; text and JSON of rows are elsewhere."""
    few = {"model.json": odd_model(10, 4), "rules.yaml": odd_rules(10)}
    return [
        Workload("rows as CSV",
                 ["resolve", "model.json", "--rules", "rules.yaml", *MESH,
                  "--format", "csv"],
                 {"model.json": model(5000), "rules.yaml": rules(MODEL_RULES)}),
        Workload("rows as HTML",
                 ["check", "model.json", "--rules", "rules.yaml", *MESH,
                  "--format", "html"],
                 {"model.json": model(5000), "rules.yaml": rules(MODEL_RULES)}),
        *(Workload(f"findings as {form}",
                   ["check", "model.json", "--rules", "rules.yaml", *MESH,
                    "--format", form], few)
          for form in ("json", "sarif", "markdown", "github", "concise"))]


def workloads():
    on_llama = ["llama-3.1-70b.json", "--rules", "@llama"]
    on_qwen = ["qwen3-30b-a3b.json", "--rules", "@qwen3_moe"]
    return [
        Workload("resolve, 100,000 tensors, text",
                 ["resolve", "model.json", "--rules", "rules.yaml", *MESH],
                 LARGE),
        Workload("resolve, 100,000 tensors, JSON",
                 ["resolve", "model.json", "--rules", "rules.yaml", *MESH,
                  "--json"], LARGE),
        Workload("check, 50 unused rules",
                 ["check", "model.json", "--rules", "rules.yaml", *MESH],
                 {"model.json": model(5000), "rules.yaml": unused_rules(50)}),
        Workload("check, 100 findings",
                 ["check", "model.json", "--rules", "rules.yaml", *MESH],
                 {"model.json": odd_model(50, 20),
                  "rules.yaml": odd_rules(50)}),
        Workload("check, DeepSeek V3",
                 ["check", "deepseek-v3.json", "--rules", "@deepseek_v3",
                  *MESH], config("deepseek-v3")),
        Workload("resolve, 800 rules",
                 ["resolve", "model.json", "--rules", "rules.yaml", *MESH],
                 {"model.json": model(800), "rules.yaml": rule_per_name(800)}),
        Workload("analyze, memory",
                 ["analyze", "deepseek-v3.json", "--rules", "@deepseek_v3",
                  *MESH, "--optimizer", "adamw", "--hardware", "h100-sxm"],
                 config("deepseek-v3")),
        Workload("analyze, training step",
                 ["analyze", *on_llama, "--mesh", "fsdp=64,tp=8",
                  "--optimizer", "adamw", "--hardware", "h100-sxm", "--batch",
                  "128", "--seq", "8192", "--remat", "block"],
                 config("llama-3.1-70b")),
        Workload("analyze, a step of 405B on 16,384 devices",
                 ["analyze", "llama-3.1-405b.json", "--rules", "@llama",
                  "--mesh", "pp=16,fsdp=128,tp=8", "--stages", "pp",
                  "--optimizer", "adamw", "--hardware", "h100-sxm", "--batch",
                  "2048", "--seq", "8192", "--microbatches", "16", "--remat",
                  "full", "--framework", "megatron"],
                 config("llama-3.1-405b", CONFIGS.parent / "validation")),
        Workload("check, serving",
                 ["check", *on_llama, "--mesh", "tp=8", "--mode", "decode",
                  "--engine", "vllm", "--hardware", "h100-sxm",
                  "--input-tokens", "1024", "--output-tokens", "256",
                  "--concurrency", "32"],
                 config("llama-3.1-70b")),
        # 128 experts of 48 layers.
        Workload("sweep, steps of many experts",
                 ["sweep", "qwen3-30b-a3b.json", "--rules", "@all_models",
                  "--devices", "16", "--over", "fsdp,tp", "--jobs", "1",
                  "--optimizer", "adamw", "--batch", "64", "--seq", "8192",
                  "--hardware", "h100-sxm"], config("qwen3-30b-a3b")),
        Workload("analyze, a step from shapes",
                 ["analyze", "gpt-neo.json", "--rules", "@all_models",
                  "--mesh", "fsdp=8,tp=4", "--jobs", "1", "--optimizer",
                  "adamw", "--batch", "64", "--seq", "2048"],
                 {"gpt-neo.json": json.dumps(GPT_NEO)}),
        Workload("sweep",
                 ["sweep", *on_llama, "--devices", "64,128", "--over",
                  "fsdp,tp", "--jobs", "1", "--optimizer", "adamw",
                  "--hardware", "h100-sxm"],
                 config("llama-3.1-70b")),
        # The inner loop of a search: each plan is judged under each step.
        Workload("sweep, ways to do a step",
                 ["sweep", *on_llama, "--devices", "1024", "--over",
                  "fsdp,tp", "--jobs", "1", "--optimizer", "adamw", "--batch",
                  "512", "--seq", "8192", "--hardware", "h100-sxm", "--remat",
                  "none,block,full", "--microbatches", "1,2"],
                 config("llama-3.1-70b")),
        Workload("simulate, field",
                 ["simulate", "tinyllama-1.1b.json", "--rules", "@llama",
                  "--mesh", "fsdp=2,tp=2", "--jobs", "1", "--layers", "1",
                  "--shrink", "--values", "field"], config("tinyllama-1.1b")),
        Workload("simulate, floats",
                 ["simulate", "small.json", "--rules", "@llama", "--mesh",
                  "fsdp=2,tp=4", "--jobs", "1", "--tokens", "2x64"],
                 {"small.json": json.dumps(SMALL_LLAMA)}),
        Workload("check, 20 targets", ["check", "--config", "new/shardplan.yaml",
                                       "--jobs", "1"], gate_sides(20)),
        Workload("gate, 20 targets, all changed",
                 ["gate", "old", "new", "--jobs", "1"], gate_sides(20)),
        Workload("diff of two plans",
                 ["diff", "a.plan.json", "b.plan.json"],
                 config("qwen3-30b-a3b"),
                 [["resolve", *on_qwen, *MESH, "-o", "a.plan.json"],
                  ["resolve", *on_qwen, "--mesh", "fsdp=16,tp=2", "-o",
                   "b.plan.json"]]),
        Workload("export",
                 ["export", *on_qwen, *MESH, "--to", "python"],
                 config("qwen3-30b-a3b")),
        *readers(), *renderers(), *forms(),
        Workload("inspect, 700 modules in FP8 not converted",
                 ["inspect", "fp8.json"], {"fp8.json": fp8_deepseek(700)}),
        Workload("inspect", ["inspect", "model.json", "--json"],
                 {"model.json": model(5000)}),
        Workload("sweep, classes of devices",
                 ["sweep", "model.json", "--rules", "rules.yaml", "--mesh",
                  "fsdp=1009", "--jobs", "1", "--on-indivisible", "chunk",
                  "--optimizer", "adamw"],
                 {"model.json": odd_model(300, 1), "rules.yaml": ONE_RULE}),
        Workload("analyze, ZeRO and stages",
                 ["analyze", *on_llama, "--mesh", "pp=4,fsdp=16,tp=4",
                  "--jobs", "1", "--stages", "pp", "--optimizer", "adamw",
                  "--zero", "1", "--zero-axes", "fsdp", "--zero-style",
                  "megatron"], config("llama-3.1-70b")),
        Workload("analyze, an engine",
                 ["analyze", *on_llama, "--mesh", "tp=8", "--jobs", "1",
                  "--mode", "decode", "--seq", "8192", "--engine", "vllm",
                  "--hardware", "h100-sxm"], config("llama-3.1-70b")),
        Workload("simulate, doubles",
                 ["simulate", "tinyllama-1.1b.json", "--rules", "@llama",
                  "--mesh", "fsdp=2,tp=2", "--jobs", "1", "--layers", "1",
                  "--shrink"], config("tinyllama-1.1b")),
        Workload("fix, 10 findings",
                 ["check", "model.json", "--rules", "rules.yaml", *MESH,
                  "--fix", "--diff"],
                 {"model.json": odd_model(10, 4), "rules.yaml": odd_rules(10)}),
        Workload("diff of rules", ["diff", "a.yaml", "b.yaml"],
                 {"a.yaml": rules(MODEL_RULES), "b.yaml": rules(
                     MODEL_RULES[1:] + [(".*", "[tp]")])}),
        Workload("diff of readings",
                 ["diff", "--semantics", "eformer,flax", *on_qwen, *MESH],
                 config("qwen3-30b-a3b")),
    ]


# Counting.

class CannotCount(Exception):
    pass


ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def run(command, folder):
    # 0 and 1 are answers; what could not run measures nothing.
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          stdin=subprocess.DEVNULL, check=False)
    if done.returncode not in (0, 1):
        raise CannotCount(
            f"exit {done.returncode} of {' '.join(map(str, command))}\n"
            f"{done.stderr}")
    return done.stderr


def count(program, workload):
    """Instructions of a workload. The folder's name has one length."""
    # Without what a folder above may configure.
    has_own = workload.command[0] == "gate" or "--config" in workload.command
    always = [] if has_own else ["--isolated"]
    with tempfile.TemporaryDirectory(prefix="shardplan-bench-") as folder:
        for name, text in workload.files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text if isinstance(text, bytes)
                             else text.encode())
        for command in workload.prepare:
            run([program, *command, *always], folder)
        return counted(program, [*workload.command, *always], folder)


def counted(program, command, folder):
    """Instructions of a command line that is run in a folder."""
    output = run(["valgrind", "--tool=cachegrind", "--cache-sim=no",
                  f"--cachegrind-out-file={pathlib.Path(folder, 'counts')}",
                  "--log-fd=2", program, *command], folder)
    found = re.search(r"I\s+refs:\s+([\d,]+)", output)
    if not found:
        raise CannotCount("valgrind counted nothing:\n" + output)
    return int(found.group(1).replace(",", ""))


# Comparing.

def first_line(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                          check=True)
    return done.stdout.splitlines()[0]


def version(line):
    return re.findall(r"\d+(?:\.\d+)+", line)[-1]


def cached(program, name):
    """An entry of the build's CMakeCache.txt, beside the program."""
    cache = pathlib.Path(program).resolve().parent / "CMakeCache.txt"
    if not cache.exists():
        return ""
    found = re.search(rf"^{name}:\w+=(.*)$", cache.read_text("utf-8"), re.M)
    return found.group(1) if found else ""


def processor():
    """The level of x86-64 that valgrind passes on, or the architecture."""
    machine = os.uname().machine
    if machine != "x86_64":
        return machine
    flags = set()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            flags = set(line.split())
            break
    return "x86-64-v3" if {"avx2", "bmi2", "fma"} <= flags else "x86-64-v2"


def key_of(program):
    compiler = cached(program, "CMAKE_CXX_COMPILER") or "c++"
    output = first_line([compiler, "--version"])
    name = "clang++" if "clang" in output else "g++"
    build = cached(program, "CMAKE_BUILD_TYPE") or "unknown build"
    return ", ".join([
        f"{name} {version(output)}", build.lower(),
        os.confstr("CS_GNU_LIBC_VERSION"),
        first_line(["valgrind", "--version"]).replace("-", " ", 1),
        processor()])


def compare(counted, record, key):
    """Lines of the table, and the names of those above the slack. Ratios are
    to the record's entry of that key, else to its first that there is."""
    same = key in record
    known = record.get(key) or next(iter(record.values()), {})
    lines, above = [], []
    for name, now in counted.items():
        line = f"  {name:<32} {now:>15,}"
        before = known.get(name)
        if before is None:
            line += "   not on record"
            if same:
                above.append(name)
                line += ": run with --update"
        else:
            line += f"   {now / before:6.3f}x"
            if same and now > before * (1 + SLACK):
                above.append(name)
                line += f"   more than {SLACK:.0%} above the record"
            elif same and now < before * (1 - SLACK):
                line += "   better: record it with --update"
        lines.append(line)
    return lines, above


def compare_pairs(counted, ratios):
    """Lines of those that were both counted, and the names of those above."""
    lines, above = [], []
    for first, second, most in ratios:
        if first not in counted or second not in counted:
            continue
        ratio = counted[first] / counted[second]
        line = f"  {first}: {ratio:.2f} times {second}"
        if ratio > most:
            above.append(first)
            line += f", which is more than {most}"
        lines.append(line)
    return lines, above


def main(arguments):
    parser = argparse.ArgumentParser(
        description="Instructions of fixed workloads, against the record.")
    parser.add_argument("program")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--only", default="", help="names that contain this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--record", type=pathlib.Path, default=RECORD)
    asked = parser.parse_args(arguments)
    if not shutil.which("valgrind"):
        print("valgrind is not installed: scripts/setup --all")
        return 2
    program = str(pathlib.Path(asked.program).resolve())
    record = (json.loads(asked.record.read_text("utf-8"))
              if asked.record.exists() else {})
    key = key_of(program)
    chosen = [w for w in workloads() if asked.only in w.name]
    try:
        with ThreadPoolExecutor(max(1, asked.jobs)) as pool:
            counts = list(pool.map(lambda w: count(program, w), chosen))
    except CannotCount as problem:
        print(problem)
        return 2
    found = {w.name: n for w, n in zip(chosen, counts)}
    lines, above = compare(found, record, key)
    print("instructions  " + key)
    if key not in record:
        against = next(iter(record), None)
        print("  no record of these; "
              + (f"ratios to {against}, nothing fails" if against
                 else "nothing to compare with"))
    print("\n".join(lines))
    lines, too_much = compare_pairs(found, RATIOS)
    print("\n".join(lines))
    if asked.update:
        kept = {} if not asked.only else record.get(key, {})
        record[key] = {**kept, **found}
        asked.record.write_text(json.dumps(record, indent=2) + "\n", "utf-8")
        print(f"recorded in {asked.record.name}")
        return 0
    if above:
        print("More instructions than on record: see where with `valgrind "
              "--tool=callgrind`,\nor record them with --update if that is "
              "meant.")
    return 1 if above or too_much else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
