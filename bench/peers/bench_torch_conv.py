"""The convolutions of `fovea bench conv` in PyTorch on the CPU, in the faster of its two memory layouts (NCHW and
channels_last). With one thread, times are CPU times. With --fovea PROGRAM both run alternately, and a line for each gives Fovea's speed over PyTorch's; the last
line has the median, and how many are below 0.95 and 0.85."""
import json
import statistics
import subprocess

import torch
from torch.nn import functional

from common import arguments, clock, keep_memory, median_seconds, show

# name: channels in, size, channels out, window, stride, padding; as in cli/bench_conv.c
SHAPES = {
    "resnet first 7x7": (3, 64, 64, 7, 2, 3), "resnet 3x3 64": (64, 32, 64, 3, 1, 1),
    "resnet 3x3 128": (128, 16, 128, 3, 1, 1), "resnet 3x3 256": (256, 8, 256, 3, 1, 1),
    "resnet 3x3 512": (512, 4, 512, 3, 1, 1), "resnet down 64-128": (64, 32, 128, 3, 2, 1),
    "resnet down 128-256": (128, 16, 256, 3, 2, 1), "resnet skip 64-128": (64, 32, 128, 1, 2, 0),
    "cifar 3x3 16": (16, 32, 16, 3, 1, 1), "dcgan 3-64": (3, 64, 64, 4, 2, 1),
    "dcgan 64-128": (64, 32, 128, 4, 2, 1), "dcgan 256-512": (256, 8, 512, 4, 2, 1),
}


def torch_seconds(shape, batch, now):
    """Times of a forward pass, and of forward and backward, in the faster layout."""
    inputs, size, outputs, window, stride, padding = shape
    best = [float("inf"), float("inf")]
    for layout in (torch.contiguous_format, torch.channels_last):
        x = torch.randn(batch, inputs, size, size).to(memory_format=layout).requires_grad_()
        w = torch.randn(outputs, inputs, window, window).to(memory_format=layout).requires_grad_()

        def forward():
            with torch.no_grad():
                functional.conv2d(x, w, None, stride, padding)

        def both():
            y = functional.conv2d(x, w, None, stride, padding)
            y.backward(y.detach())
            x.grad = w.grad = None

        best = [min(t, median_seconds(call, now=now)) for t, call in zip(best, (forward, both))]
    return dict(zip(("fwd", "fwd+bwd"), best))


def fovea_seconds(program, name, shape, threads, flags):
    """(batch, pass) -> seconds"""
    inputs, size, outputs, window, stride, padding = shape
    command = [program, "bench", "conv", "--json", "--only", name, "--threads", str(threads), *flags]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    side = (size + 2 * padding - window) // stride + 1
    times = {}
    for line in map(json.loads, text.splitlines()):
        flops = 2 * line["batch"] * outputs * side * side * inputs * window * window
        flops *= 3 if line["pass"] == "fwd+bwd" else 1
        times[line["batch"], line["pass"]] = 1e-9 * flops / line["gflops"]
    return times


def main():
    args = arguments(__doc__, threads=True, only=True)
    keep_memory()
    torch.manual_seed(1)
    threads = args.threads or 2
    torch.set_num_threads(threads)
    now, flags = clock(threads)
    seconds, ratios = {}, []
    for name, shape in SHAPES.items():
        if args.only and args.only not in name:
            continue
        for _ in range(args.rounds):
            for batch in (1, 32):
                for part, took in torch_seconds(shape, batch, now).items():
                    seconds.setdefault((name, batch, part, "torch"), []).append(took)
            if args.fovea:
                for (batch, part), took in fovea_seconds(args.fovea, name, shape, threads, flags).items():
                    seconds.setdefault((name, batch, part, "fovea"), []).append(took)
        for batch in (1, 32):
            for part in ("fwd", "fwd+bwd"):
                took = {by: statistics.median(seconds[name, batch, part, by])
                        for by in ("torch", "fovea") if (name, batch, part, by) in seconds}
                line = {f"{by}_ms": round(1e3 * t, 3) for by, t in took.items()}
                if len(took) == 2:
                    line["fovea_vs_torch"] = round(took["torch"] / took["fovea"], 3)
                    ratios.append(line["fovea_vs_torch"])
                show(bench="peers", name=name, batch=batch, threads=threads, **{"pass": part}, **line)
    if ratios:
        show(bench="peers", name="all", median=round(statistics.median(ratios), 3), count=len(ratios),
             below_095=sum(r < 0.95 for r in ratios), below_085=sum(r < 0.85 for r in ratios))


if __name__ == "__main__":
    main()
