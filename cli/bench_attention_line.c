/* One line of `fovea bench attention`: operands, the calls, the counting. */
#include "bench_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/attention_kernels.h"
#include "output.h"

enum { Q, K, V, O, GRAD_O, GRAD_Q, GRAD_K, GRAD_V, LSE, W, GRAD_W, MAP, INDEX, WEIGHT, ARRAYS };
enum { TOP = 16 };

typedef struct job {
    fv_attn attn;
    fv_attn_data data;
    fv_attn_exec exec;
    fv_attn_region region;
    fv_attn_summary summary;
    void *array[ARRAYS];
    void *scratch;
    size_t scratch_bytes;
    uint8_t *blocks;
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

static void call_map(void *arg)
{
    job *j = arg;
    fv_status status = fv_attn_weights(&j->attn, &j->data, &j->region, &j->exec, j->scratch,
                                       j->scratch_bytes, j->array[MAP]);
    if (status != FV_OK) j->status = status;
}

static void call_top(void *arg)
{
    job *j = arg;
    fv_status status =
        fv_attn_summarise(&j->attn, &j->data, &j->summary, &j->exec, j->scratch, j->scratch_bytes);
    if (status != FV_OK) j->status = status;
}

/* Truncates a float between -1 and 1 to f16; subnormals become 0. */
static uint16_t f16_below_one(uint32_t bits)
{
    const uint32_t sign = bits >> 16 & 0x8000u, size = bits & 0x7fffffffu;
    const uint32_t smallest = 113u << 23; /* 2^-14 */
    return (uint16_t)(sign | (size < smallest ? 0 : (size - (112u << 23)) >> 13));
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
        else if (dtype == FV_F16)
            ((uint16_t *)(void *)x)[i] = f16_below_one(bits);
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
    free(j->blocks);
}

static int64_t queries_of(const attention_shape *s) { return s->queries > 0 ? s->queries : s->n; }

static fv_attn description(const attention_shape *s)
{
    fv_attn a;
    fv_attn_init(&a, sizeof a);
    a.dtype = s->dtype;
    a.heads = a.kv_heads = s->heads;
    a.n_q = s->pass == ATTENTION_DECODE ? 1 : queries_of(s);
    a.n_k = s->n;
    a.d = a.d_v = s->d;
    a.score = s->score;
    a.rule.causal = s->causal ? FV_CAUSAL_TOP_LEFT : FV_CAUSAL_NONE;
    if (s->blocks) {
        const int64_t side = (s->n + ATTENTION_BLOCK - 1) / ATTENTION_BLOCK;
        a.rule.block_q = a.rule.block_k = ATTENTION_BLOCK;
        a.blocks = (fv_attn_grid){.row = side, .col = 1};
    }
    fv_attn_dense(&a);
    return a;
}

/* How many elements of an array the call reads or writes. */
static int64_t elements_of(const attention_shape *s, int i)
{
    const int64_t rows = s->heads * s->n;
    if (i == LSE) return rows;
    if (i == MAP) return s->pass == ATTENTION_MAP ? rows * s->n : 0;
    if (i == INDEX) return s->pass == ATTENTION_TOP ? 2 * rows * TOP : 0; /* of eight bytes */
    if (i == WEIGHT) return s->pass == ATTENTION_TOP ? rows * TOP : 0;
    if (i == W) return s->heads * s->d;
    const bool gradient = i == GRAD_W || (i >= GRAD_O && i <= GRAD_V);
    return gradient && s->pass != ATTENTION_BACKWARD ? 0 : rows * s->d;
}

/* Enough for every call of the job. */
static fv_status scratch_of(job *j, int threads)
{
    size_t need[4] = {0};
    j->summary = (fv_attn_summary){.struct_size = sizeof j->summary,
                                   .top = j->array[INDEX] ? TOP : 0,
                                   .top_index = j->array[INDEX],
                                   .top_weight = j->array[WEIGHT]};
    fv_attn_region_init(&j->region, sizeof j->region, &j->attn);
    fv_status status = fv_attn_scratch(&j->attn, FV_ATTN_FORWARD, threads, &need[0]);
    if (status == FV_OK) status = fv_attn_scratch(&j->attn, FV_ATTN_BACKWARD, threads, &need[1]);
    if (status == FV_OK) status = fv_attn_weights_scratch(&j->attn, &j->region, threads, &need[2]);
    if (status == FV_OK) status = fv_attn_summary_scratch(&j->attn, &j->summary, threads, &need[3]);
    if (status != FV_OK) return status;
    for (int i = 0; i < 4; i++)
        if (need[i] > j->scratch_bytes) j->scratch_bytes = need[i];
    j->scratch = bench_alloc(j->scratch_bytes + 64);
    return j->scratch ? FV_OK : FV_ERR_MEMORY;
}

/* Visible blocks spaced as far apart as possible, shifted by one in each row. */
static uint8_t *make_blocks(const fv_attn *a)
{
    const int64_t side = a->blocks.row;
    uint8_t *x = malloc((size_t)(side * side));
    for (int64_t i = 0; x && i < side * side; i++)
        x[i] = (i % side + i / side) % ATTENTION_SPARSE == 0;
    return x;
}

static fv_status job_make(const attention_shape *s, fv_pool *pool, int threads, job *j)
{
    *j = (job){.attn = description(s), .exec = {.level = s->level, .pool = pool}};
    for (int i = 0; i < ARRAYS; i++) {
        const bool stored = i < LSE; /* q, k, v, o and their gradients: can be bf16 or f16 */
        const int64_t elements = elements_of(s, i);
        if (elements == 0) continue;
        j->array[i] = operand(stored ? s->dtype : FV_F32, elements, (uint32_t)i);
        if (!j->array[i]) return FV_ERR_MEMORY;
    }
    if (s->blocks && !(j->blocks = make_blocks(&j->attn))) return FV_ERR_MEMORY;
    fv_status status = scratch_of(j, threads);
    if (status != FV_OK) return status;
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
    if (s->score == FV_ATTN_SCORE_ADDITIVE) {
        j->data.w = x[W];
        j->data.grad_w = x[GRAD_W];
    }
    j->data.blocks = j->blocks;
    return FV_OK;
}

static void set_rate(bench_line *line, const attention_shape *s, const bench_result *got)
{
    const double part = (s->causal ? 0.5 : 1) / (s->blocks ? ATTENTION_SPARSE : 1);
    const double pairs = (double)(s->heads * queries_of(s)) * (double)s->n * part;
    const double flops = 4 * pairs * (double)s->d * (s->pass == ATTENTION_BACKWARD ? 2.5 : 1);
    const double bytes = 2.0 * (double)fv_dtype_size(s->dtype) * (double)(s->heads * s->n * s->d);
    if (s->pass >= ATTENTION_MAP)
        bench_line_rate(line, BENCH_GFLOPS, flops / 2, got->seconds[0], got->limit);
    else if (s->score == FV_ATTN_SCORE_ADDITIVE)
        bench_line_rate(line, BENCH_GOPS, pairs * (double)s->d, got->seconds[0], (double)NAN);
    else if (s->pass == ATTENTION_DECODE)
        bench_line_rate(line, BENCH_GBS, bytes, got->seconds[0], got->limit);
    else
        bench_line_rate(line, BENCH_GFLOPS, flops, got->seconds[0], got->limit);
}

/* Backward with bf16 inputs multiplies in f32 too, except at level amx. */
static bench_limit limit_of(const attention_shape *s)
{
    if (s->pass == ATTENTION_DECODE) return BENCH_READ;
    const bool bf16 =
        s->pass == ATTENTION_FORWARD || (s->pass == ATTENTION_BACKWARD && s->level == FV_SIMD_AMX);
    return s->dtype == FV_BF16 && bf16 ? BENCH_DOT_BF16 : BENCH_FMA_F32;
}

static bench_line line_of(const attention_shape *s, const bench_request *ask,
                          const bench_result *got)
{
    static const char *const passes[] = {"fwd", "bwd", "decode", "weights", "weights"};
    bench_line line = bench_line_of("attention", s->name, ask, got);
    line.dtype = fv_dtype_name(s->dtype);
    line.pass = passes[s->pass];
    line.heads = s->heads;
    line.n = s->n;
    line.d = s->d;
    line.causal = s->causal;
    set_rate(&line, s, got);
    return line;
}

static int failed(fv_status status)
{
    cli_error("bench: attention failed: %s", fv_status_name(status));
    return cli_exit_code(status);
}

int bench_attention_line(bench_run *run, const attention_shape *s, fv_pool *pool, int threads)
{
    static void (*const calls[])(void *) = {call_forward, call_backward, call_forward, call_map,
                                            call_top};
    job j;
    fv_status status = job_make(s, pool, threads, &j);
    if (status == FV_OK) call_forward(&j); /* backward needs o and lse */
    const bool is_weights = s->pass >= ATTENTION_MAP;
    const bench_case cases[] = {{.call = calls[s->pass], .arg = &j},
                                {.call = call_forward, .arg = &j}};
    const bench_request ask = {.cases = cases,
                               .count = is_weights ? 2 : 1,
                               .limit = limit_of(s),
                               .threads = threads,
                               .level = s->level};
    bench_result got;
    const bool measured = status == FV_OK && bench_measure(run, &ask, &got);
    if (status == FV_OK) status = j.status;
    job_free(&j);
    if (status != FV_OK) return failed(status);
    if (!measured) return CLI_INTERRUPTED;

    bench_line line = line_of(s, &ask, &got);
    if (is_weights) line.of_forward = got.seconds[0] / got.seconds[1];
    bench_print(run, &line);
    return CLI_DONE;
}

/* ---- element types ----------------------------------------------------------------- */

int bench_attention_types(bench_run *run, const attention_shape *s, fv_pool *pool, int threads)
{
    enum { TYPES = 3 };
    static const fv_dtype types[TYPES] = {FV_F32, FV_BF16, FV_F16};
    job jobs[TYPES] = {0};
    bench_case cases[TYPES];
    attention_shape shapes[TYPES];
    fv_status status = FV_OK;
    for (int i = 0; i < TYPES && status == FV_OK; i++) {
        shapes[i] = *s;
        shapes[i].dtype = types[i];
        status = job_make(&shapes[i], pool, threads, &jobs[i]);
        cases[i] = (bench_case){
            .call = s->pass == ATTENTION_BACKWARD ? call_backward : call_forward, .arg = &jobs[i]};
        if (status == FV_OK) call_forward(&jobs[i]); /* backward needs o and lse */
    }
    const bench_request ask = {
        .cases = cases, .count = TYPES, .threads = threads, .level = s->level};
    bench_result got;
    const bool measured = status == FV_OK && bench_measure(run, &ask, &got);
    for (int i = 0; i < TYPES; i++) {
        if (status == FV_OK) status = jobs[i].status;
        job_free(&jobs[i]);
    }
    if (status != FV_OK) return failed(status);
    if (!measured) return CLI_INTERRUPTED;
    for (int i = 1; i < TYPES; i++) {
        bench_result one = got;
        one.seconds[0] = got.seconds[i];
        bench_line line = line_of(&shapes[i], &ask, &one);
        line.of_f32 = got.seconds[i] / got.seconds[0];
        bench_print(run, &line);
    }
    return CLI_DONE;
}

/* ---- long sequences ---------------------------------------------------------------- */

static double seconds_of(void (*call)(void *), job *j)
{
    const double start = cli_now();
    call(j);
    return cli_now() - start;
}

int bench_attention_once(bench_run *run, const attention_shape *s, fv_pool *pool, int threads,
                         attention_once *out)
{
    static const fv_attn_pass passes[] = {FV_ATTN_FORWARD, FV_ATTN_BACKWARD};
    static void (*const calls[])(void *) = {call_forward, call_backward};
    enum { AGREE_PERCENT = 5 };
    job j;
    fv_status status = job_make(s, pool, threads, &j);
    const double before = bench_limit_read(run, BENCH_FMA_F32, s->level, threads);
    for (int p = 0; p < 2 && status == FV_OK && !cli_cancelled; p++) {
        size_t scratch = 0;
        status = fv_attn_scratch(&j.attn, passes[p], threads, &scratch);
        out->bytes[p] = scratch + (size_t)(s->heads * s->n) * sizeof(float);
        out->seconds[p] = seconds_of(calls[p], &j);
    }
    const double after = bench_limit_read(run, BENCH_FMA_F32, s->level, threads);
    out->limit = 0.5 * (before + after);
    out->noisy = !(fabs(before - after) * 100 <= AGREE_PERCENT * fmax(before, after));
    if (status == FV_OK) status = j.status;
    job_free(&j);
    if (status != FV_OK) return failed(status);
    return cli_cancelled ? CLI_INTERRUPTED : CLI_DONE;
}

void bench_attention_long_line(bench_run *run, const attention_shape *s, int threads,
                               const attention_once *whole, const attention_once *half)
{
    const bench_request ask = {.limit = BENCH_FMA_F32, .threads = threads, .level = s->level};
    const bench_result got = {.seconds = {whole->seconds[s->pass]},
                              .limit = whole->limit,
                              .noisy = whole->noisy || half->noisy};
    bench_line line = line_of(s, &ask, &got);
    line.of_half = whole->seconds[s->pass] / half->seconds[s->pass];
    line.extra_mib = (double)whole->bytes[s->pass] / (1 << 20);
    bench_print(run, &line);
}
