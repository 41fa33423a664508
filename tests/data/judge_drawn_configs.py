# SPDX-License-Identifier: Apache-2.0
"""Judges how configs drawn from the configuration classes are read.

    python tests/data/judge_drawn_configs.py SHARDPLAN COUNT SEED [TYPE,TYPE,..] \\
        [--record OUT.jsonl] [--defaults] [--refusals]

For every model type that both SHARDPLAN and the installed transformers know it draws
COUNT configs of which transformers makes a model: sizes that fit each other and then
some keys at random, or a recorded config with some keys changed; one of all classes of
the type's module; written as people have them (in full, without what the class has
anyway, without `model_type`, with the keys of transformers 4). --defaults takes what
the class has, once for every class and once more written in full. The model is built
on the meta device, and what save_pretrained would write is compared with `shardplan
inspect`: names, shapes, counts. Prints a line per type, and each that is wrong;
exits with 1 if there is one. --refusals prints why configs were refused.

--record appends what is wrong, for `merge_architectures.py --add`, as
judge_mutated_configs.py does, which changes recorded configs a key at a time and
writes real files.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import record_heads  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()
SECONDS = 25  # for one model

# Keys that sizes stand under, and what fits together.
HIDDEN = "hidden_size d_model n_embd dim"
LAYERS = ("num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers "
          "num_decoder_layers num_blocks depth")
HEADS = ("num_attention_heads n_head n_heads num_heads encoder_attention_heads "
         "decoder_attention_heads attention_heads")
KV_HEADS = "num_key_value_heads num_kv_heads"
MLP = ("intermediate_size ffn_dim d_ff hidden_dim encoder_ffn_dim decoder_ffn_dim dff "
       "moe_intermediate_size shared_expert_intermediate_size intermediate_size_mlp "
       "moe_shared_expert_intermediate_size shared_intermediate_size ffn_hidden_size "
       "expert_ffn_hidden_size")
EXPERTS = "num_experts num_local_experts n_routed_experts moe_num_experts"
CHOSEN = "num_experts_per_tok moe_topk moe_k moe_top_k num_experts_per_token"
POSITIONS = "max_position_embeddings n_positions"
# Says what the model is, or nothing of tensors.
KEPT = re.compile(r"token|version|model_type|architectures|dtype|dropout|^num_labels|"
                  r"eps$|seed|label|problem_type|_name|return_dict|^output_|chunk_size_feed")


class TooSlow(Exception):
    pass


def alarm(*_):
    raise TooSlow


def sized(config, draw):
    """Sizes that fit each other, under the names that the config has."""
    heads = draw.choice((1, 2, 3, 4, 6, 8))
    head_dim = draw.choice((4, 6, 8, 10, 16))
    hidden = heads * head_dim * draw.choice((1, 1, 1, 1, 2))
    kv = draw.choice([n for n in range(1, heads + 1) if heads % n == 0])
    experts = draw.choice((2, 3, 4, 6))
    layers = draw.randint(1, 6)
    values = {}

    def put(names, value):
        for name in names.split():
            if name in config and (config[name] is None or type(config[name]) is int):
                values[name] = value() if callable(value) else value

    put(HIDDEN, hidden)
    put(LAYERS, layers)
    put(HEADS, heads)
    put(KV_HEADS, kv)
    put(MLP, lambda: draw.choice((12, 20, 24, 40, 52)))
    put(EXPERTS, experts)
    put(CHOSEN, draw.randint(1, experts))
    put(POSITIONS, draw.randint(16, 80))
    if isinstance(config.get("vocab_size"), int):
        values["vocab_size"] = draw.randint(60, 300)
    if "head_dim" in config:
        values["head_dim"] = draw.choice((head_dim, hidden // heads, 4, 12, None))
    for name in ("layer_types", "mlp_layer_types", "indexer_types"):
        if isinstance(config.get(name), list):
            values[name] = (config[name] * layers)[:layers] if draw.random() < 0.5 else None
    return {**config, **values}


def changed(part, draw):
    """Changes one key of `part`; what became of it."""
    keys = [key for key, value in part.items() if not KEPT.search(key) and
            (value is None or isinstance(value, (bool, int, str)) or
             isinstance(value, list) and 0 < len(value) < 100
             and not isinstance(value[0], (dict, list)))]
    if not keys:
        return ""
    key = draw.choice(keys)
    value = part[key]
    if draw.random() < 0.15:
        del part[key]
        return f"no {key}"
    if isinstance(value, bool):
        part[key] = not value
    elif isinstance(value, str):
        if "act" not in key:
            return ""
        part[key] = draw.choice(("relu", "gelu", "silu", "gelu_new", "xielu"))
    elif isinstance(value, list):
        words = sorted({str(each): each for each in value}.items())
        part[key] = draw.choice((value[:-1], value + value[-1:], value[::-1], None,
                                 [draw.choice(words)[1] for _ in value]))
    elif value is None:
        part[key] = draw.choice((0, 1, 2, 3, 4, 6, 8, 16, True, False))
    else:
        part[key] = draw.choice((value + 1, value * 2, max(0, value - 1), None, 0, 1,
                                 value + 2, max(1, value // 2), value * 3))
    return f"{key}={part[key]}"


def sections_of(config):
    return [key for key, value in config.items()
            if key.endswith("_config") and isinstance(value, dict) and value]


def drawn(kind, recorded, draw):
    """A config, as keys; what was done to it."""
    if recorded and draw.random() < 0.35:
        config, changes = json.loads(json.dumps(draw.choice(recorded))), ["recorded"]
        for key in "architectures", "transformers_version":
            config.pop(key, None)
    else:
        config = json.loads(transformers.CONFIG_MAPPING[kind]().to_json_string(False))
        changes = ["drawn"]
        state = draw.getrandbits(32)  # sections agree on widths with each other, perhaps
        config = sized(config, random.Random(state))
        for key in sections_of(config):
            config[key] = sized(config[key], draw if draw.random() < 0.5 else random.Random(state))
    for _ in range(draw.choice((0, 0, 1, 1, 2, 3, 5))):
        part = config
        sections = sections_of(config)
        if sections and draw.random() < 0.6:
            part = config[draw.choice(sections)]
        changes.append(changed(part, draw))
    return config, changes


def positions_of_four(config):
    """Positions as configs of transformers 4 state them."""
    rope = config.get("rope_parameters")
    if not isinstance(rope, dict) or any(isinstance(each, dict) for each in rope.values()):
        return
    rope = dict(config.pop("rope_parameters"))
    for key in "rope_theta", "partial_rotary_factor":
        if key in rope:
            config[key] = rope.pop(key)
    config["rope_scaling"] = rope if rope.get("rope_type", "default") != "default" else None


def written(kind, config, name, draw, changes):
    """As people have it."""
    config = {**config, "model_type": kind, "architectures": [name]}
    defaults = json.loads(transformers.CONFIG_MAPPING[kind]().to_json_string(False))
    if draw.random() < 0.4:
        changes.append("lean")
        config = {key: value for key, value in config.items()
                  if key in ("model_type", "architectures") or key not in defaults
                  or defaults[key] != value}
    elif draw.random() < 0.3:
        for key in draw.sample(sorted(config), min(len(config), draw.randint(1, 12))):
            if key in defaults and defaults[key] == config[key] and key != "model_type":
                changes.append(f"no {key}")
                del config[key]
    form = draw.random()
    if form < 0.25:
        changes.append("as 4")
        positions_of_four(config)
        for key in sections_of(config):
            positions_of_four(config[key])
        config["torch_dtype"] = config.pop("dtype", None) or "bfloat16"
    elif form < 0.4 and transformers.__version__[0] == "5":
        config["dtype"] = "float16"
    if draw.random() < 0.3:
        config["id2label"] = {str(n): f"L{n}" for n in range(draw.choice((1, 2, 3, 5)))}
        config["label2id"] = {text: int(n) for n, text in config["id2label"].items()}
    config["transformers_version"] = transformers.__version__
    if draw.random() < 0.08:
        changes.append("no model_type")
        del config["model_type"]
    return config


def folded(name):
    return re.sub(r"\d+", "*", name)


def model_class(kind, name):
    return record_heads.recorder.model_class(name, kind)


def saved(kind, config):
    """What transformers writes; raises where it makes no model."""
    handed = {}

    def take(tensors, *_, **__):
        handed.update({name: tuple(each.shape) for name, each in tensors.items()})

    modeling = transformers.modeling_utils
    save_file = modeling.safe_save_file
    signal.alarm(SECONDS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "config.json").write_text(json.dumps(config))
            loaded = transformers.CONFIG_MAPPING[kind].from_pretrained(folder)
            with torch.device("meta"):
                model = model_class(kind, config["architectures"][0])(loaded)
            modeling.safe_save_file = take
            model.save_pretrained(folder / "saved", max_shard_size="100000GB")
    finally:
        signal.alarm(0)
        modeling.safe_save_file = save_file
    return collections.Counter((folded(name), shape) for name, shape in handed.items())


def ours(program, config):
    """What SHARDPLAN reads; None and why where it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        run = subprocess.run([program, "inspect", path, "--json", "--expand",
                              "--isolated"], capture_output=True, text=True)
    if run.returncode not in (0, 1, 2):
        return None, f"CRASHED {run.returncode}"
    report = json.loads(run.stdout)
    if run.returncode != 0:
        return None, "; ".join(f"{each.get('message')} {each.get('facts') or ''}"
                               for each in report.get("diagnostics", [])
                               if each.get("severity") == "error")
    counts = collections.Counter()
    for table, key in (("parameters", "parameter"), ("buffers", "buffer")):
        for row in report["tables"].get(table, []):
            counts[folded(row[key]), tuple(row["shape"])] += 1
    return counts, ""


def known_types(program):
    run = subprocess.run([program, "list", "architectures", "--json"],
                         capture_output=True, text=True, check=True)
    rows = json.loads(run.stdout)["tables"]["architecture_support"]
    return {kind for row in rows for kind in row["model_types"]}


def default_configs(kind):
    for name in record_heads.classes_of(kind):
        made = transformers.CONFIG_MAPPING[kind]()
        for full in (False, True):
            config = json.loads(made.to_json_string(not full))
            config.update(model_type=kind, architectures=[name],
                          transformers_version=transformers.__version__)
            yield config, ["default", "in full" if full else "lean"]


def drawn_configs(kind, recorded, draw):
    classes = record_heads.classes_of(kind)
    main = [name for name in classes if re.search("Causal|Generation|LMHead|MaskedLM", name)]
    for _ in range(100000):
        name = draw.choice(main if main and draw.random() < 0.5 else classes)
        config, changes = drawn(kind, recorded, draw)
        yield written(kind, config, name, draw, changes), changes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program")
    parser.add_argument("count", type=int)
    parser.add_argument("seed")
    parser.add_argument("types", nargs="?", type=lambda text: text.split(","))
    parser.add_argument("--record", type=pathlib.Path)
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--refusals", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGALRM, alarm)
    recorded = record_heads.configs()
    types = args.types or sorted(known_types(args.program) & set(transformers.CONFIG_MAPPING))
    total = collections.Counter()
    for kind in types:
        draw = random.Random(f"{args.seed} {kind}")
        verdicts, reasons, tried = collections.Counter(), collections.Counter(), 0
        configs = (default_configs(kind) if args.defaults else
                   drawn_configs(kind, recorded.get(kind), draw))
        for config, changes in configs:
            tried += 1
            if not args.defaults and (sum(verdicts.values()) - verdicts["unbuildable"] >= args.count
                                      or tried > 6 * args.count):
                break
            try:
                expected = saved(kind, config)
            except (Exception, TooSlow) as problem:  # it makes no model
                verdicts["unbuildable"] += 1
                reasons[f"unbuildable: {type(problem).__name__} {problem}"[:160]] += 1
                continue
            found, why = ours(args.program, config)
            if found is None:
                verdict = "refused"
                reasons[why] += 1
            else:
                verdict = "right" if found == expected else "wrong"
            if verdict == "wrong":
                print("wrong:", changes, json.dumps(config))
                print("  only ours:", list((found - expected).items())[:4])
                print("  only saved:", list((expected - found).items())[:4])
                if args.record:
                    row = {"model_type": kind, "case": "drawn: " + ", ".join(filter(None, changes)),
                           "config": config, "transformers": transformers.__version__,
                           "tensors": [[name, shape, n] for (name, shape), n
                                       in sorted(expected.items())]}
                    with args.record.open("a") as stream:
                        stream.write(json.dumps(row) + "\n")
            verdicts[verdict] += 1
        total += verdicts
        print(kind, dict(verdicts), flush=True)
        if args.refusals:
            for why, n in reasons.most_common():
                print(f"    {n} x {why}", flush=True)
    print(dict(total))
    return 1 if total["wrong"] else 0


sys.exit(main())
