/*
 * Greedy search and sampling: each row is extended by its most likely token, or by one drawn from
 * the distribution. Rows that have ended leave the batch.
 */
#include <math.h>
#include <string.h>

#include "base/checked_math.h"
#include "base/rng.h"
#include "fovea/ops.h"
#include "infer/sampling.h"
#include "infer/search.h"

typedef struct hypothesis {
    int64_t source;
    int sample; /* which of the source's outputs, when sampling */
    const fv_node *last;
} hypothesis;

/* Logits read of a row when sampling, unless top_k says how many can matter. */
enum { CANDIDATES = 1024 };

typedef struct token_search {
    const fv_search_run *s;
    int64_t rows, room;
    hypothesis *row;
    int64_t *token, *from; /* [room] */
    double *log_prob;      /* [room], of the token just chosen */
    double *read;          /* [room], tokens as they are read */
    bool processes;        /* settings change scores */
    /* Sampling; else NULL. */
    int64_t candidates;   /* of a row */
    double *top, *index;  /* [room][candidates]: their logits and tokens */
    double *sum, *scaled; /* [room]: log sum exp of the logits, and of logits / temperature */
    float *some;          /* [candidates], of one row */
    int64_t *order;       /* [max_choices] */
    double *weight;       /* [max_choices] */
    /* Of a step whose logits are all needed; NULL before the first. */
    float *logits; /* [room][max_choices] */
    float *raw;    /* [max_choices], of one row, of the model, before processing */
} token_search;

/* ---- greedy ----------------------------------------------------------------------- */

static void take_read_tokens(const token_search *w)
{
    for (int64_t r = 0; r < w->rows; r++)
        w->token[r] = (int64_t)w->read[r];
}

static fv_status choose_most_likely(const token_search *w, const fv_search_step_result *step,
                                    fv_step_weights *host)
{
    fv_ctx *ctx = w->s->ctx;
    fv_tensor *logits = step->logits;
    const int last[1] = {-1};
    fv_tensor *best =
        fv_sub(ctx, fv_max(ctx, logits, 1, last, false), fv_logsumexp(ctx, logits, 1, last, false));
    fv_tensor *const parts[] = {best, fv_argmax(ctx, logits, -1, false)};
    FV_TRY(fv_search_read(w->s, 2, parts, (double *[]){w->log_prob, w->read}, step->weights, host));
    for (int64_t r = 0; step->limited && r < w->rows; r++)
        if (!(w->log_prob[r] > -INFINITY)) return fv_search_no_choice(w->s, r);
    take_read_tokens(w);
    return FV_OK;
}

/* Log-probabilities were not requested. */
static fv_status take_tokens(const token_search *w, const fv_search_step_result *step,
                             fv_step_weights *host)
{
    const bool known = step->best_on_host != NULL;
    FV_TRY(fv_search_read(w->s, known ? 0 : 1, (fv_tensor *[]){step->best}, (double *[]){w->read},
                          step->weights, host));
    if (known)
        memcpy(w->token, step->best_on_host, (size_t)w->rows * sizeof *w->token);
    else
        take_read_tokens(w);
    for (int64_t r = 0; r < w->rows; r++)
        w->log_prob[r] = NAN;
    return FV_OK;
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

/* The number that draws token number `done` of row r. */
static double draw_number(const token_search *w, int64_t r, int64_t done)
{
    const fv_search_config *cfg = w->s->cfg;
    const hypothesis *row = &w->row[r];
    const uint64_t number = (uint64_t)(row->source + cfg->first_source);
    uint32_t words[4];
    fv_rng_draw(fv_rng_key(cfg->seed, number, (uint64_t)row->sample), (uint64_t)done, 0, words);
    return (double)fv_rng_unit(words[0]);
}

static void draw_from_all(const token_search *w, int64_t r, bool limited, int64_t done)
{
    const int64_t choices = w->s->stepper->max_choices;
    double sum;
    const fv_draw_row row = {.logit = process_row(w, r, limited, &sum),
                             .count = choices,
                             .choices = choices,
                             .weight = w->weight,
                             .order = w->order};
    w->token[r] = fv_search_draw(w->s->cfg, &row, draw_number(w, r, done));
    w->log_prob[r] = (double)w->raw[w->token[r]] - sum;
}

/* false: the draw goes beyond the candidates of the row. */
static bool draw_from_candidates(const token_search *w, int64_t r, int64_t done)
{
    const double *top = w->top + r * w->candidates;
    const fv_draw_row row = {.logit = w->some,
                             .count = w->candidates,
                             .choices = w->s->stepper->max_choices,
                             .log_total = w->scaled[r],
                             .weight = w->weight,
                             .order = w->order};
    for (int64_t i = 0; i < w->candidates; i++)
        w->some[i] = (float)top[i];
    const int64_t pick = fv_search_draw(w->s->cfg, &row, draw_number(w, r, done));
    if (pick < 0) return false;
    w->token[r] = (int64_t)w->index[r * w->candidates + pick];
    w->log_prob[r] = top[pick] - w->sum[r];
    return true;
}

static fv_status read_candidates(const token_search *w, const fv_search_step_result *step,
                                 fv_step_weights *host)
{
    fv_ctx *ctx = w->s->ctx;
    const int last[1] = {-1};
    const double temperature = w->s->cfg->temperature;
    fv_tensor *logits = fv_cast(ctx, step->logits, FV_F32), *wide = fv_cast(ctx, logits, FV_F64);
    fv_tensor *index = NULL, *top = fv_topk(ctx, logits, w->candidates, &index);
    fv_tensor *sum = fv_logsumexp(ctx, wide, 1, last, false), *scaled = sum;
    if (temperature != 1)
        scaled = fv_logsumexp(ctx, fv_scale(ctx, wide, 1 / temperature), 1, last, false);
    return fv_search_read(w->s, 4, (fv_tensor *[]){top, index, sum, scaled},
                          (double *[]){w->top, w->index, w->sum, w->scaled}, step->weights, host);
}

static fv_status make_room_for_all(token_search *w)
{
    fv_arena *arena = &w->s->outputs->arena;
    const size_t choices = (size_t)w->s->stepper->max_choices;
    if (!w->logits) w->logits = fv_arena_array(arena, (size_t)w->room * choices, sizeof *w->logits);
    if (!w->raw) w->raw = fv_arena_array(arena, choices, sizeof *w->raw);
    FV_RETURN_IF(!w->logits || !w->raw, w->s->ctx, FV_ERR_MEMORY,
                 "search: no memory for the logits of %lld rows", (long long)w->room);
    return FV_OK;
}

/* All logits of the step. */
static fv_status read_all(token_search *w, const fv_search_step_result *step)
{
    FV_TRY(make_room_for_all(w));
    const size_t bytes = (size_t)(w->rows * w->s->stepper->max_choices) * sizeof *w->logits;
    return fv_tensor_read(w->s->ctx, fv_cast(w->s->ctx, step->logits, FV_F32), w->logits, bytes);
}

static fv_status draw_tokens(token_search *w, const fv_search_step_result *step, int64_t done,
                             fv_step_weights *host)
{
    bool have_all = false;
    FV_TRY(read_candidates(w, step, host));
    for (int64_t r = 0; r < w->rows; r++) {
        if (!draw_from_candidates(w, r, done)) {
            if (!have_all) FV_TRY(read_all(w, step));
            have_all = true;
            draw_from_all(w, r, step->limited, done);
        }
        if (step->limited && !(w->log_prob[r] > -INFINITY)) return fv_search_no_choice(w->s, r);
    }
    return FV_OK;
}

static fv_status choose_on_host(token_search *w, const fv_search_step_result *step, int64_t done,
                                fv_step_weights *host)
{
    FV_TRY(read_all(w, step));
    for (int64_t r = 0; r < w->rows; r++) {
        if (w->s->cfg->sample)
            draw_from_all(w, r, step->limited, done);
        else
            take_most_likely(w, r, step->limited);
        if (step->limited && !(w->log_prob[r] > -INFINITY)) return fv_search_no_choice(w->s, r);
    }
    return fv_search_read(w->s, 0, NULL, NULL, step->weights, host);
}

/* ---- the loop --------------------------------------------------------------------- */

/* Extends every row by its token; rows that end leave. */
static fv_status extend_rows(token_search *w, const fv_step_weights *step, bool *changed)
{
    const float *weights = step->host;
    const int64_t positions = step->positions;
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

static fv_status choose(token_search *w, const fv_search_step_result *step, int64_t done,
                        fv_step_weights *host)
{
    if (w->processes) return choose_on_host(w, step, done, host);
    if (w->s->cfg->sample) return draw_tokens(w, step, done, host);
    return step->best ? take_tokens(w, step, host) : choose_most_likely(w, step, host);
}

static fv_status one_step(token_search *w, int64_t done)
{
    const fv_search_run *s = w->s;
    fv_step_weights host = {.host = NULL};
    bool changed = false;
    const bool needs_best = !w->processes && !s->cfg->sample && s->cfg->no_scores;
    const fv_search_step_result step =
        needs_best ? fv_search_best(s, w->rows, w->token) : fv_search_step(s, w->rows, w->token);
    fv_status status = step.status;
    if (status == FV_OK) status = choose(w, &step, done, &host);
    fv_scope_end(s->ctx);
    if (status == FV_OK) status = extend_rows(w, &host, &changed);
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

static bool make_sampling_room(token_search *w)
{
    fv_arena *arena = &w->s->outputs->arena;
    const int64_t choices = w->s->stepper->max_choices, top_k = w->s->cfg->top_k;
    const int64_t enough = top_k > 0 ? top_k : CANDIDATES;
    w->candidates = enough < choices ? enough : choices;
    size_t all;
    if (!fv_checked_mul_size((size_t)w->room, (size_t)w->candidates, &all)) return false;
    w->top = fv_arena_array(arena, all, sizeof *w->top);
    w->index = fv_arena_array(arena, all, sizeof *w->index);
    w->sum = fv_arena_array(arena, (size_t)w->room, sizeof *w->sum);
    w->scaled = fv_arena_array(arena, (size_t)w->room, sizeof *w->scaled);
    w->some = fv_arena_array(arena, (size_t)w->candidates, sizeof *w->some);
    w->order = fv_arena_array(arena, (size_t)choices, sizeof *w->order);
    w->weight = fv_arena_array(arena, (size_t)choices, sizeof *w->weight);
    return w->top && w->index && w->sum && w->scaled && w->some && w->order && w->weight;
}

fv_status fv_search_greedy(const fv_search_run *s)
{
    fv_arena *arena = &s->outputs->arena;
    const int copies = s->cfg->sample ? s->cfg->nbest : 1;
    token_search w = {
        .s = s, .room = s->sources * copies, .processes = fv_search_has_processors(s)};
    const size_t room = (size_t)w.room;
    w.row = fv_arena_array(arena, room, sizeof *w.row);
    w.token = fv_arena_array(arena, room, sizeof *w.token);
    w.from = fv_arena_array(arena, room, sizeof *w.from);
    w.log_prob = fv_arena_array(arena, room, sizeof *w.log_prob);
    w.read = fv_arena_array(arena, room, sizeof *w.read);
    const bool ok = w.row && w.token && w.from && w.log_prob && w.read;
    FV_RETURN_IF(!ok || (s->cfg->sample && !make_sampling_room(&w)), s->ctx, FV_ERR_MEMORY,
                 "search: no memory for %zu rows", room);
    FV_TRY(place_rows(&w, copies));
    for (int64_t done = 0; w.rows > 0; done++)
        FV_TRY(one_step(&w, done));
    return FV_OK;
}
