/* Losses (chosen by the fields of a batch), heads, and passes for capture. */
#include <stdio.h>

#include "fovea/ops.h"
#include "models/kind_transformer.h"
#include "tensor/host_table.h"

/* ---- an encoder's pass ------------------------------------------------------------------------
 */

typedef struct encoded {
    fv_sequences texts;
    fv_token_rows rows;
    fv_tensor *states;
} encoded;

static encoded encode(fv_ctx *ctx, const fv_transformer *m, const fv_batch *batch,
                      const fv_pass *pass)
{
    encoded e = {.texts = fv_batch_sequences(batch, "tokens")};
    if (m->cfg.types < 2) e.texts.types = NULL; /* a tokenizer may tell texts apart all the same */
    e.rows = fv_token_rows_varlen(ctx, &e.texts);
    e.states = fv_transformer_encode(ctx, m, &e.rows, pass);
    return e;
}

/* ---- losses --------------------------------------------------------------------------------- */

static fv_tensor *class_loss(fv_ctx *ctx, const fv_batch *batch, const char *field,
                             fv_tensor *logits)
{
    fv_tensor *wanted = fv_batch_tensor(ctx, batch, field, NULL);
    return fv_cross_entropy(ctx, logits, wanted, -1, 0, FV_REDUCTION_SUM);
}

/* Masked tokens, and next sentences with the weight of their field. */
static fv_tensor *masked_loss(fv_ctx *ctx, const fv_transformer *m, const fv_batch *batch,
                              const fv_pass *pass)
{
    const encoded e = encode(ctx, m, batch, pass);
    const fv_field *masked = fv_batch_find(batch, "masked"),
                   *next = fv_batch_find(batch, "next_sentence");
    fv_tensor *words = fv_transformer_mlm_loss(ctx, m, &e.texts, &e.rows, e.states,
                                               (const int64_t *const *)masked->row, pass);
    if (!next) return words;
    fv_tensor *logits = fv_transformer_next_sentence(ctx, m, &e.rows, e.states);
    fv_tensor *pairs = class_loss(ctx, batch, "next_sentence", logits);
    return fv_add(ctx, words, fv_scale(ctx, pairs, next->weight));
}

static fv_tensor *label_loss(fv_ctx *ctx, const fv_transformer *m, const fv_batch *batch,
                             const fv_pass *pass)
{
    const encoded e = encode(ctx, m, batch, pass);
    return class_loss(ctx, batch, "label", fv_transformer_labels(ctx, m, &e.rows, e.states, pass));
}

fv_tensor *fv_transformer_kind_loss(fv_ctx *ctx, void *self, const fv_batch *batch,
                                    const fv_pass *pass)
{
    const fv_transformer *m = ((const fv_transformer_self *)self)->model;
    if (pass && pass->sampling > 0) {
        fv_poison(ctx, FV_ERR_UNSUPPORTED,
                  "a Transformer reads the whole target at once: no scheduled sampling");
        return ctx->invalid;
    }
    if (fv_batch_find(batch, "source")) return fv_transformer_pair_loss(ctx, m, batch, pass);
    if (fv_batch_find(batch, "masked")) return masked_loss(ctx, m, batch, pass);
    if (fv_batch_find(batch, "label")) return label_loss(ctx, m, batch, pass);
    const fv_sequences texts = fv_batch_sequences(batch, "tokens");
    return fv_transformer_lm_loss(ctx, m, &texts, pass);
}

/* ---- heads ---------------------------------------------------------------------------------- */

fv_tensor *fv_transformer_kind_classify(fv_ctx *ctx, void *self, const fv_batch *inputs,
                                        const fv_pass *pass)
{
    const fv_transformer *m = ((const fv_transformer_self *)self)->model;
    const encoded e = encode(ctx, m, inputs, pass);
    if (m->cfg.labels == 0 && m->cfg.next_sentence)
        return fv_transformer_next_sentence(ctx, m, &e.rows, e.states);
    return fv_transformer_labels(ctx, m, &e.rows, e.states, pass);
}

fv_tensor *fv_transformer_kind_fill(fv_ctx *ctx, void *self, const fv_batch *inputs,
                                    const fv_pass *pass)
{
    const fv_transformer *m = ((const fv_transformer_self *)self)->model;
    const fv_field *field = fv_batch_find(inputs, "positions");
    const fv_sequences at = fv_batch_sequences(inputs, "positions");
    if (!field || !at.length || at.count == 0) {
        if (ctx->error == FV_OK)
            fv_poison(ctx, FV_ERR_ARGUMENT, "fill: the batch has no field 'positions'");
        return ctx->invalid;
    }
    const encoded e = encode(ctx, m, inputs, pass);
    int64_t total = 0, first = 0, n = 0;
    for (int64_t i = 0; i < at.count; i++)
        total += at.length[i];
    int64_t *place = fv_host_alloc(ctx, FV_I64, 1, &total);
    for (int64_t i = 0; place && i < at.count; first += e.texts.length[i++])
        for (int64_t j = 0; j < at.length[i]; j++)
            place[n++] = first + at.tokens[i][j];
    fv_tensor *index = fv_host_tensor(ctx, FV_I64, place, 1, &total, FV_I64);
    fv_tensor *flat = fv_reshape(ctx, e.states, 2, (int64_t[]){-1, m->cfg.width});
    return fv_transformer_logits(ctx, m, fv_index_select(ctx, flat, index, 0));
}

fv_tensor *fv_transformer_kind_embed(fv_ctx *ctx, void *self, const fv_batch *inputs,
                                     const fv_embedding_rule *rule)
{
    const fv_transformer *m = ((const fv_transformer_self *)self)->model;
    const fv_embedding_rule mean = {.pooling = FV_POOLING_MEAN};
    const encoded e = encode(ctx, m, inputs, NULL);
    return fv_embed(ctx, &e.rows, e.states, rule ? rule : &mean);
}

fv_tensor *fv_transformer_kind_spans(fv_ctx *ctx, void *self, const fv_batch *inputs,
                                     const fv_pass *pass)
{
    const fv_transformer *m = ((const fv_transformer_self *)self)->model;
    const encoded e = encode(ctx, m, inputs, pass);
    return fv_transformer_spans(ctx, m, e.states);
}

/* ---- attention --------------------------------------------------------------------------------
 */

static int add_site(fv_site *out, int room, int at, const char *side, int64_t layer,
                    const char *what, int64_t heads)
{
    if (at < room) {
        out[at] = (fv_site){.heads = heads};
        snprintf(out[at].name, sizeof out[at].name, "%s.%lld.%s", side, (long long)layer, what);
    }
    return at + 1;
}

int fv_transformer_kind_sites(const void *self, fv_site *out, int room)
{
    const fv_transformer_config *c =
        fv_transformer_settings(((const fv_transformer_self *)self)->model);
    int n = 0;
    for (int64_t i = 0; i < c->encoder_layers; i++)
        n = add_site(out, room, n, "encoder", i, "self", c->heads);
    for (int64_t i = 0; i < c->decoder_layers; i++) {
        n = add_site(out, room, n, "decoder", i, "self", c->decoder_heads);
        if (c->encoder_layers > 0)
            n = add_site(out, room, n, "decoder", i, "cross", c->decoder_heads);
    }
    return n;
}

/* Reads "tokens"; encoder-decoders read "source" and "target", the target as the decoder is fed it.
 */
fv_status fv_transformer_kind_trace(fv_ctx *ctx, void *self, const fv_batch *batch,
                                    const fv_pass *pass)
{
    const fv_transformer *m = ((const fv_transformer_self *)self)->model;
    const bool both = m->cfg.encoder_layers > 0 && m->cfg.decoder_layers > 0;
    const fv_sequences first = fv_batch_sequences(batch, both ? "source" : "tokens"),
                       target = fv_batch_sequences(batch, "target");
    const fv_token_rows rows = fv_token_rows_varlen(ctx, &first);
    if (m->cfg.encoder_layers == 0) {
        fv_transformer_decode(ctx, m, &rows, NULL, NULL, pass);
        return ctx->error;
    }
    fv_tensor *memory = fv_transformer_encode(ctx, m, &rows, pass);
    if (both && target.count > 0) {
        const fv_token_rows fed = fv_token_rows_varlen(ctx, &target);
        fv_transformer_decode(ctx, m, &fed, memory, &rows, pass);
    }
    return ctx->error;
}
