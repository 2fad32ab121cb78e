#!/usr/bin/env python3
"""Encodes a text file with an empty word cache, one thread: Fovea against Hugging Face tokenizers,
alternately; the ids must be equal. Needs pip install tokenizers.

    bench_tokenizer.py --library build/release/libfovea.so TOKENIZER TEXT

TOKENIZER is a tokenizer.json or a folder, as for `fovea tokenize`. Each side encodes the whole file as
one text, and then line by line, which is faster for tokenizers. Times are CPU time of the calling thread.
"""
import argparse
import ctypes
import os
import statistics
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402

from common import show  # noqa: E402


class Encoding(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("count", ctypes.c_size_t),
                ("ids", ctypes.POINTER(ctypes.c_int32))]


class Fovea:
    def __init__(self, library, path):
        self.lib = ctypes.CDLL(library)
        self.lib.fv_tokenizer_encode.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t,
                                       ctypes.c_uint, ctypes.c_void_p]
        self.ctx, self.tok = ctypes.c_void_p(), ctypes.c_void_p()
        self.must(self.lib.fv_ctx_create(None, ctypes.byref(self.ctx)))
        self.must(self.lib.fv_tokenizer_load(self.ctx, os.fsencode(path), ctypes.byref(self.tok)))

    @staticmethod
    def must(status):
        if status != 0:
            raise SystemExit(f"the library returned status {status}")

    def save(self, path):
        self.must(self.lib.fv_tokenizer_save(self.ctx, self.tok, os.fsencode(path)))

    def encode(self, texts):
        """Returns seconds and the ids."""
        encoder, out = ctypes.c_void_p(), Encoding(ctypes.sizeof(Encoding))
        self.must(self.lib.fv_tokenizer_encoder_create(self.ctx, self.tok, ctypes.byref(encoder)))
        ids, seconds = [], 0.0
        for text in texts:
            start = time.thread_time()
            self.must(self.lib.fv_tokenizer_encode(encoder, text, len(text), 0, ctypes.byref(out)))
            seconds += time.thread_time() - start
            ids += out.ids[:out.count]
        self.lib.fv_tokenizer_encoder_destroy(ctypes.byref(encoder))
        return seconds, ids


def encode_theirs(path, texts):
    tokenizer = Tokenizer.from_file(path)
    ids, seconds = [], 0.0
    for text in texts:
        start = time.thread_time()
        encoding = tokenizer.encode(text, add_special_tokens=False)
        seconds += time.thread_time() - start
        ids += encoding.ids
    return seconds, ids


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", default="build/release/libfovea.so")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("tokenizer")
    parser.add_argument("text")
    args = parser.parse_args()
    fovea = Fovea(os.path.abspath(args.library), args.tokenizer)
    with open(args.text, encoding="utf-8", newline="") as file:
        text = file.read()
    megabytes = len(text.encode()) / 1e6
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokenizer.json")
        fovea.save(path)
        for name, texts in (("whole", [text]), ("lines", text.split("\n"))):
            ours, theirs = [], []
            for _ in range(args.rounds):
                seconds, ids = fovea.encode([t.encode() for t in texts])
                ours.append(seconds)
                seconds, other = encode_theirs(path, texts)
                theirs.append(seconds)
                assert ids == other, "the ids differ"
            a, b = statistics.median(ours), statistics.median(theirs)
            show(work=name, megabytes=round(megabytes, 2), tokens=len(ids), fovea_mb_s=round(megabytes / a, 1),
                 tokenizers_mb_s=round(megabytes / b, 2), ratio=round(b / a, 1))


if __name__ == "__main__":
    main()
