/*
 * Files that fail, and a process that is killed, at every single call of a training run: from what
 * is left, training resumes and reaches the same weights.
 */
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/crashdisk.h"
#include "support/files.h"
#include "support/test.h"
#include "support/training.h"

enum { STEPS = 9, WEIGHTS = 128 };

/* First saves, replaced ones and the removal of the oldest: two states stay, best weights change.
 */
static fv_status train(tiny_task *t, const char *folder, float *weights)
{
    fv_train_config cfg;
    tiny_config(&cfg, folder, STEPS);
    cfg.save_every = 2;
    cfg.eval_every = 3;
    cfg.log_every = 3;
    cfg.keep = 2;
    const fv_status status = tiny_run(t, &cfg);
    if (weights) CHECK(tiny_weights(t, weights, WEIGHTS) > 0);
    return status;
}

static fv_status train_in(const char *folder, const fv_io *io, float *weights)
{
    tiny_task t;
    CHECK(tiny_make(&t, 1, NULL, io));
    const fv_status status = train(&t, folder, weights);
    tiny_free(&t);
    return status;
}

static float uninterrupted[WEIGHTS];

/* ---- files that fail ----------------------------------------------------------------- */

typedef struct fault {
    int error;
    bool forever;
    size_t piece;
} fault;

/* Call number `call` of a run fails, and the run is started again. false: it has no such call. */
static bool fail_and_go_on(const fault *how, int64_t call)
{
    crash_disk *disk = crash_disk_new();
    fault_io faults;
    fv_io io, plain;
    float weights[WEIGHTS] = {0};
    fault_io_init(&faults, &io);
    crash_disk_io(disk, &plain);
    faults.base = plain;
    faults.fail_at = call;
    faults.error = how->error;
    faults.forever = how->forever;
    faults.piece = how->piece;
    const fv_status status = train_in("run", &io, NULL);
    /* Once, a call may fail unnoticed: one that is repeated, a close of what was read or synced,
     * the removal of an old state, or the question whether a file is there. */
    const bool minor = faults.failing == FAULT_CLOSE || faults.failing == FAULT_REMOVE ||
                       (faults.failing == FAULT_OPEN && !how->forever);
    const bool repeated = how->error == EINTR && !how->forever;
    const bool noticed = faults.failed && !repeated;
    if (status != (noticed ? FV_ERR_IO : FV_OK) && !(noticed && minor && status == FV_OK))
        test_failed(__FILE__, __LINE__, "error %d at call %lld (kind %d): %s", how->error,
                    (long long)call, faults.failing, fv_status_name(status));
    if (faults.failing != FAULT_REMOVE) CHECK_EQ(crash_disk_count(disk, ".tmp"), 0);
    const fv_status again = train_in("run", &plain, weights);
    if (again != FV_OK || memcmp(weights, uninterrupted, sizeof weights) != 0)
        test_failed(__FILE__, __LINE__, "error %d at call %lld: %s, other weights", how->error,
                    (long long)call, fv_status_name(again));
    crash_disk_free(disk);
    return faults.failed;
}

static void every_failed_call_loses_nothing(void)
{
    static const fault faults[] = {{ENOSPC, false, 0}, {ENOSPC, true, 0}, {EIO, false, 0},
                                   {EIO, true, 0},     {EINTR, false, 0}, {EINTR, true, 0},
                                   {EIO, false, 500}};
    int64_t injected = 0;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        for (int64_t call = 1; fail_and_go_on(&faults[i], call); call++)
            injected++;
    CHECK(injected > 1000);
    printf("files: %lld calls of a training run failed\n", (long long)injected);
}

/* ---- a process that is killed ---------------------------------------------------------- */

/* Runs `work` in a process of its own up to system call number `last` (from 1), and kills it there,
 * before the call is done. false: it ended by itself before. -1 in *calls: it cannot be traced. */
static bool killed_at(void (*work)(const char *folder), const char *folder, long last, long *calls)
{
    const pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
        raise(SIGSTOP);
        work(folder);
        _exit(0);
    }
    int status = 0;
    bool entering = true;
    *calls = 0;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
        *calls = -1;
        return false;
    }
    ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    while (ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0 && waitpid(child, &status, 0) == child) {
        if (!WIFSTOPPED(status)) return false;
        if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
        if (entering && ++*calls == last) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return true;
        }
        entering = !entering;
    }
    return false;
}

static void work_in(const char *folder)
{
    if (train_in(folder, NULL, NULL) != FV_OK) _exit(1);
}

static void every_kill_loses_nothing(void)
{
    long calls = 0;
    int kills = 0;
    for (long last = 1;; last++) {
        char name[24], folder[512];
        snprintf(name, sizeof name, "k%ld", last);
        snprintf(folder, sizeof folder, "%s", folder_sub(name));
        const bool killed = killed_at(work_in, folder, last, &calls);
        if (calls < 0) {
            printf("skipped: processes cannot be traced here\n");
            return;
        }
        float weights[WEIGHTS] = {0};
        const fv_status status = train_in(folder, NULL, weights);
        if (status != FV_OK || memcmp(weights, uninterrupted, sizeof weights) != 0)
            test_failed(__FILE__, __LINE__, "killed at system call %ld: %s, other weights", last,
                        fv_status_name(status));
        tree_remove(folder);
        kills += killed;
        if (!killed) break;
    }
    CHECK(kills > 100);
    printf("kills: %d, at every system call of a training run\n", kills);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory(); /* a killed process leaves the page cache behind: no disk is needed */
    folder_make();
    CHECK_EQ(train_in(NULL, NULL, uninterrupted), FV_OK);
    RUN(every_failed_call_loses_nothing);
    RUN(every_kill_loses_nothing);
    folder_remove();
    return TEST_END();
}
