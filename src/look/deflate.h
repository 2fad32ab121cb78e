/*
 * A small zlib encoder: one block with the fixed codes of RFC 1951 and matches found by a hash of
 * three bytes. Pictures have long runs, so this comes close to a full encoder at a fraction of the
 * code.
 */
#ifndef FV_LOOK_DEFLATE_H
#define FV_LOOK_DEFLATE_H

#include "look/writer.h"

/* Appends the zlib stream (header, block, Adler-32) of n bytes. `likely` are distances, up to
 * 32768, at which bytes often repeat: the previous pixel, the previous row. */
void fv_deflate(fv_writer *o, const unsigned char *data, size_t n, const size_t likely[2]);

#endif
