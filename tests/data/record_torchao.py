#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what torchao's optimizers of few bits keep of a parameter: the judge of
`--optimizer torchao-adamw8bit`, `torchao-adamw4bit` and `torchao-adamwfp8`.

    python3 record_torchao.py optimizers_torchao.jsonl      # torchao 0.18.0, torch 2.15

A line has the optimizer, the parameter's shape and dtype, and name, dtype and bytes of each
tensor of its state but `step`, which is in host memory. The states are made by the library's
own step; the kernel that updates is left out, since it changes none of their sizes.
"""
import json
import sys

import torch
from torchao import optim

SHAPES = [(4095,), (4096,), (4097,), (4224,), (4352,), (8192,), (1_000_000,), (64, 64),
          (64, 65), (68, 64), (3, 1408), (4096, 4096)]
OPTIMIZERS = {"torchao-adamw8bit": optim.AdamW8bit, "torchao-adamw4bit": optim.AdamW4bit,
              "torchao-adamwfp8": optim.AdamWFp8}


def tensors(name, value):
    if hasattr(value, "tensor_attrs"):
        for part in value.tensor_attrs:
            yield from tensors(f"{name}.{part}", getattr(value, part))
    else:
        yield name, value


def record(make, shape, dtype):
    parameter = torch.nn.Parameter(torch.ones(shape, dtype=dtype))
    parameter.grad = torch.ones_like(parameter)
    optimizer = make([parameter])
    optimizer.step()
    return [[name, str(tensor.dtype).removeprefix("torch."),
             tensor.numel() * tensor.element_size()]
            for key, value in optimizer.state[parameter].items() if key != "step"
            for name, tensor in tensors(key, value)]


def main():
    torch.compile = lambda function, **options: lambda *values: None
    with open(sys.argv[1], "w") as out:
        for name, make in OPTIMIZERS.items():
            for shape in SHAPES:
                for dtype in (torch.bfloat16, torch.float32):
                    row = {"optimizer": name, "shape": list(shape),
                           "dtype": str(dtype).removeprefix("torch."),
                           "state": record(make, shape, dtype)}
                    out.write(json.dumps(row) + "\n")


main()
