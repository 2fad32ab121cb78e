/*
 * The edges of attention, each with one answer on every level and in every storage: masks as
 * numbers, no queries or no keys, every width, subnormal numbers under either setting of the
 * processor, halves of which one or both are blind. (Hidden NaN, blind queries, one key and huge
 * scores are in test_attention_bits.c.)
 */
#include <float.h>

#include "support/attention.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define read_fp_state()       _mm_getcsr()
#define write_fp_state(state) _mm_setcsr(state)
enum { FLUSH = 0x8000 | 0x0040 }; /* results and operands below the normal range become 0 */
#elif defined(__aarch64__)
static unsigned read_fp_state(void)
{
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    return (unsigned)state;
}
static void write_fp_state(unsigned state)
{
    __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)state));
}
enum { FLUSH = 1 << 24 };
#else
#define read_fp_state()       0u
#define write_fp_state(state) ((void)(state))
enum { FLUSH = 0 };
#endif

/* ---- masks as numbers --------------------------------------------------------------- */

enum { MASK_Q = 20, MASK_K = 90, MASK_D = 12 };

/* A bias that is `hidden` where the pattern hides and 0 elsewhere. */
static problem with_numbers(const problem *pattern, double hidden)
{
    problem p = problem_again(pattern);
    problem_bias(&p, MASK_Q * MASK_K, 0, MASK_K, 1);
    for (int64_t i = 0; i < p.bias.n; i++)
        vec_set(p.bias, i, vec_get(pattern->visible, i) != 0 ? 0 : hidden);
    return p;
}

/* A byte of 0 and a bias of -inf are the same mask, to the bit, whatever the hidden keys hold;
 * query 3 sees nothing. */
static void same_masks(bool spoiled)
{
    problem pattern = problem_of(attn_heads(2, 2, 1, MASK_Q, MASK_K, MASK_D));
    problem_pattern(&pattern, 0.6);
    for (int64_t i = 0; i < pattern.visible.n; i++)
        if (i / MASK_K % MASK_Q == 3 || i % MASK_K % 73 == 7) vec_set(pattern.visible, i, 0);
    for (int64_t j = 7; spoiled && j < MASK_K; j += 73) {
        problem_spoil(&pattern, pattern.k, &pattern.a.k, j, MASK_D);
        problem_spoil(&pattern, pattern.v, &pattern.a.v, j, MASK_D);
    }
    const problem by_bytes = with_numbers(&pattern, 0);
    problem by_numbers = with_numbers(&pattern, -INFINITY);
    by_numbers.visible.data = NULL;
    run_forward(&by_bytes);
    run_forward(&by_numbers);
    CHECK(same_results(&by_bytes, &by_numbers));
    CHECK(vec_get(by_numbers.lse, 3) == -INFINITY && vec_get(by_numbers.o, 3 * MASK_D) == 0);
    run_backward(&by_bytes);
    run_backward(&by_numbers);
    CHECK(same_gradients(&by_bytes, &by_numbers));
    vec_free_all();
}

static void minus_infinity_at_level(void)
{
    same_masks(false);
    same_masks(true);
}
static void minus_infinity(void) { attn_every_storage(minus_infinity_at_level); }

/* The most negative number is a number: beside others it weighs nothing, but it hides nothing. */
static void finite_masks_at_level(void)
{
    problem p = problem_of(attn_sizes(3, 70, 8, 4)), some = problem_again(&p);
    problem_bias(&p, 0, 0, 0, 1);
    for (int64_t j = 0; j < 70; j++)
        vec_set(p.bias, j, j >= 40 ? (double)-FLT_MAX : 0);
    some.key_lengths = VEC_OF(FV_I64, 40);
    some.bias = p.bias;
    some.a.bias = p.a.bias;
    run_forward(&p);
    run_forward(&some);
    CHECK(same_results(&p, &some));
    vec_set(p.k, 69 * 8, NAN);
    run_forward(&p);
    CHECK(isnan(vec_get(p.o, 0)));
    p = problem_of(attn_sizes(18, 70, 8, 1)); /* alone it is a softmax like any other */
    problem_bias(&p, 0, 0, 0, 0);
    vec_set(p.bias, 0, (double)-FLT_MAX);
    run_forward(&p);
    double mean = 0;
    for (int64_t j = 0; j < 70; j++)
        mean += vec_get(p.v, j) / 70;
    for (int64_t i = 0; i < 18; i++)
        CHECK(vec_gap(p.o, i, mean) <= 0x1p-8 && isfinite(vec_get(p.lse, i)));
    vec_free_all();
}
static void finite_masks(void) { attn_every_storage(finite_masks_at_level); }

/* ---- sizes ------------------------------------------------------------------------- */

/* Every width up to the limit, each with another width of values; of bf16 and f16 a fifth. */
static void widths_in(fv_dtype dtype, int64_t begin, int64_t step)
{
    for (int64_t d = begin; d <= FV_ATTN_MAX_WIDTH; d += step) {
        fv_attn a = attn_sizes(d % 2 ? 9 : 3, 21, d, 1 + (d * 37 + 127) % FV_ATTN_MAX_WIDTH);
        if (d % 4 == 0) a.d_v = d;
        a.dtype = dtype;
        fv_attn_dense(&a);
        problem p = problem_of(a);
        check_forward("every width", &p);
        run_backward(&p);
        check_gradients("every width", &p);
        vec_free_all();
    }
}

static void widths_at_level(void)
{
    widths_in(FV_F32, 1, 1);
    widths_in(FV_BF16, 1, 9);
    widths_in(FV_BF16, 8, 8);
    widths_in(FV_F16, 1, 9);
    widths_in(FV_F16, 8, 8);
}
static void widths(void) { attn_every_level(widths_at_level); }

static void too_wide(void)
{
    size_t bytes = 1;
    fv_attn a = attn_sizes(4, 4, FV_ATTN_MAX_WIDTH + 1, 4);
    CHECK_EQ(fv_attn_scratch(&a, FV_ATTN_FORWARD, 1, &bytes), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_attn_forward(&a, &(fv_attn_data){.q = NULL}, NULL, NULL, 0), FV_ERR_ARGUMENT);
    a = attn_sizes(4, 4, 4, FV_ATTN_MAX_WIDTH + 1);
    CHECK_EQ(fv_attn_scratch(&a, FV_ATTN_BACKWARD, 1, &bytes), FV_ERR_ARGUMENT);
    CHECK_EQ(bytes, 1);
}

/* No queries: nothing is written, keys get no gradient. No keys: zeros, and no gradient. */
static void nothing_at_level(void)
{
    problem p = problem_of(attn_heads(2, 2, 1, 0, 30, 8));
    run_forward(&p);
    run_backward(&p);
    CHECK(p.grad_k.n == 2 * 30 * 8 && vec_largest(p.grad_k) == 0 && vec_largest(p.grad_v) == 0);
    p = problem_of(attn_heads(2, 2, 1, 30, 0, 8));
    run_forward(&p);
    run_backward(&p);
    CHECK(p.o.n == 4 * 30 * 8 && vec_largest(p.o) == 0 && vec_largest(p.grad_q) == 0);
    for (int64_t i = 0; i < p.lse.n; i++)
        CHECK(vec_get(p.lse, i) == -INFINITY);
    p = problem_of(attn_heads(0, 2, 1, 30, 30, 8));
    run_forward(&p);
    run_backward(&p);
    vec_free_all();
}
static void nothing(void) { attn_every_storage(nothing_at_level); }

/* A window or a prefix as wide as a number can say is none. */
static void endless_windows_at_level(void)
{
    const problem all = problem_of(attn_heads(1, 2, 1, 40, 90, 8));
    run_forward(&all);
    for (int rule = 0; rule < 4; rule++) {
        problem p = problem_again(&all);
        if (rule != 1) p.a.rule.left = INT64_MAX;
        if (rule != 2) p.a.rule.right = INT64_MAX - rule;
        p.a.rule.prefix = rule == 3 ? INT64_MAX : 0;
        run_forward(&p);
        CHECK(same_results(&all, &p));
    }
    problem behind = problem_again(&all), ahead = problem_again(&all);
    behind.a.rule.q_offset = -1000; /* to the left of every key, and looking left */
    behind.a.rule.left = INT64_MAX;
    behind.a.rule.right = 0;
    run_forward(&behind);
    CHECK(vec_largest(behind.o) == 0 && vec_get(behind.lse, 0) == -INFINITY);
    ahead.a.rule.q_offset = 1000;
    ahead.a.rule.left = 0;
    ahead.a.rule.right = INT64_MAX;
    run_forward(&ahead);
    CHECK(vec_largest(ahead.o) == 0 && vec_get(ahead.lse, 0) == -INFINITY);
    vec_free_all();
}
static void endless_windows(void) { attn_every_level(endless_windows_at_level); }

/* ---- subnormal numbers ---------------------------------------------------------------- */

static const unsigned settings[] = {0, FLUSH};

/* Numbers below the normal range in all inputs, and scores far enough apart for weights there. */
static problem with_subnormals(void)
{
    fv_attn a = attn_heads(1, 2, 1, 40, 300, 24);
    a.rule.scale = 2;
    problem p = problem_of(a);
    for (int64_t i = 0; i < p.k.n; i += 3) {
        vec_set(p.k, i, 1e-40);
        vec_set(p.v, i, -3e-39);
    }
    for (int64_t i = 0; i < p.q.n; i += 5)
        vec_set(p.q, i, 2e-41);
    return p;
}

/* The bounds hold with subnormal numbers flushed or not, and the caller's setting stays. */
static void subnormals_at_level(void)
{
    const unsigned before = read_fp_state();
    for (int s = 0; s < 2; s++) {
        problem p = with_subnormals();
        fv_pool *pool = NULL;
        CHECK(fv_pool_create(2, &pool) == FV_OK);
        setup.pool = pool;
        write_fp_state(before | settings[s]);
        run_forward(&p);
        run_backward(&p);
        const unsigned after = read_fp_state();
        write_fp_state(before);
        setup.pool = NULL;
        fv_pool_destroy(&pool);
        CHECK((after & FLUSH) == settings[s]);
        check_results(s ? "subnormals flushed" : "subnormals", &p);
        check_gradients(s ? "subnormals flushed" : "subnormals", &p);
        vec_free_all();
    }
}
static void subnormals(void) { attn_every_storage(subnormals_at_level); }

/* ---- halves ------------------------------------------------------------------------ */

/* A half that sees nothing adds nothing, whatever its outputs hold; two such stay blind. */
static void blind_halves(void)
{
    float o[] = {1, 2, 9, 9, 5, 6}, lse[] = {3, -INFINITY, -INFINITY};
    const float other[] = {NAN, NAN, 3, 4, 7, 8}, other_lse[] = {-INFINITY, 2, -INFINITY};
    fv_attn_merge(3, 2, o, 2, lse, other, 2, other_lse);
    const float joined[] = {1, 2, 3, 4, 5, 6}, joined_lse[] = {3, 2, -INFINITY};
    CHECK(memcmp(o, joined, sizeof o) == 0 && memcmp(lse, joined_lse, sizeof lse) == 0);
}

/* Weights of 1/4 and 3/4: rows of two layouts, log-sum-exps whose exponentials are out of range. */
static void joined_halves(void)
{
    static const float at[] = {0, -1000, 1000};
    float o[] = {4, 5, -1, 4, 5, -1, 4, 5, -1}, lse[3], other_lse[3];
    const float other[] = {8, 9, 8, 9, 8, 9};
    for (int i = 0; i < 3; i++) {
        lse[i] = at[i];
        other_lse[i] = at[i] + logf(3);
    }
    fv_attn_merge(3, 2, o, 3, lse, other, 2, other_lse);
    for (int i = 0; i < 3; i++) {
        const double u = i ? 0x1p-14 : 0x1p-23; /* a log-sum-exp of 1000 ends at 2^-14 */
        CHECK_NEAR(o[3 * i], 7, 4 * u);
        CHECK_NEAR(o[3 * i + 1], 8, 4 * u);
        CHECK(o[3 * i + 2] == -1);
        CHECK_NEAR(lse[i], (double)at[i] + log(4), 4 * u);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(minus_infinity);
    RUN(finite_masks);
    RUN(widths);
    RUN(too_wide);
    RUN(nothing);
    RUN(endless_windows);
    RUN(subnormals);
    RUN(blind_halves);
    RUN(joined_halves);
    return TEST_END();
}
