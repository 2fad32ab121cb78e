#include "base/team.h"

#include "base/spin.h"

enum {
    CLOSED = 1 << 16,
    TURNS_TO_FORM = 400, /* about ten microseconds; an awake thread needs one to check in */
};

typedef struct team_job {
    fv_team *team;
    int max_members;
    fv_team_fn fn;
    const void *arg;
} team_job;

void fv_team_wait_long(fv_team *team, int other, int64_t steps)
{
    int turns = 0;
    while (atomic_load_explicit(&team->post[other].done, memory_order_acquire) < steps)
        fv_spin(&turns);
}

/* The number of a new member, or -1 if the team is closed. */
static int check_in(fv_team *team)
{
    int seen = atomic_load(&team->checked_in);
    while (seen < CLOSED)
        if (atomic_compare_exchange_weak(&team->checked_in, &seen, seen + 1)) return seen;
    return -1;
}

/* Run by the first member: waits a short time for the others, then closes the team. */
static void close_team(const team_job *job)
{
    fv_team *team = job->team;
    for (int turn = 0; turn < TURNS_TO_FORM && atomic_load(&team->checked_in) < job->max_members;
         turn++)
        fv_cpu_relax();
    team->size = atomic_load(&team->checked_in);
    while (!atomic_compare_exchange_weak(&team->checked_in, &team->size, team->size + CLOSED)) {}
}

static void join_team(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)begin;
    (void)end;
    (void)thread;
    const team_job *job = arg;
    const int member = check_in(job->team);
    if (member < 0) return;
    if (member == 0) close_team(job);
    int turns = 0;
    while (atomic_load(&job->team->checked_in) < CLOSED)
        fv_spin(&turns);
    job->fn(job->arg, job->team, member);
}

void fv_team_run(fv_parallel_fn parallel, void *user, int max_members, fv_team_fn fn,
                 const void *arg)
{
    if (max_members < 1) max_members = 1;
    if (max_members > FV_TEAM_MOST) max_members = FV_TEAM_MOST;
    fv_team team;
    for (int i = 0; i < max_members; i++)
        atomic_init(&team.post[i].done, 0);
    atomic_init(&team.checked_in, 0);
    team.size = 1;
    if (max_members == 1) {
        fn(arg, &team, 0);
        return;
    }
    const team_job job = {&team, max_members, fn, arg};
    parallel(user, max_members, 1, join_team, &job);
}
