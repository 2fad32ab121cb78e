/* Reads the model of a tokenizer.json: vocabulary and merges. */
#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "io/utf8.h"
#include "text/hash.h"
#include "text/tokenizer_pipeline.h"

/* ---- vocabulary ------------------------------------------------------------------ */

fv_status fv_read_token(fv_tokenizer *tok, const fv_doc *doc, const fv_value *where,
                        const char *text, size_t bytes, int64_t id)
{
    return fv_read_fail(doc, where, fv_vocab_put(&tok->vocab, text, bytes, id));
}

static fv_status read_vocab(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    const fv_value *vocab = NULL;
    FV_TRY(fv_doc_get(doc, v, "vocab", FV_VALUE_OBJECT, &vocab));
    if (vocab->count > tok->ctx->limits.vocabulary)
        return fv_doc_fail(doc, vocab, FV_ERR_LIMIT,
                           "the vocabulary has %u tokens, the limit is %llu", vocab->count,
                           (unsigned long long)tok->ctx->limits.vocabulary);
    for (uint32_t i = 0; i < vocab->count; i++) {
        const fv_member *m = &vocab->as.members[i];
        int64_t id = 0;
        FV_TRY(fv_doc_int(doc, &m->value, 0, INT32_MAX, &id));
        FV_TRY(fv_read_token(tok, doc, &m->value, m->key, m->key_bytes, id));
    }
    return FV_OK;
}

static fv_status read_unknown(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    fv_string unk = {0};
    FV_TRY(fv_read_string(tok, doc, v, "unk_token", false, &unk));
    tok->model.unk = unk.text ? fv_vocab_find(&tok->vocab, unk.text, unk.bytes) : -1;
    return FV_OK;
}

/* ---- merges ---------------------------------------------------------------------- */

/* "a b", or ["a", "b"]. */
static fv_status read_pair(const fv_doc *doc, const fv_value *v, fv_string out[2])
{
    if (v->kind == FV_VALUE_ARRAY) {
        if (v->count != 2) return fv_doc_fail(doc, v, FV_ERR_FORMAT, "expected two tokens");
        for (int i = 0; i < 2; i++) {
            FV_TRY(fv_doc_kind(doc, &v->as.items[i], FV_VALUE_STRING));
            out[i] = (fv_string){v->as.items[i].as.text, v->as.items[i].count};
        }
        return FV_OK;
    }
    FV_TRY(fv_doc_kind(doc, v, FV_VALUE_STRING));
    const char *blank = memchr(v->as.text, ' ', v->count);
    if (!blank || memchr(blank + 1, ' ', v->count - (size_t)(blank + 1 - v->as.text)))
        return fv_doc_fail(doc, v, FV_ERR_FORMAT, "expected two tokens separated by one blank");
    out[0] = (fv_string){v->as.text, (size_t)(blank - v->as.text)};
    out[1] = (fv_string){blank + 1, v->count - out[0].bytes - 1};
    return FV_OK;
}

static fv_status find_token(const fv_tokenizer *tok, const fv_doc *doc, const fv_value *where,
                            fv_string token, int32_t *id)
{
    char quoted[FV_QUOTED_BYTES];
    *id = fv_vocab_find(&tok->vocab, token.text, token.bytes);
    if (*id >= 0) return FV_OK;
    return fv_doc_fail(doc, where, FV_ERR_FORMAT, "a merge has \"%s\", which is not a token",
                       fv_quote(token.text, token.bytes, quoted));
}

static fv_status read_merge(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v, uint32_t rank,
                            fv_text *joined)
{
    fv_token_model *model = &tok->model;
    fv_string pair[2] = {{0}};
    int32_t first, second, id;
    FV_TRY(read_pair(doc, v, pair));
    FV_TRY(find_token(tok, doc, v, pair[0], &first));
    FV_TRY(find_token(tok, doc, v, pair[1], &second));
    /* The continuation prefix of the second token is dropped. */
    size_t skip = 0;
    if (model->prefix.bytes && pair[1].bytes >= model->prefix.bytes &&
        memcmp(pair[1].text, model->prefix.text, model->prefix.bytes) == 0)
        skip = model->prefix.bytes;
    joined->bytes = 0;
    FV_TRY(fv_text_append(tok->ctx, joined, pair[0].text, pair[0].bytes));
    FV_TRY(fv_text_append(tok->ctx, joined, pair[1].text + skip, pair[1].bytes - skip));
    FV_TRY(find_token(tok, doc, v, (fv_string){joined->data, joined->bytes}, &id));
    const uint64_t key = ((uint64_t)(uint32_t)first << 32 | (uint32_t)second) + 1;
    size_t slot = (size_t)fv_hash_u64(key) & (model->merge_slots - 1);
    while (model->merges[slot].key && model->merges[slot].key != key)
        slot = (slot + 1) & (model->merge_slots - 1);
    /* For a duplicate pair, the last entry counts. */
    model->merges[slot] = (fv_merge){.key = key, .rank = rank, .id = id};
    return FV_OK;
}

static fv_status read_merges(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    fv_token_model *model = &tok->model;
    const fv_value *merges = NULL;
    FV_TRY(fv_doc_get(doc, v, "merges", FV_VALUE_ARRAY, &merges));
    size_t slots = 16, bytes;
    while (slots < (size_t)merges->count * 2)
        slots *= 2;
    FV_RETURN_IF(!fv_checked_mul_size(slots, sizeof *model->merges, &bytes), tok->ctx,
                 FV_ERR_MEMORY, "tokenizer: out of memory");
    model->merges = fv_mem_zalloc(&tok->ctx->mem, bytes);
    FV_RETURN_IF(!model->merges, tok->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    model->merge_slots = slots;
    fv_text joined = {0};
    fv_status s = FV_OK;
    for (uint32_t i = 0; i < merges->count && s == FV_OK; i++)
        s = read_merge(tok, doc, &merges->as.items[i], i, &joined);
    fv_text_free(tok->ctx, &joined);
    return s;
}

/* ---- models ---------------------------------------------------------------------- */

static void find_bytes(fv_tokenizer *tok)
{
    for (unsigned b = 0; b < 256; b++) {
        char letter[8];
        size_t n = fv_utf8_put(fv_gpt2_byte_to_codepoint(b), letter);
        tok->model.byte_ids[b] = fv_vocab_find(&tok->vocab, letter, n);
        int m = snprintf(letter, sizeof letter, "<0x%02X>", b);
        tok->model.fallback_ids[b] = fv_vocab_find(&tok->vocab, letter, m > 0 ? (size_t)m : 0);
    }
}

static fv_status read_bpe(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    fv_token_model *model = &tok->model;
    const fv_value *dropout = fv_value_get(v, "dropout");
    double rate = 0;
    if (dropout && dropout->kind != FV_VALUE_NULL) FV_TRY(fv_doc_real(doc, dropout, &rate));
    if (rate != 0)
        return fv_doc_fail(doc, dropout, FV_ERR_UNSUPPORTED, "BPE dropout is not supported");
    FV_TRY(fv_read_string(tok, doc, v, "continuing_subword_prefix", false, &model->prefix));
    FV_TRY(fv_read_string(tok, doc, v, "end_of_word_suffix", false, &model->suffix));
    FV_TRY(fv_read_bool(doc, v, "fuse_unk", &model->fuse_unk));
    FV_TRY(fv_read_bool(doc, v, "byte_fallback", &model->byte_fallback));
    FV_TRY(fv_read_bool(doc, v, "ignore_merges", &model->ignore_merges));
    const fv_value *sentencepiece = fv_value_get(v, "sentencepiece");
    return sentencepiece ? fv_read_sentencepiece(tok, doc, sentencepiece)
                         : read_merges(tok, doc, v);
}

static fv_status read_word_piece(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    int64_t max_chars = 100;
    tok->model.prefix = (fv_string){"##", 2};
    FV_TRY(fv_read_string(tok, doc, v, "continuing_subword_prefix", false, &tok->model.prefix));
    FV_TRY(fv_doc_get_int(doc, v, "max_input_chars_per_word", false, 0, 100000, &max_chars));
    tok->model.max_chars = (size_t)max_chars;
    return FV_OK;
}

/* Early files have no "type"; BPE is recognised by its merges. */
static fv_status read_kind(const fv_doc *doc, const fv_value *v, int *kind)
{
    static const char *const names[] = {"BPE", "WordLevel", "WordPiece", "Unigram", NULL};
    FV_TRY(fv_doc_kind(doc, v, FV_VALUE_OBJECT));
    if (fv_value_get(v, "type")) return fv_read_type(doc, v, "model", names, kind);
    *kind = fv_value_get(v, "merges")                      ? FV_TOKEN_MODEL_BPE
            : fv_value_get(v, "unk_id")                    ? FV_TOKEN_MODEL_UNIGRAM
            : fv_value_get(v, "continuing_subword_prefix") ? FV_TOKEN_MODEL_WORD_PIECE
                                                           : FV_TOKEN_MODEL_WORD_LEVEL;
    return FV_OK;
}

fv_status fv_read_model(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    int kind = 0;
    FV_TRY(read_kind(doc, v, &kind));
    tok->model.kind = (fv_token_model_kind)kind;
    tok->model.visible_ids = INT32_MAX;
    tok->model.prefix = tok->model.suffix = (fv_string){"", 0};
    if (tok->byte_level && kind != FV_TOKEN_MODEL_BPE)
        return fv_doc_fail(doc, v, FV_ERR_UNSUPPORTED,
                           "ByteLevel is only supported with a BPE model");
    if (kind == FV_TOKEN_MODEL_UNIGRAM) {
        FV_TRY(fv_read_unigram(tok, doc, v));
    } else {
        FV_TRY(read_vocab(tok, doc, v));
        FV_TRY(read_unknown(tok, doc, v));
    }
    find_bytes(tok);
    for (size_t i = 0; i < tok->vocab.size; i++)
        if (tok->vocab.tokens[i].bytes > tok->model.longest)
            tok->model.longest = tok->vocab.tokens[i].bytes;
    if (kind == FV_TOKEN_MODEL_BPE) return read_bpe(tok, doc, v);
    return kind == FV_TOKEN_MODEL_WORD_PIECE ? read_word_piece(tok, doc, v) : FV_OK;
}
