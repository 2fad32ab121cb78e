/*
 * The driver of the bf16 product (kernels/gemm_bf16.h): bf16_gemm. The including file defines how
 * pairs are multiplied, with vectors (bf16_tile.h) or AMX tiles (gemm_bf16_tiles.h), and rounded:
 *
 *     enum { BF16_TILE_ROWS, BF16_TILE_COLS };            // the part of C in registers
 *     enum { BF16_STEP };                                 // pairs that are multiplied at once
 *     enum { BF16_WORDS };       // words of a packed pair: 1, or 2 for floats, the second first
 *     bf16_tile, bf16_tile_run(t, rows)
 *     bf16_state, bf16_state_begin(s), bf16_state_end(s)  // of a thread at work
 *     bf16_place_lines(..), bf16_placed_strides(..)       // column-major A
 *     v_words bf16_round(vf x)                            // sixteen floats as bf16
 *     and what few rows times packed weights need         // gemm_bf16_few.h
 */
#ifndef FV_KERNELS_SIMD_GEMM_BF16_H
#define FV_KERNELS_SIMD_GEMM_BF16_H

#include "kernels/simd/gemm_bf16_pack.h"

#include "kernels/simd/gemm_bf16_few.h"

/* ---- row tiles ------------------------------------------------------------------------- */

static bool bf16_sums_rows(const bf16_job *j) { return j->g->aux == FV_GEMM_AUX_ROW_SUMS; }

static bool bf16_has_epilogue(const bf16_job *j)
{
    return j->bias || j->residual || j->g->act || j->g->b_form == FV_WEIGHT_I8 || j->c_half ||
           (j->aux && !bf16_sums_rows(j));
}

/* Factors for the sums from column `col` of C on; NULL: none. */
static const float *bf16_scales(const bf16_job *j, int64_t col)
{
    const fv_gemm *g = j->g;
    if (g->b_form != FV_WEIGHT_I8) return NULL;
    return fv_weight_scales(g->b_form, fv_weight_panel(g->b_form, j->b, g->k, col)) +
           col % FV_GEMM_PANEL;
}

/* The epilogue for sums starting at row `row` and column `col` of a work item. */
static fv_epilogue bf16_epilogue_at(const bf16_job *j, const bf16_item *item, int64_t row,
                                    int64_t col)
{
    const fv_gemm *g = j->g;
    const int64_t r = item->row + row, c = item->col + col;
    fv_epilogue f = {.act = g->act, .scale = bf16_scales(j, c), .residual_row = g->residual_row};
    if (j->bias) f.bias = j->bias + c;
    if (j->residual) f.residual = (const float *)j->residual + r * g->residual_row + c;
    if (j->aux) fv_epilogue_set_aux(&f, g, j->aux, r, c);
    return f;
}

/* Adds a block of k to the sums of `rows` rows of A, before they are rounded and packed. */
static void bf16_add_row_sums(const bf16_job *j, const bf16_item *item, int64_t row, int64_t rows)
{
    const fv_gemm *g = j->g;
    if (!bf16_sums_rows(j) || item->col > 0) return;
    const fv_row_sums s = {.rows = rows,
                           .a = bf16_at(j->a, j->a_half, (item->row + row) * g->a_row),
                           .bf16 = j->a_half,
                           .a_row = g->a_row,
                           .a_col = g->a_col,
                           .lanes = item->lanes + (item->numbers < g->k ? FV_LANES * row : 0),
                           .out = (float *)j->aux + item->row + row};
    fv_gemm_add_row_sums(&s, item->k, item->numbers);
    if (item->k + item->numbers == g->k) fv_gemm_join_row_sums(&s);
}

/* Where partial sums are kept between blocks of k: in C, unless C is bf16 or holds a residual still
 * needed. Without blocks there are none. */
typedef struct bf16_sums {
    float *base;
    int64_t row;
} bf16_sums;

static bf16_sums bf16_partial_sums(const bf16_job *j, const bf16_item *item)
{
    if ((j->residual || j->c_half) && j->plan.depth < j->plan.pairs)
        return (bf16_sums){item->sums, j->plan.panels * FV_GEMM_PANEL};
    if (j->c_half) return (bf16_sums){NULL, 0};
    return (bf16_sums){(float *)j->c + item->row * j->g->c_row + item->col, j->g->c_row};
}

/* Copies the columns of an incomplete tile between C and a buffer. */
static void bf16_copy(const float *from, int64_t from_row, float *to, int64_t to_row, int rows,
                      int64_t cols)
{
    for (int i = 0; i < rows; i++)
        memcpy(to + i * to_row, from + i * from_row, (size_t)cols * sizeof *to);
}

/* Elements of a row of C, and back. */
static void bf16_widen_rows(const uint16_t *from, int64_t from_row, float *to, int rows,
                            int64_t cols)
{
    for (int row = 0; row < rows; row++)
        V_LOOP(cols, 0,
               v_store(to + row * BF16_TILE_COLS + i, count,
                       v_load_half(FV_BF16, from + row * from_row + i, count)));
}

static void bf16_narrow_rows(const float *from, uint16_t *to, int64_t to_row, int rows,
                             int64_t cols)
{
    for (int row = 0; row < rows; row++)
        V_LOOP(cols, 0,
               v_store_half(FV_BF16, to + row * to_row + i, count,
                            v_load(from + row * BF16_TILE_COLS + i, count)));
}

/* The epilogue of a tile of a bf16 C, at row `row` and column `col` of C. */
static void bf16_store_half(const bf16_job *j, int64_t row, int64_t col, float *sums, int rows,
                            int64_t cols)
{
    const fv_gemm *g = j->g;
    _Alignas(64) float more[BF16_TILE_ROWS * BF16_TILE_COLS];
    _Alignas(64) float aux[BF16_TILE_ROWS * BF16_TILE_COLS];
    const bool has_aux = j->aux && !bf16_sums_rows(j);
    fv_epilogue f = {.act = g->act,
                     .scale = bf16_scales(j, col),
                     .bias = j->bias ? j->bias + col : NULL,
                     .residual_row = BF16_TILE_COLS,
                     .aux = has_aux ? aux : NULL,
                     .aux_row = BF16_TILE_COLS,
                     .aux_after_act = g->aux == FV_GEMM_AUX_ACT};
    if (j->residual) {
        bf16_widen_rows((const uint16_t *)j->residual + row * g->residual_row + col,
                        g->residual_row, more, rows, cols);
        f.residual = more;
    }
    if (f.act || f.scale || f.bias || f.residual || f.aux)
        fv_gemm_apply_epilogue(&f, sums, BF16_TILE_COLS, sums, BF16_TILE_COLS, rows, cols);
    const int64_t at = row * g->c_row + col;
    bf16_narrow_rows(sums, (uint16_t *)j->c + at, g->c_row, rows, cols);
    if (has_aux) bf16_narrow_rows(aux, (uint16_t *)j->aux + at, g->c_row, rows, cols);
}

/* Ends a tile whose sums are in `buffer`. */
static void bf16_finish_tile(const bf16_job *j, const bf16_item *item, int64_t row, int64_t col,
                             float *buffer, int rows, int64_t cols)
{
    const fv_gemm *g = j->g;
    const int64_t r = item->row + row, c = item->col + col;
    if (j->c_half) {
        bf16_store_half(j, r, c, buffer, rows, cols);
        return;
    }
    const fv_epilogue f = bf16_epilogue_at(j, item, row, col);
    fv_gemm_apply_epilogue(&f, buffer, BF16_TILE_COLS, (float *)j->c + r * g->c_row + c, g->c_row,
                           rows, cols);
}

/* Multiplies rows [row, row + rows) of the work item by every panel of the block; t holds A. */
static BF16_APART void bf16_row_tile(const bf16_job *j, const bf16_item *item, int64_t row,
                                     int rows, bf16_tile *t)
{
    const fv_gemm *g = j->g;
    _Alignas(64) float buffer[BF16_TILE_ROWS * BF16_TILE_COLS];
    const bf16_sums sums = bf16_partial_sums(j, item);
    const bool first = item->k == 0, last = item->k + item->numbers == g->k;
    const bool finish = last && bf16_has_epilogue(j), adds_half = first && j->c_half;
    for (int64_t col = 0; col < item->cols; col += BF16_TILE_COLS) {
        const int64_t cols = bf16_min(BF16_TILE_COLS, item->cols - col);
        const bool part = cols < BF16_TILE_COLS, start = first && !g->accumulate;
        float *partial = sums.base ? sums.base + row * sums.row + col : NULL;
        t->b = item->b_block + col * item->depth * BF16_WORDS;
        t->from = start ? NULL : partial;
        t->from_row = sums.row;
        if (!start && (part || adds_half)) {
            if (adds_half)
                bf16_widen_rows((const uint16_t *)j->c + (item->row + row) * g->c_row + item->col +
                                    col,
                                g->c_row, buffer, rows, cols);
            else
                bf16_copy(partial, sums.row, buffer, BF16_TILE_COLS, rows, cols);
            t->from = buffer;
            t->from_row = BF16_TILE_COLS;
        }
        t->c = part || finish ? buffer : partial;
        t->c_row = part || finish ? BF16_TILE_COLS : sums.row;
        bf16_tile_run(t, rows);
        if (finish)
            bf16_finish_tile(j, item, row, col, buffer, rows, cols);
        else if (part)
            bf16_copy(buffer, BF16_TILE_COLS, partial, sums.row, rows, cols);
    }
}

/* One block of k. */
static void bf16_block(const bf16_job *j, const bf16_item *item)
{
    bf16_tile t = {.state = item->state, .words = item->depth * BF16_WORDS};
    bf16_pack_b(j, item);
    for (int64_t begin = 0; begin < item->rows; begin += FV_GEMM_BF16_ROWS) {
        const int64_t end = bf16_min(item->rows, begin + FV_GEMM_BF16_ROWS);
        bf16_add_row_sums(j, item, begin, end - begin);
        const bf16_rows a = bf16_pack_a(j, item, begin, end - begin, &t);
        for (int64_t row = begin; row < end; row += BF16_TILE_ROWS) {
            t.a = a.base + (row - begin) * a.step;
            bf16_row_tile(j, item, row, (int)bf16_min(BF16_TILE_ROWS, end - row), &t);
        }
    }
}

/* ---- few rows times packed weights ------------------------------------------------------- */

/* The rows of A, as bf16_few_run reads them. */
static void bf16_few_pack(const bf16_job *j, const bf16_item *item, int64_t row_words)
{
    const fv_gemm *g = j->g;
    for (int64_t i = 0; i < item->rows; i++) {
        uint32_t *out = item->a_block + i * row_words, *words = out + row_words - item->depth;
        const void *from = bf16_at(j->a, j->a_half, i * g->a_row);
        if (j->a_half)
            bf16_pack_row(from, true, g->a_col, item, words);
        else
            bf16_pack_row(from, false, g->a_col, item, words);
        if (BF16_FEW_WORDS == 2) bf16_widen_row(words, item->depth, out);
    }
}

/* All k and all rows of the item's panels. */
static BF16_APART void bf16_few_item(const bf16_job *j, const bf16_item *item)
{
    const fv_gemm *g = j->g;
    _Alignas(64) float sums[FV_GEMM_TILE_ROWS * FV_GEMM_PANEL];
    bf16_few t = {
        .k = g->k, .a = item->a_block, .a_row = item->depth * BF16_FEW_WORDS, .sum = sums};
    bf16_few_pack(j, item, t.a_row);
    bf16_add_row_sums(j, item, 0, item->rows);
    for (int64_t col = 0; col < item->cols; col += BF16_TILE_COLS) {
        float *tile = sums + col % FV_GEMM_PANEL * FV_GEMM_TILE_ROWS;
        if (col % FV_GEMM_PANEL == 0) {
            t.panel = fv_weight_panel(g->b_form, j->b, g->k, item->col + col);
            bf16_few_run(&t, g->b_form, (int)item->rows);
        }
        bf16_finish_tile(j, item, 0, col, tile, (int)item->rows,
                         bf16_min(BF16_TILE_COLS, item->cols - col));
    }
}

static void bf16_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    const bf16_job *j = arg;
    const fv_gemm_bf16_plan *p = &j->plan;
    const fv_gemm *g = j->g;
    bf16_state state;
    bf16_state_begin(&state);
    for (int64_t i = begin; i < end; i++) {
        bf16_item item = {.state = &state,
                          .row = i % p->row_items * p->rows,
                          .col = i / p->row_items * p->panels * FV_GEMM_PANEL};
        item.rows = bf16_min(p->rows, g->m - item.row);
        item.cols = bf16_min(p->panels * FV_GEMM_PANEL, g->n - item.col);
        item.a_block =
            j->scratch + thread * (p->a_words + p->b_words + p->sum_floats + p->lane_floats);
        item.b_block = item.a_block + p->a_words;
        item.sums = (float *)(void *)(item.b_block + p->b_words);
        item.lanes = item.sums + p->sum_floats;
        if (p->few_rows) {
            item.numbers = g->k;
            item.pairs = (g->k + 1) / 2;
            item.depth = p->depth;
            bf16_few_item(j, &item);
            continue;
        }
        do {
            item.numbers = bf16_min(2 * p->depth, g->k - item.k);
            item.pairs = (item.numbers + 1) / 2;
            item.depth = (item.pairs + BF16_STEP - 1) / BF16_STEP * BF16_STEP;
            bf16_block(j, &item);
            item.k += item.numbers;
        } while (item.k < g->k);
    }
    bf16_state_end(&state);
}

static void bf16_gemm(const fv_exec *exec, void *const *ptr, const void *args)
{
    bf16_job j = {.g = args,
                  .c = ptr[0],
                  .a = ptr[1],
                  .b = ptr[2],
                  .bias = ptr[3],
                  .residual = ptr[4],
                  .aux = ptr[5],
                  .a_half = ((const fv_gemm *)args)->stored_bf16 & FV_GEMM_STORED_A,
                  .b_half = ((const fv_gemm *)args)->stored_bf16 & FV_GEMM_STORED_B,
                  .c_half = ((const fv_gemm *)args)->stored_bf16 & FV_GEMM_STORED_C,
                  .scratch = exec->scratch};
    /* Never read, and may be NULL, to which no offset may be added. */
    if (j.g->k == 0) j.a = j.c;
    if (j.g->k == 0 && j.g->b_form == FV_WEIGHT_F32) j.b = j.c;
    fv_gemm_bf16_make_plan(j.g, exec->threads, BF16_WORDS, &j.plan);
    const int64_t items = j.plan.row_items * j.plan.column_items;
    if (items <= 0) return;
    if (j.plan.serial)
        bf16_items(&j, 0, items, 0);
    else
        exec->parallel(exec->user, items, 1, bf16_items, &j);
}

#endif
