# SPDX-License-Identifier: Apache-2.0
"""Records how PyTorch's frameworks shard and pad, without any device.

    pip install torch==2.15.0 deepspeed==0.19.8 megatron-core==0.16.1
    DS_ACCELERATOR=cpu python tests/data/record_torch_padding.py \\
        build/release/shardplan

Writes tests/data/torch/dtensor.json, fsdp_tp.json and zero.json. Their own code
does the work, on meta tensors and a fake process group:
- dtensor.json: local shapes of DTensor on every rank, which are those of
  torch.chunk applied axis by axis;
- fsdp_tp.json: the shape that fully_shard stores on rank 0 of a parameter that
  DTensor has sharded over tp before;
- zero.json: elements per rank that FSDP2 (fully_shard), DeepSpeed (ZeRO 1, 2
  and 3) and Megatron's distributed optimizer keep of models whose parameters
  are sharded over tp as shardplan resolves them.
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import types

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import deepspeed
import megatron.core
import torch
import torch.distributed as dist
from deepspeed.runtime.zero import partition_parameters, stage_1_and_2
from megatron.core.distributed import DistributedDataParallelConfig
from megatron.core.distributed import param_and_grad_buffer
from megatron.core.optimizer import distrib_optimizer
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor._utils import (
    compute_local_shape_and_global_offset)
from torch.testing._internal.distributed.fake_pg import FakeStore

DATA = pathlib.Path(__file__).parent
OUT = DATA / "torch"
# (mesh, shape, tensor dimension that each mesh axis shards; None replicates)
DTENSORS = [
    ((4,), (6,), [0]), ((4,), (3, 5), [0]), ((4,), (3, 5), [1]),
    ((2, 3), (10,), [0, 0]), ((3, 2), (10,), [0, 0]), ((2, 4), (5, 7), [0, 1]),
    ((2, 4), (5, 7), [1, 1]), ((2, 2, 2), (9, 11), [0, 1, 0]),
    ((2, 2, 2), (3, 2), [0, 0, 0]), ((8,), (1, 4), [0]),
    ((2, 4), (6, 9), [None, 1]), ((4, 2), (50257, 3), [0, 0]),
    ((3, 5), (16, 31), [1, 0]),
]
# (dp, tp, shape, the dimension that tp shards)
FSDP_TP = [
    (4, 2, (10, 6), 0), (4, 2, (10, 6), 1), (3, 4, (16, 5), 0),
    (8, 2, (6, 4), 0), (5, 2, (50258, 8), 0), (6, 3, (7, 9), 1),
    (2, 2, (4,), 0), (4, 2, (2, 3), 0),
    # No axis divides: 3 and 7 devices.
    (3, 1, (5120, 27648), 0), (7, 1, (5120, 27648), 0), (7, 1, (27648, 5120), 0),
    (7, 2, (1024, 5120), 0), (7, 2, (5120, 5120), 1), (3, 2, (152064, 5120), 0),
    (7, 1, (8, 10, 6), 0), (3, 2, (2, 10, 6), 0), (7, 4, (1, 12), 1),
]
# (config, rules, meshes of dp and tp): ZeRO goes over dp.
ZERO = [
    ("configs/gpt2.json", "@gpt2", ["dp=8", "dp=6", "dp=3,tp=4", "dp=5,tp=2"]),
    ("configs/llama-3.2-1b.json", "@llama", ["dp=8", "dp=7,tp=8", "dp=48"]),
    ("configs/gemma-2-2b.json", "@gemma2", ["dp=16,tp=4", "dp=96"]),
    ("torch/odd.json", "torch/odd.rules.yaml", ["dp=8", "dp=7", "dp=12"]),
]


class Group:
    """A process group, as far as the code that is run asks for one."""

    def __init__(self, ranks, rank=0):
        self.ranks, self.own = ranks, rank

    def size(self):
        return self.ranks

    def rank(self):
        return self.own


def with_fake_group(ranks, rank, work):
    dist.init_process_group("fake", store=FakeStore(), rank=rank,
                            world_size=ranks)
    try:
        return work()
    finally:
        dist.destroy_process_group()


def dtensor_shapes(mesh_shape, shape, dims):
    def local():
        mesh = init_device_mesh("cpu", mesh_shape)
        placements = [Replicate() if d is None else Shard(d) for d in dims]
        found, offset = compute_local_shape_and_global_offset(
            torch.Size(shape), mesh, placements)
        return [list(found), list(offset)]

    ranks = math.prod(mesh_shape)
    return [with_fake_group(ranks, r, local) for r in range(ranks)]


def fsdp2(shapes, ranks):
    """Elements of rank 0 and of the last rank: stored, and of a moment."""
    def elements():
        stored = moment = 0
        for shape in shapes:
            module = torch.nn.Module()
            module.weight = torch.nn.Parameter(torch.empty(shape,
                                                           device="meta"))
            fully_shard(module, mesh=init_device_mesh("cpu", (ranks,)))
            group, = module._get_fsdp_state()._fsdp_param_groups
            parameter, = group.fsdp_params
            stored += parameter._sharded_param_data.numel()
            moment += torch.zeros_like(module.weight).to_local().numel()
        return {"stored": stored, "moment": moment}

    return {"first": with_fake_group(ranks, 0, elements),
            "last": with_fake_group(ranks, ranks - 1, elements)}


def fsdp2_on_tp(dp, tp, shape, dim):
    def stored():
        mesh = init_device_mesh("cpu", (dp, tp), mesh_dim_names=("dp", "tp"))
        module = torch.nn.Module()
        module.weight = torch.nn.Parameter(distribute_tensor(
            torch.empty(shape, device="meta"), mesh["tp"], [Shard(dim)]))
        fully_shard(module, mesh=mesh["dp"])
        group, = module._get_fsdp_state()._fsdp_param_groups
        parameter, = group.fsdp_params
        return list(parameter.padded_sharded_param_size)

    return with_fake_group(dp * tp, 0, stored)


def deepspeed_flat(shapes, ranks):
    optimizer = types.SimpleNamespace(
        flatten=stage_1_and_2._flatten_dense_tensors,
        real_dp_process_group=[Group(ranks)], nccl_start_alignment_factor=2)
    tensors = [torch.empty(shape, device="meta") for shape in shapes]
    padded = stage_1_and_2.align_dense_tensors(
        tensors, optimizer.nccl_start_alignment_factor * ranks)
    flat = optimizer.flatten(padded)
    original = stage_1_and_2.dist.get_world_size
    stage_1_and_2.dist.get_world_size = lambda group: group.size()
    parts = stage_1_and_2.DeepSpeedZeroOptimizer.get_data_parallel_partitions(
        optimizer, flat, 0)
    stage_1_and_2.dist.get_world_size = original
    sizes = {part.numel() for part in parts}
    assert len(sizes) == 1
    return {"flat": flat.numel(), "partition": sizes.pop()}


def deepspeed_stage3(shapes, ranks):
    init = types.SimpleNamespace(_partition_world_size=lambda _: ranks)
    init._padding_size = types.MethodType(
        partition_parameters.Init._padding_size, init)
    total = 0
    for shape in shapes:
        parameter = types.SimpleNamespace(ds_numel=math.prod(shape))
        aligned = partition_parameters.Init._aligned_size(init, parameter)
        assert aligned % ranks == 0
        total += aligned // ranks
    return {"partition": total}


def megatron_buffer(shapes, ranks):
    config = DistributedDataParallelConfig(use_distributed_optimizer=True)
    parameters = [torch.nn.Parameter(torch.empty(shape, device="meta",
                                                 dtype=torch.bfloat16))
                  for shape in shapes]
    group = Group(ranks)
    buffer = param_and_grad_buffer._ParamAndGradBuffer(
        config, torch.bfloat16, torch.float32, parameters, group, None,
        {p: str(i) for i, p in enumerate(parameters)}, 1.0,
        list(range(len(parameters))), False,
        pg_collection=types.SimpleNamespace(tp=Group(1), dp_cp=group))
    of_ranks = []
    for rank in range(ranks):
        group.own = rank
        ranges = distrib_optimizer.DistributedOptimizer._build_model_gbuf_range(
            buffer, 0)
        of_ranks.append(sum(p["param"].size
                            for p in ranges["param_map"].values()))
    assert sum(of_ranks) == sum(p.numel() for p in parameters)
    return {"buffer": buffer.numel, "most_state": max(of_ranks),
            "least_state": min(of_ranks)}


def local_shapes(program, model, rules, mesh):
    path = rules if rules.startswith("@") else DATA / rules
    report = subprocess.run(
        [program, "resolve", DATA / model, "--rules", path, "--mesh", mesh,
         "--json", "--isolated"], stdout=subprocess.PIPE, check=False)
    report = json.loads(report.stdout)
    return ([row["local_shape"] for row in report["tables"]["placements"]],
            report["summary"]["mesh"]["dp"])


def zero_rows(program):
    for model, rules, meshes in ZERO:
        for mesh in meshes:
            shapes, ranks = local_shapes(program, model, rules, mesh)
            yield {"model": model, "rules": rules, "mesh": mesh,
                   "fsdp2": fsdp2(shapes, ranks),
                   "deepspeed": deepspeed_flat(shapes, ranks),
                   "deepspeed_stage3": deepspeed_stage3(shapes, ranks),
                   "megatron": megatron_buffer(shapes, ranks)}


def write(name, source, rows):
    OUT.mkdir(exist_ok=True)
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    (OUT / name).write_text(
        f'{{"source": {json.dumps(source)},\n"rows": [\n{lines}\n]}}\n')


def main():
    torch.cuda.current_device = lambda: "meta"
    param_and_grad_buffer.log_on_each_pipeline_stage = lambda *a, **k: None
    pytorch = f"torch {torch.__version__.partition('+')[0]}"
    write("dtensor.json", pytorch, [
        {"mesh": mesh, "shape": shape, "dims": dims,
         "ranks": dtensor_shapes(mesh, shape, dims)}
        for mesh, shape, dims in DTENSORS])
    write("fsdp_tp.json", pytorch, [
        {"dp": dp, "tp": tp, "shape": shape, "dim": dim,
         "stored": fsdp2_on_tp(dp, tp, shape, dim)}
        for dp, tp, shape, dim in FSDP_TP])
    write("zero.json",
          f"{pytorch}, deepspeed {deepspeed.__version__.partition('+')[0]}, "
          f"megatron-core {megatron.core.__version__}",
          zero_rows(os.path.abspath(sys.argv[1])))


if __name__ == "__main__":
    main()
