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
                               const int32_t *ids, int64_t count, fv_text *text, bool *stopped)
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

/* The bytes of a text that can be reported: not what may become a stop text, nor the replacement
 * characters at its end, which further bytes may turn into something else. */
static size_t certain(const fv_generate_config *cfg, const char *text, size_t bytes)
{
    static const char unknown[] = "\xef\xbf\xbd";
    size_t sure = bytes;
    while (sure >= 3 && memcmp(text + sure - 3, unknown, 3) == 0)
        sure -= 3;
    for (int i = 0; i < cfg->stop_count; i++)
        for (size_t n = strlen(cfg->stop[i]); n > 0; n--)
            if (n <= sure && memcmp(text + sure - n, cfg->stop[i], n) == 0) {
                sure -= n;
                break;
            }
    return sure;
}

static bool append(fv_text_stream *l, fv_stream_output *o, int64_t token)
{
    if (o->count == o->room) {
        int64_t room = o->room ? 2 * o->room : 64;
        int32_t *more = fv_mem_alloc(&l->ctx->mem, (size_t)room * sizeof *more);
        if (!more) return false;
        if (o->count) memcpy(more, o->ids, (size_t)o->count * sizeof *more);
        if (o->ids) fv_mem_free(&l->ctx->mem, o->ids, (size_t)o->room * sizeof *o->ids);
        o->ids = more;
        o->room = room;
    }
    o->ids[o->count++] = (int32_t)token;
    return true;
}

static bool is_end(const fv_text_stream *l, int64_t token)
{
    bool ends = token == l->end;
    for (int i = 0; i < l->search->extra_eos_count; i++)
        ends = ends || l->search->extra_eos[i] == token;
    return ends;
}

/* Reports new text; true: continue. */
static bool report(const fv_text_stream *l, fv_stream_output *o, int64_t number,
                   const fv_text *text, size_t sure)
{
    if (!l->cfg->on_text || sure <= o->reported) return true;
    const char *from = text->data + o->reported;
    const size_t bytes = sure - o->reported;
    o->reported = sure;
    return l->cfg->on_text(l->cfg->on_text_user, number, from, bytes);
}

bool fv_text_stream_on_token(void *user, int64_t number, int copy, int64_t token)
{
    fv_text_stream *l = user;
    fv_stream_output *o = &l->all[number * l->outputs + copy];
    const bool ends = is_end(l, token);
    if (!ends && !append(l, o, token)) {
        l->status = fv_fail(l->ctx, FV_ERR_MEMORY, "generate: no memory for a token");
        return false;
    }
    fv_text text = {0};
    bool stopped = false;
    const fv_status status =
        fv_decode_until_stop(l->ctx, l->tok, l->cfg, o->ids, o->count, &text, &stopped);
    if (status != FV_OK) {
        l->status = status;
        return false;
    }
    bool proceed = !stopped;
    if (text.data && copy == 0) {
        const size_t sure = ends || stopped ? text.bytes : certain(l->cfg, text.data, text.bytes);
        proceed = report(l, o, number, &text, sure) && proceed;
    }
    fv_text_free(l->ctx, &text);
    o->stopped = !proceed;
    return proceed;
}

fv_status fv_text_stream_flush(fv_text_stream *l, int64_t texts)
{
    for (int64_t i = 0; i < texts && l->cfg->on_text && l->status == FV_OK; i++) {
        fv_stream_output *o = &l->all[i * l->outputs];
        fv_text text = {0};
        bool stopped;
        if (o->stopped || o->count == 0) continue;
        l->status = fv_decode_until_stop(l->ctx, l->tok, l->cfg, o->ids, o->count, &text, &stopped);
        if (l->status == FV_OK && text.data) o->stopped = !report(l, o, i, &text, text.bytes);
        fv_text_free(l->ctx, &text);
    }
    return l->status;
}
