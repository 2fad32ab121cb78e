/* See attention_schedule.h. */
#include "kernels/attention_schedule.h"

#include "base/spin.h"

size_t fv_attn_schedule_bytes(int64_t heads, int threads)
{
    return 2 * sizeof(int64_t) + (size_t)heads * sizeof(fv_attn_schedule_head) +
           (size_t)threads * sizeof(fv_attn_schedule_thread);
}

void fv_attn_schedule_init(fv_attn_schedule *schedule, void *memory, int64_t heads, int64_t items,
                           int threads)
{
    _Atomic int64_t *counters = memory;
    fv_attn_schedule_head *head = (fv_attn_schedule_head *)(void *)(counters + 2);
    *schedule = (fv_attn_schedule){.heads = heads,
                                   .items = items,
                                   .next_head = counters,
                                   .next_slot = counters + 1,
                                   .head = head,
                                   .thread = (fv_attn_schedule_thread *)(void *)(head + heads)};
    atomic_init(schedule->next_head, 0);
    atomic_init(schedule->next_slot, 0);
    for (int64_t h = 0; h < heads; h++) {
        atomic_init(&head[h].left, 0);
        head[h].slot = 0;
    }
    for (int t = 0; t < threads; t++)
        schedule->thread[t] = (fv_attn_schedule_thread){-1, -1};
}

/* Takes a work item of head h, if one is left. */
static bool take_item(const fv_attn_schedule *schedule, int64_t h, fv_attn_work_item *next)
{
    fv_attn_schedule_head *head = &schedule->head[h];
    int64_t left = atomic_load_explicit(&head->left, memory_order_acquire);
    while (left > 0 && !atomic_compare_exchange_weak(&head->left, &left, left - 1)) {}
    if (left <= 0) return false;
    *next = (fv_attn_work_item){h, schedule->items - left, head->slot};
    return true;
}

/* Assigns the next head, if there is one, and takes its first work item. */
static bool assign_head(const fv_attn_schedule *schedule, fv_attn_schedule_thread *me,
                        fv_attn_work_item *next)
{
    if (atomic_load_explicit(schedule->next_head, memory_order_relaxed) >= schedule->heads)
        return false;
    const int64_t h = atomic_fetch_add(schedule->next_head, 1);
    if (h >= schedule->heads) return false;
    if (me->slot < 0) me->slot = atomic_fetch_add(schedule->next_slot, 1);
    me->head = h;
    schedule->head[h].slot = me->slot;
    atomic_store_explicit(&schedule->head[h].left, schedule->items - 1, memory_order_release);
    *next = (fv_attn_work_item){h, 0, me->slot};
    return true;
}

fv_attn_work_item fv_attn_schedule_next(const fv_attn_schedule *schedule, int thread)
{
    fv_attn_schedule_thread *me = &schedule->thread[thread];
    fv_attn_work_item next;
    if (me->head >= 0 && take_item(schedule, me->head, &next)) return next;
    if (assign_head(schedule, me, &next)) return next;
    /* There is a work item for every call, but its head may be about to be published. */
    for (int spins = 0;; fv_spin(&spins))
        for (int64_t i = 0; i < schedule->heads; i++) {
            const int64_t h = (thread + i) % schedule->heads;
            if (!take_item(schedule, h, &next)) continue;
            me->head = h;
            return next;
        }
}
