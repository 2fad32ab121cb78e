/*
 * Generation beyond the context, with models whose context is 16 tokens: the tokens and
 * probabilities of a loop that truncates and passes everything through the model, without a cache,
 * for greedy search, sampling and beam search; neighbours do not matter; and where outputs stop.
 */
#include "fovea/autograd.h"
#include "fovea/generate.h"
#include "fovea/ops.h"
#include "support/test.h"

enum { CONTEXT = 16, VOCABULARY = 23, BOS = 0, NEW = 60, PROMPTS = 4, LONGEST = 41 };

static const int64_t lengths[PROMPTS] = {3, LONGEST, 1, CONTEXT};

typedef struct world {
    int64_t context;
    fv_ctx *ctx;
    fv_params *params;
    fv_transformer *model;
    fv_cache *cache;
    int64_t prompt[PROMPTS][LONGEST];
    const int64_t *list[PROMPTS];
} world;

static world open_world(fv_family family, fv_position_kind positions, int64_t context)
{
    world w = {.context = context};
    fv_transformer_config cfg;
    fv_transformer_config_init(&cfg, sizeof cfg, family);
    cfg.vocabulary = VOCABULARY;
    cfg.width = cfg.hidden = 16;
    cfg.heads = 2;
    cfg.decoder_layers = 2;
    if (cfg.encoder_layers) cfg.encoder_layers = 1;
    cfg.max_positions = context;
    cfg.positions = positions;
    cfg.init_std = 0.5; /* so that the logits differ clearly */
    cfg.bos = BOS;
    cfg.eos = -1;
    if (family == FV_FAMILY_QWEN3) {
        cfg.kv_heads = 1;
        cfg.window = 5;
        cfg.full_layers[0] = 1;
    }
    CHECK_EQ(fv_ctx_create(NULL, &w.ctx), FV_OK);
    CHECK_OK(w.ctx, fv_params_create(w.ctx, &w.params));
    CHECK_OK(w.ctx, fv_transformer_create(w.params, &cfg, &w.model));
    CHECK_OK(w.ctx, fv_cache_create(w.model, &w.cache));
    for (int64_t i = 0; i < PROMPTS; i++)
        for (int64_t t = 0; t < LONGEST; t++)
            w.prompt[i][t] = (i * 7 + t * 5 + t * t) % VOCABULARY;
    return w;
}

/* 0: learned positions, 1: rotary ones, 2: and a window in the second layer. */
static world open_decoder(int rotary)
{
    if (rotary == 2) return open_world(FV_FAMILY_QWEN3, FV_POSITION_ROTARY, CONTEXT);
    return rotary ? open_world(FV_FAMILY_LLAMA, FV_POSITION_ROTARY, CONTEXT)
                  : open_world(FV_FAMILY_GPT2, FV_POSITION_LEARNED, CONTEXT);
}

static void close_world(world *w)
{
    fv_cache_destroy(&w->cache);
    fv_transformer_destroy(&w->model);
    fv_params_destroy(&w->params);
    fv_ctx_destroy(&w->ctx);
}

static fv_sequences prompts_from(world *w, int64_t first, int64_t count)
{
    for (int64_t i = 0; i < PROMPTS; i++)
        w->list[i] = w->prompt[i];
    return (fv_sequences){.count = count, .tokens = w->list + first, .length = lengths + first};
}

static fv_generate_config config(int64_t tokens, fv_context_full full)
{
    fv_generate_config cfg;
    fv_generate_config_init(&cfg, sizeof cfg, NULL);
    cfg.max_tokens = tokens;
    cfg.context_full = full;
    cfg.search.no_repeat_ngram = 2; /* so that greedy outputs vary */
    return cfg;
}

static fv_generated *generated(world *w, int64_t first, int64_t count, fv_generate_config cfg)
{
    const fv_sequences prompts = prompts_from(w, first, count);
    fv_generated *out = NULL;
    cfg.search.first_source = first;
    CHECK_OK(w->ctx, fv_generate_tokens(w->cache, NULL, &prompts, NULL, &cfg, &out));
    return out;
}

/* ---- the reference ------------------------------------------------------------------------ */

/* Logits after the last of n tokens. */
static void pass(world *w, const int64_t *tokens, int64_t n, float logits[VOCABULARY])
{
    fv_ctx *ctx = w->ctx;
    const fv_sequences one = {.count = 1, .tokens = &tokens, .length = &n};
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    const fv_token_rows rows = fv_token_rows_varlen(ctx, &one);
    fv_tensor *h = fv_transformer_decode(ctx, w->model, &rows, NULL, NULL, NULL);
    h = fv_slice(ctx, h, 1, n - 1, n, 1);
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_transformer_logits(ctx, w->model, h), logits,
                                 VOCABULARY * sizeof *logits));
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
}

static double log_softmax_of(const float logits[VOCABULARY], int64_t token)
{
    double sum = 0;
    for (int i = 0; i < VOCABULARY; i++)
        sum += exp((double)logits[i]);
    return (double)logits[token] - log(sum);
}

/* What greedy search takes: no two tokens come twice, whether or not they were dropped since. */
static int64_t best_of(float logits[VOCABULARY], const int64_t *text, int64_t n)
{
    int64_t best = 0;
    for (int64_t t = 1; t < n; t++)
        if (text[t - 1] == text[n - 1]) logits[text[t]] = -INFINITY;
    for (int64_t i = 1; i < VOCABULARY; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Follows an output token by token: a full context keeps its last half, of which BOS is the first
 * if the context began with it, and all of it goes through the model again. Checks its probability
 * and, where it is greedy, its tokens. */
static void check_output(world *w, int64_t number, const fv_generated_text *g, int64_t count,
                         bool greedy)
{
    int64_t text[LONGEST + NEW], n = lengths[number], first = 0;
    double log_prob = 0;
    CHECK(g != NULL);
    if (!g) return;
    CHECK_EQ(g->count, count);
    CHECK(!g->ended && !g->stopped && g->context_full);
    CHECK_EQ(g->ended_by, FV_ENDED_BY_LENGTH);
    memcpy(text, w->prompt[number], (size_t)n * sizeof *text);
    bool keeps_bos = text[0] == BOS && w->context >= 4;
    int64_t context[LONGEST + NEW];
    for (int64_t i = 0; i < g->count && i < NEW; i++) {
        float logits[VOCABULARY];
        if (n - first >= w->context) {
            keeps_bos = w->context >= 4 && (keeps_bos || text[first] == BOS);
            first = n - (w->context > 1 ? w->context / 2 : 1);
        }
        memcpy(context, text + first, (size_t)(n - first) * sizeof *text);
        if (keeps_bos) context[0] = BOS;
        pass(w, context, n - first, logits);
        log_prob += log_softmax_of(logits, g->tokens[i]);
        if (greedy) CHECK_EQ(g->tokens[i], best_of(logits, text, n));
        text[n++] = g->tokens[i];
    }
    CHECK(fabs(log_prob - g->log_prob) < 1e-3);
}

/* ---- shifting ------------------------------------------------------------------------------ */

static fv_generate_config config_of_mode(int mode)
{
    fv_generate_config cfg = config(NEW, FV_CONTEXT_SHIFT);
    cfg.search.seed = 5;
    cfg.search.sample = mode == 1;
    cfg.search.beam = mode == 2 ? 3 : 1;
    cfg.search.nbest = mode == 0 ? 1 : 2;
    return cfg;
}

/* Greedy, sampling and beam search; learned and rotary positions, windows. */
static void outputs_are_those_of_a_loop_without_a_cache(void)
{
    for (int run = 0; run < 9; run++) {
        world w = open_decoder(run / 3);
        const fv_generate_config cfg = config_of_mode(run % 3);
        fv_generated *out = generated(&w, 0, PROMPTS, cfg);
        int different = 0;
        for (int64_t i = 0; out && i < PROMPTS; i++)
            for (int n = 0; n < cfg.search.nbest; n++) {
                const fv_generated_text *g = fv_generated_get(out, i, n);
                check_output(&w, i, g, NEW, run % 3 == 0);
                for (int64_t t = 1; g && t < g->count; t++)
                    different += g->tokens[t] != g->tokens[t - 1];
            }
        CHECK(different > PROMPTS * NEW / 2); /* no output that repeats one token */
        fv_generated_free(&out);
        close_world(&w);
    }
}

static void expect_equal(const fv_generated_text *x, const fv_generated_text *y)
{
    CHECK(x && y && x->count == y->count && x->log_prob == y->log_prob);
    if (x && y && x->count == y->count)
        CHECK(memcmp(x->tokens, y->tokens, (size_t)x->count * sizeof *x->tokens) == 0);
}

/* Rows become full at different steps; each gives what it gives alone. */
static void neighbours_do_not_matter(void)
{
    world w = open_decoder(0);
    for (int mode = 0; mode < 3; mode++) {
        const fv_generate_config cfg = config_of_mode(mode);
        fv_generated *together = generated(&w, 0, PROMPTS, cfg);
        for (int64_t i = 0; together && i < PROMPTS; i++) {
            fv_generated *alone = generated(&w, i, 1, cfg);
            for (int n = 0; alone && n < cfg.search.nbest; n++)
                expect_equal(fv_generated_get(together, i, n), fv_generated_get(alone, 0, n));
            fv_generated_free(&alone);
        }
        fv_generated_free(&together);
    }
    close_world(&w);
}

/* Until the context is full, all settings generate the same. */
static void nothing_is_dropped_before_the_context_is_full(void)
{
    world w = open_decoder(1);
    const int64_t left = CONTEXT - lengths[0];
    fv_generated *fits = generated(&w, 0, 1, config(left, FV_CONTEXT_FAIL));
    fv_generated *shifts = generated(&w, 0, 1, config(left, FV_CONTEXT_SHIFT));
    fv_generated *further = generated(&w, 0, 1, config(left + 1, FV_CONTEXT_SHIFT));
    expect_equal(fv_generated_get(fits, 0, 0), fv_generated_get(shifts, 0, 0));
    CHECK(!fv_generated_get(fits, 0, 0)->context_full);
    CHECK(!fv_generated_get(shifts, 0, 0)->context_full);
    check_output(&w, 0, fv_generated_get(further, 0, 0), left + 1, true);
    fv_generated_free(&fits);
    fv_generated_free(&shifts);
    fv_generated_free(&further);
    /* As many as the context holds: of a long prompt, half a context is left. */
    fits = generated(&w, 0, PROMPTS, config(0, FV_CONTEXT_SHIFT));
    for (int64_t i = 0; i < PROMPTS; i++) {
        const fv_generated_text *g = fv_generated_get(fits, i, 0);
        const bool is_long = lengths[i] >= CONTEXT;
        CHECK_EQ(g->count, is_long ? CONTEXT / 2 : CONTEXT - lengths[i]);
        CHECK_EQ(g->context_full, is_long);
        CHECK_EQ(g->ended_by, FV_ENDED_BY_CONTEXT);
    }
    fv_generated_free(&fits);
    close_world(&w);
}

/* The end token comes right after the tokens that fit: it was chosen from half a context. */
static void an_end_token_may_come_after_a_shift(void)
{
    world w = open_decoder(0);
    const int64_t left = CONTEXT - lengths[0], end = 7;
    fv_generate_config cfg = config(left + 1, FV_CONTEXT_SHIFT);
    cfg.search.no_repeat_ngram = 0; /* it would ban the end token */
    cfg.search.min_tokens = left;
    cfg.search.extra_eos = &end;
    cfg.search.extra_eos_count = 1;
    cfg.search.forced_last = end;
    fv_generated *out = generated(&w, 0, 1, cfg);
    const fv_generated_text *g = fv_generated_get(out, 0, 0);
    CHECK_EQ(g->count, left);
    CHECK(g->ended && g->context_full);
    CHECK_EQ(g->ended_by, FV_ENDED_BY_EOS);
    fv_generated_free(&out);
    close_world(&w);
}

/* Contexts of one and two tokens: each token depends on the one before it alone. */
static void the_smallest_contexts(void)
{
    for (int64_t context = 1; context <= 2; context++) {
        world w = open_world(FV_FAMILY_GPT2, FV_POSITION_LEARNED, context);
        fv_generated *out = generated(&w, 0, PROMPTS, config(NEW, FV_CONTEXT_SHIFT));
        fv_generated *one = generated(&w, 0, 1, config(0, FV_CONTEXT_SHIFT));
        for (int64_t i = 0; i < PROMPTS; i++)
            check_output(&w, i, fv_generated_get(out, i, 0), NEW, true);
        CHECK(fv_generated_get(one, 0, 0) && fv_generated_get(one, 0, 0)->count == 1);
        fv_generated_free(&out);
        fv_generated_free(&one);
        close_world(&w);
    }
}

/* ---- stopping ------------------------------------------------------------------------------- */

static void a_full_context_ends_outputs(void)
{
    world w = open_decoder(0);
    const int64_t left = CONTEXT - lengths[0];
    fv_generated *whole = generated(&w, 0, 1, config(left, FV_CONTEXT_FAIL));
    fv_generated *cut = generated(&w, 0, 1, config(NEW, FV_CONTEXT_STOP));
    const fv_generated_text *g = fv_generated_get(cut, 0, 0);
    CHECK_EQ(g->count, left);
    CHECK(g->context_full && !g->ended && !g->stopped);
    CHECK_EQ(g->ended_by, FV_ENDED_BY_CONTEXT);
    expect_equal(g, fv_generated_get(whole, 0, 0));
    fv_generated_free(&whole);
    fv_generated_free(&cut);

    fv_generated *out = NULL;
    fv_sequences prompts = prompts_from(&w, 0, 1);
    fv_generate_config cfg = config(left + 1, FV_CONTEXT_FAIL);
    CHECK_EQ(fv_generate_tokens(w.cache, NULL, &prompts, NULL, &cfg, &out), FV_ERR_LIMIT);
    for (int64_t i = 1; i < PROMPTS; i += 2) { /* prompts that fill the context */
        prompts = prompts_from(&w, i, 1);
        cfg = config(1, FV_CONTEXT_STOP);
        CHECK_EQ(fv_generate_tokens(w.cache, NULL, &prompts, NULL, &cfg, &out), FV_ERR_LIMIT);
        CHECK(strstr(fv_ctx_message(w.ctx), "with 1 more") != NULL);
    }
    cfg = config(1, (fv_context_full)3);
    CHECK_EQ(fv_generate_tokens(w.cache, NULL, &prompts, NULL, &cfg, &out), FV_ERR_ARGUMENT);
    CHECK(out == NULL);
    close_world(&w);
}

/* With an encoder the target cannot be encoded again: it ends. */
static void an_answer_ends_at_a_full_context(void)
{
    world w = open_world(FV_FAMILY_MARIAN, FV_POSITION_LEARNED, CONTEXT);
    const int64_t source_lengths[2] = {3, 0};
    fv_sequences sources = prompts_from(&w, 0, 2);
    sources.length = source_lengths;
    const fv_generate_config cfg = config(NEW, FV_CONTEXT_SHIFT);
    fv_generated *out = NULL;
    CHECK_OK(w.ctx, fv_generate_tokens(w.cache, NULL, NULL, &sources, &cfg, &out));
    const fv_generated_text *g = out ? fv_generated_get(out, 0, 0) : NULL;
    CHECK(g && g->count == CONTEXT - 1 && g->context_full);
    g = out ? fv_generated_get(out, 1, 0) : NULL; /* of an empty source */
    CHECK(g && g->count == 0 && !g->context_full);
    fv_generated_free(&out);
    close_world(&w);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(outputs_are_those_of_a_loop_without_a_cache);
    RUN(neighbours_do_not_matter);
    RUN(nothing_is_dropped_before_the_context_is_full);
    RUN(an_end_token_may_come_after_a_shift);
    RUN(the_smallest_contexts);
    RUN(a_full_context_ends_outputs);
    RUN(an_answer_ends_at_a_full_context);
    return TEST_END();
}
