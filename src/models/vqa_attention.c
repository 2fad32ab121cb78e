/* The weights of the cells of a picture for a question. */
#include <math.h>

#include "fovea/ops.h"
#include "models/vqa.h"

fv_tensor *fv_vqa_weights_by_words(fv_ctx *ctx, fv_tensor *cells, fv_tensor *words,
                                   fv_tensor *padding, fv_tensor **by_word)
{
    fv_tensor *scores = fv_matmul(ctx, words, fv_transpose(ctx, cells, 1, 2));
    scores = fv_masked_fill(ctx, scores, fv_unsqueeze(ctx, padding, 2), -INFINITY);
    if (by_word) *by_word = fv_softmax(ctx, scores, -1);
    return fv_softmax(ctx, fv_max(ctx, scores, 1, (int[]){1}, false), -1);
}

fv_tensor *fv_vqa_weights_by_vector(fv_ctx *ctx, fv_tensor *cells, fv_tensor *query)
{
    fv_tensor *scores = fv_matmul(ctx, cells, fv_unsqueeze(ctx, query, 2));
    return fv_softmax(ctx, fv_squeeze(ctx, scores, 2), -1);
}

fv_tensor *fv_vqa_read_cells(fv_ctx *ctx, fv_tensor *weights, fv_tensor *cells)
{
    return fv_squeeze(ctx, fv_matmul(ctx, fv_unsqueeze(ctx, weights, 1), cells), 1);
}
