/* Settings to config.json. What was written is read back and compared before it is kept: a setting
 * that the family's file has no key for must not be lost silently. */
#include <string.h>

#include "fovea/transformer.h"
#include "io/choices.h"
#include "io/file.h"
#include "io/json.h"
#include "models/hf_fields.h"
#include "models/transformer.h"

static void write_field(fv_json_writer *w, const fv_hf_field *f, const fv_transformer_config *cfg)
{
    const char *from = (const char *)cfg + f->at;
    int64_t integer = 0;
    double real = 0;
    bool flag = false;
    int small = 0;
    size_t length = 0;
    const char *word;
    fv_json_key(w, f->key);
    switch (f->kind) {
    case FV_HF_SIZE:
    case FV_HF_COUNT:
    case FV_HF_TOKEN:
        memcpy(&integer, from, sizeof integer);
        if (integer == (f->kind == FV_HF_TOKEN ? -1 : 0))
            fv_json_null(w);
        else
            fv_json_int(w, integer);
        break;
    case FV_HF_REAL:
        memcpy(&real, from, sizeof real);
        fv_json_real(w, real);
        break;
    case FV_HF_FLAG:
        memcpy(&flag, from, sizeof flag);
        fv_json_bool(w, flag);
        break;
    case FV_HF_ACT:
        memcpy(&small, from, sizeof small);
        fv_json_string(w, fv_hf_act_name((fv_act)small));
        break;
    case FV_HF_LAYERS:
        fv_json_open(w, '[');
        for (int64_t i = 0; i < 128; i++) {
            uint64_t bits;
            memcpy(&bits, from + i / 64 * (int64_t)sizeof bits, sizeof bits);
            if (bits >> (i % 64) & 1) fv_json_int(w, i);
        }
        fv_json_close(w, ']');
        break;
    case FV_HF_CHOICE:
        memcpy(&small, from, sizeof small);
        word = fv_choice_at(f->choices, small, &length);
        fv_json_string_n(w, word, length);
        break;
    }
}

static void write_all(fv_json_writer *w, const fv_transformer_config *cfg)
{
    const fv_hf_table table = fv_hf_fields(cfg->family);
    fv_json_open(w, '{');
    fv_json_key(w, "model_type");
    fv_json_string(w, fv_family_name(cfg->family));
    fv_hf_write_rest(w, cfg);
    for (size_t i = 0; i < table.count; i++)
        write_field(w, &table.fields[i], cfg);
    fv_json_key(w, "dtype");
    fv_json_string(w, "float32");
    fv_json_close(w, '}');
    fv_json_raw(w, "\n", 1);
}

/* ---- comparing ------------------------------------------------------------------------ */

static bool same_field(const fv_hf_field *f, const fv_transformer_config *a,
                       const fv_transformer_config *b)
{
    const char *x = (const char *)a + f->at, *y = (const char *)b + f->at;
    switch (f->kind) {
    case FV_HF_REAL:
        return memcmp(x, y, sizeof(double)) == 0;
    case FV_HF_FLAG:
        return memcmp(x, y, sizeof(bool)) == 0;
    case FV_HF_LAYERS:
        return memcmp(x, y, 2 * sizeof(uint64_t)) == 0;
    case FV_HF_ACT:
    case FV_HF_CHOICE:
        return memcmp(x, y, sizeof(int)) == 0;
    default:
        return memcmp(x, y, sizeof(int64_t)) == 0;
    }
}

/* A model replaces a 0 that stands for a default; a config may still have it. */
static void fill(fv_transformer_config *c)
{
    if (c->decoder_heads == 0) c->decoder_heads = c->heads;
    if (c->decoder_hidden == 0) c->decoder_hidden = c->hidden;
    if (c->kv_heads == 0) c->kv_heads = c->heads;
    if (c->head_dim == 0 && c->heads > 0) c->head_dim = c->width / c->heads;
}

/* Our own table names every setting, so it is the list to compare by. Losses and training, which no
 * family's file speaks of, may differ. */
static fv_status check_back(fv_ctx *ctx, const fv_doc *doc, const fv_transformer_config *cfg)
{
    fv_transformer_config read, own = *cfg;
    FV_TRY(fv_hf_read(doc, &read));
    fill(&read);
    fill(&own);
    read.smoothing = own.smoothing;
    read.hidden_dropout = own.hidden_dropout;
    read.label_dropout = own.label_dropout;
    if (cfg->decoder_layers == 0) read.pooler = own.pooler; /* seen in the weights */
    const fv_hf_table table = fv_hf_fields(FV_FAMILY_FOVEA);
    for (size_t i = 0; i < table.count; i++)
        FV_RETURN_IF(!same_field(&table.fields[i], &read, &own), ctx, FV_ERR_ARGUMENT,
                     "config.json of model_type %s has no key for this model's '%s'",
                     fv_family_name(cfg->family), table.fields[i].key);
    return FV_OK;
}

fv_status fv_transformer_config_save(fv_ctx *ctx, const fv_transformer_config *given,
                                     const char *path)
{
    fv_transformer_config full, *cfg = &full;
    FV_TRY(fv_transformer_config_read(ctx, given, cfg));
    const fv_rotary_config *r = &cfg->rotary;
    FV_RETURN_IF(r->scaling == FV_ROTARY_SCALING_LONGROPE &&
                     (!r->short_factors || !r->long_factors),
                 ctx, FV_ERR_ARGUMENT, "longrope without short_factors and long_factors");
    /* Not every class of transformers takes null for the default. */
    if (cfg->encoder_layers == 0) fill(cfg);
    fv_json_writer w;
    fv_doc *doc = NULL;
    fv_json_begin(&w, ctx);
    write_all(&w, cfg);
    fv_status status = fv_json_end(&w);
    if (status == FV_OK) status = fv_json_parse(ctx, "config.json", w.text, w.bytes, &doc);
    if (status == FV_OK) status = check_back(ctx, doc, cfg);
    if (status == FV_OK) status = fv_file_write_text(ctx, path, w.text, w.bytes);
    fv_doc_free(&doc);
    fv_json_free(&w);
    return status;
}
