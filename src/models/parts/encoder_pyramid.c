/*
 * An encoder of recordings: recurrent layers, each of which reads two neighbouring states of the
 * one below as one, so that each halves the number of states (Chan et al. 2016, "Listen, attend and
 * spell"). With h^0 the field "frames":
 *
 *     h^j = rnn_j([h^{j-1}_{2i}; h^{j-1}_{2i+1}]),  j = 1 .. model.pyramid_layers
 *     summary = the last state of the top layer, of both directions
 *
 * so n frames become ceil(n / 2^layers) states. Where a state has no neighbour, zeros stand for it:
 * no frame is lost, and a row's bits do not depend on the batch. Rows of different lengths are
 * packed (fovea/recurrent.h), without work on padding. Units are model.encoder_hidden of
 * model.cell, in both directions with model.bidirectional.
 */
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "models/parts/parts.h"
#include "nn/packed_sequences.h"
#include "nn/weights.h"
#include "ops/draw.h"

enum { MAX_FRAME = 1 << 14 };

typedef struct pyramid_encoder {
    int64_t frame; /* numbers of a frame */
    int layers;
    double dropout;
    fv_rnn layer[FV_PYRAMID_LAYERS]; /* of one layer each */
} pyramid_encoder;

/* ---- parameters ----------------------------------------------------------------------------- */

static fv_status create_self_and_embedding(fv_params *params, const fv_seq2seq_config *c,
                                           void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    FV_RETURN_IF(c->input_width < 1 || c->input_width > MAX_FRAME, ctx, FV_ERR_ARGUMENT,
                 "the pyramid encoder reads frames of 1 to %d numbers, not %lld", (int)MAX_FRAME,
                 (long long)c->input_width);
    FV_RETURN_IF(c->pyramid_layers < 1 || c->pyramid_layers > FV_PYRAMID_LAYERS, ctx,
                 FV_ERR_ARGUMENT, "model.pyramid_layers is %d, not 1 to %d", c->pyramid_layers,
                 (int)FV_PYRAMID_LAYERS);
    pyramid_encoder *e = fv_mem_zalloc(&ctx->mem, sizeof *e);
    FV_RETURN_IF(!e, ctx, FV_ERR_MEMORY, "no memory for an encoder");
    *self = e;
    e->frame = c->input_width;
    e->layers = c->pyramid_layers;
    e->dropout = c->dropout;
    return FV_OK;
}

static int64_t width(const fv_seq2seq_config *c)
{
    return c->encoder_hidden * (c->bidirectional ? 2 : 1);
}

static fv_status create(fv_params *params, const fv_seq2seq_config *c, void *self)
{
    pyramid_encoder *e = self;
    for (int i = 0; i < e->layers; i++) {
        char name[40];
        fv_rnn_config rnn;
        fv_rnn_config_init(&rnn, sizeof rnn);
        rnn.cell = c->cell;
        rnn.input = 2 * (i == 0 ? e->frame : width(c));
        rnn.hidden = c->encoder_hidden;
        rnn.bidirectional = c->bidirectional;
        snprintf(name, sizeof name, "encoder.pyramid.%d", i);
        FV_TRY(fv_rnn_create(params, name, &rnn, &e->layer[i]));
    }
    return FV_OK;
}

static void destroy(fv_ctx *ctx, void *self)
{
    fv_mem_free(&ctx->mem, self, sizeof(pyramid_encoder));
}

/* ---- levels --------------------------------------------------------------------------------- */

/* The layout of half as many states, whose lengths go to `halves`. */
static fv_status pack_halves(fv_ctx *ctx, int64_t count, const int64_t *lengths, int64_t *halves,
                             fv_packed_sequences *out)
{
    for (int64_t i = 0; i < count; i++)
        halves[i] = lengths[i] / 2 + lengths[i] % 2;
    return fv_pack_sequences(ctx, count, halves, out);
}

/* Pairs of frames, packed: [total, 2 frame]. */
static fv_tensor *pair_frames(fv_ctx *ctx, const pyramid_encoder *e, const fv_field *field,
                              const fv_packed_sequences *p)
{
    const int64_t shape[] = {p->total, 2 * e->frame};
    const size_t one = (size_t)e->frame * sizeof(float);
    size_t bytes = 0;
    char *all = NULL;
    if (fv_checked_mul_size(2 * one, (size_t)p->total, &bytes))
        all = fv_mem_zalloc(&ctx->mem, bytes);
    if (!all) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld frames", (long long)p->total);
        return ctx->invalid;
    }
    for (int64_t t = 0; t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++) {
            const int64_t row = p->order[i], left = field->length[row] - 2 * t;
            memcpy(all + (size_t)(p->first[t] + i) * 2 * one,
                   (const char *)field->row[row] + (size_t)(2 * t) * one, (left > 1 ? 2 : 1) * one);
        }
    fv_tensor *x = fv_from_host(ctx, FV_F32, 2, shape, all);
    fv_mem_free(&ctx->mem, all, bytes);
    return x;
}

/* Pairs of states x [below->total, width], packed as `above`: [above->total, 2 width]. A row of
 * zeros before x stands for the neighbour of a last state. */
static fv_tensor *pair_states(fv_ctx *ctx, fv_tensor *x, const fv_packed_sequences *below,
                              const fv_packed_sequences *above)
{
    const int64_t count = 2 * above->total, one = x->shape[1];
    const size_t bytes = (size_t)count * sizeof(int64_t);
    int64_t *from = fv_mem_alloc(&ctx->mem, bytes);
    if (!from) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld states", (long long)count);
        return ctx->invalid;
    }
    for (int64_t t = 0; t < above->steps; t++)
        for (int64_t i = 0; i < above->rows[t]; i++) {
            const int64_t rank = below->rank[above->order[i]], at = 2 * (above->first[t] + i);
            from[at] = 1 + below->first[2 * t] + rank;
            from[at + 1] = 2 * t + 1 < below->length[rank] ? 1 + below->first[2 * t + 1] + rank : 0;
        }
    fv_tensor *index = fv_from_host(ctx, FV_I64, 1, &count, from);
    fv_mem_free(&ctx->mem, from, bytes);
    fv_tensor *none = fv_zeros(ctx, FV_F32, 2, (int64_t[]){1, one});
    x = fv_concat(ctx, 2, (fv_tensor *[]){none, x}, 0);
    x = fv_index_select(ctx, x, index, 0);
    return fv_reshape(ctx, x, 2, (int64_t[]){above->total, 2 * one});
}

static fv_tensor *drop(fv_ctx *ctx, const pyramid_encoder *e, fv_tensor *x,
                       const fv_packed_sequences *p)
{
    fv_tensor *before = fv_draw_numbers_set(ctx, fv_packed_numbers(ctx, p));
    x = fv_dropout(ctx, x, e->dropout);
    fv_draw_numbers_set(ctx, before);
    return x;
}

/* ---- encoding ------------------------------------------------------------------------------- */

/* Packed layouts of two neighbouring levels, and lengths in the order of the batch. */
typedef struct levels {
    fv_packed_sequences packed[2];
    int64_t *lengths;
    size_t bytes;
} levels;

static void levels_free(fv_ctx *ctx, levels *l)
{
    fv_packed_free(&l->packed[0]);
    fv_packed_free(&l->packed[1]);
    if (l->lengths) fv_mem_free(&ctx->mem, l->lengths, l->bytes);
}

static void finish(fv_ctx *ctx, const fv_rnn *top, const fv_rnn_state *last, fv_tensor *h,
                   const fv_packed_sequences *p, const fv_encode_call *call, fv_memory *out)
{
    out->summary = last->h[0][0];
    if (top->cfg.bidirectional)
        out->summary = fv_concat(ctx, 2, (fv_tensor *[]){last->h[0][0], last->h[0][1]}, 1);
    if (call->order)
        out->summary = fv_index_select(ctx, out->summary,
                                       fv_from_host(ctx, FV_I64, 1, &p->sequences, call->order), 0);
    fv_memory_from_packed(ctx, h, p, call, out);
}

static fv_status climb(fv_ctx *ctx, const pyramid_encoder *e, const fv_field *field, int64_t rows,
                       const fv_encode_call *call, levels *l, fv_memory *out)
{
    fv_tensor *x = NULL;
    fv_rnn_state last;
    for (int i = 0; i < e->layers; i++) {
        fv_packed_sequences *p = &l->packed[i % 2], *below = &l->packed[(i + 1) % 2];
        fv_packed_free(p);
        FV_TRY(pack_halves(ctx, rows, i ? l->lengths : field->length, l->lengths, p));
        if (i > 0 && call->training) x = drop(ctx, e, x, below);
        x = i ? pair_states(ctx, x, below, p) : pair_frames(ctx, e, field, p);
        x = fv_rnn_run(ctx, &e->layer[i], x, p, NULL, call->training, &last);
        if (ctx->error != FV_OK) return ctx->error;
    }
    finish(ctx, &e->layer[e->layers - 1], &last, x, &l->packed[(e->layers + 1) % 2], call, out);
    return ctx->error;
}

static fv_status encode(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_encode_call *call,
                        fv_memory *out)
{
    const pyramid_encoder *e = self;
    const fv_field *field = fv_batch_find(batch, "frames");
    levels l = {.packed = {{.ctx = ctx}, {.ctx = ctx}}};
    *out = (fv_memory){.n = 0};
    FV_RETURN_IF(!field || !field->length || field->dtype != FV_F32 || field->rank != 1 ||
                     field->shape[0] != e->frame,
                 ctx, FV_ERR_ARGUMENT, "encoder: the batch has no \"frames\" of %lld numbers",
                 (long long)e->frame);
    for (int64_t i = 0; i < batch->rows; i++)
        FV_RETURN_IF(field->length[i] < 1, ctx, FV_ERR_ARGUMENT, "encoder: row %lld has no frames",
                     (long long)i);
    if (batch->rows == 0) return FV_OK;
    l.bytes = (size_t)batch->rows * sizeof *l.lengths;
    l.lengths = fv_mem_alloc(&ctx->mem, l.bytes);
    FV_RETURN_IF(!l.lengths, ctx, FV_ERR_MEMORY, "no memory for a batch");
    const fv_status status = climb(ctx, e, field, batch->rows, call, &l, out);
    levels_free(ctx, &l);
    return status;
}

const fv_encoder_part fv_encoder_pyramid = {
    .name = "pyramid",
    .summary = "recurrent layers over frames, each of which halves their number",
    .field = "frames",
    .axis = FV_AXIS_FRAMES,
    .create_self_and_embedding = create_self_and_embedding,
    .create = create,
    .destroy = destroy,
    .width = width,
    .encode = encode,
};
