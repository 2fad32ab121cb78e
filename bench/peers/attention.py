"""Attention against PyTorch's scaled_dot_product_attention and onnxruntime's MultiHeadAttention.

    python3 bench/peers/attention.py --library build/release/libfovea.so [--json] [--quick]
    python3 bench/peers/attention.py --only fwd,causal,n=512,d=128 --threads 1    # a part of it
    python3 bench/peers/attention.py --fovea build/release/fovea    # with shares of the peak
    python3 bench/peers/attention.py --bf16 --level amx --threads 16    # bf16 on AMX tiles

All candidates run in this process on the same arrays, alternately; a time is the median over the
rounds. libfovea.so is called through ctypes on raw pointers. PyTorch is measured with one thread
and with all CPUs, and the better time counts; onnxruntime and Fovea use the same numbers of threads.
A ratio is Fovea's speed over the other's.

With --fovea the program measures the FMA peak before and after each line. Then `share` is Fovea's
share of the peak, and `most_torch` and the like are the ratios of a kernel at 100 % of the peak.
"""
import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import time

import common

common.keep_memory()

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as functional  # noqa: E402

FORWARD, BACKWARD = 0, 1
TOP_LEFT = 1
F32, BF16 = 0, 2
LEVELS = {"auto": 0, "scalar": 1, "avx2": 2, "avx512": 3, "amx": 4}  # fv_simd on x86-64


def request_amx():
    """Asks Linux for the permission to use AMX, as a context with request_amx does."""
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    if ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) != 0:
        sys.exit("level amx: the system does not permit AMX")


# ---- Fovea through ctypes ------------------------------------------------------------


class Layout(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "head", "row")]


class Grid(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("batch", "head", "row", "col")]


def structure(header, name, kinds):
    """Reads the fields of a struct from the header, so that new ones are picked up."""
    text = header.split(f"typedef struct {name} {{", 1)[1].split(f"}} {name};", 1)[0]
    while "/*" in text:
        before, rest = text.split("/*", 1)
        text = before + " " + rest.split("*/", 1)[1]
    fields = []
    for declaration in text.split(";"):
        words = declaration.replace("*", " * ").split()
        if not words:
            continue
        if "(" in declaration:
            fields.append((declaration.split("(*", 1)[1].split(")", 1)[0], ctypes.c_void_p))
            continue
        words = [word for word in words if word != "const"]
        kind, names = words[0], "".join(words[1:])
        for item in names.split(","):
            pointer = item.startswith("*") or kind == "fv_pool"
            item, _, count = item.strip("*").partition("[")
            type_ = ctypes.c_void_p if pointer else kinds[kind]
            fields.append((item, type_ * int(count[:-1]) if count else type_))
    return type(name, (ctypes.Structure,), {"_fields_": fields})


class Fovea:
    def __init__(self, path, header_path, level="auto"):
        self.lib = ctypes.CDLL(path)
        self.level = LEVELS[level]
        if level == "amx":
            request_amx()
        with open(header_path, encoding="utf-8") as file:
            header = file.read()
        kinds = {"size_t": ctypes.c_size_t, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
                 "double": ctypes.c_double, "bool": ctypes.c_bool, "int": ctypes.c_int,
                 "fv_attn_layout": Layout, "fv_attn_grid": Grid, "void": None}
        for enum in ("fv_dtype", "fv_attn_score", "fv_causal", "fv_simd"):
            kinds[enum] = ctypes.c_int
        kinds["fv_attention_rule"] = structure(header, "fv_attention_rule", kinds)
        self.Attn = structure(header, "fv_attn", kinds)
        self.Data = structure(header, "fv_attn_data", kinds)
        self.Exec = structure(header, "fv_attn_exec", kinds)
        self.pools = {}

    def check(self, status, what):
        if status != 0:
            sys.exit(f"{what} failed with status {status}")

    def pool(self, threads):
        if threads > 1 and threads not in self.pools:
            made = ctypes.c_void_p()
            self.check(self.lib.fv_pool_create(threads, ctypes.byref(made)), "fv_pool_create")
            self.pools[threads] = made
        return self.pools.get(threads)

    def candidate(self, q, k, v, grad, causal, threads, backward):
        """Returns a function that runs the pass once, and its output. int16 arrays hold bf16."""
        lib, size = self.lib, q.shape
        a = self.Attn()
        lib.fv_attn_init(ctypes.byref(a), ctypes.c_size_t(ctypes.sizeof(a)))
        a.dtype = BF16 if q.dtype == np.int16 else F32
        a.batch, a.heads, a.n_q, a.d = size
        a.kv_heads, a.n_k, a.d_v = size[1], size[2], size[3]
        a.rule.causal = TOP_LEFT if causal else 0
        lib.fv_attn_dense(ctypes.byref(a))
        o, lse = np.zeros(size, q.dtype), np.zeros(size[:3], np.float32)
        grads = [np.zeros(size, q.dtype) for _ in range(3)]
        data = self.Data()
        named = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "grad_o": grad,
                 "grad_q": grads[0], "grad_k": grads[1], "grad_v": grads[2]}
        for name, array in named.items():
            setattr(data, name, array.ctypes.data)
        execution = self.Exec()
        execution.pool = self.pool(threads)
        execution.level = self.level
        need = 0
        for which in (FORWARD, BACKWARD):
            bytes_ = ctypes.c_size_t()
            self.check(lib.fv_attn_scratch(ctypes.byref(a), which, threads, ctypes.byref(bytes_)),
                       "fv_attn_scratch")
            need = max(need, bytes_.value)
        scratch = np.zeros(need + 64, np.uint8)
        at = (scratch.ctypes.data + 63) // 64 * 64
        arguments = (ctypes.byref(a), ctypes.byref(data), ctypes.byref(execution),
                     ctypes.c_void_p(at), ctypes.c_size_t(need))

        def run(keep=(named, grads, scratch, a, data, execution)):
            self.check(lib.fv_attn_forward(*arguments), "fv_attn_forward")
            if backward:
                self.check(lib.fv_attn_backward(*arguments), "fv_attn_backward")

        return run, o


# ---- the peers -----------------------------------------------------------------------


def tensor_of(array):
    """Wraps the same memory for PyTorch; int16 arrays hold bf16."""
    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if array.dtype == np.int16 else tensor


def torch_candidate(q, k, v, grad, causal, threads, backward):
    tensors = [tensor_of(x).requires_grad_(backward) for x in (q, k, v)]
    g = tensor_of(grad)
    result = {}

    def run():
        torch.set_num_threads(threads)
        for t in tensors:
            t.grad = None
        with torch.set_grad_enabled(backward):
            result["o"] = functional.scaled_dot_product_attention(*tensors, is_causal=causal)
        if backward:
            result["o"].backward(g)

    return run, result


def onnx_session(heads, causal, threads):
    try:
        import onnxruntime
        from onnx import TensorProto, helper
    except ImportError:
        return None
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["o"], domain="com.microsoft",
                            num_heads=heads, unidirectional=int(causal))
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None, None])
              for name in ("q", "k", "v", "o")]
    graph = helper.make_graph([node], "attention", values[:3], values[3:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model.SerializeToString(), options,
                                        providers=["CPUExecutionProvider"])


def onnx_candidate(q, k, v, causal, threads):
    session = onnx_session(q.shape[1], causal, threads)
    if session is None:
        return None
    flat = {name: np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1)
            for name, x in (("q", q), ("k", k), ("v", v))}
    result = {}

    def run():
        result["o"] = session.run(None, flat)[0]

    return run, result


# ---- measuring -----------------------------------------------------------------------


def run_rounds(candidates, rounds, fastest):
    """Returns median (or fastest) seconds per call; every round runs each candidate once."""
    times = {name: [] for name in candidates}
    for run in candidates.values():
        run()
    for _ in range(rounds):
        for name, run in candidates.items():
            calls, start = 0, time.perf_counter()
            while calls == 0 or time.perf_counter() - start < 0.02:
                run()
                calls += 1
            times[name].append((time.perf_counter() - start) / calls)
    pick = min if fastest else statistics.median
    return {name: pick(all_) for name, all_ in times.items()}


def best(times, side):
    """Returns threads and seconds of a side's best setting."""
    sides = {name: s for name, s in times.items() if name.startswith(side + " ")}
    name = min(sides, key=sides.get)
    return int(name.split()[1]), sides[name]


def peaks(program):
    """Returns the FMA peak in GFLOP/s by number of threads."""
    command = [program, "bench", "peak", "--json", "--only", "fma"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [json.loads(line) for line in text.splitlines()]
    most = {}
    for line in lines:
        if line["dtype"] == "f32":
            most[line["threads"]] = max(most.get(line["threads"], 0), line["gflops"])
    return most


def operations(shape, causal, backward):
    """FLOPs as FlashAttention counts them: half under a causal mask, 2.5 times as many in backward."""
    batch, heads, n, d = shape
    return 4 * batch * heads * n * n * d * (0.5 if causal else 1) * (3.5 if backward else 1)


def shares(line, times, work, peak):
    """Adds the share of the peak, and the ratios that 100 % of the peak would give."""
    threads, seconds = best(times, "fovea")
    line["share"] = work / seconds / peak[threads] / 1e9
    threads, seconds = best(times, "torch")
    line["most_torch"] = seconds * peak[max(peak)] * 1e9 / work
    for name, seconds in times.items():
        if name.startswith("onnx "):
            threads = int(name.split()[1])
            line[f"most_onnx_{threads}"] = seconds * peak[threads] * 1e9 / work


def random_array(rng, shape, bf16):
    array = rng.standard_normal(shape, np.float32)
    return torch.from_numpy(array).bfloat16().view(torch.int16).numpy() if bf16 else array


def measure(fovea, shape, causal, backward, rounds, settings, fastest, program=None, bf16=False):
    rng = np.random.default_rng(1)
    q, k, v, grad = (random_array(rng, shape, bf16) for _ in range(4))
    candidates, outputs = {}, {}
    for threads in settings:
        run, o = fovea.candidate(q, k, v, grad, causal, threads, backward)
        candidates[f"fovea {threads}"] = run
        outputs["fovea"] = lambda o=o: tensor_of(o).float().numpy()
        run, result = torch_candidate(q, k, v, grad, causal, threads, backward)
        candidates[f"torch {threads}"] = run
        outputs["torch"] = lambda result=result: result["o"].detach().float().numpy()
        onnx = None if backward or bf16 else onnx_candidate(q, k, v, causal, threads)
        if onnx:
            candidates[f"onnx {threads}"] = onnx[0]
            outputs["onnx"] = lambda result=onnx[1]: result["o"].reshape(
                shape[0], shape[2], shape[1], shape[3]).transpose(0, 2, 1, 3)
    before = peaks(program) if program else {}
    times = run_rounds(candidates, rounds, fastest)
    for side in ("torch", "onnx"):
        if side in outputs:
            far = float(np.abs(outputs[side]() - outputs["fovea"]()).max())
            assert far < (0.05 if bf16 else 1e-4), f"{side} computes something else: off by {far}"
    line = {"bench": "peers/attention", "dtype": "bf16" if bf16 else "f32",
            "pass": "fwd+bwd" if backward else "fwd", "causal": causal, "batch": shape[0],
            "heads": shape[1], "n": shape[2], "d": shape[3], "fastest": fastest}
    line.update({f"{name.replace(' ', '_')}_ms": 1e3 * s for name, s in times.items()})
    line["vs_torch"] = best(times, "torch")[1] / best(times, "fovea")[1]
    for threads in settings:
        if f"onnx {threads}" in times:
            line[f"vs_onnx_{threads}"] = times[f"onnx {threads}"] / times[f"fovea {threads}"]
    if program:
        peak = {threads: max(before[threads], most) for threads, most in peaks(program).items()}
        shares(line, times, operations(shape, causal, backward), peak)
    return line


def show_row(line, first):
    names = [key for key in line if key.endswith("_ms") or key.startswith(("vs_", "most_", "share"))]
    if first:
        print(f"{'pass':8} {'mask':7} {'heads':>7} {'n':>5} {'d':>4} " +
              " ".join(f"{n:>11}" for n in names))
    mask = "causal" if line["causal"] else "full"
    heads = f"{line['batch']} x {line['heads']}"
    numbers = " ".join(f"{line[n]:11.2f}" for n in names)
    print(f"{line['pass']:8} {mask:7} {heads:>7} {line['n']:5} {line['d']:4} {numbers}", flush=True)


def shapes_of(options):
    """[batch, heads, n, d]: long sequences, then batches typical of a translator and a BERT."""
    if options.quick:
        return [(1, 8, 512, 64), (1, 8, 2048, 64)]
    long = [(1, 8, n, d) for n in (512, 2048, 8192) for d in (64, 128)]
    return long + [(64, 8, 32, 64), (16, 12, 128, 64)]


def wanted(options, backward, shape, causal):
    """True if a line matches every word of --only: fwd or fwd+bwd, full or causal, b=, n=, d=."""
    words = {"fwd+bwd" if backward else "fwd", "causal" if causal else "full",
             f"b={shape[0]}", f"n={shape[2]}", f"d={shape[3]}"}
    return all(word in words for word in options.only.split(",") if word)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--library", default="build/release/libfovea.so", help="libfovea.so")
    parser.add_argument("--header", default="include/fovea/attention_kernels.h",
                        help="the header it was built with")
    parser.add_argument("--fovea", metavar="PROGRAM",
                        help="program that measures the peak; prints shares of it")
    parser.add_argument("--bf16", action="store_true",
                        help="bf16 inputs instead of f32, without onnxruntime")
    parser.add_argument("--level", default="auto", choices=LEVELS,
                        help="SIMD level of Fovea's kernels [auto]")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument("--quick", action="store_true", help="N = 512 and 2048 with d = 64")
    parser.add_argument("--only", default="", metavar="WORDS",
                        help="only lines that match all of these, e.g. fwd+bwd,full,b=1,n=8192,d=64")
    parser.add_argument("--threads", type=int, help="number of threads [one and all CPUs]")
    parser.add_argument("--fastest", action="store_true",
                        help="take the fastest round of each, for machines that are never quiet")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each candidate [7]")
    options = parser.parse_args()
    fovea = Fovea(options.library, options.header, options.level)
    settings = [options.threads] if options.threads else common.thread_settings()
    first = None
    for backward in (False, True):
        for shape in shapes_of(options):
            for causal in (False, True):
                if not wanted(options, backward, shape, causal):
                    continue
                rounds = min(3, options.rounds) if shape[2] > 4096 else options.rounds
                line = measure(fovea, shape, causal, backward, rounds, settings, options.fastest,
                               options.fovea, options.bf16)
                if options.json:
                    common.show(**line)
                else:
                    show_row(line, first != backward)
                    first = backward


if __name__ == "__main__":
    main()
