/*
 * An arena allocator: everything is freed at once. Parsed documents and open files point into one.
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
    char *next;  /* first free byte of the newest block */
    size_t left; /* free bytes there */
    size_t grow; /* size of the next block */
} fv_arena;

void fv_arena_init(fv_arena *arena, fv_mem *mem);
/* 16-byte aligned, uninitialised; NULL if out of memory. */
void *fv_arena_alloc(fv_arena *arena, size_t bytes);
/* count x bytes, with overflow check. */
void *fv_arena_array(fv_arena *arena, size_t count, size_t bytes);
/* A NUL-terminated copy of n bytes. */
char *fv_arena_text(fv_arena *arena, const char *text, size_t n);
void fv_arena_free(fv_arena *arena);

#endif
