/*
 * fovea bench pointer: models that point at their inputs, with random weights. Training steps of a
 * pointer network over sets of ten cities, with self-attention and with an LSTM as its encoder, and
 * greedy tours of the attention model through 20, 50 and 100 cities. Times are per choice.
 *
 * With --output FOLDER other programs can do the same work: set, lstm and tours are the models
 * before the first step, work.json has the instances, the losses of the first steps and the tours
 * (bench/peers/bench_torch_pointer.py, bench_torch_tsp.py).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench.h"
#include "folder.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "fovea/points.h"
#include "fovea/train.h"
#include "output.h"

enum { ROWS = 128, BATCHES = 4, LOSSES = 3, TRAINED = 10, TOURS = 256 };

/* Instances of one size. */
typedef struct cities {
    int64_t count, n;
    fv_instance *list[BATCHES * ROWS];
    const void *points[BATCHES * ROWS], *answers[BATCHES * ROWS];
    int64_t length[BATCHES * ROWS];
} cities;

/* What a timed call works on. */
typedef struct bed {
    fv_ctx *ctx;
    fv_model *model;
    fv_optim *optim;
    cities *cities;
    uint64_t step;
    float losses[LOSSES];
    FILE *outputs; /* where tours are written, or NULL */
    fv_status status;
} bed;

/* The models that are measured. */
static const struct {
    const char *name, *kind, *setting, *value;
} models[] = {
    {"set", "pointer", "pointer.encoder", "set"},
    {"lstm", "pointer", "pointer.encoder", "lstm"},
    {"tours", "attention-tsp", "tsp.layers", "3"},
};

/* ---- instances ------------------------------------------------------------------------------ */

static void free_cities(cities *c)
{
    for (int64_t i = 0; i < c->count; i++)
        fv_instance_free(&c->list[i]);
    c->count = 0;
}

static fv_status draw_cities(fv_ctx *ctx, cities *c, int64_t n, int64_t count)
{
    /* uniform points either way; hulls are found sooner than tours that are not trained on */
    const fv_points_source from = {
        .problem = n > TRAINED ? FV_PROBLEM_HULL : FV_PROBLEM_TSP, .min = n, .max = n, .seed = 1};
    fv_status status = FV_OK;
    c->n = n;
    for (int64_t i = 0; i < count && status == FV_OK; i++) {
        status = fv_instance_draw(ctx, &from, FV_POINTS_TRAIN, (uint64_t)i, &c->list[i]);
        if (status != FV_OK) break;
        c->count++;
        c->points[i] = c->list[i]->values;
        c->answers[i] = c->list[i]->answer;
        c->length[i] = n;
    }
    return status;
}

static fv_batch batch_of(const cities *c, int64_t first, int64_t count)
{
    fv_batch batch;
    fv_batch_init(&batch, count);
    fv_batch_add(&batch, (fv_field){.name = "points",
                                    .dtype = FV_F32,
                                    .rank = 1,
                                    .shape = {2},
                                    .row = c->points + first,
                                    .length = c->length + first});
    fv_batch_add(&batch, (fv_field){.name = "target",
                                    .dtype = FV_I64,
                                    .row = c->answers + first,
                                    .length = c->length + first});
    return batch;
}

/* ---- the model ------------------------------------------------------------------------------ */

static void close_bed(bed *b)
{
    if (b->cities) free_cities(b->cities);
    free(b->cities);
    fv_optim_destroy(&b->optim);
    fv_model_close(&b->model);
    if (b->ctx) fv_ctx_destroy(&b->ctx);
}

static fv_status make_model(bed *b, int which)
{
    fv_data_spec spec = {.ability = FV_CAN_POINT};
    fv_recipe *recipe = NULL;
    fv_optim_config adam;
    fv_data_spec_set(&spec, "problem", FV_PROBLEM_TSP);
    fv_data_spec_set(&spec, "point", 2);
    fv_optim_config_init(&adam, sizeof adam, FV_OPTIM_ADAM);
    adam.clip_norm = 1;
    fv_ctx_set_step(b->ctx, 0, 0);
    const fv_key_table keys = fv_model_kind_find(b->ctx, models[which].kind)->keys();
    fv_status status = fv_recipe_create(b->ctx, &keys, 1, &recipe);
    if (status == FV_OK) status = fv_recipe_set(recipe, models[which].setting, models[which].value);
    if (status == FV_OK)
        status = fv_model_create(b->ctx, models[which].kind, recipe, &spec, &b->model);
    if (status == FV_OK) status = fv_optim_create(fv_model_params(b->model), &adam, &b->optim);
    fv_recipe_destroy(&recipe);
    return status;
}

static int open_bed(const bench_run *run, int threads, int which, int64_t n, int64_t count, bed *b)
{
    *b = (bed){.cities = calloc(1, sizeof *b->cities)};
    if (!b->cities) {
        cli_error("bench: no memory");
        return CLI_FAILED;
    }
    const int code = bench_context(run, threads, &b->ctx);
    if (code) {
        close_bed(b);
        return code;
    }
    fv_status status = make_model(b, which);
    if (status == FV_OK) status = draw_cities(b->ctx, b->cities, n, count);
    if (status == FV_OK) return CLI_DONE;
    cli_error("bench: %s", fv_ctx_message(b->ctx));
    close_bed(b);
    return cli_exit_code(status);
}

/* ---- calls ---------------------------------------------------------------------------------- */

static fv_status train_step(bed *b)
{
    fv_ctx *ctx = b->ctx;
    const fv_model_kind *kind = fv_model_kind_of(b->model);
    const fv_batch batch = batch_of(b->cities, (int64_t)(b->step % BATCHES) * ROWS, ROWS);
    const fv_pass pass = {.training = true};
    float value = 0;
    fv_ctx_set_step(ctx, b->step, 0);
    fv_tensor *loss = kind->loss(ctx, fv_model_self(b->model), &batch, &pass);
    loss = fv_scale(ctx, loss, 1.0 / (ROWS * TRAINED));
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

static void write_list(FILE *to, const char *before, const int64_t *list, int64_t count)
{
    fprintf(to, "%s[", before);
    for (int64_t i = 0; i < count; i++)
        fprintf(to, "%s%lld", i ? ", " : "", (long long)list[i]);
    fputs("]", to);
}

/* Instances of a batch: few enough that what a step reads stays in the caches, enough to make the
 * cost of a call small. A divisor of TOURS. */
static int64_t together(int64_t n) { return n <= 20 ? 64 : n <= 50 ? 32 : 16; }

/* All tours, some at a time. */
static void call_tours(void *arg)
{
    bed *b = arg;
    fv_search_config greedy;
    fv_search_config_init(&greedy, sizeof greedy);
    greedy.no_scores = true;
    const int64_t some = together(b->cities->n);
    for (int64_t first = 0; first < b->cities->count && b->status == FV_OK; first += some) {
        const fv_batch batch = batch_of(b->cities, first, some);
        fv_outputs *outputs = NULL;
        b->status = fv_point(b->model, &batch, &greedy, &outputs);
        for (int64_t i = 0; b->status == FV_OK && b->outputs && i < some; i++) {
            const fv_output *o = fv_outputs_get(outputs, i, 0);
            write_list(b->outputs, first + i > 0 ? ",\n" : "\n", o->tokens, o->count);
        }
        fv_outputs_free(&outputs);
    }
}

/* ---- the folder ----------------------------------------------------------------------------- */

static void write_cities(FILE *to, const cities *c)
{
    fprintf(to, "{\"points\": [");
    for (int64_t i = 0; i < c->count; i++) {
        fputs(i ? ",\n[" : "\n[", to);
        for (int64_t k = 0; k < 2 * c->n; k++)
            fprintf(to, "%s%.9g", k ? ", " : "", (double)c->list[i]->values[k]);
        fputs("]", to);
    }
    fputs("],\n\"answers\": [", to);
    for (int64_t i = 0; i < c->count; i++)
        write_list(to, i ? ",\n" : "\n", c->list[i]->answer, c->list[i]->count);
    fputs("]", to);
}

/* One model and its work as a member of work.json. */
static int write_part(const bench_run *run, int which, int64_t n, FILE *to)
{
    char path[CLI_PATH_BYTES];
    bed b;
    const bool trains = n == TRAINED;
    if (!cli_path(path, "%s/%s", run->output, models[which].name)) return CLI_USAGE;
    if (mkdir(path, 0777) != 0 && errno != EEXIST) {
        cli_error("bench: %s: %s", path, strerror(errno));
        return CLI_FAILED;
    }
    const int code = open_bed(run, run->threads, which, n, trains ? BATCHES * ROWS : TOURS, &b);
    if (code) return code;
    b.status = fv_model_save(b.model, path);
    fprintf(to, "\"%s_%lld\": ", models[which].name, (long long)n);
    write_cities(to, b.cities);
    if (trains) {
        while (b.step < LOSSES && b.status == FV_OK)
            call_train(&b);
        fprintf(to, ",\n\"losses\": [%.9g, %.9g, %.9g]}", (double)b.losses[0], (double)b.losses[1],
                (double)b.losses[2]);
    } else {
        fputs(",\n\"tours\": [", to);
        b.outputs = to;
        call_tours(&b);
        fputs("]}", to);
    }
    const fv_status status = b.status;
    if (status != FV_OK) cli_error("bench: %s", fv_ctx_message(b.ctx));
    close_bed(&b);
    return status == FV_OK ? CLI_DONE : cli_exit_code(status);
}

/* ---- the suite ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    int model;
    int64_t n;
} rows[] = {{"train_set", 0, TRAINED},
            {"train_lstm", 1, TRAINED},
            {"tours_20", 2, 20},
            {"tours_50", 2, 50},
            {"tours_100", 2, 100}};

static int write_folder(const bench_run *run)
{
    char path[CLI_PATH_BYTES];
    if (!cli_path(path, "%s/work.json", run->output)) return CLI_USAGE;
    if (!cli_is_new_folder("bench", run->output)) return CLI_USAGE;
    if (mkdir(run->output, 0777) != 0 && errno != EEXIST) {
        cli_error("bench: %s: %s", run->output, strerror(errno));
        return CLI_FAILED;
    }
    FILE *to = fopen(path, "w");
    int code = to ? CLI_DONE : CLI_FAILED;
    if (to) {
        fputs("{", to);
        for (int i = 0; i < CLI_COUNT(rows) && !code; i++) {
            if (i) fputs(",\n", to);
            code = write_part(run, rows[i].model, rows[i].n, to);
        }
        fputs("}\n", to);
        const bool failed = ferror(to) != 0;
        if ((fclose(to) != 0 || failed) && !code) code = CLI_FAILED;
    }
    if (code == CLI_FAILED) cli_error("bench: %s cannot be written", path);
    return code;
}

static int measure(bench_run *run, int row, int threads)
{
    bed b;
    const bool trains = rows[row].n == TRAINED;
    const int code =
        open_bed(run, threads, rows[row].model, rows[row].n, trains ? BATCHES * ROWS : TOURS, &b);
    if (code) return code;
    const bench_case one = {.call = trains ? call_train : call_tours, .arg = &b};
    const bench_request ask = {.cases = &one,
                               .count = 1,
                               .limit = BENCH_NO_LIMIT,
                               .threads = threads,
                               .level = run->level};
    bench_result got;
    const bool measured = bench_measure(run, &ask, &got);
    const fv_status status = b.status;
    if (status != FV_OK) cli_error("bench: %s", fv_ctx_message(b.ctx));
    close_bed(&b);
    if (status != FV_OK) return cli_exit_code(status);
    if (!measured) return CLI_INTERRUPTED;
    bench_line line = bench_line_of("pointer", rows[row].name, &ask, &got);
    bench_line_rate(&line, BENCH_NS, (double)((trains ? ROWS : TOURS) * rows[row].n),
                    got.seconds[0], got.limit);
    bench_print(run, &line);
    return CLI_DONE;
}

int bench_pointer(bench_run *run)
{
    int counts[2], code = CLI_DONE;
    const int times = bench_thread_counts(run, counts);
    if (run->output) code = write_folder(run);
    for (int i = 0; i < times && !code; i++)
        for (int row = 0; row < CLI_COUNT(rows) && !code; row++)
            if (bench_wanted(run, rows[row].name)) code = measure(run, row, counts[i]);
    return code;
}
