/*
 * Recomputes attention weights from the log-sum-exp: a window of the attention map, or a summary of
 * each row. This is the first half of the forward pass: K in panels, row tiles of six queries times
 * blocks of 256 keys, then 2^(s - lse) instead of a running maximum. Blocks start at multiples of
 * 256 keys for any window, so a weight always has the same value. Of a block, a row tile processes
 * only the key ranges that one of its queries sees.
 *
 * The weight received by each key is a sum over queries: a second pass over key blocks keeps every
 * sum in the order of the queries without an array of queries x keys.
 */
#include "base/checked_math.h"
#include "kernels/simd/attention_topk.h"
#include "kernels/simd/register.h"

enum {
    ITEM_ROWS = 96, /* queries per work item, a multiple of the row tile */
    SCORE_ROW = FV_ATTN_SCORE_ROW,
    SUM_LANES = 2 * FV_LANES, /* lanes for the entropy and the distance of a row */
};

/* Division of the work and scratch layout; offsets in floats. */
typedef struct weights_plan {
    int64_t first_kv, kv_heads;           /* key heads of the window */
    int64_t begin, end, keys, key_blocks; /* keys of its blocks; keys: in whole panels */
    int64_t query_blocks, q_row;
    size_t panels; /* shared */
    size_t q, query_exp, scores, key_exp, shift, sums, topk, records, thread_floats;
} weights_plan;

typedef struct weights_job {
    fv_attn_job base;
    fv_attn_region w;
    weights_plan plan;
    float *panels, *threads;
    void *const *out; /* of the map or of the summary */
    const fv_attn_summary_args *summary;
    int64_t top;
    bool map, stream, in_register;
} weights_job;

/* The buffers of a thread. */
typedef struct workspace {
    float *q, *scores, *shift;
    float *query_exp, *key_exp; /* additive scores: exponentials of q and of a key block */
    float *sums;                /* [rows of the work item][SUM_LANES], or one per key of a block */
    fv_attn_topk *topk;         /* of the work item's rows */
    fv_attn_row *row;
} workspace;

static weights_plan plan_of(const fv_attn *a, const fv_attn_region *w)
{
    weights_plan p = {.first_kv = fv_attn_kv_head(a, w->head)};
    p.kv_heads = w->heads > 0 ? fv_attn_kv_head(a, w->head + w->heads - 1) - p.first_kv + 1 : 0;
    p.begin = w->col / FV_ATTN_BLOCK * FV_ATTN_BLOCK;
    p.end = w->col + w->cols;
    p.keys = fv_attn_round(p.end - p.begin, FV_ATTN_PANEL);
    p.key_blocks = (p.end - p.begin + FV_ATTN_BLOCK - 1) / FV_ATTN_BLOCK;
    p.query_blocks = (w->rows + ITEM_ROWS - 1) / ITEM_ROWS;
    const int64_t width = fv_attn_width(a);
    const bool additive = a->score == FV_ATTN_SCORE_ADDITIVE;
    p.q_row = fv_attn_round(width, FV_LANES) + FV_LANES;
    p.panels = (size_t)(w->batches * p.kv_heads) * (size_t)p.keys * (size_t)width;
    size_t at = 0;
    p.q = at, at += (size_t)(ITEM_ROWS * p.q_row);
    p.query_exp = at, at += additive ? (size_t)(ITEM_ROWS * p.q_row) : 0;
    p.scores = at, at += FV_ATTN_TILE_ROWS * SCORE_ROW;
    p.key_exp = at, at += additive ? (size_t)(FV_ATTN_BLOCK * width) : 0;
    p.shift = at, at += ITEM_ROWS;
    p.sums = at, at += ITEM_ROWS * SUM_LANES; /* enough for a key block, too */
    p.topk = at, at += ITEM_ROWS * sizeof(fv_attn_topk) / sizeof(float);
    p.records = at, at += fv_attn_lines(ITEM_ROWS * sizeof(fv_attn_row) / sizeof(float));
    p.thread_floats = at;
    return p;
}

static size_t scratch_of(const fv_attn *a, const fv_attn_region *w, int threads)
{
    /* K may be broadcast over heads and batch, so the size of its panels may overflow. */
    size_t panels;
    if (!fv_checked_mul_size((size_t)a->batch, (size_t)a->kv_heads, &panels) ||
        !fv_checked_mul_size(panels, (size_t)(a->n_k + FV_ATTN_BLOCK) * (size_t)fv_attn_width(a),
                             &panels) ||
        panels > SIZE_MAX / 16)
        return SIZE_MAX;
    const weights_plan p = plan_of(a, w);
    return (p.panels + (size_t)threads * p.thread_floats) * sizeof(float);
}

/* ---- packing ---------------------------------------------------------------------- */

static float *panels_of(const weights_job *job, int64_t b, int64_t kv_head, int64_t first)
{
    const weights_plan *p = &job->plan;
    const int64_t head = (b - job->w.batch) * p->kv_heads + kv_head - p->first_kv;
    return job->panels + (head * p->keys + first - p->begin) * fv_attn_width(job->base.a);
}

static void pack_keys(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const weights_job *job = arg;
    const fv_attn *a = job->base.a;
    const weights_plan *p = &job->plan;
    for (int64_t item = begin; item < end; item++) {
        const int64_t head = item / p->key_blocks;
        const int64_t first = p->begin + item % p->key_blocks * FV_ATTN_BLOCK;
        const int64_t b = job->w.batch + head / p->kv_heads, h = p->first_kv + head % p->kv_heads;
        const int64_t last =
            fv_attn_min(p->end, fv_attn_keys(a, job->base.ptr[FV_ATTN_KEY_LENGTHS], b));
        const int64_t keys = fv_attn_min(FV_ATTN_BLOCK, last - first);
        if (keys <= 0) continue;
        const void *k = fv_attn_at(a, job->base.ptr[FV_ATTN_K], &a->k, b, h, first);
        float *panels = panels_of(job, b, h, first);
        fv_attn_pack(a->dtype, k, a->k.row, keys, a->d, panels);
        if (a->score == FV_ATTN_SCORE_ADDITIVE) fv_attn_pack_zeros(keys, a->d, panels);
    }
}

/* ---- weights of a row tile ------------------------------------------------------------- */

/* Queries [first, first + rows) of one head. */
typedef struct query_block {
    int64_t b, h, first, rows;
} query_block;

static void load_rows(const weights_job *job, const query_block *block, const workspace *w)
{
    const fv_attn *a = job->base.a;
    const float *lse = job->base.ptr[FV_ATTN_LSE];
    lse += (block->b * a->heads + block->h) * fv_attn_lse_head(a) + block->first;
    fv_attn_fill_rows(&job->base, block->b, block->h, block->first, block->rows, w->row);
    for (int64_t r = 0; r < block->rows; r++) /* no visible key: weights 2^(-inf - inf) = 0 */
        w->shift[r] = lse[r] == -INFINITY ? INFINITY : (float)((double)lse[r] * FV_ATTN_LOG2E);
}

static void load_queries(const weights_job *job, const query_block *block, const workspace *w)
{
    const fv_attn *a = job->base.a;
    if (a->score == FV_ATTN_SCORE_NONE) return;
    const int64_t stride = job->plan.q_row;
    const void *q =
        fv_attn_at(a, job->base.ptr[FV_ATTN_Q], &a->q, block->b, block->h, block->first);
    fv_attn_widen(a->dtype, q, a->q.row, block->rows, a->d, job->base.operand, w->q, stride);
    for (int64_t r = 0; r < block->rows && a->score == FV_ATTN_SCORE_ADDITIVE; r++)
        fv_attn_exp_2x(w->q + r * stride, a->d, w->query_exp + r * stride);
}

/* Scores to weights. sums, unless NULL: lanes that accumulate the entropy and the distance of the
 * row. They are reduced at the end of the row, so the number of key ranges does not affect them. */
V_INLINE void exp_row(float *s, int64_t cols, float shift, float from_query, float *sums)
{
    const vf offset = v_set(shift), floor = v_set(-200.0f);
    const vf lanes = v_add(vi_to_float(vi_count()), v_set(from_query));
    vf entropy = sums ? v_load(sums, FV_LANES) : v_zero();
    vf distance = sums ? v_load(sums + FV_LANES, FV_LANES) : v_zero();
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        const vf t = v_sub(v_load(s + c, FV_LANES), offset), p = fv_attn_exp2(t);
        v_store(s + c, FV_LANES, p);
        if (!sums) continue;
        entropy = v_fma(p, v_max(floor, t), entropy); /* -200 x 0 where t is -inf; NaN stays */
        distance = v_fma(p, v_abs(v_add(lanes, v_set((float)c))), distance);
    }
    if (!sums) return;
    v_store(sums, FV_LANES, entropy);
    v_store(sums + FV_LANES, FV_LANES, distance);
}

/* A key block as seen by the row tiles. */
typedef struct key_block {
    int64_t first, end; /* end: at most the sequence's keys */
    const float *panels;
    bool has_exp; /* additive scores: every key has an exponential in range */
} key_block;

static key_block keys_of(const weights_job *job, const workspace *w, int64_t b, int64_t h,
                         int64_t first)
{
    const fv_attn *a = job->base.a;
    const int64_t total = fv_attn_keys(a, job->base.ptr[FV_ATTN_KEY_LENGTHS], b);
    const int64_t end = fv_attn_min(first + FV_ATTN_BLOCK, fv_attn_min(job->plan.end, total));
    key_block keys = {.first = first,
                      .end = fv_attn_max(first, end),
                      .panels = panels_of(job, b, fv_attn_kv_head(a, h), first)};
    const int64_t packed = fv_attn_round(keys.end - first, FV_ATTN_PANEL) * a->d;
    if (a->score == FV_ATTN_SCORE_ADDITIVE)
        keys.has_exp = fv_attn_exp_2x(keys.panels, packed, w->key_exp);
    return keys;
}

/* Weights of rows [r, r + rows) of the work item with a key range, into w->scores. */
static void weights_of_tile(const weights_job *job, const workspace *w, const key_block *block,
                            int64_t r, int rows, fv_attn_interval keys, bool summed)
{
    const int64_t cols = fv_attn_round(keys.end - keys.begin, FV_LANES);
    const int64_t stride = job->plan.q_row;
    const fv_attn_additive_operands operands = {.q = w->q + r * stride,
                                                .query_exp = w->query_exp + r * stride,
                                                .q_row = stride,
                                                .query_exp_row = stride,
                                                .k = block->panels,
                                                .key_exp = w->key_exp,
                                                .w = w->row[r].w,
                                                .width = job->base.a->d,
                                                .missing = !block->has_exp};
    fv_attn_score_tile(&job->base, &operands, rows, keys.begin - block->first, cols, w->scores,
                       SCORE_ROW);
    for (int i = 0; i < rows; i++) {
        const fv_attn_row *row = w->row + r + i;
        float *s = w->scores + i * SCORE_ROW;
        fv_attn_finish_scores(&job->base, row, keys.begin, cols, s, NULL);
        if (summed)
            exp_row(s, cols, w->shift[r + i], (float)(keys.begin - row->position),
                    w->sums + (r + i) * SUM_LANES);
        else
            exp_row(s, cols, w->shift[r + i], 0, NULL);
    }
}

/* ---- results --------------------------------------------------------------------------- */

static void put_run(const weights_job *job, float *to, int64_t col, int64_t n, const float *p)
{
    if (col == 1) {
        const bool stream = job->stream;
        if (p)
            V_LOOP(n, v_head(to, n, stream), v_put(to + i, count, v_load(p + i, count), stream));
        else
            V_LOOP(n, v_head(to, n, stream), v_put(to + i, count, v_zero(), stream));
        return;
    }
    for (int64_t c = 0; c < n; c++)
        to[c * col] = p ? p[c] : 0;
}

/* Keys [first, end) of one row of the map, clipped to the window; p NULL: zeros. */
static void put_keys(const weights_job *job, const query_block *block, int64_t r, int64_t first,
                     int64_t end, const float *p)
{
    const fv_attn_region *w = &job->w;
    const fv_attn_grid *g = &w->out;
    const int64_t low = fv_attn_max(first, w->col), high = fv_attn_min(end, w->col + w->cols);
    if (low >= high) return;
    float *out = (float *)job->out[FV_ATTN_MAP_OUT] + (block->b - w->batch) * g->batch +
                 (block->h - w->head) * g->head + (block->first + r - w->row) * g->row +
                 (low - w->col) * g->col;
    put_run(job, out, g->col, high - low, p ? p + low - first : NULL);
}

static int64_t row_number(const weights_job *job, const query_block *block, int64_t r)
{
    const int64_t head = block->b * job->base.a->heads + block->h;
    return fv_attn_summary_row(job->summary, head, block->first + r);
}

static void begin_summary(const weights_job *job, const query_block *block, const workspace *w)
{
    memset(w->sums, 0, (size_t)block->rows * SUM_LANES * sizeof(float));
    for (int64_t r = 0; r < block->rows && job->top > 0; r++)
        for (int l = 0; l < FV_LANES; l++) {
            w->topk[r].weight[l] = 0;
            w->topk[r].key[l] = -1;
        }
    float *weight = job->out[FV_ATTN_TOP_WEIGHT];
    int64_t *index = job->out[FV_ATTN_TOP_INDEX];
    const int64_t first = row_number(job, block, 0) * job->top;
    for (int64_t e = first; e < first + block->rows * job->top; e++) {
        weight[e] = 0;
        index[e] = -1;
    }
}

static void add_largest(const weights_job *job, const query_block *block, const workspace *w,
                        int64_t r, const float *p, fv_attn_interval keys)
{
    const int64_t cols = fv_attn_round(keys.end - keys.begin, FV_LANES);
    if (job->in_register) {
        fv_attn_topk_add(w->topk + r, p, keys.begin, cols);
        return;
    }
    const int64_t first = job->summary->first_key + keys.begin;
    const int64_t at = row_number(job, block, r) * job->top;
    float *weight = (float *)job->out[FV_ATTN_TOP_WEIGHT] + at;
    int64_t *index = (int64_t *)job->out[FV_ATTN_TOP_INDEX] + at;
    fv_attn_sorted_add(weight, index, job->top, p, first, cols);
}

static void end_summary(const weights_job *job, const query_block *block, const workspace *w)
{
    float *entropy = job->out[FV_ATTN_ENTROPY], *distance = job->out[FV_ATTN_DISTANCE];
    float *weight = job->out[FV_ATTN_TOP_WEIGHT];
    int64_t *index = job->out[FV_ATTN_TOP_INDEX];
    for (int64_t r = 0; r < block->rows; r++) {
        const int64_t row = row_number(job, block, r);
        const float *sums = w->sums + r * SUM_LANES;
        /* 0 - x: a row with a single key has entropy 0, not -0 */
        if (entropy) entropy[row] = 0 - v_reduce_sum(v_load(sums, FV_LANES)) * (float)FV_ATTN_LN2;
        if (distance) distance[row] = v_reduce_sum(v_load(sums + FV_LANES, FV_LANES));
        for (int64_t e = 0; e < job->top && job->in_register; e++) {
            weight[row * job->top + e] = w->topk[r].weight[e];
            const int32_t key = w->topk[r].key[e];
            index[row * job->top + e] = key < 0 ? -1 : job->summary->first_key + key;
        }
    }
}

/* ---- by query blocks -------------------------------------------------------------------- */

static workspace workspace_of(const weights_job *job, int thread)
{
    const weights_plan *p = &job->plan;
    float *base = job->threads + (size_t)thread * p->thread_floats;
    return (workspace){.q = base + p->q,
                       .query_exp = base + p->query_exp,
                       .key_exp = base + p->key_exp,
                       .scores = base + p->scores,
                       .shift = base + p->shift,
                       .sums = base + p->sums,
                       .topk = (fv_attn_topk *)(void *)(base + p->topk),
                       .row = (fv_attn_row *)(void *)(base + p->records)};
}

/* A row tile and a key block: range by range into the map, with zeros between, or into the
 * summary. */
static void process_tile(const weights_job *job, const query_block *block, const workspace *w,
                         const key_block *all, int64_t r, int rows)
{
    const bool summed = !job->map && (job->out[FV_ATTN_ENTROPY] || job->out[FV_ATTN_DISTANCE]);
    const fv_attn_visible_keys visible =
        fv_attn_find_visible_keys(job->base.a, w->row + r, rows, all->first, all->end);
    int64_t done = all->first;
    for (fv_attn_interval range = {done, done};
         fv_attn_next_key_range(&visible, all->first, &range);) {
        weights_of_tile(job, w, all, r, rows, range, summed);
        for (int i = 0; i < rows; i++) {
            const float *p = w->scores + i * SCORE_ROW;
            if (job->map) {
                put_keys(job, block, r + i, done, range.begin, NULL);
                put_keys(job, block, r + i, range.begin, range.end, p);
            } else if (job->top > 0) {
                add_largest(job, block, w, r + i, p, range);
            }
        }
        done = range.end;
    }
    for (int i = 0; i < rows && job->map; i++)
        put_keys(job, block, r + i, done, all->first + FV_ATTN_BLOCK, NULL);
}

static void run_query_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const weights_job *job = arg;
    const weights_plan *p = &job->plan;
    const workspace w = workspace_of(job, thread);
    for (int64_t item = begin; item < end; item++) {
        const int64_t head = item / p->query_blocks;
        const int64_t row = item % p->query_blocks * ITEM_ROWS;
        const query_block block = {.b = job->w.batch + head / job->w.heads,
                                   .h = job->w.head + head % job->w.heads,
                                   .first = job->w.row + row,
                                   .rows = fv_attn_min(ITEM_ROWS, job->w.rows - row)};
        load_rows(job, &block, &w);
        load_queries(job, &block, &w);
        if (!job->map) begin_summary(job, &block, &w);
        for (int64_t first = p->begin; first < p->end; first += FV_ATTN_BLOCK) {
            const key_block keys = keys_of(job, &w, block.b, block.h, first);
            for (int64_t r = 0, rows; r < block.rows; r += rows) {
                rows = fv_attn_tile_rows(job->base.a, block.first + r, block.rows - r);
                process_tile(job, &block, &w, &keys, r, (int)rows);
            }
        }
        if (!job->map) end_summary(job, &block, &w);
    }
    v_stream_end(job->stream);
}

/* ---- by key blocks ---------------------------------------------------------------------- */

static void add_rows(float *sum, const float *p, int rows, int64_t cols)
{
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        vf all = v_load(sum + c, FV_LANES);
        for (int i = 0; i < rows; i++)
            all = v_add(all, v_load(p + i * SCORE_ROW + c, FV_LANES));
        v_store(sum + c, FV_LANES, all);
    }
}

static void run_key_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const weights_job *job = arg;
    const fv_attn *a = job->base.a;
    const weights_plan *p = &job->plan;
    const workspace w = workspace_of(job, thread);
    float *sums = w.sums;
    for (int64_t item = begin; item < end; item++) {
        const int64_t head = item / p->key_blocks, first = item % p->key_blocks * FV_ATTN_BLOCK;
        const int64_t b = head / a->heads, h = head % a->heads;
        const key_block block = keys_of(job, &w, b, h, first);
        memset(sums, 0, FV_ATTN_BLOCK * sizeof(float));
        for (int64_t i = 0, rows; i < a->n_q && first < block.end; i += rows) {
            rows = fv_attn_tile_rows(a, i, a->n_q - i);
            const query_block tile = {.b = b, .h = h, .first = i, .rows = rows};
            load_rows(job, &tile, &w);
            const fv_attn_visible_keys visible =
                fv_attn_find_visible_keys(a, w.row, (int)rows, first, block.end);
            if (visible.groups == 0) continue;
            load_queries(job, &tile, &w);
            for (fv_attn_interval range = {first, first};
                 fv_attn_next_key_range(&visible, first, &range);) {
                weights_of_tile(job, &w, &block, 0, (int)rows, range, false);
                add_rows(sums + range.begin - first, w.scores, (int)rows,
                         fv_attn_round(range.end - range.begin, FV_LANES));
            }
        }
        float *received =
            (float *)job->out[FV_ATTN_RECEIVED] + fv_attn_summary_key(job->summary, head, first);
        memcpy(received, sums, (size_t)fv_attn_min(FV_ATTN_BLOCK, a->n_k - first) * sizeof(float));
    }
}

/* ---- the kernels ------------------------------------------------------------------ */

static weights_job job_of(const fv_exec *exec, const fv_attn *a, const fv_attn_region *w,
                          void *const *inputs)
{
    weights_job job = {.base = fv_attn_job_of(exec, a, inputs),
                       .w = *w,
                       .plan = plan_of(a, w),
                       .panels = exec->scratch};
    job.base.list_applied = true;
    job.threads = job.panels + job.plan.panels;
    if (a->score != FV_ATTN_SCORE_NONE)
        fv_exec_rows(exec, w->batches * job.plan.kv_heads * job.plan.key_blocks,
                     FV_ATTN_BLOCK * a->d, pack_keys, &job);
    return job;
}

/* Scratch for the whole map, for fv_attn_whole_scratch. */
static size_t whole_bytes(const void *args, int threads)
{
    const fv_attn *a = args;
    fv_attn_region all;
    fv_attn_region_init(&all, sizeof all, a);
    return scratch_of(a, &all, threads);
}

static void attention_map(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn_weights_args *m = args;
    const fv_attn_region *w = &m->region;
    if (w->batches * w->heads * w->rows * w->cols == 0) return;
    if (m->a.varlen) {
        fv_attn_weights_varlen(exec, ptr, m, attention_map, whole_bytes);
        return;
    }
    weights_job job = job_of(exec, &m->a, w, ptr + FV_ATTN_MAP_INPUTS);
    job.out = ptr;
    job.map = true;
    job.stream = w->out.col == 1 && v_streams(w->batches * w->heads * w->rows, w->cols, ptr, NULL);
    fv_exec_rows(exec, w->batches * w->heads * job.plan.query_blocks, ITEM_ROWS * w->cols * m->a.d,
                 run_query_items, &job);
}

static void attention_summary(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn_summary_args *s = args;
    const fv_attn *a = &s->a;
    if (a->varlen) {
        fv_attn_summary_varlen(exec, ptr, s, attention_summary, whole_bytes);
        return;
    }
    fv_attn_region all;
    fv_attn_region_init(&all, sizeof all, a);
    weights_job job = job_of(exec, a, &all, ptr + FV_ATTN_SUMMARY_INPUTS);
    job.out = ptr;
    job.summary = s;
    job.top = s->top;
    job.in_register = fv_attn_topk_in_register(s->top, a->n_k);
    if (s->top > 0 || ptr[FV_ATTN_ENTROPY] || ptr[FV_ATTN_DISTANCE])
        fv_exec_rows(exec, a->batch * a->heads * job.plan.query_blocks, ITEM_ROWS * a->n_k * a->d,
                     run_query_items, &job);
    if (ptr[FV_ATTN_RECEIVED])
        fv_exec_rows(exec, a->batch * a->heads * job.plan.key_blocks, FV_ATTN_BLOCK * a->n_q * a->d,
                     run_key_items, &job);
}

static size_t map_scratch(const void *args, int threads)
{
    const fv_attn_weights_args *m = args;
    return m->a.varlen ? fv_attn_whole_scratch(&m->a, threads, whole_bytes)
                       : scratch_of(&m->a, &m->region, threads);
}

static size_t summary_scratch(const void *args, int threads)
{
    const fv_attn_summary_args *s = args;
    return fv_attn_whole_scratch(&s->a, threads, whole_bytes);
}

void fv_simd_attention_weights_register(fv_kernel_table *t)
{
    static const fv_dtype types[] = {FV_F32, FV_BF16, FV_F16};
    for (int i = 0; i < 3; i++) {
        t->fn[FV_KERNEL_ATTENTION_MAP][types[i]] = attention_map;
        t->fn[FV_KERNEL_ATTENTION_SUMMARY][types[i]] = attention_summary;
    }
    t->scratch[FV_KERNEL_ATTENTION_MAP] = map_scratch;
    t->scratch[FV_KERNEL_ATTENTION_SUMMARY] = summary_scratch;
}
