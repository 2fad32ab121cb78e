/*
 * How a job runs without locks on the hot path:
 *   - the caller fills in the job, sets the number of chunks left and increments the generation;
 *     awake workers see the new generation, sleeping ones are woken;
 *   - a thread owns a chunk once it has decremented `left` from a positive number. Only then does
 *     it read the job, which stays unchanged until every chunk is finished. A worker that comes
 *     late finds nothing left, or takes a chunk of the next job, and does no harm either way;
 *   - the caller takes chunks like a worker and returns when `unfinished` is zero. So it waits for
 *     chunks that a running worker has taken, never for a worker that the system does not run.
 *
 * Waiting threads spin for a short time and then sleep. They never yield: where threads of another
 * library spin on every CPU, a yield hands one of them a whole time slice, milliseconds. A thread
 * that sleeps is run soon after it is woken.
 */
#include "base/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

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

enum { FV_POOL_MAX_THREADS = 64 };

typedef struct worker {
    pthread_t thread;
    fv_pool *pool;
    int id; /* 1..threads-1; the caller is 0 */
} worker;

struct fv_pool {
    int threads;
    pthread_mutex_t callers; /* one job at a time */

    /* the job; written by the caller while no chunk is unfinished */
    fv_range_fn fn;
    const void *arg;
    int64_t units, grain, chunks;
    unsigned fp_state;

    atomic_llong left;       /* chunks not taken; negative once threads found none */
    atomic_llong unfinished; /* chunks not taken or not finished */
    atomic_uint generation;

    pthread_mutex_t sleep_lock;
    pthread_cond_t wake;     /* a new job, for workers */
    pthread_cond_t finished; /* the last chunk, for the caller */
    atomic_int sleepers, caller_sleeps;
    atomic_int stop;

    atomic_int held; /* test hook: workers take no chunk */

    int started; /* number of workers whose thread runs */
    worker workers[FV_POOL_MAX_THREADS];
};

/* Runs chunks until none is left; returns how many. */
static int64_t run_chunks(fv_pool *pool, int id)
{
    int64_t taken = 0;
    while (atomic_load_explicit(&pool->left, memory_order_relaxed) > 0) {
        const int64_t left = atomic_fetch_sub(&pool->left, 1);
        if (left <= 0) break;
        if (taken++ == 0) write_fp_state(pool->fp_state); /* rounding as in the caller */
        const int64_t begin = (pool->chunks - left) * pool->grain, rest = pool->units - begin;
        pool->fn(pool->arg, begin, begin + (rest < pool->grain ? rest : pool->grain), id);
    }
    return taken;
}

/* Returns when the generation differs from `seen` or the pool stops. */
static void wait_for_job(fv_pool *pool, unsigned seen)
{
    for (int i = 0; i < FV_SPINS_BEFORE_SLEEP; i++) {
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

/* Reports chunks of a worker as finished. */
static void finish_chunks(fv_pool *pool, int64_t chunks)
{
    if (atomic_fetch_sub(&pool->unfinished, chunks) != chunks) return;
    if (!atomic_load(&pool->caller_sleeps)) return;
    pthread_mutex_lock(&pool->sleep_lock);
    pthread_cond_signal(&pool->finished);
    pthread_mutex_unlock(&pool->sleep_lock);
}

static void wait_while_held(const fv_pool *pool)
{
#ifdef FV_TEST_HOOKS
    while (atomic_load(&pool->held) && !atomic_load(&pool->stop))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
#else
    (void)pool;
#endif
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
        wait_while_held(pool);
        const unsigned own_state = read_fp_state();
        const int64_t chunks = run_chunks(pool, self->id);
        write_fp_state(own_state);
        if (chunks > 0) finish_chunks(pool, chunks);
    }
}

/* Wakes as many workers as there are chunks for. */
static void wake_workers(fv_pool *pool, int64_t chunks)
{
    const int sleepers = atomic_load(&pool->sleepers);
    if (sleepers == 0) return;
    pthread_mutex_lock(&pool->sleep_lock);
    for (int64_t i = 0; i < chunks && i < sleepers; i++)
        pthread_cond_signal(&pool->wake);
    pthread_mutex_unlock(&pool->sleep_lock);
}

/* Waits for the chunks that workers have taken. */
static void wait_for_workers(fv_pool *pool)
{
    for (int i = 0; i < FV_SPINS_BEFORE_SLEEP; i++) {
        if (atomic_load(&pool->unfinished) == 0) return;
        fv_cpu_relax();
    }
    pthread_mutex_lock(&pool->sleep_lock);
    atomic_store(&pool->caller_sleeps, 1);
    while (atomic_load(&pool->unfinished) != 0)
        pthread_cond_wait(&pool->finished, &pool->sleep_lock);
    atomic_store(&pool->caller_sleeps, 0);
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
    pool->chunks = (units - 1) / grain + 1;
    atomic_store(&pool->unfinished, pool->chunks);
    atomic_store(&pool->left, pool->chunks);
    atomic_fetch_add(&pool->generation, 1);
    wake_workers(pool, pool->chunks - 1);

    const int64_t own = run_chunks(pool, 0);
    if (atomic_fetch_sub(&pool->unfinished, own) != own) wait_for_workers(pool);
    pthread_mutex_unlock(&pool->callers);
}

#ifdef FV_TEST_HOOKS
void fv_pool_hold(fv_pool *pool, bool held) { atomic_store(&pool->held, held); }
#endif

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
    pthread_cond_init(&pool->finished, NULL);
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
    pthread_cond_destroy(&pool->finished);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->sleep_lock);
    pthread_mutex_destroy(&pool->callers);
    free(pool);
    *pool_ptr = NULL;
}
