/*
 * Attention by the formulas of fovea/attention.h: one query at a time, the scores of the visible
 * keys in a row of scratch, a shifted softmax, the weighted sum of values. Keys that a query may
 * not see are never read. The backward recomputes each row from the saved log-sum-exp.
 *
 * The float version serves bf16 and f16 as well: rows are converted when they are read, results are
 * summed in float and converted at the end.
 */
#include "kernels/ref/attention_ref.h"

#include "base/rng.h"
#include "kernels/convert.h"

/* Buffers of a thread: converted rows, and sums. */
typedef enum buffer {
    BUFFER_Q,
    BUFFER_K,
    BUFFER_V,
    BUFFER_O,
    BUFFER_G,
    BUFFER_DQ,
    BUFFER_DW,
    BUFFERS
} buffer;
_Static_assert(BUFFERS *FV_ATTN_MAX_WIDTH == FV_REF_ATTN_BUFFERS, "one buffer for each name");

typedef struct attention_job {
    const fv_exec *exec;
    const fv_attn *a;
    void *const *ptr;  /* of the forward pass */
    void *const *grad; /* of the backward pass, or NULL */
    real *buffers;     /* of this thread: [BUFFERS][FV_ATTN_MAX_WIDTH] */
} attention_job;

/* What one query needs. */
typedef struct query {
    int64_t b, h, i;
    fv_attn_range range;
    const real *q, *bias, *w;
    const uint8_t *visible, *blocks;
    real slope;
    int64_t position;
} query;

static char *row_address(const fv_attn *a, const void *base, const fv_attn_layout *l, int64_t b,
                         int64_t h, int64_t i)
{
    const int64_t at = b * l->batch + h * l->head + i * l->row;
    return (char *)(uintptr_t)base + at * (int64_t)fv_dtype_size(a->dtype);
}

static real *buffer_of(const attention_job *job, buffer r)
{
    return job->buffers + (int64_t)r * FV_ATTN_MAX_WIDTH;
}

/* A row to read: in place, or converted. */
static const real *row_of(const attention_job *job, buffer r, const void *base,
                          const fv_attn_layout *l, int64_t width, int64_t b, int64_t h, int64_t i)
{
    if (width == 0) return NULL; /* the score uses neither q nor k */
    if (!base) return NULL;      /* not given: there is no score */
    const char *at = row_address(job->a, base, l, b, h, i);
    if (!fv_attn_is_half(job->a->dtype)) return (const real *)(const void *)at;
    fv_convert(width, FV_REAL_DTYPE, buffer_of(job, r), 1, job->a->dtype, at, 1);
    return buffer_of(job, r);
}

/* A row to accumulate in: in place, or a buffer, which `store_row` then stores. */
static real *sums_of(const attention_job *job, buffer r, void *base, const fv_attn_layout *l,
                     int64_t b, int64_t h, int64_t i)
{
    if (fv_attn_is_half(job->a->dtype)) return buffer_of(job, r);
    return (real *)(void *)row_address(job->a, base, l, b, h, i);
}

static void store_row(const attention_job *job, const real *sums, void *base,
                      const fv_attn_layout *l, int64_t width, int64_t b, int64_t h, int64_t i)
{
    if (!fv_attn_is_half(job->a->dtype)) return;
    fv_convert(width, job->a->dtype, row_address(job->a, base, l, b, h, i), 1, FV_REAL_DTYPE, sums,
               1);
}

static int64_t kv_head(const fv_attn *a, int64_t h) { return h / (a->heads / a->kv_heads); }

static query query_at(const attention_job *job, int64_t b, int64_t h, int64_t i)
{
    const fv_attn *a = job->a;
    const real *bias = job->ptr[FV_ATTN_BIAS], *slopes = job->ptr[FV_ATTN_SLOPES];
    const real *w = job->ptr[FV_ATTN_W];
    const uint8_t *visible = job->ptr[FV_ATTN_VISIBLE];
    int64_t keys = fv_attn_keys(a, job->ptr[FV_ATTN_KEY_LENGTHS], b);
    return (query){
        .b = b,
        .h = h,
        .i = i,
        .range = fv_attn_visible_range(a, keys, i),
        .q = row_of(job, BUFFER_Q, job->ptr[FV_ATTN_Q], &a->q, fv_attn_width(a), b, h, i),
        .w = w ? w + h * a->d : NULL,
        .bias = bias ? bias + b * a->bias.batch + h * a->bias.head + i * a->bias.row : NULL,
        .visible = visible
                       ? visible + b * a->visible.batch + h * a->visible.head + i * a->visible.row
                       : NULL,
        .blocks = fv_attn_block_row(a, job->ptr[FV_ATTN_BLOCKS], b, h, i),
        .slope = slopes ? slopes[h] : 0,
        .position = fv_attn_position(a, i),
    };
}

/* The next visible key at or after j; n_k if there is none. A bias of -inf hides a key, too. */
static int64_t next_key(const fv_attn *a, const query *x, int64_t j)
{
    for (;; j++) {
        if (j >= x->range.prefix && j < x->range.low) j = x->range.low;
        if (j >= x->range.prefix && j >= x->range.high) return a->n_k;
        if (x->blocks && !x->blocks[j / a->rule.block_k * a->blocks.col]) {
            j = (j / a->rule.block_k + 1) * a->rule.block_k - 1;
            continue;
        }
        if (x->visible && !x->visible[j * a->visible.col]) continue;
        if (!x->bias || x->bias[j * a->bias.col] != (real)-INFINITY) return j;
    }
}

#define FOR_VISIBLE_KEYS(a, x, j)                                                                  \
    for (int64_t j = next_key(a, x, 0); j < (a)->n_k; j = next_key(a, x, j + 1))

static real dot(const real *x, const real *y, int64_t n)
{
    real sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum = real_fma(x[c], y[c], sum);
    return sum;
}

static real additive(const real *q, const real *k, const real *w, int64_t n)
{
    real sum = 0;
    for (int64_t c = 0; c < n; c++)
        sum = real_fma(w[c], real_tanh(q[c] + k[c]), sum);
    return sum;
}

/* The product after scale and cap; *cap_grad: d capped / d product, for the backward. */
static real capped(const fv_attn *a, real product, real *cap_grad)
{
    real z = (real)a->rule.scale * product;
    *cap_grad = 1;
    if (a->rule.soft_cap > 0) {
        const real t = real_tanh(z / (real)a->rule.soft_cap);
        *cap_grad = 1 - t * t;
        z = (real)a->rule.soft_cap * t;
    }
    return z;
}

static const real *key_at(const attention_job *job, const query *x, int64_t j)
{
    const fv_attn *a = job->a;
    return row_of(job, BUFFER_K, job->ptr[FV_ATTN_K], &a->k, fv_attn_width(a), x->b,
                  kv_head(a, x->h), j);
}

static const real *value_at(const attention_job *job, const query *x, int64_t j)
{
    const fv_attn *a = job->a;
    return row_of(job, BUFFER_V, job->ptr[FV_ATTN_V], &a->v, a->d_v, x->b, kv_head(a, x->h), j);
}

static real score(const attention_job *job, const query *x, int64_t j, const real *k,
                  real *cap_grad)
{
    const fv_attn *a = job->a;
    real s = 0;
    if (a->score == FV_ATTN_SCORE_DOT) s = dot(x->q, k, a->d);
    if (a->score == FV_ATTN_SCORE_ADDITIVE) s = additive(x->q, k, x->w, a->d);
    s = capped(a, s, cap_grad);
    if (job->ptr[FV_ATTN_SLOPES]) s += x->slope * (real)(j - x->position);
    if (x->bias) s += x->bias[j * a->bias.col];
    return s;
}

/* The dropout factor of a weight: 1 without dropout, else 0 or 1/(1-p). */
static real keep_factor(const fv_attn *a, const query *x, int64_t j)
{
    if (a->rule.dropout == 0) return 1;
    uint32_t word[4];
    fv_rng_draw(fv_attn_row_key(a, x->b), fv_attn_draw(x->h, x->i), (uint64_t)j / 4, word);
    bool keep = (double)fv_rng_unit(word[j % 4]) >= a->rule.dropout;
    return keep ? (real)(1.0 / (1.0 - a->rule.dropout)) : 0;
}

/* ---- scratch ---------------------------------------------------------------------- */

/* Reals per thread: the buffers, then the scores of a row or the sums of dk and dv of a head. */
static size_t thread_reals(const fv_attn *a, bool backward)
{
    const int64_t sums = fv_attn_is_half(a->dtype) ? fv_attn_width(a) + a->d_v : 0;
    return (size_t)(BUFFERS * FV_ATTN_MAX_WIDTH) + (size_t)(a->n_k * (backward ? sums : 1));
}

static attention_job at_thread(const attention_job *shared, int thread)
{
    attention_job job = *shared;
    job.buffers = shared->buffers + (size_t)thread * thread_reals(job.a, job.grad != NULL);
    return job;
}

static size_t scratch_bytes(const fv_attn *a, int threads, bool backward)
{
    const size_t reals = thread_reals(a, backward) * (size_t)threads;
    return (reals * sizeof(double) + 63) / 64 * 64; /* as the double version needs */
}

static size_t forward_bytes(const void *args, int threads)
{
    return scratch_bytes(args, threads, false);
}

static size_t backward_bytes(const void *args, int threads)
{
    return scratch_bytes(args, threads, true);
}

/* ---- forward ---------------------------------------------------------------------- */

static void weighted_sum(const attention_job *job, const query *x, const real *scores, real max,
                         real sum, real *o)
{
    const fv_attn *a = job->a;
    for (int64_t c = 0; c < a->d_v; c++)
        o[c] = 0;
    FOR_VISIBLE_KEYS(a, x, j)
    {
        const real p = real_exp(scores[j] - max) / sum * keep_factor(a, x, j);
        if (p == 0) continue; /* a dropped key is like a hidden one: its value is not used */
        const real *v = value_at(job, x, j);
        for (int64_t c = 0; c < a->d_v; c++)
            o[c] = real_fma(p, v[c], o[c]);
    }
}

static void forward_rows(const void *arg, int64_t begin, int64_t end, int thread)
{
    const attention_job *shared = arg, own = at_thread(shared, thread), *job = &own;
    const fv_attn *a = job->a;
    real *scores = job->buffers + BUFFERS * FV_ATTN_MAX_WIDTH;
    real *lse = job->ptr[FV_ATTN_LSE];
    const int64_t lse_head = fv_attn_lse_head(a);
    for (int64_t item = begin; item < end; item++) {
        const int64_t i = item % a->n_q, h = item / a->n_q % a->heads, b = item / a->n_q / a->heads;
        const query x = query_at(job, b, h, i);
        real max = (real)-INFINITY, sum = 0, cap_grad;
        FOR_VISIBLE_KEYS(a, &x, j)
        {
            scores[j] = score(job, &x, j, key_at(job, &x, j), &cap_grad);
            if (scores[j] > max || scores[j] != scores[j]) max = scores[j];
        }
        const real shift = max == (real)-INFINITY ? 0 : max;
        FOR_VISIBLE_KEYS(a, &x, j) sum += real_exp(scores[j] - shift);
        if (lse)
            lse[(b * a->heads + h) * lse_head + i] =
                sum == 0 ? (real)-INFINITY : shift + real_log(sum);
        real *o = sums_of(job, BUFFER_O, job->ptr[FV_ATTN_O], &a->o, b, h, i);
        weighted_sum(job, &x, scores, shift, sum == 0 ? 1 : sum, o);
        store_row(job, o, job->ptr[FV_ATTN_O], &a->o, a->d_v, b, h, i);
    }
}

static void attention(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn *a = args;
    if (a->varlen) {
        fv_attn_run_varlen(exec, ptr, a, false, attention, forward_bytes);
        return;
    }
    const attention_job job = {.exec = exec, .a = a, .ptr = ptr, .buffers = exec->scratch};
    fv_exec_rows(exec, a->batch * a->heads * a->n_q, a->n_k * (fv_attn_width(a) + a->d_v),
                 forward_rows, &job);
}

void FV_NAME(fv_ref_attn_weights)(const fv_attn *a, void *const *ptr, int64_t b, int64_t h,
                                  int64_t i, real *buffers, real *weights)
{
    const attention_job job = {.a = a, .ptr = ptr, .buffers = buffers};
    const query x = query_at(&job, b, h, i);
    const real *all = ptr[FV_ATTN_LSE];
    const real lse = all[(b * a->heads + h) * fv_attn_lse_head(a) + i];
    for (int64_t j = 0; j < a->n_k; j++)
        weights[j] = 0;
    if (lse == (real)-INFINITY) return; /* no visible key */
    real cap_grad;
    FOR_VISIBLE_KEYS(a, &x, j)
    weights[j] = real_exp(score(&job, &x, j, key_at(&job, &x, j), &cap_grad) - lse);
}

/* ---- backward --------------------------------------------------------------------- */

/* The weight of a query and a key, its gradient and the gradient of the product. */
typedef struct pair {
    real dropped_p, ds, dz;
} pair;

static pair pair_at(const attention_job *job, const query *x, int64_t j, const real *k, real lse,
                    real delta, const real *g)
{
    const fv_attn *a = job->a;
    const fv_exec *exec = job->exec;
    (void)exec;
    real cap_grad;
    const real p = real_exp(score(job, x, j, k, &cap_grad) - lse), keep = keep_factor(a, x, j);
    const real dp = keep == 0 || !g ? 0 : keep * dot(g, value_at(job, x, j), a->d_v);
    const real ds = p * (FV_TERM(exec, 0, dp, 0) - FV_TERM(exec, 1, delta, 0));
    return (pair){.dropped_p = p * keep, .ds = ds, .dz = ds * cap_grad * (real)a->rule.scale};
}

/* Where dk_j, or with `values` dv_j, is accumulated: in place, or after the buffers. */
static real *key_sums(const attention_job *job, bool values, int64_t b, int64_t kh, int64_t j)
{
    const fv_attn *a = job->a;
    const fv_attn_layout *l = values ? fv_attn_layout_dv(a) : fv_attn_layout_dk(a);
    void *base = job->grad[values ? FV_ATTN_GRAD_V : FV_ATTN_GRAD_K];
    if (!base || !fv_attn_is_half(a->dtype))
        return base ? (real *)(void *)row_address(a, base, l, b, kh, j) : NULL;
    real *sums = job->buffers + BUFFERS * FV_ATTN_MAX_WIDTH;
    return values ? sums + a->n_k * fv_attn_width(a) + j * a->d_v : sums + j * a->d;
}

/* Adds the gradients of one query and key to dq, dk and dw; each may be NULL. */
static void add_pair_grads(const attention_job *job, const query *x, const real *k, real dz,
                           real *dq, real *dk, real *dw)
{
    const fv_attn *a = job->a;
    const fv_exec *exec = job->exec;
    (void)exec;
    for (int64_t c = 0; c < fv_attn_width(a); c++) {
        real by_q = k[c], by_k = x->q[c];
        if (a->score == FV_ATTN_SCORE_ADDITIVE) {
            const real t = real_tanh(x->q[c] + k[c]);
            by_q = by_k = x->w[c] * (1 - FV_TERM(exec, 2, t * t, 0));
            if (dw) dw[c] = real_fma(dz, t, dw[c]);
        }
        if (dq) dq[c] = real_fma(dz, by_q, dq[c]);
        if (dk) dk[c] = real_fma(dz, by_k, dk[c]);
    }
}

static void clear(real *x, int64_t width)
{
    for (int64_t c = 0; x && c < width; c++)
        x[c] = 0;
}

/* The gradients of one query: its own, and what it adds to its keys, its values and w (summed per
 * query first, since there are many keys and w has few elements). Called for the queries of one key
 * head in order, by one thread. */
static void backward_query(const attention_job *job, int64_t b, int64_t h, int64_t i, real *dq)
{
    const fv_attn *a = job->a;
    const query x = query_at(job, b, h, i);
    const int64_t row_number = (b * a->heads + h) * fv_attn_lse_head(a) + i;
    const real *dlse = job->grad[FV_ATTN_GRAD_LSE], *g = NULL;
    void *grad_o = job->grad[FV_ATTN_GRAD_O];
    if (grad_o) g = row_of(job, BUFFER_G, grad_o, fv_attn_layout_do(a), a->d_v, b, h, i);
    const real *o = row_of(job, BUFFER_O, job->ptr[FV_ATTN_O], &a->o, a->d_v, b, h, i);
    real *db = job->grad[FV_ATTN_GRAD_BIAS];
    const real lse = ((const real *)job->ptr[FV_ATTN_LSE])[row_number];
    if (lse == (real)-INFINITY) return; /* no visible key */
    const real delta = (g ? dot(g, o, a->d_v) : 0) - (dlse ? dlse[row_number] : 0);
    if (db) db += b * a->bias.batch + h * a->bias.head + i * a->bias.row;
    real *all_dw = job->grad[FV_ATTN_GRAD_W], *dw = all_dw ? buffer_of(job, BUFFER_DW) : NULL;
    clear(dw, a->d);
    FOR_VISIBLE_KEYS(a, &x, j)
    {
        const real *k = key_at(job, &x, j);
        const pair w = pair_at(job, &x, j, k, lse, delta, g);
        real *dk = key_sums(job, false, b, kv_head(a, h), j);
        real *dv = key_sums(job, true, b, kv_head(a, h), j);
        add_pair_grads(job, &x, k, w.dz, dq, dk, dw);
        for (int64_t c = 0; dv && g && w.dropped_p != 0 && c < a->d_v; c++)
            dv[c] = real_fma(w.dropped_p, g[c], dv[c]);
        if (db) db[j * a->bias.col] += w.ds;
    }
    for (int64_t c = 0; dw && c < a->d; c++)
        all_dw[h * a->d + c] += dw[c];
}

/* Clears the accumulated gradients of the keys of a head, or stores them. */
static void clear_keys(const attention_job *job, int64_t b, int64_t kh)
{
    for (int64_t j = 0; j < job->a->n_k; j++) {
        clear(key_sums(job, false, b, kh, j), job->a->d);
        clear(key_sums(job, true, b, kh, j), job->a->d_v);
    }
}

static void store_keys(const attention_job *job, int64_t b, int64_t kh)
{
    const fv_attn *a = job->a;
    void *grad_k = job->grad[FV_ATTN_GRAD_K], *grad_v = job->grad[FV_ATTN_GRAD_V];
    const fv_attn_layout *dk = fv_attn_layout_dk(a), *dv = fv_attn_layout_dv(a);
    for (int64_t j = 0; j < a->n_k; j++) {
        if (grad_k) store_row(job, key_sums(job, false, b, kh, j), grad_k, dk, a->d, b, kh, j);
        if (grad_v) store_row(job, key_sums(job, true, b, kh, j), grad_v, dv, a->d_v, b, kh, j);
    }
}

static void backward_heads(const void *arg, int64_t begin, int64_t end, int thread)
{
    const attention_job *shared = arg, own = at_thread(shared, thread), *job = &own;
    const fv_attn *a = job->a;
    void *grad_q = job->grad[FV_ATTN_GRAD_Q];
    const int64_t group = a->heads / a->kv_heads;
    for (int64_t item = begin; item < end; item++) {
        const int64_t kh = item % a->kv_heads, b = item / a->kv_heads;
        if (!a->adds_to_keys) clear_keys(job, b, kh);
        for (int64_t row = 0; row < group * a->n_q; row++) {
            const int64_t h = kh * group + row / a->n_q, i = row % a->n_q;
            real *dq =
                grad_q ? sums_of(job, BUFFER_DQ, grad_q, fv_attn_layout_dq(a), b, h, i) : NULL;
            clear(dq, a->d);
            backward_query(job, b, h, i, dq);
            if (dq) store_row(job, dq, grad_q, fv_attn_layout_dq(a), a->d, b, h, i);
        }
        store_keys(job, b, kh);
    }
}

/* A gradient that several work items add to, of a broadcast bias or of w, has a fixed order on one
 * thread only. The caller clears it. */
static void attention_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn *a = args;
    if (a->varlen) {
        fv_attn_run_varlen(exec, ptr, a, true, attention_grad, backward_bytes);
        return;
    }
    const attention_job job = {.exec = exec,
                               .a = a,
                               .ptr = ptr + FV_ATTN_GRAD_INPUTS,
                               .grad = ptr,
                               .buffers = exec->scratch};
    const int64_t items = a->batch * a->kv_heads;
    const bool shared_bias = ptr[FV_ATTN_GRAD_BIAS] && (a->bias.batch == 0 || a->bias.head == 0);
    if (shared_bias || ptr[FV_ATTN_GRAD_W])
        backward_heads(&job, 0, items, 0);
    else
        fv_exec_rows(exec, items, a->n_q * a->n_k * (fv_attn_width(a) + a->d_v), backward_heads,
                     &job);
}

static size_t forward_scratch(const void *args, int threads)
{
    return fv_attn_whole_scratch(args, threads, forward_bytes);
}

static size_t backward_scratch(const void *args, int threads)
{
    return fv_attn_whole_scratch(args, threads, backward_bytes);
}

void FV_NAME(fv_ref_attention_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_ATTENTION][FV_REAL_DTYPE] = attention;
    t->fn[FV_KERNEL_ATTENTION_GRAD][FV_REAL_DTYPE] = attention_grad;
#ifndef FV_REAL_DOUBLE
    t->fn[FV_KERNEL_ATTENTION][FV_BF16] = t->fn[FV_KERNEL_ATTENTION][FV_F16] = attention;
    t->fn[FV_KERNEL_ATTENTION_GRAD][FV_BF16] = attention_grad;
    t->fn[FV_KERNEL_ATTENTION_GRAD][FV_F16] = attention_grad;
#endif
    t->scratch[FV_KERNEL_ATTENTION] = forward_scratch;
    t->scratch[FV_KERNEL_ATTENTION_GRAD] = backward_scratch;
}
