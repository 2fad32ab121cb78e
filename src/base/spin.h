/* Waiting for another thread: a few polite turns, then the CPU goes to whoever needs it. */
#ifndef FV_BASE_SPIN_H
#define FV_BASE_SPIN_H

#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define fv_cpu_relax() _mm_pause()
#else
#define fv_cpu_relax() ((void)0)
#endif

enum { FV_SPINS_BEFORE_YIELD = 200 };

/* One turn of a wait loop; *turns starts at 0. */
static inline void fv_spin(int *turns)
{
    if (*turns < FV_SPINS_BEFORE_YIELD) {
        ++*turns;
        fv_cpu_relax();
    } else {
        sched_yield();
    }
}

#endif
