/*
 * An encoder of pictures: convolutions to a grid of cells, which are the memory's positions, row by
 * row. With x_0 the field "pixels" [channels, height, width]:
 *
 *     x_s = silu(norm(conv3x3(x_{s-1})))   model.grid_stages times; each of the first
 *                                          model.grid_halvings halves height and width
 *     h_ij = W x_ij + b                    [model.encoder_hidden]
 *     h_ij = h_ij + V rnn(h_i1 .. h_iw)_j  with model.grid_rows: both directions along each row
 *     summary = mean of h_ij
 *
 * Norms are group norms, so a picture's cells depend on no other picture. With
 * model.grid_coordinates the last convolution reads two more channels, the places -1 .. 1 of a cell
 * in its row and its column. With model.grid_neighbours the keys of additive attention are
 *
 *     k_ij = W_k h_ij + sum over the cells pq of the 3 x 3 around ij of U_{p-i,q-j} h_pq
 *
 * (Li et al. 2019, "Show, attend and read"; their sum leaves out ij itself, whose matrix is
 * then a part of W_k).
 */
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "fovea/image.h"
#include "models/grid_places.h"
#include "models/parts/cross_attention.h"
#include "nn/weights.h"
#include "ops/draw.h"

enum { GROUPS = 8 };

typedef struct stage {
    fv_conv2d_layer conv;
    int64_t channels, groups;
    fv_tensor *weight, *bias; /* of the norm */
} stage;

typedef struct grid_encoder {
    int64_t picture[3];    /* channels, height, width */
    int64_t height, width; /* of the grid */
    int64_t hidden;
    int stages;
    bool coordinates, reads_rows, neighbours;
    double dropout;
    stage stage[FV_GRID_STAGES];
    fv_dense cells;
    fv_rnn rnn;
    fv_dense rows;
    fv_conv2d_layer around; /* U */
} grid_encoder;

static const int64_t window[2] = {3, 3};

/* ---- parameters ----------------------------------------------------------------------------- */

static fv_status create_self_and_embedding(fv_params *params, const fv_seq2seq_config *c,
                                           void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    grid_encoder *e = fv_mem_zalloc(&ctx->mem, sizeof *e);
    FV_RETURN_IF(!e, ctx, FV_ERR_MEMORY, "no memory for an encoder");
    *self = e;
    const int64_t picture[3] = {c->input_channels, c->input_height, c->input_width};
    memcpy(e->picture, picture, sizeof picture);
    e->height = picture[1];
    e->width = picture[2];
    for (int i = 0; i < c->grid_halvings; i++) {
        e->height = (e->height + 1) / 2;
        e->width = (e->width + 1) / 2;
    }
    e->hidden = c->encoder_hidden;
    e->stages = c->grid_stages;
    e->coordinates = c->grid_coordinates;
    e->reads_rows = c->grid_rows;
    e->neighbours = c->grid_neighbours;
    e->dropout = c->dropout;
    return FV_OK;
}

/* Channels double with each halving after the first. */
static int64_t channels_of(const fv_seq2seq_config *c, int i)
{
    const int last = c->grid_halvings > 0 ? c->grid_halvings - 1 : 0;
    return c->grid_channels << (i < last ? i : last); /* at most 2^24 << 7 */
}

static fv_status check(fv_ctx *ctx, const fv_seq2seq_config *c)
{
    FV_RETURN_IF(c->input_channels < 1 || c->input_channels > FV_GRID_CHANNELS ||
                     c->input_height < 1 || c->input_height > FV_GRID_SIDE || c->input_width < 1 ||
                     c->input_width > FV_GRID_SIDE,
                 ctx, FV_ERR_ARGUMENT,
                 "the grid encoder reads pictures of 1 to %d channels and sides of 1 to %d pixels, "
                 "not %lld x %lld x %lld",
                 (int)FV_GRID_CHANNELS, (int)FV_GRID_SIDE, (long long)c->input_channels,
                 (long long)c->input_height, (long long)c->input_width);
    FV_RETURN_IF(c->grid_stages < 1 || c->grid_stages > FV_GRID_STAGES || c->grid_halvings < 0 ||
                     c->grid_halvings > c->grid_stages || c->grid_channels < 1 ||
                     channels_of(c, c->grid_stages - 1) > FV_GRID_CHANNELS,
                 ctx, FV_ERR_ARGUMENT,
                 "the grid encoder has 1 to %d stages, at most as many halvings, and 1 to %d "
                 "channels in its last stage",
                 (int)FV_GRID_STAGES, (int)FV_GRID_CHANNELS);
    FV_RETURN_IF(c->grid_neighbours && (c->score != FV_ATTENTION_ADDITIVE ||
                                        !fv_decoder_part_at((int)c->decoder)->attends),
                 ctx, FV_ERR_ARGUMENT,
                 "model.grid_neighbours needs a decoder that attends with additive scores");
    return FV_OK;
}

static fv_status create_stage(fv_params *params, const fv_seq2seq_config *c, grid_encoder *e, int i)
{
    stage *s = &e->stage[i];
    char name[32];
    const int64_t stride = i < c->grid_halvings ? 2 : 1;
    const fv_conv2d_options options = {.stride = {stride, stride}, .padding = {1, 1}};
    int64_t in = i == 0 ? e->picture[0] : e->stage[i - 1].channels;
    if (e->coordinates && i + 1 == e->stages) in += FV_GRID_PLACES;
    s->channels = channels_of(c, i);
    s->groups = s->channels % GROUPS ? 1 : GROUPS;
    snprintf(name, sizeof name, "encoder.stage.%d", i);
    FV_TRY(fv_conv2d_create(params, name, in, s->channels, window, false, &options, &s->conv));
    snprintf(name, sizeof name, "encoder.stage.%d.norm", i);
    s->weight = fv_nn_weight(params, name, "weight", 1, &s->channels, fv_init_constant(1));
    s->bias = fv_nn_weight(params, name, "bias", 1, &s->channels, fv_init_constant(0));
    return fv_params_ctx(params)->error;
}

static fv_status create_rows(fv_params *params, const fv_seq2seq_config *c, grid_encoder *e)
{
    fv_rnn_config rnn;
    fv_rnn_config_init(&rnn, sizeof rnn);
    rnn.cell = c->cell;
    rnn.input = rnn.hidden = e->hidden;
    rnn.bidirectional = true;
    FV_TRY(fv_rnn_create(params, "encoder.rnn", &rnn, &e->rnn));
    return fv_dense_create(params, "encoder.rows", 2 * e->hidden, e->hidden, true, 0, &e->rows);
}

static fv_status create(fv_params *params, const fv_seq2seq_config *c, void *self)
{
    grid_encoder *e = self;
    FV_TRY(check(fv_params_ctx(params), c));
    for (int i = 0; i < e->stages; i++)
        FV_TRY(create_stage(params, c, e, i));
    FV_TRY(fv_dense_create(params, "encoder.cells", e->stage[e->stages - 1].channels, e->hidden,
                           true, 0, &e->cells));
    if (e->reads_rows) FV_TRY(create_rows(params, c, e));
    if (!e->neighbours) return FV_OK;
    const fv_conv2d_options same = {.padding = {1, 1}};
    return fv_conv2d_create(params, "attention.neighbours", e->hidden, c->attention_width, window,
                            false, &same, &e->around);
}

static void destroy(fv_ctx *ctx, void *self) { fv_mem_free(&ctx->mem, self, sizeof(grid_encoder)); }

static int64_t width(const fv_seq2seq_config *c) { return c->encoder_hidden; }

static void grid(const void *self, int64_t *rows, int64_t *cols)
{
    const grid_encoder *e = self;
    *rows = e->height;
    *cols = e->width;
}

/* ---- encoding ------------------------------------------------------------------------------- */

/* [n, channels, h, w] of the last stage. */
static fv_tensor *run_stages(fv_ctx *ctx, const grid_encoder *e, fv_tensor *x)
{
    for (int i = 0; i < e->stages && ctx->error == FV_OK; i++) {
        const stage *s = &e->stage[i];
        if (e->coordinates && i + 1 == e->stages) x = fv_grid_add_places(ctx, x);
        x = fv_conv2d_run(ctx, &s->conv, x);
        x = fv_silu(ctx, fv_group_norm(ctx, x, s->groups, s->weight, s->bias, 1e-5));
    }
    return ctx->error == FV_OK ? x : ctx->invalid;
}

/* Adds what the rows say to h [n, cells, hidden]. All rows have one length, so packed rows are the
 * steps one after the other. */
static fv_tensor *read_rows(fv_ctx *ctx, const grid_encoder *e, int64_t n, fv_tensor *h,
                            bool training)
{
    const int64_t lines = n * e->height, c = e->hidden;
    const size_t bytes = (size_t)lines * sizeof(int64_t);
    fv_packed_sequences p;
    int64_t *lengths = fv_mem_alloc(&ctx->mem, bytes);
    for (int64_t i = 0; lengths && i < lines; i++)
        lengths[i] = e->width;
    const fv_status status =
        lengths ? fv_pack_sequences(ctx, lines, lengths, &p)
                : fv_fail(ctx, FV_ERR_MEMORY, "no memory for %lld rows", (long long)lines);
    if (lengths) fv_mem_free(&ctx->mem, lengths, bytes);
    if (status != FV_OK) {
        fv_make_last_failure_sticky(ctx, status);
        return ctx->invalid;
    }
    fv_tensor *x = fv_reshape(ctx, h, 3, (int64_t[]){lines, e->width, c});
    x = fv_contiguous(ctx, fv_transpose(ctx, x, 0, 1));
    x = fv_reshape(ctx, x, 2, (int64_t[]){e->width * lines, c});
    x = fv_dense_run(ctx, &e->rows, fv_rnn_run(ctx, &e->rnn, x, &p, NULL, training, NULL));
    fv_packed_free(&p);
    x = fv_transpose(ctx, fv_reshape(ctx, x, 3, (int64_t[]){e->width, lines, c}), 0, 1);
    x = fv_reshape(ctx, fv_contiguous(ctx, x), 3, (int64_t[]){n, e->height * e->width, c});
    return fv_add(ctx, h, x);
}

/* A draw belongs to a cell of a picture, whatever the batch (ops/draw.h). */
static fv_tensor *drop(fv_ctx *ctx, const grid_encoder *e, fv_tensor *h)
{
    fv_tensor *before = fv_draw_numbers_set(ctx, NULL);
    h = fv_dropout(ctx, h, e->dropout);
    fv_draw_numbers_set(ctx, before);
    return h;
}

static fv_tensor *run(fv_ctx *ctx, const grid_encoder *e, const fv_batch *batch, bool training)
{
    const int64_t n = batch->rows, cells = e->height * e->width;
    fv_tensor *x = run_stages(ctx, e, fv_batch_tensor(ctx, batch, "pixels", NULL));
    if (ctx->error != FV_OK) return ctx->invalid;
    x = fv_reshape(ctx, x, 3, (int64_t[]){n, fv_tensor_size(x, 1), cells});
    x = fv_dense_run(ctx, &e->cells, fv_contiguous(ctx, fv_transpose(ctx, x, 1, 2)));
    if (training) x = drop(ctx, e, x);
    return e->reads_rows ? read_rows(ctx, e, n, x, training) : x;
}

/* Keys [n, cells, width] of the states; NULL: the states are the keys. */
static fv_tensor *keys_of(fv_ctx *ctx, const grid_encoder *e, const fv_cross_attention *attention,
                          fv_tensor *h, int64_t n)
{
    fv_tensor *keys = fv_cross_attention_keys(ctx, attention, h);
    if (!keys || !e->neighbours) return keys;
    fv_tensor *grid = fv_contiguous(ctx, fv_transpose(ctx, h, 1, 2));
    grid = fv_reshape(ctx, grid, 4, (int64_t[]){n, e->hidden, e->height, e->width});
    grid = fv_conv2d_run(ctx, &e->around, grid);
    grid = fv_reshape(ctx, grid, 3, (int64_t[]){n, -1, e->height * e->width});
    return fv_add(ctx, keys, fv_transpose(ctx, grid, 1, 2));
}

static fv_status encode(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_encode_call *call,
                        fv_memory *out)
{
    const grid_encoder *e = self;
    const fv_field *field = fv_batch_find(batch, "pixels");
    const int64_t n = batch->rows;
    *out = (fv_memory){.n = 0};
    FV_RETURN_IF(!field || field->dtype != FV_F32 || field->rank != 3 || field->length ||
                     memcmp(field->shape, e->picture, sizeof e->picture) != 0,
                 ctx, FV_ERR_ARGUMENT,
                 "encoder: the batch has no \"pixels\" of %lld x %lld x %lld (f32)",
                 (long long)e->picture[0], (long long)e->picture[1], (long long)e->picture[2]);
    if (n == 0) return FV_OK;
    fv_tensor *h = run(ctx, e, batch, call->training);
    if (call->order) h = fv_index_select(ctx, h, fv_from_host(ctx, FV_I64, 1, &n, call->order), 0);
    out->n = n;
    out->positions = e->height * e->width;
    out->lengths = fv_full(ctx, FV_I64, 1, &n, (double)out->positions);
    out->summary = fv_mean(ctx, h, 1, (int[]){1}, false);
    if (!call->attention || ctx->error != FV_OK) return ctx->error;
    fv_tensor *keys = keys_of(ctx, e, call->attention, h, n);
    out->v = fv_unsqueeze(ctx, h, 1);
    out->k = keys ? fv_unsqueeze(ctx, fv_contiguous(ctx, keys), 1) : out->v;
    return ctx->error;
}

const fv_encoder_part fv_encoder_grid = {
    .name = "grid",
    .summary = "convolutions to a grid of cells, for pictures",
    .field = "pixels",
    .axis = FV_AXIS_CELLS,
    .create_self_and_embedding = create_self_and_embedding,
    .create = create,
    .destroy = destroy,
    .width = width,
    .encode = encode,
    .grid = grid,
};
