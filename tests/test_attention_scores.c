/*
 * Additive scores, and none but the bias: values and gradients of every level against the float64
 * plain kernel, the edges of the streamed tanh, hidden keys and threads to the bit.
 */
#include "support/attention.h"

static fv_attn additive(int64_t batch, int64_t heads, int64_t kv_heads, int64_t n_q, int64_t n_k,
                        int64_t d)
{
    fv_attn a = attn_heads(batch, heads, kv_heads, n_q, n_k, d);
    a.score = FV_ATTN_SCORE_ADDITIVE;
    a.rule.scale = 0.7 / sqrt((double)d);
    return a;
}

static void check_both(const char *what, problem *p)
{
    check_forward(what, p);
    check_backward(what, p);
}

/* ---- values and gradients --------------------------------------------------------- */

static void lengths_at_level(void)
{
    static const int64_t n[] = {1, 6, 7, 63, 65, 97, 193, 257}, d[] = {1, 17, 64, 129};
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j += 1 + i % 2) {
            problem p = problem_of(additive(1, 1, 1, n[i], n[j], d[(i + j) % 4]));
            check_both("additive", &p);
            vec_free_all();
        }
    problem p = problem_of(additive(1, 1, 1, 40, 70, 512));
    check_both("additive, wide", &p);
    p = problem_of(additive(8, 2, 1, 150, 600, 5)); /* w is shared by 720,000 pairs a head */
    check_both("additive, many pairs", &p);
    vec_free_all();
}
static void lengths(void) { attn_every_level(lengths_at_level); }

static void masks_at_level(void)
{
    fv_attn a = additive(2, 4, 2, 110, 210, 20);
    problem p = problem_of(a);
    problem_pattern(&p, 0.4);
    problem_lengths(&p);
    check_both("pattern and lengths", &p);
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    a.rule.left = 50;
    a.rule.prefix = 3;
    p = problem_of(a);
    problem_slopes(&p);
    problem_bias(&p, 0, 110 * 210, 210, 1);
    p.grad_bias = vec_normals(p.bias.n, 0);
    check_both("window, prefix, slopes, bias", &p);
    p.a.rule.soft_cap = 2;
    p.a.rule.dropout = 0.25;
    p.a.dropout_key = 5;
    p.grad_bias = vec_normals(p.bias.n, 0);
    p.grad_w = vec_normals(p.w.n, 0);
    check_both("and soft cap and dropout", &p);
    vec_free_all();
}
static void masks(void) { attn_every_level(masks_at_level); }

static void wanted_at_level(void)
{
    problem p = problem_of(additive(1, 2, 2, 70, 90, 16));
    p.grad_q.data = p.grad_k.data = NULL;
    check_both("gradient of v and w only", &p);
    p = problem_of(additive(1, 2, 2, 70, 90, 16));
    p.grad_w.data = p.grad_o.data = NULL;
    check_both("through lse, no gradient of w", &p);
    vec_free_all();
}
static void wanted(void) { attn_every_level(wanted_at_level); }

static void halves_at_level(void)
{
    for (int type = 0; type < 2; type++) {
        fv_attn a = additive(1, 2, 1, 100, 200, 20);
        a.dtype = type ? FV_F16 : FV_BF16;
        problem p = problem_of(a);
        check_both("16 bits", &p);
        a.score = FV_ATTN_SCORE_NONE;
        p = problem_of(a);
        problem_bias(&p, 0, 100 * 200, 200, 1);
        p.grad_bias = vec_normals(p.bias.n, 0);
        check_both("16 bits, bias alone", &p);
        vec_free_all();
    }
}
static void halves(void) { attn_every_level(halves_at_level); }

static void bias_alone_at_level(void)
{
    fv_attn a = attn_heads(2, 4, 2, 100, 270, 8);
    a.score = FV_ATTN_SCORE_NONE;
    a.d = -3; /* not looked at */
    const int64_t cells = 100 * 270;
    for (int causal = 0; causal < 2; causal++) {
        a.rule.causal = causal ? FV_CAUSAL_BOTTOM_RIGHT : FV_CAUSAL_NONE;
        problem p = problem_of(a);
        problem_bias(&p, 4 * cells, cells, 270, 1);
        p.grad_bias = vec_normals(p.bias.n, 0);
        problem_slopes(&p);
        check_both("bias alone", &p);
    }
    /* no bias either: the mean of the values visible */
    a = attn_sizes(1, 3, 1, 2);
    a.score = FV_ATTN_SCORE_NONE;
    problem p = problem_of(a);
    p.v = VEC_OF(FV_F32, 1, 2, 3, 4, 8, 9);
    run_forward(&p);
    CHECK_VALUE(p.o, 0, 4);
    CHECK_VALUE(p.o, 1, 5);
    CHECK_VALUE(p.lse, 0, log(3));
    /* The score is exactly 0: so is the log-sum-exp of the first row, which sees one key. */
    a = attn_sizes(20, 40, 1, 2);
    a.score = FV_ATTN_SCORE_NONE;
    a.rule.causal = FV_CAUSAL_TOP_LEFT;
    p = problem_of(a);
    run_forward(&p);
    CHECK(vec_get(p.lse, 0) == 0);
    for (int64_t i = 0; i < 20; i++)
        CHECK_VALUE(p.lse, i, log((double)(i + 1)));
    vec_free_all();
}
static void bias_alone(void) { attn_every_level(bias_alone_at_level); }

/* ---- the tanh --------------------------------------------------------------------- */

/* With one key the log-sum-exp is the score itself. */
static void tanh_is_close_at_level(void)
{
    fv_attn a = additive(1, 1, 1, 2001, 1, 1);
    a.rule.scale = 1;
    problem p = problem_of(a);
    vec_set(p.w, 0, 1);
    double worst = 0;
    for (double k = -60; k <= 60; k += 3.75) {
        vec_set(p.k, 0, k);
        for (int64_t i = 0; i < 2001; i++) /* sums near 0, and queries all over */
            vec_set(p.q, i, (i % 2 ? 0 : -k) + 0.0213 * (double)(i - 1000));
        run_forward(&p);
        for (int64_t i = 0; i < 2001; i++)
            worst = test_worse(worst, fabs(vec_get(p.lse, i) - tanh(vec_get(p.q, i) + k)));
    }
    if (!(worst <= 3e-7)) test_failed(__FILE__, __LINE__, "tanh is off by %.3g", worst);
    vec_free_all();
}
static void tanh_is_close(void) { attn_every_level(tanh_is_close_at_level); }

/* Elements beyond what an exponential can hold, on either side, among ordinary ones. */
static void large_elements_at_level(void)
{
    problem p = problem_of(additive(1, 2, 2, 110, 210, 24));
    for (int64_t i = 0; i < p.q.n; i += 31)
        vec_set(p.q, i, i % 2 ? 25 : -70);
    for (int64_t i = 0; i < p.k.n; i += 17)
        vec_set(p.k, i, i % 2 ? -25.5 : 69.75);
    check_both("large elements", &p);
    vec_free_all();
}
static void large_elements(void) { attn_every_level(large_elements_at_level); }

/* ---- bits ------------------------------------------------------------------------- */

/* What a hidden key holds, be it NaN or only too large for an exponential, changes no bit. */
static void hidden_keys_at_level(void)
{
    problem p = problem_of(additive(2, 2, 1, 100, 200, 20));
    problem_pattern(&p, 2);
    for (int64_t i = 0; i < p.visible.n; i++)
        if (i % 200 == 17 || i % 200 == 130) vec_set(p.visible, i, 0);
    run_forward(&p);
    run_backward(&p);
    for (int large = 0; large < 2; large++) {
        problem r = problem_again(&p);
        r.k = vec_copy(p.k);
        r.v = vec_copy(p.v);
        problem_spoil(&r, r.k, &r.a.k, 17, 20);
        problem_spoil(&r, r.v, &r.a.v, 17, 20);
        for (int64_t c = 0; large && c < 20; c++)
            vec_set(r.k, 17 * 20 + c, 50);
        run_forward(&r);
        run_backward(&r);
        CHECK(same_results(&p, &r));
        CHECK(same_gradients(&p, &r));
    }
    vec_free_all();
}
static void hidden_keys(void) { attn_every_level(hidden_keys_at_level); }

static void special_values_at_level(void)
{
    problem p = problem_of(additive(1, 1, 1, 8, 70, 16));
    vec_set(p.k, 5 * 16, NAN); /* visible: it shows */
    run_forward(&p);
    CHECK(isnan(vec_get(p.o, 0)) && isnan(vec_get(p.lse, 7)));
    p = problem_of(additive(1, 1, 1, 8, 70, 16));
    vec_set(p.k, 5 * 16, INFINITY); /* a tanh of 1 */
    run_forward(&p);
    run_backward(&p);
    for (int64_t i = 0; i < p.o.n; i++)
        CHECK(isfinite(vec_get(p.o, i)) && isfinite(vec_get(p.grad_q, i)));
    CHECK(vec_get(p.grad_k, 5 * 16) == 0); /* and no slope */
    /* queries that see nothing: what they hold does not matter */
    fv_attn a = additive(1, 1, 1, 20, 90, 9);
    a.rule.causal = FV_CAUSAL_TOP_LEFT;
    a.rule.q_offset = -7;
    p = problem_of(a);
    for (int64_t c = 0; c < 7 * 9; c++)
        vec_set(p.q, c, NAN);
    run_forward(&p);
    run_backward(&p);
    for (int64_t c = 0; c < 7 * 9; c++)
        CHECK(vec_get(p.o, c) == 0 && vec_get(p.grad_q, c) == 0);
    for (int64_t c = 0; c < 90 * 9; c++)
        CHECK(isfinite(vec_get(p.grad_k, c)) && isfinite(vec_get(p.grad_v, c)));
    for (int64_t c = 0; c < 9; c++)
        CHECK(isfinite(vec_get(p.grad_w, c)));
    vec_free_all();
}
static void special_values(void) { attn_every_level(special_values_at_level); }

static void threads_at_level(void)
{
    fv_attn a = additive(2, 4, 2, 210, 410, 12);
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    problem one = problem_of(a);
    run_forward(&one);
    run_backward(&one);
    for (int threads = 2; threads <= 8; threads++) {
        fv_pool *pool = NULL;
        CHECK(fv_pool_create(threads, &pool) == FV_OK);
        problem many = problem_again(&one);
        setup.pool = pool;
        run_forward(&many);
        run_backward(&many);
        setup.pool = NULL;
        fv_pool_destroy(&pool);
        CHECK(same_results(&one, &many));
        CHECK(same_gradients(&one, &many));
    }
    vec_free_all();
}
static void threads(void) { attn_every_level(threads_at_level); }

/* Two queries, at their positions, give the bits they have among others. (A single one has a kernel
 * of its own: its neighbours are other sequences.) */
static void neighbours_at_level(void)
{
    enum { PAIR = 2, WIDTH = 20 };
    fv_attn a = additive(1, 1, 1, 150, 300, WIDTH);
    a.rule.causal = FV_CAUSAL_TOP_LEFT;
    a.rule.q_offset = 110;
    const problem all = problem_of(a);
    vec_set(all.q, 0, 50); /* the first one needs care, the others do not */
    run_forward(&all);
    run_backward(&all);
    for (int64_t i = 1; i + PAIR <= 150; i += 13) {
        problem few = problem_again(&all);
        few.q = vec_part(all.q, i * WIDTH, PAIR * WIDTH);
        few.o = vec_new(FV_F32, PAIR * WIDTH);
        few.lse = vec_new(FV_F32, PAIR);
        few.grad_o = vec_part(all.grad_o, i * WIDTH, PAIR * WIDTH);
        few.grad_lse = vec_part(all.grad_lse, i, PAIR);
        few.grad_q = vec_new(FV_F32, PAIR * WIDTH);
        few.a.n_q = PAIR;
        few.a.rule.q_offset += i;
        run_forward(&few);
        run_backward(&few);
        CHECK(vec_same_bits(few.o, vec_part(all.o, i * WIDTH, PAIR * WIDTH)));
        CHECK(vec_same_bits(few.lse, vec_part(all.lse, i, PAIR)));
        CHECK(vec_same_bits(few.grad_q, vec_part(all.grad_q, i * WIDTH, PAIR * WIDTH)));
    }
    vec_free_all();
}
static void neighbours(void) { attn_every_level(neighbours_at_level); }

/* Gradients of hidden keys are 0, also between visible ones, at widths with and without a rest. */
static void single_queries_with_a_pattern_at_level(void)
{
    static const int64_t widths[] = {20, 64, 80};
    for (int i = 0; i < 3; i++) {
        fv_attn a = attn_sizes(1, 300, 20, widths[i]);
        a.score = FV_ATTN_SCORE_ADDITIVE;
        problem p = problem_of(a);
        problem_pattern(&p, 0.5);
        check_both("one query and a pattern", &p);
    }
    vec_free_all();
}
static void single_queries_with_a_pattern(void)
{
    attn_every_level(single_queries_with_a_pattern_at_level);
}

/* A single query has the same bits alone and in a batch. */
static void single_queries_at_level(void)
{
    enum { SEQUENCES = 5, KEYS = 300, WIDTH = 20 };
    const problem all = problem_of(additive(SEQUENCES, 1, 1, 1, KEYS, WIDTH));
    run_forward(&all);
    run_backward(&all);
    for (int64_t b = 0; b < SEQUENCES; b++) {
        const int64_t first = b * KEYS * WIDTH, size = KEYS * WIDTH;
        problem one = problem_again(&all);
        one.a.batch = 1;
        one.q = vec_part(all.q, b * WIDTH, WIDTH);
        one.k = vec_part(all.k, first, size);
        one.v = vec_part(all.v, first, size);
        one.grad_o = vec_part(all.grad_o, b * WIDTH, WIDTH);
        one.grad_lse = vec_part(all.grad_lse, b, 1);
        run_forward(&one);
        run_backward(&one);
        CHECK(vec_same_bits(vec_part(one.o, 0, WIDTH), vec_part(all.o, b * WIDTH, WIDTH)));
        CHECK(vec_same_bits(vec_part(one.lse, 0, 1), vec_part(all.lse, b, 1)));
        CHECK(
            vec_same_bits(vec_part(one.grad_q, 0, WIDTH), vec_part(all.grad_q, b * WIDTH, WIDTH)));
        CHECK(vec_same_bits(vec_part(one.grad_k, 0, size), vec_part(all.grad_k, first, size)));
        CHECK(vec_same_bits(vec_part(one.grad_v, 0, size), vec_part(all.grad_v, first, size)));
    }
    vec_free_all();
}
static void single_queries(void) { attn_every_level(single_queries_at_level); }

/* ---- failures --------------------------------------------------------------------- */

static fv_status forward_status(const fv_attn *a, const fv_attn_data *data)
{
    static _Alignas(64) char scratch[1 << 20];
    return fv_attn_forward(a, data, NULL, scratch, sizeof scratch);
}

static void refused(void)
{
    float x[64] = {0}, o[64], lse[8];
    fv_attn a = attn_sizes(4, 4, 4, 4);
    fv_attn_data data = {.q = x, .k = x, .v = x, .o = o, .lse = lse};
    CHECK(forward_status(&a, &data) == FV_OK);
    data.w = x;
    CHECK(forward_status(&a, &data) == FV_ERR_ARGUMENT); /* no use for w */
    a.score = FV_ATTN_SCORE_ADDITIVE;
    CHECK(forward_status(&a, &data) == FV_OK);
    data.w = NULL;
    CHECK(forward_status(&a, &data) == FV_ERR_ARGUMENT); /* needs w */
    a.score = FV_ATTN_SCORE_NONE;
    data.q = data.k = NULL;
    CHECK(forward_status(&a, &data) == FV_OK);
    data.grad_q = o;
    CHECK(fv_attn_backward(&a, &data, NULL, NULL, 0) == FV_ERR_ARGUMENT);
    a.score = FV_ATTN_SCORE_DOT;
    CHECK(forward_status(&a, &data) == FV_ERR_ARGUMENT); /* needs q */
    a.score = (fv_attn_score)7;
    size_t bytes;
    CHECK(fv_attn_scratch(&a, FV_ATTN_FORWARD, 1, &bytes) == FV_ERR_ARGUMENT);
}

/* With a term of the backward left out, the comparison must notice. */
static void sabotage_at_level(void)
{
    for (unsigned term = 0; term < 3; term++) {
        problem p = problem_of(additive(1, 1, 1, 70, 130, 16));
        p.dropped = 1u << term;
        double worst;
        CHECK(!gradients_agree(&p, &worst));
    }
    vec_free_all();
}
static void sabotage(void) { attn_every_level(sabotage_at_level); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(lengths);
    RUN(masks);
    RUN(wanted);
    RUN(halves);
    RUN(bias_alone);
    RUN(tanh_is_close);
    RUN(large_elements);
    RUN(hidden_keys);
    RUN(special_values);
    RUN(threads);
    RUN(neighbours);
    RUN(single_queries);
    RUN(single_queries_with_a_pattern);
    RUN(refused);
    RUN(sabotage);
    return TEST_END();
}
