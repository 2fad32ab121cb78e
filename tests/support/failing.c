#include "support/failing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before each block: a cached block of the wrong size would be handed out for more than it has. */
typedef struct block_size {
    size_t bytes, align;
} block_size;

static void *failing_alloc(void *user, size_t size, size_t align)
{
    failing_allocator *f = user;
    long number = f->requests++;
    if (f->fail_at >= 0 && (number == f->fail_at || (f->forever && number > f->fail_at))) {
        f->failures++;
        return NULL;
    }
    char *block = aligned_alloc(align, align + (size + align - 1) / align * align);
    if (!block) return NULL;
    memcpy(block + align - sizeof(block_size), &(block_size){size, align}, sizeof(block_size));
    f->live++;
    return block + align;
}

static void failing_free(void *user, void *ptr, size_t size)
{
    block_size was;
    memcpy(&was, (char *)ptr - sizeof was, sizeof was);
    if (size != was.bytes) {
        fprintf(stderr, "a block of %zu bytes is freed as one of %zu\n", was.bytes, size);
        abort();
    }
    ((failing_allocator *)user)->live--;
    free((char *)ptr - was.align);
}

fv_allocator failing_allocator_table(failing_allocator *f)
{
    return (fv_allocator){.user = f, .alloc = failing_alloc, .free = failing_free};
}
