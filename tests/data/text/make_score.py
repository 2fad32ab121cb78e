#!/usr/bin/env python3
"""BLEU and chrF as sacreBLEU computes them, for pairs of random and of hostile texts.

    make_score.py                    writes score.jsonl, which tests/test_score.c reads
    make_score.py --check FOVEA      compares the program itself, on more pairs and whole corpora

Needs pip install sacrebleu (made with 2.6.0).
"""
import json
import os
import random
import subprocess
import sys
import tempfile

from sacrebleu.metrics import BLEU, CHRF

WORDS = ("the a of cat sat on mat house Haus Straße élève naïve coöperate U.S. e.g. 3.14 1,000,000 "
         "1,5 12-13 A-B re-do 50% $5.00 (yes) [no] {x} \"quoted\" 'single' don't l'eau &amp; &quot; "
         "&lt;b&gt; &amp;lt; <skipped> a/b c:d;e f=g x_y ~tilde `tick` ^ | \\ # @user ... .. . , ,, ., "
         "!? 5.a a.5 a,b 5,b ,5 .5 -5 5- 5-a 東京 大学 日本語 한국어 привет ΣΑΣ ΟΔΟΣ İstanbul ǅ ﬁn "
         "\u00a0nbsp\u00a0 a\u2009b \u3000 🙂 👩‍👩‍👧 é e\u0301 — – … « » „x“ \u200b \x1f x\x85y").split(" ")
SPECIAL = [
    ("", ""), ("", "a b c d"), ("a b c d", ""), (" ", "\u00a0"), ("a", "a"), ("A B C D", "a b c d"),
    ("the the the the the the the", "the cat is on the mat"), ("1,000.00", "1,000.00 ."),
    ("&amp;quot;", "&quot;"), ("&&amp;&", "& & &"), ("<skip<skipped>ped>", "<skipped>"),
    ("a-", "a -"), ("...", ". . ."), ("日本語を話す", "日本語 を 話す"), ("(hi)", "(hi )"),
    ("\u00a0x\u00a0", "x"), ("x\u2028y", "x y"), ("x\x1cy", "x y"), ("ΣΣ Σ", "σς σ"), ("İ", "i̇"),
    ("-5 -5-5", "- 5 - 5 - 5"), ("a.b,c", "a . b , c"), ("5.5.5,5", "5.5.5,5"),
    ("word " * 700, "word " * 650), ("ab" * 1500, "ab" * 1400 + "c"), ("long " * 300 + "x", "x"),
]
CONFIGS = [
    {"metric": "bleu"}, {"metric": "bleu", "lowercase": True},
    {"metric": "bleu", "tokenize": "char"}, {"metric": "bleu", "tokenize": "none", "nrefs": 2},
    {"metric": "bleu", "smooth_method": "floor"},
    {"metric": "bleu", "smooth_method": "floor", "smooth_value": 0.01},
    {"metric": "bleu", "smooth_method": "add-k"}, {"metric": "bleu", "smooth_method": "none"},
    {"metric": "bleu", "effective_order": True, "nrefs": 2},
    {"metric": "bleu", "max_ngram_order": 2, "nrefs": 3, "lowercase": True},
    {"metric": "chrf"}, {"metric": "chrf", "word_order": 2, "nrefs": 3},
    {"metric": "chrf", "lowercase": True, "word_order": 2}, {"metric": "chrf", "whitespace": True},
    {"metric": "chrf", "eps_smoothing": True, "nrefs": 2}, {"metric": "chrf", "beta": 1, "char_order": 4},
    {"metric": "chrf", "beta": 3, "word_order": 1, "eps_smoothing": True},
]


def metric(config):
    args = {k: v for k, v in config.items() if k not in ("metric", "nrefs")}
    return BLEU(force=True, **args) if config["metric"] == "bleu" else CHRF(**args)


def change(rng, words):
    out = list(words)
    for _ in range(rng.randrange(4)):
        what, at = rng.randrange(4), rng.randrange(len(out) + 1)
        if what == 0:
            out.insert(at, rng.choice(WORDS))
        elif what == 1 and at < len(out):
            del out[at]
        elif what == 2 and at < len(out):
            out[at] = out[at].swapcase()
        elif at < len(out):
            out[at] += rng.choice([".", ",", "!", "-", ")", ""])
    return out


def make_segments(count, seed):
    """[hypothesis, three references]"""
    rng = random.Random(seed)
    segments = [[a, b, a[::-1], ""] for a, b in SPECIAL]
    while len(segments) < count:
        words = [rng.choice(WORDS) for _ in range(rng.randrange(0, 14))]
        join = rng.choice([" ", " ", " ", "  ", "", "\u00a0"])
        segments.append([join.join(change(rng, words)) for _ in range(4)])
    return [[t.replace("\n", " ").replace("\r", " ") for t in s] for s in segments]


def sentence_score(config, segment):
    m = metric(config)
    refs = segment[1:1 + config.get("nrefs", 1)]
    stats = m._extract_corpus_statistics([segment[0]], [[r] for r in refs])
    return m._aggregate_and_compute(stats).score


def signature(m):
    return str(m.get_signature()).rsplit("|version:", 1)[0]


def corpus_score(config, segments):
    m = metric(config)
    refs = [[s[1 + i] for s in segments] for i in range(config.get("nrefs", 1))]
    score = m.corpus_score([s[0] for s in segments], refs)
    return score.name, signature(m), score.score


def write_fixture(path):
    segments = make_segments(520, 1)
    with open(path, "w", encoding="utf-8") as out:
        for config in CONFIGS:
            name, sign, score = corpus_score(config, segments)
            print(json.dumps({"config": config, "name": name, "signature": sign, "score": score}), file=out)
        for segment in segments:
            scores = [sentence_score(c, segment) for c in CONFIGS]
            print(json.dumps({"texts": segment, "scores": scores}, ensure_ascii=True), file=out)


def flags(config):
    out = ["--metric", config["metric"]]
    names = {"tokenize": "tok", "smooth_method": "smooth", "smooth_value": "smooth-value",
             "max_ngram_order": "order", "char_order": "char-order", "word_order": "word-order",
             "beta": "beta"}
    switches = {"lowercase": "lc", "effective_order": "effective-order", "whitespace": "whitespace",
                "eps_smoothing": "eps-smoothing"}
    for key, value in config.items():
        if key in names:
            out += ["--" + names[key], str(value)]
        elif key in switches:
            out.append("--" + switches[key])
    return out


def check(program):
    worst, compared = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(2, 6):
            segments = make_segments(1000, seed)
            paths = [os.path.join(folder, f"{i}.txt") for i in range(4)]
            for i, path in enumerate(paths):
                with open(path, "w", encoding="utf-8", newline="") as file:
                    file.writelines(s[i] + "\n" for s in segments)
            for config in CONFIGS:
                refs = paths[1:1 + config.get("nrefs", 1)]
                command = [program, "score", "--json", "-i", paths[0], *flags(config), *refs]
                have = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
                name, sign, score = corpus_score(config, segments)
                assert have["name"] == name, (have, name)
                assert have["signature"].rsplit("|version:", 1)[0] == sign, (have, sign)
                worst = max(worst, abs(have["score"] - score))
                assert abs(have["score"] - score) <= 1e-9, (config, have["score"], score)
                compared += 1
                single = dict(config)
                if config["metric"] == "bleu":
                    single["effective_order"] = True
                lines = subprocess.run(command + ["--sentences"], capture_output=True,
                                       check=True).stdout.splitlines()
                for line, segment in zip(lines[:-1], segments):
                    have, want = json.loads(line)["score"], sentence_score(single, segment)
                    worst = max(worst, abs(have - want))
                    assert abs(have - want) <= 1e-9, (single, segment, have, want)
                    compared += 1
    print(f"{compared} scores compared, largest difference {worst:.3g}")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--check":
        check(sys.argv[2])
    else:
        write_fixture(os.path.join(os.path.dirname(os.path.abspath(__file__)), "score.jsonl"))
