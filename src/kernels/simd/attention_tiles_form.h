/*
 * Weights of the backward on AMX tiles and their gradients: S and dP on tiles, then P and dS,
 * rounded to bf16 in the layouts of the products that use them (attention_tiles_grad.h).
 *
 *     tiles_form_rows(job, w, keys, block, rows);   // fills p_pairs, ds_pairs and ds_rows
 */
#ifndef FV_KERNELS_SIMD_ATTENTION_TILES_FORM_H
#define FV_KERNELS_SIMD_ATTENTION_TILES_FORM_H

#include "kernels/simd/attention_tiles_plan.h"

/* Queues a share of the products that wait: 1 / parts. */
static void tiles_resume(tiles_state *s, int64_t parts)
{
    const int64_t left = s->later_count - s->later_first;
    for (int64_t i = 0; i < (left + parts - 1) / parts; i++)
        tiles_queue(s, &s->later[s->later_first++]);
    if (s->later_first == s->later_count) s->later_first = s->later_count = 0;
}

static void tiles_finish(tiles_state *s)
{
    tiles_resume(s, 1);
    tiles_flush(s);
}

/* A product that is not due before tiles_finish. Those that wait keep their order. */
static void tiles_defer(tiles_state *s, const tiles_product *p)
{
    if (s->later_count == TILES_QUEUE) tiles_finish(s);
    s->later[s->later_count++] = *p;
}

/* Two vectors as sixteen words of two bf16. */
static inline __m512i tiles_interleave(__m512i halves)
{
    const __m512i in_order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(in_order, halves);
}

/* Rounded P and dS of two rows, sixteen keys from c on, into the layouts of the products. */
static inline void tiles_store_weights(const tiles_plan *plan, const tiles_workspace *w, int64_t r,
                                       int64_t c, const vf p[2], const vf ds[2])
{
    const __m512i weights = (__m512i)_mm512_cvtne2ps_pbh(p[1], p[0]);
    const __m512i grads = (__m512i)_mm512_cvtne2ps_pbh(ds[1], ds[0]);
    uint32_t *row = w->ds_rows + r * plan->ds_row + c / 2;
    _mm512_storeu_si512(w->p_pairs + r / 2 * plan->keys + c, tiles_interleave(weights));
    _mm512_storeu_si512(w->ds_pairs + r / 2 * plan->keys + c, tiles_interleave(grads));
    _mm256_storeu_si256((__m256i *)(void *)row, _mm512_castsi512_si256(grads));
    _mm256_storeu_si256((__m256i *)(void *)(row + plan->ds_row),
                        _mm512_extracti64x4_epi64(grads, 1));
}

static inline void tiles_store_no_weights(const tiles_plan *plan, const tiles_workspace *w,
                                          int64_t r, int64_t begin, int64_t end)
{
    const vf none[2] = {v_zero(), v_zero()};
    for (int64_t c = begin; c < end; c += FV_LANES)
        tiles_store_weights(plan, w, r, c, none, none);
}

/* C = rows of x times keys [begin, end) of packed panels, into `to`. */
static void tiles_products(tiles_state *s, const tiles_plan *plan, const uint32_t *x, int64_t words,
                           int64_t rows, const uint32_t *panels, fv_attn_interval keys, float *to)
{
    for (int64_t key = keys.begin; key < keys.end; key += TILES_ROWS) {
        const int64_t inside = key % FV_ATTN_PANEL;
        const tiles_product p = {.a = x,
                                 .a_row = words + FV_LANES,
                                 .a_step = TILES_STEP,
                                 .b = panels + (key - inside) * words + inside,
                                 .b_row = FV_ATTN_PANEL,
                                 .b_step = TILES_STEP * FV_ATTN_PANEL,
                                 .c = to + key,
                                 .c_row = plan->score_row,
                                 .steps = words / TILES_STEP,
                                 .two_rows = rows > TILE_ROWS,
                                 .two_cols = true};
        tiles_queue(s, &p);
    }
}

/* Up to 32 rows from row r on, with raw scores and dP in a buffer of their own. */
typedef struct tiles_rows {
    int64_t r, rows;
    fv_attn_interval seen; /* keys */
    float *p, *ds;
} tiles_rows;

static tiles_rows tiles_rows_at(const tiles_job *job, const tiles_workspace *w,
                                const query_block *block, int64_t r)
{
    const int64_t buffer = r / TILES_ROWS % 2 * TILES_ROWS * job->plan.score_row;
    return (tiles_rows){.r = r,
                        .rows = fv_attn_min(TILES_ROWS, block->rows - r),
                        .seen = block->visible[r / TILES_ROWS].interval,
                        .p = w->p + buffer,
                        .ds = w->ds + buffer};
}

/* Queues S and dP. */
static void tiles_score(const tiles_job *job, const tiles_workspace *w, const tiles_rows *x)
{
    const tiles_plan *plan = &job->plan;
    tiles_products(w->state, plan, w->q + x->r * (plan->q_words + FV_LANES), plan->q_words, x->rows,
                   w->k_panels, x->seen, x->p);
    if (job->base.has_value_grad)
        tiles_products(w->state, plan, w->g + x->r * (plan->g_words + FV_LANES), plan->g_words,
                       x->rows, w->v_panels, x->seen, x->ds);
}

/* Whether scores need only be scaled and hidden, and no query has seen a NaN. */
static bool tiles_are_plain(const tiles_job *job, const query_block *block, const tiles_rows *x)
{
    const backward_job *base = &job->base;
    if (base->deferred_scale == 1 || base->base.a->rule.dropout > 0 || !base->has_value_grad)
        return false;
    for (int64_t i = 0; i < x->rows; i++)
        if (isnan(base->shift[block->at + x->r + i])) return false;
    return true;
}

/* P and dS of two rows and sixteen keys: as `form` of attention_grad.c, with a shorter polynomial.
 */
static inline void tiles_form_two(const float *s, const float *dp, int64_t stride, vf factor,
                                  vf scale, const vf *neg_shift, const vf *delta, vf *p, vf *ds)
{
    for (int i = 0; i < 2; i++) {
        const vf grad = v_sub(v_load(dp + i * stride, FV_LANES), delta[i]);
        p[i] = fv_attn_bf16_weight(s + i * stride, neg_shift[i], factor);
        ds[i] = v_select(v_eq(p[i], v_zero()), v_zero(), v_mul(v_mul(p[i], scale), grad));
    }
}

/* Rounded P and dS of rows i and i + 1; the second may be past the last. */
static inline void tiles_form_pair(const tiles_job *job, const tiles_workspace *w,
                                   const key_block *keys, const query_block *block,
                                   const tiles_rows *x, int64_t i, tiles_pace *pace)
{
    const backward_job *base = &job->base;
    const int64_t stride = job->plan.score_row, begin = x->seen.begin, end = x->seen.end;
    const vf factor = v_set(base->deferred_scale), scale = v_set((float)base->base.a->rule.scale);
    vf neg_shift[2] = {v_zero(), v_zero()}, delta[2] = {v_zero(), v_zero()};
    for (int64_t k = 0; k < 2; k++) {
        float *s = x->p + (i + k) * stride + begin;
        const int64_t at = block->at + x->r + i + k;
        if (i + k >= x->rows) {
            for (int64_t c = 0; c < end - begin; c += FV_LANES)
                v_store(s + c, FV_LANES, v_set(-INFINITY));
            continue;
        }
        neg_shift[k] = v_set(-base->shift[at]);
        delta[k] = v_set(base->delta[at]);
        fv_attn_finish_scores(&base->base, w->rows.row + x->r + i + k, keys->first + begin,
                              end - begin, s, NULL);
    }
    const float *s = x->p + i * stride, *dp = x->ds + i * stride;
    for (int64_t c = begin; c < end; c += FV_LANES) {
        vf p[2], ds[2];
        tiles_form_two(s + c, dp + c, stride, factor, scale, neg_shift, delta, p, ds);
        tiles_store_weights(&job->plan, w, x->r + i, c, p, ds);
        tiles_keep_pace(pace);
    }
}

/* The same for any settings, which fv_attn_form_weights knows. */
static void tiles_form_any(const tiles_job *job, const tiles_workspace *w, const key_block *keys,
                           const query_block *block, const tiles_rows *x)
{
    const backward_job *base = &job->base;
    const int64_t stride = job->plan.score_row, begin = x->seen.begin, cols = x->seen.end - begin;
    for (int64_t i = 0; i < TILES_ROWS; i++) {
        float *s = x->p + i * stride + begin, *dp = x->ds + i * stride + begin;
        if (i >= x->rows || !base->has_value_grad) memset(dp, 0, (size_t)cols * sizeof *dp);
        if (i >= x->rows)
            memset(s, 0, (size_t)cols * sizeof *s);
        else if (base->deferred_scale == 1)
            fv_attn_scale_row(s, cols, base->base.factor);
    }
    fv_attn_form_weights(base, &w->rows, keys, block, x->r, (int)x->rows, x->seen, x->p + begin,
                         x->ds + begin, stride);
    for (int64_t i = 0; i < x->rows; i += 2)
        for (int64_t c = begin; c < x->seen.end; c += FV_LANES) {
            const float *p = x->p + i * stride + c, *ds = x->ds + i * stride + c;
            const vf ps[2] = {v_load(p, FV_LANES), v_load(p + stride, FV_LANES)};
            const vf grads[2] = {v_load(ds, FV_LANES), v_load(ds + stride, FV_LANES)};
            tiles_store_weights(&job->plan, w, x->r + i, c, ps, grads);
        }
}

/* Rounded P and dS over all keys of the block, 0 where hidden and past the last row. Runs the queue
 * meanwhile. */
static void tiles_form(const tiles_job *job, const tiles_workspace *w, const key_block *keys,
                       const query_block *block, const tiles_rows *x)
{
    tiles_state *queue = w->state;
    const int64_t cols = fv_attn_round(keys->count, TILES_ROWS);
    if (tiles_are_plain(job, block, x)) {
        tiles_pace pace = {.state = queue,
                           .steps = queue->steps,
                           .parts = (x->rows + 1) / 2 *
                                    fv_attn_max(1, (x->seen.end - x->seen.begin) / FV_LANES)};
        for (int64_t i = 0; i < x->rows; i += 2)
            tiles_form_pair(job, w, keys, block, x, i, &pace);
    } else {
        tiles_form_any(job, w, keys, block, x);
    }
    tiles_flush(queue);
    for (int64_t i = 0; i < TILES_ROWS; i += 2) {
        const bool none = i >= x->rows;
        tiles_store_no_weights(&job->plan, w, x->r + i, 0, none ? cols : x->seen.begin);
        if (!none) tiles_store_no_weights(&job->plan, w, x->r + i, x->seen.end, cols);
    }
}

/* P and dS of the row tiles that see a key: while those of one are formed, S and dP of the next are
 * computed, and a share of the products that wait. */
static void tiles_form_rows(const tiles_job *job, const tiles_workspace *w, const key_block *keys,
                            const query_block *block, fv_attn_interval rows)
{
    tiles_rows next = tiles_rows_at(job, w, block, rows.begin);
    tiles_score(job, w, &next);
    tiles_flush(w->state);
    for (int64_t r = rows.begin; r < rows.end; r += TILES_ROWS) {
        const tiles_rows x = next;
        if (r + TILES_ROWS < rows.end) {
            next = tiles_rows_at(job, w, block, r + TILES_ROWS);
            tiles_score(job, w, &next);
        }
        tiles_resume(w->state, (rows.end - r + TILES_ROWS - 1) / TILES_ROWS);
        tiles_form(job, w, keys, block, &x);
    }
}

#endif
