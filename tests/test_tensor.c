/* Tensors by themselves: making, reading, writing, wrapping, scopes, empty ones. */
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "support/test.h"
#include "tensor/tensor.h"

static fv_ctx *ctx;

static void scalars_to_rank_eight(void)
{
    int64_t shape[9] = {2, 1, 3, 1, 2, 1, 1, 2, 1};
    for (int rank = 0; rank <= 8; rank++) {
        fv_tensor *t = fv_full(ctx, FV_F32, rank, shape, 3.0);
        int64_t count = 1;
        for (int i = 0; i < rank; i++)
            count *= shape[i];
        CHECK_EQ(fv_tensor_rank(t), rank);
        CHECK_EQ(fv_tensor_count(t), count);
        CHECK(fv_tensor_contiguous(t));
        float out[64];
        CHECK_OK(ctx, fv_tensor_read(ctx, t, out, (size_t)count * sizeof *out));
        for (int64_t i = 0; i < count; i++)
            CHECK(out[i] == 3.0f);
    }
    fv_zeros(ctx, FV_F32, 9, shape);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
    fv_zeros(ctx, FV_F32, -1, shape);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
}

static void impossible_shapes_are_refused(void)
{
    static const int64_t shapes[][3] = {{-1, 2, 3},
                                        {INT64_MAX, 2, 1},
                                        {(int64_t)1 << 40, (int64_t)1 << 40, 0},
                                        {(int64_t)1 << 61, 1, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        CHECK(!fv_tensor_valid(fv_empty(ctx, FV_F32, 3, shapes[i])));
        CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
    }
    fv_empty(ctx, FV_F32, 2, NULL);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
    CHECK(strstr(fv_ctx_message(ctx), "NULL") != NULL);
    fv_empty(ctx, (fv_dtype)55, 0, NULL);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_DTYPE);
    CHECK_EQ(fv_dtype_size((fv_dtype)55), 0);
    CHECK_STR(fv_dtype_name((fv_dtype)55), "?");
}

static void every_dtype_holds_values(void)
{
    for (int d = 0; d < FV_DTYPE_COUNT; d++) {
        fv_tensor *t = fv_full(ctx, (fv_dtype)d, 1, (int64_t[]){5}, 7.0);
        double x = 0;
        CHECK_OK(ctx, fv_tensor_item(ctx, fv_slice(ctx, t, 0, 3, 4, 1), &x));
        CHECK(x == 7.0);
    }
}

static void empty_tensors_are_ordinary(void)
{
    int64_t shape[] = {3, 0, 2};
    fv_tensor *t = fv_zeros(ctx, FV_F64, 3, shape);
    CHECK_EQ(fv_tensor_count(t), 0);
    CHECK(fv_tensor_contiguous(t));
    CHECK_OK(ctx, fv_tensor_read(ctx, t, NULL, 0));
    CHECK_OK(ctx, fv_tensor_write(ctx, t, NULL, 0));
    fv_tensor *w = fv_wrap(ctx, FV_F64, 3, shape, NULL, NULL);
    CHECK(fv_tensor_valid(w));
    fv_tensor *u = fv_add(ctx, fv_exp(ctx, t), w);
    CHECK_EQ(fv_tensor_count(fv_transpose(ctx, u, 0, 2)), 0);
    double sum = 1;
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_sum(ctx, u, 0, NULL, false), &sum));
    CHECK(sum == 0);
}

static void wrapped_memory_is_used_in_place(void)
{
    float data[12];
    for (int i = 0; i < 12; i++)
        data[i] = (float)i;
    int64_t shape[] = {3, 2}, strides[] = {4, 1};
    fv_tensor *t = fv_wrap(ctx, FV_F32, 2, shape, strides, data);
    CHECK(fv_tensor_data(t) == data);
    CHECK(!fv_tensor_contiguous(t));
    float out[6], in[6] = {10, 11, 12, 13, 14, 15};
    CHECK_OK(ctx, fv_tensor_read(ctx, t, out, sizeof out));
    CHECK(out[2] == 4.0f && out[5] == 9.0f);
    CHECK_OK(ctx, fv_tensor_write(ctx, t, in, sizeof in));
    CHECK(data[0] == 10.0f && data[4] == 12.0f && data[9] == 15.0f && data[2] == 2.0f);
    fv_wrap(ctx, FV_F32, 2, shape, (int64_t[]){4, -1}, data);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    fv_wrap(ctx, FV_F32, 2, shape, (int64_t[]){INT64_MAX, 1}, data);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    fv_wrap(ctx, FV_F32, 2, shape, NULL, NULL);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    fv_wrap(ctx, FV_F32, 1, (int64_t[]){2}, NULL, (char *)data + 1);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
}

static void sizes_must_match_exactly(void)
{
    fv_tensor *t = fv_zeros(ctx, FV_F32, 1, (int64_t[]){4});
    float out[8] = {9, 9, 9, 9, 9};
    CHECK_EQ(fv_tensor_read(ctx, t, out, 20), FV_ERR_ARGUMENT);
    CHECK(out[0] == 9); /* untouched */
    CHECK(strstr(fv_ctx_message(ctx), "16 bytes") != NULL);
    CHECK_EQ(fv_tensor_write(ctx, t, out, 12), FV_ERR_ARGUMENT);
    double x = 5;
    CHECK_EQ(fv_tensor_item(ctx, t, &x), FV_ERR_SHAPE);
    CHECK(x == 5);
    CHECK_EQ(fv_tensor_size(t, -1), 4);
    CHECK_EQ(fv_tensor_size(t, 3), 0);
}

static void scopes_free_and_keep(void)
{
    fv_memory_stats before, inside, after;
    fv_ctx_memory(ctx, &before);
    fv_scope_begin(ctx);
    int64_t n = 100000;
    fv_tensor *kept = NULL;
    for (int i = 0; i < 5; i++) {
        fv_tensor *t = fv_full(ctx, FV_F32, 1, &n, i);
        if (i == 3) kept = fv_scope_keep(ctx, t);
    }
    fv_ctx_memory(ctx, &inside);
    CHECK(inside.used_bytes >= before.used_bytes + 5 * 400000);
    fv_scope_end(ctx);
    fv_ctx_memory(ctx, &after);
    CHECK(after.used_bytes < before.used_bytes + 2 * 400000);
    double mean = 0;
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_mean(ctx, kept, 0, NULL, false), &mean));
    CHECK(mean == 3.0);
    fv_tensor_free(ctx, &kept);
    CHECK(kept == NULL);
    fv_tensor_free(ctx, &kept);
    for (int i = 0; i < 3; i++)
        fv_scope_end(ctx); /* more ends than begins do nothing */
    CHECK(fv_tensor_valid(fv_zeros(ctx, FV_F32, 0, NULL)));
}

/* Keeping needs no memory, so an error does not stop it: the handle stays good. */
static void keeping_works_after_an_error(void)
{
    fv_scope_begin(ctx);
    fv_tensor *kept = fv_slice(ctx, fv_full(ctx, FV_F32, 1, (int64_t[]){4}, 1.5), 0, 2, 4, 1);
    fv_add(ctx, kept, NULL);
    CHECK(fv_scope_keep(ctx, kept) == kept);
    fv_scope_end(ctx);
    CHECK(fv_ctx_take_error(ctx) != FV_OK);
    float out[2];
    CHECK_OK(ctx, fv_tensor_read(ctx, kept, out, sizeof out));
    CHECK(out[0] == 1.5f && out[1] == 1.5f);
    fv_tensor_free(ctx, &kept);
}

/* What a failed call made is not left behind in the scope. */
static void failed_calls_leave_nothing(void)
{
    fv_tensor *table = fv_zeros(ctx, FV_F32, 2, (int64_t[]){3, 1000});
    fv_tensor *index = fv_full(ctx, FV_I64, 1, (int64_t[]){10}, 7);
    fv_memory_stats before, after;
    fv_ctx_memory(ctx, &before);
    for (int i = 0; i < 3; i++) {
        fv_embedding(ctx, table, index, -1);
        CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_INDEX);
        fv_from_host(ctx, FV_F32, 1, (int64_t[]){1000}, NULL);
        CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    }
    fv_ctx_memory(ctx, &after);
    CHECK_EQ(after.used_bytes, before.used_bytes);
}

static void views_outlive_their_base(void)
{
    fv_scope_begin(ctx);
    fv_tensor *t = fv_full(ctx, FV_F32, 2, (int64_t[]){4, 4}, 2.5);
    fv_tensor *row = fv_slice(ctx, t, 0, 1, 2, 1);
    fv_tensor_free(ctx, &t);
    float out[4];
    CHECK_OK(ctx, fv_tensor_read(ctx, row, out, sizeof out));
    CHECK(out[3] == 2.5f);
    fv_scope_end(ctx);
}

static void other_contexts_are_refused(void)
{
    fv_ctx *other = NULL;
    CHECK_EQ(fv_ctx_create(NULL, &other), FV_OK);
    fv_tensor *theirs = fv_scalar(other, FV_F32, 1.0);
    fv_exp(ctx, theirs);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    fv_exp(ctx, NULL);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    fv_detach(ctx, theirs);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    fv_leaf(ctx, theirs);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    float x = 7;
    CHECK_EQ(fv_tensor_read(ctx, theirs, &x, sizeof x), FV_ERR_ARGUMENT);
    CHECK(x == 7);
    CHECK_EQ(fv_tensor_write(ctx, theirs, &x, sizeof x), FV_ERR_ARGUMENT);
    fv_ctx_destroy(&other);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(scalars_to_rank_eight);
    RUN(impossible_shapes_are_refused);
    RUN(every_dtype_holds_values);
    RUN(empty_tensors_are_ordinary);
    RUN(wrapped_memory_is_used_in_place);
    RUN(sizes_must_match_exactly);
    RUN(scopes_free_and_keep);
    RUN(keeping_works_after_an_error);
    RUN(failed_calls_leave_nothing);
    RUN(views_outlive_their_base);
    RUN(other_contexts_are_refused);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
