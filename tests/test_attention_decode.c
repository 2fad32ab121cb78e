/*
 * A few queries over a cache of keys: values against the float64 plain kernel around the sizes at
 * which the path and its chunks begin and end, and bits that must not know of threads, batch, other
 * queries, heads that share keys, or what hidden keys hold.
 */
#include "support/attention.h"

static fv_pool *pools[9];

/* ---- values ----------------------------------------------------------------------- */

static void query_counts_at_level(void)
{
    static const int64_t keys[] = {0, 1, 15, 16, 17, 255, 256, 257, 600};
    for (int64_t n_q = 1; n_q <= 17; n_q++)
        for (int i = 0; i < 9; i++) {
            problem p = problem_of(attn_sizes(n_q, keys[i], 19, 19));
            check_forward("few queries", &p);
            vec_free_all();
        }
}
static void query_counts(void) { attn_every_level(query_counts_at_level); }

/* Where one way to take products ends and the next begins, and where chunks end. */
static const int64_t few[] = {1, 8, 9, 15, 16, 17};
enum { FEW = sizeof few / sizeof *few };

static void widths_at_level(void)
{
    static const int64_t d[] = {1, 15, 16, 17, 64, 65, 80, 128, 129, 192, 200, 512};
    for (int w = 0; w < 12; w++)
        for (int64_t n_q = 1; n_q <= 9; n_q++) {
            problem p = problem_of(attn_sizes(n_q, 270, d[w], d[11 - w]));
            check_forward("widths", &p);
            vec_free_all();
        }
}
static void widths(void) { attn_every_storage(widths_at_level); }

static void chunks_at_level(void)
{
    static const int64_t keys[] = {2047, 2048, 2049, 4096, 5003};
    for (int i = 0; i < 5; i++)
        for (int n = i % 2; n < FEW; n += 2) {
            fv_attn a = attn_heads(2, 4, 2, few[n], keys[i], 24);
            problem p = problem_of(a);
            check_forward("long caches", &p);
            problem_lengths(&p);
            check_forward("caches of different lengths", &p);
            p.a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
            p.a.rule.left = 100;
            check_forward("chunks outside the window", &p);
            p.a.rule.prefix = 3;
            check_forward("window and prefix", &p);
            vec_free_all();
        }
    for (int n = 0; n < FEW; n++) {
        problem p = problem_of(attn_sizes(few[n], 4500, 16, 16));
        p.a.rule.scale *= 256;
        check_forward("chunks with far maxima", &p);
        vec_free_all();
    }
}
static void chunks(void) { attn_every_level(chunks_at_level); }

/* Of 16 bits as well, by every way that a level has. */
static void stored_chunks_at_level(void)
{
    for (int n = 0; n < FEW; n++) {
        problem p = problem_of(attn_heads(1, 2, 1, few[n], 4500, 40));
        p.a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
        p.a.rule.left = 2300;
        check_forward("long caches and a window", &p);
        vec_free_all();
    }
}
static void stored_chunks(void) { attn_every_storage(stored_chunks_at_level); }

static void added_terms_at_level(void)
{
    for (int64_t n_q = 1; n_q <= 16; n_q += 5) {
        const fv_attn base = attn_heads(2, 6, 2, n_q, 2300, 24);
        problem p = problem_of(base);
        problem_bias(&p, 6 * n_q * 2300, n_q * 2300, 2300, 1);
        check_forward("bias", &p);
        problem_bias(&p, 0, 1, 0, 6);
        problem_pattern(&p, 0.3);
        check_forward("shared bias and pattern", &p);
        p = problem_of(base);
        problem_slopes(&p);
        p.a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
        p.a.rule.soft_cap = 1.5;
        check_forward("slopes and soft cap", &p);
        p.a.rule.dropout = 0.4;
        p.a.dropout_key = 5;
        check_forward("dropout", &p);
        check_backward("dropout", &p);
        vec_free_all();
    }
}
static void added_terms(void) { attn_every_level(added_terms_at_level); }

static void layouts_at_level(void)
{
    for (int64_t n_q = 1; n_q <= 5; n_q += 4) {
        fv_attn a = attn_heads(2, 4, 4, n_q, 300, 24);
        a.q = a.o = (fv_attn_layout){n_q * 4 * 24, 24, 4 * 24};
        a.k = a.v = (fv_attn_layout){300 * 4 * 24 + 5, 24, 4 * 24};
        problem p = problem_of(a);
        check_forward("rows before heads", &p);
        vec_free_all();
    }
}
static void layouts(void) { attn_every_storage(layouts_at_level); }

/* ---- bits ------------------------------------------------------------------------- */

static fv_attn splittable(int64_t n_q)
{
    fv_attn a = attn_heads(2, 6, 2, n_q, 4500, 40);
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    a.rule.left = 4000;
    a.rule.prefix = 9;
    return a;
}

static void threads_at_level(void)
{
    for (int n = 0; n < FEW; n++) {
        const problem one = problem_of(splittable(few[n]));
        run_forward(&one);
        for (int count = 2; count <= 8; count++) {
            problem many = problem_again(&one);
            setup.pool = pools[count];
            run_forward(&many);
            setup.pool = NULL;
            CHECK(same_results(&one, &many));
        }
        vec_free_all();
    }
}
static void threads(void) { attn_every_storage(threads_at_level); }

/* Sequences, heads and queries one by one give the bits that they have together. */
static void alone_at_level(void)
{
    const problem all = problem_of(splittable(5));
    run_forward(&all);
    const fv_attn *a = &all.a;
    for (int64_t row = 0; row < a->batch * a->heads * a->n_q; row += 7) {
        const int64_t i = row % a->n_q, h = row / a->n_q % a->heads, b = row / a->n_q / a->heads;
        problem one = {.a = attn_sizes(1, a->n_k, a->d, a->d_v),
                       .q = vec_part(all.q, row * a->d, a->d),
                       .k = vec_part(all.k, b * a->k.batch + h / 3 * a->k.head, a->k.head),
                       .v = vec_part(all.v, b * a->v.batch + h / 3 * a->v.head, a->v.head),
                       .o = vec_new(a->dtype, a->d_v),
                       .lse = vec_new(FV_F32, 1)};
        one.a.rule.causal = a->rule.causal;
        one.a.rule.left = a->rule.left;
        one.a.rule.prefix = a->rule.prefix;
        one.a.rule.q_offset = i - (a->n_q - 1);
        run_forward(&one);
        CHECK(vec_same_bits(one.o, vec_part(all.o, row * a->d_v, a->d_v)));
        CHECK(vec_same_bits(one.lse, vec_part(all.lse, row, 1)));
    }
    vec_free_all();
}
static void alone(void) { attn_every_storage(alone_at_level); }

/* Nine to sixteen queries: sequences one by one, and fewer of them, give the bits that they have
 * together. */
static void fewer_at_level(void)
{
    const problem all = problem_of(splittable(16));
    run_forward(&all);
    const fv_attn *a = &all.a;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t n_q = 9; n_q <= 16; n_q += 7) {
            fv_attn one = splittable(n_q);
            one.batch = one.heads = one.kv_heads = 1;
            fv_attn_dense(&one);
            one.rule.q_offset = n_q - 16;
            const int64_t h = 4, row = (b * a->heads + h) * 16;
            problem p = {.a = one,
                         .q = vec_part(all.q, row * a->d, n_q * a->d),
                         .k = vec_part(all.k, b * a->k.batch + h / 3 * a->k.head, a->k.head),
                         .v = vec_part(all.v, b * a->v.batch + h / 3 * a->v.head, a->v.head),
                         .o = vec_new(a->dtype, n_q * a->d_v),
                         .lse = vec_new(FV_F32, n_q)};
            run_forward(&p);
            CHECK(vec_same_bits(p.o, vec_part(all.o, row * a->d_v, n_q * a->d_v)));
            CHECK(vec_same_bits(p.lse, vec_part(all.lse, row, n_q)));
        }
    vec_free_all();
}
static void fewer(void) { attn_every_storage(fewer_at_level); }

/* A longer buffer behind the keys that count changes nothing. */
static void padding_of(int64_t n_q)
{
    const problem exact = problem_of(attn_heads(1, 2, 2, n_q, 2100, 24));
    run_forward(&exact);
    problem padded = problem_of(attn_heads(1, 2, 2, n_q, 6000, 24));
    padded.q = exact.q;
    padded.key_lengths = VEC_OF(FV_I64, 2100);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t e = 0; e < 6000 * 24; e++) {
            const bool counts = e < 2100 * 24;
            const int64_t from = h * 2100 * 24 + e, to = h * 6000 * 24 + e;
            vec_set(padded.k, to, counts ? vec_get(exact.k, from) : NAN);
            vec_set(padded.v, to, counts ? vec_get(exact.v, from) : INFINITY);
        }
    run_forward(&padded);
    CHECK(same_results(&exact, &padded));
    vec_free_all();
}
static void padding_at_level(void)
{
    for (int64_t n_q = 3; n_q <= 16; n_q += 13)
        padding_of(n_q);
}
static void padding(void) { attn_every_level(padding_at_level); }

/* NaN and infinity in hidden keys and values change no bit; in a visible one they show. */
static void poison_at_level(void)
{
    static const double poison[] = {NAN, INFINITY, -INFINITY};
    for (int n = 0; n < FEW; n++) {
        const int64_t n_q = few[n];
        problem p = problem_of(attn_sizes(n_q, 2200, 20, 20));
        problem_pattern(&p, 2);
        for (int64_t i = 0; i < p.visible.n; i++)
            if (i % 2200 == 17 || i % 2200 == 2100 || i % 2200 == 2199) vec_set(p.visible, i, 0);
        run_forward(&p);
        problem r = problem_again(&p);
        r.k = vec_copy(p.k);
        r.v = vec_copy(p.v);
        static const int64_t hidden[] = {17, 2100, 2199};
        for (int64_t c = 0; c < 60; c++) {
            vec_set(r.k, hidden[c / 20] * 20 + c % 20, poison[c % 3]);
            vec_set(r.v, hidden[c / 20] * 20 + c % 20, poison[c % 3]);
        }
        run_forward(&r);
        CHECK(same_results(&p, &r));
        vec_set(r.v, 2000 * 20 + 3, NAN);
        run_forward(&r);
        CHECK(isnan(vec_get(r.o, 3)) && !isnan(vec_get(r.o, 2)));
        vec_set(r.k, 5 * 20, NAN);
        run_forward(&r);
        CHECK(isnan(vec_get(r.o, 2)) && isnan(vec_get(r.lse, n_q - 1)));
        vec_free_all();
    }
}
static void hidden_poison(void) { attn_every_storage(poison_at_level); }

static void blind_at_level(void)
{
    fv_attn a = attn_sizes(4, 2500, 9, 9);
    a.rule.causal = FV_CAUSAL_TOP_LEFT;
    a.rule.q_offset = -2;
    problem p = problem_of(a);
    for (int64_t c = 0; c < 2 * 9; c++)
        vec_set(p.q, c, NAN);
    run_forward(&p);
    for (int64_t i = 0; i < 4; i++) {
        CHECK((vec_get(p.lse, i) == -INFINITY) == (i < 2));
        for (int64_t c = 0; c < 9; c++)
            CHECK(i < 2 ? vec_get(p.o, i * 9 + c) == 0 : isfinite(vec_get(p.o, i * 9 + c)));
    }
    vec_free_all();
}
static void blind_queries(void) { attn_every_level(blind_at_level); }

static void vector_levels(void)
{
    if (fv_simd_detect() < FV_SIMD_AVX512) return;
    for (int64_t n_q = 1; n_q <= 8; n_q++) {
        kernel_level(FV_SIMD_AVX512);
        const problem wide = problem_of(splittable(n_q));
        run_forward(&wide);
        const problem narrow = problem_again(&wide);
        kernel_level(FV_SIMD_AVX2);
        run_forward(&narrow);
        CHECK(same_results(&wide, &narrow));
        vec_free_all();
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    for (int t = 2; t <= 8; t++)
        if (fv_pool_create(t, &pools[t]) != FV_OK) return 1;
    RUN(query_counts);
    RUN(widths);
    RUN(chunks);
    RUN(stored_chunks);
    RUN(added_terms);
    RUN(layouts);
    RUN(threads);
    RUN(alone);
    RUN(fewer);
    RUN(padding);
    RUN(hidden_poison);
    RUN(blind_queries);
    RUN(vector_levels);
    for (int t = 2; t <= 8; t++)
        fv_pool_destroy(&pools[t]);
    return TEST_END();
}
