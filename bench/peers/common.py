"""Shared by the peer scripts: timing as in `fovea bench`, and running the program."""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import time


def keep_memory():
    """Restarts the script with an allocator that keeps freed memory. Otherwise PyTorch's large results
    come from fresh pages each time, and the script would measure page faults instead of kernels."""
    wanted = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
    if all(os.environ.get(key) == value for key, value in wanted.items()):
        return
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})


def arguments(about, threads=False, only=False, level=False):
    """Common options; --threads, --only and --level on request."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--fovea", metavar="PROGRAM", help="run this program too and print the ratio")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each candidate [7]")
    if threads:
        parser.add_argument("--threads", type=int, help="number of threads [one and all CPUs]")
    if only:
        parser.add_argument("--only", metavar="NAME", help="run only the row of this name")
    if level:
        parser.add_argument("--level", default="auto", help="kernel level of the program [auto]")
    return parser.parse_args()


def read_safetensors(path):
    """Reads a file of f32 tensors as PyTorch tensors, by name."""
    import torch  # not every script needs it
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            flat = torch.frombuffer(data[begin:end], dtype=torch.float32)
            tensors[name] = flat.reshape(entry["shape"]).clone()
    return tensors


def clock(threads):
    """The clock for both candidates, and the program's flag for it: with one thread its CPU time,
    which other programs do not affect, else elapsed time."""
    return (time.thread_time, ["--cpu-time"]) if threads == 1 else (time.perf_counter, [])


def median_seconds(call, least=0.2, now=time.perf_counter):
    """Median time per call over at least `least` seconds, after a warm-up."""
    for _ in range(3):
        call()
    times, end = [], now() + least
    while len(times) < 5 or now() < end:
        start = now()
        call()
        times.append(now() - start)
    return statistics.median(times)


def thread_settings():
    """One thread, and all CPUs of this process."""
    return sorted({1, len(os.sched_getaffinity(0))})


def run_fovea(program, only, suite="ops"):
    """Runs a suite of `fovea bench` for the rows whose name contains `only`."""
    command = [program, "bench", suite, "--json", "--quick", "--only", only]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def show(**line):
    print(json.dumps(line), flush=True)
