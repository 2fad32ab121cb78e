/*
 * Documents packed in one row: values, gradients and weights have the bits of the same documents
 * run one by one, for any number of threads; offsets that are none are refused.
 */
#include "support/attention_weights.h"

enum { DOCUMENTS = 9 };
/* Empty ones, ones of a few queries (which have a path of their own), short ones and a long one. */
static const int64_t q_begin[DOCUMENTS + 1] = {0, 0, 3, 120, 121, 321, 1400, 1410, 1500, 1500};
static const int64_t k_begin[DOCUMENTS + 1] = {0, 5, 70, 70, 200, 520, 1620, 1630, 1700, 1764};

static vec offsets(const int64_t *begin)
{
    vec x = vec_new(FV_I64, DOCUMENTS + 1);
    memcpy(x.data, begin, sizeof q_begin);
    return x;
}

static fv_attn packed(int64_t heads, int64_t kv_heads, int64_t d)
{
    fv_attn a = attn_heads(1, heads, kv_heads, q_begin[DOCUMENTS], k_begin[DOCUMENTS], d);
    a.batch = DOCUMENTS;
    a.varlen = true;
    a.q.batch = a.k.batch = a.v.batch = a.o.batch = 0; /* not looked at */
    return a;
}

static problem packed_problem(fv_attn a)
{
    problem p = problem_of(a);
    p.q_begin = offsets(q_begin);
    p.k_begin = offsets(k_begin);
    const int64_t rows = a.heads * a.n_q;
    p.lse = vec_new(FV_F32, rows);
    p.grad_lse = vec_normals(rows, 1);
    return p;
}

/* Rows of one document, head by head. */
static vec cut(vec all, int64_t heads, int64_t rows, int64_t first, int64_t count, int64_t width)
{
    vec x = vec_new(all.dtype, heads * count * width);
    const size_t size = fv_dtype_size(all.dtype), line = (size_t)(count * width) * size;
    for (int64_t h = 0; h < heads; h++)
        memcpy((char *)x.data + (size_t)h * line,
               (const char *)all.data + (size_t)((h * rows + first) * width) * size, line);
    return x;
}

static problem document_of(const problem *all, int64_t b)
{
    const fv_attn *a = &all->a;
    const int64_t q = q_begin[b], n_q = q_begin[b + 1] - q, k = k_begin[b],
                  n_k = k_begin[b + 1] - k;
    problem one = *all;
    one.q_begin = one.k_begin = one.key_lengths = (vec){.data = NULL};
    one.a.varlen = false;
    one.a.batch = 1;
    one.a.n_q = n_q;
    one.a.n_k = n_k;
    fv_attn_dense(&one.a);
    one.q = cut(all->q, a->heads, a->n_q, q, n_q, a->d);
    one.grad_o = cut(all->grad_o, a->heads, a->n_q, q, n_q, a->d_v);
    one.grad_lse = cut(all->grad_lse, a->heads, a->n_q, q, n_q, 1);
    one.k = cut(all->k, a->kv_heads, a->n_k, k, n_k, a->d);
    one.v = cut(all->v, a->kv_heads, a->n_k, k, n_k, a->d_v);
    one.o = vec_new(a->dtype, one.grad_o.n);
    one.lse = vec_new(FV_F32, a->heads * n_q);
    one.grad_q = vec_new(a->dtype, one.q.n);
    one.grad_k = vec_new(a->dtype, one.k.n);
    one.grad_v = vec_new(a->dtype, one.v.n);
    if (all->key_lengths.data) {
        one.key_lengths = vec_new(FV_I64, 1);
        vec_set(one.key_lengths, 0, vec_get(all->key_lengths, b));
    }
    return one;
}

/* Runs the row, then each document alone, and compares. Alone they add to one gradient of w. */
static void check_documents(const char *what, problem *all)
{
    const fv_attn *a = &all->a;
    run_forward(all);
    run_backward(all);
    const vec sum_w = all->w.data ? vec_normals(all->w.n, 0) : (vec){.data = NULL};
    bool same = true;
    for (int64_t b = 0; b < DOCUMENTS; b++) {
        problem one = document_of(all, b);
        const int64_t q = q_begin[b], k = k_begin[b], n_q = one.a.n_q, n_k = one.a.n_k;
        one.grad_w = sum_w;
        run_forward(&one);
        run_backward(&one);
        same &= vec_same_bits(one.o, cut(all->o, a->heads, a->n_q, q, n_q, a->d_v));
        same &= vec_same_bits(one.lse, cut(all->lse, a->heads, a->n_q, q, n_q, 1));
        same &= vec_same_bits(one.grad_q, cut(all->grad_q, a->heads, a->n_q, q, n_q, a->d));
        same &= vec_same_bits(one.grad_k, cut(all->grad_k, a->kv_heads, a->n_k, k, n_k, a->d));
        same &= vec_same_bits(one.grad_v, cut(all->grad_v, a->kv_heads, a->n_k, k, n_k, a->d_v));
    }
    if (sum_w.data) same &= vec_same_bits(sum_w, all->grad_w);
    if (!same) test_failed(__FILE__, __LINE__, "%s: packed and separate documents differ", what);
    vec_free_all();
}

static void documents_at_level(void)
{
    problem p = packed_problem(packed(2, 2, 16));
    check_documents("plain", &p);
    fv_attn a = packed(4, 2, 24);
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    a.rule.left = 100;
    a.rule.prefix = 2;
    p = packed_problem(a);
    problem_slopes(&p);
    p.key_lengths = VEC_OF(FV_I64, 3, 70, 9, 100, 1000, 600, 0, 40, 64);
    check_documents("window, lengths, slopes, grouped heads", &p);
    a = packed(2, 1, 9);
    a.score = FV_ATTN_SCORE_ADDITIVE;
    p = packed_problem(a);
    check_documents("additive", &p);
    a = packed(2, 2, 16);
    a.dtype = FV_BF16;
    p = packed_problem(a);
    check_documents("bf16", &p);
}
static void documents(void) { attn_every_level(documents_at_level); }

static void threads_at_level(void)
{
    fv_attn a = packed(2, 1, 20);
    a.rule.causal = FV_CAUSAL_TOP_LEFT;
    a.rule.dropout = 0.3;
    a.dropout_key = 9;
    problem one = packed_problem(a);
    run_forward(&one);
    run_backward(&one);
    for (int threads = 2; threads <= 8; threads += 2) {
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
static void threads(void) { attn_every_storage(threads_at_level); }

/* Two documents of one shape do not drop the same pairs. */
static void draws_differ_at_level(void)
{
    fv_attn a = attn_heads(1, 1, 1, 40, 40, 1);
    a.batch = 2;
    a.varlen = true;
    a.rule.dropout = 0.5;
    problem p = problem_of(a);
    p.q_begin = p.k_begin = VEC_OF(FV_I64, 0, 20, 40);
    for (int64_t i = 0; i < 40; i++) {
        vec_set(p.q, i, 0);
        vec_set(p.v, i, 1);
    }
    run_forward(&p);
    CHECK(!vec_same_bits(vec_part(p.o, 0, 20), vec_part(p.o, 20, 20)));
    vec_free_all();
}
static void draws_differ(void) { attn_every_level(draws_differ_at_level); }

/* ---- weights ---------------------------------------------------------------------- */

enum { TOP = 5, MANY = 20 };

/* Whether the row's map holds a document's own, and zeros beside it. */
static bool map_holds(const problem *all, vec map, const problem *one, int64_t b)
{
    const fv_attn *a = &all->a;
    const vec own = weights_map(one);
    const int64_t first = k_begin[b], end = k_begin[b + 1];
    int64_t wrong = 0;
    for (int64_t h = 0; h < a->heads; h++)
        for (int64_t i = 0; i < one->a.n_q; i++)
            for (int64_t j = 0; j < a->n_k; j++) {
                const double ours = vec_get(map, (h * a->n_q + q_begin[b] + i) * a->n_k + j);
                const bool inside = j >= first && j < end;
                const int64_t at = (h * one->a.n_q + i) * one->a.n_k + j - first;
                wrong += ours != (inside ? vec_get(own, at) : 0);
            }
    return wrong == 0;
}

static bool summary_holds(const problem *all, const summary *s, const problem *one, int64_t b,
                          int64_t top)
{
    const int64_t heads = all->a.heads, rows = all->a.n_q, keys = all->a.n_k, n_q = one->a.n_q;
    const summary own = weights_summary(one, top);
    for (int64_t i = 0; i < own.index.n; i++)
        if (vec_get(own.index, i) >= 0)
            vec_set(own.index, i, vec_get(own.index, i) + (double)k_begin[b]);
    return vec_same_bits(own.index, cut(s->index, heads, rows, q_begin[b], n_q, top)) &&
           vec_same_bits(own.weight, cut(s->weight, heads, rows, q_begin[b], n_q, top)) &&
           vec_same_bits(own.entropy, cut(s->entropy, heads, rows, q_begin[b], n_q, 1)) &&
           vec_same_bits(own.distance, cut(s->distance, heads, rows, q_begin[b], n_q, 1)) &&
           vec_same_bits(own.received, cut(s->received, heads, keys, k_begin[b], one->a.n_k, 1));
}

static void check_weights(const char *what, problem *all)
{
    run_forward(all);
    const vec map = weights_map(all);
    const summary few = weights_summary(all, TOP), many = weights_summary(all, MANY);
    bool same = true;
    for (int64_t b = 0; b < DOCUMENTS; b++) {
        problem one = document_of(all, b);
        run_forward(&one);
        same &= map_holds(all, map, &one, b);
        same &= summary_holds(all, &few, &one, b, TOP) && summary_holds(all, &many, &one, b, MANY);
    }
    if (!same) test_failed(__FILE__, __LINE__, "%s: weights of documents differ", what);
}

/* A window across documents, with keys outermost, and one of a single document. */
static void check_windows(const problem *all)
{
    const vec map = weights_map(all);
    const int64_t part[][4] = {{100, 300, 60, 480}, {121, 200, 200, 320}, {3, 0, 0, 10}};
    for (int e = 0; e < 3; e++) {
        const int64_t rows = part[e][1], cols = part[e][3];
        fv_attn_region w = weights_window(all);
        w.row = part[e][0], w.rows = rows, w.col = part[e][2], w.cols = cols;
        w.out = (fv_attn_grid){.head = rows, .row = 1, .col = all->a.heads * rows};
        const vec out = vec_new(FV_F32, all->a.heads * rows * cols + 1);
        weights_run(all, &w, out.data);
        int64_t wrong = 0;
        for (int64_t i = 0; i < all->a.heads * rows * cols; i++) {
            const int64_t r = i % rows, h = i / rows % all->a.heads, c = i / rows / all->a.heads;
            const int64_t row = h * all->a.n_q + w.row + r;
            wrong += vec_get(out, i) != vec_get(map, row * all->a.n_k + w.col + c);
        }
        CHECK_EQ(wrong, 0);
    }
}

static void weights_at_level(void)
{
    problem p = packed_problem(packed(2, 2, 16));
    check_weights("plain", &p);
    check_windows(&p);
    const vec map = weights_map(&p);
    const summary one = weights_summary(&p, TOP);
    CHECK(fv_pool_create(3, &weights_exec.pool) == FV_OK);
    const summary three = weights_summary(&p, TOP);
    CHECK(vec_same_bits(map, weights_map(&p)) && same_summaries(&one, &three));
    fv_pool_destroy(&weights_exec.pool);
    vec_free_all();
    fv_attn a = packed(4, 2, 24);
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    a.rule.left = 100;
    p = packed_problem(a);
    problem_slopes(&p);
    p.key_lengths = VEC_OF(FV_I64, 3, 70, 9, 100, 1000, 600, 0, 40, 64);
    check_weights("window, lengths, slopes, grouped heads", &p);
}
static void weights(void) { weights_every_level(weights_at_level); }

static void refused_weights(void)
{
    problem p = packed_problem(packed(1, 1, 4));
    fv_attn_region w = weights_window(&p);
    float out[8] = {0};
    w.rows = w.cols = 2;
    fv_attn_region_dense(&w);
    size_t need = 0;
    CHECK_EQ(fv_attn_weights_scratch(&p.a, &w, 1, &need), FV_OK);
    void *scratch = aligned_alloc(64, need + 64 - need % 64);
    fv_attn_data data = weights_data(&p);
    CHECK_EQ(fv_attn_weights(&p.a, &data, &w, NULL, scratch, need, out), FV_OK);
    data.k_begin = NULL;
    CHECK_EQ(fv_attn_weights(&p.a, &data, &w, NULL, scratch, need, out), FV_ERR_ARGUMENT);
    data = weights_data(&p);
    vec_set(p.q_begin, 3, 5000);
    CHECK_EQ(fv_attn_weights(&p.a, &data, &w, NULL, scratch, need, out), FV_ERR_ARGUMENT);
    const fv_attn_summary s = {.struct_size = sizeof s, .entropy = out};
    CHECK_EQ(fv_attn_summarise(&p.a, &data, &s, NULL, scratch, need), FV_ERR_ARGUMENT);
    w.batches = 2; /* they are one sequence */
    CHECK_EQ(fv_attn_weights_scratch(&p.a, &w, 1, &need), FV_ERR_ARGUMENT);
    free(scratch);
    vec_free_all();
}

/* ---- refusals --------------------------------------------------------------------- */

static fv_status run_raw(const fv_attn *a, const int64_t *q, const int64_t *k, const void *bias)
{
    static float x[64], o[64], lse[16];
    fv_attn_data data = {
        .q = x, .k = x, .v = x, .o = o, .lse = lse, .q_begin = q, .k_begin = k, .bias = bias};
    size_t need = 0;
    fv_status status = fv_attn_scratch(a, FV_ATTN_FORWARD, 1, &need);
    if (status != FV_OK) return status;
    void *scratch = aligned_alloc(64, (need + 63) / 64 * 64);
    status = fv_attn_forward(a, &data, NULL, scratch, need);
    free(scratch);
    return status;
}

static void refused(void)
{
    fv_attn a = attn_heads(1, 2, 2, 6, 6, 4);
    a.batch = 3;
    a.varlen = true;
    const int64_t good[] = {0, 2, 2, 6}, falling[] = {0, 4, 2, 6}, late[] = {1, 2, 3, 6},
                  early[] = {0, 2, 3, 5}, past[] = {0, 2, 3, 7}, minus[] = {0, -1, 3, 6};
    float bias[36] = {0};
    CHECK_EQ(run_raw(&a, good, good, NULL), FV_OK);
    const int64_t *const bad[] = {falling, late, early, past, minus, NULL};
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(run_raw(&a, bad[i], good, NULL), FV_ERR_ARGUMENT);
        CHECK_EQ(run_raw(&a, good, bad[i], NULL), FV_ERR_ARGUMENT);
    }
    CHECK_EQ(run_raw(&a, good, good, bias), FV_ERR_UNSUPPORTED);
    a.varlen = false;
    a.batch = 1;
    CHECK_EQ(run_raw(&a, good, good, NULL), FV_ERR_ARGUMENT); /* they would not be read */
}

/* Only the kernel can read offsets on a device: it reports bad ones through the fault word. */
static void faults_at_level(void)
{
    problem p = packed_problem(packed(1, 1, 4));
    CHECK(!run_faults(&p));
    vec_set(p.k_begin, 3, 5000);
    CHECK(run_faults(&p));
    vec_free_all();
}
static void faults(void) { attn_every_level(faults_at_level); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(documents);
    RUN(threads);
    RUN(draws_differ);
    RUN(weights);
    RUN(refused_weights);
    RUN(refused);
    RUN(faults);
    return TEST_END();
}
