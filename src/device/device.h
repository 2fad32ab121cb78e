/*
 * The function table of a device. Everything that touches tensor memory goes through it, so that a
 * GPU can take the CPU's place: no code above this layer reads or writes through a tensor's
 * address.
 *
 * Order: a device runs its work in the order of the calls (one stream). alloc and free are part of
 * that order: a freed block may be allocated again at once, since every launch that used it comes
 * before the next one that does. Results reach the host through read(), which waits, or through
 * read_later(), which does not:
 *
 *     fv_ticket ticket;
 *     s = dev->ops->read_later(dev, block, sizeof record, &ticket);    // queued
 *     ... launches of the next step ...
 *     bool done = false;
 *     s = dev->ops->read_done(dev, ticket, true, &record, &done);      // waits for the copy only
 *
 * The copy has its place in the order of the calls: it sees what was launched before it and nothing
 * of what comes after, and the faults that come with it are those of earlier work.
 */
#ifndef FV_DEVICE_DEVICE_H
#define FV_DEVICE_DEVICE_H

#include "base/ctx.h"
#include "kernels/kernel.h"

typedef struct fv_device fv_device;

/* A read that is under way; 0: none. */
typedef uint64_t fv_ticket;

enum {
    FV_READ_BYTES = 1024, /* of one read_later; the device has memory for it from the start */
    FV_READ_SLOTS = 8,    /* tickets that may be out at once */
};

typedef struct fv_device_ops {
    const char *name;
    bool host_readable; /* its addresses are readable by the host */

    /* Uninitialised, 64-byte aligned device memory; NULL if out of memory. */
    void *(*alloc)(fv_device *dev, size_t bytes);
    void (*free)(fv_device *dev, void *ptr, size_t bytes);

    /* Host to device; `src` may be reused on return. */
    fv_status (*write)(fv_device *dev, void *dst, const void *src, size_t bytes);
    /* Device to host; waits for all earlier work and reports its faults. */
    fv_status (*read)(fv_device *dev, void *dst, const void *src, size_t bytes);

    /* Whether the device has this kernel for this element type. */
    bool (*supports)(const fv_device *dev, fv_kernel_id kernel, fv_dtype dtype);

    /* Queues a kernel. `args` is copied where it must outlive the call. */
    fv_status (*launch)(fv_device *dev, fv_kernel_id kernel, fv_dtype dtype, void *const *ptr,
                        const void *args, size_t args_bytes);
    /* Waits for all work; reports the first fault since the last wait. */
    fv_status (*sync)(fv_device *dev);
    void (*destroy)(fv_device *dev);

    /* Queues a copy of at most FV_READ_BYTES to the host. Fails: STATE (every slot is taken),
     * ARGUMENT (too long). */
    fv_status (*read_later)(fv_device *dev, const void *src, size_t bytes, fv_ticket *out);
    /* Whether the copy has arrived; with `wait`, when it has. Once *done, the bytes are in dst
     * (unless that is NULL) and the ticket is used up, also when the call fails: with the first
     * fault of work before the copy. */
    fv_status (*read_done)(fv_device *dev, fv_ticket ticket, bool wait, void *dst, bool *done);
} fv_device_ops;

struct fv_device {
    const fv_device_ops *ops;
    fv_ctx *ctx;
    unsigned dropped; /* test hook; bit k: the next launches leave out additive term k */
};

/* The devices of this library. Destroy a device before the context's memory. */
fv_status fv_cpu_device_create(fv_ctx *ctx, fv_device **out);
fv_status fv_guarded_device_create(fv_ctx *ctx, fv_device **out);

#endif
