/*
 * Attention forward for up to eight queries over a long KV cache. It is limited by the speed at
 * which K and V stream in, so both are read once, in order and in place. The queries of all heads
 * that share a key head are processed together, up to sixteen at a time.
 *
 * Scores. A product q . k runs over the width in vectors: element c goes to lane c mod 16, and the
 * lanes of sixteen products are reduced in one tree of shuffles (reduce). One query is multiplied
 * by sixteen keys at a time, four queries by four keys; the sums are the same.
 *
 * CPUs with bf16 dot products use other functions for both products (attention_decode_bf16.c).
 *
 * Keys are split into chunks (attention_merge.c), so neither the threads nor the other queries
 * affect the bits.
 */
#include "kernels/simd/attention_simd.h"

#include "kernels/simd/half_simd.h"

enum {
    ITEM_ROWS = 16, /* queries processed together with a key block */
    PV_VECS = FV_SIMD_LEVEL == 3 ? 8 : 4,
    DOT_NUMBERS = FV_LANES
};

typedef vf dot_vec;

V_INLINE int64_t size_of(const fv_dtype type) { return type == FV_F32 ? 4 : 2; }
V_INLINE vf load_stored(const fv_dtype type, const char *p, int count)
{
    const void *x = p;
    return type == FV_F32 ? v_load(x, count) : v_load_half(type, x, count);
}
V_INLINE vf dot_key(const fv_dtype type, const char *p, int count)
{
    return load_stored(type, p, count);
}
V_INLINE vf dot_query(const float *p) { return v_load(p, FV_LANES); }
V_INLINE vf dot_add(vf query, vf key, vf sum) { return v_fma(query, key, sum); }

#if FV_SIMD_LEVEL == 3
/* In column order. */
V_INLINE void pv_load(const fv_dtype type, const char *p, int64_t count, vf *x)
{
    const uint16_t *at = (const uint16_t *)(const void *)p;
    x[0] = v_load_half(type, at, count < FV_LANES ? (int)count : FV_LANES);
    if (count >= 2 * FV_LANES)
        x[1] = v_load_half(type, at + FV_LANES, FV_LANES);
    else if (count > FV_LANES)
        x[1] = v_load_half(type, at + FV_LANES, (int)count - FV_LANES);
    else
        x[1] = v_zero();
}
#endif

#include "kernels/simd/attention_decode.h"

/* Division of the work and scratch layout; offsets in floats. */
typedef struct decode_plan {
    int64_t rows, row_tiles, chunks; /* rows: queries of all heads that share a key head */
    int64_t q_row, o_row;
    size_t q, o, scores, keep, wide, records, thread_floats; /* per thread */
} decode_plan;

typedef struct decode_job {
    fv_attn_job base;
    decode_plan plan;
    fv_attn_partials partials;
    const fv_attn_decode_products *bf16; /* or NULL */
    float *threads;
} decode_job;

/* The buffers of a thread. */
typedef struct workspace {
    float *q, *scores, *keep;
    float *o, *next;   /* weighted sums so far, and including the current block */
    fv_attn_rows wide; /* a block of K or V converted to floats */
    fv_attn_row *row;
    float row_max[ITEM_ROWS], sum[ITEM_ROWS];
} workspace;

static int64_t wide_row(const decode_plan *p) { return fv_attn_max(p->q_row, p->o_row); }

static decode_plan plan_of(const fv_attn *a)
{
    decode_plan p = {.rows = a->heads / a->kv_heads * a->n_q};
    p.row_tiles = (p.rows + ITEM_ROWS - 1) / ITEM_ROWS;
    p.chunks = fv_attn_chunks(a);
    p.q_row = fv_attn_round(a->d, FV_LANES);
    p.o_row = fv_attn_deinterleaved_row(a->d_v);
    size_t at = 0;
    p.q = at, at += (size_t)(ITEM_ROWS * p.q_row);
    p.o = at, at += (size_t)(2 * ITEM_ROWS * p.o_row);
    p.scores = at, at += (size_t)ITEM_ROWS * FV_ATTN_SCORE_ROW;
    p.keep = at, at += FV_ATTN_BLOCK;
    p.wide = at, at += fv_attn_is_half(a->dtype) ? (size_t)(FV_ATTN_BLOCK * wide_row(&p)) : 0;
    p.records = at, at += fv_attn_lines(ITEM_ROWS * sizeof(fv_attn_row) / sizeof(float));
    p.thread_floats = at;
    return p;
}

size_t fv_attn_decode_scratch(const fv_attn *a, int threads)
{
    const decode_plan p = plan_of(a);
    const size_t partials = fv_attn_partial_floats(a);
    if (partials == SIZE_MAX) return SIZE_MAX;
    return (partials + (size_t)threads * p.thread_floats) * sizeof(float);
}

/* ---- scores ----------------------------------------------------------------------- */

DOT_TILES(FV_F32)
DOT_TILES(FV_BF16)
DOT_TILES(FV_F16)

static void products(const dots *all, fv_dtype type, int rows, int64_t keys)
{
    static const dot_fn tiles[3][3][3] = {DOT_NAMES(FV_F32), DOT_NAMES(FV_BF16), DOT_NAMES(FV_F16)};
    dot_products(tiles[type == FV_F32 ? 0 : type == FV_BF16 ? 1 : 2], all, rows, keys);
}

/* ---- P V ---------------------------------------------------------------------------- */

/* next = o + the sum of p[j] v[j] over one row of weights, `vecs` vectors of columns. */
V_INLINE void pv_columns(const fv_tile *t, const stored *values, int64_t ahead, const fv_dtype type,
                         const int vecs, int count)
{
    const int64_t step = FV_LANES * size_of(type);
    vf sum[PV_VECS];
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        sum[v] = v_load(t->from + v * FV_LANES, FV_LANES);
    const char *b = values->at;
    for (int64_t j = 0; j < t->k; j++, b += values->row) {
        const vf p = v_set(t->a[j]);
        prefetch(b, ahead, vecs * step);
        FV_UNROLL
        for (int v = 0; v < vecs; v++)
            sum[v] = v_fma(p, load_stored(type, b + v * step, count), sum[v]);
    }
    FV_UNROLL
    for (int v = 0; v < vecs; v++)
        v_store(t->c + v * FV_LANES, FV_LANES, sum[v]);
}

V_INLINE void pv_row_of(const fv_tile *all, const stored *values, const fv_dtype type, int64_t cols)
{
    const int64_t ahead = bytes_ahead(values, size_of(type), cols);
    fv_tile t = *all;
    stored v = *values;
    for (int64_t c = 0, step; c < cols; c += step) {
        const int64_t left = cols - c;
        v.at = values->at + c * size_of(type);
        t.from = all->from + c;
        t.c = all->c + c;
        if (left >= PV_VECS * FV_LANES) {
            step = PV_VECS * FV_LANES;
            pv_columns(&t, &v, ahead, type, PV_VECS, FV_LANES);
        } else if (left >= 4 * FV_LANES) {
            step = 4 * FV_LANES;
            pv_columns(&t, &v, ahead, type, 4, FV_LANES);
        } else {
            step = FV_LANES;
            pv_columns(&t, &v, ahead, type, 1, (int)fv_attn_min(FV_LANES, left));
        }
    }
}

V_INLINE void pv_row(const fv_tile *t, const stored *values, fv_dtype type, int64_t cols)
{
    if (type == FV_BF16)
        pv_row_of(t, values, FV_BF16, cols);
    else if (type == FV_F16)
        pv_row_of(t, values, FV_F16, cols);
    else
        pv_row_of(t, values, FV_F32, cols);
}

/* The tile with its B as floats: in place, or converted. */
V_INLINE fv_tile with_floats(const fv_tile *t, const stored *values, fv_dtype type, int64_t cols,
                             fv_attn_rows buffer)
{
    fv_tile wide = *t;
    wide.b = type == FV_F32 ? (const float *)(const void *)values->at : buffer.at;
    wide.b_row = type == FV_F32 ? values->row / size_of(FV_F32) : buffer.row;
    if (type == FV_F32) return wide;
    const int64_t row = values->row / size_of(type);
    fv_attn_widen_rows(type, values->at, row, t->k, cols, buffer.at, buffer.row);
    return wide;
}

#if FV_SIMD_LEVEL == 3
PV_TILES(FV_BF16)
PV_TILES(FV_F16)

/* Several rows of weights with bf16 or f16 values, which are converted in registers. */
static void pv_half(const fv_tile *t, const stored *values, fv_dtype type, int rows, int64_t cols)
{
    static const pv_fn tiles[2][PV_ROWS][3] = {PV_NAMES(FV_BF16), PV_NAMES(FV_F16)};
    pv_row_tiles(tiles[type == FV_F16], NULL, t, values, rows, cols);
}
#endif

/* Several rows, or columns that need more than one pass, are processed in groups of keys that stay
 * in L1 between passes. */
V_INLINE void pv(const fv_tile *all, const stored *values, fv_dtype type, int rows, int64_t cols,
                 fv_attn_rows buffer)
{
    const bool once = rows == 1 && cols <= PV_VECS * FV_LANES;
    const int64_t piece = once ? all->k : PIECE_KEYS;
    fv_tile t = *all;
    stored v = *values;
    for (int64_t j = 0; j < all->k; j += piece) {
        t.k = fv_attn_min(piece, all->k - j);
        t.a = all->a + j;
        v.at = values->at + j * values->row;
        if (j > 0) t.from = t.c;
        if (rows == 1) {
            pv_row(&t, &v, type, cols);
        } else {
            const fv_tile floats = with_floats(&t, &v, type, cols, buffer);
            fv_attn_product(&floats, rows, cols, false);
        }
    }
}

/* ---- one work item ----------------------------------------------------------------- */

typedef struct query {
    int64_t h, i;
} query;

/* At most sixteen queries, of heads that share a key head, over one chunk of keys. */
typedef struct decode_item {
    int64_t b, kv_head, chunk;
    query first;
    int rows;
} decode_item;

/* Counting avoids divisions for each query, which would matter for short caches. */
static query next_query(const decode_job *job, query x)
{
    return x.i + 1 < job->base.a->n_q ? (query){x.h, x.i + 1} : (query){x.h + 1, 0};
}

static void begin_item(const decode_job *job, const decode_item *item, workspace *w)
{
    const fv_attn *a = job->base.a;
    const decode_plan *p = &job->plan;
    /* bf16 queries are loaded in whole vectors. */
    if (!job->bf16) memset(w->q, 0, (size_t)(item->rows * p->q_row) * sizeof(float));
    memset(w->o, 0, (size_t)(item->rows * p->o_row) * sizeof(float));
    query x = item->first;
    for (int r = 0; r < item->rows; r++, x = next_query(job, x)) {
        fv_attn_fill_rows(&job->base, item->b, x.h, x.i, 1, w->row + r);
        w->row_max[r] = -INFINITY;
        w->sum[r] = 0;
        const void *from = fv_attn_at(a, job->base.ptr[FV_ATTN_Q], &a->q, item->b, x.h, x.i);
        float *q = w->q + r * p->q_row;
        if (job->bf16)
            job->bf16->load(from, a->q.row, 1, a->d, q, p->q_row);
        else
            fv_attn_widen(a->dtype, from, a->q.row, 1, a->d, job->base.factor, q, p->q_row);
    }
}

/* Rows of K or V from key `first` on. */
static stored rows_of(const decode_job *job, const decode_item *item, int array,
                      const fv_attn_layout *l, int64_t first)
{
    const fv_attn *a = job->base.a;
    return (stored){.at = fv_attn_at(a, job->base.ptr[array], l, item->b, item->kv_head, first),
                    .row = l->row * (int64_t)fv_dtype_size(a->dtype)};
}

V_INLINE dots dots_of(const decode_job *job, const decode_item *item, const workspace *w,
                      int64_t first)
{
    const fv_attn *a = job->base.a;
    const stored k = rows_of(job, item, FV_ATTN_K, &a->k, first);
    return (dots){.q = w->q,
                  .q_row = job->plan.q_row,
                  .k = k,
                  .ahead = bytes_ahead(&k, size_of(a->dtype), a->d),
                  .width = a->d,
                  .s = w->scores};
}

/* Scores in base 2 of every query with those keys. Each branch has its own operands, so that the
 * compiler can keep them in registers. */
V_INLINE void score_keys(const decode_job *job, const decode_item *item, const workspace *w,
                         fv_attn_interval keys)
{
    const int64_t count = keys.end - keys.begin, cols = fv_attn_round(count, FV_LANES);
    if (job->bf16) {
        const dots t = dots_of(job, item, w, keys.begin);
        job->bf16->products(&t, item->rows, count);
        for (int r = 0; r < item->rows; r++)
            fv_attn_scale_row(w->scores + r * FV_ATTN_SCORE_ROW, cols, job->base.factor);
    } else {
        const dots t = dots_of(job, item, w, keys.begin);
        products(&t, job->base.a->dtype, item->rows, count);
    }
    for (int r = 0; r < item->rows; r++) {
        float *row = w->scores + r * FV_ATTN_SCORE_ROW;
        fv_attn_finish_scores(&job->base, w->row + r, keys.begin, cols, row, NULL);
    }
}

/* next = o + weights values, over `keys` keys; the caller sets the values. */
V_INLINE fv_tile pv_tile_of(const decode_job *job, const workspace *w, int64_t keys)
{
    const int64_t o_row = job->plan.o_row;
    return (fv_tile){.k = keys,
                     .a = w->scores,
                     .a_row = FV_ATTN_SCORE_ROW,
                     .a_col = 1,
                     .from = w->o,
                     .from_row = o_row,
                     .c = w->next,
                     .c_row = o_row};
}

/* The same if a hidden value is NaN or infinite: zero weights are skipped. */
static void pv_skip_zeros(const decode_job *job, const decode_item *item, const workspace *w,
                          const stored *v, int64_t keys)
{
    const fv_attn *a = job->base.a;
    fv_tile t = pv_tile_of(job, w, keys);
    if (job->bf16) {
        job->bf16->deinterleave(v->at, a->v.row, keys, a->d_v, w->wide.at, w->wide.row);
        t.b = w->wide.at;
        t.b_row = w->wide.row;
    } else {
        t = with_floats(&t, v, a->dtype, a->d_v, w->wide);
    }
    fv_attn_product(&t, item->rows, job->bf16 ? t.c_row : a->d_v, true);
}

V_INLINE void pv_keys(const decode_job *job, const decode_item *item, const workspace *w,
                      fv_attn_interval interval)
{
    const fv_attn *a = job->base.a;
    const int64_t keys = interval.end - interval.begin, o_row = job->plan.o_row;
    const stored v = rows_of(job, item, FV_ATTN_V, &a->v, interval.begin);
    if (job->bf16) {
        const fv_tile t = pv_tile_of(job, w, keys);
        job->bf16->pv(&t, &v, item->rows, a->d_v);
#if FV_SIMD_LEVEL == 3
    } else if (fv_attn_is_half(a->dtype) && item->rows > 1) {
        const fv_tile t = pv_tile_of(job, w, keys);
        pv_half(&t, &v, a->dtype, item->rows, a->d_v);
#endif
    } else {
        const fv_tile t = pv_tile_of(job, w, keys);
        pv(&t, &v, a->dtype, item->rows, a->d_v, w->wide);
    }
    const int64_t cols = job->bf16 ? o_row : a->d_v;
    if (!fv_attn_finite(FV_F32, w->next, o_row, item->rows, cols))
        pv_skip_zeros(job, item, w, &v, keys);
}

static void process_keys(const decode_job *job, const decode_item *item, workspace *w,
                         fv_attn_interval keys)
{
    const fv_attn *a = job->base.a;
    const int64_t o_row = job->plan.o_row;
    const int64_t cols = fv_attn_round(keys.end - keys.begin, FV_LANES);
    score_keys(job, item, w, keys);
    float rescale[FV_LANES];
    fv_attn_softmax(w->scores, FV_ATTN_SCORE_ROW, item->rows, cols, w->row_max, w->sum, rescale);
    for (int r = 0; r < item->rows; r++) {
        float *row = w->scores + r * FV_ATTN_SCORE_ROW;
        if (rescale[r] != 1) fv_attn_scale_row(w->o + r * o_row, o_row, rescale[r]);
        if (a->rule.dropout == 0) continue;
        fv_attn_apply_dropout(&job->base, w->row + r, keys.begin, cols, w->keep, row);
    }
    pv_keys(job, item, w, keys);
    float *o = w->o;
    w->o = w->next;
    w->next = o;
}

static void end_item(const decode_job *job, const decode_item *item, const workspace *w)
{
    const int64_t o_row = job->partials.o_row;
    query x = item->first;
    for (int r = 0; r < item->rows; r++, x = next_query(job, x)) {
        float *partial = fv_attn_partial(&job->partials, item->b, x.h, x.i, item->chunk);
        const float *o = w->o + r * job->plan.o_row;
        if (job->bf16)
            job->bf16->interleave(o, job->base.a->d_v, partial);
        else
            memcpy(partial, o, (size_t)o_row * sizeof *partial);
        partial[o_row] = w->row_max[r];
        partial[o_row + 1] = w->sum[r];
    }
}

static workspace workspace_of(const decode_job *job, int thread)
{
    const decode_plan *p = &job->plan;
    float *base = job->threads + (size_t)thread * p->thread_floats;
    return (workspace){.q = base + p->q,
                       .o = base + p->o,
                       .next = base + p->o + ITEM_ROWS * p->o_row,
                       .scores = base + p->scores,
                       .keep = base + p->keep,
                       .wide = {base + p->wide, wide_row(p)},
                       .row = (fv_attn_row *)(void *)(base + p->records)};
}

static void run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const decode_job *job = arg;
    const fv_attn *a = job->base.a;
    const decode_plan *p = &job->plan;
    workspace w = workspace_of(job, thread);
    for (int64_t n = begin; n < end; n++) {
        const int64_t head = n / p->chunks / p->row_tiles, kv_head = head % a->kv_heads;
        const int64_t first_row = n / p->chunks % p->row_tiles * ITEM_ROWS;
        const int64_t h = kv_head * (a->heads / a->kv_heads) + first_row / a->n_q;
        const decode_item item = {.b = head / a->kv_heads,
                                  .kv_head = kv_head,
                                  .chunk = n % p->chunks,
                                  .first = {h, first_row % a->n_q},
                                  .rows = (int)fv_attn_min(ITEM_ROWS, p->rows - first_row)};
        const int64_t total = fv_attn_keys(a, job->base.ptr[FV_ATTN_KEY_LENGTHS], item.b);
        const int64_t stop = fv_attn_min(total, (item.chunk + 1) * FV_ATTN_CHUNK);
        begin_item(job, &item, &w);
        for (int64_t first = item.chunk * FV_ATTN_CHUNK; first < stop; first += FV_ATTN_BLOCK) {
            const int64_t last = fv_attn_min(first + FV_ATTN_BLOCK, stop);
            const fv_attn_interval keys = fv_attn_visible_interval(w.row, item.rows, first, last);
            if (keys.begin < keys.end) process_keys(job, &item, &w, keys);
        }
        end_item(job, &item, &w);
    }
}

void fv_attn_decode_with(const fv_exec *exec, void *const *ptr, const fv_attn *a,
                         const fv_attn_decode_products *bf16)
{
    decode_job job = {.base = fv_attn_job_of(exec, a, ptr),
                      .plan = plan_of(a),
                      .partials = fv_attn_partials_of(a, exec->scratch),
                      .bf16 = bf16};
    const decode_plan *p = &job.plan;
    job.threads = job.partials.at + fv_attn_partial_floats(a);
    const int64_t keys = fv_attn_min(a->n_k, FV_ATTN_CHUNK);
    fv_exec_rows(exec, a->batch * a->kv_heads * p->row_tiles * p->chunks,
                 fv_attn_min(p->rows, ITEM_ROWS) * keys * (a->d + a->d_v), run_items, &job);
    fv_attn_merge_partials(exec, &job.partials, ptr[FV_ATTN_O], ptr[FV_ATTN_LSE]);
}

void fv_attn_decode(const fv_exec *exec, void *const *ptr, const fv_attn *a)
{
    fv_attn_decode_with(exec, ptr, a, NULL);
}
