/*
 * Training on a device that runs late, with reads that arrive after random delays: the same bits,
 * the same events and the same numbers as on the CPU, and one read a step.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/guarded.h"
#include "fovea/ops.h"
#include "support/files.h"
#include "support/opcase.h"
#include "support/training.h"
#include "tensor/tensor.h"

enum { WEIGHTS = 128, SEEDS = 6, MOST_DELAY = 400, EVENTS = 200 };

typedef struct event {
    fv_train_event_kind kind;
    uint64_t step, skipped, tokens;
    double loss, grad_norm, lr, epoch;
} event;

/* One run: what it is to do, and what came of it. */
typedef struct late_run {
    bool guarded;
    uint64_t seed; /* of the delays; 0: reads arrive only when they are waited for */
    int phases;
    uint64_t steps, poison_from, poison_steps, fault_at, kill_at, stop_at;
    int cancel_phase; /* cancelled in this phase of step stop_at; 0: by the observer, after it */
    const char *folder;
    /* results */
    fv_status status;
    char message[400];
    uint64_t done, waits;
    int events;
    event event[EVENTS];
    float weights[WEIGHTS];
    tiny_task t;
    volatile int cancel;
} late_run;

static void observe(void *user, const fv_train_event *e)
{
    late_run *r = user;
    if (r->kill_at > 0 && e->kind == FV_TRAIN_STEP && e->step == r->kill_at) raise(SIGKILL);
    if (r->stop_at > 0 && r->cancel_phase == 0 && e->kind == FV_TRAIN_STEP && e->step == r->stop_at)
        r->cancel = 1;
    if (r->events == EVENTS) return;
    r->event[r->events++] = (event){.kind = e->kind,
                                    .step = e->step,
                                    .skipped = e->skipped,
                                    .tokens = e->tokens,
                                    .loss = e->loss,
                                    .grad_norm = e->grad_norm,
                                    .lr = e->lr,
                                    .epoch = e->epoch};
}

static fv_task inner;

static fv_status begin(void *user, uint64_t step, int phase, fv_step_plan *plan)
{
    return inner.begin(&((late_run *)user)->t, step, phase, plan);
}

/* The tiny task's loss; in the step fault_at a kernel of its last part has a bad index. */
static fv_tensor *loss(void *user, fv_ctx *ctx, int phase, int64_t part)
{
    late_run *r = user;
    if (r->stop_at > 0 && r->cancel_phase > 0 && phase == r->cancel_phase && part == 1 &&
        r->t.step == r->stop_at)
        r->cancel = 1;
    if (r->fault_at > 0 && r->t.step == r->fault_at && part == 2)
        fv_embedding(ctx, r->t.w1, fv_full(ctx, FV_I64, 1, (int64_t[]){1}, 77), -1);
    return inner.loss(&r->t, ctx, phase, part);
}

static fv_status evaluate(void *user, fv_metric *metrics, int *count)
{
    return inner.evaluate(&((late_run *)user)->t, metrics, count);
}

static void get_position(void *user, int64_t position[FV_POSITION])
{
    inner.get_position(&((late_run *)user)->t, position);
}

static fv_status set_position(void *user, const int64_t position[FV_POSITION])
{
    return inner.set_position(&((late_run *)user)->t, position);
}

static const char *group(void *user, int phase)
{
    const late_run *r = user;
    if (r->phases < 2) return NULL;
    return phase == 0 ? "w1" : "w2";
}

static fv_status train(late_run *r, const fv_train_config *cfg)
{
    inner = tiny_table(&r->t);
    const fv_task task = {.user = r,
                          .phases = r->phases,
                          .begin = begin,
                          .loss = loss,
                          .evaluate = evaluate,
                          .group = group,
                          .get_position = get_position,
                          .set_position = set_position};
    fv_trainer *trainer = NULL;
    fv_status status = fv_trainer_create(r->t.params, &task, cfg, &trainer);
    if (status == FV_OK) status = fv_trainer_resume(trainer);
    if (status == FV_OK) status = fv_trainer_run(trainer);
    if (trainer) r->done = fv_trainer_steps(trainer);
    snprintf(r->message, sizeof r->message, "%s", fv_ctx_message(r->t.ctx));
    fv_trainer_destroy(&trainer);
    return status;
}

static void run(late_run *r)
{
    const bool made = r->guarded ? tiny_make_guarded(&r->t, 1, &r->cancel)
                                 : tiny_make(&r->t, 1, &r->cancel, NULL);
    CHECK(made);
    fv_device *device = r->t.ctx->device;
    if (r->guarded && r->seed > 0) fv_guarded_set_delays(device, r->seed, MOST_DELAY);
    if (r->poison_steps > 0) {
        r->t.poison_from = r->poison_from;
        r->t.poison_steps = r->poison_steps;
    }
    fv_train_config cfg;
    tiny_config(&cfg, r->folder, r->steps);
    cfg.observe = observe;
    cfg.observe_user = r;
    if (!r->folder) cfg.eval_every = 0; /* at the end only */
    const uint64_t before = r->guarded ? fv_guarded_waits(device) : 0;
    r->status = train(r, &cfg);
    if (r->guarded) r->waits = fv_guarded_waits(device) - before;
    if (fv_ctx_error(r->t.ctx) != FV_OK) fv_ctx_take_error(r->t.ctx);
    CHECK(tiny_weights(&r->t, r->weights, WEIGHTS) > 0);
    tiny_free(&r->t);
}

static void check_same(const late_run *a, const late_run *b)
{
    CHECK_EQ(a->status, b->status);
    CHECK_EQ(a->done, b->done);
    CHECK_EQ(a->events, b->events);
    CHECK(memcmp(a->event, b->event, sizeof a->event) == 0);
    CHECK(memcmp(a->weights, b->weights, sizeof a->weights) == 0);
}

/* `r` on the CPU, then late: waited for only, and with delays of several seeds. */
static void check_late(const late_run *r)
{
    static late_run cpu, late;
    cpu = *r;
    run(&cpu);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        late = *r;
        late.guarded = true;
        late.seed = seed;
        run(&late);
        check_same(&cpu, &late);
    }
}

static void late_runs_have_the_same_bits(void)
{
    static late_run r;
    r = (late_run){.steps = 40, .phases = 1};
    check_late(&r);
    r = (late_run){.steps = 25, .phases = 2};
    check_late(&r);
}

static void bad_losses_are_reported_for_their_step(void)
{
    static late_run r;
    r = (late_run){.steps = 30, .phases = 1, .poison_from = 13, .poison_steps = 4};
    check_late(&r);
    r = (late_run){.steps = 30, .phases = 2, .poison_from = 7, .poison_steps = 1};
    check_late(&r);
    r = (late_run){.steps = 30, .phases = 1, .poison_from = 29, .poison_steps = 1};
    check_late(&r);
    r = (late_run){.steps = 40, .phases = 1, .poison_from = 13, .poison_steps = 99};
    check_late(&r);
    r = (late_run){
        .steps = 30, .phases = 1, .poison_from = 13, .poison_steps = 1, .guarded = true, .seed = 3};
    run(&r);
    int skipped = 0;
    for (int i = 0; i < r.events; i++)
        if (r.event[i].kind == FV_TRAIN_SKIPPED) {
            skipped++;
            CHECK_EQ(r.event[i].step, 14);
        }
    CHECK_EQ(skipped, 1);
}

/* A step that is skipped leaves the weights of the step before it. */
static void a_skipped_step_changes_nothing(void)
{
    static late_run before, after;
    before = (late_run){.steps = 13, .phases = 1, .guarded = true, .seed = 2};
    after = (late_run){
        .steps = 14, .phases = 1, .guarded = true, .seed = 2, .poison_from = 13, .poison_steps = 1};
    run(&before);
    run(&after);
    CHECK_EQ(after.status, FV_OK);
    CHECK(memcmp(before.weights, after.weights, sizeof before.weights) == 0);
}

static void one_read_a_step(void)
{
    static late_run few, many;
    for (int phases = 1; phases <= 2; phases++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            few = (late_run){.steps = 10, .phases = phases, .guarded = true, .seed = seed};
            many = (late_run){.steps = 50, .phases = phases, .guarded = true, .seed = seed};
            run(&few);
            run(&many);
            CHECK_EQ(many.waits - few.waits, 40);
        }
}

/* A bad index inside a kernel: the run ends with the op and the step, and the state is that of the
 * step before, on disk and in memory. */
static void faults_stop_at_their_step(void)
{
    static late_run whole, before, r;
    whole = (late_run){.steps = 30, .phases = 1};
    run(&whole);
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (uint64_t at = 14; at <= 20; at += 3) {
            char folder[512], name[32];
            snprintf(name, sizeof name, "fault-%d-%d", (int)seed, (int)at);
            snprintf(folder, sizeof folder, "%s", folder_sub(name));
            before = (late_run){.steps = at, .phases = 1};
            run(&before);
            r = (late_run){.steps = 30,
                           .phases = 1,
                           .guarded = true,
                           .seed = seed,
                           .fault_at = at,
                           .folder = folder};
            run(&r);
            CHECK_EQ(r.status, FV_ERR_INDEX);
            CHECK_EQ(r.done, at);
            snprintf(name, sizeof name, "step %d: ", (int)at + 1);
            CHECK(strstr(r.message, name) != NULL);
            CHECK(strstr(r.message, "index 77 is outside 0..9") != NULL);
            CHECK(strstr(r.message, "gather_rows") != NULL);
            CHECK(memcmp(r.weights, before.weights, sizeof r.weights) == 0);
            r = (late_run){
                .steps = 30, .phases = 1, .guarded = true, .seed = seed, .folder = folder};
            run(&r);
            CHECK_EQ(r.status, FV_OK);
            CHECK(memcmp(r.weights, whole.weights, sizeof r.weights) == 0);
        }
}

/* The CPU names the step too. */
static void faults_on_the_cpu(void)
{
    static late_run r;
    r = (late_run){.steps = 30, .phases = 1, .fault_at = 4};
    run(&r);
    CHECK_EQ(r.status, FV_ERR_INDEX);
    CHECK_EQ(r.done, 4);
    CHECK(strstr(r.message, "step 5: ") != NULL);
}

/* Saving and evaluating wait for their step. */
static void states_are_saved_when_due(void)
{
    static late_run r;
    for (uint64_t seed = 0; seed < 3; seed++) {
        char folder[512], name[32];
        int seen[FV_TRAIN_STOPPED_EARLY + 1] = {0};
        snprintf(name, sizeof name, "save-%d", (int)seed);
        snprintf(folder, sizeof folder, "%s", folder_sub(name));
        r = (late_run){.steps = 40, .phases = 1, .guarded = true, .seed = seed, .folder = folder};
        run(&r);
        for (int i = 0; i < r.events; i++) {
            const event *e = &r.event[i];
            seen[e->kind]++;
            CHECK(e->kind != FV_TRAIN_SAVED || e->step % 10 == 0);
            CHECK(e->kind != FV_TRAIN_EVALUATED || e->step % 20 == 0);
        }
        CHECK_EQ(seen[FV_TRAIN_STEP], 40);
        CHECK_EQ(seen[FV_TRAIN_SAVED], 4);
        CHECK_EQ(seen[FV_TRAIN_EVALUATED], 2);
    }
}

/* Cancelled after a step, or within the second phase of one; then resumed, on either device. */
static void cancelled_runs_resume(void)
{
    static late_run whole, r;
    for (int phases = 1; phases <= 2; phases++) {
        whole = (late_run){.steps = 30, .phases = phases};
        run(&whole);
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            char folder[512], name[32];
            snprintf(name, sizeof name, "cancel-%d-%d", phases, (int)seed);
            snprintf(folder, sizeof folder, "%s", folder_sub(name));
            static const uint64_t at[] = {4, 11, 20, 27};
            for (int i = 0; i < 4; i++) {
                const int phase = phases == 2 && i % 2 ? 1 : 0;
                r = (late_run){.steps = 30,
                               .phases = phases,
                               .guarded = true,
                               .seed = seed,
                               .stop_at = at[i],
                               .cancel_phase = phase,
                               .folder = folder};
                run(&r);
                CHECK_EQ(r.status, FV_ERR_CANCELLED);
                CHECK_EQ(r.done, at[i]);
            }
            r = (late_run){.steps = 30,
                           .phases = phases,
                           .guarded = seed % 2 == 0,
                           .seed = seed,
                           .folder = folder};
            run(&r);
            CHECK_EQ(r.status, FV_OK);
            CHECK(memcmp(r.weights, whole.weights, sizeof r.weights) == 0);
        }
    }
}

static void killed_runs_resume(void)
{
    static late_run whole, r;
    whole = (late_run){.steps = 30, .phases = 1};
    run(&whole);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        char folder[512], name[32];
        snprintf(name, sizeof name, "kill-%d", (int)seed);
        snprintf(folder, sizeof folder, "%s", folder_sub(name));
        for (uint64_t at = 9; at < 30; at += 6) {
            r = (late_run){.steps = 30,
                           .phases = 1,
                           .guarded = true,
                           .seed = seed,
                           .kill_at = at,
                           .folder = folder};
            fflush(stdout);
            const pid_t child = fork();
            if (child == 0) {
                run(&r);
                _exit(0);
            }
            int status = 0;
            waitpid(child, &status, 0);
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        }
        r = (late_run){.steps = 30, .phases = 1, .guarded = true, .seed = seed, .folder = folder};
        run(&r);
        CHECK_EQ(r.status, FV_OK);
        CHECK(memcmp(r.weights, whole.weights, sizeof r.weights) == 0);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    RUN(late_runs_have_the_same_bits);
    RUN(bad_losses_are_reported_for_their_step);
    RUN(a_skipped_step_changes_nothing);
    RUN(one_read_a_step);
    RUN(faults_stop_at_their_step);
    RUN(faults_on_the_cpu);
    RUN(states_are_saved_when_due);
    RUN(cancelled_runs_resume);
    RUN(killed_runs_resume);
    folder_remove();
    return TEST_END();
}
