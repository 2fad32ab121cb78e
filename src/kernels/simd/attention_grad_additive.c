/* The backward of additive scores: sums where attention_grad.c has products. */
#include "kernels/simd/attention_grad.h"

/* Buffer sizes of a thread, each in whole cache lines. */
typedef struct sizes {
    int64_t keys, rows, w, lanes;
} sizes;

static sizes sizes_of(const fv_attn *a, int64_t keys)
{
    return (sizes){.keys = keys * a->d,
                   .rows = (int64_t)fv_attn_lines((size_t)(BLOCK_ROWS * a->d)),
                   .w = (a->d + 1) * FV_LANES,
                   .lanes = BLOCK_ROWS * FV_LANES};
}

int64_t fv_attn_additive_floats(const fv_attn *a, int64_t keys)
{
    const sizes p = sizes_of(a, keys);
    return 2 * p.keys + 2 * p.rows + p.w + p.lanes;
}

void fv_attn_additive_buffers(const fv_attn *a, int64_t keys, float *base, workspace *w)
{
    const sizes p = sizes_of(a, keys);
    w->key_exp = base;
    w->sums.k = w->key_exp + p.keys;
    w->query_exp = w->sums.k + p.keys;
    w->sums.q = w->query_exp + p.rows;
    w->sums.w = w->sums.q + p.rows;
    w->sums.row_sums = w->sums.w + p.w;
}

void fv_attn_exp_keys(const backward_job *job, const workspace *w, key_block *keys)
{
    const int64_t packed = fv_attn_round(keys->count, FV_ATTN_PANEL) * job->base.a->d;
    fv_attn_pack_zeros(keys->count, job->base.a->d, w->k_panels);
    keys->has_exp = fv_attn_exp_2x(w->k_panels, packed, w->key_exp);
    memset(w->sums.k, 0, (size_t)packed * sizeof(float));
}

void fv_attn_exp_queries(const backward_job *job, const workspace *w, query_block *block)
{
    const int64_t d = job->base.a->d;
    block->has_exp = true;
    for (int64_t r = 0; r < block->rows; r++)
        block->has_exp &= fv_attn_exp_2x(block->q.at + r * block->q.row, d, w->query_exp + r * d);
}

fv_attn_additive_operands fv_attn_operands_of(const backward_job *job, const workspace *w,
                                              const key_block *keys, const query_block *block,
                                              int64_t r)
{
    const int64_t d = job->base.a->d;
    return (fv_attn_additive_operands){.q = block->q.at + r * block->q.row,
                                       .query_exp = w->query_exp + r * d,
                                       .q_row = block->q.row,
                                       .query_exp_row = d,
                                       .k = w->k_panels,
                                       .key_exp = w->key_exp,
                                       .w = w->row[r].w,
                                       .width = d,
                                       .missing = !keys->has_exp || !block->has_exp};
}

void fv_attn_sum_block(const backward_job *job, const workspace *w, const key_block *keys,
                       const query_block *block)
{
    fv_attn_interval visible[MAX_KEYS / FV_ATTN_VISIBLE_STEP];
    for (int64_t c = 0; c < keys->count; c += FV_ATTN_VISIBLE_STEP) {
        fv_attn_interval rows = {0, 0},
                         all = {block->rows, 0}; /* from the first interval to the last */
        while (next_rows_seeing(block, c, c + FV_ATTN_VISIBLE_STEP, &rows))
            all = (fv_attn_interval){fv_attn_min(all.begin, rows.begin), rows.end};
        visible[c / FV_ATTN_VISIBLE_STEP] = all;
    }
    const fv_attn_additive_operands operands = fv_attn_operands_of(job, w, keys, block, 0);
    const fv_attn_score_grads grads = {.dz = w->products,
                                       .row = job->plan.score_row,
                                       .rows = block->rows,
                                       .keys = fv_attn_round(keys->count, FV_LANES),
                                       .visible = visible};
    fv_attn_additive_grad(job->base.exec, &operands, &grads, &w->sums);
}

void fv_attn_add_query_sums(const backward_job *job, const workspace *w, const query_block *block,
                            fv_attn_rows grad)
{
    const int64_t d = job->base.a->d;
    for (int64_t r = 0; r < block->rows; r++) {
        float *to = grad.at + r * grad.row;
        const float *from = w->sums.q + r * d;
        V_LOOP(d, 0, v_store(to + i, count, v_add(v_load(to + i, count), v_load(from + i, count))));
    }
}

void fv_attn_add_key_sums(const backward_job *job, const workspace *w, const key_block *keys,
                          fv_attn_rows grad)
{
    const int64_t d = job->base.a->d;
    for (int64_t j = 0; grad.at && j < keys->count; j++) {
        const int64_t inside = j % FV_ATTN_PANEL;
        const float *panel = w->sums.k + (j - inside) * d + inside;
        for (int64_t c = 0; c < d; c++)
            grad.at[j * grad.row + c] +=
                panel[c * FV_ATTN_PANEL]; /* to zeros, or with adds_to_keys */
    }
}

void fv_attn_store_partial_w(const backward_job *job, const workspace *w, const key_block *keys,
                             int64_t h)
{
    const fv_attn *a = job->base.a;
    const int64_t item = (keys->b * a->heads + h) * job->plan.key_blocks + keys->number;
    fv_attn_additive_w(w->sums.w, a->d, job->sums_w + item * a->d);
}

void fv_attn_merge_partial_w(const backward_job *job)
{
    const fv_attn *a = job->base.a;
    float *grad = job->base.grad[FV_ATTN_GRAD_W];
    const float *from = job->sums_w;
    for (int64_t head = 0; head < a->batch * a->heads; head++)
        for (int64_t item = 0; item < job->plan.key_blocks; item++, from += a->d)
            for (int64_t c = 0; c < a->d; c++)
                grad[head % a->heads * a->d + c] += from[c];
}
