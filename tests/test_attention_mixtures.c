/*
 * Settings of attention in random mixtures: whatever is combined, values and gradients keep their
 * bounds on every level, and weights made beside the kernel are those it used. The tests next to
 * this one take settings by themselves or in a few chosen company.
 *
 *     test_attention_mixtures            the same mixtures every time
 *     FV_MIXTURES=100000:7 ...           so many of them, from another beginning
 */
#include "support/attention_weights.h"

static uint64_t state;

static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n > 0 ? (int64_t)((state >> 33) % (uint64_t)n) : 0;
}

static bool in_hundred(int64_t chance) { return below(100) < chance; }

/* Sizes around which paths change, or any. */
static int64_t size_of(const int64_t *edges, int64_t count, int64_t most)
{
    return in_hundred(50) ? edges[below(count)] : 1 + below(most);
}

static fv_attn random_description(void)
{
    static const int64_t queries[] = {1, 2, 5, 8, 9, 16, 17, 33, 97, 200};
    static const int64_t keys[] = {0, 1, 15, 16, 17, 64, 65, 130, 257, 300, 600};
    static const fv_dtype types[] = {FV_F32, FV_F32, FV_BF16, FV_F16};
    const int64_t batch = 1 + below(2), kv_heads = 1 + below(2), group = 1 + below(3);
    const int64_t n_q = size_of(queries, 10, 120), n_k = size_of(keys, 11, 300);
    fv_attn a = attn_heads(batch, kv_heads * group, kv_heads, n_q, n_k, 1 + below(90));
    a.d_v = in_hundred(50) ? a.d : 1 + below(130);
    fv_attn_dense(&a);
    a.dtype = types[below(4)];
    if (in_hundred(30)) a.score = in_hundred(60) ? FV_ATTN_SCORE_ADDITIVE : FV_ATTN_SCORE_NONE;
    if (in_hundred(40)) a.rule.causal = (fv_causal)(1 + below(2));
    if (in_hundred(30)) a.rule.q_offset = below(80) - 40;
    if (in_hundred(25)) a.rule.left = below(70);
    if (in_hundred(25)) a.rule.right = below(70);
    if (in_hundred(25)) a.rule.prefix = below(n_k + 5);
    if (in_hundred(20)) a.rule.soft_cap = 1.5;
    if (in_hundred(20)) {
        a.rule.dropout = 0.3;
        a.dropout_key = (uint64_t)below(1000);
    }
    if (in_hundred(30)) { /* rows before heads */
        a.q = (fv_attn_layout){n_q * a.heads * a.d, a.d, a.heads * a.d};
        a.v = (fv_attn_layout){n_k * kv_heads * a.d_v, a.d_v, kv_heads * a.d_v};
    }
    return a;
}

static void random_bias(problem *p)
{
    const fv_attn *a = &p->a;
    const int64_t cells = a->n_q * a->n_k;
    switch (below(4)) {
    case 0:
        problem_bias(p, a->heads * cells, cells, a->n_k, 1);
        break;
    case 1:
        problem_bias(p, 0, cells, a->n_k, 1);
        break;
    case 2: /* keys apart, the same for every query */
        problem_bias(p, 0, 1, 0, a->heads);
        break;
    default:
        problem_bias(p, a->n_k, 0, 0, 1);
    }
    p->grad_bias = vec_normals(p->bias.n, 0);
}

static problem random_problem(void)
{
    problem p = problem_of(random_description());
    const fv_attn *a = &p.a;
    if (a->n_k > 0) {
        if (a->score == FV_ATTN_SCORE_NONE || in_hundred(30)) random_bias(&p);
        if (in_hundred(25)) problem_pattern(&p, in_hundred(50) ? 0.3 : 0.9);
        if (in_hundred(20)) problem_blocks(&p, 1 + below(40), 16 * (1 + below(5)), 0.4);
    }
    if (in_hundred(25)) problem_lengths(&p);
    /* far keys get large scores, and gradients lose what scores lose */
    if (a->n_k <= 150 && in_hundred(25)) problem_slopes(&p);
    return p;
}

/* Weights made again from the forward pass's log-sum-exp sum to one in every row that sees. */
static void check_weights(const char *what, const problem *p)
{
    const vec map = weights_map(p);
    const double off =
        16 * 0x1p-24 * (1 + largest_terms(p)) + (attn_by_pairs(p->a.dtype) ? 3e-6 : 0);
    for (int64_t row = 0; row < p->lse.n; row++) {
        const bool blind = vec_get(p->lse, row) == -INFINITY;
        double sum = 0;
        for (int64_t j = 0; j < p->a.n_k; j++)
            sum += vec_get(map, row * p->a.n_k + j);
        if (!(fabs(sum - !blind) <= (blind ? 0 : off)))
            test_failed(__FILE__, __LINE__, "%s: weights of row %lld sum to %.9g", what,
                        (long long)row, sum);
    }
}

static void check(const char *what, problem *p, fv_pool *pool)
{
    setup.pool = pool;
    weights_exec.pool = pool;
    check_forward(what, p);
    run_backward(p);
    check_gradients(what, p);
    check_weights(what, p);
    setup.pool = weights_exec.pool = NULL;
    vec_free_all();
}

static void mixtures(void)
{
    enum { MOST_THREADS = 8 };
    fv_pool *pools[MOST_THREADS + 1] = {NULL};
    for (int t = 2; t <= MOST_THREADS; t++)
        CHECK(fv_pool_create(t, &pools[t]) == FV_OK);
    const char *asked = getenv("FV_MIXTURES");
    unsigned long long from = 1, count = 150;
    if (asked) sscanf(asked, "%llu:%llu", &count, &from);
    state = from;
    for (unsigned long long i = 0; i < count; i++) {
        char what[64];
        snprintf(what, sizeof what, "mixture 1:%llu", (unsigned long long)state);
        const int64_t levels = (int64_t)fv_simd_detect() - FV_SIMD_SCALAR;
        weights_exec.level = (fv_simd)(FV_SIMD_SCALAR + (in_hundred(20) ? 0 : below(levels + 1)));
        kernel_level(weights_exec.level);
        problem_numbers(state);
        problem p = random_problem();
        check(what, &p, pools[below(MOST_THREADS + 1)]);
    }
    for (int t = 2; t <= MOST_THREADS; t++)
        fv_pool_destroy(&pools[t]);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(mixtures);
    return TEST_END();
}
