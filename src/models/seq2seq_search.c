/* The model as a stepper: states of hypotheses between calls, and their choice. */
#include "fovea/autograd.h"
#include "models/seq2seq.h"
#include "ops/product.h"
#include "tensor/launch.h"

struct fv_seq2seq_search {
    int64_t sources, rows, room, step;
    fv_memory all;   /* of every source */
    fv_memory now;   /* of every row; the same tensors as long as rows are the sources */
    int64_t *source; /* [room]: which one a row decodes */
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

static void map_memory(fv_memory *m, fv_ctx *ctx,
                       fv_tensor *(*each)(fv_ctx *ctx, fv_tensor *t, void *user))
{
    fv_tensor **parts[] = {&m->k, &m->v, &m->lengths, &m->summary};
    for (int i = 0; i < 4; i++)
        if (*parts[i]) *parts[i] = each(ctx, *parts[i], NULL);
}

static void replace_state(fv_ctx *ctx, struct fv_seq2seq_search *s, fv_decoder_state next)
{
    fv_decoder_state_map(&next, hold, ctx, NULL);
    fv_decoder_state_map(&s->state, drop, ctx, NULL);
    s->state = next;
}

static void replace_memory(fv_ctx *ctx, struct fv_seq2seq_search *s, fv_memory next)
{
    map_memory(&next, ctx, hold);
    map_memory(&s->now, ctx, drop);
    s->now = next;
}

void fv_seq2seq_search_free(fv_seq2seq *m)
{
    struct fv_seq2seq_search *s = m->search;
    if (!s) return;
    fv_mem *mem = &m->ctx->mem;
    fv_decoder_state_map(&s->state, drop, m->ctx, NULL);
    map_memory(&s->now, m->ctx, drop);
    map_memory(&s->all, m->ctx, drop);
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
    replace_memory(ctx, s, s->all);
    replace_state(ctx, s, fv_seq2seq_first_state(ctx, m, &s->all));
    fv_scope_end(ctx);
    return ctx->error;
}

/* Everything up to the readout o. */
static fv_tensor *advance(fv_ctx *ctx, fv_seq2seq *m, fv_tensor *tokens, bool want_weights,
                          fv_step_output *out)
{
    struct fv_seq2seq_search *s = m->search;
    fv_tensor *embedded = fv_embedding(ctx, m->target_embedding, tokens, -1);
    fv_tensor *gates = m->ready.gates ? fv_embedding(ctx, m->ready.gates, tokens, -1)
                                      : fv_seq2seq_token_gates(ctx, m, embedded);
    fv_decoder_state next = s->state;
    const fv_decoder_step done =
        fv_seq2seq_step(ctx, m, &s->now, gates, s->step, want_weights, false, &next);
    if (ctx->error != FV_OK) return ctx->invalid;
    replace_state(ctx, s, next);
    s->step++;
    out->weights = done.weights;
    return done.readout ? done.readout
                        : fv_seq2seq_read(ctx, m, done.state, done.context, embedded);
}

static fv_status step(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out)
{
    fv_seq2seq *m = user;
    fv_seq2seq_ready_to_write(ctx, m, m->search->rows, false);
    out->logits = fv_seq2seq_logits(ctx, m, advance(ctx, m, tokens, want_weights, out));
    return ctx->error;
}

/* The argmax by the pre-filter, or NULL if a row has too many candidates. */
static fv_tensor *prefiltered_argmax(fv_ctx *ctx, fv_seq2seq *m, fv_tensor *o)
{
    struct fv_seq2seq_search *s = m->search;
    fv_tensor *found = fv_linear_argmax(ctx, o, m->output, m->output_bias, m->ready.prefilter);
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
    fv_seq2seq_ready_to_write(ctx, m, m->search->rows, true);
    fv_tensor *o = advance(ctx, m, tokens, want_weights, out);
    fv_tensor *found =
        m->ready.prefilter && ctx->error == FV_OK ? prefiltered_argmax(ctx, m, o) : NULL;
    out->best = found ? found : fv_argmax(ctx, fv_seq2seq_logits(ctx, m, o), -1, false);
    return ctx->error;
}

static fv_tensor *choose(fv_ctx *ctx, fv_tensor *t, void *index)
{
    return fv_index_select(ctx, t, 0, index);
}

/* Memory moves only when the list of sources does: not while beams change within their source. */
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

fv_status fv_seq2seq_stepper(fv_seq2seq *m, const fv_batch *batch, fv_stepper *out)
{
    fv_ctx *ctx = m->ctx;
    if (ctx->error != FV_OK) return ctx->error;
    const fv_token_pairs pairs = fv_token_pairs_of(batch), *sources = &pairs;
    fv_seq2seq_search_free(m);
    fv_packing packing;
    FV_FORWARD(fv_packing_make(ctx, sources->count, sources->source_length, &packing));
    m->search = fv_mem_zalloc(&ctx->mem, sizeof *m->search);
    if (!m->search) {
        fv_packing_free(&packing);
        return fv_fail(ctx, FV_ERR_MEMORY, "seq2seq: no memory for a search");
    }
    m->search->sources = sources->count;
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_seq2seq_ready_to_read(ctx, m, packing.total);
    if (sources->count > 0)
        m->search->all = fv_seq2seq_encode(ctx, m, sources, &packing, NULL, false);
    map_memory(&m->search->all, ctx, hold);
    fv_seq2seq_pack(ctx, m, true);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    fv_packing_free(&packing);
    if (ctx->error != FV_OK) {
        fv_seq2seq_search_free(m);
        return ctx->error;
    }
    *out = (fv_stepper){.user = m,
                        .max_choices = m->cfg.target_tokens,
                        .bos = m->cfg.bos,
                        .eos = m->cfg.eos,
                        .begin = begin,
                        .step = step,
                        .select = select_rows,
                        .best = best};
    return FV_OK;
}
