/*
 * fovea/search.h: whole outputs from a model that predicts the next token: greedy, sampling, beam
 * search.
 *
 *     fv_search_config cfg;
 *     fv_search_config_init(&cfg, sizeof cfg);
 *     cfg.beam = 5;
 *     cfg.length_alpha = 0.6;
 *     fv_outputs *out = NULL;
 *     s = fv_search(ctx, &stepper, sources, max_tokens, &cfg, &out);
 *     for (int64_t i = 0; s == FV_OK && i < sources; i++) {
 *         const fv_output *best = fv_outputs_get(out, i, 0);
 *         show(best->tokens, best->count, best->score);
 *     }
 *     fv_outputs_free(&out);
 *
 * A hypothesis y of a source x with |y| tokens, the end token included, is scored
 *
 *     log p(y|x) / ((5 + |y|) / 6)^alpha + beta sum_i log min(sum_t a_ti, 1)
 *
 * where a_ti is the attention of step t to source position i: alpha favours longer outputs, beta
 * those that attend to every source position. The search keeps the `beam` most likely prefixes and
 * ends when no prefix can overtake the `nbest` outputs it has. The outputs of a source do not
 * depend on the other sources in the batch.
 *
 * With `as_transformers` the search follows Hugging Face transformers where the two differ: the
 * score is log p(y|x) / |y|^alpha; `beam` outputs are collected; the search ends when the score of
 * the most likely prefix is no better than the worst of them (or, with `early_stopping`, as soon as
 * there are that many); prefixes cut off at max_tokens compete with outputs that ended.
 *
 * A step is read once from the device: greedy search reads the chosen tokens, beam search the
 * beam + 1 most likely continuations of a prefix, sampling the top_k (or 1024) largest logits. All
 * scores of a step are read only where a setting changes them (bans, penalties, minimum lengths,
 * forced tokens, renormalize), and for a draw beyond the 1024 most likely tokens.
 */
#ifndef FOVEA_SEARCH_H
#define FOVEA_SEARCH_H

#include "fovea/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What a step returns. A token is one of a row's choices: a word of a vocabulary, or, for a model
 * that points at its inputs, an input; rows may then differ in how many choices they have. Invalid
 * choices are never part of an output, whatever the settings force, and probabilities are
 * normalised over the valid ones. A row must have a valid choice.
 */
typedef struct fv_step_output {
    fv_tensor *logits;  /* real [rows, max_choices] */
    fv_tensor *weights; /* attention [rows, source positions], 0 past a source's end; or NULL */
    fv_tensor *choices; /* i64 [rows]: the choices of row r are 0 .. choices[r] - 1; NULL: all */
    fv_tensor *mask;    /* u8, i32 or i64 [rows, max_choices]: 0 where a choice is invalid; NULL */
    fv_tensor *best;    /* of fv_stepper.best: i64 [rows], the chosen tokens */
    const int64_t *best_on_host; /* the same, where the model has read them anyway; or NULL */
} fv_step_output;

/*
 * The model's side. Rows are hypotheses; the stepper keeps their state (cells, caches) in tensors
 * that outlive the scope of one call.
 */
typedef struct fv_stepper {
    void *user;
    int64_t max_choices; /* logits in a row: the vocabulary, or the largest number of inputs */
    int64_t bos;         /* the token fed first */
    int64_t eos;         /* the token that ends an output; -1: none does */
    const int64_t *first_tokens; /* [sources]: the token fed first, where they differ; or NULL */
    /* Begins with one row for each source. */
    fv_status (*begin)(void *user, int64_t sources);
    /* Feeds each row's last token (i64 [rows]) and fills *out, which is all NULL before. Attention
     * weights are needed only with want_weights. */
    fv_status (*step)(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out);
    /* From now on there are `rows` rows; row i continues from the previous row from[i]. */
    fv_status (*select)(void *user, int64_t rows, const int64_t *from);
    /* Like step, but fills out->best: the first of the most likely valid choices, exactly. For
     * models that can find it without all logits. NULL: the search uses step. */
    fv_status (*best)(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out);
    /* Called before step and best with the same tokens on the host, for models that keep a list of
     * them: reading the tensor would wait for the device. May be NULL. */
    void (*feed)(void *user, int64_t rows, const int64_t *tokens);
} fv_stepper;

typedef struct fv_search_config {
    size_t struct_size;
    int beam;                /* prefixes kept; 1: greedy [1] */
    int nbest;               /* outputs per source, at most `beam` unless sampling [1] */
    double length_alpha;     /* [0] */
    double coverage_beta;    /* [0] */
    int64_t min_tokens;      /* before an end token may come [0] */
    int64_t min_length;      /* the same, tokens of the prompt included [0] */
    int64_t no_repeat_ngram; /* no n-gram of this length comes twice, prompt included; 0: off [0] */
    bool want_weights;       /* keep attention for each output token [false] */
    bool no_scores;          /* greedy: score and log_prob may be NaN, which is faster [false] */
    bool as_transformers, early_stopping; /* see above [false, false] */
    /* Further tokens that end an output, or NULL. */
    const int64_t *extra_eos;
    int extra_eos_count;
    /* The first token of every output, and the last one where it would be cut off; -1: any. A
     * forced token that is not a valid choice of a row is not forced there. */
    int64_t forced_first, forced_last; /* [-1, -1] */
    /* Banned words, their tokens one after another: a word's last token is banned directly after
     * its other tokens, which may be the end of the prompt. */
    const int64_t *banned;
    const int *banned_lengths; /* [banned_count] tokens each; NULL: one each */
    int banned_count;          /* words [0] */
    bool renormalize; /* beam search: log-probabilities are normalised again after all this [false]
                       */
    /* The logit (beam search: the log-probability) of a token that is in the output or the prompt
     * already is divided by this if it is positive, else multiplied. [1] */
    double repetition_penalty;
    const int64_t *const *prompts; /* [sources]: tokens before the output; or NULL */
    const int64_t *prompt_lengths;
    /* Greedy and sampling: called with every token as it is chosen, end tokens included, for output
     * number `sample` of a source (0 when greedy). Returning false ends that output, as if cut off.
     */
    bool (*on_token)(void *user, int64_t source, int sample, int64_t token);
    void *on_token_user;
    /* Sampling instead of searching: from softmax(logits / temperature) cut to the `top_k` most
     * likely tokens (0: all), then to the smallest set with mass top_p, then to tokens with at
     * least min_p of the most likely one's probability. nbest independent outputs per source. */
    bool sample;          /* [false] */
    double temperature;   /* > 0 [1] */
    int64_t top_k;        /* [0] */
    double top_p, min_p;  /* [1, 0] */
    uint64_t seed;        /* draws depend on it, the source's number, the output's and the step */
    int64_t first_source; /* number of the first source, for the same draws in any batch [0] */
    uint64_t reserved[8]; /* zero; new settings take their place here (docs/architecture.md) */
} fv_search_config;

FV_API void fv_search_config_init(fv_search_config *cfg, size_t struct_size);

typedef struct fv_output {
    const int64_t *tokens; /* without the end token */
    int64_t count;
    bool ended;           /* false: cut off at max_tokens */
    double score;         /* by the formula above */
    double log_prob;      /* of tokens and end */
    const float *weights; /* [count (+ 1 if ended)][positions], or NULL */
    int64_t positions;
} fv_output;

typedef struct fv_outputs fv_outputs;

/*
 * max_tokens[i] bounds the steps of source i, whichever search runs: its tokens, the end token
 * included, as max_new_tokens of transformers does. Ops run without
 * recording. Fails: ARGUMENT, SHAPE (logits of another shape), STATE (a row without a valid
 * choice), MEMORY, CANCELLED, and whatever the stepper fails with.
 */
FV_API FV_MUST_USE fv_status fv_search(fv_ctx *ctx, const fv_stepper *stepper, int64_t sources,
                                       const int64_t *max_tokens, const fv_search_config *cfg,
                                       fv_outputs **out);
/* Before the context. NULL is fine; *outputs becomes NULL. */
FV_API void fv_outputs_free(fv_outputs **outputs);
/* The n-th best of a source, or NULL if there are fewer. Owned by `outputs`. */
FV_API const fv_output *fv_outputs_get(const fv_outputs *outputs, int64_t source, int n);

#ifdef __cplusplus
}
#endif
#endif
