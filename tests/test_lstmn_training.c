/*
 * How LSTMN models are trained: one matrix for token vectors and output, mixed precision.
 */
#include <string.h>

#include "base/ctx.h"
#include "fovea/autograd.h"
#include "fovea/model.h"
#include "fovea/ops.h"
#include "models/lstmn.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "support/test.h"

static fv_ctx *ctx;

#define TEXTS                                                                                      \
    {"model.kind", "lstmn"}, {"data.made", "sentences"}, {"data.train_pairs", "300"},              \
        {"data.valid_pairs", "40"}, {"tokens.kind", "word"}, {"tokens.min_count", "1"},            \
        {"lstmn.hidden", "16"}, {"train.batch_examples", "8"}, {"train.optimizer", "adamw"},       \
        {"train.lr", "0.01"}, {"train.schedule", "constant"}, {"train.warmup", "0"},               \
        {"eval.samples", "0"}, {"data.length", "12"}, {"lstmn.context", "12"},                     \
    {                                                                                              \
        "train.steps", "150"                                                                       \
    }

static const run_setting language[] = {{"train.task", "language"}, TEXTS, {0}};
static const run_setting classes[] = {{"train.task", "classify"}, TEXTS, {0}};

static double train(const run_setting *more, const char *folder)
{
    fv_ctx *own = run_context(1, 3);
    fv_recipe *recipe = run_recipe(own, language);
    run_watch watch = {0};
    run_set(own, recipe, more);
    CHECK_EQ(run_text(own, recipe, folder, &watch), FV_OK);
    CHECK_STR(watch.last[0].name, "loss");
    return watch.last[0].value;
}

static double loss_of(const fv_model *model)
{
    static const int64_t a[] = {3, 4, 5, 6, 7}, b[] = {5, 3, 4};
    const int64_t *rows[] = {a, b}, lengths[] = {5, 3};
    const fv_sequences texts = {.count = 2, .tokens = rows, .length = lengths};
    const fv_batch batch = fv_batch_of_tokens(&texts);
    double value = 0;
    CHECK_OK(ctx, fv_tensor_item(
                      ctx, fv_model_kind_of(model)->loss(ctx, fv_model_self(model), &batch, NULL),
                      &value));
    return value;
}

static void copy_values(fv_tensor *from, fv_tensor *to)
{
    enum { ROOM = 1 << 16 };
    static float x[ROOM];
    const size_t bytes = (size_t)fv_tensor_count(from) * sizeof *x;
    CHECK(bytes <= sizeof x && fv_tensor_count(to) == fv_tensor_count(from));
    CHECK_OK(ctx, fv_tensor_read(ctx, from, x, bytes));
    CHECK_OK(ctx, fv_tensor_write(ctx, to, x, bytes));
}

/* A tied model is one of two matrices that are equal. */
static void a_tied_model_has_one_matrix(void)
{
    static const run_setting one[] = {{"lstmn.tied", "true"}, {"train.steps", "3"}, {0}},
                             two[] = {{"train.steps", "3"}, {0}};
    fv_model *tied = NULL, *free_one = NULL;
    char a[512], b[512];
    folder_make();
    snprintf(a, sizeof a, "%s", folder_sub("a"));
    snprintf(b, sizeof b, "%s", folder_sub("b"));
    train(one, a);
    train(two, b);
    CHECK_OK(ctx, fv_model_open(ctx, a, &tied));
    CHECK_OK(ctx, fv_model_open(ctx, b, &free_one));
    fv_params *from = fv_model_params(tied), *to = fv_model_params(free_one);
    CHECK(fv_params_find(from, "tokens.weight") == NULL);
    CHECK_EQ(fv_params_count(to), fv_params_count(from) + 1);
    const double before = loss_of(free_one);
    for (int i = 0; i < fv_params_count(from); i++)
        copy_values(fv_params_tensor(from, i), fv_params_find(to, fv_params_name(from, i)));
    copy_values(fv_params_find(from, "embedding.weight"), fv_params_find(to, "tokens.weight"));
    CHECK(loss_of(free_one) != before);
    CHECK_EQ(loss_of(free_one), loss_of(tied));
    fv_model_close(&tied);
    fv_model_close(&free_one);
    folder_remove();
}

static void it_learns(void)
{
    static const run_setting tied[] = {{"lstmn.tied", "true"}, {0}},
                             mixed[] = {{"train.compute_dtype", "bf16-always"}, {0}};
    folder_make();
    CHECK(train(tied, folder_sub("a")) < 2.4); /* of about 4 in the beginning */
    CHECK(train(mixed, folder_sub("b")) < 2.4);
    folder_remove();
}

static void wrong_settings_are_named(void)
{
    static const run_setting wide[] = {{"lstmn.tied", "true"}, {"lstmn.embedding", "8"}, {0}},
                             tied[] = {{"lstmn.tied", "true"}, {0}};
    static const struct {
        const run_setting *base, *more;
        const char *named;
    } all[] = {{language, wide, "lstmn.tied: lstmn.embedding is 8, expected lstmn.hidden, 16"},
               {classes, tied, "lstmn.tied: a classifier has no output matrix of tokens"}};
    folder_make();
    for (int i = 0; i < 2; i++) {
        fv_ctx *own = run_context(1, 1);
        fv_recipe *recipe = run_recipe(own, all[i].base);
        fv_run *run = NULL;
        run_set(own, recipe, all[i].more);
        CHECK_EQ(fv_run_create(own, recipe, folder_sub(i ? "b" : "a"), NULL, NULL, &run),
                 FV_ERR_ARGUMENT);
        CHECK(strstr(fv_ctx_message(own), all[i].named) != NULL);
        fv_recipe_destroy(&recipe);
        fv_ctx_destroy(&own);
    }
    folder_remove();
}

/* ---- mixed precision ------------------------------------------------------------------------ */

enum { ROWS = 2, N = 5, IN = 3, HIDDEN = 4, WIDTH = 3 };

/* States after inputs whose products with x_gates and x_query are exact in bf16: one of an input's
 * numbers is 1, the others are 0, and the weights are multiples of 1/8. */
static void read_states(const fv_lstmn_layer *layer, fv_dtype compute, float out[ROWS][N][HIDDEN])
{
    float in[ROWS][N][IN] = {0};
    fv_lstmn_tape tape = {0};
    for (int r = 0; r < ROWS; r++)
        for (int t = 0; t < N; t++)
            in[r][t][(t + 2 * r) % IN] = 1;
    CHECK_OK(ctx, fv_ctx_set_compute(ctx, compute));
    fv_tensor *x = fv_from_host(ctx, FV_F32, 3, (int64_t[]){ROWS, N, IN}, in);
    fv_tensor *h = fv_lstmn_read(ctx, layer, x, NULL, &tape, NULL);
    CHECK_EQ(fv_ctx_compute(ctx), compute);
    CHECK_OK(ctx, fv_ctx_set_compute(ctx, FV_F32));
    CHECK_OK(ctx, fv_tensor_read(ctx, h, out, sizeof(float[ROWS][N][HIDDEN])));
}

static void make_exact(fv_tensor *weight)
{
    float x[4 * HIDDEN * IN];
    const int64_t n = fv_tensor_count(weight);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i * 5 % 17 - 8) / 8;
    CHECK_OK(ctx, fv_tensor_write(ctx, weight, x, (size_t)n * sizeof *x));
}

static void only_products_with_inputs_take_bf16(void)
{
    for (int64_t width = 0; width <= WIDTH; width += WIDTH) {
        fv_params *params = NULL;
        fv_lstmn_layer layer;
        float whole[ROWS][N][HIDDEN], mixed[ROWS][N][HIDDEN];
        const fv_lstmn_sizes sizes = {.in = IN, .hidden = HIDDEN, .width = width};
        CHECK_OK(ctx, fv_params_create(ctx, &params));
        CHECK_OK(ctx, fv_lstmn_layer_create(params, "l", &sizes, &layer));
        make_exact(layer.x_gates.weight);
        if (width > 0) make_exact(layer.x_query.weight);
        read_states(&layer, FV_F32, whole);
        read_states(&layer, FV_BF16, mixed);
        CHECK(memcmp(whole, mixed, sizeof whole) == 0);
        fv_params_destroy(&params);
    }
}

/* Weights that bf16 cannot hold make a difference. */
static void products_with_inputs_take_bf16(void)
{
    fv_params *params = NULL;
    fv_lstmn_layer layer;
    float whole[ROWS][N][HIDDEN], mixed[ROWS][N][HIDDEN];
    const fv_lstmn_sizes sizes = {.in = IN, .hidden = HIDDEN};
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_lstmn_layer_create(params, "l", &sizes, &layer));
    read_states(&layer, FV_F32, whole);
    read_states(&layer, FV_BF16, mixed);
    CHECK(memcmp(whole, mixed, sizeof whole) != 0);
    for (int i = 0; i < ROWS * N * HIDDEN; i++)
        CHECK_NEAR((double)((float *)mixed)[i], (double)((float *)whole)[i], 0x1p-6);
    fv_params_destroy(&params);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    ctx = run_context(1, 5);
    RUN(a_tied_model_has_one_matrix);
    RUN(it_learns);
    RUN(wrong_settings_are_named);
    RUN(only_products_with_inputs_take_bf16);
    RUN(products_with_inputs_take_bf16);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
