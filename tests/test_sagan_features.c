/*
 * sagan.features: the discriminator's vector of a picture is a layer over its whole last grid in
 * place of the sum over it. The score against plain loops, with gradients against central
 * differences; where a thing is matters then, and not without it; spectral norm and frozen weights;
 * memory that runs out.
 */
#include "base/ctx.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "models/sagan.h"
#include "support/failing.h"
#include "support/runs.h"
#include "support/tensors.h"

#include <math.h>

enum { SIDE = 48, ROWS = 2, CLASSES = 3, FEATURES = 5, GRID = SIDE / 4, WIDTH = 8 };

typedef struct critic {
    fv_params *params;
    fv_spectral_norms spectral;
    fv_discriminator d;
} critic;

static fv_status open_critic(fv_ctx *ctx, int64_t features, critic *j)
{
    *j = (critic){.spectral.ctx = ctx};
    j->d.spectral = &j->spectral;
    j->d.size = (fv_sagan_sizes){.channels = 1,
                                 .height = SIDE,
                                 .width = SIDE,
                                 .classes = CLASSES,
                                 .noise = 1,
                                 .base = WIDTH / 4,
                                 .last = 2,
                                 .attend = 1,
                                 .features = features};
    FV_TRY(fv_params_create(ctx, &j->params));
    return fv_discriminator_create(j->params, "d", &j->d);
}

static fv_tensor *labels_of(fv_ctx *ctx)
{
    return fv_from_host(ctx, FV_I64, 1, (int64_t[]){ROWS}, (int64_t[ROWS]){2, 0});
}

/* Dark pictures with one bright square of 3 x 3 at (at, at). */
static fv_tensor *pictures_with(fv_ctx *ctx, int at)
{
    static float pixels[ROWS][SIDE][SIDE];
    memset(pixels, 0, sizeof pixels);
    for (int i = 0; i < ROWS * 9; i++)
        pixels[i / 9][at + i / 3 % 3][at + i % 3] = 0.3f + 0.05f * (float)i;
    return fv_from_host(ctx, FV_F32, 4, (int64_t[]){ROWS, 1, SIDE, SIDE}, pixels);
}

static void scores_of(fv_ctx *ctx, const critic *j, fv_tensor *pictures, float *out)
{
    fv_tensor *s = fv_discriminator_run(ctx, &j->d, pictures, labels_of(ctx), false, NULL);
    CHECK_OK(ctx, fv_tensor_read(ctx, s, out, ROWS * sizeof *out));
}

/* ---- the score ------------------------------------------------------------------------------ */

static float leaky(float x) { return x > 0 ? x : 0.1f * x; }

static const float *read_norm(fv_ctx *ctx, const critic *j, int index, float *out, size_t bytes)
{
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_spectral_norms_run(ctx, &j->spectral, index, true), out,
                                 bytes));
    return out;
}

/* The last grid, [ROWS][WIDTH GRID GRID]. */
static void last_grid(fv_ctx *ctx, const critic *j, fv_tensor *x, float *out, size_t bytes)
{
    x = fv_affine(ctx, x, 2, -1);
    for (int level = 0; level <= 2; level++) {
        const fv_conv2d_layer *down = &j->d.down[level];
        fv_tensor *w = fv_spectral_norms_run(ctx, &j->spectral, j->d.down_norm[level], true);
        x = fv_leaky_relu(ctx, fv_conv2d(ctx, x, w, down->bias, &down->options), 0.1);
    }
    CHECK_OK(ctx, fv_tensor_read(ctx, x, out, bytes));
}

/* h = leaky(W x + b), score = w . h + b + e_class . h */
static void score_is_that_of_a_layer_over_the_grid(void)
{
    enum { CELLS = WIDTH * GRID * GRID };
    static float x[ROWS][CELLS], whole[FEATURES][CELLS], bias[FEATURES];
    float score[FEATURES], table[CLASSES][FEATURES], got[ROWS], add;
    fv_ctx *ctx = run_context(1, 5);
    critic j;
    CHECK_OK(ctx, open_critic(ctx, FEATURES, &j));
    for (int k = 0; k < FEATURES; k++)
        bias[k] = 0.1f * (float)(k - 2);
    CHECK_OK(ctx, fv_tensor_write(ctx, j.d.whole.bias, bias, sizeof bias));
    fv_tensor *pictures = pictures_with(ctx, 20);
    scores_of(ctx, &j, pictures, got);
    last_grid(ctx, &j, pictures, x[0], sizeof x);
    read_norm(ctx, &j, j.d.whole_norm, whole[0], sizeof whole);
    read_norm(ctx, &j, j.d.score_norm, score, sizeof score);
    read_norm(ctx, &j, j.d.class_norm, table[0], sizeof table);
    CHECK_OK(ctx, fv_tensor_read(ctx, j.d.score.bias, &add, sizeof add));
    for (int r = 0; r < ROWS; r++) {
        double expected = (double)add, size = 0;
        for (int k = 0; k < FEATURES; k++) {
            double h = (double)bias[k];
            for (int i = 0; i < CELLS; i++) {
                h += (double)whole[k][i] * (double)x[r][i];
                size += fabs((double)whole[k][i] * (double)x[r][i]);
            }
            expected += (double)(score[k] + table[r ? 0 : 2][k]) * (double)leaky((float)h);
        }
        CHECK_NEAR((double)got[r], expected, 1e-6 * (1 + size));
    }
    fv_params_destroy(&j.params);
    fv_ctx_destroy(&ctx);
}

/* Without the layer a score is the same wherever the square is, as far as no window that sees it
 * reaches over the border; with it, it is not. */
static void with_it_places_matter(void)
{
    for (int features = 0; features <= FEATURES; features += FEATURES) {
        float here[ROWS], there[ROWS];
        fv_ctx *ctx = run_context(1, 5);
        critic j;
        CHECK_OK(ctx, open_critic(ctx, features, &j));
        CHECK((j.d.whole.weight != NULL) == (features > 0));
        scores_of(ctx, &j, pictures_with(ctx, 20), here);
        scores_of(ctx, &j, pictures_with(ctx, 24), there);
        for (int r = 0; r < ROWS; r++) {
            const double apart = fabs((double)here[r] - (double)there[r]);
            CHECK(features > 0 ? apart > 1e-3 : apart < 1e-4 * (1 + fabs((double)here[r])));
        }
        fv_params_destroy(&j.params);
        fv_ctx_destroy(&ctx);
    }
}

/* ---- gradients ------------------------------------------------------------------------------ */

static double sum_of_scores(fv_ctx *ctx, const critic *j)
{
    float s[ROWS];
    fv_scope_begin(ctx);
    scores_of(ctx, j, pictures_with(ctx, 20), s);
    fv_scope_end(ctx);
    return (double)s[0] + 2 * (double)s[1];
}

/* Central differences of one entry; the score is piecewise linear in the bias. */
static double difference(fv_ctx *ctx, const critic *j, fv_tensor *bias, int k)
{
    const double step = 1.0 / 256;
    float values[FEATURES];
    double sum[2];
    CHECK_OK(ctx, fv_tensor_read(ctx, bias, values, sizeof values));
    for (int side = 0; side < 2; side++) {
        values[k] += (float)(side ? -2 * step : step);
        CHECK_OK(ctx, fv_tensor_write(ctx, bias, values, sizeof values));
        sum[side] = sum_of_scores(ctx, j);
    }
    values[k] += (float)step;
    CHECK_OK(ctx, fv_tensor_write(ctx, bias, values, sizeof values));
    return (sum[0] - sum[1]) / (2 * step);
}

/* Frozen: no gradient to any weight, as in the generator's phase. */
static void it_has_gradients_unless_frozen(void)
{
    for (int frozen = 0; frozen < 2; frozen++) {
        fv_ctx *ctx = run_context(1, 5);
        critic j;
        double norm[2];
        CHECK_OK(ctx, open_critic(ctx, FEATURES, &j));
        fv_tensor *x = fv_leaf(ctx, pictures_with(ctx, 20));
        fv_tensor *s = fv_discriminator_run(ctx, &j.d, x, labels_of(ctx), frozen == 1, NULL);
        CHECK_OK(ctx,
                 fv_backward_from(
                     ctx, s, fv_from_host(ctx, FV_F32, 1, (int64_t[]){ROWS}, (float[]){1, 2})));
        CHECK_OK(ctx, fv_params_grad_norm(j.params, "d.whole.weight", &norm[0]));
        CHECK_OK(ctx, fv_params_grad_norm(j.params, "d.", &norm[1]));
        CHECK((norm[0] > 0) == (frozen == 0));
        CHECK((norm[1] > 0) == (frozen == 0));
        CHECK(fv_grad(ctx, x) != NULL);
        if (frozen == 0) {
            float got[FEATURES];
            CHECK_OK(ctx, fv_tensor_read(ctx, fv_grad(ctx, j.d.whole.bias), got, sizeof got));
            for (int k = 0; k < FEATURES; k++) {
                const double expected = difference(ctx, &j, j.d.whole.bias, k);
                CHECK_NEAR((double)got[k], expected, 2e-3 * (1 + fabs(expected)));
            }
        }
        fv_params_destroy(&j.params);
        fv_ctx_destroy(&ctx);
    }
}

/* ---- the generator's classes ---------------------------------------------------------------- */

/* sagan.class_std scales the vectors of classes and nothing else. */
static void class_vectors_are_scaled(void)
{
    static const char *const names[CLASSES] = {"a", "b", "c"};
    fv_data_spec spec = {.ability = FV_CAN_DRAW, .labels = names, .label_count = CLASSES};
    fv_data_spec_set(&spec, "channels", 1);
    fv_data_spec_set(&spec, "height", 8);
    fv_data_spec_set(&spec, "width", 8);
    fv_data_spec_set(&spec, "noise", FEATURES);
    for (int given = 0; given < 2; given++) {
        static const run_setting quarter[] = {{"sagan.class_std", "0.25"}, {0}};
        float table[2][CLASSES * FEATURES], first[2];
        for (int k = 0; k < 2; k++) {
            fv_ctx *ctx = run_context(1, 5);
            fv_recipe *recipe = run_recipe(ctx, k && given ? quarter : (run_setting[]){{0}});
            fv_model *model = NULL;
            CHECK_OK(ctx, fv_model_create(ctx, "sagan", recipe, &spec, &model));
            fv_params *params = fv_model_params(model);
            CHECK_OK(ctx, fv_tensor_read(ctx, fv_params_find(params, "generator.classes.weight"),
                                         table[k], sizeof table[k]));
            fv_tensor *w = fv_params_find(params, "generator.first.weight");
            fv_tensor *row = fv_slice(ctx, fv_reshape(ctx, w, 1, (int64_t[]){-1}), 0, 0, 1, 1);
            CHECK_OK(ctx, fv_tensor_read(ctx, row, &first[k], sizeof first[k]));
            fv_model_close(&model);
            fv_recipe_destroy(&recipe);
            fv_ctx_destroy(&ctx);
        }
        CHECK(first[0] == first[1]);
        for (int i = 0; i < CLASSES * FEATURES; i++)
            CHECK(table[1][i] == (given ? 0.25f : 1) * table[0][i] && table[0][i] != 0);
    }
}

/* ---- memory --------------------------------------------------------------------------------- */

static fv_status use_critic(fv_ctx *ctx, const void *unused)
{
    critic j;
    float scores[ROWS];
    (void)unused;
    fv_status s = open_critic(ctx, FEATURES, &j);
    fv_scope_begin(ctx);
    if (s == FV_OK)
        s = fv_tensor_read(
            ctx,
            fv_discriminator_run(ctx, &j.d, pictures_with(ctx, 20), labels_of(ctx), false, NULL),
            scores, sizeof scores);
    fv_scope_end(ctx);
    fv_params_destroy(&j.params);
    return s;
}

static void memory_may_run_out(void) { CHECK(failing_everywhere(use_critic, NULL, 0) > 100); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(score_is_that_of_a_layer_over_the_grid);
    RUN(with_it_places_matter);
    RUN(it_has_gradients_unless_frozen);
    RUN(class_vectors_are_scaled);
    RUN(memory_may_run_out);
    return TEST_END();
}
