/*
 * fovea bench ops: memory-bound ops, on arrays larger than the caches; a step of AdamW; the cost of
 * tiny ops with their tape; and a small LSTM.
 */
#include <math.h>

#include "bench.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "fovea/optim.h"
#include "output.h"

/* What a timed call works on. */
typedef struct job {
    fv_ctx *ctx;
    fv_tensor *x, *gamma, *beta;
    fv_tensor *recurrent_weight, *input_weight, *bias; /* LSTM */
    int64_t length;                                    /* ops in a chain */
    fv_tensor *param;                                  /* AdamW */
    fv_optim *optim;
    fv_status status; /* first failure of a call that is not a tensor op */
} job;

/* Keeps the first failure; true if this call succeeded. */
static bool record_status(job *j, fv_status status)
{
    if (j->status == FV_OK) j->status = status;
    return status == FV_OK;
}

/* Measures one candidate whose argument is a job; failures inside its calls end the suite. */
static int measure(bench_run *run, const bench_case *c, bench_limit limit, int threads,
                   bench_request *request, bench_result *result)
{
    job *j = c->arg;
    *request = (bench_request){
        .cases = c, .count = 1, .limit = limit, .threads = threads, .level = run->level};
    bool measured = bench_measure(run, request, result);
    if (record_status(j, fv_ctx_error(j->ctx)) && j->status == FV_OK)
        return measured ? CLI_DONE : CLI_INTERRUPTED;
    cli_error("bench: %s", fv_ctx_message(j->ctx));
    return cli_exit_code(j->status);
}

/* ---- bound by memory ------------------------------------------------------------ */

static void call_softmax(void *arg)
{
    job *j = arg;
    fv_scope_begin(j->ctx);
    fv_softmax(j->ctx, j->x, -1);
    fv_scope_end(j->ctx);
}

static void call_layer_norm(void *arg)
{
    job *j = arg;
    fv_scope_begin(j->ctx);
    fv_layer_norm(j->ctx, j->x, j->gamma, j->beta, 1e-5);
    fv_scope_end(j->ctx);
}

static void call_gelu(void *arg)
{
    job *j = arg;
    fv_scope_begin(j->ctx);
    fv_gelu(j->ctx, j->x);
    fv_scope_end(j->ctx);
}

static void call_gelu_tanh(void *arg)
{
    job *j = arg;
    fv_scope_begin(j->ctx);
    fv_gelu_tanh(j->ctx, j->x);
    fv_scope_end(j->ctx);
}

static void call_add(void *arg)
{
    job *j = arg;
    fv_scope_begin(j->ctx);
    fv_add(j->ctx, j->x, j->x);
    fv_scope_end(j->ctx);
}

static int bench_memory(bench_run *run, int threads)
{
    /* 64 MiB in and 64 MiB out; rows as long as a model's. */
    enum { ROWS = 16384, COLUMNS = 1024, BYTES_PER_ELEMENT = 8 };
    static const struct {
        const char *name;
        void (*call)(void *);
    } ops[] = {
        {"softmax", call_softmax}, {"layer_norm", call_layer_norm},
        {"gelu", call_gelu},       {"gelu_tanh", call_gelu_tanh},
        {"add", call_add},
    };
    bool any_wanted = false;
    for (int i = 0; i < CLI_COUNT(ops); i++)
        any_wanted = any_wanted || bench_wanted(run, ops[i].name);
    if (!any_wanted) return CLI_DONE;
    job j = {0};
    int code = bench_context(run, threads, &j.ctx);
    if (code) return code;
    int64_t columns = COLUMNS;
    j.x = fv_rand_normal(j.ctx, FV_F32, 2, (int64_t[]){ROWS, COLUMNS}, 0, 1);
    j.gamma = fv_full(j.ctx, FV_F32, 1, &columns, 1.0);
    j.beta = fv_full(j.ctx, FV_F32, 1, &columns, 0.0);
    /* The vector kernels write results of this size with non-temporal stores; the scalar ones do
     * not. */
    bench_limit limit = run->level > FV_SIMD_SCALAR ? BENCH_TRIAD_NT : BENCH_TRIAD;
    for (int i = 0; i < CLI_COUNT(ops) && !code; i++) {
        if (!bench_wanted(run, ops[i].name)) continue;
        bench_request request;
        bench_result result;
        code =
            measure(run, &(bench_case){ops[i].call, &j, NULL}, limit, threads, &request, &result);
        if (code) break;
        bench_line line = bench_line_of("ops", ops[i].name, &request, &result);
        line.m = ROWS;
        line.n = COLUMNS;
        bench_line_rate(&line, BENCH_GBS, (double)BYTES_PER_ELEMENT * ROWS * COLUMNS,
                        result.seconds[0], result.limit);
        bench_print(run, &line);
    }
    fv_ctx_destroy(&j.ctx);
    return code;
}

/* ---- an optimizer step ---------------------------------------------------------- */

static void prepare_gradient(void *arg)
{
    job *j = arg;
    fv_scope_begin(j->ctx);
    record_status(j, fv_backward(j->ctx, fv_sum(j->ctx, j->param, 0, NULL, false)));
    fv_scope_end(j->ctx);
}

static void call_step(void *arg)
{
    job *j = arg;
    record_status(j, fv_optim_step(j->optim, 1e-4, NULL));
}

/* AdamW as models use it, with the check for non-finite gradients, and the update alone. */
static int bench_adamw(bench_run *run, int threads, const char *name, bool unchecked)
{
    /* Weight, gradient and two averages of 64 MiB each: four reads and three writes. */
    enum { COUNT = 1 << 24, BYTES_PER_ELEMENT = 28 };
    if (!bench_wanted(run, name)) return CLI_DONE;
    job j = {0};
    int code = bench_context(run, threads, &j.ctx);
    if (code) return code;
    int64_t count = COUNT;
    fv_params *params = NULL;
    fv_optim_config config;
    fv_optim_config_init(&config, sizeof config, FV_OPTIM_ADAMW);
    config.unchecked = unchecked;
    fv_status status = fv_params_create(j.ctx, &params);
    if (status == FV_OK)
        j.param = fv_params_add(params, "w", fv_full(j.ctx, FV_F32, 1, &count, 0.5));
    if (status == FV_OK) status = fv_optim_create(params, &config, &j.optim);
    if (status == FV_OK) {
        bench_request request;
        bench_result result;
        code = measure(run, &(bench_case){call_step, &j, prepare_gradient}, BENCH_TRIAD, threads,
                       &request, &result);
        if (!code) {
            bench_line line = bench_line_of("ops", name, &request, &result);
            line.m = 1;
            line.n = COUNT;
            bench_line_rate(&line, BENCH_GBS, (double)BYTES_PER_ELEMENT * COUNT, result.seconds[0],
                            result.limit);
            bench_print(run, &line);
        }
    } else {
        cli_error("bench: %s: %s", name, fv_ctx_message(j.ctx));
        code = cli_exit_code(status);
    }
    fv_optim_destroy(&j.optim);
    fv_params_destroy(&params);
    fv_ctx_destroy(&j.ctx);
    return code;
}

/* ---- tiny ops ------------------------------------------------------------------- */

/* Four kinds of op, alternating, on eight numbers. */
static fv_tensor *chain(job *j, fv_tensor *x)
{
    for (int64_t i = 0; i < j->length; i += 4) {
        x = fv_mul(j->ctx, x, j->gamma);
        x = fv_add(j->ctx, x, j->beta);
        x = fv_tanh(j->ctx, x);
        x = fv_relu(j->ctx, x);
    }
    return x;
}

static void call_tiny_forward(void *arg)
{
    job *j = arg;
    fv_scope_begin(j->ctx);
    fv_no_grad_begin(j->ctx);
    chain(j, j->x);
    fv_no_grad_end(j->ctx);
    fv_scope_end(j->ctx);
}

static void call_tiny_train(void *arg)
{
    job *j = arg;
    fv_scope_begin(j->ctx);
    fv_tensor *loss = fv_sum(j->ctx, chain(j, j->x), 0, NULL, false);
    if (record_status(j, fv_backward(j->ctx, loss))) fv_zero_grad(j->ctx, j->x);
    fv_scope_end(j->ctx);
}

static int bench_tiny(bench_run *run)
{
    enum { CHAIN = 400, WIDTH = 8 };
    static const struct {
        const char *name;
        void (*call)(void *);
    } ops[] = {{"tiny_forward", call_tiny_forward}, {"tiny_train", call_tiny_train}};
    job j = {.length = CHAIN};
    int code = bench_context(run, 1, &j.ctx);
    if (code) return code;
    int64_t width = WIDTH;
    j.x = fv_leaf(j.ctx, fv_full(j.ctx, FV_F32, 1, &width, 0.5));
    j.gamma = fv_full(j.ctx, FV_F32, 1, &width, 0.9);
    j.beta = fv_full(j.ctx, FV_F32, 1, &width, 0.1);
    for (int i = 0; i < CLI_COUNT(ops) && !code; i++) {
        if (!bench_wanted(run, ops[i].name)) continue;
        bench_request request;
        bench_result result;
        code = measure(run, &(bench_case){ops[i].call, &j, NULL}, BENCH_NO_LIMIT, 1, &request,
                       &result);
        if (code) break;
        bench_line line = bench_line_of("ops", ops[i].name, &request, &result);
        bench_line_rate(&line, BENCH_NS, CHAIN, result.seconds[0], result.limit);
        bench_print(run, &line);
    }
    fv_ctx_destroy(&j.ctx);
    return code;
}

/* ---- LSTM ----------------------------------------------------------------------- */

enum { UNITS = 128, STEPS = 50 };

static void call_lstm(void *arg)
{
    job *j = arg;
    fv_ctx *ctx = j->ctx;
    fv_scope_begin(ctx);
    fv_tensor *gates = fv_linear(ctx, j->x, j->input_weight, j->bias);
    fv_tensor *h = fv_lstm(ctx, gates, j->recurrent_weight, NULL, NULL, false, NULL, NULL);
    fv_tensor *loss = fv_sum(ctx, h, 0, NULL, false);
    if (record_status(j, fv_backward(ctx, loss))) {
        fv_zero_grad(ctx, j->recurrent_weight);
        fv_zero_grad(ctx, j->input_weight);
        fv_zero_grad(ctx, j->bias);
    }
    fv_scope_end(ctx);
}

/* One sequence, forward and backward to all weights; the time is that of the whole pass. */
static int bench_lstm(bench_run *run, int threads)
{
    static const char name[] = "lstm_128x50";
    if (!bench_wanted(run, name)) return CLI_DONE;
    job j = {0};
    int code = bench_context(run, threads, &j.ctx);
    if (code) return code;
    const int64_t weight_shape[] = {4 * UNITS, UNITS};
    const double scale = 1 / sqrt(UNITS);
    j.x = fv_rand_normal(j.ctx, FV_F32, 3, (int64_t[]){STEPS, 1, UNITS}, 0, 1);
    j.recurrent_weight =
        fv_leaf(j.ctx, fv_rand_uniform(j.ctx, FV_F32, 2, weight_shape, -scale, scale));
    j.input_weight = fv_leaf(j.ctx, fv_rand_uniform(j.ctx, FV_F32, 2, weight_shape, -scale, scale));
    j.bias = fv_leaf(j.ctx, fv_rand_uniform(j.ctx, FV_F32, 1, weight_shape, -scale, scale));
    bench_request request;
    bench_result result;
    code = measure(run, &(bench_case){call_lstm, &j, NULL}, BENCH_NO_LIMIT, threads, &request,
                   &result);
    if (!code) {
        bench_line line = bench_line_of("ops", name, &request, &result);
        bench_line_rate(&line, BENCH_NS, 1, result.seconds[0], result.limit);
        bench_print(run, &line);
    }
    fv_ctx_destroy(&j.ctx);
    return code;
}

int bench_ops(bench_run *run)
{
    int counts[2], n = bench_thread_counts(run, counts), code = CLI_DONE;
    for (int i = 0; i < n && !code; i++)
        code = bench_memory(run, counts[i]);
    for (int i = 0; i < n && !code; i++)
        code = bench_adamw(run, counts[i], "adamw", false);
    for (int i = 0; i < n && !code; i++)
        code = bench_adamw(run, counts[i], "adamw_unchecked", true);
    for (int i = 0; i < n && !code; i++)
        code = bench_lstm(run, counts[i]);
    return code ? code : bench_tiny(run);
}
