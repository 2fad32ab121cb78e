/* Models of every kind in their folders. */
#include "fovea/model.h"

#include <string.h>

#include "fovea/safetensors.h"
#include "fovea/train.h"
#include "io/file.h"
#include "io/json.h"
#include "models/hf_generation.h"
#include "models/hf_labels.h"
#include "models/hf_weights.h"
#include "models/translate.h"

#define RECURRENT "fovea-seq2seq"

struct fv_model {
    fv_ctx *ctx;
    fv_params *params;
    fv_transformer *transformer;
    fv_translator *translator;
    fv_safetensors *file; /* while parameters lie in it */
    fv_arena names;       /* of classes */
    fv_generation generation;
};

/* ---- opening -------------------------------------------------------------------------- */

fv_status fv_model_is_recurrent(fv_ctx *ctx, const char *path, bool *out)
{
    fv_doc *doc = NULL;
    const char *type = "";
    FV_FORWARD(fv_json_load(ctx, path, &doc));
    fv_status status = fv_doc_kind(doc, &doc->root, FV_KIND_OBJECT);
    if (status == FV_OK) status = fv_doc_get_string(doc, &doc->root, "model_type", true, &type);
    if (status == FV_OK) *out = strcmp(type, RECURRENT) == 0;
    fv_doc_free(&doc);
    return status;
}

static fv_status open_weights(fv_ctx *ctx, const char *folder, bool map, fv_safetensors **out)
{
    char path[FV_PATH_BYTES];
    const unsigned flags = map ? FV_SAFETENSORS_MAP : FV_SAFETENSORS_COPY;
    FV_FORWARD(fv_path_join(ctx, path, folder, "model.safetensors.index.json"));
    if (!fv_file_exists(ctx, path))
        FV_FORWARD(fv_path_join(ctx, path, folder, "model.safetensors"));
    return fv_safetensors_open(ctx, path, flags, out);
}

static fv_status open_transformer(fv_model *m, const char *folder, const char *config, bool map)
{
    fv_ctx *ctx = m->ctx;
    fv_transformer_config cfg;
    FV_FORWARD(fv_transformer_config_load(ctx, config, &cfg));
    FV_FORWARD(fv_hf_generation_load(ctx, folder, &cfg, &m->generation));
    FV_FORWARD(open_weights(ctx, folder, map, &m->file));
    FV_FORWARD(fv_hf_fit(ctx, m->file, &cfg));
    if (cfg.labels > 0)
        FV_FORWARD(fv_hf_labels_load(ctx, config, cfg.labels, &m->names, &cfg.label_names));
    FV_FORWARD(fv_params_create(ctx, &m->params));
    FV_FORWARD(fv_hf_load(m->file, &cfg, map, m->params));
    FV_FORWARD(fv_transformer_create(m->params, &cfg, &m->transformer));
    if (!map) fv_safetensors_close(&m->file);
    return FV_OK;
}

/* A translator has tokenizers for both of its sides. */
static fv_status open_any(fv_model *m, const char *folder, bool map)
{
    char config[FV_PATH_BYTES], words[FV_PATH_BYTES];
    bool recurrent = false;
    FV_FORWARD(fv_path_join(m->ctx, config, folder, "config.json"));
    FV_FORWARD(fv_path_join(m->ctx, words, folder, "source_tokenizer.json"));
    FV_FORWARD(fv_model_is_recurrent(m->ctx, config, &recurrent));
    if (!recurrent && !fv_file_exists(m->ctx, words))
        return open_transformer(m, folder, config, map);
    FV_FORWARD(fv_translator_load(m->ctx, folder, &m->translator));
    fv_transformer *t = fv_translator_transformer(m->translator);
    if (t) m->generation = fv_hf_generation_of(fv_transformer_settings(t));
    return FV_OK;
}

static fv_status open_model(fv_ctx *ctx, const char *folder, bool map, fv_model **out)
{
    if (ctx->error != FV_OK) return ctx->error;
    fv_model *m = fv_mem_zalloc(&ctx->mem, sizeof *m);
    FV_RETURN_IF(!m, ctx, FV_ERR_MEMORY, "no memory for a model");
    m->ctx = ctx;
    fv_arena_init(&m->names, &ctx->mem);
    const fv_status status = open_any(m, folder, map);
    if (status == FV_OK)
        *out = m;
    else
        fv_model_close(&m);
    return status;
}

fv_status fv_model_open(fv_ctx *ctx, const char *folder, fv_model **out)
{
    return open_model(ctx, folder, false, out);
}

fv_status fv_model_map(fv_ctx *ctx, const char *folder, fv_model **out)
{
    return open_model(ctx, folder, true, out);
}

void fv_model_close(fv_model **model)
{
    fv_model *m = *model;
    if (!m) return;
    fv_transformer_destroy(&m->transformer);
    fv_params_destroy(&m->params);
    fv_translator_destroy(&m->translator);
    fv_safetensors_close(&m->file);
    fv_arena_free(&m->names);
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
    *model = NULL;
}

/* ---- saving --------------------------------------------------------------------------- */

static fv_status save_settings(fv_ctx *ctx, const fv_transformer *t, const fv_generation *g,
                               const char *folder)
{
    char path[FV_PATH_BYTES];
    const fv_transformer_config *cfg = fv_transformer_settings(t);
    FV_FORWARD(fv_path_join(ctx, path, folder, "config.json"));
    FV_FORWARD(fv_transformer_config_save(ctx, cfg, path));
    return cfg->decoder_layers > 0 ? fv_hf_generation_save(ctx, folder, g) : FV_OK;
}

fv_status fv_transformer_save_settings(const fv_transformer *model, const char *folder)
{
    const fv_generation g = fv_hf_generation_of(fv_transformer_settings(model));
    return save_settings(fv_params_context(fv_transformer_params(model)), model, &g, folder);
}

fv_status fv_model_save(fv_model *model, const char *folder)
{
    char path[FV_PATH_BYTES];
    FV_FORWARD(fv_path_join(model->ctx, path, folder, "model.safetensors"));
    if (model->translator)
        FV_FORWARD(fv_translator_save_settings(model->translator, folder));
    else
        FV_FORWARD(save_settings(model->ctx, model->transformer, &model->generation, folder));
    return fv_params_save(fv_model_params(model), path);
}

/* ---- what is inside -------------------------------------------------------------------- */

fv_transformer *fv_model_transformer(const fv_model *model)
{
    return model->translator ? fv_translator_transformer(model->translator) : model->transformer;
}

fv_translator *fv_model_translator(const fv_model *model) { return model->translator; }

fv_params *fv_model_params(const fv_model *model)
{
    return model->translator ? fv_translator_params(model->translator) : model->params;
}

const char *fv_model_type(const fv_model *model)
{
    const fv_transformer *t = fv_model_transformer(model);
    return t ? fv_family_name(fv_transformer_settings(t)->family) : RECURRENT;
}

const fv_generation *fv_model_generation(const fv_model *model) { return &model->generation; }
