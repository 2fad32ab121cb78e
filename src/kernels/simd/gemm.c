/*
 * The driver of the SIMD GEMM. Work items are distributed over the threads. A work item splits k
 * into blocks; for each block it packs B if necessary, then multiplies row tiles (six rows of A) by
 * each panel. A row tile stays in L1 while the panels of the block come from L2.
 */
#include <string.h>

#include "kernels/gemm_bf16.h"
#include "kernels/level.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/weights.h"

enum { ROW_COLS = 1024 }; /* columns of a one-row product whose sums stay in L1 */

typedef struct job {
    const fv_gemm *g;
    fv_gemm_plan plan;
    float *c;
    const float *a, *b, *bias, *residual;
    float *aux; /* what g->aux says, or NULL */
    float *scratch;
    bool few_rows; /* work items of a whole panel use gemm_few_rows.c */
} job;

/* One work item: its part of C and the offsets of its operands. */
typedef struct work_item {
    fv_gemm_offsets at;
    int64_t row, rows, col, cols;
    float *a_block, *b_block, *sums, *lanes; /* this thread's scratch */
} work_item;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static bool sums_rows(const job *j) { return j->g->aux == FV_GEMM_AUX_ROW_SUMS; }

static bool has_epilogue(const job *j)
{
    return j->bias || j->residual || j->g->act || j->g->b_form == FV_WEIGHT_I8 ||
           (j->aux && !sums_rows(j));
}

/* The epilogue for sums starting at row `row` and column `col` of a work item. */
static fv_epilogue epilogue_at(const job *j, const work_item *item, int64_t row, int64_t col)
{
    const fv_gemm *g = j->g;
    fv_epilogue f = {.act = g->act, .residual_row = g->residual_row};
    const int64_t at = item->col + col;
    if (g->b_form == FV_WEIGHT_I8)
        f.scale = fv_weight_scales(g->b_form, fv_weight_panel(g->b_form, j->b, g->k, at)) +
                  at % FV_GEMM_PANEL;
    if (j->bias) f.bias = j->bias + at;
    if (j->residual)
        f.residual = j->residual + item->at.residual + (item->row + row) * g->residual_row + at;
    if (j->aux) fv_epilogue_set_aux(&f, g, j->aux + item->at.c, item->row + row, at);
    return f;
}

static work_item locate(const job *j, int64_t index, int thread)
{
    const fv_gemm_plan *p = &j->plan;
    work_item item;
    const int64_t row_item = index % p->row_items, rest = index / p->row_items;
    item.row = row_item * p->rows;
    item.rows = smaller(p->rows, j->g->m - item.row);
    item.col = rest % p->column_items * p->panels * FV_GEMM_PANEL;
    item.cols = smaller(p->panels * FV_GEMM_PANEL, j->g->n - item.col);
    item.at = fv_gemm_locate(j->g, rest / p->column_items);
    item.a_block = NULL;
    item.b_block = NULL;
    item.sums = NULL;
    item.lanes = NULL;
    const int64_t floats = p->a_floats + p->b_floats + p->sum_floats + p->lane_floats;
    if (floats > 0) {
        item.a_block = j->scratch + thread * floats;
        item.b_block = item.a_block + p->a_floats;
        item.sums = item.b_block + p->b_floats;
        item.lanes = item.sums + p->sum_floats;
    }
    return item;
}

/* Adds a block of k to the sums of rows [row, row + rows) of a work item, where there are any. The
 * items of the first columns do it, right before they pack those rows: A is read from memory once.
 */
static void add_row_sums(const job *j, const work_item *item, int64_t row, int64_t rows, int64_t k0,
                         int64_t depth)
{
    const fv_gemm *g = j->g;
    if (!sums_rows(j) || item->col > 0) return;
    const int64_t step = j->plan.lane_rows;
    for (int64_t end = row + rows; row < end; row += step) {
        const fv_row_sums s = {.rows = smaller(step, end - row),
                               .a = j->a + (item->row + row) * g->a_row,
                               .a_row = g->a_row,
                               .a_col = g->a_col,
                               .lanes = item->lanes + (depth < g->k ? FV_LANES * row : 0),
                               .out = j->aux + item->row + row};
        fv_gemm_add_row_sums(&s, k0, depth);
        if (k0 + depth == g->k) fv_gemm_join_row_sums(&s);
    }
}

/* B as the tiles of one block read it: tile t starts at base + t * step, with row stride `row`. */
typedef struct b_view {
    const float *base;
    int64_t row, step;
} b_view;

static b_view packed_view(const work_item *item, int64_t depth)
{
    return (b_view){item->b_block, FV_TILE_COLS, depth * FV_TILE_COLS};
}

/* Rows per tile if `rows` are divided evenly: a last tile with few rows would wait for B. */
static int64_t even_tile_rows(int64_t rows)
{
    const int64_t tiles = (rows + FV_GEMM_TILE_ROWS - 1) / FV_GEMM_TILE_ROWS;
    return tiles ? (rows + tiles - 1) / tiles : 0;
}

/* If the level has wide tiles, a tile with few rows comes first, while B is not packed yet. */
static int64_t first_tile_rows(const job *j, const work_item *item)
{
    const int64_t last_row = (item->rows + FV_GEMM_TILE_ROWS - 1) % FV_GEMM_TILE_ROWS;
    if (j->plan.a_rows || (j->plan.pack_b && j->g->b_col != 1)) return FV_GEMM_TILE_ROWS;
    if (last_row < FV_WIDE_ROWS) return smaller(FV_WIDE_ROWS, item->rows);
    return j->plan.pack_b ? FV_GEMM_TILE_ROWS : even_tile_rows(item->rows);
}

/* Columns that the first row tile packs while it computes; the rest is packed beforehand. */
static int64_t packed_while_computing(const job *j, const work_item *item)
{
    if (!j->plan.pack_b || j->g->b_col != 1 || item->rows < FV_GEMM_TILE_ROWS) return 0;
    const int64_t width = first_tile_rows(j, item) <= FV_WIDE_ROWS ? FV_WIDE_COLS : FV_TILE_COLS;
    return item->cols / width * width;
}

/* B for the first row tile of a block. */
static b_view prepare_b(const job *j, const work_item *item, int64_t k0, int64_t depth)
{
    const fv_gemm *g = j->g;
    if (g->k == 0) return (b_view){j->c, 0, 0};
    if (g->b_form != FV_WEIGHT_F32) {
        for (int64_t col = 0; col < item->cols; col += FV_GEMM_PANEL)
            fv_gemm_widen_panel(g->b_form, fv_weight_panel(g->b_form, j->b, g->k, item->col + col),
                                k0, depth, item->b_block + col * depth);
        return packed_view(item, depth);
    }
    const float *b = j->b + item->at.b;
    if (g->b_packed) return (b_view){b + item->col * g->k + k0 * FV_GEMM_PANEL, FV_GEMM_PANEL, 0};
    b += k0 * g->b_row + item->col * g->b_col;
    if (!j->plan.pack_b) return (b_view){b, g->b_row, FV_TILE_COLS};
    const int64_t later = packed_while_computing(j, item);
    if (later < item->cols)
        fv_gemm_pack_b(depth, item->cols - later, b + later * g->b_col, g->b_row, g->b_col,
                       FV_TILE_COLS, item->b_block + later * depth);
    return later ? (b_view){b, g->b_row, FV_TILE_COLS} : packed_view(item, depth);
}

/* A level with narrow tiles reads a packed panel in several slices. */
static const float *b_tile(const job *j, const b_view *view, int64_t col)
{
    if (j->g->b_packed && !j->plan.pack_b)
        return view->base + col / FV_GEMM_PANEL * FV_GEMM_PANEL * j->g->k + col % FV_GEMM_PANEL;
    return view->base + col / FV_TILE_COLS * view->step;
}

/* Where partial sums are kept between blocks of k: in C, unless C holds a residual still needed. */
typedef struct sum_view {
    float *base;
    int64_t row;
} sum_view;

static sum_view partial_sums(const job *j, const work_item *item)
{
    if (j->residual && j->plan.depth < j->g->k)
        return (sum_view){item->sums, j->plan.panels * FV_GEMM_PANEL};
    return (sum_view){j->c + item->at.c + item->row * j->g->c_row + item->col, j->g->c_row};
}

/* The current row tile: up to six rows of the work item, and how they read B. */
typedef struct row_tile {
    int64_t row;
    int rows;
    bool first_k, last_k;
    int64_t pack_cols; /* columns of B to pack while computing */
    bool stream;       /* B is not in L1: read for the first time, or too wide */
    bool wide;         /* use wide tiles where they fit */
} row_tile;

static bool is_wide(const work_item *item, const row_tile *r, int64_t col)
{
    return r->wide && (r->pack_cols ? col < r->pack_cols : item->cols - col >= FV_WIDE_COLS);
}

static void run_tile(const work_item *item, const row_tile *r, fv_tile *t, const b_view *packed,
                     int64_t col, int cols)
{
    const bool pack = col < r->pack_cols;
    if (pack) t->packed = item->b_block + col / FV_TILE_COLS * packed->step;
#if FV_SIMD_LEVEL != 3
    if (is_wide(item, r, col)) {
        (pack        ? fv_gemm_wide_tile_pack
         : r->stream ? fv_gemm_wide_tile_stream
                     : fv_gemm_wide_tile)(t, r->rows);
        return;
    }
#endif
    if (pack)
        fv_gemm_tile_pack(t);
    else if (r->stream && cols == FV_TILE_COLS)
        fv_gemm_tile_stream(t, r->rows);
    else
        fv_gemm_tile(t, r->rows, cols);
}

/* Multiplies a row tile by every panel of the block. */
static void run_row_tile(const job *j, const work_item *item, const row_tile *r, const b_view *b,
                         const b_view *packed, fv_tile *t)
{
    const fv_gemm *g = j->g;
    const sum_view sums = partial_sums(j, item);
    float *c = j->c + item->at.c + (item->row + r->row) * g->c_row + item->col;
    const bool finish = r->last_k && has_epilogue(j);
    _Alignas(64) float buffer[FV_GEMM_TILE_ROWS * FV_TILE_COLS];
    int cols;
    for (int64_t col = 0; col < item->cols; col += cols) {
        const int width = is_wide(item, r, col) ? FV_WIDE_COLS : FV_TILE_COLS;
        cols = (int)smaller(width, item->cols - col);
        float *partial = sums.base + r->row * sums.row + col;
        const b_view *view = r->pack_cols && col >= r->pack_cols ? packed : b;
        t->b = b_tile(j, view, col);
        t->b_row = view->row;
        t->from = r->first_k && !g->accumulate ? NULL : partial;
        t->from_row = sums.row;
        t->c = finish ? buffer : partial;
        t->c_row = finish ? width : sums.row;
        run_tile(item, r, t, packed, col, cols);
        if (!finish) continue;
        const fv_epilogue f = epilogue_at(j, item, r->row, col);
        fv_gemm_apply_epilogue(&f, buffer, width, c + col, g->c_row, r->rows, cols);
    }
}

static void block(const job *j, const work_item *item, int64_t k0, int64_t depth)
{
    const fv_gemm *g = j->g;
    b_view b = prepare_b(j, item, k0, depth);
    const b_view packed = packed_view(item, depth);
    const float *a = j->a + item->at.a + item->row * g->a_row + k0 * g->a_col;
    const int64_t a_rows = j->plan.a_rows;
    fv_tile t = {.k = depth, .a_row = g->a_row, .a_col = g->a_col};
    row_tile r = {.first_k = k0 == 0,
                  .last_k = k0 + depth == g->k,
                  .pack_cols = packed_while_computing(j, item),
                  .stream = !j->plan.pack_b};
    int64_t step = first_tile_rows(j, item);
    if (!a_rows) add_row_sums(j, item, 0, item->rows, k0, depth);
    for (; r.row < item->rows; r.row += r.rows) {
        r.rows = (int)smaller(step, item->rows - r.row);
        r.wide = r.rows <= FV_WIDE_ROWS && (r.pack_cols || !j->plan.pack_b);
        if (a_rows) {
            if (r.row % a_rows == 0) {
                const int64_t rows = smaller(a_rows, item->rows - r.row);
                add_row_sums(j, item, r.row, rows, k0, depth);
                fv_gemm_pack_a(rows, depth, a + r.row * g->a_row, g->a_row, g->a_col,
                               item->a_block);
            }
            t.a = item->a_block + r.row % a_rows * depth;
            t.a_row = 1;
            t.a_col = FV_GEMM_TILE_ROWS;
        } else {
            t.a = a + r.row * g->a_row;
        }
        run_row_tile(j, item, &r, &b, &packed, &t);
        if (r.pack_cols) b = packed;
        r.pack_cols = 0;
        if (r.row == 0 && !a_rows) step = even_tile_rows(item->rows - r.rows);
        r.stream = r.stream && FV_SIMD_LEVEL != 3;
    }
}

/* A single row: ROW_COLS columns at a time. */
static void row_item(const job *j, const work_item *item)
{
    const fv_gemm *g = j->g;
    _Alignas(64) float sums[ROW_COLS];
    const float *a = j->a + item->at.a;
    for (int64_t done = 0; done < item->cols; done += ROW_COLS) {
        const int64_t cols = smaller(ROW_COLS, item->cols - done), col = item->col + done;
        const float *b = j->b + item->at.b + col * (g->b_packed ? g->k : g->b_col);
        float *c = j->c + item->at.c + col;
        memset(sums, 0, sizeof sums);
        if (g->accumulate) memcpy(sums, c, (size_t)cols * sizeof *c);
        if (g->b_packed)
            for (int64_t p = 0; p < cols; p += FV_GEMM_PANEL)
                fv_gemm_row_by_panel(g->k, a, g->a_col, b + p * g->k, sums + p);
        else
            fv_gemm_row_by_matrix(g->k, cols, a, g->a_col, b, g->b_row, sums);
        const fv_epilogue f = epilogue_at(j, item, 0, done);
        fv_gemm_apply_epilogue(&f, sums, ROW_COLS, c, cols, 1, cols);
    }
}

/* At most one row tile times low-precision weights, a panel at a time. */
static void low_precision_item(const job *j, const work_item *item)
{
    const fv_gemm *g = j->g;
    _Alignas(64) float sums[FV_GEMM_TILE_ROWS * FV_GEMM_PANEL];
    fv_low_precision_rows t = {
        .k = g->k, .a = j->a, .a_row = g->a_row, .a_col = g->a_col, .sum = sums};
    for (int64_t col = 0; col < item->cols; col += FV_GEMM_PANEL) {
        t.panel = fv_weight_panel(g->b_form, j->b, g->k, item->col + col);
        fv_gemm_low_precision_rows(&t, g->b_form, (int)item->rows);
        const fv_epilogue f = epilogue_at(j, item, 0, col);
        fv_gemm_apply_epilogue(&f, sums, FV_GEMM_PANEL, j->c + item->col + col, g->c_row,
                               item->rows, smaller(FV_GEMM_PANEL, item->cols - col));
    }
}

#if FV_SIMD_LEVEL != 3
/* Whether to use gemm_few_rows.c. With one row tile, B is read only once anyway. More rows amortise
 * reading B one cache line at a time, provided the lines stay cached until the next row tile: with
 * a large k there are too many, and lines at a large power-of-two stride evict each other. Packed
 * weights are contiguous. */
static bool use_few_rows(const job *j)
{
    enum { FEW_ROWS = 10, LONG_K = 1024, IN_L1 = 8 * 1024 };
    const fv_gemm *g = j->g;
    if (j->plan.one_row || j->plan.a_rows || g->k == 0) return false;
    const bool several = g->m > FV_GEMM_TILE_ROWS, few = several && g->m <= FEW_ROWS;
    if (g->b_packed) return few && g->b_form == FV_WEIGHT_F32;
    if (g->b_col != 1 || g->k * g->n <= IN_L1 || g->m > FV_DIRECT_ROWS) return false;
    return few || (several && g->k >= LONG_K) || fv_rows_collide(g->b_row);
}

/* One panel of B. The last panel of packed weights is padded; other panels must be full. */
static bool few_rows_item(const job *j, const work_item *item)
{
    const fv_gemm *g = j->g;
    if (item->cols < FV_GEMM_PANEL && !g->b_packed) return false;
    const float *b = j->b + item->at.b + item->col * (g->b_packed ? g->k : 1);
    fv_gemm_few_rows(&(fv_few_rows){.rows = item->rows,
                                    .cols = item->cols,
                                    .k = g->k,
                                    .a = j->a + item->at.a + item->row * g->a_row,
                                    .a_row = g->a_row,
                                    .a_col = g->a_col,
                                    .b = b,
                                    .b_row = g->b_packed ? FV_GEMM_PANEL : g->b_row,
                                    .copy = j->plan.pack_b ? item->b_block : NULL,
                                    .next = b + FV_GEMM_PANEL * (g->b_packed ? g->k : 1),
                                    .c = j->c + item->at.c + item->row * g->c_row + item->col,
                                    .c_row = g->c_row,
                                    .accumulate = g->accumulate,
                                    .finish = epilogue_at(j, item, 0, 0)});
    return true;
}
#else
static bool use_few_rows(const job *j)
{
    (void)j;
    return false;
}
static bool few_rows_item(const job *j, const work_item *item)
{
    (void)j;
    (void)item;
    return false;
}
#endif

/* Computes an item of the paths that do not split k; false: it is none of those. */
static bool whole_k_item(const job *j, const work_item *item)
{
    if (j->plan.one_row) {
        row_item(j, item);
        return true;
    }
    if (j->plan.low_precision_rows) {
        low_precision_item(j, item);
        return true;
    }
    return j->few_rows && few_rows_item(j, item);
}

static void run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    const int64_t k = j->g->k;
    for (int64_t i = begin; i < end; i++) {
        const work_item item = locate(j, i, thread);
        if (whole_k_item(j, &item)) {
            add_row_sums(j, &item, 0, item.rows, 0, k);
            continue;
        }
        int64_t k0 = 0;
        do {
            const int64_t depth = smaller(j->plan.depth, k - k0);
            block(j, &item, k0, depth);
            k0 += depth;
        } while (k0 < k);
    }
}

void fv_simd_gemm(const fv_exec *exec, void *const *ptr, const void *args)
{
    fv_gemm g = *(const fv_gemm *)args;
    if (g.bf16) {
#if FV_SIMD_LEVEL == 3
        (fv_bf16_usable() ? fv_simd_gemm_bf16_dot : fv_simd_gemm_bf16_fma)(exec, ptr, args);
#else
        fv_simd_gemm_bf16_fma(exec, ptr, args);
#endif
        return;
    }
    if (g.b_packed) g.b_row = g.b_col = 0; /* unused, and must not look contiguous */
    job j = {.g = &g,
             .c = ptr[0],
             .a = ptr[1],
             .b = ptr[2],
             .bias = ptr[3],
             .residual = ptr[4],
             .aux = ptr[5],
             .scratch = exec->scratch};
    /* Never read, and may be NULL, to which no offset may be added. */
    if (g.k == 0 && g.b_form == FV_WEIGHT_F32) j.b = j.c;
    if (g.k == 0) j.a = j.c;
    fv_gemm_make_plan(&g, exec->threads, &j.plan);
    if (j.plan.items <= 0) return;
    j.few_rows = use_few_rows(&j);
    if (j.few_rows) {
        j.plan.panels = 1;
        j.plan.column_items = (g.n + FV_GEMM_PANEL - 1) / FV_GEMM_PANEL;
        j.plan.items = g.batch * j.plan.row_items * j.plan.column_items;
    } else if (g.b_col == 1 && g.m <= FV_DIRECT_ROWS && !fv_rows_collide(g.b_row)) {
        j.plan.pack_b = false;
    }
    if (j.plan.serial)
        run_items(&j, 0, j.plan.items, 0);
    else
        exec->parallel(exec->user, j.plan.items, 1, run_items, &j);
}

void fv_simd_gemm_register(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_GEMM][FV_F32] = fv_simd_gemm;
    t->fn[FV_KERNEL_PACK][FV_F32] = fv_simd_pack;
    t->scratch[FV_KERNEL_GEMM] = fv_gemm_scratch_query;
}
