/*
 * Every vector kernel against the reference, bit for bit (a NaN equals a NaN): lengths around the
 * 16 lanes and the 64 of an unrolled step, empty and odd ones, strides, in place, special values,
 * dropped terms, 1 to 8 threads, and outputs large enough to be written around the cache.
 *
 * Operands end at an unreadable page (and start where that leaves them, rarely aligned), so that
 * a read or write past an end is a crash; a second run has them aligned to 64 bytes.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/optim.h"
#include "kernels/random.h"
#include "kernels/recurrent.h"
#include "kernels/reduce.h"
#include "kernels/rows.h"
#include "support/kernels.h"

enum { SLOTS = FV_KERNEL_MAX_PTR, SLOT_BYTES = 64 << 20, MAX_THREADS = 8 };

static const int64_t sizes[] = {0,  1,  2,  7,  8,   9,   15,  16,  17,   31,   32,
                                33, 63, 64, 65, 127, 128, 129, 500, 1025, 4097, 9001};
enum { SIZES = sizeof sizes / sizeof *sizes };

static char *slot_end[SLOTS];
static fv_kernel_table tables[FV_SIMD_AMX + 1];
static fv_pool *pools[MAX_THREADS + 1];
static long compared;

typedef struct launch {
    fv_kernel_id id;
    const void *args;
    int outs;       /* the first pointers are results, or are changed in place */
    int alias;      /* result 0 is the same memory as this pointer; 0: none */
    vec ptr[SLOTS]; /* data NULL: not given */
    unsigned dropped;
} launch;

static size_t vec_bytes(vec v) { return (size_t)v.n * fv_dtype_size(v.dtype); }

/* Runs with every operand copied to its slot; the results are copied to out[]. */
static void run(const launch *l, fv_simd level, int threads, bool aligned, void **out)
{
    void *ptr[SLOTS] = {0};
    for (int p = 0; p < SLOTS; p++) {
        if (!l->ptr[p].data) continue;
        const size_t bytes = vec_bytes(l->ptr[p]);
        ptr[p] = slot_end[p] - (aligned ? (bytes + 63) / 64 * 64 : bytes);
        memcpy(ptr[p], l->ptr[p].data, bytes);
    }
    if (l->alias) ptr[0] = ptr[l->alias];
    setup.table = tables[level];
    setup.pool = pools[threads];
    setup.dropped = l->dropped;
    kernel_run(l->id, FV_F32, ptr, l->args);
    for (int p = 0; p < l->outs; p++)
        if (ptr[p]) memcpy(out[p], ptr[p], vec_bytes(l->ptr[p]));
}

static bool same(vec like, const void *a, const void *b, int64_t *where)
{
    if (memcmp(a, b, vec_bytes(like)) == 0) return true;
    if (like.dtype != FV_F32) return false;
    const float *x = a, *y = b;
    for (int64_t i = 0; i < like.n; i++) {
        *where = i;
        if (memcmp(x + i, y + i, sizeof *x) != 0 && !(isnan(x[i]) && isnan(y[i]))) return false;
    }
    return true;
}

static void compare_outputs(const launch *l, fv_simd level, int threads, void **got, void **want)
{
    for (int p = 0; p < l->outs; p++) {
        int64_t at = 0;
        if (!l->ptr[p].data) continue;
        compared++;
        if (same(l->ptr[p], got[p], want[p], &at)) continue;
        const bool real = l->ptr[p].dtype == FV_F32;
        test_failed(__FILE__, __LINE__,
                    "%s (first argument %d), %s, %d threads: result %d of %lld differs at %lld: "
                    "%a, not %a",
                    fv_kernel_infos[l->id].name, *(const int *)l->args, fv_simd_name(level),
                    threads, p, (long long)l->ptr[p].n, (long long)at,
                    real ? (double)((float *)got[p])[at] : 0,
                    real ? (double)((float *)want[p])[at] : 0);
    }
}

static void check(launch l)
{
    static int rotating = 1;
    void *want[SLOTS] = {0}, *got[SLOTS] = {0};
    for (int p = 0; p < l.outs; p++) {
        want[p] = malloc(vec_bytes(l.ptr[p]) + 1);
        got[p] = malloc(vec_bytes(l.ptr[p]) + 1);
    }
    run(&l, FV_SIMD_SCALAR, 1, false, want);
    rotating = rotating % MAX_THREADS + 1;
    for (int level = FV_SIMD_AVX2; level <= (int)fv_simd_detect(); level++) {
        run(&l, (fv_simd)level, 1, false, got);
        compare_outputs(&l, (fv_simd)level, 1, got, want);
        run(&l, (fv_simd)level, rotating, true, got);
        compare_outputs(&l, (fv_simd)level, rotating, got, want);
    }
    for (int p = 0; p < l.outs; p++) {
        free(want[p]);
        free(got[p]);
    }
}

#define CHECK_KERNEL(kernel, arguments, count, ...)                                                \
    check((launch){                                                                                \
        .id = FV_KERNEL_##kernel, .args = &(arguments), .outs = (count), .ptr = {__VA_ARGS__}})
#define CHECK_IN_PLACE(kernel, arguments, input, ...)                                              \
    check((launch){.id = FV_KERNEL_##kernel,                                                       \
                   .args = &(arguments),                                                           \
                   .outs = 1,                                                                      \
                   .alias = (input),                                                               \
                   .ptr = {__VA_ARGS__}})
#define CHECK_TERMS(kernel, arguments, count, terms, ...)                                          \
    for (int term_ = 0; term_ < (terms); term_++)                                                  \
    check((launch){.id = FV_KERNEL_##kernel,                                                       \
                   .args = &(arguments),                                                           \
                   .outs = (count),                                                                \
                   .dropped = 1u << term_,                                                         \
                   .ptr = {__VA_ARGS__}})

/* Numbers of many magnitudes; `special` puts infinities, NaN, subnormals and zeros among them. */
static vec floats(int64_t n, bool special)
{
    static const float odd[] = {INFINITY, -INFINITY, NAN,       0.0f,  -0.0f,   1e-40f, -3e-42f,
                                1e38f,    -1e38f,    0x1p-126f, 88.8f, -103.9f, 1.0f,   -1.0f};
    const vec v = vec_random(FV_F32, n, -3, 3), pick = vec_random(FV_F32, n, 0, 1);
    for (int64_t i = 0; i < n; i++) {
        const double p = vec_get(pick, i);
        if (p < 0.1) vec_set(v, i, 12 * vec_get(v, i));
        if (special && p > 0.8) ((float *)v.data)[i] = odd[(int64_t)(p * 1e6) % 14];
    }
    return v;
}

static vec none(void) { return (vec){FV_F32, 0, NULL}; }
static vec results(int64_t n) { return vec_new(FV_F32, n); }

static vec indices(int64_t n, int64_t bound)
{
    const vec pick = vec_random(FV_F32, n, 0, 1), v = vec_new(FV_I64, n);
    for (int64_t i = 0; i < n; i++)
        vec_set(v, i, floor(vec_get(pick, i) * (double)bound));
    return v;
}

static vec flags(int64_t n)
{
    const vec pick = vec_random(FV_F32, n, 0, 1), v = vec_new(FV_U8, n);
    for (int64_t i = 0; i < n; i++)
        vec_set(v, i, vec_get(pick, i) < 0.5 ? 0 : 1 + floor(100 * vec_get(pick, i)));
    return v;
}

/* Runs body(n, special) for all sizes, with plain and with special values. */
static void for_sizes(void (*body)(int64_t n, bool special))
{
    for (int s = 0; s < SIZES; s++) {
        for (int special = 0; special < 2; special++) {
            body(sizes[s], special != 0);
            vec_free_all();
        }
    }
}

/* ---- elementwise ------------------------------------------------------------------ */

static fv_elementwise_args flat(int64_t n)
{
    return (fv_elementwise_args){
        .rank = 1, .shape = {n}, .stride = {{1}, {1}, {1}, {1}}, .alpha = -0.5, .beta = 1.25};
}

/* 2 x 5 x n over larger memory: out has gaps, a is transposed, b is a broadcast row or scalar. */
static fv_elementwise_args strided(int64_t n, bool scalar)
{
    return (fv_elementwise_args){
        .rank = 3,
        .shape = {2, 5, n},
        .stride = {{10 * n, 2 * n, 2}, {5 * n, 1, 5}, {0, 0, !scalar}, {0, 0, 3}},
        .alpha = -0.5,
        .beta = 1.25};
}

static void unary_ops(int64_t n, bool special)
{
    const vec x = floats(n, special), y = floats(n, special), g = floats(n, special);
    const vec out = results(n);
    fv_elementwise_args m = flat(n);
    for (m.op = 0; m.op < FV_UNARY_COUNT; m.op++) {
        CHECK_KERNEL(UNARY, m, 1, out, x);
        CHECK_IN_PLACE(UNARY, m, 1, out, x);
        CHECK_KERNEL(UNARY_GRAD, m, 1, out, g, x, y);
        CHECK_IN_PLACE(UNARY_GRAD, m, 1, out, g, x, y);
    }
}

static void binary_ops(int64_t n, bool special)
{
    const vec a = floats(n, special), b = floats(n, special), g = floats(n, special);
    const vec out = results(n), bytes = vec_new(FV_U8, n), cond = flags(n);
    fv_elementwise_args m = flat(n);
    for (m.op = 0; m.op < FV_BINARY_COUNT; m.op++) {
        CHECK_KERNEL(BINARY, m, 1, out, a, b);
        CHECK_IN_PLACE(BINARY, m, 2, out, a, b);
        for (m.which = 0; m.which < 2; m.which++)
            CHECK_KERNEL(BINARY_GRAD, m, 1, out, g, a, b);
    }
    for (m.op = 0; m.op < FV_COMPARE_COUNT; m.op++)
        CHECK_KERNEL(COMPARE, m, 1, bytes, a, b);
    CHECK_KERNEL(SELECT, m, 1, out, cond, a, b);
    CHECK_KERNEL(SELECT, m, 1, out, cond, none(), b);
    CHECK_KERNEL(SELECT, m, 1, out, cond, a, none());
}

static void strided_ops(int64_t n, bool special)
{
    const int64_t all = 10 * n;
    const vec a = floats(all, special), b = floats(n + 1, special), c = floats(3 * n + 1, special);
    const vec out = results(2 * all), bytes = vec_new(FV_U8, 2 * all), cond = flags(all);
    for (int scalar = 0; scalar < 2; scalar++) {
        fv_elementwise_args m = strided(n, scalar != 0);
        m.op = FV_UNARY_GELU;
        CHECK_KERNEL(UNARY, m, 1, out, a);
        CHECK_KERNEL(UNARY_GRAD, m, 1, out, a, b, none());
        m.op = FV_BINARY_DIV;
        CHECK_KERNEL(BINARY, m, 1, out, a, b);
        m.which = 1;
        CHECK_KERNEL(BINARY_GRAD, m, 1, out, a, b, c);
        m.op = FV_COMPARE_LE;
        CHECK_KERNEL(COMPARE, m, 1, bytes, a, b);
        CHECK_KERNEL(SELECT, m, 1, out, cond, b, c);
        m.stride[0][0] = 5 * n; /* contiguous result, the usual broadcast */
        m.stride[0][1] = n;
        m.stride[0][2] = 1;
        m.op = FV_BINARY_ADD;
        CHECK_KERNEL(BINARY, m, 1, out, a, b);
    }
}

static void elementwise_kernels(void)
{
    for_sizes(unary_ops);
    for_sizes(binary_ops);
    for_sizes(strided_ops);
}

static void single_elements(void)
{
    const fv_elementwise_args m = {.op = FV_UNARY_EXP, .rank = 0};
    const vec a = floats(1, false), b = floats(1, false), out = results(1);
    CHECK_KERNEL(UNARY, m, 1, out, a);
    CHECK_KERNEL(BINARY, m, 1, out, a, b);
    vec_free_all();
}

/* ---- reductions ------------------------------------------------------------------- */

static void reduce_both(const fv_reduce_args *shape, int64_t outputs, int64_t all, bool special)
{
    const vec x = floats(all, special), g = floats(outputs, false), y = floats(outputs, special);
    const vec out = results(outputs), dx = results(all);
    fv_reduce_args a = *shape;
    int64_t total = 1;
    for (int axis = 0; axis < a.red_rank; axis++)
        total *= a.red_shape[axis];
    const vec where = indices(outputs, total);
    for (a.op = 0; a.op < FV_REDUCE_KINDS; a.op++) {
        CHECK_KERNEL(REDUCE, a, 2, out, where, x);
        CHECK_KERNEL(REDUCE, a, 1, out, none(), x);
        const bool chosen = a.op == FV_REDUCE_MAX || a.op == FV_REDUCE_MIN;
        if (a.op == FV_REDUCE_ARGMAX || a.op == FV_REDUCE_ARGMIN || (chosen && total == 0))
            continue;
        CHECK_KERNEL(REDUCE_GRAD, a, 1, dx, g, x, chosen ? where : y);
    }
}

static void reduce_shapes(int64_t n, bool special)
{
    const fv_reduce_args rows = {.out_rank = 1,
                                 .red_rank = 1,
                                 .out_shape = {3},
                                 .out_stride = {n},
                                 .red_shape = {n},
                                 .red_stride = {1},
                                 .alpha = 0.3};
    reduce_both(&rows, 3, 3 * n, special);
    const fv_reduce_args columns = {.out_rank = 1,
                                    .red_rank = 1,
                                    .out_shape = {n},
                                    .out_stride = {1},
                                    .red_shape = {19},
                                    .red_stride = {n},
                                    .alpha = 0.3};
    reduce_both(&columns, n, 19 * n, special);
    const fv_reduce_args whole = {
        .red_rank = 2, .red_shape = {2, n}, .red_stride = {n, 1}, .alpha = 1};
    reduce_both(&whole, 1, 2 * n, special);
    const fv_reduce_args outer_and_inner = {.out_rank = 2, /* sums over axes 0 and 2 of 4 */
                                            .red_rank = 2,
                                            .out_shape = {3, n},
                                            .out_stride = {2 * n, 1},
                                            .red_shape = {5, 2},
                                            .red_stride = {6 * n, n},
                                            .alpha = 1};
    reduce_both(&outer_and_inner, 3 * n, 30 * n, special);
    vec_free_all();
    const fv_reduce_args transposed = {.out_rank = 1,
                                       .red_rank = 1,
                                       .out_shape = {3},
                                       .out_stride = {1},
                                       .red_shape = {n},
                                       .red_stride = {3},
                                       .alpha = 0.3};
    reduce_both(&transposed, 3, 3 * n, special);
}

static void reductions(void) { for_sizes(reduce_shapes); }

/* The first of equal extremes counts, also when it is a zero of the other sign. */
static void first_extremes(void)
{
    const vec x = vec_new(FV_F32, 40), out = results(1), where = vec_new(FV_I64, 1);
    fv_reduce_args a = {.op = FV_REDUCE_MAX, .red_rank = 1, .red_shape = {40}, .red_stride = {1}};
    for (int first = 0; first < 39; first++) {
        for (int i = 0; i < 40; i++)
            vec_set(x, i, -1);
        vec_set(x, first, -0.0);
        vec_set(x, 39, 0.0);
        CHECK_KERNEL(REDUCE, a, 2, out, where, x);
    }
    vec_free_all();
}

/* ---- rows ------------------------------------------------------------------------- */

static void softmax_rows(int64_t n, bool special)
{
    const int64_t rows = 5, all = rows * n;
    const vec x = floats(all, special), y = floats(all, false), g = floats(all, special);
    const vec out = results(all);
    for (int64_t i = 0; i < n; i++) { /* one row of nothing but -inf, one far below zero */
        ((float *)x.data)[i] = -INFINITY;
        ((float *)x.data)[n + i] -= 1000;
    }
    for (int log = 0; log < 2; log++) {
        const fv_softmax_args a = {rows, n, log != 0};
        CHECK_KERNEL(SOFTMAX, a, 1, out, x);
        CHECK_IN_PLACE(SOFTMAX, a, 1, out, x);
        CHECK_KERNEL(SOFTMAX_GRAD, a, 1, out, y, g);
        CHECK_IN_PLACE(SOFTMAX_GRAD, a, 2, out, y, g);
        CHECK_TERMS(SOFTMAX_GRAD, a, 1, 2, out, y, g);
    }
}

static void norm_rows(int64_t n, bool special)
{
    const int64_t rows = 37, all = rows * n;
    const vec x = floats(all, special), g = floats(all, special), out = results(all);
    const vec gamma = floats(n, false), beta = floats(n, false), dgamma = floats(n, false);
    const vec mean = floats(rows, false), rstd = floats(rows, false);
    const vec means = results(rows), rstds = results(rows), dbeta = floats(n, false);
    fv_norm_args a = {rows, n, 1e-5, false};
    CHECK_KERNEL(LAYER_NORM, a, 3, out, means, rstds, x, gamma, beta);
    CHECK_KERNEL(LAYER_NORM, a, 1, out, none(), none(), x, none(), none());
    CHECK_KERNEL(LAYER_NORM_GRAD, a, 1, out, g, x, mean, rstd, gamma);
    CHECK_TERMS(LAYER_NORM_GRAD, a, 1, 3, out, g, x, mean, rstd, none());
    CHECK_KERNEL(RMS_NORM, a, 2, out, rstds, x, gamma);
    CHECK_KERNEL(RMS_NORM, a, 1, out, none(), x, none());
    CHECK_KERNEL(RMS_NORM_GRAD, a, 1, out, g, x, rstd, gamma);
    CHECK_TERMS(RMS_NORM_GRAD, a, 1, 2, out, g, x, rstd, none());
    CHECK_KERNEL(NORM_PARAM_GRAD, a, 2, dgamma, dbeta, g, x, mean, rstd);
    a.accumulate = true;
    CHECK_KERNEL(NORM_PARAM_GRAD, a, 2, dgamma, dbeta, g, x, none(), rstd);
    CHECK_KERNEL(NORM_PARAM_GRAD, a, 2, dgamma, none(), g, x, mean, rstd);
}

static void loss_rows(int64_t n, bool special)
{
    const int64_t rows = 6;
    const vec x = floats(rows * n, special), target = indices(rows, n), dx = results(rows * n);
    const vec loss = results(rows), lse = results(rows), known = floats(rows, false);
    const vec scale = VEC_OF(FV_F32, 0.7, 0.25);
    vec_set(target, 1, -100);
    vec_set(target, 2, (double)n + 3); /* a fault: both must give the same row */
    for (int smooth = 0; smooth < 2; smooth++) {
        const fv_cross_entropy_args a = {rows, n, -100, 0.1 * smooth};
        CHECK_KERNEL(CROSS_ENTROPY, a, 2, loss, lse, x, target);
        CHECK_KERNEL(CROSS_ENTROPY_GRAD, a, 1, dx, x, known, target, scale);
        CHECK_IN_PLACE(CROSS_ENTROPY_GRAD, a, 1, dx, x, known, target, scale);
        CHECK_TERMS(CROSS_ENTROPY_GRAD, a, 1, 3, dx, x, known, target, scale);
    }
}

static void rows_of_numbers(void)
{
    for_sizes(softmax_rows);
    for_sizes(norm_rows);
    for_sizes(loss_rows);
}

/* ---- indexed rows, cells, optimizers ------------------------------------------------ */

static void scatter_and_draw(int64_t n, bool special)
{
    const int64_t count = 11, rows = 4;
    const vec table = floats(2 * rows * n, special), in = floats(2 * count * n, special);
    const vec index = indices(count, rows + 1), out = results(2 * count * n); /* some faults */
    const vec kept = results(2 * rows * n);
    const fv_rows_index_args a = {2, count, rows, n, 1};
    CHECK_KERNEL(INDEX_ADD, a, 1, table, in, index);
    CHECK_KERNEL(GATHER_ROWS, a, 1, out, table, index);
    for (int p = 0; p <= 10; p++) {
        const fv_dropout_args d = {.rows = 2,
                                   .cols = rows * n,
                                   .draw = {.key = 0x123456789abcdefu, .first = (uint64_t)p << 31},
                                   .p = p * 0.1};
        CHECK_KERNEL(DROPOUT, d, 1, kept, table);
        CHECK_IN_PLACE(DROPOUT, d, 1, kept, table);
    }
}

static void cells(int64_t n, bool special)
{
    const int64_t batch = 3, all = batch * n;
    const fv_cell_args a = {batch, n};
    const vec x = floats(4 * all, special), h = floats(4 * all, special), s = floats(all, special);
    const vec up = floats(all, special), up_c = floats(all, false), c = floats(all, special);
    const vec o1 = results(all), o2 = results(all), wide = results(4 * all);
    CHECK_KERNEL(LSTM_CELL, a, 3, o1, o2, wide, x, h, s);
    CHECK_KERNEL(LSTM_CELL, a, 2, o1, o2, none(), x, none(), s);
    CHECK_KERNEL(LSTM_CELL_GRAD, a, 2, wide, o1, up, up_c, x, c, s);
    CHECK_KERNEL(LSTM_CELL_GRAD, a, 2, wide, o1, none(), up_c, x, c, s);
    CHECK_TERMS(LSTM_CELL_GRAD, a, 2, 6, wide, o1, up, none(), x, c, s);
    CHECK_KERNEL(GRU_CELL, a, 2, o1, wide, x, h, s);
    CHECK_KERNEL(GRU_CELL, a, 1, o1, none(), x, h, s);
    const vec dx = results(3 * all), dh = results(3 * all);
    CHECK_KERNEL(GRU_CELL_GRAD, a, 3, dx, dh, o1, up, x, s);
    CHECK_TERMS(GRU_CELL_GRAD, a, 3, 5, dx, dh, o1, up, x, s);
}

static void optimizers(int64_t n, bool special)
{
    const vec w = floats(n, special), g = floats(n, special), m = floats(n, special);
    const vec v = vec_random(FV_F32, n, 0, 2), u = vec_random(FV_F32, n, 0, 2);
    const vec sum = VEC_OF(FV_F64, 1.5);
    fv_optim_args a = {.n = n,
                       .lr = 0.01,
                       .momentum = 0.9,
                       .beta1 = 0.9,
                       .beta2 = 0.999,
                       .eps = 1e-8,
                       .correction1 = 0.19,
                       .correction2 = 0.002};
    const vec block = VEC_OF(FV_F64, 0, 0, 0, 0.9, 1, 0, 0, 0); /* open, scale 0.9 */
    for (int kind = 0; kind < 8; kind++) {
        a.weight_decay = kind & 1 ? 0.1 : 0;
        a.decoupled = a.nesterov = (kind & 2) != 0;
        a.first = (kind & 4) != 0;
        const vec copy = kind & 1 ? vec_new(FV_BF16, n) : none();
        CHECK_KERNEL(SGD, a, 5, w, g, block, copy, m);
        CHECK_KERNEL(SGD, a, 4, w, g, block, copy, none());
        CHECK_KERNEL(ADAM, a, 6, w, g, block, copy, m, v);
        CHECK_KERNEL(RMSPROP, a, 6, w, g, block, copy, v, m);
        CHECK_KERNEL(RMSPROP, a, 5, w, g, block, copy, v, none());
        CHECK_KERNEL(ADADELTA, a, 6, w, g, block, copy, v, u);
    }
    const vec x = floats(n, false);
    CHECK_KERNEL(SUMSQ, a, 1, sum, x);
}

static void other_kernels(void)
{
    for_sizes(scatter_and_draw);
    for_sizes(cells);
    for_sizes(optimizers);
}

/* ---- outputs past the cache ------------------------------------------------------- */

/* Some rows, the first and the last among them, hold nothing but -inf, or that and a NaN. */
static vec masked_rows(int64_t rows, int64_t cols)
{
    const vec x = floats(rows * cols, false);
    float *row = x.data;
    for (int64_t r = 0; r < rows; r++, row += cols) {
        if (r % 5 != 0 && r != rows - 1) continue;
        for (int64_t i = 0; i < cols; i++)
            row[i] = -INFINITY;
        if (r % 10 == 5) row[r % cols] = NAN;
    }
    return x;
}

static void streamed(void)
{
    enum { ROWS = 1543, COLS = 2053, LONG = 9001, N = ROWS * COLS };
    const vec x = floats(N, true), y = floats(N, false), out = results(N);
    fv_elementwise_args m = flat(N);
    m.op = FV_UNARY_GELU;
    CHECK_KERNEL(UNARY, m, 1, out, x);
    m.op = FV_BINARY_MUL;
    CHECK_KERNEL(BINARY, m, 1, out, x, y);
    const int64_t widths[] = {129, 1024, COLS, LONG}; /* rows that wait on the stack; longer ones */
    for (int shape = 0; shape < 4; shape++) {
        const int64_t cols = widths[shape], rows = N / cols;
        const vec mean = floats(rows, false), target = indices(rows, cols);
        const fv_norm_args norm = {rows, cols, 1e-5, false};
        const fv_cross_entropy_args loss = {rows, cols, -1, 0.1};
        fv_softmax_args a = {rows, cols, false};
        CHECK_KERNEL(SOFTMAX, a, 1, out, x);
        CHECK_KERNEL(SOFTMAX, a, 1, out, masked_rows(rows, cols));
        CHECK_KERNEL(SOFTMAX_GRAD, a, 1, out, y, x);
        a.log = true;
        CHECK_KERNEL(SOFTMAX, a, 1, out, x);
        CHECK_KERNEL(SOFTMAX_GRAD, a, 1, out, y, x);
        CHECK_KERNEL(LAYER_NORM, norm, 1, out, none(), none(), x, none(), none());
        CHECK_KERNEL(LAYER_NORM_GRAD, norm, 1, out, y, x, mean, mean, none());
        CHECK_KERNEL(RMS_NORM, norm, 1, out, none(), x, none());
        CHECK_KERNEL(RMS_NORM_GRAD, norm, 1, out, y, x, mean, none());
        CHECK_KERNEL(CROSS_ENTROPY_GRAD, loss, 1, out, x, mean, target, VEC_OF(FV_F32, 0.7, 0.25));
    }
    vec_free_all();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int p = 0; p < SLOTS; p++) {
        char *base = mmap(NULL, SLOT_BYTES + page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) return 1;
        slot_end[p] = base + SLOT_BYTES;
        if (mprotect(slot_end[p], page, PROT_NONE) != 0) return 1;
    }
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++)
        fv_kernel_table_register(&tables[level], (fv_simd)level);
    for (int threads = 2; threads <= MAX_THREADS; threads++)
        if (fv_pool_create(threads, &pools[threads]) != FV_OK) return 1;
    RUN(elementwise_kernels);
    RUN(single_elements);
    RUN(reductions);
    RUN(first_extremes);
    RUN(rows_of_numbers);
    RUN(other_kernels);
    RUN(streamed);
    for (int threads = 2; threads <= MAX_THREADS; threads++)
        fv_pool_destroy(&pools[threads]);
    printf("%ld results compared\n", compared);
    return TEST_END();
}
