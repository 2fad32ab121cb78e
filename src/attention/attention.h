/*
 * Inside fv_attention_run: one call on its way, and the parts that share it.
 *
 *     describe.c  defaults and checks of a description
 *     scores.c    what each kind of score becomes: input of the streamed kernel, or a map
 *     map.c       scores and weights of every pair, as tensors
 *     run.c       the choice of the path; the streamed kernel
 *     local.c     Luong's window with a centre that is learned
 *     hard.c      one key a query; the estimator of its gradient
 *     simple.c    attention without heads or parameters
 *     host.c      tables of numbers made on the host
 */
#ifndef FV_ATTENTION_ATTENTION_H
#define FV_ATTENTION_ATTENTION_H

#include "fovea/attend.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "tensor/tensor.h"

typedef struct fv_attention_call {
    fv_ctx *ctx;
    fv_attention how; /* complete, local-m turned into a window */
    const fv_attention_input *in;
    fv_dtype dtype;
    int64_t batch, heads, kv_heads, n_q, n_k;

    /* The score as fv_attention_prepare left it, for the streamed kernel: cap(scale q . k), with w
     * cap(scale w . tanh(q + k)), or all of that as a map; then the others stand for nothing. */
    fv_tensor *q, *k, *w; /* w [heads, d] */
    double scale;
    fv_tensor *map;
} fv_attention_call;

/* Copies the description over defaults and looks for what is missing or does not fit. */
fv_status fv_attention_check(fv_attention_call *call, const fv_attention *how);

/* Fills q, k, map and scale. */
void fv_attention_prepare(fv_attention_call *call);

/* x [batch, heads, n, in] through w [out, in] or [heads, out, in]. */
fv_tensor *fv_attention_project(fv_ctx *ctx, fv_tensor *x, fv_tensor *w);
/* sum over the last axis of x [batch, heads, ..., d] times w [d] or [heads, d]. */
fv_tensor *fv_attention_weigh(fv_ctx *ctx, fv_tensor *x, fv_tensor *w);
/* cap(e_ij / temperature) of every pair, hidden or not. */
fv_tensor *fv_attention_map(fv_attention_call *call);
/* s_ij of every pair, -inf where hidden. */
fv_tensor *fv_attention_scores(fv_attention_call *call);

/* The streamed kernel over the call's scores; more of a bias and another pattern on request. */
fv_tensor *fv_attention_stream(const fv_attention_call *call, fv_tensor *v, fv_tensor *bias,
                               fv_tensor *visible, double dropout, fv_tensor **lse);

/* 0, 1, 2, ... below n in a real or integer dtype, as [n]. */
fv_tensor *fv_attention_positions(fv_ctx *ctx, fv_dtype dtype, int64_t n);

void fv_attention_local(fv_attention_call *call, fv_attention_result *out);
void fv_attention_hard(fv_attention_call *call, fv_attention_result *out);

#endif
