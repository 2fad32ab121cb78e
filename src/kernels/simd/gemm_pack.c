/*
 * Packing of A and B into the order in which the tile reads them, and of weights into panels once
 * for all calls. Blocks of a few k keep the lines read and the lines written in L1.
 */
#include "kernels/simd/gemm_simd.h"
#include "kernels/simd/transpose.h"
#include "kernels/weights.h"

enum { K_STEP = 16 };

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void pack_any(int64_t k, int64_t cols, const float *b, int64_t b_row, int64_t b_col,
                     int width, int64_t out_row, float *out)
{
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < width; j++)
            out[i * out_row + j] = j < cols ? b[i * b_row + j * b_col] : 0;
}

/* Row-major B: `width` columns, whole vectors. */
static void pack_rows(int64_t k, const float *b, int64_t b_row, int width, int64_t out_row,
                      float *out)
{
    for (int64_t i = 0; i < k; i++)
        for (int j = 0; j < width; j += FV_VEC)
            fv_vec_store(out + i * out_row + j, fv_vec_load(b + i * b_row + j));
}

/* Column-major B: k is a multiple of 4, width of FV_TRANSPOSE_ROWS. */
static void pack_columns(int64_t k, const float *b, int64_t b_col, int width, int64_t out_row,
                         float *out)
{
    for (int j = 0; j < width; j += FV_TRANSPOSE_ROWS)
        for (int64_t i = 0; i < k; i += 4) {
            fv_column t[4];
            fv_transpose_floats(b + j * b_col + i, b_col, t);
            for (int r = 0; r < 4; r++)
                fv_column_store(out + (i + r) * out_row + j, t[r]);
        }
}

/* A few rows of one panel. */
static void pack_block(int64_t k, int64_t cols, const float *b, int64_t b_row, int64_t b_col,
                       int width, int64_t out_row, float *out)
{
    if (cols == width && b_col == 1) {
        pack_rows(k, b, b_row, width, out_row, out);
    } else if (b_row == 1) {
        const int64_t whole = k & ~(int64_t)3;
        const int wide = (int)cols & ~(FV_TRANSPOSE_ROWS - 1);
        pack_columns(whole, b, b_col, wide, out_row, out);
        if (wide < width)
            pack_any(whole, cols - wide, b + wide * b_col, b_row, b_col, width - wide, out_row,
                     out + wide);
        pack_any(k - whole, cols, b + whole, b_row, b_col, width, out_row, out + whole * out_row);
    } else {
        pack_any(k, cols, b, b_row, b_col, width, out_row, out);
    }
}

void fv_gemm_pack_b(int64_t k, int64_t cols, const float *b, int64_t b_row, int64_t b_col,
                    int width, float *out)
{
    for (int64_t i = 0; i < k; i += K_STEP)
        for (int64_t j = 0; j < cols; j += width)
            pack_block(smaller(K_STEP, k - i), smaller(width, cols - j), b + i * b_row + j * b_col,
                       b_row, b_col, width, width, out + j * k + i * width);
}

void fv_gemm_pack_slices(int64_t k, int64_t cols, const float *b, int64_t b_row, int64_t b_col,
                         int slices, int64_t apart, int width, float *out)
{
    const int64_t out_row = (int64_t)slices * width;
    for (int64_t i = 0; i < k; i += K_STEP)
        for (int s = 0; s < slices; s++)
            pack_block(smaller(K_STEP, k - i), cols, b + i * b_row + s * apart * b_col, b_row,
                       b_col, width, out_row, out + i * out_row + s * width);
}

/* Six floats in two moves: one column of a row tile, if A is column-major. */
static void copy_row_tile(int64_t k, const float *a, int64_t a_col, float *out)
{
    for (int64_t i = 0; i < k; i++) {
#if FV_SIMD_LEVEL == 1
        const float32x4_t four = vld1q_f32(a + i * a_col);
        const float32x2_t two = vld1_f32(a + i * a_col + 4);
        vst1q_f32(out + i * FV_GEMM_TILE_ROWS, four);
        vst1_f32(out + i * FV_GEMM_TILE_ROWS + 4, two);
#else
        const __m128 four = _mm_loadu_ps(a + i * a_col);
        const __m128i two = _mm_loadl_epi64((const void *)(a + i * a_col + 4));
        _mm_storeu_ps(out + i * FV_GEMM_TILE_ROWS, four);
        _mm_storel_epi64((void *)(out + i * FV_GEMM_TILE_ROWS + 4), two);
#endif
    }
}

/* The columns of a column-major A are far apart: the hardware prefetcher does not follow them. */
static void fetch_columns(int64_t rows, int64_t k, const float *a, int64_t a_col)
{
    for (int64_t i = 0; i < k; i++)
        for (int64_t row = 0; row < rows + FV_LINE; row += FV_LINE)
            fv_prefetch_l1(a + i * a_col + smaller(row, rows - 1));
}

void fv_gemm_pack_a(int64_t rows, int64_t k, const float *a, int64_t a_row, int64_t a_col,
                    float *out)
{
    for (int64_t i = 0; i < k; i += K_STEP) {
        const int64_t depth = smaller(K_STEP, k - i), next = i + K_STEP;
        if (a_row == 1 && next < k)
            fetch_columns(rows, smaller(K_STEP, k - next), a + next * a_col, a_col);
        for (int64_t row = 0; row < rows; row += FV_GEMM_TILE_ROWS) {
            const int64_t height = smaller(FV_GEMM_TILE_ROWS, rows - row);
            const float *from = a + row * a_row + i * a_col;
            float *to = out + row * k + i * FV_GEMM_TILE_ROWS;
            if (a_row == 1 && height == FV_GEMM_TILE_ROWS) {
                copy_row_tile(depth, from, a_col, to);
                continue;
            }
            for (int64_t r = 0; r < height; r++)
                for (int64_t d = 0; d < depth; d++)
                    to[d * FV_GEMM_TILE_ROWS + r] = from[r * a_row + d * a_col];
        }
    }
}

typedef struct pack_job {
    const fv_gemm_pack_args *args;
    float *packed;
    const float *b;
} pack_job;

static void pack_panels(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const pack_job *j = arg;
    const fv_gemm_pack_args *p = j->args;
    const int64_t first = begin * FV_GEMM_PANEL;
    fv_gemm_pack_b(p->k, smaller(end * FV_GEMM_PANEL, p->n) - first, j->b + first * p->b_col,
                   p->b_row, p->b_col, FV_GEMM_PANEL, j->packed + first * p->k);
}

void fv_simd_pack(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_gemm_pack_args *p = args;
    if (p->form != FV_WEIGHT_F32) {
        fv_weight_convert(exec, ptr, p);
        return;
    }
    pack_job j = {.args = p, .packed = ptr[0], .b = ptr[1]};
    fv_exec_rows(exec, (p->n + FV_GEMM_PANEL - 1) / FV_GEMM_PANEL, p->k * FV_GEMM_PANEL,
                 pack_panels, &j);
}
