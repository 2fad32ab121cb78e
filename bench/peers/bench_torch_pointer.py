"""Training steps of a pointer network (Vinyals, Fortunato, Jaitly 2015) over sets of ten cities, with
self-attention or an LSTM as its encoder: PyTorch against `fovea bench pointer` with the same weights and
batches. Compares the losses of the first steps. The answers are given, so PyTorch too runs the decoder's
LSTM over all steps at once and scores all steps in one broadcast sum; attention is
scaled_dot_product_attention, Adam is the fused one. PyTorch runs in two forms. "published" has the operations
of the published model. "rewritten" is that after Fovea's own algebra: the embedding of the cities multiplied
into the weights of the LSTMs that read it, and no last step, which has one choice left. The last lines are
Fovea's speed over PyTorch's, each with its best number of threads. With one thread, times are CPU times. Needs --fovea PROGRAM."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

import torch
from torch.nn import functional as F

from common import arguments, clock, keep_memory, read_safetensors, show, thread_settings

ROWS, CITIES, HEADS = 128, 10, 8


class Pointer(torch.nn.Module):
    def __init__(self, w):
        super().__init__()
        self.names = {name: name.replace(".", "_") for name in w}
        width = w["pointer.v"].shape[0]
        self.reads_in_order = "encoder.weight_ih_l0" in w
        self.layers = sum(name.endswith("ff.up.weight") for name in w)
        self.decoder = self.lstm(w, "decoder.", 2 * width, width, 1)
        if self.reads_in_order:
            layers = sum(name.startswith("encoder.weight_ih") for name in w)
            self.encoder = self.lstm(w, "encoder.", width, width, layers)
        for name, tensor in w.items():
            if "_l" not in name:
                self.register_parameter(self.names[name], torch.nn.Parameter(tensor.clone()))

    @staticmethod
    def lstm(w, prefix, inputs, hidden, layers):
        rnn = torch.nn.LSTM(inputs, hidden, layers, batch_first=True)
        for name, _ in list(rnn.named_parameters()):
            setattr(rnn, name, torch.nn.Parameter(w[prefix + name].clone()))
        rnn.flatten_parameters()
        return rnn

    def __getitem__(self, name):
        return getattr(self, self.names[name])

    def linear(self, x, name):
        bias = self[name + ".bias"] if name + ".bias" in self.names else None
        return F.linear(x, self[name + ".weight"], bias)

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self[name + ".weight"], self[name + ".bias"], 1e-5)

    def read(self, e):
        """States of the inputs, and the decoder's first state."""
        if self.reads_in_order:
            h, (last, cell) = self.encode(e)
            return h, last[-1:], cell[-1:]
        x, (rows, n, width) = e, e.shape
        for i in range(self.layers):
            y = self.norm(x, f"encoder.{i}.self_norm")
            q, k, v = (self.linear(y, f"encoder.{i}.self.{name}_proj").view(
                rows, n, HEADS, -1).transpose(1, 2) for name in "qkv")
            y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(rows, n, width)
            x = x + self.linear(y, f"encoder.{i}.self.out_proj")
            y = self.norm(x, f"encoder.{i}.ff_norm")
            y = F.gelu(self.linear(y, f"encoder.{i}.ff.up"))
            x = x + self.linear(y, f"encoder.{i}.ff.down")
        h = self.norm(x, "encoder.norm")
        first = torch.tanh(self.linear(h.mean(1), "decoder.first"))[None]
        return h, first, torch.zeros_like(first)

    def encode(self, e):
        return self.encoder(e)

    def loss(self, points, answers):
        rows, n, _ = points.shape
        e = self.linear(points, "embed")
        h, first, cell = self.read(e)
        table = torch.cat([e, h], 2)
        chosen = table.gather(1, answers[:, :-1, None].expand(-1, -1, table.shape[2]))
        fed = torch.cat([self["decoder.start"].expand(rows, 1, -1), chosen], 1)
        s, _ = self.decoder(fed, (first.contiguous(), cell.contiguous()))
        k, q = self.linear(h, "pointer.key"), self.linear(s, "pointer.query")
        u = torch.tanh(q[:, :, None] + k[:, None]) @ self["pointer.v"]
        used = F.one_hot(answers, n).cumsum(1).roll(1, 1)
        used[:, 0] = 0
        u = u.masked_fill(used.bool(), float("-inf"))
        return F.cross_entropy(u.view(-1, n), answers.reshape(-1))


class Rewritten(Pointer):
    def encode(self, x):
        """The first layer's input weight times the embedding reads the points themselves."""
        w = list(self.encoder._flat_weights)
        w[2] = w[2] + w[0] @ self["embed.bias"]
        w[0] = w[0] @ self["embed.weight"]
        zeros = x.new_zeros(self.encoder.num_layers, x.shape[0], self.encoder.hidden_size)
        h, last, cell = torch.lstm(x, (zeros, zeros), w, True, self.encoder.num_layers, 0.0, True,
                                   False, True)
        return h, (last, cell)

    def loss(self, points, answers):
        rows, n, _ = points.shape
        width, steps = self["pointer.v"].shape[0], max(n - 1, 1)
        h, first, cell = self.read(points if self.reads_in_order else self.linear(points, "embed"))
        marks = points.new_tensor([1.0, 0.0]).expand(rows, n, 2)
        table = torch.cat([points, marks, h], 2)
        chosen = table.gather(1, answers[:, :steps - 1, None].expand(-1, -1, table.shape[2]))
        start = self["decoder.start"].view(-1)
        begin = torch.cat([points.new_tensor([0.0] * (points.shape[2] + 1) + [1.0]), start[width:]])
        fed = torch.cat([begin.expand(rows, 1, -1), chosen], 1)
        w = list(self.decoder._flat_weights)
        embedding = torch.cat([self["embed.weight"], self["embed.bias"][:, None],
                               start[:width, None]], 1)
        w[0] = torch.cat([w[0][:, :width] @ embedding, w[0][:, width:]], 1)
        s = torch.lstm(fed, (first.contiguous(), cell.contiguous()), w, True, 1, 0.0, True, False,
                       True)[0]
        k, q = self.linear(h, "pointer.key"), self.linear(s, "pointer.query")
        u = torch.tanh(q[:, :, None] + k[:, None]) @ self["pointer.v"]
        used = F.one_hot(answers[:, :steps], n).cumsum(1).roll(1, 1)
        used[:, 0] = 0
        u = u.masked_fill(used.bool(), float("-inf"))
        return F.cross_entropy(u.reshape(-1, n), answers[:, :steps].reshape(-1)) * (steps / n)


FORMS = {"published": Pointer, "rewritten": Rewritten}


class Work:
    def __init__(self, folder, part, name, form):
        self.form = FORMS[form]
        self.part = part[f"{name}_{CITIES}"]
        self.weights = read_safetensors(os.path.join(folder, name, "model.safetensors"))
        points = torch.tensor(self.part["points"]).view(-1, CITIES, 2).split(ROWS)
        self.batches = list(zip(points, torch.tensor(self.part["answers"]).split(ROWS)))
        self.start()

    def start(self):
        self.model = self.form(self.weights)
        self.optim = torch.optim.Adam(self.model.parameters(), 1e-3, fused=True)
        self.steps = 0

    def train(self):
        loss = self.model.loss(*self.batches[self.steps % len(self.batches)])
        self.optim.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(
            [p for p in self.model.parameters() if p.grad is not None], 1.0)
        self.optim.step()
        self.steps += 1
        return loss.item()

    def worst_difference(self):
        losses = [self.train() for _ in self.part["losses"]]
        return max(abs(a / b - 1) for a, b in zip(losses, self.part["losses"]))


def timed(call, now, least=1.0):
    call()
    times, end = [], now() + least
    while len(times) < 3 or now() < end:
        begin = now()
        call()
        times.append(1e9 * (now() - begin) / (ROWS * CITIES))
    return statistics.median(times)


def run_fovea(program, threads, flags):
    command = [program, "bench", "pointer", "--json", "--quick", "-t", str(threads), "--only", "train",
               *flags]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line["name"]: line["ns"] for line in map(json.loads, text.splitlines())}


def main():
    args = arguments(__doc__, threads=True)
    if not args.fovea:
        sys.exit("bench_torch_pointer.py: --fovea PROGRAM is needed")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([args.fovea, "bench", "pointer", "--quick", "--only", "nothing", "-o", folder],
                       check=False, capture_output=True)
        with open(os.path.join(folder, "work.json")) as file:
            part = json.load(file)
        works = {(f"train_{name}", form): Work(folder, part, name, form)
                 for name in ("set", "lstm") for form in FORMS}
    sound, times = True, {}
    for (name, form), work in works.items():
        worst = work.worst_difference()
        sound = sound and worst < 1e-4
        show(bench="peers", name=name, by=form, worst_loss_difference=float(f"{worst:.2g}"))
    for _ in range(args.rounds):
        for threads in [args.threads] if args.threads else thread_settings():
            torch.set_num_threads(threads)
            now, flags = clock(threads)
            for (name, form), work in works.items():
                work.start()
                times.setdefault((name, form, threads), []).append(timed(work.train, now))
            for name, ns in run_fovea(args.fovea, threads, flags).items():
                times.setdefault((name, "fovea", threads), []).append(ns)
    best = {}
    for (name, by, threads), list_of_ns in times.items():
        ns = statistics.median(list_of_ns)
        best[name, by] = min(ns, best.get((name, by), ns))
        show(bench="peers", name=name, by=by if by == "fovea" else f"torch {torch.__version__} {by}",
             threads=threads, choices_per_second=round(1e9 / ns))
    for name in dict.fromkeys(name for name, _ in works):
        show(bench="peers", name=name,
             **{f"vs_{form}": round(best[name, form] / best[name, "fovea"], 3) for form in FORMS})
    sys.exit(not sound)


if __name__ == "__main__":
    keep_memory()
    main()
