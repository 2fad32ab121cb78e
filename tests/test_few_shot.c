/*
 * SNAIL for few-shot classification: queries are independent of each other and of the batch, labels
 * of queries are not read, gradients are those of central differences, captures are
 * distributions, bad batches are named.
 */
#include "fovea/autograd.h"
#include "fovea/image.h"
#include "fovea/model.h"
#include "fovea/ops.h"
#include "fovea/shots.h"
#include "support/failing.h"
#include "support/runs.h"
#include "support/test.h"

enum { WAYS = 3, SHOTS = 2, EXAMPLES = WAYS * SHOTS, ROWS = 2, MOST_QUERIES = 2, STEPS = 7 };
enum { PIXELS = FV_SHOTS_SIDE * FV_SHOTS_SIDE, PICTURES = EXAMPLES + MOST_QUERIES };

static fv_ctx *ctx;

static fv_model *make_in(fv_ctx *in, const char *matching, fv_status *status)
{
    fv_data_spec spec = {.ability = FV_CAN_LEARN};
    fv_recipe *recipe = NULL;
    fv_model *model = NULL;
    fv_data_spec_set(&spec, "side", FV_SHOTS_SIDE);
    fv_data_spec_set(&spec, "ways", WAYS);
    fv_data_spec_set(&spec, "shots", SHOTS);
    fv_ctx_set_step(in, 0, 0);
    const fv_key_table keys = fv_model_kind_find(in, "few-shot")->keys();
    *status = fv_recipe_create(in, &keys, 1, &recipe);
    static const char *const small[][2] = {
        {"few-shot.channels", "3"},
        {"few-shot.width", "4"},
        {"few-shot.stages", "attention 3 4, tc 2, attention 2 3"}};
    if (*status == FV_OK) *status = fv_recipe_set(recipe, "few-shot.matching", matching);
    for (int i = 0; i < 3; i++)
        if (*status == FV_OK) *status = fv_recipe_set(recipe, small[i][0], small[i][1]);
    if (*status == FV_OK) *status = fv_model_create(in, "few-shot", recipe, &spec, &model);
    fv_recipe_destroy(&recipe);
    return model;
}

static fv_model *make_matching(const char *weight)
{
    fv_status status;
    fv_model *model = make_in(ctx, weight, &status);
    CHECK_OK(ctx, status);
    return model;
}

static fv_model *make(void) { return make_matching("1"); }

/* Two episodes: one with two queries, one with one. Every picture is a smooth pattern of its own.
 */
typedef struct rows {
    float pixels[ROWS][PICTURES * PIXELS];
    int64_t label[ROWS][PICTURES], length[ROWS];
    const void *pixel_row[ROWS], *label_row[ROWS];
} rows;

static rows *make_rows(void)
{
    static const int64_t labels[ROWS][PICTURES] = {{2, 0, 1, 1, 0, 2, 1, 0},
                                                   {0, 0, 1, 2, 2, 1, 2, 0}};
    static rows r;
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < PICTURES * PIXELS; k++)
            r.pixels[i][k] = (float)(0.5 + 0.5 * sin(0.37 * k + 1.7 * (k / PIXELS) + 2.3 * i));
        memcpy(r.label[i], labels[i], sizeof r.label[i]);
        r.length[i] = PICTURES - i;
        r.pixel_row[i] = r.pixels[i];
        r.label_row[i] = r.label[i];
    }
    return &r;
}

static fv_batch batch_of(const rows *r, int64_t first, int64_t count)
{
    fv_batch b;
    fv_batch_init(&b, count);
    fv_batch_add(&b, (fv_field){.name = "pixels",
                                .dtype = FV_F32,
                                .rank = 3,
                                .shape = {1, FV_SHOTS_SIDE, FV_SHOTS_SIDE},
                                .row = r->pixel_row + first,
                                .length = r->length + first});
    fv_batch_add(&b, (fv_field){.name = "label",
                                .dtype = FV_I64,
                                .row = r->label_row + first,
                                .length = r->length + first});
    return b;
}

/* Logits of all queries of some rows. */
static void read_logits(fv_model *model, const rows *r, int64_t first, int64_t count,
                        int64_t queries, float *out)
{
    const fv_batch b = batch_of(r, first, count);
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *y = fv_model_classify(model, &b, NULL);
    CHECK_EQ(fv_tensor_count(y), queries * WAYS);
    CHECK_OK(ctx, fv_tensor_read(ctx, y, out, (size_t)(queries * WAYS) * sizeof *out));
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
}

static void queries_do_not_depend_on_others(void)
{
    fv_model *model = make();
    rows *r = make_rows();
    float all[3 * WAYS], alone[WAYS], changed[3 * WAYS];
    read_logits(model, r, 0, ROWS, 3, all);
    read_logits(model, r, 1, 1, 1, alone);
    CHECK(memcmp(all + 2 * WAYS, alone, sizeof alone) == 0);
    r->length[0] = EXAMPLES + 1; /* the first query alone, then the second */
    read_logits(model, r, 0, 1, 1, alone);
    CHECK(memcmp(all, alone, sizeof alone) == 0);
    memcpy(r->pixels[0] + EXAMPLES * PIXELS, r->pixels[0] + (EXAMPLES + 1) * PIXELS,
           PIXELS * sizeof(float));
    read_logits(model, r, 0, 1, 1, alone);
    CHECK(memcmp(all + WAYS, alone, sizeof alone) == 0);
    CHECK(memcmp(all, all + WAYS, sizeof alone) != 0);
    r = make_rows();
    r->label[0][EXAMPLES] = 99; /* labels of queries are not read */
    r->label[0][EXAMPLES + 1] = -7;
    read_logits(model, r, 0, ROWS, 3, changed);
    CHECK(memcmp(all, changed, sizeof all) == 0);
    r->label[0][2] = 0; /* those of examples are */
    read_logits(model, r, 0, ROWS, 3, changed);
    CHECK(memcmp(all, changed, WAYS * sizeof(float)) != 0);
    CHECK(memcmp(all + 2 * WAYS, changed + 2 * WAYS, WAYS * sizeof(float)) == 0);
    fv_model_close(&model);
}

/* ---- loss and gradients --------------------------------------------------------------------- */

static fv_tensor *loss_of(fv_model *model, const rows *r, bool training)
{
    const fv_batch b = batch_of(r, 0, ROWS);
    const fv_pass pass = {.training = training};
    return fv_model_kind_of(model)->loss(ctx, fv_model_self(model), &b, &pass);
}

static double value_of(fv_model *model, const rows *r, bool training)
{
    double value = 0;
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    CHECK_OK(ctx, fv_tensor_item(ctx, loss_of(model, r, training), &value));
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    return value;
}

static void the_loss_is_the_cross_entropy_of_queries(void)
{
    fv_model *model = make();
    const rows *r = make_rows();
    const int64_t answer[] = {1, 0, 2};
    float z[3 * WAYS];
    double want = 0;
    read_logits(model, r, 0, ROWS, 3, z);
    for (int q = 0; q < 3; q++) {
        double sum = 0;
        for (int k = 0; k < WAYS; k++)
            sum += exp((double)z[q * WAYS + k]);
        want += log(sum) - (double)z[q * WAYS + answer[q]];
    }
    CHECK_NEAR(value_of(model, r, false), want, 1e-5);
    fv_model_close(&model);
}

/* What the CNN makes of all pictures in training, [pictures][4]; by its parameters' names. */
static void embeddings_of(fv_model *model, const rows *r, float *out)
{
    enum { ALL = 2 * PICTURES - 1, WIDTH = 4 };
    const fv_params *params = fv_model_params(model);
    float *pixels = malloc(ALL * PIXELS * sizeof *pixels);
    for (int i = 0; i < ALL; i++)
        for (int k = 0; k < PIXELS; k++)
            pixels[i * PIXELS + k] = 2 * r->pixels[i / PICTURES][i % PICTURES * PIXELS + k] - 1;
    fv_scope_begin(ctx);
    fv_no_grad_begin(ctx);
    fv_tensor *x =
        fv_from_host(ctx, FV_F32, 4, (int64_t[]){ALL, 1, FV_SHOTS_SIDE, FV_SHOTS_SIDE}, pixels);
    for (int i = 0; i < 4; i++) {
        char conv[32], weight[32], bias[32];
        snprintf(conv, sizeof conv, "block.%d.conv.weight", i);
        snprintf(weight, sizeof weight, "block.%d.norm.weight", i);
        snprintf(bias, sizeof bias, "block.%d.norm.bias", i);
        x = fv_conv2d(ctx, x, fv_params_find(params, conv), NULL,
                      &(fv_conv2d_options){.padding = {1, 1}});
        x = fv_batch_norm(ctx, x, fv_params_find(params, weight), fv_params_find(params, bias),
                          1e-5, NULL, NULL);
        x = fv_max_pool2d(ctx, fv_relu(ctx, x), &(fv_pool2d_options){.window = {2, 2}});
    }
    x = fv_linear(ctx, fv_reshape(ctx, x, 2, (int64_t[]){ALL, -1}),
                  fv_params_find(params, "embedding.weight"),
                  fv_params_find(params, "embedding.bias"));
    CHECK_OK(ctx, fv_tensor_read(ctx, x, out, (size_t)ALL * WIDTH * sizeof *out));
    fv_no_grad_end(ctx);
    fv_scope_end(ctx);
    free(pixels);
}

/* What training adds: the matching network's loss, by its formula. */
static void training_adds_the_loss_of_matching(void)
{
    enum { WIDTH = 4 };
    static const int64_t first[3] = {0, 0, PICTURES},
                         query[3] = {EXAMPLES, EXAMPLES + 1, PICTURES + EXAMPLES};
    const rows *r = make_rows();
    fv_model *with = make_matching("2.5"), *without = make_matching("0");
    float e[(2 * PICTURES - 1) * WIDTH];
    double want = 0;
    embeddings_of(with, r, e);
    for (int q = 0; q < 3; q++) {
        const int64_t *label = r->label[q / 2];
        double all = 0, right = 0;
        for (int64_t i = 0; i < EXAMPLES; i++) {
            double apart = 0;
            for (int k = 0; k < WIDTH; k++)
                apart +=
                    pow((double)e[(first[q] + i) * WIDTH + k] - (double)e[query[q] * WIDTH + k], 2);
            all += exp(-apart);
            if (label[i] == label[query[q] - first[q]]) right += exp(-apart);
        }
        want -= log((right / all + 1e-6) / (1 + WAYS * 1e-6));
    }
    CHECK(want > 0.1);
    CHECK_NEAR(value_of(with, r, true) - value_of(without, r, true), 2.5 * want, 1e-4);
    CHECK_NEAR(value_of(with, r, false), value_of(without, r, false), 0);
    fv_model_close(&with);
    fv_model_close(&without);
}

/* The slope along cos(3.1 i + p) from losses at x + step and x - step. */
static double difference(fv_model *model, const rows *r, bool training, int p, const float *x,
                         double step)
{
    fv_tensor *t = fv_params_tensor(fv_model_params(model), p);
    const int64_t n = fv_tensor_count(t);
    float *y = malloc((size_t)n * sizeof *y);
    double side[2];
    for (int s = 0; s < 2; s++) {
        for (int64_t i = 0; i < n; i++)
            y[i] = x[i] + (float)((s ? -step : step) * cos(3.1 * (double)i + p));
        CHECK_OK(ctx, fv_tensor_write(ctx, t, y, (size_t)n * sizeof *y));
        side[s] = value_of(model, r, training);
    }
    CHECK_OK(ctx, fv_tensor_write(ctx, t, x, (size_t)n * sizeof *x));
    free(y);
    return (side[0] - side[1]) / (2 * step);
}

/* The derivative along one direction of each parameter, in training and in evaluation. The kinks of
 * ReLU and of maxima disturb large steps, rounding disturbs small ones: one of four must agree. */
static void check_gradients(fv_model *model, const rows *r, bool training)
{
    fv_params *params = fv_model_params(model);
    fv_scope_begin(ctx);
    CHECK_OK(ctx, fv_backward(ctx, loss_of(model, r, training)));
    for (int p = 0; p < fv_params_count(params); p++) {
        fv_tensor *t = fv_params_tensor(params, p), *grad = fv_grad(ctx, t);
        if (strstr(fv_params_name(params, p), "running_")) continue;
        const int64_t n = fv_tensor_count(t);
        const size_t bytes = (size_t)n * sizeof(float);
        float *x = malloc(bytes), *g = malloc(bytes);
        CHECK_OK(ctx, fv_tensor_read(ctx, t, x, bytes));
        CHECK_OK(ctx, fv_tensor_read(ctx, grad, g, bytes));
        double slope = 0, best = INFINITY;
        for (int64_t i = 0; i < n; i++)
            slope += (double)g[i] * cos(3.1 * (double)i + p);
        for (int k = 9; k <= 15 && fabs(best - slope) > 5e-3 * (1 + fabs(slope)); k += 2) {
            const double now = difference(model, r, training, p, x, exp2(-k));
            if (fabs(now - slope) < fabs(best - slope)) best = now;
        }
        if (!(fabs(slope - best) <= 5e-3 * (1 + fabs(slope))))
            test_failed(__FILE__, __LINE__, "%s: %.9g, differences give %.9g",
                        fv_params_name(params, p), slope, best);
        CHECK(fabs(slope) > 1e-5 || strstr(fv_params_name(params, p), "key.bias"));
        free(x), free(g);
    }
    fv_scope_end(ctx);
}

static void gradients_are_central_differences(void)
{
    const rows *r = make_rows();
    for (int training = 0; training < 2; training++) {
        fv_model *model = make();
        check_gradients(model, r, training);
        fv_model_close(&model);
    }
}

/* Running statistics move when the step is done, not in the pass. */
static void statistics_move_with_the_step(void)
{
    fv_model *model = make();
    const rows *r = make_rows();
    const double before = value_of(model, r, false);
    value_of(model, r, true);
    CHECK_NEAR(value_of(model, r, false), before, 0);
    CHECK_OK(ctx, fv_model_kind_of(model)->step_done(fv_model_self(model), 0, 0));
    CHECK(value_of(model, r, false) != before);
    fv_model_close(&model);
}

/* ---- attention ------------------------------------------------------------------------------ */

typedef struct seen {
    int sites;
    double worst; /* distance of a row's sum to 1 */
    bool wrong;   /* another shape */
} seen;

static fv_status take(void *user, fv_ctx *in, const fv_site_weights *site)
{
    seen *s = user;
    float w[3 * STEPS * STEPS];
    const fv_tensor *t = site->captured.weights;
    s->sites++;
    s->wrong = s->wrong || fv_tensor_count(t) != 3 * STEPS * STEPS;
    if (s->wrong) return FV_OK;
    const fv_status status = fv_tensor_read(in, t, w, sizeof w);
    for (int row = 0; row < 3 * STEPS; row++) {
        double sum = 0;
        for (int k = 0; k < STEPS; k++)
            sum += (double)w[row * STEPS + k];
        s->worst = fmax(s->worst, fabs(sum - 1));
    }
    return status;
}

static void captures_are_distributions(void)
{
    fv_model *model = make();
    const fv_batch b = batch_of(make_rows(), 0, ROWS);
    seen s = {.sites = 0};
    fv_site sites[4];
    const fv_capture capture = {.options = {.weights = true}, .on_weights = take, .user = &s};
    const fv_pass pass = {.capture = &capture};
    fv_scope_begin(ctx);
    CHECK_OK(ctx, fv_model_capture_attention(model, &b, &pass));
    fv_scope_end(ctx);
    CHECK_EQ(s.sites, 2);
    CHECK(!s.wrong && s.worst < 1e-5);
    CHECK_EQ(fv_model_kind_of(model)->attention_sites(fv_model_self(model), sites, 4), 2);
    run_check_sites(model, 2);
    CHECK_STR(sites[1].name, "attention.1");
    fv_model_close(&model);
}

/* ---- what is refused ------------------------------------------------------------------------ */

static void bad_batches_are_named(void)
{
    static const char *const messages[] = {
        "no \"pixels\", rows of pictures of 1 x 28 x 28",
        "no \"label\" for each picture",
        "row 1 has 6 pictures and 6 labels, expected 6 examples and one query or more",
        "row 0 has 8 pictures and 7 labels",
        "row 0: example 3 has label 3, expected 0 to 2",
        "no \"pixels\""};
    fv_model *model = make();
    for (int i = 0; i < 6; i++) {
        rows *r = make_rows();
        int64_t lengths[ROWS] = {7, 7};
        if (i == 2) r->length[1] = EXAMPLES;
        if (i == 4) r->label[0][3] = WAYS;
        fv_batch b = batch_of(r, 0, ROWS);
        if (i == 0) b.field[0].name = "pictures";
        if (i == 1) b.count = 1;
        if (i == 3) b.field[1].length = lengths;
        if (i == 5) b.field[0].shape[1] = 27;
        fv_scope_begin(ctx);
        fv_model_classify(model, &b, NULL);
        fv_scope_end(ctx);
        if (!strstr(fv_ctx_message(ctx), messages[i]))
            test_failed(__FILE__, __LINE__, "batch %d: %s", i, fv_ctx_message(ctx));
        CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    }
    fv_model_close(&model);
}

static void bad_models_are_named(void)
{
    static const struct {
        int64_t side, ways, shots;
        const char *message;
    } specs[] = {{15, 5, 1, "pictures of 15 pixels, expected 16 to 256"},
                 {257, 5, 1, "pictures of 257 pixels"},
                 {28, 1, 1, "1 classes with 1 examples"},
                 {28, 257, 1, "257 classes"},
                 {28, 5, 0, "5 classes with 0 examples"},
                 {28, 5, 205, "5 classes with 205 examples"}};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        fv_data_spec spec = {.ability = FV_CAN_LEARN};
        fv_model *model = NULL;
        fv_data_spec_set(&spec, "side", specs[i].side);
        fv_data_spec_set(&spec, "ways", specs[i].ways);
        fv_data_spec_set(&spec, "shots", specs[i].shots);
        CHECK_EQ(fv_model_create(ctx, "few-shot", NULL, &spec, &model), FV_ERR_ARGUMENT);
        if (!strstr(fv_ctx_message(ctx), specs[i].message))
            test_failed(__FILE__, __LINE__, "spec %d: %s", (int)i, fv_ctx_message(ctx));
    }
    fv_data_spec spec = {.ability = FV_CAN_CLASSIFY};
    fv_model *model = NULL;
    CHECK_EQ(fv_model_create(ctx, "few-shot", NULL, &spec, &model), FV_ERR_ARGUMENT);
}

static fv_status use_model(fv_ctx *in, const void *batch)
{
    const fv_pass pass = {.training = true};
    fv_status status;
    fv_model *model = make_in(in, "1", &status);
    fv_scope_begin(in);
    if (model)
        status =
            fv_backward(in, fv_model_kind_of(model)->loss(in, fv_model_self(model), batch, &pass));
    fv_scope_end(in);
    fv_model_close(&model);
    return status;
}

static void memory_may_run_out(void)
{
    const fv_batch b = batch_of(make_rows(), 0, ROWS);
    CHECK(failing_everywhere(use_model, &b, 0) > 100);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    ctx = run_context(1, 1);
    RUN(queries_do_not_depend_on_others);
    RUN(the_loss_is_the_cross_entropy_of_queries);
    RUN(training_adds_the_loss_of_matching);
    RUN(gradients_are_central_differences);
    RUN(statistics_move_with_the_step);
    RUN(captures_are_distributions);
    RUN(bad_batches_are_named);
    RUN(bad_models_are_named);
    RUN(memory_may_run_out);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
