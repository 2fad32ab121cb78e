#include "support/failing.h"

#include <stdlib.h>

static void *failing_alloc(void *user, size_t size, size_t align)
{
    failing_allocator *f = user;
    long number = f->requests++;
    if (f->fail_at >= 0 && (number == f->fail_at || (f->forever && number > f->fail_at))) {
        f->failures++;
        return NULL;
    }
    void *ptr = aligned_alloc(align, (size + align - 1) / align * align);
    if (ptr) f->live++;
    return ptr;
}

static void failing_free(void *user, void *ptr, size_t size)
{
    (void)size;
    ((failing_allocator *)user)->live--;
    free(ptr);
}

fv_allocator failing_allocator_table(failing_allocator *f)
{
    return (fv_allocator){.user = f, .alloc = failing_alloc, .free = failing_free};
}
