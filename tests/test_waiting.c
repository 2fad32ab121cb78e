/* Threads on CPUs that other programs use too: work needs no worker that the system does not run,
 * and a thread that waits gives up its CPU. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/pool.h"
#include "base/team.h"
#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "support/test.h"

static const int pool_sizes[] = {2, 4, 8, 16};
enum { POOL_SIZES = sizeof pool_sizes / sizeof pool_sizes[0] };

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- workers that are not run ------------------------------------------------------- */

/* Holds the workers of a pool until the work is done, or for so long that a caller that waits for
 * them is noticed instead of hanging. */
typedef struct holder {
    fv_pool *pool;
    pthread_t thread;
    atomic_bool done, gave_up;
} holder;

static void *hold_for_long(void *arg)
{
    enum { LONG_MS = 5000 };
    holder *h = arg;
    for (int ms = 0; !atomic_load(&h->done); ms++) {
        if (ms == LONG_MS) {
            atomic_store(&h->gave_up, true);
            break;
        }
        sleep_ms(1);
    }
    fv_pool_hold(h->pool, false);
    return NULL;
}

static void holder_begin(holder *h, fv_pool *pool, void *(*fn)(void *))
{
    *h = (holder){.pool = pool};
    fv_pool_hold(pool, true);
    CHECK(pthread_create(&h->thread, NULL, fn, h) == 0);
}

/* Returns whether the work was done before the holder gave up. */
static bool holder_end(holder *h)
{
    atomic_store(&h->done, true);
    pthread_join(h->thread, NULL);
    return !atomic_load(&h->gave_up);
}

enum { UNITS = 100 };

typedef struct marks {
    atomic_int hits[UNITS];
    atomic_int by_workers;
} marks;

static void mark(const void *arg, int64_t begin, int64_t end, int thread)
{
    marks *m = (marks *)(uintptr_t)arg;
    if (thread > 0) atomic_fetch_add(&m->by_workers, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&m->hits[i], 1);
}

static void a_job_needs_no_worker(void)
{
    static marks m;
    for (int i = 0; i < POOL_SIZES; i++) {
        fv_pool *pool = NULL;
        holder h;
        memset(&m, 0, sizeof m);
        CHECK_EQ(fv_pool_create(pool_sizes[i], &pool), FV_OK);
        holder_begin(&h, pool, hold_for_long);
        for (int round = 0; round < 50; round++)
            fv_pool_run(pool, UNITS, 1 + round % 7, mark, &m);
        CHECK_EQ(m.by_workers, 0);
        CHECK(holder_end(&h));
        for (int unit = 0; unit < UNITS; unit++)
            CHECK_EQ(m.hits[unit], 50);
        fv_pool_destroy(&pool);
    }
}

/* A worker that is held while it is stopped must not keep the pool from ending. */
static void a_held_pool_ends(void)
{
    static marks m;
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(4, &pool), FV_OK);
    fv_pool_hold(pool, true);
    fv_pool_run(pool, UNITS, 1, mark, &m);
    fv_pool_destroy(&pool);
    CHECK(pool == NULL);
}

/* A product, attention and an LSTM, both with gradients. */
typedef struct results {
    float product[96 * 130], grad_q[2 * 300 * 16], grad_w[4 * 64 * 64];
} results;

static void compute(fv_pool *pool, results *out)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.pool = pool;
    cfg.threads = 1;
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    fv_tensor *a = fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){96, 200}, 0, 1);
    fv_tensor *b = fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){200, 130}, 0, 1);
    fv_tensor *q = fv_rand_normal(ctx, FV_F32, 4, (int64_t[]){1, 2, 300, 16}, 0, 1);
    fv_tensor *gates = fv_rand_normal(ctx, FV_F32, 3, (int64_t[]){12, 3, 256}, 0, 1);
    fv_tensor *w = fv_rand_normal(ctx, FV_F32, 2, (int64_t[]){256, 64}, 0, 0.1);
    q = fv_leaf(ctx, q);
    w = fv_leaf(ctx, w);
    fv_tensor *product = fv_matmul(ctx, a, b);
    fv_tensor *y = fv_square(ctx, fv_attend(ctx, q, q, q, NULL, NULL, NULL));
    fv_tensor *h = fv_lstm(ctx, gates, w, NULL, NULL, false, NULL, NULL);
    fv_tensor *loss = fv_add(ctx, fv_sum(ctx, y, 0, NULL, false), fv_sum(ctx, h, 0, NULL, false));
    CHECK_EQ(fv_backward(ctx, loss), FV_OK);
    CHECK_EQ(fv_tensor_read(ctx, product, out->product, sizeof out->product), FV_OK);
    CHECK_EQ(fv_tensor_read(ctx, fv_grad(ctx, q), out->grad_q, sizeof out->grad_q), FV_OK);
    CHECK_EQ(fv_tensor_read(ctx, fv_grad(ctx, w), out->grad_w, sizeof out->grad_w), FV_OK);
    fv_ctx_destroy(&ctx);
}

/* Lets the workers go on and holds them again, all the time. */
static void *hold_now_and_then(void *arg)
{
    holder *h = arg;
    for (bool held = true; !atomic_load(&h->done); held = !held) {
        fv_pool_hold(h->pool, held);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    fv_pool_hold(h->pool, false);
    return NULL;
}

static void ops_need_no_worker(void)
{
    static results alone, shared;
    compute(NULL, &alone);
    for (int i = 0; i < POOL_SIZES; i++) {
        fv_pool *pool = NULL;
        holder h;
        CHECK_EQ(fv_pool_create(pool_sizes[i], &pool), FV_OK);
        memset(&shared, 0, sizeof shared);
        holder_begin(&h, pool, hold_for_long);
        compute(pool, &shared);
        CHECK(holder_end(&h));
        CHECK(memcmp(&alone, &shared, sizeof alone) == 0);
        holder_begin(&h, pool, hold_now_and_then);
        for (int round = 0; round < 10; round++) {
            memset(&shared, 0, sizeof shared);
            compute(pool, &shared);
            CHECK(memcmp(&alone, &shared, sizeof alone) == 0);
        }
        CHECK(holder_end(&h));
        fv_pool_destroy(&pool);
    }
}

/* ---- threads that wait --------------------------------------------------------------- */

/* One thread works for this much CPU time while others wait. A thread that spun or yielded
 * meanwhile would get as much of the CPUs, however busy they are; one that sleeps uses next to
 * nothing. */
static const double WORK_SECONDS = 0.08, MOST_SECONDS = 0.02;

static double cpu_seconds(void) { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

static void work(void)
{
    const double begin = cpu_seconds();
    while (cpu_seconds() - begin < WORK_SECONDS) {}
}

typedef struct work_job {
    atomic_bool worker_has_one;
    double caller_used; /* CPU time up to the end of the caller's unit */
} work_job;

/* Two units: the caller's ends when a worker has the other one. */
static void work_unit(const void *arg, int64_t begin, int64_t end, int thread)
{
    work_job *job = (work_job *)(uintptr_t)arg;
    for (int64_t unit = begin; unit < end; unit++) {
        if (thread > 0) {
            atomic_store(&job->worker_has_one, true);
            work();
            continue;
        }
        for (int ms = 0; ms < 5000 && !atomic_load(&job->worker_has_one); ms++)
            sleep_ms(1);
        job->caller_used = cpu_seconds();
    }
}

static void a_waiting_caller_sleeps(void)
{
    fv_pool *pool = NULL;
    work_job job = {0};
    CHECK_EQ(fv_pool_create(2, &pool), FV_OK);
    for (int round = 0; round < 3; round++) {
        atomic_store(&job.worker_has_one, false);
        fv_pool_run(pool, 2, 1, work_unit, &job);
        CHECK(atomic_load(&job.worker_has_one));
        CHECK(cpu_seconds() - job.caller_used < MOST_SECONDS);
    }
    fv_pool_destroy(&pool);
}

/* The last member of a team of two lets the other wait. */
static void work_member(const void *arg, fv_team *team, int member)
{
    atomic_bool *formed = (atomic_bool *)(uintptr_t)arg;
    if (fv_team_size(team) < 2) return;
    if (member == 1) {
        work();
        fv_team_post(team, member, 1);
        return;
    }
    const double used = cpu_seconds();
    fv_team_wait(team, 1, 1);
    CHECK(cpu_seconds() - used < MOST_SECONDS);
    atomic_store(formed, true);
}

static void on_pool(void *user, int64_t units, int64_t grain, fv_range_fn fn, const void *arg)
{
    fv_pool_run(user, units, grain, fn, arg);
}

static void a_waiting_member_sleeps(void)
{
    static marks m;
    fv_pool *pool = NULL;
    atomic_bool formed = false;
    CHECK_EQ(fv_pool_create(2, &pool), FV_OK);
    for (int round = 0; round < 100000 && !atomic_load(&formed); round++) {
        fv_pool_run(pool, UNITS, 1, mark, &m); /* wakes the worker */
        fv_team_run(on_pool, pool, 2, work_member, &formed);
    }
    CHECK(atomic_load(&formed));
    fv_pool_destroy(&pool);
}

static void idle_workers_sleep(void)
{
    static marks m;
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(8, &pool), FV_OK);
    fv_pool_run(pool, UNITS, 1, mark, &m);
    work(); /* they spin for a while first */
    const double all = seconds_of(CLOCK_PROCESS_CPUTIME_ID), own = cpu_seconds();
    work();
    const double by_all = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - all;
    CHECK(by_all - (cpu_seconds() - own) < MOST_SECONDS);
    fv_pool_destroy(&pool);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(a_job_needs_no_worker);
    RUN(a_held_pool_ends);
    RUN(ops_need_no_worker);
    RUN(a_waiting_caller_sleeps);
    RUN(a_waiting_member_sleeps);
    RUN(idle_workers_sleep);
    return TEST_END();
}
