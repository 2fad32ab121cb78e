#include <math.h>

#include "data/problems.h"

void fv_bandit_costs(int64_t arms, const int64_t *pulls, const int64_t *wins, int64_t left,
                     double *out)
{
    double best = 0, second = 0;
    for (int64_t a = 0; a < arms; a++) {
        const double mean = ((double)wins[a] + 1) / ((double)pulls[a] + 2);
        second = fmax(second, fmin(mean, best));
        best = fmax(best, mean);
    }
    for (int64_t a = 0; a < arms; a++) {
        const double s = (double)wins[a] + 1, n = (double)pulls[a] + 2, mean = s / n,
                     other = mean < best ? best : second; /* the best of the other arms */
        const double won = fmax((s + 1) / (n + 1), other), lost = fmax(s / (n + 1), other);
        out[a] = best - mean - (double)left * (mean * won + (1 - mean) * lost - best);
    }
}
