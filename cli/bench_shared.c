/*
 * fovea bench shared: speed while the threads of another library spin on every CPU while they wait
 * for work, relative to the speed without them. They spin in two ways: `busy`, as OpenMP's threads
 * do, which leave a CPU only when the system takes it from them (with one such thread for each CPU
 * a program with at least as many threads gets half of the time, so 0.5 is the fair share); and
 * `yield`, as OpenBLAS's do, which offer their CPU in every round. Slots without and with the
 * spinning threads are interleaved, and long enough for many time slices of the system.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "fovea/generate.h"
#include "fovea/ops.h"
#include "fovea/train.h"
#include "output.h"

/* ---- threads that spin ---------------------------------------------------------------- */

enum { MOST_SPINNERS = 64 };

typedef struct spinners {
    pthread_t threads[MOST_SPINNERS];
    int count;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_bool on, stop;
    atomic_bool yields; /* set while they are off */
} spinners;

static void *spin(void *arg)
{
    spinners *s = arg;
    while (!atomic_load(&s->stop)) {
        const bool yields = atomic_load(&s->yields);
        while (atomic_load_explicit(&s->on, memory_order_relaxed))
            if (yields) sched_yield();
        pthread_mutex_lock(&s->lock);
        while (!atomic_load(&s->on) && !atomic_load(&s->stop))
            pthread_cond_wait(&s->changed, &s->lock);
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

static void spinners_set(spinners *s, bool on, bool stop)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->on, on);
    atomic_store(&s->stop, stop);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void spinners_stop(spinners *s)
{
    spinners_set(s, false, true);
    for (int i = 0; i < s->count; i++)
        pthread_join(s->threads[i], NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
}

static int spinners_start(spinners *s, int count)
{
    *s = (spinners){.count = 0};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    while (s->count < count && pthread_create(&s->threads[s->count], NULL, spin, s) == 0)
        s->count++;
    if (s->count == count) return CLI_DONE;
    spinners_stop(s);
    cli_error("bench: cannot start %d threads", count);
    return CLI_FAILED;
}

/* ---- what is measured ------------------------------------------------------------------ */

enum { SEQUENCES = 4, LENGTH = 64, GENERATED = 16, TOKENS = 2000, UNITS = 128, STEPS = 50 };

/* What a timed call works on. */
typedef struct bed {
    fv_ctx *ctx;
    fv_tensor *a, *b, *rows;             /* product, addition */
    fv_tensor *q, *k, *v;                /* attention */
    fv_tensor *gates, *recurrent_weight; /* LSTM */
    fv_params *params;                   /* a small GPT-2 */
    fv_transformer *model;
    fv_optim *optim;
    fv_cache *cache;
    int64_t tokens[SEQUENCES][LENGTH];
    uint64_t step;
    fv_status status; /* first failure */
} bed;

static void keep(bed *b, fv_status status)
{
    if (b->status == FV_OK) b->status = status;
}

static void call_product(void *arg)
{
    bed *b = arg;
    fv_scope_begin(b->ctx);
    fv_matmul(b->ctx, b->a, b->b);
    fv_scope_end(b->ctx);
}

static void call_add(void *arg)
{
    bed *b = arg;
    fv_scope_begin(b->ctx);
    fv_add(b->ctx, b->rows, b->rows);
    fv_scope_end(b->ctx);
}

static void call_attention(void *arg)
{
    bed *b = arg;
    fv_tensor *const leaves[] = {b->q, b->k, b->v};
    fv_scope_begin(b->ctx);
    fv_tensor *y = fv_attend(b->ctx, b->q, b->k, b->v, NULL, NULL, NULL);
    keep(b, fv_backward(b->ctx, fv_sum(b->ctx, y, 0, NULL, false)));
    for (int i = 0; i < CLI_COUNT(leaves) && b->status == FV_OK; i++)
        fv_zero_grad(b->ctx, leaves[i]);
    fv_scope_end(b->ctx);
}

static void call_lstm(void *arg)
{
    bed *b = arg;
    fv_scope_begin(b->ctx);
    fv_tensor *h = fv_lstm(b->ctx, b->gates, b->recurrent_weight, NULL, NULL, false, NULL, NULL);
    keep(b, fv_backward(b->ctx, fv_sum(b->ctx, h, 0, NULL, false)));
    if (b->status == FV_OK) fv_zero_grad(b->ctx, b->recurrent_weight);
    fv_scope_end(b->ctx);
}

static fv_sequences sequences_of(const bed *b, const int64_t **lists, int64_t *lengths)
{
    for (int i = 0; i < SEQUENCES; i++) {
        lists[i] = b->tokens[i];
        lengths[i] = LENGTH;
    }
    return (fv_sequences){.count = SEQUENCES, .tokens = lists, .length = lengths};
}

static void call_train(void *arg)
{
    bed *b = arg;
    const int64_t *lists[SEQUENCES];
    int64_t lengths[SEQUENCES];
    const fv_sequences batch = sequences_of(b, lists, lengths);
    fv_scope_begin(b->ctx);
    fv_ctx_set_step(b->ctx, b->step++, 0);
    fv_tensor *loss =
        fv_transformer_lm_loss(b->ctx, b->model, &batch, &(fv_pass){.training = true});
    keep(b, fv_backward(b->ctx, loss));
    if (b->status == FV_OK) keep(b, fv_optim_step(b->optim, 1e-5, NULL));
    fv_scope_end(b->ctx);
}

static void call_decode(void *arg)
{
    bed *b = arg;
    const int64_t *lists[SEQUENCES];
    int64_t lengths[SEQUENCES];
    fv_sequences prompt = sequences_of(b, lists, lengths);
    prompt.count = 1;
    lengths[0] = 1;
    keep(b, fv_cache_begin(b->cache, &prompt, NULL, GENERATED));
    for (int i = 1; i <= GENERATED && b->status == FV_OK; i++) {
        const int64_t one = 1;
        double item;
        fv_scope_begin(b->ctx);
        fv_tensor *token = fv_from_host(b->ctx, FV_I64, 1, &one, &b->tokens[0][i]);
        fv_tensor *logits = fv_cache_step(b->ctx, b->cache, token);
        keep(b, fv_tensor_item(b->ctx, fv_argmax(b->ctx, logits, -1, false), &item));
        fv_scope_end(b->ctx);
    }
}

static fv_tensor *normal(bed *b, int rank, const int64_t *shape)
{
    return fv_rand_normal(b->ctx, FV_F32, rank, shape, 0, 0.1);
}

static fv_status open_model(bed *b)
{
    fv_transformer_config cfg;
    fv_optim_config adam;
    fv_transformer_config_init(&cfg, sizeof cfg, FV_FAMILY_GPT2);
    fv_optim_config_init(&adam, sizeof adam, FV_OPTIM_ADAMW);
    cfg.vocabulary = TOKENS;
    cfg.decoder_layers = 2;
    cfg.width = 256;
    cfg.heads = cfg.kv_heads = 4;
    cfg.hidden = 1024;
    cfg.max_positions = 2 * LENGTH;
    cfg.dropout = cfg.attention_dropout = 0;
    fv_status status = fv_params_create(b->ctx, &b->params);
    if (status == FV_OK) status = fv_transformer_create(b->params, &cfg, &b->model);
    if (status == FV_OK) status = fv_optim_create(b->params, &adam, &b->optim);
    if (status == FV_OK) status = fv_cache_create(b->model, &b->cache);
    return status;
}

static void close_bed(bed *b)
{
    fv_cache_destroy(&b->cache);
    fv_optim_destroy(&b->optim);
    fv_transformer_destroy(&b->model);
    if (b->params) fv_params_destroy(&b->params);
    if (b->ctx) fv_ctx_destroy(&b->ctx);
}

static int open_bed(const bench_run *run, int threads, bed *b)
{
    *b = (bed){.status = FV_OK};
    const int code = bench_context(run, threads, &b->ctx);
    if (code) return code;
    const int64_t heads[] = {1, 8, 512, 64}, weight[] = {4 * UNITS, UNITS};
    b->a = normal(b, 2, (int64_t[]){512, 512});
    b->b = normal(b, 2, (int64_t[]){512, 512});
    b->rows = normal(b, 2, (int64_t[]){2048, 512});
    b->q = fv_leaf(b->ctx, normal(b, 4, heads));
    b->k = fv_leaf(b->ctx, normal(b, 4, heads));
    b->v = fv_leaf(b->ctx, normal(b, 4, heads));
    b->gates = normal(b, 3, (int64_t[]){STEPS, 1, 4 * UNITS});
    b->recurrent_weight = fv_leaf(b->ctx, normal(b, 2, weight));
    for (int i = 0; i < SEQUENCES * LENGTH; i++)
        b->tokens[i / LENGTH][i % LENGTH] = i * 37 % TOKENS;
    const fv_status status = open_model(b);
    if (status == FV_OK) return CLI_DONE;
    cli_error("bench: %s", fv_ctx_message(b->ctx));
    close_bed(b);
    return cli_exit_code(status);
}

/* ---- measuring ------------------------------------------------------------------------- */

/* Time of one call, over as many as fill `seconds`. */
static double time_slot(void (*call)(void *), bed *b, double seconds)
{
    const double start = cli_now();
    double end = start;
    int64_t calls = 0;
    while (end - start < seconds && b->status == FV_OK) {
        call(b);
        calls++;
        end = cli_now();
    }
    return (end - start) / (double)(calls > 0 ? calls : 1);
}

static int measure(const bench_run *run, bed *b, void (*call)(void *), spinners *others,
                   double seconds[2])
{
    enum { ROUNDS = 9, QUICK_ROUNDS = 3 };
    const int rounds = run->quick ? QUICK_ROUNDS : ROUNDS;
    const double slot = run->quick ? 0.1 : 0.25;
    double times[2][ROUNDS];
    call(b);
    for (int i = 0; i < 2 * rounds && b->status == FV_OK; i++) {
        if (cli_cancelled) return CLI_INTERRUPTED;
        const int on = (i + i / 2) % 2; /* off on, on off, off on ... */
        spinners_set(others, on, false);
        time_slot(call, b, 0.1 * slot); /* the system moves threads between the CPUs */
        times[on][i / 2] = time_slot(call, b, slot);
    }
    spinners_set(others, false, false);
    keep(b, fv_ctx_error(b->ctx));
    if (b->status != FV_OK) {
        cli_error("bench: %s", fv_ctx_message(b->ctx));
        return cli_exit_code(b->status);
    }
    for (int on = 0; on < 2; on++)
        seconds[on] = bench_median(times[on], rounds);
    return CLI_DONE;
}

/* ---- the suite -------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*call)(void *);
} cases[] = {
    {"product", call_product}, {"add", call_add},     {"attention", call_attention},
    {"lstm", call_lstm},       {"train", call_train}, {"decode", call_decode},
};

static int bench_with_threads(bench_run *run, spinners *others, int threads)
{
    static bed b;
    int code = open_bed(run, threads, &b);
    if (code) return code;
    const bench_request ask = {.threads = threads, .level = run->level};
    for (int i = 0; i < 2 * CLI_COUNT(cases) && !code; i++) {
        char name[32];
        const bool yields = i % 2;
        snprintf(name, sizeof name, "%s_%s", cases[i / 2].name, yields ? "yield" : "busy");
        if (!bench_wanted(run, name)) continue;
        double seconds[2] = {NAN, NAN};
        atomic_store(&others->yields, yields);
        code = measure(run, &b, cases[i / 2].call, others, seconds);
        if (code) break;
        bench_line line = bench_line_of("shared", name, &ask, &(bench_result){0});
        bench_line_rate(&line, BENCH_NS, 1, seconds[1], NAN);
        line.of_undisturbed = seconds[0] / seconds[1];
        bench_print(run, &line);
    }
    close_bed(&b);
    return code;
}

int bench_shared(bench_run *run)
{
    enum { MORE_THAN_CPUS = 4, MOST_THREADS = 64 };
    const int more = MORE_THAN_CPUS * run->threads;
    const int counts[] = {1, run->threads, more < MOST_THREADS ? more : MOST_THREADS};
    fv_cpu_info cpu = {.struct_size = sizeof cpu};
    fv_cpu_info_get(&cpu);
    spinners others;
    int code = spinners_start(&others, cpu.cpus < MOST_SPINNERS ? cpu.cpus : MOST_SPINNERS);
    if (code) return code;
    for (int i = 0; i < CLI_COUNT(counts) && !code; i++)
        if (run->threads_given ? i == 1 : i == 0 || counts[i] > counts[i - 1])
            code = bench_with_threads(run, &others, counts[i]);
    spinners_stop(&others);
    return code;
}
