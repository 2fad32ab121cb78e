#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fovea/tensor.h"

static fv_ctx *ctx;
static memory_file file;
static uint64_t used_before;

static void destroy(void) { fv_ctx_destroy(&ctx); }

fv_ctx *fuzz_context(const uint8_t *data, size_t bytes)
{
    file = (memory_file){.data = data, .bytes = bytes};
    if (ctx) return ctx;
    fv_ctx_config cfg;
    fv_memory_stats stats;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.memory_limit = FUZZ_MEMORY;
    memory_io(&cfg.io, &file);
    if (fv_ctx_create(&cfg, &ctx) != FV_OK) abort();
    atexit(destroy);
    fv_scope_begin(ctx);
    fv_scope_end(ctx);
    fv_ctx_memory(ctx, &stats);
    used_before = stats.used_bytes;
    return ctx;
}

void fuzz_check(fv_ctx *c)
{
    fv_memory_stats stats;
    fv_ctx_memory(c, &stats);
    if (stats.used_bytes == used_before && fv_ctx_error(c) == FV_OK) return;
    fprintf(stderr, "%llu bytes left in use, error %s\n",
            (unsigned long long)(stats.used_bytes - used_before), fv_status_name(fv_ctx_error(c)));
    abort();
}

double fuzz_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void fuzz_bound(const char *what, fv_status status, size_t made, size_t max, double began)
{
    /* The budget of a few kilobytes takes some milliseconds, and ten times that with a sanitizer.
     */
    const double seconds = fuzz_clock() - began;
    if (status != FV_ERR_MEMORY && made <= max && seconds < 0.5) return;
    fprintf(stderr, "%s: %s, made %zu of at most %zu, %.3f s\n", what, fv_status_name(status), made,
            max, seconds);
    abort();
}
