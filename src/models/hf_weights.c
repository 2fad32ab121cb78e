/*
 * The model is first created in a plan, which has names and shapes but no memory: that is what the
 * file must hold. Then the tensors are loaded into a real parameter set, and the model is created
 * again over them.
 */
#include "models/hf_weights.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "fovea/autograd.h"
#include "fovea/recipe.h"
#include "models/transformer.h"
#include "tensor/params.h"

enum { NAME_BYTES = 512 };

/* ---- names -------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Old files call a norm's weight and bias gamma and beta. */
static bool old_norm(const char *name, char out[NAME_BYTES])
{
    static const char *const names[2][2] = {{"LayerNorm.weight", "gamma"},
                                            {"LayerNorm.bias", "beta"}};
    for (int i = 0; i < 2; i++) {
        if (!ends_with(name, names[i][0])) continue;
        const size_t keep = strlen(name) - strlen(names[i][0]) + sizeof "LayerNorm." - 1;
        snprintf(out, NAME_BYTES, "%.*s%s", (int)keep, name, names[i][1]);
        return true;
    }
    return false;
}

/* The name without the prefix that files of the bare model leave out. */
static const char *bare(const fv_family_names *family, const char *name)
{
    const char *prefix = family->prefix;
    const size_t n = prefix ? strlen(prefix) : 0;
    return n > 0 && strncmp(name, prefix, n) == 0 ? name + n : name;
}

static const fv_file_entry *find(const fv_safetensors *file, const fv_family_names *family,
                                 const char *name)
{
    char old[NAME_BYTES];
    const char *spelt[2] = {name, bare(family, name)};
    for (int i = 0; i < 2; i++) {
        const fv_file_entry *entry = fv_safetensors_find(file, spelt[i]);
        if (!entry && old_norm(spelt[i], old)) entry = fv_safetensors_find(file, old);
        if (entry) return entry;
    }
    /* Before version 5 of transformers, the two biases were one also where nothing else was tied.
     */
    const bool untied = family->untied_bias && strcmp(name, family->untied_bias) == 0;
    return untied ? fv_safetensors_find(file, family->logits_bias) : NULL;
}

/* Copies of tied matrices, masks: what older files hold beside the weights. */
static bool is_spare(const fv_transformer_config *cfg, const fv_family_names *family,
                     const char *name)
{
    static const char *const always[] = {".attn.bias", ".attn.masked_bias",
                                         "embeddings.position_ids", "rotary_emb.inv_freq",
                                         "layer.1.EncDecAttention.relative_attention_bias.weight"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (ends_with(name, always[i])) return true;
    const char *other = cfg->tied ? family->untied_bias : family->logits_bias;
    if (family->untied_bias && strcmp(name, other) == 0) return true;
    if (fv_has_distance_vectors(cfg) && ends_with(name, "embeddings.position_embeddings.weight"))
        return true; /* made by older versions of transformers, and not read */
    const size_t n = family->logits ? strlen(family->logits) : 0;
    if (cfg->tied && n > 0 && strncmp(name, family->logits, n) == 0 &&
        strcmp(name + n, ".weight") == 0)
        return true;
    return cfg->target_vocabulary == 0 && cfg->encoder_layers > 0 &&
           ends_with(name, "embed_tokens.weight");
}

/* ---- checks -------------------------------------------------------------------------- */

static fv_status check_shape(const fv_safetensors *file, fv_ctx *ctx, const fv_file_entry *entry,
                             const fv_tensor *t, bool transposed)
{
    int64_t shape[FV_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        shape[i] = t->shape[transposed ? t->rank - 1 - i : i];
    char have[FV_SHAPE_TEXT], want[FV_SHAPE_TEXT];
    FV_RETURN_IF(!fv_shape_equal(entry->rank, entry->shape, t->rank, shape), ctx, FV_ERR_FORMAT,
                 "%.60s: tensor '%.70s' is %s, not %s", fv_safetensors_shard_path(file, 0),
                 entry->name, fv_shape_text(have, entry->rank, entry->shape),
                 fv_shape_text(want, t->rank, shape));
    const bool real = entry->loadable && (entry->dtype == FV_F32 || entry->dtype == FV_F64 ||
                                          entry->dtype == FV_BF16 || entry->dtype == FV_F16);
    FV_RETURN_IF(!real, ctx, FV_ERR_FORMAT, "%.60s: tensor '%.70s' has elements of type %.20s",
                 fv_safetensors_shard_path(file, 0), entry->name, entry->dtype_name);
    return FV_OK;
}

/* Back from an old name of a norm's parameter; false: it is none. */
static bool new_norm(const char *name, char out[NAME_BYTES])
{
    const bool gamma = ends_with(name, "LayerNorm.gamma");
    if (!gamma && !ends_with(name, "LayerNorm.beta")) return false;
    const size_t cut = gamma ? sizeof "gamma" - 1 : sizeof "beta" - 1;
    snprintf(out, NAME_BYTES, "%.*s%s", (int)(strlen(name) - cut), name, gamma ? "weight" : "bias");
    return true;
}

/* Whether an entry is one that a parameter of the plan is read from. */
static bool is_used(const fv_safetensors *file, const fv_params *plan,
                    const fv_family_names *family, const fv_file_entry *entry)
{
    char now[NAME_BYTES], full[NAME_BYTES];
    const char *name = new_norm(entry->name, now) ? now : entry->name;
    snprintf(full, sizeof full, "%s%.400s", family->prefix ? family->prefix : "", name);
    const char *const spelt[] = {name, full, family->untied_bias};
    for (size_t i = 0; i < sizeof spelt / sizeof *spelt; i++)
        if (spelt[i] && fv_params_find(plan, spelt[i]) && find(file, family, spelt[i]) == entry)
            return true;
    return false;
}

/* A tensor of the file that belongs to no parameter may be the missing one under another name. */
static fv_status is_missing(const fv_safetensors *file, const fv_params *plan,
                            const fv_family_names *family, const char *name)
{
    fv_nearest nearest;
    fv_nearest_init(&nearest, name);
    for (size_t i = 0; i < fv_safetensors_count(file); i++) {
        const fv_file_entry *other = fv_safetensors_entry(file, i);
        if (!is_used(file, plan, family, other))
            fv_nearest_add(&nearest, other->name, strlen(other->name));
    }
    const char *near = fv_nearest_best(&nearest);
    return fv_fail(fv_params_ctx(plan), FV_ERR_FORMAT,
                   "%.60s: tensor '%.70s' of a %s model is missing%s%s%s",
                   fv_safetensors_shard_path(file, 0), name, family->model_type,
                   near ? "; the nearest is '" : "", near ? near : "", near ? "'" : "");
}

static fv_status check(const fv_safetensors *file, const fv_transformer_config *cfg,
                       const fv_params *plan)
{
    fv_ctx *ctx = fv_params_ctx(plan);
    const fv_family_names *family = fv_family_names_of(cfg->family);
    for (int i = 0; i < fv_params_count(plan); i++) {
        const char *name = fv_params_name(plan, i);
        const fv_file_entry *entry = find(file, family, name);
        if (!entry) return is_missing(file, plan, family, name);
        FV_TRY(check_shape(file, ctx, entry, fv_params_tensor(plan, i),
                           fv_params_stored_transposed(plan, i)));
    }
    size_t spare = fv_safetensors_count(file) - (size_t)fv_params_count(plan);
    for (size_t i = 0; spare > 0 && i < fv_safetensors_count(file); i++) {
        const fv_file_entry *entry = fv_safetensors_entry(file, i);
        if (is_used(file, plan, family, entry)) continue;
        FV_RETURN_IF(!is_spare(cfg, family, entry->name), ctx, FV_ERR_FORMAT,
                     "%.60s: tensor '%.70s' does not belong to a %s model of these settings",
                     fv_safetensors_shard_path(file, 0), entry->name, family->model_type);
        spare--;
    }
    return FV_OK;
}

/* ---- heads --------------------------------------------------------------------------- */

static const fv_file_entry *find_weight(const fv_safetensors *file, const fv_family_names *n,
                                        const char *prefix)
{
    char name[NAME_BYTES];
    if (!prefix) return NULL;
    snprintf(name, sizeof name, "%s.weight", prefix);
    return find(file, n, name);
}

/* A file may hold sinusoids as a table; the table then takes precedence. */
static void fit_positions(const fv_safetensors *file, const fv_family_names *n,
                          fv_transformer_config *cfg)
{
    const fv_file_entry *table = find_weight(file, n, n->encoder.positions);
    if (cfg->positions != FV_POSITION_SINUSOID || !table || table->rank != 2) return;
    cfg->positions = FV_POSITION_LEARNED;
    cfg->max_positions = table->shape[0];
}

fv_status fv_hf_fit(fv_ctx *ctx, const fv_safetensors *file, fv_transformer_config *cfg)
{
    const fv_family_names *n = fv_family_names_of(cfg->family);
    fit_positions(file, n, cfg);
    if (cfg->family == FV_FAMILY_FOVEA) return FV_OK;
    if (cfg->decoder_layers > 0) { /* files of the bare model have no bias of the logits */
        if (cfg->logits_bias) cfg->logits_bias = find(file, n, n->logits_bias) != NULL;
        return FV_OK;
    }
    const struct {
        const char *prefix;
        bool *on;
    } heads[] = {{n->words_dense, &cfg->mlm_head},
                 {n->pooler, &cfg->pooler},
                 {n->next_sentence, &cfg->next_sentence},
                 {n->labels_dense, &cfg->label_dense},
                 {n->spans, &cfg->spans}};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        *heads[i].on = find_weight(file, n, heads[i].prefix) != NULL;
    cfg->logits_bias = cfg->mlm_head;
    const fv_file_entry *labels =
        find_weight(file, n, cfg->label_dense ? n->labels_out : n->labels);
    cfg->labels = labels && labels->rank == 2 ? labels->shape[0] : 0;
    FV_RETURN_IF(cfg->labels && !cfg->label_tokens && !cfg->pooler && !cfg->label_dense, ctx,
                 FV_ERR_FORMAT, "%.100s: classes of a text without a pooler",
                 fv_safetensors_shard_path(file, 0));
    return FV_OK;
}

/* ---- loading -------------------------------------------------------------------------- */

/* An f32 tensor over the mapped bytes; NULL where they must be copied. */
static fv_tensor *in_place(fv_ctx *ctx, fv_safetensors *file, const fv_file_entry *entry)
{
    const void *data = NULL;
    if (entry->dtype != FV_F32 || !ctx->device->ops->traits.host_readable) return NULL;
    if (fv_safetensors_view(file, entry, &data) != FV_OK) return NULL;
    if ((uintptr_t)data % _Alignof(float) != 0) return NULL;
    return fv_wrap(ctx, FV_F32, entry->rank, entry->shape, NULL, (void *)(uintptr_t)data);
}

static fv_tensor *read_tensor(fv_ctx *ctx, fv_safetensors *file, const fv_file_entry *entry,
                              bool transposed, bool wrap)
{
    fv_tensor *t = wrap && !transposed ? in_place(ctx, file, entry) : NULL;
    if (t) return t;
    t = fv_safetensors_load(ctx, file, entry->name);
    if (transposed) t = fv_contiguous(ctx, fv_transpose(ctx, t, 0, 1));
    return fv_tensor_dtype(t) == FV_F32 ? t : fv_cast(ctx, t, FV_F32);
}

static fv_status read_all(fv_safetensors *file, const fv_params *plan,
                          const fv_family_names *family, bool wrap, fv_params *params)
{
    fv_ctx *ctx = fv_params_ctx(params);
    for (int i = 0; i < fv_params_count(plan); i++) {
        const char *name = fv_params_name(plan, i);
        const fv_file_entry *entry = find(file, family, name);
        fv_scope_begin(ctx);
        fv_params_add(params, name,
                      read_tensor(ctx, file, entry, fv_params_stored_transposed(plan, i), wrap));
        fv_scope_end(ctx);
        if (fv_ctx_error(ctx) != FV_OK) return fv_ctx_error(ctx);
    }
    return FV_OK;
}

fv_status fv_hf_load(fv_safetensors *file, const fv_transformer_config *cfg, bool wrap,
                     fv_params *params)
{
    fv_params *plan = NULL;
    fv_transformer *counted = NULL;
    fv_ctx *ctx = fv_params_ctx(params);
    FV_TRY(fv_params_create_plan(ctx, &plan));
    fv_scope_begin(ctx); /* or the plan's tensors would live as long as the caller's scope */
    fv_status status = fv_transformer_create(plan, cfg, &counted);
    if (status == FV_OK) status = check(file, cfg, plan);
    if (status == FV_OK)
        status = read_all(file, plan, fv_family_names_of(cfg->family), wrap, params);
    fv_scope_end(ctx);
    fv_transformer_destroy(&counted);
    fv_params_destroy(&plan);
    return status;
}
