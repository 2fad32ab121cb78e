"""A 128-unit LSTM over 50 steps, batch 1, forward and backward to all weights: PyTorch on the CPU
with its best number of threads. With --fovea PROGRAM both run alternately, and the last line is Fovea's
speed over PyTorch's."""
import statistics

import torch

from common import arguments, median_seconds, run_fovea, show, thread_settings

UNITS, STEPS = 128, 50


def torch_pass():
    model = torch.nn.LSTM(UNITS, UNITS)
    x = torch.randn(STEPS, 1, UNITS)

    def call():
        model.zero_grad(set_to_none=True)
        out, _ = model(x)
        out.sum().backward()

    return call


def main():
    args = arguments(__doc__)
    torch.manual_seed(1)
    call = torch_pass()
    torch_times = {threads: [] for threads in thread_settings()}
    fovea_times = {}
    for _ in range(args.rounds):
        for threads, times in torch_times.items():
            torch.set_num_threads(threads)
            times.append(median_seconds(call))
        if args.fovea:
            for line in run_fovea(args.fovea, "lstm_128x50"):
                fovea_times.setdefault(line["threads"], []).append(1e-9 * line["ns"])
    best = {}
    for name, settings in (("torch " + torch.__version__, torch_times), ("fovea", fovea_times)):
        for threads, times in settings.items():
            seconds = statistics.median(times)
            best[name.split()[0]] = min(seconds, best.get(name.split()[0], seconds))
            show(bench="peers", name="lstm_128x50", by=name, dtype="f32", threads=threads,
                 ns=round(1e9 * seconds))
    if args.fovea:
        show(bench="peers", name="lstm_128x50", vs_torch=round(best["torch"] / best["fovea"], 3))


if __name__ == "__main__":
    main()
