/*
 * The kernel table of one SIMD level with what its kernels need to run: threads, scratch memory,
 * fault word. The CPU device runs kernels at once, the guarded device later on another thread.
 */
#ifndef FV_DEVICE_ENGINE_H
#define FV_DEVICE_ENGINE_H

#include "device/device.h"

typedef struct fv_engine {
    fv_ctx *ctx;
    fv_kernel_table table;
    fv_exec exec;
    fv_fault fault;
    size_t scratch_bytes; /* grows to the largest request and stays */
} fv_engine;

void fv_engine_init(fv_engine *engine, fv_ctx *ctx);
void fv_engine_destroy(fv_engine *engine);

static inline bool fv_engine_supports(const fv_engine *engine, fv_kernel_id kernel, fv_dtype dtype)
{
    return engine->table.fn[kernel][dtype] != NULL;
}

/* What the kernels' PACK writes. */
size_t fv_engine_packed_bytes(const fv_device *dev, fv_weight_form form, int64_t k, int64_t n);

/* Allocates the scratch memory that the kernel needs. Call it on the context's thread. */
fv_status fv_engine_prepare(fv_engine *engine, fv_kernel_id kernel, fv_dtype dtype,
                            const void *args);

/* Runs a prepared kernel. */
static inline void fv_engine_run(fv_engine *engine, fv_kernel_id kernel, fv_dtype dtype,
                                 void *const *ptr, const void *args)
{
    engine->table.fn[kernel][dtype](&engine->exec, ptr, args);
}

/* The first fault since the last call, as an error of `kernel`. */
fv_status fv_engine_fault(fv_engine *engine, fv_kernel_id kernel);

#endif
