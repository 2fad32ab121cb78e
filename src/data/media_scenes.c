/*
 * Scenes: generated colour pictures of two or three shapes, with the one caption that is right for
 * them. Shapes are named from the left to the right, each with its size, colour and form, and with
 * where it is to the next one:
 *
 *     a small red circle left of a large blue square above a small white cross
 *
 * "left of" where the next one is further to the right than up or down, else "above" or "below".
 * Centres keep a distance in which all of this is clear. Words are counted from 0; the places are
 * those of the words of colour and form, as boxes around their shape.
 *
 * A combination is a form, a colour and one of the nine regions (3 x 3) that has the centre. For
 * every form and colour one region belongs to `test` and another one to `valid` (region_of_part);
 * the shapes of a held-out scene all lie in the region of their part, those of training scenes
 * never do. So no combination of one part is in another, while each form, colour and pair of them
 * is in all.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/draws.h"
#include "data/media.h"

/* A random site that no op uses. */
#define SCENE_SITE 0x7363656e6573u

enum { SIDE = 48, MIN_SIDE = 32, MAX_SIDE = 256, CHANNELS = 3, SAMPLES = 4, MOST = 3 };
enum { TRAIN_COUNT = 20000, HELD_OUT = 500 };

typedef enum form { CIRCLE, SQUARE, TRIANGLE, DIAMOND, CROSS, FORMS } form;
typedef enum colour { RED, GREEN, BLUE, YELLOW, PURPLE, WHITE, COLOURS } colour;

enum { REGIONS = 9 };

static const char *const form_names[FORMS] = {"circle", "square", "triangle", "diamond", "cross"};
static const char *const colour_names[COLOURS] = {"red",    "green",  "blue",
                                                  "yellow", "purple", "white"};
static const double colour_values[COLOURS][CHANNELS] = {{0.88, 0.12, 0.12}, {0.12, 0.7, 0.2},
                                                        {0.15, 0.3, 0.92},  {0.92, 0.85, 0.12},
                                                        {0.65, 0.18, 0.78}, {0.94, 0.94, 0.94}};

typedef struct object {
    form form;
    colour colour;
    bool large;
    double x, y, radius; /* in sides of the picture */
    double shade[CHANNELS];
} object;

typedef struct scene {
    int count;
    object object[MOST]; /* from left to right */
} scene;

typedef struct scene_set {
    fv_ctx *ctx;
    uint64_t seed;
    int64_t side;
    float *values;
    size_t value_bytes;
} scene_set;

/* ---- the parts ------------------------------------------------------------------------------ */

/* The region that a form and a colour have in a held-out part only. */
static int region_of_part(form f, colour c, fv_media_part part)
{
    return (2 * (int)f + 5 * (int)c + (part == FV_MEDIA_VALID ? 4 : 0)) % REGIONS;
}

static int region_at(double x, double y) { return 3 * (int)(3 * y) + (int)(3 * x); }

static bool belongs(const object *o, fv_media_part part)
{
    const int region = region_at(o->x, o->y);
    if (part != FV_MEDIA_TRAIN) return region == region_of_part(o->form, o->colour, part);
    return region != region_of_part(o->form, o->colour, FV_MEDIA_TEST) &&
           region != region_of_part(o->form, o->colour, FV_MEDIA_VALID);
}

/* ---- drawing numbers ------------------------------------------------------------------------ */

static object draw_object(fv_draws *d, fv_media_part part)
{
    object o;
    o.form = (form)fv_draws_below(d, FORMS);
    o.colour = (colour)fv_draws_below(d, COLOURS);
    o.large = fv_draws_below(d, 2) == 1;
    o.radius = o.large ? fv_draws_between(d, 0.15, 0.175) : fv_draws_between(d, 0.09, 0.11);
    for (int c = 0; c < CHANNELS; c++)
        o.shade[c] = colour_values[o.colour][c] + fv_draws_between(d, -0.06, 0.06);
    do { /* one region in nine fits at least, and holds a twentieth of a large shape's places */
        o.x = fv_draws_between(d, o.radius + 0.02, 0.98 - o.radius);
        o.y = fv_draws_between(d, o.radius + 0.02, 0.98 - o.radius);
    } while (!belongs(&o, part));
    return o;
}

/* How an object is to the next one; NULL: that is not clear. */
static const char *relation(const object *a, const object *b)
{
    const double clear = 0.06, right = b->x - a->x, down = b->y - a->y;
    if (right < clear) return NULL;
    if (right >= fabs(down) + clear) return "left of";
    if (fabs(down) < right + clear) return NULL;
    return down > 0 ? "above" : "below";
}

static bool apart(const object *a, const object *b)
{
    return hypot(a->x - b->x, a->y - b->y) > 1.2 * (a->radius + b->radius) + 0.02;
}

static void sort_by_place(scene *s)
{
    for (int i = 1; i < s->count; i++)
        for (int j = i; j > 0 && s->object[j].x < s->object[j - 1].x; j--) {
            const object o = s->object[j];
            s->object[j] = s->object[j - 1];
            s->object[j - 1] = o;
        }
}

static bool is_clear(const scene *s)
{
    for (int i = 0; i < s->count; i++) {
        for (int j = 0; j < i; j++)
            if (!apart(&s->object[i], &s->object[j])) return false;
        if (i > 0 && !relation(&s->object[i - 1], &s->object[i])) return false;
    }
    return true;
}

/* Draws again until everything is clear: about one time in six it is. */
static scene draw_scene(fv_draws *d, fv_media_part part)
{
    scene s;
    s.count = 2 + (int)fv_draws_below(d, 2);
    do {
        for (int i = 0; i < s.count; i++)
            s.object[i] = draw_object(d, part);
        sort_by_place(&s);
    } while (!is_clear(&s));
    return s;
}

/* ---- pixels --------------------------------------------------------------------------------- */

/* Whether a point that lies (x, y) from the centre, in radii, belongs to a form. */
static bool inside(form f, double x, double y)
{
    const double wide = fmax(fabs(x), fabs(y));
    switch (f) {
    case CIRCLE:
        return x * x + y * y <= 1;
    case SQUARE:
        return wide <= 0.85;
    case TRIANGLE:
        return fabs(x) <= (y + 1) / 2 && y <= 0.9;
    case DIAMOND:
        return fabs(x) + fabs(y) <= 1.1;
    default:
        return wide <= 1 && fmin(fabs(x), fabs(y)) <= 0.3;
    }
}

/* The share of a pixel that a shape covers. */
static double cover(const object *o, double side, int64_t px, int64_t py)
{
    int hits = 0;
    for (int i = 0; i < SAMPLES * SAMPLES; i++) {
        const double x = (double)px + (i % SAMPLES + 0.5) / SAMPLES,
                     y = (double)py + (i / SAMPLES + 0.5) / SAMPLES;
        hits +=
            inside(o->form, (x / side - o->x) / o->radius, (y / side - o->y) / o->radius) ? 1 : 0;
    }
    return (double)hits / (SAMPLES * SAMPLES);
}

static void paint_object(const scene_set *s, const object *o)
{
    const int64_t side = s->side, plane = side * side;
    const double reach = 1.15 * o->radius;
    const int64_t x0 = (int64_t)fmax(0, floor((o->x - reach) * (double)side)),
                  y0 = (int64_t)fmax(0, floor((o->y - reach) * (double)side)),
                  x1 = (int64_t)fmin((double)side, ceil((o->x + reach) * (double)side)),
                  y1 = (int64_t)fmin((double)side, ceil((o->y + reach) * (double)side));
    for (int64_t y = y0; y < y1; y++)
        for (int64_t x = x0; x < x1; x++) {
            const double share = cover(o, (double)side, x, y);
            for (int c = 0; c < CHANNELS && share > 0; c++) {
                float *at = &s->values[c * plane + y * side + x];
                *at = (float)((1 - share) * (double)*at + share * o->shade[c]);
            }
        }
}

/* A dark ground, the shapes, and a little noise on both. */
static void paint(const scene_set *s, const scene *what, fv_draws *d)
{
    const int64_t plane = s->side * s->side;
    const double ground = fv_draws_between(d, 0.08, 0.3);
    for (int64_t i = 0; i < CHANNELS * plane; i++)
        s->values[i] = (float)ground;
    for (int i = 0; i < what->count; i++)
        paint_object(s, &what->object[i]);
    for (int64_t i = 0; i < plane; i++) {
        const float noise = (float)fv_draws_between(d, -0.03, 0.03);
        for (int c = 0; c < CHANNELS; c++)
            s->values[c * plane + i] = fminf(1, fmaxf(0, s->values[c * plane + i] + noise));
    }
}

/* ---- texts ---------------------------------------------------------------------------------- */

enum { COLOUR_WORD = 2, FORM_WORD = 3, OBJECT_WORDS = 4 };

static void add_places(const object *o, double side, int first, fv_media_example *out)
{
    const fv_media_place box = {.x0 = (float)((o->x - o->radius) * side),
                                .y0 = (float)((o->y - o->radius) * side),
                                .x1 = (float)((o->x + o->radius) * side),
                                .y1 = (float)((o->y + o->radius) * side)};
    for (int word = COLOUR_WORD; word <= FORM_WORD; word++) {
        out->place[out->places] = box;
        out->place[out->places++].word = first + word;
    }
}

static void write_text(const scene *s, double side, fv_media_example *out)
{
    size_t used = 0;
    int words = 0;
    for (int i = 0; i < s->count; i++) {
        const object *o = &s->object[i];
        const char *to = i ? relation(&s->object[i - 1], o) : NULL;
        if (to) {
            used += (size_t)snprintf(out->text + used, sizeof out->text - used, " %s ", to);
            words += strchr(to, ' ') ? 2 : 1;
        }
        used += (size_t)snprintf(out->text + used, sizeof out->text - used, "a %s %s %s",
                                 o->large ? "large" : "small", colour_names[o->colour],
                                 form_names[o->form]);
        add_places(o, side, words, out);
        words += OBJECT_WORDS;
    }
}

/* ---- opening and reading examples --------------------------------------------------------------
 */

static void close_set(void *self)
{
    scene_set *s = self;
    if (s->values) fv_mem_free(&s->ctx->mem, s->values, s->value_bytes);
    fv_mem_free(&s->ctx->mem, s, sizeof *s);
}

static fv_status open_set(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts,
                          void **self)
{
    static const int64_t usual[FV_MEDIA_PARTS] = {TRAIN_COUNT, HELD_OUT, HELD_OUT};
    const int64_t side = cfg->size ? cfg->size : SIDE;
    FV_RETURN_IF(side < MIN_SIDE || side > MAX_SIDE, ctx, FV_ERR_ARGUMENT,
                 "media set scenes: size %lld, expected %d to %d", (long long)side, MIN_SIDE,
                 MAX_SIDE);
    scene_set *s = fv_mem_zalloc(&ctx->mem, sizeof *s);
    FV_RETURN_IF(!s, ctx, FV_ERR_MEMORY, "no memory for media set scenes");
    *self = s;
    *s = (scene_set){.ctx = ctx, .seed = cfg->seed, .side = side};
    s->value_bytes = (size_t)(CHANNELS * side * side) * sizeof *s->values;
    s->values = fv_mem_alloc(&ctx->mem, s->value_bytes);
    FV_RETURN_IF(!s->values, ctx, FV_ERR_MEMORY, "no memory for a picture");
    *facts = (fv_media_facts){.field = "pixels",
                              .rank = 3,
                              .shape = {CHANNELS, side, side},
                              .longest = 1,
                              .has_text = true};
    return fv_media_choose_counts(ctx, cfg, usual, facts);
}

static fv_draws draws_of(const scene_set *s, fv_media_part part, int64_t number)
{
    return fv_draws_begin(fv_rng_key(s->seed, (uint64_t)part, SCENE_SITE), (uint64_t)number);
}

static fv_status get(void *self, fv_media_part part, int64_t number, const fv_media_draw *draw,
                     fv_media_example *out)
{
    scene_set *s = self;
    (void)draw; /* there are as many scenes as are asked for: none is changed */
    fv_draws d = draws_of(s, part, number);
    const scene what = draw_scene(&d, part);
    paint(s, &what, &d);
    out->values = s->values;
    write_text(&what, (double)s->side, out);
    return FV_OK;
}

static fv_status get_text(void *self, fv_media_part part, int64_t number, fv_media_example *out)
{
    const scene_set *s = self;
    fv_draws d = draws_of(s, part, number);
    const scene what = draw_scene(&d, part);
    write_text(&what, (double)s->side, out);
    return FV_OK;
}

const fv_media_kind fv_media_scenes = {
    .name = "scenes",
    .summary = "generated colour pictures of two or three shapes, with a caption",
    .open = open_set,
    .get = get,
    .text = get_text,
    .close = close_set,
};
