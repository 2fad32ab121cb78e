/*
 * What only the attention of level amx has, on emulated tiles (attention_tiles.h): terms that are
 * not finite are added after the products, products wait in a queue, P and dS are rounded. The
 * lists of the other attention tests run on tiles as well (attn_on_tiles).
 */
#include "support/attention.h"

enum { PLAIN = 0, INFINITE = 1, NOT_A_NUMBER = 2 };

static int kind_of(double x) { return isnan(x) ? NOT_A_NUMBER : isinf(x) ? INFINITE : PLAIN; }

/* NaN where one must be and nowhere else; likewise infinity, with its sign. */
static void check_kinds(const char *what, vec got, vec want)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < got.n; i++) {
        const double x = vec_get(got, i), y = vec_get(want, i);
        wrong += kind_of(x) != kind_of(y) || (isinf(y) && x != y);
    }
    if (wrong > 0)
        test_failed(__FILE__, __LINE__, "%s: %lld elements are of another kind", what,
                    (long long)wrong);
}

/* The same on the float tile. */
static problem reference_of(const problem *p)
{
    problem r = problem_again(p);
    const kernel_setup before = setup;
    attn_without_pairs();
    run_forward(&r);
    run_backward(&r);
    setup = before;
    return r;
}

/* One number of an input is not finite, in a place that some queries see and others do not. */
static void one_number(int input, double number)
{
    fv_attn a = attn_heads(1, 2, 2, 70, 150, 40);
    a.d_v = 24;
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    a.rule.left = 60;
    fv_attn_dense(&a);
    problem p = problem_of(a);
    const vec inputs[] = {p.v, p.k, p.q, p.grad_o};
    static const char *const names[] = {"v", "k", "q", "do"};
    vec_set(inputs[input], inputs[input].n / 3, number);
    run_forward(&p);
    run_backward(&p);
    const problem r = reference_of(&p);
    check_kinds(names[input], p.o, r.o);
    check_kinds(names[input], p.grad_v, r.grad_v);
    check_kinds(names[input], p.grad_q, r.grad_q);
    check_kinds(names[input], p.grad_k, r.grad_k);
    vec_free_all();
}

static void not_finite_on_tiles(void)
{
    static const double numbers[] = {NAN, INFINITY, -INFINITY};
    for (int input = 0; input < 4; input++)
        for (int n = 0; n < 3; n++)
            one_number(input, numbers[n]);
}
static void not_finite(void) { attn_on_tiles(not_finite_on_tiles); }

/* More products than the queue holds: four key ranges by sixteen groups of columns, and the scores
 * of the next row tile. */
static void full_queue_on_tiles(void)
{
    fv_attn a = attn_sizes(100, 512, 8, 512);
    problem p = problem_of(a);
    problem_blocks(&p, 100, 32, 1);
    for (int64_t i = 0; i < p.blocks.n; i++)
        vec_set(p.blocks, i, (double)(i % 2));
    check_forward("every other block", &p);
    check_backward("every other block", &p);
    vec_free_all();
}
static void full_queue(void) { attn_on_tiles(full_queue_on_tiles); }

/* These bits are those of tiles: the float tile has others, forward and backward. */
static void runs_on_tiles(void)
{
    problem p = problem_of(attn_heads(1, 2, 1, 40, 90, 64)), other = problem_again(&p);
    run_forward(&p);
    run_backward(&p);
    attn_without_pairs();
    run_forward(&other);
    CHECK(!vec_same_bits(p.lse, other.lse));
    other.o = p.o;
    other.lse = p.lse;
    run_backward(&other);
    CHECK(!vec_same_bits(p.grad_q, other.grad_q) && !vec_same_bits(p.grad_k, other.grad_k) &&
          !vec_same_bits(p.grad_v, other.grad_v));
    vec_free_all();
}
static void is_used(void) { attn_on_tiles(runs_on_tiles); }

/* Several blocks of queries and keys, at their edges, with threads and without. */
static void blocks_on_tiles(void)
{
    static const int64_t n_q[] = {31, 32, 33, 255, 256, 257, 520}, n_k[] = {127, 128, 129, 300};
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 4; j++) {
            fv_attn a = attn_sizes(n_q[i], n_k[j], 33, 31);
            a.rule.causal = (i + j) % 2 ? FV_CAUSAL_BOTTOM_RIGHT : FV_CAUSAL_NONE;
            problem p = problem_of(a);
            check_forward("edges of blocks", &p);
            check_backward("edges of blocks", &p);
            problem q = problem_again(&p);
            fv_pool *pool = NULL;
            CHECK_EQ(fv_pool_create(3, &pool), FV_OK);
            setup.pool = pool;
            run_forward(&q);
            run_backward(&q);
            setup.pool = NULL;
            fv_pool_destroy(&pool);
            CHECK(same_results(&p, &q) && same_gradients(&p, &q));
            vec_free_all();
        }
}
static void blocks(void) { attn_on_tiles(blocks_on_tiles); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(not_finite);
    RUN(full_queue);
    RUN(is_used);
    RUN(blocks);
    return TEST_END();
}
