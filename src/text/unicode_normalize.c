/*
 * Unicode normalization (UAX 15): decompose, order the marks, compose.
 */
#include <string.h>

#include "io/utf8.h"
#include "text/codepoints.h"
#include "text/unicode_data.h"

/* Hangul syllables are computed: 19 leading, 21 vowel and 27 trailing letters or none. */
enum {
    LEAD = 0x1100,
    MIDDLE = 0x1161,
    TRAIL = 0x11A7, /* means "none" */
    SYLLABLE = 0xAC00,
    LEADS = 19,
    MIDDLES = 21,
    TRAILS = 28,
    SYLLABLES = LEADS * MIDDLES * TRAILS
};

/* ---- decomposition --------------------------------------------------------------- */

static int decompose(uint32_t code, bool compatible, uint32_t hangul[3], const uint32_t **form)
{
    uint32_t number = code - SYLLABLE;
    if (number >= SYLLABLES) return fv_unicode_decompose(code, compatible, form);
    hangul[0] = LEAD + number / (MIDDLES * TRAILS);
    hangul[1] = MIDDLE + number / TRAILS % MIDDLES;
    hangul[2] = TRAIL + number % TRAILS;
    *form = hangul;
    return hangul[2] == TRAIL ? 2 : 3;
}

static fv_status decompose_all(fv_codepoints *r, bool compatible)
{
    r->next_count = 0;
    for (size_t i = 0; i < r->count; i++) {
        fv_codepoint point = r->items[i];
        uint32_t hangul[3];
        const uint32_t *form = NULL;
        int n = r->keeps && r->keeps(point.code, compatible)
                    ? 0
                    : decompose(point.code, compatible, hangul, &form);
        if (n == 0) FV_TRY(fv_codepoints_push(r, point));
        for (int k = 0; k < n; k++) {
            point.code = form[k];
            FV_TRY(fv_codepoints_push(r, point));
        }
    }
    fv_codepoints_swap(r);
    return FV_OK;
}

/* ---- canonical ordering ---------------------------------------------------------- */

/* Stable sort of one run of marks by combining class. Linear for long runs: a hostile text may be
 * one long run. */
static void sort_run(fv_codepoint *run, fv_codepoint *spare, size_t n)
{
    enum { SHORT = 16 };
    if (n <= SHORT) {
        for (size_t i = 1; i < n; i++) {
            fv_codepoint point = run[i];
            int class = fv_unicode_combining(point.code);
            size_t k = i;
            for (; k > 0 && fv_unicode_combining(run[k - 1].code) > class; k--)
                run[k] = run[k - 1];
            run[k] = point;
        }
        return;
    }
    /* Counting sort: classes are bytes. */
    size_t place[257] = {0};
    for (size_t i = 0; i < n; i++)
        place[fv_unicode_combining(run[i].code) + 1]++;
    for (int c = 0; c < 256; c++)
        place[c + 1] += place[c];
    for (size_t i = 0; i < n; i++)
        spare[place[fv_unicode_combining(run[i].code)]++] = run[i];
    memcpy(run, spare, n * sizeof *run);
}

static fv_status order_marks(fv_codepoints *r)
{
    /* The other buffer is the sort's scratch space. */
    fv_codepoint *next = fv_mem_grow(&r->ctx->mem, r->next, &r->next_room, r->count, sizeof *next);
    FV_RETURN_IF(!next, r->ctx, FV_ERR_MEMORY, "out of memory");
    r->next = next;
    for (size_t i = 0; i < r->count;) {
        size_t end = i;
        while (end < r->count && fv_unicode_combining(r->items[end].code) != 0)
            end++;
        if (end - i > 1) sort_run(r->items + i, next, end - i);
        i = end > i ? end : i + 1;
    }
    return FV_OK;
}

/* ---- composition ----------------------------------------------------------------- */

static uint32_t compose(uint32_t first, uint32_t second)
{
    if (first - LEAD < LEADS && second - MIDDLE < MIDDLES)
        return SYLLABLE + ((first - LEAD) * MIDDLES + (second - MIDDLE)) * TRAILS;
    if (first - SYLLABLE < SYLLABLES && (first - SYLLABLE) % TRAILS == 0 &&
        second - TRAIL - 1 < TRAILS - 1)
        return first + (second - TRAIL);
    return fv_unicode_compose(first, second);
}

/* Composes in place, since text only becomes shorter. A mark composes with the last starter unless
 * a starter or a mark of the same class is between them. */
static void compose_all(fv_codepoints *r)
{
    size_t used = 0, starter = 0;
    bool have_starter = false;
    int last_class = 0; /* class of the last mark kept since the starter; 0: none */
    for (size_t i = 0; i < r->count; i++) {
        fv_codepoint point = r->items[i];
        int class = fv_unicode_combining(point.code);
        bool adjacent = used == starter + 1;
        if (have_starter && fv_unicode_can_compose(point.code) &&
            (adjacent || (last_class != 0 && last_class < class))) {
            uint32_t composed = compose(r->items[starter].code, point.code);
            if (composed) {
                r->items[starter].code = composed;
                continue;
            }
        }
        if (class == 0) {
            starter = used;
            have_starter = true;
        }
        last_class = class;
        r->items[used++] = point;
    }
    r->count = used;
}

fv_status fv_codepoints_normalize(fv_codepoints *r, fv_normal_form form)
{
    FV_TRY(decompose_all(r, form == FV_NORMAL_FORM_NFKC || form == FV_NORMAL_FORM_NFKD));
    FV_TRY(order_marks(r));
    if (form == FV_NORMAL_FORM_NFC || form == FV_NORMAL_FORM_NFKC) compose_all(r);
    return FV_OK;
}

/* ---- whole texts ----------------------------------------------------------------- */

bool fv_text_is_normal(const char *text, size_t bytes, fv_normal_form form)
{
    const bool compatible = form == FV_NORMAL_FORM_NFKC || form == FV_NORMAL_FORM_NFKD;
    const bool composed = form == FV_NORMAL_FORM_NFC || form == FV_NORMAL_FORM_NFKC;
    for (size_t i = 0; i < bytes;) {
        if (!(text[i] & 0x80)) {
            i++;
            continue;
        }
        size_t length = fv_utf8_length(text + i, bytes - i);
        if (length == 0) return false;
        uint32_t code = fv_code_of(text + i, length), hangul[3];
        const uint32_t *parts;
        i += length;
        if (composed && !compatible && code < 0x300) continue;
        if (composed && code - SYLLABLE < SYLLABLES) continue;
        if (fv_unicode_combining(code) != 0 || (composed && fv_unicode_can_compose(code)))
            return false;
        int n = decompose(code, compatible, hangul, &parts);
        if (n == 0) continue;
        /* A letter that decomposes and composes to itself, and cannot compose with what precedes
         * it. */
        if (!composed || n != 2 || compose(parts[0], parts[1]) != code) return false;
    }
    return true;
}

fv_status fv_text_normalize(fv_ctx *ctx, const char *text, size_t bytes, fv_normal_form form,
                            fv_text *out)
{
    FV_RETURN_IF((unsigned)form > FV_NORMAL_FORM_NFKD, ctx, FV_ERR_ARGUMENT,
                 "unknown normal form %d", (int)form);
    if (fv_text_is_normal(text, bytes, form)) {
        FV_TRY(fv_text_reserve(ctx, out, bytes));
        out->bytes = 0;
        return fv_text_append(ctx, out, text, bytes);
    }
    fv_codepoints r;
    fv_codepoints_init(&r, ctx);
    fv_status s = fv_codepoints_decode(&r, text, bytes);
    if (s == FV_OK) s = fv_codepoints_normalize(&r, form);
    if (s == FV_OK) s = fv_codepoints_encode(&r, out);
    fv_codepoints_free(&r);
    return s;
}
