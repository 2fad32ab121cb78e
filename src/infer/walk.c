/*
 * Outputs that grow one token at a time without looking back: the likeliest token (greedy) or a
 * drawn one. Rows that have ended leave the batch.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "fovea/ops.h"
#include "infer/outputs.h"

typedef struct walker {
    int64_t source;
    int copy; /* which of the source's outputs, when sampling */
    const fv_node *last;
} walker;

typedef struct walk {
    const fv_search *s;
    int64_t rows, room;
    walker *row;
    int64_t *token, *from; /* [room] */
    double *log_prob;      /* [room], of the token just chosen */
    /* Where tokens are chosen on the host; else NULL. */
    float *logits;  /* [room][vocabulary] */
    float *plain;   /* [vocabulary], of one row, as the model gave them */
    int64_t *order; /* [vocabulary]; sampling */
    double *weight; /* [vocabulary] */
} walk;

/* ---- greedy ----------------------------------------------------------------------- */

static fv_status choose_likeliest(const walk *w, fv_tensor *logits)
{
    fv_ctx *ctx = w->s->ctx;
    const int last[1] = {-1};
    fv_tensor *best =
        fv_sub(ctx, fv_max(ctx, logits, 1, last, false), fv_logsumexp(ctx, logits, 1, last, false));
    const size_t rows = (size_t)w->rows;
    FV_FORWARD(
        fv_tensor_read(ctx, fv_cast(ctx, best, FV_F64), w->log_prob, rows * sizeof *w->log_prob));
    return fv_tensor_read(ctx, fv_argmax(ctx, logits, -1, false), w->token,
                          rows * sizeof *w->token);
}

/* Nobody wants to know how likely they are. */
static fv_status take_tokens(const walk *w, fv_tensor *best)
{
    for (int64_t r = 0; r < w->rows; r++)
        w->log_prob[r] = NAN;
    return fv_tensor_read(w->s->ctx, best, w->token, (size_t)w->rows * sizeof *w->token);
}

/* ---- on the host ------------------------------------------------------------------- */

/* The logits of row r, after what the settings do to them; w->plain keeps them as they were, and
 * *sum is the logarithm of the sum of their exponentials. */
static float *settled(const walk *w, int64_t r, double *sum)
{
    const int64_t vocabulary = w->s->stepper->vocabulary;
    float *logits = w->logits + r * vocabulary;
    double most = -INFINITY, total = 0;
    memcpy(w->plain, logits, (size_t)vocabulary * sizeof *logits);
    for (int64_t i = 0; i < vocabulary; i++)
        if ((double)logits[i] > most) most = (double)logits[i];
    for (int64_t i = 0; i < vocabulary; i++)
        total += exp((double)logits[i] - most);
    *sum = most + log(total);
    fv_search_change(w->s, (fv_search_row){w->row[r].source, w->row[r].last}, logits);
    return logits;
}

static void take_likeliest(const walk *w, int64_t r)
{
    double sum;
    const float *logits = settled(w, r, &sum);
    int64_t best = 0;
    for (int64_t i = 1; i < w->s->stepper->vocabulary; i++)
        if (logits[i] > logits[best]) best = i;
    w->token[r] = best;
    w->log_prob[r] = (double)w->plain[best] - sum;
}

/* ---- sampling --------------------------------------------------------------------- */

static int descending(const void *a, const void *b, void *weights)
{
    const double *w = weights;
    const int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    if (w[i] != w[j]) return w[i] < w[j] ? 1 : -1;
    return i < j ? -1 : i > j;
}

/*
 * Puts the likeliest tokens into w->order, best first, as many as the cuts can need, and returns
 * their number. Sorting a whole vocabulary would take longer than the model's own step, so tokens
 * that are far behind the first one (whose weight is 1) come in only where the others are too few.
 */
static int64_t order_tokens(const walk *w, double total)
{
    const fv_decode_config *cfg = w->s->cfg;
    const int64_t vocabulary = w->s->stepper->vocabulary;
    const bool bounded = cfg->top_k > 0 || cfg->top_p < 1 || cfg->min_p > 0;
    int64_t n = 0;
    bool enough = false;
    for (double least = bounded ? 1e-3 : 0; !enough; least = least > 1e-12 ? least * 1e-3 : 0) {
        double mass = 0;
        n = 0;
        for (int64_t i = 0; i < vocabulary; i++)
            if (!(w->weight[i] < least)) {
                w->order[n++] = i;
                mass += w->weight[i];
            }
        enough = least == 0 || cfg->min_p >= least ||
                 (cfg->top_k > 0 ? n >= cfg->top_k : mass >= cfg->top_p * total);
    }
    qsort_r(w->order, (size_t)n, sizeof *w->order, descending, w->weight);
    return n;
}

/* How many of the first `count` tokens in w->order stay in the race. */
static int64_t kept_tokens(const walk *w, int64_t count, double total)
{
    const fv_decode_config *cfg = w->s->cfg;
    const int64_t most = cfg->top_k > 0 && cfg->top_k < count ? cfg->top_k : count;
    double cut = total;
    if (cfg->top_k > 0) {
        cut = 0;
        for (int64_t i = 0; i < most; i++)
            cut += w->weight[w->order[i]];
    }
    double mass = 0;
    int64_t n = 0;
    const double least = cfg->min_p * w->weight[w->order[0]];
    for (; n < most; n++) {
        const double p = w->weight[w->order[n]];
        if (n > 0 && (mass >= cfg->top_p * cut || p < least || p <= 0)) break;
        mass += p;
    }
    return n;
}

static void draw_token(const walk *w, int64_t r, int64_t done)
{
    const fv_decode_config *cfg = w->s->cfg;
    const int64_t vocabulary = w->s->stepper->vocabulary;
    double sum, most = -INFINITY;
    const float *logits = settled(w, r, &sum);
    for (int64_t i = 0; i < vocabulary; i++)
        if ((double)logits[i] > most) most = (double)logits[i];
    double total = 0;
    for (int64_t i = 0; i < vocabulary; i++)
        total += w->weight[i] = exp(((double)logits[i] - most) / cfg->temperature);
    const int64_t kept = kept_tokens(w, order_tokens(w, total), total);
    double mass = 0;
    for (int64_t i = 0; i < kept; i++)
        mass += w->weight[w->order[i]];
    const walker *row = &w->row[r];
    const uint64_t number = (uint64_t)(row->source + cfg->first_source);
    uint32_t words[4];
    fv_rng_draw(fv_rng_key(cfg->seed, number, (uint64_t)row->copy), (uint64_t)done, 0, words);
    double left = (double)fv_rng_unit(words[0]) * mass;
    int64_t pick = 0;
    while (pick + 1 < kept && left >= w->weight[w->order[pick]])
        left -= w->weight[w->order[pick++]];
    w->token[r] = w->order[pick];
    w->log_prob[r] = (double)w->plain[w->token[r]] - sum;
}

static fv_status choose_on_host(const walk *w, fv_tensor *logits, int64_t done)
{
    fv_ctx *ctx = w->s->ctx;
    const size_t bytes = (size_t)(w->rows * w->s->stepper->vocabulary) * sizeof *w->logits;
    FV_FORWARD(fv_tensor_read(ctx, fv_cast(ctx, logits, FV_F32), w->logits, bytes));
    for (int64_t r = 0; r < w->rows; r++) {
        if (w->s->cfg->sample)
            draw_token(w, r, done);
        else
            take_likeliest(w, r);
    }
    return FV_OK;
}

/* ---- the walk --------------------------------------------------------------------- */

/* Extends every row by its token; rows that end leave. */
static fv_status extend_rows(walk *w, const float *weights, int64_t positions, bool *changed)
{
    const fv_search *s = w->s;
    int64_t kept = 0;
    for (int64_t r = 0; r < w->rows; r++) {
        walker row = w->row[r];
        const double before = row.last ? row.last->log_prob : 0;
        row.last = fv_search_extend(s, row.last, w->token[r], before + w->log_prob[r],
                                    weights ? weights + r * positions : NULL, positions);
        FV_RETURN_IF(!row.last, s->ctx, FV_ERR_MEMORY, "decode: no memory for a token");
        const bool ended = fv_search_ends(s, w->token[r]);
        const bool enough =
            s->cfg->heard && !s->cfg->heard(s->cfg->heard_user, row.source, row.copy, w->token[r]);
        if (ended || enough || row.last->depth >= s->most_tokens[row.source]) {
            FV_FORWARD(fv_search_finish(s, row.source, row.last, ended, positions));
            continue;
        }
        w->from[kept] = r;
        w->token[kept] = w->token[r];
        w->row[kept++] = row;
    }
    *changed = kept != w->rows;
    w->rows = kept;
    return FV_OK;
}

static fv_status one_step(walk *w, int64_t done)
{
    const fv_search *s = w->s;
    fv_tensor *weights = NULL;
    const float *host = NULL;
    int64_t positions = 0;
    bool changed = false;
    fv_status status;
    if (w->logits)
        status = choose_on_host(w, fv_search_step(s, w->rows, w->token, &weights), done);
    else if (s->cfg->no_scores)
        status = take_tokens(w, fv_search_best(s, w->rows, w->token, &weights));
    else
        status = choose_likeliest(w, fv_search_step(s, w->rows, w->token, &weights));
    if (status == FV_OK) status = fv_search_weights(s, weights, &host, &positions);
    fv_scope_end(s->ctx);
    if (status == FV_OK) status = extend_rows(w, host, positions, &changed);
    if (status == FV_OK && changed && w->rows > 0)
        status = s->stepper->select(s->stepper->user, w->rows, w->from);
    return status;
}

/* nbest rows a source; sources that may have no token at all stay out. */
static fv_status place_rows(walk *w, int copies)
{
    const fv_search *s = w->s;
    for (int64_t i = 0; i < s->sources; i++)
        for (int c = 0; c < copies && s->most_tokens[i] > 0; c++) {
            w->from[w->rows] = i;
            w->token[w->rows] = fv_search_start(s, i);
            w->row[w->rows++] = (walker){.source = i, .copy = c};
        }
    if (w->rows == s->sources || w->rows == 0) return FV_OK;
    return s->stepper->select(s->stepper->user, w->rows, w->from);
}

fv_status fv_search_walk(const fv_search *s)
{
    fv_arena *arena = &s->outputs->arena;
    const int copies = s->cfg->sample ? s->cfg->nbest : 1;
    const size_t vocabulary = (size_t)s->stepper->vocabulary;
    walk w = {.s = s, .room = s->sources * copies};
    const size_t room = (size_t)w.room;
    w.row = fv_arena_array(arena, room, sizeof *w.row);
    w.token = fv_arena_array(arena, room, sizeof *w.token);
    w.from = fv_arena_array(arena, room, sizeof *w.from);
    w.log_prob = fv_arena_array(arena, room, sizeof *w.log_prob);
    bool ok = w.row && w.token && w.from && w.log_prob;
    if (s->cfg->sample || fv_search_changes(s)) {
        w.logits = fv_arena_array(arena, room * vocabulary, sizeof *w.logits);
        w.plain = fv_arena_array(arena, vocabulary, sizeof *w.plain);
        ok = ok && w.logits && w.plain;
    }
    if (s->cfg->sample) {
        w.order = fv_arena_array(arena, vocabulary, sizeof *w.order);
        w.weight = fv_arena_array(arena, vocabulary, sizeof *w.weight);
        ok = ok && w.order && w.weight;
    }
    FV_RETURN_IF(!ok, s->ctx, FV_ERR_MEMORY, "decode: no memory for %zu rows", room);
    FV_FORWARD(place_rows(&w, copies));
    for (int64_t done = 0; w.rows > 0; done++)
        FV_FORWARD(one_step(&w, done));
    return FV_OK;
}
