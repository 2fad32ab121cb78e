/*
 * A reader: answers questions about a story by several hops over its sentences (Sukhbaatar et al.
 * 2015, "End-to-end memory networks"), and marks the sentences of a summary.
 *
 *     x_i  = sum_j l_j * E w_ij + T_(n-i)           words of sentence i; time from the end
 *     m    = blocks(x)                              reader.layers Transformer blocks; 0: m = x
 *     u_0  = q + sigmoid(G q) * (P q' + a')         q' and a': the question before, its answer
 *     p    = softmax_i(u_k . A_k m_i / sqrt(d)),    u_(k+1) = H u_k + sum_i p_i C_k m_i
 *     answer = softmax(W u_K + b),                  summary_i = sigmoid(v . m_i + c)
 *
 * with the position encoding l_jk = (1 - j/J) - (k/d) (1 - 2 j/J) of word j of J, which keeps the
 * order of words in a sum. Adjacent weights: C_k = A_(k+1) and H = 1; layer-wise: A and C are the
 * same for all hops. The sum of a sentence knows nothing of other sentences: what came of an object
 * in the end is a matter of all hops. With blocks, a sentence has seen the others before it is
 * looked up. reader.visible says which ones a block's head h sees from sentence i, and how scores
 * fall with the distance (as in ALiBi, Press et al. 2022; directions: Shen et al. 2018):
 *
 *     all          all of them; no bias
 *     past         j <= i:  score -= 2^-(h mod 4) (i - j)
 *     directions   even h: j <= i, odd h: j >= i;  score -= 2^-(h/2 mod 4) |i - j|
 *
 * "Who held the apple then" is the last sentence about the apple before this one: with the bias a
 * head that only looks for the apple finds it, with vectors of time it has to learn to compare
 * times.
 *
 * Fields: "story" and "question" (entries are sentences of "words" tokens, 0 past the end),
 * "previous" (the answer to the question before, -1: none), and for the loss "answer" (-1: does not
 * count), and where the recipe weighs them "support" (sentences of each hop, -1: none) and
 * "summary" (0 or 1 for each sentence).
 */
#include "models/kind_reader.h"

#include <math.h>
#include <stdio.h>

#include "models/capture.h"
#include "models/model.h"
#include "nn/weights.h"
#include "tensor/tensor.h"

enum { MOST_LAYERS = 16, MOST_HOPS = 16, MOST_WORDS = 64, MOST_SENTENCES = 1 << 14 };
enum { SEES_ALL, SEES_PAST, SEES_DIRECTIONS }; /* reader.visible */
enum { SLOPES = 4 };                           /* 1, 1/2, 1/4, 1/8, and again */
enum { QUESTIONS = 8 }; /* a batch has a multiple of it, the rest is padding */

typedef struct reader {
    fv_ctx *ctx;
    int64_t width, words, sentences, answers;
    int layers, hops;
    bool adjacent;
    int visible;
    double dropout, support_weight, summary_weight;
    fv_tensor *embedding, *time, *answer_table; /* answer_table: [answers + 1], the last for none */
    fv_dense gate, previous, transfer, classes, summary;
    fv_dense map[MOST_HOPS + 1]; /* adjacent: A_0 .. A_K; else A, C */
    fv_block block[MOST_LAYERS];
    fv_norm_layer norm;
} reader;

static const fv_key keys[] = {
    {"reader.width", FV_KEY_INT, "64", 1, 8192, NULL, "width of a sentence"},
    {"reader.hops", FV_KEY_INT, "3", 1, MOST_HOPS, NULL, "times that the sentences are looked up"},
    {"reader.weights", FV_KEY_CHOICE, "adjacent", 0, 0, "adjacent|layerwise",
     "weights that hops share: values with the next keys, or all"},
    {"reader.layers", FV_KEY_INT, "1", 0, MOST_LAYERS, NULL,
     "Transformer blocks over the sentences; 0: a memory network"},
    {"reader.heads", FV_KEY_INT, "4", 1, 1024, NULL, "attention heads of a block"},
    {"reader.visible", FV_KEY_CHOICE, "all", 0, 0, "all|past|directions",
     "sentences that heads of a block see: all, those so far, or half the heads those so far and "
     "half those from there on; past and directions: near ones more"},
    {"reader.dropout", FV_KEY_REAL, "0", 0, 0.95, NULL, "of sentences and blocks"},
    {"reader.support", FV_KEY_REAL, "0", 0, 100, NULL,
     "weight of a loss that shows each hop its supporting sentence; 0: none"},
    {"reader.summary", FV_KEY_REAL, "0", 0, 100, NULL,
     "weight of the loss of the summary; 0: none is learned"},
};

static fv_key_table reader_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- creation ------------------------------------------------------------------------------- */

static void destroy(void *self)
{
    reader *m = self;
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

static fv_status create_blocks(reader *m, fv_params *params, int64_t heads)
{
    fv_block_config cfg;
    FV_RETURN_IF(m->width % heads != 0, m->ctx, FV_ERR_ARGUMENT,
                 "reader.heads %lld does not divide reader.width %lld", (long long)heads,
                 (long long)m->width);
    fv_block_config_init(&cfg, sizeof cfg, m->width, heads);
    cfg.dropout = m->dropout;
    for (int i = 0; i < m->layers; i++) {
        char name[32];
        snprintf(name, sizeof name, "encoder.%d", i);
        FV_TRY(fv_block_create(params, name, &cfg, &m->block[i]));
    }
    return m->layers
               ? fv_norm_layer_create(params, "norm", m->width, FV_NORM_LAYER, true, 1e-5, &m->norm)
               : FV_OK;
}

static fv_status create_hops(reader *m, fv_params *params)
{
    const int maps = m->adjacent ? m->hops + 1 : 2;
    for (int i = 0; i < maps; i++) {
        char name[32];
        snprintf(name, sizeof name, "hop.%d", i);
        FV_TRY(fv_dense_create(params, name, m->width, m->width, false, 0, &m->map[i]));
    }
    return m->adjacent
               ? FV_OK
               : fv_dense_create(params, "transfer", m->width, m->width, false, 0, &m->transfer);
}

static fv_status create_in(reader *m, fv_params *params, const fv_recipe *recipe,
                           const fv_data_spec *spec)
{
    fv_ctx *ctx = m->ctx;
    const int64_t d = m->width;
    FV_RETURN_IF(!spec->source, ctx, FV_ERR_ARGUMENT,
                 "a reader needs a tokenizer: tokenizer.json is missing");
    FV_RETURN_IF(spec->label_count < 1 || m->words < 1 || m->words > MOST_WORDS ||
                     m->sentences < 1 || m->sentences > MOST_SENTENCES,
                 ctx, FV_ERR_ARGUMENT,
                 "model.kind is reader: such a model answers questions about stories of 1 to %d "
                 "sentences of 1 to %d words",
                 (int)MOST_SENTENCES, (int)MOST_WORDS);
    const int64_t vocabulary = (int64_t)fv_tokenizer_vocab_size(spec->source);
    FV_TRY(fv_embedding_create(params, "words", vocabulary, d, 0.1, &m->embedding));
    FV_TRY(fv_embedding_create(params, "time", m->sentences, d, 0.1, &m->time));
    FV_TRY(fv_embedding_create(params, "answers", m->answers + 1, d, 0.1, &m->answer_table));
    FV_TRY(fv_dense_create(params, "gate", d, d, true, 0, &m->gate));
    FV_TRY(fv_dense_create(params, "previous", d, d, false, 0, &m->previous));
    FV_TRY(create_blocks(m, params, fv_recipe_int(recipe, "reader.heads")));
    FV_TRY(create_hops(m, params));
    FV_TRY(fv_dense_create(params, "classes", d, m->answers, true, 0, &m->classes));
    return m->summary_weight > 0 ? fv_dense_create(params, "summary", d, 1, true, 0, &m->summary)
                                 : FV_OK;
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    reader *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    *m = (reader){.ctx = ctx,
                  .width = fv_recipe_int(recipe, "reader.width"),
                  .words = fv_data_spec_get(spec, "words", 0),
                  .sentences = fv_data_spec_get(spec, "sentences", 0),
                  .answers = spec->label_count,
                  .layers = (int)fv_recipe_int(recipe, "reader.layers"),
                  .hops = (int)fv_recipe_int(recipe, "reader.hops"),
                  .adjacent = fv_recipe_choice(recipe, "reader.weights") == 0,
                  .visible = fv_recipe_choice(recipe, "reader.visible"),
                  .dropout = fv_recipe_real(recipe, "reader.dropout"),
                  .support_weight = fv_recipe_real(recipe, "reader.support"),
                  .summary_weight = fv_recipe_real(recipe, "reader.summary")};
    return create_in(m, params, recipe, spec);
}

/* ---- sentences ------------------------------------------------------------------------------ */

/* l, [words, width]. */
static fv_tensor *position_encoding(fv_ctx *ctx, const reader *m)
{
    const size_t bytes = (size_t)(m->words * m->width) * sizeof(float);
    const double words = (double)m->words, width = (double)m->width;
    float *table = fv_mem_alloc(&ctx->mem, bytes);
    if (!table) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for a table");
        return ctx->invalid;
    }
    for (int64_t j = 0; j < m->words; j++)
        for (int64_t k = 0; k < m->width; k++) {
            const double place = (double)(j + 1) / words, unit = (double)(k + 1) / width;
            table[j * m->width + k] = (float)((1 - place) - unit * (1 - 2 * place));
        }
    fv_tensor *t = fv_from_host(ctx, FV_F32, 2, (int64_t[]){m->words, m->width}, table);
    fv_mem_free(&ctx->mem, table, bytes);
    return t;
}

/* x with zeros (or 0 tokens) up to n entries on axis 1. Attention sums in another order for other
 * sizes: stories and questions are padded to the same sizes in every batch, so that the bits of a
 * row depend on nothing else. */
static fv_tensor *extend(fv_ctx *ctx, fv_tensor *x, int64_t n)
{
    const int rank = fv_tensor_rank(x);
    if (ctx->error != FV_OK || fv_tensor_size(x, 1) >= n) return x;
    const int64_t shape[] = {fv_tensor_size(x, 0), n - fv_tensor_size(x, 1),
                             rank > 2 ? fv_tensor_size(x, 2) : 1};
    fv_tensor *more = fv_zeros(ctx, FV_I64, rank, shape);
    return fv_concat(ctx, 2, (fv_tensor *[]){x, more}, 1);
}

/* Tokens i64 [rows, n, words] as vectors [rows, n, width]; token 0 adds nothing. */
static fv_tensor *encode(fv_ctx *ctx, const reader *m, fv_tensor *tokens)
{
    fv_tensor *none = fv_zeros(ctx, FV_I64, 0, NULL);
    fv_tensor *shown = fv_cast(ctx, fv_ne(ctx, tokens, none), FV_F32);
    fv_tensor *x = fv_embedding(ctx, m->embedding, tokens, -1);
    fv_tensor *l = fv_mul(ctx, position_encoding(ctx, m), fv_unsqueeze(ctx, shown, -1));
    return fv_sum(ctx, fv_mul(ctx, x, l), 1, (int[]){2}, false);
}

/* 0 .. n - 1, i64 [n]. */
static fv_tensor *count_up(fv_ctx *ctx, int64_t n)
{
    fv_tensor *ones = fv_full(ctx, FV_F32, 1, &n, 1);
    return fv_cast(ctx, fv_sub(ctx, fv_cumsum(ctx, ones, 0), ones), FV_I64);
}

/* How many sentences come after each, at most what the table of times has: i64 [rows, n]. */
static fv_tensor *times(fv_ctx *ctx, const reader *m, fv_tensor *lengths, int64_t n)
{
    fv_tensor *last = fv_full(ctx, FV_I64, 0, NULL, (double)(m->sentences - 1));
    fv_tensor *first = fv_full(ctx, FV_I64, 0, NULL, 1);
    fv_tensor *after =
        fv_sub(ctx, fv_sub(ctx, fv_unsqueeze(ctx, lengths, 1), first), count_up(ctx, n));
    return fv_minimum(ctx, fv_maximum(ctx, after, fv_zeros(ctx, FV_I64, 0, NULL)), last);
}

static float distance_bias(const reader *m, int64_t head, int64_t i, int64_t j)
{
    const bool both = m->visible == SEES_DIRECTIONS;
    const int64_t away = both && head % 2 == 1 ? j - i : i - j;
    const int64_t slope = (both ? head / 2 : head) % SLOPES;
    return away < 0 ? -INFINITY : -ldexpf((float)away, (int)-slope);
}

/* The bias of scores by distance, [heads, n, n]; NULL: none. */
static fv_tensor *distance_biases(fv_ctx *ctx, const reader *m, int64_t n)
{
    if (m->layers == 0 || m->visible == SEES_ALL) return NULL;
    const int64_t heads = m->block[0].self.cfg.heads;
    const size_t bytes = (size_t)(heads * n * n) * sizeof(float);
    float *table = fv_mem_alloc(&ctx->mem, bytes);
    if (!table) {
        fv_poison(ctx, FV_ERR_MEMORY, "no memory for a table");
        return ctx->invalid;
    }
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                table[(h * n + i) * n + j] = distance_bias(m, h, i, j);
    fv_tensor *t = fv_from_host(ctx, FV_F32, 3, (int64_t[]){heads, n, n}, table);
    fv_mem_free(&ctx->mem, table, bytes);
    return t;
}

static fv_tensor *run_blocks(fv_ctx *ctx, const reader *m, fv_tensor *x, fv_tensor *lengths,
                             const fv_pass *pass)
{
    const bool training = pass && pass->training;
    if (training && m->dropout > 0) x = fv_dropout(ctx, x, m->dropout);
    fv_tensor *bias = distance_biases(ctx, m, fv_tensor_size(x, 1));
    for (int i = 0; i < m->layers; i++) {
        char site[32];
        snprintf(site, sizeof site, "encoder.%d.self", i);
        fv_block_result result;
        const bool wanted = pass && fv_capture_wants(pass->capture, site);
        fv_block_input in = {.x = x, .bias = bias, .key_lengths = lengths, .training = training};
        if (wanted) in.capture_self = pass->capture->options;
        x = fv_block_run(ctx, &m->block[i], &in, &result);
        if (wanted) fv_capture_report(ctx, pass->capture, site, &result.self.captured);
    }
    return m->layers ? fv_norm_layer_run(ctx, &m->norm, x) : x;
}

/* ---- questions ------------------------------------------------------------------------------ */

/* u_0, [rows, questions, width]. */
static fv_tensor *first_state(fv_ctx *ctx, const reader *m, const fv_batch *batch)
{
    fv_tensor *tokens = fv_batch_tensor(ctx, batch, "question", NULL);
    fv_tensor *answered = fv_batch_tensor(ctx, batch, "previous", NULL);
    const int64_t n = (fv_tensor_size(tokens, 1) + QUESTIONS - 1) / QUESTIONS * QUESTIONS;
    answered = extend(ctx, answered, n);
    fv_tensor *q = encode(ctx, m, extend(ctx, tokens, n));
    fv_tensor *before = fv_slice(ctx, q, 1, 0, n - 1, 1);
    before = fv_pad(ctx, before, (int64_t[]){0, 1, 0}, (int64_t[]){0, 0, 0}, 0);
    fv_tensor *zero = fv_zeros(ctx, FV_I64, 0, NULL);
    fv_tensor *none = fv_full(ctx, FV_I64, 0, NULL, (double)m->answers);
    answered = fv_where(ctx, fv_lt(ctx, answered, zero), none, answered);
    fv_tensor *context = fv_add(ctx, fv_dense_run(ctx, &m->previous, before),
                                fv_embedding(ctx, m->answer_table, answered, -1));
    fv_tensor *gate = fv_sigmoid(ctx, fv_dense_run(ctx, &m->gate, q));
    return fv_add(ctx, q, fv_mul(ctx, gate, context));
}

static void name_hop(int hop, char out[32]) { snprintf(out, 32, "hop.%d", hop); }

/* u_(k+1) from u_k; the weights [rows, 1, questions, sentences] through `weights`. */
static fv_tensor *run_hop(fv_ctx *ctx, const reader *m, int hop, fv_tensor *u, fv_tensor *memory,
                          fv_tensor *lengths, fv_tensor **weights)
{
    const fv_dense *a = &m->map[m->adjacent ? hop : 0], *c = &m->map[m->adjacent ? hop + 1 : 1];
    fv_attention how;
    fv_attention_init(&how, sizeof how);
    how.want_weights = true;
    const fv_attention_input in = {.q = fv_unsqueeze(ctx, u, 1),
                                   .k = fv_unsqueeze(ctx, fv_dense_run(ctx, a, memory), 1),
                                   .v = fv_unsqueeze(ctx, fv_dense_run(ctx, c, memory), 1),
                                   .key_lengths = lengths};
    fv_attention_result result;
    fv_tensor *o = fv_squeeze(ctx, fv_attention_run(ctx, &in, &how, &result), 1);
    *weights = result.weights;
    return fv_add(ctx, m->adjacent ? u : fv_dense_run(ctx, &m->transfer, u), o);
}

/* ---- passes --------------------------------------------------------------------------------- */

typedef struct outputs {
    fv_tensor *logits; /* [rows, questions, answers] */
    fv_tensor *weights[MOST_HOPS];
    fv_tensor *memory, *lengths;
} outputs;

static bool check_field(fv_ctx *ctx, const reader *m, const fv_batch *batch, const char *name,
                        bool sentences)
{
    const fv_field *f = fv_batch_find(batch, name);
    const bool fits = f && f->dtype == FV_I64 && f->length &&
                      (sentences ? f->rank == 1 && f->shape[0] == m->words : f->rank == 0);
    if (!fits)
        fv_poison(ctx, FV_ERR_ARGUMENT, "reader: expected a field \"%s\" of %s", name,
                  sentences ? "sentences as tokens" : "one number for each question");
    return fits;
}

static int64_t longest(const fv_batch *batch, const char *name)
{
    const fv_field *f = fv_batch_find(batch, name);
    int64_t most = 0;
    for (int64_t i = 0; i < batch->rows; i++)
        if (f->length[i] > most) most = f->length[i];
    return most;
}

static outputs read_batch(fv_ctx *ctx, const reader *m, const fv_batch *batch, const fv_pass *pass)
{
    outputs out = {.logits = ctx->invalid, .memory = ctx->invalid, .lengths = ctx->invalid};
    if (!check_field(ctx, m, batch, "story", true) ||
        !check_field(ctx, m, batch, "question", true) ||
        !check_field(ctx, m, batch, "previous", false))
        return out;
    fv_tensor *tokens = fv_batch_tensor(ctx, batch, "story", &out.lengths);
    if (ctx->error != FV_OK) return out;
    const int64_t sentences = fv_tensor_size(tokens, 1), questions = longest(batch, "question");
    tokens = extend(ctx, tokens, m->sentences);
    fv_tensor *time = times(ctx, m, out.lengths, fv_tensor_size(tokens, 1));
    fv_tensor *x = fv_add(ctx, encode(ctx, m, tokens), fv_embedding(ctx, m->time, time, -1));
    out.memory = run_blocks(ctx, m, x, out.lengths, pass);
    fv_tensor *u = first_state(ctx, m, batch);
    for (int hop = 0; hop < m->hops; hop++) {
        char site[32];
        name_hop(hop, site);
        fv_tensor *w = NULL;
        u = run_hop(ctx, m, hop, u, out.memory, out.lengths, &w);
        if (ctx->error != FV_OK) return out;
        w = fv_slice(ctx, fv_slice(ctx, w, 3, 0, sentences, 1), 2, 0, questions, 1);
        out.weights[hop] = fv_contiguous(ctx, w);
        fv_capture_give(ctx, pass, site, out.weights[hop]);
    }
    out.logits = fv_dense_run(ctx, &m->classes, fv_slice(ctx, u, 1, 0, questions, 1));
    out.memory = fv_slice(ctx, out.memory, 1, 0, sentences, 1);
    return out;
}

/* Logits of the answers to all questions, [rows, questions, answers]. */
static fv_tensor *classify(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    return read_batch(ctx, self, inputs, pass).logits;
}

fv_tensor *fv_reader_run(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass,
                         fv_tensor **summary)
{
    const reader *m = self;
    const outputs out = read_batch(ctx, m, batch, pass);
    if (summary)
        *summary = m->summary_weight > 0
                       ? fv_squeeze(ctx, fv_dense_run(ctx, &m->summary, out.memory), -1)
                       : NULL;
    return out.logits;
}

int fv_reader_hops(const void *self) { return ((const reader *)self)->hops; }

/* ---- loss ----------------------------------------------------------------------------------- */

/* -ln p of hop k's supporting sentence, summed over the questions that have one. */
static fv_tensor *support_loss(fv_ctx *ctx, fv_tensor *weights, fv_tensor *support, int hop)
{
    fv_tensor *zero = fv_zeros(ctx, FV_I64, 0, NULL);
    fv_tensor *at = fv_slice(ctx, support, 2, hop, hop + 1, 1); /* [rows, questions, 1] */
    fv_tensor *given = fv_cast(ctx, fv_ge(ctx, at, zero), FV_F32);
    fv_tensor *p = fv_gather(ctx, fv_squeeze(ctx, weights, 1), fv_maximum(ctx, at, zero), 2);
    fv_tensor *ln = fv_log(ctx, fv_clamp(ctx, p, 1e-6, 1));
    return fv_neg(ctx, fv_sum(ctx, fv_mul(ctx, ln, given), 0, NULL, false));
}

/* Padding of "answer" and "support" must not count: -1 past the end of a row. */
static fv_tensor *hide_padding(fv_ctx *ctx, fv_tensor *values, fv_tensor *lengths)
{
    fv_tensor *index = count_up(ctx, fv_tensor_size(values, 1));
    fv_tensor *past = fv_ge(ctx, index, fv_unsqueeze(ctx, lengths, 1)); /* [rows, n] */
    if (fv_tensor_rank(values) == 3) past = fv_unsqueeze(ctx, past, -1);
    return fv_where(ctx, past, fv_full(ctx, FV_I64, 0, NULL, -1), values);
}

/* The mean over a story's sentences, times its questions, summed over stories. */
static fv_tensor *summary_loss(fv_ctx *ctx, const reader *m, const fv_batch *batch,
                               const outputs *out, fv_tensor *questions)
{
    fv_tensor *marks = fv_cast(ctx, fv_batch_tensor(ctx, batch, "summary", NULL), FV_F32);
    fv_tensor *x = fv_squeeze(ctx, fv_dense_run(ctx, &m->summary, out->memory), -1);
    fv_tensor *loss = fv_sub(ctx, fv_softplus(ctx, x), fv_mul(ctx, x, marks)); /* [rows, n] */
    fv_tensor *lengths = fv_unsqueeze(ctx, out->lengths, 1);
    fv_tensor *shown = fv_lt(ctx, count_up(ctx, fv_tensor_size(x, 1)), lengths);
    fv_tensor *share = fv_div(ctx, fv_cast(ctx, fv_unsqueeze(ctx, questions, 1), FV_F32),
                              fv_cast(ctx, lengths, FV_F32));
    loss = fv_mul(ctx, fv_mul(ctx, loss, fv_cast(ctx, shown, FV_F32)), share);
    return fv_sum(ctx, loss, 0, NULL, false);
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    const reader *m = self;
    const outputs out = read_batch(ctx, m, batch, pass);
    fv_tensor *questions = NULL;
    fv_tensor *answer = fv_batch_tensor(ctx, batch, "answer", &questions);
    if (ctx->error != FV_OK) return ctx->invalid;
    answer = hide_padding(ctx, answer, questions);
    fv_tensor *sum = fv_cross_entropy(ctx, out.logits, answer, -1, 0, FV_REDUCTION_SUM);
    if (m->support_weight > 0) {
        fv_tensor *support =
            hide_padding(ctx, fv_batch_tensor(ctx, batch, "support", NULL), questions);
        const int64_t given = fv_tensor_size(support, 2);
        for (int hop = 0; hop < m->hops && hop < given; hop++)
            sum = fv_add(ctx, sum,
                         fv_scale(ctx, support_loss(ctx, out.weights[hop], support, hop),
                                  m->support_weight));
    }
    if (m->summary_weight > 0)
        sum =
            fv_add(ctx, sum,
                   fv_scale(ctx, summary_loss(ctx, m, batch, &out, questions), m->summary_weight));
    return sum;
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const reader *m = self;
    for (int i = 0; i < m->layers + m->hops && i < capacity; i++) {
        const bool block = i < m->layers;
        out[i] = (fv_site){.heads = block ? m->block[i].self.cfg.heads : 1,
                           .queries = FV_AXIS_SLOTS,
                           .keys = FV_AXIS_SLOTS};
        if (block)
            snprintf(out[i].name, sizeof out[i].name, "encoder.%d.self", i);
        else
            name_hop(i - m->layers, out[i].name);
    }
    return m->layers + m->hops;
}

const fv_model_kind fv_kind_reader = {
    .struct_size = sizeof fv_kind_reader,
    .name = "reader",
    .types = "fovea-reader",
    .summary = "answers questions about a story by hops over its sentences",
    .abilities = 1u << FV_CAN_ANSWER,
    .keys = reader_keys,
    .create = create,
    .destroy = destroy,
    .loss = loss,
    .classify = classify,
    .attention_sites = sites,
};
