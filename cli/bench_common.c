#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "output.h"

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

int bench_thread_counts(const bench_run *run, int counts[2])
{
    int count = 0;
    if (!run->threads_given && run->threads > 1) counts[count++] = 1;
    counts[count++] = run->threads;
    return count;
}

bool bench_wanted(const bench_run *run, const char *name)
{
    char word[64];
    for (const char *at = run->only; at && *at;) {
        const size_t length = strcspn(at, ",");
        if (length >= sizeof word) return false; /* no row has such a name */
        memcpy(word, at, length);
        word[length] = 0;
        if (!strstr(name, word)) return false;
        at += length + (at[length] == ',');
    }
    return true;
}

int bench_context(const bench_run *run, int threads, fv_ctx **out)
{
    fv_ctx_config config;
    fv_ctx_config_init(&config, sizeof config);
    config.threads = threads;
    config.simd = run->level;
    config.device = run->device;
    const fv_status status = fv_ctx_create(&config, out);
    if (status == FV_OK) return CLI_DONE;
    cli_error("bench: cannot create a context: %s", fv_status_name(status));
    return cli_exit_code(status);
}

/* ---- measuring ------------------------------------------------------------------ */

enum { MAX_ROUNDS = 64 };

double bench_thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double time_prepared(const bench_run *run, const bench_case *candidate, int64_t calls)
{
    double sum = 0;
    for (int64_t i = 0; i < calls; i++) {
        candidate->prepare(candidate->arg);
        double start = run->now();
        candidate->call(candidate->arg);
        sum += run->now() - start;
    }
    return sum;
}

static double time_calls(const bench_run *run, const bench_case *candidate, int64_t calls)
{
    if (candidate->prepare) return time_prepared(run, candidate, calls);
    double start = run->now();
    for (int64_t i = 0; i < calls; i++)
        candidate->call(candidate->arg);
    return run->now() - start;
}

/* How many calls fill a slot. The first call warms caches, pages and branch predictors. */
static int64_t calls_in_slot(const bench_run *run, const bench_case *candidate)
{
    enum { MOST = 1 << 24 };
    time_calls(run, candidate, 1);
    int64_t calls = 1;
    while (calls < MOST) {
        double took = time_calls(run, candidate, calls);
        if (took >= run->slot_seconds) break;
        double wanted = 1.2 * run->slot_seconds / (took > 1e-9 ? took : 1e-9);
        double grown = (double)calls * (wanted < 8 ? wanted : 8);
        calls = (int64_t)ceil(grown > (double)calls + 1 ? grown : (double)calls + 1);
    }
    return calls;
}

/* How often the system preempted this process. */
static long preemptions(void)
{
    struct rusage use;
    return getrusage(RUSAGE_SELF, &use) == 0 ? use.ru_nivcsw : 0;
}

/* A peer's idle threads spin for about 25 ms (OpenBLAS) and would take a CPU from the next
 * candidate: wait until they sleep. */
static void settle(const bench_request *ask)
{
    if (ask->count < 2 || ask->threads < 2) return;
    nanosleep(&(struct timespec){.tv_nsec = 40 * 1000 * 1000}, NULL);
}

/* Medians of one measurement; false when interrupted. It is noisy if other programs took more
 * than a twentieth of a slot (about a millisecond each time) in more than a quarter of them. */
static bool measure_once(const bench_run *run, const bench_request *ask, const int64_t *calls,
                         bench_result *out)
{
    double times[BENCH_MAX_CASES][MAX_ROUNDS];
    int rounds = run->rounds < MAX_ROUNDS ? run->rounds : MAX_ROUNDS, disturbed = 0;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < ask->count; i++) {
            if (cli_cancelled) return false;
            settle(ask);
            if (ask->threads > 1) time_calls(run, &ask->cases[i], 1); /* wakes its threads */
            long before = preemptions();
            double took = time_calls(run, &ask->cases[i], calls[i]);
            if (1e-3 * (double)(preemptions() - before) > 0.05 * took) disturbed++;
            times[i][round] = took / (double)calls[i];
        }
    }
    for (int i = 0; i < ask->count; i++)
        out->seconds[i] = bench_median(times[i], rounds);
    out->noisy = 4 * disturbed > rounds * ask->count;
    return true;
}

bool bench_measure(bench_run *run, const bench_request *ask, bench_result *out)
{
    enum { AGREE_PERCENT = 5 };
    int64_t calls[BENCH_MAX_CASES];
    for (int i = 0; i < ask->count; i++) {
        if (cli_cancelled) return false;
        calls[i] = calls_in_slot(run, &ask->cases[i]);
    }
    /* A measurement without its own limit still uses the shared one to detect noise. */
    bench_limit limit = ask->limit == BENCH_NO_LIMIT ? BENCH_FMA_F32 : ask->limit;
    settle(ask);
    double before = bench_limit_read(run, limit, ask->level, ask->threads);
    for (int attempt = 0; attempt < run->tries; attempt++) {
        if (!measure_once(run, ask, calls, out)) return false;
        settle(ask);
        double after = bench_limit_read(run, limit, ask->level, ask->threads);
        if (!isfinite(before) || !isfinite(after)) return false;
        out->limit = ask->limit == BENCH_NO_LIMIT ? (double)NAN : 0.5 * (before + after);
        if (fabs(before - after) * 100 > AGREE_PERCENT * fmax(before, after)) out->noisy = true;
        if (!out->noisy) break;
        before = after;
    }
    return true;
}

/* ---- results -------------------------------------------------------------------- */

bench_line bench_line_of(const char *bench, const char *name, const bench_request *ask,
                         const bench_result *got)
{
    bench_line line = {.bench = bench,
                       .name = name,
                       .dtype = "f32",
                       .level = ask->level,
                       .threads = ask->threads,
                       .rate = NAN,
                       .share = NAN,
                       .limit = ask->limit,
                       .m = -1,
                       .n = -1,
                       .k = -1,
                       .batch = -1,
                       .d = -1,
                       .heads = -1,
                       .causal = -1,
                       .vs_openblas = NAN,
                       .vs_onednn = NAN,
                       .of_forward = NAN,
                       .of_f32 = NAN,
                       .of_half = NAN,
                       .extra_mib = NAN,
                       .of_undisturbed = NAN,
                       .noisy = got->noisy};
    return line;
}

void bench_line_rate(bench_line *line, bench_unit unit, double work, double seconds, double limit)
{
    line->unit = unit;
    if (unit == BENCH_NS) {
        line->rate = 1e9 * seconds / work;
        return;
    }
    line->rate = 1e-9 * work / seconds;
    if (isfinite(limit)) line->share = line->rate / limit;
}

static const char *const unit_keys[] = {"gflops", "gbs", "gops", "ns"};
static const char *const limit_names[BENCH_LIMIT_COUNT] = {
    "", "fma", "fma", "dot", "read", "copy", "copy_nt", "triad", "triad_nt"};
static const char *const unit_names[] = {"GFLOP/s", "GB/s", "G/s", "ns"};

static void print_json(const bench_line *line)
{
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{"m", line->m},         {"n", line->n}, {"k", line->k},
                 {"batch", line->batch}, {"d", line->d}, {"heads", line->heads}};
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "bench", line->bench);
    cli_json_text(&j, "name", line->name);
    cli_json_text(&j, "dtype", line->dtype);
    cli_json_text(&j, "level", fv_simd_name(line->level));
    cli_json_int(&j, "threads", line->threads);
    for (int i = 0; i < CLI_COUNT(sizes); i++)
        if (sizes[i].value >= 0) cli_json_int(&j, sizes[i].key, sizes[i].value);
    if (line->trans) cli_json_text(&j, "trans", line->trans);
    if (line->pass) cli_json_text(&j, "pass", line->pass);
    if (line->causal >= 0) cli_json_bool(&j, "causal", line->causal > 0);
    cli_json_real(&j, unit_keys[line->unit], line->rate);
    if (isfinite(line->share)) {
        cli_json_real(&j, "share", line->share);
        cli_json_text(&j, "of", limit_names[line->limit]);
    }
    if (isfinite(line->vs_openblas)) cli_json_real(&j, "vs_openblas", line->vs_openblas);
    if (isfinite(line->vs_onednn)) cli_json_real(&j, "vs_onednn", line->vs_onednn);
    if (isfinite(line->of_forward)) cli_json_real(&j, "of_forward", line->of_forward);
    if (isfinite(line->of_f32)) cli_json_real(&j, "of_f32", line->of_f32);
    if (isfinite(line->of_half)) cli_json_real(&j, "of_half", line->of_half);
    if (isfinite(line->extra_mib)) cli_json_real(&j, "extra_mib", line->extra_mib);
    if (isfinite(line->of_undisturbed)) cli_json_real(&j, "of_undisturbed", line->of_undisturbed);
    cli_json_bool(&j, "noisy", line->noisy);
    cli_json_close(&j, '}');
}

static void shape_text(const bench_line *line, char *out, size_t bytes)
{
    char batch[32] = "", k[32] = "";
    out[0] = '\0';
    if (line->pass)
        cli_format(out, bytes, "%lld x %lldx%lld%s", (long long)line->heads, (long long)line->n,
                   (long long)line->d, line->causal > 0 ? " causal" : "");
    if (line->m < 0) return;
    if (line->batch > 1) cli_format(batch, sizeof batch, "%lld x ", (long long)line->batch);
    if (line->k >= 0) cli_format(k, sizeof k, "x%lld", (long long)line->k);
    cli_format(out, bytes, "%s%lldx%lld%s%s%s", batch, (long long)line->m, (long long)line->n, k,
               line->trans ? " " : "", line->trans ? line->trans : "");
}

static void print_ratio(double ratio)
{
    if (isfinite(ratio))
        printf(" %9.2fx", ratio);
    else
        printf(" %10s", "");
}

/* A person reads 275 ms, not 274690228 ns. */
static void rate_text(const bench_line *line, char *text, size_t bytes)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double rate = line->rate;
    const char *unit = unit_names[line->unit];
    for (int i = 0; line->unit == BENCH_NS && i < 3 && rate >= 10000; i++) {
        rate /= 1000;
        unit = units[i + 1];
    }
    cli_format(text, bytes, rate >= 1000 ? "%.0f %s" : "%.2f %s", rate, unit);
}

static void print_row(const bench_run *run, const bench_line *line)
{
    char shape[96], rate[48] = "", share[16] = "";
    if (run->printed == 0) {
        char head[128];
        cli_format(head, sizeof head, "%-16s %-5s %-7s %7s  %-22s %16s %6s %10s %10s", "name",
                   "dtype", "level", "threads", "shape", "rate", "share", "openblas", "onednn");
        cli_styled(stdout, CLI_BOLD, head, 0);
        fputc('\n', stdout);
    }
    shape_text(line, shape, sizeof shape);
    if (isfinite(line->rate)) rate_text(line, rate, sizeof rate);
    if (isfinite(line->share)) cli_format(share, sizeof share, "%.1f%%", 100 * line->share);
    printf("%-16s %-5s %-7s %7d  %-22s %16s %6s", line->name, line->dtype,
           fv_simd_name(line->level), line->threads, shape, rate, share);
    print_ratio(line->vs_openblas);
    print_ratio(line->vs_onednn);
    if (isfinite(line->of_forward)) printf("  %.2f of forward", line->of_forward);
    if (isfinite(line->of_f32)) printf("  %.3f of f32's time", line->of_f32);
    if (isfinite(line->extra_mib)) printf("  %.1f MiB more", line->extra_mib);
    if (isfinite(line->of_half)) printf(", %.2f of half the length", line->of_half);
    if (isfinite(line->of_undisturbed))
        printf("  %.2f of the undisturbed speed", line->of_undisturbed);
    if (line->noisy) {
        fputs("  ", stdout);
        cli_styled(stdout, CLI_YELLOW, "noisy", 0);
    }
    fputc('\n', stdout);
}

void bench_print(bench_run *run, const bench_line *line)
{
    if (run->json)
        print_json(line);
    else
        print_row(run, line);
    /* Flushed, so that a long run can be followed through a pipe; a closed pipe ends it. */
    if (fflush(stdout) != 0) cli_cancelled = 1;
    run->printed++;
}
