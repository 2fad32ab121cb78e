"""Writes tests/fixtures/torch/blocks.safetensors: torch.nn.TransformerDecoderLayer, pre- and post-LN,
ReLU and GELU, with a causal mask and a memory of lengths 5 and 3; outputs and all gradients.

    python3 tests/data/layers/make_blocks.py tests/fixtures/torch/blocks.safetensors
"""
import json
import struct
import sys

import torch


def write(path, tensors):
    header, data = {}, b""
    for name, t in sorted(tensors.items()):
        raw = t.detach().contiguous().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def main():
    torch.manual_seed(20)
    tensors = {}
    for norm_first in (True, False):
        for activation in ("relu", "gelu"):
            layer = torch.nn.TransformerDecoderLayer(
                8, 2, dim_feedforward=12, dropout=0.0, activation=activation, batch_first=True,
                norm_first=norm_first)
            for p in layer.parameters():
                torch.nn.init.normal_(p, std=0.5)
            x = torch.randn(2, 4, 8, requires_grad=True)
            memory = torch.randn(2, 5, 8, requires_grad=True)
            ahead = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
            padding = torch.arange(5)[None] >= torch.tensor([5, 3])[:, None]
            y = layer(x, memory, tgt_mask=ahead, memory_key_padding_mask=padding)
            upstream = torch.randn_like(y)
            y.backward(upstream)
            prefix = ("pre_" if norm_first else "post_") + activation + "."
            for name, t, grad in ([("x", x, x.grad), ("memory", memory, memory.grad),
                                   ("y", y, upstream)]
                                  + [(n, p, p.grad) for n, p in layer.named_parameters()]):
                tensors[prefix + name] = t
                tensors[prefix + name + ".grad"] = grad
    write(sys.argv[1], tensors)


main()
