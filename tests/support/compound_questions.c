/* Attention to the cells of a picture that a question guides. */
#include "models/vqa.h"
#include "support/compound.h"

/* cells, words: weights by words with one padded word, weights by a vector, what both read. */
static fv_tensor *guided(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    (void)n_in, (void)params;
    static const uint8_t past_end[] = {0, 0, 0, 0, 0, 1};
    fv_tensor *all[5] = {NULL};
    fv_tensor *padding = fv_from_host(ctx, FV_U8, 2, (int64_t[]){2, 3}, past_end);
    all[0] = fv_vqa_weights_by_words(ctx, in[0], in[1], padding, &all[1]);
    all[2] = fv_vqa_read_cells(ctx, all[0], in[0]);
    all[3] = fv_vqa_weights_by_vector(ctx, in[0], all[2]);
    all[4] = fv_vqa_read_cells(ctx, all[3], in[0]);
    return fv_ctx_error(ctx) == FV_OK ? compound_join(ctx, 5, all) : all[0];
}

static const fv_op_case guided_cases[] = {
    {.name = "two hops", .n_in = 2, .in = {FV_IN(NORMAL, 2, 4, 3), FV_IN(NORMAL, 2, 3, 3)}},
};
const fv_op_desc compound_guided = COMPOUND(
    14, "question-guided attention", "cells for words and for a vector", guided, guided_cases);
