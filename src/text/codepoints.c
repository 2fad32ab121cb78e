#include "text/codepoints.h"

#include <string.h>

#include "base/checked_math.h"
#include "io/utf8.h"
#include "text/hf_unicode.h"
#include "text/unicode_data.h"

/* ---- strings --------------------------------------------------------------------- */

void fv_text_free(fv_ctx *ctx, fv_text *text)
{
    fv_mem_free(&ctx->mem, text->data, text->capacity);
    *text = (fv_text){0};
}

fv_status fv_text_reserve(fv_ctx *ctx, fv_text *text, size_t bytes)
{
    size_t need;
    char *data = NULL;
    if (fv_checked_add_size(bytes, 1, &need))
        data = fv_mem_grow(&ctx->mem, text->data, &text->capacity, need, 1);
    FV_RETURN_IF(!data, ctx, FV_ERR_MEMORY, "out of memory");
    text->data = data;
    return FV_OK;
}

fv_status fv_text_append(fv_ctx *ctx, fv_text *text, const char *bytes, size_t n)
{
    size_t need;
    FV_RETURN_IF(!fv_checked_add_size(text->bytes, n, &need), ctx, FV_ERR_MEMORY, "out of memory");
    FV_TRY(fv_text_reserve(ctx, text, need));
    if (n) memcpy(text->data + text->bytes, bytes, n);
    text->bytes = need;
    text->data[need] = '\0';
    return FV_OK;
}

/* ---- code points ----------------------------------------------------------------- */

void fv_codepoints_init(fv_codepoints *r, fv_ctx *ctx) { *r = (fv_codepoints){.ctx = ctx}; }

void fv_codepoints_free(fv_codepoints *r)
{
    fv_mem_free(&r->ctx->mem, r->items, r->room * sizeof *r->items);
    fv_mem_free(&r->ctx->mem, r->next, r->next_room * sizeof *r->next);
    *r = (fv_codepoints){.ctx = r->ctx, .budget = r->budget};
}

fv_status fv_codepoints_decode(fv_codepoints *r, const char *text, size_t bytes)
{
    FV_RETURN_IF(bytes >= UINT32_MAX, r->ctx, FV_ERR_LIMIT, "the text has 4 GiB or more");
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += (text[i] & 0xC0) != 0x80;
    fv_codepoint *items = fv_mem_grow(&r->ctx->mem, r->items, &r->room, count, sizeof *items);
    FV_RETURN_IF(!items, r->ctx, FV_ERR_MEMORY, "out of memory");
    r->items = items;
    r->count = 0;
    for (size_t i = 0; i < bytes;) {
        size_t length = fv_utf8_length(text + i, bytes - i);
        FV_RETURN_IF(length == 0, r->ctx, FV_ERR_FORMAT, "invalid UTF-8 at byte %zu", i);
        items[r->count++] = (fv_codepoint){.code = fv_code_of(text + i, length),
                                           .begin = (uint32_t)i,
                                           .end = (uint32_t)(i + length)};
        i += length;
    }
    return FV_OK;
}

fv_status fv_codepoints_encode(const fv_codepoints *r, fv_text *out)
{
    size_t room;
    FV_RETURN_IF(!fv_checked_mul_size(r->count, 4, &room), r->ctx, FV_ERR_MEMORY, "out of memory");
    FV_TRY(fv_text_reserve(r->ctx, out, room));
    size_t used = 0;
    for (size_t i = 0; i < r->count; i++)
        used += fv_utf8_put(r->items[i].code, out->data + used);
    out->data[used] = '\0';
    out->bytes = used;
    return FV_OK;
}

fv_status fv_codepoints_push(fv_codepoints *r, fv_codepoint point)
{
    if (r->budget && r->next_count >= r->budget->max_made)
        return fv_text_budget_make(r->budget, r->next_count + 1);
    if (r->next_count == r->next_room) {
        fv_codepoint *next =
            fv_mem_grow(&r->ctx->mem, r->next, &r->next_room, r->next_count + 1, sizeof *next);
        FV_RETURN_IF(!next, r->ctx, FV_ERR_MEMORY, "out of memory");
        r->next = next;
    }
    r->next[r->next_count++] = point;
    return FV_OK;
}

void fv_codepoints_swap(fv_codepoints *r)
{
    fv_codepoint *items = r->items;
    size_t room = r->room;
    r->items = r->next;
    r->room = r->next_room;
    r->count = r->next_count;
    r->next = items;
    r->next_room = room;
    r->next_count = 0;
}

/* ---- lower case ------------------------------------------------------------------ */

/* A sigma is final if a letter precedes it and none follows. Case-ignorable characters, such as
 * apostrophes and marks, are skipped. */
static bool ends_word(const fv_codepoints *r, size_t at)
{
    size_t i = at;
    while (i > 0 && fv_unicode_sigma_view(r->items[i - 1].code) == FV_SIGMA_SKIPS)
        i--;
    if (i == 0 || fv_unicode_sigma_view(r->items[i - 1].code) != FV_SIGMA_CASED) return false;
    for (i = at + 1; i < r->count; i++) {
        fv_sigma_view view = fv_unicode_sigma_view(r->items[i].code);
        if (view != FV_SIGMA_SKIPS) return view != FV_SIGMA_CASED;
    }
    return true;
}

fv_status fv_codepoints_lower(fv_codepoints *r, bool whole)
{
    enum { CAPITAL_SIGMA = 0x3A3, FINAL_SIGMA = 0x3C2 };
    r->next_count = 0;
    for (size_t i = 0; i < r->count; i++) {
        fv_codepoint point = r->items[i];
        uint32_t lower[2];
        int n = whole ? fv_unicode_lower(point.code, lower) : fv_hf_lower(point.code, lower);
        if (whole && point.code == CAPITAL_SIGMA && ends_word(r, i)) lower[0] = FINAL_SIGMA;
        for (int k = 0; k < n; k++) {
            point.code = lower[k];
            FV_TRY(fv_codepoints_push(r, point));
        }
    }
    fv_codepoints_swap(r);
    return FV_OK;
}

fv_status fv_text_lower(fv_ctx *ctx, const char *text, size_t bytes, fv_text *out)
{
    fv_codepoints r;
    fv_codepoints_init(&r, ctx);
    fv_status s = fv_codepoints_decode(&r, text, bytes);
    if (s == FV_OK) s = fv_codepoints_lower(&r, true);
    if (s == FV_OK) s = fv_codepoints_encode(&r, out);
    fv_codepoints_free(&r);
    return s;
}
