/*
 * fovea/decode.h: from a model that predicts the next token to whole outputs: greedy, sampling,
 * beam search.
 *
 *     fv_decode_config cfg;
 *     fv_decode_config_init(&cfg, sizeof cfg);
 *     cfg.beam = 5;
 *     cfg.length_alpha = 0.6;
 *     fv_outputs *out = NULL;
 *     s = fv_decode(ctx, &stepper, sources, most_tokens, &cfg, &out);
 *     for (int64_t i = 0; s == FV_OK && i < sources; i++) {
 *         const fv_output *best = fv_outputs_get(out, i, 0);
 *         show(best->tokens, best->count, best->score);
 *     }
 *     fv_outputs_free(&out);
 *
 * A hypothesis y of a source x with |y| tokens, the end token among them, is scored
 *
 *     log p(y|x) / ((5 + |y|) / 6)^alpha + beta sum_i log min(sum_t a_ti, 1)
 *
 * where a_ti is what step t gave to source position i: alpha favours longer outputs, beta those
 * that look at every source position. The search keeps the `beam` likeliest prefixes and ends when
 * no prefix can overtake the `nbest` outputs it has. What comes out for a source does not depend
 * on which others are decoded beside it.
 *
 * With `as_transformers` the search makes the choices of Hugging Face transformers, where they
 * differ: the score is log p(y|x) / |y|^alpha; as many outputs are collected as the beam is wide;
 * the search ends when the likeliest prefix, scored as it stands, is no better than the worst of
 * them (or, with `early_stopping`, as soon as they are that many); prefixes cut off at the most
 * tokens allowed compete like outputs that ended.
 */
#ifndef FOVEA_DECODE_H
#define FOVEA_DECODE_H

#include "fovea/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The model's side. Rows are hypotheses; the stepper keeps their state (cells, caches) as it
 * likes, in tensors that outlive the scope of one call.
 */
typedef struct fv_stepper {
    void *user;
    int64_t vocabulary, start; /* tokens: how many, the one fed first */
    int64_t end;               /* the one that ends; -1: none does */
    const int64_t *starts; /* [sources]: the one fed first of each, where they differ; or NULL */
    /* Begins with one row for each source. */
    fv_status (*begin)(void *user, int64_t sources);
    /* Feeds each row's last token (i64 [rows]) and returns the next one's logits, real
     * [rows, vocabulary]. *weights, where the model has them: attention [rows, source positions],
     * 0 past a source's end; else NULL. `weights` itself is NULL where nobody wants them. */
    fv_tensor *(*step)(void *user, fv_ctx *ctx, fv_tensor *tokens, fv_tensor **weights);
    /* From now on there are `rows` rows; row i goes on from what row from[i] was. */
    fv_status (*select)(void *user, int64_t rows, const int64_t *from);
    /* Like step, but returns the next tokens themselves, i64 [rows]: the first of the likeliest,
     * exactly. For models that find it without every logit; NULL: taken from step's. */
    fv_tensor *(*best)(void *user, fv_ctx *ctx, fv_tensor *tokens, fv_tensor **weights);
} fv_stepper;

typedef struct fv_decode_config {
    size_t struct_size;
    int beam;             /* prefixes kept; 1: greedy [1] */
    int nbest;            /* outputs a source, at most `beam` unless sampling [1] */
    double length_alpha;  /* [0] */
    double coverage_beta; /* [0] */
    int64_t least_tokens; /* before the end token may come [0] */
    int64_t least_length; /* the same, those of `before` counted too [0] */
    int64_t no_repeat;    /* no run of so many tokens comes twice, `before` counted; 0: any [0] */
    bool want_weights;    /* keep attention for each output token [false] */
    bool no_scores;       /* greedy: score and log_prob may be NaN, which is faster [false] */
    bool as_transformers, early_stopping; /* see above [false, false] */
    /* Further tokens that end an output, or NULL. */
    const int64_t *more_ends;
    int more_end_count;
    /* The first token of every output, and the last one where it would be cut off; -1: any. */
    int64_t forced_first, forced_last; /* [-1, -1] */
    /* Words that never come, their tokens one behind another: a word's last token is banned
     * wherever its others were just said, by the output or at the end of `before`. */
    const int64_t *banned;
    const int *banned_lengths; /* [banned_count] tokens each; NULL: one each */
    int banned_count;          /* words; 0: any may come [0] */
    bool renormalize;          /* beam search: what all this leaves has sum 1 again [false] */
    /* The logit (beam search: the log-probability) of a token that is in the output already, or in
     * `before`, is divided by this if it is positive, else multiplied. [1] */
    double repetition_penalty;
    const int64_t *const *before; /* [sources] lists of tokens, prompts mostly; or NULL */
    const int64_t *before_count;
    /* Greedy and sampling: hears of every token as it is chosen, the end token too, of source
     * `source`'s output number `copy`. False: this output is done with it, as if cut off. */
    bool (*heard)(void *user, int64_t source, int copy, int64_t token);
    void *heard_user;
    /* Sampling instead of searching: from softmax(logits / temperature) cut to the `top_k`
     * likeliest tokens (0: all), then to the smallest set with mass top_p, then to tokens with at
     * least min_p of the likeliest one's probability. nbest independent outputs a source. */
    bool sample;          /* [false] */
    double temperature;   /* > 0 [1] */
    int64_t top_k;        /* [0] */
    double top_p, min_p;  /* [1, 0] */
    uint64_t seed;        /* draws depend on it, the source's number, the output's and the place */
    int64_t first_source; /* number of the first source, for the same draws in any batch [0] */
} fv_decode_config;

FV_API void fv_decode_config_init(fv_decode_config *cfg, size_t struct_size);

typedef struct fv_output {
    const int64_t *tokens; /* without the end token */
    int64_t count;
    bool ended;           /* false: cut off at the most tokens allowed */
    double score;         /* by the formula above */
    double log_prob;      /* of tokens and end */
    const float *weights; /* [count (+ 1 if ended)][positions], or NULL */
    int64_t positions;
} fv_output;

typedef struct fv_outputs fv_outputs;

/*
 * most_tokens[i] bounds the tokens of source i (the end token does not count). Ops run without
 * recording. Fails: ARGUMENT, MEMORY, CANCELLED, and whatever the stepper fails with.
 */
FV_API FV_MUST_USE fv_status fv_decode(fv_ctx *ctx, const fv_stepper *stepper, int64_t sources,
                                       const int64_t *most_tokens, const fv_decode_config *cfg,
                                       fv_outputs **out);
/* Before the context. NULL is fine; *outputs becomes NULL. */
FV_API void fv_outputs_free(fv_outputs **outputs);
/* The n-th best of a source, or NULL if there are not so many. Owned by `outputs`. */
FV_API const fv_output *fv_outputs_get(const fv_outputs *outputs, int64_t source, int n);

#ifdef __cplusplus
}
#endif
#endif
