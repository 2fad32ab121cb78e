/* See attention_claims.h. */
#include "kernels/attention_claims.h"

#include "base/spin.h"

size_t fv_attn_claims_bytes(int64_t heads, int threads)
{
    return 2 * sizeof(int64_t) + (size_t)heads * sizeof(fv_attn_claims_head) +
           (size_t)threads * sizeof(fv_attn_claims_thread);
}

void fv_attn_claims_begin(fv_attn_claims *claims, void *at, int64_t heads, int64_t parts,
                          int threads)
{
    _Atomic int64_t *counters = at;
    fv_attn_claims_head *head = (fv_attn_claims_head *)(void *)(counters + 2);
    *claims = (fv_attn_claims){.heads = heads,
                               .parts = parts,
                               .next_head = counters,
                               .next_slot = counters + 1,
                               .head = head,
                               .thread = (fv_attn_claims_thread *)(void *)(head + heads)};
    atomic_init(claims->next_head, 0);
    atomic_init(claims->next_slot, 0);
    for (int64_t h = 0; h < heads; h++) {
        atomic_init(&head[h].left, 0);
        head[h].slot = 0;
    }
    for (int t = 0; t < threads; t++)
        claims->thread[t] = (fv_attn_claims_thread){-1, -1};
}

/* A part of a head, if one is left. */
static bool take(const fv_attn_claims *claims, int64_t h, fv_attn_claim *got)
{
    fv_attn_claims_head *head = &claims->head[h];
    int64_t left = atomic_load_explicit(&head->left, memory_order_acquire);
    while (left > 0 && !atomic_compare_exchange_weak(&head->left, &left, left - 1)) {}
    if (left <= 0) return false;
    *got = (fv_attn_claim){h, claims->parts - left, head->slot};
    return true;
}

/* The first part of a head that nobody has, if there is one. */
static bool claim(const fv_attn_claims *claims, fv_attn_claims_thread *me, fv_attn_claim *got)
{
    if (atomic_load_explicit(claims->next_head, memory_order_relaxed) >= claims->heads)
        return false;
    const int64_t h = atomic_fetch_add(claims->next_head, 1);
    if (h >= claims->heads) return false;
    if (me->slot < 0) me->slot = atomic_fetch_add(claims->next_slot, 1);
    me->head = h;
    claims->head[h].slot = me->slot;
    atomic_store_explicit(&claims->head[h].left, claims->parts - 1, memory_order_release);
    *got = (fv_attn_claim){h, 0, me->slot};
    return true;
}

fv_attn_claim fv_attn_claim_part(const fv_attn_claims *claims, int thread)
{
    fv_attn_claims_thread *me = &claims->thread[thread];
    fv_attn_claim got;
    if (me->head >= 0 && take(claims, me->head, &got)) return got;
    if (claim(claims, me, &got)) return got;
    /* There is a part for every call, but its head may be just about to be shown. */
    for (int turns = 0;; fv_spin(&turns))
        for (int64_t i = 0; i < claims->heads; i++) {
            const int64_t h = (thread + i) % claims->heads;
            if (!take(claims, h, &got)) continue;
            me->head = h;
            return got;
        }
}
