/*
 * fovea bench attention: forward and backward of eight heads, full and causal, and one query over a
 * cache of keys. Operations are counted as 4 heads n^2 d forward, 2.5 times that backward, half of
 * both when causal; the share is that of the multiply-adds this machine can do. Decoding is counted
 * in bytes of K and V, its share that of the memory's read bandwidth.
 */
#include <math.h>
#include <stdlib.h>

#include "bench.h"
#include "fovea/attention.h"
#include "output.h"

typedef struct shape {
    const char *pass; /* "fwd", "bwd" or "decode" */
    int64_t n, d, heads;
    bool causal;
} shape;

enum { Q, K, V, O, GRAD_O, GRAD_Q, GRAD_K, GRAD_V, LSE, ARRAYS };

typedef struct job {
    fv_attn attn;
    fv_attn_data data;
    fv_attn_exec exec;
    float *array[ARRAYS];
    void *scratch;
    size_t scratch_bytes;
    fv_status status;
} job;

static void call_forward(void *arg)
{
    job *j = arg;
    fv_status status = fv_attn_forward(&j->attn, &j->data, &j->exec, j->scratch, j->scratch_bytes);
    if (status != FV_OK) j->status = status;
}

static void call_backward(void *arg)
{
    job *j = arg;
    fv_status status = fv_attn_backward(&j->attn, &j->data, &j->exec, j->scratch, j->scratch_bytes);
    if (status != FV_OK) j->status = status;
}

static float *operand(int64_t floats, uint32_t seed)
{
    float *x = bench_alloc((size_t)floats * sizeof(float));
    for (int64_t i = 0; x && i < floats; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return x;
}

static void job_free(job *j)
{
    for (int i = 0; i < ARRAYS; i++)
        free(j->array[i]);
    free(j->scratch);
}

static fv_status job_make(const shape *s, fv_simd level, fv_pool *pool, int threads, job *j)
{
    *j = (job){.exec = {.level = level, .pool = pool}};
    fv_attn *a = &j->attn;
    fv_attn_init(a, sizeof *a);
    a->heads = a->kv_heads = s->heads;
    a->n_q = s->pass[0] == 'd' ? 1 : s->n;
    a->n_k = s->n;
    a->d = a->d_v = s->d;
    a->scale = 1 / sqrt((double)s->d);
    a->causal = s->causal ? FV_CAUSAL_TOP_LEFT : FV_CAUSAL_NONE;
    fv_attn_dense(a);
    size_t forward = 0, backward = 0;
    fv_status status = fv_attn_scratch(a, FV_ATTN_FORWARD, threads, &forward);
    if (status == FV_OK) status = fv_attn_scratch(a, FV_ATTN_BACKWARD, threads, &backward);
    if (status != FV_OK) return status;
    j->scratch_bytes = forward > backward ? forward : backward;
    j->scratch = bench_alloc(j->scratch_bytes + 64);
    bool ok = j->scratch != NULL;
    for (int i = 0; i < ARRAYS; i++) {
        j->array[i] = operand(s->heads * s->n * (i == LSE ? 1 : s->d), (uint32_t)i);
        ok = ok && j->array[i];
    }
    if (!ok) return FV_ERR_MEMORY;
    float **x = j->array;
    j->data = (fv_attn_data){.q = x[Q],
                             .k = x[K],
                             .v = x[V],
                             .o = x[O],
                             .lse = x[LSE],
                             .grad_o = x[GRAD_O],
                             .grad_q = x[GRAD_Q],
                             .grad_k = x[GRAD_K],
                             .grad_v = x[GRAD_V]};
    call_forward(j); /* the backward needs o and lse */
    return j->status;
}

static int bench_shape(bench_run *run, const shape *s, fv_pool *pool, int threads)
{
    job j;
    fv_status status = job_make(s, run->level, pool, threads, &j);
    const bool decode = s->pass[0] == 'd', backward = s->pass[0] == 'b';
    const bench_case ours = {.call = backward ? call_backward : call_forward, .arg = &j};
    const bench_request ask = {.cases = &ours,
                               .count = 1,
                               .gauge = decode ? BENCH_READ : BENCH_FMA_F32,
                               .threads = threads,
                               .level = run->level};
    bench_result got;
    const bool measured = status == FV_OK && bench_measure(run, &ask, &got);
    if (status == FV_OK) status = j.status;
    job_free(&j);
    if (status != FV_OK) {
        cli_error("bench: attention failed: %s", fv_status_name(status));
        return cli_exit_code(status);
    }
    if (!measured) return CLI_INTERRUPTED;

    bench_line line = bench_line_of("attention", s->pass, &ask, &got);
    line.pass = s->pass;
    line.heads = s->heads;
    line.n = s->n;
    line.d = s->d;
    line.causal = s->causal;
    const double pairs = (double)(s->heads * s->n) * (double)s->n * (s->causal ? 0.5 : 1);
    const double flops = 4 * pairs * (double)s->d * (backward ? 2.5 : 1);
    const double bytes = 8.0 * (double)(s->heads * s->n * s->d);
    bench_line_rate(&line, decode ? BENCH_GBS : BENCH_GFLOPS, decode ? bytes : flops,
                    got.seconds[0], got.gauge);
    bench_print(run, &line);
    return CLI_DONE;
}

/* ---- the suite ------------------------------------------------------------------ */

/* Long sequences have fewer heads and rounds: a round takes seconds there. */
enum { LONG = 8192, LONG_HEADS = 2, LONG_ROUNDS = 5, HEADS = 8 };

static int bench_length(bench_run *run, int64_t n, fv_pool *pool, int threads)
{
    static const char *const passes[] = {"fwd", "bwd", "decode"};
    const int rounds = run->rounds;
    if (n >= LONG && rounds > LONG_ROUNDS) run->rounds = LONG_ROUNDS;
    int code = CLI_DONE;
    for (int pass = 0; pass < CLI_COUNT(passes); pass++)
        for (int64_t d = 64; d <= 128; d *= 2)
            for (int causal = 0; causal < (pass == 2 ? 1 : 2); causal++) {
                const shape s = {.pass = passes[pass],
                                 .n = n,
                                 .d = d,
                                 .heads = n >= LONG && pass < 2 ? LONG_HEADS : HEADS,
                                 .causal = causal};
                if (code == CLI_DONE && bench_wanted(run, s.pass))
                    code = bench_shape(run, &s, pool, threads);
            }
    run->rounds = rounds;
    return code;
}

int bench_attention(bench_run *run)
{
    static const int64_t lengths[] = {2048, 512, 8192}; /* the first is what --quick measures */
    int counts[2], code = CLI_DONE;
    const int times = bench_thread_counts(run, counts);
    for (int t = 0; t < times && code == CLI_DONE; t++) {
        fv_pool *pool = NULL;
        if (counts[t] > 1 && fv_pool_create(counts[t], &pool) != FV_OK) {
            cli_error("bench: cannot start %d threads", counts[t]);
            return CLI_FAILED;
        }
        for (int i = 0; i < (run->quick ? 1 : CLI_COUNT(lengths)) && code == CLI_DONE; i++)
            code = bench_length(run, lengths[i], pool, counts[t]);
        fv_pool_destroy(&pool);
    }
    return code;
}
