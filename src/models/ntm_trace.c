/*
 * What the heads of a Neural Turing Machine did, for pictures. Sites of one sequence of T steps:
 *
 *     read.0, write.0 ...    weights over slots              [1, 1, T, N]
 *     read.0.gate            how much comes from content     [1, 1, T, 1]
 *     read.0.shift           weights of the offsets, or the lower bound    [1, 1, T, S]
 *     read.0.strength, read.0.sharpness                      [1, 1, T, 1]
 *     memory                 before each step's write        [1, T, W, N]
 */
#include <stdio.h>

#include "models/ntm.h"

fv_status fv_ntm_trace_make(fv_ctx *ctx, int64_t steps, fv_ntm_trace *out)
{
    *out = (fv_ntm_trace){.steps = steps};
    out->params = fv_mem_zalloc(&ctx->mem, (size_t)(3 * steps) * sizeof *out->params);
    FV_RETURN_IF(!out->params, ctx, FV_ERR_MEMORY, "no memory for %lld steps", (long long)steps);
    out->weights = out->params + steps;
    out->memory = out->weights + steps;
    return FV_OK;
}

void fv_ntm_trace_free(fv_ctx *ctx, fv_ntm_trace *trace)
{
    if (trace->params)
        fv_mem_free(&ctx->mem, trace->params, (size_t)(3 * trace->steps) * sizeof *trace->params);
}

void fv_ntm_site_name(const fv_ntm *m, int64_t h, const char *what, char *out, size_t bytes)
{
    const bool reads = h < m->heads.readers;
    snprintf(out, bytes, "%s.%lld%s%s", reads ? "read" : "write",
             (long long)(reads ? h : h - m->heads.readers), *what ? "." : "", what);
}

/* x [T, count] to a site. */
static void give(fv_ctx *ctx, const fv_ntm *m, const fv_pass *pass, int64_t h, const char *what,
                 fv_tensor *x)
{
    char site[48];
    fv_ntm_site_name(m, h, what, site, sizeof site);
    if (fv_capture_wants(pass->capture, site))
        fv_capture_give(ctx, pass, site, fv_unsqueeze(ctx, fv_unsqueeze(ctx, x, 0), 0));
}

void fv_ntm_trace_give(fv_ctx *ctx, const fv_ntm *m, const fv_ntm_trace *trace, const fv_pass *pass)
{
    const int steps = (int)trace->steps;
    const int64_t w = m->width, shifts = m->heads.shifts > 0 ? m->heads.shifts : 1;
    fv_tensor *weights = fv_concat(ctx, steps, trace->weights, 0); /* [T, heads, N] */
    fv_tensor *params = fv_concat(ctx, steps, trace->params, 0);
    for (int64_t h = 0; h < m->heads.readers + m->heads.writers; h++) {
        const int64_t at = h * (w + 3 + shifts) + w, end = at + 2 + shifts;
        fv_tensor *shift = fv_slice(ctx, params, 1, at + 2, end, 1);
        if (m->heads.shifts > 0) shift = fv_softmax(ctx, shift, -1);
        give(ctx, m, pass, h, "", fv_squeeze(ctx, fv_slice(ctx, weights, 1, h, h + 1, 1), 1));
        give(ctx, m, pass, h, "strength",
             fv_softplus(ctx, fv_slice(ctx, params, 1, at, at + 1, 1)));
        give(ctx, m, pass, h, "gate", fv_sigmoid(ctx, fv_slice(ctx, params, 1, at + 1, at + 2, 1)));
        give(ctx, m, pass, h, "shift", shift);
        fv_tensor *sharp = fv_softplus(ctx, fv_slice(ctx, params, 1, end, end + 1, 1));
        give(ctx, m, pass, h, "sharpness", fv_add(ctx, sharp, fv_full(ctx, FV_F32, 0, NULL, 1)));
    }
    if (fv_capture_wants(pass->capture, "memory"))
        fv_capture_give(ctx, pass, "memory",
                        fv_unsqueeze(ctx, fv_concat(ctx, steps, trace->memory, 0), 0));
}
