/*
 * Weights beside the kernel: against the forward pass's own output for values that are columns of
 * the identity, against the float64 plain kernel, and summaries of them against the map. Then
 * what must hold to the bit: hidden positions, windows, threads, batch.
 */
#include "support/attention_weights.h"

/* ---- against the forward pass ----------------------------------------------------- */

/* The weights as the forward pass used them, column by column of the map, as it stores them. */
static vec forward_weights(const problem *p)
{
    enum { WIDTH = 512 };
    const fv_attn *a = &p->a;
    const int64_t rows = a->batch * a->heads * a->n_q;
    vec map = vec_new(a->dtype, rows * a->n_k);
    for (int64_t first = 0; first < a->n_k; first += WIDTH) {
        problem one = *p;
        fv_attn *b = &one.a;
        b->d_v = a->n_k - first < WIDTH ? a->n_k - first : WIDTH;
        b->v = (fv_attn_layout){.row = b->d_v}; /* the same for every head and sequence */
        b->o = (fv_attn_layout){
            .batch = a->heads * a->n_q * b->d_v, .head = a->n_q * b->d_v, .row = b->d_v};
        one.v = vec_new(a->dtype, a->n_k * b->d_v);
        one.o = vec_new(a->dtype, rows * b->d_v);
        one.lse = vec_new(FV_F32, rows);
        for (int64_t i = 0; i < one.v.n; i++)
            vec_set(one.v, i, i / b->d_v == first + i % b->d_v);
        run_forward(&one);
        for (int64_t i = 0; i < one.o.n; i++)
            vec_set(map, i / b->d_v * a->n_k + first + i % b->d_v, vec_get(one.o, i));
    }
    return map;
}

/* The map of the float64 plain kernel. */
static vec exact_weights(const problem *p)
{
    const problem r = problem_in_double(p);
    const fv_attn_exec kept = weights_exec;
    weights_exec = (fv_attn_exec){.level = FV_SIMD_SCALAR};
    const vec map = weights_map(&r);
    weights_exec = kept;
    return map;
}

static void check_map(const char *what, problem *p)
{
    run_forward(p);
    const vec map = weights_map(p), used = forward_weights(p), exact = exact_weights(p);
    /* A score is off by a few u times the size of its terms, and a weight by that share of itself;
     * weights of one row share much of it. */
    const double u = 0x1p-24, shared = 16 * u * (1 + largest_score(p));
    const double off = 8 * u * (1 + largest_terms(p));
    int64_t wrong = 0, leaks = 0;
    for (int64_t i = 0; i < map.n; i++) {
        const double ours = vec_get(map, i), theirs = vec_get(used, i), right = vec_get(exact, i);
        wrong += !(fabs(ours - theirs) <= shared) || !(fabs(ours - right) <= off * right + 1e-37);
        leaks += right == 0 && (ours != 0 || theirs != 0);
    }
    if (wrong || leaks)
        test_failed(__FILE__, __LINE__, "%s, %lld x %lld: %lld weights are off, %lld leak", what,
                    (long long)p->a.n_q, (long long)p->a.n_k, (long long)wrong, (long long)leaks);
    vec_free_all();
}

static void sizes(void)
{
    static const int64_t n_q[] = {1, 6, 7, 96, 97, 200}, n_k[] = {1, 17, 64, 255, 257, 700};
    static const int64_t d[] = {1, 16, 17, 64, 128, 200};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            problem p = problem_of(attn_sizes(n_q[i], n_k[j], d[(i + j) % 6], 4));
            check_map("plain", &p);
        }
    for (double size = 4; size <= 64; size *= 4) {
        problem p = problem_of(attn_sizes(40, 300, 64, 4));
        p.a.rule.scale *= size;
        check_map("large scores", &p);
    }
}
static void map_sizes(void) { weights_every_level(sizes); }

static void masked(const char *what, fv_attn a, bool pattern, bool lengths)
{
    problem p = problem_of(a);
    if (pattern) problem_pattern(&p, 0.3);
    if (lengths) problem_lengths(&p);
    check_map(what, &p);
}

static void masks(void)
{
    const fv_attn base = attn_heads(2, 4, 2, 110, 300, 20);
    fv_attn a = base;
    masked("lengths", a, false, true);
    masked("pattern", a, true, true);
    a.rule.causal = FV_CAUSAL_TOP_LEFT;
    masked("causal", a, false, false);
    a.rule.q_offset = -20;
    masked("queries before every key", a, false, true);
    a = base;
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    a.rule.left = 33;
    masked("window to the left", a, false, true);
    a.rule.prefix = 7;
    masked("window and prefix", a, true, true);
    a = base;
    a.rule.left = 40;
    a.rule.right = 21;
    masked("window to both sides", a, false, false);
    problem p = problem_of(base);
    problem_blocks(&p, 20, 48, 0.4);
    check_map("blocks", &p);
}
static void map_masks(void) { weights_every_level(masks); }

static void added(void)
{
    const fv_attn base = attn_heads(2, 4, 2, 45, 290, 24);
    problem p = problem_of(base);
    problem_bias(&p, 4 * 45 * 290, 45 * 290, 290, 1);
    check_map("bias", &p);
    p = problem_of(base);
    problem_bias(&p, 0, 1, 0, 4);
    check_map("shared bias", &p);
    p = problem_of(base);
    problem_slopes(&p);
    p.a.rule.soft_cap = 1.5;
    p.a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    check_map("slopes and soft cap", &p);
}
static void map_added_terms(void) { weights_every_level(added); }

static void check_summary(problem *p);

static void other_scores(void)
{
    fv_attn a = attn_heads(2, 4, 2, 45, 290, 24);
    a.score = FV_ATTN_SCORE_ADDITIVE;
    a.rule.scale = 0.3;
    problem p = problem_of(a);
    check_map("additive", &p);
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    p = problem_of(a);
    problem_bias(&p, 0, 0, 290, 1);
    check_map("additive, causal, with bias", &p);
    p = problem_of(a);
    vec_set(p.q, 7, 300); /* beyond what an exponential can say */
    vec_set(p.k, 24 * 33, -200);
    check_map("additive, far out", &p);
    p = problem_of(a);
    check_summary(&p);
    a.score = FV_ATTN_SCORE_NONE;
    p = problem_of(a);
    problem_bias(&p, 4 * 45 * 290, 45 * 290, 290, 1);
    check_map("the bias alone", &p);
    p = problem_of(a);
    problem_bias(&p, 4 * 45 * 290, 45 * 290, 290, 1);
    check_summary(&p);
}
static void map_other_scores(void) { weights_every_level(other_scores); }

/* ---- bits ------------------------------------------------------------------------- */

static fv_attn splittable(void)
{
    fv_attn a = attn_heads(2, 4, 2, 210, 530, 24);
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    a.rule.left = 400;
    a.rule.prefix = 9;
    return a;
}

/* Any window, with any strides, holds the bits of the whole map. */
static void windows(void)
{
    problem p = problem_of(splittable());
    run_forward(&p);
    const vec map = weights_map(&p);
    static const int64_t part[][8] = {
        {0, 2, 0, 4, 0, 210, 0, 530},   {1, 1, 3, 1, 209, 1, 529, 1}, {0, 1, 1, 2, 50, 100, 255, 3},
        {0, 2, 2, 1, 97, 13, 300, 230}, {1, 1, 0, 4, 5, 3, 0, 16},    {0, 1, 0, 1, 0, 7, 256, 256},
        {0, 1, 2, 2, 0, 0, 0, 530},
    };
    for (size_t e = 0; e < sizeof part / sizeof *part; e++)
        for (int64_t apart = 1; apart <= 3; apart += 2) {
            const int64_t *t = part[e], cells = t[1] * t[3] * t[5] * t[7];
            fv_attn_region w = {sizeof w, t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], {0}};
            /* keys outermost where they are apart, to have nothing in the usual order */
            fv_attn_region_dense(&w);
            if (apart > 1) w.out = (fv_attn_grid){1, t[1], t[1] * t[3], apart * t[1] * t[3] * t[5]};
            const vec out = vec_new(FV_F32, apart * cells + 1);
            weights_run(&p, &w, out.data);
            int64_t wrong = 0;
            for (int64_t i = 0; i < cells; i++) {
                const int64_t c = i % t[7], r = i / t[7] % t[5], h = i / t[7] / t[5] % t[3];
                const int64_t b = i / t[7] / t[5] / t[3];
                const double ours =
                    vec_get(out, b * w.out.batch + h * w.out.head + r * w.out.row + c * w.out.col);
                const int64_t row = ((t[0] + b) * 4 + t[2] + h) * 210 + t[4] + r;
                wrong += ours != vec_get(map, row * 530 + t[6] + c);
            }
            CHECK(wrong == 0);
        }
}
static void map_windows(void) { weights_every_level(windows); }

/* A document of a longer row: its queries alone, with log-sum-exps that lie among the others. */
static void document(void)
{
    problem p = problem_of(attn_heads(1, 2, 1, 20, 70, 24));
    run_forward(&p);
    problem part = p;
    part.a.n_q = 7;
    part.a.rule.q_offset = 5;
    part.a.lse_head = 20;
    part.q.data = (float *)p.q.data + 5 * 24;
    part.lse.data = (float *)p.lse.data + 5;
    const vec map = weights_map(&p), ours = weights_map(&part);
    for (int64_t h = 0; h < 2; h++)
        CHECK(vec_same_bits(vec_part(ours, h * 490, 490), vec_part(map, (h * 20 + 5) * 70, 490)));
}
static void documents(void) { weights_every_level(document); }

static void threaded(void)
{
    problem p = problem_of(splittable());
    run_forward(&p);
    const vec one = weights_map(&p);
    const summary first = weights_summary(&p, 5);
    for (int count = 2; count <= 8; count += 2) {
        CHECK(fv_pool_create(count, &weights_exec.pool) == FV_OK);
        const vec many = weights_map(&p);
        const summary second = weights_summary(&p, 5);
        fv_pool_destroy(&weights_exec.pool);
        CHECK(vec_same_bits(one, many) && same_summaries(&first, &second));
    }
}
static void threads(void) { weights_every_level(threaded); }

static void batched(void)
{
    problem all = problem_of(splittable());
    run_forward(&all);
    const vec map = weights_map(&all);
    const summary both = weights_summary(&all, 5);
    const fv_attn *a = &all.a;
    const int64_t rows = a->heads * a->n_q, cells = rows * a->n_k, keys = a->heads * a->n_k;
    for (int64_t b = 0; b < 2; b++) {
        problem one = {.a = *a,
                       .q = vec_part(all.q, b * a->q.batch, a->q.batch),
                       .k = vec_part(all.k, b * a->k.batch, a->k.batch),
                       .lse = vec_part(all.lse, b * rows, rows)};
        one.a.batch = 1;
        const summary s = weights_summary(&one, 5);
        CHECK(vec_same_bits(weights_map(&one), vec_part(map, b * cells, cells)));
        CHECK(vec_same_bits(s.weight, vec_part(both.weight, b * rows * 5, rows * 5)));
        CHECK(vec_same_bits(s.entropy, vec_part(both.entropy, b * rows, rows)));
        CHECK(vec_same_bits(s.received, vec_part(both.received, b * keys, keys)));
    }
}
static void batch(void) { weights_every_level(batched); }

/* What the forward pass stored is the map's weight rounded, and by pairs the weight was rounded
 * before. */
static void check_stored(const problem *p)
{
    const vec map = weights_map(p), used = forward_weights(p);
    const double shared = 16 * 0x1p-24 * (1 + largest_score(p));
    const double rounded = attn_by_pairs(p->a.dtype) ? 0x1p-8 : 0;
    double worst = 0;
    for (int64_t i = 0; i < map.n; i++) {
        const double weight = vec_get(map, i);
        worst = test_worse(worst, vec_gap(used, i, weight) - rounded * weight);
    }
    CHECK(worst <= shared);
}

/* bf16 and f16 inputs give the weights of the floats they represent. */
static void halves(void)
{
    static const fv_dtype types[] = {FV_BF16, FV_F16};
    for (int t = 0; t < 2; t++) {
        fv_attn a = splittable();
        a.dtype = types[t];
        problem p = problem_of(a), f = p;
        run_forward(&p);
        check_stored(&p);
        f.a.dtype = FV_F32;
        f.q = vec_new(FV_F32, p.q.n);
        f.k = vec_new(FV_F32, p.k.n);
        f.lse = p.lse;
        for (int64_t i = 0; i < p.q.n; i++)
            vec_set(f.q, i, vec_get(p.q, i));
        for (int64_t i = 0; i < p.k.n; i++)
            vec_set(f.k, i, vec_get(p.k, i));
        const summary ours = weights_summary(&p, 4), theirs = weights_summary(&f, 4);
        CHECK(vec_same_bits(weights_map(&p), weights_map(&f)) && same_summaries(&ours, &theirs));
    }
}
static void half_storage(void) { weights_every_level(halves); }

/* What hidden keys and blind queries hold does not matter. */
static void poisoned(void)
{
    fv_attn a = attn_sizes(30, 400, 20, 4);
    a.rule.causal = FV_CAUSAL_TOP_LEFT;
    a.rule.q_offset = -7;
    problem p = problem_of(a);
    run_forward(&p);
    const vec map = weights_map(&p);
    const summary clean = weights_summary(&p, 3);
    for (int64_t c = 0; c < 20; c++) {
        vec_set(p.k, 23 * 20 + c, NAN);
        vec_set(p.k, 300 * 20 + c, INFINITY);
        vec_set(p.q, c, NAN);
    }
    const summary s = weights_summary(&p, 3);
    CHECK(vec_same_bits(map, weights_map(&p)) && same_summaries(&clean, &s));
    for (int64_t i = 0; i < 7; i++) {
        CHECK(vec_get(p.lse, i) == -INFINITY);
        CHECK(vec_get(s.index, 3 * i) == -1 && vec_get(s.weight, 3 * i) == 0);
        CHECK(vec_get(s.entropy, i) == 0 && vec_get(s.distance, i) == 0);
        for (int64_t j = 0; j < 400; j++)
            CHECK(vec_get(map, i * 400 + j) == 0);
    }
    CHECK(vec_get(s.index, 3 * 7) == 0 && vec_get(s.index, 3 * 7 + 1) == -1);
    CHECK(vec_get(s.received, 23) == 0 && vec_get(s.received, 300) == 0);
}
static void hidden_poison(void) { weights_every_level(poisoned); }

/* ---- summaries -------------------------------------------------------------------- */

/* The place of a key among its row's weights: larger ones, and equal ones before it. */
static int64_t place_of(const float *row, int64_t n, int64_t j)
{
    int64_t place = 0;
    for (int64_t k = 0; k < n; k++)
        place += row[k] > row[j] || (row[k] == row[j] && k < j);
    return place;
}

static void check_top(const problem *p, const summary *s, vec map, int64_t top)
{
    int64_t wrong = 0;
    for (int64_t i = 0; i < map.n; i++) {
        const int64_t row = i / p->a.n_k, j = i % p->a.n_k;
        const float *weights = (const float *)map.data + row * p->a.n_k;
        const int64_t place = place_of(weights, p->a.n_k, j);
        if (place >= top) continue;
        const bool counts = weights[j] > 0;
        wrong += vec_get(s->index, row * top + place) != (counts ? (double)j : -1);
        wrong += vec_get(s->weight, row * top + place) != (double)weights[j];
    }
    CHECK(wrong == 0);
}

static void check_sums(const problem *p, const summary *s, vec map)
{
    const fv_attn *a = &p->a;
    const int64_t rows = a->batch * a->heads * a->n_q;
    const double u = 0x1p-24, off = 8 * u * (1 + largest_score(p));
    double worst = 0;
    for (int64_t row = 0; row < rows; row++) {
        double entropy = 0, distance = 0;
        for (int64_t j = 0; j < a->n_k; j++) {
            const double w = vec_get(map, row * a->n_k + j);
            if (w > 0) entropy -= w * log(w);
            distance += w * fabs((double)(j - fv_attn_position(a, row % a->n_q)));
        }
        worst = test_worse(worst, fabs(entropy - vec_get(s->entropy, row)) / (off * (1 + entropy)));
        worst =
            test_worse(worst, fabs(distance - vec_get(s->distance, row)) / (off * (1 + distance)));
    }
    for (int64_t i = 0; i < s->received.n; i++) {
        const int64_t head = i / a->n_k, j = i % a->n_k;
        double sum = 0;
        for (int64_t r = head * a->n_q; r < (head + 1) * a->n_q; r++)
            sum += vec_get(map, r * a->n_k + j);
        worst = test_worse(worst,
                           fabs(sum - vec_get(s->received, i)) / ((double)a->n_q * u * (1 + sum)));
    }
    CHECK(worst <= 1);
}

static void check_summary(problem *p)
{
    static const int64_t tops[] = {1, 3, 16, 700};
    run_forward(p);
    const vec map = weights_map(p);
    for (int t = 0; t < 4; t++) {
        const summary s = weights_summary(p, tops[t]);
        check_top(p, &s, map, tops[t]);
        check_sums(p, &s, map);
    }
    vec_free_all();
}

static void summarised(void)
{
    problem p = problem_of(attn_heads(2, 4, 2, 100, 300, 17));
    check_summary(&p);
    p = problem_of(attn_heads(1, 2, 2, 13, 600, 64));
    p.a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    p.a.rule.left = 300;
    problem_pattern(&p, 0.5);
    check_summary(&p);
    p = problem_of(attn_heads(2, 2, 1, 20, 70, 8));
    problem_lengths(&p);
    problem_slopes(&p);
    check_summary(&p);
    /* equal weights: the lower key comes first */
    p = problem_of(attn_sizes(9, 90, 4, 4));
    for (int64_t i = 0; i < p.k.n; i++)
        vec_set(p.k, i, (double)(i / 4 % 3));
    check_summary(&p);
}
static void summaries(void) { weights_every_level(summarised); }

static void head_means(void)
{
    fv_attn a = attn_heads(1, 2, 2, 3, 5, 4);
    const vec lse = VEC_OF(FV_F32, 1, -INFINITY, 2, -INFINITY, -INFINITY, -INFINITY);
    const vec rows = VEC_OF(FV_F32, 3, 100, 4, 7, 8, 9), means = vec_new(FV_F32, 2);
    CHECK(fv_attn_head_means(&a, lse.data, rows.data, means.data) == FV_OK);
    CHECK(vec_get(means, 0) == 3.5 && vec_get(means, 1) == 0);
    CHECK(fv_attn_head_means(&a, NULL, rows.data, means.data) == FV_ERR_ARGUMENT);
    a.heads = 3;
    CHECK(fv_attn_head_means(&a, lse.data, rows.data, means.data) == FV_ERR_ARGUMENT);
    vec_free_all();
}

/* ---- memory and refusals ---------------------------------------------------------- */

static void scratch_is_linear(void)
{
    const fv_attn a = attn_sizes(131072, 131072, 64, 64);
    int64_t index[1];
    float weight[1];
    const fv_attn_summary s = {
        .struct_size = sizeof s, .top = 16, .top_index = index, .top_weight = weight};
    size_t need = 0;
    CHECK(fv_attn_summary_scratch(&a, &s, 2, &need) == FV_OK);
    CHECK(need < (size_t)64 << 20);
    const fv_attn huge = attn_heads(1 << 30, 1 << 20, 1 << 19, 1, 1 << 19, 64);
    CHECK(fv_attn_summary_scratch(&huge, &s, 1, &need) == FV_OK);
    CHECK(need == SIZE_MAX || fv_simd_detect() == FV_SIMD_SCALAR);
}

static void refusals(void)
{
    problem p = problem_of(attn_sizes(5, 40, 8, 8));
    fv_attn_data data = weights_data(&p);
    fv_attn_region w = weights_window(&p);
    size_t need = 0;
    float out[5 * 40];
    CHECK(fv_attn_weights_scratch(&p.a, &w, 1, &need) == FV_OK);
    void *scratch = aligned_alloc(64, need + 64 - need % 64);
    CHECK(fv_attn_weights(&p.a, &data, &w, NULL, scratch, need, NULL) == FV_ERR_ARGUMENT);
    CHECK(fv_attn_weights(&p.a, NULL, &w, NULL, scratch, need, out) == FV_ERR_ARGUMENT);
    CHECK(fv_attn_weights(&p.a, &data, NULL, NULL, scratch, need, out) == FV_ERR_ARGUMENT);
    CHECK(fv_attn_weights(&p.a, &data, &w, NULL, scratch, 0, out) == FV_ERR_ARGUMENT);
    data.lse = NULL;
    CHECK(fv_attn_weights(&p.a, &data, &w, NULL, scratch, need, out) == FV_ERR_ARGUMENT);
    data = weights_data(&p);
    w.col = 1;
    CHECK(fv_attn_weights(&p.a, &data, &w, NULL, scratch, need, out) == FV_ERR_ARGUMENT);
    w.col = INT64_MAX;
    CHECK(fv_attn_weights_scratch(&p.a, &w, 1, &need) == FV_ERR_ARGUMENT);
    w = weights_window(&p);
    w.rows = -1;
    CHECK(fv_attn_weights_scratch(&p.a, &w, 1, &need) == FV_ERR_ARGUMENT);
    w = weights_window(&p);
    w.struct_size = sizeof w + 8;
    CHECK(fv_attn_weights_scratch(&p.a, &w, 1, &need) == FV_ERR_ARGUMENT);
    w = weights_window(&p);
    CHECK(fv_attn_weights_scratch(&p.a, &w, 0, &need) == FV_ERR_ARGUMENT);
    fv_attn_summary s = {.struct_size = sizeof s, .top = 1};
    CHECK(fv_attn_summarise(&p.a, &data, &s, NULL, scratch, need) == FV_ERR_ARGUMENT);
    s.top = -1;
    CHECK(fv_attn_summarise(&p.a, &data, &s, NULL, scratch, need) == FV_ERR_ARGUMENT);
    s.top = 0;
    CHECK(fv_attn_summarise(&p.a, NULL, &s, NULL, scratch, need) == FV_ERR_ARGUMENT);
    s.struct_size = 0;
    CHECK(fv_attn_summarise(&p.a, &data, &s, NULL, scratch, need) == FV_ERR_ARGUMENT);
    p.a.dtype = FV_I64;
    CHECK(fv_attn_weights_scratch(&p.a, &w, 1, &need) == FV_ERR_UNSUPPORTED);
    free(scratch);
    vec_free_all();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(map_sizes);
    RUN(map_masks);
    RUN(map_added_terms);
    RUN(map_other_scores);
    RUN(map_windows);
    RUN(documents);
    RUN(threads);
    RUN(batch);
    RUN(half_storage);
    RUN(hidden_poison);
    RUN(summaries);
    RUN(head_means);
    RUN(scratch_is_linear);
    RUN(refusals);
    return TEST_END();
}
