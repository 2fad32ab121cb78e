/*
 * Inside fv_attention_run: the state of one call, and the files that share it.
 *
 *     describe.c  defaults and checks of a description
 *     score.h     what a score is; scores.c has the table of them
 *     map.c       scores and weights of every pair, as tensors
 *     run.c       chooses the path; calls the streamed kernel
 *     local.c     Luong's window around a learned centre
 *     hard.c      one key per query; the estimator of its gradient
 *     simple.c    attention without heads or parameters
 */
#ifndef FV_ATTENTION_ATTENTION_H
#define FV_ATTENTION_ATTENTION_H

#include "attention/score.h"
#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "tensor/tensor.h"

struct fv_attention_call {
    fv_ctx *ctx;
    fv_attention how; /* complete; local-m as a window of the rule */
    const fv_score_kind *score;
    const fv_attention_input *in;
    fv_attention_input wide; /* `in`, if bf16 was cast to f32: on paths that have no bf16 form */
    fv_dtype dtype;
    int64_t batch, heads, kv_heads, n_q, n_k;

    /* Filled by fv_attention_prepare, for the streamed kernel: scores are cap(scale q . k), with w
     * cap(scale w . tanh(q + k)), or already made as a map; then q, k and w are not used. The rule
     * is that of `how` with the scale resolved, and without the cap where the map has it. */
    fv_tensor *q, *k, *w; /* w [heads, d] */
    fv_tensor *map;
    fv_attention_rule rule;
};

/* Copies the description over the defaults and checks it against the inputs. */
fv_status fv_attention_check(fv_attention_call *call, const fv_attention *how);

void fv_attention_prepare(fv_attention_call *call);

/* x [batch, heads, n, in] through w [out, in] or [heads, out, in]. */
fv_tensor *fv_attention_project(fv_ctx *ctx, fv_tensor *x, fv_tensor *w);
/* sum over the last axis of x [batch, heads, ..., d] times w [d] or [heads, d]. */
fv_tensor *fv_attention_weigh(fv_ctx *ctx, fv_tensor *x, fv_tensor *w);
/* cap(scale e_ij / temperature) of every pair, hidden or not. */
fv_tensor *fv_attention_map(fv_attention_call *call);
/* s_ij of every pair, -inf where hidden. */
fv_tensor *fv_attention_scores(fv_attention_call *call);

/* The streamed kernel over the call's scores, with another bias added and another pattern. */
fv_tensor *fv_attention_stream(const fv_attention_call *call, fv_tensor *v, fv_tensor *bias,
                               fv_tensor *visible, double dropout, fv_tensor **lse);

/* 0, 1, 2, ... below n in a real or integer dtype, as [n]. */
fv_tensor *fv_attention_positions(fv_ctx *ctx, fv_dtype dtype, int64_t n);

void fv_attention_local(fv_attention_call *call, fv_attention_result *out);
void fv_attention_hard(fv_attention_call *call, fv_attention_result *out);

/* "streamed", ...; "?" if there is no such path. */
const char *fv_attention_path_name(fv_attention_path path);

#endif
