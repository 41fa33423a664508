#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes gguf/tiny.gguf: the header of a small quantised llama, without data.

Binary files cannot stand in a page, so the pages about GGUF read this one. No
package is needed; `gguf` (PyPI) reads the same names, sizes and types from it.
"""

import pathlib
import struct

F32, Q4_K, Q6_K = 0, 12, 14
BYTES = {F32: (1, 4), Q4_K: (256, 144), Q6_K: (256, 210)}
HIDDEN, INNER, VOCAB, LAYERS, HEADS, KV_HEADS, HEAD = 512, 1536, 1000, 2, 8, 2, 64


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def number(key, value):
    return text(key) + struct.pack("<II", 4, value)


def word(key, value):
    return text(key) + struct.pack("<I", 8) + text(value)


def layer(i):
    rows = KV_HEADS * HEAD
    sizes = {
        "attn_q": [HIDDEN, HEADS * HEAD],
        "attn_k": [HIDDEN, rows],
        "attn_v": [HIDDEN, rows],
        "attn_output": [HEADS * HEAD, HIDDEN],
        "ffn_gate": [HIDDEN, INNER],
        "ffn_up": [HIDDEN, INNER],
        "ffn_down": [INNER, HIDDEN],
    }
    yield f"blk.{i}.attn_norm.weight", [HIDDEN], F32
    for name, size in sizes.items():
        yield f"blk.{i}.{name}.weight", size, Q4_K
    yield f"blk.{i}.ffn_norm.weight", [HIDDEN], F32


def main():
    pairs = [
        word("general.architecture", "llama"),
        word("general.name", "Tiny"),
        number("llama.block_count", LAYERS),
        number("llama.embedding_length", HIDDEN),
        number("llama.attention.head_count", HEADS),
        number("llama.attention.head_count_kv", KV_HEADS),
        number("llama.vocab_size", VOCAB),
    ]
    tensors = [("token_embd.weight", [HIDDEN, VOCAB], Q6_K)]
    for i in range(LAYERS):
        tensors += layer(i)
    tensors.append(("output_norm.weight", [HIDDEN], F32))
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs))
    out += b"".join(pairs)
    offset = 0
    for name, sizes, kind in tensors:
        out += text(name) + struct.pack("<I", len(sizes))
        out += struct.pack(f"<{len(sizes)}Q", *sizes)
        out += struct.pack("<IQ", kind, offset)
        elements = 1
        for size in sizes:
            elements *= size
        block, size = BYTES[kind]
        offset += -(-(elements // block * size) // 32) * 32
    target = pathlib.Path(__file__).parent / "gguf" / "tiny.gguf"
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(out)


if __name__ == "__main__":
    main()
