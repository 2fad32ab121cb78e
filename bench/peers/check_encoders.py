"""Texts through encoders of Hugging Face transformers with classes of tokens and with spans, by
`fovea run`: tokenizers (WordPiece, byte-level BPE with RoBERTa's special tokens), words, windows.

    python bench/peers/check_encoders.py BUILD

Random models of BERT, DistilBERT and RoBERTa; the tokenizers are trained on this project's pages. The label
of a word is compared with that of its first token, answers with transformers' logits and the rule of its
question-answering pipeline (softmax over the context and the first token, spans of at most 15 tokens).
Needs torch and transformers. Fails where a label or an answer differs, or a probability by more than 1e-4."""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import tokenizers
import torch
import transformers as hf

ROOT = pathlib.Path(__file__).resolve().parents[2]
BOUND, WINDOW, OVERLAP, ANSWER = 1e-4, 384, 128, 15
SIZES = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
    initializer_range=0.3,
)
DISTILBERT = dict(dim=32, n_layers=2, n_heads=4, hidden_dim=40, initializer_range=0.3)
LABELS = {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC"}


def pages():
    return [page.read_text() for page in sorted(ROOT.glob("docs/*.md"))]


def wordpiece():
    tok = tokenizers.BertWordPieceTokenizer(lowercase=True)
    tok.train_from_iterator(pages(), vocab_size=800, show_progress=False)
    ends = [(name, tok.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    tok._tokenizer.post_processor = tokenizers.processors.BertProcessing(*ends)
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=tok._tokenizer, cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]",
        unk_token="[UNK]", mask_token="[MASK]",
    )


def byte_level():
    tok = tokenizers.ByteLevelBPETokenizer(trim_offsets=True)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tok.train_from_iterator(pages(), vocab_size=800, special_tokens=special, show_progress=False)
    tok._tokenizer.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=tok._tokenizer, cls_token="<s>", sep_token="</s>", pad_token="<pad>",
        unk_token="<unk>", mask_token="<mask>",
    )


def models():
    """Name, tokenizer, config, class for tokens, class for spans."""
    piece, byte = wordpiece(), byte_level()
    some = dict(id2label=LABELS, label2id={name: i for i, name in LABELS.items()})
    bert = hf.BertConfig(**SIZES, vocab_size=len(piece), **some)
    distilbert = hf.DistilBertConfig(**DISTILBERT, vocab_size=len(piece), **some)
    roberta = hf.RobertaConfig(
        **SIZES, vocab_size=len(byte), max_position_embeddings=300, type_vocab_size=1, **some
    )
    yield "bert", piece, bert, hf.BertForTokenClassification, hf.BertForQuestionAnswering
    yield (
        "distilbert", piece, distilbert, hf.DistilBertForTokenClassification,
        hf.DistilBertForQuestionAnswering,
    )
    yield "roberta", byte, roberta, hf.RobertaForTokenClassification, hf.RobertaForQuestionAnswering


def save(model, tok, at):
    model.eval().save_pretrained(at)
    tok.save_pretrained(at)


def fovea(build, at, texts, *options):
    run = subprocess.run(
        [build / "fovea", "run", at, "--json", *options], input="\n".join(texts) + "\n", check=True,
        capture_output=True, encoding="utf-8",
    )
    return [json.loads(line) for line in run.stdout.splitlines()]


def place(text, index):
    """A character's place in bytes."""
    return len(text[:index].encode())


def check_tokens(build, tok, at, texts):
    """Texts and pairs with other ids."""
    wrong = 0
    for pair in (False, True):
        rows = [{"text": a, "pair": b} if pair else {"text": a} for a, b in zip(texts, texts[1:])]
        run = subprocess.run(
            [build / "fovea", "tokenize", at, "--jsonl"], check=True, capture_output=True,
            input="".join(json.dumps(row) + "\n" for row in rows).encode(),
        )
        ours = [json.loads(line)["ids"] for line in run.stdout.splitlines()]
        theirs = [tok(*row.values())["input_ids"] for row in rows]
        wrong += sum(a != b for a, b in zip(ours, theirs, strict=True))
    return wrong


def check_words(build, model, tok, at, texts):
    """Words whose label differs, and the largest difference of a probability."""
    wrong, off, words = 0, 0.0, 0
    for text, ours in zip(texts, fovea(build, at, texts), strict=True):
        batch = tok(text, return_tensors="pt", return_offsets_mapping=True)
        with torch.no_grad():
            p = model(batch["input_ids"]).logits[0].softmax(-1).numpy()
        first = {}
        for i, (b, e) in enumerate(batch["offset_mapping"][0].tolist()):
            if i > 0:
                first.setdefault(place(text, b), i)
        for word in ours["words"]:
            row = p[first[word["begin"]]]
            wrong += LABELS[int(row.argmax())] != word["label"]
            off = max(off, abs(float(row.max()) - word["p"]))
            words += 1
    return wrong, off, words


def answers(model, tok, question, context, limit):
    """Spans with their probabilities over all windows, the best first, and that of no answer."""
    e = tok(question, context, return_offsets_mapping=True)
    inside = [i for i, s in enumerate(e.sequence_ids(0)) if s == 1]
    begin, end, count = inside[0], inside[-1] + 1, len(e["input_ids"])
    room = limit - (count - (end - begin))
    step, best, none = room - min(room // 2, OVERLAP), {}, 1.0
    for at in range(begin, end, step):
        columns = [*range(begin), *range(at, min(at + room, end)), *range(end, count)]
        ids = torch.tensor([[e["input_ids"][i] for i in columns]])
        more = {}
        if model.config.model_type == "bert":
            types = e.encodings[0].type_ids
            more["token_type_ids"] = torch.tensor([[types[i] for i in columns]])
        with torch.no_grad():
            out = model(ids, **more)
        seen = [i for i, c in enumerate(columns) if c == 0 or begin <= c < end]
        p = [x[0, seen].double().softmax(-1).numpy() for x in (out.start_logits, out.end_logits)]
        none = min(none, p[0][0] * p[1][0])
        for i in range(1, len(seen)):
            for k in range(i, min(i + ANSWER, len(seen))):
                span = (e["offset_mapping"][columns[seen[i]]][0], e["offset_mapping"][columns[seen[k]]][1])
                best[span] = max(best.get(span, 0), p[0][i] * p[1][k])
        if at + room >= end:
            break
    return sorted(best.items(), key=lambda x: -x[1]), none


def check_answers(build, model, tok, at, texts, limit):
    """Answers that differ, and the largest difference of a probability."""
    wrong, off = 0, 0.0
    questions = ["What is read?", "How many tokens does a window hold?", "Where?"]
    contexts = [texts[0], " ".join(texts[:12]), " ".join(texts)]
    for question, context in zip(questions, contexts):
        theirs, none = answers(model, tok, question, context, limit)
        ours = fovea(build, at, [f"{question}\t{context}"], "--top-k", "5")
        assert len(ours) == 5
        off = max(off, abs(ours[0]["none"] - none))
        for row, (span, p) in zip(ours, theirs):
            wrong += row["answer"] != context[span[0] : span[1]]
            wrong += row["begin"] != place(context, span[0])
            off = max(off, abs(row["p"] - p))
    return wrong, off, 5 * len(questions)


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    torch.manual_seed(3)
    lines = [line.strip() for page in pages() for line in page.splitlines()]
    texts = [line for line in lines if 60 < len(line) < 118 and "\t" not in line][:60]
    failed = False
    for name, tok, config, tokens, spans in models():
        with tempfile.TemporaryDirectory() as folder:
            at = pathlib.Path(folder)
            model = tokens(config)
            save(model, tok, at / "tokens")
            others = check_tokens(build, tok, at / "tokens", texts)
            wrong, off, words = check_words(build, model, tok, at / "tokens", texts)
            config.id2label = {0: "LABEL_0", 1: "LABEL_1"}
            model = spans(config)
            save(model, tok, at / "spans")
            limit = min(WINDOW, config.max_position_embeddings - 2 * (name == "roberta"))
            other, away, count = check_answers(build, model, tok, at / "spans", texts, limit)
        print(
            f"{name:10} other tokens {others}   words {words}: other labels {wrong}, p {off:.1e}   "
            f"answers {count}: other {other}, p {away:.1e}", flush=True,
        )
        failed |= others + wrong + other > 0 or not max(off, away) <= BOUND
    if failed:
        raise SystemExit("not equal")


if __name__ == "__main__":
    main()
