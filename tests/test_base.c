/* The base layer: memory, threads, contexts, errors. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/checked_math.h"
#include "base/ctx.h"
#include "base/team.h"
#include "fovea/tensor.h"
#include "support/failing.h"
#include "support/test.h"

static void checked_arithmetic_refuses_overflow(void)
{
    size_t s = 5;
    CHECK(fv_checked_add_size(1, 2, &s) && s == 3);
    CHECK(!fv_checked_add_size(SIZE_MAX, 1, &s) && s == 3);
    CHECK(fv_checked_mul_size(1 << 20, 1 << 20, &s) && s == (size_t)1 << 40);
    CHECK(!fv_checked_mul_size(SIZE_MAX / 2, 3, &s) && s == (size_t)1 << 40);
    CHECK(fv_checked_round_up(65, 64, &s) && s == 128);
    CHECK(fv_checked_round_up(0, 64, &s) && s == 0);
    CHECK(!fv_checked_round_up(SIZE_MAX - 3, 64, &s));
    int64_t i = 7;
    CHECK(!fv_checked_mul_i64(INT64_MAX, 2, &i) && i == 7);
    CHECK(!fv_checked_add_i64(INT64_MIN, -1, &i) && i == 7);
}

/* A size's class holds it, no smaller one does, and at most 1/share of the size is wasted. */
static void check_class(size_t n, size_t share, size_t *before)
{
    size_t rounded, again;
    const unsigned cls = fv_mem_class(n, &rounded);
    CHECK(rounded >= n && rounded % 64 == 0 && cls < FV_MEM_CLASSES);
    CHECK(n <= 256 || rounded <= n + n / share + 64);
    CHECK(rounded >= *before);
    *before = rounded;
    CHECK(fv_mem_class(rounded, &again) == cls && again == rounded);
    if (rounded < FV_MEM_LARGEST)
        CHECK(fv_mem_class(rounded + 1, &again) == cls + 1 && again > rounded);
}

static void size_classes_fit(void)
{
    size_t before = 0;
    for (size_t n = 0; n < 70000; n++)
        check_class(n, 4, &before);
    for (size_t n = 70000; n < (1 << 20) + 70000; n += 509)
        check_class(n, n > 1 << 20 ? 16 : 4, &before);
    /* Around every step of the large ones, up to the largest request. */
    before = 0;
    for (size_t power = (size_t)1 << 20; power < FV_MEM_LARGEST; power *= 2)
        for (size_t step = 0; step < 16; step++)
            for (size_t off = 0; off < 3; off++)
                check_class(power + step * (power / 16) + off, 16, &before);
    check_class(FV_MEM_LARGEST, 16, &before);
    CHECK_EQ(before, FV_MEM_LARGEST);
}

static void memory_is_aligned_counted_and_reused(void)
{
    failing_allocator f = {.fail_at = -1};
    fv_allocator table = failing_allocator_table(&f);
    fv_mem mem;
    fv_mem_init(&mem, &table, 0, false);
    void *a = fv_mem_alloc(&mem, 100), *b = fv_mem_alloc(&mem, 100);
    CHECK((uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0 && a != b);
    CHECK_EQ(mem.stats.used_bytes, 256);
    fv_mem_free(&mem, a, 100);
    CHECK_EQ(mem.stats.used_bytes, 128);
    CHECK_EQ(mem.stats.held_bytes, 256);
    CHECK(fv_mem_alloc(&mem, 120) == a); /* the same class */
    CHECK_EQ(f.requests, 2);
    fv_mem_free(&mem, a, 120);
    fv_mem_free(&mem, b, 100);
    CHECK_EQ(mem.stats.peak_bytes, 256);
    fv_mem_trim(&mem);
    CHECK_EQ(mem.stats.held_bytes, 0);
    CHECK_EQ(f.live, 0);
    CHECK(fv_mem_alloc(&mem, SIZE_MAX - 10) == NULL);
}

static void the_byte_cap_holds(void)
{
    fv_allocator table;
    fv_allocator_system(&table);
    fv_mem mem;
    fv_mem_init(&mem, &table, 4096, false);
    void *a = fv_mem_alloc(&mem, 2048);
    CHECK(a != NULL);
    CHECK(fv_mem_alloc(&mem, 4096) == NULL);
    fv_mem_free(&mem, a, 2048);
    void *b = fv_mem_alloc(&mem, 4096); /* only after the cached 2048 went back */
    CHECK(b != NULL);
    CHECK_EQ(mem.stats.held_bytes, 4096);
    fv_mem_free(&mem, b, 4096);
    fv_mem_trim(&mem);
}

/* A round takes eight blocks and gives them back, as a training step does. */
static void play_rounds(fv_mem *mem, size_t bytes, int rounds)
{
    void *blocks[8];
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < 8; i++)
            blocks[i] = fv_mem_alloc(mem, bytes);
        for (int i = 0; i < 8; i++)
            fv_mem_free(mem, blocks[i], bytes);
        fv_mem_release_idle(mem);
    }
}

static void idle_blocks_are_given_back(void)
{
    failing_allocator f = {.fail_at = -1};
    fv_allocator table = failing_allocator_table(&f);
    fv_mem mem;
    fv_mem_init(&mem, &table, 0, false);
    void *kept = fv_mem_alloc(&mem, 4096);
    play_rounds(&mem, 4096, 200); /* of one size: nothing moves */
    CHECK_EQ(f.requests, 9);
    CHECK_EQ(mem.stats.held_bytes, 9 * 4096);
    for (size_t bytes = 3584; bytes >= 1024; bytes -= 512) {
        play_rounds(&mem, bytes, 64);
        CHECK(mem.stats.held_bytes <= mem.stats.peak_bytes + mem.stats.peak_bytes / 4);
    }
    /* Sizes that take turns all stay, if they are few. */
    play_rounds(&mem, 1024, 64);
    play_rounds(&mem, 128, 1);
    const long requests = (long)f.requests;
    for (int i = 0; i < 100; i++) {
        play_rounds(&mem, 128, 1);
        play_rounds(&mem, 1024, 1);
    }
    CHECK_EQ(f.requests, requests);
    fv_mem_free(&mem, kept, 4096);
    fv_mem_trim(&mem);
    CHECK_EQ(f.live, 0);
}

static void a_capped_context_says_no_and_lives(void)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.memory_limit = 4 << 20;
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    int64_t big = 10 << 20, small = 1000;
    fv_zeros(ctx, FV_F32, 1, &big);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_MEMORY);
    CHECK(strstr(fv_ctx_message(ctx), "byte cap") != NULL);
    CHECK(fv_tensor_valid(fv_zeros(ctx, FV_F32, 1, &small)));
    fv_ctx_destroy(&ctx);
    CHECK(ctx == NULL);
    fv_ctx_destroy(&ctx); /* NULL is fine */
}

/* ---- threads ---------------------------------------------------------------------- */

typedef struct marks {
    atomic_int hits[5000];
    atomic_int busy[64];
    atomic_int clashes;
} marks;

static void mark(const void *arg, int64_t begin, int64_t end, int thread)
{
    marks *m = (marks *)(uintptr_t)arg;
    if (atomic_fetch_add(&m->busy[thread], 1) != 0) atomic_fetch_add(&m->clashes, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&m->hits[i], 1);
    atomic_fetch_sub(&m->busy[thread], 1);
}

static void every_unit_runs_once(void)
{
    static marks m;
    for (int threads = 1; threads <= 8; threads++) {
        fv_pool *pool = NULL;
        CHECK_EQ(fv_pool_create(threads, &pool), FV_OK);
        CHECK_EQ(fv_pool_threads(pool), threads);
        for (int round = 0; round < 200; round++) {
            int64_t units = 1 + (round * 37) % 4999, grain = 1 + round % 50;
            memset(&m, 0, sizeof m);
            fv_pool_run(pool, units, grain, mark, &m);
            bool once = true;
            for (int64_t i = 0; i < 5000; i++)
                once = once && m.hits[i] == (i < units);
            CHECK(once);
            CHECK_EQ(m.clashes, 0);
        }
        fv_pool_destroy(&pool);
        CHECK(pool == NULL);
    }
}

typedef struct sharer {
    fv_pool *pool;
    atomic_long sum;
    long expected;
} sharer;

static void add_units(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&((sharer *)(uintptr_t)arg)->sum, (long)i);
}

static void *share(void *arg)
{
    sharer *s = arg;
    for (int i = 0; i < 300; i++) {
        fv_pool_run(s->pool, 100, 7, add_units, s);
        s->expected += 4950;
    }
    return NULL;
}

static void contexts_share_a_pool(void)
{
    enum { SHARERS = 4 };
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(3, &pool), FV_OK);
    static sharer s[SHARERS];
    pthread_t threads[SHARERS];
    for (int i = 0; i < SHARERS; i++) {
        s[i].pool = pool;
        pthread_create(&threads[i], NULL, share, &s[i]);
    }
    for (int i = 0; i < SHARERS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(s[i].sum, s[i].expected);
    }
    fv_pool_destroy(&pool);
}

static void pools_refuse_nonsense(void)
{
    fv_pool *pool = NULL;
    CHECK_EQ(fv_pool_create(-1, &pool), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_pool_create(65, &pool), FV_ERR_ARGUMENT);
    CHECK(pool == NULL);
    fv_pool_destroy(&pool);
}

/* ---- teams ------------------------------------------------------------------------ */

/* Every cell of a step is made of all cells of the step before, so a member that ran ahead of
 * another would read what is not there yet. The cells are ordinary memory: ThreadSanitizer sees
 * whether waiting orders them. */
enum { WALK_STEPS = 300, WALK_CELLS = 24 };

typedef struct walk_job {
    long cells[WALK_STEPS + 1][WALK_CELLS];
    atomic_int members, calls;
} walk_job;

static long next_cell(const long *before, int cell)
{
    long sum = cell;
    for (int i = 0; i < WALK_CELLS; i++)
        sum += (i + 1) * before[i];
    return sum % 1000003;
}

static void walk(const void *arg, fv_team *team, int member)
{
    walk_job *job = (walk_job *)(uintptr_t)arg;
    const int size = fv_team_size(team);
    atomic_fetch_add(&job->calls, 1);
    atomic_store(&job->members, size);
    for (int64_t step = 0; step < WALK_STEPS; step++) {
        for (int other = 0; other < size; other++)
            fv_team_wait(team, other, step);
        for (int cell = member; cell < WALK_CELLS; cell += size)
            job->cells[step + 1][cell] = next_cell(job->cells[step], cell);
        fv_team_post(team, member, step + 1);
    }
}

static void on_pool(void *user, int64_t units, int64_t grain, fv_range_fn fn, const void *arg)
{
    fv_pool_run(user, units, grain, fn, arg);
}

/* Leaves negative numbers on the stack of the next call, so that a team that reads uninitialised
 * variables waits forever. */
static void poison_the_stack(void)
{
    volatile signed char below[8 << 10];
    for (size_t i = 0; i < sizeof below; i++)
        below[i] = -1;
}

/* Runs the walk and compares it with a plain loop. */
static void check_walk(fv_parallel_fn parallel, void *user, int most)
{
    static walk_job job;
    memset(&job, 0, sizeof job);
    poison_the_stack();
    fv_team_run(parallel, user, most, walk, &job);
    CHECK_EQ(job.calls, job.members);
    CHECK(job.members >= 1 && job.members <= (most < 1 ? 1 : most));
    long cells[WALK_CELLS] = {0};
    for (int step = 0; step < WALK_STEPS; step++) {
        long before[WALK_CELLS];
        memcpy(before, cells, sizeof cells);
        for (int cell = 0; cell < WALK_CELLS; cell++)
            cells[cell] = next_cell(before, cell);
    }
    CHECK(memcmp(cells, job.cells[WALK_STEPS], sizeof cells) == 0);
}

static void teams_keep_step(void)
{
    for (int threads = 1; threads <= 8; threads++) {
        fv_pool *pool = NULL;
        CHECK_EQ(fv_pool_create(threads, &pool), FV_OK);
        for (int most = 0; most <= 9; most++)
            for (int round = 0; round < 10; round++)
                check_walk(on_pool, pool, most);
        fv_pool_destroy(&pool);
    }
}

static void one_unit_after_the_other(void *user, int64_t units, int64_t grain, fv_range_fn fn,
                                     const void *arg)
{
    (void)user;
    (void)grain;
    for (int64_t i = 0; i < units; i++)
        fn(arg, i, i + 1, 0);
}

static void all_units_at_once(void *user, int64_t units, int64_t grain, fv_range_fn fn,
                              const void *arg)
{
    (void)user;
    (void)grain;
    fn(arg, 0, units, 0);
}

/* A pool that never runs two units concurrently: no member may wait for one that cannot join, and a
 * unit that starts after the work is done must not repeat it. */
static void a_team_of_one_does_it_all(void)
{
    check_walk(one_unit_after_the_other, NULL, 4);
    check_walk(all_units_at_once, NULL, 4);
    check_walk(one_unit_after_the_other, NULL, 1000); /* more than a team can have */
}

/* ---- contexts --------------------------------------------------------------------- */

static void configs_are_checked(void)
{
    fv_ctx *ctx = NULL;
    fv_ctx_config cfg;
    CHECK_EQ(fv_ctx_create(NULL, NULL), FV_ERR_ARGUMENT);
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = -3;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_ERR_ARGUMENT);
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.simd = (fv_simd)99;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_ERR_ARGUMENT);
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.device = (fv_device_kind)99;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_ERR_ARGUMENT);
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.struct_size = sizeof cfg + 8; /* a newer caller than library */
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_ERR_ARGUMENT);
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.struct_size = sizeof cfg.struct_size; /* an older caller: nothing but the size */
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    fv_ctx_destroy(&ctx);
    if (fv_simd_detect() < FV_SIMD_AVX512) {
        fv_ctx_config_init(&cfg, sizeof cfg);
        cfg.simd = FV_SIMD_AVX512;
        CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_ERR_UNSUPPORTED);
    }
    CHECK(ctx == NULL);
}

static void levels_need_the_register_state(void)
{
    fv_cpu cpu = {.avx2 = true,
                  .fma = true,
                  .f16c = true,
                  .avx512f = true,
                  .avx512dq = true,
                  .avx512bw = true,
                  .avx512vl = true,
                  .os_ymm = true,
                  .os_zmm = true};
    CHECK_EQ(fv_cpu_best(&cpu), FV_SIMD_AVX512);
    cpu.os_zmm = false;
    CHECK_EQ(fv_cpu_best(&cpu), FV_SIMD_AVX2);
    cpu.os_ymm = false;
    CHECK_EQ(fv_cpu_best(&cpu), FV_SIMD_SCALAR);
#if defined(__aarch64__)
    CHECK_STR(fv_simd_name(FV_SIMD_NEON), "neon");
#else
    CHECK_STR(fv_simd_name(FV_SIMD_AVX512), "avx512");
#endif
    CHECK_STR(fv_simd_name((fv_simd)77), "unknown");
}

static int log_lines;
static char last_line[256];

static void collect(void *user, fv_log_level level, const char *text)
{
    (void)user;
    (void)level;
    log_lines++;
    snprintf(last_line, sizeof last_line, "%s", text);
}

static void the_log_goes_to_its_sink(void)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.log = collect;
    cfg.threads = 1;
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    CHECK(log_lines == 1 && strstr(last_line, "device cpu") != NULL);
    int64_t bad = -1;
    fv_zeros(ctx, FV_F32, 1, &bad);
    CHECK(log_lines == 2 && strstr(last_line, "shape") != NULL);
    fv_ctx_destroy(&ctx);
}

static void the_first_error_wins(void)
{
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    CHECK_STR(fv_ctx_message(ctx), "");
    CHECK_EQ(fv_fail(ctx, FV_ERR_IO, "file %d", 1), FV_ERR_IO);
    CHECK_EQ(fv_ctx_error(ctx), FV_OK);
    CHECK_STR(fv_ctx_message(ctx), "file 1");
    CHECK_EQ(fv_poison(ctx, FV_ERR_SHAPE, "first"), FV_ERR_SHAPE);
    CHECK_EQ(fv_poison(ctx, FV_ERR_DTYPE, "second"), FV_ERR_SHAPE);
    CHECK_EQ(fv_fail(ctx, FV_ERR_IO, "third"), FV_ERR_IO);
    CHECK_STR(fv_ctx_message(ctx), "first");
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_SHAPE);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_OK);
    CHECK_STR(fv_status_name(FV_ERR_NONFINITE), "non-finite");
    CHECK_STR(fv_status_name((fv_status)1000), "unknown");
    char longer[600];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    fv_fail(ctx, FV_ERR_IO, "%s", longer);
    CHECK_EQ(strlen(fv_ctx_message(ctx)), FV_MESSAGE_BYTES - 1);
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(checked_arithmetic_refuses_overflow);
    RUN(size_classes_fit);
    RUN(memory_is_aligned_counted_and_reused);
    RUN(the_byte_cap_holds);
    RUN(idle_blocks_are_given_back);
    RUN(a_capped_context_says_no_and_lives);
    RUN(every_unit_runs_once);
    RUN(contexts_share_a_pool);
    RUN(pools_refuse_nonsense);
    RUN(teams_keep_step);
    RUN(a_team_of_one_does_it_all);
    RUN(configs_are_checked);
    RUN(levels_need_the_register_state);
    RUN(the_log_goes_to_its_sink);
    RUN(the_first_error_wins);
    return TEST_END();
}
