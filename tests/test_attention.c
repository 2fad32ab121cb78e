/*
 * The attention kernels of every level against the float64 plain kernel: lengths around every block
 * size, widths, score sizes, masks, added terms, layouts, gradients, merging, scratch.
 */
#include "support/attention.h"

/* ---- values ----------------------------------------------------------------------- */

static void one_length(int64_t n_q, int64_t n_k, int64_t d)
{
    problem p = problem_of(attn_sizes(n_q, n_k, d, d));
    check_forward("plain", &p);
    vec_free_all();
}

static void lengths_at_level(void)
{
    static const int64_t n[] = {0, 1, 5, 6, 7, 63, 64, 65, 191, 193, 255, 257, 600};
    enum { COUNT = sizeof n / sizeof *n };
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++)
            one_length(n[i], n[j], 17);
}
static void lengths(void)
{
    attn_every_level(lengths_at_level);
    attn_on_tiles(lengths_at_level);
}

static void widths_at_level(void)
{
    static const int64_t d[] = {1, 3, 8, 17, 64, 80, 128, 129, 512}, n[] = {1, 7, 65, 257};
    for (int w = 0; w < 9; w++) {
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++)
                one_length(n[i], n[j], d[w]);
        problem p = problem_of(attn_sizes(70, 300, d[w], d[8 - w]));
        check_forward("two widths", &p);
        vec_free_all();
    }
}
static void widths(void)
{
    attn_every_level(widths_at_level);
    attn_on_tiles(widths_at_level);
}

static void logit_sizes_at_level(void)
{
    for (double size = 1; size <= 256; size *= 4) {
        fv_attn a = attn_sizes(200, 600, 64, 64);
        a.rule.scale *= size;
        problem p = problem_of(a);
        check_forward("large scores", &p);
        a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
        p = problem_of(a);
        check_forward("large scores, causal", &p);
        vec_free_all();
    }
}
static void logit_sizes(void)
{
    attn_every_level(logit_sizes_at_level);
    attn_on_tiles(logit_sizes_at_level);
}

static void masked(const char *what, fv_attn a, bool pattern, bool sizes)
{
    problem p = problem_of(a);
    if (pattern) problem_pattern(&p, 0.3);
    if (sizes) problem_lengths(&p);
    check_forward(what, &p);
    check_backward(what, &p);
    vec_free_all();
}

static void masks_at_level(void)
{
    for (int shape = 0; shape < 3; shape++) {
        const fv_attn base = attn_heads(2, 2, 1, shape == 0 ? 300 : 37, shape == 1 ? 300 : 270, 20);
        fv_attn a = base;
        masked("lengths", a, false, true);
        masked("pattern", a, true, true);
        a.rule.causal = FV_CAUSAL_TOP_LEFT;
        masked("causal", a, false, false);
        a.rule.q_offset = 200;
        masked("causal with offset", a, true, false);
        a.rule.q_offset = -20;
        masked("queries before every key", a, false, true);
        a = base;
        a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
        masked("causal from the end", a, false, false);
        a.rule.left = 33;
        masked("window to the left", a, false, true);
        a.rule.prefix = 5;
        masked("window and prefix", a, false, false);
        a.rule.prefix = 100;
        masked("window and long prefix", a, true, true);
        a = base;
        a.rule.left = 40;
        a.rule.right = 21;
        masked("window to both sides", a, false, false);
    }
}
static void masks(void)
{
    attn_every_level(masks_at_level);
    attn_on_tiles(masks_at_level);
}

static void added_terms_at_level(void)
{
    const fv_attn base = attn_heads(2, 4, 2, 45, 290, 24);
    const int64_t cells = 45 * 290;
    problem p = problem_of(base);
    problem_bias(&p, 4 * cells, cells, 290, 1);
    p.grad_bias = vec_normals(p.bias.n, 0);
    check_forward("bias", &p);
    check_backward("bias", &p);
    p = problem_of(base);
    problem_bias(&p, 0, 1, 0, 4); /* one a head and key, keys apart */
    p.grad_bias = vec_normals(p.bias.n, 0);
    check_forward("shared bias", &p);
    check_backward("shared bias", &p);
    p = problem_of(base);
    problem_pattern(&p, 0.5);
    p.a.visible = (fv_attn_grid){cells, 0, 1, 45}; /* keys apart here, too */
    check_forward("pattern of columns", &p);
    check_backward("pattern of columns", &p);
    p = problem_of(base);
    problem_slopes(&p);
    p.a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    check_forward("slopes", &p);
    check_backward("slopes", &p);
    p.a.rule.soft_cap = 1.5;
    check_forward("slopes and soft cap", &p);
    check_backward("slopes and soft cap", &p);
    p.a.rule.dropout = 0.4;
    p.a.dropout_key = 99;
    check_forward("dropout", &p);
    check_backward("dropout", &p);
    vec_free_all();
}
static void added_terms(void) { attn_every_storage(added_terms_at_level); }

/* ---- layouts ---------------------------------------------------------------------- */

static void layouts_at_level(void)
{
    fv_attn a = attn_heads(2, 4, 4, 130, 260, 24);
    a.q = a.o = (fv_attn_layout){130 * 4 * 24, 24, 4 * 24};
    a.k = a.v = (fv_attn_layout){260 * 4 * 24, 24, 4 * 24};
    problem p = problem_of(a);
    check_forward("rows before heads", &p);
    check_backward("rows before heads", &p);
    /* q, k and v interleaved in one array of rows, starting off any boundary */
    a = attn_heads(2, 2, 2, 190, 190, 17);
    a.q = a.k = a.v = (fv_attn_layout){190 * 102 + 3, 17, 102};
    a.rule.causal = FV_CAUSAL_TOP_LEFT;
    p = problem_of(a);
    vec all = vec_normals_of(a.dtype, 2 * 190 * 102 + 3, 1);
    p.q.data = all.data;
    p.k.data = (char *)all.data + 34 * fv_dtype_size(a.dtype);
    p.v.data = (char *)all.data + 68 * fv_dtype_size(a.dtype);
    vec *grads[] = {&p.grad_q, &p.grad_k, &p.grad_v};
    for (int g = 0; g < 3; g++) /* gaps between rows are not written */
        *grads[g] = vec_normals_of(a.dtype, grads[g]->n, 0);
    check_forward("packed q, k, v", &p);
    check_backward("packed q, k, v", &p);
    vec_free_all();
}
static void layouts(void) { attn_every_storage(layouts_at_level); }

static void gradients_at_level(void)
{
    static const int64_t n[] = {1, 7, 65, 193, 257}, d[] = {1, 17, 64, 129, 512};
    for (int w = 0; w < 5; w++)
        for (int i = 0; i < 5; i++) {
            problem p = problem_of(attn_sizes(n[i], n[(i + 2) % 5], d[w], d[(w + 1) % 5]));
            check_backward("plain", &p);
            vec_free_all();
        }
    problem p = problem_of(attn_heads(1, 4, 2, 300, 290, 40));
    check_backward("grouped heads", &p);
    p = problem_of(attn_sizes(90, 110, 16, 16));
    p.grad_o.data = NULL;
    check_backward("through lse only", &p);
    p = problem_of(attn_sizes(90, 110, 16, 16));
    p.grad_lse.data = p.grad_q.data = NULL;
    check_backward("no gradient of q", &p);
    p = problem_of(attn_sizes(90, 110, 16, 16));
    p.grad_k.data = p.grad_v.data = NULL;
    check_backward("gradient of q only", &p);
    vec_free_all();
}
static void gradients(void) { attn_every_storage(gradients_at_level); }

/* Usual widths over several blocks of queries and keys. */
static void usual_widths_at_level(void)
{
    static const int64_t d[] = {32, 64, 80, 96, 128, 256, 512};
    for (int w = 0; w < 7; w++) {
        problem p = problem_of(attn_sizes(100, 200, d[w], d[w]));
        check_forward("usual width", &p);
        run_backward(&p);
        check_gradients("usual width", &p);
        vec_free_all();
    }
}
static void usual_widths(void) { attn_every_storage(usual_widths_at_level); }

/* ---- merging, memory, sabotage ---------------------------------------------------- */

static void merged_at_level(void)
{
    const problem whole = problem_of(attn_sizes(40, 400, 16, 16));
    run_forward(&whole);
    problem first = problem_again(&whole), second = problem_again(&whole);
    first.a.n_k = 150;
    second.a.n_k = 250;
    second.k = vec_part(whole.k, 150 * 16, 250 * 16);
    second.v = vec_part(whole.v, 150 * 16, 250 * 16);
    run_forward(&first);
    run_forward(&second);
    fv_attn_merge(40, 16, first.o.data, 16, first.lse.data, second.o.data, 16, second.lse.data);
    const double bound = 8 * 0x1p-24 * (1 + largest_score(&whole));
    CHECK(vec_distance(first.o, whole.o) <= 2 * bound * vec_largest(whole.v));
    CHECK(vec_distance(first.lse, whole.lse) <= 2 * bound);
    vec_free_all();
}
static void merged(void) { attn_every_level(merged_at_level); }

static void scratch_is_linear(void)
{
    const fv_attn_pass passes[] = {FV_ATTN_FORWARD, FV_ATTN_BACKWARD};
    for (int pass = 0; pass < 2; pass++) {
        fv_attn a = attn_sizes(131072, 131072, 64, 64);
        size_t long_one = 0, need = 0;
        CHECK(fv_attn_scratch(&a, passes[pass], 2, &long_one) == FV_OK);
        CHECK(long_one < (size_t)64 << 20);
        a = attn_heads(1, 8, 8, 8192, 8192, 64);
        CHECK(fv_attn_scratch(&a, passes[pass], 2, &need) == FV_OK);
        CHECK(need <= (size_t)8 * 8192 * 64 * sizeof(float) + ((size_t)2 << 20));
        a = attn_heads(1, 8, 8, 8192, 8192, 512);
        CHECK(fv_attn_scratch(&a, passes[pass], 4, &need) == FV_OK);
        CHECK(need <= (size_t)8 * 8192 * 512 * sizeof(float) + ((size_t)4 << 20));
    }
    /* sizes that only repeated inputs can have must not wrap around to a small answer */
    fv_attn a = attn_heads(1 << 30, 1 << 20, 1 << 19, 1, 1 << 19, 64);
    size_t need = 0;
    CHECK(fv_attn_scratch(&a, FV_ATTN_FORWARD, 1, &need) == FV_OK);
    CHECK(need == SIZE_MAX || fv_simd_detect() == FV_SIMD_SCALAR);
}

/* With a term of the backward left out, the comparison must notice. */
static void sabotage_at_level(void)
{
    for (unsigned term = 0; term < 2; term++) {
        problem p = problem_of(attn_sizes(70, 130, 16, 16));
        p.dropped = 1u << term;
        double worst;
        CHECK(!gradients_agree(&p, &worst));
    }
    vec_free_all();
}
static void sabotage(void) { attn_every_storage(sabotage_at_level); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(lengths);
    RUN(widths);
    RUN(logit_sizes);
    RUN(masks);
    RUN(added_terms);
    RUN(layouts);
    RUN(gradients);
    RUN(usual_widths);
    RUN(merged);
    RUN(scratch_is_linear);
    RUN(sabotage);
    return TEST_END();
}
