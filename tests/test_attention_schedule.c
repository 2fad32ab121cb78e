/*
 * The schedule of attention work items: every item is run once, a head stays in its slot, and a
 * slot holds one head at a time.
 */
#include "base/pool.h"
#include "kernels/attention_schedule.h"
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS = 16, ITEMS = 7, THREADS = 8 };

typedef struct work {
    fv_attn_schedule schedule;
    atomic_int done[HEADS][ITEMS];
    atomic_int slot_of[HEADS]; /* 1 more than the number; 0: not known yet */
    atomic_int users[THREADS][HEADS];
    atomic_int faults;
} work;

static void expect(work *w, bool holds)
{
    if (!holds) atomic_fetch_add(&w->faults, 1);
}

static bool is_alone(work *w, fv_attn_work_item c)
{
    for (int h = 0; h < HEADS; h++)
        if (h != c.head && atomic_load(&w->users[c.slot][h]) != 0) return false;
    return true;
}

/* Items take unequal times, so that threads run out of work at different moments. */
static void linger(int64_t turns)
{
    for (volatile int64_t i = 0; i < turns;)
        i = i + 1;
}

static void run_items(const void *arg, int64_t begin, int64_t end, int thread)
{
    work *w = *(work *const *)arg;
    for (int64_t i = begin; i < end; i++) {
        const fv_attn_work_item c = fv_attn_schedule_next(&w->schedule, thread);
        expect(w, c.head >= 0 && c.head < w->schedule.heads && c.item >= 0 &&
                      c.item < w->schedule.items && c.slot >= 0 && c.slot < THREADS);
        atomic_fetch_add(&w->users[c.slot][c.head], 1);
        expect(w, is_alone(w, c));
        atomic_fetch_add(&w->done[c.head][c.item], 1);
        int known = 0;
        if (!atomic_compare_exchange_strong(&w->slot_of[c.head], &known, (int)c.slot + 1))
            expect(w, known == c.slot + 1);
        linger(200 * (c.head * 5 + c.item * 3) % 1700);
        expect(w, is_alone(w, c));
        atomic_fetch_sub(&w->users[c.slot][c.head], 1);
    }
}

static void check_sizes(fv_pool *pool, int threads, int64_t heads, int64_t items)
{
    work *w = calloc(1, sizeof *w);
    void *at = malloc(fv_attn_schedule_bytes(heads, threads));
    CHECK(w && at);
    if (w && at) {
        memset(at, 0x7f, fv_attn_schedule_bytes(heads, threads));
        fv_attn_schedule_init(&w->schedule, at, heads, items, threads);
        for (int64_t h = 0; h < heads; h++) /* nothing to take before a thread has the head */
            CHECK(atomic_load(&w->schedule.head[h].left) == 0);
        CHECK_EQ((char *)(w->schedule.thread + threads) - (char *)at,
                 fv_attn_schedule_bytes(heads, threads));
        fv_pool_run(pool, heads * items, 1, run_items, &w);
        CHECK(atomic_load(&w->faults) == 0);
        for (int64_t h = 0; h < heads; h++) {
            CHECK(atomic_load(&w->slot_of[h]) <= fv_attn_schedule_slots(heads, threads));
            for (int64_t p = 0; p < items; p++)
                CHECK(atomic_load(&w->done[h][p]) == 1);
        }
    }
    free(at);
    free(w);
}

static void items_are_run_once(void)
{
    enum { TIMES = 20 };
    for (int threads = 1; threads <= THREADS; threads++) {
        fv_pool *pool = NULL;
        const fv_status made = threads > 1 ? fv_pool_create(threads, &pool) : FV_OK;
        CHECK(made == FV_OK);
        if (made != FV_OK) return;
        static const int64_t heads[] = {1, 2, 5, HEADS}, items[] = {1, 3, ITEMS};
        for (int time = 0; time < TIMES; time++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 3; j++)
                    check_sizes(pool, threads, heads[i], items[j]);
        fv_pool_destroy(&pool);
    }
}

/* Two threads in turn: each keeps to its head, then takes items of the other. */
static void threads_keep_to_their_heads(void)
{
    static const struct {
        int thread;
        fv_attn_work_item expected;
    } steps[] = {
        {0, {0, 0, 0}}, {1, {1, 0, 1}}, {1, {1, 1, 1}},
        {1, {2, 0, 1}}, {1, {2, 1, 1}}, {1, {0, 1, 0}}, /* no head is left */
    };
    uint64_t at[32] = {0};
    fv_attn_schedule schedule;
    CHECK(fv_attn_schedule_bytes(3, 2) <= sizeof at);
    fv_attn_schedule_init(&schedule, at, 3, 2, 2);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        const fv_attn_work_item item = fv_attn_schedule_next(&schedule, steps[i].thread);
        CHECK(item.head == steps[i].expected.head && item.item == steps[i].expected.item &&
              item.slot == steps[i].expected.slot);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(threads_keep_to_their_heads);
    RUN(items_are_run_once);
    return TEST_END();
}
