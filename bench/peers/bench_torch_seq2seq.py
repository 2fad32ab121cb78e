"""A recurrent translator (bidirectional GRU, additive attention, the sizes of
recipes/multi30k-de-en.toml without dropout): training steps with Adam, and greedy search. PyTorch
against `fovea bench seq2seq` with the same weights and tokens. Compares the losses of the first steps
and the generated tokens. PyTorch's search is also measured with a table of the tokens' gates, as Fovea
uses; the faster one counts. The last lines are Fovea's speed over PyTorch's, each with its best number
of threads. Needs --fovea PROGRAM."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from common import arguments, keep_memory, read_safetensors, show, thread_settings

START, END = 0, 1
SEARCHES = (1, 8, 32, 128)


class Translator(torch.nn.Module):
    """Products of the same input are fused into one, for speed."""

    def __init__(self, w):
        super().__init__()
        parameter = torch.nn.Parameter
        hidden, memory = w["decoder.feed.weight"].shape[0] // 3, w["decoder.feed.weight"].shape[1]
        width = w["encoder.embedding.weight"].shape[1]
        self.source = parameter(w["encoder.embedding.weight"])
        self.target = parameter(w["decoder.embedding.weight"])
        self.encoder = torch.nn.GRU(width, memory // 2, bidirectional=True)
        for name, _ in list(self.encoder.named_parameters()):
            setattr(self.encoder, name, parameter(w["encoder.rnn." + name]))
        self.encoder.flatten_parameters()
        self.cell = torch.nn.GRUCell(width + memory, hidden)
        self.cell.weight_ih = parameter(
            torch.cat([w["decoder.rnn.weight_ih_l0"], w["decoder.feed.weight"]], 1))
        self.cell.weight_hh = parameter(w["decoder.rnn.weight_hh_l0"])
        self.cell.bias_ih = parameter(w["decoder.rnn.bias_ih_l0"])
        self.cell.bias_hh = parameter(w["decoder.rnn.bias_hh_l0"])
        self.first = parameter(w["decoder.first_h.0.weight"])
        self.first_bias = parameter(w["decoder.first_h.0.bias"])
        self.query = parameter(w["attention.query.weight"])
        self.key = parameter(w["attention.key.weight"])
        self.score = parameter(w["attention.score"])
        self.read = parameter(torch.cat([w["readout.state.weight"], w["readout.context.weight"],
                                         w["readout.token.weight"]], 1))
        self.read_bias = parameter(w["readout.bias"])
        self.output_bias = parameter(w["output.bias"])

    def encode(self, source, lengths):
        packed = pack_padded_sequence(F.embedding(source, self.source), lengths,
                                      enforce_sorted=False)
        h, last = self.encoder(packed)
        h = pad_packed_sequence(h)[0].transpose(0, 1).contiguous()
        state = torch.tanh(F.linear(torch.cat([last[0], last[1]], 1), self.first, self.first_bias))
        hidden = torch.arange(h.shape[1])[None] >= lengths[:, None]
        return h, F.linear(h, self.key), torch.zeros(hidden.shape).masked_fill(
            hidden, float("-inf")), state

    def step(self, h, keys, mask, state, token):
        scores = torch.tanh(keys + F.linear(state, self.query)[:, None]) @ self.score
        context = torch.bmm(torch.softmax(scores + mask, 1)[:, None], h)[:, 0]
        return self.cell(torch.cat([token, context], 1), state), context

    def logits(self, state, context, token):
        o = torch.tanh(F.linear(torch.cat([state, context, token], 1), self.read, self.read_bias))
        return F.linear(o, self.target, self.output_bias)

    def loss(self, batch):
        """Targets are sorted by length, so that finished rows leave the batch."""
        h, keys, mask, state = self.encode(batch["source"], batch["lengths"])
        token, states, contexts, at = F.embedding(batch["given"], self.target), [], [], 0
        for rows in batch["rows"]:
            if rows < len(state):
                h, keys, mask, state = h[:rows], keys[:rows], mask[:rows], state[:rows]
            state, context = self.step(h, keys, mask, state, token[at:at + rows])
            states.append(state)
            contexts.append(context)
            at += rows
        logits = self.logits(torch.cat(states), torch.cat(contexts), token)
        return F.cross_entropy(logits, batch["wanted"], label_smoothing=0.1)

    @torch.inference_mode()
    def token_table(self):
        """Gate inputs of every target token: computed once, then looked up."""
        return F.linear(self.target, self.cell.weight_ih[:, :self.target.shape[1]],
                        self.cell.bias_ih)

    def step_by_table(self, h, keys, mask, state, gates):
        scores = torch.tanh(keys + F.linear(state, self.query)[:, None]) @ self.score
        context = torch.bmm(torch.softmax(scores + mask, 1)[:, None], h)[:, 0]
        gates = gates + F.linear(context, self.cell.weight_ih[:, self.target.shape[1]:])
        own = F.linear(state, self.cell.weight_hh, self.cell.bias_hh)
        width = state.shape[1]
        reset, update = torch.sigmoid(gates[:, :2 * width] + own[:, :2 * width]).chunk(2, 1)
        new = torch.tanh(gates[:, 2 * width:] + reset * own[:, 2 * width:])
        return torch.lerp(new, state, update), context

    @torch.inference_mode()
    def greedy(self, source, lengths, most, table=None):
        """Decodes until every source has ended or has `most` tokens."""
        h, keys, mask, state = self.encode(source, lengths)
        last = torch.full((source.shape[1],), START)
        found, ended = [], torch.zeros(source.shape[1], dtype=torch.bool)
        for _ in range(most):
            token = F.embedding(last, self.target)
            if table is None:
                state, context = self.step(h, keys, mask, state, token)
            else:
                state, context = self.step_by_table(h, keys, mask, state, F.embedding(last, table))
            last = self.logits(state, context, token).argmax(1)
            found.append(last)
            ended |= last == END
            if bool(ended.all()):
                break
        rows = torch.stack(found, 1).tolist()
        return [row[:row.index(END)] if END in row else row for row in rows]


def padded(texts):
    lengths = torch.tensor([len(text) for text in texts])
    source = torch.zeros(int(lengths.max()), len(texts), dtype=torch.long)
    for i, text in enumerate(texts):
        source[:len(text), i] = torch.tensor(text)
    return source, lengths


def training_batch(batch):
    order = sorted(range(len(batch["target"])), key=lambda i: -len(batch["target"][i]))
    given = [[START] + batch["target"][i] for i in order]
    wanted = [batch["target"][i] + [END] for i in order]
    steps = len(given[0])
    source, lengths = padded([batch["source"][i] for i in order])
    by_steps = [[line[t] for line in lines if t < len(line)]
                for lines in (given, wanted) for t in range(steps)]
    return {"source": source, "lengths": lengths, "rows": [len(x) for x in by_steps[:steps]],
            "given": torch.tensor(sum(by_steps[:steps], [])),
            "wanted": torch.tensor(sum(by_steps[steps:], []))}


class Work:
    def __init__(self, folder):
        with open(os.path.join(folder, "work.json")) as file:
            self.work = json.load(file)
        self.weights = read_safetensors(os.path.join(folder, "model.safetensors"))
        self.batches = [training_batch(batch) for batch in self.work["batches"]]
        self.start()

    def start(self):
        self.model = Translator({name: t.clone() for name, t in self.weights.items()})
        self.optim = torch.optim.Adam(self.model.parameters(), 1e-3, fused=True)
        self.steps = 0

    def train(self):
        loss = self.model.loss(self.batches[self.steps % len(self.batches)])
        self.optim.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optim.step()
        self.steps += 1
        return loss.item()

    def search(self, sources, table=None):
        texts = self.work["batches"][0]["source"][:sources]
        return self.model.greedy(*padded(texts), self.work["most"], table)

    def check(self):
        """Compares losses and tokens with Fovea's, from the same weights."""
        found = self.search(len(self.work["outputs"]))
        equal = sum(a == b for a, b in zip(found, self.work["outputs"]))
        by_table = self.search(len(self.work["outputs"]), self.model.token_table())
        equal = min(equal, sum(a == b for a, b in zip(by_table, self.work["outputs"])))
        losses = [self.train() for _ in self.work["losses"]]
        worst = max(abs(a / b - 1) for a, b in zip(losses, self.work["losses"]))
        show(bench="peers", name="seq2seq", outputs=len(found), equal_outputs=equal,
             worst_loss_difference=float(f"{worst:.2g}"))
        return equal >= 0.99 * len(found) and worst < 1e-4


def timed(call, tokens_of, least):
    """Nanoseconds per token: median over calls that take at least `least` seconds together."""
    call()
    times, end = [], time.perf_counter() + least
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        tokens = tokens_of(call())
        times.append(1e9 * (time.perf_counter() - begin) / tokens)
    return statistics.median(times)


def run_torch(work, threads):
    torch.set_num_threads(threads)
    times, most = {}, work.work["most"]
    for sources in SEARCHES:  # the faster of two variants
        times[f"greedy_{sources}"] = min(
            timed(lambda: work.search(sources, table),
                  lambda rows: sum(len(row) + (len(row) < most) for row in rows), 0.3)
            for table in (None, work.model.token_table()))
    tokens = sum(work.batches[0]["rows"])
    times["train"] = timed(work.train, lambda _: tokens, 1.0)
    return times


def run_fovea(program, threads):
    command = [program, "bench", "seq2seq", "--json", "--quick", "-t", str(threads)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {line["name"]: line["ns"] for line in map(json.loads, text.splitlines())}


def main():
    args = arguments(__doc__, threads=True)
    if not args.fovea:
        sys.exit("bench_torch_seq2seq.py: --fovea PROGRAM is needed")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([args.fovea, "bench", "seq2seq", "--quick", "--only", "nothing", "-o",
                        folder], check=True, capture_output=True)
        work = Work(folder)
    sound = work.check()
    times = {}
    for _ in range(args.rounds):
        for threads in [args.threads] if args.threads else thread_settings():
            work.start()
            for by, got in (("torch", run_torch(work, threads)),
                            ("fovea", run_fovea(args.fovea, threads))):
                for name, ns in got.items():
                    times.setdefault((name, by, threads), []).append(ns)
    best = {}
    for (name, by, threads), list_of_ns in times.items():
        ns = statistics.median(list_of_ns)
        best[name, by] = min(ns, best.get((name, by), ns))
        show(bench="peers", name=name, by=by if by == "fovea" else "torch " + torch.__version__,
             threads=threads, tokens_per_second=round(1e9 / ns))
    for name in dict.fromkeys(name for name, _ in best):
        show(bench="peers", name=name,
             vs_torch=round(best[name, "torch"] / best[name, "fovea"], 3))
    sys.exit(not sound)


if __name__ == "__main__":
    keep_memory()
    main()
