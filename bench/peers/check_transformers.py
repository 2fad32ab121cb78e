"""Random models of Hugging Face transformers in many variants: Fovea loads their folders with the same
logits; transformers loads what Fovea saved, without a missing tensor and with the same logits.

    python bench/peers/check_transformers.py BUILD              # the folder with fovea and examples/
    python bench/peers/check_transformers.py BUILD --trained    # folders of `fovea train` instead
    python bench/peers/check_transformers.py BUILD --random     # 150 random configurations instead

With --trained, recipes are trained for 20 steps (with $FOVEA_DATA); AutoModel loads the folders with the
same logits, AutoTokenizer gives the same tokens. With --random, the configurations of random_models.py are
counted as equal, refused by Fovea, or different; all must be equal.

Needs torch and transformers. Prints the largest difference relative to the largest logit, and fails
above 2e-5."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers as hf

import random_models
from relative_bert import RelativeBertForMaskedLM

BOUND = 2e-5
SIZES = dict(
    hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=101
)
LLAMA3 = dict(
    rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=16,
)
GPT2 = dict(
    vocab_size=101, n_embd=48, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2
)
T5 = dict(
    vocab_size=101, d_model=48, d_kv=12, d_ff=64, num_layers=2, num_heads=4,
    decoder_start_token_id=0,
)
MARIAN = dict(
    vocab_size=101, d_model=48, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=6, encoder_ffn_dim=64, decoder_ffn_dim=70, pad_token_id=3,
    eos_token_id=2, decoder_start_token_id=3,
)
BART = MARIAN | dict(pad_token_id=1, bos_token_id=0, decoder_start_token_id=2)
DISTILBERT = dict(vocab_size=101, dim=48, n_layers=2, n_heads=4, hidden_dim=64)
ROBERTA = SIZES | dict(pad_token_id=1, bos_token_id=0, eos_token_id=2, max_position_embeddings=66)

MODELS = {
    "gpt2": (hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2)),
    "gpt2, other widths, untied": (
        hf.GPT2LMHeadModel,
        hf.GPT2Config(**GPT2, n_inner=100, activation_function="relu", tie_word_embeddings=False),
    ),
    "gpt2, unscaled": (hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2, scale_attn_weights=False)),
    "bert, masked words": (hf.BertForMaskedLM, hf.BertConfig(**SIZES)),
    "bert, pretraining": (hf.BertForPreTraining, hf.BertConfig(**SIZES)),
    "bert, classes": (hf.BertForSequenceClassification, hf.BertConfig(**SIZES, num_labels=7)),
    "bert, classes of tokens": (
        hf.BertForTokenClassification,
        hf.BertConfig(**SIZES, num_labels=5, hidden_act="gelu_new"),
    ),
    "bert, untied": (hf.BertForMaskedLM, hf.BertConfig(**SIZES, tie_word_embeddings=False)),
    "bert, spans": (hf.BertForQuestionAnswering, hf.BertConfig(**SIZES)),
    "distilbert, masked words": (hf.DistilBertForMaskedLM, hf.DistilBertConfig(**DISTILBERT)),
    "distilbert, untied": (
        hf.DistilBertForMaskedLM, hf.DistilBertConfig(**DISTILBERT, tie_word_embeddings=False)
    ),
    "distilbert, classes": (
        hf.DistilBertForSequenceClassification, hf.DistilBertConfig(**DISTILBERT, num_labels=7)
    ),
    "distilbert, classes of tokens": (
        hf.DistilBertForTokenClassification,
        hf.DistilBertConfig(**DISTILBERT, num_labels=5, activation="relu"),
    ),
    "distilbert, spans": (
        hf.DistilBertForQuestionAnswering,
        hf.DistilBertConfig(**DISTILBERT, sinusoidal_pos_embds=True),
    ),
    "distilbert, bare": (hf.DistilBertModel, hf.DistilBertConfig(**DISTILBERT)),
    "roberta, masked words": (hf.RobertaForMaskedLM, hf.RobertaConfig(**ROBERTA)),
    "roberta, relu, two types": (
        hf.RobertaForMaskedLM, hf.RobertaConfig(**ROBERTA, hidden_act="relu", type_vocab_size=2)
    ),
    "roberta, untied": (hf.RobertaForMaskedLM, hf.RobertaConfig(**ROBERTA, tie_word_embeddings=False)),
    "roberta, other padding": (
        hf.RobertaForMaskedLM, hf.RobertaConfig(**ROBERTA | dict(pad_token_id=7))
    ),
    "roberta, classes": (
        hf.RobertaForSequenceClassification, hf.RobertaConfig(**ROBERTA, num_labels=7)
    ),
    "roberta, classes of tokens": (
        hf.RobertaForTokenClassification, hf.RobertaConfig(**ROBERTA, num_labels=5)
    ),
    "roberta, spans": (hf.RobertaForQuestionAnswering, hf.RobertaConfig(**ROBERTA)),
    "roberta, bare": (hf.RobertaModel, hf.RobertaConfig(**ROBERTA)),
    "xlm-roberta, masked words": (hf.XLMRobertaForMaskedLM, hf.XLMRobertaConfig(**ROBERTA)),
    "xlm-roberta, classes": (
        hf.XLMRobertaForSequenceClassification, hf.XLMRobertaConfig(**ROBERTA, num_labels=3)
    ),
    "llama": (hf.LlamaForCausalLM, hf.LlamaConfig(**SIZES)),
    "llama 3, tied, biases": (
        hf.LlamaForCausalLM,
        hf.LlamaConfig(
            **SIZES, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
            attention_bias=True, mlp_bias=True, max_position_embeddings=256,
            rope_parameters=LLAMA3,
        ),
    ),
    "llama, stretched": (
        hf.LlamaForCausalLM,
        hf.LlamaConfig(
            **SIZES, rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=4.0)
        ),
    ),
    "t5": (hf.T5ForConditionalGeneration, hf.T5Config(**T5)),
    "t5 1.1": (
        hf.T5ForConditionalGeneration,
        hf.T5Config(
            **T5, num_decoder_layers=3, feed_forward_proj="gated-gelu", tie_word_embeddings=False
        ),
    ),
    "marian": (hf.MarianMTModel, hf.MarianConfig(**MARIAN)),
    "bart": (hf.BartForConditionalGeneration, hf.BartConfig(**BART)),
    "bart, scaled, relu": (
        hf.BartForConditionalGeneration,
        hf.BartConfig(**BART, scale_embedding=True, activation_function="relu"),
    ),
    "bart, bare": (hf.BartModel, hf.BartConfig(**BART)),
    "marian, two vocabularies": (
        hf.MarianMTModel,
        hf.MarianConfig(
            **MARIAN, decoder_vocab_size=90, share_encoder_decoder_embeddings=False,
            tie_word_embeddings=False, activation_function="relu",
        ),
    ),
}

QWEN_WINDOWS = dict(use_sliding_window=True, sliding_window=7, max_window_layers=1)


def rope(positions, kind, **settings):
    return dict(
        max_position_embeddings=positions,
        rope_parameters=dict(rope_type=kind, rope_theta=10000.0, **settings),
    )


YARN = rope(64, "yarn", factor=4.0, original_max_position_embeddings=16)
LONGROPE = dict(
    short_factor=[1.0, 1.1, 1.2, 1.3, 1.5, 2.0], long_factor=[1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
)
MODELS |= {
    "gpt2, scaled by layer": (
        hf.GPT2LMHeadModel,
        hf.GPT2Config(
            **GPT2, scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True,
            activation_function="quick_gelu",
        ),
    ),
    "gpt2, ids past the vocabulary": (
        hf.GPT2LMHeadModel, hf.GPT2Config(**GPT2 | dict(bos_token_id=50256, eos_token_id=50256))
    ),
    "bert, relative_key": (
        RelativeBertForMaskedLM, hf.BertConfig(**SIZES, position_embedding_type="relative_key")
    ),
    "bert, relative_key_query": (
        RelativeBertForMaskedLM,
        hf.BertConfig(**SIZES, position_embedding_type="relative_key_query"),
    ),
    "llama, yarn": (hf.LlamaForCausalLM, hf.LlamaConfig(**SIZES, **YARN)),
    "llama, yarn, all settings": (
        hf.LlamaForCausalLM,
        hf.LlamaConfig(
            **SIZES,
            **rope(
                64, "yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=8.0,
                beta_slow=0.5, mscale=0.7, mscale_all_dim=0.4, truncate=False,
            ),
        ),
    ),
    "llama, dynamic": (
        hf.LlamaForCausalLM, hf.LlamaConfig(**SIZES, **rope(16, "dynamic", factor=4.0))
    ),
    "llama, longrope, long": (
        hf.LlamaForCausalLM,
        hf.LlamaConfig(
            **SIZES, **rope(64, "longrope", original_max_position_embeddings=16, **LONGROPE)
        ),
    ),
    "llama, longrope, short": (
        hf.LlamaForCausalLM,
        hf.LlamaConfig(
            **SIZES,
            **rope(
                64, "longrope", original_max_position_embeddings=40, attention_factor=1.3,
                **LONGROPE,
            ),
        ),
    ),
    "mistral": (hf.MistralForCausalLM, hf.MistralConfig(**SIZES, num_key_value_heads=2)),
    "mistral, window": (
        hf.MistralForCausalLM,
        hf.MistralConfig(**SIZES, num_key_value_heads=2, head_dim=8, sliding_window=7),
    ),
    "mistral, no window": (
        hf.MistralForCausalLM,
        hf.MistralConfig(**SIZES, num_key_value_heads=4, sliding_window=None),
    ),
    "qwen2": (hf.Qwen2ForCausalLM, hf.Qwen2Config(**SIZES, num_key_value_heads=2)),
    "qwen2, windows, yarn": (
        hf.Qwen2ForCausalLM,
        hf.Qwen2Config(**SIZES, num_key_value_heads=2, **QWEN_WINDOWS, **YARN),
    ),
    "qwen3": (hf.Qwen3ForCausalLM, hf.Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=16)),
    "qwen3, biases, layer types": (
        hf.Qwen3ForCausalLM,
        hf.Qwen3Config(
            **SIZES, num_key_value_heads=2, head_dim=8, attention_bias=True, **QWEN_WINDOWS,
            layer_types=["sliding_attention", "full_attention"], tie_word_embeddings=True,
        ),
    ),
    "t5, few distances": (
        hf.T5ForConditionalGeneration,
        hf.T5Config(**T5, relative_attention_num_buckets=32, relative_attention_max_distance=12),
    ),
}


MARIAN_DATES = [
    "recipes/dates.toml", "--model.kind", "transformer", "--tokens.joint", "true",
    "--transformer.family", "marian", "--transformer.width", "64", "--transformer.heads", "4",
    "--transformer.encoder_layers", "2", "--transformer.decoder_layers", "2",
    "--transformer.hidden", "128", "--transformer.length", "64",
]
TRAINED = {
    "gpt2-shakespeare": (hf.AutoModelForCausalLM, ["recipes/gpt2-shakespeare.toml"]),
    "bert-tiny-mlm": (hf.AutoModelForMaskedLM, ["recipes/bert-tiny-mlm.toml"]),
    "bert-banking77": (hf.AutoModelForSequenceClassification, ["recipes/bert-banking77.toml"]),
    "dates, Marian": (hf.AutoModelForSeq2SeqLM, MARIAN_DATES),
}
ROOT = pathlib.Path(__file__).resolve().parents[2]


def biases(model):
    """Of logits, where a model has them as a buffer."""
    return [(name, b) for name, b in model.named_buffers() if name == "final_logits_bias"]


def disturb(model):
    """Perturbs every weight, so that none is 0 or 1, except sinusoids, which folders do not store."""
    fixed = "embed_positions" if model.config.model_type == "marian" else "?"
    with torch.no_grad():
        for name, parameter in [*model.named_parameters(), *biases(model)]:
            if fixed not in name:
                parameter.add_(0.1 * torch.randn_like(parameter))


def logits(model, batch):
    with torch.no_grad():
        out = model.eval()(**batch)
    if "start_logits" in out:
        return torch.stack([out.start_logits, out.end_logits], -1)
    for name in ("logits", "prediction_logits"):
        if name in out:
            return out[name]
    embedding = model.get_input_embeddings().weight  # a bare model: states times the embedding
    return out.last_hidden_state @ embedding.T if model.config.is_encoder_decoder else out[0]


def run_fovea(build, folder, batch, at):
    """Fovea's logits for the same batch."""
    command = [build / "fovea", "run", folder, "--logits", at / "logits.npy"]
    options = {"input_ids": "ids", "attention_mask": "mask", "decoder_input_ids": "decoder-ids"}
    for name, tensor in batch.items():
        np.save(at / f"{name}.npy", tensor.numpy())
        command += ["--" + options[name], at / f"{name}.npy"]
    subprocess.run(command, check=True)
    return torch.tensor(np.load(at / "logits.npy"))


def check(build, kind, config, at):
    """Relative errors of Fovea's logits, and of those of the copy that Fovea saved."""
    theirs, copy = at / "theirs", at / "copy"
    copy.mkdir()
    model = kind(config)
    disturb(model)
    model.save_pretrained(theirs)
    model = kind.from_pretrained(theirs)
    batch = {"input_ids": torch.randint(8, 90, (3, 40))}
    batch["attention_mask"] = (torch.arange(40) < torch.tensor([[40], [30], [11]])).long()
    if "roberta" in config.model_type:  # positions count what is not padding, wherever it is
        batch["input_ids"][batch["attention_mask"] == 0] = config.pad_token_id
        batch["input_ids"][0, 5:7] = config.pad_token_id
    if config.is_encoder_decoder:
        batch["decoder_input_ids"] = torch.randint(4, 90, (3, 9))
    expected = logits(model, batch)
    ours = run_fovea(build, theirs, batch, at)
    seen = torch.ones(expected.shape[:-1], dtype=torch.bool)
    if expected.shape[1] == 40:  # logits of padding do not matter
        seen = batch["attention_mask"].bool()
    subprocess.run(
        [build / "examples" / "model_folder", theirs, copy], check=True, stdout=subprocess.DEVNULL
    )
    again, loading = kind.from_pretrained(copy, output_loading_info=True)
    if not config.tie_word_embeddings:  # a second bias that is not used then
        loading["missing_keys"] -= {"cls.predictions.bias", "lm_head.bias"}
    if any(loading.values()):
        raise SystemExit(f"the copy does not fit: {loading}")
    back = logits(again, batch)
    largest = expected.abs().max()
    return [((x - expected)[seen].abs().max() / largest).item() for x in (ours, back)]


def check_tokens(build, folder, texts):
    """Counts the texts that AutoTokenizer tokenizes differently."""
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    run = subprocess.run(
        [build / "fovea", "tokenize", folder, "--jsonl"], input=lines.encode(), check=True,
        capture_output=True,
    )
    ours = [json.loads(line)["ids"] for line in run.stdout.splitlines()]
    theirs = [tokenizer(text)["input_ids"] for text in texts]
    return sum(a != b for a, b in zip(ours, theirs, strict=True))


def check_trained(build, kind, arguments, at):
    """Relative error of the logits, and the number of texts tokenized differently."""
    folder = at / "trained"
    command = [build / "fovea", "train", *arguments, "-o", folder, "--train.steps", "20"]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    model, loading = kind.from_pretrained(folder, output_loading_info=True)
    if any(loading.values()):
        raise SystemExit(f"the folder does not fit: {loading}")
    if "bert-banking77" in arguments[0] and model.config.id2label[0] == "LABEL_0":
        raise SystemExit("the classes have no names")
    most = model.config.vocab_size
    batch = {"input_ids": torch.randint(0, most, (3, 40))}
    batch["attention_mask"] = torch.ones(3, 40, dtype=torch.long)
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = torch.randint(0, most, (3, 9))
    expected = logits(model, batch)
    off = (run_fovea(build, folder, batch, at) - expected).abs().max() / expected.abs().max()
    pages = [page.read_text().splitlines() for page in sorted(ROOT.glob("docs/*.md"))]
    texts = [line for page in pages for line in page[:60]]
    return off.item(), check_tokens(build, folder, texts), len(texts)


def all_trained(build):
    if "FOVEA_DATA" not in os.environ:
        raise SystemExit("--trained needs $FOVEA_DATA")
    for name, (kind, arguments) in TRAINED.items():
        with tempfile.TemporaryDirectory() as folder:
            off, others, texts = check_trained(build, kind, arguments, pathlib.Path(folder))
        print(f"{name:28} logits {off:.1e}   other tokens for {others} of {texts} texts", flush=True)
        yield off if others == 0 else float("inf")


def all_made(build):
    for name, (kind, config) in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            shares = check(build, kind, config, pathlib.Path(folder))
        print(f"{name:28} ours {shares[0]:.1e}   saved by us {shares[1]:.1e}")
        yield max(shares)


def all_random(build):
    r = random.Random(20261116)
    counts = {"equal": 0, "refused": 0, "different": 0}
    for i in range(150):
        name, kind, config = random_models.draw(r)
        off, found = float("inf"), "different"
        with tempfile.TemporaryDirectory() as folder:
            try:
                off = max(check(build, kind, config, pathlib.Path(folder)))
            except subprocess.CalledProcessError as error:
                found = "refused" if error.returncode > 0 else "different"
        if off <= BOUND:
            found = "equal"
        counts[found] += 1
        if found != "equal":
            print(f"{i}: {name} is {found}, off by {off:.1e}: {config.to_diff_dict()}", flush=True)
    print(", ".join(f"{count} {found}" for found, count in counts.items()))
    yield 0 if counts["equal"] == 150 else float("inf")


def main():
    ways = {"--trained": all_trained, "--random": all_random}
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["--trained"], ["--random"]):
        raise SystemExit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    print(f"transformers {hf.__version__}, torch {torch.__version__}")
    worst = max(ways.get(sys.argv[2] if sys.argv[2:] else "", all_made)(build))
    if not worst <= BOUND:
        raise SystemExit(f"off by {worst:.1e}, more than {BOUND:.0e}")


if __name__ == "__main__":
    main()
