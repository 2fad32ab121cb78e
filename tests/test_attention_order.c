/*
 * The order in which the backward does its work items: blocks of keys visit the blocks of queries
 * that can see them and no others, threads take turns at dQ, and heads that share a gradient of the
 * bias are done one after the other. Under every rule the gradients are the plain kernel's, and
 * have the same bits with any number of threads.
 */
#include "support/attention.h"

static fv_pool *pools[9];

/* Several blocks of keys and of queries, neither whole, and more heads than some pools have
 * threads. */
static problem several_blocks(void) { return problem_of(attn_heads(2, 2, 2, 210, 400, 6)); }

static void same_with_threads(const char *what, problem *one)
{
    for (int t = 2; t <= 8; t += 3) {
        problem many = problem_again(one);
        setup.pool = pools[t];
        run_forward(&many);
        run_backward(&many);
        setup.pool = NULL;
        if (!same_gradients(one, &many)) fprintf(stderr, "%s, %d threads: ", what, t);
        CHECK(same_gradients(one, &many));
    }
    vec_free_all();
}

static void check_order(const char *what, problem *one)
{
    check_backward(what, one);
    same_with_threads(what, one);
}

/* ---- who sees whom ------------------------------------------------------------------ */

static void positions_at_level(void)
{
    static const struct {
        const char *what;
        fv_causal causal;
        int64_t left, right, prefix, q_offset;
    } rules[] = {
        {"causal", FV_CAUSAL_TOP_LEFT, -1, -1, 0, 0},
        {"causal from the end", FV_CAUSAL_BOTTOM_RIGHT, -1, -1, 0, 0},
        {"window", FV_CAUSAL_NONE, 70, 30, 0, 0},
        {"narrow window", FV_CAUSAL_NONE, 0, 0, 0, 0},
        {"from the query on", FV_CAUSAL_NONE, 0, -1, 0, 0},
        {"causal window and prefix", FV_CAUSAL_TOP_LEFT, 100, -1, 40, 0},
        {"window that leaves the keys", FV_CAUSAL_NONE, 50, 20, 0, 300},
        {"window before the keys", FV_CAUSAL_NONE, 50, 20, 0, -150},
        {"nothing visible", FV_CAUSAL_NONE, 50, 20, 0, 5000},
        {"a prefix alone", FV_CAUSAL_NONE, 50, 20, 7, 5000},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        problem p = several_blocks();
        p.a.rule.causal = rules[i].causal;
        p.a.rule.left = rules[i].left;
        p.a.rule.right = rules[i].right;
        p.a.rule.prefix = rules[i].prefix;
        p.a.rule.q_offset = rules[i].q_offset;
        check_order(rules[i].what, &p);
    }
}
static void positions(void) { attn_every_storage(positions_at_level); }

static void lengths_at_level(void)
{
    problem p = several_blocks();
    p.key_lengths = VEC_OF(FV_I64, 0, 195);
    check_order("lengths 0 and 195", &p);
    p = several_blocks();
    p.a.rule.causal = FV_CAUSAL_TOP_LEFT;
    p.key_lengths = VEC_OF(FV_I64, 384, 400);
    check_order("causal, lengths 384 and 400", &p);
    p = several_blocks();
    problem_blocks(&p, 48, 64, 0.3);
    check_order("a list of blocks", &p);
}
static void lengths(void) { attn_every_storage(lengths_at_level); }

/* ---- gradients of a bias that is shared --------------------------------------------- */

/* What the bias repeats over: bits for batch, heads, rows and columns. */
static void shared_bias_at_level(void)
{
    static const char *const names[16] = {
        "its own",    "batch",         "heads",         "batch and heads",
        "rows",       "batch, rows",   "heads, rows",   "batch, heads, rows",
        "cols",       "batch, cols",   "heads, cols",   "batch, heads, cols",
        "rows, cols", "batch, r., c.", "heads, r., c.", "everything"};
    for (int over = 0; over < 16; over++) {
        problem p = problem_of(attn_heads(2, 4, 2, 130, 400, 6));
        const int64_t cols = over & 8 ? 1 : p.a.n_k, rows = over & 4 ? 1 : p.a.n_q;
        const int64_t heads = over & 2 ? 1 : p.a.heads;
        problem_bias(&p, over & 1 ? 0 : heads * rows * cols, over & 2 ? 0 : rows * cols,
                     over & 4 ? 0 : cols, over & 8 ? 0 : 1);
        p.grad_bias = vec_normals(p.bias.n, 0);
        /* Over all keys the terms cancel but for lse's part: only the bits are held there. */
        if (over < 8) {
            check_order(names[over], &p);
        } else {
            run_forward(&p);
            run_backward(&p);
            same_with_threads(names[over], &p);
        }
    }
}
static void shared_bias(void) { attn_every_level(shared_bias_at_level); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    for (int t = 2; t <= 8; t++)
        if (fv_pool_create(t, &pools[t]) != FV_OK) return 1;
    RUN(positions);
    RUN(lengths);
    RUN(shared_bias);
    for (int t = 2; t <= 8; t++)
        fv_pool_destroy(&pools[t]);
    return TEST_END();
}
