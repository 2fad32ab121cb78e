/*
 * What a model that is only run keeps ready, once enough was asked of it to pay for that: the gates
 * of every source and target token, which are then looked up, and a screen of the output layer, so
 * that greedy search need not make every logit. Both give the bits of the long way. They go when a
 * weight changes.
 */
#include "base/check.h"
#include "models/seq2seq.h"
#include "nn/recurrent.h"
#include "ops/product.h"
#include "tensor/launch.h"

enum {
    SCREEN_FROM = 256,      /* tokens; making one takes about as long as their logits */
    TABLE_MOST = 128 << 20, /* bytes */
};

/* Grows with every change of a weight that something here was made from. */
static uint64_t stamp_of(const fv_seq2seq *m)
{
    const fv_rnn_weights *w[] = {&m->decoder.weights[0][0], &m->encoder.weights[0][0],
                                 &m->encoder.weights[0][1]};
    const fv_tensor *from[] = {m->source_embedding, m->target_embedding, m->output, m->output_bias};
    uint64_t stamp = 0;
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        stamp += from[i]->buffer->version;
    for (int i = 0; i < 2 + m->cfg.bidirectional; i++)
        stamp += w[i]->input->buffer->version + w[i]->input_bias->buffer->version +
                 w[i]->hidden_bias->buffer->version;
    return stamp;
}

static void drop(fv_tensor **t)
{
    if (*t) fv_tensor_unref(*t);
    *t = NULL;
}

void fv_seq2seq_ready_free(fv_seq2seq *m)
{
    fv_seq2seq_ready *r = &m->ready;
    drop(&r->source[0]);
    drop(&r->source[1]);
    drop(&r->gates);
    drop(&r->screen);
    r->read = r->asked = 0;
}

/* Drops what is no longer right; false: products are rounded, and nothing is kept. */
static bool refresh(fv_seq2seq *m)
{
    const uint64_t stamp = stamp_of(m);
    const bool exact = m->ctx->compute != FV_BF16;
    if (stamp != m->ready.stamp || !exact) fv_seq2seq_ready_free(m);
    m->ready.stamp = stamp;
    return exact;
}

/* Takes a tensor out of the scope at hand. */
static fv_tensor *kept(fv_ctx *ctx, fv_tensor *t)
{
    if (!t || ctx->error != FV_OK) return NULL;
    fv_tensor_ref(t);
    return t;
}

/* Whether gates of so many tokens are a table of a bearable size. */
static bool table_fits(const fv_tensor *input, int64_t tokens, int tables)
{
    size_t bytes;
    return input->dtype == FV_F32 &&
           fv_mul_size((size_t)tokens * (size_t)tables, (size_t)input->shape[0], &bytes) &&
           bytes <= TABLE_MOST / sizeof(float);
}

bool fv_seq2seq_reads_tables(const fv_seq2seq *m)
{
    return m->ready.source[0] && m->ready.stamp == stamp_of(m) && m->ctx->compute != FV_BF16;
}

void fv_seq2seq_ready_to_read(fv_ctx *ctx, fv_seq2seq *m, int64_t tokens)
{
    fv_seq2seq_ready *r = &m->ready;
    const int directions = m->cfg.bidirectional ? 2 : 1;
    if (!refresh(m)) return;
    r->read += tokens;
    if (r->source[0] || r->read < m->cfg.source_tokens ||
        !table_fits(m->encoder.weights[0][0].input, m->cfg.source_tokens, directions))
        return;
    fv_scope_begin(ctx);
    for (int d = directions - 1; d >= 0; d--) {
        drop(&r->source[d]); /* the other one may have failed */
        r->source[d] = kept(ctx, fv_rnn_gates(ctx, &m->encoder, d, m->source_embedding));
    }
    fv_scope_end(ctx);
}

void fv_seq2seq_ready_to_write(fv_ctx *ctx, fv_seq2seq *m, int64_t tokens, bool screen)
{
    fv_seq2seq_ready *r = &m->ready;
    if (!refresh(m)) return;
    r->asked += tokens;
    const bool tabulate = !r->gates && r->asked >= m->cfg.target_tokens &&
                          table_fits(m->decoder.weights[0][0].input, m->cfg.target_tokens, 1);
    const bool narrow = screen && !r->screen && r->asked >= SCREEN_FROM;
    if (!tabulate && !narrow) return;
    fv_scope_begin(ctx);
    if (tabulate) r->gates = kept(ctx, fv_seq2seq_token_gates(ctx, m, m->target_embedding));
    if (narrow) r->screen = kept(ctx, fv_linear_prefilter(ctx, m->output, m->output_bias));
    fv_scope_end(ctx);
}
