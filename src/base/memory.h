/*
 * A context's memory: 64-byte aligned blocks in size classes, each class with a
 * free list, over the injected allocator and under a byte cap. Tensors, tape
 * nodes and buffers all come from here, so a training step that repeats takes
 * its blocks from the lists and never reaches the allocator.
 *
 *     void *p = fv_mem_alloc(&ctx->mem, bytes);   // NULL: allocator or cap said no
 *     fv_mem_free(&ctx->mem, p, bytes);           // same bytes
 */
#ifndef FV_BASE_MEMORY_H
#define FV_BASE_MEMORY_H

#include "fovea/context.h"

enum { FV_MEM_ALIGN = 64, FV_MEM_CLASSES = 224 };

/* The free blocks of one size class. */
typedef struct fv_mem_list {
    struct fv_mem_free *first;
    size_t count, idle; /* idle: the fewest there were since fv_mem_settle last looked */
} fv_mem_list;

typedef struct fv_mem {
    fv_allocator allocator;
    uint64_t cap; /* 0: none */
    bool uncached;
    unsigned rounds; /* calls of fv_mem_settle since it last looked */
    fv_memory_stats stats;
    fv_mem_list lists[FV_MEM_CLASSES];
} fv_mem;

void fv_mem_init(fv_mem *mem, const fv_allocator *allocator, uint64_t cap, bool uncached);

/* At least `bytes` (0 counts as 1) of uninitialised memory, or NULL. */
void *fv_mem_alloc(fv_mem *mem, size_t bytes);
void *fv_mem_zalloc(fv_mem *mem, size_t bytes); /* zeroed */
void fv_mem_free(fv_mem *mem, void *ptr, size_t bytes);

/* For libraries that free without a size, as zlib does: items x size bytes, checked, with their
 * number kept before them. */
void *fv_mem_take(fv_mem *mem, size_t items, size_t size);
void fv_mem_give(fv_mem *mem, void *ptr);

/*
 * A growing array of *room elements, made at least `need` long: doubles, moves the contents and
 * frees the old block. NULL: out of memory, and the array is as it was. A fresh array is NULL
 * with *room 0.
 *
 *     item *bigger = fv_mem_grow(mem, list->items, &list->room, list->count + 1, sizeof *bigger);
 *     if (!bigger) return false;
 *     list->items = bigger;
 */
void *fv_mem_grow(fv_mem *mem, void *array, size_t *room, size_t need, size_t element_bytes);

/* Counts memory that a device holds by itself, under the same cap; false when it would not fit. */
bool fv_mem_charge(fv_mem *mem, size_t bytes);
void fv_mem_refund(fv_mem *mem, size_t bytes);

/* The size class of a request and the bytes its blocks have. */
unsigned fv_mem_class(size_t bytes, size_t *rounded);

/* Returns every cached block to the allocator. */
void fv_mem_trim(fv_mem *mem);

/*
 * To be called after each round of work that resembles the one before, such as a training step.
 * Rounds of different sizes need blocks of different classes, and the lists would in time hold the
 * most that each class ever had. So every 32nd round, if more is held than 5/4 of the peak in use,
 * blocks that lay idle in all 32 are given back. Rounds of one size never get there.
 */
void fv_mem_settle(fv_mem *mem);

/* malloc-backed allocator of fv_ctx_config's default. */
void fv_allocator_system(fv_allocator *out);

#endif
