/*
 * Which thread does what part of which head. K and V of a head, packed and in the near cache of one
 * core, are best met by that core alone; and their room can serve the next head while it is warm.
 * So a thread claims a head, the lowest that nobody has, and does its parts one by one. Only when
 * no head is left does it help others with theirs.
 *
 *     fv_attn_claims_begin(&claims, at, heads, parts, threads); // before the threads start
 *     fv_attn_claim c = fv_attn_claim_part(&claims, thread);    // heads x parts times in all
 *     ... part c.part of head c.head, whose keys lie in slot c.slot ...
 *
 * A head lies in the slot of the thread that claimed it. That thread claims another head, and
 * overwrites the slot, only after it has taken the last part itself or found it taken; and parts
 * are given to helpers only once no head can be claimed any more. So nobody reads a slot that is
 * being overwritten, and nobody waits. There are fv_attn_claims_slots slots.
 *
 * Every call must be for one part that is then done: parts are counted, not checked.
 */
#ifndef FV_KERNELS_ATTENTION_CLAIMS_H
#define FV_KERNELS_ATTENTION_CLAIMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one head. */
typedef struct fv_attn_claims_head {
    _Atomic int64_t left; /* parts that nobody has taken; 0 until it is claimed */
    int64_t slot;
} fv_attn_claims_head;

/* Of one thread; only it looks at it. */
typedef struct fv_attn_claims_thread {
    int64_t head, slot; /* -1: none yet */
} fv_attn_claims_thread;

typedef struct fv_attn_claims {
    int64_t heads, parts;
    _Atomic int64_t *next_head, *next_slot;
    fv_attn_claims_head *head;
    fv_attn_claims_thread *thread;
} fv_attn_claims;

typedef struct fv_attn_claim {
    int64_t head, part, slot;
} fv_attn_claim;

static inline int64_t fv_attn_claims_slots(int64_t heads, int threads)
{
    return heads < threads ? heads : threads;
}

/* Bytes that `begin` wants, and where they begin: aligned to 8. */
size_t fv_attn_claims_bytes(int64_t heads, int threads);
void fv_attn_claims_begin(fv_attn_claims *claims, void *at, int64_t heads, int64_t parts,
                          int threads);

/* Parts of a head are given in ascending order. */
fv_attn_claim fv_attn_claim_part(const fv_attn_claims *claims, int thread);

#endif
