/*
 * The vector GEMM from the top: units over the threads; in a unit, blocks of k; in a block, B
 * packed (if it must be) and strips of six rows of A against each panel. A strip stays in L1
 * while the panels of the block come from L2.
 */
#include <string.h>

#include "kernels/level.h"
#include "kernels/pairs.h"
#include "kernels/simd/gemm_simd.h"
#include "kernels/weights.h"

enum { ROW_COLS = 1024 }; /* columns of a one-row product whose sums stay in L1 */

typedef struct job {
    const fv_gemm *g;
    fv_gemm_plan plan;
    float *c;
    const float *a, *b, *bias, *residual;
    float *scratch;
    bool few; /* units of a whole panel go to gemm_few.c */
} job;

/* One unit: its part of C and where its operands lie. */
typedef struct unit {
    fv_gemm_offsets at;
    int64_t row, rows, col, cols;
    float *a_block, *b_block, *sums; /* this thread's scratch */
} unit;

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static bool has_epilogue(const job *j)
{
    return j->bias || j->residual || j->g->act || j->g->b_form == FV_WEIGHT_I8;
}

/* What happens to sums from column `col` of row `row` of a unit on. */
static fv_finish finish_at(const job *j, const unit *u, int64_t row, int64_t col)
{
    const fv_gemm *g = j->g;
    fv_finish f = {.act = g->act, .residual_row = g->residual_row};
    const int64_t at = u->col + col;
    if (g->b_form == FV_WEIGHT_I8)
        f.scale = fv_weight_scales(g->b_form, fv_weight_panel(g->b_form, j->b, g->k, at)) +
                  at % FV_GEMM_PANEL;
    if (j->bias) f.bias = j->bias + at;
    if (j->residual)
        f.residual = j->residual + u->at.residual + (u->row + row) * g->residual_row + at;
    return f;
}

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

/* B as the tiles of one block read it: tile t starts at base + t * step, rows `row` apart. */
typedef struct b_view {
    const float *base;
    int64_t row, step;
} b_view;

static b_view packed_view(const unit *u, int64_t depth)
{
    return (b_view){u->b_block, FV_TILE_COLS, depth * FV_TILE_COLS};
}

/* Rows of a strip when `rows` are shared out evenly: a thin last strip would wait for B. */
static int64_t even_strip(int64_t rows)
{
    const int64_t strips = (rows + FV_GEMM_STRIP - 1) / FV_GEMM_STRIP;
    return strips ? (rows + strips - 1) / strips : 0;
}

/* A level with wide tiles lets a thin strip come first, while B is not in its own panels yet. */
static int64_t first_strip(const job *j, const unit *u)
{
    const int64_t before_last = (u->rows + FV_GEMM_STRIP - 1) % FV_GEMM_STRIP; /* in its strip */
    if (j->plan.a_rows || (j->plan.pack_b && j->g->b_col != 1)) return FV_GEMM_STRIP;
    if (before_last < FV_WIDE_ROWS) return smaller(FV_WIDE_ROWS, u->rows);
    return j->plan.pack_b ? FV_GEMM_STRIP : even_strip(u->rows);
}

/* Columns that the first strip packs while it computes; the rest is packed beforehand. */
static int64_t packed_on_the_way(const job *j, const unit *u)
{
    if (!j->plan.pack_b || j->g->b_col != 1 || u->rows < FV_GEMM_STRIP) return 0;
    const int64_t width = first_strip(j, u) <= FV_WIDE_ROWS ? FV_WIDE_COLS : FV_TILE_COLS;
    return u->cols / width * width;
}

/* B for the first strip of a block. */
static b_view prepare_b(const job *j, const unit *u, int64_t k0, int64_t depth)
{
    const fv_gemm *g = j->g;
    if (g->k == 0) return (b_view){j->c, 0, 0};
    if (g->b_form != FV_WEIGHT_F32) {
        for (int64_t col = 0; col < u->cols; col += FV_GEMM_PANEL)
            fv_gemm_widen(g->b_form, fv_weight_panel(g->b_form, j->b, g->k, u->col + col), k0,
                          depth, u->b_block + col * depth);
        return packed_view(u, depth);
    }
    const float *b = j->b + u->at.b;
    if (g->b_packed) return (b_view){b + u->col * g->k + k0 * FV_GEMM_PANEL, FV_GEMM_PANEL, 0};
    b += k0 * g->b_row + u->col * g->b_col;
    if (!j->plan.pack_b) return (b_view){b, g->b_row, FV_TILE_COLS};
    const int64_t later = packed_on_the_way(j, u);
    if (later < u->cols)
        fv_gemm_pack_b(depth, u->cols - later, b + later * g->b_col, g->b_row, g->b_col,
                       FV_TILE_COLS, u->b_block + later * depth);
    return later ? (b_view){b, g->b_row, FV_TILE_COLS} : packed_view(u, depth);
}

/* A level with narrower tiles walks through the slices of a panel of packed weights. */
static const float *b_tile(const job *j, const b_view *view, int64_t col)
{
    if (j->g->b_packed && !j->plan.pack_b)
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

/* A strip in hand: six rows of the unit (or fewer) and how they meet B. */
typedef struct strip {
    int64_t row;
    int rows;
    bool first_k, last_k;
    int64_t pack_cols; /* columns of B to pack on the way */
    bool stream;       /* B is not in L1: met for the first time, or too wide for it */
    bool wide;         /* wide tiles wherever they fit */
} strip;

static bool is_wide(const unit *u, const strip *s, int64_t col)
{
    return s->wide && (s->pack_cols ? col < s->pack_cols : u->cols - col >= FV_WIDE_COLS);
}

static void run_tile(const unit *u, const strip *s, fv_tile *t, const b_view *packed, int64_t col,
                     int cols)
{
    const bool pack = col < s->pack_cols;
    if (pack) t->packed = u->b_block + col / FV_TILE_COLS * packed->step;
#if FV_SIMD_LEVEL == 2
    if (is_wide(u, s, col)) {
        (pack ? fv_gemm_wide_pack : s->stream ? fv_gemm_wide_stream : fv_gemm_wide)(t, s->rows);
        return;
    }
#endif
    if (pack)
        fv_gemm_tile_pack(t);
    else if (s->stream && cols == FV_TILE_COLS)
        fv_gemm_tile_stream(t, s->rows);
    else
        fv_gemm_tile(t, s->rows, cols);
}

/* A strip against every panel of the block. */
static void run_strip(const job *j, const unit *u, const strip *s, const b_view *b,
                      const b_view *packed, fv_tile *t)
{
    const fv_gemm *g = j->g;
    const sum_view sums = waiting_sums(j, u);
    float *c = j->c + u->at.c + (u->row + s->row) * g->c_row + u->col;
    const bool finish = s->last_k && has_epilogue(j);
    _Alignas(64) float buffer[FV_GEMM_STRIP * FV_TILE_COLS];
    int cols;
    for (int64_t col = 0; col < u->cols; col += cols) {
        const int width = is_wide(u, s, col) ? FV_WIDE_COLS : FV_TILE_COLS;
        cols = (int)smaller(width, u->cols - col);
        float *waiting = sums.base + s->row * sums.row + col;
        const b_view *view = s->pack_cols && col >= s->pack_cols ? packed : b;
        t->b = b_tile(j, view, col);
        t->b_row = view->row;
        t->from = s->first_k && !g->accumulate ? NULL : waiting;
        t->from_row = sums.row;
        t->c = finish ? buffer : waiting;
        t->c_row = finish ? width : sums.row;
        run_tile(u, s, t, packed, col, cols);
        if (!finish) continue;
        const fv_finish f = finish_at(j, u, s->row, col);
        fv_gemm_finish(&f, buffer, width, c + col, g->c_row, s->rows, cols);
    }
}

static void block(const job *j, const unit *u, int64_t k0, int64_t depth)
{
    const fv_gemm *g = j->g;
    b_view b = prepare_b(j, u, k0, depth);
    const b_view packed = packed_view(u, depth);
    const float *a = j->a + u->at.a + u->row * g->a_row + k0 * g->a_col;
    const int64_t a_rows = j->plan.a_rows;
    fv_tile t = {.k = depth, .a_row = g->a_row, .a_col = g->a_col};
    strip s = {.first_k = k0 == 0,
               .last_k = k0 + depth == g->k,
               .pack_cols = packed_on_the_way(j, u),
               .stream = !j->plan.pack_b};
    int64_t step = first_strip(j, u);
    for (; s.row < u->rows; s.row += s.rows) {
        s.rows = (int)smaller(step, u->rows - s.row);
        s.wide = s.rows <= FV_WIDE_ROWS && (s.pack_cols || !j->plan.pack_b);
        if (a_rows) {
            if (s.row % a_rows == 0)
                fv_gemm_pack_a(smaller(a_rows, u->rows - s.row), depth, a + s.row * g->a_row,
                               g->a_row, g->a_col, u->a_block);
            t.a = u->a_block + s.row % a_rows * depth;
            t.a_row = 1;
            t.a_col = FV_GEMM_STRIP;
        } else {
            t.a = a + s.row * g->a_row;
        }
        run_strip(j, u, &s, &b, &packed, &t);
        if (s.pack_cols) b = packed;
        s.pack_cols = 0;
        if (s.row == 0 && !a_rows) step = even_strip(u->rows - s.rows);
        s.stream = s.stream && FV_SIMD_LEVEL == 2;
    }
}

/* A single row: ROW_COLS columns at a time. */
static void row_unit(const job *j, const unit *u)
{
    const fv_gemm *g = j->g;
    _Alignas(64) float sums[ROW_COLS];
    const float *a = j->a + u->at.a;
    for (int64_t done = 0; done < u->cols; done += ROW_COLS) {
        const int64_t cols = smaller(ROW_COLS, u->cols - done), col = u->col + done;
        const float *b = j->b + u->at.b + col * (g->b_packed ? g->k : g->b_col);
        float *c = j->c + u->at.c + col;
        memset(sums, 0, sizeof sums);
        if (g->accumulate) memcpy(sums, c, (size_t)cols * sizeof *c);
        if (g->b_packed)
            for (int64_t p = 0; p < cols; p += FV_GEMM_PANEL)
                fv_gemm_row_by_panel(g->k, a, g->a_col, b + p * g->k, sums + p);
        else
            fv_gemm_row_by_matrix(g->k, cols, a, g->a_col, b, g->b_row, sums);
        const fv_finish f = finish_at(j, u, 0, done);
        fv_gemm_finish(&f, sums, ROW_COLS, c, cols, 1, cols);
    }
}

/* Up to a strip of rows against weights of few bits, a panel at a time. */
static void low_unit(const job *j, const unit *u)
{
    const fv_gemm *g = j->g;
    _Alignas(64) float sums[FV_GEMM_STRIP * FV_GEMM_PANEL];
    fv_low_rows t = {.k = g->k, .a = j->a, .a_row = g->a_row, .a_col = g->a_col, .sum = sums};
    for (int64_t col = 0; col < u->cols; col += FV_GEMM_PANEL) {
        t.panel = fv_weight_panel(g->b_form, j->b, g->k, u->col + col);
        fv_gemm_low_rows(&t, g->b_form, (int)u->rows);
        const fv_finish f = finish_at(j, u, 0, col);
        fv_gemm_finish(&f, sums, FV_GEMM_PANEL, j->c + u->col + col, g->c_row, u->rows,
                       smaller(FV_GEMM_PANEL, u->cols - col));
    }
}

#if FV_SIMD_LEVEL == 2
/* Whether gemm_few.c is the better way. A single strip reads B once; more rows than ten make up for
 * reading it a line at a time, as long as the caches hold those lines until the next strip: lines
 * of a long k are too many, and lines far apart push each other out. Packed weights lie together.
 */
static bool is_few(const job *j)
{
    enum { FEW_ROWS = 10, LONG_K = 1024, IN_L1 = 8 * 1024 };
    const fv_gemm *g = j->g;
    if (j->plan.one_row || j->plan.a_rows || g->k == 0) return false;
    const bool strips = g->m > FV_GEMM_STRIP, few = strips && g->m <= FEW_ROWS;
    if (g->b_packed) return few && g->b_form == FV_WEIGHT_F32;
    if (g->b_col != 1 || g->k * g->n <= IN_L1 || g->m > FV_DIRECT_ROWS) return false;
    return few || (strips && g->k >= LONG_K) || fv_rows_collide(g->b_row);
}

/* A panel of B; the last one of packed weights is padded, others must be whole. */
static bool few_unit(const job *j, const unit *u)
{
    const fv_gemm *g = j->g;
    if (u->cols < FV_GEMM_PANEL && !g->b_packed) return false;
    const float *b = j->b + u->at.b + u->col * (g->b_packed ? g->k : 1);
    fv_gemm_few(&(fv_few){.rows = u->rows,
                          .cols = u->cols,
                          .k = g->k,
                          .a = j->a + u->at.a + u->row * g->a_row,
                          .a_row = g->a_row,
                          .a_col = g->a_col,
                          .b = b,
                          .b_row = g->b_packed ? FV_GEMM_PANEL : g->b_row,
                          .copy = j->plan.pack_b ? u->b_block : NULL,
                          .next = b + FV_GEMM_PANEL * (g->b_packed ? g->k : 1),
                          .c = j->c + u->at.c + u->row * g->c_row + u->col,
                          .c_row = g->c_row,
                          .accumulate = g->accumulate,
                          .finish = finish_at(j, u, 0, 0)});
    return true;
}
#else
static bool is_few(const job *j)
{
    (void)j;
    return false;
}
static bool few_unit(const job *j, const unit *u)
{
    (void)j;
    (void)u;
    return false;
}
#endif

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
        if (j->plan.few_rows) {
            low_unit(j, &u);
            continue;
        }
        if (j->few && few_unit(j, &u)) continue;
        int64_t k0 = 0;
        do {
            const int64_t depth = smaller(j->plan.depth, k - k0);
            block(j, &u, k0, depth);
            k0 += depth;
        } while (k0 < k);
    }
}

void fv_simd_gemm(const fv_exec *exec, void *const *ptr, const void *args)
{
    fv_gemm g = *(const fv_gemm *)args;
    if (g.bf16) {
#if FV_SIMD_LEVEL == 3
        (fv_bf16_usable() ? fv_simd_gemm_bf16 : fv_simd_gemm_pairs)(exec, ptr, args);
#else
        fv_simd_gemm_pairs(exec, ptr, args);
#endif
        return;
    }
    if (g.b_packed) g.b_row = g.b_col = 0; /* mean nothing, and must not be taken for contiguous */
    job j = {.g = &g,
             .c = ptr[0],
             .a = ptr[1],
             .b = ptr[2],
             .bias = ptr[3],
             .residual = ptr[4],
             .scratch = exec->scratch};
    /* Never read, and may be NULL, which has no neighbours. */
    if (g.k == 0 && g.b_form == FV_WEIGHT_F32) j.b = j.c;
    if (g.k == 0) j.a = j.c;
    fv_gemm_make_plan(&g, exec->threads, &j.plan);
    if (j.plan.units <= 0) return;
    j.few = is_few(&j);
    if (j.few) {
        j.plan.panels = 1;
        j.plan.column_units = (g.n + FV_GEMM_PANEL - 1) / FV_GEMM_PANEL;
        j.plan.units = g.batch * j.plan.row_units * j.plan.column_units;
    } else if (g.b_col == 1 && g.m <= FV_DIRECT_ROWS && !fv_rows_collide(g.b_row)) {
        j.plan.pack_b = false;
    }
    if (j.plan.serial)
        units(&j, 0, j.plan.units, 0);
    else
        exec->parallel(exec->user, j.plan.units, 1, units, &j);
}

void fv_simd_gemm_fill(fv_kernel_table *t)
{
    t->fn[FV_KERNEL_GEMM][FV_F32] = fv_simd_gemm;
    t->fn[FV_KERNEL_PACK][FV_F32] = fv_simd_pack;
    t->scratch[FV_KERNEL_GEMM] = fv_gemm_scratch_query;
}
