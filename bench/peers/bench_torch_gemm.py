"""Products in bf16 of GPT-2's linear layers in PyTorch against `fovea bench gemm`.

    python3 bench/peers/bench_torch_gemm.py --fovea build/release/fovea [--level amx] [--threads 16]

Both sides run alternately, --rounds times, with the same number of threads; a figure is the median. A ratio is
Fovea's speed over PyTorch's.
"""
import argparse
import json
import statistics
import subprocess

import common

common.keep_memory()

import torch  # noqa: E402


def ours(program, level, threads):
    command = [program, "bench", "gemm", "--json", "--only", "linear_bf16", "-l", level, "-t", str(threads)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in text.splitlines()]
    return {(x["m"], x["n"], x["k"]): x["gflops"] for x in lines if x.get("name") == "linear_bf16"}


def theirs(shape):
    m, n, k = shape
    x = torch.randn(m, k).bfloat16()
    w = torch.randn(n, k).bfloat16()
    with torch.no_grad():
        seconds = common.median_seconds(lambda: torch.nn.functional.linear(x, w))
    return 2e-9 * m * n * k / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fovea", required=True, metavar="PROGRAM")
    parser.add_argument("--level", default="auto")
    parser.add_argument("--threads", type=int, default=common.thread_settings()[-1])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rounds = []
    for _ in range(args.rounds):
        mine = ours(args.fovea, args.level, args.threads)
        rounds.append({shape: (speed, theirs(shape)) for shape, speed in mine.items()})
    ratios = []
    for shape in rounds[0]:
        fovea = statistics.median(r[shape][0] for r in rounds)
        torch_ = statistics.median(r[shape][1] for r in rounds)
        ratios.append(fovea / torch_)
        common.show(m=shape[0], n=shape[1], k=shape[2], threads=args.threads, fovea_gflops=round(fovea),
                    torch_gflops=round(torch_), ratio=round(fovea / torch_, 3))
    common.show(median=round(statistics.median(ratios), 3), least=round(min(ratios), 3))


if __name__ == "__main__":
    main()
