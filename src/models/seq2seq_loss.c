/*
 * The decoder over given targets. Rows are sorted by target length, so that each step computes
 * exactly the targets that have not ended; readout and output then run over all steps at once,
 * unless the decoder part is by_step.
 */
#include <string.h>

#include "fovea/autograd.h"
#include "models/seq2seq.h"
#include "nn/packed_sequences.h"
#include "ops/draw.h"

#define SITES_OF_STEPS (UINT64_C(1) << 40) /* more than all steps of a loss can use */

typedef struct run {
    fv_ctx *ctx;
    const fv_seq2seq *m;
    const fv_token_pairs *batch;
    const fv_pass *pass;
    bool want_weights;
    const fv_batch *inputs;
    fv_packed_sequences target;
    int64_t *given, *expected; /* [target.total]: tokens fed, and the tokens they should predict */
    /* [target.steps] */
    fv_tensor **state, **context, **readout, **logits, **weights, **embedded;
    fv_tensor **log_prob, **entropy;     /* of hard attention */
    fv_tensor *all_embedded, *all_input; /* of all steps, where no token is sampled */
} run;

enum { STEP_LISTS = 8 };

/* Whether the loss has the coverage penalty. */
static bool covers(const run *r) { return r->pass->training && r->m->cfg.coverage > 0; }

/* ---- setting up ----------------------------------------------------------------- */

static void fill_tokens(run *r)
{
    const fv_packed_sequences *p = &r->target;
    const fv_seq2seq_config *c = &r->m->cfg;
    for (int64_t t = 0; t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++) {
            const int64_t *tokens = r->batch->target[p->order[i]];
            const int64_t at = p->first[t] + i;
            r->given[at] = t == 0 ? c->bos : tokens[t - 1];
            r->expected[at] = t + 1 == p->length[i] ? c->eos : tokens[t];
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
    fv_status status = fv_pack_sequences(ctx, batch->count, lengths, &r->target);
    fv_mem_free(&ctx->mem, lengths, bytes);
    return status;
}

static fv_status begin(run *r)
{
    fv_ctx *ctx = r->ctx;
    FV_RETURN_IF(r->batch->count < 1, ctx, FV_ERR_ARGUMENT, "seq2seq: an empty batch");
    FV_RETURN_IF(!r->batch->target, ctx, FV_ERR_ARGUMENT, "seq2seq: a batch without targets");
    FV_TRY(pack_targets(r));
    const size_t total = (size_t)r->target.total, steps = (size_t)r->target.steps;
    r->given = fv_mem_alloc(&ctx->mem, 2 * total * sizeof *r->given);
    r->state = fv_mem_zalloc(&ctx->mem, STEP_LISTS * steps * sizeof *r->state);
    FV_RETURN_IF(!r->given || !r->state, ctx, FV_ERR_MEMORY, "seq2seq: no memory for a batch");
    r->expected = r->given + total;
    r->context = r->state + steps;
    r->readout = r->context + steps;
    r->logits = r->readout + steps;
    r->weights = r->logits + steps;
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
    fv_packed_free(&r->target);
}

/* ---- steps ------------------------------------------------------------------------ */

static fv_tensor *embed(const run *r, const fv_memory *memory, int64_t n, const int64_t *tokens)
{
    fv_tensor *ids = fv_from_host(r->ctx, FV_I64, 1, &n, tokens);
    return r->m->y->embed(r->ctx, r->m->decoder, memory, ids, r->pass->training);
}

/* o of step t. */
static fv_tensor *readout_at(const run *r, int64_t t)
{
    const fv_decoder_step step = {.state = r->state[t], .context = r->context[t]};
    return r->readout[t] ? r->readout[t]
                         : r->m->y->readout(r->ctx, r->m->decoder, r->embedded[t], &step);
}

/* Logits of step t, whose rows read `memory`. */
static fv_tensor *logits_at(const run *r, const fv_memory *memory, int64_t t)
{
    return r->logits[t] ? r->logits[t]
                        : r->m->y->logits(r->ctx, r->m->decoder, memory, readout_at(r, t));
}

/* Scheduled sampling: some rows of step t are fed the model's own most likely token. `memory` is
 * that of the step before. */
static void feed_own_tokens(run *r, const fv_memory *memory, int64_t t)
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
    fv_tensor *best = fv_argmax(ctx, logits_at(r, memory, t - 1), -1, false);
    fv_tensor *chance = fv_rand_uniform(ctx, FV_F32, 1, &n, 0, 1);
    fv_status status =
        fv_tensor_read(ctx, fv_slice(ctx, best, 0, 0, n, 1), own, (size_t)n * sizeof *own);
    if (status == FV_OK) status = fv_tensor_read(ctx, chance, draw, (size_t)n * sizeof *draw);
    fv_no_grad_end(ctx);
    for (int64_t i = 0; status == FV_OK && i < n; i++)
        if ((double)draw[i] < r->pass->sampling) r->given[r->target.first[t] + i] = own[i];
    fv_mem_free(&ctx->mem, own, bytes);
}

/* What the tokens of step t give to it; `last` is the memory of the step before. */
static fv_tensor *input_at(run *r, const fv_memory *last, const fv_memory *memory, int64_t t)
{
    fv_ctx *ctx = r->ctx;
    const int64_t first = r->target.first[t], n = r->target.rows[t];
    if (r->all_input) return fv_slice(ctx, r->all_input, 0, first, first + n, 1);
    if (t > 0 && r->pass->training && r->pass->sampling > 0) feed_own_tokens(r, last, t);
    r->embedded[t] = embed(r, memory, n, r->given + first);
    return r->m->y->input(ctx, r->m->decoder, r->embedded[t]);
}

static fv_tensor *first_rows(fv_ctx *ctx, fv_tensor *t, void *user)
{
    return fv_slice(ctx, t, 0, 0, *(const int64_t *)user, 1);
}

static void keep_step(run *r, int64_t t, const fv_decoder_step *step)
{
    r->state[t] = step->state;
    r->context[t] = step->context;
    r->readout[t] = step->readout;
    r->logits[t] = step->logits;
    r->weights[t] = step->weights;
    r->log_prob[t] = step->log_prob;
    r->entropy[t] = step->entropy;
}

static fv_status encode(run *r, fv_memory *memory)
{
    const fv_seq2seq *m = r->m;
    const fv_encode_call call = {.order = r->target.order,
                                 .training = r->pass->training,
                                 .pass = r->pass,
                                 .attention = m->y->attention(m->decoder)};
    return m->x->encode(r->ctx, m->encoder, r->inputs, &call, memory);
}

static void run_steps(run *r)
{
    fv_ctx *ctx = r->ctx;
    const fv_seq2seq *m = r->m;
    const bool training = r->pass->training;
    fv_memory all;
    fv_decoder_state state;
    fv_status status = encode(r, &all);
    if (status == FV_OK && m->y->pack) m->y->pack(ctx, m->decoder, false);
    if (status == FV_OK) status = m->y->first_state(ctx, m->decoder, &all, &state);
    if (status != FV_OK && ctx->error == FV_OK) fv_make_last_failure_sticky(ctx, status);
    if (ctx->error != FV_OK) return;
    fv_memory memory = all;
    fv_tensor *numbers = ctx->draw_numbers;
    const uint64_t site = ctx->site;
    if (!m->y->by_step && (!training || r->pass->sampling <= 0)) {
        r->all_embedded = embed(r, NULL, r->target.total, r->given);
        r->all_input = m->y->input(ctx, m->decoder, r->all_embedded);
    }
    for (int64_t t = 0; t < r->target.steps && ctx->error == FV_OK; t++) {
        int64_t n = r->target.rows[t];
        const fv_memory last = memory;
        if (t > 0 && n < r->target.rows[t - 1]) {
            memory = fv_memory_rows(ctx, &all, n, NULL);
            fv_decoder_state_map(&state, first_rows, ctx, &n);
        }
        fv_decoder_call call = {.memory = &memory,
                                .t = t,
                                .want_weights = r->want_weights || covers(r),
                                .training = training};
        const int64_t first = r->target.first[t];
        if (numbers) fv_draw_numbers_set(ctx, fv_slice(ctx, numbers, 0, first, first + n, 1));
        call.input = input_at(r, &last, &memory, t);
        call.embedded = r->embedded[t];
        const fv_decoder_step step = m->y->step(ctx, m->decoder, &call, &state);
        keep_step(r, t, &step);
        if (m->y->by_step && ctx->error == FV_OK) r->logits[t] = logits_at(r, &memory, t);
        fv_draw_numbers_set(ctx, numbers);
    }
    ctx->site = site + SITES_OF_STEPS; /* what follows draws by a site that no length changes */
}

static fv_tensor *joined(const run *r, fv_tensor **list)
{
    if (r->ctx->error != FV_OK) return r->ctx->invalid;
    return fv_concat(r->ctx, (int)r->target.steps, list, 0);
}

/* Adds the gradient of hard attention's choices: each is rewarded by the log-probability of the
 * token it led to, compared with the baseline. The value of the loss does not change. */
static fv_tensor *reinforce_choices(const run *r, fv_tensor *loss, fv_tensor *logits,
                                    fv_tensor *expected)
{
    fv_ctx *ctx = r->ctx;
    const fv_seq2seq_config *c = &r->m->cfg;
    fv_no_grad_begin(ctx);
    fv_tensor *token = fv_unsqueeze(ctx, expected, -1);
    fv_tensor *log_py = fv_gather(ctx, fv_log_softmax(ctx, logits, -1), token, 1);
    log_py = fv_squeeze(ctx, log_py, -1);
    fv_tensor *mean = fv_mean(ctx, log_py, 0, NULL, false);
    fv_no_grad_end(ctx);
    double reached = 0;
    const fv_status status = fv_tensor_item(ctx, mean, &reached);
    if (status != FV_OK) {
        fv_make_last_failure_sticky(ctx, status);
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

/* The coverage penalty of fovea/seq2seq.h. Step t holds the rows that have not ended, which are the
 * first ones; a matrix with a 1 for each of its rows sums the weights of a row over its steps. */
static fv_tensor *coverage_penalty(const run *r)
{
    fv_ctx *ctx = r->ctx;
    const fv_packed_sequences *p = &r->target;
    const int64_t shape[2] = {p->sequences, p->total};
    const size_t bytes = (size_t)(p->sequences * p->total) * sizeof(float);
    float *mine = fv_mem_zalloc(&ctx->mem, bytes);
    if (!mine) {
        fv_poison(ctx, FV_ERR_MEMORY, "seq2seq: no memory for the sums of attention weights");
        return ctx->invalid;
    }
    for (int64_t t = 0; t < p->steps; t++)
        for (int64_t i = 0; i < p->rows[t]; i++)
            mine[i * p->total + p->first[t] + i] = 1;
    fv_tensor *rows = fv_from_host(ctx, FV_F32, 2, shape, mine);
    fv_mem_free(&ctx->mem, mine, bytes);
    fv_tensor *seen = fv_matmul(ctx, rows, joined(r, r->weights));
    fv_tensor *missed = fv_square(ctx, fv_sub(ctx, seen, fv_scalar(ctx, FV_F32, 1)));
    return fv_scale(ctx, fv_sum(ctx, missed, 0, NULL, false), r->m->cfg.coverage);
}

static fv_tensor *all_readouts(const run *r)
{
    if (r->ctx->error == FV_OK && r->readout[0]) return joined(r, r->readout);
    fv_tensor *embedded = r->all_embedded ? r->all_embedded : joined(r, r->embedded);
    const fv_decoder_step steps = {.state = joined(r, r->state), .context = joined(r, r->context)};
    return r->m->y->readout(r->ctx, r->m->decoder, embedded, &steps);
}

static fv_tensor *loss_of(run *r)
{
    fv_ctx *ctx = r->ctx;
    const fv_seq2seq_config *c = &r->m->cfg;
    fv_tensor *logits = NULL;
    if (r->m->y->by_step) {
        logits = joined(r, r->logits);
    } else {
        fv_tensor *o = all_readouts(r);
        if (r->pass->training) o = fv_dropout(ctx, o, c->dropout);
        logits = r->m->y->logits(ctx, r->m->decoder, NULL, o);
    }
    fv_tensor *targets = fv_from_host(ctx, FV_I64, 1, &r->target.total, r->expected);
    fv_tensor *loss = fv_cross_entropy(ctx, logits, targets, -1,
                                       r->pass->training ? c->smoothing : 0.0, FV_REDUCTION_SUM);
    if (covers(r) && ctx->error == FV_OK) loss = fv_add(ctx, loss, coverage_penalty(r));
    const bool drawn = ctx->error == FV_OK && r->log_prob[0];
    return drawn ? reinforce_choices(r, loss, logits, targets) : loss;
}

static const fv_pass evaluation = {.training = false};

fv_tensor *fv_seq2seq_loss(fv_ctx *ctx, const fv_seq2seq *m, const fv_batch *batch,
                           const fv_pass *pass)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_token_pairs pairs = fv_token_pairs_of(batch);
    pairs.count = batch->rows;
    run r = {
        .ctx = ctx, .m = m, .inputs = batch, .batch = &pairs, .pass = pass ? pass : &evaluation};
    r.target.ctx = ctx;
    fv_status status = begin(&r);
    if (status != FV_OK) fv_make_last_failure_sticky(ctx, status);
    fv_tensor *before = ctx->draw_numbers;
    if (status == FV_OK && r.pass->training)
        fv_draw_numbers_set(ctx, fv_packed_numbers(ctx, &r.target));
    if (status == FV_OK) run_steps(&r);
    fv_tensor *loss = ctx->error == FV_OK ? loss_of(&r) : ctx->invalid;
    fv_draw_numbers_set(ctx, before);
    end(&r);
    return loss;
}

fv_tensor *fv_seq2seq_align(fv_ctx *ctx, const fv_seq2seq *m, const fv_batch *batch)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    if (!fv_seq2seq_attends(m)) {
        fv_poison(ctx, FV_ERR_UNSUPPORTED, "the %s decoder has no attention", m->y->name);
        return ctx->invalid;
    }
    fv_token_pairs pairs = fv_token_pairs_of(batch);
    pairs.count = batch->rows;
    run r = {.ctx = ctx,
             .m = m,
             .inputs = batch,
             .batch = &pairs,
             .pass = &evaluation,
             .want_weights = true};
    r.target.ctx = ctx;
    fv_status status = begin(&r);
    if (status != FV_OK) fv_make_last_failure_sticky(ctx, status);
    fv_tensor *all = ctx->invalid;
    fv_no_grad_begin(ctx);
    if (status == FV_OK) run_steps(&r);
    if (ctx->error == FV_OK) {
        fv_tensor *past = fv_unsqueeze(ctx, fv_packed_padding_mask(ctx, &r.target), -1);
        all = fv_masked_fill(ctx, fv_packed_pad(ctx, &r.target, joined(&r, r.weights), NULL), past,
                             0);
    }
    fv_no_grad_end(ctx);
    end(&r);
    return all;
}
