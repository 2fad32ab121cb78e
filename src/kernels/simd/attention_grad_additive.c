/* The backward of additive scores: what attention_grad.c does with products, made of sums. */
#include "kernels/simd/attention_grad.h"

/* Parts of a thread's share, each in whole lines. */
typedef struct parts {
    int64_t keys, rows, w, lanes;
} parts;

static parts parts_of(const fv_attn *a, int64_t keys)
{
    return (parts){.keys = keys * a->d,
                   .rows = (int64_t)fv_attn_lines((size_t)(BLOCK_ROWS * a->d)),
                   .w = (a->d + 1) * FV_LANES,
                   .lanes = BLOCK_ROWS * FV_LANES};
}

int64_t fv_attn_additive_floats(const fv_attn *a, int64_t keys)
{
    const parts p = parts_of(a, keys);
    return 2 * p.keys + 2 * p.rows + p.w + p.lanes;
}

void fv_attn_additive_room(const fv_attn *a, int64_t keys, float *base, workspace *w)
{
    const parts p = parts_of(a, keys);
    w->ek = base;
    w->sums.k = w->ek + p.keys;
    w->eq = w->sums.k + p.keys;
    w->sums.q = w->eq + p.rows;
    w->sums.w = w->sums.q + p.rows;
    w->sums.part = w->sums.w + p.w;
}

void fv_attn_raise_keys(const backward_job *job, const workspace *w, key_block *keys)
{
    const int64_t packed = fv_attn_round(keys->count, FV_ATTN_PANEL) * job->base.a->d;
    fv_attn_pack_zeros(keys->count, job->base.a->d, w->k_panels);
    keys->raised = fv_attn_raise(w->k_panels, packed, w->ek);
    memset(w->sums.k, 0, (size_t)packed * sizeof(float));
}

void fv_attn_raise_queries(const backward_job *job, const workspace *w, query_block *block)
{
    const int64_t d = job->base.a->d;
    block->raised = true;
    for (int64_t r = 0; r < block->rows; r++)
        block->raised &= fv_attn_raise(block->q.at + r * block->q.row, d, w->eq + r * d);
}

fv_attn_sides fv_attn_sides_of(const backward_job *job, const workspace *w, const key_block *keys,
                               const query_block *block, int64_t r)
{
    const int64_t d = job->base.a->d;
    return (fv_attn_sides){.q = block->q.at + r * block->q.row,
                           .eq = w->eq + r * d,
                           .q_row = block->q.row,
                           .eq_row = d,
                           .k = w->k_panels,
                           .ek = w->ek,
                           .w = w->row[r].w,
                           .width = d,
                           .careful = !keys->raised || !block->raised};
}

void fv_attn_sum_block(const backward_job *job, const workspace *w, const key_block *keys,
                       const query_block *block)
{
    fv_attn_span sight[MOST_KEYS / FV_ATTN_SIGHTED];
    for (int64_t c = 0; c < keys->count; c += FV_ATTN_SIGHTED) {
        fv_attn_span rows = {0, 0}, all = {block->rows, 0}; /* from the first run to the last */
        while (next_rows_in_sight(block, c, c + FV_ATTN_SIGHTED, &rows))
            all = (fv_attn_span){fv_attn_min(all.begin, rows.begin), rows.end};
        sight[c / FV_ATTN_SIGHTED] = all;
    }
    const fv_attn_sides sides = fv_attn_sides_of(job, w, keys, block, 0);
    const fv_attn_pairs pairs = {.dz = w->products,
                                 .row = job->plan.score_row,
                                 .rows = block->rows,
                                 .keys = fv_attn_round(keys->count, FV_LANES),
                                 .sight = sight};
    fv_attn_additive_grad(job->base.exec, &sides, &pairs, &w->sums);
}

void fv_attn_query_sums(const backward_job *job, const workspace *w, const query_block *block,
                        fv_attn_rows grad)
{
    const int64_t d = job->base.a->d;
    for (int64_t r = 0; r < block->rows; r++) {
        float *to = grad.at + r * grad.row;
        const float *from = w->sums.q + r * d;
        V_LOOP(d, 0, v_store(to + i, count, v_add(v_load(to + i, count), v_load(from + i, count))));
    }
}

void fv_attn_key_sums(const backward_job *job, const workspace *w, const key_block *keys,
                      fv_attn_rows grad)
{
    const int64_t d = job->base.a->d;
    for (int64_t j = 0; grad.at && j < keys->count; j++) {
        const int64_t inside = j % FV_ATTN_PANEL;
        const float *panel = w->sums.k + (j - inside) * d + inside;
        for (int64_t c = 0; c < d; c++)
            grad.at[j * grad.row + c] += panel[c * FV_ATTN_PANEL]; /* to zeros, or as asked */
    }
}

void fv_attn_w_sums(const backward_job *job, const workspace *w, const key_block *keys, int64_t h)
{
    const fv_attn *a = job->base.a;
    const int64_t unit = (keys->b * a->heads + h) * job->plan.key_units + keys->number;
    fv_attn_additive_w(w->sums.w, a->d, job->sums_w + unit * a->d);
}

void fv_attn_join_w(const backward_job *job)
{
    const fv_attn *a = job->base.a;
    float *grad = job->base.grad[FV_ATTN_GRAD_W];
    const float *part = job->sums_w;
    for (int64_t head = 0; head < a->batch * a->heads; head++)
        for (int64_t unit = 0; unit < job->plan.key_units; unit++, part += a->d)
            for (int64_t c = 0; c < a->d; c++)
                grad[head % a->heads * a->d + c] += part[c];
}
