/*
 * A team: a few threads that walk through the same steps together and hand each other what the
 * next step needs, without going back to the pool in between. A step of a small LSTM takes about a
 * microsecond; starting a pool job for each would cost as much again.
 *
 *     static void walk(const void *arg, fv_team *team, int member)
 *     {
 *         for (int64_t step = 0; step < steps; step++) {
 *             for (int other = 0; other < fv_team_size(team); other++)
 *                 fv_team_wait(team, other, step);        // all have done `step` steps
 *             ... this member's share of the step, reading what the others wrote before ...
 *             fv_team_post(team, member, step + 1);
 *         }
 *     }
 *
 *     fv_team_run(parallel, user, 4, walk, &job);
 *
 * What a member writes before a post can be read by whoever has waited for that post.
 *
 * A pool promises that every unit is run, not that two run at the same time. So the team forms
 * first: threads check in, the first one waits a short while for the others and then closes the
 * team; who comes too late goes away again. A team may thus have any size from 1 to `most`, and
 * results must not depend on it. Waiting spins briefly and then yields the CPU, so a machine with
 * more threads than cores is slow but never stuck.
 */
#ifndef FV_BASE_TEAM_H
#define FV_BASE_TEAM_H

#include <stdatomic.h>

#include "base/pool.h"

enum {
    FV_TEAM_MOST = 16,
    FV_TEAM_APART = 128 /* bytes: two lines, since lines are fetched in pairs */
};

/* As in fv_exec: runs fn over [0, units), some of it perhaps on other threads. */
typedef void (*fv_parallel_fn)(void *user, int64_t units, int64_t grain, fv_range_fn fn,
                               const void *arg);

typedef struct fv_team {
    struct {
        _Alignas(FV_TEAM_APART) atomic_llong done;
    } post[FV_TEAM_MOST];
    _Alignas(FV_TEAM_APART) atomic_int checked_in; /* members, plus a flag once it is closed */
    int size;
} fv_team;

/* What one member does; members are numbered from 0. It must not use the pool. */
typedef void (*fv_team_fn)(const void *arg, fv_team *team, int member);

/* Runs fn on every member of one team and returns when all are done. `most` below 1 means 1. */
void fv_team_run(fv_parallel_fn parallel, void *user, int most, fv_team_fn fn, const void *arg);

static inline int fv_team_size(const fv_team *team) { return team->size; }

/* Says that `member` has done so many steps. */
static inline void fv_team_post(fv_team *team, int member, int64_t steps)
{
    atomic_store_explicit(&team->post[member].done, steps, memory_order_release);
}

/* The slow part of fv_team_wait. */
void fv_team_wait_long(fv_team *team, int other, int64_t steps);

/* Returns once `other` has done `steps` steps. */
static inline void fv_team_wait(fv_team *team, int other, int64_t steps)
{
    if (atomic_load_explicit(&team->post[other].done, memory_order_acquire) < steps)
        fv_team_wait_long(team, other, steps);
}

#endif
