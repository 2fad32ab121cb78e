/*
 * What is put together from ops (attention descriptions, layers, blocks), proved like the ops:
 * gradients by central differences in float64 and against them in float32, every gradient inside
 * spoiled in turn, and equal bits for other threads and on the guarded device.
 */
#include "support/compound_attention.h"
#include "support/proof.h"

static struct {
    int cases;
    long elements, spoiled, caught;
} totals;

static void gradients(void)
{
    fv_ctx *f64 = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    fv_ctx *f32 = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    for (int n = 0; n < compound_count; n++)
        for (int k = 0; k < compound_table[n]->n_cases; k++) {
            const fv_op_case *c = &compound_table[n]->cases[k];
            proof_numbers expected = proof_differences(f64, compound_table[n], c);
            proof_agrees(f64, compound_table[n], c, FV_F64, OP_CONTIGUOUS, &expected, true);
            proof_agrees(f64, compound_table[n], c, FV_F64, OP_TRANSPOSED, &expected, true);
            proof_agrees(f32, compound_table[n], c, FV_F32, OP_CONTIGUOUS, &expected, true);
            totals.cases++;
            totals.elements += expected.elements;
            proof_numbers_free(&expected);
        }
    fv_ctx_destroy(&f64);
    fv_ctx_destroy(&f32);
}

/* ---- sabotage --------------------------------------------------------------------- */

static bool same_gradients(const op_result *a, const op_result *b)
{
    for (int i = 0; i < a->n_in; i++)
        if (op_array_differs(&a->grad[i], &b->grad[i]) >= 0) return false;
    return true;
}

/* Spoils one gradient of one op, wherever the case uses it. If that changes any gradient of the
 * whole, the check must notice. Returns whether it changed any. */
static bool spoil(fv_ctx *ctx, const fv_op_desc *desc, const fv_op_case *c, const op_result *whole,
                  const proof_numbers *expected, int op, int input)
{
    const op_run_options o = {.dtype = FV_F64};
    op_result spoiled;
    ctx->sabotage = (fv_sabotage){.mode = FV_SABOTAGE_SCALE, .op = op, .input = input};
    op_case_run(ctx, desc, c, &o, &spoiled);
    const bool changed = !same_gradients(whole, &spoiled);
    op_result_free(&spoiled);
    if (changed) {
        totals.spoiled++;
        if (!proof_agrees(ctx, desc, c, FV_F64, OP_CONTIGUOUS, expected, false))
            totals.caught++;
        else
            test_failed(__FILE__, __LINE__, "%s '%s': %s's gradient %d scaled went unnoticed",
                        desc->name, c->name, fv_op_table[op]->name, input);
    }
    ctx->sabotage = (fv_sabotage){.mode = FV_SABOTAGE_NONE};
    return changed;
}

static void sabotage_case(fv_ctx *ctx, const fv_op_desc *desc, const fv_op_case *c)
{
    const op_run_options o = {.dtype = FV_F64};
    proof_numbers expected = proof_differences(ctx, desc, c);
    op_result whole;
    op_case_run(ctx, desc, c, &o, &whole);
    int changed = 0;
    for (int op = 0; op < FV_OP_COUNT; op++)
        for (int input = 0;
             fv_op_table[op]->backward && input < fv_op_table[op]->max_in && input < FV_CASE_INPUTS;
             input++)
            changed += spoil(ctx, desc, c, &whole, &expected, op, input);
    if (changed == 0 && whole.grad[0].count > 0 && desc->cases[0].in == c->in)
        test_failed(__FILE__, __LINE__, "%s '%s': no gradient inside could be spoiled", desc->name,
                    c->name);
    op_result_free(&whole);
    proof_numbers_free(&expected);
}

static void sabotage(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    for (int n = 0; n < compound_count; n++)
        for (int k = 0; k < compound_table[n]->n_cases; k++)
            sabotage_case(ctx, compound_table[n], &compound_table[n]->cases[k]);
    fv_ctx_destroy(&ctx);
}

/* ---- bits ------------------------------------------------------------------------- */

static void compare(const char *what, const fv_op_desc *desc, const fv_op_case *c, int stretch,
                    fv_ctx *a, fv_ctx *b)
{
    const op_run_options o = {.dtype = FV_F32, .stretch = stretch, .quiet = stretch > 1};
    op_result ra, rb;
    const bool ok_a = op_case_run(a, desc, c, &o, &ra), ok_b = op_case_run(b, desc, c, &o, &rb);
    CHECK_EQ(ok_a, ok_b);
    if (ok_a && ok_b &&
        (op_array_differs(&ra.out[0], &rb.out[0]) >= 0 || !same_gradients(&ra, &rb)))
        test_failed(__FILE__, __LINE__, "%s: %s '%s' x%d has other bits", what, desc->name, c->name,
                    stretch);
    op_result_free(&ra);
    op_result_free(&rb);
}

static void same_bits(const char *what, fv_ctx *a, fv_ctx *b)
{
    for (int n = 0; n < compound_count; n++)
        for (int k = 0; k < compound_table[n]->n_cases; k++)
            for (int stretch = 1; stretch <= 5; stretch += 4)
                compare(what, compound_table[n], &compound_table[n]->cases[k], stretch, a, b);
    fv_ctx_destroy(&a);
    fv_ctx_destroy(&b);
}

static void threads_agree(void)
{
    same_bits("threads", op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU),
              op_context(FV_SIMD_AUTO, 3, FV_DEVICE_CPU));
}

static void devices_agree(void)
{
    same_bits("guarded", op_context(FV_SIMD_AUTO, 2, FV_DEVICE_CPU),
              op_context(FV_SIMD_AUTO, 2, FV_DEVICE_GUARDED));
}

/* A score in the library's table without a gradient check would go unnoticed. */
static void every_score_is_checked(void)
{
    for (int s = 0; s < FV_ATTENTION_SCORE_COUNT; s++) {
        bool streamed = false, maps = false;
        for (int k = 0; k < compound_scores.n_cases; k++) {
            const attention_params *p = compound_scores.cases[k].params;
            if ((int)p->how.score != s) continue;
            streamed |= !p->how.want_scores;
            maps |= p->how.want_scores;
        }
        if (!streamed || !maps)
            test_failed(__FILE__, __LINE__, "score %s has no gradient check with and without maps",
                        fv_attention_score_name((fv_attention_score)s));
    }
}

static void enough(void)
{
    printf("compounds: %d cases, %ld elements by central differences, gradients spoiled inside: "
           "%ld, caught: %ld\n",
           totals.cases, totals.elements, totals.spoiled, totals.caught);
    CHECK_EQ(totals.caught, totals.spoiled);
    CHECK(totals.spoiled > 10 * compound_count);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(gradients);
    RUN(every_score_is_checked);
    RUN(sabotage);
    RUN(threads_agree);
    RUN(devices_agree);
    if (argc == 1) RUN(enough);
    return TEST_END();
}
