#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records cosines and sines of rotary positions, as transformers 5.23.0 computes them.

    python3 record_rope.py > rope.jsonl

A line has
  config    of the model
  kind      of the layer's attention, "" where all are alike
  part      whether the class rotates parts of heads
  head_dim  how large a head is
  length    how many tokens are run
  positions which of them are recorded
  cos, sin  of each position, the first half of what is rotated

Nothing is downloaded.
"""
import json

import torch
from transformers import AutoConfig, AutoModel

LLAMA = dict(model_type="llama", hidden_size=32, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=1,
             intermediate_size=8, vocab_size=16, max_position_embeddings=64, rope_theta=10000.0)
PHI3 = dict(LLAMA, model_type="phi3", pad_token_id=0)
GLM = dict(LLAMA, model_type="glm", head_dim=16, pad_token_id=0)
GEMMA3 = dict(LLAMA, model_type="gemma3_text", head_dim=16, num_hidden_layers=2,
              layer_types=["sliding_attention", "full_attention"])
SHORT = [1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0]
LONG = [1.0, 1.5, 2.5, 4.5, 8.0, 16.0, 24.0, 31.5]


def yarn(**more):
    return dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, **more)


def longrope(**more):
    return dict(rope_type="longrope", short_factor=SHORT, long_factor=LONG, **more)


def cases():
    for scaling in [None, dict(rope_type="linear", factor=2.5),
                    dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                         original_max_position_embeddings=32)]:
        yield dict(LLAMA, rope_scaling=scaling), 16
        yield dict(GLM, rope_scaling=scaling, partial_rotary_factor=0.75), 16
    # By the length that is run: within the config's positions and beyond.
    for factor in [1.0, 2.0, 3.5]:
        for length in [16, 64, 65, 100]:
            yield dict(LLAMA, rope_scaling=dict(rope_type="dynamic", factor=factor)), length
    yield dict(GLM, rope_scaling=dict(rope_type="dynamic", factor=2.0), partial_rotary_factor=0.5), 100
    for more in [{}, dict(beta_fast=8.0, beta_slow=2.0), dict(beta_fast=16, beta_slow=0), dict(truncate=False),
                 dict(truncate=False, beta_fast=3.0, beta_slow=0.1), dict(mscale=1.0, mscale_all_dim=0.5),
                 dict(mscale=0.7), dict(mscale=1.0, mscale_all_dim=0), dict(attention_factor=0.5)]:
        yield dict(LLAMA, rope_scaling=yarn(**more)), 20
    yield dict(LLAMA, rope_scaling=dict(rope_type="yarn", factor=4.0)), 20
    yield dict(LLAMA, rope_scaling=dict(rope_type="yarn", factor=0.5)), 20
    yield dict(LLAMA, rope_scaling=dict(rope_type="yarn", factor=None, original_max_position_embeddings=16)), 20
    yield dict(LLAMA, rope_scaling=yarn(rope_theta=500.0)), 20
    yield dict(GLM, rope_scaling=yarn(), partial_rotary_factor=0.5, original_max_position_embeddings=16), 20
    for length in [16, 17, 40]:
        yield dict(PHI3, rope_scaling=longrope(), original_max_position_embeddings=16), length
        yield dict(LLAMA, rope_scaling=longrope(factor=4.0, original_max_position_embeddings=16)), length
    yield dict(PHI3, rope_scaling=longrope(attention_factor=1.3), original_max_position_embeddings=16), 20
    yield dict(PHI3, rope_scaling=longrope(factor=8.0), original_max_position_embeddings=16), 20
    yield dict(PHI3, rope_scaling=longrope(), original_max_position_embeddings=64), 20
    yield dict(PHI3, partial_rotary_factor=0.5, original_max_position_embeddings=16,
               rope_scaling=dict(rope_type="longrope", short_factor=SHORT[:4], long_factor=LONG[:4])), 40
    # Five numbers of a head: three pairs.
    yield dict(GLM, head_dim=10, partial_rotary_factor=0.5), 20
    yield dict(GLM, rope_parameters=dict(rope_type="default", rope_theta=300.0, partial_rotary_factor=0.25)), 20
    kinds = dict(sliding_attention=dict(rope_type="default", rope_theta=300.0),
                 full_attention=dict(yarn(), rope_theta=5000.0))
    yield dict(GEMMA3, rope_parameters=kinds), 20


def main():
    torch.manual_seed(0)
    for config, length in cases():
        read = AutoConfig.for_model(**json.loads(json.dumps(config)))
        rotary = AutoModel.from_config(read).rotary_emb
        positions = sorted({0, 1, length // 2, length - 1})
        kinds = config.get("layer_types", [""])
        for kind in kinds:
            more = [kind] if kind else []
            cos, sin = rotary(torch.zeros(1, 1), torch.arange(length)[None], *more)
            half = cos.shape[-1] // 2
            print(json.dumps(dict(
                config=config, kind=kind, part=config["model_type"] in ("phi3", "glm"),
                head_dim=config.get("head_dim", 16),
                length=length, positions=positions,
                cos=[[round(x, 7) for x in cos[0, p, :half].tolist()] for p in positions],
                sin=[[round(x, 7) for x in sin[0, p, :half].tolist()] for p in positions])))


if __name__ == "__main__":
    main()
