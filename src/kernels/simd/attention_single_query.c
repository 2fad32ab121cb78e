/*
 * Additive attention with one query per sequence, as in each step of a recurrent decoder. Packing
 * keys into panels would take longer than using them once, so vectors run along the width here, and
 * rows of K and V are read in place.
 *
 * With r = 1 / (1 + e^2x), tanh x = 1 - 2 r and (1 - tanh^2 x) / 4 = e^2x r^2. Keys with weight or
 * gradient 0 are skipped: hidden ones may hold NaN.
 */
#include "kernels/simd/attention_simd.h"

#define EXP_LIMIT 20.0f /* beyond it the tanh of a float is 1, and e^2x stays in range */

enum { GROUP_KEYS = 4, BLOCK = FV_ATTN_BLOCK, SCORES = 2 * FV_ATTN_SCORE_ROW };

/* One sequence and head. */
typedef struct single_query {
    const fv_attn_job *job;
    int64_t b, h;
    fv_attn_row row;
    const float *q, *k, *v; /* k and v: of key 0 */
    int64_t keys;
} single_query;

static single_query single_query_of(const fv_attn_job *job, int64_t item)
{
    const fv_attn *a = job->a;
    const int64_t b = item / a->heads, h = item % a->heads;
    single_query g = {.job = job,
                      .b = b,
                      .h = h,
                      .q = fv_attn_at(a, job->ptr[FV_ATTN_Q], &a->q, b, h, 0),
                      .k = fv_attn_at(a, job->ptr[FV_ATTN_K], &a->k, b, h, 0),
                      .v = fv_attn_at(a, job->ptr[FV_ATTN_V], &a->v, b, h, 0),
                      .keys = fv_attn_keys(a, job->ptr[FV_ATTN_KEY_LENGTHS], b)};
    fv_attn_fill_rows(job, b, h, 0, 1, &g.row);
    return g;
}

/* e^2x and r; NaN stays NaN. */
V_INLINE vf exp_2x(vf x)
{
    const vf clamped = v_max(v_set(-EXP_LIMIT), v_min(v_set(EXP_LIMIT), x));
    return v_exp(v_add(clamped, clamped));
}
V_INLINE vf reciprocal_1p(vf e) { return fv_attn_reciprocal(v_add(e, v_set(1.0f))); }

/* ---- scores and values ------------------------------------------------------------- */

V_INLINE void add_scores(const single_query *g, const float *const row[GROUP_KEYS], int64_t c,
                         int count, vf sum[GROUP_KEYS])
{
    const vf q = v_load(g->q + c, count), w = v_load(g->row.w + c, count);
    for (int s = 0; s < GROUP_KEYS; s++)
        sum[s] = v_fma(w, reciprocal_1p(exp_2x(v_add(q, v_load(row[s] + c, count)))), sum[s]);
}

static float sum_of(const float *x, int64_t n)
{
    vf sum = v_zero();
    V_LOOP(n, 0, sum = v_add(sum, v_load(x + i, count)));
    return v_reduce_sum(sum);
}

/* Scores in base 2 of keys [first, end), -inf where hidden; whole vectors are written. */
static void score_keys(const single_query *g, int64_t first, int64_t end, float *s)
{
    const fv_attn *a = g->job->a;
    const float factor = g->job->factor, all = factor * sum_of(g->row.w, a->d);
    const int64_t whole = a->d / FV_LANES * FV_LANES;
    const int64_t cols = fv_attn_round(end - first, FV_LANES);
    for (int64_t j = first; j < end; j += GROUP_KEYS) {
        const float *row[GROUP_KEYS];
        vf sum[GROUP_KEYS];
        for (int64_t k = 0; k < GROUP_KEYS; k++) {
            row[k] = g->k + fv_attn_min(j + k, end - 1) * a->k.row;
            sum[k] = v_zero();
        }
        for (int64_t c = 0; c < whole; c += FV_LANES)
            add_scores(g, row, c, FV_LANES, sum);
        if (whole < a->d) add_scores(g, row, whole, (int)(a->d - whole), sum);
        for (int64_t k = 0; k < GROUP_KEYS && j + k < end; k++)
            s[j - first + k] = fmaf(v_reduce_sum(sum[k]), -2 * factor, all);
    }
    for (int64_t j = end - first; j < cols; j++)
        s[j] = 0;
    fv_attn_finish_scores(g->job, &g->row, first, cols, s, NULL);
}

/* o += sum over keys of p v, a chain of multiply-adds for each element. */
static void add_values(const single_query *g, int64_t first, int64_t end, const float *p, float *o)
{
    enum { WIDE = 4 * FV_LANES };
    const fv_attn *a = g->job->a;
    const int64_t whole = a->d_v / WIDE * WIDE;
    for (int64_t c = 0; c < whole; c += WIDE) {
        vf sum[WIDE / FV_LANES];
        for (int x = 0; x < WIDE / FV_LANES; x++)
            sum[x] = v_load(o + c + x * FV_LANES, FV_LANES);
        for (int64_t j = first; j < end; j++) {
            if (p[j - first] == 0) continue;
            const vf weight = v_set(p[j - first]);
            const float *v = g->v + j * a->v.row + c;
            for (int x = 0; x < WIDE / FV_LANES; x++)
                sum[x] = v_fma(weight, v_load(v + x * FV_LANES, FV_LANES), sum[x]);
        }
        for (int x = 0; x < WIDE / FV_LANES; x++)
            v_store(o + c + x * FV_LANES, FV_LANES, sum[x]);
    }
    for (int64_t j = first; j < end && whole < a->d_v; j++) {
        if (p[j - first] == 0) continue;
        const vf weight = v_set(p[j - first]);
        const float *v = g->v + j * a->v.row + whole;
        float *to = o + whole;
        V_LOOP(a->d_v - whole, 0,
               v_store(to + i, count, v_fma(weight, v_load(v + i, count), v_load(to + i, count))));
    }
}

/* ---- forward ------------------------------------------------------------------------ */

static void store_result(const single_query *g, float row_max, float sum, const float *o)
{
    const fv_attn *a = g->job->a;
    float *out = fv_attn_out(a, g->job->ptr[FV_ATTN_O], &a->o, g->b, g->h, 0);
    float *lse = g->job->ptr[FV_ATTN_LSE];
    const vf by = v_set(1.0f / (sum == 0 ? 1.0f : sum));
    /* + 0: a sum of -0 must not depend on how many zero weights were added. */
    V_LOOP(a->d_v, 0, v_store(out + i, count, v_add(v_mul(v_load(o + i, count), by), v_zero())));
    if (!lse) return;
    float logs[FV_LANES];
    v_store(logs, FV_LANES, v_log(v_set(sum == 0 ? 1.0f : sum)));
    const double shift = row_max == -INFINITY ? 0 : (double)row_max * FV_ATTN_LN2;
    lse[(g->b * a->heads + g->h) * fv_attn_lse_head(a)] =
        sum == 0 ? -INFINITY : (float)(shift + (double)logs[0]);
}

static int64_t forward_floats(const fv_attn *a) { return SCORES + fv_attn_round(a->d_v, FV_LANES); }

static void run_forward(const void *arg, int64_t begin, int64_t end, int thread)
{
    const fv_attn_job *job = arg;
    const fv_attn *a = job->a;
    const int64_t o_row = fv_attn_round(a->d_v, FV_LANES);
    float *scores = (float *)job->exec->scratch + thread * forward_floats(a), *o = scores + SCORES;
    for (int64_t item = begin; item < end; item++) {
        const single_query g = single_query_of(job, item);
        float row_max = -INFINITY, sum = 0, rescale[FV_LANES];
        memset(o, 0, (size_t)o_row * sizeof *o);
        for (int64_t first = 0; first < g.keys; first += BLOCK) {
            const fv_attn_interval visible =
                fv_attn_visible_interval(&g.row, 1, first, fv_attn_min(first + BLOCK, g.keys));
            if (visible.begin == visible.end) continue;
            score_keys(&g, visible.begin, visible.end, scores);
            fv_attn_softmax(scores, SCORES, 1, fv_attn_round(visible.end - visible.begin, FV_LANES),
                            &row_max, &sum, rescale);
            if (rescale[0] != 1) fv_attn_scale_row(o, o_row, rescale[0]);
            add_values(&g, visible.begin, visible.end, scores, o);
        }
        store_result(&g, row_max, sum, o);
    }
}

void fv_attn_single_query(const fv_exec *exec, void *const *ptr, const fv_attn *a)
{
    const fv_attn_job job = fv_attn_job_of(exec, a, ptr);
    fv_exec_rows(exec, a->batch * a->heads, a->n_k * (a->d + a->d_v), run_forward, &job);
}

/* ---- backward ----------------------------------------------------------------------- */

/* Buffers of a thread, and the gradients of a sequence; NULL if not requested. */
typedef struct backward_buffers {
    float *p, *dz;   /* of a key block */
    float *dq, *dzr; /* [d] in whole vectors: sums over keys of dz e^2x r^2 and of dz r */
    float *dk, *dv;  /* of key 0 */
    int64_t dk_row, dv_row;
    const float *grad_o;
    float delta, shift;
} backward_buffers;

static int64_t backward_floats(const fv_attn *a)
{
    return 2 * SCORES + 2 * fv_attn_round(a->d, FV_LANES);
}

static float dot(const float *x, const float *y, int64_t n)
{
    vf sum = v_zero();
    V_LOOP(n, 0, sum = v_fma(v_load(x + i, count), v_load(y + i, count), sum));
    return v_reduce_sum(sum);
}

/* Keys [begin, end) get no gradient. */
static void clear_keys(const fv_attn *a, const backward_buffers *w, int64_t begin, int64_t end)
{
    for (int64_t j = begin; !a->adds_to_keys && j < end; j++) {
        if (w->dk) memset(w->dk + j * w->dk_row, 0, (size_t)a->d * sizeof *w->dk);
        if (w->dv) memset(w->dv + j * w->dv_row, 0, (size_t)a->d_v * sizeof *w->dv);
    }
}

/* P and the score gradients dz of keys [first, end). */
static void form_keys(const single_query *g, const backward_buffers *w, int64_t first, int64_t end)
{
    const fv_attn *a = g->job->a;
    const fv_exec *exec = g->job->exec;
    (void)exec;
    score_keys(g, first, end, w->p);
    const bool has_value_grad = w->grad_o && FV_TERM(exec, 0, true, false);
    for (int64_t j = first; j < end; j++)
        w->dz[j - first] = has_value_grad ? dot(w->grad_o, g->v + j * a->v.row, a->d_v) : 0;
    const vf offset = v_set(w->shift), delta = v_set(w->delta), scale = v_set((float)a->rule.scale);
    const vf nothing = v_set(-INFINITY);
    /* A hidden key's weight is 0 even if the log-sum-exp is NaN. */
    V_LOOP(end - first, 0, const vf s = v_load(w->p + i, count);
           const vf p = v_select(v_eq(s, nothing), v_zero(), fv_attn_exp2(v_sub(s, offset)));
           const vf ds = v_mul(v_mul(p, scale), v_sub(v_load(w->dz + i, count), delta));
           v_store(w->p + i, count, p);
           v_store(w->dz + i, count, v_select(v_eq(p, v_zero()), v_zero(), ds)));
}

static void add_value_grads(const single_query *g, const backward_buffers *w, int64_t first,
                            int64_t end)
{
    const fv_attn *a = g->job->a;
    for (int64_t j = first; w->dv && j < end; j++) {
        const float p = w->grad_o ? w->p[j - first] : 0;
        const vf weight = v_set(p);
        float *to = w->dv + j * w->dv_row;
        if (!a->adds_to_keys && p == 0)
            memset(to, 0, (size_t)a->d_v * sizeof *to);
        else if (!a->adds_to_keys)
            V_LOOP(a->d_v, 0, v_store(to + i, count, v_mul(weight, v_load(w->grad_o + i, count))));
        else if (p != 0)
            V_LOOP(a->d_v, 0, const vf x = v_load(w->grad_o + i, count);
                   v_store(to + i, count, v_fma(weight, x, v_load(to + i, count))));
    }
}

/* Sixteen columns from c on, all keys of a block. */
V_INLINE void add_column_grads(const single_query *g, const backward_buffers *w, int64_t first,
                               int64_t end, int64_t c, int count, bool with_slope)
{
    const fv_attn *a = g->job->a;
    const vf q = v_load(g->q + c, count), by = v_mul(v_set(4.0f), v_load(g->row.w + c, count));
    vf dq = v_load(w->dq + c, FV_LANES), dzr = v_load(w->dzr + c, FV_LANES);
    for (int64_t j = first; j < end; j++) {
        const float d = w->dz[j - first];
        vf u = v_zero();
        if (d != 0) {
            const vf dz = v_set(d), e = exp_2x(v_add(q, v_load(g->k + j * a->k.row + c, count)));
            const vf r = reciprocal_1p(e),
                     slope = with_slope ? v_mul(v_mul(e, r), r) : v_set(0.25f);
            u = v_mul(dz, slope);
            dq = v_add(dq, u);
            dzr = v_fma(dz, r, dzr);
        }
        if (!w->dk) continue;
        float *to = w->dk + j * w->dk_row + c;
        v_store(to, count, a->adds_to_keys ? v_fma(by, u, v_load(to, count)) : v_mul(by, u));
    }
    v_store(w->dq + c, FV_LANES, dq);
    v_store(w->dzr + c, FV_LANES, dzr);
}

static void add_key_grads(const single_query *g, const backward_buffers *w, int64_t first,
                          int64_t end)
{
    const int64_t d = g->job->a->d, whole = d / FV_LANES * FV_LANES;
    const fv_exec *exec = g->job->exec;
    (void)exec;
    const bool with_slope = FV_TERM(exec, 2, true, false);
    for (int64_t c = 0; c < whole; c += FV_LANES)
        add_column_grads(g, w, first, end, c, FV_LANES, with_slope);
    if (whole < d) add_column_grads(g, w, first, end, whole, (int)(d - whole), with_slope);
}

/* Loads the query's delta and log-sum-exp. */
static void load_query(const single_query *g, backward_buffers *w)
{
    const fv_attn *a = g->job->a;
    const fv_exec *exec = g->job->exec;
    (void)exec;
    const int64_t number = (g->b * a->heads + g->h) * fv_attn_lse_head(a);
    const float *dlse = g->job->grad[FV_ATTN_GRAD_LSE], *lse = g->job->ptr[FV_ATTN_LSE];
    const float *o = fv_attn_at(a, g->job->ptr[FV_ATTN_O], &a->o, g->b, g->h, 0);
    /* Computed like dP: with a single visible key the two cancel exactly. */
    const float delta = (w->grad_o ? dot(w->grad_o, o, a->d_v) : 0) - (dlse ? dlse[number] : 0);
    w->delta = FV_TERM(exec, 1, delta, 0);
    w->shift = lse[number] == -INFINITY ? 0 : lse[number] * (float)FV_ATTN_LOG2E;
}

/* Stores dq, and this sequence's part of dw, from the sums over keys. */
static void store_query_grads(const single_query *g, const backward_buffers *w, float all,
                              float *dq, float *dw)
{
    const int64_t d = g->job->a->d;
    const vf four = v_set(4.0f), total = v_set(all), minus = v_set(-2.0f);
    V_LOOP(d, 0, const vf by = v_mul(four, v_load(g->row.w + i, count));
           if (dq) v_store(dq + i, count, v_mul(by, v_load(w->dq + i, count)));
           v_store(dw + i, count, v_fma(minus, v_load(w->dzr + i, count), total)));
}

static backward_buffers buffers_of(const single_query *g, float *base)
{
    const fv_attn_job *job = g->job;
    const fv_attn *a = job->a;
    void *const *grad = job->grad;
    const fv_attn_layout *dk = fv_attn_layout_dk(a), *dv = fv_attn_layout_dv(a);
    const int64_t d = fv_attn_round(a->d, FV_LANES);
    backward_buffers w = {
        .p = base,
        .dz = base + SCORES,
        .dq = base + 2 * SCORES,
        .dzr = base + 2 * SCORES + d,
        .dk = fv_attn_out(a, grad[FV_ATTN_GRAD_K], dk, g->b, g->h, 0),
        .dv = fv_attn_out(a, grad[FV_ATTN_GRAD_V], dv, g->b, g->h, 0),
        .dk_row = dk->row,
        .dv_row = dv->row,
        .grad_o = fv_attn_out(a, grad[FV_ATTN_GRAD_O], fv_attn_layout_do(a), g->b, g->h, 0)};
    memset(w.dq, 0, (size_t)(2 * d) * sizeof *w.dq);
    load_query(g, &w);
    return w;
}

static void run_backward(const void *arg, int64_t begin, int64_t end, int thread)
{
    const fv_attn_job *job = arg;
    const fv_attn *a = job->a;
    float *partial_dw = job->exec->scratch; /* parts of dw, one per work item */
    float *buffers = partial_dw + a->batch * a->heads * a->d + thread * backward_floats(a);
    for (int64_t item = begin; item < end; item++) {
        const single_query g = single_query_of(job, item);
        const backward_buffers w = buffers_of(&g, buffers);
        float all = 0;
        int64_t done = 0;
        for (int64_t first = 0; first < g.keys; first += BLOCK) {
            const fv_attn_interval visible =
                fv_attn_visible_interval(&g.row, 1, first, fv_attn_min(first + BLOCK, g.keys));
            if (visible.begin == visible.end) continue;
            clear_keys(a, &w, done, visible.begin);
            form_keys(&g, &w, visible.begin, visible.end);
            add_value_grads(&g, &w, visible.begin, visible.end);
            add_key_grads(&g, &w, visible.begin, visible.end);
            all += sum_of(w.dz, visible.end - visible.begin);
            done = visible.end;
        }
        clear_keys(a, &w, done, a->n_k);
        float *dq = fv_attn_out(a, job->grad[FV_ATTN_GRAD_Q], fv_attn_layout_dq(a), g.b, g.h, 0);
        store_query_grads(&g, &w, all, dq, partial_dw + item * a->d);
    }
}

void fv_attn_single_query_grad(const fv_exec *exec, void *const *ptr, const fv_attn *a)
{
    fv_attn_job job = fv_attn_job_of(exec, a, ptr + FV_ATTN_GRAD_INPUTS);
    job.grad = ptr;
    fv_exec_rows(exec, a->batch * a->heads, a->n_k * (a->d + a->d_v), run_backward, &job);
    float *dw = ptr[FV_ATTN_GRAD_W];
    const float *partial_dw = exec->scratch;
    for (int64_t item = 0; dw && item < a->batch * a->heads; item++, partial_dw += a->d)
        for (int64_t c = 0; c < a->d; c++)
            dw[item % a->heads * a->d + c] += partial_dw[c];
}
