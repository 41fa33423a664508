# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch's optimizers hold for a moment while they step.

    pip install torch
    OMP_NUM_THREADS=1 python tests/data/record_optimizers.py tests/data/optimizers.jsonl

A few matrices and vectors of float32, and their gradients, on the CPU; the second step
is measured, when state is there. A line of optimizers.jsonl:

- `name`, `optimizer` as `--optimizer` calls it, `way` (`foreach`, `fused`, `single`),
  `shapes`, `version` of torch
- `gradients` and `state`, bytes of these (without counters of steps)
- `temporaries`: the most that storages take at once that operations of the step made
  and that are not state afterwards

What a kernel takes for itself is not seen.
"""

import json
import sys
import weakref

import torch
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
    adam = dict(lr=1e-3, weight_decay=0.1)
    yield "adamw", "foreach", lambda p: torch.optim.AdamW(p, foreach=True, **adam)
    yield "adamw", "single", lambda p: torch.optim.AdamW(p, foreach=False, **adam)
    yield "adamw", "fused", lambda p: torch.optim.AdamW(p, fused=True, **adam)
    sgd = dict(lr=1e-3, weight_decay=0.1)
    yield "sgd", "foreach", lambda p: torch.optim.SGD(p, foreach=True, **sgd)
    yield "sgd", "single", lambda p: torch.optim.SGD(p, foreach=False, **sgd)
    yield "sgd-momentum", "foreach", lambda p: torch.optim.SGD(p, foreach=True, momentum=0.9, **sgd)
    yield "sgd-momentum", "nesterov", lambda p: torch.optim.SGD(p, foreach=True, momentum=0.9, nesterov=True, **sgd)
    yield "sgd-momentum", "single", lambda p: torch.optim.SGD(p, foreach=False, momentum=0.9, **sgd)
    yield "adafactor", "foreach", lambda p: torch.optim.Adafactor(p, lr=1e-3, foreach=True)
    yield "adafactor", "single", lambda p: torch.optim.Adafactor(p, lr=1e-3, foreach=False)
    yield "muon", "single", lambda p: torch.optim.Muon([q for q in p if q.dim() == 2], lr=1e-3)


def measure(make, shapes):
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    optimizer = make(parameters)
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    state = [value for each in optimizer.state.values() for value in each.values()
             if isinstance(value, torch.Tensor) and value.numel() > 1]
    trained = [q for group in optimizer.param_groups for q in group["params"]]
    known = {t.untyped_storage().data_ptr() for t in [*parameters, *(q.grad for q in parameters), *state]}
    with Live(known) as live:
        optimizer.step()
    total = lambda tensors: sum(t.untyped_storage().nbytes() for t in tensors)
    return {"gradients": total([q.grad for q in trained]), "state": total(state), "temporaries": live.most}


def main():
    with open(sys.argv[1], "w") as out:
        for name, way, make in optimizers():
            for called, shapes in SHAPES.items():
                line = {"name": f"{name}-{way}-{called}", "optimizer": name, "way": way, "shapes": shapes,
                        "version": torch.__version__, **measure(make, shapes)}
                out.write(json.dumps(line) + "\n")
                print(line["name"], line["gradients"], line["state"], line["temporaries"])


main()
