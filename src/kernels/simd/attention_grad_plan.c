/* How the backward cuts its work, the scratch it asks for and where things lie in it. */
#include "base/check.h"
#include "kernels/simd/attention_grad.h"

backward_plan fv_attn_backward_plan(const fv_attn *a)
{
    backward_plan p = {0};
    const int64_t width = fv_attn_width(a);
    p.row_items = (a->n_q + BLOCK_ROWS - 1) / BLOCK_ROWS;
    p.keys = width > WIDE || a->d_v > WIDE ? WIDE_KEYS : MOST_KEYS;
    p.keys = fv_attn_min(p.keys, fv_attn_round(a->n_k, FV_ATTN_PANEL));
    p.key_units = p.keys > 0 ? (a->n_k + p.keys - 1) / p.keys : 0;
    p.alone = p.key_units == 1;
    p.score_row = p.keys + FV_LANES; /* an odd number of lines */

    size_t at = 0;
    p.k_panels = at, at += (size_t)(p.keys * width);
    p.v_panels = at, at += (size_t)(p.keys * a->d_v);
    p.weights = at, at += (size_t)(BLOCK_ROWS * p.score_row);
    p.products = at, at += (size_t)(BLOCK_ROWS * p.score_row);
    p.slack = at, at += a->rule.soft_cap > 0 ? (size_t)p.score_row : 0;
    p.keep = at, at += (size_t)p.score_row;
    p.slice = at, at += (size_t)(fv_attn_max(BLOCK_ROWS, p.keys) * FV_TILE_COLS);
    p.records = at, at += fv_attn_lines(BLOCK_ROWS * sizeof(fv_attn_row) / sizeof(float));
    p.wide_row = fv_attn_split_row(fv_attn_max(width, a->d_v)) + FV_LANES;
    /* Of packed documents: enough for any of them, alone or not. */
    const bool half = fv_attn_is_half(a->dtype);
    const int64_t wide_rows = half ? 3 * BLOCK_ROWS + 3 * p.keys : 0;
    p.wide = at, at += (size_t)(wide_rows * p.wide_row);
    /* An odd number of lines, so that rows spread over the cache. */
    p.pair_row = fv_attn_round(fv_attn_pairs_of(fv_attn_max(width, a->d_v)), 2 * FV_LANES);
    p.pair_row += FV_LANES;
    const bool in_pairs = FV_SIMD_LEVEL == 3 && a->dtype == FV_BF16;
    p.pairs = at, at += in_pairs ? (size_t)(2 * BLOCK_ROWS * p.pair_row) : 0;
    const bool additive = a->score == FV_ATTN_SCORE_ADDITIVE;
    p.additive = at;
    if (additive) at += (size_t)fv_attn_additive_floats(a, p.keys);
    p.thread_floats = at;

    const size_t heads = (size_t)(a->batch * a->heads), blocks = heads * (size_t)p.row_items;
    at = 0;
    p.delta = at, at += fv_attn_lines(heads * (size_t)a->n_q);
    p.shift = at, at += fv_attn_lines(heads * (size_t)a->n_q);
    p.tickets = at, at += fv_attn_lines(blocks * sizeof(atomic_int) / sizeof(float));
    p.flags = at, at += fv_attn_lines((blocks + 3) / 4);
    p.wide_dq = at;
    if (half && (!p.alone || a->varlen)) at += heads * (size_t)a->n_q * (size_t)p.wide_row;
    p.sums_w = at;
    if (additive) at += fv_attn_lines(heads * (size_t)(p.key_units * width));
    p.shared_floats = at;
    return p;
}

size_t fv_attn_backward_bytes(const void *args, int threads)
{
    const fv_attn *a = args;
    const backward_plan p = fv_attn_backward_plan(a);
    /* Repeated inputs can ask for more rows than can be counted. */
    size_t heads, wide;
    if (!fv_mul_size((size_t)a->batch, (size_t)a->heads, &heads) ||
        !fv_mul_size(heads, (size_t)(a->n_q + a->n_k) * (size_t)p.wide_row, &wide) ||
        wide > SIZE_MAX / 16)
        return SIZE_MAX;
    return (p.shared_floats + (size_t)threads * p.thread_floats) * sizeof(float);
}

workspace fv_attn_workspace_of(const backward_job *job, int thread)
{
    const backward_plan *p = &job->plan;
    float *base = job->threads + (size_t)thread * p->thread_floats;
    const int64_t row = p->wide_row, queries = BLOCK_ROWS * row, keys = p->keys * row;
    float *wide = base + p->wide, *wide_k = wide + 3 * queries;
    uint32_t *pairs = (uint32_t *)(void *)(base + p->pairs);
    workspace w = {.k_panels = base + p->k_panels,
                   .v_panels = base + p->v_panels,
                   .weights = base + p->weights,
                   .products = base + p->products,
                   .slack = base + p->slack,
                   .keep = base + p->keep,
                   .slice = base + p->slice,
                   .wide_q = {wide, row},
                   .wide_g = {wide + queries, row},
                   .wide_dq = {wide + 2 * queries, row},
                   .wide_k = {wide_k, row},
                   .wide_dk = {wide_k + keys, row},
                   .wide_dv = {wide_k + 2 * keys, row},
                   .pair_q = pairs,
                   .pair_g = pairs + BLOCK_ROWS * p->pair_row,
                   .row = (fv_attn_row *)(void *)(base + p->records)};
    if (job->base.a->score == FV_ATTN_SCORE_ADDITIVE)
        fv_attn_additive_room(job->base.a, p->keys, base + p->additive, &w);
    return w;
}
