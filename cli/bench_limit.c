/*
 * Reading a limit: the same small loop on every thread at once, timed as a whole. The loops are
 * in bench_loops.c.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "bench.h"
#include "fovea/context.h"
#include "output.h"

struct bench_buffers {
    float *arrays[3]; /* consecutive */
    int64_t floats;   /* in each */
};

enum { GAUGE_THREADS = 64, LINE_FLOATS = 64, LINE_BYTES = 256 };

void *bench_alloc(size_t bytes)
{
    enum { HUGE_PAGE = 2 << 20 };
    size_t rounded = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *made = rounded < bytes ? NULL : aligned_alloc(HUGE_PAGE, rounded);
#ifdef MADV_HUGEPAGE
    /* A hint: without huge pages the figures are those of small pages. */
    if (made) (void)madvise(made, rounded, MADV_HUGEPAGE);
#endif
    return made;
}

/* Three arrays that together are many times the last cache, within reason: virtual machines report
 * the cache of a whole socket. Together they are also as large as what a token of a language model
 * reads, half a gigabyte: a pass over less would find some of it in the caches. */
static bench_buffers *buffers_of(bench_run *run)
{
    if (run->buffers) return run->buffers;
    fv_cpu_info cpu = {.struct_size = sizeof cpu};
    fv_cpu_info_get(&cpu);
    const uint64_t min_bytes = UINT64_C(168) << 20, max_bytes = UINT64_C(256) << 20;
    uint64_t bytes = cpu.l3_bytes / 3 * 4 / LINE_BYTES * LINE_BYTES;
    if (bytes < min_bytes) bytes = min_bytes;
    if (bytes > max_bytes) bytes = max_bytes;

    bench_buffers *made = calloc(1, sizeof *made);
    float *block = made ? bench_alloc(3 * bytes) : NULL;
    if (!block) {
        free(made);
        run->missing_memory = true;
        return NULL;
    }
    run->buffers = made;
    made->floats = (int64_t)(bytes / sizeof(float));
    for (int i = 0; i < 3; i++)
        made->arrays[i] = block + i * made->floats;
    for (int64_t at = 0; at < 3 * made->floats; at++)
        block[at] = (float)(at % 7) + 1.0f;
    return made;
}

void bench_buffers_free(bench_run *run)
{
    if (!run->buffers) return;
    free(run->buffers->arrays[0]);
    free(run->buffers);
    run->buffers = NULL;
}

/* ---- all threads at once -------------------------------------------------------- */

/* Workers spin between rounds and yield to other threads: a round is a few milliseconds, and waking
 * a sleeping thread would be part of its time. */
typedef struct crew {
    atomic_int round; /* rounds begun; STOP ends the workers */
    atomic_int busy;  /* workers still in this round */
    bench_limit_fn loop;
    double (*now)(void);
} crew;

enum { STOP = -1 };

typedef struct worker {
    crew *crew;
    bench_slice slice;
    double work; /* units done in the round */
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    int seen = 0, now;
    for (;;) {
        while ((now = atomic_load(&w->crew->round)) == seen)
            sched_yield();
        if (now == STOP) return NULL;
        seen = now;
        w->work = w->crew->loop(&w->slice);
        atomic_fetch_sub(&w->crew->busy, 1);
    }
}

static double run_round(crew *c, worker *workers, int threads)
{
    atomic_store(&c->busy, threads - 1);
    double begin = c->now();
    atomic_fetch_add(&c->round, 1);
    workers[0].work = c->loop(&workers[0].slice);
    while (atomic_load(&c->busy) > 0)
        sched_yield();
    double took = c->now() - begin, units = 0;
    for (int i = 0; i < threads; i++)
        units += workers[i].work;
    return 1e-9 * units / took;
}

/* Median rate over the rounds in 10^9 units a second; the first round only warms up. The caller
 * is worker 0. NaN if a thread cannot be created. */
static double run_crew(crew *c, worker *workers, int threads, int rounds)
{
    enum { MAX_ROUNDS = 16 };
    pthread_t ids[GAUGE_THREADS];
    double rates[MAX_ROUNDS], rate = NAN;
    int made = 1;
    while (made < threads && pthread_create(&ids[made], NULL, work, &workers[made]) == 0)
        made++;
    if (made == threads) {
        run_round(c, workers, threads);
        for (int round = 0; round < rounds; round++)
            rates[round] = run_round(c, workers, threads);
        rate = bench_median(rates, rounds);
    }
    atomic_store(&c->round, STOP);
    for (int i = 1; i < made; i++)
        pthread_join(ids[i], NULL);
    return rate;
}

static bool uses_memory(bench_limit limit) { return limit >= BENCH_READ; }

double bench_limit_read(bench_run *run, bench_limit limit, fv_simd level, int threads)
{
    /* About 4 ms of multiply-adds, or one pass over the arrays, in each round. */
    enum { REGISTER_REPEATS = 1 << 18, ROUNDS = 5, QUICK_ROUNDS = 3 };
    bench_buffers *buffers = NULL;
    if (threads > GAUGE_THREADS) threads = GAUGE_THREADS;
    if (uses_memory(limit) && !(buffers = buffers_of(run))) return NAN;

    worker workers[GAUGE_THREADS];
    crew c = {.loop = bench_limit_loop(limit, level), .now = run->now};
    for (int i = 0; i < threads; i++) {
        bench_slice slice = {.repeats = REGISTER_REPEATS};
        if (limit == BENCH_READ) { /* over all arrays */
            int64_t each = 3 * buffers->floats / threads / LINE_FLOATS * LINE_FLOATS;
            slice = (bench_slice){.b = buffers->arrays[0] + each * i, .n = each, .repeats = 1};
        } else if (buffers) {
            int64_t each = buffers->floats / threads / LINE_FLOATS * LINE_FLOATS;
            slice = (bench_slice){.a = buffers->arrays[0] + each * i,
                                  .b = buffers->arrays[1] + each * i,
                                  .c = buffers->arrays[2] + each * i,
                                  .n = each,
                                  .repeats = 1};
        }
        workers[i] = (worker){.crew = &c, .slice = slice};
    }
    return run_crew(&c, workers, threads, run->quick ? QUICK_ROUNDS : ROUNDS);
}
