/* WordLevel, and WordPiece, which splits a word greedily into the longest known pieces. */
#include "text/tokenizer_encoder.h"

static fv_status unknown(fv_tokenizer_encoder *enc, size_t bytes)
{
    FV_RETURN_IF(enc->tok->model.unk < 0, enc->ctx, FV_ERR_STATE,
                 "tokenizer: unknown word, and the model has no unknown token");
    return fv_encoder_add_token(enc, enc->tok->model.unk, 0, bytes);
}

fv_status fv_encode_piece_word_level(fv_tokenizer_encoder *enc, const char *text, size_t bytes)
{
    int32_t id = fv_token_model_find(enc->tok, text, bytes);
    return id >= 0 ? fv_encoder_add_token(enc, id, 0, bytes) : unknown(enc, bytes);
}

/* The end of the longest known piece that begins at `from`, or 0. */
static fv_status longest(fv_tokenizer_encoder *enc, const char *text, size_t from, size_t bytes,
                         int32_t *id, size_t *end)
{
    const fv_string prefix = enc->tok->model.prefix;
    fv_text *s = &enc->scratch;
    s->bytes = 0;
    if (from > 0) FV_TRY(fv_text_append(enc->ctx, s, prefix.text, prefix.bytes));
    const size_t lead = s->bytes, max = enc->tok->model.longest;
    /* No longer than the longest token. */
    size_t stop = lead >= max ? from : bytes - from > max - lead ? from + (max - lead) : bytes;
    while (stop > from && stop < bytes && (text[stop] & 0xC0) == 0x80)
        stop--;
    FV_TRY(fv_text_append(enc->ctx, s, text + from, stop - from));
    while (stop > from) {
        *id = fv_token_model_find(enc->tok, s->data, lead + (stop - from));
        FV_TRY(fv_encoder_spend(enc, 1 + (lead + (stop - from)) / 8));
        if (*id >= 0) {
            *end = stop;
            return FV_OK;
        }
        do {
            stop--;
        } while (stop > from && (text[stop] & 0xC0) == 0x80);
    }
    *end = 0;
    return FV_OK;
}

fv_status fv_encode_piece_wordpiece(fv_tokenizer_encoder *enc, const char *text, size_t bytes)
{
    size_t chars = 0;
    for (size_t i = 0; i < bytes; i++)
        chars += (text[i] & 0xC0) != 0x80;
    if (chars > enc->tok->model.max_chars) return unknown(enc, bytes);
    for (size_t at = 0; at < bytes;) {
        int32_t id = -1;
        size_t end = 0;
        FV_TRY(longest(enc, text, at, bytes, &id, &end));
        if (end == 0) {
            enc->piece_token_count = 0;
            return unknown(enc, bytes);
        }
        FV_TRY(fv_encoder_add_token(enc, id, at, end));
        at = end;
    }
    return FV_OK;
}
