/*
 * A small zlib stream writer: one block with the fixed codes of RFC 1951 and matches found by a
 * hash of three bytes. Pictures have long runs, so this comes close to a full compressor at a
 * fraction of its size.
 */
#ifndef FV_LOOK_DEFLATE_H
#define FV_LOOK_DEFLATE_H

#include "look/writer.h"

/* Appends the zlib stream (header, block, Adler-32) of n bytes. `likely` names distances, up to
 * 32768, at which bytes often repeat: the pixel before, the row before. */
void fv_deflate(fv_writer *o, const unsigned char *data, size_t n, const size_t likely[2]);

#endif
