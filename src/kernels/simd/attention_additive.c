/*
 * Additive scores, sum_c w_c tanh(q_c + k_c), and their gradients.
 *
 * tanh(x) = 1 - 2 r with r = 1 / (1 + e^2x), and e^2(q+k) = e^2q e^2k: with precomputed
 * exponentials of both sides (fv_attn_exp_2x), a pair costs a multiply-add and a reciprocal instead
 * of a tanh. The relative error of the product, below 4.6e-7, is halved in the tanh.
 *
 * Exponentials are used up to |x| = 20, so that no product overflows. Beyond that, and for NaN, the
 * exponential is set to NaN: then r is NaN, and the loops compiled with `missing` compute the tanh
 * of q + k instead. This choice is made per element, so blocks with and without such elements have
 * equal bits elsewhere.
 *
 * Derivatives need no second function: (1 - t^2)/4 = r (1 - r) = e^2x r^2, without cancellation.
 */
#include "kernels/simd/attention_simd.h"

#define EXP_LIMIT 20.0f

enum { GROUP = V_GROUP * FV_LANES }; /* keys processed together */

/* Offset from one vector of keys to the next: in the same panel, or in the next panel. */
enum { ONE_A_PANEL = (int)FV_ATTN_PANEL == (int)FV_LANES };
_Static_assert(ONE_A_PANEL || FV_ATTN_PANEL % GROUP == 0, "a group is in one panel, or in as many");
V_INLINE int64_t next_vector(const fv_attn_additive_operands *x)
{
    return ONE_A_PANEL ? FV_LANES * x->width : FV_LANES;
}

bool fv_attn_exp_2x(const float *x, int64_t n, float *e)
{
    const vf limit = v_set(EXP_LIMIT), marked = v_set(NAN);
    bool all = true;
    V_LOOP(n, 0, const vf v = v_load(x + i, count); const vm usable = v_le(v_abs(v), limit);
           all &= vm_bits(usable) == 0xffff; /* lanes past the last are 0 */
           v_store(e + i, count, v_select(usable, v_exp(v_add(v, v)), marked)));
    return all;
}

/* ---- scores ----------------------------------------------------------------------- */

/* One row and `vecs` vectors of keys from `key` on. */
V_INLINE void score_keys(const fv_attn_additive_operands *x, int64_t row, int64_t key,
                         const int vecs, const bool missing, float all, float factor, float *s)
{
    const int64_t at = key / FV_ATTN_PANEL * FV_ATTN_PANEL * x->width + key % FV_ATTN_PANEL;
    const float *q = x->q + row * x->q_row, *query_exp = x->query_exp + row * x->query_exp_row;
    const int64_t next = next_vector(x);
    const vf one = v_set(1.0f);
    vf sum[V_GROUP];
    for (int v = 0; v < vecs; v++)
        sum[v] = v_zero();
    for (int64_t c = 0; c < x->width; c++) {
        const vf left = v_set(query_exp[c]), w = v_set(x->w[c]);
        const float *key_exp = x->key_exp + at + c * FV_ATTN_PANEL,
                    *k = x->k + at + c * FV_ATTN_PANEL;
        for (int v = 0; v < vecs; v++) {
            vf r = fv_attn_reciprocal(v_fma(left, v_load(key_exp + v * next, FV_LANES), one));
            if (missing) {
                const vf t = v_tanh(v_add(v_set(q[c]), v_load(k + v * next, FV_LANES)));
                r = v_select(v_nan(r), v_mul(v_set(0.5f), v_sub(one, t)), r);
            }
            sum[v] = v_fma(w, r, sum[v]);
        }
    }
    for (int v = 0; v < vecs; v++)
        v_store(s + v * FV_LANES, FV_LANES, v_fma(sum[v], v_set(-2 * factor), v_set(factor * all)));
}

V_INLINE void score_rows(const fv_attn_additive_operands *x, int rows, float factor, int64_t first,
                         int64_t cols, float *s, int64_t s_row, const bool missing)
{
    float all = 0;
    for (int64_t c = 0; c < x->width; c++)
        all += x->w[c];
    for (int64_t done = 0, step; done < cols; done += step) {
        const int64_t key = first + done;
        step = key % GROUP == 0 && cols - done >= GROUP ? GROUP : FV_LANES;
        for (int i = 0; i < rows; i++) {
            if (step == GROUP)
                score_keys(x, i, key, V_GROUP, missing, all, factor, s + i * s_row + done);
            else
                score_keys(x, i, key, 1, missing, all, factor, s + i * s_row + done);
        }
    }
}

void fv_attn_additive(const fv_attn_additive_operands *x, int rows, float factor, int64_t first,
                      int64_t cols, float *s, int64_t s_row)
{
    if (x->missing)
        score_rows(x, rows, factor, first, cols, s, s_row, true);
    else
        score_rows(x, rows, factor, first, cols, s, s_row, false);
}

/* ---- gradients -------------------------------------------------------------------- */

/* Column c, the rows of `visible` and `vecs` vectors of keys from `key` on. part[row] accumulates
 * the sums over these keys, lane by lane. */
V_INLINE void add_column(const fv_attn_additive_operands *x, const fv_attn_score_grads *p,
                         fv_attn_interval visible, int64_t c, int64_t key, const int vecs,
                         const bool missing, const bool with_slope, const fv_attn_additive_sums *to)
{
    const int64_t at =
        key / FV_ATTN_PANEL * FV_ATTN_PANEL * x->width + c * FV_ATTN_PANEL + key % FV_ATTN_PANEL;
    const int64_t next = next_vector(x);
    const vf one = v_set(1.0f), zero = v_zero();
    vf key_exp[V_GROUP], by_key[V_GROUP], by_w = v_load(to->w + c * FV_LANES, FV_LANES);
    for (int v = 0; v < vecs; v++) {
        key_exp[v] = v_load(x->key_exp + at + v * next, FV_LANES);
        by_key[v] = zero;
    }
    for (int64_t i = visible.begin; i < visible.end; i++) {
        const vf left = v_set(x->query_exp[i * x->query_exp_row + c]);
        const float *dz = p->dz + i * p->row + key;
        vf by_row = v_load(to->row_sums + i * FV_LANES, FV_LANES);
        for (int v = 0; v < vecs; v++) {
            const vf d = v_load(dz + v * FV_LANES, FV_LANES), e = v_mul(left, key_exp[v]);
            vf r = fv_attn_reciprocal(v_add(e, one)), slope = v_mul(v_mul(e, r), r);
            if (missing) {
                const vf k = v_load(x->k + at + v * next, FV_LANES);
                const vf t = v_tanh(v_add(v_set(x->q[i * x->q_row + c]), k));
                const vf half = v_mul(v_set(0.5f), v_sub(one, t));
                const vm marked = v_nan(r), hidden = v_eq(d, zero);
                slope = v_select(marked, v_mul(half, v_sub(one, half)), slope);
                slope = v_select(hidden, zero, slope);
                r = v_select(hidden, zero, v_select(marked, half, r));
            }
            if (!with_slope) slope = v_set(0.25f);
            const vf u = v_mul(d, slope);
            by_key[v] = v_add(by_key[v], u);
            by_row = v_add(by_row, u);
            by_w = v_fma(d, r, by_w);
        }
        v_store(to->row_sums + i * FV_LANES, FV_LANES, by_row);
    }
    v_store(to->w + c * FV_LANES, FV_LANES, by_w);
    const vf w = v_set(4 * x->w[c]);
    for (int v = 0; v < vecs; v++) {
        float *out = to->k + at + v * next;
        v_store(out, FV_LANES, v_fma(w, by_key[v], v_load(out, FV_LANES)));
    }
}

V_INLINE void add_columns(const fv_attn_additive_operands *x, const fv_attn_score_grads *p,
                          const bool missing, const bool with_slope,
                          const fv_attn_additive_sums *to)
{
    for (int64_t c = 0; c < x->width; c++) {
        memset(to->row_sums, 0, (size_t)(p->rows * FV_LANES) * sizeof(float));
        for (int64_t key = 0, step; key < p->keys; key += step) {
            const fv_attn_interval visible = p->visible[key / FV_ATTN_VISIBLE_STEP];
            step = p->keys - key >= GROUP ? GROUP : FV_LANES;
            if (step == GROUP)
                add_column(x, p, visible, c, key, V_GROUP, missing, with_slope, to);
            else
                add_column(x, p, visible, c, key, 1, missing, with_slope, to);
        }
        for (int64_t i = 0; i < p->rows; i++)
            to->q[i * x->width + c] =
                4 * x->w[c] * v_reduce_sum(v_load(to->row_sums + i * FV_LANES, FV_LANES));
    }
}

/* Sums of dZ itself, stored after those of dZ r. */
static void add_all(const fv_attn_score_grads *p, float *lanes)
{
    vf sum = v_load(lanes, FV_LANES);
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t key = 0; key < p->keys; key += FV_LANES)
            sum = v_add(sum, v_load(p->dz + i * p->row + key, FV_LANES));
    v_store(lanes, FV_LANES, sum);
}

void fv_attn_additive_grad(const fv_exec *exec, const fv_attn_additive_operands *x,
                           const fv_attn_score_grads *p, const fv_attn_additive_sums *to)
{
    (void)exec;
    if (FV_TERM(exec, 2, false, true))
        add_columns(x, p, true, false, to);
    else if (x->missing)
        add_columns(x, p, true, true, to);
    else
        add_columns(x, p, false, true, to);
    add_all(p, to->w + x->width * FV_LANES);
}

void fv_attn_additive_w(const float *lanes, int64_t width, float *out)
{
    const float all = v_reduce_sum(v_load(lanes + width * FV_LANES, FV_LANES));
    for (int64_t c = 0; c < width; c++)
        out[c] = all - 2 * v_reduce_sum(v_load(lanes + c * FV_LANES, FV_LANES));
}
