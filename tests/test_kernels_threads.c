/*
 * The same bits for any number of threads: every kernel at sizes that are split, with one, two,
 * three and four threads. Kernels that write in place start from the same bytes each time.
 */
#include "kernels/conv.h"
#include "kernels/elementwise.h"
#include "kernels/gemm.h"
#include "kernels/index.h"
#include "kernels/optim.h"
#include "kernels/random.h"
#include "kernels/recurrent.h"
#include "kernels/reduce.h"
#include "kernels/rows.h"
#include "support/kernels.h"

enum { ROWS = 311, COLS = 307, N = ROWS * COLS, MAX_OUT = 6 };

typedef struct launch {
    fv_kernel_id id;
    const void *args;
    int outs;                   /* the first pointers are results, or are changed in place */
    vec ptr[FV_KERNEL_MAX_PTR]; /* data NULL: not given */
} launch;

static fv_pool *pools[5];

static void run_once(const launch *l, fv_dtype dtype, fv_pool *pool, vec *out)
{
    void *ptr[FV_KERNEL_MAX_PTR] = {0};
    for (int p = 0; p < FV_KERNEL_MAX_PTR; p++)
        ptr[p] = l->ptr[p].data;
    for (int p = 0; p < l->outs; p++) {
        out[p] = vec_copy(l->ptr[p]);
        ptr[p] = out[p].data;
    }
    setup.pool = pool;
    kernel_run(l->id, dtype, ptr, l->args);
    setup.pool = NULL;
}

static void check_threads(fv_dtype dtype, launch l)
{
    vec serial[MAX_OUT], threaded[MAX_OUT];
    run_once(&l, dtype, NULL, serial);
    for (int threads = 2; threads <= 4; threads++) {
        run_once(&l, dtype, pools[threads], threaded);
        for (int p = 0; p < l.outs; p++)
            if (!vec_same_bits(serial[p], threaded[p]))
                test_failed(__FILE__, __LINE__, "%s: result %d differs with %d threads",
                            fv_kernel_infos[l.id].name, p, threads);
    }
}

#define THREADS(kernel, arguments, count, ...)                                                     \
    check_threads(dtype, (launch){.id = FV_KERNEL_##kernel,                                        \
                                  .args = &(arguments),                                            \
                                  .outs = (count),                                                 \
                                  .ptr = {__VA_ARGS__}})

/* Panels of a weight; the last one is padded. */
static void packing(fv_dtype dtype)
{
    enum { K = 130, PANELS = 11 };
    const fv_gemm_pack_args rows = {
        .k = K, .n = PANELS * FV_GEMM_PANEL - 3, .b_row = 701, .b_col = 1};
    const fv_gemm_pack_args columns = {.k = K, .n = rows.n, .b_row = 1, .b_col = K};
    const vec b = vec_random(dtype, K * 701, -1, 1);
    const vec packed = vec_new(dtype, K * PANELS * FV_GEMM_PANEL);
    if (dtype != FV_F32) return;
    THREADS(PACK, rows, 1, packed, b);
    THREADS(PACK, columns, 1, packed, b);
}

static void pack_test(void) { for_reals(packing); }

static void maps_and_reductions(fv_dtype dtype)
{
    const vec x = vec_random(dtype, N, 0.5, 2), g = vec_random(dtype, N, -1, 1);
    const vec out = vec_new(dtype, N), bytes = vec_new(FV_U8, N);
    const fv_elementwise_args m = {
        .op = FV_UNARY_EXP, .rank = 1, .shape = {N}, .stride = {{1}, {1}, {1}, {1}}, .alpha = 2};
    const fv_elementwise_args transposed = {.rank = 2,
                                            .shape = {ROWS, COLS},
                                            .stride = {{COLS, 1}, {1, ROWS}, {0, 1}, {1, 0}},
                                            .to = dtype,
                                            .from = dtype};
    THREADS(UNARY, m, 1, out, x);
    THREADS(UNARY_GRAD, m, 1, out, g, x, x);
    THREADS(BINARY, transposed, 1, out, x, g);
    THREADS(BINARY_GRAD, transposed, 1, out, x, g, x);
    THREADS(COMPARE, transposed, 1, bytes, x, g);
    THREADS(SELECT, m, 1, out, bytes, x, g);
    THREADS(COPY, transposed, 1, out, x);
    THREADS(FILL, transposed, 1, out);
    fv_reduce_args r = {.out_rank = 1,
                        .red_rank = 1,
                        .out_shape = {COLS},
                        .out_stride = {1},
                        .red_shape = {ROWS},
                        .red_stride = {COLS},
                        .alpha = 1};
    const vec few = vec_new(dtype, COLS), index = vec_new(FV_I64, COLS);
    const vec up = vec_random(dtype, COLS, -1, 1), where = vec_random(FV_I64, COLS, 0, ROWS);
    for (r.op = 0; r.op < FV_REDUCE_KINDS; r.op++) {
        const bool chosen = r.op == FV_REDUCE_MAX || r.op == FV_REDUCE_MIN;
        THREADS(REDUCE, r, 2, few, index, x);
        THREADS(REDUCE_GRAD, r, 1, out, up, x, chosen ? where : up);
    }
    const fv_cumsum_args c = {.rows = ROWS, .cols = COLS};
    THREADS(CUMSUM, c, 1, out, x);
}

static void map_test(void) { for_reals(maps_and_reductions); }

static void row_kernels(fv_dtype dtype)
{
    const vec x = vec_random(dtype, N, -2, 2), g = vec_random(dtype, N, -1, 1);
    const vec out = vec_new(dtype, N), row = vec_random(dtype, ROWS, 1, 2), row2 = vec_copy(row);
    const vec gamma = vec_random(dtype, COLS, 1, 2), beta = vec_random(dtype, COLS, -1, 1);
    const vec dgamma = vec_new(dtype, COLS), dbeta = vec_new(dtype, COLS);
    const fv_softmax_args s = {.rows = ROWS, .cols = COLS};
    THREADS(SOFTMAX, s, 1, out, x);
    THREADS(SOFTMAX_GRAD, s, 1, out, x, g);
    const fv_norm_args n = {.rows = ROWS, .cols = COLS, .eps = 1e-5};
    THREADS(LAYER_NORM, n, 3, out, row, row2, x, gamma, beta);
    THREADS(LAYER_NORM_GRAD, n, 1, out, g, x, row, row2, gamma);
    THREADS(RMS_NORM, n, 2, out, row, x, gamma);
    THREADS(RMS_NORM_GRAD, n, 1, out, g, x, row, gamma);
    THREADS(NORM_PARAM_GRAD, n, 2, dgamma, dbeta, g, x, row, row2);
    const fv_cross_entropy_args c = {.rows = ROWS, .cols = COLS, .ignore = -1, .smoothing = 0.1};
    const vec target = vec_random(FV_I64, ROWS, 0, COLS), scale = VEC_OF(dtype, 1, 0.5);
    THREADS(CROSS_ENTROPY, c, 2, row, row2, x, target);
    THREADS(CROSS_ENTROPY_GRAD, c, 1, out, x, row, target, scale);
    const fv_topk_args k = {.rows = ROWS, .cols = COLS, .k = 9};
    THREADS(TOPK, k, 2, vec_new(dtype, 9 * ROWS), vec_new(FV_I64, 9 * ROWS), x);
    const fv_multinomial_args d = {.rows = ROWS, .cols = COLS, .samples = 5, .draw = {.key = 3}};
    THREADS(MULTINOMIAL, d, 1, vec_new(FV_I64, 5 * ROWS), vec_random(dtype, N, 0, 1));
}

static void row_test(void) { for_reals(row_kernels); }

static void index_and_random(fv_dtype dtype)
{
    const vec table = vec_random(dtype, N, -1, 1), rows = vec_random(dtype, 900 * COLS, -1, 1);
    const vec index = vec_random(FV_I64, 900, 0, ROWS), each = vec_random(FV_I64, N, 0, ROWS);
    const vec out = vec_new(dtype, N);
    const fv_rows_index_args a = {
        .outer = 1, .count = 900, .rows = ROWS, .cols = COLS, .padding_index = 4};
    THREADS(GATHER_ROWS, a, 1, vec_copy(rows), table, index);
    THREADS(INDEX_ADD, a, 1, table, rows, index);
    const fv_gather_args b = {.outer = 1, .size = ROWS, .count = ROWS, .inner = COLS};
    THREADS(GATHER, b, 1, out, table, each);
    THREADS(SCATTER_ADD, b, 1, table, rows, each);
    const fv_one_hot_args h = {.count = 900, .classes = ROWS};
    THREADS(ONE_HOT, h, 1, vec_new(dtype, 900 * ROWS), index);
    const fv_dropout_args d = {.rows = 3, .cols = N / 3, .draw = {.key = 5}, .p = 0.4};
    THREADS(DROPOUT, d, 1, out, table);
    fv_random_args r = {.rows = ROWS, .cols = COLS, .draw = {.key = 9}, .hi = 1};
    THREADS(RANDOM, r, 1, out);
    r.normal = true;
    THREADS(RANDOM, r, 1, out);
}

static void index_test(void) { for_reals(index_and_random); }

static void cells_and_steps(fv_dtype dtype)
{
    const fv_cell_args c = {.batch = 64, .hidden = 70};
    const int64_t n = 64 * 70;
    const vec g4 = vec_random(dtype, 4 * n, -2, 2), g3 = vec_random(dtype, 3 * n, -2, 2);
    const vec s = vec_random(dtype, n, -1, 1), one = vec_new(dtype, n), two = vec_new(dtype, n);
    const vec out3 = vec_new(dtype, 3 * n), out4 = vec_new(dtype, 4 * n);
    THREADS(LSTM_CELL, c, 3, one, two, out4, g4, g4, s);
    THREADS(LSTM_CELL_GRAD, c, 2, out4, one, s, s, g4, s, s);
    THREADS(GRU_CELL, c, 2, one, out4, g3, g3, s);
    THREADS(GRU_CELL_GRAD, c, 3, out3, vec_new(dtype, 3 * n), one, s, g4, s);
    const fv_unfold_args u = {.batch = 4, .channels = 16, .length = 300, .k = 3, .dilation = 2};
    const vec x = vec_random(dtype, 4 * 16 * 300, -1, 1), wide = vec_random(dtype, 3 * x.n, -1, 1);
    THREADS(UNFOLD1D, u, 1, vec_copy(wide), x);
    THREADS(FOLD1D, u, 1, vec_copy(x), wide);
    const vec w = vec_random(dtype, N, -1, 1), g = vec_random(dtype, N, -1, 1);
    const vec m = vec_random(dtype, N, 0, 1), v = vec_random(dtype, N, 0, 1);
    const fv_optim_args o = {.n = N,
                             .lr = 0.1,
                             .momentum = 0.9,
                             .beta1 = 0.9,
                             .beta2 = 0.99,
                             .eps = 1e-8,
                             .correction1 = 0.1,
                             .correction2 = 0.01};
    const vec block = VEC_OF(FV_F64, 0, 0, 0, 1, 1, 0, 0, 0); /* open, scale 1 */
    const vec copy = vec_new(FV_BF16, N);
    THREADS(SGD, o, 5, w, g, block, copy, m);
    THREADS(ADAM, o, 6, w, g, block, copy, m, v);
    THREADS(RMSPROP, o, 6, w, g, block, copy, v, m);
    THREADS(ADADELTA, o, 6, w, g, block, copy, v, m);
    THREADS(SUMSQ, o, 1, VEC_OF(FV_F64, 1), w);
}

static void state_test(void) { for_reals(cells_and_steps); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    for (int threads = 2; threads <= 4; threads++)
        if (fv_pool_create(threads, &pools[threads]) != FV_OK) return 1;
    RUN(pack_test);
    RUN(map_test);
    RUN(row_test);
    RUN(index_test);
    RUN(state_test);
    for (int threads = 2; threads <= 4; threads++)
        fv_pool_destroy(&pools[threads]);
    return TEST_END();
}
