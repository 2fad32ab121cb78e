/* The training loop: resumed runs have the bits of uninterrupted ones, whatever interrupts them. */
#include "fovea/train.h"

#include <unistd.h>

#include "fovea/file.h"
#include "fovea/ops.h"
#include "io/json.h"
#include "support/files.h"
#include "support/opcase.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "support/test.h"
#include "support/training.h"
#include "tensor/params.h"
#include "train/events.h"

enum { STEPS = 60, WEIGHTS = 128 };

/* Trains in a folder, going on from what is there; the weights afterwards. */
static fv_status train(tiny_task *t, const char *folder, uint64_t steps, int patience, run_watch *w,
                       float *weights)
{
    fv_train_config cfg;
    tiny_config(&cfg, folder, steps);
    cfg.patience = patience;
    cfg.observe = run_observe;
    cfg.observe_user = w;
    const fv_status status = tiny_run(t, &cfg);
    if (weights) CHECK(tiny_weights(t, weights, WEIGHTS) > 0);
    return status;
}

static void uninterrupted(int threads, float *weights)
{
    tiny_task t;
    run_watch w = {0};
    CHECK(tiny_make(&t, threads, NULL, NULL));
    CHECK_OK(t.ctx, train(&t, NULL, STEPS, 0, &w, weights));
    CHECK_EQ(w.seen[FV_TRAIN_EVALUATED], 3);
    CHECK_EQ(w.seen[FV_TRAIN_SAVED], 0);
    tiny_free(&t);
}

static void learns_and_counts(void)
{
    float weights[WEIGHTS];
    uninterrupted(1, weights);
    tiny_task t;
    run_watch w = {0};
    CHECK(tiny_make(&t, 1, NULL, NULL));
    float before[WEIGHTS];
    const size_t n = tiny_weights(&t, before, WEIGHTS);
    CHECK(n > 0);
    CHECK(memcmp(before, weights, n * sizeof *before) != 0);
    CHECK_OK(t.ctx, train(&t, NULL, STEPS, 0, &w, before));
    CHECK(memcmp(before, weights, n * sizeof *before) == 0);
    tiny_free(&t);
}

/* Stops after some steps, then resumes with another thread count. */
static void resumes_bit_for_bit(void)
{
    float whole[WEIGHTS], pieces[WEIGHTS];
    memset(whole, 0, sizeof whole);
    memset(pieces, 0, sizeof pieces);
    uninterrupted(1, whole);
    static const int threads[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%d", i);
        char folder[512];
        snprintf(folder, sizeof folder, "%s", folder_sub(name));
        run_watch w = {0};
        tiny_task t;
        CHECK(tiny_make(&t, threads[i], NULL, NULL));
        CHECK_OK(t.ctx, train(&t, folder, 27, 0, &w, NULL));
        CHECK_EQ(w.seen[FV_TRAIN_RESUMED], 0);
        tiny_free(&t);
        CHECK(tiny_make(&t, threads[(i + 1) % 3], NULL, NULL));
        CHECK_OK(t.ctx, train(&t, folder, STEPS, 0, &w, pieces));
        CHECK_EQ(w.seen[FV_TRAIN_RESUMED], 1);
        tiny_free(&t);
        CHECK(memcmp(whole, pieces, sizeof whole) == 0);
    }
}

static void a_cancelled_step_is_done_again(void)
{
    float whole[WEIGHTS] = {0}, pieces[WEIGHTS] = {0};
    uninterrupted(1, whole);
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_sub("cancel"));
    static const uint64_t at[] = {3, 20, 41, 59};
    for (int i = 0; i < 4; i++) {
        volatile int cancel = 0;
        run_watch w = {0};
        tiny_task t;
        CHECK(tiny_make(&t, 2, &cancel, NULL));
        t.cancel_at = at[i];
        CHECK_EQ(train(&t, folder, STEPS, 0, &w, NULL), FV_ERR_CANCELLED);
        CHECK_EQ(w.seen[FV_TRAIN_RESUMED], i > 0);
        tiny_free(&t);
    }
    tiny_task t;
    run_watch w = {0};
    CHECK(tiny_make(&t, 1, NULL, NULL));
    CHECK_OK(t.ctx, train(&t, folder, STEPS, 0, &w, pieces));
    tiny_free(&t);
    CHECK(memcmp(whole, pieces, sizeof whole) == 0);
}

static void only_the_last_states_stay(void)
{
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s", folder_sub("keep"));
    tiny_task t;
    run_watch w = {0};
    CHECK(tiny_make(&t, 1, NULL, NULL));
    CHECK_OK(t.ctx, train(&t, folder, STEPS, 0, &w, NULL));
    CHECK_EQ(w.seen[FV_TRAIN_SAVED], 6);
    tiny_free(&t);
    static const struct {
        const char *name;
        bool there;
    } files[] = {{"state-00000030.safetensors", false},
                 {"state-00000040.safetensors", true},
                 {"state-00000060.safetensors", true},
                 {"model.safetensors", true},
                 {"log.jsonl", true},
                 {"log.csv", true}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        CHECK_EQ(access(path, R_OK) == 0, files[i].there);
    }
}

static void a_damaged_state_gives_way_to_the_one_before(void)
{
    float whole[WEIGHTS] = {0}, pieces[WEIGHTS] = {0};
    uninterrupted(1, whole);
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s", folder_sub("damage"));
    tiny_task t;
    run_watch w = {0};
    CHECK(tiny_make(&t, 1, NULL, NULL));
    CHECK_OK(t.ctx, train(&t, folder, 40, 0, &w, NULL));
    tiny_free(&t);
    snprintf(path, sizeof path, "%s/state-00000040.safetensors", folder);
    size_t bytes = 0;
    unsigned char *data = file_read(path, &bytes);
    CHECK(data && bytes > 100);
    data[bytes - 5] ^= 1;
    file_write(path, data, bytes);
    CHECK(tiny_make(&t, 1, NULL, NULL));
    CHECK_OK(t.ctx, train(&t, folder, STEPS, 0, &w, pieces));
    CHECK_EQ(w.seen[FV_TRAIN_BAD_STATE], 1);
    tiny_free(&t);
    CHECK(memcmp(whole, pieces, sizeof whole) == 0);
    free(data);
}

static void bad_losses_are_skipped_and_counted(void)
{
    tiny_task t;
    run_watch w = {0};
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s", folder_sub("nan"));
    CHECK(tiny_make(&t, 1, NULL, NULL));
    t.poison_from = 13;
    t.poison_steps = 4;
    CHECK_OK(t.ctx, train(&t, folder, 30, 0, &w, NULL));
    CHECK_EQ(w.seen[FV_TRAIN_SKIPPED], 4);
    tiny_free(&t);
    /* Ten in a row end the run and leave the good states alone. */
    CHECK(tiny_make(&t, 1, NULL, NULL));
    t.poison_from = 33;
    t.poison_steps = 100;
    CHECK_EQ(train(&t, folder, STEPS, 0, &w, NULL), FV_ERR_NONFINITE);
    tiny_free(&t);
    snprintf(path, sizeof path, "%s/state-00000030.safetensors", folder);
    CHECK(access(path, R_OK) == 0);
}

static void stops_when_it_no_longer_improves(void)
{
    tiny_task t;
    run_watch w = {0};
    CHECK(tiny_make(&t, 1, NULL, NULL));
    t.worse_from = 45;
    CHECK_OK(t.ctx, train(&t, NULL, 1000, 2, &w, NULL));
    CHECK_EQ(w.seen[FV_TRAIN_STOPPED_EARLY], 1);
    CHECK_EQ(w.seen[FV_TRAIN_EVALUATED], 4);
    tiny_free(&t);
}

static void states_are_averaged(void)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_sub("mean"));
    float at[4][WEIGHTS] = {{0}};
    tiny_task t;
    run_watch w = {0};
    size_t n = 0;
    for (int i = 0; i < 3; i++) {
        CHECK(tiny_make(&t, 1, NULL, NULL));
        CHECK_OK(t.ctx, train(&t, folder, 10 * ((uint64_t)i + 1), 0, &w, at[i]));
        n = tiny_weights(&t, at[i], WEIGHTS);
        tiny_free(&t);
    }
    CHECK(tiny_make(&t, 1, NULL, NULL));
    CHECK_OK(t.ctx, fv_params_average(t.params, folder, 2));
    CHECK_EQ(tiny_weights(&t, at[3], WEIGHTS), n);
    for (size_t i = 0; i < n; i++)
        CHECK_NEAR(at[3][i], (float)(((double)at[1][i] + (double)at[2][i]) / 2), 0);
    CHECK_EQ(fv_params_average(t.params, folder_path("absent"), 2), FV_ERR_IO);
    tiny_free(&t);
}

static void weights_of_another_model_are_named(void)
{
    tiny_task t;
    CHECK(tiny_make(&t, 1, NULL, NULL));
    char path[512];
    snprintf(path, sizeof path, "%s", folder_path("w.safetensors"));
    CHECK_OK(t.ctx, fv_params_save(t.params, path));
    CHECK_OK(t.ctx, fv_params_load(t.params, path));
    fv_params *other = NULL;
    CHECK_OK(t.ctx, fv_params_create(t.ctx, &other));
    fv_params_add(other, "w1", fv_zeros(t.ctx, FV_F32, 2, (int64_t[]){10, 6}));
    CHECK_EQ(fv_params_load(other, path), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(t.ctx), "'b1' does not belong") ||
          strstr(fv_ctx_message(t.ctx), "'w2' does not belong"));
    fv_params_add(other, "b1", fv_zeros(t.ctx, FV_F32, 1, (int64_t[]){11}));
    CHECK_EQ(fv_params_load(other, path), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(t.ctx), "'b1' is F32 [10], expected f32 [11]"));
    fv_params_destroy(&other);
    tiny_free(&t);
}

/* A matrix that files hold transposed comes back as it was; a packed-only one can be neither saved
 * nor loaded, and the file stays. */
static void transposed_weights_are_saved_and_loaded(void)
{
    enum { OUT = 3, IN = 5 };
    fv_ctx *ctx = op_context(FV_SIMD_AUTO, 1, FV_DEVICE_CPU);
    fv_params *params = NULL;
    char path[512];
    float before[OUT * IN], after[OUT * IN];
    snprintf(path, sizeof path, "%s", folder_path("t.safetensors"));
    CHECK_OK(ctx, fv_params_create(ctx, &params));
    fv_tensor *w = fv_params_add(params, "w", tensor_random(ctx, 1, 2, OUT, IN));
    CHECK_OK(ctx, fv_params_store_transposed(params, "w"));
    CHECK_OK(ctx, fv_tensor_read(ctx, w, before, sizeof before));
    CHECK_OK(ctx, fv_params_save(params, path));
    memset(after, 0, sizeof after);
    CHECK_OK(ctx, fv_tensor_write(ctx, w, after, sizeof after));
    CHECK_OK(ctx, fv_params_load(params, path));
    CHECK_OK(ctx, fv_tensor_read(ctx, w, after, sizeof after));
    CHECK(memcmp(before, after, sizeof before) == 0);
    fv_safetensors *file = NULL;
    CHECK_OK(ctx, fv_safetensors_open(ctx, path, FV_SAFETENSORS_COPY, &file));
    CHECK_EQ(fv_safetensors_entry(file, 0)->shape[0], IN);
    fv_safetensors_close(&file);

    CHECK_OK(ctx, fv_linear_pack_in_place(ctx, w, FV_WEIGHT_F32));
    CHECK_EQ(fv_params_save(params, path), FV_ERR_STATE);
    CHECK(fv_params_load(params, path) != FV_OK);
    CHECK_OK(ctx, fv_safetensors_open(ctx, path, FV_SAFETENSORS_COPY, &file));
    fv_safetensors_close(&file);
    fv_params_destroy(&params);
    fv_ctx_destroy(&ctx);
}

static long lines_with(const char *text, const char *lead)
{
    long n = 0;
    for (const char *p = text; (p = strstr(p, lead)); p++)
        n += p == text || p[-1] == '\n';
    return n;
}

/* Strict JSON: the loss of training and a metric of that name must not share a key. */
static void each_line_is_json(const char *text)
{
    fv_ctx *ctx = NULL;
    CHECK_EQ(fv_ctx_create(NULL, &ctx), FV_OK);
    int evaluations = 0;
    for (const char *end; ctx && (end = strchr(text, '\n')) != NULL; text = end + 1) {
        fv_doc *doc = NULL;
        CHECK_OK(ctx, fv_json_parse(ctx, "log.jsonl", text, (size_t)(end - text), &doc));
        evaluations += doc && fv_value_get(&doc->root, "eval/loss") != NULL;
        fv_doc_free(&doc);
    }
    CHECK_EQ(evaluations, STEPS / 20);
    fv_ctx_destroy(&ctx);
}

static void logs_hold_each_step_once(void)
{
    char folder[512], path[600];
    snprintf(folder, sizeof folder, "%s", folder_sub("log"));
    volatile int cancel = 0;
    tiny_task t;
    run_watch w = {0};
    CHECK(tiny_make(&t, 1, NULL, NULL));
    CHECK_OK(t.ctx, train(&t, folder, 30, 0, &w, NULL));
    tiny_free(&t);
    /* As after a crash: logged to 30, but the states after 20 are lost. */
    for (int lost = 30; lost > 20; lost -= 10) {
        snprintf(path, sizeof path, "%s/state-%08d.safetensors", folder, lost);
        CHECK(unlink(path) == 0);
    }
    CHECK(tiny_make(&t, 1, &cancel, NULL));
    CHECK_OK(t.ctx, train(&t, folder, STEPS, 0, &w, NULL));
    tiny_free(&t);
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/log.jsonl", folder);
    char *text = file_read(path, &bytes);
    CHECK(text != NULL);
    for (int step = 5; step <= STEPS; step += 5) {
        char lead[32];
        snprintf(lead, sizeof lead, "{\"step\":%d,", step);
        /* one line of the step, one of the evaluation where there was one */
        CHECK_EQ(lines_with(text, lead), step % 20 == 0 ? 2 : 1);
    }
    each_line_is_json(text);
    free(text);
}

static void event_records_are_framed(void)
{
    fv_crc crc;
    fv_crc_init(&crc, FV_CRC32C);
    unsigned char out[FV_EVENT_BYTES];
    const size_t n = fv_event_scalar(&crc, 1.5, 300, "train/loss", 0.25, out);
    /* length, two checks, then: wall time, step 300, summary with one value. */
    static const unsigned char body[] = {
        0x09, 0,   0,   0,   0,   0,   0,   0xf8, 0x3f, 0x10, 0xac, 0x02, 0x2a, 19, 0x0a, 17,  0x0a,
        10,   't', 'r', 'a', 'i', 'n', '/', 'l',  'o',  's',  's',  0x15, 0,    0,  0x80, 0x3e};
    CHECK_EQ(n, sizeof body + 16);
    CHECK_EQ(out[0], sizeof body);
    CHECK(memcmp(out + 12, body, sizeof body) == 0);
    /* The check value of "123456789" in the masked form that readers expect. */
    const uint32_t sum = fv_crc_add(&crc, 0, "123456789", 9);
    CHECK_EQ(sum, 0xE3069283u);
}

/* Steps of ever fewer rows: each size needs blocks of classes that the ones before did not have. */
static fv_tensor *shrinking_loss(void *user, fv_ctx *ctx, int phase, int64_t part)
{
    tiny_task *t = user;
    (void)part;
    (void)phase;
    const int64_t rows = (int64_t)(20000 * pow(0.8, floor((double)t->step / 20))),
                  shape[] = {rows, 6};
    return fv_sum(ctx, fv_linear(ctx, fv_full(ctx, FV_F32, 2, shape, 1e-6), t->w1, t->b1), 0, NULL,
                  false);
}

static void memory_of_other_sizes_is_given_back(void)
{
    tiny_task t;
    CHECK(tiny_make(&t, 1, NULL, NULL));
    fv_task task = tiny_table(&t);
    task.loss = shrinking_loss;
    fv_train_config cfg;
    tiny_config(&cfg, NULL, 320);
    fv_trainer *trainer = NULL;
    CHECK_OK(t.ctx, fv_trainer_create(t.params, &task, &cfg, &trainer));
    CHECK_OK(t.ctx, fv_trainer_run(trainer));
    fv_memory_stats memory;
    fv_ctx_memory(t.ctx, &memory);
    CHECK(memory.held_bytes <= memory.peak_bytes + memory.peak_bytes / 4);
    fv_trainer_destroy(&trainer);
    tiny_free(&t);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    RUN(learns_and_counts);
    RUN(resumes_bit_for_bit);
    RUN(a_cancelled_step_is_done_again);
    RUN(only_the_last_states_stay);
    RUN(a_damaged_state_gives_way_to_the_one_before);
    RUN(bad_losses_are_skipped_and_counted);
    RUN(stops_when_it_no_longer_improves);
    RUN(states_are_averaged);
    RUN(weights_of_another_model_are_named);
    RUN(transposed_weights_are_saved_and_loaded);
    RUN(logs_hold_each_step_once);
    RUN(event_records_are_framed);
    RUN(memory_of_other_sizes_is_given_back);
    folder_remove();
    return TEST_END();
}
