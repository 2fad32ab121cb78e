#!/usr/bin/env python3
"""Writes lines.txt.gz and lines.txt.xz: 4,000 numbered lines in two members each; and same.txt.gz and
same.txt.xz: 12 MiB of one line again and again, about a thousandth and a six-thousandth of it."""
import gzip
import lzma
import os

folder = os.path.dirname(os.path.abspath(__file__))
lines = [f"line {i}: some words \u00e9 \u6771\u4eac\n" for i in range(1, 4001)]
halves = ["".join(lines[:2000]).encode(), "".join(lines[2000:]).encode()]
with open(os.path.join(folder, "lines.txt.gz"), "wb") as out:
    out.writelines(gzip.compress(half, 9, mtime=0) for half in halves)
with open(os.path.join(folder, "lines.txt.xz"), "wb") as out:
    out.writelines(lzma.compress(half) for half in halves)
same = b"again\n" * (2 << 20)
with open(os.path.join(folder, "same.txt.gz"), "wb") as out:
    out.write(gzip.compress(same, 9, mtime=0))
with open(os.path.join(folder, "same.txt.xz"), "wb") as out:
    out.write(lzma.compress(same))
