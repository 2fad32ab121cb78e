/* How a bf16 product is split into work items. It affects speed only, never the result. Sizes
 * assume 1 MiB of L2 per core. */
#include "kernels/gemm_bf16.h"

enum {
    DEPTH_MAX = 384, /* a row tile of A, 9 KiB, stays in L1 while panels of 96 KiB stream through */
    B_BLOCK_WORDS = 96 << 10,                  /* B of a work item */
    ROWS_WITH_BLOCKS = 11 * FV_GEMM_BF16_ROWS, /* bounds the partial sums kept between blocks */
    DEPTH_STREAMED = 96, /* packed weights for one row tile: a panel of 24 KiB stays in L1 */
    STREAMED_ROWS = 32,
    STREAMED_ITEM = 96 * 1024, /* weights: 20 us of memory traffic, so threads end together */
    ITEMS_PER_THREAD = 3,
    B_COST = 3 /* cost of packing a word of B (perhaps transposed), relative to A */
};

/* Multiply-adds that justify waking a thread; fewer if weights stream in from memory. */
static const double SERIAL_WORK = 1.5e6, SERIAL_STREAMED = 3e5;

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Halves work items until there are enough. Narrower ones pack A again, shorter ones B. */
static void split_for_threads(const fv_gemm *g, int threads, fv_gemm_bf16_plan *plan)
{
    const int64_t all = divide_up(g->n, FV_GEMM_PANEL);
    const int64_t want = (int64_t)ITEMS_PER_THREAD * threads;
    while (!plan->serial) {
        const int64_t cols = divide_up(all, plan->panels), rows = divide_up(g->m, plan->rows);
        const bool can_narrow = plan->panels > 1, can_shorten = plan->rows > FV_GEMM_BF16_ROWS;
        if (cols * rows >= want || !(can_narrow || can_shorten)) return;
        if (can_narrow && (!can_shorten || g->m * cols <= g->n * rows * B_COST))
            plan->panels = divide_up(plan->panels, 2);
        else
            plan->rows = divide_up(divide_up(plan->rows, 2), FV_GEMM_BF16_ROWS) * FV_GEMM_BF16_ROWS;
    }
}

/* At most a row tile times packed weights. */
static void plan_few_rows(const fv_gemm *g, int threads, fv_gemm_bf16_plan *plan)
{
    const int64_t all = larger(1, divide_up(g->n, FV_GEMM_PANEL));
    plan->few_rows = true;
    plan->depth = divide_up(plan->pairs, FV_LANES) * FV_LANES;
    const int64_t most = STREAMED_ITEM / FV_GEMM_PANEL / larger(g->k, 1);
    plan->panels = larger(1, smaller(all / ((int64_t)ITEMS_PER_THREAD * threads), most));
    if (plan->serial) plan->panels = all;
    plan->row_items = g->m > 0;
    plan->column_items = divide_up(divide_up(g->n, FV_GEMM_PANEL), plan->panels);
    plan->a_words = 2 * FV_GEMM_TILE_ROWS * plan->depth;
    if (g->aux == FV_GEMM_AUX_ROW_SUMS)
        plan->lane_floats = fv_gemm_lane_floats(plan->rows, FV_GEMM_BF16_ROWS, false);
}

void fv_gemm_bf16_make_plan(const fv_gemm *g, int threads, int words, fv_gemm_bf16_plan *plan)
{
    *plan = (fv_gemm_bf16_plan){.pairs = divide_up(g->k, 2), .rows = larger(g->m, 1)};
    const double work = (double)g->m * (double)g->n * (double)g->k;
    const bool streamed = g->b_packed && g->m <= STREAMED_ROWS;
    plan->serial = threads <= 1 || work < (streamed ? SERIAL_STREAMED : SERIAL_WORK);
    if (g->b_packed && g->m <= FV_GEMM_TILE_ROWS) {
        plan_few_rows(g, threads, plan);
        return;
    }
    const int64_t depth_max = streamed ? DEPTH_STREAMED : DEPTH_MAX;
    const int64_t blocks = larger(1, divide_up(plan->pairs, depth_max));
    plan->depth = larger(1, divide_up(divide_up(plan->pairs, blocks), FV_LANES) * FV_LANES);
    const int64_t fit = larger(1, B_BLOCK_WORDS / (plan->depth * FV_GEMM_PANEL));
    plan->panels = streamed ? 1 : larger(1, smaller(divide_up(g->n, FV_GEMM_PANEL), fit));
    if (blocks > 1) plan->rows = smaller(plan->rows, ROWS_WITH_BLOCKS);
    split_for_threads(g, threads, plan);
    plan->row_items = divide_up(g->m, plan->rows);
    plan->column_items = divide_up(divide_up(g->n, FV_GEMM_PANEL), plan->panels);
    plan->a_words = FV_GEMM_BF16_ROWS * plan->depth * words;
    plan->b_words = plan->panels * FV_GEMM_PANEL * plan->depth * words;
    /* Partial sums between blocks of k cannot be kept in C if C is also the residual. */
    if (plan->depth < plan->pairs) plan->sum_floats = plan->rows * plan->panels * FV_GEMM_PANEL;
    if (g->aux == FV_GEMM_AUX_ROW_SUMS)
        plan->lane_floats =
            fv_gemm_lane_floats(plan->rows, FV_GEMM_BF16_ROWS, plan->depth < plan->pairs);
}

size_t fv_gemm_bf16_scratch(const fv_gemm *g, int threads)
{
    size_t most = 0;
    for (int words = 1; words <= 2; words++) {
        fv_gemm_bf16_plan plan;
        fv_gemm_bf16_make_plan(g, threads, words, &plan);
        const int64_t each = plan.a_words + plan.b_words + plan.sum_floats + plan.lane_floats;
        const size_t bytes = (size_t)each * sizeof(uint32_t);
        const size_t copies = plan.serial ? 1 : (size_t)threads;
        if (bytes > SIZE_MAX / copies) return SIZE_MAX;
        if (bytes * copies > most) most = bytes * copies;
    }
    return most;
}
