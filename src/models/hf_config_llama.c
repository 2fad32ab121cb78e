/*
 * config.json of Llama and its relatives: rotary positions and sliding windows. The rules for
 * values that a file leaves out are those of transformers (modeling_rope_utils.py).
 */
#include "models/hf_config_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/json.h"
#include "models/hf_rotary.h"
#include "models/transformer.h"

/* ---- rotary positions: reading ------------------------------------------------------ */

/* The value of a key that is there and not null, or NULL. */
static const fv_value *given(const fv_value *object, const char *key)
{
    const fv_value *value = fv_value_get(object, key);
    return value && value->kind != FV_VALUE_NULL ? value : NULL;
}

/* *out keeps its value where the key is missing or null. */
static fv_status read_real(const fv_doc *doc, const fv_value *object, const char *key, double *out)
{
    const fv_value *value = given(object, key);
    return value ? fv_doc_real(doc, value, out) : FV_OK;
}

static fv_status read_positive(const fv_doc *doc, const fv_value *object, const char *key,
                               double *out)
{
    const fv_value *value = given(object, key);
    FV_TRY(read_real(doc, object, key, out));
    if (value && !(*out > 0 && isfinite(*out)))
        return fv_doc_fail(doc, value, FV_ERR_FORMAT, "'%s' is %g, not above 0", key, *out);
    return FV_OK;
}

/* The length the model was first trained with; beside the scaling's own settings it wins. */
static fv_status read_original(const fv_doc *doc, const fv_value *rope,
                               const fv_transformer_config *c, double *out)
{
    static const char key[] = "original_max_position_embeddings";
    *out = (double)c->max_positions;
    return read_positive(doc, given(&doc->root, key) ? &doc->root : rope, key, out);
}

static fv_status read_llama3(const fv_doc *doc, const fv_value *rope, fv_transformer_config *c)
{
    fv_rotary_config *r = &c->rotary;
    FV_TRY(fv_doc_get_real(doc, rope, "factor", true, &r->llama3_factor));
    FV_TRY(fv_doc_get_real(doc, rope, "low_freq_factor", true, &r->low_freq));
    FV_TRY(fv_doc_get_real(doc, rope, "high_freq_factor", true, &r->high_freq));
    return read_original(doc, rope, c, &r->original);
}

static double magnitude(double factor, double weight)
{
    return factor <= 1 ? 1 : 0.1 * weight * log(factor) + 1;
}

static fv_status read_yarn(const fv_doc *doc, const fv_value *rope, fv_transformer_config *c)
{
    fv_rotary_config *r = &c->rotary;
    double over = 0, under = 0;
    const fv_value *truncate = fv_value_get(rope, "truncate");
    r->scaling = FV_ROTARY_SCALING_YARN;
    FV_TRY(read_original(doc, rope, c, &r->original));
    r->factor = (double)c->max_positions / r->original;
    FV_TRY(read_positive(doc, rope, "factor", &r->factor));
    FV_TRY(read_real(doc, rope, "beta_fast", &r->high_freq));
    FV_TRY(read_real(doc, rope, "beta_slow", &r->low_freq));
    if (r->high_freq == 0) r->high_freq = 32;
    if (r->low_freq == 0) r->low_freq = 1;
    FV_TRY(read_real(doc, rope, "mscale", &over));
    FV_TRY(read_real(doc, rope, "mscale_all_dim", &under));
    r->attention_factor = over != 0 && under != 0
                              ? magnitude(r->factor, over) / magnitude(r->factor, under)
                              : magnitude(r->factor, 1);
    if (truncate) {
        bool whole = false;
        if (truncate->kind != FV_VALUE_NULL) FV_TRY(fv_doc_bool(doc, truncate, &whole));
        r->fractional = !whole;
    }
    return read_positive(doc, rope, "attention_factor", &r->attention_factor);
}

static fv_status read_dynamic(const fv_doc *doc, const fv_value *rope, fv_transformer_config *c)
{
    c->rotary.scaling = FV_ROTARY_SCALING_DYNAMIC;
    c->rotary.original = (double)c->max_positions;
    if (!given(rope, "factor")) return fv_doc_fail(doc, rope, FV_ERR_FORMAT, "'factor' is missing");
    return read_positive(doc, rope, "factor", &c->rotary.factor);
}

/* Without the lists of factors: see fv_hf_rotary_load. */
static fv_status read_longrope(const fv_doc *doc, const fv_value *rope, fv_transformer_config *c)
{
    fv_rotary_config *r = &c->rotary;
    r->scaling = FV_ROTARY_SCALING_LONGROPE;
    FV_TRY(read_original(doc, rope, c, &r->original));
    double factor = (double)c->max_positions / r->original;
    FV_TRY(read_positive(doc, rope, "factor", &factor));
    r->attention_factor = factor <= 1 ? 1 : sqrt(1 + log(factor) / log(r->original));
    return read_positive(doc, rope, "attention_factor", &r->attention_factor);
}

static fv_status read_linear(const fv_doc *doc, const fv_value *rope, fv_transformer_config *c)
{
    return fv_doc_get_real(doc, rope, "factor", true, &c->rotary.linear_factor);
}

static fv_status read_scaling(const fv_doc *doc, const fv_value *rope, fv_transformer_config *c)
{
    static const struct {
        const char *name;
        fv_status (*read)(const fv_doc *doc, const fv_value *rope, fv_transformer_config *c);
    } types[] = {{"linear", read_linear},
                 {"llama3", read_llama3},
                 {"yarn", read_yarn},
                 {"dynamic", read_dynamic},
                 {"longrope", read_longrope}};
    const char *type = "default";
    FV_TRY(fv_doc_get_string(doc, rope, "type", false, &type));
    FV_TRY(fv_doc_get_string(doc, rope, "rope_type", false, &type));
    if (strcmp(type, "default") == 0) return FV_OK;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].name) == 0) return types[i].read(doc, rope, c);
    return fv_doc_fail(doc, rope, FV_ERR_FORMAT, "rope_type '%.40s' is not supported", type);
}

/* The object with the settings of rotary positions, or NULL. Files of older versions call it
 * rope_scaling. */
static const fv_value *rope_of(const fv_doc *doc)
{
    const fv_value *old = given(&doc->root, "rope_scaling");
    return old && !(old->kind == FV_VALUE_OBJECT && old->count == 0)
               ? old
               : given(&doc->root, "rope_parameters");
}

fv_status fv_hf_read_llama(const fv_doc *doc, fv_transformer_config *c)
{
    FV_TRY(read_real(doc, &doc->root, "rope_theta", &c->rotary.base));
    const fv_value *rope = rope_of(doc);
    if (!rope) return FV_OK;
    FV_TRY(fv_doc_kind(doc, rope, FV_VALUE_OBJECT));
    FV_TRY(read_real(doc, rope, "rope_theta", &c->rotary.base));
    return read_scaling(doc, rope, c);
}

static fv_status read_factors(const fv_doc *doc, const fv_value *object, const char *key,
                              int64_t pairs, fv_arena *arena, const double **out)
{
    const fv_value *list = fv_value_get(object, key);
    if (!list) return fv_doc_fail(doc, object, FV_ERR_FORMAT, "'%s' is missing", key);
    FV_TRY(fv_doc_kind(doc, list, FV_VALUE_ARRAY));
    if (list->count != pairs)
        return fv_doc_fail(doc, list, FV_ERR_FORMAT, "'%s' has %u factors, expected %lld", key,
                           list->count, (long long)pairs);
    double *factors = fv_arena_array(arena, list->count, sizeof *factors);
    FV_RETURN_IF(!factors, doc->ctx, FV_ERR_MEMORY, "no memory for factors");
    for (uint32_t i = 0; i < list->count; i++) {
        FV_TRY(fv_doc_real(doc, &list->as.items[i], &factors[i]));
        if (!(factors[i] > 0 && isfinite(factors[i])))
            return fv_doc_fail(doc, &list->as.items[i], FV_ERR_FORMAT, "a factor of %g",
                               factors[i]);
    }
    *out = factors;
    return FV_OK;
}

fv_status fv_hf_rotary_load(fv_ctx *ctx, const char *config, fv_arena *arena,
                            fv_transformer_config *c)
{
    fv_rotary_config *r = &c->rotary;
    if (r->scaling != FV_ROTARY_SCALING_LONGROPE) return FV_OK;
    const bool ours = c->family == FV_FAMILY_FOVEA;
    const int64_t width = r->width ? r->width : c->head_dim ? c->head_dim : c->width / c->heads;
    fv_doc *doc = NULL;
    FV_TRY(fv_json_load(ctx, config, &doc));
    const fv_value *rope = ours ? NULL : rope_of(doc);
    if (!rope) rope = &doc->root;
    fv_status status = read_factors(doc, rope, ours ? "rotary_short_factors" : "short_factor",
                                    width / 2, arena, &r->short_factors);
    if (status == FV_OK)
        status = read_factors(doc, rope, ours ? "rotary_long_factors" : "long_factor", width / 2,
                              arena, &r->long_factors);
    fv_doc_free(&doc);
    return status;
}

/* ---- rotary positions: writing ------------------------------------------------------ */

static void write_reals(fv_json_writer *w, const char *key, const double *list, int64_t count)
{
    fv_json_key(w, key);
    fv_json_open(w, '[');
    for (int64_t i = 0; i < count; i++)
        fv_json_real(w, list[i]);
    fv_json_close(w, ']');
}

void fv_hf_write_factors(fv_json_writer *w, const fv_transformer_config *c)
{
    const fv_rotary_config *r = &c->rotary;
    const bool ours = c->family == FV_FAMILY_FOVEA;
    const int64_t width = r->width ? r->width : c->head_dim ? c->head_dim : c->width / c->heads;
    if (r->scaling != FV_ROTARY_SCALING_LONGROPE) return;
    write_reals(w, ours ? "rotary_short_factors" : "short_factor", r->short_factors, width / 2);
    write_reals(w, ours ? "rotary_long_factors" : "long_factor", r->long_factors, width / 2);
}

static void write_original(fv_json_writer *w, const fv_rotary_config *r)
{
    fv_json_key(w, "original_max_position_embeddings");
    fv_json_int(w, (int64_t)r->original);
}

static const char *write_scaling(fv_json_writer *w, const fv_transformer_config *c)
{
    const fv_rotary_config *r = &c->rotary;
    switch (r->scaling) {
    case FV_ROTARY_SCALING_YARN:
        fv_hf_write_real(w, "factor", r->factor);
        fv_hf_write_real(w, "beta_fast", r->high_freq);
        fv_hf_write_real(w, "beta_slow", r->low_freq);
        fv_hf_write_real(w, "attention_factor", r->attention_factor);
        fv_hf_write_flag(w, "truncate", !r->fractional);
        write_original(w, r);
        return "yarn";
    case FV_ROTARY_SCALING_DYNAMIC:
        fv_hf_write_real(w, "factor", r->factor);
        return "dynamic";
    case FV_ROTARY_SCALING_LONGROPE:
        fv_hf_write_factors(w, c);
        fv_hf_write_real(w, "attention_factor", r->attention_factor);
        write_original(w, r);
        return "longrope";
    default:
        break;
    }
    if (r->llama3_factor > 0) {
        fv_hf_write_real(w, "factor", r->llama3_factor);
        fv_hf_write_real(w, "low_freq_factor", r->low_freq);
        fv_hf_write_real(w, "high_freq_factor", r->high_freq);
        write_original(w, r);
        return "llama3";
    }
    if (r->linear_factor == 1) return "default";
    fv_hf_write_real(w, "factor", r->linear_factor);
    return "linear";
}

void fv_hf_write_llama(fv_json_writer *w, const fv_transformer_config *c)
{
    char name[64];
    snprintf(name, sizeof name, "%sForCausalLM", fv_family_names_of(c->family)->class_name);
    fv_hf_write_architecture(w, name);
    fv_hf_write_real(w, "rope_theta", c->rotary.base);
    fv_json_key(w, "rope_parameters");
    fv_json_open(w, '{');
    fv_hf_write_real(w, "rope_theta", c->rotary.base);
    const char *type = write_scaling(w, c);
    fv_json_key(w, "rope_type");
    fv_json_string(w, type);
    fv_json_close(w, '}');
}

/* ---- windows ------------------------------------------------------------------------ */

fv_status fv_hf_read_mistral(const fv_doc *doc, fv_transformer_config *c)
{
    const fv_value *window = given(&doc->root, "sliding_window");
    int64_t size = 0;
    if (window) FV_TRY(fv_doc_int(doc, window, 1, 1 << 28, &size));
    return fv_hf_read_llama(doc, c);
}

/* Marks a layer without a window. */
static fv_status set_full(const fv_doc *doc, fv_transformer_config *c, int64_t layer)
{
    if (layer >= 128)
        return fv_doc_fail(doc, &doc->root, FV_ERR_FORMAT,
                           "layer %lld has no window, but others have one: that is supported for "
                           "the first 128 layers",
                           (long long)layer);
    c->full_layers[layer / 64] |= (uint64_t)1 << (layer % 64);
    return FV_OK;
}

/* "layer_types" tells which layers have a window; without it, those from max_window_layers on. */
static fv_status read_layer_types(const fv_doc *doc, fv_transformer_config *c)
{
    const fv_value *types = given(&doc->root, "layer_types");
    int64_t first = 28, windows = 0;
    FV_TRY(fv_doc_get_int(doc, &doc->root, "max_window_layers", false, 0, 1 << 28, &first));
    if (types) FV_TRY(fv_doc_kind(doc, types, FV_VALUE_ARRAY));
    if (types && types->count != c->decoder_layers)
        return fv_doc_fail(doc, types, FV_ERR_FORMAT,
                           "'layer_types' has %u entries for %lld layers", types->count,
                           (long long)c->decoder_layers);
    for (int64_t i = 0; i < c->decoder_layers; i++) {
        const char *type = i >= first ? "sliding_attention" : "full_attention";
        if (types) FV_TRY(fv_doc_string(doc, &types->as.items[i], &type));
        const bool slides = strcmp(type, "sliding_attention") == 0;
        if (!slides && strcmp(type, "full_attention") != 0)
            return fv_doc_fail(doc, &types->as.items[i], FV_ERR_FORMAT,
                               "layer type '%.40s' is not supported", type);
        if (slides && c->window == 0)
            return fv_doc_fail(doc, &types->as.items[i], FV_ERR_FORMAT,
                               "layer %lld slides, but there is no 'sliding_window'", (long long)i);
        windows += slides;
        if (!slides && c->window > 0) FV_TRY(set_full(doc, c, i));
    }
    if (windows == 0) c->window = 0;
    if (windows == 0) memset(c->full_layers, 0, sizeof c->full_layers);
    return FV_OK;
}

fv_status fv_hf_read_qwen(const fv_doc *doc, fv_transformer_config *c)
{
    bool used = false;
    const fv_value *window = fv_value_get(&doc->root, "sliding_window");
    FV_TRY(fv_doc_get_bool(doc, &doc->root, "use_sliding_window", false, &used));
    c->window = used ? 4096 : 0;
    if (used && window && window->kind == FV_VALUE_NULL)
        c->window = 0;
    else if (used && window)
        FV_TRY(fv_doc_int(doc, window, 1, 1 << 28, &c->window));
    if (c->window > 0 || given(&doc->root, "layer_types")) FV_TRY(read_layer_types(doc, c));
    /* What transformers takes where a file leaves them out. */
    if (!fv_value_get(&doc->root, "num_key_value_heads")) c->kv_heads = 32;
    if (!fv_value_get(&doc->root, "head_dim") && c->family == FV_FAMILY_QWEN3) c->head_dim = 128;
    return fv_hf_read_llama(doc, c);
}

void fv_hf_write_qwen(fv_json_writer *w, const fv_transformer_config *c)
{
    int64_t first = 0;
    while (first < c->decoder_layers && (c->window == 0 || fv_is_full_layer(c, first)))
        first++;
    fv_hf_write_llama(w, c);
    fv_hf_write_flag(w, "use_sliding_window", c->window > 0);
    fv_json_key(w, "sliding_window");
    if (c->window > 0)
        fv_json_int(w, c->window);
    else
        fv_json_null(w);
    fv_json_key(w, "max_window_layers");
    fv_json_int(w, first);
    fv_json_key(w, "layer_types");
    fv_json_open(w, '[');
    for (int64_t i = 0; i < c->decoder_layers; i++)
        fv_json_string(w, c->window > 0 && !fv_is_full_layer(c, i) ? "sliding_attention"
                                                                   : "full_attention");
    fv_json_close(w, ']');
}
