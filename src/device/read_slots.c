#include "device/read_slots.h"

#include <string.h>

fv_status fv_read_slots_take(fv_ctx *ctx, fv_read_slots *slots, size_t bytes, fv_ticket *ticket,
                             fv_read_slot **out)
{
    FV_RETURN_IF(bytes > FV_READ_BYTES, ctx, FV_ERR_ARGUMENT,
                 "read_later: %zu bytes, expected at most %d", bytes, FV_READ_BYTES);
    for (int i = 0; i < FV_READ_SLOTS; i++) {
        fv_read_slot *slot = &slots->slot[i];
        if (slot->taken) continue;
        slot->taken = true;
        slot->faulted = false;
        slot->bytes = bytes;
        *ticket = (fv_ticket)i + 1;
        *out = slot;
        return FV_OK;
    }
    return fv_fail(ctx, FV_ERR_STATE, "read_later: %d reads are under way already", FV_READ_SLOTS);
}

fv_status fv_read_slots_find(fv_ctx *ctx, fv_read_slots *slots, fv_ticket ticket,
                             fv_read_slot **out)
{
    const bool known = ticket >= 1 && ticket <= FV_READ_SLOTS && slots->slot[ticket - 1].taken;
    FV_RETURN_IF(!known, ctx, FV_ERR_ARGUMENT, "read_done: no read has the ticket %llu",
                 (unsigned long long)ticket);
    *out = &slots->slot[ticket - 1];
    return FV_OK;
}

void fv_read_slots_deliver(fv_read_slot *slot, void *dst)
{
    if (dst) memcpy(dst, slot->data, slot->bytes);
    slot->taken = false;
}
