#include "text/pretokenized.h"

#include <string.h>

#include "io/utf8.h"
#include "text/hf_unicode.h"

void fv_pretokenized_init(fv_pretokenized *w, fv_ctx *ctx)
{
    *w = (fv_pretokenized){.ctx = ctx, .regex = {.ctx = ctx}};
    fv_codepoints_init(&w->codepoints, ctx);
    w->codepoints.budget = w->regex.budget = &w->budget;
}

void fv_pretokenized_free(fv_pretokenized *w)
{
    fv_mem *mem = &w->ctx->mem;
    fv_text_free(w->ctx, &w->own);
    fv_text_free(w->ctx, &w->next_own);
    fv_mem_free(mem, w->spans, w->span_room * sizeof *w->spans);
    fv_mem_free(mem, w->next_spans, w->next_span_room * sizeof *w->next_spans);
    fv_mem_free(mem, w->pieces, w->room * sizeof *w->pieces);
    fv_mem_free(mem, w->next_pieces, w->next_room * sizeof *w->next_pieces);
    fv_codepoints_free(&w->codepoints);
    fv_regex_end(&w->regex);
}

/* ---- pieces ---------------------------------------------------------------------- */

fv_status fv_pretokenized_push(fv_pretokenized *w, size_t begin, size_t end, bool match)
{
    if (begin == end) return FV_OK;
    return fv_pretokenized_push_piece(w, (fv_piece){(uint32_t)begin, (uint32_t)end, -1, match});
}

fv_status fv_pretokenized_push_piece(fv_pretokenized *w, fv_piece piece)
{
    if (w->next_count == w->next_room) {
        fv_piece *next_pieces = fv_mem_grow(&w->ctx->mem, w->next_pieces, &w->next_room,
                                            w->next_count + 1, sizeof *next_pieces);
        FV_RETURN_IF(!next_pieces, w->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
        w->next_pieces = next_pieces;
    }
    w->next_pieces[w->next_count++] = piece;
    return FV_OK;
}

void fv_pretokenized_swap(fv_pretokenized *w)
{
    fv_piece *pieces = w->pieces;
    size_t room = w->room;
    w->pieces = w->next_pieces;
    w->count = w->next_count;
    w->room = w->next_room;
    w->next_pieces = pieces;
    w->next_count = 0;
    w->next_room = room;
}

void fv_pretokenized_begin_call(fv_pretokenized *w, const fv_tokenizer *tok, size_t bytes)
{
    fv_text_budget_begin(&w->budget, w->ctx, tok->name, bytes);
}

fv_status fv_pretokenized_begin(fv_pretokenized *w, const char *text, size_t bytes, uint32_t base)
{
    w->text = text;
    w->bytes = bytes;
    w->base = base;
    w->span = NULL;
    w->next_count = 0;
    FV_TRY(fv_pretokenized_push(w, 0, bytes, false));
    fv_pretokenized_swap(w);
    return FV_OK;
}

/* ---- changing the text ------------------------------------------------------------ */

/* Reserves memory for the next text and its spans. */
static fv_status reserve(fv_pretokenized *w, size_t bytes)
{
    FV_RETURN_IF(bytes >= UINT32_MAX, w->ctx, FV_ERR_LIMIT,
                 "tokenizer: the text has 4 GiB or more");
    FV_TRY(fv_text_budget_make(&w->budget, bytes));
    FV_TRY(fv_text_reserve(w->ctx, &w->next_own, bytes));
    fv_token_span *spans =
        fv_mem_grow(&w->ctx->mem, w->next_spans, &w->next_span_room, bytes, sizeof *spans);
    FV_RETURN_IF(!spans, w->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    w->next_spans = spans;
    return FV_OK;
}

static void use_next(fv_pretokenized *w, size_t bytes)
{
    fv_text text = w->own;
    fv_token_span *spans = w->spans;
    size_t room = w->span_room;
    w->own = w->next_own;
    w->spans = w->next_spans;
    w->span_room = w->next_span_room;
    w->next_own = text;
    w->next_spans = spans;
    w->next_span_room = room;
    w->text = w->own.data;
    w->bytes = bytes;
    w->span = w->spans;
}

fv_status fv_pretokenized_normalize(fv_pretokenized *w, const fv_tokenizer *tok)
{
    fv_codepoints *r = &w->codepoints;
    if (tok->normalizer_count == 0 || fv_normalizers_are_noop(tok, w->text, w->bytes)) return FV_OK;
    FV_TRY(fv_codepoints_decode(r, w->text, w->bytes));
    FV_TRY(fv_normalizers_apply(tok, r));
    size_t used = 0, bytes = 0;
    for (size_t i = 0; i < r->count; i++)
        bytes += fv_code_bytes(r->items[i].code);
    FV_TRY(reserve(w, bytes));
    for (size_t i = 0; i < r->count; i++) {
        size_t length = fv_utf8_put(r->items[i].code, w->next_own.data + used);
        for (size_t k = 0; k < length; k++)
            w->next_spans[used + k] =
                (fv_token_span){w->base + r->items[i].begin, w->base + r->items[i].end};
        used += length;
    }
    use_next(w, used);
    w->next_count = 0;
    FV_TRY(fv_pretokenized_push(w, 0, used, false));
    fv_pretokenized_swap(w);
    return FV_OK;
}

fv_token_span fv_pretokenized_span(const fv_pretokenized *w, uint32_t begin, uint32_t end)
{
    if (w->span && begin == end) return (fv_token_span){w->span[begin].begin, w->span[begin].begin};
    if (w->span) return (fv_token_span){w->span[begin].begin, w->span[end - 1].end};
    while (begin > 0 && (w->text[begin] & 0xC0) == 0x80)
        begin--;
    while (end < w->bytes && (w->text[end] & 0xC0) == 0x80)
        end++;
    return (fv_token_span){w->base + begin, w->base + end};
}

/* Copies one character to the next text, unchanged or replaced by `instead`. */
static void write_char(fv_pretokenized *w, size_t at, size_t length, fv_string instead,
                       size_t *used)
{
    fv_token_span span = fv_pretokenized_span(w, (uint32_t)at, (uint32_t)(at + length));
    memcpy(w->next_own.data + *used, instead.text, instead.bytes);
    for (size_t k = 0; k < instead.bytes; k++)
        w->next_spans[*used + k] = span;
    *used += instead.bytes;
}

/* Replaces each blank by `blank` and, depending on `prepend`, adds it before pieces that do not
 * begin with it. The pieces stay the same. */
static fv_status rewrite(fv_pretokenized *w, fv_string blank, fv_prepend prepend)
{
    size_t used = 0, max = w->bytes + w->count * blank.bytes;
    for (size_t i = 0; i < w->bytes; i++)
        max += w->text[i] == ' ' ? blank.bytes - 1 : 0;
    FV_TRY(reserve(w, max));
    for (size_t p = 0; p < w->count; p++) {
        fv_piece *piece = &w->pieces[p];
        const char *text = w->text + piece->begin;
        size_t n = piece->end - piece->begin, begin = used;
        bool there =
            (n >= blank.bytes && memcmp(text, blank.text, blank.bytes) == 0) || text[0] == ' ';
        bool wanted = prepend == FV_PREPEND_ALWAYS ||
                      (prepend == FV_PREPEND_FIRST &&
                       fv_pretokenized_span(w, piece->begin, piece->begin + 1).begin == 0);
        if (wanted && !there && piece->token < 0)
            write_char(w, piece->begin, fv_lead_length(text[0]), blank, &used);
        for (size_t i = 0; i < n;) {
            size_t length = fv_lead_length(text[i]);
            fv_string as_is = {text + i, length};
            write_char(w, piece->begin + i, length,
                       text[i] == ' ' && piece->token < 0 ? blank : as_is, &used);
            i += length;
        }
        piece->begin = (uint32_t)begin;
        piece->end = (uint32_t)used;
    }
    use_next(w, used);
    return FV_OK;
}

/* ---- splitting ------------------------------------------------------------------- */

/* Splits one piece so that every character with fits() is a match. */
static fv_status mark_chars(fv_pretokenized *w, fv_piece piece, bool (*fits)(uint32_t code))
{
    size_t begin = piece.begin;
    for (size_t i = piece.begin; i < piece.end;) {
        size_t length = fv_lead_length(w->text[i]);
        if (fits(fv_code_of(w->text + i, length))) {
            FV_TRY(fv_pretokenized_push(w, begin, i, false));
            FV_TRY(fv_pretokenized_push(w, i, i + length, true));
            begin = i + length;
        }
        i += length;
    }
    return fv_pretokenized_push(w, begin, piece.end, false);
}

static fv_status mark_text(fv_pretokenized *w, fv_piece piece, fv_string text, bool invert)
{
    size_t begin = piece.begin;
    const char *found; /* memmem takes linear time for any pattern */
    while ((found = memmem(w->text + begin, piece.end - begin, text.text, text.bytes))) {
        const size_t i = (size_t)(found - w->text);
        FV_TRY(fv_pretokenized_push(w, begin, i, invert));
        FV_TRY(fv_pretokenized_push(w, i, i + text.bytes, !invert));
        begin = i + text.bytes;
    }
    return fv_pretokenized_push(w, begin, piece.end, invert);
}

/* Splits at the matches of a scanner, which leave no gaps. */
static fv_status mark_scan(fv_pretokenized *w, fv_piece piece, fv_split_scanner scan, bool invert)
{
    for (size_t begin = piece.begin, end; begin < piece.end; begin = end) {
        end = scan(w->text, begin, piece.end);
        FV_TRY(fv_pretokenized_push(w, begin, end, !invert));
    }
    return FV_OK;
}

static fv_status mark_regex(fv_pretokenized *w, fv_piece piece, const fv_regex *re, bool invert)
{
    bool found = true;
    size_t last = 0, begin = 0, end = 0;
    fv_regex_begin(&w->regex, w->text + piece.begin, piece.end - piece.begin);
    for (; found; last = end) {
        FV_TRY(fv_regex_find(&w->regex, re, last, &found, &begin, &end));
        if (!found) break;
        FV_TRY(fv_pretokenized_push(w, piece.begin + last, piece.begin + begin, invert));
        /* An empty match splits at its position. */
        const uint32_t from = piece.begin + (uint32_t)begin, to = piece.begin + (uint32_t)end;
        FV_TRY(fv_pretokenized_push_piece(w, (fv_piece){from, to, -1, !invert}));
    }
    return fv_pretokenized_push(w, piece.begin + last, piece.end, invert);
}

/* Applies the split behavior to the pieces from `first` on: merges or removes matches, and removes
 * empty pieces. */
static void behave(fv_pretokenized *w, size_t first, fv_split_behavior behavior)
{
    fv_piece *p = w->next_pieces;
    size_t used = first, n = w->next_count;
    for (size_t i = first; i < n; i++) {
        bool after = i > first, before_match = after && p[i - 1].match;
        bool join = false;
        if (behavior == FV_SPLIT_REMOVED && p[i].match) continue;
        if (behavior == FV_SPLIT_CONTIGUOUS) join = after && before_match == p[i].match;
        if (behavior == FV_SPLIT_WITH_PREVIOUS) join = after && p[i].match && !before_match;
        if (behavior == FV_SPLIT_WITH_NEXT) join = before_match && !p[i].match;
        if (join)
            p[used - 1].end = p[i].end;
        else
            p[used++] = p[i];
    }
    w->next_count = first;
    for (size_t i = first; i < used; i++)
        if (p[i].begin < p[i].end) p[w->next_count++] = p[i];
}

/* Runs of word characters and runs of others, without white space. */
static fv_status split_words(fv_pretokenized *w, fv_piece piece)
{
    enum { SPACE, WORD, OTHER };
    size_t begin = piece.begin;
    int last = SPACE;
    for (size_t i = piece.begin; i < piece.end;) {
        size_t length = fv_lead_length(w->text[i]);
        uint32_t code = fv_code_of(w->text + i, length);
        int kind = fv_unicode_is_space(code) ? SPACE : fv_hf_is_word_char(code) ? WORD : OTHER;
        if (kind != last) {
            if (last != SPACE) FV_TRY(fv_pretokenized_push(w, begin, i, false));
            begin = i;
            last = kind;
        }
        i += length;
    }
    return last == SPACE ? FV_OK : fv_pretokenized_push(w, begin, piece.end, false);
}

static fv_status split_bert(fv_pretokenized *w, fv_piece piece)
{
    size_t first = w->next_count;
    FV_TRY(mark_chars(w, piece, fv_unicode_is_space));
    behave(w, first, FV_SPLIT_REMOVED);
    /* Split each word again at punctuation: take it from the list and append its pieces. */
    size_t last = w->next_count;
    for (size_t i = first; i < last; i++)
        FV_TRY(mark_chars(w, w->next_pieces[i], fv_hf_is_punctuation));
    memmove(w->next_pieces + first, w->next_pieces + last,
            (w->next_count - last) * sizeof *w->next_pieces);
    w->next_count -= last - first;
    return FV_OK;
}

static fv_status split_piece(fv_pretokenized *w, fv_piece piece, const fv_pre_tokenizer *split)
{
    const size_t first = w->next_count;
    fv_split_behavior behavior = FV_SPLIT_REMOVED;
    switch (split->kind) {
    case FV_PRE_TOKENIZER_BYTE_LEVEL:
        return split->regex ? mark_scan(w, piece, fv_split_gpt2, true)
                            : fv_pretokenized_push(w, piece.begin, piece.end, false);
    case FV_PRE_TOKENIZER_WHITESPACE:
        return split_words(w, piece);
    case FV_PRE_TOKENIZER_BERT:
        return split_bert(w, piece);
    case FV_PRE_TOKENIZER_WHITESPACE_SPLIT:
        FV_TRY(mark_chars(w, piece, fv_unicode_is_space));
        break;
    case FV_PRE_TOKENIZER_METASPACE:
        if (!split->split) return fv_pretokenized_push(w, piece.begin, piece.end, false);
        FV_TRY(mark_text(w, piece, split->pattern, false));
        behavior = FV_SPLIT_WITH_NEXT;
        break;
    case FV_PRE_TOKENIZER_PUNCTUATION:
        FV_TRY(mark_chars(w, piece, fv_hf_is_punctuation));
        behavior = split->behavior;
        break;
    case FV_PRE_TOKENIZER_DIGITS:
        FV_TRY(mark_chars(w, piece, fv_hf_is_number));
        behavior = split->individual ? FV_SPLIT_ISOLATED : FV_SPLIT_CONTIGUOUS;
        break;
    case FV_PRE_TOKENIZER_STRING:
        FV_TRY(mark_text(w, piece, split->pattern, split->invert));
        behavior = split->behavior;
        break;
    case FV_PRE_TOKENIZER_REGEX:
        FV_TRY(split->scan ? mark_scan(w, piece, split->scan, split->invert)
                           : mark_regex(w, piece, split->re, split->invert));
        behavior = split->behavior;
        break;
    }
    behave(w, first, behavior);
    return FV_OK;
}

/* By fv_pre_tokenizer_kind, for messages. */
static const char *const split_names[] = {
    "pre-tokenizer ByteLevel",        "pre-tokenizer Whitespace",  "pre-tokenizer WhitespaceSplit",
    "pre-tokenizer Metaspace",        "pre-tokenizer Punctuation", "pre-tokenizer Digits",
    "pre-tokenizer BertPreTokenizer", "pre-tokenizer Split",       "pre-tokenizer Split"};

fv_status fv_pretokenized_split(fv_pretokenized *w, const fv_pre_tokenizer *split)
{
    const fv_string blank = {" ", 1};
    enum { STEPS = 64, PER_BYTE = 2 };
    w->budget.stage = split_names[split->kind];
    fv_text_budget_spend(&w->budget, STEPS + PER_BYTE * (w->bytes + w->count));
    FV_TRY(fv_text_budget_check(&w->budget));
    if (split->kind == FV_PRE_TOKENIZER_METASPACE)
        FV_TRY(rewrite(w, split->pattern, split->prepend));
    else if (split->kind == FV_PRE_TOKENIZER_BYTE_LEVEL && split->prefix_space)
        FV_TRY(rewrite(w, blank, FV_PREPEND_ALWAYS));
    w->next_count = 0;
    for (size_t i = 0; i < w->count; i++)
        FV_TRY(w->pieces[i].token < 0 ? split_piece(w, w->pieces[i], split)
                                      : fv_pretokenized_push_piece(w, w->pieces[i]));
    fv_pretokenized_swap(w);
    return FV_OK;
}
