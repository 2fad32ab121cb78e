/* Waiting for another thread: spins briefly, then yields the CPU. */
#ifndef FV_BASE_SPIN_H
#define FV_BASE_SPIN_H

#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define fv_cpu_relax() _mm_pause()
#elif defined(__aarch64__)
#define fv_cpu_relax() __asm__ volatile("yield")
#else
#define fv_cpu_relax() ((void)0)
#endif

enum { FV_SPINS_BEFORE_YIELD = 200 };

/* One iteration of a wait loop; *turns starts at 0. */
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
