/* Reads the post-processor of a tokenizer.json. Every type becomes two templates. */
#include "io/utf8.h"
#include "text/tokenizer_pipeline.h"

static fv_status make_pieces(fv_tokenizer *tok, size_t count, fv_template *out)
{
    out->pieces = fv_arena_array(&tok->arena, count ? count : 1, sizeof *out->pieces);
    FV_RETURN_IF(!out->pieces, tok->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    out->count = 0;
    return FV_OK;
}

static void add_piece(fv_template *t, int32_t id, int sequence, int64_t type)
{
    t->pieces[t->count++] = (fv_template_piece){id, (uint8_t)sequence, (uint8_t)type};
}

/* ---- TemplateProcessing ---------------------------------------------------------- */

/* One piece: {"Sequence": {...}} or {"SpecialToken": {...}}. If `out` is NULL, only counts. */
static fv_status read_piece(const fv_doc *doc, const fv_value *v, const fv_value *specials,
                            bool pair, size_t *count, fv_template *out)
{
    const fv_value *sequence = fv_value_get(v, "Sequence"), *ids = NULL, *entry = NULL;
    const fv_value *body = sequence ? sequence : fv_value_get(v, "SpecialToken");
    const char *name = NULL;
    int64_t type = 0, id = 0;
    if (!body)
        return fv_doc_fail(doc, v, FV_ERR_FORMAT, "expected \"Sequence\" or \"SpecialToken\"");
    FV_TRY(fv_doc_get_int(doc, body, "type_id", false, 0, 255, &type));
    FV_TRY(fv_doc_get_string(doc, body, "id", true, &name));
    if (sequence) {
        bool second = name[0] == 'B' && !name[1];
        if (!second && !(name[0] == 'A' && !name[1]))
            return fv_doc_fail(doc, body, FV_ERR_FORMAT,
                               "invalid sequence, expected \"A\" or \"B\"");
        if (second && !pair)
            return fv_doc_fail(doc, body, FV_ERR_FORMAT, "\"B\" in the template for a single text");
        if (out) add_piece(out, -1, second, type);
        (*count)++;
        return FV_OK;
    }
    if (!specials) return fv_doc_fail(doc, v, FV_ERR_FORMAT, "\"special_tokens\" is missing");
    FV_TRY(fv_doc_get(doc, specials, name, FV_VALUE_OBJECT, &entry));
    FV_TRY(fv_doc_get(doc, entry, "ids", FV_VALUE_ARRAY, &ids));
    for (uint32_t i = 0; i < ids->count; i++) {
        FV_TRY(fv_doc_int(doc, &ids->as.items[i], 0, INT32_MAX, &id));
        if (out) add_piece(out, (int32_t)id, 0, type);
        (*count)++;
    }
    return FV_OK;
}

static fv_status read_template(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v,
                               const char *key, fv_template *out)
{
    const fv_value *pieces = NULL, *specials = fv_value_get(v, "special_tokens");
    const bool pair = key[0] == 'p';
    size_t count = 0;
    FV_TRY(fv_doc_get(doc, v, key, FV_VALUE_ARRAY, &pieces));
    enum { MAX_COUNT = 4096 };
    for (uint32_t i = 0; i < pieces->count; i++) {
        FV_TRY(read_piece(doc, &pieces->as.items[i], specials, pair, &count, NULL));
        if (count > MAX_COUNT)
            return fv_doc_fail(doc, pieces, FV_ERR_LIMIT,
                               "the template has more than %d pieces and tokens", MAX_COUNT);
    }
    FV_TRY(make_pieces(tok, count, out));
    for (uint32_t i = 0; i < pieces->count; i++)
        FV_TRY(read_piece(doc, &pieces->as.items[i], specials, pair, &count, out));
    return FV_OK;
}

/* ---- BertProcessing, RobertaProcessing ------------------------------------------- */

/* ["[SEP]", 102] */
static fv_status read_special(const fv_doc *doc, const fv_value *v, const char *key, int32_t *id)
{
    const fv_value *pair = NULL;
    int64_t value = 0;
    FV_TRY(fv_doc_get(doc, v, key, FV_VALUE_ARRAY, &pair));
    if (pair->count != 2)
        return fv_doc_fail(doc, pair, FV_ERR_FORMAT, "expected a token and its id");
    FV_TRY(fv_doc_int(doc, &pair->as.items[1], 0, INT32_MAX, &value));
    *id = (int32_t)value;
    return FV_OK;
}

/* cls A sep, and cls A sep B sep with type 1 from B on, or cls A sep sep B sep with type 0. */
static fv_status read_bert(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v, bool roberta)
{
    int32_t cls = 0, sep = 0;
    FV_TRY(read_special(doc, v, "cls", &cls));
    FV_TRY(read_special(doc, v, "sep", &sep));
    FV_TRY(make_pieces(tok, 3, &tok->single));
    FV_TRY(make_pieces(tok, 6, &tok->pair));
    for (int pair = 0; pair < 2; pair++) {
        fv_template *t = pair ? &tok->pair : &tok->single;
        add_piece(t, cls, 0, 0);
        add_piece(t, -1, 0, 0);
        add_piece(t, sep, 0, 0);
    }
    if (roberta) add_piece(&tok->pair, sep, 0, 0);
    add_piece(&tok->pair, -1, 1, !roberta);
    add_piece(&tok->pair, sep, 0, !roberta);
    tok->has_template = true;
    if (!roberta) return FV_OK;
    tok->trim_offsets = tok->trim_prefix_space = true;
    FV_TRY(fv_read_bool(doc, v, "trim_offsets", &tok->trim_offsets));
    return fv_read_bool(doc, v, "add_prefix_space", &tok->trim_prefix_space);
}

fv_status fv_read_post_processor(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    static const char *const names[] = {"TemplateProcessing", "ByteLevel", "BertProcessing",
                                        "RobertaProcessing",  "Sequence",  NULL};
    enum { TEMPLATE, BYTE_LEVEL, BERT, ROBERTA };
    int kind = 0;
    if (!v || v->kind == FV_VALUE_NULL) return FV_OK;
    FV_TRY(fv_read_type(doc, v, "post-processor", names, &kind));
    if (kind == BYTE_LEVEL) {
        tok->trim_offsets = tok->trim_prefix_space = true;
        FV_TRY(fv_read_bool(doc, v, "trim_offsets", &tok->trim_offsets));
        return fv_read_bool(doc, v, "add_prefix_space", &tok->trim_prefix_space);
    }
    if (kind == BERT || kind == ROBERTA) return read_bert(tok, doc, v, kind == ROBERTA);
    if (kind == TEMPLATE) {
        FV_TRY(read_template(tok, doc, v, "single", &tok->single));
        FV_TRY(read_template(tok, doc, v, "pair", &tok->pair));
        tok->has_template = true;
        return FV_OK;
    }
    const fv_value *items = NULL;
    FV_TRY(fv_doc_get(doc, v, "processors", FV_VALUE_ARRAY, &items));
    for (uint32_t i = 0; i < items->count; i++)
        FV_TRY(fv_read_post_processor(tok, doc, &items->as.items[i]));
    return FV_OK;
}
