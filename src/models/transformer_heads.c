/* Heads on top of the last states. */
#include "models/transformer.h"

#include "ops/product.h"
#include "tensor/host_table.h"

/* norm(act(dense(x))), before the logits of masked tokens. */
static fv_tensor *transformed(fv_ctx *ctx, const fv_transformer *m, fv_tensor *x)
{
    const fv_dense *dense = &m->words_dense;
    const fv_act act = m->cfg.mlm_act == FV_ACT_NONE ? m->cfg.act : m->cfg.mlm_act;
    x = fv_linear_act(ctx, x, dense->weight, dense->bias, act, NULL);
    return fv_norm_layer_run(ctx, &m->words_norm, x);
}

fv_tensor *fv_transformer_logits(fv_ctx *ctx, const fv_transformer *model, fv_tensor *states)
{
    if (ctx->error == FV_OK && !model->logits)
        fv_poison(ctx, FV_ERR_ARGUMENT, "transformer: the model has no masked-language-model head");
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *x = model->words_dense.weight ? transformed(ctx, model, states) : states;
    if (model->cfg.logits_scale != 1) x = fv_scale(ctx, x, model->cfg.logits_scale);
    fv_tensor *bias = model->logits_bias;
    if (bias && bias->rank == 2) bias = fv_reshape(ctx, bias, 1, (int64_t[]){-1});
    /* Panels are for running: the likeliest token is found among numbers of 24 bits, not 8. */
    const bool runs = ctx->error == FV_OK && fv_weight_packed(model->logits);
    return (runs ? fv_linear_wide : fv_linear)(ctx, x, model->logits, bias);
}

/* ---- one state a document ------------------------------------------------------------ */

/* The first state of each document; of varlen ones at `begin`. */
static fv_tensor *first_states(fv_ctx *ctx, const fv_token_rows *rows, fv_tensor *states)
{
    const int64_t width = states->shape[2];
    if (!rows->begin)
        return fv_reshape(ctx, fv_slice(ctx, states, 1, 0, 1, 1), 2, (int64_t[]){-1, width});
    fv_tensor *begin = fv_slice(ctx, rows->begin, 0, 0, fv_token_rows_documents(rows), 1);
    return fv_index_select(ctx, fv_reshape(ctx, states, 2, (int64_t[]){-1, width}), begin, 0);
}

/* f32 [documents, columns]: 1 where a column belongs to a varlen document. */
static fv_tensor *membership(fv_ctx *ctx, const fv_token_rows *rows)
{
    const int64_t n = rows->ids->shape[1], documents = fv_token_rows_documents(rows);
    const int64_t shape[2] = {1, n};
    int64_t *x = fv_host_alloc(ctx, FV_I64, 2, shape);
    for (int64_t i = 0; x && i < n; i++)
        x[i] = i;
    fv_tensor *column = fv_host_tensor(ctx, FV_I64, x, 2, shape, FV_I64);
    fv_tensor *from = fv_unsqueeze(ctx, fv_slice(ctx, rows->begin, 0, 0, documents, 1), 1);
    fv_tensor *to = fv_unsqueeze(ctx, fv_slice(ctx, rows->begin, 0, 1, documents + 1, 1), 1);
    fv_tensor *in = fv_cast(ctx, fv_ge(ctx, column, from), FV_F32);
    return fv_mul(ctx, in, fv_cast(ctx, fv_lt(ctx, column, to), FV_F32));
}

/* Weighted sums over the columns, as one product for all documents. Other columns are added as
 * zeros, so that a mean has the same bits alone, varlen or padded. */
static fv_tensor *mean_states(fv_ctx *ctx, const fv_token_rows *rows, fv_tensor *states)
{
    const int64_t batch = states->shape[0], n = states->shape[1], width = states->shape[2];
    fv_tensor *part = rows->begin  ? membership(ctx, rows)
                      : rows->mask ? fv_cast(ctx, fv_token_rows_visible(ctx, rows), FV_F32)
                                   : fv_full(ctx, FV_F32, 2, (int64_t[]){batch, n}, 1);
    part = fv_reshape(ctx, part, 3, (int64_t[]){batch, -1, n});
    fv_tensor *count = fv_sum(ctx, part, 1, (int[]){2}, true);
    fv_tensor *sums = fv_matmul(ctx, part, states);
    fv_tensor *one = fv_scalar(ctx, FV_F32, 1); /* a document that is fully masked: zeros */
    return fv_reshape(ctx, fv_div(ctx, sums, fv_maximum(ctx, count, one)), 2,
                      (int64_t[]){-1, width});
}

static bool belong(fv_ctx *ctx, const fv_token_rows *rows, const fv_tensor *states)
{
    if (ctx->error != FV_OK) return false;
    if (states->rank == 3 && states->shape[0] == rows->ids->shape[0] &&
        states->shape[1] == rows->ids->shape[1])
        return true;
    char text[FV_SHAPE_TEXT];
    fv_poison(ctx, FV_ERR_SHAPE, "transformer: states %s do not belong to these rows",
              fv_shape_text(text, states->rank, states->shape));
    return false;
}

fv_tensor *fv_transformer_pool(fv_ctx *ctx, const fv_token_rows *rows, fv_tensor *states,
                               fv_pooling pooling)
{
    if (!belong(ctx, rows, states)) return ctx->invalid;
    return pooling == FV_POOLING_MEAN ? mean_states(ctx, rows, states)
                                      : first_states(ctx, rows, states);
}

static bool has(fv_ctx *ctx, const fv_dense *head, const char *what)
{
    if (ctx->error == FV_OK && !head->weight)
        fv_poison(ctx, FV_ERR_ARGUMENT, "transformer: the model has no %s", what);
    return ctx->error == FV_OK;
}

fv_tensor *fv_transformer_pooled(fv_ctx *ctx, const fv_transformer *model,
                                 const fv_token_rows *rows, fv_tensor *states)
{
    if (!has(ctx, &model->pooler, "pooler")) return ctx->invalid;
    fv_tensor *first = fv_transformer_pool(ctx, rows, states, FV_POOLING_FIRST);
    return fv_linear_act(ctx, first, model->pooler.weight, model->pooler.bias, FV_ACT_TANH, NULL);
}

/* What the classes are computed from: each token's state, or one vector for each document. */
static fv_tensor *label_input(fv_ctx *ctx, const fv_transformer *m, const fv_token_rows *rows,
                              fv_tensor *states)
{
    if (m->cfg.label_tokens) return states;
    if (!m->cfg.label_dense) return fv_transformer_pooled(ctx, m, rows, states);
    fv_tensor *first = fv_transformer_pool(ctx, rows, states, FV_POOLING_FIRST);
    return fv_linear_act(ctx, first, m->labels_dense.weight, m->labels_dense.bias, m->cfg.label_act,
                         NULL);
}

fv_tensor *fv_transformer_labels(fv_ctx *ctx, const fv_transformer *model,
                                 const fv_token_rows *rows, fv_tensor *states, const fv_pass *pass)
{
    if (!has(ctx, &model->labels, "classes")) return ctx->invalid;
    fv_tensor *x = label_input(ctx, model, rows, states);
    if (pass && pass->training) x = fv_dropout(ctx, x, model->cfg.label_dropout);
    return fv_dense_run(ctx, &model->labels, x);
}

fv_tensor *fv_transformer_spans(fv_ctx *ctx, const fv_transformer *model, fv_tensor *states)
{
    if (!has(ctx, &model->spans, "head for spans")) return ctx->invalid;
    return fv_dense_run(ctx, &model->spans, states);
}

fv_tensor *fv_transformer_next_sentence(fv_ctx *ctx, const fv_transformer *model,
                                        const fv_token_rows *rows, fv_tensor *states)
{
    if (!has(ctx, &model->next_sentence, "head for next sentences")) return ctx->invalid;
    return fv_dense_run(ctx, &model->next_sentence,
                        fv_transformer_pooled(ctx, model, rows, states));
}
