"""GPT-2 in idiomatic PyTorch, with the parameter names of model.safetensors."""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x, past):
        parts = self.c_attn(x).chunk(3, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in parts)
        if past:
            k, v = (torch.cat(pair, 2) for pair in zip(past, (k, v)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=not past)
        return self.c_proj(y.transpose(1, 2).flatten(2)), (k, v)


class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.c_fc = nn.Linear(width, hidden)
        self.c_proj = nn.Linear(hidden, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        self.mlp = FeedForward(width, hidden)

    def forward(self, x, past):
        y, kept = self.attn(self.ln_1(x), past)
        x = x + y
        return x + self.mlp(self.ln_2(x)), kept


class GPT2(nn.Module):
    """`weights` maps names in the file to tensors; sizes follow from them."""

    def __init__(self, weights, heads):
        super().__init__()
        weights = {name.removeprefix("transformer."): value for name, value in weights.items()}
        vocabulary, width = weights["wte.weight"].shape
        layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("h."))
        hidden = weights["h.0.mlp.c_fc.bias"].shape[0]
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(*weights["wpe.weight"].shape)
        self.h = nn.ModuleList(Block(width, heads, hidden) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        # The file stores [in, out]; PyTorch is fastest with [out, in].
        self.load_state_dict({name: value.t() if name.startswith("h.") and value.dim() == 2 else value
                              for name, value in weights.items()})

    def forward(self, ids, past=None):
        """Logits, and the keys and values of every block for the next call's `past`."""
        first = past[0][0].shape[2] if past else 0
        x = self.wte(ids) + self.wpe(torch.arange(first, first + ids.shape[1], device=ids.device))
        kept = []
        for i, block in enumerate(self.h):
            x, pair = block(x, past[i] if past else None)
            kept.append(pair)
        return F.linear(self.ln_f(x), self.wte.weight), kept
