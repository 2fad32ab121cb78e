"""Random configurations of every family that Fovea and transformers have: draw(random) returns a name, a
class and its configuration. Every one of them must be computed with the same numbers."""
import transformers as hf

from relative_bert import RelativeBertForMaskedLM

ACTS = [
    "gelu", "gelu_new", "relu", "silu", "swish", "tanh", "sigmoid", "quick_gelu", "gelu_fast", "gelu_python",
    "gelu_pytorch_tanh", "linear",
]
TOKENS = 40  # of a sequence in the check


def tokens(r, vocabulary, names):
    """Ids of special tokens: none, in the vocabulary, or beyond it."""
    choices = [None, 0, 1, 3, vocabulary, vocabulary + 900]
    return {name: r.choice(choices) for name in names}


def encoder_sizes(r):
    heads = r.choice([1, 2, 4])
    return dict(
        vocab_size=r.choice([95, 101, 128]), hidden_size=heads * r.choice([4, 12, 16]),
        num_hidden_layers=r.choice([1, 2, 3]), num_attention_heads=heads,
        intermediate_size=r.choice([20, 64]), hidden_act=r.choice(ACTS),
        layer_norm_eps=r.choice([1e-12, 1e-5, 1e-3]), type_vocab_size=r.choice([1, 2, 3]),
        tie_word_embeddings=r.random() < 0.8,
    )


def head(r, family):
    kinds = ["ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
    kind = r.choice(kinds)
    more = {"num_labels": r.choice([2, 5])} if "Classification" in kind else {}
    return getattr(hf, family + kind), more


def bert(r):
    sizes = encoder_sizes(r)
    kind, more = head(r, "Bert")
    where = r.choice(["absolute", "absolute", "relative_key", "relative_key_query"])
    if where != "absolute":
        kind, more = RelativeBertForMaskedLM, {"position_embedding_type": where}
    special = tokens(r, sizes["vocab_size"], ["bos_token_id", "eos_token_id"])
    positions = r.choice([TOKENS, 64])
    return kind, hf.BertConfig(**sizes, **more, **special, max_position_embeddings=positions)


def roberta(r):
    name = r.choice(["Roberta", "XLMRoberta"])
    kind, more = head(r, name)
    pad = r.choice([0, 1, 5])
    return kind, getattr(hf, name + "Config")(
        **encoder_sizes(r), **more, pad_token_id=pad, bos_token_id=0, eos_token_id=2,
        max_position_embeddings=r.choice([TOKENS, 64]) + pad + 1,
    )


def distilbert(r):
    kind, more = head(r, "DistilBert")
    heads = r.choice([1, 2, 4])
    return kind, hf.DistilBertConfig(
        vocab_size=101, dim=heads * r.choice([4, 12]), n_layers=r.choice([1, 2, 3]), n_heads=heads,
        hidden_dim=r.choice([20, 64]), activation=r.choice(ACTS),
        sinusoidal_pos_embds=r.random() < 0.3, tie_word_embeddings=r.random() < 0.8, **more,
    )


def gpt2(r):
    heads, vocabulary = r.choice([1, 2, 4]), r.choice([95, 101, 128])
    special = tokens(r, vocabulary, ["bos_token_id", "eos_token_id", "pad_token_id"])
    return hf.GPT2LMHeadModel, hf.GPT2Config(
        vocab_size=vocabulary, n_embd=heads * r.choice([4, 12, 16]), n_layer=r.choice([1, 2, 4]),
        n_head=heads, n_inner=r.choice([None, 20, 64]), n_positions=r.choice([TOKENS, 64]),
        activation_function=r.choice(ACTS), layer_norm_epsilon=r.choice([1e-5, 1e-3]),
        scale_attn_weights=r.random() < 0.7, scale_attn_by_inverse_layer_idx=r.random() < 0.4,
        reorder_and_upcast_attn=r.random() < 0.3, tie_word_embeddings=r.random() < 0.7, **special,
    )


def encoder_decoder(r, name):
    heads = r.choice([2, 4])
    more = {}
    if name == "Marian" and r.random() < 0.4:
        more = dict(
            decoder_vocab_size=90, share_encoder_decoder_embeddings=False, tie_word_embeddings=False
        )
    kind = {"Marian": hf.MarianMTModel, "Bart": hf.BartForConditionalGeneration}[name]
    return kind, getattr(hf, name + "Config")(
        vocab_size=101, d_model=heads * r.choice([4, 12]), encoder_layers=r.choice([1, 2]),
        decoder_layers=r.choice([1, 3]), encoder_attention_heads=heads,
        decoder_attention_heads=r.choice([1, heads]), encoder_ffn_dim=r.choice([20, 64]),
        decoder_ffn_dim=r.choice([28, 70]), activation_function=r.choice(ACTS),
        scale_embedding=r.random() < 0.5, max_position_embeddings=r.choice([TOKENS, 64]),
        pad_token_id=3, eos_token_id=r.choice([0, 2]), decoder_start_token_id=3, **more,
    )


def t5(r):
    gated = r.random() < 0.5
    return hf.T5ForConditionalGeneration, hf.T5Config(
        vocab_size=101, d_model=r.choice([16, 48]), d_kv=r.choice([4, 12]), d_ff=r.choice([20, 64]),
        num_layers=r.choice([1, 2]), num_decoder_layers=r.choice([None, 3]),
        num_heads=r.choice([1, 4]), decoder_start_token_id=0,
        relative_attention_num_buckets=r.choice([4, 8, 31, 32, 200]),
        relative_attention_max_distance=r.choice([50, 64, 128]) if r.random() < 0.7 else 12,
        feed_forward_proj=("gated-" if gated else "") + r.choice(["relu", "silu", "gelu", "quick_gelu"]),
        tie_word_embeddings=r.random() < 0.5, layer_norm_epsilon=r.choice([1e-6, 1e-3]),
        **tokens(r, 101, ["eos_token_id", "pad_token_id"]),
    )


def rope(r, pairs):
    """Settings of rotary positions, and the model's number of positions."""
    kind = r.choice(["default", "linear", "llama3", "yarn", "yarn", "dynamic", "dynamic", "longrope", "longrope"])
    more = dict(rope_type=kind, rope_theta=r.choice([100.0, 10000.0, 500000.0]))
    original = r.choice([16, 24, TOKENS])
    if kind != "default" and kind != "longrope":
        more["factor"] = r.choice([2.5, 4.0, 8.0])
    if kind == "dynamic":
        return more, original
    if kind == "llama3":
        more |= dict(low_freq_factor=1.0, high_freq_factor=4.0)
    if kind == "yarn":
        for key, values in {
            "beta_fast": [4.0, 8.0], "beta_slow": [0.5, 2.0], "attention_factor": [0.8],
            "truncate": [True, False],
        }.items():
            if r.random() < 0.5:
                more[key] = r.choice(values)
        if r.random() < 0.4:
            more |= dict(mscale=r.choice([0.7, 1.0]), mscale_all_dim=r.choice([0.5, 1.0]))
    if kind == "longrope":
        more["short_factor"] = [1 + r.random() for _ in range(pairs)]
        more["long_factor"] = [2 + 3 * r.random() for _ in range(pairs)]
        if r.random() < 0.3:
            more["attention_factor"] = 1.3
        elif r.random() < 0.5:
            more["factor"] = 4.0
    if kind in ("llama3", "yarn", "longrope"):
        more["original_max_position_embeddings"] = original
    return more, r.choice([TOKENS, 64, 128])


def llama_like(r, name):
    heads = r.choice([2, 4])
    d = r.choice([4, 8, 12])
    inside = name != "Qwen2" and r.random() < 0.5
    own = r.choice([4, 6, 16]) if inside else d
    rotary, positions = rope(r, own // 2)
    vocabulary, layers = r.choice([95, 101, 128]), r.choice([1, 2, 4])
    more = {} if name == "Qwen2" else {"head_dim": own}
    window = r.choice([1, 3, 8, 100])
    if name == "Mistral":
        more["sliding_window"] = r.choice([None, window, window])
    if name.startswith("Qwen") and r.random() < 0.7:
        more |= dict(
            use_sliding_window=True, sliding_window=window, max_window_layers=r.choice([0, 1, 3])
        )
        if r.random() < 0.4:
            kinds = ["full_attention", "sliding_attention"]
            more["layer_types"] = [r.choice(kinds) for _ in range(layers)]
    if name in ("Llama", "Qwen3"):
        more["attention_bias"] = r.random() < 0.4
    if name == "Llama":
        more["mlp_bias"] = r.random() < 0.4
    return getattr(hf, name + "ForCausalLM"), getattr(hf, name + "Config")(
        vocab_size=vocabulary, hidden_size=heads * d, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=r.choice([1, heads]),
        intermediate_size=r.choice([20, 64]), hidden_act=r.choice(ACTS),
        max_position_embeddings=positions, rms_norm_eps=r.choice([1e-6, 1e-3]),
        tie_word_embeddings=r.random() < 0.5, rope_parameters=rotary, **more,
        **tokens(r, vocabulary, ["bos_token_id", "eos_token_id"]),
    )


def draw(r):
    name = r.choice([
        "gpt2", "bert", "distilbert", "roberta", "marian", "bart", "t5", "llama", "llama", "mistral", "mistral",
        "qwen2", "qwen2", "qwen3", "qwen3",
    ])
    made = {
        "gpt2": gpt2, "bert": bert, "distilbert": distilbert, "roberta": roberta, "t5": t5,
        "marian": lambda r: encoder_decoder(r, "Marian"), "bart": lambda r: encoder_decoder(r, "Bart"),
    }.get(name, lambda r: llama_like(r, name.capitalize()))
    return name, *made(r)
