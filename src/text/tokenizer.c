#include "fovea/tokenizer.h"

#include <string.h>

#include "io/json.h"
#include "io/utf8.h"
#include "text/sentencepiece.h"

/* ---- destroy --------------------------------------------------------------------- */

void fv_tokenizer_destroy(fv_tokenizer **tokenizer)
{
    fv_tokenizer *tok = *tokenizer;
    if (!tok) return;
    fv_mem *mem = &tok->ctx->mem;
    fv_mem_free(mem, tok->text, tok->text_bytes);
    fv_mem_free(mem, tok->flags, tok->vocab.size);
    fv_mem_free(mem, tok->normalizers, tok->normalizer_room * sizeof *tok->normalizers);
    fv_mem_free(mem, tok->pre_tokenizers, tok->pre_tokenizer_room * sizeof *tok->pre_tokenizers);
    fv_mem_free(mem, tok->decoders, tok->decoder_room * sizeof *tok->decoders);
    fv_mem_free(mem, tok->model.merges, tok->model.merge_slots * sizeof *tok->model.merges);
    fv_trie_free(tok->ctx, &tok->trie);
    fv_trie_free(tok->ctx, &tok->model.pieces);
    fv_vocab_free(&tok->vocab);
    fv_arena_free(&tok->arena);
    fv_mem_free(mem, tok, sizeof *tok);
    *tokenizer = NULL;
}

/* ---- vocabulary ------------------------------------------------------------------ */

size_t fv_tokenizer_vocab_size(const fv_tokenizer *tok)
{
    return fv_token_model_is_marian(&tok->model) ? (size_t)tok->model.visible_ids : tok->vocab.size;
}

int64_t fv_tokenizer_token_to_id(const fv_tokenizer *tok, const char *token, size_t bytes)
{
    const int32_t id = fv_vocab_find(&tok->vocab, token, bytes);
    return id < tok->model.visible_ids ? id : -1;
}

fv_string fv_tokenizer_id_to_token(const fv_tokenizer *tok, int64_t id)
{
    if (id < 0 || (size_t)id >= fv_tokenizer_vocab_size(tok)) return (fv_string){0};
    return tok->vocab.tokens[id];
}

static bool has_flag(const fv_tokenizer *tok, int64_t id, fv_token_flag flag)
{
    /* While the file is being read there are no flags yet, and no added tokens. */
    return tok->flags && id >= 0 && (size_t)id < tok->vocab.size && (tok->flags[id] & flag);
}

bool fv_tokenizer_is_special(const fv_tokenizer *tok, int64_t id)
{
    return has_flag(tok, id, FV_TOKEN_SPECIAL);
}

fv_string fv_token_spelling(const fv_tokenizer *tok, int64_t id)
{
    if (has_flag(tok, id, FV_TOKEN_NORMALIZED)) return tok->added[tok->added_by_id[id]].content;
    return fv_tokenizer_id_to_token(tok, id);
}

int32_t fv_token_model_find(const fv_tokenizer *tok, const char *text, size_t bytes)
{
    int32_t id = fv_vocab_find(&tok->vocab, text, bytes);
    return has_flag(tok, id, FV_TOKEN_ADDED) ? -1 : id;
}

/* ---- added tokens ---------------------------------------------------------------- */

/* In a text that repeats its prefix, an added token costs its length at every byte. */
enum { LONGEST_ADDED = 256 };

static fv_status check_added_length(const fv_tokenizer *tok, size_t bytes)
{
    FV_RETURN_IF(bytes > LONGEST_ADDED, tok->ctx, FV_ERR_LIMIT,
                 "%.200s: an added token has %zu bytes, the limit is %d", tok->name, bytes,
                 LONGEST_ADDED);
    return FV_OK;
}

/* Normalizes the content of an added token. */
static fv_status normalize_content(fv_tokenizer *tok, fv_text_budget *budget, fv_added *added)
{
    if (!added->normalized || tok->normalizer_count == 0)
        return check_added_length(tok, added->content.bytes);
    fv_codepoints r;
    fv_text out = {0};
    fv_codepoints_init(&r, tok->ctx);
    r.budget = budget;
    fv_status s = fv_codepoints_decode(&r, added->content.text, added->content.bytes);
    if (s == FV_OK) s = fv_normalizers_apply(tok, &r);
    if (s == FV_OK) s = fv_codepoints_encode(&r, &out);
    if (s == FV_OK) s = check_added_length(tok, out.bytes);
    if (s == FV_OK) {
        char *copy = fv_arena_text(&tok->arena, out.data, out.bytes);
        added->content = (fv_string){copy, out.bytes};
        if (!copy) s = fv_fail(tok->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    }
    fv_text_free(tok->ctx, &out);
    fv_codepoints_free(&r);
    return s;
}

static fv_status read_added(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v,
                            fv_text_budget *budget, fv_added *out)
{
    int64_t id = 0;
    char quoted[FV_QUOTED_BYTES];
    FV_TRY(fv_doc_kind(doc, v, FV_VALUE_OBJECT));
    FV_TRY(fv_doc_get_int(doc, v, "id", true, 0, INT32_MAX, &id));
    FV_TRY(fv_read_string(tok, doc, v, "content", true, &out->content));
    FV_TRY(fv_read_bool(doc, v, "single_word", &out->single_word));
    FV_TRY(fv_read_bool(doc, v, "lstrip", &out->lstrip));
    FV_TRY(fv_read_bool(doc, v, "rstrip", &out->rstrip));
    FV_TRY(fv_read_bool(doc, v, "special", &out->special));
    out->normalized = !out->special;
    FV_TRY(fv_read_bool(doc, v, "normalized", &out->normalized));
    out->id = fv_vocab_find(&tok->vocab, out->content.text, out->content.bytes);
    if (out->id < 0) {
        if ((size_t)id < tok->vocab.size && tok->vocab.tokens[id].text)
            return fv_doc_fail(doc, v, FV_ERR_FORMAT, "id %lld of \"%s\" belongs to another token",
                               (long long)id,
                               fv_quote(out->content.text, out->content.bytes, quoted));
        FV_TRY(fv_vocab_put(&tok->vocab, out->content.text, out->content.bytes, id));
        out->id = (int32_t)id;
    }
    FV_TRY(normalize_content(tok, budget, out));
    if (out->content.bytes)
        tok->added_first[(unsigned char)out->content.text[0]] |= out->normalized ? 2 : 1;
    return FV_OK;
}

/* Finds added tokens by id; of several with one id, the first counts. */
static fv_status index_ids(fv_tokenizer *tok)
{
    bool needed = false;
    for (size_t i = 0; i < tok->added_count; i++)
        needed = needed || tok->added[i].normalized;
    if (!needed) return FV_OK;
    tok->added_by_id = fv_arena_array(&tok->arena, tok->vocab.size, sizeof *tok->added_by_id);
    FV_RETURN_IF(!tok->added_by_id, tok->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    for (size_t i = tok->added_count; i > 0; i--)
        tok->added_by_id[tok->added[i - 1].id] = (uint32_t)(i - 1);
    return FV_OK;
}

static fv_status read_all_added(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    const size_t model_size = tok->vocab.size;
    uint8_t *known = NULL; /* by id: whether it belongs to the model */
    if (v && v->kind != FV_VALUE_NULL) {
        FV_TRY(fv_doc_kind(doc, v, FV_VALUE_ARRAY));
        tok->added = fv_arena_array(&tok->arena, (size_t)v->count + 1, sizeof *tok->added);
        known = fv_mem_zalloc(&tok->ctx->mem, model_size);
        FV_RETURN_IF(!tok->added || !known, tok->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
        for (size_t i = 0; i < model_size; i++)
            known[i] = tok->vocab.tokens[i].text != NULL;
    }
    /* One budget for all added tokens of the file; each may make what a short text may. */
    fv_text_budget budget;
    fv_text_budget_begin(&budget, tok->ctx, tok->name, tok->text_bytes);
    budget.max_made = FV_TEXT_BUDGET_FREE;
    fv_status s = FV_OK;
    for (uint32_t i = 0; v && i < v->count && s == FV_OK; i++) {
        tok->added[i] = (fv_added){.id = -1};
        s = read_added(tok, doc, &v->as.items[i], &budget, &tok->added[i]);
        if (s == FV_OK) tok->added_count++;
    }
    if (s == FV_OK) {
        tok->flags = fv_mem_zalloc(&tok->ctx->mem, tok->vocab.size);
        if (!tok->flags) s = fv_fail(tok->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    }
    if (s == FV_OK) s = index_ids(tok);
    for (size_t i = 0; i < tok->added_count && s == FV_OK; i++) {
        const fv_added *a = &tok->added[i];
        if (a->special) tok->flags[a->id] |= FV_TOKEN_SPECIAL;
        if (a->normalized) tok->flags[a->id] |= FV_TOKEN_NORMALIZED;
        if ((size_t)a->id >= model_size || !known[a->id]) tok->flags[a->id] |= FV_TOKEN_ADDED;
    }
    fv_mem_free(&tok->ctx->mem, known, model_size);
    return s == FV_OK ? fv_added_index(tok) : s;
}

/* SentencePiece: control pieces are not matched in text, and user-defined ones are left to the
 * model. */
static fv_status mark_kinds(fv_tokenizer *tok)
{
    tok->flags = fv_mem_zalloc(&tok->ctx->mem, tok->vocab.size);
    FV_RETURN_IF(!tok->flags, tok->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    for (size_t i = 0; i < tok->vocab.size; i++) {
        const uint8_t kind = tok->model.kinds[i];
        if (kind == FV_PIECE_UNKNOWN || kind == FV_PIECE_CONTROL) tok->flags[i] = FV_TOKEN_SPECIAL;
    }
    return fv_added_index(tok);
}

/* Marian: special tokens are matched in text, and must belong to the vocabulary. */
static fv_status read_marian(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    const size_t size = tok->vocab.size;
    FV_TRY(read_all_added(tok, doc, v));
    bool known = tok->vocab.size == size;
    for (size_t i = 0; i < tok->added_count && known; i++)
        known = tok->added[i].id < tok->model.visible_ids;
    return known ? FV_OK
                 : fv_doc_fail(doc, v, FV_ERR_FORMAT, "an added token is not in the vocabulary");
}

/* ---- parsing --------------------------------------------------------------------- */

static fv_status read_document(fv_tokenizer *tok, const fv_doc *doc)
{
    const fv_value *root = &doc->root, *model = NULL;
    FV_TRY(fv_doc_kind(doc, root, FV_VALUE_OBJECT));
    FV_TRY(fv_doc_get(doc, root, "model", FV_VALUE_OBJECT, &model));
    FV_TRY(fv_read_normalizer(tok, doc, fv_value_get(root, "normalizer")));
    FV_TRY(fv_read_pre_tokenizer(tok, doc, fv_value_get(root, "pre_tokenizer")));
    FV_TRY(fv_read_model(tok, doc, model));
    FV_TRY(fv_read_post_processor(tok, doc, fv_value_get(root, "post_processor")));
    FV_TRY(fv_read_decoder(tok, doc, fv_value_get(root, "decoder")));
    const fv_value *added = fv_value_get(root, "added_tokens");
    if (fv_token_model_is_marian(&tok->model)) return read_marian(tok, doc, added);
    return tok->model.kinds ? mark_kinds(tok) : read_all_added(tok, doc, added);
}

static fv_status parse_model(fv_ctx *ctx, const char *name, const char *data, size_t bytes,
                             fv_tokenizer **out)
{
    fv_sentencepiece sp;
    FV_TRY(fv_sentencepiece_read(ctx, name, data, bytes, &sp));
    fv_status s = fv_sentencepiece_build(ctx, name, &sp, out);
    fv_sentencepiece_free(ctx, &sp);
    return s;
}

/* SentencePiece models begin with the tag of a piece, 0x0A, which is a newline in JSON. */
static bool is_model(const char *data, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && (data[i] == '\n' || data[i] == ' ' || data[i] == '\t' || data[i] == '\r'))
        i++;
    return i > 0 && i < bytes && data[0] == '\n' && data[i] != '{';
}

fv_status fv_tokenizer_parse(fv_ctx *ctx, const char *name, const char *text, size_t bytes,
                             fv_tokenizer **out)
{
    if (is_model(text, bytes)) return parse_model(ctx, name, text, bytes, out);
    fv_doc *doc = NULL;
    FV_TRY(fv_json_parse(ctx, name, text, bytes, &doc));
    fv_tokenizer *tok = fv_mem_zalloc(&ctx->mem, sizeof *tok);
    fv_status s = FV_OK;
    if (tok) {
        tok->ctx = ctx;
        fv_arena_init(&tok->arena, &ctx->mem);
        fv_vocab_init(&tok->vocab, ctx);
        tok->name = fv_arena_text(&tok->arena, name, strlen(name));
        tok->text = fv_mem_alloc(&ctx->mem, bytes);
        tok->text_bytes = bytes;
    }
    if (!tok || !tok->name || !tok->text) {
        s = fv_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", name);
    } else {
        memcpy(tok->text, text, bytes);
        s = read_document(tok, doc);
    }
    fv_doc_free(&doc);
    if (s == FV_OK)
        *out = tok;
    else
        fv_tokenizer_destroy(&tok);
    return s;
}
