/*
 * fovea bench conv: convolutions of small ResNets and DCGANs, forward and backward (the gradients
 * of image and weight), on one image and on 32. bench/peers/bench_torch_conv.py compares them with
 * PyTorch.
 */
#include <stdio.h>

#include "bench.h"
#include "fovea/autograd.h"
#include "fovea/image.h"
#include "output.h"

typedef struct conv_shape {
    const char *name;
    int64_t in, size, out, window, stride, padding;
} conv_shape;

static const conv_shape shapes[] = {
    {"resnet first 7x7", 3, 64, 64, 7, 2, 3},       {"resnet 3x3 64", 64, 32, 64, 3, 1, 1},
    {"resnet 3x3 128", 128, 16, 128, 3, 1, 1},      {"resnet 3x3 256", 256, 8, 256, 3, 1, 1},
    {"resnet 3x3 512", 512, 4, 512, 3, 1, 1},       {"resnet down 64-128", 64, 32, 128, 3, 2, 1},
    {"resnet down 128-256", 128, 16, 256, 3, 2, 1}, {"resnet skip 64-128", 64, 32, 128, 1, 2, 0},
    {"cifar 3x3 16", 16, 32, 16, 3, 1, 1},          {"dcgan 3-64", 3, 64, 64, 4, 2, 1},
    {"dcgan 64-128", 64, 32, 128, 4, 2, 1},         {"dcgan 256-512", 256, 8, 512, 4, 2, 1},
};

typedef struct job {
    fv_ctx *ctx;
    fv_tensor *x, *w;
    fv_conv2d_options options;
    fv_status status;
} job;

static void call_forward(void *arg)
{
    job *j = arg;
    fv_scope_begin(j->ctx);
    fv_no_grad_begin(j->ctx);
    fv_conv2d(j->ctx, j->x, j->w, NULL, &j->options);
    fv_no_grad_end(j->ctx);
    fv_scope_end(j->ctx);
}

static void call_both(void *arg)
{
    job *j = arg;
    fv_scope_begin(j->ctx);
    fv_tensor *y = fv_conv2d(j->ctx, j->x, j->w, NULL, &j->options);
    const fv_status s = fv_backward_from(j->ctx, y, fv_detach(j->ctx, y));
    if (j->status == FV_OK) j->status = s;
    fv_zero_grad(j->ctx, j->x);
    fv_zero_grad(j->ctx, j->w);
    fv_scope_end(j->ctx);
}

static int measure(bench_run *run, job *j, const conv_shape *c, int64_t batch, int threads)
{
    const bench_case cases[2] = {{call_forward, j, NULL}, {call_both, j, NULL}};
    const int64_t side = (c->size + 2 * c->padding - c->window) / c->stride + 1;
    const double flops =
        2.0 * (double)(batch * c->out * side * side) * (double)(c->in * c->window * c->window);
    bench_request ask = {.cases = cases,
                         .count = 2,
                         .limit = BENCH_FMA_F32,
                         .threads = threads,
                         .level = run->level};
    bench_result got;
    const bool measured = bench_measure(run, &ask, &got);
    if (fv_ctx_error(j->ctx) != FV_OK || j->status != FV_OK) {
        cli_error("bench: %s", fv_ctx_message(j->ctx));
        return cli_exit_code(j->status != FV_OK ? j->status : fv_ctx_error(j->ctx));
    }
    if (!measured) return CLI_INTERRUPTED;
    for (int pass = 0; pass < 2; pass++) {
        bench_line line = bench_line_of("conv", c->name, &ask, &got);
        line.batch = batch;
        line.pass = pass ? "fwd+bwd" : "fwd";
        bench_line_rate(&line, BENCH_GFLOPS, pass ? 3 * flops : flops, got.seconds[pass],
                        got.limit);
        bench_print(run, &line);
    }
    return CLI_DONE;
}

static int bench_shape(bench_run *run, const conv_shape *c, int64_t batch, int threads)
{
    job j = {.options = {.stride = {c->stride, c->stride}, .padding = {c->padding, c->padding}}};
    int code = bench_context(run, threads, &j.ctx);
    if (code) return code;
    j.x = fv_rand_normal(j.ctx, FV_F32, 4, (int64_t[]){batch, c->in, c->size, c->size}, 0, 1);
    j.w = fv_rand_normal(j.ctx, FV_F32, 4, (int64_t[]){c->out, c->in, c->window, c->window}, 0, 1);
    fv_leaf(j.ctx, j.x);
    fv_leaf(j.ctx, j.w);
    code = measure(run, &j, c, batch, threads);
    fv_ctx_destroy(&j.ctx);
    return code;
}

int bench_conv(bench_run *run)
{
    int counts[2];
    const int n = bench_thread_counts(run, counts);
    for (int t = 0; t < n; t++)
        for (int i = 0; i < CLI_COUNT(shapes); i++) {
            if (!bench_wanted(run, shapes[i].name)) continue;
            for (int64_t batch = 1; batch <= (run->quick ? 1 : 32); batch += 31) {
                const int code = bench_shape(run, &shapes[i], batch, counts[t]);
                if (code) return code;
            }
        }
    return CLI_DONE;
}
