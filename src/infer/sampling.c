#include "infer/sampling.h"

#include <math.h>
#include <stdlib.h>

static int descending(const void *a, const void *b, void *weights)
{
    const double *w = weights;
    const int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    if (w[i] != w[j]) return w[i] < w[j] ? 1 : -1;
    return i < j ? -1 : i > j;
}

/*
 * Puts the most likely of all choices into order, best first, as many as the cuts can need, and
 * returns their number. Sorting a whole vocabulary would take longer than the model's own step, so
 * tokens that are far behind the first one (whose weight is 1) come in only where the others are
 * too few.
 */
static int64_t order_all(const fv_search_config *cfg, const fv_draw_row *row, double total)
{
    const bool bounded = cfg->top_k > 0 || cfg->top_p < 1 || cfg->min_p > 0;
    int64_t n = 0;
    bool enough = false;
    for (double least = bounded ? 1e-3 : 0; !enough; least = least > 1e-12 ? least * 1e-3 : 0) {
        double mass = 0;
        n = 0;
        for (int64_t i = 0; i < row->count; i++)
            if (!(row->weight[i] < least)) {
                row->order[n++] = i;
                mass += row->weight[i];
            }
        enough = least == 0 || cfg->min_p >= least ||
                 (cfg->top_k > 0 ? n >= cfg->top_k : mass >= cfg->top_p * total);
    }
    qsort_r(row->order, (size_t)n, sizeof *row->order, descending, row->weight);
    return n;
}

/* How many of the first `count` choices in order can be drawn. */
static int64_t kept_choices(const fv_search_config *cfg, const fv_draw_row *row, int64_t count,
                            double total)
{
    const int64_t most = cfg->top_k > 0 && cfg->top_k < count ? cfg->top_k : count;
    double cut = total;
    if (cfg->top_k > 0) {
        cut = 0;
        for (int64_t i = 0; i < most; i++)
            cut += row->weight[row->order[i]];
    }
    double mass = 0;
    int64_t n = 0;
    const double least = cfg->min_p * row->weight[row->order[0]];
    for (; n < most; n++) {
        const double p = row->weight[row->order[n]];
        if (n > 0 && (mass >= cfg->top_p * cut || p < least || p <= 0)) break;
        mass += p;
    }
    return n;
}

int64_t fv_search_draw(const fv_search_config *cfg, const fv_draw_row *row, double unit)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < row->count; i++)
        if ((double)row->logit[i] > most) most = (double)row->logit[i];
    for (int64_t i = 0; i < row->count; i++)
        sum += row->weight[i] = exp(((double)row->logit[i] - most) / cfg->temperature);
    const bool all = row->count == row->choices;
    const double total = all ? sum : exp(row->log_total - most / cfg->temperature);
    int64_t count = row->count;
    if (all)
        count = order_all(cfg, row, total);
    else
        for (int64_t i = 0; i < count; i++)
            row->order[i] = i;
    const int64_t kept = kept_choices(cfg, row, count, total);
    double mass = 0;
    for (int64_t i = 0; i < kept; i++)
        mass += row->weight[row->order[i]];
    /* No cut within what is here: the choices that follow could be drawn too. */
    if (!all && kept == count && cfg->top_k != count) {
        if (cfg->top_p < 1 || cfg->min_p > 0 || unit * total >= mass) return -1;
        mass = total;
    }
    double left = unit * mass;
    int64_t pick = 0;
    while (pick + 1 < kept && left >= row->weight[row->order[pick]])
        left -= row->weight[row->order[pick++]];
    return row->order[pick];
}
