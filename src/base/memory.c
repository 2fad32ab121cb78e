#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked_math.h"

#if defined(__SANITIZE_ADDRESS__)
#define FV_HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FV_HAVE_ASAN 1
#endif
#endif
#ifdef FV_HAVE_ASAN
#include <sanitizer/asan_interface.h>
#else
/* Without AddressSanitizer, poisoning cached blocks is a no-op. */
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

/* Lives in the first bytes of a cached block. */
struct fv_mem_free {
    struct fv_mem_free *next;
};

/*
 * Size classes, all multiples of 64: 64, 128, 192, 256 bytes, then four steps to each doubling up
 * to 1 MiB and 16 beyond, so that a size maps to its class with a few bit operations. At most a
 * fifth of a block is wasted, of a large one a 17th: those are what a model's memory consists of.
 */
enum { COARSE_TOP = 8, COARSE_BITS = 2, COARSE = 5 }; /* from 2^8 on; the first such class */
enum { FINE_TOP = 20, FINE_BITS = 4, FINE = COARSE + ((FINE_TOP - COARSE_TOP) << COARSE_BITS) };

/* Within 2^top < bytes <= 2^(top+1), of classes with 2^bits steps to each doubling. */
static inline unsigned step_of(size_t bytes, unsigned top, unsigned bits)
{
    return (unsigned)((bytes - 1) >> (top - bits)) & ((1u << bits) - 1);
}
/* The size of class `at`, counted from the first with that many steps, which begin at 2^top. */
static inline size_t step_bytes(unsigned at, unsigned top, unsigned bits)
{
    top += at >> bits;
    return ((size_t)1 << top) + (((size_t)(at & ((1u << bits) - 1)) + 1) << (top - bits));
}

static unsigned class_of(size_t bytes)
{
    if (bytes <= 256) return (unsigned)((bytes + 63) / 64); /* 1..4: 64, 128, 192, 256 */
    const unsigned top = 63u - (unsigned)__builtin_clzll(bytes - 1);
    if (top < FINE_TOP)
        return COARSE + ((top - COARSE_TOP) << COARSE_BITS) + step_of(bytes, top, COARSE_BITS);
    return FINE + ((top - FINE_TOP) << FINE_BITS) + step_of(bytes, top, FINE_BITS);
}

static size_t class_bytes(unsigned cls)
{
    if (cls < COARSE) return (size_t)cls * 64;
    return cls < FINE ? step_bytes(cls - COARSE, COARSE_TOP, COARSE_BITS)
                      : step_bytes(cls - FINE, FINE_TOP, FINE_BITS);
}

unsigned fv_mem_class(size_t bytes, size_t *rounded)
{
    unsigned cls = class_of(bytes ? bytes : 1);
    *rounded = class_bytes(cls);
    return cls;
}

void fv_mem_init(fv_mem *mem, const fv_allocator *allocator, uint64_t cap, bool uncached)
{
    *mem = (fv_mem){.allocator = *allocator, .cap = cap, .uncached = uncached};
}

static void return_to_allocator(fv_mem *mem, void *ptr, size_t bytes)
{
    mem->allocator.free(mem->allocator.user, ptr, bytes);
    mem->stats.held_bytes -= bytes;
}

/* Takes the block that was freed last: it may still be in the CPU's cache. */
static void *take_first(fv_mem_list *list, size_t bytes)
{
    struct fv_mem_free *block = list->first;
    ASAN_UNPOISON_MEMORY_REGION(block, bytes);
    list->first = block->next;
    list->count--;
    if (list->count < list->idle) list->idle = list->count;
    return block;
}

void fv_mem_trim(fv_mem *mem)
{
    for (unsigned cls = 0; cls < FV_MEM_CLASSES; cls++)
        while (mem->lists[cls].count > 0)
            return_to_allocator(mem, take_first(&mem->lists[cls], class_bytes(cls)),
                                class_bytes(cls));
}

void fv_mem_release_idle(fv_mem *mem)
{
    enum { ROUNDS = 32 };
    if (++mem->rounds < ROUNDS) return;
    const bool over = mem->stats.held_bytes > mem->stats.peak_bytes + mem->stats.peak_bytes / 4;
    mem->rounds = 0;
    for (unsigned cls = 0; cls < FV_MEM_CLASSES; cls++) {
        fv_mem_list *list = &mem->lists[cls];
        for (size_t n = over ? list->idle : 0; n > 0; n--)
            return_to_allocator(mem, take_first(list, class_bytes(cls)), class_bytes(cls));
        list->idle = list->count;
    }
}

/* Whether `bytes` more stay under the cap, if necessary after returning all cached blocks. */
static bool fits(fv_mem *mem, size_t bytes)
{
    if (!mem->cap) return true;
    if (bytes > mem->cap) return false;
    if (mem->stats.held_bytes <= mem->cap - bytes) return true;
    fv_mem_trim(mem);
    return mem->stats.held_bytes <= mem->cap - bytes;
}

static void count_used(fv_mem *mem, size_t bytes)
{
    mem->stats.used_bytes += bytes;
    if (mem->stats.used_bytes > mem->stats.peak_bytes)
        mem->stats.peak_bytes = mem->stats.used_bytes;
}

bool fv_mem_charge(fv_mem *mem, size_t bytes)
{
    if (!fits(mem, bytes)) return false;
    mem->stats.held_bytes += bytes;
    count_used(mem, bytes);
    return true;
}

void fv_mem_refund(fv_mem *mem, size_t bytes)
{
    mem->stats.held_bytes -= bytes;
    mem->stats.used_bytes -= bytes;
}

static void *take_new(fv_mem *mem, size_t bytes)
{
    if (!fits(mem, bytes)) return NULL;
    void *ptr = mem->allocator.alloc(mem->allocator.user, bytes, FV_MEM_ALIGN);
    if (!ptr) {
        /* Cached blocks of other sizes may hold the memory: return them and try once more. */
        if (mem->stats.held_bytes == mem->stats.used_bytes) return NULL;
        fv_mem_trim(mem);
        ptr = mem->allocator.alloc(mem->allocator.user, bytes, FV_MEM_ALIGN);
        if (!ptr) return NULL;
    }
    mem->stats.held_bytes += bytes;
    return ptr;
}

void *fv_mem_alloc(fv_mem *mem, size_t bytes)
{
    if (bytes > FV_MEM_LARGEST) return NULL;
    size_t rounded;
    unsigned cls = fv_mem_class(bytes, &rounded);
    void *ptr =
        mem->lists[cls].count > 0 ? take_first(&mem->lists[cls], rounded) : take_new(mem, rounded);
    if (!ptr) return NULL;
    count_used(mem, rounded);
#ifdef FV_HAVE_ASAN
    if (bytes < rounded) ASAN_POISON_MEMORY_REGION((char *)ptr + bytes, rounded - bytes);
#endif
    return ptr;
}

void *fv_mem_zalloc(fv_mem *mem, size_t bytes)
{
    void *ptr = fv_mem_alloc(mem, bytes);
    if (ptr) memset(ptr, 0, bytes);
    return ptr;
}

void fv_mem_free(fv_mem *mem, void *ptr, size_t bytes)
{
    if (!ptr) return;
    size_t rounded;
    unsigned cls = fv_mem_class(bytes, &rounded);
    ASAN_UNPOISON_MEMORY_REGION(ptr, rounded);
    mem->stats.used_bytes -= rounded;
    if (mem->uncached) {
        return_to_allocator(mem, ptr, rounded);
        return;
    }
    struct fv_mem_free *block = ptr;
    block->next = mem->lists[cls].first;
    mem->lists[cls].first = block;
    mem->lists[cls].count++;
    ASAN_POISON_MEMORY_REGION(ptr, rounded);
}

void *fv_mem_take(fv_mem *mem, size_t items, size_t size)
{
    size_t bytes;
    if (!fv_checked_mul_size(items, size, &bytes) ||
        !fv_checked_add_size(bytes, FV_MEM_ALIGN, &bytes))
        return NULL;
    char *block = fv_mem_alloc(mem, bytes);
    if (!block) return NULL;
    memcpy(block, &bytes, sizeof bytes);
    return block + FV_MEM_ALIGN;
}

void fv_mem_give(fv_mem *mem, void *ptr)
{
    if (!ptr) return;
    char *block = (char *)ptr - FV_MEM_ALIGN;
    size_t bytes;
    memcpy(&bytes, block, sizeof bytes);
    fv_mem_free(mem, block, bytes);
}

void *fv_mem_grow(fv_mem *mem, void *array, size_t *room, size_t need, size_t element_bytes)
{
    enum { FIRST = 8 };
    if (array && need <= *room) return array;
    size_t more = *room > FIRST ? *room : FIRST, old, total;
    while (more < need)
        if (!fv_checked_mul_size(more, 2, &more)) more = need;
    if (!fv_checked_mul_size(more, element_bytes, &total) ||
        !fv_checked_mul_size(*room, element_bytes, &old))
        return NULL;
    void *bigger = fv_mem_alloc(mem, total);
    if (!bigger) return NULL;
    if (old) memcpy(bigger, array, old);
    fv_mem_free(mem, array, old);
    *room = more;
    return bigger;
}

/* Large blocks ask for huge pages: streaming through them needs far fewer address translations.
 * The kernel may decline, which changes only the speed. Blocks of less than two huge pages ask for
 * the first page only, so that rounding up wastes no memory. */
enum { HUGE_PAGE = 2 << 20, ROUNDED_UP_FROM = 2 * HUGE_PAGE };

static void *system_alloc(void *user, size_t size, size_t align)
{
    (void)user;
    size_t rounded;
    if (size >= HUGE_PAGE) align = HUGE_PAGE;
    if (!fv_checked_round_up(size, align, &rounded)) return NULL;
    void *ptr = aligned_alloc(align, rounded);
#ifdef MADV_HUGEPAGE
    if (ptr && size >= HUGE_PAGE)
        madvise(ptr, size >= ROUNDED_UP_FROM ? rounded : HUGE_PAGE, MADV_HUGEPAGE);
#endif
    return ptr;
}

static void system_free(void *user, void *ptr, size_t size)
{
    (void)user;
    (void)size;
    free(ptr);
}

void fv_allocator_system(fv_allocator *out)
{
    *out = (fv_allocator){.alloc = system_alloc, .free = system_free};
}
