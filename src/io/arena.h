/*
 * Memory that is freed all at once: what a parsed text or an open file points into.
 *
 *     fv_arena a;
 *     fv_arena_init(&a, &ctx->mem);
 *     char *copy = fv_arena_text(&a, bytes, n);   // NULL: out of memory
 *     fv_arena_free(&a);
 */
#ifndef FV_IO_ARENA_H
#define FV_IO_ARENA_H

#include "base/memory.h"

typedef struct fv_arena {
    fv_mem *mem;
    struct fv_arena_block *blocks;
    char *next;  /* free bytes of the newest block */
    size_t left; /* how many */
    size_t grow; /* size of the next block */
} fv_arena;

void fv_arena_init(fv_arena *arena, fv_mem *mem);
/* 16-byte aligned and uninitialised, or NULL. */
void *fv_arena_alloc(fv_arena *arena, size_t bytes);
/* count x bytes, checked. */
void *fv_arena_array(fv_arena *arena, size_t count, size_t bytes);
/* A copy of n bytes with a NUL behind it. */
char *fv_arena_text(fv_arena *arena, const char *text, size_t n);
void fv_arena_free(fv_arena *arena);

#endif
