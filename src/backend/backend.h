/*
 * The devices there are, and the context that is assembled around one of them.
 */
#ifndef FV_BACKEND_BACKEND_H
#define FV_BACKEND_BACKEND_H

#include "tensor/tensor.h"

fv_status fv_cpu_device_create(fv_ctx *ctx, fv_device **out);
fv_status fv_guarded_device_create(fv_ctx *ctx, fv_device **out);

/* Turns a kernel's fault into an error of the call and clears it. */
fv_status fv_backend_fault(fv_ctx *ctx, fv_kernel_id kernel, fv_fault *fault);

#endif
