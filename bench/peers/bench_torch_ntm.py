"""A training step of a Neural Turing Machine on the copy task: PyTorch on the CPU, eager and with
torch.compile, at batch 1 and 64. Sequences of 20 vectors of 8 bits (41 steps), memory 128 x 20, an
LSTM controller of 100 units, one read and one write head, three shifts, RMSProp with momentum and
clipped gradients: the work of `fovea bench ntm`. With --fovea PROGRAM both run alternately, and the
last lines are Fovea's speed over the faster of the two."""
import statistics

import torch
import torch.nn.functional as F

from common import arguments, median_seconds, run_fovea, show, thread_settings

LENGTH, BITS, SLOTS, WIDTH, HIDDEN, SHIFTS = 20, 8, 128, 20, 100, 3
ADDRESS = WIDTH + 3 + SHIFTS


class Machine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.controller = torch.nn.LSTMCell(BITS + 1 + WIDTH, HIDDEN)
        self.heads = torch.nn.Linear(HIDDEN, 2 * ADDRESS + 2 * WIDTH)
        self.output = torch.nn.Linear(HIDDEN + WIDTH, BITS)
        self.h = torch.nn.Parameter(0.05 * torch.randn(1, HIDDEN))
        self.c = torch.nn.Parameter(0.05 * torch.randn(1, HIDDEN))
        self.read = torch.nn.Parameter(0.05 * torch.randn(1, WIDTH))

    def step(self, x, h, c, read, weights, memory):
        """memory [B, N, W], weights [B, 2, N]: both heads are addressed at once."""
        h, c = self.controller(torch.cat([x, read], 1), (h, c))
        raw = self.heads(h)
        p = raw[:, : 2 * ADDRESS].view(-1, 2, ADDRESS)
        key, strength = F.normalize(p[..., :WIDTH], dim=-1), F.softplus(p[..., WIDTH : WIDTH + 1])
        gate = torch.sigmoid(p[..., WIDTH + 1 : WIDTH + 2])
        shift = torch.softmax(p[..., WIDTH + 2 : WIDTH + 2 + SHIFTS], -1)
        sharp = 1 + F.softplus(p[..., -1:])
        cosine = key @ F.normalize(memory, dim=-1).transpose(1, 2)
        blended = gate * torch.softmax(strength * cosine, -1) + (1 - gate) * weights
        around = torch.cat([blended[..., -1:], blended, blended[..., :1]], -1)
        moved = (shift.unsqueeze(-2) * around.unfold(-1, SHIFTS, 1).flip(-1)).sum(-1)
        power = (moved + 1e-16) ** sharp
        weights = power / power.sum(-1, keepdim=True)
        read = (weights[:, :1] @ memory).squeeze(1)
        write = weights[:, 1].unsqueeze(-1)
        erase = torch.sigmoid(raw[:, 2 * ADDRESS : 2 * ADDRESS + WIDTH]).unsqueeze(1)
        add = torch.tanh(raw[:, 2 * ADDRESS + WIDTH :]).unsqueeze(1)
        memory = memory * (1 - write * erase) + write * add
        return h, c, read, weights, memory


def work(batch, compiled):
    torch.manual_seed(1)
    model = Machine()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, momentum=0.9, alpha=0.99)
    bits = torch.randint(0, 2, (LENGTH, batch, BITS)).float()
    inputs = torch.zeros(2 * LENGTH + 1, batch, BITS + 1)
    inputs[:LENGTH, :, :BITS] = bits
    inputs[LENGTH, :, BITS] = 1
    step = torch.compile(model.step, dynamic=False) if compiled else model.step

    def call():
        optimizer.zero_grad(set_to_none=True)
        h, c = model.h.expand(batch, -1), model.c.expand(batch, -1)
        read = model.read.expand(batch, -1)
        weights = torch.zeros(batch, 2, SLOTS)
        weights[..., 0] = 1
        memory = torch.full((batch, SLOTS, WIDTH), 1e-6)
        if compiled:  # one specialisation of strides serves all steps
            h, c, read = h.contiguous(), c.contiguous(), read.contiguous()
        states = []
        for t in range(2 * LENGTH + 1):
            h, c, read, weights, memory = step(inputs[t], h, c, read, weights, memory)
            if t > LENGTH:
                states.append(torch.cat([h, read], 1))
        logits = model.output(torch.stack(states))
        loss = F.binary_cross_entropy_with_logits(logits, bits, reduction="sum") / batch
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 10)
        optimizer.step()

    return call


def main():
    args = arguments(__doc__, threads=True, only=True)
    settings = [args.threads] if args.threads else thread_settings()
    for batch in (1, 64):
        name, best = f"copy_{batch}", {}
        if args.only not in (None, name):
            continue
        calls = {"eager": work(batch, False)}
        try:
            compiled = work(batch, True)
            compiled()
            calls["compiled"] = compiled
        except Exception as error:  # no compiler on this machine
            show(bench="peers", name=name, by="torch compiled", missing=str(error)[:80])
        times = {}
        for _ in range(args.rounds):
            for threads in settings:
                torch.set_num_threads(threads)
                for form, call in calls.items():
                    times.setdefault(("torch " + form, threads), []).append(median_seconds(call))
            if args.fovea:
                for line in run_fovea(args.fovea, name, "ntm"):
                    times.setdefault(("fovea", line["threads"]), []).append(1e-9 * line["ns"])
        for (by, threads), list_of in times.items():
            seconds = statistics.median(list_of)
            key = by.split()[0]
            best[key] = min(seconds, best.get(key, seconds))
            show(bench="peers", name=name, by=by, threads=threads, ns=round(1e9 * seconds))
        if args.fovea:
            show(bench="peers", name=name, vs_torch=round(best["torch"] / best["fovea"], 3))


if __name__ == "__main__":
    main()
