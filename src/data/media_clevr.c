/*
 * Questions about generated scenes, after Sort-of-CLEVR (Santoro 2017): a picture has six objects,
 * one of each colour, each a circle or a square. Questions ask about one object, or about how it
 * compares with the others (relational):
 *
 *     what shape is the red object?                        circle, square
 *     is the red object on the left?                       yes, no
 *     is the red object at the top?
 *     what shape is the object nearest to the red one?     circle, square      relational
 *     what shape is the object furthest from the red one?                      relational
 *     how many objects have the shape of the red one?      1 .. 6, with itself relational
 *
 * A scene has twelve examples that follow each other: each kind of question about two colours, with
 * different answers where the scene has such, so that knowing the number of circles is not enough.
 * A question is only asked where its answer is clear: a centre is not in the middle, and two
 * objects of different shapes are not equally far away.
 *
 * The red object decides about the part: with x and y the whole pixels of its centre and
 * s = (x + 3 y) mod 10, `valid` has s = 0, `test` s = 1. So no scene is in two parts.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/draws.h"
#include "data/media.h"

/* A random site that no op uses. */
#define CLEVR_SITE 0x636c657672u

enum { SIDE = 48, MIN_SIDE = 32, MAX_SIDE = 256, CHANNELS = 3, SAMPLES = 4, SHARES = 10 };
typedef enum kind { SHAPE, LEFT, TOP, NEAREST, FURTHEST, SAME, KINDS } kind;
enum { OBJECTS = 6, ASKED = 2, EXAMPLES = KINDS * ASKED };
enum { TRAIN_SCENES = 20000, HELD_OUT_SCENES = 200 };

typedef enum answer { CIRCLE, SQUARE, YES, NO, ONE, ANSWERS = ONE + OBJECTS } answer;

static const double radius = 0.085, margin = 0.03; /* in sides of the picture */

static const char *const answer_names[ANSWERS] = {"circle", "square", "yes", "no", "1",
                                                  "2",      "3",      "4",   "5",  "6"};
static const char *const group_names[] = {"non_relational", "relational"};
static const char *const question_forms[KINDS] = {
    "what shape is the %s object?",
    "is the %s object on the left?",
    "is the %s object at the top?",
    "what shape is the object nearest to the %s one?",
    "what shape is the object furthest from the %s one?",
    "how many objects have the shape of the %s one?"};
static const char *const colour_names[OBJECTS] = {"red",    "green",  "blue",
                                                  "yellow", "purple", "grey"};
static const double colour_values[OBJECTS][CHANNELS] = {{0.86, 0.13, 0.13}, {0.1, 0.62, 0.2},
                                                        {0.15, 0.3, 0.9},   {0.93, 0.8, 0.1},
                                                        {0.6, 0.2, 0.72},   {0.5, 0.5, 0.5}};

typedef struct scene {
    struct {
        bool square;
        double x, y;
    } object[OBJECTS];       /* by colour */
    int asked[KINDS][ASKED]; /* colours */
} scene;

typedef struct clevr {
    fv_ctx *ctx;
    uint64_t seed;
    int64_t side;
    float *values; /* of the scene below */
    size_t value_bytes;
    bool has_scene;
    fv_media_part part;
    int64_t number;
    scene scene;
} clevr;

/* ---- answers -------------------------------------------------------------------------------- */

static double distance(const scene *s, int a, int b)
{
    return hypot(s->object[a].x - s->object[b].x, s->object[a].y - s->object[b].y);
}

/* The object nearest to `from` (sign 1) or furthest from it (sign -1). */
static int extreme(const scene *s, int from, double sign)
{
    int best = -1;
    for (int i = 0; i < OBJECTS; i++)
        if (i != from && (best < 0 || sign * distance(s, from, i) < sign * distance(s, from, best)))
            best = i;
    return best;
}

/* Whether no object of the other shape is about as near, or as far. */
static bool extreme_is_clear(const scene *s, int from, double sign)
{
    const int best = extreme(s, from, sign);
    for (int i = 0; i < OBJECTS; i++)
        if (i != from && s->object[i].square != s->object[best].square &&
            sign * (distance(s, from, i) - distance(s, from, best)) < margin)
            return false;
    return true;
}

static bool is_clear(const scene *s, kind k, int colour)
{
    switch (k) {
    case LEFT:
        return fabs(s->object[colour].x - 0.5) >= margin;
    case TOP:
        return fabs(s->object[colour].y - 0.5) >= margin;
    case NEAREST:
        return extreme_is_clear(s, colour, 1);
    case FURTHEST:
        return extreme_is_clear(s, colour, -1);
    default:
        return true;
    }
}

static answer shape_of(const scene *s, int object)
{
    return s->object[object].square ? SQUARE : CIRCLE;
}

static answer find_answer(const scene *s, kind k, int colour)
{
    int same = 0;
    switch (k) {
    case SHAPE:
        return shape_of(s, colour);
    case LEFT:
        return s->object[colour].x < 0.5 ? YES : NO;
    case TOP:
        return s->object[colour].y < 0.5 ? YES : NO;
    case NEAREST:
        return shape_of(s, extreme(s, colour, 1));
    case FURTHEST:
        return shape_of(s, extreme(s, colour, -1));
    default:
        for (int i = 0; i < OBJECTS; i++)
            same += s->object[i].square == s->object[colour].square ? 1 : 0;
        return (answer)(ONE + same - 1);
    }
}

/* ---- scenes --------------------------------------------------------------------------------- */

static fv_media_part part_of(const scene *s, int64_t side)
{
    const int64_t x = (int64_t)(s->object[0].x * (double)side),
                  y = (int64_t)(s->object[0].y * (double)side), share = (x + 3 * y) % SHARES;
    return share == 0 ? FV_MEDIA_VALID : share == 1 ? FV_MEDIA_TEST : FV_MEDIA_TRAIN;
}

static void draw_object(fv_draws *d, scene *s, int i)
{
    bool is_free;
    s->object[i].square = fv_draws_below(d, 2) == 1;
    do {
        s->object[i].x = fv_draws_between(d, radius + 0.02, 0.98 - radius);
        s->object[i].y = fv_draws_between(d, radius + 0.02, 0.98 - radius);
        is_free = true;
        for (int k = 0; k < i; k++)
            if (distance(s, i, k) < 2.4 * radius) is_free = false;
    } while (!is_free);
}

/* Two different colours whose answers are clear, and differ where the scene has such: then neither
 * the question nor the number of circles gives the answer away. False: there are no two. */
static bool draw_colours(fv_draws *d, scene *s, kind k)
{
    int clear[OBJECTS], other[OBJECTS], count = 0, others = 0;
    for (int i = 0; i < OBJECTS; i++)
        if (is_clear(s, k, i)) clear[count++] = i;
    if (count < ASKED) return false;
    const int at = (int)fv_draws_below(d, count), first = clear[at];
    clear[at] = clear[--count];
    for (int i = 0; i < count; i++)
        if (find_answer(s, k, clear[i]) != find_answer(s, k, first)) other[others++] = clear[i];
    s->asked[k][0] = first;
    s->asked[k][1] =
        others > 0 ? other[fv_draws_below(d, others)] : clear[fv_draws_below(d, count)];
    return true;
}

static scene draw_scene(fv_draws *d, fv_media_part part, int64_t side)
{
    scene s;
    bool fits;
    do {
        for (int i = 0; i < OBJECTS; i++)
            draw_object(d, &s, i);
        fits = part_of(&s, side) == part;
        for (kind k = 0; fits && k < KINDS; k++)
            fits = draw_colours(d, &s, k);
    } while (!fits);
    return s;
}

/* ---- pixels --------------------------------------------------------------------------------- */

/* The share of a pixel that an object covers. */
static double cover(const scene *s, int i, double side, int64_t px, int64_t py)
{
    int hits = 0;
    for (int k = 0; k < SAMPLES * SAMPLES; k++) {
        const double x = ((double)px + (k % SAMPLES + 0.5) / SAMPLES) / side - s->object[i].x,
                     y = ((double)py + (k / SAMPLES + 0.5) / SAMPLES) / side - s->object[i].y;
        const bool inside = s->object[i].square ? fmax(fabs(x), fabs(y)) <= 0.9 * radius
                                                : x * x + y * y <= radius * radius;
        hits += inside ? 1 : 0;
    }
    return (double)hits / (SAMPLES * SAMPLES);
}

static void paint_object(const clevr *c, int i)
{
    const int64_t side = c->side, plane = side * side;
    const double cx = c->scene.object[i].x, cy = c->scene.object[i].y, wide = (double)side;
    const int64_t x0 = (int64_t)floor((cx - radius) * wide),
                  x1 = (int64_t)ceil((cx + radius) * wide),
                  y0 = (int64_t)floor((cy - radius) * wide),
                  y1 = (int64_t)ceil((cy + radius) * wide);
    for (int64_t y = y0; y < y1; y++) /* objects lie inside the picture */
        for (int64_t x = x0; x < x1; x++) {
            const double share = cover(&c->scene, i, wide, x, y);
            for (int k = 0; k < CHANNELS && share > 0; k++) {
                float *at = &c->values[k * plane + y * side + x];
                *at = (float)((1 - share) * (double)*at + share * colour_values[i][k]);
            }
        }
}

static void paint(const clevr *c)
{
    const int64_t count = CHANNELS * c->side * c->side;
    for (int64_t i = 0; i < count; i++)
        c->values[i] = 0.95F;
    for (int i = 0; i < OBJECTS; i++)
        paint_object(c, i);
}

/* ---- opening and reading examples --------------------------------------------------------------
 */

static void close_set(void *self)
{
    clevr *c = self;
    if (c->values) fv_mem_free(&c->ctx->mem, c->values, c->value_bytes);
    fv_mem_free(&c->ctx->mem, c, sizeof *c);
}

static fv_status open_set(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts,
                          void **self)
{
    static const int64_t usual[FV_MEDIA_PARTS] = {
        TRAIN_SCENES * EXAMPLES, HELD_OUT_SCENES * EXAMPLES, HELD_OUT_SCENES * EXAMPLES};
    const int64_t side = cfg->size ? cfg->size : SIDE;
    FV_RETURN_IF(side < MIN_SIDE || side > MAX_SIDE, ctx, FV_ERR_ARGUMENT,
                 "media set clevr: size %lld, expected %d to %d", (long long)side, MIN_SIDE,
                 MAX_SIDE);
    clevr *c = fv_mem_zalloc(&ctx->mem, sizeof *c);
    FV_RETURN_IF(!c, ctx, FV_ERR_MEMORY, "no memory for media set clevr");
    *self = c;
    *c = (clevr){.ctx = ctx, .seed = cfg->seed, .side = side};
    c->value_bytes = (size_t)(CHANNELS * side * side) * sizeof *c->values;
    c->values = fv_mem_alloc(&ctx->mem, c->value_bytes);
    FV_RETURN_IF(!c->values, ctx, FV_ERR_MEMORY, "no memory for a picture");
    *facts = (fv_media_facts){.field = "pixels",
                              .rank = 3,
                              .shape = {CHANNELS, side, side},
                              .longest = 1,
                              .labels = answer_names,
                              .label_count = ANSWERS,
                              .has_questions = true,
                              .groups = group_names,
                              .group_count = 2};
    return fv_media_choose_counts(ctx, cfg, usual, facts);
}

/* The scene that is there already is neither drawn nor painted again. */
static void find_scene(clevr *c, fv_media_part part, int64_t number)
{
    if (c->has_scene && c->part == part && c->number == number) return;
    fv_draws d = fv_draws_begin(fv_rng_key(c->seed, (uint64_t)part, CLEVR_SITE), (uint64_t)number);
    c->scene = draw_scene(&d, part, c->side);
    c->part = part;
    c->number = number;
    c->has_scene = true;
    paint(c);
}

static fv_status get(void *self, fv_media_part part, int64_t number, const fv_media_draw *draw,
                     fv_media_example *out)
{
    clevr *c = self;
    (void)draw; /* there are as many scenes as are asked for: none is changed */
    find_scene(c, part, number / EXAMPLES);
    const kind k = (kind)(number % KINDS);
    const int colour = c->scene.asked[k][number % EXAMPLES / KINDS];
    out->values = c->values;
    out->picture = number / EXAMPLES;
    out->group = k >= NEAREST ? 1 : 0;
    out->label = (int64_t)find_answer(&c->scene, k, colour);
    snprintf(out->question, sizeof out->question, question_forms[k], colour_names[colour]);
    snprintf(out->text, sizeof out->text, "%s", answer_names[out->label]);
    return FV_OK;
}

const fv_media_kind fv_media_clevr = {
    .name = "clevr",
    .summary = "generated pictures of six objects, with questions about them",
    .open = open_set,
    .get = get,
    .close = close_set,
};
