/*
 * The Keyword Transformer as a model kind: rows do not depend on each other, the class token's
 * attention is captured, gradients point downhill, folders open as they were saved, wrong sizes and
 * batches are named, and no allocation that fails ends the process. The published weights are
 * tested in test_transformer_speech.
 */
#include "fovea/model.h"

#include "fovea/ops.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/tensors.h"
#include "support/test.h"

enum { FRAME = 3, LONGEST = 6, ROWS = 3, CLASSES = 4, SAMPLES = 20 };

static fv_ctx *ctx;
static const char *const names[CLASSES] = {"yes", "no", "up", "down"};
static float frames[ROWS][LONGEST][FRAME], samples[ROWS][2 * SAMPLES];
static const int64_t frame_lengths[ROWS] = {4, 6, 1}, sample_lengths[ROWS] = {20, 7, 40},
                     labels[ROWS] = {1, 0, 3};

static void fill(void)
{
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < LONGEST * FRAME; i++)
            frames[r][i / FRAME][i % FRAME] = (float)sin(1 + 3 * r + 0.7 * i);
        for (int i = 0; i < 2 * SAMPLES; i++)
            samples[r][i] = (float)sin(2 + r + 0.9 * i);
    }
}

static fv_data_spec frame_spec(void)
{
    fv_data_spec spec = {.ability = FV_CAN_CLASSIFY, .labels = names, .label_count = CLASSES};
    fv_data_spec_set(&spec, "frame", FRAME);
    fv_data_spec_set(&spec, "frames", LONGEST);
    return spec;
}

/* Frames of six samples every four: four of them. */
static fv_data_spec front_spec(void)
{
    fv_data_spec spec = frame_spec();
    fv_data_spec_set(&spec, "samples", SAMPLES);
    fv_data_spec_set(&spec, "rate", 16000);
    fv_data_spec_set(&spec, "window", 6);
    fv_data_spec_set(&spec, "hop", 4);
    fv_data_spec_set(&spec, "bins", 5);
    fv_data_spec_set(&spec, "mels", 4);
    return spec;
}

/* Free the recipe after the model. */
static fv_status make(fv_ctx *in, const fv_data_spec *spec, fv_recipe **recipe, fv_model **out)
{
    const fv_key_table table = fv_model_kind_find(in, "kwt")->keys();
    fv_status s = fv_recipe_create(in, &table, 1, recipe);
    if (s == FV_OK) s = fv_recipe_set(*recipe, "kwt.width", "8");
    if (s == FV_OK) s = fv_recipe_set(*recipe, "kwt.heads", "2");
    if (s == FV_OK) s = fv_recipe_set(*recipe, "kwt.layers", "2");
    if (s == FV_OK) s = fv_recipe_set(*recipe, "kwt.hidden", "12");
    return s == FV_OK ? fv_model_create(in, "kwt", *recipe, spec, out) : s;
}

/* Of the front end a set of random numbers instead of zeros. */
static void fill_front(fv_model *model)
{
    fv_params *params = fv_model_params(model);
    for (int i = 0; i < fv_params_count(params); i++) {
        fv_tensor *t = fv_params_tensor(params, i);
        static float values[64];
        const int64_t n = fv_tensor_count(t);
        if (!fv_params_is_buffer(params, i)) continue;
        CHECK(n <= 64);
        for (int64_t k = 0; k < n; k++)
            values[k] = (float)fabs(sin(0.3 + (double)(i + 2) * (double)k));
        CHECK_OK(ctx, fv_tensor_write(ctx, t, values, (size_t)n * sizeof *values));
    }
}

static fv_batch batch_of(int first, int count, bool front)
{
    static const void *row[ROWS], *label[ROWS];
    fv_batch batch;
    fv_batch_init(&batch, count);
    for (int i = 0; i < ROWS; i++) {
        row[i] = front ? (const void *)samples[i] : (const void *)frames[i];
        label[i] = &labels[i];
    }
    fv_batch_add(&batch, (fv_field){.name = front ? "samples" : "frames",
                                    .dtype = FV_F32,
                                    .rank = front ? 0 : 1,
                                    .shape = {FRAME},
                                    .row = row + first,
                                    .length = (front ? sample_lengths : frame_lengths) + first});
    fv_batch_add(&batch, (fv_field){.name = "label", .dtype = FV_I64, .row = label + first});
    return batch;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void rows_do_not_depend_on_each_other(void)
{
    for (int front = 0; front < 2; front++) {
        const fv_data_spec spec = front ? front_spec() : frame_spec();
        fv_model *model = NULL;
        fv_recipe *recipe = NULL;
        CHECK_OK(ctx, make(ctx, &spec, &recipe, &model));
        fill_front(model);
        fv_scope_begin(ctx);
        const fv_batch all = batch_of(0, ROWS, front);
        fv_tensor *together = fv_model_classify(model, &all, NULL);
        for (int i = 0; i < ROWS; i++) {
            const fv_batch one = batch_of(i, 1, front);
            fv_tensor *alone = fv_model_classify(model, &one, NULL);
            CHECK(tensor_same(ctx, alone, fv_slice(ctx, together, 0, i, i + 1, 1)));
        }
        fv_scope_end(ctx);
        CHECK_OK(ctx, fv_ctx_error(ctx));
        fv_model_close(&model);
        fv_recipe_destroy(&recipe);
    }
}

/* A short recording is the same as one with zeros around it, a long one the same as its middle. */
static void recordings_are_centred(void)
{
    const fv_data_spec spec = front_spec();
    float padded[SAMPLES] = {0};
    fv_model *model = NULL;
    fv_recipe *recipe = NULL;
    CHECK_OK(ctx, make(ctx, &spec, &recipe, &model));
    fill_front(model);
    fv_scope_begin(ctx);
    memcpy(padded + (SAMPLES - 7) / 2, samples[1], 7 * sizeof *padded);
    const void *const whole[] = {padded, samples[2] + SAMPLES / 2};
    const int64_t full[] = {SAMPLES, SAMPLES};
    fv_batch given = batch_of(1, 2, true), wanted;
    fv_batch_init(&wanted, 2);
    fv_batch_add(&wanted,
                 (fv_field){.name = "samples", .dtype = FV_F32, .row = whole, .length = full});
    fv_tensor *a = fv_model_classify(model, &given, NULL),
              *b = fv_model_classify(model, &wanted, NULL);
    CHECK(tensor_same(ctx, a, b));
    CHECK(tensor_distance(ctx, fv_slice(ctx, a, 0, 0, 1, 1), fv_slice(ctx, a, 0, 1, 2, 1)) > 1e-3);
    fv_scope_end(ctx);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
}

typedef struct seen {
    int sites;
    double sum;
} seen;

static fv_status look(void *user, fv_ctx *in, const fv_site_weights *site)
{
    seen *s = user;
    const fv_tensor *w = site->captured.weights;
    CHECK(fv_tensor_rank(w) == 4 && fv_tensor_size(w, 1) == 2 && fv_tensor_size(w, 2) == 1 &&
          fv_tensor_size(w, 3) == frame_lengths[1]);
    float *values = tensor_floats(in, w);
    for (int64_t i = 0; values && i < fv_tensor_count(w); i++)
        s->sum += (double)values[i];
    free(values);
    s->sites++;
    return FV_OK;
}

/* Weights on frames, which with that on the class token itself sum to 1. */
static void attention_of_the_class_token_is_captured(void)
{
    const fv_data_spec spec = frame_spec();
    fv_model *model = NULL;
    fv_recipe *recipe = NULL;
    seen s = {0};
    fv_site sites[4];
    CHECK_OK(ctx, make(ctx, &spec, &recipe, &model));
    const fv_capture capture = {.options = {.weights = true}, .on_weights = look, .user = &s};
    const fv_pass pass = {.capture = &capture};
    fv_batch one = batch_of(1, 1, false), several = batch_of(0, ROWS, false);
    CHECK_EQ(fv_model_kind_of(model)->attention_sites(fv_model_self(model), sites, 4), 2);
    CHECK(strcmp(sites[1].name, "encoder.1.class") == 0 && sites[1].keys == FV_AXIS_FRAMES);
    CHECK_OK(ctx, fv_model_capture_attention(model, &one, &pass));
    CHECK(s.sites == 2 && s.sum > 1 && s.sum < 4);
    CHECK_EQ(fv_model_capture_attention(model, &several, &pass), FV_ERR_ARGUMENT);
    tensor_expect_error(ctx, FV_ERR_ARGUMENT, "one recording", __FILE__, __LINE__);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
}

static double loss_of(fv_model *model, const fv_batch *batch, const fv_pass *pass)
{
    double value = NAN;
    fv_scope_begin(ctx);
    fv_tensor *loss = fv_model_kind_of(model)->loss(ctx, fv_model_self(model), batch, pass);
    CHECK_OK(ctx, fv_tensor_item(ctx, loss, &value));
    fv_scope_end(ctx);
    return value;
}

static void gradients_point_downhill(void)
{
    const fv_data_spec spec = frame_spec();
    fv_model *model = NULL;
    fv_recipe *recipe = NULL;
    CHECK_OK(ctx, make(ctx, &spec, &recipe, &model));
    fv_params *params = fv_model_params(model);
    const fv_batch batch = batch_of(0, ROWS, false);
    fv_scope_begin(ctx);
    CHECK_OK(ctx, fv_backward(
                      ctx, fv_model_kind_of(model)->loss(ctx, fv_model_self(model), &batch, NULL)));
    fv_scope_end(ctx);
    for (int p = 0; p < fv_params_count(params); p++) {
        static float w[512], g[512], moved[512];
        fv_tensor *t = fv_params_tensor(params, p), *grad = fv_grad(ctx, t);
        const size_t n = (size_t)fv_tensor_count(t), bytes = n * sizeof *w;
        CHECK(n <= 512 && grad != NULL);
        if (n > 512 || !grad) continue;
        CHECK_OK(ctx, fv_tensor_read(ctx, t, w, bytes));
        CHECK_OK(ctx, fv_tensor_read(ctx, grad, g, bytes));
        double norm = 0, side[2];
        const double step = 0.001;
        for (size_t k = 0; k < n; k++)
            norm += (double)g[k] * (double)g[k];
        norm = sqrt(norm);
        if (norm < 1e-4) continue; /* below what float differences can show */
        for (int d = 0; d < 2; d++) {
            for (size_t k = 0; k < n; k++)
                moved[k] = (float)((double)w[k] + (d ? step : -step) * (double)g[k] / norm);
            CHECK_OK(ctx, fv_tensor_write(ctx, t, moved, bytes));
            side[d] = loss_of(model, &batch, NULL);
        }
        CHECK_OK(ctx, fv_tensor_write(ctx, t, w, bytes));
        const double slope = (side[1] - side[0]) / (2 * step);
        if (!(fabs(slope - norm) < 0.02 * norm + 3e-3))
            test_failed(__FILE__, __LINE__, "%s: slope %.5g, gradient %.5g",
                        fv_params_name(params, p), slope, norm);
    }
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
}

/* What is dropped depends on the row's number in the step, not on the batch. */
static void dropout_is_keyed_by_rows(void)
{
    const fv_data_spec spec = frame_spec();
    const fv_pass pass = {.training = true};
    fv_model *model = NULL;
    fv_recipe *recipe = NULL;
    const fv_key_table table = fv_model_kind_find(ctx, "kwt")->keys();
    CHECK_OK(ctx, fv_recipe_create(ctx, &table, 1, &recipe));
    CHECK_OK(ctx, fv_recipe_set(recipe, "kwt.width", "8"));
    CHECK_OK(ctx, fv_recipe_set(recipe, "kwt.layers", "1"));
    CHECK_OK(ctx, fv_recipe_set(recipe, "kwt.dropout", "0.5"));
    CHECK_OK(ctx, fv_model_create(ctx, "kwt", recipe, &spec, &model));
    const fv_batch all = batch_of(0, ROWS, false);
    double parts = 0;
    fv_ctx_set_step(ctx, 3, 0);
    const double whole = loss_of(model, &all, &pass);
    for (int i = 0; i < ROWS; i++) {
        const fv_batch one = batch_of(i, 1, false);
        fv_ctx_set_step(ctx, 3, (uint64_t)i);
        parts += loss_of(model, &one, &pass);
    }
    CHECK_NEAR(parts, whole, 1e-5 * whole);
    CHECK(fabs(whole - loss_of(model, &all, NULL)) > 1e-4);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
}

static void folders_open_as_they_were_saved(void)
{
    for (int front = 0; front < 2; front++) {
        const fv_data_spec spec = front ? front_spec() : frame_spec();
        const char *folder = folder_sub(front ? "front" : "frames");
        fv_model *model = NULL, *back = NULL;
        fv_recipe *recipe = NULL;
        bool same = false;
        CHECK_OK(ctx, make(ctx, &spec, &recipe, &model));
        fill_front(model);
        CHECK_OK(ctx, fv_model_save(model, folder));
        CHECK_OK(ctx, fv_model_open(ctx, folder, &back));
        CHECK_OK(ctx, fv_params_equal(fv_model_params(model), fv_model_params(back), &same));
        CHECK(same && fv_model_spec(back)->label_count == CLASSES);
        CHECK(fv_model_can(back, FV_CAN_CLASSIFY) && strcmp(fv_model_type(back), "kwt") == 0);
        CHECK_EQ(fv_model_kind_of(back)->max_length(fv_model_self(back)), front ? 4 : LONGEST);
        fv_model_close(&back);
        fv_model_close(&model);
        fv_recipe_destroy(&recipe);
    }
}

static void wrong_sizes_are_named(void)
{
    static const struct {
        const char *name;
        int64_t value;
        bool front;
        const char *message;
    } bad[] = {{"frame", 0, false, "frame is 0"},
               {"frame", 1 << 20, false, "frame is 1048576"},
               {"frames", 0, false, "0 frames at most"},
               {"frames", 1 << 17, false, "131072 frames at most"},
               {"samples", -1, true, "samples is -1"},
               {"samples", 1 << 25, true, "samples is 33554432"},
               {"samples", 5, true, "0 frames at most"}, /* shorter than a window */
               {"hop", 0, true, "hop is 0"},
               {"window", 1 << 17, true, "window is 131072"},
               {"bins", 0, true, "bins is 0"},
               {"mels", 0, true, "mels is 0"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fv_data_spec spec = bad[i].front ? front_spec() : frame_spec();
        fv_model *model = NULL;
        fv_recipe *recipe = NULL;
        fv_data_spec_set(&spec, bad[i].name, bad[i].value);
        CHECK_EQ(make(ctx, &spec, &recipe, &model), FV_ERR_ARGUMENT);
        if (model || !strstr(fv_ctx_message(ctx), bad[i].message))
            test_failed(__FILE__, __LINE__, "%s: %s", bad[i].message, fv_ctx_message(ctx));
        fv_recipe_destroy(&recipe);
    }
    fv_data_spec spec = frame_spec();
    fv_model *model = NULL;
    fv_recipe *recipe = NULL;
    spec.label_count = 0;
    CHECK_EQ(make(ctx, &spec, &recipe, &model), FV_ERR_ARGUMENT);
    fv_recipe_destroy(&recipe);
    spec = frame_spec();
    const fv_key_table table = fv_model_kind_find(ctx, "kwt")->keys();
    CHECK_OK(ctx, fv_recipe_create(ctx, &table, 1, &recipe));
    CHECK_OK(ctx, fv_recipe_set(recipe, "kwt.heads", "3"));
    CHECK_EQ(fv_model_create(ctx, "kwt", recipe, &spec, &model), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "not a multiple of kwt.heads 3"));
    fv_recipe_destroy(&recipe);
}

static void check_refused(fv_model *model, const fv_batch *batch, const char *message)
{
    fv_scope_begin(ctx);
    CHECK(!fv_tensor_valid(fv_model_classify(model, batch, NULL)));
    fv_scope_end(ctx);
    tensor_expect_error(ctx, FV_ERR_ARGUMENT, message, __FILE__, __LINE__);
}

static void wrong_batches_are_named(void)
{
    const fv_data_spec specs[] = {frame_spec(), front_spec()};
    fv_model *model[2] = {NULL, NULL};
    fv_recipe *recipe[2] = {NULL, NULL};
    const int64_t too_long = LONGEST + 1, none = 0;
    for (int i = 0; i < 2; i++)
        CHECK_OK(ctx, make(ctx, &specs[i], &recipe[i], &model[i]));
    fv_batch batch = batch_of(0, 1, false);
    check_refused(model[1], &batch, "no \"samples\" of floats");
    batch.field[0].length = &too_long;
    check_refused(model[0], &batch, "a recording of 7 frames; the model reads 1 to 6");
    batch.field[0].length = &none;
    check_refused(model[0], &batch, "a recording of 0 frames");
    batch = batch_of(0, 1, false);
    batch.field[0].shape[0] = FRAME + 1;
    check_refused(model[0], &batch, "vectors of width 3");
    batch = batch_of(0, 1, true);
    check_refused(model[0], &batch, "no \"frames\" of floats");
    batch.field[0].rank = 1;
    check_refused(model[1], &batch, "rows of numbers");
    for (int i = 0; i < 2; i++) {
        fv_model_close(&model[i]);
        fv_recipe_destroy(&recipe[i]);
    }
}

/* Creation and a training step. */
static fv_status use(fv_ctx *in, const void *has_front)
{
    const bool front = *(const bool *)has_front;
    const fv_data_spec spec = front ? front_spec() : frame_spec();
    const fv_batch batch = batch_of(0, ROWS, front);
    fv_model *model = NULL;
    fv_recipe *recipe = NULL;
    fv_scope_begin(in);
    fv_status s = make(in, &spec, &recipe, &model);
    if (s == FV_OK)
        s = fv_backward(in, fv_model_kind_of(model)->loss(in, fv_model_self(model), &batch,
                                                          &(fv_pass){.training = true}));
    fv_scope_end(in);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
    return s;
}

static void failing_memory_is_reported(void)
{
    for (int front = 0; front < 2; front++)
        CHECK(failing_everywhere(use, &(bool){front}, 0) > 50);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    fill();
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(rows_do_not_depend_on_each_other);
    RUN(recordings_are_centred);
    RUN(attention_of_the_class_token_is_captured);
    RUN(gradients_point_downhill);
    RUN(dropout_is_keyed_by_rows);
    RUN(folders_open_as_they_were_saved);
    RUN(wrong_sizes_are_named);
    RUN(wrong_batches_are_named);
    RUN(failing_memory_is_reported);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
