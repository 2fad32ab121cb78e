/*
 * A power cut at every moment of a training run, with all that was not synced kept, lost or torn by
 * chance: the newest state that was reported as saved exists and is complete.
 */
#include "support/crashdisk.h"
#include "support/test.h"
#include "support/training.h"

enum { STEPS = 60, SAVE_EVERY = 2, WEIGHTS = 128, SEEDS = 8, MOST_SAVES = 32 };

/* A run as it was recorded: its weights at each save, and when the save was reported as complete.
 */
typedef struct recording {
    crash_disk *disk;
    tiny_task task;
    int saves;
    uint64_t step[MOST_SAVES];
    size_t change[MOST_SAVES]; /* entries of the journal by then */
    float weights[MOST_SAVES][WEIGHTS];
    float first[WEIGHTS], last[WEIGHTS]; /* before and after all steps */
} recording;

static void watch(void *user, const fv_train_event *e)
{
    recording *r = user;
    if (e->kind != FV_TRAIN_SAVED || r->saves == MOST_SAVES) return;
    r->step[r->saves] = e->step;
    r->change[r->saves] = crash_disk_changes(r->disk);
    CHECK(tiny_weights(&r->task, r->weights[r->saves], WEIGHTS) > 0);
    r->saves++;
}

/* A trainer that has resumed. `watcher` may be NULL. */
static fv_status start(tiny_task *t, crash_disk *disk, recording *watcher, fv_trainer **out)
{
    fv_io io;
    fv_train_config cfg;
    crash_disk_io(disk, &io);
    if (!tiny_make(t, 1, NULL, &io)) return FV_ERR_INTERNAL;
    tiny_config(&cfg, "run", STEPS);
    cfg.save_every = SAVE_EVERY;
    cfg.observe = watcher ? watch : NULL;
    cfg.observe_user = watcher;
    const fv_task task = tiny_table(t);
    const fv_status status = fv_trainer_create(t->params, &task, &cfg, out);
    return status == FV_OK ? fv_trainer_resume(*out) : status;
}

static void record(recording *r, bool lie_about_files, bool lie_about_folder)
{
    fv_trainer *trainer = NULL;
    memset(r, 0, sizeof *r);
    r->disk = crash_disk_new();
    crash_disk_lie(r->disk, lie_about_files, lie_about_folder);
    CHECK_OK(r->task.ctx, start(&r->task, r->disk, r, &trainer));
    CHECK(tiny_weights(&r->task, r->first, WEIGHTS) > 0);
    CHECK_OK(r->task.ctx, fv_trainer_run(trainer));
    CHECK(tiny_weights(&r->task, r->last, WEIGHTS) > 0);
    fv_trainer_destroy(&trainer);
    tiny_free(&r->task);
    CHECK_EQ(r->saves, STEPS / SAVE_EVERY);
    CHECK_EQ(crash_disk_count(r->disk, ".tmp"), 0);
}

/* The weights that belong to a step, or NULL if no save of it was begun. */
static const float *weights_at(const recording *r, uint64_t step)
{
    if (step == 0) return r->first;
    for (int i = 0; i < r->saves; i++)
        if (r->step[i] == step) return r->weights[i];
    return NULL;
}

/* Whether training resumes, from what a power cut leaves, at the last completed save or at one in
 * progress. */
static bool survives(const recording *r, size_t changes, uint64_t seed, bool to_the_end)
{
    uint64_t promised = 0;
    for (int i = 0; i < r->saves; i++)
        if (r->change[i] <= changes) promised = r->step[i];
    crash_disk *left = crash_disk_cut(r->disk, changes, seed);
    tiny_task t;
    fv_trainer *trainer = NULL;
    float now[WEIGHTS] = {0};
    bool good = start(&t, left, NULL, &trainer) == FV_OK;
    if (good) {
        const uint64_t step = fv_trainer_steps(trainer);
        const float *wanted = weights_at(r, step);
        good = step >= promised && wanted && tiny_weights(&t, now, WEIGHTS) > 0 &&
               memcmp(now, wanted, sizeof now) == 0;
    }
    if (good && to_the_end)
        good = fv_trainer_run(trainer) == FV_OK && tiny_weights(&t, now, WEIGHTS) > 0 &&
               memcmp(now, r->last, sizeof now) == 0;
    fv_trainer_destroy(&trainer);
    tiny_free(&t);
    crash_disk_free(left);
    return good;
}

static recording run;

static void every_cut_keeps_what_was_saved(void)
{
    int states = 0, finished = 0;
    record(&run, false, false);
    for (size_t at = 0; at <= crash_disk_changes(run.disk); at++)
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            const bool to_the_end = states++ % 53 == 0;
            finished += to_the_end;
            if (!survives(&run, at, seed, to_the_end))
                test_failed(__FILE__, __LINE__, "lost after change %zu, seed %llu", at,
                            (unsigned long long)seed);
        }
    CHECK(states >= 5000);
    printf("disks: %d after a power cut, %d of them trained to the end\n", states, finished);
    crash_disk_free(run.disk);
}

/* On a disk whose syncs do nothing the same test fails: both kinds are needed. */
static void without_syncs_states_are_lost(void)
{
    for (int files = 0; files < 2; files++) {
        int lost = 0;
        record(&run, files, !files);
        for (size_t at = 0; at <= crash_disk_changes(run.disk); at += 7)
            lost += !survives(&run, at, 2 + at % 6, false);
        CHECK(lost > 10);
        crash_disk_free(run.disk);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(every_cut_keeps_what_was_saved);
    RUN(without_syncs_states_are_lost);
    return TEST_END();
}
