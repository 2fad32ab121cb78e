/*
 * Characters of random strokes: quadratic Bezier curves whose three points are a character's own.
 * Every drawing moves the points, and turns, scales and shifts the whole.
 */
#include <math.h>

#include "data/draws.h"
#include "data/shots.h"

enum {
    ALPHABETS = 16,
    LETTERS = 16, /* of an alphabet */
    DRAWINGS = 12,
    RUNS = 20,
    LEAST_STROKES = 2,
    MOST_STROKES = 4,
    DOTS = 40 /* along a stroke */
};

#define SITE_CHARACTER 0x6368617261u
#define SITE_DRAWING   0x64726177u

typedef struct shape {
    int strokes;
    double point[MOST_STROKES][3][2]; /* in the unit square */
} shape;

static shape make_shape(uint64_t seed, int64_t character)
{
    fv_draws d = fv_draws_begin(fv_rng_key(seed, SITE_CHARACTER, 0), (uint64_t)character);
    shape s = {.strokes =
                   LEAST_STROKES + (int)fv_draws_below(&d, MOST_STROKES - LEAST_STROKES + 1)};
    for (int i = 0; i < s.strokes; i++)
        for (int p = 0; p < 3; p++)
            for (int axis = 0; axis < 2; axis++)
                s.point[i][p][axis] = fv_draws_between(&d, 0.15, 0.85);
    return s;
}

/* The same shape by another hand. */
static void move_shape(shape *s, fv_draws *d)
{
    const double angle = fv_draws_between(d, -0.15, 0.15), scale = fv_draws_between(d, 0.9, 1.1),
                 dx = fv_draws_between(d, -0.05, 0.05), dy = fv_draws_between(d, -0.05, 0.05);
    for (int i = 0; i < s->strokes; i++)
        for (int p = 0; p < 3; p++) {
            double *at = s->point[i][p];
            const double x = at[0] - 0.5 + fv_draws_between(d, -0.04, 0.04),
                         y = at[1] - 0.5 + fv_draws_between(d, -0.04, 0.04);
            at[0] = 0.5 + dx + scale * (cos(angle) * x - sin(angle) * y);
            at[1] = 0.5 + dy + scale * (sin(angle) * x + cos(angle) * y);
        }
}

/* A dot of a radius of about a pixel, whose edge is soft. */
static void put_dot(double x, double y, uint8_t *ink)
{
    enum { REACH = 2 };
    const int row = (int)floor(y), col = (int)floor(x);
    for (int i = row - REACH; i <= row + REACH; i++)
        for (int j = col - REACH; j <= col + REACH; j++) {
            if (i < 0 || j < 0 || i >= FV_SHOTS_SIDE || j >= FV_SHOTS_SIDE) continue;
            const double away = hypot(i + 0.5 - y, j + 0.5 - x);
            const double value = 255 * fmin(1, fmax(0, 1.6 - away));
            uint8_t *at = &ink[i * FV_SHOTS_SIDE + j];
            if (value > *at) *at = (uint8_t)value;
        }
}

static void draw(uint64_t seed, int64_t character, int64_t drawing, uint8_t *ink)
{
    fv_draws d =
        fv_draws_begin(fv_rng_key(seed, SITE_DRAWING, (uint64_t)character), (uint64_t)drawing);
    shape s = make_shape(seed, character);
    move_shape(&s, &d);
    for (int i = 0; i < s.strokes; i++)
        for (int k = 0; k < DOTS; k++) {
            const double t = (double)k / (DOTS - 1), a = (1 - t) * (1 - t), b = 2 * t * (1 - t),
                         c = t * t;
            const double(*p)[2] = (const double(*)[2])s.point[i];
            put_dot(FV_SHOTS_SIDE * (a * p[0][0] + b * p[1][0] + c * p[2][0]),
                    FV_SHOTS_SIDE * (a * p[0][1] + b * p[1][1] + c * p[2][1]), ink);
        }
}

/* Characters of their own, number 0 of each run's drawings is the example, number 1 the query. */
static void draw_runs(fv_shots *s, uint64_t seed)
{
    for (int64_t run = 0; run < s->runs; run++)
        for (int64_t i = 0; i < FV_SHOTS_RUN_WAYS; i++) {
            uint8_t *first = s->run_ink + run * 2 * FV_SHOTS_RUN_WAYS * FV_SHOTS_PIXELS;
            const int64_t character = s->characters + run * FV_SHOTS_RUN_WAYS + i;
            draw(seed, character, 0, first + i * FV_SHOTS_PIXELS);
            draw(seed, character, 1, first + (FV_SHOTS_RUN_WAYS + i) * FV_SHOTS_PIXELS);
            s->run_answer[run * FV_SHOTS_RUN_WAYS + i] = (uint8_t)i;
        }
}

fv_status fv_shots_draw_all(fv_shots *s, uint64_t seed)
{
    s->characters = ALPHABETS * LETTERS;
    s->drawings = DRAWINGS;
    s->runs = RUNS;
    s->alphabets = ALPHABETS;
    FV_TRY(fv_shots_room(s));
    for (int32_t i = 0; i < s->characters; i++) {
        const int32_t number = i % LETTERS;
        s->character[i] = (fv_shots_character){.alphabet = i / LETTERS,
                                               .number = number,
                                               .part = number % 8 == 7   ? FV_SHOTS_VALID
                                                       : number % 8 == 3 ? FV_SHOTS_TEST
                                                                         : FV_SHOTS_TRAIN};
        for (int64_t k = 0; k < DRAWINGS; k++)
            draw(seed, i, k, s->ink + (i * DRAWINGS + k) * FV_SHOTS_PIXELS);
    }
    draw_runs(s, seed);
    return FV_OK;
}
