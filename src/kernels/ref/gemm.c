/*
 * The matrix product by its definition: every other level must equal it bit for bit.
 */
#include "kernels/gemm.h"
#include "kernels/half.h"
#include "kernels/ref/lanes.h"
#include "kernels/weights.h"

typedef struct job {
    const fv_gemm *g;
    real *c;
    const real *a, *b, *bias, *residual; /* a, b, c, residual: bf16 as g->stored_bf16 says */
    real *aux;                           /* what g->aux says, or NULL */
} job;

/* Element `at` of an operand that is real, or bf16 in memory. */
static real load(const job *j, unsigned stored, const void *x, int64_t at)
{
    if (j->g->stored_bf16 & stored) return (real)fv_bf16_to_f32(((const uint16_t *)x)[at]);
    return ((const real *)x)[at];
}

static void store(const job *j, unsigned stored, void *x, int64_t at, real value)
{
    if (j->g->stored_bf16 & stored)
        ((uint16_t *)x)[at] = fv_f32_to_bf16((float)value);
    else
        ((real *)x)[at] = value;
}

static real activate(fv_act act, real x)
{
    switch (act) {
    case FV_ACT_RELU:
        return real_relu(x);
    case FV_ACT_GELU:
        return real_gelu(x);
    case FV_ACT_GELU_TANH:
        return real_gelu_tanh(x);
    case FV_ACT_SILU:
        return real_silu(x);
    case FV_ACT_TANH:
        return real_tanh(x);
    case FV_ACT_SIGMOID:
        return real_sigmoid(x);
    case FV_ACT_QUICK_GELU:
        return real_quick_gelu(x);
    default:
        return x;
    }
}

/* One row times a panel of low-precision weights. */
static void low_precision_sums(const fv_gemm *g, const real *a, const char *panel, int64_t count,
                               real *sum)
{
    for (int64_t k = 0; k < g->k; k++)
        for (int64_t col = 0; col < count; col++)
            sum[col] =
                real_fma(a[k * g->a_col], (real)fv_weight_at(g->b_form, panel, k, col), sum[col]);
}

/* Element (k, col) of B as a bf16 product reads it. */
static real bf16_element(const job *j, int64_t k, int64_t col)
{
    const fv_gemm *g = j->g;
    if (!g->b_packed)
        return fv_round_bf16((float)load(j, FV_GEMM_STORED_B, j->b, k * g->b_row + col * g->b_col));
    return (real)fv_weight_at(g->b_form, fv_weight_panel(g->b_form, j->b, g->k, col), k,
                              col % FV_GEMM_PANEL);
}

/* Columns [first, first + count) of one row with operands rounded to bf16: k in pairs, the second
 * of a pair first. */
static void bf16_row_sums(const job *j, int64_t row, int64_t first, int64_t count, real *sum)
{
    const fv_gemm *g = j->g;
    for (int64_t pair = 0; pair < g->k; pair += 2)
        for (int64_t k = pair + 1; k >= pair; k--) {
            real x = 0;
            if (k < g->k)
                x = fv_round_bf16(
                    (float)load(j, FV_GEMM_STORED_A, j->a, row * g->a_row + k * g->a_col));
            for (int64_t col = 0; col < count; col++) {
                real y = 0;
                if (k < g->k) y = bf16_element(j, k, first + col);
                sum[col] = real_fma(x, y, sum[col]);
            }
        }
}

/* Columns [first, first + count) of one row; a panel at a time keeps the sums and B in the
 * cache. */
static void row_part(const job *j, const fv_gemm_offsets *at, int64_t row, int64_t first,
                     int64_t count)
{
    const fv_gemm *g = j->g;
    const real *a = g->bf16 ? NULL : j->a + at->a + row * g->a_row;
    const real *b = g->bf16 ? NULL : j->b + at->b;
    int64_t b_row = g->b_row, b_col = g->b_col;
    if (g->b_packed && b) {
        b += first * g->k; /* `first` is the first column of a panel */
        b_row = FV_GEMM_PANEL;
        b_col = 1;
    } else if (b) {
        b += first * b_col;
    }
    const int64_t c = at->c + row * g->c_row + first; /* also of aux: it has C's strides */

    real sum[FV_GEMM_PANEL];
    for (int64_t col = 0; col < count; col++)
        sum[col] = g->accumulate ? load(j, FV_GEMM_STORED_C, j->c, c + col) : 0;
    const char *panel = g->b_packed ? fv_weight_panel(g->b_form, j->b, g->k, first) : NULL;
    const float *scale = panel ? fv_weight_scales(g->b_form, panel) : NULL;
    if (g->bf16)
        bf16_row_sums(j, row, first, count, sum);
    else if (g->b_form != FV_WEIGHT_F32)
        low_precision_sums(g, a, panel, count, sum);
    else
        for (int64_t k = 0; k < g->k; k++)
            for (int64_t col = 0; col < count; col++)
                sum[col] = real_fma(a[k * g->a_col], b[k * b_row + col * b_col], sum[col]);
    for (int64_t col = 0; col < count; col++) {
        real y = scale ? sum[col] * (real)scale[col] : sum[col];
        if (j->bias) y += j->bias[first + col];
        if (g->aux == FV_GEMM_AUX_SUM) store(j, FV_GEMM_STORED_C, j->aux, c + col, y);
        y = activate(g->act, y);
        if (g->aux == FV_GEMM_AUX_ACT) store(j, FV_GEMM_STORED_C, j->aux, c + col, y);
        if (j->residual)
            y += load(j, FV_GEMM_STORED_C, j->residual,
                      at->residual + row * g->residual_row + first + col);
        store(j, FV_GEMM_STORED_C, j->c, c + col, y);
    }
}

/* The sum of a row of A. */
static real row_sum(const job *j, int64_t row)
{
    const fv_gemm *g = j->g;
    real sum;
    LANE_SUM(sum, g->k, load(j, FV_GEMM_STORED_A, j->a, row * g->a_row + i * g->a_col));
    return sum;
}

static void rows(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const job *j = arg;
    const fv_gemm *g = j->g;
    for (int64_t work_item = begin; work_item < end; work_item++) {
        fv_gemm_offsets at = fv_gemm_locate(g, work_item / g->m);
        if (g->aux == FV_GEMM_AUX_ROW_SUMS) j->aux[work_item] = row_sum(j, work_item);
        for (int64_t first = 0; first < g->n; first += FV_GEMM_PANEL) {
            int64_t left = g->n - first;
            row_part(j, &at, work_item % g->m, first, left < FV_GEMM_PANEL ? left : FV_GEMM_PANEL);
        }
    }
}

void FV_NAME(fv_ref_gemm)(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_gemm *g = args;
    if (g->n <= 0) return;
    job j = {.g = g,
             .c = ptr[0],
             .a = ptr[1],
             .b = ptr[2],
             .bias = ptr[3],
             .residual = ptr[4],
             .aux = ptr[5]};
    /* Never read, and may be NULL, to which no offset may be added. */
    if (g->k == 0 && g->b_form == FV_WEIGHT_F32) j.b = j.c;
    if (g->k == 0) j.a = j.c;
    fv_exec_rows(exec, g->batch * g->m, g->n * (g->k + 1), rows, &j);
}

typedef struct pack_job {
    const fv_gemm_pack_args *args;
    real *packed;
    const real *b;
} pack_job;

static void pack_panels(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pack_job *j = arg;
    const fv_gemm_pack_args *p = j->args;
    for (int64_t panel = begin; panel < end; panel++) {
        real *out = j->packed + panel * p->k * FV_GEMM_PANEL;
        for (int64_t k = 0; k < p->k; k++)
            for (int64_t col = 0; col < FV_GEMM_PANEL; col++) {
                int64_t from = panel * FV_GEMM_PANEL + col;
                *out++ = from < p->n ? j->b[k * p->b_row + from * p->b_col] : 0;
            }
    }
}

void FV_NAME(fv_ref_pack)(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_gemm_pack_args *p = args;
    pack_job j = {.args = p, .packed = ptr[0], .b = ptr[1]};
#ifndef FV_REAL_DOUBLE
    if (p->form != FV_WEIGHT_F32) {
        fv_weight_convert(exec, ptr, p);
        return;
    }
#endif
    fv_exec_rows(exec, (p->n + FV_GEMM_PANEL - 1) / FV_GEMM_PANEL, p->k * FV_GEMM_PANEL,
                 pack_panels, &j);
}

void FV_NAME(fv_ref_gemm_register)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_GEMM][FV_REAL_DTYPE] = FV_NAME(fv_ref_gemm);
    t->fn[FV_KERNEL_PACK][FV_REAL_DTYPE] = FV_NAME(fv_ref_pack);
}
