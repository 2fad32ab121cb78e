/* The encoder: tokens to a memory of states that the decoder attends to. */
#include "models/seq2seq.h"
#include "nn/recurrent.h"

/* Where step t of a sequence is read when it is fed from its end: an index over varlen rows that is
 * its own inverse. */
static fv_tensor *from_the_end(fv_ctx *ctx, const fv_varlen *p)
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

/* The last states of the top layer, both directions joined. */
static fv_tensor *summary_of(fv_ctx *ctx, const fv_seq2seq *m, const fv_rnn_state *last)
{
    const int top = m->cfg.layers - 1;
    if (!m->cfg.bidirectional) return last->h[top][0];
    return fv_concat(ctx, 2, (fv_tensor *[]){last->h[top][0], last->h[top][1]}, 1);
}

/* The states of every source token, from looked-up gates where they are ready. */
static fv_tensor *read_tokens(fv_ctx *ctx, const fv_seq2seq *m, fv_tensor *tokens,
                              const fv_varlen *p, bool training, fv_rnn_state *last)
{
    const fv_seq2seq_config *c = &m->cfg;
    fv_tensor *turned = c->reverse_source ? from_the_end(ctx, p) : NULL, *gates[2] = {NULL}, *h;
    const bool ready = !training && ctx->no_grad > 0 && fv_seq2seq_reads_tables(m);
    if (turned) tokens = fv_index_select(ctx, tokens, 0, turned);
    if (ready) {
        for (int d = 0; d <= c->bidirectional; d++)
            gates[d] = fv_embedding(ctx, m->ready.source[d], tokens, -1);
        h = fv_rnn_run_gates(ctx, &m->encoder, gates, p, last);
    } else {
        fv_tensor *x = fv_embedding(ctx, m->source_embedding, tokens, -1);
        if (training) x = fv_dropout(ctx, x, c->dropout);
        h = fv_rnn_run(ctx, &m->encoder, x, p, NULL, training, last);
    }
    return turned ? fv_index_select(ctx, h, 0, turned) : h;
}

fv_memory fv_seq2seq_encode(fv_ctx *ctx, const fv_seq2seq *m, const fv_token_pairs *batch,
                            const fv_varlen *p, const int64_t *order, bool training)
{
    const fv_seq2seq_config *c = &m->cfg;
    fv_memory memory = {.positions = p->steps};
    fv_tensor *tokens = fv_varlen_tokens(ctx, p, batch->source);
    fv_rnn_state last;
    fv_tensor *h = read_tokens(ctx, m, tokens, p, training, &last);
    if (ctx->error != FV_OK) return memory;
    memory.summary = summary_of(ctx, m, &last);
    if (order)
        memory.summary = fv_index_select(ctx, memory.summary, 0,
                                         fv_from_host(ctx, FV_I64, 1, &p->sequences, order));
    memory.lengths = fv_varlen_lengths(ctx, p, order);
    if (c->decoder == FV_DECODER_FIXED) return memory;
    memory.v = fv_unsqueeze(ctx, fv_varlen_pad(ctx, h, p, order), 1);
    memory.k = memory.v;
    if (m->w_k) {
        /* Projected once for all decoder steps, and without the padding. */
        fv_tensor *keys = fv_linear(ctx, h, m->w_k, NULL);
        memory.k = fv_unsqueeze(ctx, fv_varlen_pad(ctx, keys, p, order), 1);
    }
    return memory;
}

static fv_tensor *some_rows(fv_ctx *ctx, fv_tensor *t, int64_t n, fv_tensor *index)
{
    if (!t) return NULL;
    return index ? fv_index_select(ctx, t, 0, index) : fv_slice(ctx, t, 0, 0, n, 1);
}

fv_memory fv_memory_rows(fv_ctx *ctx, const fv_memory *memory, int64_t n, fv_tensor *index)
{
    fv_memory out = {.positions = memory->positions};
    out.v = some_rows(ctx, memory->v, n, index);
    out.k = memory->k == memory->v ? out.v : some_rows(ctx, memory->k, n, index);
    out.lengths = some_rows(ctx, memory->lengths, n, index);
    out.summary = some_rows(ctx, memory->summary, n, index);
    return out;
}
