/*
 * Waiting for another thread: spins briefly, then sleeps for short, growing times.
 *
 *     for (int turns = 0; !atomic_load(&flag); fv_spin(&turns)) {}
 *
 * Nothing wakes the sleeper, so the thread that it waits for need not know of it. It does not yield
 * the CPU instead: see pool.c.
 */
#ifndef FV_BASE_SPIN_H
#define FV_BASE_SPIN_H

#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define fv_cpu_relax() _mm_pause()
#elif defined(__aarch64__)
#define fv_cpu_relax() __asm__ volatile("yield")
#else
#define fv_cpu_relax() ((void)0)
#endif

enum {
    FV_SPINS_BEFORE_SLEEP = 2000, /* some tens of microseconds: the gap between two ops */
    FV_SLEEP_NS = 20000,
    FV_SLEEP_DOUBLINGS = 4, /* up to a third of a millisecond */
};

/* One iteration of a wait loop; *turns starts at 0. */
static inline void fv_spin(int *turns)
{
    if (*turns < FV_SPINS_BEFORE_SLEEP) {
        ++*turns;
        fv_cpu_relax();
        return;
    }
    const int sleeps = *turns - FV_SPINS_BEFORE_SLEEP;
    nanosleep(&(struct timespec){.tv_nsec = (long)FV_SLEEP_NS << sleeps}, NULL);
    if (sleeps < FV_SLEEP_DOUBLINGS) ++*turns;
}

#endif
