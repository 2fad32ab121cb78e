/*
 * What attention must hold to the bit: hidden keys, blind queries, threads, batch, neighbours.
 */
#include "support/attention.h"

static fv_pool *pools[9];

/* ---- edges ------------------------------------------------------------------------ */

/* NaN in hidden keys and values changes no bit of the output or of a gradient that is not its
 * own. */
static void hidden_poison_at_level(void)
{
    for (int rule = 0; rule < 3; rule++) {
        fv_attn a = attn_heads(2, 2, 2, 100, 300, 20);
        problem p = problem_of(a);
        problem_pattern(&p, 2);
        if (rule == 0) { /* keys 17, 200 and 299 by pattern */
            for (int64_t i = 0; i < p.visible.n; i++)
                if (i % 300 == 17 || i % 300 == 200 || i % 300 == 299) vec_set(p.visible, i, 0);
        } else if (rule == 1) {
            p.visible.data = NULL;
            p.a.rule.causal = FV_CAUSAL_TOP_LEFT; /* 100 and up are hidden */
        } else {
            p.visible.data = NULL;
            p.key_lengths = VEC_OF(FV_I64, 17, 17);
        }
        run_forward(&p);
        run_backward(&p);
        problem r = problem_again(&p);
        r.k = vec_copy(p.k);
        r.v = vec_copy(p.v);
        static const int64_t hidden[3][3] = {{17, 200, 299}, {100, 101, 299}, {17, 18, 299}};
        for (int j = 0; j < 3; j++) {
            problem_spoil(&r, r.k, &r.a.k, hidden[rule][j], 20);
            problem_spoil(&r, r.v, &r.a.v, hidden[rule][j], 20);
        }
        run_forward(&r);
        run_backward(&r);
        CHECK(same_results(&p, &r));
        CHECK(same_gradients(&p, &r));
    }
    vec_free_all();
}
static void hidden_poison(void) { attn_every_storage(hidden_poison_at_level); }

/* NaN in what is seen does show. */
static void visible_poison_at_level(void)
{
    problem p = problem_of(attn_sizes(8, 70, 16, 16));
    vec_set(p.v, 66 * 16 + 3, NAN);
    run_forward(&p);
    CHECK(isnan(vec_get(p.o, 3)) && !isnan(vec_get(p.o, 2)));
    p = problem_of(attn_sizes(8, 70, 16, 16));
    vec_set(p.k, 5 * 16, NAN);
    run_forward(&p);
    CHECK(isnan(vec_get(p.o, 0)) && isnan(vec_get(p.lse, 7)));
    vec_free_all();
}
static void visible_poison(void) { attn_every_storage(visible_poison_at_level); }

static void blind_queries_at_level(void)
{
    fv_attn a = attn_sizes(20, 90, 9, 9);
    a.rule.causal = FV_CAUSAL_TOP_LEFT;
    a.rule.q_offset = -7;
    problem p = problem_of(a);
    for (int64_t c = 0; c < 7 * 9; c++) { /* what a blind query holds does not matter either */
        vec_set(p.q, c, NAN);
        vec_set(p.grad_o, c, NAN);
    }
    run_forward(&p);
    run_backward(&p);
    for (int64_t i = 0; i < 20; i++) {
        CHECK((vec_get(p.lse, i) == -INFINITY) == (i < 7));
        for (int64_t c = 0; c < 9 && i < 7; c++)
            CHECK(vec_get(p.o, i * 9 + c) == 0 && vec_get(p.grad_q, i * 9 + c) == 0);
    }
    CHECK(!isnan(vec_largest(p.grad_k)) && vec_distance(p.grad_k, vec_copy(p.grad_k)) == 0);
    for (int64_t c = 0; c < 90 * 9; c++)
        CHECK(isfinite(vec_get(p.grad_k, c)) && isfinite(vec_get(p.grad_v, c)));
    /* a bias of -inf hides as a mask does */
    p = problem_of(attn_sizes(3, 40, 9, 9));
    problem_bias(&p, 0, 0, 0, 0);
    vec_set(p.bias, 0, -INFINITY);
    run_forward(&p);
    CHECK(vec_largest(p.o) == 0 && vec_get(p.lse, 2) == -INFINITY);
    vec_free_all();
}
static void blind_queries(void) { attn_every_storage(blind_queries_at_level); }

static void one_key_at_level(void)
{
    problem p = problem_of(attn_sizes(13, 1, 40, 33));
    p.a.rule.scale = 1000;
    run_forward(&p);
    for (int64_t i = 0; i < 13 * 33; i++)
        CHECK(vec_get(p.o, i) == vec_get(p.v, i % 33));
    vec_free_all();
}
static void one_key(void) { attn_every_storage(one_key_at_level); }

static void huge_scores_at_level(void)
{
    fv_attn a = attn_sizes(30, 300, 1, 4);
    a.rule.scale = 1e4;
    problem p = problem_of(a);
    for (int64_t i = 0; i < 30; i++)
        vec_set(p.q, i, i % 2 ? 1 : -1);
    for (int64_t j = 0; j < 300; j++)
        vec_set(p.k, j, 1 - (double)j / 150);
    check_forward("scores of 10000", &p);
    for (int64_t i = 0; i < p.o.n; i++)
        CHECK(isfinite(vec_get(p.o, i)));
    vec_free_all();
}
static void huge_scores(void) { attn_every_storage(huge_scores_at_level); }

/* ---- bits ------------------------------------------------------------------------- */

static fv_attn splittable(void)
{
    fv_attn a = attn_heads(2, 4, 2, 210, 530, 24);
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    a.rule.left = 400;
    a.rule.prefix = 9;
    return a;
}

/* Two to eight threads in turn, floats twenty times: who comes first differs from run to run. */
static void threads_at_level(void)
{
    problem one = problem_of(splittable());
    const int runs = one.a.dtype == FV_F32 ? 20 : 7;
    run_forward(&one);
    run_backward(&one);
    for (int run = 0; run < runs; run++) {
        problem many = problem_again(&one);
        setup.pool = pools[2 + run % 7];
        run_forward(&many);
        run_backward(&many);
        setup.pool = NULL;
        CHECK(same_results(&one, &many));
        CHECK(same_gradients(&one, &many));
    }
    vec_free_all();
}
static void threads(void) { attn_every_storage(threads_at_level); }

static void batch_at_level(void)
{
    problem all = problem_of(splittable());
    run_forward(&all);
    run_backward(&all);
    for (int64_t b = 0; b < 2; b++) {
        const fv_attn *a = &all.a;
        const int64_t nq = a->q.batch, nk = a->k.batch, rows = a->heads * a->n_q;
        problem one = {.a = *a,
                       .q = vec_part(all.q, b * nq, nq),
                       .k = vec_part(all.k, b * nk, nk),
                       .v = vec_part(all.v, b * nk, nk),
                       .o = vec_new(a->dtype, nq),
                       .lse = vec_new(FV_F32, rows),
                       .grad_o = vec_part(all.grad_o, b * nq, nq),
                       .grad_lse = vec_part(all.grad_lse, b * rows, rows),
                       .grad_q = vec_new(a->dtype, nq),
                       .grad_k = vec_new(a->dtype, nk),
                       .grad_v = vec_new(a->dtype, nk)};
        one.a.batch = 1;
        run_forward(&one);
        run_backward(&one);
        CHECK(vec_same_bits(one.o, vec_part(all.o, b * nq, nq)));
        CHECK(vec_same_bits(one.lse, vec_part(all.lse, b * rows, rows)));
        CHECK(vec_same_bits(one.grad_q, vec_part(all.grad_q, b * nq, nq)));
        CHECK(vec_same_bits(one.grad_k, vec_part(all.grad_k, b * nk, nk)));
        CHECK(vec_same_bits(one.grad_v, vec_part(all.grad_v, b * nk, nk)));
    }
    vec_free_all();
}
static void batch(void) { attn_every_storage(batch_at_level); }

/* Some queries alone, at their positions, give the bits they have among the others. */
static void few_of(const problem *all, int64_t few)
{
    const int64_t n = all->a.n_q, d = all->a.d;
    for (int64_t i = 0; i + few <= n; i += 7) {
        problem some = {.a = all->a,
                        .q = vec_part(all->q, i * d, few * d),
                        .k = all->k,
                        .v = all->v,
                        .o = vec_new(all->a.dtype, few * d),
                        .lse = vec_new(FV_F32, few)};
        some.a.n_q = few;
        some.a.rule.q_offset += i;
        run_forward(&some);
        CHECK(vec_same_bits(some.o, vec_part(all->o, i * d, few * d)));
        CHECK(vec_same_bits(some.lse, vec_part(all->lse, i, few)));
    }
}

static void neighbours_at_level(void)
{
    /* many queries, and so few that they count as decoding: each kind has its own bits */
    static const int64_t many[] = {150, 8}, few[] = {9, 1};
    for (int kind = 0; kind < 2; kind++) {
        fv_attn a = attn_sizes(many[kind], 500, 20, 20);
        a.rule.causal = FV_CAUSAL_TOP_LEFT;
        a.rule.left = 50;
        a.rule.q_offset = 310;
        const problem all = problem_of(a);
        run_forward(&all);
        few_of(&all, few[kind]);
        vec_free_all();
    }
}
static void neighbours(void) { attn_every_storage(neighbours_at_level); }

static void vector_levels(void)
{
    if (fv_simd_detect() < FV_SIMD_AVX512) return;
    kernel_level(FV_SIMD_AVX512);
    problem wide = problem_of(splittable()), narrow = problem_again(&wide);
    run_forward(&wide);
    run_backward(&wide);
    kernel_level(FV_SIMD_AVX2);
    run_forward(&narrow);
    run_backward(&narrow);
    CHECK(same_results(&wide, &narrow));
    CHECK(same_gradients(&wide, &narrow));
    vec_free_all();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    for (int t = 2; t <= 8; t++)
        if (fv_pool_create(t, &pools[t]) != FV_OK) return 1;
    RUN(hidden_poison);
    RUN(visible_poison);
    RUN(blind_queries);
    RUN(one_key);
    RUN(huge_scores);
    RUN(threads);
    RUN(batch);
    RUN(neighbours);
    RUN(vector_levels);
    for (int t = 2; t <= 8; t++)
        fv_pool_destroy(&pools[t]);
    return TEST_END();
}
