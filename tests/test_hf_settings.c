/*
 * Transformers' numbers for settings that few published models use (tests/fixtures/settings): whole
 * sequences, sequences of different lengths in one row, and steps with a cache in rows of different
 * lengths. Saved folders give the same bits.
 */
#include "fovea/autograd.h"
#include "fovea/file.h"
#include "fovea/ops.h"
#include "fovea/transformer.h"
#include "support/files.h"
#include "support/tensors.h"
#include "support/values.h"

enum { TOKENS = 14, SHORT = 9, VOCABULARY = 19 };

static const char *const decoders[] = {"mistral",         "qwen2",   "qwen3",    "yarn",
                                       "yarn-fractional", "dynamic", "longrope", "gpt2"};
enum { DECODERS = sizeof decoders / sizeof *decoders };

typedef struct fixture {
    fv_ctx *ctx;
    const char *name;
    fv_safetensors *expected;
    fv_model *model;
    fv_transformer *t;
} fixture;

static const char *path_of(const char *name, const char *file)
{
    static char path[96];
    snprintf(path, sizeof path, "fixtures/settings/%s%s%s", name, *file ? "/" : "", file);
    return test_path(path);
}

static bool fixture_open(fixture *f, const char *name)
{
    *f = (fixture){.ctx = values_begin(), .name = name};
    CHECK_OK(f->ctx,
             fv_safetensors_open(f->ctx, path_of(name, "expected.safetensors"), 0, &f->expected));
    CHECK_OK(f->ctx, fv_model_open(f->ctx, path_of(name, ""), &f->model));
    if (f->model) f->t = fv_model_transformer(f->model);
    return f->expected && f->t;
}

static void fixture_close(fixture *f)
{
    fv_model_close(&f->model);
    fv_safetensors_close(&f->expected);
    values_end(&f->ctx);
}

static fv_tensor *expected(const fixture *f, const char *name)
{
    return fv_safetensors_load(f->ctx, f->expected, name);
}

/* Within 2e-5 of the largest expected number. */
static void compare(const fixture *f, const char *what, fv_tensor *ours, fv_tensor *theirs)
{
    double largest = NAN;
    const double off = tensor_distance(f->ctx, ours, theirs);
    CHECK_OK(f->ctx, fv_tensor_item(f->ctx, fv_max(f->ctx, fv_abs(f->ctx, theirs), 0, NULL, false),
                                    &largest));
    if (!(off <= 2e-5 * largest))
        test_failed(__FILE__, __LINE__, "%s: %s is off by %g of %g", f->name, what, off, largest);
}

static fv_tensor *logits_of(const fixture *f, const fv_transformer *t, const fv_token_rows *rows)
{
    return fv_transformer_logits(f->ctx, t,
                                 fv_transformer_decode(f->ctx, t, rows, NULL, NULL, NULL));
}

/* ---- decoders --------------------------------------------------------------------------- */

static void whole_sequences(void)
{
    for (int i = 0; i < DECODERS; i++) {
        fixture f;
        if (fixture_open(&f, decoders[i])) {
            const fv_token_rows rows = {.ids = expected(&f, "input_ids")};
            compare(&f, "a batch", logits_of(&f, f.t, &rows), expected(&f, "logits"));
        }
        fixture_close(&f);
    }
}

/* Documents of 14 and 9 tokens in one row: each has the numbers that it has alone. */
static void documents_in_one_row(void)
{
    for (int i = 0; i < DECODERS; i++) {
        fixture f;
        if (fixture_open(&f, decoders[i])) {
            int64_t *ids = tensor_indices(f.ctx, expected(&f, "input_ids"));
            const int64_t *list[2] = {ids, ids + TOKENS}, length[2] = {TOKENS, SHORT};
            const fv_sequences both = {.count = 2, .tokens = list, .length = length};
            const fv_token_rows rows = fv_token_rows_varlen(f.ctx, &both);
            fv_tensor *y = logits_of(&f, f.t, &rows), *all = expected(&f, "logits");
            compare(&f, "the first document", fv_slice(f.ctx, y, 1, 0, TOKENS, 1),
                    fv_slice(f.ctx, all, 0, 0, 1, 1));
            compare(&f, "the second document", fv_slice(f.ctx, y, 1, TOKENS, TOKENS + SHORT, 1),
                    expected(&f, "short"));
            free(ids);
        }
        fixture_close(&f);
    }
}

/* Steps of rows that begin with 5, 3 and 11 tokens, against the same steps in transformers. */
static void check_steps(const fixture *f, fv_cache *cache, const int64_t *ids, int rows, int first)
{
    fv_ctx *ctx = f->ctx;
    static const int64_t begins[3] = {5, 3, 11};
    const int64_t *list[3] = {ids, ids + TOKENS, ids}, count = rows;
    const fv_sequences prompts = {.count = rows, .tokens = list + first, .length = begins + first};
    fv_tensor *theirs[3] = {expected(f, "steps.0"), expected(f, "steps.1"), expected(f, "steps.2")};
    CHECK_OK(ctx, fv_cache_begin(cache, &prompts, NULL, 2));
    for (int64_t t = 0; t < TOKENS - begins[first] + 1; t++) {
        int64_t next[2];
        for (int i = 0; i < rows; i++)
            next[i] = list[first + i][begins[first + i] - 1 + t];
        fv_tensor *y = fv_cache_step(ctx, cache, fv_from_host(ctx, FV_I64, 1, &count, next));
        for (int i = 0; i < rows; i++)
            compare(f, rows == 2 ? "a step of two rows" : "a step of one row",
                    fv_slice(ctx, y, 0, i, i + 1, 1),
                    fv_slice(ctx, theirs[first + i], 0, t, t + 1, 1));
    }
}

static void steps_with_a_cache(void)
{
    for (int i = 0; i < DECODERS; i++) {
        fixture f;
        fv_cache *cache = NULL;
        if (fixture_open(&f, decoders[i])) {
            int64_t *ids = tensor_indices(f.ctx, expected(&f, "input_ids"));
            CHECK_OK(f.ctx, fv_cache_create(f.t, &cache));
            check_steps(&f, cache, ids, 1, 0);
            check_steps(&f, cache, ids, 1, 1);
            check_steps(&f, cache, ids, 1, 2);
            check_steps(&f, cache, ids, 2, 0);
            fv_cache_destroy(&cache);
            free(ids);
        }
        fixture_close(&f);
    }
}

/* ---- encoders, both sides ----------------------------------------------------------------- */

static void vectors_of_distances(void)
{
    static const char *const names[] = {"relative_key", "relative_key_query"};
    for (int i = 0; i < 2; i++) {
        fixture f;
        if (fixture_open(&f, names[i])) {
            fv_ctx *ctx = f.ctx;
            const fv_token_rows rows = {.ids = expected(&f, "input_ids"),
                                        .mask = expected(&f, "attention_mask")};
            fv_tensor *y =
                fv_transformer_logits(ctx, f.t, fv_transformer_encode(ctx, f.t, &rows, NULL));
            fv_tensor *all = expected(&f, "logits");
            int64_t *ids = tensor_indices(ctx, rows.ids);
            const int64_t *list[2] = {ids, ids + TOKENS}, length[2] = {TOKENS, SHORT};
            const fv_sequences both = {.count = 2, .tokens = list, .length = length};
            const fv_token_rows own = fv_transformer_rows(ctx, f.t, &both); /* padded */
            fv_tensor *first =
                fv_transformer_logits(ctx, f.t, fv_transformer_encode(ctx, f.t, &own, NULL));
            compare(&f, "the first row", fv_slice(ctx, first, 0, 0, 1, 1),
                    fv_slice(ctx, all, 0, 0, 1, 1));
            free(ids);
            for (int row = 0; row < 2; row++) { /* padding does not count */
                const int64_t n = row ? SHORT : TOKENS;
                fv_tensor *ours = fv_slice(ctx, fv_slice(ctx, y, 0, row, row + 1, 1), 1, 0, n, 1);
                compare(&f, "a sequence", ours,
                        fv_slice(ctx, fv_slice(ctx, all, 0, row, row + 1, 1), 1, 0, n, 1));
            }
        }
        fixture_close(&f);
    }
}

static void few_distances(void)
{
    fixture f;
    if (fixture_open(&f, "t5")) {
        const fv_token_rows source = {.ids = expected(&f, "input_ids")},
                            target = {.ids = expected(&f, "decoder_input_ids")};
        fv_tensor *memory = fv_transformer_encode(f.ctx, f.t, &source, NULL);
        fv_tensor *h = fv_transformer_decode(f.ctx, f.t, &target, memory, &source, NULL);
        compare(&f, "a batch", fv_transformer_logits(f.ctx, f.t, h), expected(&f, "logits"));
    }
    fixture_close(&f);
}

/* ---- values that follow from others --------------------------------------------------------- */

static fv_status load_settings(fv_ctx *ctx, const char *type, const char *rest,
                               fv_transformer_config *cfg)
{
    char text[1024];
    *cfg = (fv_transformer_config){.struct_size = sizeof *cfg};
    snprintf(text, sizeof text,
             "{\"model_type\": \"%s\", \"vocab_size\": 19, \"hidden_size\": 8, "
             "\"intermediate_size\": 12, \"num_hidden_layers\": 3, \"num_attention_heads\": 2, "
             "\"max_position_embeddings\": 64%s}",
             type, rest);
    file_write(folder_path("config.json"), text, strlen(text));
    return fv_transformer_config_load(ctx, folder_path("config.json"), cfg);
}

static fv_transformer_config settings_of(fv_ctx *ctx, const char *type, const char *rest)
{
    fv_transformer_config cfg;
    CHECK_OK(ctx, load_settings(ctx, type, rest, &cfg));
    return cfg;
}

static void scalings_have_defaults(void)
{
    fv_ctx *ctx = values_begin();
    folder_make();
    fv_rotary_config r = settings_of(ctx, "llama",
                                     ", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4, "
                                     "\"beta_slow\": 0, \"attention_factor\": null}, "
                                     "\"rope_theta\": 500")
                             .rotary;
    CHECK_NEAR(r.base, 500, 0);
    CHECK(r.scaling == FV_ROTARY_SCALING_YARN && !r.fractional);
    CHECK_NEAR(r.factor, 4, 0);
    CHECK_NEAR(r.original, 64, 0);
    CHECK_NEAR(r.high_freq, 32, 0);
    CHECK_NEAR(r.low_freq, 1, 0);
    CHECK_NEAR(r.attention_factor, 0.1 * log(4) + 1, 1e-15);
    /* Beside the scaling's own settings, the first length of a model wins. */
    r = settings_of(ctx, "mistral",
                    ", \"original_max_position_embeddings\": 16, \"rope_parameters\": "
                    "{\"rope_type\": \"longrope\", \"original_max_position_embeddings\": 8}")
            .rotary;
    CHECK_NEAR(r.original, 16, 0);
    CHECK_NEAR(r.attention_factor, sqrt(1 + log(4) / log(16)), 1e-15);
    r = settings_of(ctx, "llama",
                    ", \"rope_parameters\": {\"rope_type\": \"dynamic\", \"factor\": 2, "
                    "\"original_max_position_embeddings\": 8}")
            .rotary;
    CHECK_NEAR(r.original, 64, 0);
    folder_remove();
    values_end(&ctx);
}

static void windows_have_defaults(void)
{
    fv_ctx *ctx = values_begin();
    folder_make();
    CHECK_EQ(settings_of(ctx, "mistral", "").window, 4096);
    CHECK_EQ(settings_of(ctx, "mistral", ", \"sliding_window\": null").window, 0);
    CHECK_EQ(settings_of(ctx, "qwen2", ", \"sliding_window\": 7").window, 0);
    /* 28 layers without a window: these three have none. */
    CHECK_EQ(settings_of(ctx, "qwen2", ", \"use_sliding_window\": true").window, 0);
    const fv_transformer_config cfg = settings_of(
        ctx, "qwen3",
        ", \"use_sliding_window\": true, \"sliding_window\": 7, \"max_window_layers\": 2");
    CHECK_EQ(cfg.window, 7);
    CHECK_EQ((int)cfg.full_layers[0], 3);
    CHECK_EQ(cfg.head_dim, 128);
    CHECK_EQ(cfg.kv_heads, 32);
    folder_remove();
    values_end(&ctx);
}

/* Published sizes. */
static void parameters_are_counted(void)
{
    static const struct {
        fv_family family;
        int64_t vocabulary, width, layers, heads, kv_heads, head_dim, hidden, parameters;
        bool tied;
    } rows[] = {
        {FV_FAMILY_MISTRAL, 32000, 4096, 32, 32, 8, 0, 14336, 7241732096, false},
        {FV_FAMILY_QWEN2, 151936, 896, 24, 14, 2, 0, 4864, 494032768, true},
        {FV_FAMILY_QWEN3, 151936, 1024, 28, 16, 8, 128, 3072, 596049920, true},
    };
    fv_ctx *ctx = values_begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fv_transformer_config cfg;
        fv_model_cost cost = {0};
        fv_transformer_config_init(&cfg, sizeof cfg, rows[i].family);
        cfg.vocabulary = rows[i].vocabulary;
        cfg.width = rows[i].width;
        cfg.decoder_layers = rows[i].layers;
        cfg.heads = rows[i].heads;
        cfg.kv_heads = rows[i].kv_heads;
        cfg.head_dim = rows[i].head_dim;
        cfg.hidden = rows[i].hidden;
        cfg.tied = rows[i].tied;
        CHECK_OK(ctx, fv_transformer_cost(ctx, &cfg, 8192, &cost));
        CHECK_EQ(cost.parameters, rows[i].parameters);
        if (i > 0) continue;
        /* A window of 4096 in 8192 tokens: 4096 keys, but fewer for the first 4095 tokens. */
        const double keys = 4096 - 4096.0 * 4095 / (2 * 8192);
        CHECK_NEAR(cost.flops_attention, 32 * 2 * keys * 32 * 256, 1);
    }
    values_end(&ctx);
}

static void impossible_settings_are_refused(void)
{
    static const struct {
        const char *type, *rest, *text;
    } cases[] = {
        {"llama", ", \"rope_parameters\": {\"rope_type\": \"dynamic\"}", "'factor' is missing"},
        {"llama", ", \"rope_parameters\": {\"rope_type\": \"yarn\", \"attention_factor\": 0}",
         "'attention_factor' is 0"},
        {"mistral", ", \"sliding_window\": 0", "config.json:"},
        {"qwen2", ", \"use_sliding_window\": true, \"layer_types\": [\"full_attention\"]",
         "'layer_types' has 1 entries for 3 layers"},
        {"qwen2",
         ", \"layer_types\": [\"full_attention\", \"sliding_attention\", \"full_attention\"]",
         "layer 1 slides, but there is no 'sliding_window'"},
        {"qwen2", ", \"layer_types\": [\"chunked\", \"full_attention\", \"full_attention\"]",
         "layer type 'chunked' is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fv_ctx *ctx = values_begin();
        folder_make();
        fv_transformer_config cfg;
        CHECK_EQ(load_settings(ctx, cases[i].type, cases[i].rest, &cfg), FV_ERR_FORMAT);
        if (!strstr(fv_ctx_message(ctx), cases[i].text))
            test_failed(__FILE__, __LINE__, "%s: %s", cases[i].rest, fv_ctx_message(ctx));
        folder_remove();
        fv_ctx_take_error(ctx);
        values_end(&ctx);
    }
}

/* A family that we do not have is not mistaken for one that we have, and every one is in the list.
 */
static void supported_families_are_listed(void)
{
    fv_ctx *ctx = values_begin();
    fv_model *model = NULL;
    fv_transformer_config cfg;
    folder_make();
    CHECK_EQ(load_settings(ctx, "gpt_neo", "", &cfg), FV_ERR_FORMAT);
    for (int folder = 0; folder < 2; folder++) {
        if (folder) CHECK_EQ(fv_model_open(ctx, folder_path(""), &model), FV_ERR_FORMAT);
        const char *message = fv_ctx_message(ctx);
        CHECK(strstr(message, "model_type 'gpt_neo' is not supported by this version; supported"));
        CHECK(!strstr(message, "did you mean"));
        for (int f = FV_FAMILY_FOVEA + 1; f < FV_FAMILY_COUNT; f++)
            if (!strstr(message, fv_family_name((fv_family)f)))
                test_failed(__FILE__, __LINE__, "%s is not in: %s", fv_family_name((fv_family)f),
                            message);
    }
    folder_remove();
    values_end(&ctx);
}

static void note_warning(void *user, fv_log_level level, const char *text)
{
    char *all = user;
    if (level == FV_LOG_WARN) snprintf(all + strlen(all), 1024 - strlen(all), "%s\n", text);
}

/* Ids past the vocabulary give a warning; the model opens, and has no such tokens. */
static void tokens_past_the_vocabulary_are_ignored(void)
{
    char warnings[1024] = "";
    fv_ctx_config cfg;
    fv_ctx *ctx = NULL;
    fv_model *model = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.log = note_warning;
    cfg.log_user = warnings;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    CHECK_OK(ctx, fv_model_open(ctx, path_of("gpt2", ""), &model));
    CHECK(strstr(warnings, "'bos_token_id' is 50256, but the vocabulary has 19 tokens"));
    CHECK(strstr(warnings, "'eos_token_id' is 50256, but the vocabulary has 19 tokens"));
    if (model) CHECK_EQ(fv_transformer_settings(fv_model_transformer(model))->eos, -1);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* ---- there and back ----------------------------------------------------------------------- */

/* A saved folder is a model with the same settings and bits; our own format holds them all. */
static void saved_settings_open_again(void)
{
    for (int i = 0; i < DECODERS; i++)
        for (int ours = 0; ours < 2; ours++) {
            fixture f;
            fv_model *again = NULL;
            folder_make();
            if (fixture_open(&f, decoders[i])) {
                const fv_token_rows rows = {.ids = expected(&f, "input_ids")};
                fv_tensor *y = logits_of(&f, f.t, &rows);
                if (ours) {
                    fv_transformer_config cfg = *fv_transformer_settings(f.t);
                    fv_transformer_config back = {.struct_size = sizeof back};
                    cfg.family = FV_FAMILY_FOVEA;
                    CHECK_OK(f.ctx,
                             fv_transformer_config_save(f.ctx, &cfg, folder_path("config.json")));
                    CHECK_OK(f.ctx,
                             fv_transformer_config_load(f.ctx, folder_path("config.json"), &back));
                    CHECK_EQ(back.window, cfg.window);
                    CHECK_EQ((int)back.full_layers[0], (int)cfg.full_layers[0]);
                    CHECK(back.qk_norm == cfg.qk_norm && back.scale_by_layer == cfg.scale_by_layer);
                    CHECK(back.rotary.scaling == cfg.rotary.scaling);
                    CHECK(back.rotary.attention_factor == cfg.rotary.attention_factor);
                } else {
                    CHECK_OK(f.ctx, fv_model_save(f.model, folder_path("")));
                    CHECK_OK(f.ctx, fv_model_open(f.ctx, folder_path(""), &again));
                    if (again)
                        CHECK(tensor_same(f.ctx, y,
                                          logits_of(&f, fv_model_transformer(again), &rows)));
                }
            }
            fv_model_close(&again);
            fixture_close(&f);
            folder_remove();
        }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(whole_sequences);
    RUN(documents_in_one_row);
    RUN(steps_with_a_cache);
    RUN(vectors_of_distances);
    RUN(few_distances);
    RUN(scalings_have_defaults);
    RUN(windows_have_defaults);
    RUN(parameters_are_counted);
    RUN(impossible_settings_are_refused);
    RUN(supported_families_are_listed);
    RUN(tokens_past_the_vocabulary_are_ignored);
    RUN(saved_settings_open_again);
    return TEST_END();
}
