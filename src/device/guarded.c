/*
 * The guarded device: CPU kernels with the restrictions of a GPU, to prove that no code above the
 * device table reads device memory itself or relies on work being done when a call returns.
 *
 *   - Device memory is one memfd mapped twice: without access rights (the addresses that tensors
 *     have) and readable (known to this file only). Translating an address is one addition.
 *   - A pointer outside the first mapping is an error, so a host pointer passed to a kernel is
 * found.
 *   - Launches and writes are queued. They run on another thread, in order, only when the caller
 *     waits (read, sync) or the queue is full: a result that is used too early is not there yet.
 *   - A read_later arrives only when it is waited for, or a random number of launches later.
 *
 * The worker runs only while the context's thread waits for it, so the two share the queue and
 * the engine without further locking.
 */
#include "device/guarded.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "device/engine.h"
#include "device/read_slots.h"
#include "kernels/elementwise.h"

enum {
    QUEUE_LENGTH = 512,
    ARGS_BYTES = 640, /* room for the largest argument struct */
};

/* Sparse: only pages that are used take memory. */
static const size_t RANGE_BYTES = (size_t)4 << 30;

typedef enum item_kind { LAUNCH, WRITE, READ } item_kind;

typedef struct item {
    item_kind kind;
    fv_kernel_id kernel;
    fv_dtype dtype;
    void *ptr[FV_KERNEL_MAX_PTR]; /* translated; a write's destination, a read's source is ptr[0] */
    fv_read_slot *slot;           /* of a read */
    void *staged;                 /* a write's data */
    size_t staged_bytes;
#ifdef FV_TEST_HOOKS
    unsigned dropped;
#endif
    _Alignas(16) unsigned char args[ARGS_BYTES];
} item;

/* A block of the range. Free lists live outside it: freed memory may still be read by queued work.
 */
typedef struct block {
    struct block *next;
    size_t offset;
} block;

typedef struct guarded_device {
    fv_device base;
    fv_engine engine;

    char *no_access; /* the addresses that tensors have */
    char *readable;  /* the same memory with access */
    size_t used;
    block *free_blocks[FV_MEM_CLASSES];
    block *spare; /* as many as blocks are in use, so that free never needs memory */

    item *queue;
    int queued;
    fv_kernel_id fault_kernel;
    uint64_t faults; /* reported so far */

    fv_read_slots reads;
    uint64_t waits;
    uint64_t delay_seed, most_delay, delays; /* the last: drawn so far */

    pthread_t worker;
    bool has_worker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool run, stop;
} guarded_device;

/* ---- memory ----------------------------------------------------------------------- */

static void *guarded_alloc(fv_device *dev, size_t bytes)
{
    guarded_device *g = (guarded_device *)dev;
    size_t rounded;
    unsigned cls = fv_mem_class(bytes, &rounded);
    if (!fv_mem_charge(&dev->ctx->mem, rounded)) return NULL;
    block *b = g->free_blocks[cls];
    if (b) {
        g->free_blocks[cls] = b->next;
    } else {
        bool room = rounded <= RANGE_BYTES - g->used;
        b = room ? fv_mem_alloc(&dev->ctx->mem, sizeof *b) : NULL;
        if (!b) {
            fv_mem_refund(&dev->ctx->mem, rounded);
            return NULL;
        }
        b->offset = g->used;
        g->used += rounded;
    }
    b->next = g->spare;
    g->spare = b;
    return g->no_access + b->offset;
}

static void guarded_free(fv_device *dev, void *ptr, size_t bytes)
{
    guarded_device *g = (guarded_device *)dev;
    if (!ptr) return;
    size_t rounded;
    unsigned cls = fv_mem_class(bytes, &rounded);
    fv_mem_refund(&dev->ctx->mem, rounded);
    block *b = g->spare;
    g->spare = b->next;
    b->offset = (size_t)((char *)ptr - g->no_access);
    b->next = g->free_blocks[cls];
    g->free_blocks[cls] = b;
}

static bool translate(const guarded_device *g, const void *ptr, void **out)
{
    uintptr_t offset = (uintptr_t)ptr - (uintptr_t)g->no_access;
    if (offset >= RANGE_BYTES) return false;
    *out = g->readable + offset;
    return true;
}

/* ---- the worker ------------------------------------------------------------------- */

static void run_item(guarded_device *g, item *it)
{
    if (it->kind == WRITE) {
        memcpy(it->ptr[0], it->staged, it->staged_bytes);
        return;
    }
    if (it->kind == READ) {
        memcpy(it->slot->data, it->ptr[0], it->slot->bytes);
        it->slot->faulted = atomic_load(&g->engine.fault.set);
        it->slot->fault_number = g->faults;
        return;
    }
#ifdef FV_TEST_HOOKS
    g->engine.exec.dropped = it->dropped;
#endif
    bool clean = !atomic_load(&g->engine.fault.set);
    fv_engine_run(&g->engine, it->kernel, it->dtype, it->ptr, it->args);
    if (clean && atomic_load(&g->engine.fault.set)) g->fault_kernel = it->kernel;
}

static void *worker_main(void *arg)
{
    guarded_device *g = arg;
    pthread_mutex_lock(&g->lock);
    while (!g->stop) {
        if (!g->run) {
            pthread_cond_wait(&g->changed, &g->lock);
            continue;
        }
        for (int i = 0; i < g->queued; i++)
            run_item(g, &g->queue[i]);
        g->run = false;
        pthread_cond_broadcast(&g->changed);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* Waits until the worker has run everything that is queued. */
static void drain(guarded_device *g)
{
    if (g->queued == 0) return;
    pthread_mutex_lock(&g->lock);
    g->run = true;
    pthread_cond_broadcast(&g->changed);
    while (g->run)
        pthread_cond_wait(&g->changed, &g->lock);
    pthread_mutex_unlock(&g->lock);
    for (int i = 0; i < g->queued; i++)
        if (g->queue[i].kind == WRITE)
            fv_mem_free(&g->base.ctx->mem, g->queue[i].staged, g->queue[i].staged_bytes);
    g->queued = 0;
}

static item *next_item(guarded_device *g)
{
    if (g->queued == QUEUE_LENGTH) drain(g);
    return &g->queue[g->queued];
}

/* ---- the device table ------------------------------------------------------------- */

static fv_status report_fault(guarded_device *g)
{
    fv_status status = fv_engine_fault(&g->engine, g->fault_kernel);
    if (status == FV_OK) return FV_OK;
    g->faults++;
    /* The op that caused it has returned already, so the error becomes the sticky one. */
    return fv_make_last_failure_sticky(g->base.ctx, status);
}

static fv_status guarded_sync(fv_device *dev)
{
    guarded_device *g = (guarded_device *)dev;
    g->waits++;
    drain(g);
    return report_fault(g);
}

static fv_status guarded_write(fv_device *dev, void *dst, const void *src, size_t bytes)
{
    guarded_device *g = (guarded_device *)dev;
    fv_ctx *ctx = dev->ctx;
    item *it = next_item(g);
    FV_RETURN_IF(!translate(g, dst, &it->ptr[0]), ctx, FV_ERR_INTERNAL,
                 "write: %p is not memory of the guarded device", dst);
    it->staged = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!it->staged, ctx, FV_ERR_MEMORY, "write: no memory to stage %zu bytes", bytes);
    memcpy(it->staged, src, bytes);
    it->staged_bytes = bytes;
    it->kind = WRITE;
    g->queued++;
    return FV_OK;
}

static fv_status guarded_read(fv_device *dev, void *dst, const void *src, size_t bytes)
{
    guarded_device *g = (guarded_device *)dev;
    void *from;
    FV_RETURN_IF(!translate(g, src, &from), dev->ctx, FV_ERR_INTERNAL,
                 "read: %p is not memory of the guarded device", src);
    FV_TRY(guarded_sync(dev));
    memcpy(dst, from, bytes);
    return FV_OK;
}

static bool guarded_supports(const fv_device *dev, fv_kernel_id kernel, fv_dtype dtype)
{
    return fv_engine_supports(&((const guarded_device *)dev)->engine, kernel, dtype);
}

/* A copy or fill says the type it writes twice; a device may convert by either. */
static fv_status check_dtype(fv_ctx *ctx, fv_kernel_id kernel, fv_dtype dtype, const void *args)
{
    if (kernel != FV_KERNEL_COPY && kernel != FV_KERNEL_FILL) return FV_OK;
    const fv_dtype to = ((const fv_elementwise_args *)args)->to;
    FV_RETURN_IF(to != dtype, ctx, FV_ERR_INTERNAL, "%s: launched as %s for a tensor of %s",
                 fv_kernel_infos[kernel].name, fv_dtype_name(dtype), fv_dtype_name(to));
    return FV_OK;
}

static fv_status guarded_launch(fv_device *dev, fv_kernel_id kernel, fv_dtype dtype,
                                void *const *ptr, const void *args, size_t args_bytes)
{
    guarded_device *g = (guarded_device *)dev;
    fv_ctx *ctx = dev->ctx;
    const char *name = fv_kernel_infos[kernel].name;
    FV_RETURN_IF(args_bytes > ARGS_BYTES, ctx, FV_ERR_INTERNAL, "%s: %zu bytes of arguments", name,
                 args_bytes);
    FV_TRY(check_dtype(ctx, kernel, dtype, args));
    item *it = next_item(g);
    for (int i = 0; i < fv_kernel_infos[kernel].pointers; i++) {
        it->ptr[i] = NULL;
        FV_RETURN_IF(ptr[i] && !translate(g, ptr[i], &it->ptr[i]), ctx, FV_ERR_INTERNAL,
                     "%s: pointer %d (%p) is not memory of the guarded device", name, i, ptr[i]);
    }
    FV_TRY(fv_engine_prepare(&g->engine, kernel, dtype, args));
    memcpy(it->args, args, args_bytes);
    it->kind = LAUNCH;
    it->kernel = kernel;
    it->dtype = dtype;
#ifdef FV_TEST_HOOKS
    it->dropped = dev->dropped;
#endif
    g->queued++;
    for (int i = 0; i < FV_READ_SLOTS; i++)
        if (g->reads.slot[i].launches > 0 && g->most_delay < UINT64_MAX)
            g->reads.slot[i].launches--;
    return FV_OK;
}

/* ---- reads that arrive later --------------------------------------------------------- */

static uint64_t draw_delay(guarded_device *g)
{
    uint32_t words[4];
    if (g->most_delay == UINT64_MAX) return UINT64_MAX;
    fv_rng_draw(fv_rng_key(g->delay_seed, 0, 0), g->delays++, 0, words);
    return words[0] % (g->most_delay + 1);
}

static fv_status guarded_read_later(fv_device *dev, const void *src, size_t bytes, fv_ticket *out)
{
    guarded_device *g = (guarded_device *)dev;
    item *it = next_item(g);
    FV_RETURN_IF(!translate(g, src, &it->ptr[0]), dev->ctx, FV_ERR_INTERNAL,
                 "read_later: %p is not memory of the guarded device", src);
    FV_TRY(fv_read_slots_take(dev->ctx, &g->reads, bytes, out, &it->slot));
    it->kind = READ;
    it->slot->launches = draw_delay(g);
    g->queued++;
    g->waits++;
    return FV_OK;
}

static fv_status guarded_read_done(fv_device *dev, fv_ticket ticket, bool wait, void *dst,
                                   bool *done)
{
    guarded_device *g = (guarded_device *)dev;
    fv_read_slot *slot;
    FV_TRY(fv_read_slots_find(dev->ctx, &g->reads, ticket, &slot));
    *done = wait || slot->launches == 0;
    if (!*done) return FV_OK;
    drain(g);
    fv_read_slots_deliver(slot, dst);
    /* A fault of later work is not this read's, and one that was reported already is not repeated.
     */
    return slot->faulted && slot->fault_number == g->faults ? report_fault(g) : FV_OK;
}

uint64_t fv_guarded_waits(const fv_device *dev) { return ((const guarded_device *)dev)->waits; }

void fv_guarded_set_delays(fv_device *dev, uint64_t seed, uint64_t most)
{
    guarded_device *g = (guarded_device *)dev;
    g->delay_seed = seed;
    g->most_delay = most;
    g->delays = 0;
}

static void free_blocks(fv_ctx *ctx, block *list)
{
    while (list) {
        block *next = list->next;
        fv_mem_free(&ctx->mem, list, sizeof *list);
        list = next;
    }
}

static void guarded_destroy(fv_device *dev)
{
    guarded_device *g = (guarded_device *)dev;
    fv_ctx *ctx = dev->ctx;
    if (g->has_worker) {
        drain(g);
        pthread_mutex_lock(&g->lock);
        g->stop = true;
        pthread_cond_broadcast(&g->changed);
        pthread_mutex_unlock(&g->lock);
        pthread_join(g->worker, NULL);
    }
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    fv_engine_destroy(&g->engine);
    for (int i = 0; i < FV_MEM_CLASSES; i++)
        free_blocks(ctx, g->free_blocks[i]);
    free_blocks(ctx, g->spare);
    fv_mem_free(&ctx->mem, g->queue, QUEUE_LENGTH * sizeof *g->queue);
    if (g->no_access) munmap(g->no_access, RANGE_BYTES);
    if (g->readable) munmap(g->readable, RANGE_BYTES);
    fv_mem_free(&ctx->mem, g, sizeof *g);
}

static const fv_device_ops guarded_ops = {
    .name = "guarded",
    .traits = {.bits_like_cpu = true},
    .alloc = guarded_alloc,
    .free = guarded_free,
    .write = guarded_write,
    .read = guarded_read,
    .supports = guarded_supports,
    .packed_bytes = fv_engine_packed_bytes,
    .launch = guarded_launch,
    .sync = guarded_sync,
    .destroy = guarded_destroy,
    .read_later = guarded_read_later,
    .read_done = guarded_read_done,
};

/* ---- creation --------------------------------------------------------------------- */

static bool map_range(guarded_device *g)
{
    int fd = memfd_create("fovea-guarded", MFD_CLOEXEC);
    if (fd < 0) return false;
    void *no_access = MAP_FAILED, *readable = MAP_FAILED;
    if (ftruncate(fd, (off_t)RANGE_BYTES) == 0) {
        no_access = mmap(NULL, RANGE_BYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        readable =
            mmap(NULL, RANGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    }
    close(fd);
    g->no_access = no_access == MAP_FAILED ? NULL : no_access;
    g->readable = readable == MAP_FAILED ? NULL : readable;
    return g->no_access && g->readable;
}

static bool start_worker(guarded_device *g)
{
    g->has_worker = fv_thread_start(&g->worker, worker_main, g);
    return g->has_worker;
}

fv_status fv_guarded_device_create(fv_ctx *ctx, fv_device **out)
{
    guarded_device *g = fv_mem_zalloc(&ctx->mem, sizeof *g);
    FV_RETURN_IF(!g, ctx, FV_ERR_MEMORY, "no memory for the guarded device");
    g->base = (fv_device){.ops = &guarded_ops, .ctx = ctx};
    g->most_delay = UINT64_MAX;
    fv_engine_init(&g->engine, ctx);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->changed, NULL);
    g->queue = fv_mem_alloc(&ctx->mem, QUEUE_LENGTH * sizeof *g->queue);
    if (!g->queue || !map_range(g) || !start_worker(g)) {
        guarded_destroy(&g->base);
        return fv_fail(ctx, FV_ERR_MEMORY, "no memory or thread for the guarded device");
    }
    *out = &g->base;
    return FV_OK;
}
