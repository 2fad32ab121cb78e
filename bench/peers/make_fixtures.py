"""Makes folders of tests/fixtures: tiny random models of Hugging Face transformers with its numbers.

    python bench/peers/make_fixtures.py tests/fixtures

expected.safetensors holds the inputs and what transformers computes from them: logits, last states, attention
maps, and for models of words the mean cross-entropy against the inputs with its gradients.
Needs torch and transformers."""
import pathlib
import sys

import safetensors.torch
import torch
import transformers as hf

SIZES = dict(
    vocab_size=41, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
    max_position_embeddings=24,
)
DISTILBERT = dict(
    vocab_size=41, dim=16, n_layers=2, n_heads=4, hidden_dim=24, max_position_embeddings=24
)
BART = dict(
    vocab_size=41, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
    decoder_attention_heads=2, encoder_ffn_dim=24, decoder_ffn_dim=20, max_position_embeddings=24,
)
SMALL = dict(num_hidden_layers=1)
ROBERTA = SIZES | dict(type_vocab_size=1, layer_norm_eps=1e-5)
MODELS = {
    "distilbert": (hf.DistilBertForMaskedLM, hf.DistilBertConfig(**DISTILBERT)),
    "roberta": (hf.RobertaForMaskedLM, hf.RobertaConfig(**ROBERTA, hidden_act="relu")),
    "bart": (hf.BartForConditionalGeneration, hf.BartConfig(**BART)),
    "bert-spans": (hf.BertForQuestionAnswering, hf.BertConfig(**SIZES | SMALL)),
    "distilbert-classes": (
        hf.DistilBertForSequenceClassification,
        hf.DistilBertConfig(**DISTILBERT | dict(n_layers=1), num_labels=3),
    ),
    "roberta-classes": (
        hf.RobertaForSequenceClassification, hf.RobertaConfig(**ROBERTA | SMALL, num_labels=3)
    ),
    "xlm-roberta-tokens": (
        hf.XLMRobertaForTokenClassification, hf.XLMRobertaConfig(**ROBERTA | SMALL, num_labels=3)
    ),
}
LENGTHS = (11, 7)


def make_batch(config):
    n = LENGTHS[0]
    ids = torch.randint(3, 41, (2, n))
    mask = (torch.arange(n) < torch.tensor(LENGTHS)[:, None]).long()
    ids[mask == 0] = config.pad_token_id
    batch = {"input_ids": ids, "attention_mask": mask}
    if config.model_type == "bert":
        batch["token_type_ids"] = (torch.arange(n) > 4).long().expand(2, n).contiguous()
    if config.is_encoder_decoder:
        batch["decoder_input_ids"] = torch.randint(3, 41, (2, 6))
    return batch


def maps_of(out, config):
    if not config.is_encoder_decoder:
        return {f"attn.{i}": x for i, x in enumerate(out.attentions)}
    kinds = {"encoder": "encoder_attentions", "decoder": "decoder_attentions",
             "cross": "cross_attentions"}
    return {f"{kind}_attn.{i}": x for kind, key in kinds.items() for i, x in enumerate(out[key])}


def expected(model, batch, words):
    """What tests compare with; `words`: logits of words, with a loss."""
    config = model.config
    out = model(**batch, output_attentions=True, output_hidden_states=True)
    result = dict(batch)
    if "start_logits" in out:
        result["logits"] = torch.stack([out.start_logits, out.end_logits], -1)
    else:
        result["logits"] = out.logits
    if config.is_encoder_decoder:
        result["encoder_last_hidden_state"] = out.encoder_last_hidden_state
    else:
        result["last_hidden_state"] = out.hidden_states[-1]
    result |= maps_of(out, config)
    if words:
        goal = batch["decoder_input_ids" if config.is_encoder_decoder else "input_ids"]
        loss = torch.nn.functional.cross_entropy(out.logits.flatten(0, 1), goal.flatten())
        loss.backward()
        result["loss"] = loss.reshape(1)
        result |= {f"grad.{name}": p.grad for name, p in model.named_parameters()
                   if p.grad is not None}
    return {name: x.detach().contiguous().clone() for name, x in result.items()}


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for seed, (name, (kind, config)) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        folder = pathlib.Path(sys.argv[1]) / name
        config._attn_implementation = "eager"
        model = kind(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
            if hasattr(model, "final_logits_bias"):
                model.final_logits_bias.normal_()
        model.save_pretrained(folder)
        words = name in ("distilbert", "roberta", "bart")
        safetensors.torch.save_file(
            expected(model, make_batch(config), words), folder / "expected.safetensors"
        )
        (folder / "NOTE.txt").write_text(
            f"{kind.__name__}, made by bench/peers/make_fixtures.py.\n"
            f"Made with torch {torch.__version__}, transformers {hf.__version__}; fp32, eager "
            "attention.\n", encoding="utf-8",
        )


if __name__ == "__main__":
    main()
