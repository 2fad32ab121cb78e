/*
 * Attention forward. K is packed once into panels of P keys, [keys/P][d][P]. A unit of work is a
 * block of queries of one head; it walks the keys in blocks of 512, which stay in the second-level
 * cache, and meets each block with strips of six queries: products into a 6 x 512 strip of scores,
 * softmax with a running maximum, weights times values into the block's accumulators. The first
 * unit that meets a block of keys packs it, so it is read from near by. Units of a short head go to
 * one thread as long as there are heads for all (attention_claims.h), and its heads are packed into
 * the same room, which stays in its cache.
 *
 * With `pairs` the products are those of another instruction, over words of two 16-bit numbers:
 * then V is packed as well, and weights are rounded on their way to the second product.
 *
 * Key blocks begin at multiples of 512 (256 where rows are wide) and a row's sums run over keys in
 * order, so the cut into units, which follows the number of threads, does not show in the bits. Up
 * to sixteen queries are one unit for each chunk of keys (attention_parts.c): the threads would
 * have nothing to share otherwise.
 */
#include "kernels/simd/attention_forward.h"

#include "base/spin.h"
#include "kernels/simd/fill.h"

enum { SCORE_ROW = FV_ATTN_LONG_ROW };

/* What has become of a panel of keys that all units share. */
typedef enum pack_state { UNPACKED, IN_WORK, PACKED, PACKED_NOT_FINITE } pack_state;

typedef struct forward_job {
    fv_attn_job base;
    forward_plan plan;
    fv_attn_parts parts;
    const fv_attn_pair_products *pairs; /* or NULL */
    float late;             /* what scores are yet to be multiplied with, inside the softmax */
    float *panels, *values; /* [slots] of packed heads; the values in pairs */
    atomic_int *states;     /* [batch][kv_heads][panels] of pack_state */
    fv_attn_claims claims;
    float *threads;
    bool copy_values;
} forward_job;

/* What a thread works in. */
typedef struct workspace {
    float *q, *o, *most, *sum, *scores, *weights, *keep, *values, *panels;
    float *eq, *raised; /* additive scores: exponentials of q and of a block of keys */
    fv_attn_row *row;
} workspace;

static size_t forward_scratch(const void *args, int threads)
{
    return fv_attn_whole_scratch(args, threads, fv_attn_forward_bytes);
}

/* ---- packing ---------------------------------------------------------------------- */

/* Packs keys [first, first + keys) of one key head, and their values if they go in pairs; returns
 * whether these are all finite. Values that are copied are looked at on their way. */
static bool pack_block(const forward_job *job, int64_t b, int64_t h, int64_t first, int64_t keys,
                       float *panels, float *values)
{
    const fv_attn *a = job->base.a;
    const void *v = fv_attn_at(a, job->base.ptr[FV_ATTN_V], &a->v, b, h, first), *k = NULL;
    if (fv_attn_width(a) > 0) k = fv_attn_at(a, job->base.ptr[FV_ATTN_K], &a->k, b, h, first);
    if (job->pairs) return job->pairs->pack(a, k, v, keys, panels, values);
    if (k) fv_attn_pack(a->dtype, k, a->k.row, keys, a->d, panels);
    if (a->score == FV_ATTN_SCORE_ADDITIVE) fv_attn_pack_zeros(keys, a->d, panels);
    return job->copy_values || fv_attn_finite(a->dtype, v, a->v.row, keys, a->d_v);
}

/* Queries [first, first + rows) of one head. */
typedef struct query_block {
    int64_t b, h, first, rows;
    int64_t chunk; /* of the keys */
    int64_t slot;  /* where its packed keys lie */
} query_block;

/* From key `first` of a packed head on, a multiple of the panel. */
static float *panels_at(const forward_job *job, int64_t slot, int64_t first)
{
    return job->panels + (slot * job->plan.keys + first) * job->plan.width;
}
static float *values_at(const forward_job *job, int64_t slot, int64_t first)
{
    return job->values + (slot * job->plan.keys + first) / 2 * job->plan.o_row;
}

/* Where key `first` of a block's key head has its panel's state. */
static atomic_int *state_of(const forward_job *job, const query_block *block, int64_t first)
{
    const fv_attn *a = job->base.a;
    const int64_t head = block->b * a->kv_heads + fv_attn_kv_head(a, block->h);
    return job->states + (head * job->plan.keys + first) / FV_ATTN_PANEL;
}

/* Packs one panel, unless another unit is at it or has been. */
static void share_panel(const forward_job *job, const query_block *block, int64_t first,
                        int64_t keys)
{
    atomic_int *state = state_of(job, block, first);
    int seen = atomic_load_explicit(state, memory_order_relaxed);
    if (seen != UNPACKED || !atomic_compare_exchange_strong(state, &seen, IN_WORK)) return;
    const bool finite =
        pack_block(job, block->b, fv_attn_kv_head(job->base.a, block->h), first, keys,
                   panels_at(job, block->slot, first), values_at(job, block->slot, first));
    atomic_store_explicit(state, finite ? PACKED : PACKED_NOT_FINITE, memory_order_release);
}

/* Sees to it that a block of keys is packed; returns whether its values are all finite. Units that
 * come to it at one time share its panels, then wait for each other. */
static bool share_block(const forward_job *job, const query_block *block, int64_t first,
                        int64_t keys)
{
    for (int64_t j = 0; j < keys; j += FV_ATTN_PANEL)
        share_panel(job, block, first + j, fv_attn_min(FV_ATTN_PANEL, keys - j));
    bool finite = true;
    for (int64_t j = 0; j < keys; j += FV_ATTN_PANEL) {
        atomic_int *state = state_of(job, block, first + j);
        int seen, turns = 0;
        while ((seen = atomic_load_explicit(state, memory_order_acquire)) < PACKED)
            fv_spin(&turns);
        finite &= seen == PACKED;
    }
    return finite;
}

/* ---- one unit --------------------------------------------------------------------- */

static void load_queries(const forward_job *job, const query_block *block, const workspace *w)
{
    const fv_attn *a = job->base.a;
    const int64_t stride = job->plan.q_row;
    const void *from =
        fv_attn_at(a, job->base.ptr[FV_ATTN_Q], &a->q, block->b, block->h, block->first);
    if (job->pairs)
        job->pairs->load_queries(from, a->q.row, block->rows, a->d, w->q, stride);
    else
        fv_attn_widen(a->dtype, from, a->q.row, block->rows, a->d, job->base.operand, w->q, stride);
    if (a->score != FV_ATTN_SCORE_ADDITIVE) return;
    for (int64_t r = 0; r < block->rows; r++)
        fv_attn_raise(w->q + r * stride, a->d, w->eq + r * stride);
}

static void begin_block(const forward_job *job, const query_block *block, const workspace *w)
{
    fv_attn_fill_rows(&job->base, block->b, block->h, block->first, block->rows, w->row);
    for (int64_t r = 0; r < block->rows; r++) {
        w->most[r] = -INFINITY;
        w->sum[r] = 0;
    }
    if (fv_attn_width(job->base.a) > 0) load_queries(job, block, w);
    memset(w->o, 0, (size_t)(block->rows * job->plan.o_row) * sizeof(float));
}

/* A block of keys as the strips meet it. */
typedef struct key_block {
    int64_t first;
    const float *panels, *values; /* NULL: not looked at yet */
    int64_t stride;               /* of the values */
    bool finite;                  /* the values */
    bool raised;                  /* additive scores: every key has an exponential */
} key_block;

/* Keys [first, first + count) of the block. */
static void score_strip(const forward_job *job, const workspace *w, const key_block *block,
                        int64_t r, int rows, int64_t first, int64_t count, float *s)
{
    const fv_attn *a = job->base.a;
    const int64_t stride = job->plan.q_row;
    const float *q = w->q + r * stride;
    const int64_t narrow = !job->pairs && a->score == FV_ATTN_SCORE_DOT ? FV_ATTN_NARROW : FV_LANES;
    const int64_t cols = fv_attn_round(count, narrow);
    if (job->pairs) {
        job->pairs->scores(q, stride, rows, block->panels, a->d, first, cols, s);
        for (int i = 0; job->late == 1 && i < rows; i++)
            fv_attn_scale_row(s + i * SCORE_ROW, cols, job->base.factor);
        return;
    }
    const fv_attn_sides sides = {.q = q,
                                 .eq = w->eq + r * stride,
                                 .q_row = stride,
                                 .eq_row = stride,
                                 .k = block->panels,
                                 .ek = w->raised,
                                 .w = w->row[r].w,
                                 .width = a->d,
                                 .careful = !block->raised};
    fv_attn_strip(&job->base, &sides, rows, first, cols, s, SCORE_ROW);
}

/* Scores to weights. Those of pairs are rounded at once if nothing has to look at them first. */
static void weigh_strip(const forward_job *job, const workspace *w, int64_t r, int rows,
                        int64_t cols, float *fade)
{
    if (job->late != 1)
        job->pairs->weigh(w->scores, rows, cols, job->late, w->most + r, w->sum + r, fade,
                          w->weights);
    else
        fv_attn_softmax(w->scores, SCORE_ROW, rows, cols, w->most + r, w->sum + r, fade);
}

/* Values of a run of keys, whose weights begin at column `at`. */
static void blend_strip(const forward_job *job, const workspace *w, const key_block *block,
                        int rows, fv_attn_span keys, int64_t at, float *o)
{
    const fv_attn *a = job->base.a;
    const int64_t o_row = job->plan.o_row, count = keys.end - keys.begin;
    if (job->pairs) {
        if (job->late == 1)
            fv_attn_narrow(FV_BF16, w->scores + at, SCORE_ROW, rows, fv_attn_round(count, FV_LANES),
                           NULL, w->weights + at / 2, 2 * FV_ATTN_WEIGHT_ROW);
        const float *values = block->values + (keys.begin - block->first) / 2 * o_row;
        job->pairs->blend(w->weights + at / 2, rows, values, count, a->d_v, !block->finite, o);
        return;
    }
    const fv_tile t = {.k = count,
                       .a = w->scores + at,
                       .a_row = SCORE_ROW,
                       .a_col = 1,
                       .b = block->values + (keys.begin - block->first) * block->stride,
                       .b_row = block->stride,
                       .from = o,
                       .from_row = o_row,
                       .c = o,
                       .c_row = o_row};
    fv_attn_product(&t, rows, a->d_v, !block->finite);
}

/* Runs of keys go side by side into the strip of scores: holes cost nothing, and since runs begin
 * at multiples of the lanes, no sum shows them. */
static void meet_strip(const forward_job *job, const workspace *w, const key_block *block,
                       int64_t r, int rows, const fv_attn_sight *sight)
{
    const fv_attn *a = job->base.a;
    const int64_t o_row = job->plan.o_row, first = block->first;
    int64_t cols = 0;
    for (fv_attn_span run = {first, first}; fv_attn_next_run(sight, first, &run);) {
        const int64_t count = fv_attn_round(run.end - run.begin, FV_LANES);
        float *s = w->scores + cols;
        score_strip(job, w, block, r, rows, run.begin - first, run.end - run.begin, s);
        for (int i = 0; i < rows; i++)
            fv_attn_finish(&job->base, w->row + r + i, run.begin, count, s + i * SCORE_ROW, NULL);
        cols += count;
    }
    float fade[FV_LANES];
    weigh_strip(job, w, r, rows, cols, fade);
    for (int i = 0; i < rows; i++)
        if (fade[i] != 1) fv_attn_scale_row(w->o + (r + i) * o_row, o_row, fade[i]);
    cols = 0;
    for (fv_attn_span run = {first, first}; fv_attn_next_run(sight, first, &run);) {
        const int64_t count = fv_attn_round(run.end - run.begin, FV_LANES);
        float *s = w->scores + cols;
        for (int i = 0; a->rule.dropout > 0 && i < rows; i++)
            fv_attn_drop(&job->base, w->row + r + i, run.begin, count, w->keep, s + i * SCORE_ROW);
        blend_strip(job, w, block, rows, run, cols, w->o + r * o_row);
        cols += count;
    }
}

/* Keys [first, first + keys) as the block's strips meet them. */
static key_block block_of(const forward_job *job, const workspace *w, const query_block *queries,
                          int64_t first, int64_t keys)
{
    const fv_attn *a = job->base.a;
    const forward_plan *p = &job->plan;
    const int64_t b = queries->b, h = fv_attn_kv_head(a, queries->h);
    const void *v = job->base.ptr[FV_ATTN_V];
    key_block block = {
        .first = first, .values = fv_attn_at(a, v, &a->v, b, h, first), .stride = a->v.row};
    if (p->local) {
        block.finite = pack_block(job, b, h, first, keys, w->panels, w->values);
        block.panels = w->panels;
    } else {
        block.finite = share_block(job, queries, first, keys);
        block.panels = panels_at(job, queries->slot, first);
    }
    if (job->pairs) {
        block.values = p->local ? w->values : values_at(job, queries->slot, first);
        return block;
    }
    if (a->score == FV_ATTN_SCORE_ADDITIVE)
        block.raised =
            fv_attn_raise(block.panels, fv_attn_round(keys, FV_ATTN_PANEL) * a->d, w->raised);
    if (!job->copy_values) return block;
    block.finite =
        fv_attn_widen_rows(a->dtype, block.values, a->v.row, keys, a->d_v, w->values, p->o_row);
    block.values = w->values;
    block.stride = p->o_row;
    return block;
}

/* Asks for what follows the last products of a strip, while they are made: the place of its
 * results, and the queries that the next unit of the head will have in this one's stead. */
static void ask_for_next(const forward_job *job, const query_block *block, int64_t r, int64_t rows)
{
    const fv_attn *a = job->base.a;
    const int64_t size = (int64_t)fv_dtype_size(a->dtype), i = block->first + r;
    const void *o = fv_attn_at(a, job->base.ptr[FV_ATTN_O], &a->o, block->b, block->h, i);
    fv_attn_ask((uintptr_t)o, a->o.row * size, rows, a->d_v * size, false);
    if (block->first == 0 || fv_attn_width(a) == 0) return;
    const void *q =
        fv_attn_at(a, job->base.ptr[FV_ATTN_Q], &a->q, block->b, block->h, i - job->plan.rows);
    fv_attn_ask((uintptr_t)q, a->q.row * size, rows, a->d * size, false);
}

static void meet_keys(const forward_job *job, const query_block *block, const workspace *w)
{
    const fv_attn *a = job->base.a;
    const int64_t total = fv_attn_keys(a, job->base.ptr[FV_ATTN_N_KEYS], block->b);
    const int64_t begin = block->chunk * job->plan.unit_keys;
    const int64_t stop = fv_attn_min(total, begin + job->plan.unit_keys);
    for (int64_t first = begin; first < stop; first += job->plan.block) {
        const int64_t end = fv_attn_min(first + job->plan.block, stop);
        key_block keys = {.panels = NULL};
        for (int64_t r = 0, rows; r < block->rows; r += rows) {
            rows = fv_attn_strip_rows(a, block->first + r, block->rows - r);
            const fv_attn_sight sight = fv_attn_sight_of(a, w->row + r, (int)rows, first, end);
            if (sight.span.begin == sight.span.end) continue;
            if (!keys.panels) keys = block_of(job, w, block, first, end - first);
            if (end == stop || sight.span.end < end) ask_for_next(job, block, r, rows);
            meet_strip(job, w, &keys, r, (int)rows, &sight);
        }
    }
}

/* 1 / sum of every row, or 1, and the log-sum-exp. Sixteen rows at a time: one by one, these few
 * operations would be felt in short sequences. */
static void end_sums(const forward_job *job, const query_block *block, const workspace *w,
                     float *inverse, float *lse)
{
    const float *most = w->most, *sum = w->sum;
    float logs[FV_LANES];
    for (int64_t r = 0; r < block->rows; r += FV_LANES) {
        const int count = (int)fv_attn_min(FV_LANES, block->rows - r);
        const vf sums = v_load(sum + r, count), one = v_set(1);
        const vf by = v_select(v_eq(sums, v_zero()), one, sums);
        v_store(inverse + r, FV_LANES, v_div(one, by));
        if (!lse) continue;
        v_store(logs, FV_LANES, v_log(by));
        for (int64_t i = r; i < r + count; i++) {
            const float down = most[i] * job->late; /* rounded, as the softmax had it */
            const double shift = most[i] == -INFINITY ? 0 : (double)down * FV_ATTN_LN2;
            lse[i] = sum[i] == 0 ? -INFINITY : (float)(shift + (double)logs[i - r]);
        }
    }
}

/* Of one chunk of many. */
static void end_chunk(const forward_job *job, const query_block *block, const workspace *w)
{
    const int64_t o_row = job->plan.o_row;
    for (int64_t r = 0; r < block->rows; r++) {
        float *part = fv_attn_part(&job->parts, block->b, block->h, r, block->chunk);
        memcpy(part, w->o + r * o_row, (size_t)o_row * sizeof *part);
        part[o_row] = w->most[r] * job->late;
        part[o_row + 1] = w->sum[r];
    }
}

static void end_block(const forward_job *job, const query_block *block, const workspace *w)
{
    const fv_attn *a = job->base.a;
    const int64_t head = block->b * a->heads + block->h;
    float *lse = job->base.ptr[FV_ATTN_LSE], *inverse = w->scores;
    if (lse) lse += head * fv_attn_lse_head(a) + block->first;
    end_sums(job, block, w, inverse, lse);
    void *o = fv_attn_out(a, job->base.ptr[FV_ATTN_O], &a->o, block->b, block->h, block->first);
    fv_attn_narrow(a->dtype, w->o, job->plan.o_row, block->rows, a->d_v, inverse, o, a->o.row);
}

/* ---- the kernel ------------------------------------------------------------------- */

static workspace workspace_of(const forward_job *job, int thread)
{
    const forward_plan *p = &job->plan;
    float *base = job->threads + (size_t)thread * p->thread_floats;
    const size_t rows = (p->scores - p->most) / 2;
    return (workspace){
        .q = base + p->q,
        .o = base + p->o,
        .most = base + p->most,
        .sum = base + p->most + rows,
        .scores = base + p->scores,
        .weights = base + p->weights,
        .keep = base + p->keep,
        .values = base + p->values,
        .panels = base + p->local_panels,
        .eq = base + p->eq,
        .raised = base + p->raised,
        .row = (fv_attn_row *)(void *)(base + p->records),
    };
}

/* Units of a key head. */
static int64_t units_of_head(const forward_job *job)
{
    const fv_attn *a = job->base.a;
    return a->heads / a->kv_heads * job->plan.row_items * job->plan.chunks;
}

/* A unit for a thread that is to do unit number `unit`: that one, or one of a head that the thread
 * has claimed. The last queries first: with a causal rule they see most, and long units make poor
 * last ones. */
static query_block take_unit(const forward_job *job, int64_t unit, int thread)
{
    const fv_attn *a = job->base.a;
    const forward_plan *p = &job->plan;
    const int64_t all = units_of_head(job);
    fv_attn_claim claim = {.head = unit / all, .part = unit % all, .slot = unit / all};
    if (p->claimed) claim = fv_attn_claim_part(&job->claims, thread);
    const int64_t row_unit = claim.part / p->chunks, group = a->heads / a->kv_heads;
    const int64_t first = (p->row_items - 1 - row_unit % p->row_items) * p->rows;
    return (query_block){.b = claim.head / a->kv_heads,
                         .h = claim.head % a->kv_heads * group + row_unit / p->row_items,
                         .first = first,
                         .rows = fv_attn_min(p->rows, a->n_q - first),
                         .chunk = claim.part % p->chunks,
                         .slot = claim.slot};
}

static void forward_units(const void *arg, int64_t begin, int64_t end, int thread)
{
    const forward_job *job = arg;
    const workspace w = workspace_of(job, thread);
    for (int64_t unit = begin; unit < end; unit++) {
        const query_block block = take_unit(job, unit, thread);
        begin_block(job, &block, &w);
        meet_keys(job, &block, &w);
        if (job->plan.chunks > 1)
            end_chunk(job, &block, &w);
        else
            end_block(job, &block, &w);
    }
}

/* Rows of V that are not whole cache lines, or far apart, are copied block by block where that is
 * worth it; 16-bit ones always, since the tile reads floats. */
static bool values_are_copied(const fv_attn *a, const void *v)
{
    if (fv_attn_is_half(a->dtype)) return true;
    if (a->n_q < LEAST_ROWS) return false;
    return (uintptr_t)v % 64 != 0 || a->v.row % FV_LANES != 0 || a->v.head % FV_LANES != 0 ||
           a->v.row > 4 * fv_attn_round(a->d_v, FV_LANES);
}

/* No key is packed, no head claimed. */
static void begin_sharing(forward_job *job, int64_t heads, int64_t units_of_one)
{
    for (int64_t i = 0; i < heads * job->plan.keys / FV_ATTN_PANEL; i++)
        atomic_init(job->states + i, UNPACKED);
    fv_attn_claims_begin(&job->claims, (float *)(void *)job->states + job->plan.states, heads,
                         units_of_one, job->base.exec->threads);
}

void fv_attn_forward_by(const fv_exec *exec, void *const *ptr, const fv_attn *a,
                        const fv_attn_pair_products *pairs)
{
    if (a->score != FV_ATTN_SCORE_DOT) pairs = NULL;
    if (a->batch == 0 || a->n_q == 0) return;
    if (fv_attn_is_decode(a)) {
        fv_attn_decode(exec, ptr, a);
        return;
    }
    if (fv_attn_is_glimpse(a, ptr)) {
        fv_attn_glimpse(exec, ptr, a);
        return;
    }
    forward_job job = {.base = fv_attn_job_of(exec, a, ptr),
                       .plan = fv_attn_forward_plan(a, exec->threads, pairs != NULL),
                       .pairs = pairs};
    job.base.runs_in_list = true;
    const bool by_softmax = pairs && job.base.plain && job.base.factor > 0 && a->rule.dropout == 0;
    job.late = by_softmax ? job.base.factor : 1;
    job.parts = fv_attn_parts_of(a, exec->scratch);
    job.panels = job.parts.at + job.plan.parts;
    job.values = job.panels + job.plan.panels;
    job.states = (atomic_int *)(void *)(job.values + job.plan.packed_values);
    job.threads = job.parts.at + job.plan.shared_floats;
    job.copy_values = values_are_copied(a, ptr[FV_ATTN_V]);
    const int64_t kv_heads = a->batch * a->kv_heads, units = units_of_head(&job);
    if (!job.plan.local) begin_sharing(&job, kv_heads, units);
    fv_exec_rows(exec, kv_heads * units,
                 job.plan.rows * job.plan.unit_keys * (fv_attn_width(a) + a->d_v), forward_units,
                 &job);
    if (job.plan.chunks > 1) fv_attn_join(exec, &job.parts, ptr[FV_ATTN_O], ptr[FV_ATTN_LSE]);
}

static void forward(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn *a = args;
    if (a->varlen)
        fv_attn_run_varlen(exec, ptr, a, false, forward, fv_attn_forward_bytes);
    else
        fv_attn_forward_by(exec, ptr, a, NULL);
}

void fv_simd_attention_fill(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_ATTENTION][FV_F32] = forward;
    t->fn[FV_KERNEL_ATTENTION][FV_BF16] = forward;
    t->fn[FV_KERNEL_ATTENTION][FV_F16] = forward;
    t->scratch[FV_KERNEL_ATTENTION] = forward_scratch;
    fv_simd_attention_grad_fill(t);
}
