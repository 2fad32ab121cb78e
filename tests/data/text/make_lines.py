#!/usr/bin/env python3
"""Writes lines.txt.gz and lines.txt.xz: 4,000 numbered lines in two members each."""
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
