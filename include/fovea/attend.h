/*
 * fovea/attend.h: the attention family behind one description.
 *
 *     fv_attention how;
 *     fv_attention_init(&how, sizeof how);              // scaled dot, softmax, no mask
 *     how.score = FV_ATTENTION_ADDITIVE;
 *     how.causal = FV_CAUSAL_TOP_LEFT;
 *     fv_attention_input in = {.q = q, .k = k, .v = v, .w = v_a, .w_q = w_q, .w_k = w_k};
 *     fv_attention_result out;
 *     fv_tensor *context = fv_attention_run(ctx, &how, &in, &out);   // [batch, heads, n_q, d_v]
 *
 * What is computed, for query i and key j of one head, over the keys that i may see:
 *
 *     e_ij  the score, by `score`                               (fv_attention_score)
 *     s_ij  = cap(e_ij / temperature) + slope (pos_j - pos_i) + bias_ij
 *     a_ij  the weight, by `normaliser`: softmax_j(s_ij) unless said otherwise
 *     c_i   = sum_j drop(a_ij) v_j
 *
 * All of it is differentiable, but for the choice that hard attention makes (fv_reinforce() is its
 * estimator). Hidden positions are skipped: NaN or infinity in a hidden key or value shows neither
 * in a result nor in a gradient. A query that sees no key gets zeros everywhere, and -inf as
 * log-sum-exp.
 *
 * The description chooses the path; it never depends on values, threads or the batch:
 *     streamed  scores are made inside the kernel of fovea/attention.h, in linear memory (but for
 *               local-p, whose Gaussian is a bias of n_q x n_k)
 *     scored    scores are made as a map by ops (location, the caller's own, vectors wider than
 *               FV_ATTN_MAX_WIDTH), then streamed over; values may have any width
 *     map       scores and weights are made by ops that carry gradients: when they are asked
 *               for, and for hard attention
 * Where no gradient can flow and weights alone are asked for, they are made again from the streamed
 * kernel's log-sum-exp, on its own path (soft and local-m).
 * Asking for scores or weights changes no bit of a soft context. The path is part of the result
 * and is written to the log at level debug.
 */
#ifndef FOVEA_ATTEND_H
#define FOVEA_ATTEND_H

#include "fovea/attention_weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the description -------------------------------------------------------------- */

/* q and k are one query and one key of a head. Parameters with a [heads, ...] axis have one set a
 * head; without it, all heads share. */
typedef enum fv_attention_score {
    FV_ATTENTION_SCALED,   /* q . k / sqrt(d) */
    FV_ATTENTION_DOT,      /* q . k */
    FV_ATTENTION_GENERAL,  /* q^T W k, w = W [d_q, d_k] or [heads, d_q, d_k] */
    FV_ATTENTION_ADDITIVE, /* w . tanh(W_q q + W_k k), w [d] or [heads, d]; w_q [d, d_q] and w_k
                              [d, d_k] (or with heads; key heads for w_k) project, unless NULL */
    FV_ATTENTION_COSINE,   /* strength beta q . k / (|q| |k|); 0, without gradient, for a zero
                              vector; beta as a tensor, or 1 */
    FV_ATTENTION_LOCATION, /* (W q)_j, w = W [n_max, d_q] or [heads, n_max, d_q], cut to the keys
                              there are; k is not read and may be NULL */
    FV_ATTENTION_CALLER,   /* score_fn */
    FV_ATTENTION_SCORE_COUNT
} fv_attention_score;

typedef enum fv_attention_normaliser {
    FV_ATTENTION_SOFTMAX,
    /* One key a query: drawn with the softmax's probabilities, keyed by (seed, step, site, row); or
     * the likeliest, the first of equals. The context is that key's value, bit for bit. */
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
 * The caller's own score: makes [batch, heads, n_q, n_k] from q and k by ordinary ops, so gradients
 * need nothing else. What it gives for hidden positions does not show in the context; NaN there may
 * show in gradients, since how k was used is the caller's business.
 */
typedef fv_tensor *(*fv_score_fn)(fv_ctx *ctx, void *user, fv_tensor *q, fv_tensor *k);

/* What is to be seen of the weights. Made again from the log-sum-exp beside the streamed kernel,
 * without gradient, for soft and local-m attention; the sizes are those of attention_weights.h. */
typedef struct fv_attention_look {
    bool weights; /* the whole map */
    int64_t top;  /* the largest of each row; 0: none */
    bool summary; /* entropy, distance, what each key receives */
    bool view; /* what the weights are made of, to ask for parts of them: see fv_attention_view */
} fv_attention_look;

/*
 * What the weights are made of: whoever has it can ask for them part by part, where the whole map
 * would be too large, with the same bits. Lives as long as the tensors that were seen.
 *
 *     fv_tensor *band = fv_attention_part(ctx, &seen->view, &part);   // as fv_attend_weights_part
 */
typedef struct fv_attention_view {
    fv_tensor *q, *k, *lse;
    fv_attend_config cfg;
    fv_attend_extra extra; /* q_begin and k_begin of packed documents, too */
    int64_t heads, n_q, n_k;
} fv_attention_view;

FV_API fv_tensor *fv_attention_part(fv_ctx *ctx, const fv_attention_view *view,
                                    const fv_attend_part *part);

/* What was seen; NULL where nothing was asked for. */
typedef struct fv_attention_seen {
    fv_tensor *weights;                 /* [batch, heads, n_q, n_k] */
    fv_tensor *top_weights, *top_index; /* [batch, heads, n_q, top] */
    fv_attend_summary summary;
    fv_attention_view view; /* lse is NULL where it was not asked for */
} fv_attention_seen;

/* Numbers only. */
typedef struct fv_attention {
    size_t struct_size;
    fv_attention_score score;           /* [scaled] */
    fv_attention_normaliser normaliser; /* [softmax] */
    double temperature;                 /* > 0 [1] */
    double strength;                    /* the cosine's beta as a number, != 0 [1] */
    double soft_cap;                    /* c tanh(x/c); 0: none [0] */
    double half_width;                  /* D of the local windows, > 0 (m: rounded down) [0] */
    fv_causal causal;                   /* [none] */
    int64_t left, right;                /* a window of positions; -1: no bound [-1, -1] */
    int64_t prefix, q_offset;           /* as in fv_attn [0, 0] */
    int64_t block_q, block_k;           /* sizes of the blocks in `blocks`, as in fv_attn [0, 0] */
    double dropout;                     /* of the weights; not for hard attention [0] */
    bool want_scores, want_weights;     /* [false, false] */
    fv_attention_look look;             /* [nothing] */
    fv_score_fn score_fn;
    void *score_user;
} fv_attention;

/* The defaults in brackets. */
FV_API void fv_attention_init(fv_attention *how, size_t struct_size);

/* ---- tensors ---------------------------------------------------------------------- */

/* q [batch, heads, n_q, d_q], k [batch, kv_heads, n_k, d_k], v [batch, kv_heads, n_k, d_v]; head h
 * reads key head h / (heads / kv_heads). f32 or f64; bf16 and f16 for plain products, softmax or
 * local-m, without maps (bias and slopes are f32 then). The rest may be NULL where the description
 * allows it. */
typedef struct fv_attention_input {
    fv_tensor *q, *k, *v;
    fv_tensor *w, *w_q, *w_k; /* of the score; get gradients */
    fv_tensor *beta;          /* cosine: broadcasts to [batch, heads, n_q, 1]; gets a gradient */
    fv_tensor *temperature;   /* one element, or [heads]: a learned one, times the number */
    fv_tensor *w_p, *v_p;     /* local-p: [d_p, d_q] and [d_p], or with heads */
    fv_tensor *centre;        /* local-p: p_i itself, broadcasts to [batch, heads, n_q] */
    fv_tensor *bias;          /* broadcasts to [batch, heads, n_q, n_k]; gets a gradient */
    fv_tensor *visible;       /* u8, likewise: 0 hides */
    fv_tensor *blocks;        /* u8, broadcasts to [batch, heads, blocks of q, of k]: 0 hides */
    fv_tensor *n_keys;        /* i64 [batch]: keys from this on are hidden */
    fv_tensor *slopes;        /* [heads]: linear position bias; no gradient */
    /* i64 [documents + 1]: documents packed in one row of batch 1, see fv_attend_extra. Soft and
     * local-m attention without maps, of scores that are streamed. */
    fv_tensor *q_begin, *k_begin;
} fv_attention_input;

typedef enum fv_attention_path {
    FV_ATTENTION_STREAMED,
    FV_ATTENTION_SCORED,
    FV_ATTENTION_MAP,
    FV_ATTENTION_PATH_COUNT
} fv_attention_path;

FV_API const char *fv_attention_path_name(fv_attention_path path); /* "streamed", ... */

/* NULL where the description makes none. All are differentiable but `choice`. */
typedef struct fv_attention_result {
    fv_attention_path path;
    fv_tensor *context;  /* [batch, heads, n_q, d_v] */
    fv_tensor *scores;   /* s_ij, -inf where hidden [batch, heads, n_q, n_k], if wanted */
    fv_tensor *weights;  /* a_ij before dropout, likewise; hard: the probabilities */
    fv_tensor *lse;      /* ln sum_j exp(s_ij) [batch, heads, n_q]; not hard */
    fv_tensor *choice;   /* hard: the key, i64 [batch, heads, n_q]; 0 where there is none */
    fv_tensor *log_prob; /* hard: ln of its probability */
    fv_tensor *entropy;  /* hard: of the probabilities, in nats */
    fv_tensor *centre;   /* local-p: p_i [batch, heads, n_q] */
    fv_attention_seen seen;
} fv_attention_result;

/* Returns the context; how (the defaults) and result may be NULL. Poisons: ARGUMENT (a setting out
 * of range, a tensor that the description needs and that is not there), SHAPE, DTYPE. */
FV_API fv_tensor *fv_attention_run(fv_ctx *ctx, const fv_attention *how,
                                   const fv_attention_input *in, fv_attention_result *result);

/* ---- without heads or parameters ---------------------------------------------------- */

/*
 * A soft dictionary: each query is answered by the values, blended by how well their keys match.
 *     y_i = sum_j softmax_j(q_i . k_j / temperature) v_j
 * queries [n_q, d], keys [n, d], values [n, d_v], or all with a batch in front -> [n_q, d_v]. As
 * the temperature falls, it becomes a dictionary that returns one value. *weights [n_q, n] unless
 * NULL.
 */
FV_API fv_tensor *fv_attention_lookup(fv_ctx *ctx, fv_tensor *queries, fv_tensor *keys,
                                      fv_tensor *values, double temperature, fv_tensor **weights);
/* Basic self-attention: y_i = sum_j softmax_j(x_i . x_j) x_j. x [n, d] or [batch, n, d]. */
FV_API fv_tensor *fv_attention_basic(fv_ctx *ctx, fv_tensor *x, fv_tensor **weights);

/* ---- training hard attention ------------------------------------------------------- */

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
 *     status = fv_backward(ctx, loss);
 */
typedef struct fv_baseline {
    double decay;  /* b <- decay b + (1 - decay) mean(log p(y|s)) */
    double value;  /* b, 0 at first */
    uint64_t seen; /* updates so far */
} fv_baseline;

/*
 * A scalar to minimise whose gradient is minus the estimate above, averaged over rows.
 * log_likelihood: log p(y|s), real; log_prob and entropy: of what was drawn for each row of it, of
 * the same shape or broadcast to it (sum them first over what one row drew). Then the baseline
 * takes in the mean of log_likelihood, which waits for the device. baseline may be NULL (b = 0),
 * and so may entropy.
 */
FV_API fv_tensor *fv_reinforce(fv_ctx *ctx, fv_baseline *baseline, fv_tensor *log_likelihood,
                               fv_tensor *log_prob, fv_tensor *entropy, double lambda,
                               double lambda_entropy);

#ifdef __cplusplus
}
#endif
#endif
