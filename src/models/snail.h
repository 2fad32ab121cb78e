/*
 * SNAIL (Mishra, Rohaninejad, Chen, Abbeel 2018): causal convolutions that carry information from
 * step to step, alternating with causal attention that finds single steps. For x_1 .. x_T:
 *
 *     dense block    f_t = W_f x_t + V_f x_{t-d} + b_f,   g_t likewise;   x_s = 0 for s < 1
 *                    y_t = [x_t ; tanh(f_t) * sigmoid(g_t)]
 *     TC block       dense blocks with d = 1, 2, 4, ...; ceil(log2 T) of them, at least one, so
 *                    that the last step sees the first
 *     attention      a_ts = softmax over s <= t of (W_q x_t) . (W_k x_s) / sqrt(keys)
 *                    y_t = [x_t ; sum_s a_ts W_v x_s]
 *
 * Every block appends its result to its input, so all of them read the input of the stack.
 *
 *     fv_snail_config cfg = {.inputs = 7, .steps = 100, .stage_count = 2};
 *     cfg.stage[0] = (fv_snail_stage){.filters = 32};                  // TC block
 *     cfg.stage[1] = (fv_snail_stage){.keys = 32, .values = 32};       // attention
 *     fv_snail snail;
 *     s = fv_snail_create(params, "snail", &cfg, &snail);
 *     fv_tensor *y = fv_snail_run(ctx, &snail, x, NULL);  // x [rows, n, 7], n <= 100
 *                                                         // y [rows, n, snail.outputs]
 *
 * The same step by step, for what is seen only after the answer before. Convolutions have the same
 * bits then; attention sums in another order, so that its last bits may differ:
 *
 *     fv_snail_state state;
 *     fv_snail_begin(ctx, &snail, rows, &state);          // its tensors are in this scope
 *     fv_tensor *y = fv_snail_step(ctx, &snail, &state, x_1);          // x_1 [rows, 7]
 *     y = fv_snail_step(ctx, &snail, &state, x_2);
 *
 * A step costs as much in convolutions wherever it is, and t products in attention.
 *
 * fv_status calls fail with ARGUMENT (settings), SHAPE (a parameter of another shape) or MEMORY;
 * calls that return tensors set the context's sticky error.
 */
#ifndef FV_MODELS_SNAIL_H
#define FV_MODELS_SNAIL_H

#include "fovea/batch.h"
#include "fovea/layers.h"

enum { FV_SNAIL_STAGES = 12, FV_SNAIL_MAX_STEPS = 4096, FV_SNAIL_MAX_DENSE = 12 };

/* A TC block, or attention if filters is 0. */
typedef struct fv_snail_stage {
    int64_t filters;      /* that each dense block appends */
    int64_t keys, values; /* width of queries and keys; of what attention appends */
} fv_snail_stage;

typedef struct fv_snail_config {
    int64_t inputs;
    int64_t steps; /* of the longest sequence, 1 to FV_SNAIL_MAX_STEPS */
    int stage_count;
    fv_snail_stage stage[FV_SNAIL_STAGES];
} fv_snail_config;

typedef struct fv_snail_dense {
    /* [4 filters, in]: rows for tanh and sigmoid of x_t, then of x_{t-d}. */
    fv_tensor *weight;
    fv_tensor *bias; /* [2 filters] */
} fv_snail_dense;

typedef struct fv_snail {
    fv_snail_config cfg;
    int dense_count;     /* of each TC block */
    int attention_count; /* stages that attend */
    int64_t outputs;     /* width of the result */
    struct {
        fv_snail_dense dense[FV_SNAIL_MAX_DENSE];
        fv_dense query, key, value;
    } part[FV_SNAIL_STAGES];
} fv_snail;

/* Parameters "prefix.0.dense.0.weight", "prefix.1.query.weight", ... by number of the stage. */
fv_status fv_snail_create(fv_params *params, const char *prefix, const fv_snail_config *cfg,
                          fv_snail *out);

/* Reads "tc 32, tc 32, attention 32 16": filters of TC blocks, keys and values of attention; sets
 * stage and stage_count. Fails: ARGUMENT (the message quotes the text). */
fv_status fv_snail_read_stages(fv_ctx *ctx, const char *text, fv_snail_config *cfg);

/*
 * x [rows, n, inputs] -> [rows, n, outputs]. Capture sites (pass may be NULL): attention.0,
 * attention.1, ..., maps [rows, 1, n, n].
 */
fv_tensor *fv_snail_run(fv_ctx *ctx, const fv_snail *snail, fv_tensor *x, const fv_pass *pass);

/* The sites of fv_snail_run for fv_model_kind's attention_sites. */
int fv_snail_sites(const fv_snail *snail, fv_site *out, int capacity);

/* What later steps need of earlier ones. */
typedef struct fv_snail_state {
    int64_t rows, steps; /* so far */
    /* Of a dense block: V x of the last d steps, [d, rows, 2 filters], step t at t mod d. */
    fv_tensor *delayed[FV_SNAIL_STAGES][FV_SNAIL_MAX_DENSE];
    fv_tensor *keys[FV_SNAIL_STAGES], *values[FV_SNAIL_STAGES]; /* [rows, 1, cfg.steps, width] */
} fv_snail_state;

/* Sequences before their first step. Its tensors belong to the innermost scope. */
void fv_snail_begin(fv_ctx *ctx, const fv_snail *snail, int64_t rows, fv_snail_state *out);
/* The next step of every row: x [rows, inputs] -> [rows, outputs]. Nothing is recorded for
 * backward. Errors: ARGUMENT (more than cfg.steps). */
fv_tensor *fv_snail_step(fv_ctx *ctx, const fv_snail *snail, fv_snail_state *state, fv_tensor *x);

#endif
