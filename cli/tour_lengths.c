/* The tour: what one vector holds of a long source, by the source's length. */
#include <math.h>
#include <string.h>

#include "fovea/attention.h"
#include "tour.h"

/* A source is a sequence of (name, value): a random name, one of VALUES values. */
enum {
    VALUES = 4,
    NARROW = 32,
    BROAD = 256,
    LONGEST = 1000,
    LENGTHS = 11,
    ASKED = 400,
    AT_ONCE = 20
};

typedef struct source {
    float names[LONGEST * BROAD];
    float values[LONGEST * VALUES]; /* one-hot */
    int length, width;
} source;

static void draw_source(source *s, uint64_t seed)
{
    float which[LONGEST];
    tour_normals(seed, s->names, (int64_t)s->length * s->width);
    tour_normals(seed + 1, which, s->length);
    memset(s->values, 0, (size_t)s->length * VALUES * sizeof *s->values);
    for (int i = 0; i < s->length; i++) { /* the quartiles of a normal number */
        const int value = which[i] < -0.6745f ? 0 : which[i] < 0 ? 1 : which[i] < 0.6745f ? 2 : 3;
        s->values[i * VALUES + value] = 1;
    }
}

static int largest(const float *x, int n)
{
    int best = 0;
    for (int c = 1; c < n; c++)
        if (x[c] > x[best]) best = c;
    return best;
}

/* Which place is asked for: spread over the source. */
static int place_of(const source *s, int question, int questions)
{
    return (int)((2L * question + 1) * s->length / (2L * questions));
}

/* The state c of a linear recurrent layer after the last step: c <- c + name x value. It has
 * width * VALUES numbers, whatever the length. The answer is the largest entry of (asked name) c.
 */
static int right_by_vector(const source *s, int questions)
{
    static float c[BROAD * VALUES];
    int right = 0;
    memset(c, 0, sizeof c);
    for (int i = 0; i < s->length; i++)
        for (int d = 0; d < s->width; d++)
            for (int v = 0; v < VALUES; v++)
                c[d * VALUES + v] +=
                    s->names[(ptrdiff_t)i * s->width + d] * s->values[i * VALUES + v];
    for (int q = 0; q < questions; q++) {
        const int i = place_of(s, q, questions);
        float answer[VALUES] = {0};
        for (int d = 0; d < s->width; d++)
            for (int v = 0; v < VALUES; v++)
                answer[v] += s->names[(ptrdiff_t)i * s->width + d] * c[d * VALUES + v];
        right += largest(answer, VALUES) == largest(s->values + (ptrdiff_t)i * VALUES, VALUES);
    }
    return right;
}

/* Attention over all steps: the asked name is the query, the names are keys. */
static fv_status right_by_attention(tour *t, const source *s, int questions, int *right)
{
    float asked[AT_ONCE * NARROW], answers[AT_ONCE * VALUES];
    fv_attention dot;
    fv_attention_result out;
    for (int q = 0; q < questions; q++)
        memcpy(asked + (ptrdiff_t)q * s->width,
               s->names + (ptrdiff_t)place_of(s, q, questions) * s->width,
               (size_t)s->width * sizeof *asked);
    fv_attention_init(&dot, sizeof dot);
    dot.score = FV_ATTENTION_DOT;
    const fv_attention_input in = {.q = tour_head(t, questions, s->width, asked),
                                   .k = tour_head(t, s->length, s->width, s->names),
                                   .v = tour_head(t, s->length, VALUES, s->values)};
    const fv_status status = tour_read(t, fv_attention_run(t->ctx, &in, &dot, &out), answers);
    *right = 0;
    for (int q = 0; q < questions && status == FV_OK; q++)
        *right += largest(answers + (ptrdiff_t)q * VALUES, VALUES) ==
                  largest(s->values + (ptrdiff_t)place_of(s, q, questions) * VALUES, VALUES);
    return status;
}

/* Shares of right answers for one length: of vectors of two sizes, and of attention. */
static fv_status shares(tour *t, int length, double out[3])
{
    static source s;
    const int questions = length < AT_ONCE ? length : AT_ONCE, draws = ASKED / questions;
    fv_status status = FV_OK;
    int right[3] = {0};
    for (int draw = 0; draw < draws && status == FV_OK; draw++)
        for (int k = 0; k < 2 && status == FV_OK; k++) {
            int attended = 0;
            s.length = length;
            s.width = k ? BROAD : NARROW;
            draw_source(&s, 7000 + 2 * (uint64_t)draw);
            right[k] += right_by_vector(&s, questions);
            if (k == 0) status = right_by_attention(t, &s, questions, &attended);
            right[2] += attended;
        }
    for (int k = 0; k < 3; k++)
        out[k] = (double)right[k] / (draws * questions);
    return status;
}

fv_status tour_lengths(tour *t)
{
    enum { KINDS = 3 };
    static const char *const names[KINDS] = {"128 numbers", "1024 numbers", "attention"};
    double n[LENGTHS], share[KINDS][LENGTHS];
    fv_look_series series[KINDS];
    tour_line(t, "share of right answers out of four, by steps of the source");
    tour_line(t, "%6s %14s %14s %14s", "steps", names[0], names[1], names[2]);
    for (int i = 0; i < LENGTHS; i++) {
        const int length = i == LENGTHS - 1 ? LONGEST : 1 << i;
        double one[KINDS];
        const fv_status status = shares(t, length, one);
        if (status != FV_OK) return status;
        n[i] = length;
        for (int k = 0; k < KINDS; k++)
            share[k][i] = one[k];
        tour_line(t, "%6d %14.2f %14.2f %14.2f", length, one[0], one[1], one[2]);
    }
    for (int k = 0; k < KINDS; k++)
        series[k] = (fv_look_series){.name = names[k], .x = n, .y = share[k], .count = LENGTHS};
    return tour_plot(t,
                     &(fv_look_plot){.title = "answers that are right, by length",
                                     .x = {.title = "steps of the source", .scale = FV_AXIS_LOG2},
                                     .y = {.title = "share", .low = 0, .high = 1},
                                     .series = series,
                                     .series_count = KINDS});
}
