/* Viewers as batches of a recommender. */
#include "models/taste_batch.h"

#include <math.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "models/kind_recommender.h"

static const struct {
    const char *name;
    size_t offset;
    fv_dtype dtype;
} fields[FV_TASTE_FIELDS] = {
    {"viewer", offsetof(fv_taste_row, viewer), FV_I64},
    {"history", offsetof(fv_taste_row, history), FV_I64},
    {"rating", offsetof(fv_taste_row, rating), FV_F32},
    {"candidate", offsetof(fv_taste_row, candidate), FV_I64},
    {"liked", offsetof(fv_taste_row, liked), FV_F32},
};

fv_status fv_taste_batch_create(fv_ctx *ctx, int64_t room, fv_taste_batch *out)
{
    fv_taste_batch b = {.ctx = ctx, .room = room};
    fv_mem *mem = &ctx->mem;
    const size_t n = (size_t)room;
    b.row = fv_mem_zalloc(mem, n * sizeof *b.row);
    b.histories = fv_mem_zalloc(mem, 2 * n * sizeof *b.histories);
    bool fits = b.row && b.histories;
    for (int i = 0; i < FV_TASTE_FIELDS; i++) {
        b.at[i] = fv_mem_zalloc(mem, n * sizeof *b.at[i]);
        fits = fits && b.at[i];
    }
    if (fits) b.candidates = b.histories + room;
    *out = b;
    if (fits) return FV_OK;
    fv_taste_batch_free(out);
    return fv_fail(ctx, FV_ERR_MEMORY, "no memory for %lld viewers", (long long)room);
}

void fv_taste_batch_free(fv_taste_batch *b)
{
    if (!b->ctx) return;
    fv_mem *mem = &b->ctx->mem;
    const size_t n = (size_t)b->room;
    if (b->row) fv_mem_free(mem, b->row, n * sizeof *b->row);
    if (b->histories) fv_mem_free(mem, b->histories, 2 * n * sizeof *b->histories);
    for (int i = 0; i < FV_TASTE_FIELDS; i++)
        if (b->at[i]) fv_mem_free(mem, b->at[i], n * sizeof *b->at[i]);
    *b = (fv_taste_batch){.ctx = NULL};
}

void fv_taste_batch_add(fv_taste_batch *b, int64_t number, const fv_viewer *v, fv_made_part part)
{
    fv_taste_row *r = &b->row[b->count++];
    r->viewer = number;
    r->history_count = FV_TASTE_HISTORY;
    r->count = 0;
    for (int i = 0; i < FV_TASTE_RATED; i++) {
        if (i < FV_TASTE_HISTORY) {
            r->history[i] = v->movie[i];
            r->rating[i] = v->liked[i] ? 1.0F : -1.0F;
        }
        if (fv_rating_part(i) != part) continue;
        r->candidate[r->count] = v->movie[i];
        r->liked[r->count++] = v->liked[i] ? 1.0F : 0.0F;
    }
}

void fv_taste_unrated(fv_taste_row *row, int movies)
{
    bool rated[FV_TASTE_MOVIES] = {false};
    for (int64_t i = 0; i < row->history_count; i++)
        rated[row->history[i]] = true;
    row->count = 0;
    for (int i = 0; i < movies; i++) {
        if (rated[i]) continue;
        row->candidate[row->count] = i;
        row->liked[row->count++] = 0;
    }
}

int64_t fv_taste_take_best(fv_taste_row *row)
{
    int64_t best = 0;
    for (int64_t i = 1; i < row->count; i++)
        if (row->score[i] > row->score[best]) best = i;
    row->score[best] = -INFINITY;
    return best;
}

fv_batch fv_taste_batch_of(fv_taste_batch *b, int64_t first, int64_t count)
{
    fv_batch batch;
    fv_batch_init(&batch, count);
    for (int64_t i = 0; i < b->count; i++) {
        b->histories[i] = b->row[i].history_count;
        b->candidates[i] = b->row[i].count;
        for (int k = 0; k < FV_TASTE_FIELDS; k++)
            b->at[k][i] = (const char *)&b->row[i] + fields[k].offset;
    }
    for (int k = 0; k < FV_TASTE_FIELDS; k++) {
        const int64_t *length = k == 0 ? NULL : (k < 3 ? b->histories : b->candidates) + first;
        fv_batch_add(&batch, (fv_field){.name = fields[k].name,
                                        .dtype = fields[k].dtype,
                                        .row = b->at[k] + first,
                                        .length = length});
    }
    return batch;
}

/* ---- scores --------------------------------------------------------------------------------- */

/* Reads scores [rows, most candidates], or weights [rows, 1, most candidates, history]. */
static fv_status read_rows(fv_taste_batch *b, const fv_tensor *x, bool weights)
{
    const int64_t wide = fv_tensor_count(x) / b->count;
    const int64_t keys = weights ? fv_tensor_size(x, 3) : 1;
    const size_t bytes = (size_t)(wide * b->count) * sizeof(float);
    float *values = fv_mem_alloc(&b->ctx->mem, bytes);
    FV_RETURN_IF(!values, b->ctx, FV_ERR_MEMORY, "no memory for scores");
    const fv_status status = fv_tensor_read(b->ctx, x, values, bytes);
    for (int64_t i = 0; status == FV_OK && i < b->count; i++) {
        fv_taste_row *r = &b->row[i];
        for (int64_t c = 0; c < r->count; c++)
            memcpy(weights ? r->weights[c] : &r->score[c], values + i * wide + c * keys,
                   (size_t)keys * sizeof *values);
    }
    fv_mem_free(&b->ctx->mem, values, bytes);
    return status;
}

static fv_status take_weights(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    (void)ctx;
    return read_rows(user, site->captured.weights, true);
}

fv_status fv_taste_batch_rate(fv_taste_batch *b, fv_model *model)
{
    fv_ctx *ctx = b->ctx;
    const fv_batch batch = fv_taste_batch_of(b, 0, b->count);
    const fv_capture what = {.sites = FV_RECOMMENDER_SITE,
                             .options = {.weights = true},
                             .on_weights = take_weights,
                             .user = b};
    const fv_pass pass = {.capture = &what};
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *score = fv_recommender_rate(ctx, fv_model_self(model), &batch, &pass);
    const fv_status status =
        fv_ctx_error(ctx) == FV_OK ? read_rows(b, score, false) : fv_ctx_error(ctx);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status;
}
