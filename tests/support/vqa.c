#include "support/vqa.h"

#include <string.h>

#include "support/tensors.h"

static const char *const labels[ANSWERS] = {"red", "blue", "yes", "no"};

#define FORM(name)                                                                                 \
    {"vqa.form", name}, {"vqa.channels", "3"}, {"vqa.stages", "2"}, {"vqa.halvings", "1"},         \
        {"vqa.width", "6"}, {"vqa.embedding", "5"}, {"vqa.hidden", "7"}, {"vqa.layers", "2"},      \
    {                                                                                              \
        "vqa.heads", "2"                                                                           \
    }
const run_setting vqa_words[] = {FORM("words"), {0}};
const run_setting vqa_one_hop[] = {FORM("words"), {"vqa.hops", "1"}, {0}};
const run_setting vqa_maps[] = {FORM("maps"), {0}};
const run_setting vqa_pool[] = {FORM("pool"), {0}};
const run_setting vqa_self[] = {FORM("self"), {0}};

/* NULL if memory runs out. */
static fv_tokenizer *tokenizer_of(fv_ctx *ctx)
{
    static const char text[] = "what color is it the red blue circle not";
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer *trainer = NULL;
    fv_tokenizer *tok = NULL;
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_WORDS);
    fv_status s = fv_tokenizer_trainer_create(ctx, &cfg, &trainer);
    if (s == FV_OK) s = fv_tokenizer_trainer_add(trainer, text, sizeof text - 1);
    if (s == FV_OK) s = fv_tokenizer_trainer_finish(trainer, &tok);
    fv_tokenizer_trainer_destroy(&trainer);
    return tok;
}

fv_data_spec vqa_spec(fv_ctx *ctx)
{
    fv_data_spec spec = {.ability = FV_CAN_ANSWER, .labels = labels, .label_count = ANSWERS};
    spec.source = spec.target = tokenizer_of(ctx);
    fv_data_spec_set(&spec, "channels", 3);
    fv_data_spec_set(&spec, "height", SIDE);
    fv_data_spec_set(&spec, "width", SIDE);
    return spec;
}

/* Numbers that are neither 0 nor equal, so that no parameter can be left out unnoticed; statistics
 * of norms stay positive. */
static void fill_vectors(fv_ctx *ctx, fv_params *params)
{
    for (int i = 0; i < fv_params_count(params); i++) {
        fv_tensor *t = fv_params_tensor(params, i);
        if (fv_tensor_rank(t) != 1) continue;
        float values[64];
        const int64_t n = fv_tensor_count(t);
        CHECK(n <= 64);
        for (int64_t k = 0; k < n; k++)
            values[k] = 0.2F + (float)((k + i) * 31 % 17) / 40;
        CHECK_OK(ctx, fv_tensor_write(ctx, t, values, (size_t)n * sizeof *values));
    }
}

fv_model *vqa_model(fv_ctx *ctx, const run_setting *settings)
{
    fv_recipe *recipe = run_recipe(ctx, settings);
    const fv_data_spec spec = vqa_spec(ctx);
    fv_model *model = NULL;
    CHECK_OK(ctx, fv_model_create(ctx, "vqa", recipe, &spec, &model));
    fv_recipe_destroy(&recipe);
    fill_vectors(ctx, fv_model_params(model));
    return model;
}

float vqa_pictures[2][3 * SIDE * SIDE];
static float copies[ROWS][3 * SIDE * SIDE];
const int64_t vqa_tokens[ROWS][MOST_WORDS] = {{4, 7, 5}, {6}, {9, 4, 10, 8}},
              vqa_lengths[ROWS] = {3, 1, 4};
static const int64_t answers[ROWS] = {2, 0, 3};
const void *const vqa_shared[ROWS] = {vqa_pictures[0], vqa_pictures[0], vqa_pictures[1]},
                  *const vqa_copied[ROWS] = {copies[0], copies[1], copies[2]};
static const void *const token_rows[ROWS] = {vqa_tokens[0], vqa_tokens[1], vqa_tokens[2]},
                         *const answer_rows[ROWS] = {&answers[0], &answers[1], &answers[2]};

fv_batch vqa_batch(const void *const *rows)
{
    fv_batch batch;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3 * SIDE * SIDE; k++)
            vqa_pictures[i][k] = (float)((i * 977 + k * 7919) % 101) / 100;
    for (int i = 0; i < ROWS; i++)
        memcpy(copies[i], vqa_shared[i], sizeof copies[i]);
    fv_batch_init(&batch, ROWS);
    fv_batch_add(
        &batch,
        (fv_field){
            .name = "pixels", .dtype = FV_F32, .rank = 3, .shape = {3, SIDE, SIDE}, .row = rows});
    fv_batch_add(
        &batch,
        (fv_field){.name = "question", .dtype = FV_I64, .row = token_rows, .length = vqa_lengths});
    fv_batch_add(&batch, (fv_field){.name = "label", .dtype = FV_I64, .row = answer_rows});
    return batch;
}
