/*
 * Greedy search and sampling: each row is extended by its most likely token, or by one drawn from
 * the distribution. Rows that have ended leave the batch.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "fovea/ops.h"
#include "infer/search.h"

typedef struct hypothesis {
    int64_t source;
    int sample; /* which of the source's outputs, when sampling */
    const fv_node *last;
} hypothesis;

typedef struct token_search {
    const fv_search_run *s;
    int64_t rows, room;
    hypothesis *row;
    int64_t *token, *from; /* [room] */
    double *log_prob;      /* [room], of the token just chosen */
    /* Where tokens are chosen on the host; else NULL. */
    float *logits;  /* [room][max_choices] */
    float *raw;     /* [max_choices], of one row, of the model, before processing */
    int64_t *order; /* [max_choices]; sampling */
    double *weight; /* [max_choices] */
} token_search;

/* ---- greedy ----------------------------------------------------------------------- */

static fv_status choose_most_likely(const token_search *w, const fv_search_step_result *step)
{
    fv_ctx *ctx = w->s->ctx;
    fv_tensor *logits = step->logits;
    const int last[1] = {-1};
    fv_tensor *best =
        fv_sub(ctx, fv_max(ctx, logits, 1, last, false), fv_logsumexp(ctx, logits, 1, last, false));
    const size_t rows = (size_t)w->rows;
    FV_TRY(
        fv_tensor_read(ctx, fv_cast(ctx, best, FV_F64), w->log_prob, rows * sizeof *w->log_prob));
    for (int64_t r = 0; step->limited && r < w->rows; r++)
        if (!(w->log_prob[r] > -INFINITY)) return fv_search_no_choice(w->s, r);
    return fv_tensor_read(ctx, fv_argmax(ctx, logits, -1, false), w->token,
                          rows * sizeof *w->token);
}

/* Log-probabilities were not requested. */
static fv_status take_tokens(const token_search *w, fv_tensor *best)
{
    for (int64_t r = 0; r < w->rows; r++)
        w->log_prob[r] = NAN;
    return fv_tensor_read(w->s->ctx, best, w->token, (size_t)w->rows * sizeof *w->token);
}

/* ---- on the host ------------------------------------------------------------------- */

/* The processed logits of row r; w->raw keeps the model's, and *sum is their log-sum-exp. */
static float *process_row(const token_search *w, int64_t r, bool limited, double *sum)
{
    const int64_t choices = w->s->stepper->max_choices;
    float *logits = w->logits + r * choices;
    double most = -INFINITY, total = 0;
    memcpy(w->raw, logits, (size_t)choices * sizeof *logits);
    for (int64_t i = 0; i < choices; i++)
        if ((double)logits[i] > most) most = (double)logits[i];
    for (int64_t i = 0; i < choices; i++)
        total += exp((double)logits[i] - most);
    *sum = most + log(total);
    fv_search_process(w->s, (fv_search_row){w->row[r].source, w->row[r].last, limited}, logits);
    return logits;
}

static void take_most_likely(const token_search *w, int64_t r, bool limited)
{
    double sum;
    const float *logits = process_row(w, r, limited, &sum);
    int64_t best = 0;
    for (int64_t i = 1; i < w->s->stepper->max_choices; i++)
        if (logits[i] > logits[best]) best = i;
    w->token[r] = best;
    w->log_prob[r] = (double)w->raw[best] - sum;
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
 * Puts the most likely tokens into w->order, best first, as many as the cuts can need, and returns
 * their number. Sorting a whole vocabulary would take longer than the model's own step, so tokens
 * that are far behind the first one (whose weight is 1) come in only where the others are too few.
 */
static int64_t order_tokens(const token_search *w, double total)
{
    const fv_search_config *cfg = w->s->cfg;
    const int64_t choices = w->s->stepper->max_choices;
    const bool bounded = cfg->top_k > 0 || cfg->top_p < 1 || cfg->min_p > 0;
    int64_t n = 0;
    bool enough = false;
    for (double least = bounded ? 1e-3 : 0; !enough; least = least > 1e-12 ? least * 1e-3 : 0) {
        double mass = 0;
        n = 0;
        for (int64_t i = 0; i < choices; i++)
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

/* How many of the first `count` tokens in w->order can be drawn. */
static int64_t kept_tokens(const token_search *w, int64_t count, double total)
{
    const fv_search_config *cfg = w->s->cfg;
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

static void draw_token(const token_search *w, int64_t r, bool limited, int64_t done)
{
    const fv_search_config *cfg = w->s->cfg;
    const int64_t choices = w->s->stepper->max_choices;
    double sum, most = -INFINITY;
    const float *logits = process_row(w, r, limited, &sum);
    for (int64_t i = 0; i < choices; i++)
        if ((double)logits[i] > most) most = (double)logits[i];
    double total = 0;
    for (int64_t i = 0; i < choices; i++)
        total += w->weight[i] = exp(((double)logits[i] - most) / cfg->temperature);
    const int64_t kept = kept_tokens(w, order_tokens(w, total), total);
    double mass = 0;
    for (int64_t i = 0; i < kept; i++)
        mass += w->weight[w->order[i]];
    const hypothesis *row = &w->row[r];
    const uint64_t number = (uint64_t)(row->source + cfg->first_source);
    uint32_t words[4];
    fv_rng_draw(fv_rng_key(cfg->seed, number, (uint64_t)row->sample), (uint64_t)done, 0, words);
    double left = (double)fv_rng_unit(words[0]) * mass;
    int64_t pick = 0;
    while (pick + 1 < kept && left >= w->weight[w->order[pick]])
        left -= w->weight[w->order[pick++]];
    w->token[r] = w->order[pick];
    w->log_prob[r] = (double)w->raw[w->token[r]] - sum;
}

static fv_status choose_on_host(const token_search *w, const fv_search_step_result *step,
                                int64_t done)
{
    fv_ctx *ctx = w->s->ctx;
    const size_t bytes = (size_t)(w->rows * w->s->stepper->max_choices) * sizeof *w->logits;
    FV_TRY(fv_tensor_read(ctx, fv_cast(ctx, step->logits, FV_F32), w->logits, bytes));
    for (int64_t r = 0; r < w->rows; r++) {
        if (w->s->cfg->sample)
            draw_token(w, r, step->limited, done);
        else
            take_most_likely(w, r, step->limited);
        if (step->limited && !(w->log_prob[r] > -INFINITY)) return fv_search_no_choice(w->s, r);
    }
    return FV_OK;
}

/* ---- the loop --------------------------------------------------------------------- */

/* Extends every row by its token; rows that end leave. */
static fv_status extend_rows(token_search *w, const float *weights, int64_t positions,
                             bool *changed)
{
    const fv_search_run *s = w->s;
    int64_t kept = 0;
    for (int64_t r = 0; r < w->rows; r++) {
        hypothesis row = w->row[r];
        const double before = row.last ? row.last->log_prob : 0;
        row.last = fv_search_extend(s, row.last, w->token[r], before + w->log_prob[r],
                                    weights ? weights + r * positions : NULL, positions);
        FV_RETURN_IF(!row.last, s->ctx, FV_ERR_MEMORY, "search: no memory for a token");
        const bool ended = fv_search_is_eos(s, w->token[r]);
        const bool stopped =
            s->cfg->on_token &&
            !s->cfg->on_token(s->cfg->on_token_user, row.source, row.sample, w->token[r]);
        if (ended || stopped || row.last->depth >= s->max_tokens[row.source]) {
            FV_TRY(fv_search_finish(s, row.source, row.last, ended, positions));
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

static fv_status one_step(token_search *w, int64_t done)
{
    const fv_search_run *s = w->s;
    const float *host = NULL;
    int64_t positions = 0;
    bool changed = false;
    const bool needs_best = !w->logits && s->cfg->no_scores;
    const fv_search_step_result step =
        needs_best ? fv_search_best(s, w->rows, w->token) : fv_search_step(s, w->rows, w->token);
    fv_status status = step.status;
    if (status == FV_OK) {
        if (w->logits)
            status = choose_on_host(w, &step, done);
        else if (step.best)
            status = take_tokens(w, step.best);
        else
            status = choose_most_likely(w, &step);
    }
    if (status == FV_OK) status = fv_search_weights(s, step.weights, &host, &positions);
    fv_scope_end(s->ctx);
    if (status == FV_OK) status = extend_rows(w, host, positions, &changed);
    if (status == FV_OK && changed && w->rows > 0)
        status = s->stepper->select(s->stepper->user, w->rows, w->from);
    return status;
}

/* nbest rows per source; sources with max_tokens 0 get none. */
static fv_status place_rows(token_search *w, int outputs)
{
    const fv_search_run *s = w->s;
    for (int64_t i = 0; i < s->sources; i++)
        for (int n = 0; n < outputs && s->max_tokens[i] > 0; n++) {
            w->from[w->rows] = i;
            w->token[w->rows] = fv_search_bos(s, i);
            w->row[w->rows++] = (hypothesis){.source = i, .sample = n};
        }
    if (w->rows == s->sources || w->rows == 0) return FV_OK;
    return s->stepper->select(s->stepper->user, w->rows, w->from);
}

fv_status fv_search_greedy(const fv_search_run *s)
{
    fv_arena *arena = &s->outputs->arena;
    const int copies = s->cfg->sample ? s->cfg->nbest : 1;
    const size_t choices = (size_t)s->stepper->max_choices;
    token_search w = {.s = s, .room = s->sources * copies};
    const size_t room = (size_t)w.room;
    w.row = fv_arena_array(arena, room, sizeof *w.row);
    w.token = fv_arena_array(arena, room, sizeof *w.token);
    w.from = fv_arena_array(arena, room, sizeof *w.from);
    w.log_prob = fv_arena_array(arena, room, sizeof *w.log_prob);
    bool ok = w.row && w.token && w.from && w.log_prob;
    if (s->cfg->sample || fv_search_has_processors(s)) {
        w.logits = fv_arena_array(arena, room * choices, sizeof *w.logits);
        w.raw = fv_arena_array(arena, choices, sizeof *w.raw);
        ok = ok && w.logits && w.raw;
    }
    if (s->cfg->sample) {
        w.order = fv_arena_array(arena, choices, sizeof *w.order);
        w.weight = fv_arena_array(arena, choices, sizeof *w.weight);
        ok = ok && w.order && w.weight;
    }
    FV_RETURN_IF(!ok, s->ctx, FV_ERR_MEMORY, "search: no memory for %zu rows", room);
    FV_TRY(place_rows(&w, copies));
    for (int64_t done = 0; w.rows > 0; done++)
        FV_TRY(one_step(&w, done));
    return FV_OK;
}
