/*
 * The rule of fovea/search.h for beams, against a plain walk that sorts every continuation: which
 * outputs come, in which order, and after how many steps the search ends. It ends as soon as no
 * continuation could enter the list, whatever its length, and not before.
 */
#include "support/test.h"
#include "support/toy.h"

static fv_ctx *ctx;

typedef struct prefix {
    int64_t tokens[MOST];
    int64_t count; /* the end included */
    double sum, score;
    int order; /* of equal ones, the first stays first */
    bool ended;
} prefix;

static int by_sum(const void *a, const void *b)
{
    const prefix *x = a, *y = b;
    if (x->sum != y->sum) return x->sum < y->sum ? 1 : -1;
    return x->order - y->order;
}

static int by_score(const void *a, const void *b)
{
    const prefix *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->order - y->order;
}

static bool flat; /* every token is as likely as any other */

static double log_p(int64_t source, int64_t place, int64_t last, int64_t token)
{
    return flat ? (double)-logf(VOCABULARY) : toy_log_p(source, place, last, token);
}

static double penalty(const fv_search_config *cfg, int64_t tokens)
{
    return pow((5.0 + (double)tokens) / 6.0, cfg->length_alpha);
}

static double score_of(const fv_search_config *cfg, int64_t source, const prefix *p)
{
    double score = p->sum / penalty(cfg, p->count);
    for (int64_t i = 0; i < POSITIONS && cfg->coverage_beta != 0; i++) {
        double sum = 0;
        for (int64_t t = 0; t < p->count; t++)
            sum += (double)(float)toy_weight(source, t ? p->tokens[t - 1] : START, i);
        if (sum < 1) score += cfg->coverage_beta * log(sum);
    }
    return score;
}

/* The outputs found so far: the nbest ones, best first. */
typedef struct found {
    prefix list[VOCABULARY * VOCABULARY];
    int count, added;
} found;

static void add(const fv_search_config *cfg, int64_t source, found *f, prefix p, bool ended)
{
    p.ended = ended;
    p.score = score_of(cfg, source, &p);
    p.order = f->added++;
    f->list[f->count++] = p;
    qsort(f->list, (size_t)f->count, sizeof *f->list, by_score);
    if (f->count > cfg->nbest) f->count = cfg->nbest;
}

/* Every continuation of the live prefixes, most likely first. */
static int continuations(const fv_search_config *cfg, int64_t source, const prefix *live, int lives,
                         prefix *next)
{
    int n = 0;
    for (int i = 0; i < lives; i++)
        for (int64_t v = 0; v < VOCABULARY; v++) {
            const int64_t place = live[i].count;
            if (v == END && place < cfg->min_tokens) continue;
            prefix p = live[i];
            p.sum += (double)(float)log_p(source, place, place ? p.tokens[place - 1] : START, v);
            p.tokens[p.count++] = v;
            p.order = n;
            next[n++] = p;
        }
    qsort(next, (size_t)n, sizeof *next, by_sum);
    return n;
}

/* Whether a continuation of `p`, of any length there is room for, could enter the list. */
static bool can_enter(const fv_search_config *cfg, const prefix *p, const found *f)
{
    if (f->count < cfg->nbest) return true;
    for (int64_t length = p->count + 1; length <= MOST; length++)
        if (p->sum / penalty(cfg, length) > f->list[cfg->nbest - 1].score) return true;
    return false;
}

/* Returns the number of steps. */
static int plain_search(const fv_search_config *cfg, int64_t source, found *f)
{
    static prefix live[8], next[8 * VOCABULARY];
    int lives = 1, steps = 0;
    f->count = f->added = 0;
    live[0] = (prefix){.count = 0};
    while (lives > 0) {
        const int n = continuations(cfg, source, live, lives, next);
        steps++;
        lives = 0;
        for (int i = 0; i < n; i++) {
            const bool ends = next[i].tokens[next[i].count - 1] == END;
            if (ends && i < cfg->beam) add(cfg, source, f, next[i], true);
            if (!ends && lives < cfg->beam) live[lives++] = next[i];
        }
        const bool full = steps == MOST;
        for (int i = 0; full && i < lives && f->count < cfg->nbest; i++)
            add(cfg, source, f, live[i], false);
        if (full || (lives > 0 && !can_enter(cfg, &live[0], f))) lives = 0;
    }
    return steps;
}

static int early, late; /* searches that end before the last step, and in it */

static void compare(const fv_search_config *cfg, int64_t source)
{
    static found f;
    toy t = {.first = source, .flat = flat};
    fv_outputs *out = NULL;
    toy_run(ctx, &t, 1, cfg, &out);
    const int steps = plain_search(cfg, source, &f);
    if (t.steps != steps)
        test_failed(__FILE__, __LINE__,
                    "source %lld, beam %d, nbest %d, alpha %g, beta %g: %d steps, not %d",
                    (long long)source, cfg->beam, cfg->nbest, cfg->length_alpha, cfg->coverage_beta,
                    t.steps, steps);
    *(steps < MOST ? &early : &late) += 1;
    for (int k = 0; k < f.count; k++) {
        const fv_output *o = fv_outputs_get(out, 0, k);
        CHECK(o != NULL);
        if (!o) continue;
        CHECK_EQ(o->count + o->ended, f.list[k].count);
        CHECK_EQ(o->ended, f.list[k].ended);
        CHECK(memcmp(o->tokens, f.list[k].tokens, (size_t)o->count * sizeof *o->tokens) == 0);
        CHECK_NEAR(o->score, f.list[k].score, 1e-5);
        CHECK_NEAR(o->log_prob, f.list[k].sum, 1e-5);
    }
    CHECK(fv_outputs_get(out, 0, f.count) == NULL);
    fv_outputs_free(&out);
}

static void every_step_of_the_rule(void)
{
    static const double alpha[] = {0, 0.6, 1, 3, -1}, beta[] = {0, 0.3};
    for (int beam = 2; beam <= 5; beam++)
        for (int nbest = 1; nbest <= beam; nbest++)
            for (int s = 0; s < 10; s++) {
                fv_search_config cfg = toy_config(beam, nbest);
                cfg.length_alpha = alpha[s % 5];
                cfg.coverage_beta = beta[s / 5];
                cfg.min_tokens = (beam + nbest) % 3;
                for (int64_t source = 0; source < 25; source++)
                    compare(&cfg, source);
            }
    CHECK(early > 100 && late > 100); /* both are common, so either mistake shows */
}

/* Of outputs with one score, that which was found first comes first. */
static void equal_scores(void)
{
    flat = true;
    for (int beam = 2; beam <= 5; beam++)
        for (int nbest = 1; nbest <= beam; nbest++) {
            fv_search_config cfg = toy_config(beam, nbest);
            cfg.length_alpha = 1.5;
            compare(&cfg, 0);
        }
    flat = false;
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(every_step_of_the_rule);
    RUN(equal_scores);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
