"""Greedy tours of the attention model of Kool, van Hoof and Welling (2019) through 20, 50 and 100
cities, batched. PyTorch against `fovea bench pointer` with the same weights and instances; compares the
tours. PyTorch runs in two forms, each with several batch sizes of which the fastest counts. "published" has
the operations of the published program: products per head, batch norms, keys and values once, and every
step's projections of its context and of its attention. "rewritten" is that after Fovea's own algebra: fused
products, norms as one product and one sum, what the first and the last city add to a query computed once,
the output projection of the attention multiplied into the keys, scaled_dot_product_attention. The last
lines are Fovea's speed over PyTorch's, each with its best number of threads. Needs --fovea PROGRAM."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch.nn import functional as F

from common import arguments, keep_memory, read_safetensors, show, thread_settings

SIZES = (20, 50, 100)
BATCHES = (16, 32, 64, 256)


class Routes:
    def __init__(self, w):
        self.heads, self.width = w["embedder.layers.0.0.module.W_query"].shape[:2]
        self.embed = w["init_embed.weight"], w["init_embed.bias"]
        self.layers = []
        for i in range(1000):
            prefix = f"embedder.layers.{i}."
            if prefix + "0.module.W_query" not in w:
                break
            qkv = torch.cat([w[prefix + "0.module." + name].transpose(1, 2).reshape(-1, self.width)
                             for name in ("W_query", "W_key", "W_val")])
            out = w[prefix + "0.module.W_out"].reshape(-1, self.width).t().contiguous()
            norms = []
            for k in (1, 3):  # running statistics: one product and one sum
                n = {key: w[f"{prefix}{k}.normalizer.{key}"]
                     for key in ("weight", "bias", "running_mean", "running_var")}
                scale = n["weight"] / torch.sqrt(n["running_var"] + 1e-5)
                norms.append((scale, n["bias"] - scale * n["running_mean"]))
            ff = [w[f"{prefix}2.module.{k}.{key}"] for k in (0, 2) for key in ("weight", "bias")]
            self.layers.append((qkv, out, norms, ff))
        node, out = w["project_node_embeddings.weight"], w["project_out.weight"]
        d = self.width
        self.node = torch.cat([node[:2 * d], out.t() @ node[2 * d:]])
        self.fixed, self.step = w["project_fixed_context.weight"], w["project_step_context.weight"]
        self.none = F.linear(w["W_placeholder"], self.step)

    @torch.inference_mode()
    def encode(self, x):
        h = F.linear(x, *self.embed)
        rows, n, d = h.shape
        for qkv, out, norms, ff in self.layers:
            q, k, v = F.linear(h, qkv).view(rows, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(rows, n, d)
            h = torch.addcmul(norms[0][1], h + F.linear(a, out), norms[0][0])
            h = h + F.linear(torch.relu(F.linear(h, ff[0], ff[1])), ff[2], ff[3])
            h = torch.addcmul(norms[1][1], h, norms[1][0])
        return h

    @torch.inference_mode()
    def tours(self, x):
        h = self.encode(x)
        rows, n, d = h.shape
        node = F.linear(h, self.node)
        k, v = node[..., :2 * d].view(rows, n, 2, self.heads, -1).permute(2, 0, 3, 1, 4).contiguous()
        point = node[..., 2 * d:].contiguous()
        fixed = F.linear(h.mean(1), self.fixed)
        first, last = F.linear(h, self.step[:, :d]), F.linear(h, self.step[:, d:])
        row = torch.arange(rows)
        hidden = torch.zeros(rows, n)
        query, tour = fixed + self.none, []
        for _ in range(n):
            q = query.view(rows, self.heads, 1, -1)
            g = F.scaled_dot_product_attention(q, k, v, attn_mask=hidden[:, None, None])
            u = torch.bmm(point, g.reshape(rows, d, 1))[..., 0]
            best = (10 * torch.tanh(u / d ** 0.5) + hidden).argmax(1)
            if not tour:
                begun = fixed + first[row, best]
            tour.append(best)
            hidden[row, best] = float("-inf")
            query = begun + last[row, best]
        return torch.stack(tour, 1)


class Published:
    """The operations of the published program."""

    def __init__(self, w):
        self.w = w
        self.heads, self.width = w["embedder.layers.0.0.module.W_query"].shape[:2]
        self.layers = sum(name.endswith("W_query") for name in w)

    def norm(self, h, prefix):
        n = {key: self.w[f"{prefix}.normalizer.{key}"]
             for key in ("running_mean", "running_var", "weight", "bias")}
        flat = F.batch_norm(h.view(-1, self.width), n["running_mean"], n["running_var"], n["weight"],
                            n["bias"], False, 0, 1e-5)
        return flat.view(h.shape)

    @torch.inference_mode()
    def encode(self, x):
        w, (rows, n, _) = self.w, x.shape
        h = F.linear(x, w["init_embed.weight"], w["init_embed.bias"])
        for i in range(self.layers):
            at = f"embedder.layers.{i}."
            flat = h.reshape(-1, self.width)
            q, k, v = (torch.matmul(flat, w[at + "0.module." + name]).view(self.heads, rows, n, -1)
                       for name in ("W_query", "W_key", "W_val"))
            p = torch.softmax(torch.matmul(q, k.transpose(2, 3)) / q.shape[-1] ** 0.5, -1)
            a = torch.matmul(p, v).permute(1, 2, 0, 3).reshape(-1, self.width)
            out = torch.mm(a, w[at + "0.module.W_out"].view(-1, self.width)).view(rows, n, -1)
            h = self.norm(h + out, at + "1")
            up = torch.relu(F.linear(h, w[at + "2.module.0.weight"], w[at + "2.module.0.bias"]))
            h = self.norm(h + F.linear(up, w[at + "2.module.2.weight"], w[at + "2.module.2.bias"]),
                          at + "3")
        return h

    @torch.inference_mode()
    def tours(self, x):
        w, h = self.w, self.encode(x)
        rows, n, d = h.shape
        k, v, point = F.linear(h, w["project_node_embeddings.weight"]).chunk(3, -1)
        k, v = (t.reshape(rows, n, self.heads, -1).permute(2, 0, 1, 3).contiguous() for t in (k, v))
        point = point.contiguous()
        fixed = F.linear(h.mean(1), w["project_fixed_context.weight"])
        row, visited, tour = torch.arange(rows), torch.zeros(rows, n, dtype=torch.bool), []
        for _ in range(n):
            context = (torch.cat([h[row, tour[0]], h[row, tour[-1]]], 1) if tour
                       else w["W_placeholder"].expand(rows, -1))
            q = (fixed + F.linear(context, w["project_step_context.weight"])).view(
                rows, self.heads, 1, -1).transpose(0, 1)
            u = torch.matmul(q, k.transpose(-2, -1)) / q.shape[-1] ** 0.5
            u = u.masked_fill(visited[None, :, None], float("-inf"))
            g = torch.matmul(torch.softmax(u, -1), v).permute(1, 2, 0, 3).reshape(rows, 1, d)
            g = F.linear(g, w["project_out.weight"])
            u = torch.matmul(g, point.transpose(1, 2))[:, 0] / d ** 0.5
            u = (10 * torch.tanh(u)).masked_fill(visited, float("-inf"))
            best = torch.log_softmax(u, -1).argmax(1)
            tour.append(best)
            visited = visited.scatter(1, best[:, None], True)
        return torch.stack(tour, 1)


def all_tours(model, points, batch):
    return torch.cat([model.tours(x) for x in points.split(batch)])


def timed(call, choices, least=0.5):
    call()
    times, end = [], time.perf_counter() + least
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(1e9 * (time.perf_counter() - begin) / choices)
    return statistics.median(times)


def run_torch(model, points, threads):
    torch.set_num_threads(threads)
    return {f"tours_{n}": min(timed(lambda: all_tours(model, x, batch), x.shape[0] * n, 0.3)
                              for batch in BATCHES) for n, x in points.items()}


def run_fovea(program, threads):
    command = [program, "bench", "pointer", "--json", "--quick", "-t", str(threads), "--only", "tours"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line["name"]: line["ns"] for line in map(json.loads, text.splitlines())}


def main():
    args = arguments(__doc__, threads=True)
    if not args.fovea:
        sys.exit("bench_torch_tsp.py: --fovea PROGRAM is needed")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([args.fovea, "bench", "pointer", "--quick", "--only", "nothing", "-o", folder],
                       check=False, capture_output=True)
        with open(os.path.join(folder, "work.json")) as file:
            work = json.load(file)
        weights = read_safetensors(os.path.join(folder, "tours", "model.safetensors"))
    models = {"published": Published(weights), "rewritten": Routes(weights)}
    sound, points = True, {}
    for n in SIZES:
        part = work[f"tours_{n}"]
        points[n] = torch.tensor(part["points"]).view(-1, n, 2)
        for by, model in models.items():
            found = all_tours(model, points[n], 64).tolist()
            equal = sum(a == b for a, b in zip(found, part["tours"]))
            show(bench="peers", name=f"tours_{n}", by=by, tours=len(found), equal_tours=equal)
            sound = sound and equal >= 0.95 * len(found)
    times = {}
    for _ in range(args.rounds):
        for threads in [args.threads] if args.threads else thread_settings():
            runs = [(by, run_torch(model, points, threads)) for by, model in models.items()]
            for by, got in runs + [("fovea", run_fovea(args.fovea, threads))]:
                for name, ns in got.items():
                    times.setdefault((name, by, threads), []).append(ns)
    best = {}
    for (name, by, threads), list_of_ns in times.items():
        ns = statistics.median(list_of_ns)
        best[name, by] = min(ns, best.get((name, by), ns))
        show(bench="peers", name=name, by=by if by == "fovea" else f"torch {torch.__version__} {by}",
             threads=threads, choices_per_second=round(1e9 / ns))
    for name in dict.fromkeys(name for name, _ in best):
        show(bench="peers", name=name,
             **{f"vs_{by}": round(best[name, by] / best[name, "fovea"], 3) for by in models})
    sys.exit(not sound)


if __name__ == "__main__":
    keep_memory()
    main()
