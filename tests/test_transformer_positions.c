/*
 * Positions and head sizes of a Transformer by recipe: every kind trains and opens again with the
 * settings it was given, wide heads have their shapes, and what a family cannot have is refused.
 */
#include "fovea/file.h"
#include "models/transformer.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"

static fv_status train(const char *folder, const char *family, const char *positions,
                       const char *head_width, run_watch *watch)
{
    fv_ctx *own = run_context(1, 5);
    fv_recipe *recipe = run_recipe(own, (run_setting[]){{"data.made", "dates"},
                                                        {"data.train_pairs", "60"},
                                                        {"data.valid_pairs", "4"},
                                                        {"tokens.kind", "char"},
                                                        {"tokens.min_count", "1"},
                                                        {"tokens.joint", "true"},
                                                        {"model.kind", "transformer"},
                                                        {"transformer.family", family},
                                                        {"transformer.positions", positions},
                                                        {"transformer.head_width", head_width},
                                                        {"transformer.width", "8"},
                                                        {"transformer.heads", "2"},
                                                        {"transformer.hidden", "8"},
                                                        {"transformer.length", "64"},
                                                        {"transformer.encoder_layers", "1"},
                                                        {"transformer.decoder_layers", "1"},
                                                        {"train.steps", "12"},
                                                        {"train.lr", "0.01"},
                                                        {"train.schedule", "constant"},
                                                        {"train.batch_tokens", "300"},
                                                        {"train.eval_every", "6"},
                                                        {"eval.metric", "loss"},
                                                        {NULL, NULL}});
    return run_text(own, recipe, folder, watch);
}

static void every_kind_trains(void)
{
    static const char *const kinds[] = {"none",     "learned",      "sinusoid",          "rotary",
                                        "relative", "relative_key", "relative_key_query"};
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++) {
        char folder[512];
        run_watch watch = {0};
        snprintf(folder, sizeof folder, "%s", folder_sub(kinds[i]));
        CHECK_EQ(train(folder, "fovea", kinds[i], "8", &watch), FV_OK);
        fv_ctx *ctx = run_context(1, 1);
        fv_model *model = NULL;
        CHECK_OK(ctx, fv_model_open(ctx, folder, &model));
        const fv_transformer *t = model ? fv_model_transformer(model) : NULL;
        CHECK(t != NULL);
        if (t) {
            const fv_transformer_config *c = fv_transformer_settings(t);
            CHECK_EQ((int)c->positions, i);
            CHECK_EQ(c->head_dim, 8); /* both heads as wide as the model */
            fv_tensor *q = fv_params_find(fv_transformer_params(t), "encoder.0.self.q_proj.weight");
            CHECK(q && fv_tensor_size(q, 0) == 16 && fv_tensor_size(q, 1) == 8);
        }
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
    }
}

static fv_status create(const char *family, const char *positions, const char *head_width,
                        const char *message)
{
    fv_ctx *ctx = run_context(1, 1);
    const fv_key_table table = fv_transformer_keys();
    fv_recipe *recipe = NULL;
    fv_params *params = NULL;
    fv_transformer *made = NULL;
    fv_transformer_config cfg;
    CHECK_OK(ctx, fv_recipe_create(ctx, &table, 1, &recipe));
    CHECK_OK(ctx, fv_recipe_set(recipe, "transformer.family", family));
    CHECK_OK(ctx, fv_recipe_set(recipe, "transformer.positions", positions));
    CHECK_OK(ctx, fv_recipe_set(recipe, "transformer.head_width", head_width));
    fv_transformer_config_from(recipe, &cfg);
    cfg.vocabulary = 20;
    CHECK_OK(ctx, fv_params_create_plan(ctx, &params));
    const fv_status status = fv_transformer_create(params, &cfg, &made);
    if (status != FV_OK && !strstr(fv_ctx_message(ctx), message))
        test_failed(__FILE__, __LINE__, "%s", fv_ctx_message(ctx));
    fv_transformer_destroy(&made);
    fv_params_destroy(&params);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    return status;
}

static void families_refuse_what_they_cannot_have(void)
{
    CHECK_EQ(create("t5", "learned", "-1", "t5 models do not have learned positions"),
             FV_ERR_ARGUMENT);
    CHECK_EQ(create("gpt2", "relative", "-1", "do not have relative positions"), FV_ERR_ARGUMENT);
    CHECK_EQ(create("fovea", "rotary", "3", "rotary"), FV_ERR_ARGUMENT);
    CHECK_EQ(create("fovea", "family", "3", ""), FV_OK);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    RUN(every_kind_trains);
    RUN(families_refuse_what_they_cannot_have);
    folder_remove();
    return TEST_END();
}
