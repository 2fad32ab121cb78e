#!/usr/bin/env python3
"""Small tokenizers in the form of Marian's folders, and what transformers' MarianTokenizer says of
some texts with them.

    make_marian.py              writes marian/*/ and marian.jsonl, which tests/test_marian.c reads
    make_marian.py --check FOVEA [FOLDER...]  compares the program with MarianTokenizer on many random
                                texts, of both languages: ids and decoding

Needs pip install sentencepiece transformers (made with 0.2.2 and 5.22.2).
"""
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import warnings

import sentencepiece
import transformers

from make_sentencepiece import SENTENCES, texts

warnings.simplefilter("ignore")
transformers.logging.set_verbosity_error()
FOLDER = pathlib.Path(__file__).resolve().parent
FRENCH = """La fille du meunier longe la rivière tous les matins.
Toutes les cloches de la petite ville sonnent à midi, et tous les chiens aboient.
Personne ne sait pourquoi la vieille horloge s'est arrêtée à dix heures dix.
Une barque sans rames glisse lentement sous le pont de pierre.
Son frère peint des murs, des portes et parfois le ciel.
Quand il pleut, les enfants comptent les gouttes sur la vitre.
Le boulanger vend du pain et de petits pâtés chauds jusqu'à six heures.
Sur l'autre rive, un héron se tient immobile, comme taillé dans le bois.
Nous suivrons le sentier jusqu'à la dernière lanterne, puis à gauche.
Ça coûte 10 ou 100 francs ; où est l'œuf ? Là-bas, naïf garçon !""".split("\n")
CODES = [">>fra<<", ">>deu<<"]
HARD = [">>fra<< The mill", ">>xyz<< The mill", ">>fra<<", ">>fra<<>>deu<< a", ">> fra <<x", " >>fra<< a",
        "a >>fra<< b", "</s>>>fra<< b", "The </s> mill", "</s>", "<pad><unk>a", "<s>a</s>b<pad> c", ">>", ">><<",
        "œuf où ça", "The œœœ garçon", "日本 日本日本", "½", "a<unk>b"]
MODELS = {
    "joint": dict(model_type="unigram"),
    "apart": dict(model_type="bpe", separate=True),
    "bytes": dict(model_type="unigram", byte_fallback=True, vocab_size=350, character_coverage=0.98),
}


def train(sentences, options):
    settings = dict(vocab_size=90, normalization_rule_name="identity", num_threads=1, minloglevel=2,
                    hard_vocab_limit=False)
    settings.update(options)
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=out, **settings)
    return out.getvalue()


def pieces(model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def vocabulary(*lists):
    """As Opus-MT has it: end and unknown first, padding last. Every ninth piece was too rare."""
    tokens = ["</s>", "<unk>", *CODES]
    for i, piece in enumerate(sorted(set().union(*lists) - {"<s>", "</s>", "<unk>"})):
        if i % 9 != 4:
            tokens.append(piece)
    return {token: i for i, token in enumerate(tokens + ["<pad>"])}


def write_folder(folder, separate=False, **options):
    folder.mkdir(parents=True, exist_ok=True)
    models = [train(SENTENCES[:9], options), train(FRENCH, options)]
    lists = [pieces(model) for model in models]
    files = {"vocab.json": vocabulary(lists[0]), "target_vocab.json": vocabulary(lists[1])}
    if not separate:
        files = {"vocab.json": vocabulary(*lists)}
    for name, words in files.items():
        (folder / name).write_text(json.dumps(words, ensure_ascii=False) + "\n", encoding="utf-8")
    for name, model in zip(("source.spm", "target.spm"), models):
        (folder / name).write_bytes(model)
    settings = {"separate_vocabs": separate, "source_lang": "eng", "target_lang": "fra", "tokenizer_class": "MarianTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings) + "\n")


def encode(tokenizer, text, target):
    ids = tokenizer(text_target=text)["input_ids"] if target else tokenizer(text)["input_ids"]
    line = {"text": text, "ids": ids}
    # What a tokenizer writes is the target's; ids of the source are not decoded where they differ.
    # With one vocabulary for both, either model can spell them; ours spells with its own.
    if target or not tokenizer.separate_vocabs:
        line["decoded"] = tokenizer.decode(ids, use_source_tokenizer=not target)
        line["plain"] = tokenizer.decode(ids, use_source_tokenizer=not target, skip_special_tokens=True)
    return line


def sample(rng, count):
    return HARD + [FRENCH[i % len(FRENCH)] for i in range(3)] + texts(rng, count)


def write_fixture():
    rng = random.Random(7)
    with open(FOLDER / "marian.jsonl", "w", encoding="utf-8") as out:
        for name, options in MODELS.items():
            write_folder(FOLDER / "marian" / name, **options)
            tokenizer = transformers.MarianTokenizer.from_pretrained(FOLDER / "marian" / name)
            for target in (False, True):
                print(json.dumps({"folder": name, "target": target}), file=out)
                for text in sample(rng, 40):
                    print(json.dumps(encode(tokenizer, text, target)), file=out)


def run(program, lines, *options):
    data = "".join(line + "\n" for line in lines).encode()
    return subprocess.run([program, "tokenize", *options], input=data, capture_output=True, check=True).stdout.decode()


def check_side(program, folder, tokenizer, target):
    rng = random.Random(8)
    more = ["--target"] if target else []
    # The command reads ids by the line: texts that decode to line ends are left out.
    want = [encode(tokenizer, t, target) for t in sample(rng, 3000)]
    have = run(program, [json.dumps({"text": w["text"]}) for w in want], folder, "--jsonl", *more).splitlines()
    wrong = [w for w, line in zip(want, have, strict=True) if json.loads(line)["ids"] != w["ids"]]
    for key, skip in (("decoded", []), ("plain", ["--no-specials"])):
        known = [w for w in want if key in w and not set(w[key]) & set("\n\r")]
        texts_back = run(program, [" ".join(map(str, w["ids"])) for w in known], folder, "--decode", *skip, *more)
        wrong += [w for w, line in zip(known, texts_back.split("\n")) if line != w[key]]
    print(f"{folder}, {'target' if target else 'source'}: {len(want)} texts, {len(wrong)} differ")
    for w in wrong[:3]:
        print("  ", w)
    return not wrong


def check(program, folders):
    good = True
    for folder in folders or [str(FOLDER / "marian" / name) for name in MODELS]:
        tokenizer = transformers.MarianTokenizer.from_pretrained(folder)
        for target in (False, True):
            good = check_side(program, folder, tokenizer, target) and good
    if not good:
        raise SystemExit("other tokens than MarianTokenizer's")


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--check":
        check(sys.argv[2], sys.argv[3:])
    else:
        write_fixture()
