/*
 * Transformers of every family: rows packed, padded and alone give one answer, losses are what they
 * say, and gradients are right.
 */
#include "fovea/autograd.h"
#include "support/transformers.h"

static const fv_family packable[] = {FV_FAMILY_FOVEA,   FV_FAMILY_GPT2,  FV_FAMILY_BERT,
                                     FV_FAMILY_MARIAN,  FV_FAMILY_LLAMA, FV_FAMILY_DISTILBERT,
                                     FV_FAMILY_ROBERTA, FV_FAMILY_BART,  FV_FAMILY_MISTRAL,
                                     FV_FAMILY_QWEN2,   FV_FAMILY_QWEN3};

static void packed_has_the_bits_of_alone(void)
{
    for (size_t f = 0; f < sizeof packable / sizeof *packable; f++) {
        const fv_transformer_config cfg = small_config(packable[f]);
        small s = small_make(&cfg);
        const fv_sequences all = all_of(s.t);
        const fv_token_rows rows = fv_token_rows_varlen(s.ctx, &all);
        fv_tensor *together = small_states(&s, &rows);
        int64_t at = 0;
        for (int i = 0; i < COUNT; at += lengths[i++]) {
            const fv_sequences one = one_of(s.t, i);
            const fv_token_rows own = fv_token_rows_varlen(s.ctx, &one);
            fv_tensor *part = fv_slice(s.ctx, together, 1, at, at + lengths[i], 1);
            if (!tensor_same(s.ctx, part, small_states(&s, &own)))
                test_failed(__FILE__, __LINE__, "%s: sequence %d", fv_family_name(packable[f]), i);
        }
        small_free(&s);
    }
}

static void padded_is_alone(void)
{
    for (int f = 0; f < FV_FAMILY_COUNT; f++) {
        const fv_transformer_config cfg = small_config((fv_family)f);
        small s = small_make(&cfg);
        const fv_sequences all = all_of(s.t);
        const fv_token_rows rows = fv_token_rows_pad(s.ctx, &all, cfg.pad);
        fv_tensor *together = small_states(&s, &rows);
        for (int i = 0; i < COUNT; i++) {
            const fv_sequences one = one_of(s.t, i);
            const fv_token_rows own = fv_token_rows_pad(s.ctx, &one, cfg.pad);
            fv_tensor *part =
                fv_slice(s.ctx, fv_slice(s.ctx, together, 0, i, i + 1, 1), 1, 0, lengths[i], 1);
            CHECK(tensor_distance(s.ctx, part, small_states(&s, &own)) < 1e-5);
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
        const fv_transformer_config cfg = small_config(families[f]);
        small s = small_make(&cfg);
        double expected = 0;
        for (int i = 0; i < COUNT; i++) {
            const fv_sequences one = one_of(s.t, i);
            const fv_token_rows rows = fv_token_rows_varlen(s.ctx, &one);
            fv_tensor *logits = fv_transformer_logits(s.ctx, s.t, small_states(&s, &rows));
            for (int64_t t = 0; t + 1 < lengths[i]; t++)
                expected += surprise(s.ctx, logits, t, tokens[i][t + 1]);
        }
        const int64_t *some[3] = {tokens[0], tokens[2], tokens[3]};
        const int64_t n[3] = {lengths[0], lengths[2], lengths[3]};
        const fv_sequences long_enough = {.count = 3, .tokens = some, .length = n};
        CHECK_NEAR(item(s.ctx, fv_transformer_lm_loss(s.ctx, s.t, &long_enough, NULL)), expected,
                   1e-5 * expected);
        const fv_sequences all = all_of(s.t);
        CHECK_REFUSED(s.ctx, fv_transformer_lm_loss(s.ctx, s.t, &all, NULL), FV_ERR_ARGUMENT,
                      "sequence 1 has no next token");
        small_free(&s);
    }
}

/* Targets: sequence 1 is empty. */
static const int64_t target_lengths[COUNT] = {5, 0, 9, LONGEST};

static fv_batch pairs_of(void)
{
    return fv_batch_of_pairs(
        &(fv_sequences){.count = COUNT, .tokens = tokens, .length = lengths},
        &(fv_sequences){.count = COUNT, .tokens = others, .length = target_lengths});
}

static void pair_loss_sums(void)
{
    const fv_family families[] = {FV_FAMILY_FOVEA, FV_FAMILY_MARIAN, FV_FAMILY_T5};
    for (int f = 0; f < 3; f++) {
        const fv_transformer_config cfg = small_config(families[f]);
        small s = small_make(&cfg);
        double expected = 0;
        for (int i = 0; i < COUNT; i++) {
            int64_t fed[LONGEST + 1] = {cfg.bos};
            const int64_t n = target_lengths[i], length = n + 1, *list = fed;
            memcpy(fed + 1, others[i], (size_t)n * sizeof *fed);
            const fv_sequences one = one_of(s.t, i);
            const fv_sequences target = {.count = 1, .tokens = &list, .length = &length};
            const fv_token_rows rows = fv_token_rows_varlen(s.ctx, &one),
                                to = fv_token_rows_varlen(s.ctx, &target);
            fv_tensor *memory = fv_transformer_encode(s.ctx, s.t, &rows, NULL);
            fv_tensor *logits = fv_transformer_logits(
                s.ctx, s.t, fv_transformer_decode(s.ctx, s.t, &to, memory, &rows, NULL));
            for (int64_t t = 0; t <= n; t++)
                expected += surprise(s.ctx, logits, t, t < n ? others[i][t] : cfg.eos);
        }
        const fv_batch batch = pairs_of();
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
    const fv_transformer_config cfg = small_config(FV_FAMILY_BERT);
    small s = small_make(&cfg);
    double expected = 0;
    for (int i = 0; i < COUNT; i++) {
        const fv_sequences one = one_of(s.t, i);
        const fv_token_rows rows = fv_token_rows_varlen(s.ctx, &one);
        fv_tensor *logits = fv_transformer_logits(s.ctx, s.t, small_states(&s, &rows));
        for (int64_t t = 0; t < lengths[i]; t++)
            if (wanted[i][t] != -1) expected += surprise(s.ctx, logits, t, wanted[i][t]);
    }
    const fv_sequences all = all_of(s.t);
    for (int padded = 0; padded < 2; padded++) {
        const fv_token_rows rows =
            padded ? fv_token_rows_pad(s.ctx, &all, 0) : fv_token_rows_varlen(s.ctx, &all);
        fv_tensor *loss =
            fv_transformer_mlm_loss(s.ctx, s.t, &all, &rows, small_states(&s, &rows), wanted, NULL);
        CHECK_NEAR(item(s.ctx, loss), expected, 1e-5 * expected);
    }
    small_free(&s);
}

/* ---- heads ------------------------------------------------------------------------------ */

static void pooling_sees_documents(void)
{
    fv_transformer_config cfg = small_config(FV_FAMILY_BERT);
    cfg.labels = 5;
    small s = small_make(&cfg);
    fv_ctx *ctx = s.ctx;
    const fv_sequences all = all_of(s.t);
    const fv_token_rows packed = fv_token_rows_varlen(ctx, &all),
                        padded = fv_token_rows_pad(ctx, &all, 0);
    for (int which = 0; which < 2; which++) {
        const fv_token_rows *rows = which ? &padded : &packed;
        fv_tensor *states = small_states(&s, rows);
        fv_tensor *mean = fv_transformer_pool(ctx, rows, states, FV_POOLING_MEAN);
        fv_tensor *first = fv_transformer_pool(ctx, rows, states, FV_POOLING_FIRST);
        fv_tensor *labels = fv_transformer_labels(ctx, s.t, rows, states, NULL);
        fv_tensor *next = fv_transformer_next_sentence(ctx, s.t, rows, states);
        CHECK_EQ(fv_tensor_size(labels, 0), COUNT);
        CHECK_EQ(fv_tensor_size(labels, 1), 5);
        CHECK_EQ(fv_tensor_size(next, 1), 2);
        for (int i = 0; i < COUNT; i++) {
            const fv_sequences one = one_of(s.t, i);
            const fv_token_rows own = fv_token_rows_varlen(ctx, &one);
            fv_tensor *x = small_states(&s, &own);
            fv_tensor *m = fv_mean(ctx, x, 1, (int[]){1}, false);
            CHECK(tensor_distance(ctx, fv_slice(ctx, mean, 0, i, i + 1, 1), m) < 1e-5);
            fv_tensor *alone = fv_transformer_pool(ctx, &own, x, FV_POOLING_MEAN);
            if (which == 0) CHECK(tensor_same(ctx, fv_slice(ctx, mean, 0, i, i + 1, 1), alone));
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
        .count = 2, .tokens = some, .length = n, .types = c->types > 1 ? kinds : NULL};
    if (c->encoder_layers && c->decoder_layers) {
        const fv_batch batch = pairs_of();
        return fv_transformer_pair_loss(ctx, t, &batch, NULL);
    }
    if (c->decoder_layers) return fv_transformer_lm_loss(ctx, t, &two, NULL);
    const int64_t *words[2] = {wanted[0], wanted[3]};
    const fv_token_rows rows = fv_token_rows_varlen(ctx, &two);
    fv_tensor *states = fv_transformer_encode(ctx, t, &rows, NULL);
    fv_tensor *kind = indices_of(ctx, (int64_t[]){0, 1}, 2);
    fv_tensor *loss = fv_transformer_mlm_loss(ctx, t, &two, &rows, states, words, NULL);
    fv_tensor *texts[] = {c->next_sentence ? fv_transformer_next_sentence(ctx, t, &rows, states)
                                           : NULL,
                          c->labels ? fv_transformer_labels(ctx, t, &rows, states, NULL) : NULL};
    for (int i = 0; i < 2; i++)
        if (texts[i])
            loss =
                fv_add(ctx, loss, fv_cross_entropy(ctx, texts[i], kind, -1, 0, FV_REDUCTION_SUM));
    if (!c->spans) return loss;
    fv_tensor *spans = fv_transformer_spans(ctx, t, states); /* token 2 begins, token 9 ends */
    fv_tensor *sides = fv_contiguous(ctx, fv_transpose(ctx, fv_squeeze(ctx, spans, 0), 0, 1));
    return fv_add(ctx, loss,
                  fv_cross_entropy(ctx, sides, indices_of(ctx, (int64_t[]){2, 9}, 2), -1, 0,
                                   FV_REDUCTION_SUM));
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
        fv_transformer_config cfg = small_config((fv_family)f);
        cfg.pad = -1; /* whose embedding gets no gradient by its lookup */
        cfg.positions_skip_pad = false;
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

/* ---- memory for time ---------------------------------------------------------------------- */

static fv_tensor *training_loss(small *s, const fv_pass *pass)
{
    const int64_t *some[2] = {tokens[2], tokens[3]}, n[2] = {lengths[2], lengths[3]};
    const fv_sequences two = {.count = 2, .tokens = some, .length = n};
    const fv_batch batch = pairs_of();
    fv_ctx_set_step(s->ctx, 7, 0); /* the same dropout in every pass */
    return fv_transformer_settings(s->t)->encoder_layers
               ? fv_transformer_pair_loss(s->ctx, s->t, &batch, pass)
               : fv_transformer_lm_loss(s->ctx, s->t, &two, pass);
}

typedef struct training {
    double loss, norm;
    fv_tensor *grad; /* of the first parameter, the embedding */
    uint64_t peak;
} training;

static training train(small *s, bool forgetting)
{
    training r;
    fv_memory_stats memory;
    fv_ctx *ctx = s->ctx;
    fv_params_zero_grad(s->params);
    fv_scope_begin(ctx);
    fv_ctx_memory_reset_peak(ctx);
    fv_ctx_memory(ctx, &memory);
    const uint64_t before = memory.used_bytes;
    fv_tensor *x = training_loss(s, &(fv_pass){.training = true, .checkpoint = forgetting});
    r.loss = item(ctx, x);
    CHECK_OK(ctx, fv_backward(ctx, x));
    fv_ctx_memory(ctx, &memory);
    r.peak = memory.peak_bytes - before;
    fv_scope_end(ctx);
    CHECK_OK(ctx, fv_params_grad_norm(s->params, NULL, &r.norm));
    r.grad = fv_scale(ctx, fv_grad(ctx, fv_params_tensor(s->params, 0)), 1);
    return r;
}

/* A pass that forgets has the numbers of one that does not, dropout included, and a lower peak: in
 * a decoder to the bit. A decoder that reads a memory adds up the memory's gradient block by block,
 * and so rounds otherwise. */
static void forgetting_changes_memory_alone(void)
{
    const fv_family families[] = {FV_FAMILY_GPT2, FV_FAMILY_LLAMA, FV_FAMILY_FOVEA, FV_FAMILY_T5};
    for (int f = 0; f < 4; f++) {
        fv_transformer_config cfg = small_config(families[f]);
        if (cfg.encoder_layers) cfg.encoder_layers = 6;
        cfg.decoder_layers = 6;
        cfg.dropout = cfg.attention_dropout = cfg.hidden_dropout = 0.2;
        small s = small_make(&cfg);
        const training all = train(&s, false), less = train(&s, true);
        CHECK(all.loss == less.loss);
        if (cfg.encoder_layers == 0) {
            CHECK(all.norm == less.norm);
            CHECK(tensor_same(s.ctx, all.grad, less.grad));
        }
        CHECK_NEAR(less.norm, all.norm, 1e-5 * all.norm);
        CHECK(tensor_distance(s.ctx, all.grad, less.grad) <= 1e-5 * all.norm);
        if (!((double)less.peak < 0.6 * (double)all.peak))
            test_failed(__FILE__, __LINE__, "%s: %llu of %llu bytes", fv_family_name(families[f]),
                        (unsigned long long)less.peak, (unsigned long long)all.peak);
        small_free(&s);
    }
}

TEST_MAIN(argc, argv)
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
    RUN(forgetting_changes_memory_alone);
    return TEST_END();
}
