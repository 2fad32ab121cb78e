/*
 * Lists of blocks: values and gradients of every level against the float64 plain kernel, and bits
 * equal to those of a pattern that hides the same pairs one by one.
 */
#include "support/attention.h"

static void check_both(const char *what, problem *p)
{
    check_forward(what, p);
    check_backward(what, p);
    vec_free_all();
}

static void sizes_at_level(void)
{
    static const int64_t block_q[] = {1, 4, 7, 16, 96, 1000},
                         block_k[] = {16, 32, 48, 64, 256, 272};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            problem p = problem_of(attn_heads(2, 2, 1, 130, 530, 20));
            problem_blocks(&p, block_q[i], block_k[j], 0.4);
            check_both("block sizes", &p);
        }
}
static void sizes(void)
{
    attn_every_level(sizes_at_level);
    attn_on_tiles(sizes_at_level);
}

static void together_at_level(void)
{
    fv_attn a = attn_heads(2, 2, 2, 210, 500, 24);
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    a.rule.left = 300;
    a.rule.prefix = 20;
    problem p = problem_of(a);
    problem_blocks(&p, 32, 32, 0.5);
    problem_pattern(&p, 0.6);
    problem_lengths(&p);
    check_both("causal, window, prefix, pattern, lengths", &p);
    p = problem_of(a);
    problem_blocks(&p, 64, 48, 0.5);
    problem_bias(&p, 0, 210 * 500, 500, 1);
    problem_slopes(&p);
    p.grad_bias = vec_normals(p.bias.n, 0);
    p.a.rule.soft_cap = 2;
    p.a.rule.dropout = 0.3;
    check_both("bias, slopes, soft cap, dropout", &p);
    a.score = FV_ATTN_SCORE_ADDITIVE;
    p = problem_of(a);
    problem_blocks(&p, 16, 16, 0.3);
    check_both("additive", &p);
    a.score = FV_ATTN_SCORE_DOT;
    a.dtype = FV_BF16;
    p = problem_of(a);
    problem_blocks(&p, 48, 32, 0.5);
    check_both("bf16", &p);
    p = problem_of(attn_sizes(1, 600, 32, 32));
    problem_blocks(&p, 1, 64, 0.3);
    check_both("one query", &p);
}
static void together(void)
{
    attn_every_level(together_at_level);
    attn_on_tiles(together_at_level);
}

/* The pattern that says the same pair by pair. */
static problem by_pattern(const problem *p)
{
    const fv_attn *a = &p->a;
    problem r = problem_again(p);
    r.visible = vec_new(FV_U8, a->heads * a->n_q * a->n_k);
    r.a.visible = (fv_attn_grid){0, a->n_q * a->n_k, a->n_k, 1};
    for (int64_t at = 0; at < r.visible.n; at++) {
        const int64_t j = at % a->n_k, i = at / a->n_k % a->n_q, h = at / a->n_k / a->n_q;
        const fv_attn_grid *g = &a->blocks;
        const int64_t cell =
            h * g->head + i / a->rule.block_q * g->row + j / a->rule.block_k * g->col;
        vec_set(r.visible, at, vec_get(p->blocks, cell));
    }
    r.blocks.data = NULL;
    r.a.rule.block_q = r.a.rule.block_k = 0;
    return r;
}

static void pattern_at_level(void)
{
    static const fv_dtype types[] = {FV_F32, FV_BF16};
    for (int i = 0; i < 8; i++) {
        fv_attn a = attn_heads(2, 2, 1, 190, 600, 20);
        a.dtype = types[i % 2];
        a.rule.causal = i & 2 ? FV_CAUSAL_BOTTOM_RIGHT : FV_CAUSAL_NONE;
        problem p = problem_of(a);
        problem_blocks(&p, i & 4 ? 5 : 64, i & 4 ? 16 : 64, 0.3);
        const problem r = by_pattern(&p);
        run_forward(&p);
        run_backward(&p);
        run_forward(&r);
        run_backward(&r);
        CHECK(same_results(&p, &r));
        CHECK(same_gradients(&p, &r));
        vec_free_all();
    }
}
static void pattern(void)
{
    attn_every_level(pattern_at_level);
    attn_on_tiles(pattern_at_level);
}

/* Keys 64 to 128 are hidden from all: what they hold does not matter. Queries 40 to 80 see none. */
static void hidden_at_level(void)
{
    problem p = problem_of(attn_sizes(120, 300, 16, 16));
    problem_blocks(&p, 40, 64, 2);
    for (int64_t q = 0; q < 3; q++)
        vec_set(p.blocks, q * 5 + 1, 0);
    for (int64_t k = 0; k < 5; k++)
        vec_set(p.blocks, 5 + k, 0);
    run_forward(&p);
    run_backward(&p);
    problem r = problem_again(&p);
    r.k = vec_copy(p.k);
    r.v = vec_copy(p.v);
    for (int64_t j = 64; j < 128; j += 9) {
        problem_spoil(&r, r.k, &r.a.k, j, 16);
        problem_spoil(&r, r.v, &r.a.v, j, 16);
    }
    run_forward(&r);
    run_backward(&r);
    CHECK(same_results(&p, &r));
    CHECK(same_gradients(&p, &r));
    for (int64_t i = 0; i < 120; i++)
        CHECK((vec_get(p.lse, i) == -INFINITY) == (i >= 40 && i < 80));
    for (int64_t c = 0; c < 64 * 16; c++)
        CHECK(vec_get(p.grad_k, 64 * 16 + c) == 0 && vec_get(p.grad_v, 64 * 16 + c) == 0);
    for (int64_t c = 0; c < 40 * 16; c++)
        CHECK(vec_get(p.o, 40 * 16 + c) == 0 && vec_get(p.grad_q, 40 * 16 + c) == 0);
    vec_free_all();
}
static void hidden(void)
{
    attn_every_level(hidden_at_level);
    attn_on_tiles(hidden_at_level);
}

static fv_status status_of(fv_attn *a, const uint8_t *blocks)
{
    static float x[64], o[64], lse[8];
    static _Alignas(64) char scratch[1 << 20];
    const int64_t begin[] = {0, 4};
    fv_attn_data data = {.q = x, .k = x, .v = x, .o = o, .lse = lse, .blocks = blocks};
    if (a->varlen) data.q_begin = data.k_begin = begin;
    return fv_attn_forward(a, &data, NULL, scratch, sizeof scratch);
}

static void refused(void)
{
    const uint8_t grid[4] = {1, 1, 1, 1};
    fv_attn a = attn_sizes(4, 4, 4, 4);
    CHECK_EQ(status_of(&a, NULL), FV_OK);
    CHECK_EQ(status_of(&a, grid), FV_ERR_ARGUMENT); /* no sizes */
    a.rule.block_q = 2;
    CHECK_EQ(status_of(&a, grid), FV_ERR_ARGUMENT);
    a.rule.block_k = 8;
    CHECK_EQ(status_of(&a, grid), FV_ERR_ARGUMENT);
    a.rule.block_k = 16;
    CHECK_EQ(status_of(&a, grid), FV_OK);
    CHECK_EQ(status_of(&a, NULL), FV_ERR_ARGUMENT);
    a.rule.block_q = -1;
    CHECK_EQ(status_of(&a, grid), FV_ERR_ARGUMENT);
    a.rule.block_q = 2;
    a.varlen = true;
    CHECK_EQ(status_of(&a, grid), FV_ERR_UNSUPPORTED);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(sizes);
    RUN(together);
    RUN(pattern);
    RUN(hidden);
    RUN(refused);
    return TEST_END();
}
