/*
 * The raw-pointer attention as an outside program calls it: layouts, threads of the caller's own,
 * queries and keys in parts, and what is refused.
 */
#include <pthread.h>

#include "fovea/attention_kernels.h"
#include "support/attention.h"

enum { BATCH = 2, HEADS = 3, N = 150, D = 20, CELLS = BATCH * HEADS * N * D };

/* Everything of one training step. */
typedef struct arrays {
    float q[CELLS], k[CELLS], v[CELLS], o[CELLS], grad_o[CELLS];
    float grad_q[CELLS], grad_k[CELLS], grad_v[CELLS];
    float lse[BATCH * HEADS * N];
} arrays;

static arrays one, two;

static fv_attn description(fv_attn_layout q, fv_attn_layout k, fv_attn_layout v, fv_attn_layout o)
{
    fv_attn a = attn_heads(BATCH, HEADS, HEADS, N, N, D);
    a.rule.causal = FV_CAUSAL_TOP_LEFT;
    a.q = q;
    a.k = k;
    a.v = v;
    a.o = o;
    return a;
}

static fv_status step(const fv_attn *a, const fv_attn_data *data, const fv_attn_exec *exec)
{
    const int threads = exec && exec->parallel ? exec->threads : 1;
    size_t forward = 0, backward = 0;
    if (fv_attn_scratch(a, FV_ATTN_FORWARD, threads, &forward) != FV_OK) return FV_ERR_ARGUMENT;
    if (fv_attn_scratch(a, FV_ATTN_BACKWARD, threads, &backward) != FV_OK) return FV_ERR_ARGUMENT;
    const size_t need = forward > backward ? forward : backward;
    void *scratch = aligned_alloc(64, need + 64 - need % 64);
    fv_status status = fv_attn_forward(a, data, exec, scratch, need);
    if (status == FV_OK) status = fv_attn_backward(a, data, exec, scratch, need);
    free(scratch);
    return status;
}

static fv_attn_data data_of(arrays *x)
{
    return (fv_attn_data){.q = x->q,
                          .k = x->k,
                          .v = x->v,
                          .o = x->o,
                          .lse = x->lse,
                          .grad_o = x->grad_o,
                          .grad_q = x->grad_q,
                          .grad_k = x->grad_k,
                          .grad_v = x->grad_v};
}

static void fill(float *x)
{
    const vec normals = vec_normals(CELLS, 1);
    memcpy(x, normals.data, CELLS * sizeof(float));
    vec_free_all();
}

static const fv_attn_layout bhnd = {HEADS * N * D, N *D, D};
static const fv_attn_layout bnhd = {HEADS * N * D, D, HEADS *D};

/* `one` gets inputs and the results of the usual layout. */
static void begin(void)
{
    float *inputs[] = {one.q, one.k, one.v, one.grad_o};
    for (int i = 0; i < 4; i++)
        fill(inputs[i]);
    const fv_attn a = description(bhnd, bhnd, bhnd, bhnd);
    const fv_attn_data data = data_of(&one);
    CHECK(step(&a, &data, NULL) == FV_OK);
}

/* Copies between layouts; `to` and `from` begin with the first element. */
static void move(float *to, const fv_attn_layout *x, const float *from, const fv_attn_layout *y)
{
    for (int64_t row = 0; row < BATCH * HEADS * N; row++) {
        const int64_t i = row % N, h = row / N % HEADS, b = row / N / HEADS;
        memcpy(to + b * x->batch + h * x->head + i * x->row,
               from + b * y->batch + h * y->head + i * y->row, D * sizeof(float));
    }
}

static bool holds(const float *x, const fv_attn_layout *l, const float *want)
{
    static float dense[CELLS];
    move(dense, &bhnd, x, l);
    return memcmp(dense, want, sizeof dense) == 0;
}

/* ---- layouts ---------------------------------------------------------------------- */

static void rows_before_heads(void)
{
    begin();
    const float *from[] = {one.q, one.k, one.v, one.grad_o};
    float *to[] = {two.q, two.k, two.v, two.grad_o};
    for (int i = 0; i < 4; i++)
        move(to[i], &bnhd, from[i], &bhnd);
    const fv_attn a = description(bnhd, bnhd, bnhd, bnhd);
    const fv_attn_data data = data_of(&two);
    CHECK(step(&a, &data, NULL) == FV_OK);
    CHECK(holds(two.o, &bnhd, one.o) && memcmp(two.lse, one.lse, sizeof one.lse) == 0);
    CHECK(holds(two.grad_q, &bnhd, one.grad_q));
    CHECK(holds(two.grad_k, &bnhd, one.grad_k));
    CHECK(holds(two.grad_v, &bnhd, one.grad_v));
}

/* [batch][n][3][heads][d], as one matrix product makes it; the gradient has the same layout. */
static void packed_rows(void)
{
    static float all[3 * CELLS], grad[3 * CELLS];
    const fv_attn_layout packed = {3 * HEADS * N * D, D, 3 * HEADS * D};
    enum { K_AT = HEADS * D, V_AT = 2 * HEADS * D };
    begin();
    move(all, &packed, one.q, &bhnd);
    move(all + K_AT, &packed, one.k, &bhnd);
    move(all + V_AT, &packed, one.v, &bhnd);
    const fv_attn a = description(packed, packed, packed, bhnd);
    fv_attn_data data = data_of(&two);
    memcpy(two.grad_o, one.grad_o, sizeof one.grad_o);
    data.q = all;
    data.k = all + K_AT;
    data.v = all + V_AT;
    data.grad_q = grad;
    data.grad_k = grad + K_AT;
    data.grad_v = grad + V_AT;
    CHECK(step(&a, &data, NULL) == FV_OK);
    CHECK(memcmp(two.o, one.o, sizeof one.o) == 0);
    CHECK(holds(grad, &packed, one.grad_q));
    CHECK(holds(grad + K_AT, &packed, one.grad_k));
    CHECK(holds(grad + V_AT, &packed, one.grad_v));
}

/* ---- threads of one's own --------------------------------------------------------- */

typedef struct part {
    fv_attn_work work;
    const void *arg;
    int64_t begin, end;
    int thread;
} part;

static void *run_part(void *arg)
{
    const part *p = arg;
    p->work(p->arg, p->begin, p->end, p->thread);
    return NULL;
}

static int calls; /* of the functions below */

/* As many equal parts as threads, each thread made for its part. */
static void equal_parts(void *user, int64_t units, int64_t grain, fv_attn_work work,
                        const void *arg)
{
    enum { MOST = 4 };
    const int threads = *(const int *)user;
    pthread_t id[MOST];
    part parts[MOST];
    CHECK(grain >= 1);
    calls++;
    for (int t = 0; t < threads; t++) {
        parts[t] = (part){work, arg, units * t / threads, units * (t + 1) / threads, t};
        CHECK(pthread_create(&id[t], NULL, run_part, &parts[t]) == 0);
    }
    for (int t = 0; t < threads; t++)
        pthread_join(id[t], NULL);
}

/* No threads at all, unit by unit, under changing numbers. */
static void one_by_one(void *user, int64_t units, int64_t grain, fv_attn_work work, const void *arg)
{
    (void)grain;
    calls++;
    for (int64_t u = 0; u < units; u++)
        work(arg, u, u + 1, (int)(u % *(const int *)user));
}

static void own_threads(void)
{
    begin();
    memcpy(two.q, one.q, sizeof one.q);
    memcpy(two.k, one.k, sizeof one.k);
    memcpy(two.v, one.v, sizeof one.v);
    memcpy(two.grad_o, one.grad_o, sizeof one.grad_o);
    const fv_attn a = description(bhnd, bhnd, bhnd, bhnd);
    const fv_attn_data data = data_of(&two);
    for (int threads = 1; threads <= 4; threads++)
        for (int kind = 0; kind < 2; kind++) {
            const fv_attn_exec exec = {
                .parallel = kind ? one_by_one : equal_parts, .user = &threads, .threads = threads};
            memset(two.o, 0, sizeof two.o);
            calls = 0;
            CHECK(step(&a, &data, &exec) == FV_OK);
            CHECK((calls > 0) == (threads > 1));
            CHECK(memcmp(two.o, one.o, sizeof one.o) == 0);
            CHECK(memcmp(two.grad_q, one.grad_q, sizeof one.grad_q) == 0);
            CHECK(memcmp(two.grad_k, one.grad_k, sizeof one.grad_k) == 0);
            CHECK(memcmp(two.grad_v, one.grad_v, sizeof one.grad_v) == 0);
        }
}

static void refused_threads(void)
{
    const fv_attn a = description(bhnd, bhnd, bhnd, bhnd);
    const fv_attn_data data = data_of(&two);
    int threads = 0;
    size_t need = 0;
    CHECK(fv_attn_scratch(&a, FV_ATTN_FORWARD, 2, &need) == FV_OK);
    void *scratch = aligned_alloc(64, need + 64 - need % 64);
    fv_attn_exec exec = {.parallel = one_by_one, .user = &threads};
    CHECK(fv_attn_forward(&a, &data, &exec, scratch, need) == FV_ERR_ARGUMENT);
    CHECK(fv_pool_create(2, &exec.pool) == FV_OK);
    exec.threads = 2; /* a pool and threads of one's own */
    CHECK(fv_attn_forward(&a, &data, &exec, scratch, need) == FV_ERR_ARGUMENT);
    fv_pool_destroy(&exec.pool);
    exec.threads = 64; /* scratch for two */
    CHECK(fv_attn_forward(&a, &data, &exec, scratch, need) == FV_ERR_ARGUMENT);
    free(scratch);
}

/* The reference kernels compute f64 at every level, and may need more scratch than a level's own.
 */
static void scratch_of_doubles(void)
{
    static double x[16];
    const fv_attn_data data = {.q = x, .k = x, .v = x, .o = x, .lse = x, .w = x};
    fv_attn a = attn_heads(1, 1, 1, 1, 100000, 1);
    a.dtype = FV_F64;
    a.score = FV_ATTN_SCORE_ADDITIVE;
    a.k = a.v = (fv_attn_layout){0, 0, 0};
    size_t need = 0;
    CHECK(fv_attn_scratch(&a, FV_ATTN_FORWARD, 1, &need) == FV_OK && need > 100000 * sizeof *x);
    char *scratch = aligned_alloc(64, need);
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++) {
        const fv_attn_exec exec = {.level = (fv_simd)level};
        CHECK(fv_attn_forward(&a, &data, &exec, scratch, need - 64) == FV_ERR_ARGUMENT);
        CHECK(fv_attn_forward(&a, &data, &exec, scratch, need) == FV_OK);
    }
    free(scratch);
}

/* Scratch as malloc gives it does; none, too little of it or one at an odd address does not. */
static void scratch_of_any_place(void)
{
    begin();
    memcpy(two.grad_o, one.grad_o, sizeof one.grad_o);
    const fv_attn a = description(bhnd, bhnd, bhnd, bhnd);
    fv_attn_data data = data_of(&two);
    data.q = one.q;
    data.k = one.k;
    data.v = one.v;
    size_t need[2] = {0, 0};
    CHECK(fv_attn_scratch(&a, FV_ATTN_FORWARD, 1, &need[0]) == FV_OK);
    CHECK(fv_attn_scratch(&a, FV_ATTN_BACKWARD, 1, &need[1]) == FV_OK);
    CHECK(need[0] % 64 == 0 && need[1] % 64 == 0);
    char *scratch = aligned_alloc(64, need[0] + need[1] + 64);
    for (int level = FV_SIMD_SCALAR; level <= (int)fv_simd_detect(); level++) {
        const fv_attn_exec exec = {.level = (fv_simd)level};
        for (int at = 0; at <= 16; at += 16) {
            CHECK(fv_attn_forward(&a, &data, &exec, scratch + at, need[0]) == FV_OK);
            CHECK(fv_attn_backward(&a, &data, &exec, scratch + at, need[1]) == FV_OK);
        }
        CHECK(fv_attn_forward(&a, &data, &exec, scratch + 4, need[0]) == FV_ERR_ARGUMENT);
        CHECK(fv_attn_forward(&a, &data, &exec, NULL, need[0]) == FV_ERR_ARGUMENT);
        CHECK(fv_attn_backward(&a, &data, &exec, NULL, need[1]) == FV_ERR_ARGUMENT);
        CHECK(fv_attn_backward(&a, &data, &exec, scratch, 64) == FV_ERR_ARGUMENT);
    }
    CHECK(memcmp(two.o, one.o, sizeof one.o) == 0); /* the best level came last, from an odd 16 */
    CHECK(memcmp(two.grad_q, one.grad_q, sizeof one.grad_q) == 0);
    CHECK(memcmp(two.grad_k, one.grad_k, sizeof one.grad_k) == 0);
    free(scratch);
}

/* ---- parts of a sequence ---------------------------------------------------------- */

/* Queries in two parts with offsets, and keys in two parts that are merged, as machines that share
 * a sequence do it. */
static void split_sequence(void)
{
    enum { CUT = 90 };
    begin();
    static float other[CELLS], lse[2][BATCH * HEADS * N];
    double worst = 0;
    for (int64_t first = 0; first < N; first += CUT) { /* queries from here on */
        fv_attn a = description(bhnd, bhnd, bhnd, bhnd);
        a.n_q = first == 0 ? CUT : N - CUT;
        a.rule.q_offset = first;
        fv_attn_data data = data_of(&two);
        data.q = one.q + first * D;
        data.v = one.v;
        data.k = one.k;
        data.o = two.o + first * D;
        data.grad_o = NULL;
        size_t need = 0;
        CHECK(fv_attn_scratch(&a, FV_ATTN_FORWARD, 1, &need) == FV_OK);
        void *scratch = aligned_alloc(64, need + 64 - need % 64);
        for (int side = 0; side < 2; side++) { /* keys before CUT, keys from it on */
            data.k = one.k + side * CUT * D;
            data.v = one.v + side * CUT * D;
            data.o = (side ? other : two.o) + first * D;
            data.lse = lse[side];
            a.n_k = side ? N - CUT : CUT;
            a.rule.q_offset = first - side * CUT;
            CHECK(fv_attn_forward(&a, &data, NULL, scratch, need) == FV_OK);
        }
        for (int64_t head = 0; head < BATCH * HEADS; head++) {
            const int64_t at = (head * N + first) * D;
            fv_attn_merge(a.n_q, D, two.o + at, D, lse[0] + head * a.n_q, other + at, D,
                          lse[1] + head * a.n_q);
            for (int64_t i = 0; i < a.n_q; i++)
                worst = test_worse(worst, fabs((double)lse[0][head * a.n_q + i] -
                                               (double)one.lse[head * N + first + i]));
        }
        free(scratch);
    }
    for (int64_t i = 0; i < CELLS; i++)
        worst = test_worse(worst, fabs((double)two.o[i] - (double)one.o[i]));
    /* 8 u (1 + S) V of either way; scores and values stay below 6 */
    CHECK(worst > 0 && worst <= 2 * 8 * 0x1p-24 * (1 + 6) * 6);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(rows_before_heads);
    RUN(packed_rows);
    RUN(own_threads);
    RUN(refused_threads);
    RUN(scratch_of_any_place);
    RUN(scratch_of_doubles);
    RUN(split_sequence);
    return TEST_END();
}
