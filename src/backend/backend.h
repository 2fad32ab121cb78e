/*
 * The devices there are, and the context that is assembled around one of them.
 */
#ifndef FV_BACKEND_BACKEND_H
#define FV_BACKEND_BACKEND_H

#include "tensor/tensor.h"

fv_status fv_cpu_device_create(fv_ctx *ctx, fv_device **out);
fv_status fv_guarded_device_create(fv_ctx *ctx, fv_device **out);

#endif
