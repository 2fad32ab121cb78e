/*
 * fovea/layers.h: the layers that Transformers are made of.
 *
 *     fv_block_config cfg;
 *     fv_block_config_init(&cfg, sizeof cfg, 512, 8);         // width, heads: pre-LN, GELU, 4x
 *     cfg.self.attention.rule.causal = FV_CAUSAL_TOP_LEFT;
 *     fv_block block;
 *     s = fv_block_create(params, "decoder.0", &cfg, &block);
 *     fv_block_input in = {.x = x, .training = true};         // x [batch, n, 512]
 *     fv_tensor *y = fv_block_run(ctx, &block, &in, NULL);
 *
 * makes parameters "decoder.0.self.q_proj.weight", "decoder.0.ff.up.weight", ...
 *
 * A layer is a plain struct: its settings and its tensors. `create` makes parameters under a prefix
 * in a set, which owns them, so that a layer needs no destructor; one that the set already holds,
 * with the right shape, is used (loaded weights, shared weights). A layer may as well be filled by
 * hand. Prefix "" puts names at the top.
 *
 * Blocks of the literature as settings:
 *     BERT    cfg.post_norm = true;
 *     GPT-2   cfg.ff.act = FV_ACT_GELU_TANH; cfg.self.fused_qkv = true;
 *     Llama   cfg.norm = FV_NORM_RMS; cfg.bias = false;
 *             cfg.ff.gated = true; cfg.ff.act = FV_ACT_SILU;
 *             cfg.self.kv_heads = 8; cfg.self.rotary.width = cfg.self.d_k;
 *
 * Unless stated otherwise, calls that return fv_status fail with ARGUMENT (settings), SHAPE (a
 * parameter exists with another shape) or MEMORY, and calls that return tensors set the context's
 * sticky error.
 *
 * Comments on settings: [x] is the default, [.] is set by the init function.
 */
#ifndef FOVEA_LAYERS_H
#define FOVEA_LAYERS_H

#include "fovea/attention.h"
#include "fovea/ops.h"
#include "fovea/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ==== positions ===================================================================== */

/*
 * positions: positional encodings: sinusoids, learned rows, rotary, relative, ALiBi.
 *
 *     fv_tensor *table = fv_sinusoid(ctx, FV_F32, 0, n, d, 10000, FV_SINUSOID_INTERLEAVED);
 *     x = fv_positions_apply(ctx, x, table, FV_POSITIONS_ADD);          // x [batch, n, d]
 *
 *     fv_rotary_config rotary;
 *     fv_rotary_config_init(&rotary, sizeof rotary, d);
 *     fv_tensor *angles = fv_rotary_table(ctx, FV_F32, &rotary, 0, n);
 *     q = fv_rotary(ctx, q, angles, -2, rotary.pairs);                 // q [batch, heads, n, d]
 *
 *     fv_relative t5 = {
 *         .kind = FV_RELATIVE_T5, .buckets = 32, .max_distance = 128, .bidirectional = true};
 *     fv_tensor *bias = fv_relative_bias(ctx, learnt, &t5, 0, n_q, n_k);  // learnt [32, heads]
 *     fv_attention_input in = {.q = q, .k = k, .v = v, .bias = bias};
 *
 * Learned absolute positions, and Shaw's relative ones, whose vectors are added to keys and values:
 *
 *     fv_tensor *rows = NULL;
 *     s = fv_embedding_create(params, "positions", 1024, d, 0.02, &rows);
 *     x = fv_positions_apply(ctx, x, fv_positions_learned(ctx, rows, 0, n), FV_POSITIONS_ADD);
 *
 *     fv_relative near = {.kind = FV_RELATIVE_CLIPPED, .max_distance = 16};
 *     fv_tensor *of_keys = NULL, *of_values = NULL;
 *     s = fv_embedding_create(params, "of_keys", fv_relative_rows(&near), d, 0.02, &of_keys);
 *     s = fv_embedding_create(params, "of_values", fv_relative_rows(&near), d, 0.02, &of_values);
 *     fv_tensor *scores = fv_relative_key_scores(ctx, q, of_keys, &near, 0, n_k);
 *     in.bias = fv_scale(ctx, scores, 1 / sqrt((double)d));
 *     fv_attention how;
 *     fv_attention_init(&how, sizeof how);
 *     how.want_weights = true;
 *     fv_tensor *y = fv_attention_run(ctx, &in, &how, &out);
 *     y = fv_add(ctx, y, fv_relative_value_sums(ctx, out.weights, of_values, &near, 0));
 *
 * `first` and `q_offset` are the position of row 0: decoding step by step and split sequences get
 * what the whole sequence would. Tables of numbers are computed in double on the host and have no
 * gradient; tables of parameters get theirs.
 */

/* ---- absolute --------------------------------------------------------------------- */

typedef enum fv_sinusoid_layout {
    FV_SINUSOID_INTERLEAVED, /* columns 2m and 2m + 1 are sine and cosine, as in the paper */
    FV_SINUSOID_HALVES       /* first all sines, then all cosines */
} fv_sinusoid_layout;

/* [n, width]: sin and cos of p / base^(2m / width), p = first + row, m the pair. With an odd
 * width the last column is a sine. The paper's base is 10000. Errors: ARGUMENT. */
FV_API fv_tensor *fv_sinusoid(fv_ctx *ctx, fv_dtype dtype, int64_t first, int64_t n, int64_t width,
                              double base, fv_sinusoid_layout layout);

/* Rows first .. first + n - 1 of a learned table [max_positions, width]. Errors: SHAPE (not so
 * many). */
FV_API fv_tensor *fv_positions_learned(fv_ctx *ctx, fv_tensor *table, int64_t first, int64_t n);

typedef enum fv_positions_how {
    FV_POSITIONS_ADD,   /* x + table, equal widths */
    FV_POSITIONS_CONCAT /* [x ; table], the widths add up */
} fv_positions_how;

/* x [..., n, d] with table [n, w]. */
FV_API fv_tensor *fv_positions_apply(fv_ctx *ctx, fv_tensor *x, fv_tensor *table,
                                     fv_positions_how how);

/* ---- rotary ------------------------------------------------------------------------ */

/* Scalings of Hugging Face's rope_scaling that need more than one number. */
typedef enum fv_rotary_scaling {
    FV_ROTARY_SCALING_NONE,
    /* Pair m is rotated by (1 - r) f + r f / factor; r rises from 0 to 1 between the pair that
     * makes high_freq turns within `original` positions ("beta_fast") and the one that makes
     * low_freq
     * ("beta_slow"). */
    FV_ROTARY_SCALING_YARN,
    /* In a sequence of n > original positions the base is multiplied by
     * (factor n / original - (factor - 1))^(width / (width - 2)). */
    FV_ROTARY_SCALING_DYNAMIC,
    /* The frequency of pair m is divided by short_factors[m]; in a sequence of more than `original`
     * positions by long_factors[m]. */
    FV_ROTARY_SCALING_LONGROPE,
    FV_ROTARY_SCALING_COUNT
} fv_rotary_scaling;

typedef struct fv_rotary_config {
    size_t struct_size;
    int64_t width;  /* columns that are rotated, even */
    double base;    /* pair m is rotated by p / base^(2m / width) [10000] */
    fv_pairs pairs; /* for fv_rotary [halves] */
    /* Hugging Face's rope_scaling: "linear" divides positions by its factor, for a longer context
     * [1]; "llama3" multiplies wavelengths longer than original / low_freq by its factor, keeps
     * those shorter than original / high_freq and blends between them (llama3_factor 0: off) [0].
     */
    double linear_factor;
    double llama3_factor, low_freq, high_freq, original;
    fv_rotary_scaling scaling; /* [none] */
    bool fractional;         /* yarn: r rises between fractions of pairs, not whole ones [false] */
    double factor;           /* of yarn and dynamic [0] */
    double attention_factor; /* of cosines and sines; 0 means 1 [0] */
    const double *short_factors, *long_factors; /* longrope: [width / 2] [NULL] */
    uint64_t reserved[4]; /* zero; new settings take their place here (docs/architecture.md) */
} fv_rotary_config;

FV_API void fv_rotary_config_init(fv_rotary_config *cfg, size_t struct_size, int64_t width);

/* [2, n, width / 2]: cosines, then sines, for positions first .. first + n - 1, the last ones of a
 * sequence. Errors: ARGUMENT. */
FV_API fv_tensor *fv_rotary_table(fv_ctx *ctx, fv_dtype dtype, const fv_rotary_config *cfg,
                                  int64_t first, int64_t n);

/* ---- relative ---------------------------------------------------------------------- */

typedef enum fv_relative_kind {
    FV_RELATIVE_CLIPPED, /* row clip(j - p, -max_distance, max_distance) + max_distance of 2
                            max_distance + 1; with `reversed` clip(p - j, ...) */
    FV_RELATIVE_T5       /* T5's buckets: near distances one by one, far ones by logarithm up to
                            `max_distance`; bidirectional: left and right differ, else j > p counts as 0
                          */
} fv_relative_kind;

typedef struct fv_relative {
    fv_relative_kind kind;
    int64_t max_distance, buckets; /* buckets: T5 only, at least 4 */
    bool bidirectional;            /* T5 only */
    bool reversed; /* clipped only: the first row is the farthest key to the right */
} fv_relative;

/* Rows of the tables below; 0 if the settings are out of range. */
FV_API int64_t fv_relative_rows(const fv_relative *r);
/* i64 [n_q, n_k]: the row for query i, at position p = q_offset + i, and key j. */
FV_API fv_tensor *fv_relative_index(fv_ctx *ctx, const fv_relative *r, int64_t q_offset,
                                    int64_t n_q, int64_t n_k);
/* table [rows, heads] -> [heads, n_q, n_k]: a number per head and distance, as a bias. */
FV_API fv_tensor *fv_relative_bias(fv_ctx *ctx, fv_tensor *table, const fv_relative *r,
                                   int64_t q_offset, int64_t n_q, int64_t n_k);
/* Shaw et al. 2018: q_i . a_r(i,j) with table [rows, d] -> [batch, heads, n_q, n_k]; times the
 * score's own scale it is a bias. q [batch, heads, n_q, d]. */
FV_API fv_tensor *fv_relative_key_scores(fv_ctx *ctx, fv_tensor *q, fv_tensor *table,
                                         const fv_relative *r, int64_t q_offset, int64_t n_k);
/* and sum_j w_ij a_r(i,j) with table [rows, d_v] -> [batch, heads, n_q, d_v], to be added to the
 * context. weights [batch, heads, n_q, n_k]. */
FV_API fv_tensor *fv_relative_value_sums(fv_ctx *ctx, fv_tensor *weights, fv_tensor *table,
                                         const fv_relative *r, int64_t q_offset);

/* ---- linear bias ------------------------------------------------------------------- */

/* ALiBi's slopes [heads], for any number of heads: 2^(-8 (h+1) / n) for a power of two n; the rest
 * from every second slope of 2n. For `slopes` of an attention. */
FV_API fv_tensor *fv_alibi_slopes(fv_ctx *ctx, fv_dtype dtype, int64_t heads);

/* ---- dense, norm ------------------------------------------------------------------- */

/* `init_std`, here and below: standard deviation of the normal distribution that weights are drawn
 * from; 0: Xavier's uniform distribution. Biases are initially 0. */
typedef struct fv_dense {
    fv_tensor *weight; /* [out, in] */
    fv_tensor *bias;   /* [out] or NULL */
} fv_dense;

/* Parameters "prefix.weight" and "prefix.bias". */
FV_API FV_MUST_USE fv_status fv_dense_create(fv_params *params, const char *prefix, int64_t in,
                                             int64_t out, bool bias, double init_std,
                                             fv_dense *dense);
/* x W^T + b */
FV_API fv_tensor *fv_dense_run(fv_ctx *ctx, const fv_dense *dense, fv_tensor *x);

typedef enum fv_norm_kind {
    FV_NORM_LAYER, /* (x - mean) / sqrt(var + eps) weight + bias */
    FV_NORM_RMS    /* x / sqrt(mean(x^2) + eps) weight */
} fv_norm_kind;

typedef struct fv_norm_layer {
    fv_norm_kind kind;
    double eps;
    fv_tensor *weight, *bias; /* [width] or NULL; RMS has no bias */
} fv_norm_layer;

FV_API FV_MUST_USE fv_status fv_norm_layer_create(fv_params *params, const char *prefix,
                                                  int64_t width, fv_norm_kind kind, bool bias,
                                                  double eps, fv_norm_layer *norm);
FV_API fv_tensor *fv_norm_layer_run(fv_ctx *ctx, const fv_norm_layer *norm, fv_tensor *x);

/* A table "prefix.weight" [rows, width] for fv_embedding; init_std 0 means 1. */
FV_API FV_MUST_USE fv_status fv_embedding_create(fv_params *params, const char *prefix,
                                                 int64_t rows, int64_t width, double init_std,
                                                 fv_tensor **table);

/* ---- names -------------------------------------------------------------------------- */

/* Names of the parameters in files of other libraries, each after the layer's prefix. Those of
 * parameters that the layer creates must be set. */
typedef struct fv_mha_names {
    const char *q, *k, *v, *qkv, *out;
    const char *q_norm, *k_norm, *relative_keys;
} fv_mha_names;

typedef struct fv_feed_forward_names {
    const char *up, *gate, *down;
} fv_feed_forward_names;

/* All of them after the block's prefix: "attn.c_proj", "mlp.c_fc", "ln_1", ... */
typedef struct fv_block_names {
    fv_mha_names self, cross;
    fv_feed_forward_names ff;
    const char *self_norm, *cross_norm, *ff_norm;
} fv_block_names;

/* ---- multi-head attention ---------------------------------------------------------- */

typedef struct fv_mha_config {
    size_t struct_size;
    int64_t width_q, width_k, width_v; /* of the inputs; 0 means width_q [., 0, 0] */
    int64_t heads, kv_heads;           /* kv_heads 0 means heads [., 0] */
    int64_t d_k, d_v;                  /* of one head; d_v 0 means d_k [width_q / heads, 0] */
    int64_t width_out;                 /* 0 means width_q [0] */
    bool bias, bias_out;               /* of the projections in, and out [true, true] */
    bool fused_qkv;         /* one matrix "qkv_proj" for all three projections in [false] */
    fv_attention attention; /* between the projections [scaled dot, softmax] */
    int64_t location_keys;  /* location score (fovea/attention.h): the largest number of keys [0] */
    fv_rotary_config rotary; /* of q and k; width 0: none [0] */
    fv_relative relative;  /* max_distance 0: none. A bias per head of the layer's own ... [none] */
    bool relative_vectors; /* ... or Shaw's vectors for keys and values [false] */
    bool alibi;            /* [false] */
    bool relative_no_values; /* relative_vectors: none for values, as in BERT's relative_key [false]
                              */
    bool relative_queries;   /* relative_vectors: the same vectors are added to queries too, as in
                                BERT's relative_key_query; needs kv_heads = heads [false] */
    bool qk_norm;            /* RMS norms of each head's q and k, before they are rotated [false] */
    double init_std, init_std_out; /* of the projections in, and out (0 means init_std) [0, 0] */
    const fv_mha_names *names;     /* constants of the program; NULL: the default names [NULL] */
    double qk_norm_eps;            /* [0] */
    uint64_t reserved[3]; /* zero; new settings take their place here (docs/architecture.md) */
} fv_mha_config;

/* d_k is width / heads; set d_k = width for full-width heads. */
FV_API void fv_mha_config_init(fv_mha_config *cfg, size_t struct_size, int64_t width,
                               int64_t heads);

/*
 * Projections q_proj [heads d_k, width_q], k_proj [kv_heads d_k, width_k], v_proj [kv_heads d_v,
 * width_v], out_proj [width_out, heads d_v]; fused_qkv: qkv_proj, the first three stacked.
 * What the attention needs besides: score.weight (general [heads, d_k, d_k], additive [heads,
 * d_k], location [heads, location_keys, d_k]), score.strength (cosine: beta, [heads], initially 1),
 * centre.weight [d_k, d_k] and centre.vector [d_k] (local-p; for the scores see fovea/attention.h),
 * relative.bias [rows, heads],
 * relative.keys [rows, d_k], relative.values [rows, d_v]. qk_norm: q_norm.weight and k_norm.weight
 * [d_k].
 */
typedef struct fv_mha {
    fv_mha_config cfg; /* complete: defaults filled in */
    fv_dense q, k, v, qkv, out;
    fv_tensor *score, *beta, *centre, *centre_vector;
    fv_tensor *relative_bias, *relative_keys, *relative_values;
    fv_norm_layer q_norm, k_norm; /* weight NULL: none */
} fv_mha;

FV_API FV_MUST_USE fv_status fv_mha_create(fv_params *params, const char *prefix,
                                           const fv_mha_config *cfg, fv_mha *heads);

typedef struct fv_mha_input {
    fv_tensor *x; /* [batch, n_q, width_q] */
    /* [batch, n_k, width]. keys NULL: x; values NULL: keys. Alternatively give already projected k
     * and v: [batch, kv_heads, n_k, d] from fv_mha_project_keys. */
    fv_tensor *keys, *values;
    fv_tensor *k, *v;
    /* Position of the first query and of the first key, for rotary positions; their difference
     * shifts causal masks, windows and distances: decoding over a cache of n keys has position n,
     * key_position 0. */
    int64_t position, key_position;
    /* Rotary tables for queries and keys, where a model makes them once for all its layers, or
     * positions are not consecutive (documents); NULL: made from the positions. */
    fv_tensor *rotary_table, *key_rotary_table;
    fv_tensor *bias, *visible, *blocks, *key_lengths; /* as in fv_attention_input */
    fv_tensor *q_begin, *k_begin;                     /* varlen documents, batch 1: likewise */
    /* u8 [batch, 1, n_q, n_k]: what layers with a window (rule.left) see in place of it and of
     * `visible`, where the queries of a batch are at different positions; others ignore it. */
    fv_tensor *window_visible;
    fv_tensor *residual; /* [batch, n_q, width_out], added to the result; or NULL */
    /* Called with x's own keys and values [batch, kv_heads, n, d] before they are used; may replace
     * them, for example with those of a cache that it has appended them to. May be NULL. */
    void (*on_keys_values)(void *user, fv_ctx *ctx, fv_tensor **k, fv_tensor **v);
    void *on_keys_values_user;
    bool rotary_table_per_sequence; /* n_q is 1, and sequence i uses row i of the tables */
    bool want_weights;              /* in the result, with gradients */
    fv_attention_capture capture;   /* in the result, without gradients */
    bool training;                  /* applies the dropout of the weights */
} fv_mha_input;

/* [batch, n_q, width_out]; the attention's own results through `result`, or NULL. */
FV_API fv_tensor *fv_mha_run(fv_ctx *ctx, const fv_mha *heads, const fv_mha_input *in,
                             fv_attention_result *result);

/*
 * Only keys and values, rotated and split into heads: for caches and for a memory that many queries
 * read. values NULL: keys; key_rotary_table NULL: made from the position.
 *
 *     fv_mha_input in = {.x = x};
 *     fv_mha_project_keys(ctx, &heads, memory, NULL, 0, NULL, &in.k, &in.v);   // once
 *     for (int64_t step = 0; step < n; step++) in.x = fv_mha_run(ctx, &heads, &in, NULL);
 */
FV_API void fv_mha_project_keys(fv_ctx *ctx, const fv_mha *heads, fv_tensor *keys,
                                fv_tensor *values, int64_t key_position,
                                fv_tensor *key_rotary_table, fv_tensor **k, fv_tensor **v);

/* ---- feed-forward ------------------------------------------------------------------ */

/*
 * A pre-norm feed-forward layer by hand, as in Llama:
 *
 *     fv_norm_layer norm;
 *     s = fv_norm_layer_create(params, "norm", 512, FV_NORM_RMS, false, 1e-6, &norm);
 *     fv_feed_forward_config cfg;
 *     fv_feed_forward_config_init(&cfg, sizeof cfg, 512);
 *     cfg.gated = true;
 *     cfg.act = FV_ACT_SILU;
 *     fv_feed_forward ff;
 *     s = fv_feed_forward_create(params, "ff", &cfg, &ff);
 *     x = fv_feed_forward_run(ctx, &ff, fv_norm_layer_run(ctx, &norm, x), x, true);
 */

typedef struct fv_feed_forward_config {
    size_t struct_size;
    int64_t width, hidden;         /* [., 4 width] */
    fv_act act;                    /* [GELU] */
    bool gated;                    /* act(gate x) * up x, as in SwiGLU [false] */
    bool bias;                     /* [true] */
    double dropout;                /* of the hidden layer [0] */
    double init_std, init_std_out; /* of up and gate, and of down (0 means init_std) [0, 0] */
    const fv_feed_forward_names
        *names;           /* constants of the program; NULL: the default names [NULL] */
    uint64_t reserved[4]; /* zero; new settings take their place here (docs/architecture.md) */
} fv_feed_forward_config;

FV_API void fv_feed_forward_config_init(fv_feed_forward_config *cfg, size_t struct_size,
                                        int64_t width);

typedef struct fv_feed_forward {
    fv_feed_forward_config cfg;
    fv_dense up, gate, down;
} fv_feed_forward;

FV_API FV_MUST_USE fv_status fv_feed_forward_create(fv_params *params, const char *prefix,
                                                    const fv_feed_forward_config *cfg,
                                                    fv_feed_forward *ff);
/* down(act(up x)), or down(act(gate x) * up x); + residual unless NULL. Each row on its own. */
FV_API fv_tensor *fv_feed_forward_run(fv_ctx *ctx, const fv_feed_forward *ff, fv_tensor *x,
                                      fv_tensor *residual, bool training);

/* ---- block ------------------------------------------------------------------------- */

/* Sublayers f: self-attention, cross-attention (if any), feed-forward.
 *     pre-LN:  x + drop(f(norm(x)))        post-LN:  norm(x + drop(f(x))) */
typedef struct fv_block_config {
    size_t struct_size;
    fv_mha_config self, cross; /* cross.heads 0: none [as fv_mha_config_init sets it, none] */
    fv_feed_forward_config ff;
    fv_norm_kind norm; /* [layer] */
    double eps;        /* [1e-5] */
    bool bias;         /* false: none anywhere in the block, whatever the parts say [true] */
    bool post_norm;    /* post-LN [false] */
    double dropout;    /* of each sublayer's result [0] */
    const fv_block_names *names; /* constants of the program; NULL: the default names [NULL] */
} fv_block_config;

FV_API void fv_block_config_init(fv_block_config *cfg, size_t struct_size, int64_t width,
                                 int64_t heads);

/* Parts are named self, cross, ff, self_norm, cross_norm, ff_norm. */
typedef struct fv_block {
    fv_block_config cfg;
    fv_mha self, cross;
    fv_feed_forward ff;
    fv_norm_layer self_norm, cross_norm, ff_norm;
} fv_block;

FV_API FV_MUST_USE fv_status fv_block_create(fv_params *params, const char *prefix,
                                             const fv_block_config *cfg, fv_block *block);

typedef struct fv_block_input {
    fv_tensor *x; /* [batch, n, width] */
    /* [batch, n_k, cross.width_k], or already projected cross_k and cross_v. */
    fv_tensor *memory;
    fv_tensor *cross_k, *cross_v;
    fv_tensor *self_k, *self_v; /* self-attention over a cache that already holds x's keys */
    int64_t position, key_position;
    fv_tensor *rotary_table, *key_rotary_table; /* these and the next are of the self-attention */
    fv_tensor *bias, *visible, *blocks, *key_lengths, *q_begin, *k_begin, *window_visible;
    void (*on_keys_values)(void *user, fv_ctx *ctx, fv_tensor **k, fv_tensor **v);
    void *on_keys_values_user;
    bool rotary_table_per_sequence;
    /* Of the cross-attention: mask, lengths, documents (q_begin are the queries'). */
    fv_tensor *memory_visible, *memory_lengths, *memory_begin;
    bool want_weights; /* of both, in the result */
    fv_attention_capture capture_self, capture_cross;
    bool training;
} fv_block_input;

typedef struct fv_block_result {
    fv_attention_result self, cross;
} fv_block_result;

FV_API fv_tensor *fv_block_run(fv_ctx *ctx, const fv_block *block, const fv_block_input *in,
                               fv_block_result *result);

/* ---- self-attention over a grid ----------------------------------------------------- */

/*
 * Non-local attention over the pixels of x [batch, C, H, W] (Wang 2018; SAGAN, Zhang 2019):
 *     o = W_out (softmax over all pixels of (W_q x_j) . (W_k x_i)) applied to W_v x
 *     y = x + gamma o
 * 1 x 1 projections, no 1/sqrt(d); gamma is initially 0, so the layer initially changes nothing.
 *
 *     fv_nonlocal grid;
 *     s = fv_nonlocal_create(params, "attention", 64, 0, 0, 0, &grid);
 *     x = fv_nonlocal_run(ctx, &grid, x, false, NULL);           // x [batch, 64, H, W]
 */
typedef struct fv_nonlocal {
    int64_t channels, inner, value; /* inner: of queries and keys */
    fv_tensor *query, *key;         /* [inner, C] */
    fv_tensor *values;              /* [value, C] */
    fv_tensor *out;                 /* [C, value] */
    fv_tensor *gamma;               /* [1] */
} fv_nonlocal;

/* Parameters query, key, value, out (".weight") and gamma. inner 0: channels / 8, at least 1;
 * value 0: as inner. */
FV_API FV_MUST_USE fv_status fv_nonlocal_create(fv_params *params, const char *prefix,
                                                int64_t channels, int64_t inner, int64_t value,
                                                double init_std, fv_nonlocal *grid);
/* weights [batch, 1, HW, HW] (query pixel, key pixel) through `result`, which may be NULL, if
 * want_weights. */
FV_API fv_tensor *fv_nonlocal_run(fv_ctx *ctx, const fv_nonlocal *grid, fv_tensor *x,
                                  bool want_weights, fv_attention_result *result);

/* ---- convolution over a sequence ----------------------------------------------------- */

/*
 * 1-D convolution: K learned offsets in place of attention's weights.
 *
 *     y_t = b + sum_j W_j x_{t + (j - before) dilation},   j = 0 .. K - 1,  x = 0 outside
 *
 * before = K - 1 if causal (y_t depends on x_t and earlier ones), else (K - 1) / 2 (centred).
 *
 *     fv_conv1d_layer near, past;
 *     s = fv_conv1d_create(params, "near", 64, 64, 3, true, NULL, &near);   // centred
 *     fv_conv1d_options far = {.causal = true, .dilation = 4};
 *     s = fv_conv1d_create(params, "past", 64, 64, 3, true, &far, &past);
 *     fv_tensor *y = fv_conv1d_run(ctx, &past, fv_conv1d_run(ctx, &near, x));   // x [batch, 64, n]
 *
 * Layers with dilations 1, 2, 4, .. reach 2^layers positions with K = 2.
 */
typedef struct fv_conv1d_options {
    bool causal;
    int64_t dilation; /* distance between the inputs of a window; 0 means 1 */
} fv_conv1d_options;

typedef struct fv_conv1d_layer {
    fv_conv1d_options options; /* complete */
    fv_tensor *weight;         /* [out, in, K], as in PyTorch */
    fv_tensor *bias;           /* [out] or NULL */
} fv_conv1d_layer;

/* Parameters "prefix.weight" and "prefix.bias"; initially uniform in +-1 / sqrt(in K). options
 * NULL: centred, dilation 1. */
FV_API FV_MUST_USE fv_status fv_conv1d_create(fv_params *params, const char *prefix, int64_t in,
                                              int64_t out, int64_t window, bool bias,
                                              const fv_conv1d_options *options,
                                              fv_conv1d_layer *layer);
/* x [batch, in, n] -> [batch, out, n] */
FV_API fv_tensor *fv_conv1d_run(fv_ctx *ctx, const fv_conv1d_layer *layer, fv_tensor *x);
/*
 * Sequences of different lengths, one after the other: x [total, in] -> [total, out]. Sequence i is
 * rows begin[i] .. begin[i + 1] - 1, with begin[0] = 0 and begin[sequences] = total; what is
 * outside it counts as 0. A sequence has the same bits alone and among others.
 *
 *     const int64_t begin[] = {0, 5, 12};
 *     fv_conv1d_layer near;
 *     s = fv_conv1d_create(params, "near", 64, 64, 3, true, NULL, &near);
 *     fv_tensor *y = fv_conv1d_run_varlen(ctx, &near, x, 2, begin);          // x [12, 64]
 */
FV_API fv_tensor *fv_conv1d_run_varlen(fv_ctx *ctx, const fv_conv1d_layer *layer, fv_tensor *x,
                                       int64_t sequences, const int64_t *begin);

#ifdef __cplusplus
}
#endif
#endif
