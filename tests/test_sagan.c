/*
 * The kind sagan: with gamma = 0 it is the plain DCGAN, bit for bit; hinge losses, each with the
 * gradients of one network alone; weights of spectral norm 1; the moving average; samples and
 * attention; folders; what is refused; memory that runs out. tests/test_gan.c trains it.
 */
#include "base/ctx.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "models/sagan.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"

static const run_setting plain[] = {{"sagan.attention", "none"}, {0}};

/* ---- one model ------------------------------------------------------------------------------ */

enum { SIDE = 16, ROWS = 3, CLASSES = 4, NOISE = 6, PIXELS = SIDE * SIDE };

static const char *const names[CLASSES] = {"a", "b", "c", "d"};
static float pictures[ROWS][PIXELS], noise[ROWS][NOISE];
static const int64_t classes[ROWS] = {2, 0, 3};
static const void *const picture_rows[ROWS] = {pictures[0], pictures[1], pictures[2]},
                         *const noise_rows[ROWS] = {noise[0], noise[1], noise[2]},
                         *const class_rows[ROWS] = {&classes[0], &classes[1], &classes[2]};

static fv_data_spec spec_of(int64_t labels)
{
    fv_data_spec spec = {.ability = FV_CAN_DRAW, .labels = names, .label_count = labels};
    fv_data_spec_set(&spec, "channels", 1);
    fv_data_spec_set(&spec, "height", SIDE);
    fv_data_spec_set(&spec, "width", SIDE);
    fv_data_spec_set(&spec, "noise", NOISE);
    return spec;
}

static fv_model *make_model(fv_ctx *ctx, const run_setting *more, int64_t labels)
{
    static const run_setting small[] = {{"sagan.channels", "8"}, {0}};
    fv_recipe *recipe = run_recipe(ctx, small);
    if (more) run_set(ctx, recipe, more);
    const fv_data_spec spec = spec_of(labels);
    fv_model *model = NULL;
    CHECK_OK(ctx, fv_model_create(ctx, "sagan", recipe, &spec, &model));
    fv_recipe_destroy(&recipe);
    return model;
}

/* Noise and classes; `real` adds pictures, which makes it the discriminator's batch. */
static fv_batch batch_of(bool real)
{
    fv_batch batch;
    for (int i = 0; i < ROWS * PIXELS; i++)
        pictures[i / PIXELS][i % PIXELS] = (float)(i * 7919 % 101) / 100;
    for (int i = 0; i < ROWS * NOISE; i++)
        noise[i / NOISE][i % NOISE] = (float)(i * 31 % 17 - 8) / 6;
    fv_batch_init(&batch, ROWS);
    fv_batch_add(
        &batch,
        (fv_field){
            .name = "noise", .dtype = FV_F32, .rank = 1, .shape = {NOISE}, .row = noise_rows});
    fv_batch_add(&batch, (fv_field){.name = "label", .dtype = FV_I64, .row = class_rows});
    if (real)
        fv_batch_add(&batch, (fv_field){.name = "pixels",
                                        .dtype = FV_F32,
                                        .rank = 3,
                                        .shape = {1, SIDE, SIDE},
                                        .row = picture_rows});
    return batch;
}

static fv_tensor *loss_of(fv_model *model, const fv_batch *batch, bool training)
{
    return fv_model_kind_of(model)->loss(fv_model_ctx(model), fv_model_self(model), batch,
                                         &(fv_pass){.training = training});
}

static fv_tensor *draw(fv_model *model, int64_t rows, const fv_batch *conditions)
{
    return fv_model_kind_of(model)->draw(fv_model_ctx(model), fv_model_self(model), rows,
                                         conditions);
}

static void fill(fv_ctx *ctx, fv_params *params, const char *name, float value)
{
    static float values[4096];
    fv_tensor *t = fv_params_find(params, name);
    CHECK(t != NULL);
    if (!t) return;
    const int64_t n = fv_tensor_count(t);
    for (int64_t i = 0; i < n; i++)
        values[i] = value;
    CHECK_OK(ctx, fv_tensor_write(ctx, t, values, (size_t)n * sizeof *values));
}

/* ---- gamma = 0 ------------------------------------------------------------------------------ */

/* The first weights, samples and both losses of a model with attention are those of one without. */
static void without_gamma_it_is_a_plain_dcgan(void)
{
    static const char *const where[] = {"both", "generator", "discriminator"};
    static const int tensors[] = {13 + 26, 26, 13};
    for (int i = 0; i < 3; i++) {
        const run_setting set[] = {{"sagan.attention", where[i]}, {0}};
        static float samples[2][ROWS * PIXELS];
        double losses[2][2];
        fv_ctx *ctx = run_context(1, 5);
        fv_model *model[2];
        for (int k = 0; k < 2; k++) {
            fv_ctx_set_step(ctx, 0, 0);
            model[k] = make_model(ctx, k ? set : plain, CLASSES);
            fv_batch batch = batch_of(false);
            CHECK_OK(ctx, fv_tensor_read(ctx, draw(model[k], ROWS, &batch), samples[k],
                                         sizeof samples[k]));
            CHECK_OK(ctx, fv_tensor_item(ctx, loss_of(model[k], &batch, true), &losses[k][0]));
            batch = batch_of(true);
            CHECK_OK(ctx, fv_tensor_item(ctx, loss_of(model[k], &batch, true), &losses[k][1]));
        }
        int more = 0;
        CHECK(params_part_of(ctx, fv_model_params(model[0]), fv_model_params(model[1]), &more));
        CHECK_EQ(more, tensors[i]);
        CHECK(memcmp(samples[0], samples[1], sizeof samples[0]) == 0);
        CHECK(memcmp(losses[0], losses[1], sizeof losses[0]) == 0);
        /* With another gamma they are not. */
        const char *gamma = i == 2 ? "discriminator.attention.gamma" : "average.attention.gamma";
        fill(ctx, fv_model_params(model[1]), gamma, 0.5f);
        const fv_batch batch = batch_of(true);
        CHECK_OK(ctx,
                 fv_tensor_read(ctx, draw(model[1], ROWS, &batch), samples[1], sizeof samples[1]));
        CHECK_OK(ctx, fv_tensor_item(ctx, loss_of(model[1], &batch, true), &losses[1][1]));
        CHECK((memcmp(samples[0], samples[1], sizeof samples[0]) == 0) == (i == 2));
        CHECK((losses[0][1] == losses[1][1]) == (i != 2));
        fv_model_close(&model[0]);
        fv_model_close(&model[1]);
        fv_ctx_destroy(&ctx);
    }
}

/* ---- losses --------------------------------------------------------------------------------- */

/* The two networks of a model, over the same tensors. */
typedef struct nets {
    fv_spectral_norms spectral;
    fv_generator g;
    fv_discriminator d;
} nets;

static void open_nets(fv_model *model, nets *n)
{
    fv_ctx *ctx = fv_model_ctx(model);
    fv_params *params = fv_model_params(model);
    const fv_sagan_sizes size = {.channels = 1,
                                 .height = SIDE,
                                 .width = SIDE,
                                 .classes = CLASSES,
                                 .noise = NOISE,
                                 .base = 8,
                                 .last = 2,
                                 .attend = 1};
    const int count = fv_params_count(params);
    *n = (nets){.spectral.ctx = ctx};
    n->g.size = n->d.size = size;
    n->g.spectral = n->d.spectral = &n->spectral;
    CHECK_OK(ctx, fv_generator_create(params, "generator", &n->g));
    CHECK_OK(ctx, fv_discriminator_create(params, "discriminator", &n->d));
    CHECK_EQ(fv_params_count(params), count);
}

/* L_D = sum max(0, 1 - D(x)) + max(0, 1 + D(G(z))), L_G = - sum D(G(z)), over scores on both sides
 * of the hinges. */
static void losses_are_hinges(void)
{
    static nets n;
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = make_model(ctx, plain, CLASSES);
    open_nets(model, &n);
    for (int i = -2; i <= 2; i++) {
        double loss_d = 0, loss_g = 0, expected_d = 0, expected_g = 0;
        float real[ROWS], made[ROWS];
        fill(ctx, fv_model_params(model), "discriminator.score.bias", (float)i);
        const fv_batch with = batch_of(true), without = batch_of(false);
        fv_tensor *label = fv_batch_tensor(ctx, &with, "label", NULL);
        fv_tensor *x = fv_batch_tensor(ctx, &with, "pixels", NULL);
        fv_tensor *y = fv_generator_run(ctx, &n.g, fv_batch_tensor(ctx, &with, "noise", NULL),
                                        label, true, NULL);
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_discriminator_run(ctx, &n.d, x, label, false, NULL),
                                     real, sizeof real));
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_discriminator_run(ctx, &n.d, y, label, false, NULL),
                                     made, sizeof made));
        for (int r = 0; r < ROWS; r++) {
            expected_d += fmax(0, 1 - (double)real[r]) + fmax(0, 1 + (double)made[r]);
            expected_g -= (double)made[r];
        }
        CHECK_OK(ctx, fv_tensor_item(ctx, loss_of(model, &with, true), &loss_d));
        CHECK_OK(ctx, fv_tensor_item(ctx, loss_of(model, &without, true), &loss_g));
        CHECK_NEAR(loss_d, expected_d, 1e-5 * (1 + expected_d));
        CHECK_NEAR(loss_g, expected_g, 1e-5 * (1 + fabs(expected_g)));
    }
    fv_generator_free(&n.g);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* A picture's score depends on its class, and so does a sample. */
static void classes_matter(void)
{
    static nets n;
    static float samples[2][PIXELS];
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = make_model(ctx, NULL, CLASSES);
    open_nets(model, &n);
    fill(ctx, fv_model_params(model), "average.norm.0.shift", 0);
    fv_batch batch = batch_of(true);
    const int64_t same[ROWS] = {1, 1, 1};
    const void *const rows[ROWS] = {&same[0], &same[1], &same[2]};
    float scores[2][ROWS];
    fv_tensor *x = fv_batch_tensor(ctx, &batch, "pixels", NULL);
    for (int i = 0; i < 2; i++) {
        fv_tensor *label = fv_batch_tensor(ctx, &batch, "label", NULL);
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_discriminator_run(ctx, &n.d, x, label, false, NULL),
                                     scores[i], sizeof scores[i]));
        /* The first norm's scale of class 1 alone. */
        if (i) {
            const int64_t width = fv_tensor_size(n.g.gain[0], 1);
            static float gain[CLASSES * 64];
            for (int64_t k = 0; k < width; k++)
                gain[width + k] = 0.5f;
            CHECK_OK(ctx, fv_tensor_write(
                              ctx, fv_params_find(fv_model_params(model), "average.norm.0.gain"),
                              gain, (size_t)(CLASSES * width) * sizeof *gain));
        }
        fv_tensor *first = fv_slice(ctx, draw(model, ROWS, &batch), 0, 0, 1, 1);
        CHECK_OK(ctx,
                 fv_tensor_read(ctx, fv_contiguous(ctx, first), samples[i], sizeof samples[i]));
        batch.field[1].row = rows;
    }
    CHECK(memcmp(scores[0], scores[1], sizeof scores[0]) != 0);
    CHECK(memcmp(samples[0], samples[1], sizeof samples[0]) != 0);
    fv_generator_free(&n.g);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* ---- phases --------------------------------------------------------------------------------- */

static bool has_gradient(fv_params *params, const char *prefix)
{
    double norm = 0;
    CHECK_OK(fv_params_ctx(params), fv_params_grad_norm(params, prefix, &norm));
    return norm > 0;
}

/* Every weight of a network has a gradient. */
static void check_all_gradients(fv_params *params, const char *network)
{
    for (int i = 0; i < fv_params_count(params); i++) {
        const char *name = fv_params_name(params, i);
        if (strncmp(name, network, strlen(network)) != 0 || fv_params_is_buffer(params, i))
            continue;
        if (!has_gradient(params, name))
            test_failed(__FILE__, __LINE__, "%s has no gradient", name);
    }
}

/* A loss has gradients for one network alone, so nothing is left over for the other's update. */
static void each_loss_has_its_own_gradients(void)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = make_model(ctx, NULL, CLASSES);
    fv_params *params = fv_model_params(model);
    fill(ctx, params, "generator.attention.gamma", 0.1f);
    fill(ctx, params, "discriminator.attention.gamma", 0.1f);
    for (int real = 0; real < 2; real++) {
        const fv_batch batch = batch_of(real == 1);
        fv_scope_begin(ctx);
        CHECK_OK(ctx, fv_backward(ctx, loss_of(model, &batch, true)));
        CHECK_EQ(has_gradient(params, "generator."), real == 0);
        CHECK_EQ(has_gradient(params, "discriminator."), real == 1);
        check_all_gradients(params, real ? "discriminator." : "generator.");
        fv_params_zero_grad(params);
        fv_scope_end(ctx);
    }
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* ---- spectral norm and average -------------------------------------------------------------- */

/* The largest singular value of the weight that a pass uses, by many iterations of its own. */
static double largest(fv_ctx *ctx, fv_tensor *w, int axis)
{
    if (axis == 1) w = fv_transpose(ctx, w, 0, 1);
    w = fv_reshape(ctx, fv_contiguous(ctx, w), 2, (int64_t[]){fv_tensor_size(w, 0), -1});
    const int64_t n = fv_tensor_size(w, 1);
    fv_tensor *v = fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){n, 1}, 0, 1);
    double norm = 0;
    for (int i = 0; i < 200; i++) {
        v = fv_matmul(ctx, fv_transpose(ctx, w, 0, 1), fv_matmul(ctx, w, v));
        v = fv_div(ctx, v, fv_norm(ctx, v, 0, NULL, false));
    }
    CHECK_OK(ctx, fv_tensor_item(ctx, fv_norm(ctx, fv_matmul(ctx, w, v), 0, NULL, false), &norm));
    return norm;
}

/* A pass moves no vector, a step moves all of them, and after some steps every weight that a pass
 * uses has a norm of about 1. */
static void weights_have_spectral_norm_one(void)
{
    static nets n;
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = make_model(ctx, NULL, CLASSES);
    open_nets(model, &n);
    fv_tensor *u = fv_params_find(fv_model_params(model), "discriminator.down.1.u");
    float before[16], after[16];
    CHECK(fv_tensor_count(u) == 16);
    fill(ctx, fv_model_params(model), "discriminator.down.1.weight", 0.25f);
    CHECK_OK(ctx, fv_tensor_read(ctx, u, before, sizeof before));
    const fv_batch batch = batch_of(true);
    loss_of(model, &batch, true);
    CHECK_OK(ctx, fv_tensor_read(ctx, u, after, sizeof after));
    CHECK(memcmp(before, after, sizeof before) == 0);
    CHECK_OK(ctx, fv_model_kind_of(model)->step_done(fv_model_self(model), 0, 0));
    CHECK_OK(ctx, fv_tensor_read(ctx, u, after, sizeof after));
    CHECK(memcmp(before, after, sizeof before) != 0);
    for (int i = 0; i < 300; i++)
        CHECK_OK(ctx, fv_model_kind_of(model)->step_done(fv_model_self(model), 0, 0));
    for (int i = 0; i < n.spectral.count; i++) {
        fv_scope_begin(ctx);
        fv_tensor *w = fv_spectral_norms_run(ctx, &n.spectral, i, true);
        CHECK_NEAR(largest(ctx, w, n.spectral.norm[i].axis), 1, 2e-3);
        fv_scope_end(ctx);
    }
    fv_generator_free(&n.g);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* average = d average + (1 - d) weights after a step of the generator, and after no other. */
static void samples_use_the_moving_average(void)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = make_model(ctx, (run_setting[]){{"sagan.average", "0.5"}, {0}}, CLASSES);
    const fv_model_kind *kind = fv_model_kind_of(model);
    fv_params *params = fv_model_params(model);
    fv_tensor *average = fv_params_find(params, "average.picture.bias");
    fill(ctx, params, "average.picture.bias", 0);
    fill(ctx, params, "generator.picture.bias", 1);
    fv_batch batch = batch_of(true);
    loss_of(model, &batch, true);
    CHECK_OK(ctx, kind->step_done(fv_model_self(model), 1000, 0));
    CHECK_VALUES(ctx, average, 0, 0);
    batch = batch_of(false);
    loss_of(model, &batch, true);
    CHECK_OK(ctx, kind->step_done(fv_model_self(model), 1000, 1));
    CHECK_VALUES(ctx, average, 1e-7, 0.5);
    CHECK_OK(ctx, kind->step_done(fv_model_self(model), 1000, 0));
    CHECK_VALUES(ctx, average, 1e-7, 0.5);
    loss_of(model, &batch, true);
    CHECK_OK(ctx, kind->step_done(fv_model_self(model), 0, 1)); /* d = 1 / 10 at first */
    CHECK_VALUES(ctx, average, 1e-6, 0.95);
    /* A sample follows the average, not the generator. */
    static float samples[3][ROWS * PIXELS];
    for (int i = 0; i < 3; i++) {
        if (i == 1) fill(ctx, params, "generator.picture.bias", 3);
        if (i == 2) fill(ctx, params, "average.picture.bias", 3);
        CHECK_OK(ctx,
                 fv_tensor_read(ctx, draw(model, ROWS, &batch), samples[i], sizeof samples[i]));
    }
    CHECK(memcmp(samples[0], samples[1], sizeof samples[0]) == 0);
    CHECK(memcmp(samples[0], samples[2], sizeof samples[0]) != 0);
    fv_model_close(&model);
    model = make_model(ctx, (run_setting[]){{"sagan.average", "0"}, {0}}, CLASSES);
    CHECK(fv_params_find(fv_model_params(model), "average.picture.bias") == NULL);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* ---- samples and attention ------------------------------------------------------------------ */

/* A row's picture does not depend on the others; rows without a class get one after the other. */
static void samples_are_pictures(void)
{
    static float all[ROWS][PIXELS], one[PIXELS], free_ones[CLASSES + 1][PIXELS];
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = make_model(ctx, NULL, CLASSES);
    fv_batch batch = batch_of(false);
    fv_tensor *x = draw(model, ROWS, &batch);
    CHECK(fv_tensor_rank(x) == 4 && fv_tensor_size(x, 1) == 1 && fv_tensor_size(x, 2) == SIDE);
    CHECK_OK(ctx, fv_tensor_read(ctx, x, all, sizeof all));
    for (int i = 0; i < ROWS * PIXELS; i++)
        CHECK(all[i / PIXELS][i % PIXELS] > 0 && all[i / PIXELS][i % PIXELS] < 1);
    batch.rows = 1;
    batch.field[0].row++;
    batch.field[1].row++;
    CHECK_OK(ctx, fv_tensor_read(ctx, draw(model, 1, &batch), one, sizeof one));
    CHECK(memcmp(one, all[1], sizeof one) == 0);
    fv_ctx_set_step(ctx, 9, 0);
    CHECK_OK(ctx, fv_tensor_read(ctx, draw(model, CLASSES + 1, NULL), free_ones, sizeof free_ones));
    CHECK(memcmp(free_ones[0], free_ones[CLASSES], sizeof one) != 0); /* other noise */
    fv_model_close(&model);
    model = make_model(ctx, NULL, 0); /* no classes at all */
    CHECK_OK(ctx, fv_tensor_read(ctx, draw(model, 1, NULL), one, sizeof one));
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

typedef struct captured {
    int count;
    char name[2][48];
} captured;

static fv_status check_site(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    captured *c = user;
    enum { CELLS = SIDE / 2 * SIDE / 2 };
    static float sums[ROWS * CELLS];
    CHECK(site->captured.heads == 1 && site->captured.n_q == CELLS && site->captured.n_k == CELLS);
    fv_tensor *sum = fv_sum(ctx, site->captured.weights, 1, (int[]){-1}, false);
    CHECK_OK(ctx, fv_tensor_read(ctx, sum, sums, sizeof sums));
    for (int i = 0; i < ROWS * CELLS; i++)
        CHECK_NEAR(sums[i], 1, 1e-5);
    snprintf(c->name[c->count++ % 2], sizeof *c->name, "%s", site->name);
    return FV_OK;
}

static void attention_is_captured_in_both_networks(void)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = make_model(ctx, NULL, CLASSES);
    const fv_model_kind *kind = fv_model_kind_of(model);
    fv_site sites[2];
    CHECK_EQ(kind->attention_sites(fv_model_self(model), NULL, 0), 2);
    CHECK_EQ(kind->attention_sites(fv_model_self(model), sites, 2), 2);
    run_check_sites(model, 2);
    CHECK_STR(sites[0].name, FV_GENERATOR_SITE);
    CHECK_STR(sites[1].name, FV_DISCRIMINATOR_SITE);
    CHECK(sites[1].rows == SIDE / 2 && sites[1].cols == SIDE / 2);
    for (int real = 0; real < 2; real++) {
        captured c = {0};
        const fv_capture capture = {
            .options = {.weights = true}, .on_weights = check_site, .user = &c};
        const fv_batch batch = batch_of(real == 1);
        CHECK_OK(ctx, fv_model_capture_attention(model, &batch, &(fv_pass){.capture = &capture}));
        CHECK_EQ(c.count, real ? 1 : 2); /* real pictures: the discriminator alone */
        CHECK_STR(c.name[c.count - 1], FV_DISCRIMINATOR_SITE);
    }
    fv_model_close(&model);
    model = make_model(ctx, plain, CLASSES);
    CHECK_EQ(kind->attention_sites(fv_model_self(model), sites, 2), 0);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

static void folders_open_as_they_were_saved(void)
{
    static float before[ROWS * PIXELS], after[ROWS * PIXELS];
    folder_make();
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = make_model(ctx, NULL, CLASSES), *copy = NULL;
    fill(ctx, fv_model_params(model), "average.attention.gamma", 0.25f);
    const fv_batch batch = batch_of(false);
    CHECK_OK(ctx, fv_tensor_read(ctx, draw(model, ROWS, &batch), before, sizeof before));
    CHECK_OK(ctx, fv_model_save(model, folder_sub("model")));
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("model"), &copy));
    CHECK_OK(ctx, fv_tensor_read(ctx, draw(copy, ROWS, &batch), after, sizeof after));
    CHECK(memcmp(before, after, sizeof before) == 0);
    CHECK(fv_model_can(copy, FV_CAN_DRAW) && !fv_model_can(copy, FV_CAN_CLASSIFY));
    fv_model_close(&copy);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
    folder_remove();
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void settings_that_do_not_fit_are_refused(void)
{
    static const struct {
        const char *key, *value, *number;
        int64_t is;
        const char *message;
    } cases[] = {
        {"sagan.attend", "3", NULL, 0, "sagan.attend is 3, expected at most sagan.levels, 2"},
        {"sagan.levels", "5", NULL, 0, "sagan.levels is 5: pictures of 16 x 16"},
        {"sagan.levels", "0", "height", 15, "pictures of 15 x 16 pixels cannot be halved"},
        {"sagan.levels", "0", "noise", 0, "noise of 0 numbers"},
        {"sagan.levels", "0", "width", 4096, "pictures of 1 x 16 x 4096"}};
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fv_recipe *recipe = run_recipe(ctx, (run_setting[]){{cases[i].key, cases[i].value}, {0}});
        fv_data_spec spec = spec_of(CLASSES);
        if (cases[i].number) fv_data_spec_set(&spec, cases[i].number, cases[i].is);
        CHECK_EQ(fv_model_create(ctx, "sagan", recipe, &spec, &model), FV_ERR_ARGUMENT);
        if (!strstr(fv_ctx_message(ctx), cases[i].message))
            test_failed(__FILE__, __LINE__, "'%s' lacks '%s'", fv_ctx_message(ctx),
                        cases[i].message);
        fv_recipe_destroy(&recipe);
    }
    fv_data_spec reads = spec_of(CLASSES);
    reads.ability = FV_CAN_CLASSIFY;
    CHECK_EQ(fv_model_create(ctx, "sagan", NULL, &reads, &model), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "can draw pictures, not classify") != NULL);
    fv_ctx_destroy(&ctx);
}

static void batches_that_do_not_fit_are_refused(void)
{
    static const int64_t outside[ROWS] = {0, CLASSES, 0};
    static const void *const rows[ROWS] = {&outside[0], &outside[1], &outside[2]};
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = make_model(ctx, NULL, CLASSES);
    fv_batch batch = batch_of(true);
    batch.field[1].row = rows;
    draw(model, ROWS, &batch);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "a label is not the number of a class");
    batch = batch_of(true);
    batch.field[0].shape[0] = NOISE + 1;
    draw(model, ROWS, &batch);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "the field noise has another size");
    batch = batch_of(true);
    batch.field[2].shape[1] = SIDE + 1;
    loss_of(model, &batch, true);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "the pictures have another size");
    draw(model, ROWS + 1, &batch);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "sagan: ");
    draw(model, 0, NULL);
    CHECK_ERROR(ctx, FV_ERR_ARGUMENT, "expected one row or more");
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* ---- memory --------------------------------------------------------------------------------- */

static fv_status use_model(fv_ctx *ctx, const void *unused)
{
    (void)unused;
    static float sample[PIXELS];
    const fv_data_spec spec = spec_of(CLASSES);
    const fv_batch with = batch_of(true), without = batch_of(false);
    fv_model *model = NULL;
    fv_scope_begin(ctx);
    fv_status s = fv_model_create(ctx, "sagan", NULL, &spec, &model);
    for (int phase = 0; phase < 2 && s == FV_OK; phase++) {
        s = fv_backward(ctx, loss_of(model, phase ? &without : &with, true));
        if (s == FV_OK) s = fv_model_kind_of(model)->step_done(fv_model_self(model), 1, phase);
    }
    if (s == FV_OK) s = fv_tensor_read(ctx, draw(model, 1, NULL), sample, sizeof sample);
    fv_model_close(&model);
    fv_scope_end(ctx);
    return s;
}

static void memory_may_run_out(void) { CHECK(failing_everywhere(use_model, NULL, 40) > 150); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    RUN(without_gamma_it_is_a_plain_dcgan);
    RUN(losses_are_hinges);
    RUN(classes_matter);
    RUN(each_loss_has_its_own_gradients);
    RUN(weights_have_spectral_norm_one);
    RUN(samples_use_the_moving_average);
    RUN(samples_are_pictures);
    RUN(attention_is_captured_in_both_networks);
    RUN(folders_open_as_they_were_saved);
    RUN(settings_that_do_not_fit_are_refused);
    RUN(batches_that_do_not_fit_are_refused);
    RUN(memory_may_run_out);
    return TEST_END();
}
