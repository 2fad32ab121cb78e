/*
 * config.json of kinds that do not write their own:
 *
 *     {"model_type": "mine", "ability": "classify", "settings": {"mine.width": 32},
 *      "data": {"classes": 10}, "labels": ["a", "b"]}
 */
#include <stdio.h>
#include <string.h>

#include "fovea/train.h"
#include "io/decimal.h"
#include "io/json.h"
#include "io/json_write.h"
#include "models/model.h"

static fv_status make_recipe(fv_ctx *ctx, const fv_model_kind *kind, fv_recipe **out)
{
    const fv_key_table table = kind->keys ? kind->keys() : (fv_key_table){NULL, 0};
    return fv_recipe_create(ctx, &table, 1, out);
}

fv_status fv_model_keep_settings(fv_model *m, const fv_recipe *recipe)
{
    const fv_key *key;
    FV_TRY(make_recipe(m->ctx, m->kind, &m->settings));
    for (size_t i = 0; (key = fv_recipe_key(m->settings, i)) != NULL; i++)
        if (recipe && fv_recipe_is_set(recipe, key->name))
            FV_TRY(fv_recipe_set(m->settings, key->name, fv_recipe_text(recipe, key->name)));
    return FV_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

static void put_value(fv_json_writer *w, const fv_recipe *recipe, const fv_key *key)
{
    fv_json_key(w, key->name);
    switch (key->type) {
    case FV_KEY_INT:
        fv_json_int(w, fv_recipe_int(recipe, key->name));
        break;
    case FV_KEY_REAL:
        fv_json_real(w, fv_recipe_real(recipe, key->name));
        break;
    case FV_KEY_BOOL:
        fv_json_bool(w, fv_recipe_bool(recipe, key->name));
        break;
    default:
        fv_json_string(w, fv_recipe_text(recipe, key->name));
    }
}

static void put_model(fv_json_writer *w, const fv_model *m)
{
    const fv_data_spec *spec = &m->spec;
    const fv_key *key;
    fv_json_open(w, '{');
    fv_json_key(w, "model_type");
    fv_json_string(w, m->type);
    fv_json_key(w, "ability");
    fv_json_string(w, fv_ability_name(spec->ability));
    fv_json_key(w, "settings");
    fv_json_open(w, '{');
    for (size_t i = 0; (key = fv_recipe_key(m->settings, i)) != NULL; i++)
        put_value(w, m->settings, key);
    fv_json_close(w, '}');
    fv_json_key(w, "data");
    fv_json_open(w, '{');
    for (int i = 0; i < spec->number_count; i++) {
        fv_json_key(w, spec->number[i].name);
        fv_json_int(w, spec->number[i].value);
    }
    fv_json_close(w, '}');
    fv_json_key(w, "labels");
    fv_json_open(w, '[');
    for (int64_t i = 0; spec->labels && i < spec->label_count; i++)
        fv_json_string(w, spec->labels[i]);
    fv_json_close(w, ']');
    fv_json_close(w, '}');
    fv_json_raw(w, "\n", 1);
}

fv_status fv_model_config_save(const fv_model *m, const char *folder)
{
    char path[FV_PATH_BYTES];
    fv_json_writer w;
    FV_TRY(fv_path_join(m->ctx, path, folder, "config.json"));
    fv_json_begin(&w, m->ctx);
    put_model(&w, m);
    const fv_status status = fv_json_save(&w, path);
    fv_json_free(&w);
    return status;
}

/* ---- reading -------------------------------------------------------------------------------- */

static fv_status read_setting(const fv_doc *doc, const fv_value *v, const char *name,
                              fv_recipe *settings)
{
    char number[40];
    const char *text = number;
    switch (v->kind) {
    case FV_VALUE_BOOL:
        text = v->as.boolean ? "true" : "false";
        break;
    case FV_VALUE_INT:
        snprintf(number, sizeof number, "%lld", (long long)v->as.integer);
        break;
    case FV_VALUE_REAL:
        fv_double_to_decimal(v->as.real, number);
        break;
    default:
        FV_TRY(fv_doc_string(doc, v, &text));
    }
    const fv_status status = fv_recipe_set(settings, name, text);
    return status == FV_ERR_ARGUMENT ? fv_doc_fail(doc, v, FV_ERR_FORMAT, "%s: bad value", name)
                                     : status;
}

static fv_status read_numbers(const fv_doc *doc, const fv_value *data, fv_data_spec *spec)
{
    for (uint32_t i = 0; i < data->count; i++) {
        const fv_member *member = &data->as.members[i];
        int64_t value = 0;
        FV_TRY(fv_doc_int(doc, &member->value, INT64_MIN, INT64_MAX, &value));
        if (!fv_data_spec_set(spec, member->key, value))
            return fv_doc_fail(doc, &member->value, FV_ERR_FORMAT, "more numbers than a model has");
    }
    return FV_OK;
}

static fv_status read_labels(const fv_doc *doc, const fv_value *list, fv_model *m)
{
    const char **names = fv_arena_array(&m->arena, list->count, sizeof *names);
    FV_RETURN_IF(!names, m->ctx, FV_ERR_MEMORY, "no memory for %u classes", list->count);
    for (uint32_t i = 0; i < list->count; i++) {
        const char *name = NULL;
        FV_TRY(fv_doc_string(doc, &list->as.items[i], &name));
        names[i] = fv_arena_text(&m->arena, name, strlen(name));
        FV_RETURN_IF(!names[i], m->ctx, FV_ERR_MEMORY, "no memory for a class");
    }
    m->spec.labels = names;
    m->spec.label_count = list->count;
    return FV_OK;
}

static fv_status read_ability(const fv_doc *doc, fv_data_spec *spec)
{
    const char *name = NULL;
    FV_TRY(fv_doc_get_string(doc, &doc->root, "ability", true, &name));
    for (int i = 0; i < FV_ABILITY_COUNT; i++)
        if (strcmp(fv_ability_name((fv_ability)i), name) == 0) {
            spec->ability = (fv_ability)i;
            return FV_OK;
        }
    return fv_doc_fail(doc, &doc->root, FV_ERR_FORMAT, "no ability \"%.40s\"", name);
}

static fv_status read_model(const fv_doc *doc, fv_model *m)
{
    const fv_value *settings = NULL, *data = NULL, *labels = NULL;
    FV_TRY(read_ability(doc, &m->spec));
    FV_TRY(fv_doc_get(doc, &doc->root, "settings", FV_VALUE_OBJECT, &settings));
    FV_TRY(fv_doc_get(doc, &doc->root, "data", FV_VALUE_OBJECT, &data));
    FV_TRY(fv_doc_get(doc, &doc->root, "labels", FV_VALUE_ARRAY, &labels));
    FV_TRY(make_recipe(m->ctx, m->kind, &m->settings));
    for (uint32_t i = 0; i < settings->count; i++)
        FV_TRY(read_setting(doc, &settings->as.members[i].value, settings->as.members[i].key,
                            m->settings));
    FV_TRY(read_numbers(doc, data, &m->spec));
    return read_labels(doc, labels, m);
}

static fv_status has_tokenizer(fv_model *m, bool *out)
{
    char path[FV_PATH_BYTES];
    FV_TRY(fv_has_tokenizer_pair(m->ctx, m->folder, out));
    FV_TRY(fv_path_join(m->ctx, path, m->folder, "tokenizer.json"));
    *out = *out || fv_file_exists(m->ctx, path);
    return FV_OK;
}

/* Settings that do not fit are the file's fault here. */
static fv_status create(fv_model *m, const fv_model_folder *from)
{
    fv_status status = m->kind->create(m->params, m->settings, &m->spec, &m->self);
    if (status == FV_OK) status = m->ctx->error;
    if (status != FV_ERR_ARGUMENT) return status;
    char why[FV_MESSAGE_BYTES];
    snprintf(why, sizeof why, "%s", fv_ctx_message(m->ctx));
    if (m->ctx->error != FV_OK) fv_ctx_take_error(m->ctx);
    return fv_fail(m->ctx, FV_ERR_FORMAT, "%.80s: %.160s", from->config, why);
}

fv_status fv_model_config_load(fv_model *m, const fv_model_folder *from)
{
    char weights[FV_PATH_BYTES];
    bool text = false;
    fv_doc *doc = NULL;
    FV_TRY(fv_json_load(m->ctx, from->config, &doc));
    const fv_status status = read_model(doc, m);
    fv_doc_free(&doc);
    FV_TRY(status);
    FV_TRY(has_tokenizer(m, &text));
    if (text) FV_TRY(fv_model_load_tokenizers(m));
    FV_TRY(create(m, from));
    FV_TRY(fv_path_join(m->ctx, weights, from->path, "model.safetensors"));
    return fv_params_load(m->params, weights);
}
