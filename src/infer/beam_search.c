/*
 * Beam search. Each source keeps its own beam of live prefixes; rows of all sources go through the
 * model together, those of one source next to each other. One step looks at the beam + 1 most
 * likely continuations of each prefix (one of them may be the end), which is enough to fill the
 * next beam.
 */
#include <math.h>
#include <stdlib.h>

#include "fovea/ops.h"
#include "infer/search.h"

typedef struct candidate {
    double log_prob;
    int64_t row; /* of the prefix it continues */
    int64_t token;
} candidate;

typedef struct beam_search {
    const fv_search_run *s;
    int64_t width, per_row; /* beam, and continuations looked at for each prefix */
    int64_t rows;
    int64_t *source;      /* [rows] */
    const fv_node **last; /* [rows]; NULL at the beginning */
    int64_t *next_source; /* the next step's rows, while they are chosen */
    const fv_node **next_last;
    int64_t *token, *from; /* [rows] of the next step */
    double *top;           /* [rows][per_row] */
    double *top_index;     /* the tokens as they are read */
    int64_t *top_token;
    candidate *list; /* of one source */
    float *scores;   /* [rows][max_choices], where settings change them; else NULL */
} beam_search;

static int better_first(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->log_prob != y->log_prob) return x->log_prob < y->log_prob ? 1 : -1;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

/* Whether no continuation of a live prefix can enter the source's list: further tokens only lower
 * log p, and coverage can at best cost nothing. */
static bool decided(const fv_search_run *s, int64_t source, double best_live, int64_t depth)
{
    const fv_outputs *o = s->outputs;
    if (o->count[source] < o->room) return false;
    const double worst = o->list[source * o->room + o->room - 1].score;
    if (s->cfg->as_transformers)
        return s->cfg->early_stopping || best_live / fv_search_length_penalty(s, depth) <= worst;
    const double now = best_live / fv_search_length_penalty(s, depth + 1);
    const double longest = best_live / fv_search_length_penalty(s, s->max_tokens[source]);
    return (now > longest ? now : longest) <= worst;
}

/* Candidates of the rows [first, first + rows) of one source, best first. */
static int64_t gather_candidates(const beam_search *b, int64_t first, int64_t rows)
{
    int64_t n = 0;
    for (int64_t r = first; r < first + rows; r++) {
        const fv_node *last = b->last[r];
        for (int64_t i = 0; i < b->per_row; i++) {
            const int64_t at = r * b->per_row + i;
            if (b->top[at] == -INFINITY) continue;
            b->list[n++] = (candidate){.log_prob = (last ? last->log_prob : 0) + b->top[at],
                                       .row = r,
                                       .token = b->top_token[at]};
        }
    }
    qsort(b->list, (size_t)n, sizeof *b->list, better_first);
    return n;
}

static const fv_node *extend(const beam_search *b, const candidate *c, const fv_step_weights *w)
{
    const float *row = w->host ? w->host + c->row * w->positions : NULL;
    return fv_search_extend(b->s, b->last[c->row], c->token, c->log_prob, row, w->positions);
}

/* Puts the next beam of one source behind the `at` rows chosen so far; *at moves on. */
static fv_status advance_source(beam_search *b, int64_t first, int64_t rows,
                                const fv_step_weights *w, int64_t *at)
{
    const fv_search_run *s = b->s;
    const int64_t source = b->source[first], begin = *at, n = gather_candidates(b, first, rows);
    int64_t depth = 0, leading = 0; /* live prefixes among the first `width` candidates */
    for (int64_t i = 0; i < n && *at - begin < b->width; i++) {
        const candidate *c = &b->list[i];
        const bool ends = fv_search_is_eos(s, c->token);
        if (ends && i >= b->width) continue;
        const fv_node *node = extend(b, c, w);
        FV_RETURN_IF(!node, s->ctx, FV_ERR_MEMORY, "search: no memory for a token");
        depth = node->depth;
        if (ends) {
            FV_TRY(fv_search_finish(s, source, node, true, w->positions));
            continue;
        }
        b->next_source[*at] = source;
        b->next_last[*at] = node;
        b->from[*at] = c->row;
        b->token[(*at)++] = c->token;
        if (i < b->width) leading++;
    }
    if (*at == begin) return FV_OK;
    const bool full = depth >= s->max_tokens[source];
    if (!full && !decided(s, source, b->next_last[begin]->log_prob, depth)) return FV_OK;
    /* Prefixes that were cut off count only where ended outputs are too few. */
    const bool all = s->cfg->as_transformers;
    for (int64_t i = begin; full && i < (all ? begin + leading : *at); i++)
        if (all || s->outputs->count[source] < s->outputs->room)
            FV_TRY(fv_search_finish(s, source, b->next_last[i], false, w->positions));
    *at = begin;
    return FV_OK;
}

static fv_status advance(beam_search *b, const fv_step_weights *w)
{
    const fv_search_run *s = b->s;
    int64_t chosen = 0;
    for (int64_t first = 0; first < b->rows;) {
        int64_t rows = 1;
        while (first + rows < b->rows && b->source[first + rows] == b->source[first])
            rows++;
        FV_TRY(advance_source(b, first, rows, w, &chosen));
        first += rows;
    }
    bool same = chosen == b->rows;
    for (int64_t i = 0; i < chosen; i++) {
        same = same && b->from[i] == i;
        b->source[i] = b->next_source[i];
        b->last[i] = b->next_last[i];
    }
    b->rows = chosen;
    return same || chosen == 0 ? FV_OK : s->stepper->select(s->stepper->user, chosen, b->from);
}

/* The largest scores of row r, in the order of fv_topk: NaN first, equal ones by index. */
static void top_of_row(const beam_search *b, int64_t r)
{
    const int64_t choices = b->s->stepper->max_choices;
    const float *score = b->scores + r * choices;
    double *top = b->top + r * b->per_row;
    int64_t *token = b->top_token + r * b->per_row, n = 0;
    for (int64_t i = 0; i < choices; i++) {
        const double x = (double)score[i];
        int64_t at = n < b->per_row ? n++ : n;
        for (; at > 0 && (x > top[at - 1] || (isnan(x) && !isnan(top[at - 1]))); at--) {
            if (at == n && n == b->per_row) continue; /* the last one falls out */
            top[at] = top[at - 1];
            token[at] = token[at - 1];
        }
        if (at == b->per_row) continue;
        top[at] = x;
        token[at] = i;
    }
}

/* Log-probabilities of all choices, processed by the settings. */
static fv_status choose_on_host(const beam_search *b, const fv_search_step_result *step,
                                fv_tensor *p, fv_step_weights *w)
{
    const fv_search_run *s = b->s;
    const int64_t choices = s->stepper->max_choices;
    const size_t bytes = (size_t)(b->rows * choices) * sizeof *b->scores;
    FV_TRY(fv_tensor_read(s->ctx, fv_cast(s->ctx, p, FV_F32), b->scores, bytes));
    for (int64_t r = 0; r < b->rows; r++) {
        float *row = b->scores + r * choices;
        fv_search_process(s, (fv_search_row){b->source[r], b->last[r], step->limited}, row);
        if (s->cfg->renormalize) fv_search_renormalize(s, row);
        top_of_row(b, r);
    }
    return fv_search_read(s, 0, NULL, NULL, step->weights, w);
}

static fv_status choose(const beam_search *b, const fv_search_step_result *step, fv_step_weights *w)
{
    const fv_search_run *s = b->s;
    fv_tensor *p = fv_log_softmax(s->ctx, step->logits, -1), *index = NULL;
    if (b->scores) return choose_on_host(b, step, p, w);
    fv_tensor *top = fv_topk(s->ctx, p, b->per_row, &index);
    FV_TRY(fv_search_read(s, 2, (fv_tensor *[]){top, index}, (double *[]){b->top, b->top_index},
                          step->weights, w));
    for (int64_t i = 0; i < b->rows * b->per_row; i++)
        b->top_token[i] = (int64_t)b->top_index[i];
    return FV_OK;
}

static fv_status one_step(beam_search *b)
{
    const fv_search_run *s = b->s;
    fv_step_weights w = {.host = NULL};
    const fv_search_step_result step = fv_search_step(s, b->rows, b->token);
    fv_status status = step.status;
    if (status == FV_OK) status = choose(b, &step, &w);
    for (int64_t r = 0; step.limited && status == FV_OK && r < b->rows; r++)
        if (!(b->top[r * b->per_row] > -INFINITY)) status = fv_search_no_choice(s, r);
    fv_scope_end(s->ctx);
    if (status == FV_OK) status = advance(b, &w);
    return status;
}

static fv_status place_rows(beam_search *b)
{
    const fv_search_run *s = b->s;
    for (int64_t i = 0; i < s->sources; i++) {
        if (s->max_tokens[i] < 1) continue;
        b->from[b->rows] = i;
        b->token[b->rows] = fv_search_bos(s, i);
        b->last[b->rows] = NULL;
        b->source[b->rows++] = i;
    }
    if (b->rows == s->sources || b->rows == 0) return FV_OK;
    return s->stepper->select(s->stepper->user, b->rows, b->from);
}

fv_status fv_search_beam(const fv_search_run *s)
{
    fv_arena *arena = &s->outputs->arena;
    const int64_t most = s->stepper->max_choices;
    beam_search b = {.s = s, .width = s->cfg->beam};
    const int64_t enough = b.width + 1 + s->cfg->extra_eos_count; /* any end may be in the way */
    b.per_row = enough < most ? enough : most;
    const size_t room = (size_t)(s->sources * b.width);
    const size_t tops = room * (size_t)b.per_row;
    b.source = fv_arena_array(arena, room, sizeof *b.source);
    b.last = fv_arena_array(arena, room, sizeof *b.last);
    b.next_source = fv_arena_array(arena, room, sizeof *b.next_source);
    b.next_last = fv_arena_array(arena, room, sizeof *b.next_last);
    b.token = fv_arena_array(arena, room, sizeof *b.token);
    b.from = fv_arena_array(arena, room, sizeof *b.from);
    b.top = fv_arena_array(arena, tops, sizeof *b.top);
    b.top_index = fv_arena_array(arena, tops, sizeof *b.top_index);
    b.top_token = fv_arena_array(arena, tops, sizeof *b.top_token);
    b.list = fv_arena_array(arena, (size_t)(b.width * b.per_row), sizeof *b.list);
    const bool changes = fv_search_has_processors(s);
    if (changes) b.scores = fv_arena_array(arena, room * (size_t)most, sizeof *b.scores);
    FV_RETURN_IF((changes && !b.scores) || !b.source || !b.last || !b.next_source || !b.next_last ||
                     !b.token || !b.from || !b.top || !b.top_index || !b.top_token || !b.list,
                 s->ctx, FV_ERR_MEMORY, "search: no memory for a beam of %lld", (long long)b.width);
    FV_TRY(place_rows(&b));
    while (b.rows > 0)
        FV_TRY(one_step(&b));
    return FV_OK;
}
