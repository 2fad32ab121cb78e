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

static bool choose_range(look_range requested, int64_t all, const char *unit, const char *option,
                         look_range *out)
{
    *out = (look_range){0, all};
    if (requested.count < 0) return true;
    const int64_t end = requested.first + requested.count;
    if (end > all) {
        cli_error("look: --%s %lld:%lld: expected a range within %lld %s", option,
                  (long long)requested.first, (long long)end, (long long)all, unit);
        return false;
    }
    *out = requested;
    return true;
}

/* The maximum side of a map in values. */
static int64_t side_of(const look_work *w, const look_site *s)
{
    if (w->full || w->mode == LOOK_LINKS || w->mode == LOOK_TOP) return INT64_MAX;
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

/* Rows of the mean map of some heads, [rows, cols], of the first sequence. */
static fv_tensor *mean_rows(fv_ctx *ctx, const fv_attention_captured *seen,
                            const fv_attention_region *part)
{
    fv_tensor *x = fv_attention_weights(ctx, &seen->saved, part);
    x = fv_squeeze(ctx, fv_slice(ctx, x, 0, 0, 1, 1), 0);
    return part->heads == 1 ? fv_squeeze(ctx, x, 0) : fv_mean(ctx, x, 1, (int[]){0}, false);
}

/* How many rows make a band. */
static int64_t band_of(int64_t heads, int64_t cols)
{
    const int64_t rows = BAND / (heads * (cols ? cols : 1));
    return rows ? rows : 1;
}

static fv_status read_into(fv_ctx *ctx, fv_tensor *x, float *out)
{
    return fv_tensor_read(ctx, x, out, (size_t)fv_tensor_count(x) * sizeof *out);
}

/* One map on its way from tokens to what is shown. */
typedef struct taking {
    look_work *w;
    const look_site *s;
    float *row;  /* one row of words */
    float *band; /* rows of tokens, with room for `room` weights */
    int64_t room;
    float *values;  /* of this head */
    int64_t *index; /* TOP: likewise */
    double lost;    /* summed over the rows */
} taking;

/* The largest weight of each block. */
static void pool_row(const taking *t, int64_t r)
{
    const look_site *s = t->s;
    float *out = t->values + r / s->row_part * s->cols;
    for (int64_t j = 0; j < s->shown_cols.count; j++) {
        const float value = t->row[s->shown_cols.first + j];
        float *cell = &out[j / s->col_part];
        const bool first = r % s->row_part == 0 && j % s->col_part == 0;
        if (first || value > *cell) *cell = value;
    }
}

/* The s->cols largest weights of a row and their keys, the largest first. */
static void keep_top(const taking *t, int64_t r)
{
    const look_site *s = t->s;
    float *values = t->values + r * s->cols;
    int64_t *index = t->index + r * s->cols, kept = 0;
    for (int64_t k = 0; k < s->cols; k++)
        index[k] = -1;
    for (int64_t j = s->shown_cols.first; j < s->shown_cols.first + s->shown_cols.count; j++) {
        int64_t at = kept < s->cols ? kept : s->cols;
        while (at > 0 && t->row[j] > values[at - 1])
            at--;
        if (at >= s->cols || !(t->row[j] > 0)) continue;
        if (kept < s->cols) kept++;
        memmove(values + at + 1, values + at, (size_t)(kept - at - 1) * sizeof *values);
        memmove(index + at + 1, index + at, (size_t)(kept - at - 1) * sizeof *index);
        values[at] = t->row[j];
        index[at] = j;
    }
}

/* Shown row r, from the weights of its tokens. */
static void take_row(taking *t, int64_t r, const float *x, int64_t stride)
{
    look_work *w = t->w;
    t->lost += look_axis_row(&w->row_axis, t->s->shown_rows.first + r, &w->col_axis, x, stride,
                             w->no_special, t->row);
    if (w->mode == LOOK_TOP)
        keep_top(t, r);
    else
        pool_row(t, r);
}

static void count_lost(look_work *w, double share)
{
    look_lost *lost = &w->lost;
    lost->min = lost->maps == 0 || share < lost->min ? share : lost->min;
    lost->max = lost->maps == 0 || share > lost->max ? share : lost->max;
    lost->sum += share;
    lost->maps++;
}

/* The number of shown rows from r on whose tokens fit into `band` rows; at least 1. */
static int64_t rows_in_band(const look_work *w, const look_site *s, int64_t r, int64_t band)
{
    const look_range *tokens = w->row_axis.tokens + s->shown_rows.first;
    int64_t end = r + 1;
    while (end < s->shown_rows.count &&
           tokens[end].first + tokens[end].count - tokens[r].first <= band)
        end++;
    return end - r;
}

/* Bands of all heads share one buffer: a new one each time would be cleared by the system. */
static bool band_room(taking *t, int64_t count)
{
    if (t->band && count <= t->room) return true;
    free(t->band);
    t->band = malloc((size_t)(count + 1) * sizeof *t->band);
    t->room = t->band ? count : 0;
    return t->band != NULL;
}

/* The mean map of `heads` heads as it is shown, band by band. */
static fv_status take_map(fv_ctx *ctx, const fv_attention_captured *seen, int64_t head,
                          int64_t heads, taking *t)
{
    const look_site *s = t->s;
    const look_range *tokens = t->w->row_axis.tokens + s->shown_rows.first;
    const int64_t band = band_of(heads, seen->n_k);
    fv_status status = FV_OK;
    for (int64_t r = 0; r < s->shown_rows.count && status == FV_OK;) {
        const int64_t end = r + rows_in_band(t->w, s, r, band), first = tokens[r].first;
        const fv_attention_region part = {.head = head,
                                          .heads = heads,
                                          .row = first,
                                          .rows =
                                              tokens[end - 1].first + tokens[end - 1].count - first,
                                          .cols = seen->n_k};
        if (!band_room(t, part.rows * part.cols)) return FV_ERR_MEMORY;
        const float *x = t->band;
        fv_scope_begin(ctx);
        status = read_into(ctx, fv_contiguous(ctx, mean_rows(ctx, seen, &part)), t->band);
        fv_scope_end(ctx);
        for (; r < end && status == FV_OK; r++)
            take_row(t, r, x + (tokens[r].first - first) * part.cols, part.cols);
    }
    if (s->shown_rows.count) count_lost(t->w, t->lost / (double)s->shown_rows.count);
    return status;
}

/* Room for `each` values of each head. */
static bool values_room(look_site *s, int64_t each, bool indexed)
{
    s->values = malloc((size_t)(s->heads * each + 1) * sizeof *s->values);
    if (indexed) s->index = malloc((size_t)(s->heads * each + 1) * sizeof *s->index);
    return s->values && (s->index || !indexed);
}

static fv_status take_maps(look_work *w, fv_ctx *ctx, const fv_attention_captured *seen,
                           look_site *s)
{
    const bool mean = w->mode == LOOK_MAP && w->head < 0, top = w->mode == LOOK_TOP;
    const int64_t first = w->head < 0 ? 0 : w->head;
    s->heads = mean || w->head >= 0 ? 1 : seen->heads;
    if (w->mode == LOOK_LINKS && (s->shown_rows.count > LINKED || s->shown_cols.count > LINKED)) {
        cli_error("look: --links: more than %d words; choose some with --rows and --cols",
                  (int)LINKED);
        return fail_reported(w, FV_ERR_LIMIT);
    }
    size_values(w, s);
    if (top) s->cols = cli_int(w->call, "top");
    const int64_t each = s->rows * s->cols;
    taking t = {.w = w, .s = s, .row = malloc((size_t)(w->col_axis.count + 1) * sizeof *t.row)};
    fv_status status = t.row && values_room(s, each, top) ? FV_OK : FV_ERR_MEMORY;
    for (int64_t h = 0; h < s->heads && status == FV_OK; h++) {
        t.lost = 0;
        t.values = s->values + h * each;
        t.index = top ? s->index + h * each : NULL;
        status = take_map(ctx, seen, mean ? 0 : first + h, mean ? seen->heads : 1, &t);
    }
    free(t.row);
    free(t.band);
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
    const int64_t n = seen->n_q, band = band_of(seen->heads, n);
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
    const int64_t n = s->rows;
    size_values(w, s);
    taking t = {.w = w, .s = s, .row = malloc((size_t)(w->col_axis.count + 1) * sizeof *t.row)};
    if (!t.row || !values_room(s, s->rows * s->cols, false)) {
        free(t.row);
        return FV_ERR_MEMORY;
    }
    t.values = s->values;
    for (int64_t r = 0; r < s->shown_rows.count; r++)
        take_row(&t, r, w->rolled + w->row_axis.tokens[s->shown_rows.first + r].first * n, n);
    if (s->shown_rows.count) count_lost(w, t.lost / (double)s->shown_rows.count);
    free(t.row);
    return FV_OK;
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

/* Clears the weights of special tokens and scales the others to the row's sum. */
static void drop_special(look_work *w, float *row, int64_t cols)
{
    const look_words *keys = look_cols(w);
    double total = 0, kept = 0;
    for (int64_t j = 0; j < cols; j++) {
        total += (double)row[j];
        if (keys->special[j]) row[j] = 0;
        kept += (double)row[j];
    }
    for (int64_t j = 0; j < cols && kept > 0; j++)
        row[j] = (float)((double)row[j] * (total / kept));
    count_lost(w, total > 0 ? 1 - kept / total : 0);
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
        if (status == FV_OK && w->no_special) drop_special(w, s->values + i * s->cols, s->cols);
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

/* All chosen sites have the same tokens, so the first one makes the axes. */
static bool make_axes(look_work *w, const fv_attention_captured *seen)
{
    if (w->row_axis.tokens) return true;
    return look_axis_make(look_rows(w), seen->n_q, w->pieces, w->no_special, &w->row_axis) &&
           look_axis_make(look_cols(w), seen->n_k, w->pieces, w->no_special, &w->col_axis);
}

fv_status look_take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    look_work *w = user;
    look_site *s = next_site(w);
    const fv_attention_captured *seen = &site->captured;
    if (!s || (!w->arrays && !make_axes(w, seen))) return FV_ERR_MEMORY;
    cli_format(s->name, sizeof s->name, "%s", site->name);
    const char *unit = w->arrays || w->pieces || !w->text ? "tokens" : "words";
    if (!choose_range(w->rows, w->arrays ? seen->n_q : w->row_axis.count, unit, "rows",
                      &s->shown_rows) ||
        !choose_range(w->cols, w->arrays ? seen->n_k : w->col_axis.count, unit, "cols",
                      &s->shown_cols))
        return fail_reported(w, FV_ERR_ARGUMENT);
    switch (w->mode) {
    case LOOK_ARRAYS:
        return take_array(w, ctx, seen, s);
    case LOOK_ROLLOUT:
        return take_layer(w, ctx, seen, s);
    case LOOK_TOP:
        return w->arrays ? take_top(ctx, seen, s) : take_maps(w, ctx, seen, s);
    case LOOK_ENTROPY:
        return take_entropy(ctx, seen, s);
    case LOOK_WORD:
        return take_word(w, ctx, seen, s);
    default:
        return take_maps(w, ctx, seen, s);
    }
}
