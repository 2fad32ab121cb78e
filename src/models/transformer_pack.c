/* Freezes a model for inference: every large matrix becomes GEMM panels. */
#include "fovea/transformer.h"
#include "models/transformer.h"

static fv_status pack(fv_ctx *ctx, fv_tensor *weight, fv_weight_form form)
{
    if (!weight || (weight->flags & FV_TENSOR_PACKED_ONLY))
        return FV_OK; /* shared ones come twice */
    return fv_linear_pack_in_place(ctx, weight, form);
}

static fv_status freeze_heads(fv_ctx *ctx, const fv_mha *h, fv_weight_form form)
{
    const fv_dense *const parts[] = {&h->q, &h->k, &h->v, &h->qkv, &h->out};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        FV_TRY(pack(ctx, parts[i]->weight, form));
    return FV_OK;
}

static fv_status freeze_side(fv_ctx *ctx, const fv_side *s, fv_weight_form form)
{
    for (int64_t i = 0; i < s->layers; i++) {
        const fv_block *b = &s->blocks[i];
        FV_TRY(freeze_heads(ctx, &b->self, form));
        if (b->cfg.cross.heads > 0) FV_TRY(freeze_heads(ctx, &b->cross, form));
        FV_TRY(pack(ctx, b->ff.up.weight, form));
        FV_TRY(pack(ctx, b->ff.gate.weight, form));
        FV_TRY(pack(ctx, b->ff.down.weight, form));
    }
    return s->layers > 0 ? pack(ctx, s->embedding, form) : FV_OK;
}

fv_status fv_transformer_pack(fv_transformer *m, fv_weight_form form)
{
    fv_ctx *ctx = m->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    const fv_tensor *first = m->decoder.layers ? m->decoder.embedding : m->encoder.embedding;
    FV_RETURN_IF(first->flags & FV_TENSOR_PACKED_ONLY, ctx, FV_ERR_STATE,
                 "transformer: the weights are packed already");
    FV_TRY(freeze_side(ctx, &m->encoder, form));
    FV_TRY(freeze_side(ctx, &m->decoder, form));
    FV_TRY(pack(ctx, m->logits, form));
    FV_TRY(pack(ctx, m->words_dense.weight, form));
    FV_TRY(pack(ctx, m->pooler.weight, form));
    fv_ctx_memory_trim(ctx); /* the bytes saved */
    return FV_OK;
}
