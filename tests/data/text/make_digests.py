#!/usr/bin/env python3
"""make_digests.py FOVEA DATA: writes digests.txt, checksums of what Hugging Face's tokenizers and Google's
SentencePiece make of every code point and of whole corpora. tests/test_tokenizer_digests.c compares with it.

FOVEA is the program, which learns tokenizers from a generated corpus; DATA is the folder that FOVEA_DATA
names. Needs pip install tokenizers sentencepiece (made with 0.23.3 and 0.2.2).
"""
import array
import gzip
import lzma
import os
import subprocess
import sys
import tempfile
import zlib

import sentencepiece
import tokenizers
from tokenizers import normalizers, pre_tokenizers

FOLDER = os.path.dirname(os.path.abspath(__file__))
PLAIN = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
STEPS = {
    "NFC": normalizers.NFC(), "NFD": normalizers.NFD(), "NFKC": normalizers.NFKC(), "NFKD": normalizers.NFKD(),
    "Lowercase": normalizers.Lowercase(), "Strip": normalizers.Strip(),
    "StripAccents": normalizers.StripAccents(),
    "clean": normalizers.BertNormalizer(**{**PLAIN, "clean_text": True}),
    "chinese": normalizers.BertNormalizer(**{**PLAIN, "handle_chinese_chars": True}),
    "accents": normalizers.BertNormalizer(**{**PLAIN, "strip_accents": True}),
    "BertNormalizer": normalizers.BertNormalizer(),
    "BertPreTokenizer": pre_tokenizers.BertPreTokenizer(), "Punctuation": pre_tokenizers.Punctuation(),
    "Whitespace": pre_tokenizers.Whitespace(), "WhitespaceSplit": pre_tokenizers.WhitespaceSplit(),
    "Digits": pre_tokenizers.Digits(),
}
CORPORA = ["wikitext-2/valid.txt.xz", "tatoeba-eng-cmn/cmn.txt.xz", "multi30k/val.de.gz"]
KINDS = ["chars", "words", "bpe-bytes", "bpe-words", "bpe-metaspace", "wordpiece"]


def code_point_texts():
    """Texts of 256 code points, each between letters, so that none affects another."""
    for first in range(0, 0x110000, 256):
        yield first >> 16, "".join("a" + chr(c) + "b " for c in range(first, first + 256) if not 0xD800 <= c < 0xE000)


def apply(step, text):
    if hasattr(step, "normalize_str"):
        return step.normalize_str(text) + "\n"
    return "".join(piece + "\n" for piece, _ in step.pre_tokenize_str(text))


def random_numbers():
    state = 7
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) & (1 << 64) - 1
        yield state >> 33


def corpus(trained=False):
    """The same text as make_corpus() of the test: words of syllables, the first ones frequent; then long
    words of any syllables, in which merges compete."""
    syllables = "ba ko li men tu ra é shi on ve da ß gu pe ya or zu ni te x".split()
    r = random_numbers()
    words = ["".join(syllables[next(r) % len(syllables)] for _ in range(1 + next(r) % 4)) for _ in range(3000)]
    for _ in range(3000):
        line = []
        for i in range(5 + next(r) % 10):
            word = words[next(r) % (1 + next(r) % 3000)]
            line.append(("," if next(r) % 8 == 0 else "") + (" " if i else "") + word)
        yield "".join(line) + "."
    if not trained:
        for _ in range(3000):
            yield "".join(syllables[next(r) % len(syllables)] for _ in range(20))


def digest(encode, lines):
    crc = 0
    for line in lines:
        crc = zlib.crc32(array.array("i", encode(line) + [-1]).tobytes(), crc)
    return crc


def unpack(path):
    return (lzma if path.endswith(".xz") else gzip).open(path).read()


def published(data):
    """The tokenizers under DATA, as functions from text to ids."""
    folder = os.path.join(data, "tokenizers")
    with tempfile.TemporaryDirectory() as temp:
        for name in ["gpt2/vocab.json", "gpt2/merges.txt", "bert-base-uncased/tokenizer.json"]:
            with open(os.path.join(temp, os.path.basename(name)), "wb") as out:
                out.write(unpack(os.path.join(folder, name + ".xz")))
        gpt2 = tokenizers.ByteLevelBPETokenizer(os.path.join(temp, "vocab.json"), os.path.join(temp, "merges.txt"))
        bert = tokenizers.Tokenizer.from_file(os.path.join(temp, "tokenizer.json"))
    yield "gpt2", lambda text: gpt2.encode(text, add_special_tokens=False).ids
    yield "bert", lambda text: bert.encode(text, add_special_tokens=False).ids
    for name in ["en", "ja"]:
        model = sentencepiece.SentencePieceProcessor(
            model_proto=unpack(os.path.join(folder, f"sentencepiece/{name}.model.xz")))
        yield name, model.encode


def main():
    program, data = sys.argv[1:]
    with open(os.path.join(FOLDER, "digests.txt"), "w", encoding="ascii") as out:
        for name, step in STEPS.items():
            planes = [0] * 17
            for plane, text in code_point_texts():
                planes[plane] = zlib.crc32(apply(step, text).encode(), planes[plane])
            for plane, crc in enumerate(planes):
                print(f"{name}/{plane} {crc:08x}", file=out)
        with tempfile.TemporaryDirectory() as temp:
            text, learned = os.path.join(temp, "corpus.txt"), os.path.join(temp, "tokenizer.json")
            with open(text, "w", encoding="utf-8") as f:
                f.writelines(line + "\n" for line in corpus(trained=True))
            for kind in KINDS:
                subprocess.run([program, "tokenize", "--learn", kind, "--vocabulary", "2500", "-o", learned, text],
                               check=True, stdout=subprocess.DEVNULL)
                tok = tokenizers.Tokenizer.from_file(learned)
                print(f"{kind} {digest(lambda s: tok.encode(s, add_special_tokens=False).ids, corpus()):08x}",
                      file=out)
        for model in sorted(os.listdir(os.path.join(FOLDER, "sentencepiece"))):
            tok = sentencepiece.SentencePieceProcessor(os.path.join(FOLDER, "sentencepiece", model))
            print(f"{model} {digest(tok.encode, corpus()):08x}", file=out)
        for name, encode in published(data):
            print(f"{name}/code-points {digest(encode, (t for _, t in code_point_texts())):08x}", file=out)
            for path in CORPORA:
                lines = unpack(os.path.join(data, path)).decode().removesuffix("\n").split("\n")
                lines = [line.removesuffix("\r") for line in lines]
                print(f"{name}/{path} {digest(encode, lines):08x}", file=out)


main()
