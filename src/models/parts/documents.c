#include "models/parts/documents.h"

#include <string.h>

#include "base/checked_math.h"

static size_t index_count(const fv_documents *d)
{
    return (size_t)d->packed.sequences + 1 + (size_t)d->packed.total;
}

static void free_documents(fv_documents *d)
{
    if (d->begin) fv_mem_free(&d->packed.ctx->mem, d->begin, index_count(d) * sizeof *d->begin);
    fv_packed_free(&d->packed);
}

static void number_rows(fv_documents *d)
{
    const fv_packed_sequences *p = &d->packed;
    d->order = d->begin + p->sequences + 1;
    d->begin[0] = 0;
    for (int64_t i = 0; i < p->sequences; i++)
        d->begin[i + 1] = d->begin[i] + d->field->length[i];
    for (int64_t t = 0; t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++)
            d->order[p->first[t] + i] = d->begin[p->order[i]] + t;
}

static fv_status make_documents(fv_ctx *ctx, const fv_batch *batch, int64_t vector, fv_documents *d)
{
    const fv_field *field = fv_batch_find(batch, "source");
    *d = (fv_documents){.field = field, .packed = {.ctx = ctx}};
    FV_RETURN_IF(!field || !field->length, ctx, FV_ERR_ARGUMENT,
                 "encoder: the batch has no sequences \"source\"");
    const bool tokens = field->rank == 0 && field->dtype == FV_I64;
    const bool vectors = field->rank == 1 && field->dtype == FV_F32 && field->shape[0] == vector;
    FV_RETURN_IF(!tokens && !vectors, ctx, FV_ERR_ARGUMENT,
                 "encoder: \"source\" must hold tokens, or vectors of width %lld (f32)",
                 (long long)vector);
    if (batch->rows == 0) return FV_OK;
    FV_TRY(fv_pack_sequences(ctx, batch->rows, field->length, &d->packed));
    d->begin = fv_mem_alloc(&ctx->mem, index_count(d) * sizeof *d->begin);
    FV_RETURN_IF(!d->begin, ctx, FV_ERR_MEMORY, "no memory for %lld entries",
                 (long long)d->packed.total);
    number_rows(d);
    return FV_OK;
}

/* All entries of the field, [total] or [total, width]. */
static fv_tensor *entries(fv_ctx *ctx, const fv_documents *d)
{
    const fv_field *f = d->field;
    const int64_t shape[] = {d->packed.total, f->rank ? f->shape[0] : 1};
    size_t one = fv_dtype_size(f->dtype), bytes = 0;
    char *all = NULL;
    if (fv_checked_mul_size(one, (size_t)shape[1], &one) &&
        fv_checked_mul_size(one, (size_t)shape[0], &bytes))
        all = fv_mem_alloc(&ctx->mem, bytes);
    if (!all) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld entries", (long long)shape[0]);
        return ctx->invalid;
    }
    for (int64_t i = 0; i < d->packed.sequences; i++)
        memcpy(all + (size_t)d->begin[i] * one, f->row[i], (size_t)f->length[i] * one);
    fv_tensor *t = fv_from_host(ctx, f->dtype, 1 + f->rank, shape, all);
    fv_mem_free(&ctx->mem, all, bytes);
    return t;
}

fv_tensor *fv_documents_embed(fv_ctx *ctx, const fv_documents *d, fv_tensor *embedding)
{
    fv_tensor *x = entries(ctx, d);
    return d->field->rank == 0 ? fv_embedding(ctx, embedding, x, -1) : x;
}

fv_tensor *fv_documents_places(fv_ctx *ctx, const fv_documents *d)
{
    const int64_t total = d->packed.total;
    const size_t bytes = (size_t)total * sizeof(int64_t);
    int64_t *place = fv_mem_alloc(&ctx->mem, bytes);
    if (!place) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld entries", (long long)total);
        return ctx->invalid;
    }
    for (int64_t i = 0; i < d->packed.sequences; i++)
        for (int64_t at = d->begin[i]; at < d->begin[i + 1]; at++)
            place[at] = at - d->begin[i];
    fv_tensor *t = fv_from_host(ctx, FV_I64, 1, &total, place);
    fv_mem_free(&ctx->mem, place, bytes);
    return t;
}

/* x [total, width] in the order of the packed rows. */
static fv_tensor *pack(fv_ctx *ctx, const fv_documents *d, fv_tensor *x)
{
    return fv_index_select(ctx, x, fv_from_host(ctx, FV_I64, 1, &d->packed.total, d->order), 0);
}

fv_status fv_documents_encode(fv_ctx *ctx, int64_t vector, fv_documents_run run,
                              const void *encoder, const fv_batch *batch,
                              const fv_encode_call *call, fv_memory *out)
{
    fv_documents d;
    const fv_packed_sequences *p = &d.packed;
    *out = (fv_memory){.n = 0};
    fv_status status = make_documents(ctx, batch, vector, &d);
    if (status == FV_OK && p->sequences > 0) {
        fv_tensor *h = pack(ctx, &d, run(ctx, encoder, &d, call->training));
        out->summary = fv_packed_pool(ctx, p, h, FV_POOL_MEAN);
        if (call->order)
            out->summary = fv_index_select(
                ctx, out->summary, fv_from_host(ctx, FV_I64, 1, &p->sequences, call->order), 0);
        fv_memory_from_packed(ctx, h, p, call, out);
        status = ctx->error;
    }
    free_documents(&d);
    return status;
}
