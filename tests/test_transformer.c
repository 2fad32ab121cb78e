/*
 * Transformers of every family: rows packed, padded and alone give one answer, losses are what they
 * say, gradients are right, attention can be seen, and sizes are those that were published.
 */
#include "fovea/transformer.h"

#include "fovea/autograd.h"
#include "support/tensors.h"
#include "support/values.h"

enum { VOCABULARY = 23 };

/* ---- small models ---------------------------------------------------------------------- */

typedef struct small {
    fv_ctx *ctx;
    fv_params *params;
    fv_transformer *t;
} small;

static fv_transformer_config tiny(fv_family family)
{
    fv_transformer_config c;
    fv_transformer_config_init(&c, sizeof c, family);
    c.vocabulary = VOCABULARY;
    c.width = 16;
    c.heads = 4;
    c.head_dim = 0;
    c.hidden = 24;
    if (c.encoder_layers) c.encoder_layers = 2;
    if (c.decoder_layers) c.decoder_layers = 2;
    c.most_positions = 40;
    if (family == FV_FAMILY_LLAMA) c.kv_heads = 2;
    if (family == FV_FAMILY_T5)
        c.relative_buckets = 8, c.relative_reach = 16, c.logits_scale = 0.25;
    if (family == FV_FAMILY_BERT) c.pooler = c.next_sentence = true;
    c.start_deviation = 0.3;
    c.start = 1;
    c.end = 2;
    return c;
}

static small small_make(const fv_transformer_config *cfg)
{
    small s = {.ctx = values_begin()};
    CHECK_OK(s.ctx, fv_params_create(s.ctx, &s.params));
    CHECK_OK(s.ctx, fv_transformer_create(s.params, cfg, &s.t));
    return s;
}

static void small_free(small *s)
{
    fv_transformer_destroy(&s->t);
    fv_params_destroy(&s->params);
    values_end(&s->ctx);
}

/* ---- sequences ------------------------------------------------------------------------- */

enum { COUNT = 4, LONGEST = 19 };
static const int64_t lengths[COUNT] = {7, 1, LONGEST, 12};
static int64_t token_room[COUNT][LONGEST], type_room[COUNT][LONGEST], other_room[COUNT][LONGEST];
static const int64_t *tokens[COUNT], *types[COUNT], *others[COUNT];

static void fill_sequences(void)
{
    for (int i = 0; i < COUNT; i++) {
        for (int t = 0; t < LONGEST; t++) {
            token_room[i][t] = (7 * i + 5 * t + t * t) % VOCABULARY;
            other_room[i][t] = (3 * i + 11 * t + 1) % VOCABULARY;
            type_room[i][t] = t > 3;
        }
        tokens[i] = token_room[i];
        types[i] = type_room[i];
        others[i] = other_room[i];
    }
}

static fv_sequences all_of(const fv_transformer *t)
{
    return (fv_sequences){.count = COUNT,
                          .tokens = tokens,
                          .length = lengths,
                          .types = fv_transformer_settings(t)->types ? types : NULL};
}

static fv_sequences one_of(const fv_transformer *t, int i)
{
    fv_sequences s = all_of(t);
    s.count = 1;
    s.tokens += i;
    s.length += i;
    if (s.types) s.types += i;
    return s;
}

/* The last states of any model; the second side reads its own source. */
static fv_tensor *states_of(small *s, const fv_rows *rows)
{
    const fv_transformer_config *c = fv_transformer_settings(s->t);
    if (!c->decoder_layers) return fv_transformer_encode(s->ctx, s->t, rows, NULL);
    if (!c->encoder_layers) return fv_transformer_decode(s->ctx, s->t, rows, NULL, NULL, NULL);
    fv_tensor *memory = fv_transformer_encode(s->ctx, s->t, rows, NULL);
    return fv_transformer_decode(s->ctx, s->t, rows, memory, rows, NULL);
}

static const fv_family packable[] = {FV_FAMILY_FOVEA, FV_FAMILY_GPT2, FV_FAMILY_BERT,
                                     FV_FAMILY_MARIAN, FV_FAMILY_LLAMA};

static void packed_has_the_bits_of_alone(void)
{
    for (size_t f = 0; f < sizeof packable / sizeof *packable; f++) {
        const fv_transformer_config cfg = tiny(packable[f]);
        small s = small_make(&cfg);
        const fv_sequences all = all_of(s.t);
        const fv_rows rows = fv_rows_pack(s.ctx, &all);
        fv_tensor *together = states_of(&s, &rows);
        int64_t at = 0;
        for (int i = 0; i < COUNT; at += lengths[i++]) {
            const fv_sequences one = one_of(s.t, i);
            const fv_rows own = fv_rows_pack(s.ctx, &one);
            fv_tensor *part = fv_slice(s.ctx, together, 1, at, at + lengths[i], 1);
            if (!tensor_same(s.ctx, part, states_of(&s, &own)))
                test_failed(__FILE__, __LINE__, "%s: sequence %d", fv_family_name(packable[f]), i);
        }
        small_free(&s);
    }
}

static void padded_is_alone(void)
{
    for (int f = 0; f < FV_FAMILY_COUNT; f++) {
        const fv_transformer_config cfg = tiny((fv_family)f);
        small s = small_make(&cfg);
        const fv_sequences all = all_of(s.t);
        const fv_rows rows = fv_rows_pad(s.ctx, &all, cfg.pad);
        fv_tensor *together = states_of(&s, &rows);
        for (int i = 0; i < COUNT; i++) {
            const fv_sequences one = one_of(s.t, i);
            const fv_rows own = fv_rows_pad(s.ctx, &one, cfg.pad);
            fv_tensor *part =
                fv_slice(s.ctx, fv_slice(s.ctx, together, 0, i, i + 1, 1), 1, 0, lengths[i], 1);
            CHECK(tensor_distance(s.ctx, part, states_of(&s, &own)) < 1e-5);
        }
        small_free(&s);
    }
}

/* ---- losses ---------------------------------------------------------------------------- */

static double item(fv_ctx *ctx, fv_tensor *t)
{
    double x = NAN;
    CHECK_OK(ctx, fv_tensor_item(ctx, t, &x));
    return x;
}

/* -log softmax(logits [1, n, V])[at][token], in double. */
static double surprise(fv_ctx *ctx, fv_tensor *logits, int64_t at, int64_t token)
{
    float *x = tensor_floats(ctx, fv_slice(ctx, logits, 1, at, at + 1, 1));
    double sum = 0;
    for (int v = 0; v < VOCABULARY; v++)
        sum += exp((double)x[v]);
    const double loss = log(sum) - (double)x[token];
    free(x);
    return loss;
}

static void next_loss_sums(void)
{
    const fv_family families[] = {FV_FAMILY_GPT2, FV_FAMILY_LLAMA};
    for (int f = 0; f < 2; f++) {
        const fv_transformer_config cfg = tiny(families[f]);
        small s = small_make(&cfg);
        double expected = 0;
        for (int i = 0; i < COUNT; i++) {
            const fv_sequences one = one_of(s.t, i);
            const fv_rows rows = fv_rows_pack(s.ctx, &one);
            fv_tensor *logits = fv_transformer_logits(s.ctx, s.t, states_of(&s, &rows));
            for (int64_t t = 0; t + 1 < lengths[i]; t++)
                expected += surprise(s.ctx, logits, t, tokens[i][t + 1]);
        }
        const int64_t *some[3] = {tokens[0], tokens[2], tokens[3]};
        const int64_t n[3] = {lengths[0], lengths[2], lengths[3]};
        const fv_sequences long_enough = {.count = 3, .tokens = some, .length = n};
        CHECK_NEAR(item(s.ctx, fv_transformer_next_loss(s.ctx, s.t, &long_enough, NULL)), expected,
                   1e-5 * expected);
        const fv_sequences all = all_of(s.t);
        CHECK_REFUSED(s.ctx, fv_transformer_next_loss(s.ctx, s.t, &all, NULL), FV_ERR_ARGUMENT,
                      "sequence 1 has no next token");
        small_free(&s);
    }
}

/* Targets: sequence 1 is empty. */
static const int64_t target_lengths[COUNT] = {5, 0, 9, LONGEST};

static fv_token_pairs pairs_of(void)
{
    return (fv_token_pairs){.count = COUNT,
                            .source = tokens,
                            .source_length = lengths,
                            .target = others,
                            .target_length = target_lengths};
}

static void pair_loss_sums(void)
{
    const fv_family families[] = {FV_FAMILY_FOVEA, FV_FAMILY_MARIAN, FV_FAMILY_T5};
    for (int f = 0; f < 3; f++) {
        const fv_transformer_config cfg = tiny(families[f]);
        small s = small_make(&cfg);
        double expected = 0;
        for (int i = 0; i < COUNT; i++) {
            int64_t fed[LONGEST + 1] = {cfg.start};
            const int64_t n = target_lengths[i], length = n + 1, *list = fed;
            memcpy(fed + 1, others[i], (size_t)n * sizeof *fed);
            const fv_sequences one = one_of(s.t, i);
            const fv_sequences target = {.count = 1, .tokens = &list, .length = &length};
            const fv_rows rows = fv_rows_pack(s.ctx, &one), to = fv_rows_pack(s.ctx, &target);
            fv_tensor *memory = fv_transformer_encode(s.ctx, s.t, &rows, NULL);
            fv_tensor *logits = fv_transformer_logits(
                s.ctx, s.t, fv_transformer_decode(s.ctx, s.t, &to, memory, &rows, NULL));
            for (int64_t t = 0; t <= n; t++)
                expected += surprise(s.ctx, logits, t, t < n ? others[i][t] : cfg.end);
        }
        const fv_token_pairs batch = pairs_of();
        CHECK_NEAR(item(s.ctx, fv_transformer_pair_loss(s.ctx, s.t, &batch, NULL)), expected,
                   1e-5 * expected);
        small_free(&s);
    }
}

static int64_t wanted_room[COUNT][LONGEST];
static const int64_t *wanted[COUNT];

static void fill_wanted(void)
{
    for (int i = 0; i < COUNT; i++) {
        for (int t = 0; t < LONGEST; t++)
            wanted_room[i][t] = (i + t) % 3 ? -1 : others[i][t];
        wanted[i] = wanted_room[i];
    }
}

static void word_loss_sums(void)
{
    const fv_transformer_config cfg = tiny(FV_FAMILY_BERT);
    small s = small_make(&cfg);
    double expected = 0;
    for (int i = 0; i < COUNT; i++) {
        const fv_sequences one = one_of(s.t, i);
        const fv_rows rows = fv_rows_pack(s.ctx, &one);
        fv_tensor *logits = fv_transformer_logits(s.ctx, s.t, states_of(&s, &rows));
        for (int64_t t = 0; t < lengths[i]; t++)
            if (wanted[i][t] != -1) expected += surprise(s.ctx, logits, t, wanted[i][t]);
    }
    const fv_sequences all = all_of(s.t);
    for (int padded = 0; padded < 2; padded++) {
        const fv_rows rows = padded ? fv_rows_pad(s.ctx, &all, 0) : fv_rows_pack(s.ctx, &all);
        fv_tensor *loss =
            fv_transformer_word_loss(s.ctx, s.t, &all, &rows, states_of(&s, &rows), wanted, NULL);
        CHECK_NEAR(item(s.ctx, loss), expected, 1e-5 * expected);
    }
    small_free(&s);
}

/* ---- heads ------------------------------------------------------------------------------ */

static void pooling_sees_documents(void)
{
    fv_transformer_config cfg = tiny(FV_FAMILY_BERT);
    cfg.labels = 5;
    small s = small_make(&cfg);
    fv_ctx *ctx = s.ctx;
    const fv_sequences all = all_of(s.t);
    const fv_rows packed = fv_rows_pack(ctx, &all), padded = fv_rows_pad(ctx, &all, 0);
    for (int which = 0; which < 2; which++) {
        const fv_rows *rows = which ? &padded : &packed;
        fv_tensor *states = states_of(&s, rows);
        fv_tensor *mean = fv_transformer_pool(ctx, rows, states, FV_POOLING_MEAN);
        fv_tensor *first = fv_transformer_pool(ctx, rows, states, FV_POOLING_FIRST);
        fv_tensor *labels = fv_transformer_labels(ctx, s.t, rows, states, NULL);
        fv_tensor *next = fv_transformer_next_sentence(ctx, s.t, rows, states);
        CHECK_EQ(fv_tensor_size(labels, 0), COUNT);
        CHECK_EQ(fv_tensor_size(labels, 1), 5);
        CHECK_EQ(fv_tensor_size(next, 1), 2);
        for (int i = 0; i < COUNT; i++) {
            const fv_sequences one = one_of(s.t, i);
            const fv_rows own = fv_rows_pack(ctx, &one);
            fv_tensor *x = states_of(&s, &own);
            fv_tensor *m = fv_mean(ctx, x, 1, (int[]){1}, false);
            CHECK(tensor_distance(ctx, fv_slice(ctx, mean, 0, i, i + 1, 1), m) < 1e-5);
            fv_tensor *f = fv_squeeze(ctx, fv_slice(ctx, x, 1, 0, 1, 1), 1);
            CHECK(tensor_distance(ctx, fv_slice(ctx, first, 0, i, i + 1, 1), f) < 1e-5);
            fv_tensor *l = fv_transformer_labels(ctx, s.t, &own, x, NULL);
            CHECK(tensor_distance(ctx, fv_slice(ctx, labels, 0, i, i + 1, 1), l) < 1e-5);
        }
    }
    small_free(&s);
}

/* ---- gradients -------------------------------------------------------------------------- */

static fv_tensor *any_loss(fv_ctx *ctx, const fv_transformer *t)
{
    const fv_transformer_config *c = fv_transformer_settings(t);
    const int64_t *some[2] = {tokens[0], tokens[3]}, *kinds[2] = {types[0], types[3]};
    const int64_t n[2] = {lengths[0], lengths[3]};
    const fv_sequences two = {
        .count = 2, .tokens = some, .length = n, .types = c->types ? kinds : NULL};
    if (c->encoder_layers && c->decoder_layers) {
        const fv_token_pairs batch = pairs_of();
        return fv_transformer_pair_loss(ctx, t, &batch, NULL);
    }
    if (c->decoder_layers) return fv_transformer_next_loss(ctx, t, &two, NULL);
    const int64_t *words[2] = {wanted[0], wanted[3]};
    const fv_rows rows = fv_rows_pack(ctx, &two);
    fv_tensor *states = fv_transformer_encode(ctx, t, &rows, NULL);
    fv_tensor *next = fv_transformer_next_sentence(ctx, t, &rows, states);
    fv_tensor *kind = indices_of(ctx, (int64_t[]){0, 1}, 2);
    return fv_add(ctx, fv_transformer_word_loss(ctx, t, &two, &rows, states, words, NULL),
                  fv_cross_entropy(ctx, next, kind, -1, 0, FV_REDUCTION_SUM));
}

/* A twin whose parameters are double. */
static fv_transformer *in_double(small *s, fv_params **params)
{
    fv_transformer *twin = NULL;
    CHECK_OK(s->ctx, fv_params_create(s->ctx, params));
    fv_no_grad_begin(s->ctx);
    for (int i = 0; i < fv_params_count(s->params); i++)
        fv_params_add(*params, fv_params_name(s->params, i),
                      fv_cast(s->ctx, fv_params_tensor(s->params, i), FV_F64));
    fv_no_grad_end(s->ctx);
    CHECK_OK(s->ctx, fv_transformer_create(*params, fv_transformer_settings(s->t), &twin));
    return twin;
}

static double loss_at(fv_ctx *ctx, const fv_transformer *t)
{
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    const double loss = item(ctx, any_loss(ctx, t));
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return loss;
}

/* The loss along one random direction of one parameter, by central differences and by gradient. */
static void check_parameter(fv_ctx *ctx, const fv_transformer *t, const char *name, fv_tensor *p)
{
    const int64_t n = fv_tensor_count(p);
    const size_t bytes = (size_t)n * sizeof(double);
    double *start = malloc(bytes), *moved = malloc(bytes), *grad = malloc(bytes);
    fv_tensor *g = fv_grad(ctx, p);
    CHECK(g != NULL);
    if (g) {
        CHECK_OK(ctx, fv_tensor_read(ctx, p, start, bytes));
        CHECK_OK(ctx, fv_tensor_read(ctx, g, grad, bytes));
        double slope = 0, value[2];
        const double h = 1e-5;
        for (int way = 0; way < 2; way++) {
            for (int64_t i = 0; i < n; i++)
                moved[i] = start[i] + (way ? -h : h) * sin(1.7 * (double)i + 0.3);
            CHECK_OK(ctx, fv_tensor_write(ctx, p, moved, bytes));
            value[way] = loss_at(ctx, t);
        }
        CHECK_OK(ctx, fv_tensor_write(ctx, p, start, bytes));
        for (int64_t i = 0; i < n; i++)
            slope += grad[i] * sin(1.7 * (double)i + 0.3);
        const double seen = (value[0] - value[1]) / (2 * h);
        if (!(fabs(slope - seen) <= 1e-6 + 1e-6 * fabs(seen)))
            test_failed(__FILE__, __LINE__, "%s: slope %.9g, gradient %.9g", name, seen, slope);
    }
    free(start);
    free(moved);
    free(grad);
}

static void gradients_are_slopes(void)
{
    for (int f = 0; f < FV_FAMILY_COUNT; f++) {
        fv_transformer_config cfg = tiny((fv_family)f);
        cfg.pad = -1; /* whose embedding gets no gradient by its lookup */
        if (cfg.act == FV_ACT_RELU) cfg.act = FV_ACT_GELU; /* no kinks */
        small s = small_make(&cfg);
        fv_params *params = NULL;
        fv_transformer *t = in_double(&s, &params);
        CHECK_OK(s.ctx, fv_backward(s.ctx, any_loss(s.ctx, t)));
        for (int i = 0; i < fv_params_count(params); i++)
            check_parameter(s.ctx, t, fv_params_name(params, i), fv_params_tensor(params, i));
        fv_transformer_destroy(&t);
        fv_params_destroy(&params);
        small_free(&s);
    }
}

/* ---- looking ---------------------------------------------------------------------------- */

typedef struct view {
    char names[256];
    int sites;
    fv_status answer;
} view;

static fv_status take(void *user, fv_ctx *ctx, const fv_site *site)
{
    view *v = user;
    const size_t used = strlen(v->names);
    snprintf(v->names + used, sizeof v->names - used, "%s ", site->name);
    v->sites++;
    fv_tensor *w = site->seen.weights;
    if (!w) return v->answer;
    fv_tensor *rows = fv_sum(ctx, w, 1, (int[]){-1}, false);
    CHECK(tensor_distance(ctx, rows, fv_full(ctx, FV_F32, 3, fv_tensor_shape(rows), 1.0)) < 1e-5);
    CHECK(tensor_distance(ctx, site->seen.top_weights, fv_topk(ctx, w, 2, NULL)) < 1e-6);
    fv_tensor *received = fv_sum(ctx, w, 1, (int[]){2}, false);
    CHECK(tensor_distance(ctx, site->seen.summary.received, received) < 1e-4);
    return v->answer;
}

static void look(small *s, const char *sites, const char *expected)
{
    view v = {.answer = FV_OK};
    const fv_capture capture = {.sites = sites,
                                .look = {.weights = true, .top = 2, .summary = true},
                                .take = take,
                                .user = &v};
    const fv_sequences one = one_of(s->t, 2);
    const fv_rows rows = fv_rows_pack(s->ctx, &one);
    const fv_pass pass = {.capture = &capture};
    fv_tensor *memory = fv_transformer_encode(s->ctx, s->t, &rows, &pass);
    fv_tensor *seen = fv_transformer_decode(s->ctx, s->t, &rows, memory, &rows, &pass);
    CHECK_STR(v.names, expected);
    CHECK(tensor_same(s->ctx, seen, states_of(s, &rows)));
}

static void sites_are_chosen_by_name(void)
{
    const fv_transformer_config cfg = tiny(FV_FAMILY_MARIAN);
    small s = small_make(&cfg);
    look(&s, NULL,
         "encoder.0.self encoder.1.self decoder.0.self decoder.0.cross decoder.1.self "
         "decoder.1.cross ");
    look(&s, "decoder.*", "decoder.0.self decoder.0.cross decoder.1.self decoder.1.cross ");
    look(&s, "*.cross,encoder.1.self", "encoder.1.self decoder.0.cross decoder.1.cross ");
    look(&s, "encoder.1", "");
    look(&s, "*1*", "encoder.1.self decoder.1.self decoder.1.cross ");
    small_free(&s);
}

static void a_look_may_fail_the_pass(void)
{
    const fv_transformer_config cfg = tiny(FV_FAMILY_GPT2);
    small s = small_make(&cfg);
    view v = {.answer = FV_ERR_CANCELLED};
    const fv_capture capture = {.take = take, .user = &v};
    const fv_pass pass = {.capture = &capture};
    const fv_sequences one = one_of(s.t, 0), all = all_of(s.t);
    const fv_rows rows = fv_rows_pack(s.ctx, &one), packed = fv_rows_pack(s.ctx, &all);
    CHECK_REFUSED(s.ctx, fv_transformer_decode(s.ctx, s.t, &rows, NULL, NULL, &pass),
                  FV_ERR_CANCELLED, "");
    CHECK_EQ(v.sites, 1);
    CHECK_REFUSED(s.ctx, fv_transformer_decode(s.ctx, s.t, &packed, NULL, NULL, &pass),
                  FV_ERR_ARGUMENT, "packed");
    small_free(&s);
}

/* ---- sizes ------------------------------------------------------------------------------- */

static void counts_are_the_published_ones(void)
{
    const struct {
        fv_family family;
        int64_t layers, width, heads, hidden, vocabulary, parameters;
    } models[] = {
        {FV_FAMILY_GPT2, 12, 768, 12, 3072, 50257, 124439808},
        {FV_FAMILY_GPT2, 24, 1024, 16, 4096, 50257, 354823168},
        {FV_FAMILY_GPT2, 36, 1280, 20, 5120, 50257, 774030080},
        {FV_FAMILY_GPT2, 48, 1600, 25, 6400, 50257, 1557611200},
        {FV_FAMILY_BERT, 12, 768, 12, 3072, 30522, 109482240},
        {FV_FAMILY_BERT, 24, 1024, 16, 4096, 30522, 335141888},
        {FV_FAMILY_T5, 6, 512, 8, 2048, 32128, 60506624},
        {FV_FAMILY_LLAMA, 32, 4096, 32, 11008, 32000, 6738415616},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        fv_ctx *ctx = values_begin();
        fv_params *plan = NULL;
        fv_transformer *t = NULL;
        fv_transformer_config c;
        fv_transformer_config_init(&c, sizeof c, models[i].family);
        if (c.encoder_layers) c.encoder_layers = models[i].layers;
        if (c.decoder_layers) c.decoder_layers = models[i].layers;
        c.width = models[i].width;
        c.heads = models[i].heads;
        c.hidden = models[i].hidden;
        c.vocabulary = models[i].vocabulary;
        if (c.family == FV_FAMILY_BERT) { /* the bare model, as it is counted */
            c.words = c.logits_bias = false;
            c.pooler = true;
        }
        CHECK_OK(ctx, fv_params_create_plan(ctx, &plan));
        CHECK_OK(ctx, fv_transformer_create(plan, &c, &t));
        CHECK_EQ(fv_params_elements(plan), models[i].parameters);
        fv_memory_stats memory;
        fv_ctx_memory(ctx, &memory);
        CHECK(memory.peak_bytes < (uint64_t)4 << 20);
        fv_transformer_destroy(&t);
        fv_params_destroy(&plan);
        values_end(&ctx);
    }
}

/* ---- refusals ---------------------------------------------------------------------------- */

static void refuse(fv_transformer_config cfg, const char *text)
{
    fv_ctx *ctx = values_begin();
    fv_params *params = NULL;
    fv_transformer *t = NULL;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_EQ(fv_transformer_create(params, &cfg, &t), FV_ERR_ARGUMENT);
    CHECK(t == NULL);
    if (!strstr(fv_ctx_message(ctx), text))
        test_failed(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", fv_ctx_message(ctx), text);
    fv_params_destroy(&params);
    values_end(&ctx);
}

#define REFUSE(family, change, text)                                                               \
    do {                                                                                           \
        fv_transformer_config c = tiny(family);                                                    \
        change;                                                                                    \
        refuse(c, text);                                                                           \
    } while (0)

static void settings_are_checked(void)
{
    REFUSE(FV_FAMILY_GPT2, c.vocabulary = 0, "vocabulary is 0");
    REFUSE(FV_FAMILY_GPT2, c.width = -8, "width is -8");
    REFUSE(FV_FAMILY_GPT2, c.decoder_layers = 1 << 20, "decoder_layers");
    REFUSE(FV_FAMILY_GPT2, c.decoder_layers = 0, "needs layers");
    REFUSE(FV_FAMILY_GPT2, c.heads = 5, "5 heads do not divide width 16");
    REFUSE(FV_FAMILY_GPT2, c.encoder_layers = 1, "gpt2 models do not have an encoder");
    REFUSE(FV_FAMILY_GPT2, c.types = 2, "kinds of token");
    REFUSE(FV_FAMILY_GPT2, c.gated = true, "gates");
    REFUSE(FV_FAMILY_LLAMA, c.gated = false, "without gates");
    REFUSE(FV_FAMILY_LLAMA, c.positions = FV_POSITION_LEARNED, "learned positions");
    REFUSE(FV_FAMILY_MARIAN, c.final_norm = true, "a last norm");
    REFUSE(FV_FAMILY_MARIAN, c.words = true, "a head for words");
    REFUSE(FV_FAMILY_FOVEA, c.words = true, "heads of encoders");
    REFUSE(FV_FAMILY_BERT, (c.labels = 3, c.pooler = c.next_sentence = false), "need the pooler");
    REFUSE(FV_FAMILY_T5, c.relative_reach = 1, "buckets");
    REFUSE(FV_FAMILY_T5, c.dropout = 1, "dropout is 1");
    REFUSE(FV_FAMILY_T5, c.logits_scale = NAN, "logits_scale");
    REFUSE(FV_FAMILY_T5, c.end = VOCABULARY, "start, end and pad");
    REFUSE(FV_FAMILY_LLAMA, c.kv_heads = 3, "heads");
    REFUSE(FV_FAMILY_GPT2, c.family = FV_FAMILY_COUNT, "family");
}

static void passes_are_checked(void)
{
    const fv_transformer_config cfg = tiny(FV_FAMILY_MARIAN), gpt = tiny(FV_FAMILY_GPT2);
    small s = small_make(&cfg);
    fv_ctx *ctx = s.ctx;
    const fv_sequences one = one_of(s.t, 0), all = all_of(s.t);
    const fv_rows rows = fv_rows_pack(ctx, &one), packed = fv_rows_pack(ctx, &all);
    fv_tensor *memory = fv_transformer_encode(ctx, s.t, &rows, NULL);
    CHECK_REFUSED(ctx, fv_transformer_decode(ctx, s.t, &rows, NULL, NULL, NULL), FV_ERR_ARGUMENT,
                  "encoder's states");
    CHECK_REFUSED(ctx, fv_transformer_decode(ctx, s.t, &packed, memory, &rows, NULL), FV_ERR_SHAPE,
                  "packed alike");
    fv_rows bad = {.ids = memory};
    CHECK_REFUSED(ctx, fv_transformer_encode(ctx, s.t, &bad, NULL), FV_ERR_SHAPE, "i64");
    bad = (fv_rows){.ids = rows.ids, .mask = packed.ids};
    CHECK_REFUSED(ctx, fv_transformer_encode(ctx, s.t, &bad, NULL), FV_ERR_SHAPE, "a mask");
    const int64_t none = 0;
    const fv_sequences empty = {.count = 1, .tokens = tokens, .length = &none};
    fv_rows_pack(ctx, &empty);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "has 0 tokens");
    small_free(&s);

    s = small_make(&gpt);
    int64_t wide[41] = {0};
    const int64_t *list = wide, length = 41;
    const fv_sequences many = {.count = 1, .tokens = &list, .length = &length};
    const fv_rows over = fv_rows_pack(s.ctx, &many);
    CHECK_REFUSED(s.ctx, fv_transformer_decode(s.ctx, s.t, &over, NULL, NULL, NULL), FV_ERR_LIMIT,
                  "41 tokens, but the model has 40 positions");
    CHECK_REFUSED(s.ctx, fv_transformer_encode(s.ctx, s.t, &over, NULL), FV_ERR_LIMIT, "41");
    wide[3] = VOCABULARY;
    const int64_t few = 5;
    const fv_sequences foreign = {.count = 1, .tokens = &list, .length = &few};
    const fv_rows strange = fv_rows_pack(s.ctx, &foreign);
    CHECK_REFUSED(s.ctx, fv_transformer_encode(s.ctx, s.t, &strange, NULL), FV_ERR_ARGUMENT,
                  "no encoder");
    CHECK_REFUSED(s.ctx, fv_transformer_decode(s.ctx, s.t, &strange, NULL, NULL, NULL),
                  FV_ERR_INDEX, "23");
    small_free(&s);
}

int main(int argc, char **argv)
{
    fill_sequences();
    fill_wanted();
    TEST_BEGIN(argc, argv);
    RUN(packed_has_the_bits_of_alone);
    RUN(padded_is_alone);
    RUN(next_loss_sums);
    RUN(pair_loss_sums);
    RUN(word_loss_sums);
    RUN(pooling_sees_documents);
    RUN(gradients_are_slopes);
    RUN(sites_are_chosen_by_name);
    RUN(a_look_may_fail_the_pass);
    RUN(counts_are_the_published_ones);
    RUN(settings_are_checked);
    RUN(passes_are_checked);
    return TEST_END();
}
