/*
 * The decoder of a pointer network. In training the answer is known, so the LSTM runs over all
 * steps at once, and one attention over all steps gives the log-sum-exp of their scores without
 * storing them: the loss of a step is that less the score of its answer. In a search steps come one
 * by one.
 */
#include <math.h>

#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "models/pointer.h"

/* ---- the loss ------------------------------------------------------------------------------- */

/* Decoder states of all steps, [rows, longest answer, width]. */
static fv_tensor *run_decoder(fv_ctx *ctx, const fv_pointer *m, const fv_pointer_memory *memory,
                              const fv_point_answers *a, const fv_packed_sequences *p, int64_t *fed)
{
    int64_t at = 0;
    for (int64_t i = 0; i < p->sequences; at += a->steps[i++])
        for (int64_t t = 0; t < a->steps[i]; t++)
            fed[p->first[t] + p->rank[i]] = 1 + a->last[at + t];
    fv_rnn_state start = {.h = {{memory->h}}, .c = {{memory->c}}};
    fv_tensor *x =
        fv_index_select(ctx, memory->table, fv_from_host(ctx, FV_I64, 1, &a->all, fed), 0);
    fv_rnn writer = m->writer;
    writer.weights[0][0].input = memory->input;
    fv_tensor *s = fv_rnn_run(ctx, &writer, x, p, &start, true, NULL);
    return fv_packed_pad(ctx, p, s, NULL);
}

static fv_tensor *loss_of_answers(fv_ctx *ctx, const fv_pointer *m, const fv_point_sets *sets,
                                  const fv_point_answers *a, const fv_packed_sequences *p,
                                  int64_t *fed, bool training)
{
    const int64_t rows = sets->rows, choices = 1 + sets->longest, width = m->width;
    const fv_pointer_memory memory = fv_pointer_encode(ctx, m, sets, training);
    fv_tensor *q = fv_dense_run(ctx, &m->query, run_decoder(ctx, m, &memory, a, p, fed));
    fv_tensor *visible =
        fv_from_host(ctx, FV_U8, 4, (int64_t[]){rows, 1, a->longest, choices}, a->valid);
    fv_tensor *nothing = fv_zeros(ctx, FV_F32, 4, (int64_t[]){rows, 1, choices, 1}), *lse = NULL;
    const fv_attend_extra extra = {.visible = visible, .w = fv_unsqueeze(ctx, m->v, 0)};
    fv_attend(ctx, fv_unsqueeze(ctx, q, 1), fv_unsqueeze(ctx, memory.keys, 1), nothing, NULL,
              &extra, &lse);
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *place = fv_from_host(ctx, FV_I64, 1, &a->all, a->place);
    fv_tensor *chosen = fv_from_host(ctx, FV_I64, 1, &a->all, a->chosen);
    const int64_t flat[] = {-1}, wide[] = {-1, width};
    lse = fv_index_select(ctx, fv_reshape(ctx, lse, 1, flat), place, 0);
    q = fv_index_select(ctx, fv_reshape(ctx, q, 2, wide), place, 0);
    fv_tensor *k = fv_index_select(ctx, fv_reshape(ctx, memory.keys, 2, wide), chosen, 0);
    fv_tensor *score =
        fv_linear(ctx, fv_tanh(ctx, fv_add(ctx, q, k)), fv_unsqueeze(ctx, m->v, 0), NULL);
    return fv_sub(ctx, fv_sum(ctx, lse, 0, NULL, false), fv_sum(ctx, score, 0, NULL, false));
}

static fv_status make_loss(fv_ctx *ctx, const fv_pointer *m, const fv_point_sets *sets,
                           const fv_point_answers *a, bool training, fv_tensor **out)
{
    fv_packed_sequences p;
    FV_TRY(fv_pack_sequences(ctx, sets->rows, a->steps, &p));
    int64_t *fed = fv_mem_alloc(&ctx->mem, (size_t)a->all * sizeof *fed);
    if (fed) *out = loss_of_answers(ctx, m, sets, a, &p, fed, training);
    if (fed) fv_mem_free(&ctx->mem, fed, (size_t)a->all * sizeof *fed);
    fv_packed_free(&p);
    return fed ? ctx->error
               : fv_fail(ctx, FV_ERR_MEMORY, "no memory for %lld steps", (long long)a->all);
}

fv_tensor *fv_pointer_loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    const fv_pointer *m = self;
    fv_point_sets sets;
    fv_point_answers answers = {.ctx = ctx};
    fv_tensor *loss = ctx->invalid;
    if (ctx->error != FV_OK) return loss;
    fv_status status = fv_point_sets_make(ctx, m->problem, batch, &sets);
    if (status == FV_OK) status = fv_point_answers_make(&sets, batch, &answers);
    if (status == FV_OK) status = make_loss(ctx, m, &sets, &answers, pass && pass->training, &loss);
    if (status != FV_OK && ctx->error == FV_OK) fv_make_last_failure_sticky(ctx, status);
    fv_point_answers_free(&answers);
    fv_point_sets_free(&sets);
    return ctx->error == FV_OK ? loss : ctx->invalid;
}

/* ---- search --------------------------------------------------------------------------------- */

void fv_pointer_search_free(fv_pointer *m)
{
    fv_pointer_search *s = m->search;
    if (!s) return;
    fv_tensor **held[] = {&s->table,   &s->input,   &s->all_keys, &s->keys,
                          &s->first_h, &s->first_c, &s->h,        &s->c};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++)
        fv_hold_tensor(m->ctx, held[i], NULL);
    fv_point_search_free(&s->rows);
    fv_point_sets_free(&s->sets);
    if (s->fed) fv_mem_free(&m->ctx->mem, s->fed, s->room * sizeof *s->fed);
    fv_mem_free(&m->ctx->mem, s, sizeof *s);
    m->search = NULL;
}

static fv_status make_room(fv_pointer *m, int64_t rows)
{
    fv_pointer_search *s = m->search;
    int64_t *bigger = fv_mem_grow(&m->ctx->mem, s->fed, &s->room, (size_t)rows, sizeof *bigger);
    FV_RETURN_IF(!bigger, m->ctx, FV_ERR_MEMORY, "no memory for %lld rows", (long long)rows);
    s->fed = bigger;
    return FV_OK;
}

static fv_status begin(void *user, int64_t sources)
{
    fv_pointer *m = user;
    fv_pointer_search *s = m->search;
    FV_RETURN_IF(!s || sources != s->sets.rows, m->ctx, FV_ERR_STATE,
                 "pointer: the stepper was made for other sets");
    FV_TRY(make_room(m, sources));
    fv_hold_tensor(m->ctx, &s->keys, s->all_keys);
    fv_hold_tensor(m->ctx, &s->h, s->first_h);
    fv_hold_tensor(m->ctx, &s->c, s->first_c);
    return fv_point_search_start(&s->rows, &s->sets);
}

static void feed(void *user, int64_t rows, const int64_t *tokens)
{
    fv_pointer *m = user;
    fv_pointer_search *s = m->search;
    fv_point_search_feed(&s->rows, rows, tokens);
    for (int64_t i = 0; i < rows; i++)
        s->fed[i] = tokens[i] > 0 ? s->sets.begin[s->rows.source[i]] + tokens[i] : 0;
}

static fv_status step(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out)
{
    fv_pointer *m = user;
    fv_pointer_search *s = m->search;
    const fv_rnn_weights *w = &m->writer.weights[0][0];
    (void)tokens; /* `feed` has them */
    fv_tensor *x =
        fv_index_select(ctx, s->table, fv_from_host(ctx, FV_I64, 1, &s->rows.rows, s->fed), 0);
    fv_tensor *gates = fv_add(ctx, fv_linear(ctx, x, s->input, w->input_bias),
                              fv_linear(ctx, s->h, w->hidden, w->hidden_bias));
    fv_tensor *h = NULL, *c = NULL;
    fv_lstm_cell(ctx, gates, s->c, &h, &c);
    if (ctx->error != FV_OK) return ctx->error;
    fv_hold_tensor(ctx, &s->h, h);
    fv_hold_tensor(ctx, &s->c, c);
    fv_tensor *q = fv_unsqueeze(ctx, fv_dense_run(ctx, &m->query, h), 1);
    fv_tensor *u =
        fv_linear(ctx, fv_tanh(ctx, fv_add(ctx, s->keys, q)), fv_unsqueeze(ctx, m->v, 0), NULL);
    out->logits = fv_squeeze(ctx, u, 2);
    out->mask = fv_point_search_valid(ctx, &s->rows);
    if (want_weights)
        out->weights = fv_softmax(
            ctx, fv_where(ctx, out->mask, out->logits, fv_scalar(ctx, FV_F32, -INFINITY)), -1);
    return ctx->error;
}

static fv_status select_rows(void *user, int64_t rows, const int64_t *from)
{
    fv_pointer *m = user;
    fv_pointer_search *s = m->search;
    fv_ctx *ctx = m->ctx;
    FV_TRY(make_room(m, rows));
    FV_TRY(fv_point_search_select(&s->rows, rows, from));
    fv_scope_begin(ctx);
    fv_tensor *index = fv_from_host(ctx, FV_I64, 1, &rows, from);
    fv_tensor *source = fv_from_host(ctx, FV_I64, 1, &rows, s->rows.source);
    fv_hold_tensor(ctx, &s->h, fv_index_select(ctx, s->h, index, 0));
    fv_hold_tensor(ctx, &s->c, fv_index_select(ctx, s->c, index, 0));
    fv_hold_tensor(ctx, &s->keys, fv_index_select(ctx, s->all_keys, source, 0));
    fv_scope_end(ctx);
    return ctx->error;
}

fv_status fv_pointer_stepper(void *self, const fv_batch *inputs, fv_stepper *out)
{
    fv_pointer *m = self;
    fv_ctx *ctx = m->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    fv_pointer_search_free(m);
    m->search = fv_mem_zalloc(&ctx->mem, sizeof *m->search);
    FV_RETURN_IF(!m->search, ctx, FV_ERR_MEMORY, "no memory for a search");
    fv_pointer_search *s = m->search;
    fv_status status = fv_point_sets_make(ctx, m->problem, inputs, &s->sets);
    if (status == FV_OK) {
        fv_scope_begin(ctx);
        fv_no_grad_begin(ctx);
        const fv_pointer_memory memory = fv_pointer_encode(ctx, m, &s->sets, false);
        fv_hold_tensor(ctx, &s->table, memory.table);
        fv_hold_tensor(ctx, &s->input, memory.input);
        fv_hold_tensor(ctx, &s->all_keys, memory.keys);
        fv_hold_tensor(ctx, &s->first_h, memory.h);
        fv_hold_tensor(ctx, &s->first_c, memory.c);
        fv_no_grad_end(ctx);
        fv_scope_end(ctx);
        status = ctx->error;
    }
    if (status != FV_OK) {
        fv_pointer_search_free(m);
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
