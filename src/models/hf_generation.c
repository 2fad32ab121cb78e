#include "models/hf_generation.h"

#include "io/file.h"
#include "io/json.h"
#include "io/json_write.h"

#define FILE_NAME "generation_config.json"

fv_generation_defaults fv_hf_generation_of(const fv_transformer_config *cfg)
{
    fv_generation_defaults g = {.bos = cfg->bos,
                                .pad = cfg->pad,
                                .beams = 1,
                                .top_k = 50,
                                .length_penalty = 1,
                                .temperature = 1,
                                .top_p = 1,
                                .repetition_penalty = 1,
                                .forced_first = -1,
                                .forced_last = -1};
    if (cfg->eos >= 0) g.eos[g.eos_count++] = cfg->eos;
    return g;
}

/* ---- reading ------------------------------------------------------------------------- */

/* The value of a key that is there and not null, or NULL. */
static const fv_value *given(const fv_doc *doc, const char *key)
{
    const fv_value *value = fv_value_get(&doc->root, key);
    return value && value->kind != FV_VALUE_NULL ? value : NULL;
}

static fv_status read_int(const fv_doc *doc, const char *key, int64_t *out)
{
    const fv_value *value = given(doc, key);
    return value ? fv_doc_int(doc, value, 0, INT32_MAX, out) : FV_OK;
}

/* An id, or -1 for none, which some files say with a negative number. */
static fv_status read_token(const fv_doc *doc, const char *key, int64_t *out)
{
    const fv_value *value = given(doc, key);
    if (value) FV_TRY(fv_doc_int(doc, value, INT32_MIN, INT32_MAX, out));
    if (*out < 0) *out = -1;
    return FV_OK;
}

static fv_status read_real(const fv_doc *doc, const char *key, double *out)
{
    const fv_value *value = given(doc, key);
    return value ? fv_doc_real(doc, value, out) : FV_OK;
}

static fv_status read_bool(const fv_doc *doc, const char *key, bool *out)
{
    const fv_value *value = given(doc, key);
    return value ? fv_doc_bool(doc, value, out) : FV_OK;
}

static fv_status read_ends(const fv_doc *doc, fv_generation_defaults *g)
{
    const fv_value *value = given(doc, "eos_token_id");
    if (!value) return FV_OK;
    const bool list = value->kind == FV_VALUE_ARRAY;
    const fv_value *items = list ? value->as.items : value;
    const uint32_t count = list ? value->count : 1;
    if (count > FV_MAX_EOS)
        return fv_doc_fail(doc, value, FV_ERR_FORMAT, "more than %d end tokens", (int)FV_MAX_EOS);
    for (uint32_t i = 0; i < count; i++)
        FV_TRY(fv_doc_int(doc, &items[i], INT32_MIN, INT32_MAX, &g->eos[i]));
    g->eos_count = (int)count;
    return FV_OK;
}

/* [[7], [9, 3]]: banned words. */
static fv_status read_banned(const fv_doc *doc, fv_generation_defaults *g)
{
    const fv_value *list = given(doc, "bad_words_ids");
    if (!list) return FV_OK;
    FV_TRY(fv_doc_kind(doc, list, FV_VALUE_ARRAY));
    if (list->count > FV_MAX_BANNED)
        return fv_doc_fail(doc, list, FV_ERR_FORMAT, "more than %d bad words", (int)FV_MAX_BANNED);
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        const fv_value *word = &list->as.items[i];
        FV_TRY(fv_doc_kind(doc, word, FV_VALUE_ARRAY));
        if (word->count < 1 || word->count > FV_MAX_BANNED_TOKENS - tokens)
            return fv_doc_fail(doc, word, FV_ERR_FORMAT,
                               "a bad word of %u tokens; each has one or more, all have at most %d",
                               word->count, (int)FV_MAX_BANNED_TOKENS);
        for (uint32_t k = 0; k < word->count; k++)
            FV_TRY(fv_doc_int(doc, &word->as.items[k], 0, INT32_MAX, &g->banned[tokens++]));
        g->banned_lengths[i] = (int)word->count;
    }
    g->banned_count = (int)list->count;
    return FV_OK;
}

/* true, false, or "never", which is stricter; here it means false. */
static fv_status read_stopping(const fv_doc *doc, bool *out)
{
    const fv_value *value = given(doc, "early_stopping");
    if (!value || value->kind == FV_VALUE_STRING) return FV_OK;
    return fv_doc_bool(doc, value, out);
}

static fv_status read_generation(const fv_doc *doc, fv_generation_defaults *g)
{
    FV_TRY(fv_doc_kind(doc, &doc->root, FV_VALUE_OBJECT));
    FV_TRY(read_token(
        doc, given(doc, "decoder_start_token_id") ? "decoder_start_token_id" : "bos_token_id",
        &g->bos));
    FV_TRY(read_ends(doc, g));
    FV_TRY(read_token(doc, "pad_token_id", &g->pad));
    FV_TRY(read_int(doc, "max_length", &g->max_length));
    FV_TRY(read_int(doc, "max_new_tokens", &g->max_new_tokens));
    FV_TRY(read_int(doc, "min_length", &g->min_length));
    FV_TRY(read_int(doc, "min_new_tokens", &g->min_new_tokens));
    FV_TRY(read_int(doc, "no_repeat_ngram_size", &g->no_repeat_ngram));
    FV_TRY(read_bool(doc, "do_sample", &g->sample));
    FV_TRY(read_int(doc, "num_beams", &g->beams));
    FV_TRY(read_int(doc, "top_k", &g->top_k));
    FV_TRY(read_real(doc, "length_penalty", &g->length_penalty));
    FV_TRY(read_real(doc, "temperature", &g->temperature));
    FV_TRY(read_real(doc, "top_p", &g->top_p));
    FV_TRY(read_real(doc, "min_p", &g->min_p));
    FV_TRY(read_real(doc, "repetition_penalty", &g->repetition_penalty));
    FV_TRY(read_stopping(doc, &g->early_stopping));
    FV_TRY(read_banned(doc, g));
    FV_TRY(read_bool(doc, "renormalize_logits", &g->renormalize));
    FV_TRY(read_int(doc, "forced_bos_token_id", &g->forced_first));
    return read_int(doc, "forced_eos_token_id", &g->forced_last);
}

/* Ids beyond the vocabulary, which no text has; config.json has given a warning of its own. */
static void drop_unknown_tokens(const fv_transformer_config *cfg, fv_generation_defaults *g)
{
    const int64_t end = cfg->target_vocabulary ? cfg->target_vocabulary : cfg->vocabulary;
    int kept = 0;
    if (g->bos >= end) g->bos = -1;
    if (g->pad >= end) g->pad = -1;
    for (int i = 0; i < g->eos_count; i++)
        if (g->eos[i] >= 0 && g->eos[i] < end) g->eos[kept++] = g->eos[i];
    g->eos_count = kept;
}

fv_status fv_hf_generation_load(fv_ctx *ctx, const char *folder, const fv_transformer_config *cfg,
                                fv_generation_defaults *out)
{
    char path[FV_PATH_BYTES];
    fv_generation_defaults g = fv_hf_generation_of(cfg);
    FV_TRY(fv_path_join(ctx, path, folder, FILE_NAME));
    if (!fv_file_exists(ctx, path)) FV_TRY(fv_path_join(ctx, path, folder, "config.json"));
    fv_doc *doc = NULL;
    FV_TRY(fv_json_load(ctx, path, &doc));
    const fv_status status = read_generation(doc, &g);
    fv_doc_free(&doc);
    drop_unknown_tokens(cfg, &g);
    if (status == FV_OK) *out = g;
    return status;
}

/* ---- writing ------------------------------------------------------------------------- */

static void write_token(fv_json_writer *w, const char *key, int64_t token)
{
    fv_json_key(w, key);
    if (token < 0)
        fv_json_null(w);
    else
        fv_json_int(w, token);
}

static void write_int(fv_json_writer *w, const char *key, int64_t value)
{
    if (value == 0) return;
    fv_json_key(w, key);
    fv_json_int(w, value);
}

static void write_real(fv_json_writer *w, const char *key, double value)
{
    fv_json_key(w, key);
    fv_json_real(w, value);
}

static void write_banned(fv_json_writer *w, const fv_generation_defaults *g)
{
    if (g->banned_count == 0) return;
    fv_json_key(w, "bad_words_ids");
    fv_json_open(w, '[');
    const int64_t *token = g->banned;
    for (int i = 0; i < g->banned_count; i++) {
        fv_json_open(w, '[');
        for (int k = 0; k < g->banned_lengths[i]; k++)
            fv_json_int(w, *token++);
        fv_json_close(w, ']');
    }
    fv_json_close(w, ']');
}

static void write_ends(fv_json_writer *w, const fv_generation_defaults *g)
{
    if (g->eos_count == 0) return;
    fv_json_key(w, "eos_token_id");
    if (g->eos_count > 1) fv_json_open(w, '[');
    for (int i = 0; i < g->eos_count; i++)
        fv_json_int(w, g->eos[i]);
    if (g->eos_count > 1) fv_json_close(w, ']');
}

fv_status fv_hf_generation_save(fv_ctx *ctx, const char *folder, const fv_generation_defaults *g)
{
    char path[FV_PATH_BYTES];
    FV_TRY(fv_path_join(ctx, path, folder, FILE_NAME));
    fv_json_writer w;
    fv_json_begin(&w, ctx);
    fv_json_open(&w, '{');
    write_token(&w, "bos_token_id", g->bos);
    write_token(&w, "decoder_start_token_id", g->bos);
    write_ends(&w, g);
    write_token(&w, "pad_token_id", g->pad);
    write_int(&w, "max_length", g->max_length);
    write_int(&w, "max_new_tokens", g->max_new_tokens);
    write_int(&w, "min_length", g->min_length);
    write_int(&w, "min_new_tokens", g->min_new_tokens);
    write_int(&w, "no_repeat_ngram_size", g->no_repeat_ngram);
    fv_json_key(&w, "do_sample");
    fv_json_bool(&w, g->sample);
    write_int(&w, "num_beams", g->beams);
    fv_json_key(&w, "top_k");
    fv_json_int(&w, g->top_k);
    write_real(&w, "length_penalty", g->length_penalty);
    write_real(&w, "temperature", g->temperature);
    write_real(&w, "top_p", g->top_p);
    if (g->min_p > 0) write_real(&w, "min_p", g->min_p);
    write_real(&w, "repetition_penalty", g->repetition_penalty);
    fv_json_key(&w, "early_stopping");
    fv_json_bool(&w, g->early_stopping);
    write_banned(&w, g);
    fv_json_key(&w, "renormalize_logits");
    fv_json_bool(&w, g->renormalize);
    write_token(&w, "forced_bos_token_id", g->forced_first);
    write_token(&w, "forced_eos_token_id", g->forced_last);
    fv_json_close(&w, '}');
    fv_json_raw(&w, "\n", 1);
    const fv_status status = fv_json_save(&w, path);
    fv_json_free(&w);
    return status;
}
