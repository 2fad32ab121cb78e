/* config.json to settings. */
#include "fovea/transformer.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "io/choices.h"
#include "io/json.h"
#include "models/hf_fields.h"

/* ---- one field --------------------------------------------------------------------- */

static fv_status read_token(const fv_doc *doc, const fv_value *value, int64_t *out)
{
    if (value->kind == FV_VALUE_ARRAY && value->count > 0) value = &value->as.items[0];
    return fv_doc_int(doc, value, INT32_MIN, INT32_MAX, out);
}

/* A list of layers, counted from 0, as bits. */
static fv_status read_layers(const fv_doc *doc, const fv_value *list, uint64_t bits[2])
{
    FV_TRY(fv_doc_kind(doc, list, FV_VALUE_ARRAY));
    bits[0] = bits[1] = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        int64_t layer = 0;
        FV_TRY(fv_doc_int(doc, &list->as.items[i], 0, 127, &layer));
        bits[layer / 64] |= (uint64_t)1 << (layer % 64);
    }
    return FV_OK;
}

static fv_status read_act(const fv_doc *doc, const fv_value *value, int *out)
{
    const char *name = NULL;
    FV_TRY(fv_doc_string(doc, value, &name));
    *out = fv_hf_act(name);
    if (*out < 0)
        return fv_doc_fail(doc, value, FV_ERR_FORMAT, "activation '%.40s' is not supported", name);
    return FV_OK;
}

static fv_status read_field(const fv_doc *doc, const fv_hf_field *f, fv_transformer_config *cfg)
{
    const fv_value *value = fv_value_get(&doc->root, f->key);
    char *to = (char *)cfg + f->at;
    int64_t integer = f->kind == FV_HF_TOKEN ? -1 : 0;
    double real = 0;
    bool flag = false;
    int act = 0;
    uint64_t layers[2];
    const bool null = value && value->kind == FV_VALUE_NULL;
    if (!value && f->required)
        return fv_doc_fail(doc, &doc->root, FV_ERR_FORMAT, "'%s' is missing", f->key);
    const bool stands = null && (f->kind == FV_HF_TOKEN || f->kind == FV_HF_COUNT);
    if (!value || (null && !stands && !f->required)) return FV_OK;
    switch (f->kind) {
    case FV_HF_SIZE:
    case FV_HF_COUNT:
        if (!stands) FV_TRY(fv_doc_int(doc, value, f->kind == FV_HF_SIZE, 1 << 28, &integer));
        memcpy(to, &integer, sizeof integer);
        break;
    case FV_HF_TOKEN:
        if (!stands) FV_TRY(read_token(doc, value, &integer));
        memcpy(to, &integer, sizeof integer);
        break;
    case FV_HF_REAL:
        FV_TRY(fv_doc_real(doc, value, &real));
        memcpy(to, &real, sizeof real);
        break;
    case FV_HF_FLAG:
        FV_TRY(fv_doc_bool(doc, value, &flag));
        memcpy(to, &flag, sizeof flag);
        break;
    case FV_HF_ACT:
        FV_TRY(read_act(doc, value, &act));
        memcpy(to, &act, sizeof act);
        break;
    case FV_HF_LAYERS:
        FV_TRY(read_layers(doc, value, layers));
        memcpy(to, layers, sizeof layers);
        break;
    case FV_HF_CHOICE: /* enums are ints here */
        FV_TRY(fv_doc_choice(doc, value, f->choices, &integer));
        act = (int)integer;
        memcpy(to, &act, sizeof act);
        break;
    }
    return FV_OK;
}

/* ---- the document ------------------------------------------------------------------- */

static fv_status read_family(const fv_doc *doc, fv_family *out)
{
    const char *type = NULL;
    FV_TRY(fv_doc_kind(doc, &doc->root, FV_VALUE_OBJECT));
    FV_TRY(fv_doc_get_string(doc, &doc->root, "model_type", true, &type));
    char names[FV_MESSAGE_BYTES] = "";
    size_t used = 0;
    for (int i = 0; i < FV_FAMILY_COUNT; i++) {
        const char *name = fv_family_name((fv_family)i);
        *out = (fv_family)i;
        if (strcmp(type, name) == 0) return FV_OK;
        if (i == FV_FAMILY_FOVEA || used >= sizeof names) continue;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name);
    }
    /* No name is suggested: another family under that name would compute something else. */
    return fv_doc_fail(doc, fv_value_get(&doc->root, "model_type"), FV_ERR_FORMAT,
                       "model_type '%.40s' is not supported by this version; supported: %s", type,
                       names);
}

/* As in transformers, an id beyond the vocabulary is no reason not to load a model. */
static void drop_unknown_tokens(const fv_doc *doc, const fv_hf_table *table,
                                fv_transformer_config *cfg)
{
    const int64_t target = cfg->target_vocabulary ? cfg->target_vocabulary : cfg->vocabulary;
    const int64_t both = target < cfg->vocabulary ? target : cfg->vocabulary;
    for (size_t i = 0; i < table->count; i++) {
        const fv_hf_field *f = &table->fields[i];
        int64_t id;
        if (f->kind != FV_HF_TOKEN) continue;
        memcpy(&id, (const char *)cfg + f->at, sizeof id);
        const int64_t end = f->at == offsetof(fv_transformer_config, pad) ? both : target;
        if (id >= -1 && id < end) continue;
        fv_report(doc->ctx, FV_LOG_WARN,
                  "%.120s: '%s' is %lld, but the vocabulary has %lld tokens: it is ignored",
                  doc->name, f->key, (long long)id, (long long)end);
        id = -1;
        memcpy((char *)cfg + f->at, &id, sizeof id);
    }
}

fv_status fv_hf_read(const fv_doc *doc, fv_transformer_config *out)
{
    fv_family family;
    FV_TRY(read_family(doc, &family));
    fv_transformer_config cfg;
    fv_transformer_config_init(&cfg, sizeof cfg, family);
    const fv_hf_table table = fv_hf_fields(family);
    for (size_t i = 0; i < table.count; i++)
        FV_TRY(read_field(doc, &table.fields[i], &cfg));
    FV_TRY(fv_hf_read_rest(doc, &cfg));
    drop_unknown_tokens(doc, &table, &cfg);
    *out = cfg;
    return FV_OK;
}

fv_status fv_transformer_config_load(fv_ctx *ctx, const char *path, fv_transformer_config *out)
{
    fv_doc *doc = NULL;
    fv_transformer_config cfg;
    FV_RETURN_IF(out->struct_size < sizeof out->struct_size, ctx, FV_ERR_ARGUMENT,
                 "transformer: struct_size of the config to load is not set");
    FV_TRY(fv_json_load(ctx, path, &doc));
    const fv_status status = fv_hf_read(doc, &cfg);
    if (status == FV_OK) fv_config_give(out, &cfg, sizeof cfg);
    fv_doc_free(&doc);
    return status;
}
