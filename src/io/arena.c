#include "io/arena.h"

#include <string.h>

#include "base/checked_math.h"

/* Block sizes double, so that small files use little memory and large ones few blocks. */
enum { FIRST_BLOCK = 1024, LARGEST_BLOCK = 1 << 20, ALIGN = 16 };

struct fv_arena_block {
    struct fv_arena_block *older;
    size_t bytes; /* including this header */
};

enum { HEADER = (sizeof(struct fv_arena_block) + ALIGN - 1) / ALIGN * ALIGN };

void fv_arena_init(fv_arena *arena, fv_mem *mem)
{
    *arena = (fv_arena){.mem = mem, .grow = FIRST_BLOCK};
}

static bool add_block(fv_arena *arena, size_t need)
{
    size_t bytes;
    if (!fv_checked_add_size(need, HEADER, &bytes)) return false;
    if (bytes < arena->grow) bytes = arena->grow;
    struct fv_arena_block *block = fv_mem_alloc(arena->mem, bytes);
    if (!block) return false;
    *block = (struct fv_arena_block){.older = arena->blocks, .bytes = bytes};
    arena->blocks = block;
    arena->next = (char *)block + HEADER;
    arena->left = bytes - HEADER;
    if (arena->grow < LARGEST_BLOCK) arena->grow *= 2;
    return true;
}

void *fv_arena_alloc(fv_arena *arena, size_t bytes)
{
    size_t rounded;
    if (!fv_checked_round_up(bytes ? bytes : 1, ALIGN, &rounded)) return NULL;
    if (rounded > arena->left && !add_block(arena, rounded)) return NULL;
    void *p = arena->next;
    arena->next += rounded;
    arena->left -= rounded;
    return p;
}

void *fv_arena_array(fv_arena *arena, size_t count, size_t bytes)
{
    size_t total;
    return fv_checked_mul_size(count, bytes, &total) ? fv_arena_alloc(arena, total) : NULL;
}

char *fv_arena_text(fv_arena *arena, const char *text, size_t n)
{
    size_t room;
    char *copy = fv_checked_add_size(n, 1, &room) ? fv_arena_alloc(arena, room) : NULL;
    if (!copy) return NULL;
    if (n) memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

void fv_arena_free(fv_arena *arena)
{
    while (arena->blocks) {
        struct fv_arena_block *block = arena->blocks;
        arena->blocks = block->older;
        fv_mem_free(arena->mem, block, block->bytes);
    }
    fv_arena_init(arena, arena->mem);
}
