/*
 * Generated sequences of bits (fovea/data.h). A task's generator runs twice over the same draws:
 * first to count steps and answers, then to write them.
 */
#include <math.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/ctx.h"
#include "data/draws.h"
#include "fovea/data.h"

#define BITS_SITE 0x62697473u

enum { MAX_WIDTH = 256, MAX_REPEATS = 1000, ITEM = 3, CONTEXT = 5, TABLE = 1 << CONTEXT };

typedef struct writer {
    const fv_bits_config *cfg;
    fv_draws draws;
    int64_t width; /* bits of a vector */
    fv_bits_example *e;
} writer;

static void put_input(writer *w, int64_t step, int64_t channel, double value)
{
    if (w->e->inputs) w->e->inputs[step * w->e->input_width + channel] = (float)value;
}

static void put_target(writer *w, int64_t answer, int64_t channel, double value)
{
    if (w->e->targets) w->e->targets[answer * w->e->output_width + channel] = (float)value;
}

static double draw_bit(writer *w) { return fv_draws_unit(&w->draws) < 0.5 ? 0 : 1; }

/* One vector of bits as an input at `step`, and as an answer at each of the steps from `answer` on
 * that are `every` apart, `times` of them. */
static void put_vector(writer *w, int64_t step, int64_t answer, int64_t every, int64_t times)
{
    for (int64_t k = 0; k < w->width; k++) {
        const double bit = w->cfg->given ? (double)w->cfg->given[step * w->width + k] : draw_bit(w);
        put_input(w, step, k, bit);
        for (int64_t i = 0; i < times; i++)
            put_target(w, answer + i * every, k, bit);
    }
}

static void make_copy(writer *w)
{
    const int64_t n = w->cfg->length;
    w->e->steps = 2 * n + 1;
    w->e->answers = n;
    for (int64_t i = 0; i < n; i++)
        put_vector(w, i, i, 0, 1);
    put_input(w, n, w->width, 1);
}

static void make_repeat_copy(writer *w)
{
    const int64_t n = w->cfg->length, most = w->cfg->repeats > 0 ? w->cfg->repeats : 10;
    const int64_t times = 1 + fv_draws_below(&w->draws, most);
    w->e->steps = n + 2 + n * times + 1;
    w->e->answers = n * times + 1;
    for (int64_t i = 0; i < n; i++)
        put_vector(w, i, i, n, times);
    const double mean = (double)(most + 1) / 2, square = (double)(most * most - 1) / 12;
    put_input(w, n, w->width, 1);
    put_input(w, n + 1, w->width + 1, square > 0 ? ((double)times - mean) / sqrt(square) : 0);
    put_target(w, n * times, w->width, 1);
}

/* Each item after a mark of its own; then the question between two others. */
static void make_recall(writer *w)
{
    const int64_t n = w->cfg->length, asked = fv_draws_below(&w->draws, n - 1);
    const int64_t question = n * (ITEM + 1);
    w->e->steps = question + 2 + 2 * ITEM;
    w->e->answers = ITEM;
    for (int64_t item = 0; item < n; item++) {
        put_input(w, item * (ITEM + 1), w->width, 1);
        for (int64_t i = 0; i < ITEM; i++)
            for (int64_t k = 0; k < w->width; k++) {
                const double bit = draw_bit(w);
                put_input(w, item * (ITEM + 1) + 1 + i, k, bit);
                if (item == asked) put_input(w, question + 1 + i, k, bit);
                if (item == asked + 1) put_target(w, i, k, bit);
            }
    }
    put_input(w, question, w->width + 1, 1);
    put_input(w, question + 1 + ITEM, w->width + 1, 1);
}

/* The next bit is 1 with a probability that the five before it choose from a table of Beta(1/2,
 * 1/2) numbers, sin^2 of a uniform angle. The best predictor knows the counts of zeros and ones
 * after each five: (n_1 + 1/2) / (n_0 + n_1 + 1). */
static void make_ngrams(writer *w)
{
    const int64_t n = w->cfg->length;
    double table[TABLE], seen[TABLE][2] = {{0}};
    w->e->steps = w->e->answers = n - 1;
    w->e->optimal_bits = 0;
    for (int i = 0; i < TABLE; i++) {
        const double s = sin(1.57079632679489662 * fv_draws_unit(&w->draws));
        table[i] = s * s;
    }
    unsigned before = 0;
    for (int64_t t = 0; t < n; t++) {
        const bool early = t < CONTEXT;
        const unsigned bit = fv_draws_unit(&w->draws) < (early ? 0.5 : table[before]);
        const double *count = seen[before];
        const double p = early ? 0.5 : (count[bit] + 0.5) / (count[0] + count[1] + 1);
        if (t > 0) w->e->optimal_bits -= log2(p);
        if (!early) seen[before][bit]++;
        if (t + 1 < n) put_input(w, t, 0, bit);
        if (t > 0) put_target(w, t - 1, 0, bit);
        before = (before << 1 | bit) & (TABLE - 1);
    }
}

/* Vectors in the order of their priorities, highest first: a vector's place is the number of those
 * with a higher priority, or an equal one before it. */
static void make_sort(writer *w)
{
    const int64_t n = w->cfg->length, kept = (4 * n + 4) / 5;
    w->e->steps = n + 1 + kept;
    w->e->answers = kept;
    if (!w->e->inputs) return;
    const float *priority = w->e->inputs + w->width;
    const int64_t step = w->e->input_width;
    for (int64_t i = 0; i < n; i++)
        put_input(w, i, w->width, fv_draws_between(&w->draws, -1, 1));
    for (int64_t i = 0; i < n; i++) {
        const float own = priority[i * step];
        int64_t place = 0;
        for (int64_t j = 0; j < n; j++)
            place += priority[j * step] > own || (priority[j * step] == own && j < i);
        put_vector(w, i, place, 0, place < kept);
    }
    put_input(w, n, w->width + 1, 1);
}

static const struct {
    const char *name;
    int64_t width, marks, end_marks; /* default width; further inputs and outputs */
    int64_t shortest;
    void (*make)(writer *w);
} tasks[] = {
    {"copy", 8, 1, 0, 1, make_copy},     {"repeat-copy", 8, 2, 1, 1, make_repeat_copy},
    {"recall", 6, 2, 0, 2, make_recall}, {"ngrams", 1, 0, 0, CONTEXT + 1, make_ngrams},
    {"sort", 8, 2, 0, 1, make_sort},
};
enum { TASKS = sizeof tasks / sizeof *tasks };

const char *fv_bits_task_name(int i) { return i >= 0 && i < TASKS ? tasks[i].name : NULL; }

static fv_status find_task(fv_ctx *ctx, const fv_bits_config *cfg, int *task, int64_t *width)
{
    int i = 0;
    while (i < TASKS && strcmp(tasks[i].name, cfg->task) != 0)
        i++;
    FV_RETURN_IF(i == TASKS, ctx, FV_ERR_ARGUMENT,
                 "no task of bits '%.40s', expected copy, repeat-copy, recall, ngrams or sort",
                 cfg->task);
    *width = cfg->width > 0 ? cfg->width : tasks[i].width;
    FV_RETURN_IF(*width > MAX_WIDTH || (tasks[i].make == make_ngrams && *width != 1), ctx,
                 FV_ERR_ARGUMENT, "%s: vectors of %lld bits, expected at most %d", cfg->task,
                 (long long)*width, tasks[i].make == make_ngrams ? 1 : MAX_WIDTH);
    *task = i;
    return FV_OK;
}

fv_status fv_bits_widths(fv_ctx *ctx, const fv_bits_config *cfg, int64_t *input, int64_t *output)
{
    int task = 0;
    int64_t width = 0;
    FV_TRY(find_task(ctx, cfg, &task, &width));
    *input = width + tasks[task].marks;
    *output = width + tasks[task].end_marks;
    return FV_OK;
}

fv_status fv_bits_make(fv_ctx *ctx, const fv_bits_config *cfg, fv_bits_part part, uint64_t number,
                       fv_bits_example *out)
{
    int task = 0;
    fv_bits_example e = {0};
    writer w = {.cfg = cfg, .e = &e};
    FV_TRY(find_task(ctx, cfg, &task, &w.width));
    FV_TRY(fv_bits_widths(ctx, cfg, &e.input_width, &e.output_width));
    FV_RETURN_IF(cfg->length < tasks[task].shortest || cfg->length > FV_BITS_LONGEST ||
                     cfg->repeats < 0 || cfg->repeats > MAX_REPEATS,
                 ctx, FV_ERR_ARGUMENT, "%s: length %lld, expected %lld to %d", cfg->task,
                 (long long)cfg->length, (long long)tasks[task].shortest, FV_BITS_LONGEST);
    const fv_draws start = fv_draws_begin(fv_rng_key(cfg->seed, (uint64_t)part, BITS_SITE), number);
    w.draws = start;
    tasks[task].make(&w);
    FV_RETURN_IF(e.steps > FV_BITS_LONGEST, ctx, FV_ERR_ARGUMENT,
                 "%s: length %lld gives %lld steps, expected at most %d", cfg->task,
                 (long long)cfg->length, (long long)e.steps, FV_BITS_LONGEST);
    const int64_t inputs = e.steps * e.input_width, targets = e.answers * e.output_width;
    e.bytes = (size_t)(inputs + targets) * sizeof(float);
    e.inputs = fv_mem_zalloc(&ctx->mem, e.bytes);
    FV_RETURN_IF(!e.inputs, ctx, FV_ERR_MEMORY, "no memory for %lld steps", (long long)e.steps);
    e.targets = e.inputs + inputs;
    w.draws = start;
    tasks[task].make(&w);
    *out = e;
    return FV_OK;
}

void fv_bits_free(fv_ctx *ctx, fv_bits_example *e)
{
    if (e->inputs) fv_mem_free(&ctx->mem, e->inputs, e->bytes);
    *e = (fv_bits_example){0};
}
