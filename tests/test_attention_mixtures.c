/*
 * Settings of attention in random mixtures, called as an outside program calls them: whatever is
 * combined, values and gradients keep their distance from float64, weights recomputed from the
 * log-sum-exp sum to one, and NaN or infinity in what is hidden changes no bit. The tests next to
 * this one take settings by themselves or in a few chosen combinations.
 *
 *     test_attention_mixtures            the same mixtures every time
 *     FV_MIXTURES=100000:7 ...           so many of them, from another beginning
 */
#include "support/attention_hidden.h"
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
    if (in_hundred(50)) a.rule.scale = a.score == FV_ATTN_SCORE_DOT ? 0.2 : 1;
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
    for (int64_t i = 0, share = in_hundred(30) ? 5 : 0; i < p->bias.n; i++)
        if (in_hundred(share)) vec_set(p->bias, i, -INFINITY);
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
    p = problem_again(&p); /* gradients that are added to begin with 0, not with -0 */
    return in_hundred(5) ? problem_in_double(&p) : p;
}

/* ---- the raw interface -------------------------------------------------------------- */

static fv_attn_data data_of(const problem *p)
{
    fv_attn_data data = weights_data(p);
    data.v = p->v.data;
    data.o = p->o.data;
    data.grad_o = p->grad_o.data;
    data.grad_lse = p->grad_lse.data;
    data.grad_q = p->grad_q.data;
    data.grad_k = p->grad_k.data;
    data.grad_v = p->grad_v.data;
    data.grad_bias = p->grad_bias.data;
    data.grad_w = p->grad_w.data;
    return data;
}

/* Both passes. Scratch has the size that is asked for, random contents, and any alignment that
 * malloc may give it. */
static void run_raw(const problem *p)
{
    fv_attn a = p->a;
    if (a.rule.scale == (a.score == FV_ATTN_SCORE_DOT ? 1 / sqrt((double)a.d) : 1))
        a.rule.scale = 0; /* the default */
    const fv_attn_data data = data_of(p);
    for (int pass = 0; pass < 2; pass++) {
        size_t need = 0;
        CHECK(fv_attn_scratch(&a, (fv_attn_pass)pass, fv_pool_threads(weights_exec.pool), &need) ==
              FV_OK);
        char *block = aligned_alloc(64, (need + 16 + 63) / 64 * 64);
        char *scratch = block + (in_hundred(50) ? 16 : 0);
        memset(scratch, in_hundred(50) ? 0xff : 0x40, need); /* NaN, or 3 */
        CHECK((pass ? fv_attn_backward : fv_attn_forward)(&a, &data, &weights_exec, scratch,
                                                          need) == FV_OK);
        free(block);
    }
}

/* ---- checks ------------------------------------------------------------------------- */

/* Weights made again from the forward pass's log-sum-exp sum to one in every row that sees. */
static void check_weights(const char *what, const problem *p, vec map)
{
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

/* What is hidden changes no bit of anything, and what is hidden from some no bit of theirs. */
static void check_hidden(const char *what, const problem *p, vec map)
{
    const problem spoilt = problem_spoilt(p);
    run_forward(&spoilt);
    run_backward(&spoilt);
    if (!same_results(p, &spoilt) || !vec_same_bits(map, weights_map(&spoilt)))
        test_failed(__FILE__, __LINE__, "%s: hidden NaN or infinity shows", what);
    if (!same_gradients(p, &spoilt))
        test_failed(__FILE__, __LINE__, "%s: hidden NaN or infinity shows in a gradient", what);
    if (p->a.n_k == 0) return;
    const int64_t b = below(p->a.batch), h = below(p->a.kv_heads), j = below(p->a.n_k);
    const problem partly = problem_spoilt_at(p, b, h, j);
    run_forward(&partly);
    run_backward(&partly);
    if (!same_beyond(p, &partly, b, h, j))
        test_failed(__FILE__, __LINE__, "%s: NaN or infinity shows where it is hidden", what);
}

/* ---- every setting by itself ---------------------------------------------------------- */

/* A problem that hides keys from all queries and all keys from some, by one setting each. */
static problem hiding(int by, fv_attn a)
{
    if (by == 0) a.rule.causal = FV_CAUSAL_TOP_LEFT;
    if (by == 1) a.rule.left = a.rule.right = 2;
    if (by <= 1) a.rule.q_offset = -3;
    problem p = problem_of(a);
    if (by == 2) problem_lengths(&p);
    if (by == 3) problem_pattern(&p, 0.02);
    if (by == 4) problem_blocks(&p, 8, 16, 0.2);
    if (by == 5 || a.score == FV_ATTN_SCORE_NONE) {
        problem_bias(&p, 0, a.n_q * a.n_k, a.n_k, 1);
        p.grad_bias = vec_normals(p.bias.n, 0);
    }
    for (int64_t i = 0; by == 5 && i < p.bias.n; i++)
        if (i / a.n_k % a.n_q == 2 || i % a.n_k % 5 == 1) vec_set(p.bias, i, -INFINITY);
    return p;
}

static void hide_everything(fv_dtype dtype, fv_attn_score score, double soft_cap)
{
    static const int64_t sizes[][2] = {{1, 70}, {20, 70}, {97, 200}}; /* the last: several blocks */
    for (int by = 0; by < 6; by++)
        for (int n = 0; n < (by % 3 == 0 ? 3 : 2); n++) {
            /* one query without shared heads has a path of its own */
            fv_attn a = attn_heads(2, 2, n == 0 ? 2 : 1, sizes[n][0], sizes[n][1], 9);
            a.dtype = dtype == FV_F64 ? FV_F32 : dtype;
            a.score = score;
            a.rule.soft_cap = soft_cap;
            problem p = hiding(by, a);
            p = problem_again(&p); /* gradients that are added to begin with 0, not with -0 */
            if (dtype == FV_F64) p = problem_in_double(&p);
            run_forward(&p);
            run_backward(&p);
            char what[96];
            snprintf(what, sizeof what, "level %d, %s, score %d, soft cap %g, hidden by %d",
                     (int)weights_exec.level, fv_dtype_name(dtype), (int)score, soft_cap, by);
            check_hidden(what, &p, weights_map(&p));
            vec_free_all();
        }
}

static void every_setting_at_level(void)
{
    static const fv_dtype types[] = {FV_F32, FV_BF16, FV_F16, FV_F64};
    static const fv_attn_score scores[] = {FV_ATTN_SCORE_DOT, FV_ATTN_SCORE_ADDITIVE,
                                           FV_ATTN_SCORE_NONE};
    for (int t = 0; t < 4; t++)
        for (int s = 0; s < 3; s++)
            for (int cap = 0; cap < 2; cap++)
                hide_everything(types[t], scores[s], cap ? 1.5 : 0);
}
static void every_setting(void) { weights_every_level(every_setting_at_level); }

/* ---- mixtures ------------------------------------------------------------------------ */

static void check(const char *what, const problem *p, fv_pool *pool)
{
    setup.pool = pool;
    weights_exec.pool = pool;
    run_raw(p);
    check_results(what, p);
    check_gradients(what, p);
    const vec map = weights_map(p);
    check_weights(what, p, map);
    check_hidden(what, p, map);
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
    unsigned long long from = 1, count = 120;
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
    RUN(every_setting);
    RUN(mixtures);
    return TEST_END();
}
