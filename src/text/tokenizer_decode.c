/*
 * Decoding: each token is a piece of text, the decoders rewrite the pieces in order, and the
 * results are concatenated. Without a decoder, the tokens are joined with blanks.
 */
#include <string.h>

#include "io/utf8.h"
#include "text/tokenizer_pipeline.h"

/* Consecutive pieces in one text; `ends` has the end of each. */
typedef struct pieces {
    fv_text text;
    size_t *ends;
    size_t count, room;
} pieces;

typedef struct decoding {
    fv_ctx *ctx;
    fv_text_budget budget;
    pieces current, next;
} decoding;

static fv_status end_piece(decoding *d, pieces *p)
{
    size_t *ends = fv_mem_grow(&d->ctx->mem, p->ends, &p->room, p->count + 1, sizeof *ends);
    FV_RETURN_IF(!ends, d->ctx, FV_ERR_MEMORY, "tokenizer: out of memory");
    p->ends = ends;
    ends[p->count++] = p->text.bytes;
    return FV_OK;
}

static fv_status append(decoding *d, const char *text, size_t bytes)
{
    FV_TRY(fv_text_budget_make(&d->budget, d->next.text.bytes + bytes));
    return fv_text_append(d->ctx, &d->next.text, text, bytes);
}

static fv_string piece_at(const decoding *d, size_t i)
{
    size_t begin = i ? d->current.ends[i - 1] : 0;
    return (fv_string){d->current.text.data + begin, d->current.ends[i] - begin};
}

static bool begins_with(fv_string s, fv_string lead)
{
    return s.bytes >= lead.bytes && memcmp(s.text, lead.text, lead.bytes) == 0;
}

/* ---- decoders ---------------------------------------------------------------------- */

/* Appends a piece with every occurrence of `from` replaced. */
static fv_status append_replaced(decoding *d, fv_string s, fv_string from, fv_string to)
{
    size_t begin = 0;
    const char *found;
    while (from.bytes && (found = memmem(s.text + begin, s.bytes - begin, from.text, from.bytes))) {
        const size_t i = (size_t)(found - s.text);
        FV_TRY(append(d, s.text + begin, i - begin));
        FV_TRY(append(d, to.text, to.bytes));
        begin = i + from.bytes;
    }
    return append(d, s.text + begin, s.bytes - begin);
}

/* The same for matches of a pattern. */
static fv_status append_regex_replaced(decoding *d, fv_string s, const fv_regex *re, fv_string to)
{
    fv_regex_run run = {.ctx = d->ctx, .budget = &d->budget};
    bool found = true;
    size_t last = 0, begin = 0, end = 0;
    fv_status status = FV_OK;
    fv_regex_begin(&run, s.text, s.bytes);
    for (; status == FV_OK && found; last = end) {
        status = fv_regex_find(&run, re, last, &found, &begin, &end);
        if (!found) begin = end = s.bytes;
        if (status == FV_OK) status = append(d, s.text + last, begin - last);
        if (status == FV_OK && found) status = append(d, to.text, to.bytes);
    }
    fv_regex_end(&run);
    return status;
}

/* Appends bytes that may not be UTF-8; each invalid sequence becomes one U+FFFD. */
static fv_status append_valid_utf8(decoding *d, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        size_t length = fv_utf8_length(text + i, bytes - i);
        if (length) {
            FV_TRY(append(d, text + i, length));
            i += length;
            continue;
        }
        /* The longest prefix of a valid sequence counts as one invalid sequence. */
        size_t bad = 1;
        static const char tail[] = "\x80\x80\x80";
        for (size_t n = 2; n < 4 && i + n <= bytes; n++) {
            char whole[6];
            memcpy(whole, text + i, n);
            memcpy(whole + n, tail, 2);
            if ((unsigned char)text[i] >= 0xC2 && fv_utf8_length(whole, n + 1) == n + 1) bad = n;
            if ((unsigned char)text[i] >= 0xF0 && fv_utf8_length(whole, n + 2) == n + 2) bad = n;
        }
        FV_TRY(append(d, "\xEF\xBF\xBD", 3));
        i += bad;
    }
    return FV_OK;
}

/* Converts all tokens from the byte alphabet to bytes. A token with other letters is copied
 * unchanged. */
static fv_status decode_byte_level(decoding *d)
{
    fv_text bytes = {0};
    fv_status s = FV_OK;
    for (size_t i = 0; i < d->current.count && s == FV_OK; i++) {
        fv_string t = piece_at(d, i);
        bool foreign = false;
        for (size_t k = 0; k < t.bytes && !foreign; k += fv_lead_length(t.text[k]))
            foreign =
                fv_gpt2_codepoint_to_byte(fv_code_of(t.text + k, fv_lead_length(t.text[k]))) < 0;
        if (foreign) s = fv_text_append(d->ctx, &bytes, t.text, t.bytes);
        for (size_t k = 0; k < t.bytes && !foreign && s == FV_OK;) {
            size_t length = fv_lead_length(t.text[k]);
            char byte = (char)fv_gpt2_codepoint_to_byte(fv_code_of(t.text + k, length));
            s = fv_text_append(d->ctx, &bytes, &byte, 1);
            k += length;
        }
    }
    if (s == FV_OK) s = append_valid_utf8(d, bytes.data, bytes.bytes);
    fv_text_free(d->ctx, &bytes);
    return s == FV_OK ? end_piece(d, &d->next) : s;
}

/* Removes the blanks that tokenization adds in English text. */
static fv_status append_cleaned(decoding *d, fv_string s)
{
    static const char *const from[] = {" .",  " ?",      " !",  " ,",   " ' ", " n't",
                                       " 'm", " do not", " 's", " 've", " 're"};
    static const char *const to[] = {".",  "?",      "!",  ",",   "'",  "n't",
                                     "'m", " don't", "'s", "'ve", "'re"};
    fv_text work[2] = {{0}, {0}};
    fv_status status = fv_text_append(d->ctx, &work[0], s.text, s.bytes);
    int at = 0;
    for (size_t i = 0; i < sizeof from / sizeof from[0] && status == FV_OK; i++) {
        pieces kept = d->next;
        d->next.text = work[1 - at];
        d->next.text.bytes = 0;
        status = append_replaced(d, (fv_string){work[at].data, work[at].bytes},
                                 (fv_string){from[i], strlen(from[i])},
                                 (fv_string){to[i], strlen(to[i])});
        work[1 - at] = d->next.text;
        d->next.text = kept.text;
        at = 1 - at;
    }
    if (status == FV_OK) status = append(d, work[at].data, work[at].bytes);
    fv_text_free(d->ctx, &work[0]);
    fv_text_free(d->ctx, &work[1]);
    return status;
}

static fv_status decode_word_piece(decoding *d, const fv_token_decoder *step, size_t i)
{
    fv_string s = piece_at(d, i);
    fv_text whole = {0};
    fv_status status = FV_OK;
    if (i > 0 && begins_with(s, step->from)) {
        s.text += step->from.bytes;
        s.bytes -= step->from.bytes;
    } else if (i > 0) {
        status = fv_text_append(d->ctx, &whole, " ", 1);
    }
    if (status == FV_OK) status = fv_text_append(d->ctx, &whole, s.text, s.bytes);
    fv_string made = {whole.data, whole.bytes};
    if (status == FV_OK)
        status = step->cleanup ? append_cleaned(d, made) : append(d, made.text, made.bytes);
    fv_text_free(d->ctx, &whole);
    return status;
}

static fv_status decode_metaspace(decoding *d, const fv_token_decoder *step, size_t i)
{
    fv_string s = piece_at(d, i), blank = {" ", 1};
    /* The replacement that encoding added before the text. */
    if (i == 0 && step->prepend != FV_PREPEND_NEVER && begins_with(s, step->from)) {
        s.text += step->from.bytes;
        s.bytes -= step->from.bytes;
    }
    return append_replaced(d, s, step->from, blank);
}

static fv_status decode_strip(decoding *d, const fv_token_decoder *step, size_t i)
{
    fv_string s = piece_at(d, i), c = step->from;
    for (size_t k = 0; k < step->start && begins_with(s, c); k++) {
        s.text += c.bytes;
        s.bytes -= c.bytes;
    }
    for (size_t k = 0; k < step->stop && s.bytes >= c.bytes &&
                       memcmp(s.text + s.bytes - c.bytes, c.text, c.bytes) == 0;
         k++)
        s.bytes -= c.bytes;
    return append(d, s.text, s.bytes);
}

int fv_fallback_byte(fv_string s)
{
    int value = 0;
    if (s.bytes != 6 || memcmp(s.text, "<0x", 3) != 0 || s.text[5] != '>') return -1;
    for (int i = 3; i < 5; i++) {
        char c = s.text[i];
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (c >= 'A' && c <= 'F')
            value = value * 16 + (c - 'A' + 10);
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (c - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* Runs of byte tokens become text if they are valid UTF-8, otherwise one U+FFFD per byte. */
static fv_status decode_fallback(decoding *d)
{
    for (size_t i = 0; i < d->current.count;) {
        size_t begin = d->next.text.bytes, n = 0;
        for (int byte;
             i + n < d->current.count && (byte = fv_fallback_byte(piece_at(d, i + n))) >= 0; n++)
            FV_TRY(append(d, &(char){(char)byte}, 1));
        if (n == 0) {
            fv_string s = piece_at(d, i++);
            FV_TRY(append(d, s.text, s.bytes));
            FV_TRY(end_piece(d, &d->next));
            continue;
        }
        if (!fv_utf8_valid(d->next.text.data + begin, n)) {
            d->next.text.bytes = begin;
            for (size_t k = 0; k < n; k++)
                FV_TRY(append(d, "\xEF\xBF\xBD", 3));
        }
        FV_TRY(end_piece(d, &d->next));
        i += n;
    }
    return FV_OK;
}

static fv_status decode_piece(decoding *d, const fv_token_decoder *step, size_t i)
{
    fv_string s = piece_at(d, i), blank = {" ", 1}, nothing = {"", 0};
    switch (step->kind) {
    case FV_TOKEN_DECODER_BPE:
        return append_replaced(d, s, step->from, i + 1 < d->current.count ? blank : nothing);
    case FV_TOKEN_DECODER_WORD_PIECE:
        return decode_word_piece(d, step, i);
    case FV_TOKEN_DECODER_METASPACE:
        return decode_metaspace(d, step, i);
    case FV_TOKEN_DECODER_STRIP:
        return decode_strip(d, step, i);
    case FV_TOKEN_DECODER_REPLACE:
        return step->re ? append_regex_replaced(d, s, step->re, step->to)
                        : append_replaced(d, s, step->from, step->to);
    default:
        return append(d, s.text, s.bytes);
    }
}

/* By fv_token_decoder_kind, for messages. */
static const char *const names[] = {
    "decoder ByteLevel", "decoder BPEDecoder",   "decoder WordPiece",
    "decoder Metaspace", "decoder Fuse",         "decoder Strip",
    "decoder Replace",   "decoder ByteFallback", "decoder of SentencePiece"};

static fv_status run_step(decoding *d, const fv_token_decoder *step)
{
    enum { STEPS = 64, PER_BYTE = 8, PER_PIECE = 16 };
    d->budget.stage = names[step->kind];
    fv_text_budget_spend(&d->budget,
                         STEPS + PER_BYTE * d->current.text.bytes + PER_PIECE * d->current.count);
    FV_TRY(fv_text_budget_check(&d->budget));
    d->next.text.bytes = 0;
    d->next.count = 0;
    FV_TRY(append(d, "", 0));
    if (step->kind == FV_TOKEN_DECODER_BYTE_LEVEL) {
        FV_TRY(decode_byte_level(d));
    } else if (step->kind == FV_TOKEN_DECODER_BYTE_FALLBACK) {
        FV_TRY(decode_fallback(d));
    } else {
        for (size_t i = 0; i < d->current.count; i++) {
            FV_TRY(decode_piece(d, step, i));
            if (step->kind != FV_TOKEN_DECODER_FUSE) FV_TRY(end_piece(d, &d->next));
        }
        if (step->kind == FV_TOKEN_DECODER_FUSE) FV_TRY(end_piece(d, &d->next));
    }
    pieces current = d->current;
    d->current = d->next;
    d->next = current;
    return FV_OK;
}

/* ---- entry point ----------------------------------------------------------------- */

fv_status fv_decode_missing(fv_ctx *ctx, const fv_tokenizer *tok, int64_t id)
{
    FV_RETURN_IF(id < 0, ctx, FV_ERR_INDEX, "tokenizer: unknown token id %lld", (long long)id);
    if (!ctx->warned_of_missing_token)
        fv_report(ctx, FV_LOG_WARN,
                  "%.150s: no token has id %lld (the vocabulary has %zu): such ids are left out",
                  tok->name, (long long)id, fv_tokenizer_vocab_size(tok));
    ctx->warned_of_missing_token = true;
    return FV_OK;
}

fv_status fv_decode_begin(fv_text_budget *budget, fv_ctx *ctx, const fv_tokenizer *tok,
                          const int64_t *ids, size_t count)
{
    size_t bytes = 0;
    fv_text_budget_begin_decoding(budget, ctx, tok->name, count, 0);
    budget->stage = "tokens";
    for (size_t i = 0; i < count; i++) {
        bytes += fv_token_spelling(tok, ids[i]).bytes + 1;
        FV_TRY(fv_text_budget_make(budget, bytes));
    }
    fv_text_budget_begin_decoding(budget, ctx, tok->name, count, bytes);
    return FV_OK;
}

static fv_status decode(decoding *d, const fv_tokenizer *tok, const int64_t *ids, size_t count,
                        unsigned flags)
{
    FV_TRY(fv_decode_begin(&d->budget, d->ctx, tok, ids, count));
    FV_TRY(fv_text_append(d->ctx, &d->current.text, "", 0));
    for (size_t i = 0; i < count; i++) {
        fv_string token = fv_token_spelling(tok, ids[i]);
        if (!token.text) {
            FV_TRY(fv_decode_missing(d->ctx, tok, ids[i]));
            continue;
        }
        if ((flags & FV_TOKENIZER_SKIP_SPECIALS) && fv_tokenizer_is_special(tok, ids[i])) continue;
        if (tok->decoder_count == 0 && d->current.count > 0)
            FV_TRY(fv_text_append(d->ctx, &d->current.text, " ", 1));
        FV_TRY(fv_text_append(d->ctx, &d->current.text, token.text, token.bytes));
        FV_TRY(end_piece(d, &d->current));
    }
    for (size_t i = 0; i < tok->decoder_count; i++)
        FV_TRY(run_step(d, &tok->decoders[i]));
    return FV_OK;
}

fv_status fv_tokenizer_decode(fv_ctx *ctx, const fv_tokenizer *tok, const int64_t *ids,
                              size_t count, unsigned flags, fv_text *out)
{
    if (tok->decoder_count && tok->decoders[0].kind == FV_TOKEN_DECODER_SENTENCEPIECE)
        return fv_decode_sentencepiece(ctx, tok, ids, count, flags, out);
    decoding d = {.ctx = ctx};
    fv_status s = decode(&d, tok, ids, count, flags);
    if (s == FV_OK) s = fv_text_reserve(ctx, out, d.current.text.bytes);
    if (s == FV_OK) {
        out->bytes = 0;
        s = fv_text_append(ctx, out, d.current.text.data, d.current.text.bytes);
    }
    fv_text_free(ctx, &d.current.text);
    fv_text_free(ctx, &d.next.text);
    fv_mem_free(&ctx->mem, d.current.ends, d.current.room * sizeof *d.current.ends);
    fv_mem_free(&ctx->mem, d.next.ends, d.next.room * sizeof *d.next.ends);
    return s;
}
