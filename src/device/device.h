/*
 * One vtable for a device. Everything that touches tensor memory goes through it, so that a GPU
 * can be slotted in: above this line nobody reads or writes through a tensor's address.
 *
 * Order: work on a device runs in the order it was asked for (one stream). alloc and free belong
 * to the same order: a freed block may be handed out again at once, since every earlier launch
 * that used it comes first. Results reach the host through read(), which waits.
 */
#ifndef FV_DEVICE_DEVICE_H
#define FV_DEVICE_DEVICE_H

#include "base/ctx.h"
#include "kernels/kernel.h"

typedef struct fv_device fv_device;

typedef struct fv_device_ops {
    const char *name;
    bool host_readable; /* its addresses are ordinary memory of this process */

    /* Uninitialised, 64-byte aligned device memory; NULL when there is none. */
    void *(*alloc)(fv_device *dev, size_t bytes);
    void (*free)(fv_device *dev, void *ptr, size_t bytes);

    /* Host to device; `src` may be reused on return. */
    fv_status (*write)(fv_device *dev, void *dst, const void *src, size_t bytes);
    /* Device to host; waits for all earlier work and reports its faults. */
    fv_status (*read)(fv_device *dev, void *dst, const void *src, size_t bytes);

    /* Does the device have this kernel for this element type? */
    bool (*supports)(const fv_device *dev, fv_kernel_id kernel, fv_dtype dtype);

    /* Queues a kernel. `args` is copied where it must outlive the call. */
    fv_status (*launch)(fv_device *dev, fv_kernel_id kernel, fv_dtype dtype, void *const *ptr,
                        const void *args, size_t args_bytes);
    /* Waits for all work; reports the first fault since the last wait. */
    fv_status (*sync)(fv_device *dev);
    void (*destroy)(fv_device *dev);
} fv_device_ops;

struct fv_device {
    const fv_device_ops *ops;
    fv_ctx *ctx;
#ifdef FV_TEST_HOOKS
    unsigned dropped; /* additive terms that the next launches leave out */
#endif
};

/* The devices there are. Each must be destroyed before the context's memory goes. */
fv_status fv_cpu_device_create(fv_ctx *ctx, fv_device **out);
fv_status fv_guarded_device_create(fv_ctx *ctx, fv_device **out);

#endif
