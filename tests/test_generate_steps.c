/*
 * Text from models that are no Transformers, by their steppers: a kind of this test, whose next
 * token follows from the tokens of its context, and an LSTMN against steps without a tape; beyond
 * the context, in batches, by greedy search, sampling and beam search; from a folder; and what is
 * refused.
 */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "fovea/autograd.h"
#include "fovea/model.h"
#include "models/generate.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "support/test.h"

enum { CONTEXT = 12, NEW = 40, PROMPTS = 4, LONGEST = 31, ROWS = 16, MOST_WORDS = 128 };

static const int64_t lengths[PROMPTS] = {3, LONGEST, 1, CONTEXT};

static fv_ctx *ctx;
static int64_t prompt[PROMPTS][LONGEST];

static fv_generate_config config(int64_t tokens, fv_context_full full)
{
    fv_generate_config cfg;
    fv_generate_config_init(&cfg, sizeof cfg, NULL);
    cfg.max_tokens = tokens;
    cfg.context_full = full;
    return cfg;
}

static fv_generated *generated(fv_model *model, int64_t first, int64_t count,
                               fv_generate_config cfg)
{
    const int64_t *list[PROMPTS];
    for (int64_t i = 0; i < PROMPTS; i++)
        list[i] = prompt[i];
    const fv_sequences prompts = {
        .count = count, .tokens = list + first, .length = lengths + first};
    fv_generated *out = NULL;
    cfg.search.first_source = first;
    CHECK_OK(ctx, fv_generate_by_steps(model, NULL, &prompts, &cfg, &out));
    return out;
}

/* The tokens of a context of n of them, with one more to come: a full one keeps its last half. */
static int64_t first_of_context(int64_t first, int64_t n)
{
    return n - first >= CONTEXT ? n - CONTEXT / 2 : first;
}

/* ---- a kind that adds ----------------------------------------------------------------------- */

enum { WORDS = 29, TOP = 5 };

/* Each row: how many tokens its context has, and their sum. */
typedef struct adder {
    fv_sequences prompts;
    int64_t rows, n[ROWS], sum[ROWS], first[ROWS];
    int fed, best;
} adder;

static adder last_adder; /* of the model that was destroyed last */

static int64_t next_word(int64_t n, int64_t sum) { return (7 * sum + 3 * n) % WORDS; }

static fv_status adder_create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                              void **self)
{
    (void)recipe, (void)spec;
    *self = fv_mem_zalloc(&fv_params_ctx(params)->mem, sizeof(adder));
    return *self ? FV_OK : FV_ERR_MEMORY;
}

static void adder_destroy(void *self)
{
    last_adder = *(adder *)self;
    fv_mem_free(&ctx->mem, self, sizeof(adder));
}

static fv_status adder_begin(void *user, int64_t sources)
{
    adder *a = user;
    CHECK_EQ(sources, a->prompts.count);
    a->rows = sources;
    for (int64_t i = 0; i < sources; i++) {
        a->n[i] = a->prompts.length[i] - 1;
        a->sum[i] = 0;
        for (int64_t t = 0; t < a->n[i]; t++)
            a->sum[i] += a->prompts.tokens[i][t];
    }
    return FV_OK;
}

static void adder_feed(void *user, int64_t rows, const int64_t *tokens)
{
    adder *a = user;
    CHECK_EQ(rows, a->rows);
    for (int64_t i = 0; i < rows; i++) {
        a->n[i]++;
        a->sum[i] += tokens[i];
    }
    a->fed++;
}

static fv_status adder_step(void *user, fv_ctx *own, fv_tensor *tokens, bool want_weights,
                            fv_step_output *out)
{
    const adder *a = user;
    float logits[ROWS][WORDS] = {{0}};
    (void)tokens, (void)want_weights;
    for (int64_t i = 0; i < a->rows; i++) {
        CHECK(a->n[i] < CONTEXT);
        logits[i][next_word(a->n[i], a->sum[i])] = TOP;
    }
    out->logits = fv_from_host(own, FV_F32, 2, (int64_t[]){a->rows, WORDS}, logits);
    return FV_OK;
}

static fv_status adder_best(void *user, fv_ctx *own, fv_tensor *tokens, bool want_weights,
                            fv_step_output *out)
{
    adder *a = user;
    int64_t best[ROWS];
    (void)tokens, (void)want_weights;
    for (int64_t i = 0; i < a->rows; i++)
        best[i] = next_word(a->n[i], a->sum[i]);
    out->best = fv_from_host(own, FV_I64, 1, &a->rows, best);
    a->best++;
    return FV_OK;
}

static fv_status adder_select(void *user, int64_t rows, const int64_t *from)
{
    adder *a = user;
    const adder before = *a;
    a->rows = rows;
    for (int64_t i = 0; i < rows; i++) {
        a->n[i] = before.n[from[i]];
        a->sum[i] = before.sum[from[i]];
    }
    return FV_OK;
}

static fv_status adder_stepper(void *self, const fv_batch *inputs, fv_stepper *out)
{
    adder *a = self;
    a->prompts = fv_batch_sequences(inputs, "tokens");
    CHECK(a->prompts.count > 0 && a->prompts.count <= ROWS);
    for (int64_t i = 0; i < a->prompts.count; i++)
        a->first[i] = a->prompts.tokens[i][a->prompts.length[i] - 1];
    *out = (fv_stepper){.user = a,
                        .max_choices = WORDS,
                        .eos = -1,
                        .first_tokens = a->first,
                        .begin = adder_begin,
                        .step = adder_step,
                        .select = adder_select,
                        .best = adder_best,
                        .feed = adder_feed};
    return FV_OK;
}

static int64_t adder_context(const void *self)
{
    (void)self;
    return CONTEXT;
}

static fv_model *open_adder(void)
{
    static const fv_model_kind kind = {.struct_size = sizeof kind,
                                       .name = "adder",
                                       .summary = "adds",
                                       .abilities = 1u << FV_CAN_GENERATE,
                                       .create = adder_create,
                                       .destroy = adder_destroy,
                                       .make_stepper = adder_stepper,
                                       .max_length = adder_context};
    const fv_data_spec spec = {.ability = FV_CAN_GENERATE};
    fv_model *model = NULL;
    if (!fv_model_kind_find(ctx, "adder")) CHECK_OK(ctx, fv_register_model(ctx, &kind));
    CHECK_OK(ctx, fv_model_create(ctx, "adder", NULL, &spec, &model));
    for (int64_t i = 0; i < PROMPTS; i++)
        for (int64_t t = 0; t < LONGEST; t++)
            prompt[i][t] = (i * 7 + t * 5 + t * t) % WORDS;
    return model;
}

/* Greedy outputs of rows that are full at different steps are those of the formula. */
static void expect_sums(bool no_scores)
{
    fv_model *model = open_adder();
    fv_generate_config cfg = config(NEW, FV_CONTEXT_SHIFT);
    cfg.search.no_scores = no_scores;
    fv_generated *out = generated(model, 0, PROMPTS, cfg);
    for (int64_t i = 0; out && i < PROMPTS; i++) {
        const fv_generated_text *g = fv_generated_get(out, i, 0);
        int64_t text[LONGEST + NEW], n = lengths[i], first = 0;
        CHECK_EQ(g->count, NEW);
        CHECK(g->context_full && g->ended_by == FV_ENDED_BY_LENGTH);
        memcpy(text, prompt[i], (size_t)n * sizeof *text);
        for (int64_t t = 0; t < g->count; t++) {
            int64_t sum = 0;
            first = first_of_context(first, n);
            for (int64_t k = first; k < n; k++)
                sum += text[k];
            CHECK_EQ(g->tokens[t], next_word(n - first, sum));
            text[n++] = g->tokens[t];
        }
        if (!no_scores) CHECK_NEAR(g->log_prob, NEW * (TOP - log(exp(TOP) + WORDS - 1)), 1e-3);
    }
    fv_generated_free(&out);
    fv_model_close(&model);
    CHECK_EQ(last_adder.fed, NEW);
    CHECK_EQ(last_adder.best, 0); /* it does not know of the shift */
}

static void full_contexts_keep_their_last_half(void)
{
    expect_sums(false);
    expect_sums(true);
}

/* Without a shift the stepper is used as it is, `best` included. */
static void a_context_that_is_not_full(void)
{
    fv_model *model = open_adder();
    fv_generate_config cfg = config(CONTEXT - 3, FV_CONTEXT_SHIFT);
    cfg.search.no_scores = true;
    fv_generated *out = generated(model, 0, 1, cfg);
    CHECK(out && fv_generated_get(out, 0, 0)->count == CONTEXT - 3);
    CHECK(out && !fv_generated_get(out, 0, 0)->context_full);
    fv_generated_free(&out);
    out = generated(model, 0, 1, config(NEW, FV_CONTEXT_STOP));
    CHECK(out && fv_generated_get(out, 0, 0)->count == CONTEXT - 3);
    CHECK(out && fv_generated_get(out, 0, 0)->ended_by == FV_ENDED_BY_CONTEXT);
    fv_generated_free(&out);
    out = generated(model, 0, 1, config(0, FV_CONTEXT_FAIL));
    CHECK(out && fv_generated_get(out, 0, 0)->count == CONTEXT - 3);
    fv_generated_free(&out);
    fv_model_close(&model);
    CHECK(last_adder.best > 0);
}

/* ---- an LSTMN ------------------------------------------------------------------------------- */

#define TEXTS                                                                                      \
    {"model.kind", "lstmn"}, {"train.task", "language"}, {"data.documents", "lines"},              \
        {"data.made", "sentences"}, {"data.train_pairs", "300"}, {"data.valid_pairs", "40"},       \
        {"tokens.kind", "word"}, {"tokens.min_count", "1"}, {"lstmn.hidden", "16"},                \
        {"lstmn.layers", "2"}, {"lstmn.context", "12"}, {"data.length", "12"},                     \
        {"train.batch_examples", "8"}, {"train.warmup", "0"}, {"eval.samples", "0"},               \
    {                                                                                              \
        "train.steps", "2"                                                                         \
    }

static const run_setting tape[] = {TEXTS, {0}};
static const run_setting state[] = {TEXTS, {"lstmn.memory", "state"}, {0}};

/* A model whose weights are large, so that its logits differ clearly, in the folder "large". */
static fv_model *open_lstmn(const run_setting *settings)
{
    fv_ctx *own = run_context(1, 3);
    run_watch watch = {0};
    fv_model *model = NULL;
    CHECK_EQ(run_text(own, run_recipe(own, settings), folder_sub("run"), &watch), FV_OK);
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("run"), &model));
    fv_params *params = fv_model_params(model);
    for (int p = 0; p < fv_params_count(params); p++) {
        enum { ROOM = 1 << 14 };
        static float x[ROOM];
        fv_tensor *t = fv_params_tensor(params, p);
        const int64_t count = fv_tensor_count(t);
        CHECK(count <= ROOM);
        for (int64_t i = 0; i < count && i < ROOM; i++)
            x[i] = 1.5F * sinf((float)(1.7 * p) + 2.3F * (float)i);
        CHECK_OK(ctx, fv_tensor_write(ctx, t, x, (size_t)count * sizeof *x));
    }
    CHECK_OK(ctx, fv_model_save(model, folder_path("run")));
    const int64_t words = (int64_t)fv_tokenizer_vocab_size(fv_model_spec(model)->source);
    CHECK(words > 8 && words <= MOST_WORDS);
    for (int64_t i = 0; i < PROMPTS; i++)
        for (int64_t t = 0; t < LONGEST; t++)
            prompt[i][t] = 1 + (i * 7 + t * 5 + t * t) % (words - 1);
    return model;
}

/* Logits after n tokens, which a new stepper reads. */
static int64_t logits_after(fv_model *model, const int64_t *tokens, int64_t n, float *logits)
{
    const fv_sequences one = {.count = 1, .tokens = &tokens, .length = &n};
    const fv_batch batch = fv_batch_of_tokens(&one);
    fv_stepper stepper;
    fv_step_output out = {0};
    CHECK_OK(ctx, fv_model_kind_of(model)->make_stepper(fv_model_self(model), &batch, &stepper));
    CHECK_OK(ctx, stepper.begin(stepper.user, 1));
    fv_scope_begin(ctx);
    fv_tensor *fed = fv_from_host(ctx, FV_I64, 1, (int64_t[]){1}, tokens + n - 1);
    CHECK_OK(ctx, stepper.step(stepper.user, ctx, fed, false, &out));
    CHECK_OK(ctx,
             fv_tensor_read(ctx, out.logits, logits, (size_t)stepper.max_choices * sizeof *logits));
    fv_scope_end(ctx);
    return stepper.max_choices;
}

/* Probabilities, and where it is greedy tokens, of one output. */
static void check_output(fv_model *model, int64_t number, const fv_generated_text *g, bool greedy)
{
    int64_t text[LONGEST + NEW], n = lengths[number], first = 0;
    double log_prob = 0;
    memcpy(text, prompt[number], (size_t)n * sizeof *text);
    for (int64_t t = 0; t < g->count + (g->ended ? 1 : 0); t++) {
        float logits[MOST_WORDS];
        double sum = 0;
        int64_t best = 0;
        first = first_of_context(first, n);
        const int64_t words = logits_after(model, text + first, n - first, logits);
        const int64_t token = t < g->count ? g->tokens[t] : 0;
        for (int64_t i = 0; i < words; i++) {
            sum += exp((double)logits[i]);
            if (logits[i] > logits[best]) best = i;
        }
        if (greedy) CHECK_EQ(token, best);
        log_prob += (double)logits[token] - log(sum);
        text[n++] = token;
    }
    CHECK_NEAR(g->log_prob, log_prob, 1e-3);
}

static fv_generate_config config_of_mode(int mode)
{
    fv_generate_config cfg = config(NEW, FV_CONTEXT_SHIFT);
    cfg.search.seed = 5;
    cfg.search.sample = mode == 1;
    cfg.search.beam = mode == 2 ? 3 : 1;
    cfg.search.nbest = mode == 0 ? 1 : 2;
    return cfg;
}

/* Greedy search, sampling and beam search; beside other prompts and alone. */
static void an_lstmn_continues(void)
{
    for (int run = 0; run < 6; run++) {
        folder_make();
        fv_model *model = open_lstmn(run < 3 ? tape : state), *again = NULL;
        CHECK_OK(ctx, fv_model_open(ctx, folder_path("run"), &again));
        const fv_generate_config cfg = config_of_mode(run % 3);
        fv_generated *together = generated(model, 0, PROMPTS, cfg);
        for (int64_t i = 0; together && i < PROMPTS; i++) {
            fv_generated *alone = generated(model, i, 1, cfg);
            for (int n = 0; n < cfg.search.nbest; n++) {
                const fv_generated_text *a = fv_generated_get(together, i, n),
                                        *b = fv_generated_get(alone, 0, n);
                CHECK(a && b && a->count == b->count);
                if (!a || !b || a->count != b->count) continue;
                CHECK(a->count == 0 ||
                      memcmp(a->tokens, b->tokens, (size_t)a->count * sizeof *a->tokens) == 0);
                check_output(again, i, a, run % 3 == 0);
            }
            fv_generated_free(&alone);
        }
        fv_generated_free(&together);
        fv_model_close(&model);
        fv_model_close(&again);
        folder_remove();
    }
}

/* Texts from a folder; an empty prompt begins after the end of a document. */
static void a_folder_generates_text(void)
{
    fv_generator *gen = NULL;
    fv_generated *out = NULL, *want = NULL;
    folder_make();
    fv_model *model = open_lstmn(tape);
    fv_model_close(&model);
    CHECK_OK(ctx, fv_generator_open(ctx, folder_path("run"), FV_WEIGHT_F32, &gen));
    CHECK(fv_generator_defaults(gen) == NULL && fv_generator_cache(gen) == NULL);
    CHECK(fv_generator_transformer(gen) == NULL);
    CHECK_EQ(fv_generator_context(gen), CONTEXT);
    fv_generate_config cfg = config(6, FV_CONTEXT_SHIFT);
    cfg.specials = true;
    const fv_string texts[] = {{"", 0}, {"<|endoftext|>", 13}};
    CHECK_OK(ctx, fv_generate(gen, 1, texts, &cfg, &out));
    CHECK_OK(ctx, fv_generate(gen, 1, texts + 1, &cfg, &want));
    const fv_generated_text *a = fv_generated_get(out, 0, 0), *b = fv_generated_get(want, 0, 0);
    CHECK(a->count > 0 && a->bytes > 0);
    CHECK_STR(a->text, b->text);
    fv_generated_free(&out);
    fv_generated_free(&want);
    fv_generator_close(&gen);
    CHECK_EQ(fv_generator_open(ctx, folder_path("run"), FV_WEIGHT_BF16, &gen), FV_ERR_UNSUPPORTED);
    CHECK(strstr(fv_ctx_message(ctx), "the weights of a lstmn model stay in f32") != NULL);
    folder_remove();
}

/* A classifier has no next token. */
static void a_classifier_is_refused(void)
{
    static const run_setting classes[] = {
        {"train.task", "classify"}, {"data.documents", "lines"}, {0}};
    fv_ctx *own = run_context(1, 3);
    fv_recipe *recipe = run_recipe(own, tape);
    run_watch watch = {0};
    fv_generator *gen = NULL;
    folder_make();
    run_set(own, recipe, classes);
    CHECK_EQ(run_text(own, recipe, folder_sub("run"), &watch), FV_OK);
    CHECK_EQ(fv_generator_open(ctx, folder_path("run"), FV_WEIGHT_F32, &gen), FV_ERR_UNSUPPORTED);
    CHECK(strstr(fv_ctx_message(ctx), "a lstmn model does not generate text") != NULL);
    folder_remove();
}

/* ---- failing memory ------------------------------------------------------------------------- */

static fv_status generate_in(fv_ctx *in, const void *folder)
{
    const fv_string texts[] = {{"", 0}, {"the cat", 7}};
    fv_generator *gen = NULL;
    fv_generated *out = NULL;
    fv_generate_config cfg = config(4, FV_CONTEXT_SHIFT);
    cfg.search.beam = 2;
    cfg.search.min_tokens = 4;
    fv_scope_begin(in);
    fv_status s = fv_generator_open(in, folder, FV_WEIGHT_F32, &gen);
    if (s == FV_OK) s = fv_generate(gen, 2, texts, &cfg, &out);
    if (s == FV_OK) CHECK(fv_generated_get(out, 0, 0)->context_full);
    fv_generated_free(&out);
    fv_generator_close(&gen);
    fv_scope_end(in);
    return s;
}

static void memory_may_run_out(void)
{
    static const run_setting few[] = {TEXTS,
                                      {"lstmn.hidden", "4"},
                                      {"lstmn.layers", "1"},
                                      {"lstmn.context", "3"},
                                      {"data.length", "3"},
                                      {0}};
    fv_ctx *own = run_context(1, 3);
    run_watch watch = {0};
    char folder[512];
    folder_make();
    snprintf(folder, sizeof folder, "%s", folder_sub("run"));
    CHECK_EQ(run_text(own, run_recipe(own, few), folder, &watch), FV_OK);
    CHECK(failing_everywhere(generate_in, folder, 60) > 50);
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    RUN(full_contexts_keep_their_last_half);
    RUN(a_context_that_is_not_full);
    RUN(an_lstmn_continues);
    RUN(a_folder_generates_text);
    RUN(a_classifier_is_refused);
    RUN(memory_may_run_out);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
