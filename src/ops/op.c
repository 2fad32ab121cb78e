/* Checks and shape rules shared by the ops' infer functions. */
#include "ops/op.h"

#include <stdio.h>
#include <string.h>

fv_status fv_op_error(fv_op_run *run, fv_status status, const char *fmt, ...)
{
    char text[FV_MESSAGE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fv_poison(run->ctx, status, "%s: %.*s", run->desc->name, FV_MESSAGE_BYTES - 40, text);
}

fv_status fv_op_mismatch(fv_op_run *run, int a, int b, const char *why)
{
    char ta[FV_SHAPE_TEXT], tb[FV_SHAPE_TEXT];
    const fv_tensor *x = run->in[a], *y = run->in[b];
    return fv_op_error(run, FV_ERR_SHAPE, "shapes %s and %s %s",
                       fv_shape_text(ta, x->rank, x->shape), fv_shape_text(tb, y->rank, y->shape),
                       why);
}

void fv_spec_set(fv_op_run *run, int k, fv_dtype dtype, int rank, const int64_t *shape)
{
    fv_spec *spec = &run->spec[k];
    spec->dtype = dtype;
    spec->rank = rank;
    for (int i = 0; i < rank; i++)
        spec->shape[i] = shape[i];
}

void fv_spec_like(fv_op_run *run, int k, int i)
{
    const fv_tensor *t = run->in[i];
    fv_spec_set(run, k, t->dtype, t->rank, t->shape);
}

fv_status fv_spec_broadcast(fv_op_run *run, int k, int a, int b)
{
    const fv_tensor *x = run->in[a], *y = run->in[b];
    int rank = x->rank > y->rank ? x->rank : y->rank;
    fv_spec *spec = &run->spec[k];
    spec->dtype = x->dtype;
    spec->rank = rank;
    for (int i = 0; i < rank; i++) {
        int ix = i - (rank - x->rank), iy = i - (rank - y->rank);
        int64_t nx = ix >= 0 ? x->shape[ix] : 1, ny = iy >= 0 ? y->shape[iy] : 1;
        if (nx != ny && nx != 1 && ny != 1) return fv_op_mismatch(run, a, b, "do not broadcast");
        spec->shape[i] = nx == 1 ? ny : nx;
    }
    return FV_OK;
}

fv_status fv_need_dtype(fv_op_run *run, int i, fv_dtype dtype)
{
    if (!run->in[i]) return fv_op_error(run, FV_ERR_ARGUMENT, "input %d is missing", i);
    if (run->in[i]->dtype != dtype)
        return fv_op_error(run, FV_ERR_DTYPE, "input %d is %s, expected %s", i,
                           fv_dtype_name(run->in[i]->dtype), fv_dtype_name(dtype));
    return FV_OK;
}

fv_status fv_need_real(fv_op_run *run, int i)
{
    if (!run->in[i]) return fv_op_error(run, FV_ERR_ARGUMENT, "input %d is missing", i);
    fv_dtype dtype = run->in[i]->dtype;
    if (dtype == FV_BF16 && (run->desc->bf16 == FV_BF16_MOVES || run->desc->bf16_inputs >> i & 1u))
        return FV_OK;
    if (dtype != FV_F32 && dtype != FV_F64)
        return fv_op_error(run, FV_ERR_DTYPE, "input %d is %s, expected f32 or f64", i,
                           fv_dtype_name(dtype));
    return FV_OK;
}

fv_dtype fv_result_dtype(const fv_op_run *run)
{
    const fv_op_desc *desc = run->desc;
    if (!run->has_bf16 && desc->bf16 != FV_BF16_COMPUTES) return run->in[0]->dtype;
    bool seen = false, all = true;
    for (int i = 0; i < run->n_in; i++) {
        if (!run->in[i]) continue;
        seen |= run->in[i]->dtype == FV_BF16;
        all &= run->in[i]->dtype == FV_BF16;
    }
    const fv_dtype wide = fv_wide_dtype(run->in[0]->dtype);
    if (desc->bf16 == FV_BF16_COMPUTES) seen |= run->ctx->compute == (int)FV_BF16 && wide == FV_F32;
    if (desc->bf16 == FV_BF16_MOVES) seen = all;
    return seen && desc->bf16 != FV_BF16_SUMS ? FV_BF16 : wide;
}

fv_status fv_need_same_real(fv_op_run *run)
{
    FV_TRY(fv_need_real(run, 0));
    for (int i = 1; i < run->n_in; i++)
        if (run->in[i] && fv_wide_dtype(run->in[i]->dtype) != fv_wide_dtype(run->in[0]->dtype))
            return fv_op_error(run, FV_ERR_DTYPE, "inputs are %s and %s: cast one of them",
                               fv_dtype_name(run->in[0]->dtype), fv_dtype_name(run->in[i]->dtype));
    return FV_OK;
}

fv_status fv_need_rank(fv_op_run *run, int i, int low, int high)
{
    if (!run->in[i]) return fv_op_error(run, FV_ERR_ARGUMENT, "input %d is missing", i);
    int rank = run->in[i]->rank;
    if (rank < low || rank > high)
        return low == high
                   ? fv_op_error(run, FV_ERR_SHAPE, "input %d has rank %d, expected %d", i, rank,
                                 low)
                   : fv_op_error(run, FV_ERR_SHAPE, "input %d has rank %d, expected %d to %d", i,
                                 rank, low, high);
    return FV_OK;
}

fv_status fv_need_axis(fv_op_run *run, int i, int axis, int *out)
{
    if (!run->in[i]) return fv_op_error(run, FV_ERR_ARGUMENT, "input %d is missing", i);
    int rank = run->in[i]->rank;
    if (axis < -rank || axis >= rank)
        return fv_op_error(run, FV_ERR_ARGUMENT, "axis %d is out of range for a tensor of rank %d",
                           axis, rank);
    *out = axis < 0 ? axis + rank : axis;
    return FV_OK;
}
