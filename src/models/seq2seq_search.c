/* The model as a stepper: states of hypotheses between calls. */
#include "fovea/autograd.h"
#include "models/seq2seq.h"
#include "ops/product.h"
#include "tensor/launch.h"

struct fv_seq2seq_search {
    int64_t sources, rows, room, step;
    fv_memory all;   /* of every source */
    fv_memory now;   /* of every row; the same tensors as long as rows are the sources */
    int64_t *source; /* [room]: the source of each row */
    int64_t *chosen; /* [room], while rows are chosen */
    fv_decoder_state state;
};

/* ---- tensors that outlive scopes --------------------------------------------------- */

static fv_tensor *hold(fv_ctx *ctx, fv_tensor *t, void *user)
{
    (void)user;
    if (t == ctx->invalid) return t;
    fv_tensor_ref(t);
    return t;
}

static fv_tensor *drop(fv_ctx *ctx, fv_tensor *t, void *user)
{
    (void)user;
    if (t != ctx->invalid) fv_tensor_unref(t);
    return NULL;
}

static void replace_state(fv_ctx *ctx, struct fv_seq2seq_search *s, fv_decoder_state next)
{
    fv_decoder_state_map(&next, hold, ctx, NULL);
    fv_decoder_state_map(&s->state, drop, ctx, NULL);
    s->state = next;
}

static void replace_memory(fv_ctx *ctx, struct fv_seq2seq_search *s, fv_memory next)
{
    fv_memory_map(&next, hold, ctx, NULL);
    fv_memory_map(&s->now, drop, ctx, NULL);
    s->now = next;
}

void fv_seq2seq_search_free(fv_seq2seq *m)
{
    struct fv_seq2seq_search *s = m->search;
    if (!s) return;
    fv_mem *mem = &m->ctx->mem;
    fv_decoder_state_map(&s->state, drop, m->ctx, NULL);
    fv_memory_map(&s->now, drop, m->ctx, NULL);
    fv_memory_map(&s->all, drop, m->ctx, NULL);
    if (s->source) fv_mem_free(mem, s->source, 2 * (size_t)s->room * sizeof *s->source);
    fv_mem_free(mem, s, sizeof *s);
    m->search = NULL;
}

/* ---- the stepper ------------------------------------------------------------------- */

static bool make_room(fv_ctx *ctx, struct fv_seq2seq_search *s, int64_t rows)
{
    if (rows <= s->room) return true;
    int64_t *bigger = fv_mem_alloc(&ctx->mem, 2 * (size_t)rows * sizeof *bigger);
    if (!bigger) return false;
    for (int64_t i = 0; i < s->rows; i++)
        bigger[i] = s->source[i];
    if (s->source) fv_mem_free(&ctx->mem, s->source, 2 * (size_t)s->room * sizeof *s->source);
    s->source = bigger;
    s->chosen = bigger + rows;
    s->room = rows;
    return true;
}

static fv_status begin(void *user, int64_t sources)
{
    fv_seq2seq *m = user;
    fv_ctx *ctx = m->ctx;
    struct fv_seq2seq_search *s = m->search;
    FV_RETURN_IF(!s || sources != s->sources, ctx, FV_ERR_STATE,
                 "seq2seq: the stepper was made for other sources");
    s->rows = 0;
    FV_RETURN_IF(!make_room(ctx, s, sources), ctx, FV_ERR_MEMORY, "seq2seq: no memory for rows");
    s->rows = sources;
    s->step = 0;
    for (int64_t i = 0; i < sources; i++)
        s->source[i] = i;
    fv_scope_begin(ctx);
    fv_decoder_state first;
    replace_memory(ctx, s, s->all);
    const fv_status status = m->y->first_state(ctx, m->decoder, &s->all, &first);
    if (status == FV_OK) replace_state(ctx, s, first);
    fv_scope_end(ctx);
    return status;
}

/* Runs the decoder up to the readout o. */
static fv_decoder_step advance(fv_ctx *ctx, fv_seq2seq *m, fv_tensor *tokens, bool want_weights,
                               fv_step_output *out)
{
    struct fv_seq2seq_search *s = m->search;
    const fv_decoder_part *y = m->y;
    fv_decoder_call call = {.memory = &s->now, .t = s->step, .want_weights = want_weights};
    call.embedded = y->embed(ctx, m->decoder, &s->now, tokens, false);
    if (y->input_of_tokens) call.input = y->input_of_tokens(ctx, m->decoder, tokens);
    if (!call.input) call.input = y->input(ctx, m->decoder, call.embedded);
    fv_decoder_state next = s->state;
    fv_decoder_step done = y->step(ctx, m->decoder, &call, &next);
    if (ctx->error != FV_OK) return (fv_decoder_step){.readout = ctx->invalid};
    replace_state(ctx, s, next);
    s->step++;
    out->weights = done.weights;
    if (y->choices == FV_CHOICES_INPUTS) out->choices = s->now.lengths;
    if (!done.readout && !done.logits)
        done.readout = y->readout(ctx, m->decoder, call.embedded, &done);
    return done;
}

static fv_tensor *logits_of(fv_ctx *ctx, const fv_seq2seq *m, const fv_decoder_step *done)
{
    return done->logits ? done->logits
                        : m->y->logits(ctx, m->decoder, &m->search->now, done->readout);
}

static fv_status step(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out)
{
    fv_seq2seq *m = user;
    if (m->y->prepare) m->y->prepare(ctx, m->decoder, m->search->rows, false);
    const fv_decoder_step done = advance(ctx, m, tokens, want_weights, out);
    out->logits = logits_of(ctx, m, &done);
    return ctx->error;
}

/* The part's own argmax, which s->chosen then has on the host, or NULL if it has none or leaves a
 * row open (-1). */
static fv_tensor *argmax_of_part(fv_ctx *ctx, fv_seq2seq *m, fv_tensor *readout)
{
    struct fv_seq2seq_search *s = m->search;
    fv_tensor *found = m->y->argmax(ctx, m->decoder, readout);
    if (!found) return NULL;
    const size_t bytes = (size_t)s->rows * sizeof *s->chosen;
    if (fv_tensor_read(ctx, found, s->chosen, bytes) != FV_OK) return ctx->invalid;
    for (int64_t i = 0; i < s->rows; i++)
        if (s->chosen[i] < 0) return NULL;
    return found;
}

static fv_status best(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out)
{
    fv_seq2seq *m = user;
    if (m->y->prepare) m->y->prepare(ctx, m->decoder, m->search->rows, true);
    const fv_decoder_step done = advance(ctx, m, tokens, want_weights, out);
    if (ctx->error == FV_OK) out->best = argmax_of_part(ctx, m, done.readout);
    if (out->best) out->best_on_host = m->search->chosen;
    if (!out->best) out->best = fv_argmax(ctx, logits_of(ctx, m, &done), -1, false);
    return ctx->error;
}

static fv_tensor *choose(fv_ctx *ctx, fv_tensor *t, void *index)
{
    return fv_index_select(ctx, t, index, 0);
}

/* Memory is gathered again only when the list of sources changes, not while beams change within
 * their source. */
static void choose_memory(fv_ctx *ctx, struct fv_seq2seq_search *s, int64_t rows)
{
    bool same = rows == s->rows, plain = rows == s->sources;
    for (int64_t i = 0; i < rows; i++) {
        same = same && s->chosen[i] == s->source[i];
        plain = plain && s->chosen[i] == i;
    }
    if (same) return;
    if (plain)
        replace_memory(ctx, s, s->all);
    else
        replace_memory(
            ctx, s,
            fv_memory_rows(ctx, &s->all, rows, fv_from_host(ctx, FV_I64, 1, &rows, s->chosen)));
}

static fv_status select_rows(void *user, int64_t rows, const int64_t *from)
{
    fv_seq2seq *m = user;
    fv_ctx *ctx = m->ctx;
    struct fv_seq2seq_search *s = m->search;
    FV_RETURN_IF(!make_room(ctx, s, rows), ctx, FV_ERR_MEMORY, "seq2seq: no memory for rows");
    for (int64_t i = 0; i < rows; i++)
        s->chosen[i] = s->source[from[i]];
    fv_scope_begin(ctx);
    fv_decoder_state next = s->state;
    fv_decoder_state_map(&next, choose, ctx, fv_from_host(ctx, FV_I64, 1, &rows, from));
    replace_state(ctx, s, next);
    choose_memory(ctx, s, rows);
    fv_scope_end(ctx);
    for (int64_t i = 0; i < rows; i++)
        s->source[i] = s->chosen[i];
    s->rows = rows;
    return ctx->error;
}

static fv_status read_sources(fv_seq2seq *m, const fv_batch *batch)
{
    fv_ctx *ctx = m->ctx;
    const fv_encode_call call = {.attention = m->y->attention(m->decoder)};
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    if (m->x->prepare) m->x->prepare(ctx, m->encoder, batch);
    const fv_status status = m->x->encode(ctx, m->encoder, batch, &call, &m->search->all);
    fv_memory_map(&m->search->all, hold, ctx, NULL);
    if (status == FV_OK && m->y->pack) m->y->pack(ctx, m->decoder, true);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return status != FV_OK ? status : ctx->error;
}

fv_status fv_seq2seq_stepper(fv_seq2seq *m, const fv_batch *batch, fv_stepper *out)
{
    fv_ctx *ctx = m->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    fv_seq2seq_search_free(m);
    m->search = fv_mem_zalloc(&ctx->mem, sizeof *m->search);
    FV_RETURN_IF(!m->search, ctx, FV_ERR_MEMORY, "seq2seq: no memory for a search");
    m->search->sources = batch->rows;
    const fv_status status = read_sources(m, batch);
    if (status != FV_OK) {
        fv_seq2seq_search_free(m);
        return status;
    }
    const bool inputs = m->y->choices == FV_CHOICES_INPUTS;
    *out = (fv_stepper){.user = m,
                        .max_choices = inputs ? m->search->all.positions : m->cfg.target_tokens,
                        .bos = m->cfg.bos,
                        .eos = m->cfg.eos,
                        .begin = begin,
                        .step = step,
                        .select = select_rows,
                        .best = m->y->argmax ? best : NULL};
    return FV_OK;
}
