# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch computes of the graphs in tests/data/graphs.

Per graph: NAME.safetensors holds the weights, NAME.checks.safetensors inputs
and outputs by the names of the graph, and for `residual` x.safetensors and
y.safetensors single tensors under other names. All numbers are float32; ids
are int64.

    pip install torch safetensors
    python tests/data/record_graph_checks.py
"""

import math
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

OUT = pathlib.Path(__file__).parent / "graphs"

BATCH, LENGTH, LAYERS, HEADS, HEAD_DIM, MLP, VOCAB = 2, 8, 3, 4, 8, 96, 48
EMBED = HEADS * HEAD_DIM


class Norm(nn.Module):
    """An RMSNorm whose weight is its distance from 1."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(0.3 * torch.randn(EMBED))

    def forward(self, x):
        mean = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(mean + 1e-5) * (1 + self.weight)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn_norm = Norm()
        self.q, self.k, self.v, self.o = (
            nn.Linear(EMBED, EMBED, bias=False) for _ in range(4))
        self.mlp_norm = Norm()
        self.up = nn.Linear(EMBED, MLP, bias=False)
        self.down = nn.Linear(MLP, EMBED, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        normed = self.attn_norm(x)
        q, k, v = (each(normed).view(batch, length, HEADS, HEAD_DIM)
                   .transpose(1, 2) for each in (self.q, self.k, self.v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, length, EMBED))
        down = self.down(functional.gelu(self.up(self.mlp_norm(x))))
        return x + down / math.sqrt(2 * LAYERS)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, EMBED)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = Norm()
        self.head = nn.Linear(EMBED, VOCAB, bias=False)

    def forward(self, ids):
        x = self.embed(ids) * math.sqrt(EMBED)
        for block in self.blocks:
            x = block(x)
        return x, self.head(self.norm(x))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(24, 40)
        self.down = nn.Linear(40, 24)

    def forward(self, x, gate):
        return x + self.down(functional.relu(self.up(x)) * gate) / 2 - 0.25


def save(name, tensors):
    save_file({key: value.detach().contiguous() for key, value in
               tensors.items()}, OUT / f"{name}.safetensors")


def main():
    torch.manual_seed(15)
    decoder = Decoder()
    ids = torch.randint(0, VOCAB, (BATCH, LENGTH))
    x, logits = decoder(ids)
    save("decoder", decoder.state_dict())
    save("decoder.checks", {"ids": ids, "x": x, "logits": logits})

    residual = Residual()
    x, gate = torch.randn(6, 24), torch.randn(6, 40)
    y = residual(x, gate)
    save("residual", residual.state_dict())
    save("residual.checks", {"x": x, "gate": gate, "y": y})
    save("x", {"features": x})
    save("y", {"result": y})


main()
