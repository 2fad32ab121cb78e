/* The decoder of the attention model for routes: all steps of a given tour at once, or step by step
 * in a search. */
#include <math.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "models/attention_tsp.h"

/* ---- the loss ------------------------------------------------------------------------------- */

/* Row 1 + of[k] of a table for step k of all; row 0 for padded steps. [rows, longest, width] */
static fv_tensor *of_steps(fv_ctx *ctx, const fv_point_answers *a, int64_t rows, const int64_t *of,
                           fv_tensor *table, int64_t width)
{
    const int64_t count = rows * a->longest;
    int64_t *index = fv_mem_zalloc(&ctx->mem, (size_t)count * sizeof *index);
    if (!index) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for %lld steps", (long long)count);
        return ctx->invalid;
    }
    for (int64_t k = 0; k < a->all; k++)
        index[a->place[k]] = 1 + of[k];
    fv_tensor *x = fv_index_select(ctx, table, fv_from_host(ctx, FV_I64, 1, &count, index), 0);
    fv_mem_free(&ctx->mem, index, (size_t)count * sizeof *index);
    return fv_reshape(ctx, x, 3, (int64_t[]){rows, a->longest, width});
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
    fv_tensor *q = fv_add(ctx, of_steps(ctx, a, rows, a->first, memory.first, width),
                          of_steps(ctx, a, rows, a->last, memory.last, width));
    q = fv_add(ctx, q, fv_unsqueeze(ctx, memory.fixed, 1));
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

struct fv_attention_tsp_search {
    fv_point_sets sets;
    fv_point_search rows;
    fv_attention_tsp_memory all, now; /* of every set, of every row */
    int64_t *first, *last;            /* [room]: rows of the tables that make the query */
    size_t room;
};

static void hold_memory(fv_ctx *ctx, fv_attention_tsp_memory *place,
                        const fv_attention_tsp_memory *t)
{
    fv_hold_tensor(ctx, &place->k, t->k);
    fv_hold_tensor(ctx, &place->v, t->v);
    fv_hold_tensor(ctx, &place->point, t->point);
    fv_hold_tensor(ctx, &place->fixed, t->fixed);
    fv_hold_tensor(ctx, &place->first, t->first);
    fv_hold_tensor(ctx, &place->last, t->last);
}

void fv_attention_tsp_search_free(fv_attention_tsp *m)
{
    fv_attention_tsp_search *s = m->search;
    const fv_attention_tsp_memory none = {.k = NULL};
    if (!s) return;
    hold_memory(m->ctx, &s->now, &none);
    hold_memory(m->ctx, &s->all, &none);
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
    s->last = bigger + rows;
    return FV_OK;
}

static fv_status begin(void *user, int64_t sources)
{
    fv_attention_tsp *m = user;
    fv_attention_tsp_search *s = m->search;
    FV_RETURN_IF(!s || sources != s->sets.rows, m->ctx, FV_ERR_STATE,
                 "attention-tsp: the stepper was made for other sets");
    FV_TRY(make_room(m, sources));
    hold_memory(m->ctx, &s->now, &s->all);
    return fv_point_search_start(&s->rows, &s->sets);
}

static void feed(void *user, int64_t rows, const int64_t *tokens)
{
    fv_attention_tsp *m = user;
    fv_attention_tsp_search *s = m->search;
    fv_point_search_feed(&s->rows, rows, tokens);
    for (int64_t i = 0; i < rows; i++) {
        const bool any = tokens[i] > 0;
        const int64_t begin_at = s->sets.begin[s->rows.source[i]];
        s->first[i] = any ? 1 + begin_at + s->rows.history[i * s->rows.max_steps] : 0;
        s->last[i] = any ? begin_at + tokens[i] : 0;
    }
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
    fv_tensor *first = fv_from_host(ctx, FV_I64, 1, &rows, s->first),
              *last = fv_from_host(ctx, FV_I64, 1, &rows, s->last);
    fv_tensor *q = fv_add(ctx, fv_index_select(ctx, s->now.first, first, 0),
                          fv_index_select(ctx, s->now.last, last, 0));
    q = fv_reshape(ctx, fv_add(ctx, q, s->now.fixed), 4,
                   (int64_t[]){rows, m->heads, 1, width / m->heads});
    fv_tensor *g = fv_attend(ctx, q, s->now.k, s->now.v, NULL, &extra, NULL);
    g = fv_reshape(ctx, g, 3, (int64_t[]){rows, width, 1});
    fv_tensor *u = fv_squeeze(ctx, fv_matmul(ctx, s->now.point, g), 2);
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
    const fv_attention_tsp_memory next = {
        .k = fv_index_select(ctx, s->all.k, source, 0),
        .v = fv_index_select(ctx, s->all.v, source, 0),
        .point = fv_index_select(ctx, s->all.point, source, 0),
        .fixed = fv_index_select(ctx, s->all.fixed, source, 0),
        .first = s->all.first,
        .last = s->all.last,
    };
    hold_memory(ctx, &s->now, &next);
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
        hold_memory(ctx, &s->all, &memory);
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
