/* Rules of decoding that come from outside: the beam search of transformers, punished repetitions,
 * several ends, forced tokens, listeners; each against a plain walk over the same small model. */
#include "support/test.h"
#include "support/toy.h"

static fv_ctx *ctx;

typedef struct prefix {
    int64_t tokens[MOST + 1];
    int64_t count;
    double sum, score;
} prefix;

static int by_sum(const void *a, const void *b)
{
    const prefix *x = a, *y = b;
    return (x->sum < y->sum) - (x->sum > y->sum);
}

static int by_own_score(const void *a, const void *b)
{
    const prefix *x = a, *y = b;
    return (x->score < y->score) - (x->score > y->score);
}

/* A token that must not come, for the plain walk; -1: none. */
static int64_t banned = -1;
static bool renormalized;

static double log_p(int64_t source, int64_t place, int64_t last, int64_t token)
{
    if (token == banned) return -INFINITY;
    const double p = toy_log_p(source, place, last, token);
    return banned < 0 || !renormalized ? p
                                       : p - log1p(-exp(toy_log_p(source, place, last, banned)));
}

/* Banned words for the plain searches, and the prompt, which can begin one. */
static const int64_t words[] = {2, 3, 4, 4, 2, 0, 2, 2}, prompt_tokens[] = {3, 0, 2};
static const int word_lengths[] = {2, 3, 3};
static bool words_banned;

/* Whether a word would end with `token` after the prompt and these tokens. */
static bool completes_word(const int64_t *tokens, int64_t count, int64_t token)
{
    int64_t all[sizeof prompt_tokens / sizeof *prompt_tokens + MOST + 1], n = 0;
    for (size_t i = 0; i < sizeof prompt_tokens / sizeof *prompt_tokens; i++)
        all[n++] = prompt_tokens[i];
    for (int64_t i = 0; i < count; i++)
        all[n++] = tokens[i];
    all[n++] = token;
    const int64_t *word = words;
    for (size_t i = 0; words_banned && i < sizeof word_lengths / sizeof *word_lengths; i++) {
        const int length = word_lengths[i];
        if (n >= length && memcmp(all + n - length, word, (size_t)length * sizeof *all) == 0)
            return true;
        word += length;
    }
    return false;
}

/* The rule of the header, step by step: every continuation is sorted, the first `beam` may finish,
 * the best that have not ended continue. Returns how many finished, best first. */
static int plain_beam(int64_t source, int beam, double alpha, bool early, prefix *done)
{
    static prefix live[64], next[64 * VOCABULARY];
    int lives = 1, finished = 0;
    live[0] = (prefix){.count = 0};
    for (int64_t depth = 1; lives > 0; depth++) {
        int n = 0;
        for (int i = 0; i < lives; i++)
            for (int64_t v = 0; v < VOCABULARY; v++) {
                next[n] = live[i];
                const int64_t last = depth > 1 ? live[i].tokens[depth - 2] : START;
                if (v == banned || completes_word(live[i].tokens, depth - 1, v)) continue;
                next[n].sum += (double)(float)log_p(source, depth - 1, last, v);
                next[n].tokens[next[n].count++] = v;
                n++;
            }
        qsort(next, (size_t)n, sizeof *next, by_sum);
        lives = 0;
        for (int i = 0; i < n && i < 2 * beam; i++) {
            prefix p = next[i];
            const bool ends = p.tokens[depth - 1] == END;
            p.score = p.sum / pow((double)depth, alpha);
            if (i < beam && (ends || depth == MOST)) {
                done[finished++] = p;
                qsort(done, (size_t)finished, sizeof *done, by_own_score);
                if (finished > beam) finished = beam;
            }
            if (!ends && lives < beam) live[lives++] = p;
        }
        const bool worse =
            lives == 0 || live[0].sum / pow((double)depth, alpha) <= done[beam - 1].score;
        if (depth == MOST || (finished == beam && (early || worse))) break;
    }
    return finished;
}

static void the_beam_of_transformers(void)
{
    int differ = 0;
    for (int setting = 0; setting < 8; setting++) {
        fv_search_config cfg = toy_config(2 + setting % 3, 2);
        cfg.as_transformers = true;
        cfg.early_stopping = setting & 1;
        cfg.length_alpha = setting < 4 ? 1 : 2;
        toy t = {.first = 0};
        fv_outputs *out = NULL, *ours = NULL;
        toy_run(ctx, &t, 30, &cfg, &out);
        cfg.as_transformers = cfg.early_stopping = false;
        toy_run(ctx, &t, 30, &cfg, &ours);
        for (int64_t s = 0; s < 30; s++) {
            prefix done[65];
            const int n = plain_beam(s, cfg.beam, cfg.length_alpha, setting & 1, done);
            CHECK(n >= 2);
            for (int k = 0; k < 2; k++) {
                const fv_output *o = fv_outputs_get(out, s, k), *other = fv_outputs_get(ours, s, k);
                const int64_t steps = o->count + o->ended;
                CHECK_EQ(steps, done[k].count);
                CHECK(memcmp(o->tokens, done[k].tokens, (size_t)o->count * sizeof(int64_t)) == 0);
                CHECK_NEAR(o->score, done[k].score, 1e-5);
                differ += !other || other->count != o->count;
            }
            CHECK(fv_outputs_get(out, s, 2) == NULL);
        }
        fv_outputs_free(&out);
        fv_outputs_free(&ours);
    }
    CHECK(differ > 0); /* the two rules are not one */
}

/* Beam search without a token, with and without sharing out what it had; greedy likewise. */
static void banned_tokens_do_not_come(void)
{
    const int64_t list[1] = {3};
    int changed = 0;
    for (int setting = 0; setting < 4; setting++) {
        fv_search_config cfg = toy_config(setting < 2 ? 3 : 1, 1);
        toy t = {.first = 0};
        fv_outputs *out = NULL, *free_one = NULL;
        cfg.as_transformers = true;
        cfg.length_alpha = 1;
        toy_run(ctx, &t, 30, &cfg, &free_one);
        cfg.banned = list;
        cfg.banned_count = 1;
        cfg.renormalize = renormalized = setting & 1;
        toy_run(ctx, &t, 30, &cfg, &out);
        banned = list[0];
        for (int64_t s = 0; s < 30; s++) {
            prefix done[65];
            const fv_output *o = fv_outputs_get(out, s, 0), *other = fv_outputs_get(free_one, s, 0);
            for (int64_t i = 0; i < o->count; i++)
                CHECK(o->tokens[i] != banned);
            changed += other->count != o->count ||
                       memcmp(o->tokens, other->tokens, (size_t)o->count * sizeof *o->tokens) != 0;
            if (cfg.beam == 1) continue;
            CHECK(plain_beam(s, cfg.beam, 1, false, done) > 0);
            CHECK_EQ(o->count + o->ended, done[0].count);
            CHECK(memcmp(o->tokens, done[0].tokens, (size_t)o->count * sizeof(int64_t)) == 0);
            CHECK_NEAR(o->score, done[0].score, 1e-5);
        }
        banned = -1;
        fv_outputs_free(&out);
        fv_outputs_free(&free_one);
    }
    CHECK(changed > 0);
    fv_search_config cfg = toy_config(1, 1);
    toy t = {.first = 0};
    fv_outputs *out = NULL;
    const fv_stepper stepper = toy_stepper(&t);
    cfg.banned = (const int64_t[]){VOCABULARY};
    cfg.banned_count = 1;
    CHECK_EQ(fv_search(ctx, &stepper, 1, (const int64_t[]){MOST}, &cfg, &out), FV_ERR_ARGUMENT);
    fv_ctx_take_error(ctx);
}

static void ban_words(fv_search_config *cfg)
{
    cfg->banned = words;
    cfg->banned_lengths = word_lengths;
    cfg->banned_count = 3;
}

/* How many outputs hold a word. */
static int outputs_with_words(const fv_outputs *out, int64_t sources, int nbest)
{
    int count = 0;
    for (int64_t s = 0; s < sources; s++)
        for (int k = 0; k < nbest; k++) {
            const fv_output *o = fv_outputs_get(out, s, k);
            bool found = false;
            for (int64_t i = 0; i < o->count; i++)
                found = found || completes_word(o->tokens, i, o->tokens[i]);
            count += found;
        }
    return count;
}

/* Words of several tokens: beams, greedy walks and draws, each with its twin that may say them. */
static void banned_words_do_not_come(void)
{
    enum { SOURCES = 30, DRAWS = 8 };
    const int64_t *before[SOURCES], none[SOURCES] = {0};
    int64_t counts[SOURCES];
    for (int i = 0; i < SOURCES; i++) {
        before[i] = prompt_tokens;
        counts[i] = (int64_t)(sizeof prompt_tokens / sizeof *prompt_tokens);
    }
    words_banned = true;
    for (int way = 0; way < 3; way++) { /* beam, greedy, drawn */
        fv_search_config cfg = toy_config(way == 0 ? 3 : 1, way == 2 ? DRAWS : 1);
        toy t = {.first = 0};
        fv_outputs *out = NULL, *with = NULL, *bare = NULL;
        cfg.as_transformers = true;
        cfg.length_alpha = 1;
        cfg.sample = way == 2;
        cfg.prompts = before;
        cfg.prompt_lengths = counts;
        toy_run(ctx, &t, SOURCES, &cfg, &with);
        ban_words(&cfg);
        toy_run(ctx, &t, SOURCES, &cfg, &out);
        CHECK(outputs_with_words(with, SOURCES, cfg.nbest) > 0);
        CHECK_EQ(outputs_with_words(out, SOURCES, cfg.nbest), 0);
        cfg.prompt_lengths = none; /* no prompt: the first token may be what ends a word */
        toy_run(ctx, &t, SOURCES, &cfg, &bare);
        CHECK(outputs_with_words(bare, SOURCES, cfg.nbest) > 0);
        for (int64_t s = 0; way == 0 && s < SOURCES; s++) {
            prefix done[65];
            const fv_output *o = fv_outputs_get(out, s, 0);
            CHECK(plain_beam(s, cfg.beam, 1, false, done) > 0);
            CHECK_EQ(o->count + o->ended, done[0].count);
            CHECK(memcmp(o->tokens, done[0].tokens, (size_t)o->count * sizeof(int64_t)) == 0);
            CHECK_NEAR(o->score, done[0].score, 1e-5);
        }
        for (int64_t s = 0; way == 1 && s < SOURCES; s++) {
            const fv_output *o = fv_outputs_get(out, s, 0);
            int64_t last = START;
            for (int64_t i = 0; i < o->count + o->ended; i++) {
                int64_t best = -1;
                for (int64_t v = 0; v < VOCABULARY; v++)
                    if (!completes_word(o->tokens, i, v) &&
                        (best < 0 || toy_logit(s, i, last, v) > toy_logit(s, i, last, best)))
                        best = v;
                CHECK_EQ(i < o->count ? o->tokens[i] : END, best);
                last = best;
            }
        }
        fv_outputs_free(&out);
        fv_outputs_free(&with);
        fv_outputs_free(&bare);
    }
    words_banned = false;
    fv_search_config cfg = toy_config(1, 1);
    toy t = {.first = 0};
    fv_outputs *out = NULL;
    const fv_stepper stepper = toy_stepper(&t);
    ban_words(&cfg);
    cfg.banned_lengths = (const int[]){2, 0, 3};
    CHECK_EQ(fv_search(ctx, &stepper, 1, (const int64_t[]){MOST}, &cfg, &out), FV_ERR_ARGUMENT);
    fv_ctx_take_error(ctx);
}

/* Whether a run of n tokens would come twice with `token` after the prompt and these. */
static bool repeats_run(const int64_t *before, int64_t prompt_lengths, const int64_t *tokens,
                        int64_t count, int64_t token, int64_t n)
{
    int64_t all[16], total = 0;
    for (int64_t i = 0; i < prompt_lengths; i++)
        all[total++] = before[i];
    for (int64_t i = 0; i < count; i++)
        all[total++] = tokens[i];
    all[total++] = token;
    for (int64_t i = 0; i + n < total; i++)
        if (memcmp(all + i, all + total - n, (size_t)n * sizeof *all) == 0) return true;
    return false;
}

/* Greedy walks where no run of one, two or three tokens may come twice; beams keep to it too. */
static void no_run_comes_twice(void)
{
    enum { SOURCES = 30 };
    static const int64_t prompt[] = {4, 2, 3};
    const int64_t *before[SOURCES];
    int64_t counts[SOURCES], changed = 0;
    for (int i = 0; i < SOURCES; i++) {
        before[i] = prompt;
        counts[i] = i % 4; /* of the prompt's tokens */
    }
    for (int setting = 0; setting < 6; setting++) {
        const int64_t n = 1 + setting % 3;
        fv_search_config cfg = toy_config(setting < 3 ? 1 : 3, 1);
        toy t = {.first = 0};
        fv_outputs *out = NULL, *with = NULL;
        cfg.prompts = before;
        cfg.prompt_lengths = counts;
        toy_run(ctx, &t, SOURCES, &cfg, &with);
        cfg.no_repeat_ngram = n;
        toy_run(ctx, &t, SOURCES, &cfg, &out);
        for (int64_t s = 0; s < SOURCES; s++) {
            const fv_output *o = fv_outputs_get(out, s, 0), *free_one = fv_outputs_get(with, s, 0);
            int64_t last = START;
            for (int64_t i = 0; i < free_one->count; i++)
                changed +=
                    repeats_run(prompt, counts[s], free_one->tokens, i, free_one->tokens[i], n);
            for (int64_t i = 0; i < o->count + o->ended; i++) {
                int64_t best = -1;
                for (int64_t v = 0; v < VOCABULARY; v++)
                    if (!repeats_run(prompt, counts[s], o->tokens, i, v, n) &&
                        (best < 0 || toy_logit(s, i, last, v) > toy_logit(s, i, last, best)))
                        best = v;
                const int64_t token = i < o->count ? o->tokens[i] : END;
                CHECK(!repeats_run(prompt, counts[s], o->tokens, i, token, n));
                if (cfg.beam == 1) CHECK_EQ(token, best);
                last = token;
            }
        }
        fv_outputs_free(&out);
        fv_outputs_free(&with);
    }
    CHECK(changed > 0);
}

/* An end may come once prompt and output together are long enough. */
static void ends_wait_for_the_whole_length(void)
{
    static const int64_t prompt[] = {4, 2, 3};
    const int64_t *before[2] = {prompt, prompt}, counts[2] = {3, 1};
    int64_t shortest[2] = {MOST, MOST};
    for (uint64_t seed = 0; seed < 60; seed++) {
        fv_search_config cfg = toy_config(1, 1);
        toy t = {.first = 0};
        fv_outputs *out = NULL;
        cfg.sample = true;
        cfg.seed = seed;
        cfg.prompts = before;
        cfg.prompt_lengths = counts;
        cfg.min_length = 4;
        toy_run(ctx, &t, 2, &cfg, &out);
        for (int64_t s = 0; s < 2; s++) {
            const fv_output *o = fv_outputs_get(out, s, 0);
            if (o->ended && o->count < shortest[s]) shortest[s] = o->count;
        }
        fv_outputs_free(&out);
    }
    CHECK_EQ(shortest[0], 1);
    CHECK_EQ(shortest[1], 3);
    fv_search_config cfg = toy_config(1, 1);
    toy t = {.first = 0};
    fv_outputs *out = NULL;
    const fv_stepper stepper = toy_stepper(&t);
    cfg.no_repeat_ngram = -1;
    CHECK_EQ(fv_search(ctx, &stepper, 1, (const int64_t[]){MOST}, &cfg, &out), FV_ERR_ARGUMENT);
    fv_ctx_take_error(ctx);
}

/* Greedy with repetitions punished, against a plain walk. */
static void repetitions_are_punished(void)
{
    const int64_t prompt[3] = {2, 4, 2}, *const before[1] = {prompt}, count[1] = {3};
    int changed = 0;
    for (int64_t s = 0; s < 20; s++) {
        fv_search_config cfg = toy_config(1, 1);
        cfg.repetition_penalty = 2;
        cfg.prompts = before;
        cfg.prompt_lengths = count;
        toy t = {.first = s};
        fv_outputs *out = NULL, *plain = NULL;
        toy_run(ctx, &t, 1, &cfg, &out);
        cfg.repetition_penalty = 1;
        toy_run(ctx, &t, 1, &cfg, &plain);
        const fv_output *o = fv_outputs_get(out, 0, 0), *p = fv_outputs_get(plain, 0, 0);
        bool generated[VOCABULARY] = {[2] = true, [4] = true};
        int64_t last = START;
        double sum = 0;
        for (int64_t i = 0; i < o->count + o->ended; i++) {
            int64_t best = 0;
            double most = -INFINITY;
            for (int64_t v = 0; v < VOCABULARY; v++) {
                double x = toy_logit(s, i, last, v);
                if (generated[v]) x = x > 0 ? x / 2 : x * 2;
                if (x > most) {
                    most = x;
                    best = v;
                }
            }
            CHECK_EQ(i < o->count ? o->tokens[i] : END, best);
            sum += toy_log_p(s, i, last, best);
            generated[best] = true;
            last = best;
        }
        CHECK_NEAR(o->log_prob, sum, 1e-5);
        changed += o->count != p->count ||
                   memcmp(o->tokens, p->tokens, (size_t)o->count * sizeof *o->tokens) != 0;
        fv_outputs_free(&out);
        fv_outputs_free(&plain);
    }
    CHECK(changed > 0);
}

static void ends_and_forced_tokens(void)
{
    const int64_t ends[1] = {3};
    for (int beam = 1; beam <= 3; beam += 2) {
        fv_search_config cfg = toy_config(beam, 1);
        cfg.extra_eos = ends;
        cfg.extra_eos_count = 1;
        cfg.forced_first = 4;
        cfg.forced_last = END;
        cfg.min_tokens = 2;
        toy t = {.first = 0};
        fv_outputs *out = NULL;
        toy_run(ctx, &t, 30, &cfg, &out);
        for (int64_t s = 0; s < 30; s++) {
            const fv_output *o = fv_outputs_get(out, s, 0);
            CHECK(o->ended && o->count >= 2 && o->count <= MOST - 1);
            CHECK_EQ(o->tokens[0], 4);
            for (int64_t i = 0; i < o->count; i++)
                CHECK(o->tokens[i] != END && o->tokens[i] != 3);
        }
        fv_outputs_free(&out);
    }
}

typedef struct received {
    int64_t tokens[MOST + 1];
    int64_t count, enough;
} received;

static bool receive(void *user, int64_t source, int sample, int64_t token)
{
    received *h = user;
    CHECK(source == 0 && sample == 0);
    h->tokens[h->count++] = token;
    return h->count < h->enough;
}

/* The callback receives every token in order, and can end the output by returning false. */
static void the_callback_receives_every_token(void)
{
    for (int64_t enough = 1; enough <= MOST + 1; enough++) {
        received h = {.enough = enough};
        fv_search_config cfg = toy_config(1, 1);
        cfg.on_token = receive;
        cfg.on_token_user = &h;
        cfg.min_tokens = MOST;
        toy t = {.first = 2};
        fv_outputs *out = NULL;
        toy_run(ctx, &t, 1, &cfg, &out);
        const fv_output *o = fv_outputs_get(out, 0, 0);
        CHECK_EQ(o->count, enough < MOST ? enough : MOST);
        CHECK_EQ(h.count, o->count);
        CHECK(memcmp(o->tokens, h.tokens, (size_t)o->count * sizeof *h.tokens) == 0);
        fv_outputs_free(&out);
    }
}

/* The model is fed each source's own first token. */
static void sources_start_as_they_like(void)
{
    const int64_t starts[2] = {3, 2}, most[2] = {MOST, MOST};
    for (int beam = 1; beam <= 100; beam += 99) {
        const fv_search_config cfg = toy_config(beam, 1);
        toy t = {.first = 0};
        fv_stepper stepper = toy_stepper(&t);
        stepper.first_tokens = starts;
        fv_outputs *out = NULL;
        CHECK_OK(ctx, fv_search(ctx, &stepper, 2, most, &cfg, &out));
        for (int64_t s = 0; s < 2; s++) {
            const fv_output *o = fv_outputs_get(out, s, 0);
            double sum = 0;
            int64_t last = starts[s];
            for (int64_t i = 0; i < o->count + o->ended; i++) {
                const int64_t token = i < o->count ? o->tokens[i] : END;
                sum += toy_log_p(s, i, last, token);
                last = token;
            }
            CHECK_NEAR(o->log_prob, sum, 1e-5);
        }
        fv_outputs_free(&out);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(the_beam_of_transformers);
    RUN(banned_tokens_do_not_come);
    RUN(banned_words_do_not_come);
    RUN(no_run_comes_twice);
    RUN(ends_wait_for_the_whole_length);
    RUN(repetitions_are_punished);
    RUN(ends_and_forced_tokens);
    RUN(the_callback_receives_every_token);
    RUN(sources_start_as_they_like);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
