/* Models of every kind, in memory and in their folders. */
#include "models/model.h"

#include <stdio.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/train.h"
#include "io/json.h"

/* ---- creation ------------------------------------------------------------------------------- */

static fv_status copy_labels(fv_model *m)
{
    const int64_t count = m->spec.labels ? m->spec.label_count : 0;
    if (count == 0) return FV_OK;
    const char **names = fv_arena_array(&m->arena, (size_t)count, sizeof *names);
    FV_RETURN_IF(!names, m->ctx, FV_ERR_MEMORY, "no memory for %lld classes", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        names[i] = fv_arena_text(&m->arena, m->spec.labels[i], strlen(m->spec.labels[i]));
        FV_RETURN_IF(!names[i], m->ctx, FV_ERR_MEMORY, "no memory for a class");
    }
    m->spec.labels = names;
    return FV_OK;
}

static void free_tokenizers(fv_data_spec *spec)
{
    if (spec->target != spec->source) fv_tokenizer_destroy(&spec->target);
    fv_tokenizer_destroy(&spec->source);
    spec->target = NULL;
}

/* A model without its self. Takes ownership of the spec's tokenizers, also on failure. */
static fv_status begin_model(fv_ctx *ctx, const fv_model_kind *kind, const fv_data_spec *spec,
                             fv_model **out)
{
    fv_data_spec given = *spec;
    fv_status status = ctx->error;
    fv_model *m = status == FV_OK ? fv_mem_zalloc(&ctx->mem, sizeof *m) : NULL;
    if (!m) {
        free_tokenizers(&given);
        return status != FV_OK ? status : fv_fail(ctx, FV_ERR_MEMORY, "no memory for a model");
    }
    m->ctx = ctx;
    m->kind = kind;
    m->spec = given;
    m->type = kind->name;
    m->unknown = -1;
    fv_arena_init(&m->arena, &ctx->mem);
    status = copy_labels(m);
    if (status == FV_OK) status = fv_params_create(ctx, &m->params);
    if (status == FV_OK)
        *out = m;
    else
        fv_model_close(&m);
    return status;
}

/* The model_type that config.json will have, so that the kind opens it. */
static fv_status choose_type(fv_model *m)
{
    const char *types = m->kind->types;
    if (m->kind->save || !types) return FV_OK;
    m->type = fv_arena_text(&m->arena, types, strcspn(types, "|"));
    FV_RETURN_IF(!m->type, m->ctx, FV_ERR_MEMORY, "no memory for a model");
    return FV_OK;
}

static fv_status fill(fv_model *m, const fv_recipe *recipe)
{
    FV_TRY(choose_type(m));
    /* Without `save`, config.json holds the kind's own keys: `create` sees nothing else, or a
     * folder would open as another model. */
    if (!m->kind->save) FV_TRY(fv_model_keep_settings(m, recipe));
    FV_TRY(m->kind->create(m->params, m->settings ? m->settings : recipe, &m->spec, &m->self));
    if (m->ctx->error != FV_OK) return m->ctx->error;
    return fv_model_make_encoders(m);
}

fv_status fv_model_create(fv_ctx *ctx, const char *name, const fv_recipe *recipe,
                          const fv_data_spec *spec, fv_model **out)
{
    const fv_model_kind *kind = fv_model_kind_find(ctx, name);
    fv_model *m = NULL;
    if (!kind) {
        fv_data_spec given = *spec;
        free_tokenizers(&given);
        return fv_fail(ctx, FV_ERR_ARGUMENT, "there is no model kind '%.60s'", name);
    }
    FV_TRY(begin_model(ctx, kind, spec, &m));
    const fv_status status = fill(m, recipe);
    if (status == FV_OK)
        *out = m;
    else
        fv_model_close(&m);
    return status;
}

void fv_model_close(fv_model **model)
{
    fv_model *m = *model;
    if (!m) return;
    fv_tokenizer_encoder_destroy(&m->source_encoder);
    fv_tokenizer_encoder_destroy(&m->target_encoder);
    if (m->self) m->kind->destroy(m->self);
    free_tokenizers(&m->spec);
    fv_params_destroy(&m->params);
    fv_recipe_destroy(&m->settings);
    fv_arena_free(&m->arena);
    fv_mem_free(&m->ctx->mem, m, sizeof *m);
    *model = NULL;
}

/* ---- opening -------------------------------------------------------------------------------- */

fv_status fv_model_read_type(fv_ctx *ctx, const char *config, fv_arena *arena, const char **out)
{
    fv_doc *doc = NULL;
    const char *type = "";
    FV_TRY(fv_json_load(ctx, config, &doc));
    fv_status status = fv_doc_kind(doc, &doc->root, FV_VALUE_OBJECT);
    if (status == FV_OK) status = fv_doc_get_string(doc, &doc->root, "model_type", true, &type);
    if (status == FV_OK) {
        *out = fv_arena_text(arena, type, strlen(type));
        if (!*out) status = fv_fail(ctx, FV_ERR_MEMORY, "no memory for a model");
    }
    fv_doc_free(&doc);
    return status;
}

static fv_status find_kind(fv_ctx *ctx, const char *config, const char *type,
                           const fv_model_kind **out)
{
    *out = fv_model_kind_of_type(ctx, type, strlen(type));
    if (*out) return FV_OK;
    /* No name is suggested: config.json would then describe another model than the weights are. */
    char names[FV_MESSAGE_BYTES];
    return fv_fail(ctx, FV_ERR_FORMAT,
                   "%.100s: model_type '%.40s' is not supported by this version; supported: kinds "
                   "that a program has registered, %s",
                   config, type, fv_model_types(ctx, names, sizeof names));
}

static fv_status load(fv_model *m, const fv_model_folder *from)
{
    bool pair = false;
    if (!m->kind->load) return fv_model_config_load(m, from);
    FV_TRY(fv_has_tokenizer_pair(m->ctx, from->path, &pair));
    FV_TRY(m->kind->load(m->params, from, &m->spec, &m->self));
    if (pair) m->spec.ability = FV_CAN_TRANSLATE;
    return m->spec.ability == FV_CAN_TRANSLATE || m->spec.source ? fv_model_load_tokenizers(m)
                                                                 : FV_OK;
}

static fv_status open_in(fv_model *m, const fv_model_kind *kind, const fv_model_folder *from)
{
    m->kind = kind;
    m->folder = fv_arena_text(&m->arena, from->path, strlen(from->path));
    FV_RETURN_IF(!m->folder, m->ctx, FV_ERR_MEMORY, "no memory for a model");
    return load(m, from);
}

/* Settings that no model can have come out of a file here: that is a bad file, and the message
 * names it. */
static fv_status blame_folder(fv_ctx *ctx, const char *config, fv_status status)
{
    char message[FV_MESSAGE_BYTES];
    if (status != FV_ERR_ARGUMENT && status != FV_ERR_SHAPE && status != FV_ERR_DTYPE &&
        status != FV_ERR_INDEX && status != FV_ERR_STATE)
        return status;
    snprintf(message, sizeof message, "%s", ctx->message);
    if (ctx->error != FV_OK) (void)fv_ctx_take_error(ctx);
    const bool named = strstr(message, config) != NULL;
    return fv_fail(ctx, FV_ERR_FORMAT, "%.120s%s%s", named ? "" : config, named ? "" : ": ",
                   message);
}

static fv_status open_model(fv_ctx *ctx, const char *folder, bool map, fv_model **out)
{
    char config[FV_PATH_BYTES];
    const fv_model_kind *kind = fv_model_kind_at(ctx, 0);
    const fv_data_spec nothing = {.ability = FV_CAN_GENERATE};
    fv_model *m = NULL;
    if (ctx->error != FV_OK) return ctx->error;
    FV_TRY(fv_path_join(ctx, config, folder, "config.json"));
    FV_TRY(begin_model(ctx, kind, &nothing, &m));
    const fv_model_folder from = {.ctx = ctx, .path = folder, .config = config, .map = map};
    fv_status status = fv_model_read_type(ctx, config, &m->arena, &m->type);
    if (status == FV_OK) status = find_kind(ctx, config, m->type, &kind);
    if (status == FV_OK) status = open_in(m, kind, &from);
    if (status == FV_OK) {
        *out = m;
        return FV_OK;
    }
    fv_model_close(&m);
    return blame_folder(ctx, config, status);
}

fv_status fv_model_open(fv_ctx *ctx, const char *folder, fv_model **out)
{
    return open_model(ctx, folder, false, out);
}

fv_status fv_model_map(fv_ctx *ctx, const char *folder, fv_model **out)
{
    return open_model(ctx, folder, true, out);
}

/* ---- saving --------------------------------------------------------------------------------- */

fv_status fv_model_save_settings(fv_model *m, const char *folder)
{
    if (m->kind->save)
        FV_TRY(m->kind->save(m->self, m->params, folder));
    else
        FV_TRY(fv_model_config_save(m, folder));
    return fv_model_save_tokenizers(m, folder);
}

fv_status fv_model_save(fv_model *m, const char *folder)
{
    char path[FV_PATH_BYTES];
    FV_TRY(fv_path_join(m->ctx, path, folder, "model.safetensors"));
    FV_TRY(fv_model_save_settings(m, folder));
    return fv_params_save(m->params, path);
}

/* ---- what is inside -------------------------------------------------------------------------- */

fv_ctx *fv_model_ctx(const fv_model *m) { return m->ctx; }
fv_params *fv_model_params(const fv_model *m) { return m->params; }
const fv_model_kind *fv_model_kind_of(const fv_model *m) { return m->kind; }
void *fv_model_self(const fv_model *m) { return m->self; }
const fv_data_spec *fv_model_spec(const fv_model *m) { return &m->spec; }
const char *fv_model_type(const fv_model *m) { return m->type; }

bool fv_model_can(const fv_model *m, fv_ability ability)
{
    if ((unsigned)ability >= FV_ABILITY_COUNT || !(m->kind->abilities >> ability & 1)) return false;
    return !m->kind->can || m->kind->can(m->self, ability);
}

fv_tensor *fv_model_classify(fv_model *m, const fv_batch *inputs, const fv_pass *pass)
{
    if (m->kind->classify) return m->kind->classify(m->ctx, m->self, inputs, pass);
    fv_poison(m->ctx, FV_ERR_UNSUPPORTED, "a %s model does not classify", m->type);
    return m->ctx->invalid;
}

fv_status fv_model_capture_attention(fv_model *m, const fv_batch *batch, const fv_pass *pass)
{
    const fv_model_kind *k = m->kind;
    FV_RETURN_IF(!k->capture_attention && !k->classify && !k->act, m->ctx, FV_ERR_UNSUPPORTED,
                 "a %s model has no attention to capture", m->type);
    fv_status status = m->ctx->error;
    fv_scope_begin(m->ctx);
    fv_no_grad_begin(m->ctx);
    if (status == FV_OK && k->capture_attention)
        status = k->capture_attention(m->ctx, m->self, batch, pass);
    else if (status == FV_OK)
        (k->classify ? k->classify : k->act)(m->ctx, m->self, batch, pass);
    fv_no_grad_end(m->ctx);
    fv_scope_end(m->ctx);
    return status == FV_OK ? m->ctx->error : status;
}

const fv_generation_defaults *fv_model_generation(const fv_model *m)
{
    static const fv_generation_defaults none = {.bos = -1, .pad = -1};
    const fv_generation_defaults *own = m->kind->generation ? m->kind->generation(m->self) : NULL;
    return own ? own : &none;
}
