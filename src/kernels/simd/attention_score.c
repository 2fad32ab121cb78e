/* One row of scores, and the products that all passes share; see attention_simd.h. */
#include "kernels/simd/attention_simd.h"

#include <float.h>

#include "kernels/simd/philox.h"

fv_attn_job fv_attn_job_of(const fv_exec *exec, const fv_attn *a, void *const *ptr)
{
    const bool plain = a->rule.soft_cap == 0 && !ptr[FV_ATTN_BIAS] && !ptr[FV_ATTN_SLOPES];
    const float factor = (float)(plain ? a->rule.scale * FV_ATTN_LOG2E : a->rule.scale);
    return (fv_attn_job){.exec = exec,
                         .a = a,
                         .ptr = ptr,
                         .factor = factor,
                         .operand = a->score == FV_ATTN_SCORE_DOT ? factor : 1,
                         .plain = plain};
}

void fv_attn_fill_rows(const fv_attn_job *job, int64_t b, int64_t h, int64_t first, int64_t count,
                       fv_attn_row *row)
{
    const fv_attn *a = job->a;
    const float *bias = job->ptr[FV_ATTN_BIAS], *slopes = job->ptr[FV_ATTN_SLOPES];
    const float *w = job->ptr[FV_ATTN_W];
    const uint8_t *visible = job->ptr[FV_ATTN_VISIBLE];
    const fv_attn_grid *g = &a->bias, *m = &a->visible;
    const int64_t n_keys = fv_attn_keys(a, job->ptr[FV_ATTN_KEY_LENGTHS], b);
    const uint64_t key = fv_attn_row_key(a, b);
    for (int64_t i = first; i < first + count; i++)
        *row++ = (fv_attn_row){
            .range = fv_attn_visible_range(a, n_keys, i),
            .position = fv_attn_position(a, i),
            .bias = bias ? bias + b * g->batch + h * g->head + i * g->row : NULL,
            .visible = visible ? visible + b * m->batch + h * m->head + i * m->row : NULL,
            .blocks = fv_attn_block_row(a, job->ptr[FV_ATTN_BLOCKS], b, h, i),
            .w = w ? w + h * a->d : NULL,
            .slope = slopes ? slopes[h] : 0,
            .key = key,
            .draw = fv_attn_draw(h, i),
        };
}

/* ---- scores ----------------------------------------------------------------------- */

V_INLINE vf load_column(const float *p, int64_t col, int count)
{
    if (col == 1) return v_load(p, count);
    float all[FV_LANES] = {0};
    for (int l = 0; l < count; l++)
        all[l] = p[l * col];
    return v_load(all, FV_LANES);
}

V_INLINE vm load_visible(const uint8_t *p, int64_t col, int count)
{
    if (col == 1) return vm_load_bytes(p, count);
    uint8_t all[FV_LANES] = {0};
    for (int l = 0; l < count; l++)
        all[l] = p[l * col];
    return vm_load_bytes(all, FV_LANES);
}

/* Keys [0, end) among the sixteen from j on. */
V_INLINE vm keys_before(int64_t end, int64_t j)
{
    return v_first((int)fv_attn_max(0, fv_attn_min(FV_LANES, end - j)));
}

V_INLINE vm keys_in_range(const fv_attn_range *r, int64_t j)
{
    const vm window = vm_and(keys_before(r->high, j), vm_not(keys_before(r->low, j)));
    return vm_or(keys_before(r->prefix, j), window);
}

/* Number of columns from key `first` on that are all visible, in whole vectors. */
static int64_t columns_in_range(const fv_attn_range *r, int64_t first, int64_t cols)
{
    const int64_t end = r->low <= first || r->low <= r->prefix ? r->high : r->prefix;
    return fv_attn_min(cols, fv_attn_max(0, end - first) / FV_LANES * FV_LANES);
}

/* A bias of -inf hides the key even if its score is NaN. */
V_INLINE vf add_bias(vf z, vf bias)
{
    const vf nothing = v_set(-INFINITY);
    return v_select(v_eq(bias, nothing), nothing, v_add(z, bias));
}

/* Converts to base 2. A finite score stays finite, since -inf would hide it; NaN, the second
 * operand of the maximum, stays NaN. */
V_INLINE vf to_base_2(vf z)
{
    const vf nothing = v_set(-INFINITY);
    const vf scaled = v_max(v_set(-FLT_MAX), v_mul(z, v_set((float)FV_ATTN_LOG2E)));
    return v_select(v_eq(z, nothing), nothing, scaled);
}

static void adjust(const fv_attn_job *job, const fv_attn_row *row, int64_t first, int64_t cols,
                   float *s, float *cap_grad)
{
    const fv_attn *a = job->a;
    const vf cap = v_set((float)a->rule.soft_cap), one = v_set(1.0f);
    const vf lanes = vi_to_float(vi_count()), slope = v_set(row->slope);
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        const int64_t j = first + c;
        const int count = (int)fv_attn_max(0, fv_attn_min(FV_LANES, a->n_k - j));
        vf z = v_load(s + c, FV_LANES);
        if (a->rule.soft_cap > 0) {
            const vf t = v_tanh(v_div(z, cap));
            z = v_mul(cap, t);
            if (cap_grad) v_store(cap_grad + c, FV_LANES, v_sub(one, v_mul(t, t)));
        }
        if (row->slope != 0) z = v_fma(slope, v_add(lanes, v_set((float)(j - row->position))), z);
        if (row->bias)
            z = add_bias(z, load_column(row->bias + j * a->bias.col, a->bias.col, count));
        v_store(s + c, FV_LANES, to_base_2(z));
    }
}

/* blocks: the row's block mask, or NULL if it need not be applied. */
static void hide(const fv_attn_job *job, const fv_attn_row *row, const uint8_t *blocks,
                 int64_t first, int64_t cols, float *s)
{
    const fv_attn *a = job->a;
    const vf nothing = v_set(-INFINITY);
    int64_t block_end = first;
    bool listed = true;
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        const int64_t j = first + c;
        if (blocks && j >= block_end) {
            const int64_t block = j / a->rule.block_k;
            listed = blocks[block * a->blocks.col] != 0;
            block_end = (block + 1) * a->rule.block_k;
        }
        vm seen = listed ? keys_in_range(&row->range, j) : vm_none();
        if (row->visible) {
            const int count = (int)fv_attn_max(0, fv_attn_min(FV_LANES, a->n_k - j));
            const uint8_t *bytes = row->visible + j * a->visible.col;
            seen = vm_and(seen, load_visible(bytes, a->visible.col, count));
        }
        v_store(s + c, FV_LANES, v_select(seen, v_load(s + c, FV_LANES), nothing));
    }
}

void fv_attn_finish_scores(const fv_attn_job *job, const fv_attn_row *row, int64_t first,
                           int64_t cols, float *s, float *cap_grad)
{
    if (!job->plain) adjust(job, row, first, cols, s, cap_grad);
    const uint8_t *blocks = job->list_applied ? NULL : row->blocks;
    int64_t seen = 0;
    if (!row->visible && !blocks) seen = columns_in_range(&row->range, first, cols);
    if (seen < cols) hide(job, row, blocks, first + seen, cols - seen, s + seen);
}

void fv_attn_dropout_factors(const fv_attn_job *job, const fv_attn_row *row, int64_t first,
                             int64_t cols, float *keep)
{
    const fv_attn *a = job->a;
    const vf factor = v_set((float)(1.0 / (1.0 - a->rule.dropout)));
    const vf threshold = vi_to_float(vi_set(fv_philox_threshold(a->rule.dropout)));
    vi word[4];
    for (int64_t c = 0; c < cols; c += FV_LANES) {
        const int64_t inside = (first + c) % FV_PHILOX_DRAW, begin = first + c - inside;
        if (c == 0 || inside == 0) fv_philox_draw(row->key, row->draw, (uint64_t)begin / 4, word);
        const vm kept = fv_philox_kept(word[inside / FV_LANES], threshold);
        v_store(keep + c, FV_LANES, v_select(kept, factor, v_zero()));
    }
}

/* ---- products --------------------------------------------------------------------- */

static void multiply_skipping_zeros(const fv_tile *t, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++) {
        float *restrict c = t->c + r * t->c_row;
        for (int64_t j = 0; j < cols; j++)
            c[j] = t->from ? t->from[r * t->from_row + j] : 0;
        for (int64_t k = 0; k < t->k; k++) {
            const float x = t->a[r * t->a_row + k * t->a_col];
            if (x == 0) continue;
            for (int64_t j = 0; j < cols; j++)
                c[j] = fmaf(x, t->b[k * t->b_row + j], c[j]);
        }
    }
}

void fv_attn_product(const fv_tile *t, int64_t rows, int64_t cols, bool skip_zeros)
{
    if (skip_zeros) {
        multiply_skipping_zeros(t, rows, cols);
        return;
    }
    for (int64_t r = 0; r < rows; r += FV_GEMM_TILE_ROWS) {
        const int height = (int)fv_attn_min(FV_GEMM_TILE_ROWS, rows - r);
        for (int64_t j = 0; j < cols; j += FV_TILE_COLS) {
            fv_tile tile = *t;
            tile.a += r * t->a_row;
            tile.b += j;
            tile.c += r * t->c_row + j;
            if (tile.from) tile.from += r * t->from_row + j;
            fv_gemm_tile(&tile, height, (int)fv_attn_min(FV_TILE_COLS, cols - j));
        }
    }
}

void fv_attn_scores(const float *q, int64_t q_row, int rows, const float *panels, int64_t width,
                    int64_t first, int64_t cols, float *s, int64_t s_row)
{
    for (int64_t done = 0, step; done < cols; done += step) {
        const int64_t key = first + done, inside = key % FV_ATTN_PANEL;
        step = fv_attn_min(FV_TILE_COLS, fv_attn_min(FV_ATTN_PANEL - inside, cols - done));
        fv_tile t = {.k = width,
                     .a = q,
                     .a_row = q_row,
                     .a_col = 1,
                     .b = panels + (key - inside) * width + inside,
                     .b_row = FV_ATTN_PANEL,
                     .c = s + done,
                     .c_row = s_row};
        for (int r = 0; r < rows; r += FV_GEMM_TILE_ROWS) {
            fv_gemm_tile(&t, (int)fv_attn_min(FV_GEMM_TILE_ROWS, rows - r), (int)step);
            t.a += FV_GEMM_TILE_ROWS * q_row;
            t.c += FV_GEMM_TILE_ROWS * s_row;
        }
    }
    for (int i = 0; cols % FV_LANES != 0 && i < rows; i++)
        memset(s + i * s_row + cols, 0, FV_ATTN_KEY_STEP * sizeof(float));
}

void fv_attn_score_tile(const fv_attn_job *job, const fv_attn_additive_operands *x, int rows,
                        int64_t first, int64_t cols, float *s, int64_t s_row)
{
    const fv_attn_score score = job->a->score;
    if (score == FV_ATTN_SCORE_DOT) {
        fv_attn_scores(x->q, x->q_row, rows, x->k, x->width, first, cols, s, s_row);
    } else if (score == FV_ATTN_SCORE_ADDITIVE) {
        fv_attn_additive_operands all = *x;
        if (!fv_attn_finite(FV_F32, x->query_exp, x->query_exp_row, rows, x->width))
            all.missing = true;
        fv_attn_additive(&all, rows, job->factor, first, cols, s, s_row);
    } else {
        for (int i = 0; i < rows; i++)
            memset(s + i * s_row, 0, (size_t)cols * sizeof(float));
    }
}
