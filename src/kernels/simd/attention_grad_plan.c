/* How the backward is divided into work items, and its scratch layout. */
#include "base/checked_math.h"
#include "kernels/simd/attention_grad.h"

backward_plan fv_attn_backward_plan(const fv_attn *a)
{
    backward_plan p = {0};
    const int64_t width = fv_attn_width(a);
    p.query_blocks = (a->n_q + BLOCK_ROWS - 1) / BLOCK_ROWS;
    p.keys = width > WIDE || a->d_v > WIDE ? WIDE_KEYS : MAX_KEYS;
    p.keys = fv_attn_min(p.keys, fv_attn_round(a->n_k, FV_ATTN_PANEL));
    p.key_blocks = p.keys > 0 ? (a->n_k + p.keys - 1) / p.keys : 0;
    p.single_block = p.key_blocks == 1;
    p.score_row = p.keys + FV_LANES; /* an odd number of cache lines */

    size_t at = 0;
    p.k_panels = at, at += (size_t)(p.keys * width);
    p.v_panels = at, at += (size_t)(p.keys * a->d_v);
    p.weights = at, at += (size_t)(BLOCK_ROWS * p.score_row);
    p.products = at, at += (size_t)(BLOCK_ROWS * p.score_row);
    p.cap_grad = at, at += a->rule.soft_cap > 0 ? (size_t)p.score_row : 0;
    p.keep = at, at += (size_t)p.score_row;
    p.slice = at, at += (size_t)(fv_attn_max(BLOCK_ROWS, p.keys) * FV_TILE_COLS);
    p.records = at, at += fv_attn_lines(BLOCK_ROWS * sizeof(fv_attn_row) / sizeof(float));
    p.wide_row = fv_attn_deinterleaved_row(fv_attn_max(width, a->d_v)) + FV_LANES;
    /* For varlen documents: enough for any of them, in one key block or several. */
    const bool half = fv_attn_is_half(a->dtype);
    const int64_t wide_rows = half ? 3 * BLOCK_ROWS + 3 * p.keys : 0;
    p.wide = at, at += (size_t)(wide_rows * p.wide_row);
    /* An odd number of cache lines, so that rows spread over the cache sets. */
    p.bf16_row = fv_attn_round(fv_attn_pair_count(fv_attn_max(width, a->d_v)), 2 * FV_LANES);
    p.bf16_row += FV_LANES;
    const bool bf16_rows = FV_SIMD_LEVEL == 3 && a->dtype == FV_BF16;
    p.bf16 = at, at += bf16_rows ? (size_t)(2 * BLOCK_ROWS * p.bf16_row) : 0;
    const bool additive = a->score == FV_ATTN_SCORE_ADDITIVE;
    p.additive = at;
    if (additive) at += (size_t)fv_attn_additive_floats(a, p.keys);
    p.thread_floats = at;

    const size_t heads = (size_t)(a->batch * a->heads), blocks = heads * (size_t)p.query_blocks;
    at = 0;
    p.delta = at, at += fv_attn_lines(heads * (size_t)a->n_q);
    p.shift = at, at += fv_attn_lines(heads * (size_t)a->n_q);
    p.tickets = at, at += fv_attn_lines(blocks * sizeof(atomic_int) / sizeof(float));
    p.flags = at, at += fv_attn_lines((blocks + 3) / 4);
    p.wide_dq = at;
    if (half && (!p.single_block || a->varlen)) at += heads * (size_t)a->n_q * (size_t)p.wide_row;
    p.sums_w = at;
    if (additive) at += fv_attn_lines(heads * (size_t)(p.key_blocks * width));
    p.shared_floats = at;
    return p;
}

size_t fv_attn_backward_bytes(const void *args, int threads)
{
    const fv_attn *a = args;
    const backward_plan p = fv_attn_backward_plan(a);
    /* Inputs may be broadcast, so the number of rows may overflow. */
    size_t heads, wide;
    if (!fv_checked_mul_size((size_t)a->batch, (size_t)a->heads, &heads) ||
        !fv_checked_mul_size(heads, (size_t)(a->n_q + a->n_k) * (size_t)p.wide_row, &wide) ||
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
    uint32_t *bf16 = (uint32_t *)(void *)(base + p->bf16);
    workspace w = {.k_panels = base + p->k_panels,
                   .v_panels = base + p->v_panels,
                   .weights = base + p->weights,
                   .products = base + p->products,
                   .cap_grad = base + p->cap_grad,
                   .keep = base + p->keep,
                   .slice = base + p->slice,
                   .wide_q = {wide, row},
                   .wide_g = {wide + queries, row},
                   .wide_dq = {wide + 2 * queries, row},
                   .wide_k = {wide_k, row},
                   .wide_dk = {wide_k + keys, row},
                   .wide_dv = {wide_k + 2 * keys, row},
                   .bf16_q = bf16,
                   .bf16_g = bf16 + BLOCK_ROWS * p->bf16_row,
                   .row = (fv_attn_row *)(void *)(base + p->records)};
    if (job->base.a->score == FV_ATTN_SCORE_ADDITIVE)
        fv_attn_additive_buffers(job->base.a, p->keys, base + p->additive, &w);
    return w;
}
