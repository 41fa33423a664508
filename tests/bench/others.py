# SPDX-License-Identifier: Apache-2.0
"""What other programs take for the same work, on the same machine.

    python3 tests/bench/others.py [--folder FOLDER] [--python PYTHON]

JAX, PyTorch and eFormer are installed into a virtual environment of their own,
outside the repository: FOLDER, by default `shardplan-bench` in the user's
cache; or `--python` names an interpreter that has them. Prints a table; what
cannot be installed or run has a row that says so. Prints the machine, too:
these rows say something only beside ours of the same minute.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import textwrap
import venv

TOKENS, EMBED, MLP = 512, 2048, 5632  # as tests/bench/simulate_bench.cc
NAMES, RULES = 100000, 20  # as tests/bench/match_bench.cc
PACKAGES = {"jax": ["jax", "numpy"], "torch": ["torch", "numpy"],
            "eformer": ["eformer==0.0.90"]}

MEDIAN = """
def median(run, rounds=5):
    taken = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return sorted(taken[1:])[rounds // 2]
"""

JAX = MEDIAN + """
import jax, jax.numpy as jnp, numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
def place(mesh, spec, shape):
    key = numpy.random.default_rng(0)
    value = key.standard_normal(shape, dtype=numpy.float32)
    return jax.device_put(value, NamedSharding(mesh, spec))
def mlp(name, axes, sizes, x, up, down):
    devices = numpy.array(jax.devices()[:8]).reshape(sizes)
    mesh = Mesh(devices, axes)
    values = [place(mesh, spec, shape) for spec, shape in
              ((x, (TOKENS, EMBED)), (up, (EMBED, MLP)), (down, (MLP, EMBED)))]
    run = jax.jit(lambda x, up, down: jnp.maximum(x @ up, 0) @ down,
                  out_shardings=NamedSharding(mesh, x))
    seconds = median(lambda: run(*values).block_until_ready())
    flop = 4 * TOKENS * EMBED * MLP
    print(f"MLP, JAX {jax.__version__}, 8 host devices, {name}|"
          f"{flop / seconds * 1e-9:.0f} GFLOP/s")
mlp("tp=8", ("tp",), (8,), P(), P(None, "tp"), P("tp", None))
mlp("fsdp=2,tp=4", ("fsdp", "tp"), (2, 4), P("fsdp", None), P("fsdp", "tp"),
    P("tp", "fsdp"))
"""

TORCH = MEDIAN + """
import torch
x = torch.randn(TOKENS, EMBED)
up, down = torch.randn(EMBED, MLP), torch.randn(MLP, EMBED)
def run():
    with torch.no_grad():
        (torch.relu(x @ up)) @ down
seconds = median(run)
print(f"MLP, torch {torch.__version__}, not sharded, "
      f"{torch.get_num_threads()} threads|"
      f"{4 * TOKENS * EMBED * MLP / seconds * 1e-9:.0f} GFLOP/s")
"""

EFORMER = """
import numpy
start = time.process_time()
from eformer.escale import match_partition_rules
imports = time.process_time() - start
from jax.sharding import PartitionSpec as P
sys.path.insert(0, BENCH)
from instructions import names
from growth import match_patterns
leaf = numpy.zeros((2, 2), numpy.float32)
tree = {name: leaf for name in names(NAMES)}
rules = [(pattern, P("fsdp", "tp")) for pattern in match_patterns(RULES)]
start = time.process_time()
match_partition_rules(rules, tree)
taken = time.process_time() - start
print(f"matching {NAMES:,} names, {RULES} rules, eFormer 0.0.90|"
      f"{taken / NAMES * 1e9:,.0f} ns a name, after {imports:.1f} s of imports")
"""

PROGRAMS = {"jax": JAX, "torch": TORCH, "eformer": EFORMER}


def installed(folder, package):
    """The interpreter of an environment that has the package, or why not."""
    home = folder / package
    python = home / "bin" / "python"
    done = home / "installed"
    if done.exists():
        return python, None
    try:
        venv.create(home, with_pip=True, clear=True)
        found = subprocess.run(
            [python, "-m", "pip", "install", "--quiet",
             *PACKAGES[package]], capture_output=True, text=True, timeout=1800,
            check=False)
    except (OSError, subprocess.SubprocessError) as problem:
        return None, str(problem)
    if found.returncode != 0:
        return None, (found.stderr.strip().splitlines() or ["pip failed"])[-1]
    done.touch()
    return python, None


def measured(package, folder, python):
    """Rows: what, how fast; or why there is none."""
    if python is None:
        python, why = installed(folder, package)
        if python is None:
            return [(package, f"not measured: it cannot be installed: {why}")]
    program = textwrap.dedent(f"""
        import sys, time
        TOKENS, EMBED, MLP = {TOKENS}, {EMBED}, {MLP}
        NAMES, RULES = {NAMES}, {RULES}
        BENCH = {str(pathlib.Path(__file__).resolve().parent)!r}
        """) + PROGRAMS[package]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu",
                   "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
                   "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        found = subprocess.run([python, "-c", program], env=environment,
                               capture_output=True, text=True, timeout=1800,
                               check=False)
    except (OSError, subprocess.SubprocessError) as problem:
        return [(package, f"not measured: {problem}")]
    if found.returncode != 0:
        last = (found.stderr.strip().splitlines() or ["it failed"])[-1]
        return [(package, f"not measured: {last}")]
    return [tuple(line.split("|")) for line in found.stdout.splitlines()
            if "|" in line]


def main(arguments):
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME")
                         or pathlib.Path.home() / ".cache")
    parser = argparse.ArgumentParser(
        description="What other programs take for the same work.")
    parser.add_argument("--folder", type=pathlib.Path,
                        default=cache / "shardplan-bench")
    parser.add_argument("--python", help="an interpreter that has them")
    parser.add_argument("--only", choices=sorted(PROGRAMS))
    asked = parser.parse_args(arguments)
    print("| the same work | by another program |")
    print("|---|---:|")
    for package in PROGRAMS:
        if asked.only in (None, package):
            for what, how in measured(package, asked.folder, asked.python):
                print(f"| {what} | {how} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
