/*
 * How a product is split into work items and blocks. These choices affect speed only, never the
 * result. Sizes in comments assume 32 KiB of L1 and 1 MiB of L2 per core.
 */
#include "kernels/gemm.h"
#include "kernels/gemm_bf16.h"

enum {
    DEPTH_WHOLE = 2048,                 /* up to here k is one block */
    DEPTH_BLOCK = 1536,                 /* else blocks of about this size: a panel of 384 KiB */
    DEPTH_COLUMN_MAJOR = 512,           /* A is column-major: longer runs of its columns */
    DEPTH_FEW_ROWS = 64,                /* B is packed to be used once: a panel stays in L1 */
    ROWS_WITH_BLOCKS = 1026,            /* bounds the partial sums kept between blocks */
    B_BLOCK_FLOATS = 128 * 1024,        /* packed B of a work item: half of L2 ... */
    B_BLOCK_WITH_PACKED_A = 512 * 1024, /* ... or a part of L3, so that A is packed less often */
    A_BLOCK_FLOATS = 32 * 1024,         /* packed A: an eighth of L2 */
    DIRECT_FLOATS = 8 * 1024,           /* a B that stays in L1 anyway is read in place */
    LANE_ROWS = 240,                    /* whose sums are computed together: 15 KiB of lanes */
    FEW_COLUMNS = 64,                   /* of A: fewer pages than the L1 TLB has entries */
    NEAR_COLUMNS = 256, /* column stride in floats that the hardware prefetcher follows */
    ITEMS_PER_THREAD = 6,
    STREAMED_ITEM = 96 * 1024, /* weights: 20 us of memory traffic, so threads end together */
    ROWS_PER_ITEM_MIN = 96,
    PANELS_MIN_WITH_PACKED_A = 4 /* A is packed again for each work item along n */
};

/* Multiply-adds that justify waking a thread; fewer if weights stream in from memory. */
static const double SERIAL_WORK = 1.5e6, SERIAL_STREAMED = 3e5;

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t round_to_tiles(int64_t rows)
{
    return divide_up(rows, FV_GEMM_TILE_ROWS) * FV_GEMM_TILE_ROWS;
}

static bool a_needs_packing(const fv_gemm *g)
{
    if (g->a_col == 1 || g->k <= 1) return false;
    /* Columns of A in L1 are as fast as packed ones; so are a few in L2 if B is narrow. */
    if (g->k <= FEW_COLUMNS && g->n <= 2 * FV_GEMM_PANEL) return false;
    if (g->a_row == 1 && g->a_col <= NEAR_COLUMNS && g->n <= 4 * FV_GEMM_PANEL) return false;
    return g->n > FV_GEMM_PANEL && g->m * g->k > DIRECT_FLOATS / 2;
}

static bool b_needs_packing(const fv_gemm *g)
{
    if (g->k == 0) return false;
    if (g->b_packed) return g->b_form != FV_WEIGHT_F32; /* converted to float while packing */
    if (g->b_col != 1) return g->n > 1;
    return g->m > FV_GEMM_TILE_ROWS && g->k * g->n > DIRECT_FLOATS;
}

/* Makes enough work items for the threads: first narrower ones, then shorter ones. */
static void split_for_threads(const fv_gemm *g, int threads, fv_gemm_plan *plan)
{
    const int64_t want = (int64_t)ITEMS_PER_THREAD * threads;
    const int64_t panels = divide_up(g->n, FV_GEMM_PANEL);
    const int64_t least = plan->a_rows ? PANELS_MIN_WITH_PACKED_A : 1;
    while (plan->panels > least && g->batch * divide_up(panels, plan->panels) < want)
        plan->panels = larger(least, plan->panels / 2);
    int64_t have = g->batch * divide_up(panels, plan->panels);
    if (have >= want) return;
    int64_t rows = larger(divide_up(g->m, divide_up(want, have)), ROWS_PER_ITEM_MIN);
    plan->rows = smaller(plan->rows, round_to_tiles(rows));
}

static void choose_depth(const fv_gemm *g, fv_gemm_plan *plan)
{
    plan->depth = g->k;
    int64_t block = DEPTH_BLOCK, whole = DEPTH_WHOLE;
    if (g->a_row == 1 && a_needs_packing(g)) block = whole = DEPTH_COLUMN_MAJOR;
    if (plan->pack_b && g->m <= FV_GEMM_TILE_ROWS) block = whole = DEPTH_FEW_ROWS;
    if (g->k <= whole) return;
    const int64_t blocks = divide_up(g->k, block);
    plan->depth = divide_up(divide_up(g->k, blocks), 16) * 16;
    if (g->m > ROWS_WITH_BLOCKS)
        plan->rows = round_to_tiles(divide_up(g->m, divide_up(g->m, ROWS_WITH_BLOCKS)));
}

static int64_t choose_panels(const fv_gemm *g, int threads, const fv_gemm_plan *plan)
{
    const int64_t all = larger(1, divide_up(g->n, FV_GEMM_PANEL));
    if (plan->one_row || plan->low_precision_rows) {
        if (plan->serial) return all;
        /* Several work items per thread: if a thread wakes late, others do its share. */
        const int64_t shares = all / ((int64_t)ITEMS_PER_THREAD * threads);
        return larger(1, smaller(shares, STREAMED_ITEM / FV_GEMM_PANEL / larger(g->k, 1)));
    }
    if (plan->pack_b && g->m <= FV_GEMM_TILE_ROWS) return 1;
    const int64_t block = plan->a_rows ? B_BLOCK_WITH_PACKED_A : B_BLOCK_FLOATS;
    const int64_t fit = block / (larger(plan->depth, 1) * FV_GEMM_PANEL);
    return larger(1, smaller(all, fit));
}

void fv_gemm_make_plan(const fv_gemm *g, int threads, fv_gemm_plan *plan)
{
    *plan = (fv_gemm_plan){.rows = g->m};
    const double work = (double)g->m * (double)g->n * (double)g->k * (double)g->batch;
    plan->one_row = g->m == 1 && g->n > 1 && (g->b_packed || g->b_col == 1);
    plan->low_precision_rows = g->b_form != FV_WEIGHT_F32 && g->m <= FV_GEMM_TILE_ROWS;
    if (plan->low_precision_rows) plan->one_row = false;
    const bool streamed = plan->one_row || plan->low_precision_rows;
    plan->serial = threads <= 1 || work < (streamed ? SERIAL_STREAMED : SERIAL_WORK);
    plan->pack_b = !streamed && b_needs_packing(g);
    choose_depth(g, plan);
    if (!streamed && a_needs_packing(g)) {
        const int64_t tiles =
            larger(1, A_BLOCK_FLOATS / (larger(plan->depth, 1) * FV_GEMM_TILE_ROWS));
        plan->a_rows = smaller(tiles, divide_up(g->m, FV_GEMM_TILE_ROWS)) * FV_GEMM_TILE_ROWS;
    }
    plan->panels = choose_panels(g, threads, plan);
    if (!plan->serial && !streamed) split_for_threads(g, threads, plan);
    plan->row_items = plan->rows ? divide_up(g->m, plan->rows) : 0;
    plan->column_items = divide_up(divide_up(g->n, FV_GEMM_PANEL), plan->panels);
    plan->items = g->batch * plan->row_items * plan->column_items;

    plan->a_floats = divide_up(plan->a_rows * plan->depth, 16) * 16;
    plan->b_floats = plan->pack_b ? plan->panels * FV_GEMM_PANEL * plan->depth : 0;
    /* Partial sums between blocks of k cannot be kept in C if C is also the residual. */
    if (plan->depth < g->k) plan->sum_floats = plan->rows * plan->panels * FV_GEMM_PANEL;
    if (g->aux == FV_GEMM_AUX_ROW_SUMS) {
        plan->lane_rows = plan->a_rows ? plan->a_rows : LANE_ROWS;
        plan->lane_floats = fv_gemm_lane_floats(plan->rows, plan->lane_rows, plan->depth < g->k);
    }
}

size_t fv_gemm_scratch_query(const void *args, int threads)
{
    const fv_gemm *g = args;
    if (g->bf16) return fv_gemm_bf16_scratch(g, threads);
    fv_gemm_plan plan;
    fv_gemm_make_plan(args, threads, &plan);
    int64_t floats = plan.a_floats + plan.b_floats + plan.sum_floats + plan.lane_floats;
    int64_t copies = plan.serial ? 1 : threads;
    size_t bytes = (size_t)floats * sizeof(float);
    if (copies > 0 && bytes > SIZE_MAX / (size_t)copies) return SIZE_MAX;
    return bytes * (size_t)copies;
}
