/*
 * Language models and classifiers of texts by an LSTMN (models/lstmn.h), or with
 * lstmn.memory = "state" by a plain LSTM of the same sizes. Rows of different lengths stand with
 * their ends aligned; positions before a row's first token leave no trace.
 */
#include <stdio.h>

#include "fovea/autograd.h"
#include "models/lstmn.h"
#include "models/model.h"
#include "nn/weights.h"
#include "tensor/host_table.h"
#include "tensor/tensor.h"

enum { MAX_LAYERS = 8 };

/* States of the rows of a search. */
typedef struct reading {
    fv_sequences prompts;
    int64_t rows;
    int64_t *first; /* [rows of the sources]: the last token of each prompt */
    size_t first_bytes;
    fv_lstmn_tape tape[MAX_LAYERS];
    bool padded; /* the prompts have different lengths */
} reading;

typedef struct lstmn {
    fv_ctx *ctx;
    int layers;
    int64_t context, vocabulary, labels, eos;
    double dropout;
    fv_tensor *embedding;
    fv_lstmn_layer layer[MAX_LAYERS];
    fv_dense out; /* to the vocabulary, or to classes */
    reading search;
} lstmn;

static const fv_key keys[] = {
    {"lstmn.hidden", FV_KEY_INT, "200", 1, 65536, NULL, "units of a layer"},
    {"lstmn.embedding", FV_KEY_INT, "0", 0, 65536, NULL, "width of a token's vector; 0: hidden"},
    {"lstmn.layers", FV_KEY_INT, "1", 1, MAX_LAYERS, NULL, "layers, each over the one below"},
    {"lstmn.memory", FV_KEY_CHOICE, "tape", 0, 0, "tape|state",
     "what a step reads: all earlier states by attention, or the last one (a plain LSTM)"},
    {"lstmn.width", FV_KEY_INT, "0", 0, 65536, NULL, "width of the attention; 0: hidden"},
    {"lstmn.recency", FV_KEY_REAL, "-1", -1, 100, NULL,
     "learns a bias of scores by distance d, at first -recency (d - 1); -1: none, as published"},
    {"lstmn.tied", FV_KEY_BOOL, "false", 0, 0, NULL,
     "language models: one matrix for the token vectors and the output"},
    {"lstmn.context", FV_KEY_INT, "64", 2, FV_LSTMN_LONGEST, NULL, "tokens of the longest text"},
    {"lstmn.dropout", FV_KEY_REAL, "0.2", 0, 0.95, NULL,
     "dropout of the token vectors and of the last layer's states"},
};

static fv_key_table lstmn_keys(void) { return (fv_key_table){keys, sizeof keys / sizeof *keys}; }

/* ---- creation ------------------------------------------------------------------------------- */

static void drop(fv_ctx *ctx, fv_tensor **t)
{
    if (*t && *t != ctx->invalid) fv_tensor_unref(*t);
    *t = NULL;
}

static void drop_tape(fv_ctx *ctx, fv_lstmn_tape *tape)
{
    drop(ctx, &tape->keys);
    drop(ctx, &tape->states);
    drop(ctx, &tape->visible);
    drop(ctx, &tape->h);
    drop(ctx, &tape->c);
}

static void end_search(lstmn *m)
{
    for (int i = 0; i < m->layers; i++)
        drop_tape(m->ctx, &m->search.tape[i]);
    if (m->search.first) fv_mem_free(&m->ctx->mem, m->search.first, m->search.first_bytes);
    m->search = (reading){.rows = 0};
}

static void destroy(void *self)
{
    lstmn *m = self;
    end_search(m);
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
}

static fv_status create_layers(lstmn *m, fv_params *params, const fv_recipe *recipe)
{
    const int64_t hidden = fv_recipe_int(recipe, "lstmn.hidden"),
                  asked = fv_recipe_int(recipe, "lstmn.embedding"),
                  width = fv_recipe_int(recipe, "lstmn.width"),
                  outputs = m->labels > 0 ? m->labels : m->vocabulary;
    const bool plain = fv_recipe_choice(recipe, "lstmn.memory") == 1;
    const double recency = fv_recipe_real(recipe, "lstmn.recency");
    int64_t in = asked > 0 ? asked : hidden;
    FV_TRY(fv_embedding_create(params, "embedding", m->vocabulary, in, 0.1, &m->embedding));
    for (int i = 0; i < m->layers; i++, in = hidden) {
        char name[32];
        const fv_lstmn_sizes sizes = {.in = in,
                                      .hidden = hidden,
                                      .width = plain ? 0 : (width > 0 ? width : hidden),
                                      .distances = recency < 0 ? 0 : m->context,
                                      .recency = recency};
        snprintf(name, sizeof name, "layer.%d", i);
        FV_TRY(fv_lstmn_layer_create(params, name, &sizes, &m->layer[i]));
    }
    if (!fv_recipe_bool(recipe, "lstmn.tied"))
        return fv_dense_create(params, m->labels > 0 ? "classes" : "tokens", hidden, outputs, true,
                               0, &m->out);
    FV_RETURN_IF(m->labels > 0, m->ctx, FV_ERR_ARGUMENT,
                 "lstmn.tied: a classifier has no output matrix of tokens");
    FV_RETURN_IF(asked > 0 && asked != hidden, m->ctx, FV_ERR_ARGUMENT,
                 "lstmn.tied: lstmn.embedding is %lld, expected lstmn.hidden, %lld",
                 (long long)asked, (long long)hidden);
    m->out = (fv_dense){
        .weight = m->embedding,
        .bias = fv_nn_weight(params, "tokens", "bias", 1, &outputs, fv_init_constant(0))};
    return m->ctx->error;
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    static const char end[] = "<|endoftext|>"; /* comes after every document */
    fv_ctx *ctx = fv_params_ctx(params);
    FV_RETURN_IF(!spec->source, ctx, FV_ERR_ARGUMENT,
                 "an LSTMN needs a tokenizer: tokenizer.json is missing");
    FV_RETURN_IF(spec->ability != FV_CAN_GENERATE && spec->ability != FV_CAN_CLASSIFY, ctx,
                 FV_ERR_ARGUMENT,
                 "an LSTMN is not trained to %s; expected train.task language or "
                 "classify",
                 fv_ability_name(spec->ability));
    lstmn *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    *self = m;
    m->ctx = ctx;
    m->layers = (int)fv_recipe_int(recipe, "lstmn.layers");
    m->context = fv_recipe_int(recipe, "lstmn.context");
    m->dropout = fv_recipe_real(recipe, "lstmn.dropout");
    m->vocabulary = (int64_t)fv_tokenizer_vocab_size(spec->source);
    m->labels = spec->ability == FV_CAN_CLASSIFY ? spec->label_count : 0;
    m->eos = fv_tokenizer_token_to_id(spec->source, end, sizeof end - 1);
    FV_RETURN_IF(spec->ability == FV_CAN_CLASSIFY && m->labels < 1, ctx, FV_ERR_ARGUMENT,
                 "a classifier needs classes");
    return create_layers(m, params, recipe);
}

/* ---- rows of tokens ------------------------------------------------------------------------- */

/* Sequences as one table with their ends aligned. */
typedef struct aligned {
    int64_t rows, n;
    fv_tensor *ids;  /* i64 [rows, n] */
    fv_tensor *real; /* f32 [rows, n]: 1 where a token stands; NULL: everywhere */
} aligned;

/* All but the last `cut` tokens of each; n may be 0. */
static aligned align_ends(const lstmn *m, const fv_sequences *s, int64_t cut)
{
    fv_ctx *ctx = m->ctx;
    aligned a = {.rows = s->count};
    bool equal = true;
    for (int64_t i = 0; i < s->count; i++) {
        if (s->length[i] > a.n + cut) a.n = s->length[i] - cut;
        equal = equal && s->length[i] == s->length[0];
    }
    if (ctx->error != FV_OK) return a;
    const int64_t shape[] = {a.rows, a.n};
    int64_t *ids = fv_host_alloc(ctx, FV_I64, 2, shape);
    float *real = equal ? NULL : fv_host_alloc(ctx, FV_F32, 2, shape);
    for (int64_t i = 0; ids && i < a.rows; i++) {
        const int64_t before = a.n - (s->length[i] - cut);
        for (int64_t t = 0; t < a.n; t++) {
            ids[i * a.n + t] = t < before ? 0 : s->tokens[i][t - before];
            if (real) real[i * a.n + t] = t < before ? 0.0F : 1.0F;
        }
    }
    a.ids = fv_host_tensor(ctx, FV_I64, ids, 2, shape, FV_I64);
    if (!equal) a.real = fv_host_tensor(ctx, FV_F32, real, 2, shape, FV_F32);
    return a;
}

/* ---- passes --------------------------------------------------------------------------------- */

static void site_name(int layer, char name[32]) { snprintf(name, 32, "layer.%d.self", layer); }

/* States of the last layer, [rows, n, hidden], after what is on the tapes. */
static fv_tensor *read_tokens(lstmn *m, const aligned *a, fv_lstmn_tape *tapes, const fv_pass *pass)
{
    fv_ctx *ctx = m->ctx;
    const bool training = pass && pass->training && m->dropout > 0;
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_tensor *x = fv_embedding(ctx, m->embedding, a->ids, -1);
    if (training) x = fv_dropout(ctx, x, m->dropout);
    for (int i = 0; i < m->layers; i++) {
        char site[32];
        site_name(i, site);
        const bool wanted = pass && fv_capture_wants(pass->capture, site);
        fv_tensor *weights = NULL;
        x = fv_lstmn_read(ctx, &m->layer[i], x, a->real, &tapes[i], wanted ? &weights : NULL);
        if (wanted) fv_capture_give(ctx, pass, site, weights);
    }
    return training ? fv_dropout(ctx, x, m->dropout) : x;
}

/* The mean over a row's tokens, [rows, hidden]. */
static fv_tensor *pool(fv_ctx *ctx, const aligned *a, fv_tensor *h)
{
    if (!a->real) return fv_mean(ctx, h, 1, (int[]){1}, false);
    fv_tensor *real = fv_unsqueeze(ctx, a->real, 2);
    fv_tensor *sum = fv_sum(ctx, fv_mul(ctx, h, real), 1, (int[]){1}, false);
    return fv_div(ctx, sum, fv_sum(ctx, real, 1, (int[]){1}, false));
}

static fv_tensor *classify(fv_ctx *ctx, void *self, const fv_batch *inputs, const fv_pass *pass)
{
    lstmn *m = self;
    const fv_sequences texts = fv_batch_sequences(inputs, "tokens");
    if (texts.count == 0 || m->labels == 0) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "lstmn: expected the field tokens, and a model of classes");
        return ctx->invalid;
    }
    fv_lstmn_tape tapes[MAX_LAYERS] = {{0}};
    const aligned a = align_ends(m, &texts, 0);
    return fv_dense_run(ctx, &m->out, pool(ctx, &a, read_tokens(m, &a, tapes, pass)));
}

/* The tokens that follow each position, flattened; -1 before a row's first token. */
static fv_tensor *next_tokens(fv_ctx *ctx, const fv_sequences *s, const aligned *a)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    const int64_t count = a->rows * a->n;
    int64_t *next = fv_host_alloc(ctx, FV_I64, 1, &count);
    for (int64_t i = 0; next && i < a->rows; i++)
        for (int64_t t = 0, before = a->n - (s->length[i] - 1); t < a->n; t++)
            next[i * a->n + t] = t < before ? -1 : s->tokens[i][t - before + 1];
    return fv_host_tensor(ctx, FV_I64, next, 1, &count, FV_I64);
}

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    lstmn *m = self;
    if (m->labels > 0) {
        fv_tensor *label = fv_batch_tensor(ctx, batch, "label", NULL);
        return fv_cross_entropy(ctx, classify(ctx, self, batch, pass), label, -1, 0,
                                FV_REDUCTION_SUM);
    }
    const fv_sequences texts = fv_batch_sequences(batch, "tokens");
    if (texts.count == 0) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "lstmn: expected the field tokens");
        return ctx->invalid;
    }
    fv_lstmn_tape tapes[MAX_LAYERS] = {{0}};
    const aligned a = align_ends(m, &texts, 1);
    fv_tensor *h = read_tokens(m, &a, tapes, pass);
    fv_tensor *flat = fv_reshape(ctx, h, 2, (int64_t[]){-1, m->layer[m->layers - 1].hidden});
    return fv_cross_entropy(ctx, fv_dense_run(ctx, &m->out, flat), next_tokens(ctx, &texts, &a), -1,
                            0, FV_REDUCTION_SUM);
}

static fv_status capture(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    lstmn *m = self;
    const fv_sequences texts = fv_batch_sequences(batch, "tokens");
    FV_RETURN_IF(texts.count == 0, ctx, FV_ERR_ARGUMENT, "lstmn: expected the field tokens");
    fv_lstmn_tape tapes[MAX_LAYERS] = {{0}};
    const aligned a = align_ends(m, &texts, 0);
    read_tokens(m, &a, tapes, pass);
    return ctx->error;
}

static int sites(const void *self, fv_site *out, int capacity)
{
    const lstmn *m = self;
    if (m->layer[0].plain) return 0;
    for (int i = 0; i < m->layers && i < capacity; i++) {
        out[i] = (fv_site){.heads = 1, .queries = FV_AXIS_TOKENS, .keys = FV_AXIS_TOKENS};
        char name[32];
        site_name(i, name);
        snprintf(out[i].name, sizeof out[i].name, "%s", name);
    }
    return m->layers;
}

/* ---- search --------------------------------------------------------------------------------- */

/* Replaces a tape that outlives scopes by another. */
static void hold_tape(fv_ctx *ctx, fv_lstmn_tape *tape, fv_lstmn_tape next)
{
    fv_tensor *all[] = {next.keys, next.states, next.visible, next.h, next.c};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] && all[i] != ctx->invalid) fv_tensor_ref(all[i]);
    drop_tape(ctx, tape);
    *tape = next;
}

/* Reads tokens with copies of the tapes, which replace them once all went well. */
static fv_tensor *advance(lstmn *m, const aligned *a)
{
    fv_lstmn_tape next[MAX_LAYERS];
    for (int i = 0; i < m->layers; i++)
        next[i] = m->search.tape[i];
    fv_tensor *h = read_tokens(m, a, next, NULL);
    if (m->ctx->error != FV_OK) return m->ctx->invalid;
    for (int i = 0; i < m->layers; i++)
        hold_tape(m->ctx, &m->search.tape[i], next[i]);
    return h;
}

/* Reads all but the last token of each prompt, which the first step is fed. */
static fv_status begin(void *user, int64_t sources)
{
    lstmn *m = user;
    fv_ctx *ctx = m->ctx;
    reading *s = &m->search;
    FV_RETURN_IF(sources != s->prompts.count, ctx, FV_ERR_STATE,
                 "lstmn: the stepper was made for other prompts");
    s->rows = sources;
    for (int i = 0; i < m->layers; i++)
        drop_tape(ctx, &s->tape[i]);
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    const aligned a = align_ends(m, &s->prompts, 1);
    s->padded = a.real != NULL;
    if (a.n > 0) advance(m, &a);
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return ctx->error;
}

static fv_status step(void *user, fv_ctx *ctx, fv_tensor *tokens, bool want_weights,
                      fv_step_output *out)
{
    lstmn *m = user;
    const int64_t shape[] = {m->search.rows, 1};
    (void)want_weights;
    fv_no_grad_begin(ctx);
    const aligned a = {.rows = m->search.rows,
                       .n = 1,
                       .ids = fv_reshape(ctx, tokens, 2, shape),
                       .real = m->search.padded ? fv_full(ctx, FV_F32, 2, shape, 1) : NULL};
    fv_tensor *h = advance(m, &a);
    out->logits = fv_dense_run(
        ctx, &m->out,
        fv_reshape(ctx, h, 2, (int64_t[]){m->search.rows, m->layer[m->layers - 1].hidden}));
    fv_no_grad_end(ctx);
    return ctx->error;
}

static fv_tensor *choose(fv_ctx *ctx, fv_tensor *t, fv_tensor *from)
{
    return t ? fv_index_select(ctx, t, from, 0) : NULL;
}

static fv_status select_rows(void *user, int64_t rows, const int64_t *from)
{
    lstmn *m = user;
    fv_ctx *ctx = m->ctx;
    fv_scope_begin(ctx);
    fv_tensor *index = fv_from_host(ctx, FV_I64, 1, &rows, from);
    fv_lstmn_tape next[MAX_LAYERS];
    for (int i = 0; i < m->layers; i++) {
        const fv_lstmn_tape *t = &m->search.tape[i];
        next[i] = (fv_lstmn_tape){.keys = choose(ctx, t->keys, index),
                                  .states = choose(ctx, t->states, index),
                                  .visible = choose(ctx, t->visible, index),
                                  .h = choose(ctx, t->h, index),
                                  .c = choose(ctx, t->c, index)};
    }
    for (int i = 0; i < m->layers && ctx->error == FV_OK; i++)
        hold_tape(ctx, &m->search.tape[i], next[i]);
    if (ctx->error == FV_OK) m->search.rows = rows;
    fv_scope_end(ctx);
    return ctx->error;
}

static fv_status make_stepper(void *self, const fv_batch *inputs, fv_stepper *out)
{
    lstmn *m = self;
    fv_ctx *ctx = m->ctx;
    const fv_sequences prompts = fv_batch_sequences(inputs, "tokens");
    FV_RETURN_IF(prompts.count < 1 || m->labels > 0, ctx, FV_ERR_ARGUMENT,
                 "lstmn: steps need a language model and the field tokens");
    end_search(m);
    m->search.first_bytes = (size_t)prompts.count * sizeof *m->search.first;
    m->search.first = fv_mem_alloc(&ctx->mem, m->search.first_bytes);
    FV_RETURN_IF(!m->search.first, ctx, FV_ERR_MEMORY, "no memory for %lld prompts",
                 (long long)prompts.count);
    for (int64_t i = 0; i < prompts.count; i++)
        m->search.first[i] = prompts.tokens[i][prompts.length[i] - 1];
    m->search.prompts = prompts;
    *out = (fv_stepper){.user = m,
                        .max_choices = m->vocabulary,
                        .eos = m->eos,
                        .first_tokens = m->search.first,
                        .begin = begin,
                        .step = step,
                        .select = select_rows};
    return FV_OK;
}

/* ---- the kind ------------------------------------------------------------------------------- */

static bool can(const void *self, fv_ability ability)
{
    const lstmn *m = self;
    return ability == (m->labels > 0 ? FV_CAN_CLASSIFY : FV_CAN_GENERATE);
}

static int64_t max_length(const void *self) { return ((const lstmn *)self)->context; }

const fv_model_kind fv_kind_lstmn = {
    .struct_size = sizeof fv_kind_lstmn,
    .name = "lstmn",
    .summary = "an LSTM that attends over all its earlier states; language models and classifiers",
    .abilities = 1u << FV_CAN_GENERATE | 1u << FV_CAN_CLASSIFY,
    .trains_bf16 = true,
    .keys = lstmn_keys,
    .create = create,
    .destroy = destroy,
    .loss = loss,
    .can = can,
    .make_stepper = make_stepper,
    .classify = classify,
    .attention_sites = sites,
    .capture_attention = capture,
    .max_length = max_length,
};
