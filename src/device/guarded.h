/*
 * What tests see and set of the guarded device.
 *
 *     const uint64_t before = fv_guarded_waits(ctx->device);
 *     ... a training step ...
 *     CHECK_EQ(fv_guarded_waits(ctx->device) - before, 1);
 */
#ifndef FV_DEVICE_GUARDED_H
#define FV_DEVICE_GUARDED_H

#include "device/device.h"

/* Calls so far that bring device memory to the host or wait for the device: read, sync, and a
 * read_later together with its read_done. */
uint64_t fv_guarded_waits(const fv_device *dev);

/* Reads that are queued later arrive after 0 to `most` further launches, by numbers drawn from
 * `seed`. Without this call, and with most = UINT64_MAX, they arrive only when they are waited for.
 */
void fv_guarded_set_delays(fv_device *dev, uint64_t seed, uint64_t most);

#endif
