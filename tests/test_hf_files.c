/* Other forms of the same model in a Hugging Face folder: copies of tied weights, the bare model
 * without prefix and head, keys that config.json leaves out. */
#include "fovea/file.h"
#include "fovea/ops.h"
#include "fovea/transformer.h"
#include "support/files.h"
#include "support/tensors.h"
#include "support/values.h"

enum { MOST = 100 };

static const char *fixture(const char *family, const char *file)
{
    char path[128];
    snprintf(path, sizeof path, "fixtures/%s/%s", family, file);
    return test_path(path);
}

/* The fixture's config.json in "model", with one text replaced by another. */
static void write_config(const char *family, const char *old, const char *now)
{
    static char copy[1 << 14];
    size_t bytes = 0;
    char *text = file_read(fixture(family, "config.json"), &bytes);
    text = realloc(text, bytes + 1);
    text[bytes] = '\0';
    const char *at = strstr(text, old);
    if (!at) test_failed(__FILE__, __LINE__, "no '%s' in the config of %s", old, family);
    if (at) snprintf(copy, sizeof copy, "%.*s%s%s", (int)(at - text), text, now, at + strlen(old));
    file_write(folder_path("model/config.json"), copy, strlen(copy));
    free(text);
}

/* The fixture's weights in "model": without `prefix` and the tensor `less`, and with zeros. */
typedef struct change {
    const char *prefix, *less;
    const char *zeros[3];
    int64_t shape[3][2]; /* a second 0: rank 1 */
} change;

static void write_weights(fv_ctx *ctx, const char *family, const change *c)
{
    const char *names[MOST];
    fv_tensor *tensors[MOST];
    fv_safetensors *file = NULL;
    size_t n = 0;
    CHECK_OK(ctx, fv_safetensors_open(ctx, fixture(family, "model.safetensors"), 0, &file));
    for (size_t i = 0; file && i < fv_safetensors_count(file) && n < MOST - 3; i++) {
        const char *name = fv_safetensors_entry(file, i)->name;
        const size_t cut = c->prefix ? strlen(c->prefix) : 0;
        if (c->less && strcmp(name, c->less) == 0) continue;
        tensors[n] = fv_safetensors_load(ctx, file, name);
        names[n++] = cut > 0 && strncmp(name, c->prefix, cut) == 0 ? name + cut : name;
    }
    for (int i = 0; i < 3 && c->zeros[i]; i++) {
        tensors[n] = fv_zeros(ctx, FV_F32, c->shape[i][1] ? 2 : 1, c->shape[i]);
        names[n++] = c->zeros[i];
    }
    CHECK_OK(ctx, fv_safetensors_save(ctx, names, tensors, n, NULL, 0,
                                      folder_path("model/model.safetensors")));
    fv_safetensors_close(&file);
}

/* The model in the test's folder has the fixture's weights. */
static void check_same_weights(fv_ctx *ctx, const char *family)
{
    fv_model *theirs = NULL, *ours = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, fixture(family, ""), &theirs));
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("model"), &ours));
    const fv_params *a = theirs ? fv_model_params(theirs) : NULL,
                    *b = ours ? fv_model_params(ours) : NULL;
    if (a && b) CHECK_EQ(fv_params_count(a), fv_params_count(b));
    for (int i = 0; a && b && i < fv_params_count(a); i++)
        CHECK(tensor_same(ctx, fv_params_tensor(a, i), fv_params_find(b, fv_params_name(a, i))));
    fv_model_close(&theirs);
    fv_model_close(&ours);
}

static void copies_are_ignored(void)
{
    static const change roberta = {.zeros = {"lm_head.decoder.weight", "lm_head.decoder.bias",
                                             "roberta.embeddings.position_ids"},
                                   .shape = {{41, 16}, {41, 0}, {1, 24}}},
                        distilbert = {.zeros = {"vocab_projector.weight"}, .shape = {{41, 16}}},
                        misspelt = {.zeros = {"vocab_projector.weights"}, .shape = {{41, 16}}};
    fv_ctx *ctx = values_begin();
    fv_model *model = NULL;
    folder_make();
    folder_sub("model");
    write_config("roberta", "roberta", "roberta");
    write_weights(ctx, "roberta", &roberta);
    check_same_weights(ctx, "roberta");
    write_config("distilbert", "distilbert", "distilbert");
    write_weights(ctx, "distilbert", &distilbert);
    check_same_weights(ctx, "distilbert");
    write_weights(ctx, "distilbert", &misspelt);
    CHECK_EQ(fv_model_open(ctx, folder_path("model"), &model), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "'vocab_projector.weights' does not belong") != NULL);
    folder_remove();
    values_end(&ctx);
}

/* Without tying, the bias beside the output matrix counts; older files hold only the other one. */
static void an_untied_bias_is_its_own(void)
{
    static const change both = {.zeros = {"lm_head.decoder.weight", "lm_head.decoder.bias"},
                                .shape = {{41, 16}, {41, 0}}},
                        older = {.zeros = {"lm_head.decoder.weight"}, .shape = {{41, 16}}},
                        more = {.zeros = {"lm_head.decoder.weight", "lm_head.other"},
                                .shape = {{41, 16}, {41, 0}}};
    fv_ctx *ctx = values_begin();
    fv_model *model = NULL;
    folder_make();
    folder_sub("model");
    write_config("roberta", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    for (int i = 0; i < 2; i++) {
        double largest = NAN;
        write_weights(ctx, "roberta", i ? &older : &both);
        CHECK_OK(ctx, fv_model_open(ctx, folder_path("model"), &model));
        fv_tensor *bias =
            model ? fv_params_find(fv_model_params(model), "lm_head.decoder.bias") : NULL;
        CHECK(bias != NULL);
        if (bias)
            CHECK_OK(ctx,
                     fv_tensor_item(ctx, fv_max(ctx, fv_abs(ctx, bias), 0, NULL, false), &largest));
        CHECK(i ? largest > 0.01 : largest == 0);
        fv_model_close(&model);
    }
    write_weights(ctx, "roberta", &more);
    CHECK_EQ(fv_model_open(ctx, folder_path("model"), &model), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "'lm_head.other' does not belong") != NULL);
    folder_remove();
    values_end(&ctx);
}

/* The bare model of an encoder-decoder has neither the prefix nor a bias of the logits, and stays
 * bare. */
static void bare_models_stay_bare(void)
{
    static const struct {
        const char *family, *name, *bare;
    } known[] = {{"bart", "BartForConditionalGeneration", "BartModel"},
                 {"marian", "MarianMTModel", "MarianModel"}};
    static const change bare = {.prefix = "model.", .less = "final_logits_bias"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        fv_ctx *ctx = values_begin();
        folder_make();
        folder_sub("model");
        write_config(known[i].family, known[i].name, known[i].bare);
        write_weights(ctx, known[i].family, &bare);
        for (int again = 0; again < 2; again++) {
            fv_model *model = NULL;
            CHECK_OK(ctx, fv_model_open(ctx, folder_path("model"), &model));
            CHECK(model && !fv_transformer_settings(fv_model_transformer(model))->logits_bias);
            if (model) CHECK_OK(ctx, fv_model_save(model, folder_path("model")));
            fv_model_close(&model);
        }
        folder_remove();
        values_end(&ctx);
    }
}

/* Keys that a file leaves out have the values of transformers, not those of RoBERTa base. */
static void defaults_are_those_of_transformers(void)
{
    fv_ctx *ctx = values_begin();
    fv_transformer_config c = {.struct_size = sizeof c};
    folder_make();
    folder_sub("model");
    write_config("roberta", "\"layer_norm_eps\": 1e-05,", "");
    CHECK_OK(ctx, fv_transformer_config_load(ctx, folder_path("model/config.json"), &c));
    CHECK(c.eps == 1e-12 && c.types == 1 && c.position_offset == 2 && c.max_positions == 22);
    write_config("roberta", "\"type_vocab_size\": 1,", "");
    CHECK_OK(ctx, fv_transformer_config_load(ctx, folder_path("model/config.json"), &c));
    CHECK(c.eps == 1e-5 && c.types == 2);
    write_config("roberta", "\"pad_token_id\": 1", "\"pad_token_id\": 4");
    CHECK_OK(ctx, fv_transformer_config_load(ctx, folder_path("model/config.json"), &c));
    CHECK(c.position_offset == 5 && c.max_positions == 19);
    folder_remove();
    values_end(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(copies_are_ignored);
    RUN(an_untied_bias_is_its_own);
    RUN(bare_models_stay_bare);
    RUN(defaults_are_those_of_transformers);
    return TEST_END();
}
