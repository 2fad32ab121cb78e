/* Batches of named fields: host rows as a model reads them. */
#include "fovea/batch.h"

#include <string.h>

#include "base/checked_math.h"
#include "tensor/tensor.h"

void fv_batch_init(fv_batch *batch, int64_t rows) { *batch = (fv_batch){.rows = rows, .count = 0}; }

bool fv_batch_add(fv_batch *batch, fv_field field)
{
    if (batch->count == FV_BATCH_FIELDS || fv_batch_find(batch, field.name)) return false;
    if (field.weight == 0) field.weight = 1;
    batch->field[batch->count++] = field;
    return true;
}

const fv_field *fv_batch_find(const fv_batch *batch, const char *name)
{
    for (int i = 0; i < batch->count; i++)
        if (strcmp(batch->field[i].name, name) == 0) return &batch->field[i];
    return NULL;
}

/* ---- tensors ------------------------------------------------------------------------------ */

static int64_t entry_count(const fv_field *f, int64_t row)
{
    return f->length ? f->length[row] : 1;
}

static int64_t longest_row(const fv_field *f, int64_t rows)
{
    int64_t most = 0;
    for (int64_t i = 0; i < rows; i++)
        if (entry_count(f, i) > most) most = entry_count(f, i);
    return most;
}

/* Bytes of one entry; false: more than can be counted. */
static bool entry_bytes(const fv_field *f, size_t *out)
{
    size_t bytes = fv_dtype_size(f->dtype);
    for (int i = 0; i < f->rank; i++)
        if (!fv_checked_mul_size(bytes, (size_t)f->shape[i], &bytes)) return false;
    *out = bytes;
    return true;
}

static fv_tensor *padded(fv_ctx *ctx, const fv_field *f, int64_t rows)
{
    const int64_t longest = longest_row(f, rows);
    int64_t shape[FV_MAX_RANK] = {rows};
    int rank = 1;
    if (f->length) shape[rank++] = longest;
    for (int i = 0; i < f->rank; i++)
        shape[rank++] = f->shape[i];
    size_t entry = 0, row = 0, all = 0;
    if (!entry_bytes(f, &entry) || !fv_checked_mul_size(entry, (size_t)longest, &row) ||
        !fv_checked_mul_size(row, (size_t)rows, &all)) {
        fv_poison(ctx, FV_ERR_LIMIT, "batch: field '%.40s' is too large", f->name);
        return ctx->invalid;
    }
    char *room = fv_mem_zalloc(&ctx->mem, all ? all : 1);
    if (!room) {
        fv_poison(ctx, FV_ERR_MEMORY, "batch: no memory for field '%.40s'", f->name);
        return ctx->invalid;
    }
    for (int64_t i = 0; i < rows; i++)
        if (entry_count(f, i) > 0)
            memcpy(room + (size_t)i * row, f->row[i], (size_t)entry_count(f, i) * entry);
    fv_tensor *t = fv_from_host(ctx, f->dtype, rank, shape, room);
    fv_mem_free(&ctx->mem, room, all ? all : 1);
    return t;
}

static fv_tensor *lengths_of(fv_ctx *ctx, const fv_field *f, int64_t rows)
{
    if (f->length) return fv_from_host(ctx, FV_I64, 1, &rows, f->length);
    return fv_full(ctx, FV_I64, 1, &rows, 1);
}

fv_tensor *fv_batch_tensor(fv_ctx *ctx, const fv_batch *batch, const char *name,
                           fv_tensor **lengths)
{
    const fv_field *f = fv_batch_find(batch, name);
    if (ctx->error == FV_OK && (!f || f->rank < 0 || f->rank > FV_FIELD_RANK))
        fv_poison(ctx, FV_ERR_ARGUMENT, "batch: there is no field '%.40s'", name);
    if (ctx->error != FV_OK) return ctx->invalid;
    if (lengths) *lengths = lengths_of(ctx, f, batch->rows);
    return padded(ctx, f, batch->rows);
}

/* ---- token sequences ---------------------------------------------------------------------- */

static const int64_t *const *i64_rows(const fv_batch *batch, const char *name)
{
    const fv_field *f = fv_batch_find(batch, name);
    return f && f->dtype == FV_I64 && f->rank == 0 ? (const int64_t *const *)f->row : NULL;
}

fv_sequences fv_batch_sequences(const fv_batch *batch, const char *name)
{
    const int64_t *const *rows = i64_rows(batch, name);
    if (!rows) return (fv_sequences){.count = 0};
    return (fv_sequences){.count = batch->rows,
                          .tokens = rows,
                          .length = fv_batch_find(batch, name)->length,
                          .types = i64_rows(batch, "types")};
}

static void add_tokens(fv_batch *batch, const char *name, const int64_t *const *rows,
                       const int64_t *length)
{
    fv_batch_add(batch, (fv_field){.name = name,
                                   .dtype = FV_I64,
                                   .row = (const void *const *)rows,
                                   .length = length});
}

fv_batch fv_batch_of_tokens(const fv_sequences *tokens)
{
    fv_batch batch;
    fv_batch_init(&batch, tokens->count);
    add_tokens(&batch, "tokens", tokens->tokens, tokens->length);
    if (tokens->types) add_tokens(&batch, "types", tokens->types, tokens->length);
    return batch;
}

fv_batch fv_batch_of_pairs(const fv_sequences *source, const fv_sequences *target)
{
    fv_batch batch;
    fv_batch_init(&batch, source->count);
    add_tokens(&batch, "source", source->tokens, source->length);
    if (target) add_tokens(&batch, "target", target->tokens, target->length);
    return batch;
}

int64_t fv_batch_target_tokens(const fv_batch *batch)
{
    const fv_sequences target = fv_batch_sequences(batch, "target");
    int64_t n = target.count;
    for (int64_t i = 0; i < target.count; i++)
        n += target.length[i];
    return n;
}
