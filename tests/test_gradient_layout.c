/*
 * Gradients with strides of their own (fv_attn.grad_q and so on): the bits of those with the
 * strides of q, k, v and o, every level and type, and nothing written between the rows. Hidden keys
 * hold NaN.
 */
#include "support/attention.h"
#include "support/test.h"

/* Strides in an array [batch][rows][slots][heads][width + gap], of which this is slot `slot`. */
static fv_attn_layout interleaved(int64_t heads, int64_t rows, int64_t width, int64_t slots,
                                  int64_t gap)
{
    const int64_t row = slots * heads * (width + gap);
    return (fv_attn_layout){.batch = rows * row + gap, .head = width + gap, .row = row};
}

static int64_t extent(const fv_attn_layout *l, const fv_attn *a, int64_t heads, int64_t rows,
                      int64_t width)
{
    if (a->batch == 0 || rows == 0) return 1;
    return (a->varlen ? 0 : a->batch - 1) * l->batch + (heads - 1) * l->head + (rows - 1) * l->row +
           width;
}

typedef struct array {
    vec dense, own;
    fv_attn_layout from, to;
    int64_t heads, rows, width;
} array;

/* A copy of an array with the strides `to`, NaN elsewhere; without data if there is none. */
static array array_of(const fv_attn *a, vec dense, const fv_attn_layout *from, fv_attn_layout to,
                      int64_t heads, int64_t rows, int64_t width)
{
    array x = {dense, dense, *from, to, heads, rows, width};
    if (!dense.data) return x;
    x.own = vec_new(dense.dtype, extent(&to, a, heads, rows, width));
    return x;
}

/* Calls fn for each element's place in both. */
static bool each(const fv_attn *a, const array *x, bool (*fn)(const array *, int64_t, int64_t))
{
    for (int64_t b = 0; b < (a->varlen ? 1 : a->batch); b++)
        for (int64_t h = 0; h < x->heads; h++)
            for (int64_t i = 0; i < x->rows; i++)
                for (int64_t c = 0; c < x->width; c++)
                    if (!fn(x, b * x->from.batch + h * x->from.head + i * x->from.row + c,
                            b * x->to.batch + h * x->to.head + i * x->to.row + c))
                        return false;
    return true;
}

static bool put(const array *x, int64_t from, int64_t to)
{
    vec_set(x->own, to, vec_get(x->dense, from));
    return true;
}

/* Compares an element and blanks it, so that what is left between rows can be seen. */
static bool take(const array *x, int64_t from, int64_t to)
{
    const double want = vec_get(x->dense, from), got = vec_get(x->own, to);
    vec_set(x->own, to, NAN);
    return want == got;
}

static bool is_blank(vec x)
{
    for (int64_t i = 0; i < x.n; i++)
        if (!isnan(vec_get(x, i))) return false;
    return true;
}

/* Backward with dense gradients, then with strides of their own. */
static void check(const char *what, problem *p, int64_t gap)
{
    const fv_attn *a = &p->a;
    run_forward(p);
    run_backward(p);
    problem other = problem_again(p);
    other.o = p->o;
    other.lse = p->lse;
    const fv_attn_layout q = interleaved(a->heads, a->n_q, a->d, 3, gap);
    const fv_attn_layout k = interleaved(a->kv_heads, a->n_k, a->d, 2, gap);
    const fv_attn_layout v = interleaved(a->kv_heads, a->n_k, a->d_v, 1, gap);
    const fv_attn_layout o = interleaved(a->heads, a->n_q, a->d_v, 1, 2 * gap);
    array all[4] = {array_of(a, p->grad_q, &a->q, q, a->heads, a->n_q, a->d),
                    array_of(a, p->grad_k, &a->k, k, a->kv_heads, a->n_k, a->d),
                    array_of(a, p->grad_v, &a->v, v, a->kv_heads, a->n_k, a->d_v),
                    array_of(a, p->grad_o, &a->o, o, a->heads, a->n_q, a->d_v)};
    each(a, &all[3], put);
    other.a.grad_q = q;
    other.a.grad_k = k;
    other.a.grad_v = v;
    other.a.grad_o = o;
    other.grad_q = all[0].own;
    other.grad_k = all[1].own;
    other.grad_v = all[2].own;
    other.grad_o = all[3].own;
    run_backward(&other);
    for (int i = 0; i < 3; i++) {
        if (!all[i].dense.data) continue;
        if (!each(a, &all[i], take))
            test_failed(__FILE__, __LINE__, "%s, %s: gradient %d has other bits", what,
                        fv_dtype_name(a->dtype), i);
        else if (!is_blank(all[i].own))
            test_failed(__FILE__, __LINE__, "%s, %s: gradient %d is written between rows", what,
                        fv_dtype_name(a->dtype), i);
    }
    vec_free_all();
}

/* ---- tests ------------------------------------------------------------------------------ */

static void plain(void)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1}, {5, 7, 3}, {16, 17, 16}, {97, 65, 8}, {100, 200, 33}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t gap = 0; gap < 2; gap++) {
            problem p =
                problem_of(attn_heads(2, 4, i % 2 ? 2 : 4, sizes[i][0], sizes[i][1], sizes[i][2]));
            check("plain", &p, gap);
        }
}

/* Hidden keys and values hold NaN; their gradients are zeros. */
static void hidden(void)
{
    fv_attn a = attn_heads(2, 2, 1, 40, 70, 12);
    a.rule.causal = FV_CAUSAL_TOP_LEFT;
    problem p = problem_of(a);
    for (int64_t j = 40; j < 70; j++) {
        problem_spoil(&p, p.k, &a.k, j, a.d);
        problem_spoil(&p, p.v, &a.v, j, a.d_v);
    }
    check("hidden keys", &p, 3);
    problem short_keys = problem_of(attn_heads(3, 2, 2, 20, 250, 5));
    problem_lengths(&short_keys);
    check("lengths", &short_keys, 1);
    problem masked = problem_of(attn_heads(1, 2, 2, 30, 30, 8));
    problem_pattern(&masked, 0.3);
    check("pattern", &masked, 1);
}

static void other_scores(void)
{
    fv_attn a = attn_heads(2, 2, 1, 9, 20, 6);
    a.score = FV_ATTN_SCORE_ADDITIVE;
    problem additive = problem_of(a);
    check("additive", &additive, 1);
    a = attn_heads(3, 2, 2, 1, 40, 19);
    a.score = FV_ATTN_SCORE_ADDITIVE;
    problem single = problem_of(a);
    check("additive, one query", &single, 2);
    a = attn_heads(2, 2, 2, 9, 20, 6);
    a.score = FV_ATTN_SCORE_NONE;
    problem none = problem_of(a);
    problem_bias(&none, 0, 9 * 20, 20, 1);
    check("bias only", &none, 1);
}

static void documents(void)
{
    fv_attn a = attn_heads(1, 2, 1, 60, 70, 9);
    a.varlen = true;
    a.batch = 3;
    a.rule.causal = FV_CAUSAL_BOTTOM_RIGHT;
    problem p = problem_of(a);
    p.q_begin = VEC_OF(FV_I64, 0, 20, 21, 60);
    p.k_begin = VEC_OF(FV_I64, 0, 30, 30, 70);
    check("documents", &p, 1);
}

static void nothing(void)
{
    problem no_keys = problem_of(attn_heads(2, 2, 2, 5, 0, 4));
    check("no keys", &no_keys, 1);
    problem no_queries = problem_of(attn_heads(2, 2, 2, 0, 5, 4));
    check("no queries", &no_queries, 1);
}

/* dk and dv are added to in place. */
static void added_keys(void)
{
    if (attn_sizes(1, 1, 1, 1).dtype != FV_F32) return;
    problem p = problem_of(attn_heads(2, 2, 1, 30, 40, 7));
    run_forward(&p);
    run_backward(&p);
    const fv_attn *a = &p.a;
    problem other = p;
    other.a.grad_k = interleaved(a->kv_heads, a->n_k, a->d, 2, 1);
    array k = array_of(a, p.grad_k, &a->k, other.a.grad_k, a->kv_heads, a->n_k, a->d);
    each(a, &k, put);
    other.grad_k = k.own;
    other.grad_v = vec_copy(p.grad_v);
    p.a.adds_to_keys = other.a.adds_to_keys = true;
    run_backward(&p);
    run_backward(&other);
    CHECK(each(a, &k, take));
    CHECK(is_blank(k.own));
    CHECK(vec_same_bits(p.grad_v, other.grad_v));
    vec_free_all();
}

static void every_level(void)
{
    plain();
    hidden();
    other_scores();
    documents();
    nothing();
    added_keys();
}

static void every_type(void) { attn_every_storage(every_level); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(every_type);
    return TEST_END();
}
