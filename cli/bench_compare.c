/*
 * fovea bench compare: convolution, recurrence and self-attention over sequences of n vectors.
 *
 * For each layer and each n: multiply-adds, counted from the shapes of the products that run; the
 * longest chain of products that depend on each other; the path between the first and the last
 * position, in such layers or steps; and measured time and memory.
 *
 * How far one layer carries information is not assumed but measured: with NaN as the first input
 * vector, exactly the outputs that depend on it are NaN.
 */
#include <math.h>
#include <stdlib.h>

#include "bench.h"
#include "fovea/attention.h"
#include "fovea/autograd.h"
#include "fovea/look.h"
#include "fovea/ops.h"
#include "output.h"

enum { WIDTH = 64, KERNEL = 3, WINDOW = 64, LAYERS = 6, MAX_LENGTHS = 7, MAX_DEPTH = 16 };

/* The work of one layer. */
typedef struct ledger {
    double products; /* multiply-adds */
    int64_t chain;   /* products one after the other */
} ledger;

typedef struct lab {
    fv_ctx *ctx;
    int64_t n;
    fv_tensor *x;                  /* [1, n, d] */
    fv_tensor *qkv, *out;          /* [3d, d], [d, d] */
    fv_tensor *x_gates, *h_weight; /* [3d, d] each */
    fv_tensor *taps[MAX_DEPTH];    /* [d, d, k] */
} lab;

/* ---- products, counted ----------------------------------------------------------- */

static fv_tensor *count(ledger *l, fv_tensor *result, double products, int64_t chain)
{
    l->products += products;
    l->chain += chain;
    return result;
}

static fv_tensor *linear(lab *b, ledger *l, fv_tensor *x, fv_tensor *weight)
{
    fv_tensor *y = fv_linear(b->ctx, x, weight, NULL);
    return count(l, y, (double)fv_tensor_count(y) * (double)fv_tensor_size(weight, 1), 1);
}

static fv_tensor *matmul(lab *b, ledger *l, fv_tensor *x, fv_tensor *y)
{
    fv_tensor *z = fv_matmul(b->ctx, x, y);
    return count(l, z, (double)fv_tensor_count(z) * (double)fv_tensor_size(x, -1), 1);
}

static fv_tensor *convolve(lab *b, ledger *l, fv_tensor *x, int layer, int64_t dilation)
{
    fv_tensor *y = fv_conv1d_causal(b->ctx, x, b->taps[layer], NULL, dilation);
    const double taps =
        (double)(fv_tensor_size(b->taps[layer], 1) * fv_tensor_size(b->taps[layer], 2));
    return count(l, y, (double)fv_tensor_count(y) * taps, 1);
}

/* ---- layers: [1, n, d] -> [1, n, d] ----------------------------------------------- */

static fv_tensor *swap_steps_and_width(lab *b, fv_tensor *x)
{
    return fv_transpose(b->ctx, x, 1, 2);
}

static fv_tensor *convolution(lab *b, fv_tensor *x, ledger *l)
{
    return swap_steps_and_width(b, convolve(b, l, swap_steps_and_width(b, x), 0, 1));
}

/* As many layers as it takes to cover the sequence, each with KERNEL times the dilation of the one
 * before. */
static fv_tensor *dilated(lab *b, fv_tensor *x, ledger *l)
{
    fv_tensor *y = swap_steps_and_width(b, x);
    int64_t seen = 1;
    for (int i = 0; seen < b->n && i < MAX_DEPTH; i++, seen *= KERNEL)
        y = convolve(b, l, y, i, seen);
    return swap_steps_and_width(b, y);
}

static fv_tensor *recurrent(lab *b, fv_tensor *x, ledger *l)
{
    fv_tensor *gates = linear(b, l, fv_transpose(b->ctx, x, 0, 1), b->x_gates);
    fv_tensor *h = fv_gru(b->ctx, gates, b->h_weight, NULL, NULL, false, NULL);
    const double step =
        (double)fv_tensor_size(b->h_weight, 0) * (double)fv_tensor_size(b->h_weight, 1);
    count(l, h, (double)fv_tensor_size(h, 0) * step, fv_tensor_size(h, 0));
    return fv_transpose(b->ctx, h, 0, 1);
}

static void project(lab *b, fv_tensor *x, ledger *l, fv_tensor *parts[3])
{
    fv_tensor *all = fv_reshape(b->ctx, linear(b, l, x, b->qkv), 4, (int64_t[]){1, 1, b->n, -1});
    fv_split(b->ctx, all, -1, 3, (int64_t[]){WIDTH, WIDTH, WIDTH}, parts);
}

static fv_tensor *finish(lab *b, ledger *l, fv_tensor *context)
{
    return linear(b, l, fv_reshape(b->ctx, context, 3, (int64_t[]){1, b->n, WIDTH}), b->out);
}

/* Pairs (i, j) with |i - j| <= reach. */
static double pairs_within(int64_t n, int64_t reach)
{
    double pairs = 0;
    for (int64_t i = 0; i < n; i++)
        pairs += (double)((i < reach ? i : reach) + 1 + (n - 1 - i < reach ? n - 1 - i : reach));
    return pairs;
}

static fv_tensor *attend_within(lab *b, fv_tensor *x, ledger *l, int64_t reach)
{
    fv_tensor *part[3];
    fv_attention_rule rule;
    fv_attention_rule_init(&rule);
    rule.left = rule.right = reach;
    project(b, x, l, part);
    fv_tensor *context = fv_attend(b->ctx, part[0], part[1], part[2], &rule, NULL, NULL);
    const double pairs = pairs_within(b->n, reach < 0 ? b->n : reach);
    count(l, context, pairs * 2 * (double)fv_tensor_size(context, -1), 2);
    return finish(b, l, context);
}

static fv_tensor *self_attention(lab *b, fv_tensor *x, ledger *l)
{
    return attend_within(b, x, l, -1);
}

static fv_tensor *local_attention(lab *b, fv_tensor *x, ledger *l)
{
    return attend_within(b, x, l, WINDOW);
}

/* The weights exist as a matrix, as in the formula. */
static fv_tensor *plain_attention(lab *b, fv_tensor *x, ledger *l)
{
    fv_tensor *part[3];
    project(b, x, l, part);
    fv_tensor *scores = matmul(b, l, part[0], fv_transpose(b->ctx, part[1], -1, -2));
    fv_tensor *weights = fv_softmax(b->ctx, fv_scale(b->ctx, scores, 1 / sqrt(WIDTH)), -1);
    return finish(b, l, matmul(b, l, weights, part[2]));
}

typedef enum hop { HOP_LAYER, HOP_CHAIN, HOP_STEP } hop;

static const struct layer {
    const char *name;
    fv_tensor *(*run)(lab *b, fv_tensor *x, ledger *l);
    hop hop; /* one layer is one hop, or as many as its chain is long, or one for each position */
} layers[LAYERS] = {
    {"convolution", convolution, HOP_LAYER},
    {"dilated", dilated, HOP_CHAIN},
    {"recurrent", recurrent, HOP_STEP},
    {"attention", self_attention, HOP_LAYER},
    {"plain attention", plain_attention, HOP_LAYER},
    {"local attention", local_attention, HOP_LAYER},
};

/* ---- measuring ------------------------------------------------------------------- */

typedef struct finding {
    double products, seconds, bytes;
    int64_t chain, path;
    bool noisy;
} finding;

typedef struct job {
    lab *b;
    int layer;
} job;

static void run_job(void *arg)
{
    const job *j = arg;
    ledger unused = {0};
    fv_scope_begin(j->b->ctx);
    layers[j->layer].run(j->b, j->b->x, &unused);
    fv_scope_end(j->b->ctx);
}

/* The farthest position that the first one reaches through one layer. */
static fv_status measure_reach(lab *b, int layer, float *row, int64_t *reach)
{
    const size_t bytes = (size_t)b->n * WIDTH * sizeof *row;
    fv_status status = fv_tensor_read(b->ctx, b->x, row, bytes);
    for (int c = 0; c < WIDTH; c++)
        row[c] = NAN;
    fv_tensor *x = fv_from_host(b->ctx, FV_F32, 3, (int64_t[]){1, b->n, WIDTH}, row);
    ledger unused = {0};
    fv_tensor *y = layers[layer].run(b, x, &unused);
    if (status == FV_OK) status = fv_tensor_read(b->ctx, y, row, bytes);
    *reach = 0;
    for (int64_t i = 1; status == FV_OK && i < b->n; i++)
        if (isnan(row[i * WIDTH])) *reach = i;
    return status;
}

/* What can be counted: products, chain, path, memory. */
static fv_status examine(lab *b, int layer, float *room, finding *out)
{
    fv_memory_stats before, after;
    ledger l = {0};
    int64_t reach = 0;
    fv_scope_begin(b->ctx);
    fv_ctx_memory(b->ctx, &before);
    fv_ctx_memory_reset_peak(b->ctx);
    layers[layer].run(b, b->x, &l);
    fv_ctx_memory(b->ctx, &after);
    fv_status status = measure_reach(b, layer, room, &reach);
    fv_scope_end(b->ctx);
    if (status != FV_OK) return status;
    const int64_t apart = b->n - 1, stacked = reach > 0 ? (apart + reach - 1) / reach : 0;
    const int64_t hops = layers[layer].hop == HOP_LAYER   ? 1
                         : layers[layer].hop == HOP_CHAIN ? l.chain
                                                          : apart;
    *out = (finding){.products = l.products,
                     .bytes = (double)(after.peak_bytes - before.used_bytes),
                     .chain = l.chain,
                     .path = stacked * hops};
    return FV_OK;
}

static fv_tensor *weight(fv_ctx *ctx, int rank, const int64_t *shape, double fan_in)
{
    return fv_rand_normal(ctx, FV_F32, rank, shape, 0, 1 / sqrt(fan_in));
}

static void make_lab(lab *b, fv_ctx *ctx, int64_t n)
{
    *b = (lab){.ctx = ctx, .n = n};
    b->x = weight(ctx, 3, (int64_t[]){1, n, WIDTH}, 1);
    b->qkv = weight(ctx, 2, (int64_t[]){3 * WIDTH, WIDTH}, WIDTH);
    b->out = weight(ctx, 2, (int64_t[]){WIDTH, WIDTH}, WIDTH);
    b->x_gates = weight(ctx, 2, (int64_t[]){3 * WIDTH, WIDTH}, WIDTH);
    b->h_weight = weight(ctx, 2, (int64_t[]){3 * WIDTH, WIDTH}, WIDTH);
    for (int i = 0; i < MAX_DEPTH; i++)
        b->taps[i] = weight(ctx, 3, (int64_t[]){WIDTH, WIDTH, KERNEL}, WIDTH * KERNEL);
}

/* All layers at one length; false with the exit code in *code. */
static bool compare_length(bench_run *run, fv_ctx *ctx, int64_t n, finding found[LAYERS], int *code)
{
    lab b;
    job jobs[LAYERS];
    bench_case cases[LAYERS];
    bench_result got;
    fv_status status = FV_OK;
    float *room = malloc((size_t)n * WIDTH * sizeof *room);
    fv_scope_begin(ctx);
    make_lab(&b, ctx, n);
    for (int i = 0; i < LAYERS && room && status == FV_OK; i++) {
        status = examine(&b, i, room, &found[i]);
        jobs[i] = (job){&b, i};
        cases[i] = (bench_case){.call = run_job, .arg = &jobs[i]};
    }
    free(room);
    const bench_request ask = {.cases = cases,
                               .count = LAYERS,
                               .limit = BENCH_FMA_F32,
                               .threads = run->threads,
                               .level = run->level};
    const bool counted = room && status == FV_OK;
    const bool measured = counted && bench_measure(run, &ask, &got);
    for (int i = 0; measured && i < LAYERS; i++) {
        found[i].seconds = got.seconds[i];
        found[i].noisy = got.noisy;
    }
    fv_scope_end(ctx);
    if (!room) cli_error("bench: out of memory");
    if (room && !counted) cli_error("bench: %s", fv_ctx_message(ctx));
    *code = counted ? CLI_INTERRUPTED : CLI_FAILED;
    return measured;
}

/* ---- printing -------------------------------------------------------------------- */

static void print_json(const bench_run *run, int layer, int64_t n, const finding *f)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "bench", "compare");
    cli_json_text(&j, "name", layers[layer].name);
    cli_json_text(&j, "dtype", "f32");
    cli_json_text(&j, "level", fv_simd_name(run->level));
    cli_json_int(&j, "threads", run->threads);
    cli_json_int(&j, "n", n);
    cli_json_int(&j, "d", WIDTH);
    cli_json_int(&j, "products", (int64_t)f->products);
    cli_json_int(&j, "chain", f->chain);
    cli_json_int(&j, "path", f->path);
    cli_json_real(&j, "ms", 1e3 * f->seconds);
    cli_json_int(&j, "bytes", (int64_t)f->bytes);
    cli_json_bool(&j, "noisy", f->noisy);
    cli_json_close(&j, '}');
}

static void print_rows(bench_run *run, int64_t n, const finding found[LAYERS])
{
    if (run->printed == 0 && !run->json) {
        char head[128];
        cli_format(head, sizeof head, "%6s  %-16s %16s %7s %7s %10s %10s", "n", "layer",
                   "multiply-adds", "chain", "path", "ms", "memory");
        cli_styled(stdout, CLI_BOLD, head, 0);
        fputc('\n', stdout);
    }
    for (int i = 0; i < LAYERS; i++, run->printed++) {
        char bytes[24];
        if (run->json) {
            print_json(run, i, n, &found[i]);
            continue;
        }
        cli_bytes_text(bytes, (uint64_t)found[i].bytes);
        printf("%6lld  %-16s %16.0f %7lld %7lld %10.3f %10s%s\n", (long long)n, layers[i].name,
               found[i].products, (long long)found[i].chain, (long long)found[i].path,
               1e3 * found[i].seconds, bytes, found[i].noisy ? "  noisy" : "");
    }
    if (fflush(stdout) != 0) cli_cancelled = 1;
}

/* The exponent p in n^p between the last two lengths, whose ratio is known. */
static double growth(double before, double after, double ratio)
{
    return log(after / before) / log(ratio);
}

static void print_growth(const int64_t *n, finding (*found)[LAYERS], int lengths)
{
    if (lengths < 2) return;
    const finding *a = found[lengths - 2], *b = found[lengths - 1];
    const double ratio = (double)n[lengths - 1] / (double)n[lengths - 2];
    printf("\nFrom n = %lld to %lld each grows as n to the power of:\n", (long long)n[lengths - 2],
           (long long)n[lengths - 1]);
    for (int i = 0; i < LAYERS; i++)
        printf("        %-16s %16.2f %7.2f %7.2f %10.2f %10.2f\n", layers[i].name,
               growth(a[i].products, b[i].products, ratio),
               growth((double)a[i].chain, (double)b[i].chain, ratio),
               growth((double)a[i].path, (double)b[i].path, ratio),
               growth(a[i].seconds, b[i].seconds, ratio), growth(a[i].bytes, b[i].bytes, ratio));
}

/* ---- drawing --------------------------------------------------------------------- */

static double quantity(const finding *f, const char *name)
{
    switch (name[0]) {
    case 'm':
        return f->bytes / 1048576;
    case 'o':
        return f->products * 1e-6;
    case 'p':
        return (double)f->path;
    default:
        return 1e3 * f->seconds;
    }
}

static fv_status draw(fv_ctx *ctx, const bench_run *run, fv_look_format form, const int64_t *n,
                      finding (*found)[LAYERS], int lengths)
{
    static const struct {
        const char *name, *title, *axis;
    } plots[] = {{"time", "Time of one layer", "milliseconds"},
                 {"memory", "Memory beyond input and weights", "MiB"},
                 {"operations", "Operations of one layer", "million multiply-adds"},
                 {"path", "Path from the first to the last position", "layers or steps"}};
    double x[MAX_LENGTHS], y[LAYERS][MAX_LENGTHS];
    fv_look_series series[LAYERS];
    fv_look_plot plot = {.series = series, .series_count = LAYERS};
    for (int i = 0; i < CLI_COUNT(plots); i++)
        if (plots[i].name[0] == run->plot[0]) {
            plot.title = plots[i].title;
            plot.y = (fv_look_axis){.title = plots[i].axis, .scale = FV_AXIS_LOG10};
        }
    plot.x = (fv_look_axis){.title = "sequence length n (width 64)", .scale = FV_AXIS_LOG2};
    for (int t = 0; t < lengths; t++) {
        x[t] = (double)n[t];
        for (int i = 0; i < LAYERS; i++)
            y[i][t] = quantity(&found[t][i], run->plot);
    }
    for (int i = 0; i < LAYERS; i++)
        series[i] = (fv_look_series){.name = layers[i].name,
                                     .x = x,
                                     .y = y[i],
                                     .count = lengths,
                                     .dashed = layers[i].run == plain_attention};
    fv_picture *picture = NULL;
    fv_status status = fv_look_plot_draw(ctx, &plot, form, &picture);
    if (status == FV_OK) status = fv_picture_save(picture, run->output);
    fv_picture_free(&picture);
    return status;
}

static int compare(bench_run *run, fv_ctx *ctx, fv_look_format form)
{
    static const int64_t all[MAX_LENGTHS] = {64, 128, 256, 512, 1024, 2048, 4096};
    static finding found[MAX_LENGTHS][LAYERS];
    const int lengths = run->quick ? 3 : MAX_LENGTHS;
    int code = CLI_DONE;
    for (int i = 0; i < lengths; i++) {
        if (!compare_length(run, ctx, all[i], found[i], &code)) return code;
        print_rows(run, all[i], found[i]);
    }
    if (!run->json) print_growth(all, found, lengths);
    if (!run->output) return CLI_DONE;
    const fv_status status = draw(ctx, run, form, all, found, lengths);
    if (status != FV_OK) cli_error("%s", fv_ctx_message(ctx));
    return cli_exit_code(status);
}

int bench_compare(bench_run *run)
{
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = run->threads;
    cfg.simd = run->level;
    cfg.cancel = &cli_cancelled;
    fv_ctx *ctx = NULL;
    const fv_status status = fv_ctx_create(&cfg, &ctx);
    if (status != FV_OK) {
        cli_error("bench: cannot start: %s", fv_status_name(status));
        return cli_exit_code(status);
    }
    fv_look_format form = FV_LOOK_FORMAT_SVG;
    int code = CLI_USAGE;
    fv_no_grad_begin(ctx);
    if (run->output && fv_look_format_from_path(ctx, run->output, &form) != FV_OK)
        cli_error("%s", fv_ctx_message(ctx));
    else
        code = compare(run, ctx, form);
    fv_no_grad_end(ctx);
    fv_ctx_destroy(&ctx);
    return code;
}
