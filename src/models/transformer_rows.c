/* Tokens and positions as passes read them, varlen or padded. */
#include <string.h>

#include "models/transformer.h"
#include "ops/draw.h"
#include "tensor/host_table.h"

/* ---- from the host ------------------------------------------------------------------ */

static bool measure(fv_ctx *ctx, const fv_sequences *s, int64_t *total, int64_t *longest)
{
    *total = *longest = 0;
    if (ctx->error != FV_OK) return false;
    for (int64_t i = 0; i < s->count; i++) {
        if (s->length[i] < 1 || s->length[i] > INT64_MAX / 2 - *total) {
            fv_poison(ctx, FV_ERR_ARGUMENT, "transformer: sequence %lld has %lld tokens",
                      (long long)i, (long long)s->length[i]);
            return false;
        }
        *total += s->length[i];
        if (s->length[i] > *longest) *longest = s->length[i];
    }
    if (s->count < 1) fv_poison(ctx, FV_ERR_ARGUMENT, "transformer: no sequences");
    return ctx->error == FV_OK;
}

/* i64 [1, total]: all lists, concatenated; without lists, the positions in each. */
static fv_tensor *joined(fv_ctx *ctx, const fv_sequences *s, const int64_t *const *lists,
                         int64_t total)
{
    const int64_t shape[2] = {1, total};
    int64_t *x = fv_host_alloc(ctx, FV_I64, 2, shape), at = 0;
    for (int64_t i = 0; x && i < s->count; at += s->length[i++])
        for (int64_t t = 0; t < s->length[i]; t++)
            x[at + t] = lists ? lists[i][t] : t;
    return fv_host_tensor(ctx, FV_I64, x, 2, shape, FV_I64);
}

fv_token_rows fv_token_rows_varlen(fv_ctx *ctx, const fv_sequences *s)
{
    fv_token_rows rows = {.ids = ctx->invalid};
    int64_t total;
    if (!measure(ctx, s, &total, &rows.longest)) return rows;
    rows.ids = joined(ctx, s, s->tokens, total);
    if (s->types) rows.types = joined(ctx, s, s->types, total);
    if (s->count == 1) return rows;
    rows.positions = joined(ctx, s, NULL, total);
    const int64_t shape[1] = {s->count + 1};
    int64_t *begin = fv_host_alloc(ctx, FV_I64, 1, shape), at = 0;
    for (int64_t i = 0; begin && i <= s->count; i++) {
        begin[i] = at;
        if (i < s->count) at += s->length[i];
    }
    rows.begin = fv_host_tensor(ctx, FV_I64, begin, 1, shape, FV_I64);
    rows.numbers = fv_draw_numbers_of(ctx, s->count, s->length);
    return rows;
}

/* i64 [count, longest], filled with `rest`. */
static fv_tensor *rectangle(fv_ctx *ctx, const fv_sequences *s, const int64_t *const *lists,
                            int64_t longest, int64_t rest)
{
    const int64_t shape[2] = {s->count, longest};
    int64_t *x = fv_host_alloc(ctx, FV_I64, 2, shape);
    for (int64_t i = 0; x && i < s->count; i++)
        for (int64_t t = 0; t < longest; t++)
            x[i * longest + t] = t >= s->length[i] ? rest : lists ? lists[i][t] : 1;
    return fv_host_tensor(ctx, FV_I64, x, 2, shape, FV_I64);
}

fv_token_rows fv_token_rows_pad(fv_ctx *ctx, const fv_sequences *s, int64_t pad)
{
    fv_token_rows rows = {.ids = ctx->invalid};
    int64_t total;
    if (!measure(ctx, s, &total, &rows.longest)) return rows;
    rows.ids = rectangle(ctx, s, s->tokens, rows.longest, pad < 0 ? 0 : pad);
    if (s->types) rows.types = rectangle(ctx, s, s->types, rows.longest, 0);
    if (total < s->count * rows.longest) rows.mask = rectangle(ctx, s, NULL, rows.longest, 0);
    return rows;
}

/* Distances need one document per row. */
static bool is_relative(const fv_transformer_config *c)
{
    return c->positions == FV_POSITION_RELATIVE || fv_has_distance_vectors(c);
}

fv_token_rows fv_transformer_rows(fv_ctx *ctx, const fv_transformer *model, const fv_sequences *s)
{
    return is_relative(&model->cfg) ? fv_token_rows_pad(ctx, s, model->cfg.pad)
                                    : fv_token_rows_varlen(ctx, s);
}

/* ---- checks ------------------------------------------------------------------------- */

static bool fits(fv_ctx *ctx, const fv_tensor *ids, const fv_tensor *t, const char *what)
{
    if (!t || fv_shape_equal(2, ids->shape, t->rank, t->shape)) return true;
    char a[FV_SHAPE_TEXT], b[FV_SHAPE_TEXT];
    fv_poison(ctx, FV_ERR_SHAPE, "transformer: %s has shape %s, expected %s as the ids", what,
              fv_shape_text(a, t->rank, t->shape), fv_shape_text(b, 2, ids->shape));
    return false;
}

bool fv_token_rows_check(fv_ctx *ctx, const fv_transformer *m, const fv_token_rows *rows)
{
    if (ctx->error != FV_OK) return false;
    const fv_tensor *ids = rows->ids;
    if (!ids || ids->rank != 2 || ids->dtype != FV_I64 || ids->count == 0) {
        fv_poison(ctx, FV_ERR_SHAPE, "transformer: ids must be i64 [batch, n] and not empty");
        return false;
    }
    if (!fits(ctx, ids, rows->types, "types") || !fits(ctx, ids, rows->positions, "positions") ||
        !fits(ctx, ids, rows->mask, "a mask"))
        return false;
    if (rows->begin && (ids->shape[0] != 1 || rows->mask)) {
        fv_poison(ctx, FV_ERR_SHAPE, "transformer: varlen documents need one row and no mask");
        return false;
    }
    if (rows->begin && is_relative(&m->cfg)) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "transformer: relative positions need padded rows");
        return false;
    }
    const int64_t longest = rows->begin ? rows->longest : ids->shape[1];
    if (longest > fv_context_of(&m->cfg)) {
        fv_poison(ctx, FV_ERR_LIMIT, "transformer: %lld tokens, but the model has %lld positions",
                  (long long)longest, (long long)fv_context_of(&m->cfg));
        return false;
    }
    return true;
}

int64_t fv_token_rows_documents(const fv_token_rows *rows)
{
    return rows->begin ? rows->begin->shape[0] - 1 : rows->ids->shape[0];
}

fv_tensor *fv_token_rows_visible(fv_ctx *ctx, const fv_token_rows *rows)
{
    if (!rows->mask || ctx->error != FV_OK) return NULL;
    const int64_t *size = rows->mask->shape;
    fv_tensor *zero = fv_zeros(ctx, rows->mask->dtype, 0, NULL);
    return fv_reshape(ctx, fv_ne(ctx, rows->mask, zero), 4, (int64_t[]){size[0], 1, 1, size[1]});
}

/* ---- positions ---------------------------------------------------------------------- */

/*
 * RoBERTa's rule: the k-th token of a document that is not pad reads row offset + k of the table,
 * k from 0, and pad reads row offset - 1, which learns nothing. Positions of the caller's own stay
 * as they are.
 */
static fv_tensor *rows_without_pad(fv_ctx *ctx, const fv_transformer *m, const fv_token_rows *rows)
{
    const int64_t n = rows->ids->shape[1];
    fv_tensor *pad = fv_scalar(ctx, FV_I64, (double)m->cfg.pad);
    fv_tensor *real = fv_cast(ctx, fv_ne(ctx, rows->ids, pad), FV_F64);
    fv_tensor *count = fv_cumsum(ctx, real, 1);
    if (rows->begin) { /* subtract what earlier documents have */
        fv_tensor *before = fv_reshape(ctx, fv_sub(ctx, count, real), 1, &n);
        int64_t *x = fv_host_alloc(ctx, FV_I64, 1, &n);
        for (int64_t i = 0; x && i < n; i++)
            x[i] = i;
        fv_tensor *column = fv_host_tensor(ctx, FV_I64, x, 1, &n, FV_I64);
        fv_tensor *first = fv_sub(ctx, column, fv_reshape(ctx, rows->positions, 1, &n));
        count = fv_sub(ctx, count, fv_index_select(ctx, before, first, 0));
    }
    fv_tensor *offset = fv_scalar(ctx, FV_F64, (double)(m->cfg.position_offset - 1));
    return fv_cast(ctx, fv_add(ctx, fv_mul(ctx, count, real), offset), FV_I64);
}

/* Rows for tokens: of a table from `first` on, or those that `positions` names. */
static fv_tensor *rows_of_table(fv_ctx *ctx, const fv_transformer *m, fv_tensor *table,
                                const fv_token_rows *rows, int64_t first, fv_dtype dtype)
{
    const int64_t offset = table ? m->cfg.position_offset : 0;
    const int64_t n = rows->ids->shape[1];
    if (table && m->cfg.positions_skip_pad && (rows->begin || !rows->positions))
        return fv_embedding(ctx, table, rows_without_pad(ctx, m, rows), offset - 1);
    if (!rows->positions) {
        if (table) return fv_positions_learned(ctx, table, first + offset, n);
        return fv_position_rows(ctx, m, FV_TABLE_SINUSOID, dtype, first, n);
    }
    fv_tensor *index = rows->positions;
    if (offset) index = fv_add(ctx, index, fv_scalar(ctx, FV_I64, (double)offset));
    if (!table) table = fv_position_rows(ctx, m, FV_TABLE_SINUSOID, dtype, 0, rows->longest);
    return fv_embedding(ctx, table, index, -1);
}

/* ---- embedding ---------------------------------------------------------------------- */

fv_tensor *fv_side_embed(fv_ctx *ctx, const fv_transformer *m, const fv_side *side,
                         const fv_token_rows *rows, int64_t first, bool training)
{
    const fv_transformer_config *c = &m->cfg;
    const int64_t pad = fv_family_names_of(c->family)->pad_learns ? -1 : c->pad;
    fv_tensor *x = fv_embedding(ctx, side->embedding, rows->ids, pad);
    if (c->scale_embedding) x = fv_scale(ctx, x, sqrt((double)c->width));
    if (side->types) {
        fv_tensor *types = rows->types ? fv_embedding(ctx, side->types, rows->types, -1)
                                       : fv_slice(ctx, side->types, 0, 0, 1, 1);
        x = fv_add(ctx, x, types);
    }
    if (c->positions == FV_POSITION_LEARNED || c->positions == FV_POSITION_SINUSOID)
        x = fv_add(ctx, x,
                   rows_of_table(ctx, m, side->positions, rows, first, fv_wide_dtype(x->dtype)));
    if (side->embedding_norm.weight) x = fv_norm_layer_run(ctx, &side->embedding_norm, x);
    return training ? fv_dropout(ctx, x, c->dropout) : x;
}
