# SPDX-License-Identifier: Apache-2.0
"""How the work of commands grows with what they are given.

    python3 tests/bench/growth.py build/release/shardplan [--only WORD]
    python3 tests/bench/growth.py build/release/shardplan --guard
    python3 tests/bench/growth.py build/release/shardplan --threads

Prints a table of CPU times, on one thread, as docs/design/performance.md has
it. Doubling tensors, rules, layers, findings or targets should double the time
at most, and more devices should cost nothing.

`--guard` counts instructions instead, of small inputs, n and 4n of each, n so
large that what is the same for every input is a third of the work at most: work
that grows with the input is then 3 to 4 times as much, work that grows with its
square 10 to 16 times. Exit 1 where it is more than `MOST` times. A run under
valgrind costs a second before it does anything, so there are two of a row, and
rows whose work is in another's, or which instructions.py counts for many, have
none.

`--threads` prints what a second thread saves: the CPU time of the first thread
with `--jobs 1` and with `--jobs 2`, the medians of some runs in turn. On a machine
with nothing else to do that is the time that passes; on a busy one it says what
time there does not.
"""

import argparse
import json
import math
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import instructions  # noqa: E402
from instructions import (CONFIGS, MODEL_RULES, manifest,  # noqa: E402
                          model, names, rules)

# Sorting, and room that doubles, cost a little more than four times.
MOST = 4.6
MOST_FOR_DEVICES = 0.02  # of the whole


# Inputs, by how many there are of what grows.

def word(number):
    """The number in letters: names that differ in words, not in numbers."""
    return str(number).translate(str.maketrans("0123456789", "abcdefghij"))


ONE_RULE = rules([(r"\.w$", "[fsdp, tp]")])


def match_patterns(count):
    """As tests/bench/model.cc has them: some for all layers, and many for one
    layer or expert each, as large files of rules have."""
    some = [(lambda n: rf"layers\.{n}\.mlp\.experts\.\d+\.up"),
            (lambda n: rf"mlp\.experts\.{n}\.(gate|down)_proj\.weight$"),
            (lambda n: rf"layers/{n}/mlp/down_proj/kernel")]
    first = [r"embed_tokens\.weight$", r"lm_head\.weight$",
             r"self_attn\.(q|k|v)_proj\.weight$",
             r"self_attn\.o_proj\.weight$", r"layernorm\.weight$"]
    last = [r"experts\.\d+\.(gate|up)_proj", r"experts\.\d+\.down_proj",
            ".*"]
    return (first + [some[i % 3](i) for i in range(count - 8)] + last)


def alike(count):
    """A mixture of experts: a dozen kinds of tensors."""
    return {"m.json": model(count), "r.yaml": rules(MODEL_RULES)}


def of_many_shapes(count):
    return {"m.json": manifest((f"model.layers.{i}.w", [64 * (1 + i), 64])
                               for i in range(count)), "r.yaml": ONE_RULE}


def of_many_names(count):
    return {"m.json": manifest((f"model.{word(i)}.w", [64, 64])
                               for i in range(count)), "r.yaml": ONE_RULE}


def finding_each(count):
    return {"m.json": manifest((f"model.{word(i)}z.w", [1001 + 2 * i, 77])
                               for i in range(count)),
            "r.yaml": rules([(rf"\.{word(i)}z\.w$", "[fsdp, tp]")
                             for i in range(count)])}


def unmatched_each(count):
    """Tensors that no rule is for, each of another name."""
    names_of = [f"model.{word(i)}z.w" for i in range(count)] + ["known"]
    return {"m.json": manifest((name, [64, 64]) for name in names_of),
            "r.yaml": rules([("known", "[fsdp, tp]")])}


def rule_each(count):
    return {"m.json": manifest((f"model.{word(i)}z.w", [64, 64])
                               for i in range(count)),
            "r.yaml": rules([(rf"\.{word(i)}z\.w$", "[fsdp, tp]")
                             for i in range(count)])}


def unused_rules(count):
    return {"m.json": model(1000), "r.yaml": instructions.unused_rules(count)}


def changed_rules(count):
    files = rule_each(count)
    files["q.yaml"] = files["r.yaml"].replace("[fsdp, tp]", "[tp]")
    return files


def of_layers(name):
    def files(layers):
        config = json.loads((CONFIGS / f"{name}.json").read_text("utf-8"))
        config["num_hidden_layers"] = layers
        return {"m.json": json.dumps(config)}
    return files


def of_any_size(_):
    return of_layers("llama-3.1-70b")(80)


def few(_):
    return alike(1000)


def with_rules(files):
    return lambda count: {**files(count), "r.yaml": rules(MODEL_RULES)}


# What is measured.

K, M = 1000, 1000000
MESH = ["--mesh", "fsdp=16,tp=4"]
TENSORS = [K, 10 * K, 100 * K, M]
FEWER = TENSORS[:-1]
RULES = [K, 2 * K, 4 * K]
LAYERS = [K, 4 * K, 8 * K]
TARGETS = [50, 100, 200]
ON = ["m.json", "--rules", "r.yaml", *MESH]
LLAMA = ["m.json", "--rules", "@llama"]
ADAM = ["--optimizer", "adamw"]
STEP = [*ADAM, "--batch", "128", "--seq", "4096"]


class Row:
    """A command, in which `{n}` stands for the number, over `sizes`. `guarded`
    is the smaller one of the two sizes whose instructions are counted."""

    def __init__(self, what, command, files, sizes, guarded=None, prepare=(),
                 devices=False):
        self.what, self.command, self.files = what, command, files
        self.sizes, self.guarded, self.prepare = sizes, guarded, prepare
        self.devices = devices

    def line(self, size, threads=1):
        own = (["--isolated"] if self.command[0] != "gate"
               and "--config" not in self.command else [])
        # A comparison of plans takes no --jobs.
        jobs = ["--jobs", str(threads)]
        if "a.plan.json" in self.command or self.command[0] == "inspect":
            jobs = []
        return [part.replace("{n}", str(size)) for part in self.command] + [
            *own, *jobs]

    def title(self):
        return " ".join(self.command[:1] + [
            part for part in self.command[1:]
            if not part.endswith((".json", ".yaml", "old", "new"))
            and part not in ("--rules", "--config", "--mesh",
                             "fsdp=16,tp=4", "@llama", "--before",
                             "--after")]).replace("{n}", "n")


PLANS = [["resolve", *ON, "-o", "a.plan.json"],
         ["resolve", "m.json", "--rules", "r.yaml", "--mesh", "fsdp=16,tp=2",
          "-o", "b.plan.json"]]
CHUNKS = ["m.json", "--rules", "r.yaml", "--mesh", "fsdp=100003",
          "--on-indivisible", "chunk", *ADAM]  # a class for each tensor or two


def rows():
    return [
        Row("tensors", ["resolve", *ON], alike, TENSORS),
        Row("tensors", ["resolve", *ON, "--json"], alike, TENSORS, 4 * K),
        Row("tensors", ["resolve", *ON, "--format", "csv"], alike, TENSORS),
        Row("tensors", ["check", *ON, "--format", "html"], alike, TENSORS),
        Row("tensors", ["check", *ON], alike, TENSORS),
        Row("tensors", ["analyze", *ON, *ADAM, "--hardware", "h100-sxm"],
            alike, TENSORS),
        Row("tensors", ["analyze", *ON, *ADAM, "--zero", "3", "--zero-axes",
                        "fsdp"], alike, TENSORS),
        Row("tensors", ["sweep", "m.json", "--rules", "r.yaml", "--devices",
                        "8", "--over", "fsdp,tp"], alike, TENSORS),
        Row("tensors", ["inspect", "m.json", "--json"], alike, TENSORS),
        Row("tensors", ["export", *ON, "--to", "python"], alike, TENSORS),
        Row("tensors", ["export", *ON, "--to", "jax"], alike, TENSORS),
        Row("tensors", ["diff", "a.plan.json", "b.plan.json"], alike, TENSORS,
            prepare=PLANS),
        Row("tensors", ["diff", "--semantics", "eformer,flax", *ON], alike,
            TENSORS),
        Row("tensors", ["diff", "m.json", "--before", "r.yaml", "--after",
                        "q.yaml", *MESH],
            lambda n: {**alike(n), "q.yaml": rules(
                MODEL_RULES[1:] + [(".*", "[tp]")])}, TENSORS),
        Row("tensors in safetensors",
            ["resolve", "m.safetensors", "--rules", "r.yaml", *MESH],
            with_rules(lambda n: {
                "m.safetensors": instructions.safetensors(names(n))}),
            # The format's headers end at 100 MB.
            [K, 10 * K, 100 * K, 500 * K]),
        Row("tensors in 100 a shard",
            ["resolve", "model.safetensors.index.json", "--rules", "r.yaml",
             *MESH], with_rules(instructions.shards), FEWER, K),
        Row("tensors in GGUF", ["resolve", "m.gguf", "--rules", "r.yaml",
                                *MESH],
            with_rules(lambda n: {"m.gguf": instructions.gguf(n)}), TENSORS),
        Row("tensors in YAML", ["resolve", "m.yaml", "--rules", "r.yaml",
                                *MESH],
            with_rules(lambda n: {"m.yaml": instructions.yaml(n)}), FEWER,
            300),
        Row("tensors, no two of a shape", ["resolve", *ON, "--json"],
            of_many_shapes, FEWER),
        Row("tensors, no two of a shape", ["analyze", *ON, *ADAM],
            of_many_shapes, FEWER, 500),
        Row("tensors, no two of a shape", ["sweep", *CHUNKS],
            of_many_shapes, FEWER, 300),
        Row("tensors, no two of a name", ["analyze", *ON, *ADAM],
            of_many_names, FEWER),
        Row("tensors, no two of a name",
            ["diff", "a.plan.json", "b.plan.json"], of_many_names, FEWER, K,
            PLANS),
        Row("rules, each of a tensor", ["resolve", *ON], rule_each, RULES,
            150),
        Row("rules that are not used", ["check", *ON], unused_rules, RULES),
        # A finding and an edit for each.
        Row("rules that are not used", ["check", *ON, "--fix", "--diff"],
            unused_rules, RULES),
        Row("rules that change", ["diff", "r.yaml", "q.yaml"], changed_rules,
            RULES),
        Row("findings, each of a rule", ["check", *ON], finding_each, RULES),
        Row("findings, each of a rule", ["check", *ON, "--format", "sarif"],
            finding_each, RULES),
        Row("findings, each of a rule", ["check", *ON, "--fix", "--diff"],
            finding_each, RULES),
        Row("findings, each of a tensor", ["check", *ON, "--fix", "--diff"],
            unmatched_each, RULES, 100),
        Row("layers", ["analyze", *LLAMA, *MESH, *ADAM],
            of_layers("llama-3.1-70b"), LAYERS),
        Row("layers", ["analyze", *LLAMA, *MESH, *STEP],
            of_layers("llama-3.1-70b"), LAYERS, 300),
        Row("layers", ["analyze", *LLAMA, "--mesh", "pp=4,fsdp=4,tp=4",
                       "--stages", "pp", *ADAM],
            of_layers("llama-3.1-70b"), LAYERS),
        Row("layers", ["sweep", *LLAMA, "--devices", "8", "--over", "fsdp,tp",
                       "--mode", "decode", "--batch", "8", "--seq", "8192",
                       "--hardware", "h100-sxm"],
            of_layers("llama-3.1-70b"), LAYERS),
        Row("layers", ["simulate", *LLAMA, "--mesh", "fsdp=2,tp=2", "--layers",
                       "{n}", "--shrink", "--values", "field"],
            of_layers("llama-3.1-70b"), [8, 16, 32]),
        Row("targets", ["check", "--config", "new/shardplan.yaml"],
            instructions.gate_sides, TARGETS),
        Row("targets", ["gate", "old", "new"], instructions.gate_sides,
            TARGETS),
        Row("meshes", ["sweep", *LLAMA, "--devices", "{n}", "--over",
                       "fsdp,tp,ep,pp"], of_any_size, [2**7, 2**10, 2**14]),
        Row("devices", ["check", *LLAMA, "--mesh", "fsdp={n}"], of_any_size,
            TENSORS, devices=True),
        Row("devices", ["analyze", *LLAMA, "--mesh", "fsdp={n}",
                        "--on-indivisible", "chunk", *ADAM, "--zero", "3",
                        "--zero-axes", "fsdp"], of_any_size, TENSORS,
            devices=True),
        Row("devices", ["analyze", "m.json", "--rules", "r.yaml", "--mesh",
                        "fsdp={n},tp=1", "--on-indivisible", "chunk", *ADAM,
                        "--zero", "3", "--zero-axes", "fsdp"], few, TENSORS,
            10 * K, devices=True),
    ]


def threaded_rows():
    """Those of the rows that threads share, and what does not group its names;
    the largest size of each."""
    wanted = {"targets": TARGETS, "meshes": [2**14], "layers": [8],
              "tensors": [100 * K], "rules, each of a tensor": [8 * K],
              "tensors, no two of a shape": [100 * K]}
    commands = {"gate", "check", "sweep", "simulate", "diff", "resolve",
                "analyze"}
    result = []
    for row in rows():
        if row.what not in wanted or row.command[0] not in commands:
            continue
        # With --hardware it does not fit, so other meshes are tried.
        flags = {"--before", "--json", "--hardware"} & set(row.command)
        if row.what == "tensors" and not flags:
            continue
        if row.command[0] == "analyze" and "--hardware" not in row.command:
            continue
        if row.what == "layers" and row.command[0] != "simulate":
            continue
        row.sizes = wanted[row.what]
        result.append(row)
    return result


# Running.

def lay_out(row, size, program, folder):
    for name, content in row.files(size).items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        if isinstance(content, str):
            content = content.encode()
        path.write_bytes(content)
    for command in row.prepare:
        instructions.run([program, *command, "--isolated"], folder)


def seconds(program, row, size, rounds=3):
    """CPU time, the least of some runs."""
    least = math.inf
    with tempfile.TemporaryDirectory(prefix="shardplan-growth-") as folder:
        lay_out(row, size, program, folder)
        for _ in range(rounds):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            instructions.run([program, *row.line(size)], folder)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken = (after.ru_utime - before.ru_utime
                     + after.ru_stime - before.ru_stime)
            least = min(least, taken)
            if taken > 2:
                break
    return least


def time_text(value):
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"


def of_first_thread(program, row, size, threads):
    """Its CPU time, which the system has while the program is not waited for."""
    with tempfile.TemporaryDirectory(prefix="shardplan-growth-") as folder:
        lay_out(row, size, program, folder)
        process = subprocess.Popen(
            [program, *row.line(size, threads)], cwd=folder,
            env=instructions.ENVIRONMENT, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/schedstat")
        nanoseconds = int(path.read_text().split()[0])
        if process.wait() not in (0, 1):
            raise instructions.CannotCount(f"exit {process.returncode} of "
                                           f"{row.title()}")
    return nanoseconds * 1e-9


def print_threads(program, rounds=3):
    print("| what | command | one thread | two | saves |")
    print("|---|---|---:|---:|---:|")
    for row in threaded_rows():
        size = row.sizes[-1]
        runs = {1: [], 2: []}
        for _ in range(rounds):
            for threads, taken in runs.items():
                taken.append(of_first_thread(program, row, size, threads))
        taken = {threads: sorted(all_of)[rounds // 2]
                 for threads, all_of in runs.items()}
        print(f"| {count_text(size)} {row.what} | `{row.title()}` | "
              f"{time_text(taken[1])} | {time_text(taken[2])} | "
              f"{taken[1] / taken[2]:.2f}x |", flush=True)


def count_text(count):
    return f"{count:,}"


def print_table(program, chosen):
    print("| what there is more of | command | CPU time | per doubling |")
    print("|---|---|---|---:|")
    for row in chosen:
        taken = [seconds(program, row, size) for size in row.sizes]
        doublings = math.log2(row.sizes[-1] / row.sizes[-2])
        factor = (taken[-1] / taken[-2]) ** (1 / doublings)
        times = ", ".join(f"{count_text(size)}: {time_text(value)}"
                          for size, value in zip(row.sizes, taken))
        print(f"| {row.what} | `{row.title()}` | {times} | {factor:.2f}x |",
              flush=True)


def count(program, row, size):
    with tempfile.TemporaryDirectory(prefix="shardplan-growth-") as folder:
        lay_out(row, size, program, folder)
        return instructions.counted(program, row.line(size), folder)


def guard(program, chosen, jobs):
    """Lines, and the rows that grow too fast."""
    chosen = [row for row in chosen if row.guarded]
    runs = [(row, size) for row in chosen for size in (
        row.guarded, M if row.devices else 4 * row.guarded)]
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        counts = list(pool.map(lambda run: count(program, *run), runs))
    lines, above = [], []
    for row in chosen:
        few, many = (n for run, n in zip(runs, counts) if run[0] is row)
        if row.devices:
            text = f"{many / few:.3f}x for a million"
            fails = many > few * (1 + MOST_FOR_DEVICES)
        else:
            text = f"{many / few:.2f}x for four times as many"
            fails = many > few * MOST
        lines.append(f"  {row.what:<28} {row.title():<60} {text}"
                     + ("   grows too fast" if fails else ""))
        if fails:
            above.append(row)
    return lines, above


def main(arguments):
    parser = argparse.ArgumentParser(
        description="How work grows with what there is.")
    parser.add_argument("program")
    parser.add_argument("--guard", action="store_true")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--only", default="", help="rows that contain this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    asked = parser.parse_args(arguments)
    program = str(pathlib.Path(asked.program).resolve())
    chosen = [row for row in rows()
              if asked.only in f"{row.what} {row.title()}"]
    try:
        if asked.threads:
            print_threads(program)
            return 0
        if not asked.guard:
            print_table(program, chosen)
            return 0
        lines, above = guard(program, chosen, asked.jobs)
    except instructions.CannotCount as problem:
        print(problem)
        return 2
    print("\n".join(lines))
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
