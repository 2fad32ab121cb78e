#include <math.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/ctx.h"
#include "fovea/ops.h"
#include "nn/packed_sequences.h"

/* ---- sorting by length ------------------------------------------------------------ */

static size_t count_numbers(const fv_packed_sequences *p)
{
    return 3 * (size_t)p->sequences + 2 * (size_t)p->steps;
}

/* Counting sort by length: stable, and its counts are the rows of each step. */
static void order_by_length(fv_packed_sequences *p, const int64_t *lengths)
{
    memset(p->rows, 0, (size_t)p->steps * sizeof *p->rows);
    for (int64_t i = 0; i < p->sequences; i++)
        p->rows[lengths[i] - 1]++;
    for (int64_t t = p->steps - 2; t >= 0; t--)
        p->rows[t] += p->rows[t + 1];
    /* rows[t]: sequences longer than t, so those of length t + 1 come after the longer ones. */
    int64_t *next = p->first;
    for (int64_t t = 0; t < p->steps; t++)
        next[t] = t + 1 < p->steps ? p->rows[t + 1] : 0;
    for (int64_t i = 0; i < p->sequences; i++) {
        const int64_t at = next[lengths[i] - 1]++;
        p->order[at] = i;
        p->rank[i] = at;
        p->length[at] = lengths[i];
    }
    p->total = 0;
    for (int64_t t = 0; t < p->steps; t++) {
        p->first[t] = p->total;
        p->total += p->rows[t];
    }
}

fv_status fv_pack_sequences(fv_ctx *ctx, int64_t sequences, const int64_t *lengths,
                            fv_packed_sequences *out)
{
    fv_packed_sequences p = {.ctx = ctx, .sequences = sequences};
    FV_RETURN_IF(sequences < 0, ctx, FV_ERR_ARGUMENT, "packed: %lld sequences",
                 (long long)sequences);
    for (int64_t i = 0; i < sequences; i++) {
        FV_RETURN_IF(lengths[i] < 1 || lengths[i] > INT32_MAX, ctx, FV_ERR_ARGUMENT,
                     "packed: sequence %lld has length %lld", (long long)i, (long long)lengths[i]);
        if (lengths[i] > p.steps) p.steps = lengths[i];
    }
    size_t bytes;
    int64_t *room = NULL;
    if (fv_checked_mul_size(count_numbers(&p), sizeof *room, &bytes))
        room = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "packed: no memory");
    p.length = room;
    p.order = p.length + sequences;
    p.rank = p.order + sequences;
    p.rows = p.rank + sequences;
    p.first = p.rows + p.steps;
    order_by_length(&p, lengths);
    *out = p;
    return FV_OK;
}

void fv_packed_free(fv_packed_sequences *p)
{
    if (p->length) fv_mem_free(&p->ctx->mem, p->length, count_numbers(p) * sizeof *p->length);
    *p = (fv_packed_sequences){.ctx = p->ctx};
}

/* ---- row order -------------------------------------------------------------------- */

/* An index tensor made on the host by `fill`; the invalid tensor if there is no memory. */
static fv_tensor *make_index(fv_ctx *ctx, const fv_packed_sequences *p, int64_t count,
                             void (*fill)(const fv_packed_sequences *p, const void *user,
                                          int64_t *out),
                             const void *user)
{
    const size_t bytes = (size_t)count * sizeof(int64_t);
    int64_t *host = fv_mem_alloc(&ctx->mem, bytes);
    if (!host) {
        fv_poison(ctx, FV_ERR_MEMORY, "packed: no memory for an index of %lld rows",
                  (long long)count);
        return ctx->invalid;
    }
    fill(p, user, host);
    fv_tensor *t = fv_from_host(ctx, FV_I64, 1, &count, host);
    fv_mem_free(&ctx->mem, host, bytes);
    return t;
}

static void fill_tokens(const fv_packed_sequences *p, const void *user, int64_t *out)
{
    const int64_t *const *tokens = user;
    for (int64_t t = 0; t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++)
            out[p->first[t] + i] = tokens[p->order[i]][t];
}

fv_tensor *fv_packed_tokens(fv_ctx *ctx, const fv_packed_sequences *p, const int64_t *const *tokens)
{
    return make_index(ctx, p, p->total, fill_tokens, tokens);
}

static void fill_numbers(const fv_packed_sequences *p, const void *user, int64_t *out)
{
    const fv_ctx *ctx = user;
    for (int64_t t = 0; t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++)
            out[p->first[t] + i] = (int64_t)((ctx->row_offset + (uint64_t)p->order[i]) << 32) | t;
}

fv_tensor *fv_packed_numbers(fv_ctx *ctx, const fv_packed_sequences *p)
{
    return make_index(ctx, p, p->total, fill_numbers, ctx);
}

static int64_t rank_in(const fv_packed_sequences *p, const int64_t *order, int64_t i)
{
    return p->rank[order ? order[i] : i];
}

static void fill_padded(const fv_packed_sequences *p, const void *order, int64_t *out)
{
    for (int64_t i = 0; i < p->sequences; i++)
        for (int64_t t = 0; t < p->steps; t++) {
            const int64_t at = rank_in(p, order, i);
            out[i * p->steps + t] = t < p->length[at] ? p->first[t] + at : 0;
        }
}

fv_tensor *fv_packed_pad(fv_ctx *ctx, const fv_packed_sequences *p, fv_tensor *x,
                         const int64_t *order)
{
    fv_tensor *index = make_index(ctx, p, p->sequences * p->steps, fill_padded, order);
    const int64_t shape[] = {p->sequences, p->steps, fv_tensor_size(x, -1)};
    return fv_reshape(ctx, fv_index_select(ctx, x, index, 0), 3, shape);
}

static void fill_lengths(const fv_packed_sequences *p, const void *order, int64_t *out)
{
    for (int64_t i = 0; i < p->sequences; i++)
        out[i] = p->length[rank_in(p, order, i)];
}

fv_tensor *fv_packed_lengths(fv_ctx *ctx, const fv_packed_sequences *p, const int64_t *order)
{
    return make_index(ctx, p, p->sequences, fill_lengths, order);
}

/* ---- pooling ---------------------------------------------------------------------- */

static void fill_last(const fv_packed_sequences *p, const void *user, int64_t *out)
{
    (void)user;
    for (int64_t i = 0; i < p->sequences; i++) {
        const int64_t at = p->rank[i];
        out[i] = p->first[p->length[at] - 1] + at;
    }
}

fv_tensor *fv_packed_padding_mask(fv_ctx *ctx, const fv_packed_sequences *p)
{
    fv_tensor *place = fv_cumsum(ctx, fv_full(ctx, FV_F32, 1, &p->steps, 1.0), 0);
    fv_tensor *length = fv_cast(ctx, fv_packed_lengths(ctx, p, NULL), FV_F32);
    return fv_gt(ctx, place, fv_unsqueeze(ctx, length, -1));
}

fv_tensor *fv_packed_pool(fv_ctx *ctx, const fv_packed_sequences *p, fv_tensor *x,
                          fv_pool_kind kind)
{
    if (kind == FV_POOL_LAST)
        return fv_index_select(ctx, x, make_index(ctx, p, p->sequences, fill_last, NULL), 0);
    fv_tensor *past = fv_unsqueeze(ctx, fv_packed_padding_mask(ctx, p), -1);
    const double hidden = kind == FV_POOL_MAX ? -INFINITY : 0.0;
    fv_tensor *all = fv_masked_fill(ctx, fv_packed_pad(ctx, p, x, NULL), past, hidden);
    if (kind == FV_POOL_MAX) return fv_max(ctx, all, 1, (int[]){1}, false);
    fv_tensor *length = fv_cast(ctx, fv_packed_lengths(ctx, p, NULL), fv_tensor_dtype(x));
    return fv_div(ctx, fv_sum(ctx, all, 1, (int[]){1}, false), fv_unsqueeze(ctx, length, -1));
}
