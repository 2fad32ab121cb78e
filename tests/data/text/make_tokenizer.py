#!/usr/bin/env python3
"""Tokenizers against Hugging Face's library.

    make_tokenizer.py                        writes tokenizer.jsonl, which tests/test_tokenizer.c reads
    make_tokenizer.py --check FOVEA FILE...  learns each kind of tokenizer from the text files with the
                                             program and compares ids, offsets and decoding

Needs pip install tokenizers sentencepiece protobuf (made with tokenizers 0.23.2).
"""
import base64
import json
import os
import random
import subprocess
import sys
import tempfile

from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer

FOLDER = os.path.dirname(os.path.abspath(__file__))
KINDS = ["chars", "words", "bpe-bytes", "bpe-words", "bpe-metaspace"]
PARTS = ("the of and a in to was it's don't we'll I'VE they're 1234 3.14 ... -- élève naïve e\u0301 "
         "Straße ΟΔΟΣ İ ﬁ ﬀ Å ½ ² ｆｕｌｌ 東京 日本語 한국어 각 привет नमस्ते \u0301 🙂 👩‍👩‍👧 \u00a0 \u3000 \u2009 "
         "<s> </s> <unk> <pad> [MASK] ▁ ▁a </w> a</w> \t \x1f x\u200by _ __init__ a_b C++ #tag").split(" ")

LETTERS = sorted(set("".join(PARTS)) - {" "})


def texts(rng, count):
    out = ["", " ", "  ", " a", "a ", "\n", "a\nb", "\u00a0", "<s>", "<s></s>", " <s> a <s>b", "é" * 300,
           "ab" * 200]
    while len(out) < count:
        pieces = [rng.choice(PARTS) for _ in range(rng.randrange(1, 9))]
        out.append(rng.choice([" ", " ", "  ", "", "\n"]).join(pieces))
    return out


# ---- pipelines by hand: each is a tokenizer.json in small ---------------------------------------

BYTES = [c for c in range(33, 127)] + [c for c in range(161, 173)] + [c for c in range(174, 256)]
LETTER = {b: chr(b) for b in BYTES}
LETTER.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in BYTES)})


def bpe(alphabet, merges, **more):
    vocab = {}
    for token in list(alphabet) + ["".join(m) for m in merges]:
        vocab.setdefault(token, len(vocab))
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": False, "vocab": vocab, "merges": [list(m) for m in merges]}
    model.update(more)
    return model


def words(tokens, **more):
    return {"type": "WordLevel", "vocab": {t: i for i, t in enumerate(tokens)}, "unk_token": "<unk>", **more}


def added(token, ident, **more):
    return {"id": ident, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True, **more}


def document(model, **more):
    out = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
           "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model}
    out.update(more)
    return out


def byte_level(prefix=False, trim=True, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim, "use_regex": regex}


def metaspace(scheme="always", split=True):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def replace(pattern, content):
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def charsmap():
    """The small one of tests/data/text/sentencepiece."""
    model = sentencepiece_model_pb2.ModelProto()
    with open(os.path.join(FOLDER, "sentencepiece", "unigram.model"), "rb") as file:
        model.ParseFromString(file.read())
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()}


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PATTERNS = [(GPT2, "Removed", True), (CL100K, "Isolated", False), ("(?:" + CL100K + ")", "Isolated", False),
            (CL100K.replace("{1,3}", ""), "Isolated", False), (O200K, "Isolated", False),
            (r" ?[^(\s|[.,!?…。，、।۔،])]+", "Isolated", False), (r"(?<=[a-z])(?=[A-Z])|-", "MergedWithNext", False),
            (r"\b", "Isolated", False), (r"\w+|[^\w\s]+", "Removed", True), (r"(?>a|ab)c|x{2,}+|t.+?e", "Contiguous", False),
            (r"[a-n&&[^e]]+|\p{^L}{2,3}?|(?<!t)h", "MergedWithPrevious", False), (r"^\s+|\s+$|\Aa|\x{65E5}", "Removed", False)]


def pipelines():
    space = LETTER[32]
    merges = [("t", "h"), ("th", "e"), (space, "the"), ("a", "n"), ("an", "d"), (space, "a"), ("'", "s"),
              ("i", "n"), (LETTER[0xC3], LETTER[0xA9]), (space, "t"), ("o", "f")]
    byte_bpe = bpe([LETTER[b] for b in range(256)], merges)
    char_merges = [("t", "h"), ("th", "e"), ("a", "n"), ("▁", "a"), ("▁", "the"), ("é", "l")]
    char_bpe = bpe(["<unk>"] + LETTERS, char_merges, unk_token="<unk>")
    half = LETTERS[::2]
    word_list = ["<unk>", "the", "of", "and", "a", "3", ".", "14", "東", "京", "elève", "eleve", "don", "'", "t"]
    piece_list = ["[UNK]", "[CLS]", "[SEP]", "the", "th", "##e", "a", "##a", "##n", "an", "##d", "1", "##2",
                  "##3", "##4", "e", "##l", "##e", "##v", "東", "京", "'", "t", ".", "3", "don", "it", "s"]
    pieces = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 20, "vocab": {t: i for i, t in enumerate(piece_list)}}
    template = {"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                           {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
                "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                         {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
                         {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]},
                                   "[SEP]": {"id": "[SEP]", "ids": [2], "tokens": ["[SEP]"]}}}
    bert_marks = [added("[UNK]", 0), added("[CLS]", 1), added("[SEP]", 2)]
    nfc = {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}
    bert = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
            "lowercase": True}
    n = len(byte_bpe["vocab"])
    c = len(char_bpe["vocab"])
    scores = [("<unk>", 0.0), ("▁", -2.0), ("▁the", -3.5), ("th", -5.0), ("e", -3.0), ("l", -4.0), ("ll", -4.5), ("é", -6.0),
              ("élève", -9.0), ("▁a", -3.25), ("an", -4.75), ("and", -6.5), ("0", -4.0), ("00", -5.0), ("fi", -7.0), ("t", -3.0),
              ("東京", -8.0), ("東", -9.5), ("s", -3.75), ("'", -5.5), (".", -4.0)]
    unigram = {"type": "Unigram", "unk_id": 0, "vocab": [list(s) for s in scores], "byte_fallback": False}
    unigram_bytes = {"type": "Unigram", "unk_id": 0, "byte_fallback": True,
                     "vocab": [list(s) for s in scores] + [[f"<0x{b:02X}>", -20.0] for b in range(256)]}
    fallback = bpe(["<unk>"] + half + [f"<0x{b:02X}>" for b in range(256)], [], unk_token="<unk>",
                   byte_fallback=True, fuse_unk=True)
    return [
        document(byte_bpe, pre_tokenizer=byte_level(), decoder=byte_level(), post_processor=byte_level()),
        document(byte_bpe, pre_tokenizer=byte_level(prefix=True), decoder=byte_level(),
                 post_processor=byte_level(prefix=True), added_tokens=[added("<s>", n), added("</s>", n + 1, lstrip=True)]),
        document(byte_bpe, pre_tokenizer=byte_level(), decoder=byte_level(), post_processor=byte_level(trim=False),
                 normalizer={"type": "NFKC"}, added_tokens=[added("<s>", n, rstrip=True), added("of", n + 1, special=False, single_word=True)]),
        document(byte_bpe, pre_tokenizer=byte_level(regex=False), decoder=byte_level(),
                 post_processor={"type": "RobertaProcessing", "sep": ["t", 2], "cls": ["h", 1], "trim_offsets": True,
                                 "add_prefix_space": False}),
        document(char_bpe, pre_tokenizer=metaspace(), decoder=metaspace()),
        document(char_bpe, pre_tokenizer=metaspace("first"), decoder=metaspace("first"), normalizer=nfc,
                 added_tokens=[added("<unk>", 0), added("<s>", c), added("Naïve", c + 1, special=False, normalized=True)]),
        document(char_bpe, pre_tokenizer=metaspace("never", False), decoder=metaspace("never")),
        document(bpe(["<unk>"] + half, [], unk_token="<unk>", fuse_unk=True), decoder={"type": "Fuse"}),
        document(fallback, decoder={"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
                 normalizer={"type": "Sequence", "normalizers": [
                     {"type": "Prepend", "prepend": "▁"},
                     {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}),
        document(words(word_list), pre_tokenizer={"type": "Whitespace"}),
        document(words(word_list), pre_tokenizer={"type": "WhitespaceSplit"}, normalizer={"type": "Strip", "strip_left": True, "strip_right": True}),
        document(words(word_list), normalizer={"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]},
                 pre_tokenizer={"type": "Sequence", "pretokenizers": [
                     {"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"},
                     {"type": "Digits", "individual_digits": False}]}),
        document(words(word_list), pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "MergedWithPrevious"},
            {"type": "CharDelimiterSplit", "delimiter": " "}]}),
        document(words(word_list), pre_tokenizer={"type": "Split", "pattern": {"String": "a"}, "behavior": "MergedWithNext", "invert": False}),
        document(words(word_list), pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "Contiguous", "invert": False}),
        document(words(word_list), pre_tokenizer={"type": "Split", "pattern": {"String": "the"}, "behavior": "Removed", "invert": True}),
        document(pieces, normalizer=bert, pre_tokenizer={"type": "BertPreTokenizer"}, post_processor=template,
                 decoder={"type": "WordPiece", "prefix": "##", "cleanup": True}, added_tokens=bert_marks),
        document(pieces, normalizer={**bert, "lowercase": False, "strip_accents": True},
                 pre_tokenizer={"type": "BertPreTokenizer"},
                 post_processor={"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
                 decoder={"type": "WordPiece", "prefix": "##", "cleanup": False}, added_tokens=bert_marks),
        document(bpe(["<unk>"] + LETTERS + [x + "</w>" for x in LETTERS], [("t", "h"), ("th", "e</w>"), ("a", "n"), ("an", "d</w>")],
                     unk_token="<unk>", end_of_word_suffix="</w>"),
                 pre_tokenizer={"type": "WhitespaceSplit"}, decoder={"type": "BPEDecoder", "suffix": "</w>"}),
        document(unigram, normalizer=charsmap(), pre_tokenizer=metaspace(), decoder=metaspace()),
        document(unigram_bytes, normalizer={"type": "Sequence", "normalizers": [charsmap(), replace(" {2,}", " ")]},
                 pre_tokenizer=metaspace("first", False), added_tokens=[added("<s>", len(unigram_bytes["vocab"]))],
                 decoder={"type": "Sequence", "decoders": [{"type": "ByteFallback"}, metaspace("first")]}),
        document(words(word_list), normalizer=replace(r"\s+|(th|a)+", "ab"), pre_tokenizer=split("."),
                 decoder={"type": "Sequence", "decoders": [replace("[aeo]+", "_"), {"type": "Fuse"}]}),
    ] + [document(words(word_list), pre_tokenizer=split(*pattern)) for pattern in PATTERNS]


def encode(tok, text, pair):
    e = tok.encode(text, pair) if pair is not None else tok.encode(text)
    out = {"text": text, "ids": e.ids, "offsets": [list(o) for o in e.offsets], "types": e.type_ids,
           "decoded": tok.decode(e.ids, skip_special_tokens=True)}
    if pair is not None:
        out["pair"] = pair
    return out


def write_fixture():
    rng = random.Random(3)
    cases = 0
    with open(os.path.join(FOLDER, "tokenizer.jsonl"), "w", encoding="utf-8") as out:
        for doc in pipelines():
            tok = Tokenizer.from_str(json.dumps(doc))
            print(json.dumps({"tokenizer": json.dumps(doc, ensure_ascii=False)}, ensure_ascii=True), file=out)
            for i, text in enumerate(texts(rng, 40)):
                pair = rng.choice(PARTS) if i % 5 == 4 else None
                try:
                    print(json.dumps(encode(tok, text, pair)), file=out)
                    cases += 1
                except Exception as error:
                    print(f"left out: {text!r}: {error}", file=sys.stderr)
    print(f"{cases} cases", file=sys.stderr)


def check(program, files):
    rng = random.Random(4)
    sample = texts(rng, 3000)
    for path in files:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        sample += [rng.choice(lines) for _ in range(2000)]
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            for extra in [[], ["--normalize", "nfkc", "--lowercase", "--around"]]:
                model = os.path.join(folder, f"{kind}.json")
                subprocess.run([program, "tokenize", "--learn", kind, "--vocabulary", "5000", "-o", model, *extra, *files],
                               check=True, capture_output=True)
                tok = Tokenizer.from_file(model)
                lines = "".join(json.dumps({"text": t}) + "\n" for t in sample).encode()
                run = subprocess.run([program, "tokenize", model, "--jsonl"], input=lines, capture_output=True, check=True)
                wrong = 0
                ids = []
                for text, line in zip(sample, run.stdout.splitlines(), strict=True):
                    have, want = json.loads(line), tok.encode(text)
                    ids.append(want.ids)
                    if have["ids"] != want.ids or [tuple(o) for o in have["offsets"]] != want.offsets:
                        wrong += 1
                        if wrong <= 3:
                            print(kind, repr(text), have["ids"], want.ids, have["offsets"], want.offsets, sep="\n  ")
                lines = "".join(" ".join(map(str, i)) + "\n" for i in ids).encode()
                run = subprocess.run([program, "tokenize", model, "--decode", "--no-specials"], input=lines,
                                     capture_output=True, check=True)
                want = "".join(tok.decode(i, skip_special_tokens=True) + "\n" for i in ids)
                same = run.stdout.decode() == want
                print(f"{kind} {' '.join(extra)}: {len(sample)} texts, {wrong} differ; decoding {'equal' if same else 'DIFFERS'}")
                assert wrong == 0 and same


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "--check":
        check(sys.argv[2], sys.argv[3:])
    else:
        write_fixture()
