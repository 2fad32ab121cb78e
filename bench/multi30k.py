"""Multi30k in the form of the published figures: lower-cased and tokenized with Moses.

    FOVEA_DATA=... python3 bench/multi30k.py FOLDER        # needs pip's sacremoses

writes train, val, test2016 and test2017 (Flickr) to FOLDER, .en and .de, one sentence per line. Score
models of this text without tokenization (`fovea score --tok none`). The text may not be redistributed."""
import gzip
import os
import sys

from sacremoses import MosesPunctNormalizer, MosesTokenizer

PARTS = {"train": "train", "val": "val", "test2016": "test_2016_flickr", "test2017": "test_2017_flickr"}


def main():
    if len(sys.argv) != 2 or "FOVEA_DATA" not in os.environ:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for language in ("en", "de"):
        tokenizer, normalizer = MosesTokenizer(lang=language), MosesPunctNormalizer(lang=language)
        for part, name in PARTS.items():
            source = os.path.join(os.environ["FOVEA_DATA"], "multi30k", f"{name}.{language}.gz")
            target = os.path.join(folder, f"{part}.{language}")
            with gzip.open(source, "rt", encoding="utf-8") as lines, \
                    open(target, "w", encoding="utf-8") as out:
                for line in lines:
                    text = normalizer.normalize(line.rstrip("\n").lower())
                    out.write(tokenizer.tokenize(text, escape=False, return_str=True) + "\n")


main()
