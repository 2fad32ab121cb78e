/*
 * Decoding as in SentencePiece: control pieces decode to nothing, the unknown piece to a fixed
 * text, runs of byte pieces to UTF-8, and the blank that encoding added before the text is removed.
 * Marian decodes each section between special tokens this way, with a blank after each special
 * token, and strips the blanks at both ends.
 */
#include <string.h>

#include "io/utf8.h"
#include "text/tokenizer_pipeline.h"

typedef struct decoding {
    fv_ctx *ctx;
    const fv_tokenizer *tok;
    fv_text_budget budget; /* for the text of unknown pieces; others are bounded beforehand */
    const fv_token_decoder *step;
    fv_text bytes; /* of the current run of byte pieces */
    fv_text *out;
    size_t begin; /* of the current section in `out` */
    bool at_start, took_blank;
} decoding;

/* Each invalid byte becomes U+FFFD. */
static fv_status end_bytes(decoding *d)
{
    for (size_t i = 0; i < d->bytes.bytes;) {
        const size_t length = fv_utf8_length(d->bytes.data + i, d->bytes.bytes - i);
        FV_TRY(length ? fv_text_append(d->ctx, d->out, d->bytes.data + i, length)
                      : fv_text_append(d->ctx, d->out, "\xEF\xBF\xBD", 3));
        i += length ? length : 1;
    }
    d->bytes.bytes = 0;
    return FV_OK;
}

static fv_status put_normal(decoding *d, fv_string s, uint8_t kind)
{
    static const char mark[] = "\xE2\x96\x81";
    enum { MARK_BYTES = sizeof mark - 1 };
    d->took_blank = false;
    /* A piece that only Marian's vocabulary has is copied unchanged. */
    const bool foreign = kind == FV_PIECE_UNUSED && fv_token_model_is_marian(&d->tok->model);
    if (d->at_start && !foreign && d->step->prepend != FV_PREPEND_NEVER && s.bytes >= MARK_BYTES &&
        memcmp(s.text, mark, MARK_BYTES) == 0) {
        s.text += MARK_BYTES;
        s.bytes -= MARK_BYTES;
        /* With remove_extra_whitespaces, all leading blanks are removed. */
        d->took_blank = d->step->prepend == FV_PREPEND_FIRST;
    }
    for (size_t i = 0; i < s.bytes;) {
        const size_t length = fv_lead_length(s.text[i]);
        const bool blank = length == MARK_BYTES && memcmp(s.text + i, mark, MARK_BYTES) == 0;
        FV_TRY(fv_text_append(d->ctx, d->out, blank ? " " : s.text + i, blank ? 1 : length));
        i += length;
    }
    return FV_OK;
}

static fv_status put_piece(decoding *d, int64_t id)
{
    const fv_string token = fv_tokenizer_id_to_token(d->tok, id);
    if (!token.text) return fv_decode_missing(d->ctx, d->tok, id);
    const uint8_t kind = d->tok->model.kinds[id];
    if (kind == FV_PIECE_BYTE)
        return fv_text_append(d->ctx, &d->bytes, &(char){(char)fv_fallback_byte(token)}, 1);
    FV_TRY(end_bytes(d));
    if (d->took_blank || d->out->bytes > d->begin) d->at_start = false;
    if (kind == FV_PIECE_CONTROL || kind == FV_PIECE_UNKNOWN) {
        d->took_blank = false;
        if (kind == FV_PIECE_CONTROL) return FV_OK;
        FV_TRY(fv_text_budget_make(&d->budget, d->out->bytes + d->step->to.bytes));
        return fv_text_append(d->ctx, d->out, d->step->to.text, d->step->to.bytes);
    }
    return put_normal(d, token, kind);
}

static fv_status put_special(decoding *d, int64_t id)
{
    const fv_string token = fv_tokenizer_id_to_token(d->tok, id);
    FV_TRY(end_bytes(d));
    FV_TRY(fv_text_append(d->ctx, d->out, token.text, token.bytes));
    FV_TRY(fv_text_append(d->ctx, d->out, " ", 1));
    d->begin = d->out->bytes;
    d->at_start = true;
    return FV_OK;
}

/* The text without leading and trailing blanks. */
static fv_string stripped(const fv_text *text)
{
    size_t begin = 0, end = text->bytes;
    while (begin < end) {
        const size_t length = fv_lead_length(text->data[begin]);
        if (!fv_unicode_is_space(fv_code_of(text->data + begin, length))) break;
        begin += length;
    }
    while (end > begin) {
        size_t last = end - 1;
        while (last > begin && (text->data[last] & 0xC0) == 0x80)
            last--;
        if (!fv_unicode_is_space(fv_code_of(text->data + last, end - last))) break;
        end = last;
    }
    return (fv_string){text->data + begin, end - begin};
}

fv_status fv_decode_sentencepiece(fv_ctx *ctx, const fv_tokenizer *tok, const int64_t *ids,
                                  size_t count, unsigned flags, fv_text *out)
{
    fv_text made = {0};
    decoding d = {
        .ctx = ctx, .tok = tok, .step = &tok->decoders[0], .out = &made, .at_start = true};
    const bool marian = fv_token_model_is_marian(&tok->model);
    fv_status s = fv_decode_begin(&d.budget, ctx, tok, ids, count);
    d.budget.stage = "decoder of SentencePiece";
    if (s == FV_OK) s = fv_text_append(ctx, &made, "", 0);
    for (size_t i = 0; i < count && s == FV_OK; i++) {
        const bool special = fv_tokenizer_is_special(tok, ids[i]);
        if (special && (flags & FV_TOKENIZER_SKIP_SPECIALS)) continue;
        s = special && marian ? put_special(&d, ids[i]) : put_piece(&d, ids[i]);
    }
    if (s == FV_OK) s = end_bytes(&d);
    if (s == FV_OK) s = fv_text_reserve(ctx, out, made.bytes);
    if (s == FV_OK) {
        const fv_string whole = marian ? stripped(&made) : (fv_string){made.data, made.bytes};
        out->bytes = 0;
        s = fv_text_append(ctx, out, whole.text, whole.bytes);
    }
    fv_text_free(ctx, &d.bytes);
    fv_text_free(ctx, &made);
    return s;
}
