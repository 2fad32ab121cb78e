/*
 * The normal forms of Unicode (UAX 15): take apart, order the marks, join again.
 */
#include <string.h>

#include "io/utf8.h"
#include "text/runes.h"
#include "text/unicode_data.h"

/* Hangul syllables are computed: 19 leading, 21 middle and 27 trailing letters or none. */
enum {
    LEAD = 0x1100,
    MIDDLE = 0x1161,
    TRAIL = 0x11A7, /* stands for "none" */
    SYLLABLE = 0xAC00,
    LEADS = 19,
    MIDDLES = 21,
    TRAILS = 28,
    SYLLABLES = LEADS * MIDDLES * TRAILS
};

/* ---- taking apart ---------------------------------------------------------------- */

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

static fv_status take_apart(fv_runes *r, bool compatible)
{
    r->made_count = 0;
    for (size_t i = 0; i < r->count; i++) {
        fv_rune rune = r->items[i];
        uint32_t hangul[3];
        const uint32_t *form = NULL;
        int n = decompose(rune.code, compatible, hangul, &form);
        if (n == 0) FV_FORWARD(fv_runes_put(r, rune));
        for (int k = 0; k < n; k++) {
            rune.code = form[k];
            FV_FORWARD(fv_runes_put(r, rune));
        }
    }
    fv_runes_take(r);
    return FV_OK;
}

/* ---- the order of marks ---------------------------------------------------------- */

/* Sorts one run of marks by their class, stably, in n log n: a hostile text may be one long run. */
static void sort_run(fv_rune *run, fv_rune *spare, size_t n)
{
    enum { SHORT = 16 };
    if (n <= SHORT) {
        for (size_t i = 1; i < n; i++) {
            fv_rune rune = run[i];
            int class = fv_unicode_combining(rune.code);
            size_t k = i;
            for (; k > 0 && fv_unicode_combining(run[k - 1].code) > class; k--)
                run[k] = run[k - 1];
            run[k] = rune;
        }
        return;
    }
    /* Classes are bytes: count them, then place each rune. */
    size_t place[257] = {0};
    for (size_t i = 0; i < n; i++)
        place[fv_unicode_combining(run[i].code) + 1]++;
    for (int c = 0; c < 256; c++)
        place[c + 1] += place[c];
    for (size_t i = 0; i < n; i++)
        spare[place[fv_unicode_combining(run[i].code)]++] = run[i];
    memcpy(run, spare, n * sizeof *run);
}

static fv_status order_marks(fv_runes *r)
{
    /* The other buffer serves as the sorter's space. */
    fv_rune *made = fv_mem_grow(&r->ctx->mem, r->made, &r->made_room, r->count, sizeof *made);
    FV_RETURN_IF(!made, r->ctx, FV_ERR_MEMORY, "out of memory");
    r->made = made;
    for (size_t i = 0; i < r->count;) {
        size_t end = i;
        while (end < r->count && fv_unicode_combining(r->items[end].code) != 0)
            end++;
        if (end - i > 1) sort_run(r->items + i, made, end - i);
        i = end > i ? end : i + 1;
    }
    return FV_OK;
}

/* ---- joining --------------------------------------------------------------------- */

static uint32_t join(uint32_t first, uint32_t second)
{
    if (first - LEAD < LEADS && second - MIDDLE < MIDDLES)
        return SYLLABLE + ((first - LEAD) * MIDDLES + (second - MIDDLE)) * TRAILS;
    if (first - SYLLABLE < SYLLABLES && (first - SYLLABLE) % TRAILS == 0 &&
        second - TRAIL - 1 < TRAILS - 1)
        return first + (second - TRAIL);
    return fv_unicode_join(first, second);
}

/* In place: the text only becomes shorter. A mark joins the last starter unless one of its own
 * class, or a starter, stands between them. */
static void join_all(fv_runes *r)
{
    size_t used = 0, starter = 0;
    bool have_starter = false;
    int last_class = 0; /* of what was kept since the starter; 0: nothing */
    for (size_t i = 0; i < r->count; i++) {
        fv_rune rune = r->items[i];
        int class = fv_unicode_combining(rune.code);
        bool adjacent = used == starter + 1;
        if (have_starter && fv_unicode_joins(rune.code) &&
            (adjacent || (last_class != 0 && last_class < class))) {
            uint32_t joined = join(r->items[starter].code, rune.code);
            if (joined) {
                r->items[starter].code = joined;
                continue;
            }
        }
        if (class == 0) {
            starter = used;
            have_starter = true;
        }
        last_class = class;
        r->items[used++] = rune;
    }
    r->count = used;
}

fv_status fv_runes_normalize(fv_runes *r, fv_normal_form form)
{
    FV_FORWARD(take_apart(r, form == FV_NFKC || form == FV_NFKD));
    FV_FORWARD(order_marks(r));
    if (form == FV_NFC || form == FV_NFKC) join_all(r);
    return FV_OK;
}

/* ---- whole texts ----------------------------------------------------------------- */

bool fv_text_is_normal(fv_normal_form form, const char *text, size_t bytes)
{
    const bool compatible = form == FV_NFKC || form == FV_NFKD;
    const bool joined = form == FV_NFC || form == FV_NFKC;
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
        if (joined && !compatible && code < 0x300) continue;
        if (joined && code - SYLLABLE < SYLLABLES) continue;
        if (fv_unicode_combining(code) != 0 || (joined && fv_unicode_joins(code))) return false;
        int n = decompose(code, compatible, hangul, &parts);
        if (n == 0) continue;
        /* A letter that is taken apart and joined again, with nothing before it that joins. */
        if (!joined || n != 2 || join(parts[0], parts[1]) != code) return false;
    }
    return true;
}

fv_status fv_text_normalize(fv_ctx *ctx, fv_normal_form form, const char *text, size_t bytes,
                            fv_text *out)
{
    FV_RETURN_IF((unsigned)form > FV_NFKD, ctx, FV_ERR_ARGUMENT, "there is no normal form %d",
                 (int)form);
    if (fv_text_is_normal(form, text, bytes)) {
        FV_FORWARD(fv_text_reserve(ctx, out, bytes));
        out->bytes = 0;
        return fv_text_append(ctx, out, text, bytes);
    }
    fv_runes r;
    fv_runes_init(&r, ctx);
    fv_status s = fv_runes_decode(&r, text, bytes);
    if (s == FV_OK) s = fv_runes_normalize(&r, form);
    if (s == FV_OK) s = fv_runes_encode(&r, out);
    fv_runes_free(&r);
    return s;
}
