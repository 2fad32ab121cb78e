/* The table of model kinds: the library's own, then those that the program has registered. */
#include <stdio.h>
#include <string.h>

#include "models/model.h"

static const fv_model_kind *const kinds[] = {
#define FV_KIND(name) &fv_kind_##name,
#include "models/kinds.def"
};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *fv_ability_name(fv_ability ability)
{
    static const char *const names[FV_ABILITY_COUNT] = {[FV_CAN_TRANSLATE] = "translate",
                                                        [FV_CAN_GENERATE] = "generate",
                                                        [FV_CAN_FILL] = "fill",
                                                        [FV_CAN_CLASSIFY] = "classify",
                                                        [FV_CAN_EMBED] = "embed",
                                                        [FV_CAN_POINT] = "point",
                                                        [FV_CAN_ACT] = "act",
                                                        [FV_CAN_DRAW] = "draw",
                                                        [FV_CAN_ANSWER] = "answer",
                                                        [FV_CAN_DESCRIBE] = "describe",
                                                        [FV_CAN_PREDICT] = "predict",
                                                        [FV_CAN_RELATE] = "relate",
                                                        [FV_CAN_RATE] = "rate",
                                                        [FV_CAN_LEARN] = "learn"};
    return (unsigned)ability < FV_ABILITY_COUNT ? names[ability] : "";
}

const fv_model_kind *fv_model_kind_at(const fv_ctx *ctx, size_t i)
{
    if (i < KINDS) return kinds[i];
    return i - KINDS < ctx->models.count ? ctx->models.items[i - KINDS] : NULL;
}

const fv_model_kind *fv_model_kind_find(const fv_ctx *ctx, const char *name)
{
    const fv_model_kind *kind;
    for (size_t i = 0; (kind = fv_model_kind_at(ctx, i)) != NULL; i++)
        if (strcmp(kind->name, name) == 0) return kind;
    return NULL;
}

const fv_model_kind *fv_model_kind_of_type(const fv_ctx *ctx, const char *type, size_t bytes)
{
    const fv_model_kind *kind;
    for (size_t i = 0; (kind = fv_model_kind_at(ctx, i)) != NULL; i++)
        for (const char *p = kind->types ? kind->types : kind->name; p;) {
            const size_t length = strcspn(p, "|");
            if (length == bytes && memcmp(p, type, bytes) == 0) return kind;
            p = p[length] ? p + length + 1 : NULL;
        }
    return NULL;
}

const char *fv_model_types(const fv_ctx *ctx, char *out, size_t bytes)
{
    size_t used = 0;
    const fv_model_kind *kind;
    out[0] = '\0';
    for (size_t i = 0; (kind = fv_model_kind_at(ctx, i)) != NULL; i++)
        for (const char *p = kind->types ? kind->types : kind->name; p && used < bytes;) {
            const size_t length = strcspn(p, "|");
            const int written = snprintf(out + used, bytes - used, "%s%.*s", used ? ", " : "",
                                         (int)(length < 60 ? length : 60), p);
            used += (size_t)(written > 0 ? written : 0);
            p = p[length] ? p + length + 1 : NULL;
        }
    return out;
}

/* The names by which folders and recipes would find it. */
static fv_status check_names(fv_ctx *ctx, const fv_model_kind *kind)
{
    FV_RETURN_IF(fv_model_kind_find(ctx, kind->name) || strcmp(kind->name, "auto") == 0, ctx,
                 FV_ERR_ARGUMENT, "model kind %.60s is already registered", kind->name);
    for (const char *p = kind->types ? kind->types : kind->name; p;) {
        const size_t length = strcspn(p, "|");
        const fv_model_kind *other = fv_model_kind_of_type(ctx, p, length);
        FV_RETURN_IF(length == 0 || other, ctx, FV_ERR_ARGUMENT,
                     "model kind %.60s: %s model_type '%.*s'%s%s", kind->name,
                     other ? "the" : "an empty", (int)(length < 60 ? length : 60), p,
                     other ? " belongs to " : "", other ? other->name : "");
        p = p[length] ? p + length + 1 : NULL;
    }
    return FV_OK;
}

fv_status fv_register_model(fv_ctx *ctx, const fv_model_kind *kind)
{
    fv_model_kind full;
    FV_TRY(fv_registry_fill(ctx, kind, &full, sizeof full));
    FV_RETURN_IF(!fv_registry_is_name(full.name) || !full.create || !full.destroy, ctx,
                 FV_ERR_ARGUMENT, "a model kind needs a name of one word, create and destroy");
    FV_RETURN_IF(!full.load != !full.save, ctx, FV_ERR_ARGUMENT,
                 "model kind %.60s: load and save go together", full.name);
    FV_RETURN_IF(!full.get_counters != !full.set_counters, ctx, FV_ERR_ARGUMENT,
                 "model kind %.60s: get_counters and set_counters go together", full.name);
    FV_TRY(check_names(ctx, &full));
    return fv_registry_add(ctx, &ctx->models, &full, sizeof full);
}

/* ---- specs ---------------------------------------------------------------------------------- */

bool fv_data_spec_set(fv_data_spec *spec, const char *name, int64_t value)
{
    int i = 0;
    while (i < spec->number_count && strcmp(spec->number[i].name, name) != 0)
        i++;
    if (i == FV_SPEC_NUMBERS || strlen(name) >= sizeof spec->number[i].name) return false;
    if (i == spec->number_count) spec->number_count++;
    memcpy(spec->number[i].name, name, strlen(name) + 1);
    spec->number[i].value = value;
    return true;
}

int64_t fv_data_spec_get(const fv_data_spec *spec, const char *name, int64_t fallback)
{
    for (int i = 0; i < spec->number_count; i++)
        if (strcmp(spec->number[i].name, name) == 0) return spec->number[i].value;
    return fallback;
}
