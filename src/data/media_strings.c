/*
 * Digit strings: grey pictures, four times as wide as high, of one to eight digits from left to
 * right, each at a height of its own, among short strokes and specks that are no digits. The text
 * is the digits without blanks; a word, for places, is one digit.
 *
 * Variant "mnist" takes real digits from the files of the media set mnist: those of a part from the
 * same part there, so test strings have digits of the test files only. Variant "drawn" needs no
 * files: it draws digits of seven bars, and keeps the parts apart by how much they lean.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "data/draws.h"
#include "data/media.h"

/* A random site that no op uses. */
#define STRING_SITE 0x737472696e6773u

enum { HEIGHT = 32, MIN_HEIGHT = 24, MAX_HEIGHT = 128, RATIO = 4, MOST = 8 };
enum { TRAIN_COUNT = 50000, HELD_OUT = 1000, BOX = 28 };
enum { VARIANT_MNIST, VARIANT_DRAWN };
#define VARIANTS "mnist|drawn"

/* One digit as it is before it is placed. */
typedef struct glyph {
    int64_t digit;
    double lean, thick, wide; /* of its bars, if it is drawn */
    float ink[BOX * BOX];
    int left, top, right, bottom;      /* of the ink; the end is not included */
    double x, y, width, height, light; /* where it is put, in pixels */
} glyph;

typedef struct string_set {
    fv_ctx *ctx;
    fv_media *digits; /* NULL: drawn */
    uint64_t seed;
    int64_t height, width;
    float *values;
    size_t value_bytes;
    glyph glyph[MOST]; /* of the current picture */
} string_set;

/* ---- digits --------------------------------------------------------------------------------- */

/* Bars as ends in a box of 1 x 2: top, the two right ones, bottom, the two left ones, middle. */
static const double bars[7][4] = {{0, 0, 1, 0}, {1, 0, 1, 1}, {1, 1, 1, 2}, {0, 2, 1, 2},
                                  {0, 1, 0, 2}, {0, 0, 0, 1}, {0, 1, 1, 1}};
/* Which bars a digit has, the first in the lowest bit. */
static const unsigned bars_of[10] = {0x3f, 0x06, 0x5b, 0x4f, 0x66, 0x6d, 0x7d, 0x07, 0x7f, 0x6f};

static double distance(double x, double y, const double bar[4])
{
    const double dx = bar[2] - bar[0], dy = bar[3] - bar[1], n = dx * dx + dy * dy;
    double t = n > 0 ? ((x - bar[0]) * dx + (y - bar[1]) * dy) / n : 0;
    t = fmin(1, fmax(0, t));
    return hypot(x - bar[0] - t * dx, y - bar[1] - t * dy);
}

static void draw_digit(fv_draws *d, fv_media_part part, glyph *g)
{
    static const double lean_of[FV_MEDIA_PARTS][2] = {{-0.2, 0.2}, {0.2, 0.25}, {0.25, 0.3}};
    g->digit = fv_draws_below(d, 10);
    g->lean = fv_draws_between(d, lean_of[part][0], lean_of[part][1]);
    g->thick = fv_draws_between(d, 1, 1.6);
    g->wide = fv_draws_between(d, 7, 10);
}

static void ink_bars(glyph *g)
{
    const double wide = g->wide;
    for (int i = 0; i < BOX * BOX; i++) {
        const double y = (i / BOX + 0.5 - 5) / 9,
                     x = (i % BOX + 0.5 - 14 + g->lean * 9 * (y - 1)) / wide + 0.5;
        double nearest = BOX;
        for (int b = 0; b < 7; b++)
            if (bars_of[g->digit] >> b & 1) {
                const double bar[4] = {bars[b][0] * wide, bars[b][1] * 9, bars[b][2] * wide,
                                       bars[b][3] * 9};
                nearest = fmin(nearest, distance(x * wide, y * 9, bar));
            }
        g->ink[i] = (float)fmin(1, fmax(0, g->thick + 0.5 - nearest));
    }
}

static fv_status take_digit(const string_set *s, fv_draws *d, fv_media_part part, glyph *g)
{
    fv_media_example e;
    const fv_media_facts *facts = fv_media_facts_of(s->digits);
    FV_TRY(fv_media_get(s->digits, part, fv_draws_below(d, facts->count[part]), NULL, &e));
    memcpy(g->ink, e.values, sizeof g->ink);
    g->digit = e.label;
    return FV_OK;
}

/* The box around the ink; that of an empty picture is all of it. */
static void measure(glyph *g)
{
    g->left = g->top = BOX;
    g->right = g->bottom = 0;
    for (int i = 0; i < BOX * BOX; i++) {
        const int x = i % BOX, y = i / BOX;
        if (g->ink[i] < 0.2f) continue;
        if (x < g->left) g->left = x;
        if (x >= g->right) g->right = x + 1;
        if (y < g->top) g->top = y;
        if (y >= g->bottom) g->bottom = y + 1;
    }
    if (g->right == 0) {
        g->left = g->top = 0;
        g->right = g->bottom = BOX;
    }
}

/* ---- places --------------------------------------------------------------------------------- */

/* Sizes of the digits, smaller where they would not fit beside each other. */
static void scale(const string_set *s, fv_draws *d, glyph *g, int n)
{
    const double unit = (double)s->height / 32, room = (double)s->width - 2 * unit;
    const double all = fv_draws_between(d, 0.75, 1) * unit;
    double sum = 0;
    for (int i = 0; i < n; i++) {
        const double mine = all * fv_draws_between(d, 0.9, 1);
        g[i].width = mine * (g[i].right - g[i].left);
        g[i].height = mine * (g[i].bottom - g[i].top);
        g[i].light = fv_draws_between(d, 0.75, 1);
        sum += g[i].width + 2 * unit;
    }
    for (int i = 0; i < n && sum > room; i++) {
        g[i].width *= room / sum;
        g[i].height *= room / sum;
    }
}

/* The room that is left goes between the digits, by shares that are drawn. */
static void place(const string_set *s, fv_draws *d, glyph *g, int n)
{
    double share[MOST + 1], shares = 0, left = (double)s->width, x = 0;
    scale(s, d, g, n);
    for (int i = 0; i <= n; i++)
        shares += share[i] = fv_draws_unit(d) + 0.05;
    for (int i = 0; i < n; i++)
        left -= g[i].width;
    for (int i = 0; i < n; i++) {
        x += left * share[i] / shares;
        g[i].x = x;
        g[i].y = fv_draws_between(d, 1, (double)s->height - 1 - g[i].height);
        x += g[i].width;
    }
}

/* ---- pixels --------------------------------------------------------------------------------- */

/* The ink at a point of the box, interpolated; 0 outside. */
static double ink_at(const glyph *g, double x, double y)
{
    const double cx = x - 0.5, cy = y - 0.5;
    const int ix = (int)floor(cx), iy = (int)floor(cy);
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        const int px = ix + k % 2, py = iy + k / 2;
        if (px < 0 || py < 0 || px >= BOX || py >= BOX) continue;
        sum += (1 - fabs(cx - px)) * (1 - fabs(cy - py)) * (double)g->ink[py * BOX + px];
    }
    return sum;
}

static void brighten(const string_set *s, int64_t x, int64_t y, double value)
{
    if (x < 0 || y < 0 || x >= s->width || y >= s->height) return;
    float *at = &s->values[y * s->width + x];
    *at = fmaxf(*at, (float)value);
}

/* Each pixel is the mean of four points of the glyph. */
static void paint_digit(const string_set *s, const glyph *g)
{
    enum { POINTS = 4 };
    const double across = (g->right - g->left) / g->width, down = (g->bottom - g->top) / g->height;
    const int64_t x0 = (int64_t)floor(g->x) - 1, x1 = (int64_t)ceil(g->x + g->width) + 1,
                  y0 = (int64_t)floor(g->y) - 1, y1 = (int64_t)ceil(g->y + g->height) + 1;
    for (int64_t y = y0; y < y1; y++)
        for (int64_t x = x0; x < x1; x++) {
            double sum = 0;
            for (int k = 0; k < POINTS; k++) {
                const double px = (double)x + 0.25 + 0.5 * (k % 2),
                             py = (double)y + 0.25 + 0.5 * (k / 2);
                sum += ink_at(g, g->left + (px - g->x) * across, g->top + (py - g->y) * down);
            }
            brighten(s, x, y, g->light * sum / POINTS);
        }
}

static bool touches_digit(const glyph *g, int n, const double bar[4])
{
    const double far = 1.5;
    for (int i = 0; i < n; i++)
        if (fmax(bar[0], bar[2]) > g[i].x - far &&
            fmin(bar[0], bar[2]) < g[i].x + g[i].width + far &&
            fmax(bar[1], bar[3]) > g[i].y - far &&
            fmin(bar[1], bar[3]) < g[i].y + g[i].height + far)
            return true;
    return false;
}

/* Strokes that are shorter than a digit's, and beside all digits. */
static void paint_clutter(const string_set *s, fv_draws *d, const glyph *g, int n)
{
    const double unit = (double)s->height / 32;
    const int64_t strokes = fv_draws_below(d, 9), specks = fv_draws_below(d, 21);
    for (int64_t i = 0; i < strokes; i++) {
        const double angle = fv_draws_between(d, 0, 3.14159265358979),
                     half = fv_draws_between(d, 1, 3) * unit,
                     x = fv_draws_between(d, 0, (double)s->width),
                     y = fv_draws_between(d, 0, (double)s->height),
                     light = fv_draws_between(d, 0.3, 0.8);
        const double bar[4] = {x - half * cos(angle), y - half * sin(angle), x + half * cos(angle),
                               y + half * sin(angle)};
        if (touches_digit(g, n, bar)) continue;
        for (int64_t py = (int64_t)(y - half) - 2; py <= (int64_t)(y + half) + 2; py++)
            for (int64_t px = (int64_t)(x - half) - 2; px <= (int64_t)(x + half) + 2; px++)
                brighten(s, px, py,
                         light * fmin(1, fmax(0, 1.2 - distance((double)px + 0.5, (double)py + 0.5,
                                                                bar))));
    }
    for (int64_t i = 0; i < specks; i++) {
        const int64_t x = fv_draws_below(d, s->width), y = fv_draws_below(d, s->height);
        brighten(s, x, y, fv_draws_between(d, 0.1, 0.5));
    }
}

/* ---- opening and reading examples --------------------------------------------------------------
 */

static void close_set(void *self)
{
    string_set *s = self;
    fv_media_close(&s->digits);
    if (s->values) fv_mem_free(&s->ctx->mem, s->values, s->value_bytes);
    fv_mem_free(&s->ctx->mem, s, sizeof *s);
}

static fv_status open_digits(string_set *s, const fv_media_config *cfg)
{
    const fv_media_config files = {.name = "mnist", .folder = cfg->folder};
    FV_TRY(fv_media_open(s->ctx, &files, &s->digits));
    const fv_media_facts *facts = fv_media_facts_of(s->digits);
    FV_RETURN_IF(facts->shape[1] != BOX || facts->shape[2] != BOX, s->ctx, FV_ERR_FORMAT,
                 "%.200s: digits of %lld x %lld pixels, expected %d x %d", cfg->folder,
                 (long long)facts->shape[1], (long long)facts->shape[2], BOX, BOX);
    return FV_OK;
}

static fv_status open_set(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts,
                          void **self)
{
    static const int64_t usual[FV_MEDIA_PARTS] = {TRAIN_COUNT, HELD_OUT, HELD_OUT};
    const int64_t height = cfg->size ? cfg->size : HEIGHT;
    FV_RETURN_IF(height < MIN_HEIGHT || height > MAX_HEIGHT, ctx, FV_ERR_ARGUMENT,
                 "media set strings: size %lld, expected %d to %d", (long long)height, MIN_HEIGHT,
                 MAX_HEIGHT);
    string_set *s = fv_mem_zalloc(&ctx->mem, sizeof *s);
    FV_RETURN_IF(!s, ctx, FV_ERR_MEMORY, "no memory for media set strings");
    *self = s;
    *s = (string_set){.ctx = ctx, .seed = cfg->seed, .height = height, .width = RATIO * height};
    s->value_bytes = (size_t)(height * s->width) * sizeof *s->values;
    s->values = fv_mem_alloc(&ctx->mem, s->value_bytes);
    FV_RETURN_IF(!s->values, ctx, FV_ERR_MEMORY, "no memory for a picture");
    if (fv_media_variant(cfg, VARIANTS) == VARIANT_MNIST) FV_TRY(open_digits(s, cfg));
    *facts = (fv_media_facts){.field = "pixels",
                              .rank = 3,
                              .shape = {1, height, s->width},
                              .longest = 1,
                              .has_text = true};
    return fv_media_choose_counts(ctx, cfg, usual, facts);
}

static void write_text(const glyph *g, int n, fv_media_example *out)
{
    for (int i = 0; i < n; i++)
        out->text[i] = (char)('0' + g[i].digit);
    out->text[n] = '\0';
}

static void write_places(const glyph *g, int n, fv_media_example *out)
{
    for (int i = 0; i < n; i++)
        out->place[i] = (fv_media_place){.word = i,
                                         .x0 = (float)g[i].x,
                                         .y0 = (float)g[i].y,
                                         .x1 = (float)(g[i].x + g[i].width),
                                         .y1 = (float)(g[i].y + g[i].height)};
    out->places = n;
}

/* The digits of string `number`; then *d draws where they are. */
static fv_status choose_digits(string_set *s, fv_media_part part, int64_t number, fv_draws *d,
                               int *count)
{
    *d = fv_draws_begin(fv_rng_key(s->seed, (uint64_t)part, STRING_SITE), (uint64_t)number);
    *count = 1 + (int)fv_draws_below(d, MOST);
    for (int i = 0; i < *count; i++) {
        if (s->digits)
            FV_TRY(take_digit(s, d, part, &s->glyph[i]));
        else
            draw_digit(d, part, &s->glyph[i]);
    }
    return FV_OK;
}

static fv_status get(void *self, fv_media_part part, int64_t number, const fv_media_draw *draw,
                     fv_media_example *out)
{
    string_set *s = self;
    glyph *g = s->glyph;
    (void)draw; /* there are as many strings as are asked for: none is changed */
    fv_draws d;
    int n;
    FV_TRY(choose_digits(s, part, number, &d, &n));
    for (int i = 0; i < n; i++) {
        if (!s->digits) ink_bars(&g[i]);
        measure(&g[i]);
    }
    place(s, &d, g, n);
    memset(s->values, 0, s->value_bytes);
    for (int i = 0; i < n; i++)
        paint_digit(s, &g[i]);
    paint_clutter(s, &d, g, n);
    out->values = s->values;
    write_text(g, n, out);
    write_places(g, n, out);
    return FV_OK;
}

static fv_status get_text(void *self, fv_media_part part, int64_t number, fv_media_example *out)
{
    string_set *s = self;
    fv_draws d;
    int n;
    FV_TRY(choose_digits(s, part, number, &d, &n));
    write_text(s->glyph, n, out);
    return FV_OK;
}

const fv_media_kind fv_media_strings = {
    .name = "strings",
    .summary = "pictures of one to eight digits in a row, from MNIST's files or drawn",
    .variants = VARIANTS,
    .open = open_set,
    .get = get,
    .text = get_text,
    .close = close_set,
};
