/* The table of ops: what a description says of an op, its check cases show. */
#include "support/opcase.h"
#include "support/tensors.h"

/* A list of tensors, of which the cases give a few. */
static bool takes_a_list(const fv_op_desc *desc) { return desc->max_in > FV_CASE_INPUTS; }

static void cases_give_the_fewest_and_the_most_inputs(void)
{
    for (int id = 0; id < FV_OP_COUNT; id++) {
        const fv_op_desc *desc = fv_op_table[id];
        int fewest = INT32_MAX, most = 0;
        for (int k = 0; k < desc->n_cases; k++) {
            fewest = desc->cases[k].n_in < fewest ? desc->cases[k].n_in : fewest;
            most = desc->cases[k].n_in > most ? desc->cases[k].n_in : most;
        }
        if (desc->n_cases == 0 || takes_a_list(desc)) continue;
        if (fewest != desc->min_in || most != desc->max_in)
            test_failed(__FILE__, __LINE__, "%s: %d to %d inputs, cases with %d to %d", desc->name,
                        desc->min_in, desc->max_in, fewest, most);
    }
}

/* One input too many, one result too many. */
static void other_numbers_are_refused(void)
{
    fv_ctx *ctx = op_context(FV_SIMD_SCALAR, 1, FV_DEVICE_CPU);
    fv_tensor *x = fv_full(ctx, FV_F32, 2, (int64_t[]){2, 2}, 1), *out[2];
    fv_op_apply(ctx, FV_OP_EXP, 2, (fv_tensor *[]){x, x}, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "expected 1 to 1 inputs, got 2");
    fv_op_apply_many(ctx, FV_OP_EXP, 1, &x, NULL, 2, out);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "expected 1 results, got 2");
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(cases_give_the_fewest_and_the_most_inputs);
    RUN(other_numbers_are_refused);
    return TEST_END();
}
