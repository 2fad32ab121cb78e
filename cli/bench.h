/*
 * The timing harness behind `fovea bench`. A suite measures candidates side by side and prints
 * one line for each result:
 *
 *     bench_case cases[] = {{run_ours, &job}, {run_openblas, &job}};
 *     bench_request ask = {.cases = cases, .count = 2, .limit = BENCH_FMA_F32,
 *                          .threads = 1, .level = FV_SIMD_AVX512};
 *     bench_result got;
 *     if (!bench_measure(run, &ask, &got)) return CLI_INTERRUPTED;
 *
 *     bench_line line = bench_line_of("gemm", "plain", &ask, &got);
 *     line.m = m, line.n = n, line.k = k, line.trans = "nn";
 *     bench_line_rate(&line, BENCH_GFLOPS, 2.0 * m * n * k, got.seconds[0], got.limit);
 *     line.vs_openblas = got.seconds[1] / got.seconds[0];
 *     bench_print(run, &line);
 *
 * How a measurement is made. Every candidate gets a slot of a few milliseconds (as many calls
 * as fit), slots are interleaved A B C A B C ..., and each candidate's time is the median over
 * the rounds. A limit (a limit of the machine: multiply-adds, or bytes moved) is
 * taken before and after. If the two differ by more than 5 % the machine was disturbed and all
 * is measured again, a bounded number of times; after that the line says "noisy": true. It says so
 * too if the system preempted the process too often.
 */
#ifndef FOVEA_CLI_BENCH_H
#define FOVEA_CLI_BENCH_H

#include "fovea/context.h"
#include "options.h"

/* Limits of the machine. Rates are in 10^9 per second. */
typedef enum bench_limit {
    BENCH_NO_LIMIT,
    BENCH_FMA_F32, /* flops of register-only multiply-adds */
    BENCH_FMA_F64,
    BENCH_DOT_BF16, /* flops of bf16 dot products (vdpbf16ps, at level amx tdpbf16ps); of f32 where
                       the CPU or the level has none */
    BENCH_READ,     /* bytes read by a sum over an array larger than the caches */
    BENCH_COPY,     /* a = b, counted as 8 bytes per element */
    BENCH_COPY_NT,  /* the same with non-temporal stores */
    BENCH_TRIAD,    /* a = b + s c, counted as 12 bytes per element */
    BENCH_TRIAD_NT, /* the same with non-temporal stores */
    BENCH_LIMIT_COUNT
} bench_limit;

typedef struct bench_buffers bench_buffers; /* arrays the bandwidth limits run over */

/* One `fovea bench` command. */
typedef struct bench_run {
    const char *suite;
    bool json, quick;
    bool long_rows; /* --long: attention over one long sequence instead of the table */
    bool types;     /* --types: attention in each element type, interleaved, instead of the table */
    int threads;    /* maximum: --threads, else all CPUs */
    bool threads_given; /* measure with that number only, not also with one */
    fv_device_kind device;
    fv_simd level;      /* never AUTO: --level, else the best */
    const char *only;   /* --only: comma-separated texts that a row's name must contain, or NULL */
    const char *output; /* --output: a file for a plot, a folder for the work, or NULL */
    const char *plot;   /* --plot: what it shows */
    const char *model;  /* --model, --text: of the tokenizer suite */
    const char *text;
    double (*now)(void); /* the clock in seconds: elapsed time, or with --cpu-time the thread's */
    double slot_seconds; /* minimum time of a candidate in one round */
    int rounds;          /* rounds of one measurement */
    int tries;           /* measurements before a line is called noisy */
    bench_buffers *buffers; /* made on first use */
    int printed;            /* lines so far */
    bool missing_memory;    /* the limit arrays could not be allocated */
} bench_run;

/* ---- suites: each returns an exit code ------------------------------------------ */

int bench_peak(bench_run *run);
int bench_gemm(bench_run *run);
int bench_attention(bench_run *run);
int bench_ops(bench_run *run);
int bench_conv(bench_run *run);
int bench_compare(bench_run *run);
int bench_seq2seq(bench_run *run);
int bench_pointer(bench_run *run);
int bench_model(bench_run *run);
int bench_ntm(bench_run *run);
int bench_tokenizer(bench_run *run);
int bench_shared(bench_run *run);

/* ---- measuring ------------------------------------------------------------------ */

enum { BENCH_MAX_CASES = 8 };

typedef struct bench_case {
    void (*call)(void *arg); /* does the work once */
    void *arg;
    void (*prepare)(void *arg); /* runs before each call, not timed; may be NULL */
} bench_case;

typedef struct bench_request {
    const bench_case *cases; /* the first one is ours */
    int count;
    bench_limit limit;
    int threads;   /* for the limit and the printed line; candidates set their own */
    fv_simd level; /* likewise */
} bench_request;

typedef struct bench_result {
    double seconds[BENCH_MAX_CASES]; /* median time of one call */
    double limit;                    /* mean of before and after; NaN without a limit */
    bool noisy;
} bench_result;

/* Returns false when the user interrupted, or the limit's memory could not be allocated. */
FV_MUST_USE bool bench_measure(bench_run *run, const bench_request *ask, bench_result *out);

/* One reading of a limit in 10^9 per second; NaN if its memory could not be allocated. */
double bench_limit_read(bench_run *run, bench_limit limit, fv_simd level, int threads);

/* Memory for operands, in huge pages where available, as for the limits; NULL if out of memory.
 * Released with free(). */
void *bench_alloc(size_t bytes);

/* Thread counts to measure with: one and all CPUs, or the number of --threads. Returns 1 or 2. */
int bench_thread_counts(const bench_run *run, int counts[2]);

/* A context with the run's level. On failure returns an exit code; the error is already printed. */
int bench_context(const bench_run *run, int threads, fv_ctx **out);

/* True if --only selects a row of that name: the name contains all of its texts. */
bool bench_wanted(const bench_run *run, const char *name);

double bench_thread_seconds(void); /* CPU time of this thread, which other programs do not affect */
double bench_median(double *values, int count); /* sorts them */

/* ---- results -------------------------------------------------------------------- */

typedef enum bench_unit {
    BENCH_GFLOPS,
    BENCH_GBS,
    BENCH_GOPS, /* elements per second, for functions such as exp */
    BENCH_NS,   /* nanoseconds per call; no share */
} bench_unit;

/* Numbers that do not apply are NaN, sizes that do not apply negative; neither is printed. */
typedef struct bench_line {
    const char *bench, *name, *dtype;
    fv_simd level;
    int threads;
    bench_unit unit;
    double rate;  /* in the unit */
    double share; /* of the limit */
    bench_limit limit;
    int64_t m, n, k, batch;
    int64_t d, heads;              /* attention: n queries and keys of width d */
    int causal;                    /* likewise 0 or 1; negative where it does not apply */
    const char *pass;              /* "fwd", "bwd", "decode", "weights", or NULL */
    const char *trans;             /* "nn", "nt", "tn", "tt", or NULL */
    double vs_openblas, vs_onednn; /* our speed over theirs */
    double of_forward;             /* attention weights: their time over the forward pass's */
    double of_f32;                 /* attention's element types: time over that of f32 */
    double of_half;                /* long attention: its time over that of half the length ... */
    double extra_mib;              /* ... and memory beyond inputs, outputs and gradients */
    double of_undisturbed;         /* shared: speed over that without other threads */
    bool noisy;
} bench_line;

/* A line with only the request's level and threads and the result's noise mark. */
bench_line bench_line_of(const char *bench, const char *name, const bench_request *ask,
                         const bench_result *got);

/* Sets rate (and share, where limit is finite) from the work of one call: flops, bytes or elements.
 * BENCH_NS: `work` is the number of items that one call processes, and the rate is nanoseconds per
 * item. */
void bench_line_rate(bench_line *line, bench_unit unit, double work, double seconds, double limit);

/* One JSON object, or one row of the table. */
void bench_print(bench_run *run, const bench_line *line);

/* ---- limit loops ---------------------------------------------------------------- */

/* Work of one thread of a limit: its slice of the arrays, repeated; returns units done (flops or
 * bytes). The register loops ignore the arrays. */
typedef struct bench_slice {
    float *a;
    const float *b, *c;
    int64_t n; /* floats, a multiple of 64 */
    int64_t repeats;
} bench_slice;

typedef double (*bench_limit_fn)(const bench_slice *slice);

/* The limit's loop at a level. */
bench_limit_fn bench_limit_loop(bench_limit limit, fv_simd level);

void bench_buffers_free(bench_run *run);

#endif
