"""The ops of `fovea bench ops` in PyTorch on the CPU: softmax, layer norm, GELU and AdamW on data
larger than the caches (bytes read and written once), and chains of tiny ops. With --fovea PROGRAM both
run alternately, and a line for each op gives Fovea's speed over PyTorch's."""
import statistics

import torch
from torch.nn import functional

from common import arguments, keep_memory, median_seconds, run_fovea, show, thread_settings

ROWS, COLUMNS, WEIGHTS = 16384, 1024, 1 << 24
CHAIN, WIDTH = 400, 8


def memory_bound():
    """name -> (call, bytes)"""
    x = torch.randn(ROWS, COLUMNS)
    gamma, beta = torch.ones(COLUMNS), torch.zeros(COLUMNS)
    weight = torch.full((WEIGHTS,), 0.5, requires_grad=True)
    weight.grad = torch.ones(WEIGHTS)
    adamw = torch.optim.AdamW([weight], lr=1e-4, fused=True)
    moved = 8 * ROWS * COLUMNS
    return {
        "softmax": (lambda: functional.softmax(x, -1), moved),
        "layer_norm": (lambda: functional.layer_norm(x, (COLUMNS,), gamma, beta), moved),
        "gelu": (lambda: functional.gelu(x), moved),
        "gelu_tanh": (lambda: functional.gelu(x, approximate="tanh"), moved),
        "add": (lambda: x + x, moved),
        "adamw": (adamw.step, 28 * WEIGHTS),
    }


def tiny():
    """name -> call; each runs CHAIN ops"""
    x = torch.full((WIDTH,), 0.5, requires_grad=True)
    gamma, beta = torch.full((WIDTH,), 0.9), torch.full((WIDTH,), 0.1)

    def chain(y):
        for _ in range(CHAIN // 4):
            y = torch.relu(torch.tanh(y * gamma + beta))
        return y

    def forward():
        with torch.no_grad():
            chain(x)

    def train():
        chain(x).sum().backward()
        x.grad = None

    return {"tiny_forward": forward, "tiny_train": train}


def main():
    args = arguments(__doc__)
    keep_memory()
    torch.manual_seed(1)
    large, small = memory_bound(), tiny()
    seconds = {}
    for _ in range(args.rounds):
        for threads in thread_settings():
            torch.set_num_threads(threads)
            for name, (call, _) in large.items():
                seconds.setdefault((name, "torch", threads), []).append(median_seconds(call))
        torch.set_num_threads(1)
        for name, call in small.items():
            seconds.setdefault((name, "torch", 1), []).append(median_seconds(call) / CHAIN)
        if not args.fovea:
            continue
        for name in [*large, "tiny"]:
            for line in run_fovea(args.fovea, name):
                if line["name"] not in large and line["name"] not in small:
                    continue
                took = 1e-9 * line["ns"] if "ns" in line else large[name][1] / (1e9 * line["gbs"])
                key = (line["name"], "fovea", line["threads"])
                seconds.setdefault(key, []).append(took)
    medians = {key: statistics.median(times) for key, times in seconds.items()}
    for (name, by, threads), took in medians.items():
        line = {"bench": "peers", "name": name, "by": by, "dtype": "f32", "threads": threads}
        if name in large:
            line["gbs"] = round(1e-9 * large[name][1] / took, 3)
        else:
            line["ns"] = round(1e9 * took, 1)
        ours = medians.get((name, "fovea", threads))
        if by == "torch" and ours:
            line["fovea_vs_torch"] = round(took / ours, 3)
        show(**line)


if __name__ == "__main__":
    main()
