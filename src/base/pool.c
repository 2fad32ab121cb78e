/*
 * How a job runs without locks on the hot path:
 *   - the caller fills in the job, opens it and increments the generation; awake workers see the
 *     new generation, sleeping ones are woken;
 *   - a worker first increments `inside` and then checks whether the job is open; the caller first
 *     closes the job and then waits for `inside` to fall to zero. Both use sequentially consistent
 *     order, so either the worker finds the job closed or the caller waits for the worker: a worker
 *     that wakes up late can never touch a finished job.
 */
#include "base/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "base/spin.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define read_fp_state()       _mm_getcsr()
#define write_fp_state(state) _mm_setcsr(state)
#elif defined(__aarch64__)
static unsigned read_fp_state(void)
{
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    return (unsigned)state; /* the upper half is reserved */
}
static void write_fp_state(unsigned state)
{
    __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)state));
}
#else
#define read_fp_state()       0u
#define write_fp_state(state) ((void)(state))
#endif

enum {
    FV_POOL_MAX_THREADS = 64,
    SPINS_BEFORE_SLEEP = 2000, /* some tens of microseconds: the gap between two ops */
};

typedef struct worker {
    pthread_t thread;
    fv_pool *pool;
    int id; /* 1..threads-1; the caller is 0 */
} worker;

struct fv_pool {
    int threads;
    pthread_mutex_t callers; /* one job at a time */

    /* the job; written by the caller while it is closed and no worker is inside */
    fv_range_fn fn;
    const void *arg;
    int64_t units, grain;
    unsigned fp_state;

    atomic_llong next;
    atomic_int open, inside;
    atomic_uint generation;

    pthread_mutex_t sleep_lock;
    pthread_cond_t wake;
    atomic_int sleepers;
    atomic_int stop;

    int started; /* number of workers whose thread runs */
    worker workers[FV_POOL_MAX_THREADS];
};

static void take_units(fv_pool *pool, int id)
{
    for (;;) {
        int64_t begin = atomic_fetch_add(&pool->next, pool->grain);
        if (begin >= pool->units) return;
        int64_t left = pool->units - begin;
        pool->fn(pool->arg, begin, begin + (left < pool->grain ? left : pool->grain), id);
    }
}

/* Returns when the generation differs from `seen` or the pool stops. */
static void wait_for_job(fv_pool *pool, unsigned seen)
{
    for (int i = 0; i < SPINS_BEFORE_SLEEP; i++) {
        if (atomic_load(&pool->generation) != seen || atomic_load(&pool->stop)) return;
        fv_cpu_relax();
    }
    pthread_mutex_lock(&pool->sleep_lock);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->generation) == seen && !atomic_load(&pool->stop))
        pthread_cond_wait(&pool->wake, &pool->sleep_lock);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->sleep_lock);
}

static void *worker_main(void *arg)
{
    worker *self = arg;
    fv_pool *pool = self->pool;
    unsigned seen = 0;
    for (;;) {
        wait_for_job(pool, seen);
        if (atomic_load(&pool->stop)) return NULL;
        seen = atomic_load(&pool->generation);
        atomic_fetch_add(&pool->inside, 1);
        if (atomic_load(&pool->open)) {
            unsigned own_state = read_fp_state();
            write_fp_state(pool->fp_state); /* rounding and denormals as in the caller */
            take_units(pool, self->id);
            write_fp_state(own_state);
        }
        atomic_fetch_sub(&pool->inside, 1);
    }
}

static void wake_workers(fv_pool *pool)
{
    if (atomic_load(&pool->sleepers) == 0) return;
    pthread_mutex_lock(&pool->sleep_lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->sleep_lock);
}

void fv_pool_run(fv_pool *pool, int64_t units, int64_t grain, fv_range_fn fn, const void *arg)
{
    if (units <= 0) return;
    if (grain < 1) grain = 1;
    if (!pool || pool->threads == 1 || units <= grain) {
        fn(arg, 0, units, 0);
        return;
    }
    pthread_mutex_lock(&pool->callers);
    pool->fn = fn;
    pool->arg = arg;
    pool->units = units;
    pool->grain = grain;
    pool->fp_state = read_fp_state();
    atomic_store(&pool->next, 0);
    atomic_store(&pool->open, 1);
    atomic_fetch_add(&pool->generation, 1);
    wake_workers(pool);

    take_units(pool, 0);

    atomic_store(&pool->open, 0);
    int turns = 0;
    while (atomic_load(&pool->inside) != 0)
        fv_spin(&turns);
    pthread_mutex_unlock(&pool->callers);
}

int fv_pool_threads(const fv_pool *pool) { return pool ? pool->threads : 1; }

bool fv_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
    const bool started = pthread_create(thread, NULL, fn, arg) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static bool start_workers(fv_pool *pool)
{
    for (int i = 0; i < pool->threads - 1; i++) {
        worker *w = &pool->workers[i];
        *w = (worker){.pool = pool, .id = i + 1};
        if (!fv_thread_start(&w->thread, worker_main, w)) return false;
        pool->started++;
    }
    return true;
}

fv_status fv_pool_create(int threads, fv_pool **out)
{
    if (threads < 0 || threads > FV_POOL_MAX_THREADS) return FV_ERR_ARGUMENT;
    if (threads == 0) threads = fv_cpu_count();
    if (threads > FV_POOL_MAX_THREADS) threads = FV_POOL_MAX_THREADS;
    /* A pool can outlive every context, so it does not come from a context's allocator. */
    fv_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return FV_ERR_MEMORY;
    pool->threads = threads;
    pthread_mutex_init(&pool->callers, NULL);
    pthread_mutex_init(&pool->sleep_lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    if (!start_workers(pool)) {
        fv_pool_destroy(&pool);
        return FV_ERR_MEMORY;
    }
    *out = pool;
    return FV_OK;
}

void fv_pool_destroy(fv_pool **pool_ptr)
{
    fv_pool *pool = *pool_ptr;
    if (!pool) return;
    pthread_mutex_lock(&pool->sleep_lock);
    atomic_store(&pool->stop, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->sleep_lock);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->sleep_lock);
    pthread_mutex_destroy(&pool->callers);
    free(pool);
    *pool_ptr = NULL;
}
