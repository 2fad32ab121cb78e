/* The tour: an encoder, a decoder and the pair of them made of attention alone, with every number.
 */
#include <math.h>
#include <stdlib.h>

#include "fovea/attention.h"
#include "fovea/ops.h"
#include "tour.h"

enum { WORDS = 2, WIDTH = 2, ALL = WORDS * WIDTH };

/* Of each attention: what turns vectors into queries, keys and values; a row for each result. */
typedef struct matrices {
    float q[ALL], k[ALL], v[ALL];
} matrices;

static const matrices encoder = {{2, 1, -1, 2}, {1, 0, 0.5f, 1}, {0.8f, 0.2f, -0.2f, 0.8f}},
                      decoder = {{0.5f, -1, 1, 0.5f}, {1, 0.5f, 0, 1}, {1, -0.3f, 0.3f, 0.6f}},
                      cross = {{3, -3, -2, 3}, {1, -0.5f, 0.5f, 1}, {1, 0, 0, 1}};
/* Words with their places: the source, and the target from its start symbol. */
static const float source[ALL] = {1, 0.2f, -0.3f, 1.1f}, target[ALL] = {0.4f, -0.6f, 0.9f, 0.5f};
static const char *const source_words[] = {"the", "zone"}, *const target_words[] = {"start", "la"};

static void project(const float *w, const float *x, float *y)
{
    for (int i = 0; i < WORDS; i++)
        for (int r = 0; r < WIDTH; r++)
            y[i * WIDTH + r] = w[r * WIDTH] * x[i * WIDTH] + w[r * WIDTH + 1] * x[i * WIDTH + 1];
}

/* One attention, word by word. */
typedef struct steps {
    const char *const *queries, *const *keys; /* names */
    const char *result;
    bool causal;
    float q[ALL], k[ALL], v[ALL], weights[ALL], y[ALL];
} steps;

static void show_row(tour *t, const steps *s, int i, const double score[WORDS])
{
    char hidden[WORDS][16];
    for (int j = 0; j < WORDS; j++)
        snprintf(hidden[j], sizeof hidden[j], isinf(score[j]) ? "-inf" : "%.2f", score[j]);
    tour_line(t, "%-6s %8.2f %6.2f %8s %6s %8.3f %6.3f %8.2f %6.2f", s->queries[i],
              (double)s->q[i * WIDTH], (double)s->q[i * WIDTH + 1], hidden[0], hidden[1],
              (double)s->weights[i * WORDS], (double)s->weights[i * WORDS + 1],
              (double)s->y[i * WIDTH], (double)s->y[i * WIDTH + 1]);
}

static void take_steps(tour *t, const matrices *m, const float *from, const float *to, steps *s)
{
    project(m->q, from, s->q);
    project(m->k, to, s->k);
    project(m->v, to, s->v);
    for (int j = 0; j < WORDS; j++)
        tour_line(t, "key, value of %-6s %8.2f %6.2f %24.2f %6.2f", s->keys[j],
                  (double)s->k[j * WIDTH], (double)s->k[j * WIDTH + 1], (double)s->v[j * WIDTH],
                  (double)s->v[j * WIDTH + 1]);
    tour_line(t, "%-6s %15s %15s %15s %15s", "", "query", "q . k / 1.41", "softmax", s->result);
    for (int i = 0; i < WORDS; i++) {
        double score[WORDS], sum = 0;
        for (int j = 0; j < WORDS; j++) {
            score[j] = ((double)s->q[i * WIDTH] * (double)s->k[j * WIDTH] +
                        (double)s->q[i * WIDTH + 1] * (double)s->k[j * WIDTH + 1]) /
                       sqrt(WIDTH);
            if (s->causal && j > i) score[j] = -INFINITY;
            sum += exp(score[j]);
        }
        for (int j = 0; j < WORDS; j++)
            s->weights[i * WORDS + j] = (float)(exp(score[j]) / sum);
        for (int c = 0; c < WIDTH; c++)
            s->y[i * WIDTH + c] =
                s->weights[i * WORDS] * s->v[c] + s->weights[i * WORDS + 1] * s->v[WIDTH + c];
        show_row(t, s, i, score);
    }
}

/* The same by the library, on matrices; and a picture of the weights. */
static fv_status compare(tour *t, const steps *s, const char *title)
{
    float again[ALL];
    double most = 0;
    fv_attention how;
    fv_attention_result out;
    fv_attention_init(&how, sizeof how);
    if (s->causal) how.rule.causal = FV_CAUSAL_TOP_LEFT;
    const fv_attention_input in = {.q = tour_head(t, WORDS, WIDTH, s->q),
                                   .k = tour_head(t, WORDS, WIDTH, s->k),
                                   .v = tour_head(t, WORDS, WIDTH, s->v)};
    const fv_status status = tour_read(t, fv_attention_run(t->ctx, &in, &how, &out), again);
    if (status != FV_OK) return status;
    for (int i = 0; i < ALL; i++)
        most = fmax(most, fabs((double)again[i] - (double)s->y[i]));
    tour_line(t, "all at once, as matrices: differs by at most %.0e", most);
    fv_look_options options;
    fv_look_options_init(&options, sizeof options);
    options.numbers = true;
    options.high = 1;
    return tour_page_map(t,
                         &(fv_look_map){.rows = WORDS,
                                        .cols = WORDS,
                                        .values = s->weights,
                                        .row_labels = s->queries,
                                        .col_labels = s->keys,
                                        .title = title},
                         &options);
}

static fv_status encode(tour *t, steps *s)
{
    *s = (steps){.queries = source_words, .keys = source_words, .result = "state h"};
    take_steps(t, &encoder, source, source, s);
    return compare(t, s, "encoder: every word sees all");
}

static fv_status decode(tour *t, steps *s)
{
    *s =
        (steps){.queries = target_words, .keys = target_words, .result = "state s", .causal = true};
    take_steps(t, &decoder, target, target, s);
    return compare(t, s, "decoder: no word sees later ones");
}

fv_status tour_bare_encoder(tour *t)
{
    steps s;
    return encode(t, &s);
}

fv_status tour_bare_decoder(tour *t)
{
    steps s;
    return decode(t, &s);
}

fv_status tour_bare_pair(tour *t)
{
    steps h, s, c = {.queries = target_words, .keys = source_words, .result = "context c"};
    const char *picture = t->picture; /* of what is new here, the weights between the two */
    t->picture = NULL;
    tour_line(t, "encoder");
    fv_status status = encode(t, &h);
    if (status == FV_OK) {
        tour_line(t, "decoder");
        status = decode(t, &s);
    }
    t->picture = picture;
    if (status != FV_OK) return status;
    tour_line(t, "decoder's states s to encoder's states h");
    take_steps(t, &cross, s.y, h.y, &c);
    return compare(t, &c, "pair: target words see source words");
}
