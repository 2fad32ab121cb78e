/*
 * Equal bits, from the op descriptors: results and gradients of every case must not depend on the
 * SIMD level, the number of threads, the layout of the inputs or the device. Cases are also run
 * stretched (every size multiplied), so that vectors, tiles and thread splits really happen, and
 * with infinities, NaN, zeros and denormals sprinkled in.
 */
#include "support/opcase.h"

enum { MOST_ELEMENTS = 100000 };

static struct {
    long comparisons, stretched;
} totals;

static void compare(const char *what, const fv_op_desc *desc, const fv_op_case *c,
                    const op_run_options *o, const op_result *a, const op_result *b)
{
    totals.comparisons++;
    for (int k = 0; k < a->n_out + a->n_in; k++) {
        const op_array *x = k < a->n_out ? &a->out[k] : &a->grad[k - a->n_out];
        const op_array *y = k < a->n_out ? &b->out[k] : &b->grad[k - a->n_out];
        int64_t at = op_array_differs(x, y);
        if (at < 0) continue;
        bool real = x->present && y->present && x->count == y->count && x->count > 0 &&
                    (x->dtype == FV_F32 || x->dtype == FV_F64);
        test_failed(__FILE__, __LINE__, "%s: %s '%s' x%d%s: %s %d element %lld: %.9g, %.9g", what,
                    desc->name, c->name, o->stretch, o->specials ? " specials" : "",
                    k < a->n_out ? "result" : "gradient", k < a->n_out ? k : k - a->n_out,
                    (long long)at, real ? op_array_get(x, at) : NAN,
                    real ? op_array_get(y, at) : NAN);
    }
}

static int64_t elements(const fv_op_case *c, int stretch)
{
    int64_t most = 0;
    for (int i = 0; i < c->n_in; i++) {
        int64_t n = op_case_count(c, i, stretch);
        if (n > most) most = n;
    }
    return most;
}

typedef void (*each_fn)(const fv_op_desc *desc, const fv_op_case *c, const op_run_options *o,
                        void *user);

/* Every case as written and stretched by 7, 16 and 33 while it stays small. With special values an
 * op may refuse (a row without weights to sample from); it must then refuse everywhere. */
static void for_every_case(each_fn fn, void *user, bool specials)
{
    static const int stretches[] = {1, 7, 16, 33};
    for (int id = 0; id < FV_OP_COUNT; id++) {
        const fv_op_desc *desc = fv_op_table[id];
        for (int k = 0; k < desc->n_cases; k++)
            for (int s = 0; s < 4; s++) {
                const fv_op_case *c = &desc->cases[k];
                if (elements(c, stretches[s]) > MOST_ELEMENTS) continue;
                for (int special = 0; special <= (int)specials; special++) {
                    op_run_options o = {.dtype = FV_F32,
                                        .stretch = stretches[s],
                                        .specials = special,
                                        .quiet = special};
                    fn(desc, c, &o, user);
                }
            }
    }
}

/* One context, and those that must give its bits; a case is run on it once. */
typedef struct group {
    const char *what;
    fv_ctx *first;
    fv_ctx *others[8];
    int n_others;
} group;

static void on_group(const fv_op_desc *desc, const fv_op_case *c, const op_run_options *o,
                     void *user)
{
    group *g = user;
    op_result expected, got;
    bool ok = op_case_run(g->first, desc, c, o, &expected);
    for (int i = 0; i < g->n_others; i++) {
        bool ok_here = op_case_run(g->others[i], desc, c, o, &got);
        CHECK_EQ(ok, ok_here);
        if (ok && ok_here) {
            compare(g->what, desc, c, o, &expected, &got);
            if (o->stretch > 1) totals.stretched++;
        }
        op_result_free(&got);
    }
    op_result_free(&expected);
}

/* The same for levels, where a few ops say that they differ and have tests of their own. */
static void on_levels(const fv_op_desc *desc, const fv_op_case *c, const op_run_options *o,
                      void *user)
{
    if (!desc->simd_levels_differ) on_group(desc, c, o, user);
}

static void end_group(group *g)
{
    fv_ctx_destroy(&g->first);
    for (int i = 0; i < g->n_others; i++)
        fv_ctx_destroy(&g->others[i]);
}

static void levels_agree(void)
{
    group g = {.what = "levels", .first = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU)};
    for (int level = FV_SIMD_AVX2; level <= (int)fv_simd_detect(); level++)
        g.others[g.n_others++] = op_context((fv_simd)level, 1, FV_DEVICE_CPU);
    for_every_case(on_levels, &g, true);
    end_group(&g);
}

static void threads_agree(void)
{
    group g = {.what = "threads", .first = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU)};
    for (int threads = 2; threads <= 8; threads++)
        g.others[g.n_others++] = op_context(FV_SIMD_AUTO, threads, FV_DEVICE_CPU);
    for_every_case(on_group, &g, false);
    end_group(&g);
}

static void devices_agree(void)
{
    group g = {.what = "guarded", .first = op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU)};
    g.others[g.n_others++] = op_context(FV_SIMD_AUTO, 2, FV_DEVICE_GUARDED);
    for_every_case(on_group, &g, false);
    end_group(&g);
}

/* A strided input holds the same numbers, so the op must give the same bits. */
static void on_layouts(const fv_op_desc *desc, const fv_op_case *c, const op_run_options *o,
                       void *user)
{
    fv_ctx *ctx = user;
    op_result plain, other;
    if (!op_case_run(ctx, desc, c, o, &plain)) return;
    for (int layout = OP_STRIDED; layout <= OP_TRANSPOSED; layout++) {
        op_run_options odd = *o;
        odd.layout = (op_layout)layout;
        if (op_case_run(ctx, desc, c, &odd, &other)) compare("layout", desc, c, o, &plain, &other);
        op_result_free(&other);
    }
    op_result_free(&plain);
}

static void layouts_agree(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    for_every_case(on_layouts, ctx, true);
    fv_ctx_destroy(&ctx);
}

static void enough_was_compared(void)
{
    printf("comparisons: %ld, of them on stretched cases: %ld\n", totals.comparisons,
           totals.stretched);
    CHECK(totals.stretched > FV_OP_COUNT);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(levels_agree);
    RUN(threads_agree);
    RUN(devices_agree);
    RUN(layouts_agree);
    if (argc == 1) RUN(enough_was_compared);
    return TEST_END();
}
