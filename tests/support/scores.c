/*
 * What tests need for each attention score: its parameters, an independent formula as plain loops
 * over doubles, and the cases of its gradient check. A new score adds to each.
 */
#include "support/compound_attention.h"
#include "support/world.h"

/* ---- parameters ------------------------------------------------------------------- */

fv_attention_input world_input(world *w, fv_attention_score score)
{
    fv_attention_input in = world_basic(w);
    switch (score) {
    case FV_ATTENTION_GENERAL:
        in.w = REALS(w, general, H, D, D);
        break;
    case FV_ATTENTION_ADDITIVE:
        in.w = REALS(w, additive, H, D);
        in.w_q = REALS(w, w_q, D, D);
        in.w_k = REALS(w, w_k, D, D);
        break;
    case FV_ATTENTION_COSINE:
        in.beta = REALS(w, beta, H, 1, 1);
        break;
    case FV_ATTENTION_LOCATION:
        in.w = REALS(w, location, H, N_MAX, D);
        break;
    default:
        break;
    }
    return in;
}

/* ---- the definition once more ----------------------------------------------------- */

double world_dot(const double *x, const double *y)
{
    double sum = 0;
    for (int c = 0; c < D; c++)
        sum += x[c] * y[c];
    return sum;
}

double world_score(const world *w, fv_attention_score score, int b, int h, int i, int j)
{
    const double *q = w->q[b][h][i], *k = w->k[b][h / (H / G)][j];
    double sum = 0;
    switch (score) {
    case FV_ATTENTION_SCALED:
    case FV_ATTENTION_DOT:
        return world_dot(q, k);
    case FV_ATTENTION_GENERAL:
        for (int c = 0; c < D; c++)
            sum += q[c] * world_dot(w->general[h][c], k);
        return sum;
    case FV_ATTENTION_ADDITIVE:
        for (int c = 0; c < D; c++)
            sum += w->additive[h][c] * tanh(world_dot(w->w_q[c], q) + world_dot(w->w_k[c], k));
        return sum;
    case FV_ATTENTION_COSINE:
        return w->beta[h] * world_dot(q, k) / sqrt(world_dot(q, q) * world_dot(k, k));
    case FV_ATTENTION_LOCATION:
        return world_dot(w->location[h][j], q);
    case FV_ATTENTION_L2:
        for (int c = 0; c < D; c++)
            sum -= (q[c] - k[c]) * (q[c] - k[c]);
        return sum;
    case FV_ATTENTION_CUSTOM: /* world_manhattan */
        for (int c = 0; c < D; c++)
            sum -= fabs(q[c] - k[c]);
        return sum;
    default:
        test_failed(__FILE__, __LINE__, "the tests have no formula for score %d", (int)score);
        return NAN;
    }
}

/* ---- gradients -------------------------------------------------------------------- */

static fv_tensor *weigh_differences(fv_ctx *ctx, void *user, fv_tensor *q, fv_tensor *k)
{
    const double *width = user; /* -|q - k|^2 / width: a kernel smoother */
    fv_tensor *d = fv_sub(ctx, fv_unsqueeze(ctx, q, -2), fv_unsqueeze(ctx, k, -3));
    return fv_scale(ctx, fv_sum(ctx, fv_square(ctx, d), 1, (int[]){-1}, false), -1.0 / *width);
}

static double smoother_width = 1.5;
static const attention_params
    dot_product = {HOW(PLAIN, .score = FV_ATTENTION_DOT), {R(q), R(k), R(v)}},
    dot_maps = {HOW(PLAIN, .score = FV_ATTENTION_DOT, MAPS), {R(q), R(k), R(v)}},
    scaled_hot = {HOW_AT(0.5, RULE(.soft_cap = 1.5)), {R(q), R(k), R(v), R(temperature)}},
    scaled_hot_maps = {HOW_AT(0.5, RULE(.soft_cap = 1.5), MAPS),
                       {R(q), R(k), R(v), R(temperature)}},
    general = {HOW(PLAIN, .score = FV_ATTENTION_GENERAL), {R(q), R(k), R(v), R(w)}},
    general_maps = {HOW(PLAIN, .score = FV_ATTENTION_GENERAL, MAPS), {R(q), R(k), R(v), R(w)}},
    additive = {HOW(PLAIN, .score = FV_ATTENTION_ADDITIVE),
                {R(q), R(k), R(v), R(w), R(w_q), R(w_k)}},
    additive_maps = {HOW_AT(0.7, PLAIN, .score = FV_ATTENTION_ADDITIVE, MAPS),
                     {R(q), R(k), R(v), R(w), R(temperature)}},
    cosine = {HOW(RULE(.scale = 2.5), .score = FV_ATTENTION_COSINE), {R(q), R(k), R(v), R(beta)}},
    cosine_maps = {HOW(PLAIN, .score = FV_ATTENTION_COSINE, MAPS), {R(q), R(k), R(v), R(beta)}},
    location = {HOW(PLAIN, .score = FV_ATTENTION_LOCATION), {R(q), R(v), R(w), R(temperature)}},
    location_maps = {HOW(PLAIN, .score = FV_ATTENTION_LOCATION, MAPS), {R(q), R(v), R(w)}},
    l2 = {HOW(RULE(.scale = 0.4, .soft_cap = 3), .score = FV_ATTENTION_L2),
          {R(q), R(k), R(v), R(temperature)}},
    l2_maps = {HOW(PLAIN, .score = FV_ATTENTION_L2, MAPS), {R(q), R(k), R(v)}},
    callers = {HOW(RULE(.soft_cap = 3), .score = FV_ATTENTION_CUSTOM, .score_fn = weigh_differences,
                   .score_user = &smoother_width),
               {R(q), R(k), R(v)}},
    callers_maps = {HOW(PLAIN, .score = FV_ATTENTION_CUSTOM, .score_fn = weigh_differences,
                        .score_user = &smoother_width, MAPS),
                    {R(q), R(k), R(v)}};

static const fv_op_case score_cases[] = {
    CASE("dot", 3, &dot_product, Q, K, V),
    CASE("dot, maps", 3, &dot_maps, Q, K, V),
    CASE("scaled, learned temperature per head, cap", 4, &scaled_hot, Q, K, V, FV_IN(POSITIVE, 2)),
    CASE("scaled, one learned temperature, cap, maps", 4, &scaled_hot_maps, Q, K, V,
         FV_IN0(POSITIVE)),
    CASE("general, shared", 4, &general, FV_IN(NORMAL, 2, 2, 3, 3), K, V, FV_IN(NORMAL, 3, 2)),
    CASE("general, a matrix per head, maps", 4, &general_maps, Q, K, V, FV_IN(NORMAL, 2, 2, 2)),
    CASE("additive, shared", 6, &additive, Q, K, V, FV_IN(NORMAL, 3), FV_IN(NORMAL, 3, 2),
         FV_IN(NORMAL, 3, 2)),
    CASE("additive, a vector per head, projected before, maps", 5, &additive_maps, Q, K, V,
         FV_IN(NORMAL, 2, 2), FV_IN(POSITIVE, 2)),
    CASE("cosine, beta per head", 4, &cosine, Q, K, V, FV_IN(POSITIVE, 2, 1, 1)),
    CASE("cosine, beta per query, maps", 4, &cosine_maps, Q, K, V, FV_IN(POSITIVE, 2, 2, 3, 1)),
    CASE("location", 4, &location, Q, V, FV_IN(NORMAL, 6, 2), FV_IN(POSITIVE, 2)),
    CASE("location, a matrix per head, maps", 3, &location_maps, Q, V, FV_IN(NORMAL, 2, 4, 2)),
    CASE("l2, temperature per head, cap", 4, &l2, Q, K, V, FV_IN(POSITIVE, 2)),
    CASE("l2, maps", 3, &l2_maps, Q, K, V),
    CASE("the caller's, cap", 3, &callers, Q, K, V),
    CASE("the caller's, maps", 3, &callers_maps, Q, K, V),
};

const fv_op_desc compound_scores =
    COMPOUND(0, "attention scores", "every score of fv_attention", compound_attention, score_cases);
