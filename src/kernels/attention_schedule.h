/*
 * Assigns heads to threads. K and V of a head, packed and in the L2 cache of one core, are best
 * used by that core alone, and their buffer can serve the next head while it is in cache. So a
 * thread takes the next unassigned head and processes its work items one by one. Only when every
 * head is assigned does it take work items of other heads.
 *
 *     fv_attn_schedule_init(&schedule, memory, heads, items, threads); // before the threads start
 *     fv_attn_work_item w = fv_attn_schedule_next(&schedule, thread);  // heads x items calls
 *     ... item w.item of head w.head, whose packed keys are in slot w.slot ...
 *
 * A head uses the slot of the thread it is assigned to. That thread takes another head, and
 * overwrites the slot, only after the last work item of its head has been taken; and other threads
 * get work items of a head only once every head is assigned. So no thread reads a slot that is
 * being overwritten, and none waits. There are fv_attn_schedule_slots slots.
 *
 * Each call returns one work item, which the caller must process; the number of calls is not
 * checked.
 */
#ifndef FV_KERNELS_ATTENTION_SCHEDULE_H
#define FV_KERNELS_ATTENTION_SCHEDULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Per head. */
typedef struct fv_attn_schedule_head {
    _Atomic int64_t left; /* work items not taken yet; 0 until the head is assigned */
    int64_t slot;
} fv_attn_schedule_head;

/* Per thread; used by that thread only. */
typedef struct fv_attn_schedule_thread {
    int64_t head, slot; /* -1: none yet */
} fv_attn_schedule_thread;

typedef struct fv_attn_schedule {
    int64_t heads, items;
    _Atomic int64_t *next_head, *next_slot;
    fv_attn_schedule_head *head;
    fv_attn_schedule_thread *thread;
} fv_attn_schedule;

typedef struct fv_attn_work_item {
    int64_t head, item, slot;
} fv_attn_work_item;

static inline int64_t fv_attn_schedule_slots(int64_t heads, int threads)
{
    return heads < threads ? heads : threads;
}

/* Bytes of `memory` for init, which must be aligned to 8. */
size_t fv_attn_schedule_bytes(int64_t heads, int threads);
void fv_attn_schedule_init(fv_attn_schedule *schedule, void *memory, int64_t heads, int64_t items,
                           int threads);

/* Returns the next work item; those of a head come in ascending order. */
fv_attn_work_item fv_attn_schedule_next(const fv_attn_schedule *schedule, int thread);

#endif
