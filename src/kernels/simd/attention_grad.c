/*
 * Attention backward; kernels/attention.h has the formulas. A work item is a block of keys of one
 * key head. It processes the queries block by block, recomputes the weights P from the saved
 * log-sum-exp, forms dS, and adds to three gradients:
 *
 *     dV += P^T dO     dK += dS^T Q     its own rows: no other work item touches them
 *     dQ += dS K       shared by the work items of a head
 *
 * Blocks of dQ are added to in the order of the key blocks that see them. Each has a ticket, the
 * number of the key block that is next; a work item waits until the ticket shows its own. Work
 * items start in ascending order and wait only for lower ones, so one can always proceed; and since
 * the next work item follows one query block behind, waits are short. So all threads can work on
 * one head, and every sum has one order. If all keys are one block there is no waiting, and its
 * work item also does what is needed once per query.
 *
 * bf16 and f16 rows are converted block by block. Their gradients are accumulated in float scratch,
 * which for dQ is as large as dQ, and converted after the last term. With `bf16` two of the five
 * products use bf16 rows directly.
 */
#include "kernels/simd/attention_grad.h"

#include "kernels/simd/register.h"

static size_t backward_scratch(const void *args, int threads)
{
    return fv_attn_whole_scratch(args, threads, fv_attn_backward_bytes);
}

/* ---- per query ----------------------------------------------------------------------- */

/* Where a block's gradient is accumulated; `at` is the number of its first query. */
static fv_attn_rows query_sums(const backward_job *job, const workspace *w, int64_t b, int64_t h,
                               int64_t first, int64_t at)
{
    const fv_attn *a = job->base.a;
    const int64_t row = job->plan.wide_row;
    fv_attn_rows buffer = w->wide_dq;
    if (!job->plan.single_block) buffer = (fv_attn_rows){job->wide_dq + at * row, row};
    return fv_attn_accumulator_at(a, job->base.grad[FV_ATTN_GRAD_Q], fv_attn_layout_dq(a), b, h,
                                  first, buffer);
}

/* The product is one chain, like the tile's dP: with one visible key the two are equal and cancel
 * exactly. */
void fv_attn_prepare_queries(const backward_job *job, int64_t b, int64_t h, int64_t first,
                             int64_t count)
{
    const fv_attn *a = job->base.a;
    const fv_exec *exec = job->base.exec;
    (void)exec;
    void *const *ptr = job->base.ptr, *const *grad = job->base.grad;
    const float *lse = ptr[FV_ATTN_LSE], *dlse = grad[FV_ATTN_GRAD_LSE];
    const int64_t head = b * a->heads + h, number = head * fv_attn_lse_head(a) + first;
    float *delta = job->delta + head * a->n_q + first, *shift = job->shift + head * a->n_q + first;
    const fv_attn_layout *dl = fv_attn_layout_do(a);
    const void *g = fv_attn_out(a, grad[FV_ATTN_GRAD_O], dl, b, h, first);
    const void *o = fv_attn_at(a, ptr[FV_ATTN_O], &a->o, b, h, first);
    if (!g)
        memset(delta, 0, (size_t)count * sizeof *delta);
    else if (job->bf16)
        job->bf16->dots(g, dl->row, o, a->o.row, count, a->d_v, delta);
    else
        fv_attn_dots(a->dtype, g, dl->row, o, a->o.row, count, a->d_v, delta);
    for (int64_t r = 0; r < count; r++) {
        delta[r] = FV_TERM(exec, 1, delta[r] - (dlse ? dlse[number + r] : 0), 0);
        const float l = lse[number + r];
        shift[r] = l == -INFINITY ? 0 : l * (float)FV_ATTN_LOG2E;
    }
}

fv_attn_interval fv_attn_visible_key_blocks(const backward_job *job, int64_t b, int64_t first,
                                            int64_t count)
{
    const fv_attn *a = job->base.a;
    const int64_t n_keys = fv_attn_keys(a, job->base.ptr[FV_ATTN_KEY_LENGTHS], b);
    const int64_t keys = job->plan.keys;
    /* Both ends of a range ascend with the query. */
    const fv_attn_range top = fv_attn_visible_range(a, n_keys, first);
    const fv_attn_range bottom = fv_attn_visible_range(a, n_keys, first + count - 1);
    const int64_t low = top.prefix > 0 ? 0 : top.low;
    const int64_t high = fv_attn_min(n_keys, fv_attn_max(bottom.high, bottom.prefix));
    if (job->plan.single_block) return (fv_attn_interval){0, 1};
    if (low >= high) return (fv_attn_interval){0, 0};
    return (fv_attn_interval){low / keys, (high + keys - 1) / keys};
}

static void prepare_rows(const void *arg, int64_t begin, int64_t end, int thread)
{
    const backward_job *job = arg;
    const fv_attn *a = job->base.a;
    const workspace w = fv_attn_workspace_of(job, thread);
    const fv_attn_layout *dl = fv_attn_layout_do(a);
    void *const *ptr = job->base.ptr, *const *grad = job->base.grad;
    for (int64_t item = begin; item < end; item++) {
        const int64_t head = item / job->plan.query_blocks, b = head / a->heads,
                      h = head % a->heads;
        const int64_t first = item % job->plan.query_blocks * BLOCK_ROWS;
        const int64_t count = fv_attn_min(BLOCK_ROWS, a->n_q - first), at = head * a->n_q + first;
        const void *q = fv_attn_out(a, ptr[FV_ATTN_Q], &a->q, b, h, first);
        const void *g = fv_attn_out(a, grad[FV_ATTN_GRAD_O], dl, b, h, first);
        fv_attn_prepare_queries(job, b, h, first, count);
        /* bf16 rows are checked when they are deinterleaved. */
        job->finite[item] = !job->bf16 &&
                            fv_attn_finite(a->dtype, q, a->q.row, count, fv_attn_width(a)) &&
                            (!g || fv_attn_finite(a->dtype, g, dl->row, count, a->d_v));
        const fv_attn_rows dq = query_sums(job, &w, b, h, first, at);
        const fv_attn_interval seen = fv_attn_visible_key_blocks(job, b, first, count);
        if (seen.begin == seen.end) {
            fv_attn_clear_rows(a, dq, count, a->d);
            fv_attn_store_rows(a, dq, grad[FV_ATTN_GRAD_Q], fv_attn_layout_dq(a), b, h, first,
                               count, a->d);
        }
        atomic_store_explicit(job->tickets + item, (int)seen.begin, memory_order_relaxed);
    }
}

/* ---- weights and their gradients --------------------------------------------------- */

/* Scores to weights, and dP to dS scale; both are 0 where the weight is. Most calls have no
 * dropout, and only bf16 has a deferred scale: both are compile-time constants of each instance. */
V_INLINE void form(const backward_job *job, int64_t at, int64_t cols, float scale,
                   const bool is_deferred, const float *keep, float *p, float *ds)
{
    const vf offset = v_set(job->shift[at]), delta = v_set(job->delta[at]), by = v_set(scale);
    const vf factor = v_set(job->deferred_scale), neg_offset = v_neg(offset);
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        const vf x = v_load(p + c, FV_LANES);
        const vf w = fv_attn_exp2(is_deferred ? v_fma(x, factor, neg_offset) : v_sub(x, offset));
        vf dp = v_load(ds + c, FV_LANES), dropped = w;
        if (keep) {
            const vf kept = v_load(keep + c, FV_LANES);
            /* A dropped key is skipped: its dP may be NaN. */
            const vm zero = v_eq(kept, v_zero());
            dp = v_select(zero, v_zero(), v_mul(dp, kept));
            dropped = v_mul(w, kept);
        }
        const vf s = v_mul(v_mul(w, by), v_sub(dp, delta));
        v_store(p + c, FV_LANES, dropped);
        v_store(ds + c, FV_LANES, v_select(v_eq(w, v_zero()), v_zero(), s));
    }
}

/* The same for a query with a NaN in what it sees: the keys that it does not see get no share. */
static void form_nan_row(int64_t cols, float *p, float *ds)
{
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        const vm hidden = v_eq(v_load(p + c, FV_LANES), v_set(-INFINITY));
        const vf w = v_select(hidden, v_zero(), v_set(NAN));
        v_store(p + c, FV_LANES, w);
        v_store(ds + c, FV_LANES, w);
    }
}

static void form_row(const backward_job *job, int64_t at, int64_t cols, float scale,
                     const float *keep, float *p, float *ds)
{
    if (isnan(job->shift[at]))
        form_nan_row(cols, p, ds);
    else if (keep)
        form(job, at, cols, scale, job->deferred_scale != 1, keep, p, ds);
    else if (job->deferred_scale != 1)
        form(job, at, cols, scale, true, NULL, p, ds);
    else
        form(job, at, cols, scale, false, NULL, p, ds);
}

/* dbias += dS; then dS becomes the gradient of the product: times the scale and the derivative of
 * the cap. */
static void finish_score_grads(const backward_job *job, const key_block *keys,
                               const query_block *block, int64_t r, int64_t begin, int64_t cols,
                               const float *cap_grad, float *ds)
{
    const fv_attn *a = job->base.a;
    float *bias = job->base.grad[FV_ATTN_GRAD_BIAS];
    if (bias) {
        bias += keys->b * a->bias.batch + block->h * a->bias.head +
                (block->first + r) * a->bias.row + (keys->first + begin) * a->bias.col;
        const int64_t count = fv_attn_min(cols, keys->count - begin);
        for (int64_t c = 0; c < count; c++)
            if (ds[c] != 0) bias[c * a->bias.col] += ds[c];
    }
    const vf scale = v_set((float)a->rule.scale);
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        const vf s = v_load(ds + c, FV_LANES);
        vf z = v_mul(s, scale);
        if (cap_grad) {
            /* A hidden key's score may be NaN, and its derivative with it. */
            z = v_mul(s, v_mul(scale, v_load(cap_grad + c, FV_LANES)));
            z = v_select(v_eq(s, v_zero()), v_zero(), z);
        }
        v_store(ds + c, FV_LANES, z);
    }
}

static void clear_columns(float *x, int64_t stride, int rows, int64_t begin, int64_t end)
{
    for (int i = 0; i < rows && begin < end; i++)
        memset(x + i * stride + begin, 0, (size_t)(end - begin) * sizeof *x);
}

/* Scores of some rows with a key range, before fv_attn_finish_scores and job->deferred_scale. */
static void score_range(const backward_job *job, const workspace *w, const key_block *keys,
                        const query_block *block, int64_t r, int rows, fv_attn_interval range,
                        float *s)
{
    const fv_attn *a = job->base.a;
    const int64_t stride = job->plan.score_row, count = range.end - range.begin;
    const int64_t cols = fv_attn_round(count, FV_LANES);
    if (job->bf16) {
        const fv_attn_bf16_rows q = block->bf16_q;
        job->bf16->scores(q.at + r * q.row, q.row, rows, w->k_panels, a->d, range.begin, cols, s,
                          stride);
        for (int i = 0; job->deferred_scale == 1 && i < rows; i++)
            fv_attn_scale_row(s + i * stride, cols, job->base.factor);
    } else if (a->score == FV_ATTN_SCORE_DOT) {
        fv_attn_scores(block->q.at + r * block->q.row, block->q.row, rows, w->k_panels, a->d,
                       range.begin, fv_attn_round(count, FV_ATTN_KEY_STEP), s, stride);
    } else if (a->score == FV_ATTN_SCORE_ADDITIVE) {
        const fv_attn_additive_operands operands = fv_attn_operands_of(job, w, keys, block, r);
        fv_attn_additive(&operands, rows, job->base.factor, range.begin, cols, s, stride);
    } else {
        clear_columns(s, stride, rows, 0, cols);
    }
}

/* dP of the same. */
static void value_grad_range(const backward_job *job, const workspace *w, const query_block *block,
                             int64_t r, int rows, fv_attn_interval range, float *dp)
{
    const fv_attn *a = job->base.a;
    const int64_t stride = job->plan.score_row, count = range.end - range.begin;
    const int64_t cols = fv_attn_round(count, FV_LANES);
    if (!job->has_value_grad) {
        clear_columns(dp, stride, rows, 0, cols);
    } else if (job->bf16) {
        const fv_attn_bf16_rows g = block->bf16_g;
        job->bf16->scores(g.at + r * g.row, g.row, rows, w->v_panels, a->d_v, range.begin, cols, dp,
                          stride);
    } else {
        fv_attn_scores(block->g.at + r * block->g.row, block->g.row, rows, w->v_panels, a->d_v,
                       range.begin, fv_attn_round(count, FV_ATTN_KEY_STEP), dp, stride);
    }
}

void fv_attn_form_weights(const backward_job *job, const workspace *w, const key_block *keys,
                          const query_block *block, int64_t r, int rows, fv_attn_interval range,
                          float *p, float *ds, int64_t stride)
{
    const fv_attn *a = job->base.a;
    const int64_t begin = range.begin, cols = fv_attn_round(range.end - begin, FV_LANES);
    float *cap_grad = a->rule.soft_cap > 0 ? w->cap_grad : NULL,
          *keep = a->rule.dropout > 0 ? w->keep : NULL;
    for (int i = 0; i < rows; i++, p += stride, ds += stride) {
        const fv_attn_row *row = w->row + r + i;
        fv_attn_finish_scores(&job->base, row, keys->first + begin, cols, p, cap_grad);
        if (keep) fv_attn_dropout_factors(&job->base, row, keys->first + begin, cols, keep);
        const float scale = job->base.plain ? (float)a->rule.scale : 1;
        form_row(job, block->at + r + i, cols, scale, keep, p, ds);
        if (!job->base.plain)
            finish_score_grads(job, keys, block, r + i, begin, cols, cap_grad, ds);
    }
}

/* P and dS of some rows over a key range. */
static void form_range(const backward_job *job, const workspace *w, const key_block *keys,
                       const query_block *block, int64_t r, int rows, fv_attn_interval range)
{
    const int64_t stride = job->plan.score_row, at = r * stride + range.begin;
    float *p = w->weights + at, *ds = w->products + at;
    score_range(job, w, keys, block, r, rows, range, p);
    value_grad_range(job, w, block, r, rows, range, ds);
    fv_attn_form_weights(job, w, keys, block, r, rows, range, p, ds, stride);
}

/* P and dS of rows with equal visible keys, zeros elsewhere. */
static void form_rows(const backward_job *job, const workspace *w, const key_block *keys,
                      const query_block *block, int64_t r, int rows)
{
    const int64_t stride = job->plan.score_row;
    const fv_attn_visible_keys *visible = &block->visible[r / FV_ATTN_TILE_ROWS];
    float *p = w->weights + r * stride, *ds = w->products + r * stride;
    int64_t done = 0;
    for (fv_attn_interval range = {0, 0}; fv_attn_next_key_range(visible, 0, &range);) {
        clear_columns(p, stride, rows, done, range.begin);
        clear_columns(ds, stride, rows, done, range.begin);
        form_range(job, w, keys, block, r, rows, range);
        done = fv_attn_round(range.end, FV_LANES);
    }
    clear_columns(p, stride, rows, done, fv_attn_round(keys->count, FV_LANES));
    clear_columns(ds, stride, rows, done, fv_attn_round(keys->count, FV_LANES));
}

/* ---- work items --------------------------------------------------------------------- */

/* Fills in block->visible. Returns whether any query sees a key. */
static bool find_visible_keys(const backward_job *job, const workspace *w, const key_block *keys,
                              query_block *block)
{
    bool any = false;
    fv_attn_fill_rows(&job->base, keys->b, block->h, block->first, block->rows, w->row);
    for (int64_t r = 0; r < block->rows; r += FV_ATTN_TILE_ROWS) {
        const int rows = (int)fv_attn_min(FV_ATTN_TILE_ROWS, block->rows - r);
        fv_attn_visible_keys visible = fv_attn_find_visible_keys(
            job->base.a, w->row + r, rows, keys->first, keys->first + keys->count);
        visible.interval.begin -= keys->first;
        visible.interval.end -= keys->first;
        block->visible[r / FV_ATTN_TILE_ROWS] = visible;
        any |= visible.interval.begin < visible.interval.end;
    }
    return any;
}

/* Rows [first, first + count) of an array as floats, in the column order of the products; *finite:
 * whether they are finite. */
static fv_attn_rows widened(const backward_job *job, void *base, const fv_attn_layout *l, int64_t b,
                            int64_t h, int64_t first, int64_t count, int64_t width,
                            fv_attn_rows buffer, bool *finite)
{
    const fv_attn *a = job->base.a;
    if (!job->bf16 || !base)
        return fv_attn_rows_checked(a, base, l, b, h, first, count, width, buffer, finite);
    *finite = job->bf16->deinterleave(fv_attn_at(a, base, l, b, h, first), l->row, count, width,
                                      buffer.at, buffer.row);
    return buffer;
}

/* Stores sums that are in that order. */
static void store_rows(const backward_job *job, fv_attn_rows sums, void *base,
                       const fv_attn_layout *l, int64_t b, int64_t h, int64_t first, int64_t count,
                       int64_t width)
{
    const fv_attn *a = job->base.a;
    if (!job->bf16)
        fv_attn_store_rows(a, sums, base, l, b, h, first, count, width);
    else if (sums.at)
        job->bf16->interleave(sums.at, sums.row, count, width, fv_attn_out(a, base, l, b, h, first),
                              l->row);
}

/* The rows as bf16 pairs; NULL if they are not given. */
static fv_attn_bf16_rows bf16_rows(const backward_job *job, const void *base,
                                   const fv_attn_layout *l, const key_block *keys,
                                   const query_block *block, int64_t width, uint32_t *buffer)
{
    if (!job->bf16 || !base) return (fv_attn_bf16_rows){.at = NULL};
    const void *x = fv_attn_at(job->base.a, base, l, keys->b, block->h, block->first);
    return job->bf16->rows_at(x, l->row, block->rows, width, buffer, job->plan.bf16_row);
}

/* Loads q and the gradient of o as floats, and whether they are finite; if all keys are one block,
 * prepares each query as well. */
static void load_queries(const backward_job *job, const workspace *w, const key_block *keys,
                         query_block *block, int64_t item)
{
    const fv_attn *a = job->base.a;
    const int64_t b = keys->b, h = block->h, first = block->first, rows = block->rows;
    const fv_attn_layout *dl = fv_attn_layout_do(a);
    void *q = job->base.ptr[FV_ATTN_Q], *g = job->base.grad[FV_ATTN_GRAD_O];
    block->bf16_q = bf16_rows(job, q, &a->q, keys, block, a->d, w->bf16_q);
    block->bf16_g = bf16_rows(job, g, dl, keys, block, a->d_v, w->bf16_g);
    if (!job->plan.single_block && !job->bf16) {
        block->q = fv_attn_rows_at(a, q, &a->q, b, h, first, rows, a->d, w->wide_q);
        block->g = fv_attn_rows_at(a, g, dl, b, h, first, rows, a->d_v, w->wide_g);
        block->finite = job->finite[item];
        return;
    }
    bool finite_q, finite_g;
    block->q = widened(job, q, &a->q, b, h, first, rows, fv_attn_width(a), w->wide_q, &finite_q);
    block->g = widened(job, g, dl, b, h, first, rows, a->d_v, w->wide_g, &finite_g);
    block->finite = finite_q && finite_g;
    if (job->plan.single_block) fv_attn_prepare_queries(job, b, h, first, rows);
}

static void process_queries(const backward_job *job, const workspace *w, key_block *keys, int64_t h,
                            int64_t index, fv_attn_rows dk, fv_attn_rows dv)
{
    const fv_attn *a = job->base.a;
    void *const *grad = job->base.grad;
    const int64_t head = keys->b * a->heads + h, item = head * job->plan.query_blocks + index;
    const int64_t first = index * BLOCK_ROWS;
    query_block block = {.h = h,
                         .first = first,
                         .rows = fv_attn_min(BLOCK_ROWS, a->n_q - first),
                         .at = head * a->n_q + first};
    const fv_attn_interval seen = fv_attn_visible_key_blocks(job, keys->b, first, block.rows);
    if (keys->number < seen.begin || keys->number >= seen.end) return;
    const bool any = find_visible_keys(job, w, keys, &block),
               additive = a->score == FV_ATTN_SCORE_ADDITIVE;
    if (any) load_queries(job, w, keys, &block, item);
    if (any && additive) fv_attn_exp_queries(job, w, &block);
    /* A tile multiplies a panel by many rows while it is in cache. */
    for (int64_t r = 0, end; any && r < block.rows; r = end) {
        end = end_of_equal_rows(&block, r, additive ? FV_ATTN_TILE_ROWS : BLOCK_ROWS);
        form_rows(job, w, keys, &block, r, (int)(end - r));
    }
    if (any && additive) fv_attn_sum_block(job, w, keys, &block);
    const fv_attn_rows dq = query_sums(job, w, keys->b, h, first, block.at);
    if (dq.at) {
        const bool overwrite = keys->number == seen.begin;
        if (!job->plan.single_block) fv_attn_wait_for_ticket(job->tickets + item, keys->number);
        if (overwrite && (additive || !any)) fv_attn_clear_rows(a, dq, block.rows, a->d);
        if (any && additive) fv_attn_add_query_sums(job, w, &block, dq);
        if (any && !additive) fv_attn_add_to_queries(job, w, keys, &block, overwrite, dq);
        if (keys->number == seen.end - 1)
            store_rows(job, dq, grad[FV_ATTN_GRAD_Q], fv_attn_layout_dq(a), keys->b, h, first,
                       block.rows, a->d);
        if (!job->plan.single_block)
            atomic_store_explicit(job->tickets + item, (int)keys->number + 1, memory_order_release);
    }
    if (any && dv.at && block.g.at) {
        fv_attn_add_to_keys(job, w, keys, &block, w->weights, block.g, a->d_v, keys->overwrite_v,
                            dv);
        keys->overwrite_v = false;
    }
    if (any && dk.at && !additive) {
        fv_attn_add_to_keys(job, w, keys, &block, w->products, block.q, a->d, keys->overwrite_k,
                            dk);
        keys->overwrite_k = false;
    }
}

static void scale_panels(float *panels, int64_t keys, int64_t width, float by)
{
    for (int64_t j = 0; j < keys; j += FV_ATTN_PANEL) {
        const int64_t cols = fv_attn_round(fv_attn_min(FV_ATTN_PANEL, keys - j), FV_LANES);
        for (int64_t c = 0; c < width; c++)
            fv_attn_scale_row(panels + j * width + c * FV_ATTN_PANEL, cols, by);
    }
}

static void pack_block(const backward_job *job, const workspace *w, key_block *keys)
{
    const fv_attn *a = job->base.a;
    const void *v = fv_attn_at(a, job->base.ptr[FV_ATTN_V], &a->v, keys->b, keys->h, keys->first);
    if (job->bf16)
        job->bf16->pack(v, a->v.row, keys->count, a->d_v, w->v_panels);
    else
        fv_attn_pack(a->dtype, v, a->v.row, keys->count, a->d_v, w->v_panels);
    if (fv_attn_width(a) == 0) return;
    const void *k = fv_attn_at(a, job->base.ptr[FV_ATTN_K], &a->k, keys->b, keys->h, keys->first);
    keys->k = widened(job, job->base.ptr[FV_ATTN_K], &a->k, keys->b, keys->h, keys->first,
                      keys->count, a->d, w->wide_k, &keys->finite);
    if (job->bf16) {
        job->bf16->pack(k, a->k.row, keys->count, a->d, w->k_panels);
        return;
    }
    fv_attn_pack(a->dtype, k, a->k.row, keys->count, a->d, w->k_panels);
    if (a->score == FV_ATTN_SCORE_ADDITIVE)
        fv_attn_exp_keys(job, w, keys);
    else
        scale_panels(w->k_panels, keys->count, a->d, job->base.operand);
}

/* All queries of one head, last ones first: the first query block that a work item processes is
 * then the first one of the previous work item too, or not visible to that at all, for any window
 * or causal mask. */
static void process_head(const backward_job *job, const workspace *w, key_block *keys, int64_t h,
                         fv_attn_rows dk, fv_attn_rows dv)
{
    const fv_attn *a = job->base.a;
    const bool additive = a->score == FV_ATTN_SCORE_ADDITIVE;
    if (additive) memset(w->sums.w, 0, (size_t)((a->d + 1) * FV_LANES) * sizeof(float));
    for (int64_t index = job->plan.query_blocks - 1; index >= 0; index--)
        process_queries(job, w, keys, h, index, dk, dv);
    if (additive) fv_attn_store_partial_w(job, w, keys, h);
}

/* Clears what no query has added to: keys hidden from all, or every key if `overwrite` is still
 * set. */
static void clear_hidden(const fv_attn *a, const key_block *keys, bool overwrite, int64_t all,
                         int64_t width, fv_attn_rows grad)
{
    const int64_t first = overwrite ? 0 : keys->count;
    if (!grad.at || a->adds_to_keys) return;
    grad.at += first * grad.row;
    fv_attn_clear_rows(a, grad, all - first, width);
}

static void process_keys(const backward_job *job, const workspace *w, int64_t head, int64_t number)
{
    const fv_attn *a = job->base.a;
    const backward_plan *p = &job->plan;
    const int64_t group = a->heads / a->kv_heads;
    key_block keys = {.b = head / a->kv_heads,
                      .h = head % a->kv_heads,
                      .first = number * p->keys,
                      .number = number};
    const int64_t all = fv_attn_min(p->keys, a->n_k - keys.first);
    const int64_t seen = fv_attn_keys(a, job->base.ptr[FV_ATTN_KEY_LENGTHS], keys.b);
    keys.count = fv_attn_max(0, fv_attn_min(all, seen - keys.first));
    void *grad_k = job->base.grad[FV_ATTN_GRAD_K], *grad_v = job->base.grad[FV_ATTN_GRAD_V];
    const fv_attn_layout *lk = fv_attn_layout_dk(a), *lv = fv_attn_layout_dv(a);
    const fv_attn_rows dk =
        fv_attn_accumulator_at(a, grad_k, lk, keys.b, keys.h, keys.first, w->wide_dk);
    const fv_attn_rows dv =
        fv_attn_accumulator_at(a, grad_v, lv, keys.b, keys.h, keys.first, w->wide_dv);
    keys.overwrite_k = keys.overwrite_v = !a->adds_to_keys;
    if (a->score == FV_ATTN_SCORE_ADDITIVE) {
        clear_hidden(a, &keys, keys.overwrite_k, all, a->d, dk);
        keys.overwrite_k = false;
    }
    pack_block(job, w, &keys);
    for (int64_t h = keys.h * group; h < (keys.h + 1) * group; h++)
        process_head(job, w, &keys, h, dk, dv);
    if (a->score == FV_ATTN_SCORE_ADDITIVE) fv_attn_add_key_sums(job, w, &keys, dk);
    clear_hidden(a, &keys, keys.overwrite_k, all, a->d, dk);
    clear_hidden(a, &keys, keys.overwrite_v, all, a->d_v, dv);
    store_rows(job, dk, grad_k, lk, keys.b, keys.h, keys.first, all, a->d);
    store_rows(job, dv, grad_v, lv, keys.b, keys.h, keys.first, all, a->d_v);
}

static void run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const backward_job *job = arg;
    const workspace w = fv_attn_workspace_of(job, thread);
    for (int64_t index = begin; index < end; index++) {
        const backward_item item = backward_item_at(&job->order, index);
        for (int64_t m = 0; m < job->order.members; m++)
            process_keys(job, &w, backward_head_of(&job->order, item.chain, m), item.block);
    }
}

backward_job fv_attn_backward_job_of(const fv_exec *exec, void *const *ptr, const fv_attn *a,
                                     const fv_attn_grad_products *bf16)
{
    backward_job job = {.base = fv_attn_job_of(exec, a, ptr + FV_ATTN_GRAD_INPUTS),
                        .bf16 = a->score == FV_ATTN_SCORE_DOT ? bf16 : NULL};
    job.base.grad = ptr;
    job.deferred_scale = job.bf16 && job.base.plain && job.base.factor > 0 ? job.base.factor : 1;
    job.has_value_grad = ptr[FV_ATTN_GRAD_O] && FV_TERM(exec, 0, true, false);
    return job;
}

void fv_attn_backward_with(const fv_exec *exec, void *const *ptr, const fv_attn *a,
                           const fv_attn_grad_products *bf16)
{
    if (a->batch == 0) return;
    if (fv_attn_is_single_query(a, ptr + FV_ATTN_GRAD_INPUTS)) {
        fv_attn_single_query_grad(exec, ptr, a);
        return;
    }
    backward_job job = fv_attn_backward_job_of(exec, ptr, a, bf16);
    job.plan = fv_attn_backward_plan(a);
    job.order =
        backward_order_of(a, ptr[FV_ATTN_GRAD_BIAS] != NULL, job.plan.key_blocks, exec->threads);
    float *shared = exec->scratch;
    job.delta = shared + job.plan.delta;
    job.shift = shared + job.plan.shift;
    job.tickets = (atomic_int *)(void *)(shared + job.plan.tickets);
    job.finite = (uint8_t *)(shared + job.plan.flags);
    job.wide_dq = shared + job.plan.wide_dq;
    job.sums_w = shared + job.plan.sums_w;
    job.threads = shared + job.plan.shared_floats;
    if (!job.plan.single_block)
        fv_exec_rows(exec, a->batch * a->heads * job.plan.query_blocks,
                     BLOCK_ROWS * (fv_attn_width(a) + a->d_v), prepare_rows, &job);
    const int64_t items = backward_items_of(&job.order);
    if (ptr[FV_ATTN_GRAD_BIAS] && a->bias.col == 0)
        run_items(&job, 0, items, 0);
    else
        fv_exec_rows(exec, items,
                     job.order.members * job.plan.keys * a->n_q * (fv_attn_width(a) + a->d_v),
                     run_items, &job);
    if (ptr[FV_ATTN_GRAD_W]) fv_attn_merge_partial_w(&job);
}

static void backward(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn *a = args;
    if (a->varlen)
        fv_attn_run_varlen(exec, ptr, a, true, backward, fv_attn_backward_bytes);
    else
        fv_attn_backward_with(exec, ptr, a, NULL);
}

void fv_simd_attention_grad_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_ATTENTION_GRAD][FV_F32] = backward;
    t->fn[FV_KERNEL_ATTENTION_GRAD][FV_BF16] = backward;
    t->fn[FV_KERNEL_ATTENTION_GRAD][FV_F16] = backward;
    t->scratch[FV_KERNEL_ATTENTION_GRAD] = backward_scratch;
}
