/*
 * Attention as the formulas of fovea/attention.h say it: one query at a time, scores of the visible
 * keys in a row of scratch, a shifted softmax, the blend of values. Keys a query may not see are
 * never touched. The backward recomputes each row from the saved log-sum-exp.
 */
#include "kernels/attention.h"

#include "base/rng.h"
#include "kernels/ref/real.h"

typedef struct attention_job {
    const fv_exec *exec;
    const fv_attn *a;
    void *const *ptr;  /* of the forward pass */
    void *const *grad; /* of the backward pass, or NULL */
} attention_job;

/* One query's view of the world. */
typedef struct query {
    int64_t b, h, i;
    fv_attn_range range;
    const real *q, *bias;
    const uint8_t *visible;
    real slope;
    int64_t position;
} query;

static const real *row_of(const void *base, const fv_attn_layout *l, int64_t b, int64_t h,
                          int64_t i)
{
    return (const real *)base + b * l->batch + h * l->head + i * l->row;
}

static int64_t kv_head(const fv_attn *a, int64_t h) { return h / (a->heads / a->kv_heads); }

static query query_at(const attention_job *job, int64_t b, int64_t h, int64_t i)
{
    const fv_attn *a = job->a;
    const real *bias = job->ptr[FV_ATTN_BIAS], *slopes = job->ptr[FV_ATTN_SLOPES];
    const uint8_t *visible = job->ptr[FV_ATTN_VISIBLE];
    int64_t keys = fv_attn_keys(a, job->ptr[FV_ATTN_N_KEYS], b);
    return (query){
        .b = b,
        .h = h,
        .i = i,
        .range = fv_attn_visible_range(a, keys, i),
        .q = row_of(job->ptr[FV_ATTN_Q], &a->q, b, h, i),
        .bias = bias ? bias + b * a->bias.batch + h * a->bias.head + i * a->bias.row : NULL,
        .visible = visible
                       ? visible + b * a->visible.batch + h * a->visible.head + i * a->visible.row
                       : NULL,
        .slope = slopes ? slopes[h] : 0,
        .position = fv_attn_position(a, i),
    };
}

/* The next visible key at or after j; n_k when there is none. */
static int64_t next_key(const fv_attn *a, const query *x, int64_t j)
{
    for (;; j++) {
        if (j >= x->range.prefix && j < x->range.low) j = x->range.low;
        if (j >= x->range.prefix && j >= x->range.high) return a->n_k;
        if (!x->visible || x->visible[j * a->visible.col]) return j;
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

/* The product after scale and cap; *slack gets d capped / d product, for the backward. */
static real capped(const fv_attn *a, real product, real *slack)
{
    real z = (real)a->scale * product;
    *slack = 1;
    if (a->soft_cap > 0) {
        const real t = real_tanh(z / (real)a->soft_cap);
        *slack = 1 - t * t;
        z = (real)a->soft_cap * t;
    }
    return z;
}

static real score(const attention_job *job, const query *x, int64_t j, real *slack)
{
    const fv_attn *a = job->a;
    const real *k = row_of(job->ptr[FV_ATTN_K], &a->k, x->b, kv_head(a, x->h), j);
    real s = capped(a, dot(x->q, k, a->d), slack);
    if (job->ptr[FV_ATTN_SLOPES]) s += x->slope * (real)(j - x->position);
    if (x->bias) s += x->bias[j * a->bias.col];
    return s;
}

/* What the weight is multiplied with: 1, or 0 and 1/(1-p) with dropout. */
static real keep_factor(const fv_attn *a, const query *x, int64_t j)
{
    if (a->dropout == 0) return 1;
    uint32_t word[4];
    uint64_t row = (uint64_t)((x->b * a->heads + x->h) * a->n_q + x->i);
    fv_rng_draw(a->dropout_key, row, (uint64_t)j / 4, word);
    bool keep = (double)fv_rng_unit(word[j % 4]) >= a->dropout;
    return keep ? (real)(1.0 / (1.0 - a->dropout)) : 0;
}

/* ---- forward ---------------------------------------------------------------------- */

static void blend(const attention_job *job, const query *x, const real *scores, real most, real sum,
                  real *o)
{
    const fv_attn *a = job->a;
    for (int64_t c = 0; c < a->d_v; c++)
        o[c] = 0;
    FOR_VISIBLE_KEYS(a, x, j)
    {
        const real p = real_exp(scores[j] - most) / sum * keep_factor(a, x, j);
        if (p == 0) continue; /* a dropped key is a hidden one: its value is not looked at */
        const real *v = row_of(job->ptr[FV_ATTN_V], &a->v, x->b, kv_head(a, x->h), j);
        for (int64_t c = 0; c < a->d_v; c++)
            o[c] = real_fma(p, v[c], o[c]);
    }
}

static void forward_rows(const void *arg, int64_t begin, int64_t end, int thread)
{
    const attention_job *job = arg;
    const fv_attn *a = job->a;
    real *scores = (real *)job->exec->scratch + (int64_t)thread * a->n_k;
    real *lse = job->ptr[FV_ATTN_LSE];
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t i = unit % a->n_q, h = unit / a->n_q % a->heads, b = unit / a->n_q / a->heads;
        const query x = query_at(job, b, h, i);
        real most = (real)-INFINITY, sum = 0, slack;
        FOR_VISIBLE_KEYS(a, &x, j)
        {
            scores[j] = score(job, &x, j, &slack);
            if (scores[j] > most || scores[j] != scores[j]) most = scores[j];
        }
        const real shift = most == (real)-INFINITY ? 0 : most;
        FOR_VISIBLE_KEYS(a, &x, j) sum += real_exp(scores[j] - shift);
        if (lse) lse[unit] = sum == 0 ? (real)-INFINITY : shift + real_log(sum);
        real *o = (real *)(uintptr_t)row_of(job->ptr[FV_ATTN_O], &a->o, b, h, i);
        blend(job, &x, scores, shift, sum == 0 ? 1 : sum, o);
    }
}

static void attention(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn *a = args;
    const attention_job job = {.exec = exec, .a = a, .ptr = ptr};
    fv_exec_rows(exec, a->batch * a->heads * a->n_q, a->n_k * (a->d + a->d_v), forward_rows, &job);
}

/* ---- backward --------------------------------------------------------------------- */

/* Weight, its gradient and the product's gradient for one pair. */
typedef struct pair {
    real dropped_p, ds, dz;
} pair;

static pair pair_at(const attention_job *job, const query *x, int64_t j, real lse, real delta,
                    const real *g)
{
    const fv_attn *a = job->a;
    const fv_exec *exec = job->exec;
    (void)exec;
    real slack;
    const real p = real_exp(score(job, x, j, &slack) - lse), keep = keep_factor(a, x, j);
    const real *v = row_of(job->ptr[FV_ATTN_V], &a->v, x->b, kv_head(a, x->h), j);
    const real dp = keep == 0 || !g ? 0 : keep * dot(g, v, a->d_v);
    const real ds = p * (FV_TERM(exec, 0, dp, 0) - FV_TERM(exec, 1, delta, 0));
    return (pair){.dropped_p = p * keep, .ds = ds, .dz = ds * slack * (real)a->scale};
}

/* Everything that belongs to one query: its own gradient, and what it adds to its keys and values.
 * Called for the queries of one key head in order, by one thread. */
static void backward_query(const attention_job *job, int64_t b, int64_t h, int64_t i)
{
    const fv_attn *a = job->a;
    const query x = query_at(job, b, h, i);
    const int64_t row_number = (b * a->heads + h) * a->n_q + i;
    const real *g = job->grad[FV_ATTN_GRAD_O], *dlse = job->grad[FV_ATTN_GRAD_LSE];
    if (g) g = row_of(g, &a->o, b, h, i);
    const real *o = row_of(job->ptr[FV_ATTN_O], &a->o, b, h, i);
    real *dq = job->grad[FV_ATTN_GRAD_Q];
    real *dk = job->grad[FV_ATTN_GRAD_K], *dv = job->grad[FV_ATTN_GRAD_V];
    real *db = job->grad[FV_ATTN_GRAD_BIAS];
    if (dq) {
        dq = (real *)(uintptr_t)row_of(dq, &a->q, b, h, i);
        for (int64_t c = 0; c < a->d; c++)
            dq[c] = 0;
    }
    const real lse = ((const real *)job->ptr[FV_ATTN_LSE])[row_number];
    if (lse == (real)-INFINITY) return; /* sees nothing */
    const real delta = (g ? dot(g, o, a->d_v) : 0) - (dlse ? dlse[row_number] : 0);
    if (db) db += b * a->bias.batch + h * a->bias.head + i * a->bias.row;
    FOR_VISIBLE_KEYS(a, &x, j)
    {
        const pair w = pair_at(job, &x, j, lse, delta, g);
        const int64_t kh = kv_head(a, h);
        const real *k = row_of(job->ptr[FV_ATTN_K], &a->k, b, kh, j);
        for (int64_t c = 0; dq && c < a->d; c++)
            dq[c] = real_fma(w.dz, k[c], dq[c]);
        if (dk) {
            real *row = (real *)(uintptr_t)row_of(dk, &a->k, b, kh, j);
            for (int64_t c = 0; c < a->d; c++)
                row[c] = real_fma(w.dz, x.q[c], row[c]);
        }
        if (dv && g && w.dropped_p != 0) {
            real *row = (real *)(uintptr_t)row_of(dv, &a->v, b, kh, j);
            for (int64_t c = 0; c < a->d_v; c++)
                row[c] = real_fma(w.dropped_p, g[c], row[c]);
        }
        if (db) db[j * a->bias.col] += w.ds;
    }
}

static void clear_rows(real *base, const fv_attn_layout *l, int64_t b, int64_t h, int64_t rows,
                       int64_t width)
{
    for (int64_t j = 0; base && j < rows; j++)
        for (int64_t c = 0; c < width; c++)
            base[b * l->batch + h * l->head + j * l->row + c] = 0;
}

static void backward_heads(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const attention_job *job = arg;
    const fv_attn *a = job->a;
    const int64_t group = a->heads / a->kv_heads;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t kh = unit % a->kv_heads, b = unit / a->kv_heads;
        clear_rows(job->grad[FV_ATTN_GRAD_K], &a->k, b, kh, a->n_k, a->d);
        clear_rows(job->grad[FV_ATTN_GRAD_V], &a->v, b, kh, a->n_k, a->d_v);
        for (int64_t h = kh * group; h < (kh + 1) * group; h++)
            for (int64_t i = 0; i < a->n_q; i++)
                backward_query(job, b, h, i);
    }
}

/* A bias gradient that repeats over heads or sequences is added to by several units: then one
 * thread does them all, in order. The caller zeroes it. */
static void attention_grad(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_attn *a = args;
    const attention_job job = {.exec = exec, .a = a, .ptr = ptr + FV_ATTN_GRAD_INPUTS, .grad = ptr};
    const int64_t units = a->batch * a->kv_heads;
    bool shared_bias = ptr[FV_ATTN_GRAD_BIAS] && (a->bias.batch == 0 || a->bias.head == 0);
    if (shared_bias)
        backward_heads(&job, 0, units, 0);
    else
        fv_exec_rows(exec, units, a->n_q * a->n_k * (a->d + a->d_v), backward_heads, &job);
}

static size_t attention_scratch(const void *args, int threads)
{
    const fv_attn *a = args;
    return ((size_t)a->n_k * (size_t)threads * sizeof(double) + 63) / 64 * 64;
}

void FV_NAME(fv_ref_attention_fill)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_ATTENTION][FV_REAL_DTYPE] = attention;
    t->fn[FV_KERNEL_ATTENTION_GRAD][FV_REAL_DTYPE] = attention_grad;
    t->scratch[FV_KERNEL_ATTENTION] = attention_scratch;
}
