/*
 * fovea/transformer.h: Transformers from one description: encoders (BERT, DistilBERT, RoBERTa),
 * decoders (GPT-2, Llama, Mistral, Qwen2, Qwen3) and both together (the paper's, Marian, BART, T5).
 *
 *     fv_transformer_config cfg;
 *     fv_transformer_config_init(&cfg, sizeof cfg, FV_FAMILY_GPT2);
 *     cfg.vocabulary = 50257;                               // the rest is GPT-2 small
 *     fv_transformer *model = NULL;
 *     s = fv_transformer_create(params, &cfg, &model);
 *
 *     fv_sequences texts = {.count = 2, .tokens = tokens, .length = lengths};
 *     fv_tensor *loss = fv_transformer_lm_loss(ctx, model, &texts, NULL);   // summed
 *
 *     fv_token_rows rows = fv_token_rows_varlen(ctx, &texts);   // or ids [batch, n] of your own
 *     fv_tensor *h = fv_transformer_decode(ctx, model, &rows, NULL, NULL, NULL);
 *     fv_tensor *logits = fv_transformer_logits(ctx, model, h);
 *     fv_transformer_destroy(&model);
 *
 * fovea/model.h opens and saves them in Hugging Face folders.
 *
 * Every layer is an fv_block (fovea/layers.h), so the settings describe what a model computes:
 *
 *     x = embed(token) [sqrt(width)] + position + type; [norm]
 *     x = block(x) for every layer; [norm]
 *     logits = head(x)
 *
 * Sequences of different lengths are *varlen*: concatenated in one row, so that nothing is computed
 * for padding. Padded ids with a mask work too; results are compared with other libraries that way.
 *
 * The parameters have the names that the family's files have, "transformer.h.0.attn.c_attn.weight".
 * Attention sites have the same names in all families: "encoder.3.self", "decoder.0.self",
 * "decoder.0.cross".
 *
 * Unless stated otherwise, calls that return tensors poison: ARGUMENT, SHAPE, INDEX (a token
 * that is not in the vocabulary), LIMIT (more positions than the model has), MEMORY.
 */
#ifndef FOVEA_TRANSFORMER_H
#define FOVEA_TRANSFORMER_H

#include "fovea/layers.h"
#include "fovea/model.h"
#include "fovea/search.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the description --------------------------------------------------------------- */

/* Architecture family: names of parameters, and keys of config.json. */
typedef enum fv_family {
    FV_FAMILY_FOVEA, /* any settings; names "encoder.0.self.q_proj.weight" */
    FV_FAMILY_GPT2,
    FV_FAMILY_BERT,
    FV_FAMILY_MARIAN,
    FV_FAMILY_T5,
    FV_FAMILY_LLAMA,
    FV_FAMILY_DISTILBERT,
    FV_FAMILY_ROBERTA,
    FV_FAMILY_XLM_ROBERTA, /* RoBERTa with another model_type */
    FV_FAMILY_BART,
    FV_FAMILY_MISTRAL,
    FV_FAMILY_QWEN2,
    FV_FAMILY_QWEN3,
    FV_FAMILY_COUNT
} fv_family;

/* "fovea-transformer", "gpt2", "bert", ...: the model_type of a config.json. */
FV_API const char *fv_family_name(fv_family family);

typedef enum fv_position_kind {
    FV_POSITION_NONE,
    FV_POSITION_LEARNED,  /* a learned vector for each position is added to the token's */
    FV_POSITION_SINUSOID, /* likewise, fixed sines and cosines */
    FV_POSITION_ROTARY,   /* queries and keys are rotated */
    FV_POSITION_RELATIVE, /* T5's bias by distance, one table each for encoder and decoder */
    /* Shaw's vectors by distance, in each layer: q . a is added to q . k, as in BERT's
     * relative_key, or q . a + k . a, as in relative_key_query. */
    FV_POSITION_RELATIVE_KEY,
    FV_POSITION_RELATIVE_KEY_QUERY,
    FV_POSITION_COUNT
} fv_position_kind;

typedef struct fv_transformer_config {
    size_t struct_size;
    fv_family family;
    /* Kinds. */
    fv_act act;
    fv_norm_kind norm;
    fv_position_kind positions;
    fv_sinusoid_layout sinusoid;
    fv_act mlm_act;   /* of mlm_head; FV_ACT_NONE: `act` */
    fv_act label_act; /* of label_dense */
    /* Sizes. */
    int64_t vocabulary;
    int64_t target_vocabulary; /* of the decoder, with its own embedding; 0: shared */
    int64_t width;
    int64_t encoder_layers, decoder_layers; /* 0: none */
    int64_t heads, kv_heads, head_dim;      /* 0: kv_heads as heads, head_dim width / heads */
    int64_t hidden;                         /* of the feed-forward layers */
    int64_t decoder_heads, decoder_hidden;  /* 0: as the encoder's */
    int64_t max_positions;   /* longest sequence; positions none and sinusoid: no limit */
    int64_t position_offset; /* learned: position p reads row p + offset */
    int64_t relative_buckets, relative_max_distance;
    int64_t types;           /* token types (sentence A, sentence B); 0: none */
    int64_t labels;          /* encoder: classes, see label_tokens; 0: none */
    int64_t bos, eos, pad;   /* tokens; -1: none */
    fv_rotary_config rotary; /* width 0: head_dim */
    int64_t window;          /* decoder: a token sees itself and window - 1 before it; 0: all */
    uint64_t full_layers[2]; /* bit i: decoder layer i sees all tokens in spite of `window` */
    /* Layout. */
    bool gated;                   /* feed-forward layers */
    bool post_norm;               /* norms after the residual sum, as in the paper */
    bool final_norm;              /* after the last layer of encoder and decoder */
    bool embedding_norm;          /* after the embedding */
    bool scale_embedding;         /* by sqrt(width) */
    bool bias;                    /* of norms and all other layers ... */
    bool attention_bias, ff_bias; /* ... except these, where false */
    bool unscaled;                /* scores are q . k, as in T5 */
    bool tied;                    /* the output matrix is the (decoder's) embedding */
    bool logits_bias;             /* added to the logits */
    bool attention_out_bias;      /* attention_bias holds for the output projection too */
    bool qk_norm;                 /* RMS norms of each head's q and k, before they are rotated */
    bool scale_by_layer;          /* decoder: scores of layer i, from 0, are divided by i + 1 */
    bool positions_skip_pad;      /* learned positions count the tokens that are not pad */
    /* Heads of an encoder. A decoder always has logits. */
    bool mlm_head;      /* masked-language-model head: norm(act(dense(x))), then logits */
    bool pooler;        /* tanh(dense(the first state)) */
    bool next_sentence; /* two logits from the pooled state */
    bool label_tokens;  /* classify each token; else the text, from the pooled state ... */
    bool label_dense;   /* ... or from label_act(dense(the first state)) */
    bool spans;         /* two logits for each token: an answer begins, ends here */
    /* Numbers. */
    double eps;               /* of the norms */
    double logits_scale;      /* factor of the last states before the logits */
    double dropout;           /* of the embedding and of every sublayer's output */
    double attention_dropout; /* of the weights */
    double hidden_dropout;    /* inside the feed-forward layers */
    double label_dropout;     /* before the classes */
    double init_std;          /* standard deviation of initial weights; 0: Xavier's rule */
    double smoothing;         /* of the losses, in training */
    /* Names of the classes ("id2label" of config.json), `labels` of them; must outlive the model.
     * NULL: none. Those of an opened folder belong to its fv_model; a config.json that is loaded
     * alone leaves them out, likewise rotary.short_factors and long_factors; the model keeps a copy
     * of those two. */
    const char *const *label_names;
    bool text_pairs; /* the classes are of pairs of texts */
} fv_transformer_config;

/*
 * The settings of a typical small model of the family: GPT-2 small, BERT base, the Marian models of
 * Opus-MT, T5 small, Llama, Mistral 7B, Qwen2 and Qwen3, DistilBERT, RoBERTa base, BART base;
 * FOVEA: the paper's base model (6 + 6 layers, width 512, post-norm, interleaved sinusoids, shared
 * embeddings). vocabulary is 0: set it.
 */
FV_API void fv_transformer_config_init(fv_transformer_config *cfg, size_t struct_size,
                                       fv_family family);

typedef struct fv_transformer fv_transformer;

/*
 * Parameters in `params`, which must outlive the model; parameters that it already holds are
 * used. In a set made by fv_params_create_plan no memory is needed, which is enough for counting.
 * Fails: ARGUMENT (a setting out of range or that the family cannot have; the message says which),
 * SHAPE, MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_transformer_create(fv_params *params,
                                                   const fv_transformer_config *cfg,
                                                   fv_transformer **out);
FV_API void fv_transformer_destroy(fv_transformer **model); /* NULL is fine */
/* With every default filled in. */
FV_API const fv_transformer_config *fv_transformer_settings(const fv_transformer *model);
FV_API fv_params *fv_transformer_params(const fv_transformer *model);
/* Tokens that a sequence may have: max_positions, or more where yarn or dynamic scaling makes
 * positions for them; INT64_MAX / 2 without a limit. */
FV_API int64_t fv_transformer_context(const fv_transformer *model);

/* ---- tokens ------------------------------------------------------------------------- */

/* Tokens as a pass reads them: padded rows, or varlen documents in one row. */
typedef struct fv_token_rows {
    fv_tensor *ids;       /* i64 [batch, n] */
    fv_tensor *types;     /* i64 [batch, n]; NULL: all 0 */
    fv_tensor *positions; /* i64 [batch, n]; NULL: 0 .. n - 1 in each row */
    fv_tensor *mask;      /* u8, i32 or i64 [batch, n]: 0 masks a token; NULL: none masked */
    /* i64 [documents + 1], batch 1: document i is columns begin[i] .. begin[i + 1] - 1, and they
     * do not attend to each other. NULL: one document per row. */
    fv_tensor *begin;
    int64_t longest; /* with `positions` or `begin`: all positions are below it */
    /* i64 [batch * n]: what dropout draws by, with `begin` the number of the token's document in
     * the whole step << 32 | its position. NULL: by its place in the row. */
    fv_tensor *numbers;
} fv_token_rows;

/* Varlen: concatenated, ids [1, all tokens]; a single sequence becomes a plain row. */
FV_API fv_token_rows fv_token_rows_varlen(fv_ctx *ctx, const fv_sequences *sequences);
/* One per row, padded with token `pad`, with a mask where lengths differ. */
FV_API fv_token_rows fv_token_rows_pad(fv_ctx *ctx, const fv_sequences *sequences, int64_t pad);
/* Varlen where the model can: relative positions need padded rows. */
FV_API fv_token_rows fv_transformer_rows(fv_ctx *ctx, const fv_transformer *model,
                                         const fv_sequences *sequences);

/* ---- passes ------------------------------------------------------------------------- */

/* The encoder's last states [batch, n, width]. */
FV_API fv_tensor *fv_transformer_encode(fv_ctx *ctx, const fv_transformer *model,
                                        const fv_token_rows *source, const fv_pass *pass);
/* The decoder's last states [batch, n, width]. memory: the encoder's states of `source`, both NULL
 * for a decoder alone; varlen rows need a varlen source. */
FV_API fv_tensor *fv_transformer_decode(fv_ctx *ctx, const fv_transformer *model,
                                        const fv_token_rows *target, fv_tensor *memory,
                                        const fv_token_rows *source, const fv_pass *pass);
/* [..., vocabulary] from last states [..., width]. ARGUMENT: an encoder without `mlm_head`. */
FV_API fv_tensor *fv_transformer_logits(fv_ctx *ctx, const fv_transformer *model,
                                        fv_tensor *states);

/* ---- heads of encoders -------------------------------------------------------------- */

/*
 * BERT over pairs of sentences (`types` 0 and 1): does the second follow the first?
 *
 *     fv_token_rows rows = fv_transformer_rows(ctx, bert, &prompts);
 *     fv_tensor *states = fv_transformer_encode(ctx, bert, &rows, NULL);
 *     fv_tensor *logits = fv_transformer_next_sentence(ctx, bert, &rows, states);   // [pairs, 2]
 *     fv_tensor *follows = fv_softmax(ctx, logits, -1);
 *
 * One vector for each text, in three ways:
 *
 *     fv_tensor *cls = fv_transformer_pooled(ctx, bert, &rows, states);             // BERT's own
 *     fv_tensor *mean = fv_transformer_pool(ctx, &rows, states, FV_POOLING_MEAN);
 *     fv_embedding_rule rule = {.pooling = FV_POOLING_MEAN, .normalize = true};
 *     fv_tensor *unit = fv_embed(ctx, &rows, states, &rule);      // as sentence-transformers
 */

/* One state per document from an encoder's last states: [documents, width]. */
FV_API fv_tensor *fv_transformer_pool(fv_ctx *ctx, const fv_token_rows *rows, fv_tensor *states,
                                      fv_pooling pooling);
/* tanh(dense(first)): needs `pooler`. */
FV_API fv_tensor *fv_transformer_pooled(fv_ctx *ctx, const fv_transformer *model,
                                        const fv_token_rows *rows, fv_tensor *states);
/* Logits of the classes: [documents, labels], or [batch, n, labels] with label_tokens. */
FV_API fv_tensor *fv_transformer_labels(fv_ctx *ctx, const fv_transformer *model,
                                        const fv_token_rows *rows, fv_tensor *states,
                                        const fv_pass *pass);
/* [batch, n, 2]: logits of each token as the first and as the last of an answer; needs `spans`. */
FV_API fv_tensor *fv_transformer_spans(fv_ctx *ctx, const fv_transformer *model, fv_tensor *states);
/* [documents, 2]: logits of "is the next sentence" and "is not". */
FV_API fv_tensor *fv_transformer_next_sentence(fv_ctx *ctx, const fv_transformer *model,
                                               const fv_token_rows *rows, fv_tensor *states);

/* ---- losses, summed ------------------------------------------------------------------ */

/*
 * Translation, as a mean over its tokens:
 *
 *     const fv_pass training = {.training = true};
 *     fv_tensor *loss = fv_transformer_pair_loss(ctx, marian, &batch, &training);
 *     loss = fv_scale(ctx, loss, 1.0 / (double)fv_batch_target_tokens(&batch));
 *
 * Masked tokens, in rows that are padded with token 0:
 *
 *     fv_token_rows rows = fv_token_rows_pad(ctx, &prompts, 0);
 *     fv_tensor *states = fv_transformer_encode(ctx, bert, &rows, &training);
 *     loss = fv_transformer_mlm_loss(ctx, bert, &prompts, &rows, states, expected, &training);
 */

/* Language modelling: of every next token inside each sequence, length - 1 of them. */
FV_API fv_tensor *fv_transformer_lm_loss(fv_ctx *ctx, const fv_transformer *model,
                                         const fv_sequences *sequences, const fv_pass *pass);
/* Translation: of every "target" token and EOS, given "source", as fv_seq2seq_loss. Sources get no
 * EOS. */
FV_API fv_tensor *fv_transformer_pair_loss(fv_ctx *ctx, const fv_transformer *model,
                                           const fv_batch *batch, const fv_pass *pass);
/* Masked language modelling: of expected[i][t] at the tokens where it is not -1; `states` and
 * `rows` as given to the encoder's pass. */
FV_API fv_tensor *fv_transformer_mlm_loss(fv_ctx *ctx, const fv_transformer *model,
                                          const fv_sequences *sequences, const fv_token_rows *rows,
                                          fv_tensor *states, const int64_t *const *expected,
                                          const fv_pass *pass);

/* ---- as a model ----------------------------------------------------------------------- */

/* The Transformer inside a model of that kind, owned by it; NULL: it is of another kind. */
FV_API fv_transformer *fv_model_transformer(const fv_model *model);

/* config.json and generation_config.json, for a folder into which a trainer writes the weights. */
FV_API FV_MUST_USE fv_status fv_transformer_save_settings(const fv_transformer *model,
                                                          const char *folder);
/*
 * The settings of a config.json alone. Heads are those that "architectures" names. Fails: IO,
 * FORMAT, LIMIT, MEMORY. struct_size of `out` is set by the caller.
 *
 *     fv_transformer_config cfg = {.struct_size = sizeof cfg};
 *     s = fv_transformer_config_load(ctx, "gpt2/config.json", &cfg);
 *     cfg.decoder_layers /= 2;                            // a student of the same family
 *     s = fv_transformer_config_save(ctx, &cfg, "student/config.json");
 */
FV_API FV_MUST_USE fv_status fv_transformer_config_load(fv_ctx *ctx, const char *path,
                                                        fv_transformer_config *out);
/* Atomic. Fails: ARGUMENT (the family's config.json has no key for a setting), IO, MEMORY. */
FV_API FV_MUST_USE fv_status fv_transformer_config_save(fv_ctx *ctx,
                                                        const fv_transformer_config *cfg,
                                                        const char *path);

/* [documents, width] from an encoder's last states; `rows` as given to the pass. */
FV_API fv_tensor *fv_embed(fv_ctx *ctx, const fv_token_rows *rows, fv_tensor *states,
                           const fv_embedding_rule *rule);

/* ==== architectures ================================================================= */

/*
 * architectures: what published Transformers cost, counted from our own model code.
 *
 *     fv_architecture a = {.struct_size = sizeof a};
 *     fv_model_cost cost;
 *     if (!fv_architecture_find("gpt2-xl", &a)) return 1;
 *     s = fv_transformer_cost(ctx, &a.config, 1024, &cost);
 *     printf("%" PRId64 " parameters, published as %s\n", cost.parameters, a.published);
 *
 * The model is made in a set without memory (fv_params_create_plan), so its size does not matter.
 */

typedef struct fv_architecture {
    size_t struct_size;    /* set by the caller */
    const char *name;      /* "bert-large" */
    const char *published; /* its parameters as its authors count them, "340M" */
    const char *note;      /* where our model differs from theirs, or NULL */
    fv_transformer_config config;
} fv_architecture;

/* All of them: *out gets number i; false past the last. */
FV_API bool fv_architecture_get(int i, fv_architecture *out);
/* By name; false if there is none. */
FV_API bool fv_architecture_find(const char *name, fv_architecture *out);

/* One sequence of `length` tokens on each side that the model has. */
typedef struct fv_model_cost {
    int64_t parameters;
    int64_t tables; /* those of them that are only looked up: embeddings, positions */
    /* Multiplications and additions for one token, forward: products with weights (the output
     * matrix among them), and attention over `length` keys (a decoder sees half of them on
     * average). Training costs three times as much. With two sides, of a pair of tokens. */
    double flops_weights, flops_attention;
    double run_bytes;   /* f32 weights, and the keys and values of `length` tokens */
    double train_bytes; /* f32 weights, gradients and Adam's two moments; no activations */
} fv_model_cost;

/* Fails: ARGUMENT (settings out of range, length < 1), MEMORY. */
FV_API FV_MUST_USE fv_status fv_transformer_cost(fv_ctx *ctx, const fv_transformer_config *cfg,
                                                 int64_t length, fv_model_cost *out);

/* ==== cache ========================================================================= */

/*
 * cache: Transformers one token at a time. A cache holds the keys and values of each
 * sequence so far, so that a step costs one row of every product.
 *
 *     s = fv_transformer_pack(model, FV_WEIGHT_BF16);          // for running only; or not at all
 *     fv_cache *cache = NULL;
 *     s = fv_cache_create(model, &cache);
 *     s = fv_cache_begin(cache, &prompts, NULL, 100);            // prefill, one varlen pass
 *     fv_tensor *logits = fv_cache_step(ctx, cache, tokens);     // [rows] in, [rows, vocabulary]
 *     fv_cache_destroy(&cache);
 *
 * Rows are sequences of any lengths; a longer one costs the others memory, not time. A step gives
 * what a pass over the whole sequence gives for its last token, independent of the other rows. With
 * an encoder, every row reads the states of a source.
 *
 * As an fv_stepper (fovea/search.h) the cache serves every search; fovea/generate.h does that.
 * Steps record no gradients. A cache is used by one thread at a time and must be destroyed before
 * its model.
 */

/*
 * For inference only: every matrix of the blocks, the embeddings and the output are replaced by
 * panels in `form` (fv_linear_pack_in_place). Norms, biases and positions stay f32. Fails: STATE
 * (packed already), MEMORY; matrices before the one that failed are packed then.
 */
FV_API FV_MUST_USE fv_status fv_transformer_pack(fv_transformer *model, fv_weight_form form);

typedef struct fv_cache fv_cache;

/* Fails: ARGUMENT (the model has no decoder), MEMORY. */
FV_API FV_MUST_USE fv_status fv_cache_create(fv_transformer *model, fv_cache **out);
FV_API void fv_cache_destroy(fv_cache **cache); /* NULL is fine */

/*
 * The element type of the keys and values of self-attention: FV_F32, or FV_BF16 in half the memory.
 * [what the device prefers; f32 on the CPU] Attention over bf16 keys rounds the queries and its
 * result to bf16 too and sums in f32. Those of an encoder's states stay f32. Whatever the cache
 * holds is dropped:
 *
 *     s = fv_cache_set_dtype(cache, FV_BF16);                    // before fv_cache_begin
 *     if (s == FV_OK) s = fv_cache_begin(cache, &prompts, NULL, 32);
 *
 * One type for both, since attention has one. Fails: DTYPE (another type), UNSUPPORTED (bf16
 * with vectors by distance).
 */
FV_API FV_MUST_USE fv_status fv_cache_set_dtype(fv_cache *cache, fv_dtype dtype);

/*
 * Starts over with one row for each prompt. All tokens of a prompt but its last go through the
 * model, in one pass for all prompts; the last one is the input of the first step. With
 * an encoder, sources[i] is what row i reads; without, sources is NULL. `more`: expected
 * number of new tokens: memory for them is allocated now, and doubles beyond that.
 * Fails: ARGUMENT, LIMIT (a prompt is longer than the model's positions), INDEX, MEMORY.
 */
FV_API FV_MUST_USE fv_status fv_cache_begin(fv_cache *cache, const fv_sequences *prompts,
                                            const fv_sequences *sources, int64_t more);

/* The next token of every row (i64 [rows]) in; logits of the one after it, [rows, vocabulary].
 * Errors: LIMIT (no position is left), SHAPE, INDEX, MEMORY. */
FV_API fv_tensor *fv_cache_step(fv_ctx *ctx, fv_cache *cache, fv_tensor *tokens);

/*
 * From now on there are `rows` rows; row i continues from the previous row from[i]. A step of beam
 * search, where two of the best three prefixes continue row 0:
 *
 *     s = fv_cache_select(cache, 3, (int64_t[]){0, 0, 1});
 *     for (int64_t row = 0; row < fv_cache_rows(cache); row++)
 *         printf("row %" PRId64 ": %" PRId64 " tokens\n", row, fv_cache_length(cache, row));
 */
FV_API FV_MUST_USE fv_status fv_cache_select(fv_cache *cache, int64_t rows, const int64_t *from);

FV_API int64_t fv_cache_rows(const fv_cache *cache);
FV_API int64_t fv_cache_length(const fv_cache *cache, int64_t row); /* tokens stored */
FV_API size_t fv_cache_bytes(const fv_cache *cache);                /* of keys and values */

#ifdef __cplusplus
}
#endif
#endif
