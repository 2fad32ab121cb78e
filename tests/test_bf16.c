/*
 * Every op on bf16 tensors, from the op descriptors. By each rule (fv_bf16_rule) a result, and the
 * gradient of each input, must have the bits of the f32 op on the same numbers, rounded once to
 * bf16, or those bits themselves where it is f32: on every level, with threads, strides, tile
 * sizes, empty tensors, infinities and NaN. The f32 ops are held to f64 elsewhere (test_grad.c).
 *
 * Two kinds of op are compared within bounds instead: derivatives that are computed from a rounded
 * result, and linear layers and attention, whose products have tests of their own (test_compute.c,
 * test_attention_half.c).
 */
#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "kernels/half.h"
#include "support/opcase.h"

enum { MOST_ELEMENTS = 4000, CONTEXTS = 6 };

static struct {
    long comparisons, sabotages;
} totals;

static fv_ctx *reference; /* computes in f32 */

static fv_ctx *bf16_context(fv_simd level, int threads, fv_device_kind device)
{
    fv_ctx *ctx = op_context(level, threads, device);
    CHECK_OK(ctx, fv_ctx_set_compute(ctx, FV_BF16));
    return ctx;
}

static bool has_own_products(const fv_op_desc *desc)
{
    return desc->id == FV_OP_LINEAR || desc->id == FV_OP_ATTEND || desc->apply != NULL;
}

/* The index of the first element of `got` that is not `wide`, rounded to got's dtype; -1: none.
 * slack > 0: within slack (1 + |wide|). */
static int64_t differs(const op_array *got, const op_array *wide, double slack)
{
    if (got->present != wide->present || got->count != wide->count) return 0;
    if (!got->present || got->dtype != FV_BF16) return op_array_differs(got, wide);
    for (int64_t i = 0; i < got->count; i++) {
        const double x = op_array_get(got, i), y = op_array_get(wide, i);
        if (isnan(x) && isnan(y)) continue;
        if (((const uint16_t *)got->data)[i] == fv_f32_to_bf16((float)y)) continue;
        if (!(fabs(x - y) <= slack * (4 + fabs(y)))) return i;
    }
    return -1;
}

/* Whether the case has the bits it should; with `report`, a difference fails the test. */
static bool agrees(fv_ctx *ctx, const fv_op_desc *desc, const fv_op_case *c,
                   const op_run_options *given, bool report)
{
    op_run_options o = *given, wide = *given;
    o.dtype = FV_BF16;
    wide.dtype = FV_F32;
    wide.rounded = true;
    op_result got, expected;
    const bool ok = op_case_run(ctx, desc, c, &o, &got);
    const bool ok_wide = op_case_run(reference, desc, c, &wide, &expected);
    bool same = ok == ok_wide;
    const bool from_y = desc->traits & FV_SAVES_Y;
    for (int k = 0; same && ok && k < got.n_out + got.n_in; k++) {
        const bool is_result = k < got.n_out;
        const int i = is_result ? k : k - got.n_out;
        const op_array *x = is_result ? &got.out[i] : &got.grad[i];
        const op_array *y = is_result ? &expected.out[i] : &expected.grad[i];
        const int64_t at = differs(x, y, from_y && !is_result ? 0x1p-6 : 0);
        if (x->present && !is_result) /* an input's gradient has its dtype */
            same = x->dtype == (op_case_rounds(desc, i, &o) ? FV_BF16 : FV_F32);
        if (at < 0 && same) continue;
        same = false;
        if (report)
            test_failed(__FILE__, __LINE__,
                        "%s '%s' x%d%s layout %d %s: %s %d element %lld: %g, %g", desc->name,
                        c->name, o.stretch, o.specials ? " specials" : "", (int)o.layout,
                        fv_simd_name(fv_ctx_simd(ctx)), is_result ? "result" : "gradient", i,
                        (long long)at, at >= 0 && at < x->count ? op_array_get(x, at) : NAN,
                        at >= 0 && at < y->count ? op_array_get(y, at) : NAN);
    }
    if (!same && report && ok != ok_wide)
        test_failed(__FILE__, __LINE__, "%s '%s': bf16 %d, f32 %d", desc->name, c->name, ok,
                    ok_wide);
    op_result_free(&got);
    op_result_free(&expected);
    totals.comparisons++;
    return same;
}

static int64_t elements(const fv_op_case *c, int stretch)
{
    int64_t most = 0;
    for (int i = 0; i < c->n_in; i++) {
        const int64_t n = op_case_count(c, i, stretch);
        if (n > most) most = n;
    }
    return most;
}

/* All bf16, and mixtures with f32 where the op takes them. */
static unsigned mixtures(const fv_op_desc *desc)
{
    return desc->bf16 == FV_BF16_FOLLOWS && desc->bf16_inputs == 3u ? 3 : 1;
}

static void prove(fv_ctx *ctx, const fv_op_desc *desc, const fv_op_case *c)
{
    static const int stretches[] = {1, 7, 16, 33};
    for (int s = 0; s < 4; s++) {
        if (elements(c, stretches[s]) > MOST_ELEMENTS) continue;
        const int layouts = stretches[s] == 7 ? OP_TRANSPOSED : OP_CONTIGUOUS;
        /* The guarded device reports refusals later. */
        const int specials = ctx->device_kind == FV_DEVICE_GUARDED ? 1 : 2;
        for (int special = 0; special < specials; special++)
            for (int layout = OP_CONTIGUOUS; layout <= layouts; layout++)
                for (unsigned keep = 0; keep < mixtures(desc); keep++) {
                    const op_run_options o = {.stretch = stretches[s],
                                              .specials = special,
                                              .quiet = special || stretches[s] > 1,
                                              .layout = (op_layout)layout,
                                              .keep_f32 = keep};
                    agrees(ctx, desc, c, &o, true);
                }
    }
}

static int make_contexts(fv_ctx **list)
{
    int n = 0;
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++)
        list[n++] = bf16_context((fv_simd)level, 1, FV_DEVICE_CPU);
    list[n++] = bf16_context(FV_SIMD_AUTO, 3, FV_DEVICE_CPU);
    list[n++] = bf16_context(FV_SIMD_AUTO, 2, FV_DEVICE_GUARDED);
    return n;
}

static void every_op_rounds_once(void)
{
    fv_ctx *list[CONTEXTS];
    const int n = make_contexts(list);
    reference = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    for (int id = 0; id < FV_OP_COUNT; id++) {
        const fv_op_desc *desc = fv_op_table[id];
        for (int k = 0; k < desc->n_cases && !has_own_products(desc); k++)
            for (int i = 0; i < n; i++) {
                if (desc->simd_levels_differ && fv_ctx_simd(list[i]) != FV_SIMD_SCALAR) continue;
                prove(list[i], desc, &desc->cases[k]);
            }
    }
    for (int i = 0; i < n; i++)
        fv_ctx_destroy(&list[i]);
    fv_ctx_destroy(&reference);
    printf("comparisons: %ld\n", totals.comparisons);
    CHECK(totals.comparisons > 1000);
}

/* ---- sabotage --------------------------------------------------------------------- */

static bool noticed(fv_ctx *ctx, const fv_op_desc *desc, fv_sabotage sabotage)
{
    bool all = true;
    ctx->sabotage = sabotage;
    for (int k = 0; k < desc->n_cases && all; k++) {
        const op_run_options o = {.stretch = 1};
        all = agrees(ctx, desc, &desc->cases[k], &o, false);
    }
    ctx->sabotage = (fv_sabotage){.mode = FV_SABOTAGE_NONE};
    totals.sabotages++;
    return !all;
}

static bool has_gradient(const fv_op_desc *desc, int i)
{
    for (int k = 0; k < desc->n_cases; k++)
        if (i < desc->cases[k].n_in && op_case_differentiates(&desc->cases[k], i)) return true;
    return false;
}

static void wrong_gradients_are_noticed(void)
{
    fv_ctx *ctx = bf16_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    reference = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    for (int id = 0; id < FV_OP_COUNT; id++) {
        const fv_op_desc *desc = fv_op_table[id];
        if (!desc->backward || has_own_products(desc) || desc->simd_levels_differ) continue;
        for (int i = 0; i < FV_CASE_INPUTS; i++)
            for (int mode = FV_SABOTAGE_NEGATE; mode <= FV_SABOTAGE_ZERO; mode++)
                if (has_gradient(desc, i) &&
                    !noticed(ctx, desc,
                             (fv_sabotage){.mode = (fv_sabotage_mode)mode, .op = id, .input = i}))
                    test_failed(__FILE__, __LINE__, "%s: input %d, mode %d went unnoticed",
                                desc->name, i, mode);
        for (int t = 0; t < desc->terms; t++)
            if (!noticed(ctx, desc, (fv_sabotage){.mode = FV_SABOTAGE_TERM, .op = id, .term = t}))
                test_failed(__FILE__, __LINE__, "%s: term %d went unnoticed", desc->name, t);
    }
    fv_ctx_destroy(&ctx);
    fv_ctx_destroy(&reference);
    printf("sabotages: %ld\n", totals.sabotages);
    CHECK(totals.sabotages > 100);
}

/* ---- rules ------------------------------------------------------------------------ */

static void rules_decide_dtypes(void)
{
    fv_ctx *ctx = bf16_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    const int64_t two[2] = {2, 3};
    fv_tensor *wide = fv_full(ctx, FV_F32, 2, two, 1.5), *b = fv_cast(ctx, wide, FV_BF16);
    CHECK_EQ(fv_tensor_dtype(fv_add(ctx, b, wide)), FV_BF16);
    CHECK_EQ(fv_tensor_dtype(fv_add(ctx, wide, b)), FV_BF16);
    CHECK_EQ(fv_tensor_dtype(fv_gelu(ctx, b)), FV_BF16);
    CHECK_EQ(fv_tensor_dtype(fv_gelu(ctx, wide)), FV_F32);
    CHECK_EQ(fv_tensor_dtype(fv_sum(ctx, b, 0, NULL, false)), FV_F32);
    CHECK_EQ(fv_tensor_dtype(fv_softmax(ctx, b, -1)), FV_F32);
    CHECK_EQ(fv_tensor_dtype(fv_concat(ctx, 2, (fv_tensor *[]){b, b}, 0)), FV_BF16);
    CHECK_EQ(fv_tensor_dtype(fv_concat(ctx, 2, (fv_tensor *[]){b, wide}, 0)), FV_F32);
    CHECK_EQ(fv_tensor_dtype(fv_stack(ctx, 2, (fv_tensor *[]){wide, b}, 0)), FV_F32);
    const int64_t word = 1;
    fv_tensor *index = fv_from_host(ctx, FV_I64, 1, (int64_t[]){1}, &word);
    CHECK_EQ(fv_tensor_dtype(fv_embedding(ctx, wide, index, -1)), FV_BF16);
    const int64_t four[4] = {1, 1, 2, 3};
    fv_tensor *keys = fv_reshape(ctx, wide, 4, four), *half = fv_reshape(ctx, b, 4, four);
    CHECK_EQ(fv_tensor_dtype(fv_attend(ctx, half, half, half, NULL, NULL, NULL)), FV_BF16);
    CHECK_EQ(fv_tensor_dtype(fv_attend(ctx, half, keys, keys, NULL, NULL, NULL)), FV_F32);
    CHECK_OK(ctx, fv_ctx_set_compute(ctx, FV_F32));
    CHECK_EQ(fv_tensor_dtype(fv_embedding(ctx, wide, index, -1)), FV_F32);
    CHECK_OK(ctx, fv_ctx_error(ctx));
    fv_ctx_destroy(&ctx);
}

/* Two slices of one tensor: the second gradient is added to every other element of the first. */
static void gradients_add_up_in_strided_places(void)
{
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++) {
        fv_ctx *ctx = bf16_context((fv_simd)level, 1, FV_DEVICE_CPU);
        fv_tensor *leaf = fv_leaf(ctx, fv_full(ctx, FV_F32, 1, (int64_t[]){4}, 2.0));
        fv_tensor *x = fv_cast(ctx, leaf, FV_BF16);
        fv_tensor *a = fv_slice(ctx, x, 0, 1, 4, 2), *b = fv_slice(ctx, x, 0, 1, 4, 2);
        fv_tensor *y = fv_add(ctx, fv_mul(ctx, a, a), b); /* 2 x + 1 at 1 and 3 */
        CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, y, 0, NULL, false)));
        float g[4] = {0};
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, leaf), g, sizeof g));
        CHECK(g[0] == 0 && g[1] == 5 && g[2] == 0 && g[3] == 5);
        fv_ctx_destroy(&ctx);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(rules_decide_dtypes);
    RUN(gradients_add_up_in_strided_places);
    RUN(every_op_rounds_once);
    RUN(wrong_gradients_are_noticed);
    return TEST_END();
}
