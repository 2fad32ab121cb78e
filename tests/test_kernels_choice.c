/*
 * Kernels that follow or make indices and random numbers: loss, top-k, sampling, gathers, scatters,
 * dropout. Faults must name the index and leave zeros.
 */
#include "base/rng.h"
#include "kernels/index.h"
#include "kernels/random.h"
#include "kernels/rows.h"
#include "support/kernels.h"

/* ---- cross-entropy ---------------------------------------------------------------- */

static void check_loss(fv_dtype dtype, double smoothing, unsigned dropped)
{
    enum { ROWS = 5, COLS = 23 };
    const vec x = vec_random(dtype, ROWS * COLS, -4, 4), target = VEC_OF(FV_I64, 0, 22, 7, -100, 3);
    const vec loss = vec_new(dtype, ROWS), lse = vec_new(dtype, ROWS), dx = vec_new(dtype, x.n);
    const vec scale = VEC_OF(dtype, 1.5, 0.25);
    const fv_cross_entropy_args a = {
        .rows = ROWS, .cols = COLS, .ignore = -100, .smoothing = smoothing};
    CHECK(!kernel_run(FV_KERNEL_CROSS_ENTROPY, dtype,
                      PTRS(loss.data, lse.data, x.data, target.data), &a));
    setup.dropped = dropped;
    kernel_run(FV_KERNEL_CROSS_ENTROPY_GRAD, dtype,
               PTRS(dx.data, x.data, lse.data, target.data, scale.data), &a);
    setup.dropped = 0;
    for (int64_t row = 0; row < ROWS; row++) {
        const int64_t t = (int64_t)vec_get(target, row);
        double exps = 0, sum = 0;
        for (int64_t j = 0; j < COLS; j++) {
            exps += exp(vec_get(x, row * COLS + j));
            sum += vec_get(x, row * COLS + j);
        }
        if (t < 0) {
            CHECK_VALUE(loss, row, 0);
        } else {
            CHECK_VALUE(lse, row, log(exps));
            CHECK_VALUE(loss, row,
                        (1 - smoothing) * (log(exps) - vec_get(x, row * COLS + t)) +
                            smoothing * (log(exps) - sum / COLS));
        }
        for (int64_t j = 0; j < COLS; j++) {
            double d = 0;
            if (!(dropped & 1)) d += exp(vec_get(x, row * COLS + j)) / exps;
            if (!(dropped & 2)) d -= (1 - smoothing) * (j == t);
            if (!(dropped & 4)) d -= smoothing / COLS;
            CHECK_VALUE(dx, row * COLS + j, t < 0 ? 0 : 1.5 * 0.25 * d);
        }
    }
}

static void losses(fv_dtype dtype)
{
    check_loss(dtype, 0, 0);
    check_loss(dtype, 0.1, 0);
    for (unsigned term = 1; term <= 4; term *= 2)
        check_loss(dtype, 0.1, term);
    /* a masked class does not spoil an unsmoothed row; a target outside is a fault */
    const vec x = VEC_OF(dtype, 0, -INFINITY, 0, 1, 1, 1), target = VEC_OF(FV_I64, 0, 3);
    const vec loss = vec_new(dtype, 2), lse = vec_new(dtype, 2), dx = vec_new(dtype, 6);
    const fv_cross_entropy_args a = {.rows = 2, .cols = 3, .ignore = -100};
    fv_fault fault = {0};
    CHECK(kernel_run_fault(FV_KERNEL_CROSS_ENTROPY, dtype,
                           PTRS(loss.data, lse.data, x.data, target.data), &a, &fault));
    CHECK(fault.index == 3 && fault.bound == 3);
    CHECK_VALUE(loss, 0, log(2));
    CHECK_VALUE(loss, 1, 0);
    const vec scale = VEC_OF(dtype, 1, 1);
    CHECK(kernel_run(FV_KERNEL_CROSS_ENTROPY_GRAD, dtype,
                     PTRS(dx.data, x.data, lse.data, target.data, scale.data), &a));
    CHECK_VALUE(dx, 0, -0.5);
    CHECK_VALUE(dx, 1, 0);
    CHECK_VALUE(dx, 4, 0);
}

static void loss_test(void) { for_reals(losses); }

/* ---- choices ----------------------------------------------------------------------- */

static void check_topk(fv_dtype dtype, vec x, int64_t k, bool smallest)
{
    const vec value = vec_new(dtype, k), index = vec_new(FV_I64, k);
    const fv_topk_args a = {.rows = 1, .cols = x.n, .k = k, .smallest = smallest};
    kernel_run(FV_KERNEL_TOPK, dtype, PTRS(value.data, index.data, x.data), &a);
    bool taken[64] = {false};
    for (int64_t place = 0; place < k; place++) { /* selection by scanning: the first best left */
        int64_t best = -1;
        for (int64_t j = 0; j < x.n; j++) {
            const double v = vec_get(x, j), b = best < 0 ? 0 : vec_get(x, best);
            const bool greater = isnan(v) ? !isnan(b) : v > b, less = isnan(b) ? !isnan(v) : v < b;
            if (!taken[j] && (best < 0 || (smallest ? less : greater))) best = j;
        }
        taken[best] = true;
        CHECK_EQ((int64_t)vec_get(index, place), best);
        CHECK_VALUE(value, place, vec_get(x, best));
    }
}

static void topk_choices(fv_dtype dtype)
{
    const double inf = INFINITY;
    const vec special = VEC_OF(dtype, 3, NAN, 3, -inf, inf, 1, NAN, 1, 3);
    for (int64_t k = 0; k <= 9; k++) {
        check_topk(dtype, special, k, false);
        check_topk(dtype, special, k, true);
    }
    const vec x = vec_random(dtype, 61, -3, 3);
    for (int64_t i = 0; i < x.n; i++)
        vec_set(x, i, floor(vec_get(x, i))); /* many ties */
    check_topk(dtype, x, 1, false);
    check_topk(dtype, x, 17, false);
    check_topk(dtype, x, 61, true);
}

static void topk_test(void) { for_reals(topk_choices); }

static void samples(fv_dtype dtype)
{
    enum { DRAWS = 20000 };
    const vec weight = VEC_OF(dtype, 0, 1, 0, 3, 4, 0), index = vec_new(FV_I64, DRAWS);
    const fv_multinomial_args a = {.rows = 1, .cols = 6, .samples = DRAWS, .draw = {.key = 42}};
    CHECK(!kernel_run(FV_KERNEL_MULTINOMIAL, dtype, PTRS(index.data, weight.data), &a));
    int64_t count[6] = {0};
    for (int64_t s = 0; s < DRAWS; s++) {
        uint32_t word[4];
        fv_rng_draw(42, 0, (uint64_t)s / 4, word);
        const double u = (double)fv_rng_unit(word[s % 4]) * 8;
        CHECK_EQ((int64_t)vec_get(index, s), u < 1 ? 1 : u < 4 ? 3 : 4);
        count[(int64_t)vec_get(index, s)]++;
    }
    CHECK(count[0] == 0 && count[2] == 0 && count[5] == 0);
    CHECK_NEAR(count[3], DRAWS * 3 / 8, 5 * sqrt(DRAWS * 15.0 / 64)); /* five deviations */
    static const double bad[4][2] = {{0, 0}, {NAN, 1}, {INFINITY, 1}, {-1, 0.5}};
    for (int k = 0; k < 4; k++) {
        const vec w = VEC_OF(dtype, 1, 1, bad[k][0], bad[k][1]), out = vec_new(FV_I64, 2);
        const fv_multinomial_args two = {.rows = 2, .cols = 2, .samples = 1};
        fv_fault fault = {0};
        CHECK(kernel_run_fault(FV_KERNEL_MULTINOMIAL, dtype, PTRS(out.data, w.data), &two, &fault));
        CHECK(fault.index == 1 && fault.bound == 0 && vec_get(out, 1) == 0);
    }
}

static void multinomial_test(void) { for_reals(samples); }

/* ---- gathers and scatters ----------------------------------------------------------- */

static void row_indices(fv_dtype dtype)
{
    enum { OUTER = 2, ROWS = 5, COLS = 19, COUNT = 4 };
    const vec table = vec_random(dtype, OUTER * ROWS * COLS, -1, 1);
    const vec index = VEC_OF(FV_I64, 3, 0, 3, 4), out = vec_new(dtype, OUTER * COUNT * COLS);
    fv_rows_index_args a = {
        .outer = OUTER, .count = COUNT, .rows = ROWS, .cols = COLS, .padding_index = -1};
    CHECK(!kernel_run(FV_KERNEL_GATHER_ROWS, dtype, PTRS(out.data, table.data, index.data), &a));
    const vec sum = vec_copy(table);
    a.padding_index = 0;
    CHECK(!kernel_run(FV_KERNEL_INDEX_ADD, dtype, PTRS(sum.data, out.data, index.data), &a));
    for (int64_t o = 0; o < OUTER; o++) {
        for (int64_t c = 0; c < COLS; c++) {
            for (int64_t i = 0; i < COUNT; i++)
                CHECK_VALUE(out, (o * COUNT + i) * COLS + c,
                            vec_get(table, (o * ROWS + (int64_t)vec_get(index, i)) * COLS + c));
            for (int64_t r = 0; r < ROWS; r++) { /* row 0 is skipped, row 3 is added twice */
                const double times = r == 3 ? 3 : r == 4 ? 2 : 1;
                const int64_t at = (o * ROWS + r) * COLS + c;
                CHECK_VALUE(sum, at, times * vec_get(table, at));
            }
        }
    }
    const vec wrong = VEC_OF(FV_I64, 1, 5, -1, 2);
    fv_fault fault = {0};
    a.padding_index = -1; /* means none: an index of -1 is still wrong */
    CHECK(kernel_run_fault(FV_KERNEL_GATHER_ROWS, dtype, PTRS(out.data, table.data, wrong.data), &a,
                           &fault));
    CHECK(fault.index == 5 && fault.bound == ROWS);
    for (int64_t c = 0; c < COLS; c++) {
        CHECK_VALUE(out, COLS + c, 0);
        CHECK_VALUE(out, 2 * COLS + c, 0);
        CHECK_VALUE(out, 3 * COLS + c, vec_get(table, 2 * COLS + c));
    }
    const vec before = vec_copy(sum), only_wrong = VEC_OF(FV_I64, -1, 5, 6, 1e18);
    CHECK(kernel_run(FV_KERNEL_INDEX_ADD, dtype, PTRS(sum.data, out.data, only_wrong.data), &a));
    CHECK(vec_same_bits(sum, before));
}

static void rows_index_test(void) { for_reals(row_indices); }

/* Gathers of every element size. */
static void gathers_move_any_dtype(void)
{
    kernel_level(FV_SIMD_SCALAR);
    static const fv_dtype kinds[] = {FV_U8, FV_I32, FV_I64};
    const vec index = VEC_OF(FV_I64, 2, 9, 0);
    const fv_rows_index_args rows = {
        .outer = 1, .count = 3, .rows = 3, .cols = 2, .padding_index = -1};
    const fv_gather_args axis = {.outer = 1, .size = 6, .count = 3, .inner = 1};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const vec x = VEC_OF(kinds[k], 1, 2, 3, 4, 5, 6), out = vec_new(kinds[k], 6);
        CHECK(
            kernel_run(FV_KERNEL_GATHER_ROWS, kinds[k], PTRS(out.data, x.data, index.data), &rows));
        CHECK(vec_same_bits(out, VEC_OF(kinds[k], 5, 6, 0, 0, 1, 2)));
        const vec few = vec_new(kinds[k], 3);
        CHECK(kernel_run(FV_KERNEL_GATHER, kinds[k], PTRS(few.data, x.data, index.data), &axis));
        CHECK(vec_same_bits(few, VEC_OF(kinds[k], 3, 0, 1)));
    }
    uint16_t half[3] = {10, 20, 30}, out[3];
    const fv_gather_args three = {.outer = 1, .size = 3, .count = 3, .inner = 1};
    CHECK(kernel_run(FV_KERNEL_GATHER, FV_BF16, PTRS(out, half, index.data), &three));
    CHECK(out[0] == 30 && out[1] == 0 && out[2] == 10);
    vec_free_all();
}

static void axis_indices(fv_dtype dtype)
{
    enum { OUTER = 2, SIZE = 4, COUNT = 3, INNER = 21 };
    const vec in = vec_random(dtype, OUTER * SIZE * INNER, -1, 1);
    const vec index = vec_random(FV_I64, OUTER * COUNT * INNER, 0, SIZE);
    const vec out = vec_new(dtype, index.n), sum = vec_copy(in);
    const fv_gather_args a = {.outer = OUTER, .size = SIZE, .count = COUNT, .inner = INNER};
    CHECK(!kernel_run(FV_KERNEL_GATHER, dtype, PTRS(out.data, in.data, index.data), &a));
    CHECK(!kernel_run(FV_KERNEL_SCATTER_ADD, dtype, PTRS(sum.data, out.data, index.data), &a));
    double expected[OUTER * SIZE * INNER];
    for (int64_t i = 0; i < in.n; i++)
        expected[i] = vec_get(in, i);
    for (int64_t i = 0; i < index.n; i++) {
        const int64_t o = i / (COUNT * INNER), c = i % INNER;
        const int64_t at = (o * SIZE + (int64_t)vec_get(index, i)) * INNER + c;
        CHECK_VALUE(out, i, vec_get(in, at));
        expected[at] += vec_get(in, at);
    }
    for (int64_t i = 0; i < in.n; i++)
        CHECK_VALUE(sum, i, expected[i]);
    vec_set(index, 5, SIZE);
    fv_fault fault = {0};
    CHECK(
        kernel_run_fault(FV_KERNEL_GATHER, dtype, PTRS(out.data, in.data, index.data), &a, &fault));
    CHECK(fault.index == SIZE && fault.bound == SIZE && vec_get(out, 5) == 0);
    CHECK(kernel_run(FV_KERNEL_SCATTER_ADD, dtype, PTRS(sum.data, out.data, index.data), &a));
    const vec hot = vec_new(dtype, 6), classes = VEC_OF(FV_I64, 2, 3);
    const fv_one_hot_args h = {.count = 2, .classes = 3};
    CHECK(kernel_run(FV_KERNEL_ONE_HOT, dtype, PTRS(hot.data, classes.data), &h));
    CHECK(vec_same_bits(hot, VEC_OF(dtype, 0, 0, 1, 0, 0, 0)));
}

static void axis_index_test(void) { for_reals(axis_indices); }

/* ---- random -------------------------------------------------------------------------- */

static void dropouts(fv_dtype dtype)
{
    enum { ROWS = 3, COLS = 2050 };
    const vec x = vec_random(dtype, ROWS * COLS, 1, 2), y = vec_new(dtype, x.n);
    fv_dropout_args a = {.rows = ROWS, .cols = COLS, .draw = {.key = 7, .first = 5}, .p = 0.3};
    kernel_run(FV_KERNEL_DROPOUT, dtype, PTRS(y.data, x.data), &a);
    int64_t kept = 0;
    for (int64_t i = 0; i < x.n; i++) {
        uint32_t word[4];
        fv_rng_draw(7, 5 + (uint64_t)(i / COLS), (uint64_t)(i % COLS) / 4, word);
        const bool keep = (double)fv_rng_unit(word[i % COLS % 4]) >= 0.3;
        CHECK_VALUE(y, i, keep ? vec_get(x, i) / 0.7 : 0);
        kept += keep;
    }
    CHECK_NEAR(kept, 0.7 * (double)x.n, 5 * sqrt(0.21 * (double)x.n));
    /* the second row alone, drawn as row 1 of the batch: a split batch is the whole batch */
    const vec alone = vec_new(dtype, COLS);
    void *second = (char *)x.data + COLS * fv_dtype_size(dtype);
    fv_dropout_args one_row = a;
    one_row.rows = 1;
    one_row.draw.first = 6;
    kernel_run(FV_KERNEL_DROPOUT, dtype, PTRS(alone.data, second), &one_row);
    for (int64_t j = 0; j < COLS; j++)
        CHECK(vec_get(alone, j) == vec_get(y, COLS + j));
    vec_set(x, 0, NAN);
    a.p = 1;
    kernel_run(FV_KERNEL_DROPOUT, dtype, PTRS(y.data, x.data), &a);
    for (int64_t i = 0; i < x.n; i++)
        CHECK(vec_get(y, i) == 0);
    a.p = 0;
    kernel_run(FV_KERNEL_DROPOUT, dtype, PTRS(y.data, x.data), &a);
    CHECK(vec_get(y, 1) == vec_get(x, 1) && isnan(vec_get(y, 0)));
}

static void dropout_test(void) { for_reals(dropouts); }

static void numbers(fv_dtype dtype)
{
    enum { N = 40000 };
    const vec out = vec_new(dtype, N);
    fv_random_args a = {.rows = 4, .cols = N / 4, .draw = {.key = 11}, .lo = -2, .hi = 6};
    kernel_run(FV_KERNEL_RANDOM, dtype, PTRS(out.data), &a);
    double sum = 0, squares = 0, cubes = 0;
    for (int64_t i = 0; i < N; i++) {
        CHECK(vec_get(out, i) >= -2 && vec_get(out, i) <= 6);
        sum += vec_get(out, i);
    }
    CHECK_NEAR(sum / N, 2, 5 * 8 / sqrt(12.0 * N));
    a.normal = true;
    a.lo = 3;
    a.hi = 2;
    kernel_run(FV_KERNEL_RANDOM, dtype, PTRS(out.data), &a);
    sum = 0;
    for (int64_t i = 0; i < N; i++) {
        const double z = (vec_get(out, i) - 3) / 2;
        sum += z;
        squares += z * z;
        cubes += z * z * z;
    }
    CHECK_NEAR(sum / N, 0, 5 / sqrt(N));
    CHECK_NEAR(squares / N, 1, 5 * sqrt(2.0 / N));
    CHECK_NEAR(cubes / N, 0, 5 * sqrt(15.0 / N));
    uint32_t word[4];
    fv_rng_draw(11, 1, 2, word);
    const double radius = sqrt(-2 * log(1 - (double)fv_rng_unit(word[2])));
    const double angle = 2 * M_PI * (double)fv_rng_unit(word[3]);
    CHECK_VALUE(out, N / 4 + 10, 3 + 2 * radius * cos(angle));
    CHECK_VALUE(out, N / 4 + 11, 3 + 2 * radius * sin(angle));
}

static void random_test(void) { for_reals(numbers); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(loss_test);
    RUN(topk_test);
    RUN(multinomial_test);
    RUN(rows_index_test);
    RUN(gathers_move_any_dtype);
    RUN(axis_index_test);
    RUN(dropout_test);
    RUN(random_test);
    return TEST_END();
}
