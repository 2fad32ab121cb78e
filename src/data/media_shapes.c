/*
 * Shapes: generated grey pictures of one shape each, for trying things out without files. Where the
 * centre is decides about the part: with s = (x + 3 y) mod 10, `valid` has s = 0, `test` s = 1.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "data/media.h"

/* A random site that no op uses. */
#define SHAPE_SITE 0x736861706573u

enum { SIDE = 28, MIN_SIDE = 16, MAX_SIDE = 256, COUNT = 10000, HELD_OUT = 500, SHARES = 10 };

typedef enum shape { DISC, RING, SQUARE, FRAME, CROSS, TRIANGLE, SHAPES } shape;

static const char *const shape_names[SHAPES] = {"disc",  "ring",  "square",
                                                "frame", "cross", "triangle"};

typedef struct shape_set {
    fv_ctx *ctx;
    fv_augment augment;
    uint64_t seed;
    int64_t shape[3];
    float *values;
    size_t value_bytes;
} shape_set;

static void close_set(void *self)
{
    shape_set *s = self;
    if (s->values) fv_mem_free(&s->ctx->mem, s->values, s->value_bytes);
    fv_mem_free(&s->ctx->mem, s, sizeof *s);
}

static fv_status open_set(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts,
                          void **self)
{
    const int64_t side = cfg->size ? cfg->size : SIDE;
    static const int64_t usual[FV_MEDIA_PARTS] = {COUNT, HELD_OUT, HELD_OUT};
    FV_RETURN_IF(side < MIN_SIDE || side > MAX_SIDE, ctx, FV_ERR_ARGUMENT,
                 "media set shapes: size %lld, expected %d to %d", (long long)side, MIN_SIDE,
                 MAX_SIDE);
    shape_set *s = fv_mem_zalloc(&ctx->mem, sizeof *s);
    FV_RETURN_IF(!s, ctx, FV_ERR_MEMORY, "no memory for media set shapes");
    *self = s;
    *s = (shape_set){
        .ctx = ctx, .augment = cfg->augment, .seed = cfg->seed, .shape = {1, side, side}};
    s->value_bytes = (size_t)(side * side) * sizeof *s->values;
    s->values = fv_mem_alloc(&ctx->mem, s->value_bytes);
    FV_RETURN_IF(!s->values, ctx, FV_ERR_MEMORY, "no memory for a picture");
    *facts = (fv_media_facts){.field = "pixels",
                              .rank = 3,
                              .shape = {1, side, side},
                              .longest = 1,
                              .labels = shape_names,
                              .label_count = SHAPES};
    return fv_media_choose_counts(ctx, cfg, usual, facts);
}

/* The grey value of a point that lies (x, y) from the centre, in radii. */
static float value_at(shape which, double x, double y)
{
    const double far = sqrt(x * x + y * y), wide = fmax(fabs(x), fabs(y));
    switch (which) {
    case DISC:
        return far <= 1;
    case RING:
        return far <= 1 && far >= 0.6;
    case SQUARE:
        return wide <= 0.85;
    case FRAME:
        return wide <= 0.85 && wide >= 0.5;
    case CROSS:
        return wide <= 1 && fmin(fabs(x), fabs(y)) <= 0.25;
    default:
        return fabs(x) <= (y + 1) / 2 && y <= 1;
    }
}

/* Centre, radius, brightness and shape of an example; draws again until the centre is the part's.
 */
typedef struct drawn_shape {
    shape which;
    int64_t x, y;
    double radius;
    float light;
} drawn_shape;

static fv_media_part part_of(int64_t x, int64_t y)
{
    const int64_t share = (x + 3 * y) % SHARES;
    return share == 0 ? FV_MEDIA_VALID : share == 1 ? FV_MEDIA_TEST : FV_MEDIA_TRAIN;
}

static drawn_shape draw_shape(const shape_set *s, fv_media_part part, int64_t number)
{
    enum { ROUNDS = 4096 }; /* one in ten fits at least, so the last is never reached */
    const uint64_t key = fv_rng_key(s->seed, (uint64_t)part, SHAPE_SITE);
    const double side = (double)s->shape[1];
    drawn_shape d = {.which = DISC};
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint32_t r[4], more[4];
        fv_rng_draw(key, (uint64_t)number, 2 * round, r);
        fv_rng_draw(key, (uint64_t)number, 2 * round + 1, more);
        d.radius = side * (0.15 + 0.15 * (double)fv_rng_unit(r[2]));
        const double room = side - 2 * d.radius;
        d.x = (int64_t)(d.radius + room * (double)fv_rng_unit(r[0]));
        d.y = (int64_t)(d.radius + room * (double)fv_rng_unit(r[1]));
        d.which = (shape)(fv_rng_unit(r[3]) * SHAPES);
        d.light = 0.6f + 0.4f * fv_rng_unit(more[0]);
        if (part_of(d.x, d.y) == part) break;
    }
    return d;
}

static fv_status get(void *self, fv_media_part part, int64_t number, const fv_media_draw *draw,
                     fv_media_example *out)
{
    shape_set *s = self;
    const int64_t side = s->shape[1];
    const drawn_shape d = draw_shape(s, part, number);
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++)
            s->values[y * side + x] = d.light * value_at(d.which, (double)(x - d.x) / d.radius,
                                                         (double)(y - d.y) / d.radius);
    FV_TRY(fv_media_augment(s->ctx, &s->augment, draw, s->shape, s->values));
    out->values = s->values;
    out->label = d.which;
    snprintf(out->text, sizeof out->text, "%s", shape_names[d.which]);
    out->places = 1;
    out->place[0] = (fv_media_place){.word = 0,
                                     .x0 = (float)((double)d.x - d.radius),
                                     .y0 = (float)((double)d.y - d.radius),
                                     .x1 = (float)((double)d.x + d.radius + 1),
                                     .y1 = (float)((double)d.y + d.radius + 1)};
    return FV_OK;
}

const fv_media_kind fv_media_shapes = {
    .name = "shapes",
    .summary = "generated grey pictures of one shape each",
    .open = open_set,
    .get = get,
    .close = close_set,
};
