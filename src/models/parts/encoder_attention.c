/*
 * An encoder of self-attention alone:
 *
 *     x = e + p;  x = heads_i(x, x, x),  i = 1 .. model.self_layers;  h = x;  summary = mean(h)
 *
 * e is a token's embedding and p its position. Nothing else: no norm, no residual path and no
 * feed-forward layer, so that what attention does by itself can be seen. States have
 * model.encoder_hidden elements.
 */
#include "models/parts/documents.h"
#include "models/parts/self_attention.h"
#include "ops/draw.h"

typedef struct attention_encoder {
    int64_t vector; /* width of an input that is not a token */
    double dropout;
    fv_tensor *embedding;
    fv_self_attention stack;
} attention_encoder;

/* ---- parameters ----------------------------------------------------------------------------- */

static fv_status create_self_and_embedding(fv_params *params, const fv_seq2seq_config *c,
                                           void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    attention_encoder *e = fv_mem_zalloc(&ctx->mem, sizeof *e);
    FV_RETURN_IF(!e, ctx, FV_ERR_MEMORY, "no memory for an encoder");
    *self = e;
    e->vector = c->embedding;
    e->dropout = c->dropout;
    e->embedding = fv_source_embedding(params, c);
    return ctx->error;
}

static fv_status create(fv_params *params, const fv_seq2seq_config *c, void *self)
{
    attention_encoder *e = self;
    return fv_self_attention_create(params, "encoder", c, c->encoder_hidden, false, &e->stack);
}

static void destroy(fv_ctx *ctx, void *self)
{
    fv_mem_free(&ctx->mem, self, sizeof(attention_encoder));
}

static int64_t width(const fv_seq2seq_config *c) { return c->encoder_hidden; }

/* ---- encoding ------------------------------------------------------------------------------- */

/* Rows of a table at the place of each entry, along an axis. */
static fv_tensor *at_places(fv_ctx *ctx, const fv_documents *d, fv_tensor *table, int axis)
{
    return fv_index_select(ctx, table, fv_documents_places(ctx, d), axis);
}

/* Documents in one row: equal bits alone and among others, and no work on padding. */
static fv_tensor *run_varlen(fv_ctx *ctx, const attention_encoder *e, const fv_documents *d,
                             fv_tensor *x, bool training)
{
    const int64_t ends = d->packed.sequences + 1;
    const fv_rotary_config *rotary = &e->stack.layer[0].cfg.rotary;
    fv_tensor *begin = fv_from_host(ctx, FV_I64, 1, &ends, d->begin), *angles = NULL;
    if (rotary->width)
        angles = at_places(ctx, d, fv_rotary_table(ctx, FV_F32, rotary, 0, d->packed.steps), 1);
    x = fv_unsqueeze(ctx, x, 0);
    for (int i = 0; i < e->stack.layers; i++) {
        const fv_mha_input in = {.x = x,
                                 .q_begin = begin,
                                 .k_begin = begin,
                                 .rotary_table = angles,
                                 .key_rotary_table = angles,
                                 .training = training};
        x = fv_mha_run(ctx, &e->stack.layer[i], &in, NULL);
    }
    return fv_squeeze(ctx, x, 0);
}

/* Relative positions need each pair's distance, so each row is a call of its own. */
static fv_tensor *run_rows(fv_ctx *ctx, const attention_encoder *e, const fv_documents *d,
                           fv_tensor *x, bool training)
{
    const int64_t rows = d->packed.sequences;
    const size_t bytes = (size_t)rows * sizeof(fv_tensor *);
    fv_tensor **all = fv_mem_alloc(&ctx->mem, bytes);
    if (!all) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld rows", (long long)rows);
        return ctx->invalid;
    }
    for (int64_t r = 0; r < rows; r++) {
        fv_tensor *y = fv_slice(ctx, x, 0, d->begin[r], d->begin[r + 1], 1);
        y = fv_unsqueeze(ctx, y, 0);
        for (int i = 0; i < e->stack.layers; i++)
            y = fv_mha_run(ctx, &e->stack.layer[i], &(fv_mha_input){.x = y, .training = training},
                           NULL);
        all[r] = fv_squeeze(ctx, y, 0);
    }
    fv_tensor *joined = fv_concat(ctx, (int)rows, all, 0);
    fv_mem_free(&ctx->mem, all, bytes);
    return joined;
}

static fv_tensor *run(fv_ctx *ctx, const void *encoder, const fv_documents *d, bool training)
{
    const attention_encoder *e = encoder;
    fv_tensor *x = fv_documents_embed(ctx, d, e->embedding);
    if (training) {
        fv_tensor *before = fv_draw_numbers_set(
            ctx, fv_draw_numbers_of(ctx, d->packed.sequences, d->field->length));
        x = fv_dropout(ctx, x, e->dropout);
        fv_draw_numbers_set(ctx, before);
    }
    fv_tensor *rows = fv_places_rows(ctx, &e->stack.places, 0, d->packed.steps);
    if (rows) x = fv_positions_apply(ctx, x, at_places(ctx, d, rows, 0), e->stack.places.how);
    const bool relative = e->stack.places.kind == FV_SEQ2SEQ_POSITIONS_RELATIVE;
    return (relative ? run_rows : run_varlen)(ctx, e, d, x, training);
}

static fv_status encode(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_encode_call *call,
                        fv_memory *out)
{
    const attention_encoder *e = self;
    return fv_documents_encode(ctx, e->vector, run, e, batch, call, out);
}

const fv_encoder_part fv_encoder_attention = {
    .name = "attention",
    .summary = "self-attention alone: no norms, residuals or feed-forward layers",
    .field = "source",
    .reads_tokens = true,
    .axis = FV_AXIS_TOKENS,
    .create_self_and_embedding = create_self_and_embedding,
    .create = create,
    .destroy = destroy,
    .width = width,
    .encode = encode,
};
