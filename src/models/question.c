#include "models/question.h"

#include <stdio.h>
#include <string.h>

#include "fovea/encode.h"
#include "models/model.h"

static bool is_in_word(unsigned char c)
{
    return c >= 0x80 || c == '\'' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
}

fv_status fv_question_clean(fv_ctx *ctx, const char *text, char out[FV_QUESTION_BYTES])
{
    size_t used = 0;
    bool between = false;
    for (const char *p = text; *p; p++) {
        const unsigned char c = (unsigned char)*p;
        if (!is_in_word(c)) {
            between = used > 0;
            continue;
        }
        FV_RETURN_IF(used + 3 > FV_QUESTION_BYTES, ctx, FV_ERR_LIMIT,
                     "a question of more than %d bytes", (int)FV_QUESTION_BYTES);
        if (between) out[used++] = ' ';
        between = false;
        out[used++] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    out[used] = '\0';
    return FV_OK;
}

static void copy_word(const char *text, fv_token_span span, char out[FV_QUESTION_WORD_BYTES])
{
    size_t bytes = span.end - span.begin;
    if (bytes >= FV_QUESTION_WORD_BYTES) bytes = FV_QUESTION_WORD_BYTES - 1;
    while (bytes > 0 && bytes < span.end - span.begin &&
           ((unsigned char)text[span.begin + bytes] & 0xC0) == 0x80)
        bytes--; /* whole code points */
    memcpy(out, text + span.begin, bytes);
    out[bytes] = '\0';
}

fv_status fv_question_read(fv_model *model, const char *text, fv_question_words *out)
{
    fv_ctx *ctx = model->ctx;
    char clean[FV_QUESTION_BYTES];
    fv_encoding e = {.struct_size = sizeof e};
    FV_RETURN_IF(!model->source_encoder, ctx, FV_ERR_STATE, "a %s model reads no questions",
                 model->type);
    FV_TRY(fv_question_clean(ctx, text, clean));
    FV_TRY(fv_tokenizer_encode(model->source_encoder, clean, strlen(clean), 0, &e));
    FV_RETURN_IF(e.count < 1, ctx, FV_ERR_ARGUMENT, "the question has no words");
    FV_RETURN_IF(e.count > FV_QUESTION_WORDS, ctx, FV_ERR_LIMIT,
                 "a question of %zu words, expected at most %d", e.count, (int)FV_QUESTION_WORDS);
    out->count = (int64_t)e.count;
    for (size_t i = 0; i < e.count; i++) {
        out->id[i] = e.ids[i];
        out->is_known[i] = e.ids[i] != model->unknown;
        copy_word(clean, e.offsets[i], out->word[i]);
    }
    return FV_OK;
}
