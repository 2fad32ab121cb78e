/*
 * Additive attention with one query a sequence: the step of a recurrent decoder that glimpses at
 * its source. Packing keys into panels would take longer than using them once, so vectors run
 * along the width here, and rows of K and V are read where they lie.
 *
 * With r = 1 / (1 + e^2x), tanh x = 1 - 2 r and (1 - tanh^2 x) / 4 = e^2x r^2.
 * A key whose weight or gradient is 0 is not looked at: what is hidden may hold NaN.
 */
#include "kernels/simd/attention_simd.h"

#define MOST 20.0f /* beyond it the tanh of a float is 1, and e^2x stays in range */

enum { SIDE = 4, BLOCK = FV_ATTN_BLOCK, SCORES = 2 * FV_ATTN_SCORE_ROW };

/* One sequence and head. */
typedef struct glimpse {
    const fv_attn_job *job;
    int64_t b, h;
    fv_attn_row row;
    const float *q, *k, *v; /* k and v: of key 0 */
    int64_t keys;
} glimpse;

static glimpse glimpse_of(const fv_attn_job *job, int64_t unit)
{
    const fv_attn *a = job->a;
    const int64_t b = unit / a->heads, h = unit % a->heads;
    glimpse g = {.job = job,
                 .b = b,
                 .h = h,
                 .q = fv_attn_at(a, job->ptr[FV_ATTN_Q], &a->q, b, h, 0),
                 .k = fv_attn_at(a, job->ptr[FV_ATTN_K], &a->k, b, h, 0),
                 .v = fv_attn_at(a, job->ptr[FV_ATTN_V], &a->v, b, h, 0),
                 .keys = fv_attn_keys(a, job->ptr[FV_ATTN_N_KEYS], b)};
    fv_attn_fill_rows(job, b, h, 0, 1, &g.row);
    return g;
}

/* e^2x and r; NaN stays NaN. */
V_INLINE vf raised(vf x)
{
    const vf held = v_max(v_set(-MOST), v_min(v_set(MOST), x));
    return v_exp(v_add(held, held));
}
V_INLINE vf fall(vf e) { return fv_attn_reciprocal(v_add(e, v_set(1.0f))); }

/* ---- scores and values ------------------------------------------------------------- */

V_INLINE void add_scores(const glimpse *g, const float *const row[SIDE], int64_t c, int count,
                         vf sum[SIDE])
{
    const vf q = v_load(g->q + c, count), w = v_load(g->row.w + c, count);
    for (int s = 0; s < SIDE; s++)
        sum[s] = v_fma(w, fall(raised(v_add(q, v_load(row[s] + c, count)))), sum[s]);
}

static float sum_of(const float *x, int64_t n)
{
    vf sum = v_zero();
    V_LOOP(n, 0, sum = v_add(sum, v_load(x + i, count)));
    return v_join(sum);
}

/* Scores in base 2 of keys [first, end), -inf where hidden; whole vectors are written. */
static void score_keys(const glimpse *g, int64_t first, int64_t end, float *s)
{
    const fv_attn *a = g->job->a;
    const float factor = g->job->factor, all = factor * sum_of(g->row.w, a->d);
    const int64_t whole = a->d / FV_LANES * FV_LANES;
    const int64_t cols = fv_attn_round(end - first, FV_LANES);
    for (int64_t j = first; j < end; j += SIDE) {
        const float *row[SIDE];
        vf sum[SIDE];
        for (int64_t k = 0; k < SIDE; k++) {
            row[k] = g->k + fv_attn_min(j + k, end - 1) * a->k.row;
            sum[k] = v_zero();
        }
        for (int64_t c = 0; c < whole; c += FV_LANES)
            add_scores(g, row, c, FV_LANES, sum);
        if (whole < a->d) add_scores(g, row, whole, (int)(a->d - whole), sum);
        for (int64_t k = 0; k < SIDE && j + k < end; k++)
            s[j - first + k] = fmaf(v_join(sum[k]), -2 * factor, all);
    }
    for (int64_t j = end - first; j < cols; j++)
        s[j] = 0;
    fv_attn_finish(g->job, &g->row, first, cols, s, NULL);
}

/* o += sum over keys of p v, a chain of multiply-adds for each element. */
static void add_values(const glimpse *g, int64_t first, int64_t end, const float *p, float *o)
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

static void deliver(const glimpse *g, float most, float sum, const float *o)
{
    const fv_attn *a = g->job->a;
    float *out = fv_attn_out(a, g->job->ptr[FV_ATTN_O], &a->o, g->b, g->h, 0);
    float *lse = g->job->ptr[FV_ATTN_LSE];
    const vf by = v_set(1.0f / (sum == 0 ? 1.0f : sum));
    /* + 0: a sum that came to -0 must not tell how many zero weights were added after. */
    V_LOOP(a->d_v, 0, v_store(out + i, count, v_add(v_mul(v_load(o + i, count), by), v_zero())));
    if (!lse) return;
    float logs[FV_LANES];
    v_store(logs, FV_LANES, v_log(v_set(sum == 0 ? 1.0f : sum)));
    const double shift = most == -INFINITY ? 0 : (double)most * FV_ATTN_LN2;
    lse[(g->b * a->heads + g->h) * fv_attn_lse_head(a)] =
        sum == 0 ? -INFINITY : (float)(shift + (double)logs[0]);
}

static int64_t forward_floats(const fv_attn *a) { return SCORES + fv_attn_round(a->d_v, FV_LANES); }

static void forward_units(const void *arg, int64_t begin, int64_t end, int thread)
{
    const fv_attn_job *job = arg;
    const fv_attn *a = job->a;
    const int64_t o_row = fv_attn_round(a->d_v, FV_LANES);
    float *scores = (float *)job->exec->scratch + thread * forward_floats(a), *o = scores + SCORES;
    for (int64_t unit = begin; unit < end; unit++) {
        const glimpse g = glimpse_of(job, unit);
        float most = -INFINITY, sum = 0, fade[FV_LANES];
        memset(o, 0, (size_t)o_row * sizeof *o);
        for (int64_t first = 0; first < g.keys; first += BLOCK) {
            const fv_attn_span seen =
                fv_attn_span_of(&g.row, 1, first, fv_attn_min(first + BLOCK, g.keys));
            if (seen.begin == seen.end) continue;
            score_keys(&g, seen.begin, seen.end, scores);
            fv_attn_softmax(scores, SCORES, 1, fv_attn_round(seen.end - seen.begin, FV_LANES),
                            &most, &sum, fade);
            if (fade[0] != 1) fv_attn_scale_row(o, o_row, fade[0]);
            add_values(&g, seen.begin, seen.end, scores, o);
        }
        deliver(&g, most, sum, o);
    }
}

void fv_attn_glimpse(const fv_exec *exec, void *const *ptr, const fv_attn *a)
{
    const fv_attn_job job = fv_attn_job_of(exec, a, ptr);
    fv_exec_rows(exec, a->batch * a->heads, a->n_k * (a->d + a->d_v), forward_units, &job);
}

/* ---- backward ----------------------------------------------------------------------- */

/* Scratch of one thread, and where a sequence's gradients go; those not wanted are NULL. */
typedef struct backward_room {
    float *p, *dz;   /* of a block of keys */
    float *dq, *dzr; /* [d] in whole vectors: sums over keys of dz slope and of dz r */
    float *dk, *dv;  /* of key 0 */
    const float *grad_o;
    float delta, shift;
} backward_room;

static int64_t backward_floats(const fv_attn *a)
{
    return 2 * SCORES + 2 * fv_attn_round(a->d, FV_LANES);
}

static float dot(const float *x, const float *y, int64_t n)
{
    vf sum = v_zero();
    V_LOOP(n, 0, sum = v_fma(v_load(x + i, count), v_load(y + i, count), sum));
    return v_join(sum);
}

/* Keys [begin, end) get nothing. */
static void clear_keys(const fv_attn *a, const backward_room *w, int64_t begin, int64_t end)
{
    for (int64_t j = begin; !a->adds_to_keys && j < end; j++) {
        if (w->dk) memset(w->dk + j * a->k.row, 0, (size_t)a->d * sizeof *w->dk);
        if (w->dv) memset(w->dv + j * a->v.row, 0, (size_t)a->d_v * sizeof *w->dv);
    }
}

/* P, and the gradients dz of what is inside the score, of keys [first, end). */
static void weigh_keys(const glimpse *g, const backward_room *w, int64_t first, int64_t end)
{
    const fv_attn *a = g->job->a;
    const fv_exec *exec = g->job->exec;
    (void)exec;
    score_keys(g, first, end, w->p);
    const bool through = w->grad_o && FV_TERM(exec, 0, true, false);
    for (int64_t j = first; j < end; j++)
        w->dz[j - first] = through ? dot(w->grad_o, g->v + j * a->v.row, a->d_v) : 0;
    const vf down = v_set(w->shift), delta = v_set(w->delta), scale = v_set((float)a->rule.scale);
    V_LOOP(end - first, 0, const vf p = fv_attn_exp2(v_sub(v_load(w->p + i, count), down));
           const vf ds = v_mul(v_mul(p, scale), v_sub(v_load(w->dz + i, count), delta));
           v_store(w->p + i, count, p);
           v_store(w->dz + i, count, v_select(v_eq(p, v_zero()), v_zero(), ds)));
}

static void give_values(const glimpse *g, const backward_room *w, int64_t first, int64_t end)
{
    const fv_attn *a = g->job->a;
    for (int64_t j = first; w->dv && j < end; j++) {
        const float p = w->grad_o ? w->p[j - first] : 0;
        const vf weight = v_set(p);
        float *to = w->dv + j * a->v.row;
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
V_INLINE void give_columns(const glimpse *g, const backward_room *w, int64_t first, int64_t end,
                           int64_t c, int count, bool sloped)
{
    const fv_attn *a = g->job->a;
    const vf q = v_load(g->q + c, count), by = v_mul(v_set(4.0f), v_load(g->row.w + c, count));
    vf dq = v_load(w->dq + c, FV_LANES), dzr = v_load(w->dzr + c, FV_LANES);
    for (int64_t j = first; j < end; j++) {
        const float d = w->dz[j - first];
        vf u = v_zero();
        if (d != 0) {
            const vf dz = v_set(d), e = raised(v_add(q, v_load(g->k + j * a->k.row + c, count)));
            const vf r = fall(e), slope = sloped ? v_mul(v_mul(e, r), r) : v_set(0.25f);
            u = v_mul(dz, slope);
            dq = v_add(dq, u);
            dzr = v_fma(dz, r, dzr);
        }
        if (!w->dk) continue;
        float *to = w->dk + j * a->k.row + c;
        v_store(to, count, a->adds_to_keys ? v_fma(by, u, v_load(to, count)) : v_mul(by, u));
    }
    v_store(w->dq + c, FV_LANES, dq);
    v_store(w->dzr + c, FV_LANES, dzr);
}

static void give_keys(const glimpse *g, const backward_room *w, int64_t first, int64_t end)
{
    const int64_t d = g->job->a->d, whole = d / FV_LANES * FV_LANES;
    const fv_exec *exec = g->job->exec;
    (void)exec;
    const bool sloped = FV_TERM(exec, 2, true, false);
    for (int64_t c = 0; c < whole; c += FV_LANES)
        give_columns(g, w, first, end, c, FV_LANES, sloped);
    if (whole < d) give_columns(g, w, first, end, whole, (int)(d - whole), sloped);
}

/* What belongs to the query: delta, and by how much its scores are shifted. */
static void look_back(const glimpse *g, backward_room *w)
{
    const fv_attn *a = g->job->a;
    const fv_exec *exec = g->job->exec;
    (void)exec;
    const int64_t number = (g->b * a->heads + g->h) * fv_attn_lse_head(a);
    const float *dlse = g->job->grad[FV_ATTN_GRAD_LSE], *lse = g->job->ptr[FV_ATTN_LSE];
    const float *o = fv_attn_at(a, g->job->ptr[FV_ATTN_O], &a->o, g->b, g->h, 0);
    /* As dP is made: with one key in sight the two cancel to the bit. */
    const float delta = (w->grad_o ? dot(w->grad_o, o, a->d_v) : 0) - (dlse ? dlse[number] : 0);
    w->delta = FV_TERM(exec, 1, delta, 0);
    w->shift = lse[number] == -INFINITY ? 0 : lse[number] * (float)FV_ATTN_LOG2E;
}

/* The sums over keys to dq, and to this sequence's share of dw. */
static void give_query(const glimpse *g, const backward_room *w, float all, float *dq, float *dw)
{
    const int64_t d = g->job->a->d;
    const vf four = v_set(4.0f), total = v_set(all), minus = v_set(-2.0f);
    V_LOOP(d, 0, const vf by = v_mul(four, v_load(g->row.w + i, count));
           if (dq) v_store(dq + i, count, v_mul(by, v_load(w->dq + i, count)));
           v_store(dw + i, count, v_fma(minus, v_load(w->dzr + i, count), total)));
}

static backward_room room_of(const glimpse *g, float *base)
{
    const fv_attn_job *job = g->job;
    const fv_attn *a = job->a;
    void *const *grad = job->grad;
    const int64_t d = fv_attn_round(a->d, FV_LANES);
    backward_room w = {.p = base,
                       .dz = base + SCORES,
                       .dq = base + 2 * SCORES,
                       .dzr = base + 2 * SCORES + d,
                       .dk = fv_attn_out(a, grad[FV_ATTN_GRAD_K], &a->k, g->b, g->h, 0),
                       .dv = fv_attn_out(a, grad[FV_ATTN_GRAD_V], &a->v, g->b, g->h, 0),
                       .grad_o = fv_attn_out(a, grad[FV_ATTN_GRAD_O], &a->o, g->b, g->h, 0)};
    memset(w.dq, 0, (size_t)(2 * d) * sizeof *w.dq);
    look_back(g, &w);
    return w;
}

static void backward_units(const void *arg, int64_t begin, int64_t end, int thread)
{
    const fv_attn_job *job = arg;
    const fv_attn *a = job->a;
    float *shares = job->exec->scratch; /* of dw, one a unit */
    float *mine = shares + a->batch * a->heads * a->d + thread * backward_floats(a);
    for (int64_t unit = begin; unit < end; unit++) {
        const glimpse g = glimpse_of(job, unit);
        const backward_room w = room_of(&g, mine);
        float all = 0;
        int64_t done = 0;
        for (int64_t first = 0; first < g.keys; first += BLOCK) {
            const fv_attn_span seen =
                fv_attn_span_of(&g.row, 1, first, fv_attn_min(first + BLOCK, g.keys));
            if (seen.begin == seen.end) continue;
            clear_keys(a, &w, done, seen.begin);
            weigh_keys(&g, &w, seen.begin, seen.end);
            give_values(&g, &w, seen.begin, seen.end);
            give_keys(&g, &w, seen.begin, seen.end);
            all += sum_of(w.dz, seen.end - seen.begin);
            done = seen.end;
        }
        clear_keys(a, &w, done, a->n_k);
        float *dq = fv_attn_out(a, job->grad[FV_ATTN_GRAD_Q], &a->q, g.b, g.h, 0);
        give_query(&g, &w, all, dq, shares + unit * a->d);
    }
}

void fv_attn_glimpse_grad(const fv_exec *exec, void *const *ptr, const fv_attn *a)
{
    fv_attn_job job = fv_attn_job_of(exec, a, ptr + FV_ATTN_GRAD_INPUTS);
    job.grad = ptr;
    fv_exec_rows(exec, a->batch * a->heads, a->n_k * (a->d + a->d_v), backward_units, &job);
    float *dw = ptr[FV_ATTN_GRAD_W];
    const float *share = exec->scratch;
    for (int64_t unit = 0; dw && unit < a->batch * a->heads; unit++, share += a->d)
        for (int64_t c = 0; c < a->d; c++)
            dw[unit % a->heads * a->d + c] += share[c];
}
