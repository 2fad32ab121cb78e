#!/usr/bin/env python3
"""word2vec: Fovea against gensim on one text, alternately: raw words per second with equal threads,
vocabulary and settings (width 100, window 5, 5 negatives), and how many of the ten nearest neighbours
of the 1,000 most frequent words they share, beside what two seeds of gensim share.

    bench_gensim.py --fovea build/release/fovea TEXT [--threads 1] [--mode skipgram] [--rounds 3]

TEXT has one sentence a line, words separated by blanks. Needs pip install gensim. gensim trains from
the file and from lists of words; the faster one counts. The time is that of training alone on both sides.
"""
import argparse
import json
import os
import statistics
import struct
import subprocess
import tempfile
import time

import numpy
from gensim.models import Word2Vec
from gensim.models.word2vec import FAST_VERSION, LineSentence

RECIPE = """[data]
train_text = "{text}"
valid_share = 0
documents = "lines"
[tokens]
kind = "word"
vocabulary = 100000
min_count = 5
normalize = "none"
[word2vec]
mode = "{mode}"
[train]
task = "word2vec"
epochs = {epochs}
lr = 0.025
lr_floor = 0.0001
schedule = "linear"
batch_tokens = 16384
save_every = 0
"""


def train_fovea(args, threads, folder):
    """Raw words per second of a run, and its vectors by word."""
    recipe = os.path.join(folder, "recipe-in.toml")
    run = tempfile.mkdtemp(dir=folder)
    with open(recipe, "w") as file:
        file.write(RECIPE.format(text=os.path.abspath(args.text), mode=args.mode, epochs=args.epochs))
    subprocess.run([args.fovea, "train", recipe, "-o", run, "-t", str(threads)], check=True,
                   capture_output=True)
    with open(os.path.join(run, "log.jsonl")) as file:
        last = [json.loads(line) for line in file][-1]
    with open(os.path.join(run, "tokenizer.json")) as file:
        vocabulary = json.load(file)["model"]["vocab"]
    with open(os.path.join(run, "model.safetensors"), "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    entry = header["inputs"]
    begin, end = entry["data_offsets"]
    table = numpy.frombuffer(data[begin:end], dtype=numpy.float32).reshape(entry["shape"])
    return last["tokens"] / last["seconds"], {word: table[i] for word, i in vocabulary.items()}


def train_gensim(args, threads, seed, from_file):
    model = Word2Vec(vector_size=100, window=5, min_count=5, workers=threads, negative=5, seed=seed,
                     sg=args.mode == "skipgram")
    sentences = None if from_file else list(LineSentence(args.text))
    if from_file:
        model.build_vocab(corpus_file=args.text)
    else:
        model.build_vocab(sentences)
    start = time.perf_counter()
    given = {"corpus_file": args.text, "total_words": model.corpus_total_words} if from_file else \
        {"corpus_iterable": sentences}
    _, raw = model.train(**given, total_examples=model.corpus_count, epochs=args.epochs)
    seconds = time.perf_counter() - start
    return raw / seconds, {word: model.wv[word] for word in model.wv.index_to_key}


def neighbours(vectors, words):
    table = numpy.array([vectors[word] for word in words])
    table /= numpy.linalg.norm(table, axis=1, keepdims=True) + 1e-12
    cosine = table[:1000] @ table.T
    cosine[numpy.arange(len(cosine)), numpy.arange(len(cosine))] = -9
    return numpy.argsort(-cosine, 1)[:, :10]


def overlap(a, b):
    return 100 * numpy.mean([len(set(x) & set(y)) / 10 for x, y in zip(a, b)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--fovea", required=True, metavar="PROGRAM")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--mode", choices=["skipgram", "cbow"], default="skipgram")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if FAST_VERSION < 0:
        raise SystemExit("gensim has no compiled inner loop here: not a fair comparison")
    ours, files, lists, vectors = [], [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            speed, vectors["fovea"] = train_fovea(args, args.threads, folder)
            ours.append(speed)
            speed, vectors[f"gensim {number % 2 + 1}"] = train_gensim(args, args.threads,
                                                                      number % 2 + 1, True)
            files.append(speed)
            lists.append(train_gensim(args, args.threads, number % 2 + 1, False)[0])
    ours, files, lists = map(statistics.median, (ours, files, lists))
    print(f"{args.mode}, {args.threads} threads, medians of {args.rounds}: Fovea {ours:,.0f} words/s, gensim "
          f"{files:,.0f} (file), {lists:,.0f} (lists): {ours / max(files, lists):.2f} x")
    if "gensim 2" in vectors:
        words = list(vectors["gensim 1"])
        assert set(words) <= set(vectors["fovea"]), "the vocabularies differ"
        near = {name: neighbours(v, words) for name, v in vectors.items()}
        print(f"shared neighbours: Fovea and gensim {overlap(near['fovea'], near['gensim 1']):.1f} %, "
              f"{overlap(near['fovea'], near['gensim 2']):.1f} %; two seeds of gensim "
              f"{overlap(near['gensim 1'], near['gensim 2']):.1f} %")


if __name__ == "__main__":
    main()
