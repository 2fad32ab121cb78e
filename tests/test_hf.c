/* Folders in the form of Hugging Face: there and back, in all their spellings, and refused with the
 * name of what is wrong. */
#include "fovea/autograd.h"
#include "fovea/file.h"
#include "fovea/ops.h"
#include "fovea/train.h"
#include "fovea/transformer.h"
#include "models/model.h"
#include "support/files.h"
#include "support/tensors.h"
#include "support/values.h"

static const char *const families[] = {"gpt2", "bert",       "marian",  "llama",
                                       "t5",   "distilbert", "roberta", "bart"};
enum { FAMILIES = 8, MOST = 160 };

static const char *fixture(const char *family, const char *file)
{
    char path[128];
    snprintf(path, sizeof path, "fixtures/%s/%s", family, file);
    return test_path(path);
}

static void model_folder(void)
{
    folder_make();
    folder_sub("model");
}

/* ---- folders to be changed --------------------------------------------------------------- */

/* The tensors of a fixture, to be saved again under other names and forms. */
typedef struct tensors {
    size_t count;
    char name[MOST][160];
    fv_tensor *tensor[MOST];
} tensors;

static tensors *tensors_of(fv_ctx *ctx, const char *family)
{
    tensors *all = calloc(1, sizeof *all);
    fv_safetensors *file = NULL;
    CHECK_OK(ctx, fv_safetensors_open(ctx, fixture(family, "model.safetensors"), 0, &file));
    for (size_t i = 0; file && i < fv_safetensors_count(file) && i < MOST - 1; i++) {
        const char *name = fv_safetensors_entry(file, i)->name;
        snprintf(all->name[i], sizeof all->name[i], "%s", name);
        all->tensor[i] = fv_safetensors_load(ctx, file, name);
        all->count++;
    }
    fv_safetensors_close(&file);
    return all;
}

static size_t place_of(const tensors *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->name[i], name) == 0) return i;
    test_failed(__FILE__, __LINE__, "no tensor %s", name);
    return 0;
}

static void save_part(fv_ctx *ctx, const tensors *all, size_t from, size_t to, const char *path)
{
    const char *names[MOST];
    for (size_t i = from; i < to; i++)
        names[i] = all->name[i];
    CHECK_OK(ctx,
             fv_safetensors_save(ctx, names + from, all->tensor + from, to - from, NULL, 0, path));
}

/* "model" in the test's folder: the weights, and the fixture's config.json with one text replaced
 * by another. */
static void write_config(const char *family, const char *old, const char *now)
{
    size_t bytes = 0;
    char *text = file_read(fixture(family, "config.json"), &bytes);
    char *copy = malloc(bytes + (now ? strlen(now) : 0) + 1);
    text = realloc(text, bytes + 1);
    text[bytes] = '\0';
    char *at = old ? strstr(text, old) : NULL;
    if (old && !at) test_failed(__FILE__, __LINE__, "no '%s' in the config of %s", old, family);
    if (at)
        sprintf(copy, "%.*s%s%s", (int)(at - text), text, now, at + strlen(old));
    else
        memcpy(copy, text, bytes + 1);
    file_write(folder_path("model/config.json"), copy, strlen(copy));
    free(text);
    free(copy);
}

static void write_weights(fv_ctx *ctx, const tensors *all)
{
    save_part(ctx, all, 0, all->count, folder_path("model/model.safetensors"));
}

/* ---- what a model says -------------------------------------------------------------------- */

static fv_tensor *answer(fv_ctx *ctx, const fv_model *model)
{
    static const int64_t length = 6;
    const fv_transformer *t = fv_model_transformer(model);
    const fv_transformer_config *c = fv_transformer_settings(t);
    const int64_t list[6] = {5, 3, 17, 200 % c->vocabulary, 8, 1}, *const tokens = list;
    const fv_sequences s = {.count = 1, .tokens = &tokens, .length = &length};
    const fv_token_rows rows = fv_token_rows_varlen(ctx, &s);
    fv_tensor *memory = c->encoder_layers ? fv_transformer_encode(ctx, t, &rows, NULL) : NULL;
    if (!c->decoder_layers) return fv_transformer_logits(ctx, t, memory);
    return fv_transformer_logits(
        ctx, t, fv_transformer_decode(ctx, t, &rows, memory, memory ? &rows : NULL, NULL));
}

static fv_model *opened(fv_ctx *ctx, const char *folder)
{
    fv_model *model = NULL;
    CHECK_OK(ctx, fv_model_open(ctx, folder, &model));
    return model;
}

/* The model in the test's folder answers like the fixture. */
static void check_same_answer(fv_ctx *ctx, const char *family)
{
    fv_model *theirs = opened(ctx, fixture(family, ""));
    fv_model *ours = opened(ctx, folder_path("model"));
    if (theirs && ours) CHECK(tensor_same(ctx, answer(ctx, theirs), answer(ctx, ours)));
    fv_model_close(&theirs);
    fv_model_close(&ours);
}

/* ---- there and back ----------------------------------------------------------------------- */

static void saved_models_open_again(void)
{
    for (int f = 0; f < FAMILIES; f++) {
        fv_ctx *ctx = values_begin();
        model_folder();
        fv_model *model = opened(ctx, fixture(families[f], ""));
        if (model) {
            CHECK_STR(fv_model_type(model), families[f]);
            CHECK(fv_model_spec(model)->ability != FV_CAN_TRANSLATE);
            CHECK_OK(ctx, fv_model_save(model, folder_path("model")));
            check_same_answer(ctx, families[f]);
        }
        /* The file has the names, shapes and bits that it had. */
        fv_safetensors *was = NULL, *is = NULL;
        CHECK_OK(ctx, fv_safetensors_open(ctx, fixture(families[f], "model.safetensors"), 0, &was));
        CHECK_OK(ctx, fv_safetensors_open(ctx, folder_path("model/model.safetensors"), 0, &is));
        if (was && is) CHECK_EQ(fv_safetensors_count(is), fv_safetensors_count(was));
        for (size_t i = 0; was && is && i < fv_safetensors_count(was); i++) {
            const char *name = fv_safetensors_entry(was, i)->name;
            CHECK(tensor_same(ctx, fv_safetensors_load(ctx, was, name),
                              fv_safetensors_load(ctx, is, name)));
        }
        fv_safetensors_close(&was);
        fv_safetensors_close(&is);
        fv_model_close(&model);
        folder_remove();
        values_end(&ctx);
    }
}

static void settings_survive(void)
{
    for (int f = 0; f < FAMILIES; f++) {
        fv_ctx *ctx = values_begin();
        model_folder();
        fv_transformer_config was = {.struct_size = sizeof was}, is = was;
        CHECK_OK(ctx, fv_transformer_config_load(ctx, fixture(families[f], "config.json"), &was));
        CHECK_OK(ctx, fv_transformer_config_save(ctx, &was, folder_path("config.json")));
        CHECK_OK(ctx, fv_transformer_config_load(ctx, folder_path("config.json"), &is));
        CHECK_EQ(is.vocabulary, was.vocabulary);
        CHECK_EQ(is.hidden, was.hidden);
        CHECK_EQ(is.act, was.act);
        CHECK(is.eps == was.eps && is.logits_scale == was.logits_scale);
        CHECK_EQ(is.pad, was.pad);
        folder_remove();
        values_end(&ctx);
    }
}

/* A family's config.json that has no key for a setting is not written. */
static void what_config_json_cannot_express_is_refused(void)
{
    fv_ctx *ctx = values_begin();
    model_folder();
    fv_transformer_config c;
    fv_transformer_config_init(&c, sizeof c, FV_FAMILY_GPT2);
    c.vocabulary = 10;
    c.post_norm = true;
    CHECK_EQ(fv_transformer_config_save(ctx, &c, folder_path("config.json")), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "'post'") != NULL);
    CHECK_EQ(folder_count(".json"), 0);
    c.family = FV_FAMILY_FOVEA; /* which can say everything */
    fv_transformer_config back = {.struct_size = sizeof back};
    CHECK_OK(ctx, fv_transformer_config_save(ctx, &c, folder_path("config.json")));
    CHECK_OK(ctx, fv_transformer_config_load(ctx, folder_path("config.json"), &back));
    CHECK(back.post_norm && back.act == FV_ACT_GELU_TANH && back.positions == FV_POSITION_LEARNED);
    folder_remove();
    values_end(&ctx);
}

/* Our own names, with everything on that other families lack. */
static void our_own_family_is_kept(void)
{
    fv_ctx *ctx = values_begin();
    model_folder();
    fv_params *params = NULL;
    fv_transformer *t = NULL;
    fv_transformer_config c;
    fv_transformer_config_init(&c, sizeof c, FV_FAMILY_FOVEA);
    c.vocabulary = 211;
    c.width = 16;
    c.heads = 2;
    c.hidden = 20;
    c.encoder_layers = c.decoder_layers = 1;
    c.post_norm = false;
    c.final_norm = c.embedding_norm = c.gated = true;
    c.tied = false;
    c.target_vocabulary = 205;
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    CHECK_OK(ctx, fv_transformer_create(params, &c, &t));
    CHECK_OK(ctx, fv_transformer_save_settings(t, folder_path("model")));
    CHECK_OK(ctx, fv_params_save(params, folder_path("model/model.safetensors")));
    fv_model *model = opened(ctx, folder_path("model"));
    for (int i = 0; model && i < fv_params_count(params); i++)
        CHECK(tensor_same(ctx, fv_params_tensor(params, i),
                          fv_params_find(fv_model_params(model), fv_params_name(params, i))));
    fv_model_close(&model);
    fv_transformer_destroy(&t);
    fv_params_destroy(&params);
    folder_remove();
    values_end(&ctx);
}

/* ---- spellings ----------------------------------------------------------------------------- */

static void drop_prefix(tensors *all, const char *prefix)
{
    for (size_t i = 0; i < all->count; i++)
        if (strncmp(all->name[i], prefix, strlen(prefix)) == 0)
            memmove(all->name[i], all->name[i] + strlen(prefix),
                    strlen(all->name[i] + strlen(prefix)) + 1);
}

static void old_norm_names(tensors *all)
{
    for (size_t i = 0; i < all->count; i++) {
        char *at = strstr(all->name[i], "LayerNorm.weight");
        if (at) strcpy(at, "LayerNorm.gamma");
        at = strstr(all->name[i], "LayerNorm.bias");
        if (at) strcpy(at, "LayerNorm.beta");
    }
}

static void names_may_be_bare_or_old(void)
{
    fv_ctx *ctx = values_begin();
    model_folder();
    tensors *all = tensors_of(ctx, "gpt2");
    drop_prefix(all, "transformer.");
    write_config("gpt2", NULL, NULL);
    write_weights(ctx, all);
    check_same_answer(ctx, "gpt2");
    /* What older files hold beside the weights. */
    strcpy(all->name[all->count], "h.0.attn.bias");
    all->tensor[all->count++] = fv_zeros(ctx, FV_F32, 4, (int64_t[]){1, 1, 64, 64});
    strcpy(all->name[all->count], "lm_head.weight");
    all->tensor[all->count++] = fv_zeros(ctx, FV_F32, 2, (int64_t[]){331, 64});
    write_weights(ctx, all);
    check_same_answer(ctx, "gpt2");
    free(all);
    all = tensors_of(ctx, "bert");
    old_norm_names(all);
    write_config("bert", NULL, NULL);
    write_weights(ctx, all);
    check_same_answer(ctx, "bert");
    free(all);
    folder_remove();
    values_end(&ctx);
}

static void weights_may_be_sharded(void)
{
    fv_ctx *ctx = values_begin();
    model_folder();
    tensors *all = tensors_of(ctx, "llama");
    const size_t half = all->count / 2;
    write_config("llama", NULL, NULL);
    save_part(ctx, all, 0, half, folder_path("model/model-00001-of-00002.safetensors"));
    save_part(ctx, all, half, all->count, folder_path("model/model-00002-of-00002.safetensors"));
    static char index[16384] = "{\"weight_map\": {";
    for (size_t i = 0; i < all->count; i++) {
        const size_t used = strlen(index);
        snprintf(index + used, sizeof index - used,
                 "%s\"%s\": \"model-0000%d-of-00002.safetensors\"", i ? ", " : "", all->name[i],
                 i < half ? 1 : 2);
    }
    strcat(index, "}}");
    file_write(folder_path("model/model.safetensors.index.json"), index, strlen(index));
    check_same_answer(ctx, "llama");
    free(all);
    folder_remove();
    values_end(&ctx);
}

static void short_floats_are_widened(void)
{
    const fv_dtype shorter[] = {FV_BF16, FV_F16};
    for (int d = 0; d < 2; d++) {
        fv_ctx *ctx = values_begin();
        model_folder();
        tensors *all = tensors_of(ctx, "gpt2"), *rounded = tensors_of(ctx, "gpt2");
        for (size_t i = 0; i < all->count; i++) {
            all->tensor[i] = fv_cast(ctx, all->tensor[i], shorter[d]);
            rounded->tensor[i] = fv_cast(ctx, all->tensor[i], FV_F32);
        }
        write_config("gpt2", NULL, NULL);
        write_weights(ctx, all);
        fv_model *model = opened(ctx, folder_path("model"));
        fv_tensor *ours = model ? answer(ctx, model) : NULL;
        write_weights(ctx, rounded);
        fv_model *exact = opened(ctx, folder_path("model"));
        if (model && exact) CHECK(tensor_same(ctx, ours, answer(ctx, exact)));
        fv_model_close(&model);
        fv_model_close(&exact);
        free(all);
        free(rounded);
        folder_remove();
        values_end(&ctx);
    }
}

static void a_mapped_model_answers_alike(void)
{
    for (int f = 0; f < FAMILIES; f++) {
        fv_ctx *ctx = values_begin();
        fv_model *mapped = NULL, *copied = opened(ctx, fixture(families[f], ""));
        CHECK_OK(ctx, fv_model_map(ctx, fixture(families[f], ""), &mapped));
        if (mapped && copied) CHECK(tensor_same(ctx, answer(ctx, mapped), answer(ctx, copied)));
        fv_model_close(&mapped);
        fv_model_close(&copied);
        values_end(&ctx);
    }
}

static void generation_settings_are_read(void)
{
    fv_ctx *ctx = values_begin();
    model_folder();
    tensors *all = tensors_of(ctx, "gpt2");
    write_config("gpt2", NULL, NULL);
    write_weights(ctx, all);
    const char *text = "{\"eos_token_id\": [7, 9], \"num_beams\": 4, \"length_penalty\": 0.5, "
                       "\"do_sample\": true, \"max_length\": 30, \"top_k\": 11, \"pad_token_id\": "
                       "null, \"early_stopping\": \"never\", \"forced_bos_token_id\": 3}";
    file_write(folder_path("model/generation_config.json"), text, strlen(text));
    fv_model *model = opened(ctx, folder_path("model"));
    for (int again = 0; model && again < 2; again++) {
        const fv_generation_defaults *g = fv_model_generation(model);
        CHECK_EQ(g->eos_count, 2);
        CHECK(g->eos[0] == 7 && g->eos[1] == 9 && g->beams == 4 && g->length_penalty == 0.5);
        CHECK(g->sample && g->max_length == 30 && g->top_k == 11 && g->pad == -1);
        CHECK(!g->early_stopping && g->forced_first == 3 && g->forced_last == -1);
        CHECK_EQ(g->bos, 0);
        CHECK_OK(ctx, fv_model_save(model, folder_path("model")));
        fv_model_close(&model);
        model = opened(ctx, folder_path("model"));
    }
    fv_model_close(&model);
    free(all);
    folder_remove();
    values_end(&ctx);
}

/* ---- refusals ------------------------------------------------------------------------------- */

static void check_refused(fv_ctx *ctx, fv_status status, const char *text)
{
    fv_model *model = NULL;
    const fv_status got = fv_model_open(ctx, folder_path("model"), &model);
    CHECK_EQ(got, status);
    CHECK(model == NULL);
    if (!strstr(fv_ctx_message(ctx), text))
        test_failed(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", fv_ctx_message(ctx), text);
    fv_model_close(&model);
}

static void wrong_tensors_are_named(void)
{
    fv_ctx *ctx = values_begin();
    model_folder();
    write_config("gpt2", NULL, NULL);
    tensors *all = tensors_of(ctx, "gpt2");
    const size_t norm = place_of(all, "transformer.h.1.ln_2.bias");
    strcpy(all->name[norm], "transformer.h.1.ln_2.bia");
    write_weights(ctx, all);
    check_refused(ctx, FV_ERR_FORMAT,
                  "'transformer.h.1.ln_2.bias' of a gpt2 model is missing; the nearest is "
                  "'transformer.h.1.ln_2.bia'");
    strcpy(all->name[norm], "transformer.h.1.ln_2.bias");
    strcpy(all->name[all->count], "transformer.h.2.ln_1.bias");
    all->tensor[all->count++] = fv_zeros(ctx, FV_F32, 1, (int64_t[]){64});
    write_weights(ctx, all);
    check_refused(ctx, FV_ERR_FORMAT, "'transformer.h.2.ln_1.bias' does not belong");
    all->count--;
    all->tensor[norm] = fv_zeros(ctx, FV_F32, 1, (int64_t[]){63});
    write_weights(ctx, all);
    check_refused(ctx, FV_ERR_FORMAT, "'transformer.h.1.ln_2.bias' is [63], not [64]");
    all->tensor[norm] = fv_zeros(ctx, FV_I64, 1, (int64_t[]){64});
    write_weights(ctx, all);
    check_refused(ctx, FV_ERR_FORMAT, "elements of type I64");
    /* A transposed Conv1D is noticed where its sides differ. */
    all->tensor[norm] = fv_zeros(ctx, FV_F32, 1, (int64_t[]){64});
    const size_t up = place_of(all, "transformer.h.0.mlp.c_fc.weight");
    all->tensor[up] = fv_zeros(ctx, FV_F32, 2, (int64_t[]){256, 64});
    write_weights(ctx, all);
    check_refused(ctx, FV_ERR_FORMAT, "c_fc.weight' is [256,64], not [64,256]");
    free(all);
    folder_remove();
    values_end(&ctx);
}

static void wrong_settings_are_named(void)
{
    static const struct {
        const char *family, *old, *now, *text;
    } cases[] = {
        {"gpt2", "\"gpt2\"", "\"gtp2\"", "'gtp2' is not supported by this version"},
        {"gpt2", "\"model_type\": \"gpt2\",", "", "model_type"},
        {"gpt2", "\"n_embd\": 64,", "", "'n_embd' is missing"},
        {"gpt2", "\"n_embd\": 64", "\"n_embd\": -64", "config.json:"},
        {"gpt2", "\"n_embd\": 64", "\"n_embd\": 1e18", "config.json:"},
        {"gpt2", "\"n_embd\": 64", "\"n_embd\": \"64\"", "config.json:"},
        {"gpt2", "\"n_embd\": 64", "\"n_embd\": null", "config.json:"},
        {"gpt2", "\"n_embd\": 64", "\"n_embd\": 68", "is [331,64], not [331,68]"},
        {"gpt2", "\"n_head\": 4", "\"n_head\": 5", "5 heads do not divide"},
        {"gpt2", "\"n_layer\": 2", "\"n_layer\": 3", "transformer.h.2"},
        {"gpt2", "\"n_layer\": 2", "\"n_layer\": 100000000", "decoder_layers"},
        {"gpt2", "gelu_new", "gelu_newer", "gelu_newer"},
        {"gpt2", "\"resid_pdrop\": 0.0", "\"resid_pdrop\": 1.5", "dropout"},
        {"bert", "\"is_decoder\": false", "\"is_decoder\": true", "is_decoder"},
        {"roberta", "\"is_decoder\": false", "\"is_decoder\": true", "is_decoder"},
        {"roberta", "\"pad_token_id\": 1", "\"pad_token_id\": null", "'pad_token_id' is null"},
        {"roberta", "\"max_position_embeddings\": 24", "\"max_position_embeddings\": 2",
         "config.json:"},
        {"distilbert", "\"dim\": 16", "\"dims\": 16", "'dim' is missing"},
        {"bart", "\"d_model\": 16", "\"normalize_before\": true, \"d_model\": 16",
         "'normalize_before' that is true"},
        {"bart", "\"d_model\": 16", "\"add_final_layer_norm\": true, \"d_model\": 16",
         "'add_final_layer_norm' that is true"},
        {"bart", "\"d_model\": 16", "\"normalize_embedding\": false, \"d_model\": 16",
         "'normalize_embedding' that is false"},
        {"bart", "\"d_model\": 16", "\"static_position_embeddings\": true, \"d_model\": 16",
         "'static_position_embeddings' that is true"},
        {"bart", "\"d_model\": 16", "\"extra_pos_embeddings\": 3, \"d_model\": 16", "config.json:"},
        {"bart", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
         "'tie_word_embeddings' that is false"},
        {"marian", "\"decoder_start_token_id\": 256,", "", "decoder_start_token_id"},
        {"t5", "\"feed_forward_proj\": \"relu\"", "\"feed_forward_proj\": \"gated-mish\"", "mish"},
        {"t5", "\"relative_attention_num_buckets\": 16", "\"relative_attention_num_buckets\": 2",
         "buckets"},
        {"llama", "\"rope_type\": \"default\"", "\"rope_type\": \"spiral\"", "'spiral'"},
        {"llama", "\"rope_type\": \"default\"",
         "\"rope_type\": \"longrope\", \"short_factor\": [1, 2]",
         "'short_factor' has 2 factors, expected 8"},
        {"llama", "\"rope_type\": \"default\"", "\"rope_type\": \"llama3\"", "factor"},
        {"llama", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "heads"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fv_ctx *ctx = values_begin();
        model_folder();
        tensors *all = tensors_of(ctx, cases[i].family);
        write_config(cases[i].family, cases[i].old, cases[i].now);
        write_weights(ctx, all);
        fv_model *model = NULL;
        const fv_status status = fv_model_open(ctx, folder_path("model"), &model);
        const bool named = strstr(fv_ctx_message(ctx), cases[i].text) != NULL;
        if (status == FV_OK || model || !named)
            test_failed(__FILE__, __LINE__, "%s with %s: %s: %s", cases[i].family, cases[i].now,
                        fv_status_name(status), fv_ctx_message(ctx));
        fv_model_close(&model);
        free(all);
        folder_remove();
        fv_ctx_take_error(ctx);
        values_end(&ctx);
    }
}

static void missing_files_are_named(void)
{
    fv_ctx *ctx = values_begin();
    model_folder();
    check_refused(ctx, FV_ERR_IO, "config.json");
    write_config("gpt2", NULL, NULL);
    check_refused(ctx, FV_ERR_IO, "model.safetensors");
    file_write(folder_path("model/model.safetensors"), "x", 1);
    check_refused(ctx, FV_ERR_FORMAT, "model.safetensors");
    folder_remove();
    values_end(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(saved_models_open_again);
    RUN(settings_survive);
    RUN(what_config_json_cannot_express_is_refused);
    RUN(our_own_family_is_kept);
    RUN(names_may_be_bare_or_old);
    RUN(weights_may_be_sharded);
    RUN(short_floats_are_widened);
    RUN(a_mapped_model_answers_alike);
    RUN(generation_settings_are_read);
    RUN(wrong_tensors_are_named);
    RUN(wrong_settings_are_named);
    RUN(missing_files_are_named);
    return TEST_END();
}
