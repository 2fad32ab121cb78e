"""What the peer scripts share: timing as `fovea bench` does it, and running the program itself."""
import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import time


def keep_memory():
    """Starts the script again with an allocator that keeps freed memory. Otherwise PyTorch's large
    results come from fresh pages each time, and page faults would be measured, not kernels."""
    wanted = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
    if all(os.environ.get(key) == value for key, value in wanted.items()):
        return
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})


def arguments(about, threads=False, only=False):
    """The options that all scripts have; --threads and --only where a script asks for them."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--fovea", metavar="PROGRAM", help="run this program too and print the ratio")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each contender [7]")
    if threads:
        parser.add_argument("--threads", type=int, help="with this many only [one and all CPUs]")
    if only:
        parser.add_argument("--only", metavar="NAME", help="only the row of that name")
    return parser.parse_args()


def read_safetensors(path):
    """A file of f32 tensors as PyTorch's, by their names."""
    import torch  # not every script has it
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


def median_seconds(call, least=0.2):
    """Median time of one call over at least `least` seconds, after a warm-up."""
    for _ in range(3):
        call()
    times, end = [], time.perf_counter() + least
    while len(times) < 5 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def thread_settings():
    """One thread, and every CPU this process may use."""
    return sorted({1, len(os.sched_getaffinity(0))})


def run_fovea(program, only):
    """Lines of `fovea bench ops` for the rows whose name contains `only`."""
    command = [program, "bench", "ops", "--json", "--quick", "--only", only]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def show(**line):
    print(json.dumps(line), flush=True)
