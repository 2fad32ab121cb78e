/*
 * fovea bench ntm: training steps of a Neural Turing Machine on the copy task: sequences of 20
 * vectors of 8 bits (41 steps), a memory of 128 x 20, an LSTM controller of 100 units, RMSProp.
 * Times are per step, forward, backward and update. bench/peers/bench_torch_ntm.py does the same
 * work with PyTorch.
 */
#include <stdlib.h>

#include "bench.h"
#include "fovea/autograd.h"
#include "fovea/data.h"
#include "fovea/model.h"
#include "fovea/ops.h"
#include "output.h"

enum { LENGTH = 20, MOST_BATCH = 64 };

typedef struct bed {
    fv_ctx *ctx;
    fv_model *model;
    fv_optim *optim;
    int64_t batch;
    fv_bits_example example[MOST_BATCH];
    const void *inputs[MOST_BATCH], *targets[MOST_BATCH];
    int64_t steps[MOST_BATCH], answers[MOST_BATCH];
    uint64_t step;
    fv_status status; /* first failure */
} bed;

static void close_bed(bed *b)
{
    for (int i = 0; i < MOST_BATCH && b->ctx; i++)
        fv_bits_free(b->ctx, &b->example[i]);
    fv_optim_destroy(&b->optim);
    fv_model_close(&b->model);
    if (b->ctx) fv_ctx_destroy(&b->ctx);
}

static fv_status make_sequences(bed *b)
{
    fv_status status = FV_OK;
    for (int i = 0; i < MOST_BATCH && status == FV_OK; i++) {
        const fv_bits_config cfg = {.task = "copy", .length = LENGTH, .seed = 1};
        status = fv_bits_make(b->ctx, &cfg, FV_BITS_TRAIN, (uint64_t)i, &b->example[i]);
        b->inputs[i] = b->example[i].inputs;
        b->targets[i] = b->example[i].targets;
        b->steps[i] = b->example[i].steps;
        b->answers[i] = b->example[i].answers;
    }
    return status;
}

static int open_bed(const bench_run *run, int threads, bed *b)
{
    *b = (bed){.batch = 1};
    const int code = bench_context(run, threads, &b->ctx);
    if (code) return code;
    fv_optim_config cfg;
    fv_optim_config_init(&cfg, sizeof cfg, FV_OPTIM_RMSPROP);
    cfg.momentum = 0.9;
    cfg.clip_norm = 10;
    fv_status status = make_sequences(b);
    fv_data_spec spec = {.ability = FV_CAN_PREDICT};
    fv_data_spec_set(&spec, "inputs", b->example[0].input_width);
    fv_data_spec_set(&spec, "outputs", b->example[0].output_width);
    if (status == FV_OK) status = fv_model_create(b->ctx, "ntm", NULL, &spec, &b->model);
    if (status == FV_OK) status = fv_optim_create(fv_model_params(b->model), &cfg, &b->optim);
    if (status == FV_OK) return CLI_DONE;
    cli_error("bench: %s", fv_ctx_message(b->ctx));
    close_bed(b);
    return cli_exit_code(status);
}

static fv_field field_of(const char *name, int64_t width, const void *const *row,
                         const int64_t *length)
{
    return (fv_field){
        .name = name, .dtype = FV_F32, .rank = 1, .shape = {width}, .row = row, .length = length};
}

static fv_status train_step(bed *b)
{
    fv_ctx *ctx = b->ctx;
    fv_batch batch;
    fv_batch_init(&batch, b->batch);
    fv_batch_add(&batch, field_of("inputs", b->example[0].input_width, b->inputs, b->steps));
    fv_batch_add(&batch, field_of("targets", b->example[0].output_width, b->targets, b->answers));
    fv_ctx_set_step(ctx, b->step++, 0);
    fv_tensor *loss = fv_model_kind_of(b->model)->loss(ctx, fv_model_self(b->model), &batch, NULL);
    const fv_status status = fv_backward(ctx, fv_scale(ctx, loss, 1.0 / (double)b->batch));
    return status == FV_OK ? fv_optim_step(b->optim, 1e-4, NULL) : status;
}

static void call_train(void *arg)
{
    bed *b = arg;
    fv_scope_begin(b->ctx);
    const fv_status status = train_step(b);
    if (b->status == FV_OK) b->status = status;
    fv_scope_end(b->ctx);
}

static int measure(bench_run *run, bed *b, const char *name, int threads)
{
    const bench_case one = {.call = call_train, .arg = b};
    const bench_request ask = {.cases = &one,
                               .count = 1,
                               .limit = BENCH_NO_LIMIT,
                               .threads = threads,
                               .level = run->level};
    bench_result got;
    const bool measured = bench_measure(run, &ask, &got);
    if (b->status != FV_OK) {
        cli_error("bench: %s", fv_ctx_message(b->ctx));
        return cli_exit_code(b->status);
    }
    if (!measured) return CLI_INTERRUPTED;
    bench_line line = bench_line_of("ntm", name, &ask, &got);
    line.batch = b->batch;
    bench_line_rate(&line, BENCH_NS, 1, got.seconds[0], got.limit);
    bench_print(run, &line);
    return CLI_DONE;
}

static int bench_threads(bench_run *run, bed *b, int threads)
{
    static const struct {
        const char *name;
        int64_t batch;
    } rows[] = {{"copy_1", 1}, {"copy_64", MOST_BATCH}};
    int code = open_bed(run, threads, b);
    if (code) return code;
    for (int i = 0; i < CLI_COUNT(rows) && !code; i++) {
        b->batch = rows[i].batch;
        if (bench_wanted(run, rows[i].name)) code = measure(run, b, rows[i].name, threads);
    }
    close_bed(b);
    return code;
}

int bench_ntm(bench_run *run)
{
    bed *b = malloc(sizeof *b);
    int counts[2], code = CLI_DONE;
    if (!b) {
        cli_error("bench: no memory");
        return CLI_FAILED;
    }
    const int times = bench_thread_counts(run, counts);
    for (int i = 0; i < times && !code; i++)
        code = bench_threads(run, b, counts[i]);
    free(b);
    return code;
}
