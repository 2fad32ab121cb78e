/*
 * fovea bench model: GPT-2 of 124 million parameters, random weights. One pass over 512 tokens with
 * all logits; one token at a time with weights of three types; training steps; from a folder to the
 * first token; memory. Rates of passes and steps count the multiply-adds of matrices and attention;
 * their share is relative to the f32 multiply-adds this machine can do, also in bf16. Rates of
 * single tokens count the bytes of the weights; their share is relative to the memory bandwidth.
 *
 * With --output FOLDER the model stays there, so that other programs can do the same work
 * (bench/peers/bench_torch_gpt2.py); otherwise the cold start writes one to the system's temporary
 * folder and removes it.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "folder.h"
#include "fovea/autograd.h"
#include "fovea/file.h"
#include "fovea/generate.h"
#include "fovea/ops.h"
#include "fovea/train.h"
#include "output.h"

enum { PREFILL = 512, PROMPT = 16, BATCH = 4, LONGEST = 513, STEPS = 8 };

/* What a timed call works on. */
typedef struct bed {
    fv_ctx *ctx;
    fv_params *params;
    fv_transformer *model;
    fv_cache *cache;
    fv_optim *optim;
    int64_t (*tokens)[LONGEST]; /* [BATCH] */
    int64_t length;             /* of a training sequence */
    uint64_t step;
    const char *folder; /* cold start */
    bool unverified;    /* likewise */
    fv_status status;   /* first failure */
} bed;

static fv_transformer_config settings(void)
{
    fv_transformer_config cfg;
    fv_transformer_config_init(&cfg, sizeof cfg, FV_FAMILY_GPT2);
    cfg.vocabulary = 50257;
    cfg.dropout = cfg.attention_dropout = 0;
    return cfg;
}

static void close_bed(bed *b)
{
    fv_cache_destroy(&b->cache);
    fv_optim_destroy(&b->optim);
    fv_transformer_destroy(&b->model);
    if (b->params) fv_params_destroy(&b->params);
    if (b->ctx) fv_ctx_destroy(&b->ctx);
}

static int failed(const bed *b, fv_status status)
{
    cli_error("bench: %s", fv_ctx_message(b->ctx));
    return cli_exit_code(status);
}

/* A new model, the same each time. */
static int open_bed(const bench_run *run, bed *b)
{
    *b = (bed){.status = FV_OK};
    const int code = bench_context(run, run->threads, &b->ctx);
    if (code) return code;
    const fv_transformer_config cfg = settings();
    uint64_t state = 1;
    static int64_t tokens[BATCH][LONGEST];
    for (int64_t i = 0; i < (int64_t)BATCH * LONGEST; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        tokens[i / LONGEST][i % LONGEST] = (int64_t)((state >> 33) % (uint64_t)cfg.vocabulary);
    }
    b->tokens = tokens;
    fv_status status = fv_params_create(b->ctx, &b->params);
    if (status == FV_OK) status = fv_transformer_create(b->params, &cfg, &b->model);
    if (status == FV_OK) return CLI_DONE;
    const int why = failed(b, status);
    close_bed(b);
    return why;
}

/* ---- counting ---------------------------------------------------------------------- */

/* Multiply-adds of one token: all matrices except the position embedding. */
static double matrix_work(const fv_transformer_config *c)
{
    const double w = (double)c->width, h = (double)c->hidden;
    return (double)c->decoder_layers * (4 * w * w + 2 * w * h) + w * (double)c->vocabulary;
}

/* Operations of a causal pass over one sequence of `n` tokens. */
static double pass_work(const fv_transformer_config *c, double n)
{
    const double attention = 2 * (double)c->width * n * (n + 1) / 2 * (double)c->decoder_layers;
    return 2 * (matrix_work(c) * n + attention);
}

static double weight_bytes(const fv_transformer_config *c, fv_weight_form form)
{
    const double each = form == FV_WEIGHT_F32 ? 4 : form == FV_WEIGHT_BF16 ? 2 : 1;
    return matrix_work(c) * each;
}

/* ---- timing ------------------------------------------------------------------------ */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Calls of this suite take from milliseconds to many seconds: one to warm up, then `rounds`, with
 * the limit read around each. */
static int measure(bench_run *run, bed *b, void (*call)(void *), bench_limit limit, int rounds,
                   bench_result *got)
{
    enum { MOST = 64 };
    double times[MOST], limits[MOST + 1];
    call(b);
    int n = 0;
    for (; n < rounds && b->status == FV_OK; n++) {
        if (cli_cancelled) return CLI_INTERRUPTED;
        limits[n] = limit ? bench_limit_read(run, limit, run->level, run->threads) : NAN;
        const double start = now();
        call(b);
        times[n] = now() - start;
    }
    if (b->status != FV_OK) return failed(b, b->status);
    limits[n] = limit ? bench_limit_read(run, limit, run->level, run->threads) : NAN;
    got->noisy = fabs(limits[0] - limits[n]) > 0.05 * fmax(limits[0], limits[n]);
    got->seconds[0] = bench_median(times, n);
    got->limit = bench_median(limits, n + 1);
    return CLI_DONE;
}

static void print(bench_run *run, const char *name, const char *dtype, bench_limit limit,
                  double work, const bench_result *got)
{
    const bench_request ask = {.limit = limit, .threads = run->threads, .level = run->level};
    bench_line line = bench_line_of("model", name, &ask, got);
    line.dtype = dtype;
    const bench_unit unit = limit == BENCH_READ      ? BENCH_GBS
                            : limit == BENCH_FMA_F32 ? BENCH_GFLOPS
                                                     : BENCH_NS;
    bench_line_rate(&line, unit, work, got->seconds[0], got->limit);
    bench_print(run, &line);
    if (unit == BENCH_NS) return;
    /* Also the time of one call, which is easier to compare than a rate. */
    line = bench_line_of("model", name, &ask, got);
    line.dtype = dtype;
    bench_line_rate(&line, BENCH_NS, 1, got->seconds[0], NAN);
    bench_print(run, &line);
}

static void keep(bed *b, fv_status status)
{
    if (b->status == FV_OK) b->status = status;
}

/* ---- a pass over a prompt ----------------------------------------------------------- */

static void call_prefill(void *arg)
{
    bed *b = arg;
    const int64_t *list = b->tokens[0], n = PREFILL;
    const fv_sequences one = {.count = 1, .tokens = &list, .length = &n};
    fv_scope_begin(b->ctx);
    fv_no_grad_begin(b->ctx);
    const fv_token_rows rows = fv_token_rows_varlen(b->ctx, &one);
    fv_tensor *h = fv_transformer_decode(b->ctx, b->model, &rows, NULL, NULL, NULL);
    fv_tensor *last = fv_slice(b->ctx, fv_transformer_logits(b->ctx, b->model, h), 1, n - 1, n, 1);
    double item;
    keep(b, fv_tensor_item(b->ctx, fv_max(b->ctx, last, 0, NULL, false), &item));
    fv_no_grad_end(b->ctx);
    fv_scope_end(b->ctx);
}

/* What a model is run with. */
typedef struct running {
    const char *name, *dtype; /* of the line; of the weights */
    fv_weight_form form;
    fv_dtype compute;
} running;

static fv_status prepare(const bed *b, const running *as)
{
    const fv_status status = fv_ctx_set_compute(b->ctx, as->compute);
    return status == FV_OK ? fv_transformer_pack(b->model, as->form) : status;
}

static int prefill(bench_run *run, const running *as)
{
    bed b;
    bench_result got;
    int code = open_bed(run, &b);
    if (code) return code;
    const fv_transformer_config cfg = settings();
    const fv_status status = prepare(&b, as);
    const bench_limit limit = as->compute == FV_BF16 ? BENCH_DOT_BF16 : BENCH_FMA_F32;
    code = status == FV_OK ? measure(run, &b, call_prefill, limit, run->quick ? 3 : 7, &got)
                           : failed(&b, status);
    if (!code) print(run, as->name, as->dtype, limit, pass_work(&cfg, PREFILL), &got);
    close_bed(&b);
    return code;
}

/* ---- one token at a time ------------------------------------------------------------- */

static void call_decode(void *arg)
{
    bed *b = arg;
    for (int i = 0; i < STEPS && b->status == FV_OK; i++) {
        const int64_t rows = 1;
        double item;
        fv_scope_begin(b->ctx);
        fv_tensor *token = fv_from_host(b->ctx, FV_I64, 1, &rows, &b->tokens[0][b->step++ % 512]);
        fv_tensor *logits = fv_cache_step(b->ctx, b->cache, token);
        keep(b, fv_tensor_item(b->ctx, fv_argmax(b->ctx, logits, -1, false), &item));
        fv_scope_end(b->ctx);
    }
}

/* Peak memory of the context: as a share of `known`, and the bytes beyond it. */
static void print_memory(bench_run *run, const bed *b, const char *name, const char *dtype,
                         double known)
{
    fv_memory_stats memory;
    fv_ctx_memory(b->ctx, &memory);
    const bench_request ask = {.threads = run->threads, .level = run->level};
    const bench_result none = {.limit = NAN};
    bench_line line = bench_line_of("model", name, &ask, &none);
    line.dtype = dtype;
    line.rate = NAN;
    line.share = (double)memory.peak_bytes / known;
    line.extra_mib = ((double)memory.peak_bytes - known) / 1048576.0;
    bench_print(run, &line);
}

static int decode(bench_run *run, const running *as)
{
    bed b;
    bench_result got;
    int code = open_bed(run, &b);
    if (code) return code;
    const fv_transformer_config cfg = settings();
    const int64_t *list = b.tokens[0], n = PROMPT;
    const fv_sequences prompt = {.count = 1, .tokens = &list, .length = &n};
    fv_status status = prepare(&b, as);
    fv_ctx_memory_reset_peak(b.ctx);
    if (status == FV_OK) status = fv_cache_create(b.model, &b.cache);
    if (status == FV_OK) status = fv_cache_begin(b.cache, &prompt, NULL, 256);
    code = status == FV_OK ? measure(run, &b, call_decode, BENCH_READ, run->quick ? 5 : 15, &got)
                           : failed(&b, status);
    if (!code) {
        got.seconds[0] /= STEPS;
        print(run, as->name, as->dtype, BENCH_READ, weight_bytes(&cfg, as->form), &got);
        const double positions = 4.0 * (double)(cfg.width * cfg.max_positions);
        print_memory(run, &b, "decode_memory", as->dtype,
                     weight_bytes(&cfg, as->form) + positions + (double)fv_cache_bytes(b.cache));
    }
    close_bed(&b);
    return code;
}

/* One token of each of BATCH rows after 512 tokens, with a cache of f32 and of bf16. */
static void call_long(void *arg)
{
    bed *b = arg;
    int64_t next[BATCH];
    double item;
    for (int i = 0; i < BATCH; i++)
        next[i] = b->tokens[i][b->step % PREFILL];
    b->step++;
    fv_scope_begin(b->ctx);
    fv_tensor *token = fv_from_host(b->ctx, FV_I64, 1, (int64_t[]){BATCH}, next);
    fv_tensor *logits = fv_cache_step(b->ctx, b->cache, token);
    keep(b, fv_tensor_item(b->ctx, fv_max(b->ctx, logits, 0, NULL, false), &item));
    fv_scope_end(b->ctx);
}

static int decode_long(bench_run *run, fv_dtype type)
{
    bed b;
    bench_result got;
    int code = open_bed(run, &b);
    if (code) return code;
    const fv_transformer_config cfg = settings();
    const int64_t *lists[BATCH], n[BATCH] = {PREFILL, PREFILL, PREFILL, PREFILL};
    for (int i = 0; i < BATCH; i++)
        lists[i] = b.tokens[i];
    const fv_sequences prompts = {.count = BATCH, .tokens = lists, .length = n};
    fv_status status = fv_transformer_pack(b.model, FV_WEIGHT_BF16);
    if (status == FV_OK) status = fv_cache_create(b.model, &b.cache);
    if (status == FV_OK) status = fv_cache_set_dtype(b.cache, type);
    if (status == FV_OK) status = fv_cache_begin(b.cache, &prompts, NULL, 128);
    code = status == FV_OK ? measure(run, &b, call_long, BENCH_READ, run->quick ? 15 : 60, &got)
                           : failed(&b, status);
    if (!code) {
        const double weights = weight_bytes(&cfg, FV_WEIGHT_BF16);
        const double cache = (double)fv_cache_bytes(b.cache);
        print(run, "decode_4_at_512", fv_dtype_name(type), BENCH_READ, weights + cache, &got);
        const bench_request ask = {.threads = run->threads, .level = run->level};
        bench_line line = bench_line_of("model", "decode_4_at_512_cache", &ask, &got);
        line.dtype = fv_dtype_name(type);
        line.rate = line.share = NAN;
        line.extra_mib = cache / 1048576.0;
        bench_print(run, &line);
    }
    close_bed(&b);
    return code;
}

/* ---- training ------------------------------------------------------------------------- */

static void call_train(void *arg)
{
    bed *b = arg;
    fv_ctx *ctx = b->ctx;
    const int64_t *lists[BATCH];
    int64_t lengths[BATCH];
    for (int i = 0; i < BATCH; i++) {
        lists[i] = b->tokens[i];
        lengths[i] = b->length + 1; /* the last one is only predicted */
    }
    const fv_sequences batch = {.count = BATCH, .tokens = lists, .length = lengths};
    fv_scope_begin(ctx);
    fv_ctx_set_step(ctx, b->step++, 0);
    fv_tensor *loss = fv_transformer_lm_loss(ctx, b->model, &batch, &(fv_pass){.training = true});
    loss = fv_scale(ctx, loss, 1.0 / (double)(BATCH * b->length));
    keep(b, fv_backward(ctx, loss));
    if (b->status == FV_OK) keep(b, fv_optim_step(b->optim, 1e-4, NULL));
    fv_scope_end(ctx);
}

static int train(bench_run *run, const char *name, int64_t length, fv_dtype compute)
{
    bed b;
    bench_result got;
    int code = open_bed(run, &b);
    if (code) return code;
    const fv_transformer_config cfg = settings();
    fv_optim_config adam;
    fv_optim_config_init(&adam, sizeof adam, FV_OPTIM_ADAMW);
    b.length = length;
    const char *dtype = fv_dtype_name(compute);
    fv_status status = fv_ctx_set_compute(b.ctx, compute);
    if (status == FV_OK) status = fv_optim_create(b.params, &adam, &b.optim);
    const int rounds = length > 64 || run->quick ? 1 : 3;
    code = status == FV_OK ? measure(run, &b, call_train, BENCH_FMA_F32, rounds, &got)
                           : failed(&b, status);
    if (!code) {
        char memory[32];
        cli_format(memory, sizeof memory, "%s_memory", name);
        print(run, name, dtype, BENCH_FMA_F32, 3 * BATCH * pass_work(&cfg, (double)length), &got);
        print_memory(run, &b, memory, dtype, 16.0 * (double)fv_params_elements(b.params));
    }
    close_bed(&b);
    return code;
}

/* ---- from a folder to the first token --------------------------------------------------- */

static void call_cold(void *arg)
{
    bed *outer = arg;
    bed b = {.folder = outer->folder};
    fv_model *model = NULL;
    const int64_t *list = outer->tokens[0], n = PROMPT;
    const fv_sequences prompt = {.count = 1, .tokens = &list, .length = &n};
    fv_ctx_config config;
    fv_ctx_config_init(&config, sizeof config);
    config.device = fv_ctx_device(outer->ctx);
    fv_status status = fv_ctx_create(&config, &b.ctx);
    if (status == FV_OK) fv_ctx_set_verify(b.ctx, !outer->unverified);
    if (status == FV_OK) status = fv_model_open(b.ctx, b.folder, &model);
    if (status == FV_OK) status = fv_transformer_pack(fv_model_transformer(model), FV_WEIGHT_F32);
    if (status == FV_OK) status = fv_cache_create(fv_model_transformer(model), &b.cache);
    if (status == FV_OK) status = fv_cache_begin(b.cache, &prompt, NULL, 32);
    if (status == FV_OK) {
        const int64_t rows = 1;
        double item;
        fv_tensor *token = fv_from_host(b.ctx, FV_I64, 1, &rows, list + n - 1);
        fv_tensor *logits = fv_cache_step(b.ctx, b.cache, token);
        status = fv_tensor_item(b.ctx, fv_argmax(b.ctx, logits, -1, false), &item);
    }
    if (status != FV_OK && b.ctx) cli_error("bench: %s", fv_ctx_message(b.ctx));
    fv_cache_destroy(&b.cache);
    fv_model_close(&model);
    if (b.ctx) fv_ctx_destroy(&b.ctx);
    keep(outer, status);
}

/* The model as a Hugging Face folder. */
static fv_status write_folder(const bed *b, const char *folder)
{
    char path[CLI_PATH_BYTES];
    if (!cli_path(path, "%s/model.safetensors", folder)) return FV_ERR_IO;
    const fv_status status = fv_transformer_save_settings(b->model, folder);
    return status == FV_OK ? fv_params_save(b->params, path) : status;
}

static void remove_folder(const char *folder)
{
    static const char *const files[] = {"config.json", "generation_config.json",
                                        "model.safetensors"};
    char path[CLI_PATH_BYTES];
    for (int i = 0; i < CLI_COUNT(files); i++)
        if (cli_path(path, "%s/%s", folder, files[i])) (void)unlink(path);
    (void)rmdir(folder);
}

static int cold(bench_run *run)
{
    bed b;
    bench_result got;
    char folder[CLI_PATH_BYTES];
    const char *temporary = getenv("TMPDIR");
    const bool named = run->output ? cli_path(folder, "%s", run->output)
                                   : cli_path(folder, "%s/fovea-bench-%ld",
                                              temporary ? temporary : "/tmp", (long)getpid());
    if (!named || !cli_is_new_folder("bench", folder)) return CLI_USAGE;
    int code = open_bed(run, &b);
    if (code) return code;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
        cli_error("bench: %s: %s", folder, strerror(errno));
        code = CLI_FAILED;
    }
    b.folder = folder;
    const fv_status status = code ? FV_OK : write_folder(&b, folder);
    if (status != FV_OK) code = failed(&b, status);
    /* With and without verifying checksums and values. */
    static const char *const names[] = {"cold_start", "cold_start_unverified"};
    for (int i = 0; i < 2 && !code; i++) {
        b.unverified = i == 1;
        code = measure(run, &b, call_cold, BENCH_NO_LIMIT, 3, &got);
        if (!code) print(run, names[i], "f32", BENCH_NO_LIMIT, 1, &got);
    }
    if (!run->output) remove_folder(folder);
    close_bed(&b);
    return code;
}

/* ---- the suite -------------------------------------------------------------------------- */

int bench_model(bench_run *run)
{
    static const running tokens[] = {{"decode_1", "f32", FV_WEIGHT_F32, FV_F32},
                                     {"decode_1", "bf16", FV_WEIGHT_BF16, FV_F32},
                                     {"decode_1", "i8", FV_WEIGHT_I8, FV_F32},
                                     {"decode_1_in_bf16", "i8", FV_WEIGHT_I8, FV_BF16}};
    static const running prompts[] = {{"prefill_512", "f32", FV_WEIGHT_F32, FV_F32},
                                      {"prefill_512", "i8", FV_WEIGHT_I8, FV_F32},
                                      {"prefill_512_in_bf16", "i8", FV_WEIGHT_I8, FV_BF16}};
    int code = CLI_DONE;
    for (int i = 0; i < CLI_COUNT(tokens) && !code; i++)
        if (bench_wanted(run, tokens[i].name)) code = decode(run, &tokens[i]);
    for (int type = FV_F32; type <= FV_BF16 && !code; type += FV_BF16 - FV_F32)
        if (bench_wanted(run, "decode_4_at_512")) code = decode_long(run, (fv_dtype)type);
    for (int i = 0; i < CLI_COUNT(prompts) && !code; i++)
        if (bench_wanted(run, prompts[i].name)) code = prefill(run, &prompts[i]);
    if (!code && bench_wanted(run, "cold_start")) code = cold(run);
    static const struct {
        const char *name;
        int64_t length;
        fv_dtype compute;
    } trains[] = {{"train_64", 64, FV_F32},
                  {"train_512", 512, FV_F32},
                  {"train_bf16_64", 64, FV_BF16},
                  {"train_bf16_512", 512, FV_BF16}};
    for (int i = 0; i < CLI_COUNT(trains) && !code; i++)
        if (bench_wanted(run, trains[i].name))
            code = train(run, trains[i].name, trains[i].length, trains[i].compute);
    return code;
}
