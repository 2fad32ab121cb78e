/*
 * The vector GEMM from the top: units over the threads; in a unit, blocks of k; in a block, B
 * packed (if it must be) and strips of six rows of A against each panel. A strip stays in L1
 * while the panels of the block come from L2.
 */
#include "kernels/simd/gemm_simd.h"

enum { ROW_COLS = 1024 }; /* columns of a one-row product whose sums stay in L1 */

typedef struct job {
    const fv_gemm *g;
    fv_gemm_plan plan;
    float *c;
    const float *a, *b, *bias, *residual;
    float *scratch;
} job;

/* One unit: its part of C and where its operands lie. */
typedef struct unit {
    fv_gemm_offsets at;
    int64_t row, rows, col, cols;
    float *a_block, *b_block, *sums; /* this thread's scratch */
} unit;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static bool has_epilogue(const job *j) { return j->bias || j->residual || j->g->act; }

static unit locate(const job *j, int64_t index, int thread)
{
    const fv_gemm_plan *p = &j->plan;
    unit u;
    const int64_t row_unit = index % p->row_units, rest = index / p->row_units;
    u.row = row_unit * p->rows;
    u.rows = smaller(p->rows, j->g->m - u.row);
    u.col = rest % p->column_units * p->panels * FV_GEMM_PANEL;
    u.cols = smaller(p->panels * FV_GEMM_PANEL, j->g->n - u.col);
    u.at = fv_gemm_locate(j->g, rest / p->column_units);
    u.a_block = NULL;
    u.b_block = NULL;
    u.sums = NULL;
    const int64_t floats = p->a_floats + p->b_floats + p->sum_floats;
    if (floats > 0) {
        u.a_block = j->scratch + thread * floats;
        u.b_block = u.a_block + p->a_floats;
        u.sums = u.b_block + p->b_floats;
    }
    return u;
}

/* B as the tiles of one block read it: tile t starts at base + t * step. */
typedef struct b_view {
    const float *base;
    int64_t row, step;
} b_view;

static b_view prepare_b(const job *j, const unit *u, int64_t k0, int64_t depth)
{
    const fv_gemm *g = j->g;
    const float *b = j->b + u->at.b;
    if (g->b_packed) {
        /* A level with narrower tiles walks through the slices of each panel. */
        return (b_view){b + u->col * g->k + k0 * FV_GEMM_PANEL, FV_GEMM_PANEL, 0};
    }
    b += k0 * g->b_row + u->col * g->b_col;
    if (!j->plan.pack_b) return (b_view){b, g->b_row, FV_TILE_COLS};
    FV_GEMM_NAME(pack_b)(depth, u->cols, b, g->b_row, g->b_col, FV_TILE_COLS, u->b_block);
    return (b_view){u->b_block, FV_TILE_COLS, depth * FV_TILE_COLS};
}

static const float *b_tile(const job *j, const b_view *view, int64_t col)
{
    if (j->g->b_packed)
        return view->base + col / FV_GEMM_PANEL * FV_GEMM_PANEL * j->g->k + col % FV_GEMM_PANEL;
    return view->base + col / FV_TILE_COLS * view->step;
}

/* Where sums wait between blocks of k: in C, unless C holds the residual that is still needed. */
typedef struct sum_view {
    float *base;
    int64_t row;
} sum_view;

static sum_view waiting_sums(const job *j, const unit *u)
{
    if (j->residual && j->plan.depth < j->g->k)
        return (sum_view){u->sums, j->plan.panels * FV_GEMM_PANEL};
    return (sum_view){j->c + u->at.c + u->row * j->g->c_row + u->col, j->g->c_row};
}

/* Six rows (or the last few) against every panel of the block. */
static void strip(const job *j, const unit *u, const b_view *b, fv_tile *t, int64_t row, int rows,
                  bool first, bool last)
{
    const fv_gemm *g = j->g;
    const sum_view sums = waiting_sums(j, u);
    float *c = j->c + u->at.c + (u->row + row) * g->c_row + u->col;
    const bool finish = last && has_epilogue(j);
    _Alignas(64) float buffer[FV_GEMM_STRIP * FV_TILE_COLS];
    for (int64_t col = 0; col < u->cols; col += FV_TILE_COLS) {
        const int cols = (int)smaller(FV_TILE_COLS, u->cols - col);
        float *waiting = sums.base + row * sums.row + col;
        t->b = b_tile(j, b, col);
        t->from = first && !g->accumulate ? NULL : waiting;
        t->from_row = sums.row;
        t->c = finish ? buffer : waiting;
        t->c_row = finish ? FV_TILE_COLS : sums.row;
        FV_GEMM_NAME(tile)(t, rows, cols);
        if (!finish) continue;
        const fv_finish f = {.act = g->act,
                             .bias = j->bias ? j->bias + u->col + col : NULL,
                             .residual = j->residual
                                             ? j->residual + u->at.residual +
                                                   (u->row + row) * g->residual_row + u->col + col
                                             : NULL,
                             .residual_row = g->residual_row};
        FV_GEMM_NAME(finish)(&f, buffer, FV_TILE_COLS, c + col, g->c_row, rows, cols);
    }
}

static void block(const job *j, const unit *u, int64_t k0, int64_t depth)
{
    const fv_gemm *g = j->g;
    const bool first = k0 == 0, last = k0 + depth == g->k;
    const b_view b = prepare_b(j, u, k0, depth);
    const float *a = j->a + u->at.a + u->row * g->a_row + k0 * g->a_col;
    fv_tile t = {.k = depth, .a_row = g->a_row, .a_col = g->a_col, .b_row = b.row};
    const int64_t a_rows = j->plan.a_rows;
    for (int64_t row = 0; row < u->rows; row += FV_GEMM_STRIP) {
        const int rows = (int)smaller(FV_GEMM_STRIP, u->rows - row);
        if (a_rows) {
            if (row % a_rows == 0)
                FV_GEMM_NAME(pack_a)
                (smaller(a_rows, u->rows - row), depth, a + row * g->a_row, g->a_row, g->a_col,
                 u->a_block);
            t.a = u->a_block + row % a_rows * depth;
            t.a_row = 1;
            t.a_col = FV_GEMM_STRIP;
        } else {
            t.a = a + row * g->a_row;
        }
        strip(j, u, &b, &t, row, rows, first, last);
    }
}

/* A row times an unpacked matrix. */
static void row_unit(const job *j, const unit *u)
{
    const fv_gemm *g = j->g;
    _Alignas(64) float sums[ROW_COLS];
    const float *a = j->a + u->at.a;
    for (int64_t done = 0; done < u->cols; done += ROW_COLS) {
        const int64_t cols = smaller(ROW_COLS, u->cols - done), col = u->col + done;
        const float *b = j->b + u->at.b + col * g->b_col;
        float *c = j->c + u->at.c + col;
        for (int64_t i = 0; i < cols; i++)
            sums[i] = g->accumulate ? c[i] : 0;
        if (g->b_col == 1)
            FV_GEMM_NAME(row_by_matrix)(g->k, cols, a, g->a_col, b, g->b_row, sums);
        else
            FV_GEMM_NAME(row_by_transpose)(g->k, cols, a, g->a_col, b, g->b_col, sums);
        const fv_finish f = {.act = g->act,
                             .bias = j->bias ? j->bias + col : NULL,
                             .residual = j->residual ? j->residual + u->at.residual + col : NULL};
        FV_GEMM_NAME(finish)(&f, sums, ROW_COLS, c, cols, 1, cols);
    }
}

static void units(const void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    const int64_t k = j->g->k;
    for (int64_t i = begin; i < end; i++) {
        const unit u = locate(j, i, thread);
        if (j->plan.one_row) {
            row_unit(j, &u);
            continue;
        }
        int64_t k0 = 0;
        do {
            const int64_t depth = smaller(j->plan.depth, k - k0);
            block(j, &u, k0, depth);
            k0 += depth;
        } while (k0 < k);
    }
}

void FV_GEMM_NAME(gemm)(const fv_exec *exec, void *const *ptr, const void *args)
{
    const fv_gemm *g = args;
    job j = {.g = g,
             .c = ptr[0],
             .a = ptr[1],
             .b = ptr[2],
             .bias = ptr[3],
             .residual = ptr[4],
             .scratch = exec->scratch};
    fv_gemm_make_plan(g, exec->threads, &j.plan);
    if (j.plan.units <= 0) return;
    if (j.plan.serial)
        units(&j, 0, j.plan.units, 0);
    else
        exec->parallel(exec->user, j.plan.units, 1, units, &j);
}

void FV_GEMM_NAME(gemm_fill)(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_GEMM][FV_F32] = FV_GEMM_NAME(gemm);
    t->fn[FV_KERNEL_PACK][FV_F32] = FV_GEMM_NAME(pack);
    t->scratch[FV_KERNEL_GEMM] = fv_gemm_scratch_query;
}
