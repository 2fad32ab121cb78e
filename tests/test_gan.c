/*
 * The task gan: training with gamma held at 0 is that of the plain DCGAN, bit for bit; phases
 * update their own network alone, with rates of their own; runs resume with the same bits; samples
 * come closer to the pictures; a classifier measures them.
 */
#include "base/ctx.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "train/tasks/tasks.h"

#define GAN                                                                                        \
    {"train.task", "gan"}, {"data.media", "shapes"}, {"data.train_count", "120"},                  \
        {"data.valid_count", "40"}, {"data.test_count", "40"}, {"data.size", "16"},                \
        {"gan.noise", "6"}, {"sagan.channels", "4"}, {"train.batch_examples", "10"},               \
        {"train.optimizer", "adam"}, {"train.beta1", "0"}, {"train.beta2", "0.9"},                 \
        {"gan.generator_lr", "0.001"}, {"gan.discriminator_lr", "0.002"},                          \
        {"train.save_every", "3"},                                                                 \
    {                                                                                              \
        "train.eval_every", "6"                                                                    \
    }

static const run_setting few[] = {GAN, {"train.steps", "6"}, {0}};

static fv_status train(const run_setting *more, const char *folder, int threads, run_watch *watch)
{
    fv_ctx *ctx = run_context(threads, 3);
    fv_recipe *recipe = run_recipe(ctx, few);
    if (more) run_set(ctx, recipe, more);
    return run_text(ctx, recipe, folder, watch);
}

/* ---- gamma = 0 ------------------------------------------------------------------------------ */

/* The task, with gamma set back to 0 after every update. */
static fv_status hold_gamma(void *self, fv_model *model, uint64_t step, int phase)
{
    static const float zero = 0;
    fv_params *params = fv_model_params(model);
    fv_ctx *ctx = fv_model_ctx(model);
    (void)self;
    (void)step;
    (void)phase;
    for (int i = 0; i < fv_params_count(params); i++) {
        const size_t n = strlen(fv_params_name(params, i));
        if (n < 6 || strcmp(fv_params_name(params, i) + n - 6, ".gamma") != 0) continue;
        const fv_status s = fv_tensor_write(ctx, fv_params_tensor(params, i), &zero, sizeof zero);
        if (s != FV_OK) return s;
    }
    return FV_OK;
}

/* Training with gamma held at 0: every other weight of the two models stays equal. */
static void training_without_gamma_is_the_same_too(void)
{
    fv_model *model[2];
    fv_run *runs[2] = {NULL, NULL};
    fv_recipe *recipes[2];
    fv_ctx *ctx = run_context(1, 3);
    fv_task_kind held = fv_task_gan;
    held.name = "held";
    held.keys = NULL;
    held.end = hold_gamma;
    CHECK_OK(ctx, fv_register_task(ctx, &held));
    folder_make();
    for (int k = 0; k < 2; k++) {
        recipes[k] = run_recipe(ctx, few);
        run_set(
            ctx, recipes[k],
            (run_setting[]){{"train.task", "held"}, {"sagan.attention", k ? "both" : "none"}, {0}});
        fv_ctx_set_seed(ctx, 3);
        CHECK_OK(ctx, fv_run_create(ctx, recipes[k], folder_sub(k ? "with" : "without"), NULL, NULL,
                                    &runs[k]));
        CHECK_OK(ctx, fv_run_train(runs[k]));
        model[k] = fv_run_model(runs[k]);
    }
    int more = 0;
    CHECK(params_part_of(ctx, fv_model_params(model[0]), fv_model_params(model[1]), &more));
    CHECK_EQ(more, 39);
    for (int k = 0; k < 2; k++) {
        fv_run_destroy(&runs[k]);
        fv_recipe_destroy(&recipes[k]);
    }
    fv_ctx_destroy(&ctx);
    folder_remove();
}

/* ---- phases --------------------------------------------------------------------------------- */

/* Weights of one network at the end of each phase of a run. */
static struct {
    float first[2][4]; /* generator, discriminator */
    int moved[2][2];   /* [phase][network] */
} seen;

static fv_status watch_phase(void *self, fv_model *model, uint64_t step, int phase)
{
    static const char *const watched[] = {"generator.picture.bias", "discriminator.down.0.bias"};
    (void)self;
    (void)step;
    for (int i = 0; i < 2; i++) {
        float now[4] = {0};
        fv_tensor *t = fv_params_find(fv_model_params(model), watched[i]);
        const size_t n = (size_t)fv_tensor_count(t);
        const fv_status s = fv_tensor_read(fv_model_ctx(model), t, now, n * sizeof *now);
        if (s != FV_OK) return s;
        const bool known = step > 0 || phase > 0;
        seen.moved[phase][i] += known && memcmp(now, seen.first[i], n * sizeof *now) != 0;
        memcpy(seen.first[i], now, sizeof now);
    }
    return FV_OK;
}

static void phases_update_their_own_network(void)
{
    folder_make();
    fv_ctx *ctx = run_context(1, 3);
    fv_task_kind watched = fv_task_gan;
    watched.name = "watched";
    watched.keys = NULL;
    watched.end = watch_phase;
    CHECK_OK(ctx, fv_register_task(ctx, &watched));
    fv_recipe *recipe = run_recipe(ctx, few);
    run_set(ctx, recipe, (run_setting[]){{"train.task", "watched"}, {0}});
    run_watch w = {0};
    memset(&seen, 0, sizeof seen);
    CHECK_EQ(run_text(ctx, recipe, folder_sub("run"), &w), FV_OK);
    CHECK_EQ(seen.moved[0][0], 0);
    CHECK(seen.moved[0][1] > 2); /* hinges may have no gradient in a step */
    CHECK_EQ(seen.moved[1][0], 6);
    CHECK_EQ(seen.moved[1][1], 0);
    folder_remove();
}

/* Each phase has a rate of its own, and the last rate keeps its ratio. */
static void phases_have_their_own_rates(void)
{
    fv_ctx *ctx = run_context(1, 3);
    fv_recipe *recipe = run_recipe(ctx, few);
    fv_data_spec spec = {.ability = FV_CAN_GENERATE};
    void *task = NULL;
    const fv_task_config cfg = {.ctx = ctx, .recipe = recipe, .folder = "."};
    CHECK_OK(ctx, fv_task_gan.open(&cfg, &spec, &task));
    CHECK_EQ(spec.ability, FV_CAN_DRAW);
    CHECK_EQ(fv_data_spec_get(&spec, "noise", 0), 6);
    for (int phase = 0; phase < 2; phase++) {
        fv_optim_config optim;
        fv_schedule schedule = {.lr = 0.01, .floor = 0.001};
        fv_optim_config_init(&optim, sizeof optim, FV_OPTIM_ADAM);
        fv_task_gan.optimizer(task, phase, &optim, &schedule);
        CHECK_NEAR(schedule.lr, phase ? 0.001 : 0.002, 1e-12);
        CHECK_NEAR(schedule.floor, phase ? 0.0001 : 0.0002, 1e-12);
        CHECK_STR(fv_task_gan.group(task, phase), phase ? "generator." : "discriminator.");
    }
    fv_task_gan.close(task);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

/* ---- runs ----------------------------------------------------------------------------------- */

/* Stopped after any step, with other threads and in several parts: the same bits. */
static void stopped_runs_resume_with_the_same_bits(void)
{
    static const run_setting parts[] = {{"train.accumulate", "2"}, {"train.steps", "5"}, {0}};
    run_watch once = {0}, first = {.stop = 2}, second = {0};
    folder_make();
    char whole[512], broken[512];
    snprintf(whole, sizeof whole, "%s", folder_sub("whole"));
    snprintf(broken, sizeof broken, "%s", folder_sub("broken"));
    CHECK_EQ(train(parts, whole, 2, &once), FV_OK);
    CHECK_EQ(train(parts, broken, 1, &first), FV_ERR_CANCELLED);
    CHECK_EQ(train(parts, broken, 2, &second), FV_OK);
    CHECK(file_same_in(whole, broken, "model.safetensors"));
    folder_remove();
}

/* The generator's classes and noise follow from (seed, step, row): a run that resumes between the
 * phases needs nothing of the discriminator's. */
static void the_second_phase_needs_nothing_of_the_first(void)
{
    fv_ctx *ctx = run_context(1, 3);
    fv_recipe *recipe = run_recipe(ctx, few);
    int64_t labels[3][10];
    for (int i = 0; i < 3; i++) {
        fv_data_spec spec = {.ability = FV_CAN_GENERATE};
        void *task = NULL;
        fv_step_plan plan = {0};
        fv_batch batch;
        const fv_task_config cfg = {.ctx = ctx, .recipe = recipe, .folder = "."};
        CHECK_OK(ctx, fv_task_gan.open(&cfg, &spec, &task));
        if (i == 0) CHECK_OK(ctx, fv_task_gan.begin(task, NULL, 4, 0, &plan));
        CHECK_OK(ctx, fv_task_gan.begin(task, NULL, i == 2 ? 5 : 4, 1, &plan));
        CHECK(plan.parts == 1 && plan.tokens == 10 && plan.first_row[1] == 10);
        CHECK_OK(ctx, fv_task_gan.batch(task, NULL, 4, 1, 0, &batch));
        CHECK(batch.rows == 10 && !fv_batch_find(&batch, "pixels"));
        const fv_field *label = fv_batch_find(&batch, "label");
        for (int k = 0; k < 10; k++) {
            labels[i][k] = *(const int64_t *)label->row[k];
            CHECK(labels[i][k] >= 0 && labels[i][k] < 6);
        }
        fv_task_gan.close(task);
    }
    CHECK(memcmp(labels[0], labels[1], sizeof labels[0]) == 0);
    CHECK(memcmp(labels[0], labels[2], sizeof labels[0]) != 0);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

/* Samples come closer to the pictures. */
static void it_learns(void)
{
    static const run_setting longer[] = {{"train.steps", "150"},
                                         {"train.eval_every", "10"},
                                         {"train.save_every", "150"},
                                         {"sagan.average", "0.9"},
                                         {0}};
    run_watch watch = {0};
    folder_make();
    CHECK_EQ(train(longer, folder_sub("run"), 2, &watch), FV_OK);
    CHECK_STR(watch.last[0].name, "frechet");
    CHECK_STR(watch.last[1].name, "frechet_real");
    CHECK(watch.last[0].value < 0.5 * watch.first[0].value);
    CHECK(watch.last[1].value == watch.first[1].value && watch.last[1].value > 0);
    folder_remove();
}

/* With a classifier: its features, and the share of samples that it reads as their class. */
static void a_classifier_measures_samples(void)
{
    static const run_setting cnn[] = {GAN,
                                      {"train.task", "media-classes"},
                                      {"model.kind", "cnn"},
                                      {"cnn.channels", "4"},
                                      {"train.steps", "4"},
                                      {0}};
    folder_make();
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_sub("cnn"));
    fv_ctx *ctx = run_context(1, 3);
    run_watch ignored = {0}, watch = {0};
    CHECK_EQ(run_text(ctx, run_recipe(ctx, cnn), folder, &ignored), FV_OK);
    const run_setting with[] = {{"eval.classifier", folder}, {0}};
    CHECK_EQ(train(with, folder_sub("run"), 1, &watch), FV_OK);
    CHECK_EQ(watch.count, 3);
    CHECK_STR(watch.last[2].name, "read_as_class");
    CHECK(watch.last[2].value >= 0 && watch.last[2].value <= 1);
    CHECK(watch.last[0].value > watch.last[1].value);
    /* Pictures of another size. */
    ctx = run_context(1, 3);
    fv_recipe *recipe = run_recipe(ctx, few);
    run_set(ctx, recipe, with);
    run_set(ctx, recipe, (run_setting[]){{"data.size", "32"}, {0}});
    fv_run *run = NULL;
    CHECK_EQ(fv_run_create(ctx, recipe, folder_sub("other"), NULL, NULL, &run), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "reads other pictures or classes") != NULL);
    /* Something that has no features. */
    run_set(ctx, recipe, (run_setting[]){{"eval.classifier", folder_path("run")}, {0}});
    CHECK_EQ(fv_run_create(ctx, recipe, folder_path("other"), NULL, NULL, &run), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "a fovea-sagan model has no features") != NULL);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    RUN(training_without_gamma_is_the_same_too);
    RUN(phases_update_their_own_network);
    RUN(phases_have_their_own_rates);
    RUN(stopped_runs_resume_with_the_same_bits);
    RUN(the_second_phase_needs_nothing_of_the_first);
    RUN(it_learns);
    RUN(a_classifier_measures_samples);
    return TEST_END();
}
