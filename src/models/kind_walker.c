/*
 * A walker: follows an instruction in a world that it sees step by step (Mei, Bansal and Walter
 * 2016, "Listen, attend, and walk").
 *
 *     h_i  = BiLSTM(x)_i                                       x_i: the vector of word i
 *     e_ti = v . tanh(W s_(t-1) + Y y_t + U x_i + V h_i)       y_t: what the agent sees now
 *     a_t  = softmax(e_t),  z_t = sum_i a_ti (x_i, h_i)        words and states: two levels
 *     s_t  = LSTM((E y_t, z_t), s_(t-1)),   s_0 = tanh(I mean(h))
 *     action_t = softmax(O tanh(R (s_t, z_t, E y_t)))
 *
 * Without attention (walker.attention = false) z_t is the mean of (x_i, h_i) at every step.
 *
 * Fields: "words" (tokens), "seen" (entries of "seen" numbers, one for each step so far), and for
 * the loss "action". In training the world is the one that the right actions lead to.
 */
#include "models/kind_walker.h"

#include "fovea/recurrent.h"
#include "models/capture.h"
#include "models/model.h"
#include "nn/weights.h"
#include "tensor/tensor.h"

enum { MOST_WIDTH = 8192, MOST_STEPS = 4096 };

typedef struct walker {
    fv_ctx *ctx;
    int64_t embedding, hidden, width, seen, actions;
    bool attends;
    double dropout;
    fv_tensor *words, *score; /* score: v */
    fv_rnn encoder;
    fv_dense key, query, query_seen, see, input, recurrent, init, readout, out;
} walker;

static const fv_key keys[] = {
    {"walker.embedding", FV_KEY_INT, "32", 1, MOST_WIDTH, NULL, "width of a word"},
    {"walker.encoder_hidden", FV_KEY_INT, "64", 1, MOST_WIDTH, NULL,
     "units of each direction of the encoder"},
    {"walker.hidden", FV_KEY_INT, "128", 1, MOST_WIDTH, NULL,
     "units of the decoder, of the aligner and of what it makes of the world"},
    {"walker.attention", FV_KEY_BOOL, "true", 0, 0, NULL,
     "aligns words with steps; false: the mean of the words at every step"},
    {"walker.dropout", FV_KEY_REAL, "0", 0, 0.95, NULL, "of the readout"},
};

static fv_key_table walker_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- creation ------------------------------------------------------------------------------- */

static void destroy(void *self)
{
    walker *m = self;
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

static fv_status create_aligner(walker *m, fv_params *params, int64_t level)
{
    const int64_t d = m->width;
    m->score = fv_nn_weight(params, "aligner", "score", 1, &d, fv_init_xavier(d, 1));
    FV_TRY(fv_dense_create(params, "aligner.key", level, d, true, 0, &m->key));
    FV_TRY(fv_dense_create(params, "aligner.state", d, d, false, 0, &m->query));
    return fv_dense_create(params, "aligner.seen", m->seen, d, false, 0, &m->query_seen);
}

static fv_status create_in(walker *m, fv_params *params, const fv_data_spec *spec)
{
    const int64_t d = m->width, states = 2 * m->hidden, level = m->embedding + states;
    FV_RETURN_IF(!spec->source, m->ctx, FV_ERR_ARGUMENT,
                 "a walker needs a tokenizer: tokenizer.json is missing");
    FV_RETURN_IF(m->seen < 1 || m->seen > MOST_WIDTH || m->actions < 2 || m->actions > MOST_WIDTH,
                 m->ctx, FV_ERR_ARGUMENT,
                 "model.kind is walker: such a model follows instructions in a world");
    FV_TRY(fv_embedding_create(params, "words", (int64_t)fv_tokenizer_vocab_size(spec->source),
                               m->embedding, 0.1, &m->words));
    fv_rnn_config rnn;
    fv_rnn_config_init(&rnn, sizeof rnn);
    rnn.cell = FV_CELL_LSTM;
    rnn.input = m->embedding;
    rnn.hidden = m->hidden;
    rnn.bidirectional = true;
    FV_TRY(fv_rnn_create(params, "encoder", &rnn, &m->encoder));
    if (m->attends) FV_TRY(create_aligner(m, params, level));
    FV_TRY(fv_dense_create(params, "see", m->seen, d, true, 0, &m->see));
    FV_TRY(fv_dense_create(params, "decoder.input", d + level, 4 * d, true, 0, &m->input));
    FV_TRY(fv_dense_create(params, "decoder.recurrent", d, 4 * d, false, 0, &m->recurrent));
    FV_TRY(fv_dense_create(params, "decoder.init", states, d, true, 0, &m->init));
    FV_TRY(fv_dense_create(params, "readout", 2 * d + level, d, true, 0, &m->readout));
    return fv_dense_create(params, "actions", d, m->actions, true, 0, &m->out);
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    walker *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    *m = (walker){.ctx = ctx,
                  .embedding = fv_recipe_int(recipe, "walker.embedding"),
                  .hidden = fv_recipe_int(recipe, "walker.encoder_hidden"),
                  .width = fv_recipe_int(recipe, "walker.hidden"),
                  .attends = fv_recipe_bool(recipe, "walker.attention"),
                  .dropout = fv_recipe_real(recipe, "walker.dropout"),
                  .seen = fv_data_spec_get(spec, "seen", 0),
                  .actions = fv_data_spec_get(spec, "actions", 0)};
    return create_in(m, params, spec);
}

bool fv_walker_attends(const void *self) { return ((const walker *)self)->attends; }

/* ---- words ---------------------------------------------------------------------------------- */

/* What the steps read of the words. */
typedef struct listened {
    fv_tensor *keys;    /* [rows, 1, words, width]; NULL without attention */
    fv_tensor *values;  /* [rows, 1, words, level], or without attention [rows, level] */
    fv_tensor *lengths; /* i64 [rows] */
    fv_tensor *first;   /* s_0 [rows, width] */
} listened;

static fv_status listen(fv_ctx *ctx, const walker *m, const fv_batch *batch, bool training,
                        listened *out)
{
    const fv_sequences words = fv_batch_sequences(batch, "words");
    fv_packed_sequences p;
    FV_RETURN_IF(words.count == 0, ctx, FV_ERR_ARGUMENT,
                 "walker: expected a field \"words\" of tokens");
    FV_TRY(fv_pack_sequences(ctx, words.count, words.length, &p));
    fv_tensor *x = fv_embedding(ctx, m->words, fv_packed_tokens(ctx, &p, words.tokens), -1);
    fv_tensor *h = fv_rnn_run(ctx, &m->encoder, x, &p, NULL, training, NULL);
    fv_tensor *both = fv_concat(ctx, 2, (fv_tensor *[]){x, h}, -1);
    *out =
        (listened){.lengths = fv_packed_lengths(ctx, &p, NULL),
                   .first = fv_tanh(
                       ctx, fv_dense_run(ctx, &m->init, fv_packed_pool(ctx, &p, h, FV_POOL_MEAN)))};
    if (m->attends) {
        out->values = fv_unsqueeze(ctx, fv_packed_pad(ctx, &p, both, NULL), 1);
        out->keys = fv_dense_run(ctx, &m->key, out->values);
    } else {
        out->values = fv_packed_pool(ctx, &p, both, FV_POOL_MEAN);
    }
    fv_packed_free(&p);
    return FV_OK;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Step t of the last but one axis of x [rows, steps, d], as [rows, d]. */
static fv_tensor *at_step(fv_ctx *ctx, fv_tensor *x, int64_t t)
{
    return fv_squeeze(ctx, fv_slice(ctx, x, 1, t, t + 1, 1), 1);
}

/* z_t [rows, level]; *weights, unless NULL: [rows, 1, 1, words]. */
static fv_tensor *align(fv_ctx *ctx, const walker *m, const listened *from, fv_tensor *s,
                        fv_tensor *seen, fv_tensor **weights)
{
    if (!m->attends) return from->values;
    fv_attention how;
    fv_attention_result result;
    fv_attention_init(&how, sizeof how);
    how.score = FV_ATTENTION_ADDITIVE;
    how.want_weights = weights != NULL;
    fv_tensor *q = fv_add(ctx, fv_dense_run(ctx, &m->query, s), seen);
    const fv_attention_input in = {.q = fv_unsqueeze(ctx, fv_unsqueeze(ctx, q, 1), 1),
                                   .k = from->keys,
                                   .v = from->values,
                                   .w = m->score,
                                   .key_lengths = from->lengths};
    fv_tensor *z = fv_attention_run(ctx, &in, &how, &result);
    if (weights) *weights = result.weights;
    return fv_squeeze(ctx, fv_squeeze(ctx, z, 1), 1);
}

/* Logits [rows, steps, actions]; `list` has room for three tensors a step. */
static fv_tensor *walk(fv_ctx *ctx, const walker *m, const listened *from, fv_tensor *seen,
                       const fv_pass *pass, fv_tensor **list)
{
    const int64_t steps = fv_tensor_size(seen, 1);
    const bool wanted = m->attends && pass && fv_capture_wants(pass->capture, FV_WALKER_SITE);
    fv_tensor **states = list, **contexts = list + steps, **weights = contexts + steps;
    fv_tensor *y = fv_dense_run(ctx, &m->see, seen);
    fv_tensor *query = m->attends ? fv_dense_run(ctx, &m->query_seen, seen) : NULL;
    fv_tensor *s = from->first;
    fv_tensor *c = fv_scale(ctx, s, 0);
    for (int64_t t = 0; t < steps && ctx->error == FV_OK; t++) {
        fv_tensor *z = align(ctx, m, from, s, query ? at_step(ctx, query, t) : NULL,
                             wanted ? &weights[t] : NULL);
        fv_tensor *in = fv_concat(ctx, 2, (fv_tensor *[]){at_step(ctx, y, t), z}, -1);
        fv_tensor *gates =
            fv_add(ctx, fv_dense_run(ctx, &m->input, in), fv_dense_run(ctx, &m->recurrent, s));
        fv_lstm_cell(ctx, gates, c, &s, &c);
        states[t] = s;
        contexts[t] = z;
    }
    if (ctx->error != FV_OK) return ctx->invalid;
    if (wanted) fv_capture_give(ctx, pass, FV_WALKER_SITE, fv_concat(ctx, (int)steps, weights, 2));
    fv_tensor *all[] = {fv_stack(ctx, (int)steps, states, 1),
                        fv_stack(ctx, (int)steps, contexts, 1), y};
    fv_tensor *r = fv_tanh(ctx, fv_dense_run(ctx, &m->readout, fv_concat(ctx, 3, all, -1)));
    if (pass && pass->training && m->dropout > 0) r = fv_dropout(ctx, r, m->dropout);
    return fv_dense_run(ctx, &m->out, r);
}

static fv_tensor *run(fv_ctx *ctx, const walker *m, const fv_batch *batch, const fv_pass *pass,
                      fv_tensor **lengths)
{
    const fv_field *field = fv_batch_find(batch, "seen");
    const bool fits = field && field->dtype == FV_F32 && field->rank == 1 &&
                      field->shape[0] == m->seen && field->length;
    if (!fits) {
        fv_poison(ctx, FV_ERR_ARGUMENT,
                  "walker: expected a field \"seen\" of %lld numbers for each step",
                  (long long)m->seen);
        return ctx->invalid;
    }
    listened from;
    const fv_status status = listen(ctx, m, batch, pass && pass->training, &from);
    if (status != FV_OK) {
        fv_make_last_failure_sticky(ctx, status);
        return ctx->invalid;
    }
    fv_tensor *seen = fv_batch_tensor(ctx, batch, "seen", lengths);
    if (ctx->error != FV_OK) return ctx->invalid;
    const int64_t steps = fv_tensor_size(seen, 1);
    const size_t bytes = 3 * (size_t)(steps < MOST_STEPS ? steps : 0) * sizeof(fv_tensor *);
    fv_tensor **list = bytes ? fv_mem_zalloc(&ctx->mem, bytes) : NULL;
    if (!list) {
        fv_poison(ctx, bytes ? FV_ERR_MEMORY : FV_ERR_LIMIT, "walker: no room for %lld steps",
                  (long long)steps);
        return ctx->invalid;
    }
    fv_tensor *logits = walk(ctx, m, &from, seen, pass, list);
    fv_mem_free(&ctx->mem, list, bytes);
    return logits;
}

/* ---- the kind ------------------------------------------------------------------------------- */

/* Of each row's last step. */
static fv_tensor *act(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    const walker *m = self;
    fv_tensor *lengths = NULL;
    fv_tensor *logits = run(ctx, m, inputs, pass, &lengths);
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *one = fv_full(ctx, FV_I64, 0, NULL, 1);
    fv_tensor *last =
        fv_reshape(ctx, fv_sub(ctx, lengths, one), 3, (int64_t[]){inputs->rows, 1, 1});
    last = fv_broadcast(ctx, last, 3, (int64_t[]){inputs->rows, 1, m->actions});
    return fv_squeeze(ctx, fv_gather(ctx, logits, fv_contiguous(ctx, last), 1), 1);
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    const fv_field *seen = fv_batch_find(batch, "seen"), *action = fv_batch_find(batch, "action");
    bool fits = seen && seen->length && action && action->length && action->dtype == FV_I64;
    for (int64_t i = 0; fits && i < batch->rows; i++)
        fits = action->length[i] == seen->length[i];
    if (!fits) {
        fv_poison(ctx, FV_ERR_ARGUMENT,
                  "walker: expected a field \"action\" with one number for each step");
        return ctx->invalid;
    }
    fv_tensor *lengths = NULL;
    fv_tensor *logits = run(ctx, self, batch, pass, &lengths);
    fv_tensor *right = fv_batch_tensor(ctx, batch, "action", NULL);
    if (ctx->error != FV_OK) return ctx->invalid;
    const int64_t n = fv_tensor_size(right, 1);
    fv_tensor *ones = fv_full(ctx, FV_F32, 1, &n, 1);
    fv_tensor *number = fv_cast(ctx, fv_cumsum(ctx, ones, 0), FV_I64); /* 1 .. n */
    fv_tensor *past = fv_gt(ctx, number, fv_unsqueeze(ctx, lengths, 1));
    right = fv_where(ctx, past, fv_full(ctx, FV_I64, 0, NULL, -1), right);
    return fv_cross_entropy(ctx, logits, right, -1, 0, FV_REDUCTION_SUM);
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const walker *m = self;
    if (m->attends && capacity > 0)
        out[0] = (fv_site){
            .name = FV_WALKER_SITE, .heads = 1, .queries = FV_AXIS_STEPS, .keys = FV_AXIS_TOKENS};
    return m->attends;
}

const fv_model_kind fv_kind_walker = {
    .struct_size = sizeof fv_kind_walker,
    .name = "walker",
    .types = "fovea-walker",
    .summary = "follows an instruction in a world that it sees",
    .abilities = 1u << FV_CAN_ACT,
    .keys = walker_keys,
    .create = create,
    .destroy = destroy,
    .loss = loss,
    .act = act,
    .attention_sites = sites,
};
