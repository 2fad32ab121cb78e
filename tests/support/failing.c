#include "support/failing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"

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

/* Lets request n of the calls fail; returns whether there were so many. */
static bool fail_once(failing_use use, const void *user, long n, bool forever)
{
    failing_allocator f = {.fail_at = -1, .forever = forever};
    fv_ctx_config cfg;
    fv_ctx *ctx = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.allocator = failing_allocator_table(&f);
    cfg.memory_uncached = true;
    cfg.threads = 1;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    f.fail_at = f.requests + n;
    const fv_status status = use(ctx, user);
    const bool reached = f.failures > 0;
    f.fail_at = -1;
    if (status != (reached ? FV_ERR_MEMORY : FV_OK) || (reached && !*fv_ctx_message(ctx)))
        test_failed(__FILE__, __LINE__, "request %ld, %s: %s, \"%s\"", n,
                    reached ? "which failed" : "all served", fv_status_name(status),
                    fv_ctx_message(ctx));
    (void)fv_ctx_take_error(ctx);
    if (reached && n % 50 == 0) CHECK_EQ(use(ctx, user), FV_OK);
    fv_ctx_destroy(&ctx);
    CHECK_EQ(f.live, 0);
    return reached;
}

long failing_everywhere(failing_use use, const void *user, long spread)
{
    enum { MOST = 10000000, FOREVER_EVERY = 7 };
    long runs = 0, n = 0;
    while (n < MOST && test_failures() < 3 && fail_once(use, user, n, false)) {
        if (runs++ % FOREVER_EVERY == 0) fail_once(use, user, n, true);
        n += spread > 0 ? 1 + n / spread : 1;
    }
    CHECK(n < MOST);
    return runs;
}
