/*
 * Host memory for reads that are under way: a fixed number of slots, so that queuing a read never
 * allocates.
 */
#ifndef FV_DEVICE_READ_SLOTS_H
#define FV_DEVICE_READ_SLOTS_H

#include "device/device.h"

typedef struct fv_read_slot {
    bool taken;
    bool faulted;          /* a fault was set at the read's place in the order ... */
    uint64_t fault_number; /* ... and this many had been reported before it */
    uint64_t launches;     /* guarded device: delivered after this many more launches */
    size_t bytes;
    _Alignas(16) unsigned char data[FV_READ_BYTES];
} fv_read_slot;

typedef struct fv_read_slots {
    fv_read_slot slot[FV_READ_SLOTS];
} fv_read_slots;

/* A free slot for a read, and its ticket. Fails as read_later. */
fv_status fv_read_slots_take(fv_ctx *ctx, fv_read_slots *slots, size_t bytes, fv_ticket *ticket,
                             fv_read_slot **out);
/* The slot of a ticket. Fails: ARGUMENT (used up already, or never given out). */
fv_status fv_read_slots_find(fv_ctx *ctx, fv_read_slots *slots, fv_ticket ticket,
                             fv_read_slot **out);
/* Copies the bytes to dst (or NULL) and frees the slot. */
void fv_read_slots_deliver(fv_read_slot *slot, void *dst);

#endif
