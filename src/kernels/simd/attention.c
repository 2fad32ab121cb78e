/*
 * Attention forward. K is packed once into panels of P keys, [keys/P][d][P]. A work item is a block
 * of queries of one head. It processes the keys in blocks of 512, which stay in L2, and each block
 * in row tiles of six queries: products into a 6 x 512 tile of scores, softmax with a running
 * maximum, weights times values into the accumulators of the query block. The first work item to
 * reach a key block packs it and then finds it in its cache. While there are heads for all threads,
 * a thread keeps to one head (attention_schedule.h) and packs one head after the other into the
 * same buffer, which stays in its cache.
 *
 * With `bf16` the products are of words of two bf16: V is packed as well, and weights are rounded
 * before the second product. Where they run on AMX tiles, row tiles have 32 rows, and the products
 * of two row tiles wait for the softmax of a third (attention_tiles.h).
 *
 * Key blocks start at multiples of 512 (256 for wide rows), and the sums of a row run over the keys
 * in order. The division into work items, which depends on the number of threads, therefore does
 * not affect the bits. Up to sixteen queries are one work item for each chunk of keys
 * (attention_merge.c): otherwise threads could not share a head.
 */
#include "kernels/simd/attention_forward.h"

#include "base/spin.h"
#include "kernels/simd/register.h"

enum { SCORE_ROW = FV_ATTN_LONG_SCORE_ROW };

/* State of a panel that all work items share. */
typedef enum pack_state { UNPACKED, PACKING, PACKED, PACKED_NOT_FINITE } pack_state;

typedef struct forward_job {
    fv_attn_job base;
    forward_plan plan;
    fv_attn_partials partials;
    const fv_attn_bf16_products *bf16; /* or NULL */
    const fv_attn_tiling *tiling;
    float deferred_scale;   /* factor applied to the scores inside the softmax */
    float *panels, *values; /* [slots] packed heads; values as bf16 pairs */
    atomic_int *states;     /* [batch][kv_heads][panels] of pack_state */
    fv_attn_schedule schedule;
    float *threads;
    bool copy_values;
} forward_job;

/* The buffers of a thread. */
typedef struct workspace {
    float *q, *o, *row_max, *sum, *scores, *weights, *keep, *values, *panels;
    void *state;                /* of the bf16 products */
    float *query_exp, *key_exp; /* additive scores: exponentials of q and of a key block */
    fv_attn_row *row;
} workspace;

static size_t forward_scratch(const void *args, int threads)
{
    return fv_attn_whole_scratch(args, threads, fv_attn_forward_bytes);
}

/* ---- packing ---------------------------------------------------------------------- */

/* Packs keys [first, first + keys) of one key head, and their values for bf16. Returns whether the
 * values are all finite; values that are copied later are checked then. */
static bool pack_block(const forward_job *job, int64_t b, int64_t h, int64_t first, int64_t keys,
                       float *panels, float *values)
{
    const fv_attn *a = job->base.a;
    const void *v = fv_attn_at(a, job->base.ptr[FV_ATTN_V], &a->v, b, h, first), *k = NULL;
    if (fv_attn_width(a) > 0) k = fv_attn_at(a, job->base.ptr[FV_ATTN_K], &a->k, b, h, first);
    if (job->bf16) return job->bf16->pack(a, k, v, keys, panels, values);
    if (k) fv_attn_pack(a->dtype, k, a->k.row, keys, a->d, panels);
    if (a->score == FV_ATTN_SCORE_ADDITIVE) fv_attn_pack_zeros(keys, a->d, panels);
    return job->copy_values || fv_attn_finite(a->dtype, v, a->v.row, keys, a->d_v);
}

/* Queries [first, first + rows) of one head. */
typedef struct query_block {
    int64_t b, h, first, rows;
    int64_t chunk; /* of the keys */
    int64_t slot;  /* of its packed keys */
} query_block;

/* Packed keys and values of a slot from key `first` on, a multiple of the panel. */
static float *panels_at(const forward_job *job, int64_t slot, int64_t first)
{
    return job->panels + (slot * job->plan.keys + first) * job->plan.width;
}
static float *values_at(const forward_job *job, int64_t slot, int64_t first)
{
    return job->values + (slot * job->plan.keys + first) / 2 * job->plan.o_row;
}

/* The state of the panel that starts at key `first` of a block's key head. */
static atomic_int *state_of(const forward_job *job, const query_block *block, int64_t first)
{
    const fv_attn *a = job->base.a;
    const int64_t head = block->b * a->kv_heads + fv_attn_kv_head(a, block->h);
    return job->states + (head * job->plan.keys + first) / FV_ATTN_PANEL;
}

/* Packs one panel, unless another work item has done so or is about to. */
static void pack_shared_panel(const forward_job *job, const query_block *block, int64_t first,
                              int64_t keys)
{
    atomic_int *state = state_of(job, block, first);
    int seen = atomic_load_explicit(state, memory_order_relaxed);
    if (seen != UNPACKED || !atomic_compare_exchange_strong(state, &seen, PACKING)) return;
    const bool finite =
        pack_block(job, block->b, fv_attn_kv_head(job->base.a, block->h), first, keys,
                   panels_at(job, block->slot, first), values_at(job, block->slot, first));
    atomic_store_explicit(state, finite ? PACKED : PACKED_NOT_FINITE, memory_order_release);
}

/* Ensures that a key block is packed; returns whether its values are all finite. Work items that
 * arrive at the same time divide its panels, then wait for each other. */
static bool pack_shared_block(const forward_job *job, const query_block *block, int64_t first,
                              int64_t keys)
{
    for (int64_t j = 0; j < keys; j += FV_ATTN_PANEL)
        pack_shared_panel(job, block, first + j, fv_attn_min(FV_ATTN_PANEL, keys - j));
    bool finite = true;
    for (int64_t j = 0; j < keys; j += FV_ATTN_PANEL) {
        atomic_int *state = state_of(job, block, first + j);
        int seen, spins = 0;
        while ((seen = atomic_load_explicit(state, memory_order_acquire)) < PACKED)
            fv_spin(&spins);
        finite &= seen == PACKED;
    }
    return finite;
}

/* ---- one work item ----------------------------------------------------------------- */

static void load_queries(const forward_job *job, const query_block *block, const workspace *w)
{
    const fv_attn *a = job->base.a;
    const int64_t stride = job->plan.q_row;
    const void *from =
        fv_attn_at(a, job->base.ptr[FV_ATTN_Q], &a->q, block->b, block->h, block->first);
    if (job->bf16)
        job->bf16->load_queries(from, a->q.row, block->rows, a->d, w->q, stride);
    else
        fv_attn_widen(a->dtype, from, a->q.row, block->rows, a->d, job->base.operand, w->q, stride);
    if (a->score != FV_ATTN_SCORE_ADDITIVE) return;
    for (int64_t r = 0; r < block->rows; r++)
        fv_attn_exp_2x(w->q + r * stride, a->d, w->query_exp + r * stride);
}

static void begin_block(const forward_job *job, const query_block *block, const workspace *w)
{
    fv_attn_fill_rows(&job->base, block->b, block->h, block->first, block->rows, w->row);
    for (int64_t r = 0; r < block->rows; r++) {
        w->row_max[r] = -INFINITY;
        w->sum[r] = 0;
    }
    if (fv_attn_width(job->base.a) > 0) load_queries(job, block, w);
    memset(w->o, 0, (size_t)(block->rows * job->plan.o_row) * sizeof(float));
}

/* A key block as seen by the row tiles. */
typedef struct key_block {
    int64_t first;
    const float *panels, *values; /* NULL: not packed yet */
    const void *stored_values;    /* as the caller has them */
    int64_t stride;               /* row stride of the values */
    bool finite;                  /* all values are finite */
    bool has_exp;                 /* additive scores: every key has an exponential in range */
} key_block;

/* Queries that are processed together, with the keys of a block that some of them see. */
typedef struct row_tile {
    int64_t r; /* first row in the query block */
    int rows;
    fv_attn_visible_keys visible;
    float *scores, *weights;
} row_tile;

/* Scores of keys [first, first + count) of the block. */
static void score_range(const forward_job *job, const workspace *w, const key_block *block,
                        const row_tile *tile, int64_t first, int64_t count, float *s)
{
    const fv_attn *a = job->base.a;
    const int64_t stride = job->plan.q_row, r = tile->r;
    const float *q = w->q + r * stride;
    const bool narrow = !job->bf16 && a->score == FV_ATTN_SCORE_DOT;
    const int64_t cols = fv_attn_round(count, narrow ? FV_ATTN_KEY_STEP : FV_LANES);
    if (job->bf16) {
        job->bf16->scores(w->state, q, stride, tile->rows, block->panels, a->d, first, cols, s);
        return;
    }
    const fv_attn_additive_operands operands = {.q = q,
                                                .query_exp = w->query_exp + r * stride,
                                                .q_row = stride,
                                                .query_exp_row = stride,
                                                .k = block->panels,
                                                .key_exp = w->key_exp,
                                                .w = w->row[r].w,
                                                .width = a->d,
                                                .missing = !block->has_exp};
    fv_attn_score_tile(&job->base, &operands, tile->rows, first, cols, s, SCORE_ROW);
}

/* Key ranges are adjacent in the tile of scores: hidden keys cost nothing, and since ranges start
 * at multiples of the lanes, they do not affect the sums. */
static void score_tile(const forward_job *job, const workspace *w, const key_block *block,
                       const row_tile *tile)
{
    const int64_t first = block->first;
    float *s = tile->scores;
    for (fv_attn_interval range = {first, first};
         fv_attn_next_key_range(&tile->visible, first, &range);) {
        const int64_t count = range.end - range.begin;
        score_range(job, w, block, tile, range.begin - first, count, s);
        s += fv_attn_round(count, FV_LANES);
    }
}

/* Scores to weights. With a deferred scale the bf16 softmax applies it and rounds the weights. */
static void softmax_tile(const forward_job *job, const workspace *w, const row_tile *tile,
                         int64_t cols, float *rescale)
{
    float *row_max = w->row_max + tile->r, *sum = w->sum + tile->r;
    if (job->deferred_scale != 1) {
        job->bf16->softmax(w->state, tile->scores, tile->rows, cols, job->deferred_scale, row_max,
                           sum, rescale, tile->weights);
        return;
    }
    for (int i = 0; i < tile->rows; i += FV_LANES)
        fv_attn_softmax(tile->scores + i * SCORE_ROW, SCORE_ROW,
                        (int)fv_attn_min(FV_LANES, tile->rows - i), cols, row_max + i, sum + i,
                        rescale + i);
}

/* Adds the values of a key range, whose weights start at column `at`. */
static void add_values(const forward_job *job, const workspace *w, const key_block *block,
                       const row_tile *tile, fv_attn_interval keys, int64_t at)
{
    const fv_attn *a = job->base.a;
    const int64_t o_row = job->plan.o_row, count = keys.end - keys.begin;
    const int64_t first = keys.begin - block->first;
    float *o = w->o + tile->r * o_row;
    if (job->bf16) {
        float *weights = tile->weights + at / 2;
        if (job->deferred_scale == 1)
            fv_attn_narrow(FV_BF16, tile->scores + at, SCORE_ROW, tile->rows,
                           fv_attn_round(count, FV_LANES), NULL, weights, 2 * FV_ATTN_WEIGHT_ROW);
        const char *raw = block->finite ? NULL : block->stored_values;
        if (raw) raw += first * a->v.row * (int64_t)sizeof(uint16_t);
        job->bf16->add_values(w->state, weights, tile->rows, block->values + first / 2 * o_row,
                              count, a->d_v, raw, a->v.row, o);
        return;
    }
    const fv_tile t = {.k = count,
                       .a = tile->scores + at,
                       .a_row = SCORE_ROW,
                       .a_col = 1,
                       .b = block->values + first * block->stride,
                       .b_row = block->stride,
                       .from = o,
                       .from_row = o_row,
                       .c = o,
                       .c_row = o_row};
    fv_attn_product(&t, tile->rows, a->d_v, !block->finite);
}

/* Raw scores to scores, for all key ranges; returns the number of columns. */
static int64_t finish_scores(const forward_job *job, const workspace *w, const key_block *block,
                             const row_tile *tile)
{
    const int64_t first = block->first;
    const bool scale = job->bf16 && job->deferred_scale == 1;
    int64_t cols = 0;
    for (fv_attn_interval range = {first, first};
         fv_attn_next_key_range(&tile->visible, first, &range);) {
        const int64_t count = fv_attn_round(range.end - range.begin, FV_LANES);
        for (int i = 0; i < tile->rows; i++) {
            float *s = tile->scores + cols + i * SCORE_ROW;
            if (scale) fv_attn_scale_row(s, count, job->base.factor);
            fv_attn_finish_scores(&job->base, w->row + tile->r + i, range.begin, count, s, NULL);
        }
        cols += count;
    }
    return cols;
}

/* Processes a row tile with a key block, from its raw scores on. */
static void process_tile(const forward_job *job, const workspace *w, const key_block *block,
                         const row_tile *tile)
{
    const fv_attn *a = job->base.a;
    const int64_t o_row = job->plan.o_row, first = block->first;
    float rescale[FV_ATTN_MAX_TILE_ROWS];
    if (job->tiling->ahead && job->deferred_scale == 1) job->bf16->flush(w->state);
    softmax_tile(job, w, tile, finish_scores(job, w, block, tile), rescale);
    for (int i = 0; i < tile->rows; i++)
        if (rescale[i] != 1) fv_attn_scale_row(w->o + (tile->r + i) * o_row, o_row, rescale[i]);
    int64_t cols = 0;
    for (fv_attn_interval range = {first, first};
         fv_attn_next_key_range(&tile->visible, first, &range);) {
        const int64_t count = fv_attn_round(range.end - range.begin, FV_LANES);
        for (int i = 0; a->rule.dropout > 0 && i < tile->rows; i++)
            fv_attn_apply_dropout(&job->base, w->row + tile->r + i, range.begin, count, w->keep,
                                  tile->scores + cols + i * SCORE_ROW);
        add_values(job, w, block, tile, range, cols);
        cols += count;
    }
}

/* Prepares keys [first, first + keys) for the row tiles. */
static key_block block_of(const forward_job *job, const workspace *w, const query_block *queries,
                          int64_t first, int64_t keys)
{
    const fv_attn *a = job->base.a;
    const forward_plan *p = &job->plan;
    const int64_t b = queries->b, h = fv_attn_kv_head(a, queries->h);
    const void *v = job->base.ptr[FV_ATTN_V];
    key_block block = {
        .first = first, .values = fv_attn_at(a, v, &a->v, b, h, first), .stride = a->v.row};
    block.stored_values = block.values;
    if (p->local) {
        block.finite = pack_block(job, b, h, first, keys, w->panels, w->values);
        block.panels = w->panels;
    } else {
        block.finite = pack_shared_block(job, queries, first, keys);
        block.panels = panels_at(job, queries->slot, first);
    }
    if (job->bf16) {
        block.values = p->local ? w->values : values_at(job, queries->slot, first);
        return block;
    }
    if (a->score == FV_ATTN_SCORE_ADDITIVE)
        block.has_exp =
            fv_attn_exp_2x(block.panels, fv_attn_round(keys, FV_ATTN_PANEL) * a->d, w->key_exp);
    if (!job->copy_values) return block;
    block.finite =
        fv_attn_widen_rows(a->dtype, block.values, a->v.row, keys, a->d_v, w->values, p->o_row);
    block.values = w->values;
    block.stride = p->o_row;
    return block;
}

/* Prefetches, during the last products of a row tile, the output rows and the queries that the next
 * work item of the head will load in their place. */
static void prefetch_next(const forward_job *job, const query_block *block, int64_t r, int64_t rows)
{
    const fv_attn *a = job->base.a;
    const int64_t size = (int64_t)fv_dtype_size(a->dtype), i = block->first + r;
    const void *o = fv_attn_at(a, job->base.ptr[FV_ATTN_O], &a->o, block->b, block->h, i);
    fv_attn_prefetch((uintptr_t)o, a->o.row * size, rows, a->d_v * size, false);
    if (block->first == 0 || fv_attn_width(a) == 0) return;
    const void *q =
        fv_attn_at(a, job->base.ptr[FV_ATTN_Q], &a->q, block->b, block->h, i - job->plan.rows);
    fv_attn_prefetch((uintptr_t)q, a->q.row * size, rows, a->d * size, false);
}

/* The row tile that starts at row r of the query block, with a key block. */
static row_tile tile_at(const forward_job *job, const query_block *block, const workspace *w,
                        int64_t r, int64_t first, int64_t end)
{
    const fv_attn *a = job->base.a;
    const fv_attn_tiling *t = job->tiling;
    const int64_t i = block->first + r, left = block->rows - r;
    const int rows = t->rows == FV_ATTN_TILE_ROWS
                         ? fv_attn_tile_rows(a, i, left)
                         : (int)fv_attn_min(t->rows, fv_attn_rows_of_mask(a, i, left));
    row_tile tile = {.r = r,
                     .rows = rows,
                     .visible = fv_attn_find_visible_keys(a, w->row + r, rows, first, end),
                     .scores = w->scores,
                     .weights = w->weights};
    if (t->key_step > FV_LANES) fv_attn_widen_visible_keys(&tile.visible, first);
    return tile;
}

/* Processes the next row tile of a key block. With products ahead its scores are computed during
 * the softmax of *last, which becomes `next`; both have buffers of their own. */
static void process_next(const forward_job *job, const workspace *w, const key_block *keys,
                         row_tile next, row_tile *last)
{
    if (!job->tiling->ahead) {
        score_tile(job, w, keys, &next);
        process_tile(job, w, keys, &next);
        return;
    }
    if (last->rows > 0 && last->scores == w->scores) {
        next.scores += job->plan.score_floats;
        next.weights += job->plan.weight_floats;
    }
    score_tile(job, w, keys, &next);
    if (last->rows > 0)
        process_tile(job, w, keys, last);
    else
        job->bf16->flush(w->state);
    *last = next;
}

static void process_keys(const forward_job *job, const query_block *block, const workspace *w)
{
    const fv_attn *a = job->base.a;
    const int64_t total = fv_attn_keys(a, job->base.ptr[FV_ATTN_KEY_LENGTHS], block->b);
    const int64_t begin = block->chunk * job->plan.chunk_keys;
    const int64_t stop = fv_attn_min(total, begin + job->plan.chunk_keys);
    for (int64_t first = begin; first < stop; first += job->plan.block) {
        const int64_t end = fv_attn_min(first + job->plan.block, stop);
        key_block keys = {.panels = NULL};
        row_tile last = {.rows = 0};
        for (int64_t r = 0, rows; r < block->rows; r += rows) {
            const row_tile tile = tile_at(job, block, w, r, first, end);
            const fv_attn_interval seen = tile.visible.interval;
            rows = tile.rows;
            if (seen.begin == seen.end) continue;
            if (!keys.panels) keys = block_of(job, w, block, first, end - first);
            if (end == stop || seen.end < end) prefetch_next(job, block, r, rows);
            process_next(job, w, &keys, tile, &last);
        }
        if (last.rows == 0) continue;
        process_tile(job, w, &keys, &last);
        job->bf16->flush(w->state);
    }
}

/* Stores the partial result of one chunk. */
static void end_chunk(const forward_job *job, const query_block *block, const workspace *w)
{
    const int64_t o_row = job->plan.o_row;
    for (int64_t r = 0; r < block->rows; r++) {
        float *partial = fv_attn_partial(&job->partials, block->b, block->h, r, block->chunk);
        memcpy(partial, w->o + r * o_row, (size_t)o_row * sizeof *partial);
        partial[o_row] = w->row_max[r] * job->deferred_scale;
        partial[o_row + 1] = w->sum[r];
    }
}

static void end_block(const forward_job *job, const query_block *block, const workspace *w)
{
    const fv_attn *a = job->base.a;
    const int64_t head = block->b * a->heads + block->h;
    float *lse = job->base.ptr[FV_ATTN_LSE], *inverse = w->scores;
    if (lse) lse += head * fv_attn_lse_head(a) + block->first;
    fv_attn_finish_sums(w->row_max, w->sum, block->rows, job->deferred_scale, inverse, lse);
    void *o = fv_attn_out(a, job->base.ptr[FV_ATTN_O], &a->o, block->b, block->h, block->first);
    fv_attn_narrow(a->dtype, w->o, job->plan.o_row, block->rows, a->d_v, inverse, o, a->o.row);
}

/* ---- the kernel ------------------------------------------------------------------- */

static workspace workspace_of(const forward_job *job, int thread)
{
    const forward_plan *p = &job->plan;
    float *base = job->threads + (size_t)thread * p->thread_floats;
    return (workspace){
        .q = base + p->q,
        .o = base + p->o,
        .row_max = base + p->row_max,
        .sum = base + p->sum,
        .scores = base + p->scores,
        .weights = base + p->weights,
        .keep = base + p->keep,
        .values = base + p->values,
        .panels = base + p->local_panels,
        .query_exp = base + p->query_exp,
        .key_exp = base + p->key_exp,
        .row = (fv_attn_row *)(void *)(base + p->records),
        .state = base + p->state,
    };
}

/* Work items of a key head. */
static int64_t items_of_head(const forward_job *job)
{
    const fv_attn *a = job->base.a;
    return a->heads / a->kv_heads * job->plan.query_blocks * job->plan.chunks;
}

/* Returns the next work item for `thread`: number `item`, or one of the head whose packed keys are
 * in the thread's cache. Late query blocks come first: under a causal mask they are the longest,
 * and scheduling them last would leave threads idle. */
static query_block next_work_item(const forward_job *job, int64_t item, int thread)
{
    const fv_attn *a = job->base.a;
    const forward_plan *p = &job->plan;
    const int64_t all = items_of_head(job);
    fv_attn_work_item next = {.head = item / all, .item = item % all, .slot = item / all};
    if (p->by_head) next = fv_attn_schedule_next(&job->schedule, thread);
    const int64_t row_item = next.item / p->chunks, group = a->heads / a->kv_heads;
    const int64_t first = (p->query_blocks - 1 - row_item % p->query_blocks) * p->rows;
    return (query_block){.b = next.head / a->kv_heads,
                         .h = next.head % a->kv_heads * group + row_item / p->query_blocks,
                         .first = first,
                         .rows = fv_attn_min(p->rows, a->n_q - first),
                         .chunk = next.item % p->chunks,
                         .slot = next.slot};
}

static void run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const forward_job *job = arg;
    const workspace w = workspace_of(job, thread);
    if (job->bf16 && job->bf16->begin) job->bf16->begin(w.state);
    for (int64_t item = begin; item < end; item++) {
        const query_block block = next_work_item(job, item, thread);
        begin_block(job, &block, &w);
        process_keys(job, &block, &w);
        if (job->plan.chunks > 1)
            end_chunk(job, &block, &w);
        else
            end_block(job, &block, &w);
    }
    if (job->bf16 && job->bf16->end) job->bf16->end(w.state);
}

/* Whether rows of V are copied block by block: if they are not whole cache lines or far apart, and
 * there are enough queries. bf16 and f16 always are, since the tile reads floats. */
static bool values_are_copied(const fv_attn *a, const void *v)
{
    if (fv_attn_is_half(a->dtype)) return true;
    if (a->n_q < fv_attn_float_tiling.min_rows) return false;
    return (uintptr_t)v % 64 != 0 || a->v.row % FV_LANES != 0 || a->v.head % FV_LANES != 0 ||
           a->v.row > 4 * fv_attn_round(a->d_v, FV_LANES);
}

/* Marks all panels as unpacked and all heads as unassigned. */
static void init_sharing(forward_job *job, int64_t heads, int64_t items_of_one)
{
    for (int64_t i = 0; i < heads * job->plan.keys / FV_ATTN_PANEL; i++)
        atomic_init(job->states + i, UNPACKED);
    fv_attn_schedule_init(&job->schedule, (float *)(void *)job->states + job->plan.states, heads,
                          items_of_one, job->base.exec->threads);
}

void fv_attn_forward_with(const fv_exec *exec, void *const *ptr, const fv_attn *a,
                          const fv_attn_bf16_products *bf16)
{
    if (a->score != FV_ATTN_SCORE_DOT) bf16 = NULL;
    if (a->batch == 0 || a->n_q == 0) return;
    if (fv_attn_is_decode(a)) {
        fv_attn_decode(exec, ptr, a);
        return;
    }
    if (fv_attn_is_single_query(a, ptr)) {
        fv_attn_single_query(exec, ptr, a);
        return;
    }
    const fv_attn_tiling *tiling = bf16 ? &bf16->tiling : &fv_attn_float_tiling;
    forward_job job = {.base = fv_attn_job_of(exec, a, ptr),
                       .plan = fv_attn_forward_plan(a, exec->threads, tiling),
                       .bf16 = bf16,
                       .tiling = tiling};
    /* Wider key ranges may hold keys of hidden blocks. */
    job.base.list_applied = tiling->key_step == FV_LANES;
    const bool by_softmax = bf16 && job.base.plain && job.base.factor > 0 && a->rule.dropout == 0;
    job.deferred_scale = by_softmax ? job.base.factor : 1;
    job.partials = fv_attn_partials_of(a, exec->scratch);
    job.panels = job.partials.at + job.plan.partials;
    job.values = job.panels + job.plan.panels;
    job.states = (atomic_int *)(void *)(job.values + job.plan.packed_values);
    job.threads = job.partials.at + job.plan.shared_floats;
    job.copy_values = values_are_copied(a, ptr[FV_ATTN_V]);
    const int64_t kv_heads = a->batch * a->kv_heads, items = items_of_head(&job);
    if (!job.plan.local) init_sharing(&job, kv_heads, items);
    fv_exec_rows(exec, kv_heads * items,
                 job.plan.rows * job.plan.chunk_keys * (fv_attn_width(a) + a->d_v), run_items,
                 &job);
    if (job.plan.chunks > 1)
        fv_attn_merge_partials(exec, &job.partials, ptr[FV_ATTN_O], ptr[FV_ATTN_LSE]);
}

static void forward(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn *a = args;
    if (a->varlen)
        fv_attn_run_varlen(exec, ptr, a, false, forward, fv_attn_forward_bytes);
    else
        fv_attn_forward_with(exec, ptr, a, NULL);
}

void fv_simd_attention_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_ATTENTION][FV_F32] = forward;
    t->fn[FV_KERNEL_ATTENTION][FV_BF16] = forward;
    t->fn[FV_KERNEL_ATTENTION][FV_F16] = forward;
    t->scratch[FV_KERNEL_ATTENTION] = forward_scratch;
    fv_simd_attention_grad_register(t);
}
