/*
 * Attention over bf16 and f16: what is stored in 16 bits is the float kernel's result, rounded
 * once, to the bit; every number survives a round trip; the op takes such tensors and sends
 * gradients of their kind.
 */
#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "kernels/convert.h"
#include "support/attention.h"
#include "support/values.h"

static fv_dtype stored;

static void for_halves(void (*fn)(void))
{
    for (int t = 0; t < 2; t++) {
        stored = t ? FV_F16 : FV_BF16;
        attn_every_level(fn);
    }
    stored = FV_BF16;
    attn_on_tiles(fn);
}

static vec converted(vec x, fv_dtype to)
{
    vec y = vec_new(to, x.n);
    fv_convert(x.n, to, y.data, 1, x.dtype, x.data, 1);
    return y;
}

/* ---- the float kernel, rounded once ------------------------------------------------ */

static problem as_floats(const problem *p)
{
    problem f = *p;
    f.a.dtype = FV_F32;
    vec *all[] = {&f.q, &f.k, &f.v, &f.o, &f.grad_o, &f.grad_q, &f.grad_k, &f.grad_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = converted(*all[i], FV_F32);
    f.lse = vec_like(p->lse);
    return f;
}

static void check_rounded(const char *what, problem *p)
{
    const problem f = as_floats(p);
    run_forward(p);
    run_forward(&f);
    const bool same = vec_same_bits(p->o, converted(f.o, stored)) && vec_same_bits(p->lse, f.lse);
    /* the backward gets what is stored */
    fv_convert(p->o.n, FV_F32, f.o.data, 1, stored, p->o.data, 1);
    run_backward(p);
    run_backward(&f);
    const bool same_back = vec_same_bits(p->grad_q, converted(f.grad_q, stored)) &&
                           vec_same_bits(p->grad_k, converted(f.grad_k, stored)) &&
                           vec_same_bits(p->grad_v, converted(f.grad_v, stored));
    if (!same || !same_back)
        test_failed(__FILE__, __LINE__, "%s, %s: %s is not the float result rounded", what,
                    fv_dtype_name(stored), same ? "a gradient" : "the output");
    vec_free_all();
}

static fv_attn stored_heads(int64_t batch, int64_t heads, int64_t kv_heads, int64_t n_q,
                            int64_t n_k, int64_t d)
{
    fv_attn a = attn_heads(batch, heads, kv_heads, n_q, n_k, d);
    a.dtype = stored;
    return a;
}

static void rounded_at_level(void)
{
    attn_without_pairs();
    static const int64_t d[] = {1, 16, 63, 65, 128, 300}, n[] = {1, 6, 65, 193, 257, 0};
    for (int w = 0; w < 6; w++)
        for (int i = 0; i < 6; i++) {
            fv_attn a = stored_heads(1, 1, 1, n[i], n[(i + w) % 6], d[w]);
            a.d_v = d[5 - w];
            fv_attn_dense(&a);
            problem p = problem_of(a);
            check_rounded("plain", &p);
        }
    fv_attn a = stored_heads(2, 4, 2, 150, 400, 40);
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    a.rule.left = 300;
    a.rule.prefix = 7;
    problem p = problem_of(a);
    check_rounded("grouped heads, window, prefix", &p);
    p = problem_of(a);
    problem_pattern(&p, 0.5);
    problem_lengths(&p);
    problem_slopes(&p);
    p.a.rule.soft_cap = 2;
    p.a.rule.dropout = 0.2;
    p.a.dropout_key = 5;
    check_rounded("pattern, lengths, slopes, cap, dropout", &p);
    a = stored_heads(1, 3, 3, 70, 70, 17); /* rows before heads, off any boundary */
    a.q = a.k = a.v = a.o = (fv_attn_layout){70 * 51, 17, 51};
    p = problem_of(a);
    check_rounded("rows before heads", &p);
}
static void rounded(void) { for_halves(rounded_at_level); }

/* ---- numbers ----------------------------------------------------------------------- */

/* With one key o is v: all 65536 patterns pass through, NaN as a NaN, -0 as 0. */
static void every_number_at_level(void)
{
    enum { WIDTH = 512, HEADS = 128 };
    fv_attn a = stored_heads(1, HEADS, HEADS, 1, 1, 1);
    a.d_v = WIDTH;
    fv_attn_dense(&a);
    problem p = problem_of(a);
    uint16_t *v = p.v.data;
    for (int i = 0; i < WIDTH * HEADS; i++)
        v[i] = (uint16_t)i;
    run_forward(&p);
    for (int i = 0; i < WIDTH * HEADS; i++) {
        const double in = vec_get(p.v, i), out = vec_get(p.o, i);
        if (!(in == out || (isnan(in) && isnan(out))))
            test_failed(__FILE__, __LINE__, "%s %04x came out as %g", fv_dtype_name(stored), i,
                        out);
    }
    vec_free_all();
}
static void every_number(void) { for_halves(every_number_at_level); }

/* f16 ends at 65504: what is larger becomes infinite, and a tie at the end goes to even. */
static void overflow_at_level(void)
{
    problem p = problem_of(stored_heads(1, 1, 1, 1, 2, 1));
    vec_set(p.k, 0, 0);
    vec_set(p.k, 1, 0);
    vec_set(p.v, 0, 65504);
    vec_set(p.v, 1, 65504);
    run_forward(&p);
    CHECK(vec_get(p.o, 0) == (stored == FV_F16 ? 65504 : 65536));
    vec_free_all();
}
static void overflow(void) { for_halves(overflow_at_level); }

/* A NaN with all its bits set would be rounded to -0: it stays a NaN, and in its own row. */
static void nan_stays_at_level(void)
{
    enum { ROWS = 10, KEYS = 7, WIDTH = 40, BAD = 4 };
    const uint32_t bits = 0x7fffffffu;
    problem p = problem_of(stored_heads(1, 1, 1, ROWS, KEYS, WIDTH));
    run_forward(&p);
    memcpy((float *)p.grad_lse.data + BAD, &bits, sizeof bits);
    run_backward(&p);
    for (int64_t i = 0; i < ROWS * WIDTH; i++)
        CHECK(isnan(vec_get(p.grad_q, i)) == (i / WIDTH == BAD));
    for (int64_t i = 0; i < KEYS * WIDTH; i++)
        CHECK(isnan(vec_get(p.grad_k, i)) && !isnan(vec_get(p.grad_v, i)));
    vec_free_all();
}
static void nan_stays(void) { for_halves(nan_stays_at_level); }

/* Gradients below the normal numbers are stored as they are: four keys of equal weight get a
 * quarter of do each, 2^-127 of a bf16. */
static void small_gradients_at_level(void)
{
    if (stored != FV_BF16) return;
    for (int64_t d_v = 1; d_v <= 70; d_v += 23) {
        fv_attn a = stored_heads(1, 1, 1, 1, 4, 8);
        a.d_v = d_v;
        fv_attn_dense(&a);
        problem p = problem_of(a);
        for (int64_t i = 0; i < p.k.n; i++)
            vec_set(p.k, i, 0);
        for (int64_t i = 0; i < d_v; i++)
            vec_set(p.grad_o, i, i % 2 ? 0x1p-125 : 1);
        run_forward(&p);
        run_backward(&p);
        for (int64_t i = 0; i < 4 * d_v; i++)
            CHECK(vec_get(p.grad_v, i) == (i % d_v % 2 ? 0x1p-127 : 0.25));
        vec_free_all();
    }
}
static void small_gradients(void) { for_halves(small_gradients_at_level); }

/* With one visible key o is v, dP and delta are sums of the same terms in the same order, and what
 * is left of dS is 0 to the bit: by the float tile and by pairs, even and odd widths alike. */
static void one_key_at_level(void)
{
    static const int64_t n_q[] = {1, 9, 17, 100}, d_v[] = {1, 2, 31, 40, 64, 129};
    for (int n = 0; n < 4; n++)
        for (int w = 0; w < 6; w++) {
            fv_attn a = stored_heads(1, 2, 2, n_q[n], 1, 24);
            a.d_v = d_v[w];
            fv_attn_dense(&a);
            problem p = problem_of(a);
            p.grad_lse.data = NULL;
            run_forward(&p);
            run_backward(&p);
            CHECK(vec_largest(p.grad_q) == 0 && vec_largest(p.grad_k) == 0);
            CHECK(vec_largest(p.grad_v) > 0);
            vec_free_all();
        }
}
static void one_key(void) { for_halves(one_key_at_level); }

/* ---- the op ------------------------------------------------------------------------ */

static fv_tensor *leaf_of(fv_ctx *ctx, test_shape shape, double frequency)
{
    fv_tensor *x = fv_scale(ctx, values_counting(ctx, FV_F32, shape), frequency);
    return fv_leaf(ctx, fv_detach(ctx, fv_sin(ctx, x)));
}

enum { Q_COUNT = 2 * 3 * 4, V_COUNT = 2 * 5 * 6, O_COUNT = 2 * 3 * 6 };

/* Output and two gradients of one small call, computed through tensors of `dtype`. */
static void attend_as(fv_ctx *ctx, fv_dtype dtype, double *o, double *dq, double *dv)
{
    fv_tensor *q = leaf_of(ctx, SHAPE(1, 2, 3, 4), 1), *k = leaf_of(ctx, SHAPE(1, 2, 5, 4), 2);
    fv_tensor *v = leaf_of(ctx, SHAPE(1, 2, 5, 6), 3), *lse;
    fv_tensor *bias = fv_scale(ctx, values_counting(ctx, FV_F32, SHAPE(3, 5)), 0.1);
    fv_tensor *y = fv_attend(ctx, fv_cast(ctx, q, dtype), fv_cast(ctx, k, dtype),
                             fv_cast(ctx, v, dtype), NULL, &(fv_attend_extra){.bias = bias}, &lse);
    CHECK(fv_tensor_dtype(y) == dtype && fv_tensor_dtype(lse) == FV_F32);
    CHECK(values_read(ctx, y, o, O_COUNT) == O_COUNT);
    values_backward(ctx, fv_mul(ctx, fv_cast(ctx, y, FV_F32), leaf_of(ctx, SHAPE(6), 5)));
    CHECK(values_read(ctx, fv_grad(ctx, q), dq, Q_COUNT) == Q_COUNT);
    CHECK(values_read(ctx, fv_grad(ctx, v), dv, V_COUNT) == V_COUNT);
}

static double farthest(const double *x, const double *y, int n)
{
    double most = 0;
    for (int i = 0; i < n; i++)
        most = test_worse(most, fabs(x[i] - y[i]));
    return most;
}

static void op_takes_halves(void)
{
    double o[2][O_COUNT], dq[2][Q_COUNT], dv[2][V_COUNT];
    fv_ctx *ctx = values_begin();
    attend_as(ctx, FV_F32, o[0], dq[0], dv[0]);
    for (int t = 0; t < 2; t++) {
        const fv_dtype dtype = t ? FV_F16 : FV_BF16;
        /* Values up to 1, sums of a few: each of the roundings on the way (q, k, v, o, their
         * gradients) moves a result by about one unit. */
        const double unit = t ? 0x1p-11 : 0x1p-8;
        attend_as(ctx, dtype, o[1], dq[1], dv[1]);
        CHECK(farthest(o[0], o[1], O_COUNT) > 0 && farthest(o[0], o[1], O_COUNT) <= 4 * unit);
        CHECK(farthest(dq[0], dq[1], Q_COUNT) > 0 && farthest(dq[0], dq[1], Q_COUNT) <= 4 * unit);
        CHECK(farthest(dv[0], dv[1], V_COUNT) > 0 && farthest(dv[0], dv[1], V_COUNT) <= 4 * unit);
    }
    values_end(&ctx);
}

static void op_refuses_mixtures(void)
{
    fv_ctx *ctx = values_begin();
    fv_tensor *wide = leaf_of(ctx, SHAPE(1, 1, 3, 4), 1), *x = fv_cast(ctx, wide, FV_BF16);
    CHECK_REFUSED(ctx, fv_attend(ctx, x, x, fv_cast(ctx, wide, FV_F16), NULL, NULL, NULL),
                  FV_ERR_DTYPE, "bf16");
    values_end(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(rounded);
    RUN(every_number);
    RUN(overflow);
    RUN(nan_stays);
    RUN(small_gradients);
    RUN(one_key);
    RUN(op_takes_halves);
    RUN(op_refuses_mixtures);
    return TEST_END();
}
