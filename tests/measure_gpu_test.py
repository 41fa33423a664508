#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs scripts/measure-gpu on a GPU that is not there, and reads what it writes.

    tests/measure_gpu_test.py PROGRAM

A module named torch stands in for PyTorch: a clock that operations move on by what
they would take. The times in the CSV must be those, and the program must take them.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
START, FLOPS, MOVED, HOST = 2e-6, 5e14, 2.5e12, 5e10

TORCH = f'''
START, FLOPS, MOVED, HOST = {START}, {FLOPS}, {MOVED}, {HOST}
now, recording = 0.0, None


def takes(seconds):
    global now
    if recording is None:
        now += seconds
    else:
        recording.append(seconds)


class DType:
    def __init__(self, itemsize):
        self.itemsize = itemsize


bfloat16, float16, float32, uint8 = DType(2), DType(2), DType(4), DType(1)
__version__ = "0.0"


class Tensor:
    def __init__(self, *shape, device="cpu", dtype=float32):
        self.shape, self.device, self.dtype = shape, device, dtype

    def t(self):
        return Tensor(*self.shape[::-1], device=self.device, dtype=self.dtype)

    def pin_memory(self):
        return self

    def add_(self, _):
        takes(START)

    def copy_(self, source, non_blocking=False):
        size = self.shape[0] * self.dtype.itemsize
        both = self.device == source.device == "cuda"
        takes(START + 2 * size / MOVED if both else size / HOST)


zeros = empty = randn = Tensor


def mm(left, right, out):
    (m, k), (k_too, n) = left.shape, right.shape
    assert k == k_too and out.shape == (m, n)
    takes(max(START, 2 * m * n * k / FLOPS * (8 if left.dtype is float32 else 1)))


class backends:
    class cuda:
        class matmul:
            allow_tf32 = True


class cuda:
    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at = now

        def synchronize(self):
            pass

        def elapsed_time(self, other):
            return (other.at - self.at) * 1e3

    class CUDAGraph:
        def __init__(self):
            self.parts = []

        def replay(self):
            takes(sum(self.parts))

    class graph:
        def __init__(self, of):
            self.of = of

        def __enter__(self):
            global recording
            recording = self.of.parts

        def __exit__(self, *_):
            global recording
            recording = None

    is_available = staticmethod(lambda: True)
    synchronize = staticmethod(lambda: None)
    mem_get_info = staticmethod(lambda: (75 * 2**30, 80 * 2**30))
    get_device_name = staticmethod(lambda: "a GPU that is not there")
'''


def near(value, expected):
    assert abs(value / expected - 1) < 1e-3, (value, expected)


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "torch.py").write_text(TORCH)
        environment = dict(os.environ, PYTHONPATH=str(folder),
                           PYTHONDONTWRITEBYTECODE="1")
        text = subprocess.run([sys.executable, ROOT / "scripts/measure-gpu"],
                              stdout=subprocess.PIPE, env=environment, text=True,
                              check=True).stdout
        rows = [line.split(",") for line in text.splitlines()[2:]]
        products = {tuple(row[1:5]): float(row[6]) for row in rows if row[0] == "product"}
        near(products["bf16", "8192", "4096", "4096"], 2 * 8192 * 4096**2 / FLOPS)
        near(products["f32", "2048", "4096", "4096"], 16 * 2048 * 4096**2 / FLOPS)
        near(products["f16", "1", "64", "64"], START)
        assert len(products) > 600, len(products)
        others = {(row[0], row[5]): float(row[6]) for row in rows if row[0] != "product"}
        near(others["kernel-start", ""], START)
        near(others["copy", str(2**32)], START + 2**32 / MOVED)
        near(others["to-host", str(2**30)], 2**30 / HOST)
        near(others["from-host", str(2**30)], 2**30 / HOST)
        assert others["launch", ""] > 0

        measured = folder / "gpu.csv"
        measured.write_text(text)
        done = subprocess.run(
            [sys.argv[1], "analyze", "tests/data/configs/llama-3.2-1b.json", "-r", "@llama",
             "-m", "fsdp=1,tp=1,sp=1", "--hardware", "h100-sxm", "--optimizer", "adamw",
             "--batch", "4", "--seq", "4096", "--framework", "torch", "--calibrate",
             measured, "--json", "--isolated"],
            cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        report = json.loads(done.stdout)
        assert report["summary"]["calibrated"] == [str(measured)], report["summary"]
        parts = {row["part"]: row for row in report["tables"]["step_time"]}
        for part in ("products", "memory", "optimizer"):
            assert "gpu.csv (--calibrate)" in parts[part]["source"], parts[part]
        # All of it is of use.
        remarks = [found["message"] for found in report["diagnostics"]]
        assert not any("not used" in remark for remark in remarks), remarks
    print("the CSV has the times that a clock had, and is taken")


if __name__ == "__main__":
    main()
