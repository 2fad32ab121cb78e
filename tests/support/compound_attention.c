/* The cases of fv_attention_run: every score, mask and normaliser, all results at once. */
#include "fovea/attend.h"
#include "support/compound.h"

typedef fv_attention_input fields;

typedef struct attention_params {
    fv_attention how;
    size_t role[FV_CASE_INPUTS]; /* which tensor of fv_attention_input each input is */
} attention_params;

static fv_tensor *weigh_differences(fv_ctx *ctx, void *user, fv_tensor *q, fv_tensor *k)
{
    const double *width = user; /* -|q - k|^2 / width: a kernel smoother */
    fv_tensor *d = fv_sub(ctx, fv_unsqueeze(ctx, q, -2), fv_unsqueeze(ctx, k, -3));
    return fv_scale(ctx, fv_sum(ctx, fv_square(ctx, d), 1, (int[]){-1}, false), -1.0 / *width);
}

static fv_tensor *apply(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    const attention_params *p = params;
    fv_attention_input x = {.q = NULL};
    for (int i = 0; i < n_in; i++)
        memcpy((char *)&x + p->role[i], &in[i], sizeof in[i]);
    fv_attention_result r;
    fv_attention_run(ctx, &p->how, &x, &r);
    if (fv_ctx_error(ctx) != FV_OK) return r.context;
    fv_tensor *all[] = {r.context, r.scores, r.weights, r.lse, r.log_prob, r.entropy, r.centre};
    return compound_join(ctx, 7, all);
}

#define R(name) offsetof(fields, name)
/* The defaults, with the three that are not zero named. */
#define HOW_FULL(reach, heat, force, ...)                                                          \
    .how = {.struct_size = sizeof(fv_attention),                                                   \
            .left = (reach),                                                                       \
            .right = -1,                                                                           \
            .temperature = (heat),                                                                 \
            .strength = (force),                                                                   \
            __VA_ARGS__}
#define HOW(...) HOW_FULL(-1, 1, 1, __VA_ARGS__)
#define CASE(about, n, settings, ...)                                                              \
    {                                                                                              \
        .name = (about), .params = (settings), .n_in = (n), .in = { __VA_ARGS__ }                  \
    }
#define Q    FV_IN(NORMAL, 2, 2, 3, 2)
#define K    FV_IN(NORMAL, 2, 1, 4, 2)
#define V    FV_IN(NORMAL, 2, 1, 4, 3)
#define MAPS .want_scores = true, .want_weights = true

static double smoother_width = 1.5;
static const attention_params
    dot = {HOW(.score = FV_ATTENTION_DOT), {R(q), R(k), R(v)}},
    dot_maps = {HOW(.score = FV_ATTENTION_DOT, MAPS), {R(q), R(k), R(v)}},
    scaled_hot = {HOW_FULL(-1, 0.5, 1, .soft_cap = 1.5), {R(q), R(k), R(v), R(temperature)}},
    scaled_hot_maps = {HOW_FULL(-1, 0.5, 1, .soft_cap = 1.5, MAPS),
                       {R(q), R(k), R(v), R(temperature)}},
    general = {HOW(.score = FV_ATTENTION_GENERAL), {R(q), R(k), R(v), R(w)}},
    general_maps = {HOW(.score = FV_ATTENTION_GENERAL, MAPS), {R(q), R(k), R(v), R(w)}},
    additive = {HOW(.score = FV_ATTENTION_ADDITIVE), {R(q), R(k), R(v), R(w), R(w_q), R(w_k)}},
    additive_maps = {HOW_FULL(-1, 0.7, 1, .score = FV_ATTENTION_ADDITIVE, MAPS),
                     {R(q), R(k), R(v), R(w), R(temperature)}},
    cosine = {HOW_FULL(-1, 1, 2.5, .score = FV_ATTENTION_COSINE), {R(q), R(k), R(v), R(beta)}},
    cosine_maps = {HOW(.score = FV_ATTENTION_COSINE, MAPS), {R(q), R(k), R(v), R(beta)}},
    location = {HOW(.score = FV_ATTENTION_LOCATION), {R(q), R(v), R(w), R(temperature)}},
    location_maps = {HOW(.score = FV_ATTENTION_LOCATION, MAPS), {R(q), R(v), R(w)}},
    callers = {HOW(.score = FV_ATTENTION_CALLER, .score_fn = weigh_differences,
                   .score_user = &smoother_width, .soft_cap = 3),
               {R(q), R(k), R(v)}},
    callers_maps = {HOW(.score = FV_ATTENTION_CALLER, .score_fn = weigh_differences,
                        .score_user = &smoother_width, MAPS),
                    {R(q), R(k), R(v)}};

static const fv_op_case score_cases[] = {
    CASE("dot", 3, &dot, Q, K, V),
    CASE("dot, maps", 3, &dot_maps, Q, K, V),
    CASE("scaled, learned temperature a head, cap", 4, &scaled_hot, Q, K, V, FV_IN(POSITIVE, 2)),
    CASE("scaled, one learned temperature, cap, maps", 4, &scaled_hot_maps, Q, K, V,
         FV_IN0(POSITIVE)),
    CASE("general, shared", 4, &general, FV_IN(NORMAL, 2, 2, 3, 3), K, V, FV_IN(NORMAL, 3, 2)),
    CASE("general, a matrix a head, maps", 4, &general_maps, Q, K, V, FV_IN(NORMAL, 2, 2, 2)),
    CASE("additive, shared", 6, &additive, Q, K, V, FV_IN(NORMAL, 3), FV_IN(NORMAL, 3, 2),
         FV_IN(NORMAL, 3, 2)),
    CASE("additive, a vector a head, projected before, maps", 5, &additive_maps, Q, K, V,
         FV_IN(NORMAL, 2, 2), FV_IN(POSITIVE, 2)),
    CASE("cosine, strength a head", 4, &cosine, Q, K, V, FV_IN(POSITIVE, 2, 1, 1)),
    CASE("cosine, strength a query, maps", 4, &cosine_maps, Q, K, V, FV_IN(POSITIVE, 2, 2, 3, 1)),
    CASE("location", 4, &location, Q, V, FV_IN(NORMAL, 6, 2), FV_IN(POSITIVE, 2)),
    CASE("location, a matrix a head, maps", 3, &location_maps, Q, V, FV_IN(NORMAL, 2, 4, 2)),
    CASE("the caller's, cap", 3, &callers, Q, K, V),
    CASE("the caller's, maps", 3, &callers_maps, Q, K, V),
};

const fv_op_desc compound_scores =
    COMPOUND(0, "attention scores", "every score of fv_attention", apply, score_cases);

/* ---- masks ------------------------------------------------------------------------ */

#define SLOPES                                                                                     \
    {                                                                                              \
        .gen = FV_GEN_POSITIVE, .rank = 1, .shape = {2}, .constant = true                          \
    }
static const attention_params
    causal = {HOW(.causal = FV_CAUSAL_BOTTOM_RIGHT, .dropout = 0.3), {R(q), R(k), R(v), R(bias)}},
    causal_maps = {HOW(.causal = FV_CAUSAL_BOTTOM_RIGHT, MAPS), {R(q), R(k), R(v), R(bias)}},
    window_maps = {HOW_FULL(1, 1, 1, .causal = FV_CAUSAL_TOP_LEFT, .prefix = 1, .q_offset = 1,
                            MAPS),
                   {R(q), R(k), R(v), R(slopes)}},
    lengths = {HOW(.score = FV_ATTENTION_ADDITIVE),
               {R(q), R(k), R(v), R(w), R(n_keys), R(visible)}},
    lengths_maps = {HOW(.score = FV_ATTENTION_COSINE, MAPS),
                    {R(q), R(k), R(v), R(n_keys), R(visible)}},
    before_maps = {HOW(.causal = FV_CAUSAL_TOP_LEFT, .q_offset = -2, MAPS), {R(q), R(k), R(v)}},
    local_m = {HOW(.normaliser = FV_ATTENTION_LOCAL_M, .half_width = 1.0), {R(q), R(k), R(v)}},
    local_m_maps = {HOW(.normaliser = FV_ATTENTION_LOCAL_M, .half_width = 1.0, MAPS),
                    {R(q), R(k), R(v)}};

static const fv_op_case mask_cases[] = {
    CASE("causal from the end, bias, dropout", 4, &causal, Q, K, V, FV_IN(NORMAL, 2, 1, 4)),
    CASE("causal from the end, bias, maps", 4, &causal_maps, Q, K, V, FV_IN(NORMAL, 3, 4)),
    CASE("window, prefix, slopes, maps", 4, &window_maps, Q, K, V, SLOPES),
    CASE("lengths, pattern, additive", 6, &lengths, Q, K, V, FV_IN(NORMAL, 2), FV_INDEX(5, 2),
         FV_IN(MASK, 2, 1, 3, 4)),
    CASE("lengths, pattern, cosine, maps", 5, &lengths_maps, Q, K, V, FV_INDEX(5, 2),
         FV_IN(MASK, 3, 4)),
    CASE("queries that see nothing, maps", 3, &before_maps, Q, K, V),
    CASE("local-m", 3, &local_m, Q, K, V),
    CASE("local-m, maps", 3, &local_m_maps, Q, K, V),
    CASE("no keys, maps", 3, &dot_maps, FV_IN(NORMAL, 1, 2, 3, 2), FV_IN(NORMAL, 1, 2, 0, 2),
         FV_IN(NORMAL, 1, 2, 0, 3)),
};

const fv_op_desc compound_masks =
    COMPOUND(1, "attention masks", "who sees whom", apply, mask_cases);

/* ---- local-p and hard -------------------------------------------------------------- */

#define LOCAL .normaliser = FV_ATTENTION_LOCAL_P, .half_width = 1.6
static const attention_params local = {HOW(LOCAL), {R(q), R(k), R(v), R(w_p), R(v_p)}},
                              local_maps = {HOW(LOCAL, .score = FV_ATTENTION_GENERAL, MAPS),
                                            {R(q), R(k), R(v), R(w), R(w_p), R(v_p), R(n_keys)}},
                              local_given = {
                                  HOW(LOCAL, .score = FV_ATTENTION_LOCATION, .dropout = 0.2),
                                  {R(q), R(v), R(w), R(centre), R(visible)}};

static const fv_op_case local_cases[] = {
    CASE("a centre for all heads", 5, &local, Q, K, V, FV_IN(NORMAL, 3, 2), FV_IN(NORMAL, 3)),
    CASE("a centre a head, lengths, general, maps", 7, &local_maps, Q, K, V, FV_IN(NORMAL, 2, 2),
         FV_IN(NORMAL, 2, 3, 2), FV_IN(NORMAL, 2, 3), FV_INDEX(5, 2)),
    CASE("a centre given, pattern, location, dropout", 5, &local_given, Q, V, FV_IN(NORMAL, 4, 2),
         FV_IN(POSITIVE, 2, 1, 3), FV_IN(MASK, 3, 4)),
};

const fv_op_desc compound_local =
    COMPOUND(2, "attention local-p", "a window around a learned centre", apply, local_cases);

static const attention_params sample = {HOW(.normaliser = FV_ATTENTION_HARD_SAMPLE),
                                        {R(q), R(k), R(v), R(visible)}},
                              argmax = {HOW(.normaliser = FV_ATTENTION_HARD_ARGMAX,
                                            .score = FV_ATTENTION_ADDITIVE, MAPS),
                                        {R(q), R(k), R(v), R(w), R(n_keys)}};

static const fv_op_case hard_cases[] = {
    CASE("drawn, pattern", 4, &sample, Q, K, V, FV_IN(MASK, 3, 4)),
    CASE("the likeliest, lengths, maps", 5, &argmax, Q, K, V, FV_IN(NORMAL, 2), FV_INDEX(5, 2)),
};

const fv_op_desc compound_hard = COMPOUND(
    3, "attention hard", "one key, its log-probability and the entropy", apply, hard_cases);
