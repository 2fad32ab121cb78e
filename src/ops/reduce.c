/*
 * The reductions over any axes: ops/reduce.def has a row for each, with its derivation. They share
 * the functions below and differ in the kernel's op code and in what backward reads.
 */
#include "kernels/reduce.h"

#include "ops/op.h"

typedef struct reduce_params {
    int n_axes; /* 0: all axes; infer refuses what is outside 0..FV_MAX_RANK */
    int axes[FV_MAX_RANK];
    bool keep; /* reduced axes stay, with size 1 */
} reduce_params;

static fv_tensor *apply(fv_ctx *ctx, fv_op_id id, fv_tensor *x, int n_axes, const int *axes,
                        bool keep)
{
    reduce_params params = {.n_axes = n_axes, .keep = keep};
    if (n_axes > 0 && !axes) params.n_axes = -1;
    for (int i = 0; i < params.n_axes && i < FV_MAX_RANK; i++)
        params.axes[i] = axes[i];
    return fv_op_apply(ctx, id, 1, &x, &params);
}

/* Bit i set: axis i is reduced. params have passed infer. */
static unsigned reduced_axes(const reduce_params *params, int rank)
{
    if (params->n_axes == 0) return (1u << rank) - 1u;
    unsigned mask = 0;
    for (int i = 0; i < params->n_axes; i++)
        mask |= 1u << (params->axes[i] < 0 ? params->axes[i] + rank : params->axes[i]);
    return mask;
}

/* How many elements go into one result. params have passed infer. */
static int64_t reduced_length(const reduce_params *params, int rank, const int64_t *shape)
{
    const unsigned mask = reduced_axes(params, rank);
    int64_t length = 1;
    for (int axis = 0; axis < rank; axis++)
        if (mask >> axis & 1u) length *= shape[axis];
    return length;
}

static fv_status infer(fv_op_run *run)
{
    FV_TRY(fv_need_real(run, 0));
    const reduce_params *params = run->params;
    const fv_tensor *x = run->in[0];
    if (params->n_axes < 0 || params->n_axes > FV_MAX_RANK)
        return fv_op_error(run, FV_ERR_ARGUMENT, "the list of axes is NULL or too long");
    unsigned seen = 0;
    for (int i = 0; i < params->n_axes; i++) {
        int axis = 0;
        FV_TRY(fv_need_axis(run, 0, params->axes[i], &axis));
        if (seen & 1u << axis)
            return fv_op_error(run, FV_ERR_ARGUMENT, "axis %d is listed twice", axis);
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

static fv_status nonempty_infer(fv_op_run *run)
{
    FV_TRY(infer(run));
    const fv_tensor *x = run->in[0];
    char text[FV_SHAPE_TEXT];
    if (reduced_length(run->params, x->rank, x->shape) == 0)
        return fv_op_error(run, FV_ERR_SHAPE, "no elements to choose from in shape %s",
                           fv_shape_text(text, x->rank, x->shape));
    return FV_OK;
}

static fv_status index_infer(fv_op_run *run)
{
    FV_TRY(nonempty_infer(run));
    run->spec[0].dtype = FV_I64;
    return FV_OK;
}

/* Appends an axis to a list, merged with the one before where the strides allow it: the kernels are
 * fast at long axes, and the numbering of the elements stays the same. */
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

static fv_reduce_args describe(const fv_op_desc *desc, const reduce_params *params, int rank,
                               const int64_t *shape, const int64_t *stride)
{
    fv_reduce_args args;
    args.op = desc->kernel_op;
    args.alpha = 1.0;
    if (desc->traits & FV_AVERAGES) args.alpha /= (double)reduced_length(params, rank, shape);
    args.out_rank = args.red_rank = 0;
    const unsigned mask = reduced_axes(params, rank);
    for (int axis = 0; axis < rank; axis++) {
        if (mask >> axis & 1u)
            append_axis(&args.red_rank, args.red_shape, args.red_stride, shape[axis], stride[axis]);
        else
            append_axis(&args.out_rank, args.out_shape, args.out_stride, shape[axis], stride[axis]);
    }
    return args;
}

static void launch(fv_op_run *run, void *values, void *index)
{
    const fv_tensor *x = run->in[0];
    if (run->out[0]->count == 0) return;
    const fv_reduce_args args = describe(run->desc, run->params, x->rank, x->shape, x->stride);
    fv_launch(run->ctx, FV_KERNEL_REDUCE, x->dtype, (void *[]){values, index, x->data}, &args,
              sizeof args);
}

static void forward(fv_op_run *run)
{
    launch(run, run->out[0]->data, NULL);
    if (run->desc->traits & FV_SAVES_X) fv_save(run, 0, run->in[0]);
    if (run->desc->traits & FV_SAVES_Y) fv_save(run, 1, run->out[0]);
}

/* Saves which element each result is. */
static void choice_forward(fv_op_run *run)
{
    fv_tensor *index = NULL;
    if (run->recording) {
        index = fv_tensor_new(run->ctx, FV_I64, run->out[0]->rank, run->out[0]->shape);
        if (run->ctx->error != FV_OK) return;
        fv_save(run, 0, index);
    }
    launch(run, run->out[0]->data, index ? index->data : NULL);
}

static void index_forward(fv_op_run *run) { launch(run, NULL, run->out[0]->data); }

/* x and y as kernels/reduce.h says for REDUCE_GRAD: y is the result or the saved index; NULL where
 * the formula does not use them. */
static void send_dx(fv_op_back *back, fv_tensor *x, fv_tensor *y)
{
    fv_ctx *ctx = back->ctx;
    fv_tensor *dx = fv_back_new(back, 0);
    fv_tensor *g = fv_contiguous_raw(ctx, back->grad[0]);
    if (x) x = fv_contiguous_raw(ctx, x); /* the kernel addresses it as it does dx */
    if (ctx->error != FV_OK) return;
    if (dx->count > 0) {
        const fv_reduce_args args =
            describe(back->desc, back->params, dx->rank, dx->shape, dx->stride);
        void *ptr[] = {dx->data, g->data, x ? x->data : NULL, y ? y->data : NULL};
        fv_launch(ctx, FV_KERNEL_REDUCE_GRAD, dx->dtype, ptr, &args, sizeof args);
    }
    fv_back_send(back, 0, dx);
}

static void backward(fv_op_back *back)
{
    const unsigned traits = back->desc->traits;
    send_dx(back, traits & FV_SAVES_X ? back->saved[0] : NULL,
            traits & FV_SAVES_Y ? back->saved[1] : NULL);
}

static void choice_backward(fv_op_back *back) { send_dx(back, NULL, back->saved[0]); }

/* ---- public functions ------------------------------------------------------------- */

#define FV_REDUCTION(op, name, ...)                                                                \
    fv_tensor *fv_##name(fv_ctx *ctx, fv_tensor *x, int n_axes, const int *axes, bool keep)        \
    {                                                                                              \
        return apply(ctx, FV_OP_##op, x, n_axes, axes, keep);                                      \
    }
#define FV_REDUCTION_CHOICE FV_REDUCTION
#define FV_REDUCTION_INDEX(op, name, ...)                                                          \
    fv_tensor *fv_##name(fv_ctx *ctx, fv_tensor *x, int axis, bool keep)                           \
    {                                                                                              \
        return apply(ctx, FV_OP_##op, x, 1, &axis, keep);                                          \
    }
#include "ops/reduce.def"

/* ---- descriptors ------------------------------------------------------------------ */

static const reduce_params all = {.n_axes = 0};
static const reduce_params first = {.n_axes = 1, .axes = {0}};
static const reduce_params first_kept = {.n_axes = 1, .axes = {0}, .keep = true};
static const reduce_params last = {.n_axes = 1, .axes = {-1}};
static const reduce_params last_kept = {.n_axes = 1, .axes = {-1}, .keep = true};
static const reduce_params outer = {.n_axes = 2, .axes = {2, 0}};

#define CASES_OF(inputs)                                                                           \
    {.name = "all", .params = &all, .n_in = 1, .in = {FV_IN(inputs, 3, 4)}},                       \
        {.name = "last", .params = &last_kept, .n_in = 1, .in = {FV_IN(inputs, 3, 5)}},            \
        {.name = "first", .params = &first, .n_in = 1, .in = {FV_IN(inputs, 4, 3)}},               \
        {.name = "outer", .params = &outer, .n_in = 1, .in = {FV_IN(inputs, 2, 3, 4)}},            \
        {.name = "scalar", .params = &all, .n_in = 1, .in = {FV_IN0(inputs)}},                     \
    {                                                                                              \
        .name = "empty", .params = &last_kept, .n_in = 1, .in = { FV_IN(inputs, 0, 3) }            \
    }

static const fv_op_case cases[] = {CASES_OF(NORMAL)};
static const fv_op_case choice_cases[] = {CASES_OF(APART)}; /* no ties */
static const fv_op_case index_cases[] = {
    {.name = "last", .params = &last, .n_in = 1, .in = {FV_IN(APART, 3, 5)}},
    {.name = "first", .params = &first_kept, .n_in = 1, .in = {FV_IN(APART, 4, 3)}},
    {.name = "empty", .params = &last, .n_in = 1, .in = {FV_IN(APART, 0, 3)}},
};

#define DESCRIBE(op, name_, kernel, formula_, ...)                                                 \
    const fv_op_desc fv_op_##name_ = {                                                             \
        .id = FV_OP_##op,                                                                          \
        .name = #name_,                                                                            \
        .formula = formula_,                                                                       \
        .min_in = 1,                                                                               \
        .max_in = 1,                                                                               \
        .params_bytes = sizeof(reduce_params),                                                     \
        .kernel_op = FV_REDUCE_##kernel,                                                           \
        __VA_ARGS__,                                                                               \
    };
#define FV_REDUCTION(op, name, kernel, formula, traits_)                                           \
    DESCRIBE(op, name, kernel, formula, .infer = infer, .forward = forward, .backward = backward,  \
             .traits = traits_, FV_CASES(cases))
#define FV_REDUCTION_CHOICE(op, name, formula)                                                     \
    DESCRIBE(op, name, op, formula, .infer = nonempty_infer, .forward = choice_forward,            \
             .backward = choice_backward, FV_CASES(choice_cases))
#define FV_REDUCTION_INDEX(op, name, formula)                                                      \
    DESCRIBE(op, name, op, formula, .infer = index_infer, .forward = index_forward,                \
             .no_backward = "an index is a step function", FV_CASES(index_cases))
#include "ops/reduce.def"
