#include "text/charsmap.h"

#include <string.h>

#include "io/utf8.h"

/* A unit of the double array: the label of the edge to it, whether it has a value, and the offset
 * of its children. A value is a separate unit. */
static uint32_t label(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
static bool has_value(uint32_t unit) { return unit >> 8 & 1; }
static size_t offset(uint32_t unit) { return (size_t)(unit >> 10) << ((unit >> 6) & 8); }

static uint32_t word_at(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

fv_status fv_charsmap_read(fv_ctx *ctx, fv_arena *arena, const char *blob, size_t bytes,
                           fv_charsmap *out)
{
    const size_t trie = bytes > 4 ? word_at(blob) : 0;
    FV_RETURN_IF(trie < 4 || trie % 4 != 0 || trie >= bytes - 4, ctx, FV_ERR_FORMAT,
                 "charsmap: %zu bytes cannot hold a trie of %zu", bytes, trie);
    const char *forms = blob + 4 + trie;
    const size_t form_bytes = bytes - 4 - trie;
    FV_RETURN_IF(forms[form_bytes - 1] != '\0' || !fv_utf8_valid(forms, form_bytes), ctx,
                 FV_ERR_FORMAT, "charsmap: the replacements are not NUL-terminated UTF-8");
    uint32_t *units = fv_arena_array(arena, trie / 4, sizeof *units);
    char *copy = fv_arena_text(arena, forms, form_bytes);
    FV_RETURN_IF(!units || !copy, ctx, FV_ERR_MEMORY, "charsmap: out of memory");
    for (size_t i = 0; i < trie / 4; i++)
        units[i] = word_at(blob + 4 + 4 * i);
    *out = (fv_charsmap){units, trie / 4, copy, form_bytes};
    return FV_OK;
}

size_t fv_charsmap_find(const fv_charsmap *map, const char *text, size_t bytes, bool longest,
                        fv_string *form, size_t *steps)
{
    size_t found = 0, node = offset(map->units[0]);
    for (size_t i = 0; i < bytes; i++, ++*steps) {
        const unsigned char byte = (unsigned char)text[i];
        node ^= byte;
        if (node >= map->unit_count || label(map->units[node]) != byte) break;
        const uint32_t unit = map->units[node];
        node ^= offset(unit);
        if (!has_value(unit) || node >= map->unit_count) continue;
        /* A corrupt table may point outside the replacements, or into a character. */
        const size_t value = map->units[node] & 0x7FFFFFFF;
        if (value >= map->form_bytes || (map->forms[value] & 0xC0) == 0x80) continue;
        if (i + 1 < bytes && (text[i + 1] & 0xC0) == 0x80) continue;
        found = i + 1;
        *form = (fv_string){map->forms + value, strlen(map->forms + value)};
        *steps += form->bytes / 8;
        if (!longest) break;
    }
    return found;
}
