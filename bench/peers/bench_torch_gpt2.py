"""GPT-2 124M in PyTorch against `fovea bench model` with the same weights: prefill of 512 tokens with all
logits, decoding with a cache, training steps with AdamW at batch 4 and lengths 64 and 512, also in bf16
(autocast in PyTorch). Compares the logits of one text. Both sides run alternately, PyTorch with its best
number of threads. The last lines are Fovea's speed over PyTorch's. Needs --fovea PROGRAM."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from torch.nn import functional as F

from common import arguments, keep_memory, read_safetensors, show, thread_settings
from torch_gpt2 import GPT2

HEADS, VOCABULARY = 12, 50257


def check_logits(model, program, folder):
    ids = torch.randint(VOCABULARY, (1, 64))
    numpy.save(os.path.join(folder, "ids.npy"), ids.numpy())
    out = os.path.join(folder, "logits.npy")
    subprocess.run([program, "run", folder, "--ids", os.path.join(folder, "ids.npy"), "--logits", out],
                   check=True)
    with torch.no_grad():
        theirs = model(ids)[0].numpy()
    ours = numpy.load(out)
    off = float(abs(ours - theirs).max() / abs(theirs).max())
    show(check="logits", off=off)
    if not off < 2e-5:
        sys.exit("the logits differ")


def work_of(model):
    ids = torch.randint(VOCABULARY, (4, 513))
    optim = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def prefill():
        with torch.no_grad():
            model(ids[:1, :512])

    def decode(steps=8):
        with torch.no_grad():
            past = model(ids[:1, :16])[1]
            start = time.perf_counter()
            for i in range(steps):
                past = model(ids[:1, 16 + i:17 + i], past)[1]
            return (time.perf_counter() - start) / steps

    def train(length, bf16=False):
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(ids[:, :length])[0]
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:length + 1].flatten())
        loss.backward()
        optim.step()
        optim.zero_grad()

    return {"prefill_512": prefill, "decode_1": decode, "train_64": lambda: train(64),
            "train_512": lambda: train(512), "train_bf16_64": lambda: train(64, True),
            "train_bf16_512": lambda: train(512, True)}


def seconds(call):
    start = time.perf_counter()
    own = call()
    return own or time.perf_counter() - start


def run_fovea(program, only, level, threads):
    command = [program, "bench", "model", "--json", "--quick", "--only", only, "-l", level]
    command += ["-t", str(threads)] if threads else []
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    lines = [json.loads(line) for line in lines]
    return next(line["ns"] for line in lines if "ns" in line) * 1e-9


def main():
    keep_memory()
    args = arguments(__doc__, threads=True, only=True, level=True)
    if not args.fovea:
        sys.exit("--fovea PROGRAM is needed")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([args.fovea, "bench", "model", "--quick", "--only", "cold_start", "-o", folder],
                       check=True, stdout=subprocess.DEVNULL)
        model = GPT2(read_safetensors(os.path.join(folder, "model.safetensors")), HEADS)
        check_logits(model, args.fovea, folder)
    for name, call in work_of(model).items():
        if args.only not in (None, name):
            continue
        rounds = 1 if name.endswith("512") and "train" in name else min(args.rounds, 3)
        theirs, ours = {}, []
        for threads in [args.threads] if args.threads else thread_settings():
            torch.set_num_threads(threads)
            seconds(call)
            theirs[threads] = []
        for _ in range(rounds):
            for threads, times in theirs.items():
                torch.set_num_threads(threads)
                times.append(seconds(call))
            ours.append(run_fovea(args.fovea, name, args.level, args.threads))
        best = min(statistics.median(times) for times in theirs.values())
        own = statistics.median(ours)
        show(bench=name, torch=torch.__version__, torch_seconds=best, fovea_seconds=own,
             ratio=best / own)


main()
