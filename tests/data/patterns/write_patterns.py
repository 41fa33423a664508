#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes patterns in the shapes that partition rules have, made-up names, and
what Python's re.search answers, for tests/resolve/rule_shapes_test.cc.

    python3 tests/data/patterns/write_patterns.py > tests/data/patterns/rule_shapes.json

`found` holds one digit per name. Shapes are those found in the rules of public
JAX projects: literals, `.*` in front or between, groups, `\\d+`, classes,
escaped key strings, now and then an anchor.
"""
import json
import random
import re

STACKS = ["model/layers", "decoder/blocks", "encoder/stage", "tower/h",
          "double_units_\\d+", "net/(text|image)_tower/layers"]
BLOCKS = ["self_attn", "cross_attn", "mlp", "moe/experts", "mixer", "conv_in",
          "router", "shared_expert", "adapter"]
LAYERS = ["q_proj", "k_proj", "v_proj", "o_proj", "fc1", "fc2", "w1", "w2", "w3",
          "gate_proj", "up_proj", "down_proj", "wqkv", "dt_bias", "norm",
          "pre_norm", "post_norm", "dense_h_to_4h"]
LEAVES = ["kernel", "bias", "scale", "embedding", "weight"]
TOPS = ["embed_tokens", "lm_head", "wte", "final_norm", "patch_embed"]


def alternatives(r, of, most=3):
    return "(" + "|".join(r.sample(of, r.randint(1, most))) + ")"


SHAPES = [
    lambda r: r.choice(BLOCKS + LAYERS + TOPS + LEAVES),
    lambda r: "%s/%s" % (r.choice(TOPS), r.choice(LEAVES)),
    lambda r: "%s/%s/%s" % (r.choice(BLOCKS), r.choice(LAYERS), r.choice(LEAVES)),
    lambda r: "%s/%s/%s" % (r.choice(BLOCKS), alternatives(r, LAYERS, 4),
                            r.choice(LEAVES)),
    lambda r: "%s/%s/%s" % (r.choice(BLOCKS), r.choice(LAYERS),
                            alternatives(r, LEAVES, 2)),
    lambda r: ".*/%s/%s" % (r.choice(LAYERS), r.choice(LEAVES)),
    lambda r: ".*%s/%s.*" % (alternatives(r, LAYERS), r.choice(LEAVES)),
    lambda r: "%s/.*proj/%s" % (r.choice(BLOCKS), r.choice(LEAVES)),
    lambda r: "%s/\\d+/%s/%s/%s" % (r.choice(STACKS), r.choice(BLOCKS),
                                    r.choice(LAYERS), r.choice(LEAVES)),
    lambda r: "%s/.*/%s/%s" % (r.choice(STACKS), r.choice(LAYERS),
                               r.choice(LEAVES)),
    lambda r: "%s_\\d+/%s" % (r.choice(BLOCKS), r.choice(LEAVES)),
    lambda r: "%s/fc[12]/%s" % (r.choice(BLOCKS), r.choice(LEAVES)),
    lambda r: "%s/fc(1|2)/%s" % (r.choice(BLOCKS), r.choice(LEAVES)),
    lambda r: "\\['%s'\\]\\['%s'\\]\\['%s'\\]" % (
        r.choice(BLOCKS), r.choice(LAYERS), r.choice(LEAVES)),
    lambda r: ".*(norm|layernorm).*",
    lambda r: "^(?:.*/)?%s/\\d+/%s$" % (r.choice(BLOCKS), r.choice(LEAVES)),
    lambda r: "%s(?:/.*)?$" % r.choice(LAYERS),
    lambda r: "(?:%s|%s)/%s?" % (r.choice(BLOCKS), r.choice(BLOCKS),
                                 r.choice(LEAVES)),
    lambda r: "experts\\.\\d{1,3}\\.%s" % r.choice(LAYERS),
    lambda r: ".*",
]


def name(r):
    stack = re.sub(r"\\d\+", str(r.randint(0, 40)), r.choice(STACKS))
    stack = stack.replace("(text|image)", r.choice(["text", "image"]))
    parts = [stack, str(r.randint(0, 120)), r.choice(BLOCKS), r.choice(LAYERS),
             r.choice(LEAVES)]
    kind = r.random()
    if kind < 0.1:
        return "%s/%s" % (r.choice(TOPS), r.choice(LEAVES))
    if kind < 0.2:
        return "".join("['%s']" % part for part in parts[2:])
    if kind < 0.3:
        return ".".join(parts)
    if kind < 0.4:
        parts[2] += "_%d" % r.randint(0, 9)
    if kind < 0.5:
        parts.insert(3, str(r.randint(0, 9)))
    return "/".join(parts)


def main():
    r = random.Random("rule shapes")
    names = sorted({name(r) for _ in range(120)})
    patterns = sorted({r.choice(SHAPES)(r) for _ in range(900)})
    print('{"names":%s,' % json.dumps(names))
    print('"patterns":[')
    print(",\n".join(json.dumps(
        {"pattern": p,
         "found": "".join("1" if re.search(p, n) else "0" for n in names)})
        for p in patterns))
    print("]}")


if __name__ == "__main__":
    main()
