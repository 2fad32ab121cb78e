/*
 * The task of few-shot episodes: a run learns in seconds and resumes with the same bits, the
 * curriculum, metrics of a model whose answers are known, settings that do not fit.
 */
#include "fovea/shots.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"

/* ---- training ------------------------------------------------------------------------------- */

static const run_setting learning[] = {
    {"train.task", "episodes"},
    {"episodes.ways", "2"},
    {"episodes.queries", "4"},
    {"episodes.valid_count", "100"},
    {"few-shot.channels", "8"},
    {"few-shot.width", "16"},
    {"few-shot.stages", "attention 16 16, tc 16, attention 16 16"},
    {"train.steps", "150"},
    {"train.batch_examples", "16"},
    {"train.lr", "0.004"},
    {"train.optimizer", "adam"},
    {"train.eval_every", "75"},
    {"train.save_every", "50"},
    {"eval.samples", "1"},
    {0},
};

static void a_run_learns_in_seconds(void)
{
    fv_ctx *own = run_context(1, 5);
    run_watch w = {.stop = 0};
    fv_recipe *recipe = run_recipe(own, learning);
    CHECK_EQ(run_text(own, recipe, folder_sub("learned"), &w), FV_OK);
    CHECK_STR(w.last[0].name, "accuracy");
    CHECK_STR(w.last[1].name, "loss");
    CHECK(w.last[0].higher_is_better && !w.last[1].higher_is_better);
    CHECK_STR(w.last[2].name, "nearest_pixels");
    CHECK(w.last[2].value > 0.8 && w.last[2].value == w.first[2].value);
    if (!(w.last[0].value > 0.75))
        test_failed(__FILE__, __LINE__, "%.2f of the answers are right", w.last[0].value);
}

/* Interrupted at step 15, between states, and run again: the weights of an uninterrupted run. */
static void a_resumed_run_has_the_same_bits(void)
{
    const struct {
        const char *folder;
        uint64_t stop;
    } runs[] = {{"whole", 0}, {"parts", 15}, {"parts", 0}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        fv_ctx *own = run_context(i == 2 ? 2 : 1, 5);
        run_watch w = {.stop = runs[i].stop};
        fv_recipe *recipe = run_recipe(own, learning);
        run_set(own, recipe,
                (run_setting[]){{"train.steps", "20"},
                                {"train.save_every", "10"},
                                {"train.accumulate", "2"},
                                {"train.batch_examples", "4"},
                                {"episodes.ways", "4"},
                                {"episodes.curriculum", "14"},
                                {"episodes.within", "0.5"},
                                {"episodes.shift", "2"},
                                {"episodes.warp", "0.2"},
                                {0}});
        CHECK_EQ(run_text(own, recipe,
                          i == 2 ? folder_path(runs[i].folder) : folder_sub(runs[i].folder), &w),
                 runs[i].stop ? FV_ERR_CANCELLED : FV_OK);
    }
    char a[512], b[512];
    snprintf(a, sizeof a, "%s", folder_path("whole"));
    snprintf(b, sizeof b, "%s", folder_path("parts"));
    CHECK(file_same_in(a, b, "model.safetensors"));
}

/* Classes of the examples of a step's first episode. */
static int64_t classes_at(const fv_task_kind *kind, void *task, uint64_t step)
{
    fv_step_plan plan = {.parts = 0};
    fv_batch b;
    bool used[20] = {false};
    int64_t count = 0;
    CHECK_EQ(kind->begin(task, NULL, step, 0, &plan), FV_OK);
    CHECK_EQ(kind->batch(task, NULL, step, 0, 0, &b), FV_OK);
    const int64_t *label = fv_batch_find(&b, "label")->row[0];
    for (int i = 0; i < 20; i++) {
        count += !used[label[i]];
        used[label[i]] = true;
    }
    return count;
}

static void the_curriculum_grows_from_two_classes(void)
{
    fv_ctx *own = run_context(1, 5);
    fv_recipe *recipe = run_recipe(own, learning);
    run_set(own, recipe,
            (run_setting[]){{"episodes.ways", "20"}, {"episodes.curriculum", "180"}, {0}});
    const fv_task_kind *kind = fv_task_kind_find(own, "episodes");
    const fv_task_config cfg = {.ctx = own, .recipe = recipe, .folder = ""};
    fv_data_spec spec = {.ability = FV_CAN_CLASSIFY};
    void *task = NULL;
    CHECK_OK(own, kind->open(&cfg, &spec, &task));
    CHECK_EQ(spec.ability, FV_CAN_LEARN);
    CHECK_EQ(classes_at(kind, task, 0), 2);
    CHECK_EQ(classes_at(kind, task, 9), 2);
    CHECK_EQ(classes_at(kind, task, 91), 11);
    CHECK_EQ(classes_at(kind, task, 179), 19);
    CHECK_EQ(classes_at(kind, task, 180), 20);
    kind->close(task);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&own);
}

/* ---- metrics: a model that answers by the nearest pixels ------------------------------------ */

static fv_status make_nearest(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                              void **self)
{
    (void)recipe;
    (void)spec;
    *self = params;
    fv_params_add_buffer(params, "none", fv_zeros(fv_params_ctx(params), FV_F32, 0, NULL));
    return fv_ctx_error(fv_params_ctx(params));
}

static void drop_nearest(void *self) { (void)self; }

static fv_tensor *answer_nearest(fv_ctx *in, void *self, const fv_batch *inputs,
                                 const fv_pass *pass)
{
    enum { CLASSES = FV_SHOTS_RUN_WAYS };
    static float logits[64 * CLASSES];
    const fv_field *pixels = fv_batch_find(inputs, "pixels"),
                   *label = fv_batch_find(inputs, "label");
    int64_t n = 0;
    (void)self;
    (void)pass;
    for (int64_t r = 0; r < inputs->rows; r++) {
        fv_shots_episode e = {.ways = CLASSES, .examples = CLASSES};
        e.queries = pixels->length[r] - CLASSES;
        memcpy(&e.pixels, &pixels->row[r], sizeof e.pixels);
        memcpy(&e.labels, &label->row[r], sizeof e.labels);
        for (int64_t q = 0; q < e.queries; q++, n++)
            for (int64_t k = 0; k < CLASSES; k++)
                logits[n * CLASSES + k] = k == fv_shots_nearest(&e, q) ? 5 : 0;
    }
    return fv_from_host(in, FV_F32, 2, (int64_t[]){n, CLASSES}, logits);
}

/* The share of thirty episodes of the test part that the nearest pixels answer. */
static double nearest_share(fv_ctx *own, uint64_t seed)
{
    const fv_shots_rule rule = {
        .ways = 20, .shots = 1, .queries = 1, .part = FV_SHOTS_TEST, .seed = seed};
    fv_shots *shots = NULL;
    double right = 0;
    CHECK_OK(own, fv_shots_open(own, &(fv_shots_config){.source = "drawn", .seed = 1}, &shots));
    for (uint64_t n = 0; n < 30; n++) {
        fv_shots_episode e = {.ways = 0};
        CHECK_OK(own, fv_shots_episode_make(shots, &rule, n, &e));
        right += fv_shots_nearest(&e, 0) == e.labels[20];
        fv_shots_episode_free(own, &e);
    }
    fv_shots_close(&shots);
    return right / 30;
}

static void metrics_are_those_of_the_answers(void)
{
    static const fv_model_kind nearest = {.struct_size = sizeof nearest,
                                          .name = "nearest",
                                          .abilities = 1u << FV_CAN_LEARN,
                                          .create = make_nearest,
                                          .destroy = drop_nearest,
                                          .classify = answer_nearest};
    fv_ctx *own = run_context(1, 5);
    fv_run *run = NULL;
    fv_metric m[FV_MAX_METRICS];
    int count = 0;
    CHECK_OK(own, fv_register_model(own, &nearest));
    fv_recipe *recipe = run_recipe(own, learning);
    run_set(own, recipe,
            (run_setting[]){{"model.kind", "nearest"},
                            {"episodes.ways", "20"},
                            {"episodes.orders", "3"},
                            {"episodes.test_count", "30"},
                            {"eval.part", "test"},
                            {0}});
    CHECK_OK(own, fv_run_create(own, recipe, folder_sub("nearest"), NULL, NULL, &run));
    CHECK_OK(own, fv_run_evaluate(run, m, &count));
    CHECK_EQ(count, 5);
    CHECK_STR(m[3].name, "one_shot_error");
    CHECK_NEAR(m[2].value, nearest_share(own, (uint64_t)fv_recipe_int(recipe, "train.seed")),
               1e-12);
    CHECK(m[0].value == m[2].value && m[0].value > 0.3 && m[0].value < 1);
    CHECK_NEAR(m[3].value, m[4].value, 0);
    CHECK(m[3].value > 0.1 && m[3].value < 0.7);
    /* right: 5 against nineteen zeros; wrong: one of the zeros */
    CHECK_NEAR(m[1].value, log(exp(5) + 19) - 5 * m[0].value, 1e-5);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&own);
}

static void settings_that_do_not_fit_are_refused(void)
{
    static const struct {
        run_setting setting;
        const char *message;
    } wrong[] = {{{"episodes.source", "omniglot"}, "need the folder"},
                 {{"episodes.shots", "12"}, "at most 1024 drawings"},
                 {{"train.batch_examples", "2000"}, "expected at most 1024"},
                 {{"few-shot.stages", "tc"}, "stages 'tc'"},
                 {{"model.kind", "cnn"}, "model.kind is cnn"},
                 {{"episodes.queries", "1024"}, "at most 1024 drawings"}};
    const char *folder = folder_sub("wrong");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        fv_ctx *own = run_context(1, 5);
        fv_run *run = NULL;
        fv_recipe *recipe = run_recipe(own, learning);
        run_set(own, recipe, (run_setting[]){wrong[i].setting, {0}});
        CHECK_EQ(fv_run_create(own, recipe, folder, NULL, NULL, &run), FV_ERR_ARGUMENT);
        if (!strstr(fv_ctx_message(own), wrong[i].message))
            test_failed(__FILE__, __LINE__, "setting %d: %s", (int)i, fv_ctx_message(own));
        fv_recipe_destroy(&recipe);
        fv_ctx_destroy(&own);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    RUN(a_run_learns_in_seconds);
    RUN(a_resumed_run_has_the_same_bits);
    RUN(the_curriculum_grows_from_two_classes);
    RUN(metrics_are_those_of_the_answers);
    RUN(settings_that_do_not_fit_are_refused);
    folder_remove();
    return TEST_END();
}
