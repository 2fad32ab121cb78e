/* Converts weights to bf16 or int8, and single rows back to float. Runs once per model: plain loops
 * that compilers vectorise, the same code and therefore the same bits for every level. */
#include "kernels/weights.h"

#include <math.h>

#include "kernels/register.h"

enum { BLOCK_ROWS = 16 }; /* one cache line of each column, if B is column-major */

typedef struct convert_job {
    const fv_gemm_pack_args *args;
    const float *b;
    char *packed;
} convert_job;

/* BLOCK_ROWS rows of one panel of B, zeros past the edges of B. */
typedef struct block {
    float at[BLOCK_ROWS][FV_GEMM_PANEL];
} block;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void load(const convert_job *j, int64_t row, int64_t first, block *to)
{
    const fv_gemm_pack_args *p = j->args;
    const int64_t rows = smaller(BLOCK_ROWS, p->k - row),
                  cols = smaller(FV_GEMM_PANEL, p->n - first);
    const float *b = j->b + row * p->b_row + first * p->b_col;
    if (rows < BLOCK_ROWS || cols < FV_GEMM_PANEL) memset(to, 0, sizeof *to);
    if (p->b_col == 1) {
        for (int64_t i = 0; i < rows; i++)
            memcpy(to->at[i], b + i * p->b_row, (size_t)cols * sizeof *b);
        return;
    }
    for (int64_t col = 0; col < cols; col++)
        for (int64_t i = 0; i < rows; i++)
            to->at[i][col] = b[i * p->b_row + col * p->b_col];
}

static void convert_bf16(const convert_job *j, int64_t first, char *panel)
{
    uint32_t *out = (uint32_t *)(void *)panel;
    block in;
    for (int64_t row = 0; row < j->args->k; row += BLOCK_ROWS) {
        load(j, row, first, &in);
        const int64_t rows = smaller(BLOCK_ROWS, j->args->k - row);
        for (int64_t i = 0; i < rows; i += 2, out += FV_GEMM_PANEL)
            for (int64_t col = 0; col < FV_GEMM_PANEL; col++)
                out[col] = (uint32_t)fv_f32_to_bf16(in.at[i][col]) |
                           (uint32_t)fv_f32_to_bf16(in.at[i + 1][col]) << 16;
    }
}

/* The largest magnitude of each column; NaN if the column contains one. */
static void column_maxima(const convert_job *j, int64_t first, float size[FV_GEMM_PANEL])
{
    block in;
    memset(size, 0, FV_GEMM_PANEL * sizeof *size);
    for (int64_t row = 0; row < j->args->k; row += BLOCK_ROWS) {
        load(j, row, first, &in);
        for (int64_t i = 0; i < BLOCK_ROWS; i++)
            for (int64_t col = 0; col < FV_GEMM_PANEL; col++) {
                const float x = fabsf(in.at[i][col]);
                size[col] = size[col] >= x || size[col] != size[col] ? size[col] : x;
            }
    }
}

static void convert_i8(const convert_job *j, int64_t first, char *panel)
{
    /* Adding and subtracting 1.5 x 2^23 rounds a number below 2^22 to nearest even. */
    const float round = 0x1.8p23f;
    float factor[FV_GEMM_PANEL], *scale = (float *)(void *)panel;
    signed char *out = (signed char *)panel + FV_I8_SCALE_BYTES;
    column_maxima(j, first, scale);
    for (int64_t col = 0; col < FV_GEMM_PANEL; col++) {
        const bool usable = scale[col] > 0 && isfinite(scale[col]);
        /* The inverse scale of a denormal maximum may overflow: such a column is treated as
         * zeros. */
        factor[col] = usable ? (float)FV_I8_MAX / scale[col] : 0;
        if (!isfinite(factor[col])) factor[col] = 0;
        scale[col] = isfinite(scale[col]) ? scale[col] / (float)FV_I8_MAX : NAN;
    }
    block in;
    for (int64_t row = 0; row < j->args->k; row += BLOCK_ROWS) {
        load(j, row, first, &in);
        const int64_t rows = smaller(BLOCK_ROWS, j->args->k - row);
        for (int64_t i = 0; i < rows; i++, out += FV_GEMM_PANEL)
            for (int64_t col = 0; col < FV_GEMM_PANEL; col++) {
                const float x = in.at[i][col] * factor[col];
                const float whole = x + round - round;
                out[col] = (signed char)(x == x ? whole : 0);
            }
    }
}

static void convert_panels(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const convert_job *j = arg;
    const fv_gemm_pack_args *p = j->args;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t first = panel * FV_GEMM_PANEL;
        char *to = j->packed + (size_t)panel * fv_weight_panel_bytes(p->form, p->k);
        if (p->form == FV_WEIGHT_BF16)
            convert_bf16(j, first, to);
        else
            convert_i8(j, first, to);
    }
}

void fv_weight_convert(const fv_exec *exec, void *const *ptr, const fv_gemm_pack_args *args)
{
    const convert_job j = {.args = args, .packed = ptr[0], .b = ptr[1]};
    fv_exec_rows(exec, (args->n + FV_GEMM_PANEL - 1) / FV_GEMM_PANEL, args->k * FV_GEMM_PANEL,
                 convert_panels, &j);
}

/* ---- rows of a packed weight ---------------------------------------------------------- */

typedef struct gather_job {
    const fv_gather_weights_args *args;
    float *out;
    const void *packed;
    const int64_t *index;
    fv_fault *fault;
} gather_job;

static void gather_rows(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const gather_job *j = arg;
    const fv_gather_weights_args *p = j->args;
    for (int64_t i = begin; i < end; i++) {
        float *out = j->out + i * p->k;
        const int64_t row = j->index[i], col = row % FV_GEMM_PANEL;
        if (row < 0 || row >= p->n) {
            fv_fault_raise(j->fault, row, p->n);
            memset(out, 0, (size_t)p->k * sizeof *out);
            continue;
        }
        const char *panel = fv_weight_panel(p->form, j->packed, p->k, row - col);
        const float *scales = fv_weight_scales(p->form, panel), scale = scales ? scales[col] : 1;
        for (int64_t k = 0; k < p->k; k++)
            out[k] = fv_weight_at(p->form, panel, k, col) * scale;
    }
}

static void gather_weights(const fv_exec *exec, void *const *ptr, const void *args)
{
    const gather_job j = {
        .args = args, .out = ptr[0], .packed = ptr[1], .index = ptr[2], .fault = exec->fault};
    fv_exec_rows(exec, j.args->count, j.args->k, gather_rows, &j);
}

void fv_weights_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_GATHER_WEIGHTS][FV_F32] = gather_weights;
}
