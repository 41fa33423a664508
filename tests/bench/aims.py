# SPDX-License-Identifier: Apache-2.0
"""What should be fast, what it is held against, and how far it is from its aim.

    python3 tests/bench/aims.py [build/release] [--folder FOLDER]
        [--python PYTHON] [--only WORD]

Prints the table `aims` of docs/design/performance.md. What stands beside a
number was measured in the same minutes, in turn with it: A B A B, medians of
both. JAX, PyTorch and eFormer are installed into an environment of their own,
outside the repository: FOLDER, by default `shardplan-bench` in the user's cache;
or `--python` names an interpreter that has them. Where one cannot be installed
or run, its rows say so. The checkpoint of 1.1 billion random numbers, in
TinyLlama's shape, is kept in FOLDER too. CPU is user and system time of all
threads.
"""

import argparse
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import venv

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import instructions  # noqa: E402

BENCH = pathlib.Path(__file__).resolve().parent
PACKAGES = {"jax": ["jax", "numpy"],
            "torch": ["torch", "numpy", "transformers", "safetensors"],
            "eformer": ["eformer==0.0.90"]}
ROUNDS = 3
LAYERS, HIDDEN, MLP, VOCAB, HEADS, KV_HEADS = 22, 2048, 5632, 32000, 32, 4
TOKENS = 512  # of the MLP alone, as tests/bench/simulate_bench.cc

# Each prints numbers by name, as JSON.
JAX = f"""
import json, time
import jax, numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
draw = numpy.random.default_rng(0)
shapes = [({TOKENS}, {HIDDEN}), ({HIDDEN}, {MLP}), ({MLP}, {HIDDEN})]
numbers = [draw.standard_normal(s, dtype=numpy.float32) for s in shapes]
def rate(mesh, specs):
    on = [NamedSharding(mesh, spec) for spec in specs]
    given = [jax.device_put(x, s) for x, s in zip(numbers, on)]
    mlp = jax.jit(lambda x, up, down: jax.nn.relu(x @ up) @ down,
                  out_shardings=on[0])
    taken = []
    for _ in range(6):
        start = time.perf_counter()
        mlp(*given).block_until_ready()
        taken.append(time.perf_counter() - start)
    return 4 * {TOKENS} * {HIDDEN} * {MLP} * 1e-9 / sorted(taken[1:])[2]
devices = numpy.array(jax.devices()[:8])
print(json.dumps({{
    "version": jax.__version__,
    "tp=8": rate(Mesh(devices, ("tp",)), [P(), P(None, "tp"), P("tp", None)]),
    "fsdp=2,tp=4": rate(Mesh(devices.reshape(2, 4), ("fsdp", "tp")),
                        [P("fsdp"), P("fsdp", "tp"), P("tp", "fsdp")])}}))
"""

TORCH = """
import json, resource, sys, torch
from transformers import AutoModelForCausalLM
def seconds():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return use.ru_utime + use.ru_stime
ids = torch.arange(128).reshape(2, 64) * 97 % 32000
total = 0
for dtype in (torch.float32, torch.float64):
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=dtype)
    with torch.no_grad():
        for _ in range(2):
            before = seconds()
            model(ids)
            total += seconds() - before
print(json.dumps({"version": torch.__version__, "seconds": total}))
"""

EFORMER = f"""
import json, sys, time
start = time.process_time()
import numpy
from eformer.escale import match_partition_rules
from jax.sharding import PartitionSpec as P
imports = time.process_time() - start
sys.path.insert(0, {str(BENCH)!r})
from instructions import MODEL_RULES, names
leaf = numpy.zeros((2, 2), numpy.float32)
tree = {{name: leaf for name in names(200000)}}
rules = [(pattern, P("fsdp", "tp")) for pattern, _ in MODEL_RULES]
start = time.process_time()
match_partition_rules(rules, tree)
print(json.dumps({{"imports": imports,
                   "microseconds": (time.process_time() - start) * 5}}))
"""

PROGRAMS = {"jax": JAX, "torch": TORCH, "eformer": EFORMER}


class Missing(Exception):
    """Why another program cannot be asked."""


class Others:
    """The other programs, each in an environment that has it."""

    def __init__(self, folder, python):
        self.folder, self.python = folder, python

    def interpreter(self, package):
        if self.python:
            return self.python
        home = self.folder / package
        python = home / "bin" / "python"
        wanted = " ".join(PACKAGES[package])
        done = home / "installed"
        if done.exists() and done.read_text("utf-8") == wanted:
            return python
        try:
            venv.create(home, with_pip=True, clear=True)
            found = subprocess.run(
                [python, "-m", "pip", "install", "--quiet",
                 *PACKAGES[package]], capture_output=True, text=True,
                timeout=1800, check=False)
        except (OSError, subprocess.SubprocessError) as problem:
            raise Missing(f"{package} cannot be installed: {problem}")
        if found.returncode != 0:
            last = (found.stderr.strip().splitlines() or ["pip failed"])[-1]
            raise Missing(f"{package} cannot be installed: {last}")
        done.write_text(wanted, "utf-8")
        return python

    def ask(self, package, *arguments):
        environment = {
            **os.environ, "JAX_PLATFORMS": "cpu", "PYTHONDONTWRITEBYTECODE": "1",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
        found = subprocess.run(
            [self.interpreter(package), "-c", PROGRAMS[package], *arguments],
            env=environment, capture_output=True, text=True, timeout=1800,
            check=False)
        if found.returncode != 0:
            last = (found.stderr.strip().splitlines() or ["it failed"])[-1]
            raise Missing(f"{package} failed: {last}")
        return json.loads(found.stdout.splitlines()[-1])


def median(values):
    return sorted(values)[len(values) // 2]


# The system counts the memory of who started a program as the program's, so a
# small process does.
USAGE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
"""


def usage(command, folder):
    """CPU seconds and peak bytes of a command that succeeds or has findings."""
    code, seconds, peak = subprocess.run(
        [sys.executable, "-c", USAGE, *command], cwd=folder, check=True,
        capture_output=True, text=True).stdout.split()
    if code not in ("0", "1"):
        raise RuntimeError(f"{command} gave {code}")
    return float(seconds), int(peak)


def verdict(met):
    return "met" if met else "**missed**"


# Rows: what, ours, beside it, the aim, whether it is met.

def write_rules(folder):
    (folder / "r.yaml").write_text(
        instructions.rules(instructions.MODEL_RULES), "utf-8")


def resolve_rows(built, others, folder):
    count = 200000
    (folder / "m.json").write_text(instructions.model(count), "utf-8")
    write_rules(folder)
    command = [built / "shardplan", "resolve", "m.json", "--rules", "r.yaml",
               "--mesh", "fsdp=16,tp=8", "--json"]
    ours = median([usage(command, folder)[0] for _ in range(5)]) / count * 1e6
    try:
        found = others.ask("eformer")
        beside = (f"eFormer 0.0.90: {found['microseconds']:.0f} µs for "
                  f"matching alone, after {found['imports']:.1f} s of imports")
    except Missing as why:
        beside = f"not measured: {why}"
    yield ("`resolve` of 200,000 tensors, JSON of every row, CPU a tensor",
           f"{ours:.2f} µs", beside, "1 µs", verdict(ours <= 1))


def memory_rows(built, _, folder):
    parts, end = [], 0
    for name in instructions.names(740000):
        shape = instructions.shape(name)
        begin, end = end, end + 2 * shape[0] * (shape[1:] or [1])[0]
        parts.append(f'"{name}":{{"dtype":"BF16","shape":'
                     f'{json.dumps(shape, separators=(",", ":"))},'
                     f'"data_offsets":[{begin},{end}]}}')
    header = ("{" + ",".join(parts) + "}").encode()
    write_rules(folder)
    (folder / "m.safetensors").write_bytes(
        struct.pack("<Q", len(header)) + header)
    _, peak = usage([built / "shardplan", "resolve", "m.safetensors", "--rules",
                     "r.yaml", "--mesh", "fsdp=16,tp=8", "--json"], folder)
    ratio = peak / len(header)
    yield ("peak memory, 740,000 tensors in a safetensors header",
           f"{peak / 1e6:.0f} MB, {ratio:.2f}x",
           f"the header: {len(header) / 1e6:.0f} MB", "1.5x",
           verdict(ratio <= 1.5))


def bench(built, part):
    return subprocess.run([built / "tests/shardplan_bench", part], check=True,
                          capture_output=True, text=True).stdout


def matching_rows(built, _others, _folder):
    found = re.search(r"^\| 100 \| (\d+) ns, ([\d.]+)x \| (\d+) ns",
                      bench(built, "matching"), re.M)
    ratio = float(found.group(2))
    yield ("matching a name, 100 rules", f"{found.group(1)} ns, {ratio:.2f}x",
           f"bare `RE2::Set`: {found.group(3)} ns", "0.4x",
           verdict(ratio <= 0.4))


def mlp_rows(built, others, _folder):
    ours, theirs, why = [], [], None
    for _ in range(ROUNDS):
        ours.append({what.strip(): float(rate) for what, rate in re.findall(
            r"^  (one dense product|simulated, \S+) +([\d.]+) GFLOP/s",
            bench(built, "simulate"), re.M)})
        try:
            theirs.append(others.ask("jax"))
        except Missing as problem:
            why = problem
            break
    dense = median([each["one dense product"] for each in ours])
    for mesh, aim in (("tp=8", 1.1), ("fsdp=2,tp=4", 1.2)):
        rate = median([each[f"simulated, {mesh}"] for each in ours])
        beside = f"one dense product {dense:.0f}"
        jax = 0
        if theirs:
            jax = median([each[mesh] for each in theirs])
            beside += (f"; JAX {theirs[0]['version']} on 8 host devices "
                       f"{jax:.0f}")
        elif why:
            beside += f"; not measured: {why}"
        yield (f"MLP of 512 x 2048 x 5632, float32, simulated, {mesh}",
               f"{rate:.0f} GFLOP/s, {dense / rate:.2f}x the dense product's "
               "time", beside,
               f"{aim}x" + (", and JAX" if mesh == "tp=8" else ""),
               verdict(dense / rate <= aim and (mesh != "tp=8" or rate >= jax)))


def product_rows(built, _others, _folder):
    parts = re.findall(r"^ +(\d+) x +(\d+) x +(\d+) .* ([\d.]+) of the reg",
                       bench(built, "gemm"), re.M)
    for m, n, k, part in parts:
        yield (f"BLIS product of {m} x {n} x {k} as we call it, one thread",
               f"{part} of the registers' rate", "", "0.85",
               verdict(float(part) >= 0.85))


DRAW = """
import numpy, sys
draw = numpy.random.default_rng(0)
for line in sys.stdin:
    shape = [int(x) for x in line.split()]
    x = draw.standard_normal(shape, dtype=numpy.float32) * shape[-1] ** -0.5
    if len(shape) == 1:
        x = numpy.ones(shape, numpy.float32)
    sys.stdout.buffer.write((x.view(numpy.uint32) >> 16).astype("<u2").tobytes())
"""


def write_checkpoint(folder, python):
    """In bfloat16: the upper halves of floats."""
    folder.mkdir(parents=True, exist_ok=True)
    header, end, lines = {"__metadata__": {"format": "pt"}}, 0, ""
    for name, shape in instructions.llama(LAYERS, HIDDEN, MLP, VOCAB, HEADS,
                                          KV_HEADS):
        begin = end
        end += 2 * shape[0] * (shape[1:] or [1])[0]
        header[name] = {"dtype": "BF16", "shape": shape,
                        "data_offsets": [begin, end]}
        lines += " ".join(map(str, shape)) + "\n"
    text = json.dumps(header).encode()
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
              "hidden_size": HIDDEN, "intermediate_size": MLP,
              "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "vocab_size": VOCAB,
              "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16",
              "tie_word_embeddings": False}
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.flush()
        subprocess.run([python, "-c", DRAW], input=lines.encode(), stdout=file,
                       check=True)
    # Last, so that a checkpoint with a config is a whole one.
    (folder / "config.json").write_text(json.dumps(config))


def checkpoint_rows(built, others, _folder):
    what = ("a checkpoint of 1.1 billion numbers on fsdp=2,tp=4, 2 x 64 tokens, "
            "float32 and float64, sharded and not, CPU")
    aim = "1.5x"
    checkpoint = others.folder / "checkpoint"
    try:
        python = others.interpreter("torch")
        if not (checkpoint / "config.json").exists():
            write_checkpoint(checkpoint, python)
    except Missing as why:
        yield what, "not measured: the checkpoint is drawn by NumPy", str(why), \
            aim, ""
        return
    command = [built / "shardplan", "simulate", checkpoint, "--rules", "@llama",
               "--mesh", "fsdp=2,tp=4", "--tokens", "2x64", "--quiet", "--allow",
               "SP204"]
    ours, peaks, theirs, why, version = [], [], [], None, ""
    for _ in range(ROUNDS):
        seconds, peak = usage(command, checkpoint)
        ours.append(seconds)
        peaks.append(peak)
        try:
            found = others.ask("torch", str(checkpoint))
            theirs.append(found["seconds"])
            version = found["version"]
        except Missing as problem:
            why = problem
            break
    taken = f"{median(ours):.1f} s, {median(peaks) / 1e9:.2f} GB"
    if not theirs:
        yield what, taken, f"not measured: {why}", aim, ""
        return
    ratio = median(ours) / median(theirs)
    yield (what, f"{taken}, {ratio:.2f}x",
           f"four forward passes of torch {version}: {median(theirs):.1f} s",
           aim, verdict(ratio <= 1.5))


ROWS = {"resolve": resolve_rows, "memory": memory_rows,
        "matching": matching_rows, "mlp": mlp_rows, "products": product_rows,
        "checkpoint": checkpoint_rows}


def main(arguments):
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME")
                         or pathlib.Path.home() / ".cache")
    parser = argparse.ArgumentParser(
        description="What should be fast, and how far it is from its aim.")
    parser.add_argument("built", nargs="?", type=pathlib.Path,
                        default=pathlib.Path("build/release"))
    parser.add_argument("--folder", type=pathlib.Path,
                        default=cache / "shardplan-bench")
    parser.add_argument("--python", help="an interpreter that has them")
    parser.add_argument("--only", choices=sorted(ROWS))
    asked = parser.parse_args(arguments)
    others = Others(asked.folder.resolve(), asked.python)
    print("| what | shardplan | beside it | aim | |")
    print("|---|---:|---|---:|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in ROWS.items():
            if asked.only not in (None, name):
                continue
            for row in rows(asked.built.resolve(), others,
                            pathlib.Path(folder)):
                print("| " + " | ".join(row) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
