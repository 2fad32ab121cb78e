#include "ops/reduce.h"

fv_tensor *fv_reduce_apply(fv_ctx *ctx, fv_op_id id, fv_tensor *x, int n_axes, const int *axes,
                           bool keep)
{
    fv_reduce_params params = {.n_axes = n_axes, .keep = keep};
    if (n_axes > 0 && !axes) params.n_axes = -1;
    for (int i = 0; i < params.n_axes && i < FV_MAX_RANK; i++)
        params.axes[i] = axes[i];
    return fv_op_apply(ctx, id, 1, &x, &params);
}

/* Bit i set: axis i is reduced. params have passed infer. */
static unsigned reduced_axes(const fv_reduce_params *params, int rank)
{
    if (params->n_axes == 0) return (1u << rank) - 1u;
    unsigned mask = 0;
    for (int i = 0; i < params->n_axes; i++)
        mask |= 1u << (params->axes[i] < 0 ? params->axes[i] + rank : params->axes[i]);
    return mask;
}

fv_status fv_reduce_infer(fv_op_run *run)
{
    FV_FORWARD(fv_need_real(run, 0));
    const fv_reduce_params *params = run->params;
    const fv_tensor *x = run->in[0];
    if (params->n_axes < 0 || params->n_axes > FV_MAX_RANK)
        return fv_op_error(run, FV_ERR_ARGUMENT, "the list of axes is missing or too long");
    unsigned seen = 0;
    for (int i = 0; i < params->n_axes; i++) {
        int axis = 0;
        FV_FORWARD(fv_need_axis(run, 0, params->axes[i], &axis));
        if (seen & 1u << axis)
            return fv_op_error(run, FV_ERR_ARGUMENT, "axis %d is named twice", axis);
        seen |= 1u << axis;
    }
    const unsigned mask = reduced_axes(params, x->rank);
    fv_spec *spec = &run->spec[0];
    spec->dtype = x->dtype;
    spec->rank = 0;
    for (int axis = 0; axis < x->rank; axis++) {
        const bool reduced = mask >> axis & 1u;
        if (reduced && !params->keep) continue;
        spec->shape[spec->rank++] = reduced ? 1 : x->shape[axis];
    }
    return FV_OK;
}

fv_status fv_reduce_infer_nonempty(fv_op_run *run)
{
    FV_FORWARD(fv_reduce_infer(run));
    const fv_tensor *x = run->in[0];
    char text[FV_SHAPE_TEXT];
    if (fv_reduce_length(run->params, x->rank, x->shape) == 0)
        return fv_op_error(run, FV_ERR_SHAPE, "nothing to choose from in shape %s",
                           fv_shape_text(text, x->rank, x->shape));
    return FV_OK;
}

int64_t fv_reduce_length(const fv_reduce_params *params, int rank, const int64_t *shape)
{
    const unsigned mask = reduced_axes(params, rank);
    int64_t length = 1;
    for (int axis = 0; axis < rank; axis++)
        if (mask >> axis & 1u) length *= shape[axis];
    return length;
}

/* Appends an axis to a list, joined with the one before where both are walked as one: long runs
 * are what the kernels are fast at, and the elements keep their numbers. */
static void append_axis(int *rank, int64_t *shape, int64_t *stride, int64_t size, int64_t step)
{
    if (size == 1) return;
    if (*rank > 0 && stride[*rank - 1] == step * size) {
        shape[*rank - 1] *= size;
        stride[*rank - 1] = step;
        return;
    }
    shape[*rank] = size;
    stride[(*rank)++] = step;
}

static void describe(fv_reduce_args *args, fv_reduce op, double alpha,
                     const fv_reduce_params *params, int rank, const int64_t *shape,
                     const int64_t *stride)
{
    args->op = (int)op;
    args->alpha = alpha;
    args->out_rank = args->red_rank = 0;
    const unsigned mask = reduced_axes(params, rank);
    for (int axis = 0; axis < rank; axis++) {
        if (mask >> axis & 1u)
            append_axis(&args->red_rank, args->red_shape, args->red_stride, shape[axis],
                        stride[axis]);
        else
            append_axis(&args->out_rank, args->out_shape, args->out_stride, shape[axis],
                        stride[axis]);
    }
}

static void reduce(fv_op_run *run, fv_reduce op, double alpha, void *values, void *index)
{
    const fv_tensor *x = run->in[0];
    if (run->out[0]->count == 0) return;
    fv_reduce_args args;
    describe(&args, op, alpha, run->params, x->rank, x->shape, x->stride);
    fv_launch(run->ctx, FV_KERNEL_REDUCE, x->dtype, (void *[]){values, index, x->data}, &args,
              sizeof args);
}

void fv_reduce_forward(fv_op_run *run, fv_reduce op, double alpha)
{
    reduce(run, op, alpha, run->out[0]->data, NULL);
}

void fv_reduce_forward_chosen(fv_op_run *run, fv_reduce op)
{
    fv_tensor *index = NULL;
    if (run->recording) {
        index = fv_tensor_new(run->ctx, FV_I64, run->out[0]->rank, run->out[0]->shape);
        if (run->ctx->error != FV_OK) return;
        fv_save(run, 0, index);
    }
    reduce(run, op, 1.0, run->out[0]->data, index ? index->data : NULL);
}

void fv_reduce_forward_index(fv_op_run *run, fv_reduce op)
{
    reduce(run, op, 1.0, NULL, run->out[0]->data);
}

void fv_reduce_backward(fv_op_back *back, fv_reduce op, double alpha, fv_tensor *x, fv_tensor *y)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *dx = fv_back_new(back, 0);
    fv_tensor *g = fv_contiguous_raw(ctx, back->grad[0]);
    if (x) x = fv_contiguous_raw(ctx, x); /* the kernel walks it along dx */
    if (ctx->error != FV_OK) return;
    if (dx->count > 0) {
        fv_reduce_args args;
        describe(&args, op, alpha, back->params, dx->rank, dx->shape, dx->stride);
        void *ptr[] = {dx->data, g->data, x ? x->data : NULL, y ? y->data : NULL};
        fv_launch(ctx, FV_KERNEL_REDUCE_GRAD, dx->dtype, ptr, &args, sizeof args);
    }
    fv_back_send(back, 0, dx);
}

static const fv_reduce_params all = {.n_axes = 0};
static const fv_reduce_params last_kept = {.n_axes = 1, .axes = {-1}, .keep = true};
static const fv_reduce_params first = {.n_axes = 1, .axes = {0}};
static const fv_reduce_params outer = {.n_axes = 2, .axes = {2, 0}};

const fv_op_case fv_reduce_cases[FV_REDUCE_CASES] = {
    {.name = "all", .params = &all, .n_in = 1, .in = {FV_IN(NORMAL, 3, 4)}},
    {.name = "last", .params = &last_kept, .n_in = 1, .in = {FV_IN(NORMAL, 3, 5)}},
    {.name = "first", .params = &first, .n_in = 1, .in = {FV_IN(NORMAL, 4, 3)}},
    {.name = "outer", .params = &outer, .n_in = 1, .in = {FV_IN(NORMAL, 2, 3, 4)}},
    {.name = "scalar", .params = &all, .n_in = 1, .in = {FV_IN0(NORMAL)}},
    {.name = "empty", .params = &last_kept, .n_in = 1, .in = {FV_IN(NORMAL, 0, 3)}},
};
