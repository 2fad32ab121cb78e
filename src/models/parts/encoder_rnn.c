/*
 * The recurrent encoder: tokens to a memory of hidden states. Sequences are packed as in PyTorch's
 * PackedSequence (fovea/recurrent.h): sorted by length and stored step by step, so that nothing is
 * computed for padding.
 */
#include "models/parts/encoder_rnn.h"

#include "nn/packed_sequences.h"
#include "nn/recurrent.h"
#include "nn/weights.h"
#include "ops/draw.h"

static int directions(const fv_rnn_encoder *e) { return e->rnn.cfg.bidirectional ? 2 : 1; }

/* ---- parameters ----------------------------------------------------------------------------- */

static fv_status create_self_and_embedding(fv_params *params, const fv_seq2seq_config *c,
                                           void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_rnn_encoder *e = fv_mem_zalloc(&ctx->mem, sizeof *e);
    FV_RETURN_IF(!e, ctx, FV_ERR_MEMORY, "no memory for an encoder");
    *self = e;
    e->vocabulary = c->source_tokens;
    e->reversed = c->reverse_source;
    e->dropout = c->dropout;
    e->embedding = fv_source_embedding(params, c);
    return ctx->error;
}

static fv_status create(fv_params *params, const fv_seq2seq_config *c, void *self)
{
    fv_rnn_encoder *e = self;
    fv_rnn_config rnn;
    fv_rnn_config_init(&rnn, sizeof rnn);
    rnn.cell = c->cell;
    rnn.layers = c->layers;
    rnn.input = c->embedding;
    rnn.dropout = c->dropout;
    rnn.hidden = c->encoder_hidden;
    rnn.bidirectional = c->bidirectional;
    return fv_rnn_create(params, "encoder.rnn", &rnn, &e->rnn);
}

static void drop_gate_tables(void *self)
{
    fv_rnn_encoder *e = self;
    fv_table_drop(&e->gate_tables[0]);
    fv_table_drop(&e->gate_tables[1]);
}

static void destroy(fv_ctx *ctx, void *self)
{
    drop_gate_tables(self);
    fv_mem_free(&ctx->mem, self, sizeof(fv_rnn_encoder));
}

static int64_t width(const fv_seq2seq_config *c)
{
    return c->encoder_hidden * (c->bidirectional ? 2 : 1);
}

/* ---- tables of gates for inference ---------------------------------------------------------- */

/* The first layer's input gates, W x + b, depend on the token alone. At inference they are computed
 * once for every token of the vocabulary and then looked up; tables.h says when. */

/* Grows with every change of a weight that the tables are computed from. */
static uint64_t weights_version(const fv_rnn_encoder *e)
{
    uint64_t sum = e->embedding->buffer->version;
    for (int d = 0; d < directions(e); d++)
        sum += fv_rnn_input_version(&e->rnn.weights[0][d]);
    return sum;
}

static bool has_tables(fv_ctx *ctx, const fv_rnn_encoder *e)
{
    return e->gate_tables[0] && fv_tables_are_valid(ctx, &e->tables, weights_version(e));
}

static void prepare(fv_ctx *ctx, void *self, const fv_batch *batch)
{
    fv_rnn_encoder *e = self;
    const fv_sequences sources = fv_batch_sequences(batch, "source");
    int64_t tokens = 0;
    for (int64_t i = 0; i < sources.count; i++)
        tokens += sources.length[i];
    if (!fv_tables_refresh(ctx, &e->tables, weights_version(e), tokens, drop_gate_tables, e))
        return;
    /* Only after as many tokens as the vocabulary has: from then on a table costs less than it
     * saves. */
    if (e->gate_tables[0] || e->tables.used < e->vocabulary ||
        !fv_table_fits(e->rnn.weights[0][0].input, e->vocabulary, directions(e)))
        return;
    fv_scope_begin(ctx);
    for (int d = directions(e) - 1; d >= 0; d--) {
        /* gate_tables[0] is computed last and alone says that the tables are complete;
         * gate_tables[1] may be left over from an attempt that failed at gate_tables[0]. */
        fv_table_drop(&e->gate_tables[d]);
        e->gate_tables[d] = fv_table_keep(ctx, fv_rnn_gates(ctx, &e->rnn, d, e->embedding));
    }
    fv_scope_end(ctx);
}

/* ---- encoding ------------------------------------------------------------------------------- */

/* Where step t of a sequence is read when it is fed from its end: an index over packed rows that is
 * its own inverse. */
static fv_tensor *reversed_index(fv_ctx *ctx, const fv_packed_sequences *p)
{
    const size_t bytes = (size_t)p->total * sizeof(int64_t);
    int64_t *from = fv_mem_alloc(&ctx->mem, bytes);
    if (!from) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld tokens", (long long)p->total);
        return ctx->invalid;
    }
    for (int64_t t = 0; t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++)
            from[p->first[t] + i] = p->first[p->length[i] - 1 - t] + i;
    fv_tensor *index = fv_from_host(ctx, FV_I64, 1, &p->total, from);
    fv_mem_free(&ctx->mem, from, bytes);
    return index;
}

/* The final hidden states of the top layer, both directions concatenated. */
static fv_tensor *final_hidden(fv_ctx *ctx, const fv_rnn_encoder *e, const fv_rnn_state *last)
{
    const int top = e->rnn.cfg.layers - 1;
    if (!e->rnn.cfg.bidirectional) return last->h[top][0];
    return fv_concat(ctx, 2, (fv_tensor *[]){last->h[top][0], last->h[top][1]}, 1);
}

/* The states of all source tokens, from tables of gates where there are any. */
static fv_tensor *run(fv_ctx *ctx, const fv_rnn_encoder *e, fv_tensor *tokens,
                      const fv_packed_sequences *p, bool training, fv_rnn_state *last)
{
    fv_tensor *index = e->reversed ? reversed_index(ctx, p) : NULL, *gates[2] = {NULL}, *h;
    if (index) tokens = fv_index_select(ctx, tokens, index, 0);
    if (!training && ctx->no_grad > 0 && has_tables(ctx, e)) {
        for (int d = 0; d < directions(e); d++)
            gates[d] = fv_embedding(ctx, e->gate_tables[d], tokens, -1);
        h = fv_rnn_run_gates(ctx, &e->rnn, gates, p, last);
    } else {
        fv_tensor *x = fv_embedding(ctx, e->embedding, tokens, -1);
        if (training) {
            fv_tensor *before = fv_draw_numbers_set(ctx, fv_packed_numbers(ctx, p));
            x = fv_dropout(ctx, x, e->dropout);
            fv_draw_numbers_set(ctx, before);
        }
        h = fv_rnn_run(ctx, &e->rnn, x, p, NULL, training, last);
    }
    return index ? fv_index_select(ctx, h, index, 0) : h;
}

static fv_status encode_packed(fv_ctx *ctx, const fv_rnn_encoder *e, const fv_sequences *sources,
                               const fv_packed_sequences *p, const fv_encode_call *call,
                               fv_memory *out)
{
    fv_tensor *tokens = fv_packed_tokens(ctx, p, sources->tokens);
    fv_rnn_state last;
    fv_tensor *h = run(ctx, e, tokens, p, call->training, &last);
    if (ctx->error != FV_OK) return ctx->error;
    out->summary = final_hidden(ctx, e, &last);
    if (call->order)
        out->summary = fv_index_select(ctx, out->summary,
                                       fv_from_host(ctx, FV_I64, 1, &p->sequences, call->order), 0);
    fv_memory_from_packed(ctx, h, p, call, out);
    return ctx->error;
}

static fv_status encode(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_encode_call *call,
                        fv_memory *out)
{
    const fv_sequences sources = fv_batch_sequences(batch, "source");
    fv_packed_sequences p;
    *out = (fv_memory){.n = 0};
    FV_TRY(fv_pack_sequences(ctx, sources.count, sources.length, &p));
    const fv_status status =
        sources.count > 0 ? encode_packed(ctx, self, &sources, &p, call, out) : FV_OK;
    fv_packed_free(&p);
    return status;
}

const fv_encoder_part fv_encoder_rnn = {
    .name = "rnn",
    .summary = "embedding and an RNN, GRU or LSTM, in one or both directions",
    .field = "source",
    .reads_tokens = true,
    .axis = FV_AXIS_TOKENS,
    .create_self_and_embedding = create_self_and_embedding,
    .create = create,
    .destroy = destroy,
    .width = width,
    .encode = encode,
    .prepare = prepare,
};
