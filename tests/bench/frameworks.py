# SPDX-License-Identifier: Apache-2.0
"""What `simulate` costs beside JAX and PyTorch, in seconds of CPU.

    python3 tests/bench/frameworks.py jax FOLDER [--python PYTHON]
    python3 tests/bench/frameworks.py torch FOLDER --program build/release/shardplan
        [--python PYTHON]

jax: the MLP of tests/bench/simulate_bench.cc on 8 host devices. torch: a
checkpoint of 1.1 billion random numbers in TinyLlama's shape; PyTorch's forward
passes of 2 x 64 tokens in float32 and float64, twice each, beside `simulate` on
fsdp=2,tp=4, whose runs are these: float32 and float64, sharded and not. Of
PyTorch the passes count alone, of `simulate` the whole process.

FOLDER is for the checkpoint and for what pip installs, both kept for the next
time; with --python an interpreter that has the packages is taken instead. On a
busy machine times by the clock say little; CPU is user and system time of all
threads.
"""

import argparse
import json
import pathlib
import resource
import struct
import subprocess
import sys
import venv

LAYERS, HIDDEN, MLP, VOCAB, HEADS, KV_HEADS = 22, 2048, 5632, 32000, 32, 4
TOKENS = 512  # of the MLP alone
ROUNDS = 5
PACKAGES = {"jax": ["jax", "numpy"],
            "torch": ["torch", "transformers", "safetensors", "numpy"]}

JAX = f"""
import os, resource, time
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax, numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

draw = numpy.random.default_rng(0)
shapes = [({TOKENS}, {HIDDEN}), ({HIDDEN}, {MLP}), ({MLP}, {HIDDEN})]
numbers = [draw.standard_normal(s, dtype=numpy.float32) for s in shapes]

def seconds():
    use = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), use.ru_utime + use.ru_stime

def run(name, mesh, specs):
    on = [NamedSharding(mesh, spec) for spec in specs]
    given = [jax.device_put(x, s) for x, s in zip(numbers, on)]
    mlp = jax.jit(lambda x, up, down: jax.nn.relu(x @ up) @ down,
                  out_shardings=on[0])
    mlp(*given).block_until_ready()
    rows = []
    for _ in range({ROUNDS}):
        before = seconds()
        mlp(*given).block_until_ready()
        rows.append([b - a for a, b in zip(before, seconds())])
    wall, cpu = (sorted(column)[{ROUNDS} // 2] for column in zip(*rows))
    flop = 4 * {TOKENS} * {HIDDEN} * {MLP} * 1e-9
    print(f"JAX {{jax.__version__}}, {{name:12}} {{flop / wall:7.1f}} GFLOP/s "
          f"  {{flop / cpu:7.1f}} per second of CPU")

devices = numpy.array(jax.devices())
run("tp=8", Mesh(devices, ("tp",)), [P(), P(None, "tp"), P("tp", None)])
run("fsdp=2,tp=4", Mesh(devices.reshape(2, 4), ("fsdp", "tp")),
    [P("fsdp"), P("fsdp", "tp"), P("tp", "fsdp")])
"""

TORCH = """
import resource, sys, torch
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
print(f"torch {torch.__version__}, four forward passes: {total:.1f} s of CPU")
"""


def interpreter(folder, which, given):
    if given:
        return given
    home = folder / which
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q",
                        *PACKAGES[which]], check=True)
    return python


def shapes():
    kv = HIDDEN // HEADS * KV_HEADS
    yield "model.embed_tokens.weight", [VOCAB, HIDDEN]
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        yield at + "input_layernorm.weight", [HIDDEN]
        yield at + "self_attn.q_proj.weight", [HIDDEN, HIDDEN]
        yield at + "self_attn.k_proj.weight", [kv, HIDDEN]
        yield at + "self_attn.v_proj.weight", [kv, HIDDEN]
        yield at + "self_attn.o_proj.weight", [HIDDEN, HIDDEN]
        yield at + "post_attention_layernorm.weight", [HIDDEN]
        yield at + "mlp.gate_proj.weight", [MLP, HIDDEN]
        yield at + "mlp.up_proj.weight", [MLP, HIDDEN]
        yield at + "mlp.down_proj.weight", [HIDDEN, MLP]
    yield "model.norm.weight", [HIDDEN]
    yield "lm_head.weight", [VOCAB, HIDDEN]


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
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes():
        begin = end
        end += 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape,
                        "data_offsets": [begin, end]}
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
        lines = "".join(" ".join(map(str, shape)) + "\n"
                        for _, shape in shapes())
        subprocess.run([python, "-c", DRAW], input=lines.encode(), stdout=file,
                       check=True)
    # Last, so that a checkpoint with a config is a whole one.
    (folder / "config.json").write_text(json.dumps(config))


def compare_torch(folder, python, program):
    checkpoint = folder / "checkpoint"
    if not (checkpoint / "config.json").exists():
        write_checkpoint(checkpoint, python)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [program, "simulate", checkpoint, "--rules", "@llama", "--mesh",
         "fsdp=2,tp=4", "--tokens", "2x64", "--quiet", "--allow", "SP204"],
        check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    user = after.ru_utime - before.ru_utime
    system = after.ru_stime - before.ru_stime
    print(f"simulate: {user + system:.1f} s of CPU, {system:.1f} of them the "
          "system's", flush=True)
    subprocess.run([python, "-c", TORCH, checkpoint], check=True,
                   stderr=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("which", choices=sorted(PACKAGES))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--python")
    parser.add_argument("--program", default="build/release/shardplan")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    python = interpreter(options.folder.resolve(), options.which,
                         options.python)
    if options.which == "jax":
        subprocess.run([python, "-c", JAX], check=True)
    else:
        compare_torch(options.folder, python, options.program)


if __name__ == "__main__":
    sys.exit(main())
