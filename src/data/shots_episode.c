/* Episodes of few-shot learning, and the nearest class mean of their pixels. */
#include <math.h>
#include <string.h>

#include "data/draws.h"
#include "data/shots.h"

enum { MOST_CLASSES = 1 << 16, MOST_DRAWINGS = 64 };

#define SITE_EPISODE 0x65706973u
#define SITE_MOVE    0x6d6f7665u
#define SITE_RUN     0x72756e73u

/* ---- room ----------------------------------------------------------------------------------- */

static fv_status make_room(fv_ctx *ctx, int64_t ways, int64_t examples, int64_t queries,
                           fv_shots_episode *e)
{
    const size_t drawings = (size_t)(examples + queries),
                 pixels = drawings * FV_SHOTS_PIXELS * sizeof(float),
                 bytes = pixels + (drawings + (size_t)ways) * sizeof(int64_t);
    char *memory = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!memory, ctx, FV_ERR_MEMORY, "no memory for an episode of %zu drawings", drawings);
    *e = (fv_shots_episode){.ways = ways,
                            .examples = examples,
                            .queries = queries,
                            .pixels = (float *)(void *)memory,
                            .labels = (int64_t *)(void *)(memory + pixels),
                            .classes = (int64_t *)(void *)(memory + pixels) + drawings,
                            .bytes = bytes};
    return FV_OK;
}

void fv_shots_episode_free(fv_ctx *ctx, fv_shots_episode *e)
{
    if (e->pixels) fv_mem_free(&ctx->mem, e->pixels, e->bytes);
    *e = (fv_shots_episode){.ways = 0};
}

static void shuffle(fv_draws *d, int64_t n, int64_t *x)
{
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t k = fv_draws_below(d, i + 1), kept = x[i];
        x[i] = x[k];
        x[k] = kept;
    }
}

static void count_up(int64_t n, int64_t *x)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = i;
}

/* ---- drawings ------------------------------------------------------------------------------- */

/* Ink at a place between pixels; outside there is none. */
static double ink_at(const uint8_t *ink, double y, double x)
{
    const double row = floor(y), col = floor(x);
    double sum = 0;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            const double at_y = row + i, at_x = col + j;
            if (at_y < 0 || at_x < 0 || at_y >= FV_SHOTS_SIDE || at_x >= FV_SHOTS_SIDE) continue;
            sum += ink[(int)at_y * FV_SHOTS_SIDE + (int)at_x] * (1 - fabs(y - at_y)) *
                   (1 - fabs(x - at_x));
        }
    return sum;
}

/* Rotated by a quarter `quarters` times, counter-clockwise. */
static void rotate(const uint8_t *ink, int64_t quarters, uint8_t *out)
{
    enum { LAST = FV_SHOTS_SIDE - 1 };
    for (int i = 0; i < FV_SHOTS_SIDE; i++)
        for (int j = 0; j < FV_SHOTS_SIDE; j++) {
            const int rows[] = {i, j, LAST - i, LAST - j}, cols[] = {j, LAST - i, LAST - j, i};
            out[i * FV_SHOTS_SIDE + j] = ink[rows[quarters] * FV_SHOTS_SIDE + cols[quarters]];
        }
}

static void put_drawing(const uint8_t *ink, float *out)
{
    for (int k = 0; k < FV_SHOTS_PIXELS; k++)
        out[k] = (float)ink[k] * (float)(1.0 / 255.0);
}

/* The same, moved as the rule says. */
static void put_moved(const fv_shots_rule *rule, fv_draws *d, const uint8_t *ink, float *out)
{
    const double middle = (FV_SHOTS_SIDE - 1) / 2.0;
    const double angle = fv_draws_between(d, -rule->warp, rule->warp),
                 wide = exp(fv_draws_between(d, -rule->warp / 2, rule->warp / 2)),
                 high = exp(fv_draws_between(d, -rule->warp / 2, rule->warp / 2)),
                 shear = fv_draws_between(d, -rule->warp / 2, rule->warp / 2),
                 dx = fv_draws_between(d, -rule->shift, rule->shift),
                 dy = fv_draws_between(d, -rule->shift, rule->shift);
    const double c = cos(angle), s = sin(angle);
    for (int i = 0; i < FV_SHOTS_SIDE; i++)
        for (int j = 0; j < FV_SHOTS_SIDE; j++) {
            const double y = (i - middle - dy) * high, x = (j - middle - dx) * wide + shear * y;
            out[i * FV_SHOTS_SIDE + j] =
                (float)(ink_at(ink, middle + c * y - s * x, middle + s * y + c * x) *
                        (1.0 / 255.0));
        }
}

/* ---- classes -------------------------------------------------------------------------------- */

/* The classes that an episode may have: character * 4 + rotation. */
typedef struct pool {
    int64_t count;
    int64_t list[MOST_CLASSES];
} pool;

/* All classes of the part; of one alphabet unless that is -1; of one rotation unless that is -1. */
static void fill_pool(const fv_shots *s, fv_shots_part part, int64_t alphabet, int64_t rotation,
                      pool *out)
{
    out->count = 0;
    for (int64_t i = 0; i < s->characters; i++) {
        const fv_shots_character *c = &s->character[i];
        if (c->part != part || (alphabet >= 0 && c->alphabet != alphabet)) continue;
        for (int64_t r = 0; r < FV_SHOTS_ROTATIONS && out->count < MOST_CLASSES; r++)
            if (rotation < 0 || r == rotation) out->list[out->count++] = i * FV_SHOTS_ROTATIONS + r;
    }
}

/* The pool of an episode like a one-shot run; false: the alphabet has too few classes. */
static bool fill_within(const fv_shots *s, const fv_shots_rule *rule, fv_draws *d, pool *out)
{
    const int64_t alphabet = fv_draws_below(d, s->alphabets),
                  rotation = fv_draws_below(d, FV_SHOTS_ROTATIONS);
    fill_pool(s, rule->part, alphabet, rotation, out);
    if (out->count < rule->ways) fill_pool(s, rule->part, alphabet, -1, out);
    return out->count >= rule->ways;
}

/* ---- an episode ----------------------------------------------------------------------------- */

/* The classes of an episode, their labels, and whose drawings are shown. */
typedef struct plan {
    int64_t classes, class_of[FV_SHOTS_MOST_WAYS];
    int64_t label[FV_SHOTS_MOST_WAYS];                  /* of each class; the others are not used */
    int64_t drawing[FV_SHOTS_MOST_WAYS][MOST_DRAWINGS]; /* of each class, in random order */
    int64_t asked[FV_SHOTS_MOST_WAYS];                  /* queries of each class so far */
    int64_t order[FV_SHOTS_MOST];                       /* of the examples */
} plan;

typedef struct work {
    pool pool;
    plan plan;
} work;

static int64_t classes_of(const fv_shots_rule *r) { return r->classes ? r->classes : r->ways; }

/* Examples of a class, the i-th of the episode. */
static int64_t examples_of(const fv_shots_rule *r, int64_t i)
{
    const int64_t all = r->ways * r->shots, classes = classes_of(r);
    return all / classes + (i < all % classes);
}

static fv_status check_rule(const fv_shots *s, const fv_shots_rule *r)
{
    const bool fits = r->ways >= 2 && r->ways <= FV_SHOTS_MOST_WAYS && r->shots >= 1 &&
                      r->shots < s->drawings && r->queries >= 1 && r->queries <= FV_SHOTS_MOST &&
                      r->ways * r->shots + r->queries <= FV_SHOTS_MOST && r->part >= 0 &&
                      r->part < FV_SHOTS_PARTS && r->within >= 0 && r->within <= 1 &&
                      r->shift >= 0 && r->warp >= 0 && r->warp < 1 && r->classes >= 0 &&
                      r->classes <= r->ways && r->classes != 1 && examples_of(r, 0) < s->drawings;
    FV_RETURN_IF(!fits, s->ctx, FV_ERR_ARGUMENT,
                 "an episode of %lld classes with %lld examples each and %lld queries: expected 2 "
                 "to %d classes, 1 to %lld examples, and at most %d drawings",
                 (long long)r->ways, (long long)r->shots, (long long)r->queries,
                 (int)FV_SHOTS_MOST_WAYS, (long long)s->drawings - 1, (int)FV_SHOTS_MOST);
    return FV_OK;
}

/* Chooses the classes and the order of their drawings: in an episode like a one-shot run every
 * class has the same drawers. */
static fv_status make_plan(const fv_shots *s, const fv_shots_rule *rule, fv_draws *d, work *w)
{
    plan *p = &w->plan;
    const bool within = fv_draws_unit(d) < rule->within && fill_within(s, rule, d, &w->pool);
    if (!within) fill_pool(s, rule->part, -1, -1, &w->pool);
    p->classes = classes_of(rule);
    FV_RETURN_IF(w->pool.count < p->classes, s->ctx, FV_ERR_ARGUMENT,
                 "%lld classes are asked for, but the part has %lld", (long long)p->classes,
                 (long long)w->pool.count);
    for (int64_t i = 0; i < p->classes; i++) {
        const int64_t k = i + fv_draws_below(d, w->pool.count - i), kept = w->pool.list[i];
        p->class_of[i] = w->pool.list[k];
        w->pool.list[k] = kept;
        p->asked[i] = 0;
        count_up(s->drawings, p->drawing[i]);
        if (i == 0 || !within)
            shuffle(d, s->drawings, p->drawing[i]);
        else
            memcpy(p->drawing[i], p->drawing[0], sizeof p->drawing[i]);
    }
    count_up(rule->ways, p->label);
    shuffle(d, rule->ways, p->label);
    count_up(rule->ways * rule->shots, p->order);
    shuffle(d, rule->ways * rule->shots, p->order);
    return FV_OK;
}

static void put(const fv_shots *s, const fv_shots_rule *rule, uint64_t number, const plan *p,
                int64_t i, int64_t nth, int64_t at, fv_shots_episode *e)
{
    const int64_t class = p->class_of[i], drawing = p->drawing[i][nth];
    const uint8_t *ink =
        s->ink + (class / FV_SHOTS_ROTATIONS * s->drawings + drawing) * FV_SHOTS_PIXELS;
    uint8_t rotated[FV_SHOTS_PIXELS];
    float *out = e->pixels + at * FV_SHOTS_PIXELS;
    rotate(ink, class % FV_SHOTS_ROTATIONS, rotated);
    fv_draws d = fv_draws_begin(fv_rng_key(rule->seed, number, SITE_MOVE + (uint64_t)rule->part),
                                (uint64_t)at);
    if (rule->shift > 0 || rule->warp > 0)
        put_moved(rule, &d, rotated, out);
    else
        put_drawing(rotated, out);
    e->labels[at] = p->label[i];
}

static void put_all(const fv_shots *s, const fv_shots_rule *rule, uint64_t number, fv_draws *d,
                    plan *p, fv_shots_episode *e)
{
    for (int64_t i = 0; i < e->ways; i++)
        e->classes[i] = -1;
    for (int64_t i = 0; i < p->classes; i++)
        e->classes[p->label[i]] = p->class_of[i];
    for (int64_t i = 0; i < e->examples; i++)
        put(s, rule, number, p, p->order[i] % p->classes, p->order[i] / p->classes, i, e);
    for (int64_t q = 0; q < e->queries; q++) {
        const int64_t i = fv_draws_below(d, p->classes), shown = examples_of(rule, i);
        const int64_t nth = shown + p->asked[i]++ % (s->drawings - shown);
        put(s, rule, number, p, i, nth, e->examples + q, e);
    }
}

fv_status fv_shots_episode_make(const fv_shots *s, const fv_shots_rule *rule, uint64_t number,
                                fv_shots_episode *out)
{
    fv_ctx *ctx = s->ctx;
    fv_shots_episode e = {.ways = 0};
    FV_TRY(check_rule(s, rule));
    work *w = fv_mem_alloc(&ctx->mem, sizeof *w);
    FV_RETURN_IF(!w, ctx, FV_ERR_MEMORY, "no memory for an episode");
    fv_draws d = fv_draws_begin(fv_rng_key(rule->seed, (uint64_t)rule->part, SITE_EPISODE), number);
    fv_status status = make_plan(s, rule, &d, w);
    if (status == FV_OK)
        status = make_room(ctx, rule->ways, rule->ways * rule->shots, rule->queries, &e);
    if (status == FV_OK) {
        put_all(s, rule, number, &d, &w->plan, &e);
        *out = e;
    }
    fv_mem_free(&ctx->mem, w, sizeof *w);
    return status;
}

fv_status fv_shots_run_make(const fv_shots *s, uint64_t seed, int64_t run, uint64_t order,
                            fv_shots_episode *out)
{
    enum { N = FV_SHOTS_RUN_WAYS };
    int64_t label[N], place[N];
    FV_RETURN_IF(run < 0 || run >= s->runs, s->ctx, FV_ERR_ARGUMENT,
                 "there is no one-shot run %lld, expected 0 to %lld", (long long)run,
                 (long long)s->runs - 1);
    FV_TRY(make_room(s->ctx, N, N, N, out));
    fv_draws d = fv_draws_begin(fv_rng_key(seed, (uint64_t)run, SITE_RUN), order);
    count_up(N, label);
    shuffle(&d, N, label);
    count_up(N, place);
    shuffle(&d, N, place);
    const uint8_t *ink = s->run_ink + run * 2 * N * FV_SHOTS_PIXELS;
    for (int64_t i = 0; i < N; i++) {
        put_drawing(ink + i * FV_SHOTS_PIXELS, out->pixels + place[i] * FV_SHOTS_PIXELS);
        out->labels[place[i]] = label[i];
        out->classes[label[i]] = i;
        put_drawing(ink + (N + i) * FV_SHOTS_PIXELS, out->pixels + (N + i) * FV_SHOTS_PIXELS);
        out->labels[N + i] = label[s->run_answer[run * N + i]];
    }
    return FV_OK;
}

/* ---- the nearest class mean ----------------------------------------------------------------- */

/* The squared distance of a query to the mean of a class; INFINITY: it has no example. */
static double distance(const fv_shots_episode *e, const float *query, int64_t label)
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < e->examples; i++)
        count += e->labels[i] == label;
    if (count == 0) return INFINITY;
    for (int64_t k = 0; k < FV_SHOTS_PIXELS; k++) {
        double mean = 0;
        for (int64_t i = 0; i < e->examples; i++)
            if (e->labels[i] == label) mean += (double)e->pixels[i * FV_SHOTS_PIXELS + k];
        const double apart = (double)query[k] - mean / (double)count;
        sum += apart * apart;
    }
    return sum;
}

int64_t fv_shots_nearest(const fv_shots_episode *e, int64_t query)
{
    const float *pixels = e->pixels + (e->examples + query) * FV_SHOTS_PIXELS;
    int64_t best = 0;
    double least = INFINITY;
    for (int64_t label = 0; label < e->ways; label++) {
        const double d = distance(e, pixels, label);
        if (d < least) {
            least = d;
            best = label;
        }
    }
    return best;
}
