/*
 * Training through the program, interrupted in every way a user or a machine can interrupt it: the
 * same command resumes, and the weights equal those of an uninterrupted run, bit for bit.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "io/sha256.h"
#include "support/files.h"
#include "support/program.h"

/* Dropout, shuffling, accumulation, a schedule with warm-up, clipping, scheduled sampling. */
static const char recipe[] =
    "[data]\nmade = \"dates\"\ntrain_pairs = 60\nvalid_pairs = 5\n"
    "[tokens]\nkind = \"char\"\nmin_count = 1\n"
    "[model]\nhidden = 8\nencoder_hidden = 5\nembedding = 6\nattention_width = 6\n"
    "readout_width = 7\ndropout = 0.2\n"
    "[train]\nsteps = 200\nbatch_tokens = 200\naccumulate = 2\nschedule = \"cosine\"\nwarmup = 20\n"
    "clip = 1\nsampling = 0.1\nsave_every = 20\neval_every = 100\n";

enum { DIGEST = 2 * FV_SHA256_TEXT };

/* SHA-256 of the best weights and of all that the last state holds except its notes, which contain
 * times: weights and optimizer. */
static void digest(const char *folder, uint64_t step, char out[DIGEST])
{
    char path[512];
    for (int i = 0; i < 2; i++) {
        size_t bytes = 0, header = 0;
        fv_sha256 sum;
        if (i == 0)
            snprintf(path, sizeof path, "%s/model.safetensors", folder);
        else
            snprintf(path, sizeof path, "%s/state-%08llu.safetensors", folder,
                     (unsigned long long)step);
        unsigned char *data = file_read(path, &bytes);
        CHECK(data && bytes > 8);
        for (int k = 0; data && i == 1 && k < 8; k++)
            header |= (size_t)data[k] << (8 * k);
        CHECK(header + 8 <= bytes);
        fv_sha256_init(&sum);
        if (data && header + 8 <= bytes) fv_sha256_add(&sum, data + header + 8, bytes - header - 8);
        fv_sha256_text(&sum, out + (size_t)i * FV_SHA256_TEXT);
        free(data);
    }
    out[FV_SHA256_TEXT - 1] = ' ';
}

static char uninterrupted[DIGEST];

static void expect_uninterrupted(const char *folder)
{
    char now[DIGEST];
    digest(folder, 200, now);
    CHECK_STR(now, uninterrupted);
}

static void train(const char *folder, int threads)
{
    program_run("train %s -o %s -t %d", program_path("r.toml"), folder, threads);
}

/* A number from 0 to `below`, another at each call. */
static double random_below(double below)
{
    static uint64_t calls;
    uint32_t r[4];
    fv_rng_draw(fv_rng_key(20, 0, 0), calls++, 0, r);
    return below * (double)fv_rng_unit(r[0]);
}

/* Waits until a state of at least this step is listed. */
static void wait_for_state(const char *folder, uint64_t step)
{
    char path[512];
    snprintf(path, sizeof path, "%s/states.json", folder);
    for (int i = 0; i < 20000; i++) {
        size_t bytes = 0;
        char *list = file_read(path, &bytes), *last = NULL;
        for (size_t k = 0; list && k < bytes; k++)
            if (list[k] == ',' || list[k] == '[') last = list + k + 1;
        const bool there = last && strtoull(last, NULL, 10) >= step;
        free(list);
        if (there) return;
        program_sleep(1);
    }
    test_failed(__FILE__, __LINE__, "no state of step %llu", (unsigned long long)step);
}

static int leftovers(const char *folder)
{
    int count = 0;
    char path[512];
    for (int step = 0; step <= 200; step++) {
        snprintf(path, sizeof path, "%s/state-%08d.safetensors.fovea-0.tmp", folder, step);
        count += access(path, F_OK) == 0;
    }
    snprintf(path, sizeof path, "%s/states.json.fovea-0.tmp", folder);
    return count + (access(path, F_OK) == 0);
}

/* ---- killed ----------------------------------------------------------------------------- */

static void a_killed_run_resumes(void)
{
    static const int threads[] = {1, 2, 4};
    char folder[256];
    for (int i = 0; i < 3; i++) {
        snprintf(folder, sizeof folder, "%s/killed-%d", program_folder(), threads[i]);
        program_start("train %s -o %s -t %d", program_path("r.toml"), folder, threads[i]);
        wait_for_state(folder, 100);
        program_sleep(random_below(8));
        program_signal(SIGKILL);
        program_wait();
        CHECK(program.signal == SIGKILL || program.code == 0);
        train(folder, threads[(i + 1) % 3]);
        expect(0, NULL, "resuming after step");
        expect_uninterrupted(folder);
        CHECK_EQ(leftovers(folder), 0);
    }
}

/* ---- interrupted ------------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One run that is sent a signal, or two. false: it came to its end before. */
static bool interrupt(const char *folder, const char *more, double after, bool twice)
{
    program_start("train %s -o %s -t 1 %s", program_path("r.toml"), folder, more);
    program_sleep(after);
    const int number = random_below(2) < 1 ? SIGINT : SIGTERM;
    const double sent = seconds();
    program_signal(number);
    if (twice) {
        program_sleep(random_below(2));
        program_signal(number);
    }
    program_wait();
    CHECK(seconds() - sent < 10);
    /* In its first moments the program has not yet installed its signal handlers. */
    const bool early = program.signal == number;
    if (program.code != 130 && program.code != 0 && !early)
        test_failed(__FILE__, __LINE__, "exit code %d, signal %d: %s", program.code, program.signal,
                    program.err);
    return program.code == 130 || early;
}

/* Milliseconds from the start to the first saved step. */
static double time_to_start(void)
{
    const double begun = seconds();
    program_run("train %s -o %s -t 1 --train.steps 1", program_path("r.toml"),
                program_path("start"));
    expect(0, NULL, NULL);
    return 1000 * (seconds() - begun);
}

/* Signals at random moments of short-lived processes; each process resumes where the last one
 * stopped. */
static void signals_at_any_moment(void)
{
    enum { SIGNALS = 200 };
    char folder[256];
    double life = 10 + 1.5 * time_to_start();
    int interrupted = 0, saved = 0, finished = 0;
    for (int i = 0; i < SIGNALS; i++) {
        snprintf(folder, sizeof folder, "%s/signals-%d", program_folder(), finished);
        /* Every step saves in one life of four: the signal comes during a save. */
        const char *more = i % 4 == 0 ? "--train.save_every 1" : "";
        const bool was = interrupt(folder, more, random_below(life), i % 5 == 0);
        interrupted += was;
        const bool stored = strstr(program.err, "saved in") != NULL;
        saved += stored;
        /* The machine may be busier or idler than when the start was timed. */
        if (!stored) life *= was ? 1.02 : 0.8;
        if (program.code != 0) continue;
        expect_uninterrupted(folder);
        tree_remove(folder);
        finished++;
    }
    train(folder, 1);
    expect(0, NULL, NULL);
    expect_uninterrupted(folder);
    CHECK_EQ(leftovers(folder), 0);
    CHECK(interrupted > SIGNALS / 2);
    CHECK(saved > SIGNALS / 20);
    printf("signals: %d, of which %d stopped a run and %d of these saved\n", SIGNALS, interrupted,
           saved);
}

/* ---- no room ----------------------------------------------------------------------------- */

/* Files may not grow past some bytes: the state cannot be written, what there was stays. */
static void a_file_size_limit_is_reported(void)
{
    char folder[256];
    struct rlimit old, tight;
    snprintf(folder, sizeof folder, "%s/limit", program_folder());
    program_run("train %s -o %s -t 1 --train.steps 20", program_path("r.toml"), folder);
    expect(0, NULL, NULL);
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = 12000;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
    train(folder, 1);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    expect(3, NULL, "File too large");
    CHECK_EQ(leftovers(folder), 0);
    train(folder, 1);
    expect(0, NULL, "resuming after step 20");
    expect_uninterrupted(folder);
}

/* A disk of 64 KiB, where this process may make one. */
static void a_full_disk_is_reported(void)
{
    char folder[256], run[300];
    snprintf(folder, sizeof folder, "%s/disk", program_folder());
    mkdir(folder, 0700);
    if (mount("fovea-test", folder, "tmpfs", 0, "size=64k") != 0) {
        printf("skipped: no disk of 64 KiB can be made here: %s\n", strerror(errno));
        return;
    }
    snprintf(run, sizeof run, "%s/run", folder);
    train(run, 1);
    expect(3, NULL, "No space left on device");
    CHECK_EQ(leftovers(run), 0);
    CHECK_EQ(umount(folder), 0);
}

/* ---- two at once -------------------------------------------------------------------------- */

static void two_trainings_do_not_share_a_folder(void)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s/shared", program_folder());
    mkdir(folder, 0700);
    program_start("train %s -o %s -t 1 --train.steps 100000", program_path("r.toml"), folder);
    wait_for_state(folder, 20);
    /* The second one is started by hand: the first is still running. */
    char command[1024];
    snprintf(command, sizeof command, "%s train %s -o %s -t 1 2>%s", getenv("FV_PROGRAM"),
             program_path("r.toml"), folder, program_path("second"));
    const int status = system(command);
    CHECK_EQ(status >> 8, 1);
    size_t bytes = 0;
    char *errors = file_read(program_path("second"), &bytes);
    CHECK(errors && bytes > 10 && memmem(errors, bytes, "another process is training", 27));
    free(errors);
    program_signal(SIGINT);
    program_wait();
    expect(130, NULL, "saved in");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    folder_prefer_memory();
    program_text("r.toml", recipe);
    train(program_path("whole"), 1);
    expect(0, NULL, "step 200/200");
    digest(program_path("whole"), 200, uninterrupted);
    RUN(a_killed_run_resumes);
    RUN(signals_at_any_moment);
    RUN(a_file_size_limit_is_reported);
    RUN(a_full_disk_is_reported);
    RUN(two_trainings_do_not_share_a_folder);
    program_end();
    return TEST_END();
}
