/* Data sets that need no input: dates, letters that are copied, reversed or sorted, and sentences.
 */
#include <string.h>

#include "base/rng.h"
#include "data/generated.h"
#include "fovea/data.h"

/* ---- held-out sources, each once --------------------------------------------------- */

/* Digests of sources in a hash table with open addressing; 0 is a free slot. */
typedef struct seen_set {
    uint64_t *slots;
    size_t count; /* a power of two, four times what it will hold */
} seen_set;

static bool insert_if_new(seen_set *seen, uint64_t digest)
{
    digest |= 1;
    size_t at = (size_t)(digest >> 1) & (seen->count - 1);
    for (; seen->slots[at]; at = (at + 1) & (seen->count - 1))
        if (seen->slots[at] == digest) return false;
    seen->slots[at] = digest;
    return true;
}

/* ---- drawing until each part is full ------------------------------------------------ */

static fv_status fill(fv_made_sink *sink, fv_draw_fn draw, seen_set *seen, fv_drawn *pair)
{
    const fv_made_config *cfg = sink->cfg;
    const int64_t wanted[FV_MADE_PARTS] = {cfg->pairs, cfg->held_out, cfg->held_out};
    int64_t left = cfg->pairs + 2 * cfg->held_out;
    /* Most draws belong to the training part, two in a hundred to each other part. If ten times as
     * many draws as needed do not fill the parts, there are too few different sequences. */
    const uint64_t most = 10000 + 10 * (uint64_t)cfg->pairs + 500 * (uint64_t)cfg->held_out;
    for (uint64_t number = 0; left > 0; number++) {
        FV_RETURN_IF(number == most, sink->ctx, FV_ERR_ARGUMENT,
                     "there are too few different sequences of up to %lld symbols for %lld "
                     "held-out ones",
                     (long long)cfg->length, (long long)cfg->held_out);
        draw(cfg, number, pair);
        const fv_made_part part = pair->part;
        if (sink->report.pairs[part] == wanted[part]) continue;
        const fv_string source = {pair->source, strlen(pair->source)};
        const fv_string target = {pair->target, strlen(pair->target)};
        if (part != FV_MADE_TRAIN &&
            !insert_if_new(seen, fv_text_digest(source.text, source.bytes))) {
            sink->report.repeated++;
            continue;
        }
        FV_TRY(fv_made_put(sink, part, source, target));
        left--;
    }
    return FV_OK;
}

fv_status fv_made_generate(fv_made_sink *sink, fv_draw_fn draw)
{
    fv_mem *mem = &sink->ctx->mem;
    seen_set seen = {.count = 64};
    while (seen.count < 8 * (size_t)sink->cfg->held_out)
        seen.count *= 2;
    seen.slots = fv_mem_zalloc(mem, seen.count * sizeof *seen.slots);
    fv_drawn *pair = fv_mem_zalloc(mem, sizeof *pair);
    fv_status status = seen.slots && pair ? fill(sink, draw, &seen, pair)
                                          : fv_fail(sink->ctx, FV_ERR_MEMORY, "out of memory");
    fv_mem_free(mem, pair, sizeof *pair);
    fv_mem_free(mem, seen.slots, seen.count * sizeof *seen.slots);
    return status;
}

/* ---- dates --------------------------------------------------------------------------- */

/* Held-out pairs have test dates; the digest of a date selects validation or test. */
void fv_draw_date(const fv_made_config *cfg, uint64_t number, fv_drawn *out)
{
    fv_date_pair p;
    const fv_dates_part half = number % 2 ? FV_DATES_TEST : FV_DATES_TRAIN;
    fv_date_pair_make(cfg->seed, number / 2, half, &p);
    memcpy(out->source, p.written, sizeof p.written);
    memcpy(out->target, p.iso, sizeof p.iso);
    out->label = NULL;
    out->part = half == FV_DATES_TRAIN                     ? FV_MADE_TRAIN
                : fv_text_digest(p.iso, strlen(p.iso)) % 2 ? FV_MADE_VALID
                                                           : FV_MADE_TEST;
}

fv_status fv_make_dates(fv_made_sink *sink) { return fv_made_generate(sink, fv_draw_date); }

/* ---- letters ------------------------------------------------------------------------- */

/* "c a b": letters with blanks between them, so that words and characters are both tokens. */
static size_t draw_letters(const fv_made_config *cfg, uint64_t number, char *out)
{
    const uint64_t key = fv_rng_key(cfg->seed, 0x6c657474, 0);
    uint32_t r[4];
    fv_rng_draw(key, number, 0, r);
    const size_t least = (size_t)cfg->shortest;
    const size_t count = least + r[0] % ((size_t)cfg->length - least + 1);
    for (size_t i = 0; i < count; i++) {
        if (i % 4 == 0) fv_rng_draw(key, number, 1 + i / 4, r);
        out[2 * i] = (char)('a' + r[i % 4] % 26);
        out[2 * i + 1] = i + 1 < count ? ' ' : '\0';
    }
    return count;
}

static size_t draw_source(const fv_made_config *cfg, uint64_t number, fv_drawn *out)
{
    const size_t count = draw_letters(cfg, number, out->source);
    out->label = NULL;
    out->part = fv_made_part_of(out->source, 2 * count - 1);
    memcpy(out->target, out->source, 2 * count);
    return count;
}

void fv_draw_copy(const fv_made_config *cfg, uint64_t number, fv_drawn *out)
{
    draw_source(cfg, number, out);
}

void fv_draw_reverse(const fv_made_config *cfg, uint64_t number, fv_drawn *out)
{
    const size_t count = draw_source(cfg, number, out);
    for (size_t i = 0; i < count; i++)
        out->target[2 * i] = out->source[2 * (count - 1 - i)];
}

void fv_draw_sort(const fv_made_config *cfg, uint64_t number, fv_drawn *out)
{
    const size_t count = draw_source(cfg, number, out);
    size_t of[26] = {0}, at = 0;
    for (size_t i = 0; i < count; i++)
        of[out->source[2 * i] - 'a']++;
    for (int letter = 0; letter < 26; letter++)
        for (; of[letter] > 0; of[letter]--)
            out->target[2 * at++] = (char)('a' + letter);
}

fv_status fv_make_copy(fv_made_sink *sink) { return fv_made_generate(sink, fv_draw_copy); }
fv_status fv_make_reverse(fv_made_sink *sink) { return fv_made_generate(sink, fv_draw_reverse); }
fv_status fv_make_sort(fv_made_sink *sink) { return fv_made_generate(sink, fv_draw_sort); }
fv_status fv_make_sentences(fv_made_sink *sink) { return fv_made_generate(sink, fv_draw_sentence); }
