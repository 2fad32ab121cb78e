/*
 * Attention kernels inside a program that has its own arrays, memory and threads: no context, no
 * tensors, nothing allocated by the library. One causal layer over q, k and v as one matrix product
 * leaves them ([position][q, k, v][head][width]), on two threads of our own; then where the last
 * position looks; then the same position again as a decoder computes it, alone over the cache.
 *
 *     raw_attention
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "fovea/attention_kernels.h"

enum { N = 300, HEADS = 4, D = 32, ROW = 3 * HEADS * D, THREADS = 2, TOP = 3 };

static float qkv[N * ROW], o[N * HEADS * D], lse[HEADS * N];

static void must(fv_status status)
{
    if (status == FV_OK) return;
    fprintf(stderr, "%s\n", fv_status_name(status));
    exit(1);
}

/* ---- threads of our own ----------------------------------------------------------- */

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

/* The first part goes to a second thread, the rest is done here: parts begin in order. */
static void share(void *user, int64_t units, int64_t grain, fv_attn_work work, const void *arg)
{
    (void)user;
    (void)grain;
    part first = {work, arg, 0, units / 2, 0};
    pthread_t other;
    const bool made = pthread_create(&other, NULL, run_part, &first) == 0;
    if (!made) run_part(&first);
    work(arg, units / 2, units, 1);
    if (made) pthread_join(other, NULL);
}

/* ---- calls ------------------------------------------------------------------------ */

static fv_attn layer(void)
{
    fv_attn a;
    fv_attn_init(&a, sizeof a);
    a.heads = a.kv_heads = HEADS;
    a.n_q = a.n_k = N;
    a.d = a.d_v = D;
    a.rule.scale = 1 / sqrt(D);
    a.rule.causal =
        FV_CAUSAL_BOTTOM_RIGHT; /* the last query sees every key, however many there are */
    a.q = a.k = a.v = (fv_attn_layout){.head = D, .row = ROW};
    a.o = (fv_attn_layout){.head = D, .row = HEADS * D};
    return a;
}

static fv_attn_data arrays(void)
{
    return (fv_attn_data){
        .q = qkv, .k = qkv + HEADS * D, .v = qkv + 2 * HEADS * D, .o = o, .lse = lse};
}

/* The caller brings the scratch; its size is asked for first. */
static void *scratch_for(size_t bytes)
{
    void *scratch = aligned_alloc(64, bytes / 64 * 64 + 64);
    if (!scratch) must(FV_ERR_MEMORY);
    return scratch;
}

static void forward(const fv_attn *a, const fv_attn_data *data, const fv_attn_exec *exec)
{
    size_t bytes = 0;
    must(fv_attn_scratch(a, FV_ATTN_FORWARD, exec ? exec->threads : 1, &bytes));
    void *scratch = scratch_for(bytes);
    must(fv_attn_forward(a, data, exec, scratch, bytes));
    free(scratch);
}

/* Where each head looks from the last position, and how widely. */
static void print_facts(const fv_attn *a, const fv_attn_data *data)
{
    static int64_t index[HEADS * N * TOP];
    static float weight[HEADS * N * TOP], entropy[HEADS * N], mean[HEADS];
    const fv_attn_summary ask = {.struct_size = sizeof ask,
                                 .top = TOP,
                                 .top_index = index,
                                 .top_weight = weight,
                                 .entropy = entropy};
    size_t bytes = 0;
    must(fv_attn_summary_scratch(a, &ask, 1, &bytes));
    void *scratch = scratch_for(bytes);
    must(fv_attn_summarise(a, data, &ask, NULL, scratch, bytes));
    free(scratch);
    must(fv_attn_head_means(a, lse, entropy, mean));
    for (int h = 0; h < HEADS; h++) {
        const int last = (h * N + N - 1) * TOP;
        printf("head %d: position %d looks at", h, N - 1);
        for (int t = 0; t < TOP; t++)
            printf(" %lld (%.3f)", (long long)index[last + t], (double)weight[last + t]);
        printf("; mean entropy %.2f\n", (double)mean[h]);
    }
}

int main(void)
{
    unsigned state = 1;
    for (int i = 0; i < N * ROW; i++) {
        state = state * 1664525u + 1013904223u;
        qkv[i] = (float)(state >> 8) / 4194304.0f - 2.0f;
    }

    const fv_attn a = layer();
    const fv_attn_data data = arrays();
    const fv_attn_exec exec = {.parallel = share, .threads = THREADS};
    forward(&a, &data, &exec);
    print_facts(&a, &data);

    /* Decoding: one query over the cache. */
    float again[HEADS * D];
    fv_attn step = a;
    step.n_q = 1;
    fv_attn_data one = data;
    one.q = qkv + (N - 1) * ROW;
    one.o = again;
    one.lse = NULL;
    forward(&step, &one, NULL);
    float worst = 0;
    for (int c = 0; c < HEADS * D; c++)
        worst = fmaxf(worst, fabsf(again[c] - o[(N - 1) * HEADS * D + c]));
    printf("the last position alone: the same to %.1e\n", (double)worst);
    return worst < 1e-5f ? 0 : 1;
}
