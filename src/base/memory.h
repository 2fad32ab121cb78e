/*
 * A context's memory: 64-byte aligned blocks in size classes, each class with a
 * free list, over the injected allocator and under a byte cap. Tensors, tape
 * nodes and buffers all come from here, so a training step that repeats takes
 * its blocks from the lists and never reaches the allocator.
 *
 *     void *p = fv_mem_alloc(&ctx->mem, bytes);   // NULL: the allocator failed, or the cap
 *     fv_mem_free(&ctx->mem, p, bytes);           // same bytes
 */
#ifndef FV_BASE_MEMORY_H
#define FV_BASE_MEMORY_H

#include "fovea/context.h"

/* No block is larger than FV_MEM_LARGEST, which no CPU can address. */
enum { FV_MEM_ALIGN = 64, FV_MEM_CLASSES = 501 };
#define FV_MEM_LARGEST ((size_t)1 << 48)

/* The free blocks of one size class. */
typedef struct fv_mem_list {
    struct fv_mem_free *first;
    size_t count, idle; /* idle: the smallest count since the last check of fv_mem_release_idle */
} fv_mem_list;

typedef struct fv_mem {
    fv_allocator allocator;
    uint64_t cap; /* 0: none */
    bool uncached;
    unsigned rounds; /* calls of fv_mem_release_idle since its last check */
    fv_memory_stats stats;
    fv_mem_list lists[FV_MEM_CLASSES];
} fv_mem;

void fv_mem_init(fv_mem *mem, const fv_allocator *allocator, uint64_t cap, bool uncached);

/* At least `bytes` (0 counts as 1) of uninitialised memory, or NULL; always NULL for more than
 * FV_MEM_LARGEST. */
void *fv_mem_alloc(fv_mem *mem, size_t bytes);
void *fv_mem_zalloc(fv_mem *mem, size_t bytes); /* zeroed */
void fv_mem_free(fv_mem *mem, void *ptr, size_t bytes);

/* For libraries that free without a size, such as zlib: items x size bytes, with overflow check.
 * The size is stored in front of the block. */
void *fv_mem_take(fv_mem *mem, size_t items, size_t size);
void fv_mem_give(fv_mem *mem, void *ptr);

/*
 * Grows an array with a capacity of *room elements to at least `need`: doubles the capacity, moves
 * the contents and frees the old block. NULL: out of memory, and the array is unchanged. An empty
 * array is NULL with *room 0.
 *
 *     item *bigger = fv_mem_grow(mem, list->items, &list->room, list->count + 1, sizeof *bigger);
 *     if (!bigger) return false;
 *     list->items = bigger;
 */
void *fv_mem_grow(fv_mem *mem, void *array, size_t *room, size_t need, size_t element_bytes);

/* Counts memory that a device allocates itself, under the same cap; false if it would not fit. */
bool fv_mem_charge(fv_mem *mem, size_t bytes);
void fv_mem_refund(fv_mem *mem, size_t bytes);

/* The size class of a request of at most FV_MEM_LARGEST, and the size of that class's blocks. */
unsigned fv_mem_class(size_t bytes, size_t *rounded);

/* Returns every cached block to the allocator. */
void fv_mem_trim(fv_mem *mem);

/*
 * Call this after each of many similar rounds of work, such as training steps. Rounds of different
 * sizes need blocks of different classes, and over time the free lists would grow to the maximum
 * that each class ever needed. So every 32nd round, if the context holds more than 5/4 of its peak
 * in use, blocks that were free during all 32 rounds go back to the allocator. If all rounds have
 * one size, that never happens.
 */
void fv_mem_release_idle(fv_mem *mem);

/* The default allocator of a context: aligned_alloc and free. */
void fv_allocator_system(fv_allocator *out);

#endif
