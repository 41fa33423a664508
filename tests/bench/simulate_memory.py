# SPDX-License-Identifier: Apache-2.0
"""Peak memory of `simulate` on a checkpoint, against the size of the model.

    python3 tests/bench/simulate_memory.py build/release/shardplan

Writes a Llama of 316 million parameters (1.26 GB in float32, 0.63 GB in
bfloat16) into a temporary folder and runs it on two meshes. The peak is the
largest resident set of the program: mapped pages of the file count in full,
though the system may take them back at any time.
"""

import json
import pathlib
import random
import resource
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import instructions  # noqa: E402

LAYERS, HIDDEN, MLP, VOCAB, HEADS, KV_HEADS = 24, 1024, 2816, 16000, 16, 8
MESHES = ["dp=2,tp=4", "fsdp=4,tp=2"]


def write(folder, dtype):
    width = {"F32": 4, "BF16": 2}[dtype]
    header, end = {}, 0
    for name, shape in instructions.llama(LAYERS, HIDDEN, MLP, VOCAB, HEADS,
                                          KV_HEADS):
        begin = end
        end += width * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [begin, end]}
    draw = random.Random(0)
    # One block of numbers again and again, of no size that shards have, or
    # they would be alike (SP513); bfloat16 is the upper half.
    block = b"".join(struct.pack("<f", draw.gauss(0, 0.03))[4 - width:]
                     for _ in range((1 << 18) + 3))
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, end, len(block)):
            file.write(block[:end - begin])
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama",
              "hidden_size": HIDDEN, "intermediate_size": MLP,
              "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "vocab_size": VOCAB,
              "rms_norm_eps": 1e-6}
    (folder / "config.json").write_text(json.dumps(config))
    return end


def main(program):
    print(f"{'stored':>7} {'mesh':>13} {'model MB':>9} {'peak MB':>8} "
          f"{'of stored':>10} {'of float32':>11}")
    peak = 0
    for dtype in ["BF16", "F32"]:  # the peak of all children never falls
        for mesh in MESHES:
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                size = write(folder, dtype)
                subprocess.run(
                    [program, "simulate", name, "--rules", "@llama", "--mesh",
                     mesh, "--quiet", "--allow", "SP204"],
                    check=True, stdout=subprocess.DEVNULL)
            usage = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            peak = max(peak, usage * 1024)
            dense = size * (2 if dtype == "BF16" else 1)
            print(f"{dtype:>7} {mesh:>13} {size / 1e6:9.0f} {peak / 1e6:8.0f} "
                  f"{peak / size:10.2f} {peak / dense:11.2f}")


if __name__ == "__main__":
    main(sys.argv[1])
