# SPDX-License-Identifier: Apache-2.0
"""What a training step of PyTorch holds on a GPU, found without one.

    pip install torch transformers peft nvidia-cuda-crt
    python tests/judges/torch_memory.py cases.jsonl > answers.jsonl

Builds null_gpu.cc and runs PyTorch on it: whole steps of models of transformers in
their real sizes. Every decision is PyTorch's own, and so are the bytes; only the
kernels do nothing, so that all numbers are zero. A line of cases is a `Step`; its
answer has the bytes allocated after the model was made, at the end and peak of forward
and of backward, at the peak of the update and of all, what rests between steps, and the
most that the caching allocator reserved.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

HERE = pathlib.Path(__file__).parent
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "autocast": "float32"}


def build(folder):
    """The two libraries, and the environment that has PyTorch use them."""
    site = pathlib.Path(sysconfig.get_paths()["purelib"])

    def names(library, flag):
        out = subprocess.run(["nm", "-D", flag, library], capture_output=True, text=True, check=True).stdout
        return {line.split()[-1].split("@")[0] for line in out.splitlines()}

    def stubs(wanted, file):
        labels = "".join(f".globl {each}\n{each}:\n" for each in sorted(wanted))
        file.write_text(f'.text\n{labels}xorl %eax,%eax\nret\n.section .note.GNU-stack,"",@progbits\n')
        return file

    folder.mkdir(parents=True, exist_ok=True)
    compile_ = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-isystem", site / "nvidia/cu13/include", HERE / "null_gpu.cc"]
    runtime = folder / "libnull_gpu.so"
    subprocess.run([*compile_, "-o", runtime], check=True)
    here = names(runtime, "--defined-only")
    asked = set().union(*(names(site / "torch/lib" / f"{each}.so", "--undefined-only")
                          for each in ("libtorch_cuda", "libc10_cuda", "libtorch_python")))
    missing = {each for each in asked if each.startswith(("cuda", "__cuda", "cublas"))} - here
    subprocess.run([*compile_, stubs(missing, folder / "runtime.s"), "-o", runtime], check=True)
    driver = {each for each in names(site / "torch/lib/libcaffe2_nvrtc.so", "--undefined-only") if each.startswith("cu")} - here
    (folder / "driver").mkdir(exist_ok=True)
    subprocess.run([*compile_, stubs(driver, folder / "driver.s"), "-Wl,-soname,libcuda.so.1", "-o", folder / "driver/libcuda.so.1"],
                   check=True)
    return {**os.environ, "LD_PRELOAD": str(runtime), "LD_LIBRARY_PATH": str(folder / "driver")}


@dataclasses.dataclass
class Step:
    """A step, as `shardplan analyze` is asked for it."""

    config: dict
    batch: int  # of a whole step
    seq: int
    precision: str = "bf16"
    checkpointing: bool = False
    reentrant: bool = False
    optimizer: str = "adamw"
    implementation: str = "foreach"
    attention: str = ""  # the class's own choice
    microbatches: int = 1
    clip: bool = False
    lora: int = 0  # the rank of adapters on all linear layers
    compiled: bool = False


def optimizer_of(step, parameters):
    import torch
    how = {"lr": 1e-3, "foreach": step.implementation == "foreach"}
    if step.implementation == "fused":
        how |= {"foreach": False, "fused": True}
    if step.optimizer == "sgd-momentum":
        return torch.optim.SGD(parameters, momentum=0.9, **how)
    return {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD, "adafactor": torch.optim.Adafactor}[step.optimizer](parameters, **how)


def inputs_of(model, config, rows, seq):
    import torch
    words = config.get_text_config().vocab_size
    ids = torch.zeros(rows, seq, dtype=torch.int64, device="cuda") % words
    return {"input_ids": ids, "labels": ids}


def measure(step, steps=3):
    import torch
    import transformers
    klass = getattr(transformers, step.config["architectures"][0])
    config = klass.config_class(**step.config)
    config.get_text_config().use_cache = False  # as Trainer has it
    torch.backends.cuda.enable_cudnn_sdp(False)  # its library asks the card itself; it keeps what flash keeps
    # Positions are zeros here, and would look like those of packed sequences.
    transformers.masking_utils.find_packed_sequence_indices = lambda positions: None
    transformers.modeling_utils._init_weights = False
    with torch.device("cuda"):
        model = klass._from_config(config, dtype=getattr(torch, DTYPES[step.precision]), attn_implementation=step.attention or None)
    model.train()
    if step.lora:
        import peft
        model = peft.get_peft_model(model, peft.LoraConfig(r=step.lora, target_modules="all-linear"))
    if step.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": step.reentrant})
    trained = [each for each in model.parameters() if each.requires_grad]
    run = torch.compile(model) if step.compiled else model
    optimizer = optimizer_of(step, trained)
    torch.cuda.empty_cache()
    alive = torch.cuda.memory_allocated

    def take_peak():
        peak = torch.cuda.max_memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        return peak

    out = {"after_model": alive(), "parameters": sum(each.numel() for each in model.parameters())}
    batch = inputs_of(model, config, step.batch // step.microbatches, step.seq)
    cast = torch.autocast("cuda", dtype=torch.bfloat16, enabled=step.precision == "autocast")
    reserved = 0
    for _ in range(steps):
        take_peak()
        forward = backward = 0
        for _ in range(step.microbatches):
            with cast:
                loss = run(**batch).loss
            out["forward_end"] = alive()
            forward = max(forward, take_peak())
            loss.backward()
            del loss
            out["backward_end"] = alive()
            backward = max(backward, take_peak())
        if step.clip:
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        update = take_peak()
        optimizer.zero_grad(set_to_none=True)
        reserved = max(reserved, torch.cuda.memory_reserved())
    return out | {"forward_peak": forward, "backward_peak": backward, "update_peak": update,
                  "peak": max(forward, backward, update), "rest": alive(), "reserved": reserved,
                  "versions": {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}}


def main():
    if os.environ.get("NULL_GPU_CHILD"):
        for line in sys.stdin:
            case = json.loads(line)
            step = Step(**{field.name: case[field.name] for field in dataclasses.fields(Step) if field.name in case})
            try:
                answer = measure(step)
            except Exception as error:  # what one model cannot do says nothing of the others
                answer = {"error": f"{type(error).__name__}: {error}"[:400]}
            print(json.dumps({**case, "answer": answer}), flush=True)
            import gc
            import torch
            gc.collect()
            torch.cuda.empty_cache()
        sys.stdout.flush()
        os._exit(0)
    with tempfile.TemporaryDirectory() as folder:
        environment = build(pathlib.Path(folder)) | {"NULL_GPU_CHILD": "1"}
        with open(sys.argv[1]) as cases:
            sys.exit(subprocess.run([sys.executable, "-W", "ignore", __file__], env=environment, stdin=cases).returncode)


if __name__ == "__main__":
    main()
