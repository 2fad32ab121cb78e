/* fovea bench peak: the limits that the other suites are measured against, and the rate of the
 * functions that softmax, GELU and the gates of an LSTM are made of. */
#include <math.h>
#include <stdlib.h>

#include "bench.h"
#include "fovea/kernels.h"
#include "output.h"

/* A limit as a candidate, relative to itself, which shows how steady it is. */
static int print_limit(bench_run *run, const char *name, const char *dtype, bench_limit limit,
                       fv_simd level, int threads)
{
    enum { MAX_READINGS = 16 };
    double readings[MAX_READINGS];
    bench_request ask = {.limit = limit, .threads = threads, .level = level};
    bench_result got = {.limit = NAN};
    for (int attempt = 0; attempt < run->tries; attempt++) {
        int count = run->quick ? 3 : 7;
        for (int i = 0; i < count; i++) {
            if (cli_cancelled) return CLI_INTERRUPTED;
            readings[i] = bench_limit_read(run, limit, level, threads);
            if (!isfinite(readings[i])) return CLI_FAILED;
        }
        double first = readings[0], last = readings[count - 1];
        got.noisy = fabs(first - last) > 0.05 * fmax(first, last);
        got.limit = bench_median(readings, count);
        if (!got.noisy) break;
    }
    bench_line line = bench_line_of("peak", name, &ask, &got);
    line.dtype = dtype;
    line.unit = limit >= BENCH_READ ? BENCH_GBS : BENCH_GFLOPS;
    line.rate = got.limit;
    bench_print(run, &line);
    return CLI_DONE;
}

typedef fv_status (*function)(int64_t n, const float *x, fv_simd level, float *y);

enum { FUNCTION_FLOATS = 1920 }; /* argument and result stay in the L1 cache */

typedef struct function_job {
    function call;
    fv_simd level;
    fv_status status;
    _Alignas(64) float x[FUNCTION_FLOATS]; /* as tensors are */
    _Alignas(64) float y[FUNCTION_FLOATS];
} function_job;

static void call_function(void *arg)
{
    function_job *j = arg;
    j->status = j->call(FUNCTION_FLOATS, j->x, j->level, j->y);
}

static int print_function(bench_run *run, const char *name, function call, fv_simd level)
{
    function_job j = {.call = call, .level = level};
    for (int i = 0; i < FUNCTION_FLOATS; i++)
        j.x[i] = 0.1f + 5.0f * (float)i / FUNCTION_FLOATS;
    bench_case one = {call_function, &j, NULL};
    bench_request ask = {.cases = &one, .count = 1, .threads = 1, .level = level};
    bench_result got;
    if (!bench_measure(run, &ask, &got)) return CLI_INTERRUPTED;
    if (j.status != FV_OK) {
        cli_error("bench: %s: %s", name, fv_status_name(j.status));
        return cli_exit_code(j.status);
    }
    bench_line line = bench_line_of("peak", name, &ask, &got);
    bench_line_rate(&line, BENCH_GOPS, FUNCTION_FLOATS, got.seconds[0], got.limit);
    bench_print(run, &line);
    return CLI_DONE;
}

static int print_functions(bench_run *run)
{
    static const struct {
        const char *name;
        function call;
    } rows[] = {{"exp", fv_vexp}, {"log", fv_vlog}, {"tanh", fv_vtanh}, {"erf", fv_verf}};
    for (int i = 0; i < CLI_COUNT(rows); i++) {
        if (!bench_wanted(run, rows[i].name)) continue;
        for (int level = (int)run->level; level >= FV_SIMD_SCALAR; level--) {
            int code = print_function(run, rows[i].name, rows[i].call, (fv_simd)level);
            if (code) return code;
        }
    }
    return CLI_DONE;
}

int bench_peak(bench_run *run)
{
    static const struct {
        const char *name, *dtype;
        bench_limit limit;
        bool every_level; /* arithmetic depends on the level, memory hardly */
    } rows[] = {
        {"fma", "f32", BENCH_FMA_F32, true},    {"fma", "f64", BENCH_FMA_F64, true},
        {"dot", "bf16", BENCH_DOT_BF16, false}, {"read", "f32", BENCH_READ, false},
        {"copy", "f32", BENCH_COPY, false},     {"copy_nt", "f32", BENCH_COPY_NT, false},
        {"triad", "f32", BENCH_TRIAD, false},   {"triad_nt", "f32", BENCH_TRIAD_NT, false},
    };
    int counts[2], n = bench_thread_counts(run, counts);
    for (int i = 0; i < CLI_COUNT(rows); i++) {
        if (!bench_wanted(run, rows[i].name)) continue;
        int lowest = rows[i].every_level ? FV_SIMD_SCALAR : (int)run->level;
        for (int level = (int)run->level; level >= lowest; level--) {
            for (int t = 0; t < n; t++) {
                int code = print_limit(run, rows[i].name, rows[i].dtype, rows[i].limit,
                                       (fv_simd)level, counts[t]);
                if (code) return code;
            }
        }
    }
    return print_functions(run);
}
