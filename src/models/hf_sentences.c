/* Folders of sentence-transformers: an encoder and the pooling of its states. Files of version
 * 5 and before name poolings by flags, later ones by a word. */
#include <string.h>

#include "fovea/ops.h"
#include "fovea/transformer.h"
#include "io/file.h"
#include "io/json.h"

#define MODULES   "modules.json"
#define PROMPTS   "config_sentence_transformers.json"
#define LENGTHS   "sentence_bert_config.json"
#define TOKENIZER "tokenizer_config.json"

typedef fv_status reader_fn(const fv_doc *doc, fv_embedding_rule *rule);

/* Opens a JSON object and reads it; skips a file that may be missing. */
static fv_status read_file(fv_ctx *ctx, const char *folder, const char *name, bool required,
                           reader_fn *read, fv_embedding_rule *rule)
{
    char path[FV_PATH_BYTES];
    fv_doc *doc = NULL;
    FV_TRY(fv_path_join(ctx, path, folder, name));
    if (!required && !fv_file_exists(ctx, path)) return FV_OK;
    FV_TRY(fv_json_load(ctx, path, &doc));
    fv_status status = fv_doc_kind(doc, &doc->root, FV_VALUE_OBJECT);
    if (status == FV_OK) status = read(doc, rule);
    fv_doc_free(&doc);
    return status;
}

/* The value of a key that is there and not null, or NULL. */
static const fv_value *given(const fv_doc *doc, const char *key)
{
    const fv_value *value = fv_value_get(&doc->root, key);
    return value && value->kind != FV_VALUE_NULL ? value : NULL;
}

/* ---- pooling ------------------------------------------------------------------------- */

static fv_status take_pooling(const fv_doc *doc, const fv_value *value, const char *name,
                              fv_embedding_rule *rule)
{
    const bool mean = strcmp(name, "mean") == 0;
    if (!mean && strcmp(name, "cls") != 0)
        return fv_doc_fail(doc, value, FV_ERR_UNSUPPORTED,
                           "pooling '%.40s' is not supported; mean and cls are", name);
    rule->pooling = mean ? FV_POOLING_MEAN : FV_POOLING_FIRST;
    return FV_OK;
}

static fv_status read_word(const fv_doc *doc, const fv_value *mode, fv_embedding_rule *rule)
{
    const char *name = NULL;
    if (mode->kind == FV_VALUE_ARRAY && mode->count == 1) mode = &mode->as.items[0];
    if (mode->kind == FV_VALUE_ARRAY)
        return fv_doc_fail(doc, mode, FV_ERR_UNSUPPORTED, "%u poolings at once are not supported",
                           mode->count);
    FV_TRY(fv_doc_string(doc, mode, &name));
    return take_pooling(doc, mode, name, rule);
}

static fv_status read_pooling(const fv_doc *doc, fv_embedding_rule *rule)
{
    static const struct {
        const char *key, *name;
    } flags[] = {{"pooling_mode_mean_tokens", "mean"},
                 {"pooling_mode_cls_token", "cls"},
                 {"pooling_mode_max_tokens", "max"},
                 {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
                 {"pooling_mode_weightedmean_tokens", "weightedmean"},
                 {"pooling_mode_lasttoken", "lasttoken"}};
    const fv_value *mode = given(doc, "pooling_mode");
    if (mode) return read_word(doc, mode, rule);
    int count = 0;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const fv_value *value = given(doc, flags[i].key);
        bool on = false;
        if (value) FV_TRY(fv_doc_bool(doc, value, &on));
        if (!on) continue;
        if (++count > 1)
            return fv_doc_fail(doc, value, FV_ERR_UNSUPPORTED,
                               "two poolings at once are not supported");
        FV_TRY(take_pooling(doc, value, flags[i].name, rule));
    }
    return FV_OK;
}

/* ---- lengths and prompts ------------------------------------------------------------- */

/* Tokenizers without a limit have 10^30 here. */
static fv_status read_length(const fv_doc *doc, const char *key, fv_embedding_rule *rule)
{
    const fv_value *value = given(doc, key);
    double length = 0;
    if (!value || rule->max_tokens > 0) return FV_OK;
    FV_TRY(fv_doc_real(doc, value, &length));
    if (!(length >= 1)) return fv_doc_fail(doc, value, FV_ERR_FORMAT, "no room for a token");
    if (length <= (double)INT32_MAX) rule->max_tokens = (int64_t)length;
    return FV_OK;
}

static fv_status read_lengths(const fv_doc *doc, fv_embedding_rule *rule)
{
    const fv_value *lower = given(doc, "do_lower_case");
    bool lowered = false;
    if (lower) FV_TRY(fv_doc_bool(doc, lower, &lowered));
    if (lowered)
        return fv_doc_fail(doc, lower, FV_ERR_UNSUPPORTED,
                           "lower-casing before the tokenizer is not supported");
    return read_length(doc, "max_seq_length", rule);
}

static fv_status read_tokenizer(const fv_doc *doc, fv_embedding_rule *rule)
{
    return read_length(doc, "model_max_length", rule);
}

static fv_status read_prompts(const fv_doc *doc, fv_embedding_rule *rule)
{
    (void)rule;
    const fv_value *chosen = given(doc, "default_prompt_name");
    const char *name = NULL, *prompt = "";
    if (!chosen) return FV_OK;
    FV_TRY(fv_doc_string(doc, chosen, &name));
    const fv_value *all = given(doc, "prompts");
    if (all) FV_TRY(fv_doc_get_string(doc, all, name, false, &prompt));
    if (*prompt == '\0') return FV_OK;
    return fv_doc_fail(doc, chosen, FV_ERR_UNSUPPORTED,
                       "the prompt '%.40s' before every text is not supported", name);
}

/* ---- the list of modules ------------------------------------------------------------- */

/* A module's class without its package, which changed between versions. */
static const char *class_of(const char *type)
{
    const char *dot = strrchr(type, '.');
    return dot ? dot + 1 : type;
}

/* The name of a subfolder, without "..". */
static bool is_plain_name(const char *path)
{
    return *path != '\0' && strcmp(path, ".") != 0 && strcmp(path, "..") != 0 &&
           !strchr(path, '/') && !strchr(path, '\\');
}

static fv_status read_module(const fv_doc *doc, const fv_value *module, uint32_t number,
                             const char *folder, fv_embedding_rule *rule)
{
    static const char *const order[] = {"Transformer", "Pooling", "Normalize"};
    const char *type = NULL, *path = "";
    char inside[FV_PATH_BYTES];
    FV_TRY(fv_doc_kind(doc, module, FV_VALUE_OBJECT));
    FV_TRY(fv_doc_get_string(doc, module, "type", true, &type));
    FV_TRY(fv_doc_get_string(doc, module, "path", false, &path));
    if (number >= 3 || strcmp(class_of(type), order[number]) != 0)
        return fv_doc_fail(
            doc, module, FV_ERR_UNSUPPORTED,
            "module %u is '%.60s'; supported are Transformer, Pooling and optionally "
            "Normalize, in this order",
            number, class_of(type));
    rule->normalize = number == 2;
    if (number == 0 && *path != '\0')
        return fv_doc_fail(doc, module, FV_ERR_UNSUPPORTED,
                           "the model is in '%.100s': open that folder", path);
    if (number != 1) return FV_OK;
    if (!is_plain_name(path))
        return fv_doc_fail(doc, module, FV_ERR_FORMAT, "'%.100s' is not a subfolder", path);
    FV_TRY(fv_path_join(doc->ctx, inside, folder, path));
    return read_file(doc->ctx, inside, "config.json", true, read_pooling, rule);
}

static fv_status read_modules(const fv_doc *doc, const char *folder, fv_embedding_rule *rule)
{
    FV_TRY(fv_doc_kind(doc, &doc->root, FV_VALUE_ARRAY));
    if (doc->root.count < 2)
        return fv_doc_fail(doc, &doc->root, FV_ERR_UNSUPPORTED, "a model without pooling");
    for (uint32_t i = 0; i < doc->root.count; i++)
        FV_TRY(read_module(doc, &doc->root.as.items[i], i, folder, rule));
    FV_TRY(read_file(doc->ctx, folder, PROMPTS, false, read_prompts, rule));
    FV_TRY(read_file(doc->ctx, folder, LENGTHS, false, read_lengths, rule));
    return read_file(doc->ctx, folder, TOKENIZER, false, read_tokenizer, rule);
}

fv_status fv_embedding_rule_load(fv_ctx *ctx, const char *folder, fv_embedding_rule *out)
{
    char path[FV_PATH_BYTES];
    fv_embedding_rule rule = {.pooling = FV_POOLING_MEAN};
    fv_status status = FV_OK;
    FV_TRY(fv_path_join(ctx, path, folder, MODULES));
    if (fv_file_exists(ctx, path)) {
        fv_doc *doc = NULL;
        FV_TRY(fv_json_load(ctx, path, &doc));
        status = read_modules(doc, folder, &rule);
        fv_doc_free(&doc);
    }
    if (status == FV_OK) *out = rule;
    return status;
}

fv_tensor *fv_embed(fv_ctx *ctx, const fv_token_rows *rows, fv_tensor *states,
                    const fv_embedding_rule *rule)
{
    fv_tensor *pooled = fv_transformer_pool(ctx, rows, states, rule->pooling);
    return rule->normalize ? fv_unit(ctx, pooled) : pooled;
}
