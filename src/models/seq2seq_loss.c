/*
 * The decoder over given targets. Rows are packed by target length, so that at each step exactly
 * the targets that still run are computed; readout and output then see all steps at once.
 */
#include <string.h>

#include "fovea/autograd.h"
#include "models/seq2seq.h"

typedef struct run {
    fv_ctx *ctx;
    const fv_seq2seq *m;
    const fv_token_pairs *batch;
    const fv_pass *pass;
    bool want_weights;
    fv_packing source, target;
    int64_t *given, *wanted; /* [target.total]: tokens fed, tokens to come */
    fv_tensor **state, **context, **readout, **weights, **embedded; /* [target.steps] */
    fv_tensor **log_prob, **entropy;                                /* likewise, hard attention */
    fv_tensor *all_embedded, *all_gates;                            /* of teacher-forced tokens */
} run;

enum { STEP_LISTS = 7 };

/* ---- making ready ----------------------------------------------------------------- */

static void fill_tokens(run *r)
{
    const fv_packing *p = &r->target;
    const fv_seq2seq_config *c = &r->m->cfg;
    for (int64_t t = 0; t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++) {
            const int64_t *tokens = r->batch->target[p->order[i]];
            const int64_t at = p->first[t] + i;
            r->given[at] = t == 0 ? c->bos : tokens[t - 1];
            r->wanted[at] = t + 1 == p->length[i] ? c->eos : tokens[t];
        }
}

static fv_status pack_targets(run *r)
{
    fv_ctx *ctx = r->ctx;
    const fv_token_pairs *batch = r->batch;
    const size_t bytes = (size_t)batch->count * sizeof(int64_t);
    int64_t *lengths = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!lengths, ctx, FV_ERR_MEMORY, "seq2seq: no memory for a batch");
    for (int64_t i = 0; i < batch->count; i++)
        lengths[i] = batch->target_length[i] + 1;
    fv_status status = fv_packing_make(ctx, batch->count, lengths, &r->target);
    fv_mem_free(&ctx->mem, lengths, bytes);
    return status;
}

static fv_status begin(run *r)
{
    fv_ctx *ctx = r->ctx;
    FV_RETURN_IF(r->batch->count < 1, ctx, FV_ERR_ARGUMENT, "seq2seq: an empty batch");
    FV_RETURN_IF(!r->batch->target, ctx, FV_ERR_ARGUMENT, "seq2seq: a batch without targets");
    FV_FORWARD(fv_packing_make(ctx, r->batch->count, r->batch->source_length, &r->source));
    FV_FORWARD(pack_targets(r));
    const size_t total = (size_t)r->target.total, steps = (size_t)r->target.steps;
    r->given = fv_mem_alloc(&ctx->mem, 2 * total * sizeof *r->given);
    r->state = fv_mem_zalloc(&ctx->mem, STEP_LISTS * steps * sizeof *r->state);
    FV_RETURN_IF(!r->given || !r->state, ctx, FV_ERR_MEMORY, "seq2seq: no memory for a batch");
    r->wanted = r->given + total;
    r->context = r->state + steps;
    r->readout = r->context + steps;
    r->weights = r->readout + steps;
    r->embedded = r->weights + steps;
    r->log_prob = r->embedded + steps;
    r->entropy = r->log_prob + steps;
    fill_tokens(r);
    return FV_OK;
}

static void end(run *r)
{
    fv_mem *mem = &r->ctx->mem;
    const size_t total = (size_t)r->target.total, steps = (size_t)r->target.steps;
    if (r->given) fv_mem_free(mem, r->given, 2 * total * sizeof *r->given);
    if (r->state) fv_mem_free(mem, r->state, STEP_LISTS * steps * sizeof *r->state);
    fv_packing_free(&r->source);
    fv_packing_free(&r->target);
}

/* ---- steps ------------------------------------------------------------------------ */

static fv_tensor *embed(const run *r, int64_t n, const int64_t *tokens)
{
    fv_tensor *x = fv_embedding(r->ctx, r->m->target_embedding,
                                fv_from_host(r->ctx, FV_I64, 1, &n, tokens), -1);
    return r->pass->training ? fv_dropout(r->ctx, x, r->m->cfg.dropout) : x;
}

/* Scheduled sampling: some rows of step t are fed what the model itself thought likeliest. */
static void feed_own_tokens(run *r, int64_t t)
{
    fv_ctx *ctx = r->ctx;
    const int64_t n = r->target.rows[t];
    const size_t bytes = (size_t)n * (sizeof(int64_t) + sizeof(float));
    int64_t *own = fv_mem_alloc(&ctx->mem, bytes);
    if (!own) {
        fv_poison(ctx, FV_ERR_MEMORY, "seq2seq: no memory for sampled tokens");
        return;
    }
    float *draw = (float *)(own + n);
    fv_no_grad_begin(ctx);
    fv_tensor *o = r->readout[t - 1];
    if (!o) o = fv_seq2seq_read(ctx, r->m, r->state[t - 1], r->context[t - 1], r->embedded[t - 1]);
    fv_tensor *best = fv_argmax(ctx, fv_seq2seq_logits(ctx, r->m, o), -1, false);
    fv_tensor *chance = fv_rand_uniform(ctx, FV_F32, 1, &n, 0, 1);
    fv_status status =
        fv_tensor_read(ctx, fv_slice(ctx, best, 0, 0, n, 1), own, (size_t)n * sizeof *own);
    if (status == FV_OK) status = fv_tensor_read(ctx, chance, draw, (size_t)n * sizeof *draw);
    fv_no_grad_end(ctx);
    for (int64_t i = 0; status == FV_OK && i < n; i++)
        if ((double)draw[i] < r->pass->sampling) r->given[r->target.first[t] + i] = own[i];
    fv_mem_free(&ctx->mem, own, bytes);
}

static fv_tensor *gates_at(run *r, int64_t t)
{
    fv_ctx *ctx = r->ctx;
    const int64_t first = r->target.first[t], n = r->target.rows[t];
    if (r->all_gates) return fv_slice(ctx, r->all_gates, 0, first, first + n, 1);
    if (t > 0) feed_own_tokens(r, t);
    r->embedded[t] = embed(r, n, r->given + first);
    return fv_seq2seq_token_gates(ctx, r->m, r->embedded[t]);
}

static fv_tensor *first_rows(fv_ctx *ctx, fv_tensor *t, void *user)
{
    return fv_slice(ctx, t, 0, 0, *(const int64_t *)user, 1);
}

static void run_steps(run *r)
{
    fv_ctx *ctx = r->ctx;
    const bool training = r->pass->training;
    const fv_memory all =
        fv_seq2seq_encode(ctx, r->m, r->batch, &r->source, r->target.order, training);
    fv_memory memory = all;
    if (ctx->error != FV_OK) return;
    fv_seq2seq_pack(ctx, r->m, false);
    fv_decoder_state state = fv_seq2seq_first_state(ctx, r->m, &memory);
    if (!training || r->pass->sampling <= 0) {
        r->all_embedded = embed(r, r->target.total, r->given);
        r->all_gates = fv_seq2seq_token_gates(ctx, r->m, r->all_embedded);
    }
    for (int64_t t = 0; t < r->target.steps && ctx->error == FV_OK; t++) {
        int64_t n = r->target.rows[t];
        if (t > 0 && n < r->target.rows[t - 1]) {
            memory = fv_memory_rows(ctx, &all, n, NULL);
            fv_decoder_state_map(&state, first_rows, ctx, &n);
        }
        const fv_decoder_step step = fv_seq2seq_step(ctx, r->m, &memory, gates_at(r, t), t,
                                                     r->want_weights, training, &state);
        r->state[t] = step.state;
        r->context[t] = step.context;
        r->readout[t] = step.readout;
        r->weights[t] = step.weights;
        r->log_prob[t] = step.log_prob;
        r->entropy[t] = step.entropy;
    }
}

static fv_tensor *joined(const run *r, fv_tensor **list)
{
    if (r->ctx->error != FV_OK) return r->ctx->invalid;
    return fv_concat(r->ctx, (int)r->target.steps, list, 0);
}

/* Adds what a choice of places has for a gradient: each is judged by the token it led to, against
 * what is usual. The value of the loss stays what it is. */
static fv_tensor *judge_choices(const run *r, fv_tensor *loss, fv_tensor *logits, fv_tensor *wanted)
{
    fv_ctx *ctx = r->ctx;
    const fv_seq2seq_config *c = &r->m->cfg;
    fv_no_grad_begin(ctx);
    fv_tensor *token = fv_unsqueeze(ctx, wanted, -1);
    fv_tensor *log_py = fv_gather(ctx, fv_log_softmax(ctx, logits, -1), 1, token);
    log_py = fv_squeeze(ctx, log_py, -1);
    fv_tensor *mean = fv_mean(ctx, log_py, 0, NULL, false);
    fv_no_grad_end(ctx);
    double reached = 0;
    const fv_status status = fv_tensor_item(ctx, mean, &reached);
    if (status != FV_OK) {
        fv_poison_last(ctx, status);
        return ctx->invalid;
    }
    fv_baseline usual = {.decay = 1};
    usual.value = fv_seq2seq_baseline(r->m, ctx->step, reached, r->target.total);
    fv_tensor *chosen = joined(r, r->log_prob), *entropy = joined(r, r->entropy);
    fv_tensor *extra =
        fv_reinforce(ctx, &usual, log_py, chosen, entropy, c->hard_reward, c->hard_entropy);
    extra = fv_scale(ctx, extra, (double)r->target.total);
    return fv_add(ctx, loss, fv_sub(ctx, extra, fv_detach(ctx, extra)));
}

static fv_tensor *loss_of(run *r)
{
    fv_ctx *ctx = r->ctx;
    const fv_seq2seq_config *c = &r->m->cfg;
    fv_tensor *o;
    if (c->decoder == FV_DECODER_LUONG) {
        o = joined(r, r->readout);
    } else {
        fv_tensor *embedded = r->all_embedded ? r->all_embedded : joined(r, r->embedded);
        o = fv_seq2seq_read(ctx, r->m, joined(r, r->state), joined(r, r->context), embedded);
    }
    if (r->pass->training) o = fv_dropout(ctx, o, c->dropout);
    fv_tensor *wanted = fv_from_host(ctx, FV_I64, 1, &r->target.total, r->wanted);
    fv_tensor *logits = fv_seq2seq_logits(ctx, r->m, o);
    fv_tensor *loss = fv_cross_entropy(ctx, logits, wanted, -1,
                                       r->pass->training ? c->smoothing : 0.0, FV_REDUCTION_SUM);
    const bool drawn = ctx->error == FV_OK && r->log_prob[0];
    return drawn ? judge_choices(r, loss, logits, wanted) : loss;
}

static const fv_pass evaluation = {.training = false};

fv_tensor *fv_seq2seq_loss(fv_ctx *ctx, const fv_seq2seq *m, const fv_batch *batch,
                           const fv_pass *pass)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const fv_token_pairs pairs = fv_token_pairs_of(batch);
    run r = {.ctx = ctx, .m = m, .batch = &pairs, .pass = pass ? pass : &evaluation};
    r.source.ctx = r.target.ctx = ctx;
    fv_status status = begin(&r);
    if (status != FV_OK) fv_poison_last(ctx, status);
    if (status == FV_OK) run_steps(&r);
    fv_tensor *loss = ctx->error == FV_OK ? loss_of(&r) : ctx->invalid;
    end(&r);
    return loss;
}

fv_tensor *fv_seq2seq_align(fv_ctx *ctx, const fv_seq2seq *m, const fv_batch *batch)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (m->cfg.decoder == FV_DECODER_FIXED) {
        fv_poison(ctx, FV_ERR_UNSUPPORTED, "a decoder with a fixed context has no attention");
        return ctx->invalid;
    }
    const fv_token_pairs pairs = fv_token_pairs_of(batch);
    run r = {.ctx = ctx, .m = m, .batch = &pairs, .pass = &evaluation, .want_weights = true};
    r.source.ctx = r.target.ctx = ctx;
    fv_status status = begin(&r);
    if (status != FV_OK) fv_poison_last(ctx, status);
    fv_tensor *all = ctx->invalid;
    fv_no_grad_begin(ctx);
    if (status == FV_OK) run_steps(&r);
    if (ctx->error == FV_OK) {
        fv_tensor *past = fv_unsqueeze(ctx, fv_packing_past_end(ctx, &r.target), -1);
        all = fv_masked_fill(ctx, fv_unpack(ctx, joined(&r, r.weights), &r.target, NULL), past, 0);
    }
    fv_no_grad_end(ctx);
    end(&r);
    return all;
}
