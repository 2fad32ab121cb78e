/*
 * A "precompiled charsmap", SentencePiece's table of texts and what they are normalized to: four
 * bytes with the size of a double-array trie, the trie, and the normalized texts with a NUL behind
 * each, whose places are the trie's values.
 *
 *     fv_charsmap map;
 *     s = fv_charsmap_read(ctx, &arena, blob, bytes, &map);      // FORMAT: not such a table
 *     fv_string form;
 *     size_t n = fv_charsmap_find(&map, text, left, true, &form);  // n bytes become the form
 */
#ifndef FV_TEXT_CHARSMAP_H
#define FV_TEXT_CHARSMAP_H

#include "base/ctx.h"
#include "fovea/unicode.h"
#include "io/arena.h"

typedef struct fv_charsmap {
    const uint32_t *units;
    size_t unit_count;
    const char *forms;
    size_t form_bytes;
} fv_charsmap;

/* The table lives in the arena; the blob is not needed afterwards. Fails: FORMAT, MEMORY. */
fv_status fv_charsmap_read(fv_ctx *ctx, fv_arena *arena, const char *blob, size_t bytes,
                           fv_charsmap *out);

/* Bytes of the longest, or the shortest, entry that `text` begins with; 0: none. Text and forms are
 * whole characters. */
size_t fv_charsmap_find(const fv_charsmap *map, const char *text, size_t bytes, bool longest,
                        fv_string *form);

#endif
