# SPDX-License-Identifier: Apache-2.0
"""Recomputes what `resolve` says about Llama 3.1 70B, with nothing of ours.

    python3 tests/recompute.py build/release/shardplan

Names, shapes and units come from the config by the formulas of the model; the
rules' patterns are searched with Python's own `re`; bytes, ratios, split heads
and the fingerprint are computed again. Only the rules' texts are taken from
the program's report. Exits 1 and says what differs.
"""
import hashlib
import json
import math
import pathlib
import re
import subprocess
import sys

CONFIG = pathlib.Path(__file__).parent / "data/configs/llama-3.1-70b.json"


def parameters(config):
    """(name, shape) of every tensor of the checkpoint."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    q, kv = heads * head_dim, config["num_key_value_heads"] * head_dim
    inner, vocab = config["intermediate_size"], config["vocab_size"]
    layer = {
        "self_attn.q_proj": [q, hidden],
        "self_attn.k_proj": [kv, hidden],
        "self_attn.v_proj": [kv, hidden],
        "self_attn.o_proj": [hidden, q],
        "mlp.gate_proj": [inner, hidden],
        "mlp.up_proj": [inner, hidden],
        "mlp.down_proj": [hidden, inner],
        "input_layernorm": [hidden],
        "post_attention_layernorm": [hidden],
    }
    shapes = {"model.embed_tokens.weight": [vocab, hidden]}
    for i in range(config["num_hidden_layers"]):
        for name, shape in layer.items():
            shapes[f"model.layers.{i}.{name}.weight"] = shape
    shapes["model.norm.weight"] = [hidden]
    shapes["lm_head.weight"] = [vocab, hidden]
    return shapes, head_dim


def names(entry):
    """Axis names of one entry of a spec."""
    return [] if entry is None else [entry] if isinstance(entry, str) else entry


def shard(entry, mesh):
    return math.prod(mesh.get(axis, 1) for axis in names(entry))


def resolve(shape, requested, mesh):
    """The spec that is left: unknown and size-1 axes out, dims divisible."""
    spec = []
    for size, entry in zip(shape, requested):
        kept = [axis for axis in names(entry) if axis in mesh]
        if size % shard(kept, mesh):
            kept = []
        spec.append(None if not kept else kept[0] if len(kept) == 1 else kept)
    if not any(spec):
        return []
    return spec + [None] * (len(shape) - len(spec))


def expected_report(shapes, head_dim, rules, mesh):
    devices = math.prod(mesh.values())
    placements, split = [], set()
    for name, shape in shapes.items():
        rule = next(r for r in rules if re.search(r["pattern"], name))
        spec = resolve(shape, rule["spec"], mesh)
        local = [d // shard(s, mesh) for d, s in zip(shape, spec)] or shape
        shards = math.prod(shard(s, mesh) for s in spec)
        placements.append({
            "parameter": name, "dtype": "bf16", "shape": shape,
            "rule": rule["rule"], "pattern": rule["pattern"], "spec": spec,
            "local_shape": local, "bytes_per_device": 2 * math.prod(local),
            "shards": shards, "replicas": devices // shards})
        heads = {"q_proj": 0, "k_proj": 0, "v_proj": 0, "o_proj": 1}
        for word, dim in heads.items():
            if word in name and spec and local[dim] % head_dim:
                split.add(name)
    total = sum(2 * math.prod(shape) for shape in shapes.values())
    device = sum(p["bytes_per_device"] for p in placements)
    sharded = [p for p in placements if p["shards"] > 1]
    replicated = sum(2 * math.prod(p["shape"])
                     for p in placements if p["shards"] == 1)
    text = json.dumps(
        {"mesh": [list(axis) for axis in mesh.items()],
         "parameters": [[p["parameter"], "bf16", p["shape"], p["spec"]]
                        for p in placements]}, separators=(",", ":"))
    summary = {
        "tensors": len(shapes), "sharded_tensors": len(sharded),
        "total_parameters": total // 2,
        "sharded_parameters": sum(math.prod(p["shape"]) for p in sharded),
        "total_bytes": total, "devices": devices, "mesh": mesh,
        "memory_per_device": {"max": device, "min": device, "mean": device},
        "balance_score": 1.0, "efficiency": total / (devices * device),
        "replication_factor": device * devices / total, "padding_bytes": 0,
        "replicated_fraction": replicated / total, "corrections": 0,
        "errors": len(split),
        "fingerprint": hashlib.sha256(text.encode()).hexdigest()}
    return placements, summary, split


def differences(expected, got, where):
    """Lines saying where `got` lacks or contradicts what is expected."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            yield from differences(value, got.get(key), f"{where}.{key}")
    elif isinstance(expected, float):
        if not math.isclose(expected, got, rel_tol=1e-12):
            yield f"{where}: expected {expected}, got {got}"
    elif expected != got:
        yield f"{where}: expected {expected}, got {got}"


def check(program, mesh):
    spelled = ",".join(f"{axis}={size}" for axis, size in mesh.items())
    command = [program, "resolve", str(CONFIG), "--rules", "@llama",
               "--mesh", spelled, "--json"]
    run = subprocess.run(command, capture_output=True, text=True)
    report = json.loads(run.stdout)
    got = report["tables"]["placements"]
    shapes, head_dim = parameters(json.loads(CONFIG.read_text()))
    order = [placement["parameter"] for placement in got]
    if sorted(order) != sorted(shapes):
        print("different parameters:", set(order) ^ set(shapes))
        return False
    # In the program's order, which the fingerprint depends on.
    shapes = {name: shapes[name] for name in order}
    placements, summary, split = expected_report(
        shapes, head_dim, report["tables"]["rules"], mesh)
    errors = list(differences(summary, report["summary"], "summary"))
    for want, have in zip(placements, got):
        errors += differences(want, have, want["parameter"])
    reported = {name for d in report["diagnostics"] if d["code"] == "SP206"
                for name in d["parameters"]}
    errors += differences(sorted(split), sorted(reported), "SP206")
    errors += differences(1 if split else 0, run.returncode, "exit code")
    print(f"{spelled}: {len(got)} parameters, {len(split)} split, "
          f"{len(errors)} differences")
    for error in errors[:20]:
        print("  " + error)
    return not errors


if __name__ == "__main__":
    results = [check(sys.argv[1], {"fsdp": 16, "tp": tp}) for tp in (8, 16)]
    sys.exit(0 if all(results) else 1)
