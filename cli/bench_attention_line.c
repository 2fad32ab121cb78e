/* One line of `fovea bench attention`: operands, the calls, the counting. */
#include "bench_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

enum { Q, K, V, O, GRAD_O, GRAD_Q, GRAD_K, GRAD_V, LSE, W, GRAD_W, ARRAYS };

typedef struct job {
    fv_attn attn;
    fv_attn_data data;
    fv_attn_exec exec;
    void *array[ARRAYS];
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

static void *operand(fv_dtype dtype, int64_t count, uint32_t seed)
{
    float *x = bench_alloc((size_t)count * sizeof(float));
    for (int64_t i = 0; x && i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float value = (float)(seed >> 8) / 8388608.0f - 1.0f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (dtype == FV_BF16)
            ((uint16_t *)(void *)x)[i] = (uint16_t)(bits >> 16);
        else
            x[i] = value;
    }
    return x;
}

static void job_free(job *j)
{
    for (int i = 0; i < ARRAYS; i++)
        free(j->array[i]);
    free(j->scratch);
}

static fv_attn description(const attention_shape *s)
{
    fv_attn a;
    fv_attn_init(&a, sizeof a);
    a.dtype = s->dtype;
    a.heads = a.kv_heads = s->heads;
    a.n_q = s->pass == ATTENTION_DECODE ? 1 : s->n;
    a.n_k = s->n;
    a.d = a.d_v = s->d;
    a.score = s->score;
    a.scale = s->score == FV_SCORE_DOT ? 1 / sqrt((double)s->d) : 1;
    a.causal = s->causal ? FV_CAUSAL_TOP_LEFT : FV_CAUSAL_NONE;
    fv_attn_dense(&a);
    return a;
}

static fv_status job_make(const attention_shape *s, fv_pool *pool, int threads, job *j)
{
    *j = (job){.attn = description(s), .exec = {.level = s->level, .pool = pool}};
    size_t forward = 0, backward = 0;
    fv_status status = fv_attn_scratch(&j->attn, FV_ATTN_FORWARD, threads, &forward);
    if (status == FV_OK) status = fv_attn_scratch(&j->attn, FV_ATTN_BACKWARD, threads, &backward);
    if (status != FV_OK) return status;
    j->scratch_bytes = forward > backward ? forward : backward;
    j->scratch = bench_alloc(j->scratch_bytes + 64);
    bool ok = j->scratch != NULL;
    for (int i = 0; i < ARRAYS; i++) {
        const bool stored = i < LSE; /* in 16 bits perhaps: q, k, v, o and their gradients */
        j->array[i] = operand(stored ? s->dtype : FV_F32, s->heads * s->n * (i == LSE ? 1 : s->d),
                              (uint32_t)i);
        ok = ok && j->array[i];
    }
    if (!ok) return FV_ERR_MEMORY;
    void **x = j->array;
    j->data = (fv_attn_data){.q = x[Q],
                             .k = x[K],
                             .v = x[V],
                             .o = x[O],
                             .lse = x[LSE],
                             .grad_o = x[GRAD_O],
                             .grad_q = x[GRAD_Q],
                             .grad_k = x[GRAD_K],
                             .grad_v = x[GRAD_V]};
    if (s->score == FV_SCORE_ADDITIVE) {
        j->data.w = x[W];
        j->data.grad_w = x[GRAD_W];
    }
    call_forward(j); /* the backward needs o and lse */
    return j->status;
}

static void set_rate(bench_line *line, const attention_shape *s, const bench_result *got)
{
    const double pairs = (double)(s->heads * s->n) * (double)s->n * (s->causal ? 0.5 : 1);
    const double flops = 4 * pairs * (double)s->d * (s->pass == ATTENTION_BACKWARD ? 2.5 : 1);
    const double bytes = 2.0 * (double)fv_dtype_size(s->dtype) * (double)(s->heads * s->n * s->d);
    if (s->score == FV_SCORE_ADDITIVE)
        bench_line_rate(line, BENCH_GOPS, pairs * (double)s->d, got->seconds[0], (double)NAN);
    else if (s->pass == ATTENTION_DECODE)
        bench_line_rate(line, BENCH_GBS, bytes, got->seconds[0], got->gauge);
    else
        bench_line_rate(line, BENCH_GFLOPS, flops, got->seconds[0], got->gauge);
}

/* The backward of bf16 multiplies floats. */
static bench_gauge gauge_of(const attention_shape *s)
{
    if (s->pass == ATTENTION_DECODE) return BENCH_READ;
    return s->dtype == FV_BF16 && s->pass == ATTENTION_FORWARD ? BENCH_DOT_BF16 : BENCH_FMA_F32;
}

int bench_attention_line(bench_run *run, const attention_shape *s, fv_pool *pool, int threads)
{
    static const char *const passes[] = {"fwd", "bwd", "decode"};
    job j;
    fv_status status = job_make(s, pool, threads, &j);
    const bench_case ours = {.call = s->pass == ATTENTION_BACKWARD ? call_backward : call_forward,
                             .arg = &j};
    const bench_request ask = {
        .cases = &ours, .count = 1, .gauge = gauge_of(s), .threads = threads, .level = s->level};
    bench_result got;
    const bool measured = status == FV_OK && bench_measure(run, &ask, &got);
    if (status == FV_OK) status = j.status;
    job_free(&j);
    if (status != FV_OK) {
        cli_error("bench: attention failed: %s", fv_status_name(status));
        return cli_exit_code(status);
    }
    if (!measured) return CLI_INTERRUPTED;

    bench_line line = bench_line_of("attention", s->name, &ask, &got);
    line.dtype = fv_dtype_name(s->dtype);
    line.pass = passes[s->pass];
    line.heads = s->heads;
    line.n = s->n;
    line.d = s->d;
    line.causal = s->causal;
    set_rate(&line, s, &got);
    bench_print(run, &line);
    return CLI_DONE;
}
