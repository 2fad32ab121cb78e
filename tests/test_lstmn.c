/*
 * LSTMN models: states and attention against the plain formula in double, rows of any length give
 * what they give alone, a step at a time gives what the whole text gives, a plain layer is an LSTM,
 * gradients by differences, learning, resuming, folders, wrong inputs, failing memory.
 */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "fovea/autograd.h"
#include "fovea/model.h"
#include "fovea/ops.h"
#include "models/lstmn.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "support/test.h"

/* Fewer distances than positions: the farthest keys share a bias. */
enum { ROWS = 2, N = 5, IN = 3, HIDDEN = 4, WIDTH = 3, DISTANCES = 3 };

static fv_ctx *ctx;

static fv_tensor *numbers(int rank, const int64_t *shape, double from)
{
    float x[256];
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)sin(from + 1.3 * (double)i);
    return fv_from_host(ctx, FV_F32, rank, shape, x);
}

static fv_tensor *inputs(int64_t n) { return numbers(3, (int64_t[]){ROWS, n, IN}, 0.4); }

static void make_layer(fv_params *params, int64_t width, int64_t distances, fv_lstmn_layer *out)
{
    const fv_lstmn_sizes sizes = {
        .in = IN, .hidden = HIDDEN, .width = width, .distances = distances, .recency = 0.8};
    CHECK_OK(ctx, fv_lstmn_layer_create(params, "l", &sizes, out));
    CHECK((out->nearness != NULL) == (width > 0 && distances > 0));
    if (out->v) CHECK_OK(ctx, fv_tensor_write(ctx, out->v, (float[]){1.5F, -2, 0.7F}, WIDTH * 4));
}

/* ---- the formula ---------------------------------------------------------------------------- */

static void product(const float *w, int out, int in, const double *x, double *y)
{
    for (int i = 0; i < out; i++)
        for (int j = 0; j < in; j++)
            y[i] += (double)w[i * in + j] * x[j];
}

static const float *values_of(fv_tensor *t, float *room)
{
    CHECK_OK(ctx, fv_tensor_read(ctx, t, room, (size_t)fv_tensor_count(t) * sizeof *room));
    return room;
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* States and weights of one row, without any tensor. */
static void expect_row(const fv_lstmn_layer *l, const float *x, int n, double h[][HIDDEN],
                       double a[][N])
{
    float xg[4 * HIDDEN * IN], rg[4 * HIDDEN * HIDDEN], xq[WIDTH * IN], rq[WIDTH * HIDDEN],
        k[WIDTH * HIDDEN], v[WIDTH], b[DISTANCES] = {0};
    double c[N][HIDDEN], r[HIDDEN] = {0};
    values_of(l->x_gates.weight, xg), values_of(l->r_gates.weight, rg);
    values_of(l->x_query.weight, xq), values_of(l->r_query.weight, rq);
    values_of(l->key.weight, k), values_of(l->v, v);
    if (l->nearness) values_of(l->nearness, b);
    for (int t = 0; t < n; t++) {
        double in[IN], q[WIDTH] = {0}, m[HIDDEN] = {0}, sum = 0, gates[4 * HIDDEN] = {0};
        for (int i = 0; i < IN; i++)
            in[i] = (double)x[t * IN + i];
        product(xq, WIDTH, IN, in, q);
        product(rq, WIDTH, HIDDEN, r, q);
        memset(r, 0, sizeof r);
        for (int j = 0; j < t; j++) {
            double key[WIDTH] = {0}, score = 0;
            product(k, WIDTH, HIDDEN, h[j], key);
            for (int i = 0; i < WIDTH; i++)
                score += (double)v[i] * tanh(q[i] + key[i]);
            if (l->nearness) score += (double)b[t - j < DISTANCES ? DISTANCES - (t - j) : 0];
            sum += a[t][j] = exp(score);
        }
        for (int j = 0; j < N; j++) {
            a[t][j] = j < t ? a[t][j] / sum : 0;
            for (int i = 0; j < t && i < HIDDEN; i++)
                r[i] += a[t][j] * h[j][i], m[i] += a[t][j] * c[j][i];
        }
        product(xg, 4 * HIDDEN, IN, in, gates);
        product(rg, 4 * HIDDEN, HIDDEN, r, gates);
        for (int i = 0; i < HIDDEN; i++) {
            c[t][i] =
                sigmoid(gates[HIDDEN + i]) * m[i] + sigmoid(gates[i]) * tanh(gates[2 * HIDDEN + i]);
            h[t][i] = sigmoid(gates[3 * HIDDEN + i]) * tanh(c[t][i]);
        }
    }
}

static void expect_formula(int64_t distances)
{
    fv_params *params = NULL;
    fv_lstmn_layer layer;
    fv_lstmn_tape tape = {0};
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    make_layer(params, WIDTH, distances, &layer);
    /* Not as at first: equal steps would look the same one distance on. */
    const float bias[DISTANCES] = {-1.6F, -0.3F, 0.4F};
    if (layer.nearness) CHECK_OK(ctx, fv_tensor_write(ctx, layer.nearness, bias, sizeof bias));
    fv_tensor *weights, *x = inputs(N), *h = fv_lstmn_read(ctx, &layer, x, NULL, &tape, &weights);
    float got[ROWS][N][HIDDEN], map[ROWS][N][N], in[ROWS][N][IN];
    CHECK_OK(ctx, fv_tensor_read(ctx, h, got, sizeof got));
    CHECK_OK(ctx, fv_tensor_read(ctx, weights, map, sizeof map));
    CHECK_OK(ctx, fv_tensor_read(ctx, x, in, sizeof in));
    for (int r = 0; r < ROWS; r++) {
        double want[N][HIDDEN], a[N][N];
        expect_row(&layer, in[r][0], N, want, a);
        for (int t = 0; t < N; t++) {
            for (int i = 0; i < HIDDEN; i++)
                CHECK_NEAR((double)got[r][t][i], want[t][i], 1e-5);
            for (int j = 0; j < N; j++)
                CHECK_NEAR((double)map[r][t][j], a[t][j], 1e-5);
        }
    }
    fv_params_destroy(&params);
}

static void states_and_weights_are_the_formula(void)
{
    expect_formula(0);
    expect_formula(DISTANCES);
}

/* The biases begin at -recency (distance - 1), the farthest first. */
static void biases_begin_with_the_recent(void)
{
    fv_params *params = NULL;
    fv_lstmn_layer layer;
    float b[DISTANCES];
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    make_layer(params, WIDTH, DISTANCES, &layer);
    values_of(layer.nearness, b);
    for (int i = 0; i < DISTANCES; i++)
        CHECK_NEAR((double)b[i], -0.8 * (DISTANCES - 1 - i), 1e-6);
    fv_params_destroy(&params);
}

static void a_tape_continues(void)
{
    for (int turn = 0; turn < 3; turn++) {
        fv_params *params = NULL;
        fv_lstmn_layer layer;
        fv_lstmn_tape once = {0}, twice = {0};
        CHECK_OK(ctx, fv_params_create(ctx, &params));
        make_layer(params, turn > 0 ? WIDTH : 0, turn > 1 ? DISTANCES : 0, &layer);
        float whole[ROWS][N][HIDDEN], parts[ROWS][N][HIDDEN];
        fv_tensor *x = inputs(N), *first = fv_slice(ctx, x, 1, 0, 2, 1),
                  *rest = fv_slice(ctx, x, 1, 2, N, 1), *list[2];
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_lstmn_read(ctx, &layer, x, NULL, &once, NULL), whole,
                                     sizeof whole));
        list[0] = fv_lstmn_read(ctx, &layer, first, NULL, &twice, NULL);
        list[1] = fv_lstmn_read(ctx, &layer, rest, NULL, &twice, NULL);
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_concat(ctx, 2, list, 1), parts, sizeof parts));
        CHECK(memcmp(whole, parts, sizeof whole) == 0);
        fv_params_destroy(&params);
    }
}

static void a_plain_layer_is_an_lstm(void)
{
    fv_params *params = NULL;
    fv_lstmn_layer layer;
    fv_lstmn_tape tape = {0};
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    make_layer(params, 0, DISTANCES, &layer);
    fv_tensor *x = inputs(N), *got = fv_lstmn_read(ctx, &layer, x, NULL, &tape, NULL);
    fv_tensor *gates = fv_transpose(ctx, fv_dense_run(ctx, &layer.x_gates, x), 0, 1);
    fv_tensor *want = fv_lstm(ctx, gates, layer.r_gates.weight, NULL, NULL, false, NULL, NULL);
    float a[ROWS][N][HIDDEN], b[N][ROWS][HIDDEN];
    CHECK_OK(ctx, fv_tensor_read(ctx, got, a, sizeof a));
    CHECK_OK(ctx, fv_tensor_read(ctx, want, b, sizeof b));
    for (int r = 0; r < ROWS; r++)
        for (int t = 0; t < N; t++)
            for (int i = 0; i < HIDDEN; i++)
                CHECK_NEAR((double)a[r][t][i], (double)b[t][r][i], 1e-6);
    fv_params_destroy(&params);
}

/* ---- gradients ------------------------------------------------------------------------------ */

static fv_tensor *weighted_sum(const fv_lstmn_layer *layer, bool padded)
{
    fv_lstmn_tape tape = {0};
    const int64_t shape[] = {ROWS, N};
    fv_tensor *real =
        padded ? fv_from_host(ctx, FV_F32, 2, shape, (float[]){0, 0, 1, 1, 1, 1, 1, 1, 1, 1})
               : NULL;
    fv_tensor *h = fv_lstmn_read(ctx, layer, inputs(N), real, &tape, NULL);
    if (padded) h = fv_mul(ctx, h, fv_unsqueeze(ctx, real, 2));
    return fv_sum(ctx, fv_mul(ctx, h, numbers(3, (int64_t[]){ROWS, N, HIDDEN}, 2)), 0, NULL, false);
}

static double value_of(const fv_lstmn_layer *layer, bool padded)
{
    double value = 0;
    fv_no_grad_begin(ctx);
    CHECK_OK(ctx, fv_tensor_item(ctx, weighted_sum(layer, padded), &value));
    fv_no_grad_end(ctx);
    return value;
}

/* The derivative along one random direction of each parameter, against central differences. */
static void gradients_are_right(void)
{
    for (int turn = 0; turn < 8; turn++) {
        fv_params *params = NULL;
        fv_lstmn_layer layer;
        CHECK_OK(ctx, fv_params_create(ctx, &params));
        make_layer(params, turn & 1 ? 0 : WIDTH, turn & 4 ? DISTANCES : 0, &layer);
        CHECK_OK(ctx, fv_backward(ctx, weighted_sum(&layer, turn & 2)));
        for (int p = 0; p < fv_params_count(params); p++) {
            fv_tensor *t = fv_params_tensor(params, p);
            const int64_t n = fv_tensor_count(t);
            float x[128], g[128], y[128];
            CHECK(n <= 128);
            values_of(t, x), values_of(fv_grad(ctx, t), g);
            double slope = 0, side[2];
            const double step = 0x1p-7;
            for (int64_t i = 0; i < n; i++)
                slope += (double)g[i] * cos(3.1 * (double)i);
            for (int s = 0; s < 2; s++) {
                for (int64_t i = 0; i < n; i++)
                    y[i] = x[i] + (float)((s ? -step : step) * cos(3.1 * (double)i));
                CHECK_OK(ctx, fv_tensor_write(ctx, t, y, (size_t)n * sizeof *y));
                side[s] = value_of(&layer, turn & 2);
            }
            CHECK_OK(ctx, fv_tensor_write(ctx, t, x, (size_t)n * sizeof *x));
            const double differences = (side[0] - side[1]) / (2 * step);
            CHECK_NEAR(slope, differences, 2e-3 * (1 + fabs(differences)));
        }
        fv_params_destroy(&params);
    }
}

/* ---- the kind ------------------------------------------------------------------------------- */

#define TEXTS                                                                                      \
    {"model.kind", "lstmn"}, {"data.made", "sentences"}, {"data.train_pairs", "300"},              \
        {"data.valid_pairs", "40"}, {"tokens.kind", "word"}, {"tokens.min_count", "1"},            \
        {"lstmn.hidden", "16"}, {"train.batch_examples", "8"}, {"train.optimizer", "adamw"},       \
        {"train.lr", "0.01"}, {"train.schedule", "constant"}, {"train.warmup", "0"},               \
        {"eval.samples", "2"}, {"train.save_every", "5"}, {"data.length", "12"},                   \
        {"lstmn.context", "12"}, {"train.steps", "150"},                                           \
    {                                                                                              \
        "train.eval_every", "150"                                                                  \
    }

static const run_setting language[] = {
    {"train.task", "language"}, {"lstmn.recency", "1"}, TEXTS, {0}};
static const run_setting lines[] = {
    {"train.task", "language"}, {"data.documents", "lines"}, {"lstmn.layers", "2"}, TEXTS, {0}};
static const run_setting classes[] = {{"train.task", "classify"}, TEXTS, {0}};

static fv_status train(const run_setting *settings, const run_setting *more, const char *folder,
                       int threads, run_watch *watch)
{
    fv_ctx *own = run_context(threads, 3);
    fv_recipe *recipe = run_recipe(own, settings);
    if (more) run_set(own, recipe, more);
    return run_text(own, recipe, folder, watch);
}

static void it_learns(void)
{
    static const run_setting state[] = {{"lstmn.memory", "state"}, {0}};
    run_watch watch[4] = {{0}};
    folder_make();
    CHECK_EQ(train(language, NULL, folder_sub("a"), 2, &watch[0]), FV_OK);
    CHECK_EQ(train(lines, NULL, folder_sub("b"), 2, &watch[1]), FV_OK);
    CHECK_EQ(train(classes, NULL, folder_sub("c"), 2, &watch[2]), FV_OK);
    CHECK_EQ(train(language, state, folder_sub("d"), 2, &watch[3]), FV_OK);
    CHECK_STR(watch[0].last[0].name, "loss");
    CHECK(watch[0].last[0].value < 2.4); /* of about 4 in the beginning */
    CHECK(watch[1].last[0].value < 2.4);
    CHECK_STR(watch[2].last[0].name, "accuracy");
    CHECK(watch[2].last[0].value > 0.8);
    CHECK(watch[3].last[0].value < 2.4);
    folder_remove();
}

static void a_stopped_run_resumes_with_the_same_bits(void)
{
    static const run_setting few[] = {
        {"train.steps", "12"}, {"train.eval_every", "6"}, {"train.accumulate", "2"}, {0}};
    run_watch once = {0}, first = {.stop = 7}, second = {0};
    folder_make();
    char whole[512], parts[512];
    snprintf(whole, sizeof whole, "%s", folder_sub("whole"));
    snprintf(parts, sizeof parts, "%s", folder_sub("parts"));
    CHECK_EQ(train(lines, few, whole, 2, &once), FV_OK);
    CHECK_EQ(train(lines, few, parts, 1, &first), FV_ERR_CANCELLED);
    CHECK_EQ(train(lines, few, parts, 2, &second), FV_OK);
    CHECK(file_same_in(whole, parts, "model.safetensors"));
    folder_remove();
}

/* Log-probabilities of the next tokens: from the loss of a whole text, and from steps. */
static void steps_of(const char *memory)
{
    static const int64_t a[] = {3, 4, 5, 6, 7}, b[] = {5, 3, 4};
    const int64_t *rows[] = {a, b}, lengths[] = {5, 3}, cut[] = {4, 2};
    const run_setting few[] = {{"train.steps", "3"}, {"lstmn.memory", memory}, {0}};
    run_watch watch = {0};
    fv_model *model = NULL;
    folder_make();
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_sub("run"));
    CHECK_EQ(train(lines, few, folder, 1, &watch), FV_OK);
    CHECK_OK(ctx, fv_model_open(ctx, folder, &model));
    const fv_model_kind *kind = fv_model_kind_of(model);
    void *self = fv_model_self(model);
    double alone = 0;
    for (int i = 0; i < 2; i++) {
        double value = 0;
        const fv_sequences one = {.count = 1, .tokens = rows + i, .length = lengths + i};
        const fv_batch batch = fv_batch_of_tokens(&one);
        CHECK_OK(ctx, fv_tensor_item(ctx, kind->loss(ctx, self, &batch, NULL), &value));
        alone += value;
    }
    double both = 0, stepped = 0;
    const fv_sequences texts = {.count = 2, .tokens = rows, .length = lengths};
    const fv_batch batch = fv_batch_of_tokens(&texts);
    CHECK_OK(ctx, fv_tensor_item(ctx, kind->loss(ctx, self, &batch, NULL), &both));
    CHECK_NEAR(both, alone, 1e-4);

    /* The loss of the last token of each: the text's minus that of the text without it. */
    double shorter = 0;
    const fv_sequences prompts = {.count = 2, .tokens = rows, .length = cut};
    const fv_batch before = fv_batch_of_tokens(&prompts);
    CHECK_OK(ctx, fv_tensor_item(ctx, kind->loss(ctx, self, &before, NULL), &shorter));
    fv_stepper stepper;
    fv_step_output out = {0};
    CHECK_OK(ctx, kind->make_stepper(self, &before, &stepper));
    CHECK_OK(ctx, stepper.begin(stepper.user, 2));
    CHECK_OK(ctx, stepper.select(stepper.user, 2, (int64_t[]){1, 0})); /* the rows change places */
    fv_tensor *fed = fv_from_host(ctx, FV_I64, 1, (int64_t[]){2},
                                  (int64_t[]){stepper.first_tokens[1], stepper.first_tokens[0]});
    CHECK_OK(ctx, stepper.step(stepper.user, ctx, fed, false, &out));
    fv_tensor *last = fv_from_host(ctx, FV_I64, 1, (int64_t[]){2}, (int64_t[]){b[2], a[4]});
    CHECK_OK(ctx,
             fv_tensor_item(ctx, fv_cross_entropy(ctx, out.logits, last, -1, 0, FV_REDUCTION_SUM),
                            &stepped));
    CHECK_NEAR(both - shorter, stepped, 1e-4);
    fv_model_close(&model);
    folder_remove();
}

static void steps_give_what_the_text_gives(void)
{
    steps_of("tape");
    steps_of("state");
}

/* The mean over a text's states, beside longer and shorter texts or not. */
static void classes_do_not_depend_on_the_batch(void)
{
    enum { ROOM = 64 };
    static const int64_t a[] = {3, 4, 5, 6, 7}, b[] = {5, 3};
    const int64_t *rows[] = {a, b}, lengths[] = {5, 2};
    static const run_setting few[] = {{"train.steps", "3"}, {0}};
    run_watch watch = {0};
    fv_model *model = NULL;
    float both[ROOM], alone[ROOM];
    char folder[512];
    folder_make();
    snprintf(folder, sizeof folder, "%s", folder_sub("run"));
    CHECK_EQ(train(classes, few, folder, 1, &watch), FV_OK);
    CHECK_OK(ctx, fv_model_open(ctx, folder, &model));
    const int64_t n = fv_model_spec(model)->label_count;
    CHECK(n > 1 && 2 * n <= ROOM);
    const fv_sequences texts = {.count = 2, .tokens = rows, .length = lengths};
    const fv_batch batch = fv_batch_of_tokens(&texts);
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_model_classify(model, &batch, NULL), both,
                                 (size_t)(2 * n) * sizeof *both));
    for (int i = 0; i < 2; i++) {
        const fv_sequences one = {.count = 1, .tokens = rows + i, .length = lengths + i};
        const fv_batch single = fv_batch_of_tokens(&one);
        CHECK_OK(ctx, fv_tensor_read(ctx, fv_model_classify(model, &single, NULL), alone,
                                     (size_t)n * sizeof *alone));
        for (int64_t k = 0; k < n; k++)
            CHECK_NEAR((double)both[i * n + k], (double)alone[k], 1e-5);
    }
    fv_model_close(&model);
    folder_remove();
}

static void wrong_inputs_are_named(void)
{
    static const run_setting masked[] = {{"train.task", "masked"}, TEXTS, {0}};
    static const run_setting longer[] = {
        {"train.task", "language"}, TEXTS, {"data.length", "13"}, {0}};
    const run_setting *const all[] = {masked, longer};
    static const char *const named[] = {"an LSTMN is not trained to fill",
                                        "data.length is 13, expected at most the model's 12"};
    folder_make();
    for (int i = 0; i < 2; i++) {
        fv_ctx *own = run_context(1, 1);
        fv_recipe *recipe = run_recipe(own, all[i]);
        fv_run *run = NULL;
        CHECK_EQ(fv_run_create(own, recipe, folder_sub(i ? "b" : "a"), NULL, NULL, &run),
                 FV_ERR_ARGUMENT);
        CHECK(strstr(fv_ctx_message(own), named[i]) != NULL);
        fv_recipe_destroy(&recipe);
        fv_ctx_destroy(&own);
    }
    folder_remove();
}

/* The loss of a trained model by fovea eval: of the validation text, or of another one. */
static double loss_of(const char *folder, const char *train_text, const char *test_text)
{
    const run_setting settings[] = {{"train.task", "language"},
                                    TEXTS,
                                    {"data.made", "none"},
                                    {"data.train_text", train_text},
                                    {"data.test_text", test_text},
                                    {"eval.part", "test"},
                                    {0}};
    fv_ctx *own = run_context(1, 1);
    fv_recipe *recipe = run_recipe(own, settings);
    fv_run *run = NULL;
    fv_metric metrics[FV_MAX_METRICS];
    int count = 0;
    CHECK_OK(own, fv_run_create(own, recipe, folder, NULL, NULL, &run));
    CHECK_OK(own, fv_run_train(run));
    CHECK_OK(own, fv_run_evaluate(run, metrics, &count));
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&own);
    return count > 0 ? metrics[0].value : 0;
}

/* The model learns a b c d; a text in the other order is new to it. */
static void the_test_text_takes_the_place_of_the_validation_text(void)
{
    char run[512], forward[512], backward[512], text[2001];
    folder_make();
    snprintf(run, sizeof run, "%s", folder_sub("run"));
    snprintf(forward, sizeof forward, "%s", folder_path("forward.txt"));
    snprintf(backward, sizeof backward, "%s", folder_path("backward.txt"));
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 1000; i++)
            text[2 * i] = "abcd"[turn ? 3 - i % 4 : i % 4], text[2 * i + 1] = ' ';
        file_write(turn ? backward : forward, text, 2000);
    }
    const double valid = loss_of(run, forward, "");
    const double test = loss_of(run, forward, backward);
    CHECK(valid < 0.5);
    CHECK(test > 2 * valid + 0.5);
    folder_remove();
}

/* ---- failing memory ------------------------------------------------------------------------- */

static fv_status use_opened(fv_ctx *in, fv_model *model)
{
    static const int64_t a[] = {3, 4, 5, 6}, b[] = {5, 3};
    const int64_t *rows[] = {a, b}, lengths[] = {4, 2};
    const fv_model_kind *kind = fv_model_kind_of(model);
    void *self = fv_model_self(model);
    const fv_sequences texts = {.count = 2, .tokens = rows, .length = lengths};
    const fv_batch batch = fv_batch_of_tokens(&texts);
    fv_stepper stepper;
    fv_step_output out = {0};
    fv_scope_begin(in);
    fv_status s = fv_backward(in, kind->loss(in, self, &batch, NULL));
    if (s == FV_OK) s = kind->make_stepper(self, &batch, &stepper);
    if (s == FV_OK) s = stepper.begin(stepper.user, 2);
    if (s == FV_OK) s = stepper.select(stepper.user, 1, (int64_t[]){1});
    fv_tensor *fed = fv_from_host(in, FV_I64, 1, (int64_t[]){1}, (int64_t[]){3});
    if (s == FV_OK) s = stepper.step(stepper.user, in, fed, false, &out);
    fv_scope_end(in);
    return s;
}

static fv_status use_model(fv_ctx *in, const void *folder)
{
    fv_model *model = NULL;
    fv_status s = fv_model_open(in, folder, &model);
    if (s == FV_OK) s = use_opened(in, model);
    fv_model_close(&model);
    return s;
}

static void memory_may_run_out(void)
{
    static const run_setting few[] = {{"train.steps", "1"}, {"lstmn.hidden", "4"}, {0}};
    run_watch watch = {0};
    folder_make();
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_sub("run"));
    CHECK_EQ(train(lines, few, folder, 1, &watch), FV_OK);
    CHECK(failing_everywhere(use_model, folder, 60) > 50);
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    ctx = run_context(1, 5);
    RUN(states_and_weights_are_the_formula);
    RUN(biases_begin_with_the_recent);
    RUN(a_tape_continues);
    RUN(a_plain_layer_is_an_lstm);
    RUN(gradients_are_right);
    RUN(it_learns);
    RUN(a_stopped_run_resumes_with_the_same_bits);
    RUN(steps_give_what_the_text_gives);
    RUN(classes_do_not_depend_on_the_batch);
    RUN(wrong_inputs_are_named);
    RUN(the_test_text_takes_the_place_of_the_validation_text);
    RUN(memory_may_run_out);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
