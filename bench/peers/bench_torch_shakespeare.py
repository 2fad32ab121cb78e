"""A small GPT-2 on the characters of tiny-shakespeare in PyTorch, against `fovea train` with
recipes/gpt2-shakespeare.toml. Both start from the same weights, see the same windows of text in the
same order and take the same AdamW steps, so that their losses can be compared step by step.

    bench_torch_shakespeare.py curve --fovea PROGRAM --steps 2000        # losses, step by step
    bench_torch_shakespeare.py speed --fovea PROGRAM --rounds 5          # seconds per step
    bench_torch_shakespeare.py curve --fovea PROGRAM --size large --steps 500

`small` is the recipe's model, 4 layers of width 128, windows of 64, batches of 12; `large` has 6 layers
of width 384, windows of 256, batches of 64. Neither uses dropout, whose masks cannot be equal on both
sides. The text is $FOVEA_DATA/tinyshakespeare. With --keep FOLDER, the results of both sides are stored
(Fovea's initial weights and its run, windows.npy, torch.json) and reused, so a curve can be computed in
several sessions. PyTorch runs first; --device cuda runs it on a GPU. Rounding errors grow during
training, so two correct programs diverge after a while. --nudge measures how far: PyTorch runs once more
from weights perturbed by about their last bit, and its distance from itself is printed beside its
distance from Fovea.

`speed` measures PyTorch with every thread setting, eager and compiled, alternating with Fovea, over segments
of --segment steps. A time is the median over the rounds; warm-up, loading and startup do not count. The
last line is Fovea's speed over PyTorch's best setting. On a shared machine, --threads 1 and CPU time are
more reliable than wall-clock time; in short segments startup costs dominate."""
import argparse
import json
import lzma
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import torch
from torch.nn import functional as F

from common import keep_memory, read_safetensors, show, thread_settings
from torch_gpt2 import GPT2

RECIPE = os.path.join(os.path.dirname(__file__), "../../recipes/gpt2-shakespeare.toml")
# Values of the recipe; `large` overrides the keys below.
LR, FLOOR, WARMUP, BETAS, DECAY, CLIP, SEED, HELD_OUT = 2e-3, 1e-4, 100, (0.9, 0.99), 0.1, 1.0, 1, 0.1
SIZES = {
    "small": {"heads": 4, "window": 64, "batch": 12, "keys": {}},
    "large": {"heads": 6, "window": 256, "batch": 64, "keys": {
        "transformer.decoder_layers": 6, "transformer.width": 384, "transformer.heads": 6,
        "transformer.hidden": 1536, "transformer.length": 256, "train.batch_examples": 64}},
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("curve", "speed"))
    parser.add_argument("--fovea", metavar="PROGRAM", required=True)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--batch", type=int, help="windows per step [as --size]")
    parser.add_argument("--steps", type=int, default=2000, help="curve: training steps [2000]")
    parser.add_argument("--threads", type=int, default=0, help="threads of both sides [all CPUs; for PyTorch's speed also one]")
    parser.add_argument("--keep", metavar="FOLDER", help="curve: folder for the runs of both sides")
    parser.add_argument("--device", default="cpu", help="curve: PyTorch's device [cpu]")
    parser.add_argument("--nudge", action="store_true", help="curve: also compare PyTorch with itself")
    parser.add_argument("--rounds", type=int, default=5, help="speed: segments per side [5]")
    parser.add_argument("--segment", type=int, default=100, help="speed: steps per segment [100]")
    parser.add_argument("--how", choices=("eager", "compiled"), nargs="+",
                        default=["eager", "compiled"], help="speed: PyTorch modes [both]")
    args = parser.parse_args()
    args.size = dict(SIZES[args.size])
    if args.batch:
        args.size["batch"] = args.batch
    args.same_threads = args.threads > 0
    args.threads = args.threads or len(os.sched_getaffinity(0))
    return args


# ---- Fovea's side -----------------------------------------------------------------------------


def run_fovea(args, folder, steps, **keys):
    """Trains `steps` steps in `folder`; returns the log entries."""
    keys = {**args.size["keys"], "train.batch_examples": args.size["batch"], "train.steps": steps,
            "train.log_every": 1, "train.eval_every": 0, **keys}
    command = [args.fovea, "train", RECIPE, "-q", "-o", folder, "-t", str(args.threads)]
    for key, value in keys.items():
        command += ["--" + key, str(value)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as log:
        return [json.loads(line) for line in log]


def first_weights(args, folder):
    """The initial weights of a run: those after one step with learning rate 0."""
    path = os.path.join(folder, "model.safetensors")
    if not os.path.exists(path):
        run_fovea(args, folder, 1, **{"train.lr": 0, "train.schedule": "constant"})
    return read_safetensors(path)


def losses_of(lines):
    """Recovers the loss of each step from the running mean in the log."""
    losses, former = [], 0.0
    for line in lines:
        if "eval/loss" in line:
            continue
        share = 1 / min(line["step"], 100)
        losses.append((line["loss"] - (1 - share) * former) / share)
        former = line["loss"]
    return losses


# ---- the text, and the windows that Fovea draws -------------------------------------------------


def read_text(tokenizer):
    """Training tokens and held-out tokens."""
    with open(tokenizer, encoding="utf-8") as file:
        vocabulary = json.load(file)["model"]["vocab"]
    path = os.path.join(os.environ["FOVEA_DATA"], "tinyshakespeare/input.txt.xz")
    with lzma.open(path, "rt", encoding="utf-8", newline="") as file:
        tokens = torch.tensor([vocabulary[letter] for letter in file.read()])
    kept = len(tokens) - int(len(tokens) * HELD_OUT)
    return tokens[:kept], tokens[kept:]


def mix(x):
    """One output of SplitMix64."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def philox(key, row, blocks):
    """Philox 4x32-10: the first two words of each block, as one number."""
    low, shift = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)
    c0, c1 = (numpy.full_like(blocks, row), numpy.zeros_like(blocks))
    c2, c3 = blocks & low, blocks >> shift
    for i in range(10):
        k0, k1 = ((word + i * step) % 2**32 for word, step in
                  ((key % 2**32, 0x9E3779B9), (key >> 32, 0xBB67AE85)))
        p0, p1 = c0 * numpy.uint64(0xD2511F53), c2 * numpy.uint64(0xCD9E8D57)
        c0, c1 = (p1 >> shift) ^ c1 ^ numpy.uint64(k0), p1 & low
        c2, c3 = (p0 >> shift) ^ c3 ^ numpy.uint64(k1), p0 & low
    return c0 << shift | c1


def draw_windows(steps, batch, places):
    """Start positions of the windows, [steps, batch]. src/train/text_task.c draws the same."""
    site, blocks = 0x77696E646F77, numpy.arange(batch, dtype=numpy.uint64)
    keys = (mix(mix(mix(SEED) ^ step) ^ site) for step in range(steps))
    draws = numpy.stack([philox(key, 0, blocks) for key in keys])
    return (draws % numpy.uint64(places)).astype(numpy.int64)


# ---- PyTorch's side ---------------------------------------------------------------------------


def rate_at(step, steps):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    done = (step - WARMUP) / (steps - WARMUP - 1) if steps > WARMUP + 1 else 1.0
    return FLOOR + (LR - FLOOR) * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


class Trainer:
    def __init__(self, weights, size, text, steps, compiled=False, device="cpu"):
        self.model = GPT2(weights, size["heads"]).to(device)
        self.text, self.window, self.steps, self.step = text, size["window"], steps, 0
        self.device = device
        self.places = torch.from_numpy(draw_windows(steps, size["batch"], len(text) - size["window"]))
        matrices = [p for p in self.model.parameters() if p.dim() >= 2]
        others = [p for p in self.model.parameters() if p.dim() < 2]
        self.optim = torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY},
                                        {"params": others, "weight_decay": 0.0}],
                                       lr=LR, betas=BETAS, fused=True)
        self.loss_of = torch.compile(self.loss) if compiled else self.loss

    def loss(self, rows):
        rows = rows.to(self.device)
        logits = self.model(rows[:, :-1])[0]
        return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())

    def take_step(self):
        places = self.places[self.step % self.steps]
        loss = self.loss_of(self.text[places[:, None] + torch.arange(self.window + 1)])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        for group in self.optim.param_groups:
            group["lr"] = rate_at(self.step, self.steps)
        self.optim.step()
        self.optim.zero_grad()
        self.step += 1
        return loss.item()

    def held_out(self, text):
        windows = (len(text) - 1) // self.window
        rows = text[torch.arange(windows)[:, None] * self.window + torch.arange(self.window + 1)]
        with torch.no_grad():
            parts = [(self.loss(part).item(), len(part)) for part in rows.split(64)]
        return sum(loss * count for loss, count in parts) / windows


# ---- measurements ----------------------------------------------------------------------------


def nudged(weights):
    """Perturbs each weight by about one part in 10^7."""
    random = torch.Generator().manual_seed(SEED)
    return {name: tensor * (1 + 1e-7 * torch.randn(tensor.shape, generator=random))
            for name, tensor in weights.items()}


def torch_curve(args, folder, name, weights, text, held_out):
    """PyTorch's loss of each step and on the held-out text; reuses a stored result."""
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        torch.set_num_threads(args.threads)
        trainer = Trainer(weights, args.size, text, args.steps, device=args.device)
        numpy.save(os.path.join(folder, "windows.npy"), trainer.places.numpy())
        losses = [trainer.take_step() for _ in range(args.steps)]
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"losses": losses, "held_out": trainer.held_out(held_out)}, file)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def compare(steps, ours, theirs, **names):
    """Prints ten lines comparing two curves, with the largest difference so far."""
    worst = [0.0, 0]
    for step in range(steps):
        worst = max(worst, [abs(theirs[step] - ours[step]), step + 1])
        if (step + 1) % max(steps // 10, 1) == 0:
            last = slice(max(step - 49, 0), step + 1)
            show(**names, step=step + 1, loss=ours[step], torch=theirs[step],
                 mean_50=statistics.mean(ours[last]), torch_mean_50=statistics.mean(theirs[last]),
                 largest_difference=worst[0], at_step=worst[1])


def curve(args, folder):
    start = os.path.join(folder, "first")
    weights = first_weights(args, start)
    text = read_text(os.path.join(start, "tokenizer.json"))
    kept = torch_curve(args, folder, "torch.json", weights, *text)
    if len(kept["losses"]) != args.steps:
        sys.exit(f"{folder}/torch.json has {len(kept['losses'])} steps, not {args.steps}")
    if args.nudge:
        again = torch_curve(args, folder, "nudged.json", nudged(weights), *text)
        compare(args.steps, again["losses"], kept["losses"], curve="torch nudged")
        show(curve="torch nudged", held_out=again["held_out"], torch=kept["held_out"])
    lines = run_fovea(args, os.path.join(folder, "run"), args.steps, **{"train.save_every": 20})
    compare(args.steps, losses_of(lines), kept["losses"], curve="fovea")
    show(curve="fovea", held_out=lines[-1]["eval/loss"], torch=kept["held_out"])


def segment_of(trainer, threads, steps):
    """Seconds and CPU seconds per step."""
    torch.set_num_threads(threads)
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        trainer.take_step()
    return (time.perf_counter() - wall) / steps, (time.process_time() - cpu) / steps


def fovea_cpu(args, folder, steps):
    """Returns the log of a run and its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = run_fovea(args, folder, steps, **{"train.save_every": 0})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return lines, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fovea_segment(args, folder, warm=10):
    """The same for Fovea: wall time between two log entries; CPU time of a long minus a short run."""
    _, short = fovea_cpu(args, folder + "-short", warm)
    lines, long = fovea_cpu(args, folder, warm + args.segment)
    wall = lines[warm + args.segment - 1]["seconds"] - lines[warm - 1]["seconds"]
    return wall / args.segment, (long - short) / args.segment


def medians(times):
    wall, cpu = zip(*times)
    return {"step_seconds": statistics.median(wall), "least": min(wall), "most": max(wall),
            "cpu_seconds": statistics.median(cpu)}


def speed(args, folder):
    start = os.path.join(folder, "first")
    weights = first_weights(args, start)
    text = read_text(os.path.join(start, "tokenizer.json"))[0]
    theirs, ours = {}, []
    for how in args.how:
        for threads in [args.threads] if args.same_threads else thread_settings():
            trainer = Trainer(weights, args.size, text, 1000, how == "compiled")
            segment_of(trainer, threads, 10)
            theirs[(how, threads)] = (trainer, [])
    for i in range(args.rounds):
        for (_, threads), (trainer, times) in theirs.items():
            times.append(segment_of(trainer, threads, args.segment))
        ours.append(fovea_segment(args, os.path.join(folder, str(i))))
        show(round=i + 1, fovea=ours[-1],
             torch={f"{how}_{threads}": times[-1] for (how, threads), (_, times) in theirs.items()})
    own, best = medians(ours), {"step_seconds": math.inf, "cpu_seconds": math.inf}
    for (how, threads), (_, times) in theirs.items():
        line = medians(times)
        best = {key: min(best[key], line[key]) for key in best}
        show(torch=torch.__version__, how=how, threads=threads, **line)
    show(fovea=args.fovea, threads=args.threads, **own)
    show(vs_torch=best["step_seconds"] / own["step_seconds"],
         vs_torch_cpu=best["cpu_seconds"] / own["cpu_seconds"])


def main():
    keep_memory()
    args = arguments()
    if "FOVEA_DATA" not in os.environ:
        sys.exit("FOVEA_DATA is not set: the folder that holds tinyshakespeare")
    work = {"curve": curve, "speed": speed}[args.what]
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
        work(args, args.keep)
    else:
        with tempfile.TemporaryDirectory() as folder:
            work(args, folder)


main()
