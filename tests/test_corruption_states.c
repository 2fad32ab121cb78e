/*
 * Training states and their list, damaged in every small way (tests/support/corrupt.h): each is
 * refused, and nothing of the run that asked for it has changed.
 */
#include "fovea/ops.h"
#include "support/corrupt.h"
#include "support/files.h"
#include "support/test.h"
#include "train/state.h"

enum { MEMORY_LIMIT = 8 << 20, STEP = 12, WEIGHTS = 9 };

static memory_file file;

typedef struct run {
    fv_ctx *ctx;
    fv_params *params;
    fv_optim *optim[2]; /* a step of two phases */
} run;

/* A context of its own with two parameters. `io` may be NULL. */
static void make(run *r, fv_optim_kind kind, const fv_io *io, double value)
{
    fv_ctx_config cfg;
    fv_optim_config how;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.memory_limit = MEMORY_LIMIT;
    if (io) cfg.io = *io;
    CHECK_EQ(fv_ctx_create(&cfg, &r->ctx), FV_OK);
    CHECK_OK(r->ctx, fv_params_create(r->ctx, &r->params));
    const int64_t w[] = {2, 3}, b[] = {3};
    fv_params_add(r->params, "w", fv_full(r->ctx, FV_F32, 2, w, value));
    fv_params_add(r->params, "b", fv_full(r->ctx, FV_F32, 1, b, -value));
    fv_optim_config_init(&how, sizeof how, kind);
    how.momentum = 0.9;
    for (int phase = 0; phase < 2; phase++) {
        how.group = phase ? "b" : "w";
        CHECK_OK(r->ctx, fv_optim_create(r->params, &how, &r->optim[phase]));
    }
}

static void unmake(run *r)
{
    fv_optim_destroy(&r->optim[0]);
    fv_optim_destroy(&r->optim[1]);
    fv_params_destroy(&r->params);
    fv_ctx_destroy(&r->ctx);
}

static void weights_of(const run *r, float out[WEIGHTS])
{
    CHECK_OK(r->ctx, fv_tensor_read(r->ctx, fv_params_tensor(r->params, 0), out, 6 * sizeof *out));
    CHECK_OK(r->ctx,
             fv_tensor_read(r->ctx, fv_params_tensor(r->params, 1), out + 6, 3 * sizeof *out));
}

static fv_status load_state(const run *r, fv_progress *progress)
{
    fv_params *extra = NULL;
    CHECK_OK(r->ctx, fv_params_create(r->ctx, &extra));
    const fv_state_parts parts = {
        .params = r->params, .optim = {r->optim[0], r->optim[1]}, .phases = 2, .extra = extra};
    const fv_status status = fv_state_load("run", STEP, &parts, progress);
    fv_params_destroy(&extra);
    return status;
}

static fv_status save_state(const run *r, const char *folder, const fv_progress *progress)
{
    fv_params *extra = NULL;
    CHECK_OK(r->ctx, fv_params_create(r->ctx, &extra));
    fv_params_add_buffer(extra, "counter", fv_full(r->ctx, FV_I64, 1, (int64_t[]){2}, 5));
    const fv_state_parts parts = {
        .params = r->params, .optim = {r->optim[0], r->optim[1]}, .phases = 2, .extra = extra};
    const fv_status status = fv_state_save(folder, &parts, progress, 1);
    fv_params_destroy(&extra);
    return status;
}

/* Loads a state over other weights, which stay unless it is good. */
static fv_status read_state(void *user, const void *data, size_t bytes)
{
    run *r = user;
    float before[WEIGHTS], after[WEIGHTS];
    fv_progress progress = {.step = 77};
    file = (memory_file){.data = data, .bytes = bytes};
    weights_of(r, before);
    const fv_status status = load_state(r, &progress);
    weights_of(r, after);
    if (status == FV_OK) {
        CHECK_EQ(progress.step, STEP);
    } else {
        CHECK_EQ(progress.step, 77);
        CHECK(memcmp(before, after, sizeof before) == 0);
    }
    return status;
}

static fv_status read_list(void *user, const void *data, size_t bytes)
{
    run *r = user;
    fv_state_list list;
    file = (memory_file){.data = data, .bytes = bytes};
    const fv_status status = fv_state_list_read(r->ctx, "run", &list);
    if (status == FV_OK) CHECK(list.count <= FV_MAX_STATES);
    return status;
}

static void damage(run *r, const void *data, size_t bytes, corrupt_reader read,
                   corrupt_report *report)
{
    fv_memory_stats before, after;
    CHECK_OK(r->ctx, read(r, data, bytes));
    fv_ctx_memory(r->ctx, &before);
    corrupt_run(data, bytes, read, r, report);
    fv_ctx_memory(r->ctx, &after);
    CHECK_EQ(after.used_bytes, before.used_bytes);
}

/* One state of each kind of optimizer. */
static void damaged_states_are_refused(void)
{
    static const fv_optim_kind kinds[] = {FV_OPTIM_SGD, FV_OPTIM_ADAMW, FV_OPTIM_RMSPROP};
    corrupt_report report = {0};
    size_t same = 0;
    fv_io io;
    memory_io(&io, &file);
    for (int i = 0; i < 3; i++) {
        run writer, reader;
        char path[FV_PATH_BYTES], folder[512];
        snprintf(folder, sizeof folder, "%s", folder_sub(i == 0 ? "a" : i == 1 ? "b" : "c"));
        make(&writer, kinds[i], NULL, 0.5);
        const fv_progress progress = {.step = STEP,
                                      .phase = 1,
                                      .part = {.tokens = 3, .loss = 0.5},
                                      .tokens = 40,
                                      .best = 0.25,
                                      .loss = 1.5};
        CHECK_OK(writer.ctx, save_state(&writer, folder, &progress));
        CHECK_OK(writer.ctx, fv_state_file(writer.ctx, path, folder, STEP));
        unmake(&writer);
        size_t bytes = 0;
        unsigned char *data = file_read(path, &bytes);
        make(&reader, kinds[i], &io, 0.125);
        if (data) damage(&reader, data, bytes, read_state, &report);
        /* Writing a byte's own value is not damage. */
        for (size_t k = 0; data && k < bytes; k++)
            same += data[k] == 0x00 || data[k] == 0x7F || data[k] == 0xFF;
        unmake(&reader);
        free(data);
    }
    CHECK_EQ(report.answers[FV_OK], same);
    corrupt_conclude("states", &report);
}

static void damaged_lists_are_survived(void)
{
    static const char *const seeds[] = {"{\"states\":[]}\n", "{\"states\":[100]}\n",
                                        "{\"states\":[1000,2000,30000000000]}\n"};
    corrupt_report report = {0};
    fv_io io;
    run r;
    memory_io(&io, &file);
    make(&r, FV_OPTIM_SGD, &io, 0);
    for (int i = 0; i < 3; i++)
        damage(&r, seeds[i], strlen(seeds[i]), read_list, &report);
    unmake(&r);
    corrupt_conclude("lists of states", &report);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    RUN(damaged_states_are_refused);
    RUN(damaged_lists_are_survived);
    folder_remove();
    return TEST_END();
}
