/*
 * A step does not depend on how it is cut: random ops draw by a row's number in the step, so parts
 * lose what the whole batch loses; and the gradients of parts are added in an order that depends on
 * their numbers alone, so processes that share them get the bits of one.
 */
#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "fovea/seq2seq.h"
#include "models/seq2seq.h"
#include "support/transformers.h"
#include "train/grad_tree.h"

enum { STEP = 3, FIRST = 10 };

static double item(fv_ctx *ctx, fv_tensor *t)
{
    double x = NAN;
    CHECK_OK(ctx, fv_tensor_item(ctx, t, &x));
    return x;
}

/* ---- draws ------------------------------------------------------------------------------- */

static fv_transformer_config with_dropout(fv_family family)
{
    fv_transformer_config cfg = small_config(family);
    cfg.dropout = cfg.attention_dropout = cfg.hidden_dropout = 0.3;
    return cfg;
}

/* `count` pairs from `first` on; sequences of one token are left out of a language model's. */
static double model_loss(small *s, int first, int count, uint64_t row, bool recompute)
{
    const fv_transformer_config *cfg = fv_transformer_settings(s->t);
    const fv_pass pass = {.training = true, .checkpoint = recompute};
    const fv_sequences x = {.count = count, .tokens = tokens + first, .length = lengths + first};
    const fv_sequences y = {.count = count, .tokens = others + first, .length = lengths + first};
    const fv_batch batch = fv_batch_of_pairs(&x, &y);
    fv_ctx_set_step(s->ctx, STEP, row);
    fv_scope_begin(s->ctx);
    fv_tensor *loss = cfg->encoder_layers ? fv_transformer_pair_loss(s->ctx, s->t, &batch, &pass)
                                          : fv_transformer_lm_loss(s->ctx, s->t, &x, &pass);
    const double value = item(s->ctx, loss);
    fv_scope_end(s->ctx);
    return value;
}

static void parts_of_a_transformer_drop_what_the_whole_drops(void)
{
    static const fv_family families[] = {FV_FAMILY_GPT2, FV_FAMILY_LLAMA, FV_FAMILY_FOVEA,
                                         FV_FAMILY_MARIAN, FV_FAMILY_T5};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        const fv_transformer_config cfg = with_dropout(families[f]);
        small s = small_make(&cfg);
        /* Sequence 1 has one token, which is too short for a language model. */
        const int from = cfg.encoder_layers ? 0 : 2, count = COUNT - from;
        const double whole = model_loss(&s, from, count, FIRST, false);
        double parts = 0, elsewhere = 0;
        for (int i = 0; i < count; i++) {
            parts += model_loss(&s, from + i, 1, FIRST + (uint64_t)i, false);
            elsewhere += model_loss(&s, from + i, 1, FIRST, false);
        }
        CHECK_NEAR(parts, whole, 1e-5 * whole);
        CHECK(fabs(elsewhere - whole) > 1e-3 * whole); /* or nothing was dropped */
        CHECK_NEAR(model_loss(&s, from, count, FIRST, true), whole, 0);
        small_free(&s);
    }
}

static void padding_changes_no_draw(void)
{
    const fv_transformer_config cfg = with_dropout(FV_FAMILY_BERT);
    small s = small_make(&cfg);
    const fv_pass pass = {.training = true};
    const fv_sequences all = all_of(s.t);
    fv_tensor *states[2];
    for (int padded = 0; padded < 2; padded++) {
        fv_ctx_set_step(s.ctx, STEP, FIRST);
        const fv_token_rows rows =
            padded ? fv_token_rows_pad(s.ctx, &all, cfg.pad) : fv_token_rows_varlen(s.ctx, &all);
        states[padded] = fv_transformer_encode(s.ctx, s.t, &rows, &pass);
    }
    int64_t at = 0;
    for (int i = 0; i < COUNT; at += lengths[i++]) {
        fv_tensor *alone = fv_slice(s.ctx, states[0], 1, at, at + lengths[i], 1);
        fv_tensor *row = fv_slice(s.ctx, states[1], 0, i, i + 1, 1);
        CHECK(tensor_distance(s.ctx, alone, fv_slice(s.ctx, row, 1, 0, lengths[i], 1)) < 1e-5);
    }
    small_free(&s);
}

/* With equal queries, keys and values everywhere, only what is dropped differs. */
static void heads_queries_and_rows_drop_apart(void)
{
    enum { EACH = 2 * 3 * 2, KEYS = 64 };
    fv_ctx *ctx = values_begin();
    const int64_t q[] = {2, 3, 2, 4}, k[] = {2, 3, KEYS, 4}, v[] = {2, 3, KEYS, 1};
    float weight[KEYS];
    for (int j = 0; j < KEYS; j++)
        weight[j] = (float)(j * j);
    fv_tensor *column = fv_from_host(ctx, FV_F32, 4, (int64_t[]){1, 1, KEYS, 1}, weight);
    fv_tensor *values = fv_add(ctx, fv_zeros(ctx, FV_F32, 4, v), column);
    fv_attention_rule rule;
    fv_attention_rule_init(&rule);
    rule.dropout = 0.5;
    fv_tensor *o = fv_attend(ctx, fv_zeros(ctx, FV_F32, 4, q), fv_zeros(ctx, FV_F32, 4, k), values,
                             &rule, NULL, NULL);
    float *x = tensor_floats(ctx, o);
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < i; j++)
            CHECK(x[i] != x[j]);
    free(x);
    values_end(&ctx);
}

/* ---- recurrent models -------------------------------------------------------------------- */

static double pairs_loss(fv_ctx *ctx, const fv_seq2seq *m, int first, int count, uint64_t row)
{
    const fv_pass pass = {.training = true, .sampling = 0.4};
    const fv_batch batch = fv_batch_of_pairs(
        &(fv_sequences){.count = count, .tokens = tokens + first, .length = lengths + first},
        &(fv_sequences){.count = count, .tokens = others + first, .length = lengths + first});
    fv_ctx_set_step(ctx, STEP, row);
    fv_scope_begin(ctx);
    const double value = item(ctx, fv_seq2seq_loss(ctx, m, &batch, &pass));
    fv_scope_end(ctx);
    return value;
}

static void parts_of_a_recurrent_model_drop_what_the_whole_drops(void)
{
    static const struct {
        fv_decoder_kind decoder;
        fv_attention_normaliser normaliser;
        const char *encoder;
    } kinds[] = {{FV_DECODER_SEARCH, FV_ATTENTION_SOFTMAX, "rnn"},
                 {FV_DECODER_LUONG, FV_ATTENTION_SOFTMAX, "set"},
                 {FV_DECODER_SEARCH, FV_ATTENTION_HARD_SAMPLE, "rnn"}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        fv_ctx *ctx = values_begin();
        fv_params *params = NULL;
        fv_seq2seq *model = NULL;
        fv_seq2seq_config cfg;
        fv_seq2seq_config_init(&cfg, sizeof cfg);
        cfg.source_tokens = cfg.target_tokens = VOCABULARY;
        cfg.eos = 1;
        cfg.embedding = cfg.hidden = cfg.attention_width = cfg.readout_width = 8;
        cfg.encoder_hidden = 4;
        cfg.bidirectional = true;
        cfg.layers = 2;
        cfg.decoder = kinds[k].decoder;
        cfg.encoder = (fv_encoder_kind)fv_encoder_part_find(kinds[k].encoder);
        cfg.normaliser = kinds[k].normaliser;
        cfg.score = FV_ATTENTION_ADDITIVE;
        cfg.dropout = 0.3;
        CHECK_OK(ctx, fv_params_create(ctx, &params));
        CHECK_OK(ctx, fv_seq2seq_create(params, &cfg, &model));
        const double whole = pairs_loss(ctx, model, 0, COUNT, FIRST);
        double parts = 0, elsewhere = 0;
        for (int i = 0; i < COUNT; i++) {
            parts += pairs_loss(ctx, model, i, 1, FIRST + (uint64_t)i);
            elsewhere += pairs_loss(ctx, model, i, 1, FIRST);
        }
        CHECK_NEAR(parts, whole, 1e-5 * whole);
        CHECK(fabs(elsewhere - whole) > 1e-4 * whole);
        fv_seq2seq_destroy(&model);
        fv_params_destroy(&params);
        values_end(&ctx);
    }
}

/* ---- sums -------------------------------------------------------------------------------- */

enum { ROWS = 8, GRADIENT = 8192 };

/* The sum of the gradients of parts [first, first + count) of `each` rows, as a process of its own
 * makes it. */
static size_t gradient(int first, int count, int each, int threads, bool recompute,
                       float out[GRADIENT])
{
    const int64_t *row[ROWS];
    int64_t length[ROWS];
    for (int i = 0; i < ROWS; i++) {
        row[i] = tokens[i % 2 ? 2 : 3];
        length[i] = lengths[3] - i;
    }
    fv_ctx_config cc;
    fv_ctx *ctx = NULL;
    fv_params *params = NULL;
    fv_transformer *model = NULL;
    fv_ctx_config_init(&cc, sizeof cc);
    cc.threads = threads;
    if (fv_ctx_create(&cc, &ctx) != FV_OK) return 0;
    const fv_transformer_config cfg = with_dropout(FV_FAMILY_GPT2);
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_transformer_create(params, &cfg, &model));
    small s = {.ctx = ctx, .params = params, .t = model};
    fv_grad_tree tree = {.params = params};
    for (int i = 0; i < count; i++) {
        const int at = (first + i) * each;
        const fv_sequences x = {.count = each, .tokens = row + at, .length = length + at};
        const fv_pass pass = {.training = true, .checkpoint = recompute};
        fv_ctx_set_step(ctx, STEP, (uint64_t)at);
        fv_scope_begin(ctx);
        CHECK_OK(ctx, fv_backward(ctx, fv_transformer_lm_loss(ctx, s.t, &x, &pass)));
        fv_scope_end(ctx);
        CHECK_OK(ctx, fv_grad_tree_add(&tree, i));
    }
    CHECK_OK(ctx, fv_grad_tree_finish(&tree));
    size_t n = 0;
    for (int i = 0; i < fv_params_count(params); i++) {
        fv_tensor *g = fv_grad(ctx, fv_params_tensor(params, i));
        float *x = g ? tensor_floats(ctx, g) : NULL;
        const size_t size = g ? (size_t)fv_tensor_count(g) : 0;
        CHECK(n + size <= GRADIENT);
        if (x && n + size <= GRADIENT) memcpy(out + n, x, size * sizeof *x);
        n += size;
        free(x);
    }
    fv_grad_tree_free(&tree);
    fv_transformer_destroy(&model);
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
    return n;
}

static void processes_that_share_the_parts_get_the_bits_of_one(void)
{
    static float one[GRADIENT], sums[ROWS][GRADIENT];
    const size_t n = gradient(0, ROWS, 1, 1, false, one);
    CHECK(n > 1000);
    for (int processes = 2; processes <= ROWS; processes *= 2) {
        const int parts = ROWS / processes;
        for (int p = 0; p < processes; p++)
            CHECK_EQ(gradient(p * parts, parts, 1, 1 + (p + processes) % 4, false, sums[p]), n);
        for (int apart = 1; apart < processes; apart *= 2)
            for (int p = 0; p < processes; p += 2 * apart)
                for (size_t i = 0; i < n; i++)
                    sums[p][i] += sums[p + apart][i];
        CHECK(memcmp(sums[0], one, n * sizeof *one) == 0);
    }
}

/* Equal numbers of parts give equal bits on any number of threads, and where blocks are computed
 * again (two threads here); others differ by rounding. */
static void threads_change_no_bit_and_parts_only_the_rounding(void)
{
    static float single[GRADIENT], first[GRADIENT], other[GRADIENT];
    const size_t n = gradient(0, ROWS, 1, 1, false, single);
    for (int each = 1; each <= ROWS; each *= 2) {
        double largest = 0, apart = 0;
        CHECK_EQ(gradient(0, ROWS / each, each, 1, false, first), n);
        for (size_t i = 0; i < n; i++) {
            largest = fmax(largest, fabs((double)single[i]));
            apart = fmax(apart, fabs((double)first[i] - (double)single[i]));
        }
        CHECK(apart <= 1e-5 * largest && (each == 1 || apart > 0));
        for (int threads = 2; threads <= 8; threads++) {
            CHECK_EQ(gradient(0, ROWS / each, each, threads, threads == 2, other), n);
            CHECK(memcmp(first, other, n * sizeof *first) == 0);
        }
    }
}

/* Any number of parts: the lone ones at the end are added too, and what some parts lack counts. */
static void odd_numbers_of_parts_are_summed(void)
{
    for (int parts = 1; parts <= 9; parts++) {
        fv_ctx *ctx = values_begin();
        fv_params *params = NULL;
        const int64_t two = 2;
        CHECK_OK(ctx, fv_params_create(ctx, &params));
        fv_tensor *a = fv_params_add(params, "a", fv_zeros(ctx, FV_F32, 1, &two));
        fv_tensor *b = fv_params_add(params, "b", fv_zeros(ctx, FV_F32, 1, &two));
        fv_grad_tree tree = {.params = params};
        double expected = 0;
        for (int part = 0; part < parts; part++) {
            fv_tensor *y = fv_scale(ctx, part == 4 ? b : a, 1 << part);
            expected += part == 4 ? 0 : 1 << part;
            CHECK_OK(ctx, fv_backward(ctx, fv_sum(ctx, y, 0, NULL, false)));
            CHECK_OK(ctx, fv_grad_tree_add(&tree, part));
            CHECK(!fv_grad(ctx, a) && !fv_grad(ctx, b));
        }
        CHECK_OK(ctx, fv_grad_tree_finish(&tree));
        float *g = tensor_floats(ctx, fv_grad(ctx, a));
        CHECK_NEAR(g[1], expected, 0);
        free(g);
        CHECK_EQ(fv_grad(ctx, b) != NULL, parts > 4);
        fv_grad_tree_free(&tree);
        fv_params_destroy(&params);
        values_end(&ctx);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    fill_sequences();
    RUN(parts_of_a_transformer_drop_what_the_whole_drops);
    RUN(padding_changes_no_draw);
    RUN(heads_queries_and_rows_drop_apart);
    RUN(parts_of_a_recurrent_model_drop_what_the_whole_drops);
    RUN(threads_change_no_bit_and_parts_only_the_rounding);
    RUN(processes_that_share_the_parts_get_the_bits_of_one);
    RUN(odd_numbers_of_parts_are_summed);
    return TEST_END();
}
