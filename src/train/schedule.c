#include <math.h>

#include "fovea/optim.h"

/* How far past the warm-up, from 0 to 1 at the last step. */
static double progress(const fv_schedule *s, uint64_t step)
{
    if (s->total <= s->warmup + 1) return 1.0;
    double done = (double)(step - s->warmup) / (double)(s->total - s->warmup - 1);
    return done < 1.0 ? done : 1.0;
}

double fv_schedule_at(const fv_schedule *s, uint64_t step)
{
    static const double pi = 3.14159265358979323846;
    if (step < s->warmup) return s->lr * (double)(step + 1) / (double)s->warmup;
    switch (s->kind) {
    case FV_SCHEDULE_STEP:
        return s->lr * pow(s->gamma, s->every ? (double)((step - s->warmup) / s->every) : 0.0);
    case FV_SCHEDULE_LINEAR:
        return s->lr + (s->floor - s->lr) * progress(s, step);
    case FV_SCHEDULE_COSINE:
        return s->floor + (s->lr - s->floor) * 0.5 * (1.0 + cos(pi * progress(s, step)));
    case FV_SCHEDULE_INVERSE_SQRT: {
        double warmup = s->warmup ? (double)s->warmup : 1.0;
        return s->lr * sqrt(warmup / (double)(step + 1));
    }
    case FV_SCHEDULE_CONSTANT:
    case FV_SCHEDULE_COUNT:
        break;
    }
    return s->lr;
}
