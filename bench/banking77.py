"""Gain from pretraining a small BERT: banking77, 77 classes of questions, from scratch and from a masked
language model. Settings are selected without using the test table.

    FOVEA_DATA=... python3 bench/banking77.py FOLDER --fovea PROGRAM

1. The training table is split by the SHA-256 of a text's letters and digits (docs/data.md) modulo 10;
   0 is held out. The test table is not read before step 5.
2. recipes/bert-tiny-mlm.toml pretrains on WikiText-2 (the two available splits), the State of the Union,
   Tatoeba's English, and the training questions without their classes, repeated three times. Both arms
   use one tokenizer, learned from all of these.
3. Both arms try the same settings of recipes/bert-banking77.toml with seed 1: four learning rates, then
   the best of them with twice the steps. The weights and the accuracy of a run are those of its best
   evaluation on the held-out split.
4. Each arm trains with its best setting and the seeds 1 to --seeds.
5. Only those models are evaluated on the test table, once each.

Finished runs are reused; run the same command to resume. Prints one object per run, and finally the
mean, minimum and maximum of each arm."""
import argparse
import csv
import hashlib
import json
import lzma
import os
import re
import shutil
import statistics
import subprocess
import sys

RECIPES = os.path.abspath(os.path.join(os.path.dirname(__file__), "../recipes"))
ARMS = ("pretrained", "scratch")
RATES, STEPS = (0.0005, 0.001, 0.002, 0.004), 1500


def show(**line):
    print(json.dumps(line), flush=True)


# ---- texts --------------------------------------------------------------------------------------


def open_data(name):
    path = os.path.join(os.environ["FOVEA_DATA"], name)
    return lzma.open(path, "rt", encoding="utf-8", newline="")


def held_out(text):
    letters = re.sub(rb"[^a-z0-9\x80-\xff]", b"", text.encode().lower())
    return int.from_bytes(hashlib.sha256(letters).digest()[:8], "big") % 10 == 0


def general_texts():
    """Documents: paragraphs of the encyclopedia and the speeches, single sentences."""
    for part in ("valid", "test"):
        for line in open_data(f"wikitext-2/{part}.txt.xz"):
            if len(line.strip()) >= 40:
                yield re.sub(r" @(.)@ ", r"\1", line.strip())
    for paragraph in open_data("sotu/sotu.txt.xz").read().split("\n\n"):
        if len(" ".join(paragraph.split())) >= 20:
            yield " ".join(paragraph.split())
    yield from dict.fromkeys(line.split("\t")[0].strip()
                             for line in open_data("tatoeba-eng-fra/fra.txt.xz"))


def write_table(path, head, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


def write_lines(path, lines):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def prepare():
    head, *rows = csv.reader(open_data("banking77/train.csv.xz"))
    train = [row for row in rows if not held_out(row[0])]
    write_table("train.csv", head, train)
    write_table("held.csv", head, [row for row in rows if held_out(row[0])])
    write_lines("general.txt", general_texts())
    write_lines("bank.txt", [" ".join(text.split()) for text, _ in train] * 2)
    show(train=len(train), held_out=len(rows) - len(train))


# ---- runs ---------------------------------------------------------------------------------------


def train(args, recipe, folder, **keys):
    """Trains unless the run is finished; returns the log entries of its evaluations."""
    if not os.path.exists(os.path.join(folder, "model.safetensors")) or not finished(folder, keys):
        command = [args.fovea, "train", os.path.join(RECIPES, recipe), "-q", "-t", str(args.threads),
                   "-o", folder]
        for key, value in keys.items():
            command += ["--" + key, str(value)]
        subprocess.run(command, check=True)
    with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as log:
        return [line for line in map(json.loads, log) if "eval/accuracy" in line]


def finished(folder, keys):
    with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as log:
        return json.loads(log.readlines()[-1])["step"] == keys["train.steps"]


def here(name):
    return os.path.abspath(name)


def pretrain(args):
    lines = train(args, "bert-tiny-mlm.toml", "pretrained",
                  **{"data.train_text": here("general.txt"), "data.train_text2": here("bank.txt"),
                     "data.train_text3": "", "data.train_csv": here("train.csv"),
                     "data.valid_csv": here("held.csv"), "data.documents": "lines",
                     "train.steps": args.pretrain})
    best = min(lines, key=lambda line: line["eval/loss"])
    show(run="pretrained", steps=best["step"], hidden_words_right=best["eval/accuracy"],
         loss=best["eval/loss"], seconds=lines[-1]["seconds"])


def classify(args, arm, rate, steps, seed):
    """Returns the best held-out accuracy of a run, and its folder."""
    folder = f"{arm}-{rate}-{steps}-{seed}"
    keys = {"data.train_csv": here("train.csv"), "data.valid_csv": here("held.csv"), "train.lr": rate,
            "train.steps": steps, "train.seed": seed}
    if arm == "pretrained":
        keys["train.init_from"] = here("pretrained")
    elif not os.path.exists(folder):
        os.makedirs(folder)
        shutil.copy("pretrained/tokenizer.json", folder)
    lines = train(args, "bert-banking77.toml", folder, **keys)
    best = max(line["eval/accuracy"] for line in lines)
    show(run=folder, held_out=best, seconds=lines[-1]["seconds"])
    return best, folder


def choose(args, arm):
    tried = {(rate, STEPS): classify(args, arm, rate, STEPS, 1)[0] for rate in RATES}
    rate = max(tried, key=tried.get)[0]
    tried[(rate, 2 * STEPS)] = classify(args, arm, rate, 2 * STEPS, 1)[0]
    return max(tried, key=tried.get)


def run(args, verb, folder, *options):
    command = [args.fovea, verb, folder, *options]
    lines = subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout
    return [json.loads(line) for line in lines.split("\n") if line]


def cut(args, folder, texts):
    """Truncates the texts to the model's positions, as training does."""
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        most = json.load(file)["max_position_embeddings"] - 2
    write_lines("test.jsonl", [json.dumps({"text": text}) for text in texts])
    found = run(args, "tokenize", folder, "test.jsonl", "--jsonl", "--no-specials")
    return [text[:line["offsets"][:most][-1][1]] for text, line in zip(texts, found, strict=True)]


def test(args, folder):
    """Returns the accuracy of a model on the test table, in percent."""
    _, *rows = csv.reader(open_data("banking77/test.csv.xz"))
    write_lines("test.txt", cut(args, folder, [" ".join(text.split()) for text, _ in rows]))
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        names = json.load(file)["id2label"]
    found = run(args, "run", folder, "-f", "test.txt", "--json", "-t", str(args.threads))
    right = sum(names[str(line["class"])] == wanted
                for line, (_, wanted) in zip(found, rows, strict=True))
    return 100 * right / len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where everything goes")
    parser.add_argument("--fovea", metavar="PROGRAM", required=True, help="seen from FOLDER")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--pretrain", type=int, default=5000, help="steps of pretraining [5000]")
    parser.add_argument("--seeds", type=int, default=3, help="models of an arm [3]")
    args = parser.parse_args()
    if "FOVEA_DATA" not in os.environ:
        sys.exit("FOVEA_DATA is not set")
    os.makedirs(args.folder, exist_ok=True)
    os.chdir(args.folder)
    prepare()
    pretrain(args)
    chosen = {arm: choose(args, arm) for arm in ARMS}
    models = {arm: [classify(args, arm, *chosen[arm], seed)[1] for seed in range(1, args.seeds + 1)]
              for arm in ARMS}
    for arm in ARMS:
        scores = [test(args, folder) for folder in models[arm]]
        show(arm=arm, rate=chosen[arm][0], steps=chosen[arm][1], test=scores,
             mean=statistics.mean(scores), least=min(scores), most=max(scores))


main()
