#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what bitsandbytes' AdamW8bit keeps of a parameter: the judge of
`--optimizer adamw8bit`.

    python3 record_8bit.py optimizers_8bit.jsonl      # bitsandbytes 0.50.2

A line has the parameter's shape and the shape and dtype of each tensor of its state,
without `qmap1` and `qmap2`, which all parameters share; these are in the last line.
"""
import json
import sys

import bitsandbytes
import torch

SHAPES = [(1,), (4095,), (4096,), (4097,), (64, 63), (64, 64), (100, 300), (8, 5, 103),
          (1024, 4096), (16, 2048)]


def main():
    shared = {}
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for shape in SHAPES:
            parameter = torch.nn.Parameter(torch.zeros(shape, dtype=torch.bfloat16))
            optimizer = bitsandbytes.optim.AdamW8bit([parameter])
            parameter.grad = torch.zeros_like(parameter)
            optimizer.init_state(optimizer.param_groups[0], parameter, 0, 0)
            state = {name: [list(each.shape), str(each.dtype).removeprefix("torch.")]
                     for name, each in optimizer.state[parameter].items()
                     if isinstance(each, torch.Tensor)}
            shared |= {name: state.pop(name) for name in ("qmap1", "qmap2")
                       if name in state}
            out.write(json.dumps({"shape": list(shape), "state": state}) + "\n")
        out.write(json.dumps({"shared": shared}) + "\n")


if __name__ == "__main__":
    main()
