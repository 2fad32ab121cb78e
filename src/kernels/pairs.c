/* How a product of pairs is cut. No bit depends on it. Sizes are for a core with 1 MiB of L2. */
#include "kernels/pairs.h"

enum {
    DEPTH_MOST = 384,         /* a strip of A, 9 KiB, stays in L1 while panels of 96 KiB pass */
    B_BLOCK_WORDS = 96 << 10, /* B of a unit */
    ROWS_WITH_BLOCKS = 11 * FV_PAIRS_ROWS, /* bounds the running sums kept between two blocks */
    UNITS_PER_THREAD = 3,
    B_COST = 3 /* packing a word of B, which may be turned on the way, against one of A */
};

static const double SERIAL_WORK = 1.5e6; /* multiply-adds worth the wake-up of a thread */

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Halves units until there are enough. Narrower ones pack A again, shorter ones B. */
static void spread(const fv_gemm *g, int threads, fv_pairs_plan *plan)
{
    const int64_t all = divide_up(g->n, FV_GEMM_PANEL);
    const int64_t want = (int64_t)UNITS_PER_THREAD * threads;
    while (!plan->serial) {
        const int64_t cols = divide_up(all, plan->panels), rows = divide_up(g->m, plan->rows);
        const bool narrow = plan->panels > 1, shorten = plan->rows > FV_PAIRS_ROWS;
        if (cols * rows >= want || !(narrow || shorten)) return;
        if (narrow && (!shorten || g->m * cols <= g->n * rows * B_COST))
            plan->panels = divide_up(plan->panels, 2);
        else
            plan->rows = divide_up(divide_up(plan->rows, 2), FV_PAIRS_ROWS) * FV_PAIRS_ROWS;
    }
}

void fv_pairs_make_plan(const fv_gemm *g, int threads, fv_pairs_plan *plan)
{
    *plan = (fv_pairs_plan){.pairs = divide_up(g->k, 2), .rows = larger(g->m, 1)};
    const double work = (double)g->m * (double)g->n * (double)g->k;
    plan->serial = threads <= 1 || work < SERIAL_WORK;
    const int64_t blocks = larger(1, divide_up(plan->pairs, DEPTH_MOST));
    plan->depth = larger(1, divide_up(divide_up(plan->pairs, blocks), FV_LANES) * FV_LANES);
    const int64_t fit = larger(1, B_BLOCK_WORDS / (plan->depth * FV_GEMM_PANEL));
    plan->panels = larger(1, smaller(divide_up(g->n, FV_GEMM_PANEL), fit));
    if (blocks > 1) plan->rows = smaller(plan->rows, ROWS_WITH_BLOCKS);
    spread(g, threads, plan);
    plan->row_units = divide_up(g->m, plan->rows);
    plan->col_units = divide_up(divide_up(g->n, FV_GEMM_PANEL), plan->panels);
    plan->a_words = FV_PAIRS_ROWS * plan->depth;
    plan->b_words = plan->panels * FV_GEMM_PANEL * plan->depth;
    /* Running sums of a k in blocks may not lie in C when C is also the residual. */
    if (plan->depth < plan->pairs) plan->sum_floats = plan->rows * plan->panels * FV_GEMM_PANEL;
}

size_t fv_pairs_scratch(const fv_gemm *g, int threads)
{
    fv_pairs_plan plan;
    fv_pairs_make_plan(g, threads, &plan);
    const size_t bytes = (size_t)(plan.a_words + plan.b_words + plan.sum_floats) * sizeof(uint32_t);
    const size_t copies = plan.serial ? 1 : (size_t)threads;
    return bytes > SIZE_MAX / copies ? SIZE_MAX : bytes * copies;
}
