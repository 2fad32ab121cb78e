#!/usr/bin/env python3
"""Writes unicode.tsv: code points of a text, then its NFC, NFD, NFKC, NFKD and lower case, as
Python's unicodedata has them. Every code point is tested by tools/check-unicode."""
import random
import unicodedata as u

rng = random.Random(7)
every = [chr(i) for i in range(0x110000) if u.category(chr(i)) not in ("Cn", "Cs", "Co")]
marks = [c for c in every if u.combining(c)]
parts = [c for c in every if u.decomposition(c)]
jamo = [chr(i) for i in list(range(0x1100, 0x1200)) + list(range(0xAC00, 0xAC00 + 60))]
cased = [c for c in every if c.lower() != c]
greek = list("ΣΑΒσς'’.\u00ad\u0301 1")
texts = ["", "Σ", "ΑΣ", "ΑΣ.", "ΑΣΑ", "İ", "ﬁ", "ẛ̣", "\u1100\u1161\u11a8", "\u0344", "\u2126",
         "q\u0307\u0323", "\u0915\u093c", "\u09c7\u09be", "a" + "\u0323\u0301" * 20]
pools = [[marks, cased], [parts, marks], [jamo], [greek], [every], [cased, parts, marks]]
for _ in range(500):
    pool = rng.choice(pools)
    texts.append("".join(rng.choice(rng.choice(pool)) for _ in range(rng.randrange(1, 9))))


def codes(text):
    return " ".join(f"{ord(c):x}" for c in text)


with open(__file__.replace("make_unicode.py", "unicode.tsv"), "w", encoding="ascii") as out:
    for text in texts:
        forms = [u.normalize(f, text) for f in ("NFC", "NFD", "NFKC", "NFKD")]
        print("\t".join(map(codes, [text, *forms, text.lower()])), file=out)
