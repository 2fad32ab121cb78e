/*
 * fovea/attention.h: attention over tensors, differentiable. Prefixes: fv_attn_ are the raw kernels
 * (fovea/attention_kernels.h), fv_attend is the op, fv_attention_ the family. Three levels, each a
 * plain call:
 *
 * fv_attention_run, the whole family behind one description:
 *
 *     fv_attention how;
 *     fv_attention_init(&how, sizeof how);              // scaled dot, softmax, no mask
 *     how.score = FV_ATTENTION_ADDITIVE;
 *     how.rule.causal = FV_CAUSAL_TOP_LEFT;
 *     fv_attention_input in = {.q = q, .k = k, .v = v, .w = v_a, .w_q = w_q, .w_k = w_k};
 *     fv_attention_result out;
 *     fv_tensor *context = fv_attention_run(ctx, &in, &how, &out);   // [batch, heads, n_q, d_v]
 *
 * fv_attend, the op below it, which is streamed: it goes over the keys block by block with an
 * online softmax, as in FlashAttention, and never stores the n_q x n_k matrix:
 *
 *     fv_attention_rule rule;
 *     fv_attention_rule_init(&rule);
 *     rule.causal = FV_CAUSAL_TOP_LEFT;
 *     fv_tensor *lse, *y = fv_attend(ctx, q, k, v, &rule, NULL, &lse);
 *
 * and the weights of that op, recomputed from its log-sum-exp:
 *
 *     fv_attention_saved saved = {.q = q, .k = k, .lse = lse, .rule = rule};
 *     fv_tensor *p = fv_attention_weights(ctx, &saved, NULL);         // [batch, heads, n_q, n_k]
 *
 * The kernels without tensors, and fv_attention_rule: fovea/attention_kernels.h.
 *
 * What fv_attention_run computes, for query i and key j of one head, over the keys that i may see:
 *
 *     e_ij  the score, by `score`                               (fv_attention_score)
 *     s_ij  = cap(scale / temperature e_ij) + slope (pos_j - pos_i) + bias_ij
 *     a_ij  the weight, by `normaliser`; softmax_j(s_ij) by default
 *     c_i   = sum_j drop(a_ij) v_j
 *
 * All of it is differentiable, except for the choice that hard attention makes (fv_reinforce() is
 * its estimator). Hidden positions are skipped: NaN or infinity in a hidden key or value shows
 * neither in a result nor in a gradient. A query that sees no key gets zeros everywhere, and -inf
 * as log-sum-exp.
 *
 * The description alone chooses the path, never values, threads or the batch:
 *     streamed  scores are made inside the kernel, in linear memory (except local-p, whose Gaussian
 *               is a bias of n_q x n_k)
 *     scored    scores are made as a map by ops (location, the caller's own, vectors wider than
 *               FV_ATTN_MAX_WIDTH), then streamed over; values may have any width
 *     map       scores and weights are made by ops that carry gradients: when want_scores or
 *               want_weights asks for them, and for hard attention
 * Where no gradient can flow and only weights are requested, they are recomputed from the streamed
 * kernel's log-sum-exp, by the streamed path (soft and local-m). Requesting scores or weights
 * changes no bit of a soft context. The path is part of the result and is logged at level debug.
 *
 * Ownership: every tensor returned belongs to the innermost scope. Calls that return tensors set
 * the context's sticky error on failure: ARGUMENT (a setting out of range, a tensor that the
 * description needs is NULL), SHAPE, DTYPE, UNSUPPORTED (a combination), MEMORY.
 */
#ifndef FOVEA_ATTENTION_H
#define FOVEA_ATTENTION_H

#include "fovea/attention_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the op ----------------------------------------------------------------------- */

/* Optional arrays, each may be NULL. */
typedef struct fv_attend_extra {
    fv_tensor *bias;        /* broadcasts to [batch, heads, n_q, n_k]; gets a gradient */
    fv_tensor *visible;     /* u8, broadcasts likewise: 0 hides */
    fv_tensor *key_lengths; /* i64 [batch]: keys from this on are hidden */
    fv_tensor *slopes;      /* [heads]: linear position bias; no gradient */
    fv_tensor *w;           /* [heads, d]: makes the score additive; gets a gradient */
    fv_tensor *blocks; /* u8, broadcasts to [batch, heads, blocks of queries, blocks of keys] */
    /* i64 [documents + 1]: varlen documents in one row, see fv_attn; both or neither. q is then
     * [1, heads, all queries, d], likewise k, v and the results; key_lengths has an entry per
     * document.
     */
    fv_tensor *q_begin, *k_begin;
} fv_attend_extra;

/*
 * q [batch, heads, n_q, d], k [batch, kv_heads, n_k, d], v [batch, kv_heads, n_k, d_v]
 * -> [batch, heads, n_q, d_v], by the formula of fovea/attention_kernels.h. The score is q . k;
 * additive where extra->w is given; none where q and k are NULL: then the bias is the score, batch
 * and n_k are those of v, n_q and heads those of the bias (heads those of v where the bias repeats
 * over them).
 *
 * Any strides whose last one is 1 are read in place. The log-sum-exp [batch, heads, n_q] is
 * returned through `lse` (or NULL). Gradients to q, k, v, bias, w, and through the log-sum-exp.
 * rule (the defaults) and extra may be NULL. q, k, v of one dtype: f32, f64, bf16 or f16; with the
 * last two, bias, slopes, w and the log-sum-exp are f32.
 */
FV_API fv_tensor *fv_attend(fv_ctx *ctx, fv_tensor *q, fv_tensor *k, fv_tensor *v,
                            const fv_attention_rule *rule, const fv_attend_extra *extra,
                            fv_tensor **lse);

/* ---- weights ---------------------------------------------------------------------- */

/*
 * What weights are recomputed from: q, k, rule and extra as they were given to fv_attend, and the
 * log-sum-exp that it returned. Valid as long as its tensors. The calls below give exactly the
 * weights that fv_attend used, before dropout; results have the dtype of lse and no gradient.
 * Varlen documents are one long row, as in fovea/attention_kernels.h.
 */
typedef struct fv_attention_saved {
    fv_tensor *q, *k, *lse;
    fv_attention_rule rule;
    fv_attend_extra extra;
} fv_attention_saved;

/* A rectangle of every sequence's map: which heads, queries and keys. */
typedef struct fv_attention_region {
    int64_t head, heads; /* the first, and how many */
    int64_t row, rows;
    int64_t col, cols;
} fv_attention_region;

/*
 * The weights [batch, heads, n_q, n_k], or those of a region, [batch, region->heads, region->rows,
 * region->cols], with the same bits: a map that is too large can be computed region by region. A
 * varlen document has its own map at row q_begin[b], column k_begin[b]. region may be NULL: the
 * whole map. Further errors: ARGUMENT (a region beyond the map).
 *
 *     fv_attention_region band = {.head = 3, .heads = 1, .row = 512, .rows = 64, .cols = n_k};
 *     fv_tensor *p = fv_attention_weights(ctx, &saved, &band);        // [batch, 1, 64, n_k]
 */
FV_API fv_tensor *fv_attention_weights(fv_ctx *ctx, const fv_attention_saved *saved,
                                       const fv_attention_region *region);

/*
 * The `top` largest weights of each row, [batch, heads, n_q, top], as in fv_attn_summary; the keys
 * they belong to (i64) through `indices`, unless NULL.
 *
 *     fv_tensor *keys, *largest = fv_attention_top(ctx, &saved, 5, &keys);
 */
FV_API fv_tensor *fv_attention_top(fv_ctx *ctx, const fv_attention_saved *saved, int64_t top,
                                   fv_tensor **indices);

/* How widely attention is spread; see fv_attn_summary. */
typedef struct fv_attention_summary {
    fv_tensor *entropy, *distance;           /* [batch, heads, n_q] */
    fv_tensor *received;                     /* [batch, heads, n_k] */
    fv_tensor *head_entropy, *head_distance; /* [batch, heads]: means over queries that see a key */
} fv_attention_summary;

/*
 * Heads that look at few keys have a low entropy:
 *
 *     fv_attention_summary spread = fv_attention_summarise(ctx, &saved);
 *     fv_tensor *most_peaked = fv_argmin(ctx, spread.head_entropy, -1, false);    // i64 [batch]
 */
FV_API fv_attention_summary fv_attention_summarise(fv_ctx *ctx, const fv_attention_saved *saved);

/* Which of these to capture during a call. Soft and local-m attention; capturing does not change
 * the results. */
typedef struct fv_attention_capture {
    bool weights; /* the whole map */
    int64_t top;  /* the largest of each row; 0: none */
    bool summary;
    bool saved; /* what weights are recomputed from, to compute regions of a large map later */
} fv_attention_capture;

/* What was captured; NULL where it was not requested. */
typedef struct fv_attention_captured {
    int64_t heads, n_q, n_k;            /* of the map; 0 if nothing was requested */
    fv_tensor *weights;                 /* [batch, heads, n_q, n_k] */
    fv_tensor *top_weights, *top_index; /* [batch, heads, n_q, top] */
    fv_attention_summary summary;
    fv_attention_saved saved;
} fv_attention_captured;

/* ---- the description -------------------------------------------------------------- */

/* q and k are one query and one key of a head. Parameters with a [heads, ...] axis have one set per
 * head; without it, all heads share. How to add a score: docs/mechanisms/README.md. */
typedef enum fv_attention_score {
    FV_ATTENTION_SCALED,   /* q . k, whose default scale is 1 / sqrt(d) */
    FV_ATTENTION_DOT,      /* q . k; the default scale of this and of all below is 1 */
    FV_ATTENTION_GENERAL,  /* q^T W k, w = W [d_q, d_k] or [heads, d_q, d_k] */
    FV_ATTENTION_ADDITIVE, /* w . tanh(W_q q + W_k k), w [d] or [heads, d]; w_q [d, d_q] and w_k
                              [d, d_k] (or with heads; key heads for w_k) project, unless NULL */
    FV_ATTENTION_COSINE,   /* beta q . k / (|q| |k|), beta = 1 or a tensor; 0, without gradient, for
                              a zero vector */
    FV_ATTENTION_LOCATION, /* (W q)_j, w = W [n_max, d_q] or [heads, n_max, d_q], cut to the number
                              of keys; k is not read and may be NULL */
    FV_ATTENTION_L2,       /* -|q - k|^2; with scale 1 / (2 s^2) the weights of a Gaussian kernel */
    FV_ATTENTION_CUSTOM,   /* score_fn */
    FV_ATTENTION_SCORE_COUNT
} fv_attention_score;

/* "scaled", "dot", ... as in recipes; "?" if there is no such score. */
FV_API const char *fv_attention_score_name(fv_attention_score score);

/* How scores become weights. */
typedef enum fv_attention_normaliser {
    FV_ATTENTION_SOFTMAX,
    /* One key per query: drawn with the softmax's probabilities, keyed by (seed, step, site, row);
     * or the most likely, the first of equals. The context is that key's value, bit for bit. */
    FV_ATTENTION_HARD_SAMPLE,
    FV_ATTENTION_HARD_ARGMAX,
    /* Luong's windows of half_width D around a centre p_i. m: p_i is the query's own position.
     * p: p_i = S sigmoid(v_p . tanh(W_p q_i)), S the number of keys, or given as `centre`; the
     * softmax over keys with |j - p_i| <= D is multiplied by exp(-(j - p_i)^2 / (2 (D/2)^2)) and
     * not normalised again. */
    FV_ATTENTION_LOCAL_M,
    FV_ATTENTION_LOCAL_P,
    FV_ATTENTION_NORMALISER_COUNT
} fv_attention_normaliser;

/*
 * The caller's own score: makes [batch, heads, n_q, n_k] from q and k with ordinary ops, so
 * gradients need nothing else. Its values at hidden positions do not show in the context; NaN there
 * may show in gradients, depending on how the function used k.
 */
typedef fv_tensor *(*fv_score_fn)(fv_ctx *ctx, void *user, fv_tensor *q, fv_tensor *k);

typedef struct fv_attention {
    size_t struct_size;
    fv_attention_score score;           /* [scaled] */
    fv_attention_normaliser normaliser; /* [softmax] */
    fv_attention_rule rule;             /* scale 0: the score's own; hard: no dropout [defaults] */
    double temperature;                 /* divides the scaled scores, > 0 [1] */
    double half_width;                  /* D of the local windows, > 0 (m: rounded down) [0] */
    bool want_scores, want_weights;     /* in the result, with gradients [false, false] */
    fv_attention_capture capture;       /* without gradients [nothing] */
    fv_score_fn score_fn;               /* of FV_ATTENTION_CUSTOM [NULL] */
    void *score_user;                   /* [NULL] */
    uint64_t reserved[4]; /* zero; new settings take their place here (docs/architecture.md) */
} fv_attention;

/* The defaults in brackets. */
FV_API void fv_attention_init(fv_attention *how, size_t struct_size);

/* q [batch, heads, n_q, d_q], k [batch, kv_heads, n_k, d_k], v [batch, kv_heads, n_k, d_v]; head h
 * reads key head h / (heads / kv_heads). f32 or f64; bf16 and f16 for plain dot products, softmax
 * or local-m, without maps (bias and slopes are f32 then). The rest may be NULL where the
 * description allows it. */
typedef struct fv_attention_input {
    fv_tensor *q, *k, *v;
    fv_tensor *w, *w_q, *w_k; /* of the score; get gradients */
    fv_tensor *beta;          /* cosine: broadcasts to [batch, heads, n_q, 1]; gets a gradient */
    fv_tensor *temperature;   /* learned, one element or [heads]; multiplied with how.temperature */
    fv_tensor *w_p, *v_p;     /* local-p: [d_p, d_q] and [d_p], or with heads */
    fv_tensor *centre;        /* local-p: p_i itself, broadcasts to [batch, heads, n_q] */
    fv_tensor *bias;          /* broadcasts to [batch, heads, n_q, n_k]; gets a gradient */
    fv_tensor *visible;       /* u8, likewise: 0 hides */
    fv_tensor *blocks;        /* u8, broadcasts to [batch, heads, blocks of q, of k]: 0 hides */
    fv_tensor *key_lengths;   /* i64 [batch]: keys from this on are hidden */
    fv_tensor *slopes;        /* [heads]: linear position bias; no gradient */
    /* i64 [documents + 1]: varlen documents in one row of batch 1, see fv_attend_extra. Soft and
     * local-m attention without maps, of scores that are streamed. */
    fv_tensor *q_begin, *k_begin;
} fv_attention_input;

typedef enum fv_attention_path {
    FV_ATTENTION_STREAMED,
    FV_ATTENTION_SCORED,
    FV_ATTENTION_MAP,
    FV_ATTENTION_PATH_COUNT
} fv_attention_path;

/* NULL where the description makes none. All are differentiable but `choice` and `captured`. */
typedef struct fv_attention_result {
    fv_attention_path path;
    fv_tensor *context;  /* [batch, heads, n_q, d_v] */
    fv_tensor *scores;   /* s_ij, -inf where hidden [batch, heads, n_q, n_k], with want_scores */
    fv_tensor *weights;  /* a_ij before dropout, likewise; hard: the probabilities */
    fv_tensor *lse;      /* ln sum_j exp(s_ij) [batch, heads, n_q]; not hard */
    fv_tensor *choice;   /* hard: the key, i64 [batch, heads, n_q]; 0 where there is none */
    fv_tensor *log_prob; /* hard: ln of its probability */
    fv_tensor *entropy;  /* hard: of the probabilities, in nats */
    fv_tensor *centre;   /* local-p: p_i [batch, heads, n_q] */
    fv_attention_captured captured;
} fv_attention_result;

/* Returns the context; how (the defaults) and result may be NULL. */
FV_API fv_tensor *fv_attention_run(fv_ctx *ctx, const fv_attention_input *in,
                                   const fv_attention *how, fv_attention_result *result);

/* ---- without heads or parameters -------------------------------------------------- */

/*
 * A soft dictionary: each query is answered by the values, blended by how well their keys match.
 *     y_i = sum_j softmax_j(q_i . k_j / temperature) v_j
 * queries [n_q, d], keys [n, d], values [n, d_v], or all with a batch in front -> [n_q, d_v]. As
 * the temperature falls, it becomes a dictionary that returns one value. *weights [n_q, n] unless
 * NULL.
 */
FV_API fv_tensor *fv_attention_lookup(fv_ctx *ctx, fv_tensor *queries, fv_tensor *keys,
                                      fv_tensor *values, double temperature, fv_tensor **weights);
/*
 * Basic self-attention: y_i = sum_j softmax_j(x_i . x_j) x_j. x [n, d] or [batch, n, d].
 *
 *     fv_tensor *p, *y = fv_attention_basic(ctx, words, &p);       // words, y [n, d]; p [n, n]
 */
FV_API fv_tensor *fv_attention_basic(fv_ctx *ctx, fv_tensor *x, fv_tensor **weights);

/* ---- training hard attention ------------------------------------------------------ */

/*
 * A hard choice s has no derivative; its expected loss does. With y the outcome, the gradient of
 * the lower bound on log p(y) is estimated (Xu et al. 2015) from one draw by
 *
 *     d log p(y|s) + lambda (log p(y|s) - b) d log p(s) + lambda_e d H
 *
 * where b is a moving average of log p(y|s): the same expectation, less variance.
 *
 *     fv_baseline b = {.decay = 0.9};
 *     fv_tensor *loss = fv_reinforce(ctx, &b, log_py, out.log_prob, out.entropy, 1.0, 0.01);
 *     fv_status status = fv_backward(ctx, loss);
 */
typedef struct fv_baseline {
    double decay;     /* b <- decay b + (1 - decay) mean(log p(y|s)) */
    double value;     /* b, 0 at first */
    uint64_t updates; /* so far */
} fv_baseline;

/*
 * A scalar to minimise whose gradient is minus the estimate above, averaged over rows.
 * log_likelihood: log p(y|s), real; log_prob and entropy: of the keys drawn for each row, of the
 * same shape or broadcast to it (sum them first over the draws of one row). Then the baseline is
 * updated with the mean of log_likelihood, which synchronizes with the device. baseline may be NULL
 * (b = 0), and so may entropy.
 */
FV_API fv_tensor *fv_reinforce(fv_ctx *ctx, fv_baseline *baseline, fv_tensor *log_likelihood,
                               fv_tensor *log_prob, fv_tensor *entropy, double lambda,
                               double lambda_entropy);

#ifdef __cplusplus
}
#endif
#endif
