/*
 * The questions task: it learns, its metrics are those of a second count, pictures are read once
 * for all of their questions, unknown words have a meaning, and a stopped run resumes with the same
 * bits.
 */
#include "base/ctx.h"
#include "data/media.h"
#include "fovea/encode.h"
#include "fovea/ops.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/tasks/questions.h"

enum { SIDE = 8, TRAIN = 60, TEST = 12, COLOURS = 3 };

static const char *const colours[COLOURS] = {"red", "green", "blue"};

static void write_named(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[600];
    snprintf(path, sizeof path, "%.400s/%s", folder, name);
    file_write(path, data, bytes);
}

/* Pictures of one colour, with a little noise, and questions about it. */
static void write_half(const char *folder, const char *part, int n)
{
    static unsigned char data[20 + TRAIN * SIDE * SIDE * 3];
    static char rows[TRAIN * 200];
    char name[64];
    const unsigned char head[20] = {0, 0, 8,    4, 0, 0, 0, (unsigned char)n, 0, 0, 0, SIDE, 0,
                                    0, 0, SIDE, 0, 0, 0, 3};
    memcpy(data, head, sizeof head);
    size_t used = (size_t)snprintf(rows, sizeof rows, "image\tquestion\tanswer\n");
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < SIDE * SIDE * 3; k++)
            data[20 + i * SIDE * SIDE * 3 + k] =
                (unsigned char)((k % 3 == i % COLOURS ? 190 : 20) + (i * 7 + k * 13) % 40);
        used += (size_t)snprintf(rows + used, sizeof rows - used, "%d\twhat color is it?\t%s\n", i,
                                 colours[i % COLOURS]);
        for (int c = 0; c < COLOURS; c++)
            used += (size_t)snprintf(rows + used, sizeof rows - used, "%d\tis it %s?\t%s\n", i,
                                     colours[c], c == i % COLOURS ? "yes" : "no");
    }
    snprintf(name, sizeof name, "%s-images-idx4-ubyte", part);
    write_named(folder, name, data, 20 + (size_t)n * SIDE * SIDE * 3);
    snprintf(name, sizeof name, "%s-questions.tsv", part);
    write_named(folder, name, rows, used);
}

static void write_set(const char *folder)
{
    write_half(folder, "train", TRAIN);
    write_half(folder, "test", TEST);
    write_named(folder, "answers.txt", "red\ngreen\nblue\nyes\nno\n", 22);
}

#define SMALL                                                                                      \
    {"train.task", "questions"}, {"tokens.kind", "word"}, {"tokens.min_count", "1"},               \
        {"train.optimizer", "adamw"}, {"train.lr", "0.01"}, {"train.schedule", "constant"},        \
        {"train.warmup", "0"}, {"train.save_every", "5"}, {"eval.samples", "2"},                   \
        {"vqa.channels", "6"}, {"vqa.width", "16"}, {"vqa.embedding", "8"}, {"vqa.hidden", "16"},  \
        {"vqa.stages", "2"}, {"vqa.halvings", "1"},                                                \
    {                                                                                              \
        "vqa.dropout", "0"                                                                         \
    }

static fv_status train(const run_setting *settings, const run_setting *more, const char *data,
                       const char *folder, int threads, run_watch *watch)
{
    const run_setting from[] = {
        {"data.media", data ? "easy_vqa" : "clevr"}, {"data.folder", data ? data : ""}, {0}};
    fv_ctx *ctx = run_context(threads, 3);
    fv_recipe *recipe = run_recipe(ctx, settings);
    run_set(ctx, recipe, from);
    if (more) run_set(ctx, recipe, more);
    return run_text(ctx, recipe, folder, watch);
}

static const run_setting easy[] = {
    SMALL, {"train.steps", "60"}, {"train.eval_every", "60"}, {"train.batch_examples", "40"}, {0}};

/* ---- learning ------------------------------------------------------------------------------- */

static void forms_learn(void)
{
    static const run_setting forms[][2] = {{{"vqa.form", "words"}, {0}},
                                           {{"vqa.form", "maps"}, {0}},
                                           {{"vqa.form", "pool"}, {0}},
                                           {{"vqa.form", "self"}, {0}}};
    for (int i = 0; i < 4; i++) {
        run_watch watch = {0};
        folder_make();
        char data[512];
        snprintf(data, sizeof data, "%s", folder_sub("data"));
        write_set(data);
        CHECK_EQ(train(easy, forms[i], data, folder_sub("run"), 1, &watch), FV_OK);
        CHECK_STR(watch.last[0].name, "accuracy");
        CHECK_STR(watch.last[1].name, "loss"); /* the set has no groups */
        if (watch.last[0].value < 1)
            test_failed(__FILE__, __LINE__, "%s: accuracy %.3f", forms[i][0].value,
                        watch.last[0].value);
        folder_remove();
    }
}

static void stopped_runs_resume_with_the_same_bits(void)
{
    static const run_setting few[] = {{"train.steps", "12"},         {"train.eval_every", "6"},
                                      {"train.accumulate", "2"},     {"data.shift", "1"},
                                      {"questions.unknown", "0.3"},  {"vqa.dropout", "0.3"},
                                      {"train.batch_examples", "9"}, {0}};
    run_watch once = {0}, first = {.stop = 7}, second = {0};
    folder_make();
    char data[512], whole[512], parts[512];
    snprintf(data, sizeof data, "%s", folder_sub("data"));
    snprintf(whole, sizeof whole, "%s", folder_sub("whole"));
    snprintf(parts, sizeof parts, "%s", folder_sub("parts"));
    write_set(data);
    CHECK_EQ(train(easy, few, data, whole, 2, &once), FV_OK);
    CHECK_EQ(train(easy, few, data, parts, 1, &first), FV_ERR_CANCELLED);
    CHECK_EQ(train(easy, few, data, parts, 2, &second), FV_OK);
    CHECK(file_same_in(whole, parts, "model.safetensors"));
    folder_remove();
}

/* ---- metrics -------------------------------------------------------------------------------- */

static bool is_right(fv_ctx *ctx, fv_model *model, const fv_media_facts *facts,
                     const fv_media_example *e)
{
    fv_question_words w;
    fv_batch batch;
    int64_t best = -1;
    const void *pixels = e->values, *ids = w.id;
    CHECK_OK(ctx, fv_question_read(model, e->question, &w));
    fv_batch_init(&batch, 1);
    fv_batch_add(&batch, (fv_field){.name = "pixels",
                                    .dtype = FV_F32,
                                    .rank = 3,
                                    .shape = {facts->shape[0], facts->shape[1], facts->shape[2]},
                                    .row = &pixels});
    fv_batch_add(&batch,
                 (fv_field){.name = "question", .dtype = FV_I64, .row = &ids, .length = &w.count});
    fv_tensor *logits = fv_model_classify(model, &batch, NULL);
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_argmax(ctx, logits, -1, false), &best, sizeof best));
    return best == e->label;
}

/* Accuracy of all, relational and other questions, one example at a time. */
static void metrics_agree_with_a_second_count(void)
{
    static const run_setting scenes[] = {SMALL,
                                         {"data.size", "32"},
                                         {"data.train_count", "240"},
                                         {"data.valid_count", "130"}, /* cuts a scene */
                                         {"data.test_count", "24"},
                                         {"vqa.halvings", "2"},
                                         {"train.steps", "20"},
                                         {"train.eval_every", "20"},
                                         {"train.batch_examples", "50"}, /* and so does a batch */
                                         {0}};
    run_watch watch = {0};
    folder_make();
    CHECK_EQ(train(scenes, NULL, NULL, folder_sub("run"), 1, &watch), FV_OK);
    fv_ctx *ctx = run_context(1, 3);
    fv_model *model = NULL;
    fv_media *set = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("run"), &model));
    fv_recipe *recipe = run_recipe(ctx, scenes);
    const fv_media_config cfg = {.name = "clevr",
                                 .size = 32,
                                 .seed = (uint64_t)fv_recipe_int(recipe, "train.seed"),
                                 .count = {240, 130, 24}};
    CHECK_OK(ctx, fv_media_open(ctx, &cfg, &set));
    double right[2] = {0}, count[2] = {0};
    for (int64_t i = 0; i < 130; i++) {
        fv_media_example e;
        CHECK_OK(ctx, fv_media_get(set, FV_MEDIA_VALID, i, NULL, &e));
        right[e.group] += is_right(ctx, model, fv_media_facts_of(set), &e);
        count[e.group]++;
    }
    CHECK_STR(watch.last[0].name, "accuracy");
    CHECK_STR(watch.last[1].name, "non_relational");
    CHECK_STR(watch.last[2].name, "relational");
    CHECK_NEAR(watch.last[0].value, (right[0] + right[1]) / 130, 1e-9);
    CHECK_NEAR(watch.last[1].value, right[0] / count[0], 1e-9);
    CHECK_NEAR(watch.last[2].value, right[1] / count[1], 1e-9);
    fv_media_close(&set);
    fv_recipe_destroy(&recipe);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
    folder_remove();
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void rows_of_one_picture_have_one_address(void)
{
    enum { PICTURES = 3, QUESTIONS = 200 };
    fv_ctx *ctx = run_context(1, 3);
    const fv_media_facts facts = {.field = "pixels", .rank = 3, .shape = {1, 2, 2}, .longest = 1};
    fv_media_rows pictures = {.ctx = ctx, .facts = &facts};
    fv_question_rows rows = {.ctx = ctx};
    float values[4];
    for (int i = 0; i < PICTURES; i++) {
        for (int k = 0; k < 4; k++)
            values[k] = (float)i;
        CHECK_OK(ctx, fv_media_rows_add(&pictures,
                                        &(fv_media_example){.values = values, .length = 1}, i));
    }
    for (int64_t i = 0; i < QUESTIONS; i++) { /* as many as make all lists grow */
        const int64_t token[3] = {i, i + 1, i + 2};
        CHECK_OK(ctx,
                 fv_question_rows_add(&rows, i % PICTURES, i * 2, (int)(i % 2), 1 + i % 3, token));
    }
    fv_media_rows_point(&pictures);
    fv_question_rows_point(&rows, &pictures);
    const fv_batch batch = fv_question_rows_batch(&rows, &pictures, 10, QUESTIONS - 10);
    const fv_field *pixels = fv_batch_find(&batch, "pixels"),
                   *label = fv_batch_find(&batch, "label");
    const fv_sequences asked = fv_batch_sequences(&batch, "question");
    CHECK_EQ(batch.rows, QUESTIONS - 10);
    for (int64_t i = 0; i < batch.rows; i++) {
        const int64_t n = i + 10;
        CHECK(pixels->row[i] == pictures.row[n % PICTURES]);
        CHECK(((const float *)pixels->row[i])[3] == (float)(n % PICTURES));
        CHECK_EQ(*(const int64_t *)label->row[i], n * 2);
        CHECK_EQ(asked.length[i], 1 + n % 3);
        for (int64_t k = 0; k < asked.length[i]; k++)
            CHECK_EQ(asked.tokens[i][k], n + k);
        CHECK_EQ(rows.group[n], n % 2);
    }
    fv_question_rows_free(&rows);
    fv_media_task task = {.ctx = ctx, .rows = pictures};
    fv_media_task_free(&task);
    fv_ctx_destroy(&ctx);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void refuses(const char *task, const char *media, const char *message)
{
    const run_setting settings[] = {
        {"train.task", task}, {"data.media", media}, {"data.train_count", "24"}, {0}};
    fv_ctx *ctx = run_context(1, 3);
    fv_recipe *recipe = run_recipe(ctx, settings);
    fv_run *run = NULL;
    CHECK_EQ(fv_run_create(ctx, recipe, folder_sub(task), NULL, NULL, &run), FV_ERR_ARGUMENT);
    if (!strstr(fv_ctx_message(ctx), message))
        test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", fv_ctx_message(ctx), message);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

static void sets_and_tasks_must_fit(void)
{
    folder_make();
    refuses("questions", "shapes", "data.media: shapes has no questions");
    refuses("media-classes", "clevr", "clevr has questions: expected train.task questions");
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(forms_learn);
    RUN(stopped_runs_resume_with_the_same_bits);
    RUN(metrics_agree_with_a_second_count);
    RUN(rows_of_one_picture_have_one_address);
    RUN(sets_and_tasks_must_fit);
    return TEST_END();
}
