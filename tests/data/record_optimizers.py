# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch's optimizers hold for a moment while they step.

    pip install torch transformers==5.24.0 lion-pytorch
    OMP_NUM_THREADS=1 python tests/data/record_optimizers.py tests/data/optimizers.jsonl

A few matrices and vectors, and their gradients, on the CPU; the second step is measured,
when state is there. A line of optimizers.jsonl:

- `name`, `optimizer` as `--optimizer` calls it, `way` (`foreach`, `fused`, `single`; of
  Adafactor also `transformers`, its own), `decay` of weights, `clipped` before the step,
  `dtype` of parameters and gradients, `shapes`, `version` of torch
- `gradients` and `state`, bytes of these (without counters of steps)
- `temporaries`: the most that storages take at once that operations of the step made
  and that are not state afterwards

What a kernel takes for itself is not seen.
"""

import functools
import itertools
import json
import sys
import weakref

import lion_pytorch
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

SHAPES = {
    "even": [[64, 64]] * 4 + [[64]] * 4,
    "one-large": [[512, 64], [64, 64], [64, 128], [64], [512]],
    "many-small": [[8, 16]] * 24,
    "wide": [[40, 600], [600, 40], [40]],
    "deep": [[33, 129]] * 5 + [[129]] * 2,
    "tall": [[900, 7], [7], [12, 12], [12]],
    "square": [[96, 96], [96]],
}


class Live(TorchDispatchMode):
    def __init__(self, known):
        super().__init__()
        self.known = known
        self.sizes = {}
        self.now = self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_iter(out):
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            key = storage.data_ptr()
            if key in self.known or key in self.sizes or key == 0:
                continue
            self.sizes[key] = storage.nbytes()
            self.now += storage.nbytes()
            self.most = max(self.most, self.now)
            weakref.finalize(tensor, self.gone, key)
        return out

    def gone(self, key):
        self.now -= self.sizes.pop(key, 0)


def optimizers():
    """Name, way, decay, and what makes it."""
    for name, decay, kind, more in (("adamw", 0.1, torch.optim.AdamW, {}), ("sgd", 0, torch.optim.SGD, {}), ("sgd", 0.1, torch.optim.SGD, {}),
                                    ("sgd-momentum", 0, torch.optim.SGD, dict(momentum=0.9)), ("sgd-momentum", 0.1, torch.optim.SGD, dict(momentum=0.9)),
                                    ("sgd-momentum", 0.1, torch.optim.SGD, dict(momentum=0.9, nesterov=True))):
        for way, how in (("foreach", dict(foreach=True)), ("fused", dict(fused=True)), ("single", dict(foreach=False))):
            yield name, way, decay, functools.partial(kind, lr=1e-3, weight_decay=decay, **more, **how)
    for way in ("foreach", "single"):
        yield "adafactor", way, 0, functools.partial(torch.optim.Adafactor, lr=1e-3, foreach=way == "foreach")
    yield "adafactor", "transformers", 0, functools.partial(transformers.Adafactor, lr=1e-3, relative_step=False, scale_parameter=False)
    yield "lion", "single", 0, functools.partial(lion_pytorch.Lion, lr=1e-4)
    yield "muon", "single", 0.1, lambda p: torch.optim.Muon([q for q in p if q.dim() == 2], lr=1e-3)


def measure(make, shapes, dtype, clip):
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(shape, dtype=getattr(torch, dtype))) for shape in shapes]
    optimizer = make(parameters)
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    state = [value for each in optimizer.state.values() for value in each.values()
             if isinstance(value, torch.Tensor) and value.numel() > 1]
    trained = [q for group in optimizer.param_groups for q in group["params"]]
    known = {t.untyped_storage().data_ptr() for t in [*parameters, *(q.grad for q in parameters), *state]}
    with Live(known) as live:
        if clip:
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
    total = lambda tensors: sum(t.untyped_storage().nbytes() for t in tensors)
    return {"gradients": total([q.grad for q in trained]), "state": total(state), "temporaries": live.most}


def main():
    with open(sys.argv[1], "w") as out:
        for (name, way, decay, make), dtype in itertools.product(optimizers(), ("float32", "bfloat16")):
            for called, shapes in SHAPES.items():
                for clip in (False, True) if name == "adamw" else (False,):
                    nesterov = "-nesterov" if getattr(make, "keywords", {}).get("nesterov") else ""
                    line = {"name": f"{name}-{way}-{called}{nesterov}", "optimizer": name, "way": way, "decay": decay, "clipped": clip, "dtype": dtype,
                            "shapes": shapes, "version": torch.__version__, **measure(make, shapes, dtype, clip)}
                    out.write(json.dumps(line) + "\n")


main()
