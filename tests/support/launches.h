/*
 * Counts the launches of a context's device.
 *
 *     launches_watch(ctx);
 *     fv_tanh(ctx, x);
 *     CHECK_EQ(launches_of(FV_KERNEL_UNARY), 1);
 *
 * One context at a time; it stays watched until it is destroyed.
 */
#ifndef FV_TEST_LAUNCHES_H
#define FV_TEST_LAUNCHES_H

#include "device/device.h"

void launches_watch(fv_ctx *ctx); /* also: starts counting from zero again */
int64_t launches_of(fv_kernel_id kernel);

#endif
