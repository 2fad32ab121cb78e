/* Structs with a struct_size that are not settings of a layer, a model or a trainer. */
#include "support/struct_sizes.h"

#include <stdio.h>
#include <string.h>

#include "data/parallel.h"
#include "fovea/audio.h"
#include "fovea/data.h"
#include "fovea/generate.h"
#include "fovea/look.h"
#include "fovea/task.h"
#include "fovea/text_metric.h"
#include "fovea/tokenizer.h"
#include "fovea/translate.h"
#include "support/test.h"

fv_ctx *sizes_ctx;

/* ---- audio ---------------------------------------------------------------------------------- */

static void init_features(void *cfg, size_t bytes)
{
    fv_features_config_init(cfg, bytes, FV_FEATURES_PRESET_WHISPER);
}
static fv_status call_features(const void *cfg)
{
    fv_features *features = NULL;
    const fv_status status = fv_features_create(sizes_ctx, cfg, &features);
    if (status == FV_OK) CHECK_EQ(fv_features_width(features), 80);
    fv_features_destroy(&features);
    return status;
}

static void init_augment(void *cfg, size_t bytes) { fv_spec_augment_config_init(cfg, bytes); }
static fv_status call_augment(const void *cfg)
{
    float x[4] = {0};
    return fv_spec_augment(sizes_ctx, cfg, 0, 2, 2, x);
}

/* ---- attention ------------------------------------------------------------------------------ */

static const float numbers[4] = {1, 2, 3, 4};

static void init_attention(void *cfg, size_t bytes) { fv_attention_init(cfg, bytes); }
static fv_status call_attention(const void *cfg)
{
    fv_tensor *x = fv_from_host(sizes_ctx, FV_F32, 4, (int64_t[]){1, 1, 2, 2}, numbers);
    fv_attention_run(sizes_ctx, &(fv_attention_input){.q = x, .k = x, .v = x}, cfg, NULL);
    return fv_ctx_error(sizes_ctx) == FV_OK ? FV_OK : fv_ctx_take_error(sizes_ctx);
}

static float context[4], lse[2], map[4];
static _Alignas(64) char scratch[1 << 20];

static fv_attn_data raw_data(void)
{
    return (fv_attn_data){.q = numbers, .k = numbers, .v = numbers, .o = context, .lse = lse};
}
static void init_attn(void *cfg, size_t bytes)
{
    fv_attn full;
    fv_attn_init(cfg, bytes);
    fv_attn_init(&full, sizeof full);
    full.struct_size = bytes;
    full.n_q = full.n_k = full.d = full.d_v = 2;
    fv_attn_dense(&full);
    memcpy(cfg, &full, bytes < sizeof full ? bytes : sizeof full);
}
static fv_status call_attn(const void *cfg)
{
    const fv_attn_data data = raw_data();
    fv_attn_summary summary = {.struct_size = sizeof summary};
    fv_attn_region region;
    size_t need = 0;
    fv_attn_region_init(&region, sizeof region, cfg);
    fv_status status = fv_attn_scratch(cfg, FV_ATTN_FORWARD, 1, &need);
    CHECK(need <= sizeof scratch);
    if (status == FV_OK) status = fv_attn_forward(cfg, &data, NULL, scratch, sizeof scratch);
    if (status == FV_OK) status = fv_attn_backward(cfg, &data, NULL, scratch, sizeof scratch);
    if (status == FV_OK)
        status = fv_attn_weights(cfg, &data, &region, NULL, scratch, sizeof scratch, map);
    if (status == FV_OK) CHECK_NEAR(map[2] + map[3], 1, 1e-5);
    if (status == FV_OK)
        status = fv_attn_summarise(cfg, &data, &summary, NULL, scratch, sizeof scratch);
    return status == FV_OK ? fv_attn_head_means(cfg, lse, lse, map) : status;
}

static void init_region(void *cfg, size_t bytes)
{
    fv_attn a;
    init_attn(&a, sizeof a);
    fv_attn_region_init(cfg, bytes, &a);
}
static fv_status call_region(const void *cfg)
{
    fv_attn a;
    size_t need = 0;
    init_attn(&a, sizeof a);
    const fv_attn_data data = raw_data();
    const fv_status status = fv_attn_weights_scratch(&a, cfg, 1, &need);
    return status == FV_OK ? fv_attn_weights(&a, &data, cfg, NULL, scratch, sizeof scratch, map)
                           : status;
}

/* Structs without an init function: zeros, and the size. */
static void init_zero(void *cfg, size_t bytes)
{
    memset(cfg, 0, bytes);
    memcpy(cfg, &bytes, sizeof bytes);
}
static fv_status call_summary(const void *cfg)
{
    fv_attn a;
    size_t need = 0;
    init_attn(&a, sizeof a);
    const fv_attn_data data = raw_data();
    const fv_status status = fv_attn_summary_scratch(&a, cfg, 1, &need);
    return status == FV_OK ? fv_attn_summarise(&a, &data, cfg, NULL, scratch, sizeof scratch)
                           : status;
}

/* ---- context, data, pictures ---------------------------------------------------------------- */

static void init_ctx(void *cfg, size_t bytes) { fv_ctx_config_init(cfg, bytes); }
static fv_status call_ctx(const void *cfg)
{
    fv_ctx *other = NULL;
    const fv_status status = fv_ctx_create(cfg, &other);
    fv_ctx_destroy(&other);
    return status;
}

/* Limits are a member of fv_ctx_config, whose size never changes; zeros are defaults. */
static void init_limits(void *cfg, size_t bytes) { fv_limits_init(cfg, bytes); }
static fv_status call_limits(const void *limits)
{
    fv_ctx_config cfg;
    size_t bytes;
    memcpy(&bytes, limits, sizeof bytes);
    fv_ctx_config_init(&cfg, sizeof cfg);
    memset(&cfg.limits, 0, sizeof cfg.limits);
    memcpy(&cfg.limits, limits, bytes);
    cfg.threads = 1;
    return call_ctx(&cfg);
}

static void init_look(void *cfg, size_t bytes) { fv_look_options_init(cfg, bytes); }
static fv_status call_look(const void *cfg)
{
    const fv_look_map picture_of = {.rows = 2, .cols = 2, .values = numbers};
    fv_picture *picture = NULL;
    const fv_status status =
        fv_look_map_draw(sizes_ctx, &picture_of, FV_LOOK_FORMAT_TEXT, cfg, &picture);
    fv_picture_free(&picture);
    return status;
}

/* Accepted: what is missing is the folder or the file. */
static fv_status accepted(fv_status status) { return status == FV_ERR_IO ? FV_OK : status; }

static void init_made(void *cfg, size_t bytes) { fv_made_config_init(cfg, bytes); }
static fv_status call_made(const void *cfg)
{
    return accepted(
        fv_made_set_write(sizes_ctx, fv_made_set_find("copy"), cfg, "/no such folder", NULL));
}

static void init_parallel(void *cfg, size_t bytes) { fv_parallel_config_init(cfg, bytes); }
static fv_status call_parallel(const void *cfg)
{
    fv_parallel *pairs = NULL;
    CHECK_OK(sizes_ctx, fv_parallel_create_with(sizes_ctx, NULL, NULL, &pairs));
    const fv_status status = fv_parallel_read(pairs, "/no file", "/no file", cfg, NULL);
    fv_parallel_destroy(&pairs);
    return accepted(status);
}

static void init_trainer(void *cfg, size_t bytes)
{
    fv_tokenizer_trainer_config_init(cfg, bytes, FV_TOKENIZER_WORDS);
}
static fv_status call_trainer(const void *cfg)
{
    fv_tokenizer_trainer *trainer = NULL;
    const fv_status status = fv_tokenizer_trainer_create(sizes_ctx, cfg, &trainer);
    fv_tokenizer_trainer_destroy(&trainer);
    return status;
}

/* ---- search --------------------------------------------------------------------------------- */

static fv_status steps_begin(void *user, int64_t sources)
{
    (void)user, (void)sources;
    return FV_OK;
}
static fv_status steps_step(void *user, fv_ctx *in, fv_tensor *tokens, bool want_weights,
                            fv_step_output *out)
{
    (void)user, (void)want_weights;
    out->logits = fv_zeros(in, FV_F32, 2, (int64_t[]){fv_tensor_size(tokens, 0), 3});
    return FV_OK;
}
static fv_status steps_select(void *user, int64_t rows, const int64_t *from)
{
    (void)user, (void)rows, (void)from;
    return FV_OK;
}

static void init_search(void *cfg, size_t bytes) { fv_search_config_init(cfg, bytes); }
static fv_status call_search(const void *cfg)
{
    const fv_stepper stepper = {.max_choices = 3,
                                .eos = -1,
                                .begin = steps_begin,
                                .step = steps_step,
                                .select = steps_select};
    fv_outputs *outputs = NULL;
    const fv_status status = fv_search(sizes_ctx, &stepper, 1, (int64_t[]){2}, cfg, &outputs);
    if (status == FV_OK) CHECK_EQ(fv_outputs_get(outputs, 0, 0)->count, 2);
    fv_outputs_free(&outputs);
    return status;
}

static void init_generate(void *cfg, size_t bytes) { fv_generate_config_init(cfg, bytes, NULL); }
static fv_status call_generate(const void *cfg)
{
    fv_params *weights = NULL;
    fv_transformer *model = NULL;
    fv_cache *cache = NULL;
    fv_generated *out = NULL;
    fv_transformer_config tiny;
    fv_transformer_config_init(&tiny, sizeof tiny, FV_FAMILY_GPT2);
    tiny.vocabulary = 5;
    tiny.width = tiny.hidden = 4;
    tiny.heads = tiny.decoder_layers = 1;
    tiny.max_positions = 3;
    tiny.bos = tiny.eos = -1;
    CHECK_OK(sizes_ctx, fv_params_create(sizes_ctx, &weights));
    CHECK_OK(sizes_ctx, fv_transformer_create(weights, &tiny, &model));
    CHECK_OK(sizes_ctx, fv_cache_create(model, &cache));
    const int64_t token = 1, *const tokens[] = {&token}, length = 1;
    const fv_sequences prompt = {.count = 1, .tokens = tokens, .length = &length};
    const fv_status status = fv_generate_tokens(cache, NULL, &prompt, NULL, cfg, &out);
    fv_generated_free(&out);
    fv_cache_destroy(&cache);
    fv_transformer_destroy(&model);
    fv_params_destroy(&weights);
    return status;
}

static void init_translate(void *cfg, size_t bytes) { fv_translate_config_init(cfg, bytes); }
static fv_status call_translate(const void *cfg)
{
    static const char json[] = "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\","
                               "\"vocab\":{\"?\":0,\"<s>\":1,\"</s>\":2}}}";
    fv_tokenizer *tok = NULL;
    fv_recipe *recipe = NULL;
    fv_model *model = NULL;
    fv_translations *out = NULL;
    CHECK_OK(sizes_ctx, fv_tokenizer_parse(sizes_ctx, "t", json, sizeof json - 1, &tok));
    CHECK_OK(sizes_ctx, fv_run_recipe(sizes_ctx, &recipe));
    const fv_data_spec spec = {.ability = FV_CAN_TRANSLATE, .source = tok, .target = tok};
    CHECK_OK(sizes_ctx, fv_model_create(sizes_ctx, "recurrent", recipe, &spec, &model));
    const fv_status status = fv_translate(model, 0, NULL, cfg, &out);
    fv_translations_free(&out);
    fv_model_close(&model);
    fv_recipe_destroy(&recipe);
    return status;
}

/* ---- kinds: each call registers another name ------------------------------------------------ */

static char kind_names[256][8];
static int kinds;
static const char *kind_name(void)
{
    snprintf(kind_names[kinds], sizeof *kind_names, "k%d", kinds);
    return kind_names[kinds++];
}

static fv_status make_nothing(fv_params *in, const fv_recipe *recipe, const fv_data_spec *spec,
                              void **self)
{
    (void)in, (void)recipe, (void)spec, (void)self;
    return FV_OK;
}
static void destroy_nothing(void *self) { (void)self; }
static void init_model_kind(void *kind, size_t bytes)
{
    const fv_model_kind full = {.struct_size = bytes,
                                .name = kind_name(),
                                .create = make_nothing,
                                .destroy = destroy_nothing};
    memcpy(kind, &full, bytes < sizeof full ? bytes : sizeof full);
}
static fv_status call_model_kind(const void *kind) { return fv_register_model(sizes_ctx, kind); }

static fv_status open_nothing(const fv_task_config *cfg, fv_data_spec *spec, void **self)
{
    (void)cfg, (void)spec, (void)self;
    return FV_OK;
}
static fv_status no_batch(void *self, fv_model *model, uint64_t step, int phase, int64_t part,
                          fv_batch *out)
{
    (void)self, (void)model, (void)step, (void)phase, (void)part, (void)out;
    return FV_OK;
}
static void init_task_kind(void *kind, size_t bytes)
{
    const fv_task_kind full = {.struct_size = bytes,
                               .name = kind_name(),
                               .open = open_nothing,
                               .close = destroy_nothing,
                               .batch = no_batch};
    memcpy(kind, &full, bytes < sizeof full ? bytes : sizeof full);
}
static fv_status call_task_kind(const void *kind) { return fv_register_task(sizes_ctx, kind); }

/* ---- results -------------------------------------------------------------------------------- */

/* The call fills what the table hands it as const. */
static void *writable(const void *out) { return (void *)(uintptr_t)out; }

static fv_status call_build(const void *out)
{
    fv_build_info_get(writable(out));
    return FV_OK;
}
static fv_status call_cpu(const void *out)
{
    fv_cpu_info_get(writable(out));
    return FV_OK;
}
static fv_status call_feature(const void *out)
{
    return fv_feature_get(0, writable(out)) ? FV_OK : FV_ERR_INDEX;
}
static fv_status call_library(const void *out)
{
    return fv_library_get(0, writable(out)) ? FV_OK : FV_ERR_INDEX;
}
static fv_status call_result(const void *out)
{
    fv_text_metric_config cfg;
    fv_text_metric *metric = NULL;
    const fv_string word = {"word", 4};
    fv_text_metric_config_init(&cfg, sizeof cfg, FV_TEXT_METRIC_BLEU);
    CHECK_OK(sizes_ctx, fv_text_metric_create(sizes_ctx, &cfg, &metric));
    CHECK_OK(sizes_ctx, fv_text_metric_add(metric, word, &word, 1));
    const fv_status status = fv_text_metric_compute(metric, writable(out));
    fv_text_metric_destroy(&metric);
    return status;
}
static fv_status call_encoding(const void *out)
{
    static const char json[] = "{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"?\","
                               "\"vocab\":{\"?\":0}}}";
    fv_tokenizer *tok = NULL;
    fv_tokenizer_encoder *enc = NULL;
    CHECK_OK(sizes_ctx, fv_tokenizer_parse(sizes_ctx, "t", json, sizeof json - 1, &tok));
    CHECK_OK(sizes_ctx, fv_tokenizer_encoder_create(sizes_ctx, tok, &enc));
    const fv_status status = fv_tokenizer_encode(enc, "a", 1, 0, writable(out));
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    return status;
}
/* A smaller architecture has settings of a smaller size, which the library takes. */
static fv_status call_architecture(const void *out)
{
    fv_architecture *a = writable(out);
    fv_model_cost cost;
    if (!fv_architecture_find("gpt2", a)) return FV_ERR_INDEX;
    if (a->struct_size <= UPTO(fv_architecture, config.vocabulary)) return FV_OK;
    return fv_transformer_cost(sizes_ctx, &a->config, 8, &cost);
}

/* ---- the tables ----------------------------------------------------------------------------- */

const sized other_configs[] = {
    {"fv_attention", sizeof(fv_attention), 8, init_attention, NULL, call_attention},
    {"fv_attn", sizeof(fv_attn), UPTO(fv_attn, o), init_attn, NULL, call_attn},
    {"fv_attn_region", sizeof(fv_attn_region), 8, init_region, NULL, call_region},
    {"fv_attn_summary", sizeof(fv_attn_summary), 8, init_zero, NULL, call_summary},
    {"fv_ctx_config", sizeof(fv_ctx_config), 8, init_ctx, NULL, call_ctx},
    {"fv_features_config", sizeof(fv_features_config), 8, init_features, NULL, call_features},
    {"fv_look_options", sizeof(fv_look_options), 8, init_look, NULL, call_look},
    {"fv_made_config", sizeof(fv_made_config), 8, init_made, NULL, call_made},
    {"fv_parallel_config", sizeof(fv_parallel_config), 8, init_parallel, NULL, call_parallel},
    {"fv_spec_augment_config", sizeof(fv_spec_augment_config), 8, init_augment, NULL, call_augment},
    {"fv_tokenizer_trainer_config", sizeof(fv_tokenizer_trainer_config),
     UPTO(fv_tokenizer_trainer_config, kind), init_trainer, NULL, call_trainer},
    {"fv_search_config", sizeof(fv_search_config), 8, init_search, NULL, call_search},
    {"fv_generate_config", sizeof(fv_generate_config), 8, init_generate, NULL, call_generate},
    {"fv_translate_config", sizeof(fv_translate_config), 8, init_translate, NULL, call_translate},
    {"fv_model_kind", sizeof(fv_model_kind), UPTO(fv_model_kind, destroy), init_model_kind, NULL,
     call_model_kind},
    {"fv_task_kind", sizeof(fv_task_kind), UPTO(fv_task_kind, batch), init_task_kind, NULL,
     call_task_kind},
};
const size_t other_config_count = sizeof other_configs / sizeof *other_configs;

/* Filled by the call, or a member of another struct: a size of a later version is not refused. */
const sized unrefused[] = {
    {"fv_limits", sizeof(fv_limits), 8, init_limits, NULL, call_limits},
    {"fv_build_info", sizeof(fv_build_info), 8, init_zero, NULL, call_build},
    {"fv_cpu_info", sizeof(fv_cpu_info), 8, init_zero, NULL, call_cpu},
    {"fv_feature", sizeof(fv_feature), 8, init_zero, NULL, call_feature},
    {"fv_library", sizeof(fv_library), 8, init_zero, NULL, call_library},
    {"fv_text_metric_result", sizeof(fv_text_metric_result), 8, init_zero, NULL, call_result},
    {"fv_encoding", sizeof(fv_encoding), 8, init_zero, NULL, call_encoding},
    {"fv_architecture", sizeof(fv_architecture), 8, init_zero, NULL, call_architecture},
};
const size_t unrefused_count = sizeof unrefused / sizeof *unrefused;
