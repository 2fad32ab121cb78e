/* Ops that move data about: views that share memory, copies that do not, and the errors. */
#include "support/values.h"

static const double inf = INFINITY;

/* Whether writing every element of `view` changes as many elements of `base`. */
static bool shares(fv_ctx *ctx, fv_tensor *base, fv_tensor *view)
{
    enum { ROOM = 64 };
    double before[ROOM], after[ROOM];
    int64_t n = values_read(ctx, base, before, ROOM), count = fv_tensor_count(view), changed = 0;
    CHECK(n <= ROOM && count > 0);
    float *marks = calloc((size_t)count, sizeof *marks);
    for (int64_t i = 0; i < count; i++)
        marks[i] = (float)before[0] + 1000; /* new to base, whose values are small steps apart */
    CHECK_OK(ctx, fv_tensor_write(ctx, view, marks, (size_t)count * sizeof *marks));
    free(marks);
    values_read(ctx, base, after, ROOM);
    for (int64_t i = 0; i < n; i++)
        changed += after[i] != before[i];
    return changed == count;
}

static fv_tensor *six(fv_ctx *ctx) { return values_counting(ctx, FV_F32, SHAPE(2, 3)); }

/* ---- reshape ---------------------------------------------------------------------- */

static void reshape_views(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = six(ctx);
    CHECK_TENSOR(ctx, fv_reshape(ctx, x, 2, (int64_t[]){3, 2}), FV_F32, SHAPE(3, 2), 0, 1, 2, 3, 4,
                 5);
    CHECK_TENSOR(ctx, fv_reshape(ctx, x, 3, (int64_t[]){1, -1, 2}), FV_F32, SHAPE(1, 3, 2), 0, 1, 2,
                 3, 4, 5);
    CHECK_TENSOR(ctx, fv_reshape(ctx, fv_scalar(ctx, FV_U8, 7), 2, (int64_t[]){1, -1}), FV_U8,
                 SHAPE(1, 1), 7);
    CHECK_TENSOR(ctx, fv_reshape(ctx, TENSOR(ctx, FV_I64, SHAPE(1, 1), 9), 0, NULL), FV_I64, SCALAR,
                 9);
    CHECK_EMPTY(ctx, fv_reshape(ctx, values_none(ctx, FV_F32, SHAPE(0, 3)), 2, (int64_t[]){5, 0}),
                FV_F32, SHAPE(5, 0));
    CHECK_EMPTY(ctx, fv_reshape(ctx, values_none(ctx, FV_F32, SHAPE(0, 3)), 2, (int64_t[]){-1, 7}),
                FV_F32, SHAPE(0, 7));
    CHECK(shares(ctx, x, fv_reshape(ctx, x, 1, (int64_t[]){-1})));
    values_end(&ctx);
}

static void reshape_of_a_view_copies_only_if_it_must(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = values_counting(ctx, FV_F32, SHAPE(2, 3, 4));
    fv_tensor *permuted =
        fv_permute(ctx, x, (int[]){2, 0, 1}); /* [4,2,3]: the last two still join */
    fv_tensor *joined = fv_reshape(ctx, permuted, 2, (int64_t[]){4, 6});
    CHECK_EQ(fv_tensor_strides(joined)[0], 1);
    CHECK_EQ(fv_tensor_strides(joined)[1], 4);
    CHECK(shares(ctx, x, joined));
    fv_tensor *flat = fv_reshape(ctx, permuted, 1, (int64_t[]){24}); /* no stride fits */
    CHECK(fv_tensor_contiguous(flat));
    CHECK(!shares(ctx, x, flat));
    fv_tensor *part = fv_slice(ctx, x, 2, 0, 4, 2); /* a split needs no copy either */
    CHECK(shares(ctx, x, fv_reshape(ctx, part, 4, (int64_t[]){2, 3, 2, 1})));
    CHECK(shares(ctx, x, fv_reshape(ctx, part, 2, (int64_t[]){6, 2})));
    values_end(&ctx);
}

/* Whatever the strides and the new shape, the elements keep their order. */
static void reshape_keeps_the_order(void)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                     {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const test_shape shapes[] = {
        {1, {-1}},       {2, {2, -1}},       {2, {-1, 2}},       {2, {-1, 4}},
        {3, {2, 2, -1}}, {4, {1, 2, -1, 1}}, {4, {-1, 1, 3, 2}}, {5, {1, 1, -1, 2, 2}}};
    fv_ctx *ctx = values_begin();
    fv_tensor *x = values_counting(ctx, FV_F32, SHAPE(2, 6, 4));
    int done = 0;
    for (int o = 0; o < 6; o++)
        for (int axis = 0; axis < 3; axis++)
            for (int step = 1; step < 3; step++) {
                fv_tensor *p = fv_permute(ctx, x, orders[o]);
                p = fv_slice(ctx, p, axis, 0, fv_tensor_size(p, axis), step);
                double wanted[48], got[48];
                int64_t n = values_read(ctx, p, wanted, 48);
                for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                    int64_t known = 1;
                    for (int i = 0; i < shapes[s].rank; i++)
                        if (shapes[s].size[i] > 0) known *= shapes[s].size[i];
                    if (n % known) continue;
                    fv_tensor *y = fv_reshape(ctx, p, shapes[s].rank, shapes[s].size);
                    CHECK_EQ(values_read(ctx, y, got, 48), n);
                    CHECK(memcmp(got, wanted, (size_t)n * sizeof *got) == 0);
                    done++;
                }
            }
    CHECK(done > 200);
    values_end(&ctx);
}

static void reshape_refuses(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = six(ctx);
    const int64_t huge = INT64_C(1) << 40;
    CHECK_REFUSED(ctx, fv_reshape(ctx, x, 1, (int64_t[]){7}), FV_ERR_SHAPE,
                  "reshape: cannot reshape [2,3] to [7]");
    CHECK_REFUSED(ctx, fv_reshape(ctx, x, 2, (int64_t[]){-1, 4}), FV_ERR_SHAPE, "[-1,4]");
    CHECK_REFUSED(ctx, fv_reshape(ctx, x, 2, (int64_t[]){-1, -1}), FV_ERR_SHAPE, "[-1,-1]");
    CHECK_REFUSED(ctx, fv_reshape(ctx, x, 2, (int64_t[]){-2, -3}), FV_ERR_SHAPE, "[-2,-3]");
    CHECK_REFUSED(ctx, fv_reshape(ctx, x, 2, (int64_t[]){huge, huge}), FV_ERR_SHAPE, "reshape");
    CHECK_REFUSED(ctx, fv_reshape(ctx, x, 9, (int64_t[9]){6}), FV_ERR_ARGUMENT, "rank");
    CHECK_REFUSED(ctx, fv_reshape(ctx, x, -1, NULL), FV_ERR_ARGUMENT, "rank");
    CHECK_REFUSED(ctx, fv_reshape(ctx, x, 1, NULL), FV_ERR_ARGUMENT, "the shape is NULL");
    CHECK_REFUSED(ctx, fv_reshape(ctx, NULL, 0, NULL), FV_ERR_ARGUMENT, "input 0 is missing");
    fv_tensor *none = values_none(ctx, FV_F32, SHAPE(0, 3));
    CHECK_REFUSED(ctx, fv_reshape(ctx, none, 2, (int64_t[]){-1, 0}), FV_ERR_SHAPE, "[-1,0]");
    CHECK_REFUSED(ctx, fv_reshape(ctx, none, 3, (int64_t[]){0, huge, huge}), FV_ERR_SHAPE,
                  "reshape");
    values_end(&ctx);
}

static void axes_of_size_one_come_and_go(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = six(ctx);
    CHECK_TENSOR(ctx, fv_unsqueeze(ctx, x, 0), FV_F32, SHAPE(1, 2, 3), 0, 1, 2, 3, 4, 5);
    CHECK_TENSOR(ctx, fv_unsqueeze(ctx, x, -1), FV_F32, SHAPE(2, 3, 1), 0, 1, 2, 3, 4, 5);
    CHECK_TENSOR(ctx, fv_unsqueeze(ctx, fv_transpose(ctx, x, 0, 1), 1), FV_F32, SHAPE(3, 1, 2), 0,
                 3, 1, 4, 2, 5);
    fv_tensor *one = fv_unsqueeze(ctx, fv_transpose(ctx, x, 0, 1), 1);
    CHECK_TENSOR(ctx, fv_squeeze(ctx, one, -2), FV_F32, SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    CHECK_REFUSED(ctx, fv_squeeze(ctx, x, 1), FV_ERR_ARGUMENT,
                  "squeeze: expected size 1 for axis 1, got shape [2,3]");
    CHECK_REFUSED(ctx, fv_squeeze(ctx, x, 2), FV_ERR_ARGUMENT,
                  "squeeze: expected size 1 for axis 2");
    CHECK_REFUSED(ctx, fv_unsqueeze(ctx, x, 3), FV_ERR_ARGUMENT, "unsqueeze: cannot insert axis 3");
    CHECK_REFUSED(ctx, fv_unsqueeze(ctx, x, -4), FV_ERR_ARGUMENT,
                  "unsqueeze: cannot insert axis -4");
    CHECK_REFUSED(ctx,
                  fv_unsqueeze(ctx, values_counting(ctx, FV_U8, SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), 0),
                  FV_ERR_ARGUMENT, "rank 8");
    CHECK_REFUSED(ctx, fv_squeeze(ctx, NULL, 0), FV_ERR_ARGUMENT, "missing");
    CHECK(shares(ctx, x, fv_squeeze(ctx, one, 1)));
    values_end(&ctx);
}

/* ---- permute and broadcast ----------------------------------------------------------- */

static void permute_reorders_axes(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = values_counting(ctx, FV_F32, SHAPE(2, 1, 3));
    CHECK_TENSOR(ctx, fv_permute(ctx, x, (int[]){2, 0, -2}), FV_F32, SHAPE(3, 2, 1), 0, 3, 1, 4, 2,
                 5);
    CHECK_TENSOR(ctx, fv_transpose(ctx, x, -1, 0), FV_F32, SHAPE(3, 1, 2), 0, 3, 1, 4, 2, 5);
    CHECK_TENSOR(ctx, fv_transpose(ctx, x, 1, 1), FV_F32, SHAPE(2, 1, 3), 0, 1, 2, 3, 4, 5);
    CHECK_TENSOR(ctx, fv_permute(ctx, fv_scalar(ctx, FV_F32, 4), NULL), FV_F32, SCALAR, 4);
    CHECK_EMPTY(ctx, fv_transpose(ctx, values_none(ctx, FV_F32, SHAPE(0, 3)), 0, 1), FV_F32,
                SHAPE(3, 0));
    CHECK_REFUSED(ctx, fv_permute(ctx, x, (int[]){0, 1, 0}), FV_ERR_ARGUMENT,
                  "permute: axis 0 is listed twice");
    CHECK_REFUSED(ctx, fv_permute(ctx, x, (int[]){0, 1, 3}), FV_ERR_ARGUMENT, "permute: axis 3");
    CHECK_REFUSED(ctx, fv_permute(ctx, x, NULL), FV_ERR_ARGUMENT, "permute: the list of axes");
    CHECK_REFUSED(ctx, fv_transpose(ctx, x, 0, 3), FV_ERR_ARGUMENT,
                  "transpose: axes 0 and 3 are out of range");
    CHECK_REFUSED(ctx, fv_transpose(ctx, fv_scalar(ctx, FV_F32, 1), 0, 0), FV_ERR_ARGUMENT,
                  "transpose");
    CHECK_REFUSED(ctx, fv_transpose(ctx, NULL, 0, 1), FV_ERR_ARGUMENT, "missing");
    CHECK(shares(ctx, x, fv_permute(ctx, x, (int[]){2, 0, 1})));
    values_end(&ctx);
}

static void broadcast_repeats(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = TENSOR(ctx, FV_F32, SHAPE(2, 1), 1, 2);
    const int64_t huge = INT64_C(1) << 40;
    fv_tensor *wide = fv_broadcast(ctx, x, 3, (int64_t[]){2, 2, 3});
    CHECK_TENSOR(ctx, wide, FV_F32, SHAPE(2, 2, 3), 1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2);
    CHECK_EQ(fv_tensor_strides(wide)[0], 0);
    CHECK_EQ(fv_tensor_strides(wide)[2], 0);
    CHECK_EMPTY(ctx, fv_broadcast(ctx, x, 2, (int64_t[]){2, 0}), FV_F32, SHAPE(2, 0));
    CHECK_REFUSED(ctx, fv_broadcast(ctx, x, 2, (int64_t[]){3, 1}), FV_ERR_SHAPE,
                  "broadcast: [2,1] does not broadcast to [3,1]");
    CHECK_REFUSED(ctx, fv_broadcast(ctx, x, 1, (int64_t[]){2}), FV_ERR_SHAPE, "[2]");
    CHECK_REFUSED(ctx, fv_broadcast(ctx, x, 2, (int64_t[]){2, -1}), FV_ERR_SHAPE, "[2,-1]");
    CHECK_REFUSED(ctx, fv_broadcast(ctx, x, 4, (int64_t[]){huge, huge, 2, 1}), FV_ERR_SHAPE,
                  "broadcast");
    CHECK_REFUSED(ctx, fv_broadcast(ctx, x, 9, (int64_t[9]){0}), FV_ERR_ARGUMENT, "rank");
    fv_tensor *leaf = fv_leaf(ctx, TENSOR(ctx, FV_F32, SHAPE(2, 1), 1, 2));
    values_backward(ctx, fv_broadcast(ctx, leaf, 3, (int64_t[]){4, 2, 3}));
    CHECK_TENSOR(ctx, fv_grad(ctx, leaf), FV_F32, SHAPE(2, 1), 12, 12);
    values_end(&ctx);
}

/* ---- slice and split ------------------------------------------------------------------ */

/* Every small slice against the definition: a walk from begin, as Python counts. */
static void slices_count_like_python(void)
{
    enum { N = 5 };
    fv_ctx *ctx = values_begin();
    fv_tensor *x = values_counting(ctx, FV_F32, SHAPE(N));
    for (int64_t begin = -7; begin <= 7; begin++)
        for (int64_t end = -7; end <= 7; end++)
            for (int64_t step = 1; step <= 6; step++) {
                double wanted[N], got[N];
                int64_t n = 0;
                for (int64_t i = begin < 0 ? begin + N : begin; i < (end < 0 ? end + N : end);
                     i += step) {
                    if (i < 0) { /* a start before the axis is moved to its beginning */
                        i = -step;
                        continue;
                    }
                    if (i < N) wanted[n++] = (double)i;
                }
                fv_scope_begin(ctx);
                fv_tensor *y = fv_slice(ctx, x, 0, begin, end, step);
                CHECK_EQ(values_read(ctx, y, got, N), n);
                CHECK(memcmp(got, wanted, (size_t)n * sizeof *got) == 0);
                fv_scope_end(ctx);
            }
    values_end(&ctx);
}

static void slice_edges(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = six(ctx);
    CHECK_TENSOR(ctx, fv_slice(ctx, x, 1, INT64_MIN, INT64_MAX, 2), FV_F32, SHAPE(2, 2), 0, 2, 3,
                 5);
    CHECK_TENSOR(ctx, fv_slice(ctx, x, 0, 1, INT64_MAX, INT64_MAX), FV_F32, SHAPE(1, 3), 3, 4, 5);
    CHECK_EMPTY(ctx, fv_slice(ctx, x, -1, 3, 3, 1), FV_F32, SHAPE(2, 0));
    CHECK_REFUSED(ctx, fv_slice(ctx, x, 0, 0, 2, 0), FV_ERR_ARGUMENT, "slice: step is 0");
    CHECK_REFUSED(ctx, fv_slice(ctx, x, 0, 0, 2, -1), FV_ERR_ARGUMENT, "slice: step is -1");
    CHECK_REFUSED(ctx, fv_slice(ctx, x, 2, 0, 1, 1), FV_ERR_ARGUMENT, "slice: axis 2");
    CHECK_REFUSED(ctx, fv_slice(ctx, fv_scalar(ctx, FV_F32, 1), 0, 0, 1, 1), FV_ERR_ARGUMENT,
                  "rank 0");
    fv_tensor *inner = fv_slice(ctx, fv_transpose(ctx, x, 0, 1), 0, 1, 3, 1); /* a view of a view */
    CHECK_TENSOR(ctx, inner, FV_F32, SHAPE(2, 2), 1, 4, 2, 5);
    CHECK(shares(ctx, x, inner));
    values_end(&ctx);
}

static void slices_of_one_tensor_add_their_gradients(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, values_counting(ctx, FV_F32, SHAPE(5)));
    fv_tensor *doubled = fv_scale(ctx, x, 2); /* slices of a leaf and of a result */
    fv_tensor *a = fv_slice(ctx, doubled, 0, 0, 3, 1), *b = fv_slice(ctx, doubled, 0, 2, 5, 2);
    fv_tensor *c = fv_slice(ctx, x, 0, 1, 3, 1), *d = fv_slice(ctx, x, 0, 4, 5, 1);
    fv_tensor *parts[4] = {a, b, c, d};
    values_backward(ctx, fv_concat(ctx, 4, parts, 0));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(5), 2, 3, 5, 0, 3);
    values_end(&ctx);
}

static void split_cuts_an_axis(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = values_counting(ctx, FV_F32, SHAPE(2, 4)), *out[3];
    fv_split(ctx, x, -1, 3, (int64_t[]){1, 0, 3}, out);
    CHECK_TENSOR(ctx, out[0], FV_F32, SHAPE(2, 1), 0, 4);
    CHECK_EMPTY(ctx, out[1], FV_F32, SHAPE(2, 0));
    CHECK_TENSOR(ctx, out[2], FV_F32, SHAPE(2, 3), 1, 2, 3, 5, 6, 7);
    CHECK(shares(ctx, x, out[2]));
    fv_split(ctx, x, 1, 2, (int64_t[]){1, 2}, out);
    CHECK(!fv_tensor_valid(out[1]));
    CHECK_REFUSED(ctx, out[0], FV_ERR_SHAPE,
                  "split: the sizes do not sum to 4, the size of axis 1");
    fv_split(ctx, x, 1, 2, (int64_t[]){5, -1}, out);
    CHECK_REFUSED(ctx, out[0], FV_ERR_SHAPE, "split");
    fv_split(ctx, x, 1, 2, (int64_t[]){INT64_MAX, INT64_MAX}, out);
    CHECK_REFUSED(ctx, out[0], FV_ERR_SHAPE, "split");
    fv_split(ctx, x, 2, 1, (int64_t[]){4}, out);
    CHECK_REFUSED(ctx, out[0], FV_ERR_ARGUMENT, "split: axis 2");
    fv_split(ctx, NULL, 0, 1, (int64_t[]){4}, out);
    CHECK_REFUSED(ctx, out[0], FV_ERR_ARGUMENT, "missing");
    values_end(&ctx);
}

/* ---- concat and stack ------------------------------------------------------------------- */

static void concat_joins(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *a = six(ctx), *b = TENSOR(ctx, FV_F32, SHAPE(2, 1), 8, 9);
    fv_tensor *none = values_none(ctx, FV_F32, SHAPE(2, 0));
    CHECK_TENSOR(ctx, fv_concat(ctx, 3, (fv_tensor *[]){a, none, b}, 1), FV_F32, SHAPE(2, 4), 0, 1,
                 2, 8, 3, 4, 5, 9);
    fv_tensor *column = fv_transpose(ctx, TENSOR(ctx, FV_F32, SHAPE(3, 1), 6, 7, 8), 0, 1);
    CHECK_TENSOR(ctx, fv_concat(ctx, 2, (fv_tensor *[]){a, column}, -2), FV_F32, SHAPE(3, 3), 0, 1,
                 2, 3, 4, 5, 6, 7, 8);
    CHECK_EMPTY(ctx, fv_concat(ctx, 2, (fv_tensor *[]){none, none}, 1), FV_F32, SHAPE(2, 0));
    for (int d = 0; d < FV_DTYPE_COUNT; d++) {
        fv_tensor *t = TENSOR(ctx, (fv_dtype)d, SHAPE(2), 1, 2);
        CHECK_TENSOR(ctx, fv_concat(ctx, 2, (fv_tensor *[]){t, t}, 0), (fv_dtype)d, SHAPE(4), 1, 2,
                     1, 2);
    }
    values_end(&ctx);
}

static void concat_refuses(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *a = six(ctx), *row = values_counting(ctx, FV_F32, SHAPE(3));
    CHECK_REFUSED(ctx, fv_concat(ctx, 2, (fv_tensor *[]){a, fv_transpose(ctx, a, 0, 1)}, 0),
                  FV_ERR_SHAPE, "concat: shapes [2,3] and [3,2]");
    CHECK_REFUSED(ctx, fv_concat(ctx, 2, (fv_tensor *[]){a, row}, 0), FV_ERR_SHAPE,
                  "concat: shapes [2,3] and [3] have different ranks");
    CHECK_REFUSED(ctx, fv_concat(ctx, 2, (fv_tensor *[]){a, fv_cast(ctx, a, FV_F64)}, 0),
                  FV_ERR_DTYPE, "concat: inputs are f32 and f64");
    CHECK_REFUSED(ctx, fv_concat(ctx, 2, (fv_tensor *[]){a, NULL}, 0), FV_ERR_ARGUMENT,
                  "concat: input 1 is missing");
    CHECK_REFUSED(ctx, fv_concat(ctx, 1, &a, 2), FV_ERR_ARGUMENT, "concat: axis 2");
    CHECK_REFUSED(ctx, fv_concat(ctx, 0, &a, 0), FV_ERR_ARGUMENT, "concat: expected 1 to");
    CHECK_REFUSED(ctx, fv_concat(ctx, -1, &a, 0), FV_ERR_ARGUMENT, "concat: expected 1 to");
    CHECK_REFUSED(ctx, fv_concat(ctx, 2, NULL, 0), FV_ERR_ARGUMENT, "concat: expected 1 to");
    CHECK_REFUSED(ctx, fv_stack(ctx, 2, (fv_tensor *[]){a, row}, 0), FV_ERR_SHAPE,
                  "stack: shapes [2,3] and [3]");
    CHECK_REFUSED(ctx, fv_stack(ctx, 1, &a, 3), FV_ERR_ARGUMENT, "stack: cannot insert axis 3");
    CHECK_REFUSED(ctx, fv_stack(ctx, 2, NULL, 0), FV_ERR_ARGUMENT, "stack: expected 1 to");
    fv_tensor *deep = values_counting(ctx, FV_F32, SHAPE(1, 1, 1, 1, 1, 1, 1, 1));
    CHECK_REFUSED(ctx, fv_stack(ctx, 1, &deep, 0), FV_ERR_ARGUMENT, "rank 8");
    values_end(&ctx);
}

static void concat_sends_each_its_part(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, TENSOR(ctx, FV_F32, SHAPE(2), 1, 2));
    fv_tensor *fixed = TENSOR(ctx, FV_F32, SHAPE(1), 7);
    fv_tensor *y = fv_concat(ctx, 3, (fv_tensor *[]){x, fixed, x}, 0); /* x twice */
    CHECK_OK(ctx, fv_backward_from(ctx, y, values_counting(ctx, FV_F32, SHAPE(5))));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(2), 3, 5);
    fv_tensor *many[100];
    for (int i = 0; i < 100; i++)
        many[i] = x;
    fv_zero_grad(ctx, x);
    values_backward(ctx, fv_stack(ctx, 100, many, -1));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(2), 100, 100);
    values_end(&ctx);
}

static void stack_makes_an_axis(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *a = TENSOR(ctx, FV_I64, SHAPE(2), 1, 2), *b = TENSOR(ctx, FV_I64, SHAPE(2), 3, 4);
    CHECK_TENSOR(ctx, fv_stack(ctx, 2, (fv_tensor *[]){a, b}, 0), FV_I64, SHAPE(2, 2), 1, 2, 3, 4);
    CHECK_TENSOR(ctx, fv_stack(ctx, 2, (fv_tensor *[]){a, b}, -1), FV_I64, SHAPE(2, 2), 1, 3, 2, 4);
    CHECK_TENSOR(ctx, fv_stack(ctx, 1, &a, -2), FV_I64, SHAPE(1, 2), 1, 2);
    fv_tensor *s = fv_scalar(ctx, FV_F32, 5);
    CHECK_TENSOR(ctx, fv_stack(ctx, 2, (fv_tensor *[]){s, s}, 0), FV_F32, SHAPE(2), 5, 5);
    fv_tensor *none = values_none(ctx, FV_F32, SHAPE(0));
    CHECK_EMPTY(ctx, fv_stack(ctx, 2, (fv_tensor *[]){none, none}, 0), FV_F32, SHAPE(2, 0));
    fv_tensor *deep = values_counting(ctx, FV_F32, SHAPE(1, 1, 1, 1, 1, 1, 2)); /* one axis left */
    CHECK_TENSOR(ctx, fv_stack(ctx, 2, (fv_tensor *[]){deep, deep}, 0), FV_F32,
                 SHAPE(2, 1, 1, 1, 1, 1, 1, 2), 0, 1, 0, 1);
    values_end(&ctx);
}

/* ---- pad and roll ------------------------------------------------------------------------ */

static void pad_surrounds(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, TENSOR(ctx, FV_F32, SHAPE(1, 2), 1, 2));
    fv_tensor *y = fv_pad(ctx, x, (int64_t[]){1, 0}, (int64_t[]){0, 2}, -inf);
    CHECK_TENSOR(ctx, y, FV_F32, SHAPE(2, 4), -inf, -inf, -inf, -inf, 1, 2, -inf, -inf);
    CHECK_OK(ctx, fv_backward_from(ctx, y, values_counting(ctx, FV_F32, SHAPE(2, 4))));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(1, 2), 4, 5);
    CHECK_TENSOR(ctx,
                 fv_pad(ctx, TENSOR(ctx, FV_U8, SHAPE(1), 1), (int64_t[]){1}, (int64_t[]){1}, 300),
                 FV_U8, SHAPE(3), 255, 1, 255);
    CHECK_TENSOR(ctx, fv_pad(ctx, fv_scalar(ctx, FV_F32, 4), NULL, NULL, 0), FV_F32, SCALAR, 4);
    CHECK_TENSOR(ctx,
                 fv_pad(ctx, values_none(ctx, FV_F32, SHAPE(0)), (int64_t[]){1}, (int64_t[]){1}, 3),
                 FV_F32, SHAPE(2), 3, 3);
    int64_t zero[2] = {0, 0};
    CHECK_REFUSED(ctx, fv_pad(ctx, x, (int64_t[]){0, -1}, zero, 0), FV_ERR_ARGUMENT,
                  "pad: cannot pad axis 1 by -1 and 0");
    CHECK_REFUSED(ctx, fv_pad(ctx, x, zero, (int64_t[]){INT64_MAX, 0}, 0), FV_ERR_ARGUMENT,
                  "pad: cannot pad axis 0");
    CHECK_REFUSED(ctx, fv_pad(ctx, x, NULL, zero, 0), FV_ERR_ARGUMENT,
                  "pad: before or after is NULL");
    CHECK_REFUSED(ctx, fv_pad(ctx, fv_zeros(ctx, FV_F32, 1, (int64_t[]){2}), zero, NULL, 0),
                  FV_ERR_ARGUMENT, "pad: before or after is NULL");
    CHECK_REFUSED(ctx, fv_pad(ctx, NULL, zero, zero, 0), FV_ERR_ARGUMENT, "pad: input 0");
    values_end(&ctx);
}

static void roll_goes_round(void)
{
    fv_ctx *ctx = values_begin();
    enum { N = 5 };
    fv_tensor *x = values_counting(ctx, FV_F32, SHAPE(2, N));
    for (int64_t shift = -7; shift <= 7; shift++) {
        double wanted[2 * N];
        for (int i = 0; i < 2 * N; i++)
            wanted[i / N * N + (i % N + shift + 2 * N) % N] = i;
        values_check(__FILE__, __LINE__, ctx, fv_roll(ctx, x, 1, shift), FV_F32, SHAPE(2, N), 2 * N,
                     wanted, true);
    }
    fv_tensor *two = TENSOR(ctx, FV_I32, SHAPE(3), 1, 2, 3);
    CHECK_TENSOR(ctx, fv_roll(ctx, two, 0, INT64_MIN), FV_I32, SHAPE(3), 3, 1, 2);
    CHECK_TENSOR(ctx, fv_roll(ctx, fv_transpose(ctx, six(ctx), 0, 1), -2, 1), FV_F32, SHAPE(3, 2),
                 2, 5, 0, 3, 1, 4);
    CHECK_EMPTY(ctx, fv_roll(ctx, values_none(ctx, FV_F32, SHAPE(0, 2)), 0, 1), FV_F32,
                SHAPE(0, 2));
    CHECK_REFUSED(ctx, fv_roll(ctx, x, 2, 1), FV_ERR_ARGUMENT, "roll: axis 2");
    fv_tensor *leaf = fv_leaf(ctx, values_counting(ctx, FV_F32, SHAPE(3)));
    CHECK_OK(ctx, fv_backward_from(ctx, fv_roll(ctx, leaf, 0, INT64_MIN),
                                   TENSOR(ctx, FV_F32, SHAPE(3), 10, 20, 30)));
    CHECK_TENSOR(ctx, fv_grad(ctx, leaf), FV_F32, SHAPE(3), 20, 30, 10);
    values_end(&ctx);
}

/* ---- contiguous and cast ------------------------------------------------------------------- */

static void contiguous_copies_only_what_is_not(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = six(ctx);
    CHECK(fv_contiguous(ctx, x) == x);
    fv_tensor *copy = fv_contiguous(ctx, fv_transpose(ctx, x, 0, 1));
    CHECK(fv_tensor_contiguous(copy));
    CHECK_TENSOR(ctx, copy, FV_F32, SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    CHECK(!shares(ctx, x, copy));
    CHECK_REFUSED(ctx, fv_contiguous(ctx, NULL), FV_ERR_ARGUMENT, "contiguous: input 0");
    fv_tensor *leaf = fv_leaf(ctx, six(ctx));
    fv_tensor *y = fv_contiguous(ctx, fv_transpose(ctx, leaf, 0, 1));
    CHECK_OK(ctx, fv_backward_from(ctx, y, values_counting(ctx, FV_F32, SHAPE(3, 2))));
    CHECK_TENSOR(ctx, fv_grad(ctx, leaf), FV_F32, SHAPE(2, 3), 0, 2, 4, 1, 3, 5);
    values_end(&ctx);
}

static void casts_round_and_saturate(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = TENSOR(ctx, FV_F64, SHAPE(6), 2.9, -2.9, 1e30, -inf, NAN, 300);
    CHECK_TENSOR(ctx, fv_cast(ctx, x, FV_I32), FV_I32, SHAPE(6), 2, -2, INT32_MAX, INT32_MIN, 0,
                 300);
    CHECK_TENSOR(ctx, fv_cast(ctx, x, FV_U8), FV_U8, SHAPE(6), 2, 0, 255, 0, 0, 255);
    CHECK_TENSOR(ctx, fv_cast(ctx, x, FV_F16), FV_F16, SHAPE(6), 0x1.734p+1, -0x1.734p+1, inf, -inf,
                 NAN, 300);
    CHECK_TENSOR(ctx, fv_cast(ctx, TENSOR(ctx, FV_F32, SHAPE(2), 1 + 0x1p-8, 1 + 0x3p-8), FV_BF16),
                 FV_BF16, SHAPE(2), 1, 1 + 0x1p-6);
    fv_tensor *strided = fv_transpose(ctx, six(ctx), 0, 1);
    CHECK_TENSOR(ctx, fv_cast(ctx, strided, FV_I64), FV_I64, SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    CHECK_EMPTY(ctx, fv_cast(ctx, values_none(ctx, FV_F32, SHAPE(0)), FV_F16), FV_F16, SHAPE(0));
    CHECK_REFUSED(ctx, fv_cast(ctx, x, FV_DTYPE_COUNT), FV_ERR_DTYPE, "cast: unknown dtype");
    CHECK_REFUSED(ctx, fv_cast(ctx, NULL, FV_F32), FV_ERR_ARGUMENT, "cast: input 0");
    values_end(&ctx);
}

static void gradients_pass_through_floats_only(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, TENSOR(ctx, FV_F32, SHAPE(2), 1.5, 2.5));
    static const fv_dtype floats[] = {FV_F32, FV_F64, FV_BF16, FV_F16};
    for (int i = 0; i < 4; i++) {
        fv_tensor *there = fv_cast(ctx, x, floats[i]);
        values_backward(ctx, fv_scale(ctx, fv_cast(ctx, there, FV_F32), 3));
        CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(2), 3, 3);
        fv_zero_grad(ctx, x);
    }
    fv_tensor *whole = fv_cast(ctx, fv_cast(ctx, x, FV_I64), FV_F32);
    CHECK_TENSOR(ctx, whole, FV_F32, SHAPE(2), 1, 2);
    CHECK_EQ(fv_backward_from(ctx, whole, whole), FV_ERR_STATE);
    values_end(&ctx);
}

/* Views of views of a leaf, forth and back. */
static void layouts_compose(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *x = fv_leaf(ctx, values_counting(ctx, FV_F32, SHAPE(2, 6)));
    fv_tensor *y = fv_reshape(ctx, x, 3, (int64_t[]){2, 3, 2});
    y = fv_permute(ctx, y, (int[]){2, 1, 0});   /* [2,3,2]: y[c,b,a] = x[a, 2b + c] */
    y = fv_slice(ctx, y, 1, 0, 3, 2);           /* b is 0 or 2 */
    y = fv_reshape(ctx, y, 1, (int64_t[]){-1}); /* a copy: c, b, a */
    CHECK_TENSOR(ctx, y, FV_F32, SHAPE(8), 0, 6, 4, 10, 1, 7, 5, 11);
    CHECK_OK(ctx, fv_backward_from(ctx, y, TENSOR(ctx, FV_F32, SHAPE(8), 1, 2, 3, 4, 5, 6, 7, 8)));
    CHECK_TENSOR(ctx, fv_grad(ctx, x), FV_F32, SHAPE(2, 6), 1, 5, 0, 0, 3, 7, 2, 6, 0, 0, 4, 8);
    values_end(&ctx);
}

static void all(void)
{
    RUN(reshape_views);
    RUN(reshape_of_a_view_copies_only_if_it_must);
    RUN(reshape_keeps_the_order);
    RUN(reshape_refuses);
    RUN(axes_of_size_one_come_and_go);
    RUN(permute_reorders_axes);
    RUN(broadcast_repeats);
    RUN(slices_count_like_python);
    RUN(slice_edges);
    RUN(slices_of_one_tensor_add_their_gradients);
    RUN(split_cuts_an_axis);
    RUN(concat_joins);
    RUN(concat_refuses);
    RUN(concat_sends_each_its_part);
    RUN(stack_makes_an_axis);
    RUN(pad_surrounds);
    RUN(roll_goes_round);
    RUN(contiguous_copies_only_what_is_not);
    RUN(casts_round_and_saturate);
    RUN(gradients_pass_through_floats_only);
    RUN(layouts_compose);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    all();
    values_device(FV_DEVICE_GUARDED); /* once more, with late launches and unreadable memory */
    all();
    return TEST_END();
}
