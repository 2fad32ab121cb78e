/* fovea bench attention: which shapes are measured (counted as in bench_attention.h). */
#include "bench_attention.h"

#include <stdio.h>

#include "output.h"

/* Fewer rounds for long sequences, which take seconds, and for --quick, which has many lines. */
enum { HEADS = 8, LONG = 8192, FEW_ROUNDS = 3 };
/* Lengths for --long, without and with --quick. */
enum { LONGEST = 131072, LONGEST_QUICK = 4096 };
/* Length of a KV cache that does not fit in the CPU's caches; a shorter one would measure those. */
enum { PAST_CACHES = 32768 };

/* --types: heads and rounds that keep it below a minute. --quick measures every third length, in
 * less than ten seconds. */
enum { TYPES_HEADS = 2, TYPES_ROUNDS = 7, TYPES_STEP_QUICK = 3 };

/* A group of lines that differ in length, width and mask. */
typedef struct group {
    attention_shape shape;
    bool causal;  /* also measured with the causal rule */
    bool narrow;  /* --quick measures d = 64 only */
    bool alone;   /* only with one thread */
    bool shortly; /* not for long sequences, and with --quick only with one thread */
} group;

static const group groups[] = {
    {.shape = {.name = "fwd", .pass = ATTENTION_FORWARD, .heads = HEADS}, .causal = true},
    {.shape = {.name = "bwd", .pass = ATTENTION_BACKWARD, .heads = HEADS}, .causal = true},
    {.shape = {.name = "bwd", .pass = ATTENTION_BACKWARD, .heads = 1}, .narrow = true},
    {.shape = {.name = "fwd", .pass = ATTENTION_FORWARD, .heads = HEADS, .level = FV_SIMD_AVX2},
     .causal = true,
     .narrow = true,
     .alone = true,
     .shortly = true},
    {.shape = {.name = "bwd", .pass = ATTENTION_BACKWARD, .heads = HEADS, .level = FV_SIMD_AVX2},
     .narrow = true,
     .alone = true,
     .shortly = true},
    {.shape = {.name = "additive fwd",
               .pass = ATTENTION_FORWARD,
               .score = FV_ATTN_SCORE_ADDITIVE,
               .heads = 1},
     .narrow = true,
     .shortly = true},
    {.shape = {.name = "additive bwd",
               .pass = ATTENTION_BACKWARD,
               .score = FV_ATTN_SCORE_ADDITIVE,
               .heads = 1},
     .narrow = true,
     .shortly = true},
    {.shape = {.name = "blocks fwd", .pass = ATTENTION_FORWARD, .heads = HEADS, .blocks = true},
     .narrow = true,
     .shortly = true},
    {.shape = {.name = "blocks bwd", .pass = ATTENTION_BACKWARD, .heads = HEADS, .blocks = true},
     .narrow = true,
     .shortly = true},
    {.shape = {.name = "bf16 fwd", .pass = ATTENTION_FORWARD, .dtype = FV_BF16, .heads = HEADS},
     .causal = true,
     .narrow = true},
    {.shape = {.name = "bf16 bwd", .pass = ATTENTION_BACKWARD, .dtype = FV_BF16, .heads = HEADS},
     .causal = true,
     .narrow = true},
    {.shape = {.name = "bf16 fwd",
               .pass = ATTENTION_FORWARD,
               .dtype = FV_BF16,
               .heads = HEADS,
               .level = FV_SIMD_AVX2},
     .narrow = true,
     .alone = true,
     .shortly = true},
    {.shape = {.name = "bf16 decode", .pass = ATTENTION_DECODE, .dtype = FV_BF16, .heads = HEADS},
     .narrow = true},
    {.shape = {.name = "decode", .pass = ATTENTION_DECODE, .heads = HEADS}},
    {.shape = {.name = "map", .pass = ATTENTION_MAP, .heads = HEADS},
     .narrow = true,
     .shortly = true},
    {.shape = {.name = "top16", .pass = ATTENTION_TOP, .heads = HEADS},
     .narrow = true,
     .shortly = true},
};

/* A group with its own level is measured only if the run's level is higher. */
static bool applies(const bench_run *run, const group *g, int64_t n, int threads)
{
    if (g->shape.level != FV_SIMD_AUTO && g->shape.level >= run->level) return false;
    if ((g->alone || (g->shortly && run->quick)) && threads > 1) return false;
    if (g->shortly && n >= LONG) return false;
    return true;
}

/* --only matches the sizes as well as the name, so that single long lines can be measured. */
static bool line_wanted(const bench_run *run, const attention_shape *s)
{
    char label[128];
    snprintf(label, sizeof label, "%s %s %s n=%lld d=%lld heads=%lld %s", s->name,
             fv_dtype_name(s->dtype), fv_simd_name(s->level), (long long)s->n, (long long)s->d,
             (long long)s->heads, s->causal ? "causal" : "full");
    return bench_wanted(run, label);
}

static int bench_group(bench_run *run, const group *g, int64_t n, fv_pool *pool, int threads)
{
    int code = CLI_DONE;
    for (int64_t d = 64; d <= (run->quick && g->narrow ? 64 : 128); d *= 2)
        for (int causal = 0; causal <= g->causal && code == CLI_DONE; causal++) {
            attention_shape s = g->shape;
            s.n = s.pass == ATTENTION_DECODE && n >= LONG ? PAST_CACHES : n;
            s.d = d;
            s.causal = causal;
            if (s.level == FV_SIMD_AUTO) s.level = run->level;
            if (line_wanted(run, &s)) code = bench_attention_line(run, &s, pool, threads);
        }
    return code;
}

static int bench_length(bench_run *run, int64_t n, fv_pool *pool, int threads)
{
    const int rounds = run->rounds;
    if ((n >= LONG || run->quick) && rounds > FEW_ROUNDS) run->rounds = FEW_ROUNDS;
    int code = CLI_DONE;
    for (int i = 0; i < CLI_COUNT(groups) && code == CLI_DONE; i++)
        if (applies(run, &groups[i], n, threads))
            code = bench_group(run, &groups[i], n, pool, threads);
    run->rounds = rounds;
    return code;
}

/* One head of width 64; half the length first, so that the line can print the ratio. */
static int bench_long(bench_run *run, fv_pool *pool, int threads)
{
    attention_shape s = {
        .name = "long bwd", .pass = ATTENTION_BACKWARD, .d = 64, .heads = 1, .level = run->level};
    attention_once half, whole;
    s.n = (run->quick ? LONGEST_QUICK : LONGEST) / 2;
    int code = bench_attention_once(run, &s, pool, threads, &half);
    s.n *= 2;
    if (code == CLI_DONE) code = bench_attention_once(run, &s, pool, threads, &whole);
    if (code != CLI_DONE) return code;
    attention_shape forward = s;
    forward.name = "long fwd";
    forward.pass = ATTENTION_FORWARD;
    bench_attention_long_line(run, &forward, threads, &whole, &half);
    bench_attention_long_line(run, &s, threads, &whole, &half);
    return CLI_DONE;
}

/* One pass at one level: short sequences, long ones, and a few queries over many keys. */
static int bench_types_of(bench_run *run, attention_shape s, fv_pool *pool, int threads)
{
    static const int64_t lengths[] = {1, 4, 8, 9, 16, 32, 64, 128, 512, 2048};
    static const int64_t few[] = {8, 9, 16, 32};
    enum { KEYS = 16384 };
    const int step = run->quick ? TYPES_STEP_QUICK : 1;
    int code = CLI_DONE;
    for (int i = 0; i < CLI_COUNT(lengths) && code == CLI_DONE; i += step) {
        s.n = lengths[i];
        if (line_wanted(run, &s)) code = bench_attention_types(run, &s, pool, threads);
    }
    if (s.pass != ATTENTION_FORWARD) return code;
    static const char *const names[] = {"8 queries", "9 queries", "16 queries", "32 queries"};
    for (int i = 0; i < CLI_COUNT(few) && code == CLI_DONE; i += step) {
        s.name = names[i];
        s.n = KEYS;
        s.queries = few[i];
        if (line_wanted(run, &s)) code = bench_attention_types(run, &s, pool, threads);
    }
    return code;
}

static int bench_types(bench_run *run, fv_pool *pool, int threads)
{
    attention_shape s = {.d = 64, .heads = TYPES_HEADS};
    int code = CLI_DONE;
    const int rounds = run->quick ? FEW_ROUNDS : TYPES_ROUNDS;
    if (run->rounds > rounds) run->rounds = rounds;
    for (int level = FV_SIMD_AVX2; level <= (int)run->level && code == CLI_DONE; level++) {
        s.level = (fv_simd)level;
        s.name = "fwd";
        s.pass = ATTENTION_FORWARD;
        code = bench_types_of(run, s, pool, threads);
        s.name = "bwd";
        s.pass = ATTENTION_BACKWARD;
        if (code == CLI_DONE) code = bench_types_of(run, s, pool, threads);
    }
    return code;
}

int bench_attention(bench_run *run)
{
    static const int64_t lengths[] = {2048, 512, LONG}; /* the first is what --quick measures */
    int counts[2] = {run->threads}, code = CLI_DONE;
    const bool table = !run->long_rows && !run->types;
    if (run->types && !run->threads_given) counts[0] = 1;
    const int times = table ? bench_thread_counts(run, counts) : 1;
    for (int t = 0; t < times && code == CLI_DONE; t++) {
        fv_pool *pool = NULL;
        if (counts[t] > 1 && fv_pool_create(counts[t], &pool) != FV_OK) {
            cli_error("bench: cannot start %d threads", counts[t]);
            return CLI_FAILED;
        }
        const int all = !table ? 0 : run->quick ? 1 : CLI_COUNT(lengths);
        if (run->types) code = bench_types(run, pool, counts[t]);
        if (run->long_rows && code == CLI_DONE) code = bench_long(run, pool, counts[t]);
        for (int i = 0; i < all && code == CLI_DONE; i++)
            code = bench_length(run, lengths[i], pool, counts[t]);
        fv_pool_destroy(&pool);
    }
    return code;
}
