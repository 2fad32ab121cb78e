/* The cases of fv_attention_run: masks and normalisers, all results at once; scores are in
 * scores.c.
 */
#include "support/compound_attention.h"

fv_tensor *compound_attention(fv_ctx *ctx, int n_in, fv_tensor *const *in, const void *params)
{
    const attention_params *p = params;
    fv_attention_input x = {.q = NULL};
    for (int i = 0; i < n_in; i++)
        memcpy((char *)&x + p->role[i], &in[i], sizeof in[i]);
    fv_attention_result r;
    fv_attention_run(ctx, &x, &p->how, &r);
    if (fv_ctx_error(ctx) != FV_OK) return r.context;
    fv_tensor *all[] = {r.context, r.scores, r.weights, r.lse, r.log_prob, r.entropy, r.centre};
    return compound_join(ctx, 7, all);
}

/* ---- masks ------------------------------------------------------------------------ */

#define SLOPES                                                                                     \
    {                                                                                              \
        .gen = FV_GEN_POSITIVE, .rank = 1, .shape = {2}, .constant = true                          \
    }
static const attention_params
    causal = {HOW(RULE(.causal = FV_CAUSAL_BOTTOM_RIGHT, .dropout = 0.3)),
              {R(q), R(k), R(v), R(bias)}},
    causal_maps = {HOW(RULE(.causal = FV_CAUSAL_BOTTOM_RIGHT), MAPS), {R(q), R(k), R(v), R(bias)}},
    window_maps = {HOW(.rule = {.causal = FV_CAUSAL_TOP_LEFT,
                                .left = 1,
                                .right = -1,
                                .prefix = 1,
                                .q_offset = 1},
                       MAPS),
                   {R(q), R(k), R(v), R(slopes)}},
    lengths = {HOW(PLAIN, .score = FV_ATTENTION_ADDITIVE),
               {R(q), R(k), R(v), R(w), R(key_lengths), R(visible)}},
    lengths_maps = {HOW(PLAIN, .score = FV_ATTENTION_COSINE, MAPS),
                    {R(q), R(k), R(v), R(key_lengths), R(visible)}},
    before_maps = {HOW(RULE(.causal = FV_CAUSAL_TOP_LEFT, .q_offset = -2), MAPS),
                   {R(q), R(k), R(v)}},
    local_m = {HOW(PLAIN, .normaliser = FV_ATTENTION_LOCAL_M, .half_width = 1.0),
               {R(q), R(k), R(v)}},
    local_m_maps = {HOW(PLAIN, .normaliser = FV_ATTENTION_LOCAL_M, .half_width = 1.0, MAPS),
                    {R(q), R(k), R(v)}},
    dot_maps = {HOW(PLAIN, .score = FV_ATTENTION_DOT, MAPS), {R(q), R(k), R(v)}};

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
    COMPOUND(1, "attention masks", "who sees whom", compound_attention, mask_cases);

/* ---- local-p and hard -------------------------------------------------------------- */

#define LOCAL .normaliser = FV_ATTENTION_LOCAL_P, .half_width = 1.6
static const attention_params local = {HOW(PLAIN, LOCAL), {R(q), R(k), R(v), R(w_p), R(v_p)}},
                              local_maps = {HOW(PLAIN, LOCAL, .score = FV_ATTENTION_GENERAL, MAPS),
                                            {R(q), R(k), R(v), R(w), R(w_p), R(v_p),
                                             R(key_lengths)}},
                              local_given = {
                                  HOW(RULE(.dropout = 0.2), LOCAL, .score = FV_ATTENTION_LOCATION),
                                  {R(q), R(v), R(w), R(centre), R(visible)}};

static const fv_op_case local_cases[] = {
    CASE("a centre for all heads", 5, &local, Q, K, V, FV_IN(NORMAL, 3, 2), FV_IN(NORMAL, 3)),
    CASE("a centre a head, lengths, general, maps", 7, &local_maps, Q, K, V, FV_IN(NORMAL, 2, 2),
         FV_IN(NORMAL, 2, 3, 2), FV_IN(NORMAL, 2, 3), FV_INDEX(5, 2)),
    CASE("a centre given, pattern, location, dropout", 5, &local_given, Q, V, FV_IN(NORMAL, 4, 2),
         FV_IN(POSITIVE, 2, 1, 3), FV_IN(MASK, 3, 4)),
};

const fv_op_desc compound_local = COMPOUND(
    2, "attention local-p", "a window around a learned centre", compound_attention, local_cases);

static const attention_params sample = {HOW(PLAIN, .normaliser = FV_ATTENTION_HARD_SAMPLE),
                                        {R(q), R(k), R(v), R(visible)}},
                              argmax = {HOW(PLAIN, .normaliser = FV_ATTENTION_HARD_ARGMAX,
                                            .score = FV_ATTENTION_ADDITIVE, MAPS),
                                        {R(q), R(k), R(v), R(w), R(key_lengths)}};

static const fv_op_case hard_cases[] = {
    CASE("drawn, pattern", 4, &sample, Q, K, V, FV_IN(MASK, 3, 4)),
    CASE("the likeliest, lengths, maps", 5, &argmax, Q, K, V, FV_IN(NORMAL, 2), FV_INDEX(5, 2)),
};

const fv_op_desc compound_hard =
    COMPOUND(3, "attention hard", "one key, its log-probability and the entropy",
             compound_attention, hard_cases);
