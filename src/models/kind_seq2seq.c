/* Recurrent encoder-decoders as a model kind: model_type "fovea-seq2seq", "recurrent" in recipes.
 */
#include "fovea/train.h"
#include "models/model.h"
#include "models/seq2seq.h"

/* ---- creation ------------------------------------------------------------------------------- */

/* What a model with these settings learns: texts of tokens, or of what the encoder reads else. */
static fv_ability ability_of(const fv_seq2seq_config *cfg)
{
    return fv_encoder_part_at((int)cfg->encoder)->reads_tokens ? FV_CAN_TRANSLATE : FV_CAN_DESCRIBE;
}

static fv_status make(fv_params *params, const fv_seq2seq_config *settings,
                      const fv_data_spec *spec, void **self)
{
    fv_ctx *ctx = fv_params_ctx(params);
    fv_seq2seq_config cfg = *settings;
    fv_seq2seq *model = NULL;
    const fv_ability ability = ability_of(&cfg);
    FV_RETURN_IF(spec->ability != ability || !spec->source, ctx, FV_ERR_ARGUMENT,
                 "model.kind is recurrent: such a model can %s, not %s (model.encoder is %s)",
                 fv_ability_name(ability), fv_ability_name(spec->ability),
                 fv_encoder_part_at((int)cfg.encoder)->name);
    if (ability == FV_CAN_DESCRIBE) {
        cfg.input_channels = fv_data_spec_get(spec, "channels", cfg.input_channels);
        cfg.input_height = fv_data_spec_get(spec, "height", cfg.input_height);
        cfg.input_width =
            fv_data_spec_get(spec, "width", fv_data_spec_get(spec, "frame", cfg.input_width));
    }
    cfg.source_tokens = (int64_t)fv_tokenizer_vocab_size(spec->source);
    cfg.target_tokens = (int64_t)fv_tokenizer_vocab_size(spec->target);
    FV_TRY(fv_spec_token(ctx, spec, "<s>", &cfg.bos));
    FV_TRY(fv_spec_token(ctx, spec, "</s>", &cfg.eos));
    FV_TRY(fv_seq2seq_create(params, &cfg, &model));
    *self = model;
    return FV_OK;
}

static fv_status create(fv_params *params, const fv_recipe *recipe, const fv_data_spec *spec,
                        void **self)
{
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    fv_seq2seq_config_from(recipe, &cfg);
    return make(params, &cfg, spec, self);
}

static void destroy(void *self)
{
    fv_seq2seq *model = self;
    fv_seq2seq_destroy(&model);
}

/* ---- folders -------------------------------------------------------------------------------- */

/* The shape of what the encoder reads, as a task says it. */
static void tell_input(const fv_seq2seq_config *cfg, fv_data_spec *spec)
{
    if (cfg->input_channels > 0) {
        fv_data_spec_set(spec, "channels", cfg->input_channels);
        fv_data_spec_set(spec, "height", cfg->input_height);
    }
    fv_data_spec_set(spec, cfg->input_channels > 0 ? "width" : "frame", cfg->input_width);
}

static fv_status load(fv_params *params, const fv_model_folder *from, fv_data_spec *spec,
                      void **self)
{
    char weights[FV_PATH_BYTES];
    fv_seq2seq_config cfg = {.struct_size = sizeof cfg};
    fv_ctx *ctx = from->ctx;
    FV_TRY(fv_seq2seq_config_load(ctx, from->config, &cfg));
    FV_TRY(fv_load_tokenizer_pair(ctx, from->path, &spec->source, &spec->target));
    spec->ability = ability_of(&cfg);
    if (spec->ability == FV_CAN_DESCRIBE) tell_input(&cfg, spec);
    const int64_t source = (int64_t)fv_tokenizer_vocab_size(spec->source),
                  target = (int64_t)fv_tokenizer_vocab_size(spec->target);
    FV_RETURN_IF(source != cfg.source_tokens || target != cfg.target_tokens, ctx, FV_ERR_FORMAT,
                 "%.100s: config.json says %lld and %lld tokens, the tokenizers have %lld and %lld",
                 from->path, (long long)cfg.source_tokens, (long long)cfg.target_tokens,
                 (long long)source, (long long)target);
    FV_TRY(make(params, &cfg, spec, self));
    FV_TRY(fv_path_join(ctx, weights, from->path, "model.safetensors"));
    return fv_params_load(params, weights);
}

static fv_status save(const void *self, fv_params *params, const char *folder)
{
    char path[FV_PATH_BYTES];
    fv_ctx *ctx = fv_params_ctx(params);
    FV_TRY(fv_path_join(ctx, path, folder, "config.json"));
    return fv_seq2seq_config_save(ctx, fv_seq2seq_settings(self), path);
}

/* ---- what it can do -------------------------------------------------------------------------- */

static fv_tensor *loss(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    if (pass && pass->checkpoint) {
        fv_poison(ctx, FV_ERR_ARGUMENT, "train.recompute: recurrent models have no blocks");
        return ctx->invalid;
    }
    return fv_seq2seq_loss(ctx, self, batch, pass);
}

static fv_status steps(void *self, const fv_batch *inputs, fv_stepper *out)
{
    return fv_seq2seq_stepper(self, inputs, out);
}

static bool can(const void *self, fv_ability ability)
{
    return ability == ability_of(fv_seq2seq_settings(self));
}

static bool attends(const void *self) { return fv_seq2seq_attends(self); }

static fv_tensor *align(fv_ctx *ctx, void *self, const fv_batch *batch)
{
    return fv_seq2seq_align(ctx, self, batch);
}

#define SITE "decoder.0.cross"

static int sites(const void *self, fv_site *out, int room)
{
    if (!attends(self)) return 0;
    const fv_seq2seq *m = self;
    if (room < 1) return 1;
    *out = (fv_site){.name = SITE, .heads = 1, .keys = m->x->axis};
    if (m->x->grid) m->x->grid(m->encoder, &out->rows, &out->cols);
    return 1;
}

static fv_status trace(fv_ctx *ctx, void *self, const fv_batch *batch, const fv_pass *pass)
{
    if (attends(self) && fv_capture_wants(pass->capture, SITE))
        fv_capture_give(ctx, pass, SITE, fv_unsqueeze(ctx, fv_seq2seq_align(ctx, self, batch), 1));
    return ctx->error;
}

const fv_model_kind fv_kind_seq2seq = {
    .struct_size = sizeof fv_kind_seq2seq,
    .name = "recurrent",
    .types = "fovea-seq2seq",
    .summary = "RNN, GRU or LSTM encoder and decoder with attention",
    .abilities = 1u << FV_CAN_TRANSLATE | 1u << FV_CAN_DESCRIBE,
    .keys = fv_seq2seq_keys,
    .create = create,
    .load = load,
    .save = save,
    .destroy = destroy,
    .loss = loss,
    .can = can,
    .make_stepper = steps,
    .attention_sites = sites,
    .capture_attention = trace,
    .align = align,
    .get_counters = fv_seq2seq_get_counters,
    .set_counters = fv_seq2seq_set_counters,
};
