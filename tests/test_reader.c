/*
 * The reader: the hops and the answer follow the formula in plain doubles, rows do not depend on
 * the batch, follow-ups use the model's own answers, runs resume to the bit and learn.
 */
#include "fovea/read.h"

#include <math.h>

#include "fovea/ops.h"
#include "models/kind_reader.h"
#include "models/story_batch.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "support/test.h"

static fv_ctx *ctx;

/* ---- the reader ----------------------------------------------------------------------------- */

/* A trained or new model of a small recipe. */
static fv_model *small_model(fv_ctx *in, fv_recipe **recipe, fv_run **run, const char *folder,
                             const run_setting *more)
{
    *recipe = run_recipe(in, (run_setting[]){{"train.task", "stories"},
                                             {"data.train_count", "200"},
                                             {"data.valid_count", "40"},
                                             {"train.batch_examples", "16"},
                                             {"train.optimizer", "adam"},
                                             {"train.lr", "0.005"},
                                             {"reader.width", "16"},
                                             {"reader.heads", "2"},
                                             {0}});
    run_set(in, *recipe, more);
    CHECK_OK(in, fv_run_create(in, *recipe, folder, NULL, NULL, run));
    return *run ? fv_run_model(*run) : NULL;
}

static float *weight(fv_model *model, const char *name)
{
    fv_tensor *t = fv_params_find(fv_model_params(model), name);
    CHECK(t != NULL);
    return t ? tensor_floats(ctx, t) : NULL;
}

enum { D = 16, N = FV_STORY_SENTENCES };

/* y = W x (+ b) */
static void apply(const float *w, const float *b, const double *x, int out, double *y)
{
    for (int i = 0; i < out; i++) {
        y[i] = b ? (double)b[i] : 0;
        for (int k = 0; k < D; k++)
            y[i] += (double)w[i * D + k] * x[k];
    }
}

static void encode_plain(const float *words, const int64_t *tokens, double *x)
{
    for (int k = 0; k < D; k++) {
        x[k] = 0;
        for (int j = 0; j < FV_STORY_WORDS; j++) {
            const double place = (j + 1) / 8.0, unit = (k + 1) / (double)D;
            if (tokens[j])
                x[k] += ((1 - place) - unit * (1 - 2 * place)) * (double)words[tokens[j] * D + k];
        }
    }
}

typedef struct captured {
    float weights[4][FV_STORY_QUESTIONS * N];
    int sites;
} captured;

static fv_status take(void *user, fv_ctx *in, const fv_site_weights *site)
{
    captured *c = user;
    const fv_tensor *w = site->captured.weights;
    c->sites++;
    return fv_tensor_read(in, w, c->weights[site->layer],
                          (size_t)fv_tensor_count(w) * sizeof(float));
}

/* All of a memory network with two hops, row by row in doubles. */
static void check_plain(fv_model *model, const fv_story_row *row, bool adjacent, const captured *c,
                        const float *logits)
{
    float *words = weight(model, "words.weight"), *time = weight(model, "time.weight"),
          *answers = weight(model, "answers.weight"), *gate = weight(model, "gate.weight"),
          *gate_b = weight(model, "gate.bias"), *previous = weight(model, "previous.weight"),
          *map[3] = {weight(model, "hop.0.weight"), weight(model, "hop.1.weight"),
                     adjacent ? weight(model, "hop.2.weight") : NULL},
          *transfer = adjacent ? NULL : weight(model, "transfer.weight"),
          *classes = weight(model, "classes.weight"), *classes_b = weight(model, "classes.bias");
    const int n = (int)row->sentences;
    static double m[N][D];
    for (int i = 0; i < n; i++) {
        encode_plain(words, row->story[i], m[i]);
        for (int k = 0; k < D; k++)
            m[i][k] += (double)time[(n - 1 - i) * D + k];
    }
    for (int q = 0; q < row->questions; q++) {
        double x[D], before[D] = {0}, g[D], carried[D], u[D], y[16];
        encode_plain(words, row->question[q], x);
        if (q > 0) encode_plain(words, row->question[q - 1], before);
        apply(gate, gate_b, x, D, g);
        apply(previous, NULL, before, D, carried);
        const int64_t answered = row->previous[q] < 0 ? fv_story_answers() : row->previous[q];
        for (int k = 0; k < D; k++)
            u[k] = x[k] + (carried[k] + (double)answers[answered * D + k]) / (1 + exp(-g[k]));
        for (int hop = 0; hop < 2; hop++) {
            const float *a = map[adjacent ? hop : 0], *v = map[adjacent ? hop + 1 : 1];
            double p[N], total = 0, next[D];
            if (adjacent)
                memcpy(next, u, sizeof next);
            else
                apply(transfer, NULL, u, D, next);
            for (int i = 0; i < n; i++) {
                double key[D], score = 0;
                apply(a, NULL, m[i], D, key);
                for (int k = 0; k < D; k++)
                    score += u[k] * key[k] / sqrt((double)D);
                total += p[i] = exp(score);
            }
            for (int i = 0; i < n; i++) {
                double value[D];
                apply(v, NULL, m[i], D, value);
                CHECK_NEAR((double)c->weights[hop][q * n + i], p[i] / total, 1e-5);
                for (int k = 0; k < D; k++)
                    next[k] += p[i] / total * value[k];
            }
            memcpy(u, next, sizeof u);
        }
        apply(classes, classes_b, u, fv_story_answers(), y);
        for (int k = 0; k < fv_story_answers(); k++)
            CHECK_NEAR((double)logits[q * fv_story_answers() + k], y[k], 1e-4);
    }
    float *all[] = {words,  time,   answers, gate,     gate_b,  previous,
                    map[0], map[1], map[2],  transfer, classes, classes_b};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void hops_follow_the_formula(void)
{
    for (int adjacent = 0; adjacent < 2; adjacent++) {
        fv_recipe *recipe = NULL;
        fv_run *run = NULL;
        fv_model *model =
            small_model(ctx, &recipe, &run, folder_sub(adjacent ? "adjacent" : "layerwise"),
                        (run_setting[]){{"data.facts", "3"},
                                        {"reader.layers", "0"},
                                        {"reader.hops", "2"},
                                        {"reader.weights", adjacent ? "adjacent" : "layerwise"},
                                        {0}});
        fv_story_batch b;
        int64_t words[FV_STORY_VOCABULARY];
        fv_site hops[2];
        run_check_sites(model, 2);
        fv_model_kind_of(model)->attention_sites(fv_model_self(model), hops, 2);
        CHECK(hops[0].heads == 1 && hops[1].heads == 1);
        CHECK_OK(ctx, fv_story_batch_create(ctx, 1, &b));
        CHECK_OK(ctx, fv_story_tokens(ctx, fv_model_spec(model)->source, words));
        for (uint64_t i = 0; i < 5; i++) {
            static captured c;
            fv_story s;
            c.sites = 0;
            fv_story_make(3, FV_MADE_TEST, i, &s);
            b.count = 0;
            fv_story_batch_add(&b, words, &s);
            const fv_batch batch = fv_story_batch_of(&b, 0, 1);
            const fv_capture what = {.options = {.weights = true}, .on_weights = take, .user = &c};
            const fv_pass pass = {.capture = &what};
            fv_scope_begin(ctx);
            float *logits = tensor_floats(ctx, fv_model_classify(model, &batch, &pass));
            CHECK_EQ(c.sites, 2);
            if (logits) check_plain(model, &b.row[0], adjacent, &c, logits);
            free(logits);
            fv_scope_end(ctx);
        }
        fv_story_batch_free(&b);
        fv_run_destroy(&run);
        fv_recipe_destroy(&recipe);
    }
}

/* ---- what a block sees ---------------------------------------------------------------------- */

enum { HEADS = 6 };

typedef struct seen {
    float map[HEADS * N * N]; /* of the first block */
    int64_t size;
} seen;

static fv_status take_map(void *user, fv_ctx *in, const fv_site_weights *site)
{
    seen *s = user;
    const fv_tensor *w = site->captured.weights;
    s->size = fv_tensor_size(w, 3);
    return fv_tensor_read(in, w, s->map, (size_t)fv_tensor_count(w) * sizeof(float));
}

/* The weights of the first block's heads for a story of the test part. */
static void look_at_block(const char *folder, const char *visible, seen *out, int64_t *sentences)
{
    fv_recipe *recipe = NULL;
    fv_run *run = NULL;
    fv_model *model = small_model(ctx, &recipe, &run, folder_sub(folder),
                                  (run_setting[]){{"reader.visible", visible},
                                                  {"data.facts", "3"},
                                                  {"reader.width", "24"},
                                                  {"reader.heads", "6"},
                                                  {0}});
    fv_story_batch b;
    int64_t words[FV_STORY_VOCABULARY];
    fv_story s;
    CHECK_OK(ctx, fv_story_batch_create(ctx, 1, &b));
    CHECK_OK(ctx, fv_story_tokens(ctx, fv_model_spec(model)->source, words));
    fv_story_make(3, FV_MADE_TEST, 5, &s);
    fv_story_batch_add(&b, words, &s);
    const fv_batch batch = fv_story_batch_of(&b, 0, 1);
    const fv_capture what = {.sites = "encoder.0.self",
                             .options = {.weights = true},
                             .on_weights = take_map,
                             .user = out};
    const fv_pass pass = {.capture = &what};
    fv_scope_begin(ctx);
    CHECK(fv_model_classify(model, &batch, &pass) != NULL);
    CHECK_EQ(fv_ctx_error(ctx), FV_OK);
    fv_scope_end(ctx);
    *sentences = s.sentence_count;
    fv_story_batch_free(&b);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
}

/* Models of one seed have the same parameters, so the weights differ by exp(bias) and the sum. */
static void blocks_see_what_the_recipe_says(void)
{
    static const double slope[2][HEADS] = {{1, 0.5, 0.25, 0.125, 1, 0.5},
                                           {1, 1, 0.5, 0.5, 0.25, 0.25}};
    static const char *const names[] = {"past", "directions"};
    static seen all, some;
    for (int kind = 0; kind < 2; kind++) {
        int64_t n = 0, again = 0;
        look_at_block(kind ? "all-2" : "all-1", "all", &all, &n);
        look_at_block(names[kind], names[kind], &some, &again);
        CHECK(n == again && n > 20 && all.size == some.size);
        for (int64_t row = 0; row < HEADS * n; row++) {
            const int64_t h = row / n, i = row % n;
            const float *p = all.map + (h * all.size + i) * all.size;
            const float *found = some.map + (h * all.size + i) * all.size;
            double expected[N], total = 0;
            for (int64_t j = 0; j < n; j++) {
                const double away = (double)(kind == 1 && h % 2 ? j - i : i - j);
                expected[j] = away < 0 ? 0 : (double)p[j] * exp(-away * slope[kind][h]);
                total += expected[j];
            }
            for (int64_t j = 0; j < n; j++)
                CHECK_NEAR((double)found[j], expected[j] / total, 2e-6);
        }
    }
}

/* Shorter stories beside a longer one have the bits that they have alone. */
static void compare_rows(const char *folder, const char *visible)
{
    fv_recipe *recipe = NULL;
    fv_run *run = NULL;
    fv_model *model =
        small_model(ctx, &recipe, &run, folder_sub(folder),
                    (run_setting[]){{"data.facts", "2"}, {"reader.visible", visible}, {0}});
    fv_story_batch b;
    int64_t words[FV_STORY_VOCABULARY], most = 0;
    CHECK_OK(ctx, fv_story_batch_create(ctx, 6, &b));
    CHECK_OK(ctx, fv_story_tokens(ctx, fv_model_spec(model)->source, words));
    for (uint64_t i = 0; i < 6; i++) {
        fv_story s;
        fv_story_make(2, FV_MADE_TEST, i, &s);
        fv_story_batch_add(&b, words, &s);
        if (s.question_count > most) most = s.question_count;
    }
    const int answers = fv_story_answers();
    const fv_batch batch = fv_story_batch_of(&b, 0, 6);
    fv_scope_begin(ctx);
    float *all = tensor_floats(ctx, fv_model_classify(model, &batch, NULL));
    for (int i = 0; all && i < 6; i++) {
        const fv_batch one = fv_story_batch_of(&b, i, 1);
        float *alone = tensor_floats(ctx, fv_model_classify(model, &one, NULL));
        CHECK(alone && memcmp(alone, all + i * most * answers,
                              (size_t)(b.row[i].questions * answers) * sizeof *alone) == 0);
        free(alone);
    }
    free(all);
    fv_scope_end(ctx);
    fv_story_batch_free(&b);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
}

static void rows_do_not_depend_on_the_batch(void)
{
    compare_rows("rows-all", "all");
    compare_rows("rows-past", "past");
    compare_rows("rows-directions", "directions");
}

static double loss_of(fv_model *model, const fv_batch *batch)
{
    double value = NAN;
    fv_scope_begin(ctx);
    CHECK_OK(ctx, fv_tensor_item(
                      ctx, fv_model_kind_of(model)->loss(ctx, fv_model_self(model), batch, NULL),
                      &value));
    fv_scope_end(ctx);
    return value;
}

/* Losses of single stories add up to that of the batch, supports and summaries included. */
static void losses_add_up(void)
{
    for (int with = 0; with < 2; with++) {
        fv_recipe *recipe = NULL;
        fv_run *run = NULL;
        fv_model *model = small_model(ctx, &recipe, &run, folder_sub(with ? "with" : "without"),
                                      (run_setting[]){{"data.facts", "2"},
                                                      {"reader.visible", with ? "past" : "all"},
                                                      {"reader.support", with ? "1" : "0"},
                                                      {"reader.summary", with ? "1" : "0"},
                                                      {0}});
        fv_story_batch b;
        int64_t words[FV_STORY_VOCABULARY];
        double sum = 0;
        CHECK_OK(ctx, fv_story_batch_create(ctx, 4, &b));
        CHECK_OK(ctx, fv_story_tokens(ctx, fv_model_spec(model)->source, words));
        for (uint64_t i = 0; i < 4; i++) {
            fv_story s;
            fv_story_make(2, FV_MADE_VALID, i, &s);
            fv_story_batch_add(&b, words, &s);
        }
        for (int i = 0; i < 4; i++) {
            const fv_batch one = fv_story_batch_of(&b, i, 1);
            sum += loss_of(model, &one);
        }
        const fv_batch all = fv_story_batch_of(&b, 0, 4);
        CHECK_NEAR(loss_of(model, &all), sum, 1e-4 * sum);
        fv_story_batch_free(&b);
        fv_run_destroy(&run);
        fv_recipe_destroy(&recipe);
    }
}

/* ---- runs ----------------------------------------------------------------------------------- */

static const run_setting learning[] = {{"train.task", "stories"},
                                       {"data.facts", "1"},
                                       {"data.train_count", "2000"},
                                       {"data.valid_count", "150"},
                                       {"train.batch_examples", "32"},
                                       {"train.optimizer", "adam"},
                                       {"train.lr", "0.005"},
                                       {"train.clip", "1"},
                                       {"train.steps", "300"},
                                       {"train.eval_every", "300"},
                                       {"reader.width", "32"},
                                       {"reader.hops", "1"},
                                       {"reader.summary", "1"},
                                       {"reader.layers", "1"},
                                       {"reader.visible", "directions"},
                                       {0}};

static void one_fact_is_learned_in_seconds(void)
{
    fv_ctx *in = run_context(1, 1);
    fv_recipe *recipe = run_recipe(in, learning);
    run_watch w = {0};
    CHECK_OK(in, run_text(in, recipe, folder_sub("learned"), &w));
    CHECK(w.count >= 3);
    CHECK_STR(w.last[0].name, "accuracy");
    CHECK_STR(w.last[1].name, "follow_up");
    if (!(w.last[0].value > 0.85 && w.last[1].value > 0.8 && w.last[2].value > 0.7))
        test_failed(__FILE__, __LINE__, "accuracy %.3f, follow-ups %.3f, summaries %.3f",
                    w.last[0].value, w.last[1].value, w.last[2].value);
}

static void resumed_runs_have_the_same_bits(void)
{
    char a[512], b[512];
    snprintf(a, sizeof a, "%s", folder_sub("whole"));
    snprintf(b, sizeof b, "%s", folder_sub("parts"));
    for (int part = 0; part < 3; part++) {
        fv_ctx *in = run_context(1, 1);
        fv_recipe *recipe = run_recipe(in, learning);
        run_set(in, recipe,
                (run_setting[]){{"train.steps", "12"},
                                {"train.eval_every", "6"},
                                {"data.train_count", "200"}, /* the second part begins in epoch 2 */
                                {"train.accumulate", "2"},
                                {"data.valid_count", "20"},
                                {"reader.dropout", "0.2"},
                                {0}});
        run_watch w = {.stop = part == 1 ? 7 : 0};
        const fv_status s = run_text(in, recipe, part == 0 ? a : b, &w);
        CHECK_EQ(s, part == 1 ? FV_ERR_CANCELLED : FV_OK);
    }
    CHECK(file_same_in(a, b, "model.safetensors"));
}

/* ---- reading -------------------------------------------------------------------------------- */

static void texts_are_read(void)
{
    fv_model *model = NULL;
    fv_reading *r = NULL, *upper = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("learned"), &model));
    if (!model) return;
    CHECK(fv_model_is_reader(model));
    CHECK_OK(ctx, fv_read_story(model,
                                "mary went to the garden. john moved to the office. where is mary? "
                                "and john?",
                                &r));
    CHECK(r && r->sentence_count == 2 && r->question_count == 2 && r->hops == 1 && r->summary);
    if (r) {
        CHECK_STR(r->question[0].answer, "garden");
        CHECK_STR(r->question[1].answer, "office");
        CHECK_STR(r->question[1].text, "and john?");
        CHECK_STR(r->sentence[1], "john moved to the office.");
        for (int q = 0; q < 2; q++)
            CHECK_NEAR((double)(r->question[q].weights[0] + r->question[q].weights[1]), 1, 1e-5);
        CHECK(r->question[0].expected == NULL && r->question[0].support[0] == -1);
    }
    CHECK_OK(ctx, fv_read_story(model,
                                "Mary WENT to the garden . John moved, to the office .\nWhere is "
                                "Mary ? And John ?",
                                &upper));
    if (r && upper) CHECK_NEAR(upper->question[1].probability, r->question[1].probability, 0);
    fv_reading_free(&r);
    fv_reading_free(&upper);
    CHECK_OK(ctx, fv_read_example(model, 3, &r));
    if (r) CHECK(r->question[0].expected && r->question[0].support[0] >= 0);
    fv_reading_free(&r);
    fv_model_close(&model);
}

static void unreadable_texts_are_named(void)
{
    static const struct {
        const char *text, *message;
        fv_status status;
    } bad[] = {
        {"", "and then a question", FV_ERR_ARGUMENT},
        {"mary went to the garden.", "and then a question", FV_ERR_ARGUMENT},
        {"where is mary?", "expected sentences", FV_ERR_ARGUMENT},
        {"mary went to the moon. where is mary?", "has not learned the word 'moon'",
         FV_ERR_ARGUMENT},
        {"mary went to the garden. where is mary", "ends without", FV_ERR_ARGUMENT},
        {". where is mary?", "without words", FV_ERR_ARGUMENT},
        {"mary went to the garden the garden the. where is mary?", "at most 7 words",
         FV_ERR_ARGUMENT},
    };
    fv_model *model = NULL;
    fv_reading *r = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("learned"), &model));
    if (!model) return;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(fv_read_story(model, bad[i].text, &r), bad[i].status);
        CHECK(r == NULL);
        if (!strstr(fv_ctx_message(ctx), bad[i].message))
            test_failed(__FILE__, __LINE__, "%s: %s", bad[i].text, fv_ctx_message(ctx));
    }
    static char many[61 * 32 + 20];
    for (int i = 0; i < 61; i++)
        strcat(many, "mary went to the garden. ");
    strcat(many, "where is mary?");
    CHECK_EQ(fv_read_story(model, many, &r), FV_ERR_LIMIT);
    CHECK_EQ(fv_read_example(model, (uint64_t)1 << 40, &r), FV_ERR_ARGUMENT);
    fv_model_close(&model);
}

static fv_status open_and_read(fv_ctx *in, const void *folder)
{
    fv_model *model = NULL;
    fv_reading *r = NULL;
    fv_status s = fv_model_open(in, folder, &model);
    if (s == FV_OK) s = fv_read_example(model, 1, &r);
    CHECK_EQ(s == FV_OK, r != NULL);
    fv_reading_free(&r);
    fv_model_close(&model);
    return s;
}

static void failing_memory_is_reported(void)
{
    CHECK(failing_everywhere(open_and_read, folder_path("learned"), 40) > 50);
}

static void other_models_are_refused(void)
{
    fv_ctx *in = run_context(1, 1);
    fv_recipe *recipe = run_recipe(in, (run_setting[]){{"train.task", "stories"},
                                                       {"model.kind", "walker"},
                                                       {"data.train_count", "50"},
                                                       {0}});
    fv_run *run = NULL;
    CHECK_EQ(fv_run_create(in, recipe, folder_sub("other"), NULL, NULL, &run), FV_ERR_ARGUMENT);
    CHECK(run == NULL);
    run_set(in, recipe, (run_setting[]){{"model.kind", "auto"}, {"reader.heads", "5"}, {0}});
    CHECK_EQ(fv_run_create(in, recipe, folder_path("other"), NULL, NULL, &run), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(in), "reader.heads 5 does not divide") != NULL);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&in);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(hops_follow_the_formula);
    RUN(blocks_see_what_the_recipe_says);
    RUN(rows_do_not_depend_on_the_batch);
    RUN(losses_add_up);
    RUN(one_fact_is_learned_in_seconds);
    RUN(resumed_runs_have_the_same_bits);
    RUN(texts_are_read);
    RUN(unreadable_texts_are_named);
    RUN(failing_memory_is_reported);
    RUN(other_models_are_refused);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
