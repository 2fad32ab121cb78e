"""Generated tokens for each setting of generation_config.json: `fovea run` against transformers.

    python bench/peers/check_generation.py FOVEA FOLDER

FOLDER is a decoder or an encoder-decoder with its tokenizer, for example a GPT-2 from `fovea train
recipes/gpt2-shakespeare.toml`. Each setting is written to a copy of it; both sides then continue or answer the
same texts with that copy. Banned words are taken from the unrestricted outputs, so that the bans matter.
With `bart` in place of FOLDER, a random BART with a tokenizer trained on this project's pages.

Needs torch and transformers. Prints how many outputs are equal, and fails unless all are."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import check_encoders
import torch
import transformers as hf

TEXTS = ["ROMEO:", "To be, or", "The king", "KING RICHARD III:\nMy", "What", "I have"]
NEW_TOKENS = 40
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")


def make_bart(at):
    """A random BART with RoBERTa's kind of tokenizer."""
    tokenizer = check_encoders.byte_level()
    torch.manual_seed(5)
    model = hf.BartForConditionalGeneration(hf.BartConfig(
        vocab_size=len(tokenizer), d_model=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48,
        max_position_embeddings=128, init_std=0.3,
    ))
    torch.nn.init.normal_(model.final_logits_bias)
    model.save_pretrained(at)
    tokenizer.save_pretrained(at)
    return at


def settings(plain_outputs):
    """Names and settings; `plain_outputs` has the tokens of the unrestricted outputs."""
    first, last = plain_outputs[0][2], plain_outputs[1][2]
    words = [[ids[3:3 + n] for ids in plain_outputs] for n in (1, 2, 3)]
    plain = {"do_sample": False, "max_new_tokens": NEW_TOKENS}
    yield "greedy", plain
    forced = {"do_sample": False, "max_length": 30, "forced_bos_token_id": first}
    yield "forced first, length 30", forced
    yield "forced last, beams", {**forced, "num_beams": 4, "forced_eos_token_id": last}
    yield "as for summaries", {**forced, "num_beams": 4, "forced_eos_token_id": last, "min_length": 20,
                               "no_repeat_ngram_size": 3, "length_penalty": 2.0, "early_stopping": True}
    yield "beams", {**plain, "num_beams": 4}
    yield "beams, short answers", {**plain, "num_beams": 4, "length_penalty": -2.0}
    yield "repetition penalty", {**plain, "repetition_penalty": 1.3}
    for length, bad in zip((1, 2, 3), words):
        yield f"bad words of {length}", {**plain, "bad_words_ids": bad}
        yield f"bad words of {length}, beams", {**plain, "num_beams": 4, "bad_words_ids": bad}
    for length in (1, 2, 3):
        yield f"no run of {length} twice", {**plain, "no_repeat_ngram_size": length}
        yield f"no run of {length} twice, beams", {**plain, "num_beams": 4,
                                                   "no_repeat_ngram_size": length}
    yield "all together", {**plain, "num_beams": 3, "repetition_penalty": 1.2, "no_repeat_ngram_size": 4,
                           "bad_words_ids": words[0][:2] + words[1] + words[2]}


def theirs(folder, tokenizer):
    """The tokens that transformers adds to each text."""
    both = hf.AutoConfig.from_pretrained(folder).is_encoder_decoder
    kind = hf.AutoModelForSeq2SeqLM if both else hf.AutoModelForCausalLM
    model = kind.from_pretrained(folder).eval()
    end = model.generation_config.eos_token_id
    answers = []
    for text in TEXTS:
        batch = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            ids = model.generate(**batch, pad_token_id=0)[0]
        ids = ids[1 if both else batch["input_ids"].shape[1]:].tolist()
        answers.append(ids[:-1] if both and ids[-1] == end else ids)
    return answers


def ours(fovea, folder):
    """The tokens that fovea adds."""
    command = [fovea, "run", folder, "--json", *TEXTS]
    lines = subprocess.run(command, check=True, capture_output=True).stdout.splitlines()
    return [json.loads(line)["ids"] for line in lines]


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    fovea, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    torch.set_num_threads(1)
    plain = {"do_sample": False, "max_new_tokens": NEW_TOKENS}
    wrong = 0
    with tempfile.TemporaryDirectory() as at:
        copy = pathlib.Path(at) / "copy"
        if str(folder) == "bart":
            folder = make_bart(pathlib.Path(at) / "bart")
        tokenizer = hf.AutoTokenizer.from_pretrained(folder)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        tokens = {key: config[key] for key in TOKENS if config.get(key) is not None}
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("state-*", "events*"))

        def put(keys):
            (copy / "generation_config.json").write_text(json.dumps(tokens | keys), encoding="utf-8")

        put(plain)
        for name, keys in settings(theirs(copy, tokenizer)):
            put(keys)
            same = sum(a == b for a, b in zip(ours(fovea, copy), theirs(copy, tokenizer), strict=True))
            wrong += len(TEXTS) - same
            print(f"{name:28} {same} of {len(TEXTS)} the same", flush=True)
    if wrong:
        raise SystemExit(f"{wrong} differ")


if __name__ == "__main__":
    main()
