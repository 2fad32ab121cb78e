/*
 * bf16 attention backward on AMX tiles; see attention_grad.c for the division into work items and
 * the order of the sums, which are the same, and attention_tiles.h for the products. All five run
 * on tiles. With d along the rows of dK and dV, P and dS are the right operand of their products,
 * so neither is transposed:
 *
 *     S  = Q K^T, dP = dO V^T       A: rows of q and dO          B: panels of K and V
 *     dQ   += dS K                  A: rows of dS                B: words of two keys
 *     dV^T += dO^T P                A: words of two rows of dO   B: words of two rows of P
 *     dK^T += Q^T dS                A: likewise of Q             B: likewise of dS
 *
 * The words of Q^T and dO^T serve every key block and are made once, when the queries are prepared.
 * While P and dS of a row tile are formed, S and dP of the next one are computed, and a part of dV
 * and dK of the query block before.
 *
 * Rounding: P and dS are rounded to bf16 before they are multiplied, which the other levels do not
 * do. With z_ij the gradient of q_i . k_j, before they are stored the gradients are off by up to
 *
 *     2^-8 sum_i p_ij |do_i|    2^-8 sum_i |z_ij q_i|    2^-8 sum_j |z_ij k_j|
 *
 * in dv_j, dk_j and dq_i, besides the errors of sums in float.
 */
#ifndef FV_KERNELS_SIMD_ATTENTION_TILES_GRAD_H
#define FV_KERNELS_SIMD_ATTENTION_TILES_GRAD_H

#include "base/checked_math.h"
#include "kernels/simd/attention_tiles_form.h"

/* ---- products --------------------------------------------------------------------- */

/* C += A B for any number of rows and columns of whole tiles; p describes the first one. Runs at
 * once, or, if `defer`, until tiles_finish. */
static void tiles_multiply_all(tiles_state *s, tiles_product p, int64_t rows, int64_t cols,
                               bool defer)
{
    const tiles_product first = p;
    for (int64_t r = 0; r < rows; r += TILES_ROWS)
        for (int64_t c = 0; c < cols; c += TILES_ROWS) {
            p.a = first.a + r * p.a_row;
            p.b = first.b + c;
            p.c = first.c + r * p.c_row + c;
            p.two_rows = rows - r > TILE_ROWS;
            p.two_cols = cols - c > TILE_ROWS;
            (defer ? tiles_defer : tiles_queue)(s, &p);
        }
    if (!defer) tiles_flush(s);
}

/* ---- queries ---------------------------------------------------------------------- */

/* Words of two rows, [rows/32][width][16], with 0 in place of NaN and infinity and past the last
 * row. Returns whether all are finite. */
static bool tiles_transpose(const uint16_t *x, int64_t row, int64_t rows, int64_t width,
                            uint32_t *pairs, uint32_t *to)
{
    const int64_t stride = fv_attn_round(width, TILE_ROWS);
    bool finite = true;
    for (int64_t r = 0; r < rows; r += TILES_ROWS, to += stride * TILES_STEP) {
        finite &=
            tiles_pack_pairs(x + r * row, row, fv_attn_min(TILES_ROWS, rows - r), width, pairs);
        fv_gemm_pack_b(stride, TILES_STEP, (const float *)(const void *)pairs, 1, stride,
                       TILES_STEP, (float *)(void *)to);
    }
    return finite;
}

static void tiles_prepare(const void *arg, int64_t begin, int64_t end, int thread)
{
    const tiles_job *job = arg;
    const fv_attn *a = job->base.base.a;
    const tiles_plan *p = &job->plan;
    const tiles_workspace w = tiles_workspace_of(job, thread);
    void *const *ptr = job->base.base.ptr, *const *grad = job->base.base.grad;
    for (int64_t item = begin; item < end; item++) {
        const int64_t head = item / p->query_blocks, b = head / a->heads, h = head % a->heads;
        const int64_t first = item % p->query_blocks * p->queries;
        const int64_t count = fv_attn_min(p->queries, a->n_q - first);
        const uint16_t *q = fv_attn_at(a, ptr[FV_ATTN_Q], &a->q, b, h, first);
        const fv_attn_layout *dl = fv_attn_layout_do(a), *lq = fv_attn_layout_dq(a);
        const uint16_t *g = fv_attn_out(a, grad[FV_ATTN_GRAD_O], dl, b, h, first);
        fv_attn_prepare_queries(&job->base, b, h, first, count);
        (void)tiles_transpose(q, a->q.row, count, a->d, w.staging,
                              job->transposed_q + item * p->queries / 2 * p->d);
        job->finite_g[item] =
            !g || tiles_transpose(g, dl->row, count, a->d_v, w.staging,
                                  job->transposed_g + item * p->queries / 2 * p->d_v);
        const fv_attn_interval seen = fv_attn_visible_key_blocks(&job->base, b, first, count);
        const fv_attn_rows dq = {job->dq + item * p->queries * p->d, p->d};
        memset(dq.at, 0, (size_t)(count * p->d) * sizeof *dq.at);
        if (seen.begin == seen.end && grad[FV_ATTN_GRAD_Q])
            fv_attn_store_rows(a, dq, grad[FV_ATTN_GRAD_Q], lq, b, h, first, count, a->d);
        atomic_store_explicit(job->base.tickets + item, (int)seen.begin, memory_order_relaxed);
    }
}

/* ---- gradients -------------------------------------------------------------------- */

/* What the products of dV left out: weights other than 0, as words of two rows, times rows of dO
 * that are not finite. dQ and dK need no such terms: where k or q is not finite, dS is 0 or NaN. */
static void tiles_fix_values(const tiles_plan *plan, tiles_state *s, const uint32_t *pairs,
                             fv_attn_interval rows, const uint16_t *x, int64_t row, int64_t keys,
                             int64_t width, float *to)
{
    tiles_finish(s);
    for (int64_t i = rows.begin; i < rows.end; i++)
        for (int64_t j = 0; j < keys; j++) {
            const uint32_t pair = pairs[i / 2 * plan->keys + j];
            const float weight = fv_bf16_to_f32((uint16_t)(i % 2 ? pair >> 16 : pair));
            for (int64_t c = 0; weight != 0 && c < width; c++)
                if (!tiles_is_finite(x[i * row + c]))
                    to[c * plan->keys + j] += weight * fv_bf16_to_f32(x[i * row + c]);
        }
}

/* Row tiles of the block that see a key, from the first to the last. */
static fv_attn_interval tiles_rows_seeing(const query_block *block)
{
    fv_attn_interval rows = {block->rows, 0};
    for (int64_t r = 0; r < block->rows; r += TILES_ROWS) {
        const fv_attn_interval seen = block->visible[r / TILES_ROWS].interval;
        if (seen.begin == seen.end) continue;
        if (rows.end == 0) rows.begin = r;
        rows.end = fv_attn_min(block->rows, r + TILES_ROWS);
    }
    return rows;
}

/* dK or dV += x^T weights; transposed: the words of x, pairs: those of the weights. */
static void tiles_add_to_keys(const tiles_job *job, const tiles_workspace *w, const key_block *keys,
                              fv_attn_interval rows, const uint32_t *transposed,
                              const uint32_t *pairs, int64_t width, float *to)
{
    const int64_t stride = job->plan.keys, first = rows.begin / TILES_ROWS;
    const tiles_product p = {.a = transposed + first * width * TILES_STEP,
                             .a_row = TILES_STEP,
                             .a_step = width * TILES_STEP,
                             .b = pairs + rows.begin / 2 * stride,
                             .b_row = stride,
                             .b_step = TILES_STEP * stride,
                             .c = to,
                             .c_row = stride,
                             .steps = (rows.end + TILES_ROWS - 1) / TILES_ROWS - first,
                             .add = true};
    tiles_multiply_all(w->state, p, width, fv_attn_round(keys->count, TILES_ROWS), true);
}

static void tiles_add_to_queries(const tiles_job *job, const tiles_workspace *w,
                                 const query_block *block, float *dq)
{
    const tiles_plan *plan = &job->plan;
    for (int64_t r = 0; r < block->rows; r += TILES_ROWS) {
        const fv_attn_interval seen = block->visible[r / TILES_ROWS].interval;
        if (seen.begin == seen.end) continue;
        const tiles_product p = {.a = w->ds_rows + r * plan->ds_row + seen.begin / 2,
                                 .a_row = plan->ds_row,
                                 .a_step = TILES_STEP,
                                 .b = w->k_pairs + seen.begin / 2 * plan->d,
                                 .b_row = plan->d,
                                 .b_step = TILES_STEP * plan->d,
                                 .c = dq + r * plan->d,
                                 .c_row = plan->d,
                                 .steps = (seen.end - seen.begin) / TILES_ROWS,
                                 .add = true};
        tiles_multiply_all(w->state, p, fv_attn_min(TILES_ROWS, block->rows - r), plan->d, false);
    }
}

/* ---- work items --------------------------------------------------------------------- */

/* Fills in block->visible, relative to the key block and in whole steps. Returns whether any query
 * sees a key. */
static bool tiles_find_visible(const tiles_job *job, const tiles_workspace *w,
                               const key_block *keys, query_block *block)
{
    bool any = false;
    fv_attn_fill_rows(&job->base.base, keys->b, block->h, block->first, block->rows, w->rows.row);
    for (int64_t r = 0; r < block->rows; r += TILES_ROWS) {
        const int rows = (int)fv_attn_min(TILES_ROWS, block->rows - r);
        fv_attn_interval seen =
            fv_attn_visible_interval(w->rows.row + r, rows, keys->first, keys->first + keys->count);
        seen.begin = (seen.begin - keys->first) / TILES_ROWS * TILES_ROWS;
        seen.end = fv_attn_round(seen.end - keys->first, TILES_ROWS);
        if (seen.end == 0) seen.begin = 0;
        block->visible[r / TILES_ROWS].interval = seen;
        any |= seen.begin < seen.end;
    }
    return any;
}

static void tiles_load_rows(const tiles_job *job, const tiles_workspace *w, const key_block *keys,
                            const query_block *block)
{
    const fv_attn *a = job->base.base.a;
    const fv_attn_layout *dl = fv_attn_layout_do(a);
    const void *q =
        fv_attn_at(a, job->base.base.ptr[FV_ATTN_Q], &a->q, keys->b, block->h, block->first);
    const void *g =
        fv_attn_out(a, job->base.base.grad[FV_ATTN_GRAD_O], dl, keys->b, block->h, block->first);
    fv_attn_bf16_load(q, a->q.row, block->rows, a->d, w->q, job->plan.q_words + FV_LANES);
    if (g) fv_attn_bf16_load(g, dl->row, block->rows, a->d_v, w->g, job->plan.g_words + FV_LANES);
}

/* dV and dK of a block, whose weights are rounded. */
static void tiles_add_key_grads(const tiles_job *job, const tiles_workspace *w,
                                const key_block *keys, const query_block *block, int64_t item)
{
    const fv_attn *a = job->base.base.a;
    const tiles_plan *p = &job->plan;
    void *const *grad = job->base.base.grad;
    const fv_attn_layout *dl = fv_attn_layout_do(a);
    const uint16_t *g = fv_attn_out(a, grad[FV_ATTN_GRAD_O], dl, keys->b, block->h, block->first);
    const fv_attn_interval rows = tiles_rows_seeing(block);
    if (grad[FV_ATTN_GRAD_V] && g) {
        tiles_add_to_keys(job, w, keys, rows, job->transposed_g + item * p->queries / 2 * p->d_v,
                          w->p_pairs, p->d_v, w->dv);
        if (!job->finite_g[item])
            tiles_fix_values(p, w->state, w->p_pairs, rows, g, dl->row, keys->count, a->d_v, w->dv);
    }
    if (!grad[FV_ATTN_GRAD_K]) return;
    tiles_add_to_keys(job, w, keys, rows, job->transposed_q + item * p->queries / 2 * p->d,
                      w->ds_pairs, p->d, w->dk);
}

/* The workspace with the pairs in the buffer that no waiting product reads. */
static tiles_workspace tiles_next_buffer(const tiles_job *job, const tiles_workspace *w)
{
    tiles_state *s = w->state;
    tiles_workspace own = *w;
    own.p_pairs += s->buffer * job->plan.queries / 2 * job->plan.keys;
    own.ds_pairs += s->buffer * job->plan.queries / 2 * job->plan.keys;
    s->buffer = 1 - s->buffer;
    return own;
}

static void tiles_process_queries(const tiles_job *job, const tiles_workspace *all,
                                  const key_block *keys, int64_t h, int64_t index)
{
    const fv_attn *a = job->base.base.a;
    const tiles_plan *p = &job->plan;
    const int64_t head = keys->b * a->heads + h, item = head * p->query_blocks + index;
    const int64_t first = index * p->queries;
    query_block block = {.h = h,
                         .first = first,
                         .rows = fv_attn_min(p->queries, a->n_q - first),
                         .at = head * a->n_q + first};
    const fv_attn_interval seen =
        fv_attn_visible_key_blocks(&job->base, keys->b, first, block.rows);
    if (keys->number < seen.begin || keys->number >= seen.end) return;
    const bool any = tiles_find_visible(job, all, keys, &block);
    const tiles_workspace own = any ? tiles_next_buffer(job, all) : *all, *w = &own;
    if (any) {
        const fv_attn_interval rows = tiles_rows_seeing(&block);
        tiles_load_rows(job, w, keys, &block);
        tiles_form_rows(job, w, keys, &block, rows);
    }
    void *grad_q = job->base.base.grad[FV_ATTN_GRAD_Q];
    if (grad_q) {
        const fv_attn_rows dq = {job->dq + item * p->queries * p->d, p->d};
        fv_attn_wait_for_ticket(job->base.tickets + item, keys->number);
        if (any) tiles_add_to_queries(job, w, &block, dq.at);
        if (keys->number == seen.end - 1)
            fv_attn_store_rows(a, dq, grad_q, fv_attn_layout_dq(a), keys->b, h, first, block.rows,
                               a->d);
        atomic_store_explicit(job->base.tickets + item, (int)keys->number + 1,
                              memory_order_release);
    }
    if (any) tiles_add_key_grads(job, w, keys, &block, item);
}

/* Stores a gradient [width][keys] as rows, sixteen columns at a time. */
static void tiles_store_keys(const tiles_job *job, const tiles_workspace *w, const float *grad,
                             int64_t rows, int64_t width, uint16_t *to, int64_t row)
{
    float *rows_of = (float *)(void *)w->staging;
    for (int64_t c = 0; to && c < width; c += FV_LANES) {
        fv_gemm_pack_b(rows, FV_LANES, grad + c * job->plan.keys, 1, job->plan.keys, FV_LANES,
                       rows_of);
        fv_attn_narrow(FV_BF16, rows_of, FV_LANES, rows, fv_attn_min(FV_LANES, width - c), NULL,
                       to + c, row);
    }
}

static void tiles_process_keys(const tiles_job *job, const tiles_workspace *w, int64_t head,
                               int64_t number)
{
    const fv_attn *a = job->base.base.a;
    const tiles_plan *p = &job->plan;
    void *const *ptr = job->base.base.ptr, *const *grad = job->base.base.grad;
    const int64_t group = a->heads / a->kv_heads;
    key_block keys = {.b = head / a->kv_heads,
                      .h = head % a->kv_heads,
                      .first = number * p->keys,
                      .number = number};
    const int64_t all = fv_attn_min(p->keys, a->n_k - keys.first);
    const int64_t seen = fv_attn_keys(a, ptr[FV_ATTN_KEY_LENGTHS], keys.b);
    keys.count = fv_attn_max(0, fv_attn_min(all, seen - keys.first));
    const uint16_t *k = fv_attn_at(a, ptr[FV_ATTN_K], &a->k, keys.b, keys.h, keys.first);
    const uint16_t *v = fv_attn_at(a, ptr[FV_ATTN_V], &a->v, keys.b, keys.h, keys.first);
    const fv_attn_layout *lk = fv_attn_layout_dk(a), *lv = fv_attn_layout_dv(a);
    tiles_pack_panels(k, a->k.row, keys.count, a->d, w->k_panels);
    tiles_pack_panels(v, a->v.row, keys.count, a->d_v, w->v_panels);
    (void)tiles_pack_pairs(k, a->k.row, keys.count, a->d, w->k_pairs);
    memset(w->dk, 0, (size_t)(p->keys * p->d) * sizeof *w->dk);
    memset(w->dv, 0, (size_t)(p->keys * p->d_v) * sizeof *w->dv);
    for (int64_t h = keys.h * group; h < (keys.h + 1) * group; h++)
        for (int64_t index = p->query_blocks - 1; index >= 0; index--)
            tiles_process_queries(job, w, &keys, h, index);
    tiles_finish(w->state);
    tiles_store_keys(job, w, w->dk, all, a->d,
                     fv_attn_out(a, grad[FV_ATTN_GRAD_K], lk, keys.b, keys.h, keys.first), lk->row);
    tiles_store_keys(job, w, w->dv, all, a->d_v,
                     fv_attn_out(a, grad[FV_ATTN_GRAD_V], lv, keys.b, keys.h, keys.first), lv->row);
}

static void tiles_run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const tiles_job *job = arg;
    const tiles_workspace w = tiles_workspace_of(job, thread);
    tiles_begin(w.state);
    for (int64_t index = begin; index < end; index++) {
        const backward_item item = backward_item_at(&job->base.order, index);
        tiles_process_keys(job, &w, backward_head_of(&job->base.order, item.chain, 0), item.block);
    }
    tiles_end(w.state);
}

/* ---- the kernel ------------------------------------------------------------------- */

static void tiles_backward_run(const fv_exec *exec, void *const *ptr, const fv_attn *a)
{
    /* With one visible key dP and delta are equal and cancel exactly. */
    static const fv_attn_grad_products products = {.dots = fv_attn_bf16_step_dots};
    if (a->batch == 0) return;
    tiles_job job = {.base = fv_attn_backward_job_of(exec, ptr, a, &products),
                     .plan = tiles_plan_of(a)};
    const tiles_plan *p = &job.plan;
    float *shared = exec->scratch;
    const int64_t blocks = a->batch * a->heads * p->query_blocks;
    job.base.plan = (backward_plan){.keys = p->keys};
    job.base.order = backward_order_of(a, false, p->key_blocks, exec->threads);
    job.base.delta = shared + p->delta;
    job.base.shift = shared + p->shift;
    job.base.tickets = (atomic_int *)(void *)(shared + p->tickets);
    job.base.threads = shared + p->shared_floats;
    job.finite_g = (uint8_t *)(shared + p->flags);
    job.transposed_q = (uint32_t *)(void *)(shared + p->transposed_q);
    job.transposed_g = (uint32_t *)(void *)(shared + p->transposed_g);
    job.dq = shared + p->dq;
    fv_exec_rows(exec, blocks, p->queries * (a->d + a->d_v), tiles_prepare, &job);
    fv_exec_rows(exec, backward_items_of(&job.base.order), p->keys * a->n_q * (a->d + a->d_v),
                 tiles_run_items, &job);
}

static size_t tiles_backward_bytes(const void *args, int threads)
{
    const fv_attn *a = args;
    const size_t others = fv_attn_backward_bytes(a, threads);
    if (others == SIZE_MAX || a->dtype != FV_BF16 || a->score != FV_ATTN_SCORE_DOT) return others;
    /* Inputs may be broadcast, so the number of rows may overflow. */
    const size_t row =
        2 * (size_t)(fv_attn_round(a->d, TILE_ROWS) + fv_attn_round(a->d_v, TILE_ROWS)) + 8;
    size_t heads, rows;
    if (!fv_checked_mul_size((size_t)a->batch, (size_t)a->heads, &heads) ||
        !fv_checked_mul_size(heads, (size_t)(a->n_q + TILES_QUERIES) * row, &rows) ||
        rows > SIZE_MAX / 16)
        return SIZE_MAX;
    const tiles_plan p = tiles_plan_of(a);
    const size_t bytes = (p.shared_floats + (size_t)threads * p.thread_floats) * sizeof(float);
    return bytes > others ? bytes : others;
}

static size_t tiles_backward_scratch(const void *args, int threads)
{
    return fv_attn_whole_scratch(args, threads, tiles_backward_bytes);
}

/* Other scores than products, decoding, and the gradient of a bias, which work items may share, are
 * as with the float tile. */
static void tiles_backward(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn *a = args;
    if (a->varlen)
        fv_attn_run_varlen(exec, ptr, a, true, tiles_backward, tiles_backward_bytes);
    else if (a->score != FV_ATTN_SCORE_DOT || fv_attn_is_decode(a) || ptr[FV_ATTN_GRAD_BIAS])
        fv_attn_backward_with(exec, ptr, a, NULL);
    else
        tiles_backward_run(exec, ptr, a);
}

static void tiles_grad_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_ATTENTION_GRAD][FV_BF16] = tiles_backward;
    t->scratch[FV_KERNEL_ATTENTION_GRAD] = tiles_backward_scratch;
}

#endif
