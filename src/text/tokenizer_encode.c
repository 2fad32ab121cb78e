#include <string.h>

#include "base/checked_math.h"
#include "base/config.h"
#include "io/utf8.h"
#include "text/hash.h"
#include "text/marian.h"
#include "text/tokenizer_encoder.h"

/* ---- create and destroy------------------------------------------------------------------- */

/* Limits of the word cache, which is cleared when it is full. */
enum {
    CACHE_WORDS = 1 << 15,
    CACHE_SLOTS = 1 << 16,
    CACHE_LETTERS = 1 << 19,
    CACHE_TOKENS = 1 << 17,
    CACHE_LONGEST = 64
};

static bool make_cache(fv_word_cache *c, fv_mem *mem)
{
    c->words = fv_mem_alloc(mem, CACHE_WORDS * sizeof *c->words);
    c->table = fv_mem_zalloc(mem, CACHE_SLOTS * sizeof *c->table);
    c->bytes_pool = fv_mem_alloc(mem, CACHE_LETTERS);
    c->piece_tokens = fv_mem_alloc(mem, CACHE_TOKENS * sizeof *c->piece_tokens);
    return c->words && c->table && c->bytes_pool && c->piece_tokens;
}

fv_status fv_tokenizer_encoder_create(fv_ctx *ctx, const fv_tokenizer *tok,
                                      fv_tokenizer_encoder **out)
{
    fv_tokenizer_encoder *enc = fv_mem_zalloc(&ctx->mem, sizeof *enc);
    FV_RETURN_IF(!enc, ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    enc->ctx = ctx;
    enc->tok = tok;
    fv_pretokenized_init(&enc->pretokenized, ctx);
    if (!make_cache(&enc->cache, &ctx->mem)) {
        fv_tokenizer_encoder_destroy(&enc);
        return fv_fail(ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    }
    *out = enc;
    return FV_OK;
}

enum { TOKEN_BYTES = sizeof(fv_token_span) + sizeof(int64_t) + 3 };

static void free_list(fv_mem *mem, fv_token_list *l)
{
    fv_mem_free(mem, l->spans, l->room * TOKEN_BYTES);
}

void fv_tokenizer_encoder_destroy(fv_tokenizer_encoder **encoder)
{
    fv_tokenizer_encoder *enc = *encoder;
    if (!enc) return;
    fv_mem *mem = &enc->ctx->mem;
    fv_pretokenized_free(&enc->pretokenized);
    fv_mem_free(mem, enc->cache.words, CACHE_WORDS * sizeof *enc->cache.words);
    fv_mem_free(mem, enc->cache.table, CACHE_SLOTS * sizeof *enc->cache.table);
    fv_mem_free(mem, enc->cache.bytes_pool, CACHE_LETTERS);
    fv_mem_free(mem, enc->cache.piece_tokens, CACHE_TOKENS * sizeof *enc->cache.piece_tokens);
    fv_mem_free(mem, enc->piece_tokens, enc->piece_token_room * sizeof *enc->piece_tokens);
    fv_mem_free(mem, enc->symbols, enc->symbol_room * sizeof *enc->symbols);
    fv_mem_free(mem, enc->heap, enc->heap_room * sizeof *enc->heap);
    fv_mem_free(mem, enc->lattice, enc->lattice_room * sizeof *enc->lattice);
    fv_text_free(enc->ctx, &enc->scratch);
    free_list(mem, &enc->plain[0]);
    free_list(mem, &enc->plain[1]);
    free_list(mem, &enc->finished);
    fv_mem_free(mem, enc, sizeof *enc);
    *encoder = NULL;
}

/* ---- lists of tokens ------------------------------------------------------------- */

static fv_status reserve(fv_tokenizer_encoder *enc, fv_token_list *l, size_t more)
{
    enum { LEAST = 64 };
    fv_mem *mem = &enc->ctx->mem;
    size_t need, room, bytes;
    FV_RETURN_IF(!fv_checked_add_size(l->count, more, &need) ||
                     !fv_checked_mul_size(need, 2, &room) ||
                     !fv_checked_mul_size(room + LEAST, TOKEN_BYTES, &bytes),
                 enc->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    if (need <= l->room) return FV_OK;
    fv_token_list new = {.count = l->count, .room = room + LEAST};
    new.spans = fv_mem_alloc(mem, bytes);
    FV_RETURN_IF(!new.spans, enc->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    new.ids = (int64_t *)(void *)(new.spans + new.room);
    new.types = (uint8_t *)(new.ids + new.room);
    new.specials = new.types + new.room;
    new.sequences = new.specials + new.room;
    if (l->count) {
        memcpy(new.spans, l->spans, l->count * sizeof *l->spans);
        memcpy(new.ids, l->ids, l->count * sizeof *l->ids);
        memcpy(new.types, l->types, l->count);
        memcpy(new.specials, l->specials, l->count);
        memcpy(new.sequences, l->sequences, l->count);
    }
    free_list(mem, l);
    *l = new;
    return FV_OK;
}

/* Where a token in a list comes from. */
enum { FROM_MODEL, FROM_TEMPLATE, FROM_TEXT };

static fv_status put_token(fv_tokenizer_encoder *enc, fv_token_list *l, int64_t id,
                           fv_token_span span, uint8_t type, uint8_t source)
{
    if (l->count == l->room) FV_TRY(reserve(enc, l, 1));
    l->ids[l->count] = id;
    l->spans[l->count] = span;
    l->types[l->count] = type;
    l->sequences[l->count] = 0;
    l->specials[l->count++] = source;
    return FV_OK;
}

/* ---- model and cache -------------------------------------------------------------- */

fv_status fv_encoder_add_token(fv_tokenizer_encoder *enc, int32_t id, size_t begin, size_t end)
{
    if (id >= enc->tok->model.visible_ids) id = enc->tok->model.unk;
    if (enc->piece_token_count == enc->piece_token_room) {
        fv_piece_token *piece_tokens =
            fv_mem_grow(&enc->ctx->mem, enc->piece_tokens, &enc->piece_token_room,
                        enc->piece_token_count + 1, sizeof *piece_tokens);
        FV_RETURN_IF(!piece_tokens, enc->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
        enc->piece_tokens = piece_tokens;
    }
    enc->piece_tokens[enc->piece_token_count++] =
        (fv_piece_token){id, (uint32_t)begin, (uint32_t)end};
    return FV_OK;
}

static fv_status run_model(fv_tokenizer_encoder *enc, const char *text, size_t bytes)
{
    enc->piece_token_count = 0;
    switch (enc->tok->model.kind) {
    case FV_TOKEN_MODEL_WORD_LEVEL:
        return fv_encode_piece_word_level(enc, text, bytes);
    case FV_TOKEN_MODEL_WORD_PIECE:
        return fv_encode_piece_wordpiece(enc, text, bytes);
    case FV_TOKEN_MODEL_UNIGRAM:
        return fv_encode_piece_unigram(enc, text, bytes);
    default:
        return fv_encode_piece_bpe(enc, text, bytes);
    }
}

static void remember(fv_tokenizer_encoder *enc, const char *text, size_t bytes, size_t slot)
{
    fv_word_cache *c = &enc->cache;
    if (c->count == CACHE_WORDS || c->pool_bytes + bytes > CACHE_LETTERS ||
        c->piece_token_count + enc->piece_token_count > CACHE_TOKENS) {
        memset(c->table, 0, CACHE_SLOTS * sizeof *c->table);
        c->count = c->pool_bytes = c->piece_token_count = 0;
        return;
    }
    c->words[c->count] =
        (fv_cached_word){(uint32_t)c->pool_bytes, (uint32_t)bytes, (uint32_t)c->piece_token_count,
                         (uint32_t)enc->piece_token_count};
    memcpy(c->bytes_pool + c->pool_bytes, text, bytes);
    if (enc->piece_token_count)
        memcpy(c->piece_tokens + c->piece_token_count, enc->piece_tokens,
               enc->piece_token_count * sizeof *enc->piece_tokens);
    c->pool_bytes += bytes;
    c->piece_token_count += enc->piece_token_count;
    c->table[slot] = (uint32_t)++c->count;
}

/* The tokens of a piece, from the cache or from the model. */
static fv_status tokens_of_piece(fv_tokenizer_encoder *enc, const char *text, size_t bytes,
                                 const fv_piece_token **piece_tokens, size_t *count)
{
    fv_word_cache *c = &enc->cache;
    size_t slot = 0;
    if (bytes <= CACHE_LONGEST) {
        slot = (size_t)fv_hash_bytes(text, bytes) & (CACHE_SLOTS - 1);
        for (; c->table[slot]; slot = (slot + 1) & (CACHE_SLOTS - 1)) {
            const fv_cached_word *word = &c->words[c->table[slot] - 1];
            if (word->bytes != bytes || memcmp(c->bytes_pool + word->at, text, bytes) != 0)
                continue;
            *piece_tokens = c->piece_tokens + word->first_token;
            *count = word->token_count;
            return FV_OK;
        }
    }
    FV_TRY(run_model(enc, text, bytes));
    if (bytes <= CACHE_LONGEST) remember(enc, text, bytes, slot);
    *piece_tokens = enc->piece_tokens;
    *count = enc->piece_token_count;
    return FV_OK;
}

/* ---- text ------------------------------------------------------------------------ */

/* Adds the tokens of one piece, or the added token that it is. */
static fv_status encode_piece(fv_tokenizer_encoder *enc, fv_piece piece, fv_token_list *list)
{
    const fv_pretokenized *w = &enc->pretokenized;
    const fv_piece_token added = {piece.token, 0, piece.end - piece.begin}, *piece_tokens = &added;
    size_t count = 1;
    if (piece.token < 0)
        FV_TRY(tokens_of_piece(enc, w->text + piece.begin, piece.end - piece.begin, &piece_tokens,
                               &count));
    FV_TRY(reserve(enc, list, count));
    const uint8_t source = piece.token < 0 ? FROM_MODEL : FROM_TEXT;
    for (size_t k = 0; k < count; k++)
        FV_TRY(put_token(enc, list, piece_tokens[k].id,
                         fv_pretokenized_span(w, piece.begin + piece_tokens[k].begin,
                                              piece.begin + piece_tokens[k].end),
                         0, source));
    return FV_OK;
}

/* The scanner of a pre-tokenizer whose pieces are exactly the matches. */
static fv_split_scanner plain_scan(const fv_pre_tokenizer *split)
{
    if (split->kind == FV_PRE_TOKENIZER_BYTE_LEVEL)
        return split->regex && !split->prefix_space ? fv_split_gpt2 : NULL;
    const bool kept = split->behavior == FV_SPLIT_ISOLATED ||
                      (split->behavior == FV_SPLIT_REMOVED && split->invert);
    return split->kind == FV_PRE_TOKENIZER_REGEX && kept ? split->scan : NULL;
}

/* By fv_token_model_kind, for messages. */
static const char *const model_names[] = {"model BPE", "model WordLevel", "model WordPiece",
                                          "model Unigram"};

/* If the last pre-tokenizer is such a scanner, each match is encoded directly, without storing the
 * list of pieces. A ByteLevel after it changes nothing. */
static fv_status encode_pieces(fv_tokenizer_encoder *enc, fv_token_list *list)
{
    const fv_tokenizer *tok = enc->tok;
    const fv_pretokenized *w = &enc->pretokenized;
    size_t pre_tokenizers = tok->pre_tokenizer_count;
    while (pre_tokenizers > 0 &&
           tok->pre_tokenizers[pre_tokenizers - 1].kind == FV_PRE_TOKENIZER_BYTE_LEVEL &&
           !tok->pre_tokenizers[pre_tokenizers - 1].regex &&
           !tok->pre_tokenizers[pre_tokenizers - 1].prefix_space)
        pre_tokenizers--;
    fv_split_scanner scan =
        pre_tokenizers > 0 ? plain_scan(&tok->pre_tokenizers[pre_tokenizers - 1]) : NULL;
    if (scan) pre_tokenizers--;
    if (tok->pre_tokenizer_count == 0 && tok->model.marks_begin_pieces) scan = fv_split_metaspace;
    for (size_t i = 0; i < pre_tokenizers; i++)
        FV_TRY(fv_pretokenized_split(&enc->pretokenized, &tok->pre_tokenizers[i]));
    enc->pretokenized.budget.stage = model_names[tok->model.kind];
    for (size_t i = 0; i < w->count; i++) {
        fv_piece piece = w->pieces[i];
        const uint32_t end = piece.end;
        if (!scan || piece.token >= 0) {
            FV_TRY(encode_piece(enc, piece, list));
            continue;
        }
        for (; piece.begin < end; piece.begin = piece.end) {
            piece.end = (uint32_t)scan(w->text, piece.begin, end);
            FV_TRY(encode_piece(enc, piece, list));
        }
    }
    return FV_OK;
}

/* A language token at the beginning of a section is a token even if it is unknown, and not
 * normalized. */
static fv_status encode_language(fv_tokenizer_encoder *enc, const char *text, size_t bytes,
                                 size_t base, fv_token_list *list)
{
    const int64_t id = fv_tokenizer_token_to_id(enc->tok, text, bytes);
    const fv_token_span span = {(uint32_t)base, (uint32_t)(base + bytes)};
    return put_token(enc, list, id >= 0 ? id : enc->tok->model.unk, span, 0, FROM_TEXT);
}

/* Encodes text without raw added tokens; the normalized ones are matched after normalization. */
static fv_status encode_section(fv_tokenizer_encoder *enc, const char *text, size_t bytes,
                                size_t base, fv_token_list *list)
{
    fv_pretokenized *w = &enc->pretokenized;
    fv_added_match m = {.token = NULL};
    const size_t language =
        fv_token_model_is_marian(&enc->tok->model) ? fv_marian_language(text, bytes) : 0;
    if (language > 0) {
        FV_TRY(encode_language(enc, text, language, base, list));
        text += language;
        base += language;
        bytes -= language;
    }
    if (bytes == 0) return FV_OK;
    FV_TRY(fv_pretokenized_begin(w, text, bytes, (uint32_t)base));
    FV_TRY(fv_pretokenized_normalize(w, enc->tok));
    w->next_count = 0;
    for (size_t from = 0; from < w->bytes; from = m.end) {
        w->budget.stage = "added tokens";
        fv_added_find(enc->tok, true, w->text, w->bytes, from, &w->budget, &m);
        FV_TRY(fv_text_budget_check(&w->budget));
        FV_TRY(fv_pretokenized_push(w, from, m.begin, false));
        if (m.token)
            FV_TRY(fv_pretokenized_push_piece(
                w, (fv_piece){(uint32_t)m.begin, (uint32_t)m.end, m.token->id, false}));
    }
    fv_pretokenized_swap(w);
    return encode_pieces(enc, list);
}

static fv_status encode_text(fv_tokenizer_encoder *enc, const char *text, size_t bytes,
                             fv_token_list *list)
{
    FV_RETURN_IF(bytes >= UINT32_MAX, enc->ctx, FV_ERR_LIMIT,
                 "tokenizer: the text has 4 GiB or more");
    FV_RETURN_IF(!fv_utf8_valid(text, bytes), enc->ctx, FV_ERR_FORMAT,
                 "tokenizer: the text is not valid UTF-8");
    list->count = 0;
    /* Estimate one token per four bytes: growing from zero would copy everything once more. */
    FV_TRY(reserve(enc, list, bytes / 8));
    for (size_t from = 0; from < bytes;) {
        fv_added_match m;
        enc->pretokenized.budget.stage = "added tokens";
        fv_added_find(enc->tok, false, text, bytes, from, &enc->pretokenized.budget, &m);
        FV_TRY(fv_text_budget_check(&enc->pretokenized.budget));
        FV_TRY(encode_section(enc, text + from, m.begin - from, from, list));
        if (!m.token) break;
        fv_token_span span = {(uint32_t)m.begin, (uint32_t)m.end};
        FV_TRY(put_token(enc, list, m.token->id, span, 0, FROM_TEXT));
        from = m.end;
    }
    return FV_OK;
}

/* ---- post-processor -------------------------------------------------------------- */

/* The number of leading or trailing blanks of a byte-level token, at most `max`. */
static uint32_t blanks(fv_string token, bool at_end, uint32_t max)
{
    const uint32_t blank = fv_gpt2_byte_to_codepoint(' ');
    uint32_t count = 0;
    size_t begin = 0, end = token.bytes;
    while (begin < end && count < max) {
        size_t at = begin, length;
        if (at_end)
            for (at = end - 1; at > begin && (token.text[at] & 0xC0) == 0x80;)
                at--;
        length = fv_lead_length(token.text[at]);
        if (at + length > token.bytes) break;
        uint32_t code = fv_code_of(token.text + at, length);
        if (code != blank && !fv_unicode_is_space(code)) break;
        count++;
        if (at_end)
            end = at;
        else
            begin = at + length;
    }
    return count;
}

/* Trims leading and trailing blanks from the offsets, in characters. A blank that was added by the
 * pre-tokenizer has no offset to trim. */
static void trim_offsets(const fv_tokenizer *tok, const char *text, fv_token_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        fv_token_span *span = &l->spans[i];
        fv_string token = fv_tokenizer_id_to_token(tok, l->ids[i]);
        /* An added token includes the blanks it stripped. */
        if (l->specials[i] == FROM_TEXT)
            token = (fv_string){text + span->begin, span->end - span->begin};
        /* An unknown token may be spelled with more blanks than the text it stands for has. */
        const uint32_t max = span->end - span->begin + 1;
        uint32_t leading = blanks(token, false, max), trailing = blanks(token, true, max);
        if (leading > 0 && tok->trim_prefix_space && (i == 0 || span->begin == 0)) leading--;
        for (; leading > 0 && span->begin < span->end; leading--)
            span->begin += (uint32_t)fv_lead_length(text[span->begin]);
        for (; trailing > 0 && span->end > span->begin; trailing--)
            do {
                span->end--;
            } while (span->end > span->begin && (text[span->end] & 0xC0) == 0x80);
    }
}

static fv_status append(fv_tokenizer_encoder *enc, uint8_t sequence, uint8_t type)
{
    const fv_token_list *from = &enc->plain[sequence];
    fv_token_list *to = &enc->finished;
    FV_TRY(fv_text_budget_make(&enc->pretokenized.budget, to->count + from->count));
    FV_TRY(reserve(enc, to, from->count));
    if (from->count == 0) return FV_OK;
    memcpy(to->ids + to->count, from->ids, from->count * sizeof *to->ids);
    memcpy(to->spans + to->count, from->spans, from->count * sizeof *to->spans);
    memset(to->types + to->count, type, from->count);
    memset(to->specials + to->count, 0, from->count);
    memset(to->sequences + to->count, sequence, from->count);
    to->count += from->count;
    return FV_OK;
}

static fv_status finish(fv_tokenizer_encoder *enc, const fv_string *text, size_t texts,
                        unsigned flags)
{
    const fv_tokenizer *tok = enc->tok;
    const fv_template *template = texts == 2 ? &tok->pair : &tok->single;
    enc->finished.count = 0;
    enc->pretokenized.budget.stage = "post-processor";
    for (size_t i = 0; i < texts && tok->trim_offsets; i++)
        trim_offsets(tok, text[i].text, &enc->plain[i]);
    if (!tok->has_template && texts == 1) {
        /* Nothing to add: the list is the result. */
        const fv_token_list plain = enc->plain[0];
        enc->plain[0] = enc->finished;
        enc->finished = plain;
        if (plain.count) memset(plain.specials, 0, plain.count);
        return FV_OK;
    }
    if (!tok->has_template) {
        for (size_t i = 0; i < texts; i++)
            FV_TRY(append(enc, (uint8_t)i, (uint8_t)i));
        return FV_OK;
    }
    for (size_t i = 0; i < template->count; i++) {
        const fv_template_piece *p = &template->pieces[i];
        if (p->id < 0)
            FV_TRY(append(enc, p->sequence, p->type));
        else if (flags & FV_TOKENIZER_ADD_SPECIALS)
            FV_TRY(put_token(enc, &enc->finished, p->id, (fv_token_span){0, 0}, p->type,
                             FROM_TEMPLATE));
    }
    return FV_OK;
}

static void hand_out(const fv_tokenizer_encoder *enc, fv_encoding *out)
{
    const fv_token_list *l = &enc->finished;
    const fv_encoding full = {.count = l->count,
                              .ids = l->ids,
                              .offsets = l->spans,
                              .sequence_ids = l->sequences,
                              .type_ids = l->types,
                              .special_tokens_mask = l->specials};
    fv_config_give(out, &full, sizeof full);
}

static fv_status encode(fv_tokenizer_encoder *enc, const fv_string *texts, size_t count,
                        unsigned flags, fv_encoding *out)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        FV_RETURN_IF(!fv_checked_add_size(bytes, texts[i].bytes, &bytes), enc->ctx, FV_ERR_LIMIT,
                     "tokenizer: the texts are too long");
    fv_pretokenized_begin_call(&enc->pretokenized, enc->tok, bytes);
    for (size_t i = 0; i < count; i++)
        FV_TRY(encode_text(enc, texts[i].text, texts[i].bytes, &enc->plain[i]));
    FV_TRY(finish(enc, texts, count, flags));
    hand_out(enc, out);
    return FV_OK;
}

fv_status fv_tokenizer_encode(fv_tokenizer_encoder *enc, const char *text, size_t bytes,
                              unsigned flags, fv_encoding *out)
{
    return encode(enc, &(fv_string){text, bytes}, 1, flags, out);
}

fv_status fv_tokenizer_encode_pair(fv_tokenizer_encoder *enc, fv_string text, fv_string pair,
                                   unsigned flags, fv_encoding *out)
{
    return encode(enc, (fv_string[]){text, pair}, 2, flags, out);
}
