/* Turns tokens into text during generation: whole characters, stop texts. */
#include <string.h>

#include "base/ctx.h"
#include "models/generate.h"

/* Where the first stop text begins, or `bytes`. */
static size_t first_stop(const fv_generate_config *cfg, const char *text, size_t bytes)
{
    size_t first = bytes;
    for (int i = 0; i < cfg->stop_count; i++) {
        const size_t n = strlen(cfg->stop[i]);
        const char *at =
            n ? memmem(text, first + n < bytes ? first + n : bytes, cfg->stop[i], n) : NULL;
        if (at && (size_t)(at - text) < first) first = (size_t)(at - text);
    }
    return first;
}

fv_status fv_decode_until_stop(fv_ctx *ctx, const fv_tokenizer *tok, const fv_generate_config *cfg,
                               const int64_t *ids, int64_t count, fv_text *text, bool *stopped)
{
    *stopped = false;
    if (!tok) return FV_OK;
    const unsigned flags = cfg->specials ? 0 : FV_TOKENIZER_SKIP_SPECIALS;
    FV_TRY(fv_tokenizer_decode(ctx, tok, ids, (size_t)count, flags, text));
    if (!text->data) return FV_OK;
    const size_t end = first_stop(cfg, text->data, text->bytes);
    *stopped = end < text->bytes;
    text->bytes = end;
    return FV_OK;
}

/* How many bytes of a text can be reported: not what may become a stop text, nor the replacement
 * characters (U+FFFD) at its end, which further bytes may turn into another character. */
static size_t reportable_bytes(const fv_generate_config *cfg, const char *text, size_t bytes)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t reportable = bytes;
    while (reportable >= 3 && memcmp(text + reportable - 3, replacement, 3) == 0)
        reportable -= 3;
    for (int i = 0; i < cfg->stop_count; i++)
        for (size_t n = strlen(cfg->stop[i]); n > 0; n--)
            if (n <= reportable && memcmp(text + reportable - n, cfg->stop[i], n) == 0) {
                reportable -= n;
                break;
            }
    return reportable;
}

static bool append(fv_text_stream *stream, fv_stream_output *o, int64_t token)
{
    if (o->count == o->capacity) {
        int64_t capacity = o->capacity ? 2 * o->capacity : 64;
        int64_t *larger = fv_mem_alloc(&stream->ctx->mem, (size_t)capacity * sizeof *larger);
        if (!larger) return false;
        if (o->count) memcpy(larger, o->ids, (size_t)o->count * sizeof *larger);
        if (o->ids) fv_mem_free(&stream->ctx->mem, o->ids, (size_t)o->capacity * sizeof *o->ids);
        o->ids = larger;
        o->capacity = capacity;
    }
    o->ids[o->count++] = token;
    return true;
}

static bool is_eos(const fv_text_stream *stream, int64_t token)
{
    bool ends = token == stream->eos;
    for (int i = 0; i < stream->search->extra_eos_count; i++)
        ends = ends || stream->search->extra_eos[i] == token;
    return ends;
}

/* Reports new text; true: continue. */
static bool report(const fv_text_stream *stream, fv_stream_output *o, int64_t number,
                   const fv_text *text, size_t reportable)
{
    if (!stream->cfg->on_text || reportable <= o->reported) return true;
    const char *from = text->data + o->reported;
    const size_t bytes = reportable - o->reported;
    o->reported = reportable;
    return stream->cfg->on_text(stream->cfg->on_text_user, number, from, bytes);
}

bool fv_text_stream_on_token(void *user, int64_t number, int sample, int64_t token)
{
    fv_text_stream *stream = user;
    fv_stream_output *o = &stream->outputs[number * stream->outputs_per_text + sample];
    const bool ends = is_eos(stream, token);
    if (!ends && !append(stream, o, token)) {
        stream->status = fv_fail(stream->ctx, FV_ERR_MEMORY, "generate: no memory for a token");
        return false;
    }
    fv_text text = {0};
    bool stopped = false;
    const fv_status status = fv_decode_until_stop(stream->ctx, stream->tok, stream->cfg, o->ids,
                                                  o->count, &text, &stopped);
    if (status != FV_OK) {
        stream->status = status;
        return false;
    }
    bool proceed = !stopped;
    if (text.data && sample == 0) {
        const size_t reportable =
            ends || stopped ? text.bytes : reportable_bytes(stream->cfg, text.data, text.bytes);
        proceed = report(stream, o, number, &text, reportable) && proceed;
    }
    fv_text_free(stream->ctx, &text);
    o->stopped = !proceed;
    return proceed;
}

fv_status fv_text_stream_flush(fv_text_stream *stream, int64_t texts)
{
    for (int64_t i = 0; i < texts && stream->cfg->on_text && stream->status == FV_OK; i++) {
        fv_stream_output *o = &stream->outputs[i * stream->outputs_per_text];
        fv_text text = {0};
        bool stopped;
        if (o->stopped || o->count == 0) continue;
        stream->status = fv_decode_until_stop(stream->ctx, stream->tok, stream->cfg, o->ids,
                                              o->count, &text, &stopped);
        if (stream->status == FV_OK && text.data)
            o->stopped = !report(stream, o, i, &text, text.bytes);
        fv_text_free(stream->ctx, &text);
    }
    return stream->status;
}
