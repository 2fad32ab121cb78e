/*
 * Byte pair encoding of one piece: applies the merge with the lowest rank, the leftmost on ties,
 * until none is left.
 */
#include <string.h>

#include "io/utf8.h"
#include "text/hash.h"
#include "text/tokenizer_encoder.h"

enum { NO_RANK = UINT32_MAX };

/* ---- merges ---------------------------------------------------------------------- */

/* Looks the pair up in the list of merges. */
static void find_merge(const fv_token_model *model, fv_bpe_symbol *first,
                       const fv_bpe_symbol *second)
{
    const uint64_t key = ((uint64_t)(uint32_t)first->id << 32 | (uint32_t)second->id) + 1;
    size_t slot = (size_t)fv_hash_u64(key) & (model->merge_slots - 1);
    first->rank = NO_RANK;
    for (; model->merges[slot].key; slot = (slot + 1) & (model->merge_slots - 1)) {
        if (model->merges[slot].key != key) continue;
        first->rank = model->merges[slot].rank;
        first->merged_id = model->merges[slot].id;
        return;
    }
}

/* As in SentencePiece: two symbols merge if their concatenation is a piece. User-defined pieces
 * never merge. */
static void find_merged_piece(fv_tokenizer_encoder *enc, fv_bpe_symbol *first,
                              const fv_bpe_symbol *second)
{
    const fv_token_model *model = &enc->tok->model;
    const size_t bytes = second->end - first->begin;
    first->rank = NO_RANK;
    if (bytes > model->longest) return;
    if (first->id >= 0 && model->kinds[first->id] == FV_PIECE_USER) return;
    if (second->id >= 0 && model->kinds[second->id] == FV_PIECE_USER) return;
    fv_text_budget_spend(&enc->pretokenized.budget, 1 + bytes / 8);
    first->merged_id = fv_vocab_find(&enc->tok->vocab, enc->text + first->begin, bytes);
    if (first->merged_id >= 0) first->rank = model->ranks[first->merged_id];
}

static void rank_pair(fv_tokenizer_encoder *enc, fv_bpe_symbol *first, const fv_bpe_symbol *second)
{
    if (enc->tok->model.ranks)
        find_merged_piece(enc, first, second);
    else
        find_merge(&enc->tok->model, first, second);
}

/* ---- initial symbols ------------------------------------------------------------- */

static fv_status push_symbol(fv_tokenizer_encoder *enc, int32_t id, size_t begin, size_t end)
{
    if (enc->symbol_count == enc->symbol_room) {
        fv_bpe_symbol *symbols = fv_mem_grow(&enc->ctx->mem, enc->symbols, &enc->symbol_room,
                                             enc->symbol_count + 1, sizeof *symbols);
        FV_RETURN_IF(!symbols, enc->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
        enc->symbols = symbols;
    }
    enc->symbols[enc->symbol_count++] =
        (fv_bpe_symbol){.id = id, .begin = (uint32_t)begin, .end = (uint32_t)end};
    return FV_OK;
}

static fv_status init_from_bytes(fv_tokenizer_encoder *enc, const char *text, size_t bytes)
{
    const fv_token_model *model = &enc->tok->model;
    for (size_t i = 0; i < bytes; i++) {
        int32_t id = model->byte_ids[(unsigned char)text[i]];
        if (id < 0) id = model->unk;
        if (id >= 0) FV_TRY(push_symbol(enc, id, i, i + 1));
    }
    return FV_OK;
}

/* The token of one character, with the prefix or suffix for its position in the word. */
static fv_status find_char(fv_tokenizer_encoder *enc, const char *text, size_t at, size_t length,
                           bool last, int32_t *id)
{
    const fv_token_model *model = &enc->tok->model;
    fv_text *s = &enc->scratch;
    if (model->prefix.bytes == 0 && model->suffix.bytes == 0) {
        *id = fv_token_model_find(enc->tok, text + at, length);
        return FV_OK;
    }
    s->bytes = 0;
    if (at > 0) FV_TRY(fv_text_append(enc->ctx, s, model->prefix.text, model->prefix.bytes));
    FV_TRY(fv_text_append(enc->ctx, s, text + at, length));
    if (last) FV_TRY(fv_text_append(enc->ctx, s, model->suffix.text, model->suffix.bytes));
    FV_TRY(fv_encoder_spend(enc, 1 + s->bytes / 8));
    *id = fv_token_model_find(enc->tok, s->data, s->bytes);
    return FV_OK;
}

/* Replaces a character without a token by its bytes, if each has a token. */
static fv_status fall_back(fv_tokenizer_encoder *enc, const char *text, size_t at, size_t length,
                           bool *done)
{
    const fv_token_model *model = &enc->tok->model;
    *done = model->byte_fallback;
    for (size_t k = 0; k < length && *done; k++)
        *done = model->fallback_ids[(unsigned char)text[at + k]] >= 0;
    for (size_t k = 0; k < length && *done; k++)
        FV_TRY(
            push_symbol(enc, model->fallback_ids[(unsigned char)text[at + k]], at + k, at + k + 1));
    return FV_OK;
}

static fv_status init_from_chars(fv_tokenizer_encoder *enc, const char *text, size_t bytes)
{
    const fv_token_model *model = &enc->tok->model;
    bool after_unknown = false;
    for (size_t i = 0; i < bytes;) {
        size_t length = fv_lead_length(text[i]);
        int32_t id = -1;
        bool done = false;
        FV_TRY(find_char(enc, text, i, length, i + length == bytes, &id));
        if (id < 0) FV_TRY(fall_back(enc, text, i, length, &done));
        if (id >= 0) {
            FV_TRY(push_symbol(enc, id, i, i + length));
        } else if (!done && model->unk >= 0) {
            if (model->fuse_unk && after_unknown)
                enc->symbols[enc->symbol_count - 1].end = (uint32_t)(i + length);
            else
                FV_TRY(push_symbol(enc, model->unk, i, i + length));
        }
        after_unknown = id < 0 && !done && model->unk >= 0;
        i += length;
    }
    return FV_OK;
}

size_t fv_token_model_user_piece(const fv_token_model *model, const char *text, size_t bytes,
                                 int32_t *id, size_t *steps)
{
    size_t longest = 0;
    uint32_t node = FV_ROOT_USER;
    size_t i = 0;
    for (; i < bytes && (node = fv_trie_step(&model->pieces, node, text[i])); i++)
        if (model->pieces.values[node] >= 0) {
            *id = model->pieces.values[node];
            longest = i + 1;
        }
    *steps += 4 * i; /* a step in the trie may miss the cache */
    return longest;
}

/* SentencePiece: user-defined pieces and characters; -1 for characters that are not a piece. */
static fv_status init_from_pieces(fv_tokenizer_encoder *enc, const char *text, size_t bytes)
{
    const fv_token_model *model = &enc->tok->model;
    for (size_t i = 0, length; i < bytes; i += length) {
        int32_t id = -1;
        size_t steps = 0;
        length = model->has_user
                     ? fv_token_model_user_piece(model, text + i, bytes - i, &id, &steps)
                     : 0;
        FV_TRY(fv_encoder_spend(enc, steps));
        if (length == 0) {
            length = fv_lead_length(text[i]);
            id = fv_vocab_find(&enc->tok->vocab, text + i, length);
            if (id >= 0 && model->kinds[id] != FV_PIECE_NORMAL) id = -1;
        }
        FV_TRY(push_symbol(enc, id, i, i + length));
    }
    return FV_OK;
}

/* ---- merging short words --------------------------------------------------------- */

static void merge_short(fv_tokenizer_encoder *enc)
{
    fv_bpe_symbol *s = enc->symbols;
    size_t n = enc->symbol_count;
    for (size_t i = 0; i + 1 < n; i++)
        rank_pair(enc, &s[i], &s[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (s[i].rank < s[best].rank) best = i;
        if (s[best].rank == NO_RANK) break;
        s[best].id = s[best].merged_id;
        s[best].end = s[best + 1].end;
        n--;
        memmove(s + best + 1, s + best + 2, (n - best - 1) * sizeof *s);
        if (best + 1 < n) rank_pair(enc, &s[best], &s[best + 1]);
        if (best > 0) rank_pair(enc, &s[best - 1], &s[best]);
    }
    enc->symbol_count = n;
}

/* ---- merging long words ---------------------------------------------------------- */

static bool comes_before(fv_bpe_candidate a, fv_bpe_candidate b)
{
    return a.rank < b.rank || (a.rank == b.rank && a.at < b.at);
}

static fv_status heap_push(fv_tokenizer_encoder *enc, fv_bpe_candidate c)
{
    if (enc->heap_count == enc->heap_room) {
        fv_bpe_candidate *heap = fv_mem_grow(&enc->ctx->mem, enc->heap, &enc->heap_room,
                                             enc->heap_count + 1, sizeof *heap);
        FV_RETURN_IF(!heap, enc->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
        enc->heap = heap;
    }
    size_t i = enc->heap_count++;
    for (; i > 0 && comes_before(c, enc->heap[(i - 1) / 2]); i = (i - 1) / 2)
        enc->heap[i] = enc->heap[(i - 1) / 2];
    enc->heap[i] = c;
    return FV_OK;
}

static fv_bpe_candidate heap_pop(fv_tokenizer_encoder *enc)
{
    fv_bpe_candidate top = enc->heap[0], last = enc->heap[--enc->heap_count];
    size_t i = 0, n = enc->heap_count;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && comes_before(enc->heap[child + 1], enc->heap[child])) child++;
        if (!comes_before(enc->heap[child], last)) break;
        enc->heap[i] = enc->heap[child];
        i = child;
    }
    enc->heap[i] = last;
    return top;
}

/* Pushes the pair that begins with symbol `at` if it has a merge. */
static fv_status push_pair(fv_tokenizer_encoder *enc, int32_t at)
{
    fv_bpe_symbol *s = enc->symbols;
    if (at < 0 || s[at].next < 0) return FV_OK;
    rank_pair(enc, &s[at], &s[s[at].next]);
    FV_TRY(fv_encoder_spend(enc, 1));
    if (s[at].rank == NO_RANK) return FV_OK;
    return heap_push(enc, (fv_bpe_candidate){s[at].rank, at});
}

static fv_status merge_long(fv_tokenizer_encoder *enc)
{
    fv_bpe_symbol *s = enc->symbols;
    const size_t n = enc->symbol_count;
    enc->heap_count = 0;
    for (size_t i = 0; i < n; i++) {
        s[i].prev = (int32_t)i - 1;
        s[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
        s[i].rank = NO_RANK;
    }
    for (size_t i = 0; i < n; i++)
        FV_TRY(push_pair(enc, (int32_t)i));
    while (enc->heap_count) {
        fv_bpe_candidate c = heap_pop(enc);
        fv_bpe_symbol *left = &s[c.at];
        /* Outdated: the symbol or its successor has been merged since. */
        if (left->rank != c.rank) continue;
        fv_bpe_symbol *right = &s[left->next];
        left->id = left->merged_id;
        left->end = right->end;
        right->rank = NO_RANK;
        left->next = right->next;
        if (right->next >= 0) s[right->next].prev = c.at;
        left->rank = NO_RANK;
        FV_TRY(push_pair(enc, c.at));
        FV_TRY(push_pair(enc, left->prev));
    }
    size_t used = 0;
    for (int32_t i = 0; i >= 0; i = s[i].next)
        s[used++] = s[i];
    enc->symbol_count = used;
    return FV_OK;
}

/* ---- entry point ----------------------------------------------------------------- */

/* With "ignore_merges", a piece that is itself a token is not split. */
static fv_status whole_piece(fv_tokenizer_encoder *enc, const char *text, size_t bytes, int32_t *id)
{
    const fv_tokenizer *tok = enc->tok;
    if (!tok->byte_level) {
        *id = fv_token_model_find(tok, text, bytes);
        return FV_OK;
    }
    fv_text *s = &enc->scratch;
    FV_TRY(fv_text_reserve(enc->ctx, s, 2 * bytes));
    s->bytes = 0;
    for (size_t i = 0; i < bytes; i++)
        s->bytes +=
            fv_utf8_put(fv_gpt2_byte_to_codepoint((unsigned char)text[i]), s->data + s->bytes);
    *id = fv_token_model_find(tok, s->data, s->bytes);
    return FV_OK;
}

static fv_status emit_symbols(fv_tokenizer_encoder *enc)
{
    const fv_bpe_symbol *s = enc->symbols;
    const bool fused = fv_token_model_fuses_unknown(&enc->tok->model);
    for (size_t i = 0; i < enc->symbol_count; i++) {
        const uint32_t begin = s[i].begin;
        if (s[i].id >= 0) {
            FV_TRY(fv_encoder_add_token(enc, s[i].id, begin, s[i].end));
            continue;
        }
        while (fused && i + 1 < enc->symbol_count && s[i + 1].id < 0)
            i++;
        FV_TRY(fv_encoder_add_unknown(enc, enc->text, begin, s[i].end));
    }
    return FV_OK;
}

fv_status fv_encode_piece_bpe(fv_tokenizer_encoder *enc, const char *text, size_t bytes)
{
    enum { SHORT = 40 };
    enc->symbol_count = 0;
    if (enc->tok->model.ignore_merges) {
        int32_t id = -1;
        FV_TRY(whole_piece(enc, text, bytes, &id));
        if (id >= 0) return fv_encoder_add_token(enc, id, 0, bytes);
    }
    enc->text = text;
    FV_TRY(enc->tok->byte_level    ? init_from_bytes(enc, text, bytes)
           : enc->tok->model.kinds ? init_from_pieces(enc, text, bytes)
                                   : init_from_chars(enc, text, bytes));
    FV_RETURN_IF(enc->symbol_count > INT32_MAX, enc->ctx, FV_ERR_LIMIT,
                 "tokenizer: a piece has more than 2^31 symbols");
    if (enc->symbol_count > SHORT)
        FV_TRY(merge_long(enc));
    else
        merge_short(enc);
    return emit_symbols(enc);
}
