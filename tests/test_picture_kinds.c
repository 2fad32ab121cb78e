/*
 * Kinds that classify pictures (cnn, vit) and the task media-classes: they learn, attention is a
 * distribution over the grid, folders open as they were saved, running statistics move once a step,
 * a stopped run resumes with the same bits, settings that do not fit are refused, memory may run
 * out.
 */
#include "base/ctx.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "models/batch_norms.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"

#define SHAPES                                                                                     \
    {"train.task", "media-classes"}, {"data.media", "shapes"}, {"data.train_count", "400"},        \
        {"data.valid_count", "80"}, {"data.test_count", "60"}, {"data.size", "16"},                \
        {"train.batch_examples", "20"}, {"train.optimizer", "adamw"}, {"train.lr", "0.005"},       \
        {"train.schedule", "constant"}, {"train.warmup", "0"}, {"eval.samples", "2"},              \
        {"train.save_every", "5"}, {"train.steps", "60"},                                          \
    {                                                                                              \
        "train.eval_every", "60"                                                                   \
    }

static const run_setting cnn[] = {
    SHAPES, {"model.kind", "cnn"}, {"cnn.channels", "4"}, {"cnn.stages", "3"}, {"data.shift", "1"},
    {0}};
static const run_setting vit[] = {
    SHAPES, {"model.kind", "vit"}, {"vit.width", "16"}, {"vit.layers", "2"}, {"vit.patch", "4"},
    {0}};
static const run_setting longer[] = {{"train.steps", "350"},       {"train.eval_every", "350"},
                                     {"train.lr", "0.002"},        {"vit.width", "32"},
                                     {"data.train_count", "2000"}, {0}};
static const run_setting pixels[] = {SHAPES,
                                     {"model.kind", "vit"},
                                     {"vit.width", "8"},
                                     {"vit.layers", "1"},
                                     {"vit.heads", "2"},
                                     {"vit.patch", "1"},
                                     {"vit.pool", "2"},
                                     {"vit.class_token", "false"},
                                     {0}};

/* Trains in a folder; returns the run's status. */
static fv_status train(const run_setting *settings, const run_setting *more, const char *folder,
                       int threads, run_watch *watch)
{
    fv_ctx *ctx = run_context(threads, 3);
    fv_recipe *recipe = run_recipe(ctx, settings);
    if (more) run_set(ctx, recipe, more);
    return run_text(ctx, recipe, folder, watch);
}

/* ---- learning ------------------------------------------------------------------------------- */

static void they_learn(void)
{
    static const struct {
        const run_setting *settings, *more;
        double min_accuracy;
    } cases[] = {{cnn, NULL, 0.75}, {vit, longer, 0.5}};
    for (int i = 0; i < 2; i++) {
        run_watch watch = {0};
        folder_make();
        CHECK_EQ(train(cases[i].settings, cases[i].more, folder_sub("run"), 2, &watch), FV_OK);
        CHECK_STR(watch.last[0].name, "accuracy");
        if (watch.last[0].value < cases[i].min_accuracy)
            test_failed(__FILE__, __LINE__, "accuracy %.3f of %.3f", watch.last[0].value,
                        cases[i].min_accuracy);
        folder_remove();
    }
}

static void stopped_runs_resume_with_the_same_bits(void)
{
    static const run_setting few[] = {
        {"train.steps", "12"}, {"train.eval_every", "6"}, {"train.accumulate", "2"}, {0}};
    const run_setting *const all[] = {cnn, vit};
    for (int i = 0; i < 2; i++) {
        run_watch once = {0}, first = {.stop = 7}, second = {0};
        folder_make();
        char whole[512], parts[512];
        snprintf(whole, sizeof whole, "%s", folder_sub("whole"));
        snprintf(parts, sizeof parts, "%s", folder_sub("parts"));
        CHECK_EQ(train(all[i], few, whole, 2, &once), FV_OK);
        CHECK_EQ(train(all[i], few, parts, 1, &first), FV_ERR_CANCELLED);
        CHECK_EQ(train(all[i], few, parts, 2, &second), FV_OK);
        CHECK(file_same_in(whole, parts, "model.safetensors"));
        folder_remove();
    }
}

/* ---- one model ------------------------------------------------------------------------------ */

enum { SIDE = 16, ROWS = 3, CLASSES = 6 };

static const char *const labels[CLASSES] = {"a", "b", "c", "d", "e", "f"};

static fv_data_spec spec_of(int64_t side)
{
    fv_data_spec spec = {.ability = FV_CAN_CLASSIFY, .labels = labels, .label_count = CLASSES};
    fv_data_spec_set(&spec, "channels", 1);
    fv_data_spec_set(&spec, "height", side);
    fv_data_spec_set(&spec, "width", side);
    return spec;
}

static float pictures[ROWS][SIDE * SIDE];
static const int64_t classes[ROWS] = {2, 0, 5};
static const void *const picture_rows[ROWS] = {pictures[0], pictures[1], pictures[2]},
                         *const class_rows[ROWS] = {&classes[0], &classes[1], &classes[2]};

static fv_batch batch_of(void)
{
    fv_batch batch;
    for (int i = 0; i < ROWS * SIDE * SIDE; i++)
        pictures[i / (SIDE * SIDE)][i % (SIDE * SIDE)] = (float)(i * 7919 % 101) / 100;
    fv_batch_init(&batch, ROWS);
    fv_batch_add(&batch, (fv_field){.name = "pixels",
                                    .dtype = FV_F32,
                                    .rank = 3,
                                    .shape = {1, SIDE, SIDE},
                                    .row = picture_rows});
    fv_batch_add(&batch, (fv_field){.name = "label", .dtype = FV_I64, .row = class_rows});
    return batch;
}

static fv_model *make_model(fv_ctx *ctx, const run_setting *settings)
{
    fv_recipe *recipe = run_recipe(ctx, settings);
    const fv_data_spec spec = spec_of(SIDE);
    fv_model *model = NULL;
    CHECK_OK(ctx,
             fv_model_create(ctx, fv_recipe_text(recipe, "model.kind"), recipe, &spec, &model));
    fv_recipe_destroy(&recipe);
    return model;
}

static fv_status check_rows(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    const fv_site *expected = user;
    const int64_t n = expected->rows * expected->cols + expected->before;
    CHECK_STR(site->name, expected->name);
    CHECK(site->captured.heads == expected->heads && site->captured.n_q == n &&
          site->captured.n_k == n);
    static float sums[4096];
    fv_tensor *sum = fv_sum(ctx, site->captured.weights, 1, (int[]){-1}, false);
    const int64_t count = fv_tensor_count(sum);
    CHECK_EQ(count, ROWS * expected->heads * n);
    CHECK_OK(ctx, fv_tensor_read(ctx, sum, sums, (size_t)count * sizeof *sums));
    for (int64_t i = 0; i < count; i++)
        CHECK_NEAR(sums[i], 1, 1e-5);
    return FV_OK;
}

static void attention_is_over_the_grid(void)
{
    const struct {
        const run_setting *settings;
        const char *site;
        int64_t count, rows, before;
    } cases[] = {{cnn, "grid.0.self", 1, 8, 0},
                 {vit, "encoder.1.self", 2, 4, 1},
                 {pixels, "encoder.0.self", 1, 8, 0}};
    for (int i = 0; i < 3; i++) {
        fv_ctx *ctx = run_context(1, 5);
        fv_model *model = make_model(ctx, cases[i].settings);
        fv_site sites[4];
        const fv_model_kind *kind = fv_model_kind_of(model);
        CHECK_EQ(kind->attention_sites(fv_model_self(model), sites, 4), cases[i].count);
        CHECK_EQ(kind->attention_sites(fv_model_self(model), NULL, 0), cases[i].count);
        run_check_sites(model, (int)cases[i].count);
        fv_site *last = &sites[cases[i].count - 1];
        CHECK_STR(last->name, cases[i].site);
        CHECK(last->rows == cases[i].rows && last->cols == cases[i].rows);
        CHECK(last->before == cases[i].before && last->keys == FV_AXIS_CELLS);
        const fv_capture capture = {.sites = cases[i].site,
                                    .options = {.weights = true},
                                    .on_weights = check_rows,
                                    .user = last};
        const fv_batch batch = batch_of();
        CHECK_OK(ctx, fv_model_capture_attention(model, &batch, &(fv_pass){.capture = &capture}));
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
    }
}

/* SAGAN's gamma starts at 0: the layer changes nothing at first. */
static void attention_starts_without_effect(void)
{
    static const run_setting without[] = {{"cnn.attend", "0"}, {0}};
    float logits[2][ROWS * CLASSES];
    for (int i = 0; i < 2; i++) {
        fv_ctx *ctx = run_context(1, 5);
        fv_recipe *recipe = run_recipe(ctx, cnn);
        if (i) run_set(ctx, recipe, without);
        const fv_data_spec spec = spec_of(SIDE);
        fv_model *model = NULL;
        CHECK_OK(ctx, fv_model_create(ctx, "cnn", recipe, &spec, &model));
        /* The same weights whatever was drawn before them. */
        fv_params *params = fv_model_params(model);
        for (int k = 0; k < fv_params_count(params); k++) {
            fv_tensor *t = fv_params_tensor(params, k);
            if (fv_tensor_rank(t) != 4 && fv_tensor_rank(t) != 2) continue;
            if (strncmp(fv_params_name(params, k), "grid", 4) == 0) continue;
            static float values[4096];
            const int64_t n = fv_tensor_count(t);
            for (int64_t v = 0; v < n; v++)
                values[v] = (float)(v * 31 % 17 - 8) / 40;
            CHECK_OK(ctx, fv_tensor_write(ctx, t, values, (size_t)n * sizeof *values));
        }
        const fv_batch batch = batch_of();
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_model_classify(model, &batch, NULL), logits[i],
                                     sizeof logits[i]));
        fv_model_close(&model);
        fv_recipe_destroy(&recipe);
        fv_ctx_destroy(&ctx);
    }
    CHECK(memcmp(logits[0], logits[1], sizeof logits[0]) == 0);
}

static void folders_open_as_they_were_saved(void)
{
    const run_setting *const all[] = {cnn, vit, pixels};
    for (int i = 0; i < 3; i++) {
        float before[ROWS * CLASSES], after[ROWS * CLASSES];
        folder_make();
        fv_ctx *ctx = run_context(1, 5);
        fv_model *model = make_model(ctx, all[i]), *copy = NULL;
        const fv_batch batch = batch_of();
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_model_classify(model, &batch, NULL), before,
                                     sizeof before));
        CHECK_OK(ctx, fv_model_save(model, folder_sub("model")));
        CHECK_OK(ctx, fv_model_open(ctx, folder_path("model"), &copy));
        CHECK_OK(ctx,
                 fv_tensor_read(ctx, fv_model_classify(copy, &batch, NULL), after, sizeof after));
        CHECK(memcmp(before, after, sizeof before) == 0);
        CHECK_STR(fv_model_spec(copy)->labels[2], "c");
        fv_model_close(&copy);
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
        folder_remove();
    }
}

/* Models see 2 (x - level): a level that moves with the pictures changes nothing. */
static void pictures_are_centred_by_their_level(void)
{
    float logits[2][ROWS * CLASSES];
    for (int i = 0; i < 2; i++) {
        fv_ctx *ctx = run_context(1, 5);
        fv_data_spec spec = spec_of(SIDE);
        fv_data_spec_set(&spec, "level", i ? 250 : 0);
        fv_model *model = NULL;
        CHECK_OK(ctx, fv_model_create(ctx, "vit", NULL, &spec, &model));
        const fv_batch batch = batch_of();
        for (int k = 0; i && k < ROWS * SIDE * SIDE; k++)
            pictures[k / (SIDE * SIDE)][k % (SIDE * SIDE)] += 0.25f;
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_model_classify(model, &batch, NULL), logits[i],
                                     sizeof logits[i]));
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
    }
    for (int i = 0; i < ROWS * CLASSES; i++)
        CHECK_NEAR(logits[0][i], logits[1][i], 1e-4);
}

/* ---- running statistics --------------------------------------------------------------------- */

static void statistics_move_once_a_step(void)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_params *params = NULL;
    fv_batch_norms norms;
    int index = -1;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_batch_norms_init(&norms, ctx));
    CHECK_OK(ctx, fv_batch_norms_add(&norms, params, "norm", 1, &index));
    const float values[4] = {1, 3, 5, 7}; /* mean 4, variance 5, unbiased 20 / 3 */
    fv_tensor *x = fv_from_host(ctx, FV_F32, 4, (int64_t[]){2, 1, 1, 2}, values);
    for (int i = 0; i < 3; i++) /* two passes were cancelled */
        fv_batch_norms_run(ctx, &norms, index, x, true);
    CHECK_VALUES(ctx, norms.layer[0].running_mean, 0, 0);
    CHECK_OK(ctx, fv_batch_norms_step(&norms));
    CHECK_VALUES(ctx, norms.layer[0].running_mean, 1e-6, 0.4);
    CHECK_VALUES(ctx, norms.layer[0].running_variance, 1e-6, 0.9 + 2.0 / 3);
    CHECK_OK(ctx, fv_batch_norms_step(&norms)); /* no pass since */
    CHECK_VALUES(ctx, norms.layer[0].running_mean, 1e-6, 0.4);
    const float bad[4] = {1, NAN, 5, INFINITY};
    fv_batch_norms_run(ctx, &norms, index,
                       fv_from_host(ctx, FV_F32, 4, (int64_t[]){2, 1, 1, 2}, bad), true);
    CHECK_OK(ctx, fv_batch_norms_step(&norms));
    CHECK_VALUES(ctx, norms.layer[0].running_mean, 1e-6, 0.4);
    CHECK_VALUES(ctx, norms.layer[0].running_variance, 1e-6, 0.9 + 2.0 / 3);
    fv_tensor *y = fv_batch_norms_run(ctx, &norms, index, x, false);
    CHECK_VALUES(ctx, y, 1e-5, 0.6 / sqrt(0.9 + 2.0 / 3 + 1e-5), 2.6 / sqrt(0.9 + 2.0 / 3 + 1e-5),
                 4.6 / sqrt(0.9 + 2.0 / 3 + 1e-5), 6.6 / sqrt(0.9 + 2.0 / 3 + 1e-5));
    fv_batch_norms_run(ctx, &norms, index, fv_zeros(ctx, FV_F32, 4, (int64_t[]){1, 1, 1, 1}), true);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "one element a channel");
    fv_batch_norms_free(&norms);
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void settings_that_do_not_fit_are_refused(void)
{
    static const struct {
        const char *kind, *key, *value;
        int64_t side;
        const char *message;
    } cases[] = {{"cnn", "cnn.attend", "5", 16, "cnn.attend is 5, expected at most cnn.stages, 3"},
                 {"cnn", "cnn.stages", "6", 16, "cannot be halved so often"},
                 {"vit", "vit.patch", "5", 16, "does not divide pictures of 16 x 16"},
                 {"vit", "vit.heads", "5", 16, "vit.heads 5 does not divide vit.width 64"},
                 {"vit", "vit.patch", "1", 512, "262144 patches"},
                 {"cnn", "cnn.stages", "1", 0, "pictures of 1 x 0 x 0"},
                 {"cnn", "cnn.stages", "1", 5000, "pictures of 1 x 5000 x 5000"}};
    fv_ctx *ctx = run_context(1, 5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const run_setting setting[] = {{cases[i].key, cases[i].value}, {0}};
        fv_recipe *recipe = run_recipe(ctx, setting);
        const fv_data_spec spec = spec_of(cases[i].side);
        fv_model *model = NULL;
        CHECK_EQ(fv_model_create(ctx, cases[i].kind, recipe, &spec, &model), FV_ERR_ARGUMENT);
        if (!strstr(fv_ctx_message(ctx), cases[i].message))
            test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", fv_ctx_message(ctx),
                        cases[i].message);
        fv_recipe_destroy(&recipe);
    }
    fv_data_spec one = spec_of(16), writes = spec_of(16);
    one.label_count = 1;
    writes.ability = FV_CAN_TRANSLATE;
    fv_model *model = NULL;
    fv_recipe *recipe = run_recipe(ctx, cnn);
    CHECK_EQ(fv_model_create(ctx, "vit", recipe, &one, &model), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "1 classes") != NULL);
    CHECK_EQ(fv_model_create(ctx, "cnn", recipe, &writes, &model), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "can classify pictures, not translate") != NULL);
    fv_recipe_destroy(&recipe);
    model = make_model(ctx, cnn);
    fv_batch batch = batch_of();
    batch.field[0].shape[1] = SIDE - 1;
    fv_model_classify(model, &batch, NULL);
    CHECK_ERROR(ctx, FV_ERR_SHAPE, "the model reads pictures of 1 x 16 x 16");
    fv_batch_init(&batch, ROWS);
    fv_model_classify(model, &batch, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "pixels");
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

static void runs_without_classes_are_refused(void)
{
    folder_make();
    const char *folder = folder_path("list.tsv");
    file_write(folder, "x.png\ta\n", 8);
    fv_ctx *ctx = run_context(1, 5);
    const run_setting more[] = {
        {"train.task", "media-classes"}, {"data.media", "pictures"}, {"data.list", folder}, {0}};
    fv_recipe *recipe = run_recipe(ctx, more);
    fv_run *run = NULL;
    CHECK_EQ(fv_run_create(ctx, recipe, folder_sub("run"), NULL, NULL, &run), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "more files are needed") != NULL);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    folder_remove();
}

/* The test part is another one than that of validation. */
static void metrics_can_be_of_the_test_part(void)
{
    double values[2] = {0};
    for (int i = 0; i < 2; i++) {
        folder_make();
        fv_ctx *ctx = run_context(1, 5);
        const run_setting part[] = {{"eval.part", i ? "test" : "valid"}, {0}};
        fv_recipe *recipe = run_recipe(ctx, vit);
        run_set(ctx, recipe, part);
        fv_run *run = NULL;
        fv_metric metrics[FV_MAX_METRICS];
        int count = 0;
        CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("run"), NULL, NULL, &run));
        CHECK_STR(fv_run_report(run),
                  "400 examples for training, 80 for validation, 60 for the test");
        CHECK_OK(ctx, fv_run_evaluate(run, metrics, &count));
        CHECK_EQ(count, 2);
        values[i] = metrics[1].value;
        fv_run_destroy(&run);
        fv_recipe_destroy(&recipe);
        fv_ctx_destroy(&ctx);
        folder_remove();
    }
    CHECK(values[0] != values[1]);
}

/* ---- memory --------------------------------------------------------------------------------- */

static fv_status use_kind(fv_ctx *ctx, const void *name)
{
    const fv_data_spec spec = spec_of(SIDE);
    fv_model *model = NULL;
    const fv_batch batch = batch_of();
    fv_scope_begin(ctx);
    fv_status s = fv_model_create(ctx, name, NULL, &spec, &model);
    if (s == FV_OK) {
        const fv_model_kind *kind = fv_model_kind_of(model);
        s = fv_backward(
            ctx, kind->loss(ctx, fv_model_self(model), &batch, &(fv_pass){.training = true}));
        if (s == FV_OK && kind->step_done) s = kind->step_done(fv_model_self(model), 1, 0);
    }
    fv_model_close(&model);
    fv_scope_end(ctx);
    return s;
}

static void memory_may_run_out(void)
{
    CHECK(failing_everywhere(use_kind, "cnn", 0) > 50);
    CHECK(failing_everywhere(use_kind, "vit", 0) > 50);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    RUN(they_learn);
    RUN(stopped_runs_resume_with_the_same_bits);
    RUN(attention_is_over_the_grid);
    RUN(attention_starts_without_effect);
    RUN(folders_open_as_they_were_saved);
    RUN(pictures_are_centred_by_their_level);
    RUN(statistics_move_once_a_step);
    RUN(settings_that_do_not_fit_are_refused);
    RUN(runs_without_classes_are_refused);
    RUN(metrics_can_be_of_the_test_part);
    RUN(memory_may_run_out);
    return TEST_END();
}
