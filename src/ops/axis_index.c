#include "ops/axis_index.h"

fv_status fv_axis_index_check(fv_op_run *run)
{
    const fv_axis_params *params = run->params;
    int axis;
    FV_TRY(fv_need_real(run, 0));
    FV_TRY(fv_need_dtype(run, 1, FV_I64));
    FV_TRY(fv_need_axis(run, 0, params->axis, &axis));
    const fv_tensor *x = run->in[0], *index = run->in[1];
    bool fits = x->rank == index->rank;
    for (int i = 0; fits && i < x->rank; i++)
        fits = i == axis || x->shape[i] == index->shape[i];
    return fits ? FV_OK
                : fv_op_mismatch(run, 0, 1,
                                 "(data and index) must have equal ranks and equal sizes in every "
                                 "other axis");
}

fv_gather_args fv_axis_index_args(const void *params, int rank, const int64_t *shape,
                                  const fv_tensor *index)
{
    int axis = ((const fv_axis_params *)params)->axis;
    if (axis < 0) axis += rank;
    fv_gather_args args = {
        .outer = 1, .size = shape[axis], .count = index->shape[axis], .inner = 1};
    for (int i = 0; i < rank; i++)
        *(i < axis ? &args.outer : &args.inner) *= i == axis ? 1 : shape[i];
    return args;
}
