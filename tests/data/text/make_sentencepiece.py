#!/usr/bin/env python3
"""Small SentencePiece models and what SentencePiece says of some texts with them.

    make_sentencepiece.py              writes sentencepiece/*.model and sentencepiece.jsonl, which
                                       tests/test_sentencepiece.c reads
    make_sentencepiece.py --check FOVEA MODEL...  compares the program with SentencePiece on many
                                       random texts: ids, offsets and decoding

Needs pip install sentencepiece protobuf (made with 0.2.2).
"""
import io
import json
import os
import random
import subprocess
import sys

import sentencepiece

FOLDER = os.path.dirname(os.path.abspath(__file__))

# What the models are learned from: enough for a hundred pieces.
SENTENCES = """The miller's daughter walks along the river every morning.
All the bells of the little town ring at noon, and all the dogs begin to bark.
Nobody knows why the old clock on the hill stopped at ten past ten.
A boat without oars drifts slowly under the stone bridge.
Her brother paints walls, fences, doors and sometimes the sky.
When it rains, the children count the drops on the window sill.
The baker sells bread, rolls and small hot pies until six o'clock.
On the far bank a heron stands still as if carved from wood.
We will follow the path until the last lantern, then turn left.
Un élève très appliqué lit près de la fenêtre où dort le chat.
Ein Mädchen läuft über die große Brücke und grüßt den Müller.
Tall trees, small stones, well water: all that is left of the mill.
0 1 2 3 10 11 100 1000 2024 rolling hills still yellow till fall""".split("\n")

# Rules of a normalizer, in code points: small enough to be committed.
RULES = [("ﬁ", "fi"), ("ﬀ", "ff"), ("㎏", "kg"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\u00ad", ""),
         ("e\u0301", "é"), ("Ａ", "A"), ("½", "1 2"), ("E", "e"), ("EE", "ee"), ("\u2003\u2003", " ")]

USER = ["<sep>", "and", "an", "▁x", "日本"]
MODELS = {
    "unigram": dict(model_type="unigram", rules=True),
    "unigram_user": dict(model_type="unigram", user_defined_symbols=USER, control_symbols=["<ctl>"]),
    "unigram_bytes": dict(model_type="unigram", byte_fallback=True, vocab_size=380, character_coverage=0.98),
    "unigram_suffix": dict(model_type="unigram", treat_whitespace_as_suffix=True),
    "unigram_plain": dict(model_type="unigram", add_dummy_prefix=False, remove_extra_whitespaces=False),
    "bpe": dict(model_type="bpe", rules=True, user_defined_symbols=USER),
    "bpe_bytes": dict(model_type="bpe", byte_fallback=True, vocab_size=380, character_coverage=0.98,
                      remove_extra_whitespaces=False),
    "char": dict(model_type="char"),
}

ODD = ["<sep>", "<ctl>", "<s>", "</s>", "<unk>", "and", "an", "▁x", "x", "▁", "日本", "日", "  ", "   ", "\t", "\n",
       "\u3000", "\u00a0", "\u00ad", "ﬁ", "㎏", "½", "e\u0301", "\u0301", "ＡＢ", "E", "EEE", "\u2003\u2003\u2003", "🙂",
       "l", "ll", "lll", "llll", "00", "000", "<0x41>", "\x00", "\x01", "ß", "."]


def texts(rng, count):
    words = " ".join(SENTENCES).split()
    out = ["", " ", "   ", "\n", "a", " a", "a ", "lll", "The mill"]
    while len(out) < count:
        parts = []
        for _ in range(rng.randrange(1, 12)):
            kind = rng.random()
            if kind < 0.45:
                parts.append(rng.choice(words))
            elif kind < 0.8:
                parts.append(rng.choice(ODD))
            elif kind < 0.85:
                parts.append(chr(rng.choice([rng.randrange(32, 127), rng.randrange(0xA0, 0xD7FF), rng.randrange(0xE000, 0x110000)])))
            else:
                parts.append("".join(rng.choice("aelnst 0▁") for _ in range(rng.randrange(1, 12))))
        out.append(rng.choice([" ", " ", ""]).join(parts))
    return out


def encode(model, text):
    pieces = model.encode(text, return_type="proto").pieces
    data = text.encode()
    return {"text": text, "ids": [p.id for p in pieces], "offsets": [[len(data[:p.begin].decode()), len(data[:p.end].decode())] for p in pieces],
            "decoded": model.decode([p.id for p in pieces])}


def train(name, rules=False, **options):
    settings = dict(vocab_size=110, normalization_rule_name="identity", num_threads=1, minloglevel=2, hard_vocab_limit=False)
    settings.update(options)
    if rules:
        path = "rules.tsv"  # the model remembers it
        with open(path, "w", encoding="utf-8") as file:
            for source, target in RULES:
                print(" ".join(f"{ord(c):X}" for c in source), " ".join(f"{ord(c):X}" for c in target), sep="\t", file=file)
        del settings["normalization_rule_name"]
        settings["normalization_rule_tsv"] = path
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(SENTENCES), model_writer=out, **settings)
    if rules:
        os.remove(path)
    with open(os.path.join(FOLDER, "sentencepiece", name + ".model"), "wb") as file:
        file.write(out.getvalue())


def write_fixture():
    rng = random.Random(7)
    with open(os.path.join(FOLDER, "sentencepiece.jsonl"), "w", encoding="utf-8") as out:
        for name, options in MODELS.items():
            train(name, **options)
            path = os.path.join(FOLDER, "sentencepiece", name + ".model")
            model = sentencepiece.SentencePieceProcessor(model_file=path)
            print(json.dumps({"model": name}), file=out)
            for text in texts(rng, 60):
                print(json.dumps(encode(model, text)), file=out)


def check(program, paths):
    rng = random.Random(8)
    sample = texts(rng, 5000) + [t * 20 for t in texts(rng, 40)]
    for path in paths:
        model = sentencepiece.SentencePieceProcessor(model_file=path)
        want = [encode(model, t) for t in sample]
        lines = "".join(json.dumps({"text": t}) + "\n" for t in sample).encode()
        run = subprocess.run([program, "tokenize", path, "--jsonl"], input=lines, capture_output=True, check=True)
        wrong = 0
        for w, line in zip(want, run.stdout.splitlines(), strict=True):
            have = json.loads(line)
            if have["ids"] != w["ids"] or have["offsets"] != w["offsets"]:
                wrong += 1
                if wrong <= 3:
                    print(repr(w["text"]), have["ids"], w["ids"], have["offsets"], w["offsets"], sep="\n  ")
        lists = [w["ids"] for w in want]
        lists += [[rng.randrange(model.get_piece_size()) for _ in range(rng.randrange(1, 9))] for _ in range(1000)]
        lines = "".join(" ".join(map(str, i)) + "\n" for i in lists).encode()
        run = subprocess.run([program, "tokenize", path, "--decode"], input=lines, capture_output=True, check=True)
        same = run.stdout.decode() == "".join(model.decode(i) + "\n" for i in lists)
        print(f"{path}: {len(sample)} texts, {wrong} differ; decoding {'equal' if same else 'DIFFERS'}")
        assert wrong == 0 and same


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "--check":
        check(sys.argv[2], sys.argv[3:])
    else:
        write_fixture()
