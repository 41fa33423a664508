#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records whether transformers runs the plans that `shardplan export --to hf-tp-plan` writes.

    pip install torch transformers
    python tests/data/record_hf_exports.py build/release/shardplan tests/data/hf_exports.jsonl

The models are those of record_hf_tp_runs.py, run as there. A line has the model's `name` and
`config`, the `rules` that were exported, the `text` that was written, and `forward` and
`backward` as in hf_tp_runs.jsonl.
"""
import json
import os
import subprocess
import sys
import tempfile

import record_hf_tp_runs as runs

ATTENTION = [["q_proj|k_proj|v_proj", "weight", ["tp", None]], ["q_proj|k_proj|v_proj", "bias", ["tp"]], ["o_proj", "weight", [None, "tp"]]]
MLP = [["gate_proj|up_proj", "weight", ["tp", None]], ["gate_proj|up_proj", "bias", ["tp"]], ["down_proj", "weight", [None, "tp"]]]
ENDS = [["embed_tokens", "weight", ["tp", None]], ["lm_head", "weight", ["tp", None]]]
# Experts that are stored one by one, cut each or dealt out.
PARTS = [["experts\\.\\d+\\.(?:gate_proj|up_proj|w1|w3)", "weight", ["tp", None]], ["experts\\.\\d+\\.(?:down_proj|w2)", "weight", [None, "tp"]]]
DEALT = [["experts\\.\\d+\\..*", "weight", [], {"deal": "tp"}]]
STACKS = [["experts\\.(?:gate_up|down)_proj(?:_bias)?", "", ["tp"]]]
CASES = {
    "llama": ATTENTION + MLP + ENDS,
    "llama biased": ATTENTION + MLP + ENDS,
    "llama tied": ATTENTION + MLP,
    "qwen2": ENDS + MLP,
    "qwen3": ATTENTION + MLP + ENDS,
    "gemma2": ATTENTION + MLP,
    "qwen3_moe": PARTS + ATTENTION + MLP + ENDS,
    "mixtral": PARTS + ATTENTION + ENDS,
    "olmoe": PARTS + ENDS,
    "qwen3_moe experts": DEALT + ATTENTION + MLP + ENDS,
    "mixtral experts": DEALT + ATTENTION + ENDS,
    "gpt_oss experts": STACKS + ENDS,
    "deepseek_v2": PARTS + MLP,
}


def rules_of(title):
    rules = []
    for module, leaf, spec, *more in CASES[title]:
        pattern = "^lm_head\\.weight$" if module == "lm_head" else f"\\.(?:{module})" + (f"\\.{leaf}$" if leaf else "$")
        rules.append({"pattern": pattern, "spec": spec, **(more[0] if more else {})})
    return json.dumps({"rules": rules + [[".*", []]]}, indent=1)


def exported(binary, config, rules):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("config.json", json.dumps(config)), ("rules.yaml", rules)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        return subprocess.run([binary, "export", "config.json", "--rules", "rules.yaml", "--mesh", "tp=2", "--to", "hf-tp-plan"],
                              cwd=folder, capture_output=True, text=True)


def run(title, plan_file):
    """On one of the processes: compares the model under the plan with the model on one process."""
    with open(plan_file, encoding="utf-8") as file:
        written = json.load(file)["tp_plan"]
    runs.dist.init_process_group("gloo")
    with runs.whole_model(title) as (folder, ids, wanted, own, of_experts, _):
        experts = {key: style for key, style in written.items() if style in ("grouped_gemm", "ep_dispatch_experts")}
        # What the model's own plan has besides places nothing.
        others = {**{key: "replicate" for key in own}, **{key: style for key, style in written.items() if key not in experts}}
        size = runs.dist.get_world_size()
        how = {"ep_size": size, "ep_plan": {**{key: "replicate" for key in of_experts}, **experts}} if experts else {}
        runs.asked = lambda *unused: runs.DistributedConfig(tp_size=size, tp_plan=others, **how)
        result = runs.record(title, folder, ids, wanted, own, None)
        if runs.dist.get_rank() == 0:
            print("END " + json.dumps(result), flush=True)
    runs.dist.destroy_process_group()


def config_of(title):
    config = runs.transformers.AutoConfig.for_model(title.split()[0], **runs.MODELS[title])
    name = runs.transformers.AutoModelForCausalLM._model_mapping[type(config)].__name__
    return {**json.loads(config.to_json_string()), "architectures": [name]}


def main():
    if "RANK" in os.environ:
        return run(sys.argv[1], sys.argv[2])
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        for title in CASES:
            config = config_of(title)
            rules = rules_of(title)
            written = exported(os.path.abspath(sys.argv[1]), config, rules)
            if not written.stdout:
                print(title, written.stderr)
                continue
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                file.write(written.stdout)
                file.flush()
                process = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", __file__, title, file.name],
                                         capture_output=True, text=True)
            found = [text[4:] for text in process.stdout.splitlines() if text.startswith("END ")]
            forward, backward = json.loads(found[0]) if found else (["error", process.stderr[-300:]], None)
            out.write(json.dumps({"name": title, "config": config, "rules": rules, "text": written.stdout, "forward": forward, "backward": backward}) + "\n")
            print(title, forward, backward, written.stderr[:300])


if __name__ == "__main__":
    main()
