/*
 * fovea bench seq2seq: the translator of recipes/multi30k-de-en.toml (bidirectional GRU, additive
 * attention) without dropout, on random tokens: training steps, and greedy search over several
 * sources at once. Times are per target token.
 *
 * With --output FOLDER another program can do the same work: config.json and model.safetensors
 * are the model before the first step, work.json has the batches, the losses of the first steps
 * and the tokens that the search generated (bench/peers/bench_torch_seq2seq.py).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench.h"
#include "folder.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "fovea/seq2seq.h"
#include "fovea/train.h"
#include "output.h"

enum { PAIRS = 150, BATCHES = 4, LOSSES = 3, TOKENS = 6000, LONGEST = 18, OUTPUT_TOKENS = 15 };

/* Pairs of random tokens, of the lengths of short sentences. */
typedef struct texts {
    int64_t source[PAIRS][LONGEST], target[PAIRS][LONGEST];
    const int64_t *sources[PAIRS], *targets[PAIRS];
    int64_t source_length[PAIRS], target_length[PAIRS];
} texts;

/* What a timed call works on. */
typedef struct bed {
    fv_ctx *ctx;
    fv_params *params;
    fv_seq2seq *model;
    fv_optim *optim;
    const texts *batches; /* [BATCHES] */
    uint64_t step;
    float losses[LOSSES];
    int64_t sources, found; /* search: batch size, tokens generated */
    FILE *outputs;          /* where a search writes its tokens, or NULL */
    fv_status status;       /* first failure */
} bed;

/* ---- generated data ------------------------------------------------------------- */

static int64_t draw(uint64_t *state, int64_t low, int64_t high)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((*state >> 33) % (uint64_t)(high - low));
}

static void fill_texts(texts *t, uint64_t *state)
{
    for (int i = 0; i < PAIRS; i++) {
        t->sources[i] = t->source[i];
        t->targets[i] = t->target[i];
        t->source_length[i] = draw(state, 10, LONGEST);
        t->target_length[i] = draw(state, 10, LONGEST - 2);
        for (int k = 0; k < LONGEST; k++) {
            t->source[i][k] = draw(state, 2, TOKENS);
            t->target[i][k] = draw(state, 2, TOKENS);
        }
    }
}

static fv_batch pairs_of(const texts *t, int64_t count)
{
    return fv_batch_of_pairs(
        &(fv_sequences){.count = count, .tokens = t->sources, .length = t->source_length},
        &(fv_sequences){.count = count, .tokens = t->targets, .length = t->target_length});
}

static fv_seq2seq_config recipe(void)
{
    fv_seq2seq_config cfg;
    fv_seq2seq_config_init(&cfg, sizeof cfg);
    cfg.source_tokens = cfg.target_tokens = TOKENS;
    cfg.embedding = cfg.encoder_hidden = cfg.attention_width = cfg.readout_width = 256;
    cfg.hidden = 512;
    cfg.tied = true;
    cfg.smoothing = 0.1;
    return cfg;
}

static void close_bed(bed *b)
{
    fv_optim_destroy(&b->optim);
    fv_seq2seq_destroy(&b->model);
    if (b->params) fv_params_destroy(&b->params);
    if (b->ctx) fv_ctx_destroy(&b->ctx);
}

/* A new model, the same each time. */
static int open_bed(const bench_run *run, int threads, const texts *batches, bed *b)
{
    *b = (bed){.batches = batches};
    const int code = bench_context(run, threads, &b->ctx);
    if (code) return code;
    const fv_seq2seq_config cfg = recipe();
    fv_optim_config adam;
    fv_optim_config_init(&adam, sizeof adam, FV_OPTIM_ADAM);
    adam.clip_norm = 1;
    fv_status status = fv_params_create(b->ctx, &b->params);
    if (status == FV_OK) status = fv_seq2seq_create(b->params, &cfg, &b->model);
    if (status == FV_OK) status = fv_optim_create(b->params, &adam, &b->optim);
    if (status == FV_OK) return CLI_DONE;
    cli_error("bench: %s", fv_ctx_message(b->ctx));
    close_bed(b);
    return cli_exit_code(status);
}

/* ---- calls ---------------------------------------------------------------------- */

static fv_status train_step(bed *b)
{
    fv_ctx *ctx = b->ctx;
    const fv_batch batch = pairs_of(&b->batches[b->step % BATCHES], PAIRS);
    const fv_pass pass = {.training = true, .sampling = 0};
    fv_ctx_set_step(ctx, b->step, 0);
    fv_tensor *loss = fv_seq2seq_loss(ctx, b->model, &batch, &pass);
    loss = fv_scale(ctx, loss, 1.0 / (double)fv_batch_target_tokens(&batch));
    float value = 0;
    fv_status status = fv_tensor_read(ctx, loss, &value, sizeof value);
    if (status == FV_OK) status = fv_backward(ctx, loss);
    if (status == FV_OK) status = fv_optim_step(b->optim, 1e-3, NULL);
    if (b->step < LOSSES) b->losses[b->step] = value;
    b->step++;
    return status;
}

static void call_train(void *arg)
{
    bed *b = arg;
    fv_scope_begin(b->ctx);
    const fv_status status = train_step(b);
    if (b->status == FV_OK) b->status = status;
    fv_scope_end(b->ctx);
}

static void write_tokens(FILE *to, const char *before, const int64_t *tokens, int64_t count)
{
    fprintf(to, "%s[", before);
    for (int64_t i = 0; i < count; i++)
        fprintf(to, "%s%lld", i ? ", " : "", (long long)tokens[i]);
    fputs("]", to);
}

static void call_greedy(void *arg)
{
    bed *b = arg;
    const fv_batch sources = pairs_of(&b->batches[0], b->sources);
    int64_t max_tokens[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        max_tokens[i] = OUTPUT_TOKENS;
    fv_search_config greedy;
    fv_search_config_init(&greedy, sizeof greedy);
    greedy.no_scores = true;
    fv_stepper stepper;
    fv_outputs *outputs = NULL;
    fv_status status = fv_seq2seq_stepper(b->model, &sources, &stepper);
    if (status == FV_OK)
        status = fv_search(b->ctx, &stepper, b->sources, max_tokens, &greedy, &outputs);
    b->found = 0;
    for (int64_t i = 0; status == FV_OK && i < b->sources; i++) {
        const fv_output *o = fv_outputs_get(outputs, i, 0);
        b->found += o->count + o->ended;
        if (b->outputs) write_tokens(b->outputs, i ? ",\n  " : "  ", o->tokens, o->count);
    }
    if (b->status == FV_OK) b->status = status;
    fv_outputs_free(&outputs);
}

/* ---- the folder ----------------------------------------------------------------- */

static void write_texts(FILE *to, const char *name, const int64_t *const *lines,
                        const int64_t *lengths)
{
    fprintf(to, "\"%s\": [\n", name);
    for (int i = 0; i < PAIRS; i++)
        write_tokens(to, i ? ",\n  " : "  ", lines[i], lengths[i]);
    fputs("]", to);
}

static int write_work(bed *b, FILE *to)
{
    fputs("{\"batches\": [", to);
    for (int i = 0; i < BATCHES; i++) {
        const texts *t = &b->batches[i];
        fputs(i ? ",\n{" : "\n{", to);
        write_texts(to, "source", t->sources, t->source_length);
        fputs(",\n", to);
        write_texts(to, "target", t->targets, t->target_length);
        fputs("}", to);
    }
    fprintf(to, "],\n\"most\": %d,\n\"outputs\": [\n", OUTPUT_TOKENS);
    b->sources = PAIRS;
    b->outputs = to;
    call_greedy(b);
    b->outputs = NULL;
    while (b->step < LOSSES && b->status == FV_OK)
        call_train(b);
    fprintf(to, "],\n\"losses\": [%.9g, %.9g, %.9g]}\n", (double)b->losses[0], (double)b->losses[1],
            (double)b->losses[2]);
    if (b->status == FV_OK) return CLI_DONE;
    cli_error("bench: %s", fv_ctx_message(b->ctx));
    return cli_exit_code(b->status);
}

static int write_model(bed *b, const char *folder)
{
    char path[CLI_PATH_BYTES], weights[CLI_PATH_BYTES];
    const fv_seq2seq_config cfg = recipe();
    if (!cli_path(path, "%s/config.json", folder) ||
        !cli_path(weights, "%s/model.safetensors", folder))
        return CLI_USAGE;
    fv_status status = fv_seq2seq_config_save(b->ctx, &cfg, path);
    if (status == FV_OK) status = fv_params_save(b->params, weights);
    if (status == FV_OK) return CLI_DONE;
    cli_error("bench: %s", fv_ctx_message(b->ctx));
    return cli_exit_code(status);
}

static int write_folder(const bench_run *run, const texts *batches)
{
    char path[CLI_PATH_BYTES];
    if (!cli_path(path, "%s/work.json", run->output)) return CLI_USAGE;
    if (!cli_is_new_folder("bench", run->output)) return CLI_USAGE;
    if (mkdir(run->output, 0777) != 0 && errno != EEXIST) {
        cli_error("bench: %s: %s", run->output, strerror(errno));
        return CLI_FAILED;
    }
    bed b;
    int code = open_bed(run, run->threads, batches, &b);
    if (code) return code;
    code = write_model(&b, run->output);
    FILE *to = code ? NULL : fopen(path, "w");
    if (to) {
        code = write_work(&b, to);
        const bool failed = ferror(to) != 0;
        if ((fclose(to) != 0 || failed) && !code) code = CLI_FAILED;
    } else if (!code) {
        code = CLI_FAILED;
    }
    if (code == CLI_FAILED) cli_error("bench: %s cannot be written", path);
    close_bed(&b);
    return code;
}

/* ---- the suite ------------------------------------------------------------------ */

static int measure(bench_run *run, bed *b, const char *name, void (*call)(void *), int threads)
{
    const bench_case one = {.call = call, .arg = b};
    const bench_request ask = {.cases = &one,
                               .count = 1,
                               .limit = BENCH_NO_LIMIT,
                               .threads = threads,
                               .level = run->level};
    bench_result got;
    const bool measured = bench_measure(run, &ask, &got);
    if (b->status != FV_OK) {
        cli_error("bench: %s", fv_ctx_message(b->ctx));
        return cli_exit_code(b->status);
    }
    if (!measured) return CLI_INTERRUPTED;
    const fv_batch batch = pairs_of(&b->batches[0], PAIRS);
    const int64_t tokens = call == call_train ? fv_batch_target_tokens(&batch) : b->found;
    bench_line line = bench_line_of("seq2seq", name, &ask, &got);
    bench_line_rate(&line, BENCH_NS, (double)tokens, got.seconds[0], got.limit);
    bench_print(run, &line);
    return CLI_DONE;
}

static int bench_threads(bench_run *run, const texts *batches, int threads)
{
    static const struct {
        const char *name;
        int64_t sources;
    } searches[] = {{"greedy_1", 1}, {"greedy_8", 8}, {"greedy_32", 32}, {"greedy_128", 128}};
    bed b;
    int code = open_bed(run, threads, batches, &b);
    if (code) return code;
    for (int i = 0; i < CLI_COUNT(searches) && !code; i++) {
        b.sources = searches[i].sources;
        if (bench_wanted(run, searches[i].name))
            code = measure(run, &b, searches[i].name, call_greedy, threads);
    }
    if (!code && bench_wanted(run, "train")) code = measure(run, &b, "train", call_train, threads);
    close_bed(&b);
    return code;
}

int bench_seq2seq(bench_run *run)
{
    texts *batches = calloc(BATCHES, sizeof *batches);
    if (!batches) {
        cli_error("bench: no memory");
        return CLI_FAILED;
    }
    uint64_t state = 1;
    for (int i = 0; i < BATCHES; i++)
        fill_texts(&batches[i], &state);
    int counts[2], code = CLI_DONE;
    const int times = bench_thread_counts(run, counts);
    if (run->output) code = write_folder(run, batches);
    for (int i = 0; i < times && !code; i++)
        code = bench_threads(run, batches, counts[i]);
    free(batches);
    return code;
}
