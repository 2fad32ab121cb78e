/* Transformers as a model kind: model_types of Hugging Face, "transformer" in recipes. */
#include "models/kind_transformer.h"

#include <string.h>

#include "models/hf_generation.h"
#include "models/hf_labels.h"
#include "models/hf_rotary.h"
#include "models/hf_weights.h"

typedef fv_transformer_self self_t;

/* ---- what a task asks of the model -------------------------------------------------------------
 */

static fv_status fit_translator(fv_ctx *ctx, const fv_data_spec *spec, fv_transformer_config *cfg)
{
    FV_RETURN_IF(cfg->encoder_layers < 1 || cfg->decoder_layers < 1, ctx, FV_ERR_ARGUMENT,
                 "a translator needs an encoder and a decoder; transformer.family %s with %lld and "
                 "%lld layers has not",
                 fv_family_name(cfg->family), (long long)cfg->encoder_layers,
                 (long long)cfg->decoder_layers);
    cfg->target_vocabulary =
        spec->target == spec->source ? 0 : (int64_t)fv_tokenizer_vocab_size(spec->target);
    FV_TRY(fv_spec_token(ctx, spec, "<s>", &cfg->bos));
    FV_TRY(fv_spec_token(ctx, spec, "</s>", &cfg->eos));
    cfg->pad = fv_tokenizer_token_to_id(spec->target, "<pad>", 5);
    return FV_OK;
}

static fv_status fit_decoder(fv_ctx *ctx, const fv_data_spec *spec, fv_transformer_config *cfg)
{
    static const char end[] = "<|endoftext|>"; /* comes after every document */
    FV_RETURN_IF(cfg->decoder_layers < 1 || cfg->encoder_layers > 0, ctx, FV_ERR_ARGUMENT,
                 "train.task is language: transformer.family must be one with a decoder alone, "
                 "such as gpt2 or llama, not %s",
                 fv_family_name(cfg->family));
    cfg->bos = cfg->eos = fv_tokenizer_token_to_id(spec->source, end, sizeof end - 1);
    cfg->pad = -1;
    return FV_OK;
}

static fv_status fit_encoder(fv_ctx *ctx, const fv_data_spec *spec, fv_transformer_config *cfg)
{
    const bool masked = spec->ability == FV_CAN_FILL;
    FV_RETURN_IF(cfg->family != FV_FAMILY_BERT || cfg->decoder_layers > 0, ctx, FV_ERR_ARGUMENT,
                 "train.task is %s: transformer.family must be bert, not %s",
                 masked ? "masked" : "classify", fv_family_name(cfg->family));
    cfg->next_sentence = masked && fv_data_spec_get(spec, "next_sentence", 0) != 0;
    cfg->mlm_head = cfg->logits_bias = masked;
    cfg->pooler = !masked || cfg->next_sentence;
    cfg->label_dropout = cfg->dropout;
    cfg->pad = fv_tokenizer_token_to_id(spec->source, "[PAD]", 5);
    if (masked) return FV_OK;
    cfg->labels = spec->label_count;
    cfg->label_names = spec->labels;
    cfg->text_pairs = fv_data_spec_get(spec, "text_pairs", 0) != 0;
    return FV_OK;
}

static fv_status fit(fv_ctx *ctx, const fv_data_spec *spec, fv_transformer_config *cfg)
{
    FV_RETURN_IF(!spec->source, ctx, FV_ERR_ARGUMENT, "a Transformer needs a tokenizer");
    cfg->vocabulary = (int64_t)fv_tokenizer_vocab_size(spec->source);
    switch (spec->ability) {
    case FV_CAN_TRANSLATE:
        return fit_translator(ctx, spec, cfg);
    case FV_CAN_GENERATE:
        return fit_decoder(ctx, spec, cfg);
    case FV_CAN_FILL:
    case FV_CAN_CLASSIFY:
        return fit_encoder(ctx, spec, cfg);
    default:
        return fv_fail(ctx, FV_ERR_ARGUMENT, "a Transformer is not trained to %s",
                       fv_ability_name(spec->ability));
    }
}

/* ---- creation ------------------------------------------------------------------------------- */

static void destroy(void *self)
{
    self_t *s = self;
    fv_mem *mem = s->names.mem;
    fv_cache_destroy(&s->decoder.cache);
    fv_arena_free(&s->room);
    fv_transformer_destroy(&s->model);
    fv_safetensors_close(&s->file);
    fv_arena_free(&s->names);
    fv_mem_free(mem, s, sizeof *s);
}

static fv_status make_self(fv_ctx *ctx, self_t **out)
{
    self_t *s = fv_mem_zalloc(&ctx->mem, sizeof *s);
    FV_RETURN_IF(!s, ctx, FV_ERR_MEMORY, "no memory for a model");
    fv_arena_init(&s->names, &ctx->mem);
    fv_arena_init(&s->room, &ctx->mem);
    *out = s;
    return FV_OK;
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_transformer_config cfg;
    self_t *s = NULL;
    fv_transformer_config_from(recipe, &cfg);
    FV_TRY(fit(ctx, spec, &cfg));
    FV_TRY(make_self(ctx, &s));
    const fv_status status = fv_transformer_create(params, &cfg, &s->model);
    if (status != FV_OK) {
        destroy(s);
        return status;
    }
    s->generation = fv_hf_generation_of(fv_transformer_settings(s->model));
    *self = s;
    return FV_OK;
}

fv_transformer *fv_model_transformer(const fv_model *m)
{
    return m->kind == &fv_kind_transformer ? ((const self_t *)m->self)->model : NULL;
}

/* ---- folders -------------------------------------------------------------------------------- */

/* The first of these names that the folder has; messages name model.safetensors if none is there.
 */
static fv_status open_weights(const fv_model_folder *from, fv_safetensors **out)
{
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors",
                                        "pytorch_model.bin.index.json", "pytorch_model.bin",
                                        "model.safetensors"};
    char path[FV_PATH_BYTES];
    const unsigned flags =
        FV_SAFETENSORS_CHECK | (from->map ? FV_SAFETENSORS_MAP : FV_SAFETENSORS_COPY);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        FV_TRY(fv_path_join(from->ctx, path, from->path, names[i]));
        if (fv_file_exists(from->ctx, path)) break;
    }
    return fv_safetensors_open(from->ctx, path, flags, out);
}

/* The tokenizers of a translator must be those it was created with. */
static fv_status load_sides(const fv_model_folder *from, const fv_transformer_config *cfg,
                            fv_data_spec *spec)
{
    fv_ctx *ctx = from->ctx;
    bool pair = false;
    FV_TRY(fv_has_tokenizer_pair(ctx, from->path, &pair));
    if (!pair) return FV_OK;
    FV_RETURN_IF(cfg->encoder_layers < 1 || cfg->decoder_layers < 1, ctx, FV_ERR_FORMAT,
                 "%.200s: not a translator: it has %s", from->config,
                 cfg->decoder_layers < 1 ? "no decoder" : "no encoder");
    FV_TRY(fv_load_tokenizer_pair(ctx, from->path, &spec->source, &spec->target));
    const int64_t source = (int64_t)fv_tokenizer_vocab_size(spec->source),
                  target = (int64_t)fv_tokenizer_vocab_size(spec->target),
                  target_vocabulary =
                      cfg->target_vocabulary ? cfg->target_vocabulary : cfg->vocabulary;
    FV_RETURN_IF(source != cfg->vocabulary || target != target_vocabulary, ctx, FV_ERR_FORMAT,
                 "%.100s: config.json says %lld and %lld tokens, the tokenizers have %lld and %lld",
                 from->path, (long long)cfg->vocabulary, (long long)target_vocabulary,
                 (long long)source, (long long)target);
    return FV_OK;
}

/* What the model can do, by the first head that it has. */
static fv_ability main_ability(const fv_transformer_config *cfg)
{
    if (cfg->decoder_layers > 0) return FV_CAN_GENERATE;
    if (cfg->labels > 0) return FV_CAN_CLASSIFY;
    if (cfg->spans) return FV_CAN_ANSWER;
    return cfg->mlm_head ? FV_CAN_FILL : FV_CAN_EMBED;
}

static fv_status load_in(self_t *s, fv_params *params, const fv_model_folder *from,
                         fv_data_spec *spec)
{
    fv_ctx *ctx = from->ctx;
    fv_transformer_config cfg = {.struct_size = sizeof cfg};
    FV_TRY(fv_transformer_config_load(ctx, from->config, &cfg));
    FV_TRY(load_sides(from, &cfg, spec));
    FV_TRY(fv_hf_generation_load(ctx, from->path, &cfg, &s->generation));
    FV_TRY(open_weights(from, &s->file));
    FV_TRY(fv_hf_fit(ctx, s->file, &cfg));
    if (cfg.labels > 0)
        FV_TRY(fv_hf_labels_load(ctx, from->config, cfg.labels, &s->names, &cfg.label_names));
    FV_TRY(fv_hf_rotary_load(ctx, from->config, &s->names, &cfg));
    FV_TRY(fv_hf_load(s->file, &cfg, from->map, params));
    FV_TRY(fv_transformer_create(params, &cfg, &s->model));
    if (!from->map) fv_safetensors_close(&s->file);
    spec->ability = main_ability(&cfg);
    spec->labels = cfg.label_names;
    spec->label_count = cfg.label_names ? cfg.labels : 0;
    fv_data_spec_set(spec, "label_tokens", cfg.label_tokens);
    fv_data_spec_set(spec, "text_pairs", cfg.text_pairs);
    return FV_OK;
}

static fv_status load(fv_params *params, const fv_model_folder *from, fv_data_spec *spec,
                      void **self)
{
    self_t *s = NULL;
    FV_TRY(make_self(from->ctx, &s));
    const fv_status status = load_in(s, params, from, spec);
    if (status != FV_OK) {
        destroy(s);
        return status;
    }
    *self = s;
    return FV_OK;
}

static fv_status save_settings(const fv_transformer *t, const fv_generation_defaults *g,
                               const char *folder)
{
    char path[FV_PATH_BYTES];
    fv_ctx *ctx = t->ctx;
    const fv_transformer_config *cfg = fv_transformer_settings(t);
    FV_TRY(fv_path_join(ctx, path, folder, "config.json"));
    FV_TRY(fv_transformer_config_save(ctx, cfg, path));
    return cfg->decoder_layers > 0 ? fv_hf_generation_save(ctx, folder, g) : FV_OK;
}

fv_status fv_transformer_save_settings(const fv_transformer *model, const char *folder)
{
    const fv_generation_defaults g = fv_hf_generation_of(fv_transformer_settings(model));
    return save_settings(model, &g, folder);
}

static fv_status save(const void *self, fv_params *params, const char *folder)
{
    const self_t *s = self;
    (void)params;
    return save_settings(s->model, &s->generation, folder);
}

/* ---- the kind ------------------------------------------------------------------------------- */

static bool can(const void *self, fv_ability ability)
{
    const fv_transformer_config *c = fv_transformer_settings(((const self_t *)self)->model);
    const bool decoder = c->decoder_layers > 0;
    switch (ability) {
    case FV_CAN_TRANSLATE:
        return decoder && c->encoder_layers > 0;
    case FV_CAN_GENERATE:
        return decoder;
    case FV_CAN_FILL:
        return !decoder && c->mlm_head;
    case FV_CAN_CLASSIFY:
        return !decoder && c->labels > 0;
    case FV_CAN_ANSWER:
        return !decoder && c->spans;
    default:
        return !decoder;
    }
}

static int64_t context(const void *self)
{
    const fv_transformer_config *c = fv_transformer_settings(((const self_t *)self)->model);
    const int64_t context = fv_context_of(c);
    return context < FV_CONTEXT_UNBOUNDED ? context : c->max_positions;
}

static fv_status pack(void *self, fv_weight_form form)
{
    return fv_transformer_pack(((self_t *)self)->model, form);
}

static const fv_generation_defaults *generation(const void *self)
{
    return &((const self_t *)self)->generation;
}

const fv_model_kind fv_kind_transformer = {
    .struct_size = sizeof fv_kind_transformer,
    .name = "transformer",
    .types = "fovea-transformer|gpt2|bert|marian|t5|llama|distilbert|roberta|xlm-roberta|bart|"
             "mistral|qwen2|qwen3",
    .summary = "Transformer encoder, decoder or both: GPT-2, BERT, Marian, T5, Llama, DistilBERT, "
               "RoBERTa, BART",
    .abilities = 1u << FV_CAN_TRANSLATE | 1u << FV_CAN_GENERATE | 1u << FV_CAN_FILL |
                 1u << FV_CAN_CLASSIFY | 1u << FV_CAN_EMBED | 1u << FV_CAN_ANSWER,
    .keys = fv_transformer_keys,
    .create = create,
    .load = load,
    .save = save,
    .destroy = destroy,
    .loss = fv_transformer_kind_loss,
    .can = can,
    .make_stepper = fv_transformer_kind_steps,
    .classify = fv_transformer_kind_classify,
    .fill_mask = fv_transformer_kind_fill,
    .embed = fv_transformer_kind_embed,
    .find_spans = fv_transformer_kind_spans,
    .attention_sites = fv_transformer_kind_sites,
    .capture_attention = fv_transformer_kind_trace,
    .align = fv_transformer_kind_align,
    .trains_bf16 = true,
    .supports_checkpointing = true,
    .max_length = context,
    .pack = pack,
    .generation = generation,
};
