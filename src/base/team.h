/*
 * A team: a few threads that run the same sequence of steps together, where each step reads what
 * the other members wrote in the step before, without returning to the pool in between. A step of a
 * small LSTM takes about a microsecond; starting a pool job for each would cost as much again.
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
 * What a member writes before a post is visible to every member that has waited for that post.
 *
 * The pool guarantees that every work item runs, not that two run concurrently. So the team forms
 * first: threads check in, the first one waits a short time for the others and then closes the
 * team; a thread that arrives later returns at once. A team may therefore have any size from 1 to
 * `max_members`, and results must not depend on it. Waiting spins briefly and then sleeps (spin.h),
 * so where CPUs are scarce the member that is waited for gets one.
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

/* The work of one member; members are numbered from 0. It must not use the pool. */
typedef void (*fv_team_fn)(const void *arg, fv_team *team, int member);

/* Runs fn on every member of a team and returns when all are done. `max_members` is clamped to 1 ..
 * FV_TEAM_MOST. */
void fv_team_run(fv_parallel_fn parallel, void *user, int max_members, fv_team_fn fn,
                 const void *arg);

static inline int fv_team_size(const fv_team *team) { return team->size; }

/* Announces that `member` has finished `steps` steps. */
static inline void fv_team_post(fv_team *team, int member, int64_t steps)
{
    atomic_store_explicit(&team->post[member].done, steps, memory_order_release);
}

/* The slow part of fv_team_wait. */
void fv_team_wait_long(fv_team *team, int other, int64_t steps);

/* Returns once `other` has finished `steps` steps. */
static inline void fv_team_wait(fv_team *team, int other, int64_t steps)
{
    if (atomic_load_explicit(&team->post[other].done, memory_order_acquire) < steps)
        fv_team_wait_long(team, other, steps);
}

#endif
