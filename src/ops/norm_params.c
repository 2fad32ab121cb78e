#include "ops/norm_params.h"

#include "kernels/rows.h"
#include "ops/rows.h"

fv_status fv_norm_infer(fv_op_run *run)
{
    const fv_norm_params *params = run->params;
    FV_TRY(fv_need_same_real(run));
    FV_TRY(fv_need_rank(run, 0, 1, FV_MAX_RANK));
    if (!(params->eps >= 0.0))
        return fv_op_error(run, FV_ERR_ARGUMENT, "eps is %g, expected >= 0", params->eps);
    const fv_tensor *x = run->in[0];
    for (int i = 1; i < run->n_in; i++) {
        const fv_tensor *t = run->in[i];
        if (t && (t->rank != 1 || t->shape[0] != x->shape[x->rank - 1]))
            return fv_op_mismatch(run, 0, i,
                                  "do not match: scale and shift need one entry for each "
                                  "element of the last axis");
    }
    fv_spec_like(run, 0, 0);
    return FV_OK;
}

/* Where one parameter's gradient goes. */
typedef struct target {
    int input;
    bool accumulate;
    fv_tensor *tensor; /* NULL: it needs none */
} target;

static target target_of(fv_op_back *back, int input)
{
    target t = {.input = input};
    if (input >= 0 && fv_back_wants(back, input))
        t.tensor = fv_back_dest(back, input, &t.accumulate);
    return t;
}

static void launch(fv_op_back *back, const target *gamma, const target *beta, void *const tail[4],
                   fv_norm_args args)
{
    if (!gamma->tensor && !beta->tensor) return;
    args.accumulate = gamma->tensor ? gamma->accumulate : beta->accumulate;
    void *const ptr[6] = {gamma->tensor ? gamma->tensor->data : NULL,
                          beta->tensor ? beta->tensor->data : NULL,
                          tail[0],
                          tail[1],
                          tail[2],
                          tail[3]};
    fv_launch(back->ctx, FV_KERNEL_NORM_PARAM_GRAD, back->saved[0]->dtype, ptr, &args, sizeof args);
}

void fv_norm_send_params(fv_op_back *back, int beta_input, fv_tensor *g, fv_tensor *x,
                         fv_tensor *mean, fv_tensor *rstd)
{
    const target gamma = target_of(back, 1), beta = target_of(back, beta_input),
                 none = {.input = -1};
    if (back->ctx->error != FV_OK) return;
    const fv_norm_args args = {.rows = fv_row_count(x), .cols = x->shape[x->rank - 1]};
    void *const tail[4] = {g->data, x->data, mean ? mean->data : NULL, rstd->data};
    if (gamma.tensor && beta.tensor && gamma.accumulate != beta.accumulate) {
        launch(back, &gamma, &none, tail, args);
        launch(back, &none, &beta, tail, args);
    } else {
        launch(back, &gamma, &beta, tail, args);
    }
    if (gamma.tensor) fv_back_commit(back, gamma.input, gamma.tensor, gamma.accumulate);
    if (beta.tensor) fv_back_commit(back, beta.input, beta.tensor, beta.accumulate);
}
