/*
 * Internals of fovea/model.h.
 *
 *     kinds.def, kinds.c  the table of kinds
 *     model.c             models in memory and in folders
 *     model_config.c      config.json of kinds that do not write their own
 *     model_tokenizers.c  tokenizers of source and target
 *     kind_*.c            one kind each
 */
#ifndef FV_MODELS_MODEL_H
#define FV_MODELS_MODEL_H

#include "base/ctx.h"
#include "fovea/model.h"
#include "fovea/recipe.h"
#include "io/arena.h"
#include "io/file.h"

struct fv_model {
    fv_ctx *ctx;
    const fv_model_kind *kind;
    void *self;
    fv_params *params;
    fv_data_spec spec;
    fv_arena arena;      /* of the spec's labels, the type and the folder's name */
    const char *type;    /* model_type */
    const char *folder;  /* the folder it was opened from; NULL: it was created */
    fv_recipe *settings; /* values of the kind's keys, where the library writes config.json */
    fv_tokenizer_encoder *source_encoder, *target_encoder; /* with the spec's tokenizers */
    int64_t unknown;                                       /* of the target; -1: none */
};

/* The library's own kinds, one file each. */
#define FV_KIND(name) extern const fv_model_kind fv_kind_##name;
#include "models/kinds.def"

/* The kind that opens a model_type of `bytes` bytes, or NULL. */
const fv_model_kind *fv_model_kind_of_type(const fv_ctx *ctx, const char *type, size_t bytes);
/* Every model_type that opens, "a, b, c", in `out`, which is returned. */
const char *fv_model_types(const fv_ctx *ctx, char *out, size_t bytes);
/* Opens a folder of a kind that has no load, or writes its config.json. */
fv_status fv_model_config_load(fv_model *model, const fv_model_folder *from);
fv_status fv_model_config_save(const fv_model *model, const char *folder);
/* Remembers the values of the kind's keys. */
fv_status fv_model_keep_settings(fv_model *model, const fv_recipe *recipe);

/* The text of "model_type" of a config.json in `arena`. Fails: IO, FORMAT, MEMORY. */
fv_status fv_model_read_type(fv_ctx *ctx, const char *config, fv_arena *arena, const char **out);

/* Tokenizers of a folder: source_tokenizer.json and target_tokenizer.json, or tokenizer.json for
 * both. */
fv_status fv_load_tokenizer_pair(fv_ctx *ctx, const char *folder, fv_tokenizer **source,
                                 fv_tokenizer **target);
/* Whether the folder has separate tokenizers for source and target. */
fv_status fv_has_tokenizer_pair(fv_ctx *ctx, const char *folder, bool *out);
fv_status fv_model_make_encoders(fv_model *model);
fv_status fv_model_save_tokenizers(const fv_model *model, const char *folder);

/* A token that the target's tokenizer must have. Fails: ARGUMENT. */
fv_status fv_spec_token(fv_ctx *ctx, const fv_data_spec *spec, const char *token, int64_t *out);

/* Tokenizers of both sides, from the model's folder if they are not there yet. Fails: as
 * fv_tokenizer_load; STATE (the model has no folder). */
fv_status fv_model_load_tokenizers(fv_model *model);

/* The settings of generation_config.json; all zero where the kind has none. */
const fv_generation_defaults *fv_model_generation(const fv_model *model);

#endif
