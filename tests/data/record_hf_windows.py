# SPDX-License-Identifier: Apache-2.0
"""Records how far back each layer sees, as the judge of layer_windows().

Reads the samples of tests/data/configs and the cases below with the
configuration classes of transformers, applies the rule by which its caches
tell sliding layers, and writes tests/data/hf_windows.json. 0 is a layer that
sees all tokens. Needs no torch and no downloads.

    pip install transformers==4.57.3
    python tests/data/record_hf_windows.py
"""

import json
import pathlib

from transformers import AutoConfig

DATA = pathlib.Path(__file__).parent
SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=48,
             num_hidden_layers=8, num_attention_heads=4,
             num_key_value_heads=2)
TYPES = ["full_attention", "sliding_attention"] * 4
CASES = {
    "mistral without a word": dict(SMALL, model_type="mistral"),
    "mistral with null": dict(SMALL, model_type="mistral",
                              sliding_window=None),
    "mistral with a window": dict(SMALL, model_type="mistral",
                                  sliding_window=7),
    "mixtral without a word": dict(SMALL, model_type="mixtral"),
    "mixtral with a window": dict(SMALL, model_type="mixtral",
                                  sliding_window=7),
    "llama takes no notice": dict(SMALL, model_type="llama"),
}
for family in ("qwen2", "qwen3"):
    CASES |= {
        f"{family} without a word": dict(SMALL, model_type=family),
        f"{family} switched off": dict(
            SMALL, model_type=family, use_sliding_window=False,
            sliding_window=7, max_window_layers=2),
        f"{family} switched on": dict(
            SMALL, model_type=family, use_sliding_window=True,
            sliding_window=7, max_window_layers=5),
        f"{family} from layer 28 on": dict(
            SMALL, model_type=family, use_sliding_window=True,
            num_hidden_layers=31),
        f"{family} with null": dict(
            SMALL, model_type=family, use_sliding_window=True,
            sliding_window=None, max_window_layers=2),
        f"{family} with layer types": dict(
            SMALL, model_type=family, use_sliding_window=True,
            sliding_window=7, max_window_layers=5, layer_types=TYPES),
    }
CASES |= {
    "qwen3_moe without a word": dict(SMALL, model_type="qwen3_moe"),
    "qwen3_moe switched on": dict(SMALL, model_type="qwen3_moe",
                                  use_sliding_window=True, sliding_window=7),
    "qwen3_moe with the default": dict(SMALL, model_type="qwen3_moe",
                                       use_sliding_window=True),
}
for family in ("gemma2", "gemma3_text", "gpt_oss"):
    CASES |= {
        f"{family} without a word": dict(SMALL, model_type=family),
        f"{family} with a window": dict(SMALL, model_type=family,
                                        sliding_window=7),
        f"{family} with layer types": dict(
            SMALL, model_type=family, sliding_window=7, layer_types=TYPES),
    }
CASES |= {
    "gemma3_text with a pattern": dict(SMALL, model_type="gemma3_text",
                                       sliding_window_pattern=3),
    "gpt_oss with null types": dict(SMALL, model_type="gpt_oss",
                                    layer_types=None),
}


def windows_of(config):
    """The rule of transformers.cache_utils.DynamicCache."""
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None)
    if types is None:
        kind = "sliding_attention" if window else "full_attention"
        types = [kind] * config.num_hidden_layers
    return [window if kind == "sliding_attention" else 0 for kind in types]


def record(config):
    config = dict(config)
    read = AutoConfig.for_model(config.pop("model_type"), **config)
    return windows_of(read.get_text_config(decoder=True))


def main():
    rows = [{"config": path.stem, "windows": record(json.loads(
        path.read_text()))} for path in sorted(DATA.glob("configs/*.json"))]
    rows += [{"case": name, "config": config, "windows": record(config)}
             for name, config in CASES.items()]
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    (DATA / "hf_windows.json").write_text(f"[\n{text}\n]\n")


main()
