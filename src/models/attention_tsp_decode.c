/* The decoder of the attention model for routes: all steps of a given tour at once, or step by step
 * in a search. */
#include <math.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "models/attention_tsp.h"

/* ---- the loss ------------------------------------------------------------------------------- */

/* Fills [rows][longest] with rows of `tables`, and after it [rows] with the first cities. */
static void find_rows(const fv_point_sets *sets, const fv_point_answers *a, int64_t *constant,
                      int64_t *last, int64_t *first)
{
    const int64_t choices = 1 + sets->longest;
    for (int64_t i = 0, at = 0; i < sets->rows; at += a->steps[i++]) {
        first[i] = sets->begin[i] + a->choice[at] - 1;
        for (int64_t t = 0; t < a->longest; t++) {
            const bool any = t > 0 && t < a->steps[i];
            constant[i * a->longest + t] = any ? sets->rows + i : i;
            last[i * a->longest + t] = i * choices + (any ? a->choice[at + t - 1] : 0);
        }
    }
}

/* Queries of all steps, [rows, longest, width]: a constant part, which is another one before there
 * is a first city, and what the last city adds. Padded steps are as the first one. */
static fv_tensor *queries(fv_ctx *ctx, const fv_attention_tsp *m, const fv_point_sets *sets,
                          const fv_point_answers *a, const fv_attention_tsp_memory *memory)
{
    const int64_t rows = sets->rows, count = rows * a->longest, width = m->width;
    const size_t bytes = (size_t)(2 * count + rows) * sizeof(int64_t);
    int64_t *constant = fv_mem_alloc(&ctx->mem, bytes);
    if (!constant) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld steps", (long long)count);
        return ctx->invalid;
    }
    int64_t *last = constant + count;
    find_rows(sets, a, constant, last, last + count);
    fv_tensor *first = fv_from_host(ctx, FV_I64, 1, &rows, last + count);
    fv_tensor *const part[] = {fv_add(ctx, memory->fixed, memory->none),
                               fv_attention_tsp_begun(ctx, m, memory->h, memory->fixed, first)};
    fv_tensor *cities = fv_reshape(ctx, memory->last, 2, (int64_t[]){-1, width});
    fv_tensor *q =
        fv_add(ctx,
               fv_index_select(ctx, fv_concat(ctx, 2, part, 0),
                               fv_from_host(ctx, FV_I64, 1, &count, constant), 0),
               fv_index_select(ctx, cities, fv_from_host(ctx, FV_I64, 1, &count, last), 0));
    fv_mem_free(&ctx->mem, constant, bytes);
    return q;
}

static fv_tensor *loss_of_tours(fv_ctx *ctx, fv_attention_tsp *m, const fv_point_sets *sets,
                                const fv_point_answers *a, bool training)
{
    const int64_t rows = sets->rows, steps = a->longest, choices = 1 + sets->longest,
                  width = m->width, flat[] = {-1}, wide[] = {-1, width};
    const fv_attention_tsp_memory memory = fv_attention_tsp_encode(ctx, m, sets, training);
    fv_tensor *visible =
        fv_from_host(ctx, FV_U8, 4, (int64_t[]){rows, 1, steps, choices}, a->valid);
    const fv_attend_extra extra = {.visible = visible};
    fv_tensor *q = queries(ctx, m, sets, a, &memory);
    q = fv_reshape(ctx, q, 4, (int64_t[]){rows, steps, m->heads, width / m->heads});
    fv_tensor *g =
        fv_attend(ctx, fv_transpose(ctx, q, 1, 2), memory.k, memory.v, NULL, &extra, NULL);
    g = fv_reshape(ctx, fv_contiguous(ctx, fv_transpose(ctx, g, 1, 2)), 3,
                   (int64_t[]){rows, steps, width});
    fv_attention_rule rule;
    fv_attention_rule_init(&rule);
    rule.scale = m->clip / sqrt((double)width);
    rule.soft_cap = m->clip;
    fv_tensor *nothing = fv_zeros(ctx, FV_F32, 4, (int64_t[]){rows, 1, choices, 1}), *lse = NULL;
    fv_attend(ctx, fv_unsqueeze(ctx, g, 1), fv_unsqueeze(ctx, memory.point, 1), nothing, &rule,
              &extra, &lse);
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *place = fv_from_host(ctx, FV_I64, 1, &a->all, a->place);
    fv_tensor *chosen = fv_from_host(ctx, FV_I64, 1, &a->all, a->chosen);
    lse = fv_index_select(ctx, fv_reshape(ctx, lse, 1, flat), place, 0);
    g = fv_index_select(ctx, fv_reshape(ctx, g, 2, wide), place, 0);
    fv_tensor *k = fv_index_select(ctx, fv_reshape(ctx, memory.point, 2, wide), chosen, 0);
    fv_tensor *u = fv_sum(ctx, fv_mul(ctx, g, k), 1, (int[]){1}, false);
    u = fv_scale(ctx, fv_tanh(ctx, fv_scale(ctx, u, 1 / sqrt((double)width))), m->clip);
    return fv_sub(ctx, fv_sum(ctx, lse, 0, NULL, false), fv_sum(ctx, u, 0, NULL, false));
}

fv_tensor *fv_attention_tsp_loss(fv_ctx *ctx, void *self, const fv_batch *batch,
                                 const fv_pass *pass)
{
    fv_attention_tsp *m = self;
    fv_point_sets sets;
    fv_point_answers answers = {.ctx = ctx};
    fv_tensor *loss = ctx->invalid;
    if (ctx->error != FV_OK) return loss;
    fv_status status = fv_point_sets_make(ctx, m->problem, batch, &sets);
    if (status == FV_OK) status = fv_point_answers_make(&sets, batch, &answers);
    if (status == FV_OK) loss = loss_of_tours(ctx, m, &sets, &answers, pass && pass->training);
    if (status != FV_OK) fv_make_last_failure_sticky(ctx, status);
    fv_point_answers_free(&answers);
    fv_point_sets_free(&sets);
    return ctx->error == FV_OK ? loss : ctx->invalid;
}

/* ---- search --------------------------------------------------------------------------------- */

/* What the steps read. Points are stored width first: a step multiplies one row with them. */
typedef struct tables {
    fv_tensor *k, *v;
    fv_tensor *point; /* [rows, width, choices] */
    fv_tensor *query; /* [rows, width]: the part of the query that is not of the last city */
} tables;

struct fv_attention_tsp_search {
    fv_point_sets sets;
    fv_point_search rows;
    tables all, now; /* of every set, of every row */
    fv_tensor *last, *none, *h;
    int64_t *first, *at; /* [room]: first cities, rows of `last` */
    size_t room;
};

static void hold_tables(fv_ctx *ctx, tables *place, const tables *t)
{
    fv_hold_tensor(ctx, &place->k, t->k);
    fv_hold_tensor(ctx, &place->v, t->v);
    fv_hold_tensor(ctx, &place->point, t->point);
    fv_hold_tensor(ctx, &place->query, t->query);
}

void fv_attention_tsp_search_free(fv_attention_tsp *m)
{
    fv_attention_tsp_search *s = m->search;
    const tables none = {.k = NULL};
    if (!s) return;
    hold_tables(m->ctx, &s->now, &none);
    hold_tables(m->ctx, &s->all, &none);
    fv_hold_tensor(m->ctx, &s->last, NULL);
    fv_hold_tensor(m->ctx, &s->none, NULL);
    fv_hold_tensor(m->ctx, &s->h, NULL);
    fv_point_search_free(&s->rows);
    fv_point_sets_free(&s->sets);
    if (s->first) fv_mem_free(&m->ctx->mem, s->first, 2 * s->room * sizeof *s->first);
    fv_mem_free(&m->ctx->mem, s, sizeof *s);
    m->search = NULL;
}

static fv_status make_room(fv_attention_tsp *m, int64_t rows)
{
    fv_attention_tsp_search *s = m->search;
    if ((size_t)rows <= s->room) return FV_OK;
    int64_t *bigger = fv_mem_zalloc(&m->ctx->mem, 2 * (size_t)rows * sizeof *bigger);
    FV_RETURN_IF(!bigger, m->ctx, FV_ERR_MEMORY, "no memory for %lld rows", (long long)rows);
    if (s->first) fv_mem_free(&m->ctx->mem, s->first, 2 * s->room * sizeof *s->first);
    s->room = (size_t)rows;
    s->first = bigger;
    s->at = bigger + rows;
    return FV_OK;
}

static fv_status begin(void *user, int64_t sources)
{
    fv_attention_tsp *m = user;
    fv_attention_tsp_search *s = m->search;
    FV_RETURN_IF(!s || sources != s->sets.rows, m->ctx, FV_ERR_STATE,
                 "attention-tsp: the stepper was made for other sets");
    FV_TRY(make_room(m, sources));
    hold_tables(m->ctx, &s->now, &s->all);
    return fv_point_search_start(&s->rows, &s->sets);
}

static void feed(void *user, int64_t rows, const int64_t *tokens)
{
    fv_attention_tsp *m = user;
    fv_attention_tsp_search *s = m->search;
    fv_point_search_feed(&s->rows, rows, tokens);
    for (int64_t i = 0; i < rows; i++) {
        const bool any = tokens[i] > 0;
        const int64_t source = s->rows.source[i];
        s->first[i] = s->sets.begin[source] + (any ? s->rows.history[i * s->rows.max_steps] : 0);
        s->at[i] = source * (1 + s->sets.longest) + tokens[i];
    }
}

/* [rows, width] */
static fv_tensor *next_query(fv_ctx *ctx, const fv_attention_tsp *m)
{
    fv_attention_tsp_search *s = m->search;
    const int64_t rows = s->rows.rows;
    if (s->rows.step == 0) return fv_add(ctx, s->now.query, s->none);
    if (s->rows.step == 1) {
        fv_tensor *first = fv_from_host(ctx, FV_I64, 1, &rows, s->first);
        first = fv_attention_tsp_begun(ctx, m, s->h, s->now.query, first);
        if (ctx->error == FV_OK) fv_hold_tensor(ctx, &s->now.query, first);
    }
    fv_tensor *at = fv_from_host(ctx, FV_I64, 1, &rows, s->at);
    return fv_add(ctx, s->now.query, fv_index_select(ctx, s->last, at, 0));
}

static fv_status step(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out)
{
    fv_attention_tsp *m = user;
    fv_attention_tsp_search *s = m->search;
    const int64_t rows = s->rows.rows, width = m->width, choices = 1 + s->sets.longest;
    (void)tokens; /* `feed` has them */
    out->mask = fv_point_search_valid(ctx, &s->rows);
    const fv_attend_extra extra = {
        .visible = fv_reshape(ctx, out->mask, 4, (int64_t[]){rows, 1, 1, choices})};
    fv_tensor *q =
        fv_reshape(ctx, next_query(ctx, m), 4, (int64_t[]){rows, m->heads, 1, width / m->heads});
    fv_tensor *g = fv_attend(ctx, q, s->now.k, s->now.v, NULL, &extra, NULL);
    g = fv_reshape(ctx, g, 3, (int64_t[]){rows, 1, width});
    fv_tensor *u = fv_squeeze(ctx, fv_matmul(ctx, g, s->now.point), 1);
    u = fv_tanh(ctx, fv_scale(ctx, u, 1 / sqrt((double)width)));
    out->logits = fv_scale(ctx, u, m->clip);
    if (want_weights)
        out->weights = fv_softmax(
            ctx, fv_where(ctx, out->mask, out->logits, fv_scalar(ctx, FV_F32, -INFINITY)), -1);
    return ctx->error;
}

static fv_status select_rows(void *user, int64_t rows, const int64_t *from)
{
    fv_attention_tsp *m = user;
    fv_attention_tsp_search *s = m->search;
    fv_ctx *ctx = m->ctx;
    FV_TRY(make_room(m, rows));
    FV_TRY(fv_point_search_select(&s->rows, rows, from));
    fv_scope_begin(ctx);
    fv_tensor *source = fv_from_host(ctx, FV_I64, 1, &rows, s->rows.source);
    fv_tensor *before = fv_from_host(ctx, FV_I64, 1, &rows, from);
    const tables next = {
        .k = fv_index_select(ctx, s->all.k, source, 0),
        .v = fv_index_select(ctx, s->all.v, source, 0),
        .point = fv_index_select(ctx, s->all.point, source, 0),
        .query = fv_index_select(ctx, s->now.query, before, 0),
    };
    hold_tables(ctx, &s->now, &next);
    fv_scope_end(ctx);
    return ctx->error;
}

fv_status fv_attention_tsp_stepper(void *self, const fv_batch *inputs, fv_stepper *out)
{
    fv_attention_tsp *m = self;
    fv_ctx *ctx = m->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    fv_attention_tsp_search_free(m);
    m->search = fv_mem_zalloc(&ctx->mem, sizeof *m->search);
    FV_RETURN_IF(!m->search, ctx, FV_ERR_MEMORY, "no memory for a search");
    fv_attention_tsp_search *s = m->search;
    fv_status status = fv_point_sets_make(ctx, m->problem, inputs, &s->sets);
    if (status == FV_OK) {
        fv_scope_begin(ctx);
        fv_no_grad_begin(ctx);
        const fv_attention_tsp_memory memory = fv_attention_tsp_encode(ctx, m, &s->sets, false);
        const tables all = {.k = memory.k,
                            .v = memory.v,
                            .point = fv_contiguous(ctx, fv_transpose(ctx, memory.point, 1, 2)),
                            .query = memory.fixed};
        hold_tables(ctx, &s->all, &all);
        fv_hold_tensor(ctx, &s->last, fv_reshape(ctx, memory.last, 2, (int64_t[]){-1, m->width}));
        fv_hold_tensor(ctx, &s->none, memory.none);
        fv_hold_tensor(ctx, &s->h, memory.h);
        fv_no_grad_end(ctx);
        fv_scope_end(ctx);
        status = ctx->error;
    }
    if (status != FV_OK) {
        fv_attention_tsp_search_free(m);
        return status;
    }
    *out = (fv_stepper){.user = m,
                        .max_choices = 1 + s->sets.longest,
                        .bos = 0,
                        .eos = 0,
                        .begin = begin,
                        .step = step,
                        .select = select_rows,
                        .feed = feed};
    return FV_OK;
}
