/*
 * The proof of every gradient, from the op descriptors alone:
 *   1. float64: central differences against backward, signed, element by element;
 *   2. float32 on every SIMD level: against the float64 gradients;
 *   3. sabotage: each gradient negated, zeroed, scaled by 1.001, each additive term dropped; both
 *      checks must notice, for every op, every input, every level.
 */
#include "support/proof.h"

enum { MAX_LEVELS = 3 };

static struct {
    int ops, differentiable, checks;
    long elements, sabotages, caught;
} totals;

/* ---- sabotage --------------------------------------------------------------------- */

typedef struct checker {
    fv_ctx *ctx;
    fv_dtype dtype;
} checker;

static bool caught(const checker *by, const fv_op_desc *desc, const proof_numbers *expected,
                   fv_sabotage sabotage)
{
    bool noticed = false;
    by->ctx->sabotage = sabotage;
    for (int k = 0; k < desc->n_cases && !noticed; k++)
        noticed = !proof_agrees(by->ctx, desc, &desc->cases[k], by->dtype, OP_CONTIGUOUS,
                                &expected[k], false);
    by->ctx->sabotage = (fv_sabotage){.mode = FV_SABOTAGE_NONE};
    return noticed;
}

static void expect_caught(const checker *by, const fv_op_desc *desc, const proof_numbers *expected,
                          fv_sabotage sabotage)
{
    static const char *const names[] = {"none", "negated", "zeroed", "scaled", "dropped term"};
    totals.sabotages++;
    if (caught(by, desc, expected, sabotage)) {
        totals.caught++;
        return;
    }
    test_failed(__FILE__, __LINE__, "%s: %s (input %d, term %d) went unnoticed at %s, level %s",
                desc->name, names[sabotage.mode], sabotage.input, sabotage.term,
                fv_dtype_name(by->dtype), fv_simd_name(fv_ctx_simd(by->ctx)));
}

static bool input_used(const fv_op_desc *desc, int i)
{
    for (int k = 0; k < desc->n_cases; k++)
        if (i < desc->cases[k].n_in && op_case_differentiates(&desc->cases[k], i)) return true;
    return false;
}

static void sabotage_all(const checker *by, const fv_op_desc *desc, const proof_numbers *expected)
{
    for (int i = 0; i < FV_CASE_INPUTS; i++) {
        if (!input_used(desc, i)) continue;
        for (int mode = FV_SABOTAGE_NEGATE; mode <= FV_SABOTAGE_SCALE; mode++)
            expect_caught(
                by, desc, expected,
                (fv_sabotage){.mode = (fv_sabotage_mode)mode, .op = (int)desc->id, .input = i});
    }
    for (int t = 0; t < desc->terms; t++)
        expect_caught(by, desc, expected,
                      (fv_sabotage){.mode = FV_SABOTAGE_TERM, .op = (int)desc->id, .term = t});
}

/* ---- every op --------------------------------------------------------------------- */

static void prove(fv_ctx *f64, fv_ctx *const *levels, int n_levels, const fv_op_desc *desc)
{
    proof_numbers *expected = calloc((size_t)desc->n_cases, sizeof *expected);
    for (int k = 0; k < desc->n_cases; k++) {
        const fv_op_case *c = &desc->cases[k];
        expected[k] = proof_differences(f64, desc, c);
        totals.elements += expected[k].elements;
        for (int layout = OP_CONTIGUOUS; layout <= OP_TRANSPOSED; layout++) {
            proof_agrees(f64, desc, c, FV_F64, (op_layout)layout, &expected[k], true);
            for (int l = 0; l < n_levels; l++)
                proof_agrees(levels[l], desc, c, FV_F32, (op_layout)layout, &expected[k], true);
            totals.checks += 1 + n_levels;
        }
    }
    sabotage_all(&(checker){f64, FV_F64}, desc, expected);
    for (int l = 0; l < n_levels; l++)
        sabotage_all(&(checker){levels[l], FV_F32}, desc, expected);
    for (int k = 0; k < desc->n_cases; k++)
        proof_numbers_free(&expected[k]);
    free(expected);
}

static void every_gradient(void)
{
    fv_ctx *f64 = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    fv_ctx *levels[MAX_LEVELS];
    int n_levels = 0;
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++)
        levels[n_levels++] = op_context((fv_simd)level, 1, FV_DEVICE_CPU);
    for (int id = 0; id < FV_OP_COUNT; id++) {
        const fv_op_desc *desc = fv_op_table[id];
        totals.ops++;
        CHECK(desc->id == (fv_op_id)id);
        CHECK((desc->backward != NULL) != (desc->no_backward != NULL));
        if (!desc->backward) continue;
        totals.differentiable++;
        CHECK(desc->n_cases > 0);
        prove(f64, levels, n_levels, desc);
    }
    fv_ctx_destroy(&f64);
    for (int l = 0; l < n_levels; l++)
        fv_ctx_destroy(&levels[l]);
    printf("ops: %d, differentiable: %d (all proved), gradient checks: %d (%ld elements by central "
           "differences), sabotages: %ld, caught: %ld\n",
           totals.ops, totals.differentiable, totals.checks, totals.elements, totals.sabotages,
           totals.caught);
    CHECK_EQ(totals.caught, totals.sabotages);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(every_gradient);
    return TEST_END();
}
