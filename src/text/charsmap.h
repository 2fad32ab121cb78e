/*
 * A "precompiled charsmap", SentencePiece's normalization table: the size of a double-array trie in
 * four bytes, the trie, and the NUL-terminated replacements; the values of the trie are their
 * offsets.
 *
 *     fv_charsmap map;
 *     s = fv_charsmap_read(ctx, &arena, blob, bytes, &map);      // FORMAT: not a charsmap
 *     fv_string form;
 *     size_t n = fv_charsmap_find(&map, text, left, true, &form);  // n bytes become `form`
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

/* Copies the table to the arena; the blob may be freed afterwards. Fails: FORMAT, MEMORY. */
fv_status fv_charsmap_read(fv_ctx *ctx, fv_arena *arena, const char *blob, size_t bytes,
                           fv_charsmap *out);

/* Length of the longest (or shortest) entry that `text` begins with; 0: none. Entries and forms are
 * whole characters. Counts the steps it took: a corrupt table can lead through all of the text. */
size_t fv_charsmap_find(const fv_charsmap *map, const char *text, size_t bytes, bool longest,
                        fv_string *form, size_t *steps);

#endif
