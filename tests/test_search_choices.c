/*
 * Searches whose rows have choices of their own, as those of a model that points at its inputs:
 * source s has 2 + s % 4 choices, and choice 2 is masked after a choice of 1. Every search is
 * compared with the list of all valid outputs.
 */
#include <math.h>

#include "fovea/ops.h"
#include "infer/search.h"
#include "support/test.h"
#include "support/toy.h"

enum { CHOICES = 5, SOURCES = 12 };

static fv_ctx *ctx;

typedef struct pointer {
    toy rows;
    bool by_mask; /* say it all in the mask, and leave `choices` out */
    bool none;    /* row 0 of the second step has no valid choice */
} pointer;

static int64_t choices_of(int64_t source) { return 2 + source % 4; }

static bool is_valid(int64_t source, int64_t last, int64_t choice)
{
    return choice < choices_of(source) && !(last == 1 && choice == 2);
}

/* Invalid choices have the largest logits: a search that ignores the limits takes them. */
static double logit_of(int64_t source, int64_t place, int64_t last, int64_t choice)
{
    return choice < choices_of(source) ? toy_logit(source, place, last, choice + 1)
                                       : 8.0 + (double)choice;
}

static double log_p(int64_t source, int64_t place, int64_t last, int64_t choice)
{
    double sum = 0;
    for (int64_t v = 0; v < CHOICES; v++)
        if (is_valid(source, last, v)) sum += exp((double)(float)logit_of(source, place, last, v));
    return (double)(float)logit_of(source, place, last, choice) - log(sum);
}

/* ---- the stepper -------------------------------------------------------------------- */

static fv_status begin(void *user, int64_t sources)
{
    toy *t = &((pointer *)user)->rows;
    t->rows = sources;
    for (int64_t i = 0; i < sources; i++) {
        t->source[i] = i;
        t->place[i] = 0;
    }
    return FV_OK;
}

static fv_status step(void *user, fv_ctx *c, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out)
{
    pointer *p = user;
    toy *t = &p->rows;
    static int64_t last[ROWS], choices[ROWS];
    static float logits[ROWS * CHOICES];
    static uint8_t mask[ROWS * CHOICES];
    (void)want_weights;
    CHECK_OK(c, fv_tensor_read(c, tokens, last, (size_t)t->rows * sizeof *last));
    for (int64_t r = 0; r < t->rows; r++) {
        const int64_t s = t->source[r];
        choices[r] = p->none && r == 0 && t->place[r] == 1 ? 0 : choices_of(s);
        for (int64_t v = 0; v < CHOICES; v++) {
            logits[r * CHOICES + v] = (float)logit_of(s, t->place[r], last[r], v);
            mask[r * CHOICES + v] =
                p->by_mask ? is_valid(s, last[r], v) : !(last[r] == 1 && v == 2);
        }
        t->place[r]++;
    }
    const int64_t shape[2] = {t->rows, CHOICES};
    out->logits = fv_from_host(c, FV_F32, 2, shape, logits);
    out->mask = fv_from_host(c, FV_U8, 2, shape, mask);
    if (!p->by_mask) out->choices = fv_from_host(c, FV_I64, 1, shape, choices);
    return FV_OK;
}

static fv_status choose(void *user, int64_t rows, const int64_t *from)
{
    toy *t = &((pointer *)user)->rows;
    const toy before = *t;
    for (int64_t i = 0; i < rows; i++) {
        t->source[i] = before.source[from[i]];
        t->place[i] = before.place[from[i]];
    }
    t->rows = rows;
    return FV_OK;
}

/* Choice 0 ends; the first step is fed a token that is no choice. */
static fv_status run(pointer *p, const fv_search_config *cfg, fv_outputs **out)
{
    int64_t most[SOURCES];
    for (int i = 0; i < SOURCES; i++)
        most[i] = MOST;
    const fv_stepper stepper = {.user = p,
                                .max_choices = CHOICES,
                                .bos = CHOICES,
                                .eos = 0,
                                .begin = begin,
                                .step = step,
                                .select = choose};
    return fv_search(ctx, &stepper, SOURCES, most, cfg, out);
}

/* ---- every valid output --------------------------------------------------------------- */

typedef struct listed {
    int64_t tokens[MOST + 1], count; /* with the end */
    double log_prob;
} listed;

static int by_log_prob(const void *a, const void *b)
{
    const listed *x = a, *y = b;
    return (x->log_prob < y->log_prob) - (x->log_prob > y->log_prob);
}

static int extend(int64_t source, listed prefix, listed *out, int n)
{
    const int64_t last = prefix.count ? prefix.tokens[prefix.count - 1] : CHOICES;
    if (prefix.count == MOST) return n; /* cut off: not an output that ended */
    for (int64_t v = 0; v < CHOICES; v++) {
        if (!is_valid(source, last, v)) continue;
        listed next = prefix;
        next.log_prob += log_p(source, prefix.count, last, v);
        next.tokens[next.count++] = v;
        if (v == 0)
            out[n++] = next;
        else
            n = extend(source, next, out, n);
    }
    return n;
}

static void check_output(const fv_output *o, const listed *expected)
{
    CHECK(o && o->ended);
    if (!o) return;
    CHECK_EQ(o->count, expected->count - 1);
    CHECK_NEAR(o->log_prob, expected->log_prob, 1e-5);
    CHECK(memcmp(o->tokens, expected->tokens, (size_t)o->count * sizeof *o->tokens) == 0);
}

static void a_wide_beam_finds_the_best_valid_outputs(void)
{
    static listed all[1024];
    for (int mask = 0; mask < 2; mask++) {
        pointer p = {.by_mask = mask};
        const fv_search_config cfg = toy_config(200, 3);
        fv_outputs *out = NULL;
        CHECK_OK(ctx, run(&p, &cfg, &out));
        for (int64_t s = 0; out && s < SOURCES; s++) {
            const int n = extend(s, (listed){.count = 0}, all, 0);
            qsort(all, (size_t)n, sizeof *all, by_log_prob);
            for (int k = 0; k < 3 && k < n; k++)
                check_output(fv_outputs_get(out, s, k), &all[k]);
        }
        fv_outputs_free(&out);
    }
}

/* With log-probabilities, without them, and on the host, where a ban applies. */
static void greedy_takes_the_best_valid_choice(void)
{
    for (int way = 0; way < 4; way++) {
        pointer p = {.by_mask = way == 3};
        fv_search_config cfg = toy_config(1, 1);
        cfg.no_scores = way == 1;
        cfg.banned = (const int64_t[]){4};
        cfg.banned_count = way == 2;
        fv_outputs *out = NULL;
        CHECK_OK(ctx, run(&p, &cfg, &out));
        for (int64_t s = 0; out && s < SOURCES; s++) {
            const fv_output *o = fv_outputs_get(out, s, 0);
            int64_t last = CHOICES;
            double sum = 0;
            for (int64_t i = 0; i < o->count + o->ended; i++) {
                int64_t best = 0;
                for (int64_t v = 1; v < CHOICES; v++)
                    if (is_valid(s, last, v) && !(way == 2 && v == 4) &&
                        logit_of(s, i, last, v) > logit_of(s, i, last, best))
                        best = v;
                CHECK_EQ(i < o->count ? o->tokens[i] : 0, best);
                sum += log_p(s, i, last, best);
                last = best;
            }
            if (way != 1) CHECK_NEAR(o->log_prob, sum, 1e-5);
        }
        fv_outputs_free(&out);
    }
}

/* How often each whole output is drawn agrees with its probability. */
static void samples_follow_the_valid_probabilities(void)
{
    enum { DRAWS = 40 };
    static listed all[1024];
    static const double cuts[][2] = {{0, 1}, {4, 1}, {0, 0.999999}}; /* top_k, top_p: all remain */
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        double expected = 0, found = 0;
        for (uint64_t seed = 0; seed < 60; seed++) {
            pointer p = {.by_mask = seed % 2};
            fv_search_config cfg = toy_config(1, DRAWS);
            cfg.sample = true;
            cfg.seed = seed;
            cfg.top_k = (int64_t)cuts[c][0];
            cfg.top_p = cuts[c][1];
            fv_outputs *out = NULL;
            CHECK_OK(ctx, run(&p, &cfg, &out));
            for (int64_t s = 0; out && s < SOURCES; s++) {
                const int n = extend(s, (listed){.count = 0}, all, 0);
                qsort(all, (size_t)n, sizeof *all, by_log_prob);
                expected += DRAWS * exp(all[0].log_prob);
                for (int k = 0; k < DRAWS; k++) {
                    const fv_output *o = fv_outputs_get(out, s, k);
                    int64_t last = CHOICES;
                    for (int64_t i = 0; i < o->count; i++) {
                        CHECK(is_valid(s, last, o->tokens[i]));
                        last = o->tokens[i];
                    }
                    found +=
                        o->ended && o->count + 1 == all[0].count &&
                        memcmp(o->tokens, all[0].tokens, (size_t)o->count * sizeof *o->tokens) == 0;
                }
            }
            fv_outputs_free(&out);
        }
        CHECK(fabs(found - expected) < 5 * sqrt(expected)); /* about 60 * 40 * 12 draws */
    }
}

/* A forced token is forced where it is valid, and nothing else can make an invalid one valid. */
static void rules_cannot_choose_invalid_tokens(void)
{
    for (int mode = 0; mode < 3; mode++) {
        pointer p = {.by_mask = false};
        fv_search_config cfg = toy_config(mode == 1 ? 4 : 1, 1);
        cfg.sample = mode == 2;
        cfg.forced_first = 3;
        cfg.forced_last = 4;
        cfg.repetition_penalty = 1.7;
        cfg.renormalize = mode == 1;
        fv_outputs *out = NULL;
        CHECK_OK(ctx, run(&p, &cfg, &out));
        for (int64_t s = 0; out && s < SOURCES; s++) {
            const fv_output *o = fv_outputs_get(out, s, 0);
            int64_t last = CHOICES;
            for (int64_t i = 0; i < o->count; i++) {
                CHECK(is_valid(s, last, o->tokens[i]));
                last = o->tokens[i];
            }
            if (choices_of(s) > 3) CHECK(o->count > 0 && o->tokens[0] == 3);
            if (choices_of(s) > 4 && !o->ended) CHECK_EQ(o->tokens[MOST - 1], 4);
        }
        fv_outputs_free(&out);
    }
}

/* Bans that leave nothing are dropped: with two choices, one of them the end that may not come yet
 * and the other one banned. */
static void bans_leave_a_choice(void)
{
    for (int beam = 1; beam < 4; beam += 2) {
        pointer p = {.by_mask = false};
        fv_search_config cfg = toy_config(beam, 1);
        cfg.min_tokens = 2;
        cfg.banned = (const int64_t[]){1};
        cfg.banned_count = 1;
        fv_outputs *out = NULL;
        CHECK_OK(ctx, run(&p, &cfg, &out));
        for (int64_t s = 0; out && s < SOURCES; s++) {
            const fv_output *o = fv_outputs_get(out, s, 0);
            CHECK(o != NULL);
            for (int64_t i = 0; o && i < o->count; i++)
                CHECK(o->tokens[i] < choices_of(s));
            if (choices_of(s) > 2) CHECK(o && o->count >= 2 && o->tokens[0] != 1);
        }
        fv_outputs_free(&out);
    }
}

static void a_row_without_choices_is_an_error(void)
{
    for (int mode = 0; mode < 5; mode++) {
        pointer p = {.none = true};
        fv_search_config cfg = toy_config(mode == 1 ? 3 : 1, 1);
        cfg.sample = mode == 2;
        cfg.no_scores = mode == 3;
        if (mode == 4) cfg.repetition_penalty = 1.5;
        fv_outputs *out = NULL;
        CHECK_EQ(run(&p, &cfg, &out), FV_ERR_STATE);
        CHECK(strstr(fv_ctx_message(ctx), "no valid choice") != NULL);
        CHECK(out == NULL);
        fv_ctx_take_error(ctx);
    }
}

/* The probabilities of all tokens sum to one, those of the first and the last too. */
static void renormalized_rows(void)
{
    const fv_stepper stepper = {.max_choices = 4};
    const fv_search_run run = {.stepper = &stepper};
    float scores[4] = {logf(0.1f), logf(0.2f), -INFINITY, logf(0.1f)};
    fv_search_renormalize(&run, scores);
    CHECK_NEAR(scores[0], log(0.25), 1e-6);
    CHECK_NEAR(scores[1], log(0.5), 1e-6);
    CHECK(scores[2] == -INFINITY);
    CHECK_NEAR(scores[3], log(0.25), 1e-6);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(renormalized_rows);
    RUN(a_wide_beam_finds_the_best_valid_outputs);
    RUN(greedy_takes_the_best_valid_choice);
    RUN(samples_follow_the_valid_probabilities);
    RUN(rules_cannot_choose_invalid_tokens);
    RUN(bans_leave_a_choice);
    RUN(a_row_without_choices_is_an_error);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
