/*
 * Pictures to cells: 3 x 3 convolutions with batch norm and ReLU, the first vqa.halvings of them
 * with stride 2, then for each cell
 *     v = relu(W [x ; places] + b)
 * Questions about one picture share its cells, so a batch that keeps them together computes the
 * convolutions once per picture.
 */
#include <stdio.h>

#include "fovea/ops.h"
#include "models/grid_places.h"
#include "models/vqa.h"
#include "tensor/tensor.h"

fv_status fv_vqa_grid_create(fv_vqa *m, fv_params *params)
{
    m->rows = m->in.height;
    m->cols = m->in.width;
    FV_TRY(fv_batch_norms_init(&m->norms, m->ctx));
    for (int i = 0; i < m->stages; i++) {
        char name[32];
        const int64_t stride = i < m->halvings ? 2 : 1;
        const fv_conv2d_options options = {.stride = {stride, stride}, .padding = {1, 1}};
        snprintf(name, sizeof name, "stage.%d", i);
        FV_TRY(fv_conv2d_create(params, name, i ? m->channels : m->in.channels, m->channels,
                                (int64_t[]){3, 3}, false, &options, &m->stage[i].conv));
        snprintf(name, sizeof name, "stage.%d.norm", i);
        FV_TRY(fv_batch_norms_add(&m->norms, params, name, m->channels, &m->stage[i].norm));
        m->rows = (m->rows + stride - 1) / stride;
        m->cols = (m->cols + stride - 1) / stride;
    }
    return fv_dense_create(params, "cells", m->channels + FV_GRID_PLACES, m->width, true, 0,
                           &m->cells);
}

/* Cells [pictures, rows cols, width] of a batch without shared pictures. */
static fv_tensor *run_pictures(fv_ctx *ctx, fv_vqa *m, const fv_batch *pictures, bool training)
{
    fv_tensor *x = fv_picture_input_tensor(ctx, &m->in, pictures);
    for (int i = 0; i < m->stages; i++) {
        x = fv_conv2d_run(ctx, &m->stage[i].conv, x);
        x = fv_batch_norms_run(ctx, &m->norms, m->stage[i].norm, x, training);
        x = fv_relu(ctx, x);
    }
    x = fv_grid_add_places(ctx, x);
    x = fv_reshape(ctx, x, 3,
                   (int64_t[]){pictures->rows, m->channels + FV_GRID_PLACES, m->rows * m->cols});
    x = fv_contiguous(ctx, fv_transpose(ctx, x, 1, 2));
    return fv_relu(ctx, fv_dense_run(ctx, &m->cells, x));
}

/* Pictures of the rows without repetition, and which of them each row has. */
static int64_t find_pictures(const fv_field *field, int64_t rows, const void **picture,
                             int64_t *which)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (i == 0 || field->row[i] != field->row[i - 1]) picture[count++] = field->row[i];
        which[i] = count - 1;
    }
    return count;
}

static fv_tensor *run_shared(fv_ctx *ctx, fv_vqa *m, const fv_field *field, int64_t rows,
                             const void **picture, int64_t *which, bool training)
{
    fv_batch pictures;
    const int64_t count = find_pictures(field, rows, picture, which);
    fv_field once = *field;
    once.row = picture;
    fv_batch_init(&pictures, count);
    fv_batch_add(&pictures, once);
    fv_tensor *cells = run_pictures(ctx, m, &pictures, training);
    if (count == rows) return cells;
    return fv_index_select(ctx, cells, fv_from_host(ctx, FV_I64, 1, &rows, which), 0);
}

fv_tensor *fv_vqa_grid_run(fv_ctx *ctx, fv_vqa *m, const fv_batch *batch, bool training)
{
    const fv_field *field = fv_batch_find(batch, "pixels");
    const int64_t rows = batch->rows;
    if (!field) return fv_picture_input_tensor(ctx, &m->in, batch); /* sets the error */
    const size_t picture_bytes = (size_t)rows * sizeof(void *), which_bytes = (size_t)rows * 8;
    const void **picture = fv_mem_alloc(&ctx->mem, picture_bytes);
    int64_t *which = fv_mem_alloc(&ctx->mem, which_bytes);
    fv_tensor *cells = ctx->invalid;
    if (picture && which)
        cells = run_shared(ctx, m, field, rows, picture, which, training);
    else
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for a batch of %lld rows", (long long)rows);
    if (picture) fv_mem_free(&ctx->mem, picture, picture_bytes);
    if (which) fv_mem_free(&ctx->mem, which, which_bytes);
    return ctx->error == FV_OK ? cells : ctx->invalid;
}
