/* Reads Unigram models and the "sentencepiece" members. */
#include <float.h>
#include <math.h>

#include "io/sort.h"
#include "io/utf8.h"
#include "text/tokenizer_pipeline.h"

static fv_status out_of_memory(fv_tokenizer *tok)
{
    return fv_fail(tok->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
}

/* ---- SentencePiece --------------------------------------------------------------- */

/* "kinds": one digit per token. */
static fv_status read_kinds(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    const fv_value *digits = NULL;
    const size_t count = tok->vocab.size;
    FV_TRY(fv_doc_get(doc, v, "kinds", FV_VALUE_STRING, &digits));
    if (digits->count != count)
        return fv_doc_fail(doc, digits, FV_ERR_FORMAT,
                           "\"kinds\" has %u digits, expected %zu, one per token", digits->count,
                           count);
    uint8_t *kinds = fv_arena_array(&tok->arena, count + 1, sizeof *kinds);
    if (!kinds) return out_of_memory(tok);
    for (size_t i = 0; i < count; i++) {
        const int kind = digits->as.text[i] - '0';
        if (kind < FV_PIECE_NORMAL || kind > FV_PIECE_BYTE || !tok->vocab.tokens[i].text)
            return fv_doc_fail(doc, digits, FV_ERR_FORMAT, "invalid kind of token %zu", i);
        kinds[i] = (uint8_t)kind;
        tok->model.has_user = tok->model.has_user || kind == FV_PIECE_USER;
    }
    tok->model.kinds = kinds;
    return FV_OK;
}

/* "marian": how many tokens are visible; the unknown token must be among them. */
static fv_status read_visible_ids(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    int64_t visible_ids = 0;
    FV_TRY(fv_doc_get_int(doc, v, "marian", true, (int64_t)tok->model.unk + 1,
                          (int64_t)tok->vocab.size, &visible_ids));
    tok->model.visible_ids = (int32_t)visible_ids;
    return FV_OK;
}

static int by_score(const void *scores, uint32_t a, uint32_t b)
{
    const double *s = scores;
    return (s[a] < s[b]) - (s[a] > s[b]);
}

/* Tokens of equal score have the same rank; tokens that are not the result of a merge have none. */
static void rank_tokens(const fv_tokenizer *tok, const uint32_t *order, uint32_t *ranks, bool joins)
{
    uint32_t rank = 0;
    for (size_t i = 0; i < tok->vocab.size; i++) {
        const uint32_t id = order[i];
        const uint8_t kind = tok->model.kinds[id];
        if (i > 0 && tok->model.scores[id] != tok->model.scores[order[i - 1]]) rank++;
        ranks[id] = joins && (kind == FV_PIECE_NORMAL || kind == FV_PIECE_USER) ? rank : UINT32_MAX;
    }
}

static fv_status read_score(const fv_doc *doc, const fv_value *v, double *out)
{
    FV_TRY(fv_doc_real(doc, v, out));
    /* Sums of many scores must stay finite. */
    if (!(fabs(*out) <= 1e30)) return fv_doc_fail(doc, v, FV_ERR_FORMAT, "score too large");
    return FV_OK;
}

/* "scores" by id, and "joins": whether pieces are merged at all. */
static fv_status read_ranks(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    const fv_value *items = NULL;
    const size_t count = tok->vocab.size;
    bool joins = true;
    FV_TRY(fv_read_bool(doc, v, "joins", &joins));
    FV_TRY(fv_doc_get(doc, v, "scores", FV_VALUE_ARRAY, &items));
    if (items->count != count)
        return fv_doc_fail(doc, items, FV_ERR_FORMAT,
                           "\"scores\" has %u numbers, expected %zu, one per token", items->count,
                           count);
    double *scores = fv_arena_array(&tok->arena, count + 1, sizeof *scores);
    uint32_t *ranks = fv_arena_array(&tok->arena, 3 * count + 1, sizeof *ranks);
    if (!scores || !ranks) return out_of_memory(tok);
    for (uint32_t i = 0; i < count; i++)
        FV_TRY(read_score(doc, &items->as.items[i], &scores[i]));
    tok->model.scores = scores;
    tok->model.ranks = ranks;
    fv_argsort(scores, count, by_score, ranks + count, ranks + 2 * count);
    rank_tokens(tok, ranks + count, ranks, joins);
    return FV_OK;
}

/* ---- index of tokens ------------------------------------------------------------- */

/* Whether the token can be produced from text. */
static bool is_text(const fv_token_model *model, size_t id)
{
    if (!model->kinds) return true;
    return model->kinds[id] == FV_PIECE_NORMAL || model->kinds[id] == FV_PIECE_USER;
}

static fv_status index_pieces(fv_tokenizer *tok)
{
    fv_token_model *model = &tok->model;
    const bool all = model->kind == FV_TOKEN_MODEL_UNIGRAM;
    size_t letters = 0;
    for (size_t i = 0; i < tok->vocab.size; i++) {
        const size_t bytes = tok->vocab.tokens[i].bytes;
        const bool user = model->kinds && model->kinds[i] == FV_PIECE_USER;
        letters += (all ? bytes : 0) + (user ? bytes : 0);
    }
    FV_TRY(fv_trie_make(tok->ctx, &model->pieces, letters, FV_ROOTS));
    for (size_t i = 0; i < tok->vocab.size; i++) {
        const fv_string token = tok->vocab.tokens[i];
        if (token.bytes == 0 || !is_text(model, i)) continue;
        if (all)
            FV_TRY(fv_trie_add(tok->ctx, &model->pieces, FV_ROOT_PIECES, token.text, token.bytes,
                               (int32_t)i));
        if (model->kinds && model->kinds[i] == FV_PIECE_USER)
            FV_TRY(fv_trie_add(tok->ctx, &model->pieces, FV_ROOT_USER, token.text, token.bytes,
                               (int32_t)i));
    }
    return FV_OK;
}

/* Whether words can be encoded separately: U+2581 is a piece, and occurs only at the start of
 * others. */
static bool marks_begin_pieces(const fv_tokenizer *tok)
{
    static const char mark[] = "\xE2\x96\x81";
    const int32_t alone = fv_vocab_find(&tok->vocab, mark, 3);
    if (alone < 0 || tok->model.kinds[alone] != FV_PIECE_NORMAL) return false;
    for (size_t i = 0; i < tok->vocab.size; i++) {
        const fv_string t = tok->vocab.tokens[i];
        if (is_text(&tok->model, i) && t.bytes > 0 &&
            fv_split_metaspace(t.text, 0, t.bytes) < t.bytes)
            return false;
    }
    return true;
}

fv_status fv_read_sentencepiece(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    FV_TRY(fv_doc_kind(doc, v, FV_VALUE_OBJECT));
    FV_TRY(read_kinds(tok, doc, v));
    if (tok->model.unk < 0)
        return fv_doc_fail(doc, v, FV_ERR_FORMAT, "the model has no unknown token");
    if (fv_value_get(v, "marian")) FV_TRY(read_visible_ids(tok, doc, v));
    if (tok->model.kind == FV_TOKEN_MODEL_UNIGRAM) return FV_OK;
    FV_TRY(read_ranks(tok, doc, v));
    tok->model.marks_begin_pieces = marks_begin_pieces(tok);
    return index_pieces(tok);
}

/* ---- Unigram --------------------------------------------------------------------- */

/* ["piece", score] */
static fv_status read_entry(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v, double *score)
{
    if (v->kind != FV_VALUE_ARRAY || v->count != 2)
        return fv_doc_fail(doc, v, FV_ERR_FORMAT, "expected a token and its score");
    const fv_value *token = &v->as.items[0];
    FV_TRY(fv_doc_kind(doc, token, FV_VALUE_STRING));
    FV_TRY(read_score(doc, &v->as.items[1], score));
    return fv_read_token(tok, doc, token, token->as.text, token->count, (int64_t)tok->vocab.size);
}

/* An unknown character scores less than the worst token. */
static void rate_unknown(fv_tokenizer *tok)
{
    enum { PENALTY = 10 };
    fv_token_model *model = &tok->model;
    double least = model->kinds ? (double)FLT_MAX : INFINITY;
    for (size_t i = 0; i < tok->vocab.size; i++) {
        if (model->kinds && model->kinds[i] != FV_PIECE_NORMAL) continue;
        if (model->scores[i] < least) least = model->scores[i];
    }
    model->unk_score = model->kinds ? (double)((float)least - PENALTY) : least - PENALTY;
}

fv_status fv_read_unigram(fv_tokenizer *tok, const fv_doc *doc, const fv_value *v)
{
    fv_token_model *model = &tok->model;
    const fv_value *vocab = NULL, *unk = fv_value_get(v, "unk_id");
    int64_t id = -1;
    FV_TRY(fv_doc_get(doc, v, "vocab", FV_VALUE_ARRAY, &vocab));
    if (vocab->count > tok->ctx->limits.vocabulary)
        return fv_doc_fail(doc, vocab, FV_ERR_LIMIT,
                           "the vocabulary has %u tokens, the limit is %llu", vocab->count,
                           (unsigned long long)tok->ctx->limits.vocabulary);
    double *scores = fv_arena_array(&tok->arena, (size_t)vocab->count + 1, sizeof *scores);
    if (!scores) return out_of_memory(tok);
    for (uint32_t i = 0; i < vocab->count; i++)
        FV_TRY(read_entry(tok, doc, &vocab->as.items[i], &scores[i]));
    model->scores = scores;
    if (unk && unk->kind != FV_VALUE_NULL)
        FV_TRY(fv_doc_int(doc, unk, 0, (int64_t)vocab->count - 1, &id));
    model->unk = (int32_t)id;
    FV_TRY(fv_read_bool(doc, v, "byte_fallback", &model->byte_fallback));
    if (fv_value_get(v, "sentencepiece"))
        FV_TRY(fv_read_sentencepiece(tok, doc, fv_value_get(v, "sentencepiece")));
    rate_unknown(tok);
    return index_pieces(tok);
}
