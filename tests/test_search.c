/*
 * Greedy, sampling and beam search over a small model whose every output can be listed: the next
 * token's logits depend on the source, the last token and the place.
 */
#include "support/test.h"
#include "support/toy.h"

static fv_ctx *ctx;

/* ---- every output there is ---------------------------------------------------------- */

typedef struct listed {
    int64_t tokens[MOST + 1];
    int64_t count; /* the end included */
    double log_prob, score;
} listed;

static double score_of(const fv_search_config *cfg, int64_t source, const listed *l)
{
    double score = l->log_prob / pow((5.0 + (double)l->count) / 6.0, cfg->length_alpha);
    for (int64_t i = 0; i < POSITIONS && cfg->coverage_beta != 0; i++) {
        double sum = 0;
        for (int64_t t = 0; t < l->count; t++)
            sum += toy_weight(source, t ? l->tokens[t - 1] : START, i);
        if (sum < 1) score += cfg->coverage_beta * log(sum);
    }
    return score;
}

static int by_score(const void *a, const void *b)
{
    const listed *x = a, *y = b;
    return (x->score < y->score) - (x->score > y->score);
}

/* All outputs that end within MOST tokens, best first. */
static int list_all(const fv_search_config *cfg, int64_t source, listed *out)
{
    int n = 0;
    for (int64_t length = 0; length <= MOST; length++) {
        int64_t combinations = 1;
        for (int64_t i = 0; i < length; i++)
            combinations *= VOCABULARY;
        for (int64_t c = 0; c < combinations; c++) {
            listed l = {.count = length + 1};
            bool valid = length >= cfg->min_tokens && length < MOST;
            int64_t rest = c, last = START;
            for (int64_t t = 0; t < length; t++, rest /= VOCABULARY) {
                l.tokens[t] = rest % VOCABULARY;
                valid = valid && l.tokens[t] != END;
            }
            l.tokens[length] = END;
            for (int64_t t = 0; valid && t <= length; t++) {
                l.log_prob += toy_log_p(source, t, last, l.tokens[t]);
                last = l.tokens[t];
            }
            if (!valid) continue;
            l.score = score_of(cfg, source, &l);
            out[n++] = l;
        }
    }
    qsort(out, (size_t)n, sizeof *out, by_score);
    return n;
}

/* ---- tests -------------------------------------------------------------------------- */

/* A beam as wide as the tree misses nothing. */
static void a_wide_beam_finds_the_best(void)
{
    static const double settings[][2] = {{0, 0}, {0.6, 0}, {1, 0}, {0, 0.4}, {0.8, 0.3}};
    static listed all[4096];
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        fv_search_config cfg = toy_config(100, 4);
        cfg.length_alpha = settings[i][0];
        cfg.coverage_beta = settings[i][1];
        cfg.min_tokens = (int64_t)(i % 3);
        toy t = {.first = 0};
        fv_outputs *out = NULL;
        toy_run(ctx, &t, 5, &cfg, &out);
        for (int64_t s = 0; s < 5; s++) {
            const int n = list_all(&cfg, s, all);
            CHECK(n > 4);
            for (int k = 0; k < 4; k++) {
                const fv_output *o = fv_outputs_get(out, s, k);
                CHECK(o != NULL && o->ended);
                if (!o) continue;
                CHECK_NEAR(o->score, all[k].score, 1e-5);
                CHECK_NEAR(o->log_prob, all[k].log_prob, 1e-5);
                CHECK_EQ(o->count, all[k].count - 1);
                CHECK(memcmp(o->tokens, all[k].tokens, (size_t)o->count * sizeof *o->tokens) == 0);
            }
        }
        fv_outputs_free(&out);
    }
}

/* The negative twin: a beam of one misses it somewhere, so the test above can fail. */
static void a_narrow_beam_misses_some(void)
{
    static listed all[4096];
    const fv_search_config cfg = toy_config(1, 1);
    toy t = {.first = 0};
    fv_outputs *out = NULL;
    toy_run(ctx, &t, 40, &cfg, &out);
    int missed = 0;
    for (int64_t s = 0; s < 40; s++) {
        list_all(&cfg, s, all);
        missed += fv_outputs_get(out, s, 0)->score < all[0].score - 1e-4;
    }
    CHECK(missed > 0 && missed < 40);
    fv_outputs_free(&out);
}

static void greedy_takes_the_likeliest_each_time(void)
{
    const fv_search_config cfg = toy_config(1, 1);
    toy t = {.first = 0};
    fv_outputs *out = NULL;
    toy_run(ctx, &t, 30, &cfg, &out);
    int cut = 0;
    for (int64_t s = 0; s < 30; s++) {
        const fv_output *o = fv_outputs_get(out, s, 0);
        int64_t last = START;
        double sum = 0;
        for (int64_t i = 0; i < o->count + o->ended; i++) {
            int64_t best = 0;
            for (int64_t v = 1; v < VOCABULARY; v++)
                if (toy_logit(s, i, last, v) > toy_logit(s, i, last, best)) best = v;
            CHECK_EQ(i < o->count ? o->tokens[i] : END, best);
            sum += toy_log_p(s, i, last, best);
            last = best;
        }
        cut += !o->ended;
        CHECK_NEAR(o->log_prob, sum, 1e-5);
        CHECK(o->ended || o->count == MOST);
    }
    CHECK(cut > 0 && cut < 30);
    fv_outputs_free(&out);
}

static void check_same(const fv_outputs *a, int64_t sa, const fv_outputs *b, int64_t sb, int nbest)
{
    for (int k = 0; k < nbest; k++) {
        const fv_output *x = fv_outputs_get(a, sa, k), *y = fv_outputs_get(b, sb, k);
        CHECK_EQ(x == NULL, y == NULL);
        if (!x || !y) continue;
        CHECK_EQ(x->count, y->count);
        CHECK(x->score == y->score && x->ended == y->ended);
        CHECK(memcmp(x->tokens, y->tokens, (size_t)x->count * sizeof *x->tokens) == 0);
        const size_t cells = (size_t)((x->count + x->ended) * x->positions);
        CHECK(x->positions == y->positions &&
              (cells == 0 || memcmp(x->weights, y->weights, cells * sizeof(float)) == 0));
    }
}

static void the_batch_does_not_matter(void)
{
    for (int mode = 0; mode < 3; mode++) {
        fv_search_config cfg = toy_config(mode == 1 ? 3 : 1, mode == 0 ? 1 : 3);
        cfg.sample = mode == 2;
        cfg.want_weights = true;
        cfg.seed = 11;
        toy t = {.first = 0};
        fv_outputs *all = NULL;
        toy_run(ctx, &t, 12, &cfg, &all);
        for (int64_t s = 0; s < 12; s++) {
            static toy one;
            one = (toy){.first = s};
            fv_outputs *alone = NULL;
            cfg.first_source = s;
            toy_run(ctx, &one, 1, &cfg, &alone);
            check_same(all, s, alone, 0, cfg.nbest);
            fv_outputs_free(&alone);
        }
        fv_outputs_free(&all);
    }
}

static void weights_are_those_of_each_step(void)
{
    fv_search_config cfg = toy_config(3, 2);
    cfg.want_weights = true;
    toy t = {.first = 0};
    fv_outputs *out = NULL;
    toy_run(ctx, &t, 6, &cfg, &out);
    for (int64_t s = 0; s < 6; s++) {
        const fv_output *o = fv_outputs_get(out, s, 0);
        CHECK_EQ(o->positions, POSITIONS);
        for (int64_t i = 0; i < o->count + o->ended; i++)
            for (int64_t p = 0; p < POSITIONS; p++)
                CHECK_NEAR(o->weights[i * POSITIONS + p],
                           toy_weight(s, i ? o->tokens[i - 1] : START, p), 1e-6);
    }
    fv_outputs_free(&out);
}

/* First tokens drawn for one source follow softmax(logits / T), cut as asked. */
static void draws_follow_the_distribution(void)
{
    enum { DRAWS = 400 };
    static const struct {
        double temperature, top_p, min_p;
        int64_t top_k;
    } settings[] = {{1, 1, 0, 0},   {0.5, 1, 0, 0}, {1, 1, 0, 2},  {1, 0.6, 0, 0},
                    {1, 1, 0.5, 0}, {1, 1, 0.2, 0}, {3, 1, 0.8, 0}};
    enum { SETTINGS = sizeof settings / sizeof *settings, SOURCES = 6 };
    for (int i = 0; i < SETTINGS * SOURCES; i++) {
        const int64_t source = i / SETTINGS;
        fv_search_config cfg = toy_config(1, DRAWS);
        cfg.sample = true;
        cfg.temperature = settings[i % SETTINGS].temperature;
        cfg.top_p = settings[i % SETTINGS].top_p;
        cfg.min_p = settings[i % SETTINGS].min_p;
        cfg.top_k = settings[i % SETTINGS].top_k;
        cfg.seed = 5;
        toy t = {.first = source};
        fv_outputs *out = NULL;
        toy_run(ctx, &t, 1, &cfg, &out);
        int seen[VOCABULARY] = {0};
        for (int k = 0; k < DRAWS; k++) {
            const fv_output *o = fv_outputs_get(out, 0, k);
            CHECK(o != NULL);
            if (o) seen[o->count ? o->tokens[0] : END]++;
        }
        /* What the cuts leave, by a plain selection. */
        double p[VOCABULARY], left = 0;
        bool in[VOCABULARY] = {false};
        double total = 0, most = 0;
        for (int v = 0; v < VOCABULARY; v++)
            total += p[v] = exp(toy_logit(source, 0, START, v) / cfg.temperature);
        for (int v = 0; v < VOCABULARY; v++)
            most = fmax(most, p[v]);
        int taken = 0;
        while (taken < VOCABULARY && left < cfg.top_p * total * (cfg.top_k ? 2 : 1)) {
            int best = -1;
            for (int v = 0; v < VOCABULARY; v++)
                if (!in[v] && (best < 0 || p[v] > p[best])) best = v;
            if ((cfg.top_k && taken >= cfg.top_k) || p[best] < cfg.min_p * most) break;
            in[best] = true;
            left += p[best];
            taken++;
        }
        for (int v = 0; v < VOCABULARY; v++) {
            const double want = in[v] ? p[v] / left : 0;
            /* five deviations */
            CHECK_NEAR((double)seen[v] / DRAWS, want, 5 * sqrt(want * (1 - want) / DRAWS) + 1e-9);
        }
        fv_outputs_free(&out);
    }
}

/* Tokens as likely as the most likely one are all kept, by min_p as by top_k. */
static void draws_among_equals(void)
{
    enum { DRAWS = 200 };
    fv_search_config cfg = toy_config(1, DRAWS);
    cfg.sample = true;
    cfg.min_p = 1;
    for (int64_t top_k = 0; top_k <= 1; top_k++) {
        toy t = {.first = 0, .flat = true};
        fv_outputs *out = NULL;
        cfg.top_k = top_k;
        toy_run(ctx, &t, 1, &cfg, &out);
        int seen[VOCABULARY] = {0};
        for (int k = 0; k < DRAWS; k++) {
            const fv_output *o = fv_outputs_get(out, 0, k);
            seen[o->count ? o->tokens[0] : END]++;
        }
        for (int v = 0; v < VOCABULARY; v++)
            CHECK(top_k == 1 ? seen[v] == (v == 0) * DRAWS : seen[v] > DRAWS / VOCABULARY / 2);
        fv_outputs_free(&out);
    }
}

static void bad_settings_are_refused(void)
{
    toy t = {.first = 0};
    const int64_t most[1] = {MOST};
    const fv_stepper stepper = toy_stepper(&t);
    fv_outputs *out = NULL;
    fv_search_config cfg = toy_config(2, 3);
    CHECK_EQ(fv_search(ctx, &stepper, 1, most, &cfg, &out), FV_ERR_ARGUMENT);
    cfg = toy_config(0, 1);
    CHECK_EQ(fv_search(ctx, &stepper, 1, most, &cfg, &out), FV_ERR_ARGUMENT);
    cfg = toy_config(1, 1);
    cfg.temperature = 0;
    CHECK_EQ(fv_search(ctx, &stepper, 1, most, &cfg, &out), FV_ERR_ARGUMENT);
    cfg = toy_config(1, 1);
    cfg.repetition_penalty = 0;
    CHECK_EQ(fv_search(ctx, &stepper, 1, most, &cfg, &out), FV_ERR_ARGUMENT);
    cfg = toy_config(1, 1);
    cfg.forced_first = VOCABULARY;
    CHECK_EQ(fv_search(ctx, &stepper, 1, most, &cfg, &out), FV_ERR_ARGUMENT);
    cfg = toy_config(1, 1);
    cfg.forced_last = VOCABULARY;
    CHECK_EQ(fv_search(ctx, &stepper, 1, most, &cfg, &out), FV_ERR_ARGUMENT);
    cfg = toy_config(1, 1);
    cfg.extra_eos = (int64_t[]){-1};
    cfg.extra_eos_count = 1;
    CHECK_EQ(fv_search(ctx, &stepper, 1, most, &cfg, &out), FV_ERR_ARGUMENT);
    CHECK(out == NULL);
    cfg = toy_config(1, 1);
    CHECK_OK(ctx, fv_search(ctx, &stepper, 0, most, &cfg, &out));
    CHECK(fv_outputs_get(out, 0, 0) == NULL);
    fv_outputs_free(&out);
}

static void defaults_are_greedy(void)
{
    fv_search_config cfg;
    memset(&cfg, 0xff, sizeof cfg);
    fv_search_config_init(&cfg, sizeof cfg);
    CHECK(cfg.struct_size == sizeof cfg && cfg.beam == 1 && cfg.nbest == 1);
    CHECK(cfg.length_alpha == 0 && cfg.coverage_beta == 0 && cfg.repetition_penalty == 1);
    CHECK(cfg.min_tokens == 0 && cfg.min_length == 0 && cfg.no_repeat_ngram == 0);
    CHECK(cfg.forced_first == -1 && cfg.forced_last == -1 && cfg.banned_count == 0);
    CHECK(!cfg.sample && cfg.temperature == 1 && cfg.top_k == 0 && cfg.top_p == 1);
    CHECK(cfg.min_p == 0 && cfg.seed == 0 && cfg.first_source == 0 && !cfg.as_transformers);
}

/* A prompt may hold numbers that the search cannot choose: they ban nothing, also not in the row
 * after theirs. */
static void prompts_of_other_tokens(void)
{
    static const int64_t beyond[] = {VOCABULARY, VOCABULARY + 1, -1}, *const prompts[] = {beyond,
                                                                                          beyond};
    const int64_t lengths[2] = {3, 0}, most[2] = {1, 1};
    toy t = {.first = 0, .flat = true};
    const fv_stepper stepper = toy_stepper(&t);
    fv_search_config cfg = toy_config(1, 1);
    cfg.prompts = prompts;
    cfg.prompt_lengths = lengths;
    cfg.repetition_penalty = 2;
    cfg.no_repeat_ngram = 1;
    fv_outputs *out = NULL;
    CHECK_OK(ctx, fv_search(ctx, &stepper, 2, most, &cfg, &out));
    for (int64_t s = 0; s < 2; s++) {
        const fv_output *o = fv_outputs_get(out, s, 0);
        CHECK(o && o->count == 1 && o->tokens[0] == 0);
    }
    fv_outputs_free(&out);
}

/* Token 0 can be forced like any other, although the model would never choose it. */
static void the_first_token_of_all_is_forced(void)
{
    for (int beam = 1; beam <= 2; beam++) {
        fv_search_config cfg = toy_config(beam, 1);
        cfg.forced_first = START;
        cfg.forced_last = START;
        toy t = {.first = 0};
        fv_outputs *out = NULL;
        toy_run(ctx, &t, 10, &cfg, &out);
        for (int64_t s = 0; s < 10; s++) {
            const fv_output *o = fv_outputs_get(out, s, 0);
            CHECK(o->count > 0 && o->tokens[0] == START);
            if (o->count == MOST) CHECK_EQ(o->tokens[MOST - 1], START);
            for (int64_t i = 1; i + 1 < o->count; i++)
                CHECK(o->tokens[i] != START);
        }
        fv_outputs_free(&out);
    }
}

static void sources_without_room_give_nothing(void)
{
    toy t = {.first = 0};
    const int64_t most[3] = {2, 0, 3};
    const fv_stepper stepper = toy_stepper(&t);
    for (int beam = 1; beam < 3; beam++) {
        const fv_search_config cfg = toy_config(beam, 1);
        fv_outputs *out = NULL;
        CHECK_OK(ctx, fv_search(ctx, &stepper, 3, most, &cfg, &out));
        CHECK(fv_outputs_get(out, 1, 0) == NULL);
        CHECK(fv_outputs_get(out, 0, 0)->count <= 2 && fv_outputs_get(out, 2, 0)->count <= 3);
        fv_outputs_free(&out);
    }
}

/* max_tokens counts the end token in every search, as max_new_tokens of transformers does: with the
 * end forced onto the last place, one token less comes before it. */
static void the_end_token_counts(void)
{
    enum { GREEDY, SAMPLING, BEAM, BEAM_AS_TRANSFORMERS, KINDS };
    const int64_t most[2] = {MOST, 2};
    for (int kind = 0; kind < KINDS; kind++) {
        fv_search_config cfg = toy_config(kind >= BEAM ? 3 : 1, 1);
        cfg.sample = kind == SAMPLING;
        cfg.as_transformers = kind == BEAM_AS_TRANSFORMERS;
        cfg.min_tokens = MOST - 1;
        cfg.forced_last = END;
        toy t = {.first = 0};
        const fv_stepper stepper = toy_stepper(&t);
        fv_outputs *out = NULL;
        CHECK_OK(ctx, fv_search(ctx, &stepper, 2, most, &cfg, &out));
        for (int64_t s = 0; out && s < 2; s++) {
            const fv_output *o = fv_outputs_get(out, s, 0);
            CHECK(o && o->ended);
            if (o) CHECK_EQ(o->count, most[s] - 1);
        }
        CHECK_EQ(t.steps, MOST);
        fv_outputs_free(&out);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(a_wide_beam_finds_the_best);
    RUN(a_narrow_beam_misses_some);
    RUN(greedy_takes_the_likeliest_each_time);
    RUN(the_batch_does_not_matter);
    RUN(weights_are_those_of_each_step);
    RUN(draws_follow_the_distribution);
    RUN(draws_among_equals);
    RUN(the_first_token_of_all_is_forced);
    RUN(bad_settings_are_refused);
    RUN(sources_without_room_give_nothing);
    RUN(the_end_token_counts);
    RUN(defaults_are_greedy);
    RUN(prompts_of_other_tokens);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
