/* What 'fovea look' captures at each attention site, in bounded memory. */
#include <stdlib.h>
#include <string.h>

#include "fovea/ops.h"
#include "input.h"
#include "look_model.h"
#include "output.h"

enum {
    BAND = 1 << 21,      /* weights computed at a time */
    MAP_SIDE = 1024,     /* of one map */
    MIN_SIDE = 32,       /* of a small one */
    MAX_SIDE = 256,      /* likewise */
    ALL_HEADS = 1 << 21, /* values of all heads together */
    LINKED = 1024        /* words with lines between them */
};

/* Larger arrays need --full. */
static const uint64_t max_array_bytes = (uint64_t)1 << 30;

static look_site *next_site(look_work *w)
{
    if (w->count == w->room) {
        const int room = w->room ? 2 * w->room : 16;
        look_site *larger = realloc(w->sites, (size_t)room * sizeof *larger);
        if (!larger) return NULL;
        w->sites = larger;
        w->room = room;
    }
    w->sites[w->count] = (look_site){.row_part = 1, .col_part = 1};
    return &w->sites[w->count++];
}

static fv_status fail_reported(look_work *w, fv_status status)
{
    w->reported = true;
    return status;
}

static int64_t parts(int64_t n, int64_t part) { return (n + part - 1) / part; }

/* ---- which part ------------------------------------------------------------------------------ */

static bool choose_range(look_range requested, int64_t all, const char *option, look_range *out)
{
    *out = (look_range){0, all};
    if (requested.count < 0) return true;
    const int64_t end = requested.first + requested.count;
    if (end > all) {
        cli_error("look: --%s %lld:%lld: expected a range within %lld tokens", option,
                  (long long)requested.first, (long long)end, (long long)all);
        return false;
    }
    *out = requested;
    return true;
}

/* The maximum side of a map in values. */
static int64_t side_of(const look_work *w, const look_site *s)
{
    if (w->full || w->mode == LOOK_LINKS) return INT64_MAX;
    if (w->mode != LOOK_HEADS) return MAP_SIDE;
    int64_t side = MAX_SIDE;
    while (side > MIN_SIDE && side * side * s->heads * w->layers > ALL_HEADS)
        side--;
    return side;
}

static void size_values(const look_work *w, look_site *s)
{
    const int64_t side = side_of(w, s);
    s->row_part = s->shown_rows.count > side ? parts(s->shown_rows.count, side) : 1;
    s->col_part = s->shown_cols.count > side ? parts(s->shown_cols.count, side) : 1;
    s->rows = parts(s->shown_rows.count, s->row_part);
    s->cols = parts(s->shown_cols.count, s->col_part);
}

/* ---- maps ------------------------------------------------------------------------------------ */

/* The maximum of each block of a matrix. */
static fv_tensor *made_small(fv_ctx *ctx, fv_tensor *x, int64_t row_part, int64_t col_part)
{
    const int64_t rows = fv_tensor_size(x, 0), cols = fv_tensor_size(x, 1);
    if (row_part == 1 && col_part == 1) return fv_contiguous(ctx, x);
    const int64_t shape[] = {parts(rows, row_part), row_part, parts(cols, col_part), col_part};
    const int64_t before[2] = {0},
                  after[2] = {shape[0] * row_part - rows, shape[2] * col_part - cols};
    if (after[0] + after[1] > 0) x = fv_pad(ctx, x, before, after, 0);
    return fv_max(ctx, fv_reshape(ctx, fv_contiguous(ctx, x), 4, shape), 2, (int[]){1, 3}, false);
}

/* Rows of the mean map of some heads, [rows, cols], of the first sequence. */
static fv_tensor *mean_rows(fv_ctx *ctx, const fv_attention_captured *seen,
                            const fv_attention_region *part)
{
    fv_tensor *x = fv_attention_weights(ctx, &seen->saved, part);
    x = fv_squeeze(ctx, fv_slice(ctx, x, 0, 0, 1, 1), 0);
    return part->heads == 1 ? fv_squeeze(ctx, x, 0) : fv_mean(ctx, x, 1, (int[]){0}, false);
}

/* How many rows make a band of whole blocks. */
static int64_t band_of(int64_t heads, int64_t cols, int64_t row_part)
{
    const int64_t rows = BAND / (heads * (cols ? cols : 1)) / row_part;
    return (rows ? rows : 1) * row_part;
}

static fv_status read_into(fv_ctx *ctx, fv_tensor *x, float *out)
{
    return fv_tensor_read(ctx, x, out, (size_t)fv_tensor_count(x) * sizeof *out);
}

/* The mean map of `heads` heads as it is shown, band by band. */
static fv_status take_map(fv_ctx *ctx, const fv_attention_captured *seen, const look_site *s,
                          int64_t head, int64_t heads, float *out)
{
    const int64_t rows = s->shown_rows.count,
                  band = band_of(heads, s->shown_cols.count, s->row_part);
    fv_status status = FV_OK;
    for (int64_t row = 0; row < rows && status == FV_OK; row += band) {
        const fv_attention_region part = {.head = head,
                                          .heads = heads,
                                          .row = s->shown_rows.first + row,
                                          .rows = row + band < rows ? band : rows - row,
                                          .col = s->shown_cols.first,
                                          .cols = s->shown_cols.count};
        fv_scope_begin(ctx);
        fv_tensor *x = made_small(ctx, mean_rows(ctx, seen, &part), s->row_part, s->col_part);
        status = read_into(ctx, x, out + row / s->row_part * s->cols);
        fv_scope_end(ctx);
    }
    return status;
}

static fv_status take_maps(look_work *w, fv_ctx *ctx, const fv_attention_captured *seen,
                           look_site *s)
{
    const bool mean = w->mode == LOOK_MAP && w->head < 0;
    const int64_t first = w->head < 0 ? 0 : w->head;
    s->heads = mean || w->head >= 0 ? 1 : seen->heads;
    if (w->mode == LOOK_LINKS && (s->shown_rows.count > LINKED || s->shown_cols.count > LINKED)) {
        cli_error("look: --links: more than %d words; choose some with --rows and --cols",
                  (int)LINKED);
        return fail_reported(w, FV_ERR_LIMIT);
    }
    size_values(w, s);
    const int64_t each = s->rows * s->cols;
    s->values = malloc((size_t)(s->heads * each + 1) * sizeof *s->values);
    if (!s->values) return FV_ERR_MEMORY;
    if (mean) return take_map(ctx, seen, s, 0, seen->heads, s->values);
    fv_status status = FV_OK;
    for (int64_t h = 0; h < s->heads && status == FV_OK; h++)
        status = take_map(ctx, seen, s, first + h, 1, s->values + h * each);
    return status;
}

static fv_status take_array(look_work *w, fv_ctx *ctx, const fv_attention_captured *seen,
                            look_site *s)
{
    const fv_attention_region part = {.head = w->head < 0 ? 0 : w->head,
                                      .heads = w->head < 0 ? seen->heads : 1,
                                      .row = s->shown_rows.first,
                                      .rows = s->shown_rows.count,
                                      .col = s->shown_cols.first,
                                      .cols = s->shown_cols.count};
    w->array_bytes += (uint64_t)(fv_tensor_size(seen->saved.lse, 0) * part.heads) *
                      (uint64_t)(part.rows * part.cols) * sizeof(float);
    if (w->array_bytes > max_array_bytes && !w->full) {
        cli_error("look: all weights take more than 1 GiB; choose some with --layer, --head, "
                  "--rows, --cols or --top, or add --full");
        return fail_reported(w, FV_ERR_LIMIT);
    }
    /* out of the scopes of the block and of the pass */
    s->tensor = fv_scope_keep(ctx, fv_attention_weights(ctx, &seen->saved, &part));
    return fv_ctx_error(ctx);
}

/* ---- rollout --------------------------------------------------------------------------------- */

/*
 * Abnar and Zuidema 2020: the product over the layers of (mean map + identity) / 2, so that paths
 * through residuals count too. One layer more: now = (map now + now) / 2, in bands of rows.
 */
static fv_status roll_on(look_work *w, fv_ctx *ctx, const fv_attention_captured *seen)
{
    const int64_t n = seen->n_q, band = band_of(seen->heads, n, 1);
    float *next = malloc((size_t)(n * n + 1) * sizeof *next);
    fv_status status = next ? FV_OK : FV_ERR_MEMORY;
    fv_scope_begin(ctx);
    fv_tensor *now = w->rolled ? fv_from_host(ctx, FV_F32, 2, (int64_t[]){n, n}, w->rolled) : NULL;
    for (int64_t row = 0; row < n && status == FV_OK; row += band) {
        const int64_t rows = row + band < n ? band : n - row;
        const fv_attention_region part = {
            .heads = seen->heads, .row = row, .rows = rows, .cols = seen->n_k};
        fv_scope_begin(ctx);
        fv_tensor *map = mean_rows(ctx, seen, &part);
        if (now)
            map = fv_add(ctx, fv_matmul(ctx, map, now), fv_slice(ctx, now, 0, row, row + rows, 1));
        status = read_into(ctx, fv_scale(ctx, map, 0.5), next + row * n);
        fv_scope_end(ctx);
    }
    fv_scope_end(ctx);
    for (int64_t i = 0; status == FV_OK && !now && i < n; i++) /* below it: the identity */
        next[i * n + i] += 0.5F;
    free(w->rolled);
    w->rolled = next;
    return status;
}

fv_status look_take_rollout(look_work *w)
{
    look_site *s = &w->sites[0];
    fv_ctx *ctx = w->ctx;
    const int64_t n = s->rows;
    size_values(w, s);
    s->values = malloc((size_t)(s->rows * s->cols + 1) * sizeof *s->values);
    if (!s->values) return FV_ERR_MEMORY;
    fv_scope_begin(ctx);
    fv_tensor *x = fv_from_host(ctx, FV_F32, 2, (int64_t[]){n, n}, w->rolled);
    const look_range r = s->shown_rows, c = s->shown_cols;
    x = fv_slice(ctx, x, 0, r.first, r.first + r.count, 1);
    x = fv_slice(ctx, x, 1, c.first, c.first + c.count, 1);
    const fv_status status =
        read_into(ctx, made_small(ctx, x, s->row_part, s->col_part), s->values);
    fv_scope_end(ctx);
    return status;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static fv_status read_all(fv_ctx *ctx, fv_tensor *x, float **out)
{
    *out = malloc((size_t)fv_tensor_count(x) * sizeof **out + 1);
    return *out ? read_into(ctx, x, *out) : FV_ERR_MEMORY;
}

static fv_tensor *first_of(fv_ctx *ctx, fv_tensor *x)
{
    return fv_contiguous(ctx, fv_squeeze(ctx, fv_slice(ctx, x, 0, 0, 1, 1), 0));
}

static fv_status take_top(fv_ctx *ctx, const fv_attention_captured *seen, look_site *s)
{
    fv_tensor *index = first_of(ctx, seen->top_index);
    const size_t bytes = (size_t)fv_tensor_count(index) * sizeof *s->index;
    s->heads = fv_tensor_size(index, 0);
    s->rows = fv_tensor_size(index, 1);
    s->cols = fv_tensor_size(index, 2);
    const fv_status status = read_all(ctx, first_of(ctx, seen->top_weights), &s->values);
    s->index = malloc(bytes + 1);
    if (status != FV_OK || !s->index) return status != FV_OK ? status : FV_ERR_MEMORY;
    return fv_tensor_read(ctx, index, s->index, bytes);
}

static fv_status take_entropy(fv_ctx *ctx, const fv_attention_captured *seen, look_site *s)
{
    s->heads = fv_tensor_size(seen->summary.head_entropy, 1);
    return read_all(ctx, first_of(ctx, seen->summary.head_entropy), &s->values);
}

/* The mean weights of a word's tokens, for each of its positions. */
static fv_status take_word(look_work *w, fv_ctx *ctx, const fv_attention_captured *seen,
                           look_site *s)
{
    const int64_t places = w->from_count;
    s->heads = seen->heads;
    s->rows = places;
    s->cols = seen->n_k;
    s->values = malloc((size_t)(s->heads * places * s->cols + 1) * sizeof *s->values);
    fv_status status = s->values ? FV_OK : FV_ERR_MEMORY;
    for (int64_t i = 0; i < places * s->heads && status == FV_OK; i++) {
        const look_range at = w->from[i % places];
        const fv_attention_region part = {
            .head = i / places, .heads = 1, .row = at.first, .rows = at.count, .cols = seen->n_k};
        fv_scope_begin(ctx);
        fv_tensor *x = fv_mean(ctx, mean_rows(ctx, seen, &part), 1, (int[]){0}, false);
        status = read_into(ctx, x, s->values + i * s->cols);
        fv_scope_end(ctx);
    }
    return status;
}

/* ---- a site ---------------------------------------------------------------------------------- */

/* The rollout has one site for all layers. */
static fv_status take_layer(look_work *w, fv_ctx *ctx, const fv_attention_captured *seen,
                            look_site *s)
{
    if (w->count > 1) w->count--;
    s->heads = 1;
    s->rows = s->cols = seen->n_q;
    return roll_on(w, ctx, seen);
}

fv_status look_take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    look_work *w = user;
    look_site *s = next_site(w);
    if (!s) return FV_ERR_MEMORY;
    cli_format(s->name, sizeof s->name, "%s", site->name);
    const fv_attention_captured *seen = &site->captured;
    if (!choose_range(w->rows, seen->n_q, "rows", &s->shown_rows) ||
        !choose_range(w->cols, seen->n_k, "cols", &s->shown_cols))
        return fail_reported(w, FV_ERR_ARGUMENT);
    switch (w->mode) {
    case LOOK_ARRAYS:
        return take_array(w, ctx, seen, s);
    case LOOK_ROLLOUT:
        return take_layer(w, ctx, seen, s);
    case LOOK_TOP:
        return take_top(ctx, seen, s);
    case LOOK_ENTROPY:
        return take_entropy(ctx, seen, s);
    case LOOK_WORD:
        return take_word(w, ctx, seen, s);
    default:
        return take_maps(w, ctx, seen, s);
    }
}
