/*
 * Runs one kernel several times at one level, for tools/count-instructions, which counts the
 * instructions that it takes under an emulator: a measure of vector code where there is no machine
 * to time it on.
 *
 *     instructions KERNEL LEVEL TIMES
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "fovea/kernels.h"
#include "fovea/ops.h"

enum { SIDE = 96, NUMBERS = 32768, ROWS = 128, COLS = NUMBERS / ROWS };

/* Between -2 and 2, the same in every run. */
static void fill(float *x, int n)
{
    uint32_t state = 1;
    for (int i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / (float)(1 << 22) - 2.0f;
    }
}

static int gemm(fv_simd level, int times)
{
    static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
    fill(a, SIDE * SIDE);
    fill(b, SIDE * SIDE);
    const fv_gemm g = {.m = SIDE,
                       .n = SIDE,
                       .k = SIDE,
                       .a_row = SIDE,
                       .a_col = 1,
                       .b_row = SIDE,
                       .b_col = 1,
                       .c_row = SIDE,
                       .batch = 1};
    const fv_gemm_exec exec = {.level = level};
    const size_t need = fv_gemm_scratch(&g, 1);
    void *scratch = need ? aligned_alloc(64, need) : NULL;
    int failed = need && !scratch;
    for (int i = 0; i < times && !failed; i++)
        failed = fv_gemm_run(&g, a, b, &exec, scratch, need, c) != FV_OK;
    free(scratch);
    return failed;
}

static fv_tensor *apply(fv_ctx *ctx, const char *kernel, fv_tensor *x)
{
    if (strcmp(kernel, "add") == 0) return fv_add(ctx, x, x);
    if (strcmp(kernel, "relu") == 0) return fv_relu(ctx, x);
    if (strcmp(kernel, "exp") == 0) return fv_exp(ctx, x);
    if (strcmp(kernel, "tanh") == 0) return fv_tanh(ctx, x);
    if (strcmp(kernel, "sigmoid") == 0) return fv_sigmoid(ctx, x);
    if (strcmp(kernel, "silu") == 0) return fv_silu(ctx, x);
    if (strcmp(kernel, "gelu") == 0) return fv_gelu(ctx, x);
    if (strcmp(kernel, "sum") == 0) return fv_sum(ctx, x, 1, (int[]){1}, false);
    if (strcmp(kernel, "softmax") == 0) return fv_softmax(ctx, x, -1);
    if (strcmp(kernel, "layer_norm") == 0) return fv_layer_norm(ctx, x, NULL, NULL, 1e-5);
    return NULL;
}

static int op(const char *kernel, fv_simd level, int times)
{
    static float numbers[NUMBERS];
    fill(numbers, NUMBERS);
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.simd = level;
    cfg.threads = 1;
    fv_ctx *ctx = NULL;
    if (fv_ctx_create(&cfg, &ctx) != FV_OK) return 1;
    fv_no_grad_begin(ctx);
    fv_tensor *x = fv_from_host(ctx, FV_F32, 2, (int64_t[]){ROWS, COLS}, numbers);
    int failed = 0;
    for (int i = 0; i < times && !failed; i++)
        failed = !apply(ctx, kernel, x);
    fv_no_grad_end(ctx);
    failed = failed || fv_ctx_error(ctx) != FV_OK;
    fv_ctx_destroy(&ctx);
    return failed;
}

int main(int argc, char **argv)
{
    enum { USAGE = 2 };
    if (argc != 4) {
        fprintf(stderr, "usage: instructions KERNEL LEVEL TIMES\n");
        return USAGE;
    }
    fv_simd level = FV_SIMD_AUTO;
    for (int l = FV_SIMD_SCALAR; l <= (int)fv_simd_detect(); l++)
        if (strcmp(argv[2], fv_simd_name((fv_simd)l)) == 0) level = (fv_simd)l;
    const int times = atoi(argv[3]);
    if (level == FV_SIMD_AUTO) {
        fprintf(stderr, "instructions: this CPU has no level %s\n", argv[2]);
        return USAGE;
    }
    return strcmp(argv[1], "gemm") == 0 ? gemm(level, times) : op(argv[1], level, times);
}
