/*
 * Neural Turing Machines and their tasks: what the generated sequences say, that a row of a batch
 * has the bits it has alone, what a capture shows, that training learns, and that a resumed run has
 * the bits of an uninterrupted one.
 */
#include <math.h>

#include "fovea/autograd.h"
#include "fovea/data.h"
#include "fovea/model.h"
#include "fovea/ops.h"
#include "models/ntm.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"

/* ---- sequences ------------------------------------------------------------------------------ */

static fv_bits_example make(fv_ctx *ctx, const char *task, int64_t length, uint64_t number)
{
    const fv_bits_config cfg = {.task = task, .length = length, .seed = 5};
    fv_bits_example e = {0};
    CHECK_OK(ctx, fv_bits_make(ctx, &cfg, FV_BITS_TRAIN, number, &e));
    return e;
}

static const float *input_at(const fv_bits_example *e, int64_t step)
{
    return e->inputs + step * e->input_width;
}

static const float *target_at(const fv_bits_example *e, int64_t answer)
{
    return e->targets + answer * e->output_width;
}

static bool same_bits(const float *a, const float *b, int64_t n)
{
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

static void copies_and_repeats(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_bits_example e = make(ctx, "copy", 5, 3);
    CHECK_EQ(e.steps, 11);
    CHECK_EQ(e.answers, 5);
    CHECK_EQ(e.input_width, 9);
    CHECK(input_at(&e, 5)[8] == 1 && input_at(&e, 4)[8] == 0);
    for (int i = 0; i < 5; i++)
        CHECK(same_bits(input_at(&e, i), target_at(&e, i), 8));
    fv_bits_example again = make(ctx, "copy", 5, 3), other = make(ctx, "copy", 5, 4);
    CHECK(same_bits(e.inputs, again.inputs, 11 * 9));
    CHECK(!same_bits(e.inputs, other.inputs, 11 * 9));
    fv_bits_free(ctx, &e);
    fv_bits_free(ctx, &again);
    fv_bits_free(ctx, &other);
    bool several = false;
    for (uint64_t n = 0; n < 20; n++) {
        e = make(ctx, "repeat-copy", 3, n);
        const int64_t times = (e.answers - 1) / 3;
        several = several || times > 1;
        CHECK(times >= 1 && times <= 10 && e.answers == 3 * times + 1);
        CHECK_NEAR(input_at(&e, 4)[9], ((double)times - 5.5) / sqrt(8.25), 1e-6);
        for (int64_t i = 0; i < 3 * times; i++)
            CHECK(same_bits(input_at(&e, i % 3), target_at(&e, i), 8) && target_at(&e, i)[8] == 0);
        CHECK(target_at(&e, 3 * times)[8] == 1);
        fv_bits_free(ctx, &e);
    }
    CHECK(several);
    fv_ctx_destroy(&ctx);
}

static void recalls_and_sorts(void)
{
    fv_ctx *ctx = run_context(1, 1);
    for (uint64_t n = 0; n < 10; n++) {
        fv_bits_example e = make(ctx, "recall", 4, n);
        int found = 0; /* the answer follows the item that is asked for */
        for (int64_t item = 0; item + 1 < 4; item++) {
            bool asked = true, answered = true;
            for (int64_t i = 0; i < 3; i++) {
                asked = asked && same_bits(input_at(&e, 4 * item + 1 + i), input_at(&e, 17 + i), 6);
                answered =
                    answered && same_bits(input_at(&e, 4 * item + 5 + i), target_at(&e, i), 6);
            }
            found += asked && answered;
        }
        CHECK(found >= 1);
        CHECK_EQ(e.steps, 4 * 4 + 2 + 6);
        CHECK(input_at(&e, 16)[7] == 1 && input_at(&e, 20)[7] == 1);
        fv_bits_free(ctx, &e);
        e = make(ctx, "sort", 10, n);
        CHECK_EQ(e.answers, 8);
        double before = INFINITY;
        for (int64_t a = 0; a < 8; a++) { /* each answer has the next lower priority */
            double best = -INFINITY;
            for (int64_t i = 0; i < 10; i++) {
                const double p = (double)input_at(&e, i)[8];
                if (p < before && p > best && same_bits(input_at(&e, i), target_at(&e, a), 8))
                    best = p;
            }
            for (int64_t i = 0; i < 10; i++) {
                const double p = (double)input_at(&e, i)[8];
                CHECK(!(p < before && p > best));
            }
            before = best;
        }
        fv_bits_free(ctx, &e);
    }
    fv_ctx_destroy(&ctx);
}

/* The best predictor, counted again from the bits. */
static void ngrams_have_an_optimum(void)
{
    fv_ctx *ctx = run_context(1, 1);
    double mean = 0;
    for (uint64_t n = 0; n < 20; n++) {
        fv_bits_example e = make(ctx, "ngrams", 200, n);
        double seen[32][2] = {{0}}, bits = 4; /* after the first bit, four more are free */
        CHECK_EQ(e.answers, 199);
        unsigned before = 0;
        for (int t = 0; t < 200; t++) {
            const unsigned bit = t < 199 ? input_at(&e, t)[0] > 0 : target_at(&e, 198)[0] > 0;
            if (t > 0) CHECK((target_at(&e, t - 1)[0] > 0) == bit);
            if (t >= 5) {
                bits -= log2((seen[before][bit] + 0.5) / (seen[before][0] + seen[before][1] + 1));
                seen[before][bit]++;
            }
            before = (before << 1 | bit) & 31;
        }
        CHECK_NEAR(e.optimal_bits, bits, 1e-9);
        mean += bits / 20;
        fv_bits_free(ctx, &e);
    }
    CHECK(mean > 80 && mean < 160);
    fv_ctx_destroy(&ctx);
}

static void impossible_sequences_are_refused(void)
{
    static const struct {
        fv_bits_config cfg;
        const char *message;
    } cases[] = {
        {{.task = "copies", .length = 3}, "no task of bits 'copies', expected copy"},
        {{.task = "copy", .length = 0}, "copy: length 0, expected 1 to 4096"},
        {{.task = "copy", .length = 3000}, "gives 6001 steps, expected at most 4096"},
        {{.task = "recall", .length = 1}, "recall: length 1, expected 2"},
        {{.task = "copy", .length = 3, .width = 1000}, "vectors of 1000 bits"},
        {{.task = "ngrams", .length = 9, .width = 2}, "vectors of 2 bits, expected at most 1"},
    };
    fv_ctx *ctx = run_context(1, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fv_bits_example e = {0};
        CHECK_EQ(fv_bits_make(ctx, &cases[i].cfg, FV_BITS_TRAIN, 0, &e), FV_ERR_ARGUMENT);
        CHECK(strstr(fv_ctx_message(ctx), cases[i].message) != NULL);
        CHECK(e.inputs == NULL);
    }
    fv_ctx_destroy(&ctx);
}

/* ---- models --------------------------------------------------------------------------------- */

enum { ROWS = 3 };

typedef struct rows {
    fv_bits_example e[ROWS];
    const void *inputs[ROWS], *targets[ROWS];
    int64_t steps[ROWS], answers[ROWS], count;
} rows;

static void make_rows(fv_ctx *ctx, rows *r)
{
    static const int64_t lengths[ROWS] = {2, 5, 3};
    *r = (rows){.count = ROWS};
    for (int i = 0; i < ROWS; i++) {
        r->e[i] = make(ctx, "copy", lengths[i], (uint64_t)i);
        r->inputs[i] = r->e[i].inputs;
        r->targets[i] = r->e[i].targets;
        r->steps[i] = r->e[i].steps;
        r->answers[i] = r->e[i].answers;
    }
}

static void free_rows(fv_ctx *ctx, rows *r)
{
    for (int i = 0; i < ROWS; i++)
        fv_bits_free(ctx, &r->e[i]);
}

static fv_batch batch_of(const rows *r, int64_t first, int64_t count)
{
    fv_batch b;
    fv_batch_init(&b, count);
    fv_batch_add(&b, (fv_field){.name = "inputs",
                                .dtype = FV_F32,
                                .rank = 1,
                                .shape = {9},
                                .row = r->inputs + first,
                                .length = r->steps + first});
    fv_batch_add(&b, (fv_field){.name = "targets",
                                .dtype = FV_F32,
                                .rank = 1,
                                .shape = {8},
                                .row = r->targets + first,
                                .length = r->answers + first});
    return b;
}

static fv_model *make_model(fv_ctx *ctx, const run_setting *settings)
{
    fv_recipe *recipe = run_recipe(ctx, settings);
    fv_data_spec spec = {.ability = FV_CAN_PREDICT};
    fv_model *model = NULL;
    CHECK(fv_data_spec_set(&spec, "inputs", 9) && fv_data_spec_set(&spec, "outputs", 8));
    CHECK_OK(ctx, fv_model_create(ctx, "ntm", recipe, &spec, &model));
    fv_recipe_destroy(&recipe);
    return model;
}

static const run_setting small[] = {
    {"ntm.slots", "10"}, {"ntm.width", "6"}, {"ntm.hidden", "12"}, {0}};
static const run_setting several[] = {
    {"ntm.slots", "9"},   {"ntm.width", "5"},        {"ntm.hidden", "11"},
    {"ntm.readers", "2"}, {"ntm.writers", "2"},      {"ntm.controller", "feed-forward"},
    {"ntm.shifts", "0"},  {"ntm.memory", "learned"}, {0}};
static const run_setting alone[] = {{"ntm.slots", "0"}, {"ntm.hidden", "12"}, {0}};
static const run_setting *const kinds[] = {small, several, alone};

static fv_tensor *predict(fv_ctx *ctx, fv_model *model, const fv_batch *batch, const fv_pass *pass)
{
    return fv_model_kind_of(model)->predict(ctx, fv_model_self(model), batch, pass);
}

static void a_row_does_not_depend_on_others(void)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        fv_ctx *ctx = run_context(2, 1);
        fv_model *model = make_model(ctx, kinds[k]);
        rows r;
        float all[10 * 8], one[5 * 8];
        make_rows(ctx, &r);
        fv_no_grad_begin(ctx);
        const fv_batch batch = batch_of(&r, 0, ROWS);
        CHECK_OK(ctx, fv_tensor_read(ctx, predict(ctx, model, &batch, NULL), all, sizeof all));
        int64_t at = 0;
        for (int i = 0; i < ROWS; i++) {
            const fv_batch single = batch_of(&r, i, 1);
            const size_t bytes = (size_t)r.answers[i] * 8 * sizeof *one;
            CHECK_OK(ctx, fv_tensor_read(ctx, predict(ctx, model, &single, NULL), one, bytes));
            CHECK(memcmp(one, all + at, bytes) == 0);
            at += r.answers[i] * 8;
        }
        fv_no_grad_end(ctx);
        free_rows(ctx, &r);
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
    }
}

/* The loss of a batch is the sum of its rows' losses, and every parameter gets a gradient. */
static void losses_add_up(void)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        fv_ctx *ctx = run_context(1, 1);
        fv_model *model = make_model(ctx, kinds[k]);
        const fv_model_kind *kind = fv_model_kind_of(model);
        rows r;
        double sum = 0, all = 0;
        make_rows(ctx, &r);
        for (int i = 0; i < ROWS; i++) {
            const fv_batch one = batch_of(&r, i, 1);
            double value = 0;
            fv_tensor *loss = kind->loss(ctx, fv_model_self(model), &one, NULL);
            CHECK_OK(ctx, fv_tensor_item(ctx, loss, &value));
            sum += value;
        }
        const fv_batch batch = batch_of(&r, 0, ROWS);
        fv_tensor *loss = kind->loss(ctx, fv_model_self(model), &batch, NULL);
        CHECK_OK(ctx, fv_tensor_item(ctx, loss, &all));
        CHECK_NEAR(all, sum, 1e-5 * sum);
        CHECK_OK(ctx, fv_backward(ctx, loss));
        fv_params *params = fv_model_params(model);
        for (int i = 0; i < fv_params_count(params); i++) {
            double norm = 0;
            CHECK_OK(ctx, fv_params_grad_norm(params, fv_params_name(params, i), &norm));
            if (!(norm > 0)) test_failed(__FILE__, __LINE__, "%s", fv_params_name(params, i));
        }
        free_rows(ctx, &r);
        fv_model_close(&model);
        fv_ctx_destroy(&ctx);
    }
}

/* ---- captures ------------------------------------------------------------------------------- */

typedef struct seen {
    int count, weights, shifts, gates;
    bool memory;
} seen;

static fv_status take(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    seen *s = user;
    const int64_t *shape = fv_tensor_shape(site->captured.weights);
    static float x[1 << 12];
    CHECK(fv_tensor_count(site->captured.weights) <= 1 << 12);
    CHECK_OK(ctx, fv_tensor_read(ctx, site->captured.weights, x,
                                 (size_t)fv_tensor_count(site->captured.weights) * sizeof *x));
    s->count++;
    const bool shift = strstr(site->name, ".shift") != NULL, gate = strstr(site->name, ".gate");
    const bool w = strcmp(site->name, "read.0") == 0 || strcmp(site->name, "write.0") == 0;
    s->weights += w;
    s->shifts += shift;
    s->gates += gate;
    if (strcmp(site->name, "memory") == 0) {
        s->memory = true;
        CHECK(shape[1] == 11 && shape[2] == 6 && shape[3] == 10);
        for (int i = 0; i < 60; i++) /* before the first write */
            CHECK_NEAR(x[i], 1e-6, 1e-12);
        return FV_OK;
    }
    CHECK_EQ(shape[2], 11);
    for (int64_t t = 0; t < 11; t++) {
        double sum = 0;
        for (int64_t i = 0; i < shape[3]; i++)
            sum += (double)x[t * shape[3] + i];
        if (w || shift) CHECK_NEAR(sum, 1, 1e-5);
        if (gate) CHECK(sum > 0 && sum < 1);
        if (strstr(site->name, ".sharpness")) CHECK(sum > 1);
    }
    return FV_OK;
}

static void captures_show_the_heads(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_model *model = make_model(ctx, small);
    rows r;
    seen s = {0};
    fv_site sites[4];
    make_rows(ctx, &r);
    CHECK_EQ(fv_model_kind_of(model)->attention_sites(fv_model_self(model), sites, 4), 2);
    run_check_sites(model, 2);
    CHECK_STR(sites[0].name, "read.0");
    CHECK_STR(sites[1].name, "write.0");
    const fv_capture capture = {.on_weights = take, .user = &s},
                     only = {.sites = "write.0", .on_weights = take, .user = &s};
    const fv_batch one = batch_of(&r, 1, 1), all = batch_of(&r, 0, ROWS);
    float plain[5 * 8], watched[5 * 8];
    fv_no_grad_begin(ctx);
    CHECK_OK(ctx, fv_tensor_read(ctx, predict(ctx, model, &one, NULL), plain, sizeof plain));
    fv_tensor *logits = predict(ctx, model, &one, &(fv_pass){.capture = &capture});
    CHECK_OK(ctx, fv_tensor_read(ctx, logits, watched, sizeof watched));
    CHECK(memcmp(plain, watched, sizeof plain) == 0);
    CHECK(s.count == 11 && s.weights == 2 && s.shifts == 2 && s.gates == 2 && s.memory);
    s = (seen){0};
    predict(ctx, model, &one, &(fv_pass){.capture = &only});
    CHECK(s.count == 1 && s.weights == 1);
    predict(ctx, model, &all, &(fv_pass){.capture = &capture});
    CHECK(strstr(fv_ctx_message(ctx), "one sequence at a time") != NULL);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    fv_no_grad_end(ctx);
    free_rows(ctx, &r);
    fv_model_close(&model);
    fv_ctx_destroy(&ctx);
}

/* A trace of two steps whose heads' numbers are 0.1 i - t for number i of step t. */
enum { TRACED_WIDTH = 2, TRACED_SLOTS = 3, TRACED_STEPS = 2 };

typedef struct traced_heads {
    int64_t shifts;
    int sites;
} traced_heads;

static double number_of(int64_t i, int64_t t) { return 0.1 * (double)i - (double)t; }

static fv_status compare_trace(void *user, fv_ctx *ctx, const fv_site_weights *site)
{
    traced_heads *s = user;
    float x[64];
    const bool writes = strncmp(site->name, "write.0", 7) == 0;
    const char *what = strchr(site->name, '.') ? site->name + (writes ? 7 : 6) : "memory";
    const int64_t all = TRACED_WIDTH + 3 + s->shifts, at = (writes ? all : 0) + TRACED_WIDTH;
    const size_t n = (size_t)fv_tensor_count(site->captured.weights);
    CHECK(n <= 64);
    CHECK_OK(ctx, fv_tensor_read(ctx, site->captured.weights, x, n * sizeof *x));
    s->sites++;
    for (int64_t t = 0; t < TRACED_STEPS; t++) {
        double sum = 0;
        for (int64_t i = 0; i < s->shifts; i++)
            sum += exp(number_of(at + 2 + i, t));
        if (strcmp(what, "") == 0)
            for (int64_t i = 0; i < TRACED_SLOTS; i++)
                CHECK_NEAR((double)x[t * TRACED_SLOTS + i], (double)(writes * 10 + i + 100 * t), 0);
        if (strcmp(what, ".strength") == 0)
            CHECK_NEAR((double)x[t], log1p(exp(number_of(at, t))), 1e-6);
        if (strcmp(what, ".gate") == 0)
            CHECK_NEAR((double)x[t], 1 / (1 + exp(-number_of(at + 1, t))), 1e-6);
        if (strcmp(what, ".sharpness") == 0)
            CHECK_NEAR((double)x[t], 1 + log1p(exp(number_of(at + 2 + s->shifts, t))), 1e-6);
        if (strcmp(what, ".shift") == 0 && s->shifts > 1)
            for (int64_t i = 0; i < s->shifts; i++)
                CHECK_NEAR((double)x[t * s->shifts + i], exp(number_of(at + 2 + i, t)) / sum, 1e-6);
        if (strcmp(what, ".shift") == 0 && s->shifts == 1)
            CHECK_NEAR((double)x[t], number_of(at + 2, t), 1e-6);
    }
    return FV_OK;
}

/* Every number of every head reaches its own site. */
static void traces_are_taken_apart(void)
{
    fv_ctx *ctx = run_context(1, 1);
    for (int64_t shifts = 0; shifts <= 3; shifts += 3) {
        const fv_ntm m = {.ctx = ctx,
                          .width = TRACED_WIDTH,
                          .slots = TRACED_SLOTS,
                          .heads = {.readers = 1, .writers = 1, .shifts = shifts}};
        traced_heads found = {.shifts = shifts ? shifts : 1};
        const int64_t count = 2 * (TRACED_WIDTH + 3 + found.shifts);
        fv_ntm_trace trace;
        CHECK_OK(ctx, fv_ntm_trace_make(ctx, TRACED_STEPS, &trace));
        for (int64_t t = 0; t < TRACED_STEPS; t++) {
            float number[32], weight[2 * TRACED_SLOTS], memory[TRACED_WIDTH * TRACED_SLOTS] = {0};
            for (int64_t i = 0; i < count; i++)
                number[i] = (float)number_of(i, t);
            for (int64_t i = 0; i < 2 * TRACED_SLOTS; i++)
                weight[i] = (float)(i / TRACED_SLOTS * 10 + i % TRACED_SLOTS + 100 * t);
            trace.params[t] = fv_from_host(ctx, FV_F32, 2, (int64_t[]){1, count}, number);
            trace.weights[t] =
                fv_from_host(ctx, FV_F32, 3, (int64_t[]){1, 2, TRACED_SLOTS}, weight);
            trace.memory[t] =
                fv_from_host(ctx, FV_F32, 3, (int64_t[]){1, TRACED_WIDTH, TRACED_SLOTS}, memory);
        }
        const fv_capture capture = {.on_weights = compare_trace, .user = &found};
        fv_ntm_trace_give(ctx, &m, &trace, &(fv_pass){.capture = &capture});
        CHECK_OK(ctx, fv_ctx_error(ctx));
        CHECK_EQ(found.sites, 11);
        fv_ntm_trace_free(ctx, &trace);
    }
    fv_ctx_destroy(&ctx);
}

static void wrong_batches_are_refused(void)
{
    fv_ctx *ctx = run_context(1, 1);
    fv_model *model = make_model(ctx, small);
    rows r;
    make_rows(ctx, &r);
    fv_batch b = batch_of(&r, 0, 1);
    b.field[0].shape[0] = 7;
    predict(ctx, model, &b, NULL);
    CHECK(strstr(fv_ctx_message(ctx), "\"inputs\" must be sequences of 9 floats") != NULL);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    b = batch_of(&r, 0, 1);
    r.answers[0] = r.steps[0] + 1;
    predict(ctx, model, &b, NULL);
    CHECK(strstr(fv_ctx_message(ctx), "6 answers for 5 steps") != NULL);
    CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
    free_rows(ctx, &r);
    fv_model_close(&model);
    fv_data_spec spec = {.ability = FV_CAN_PREDICT};
    CHECK_EQ(fv_model_create(ctx, "ntm", NULL, &spec, &model), FV_ERR_ARGUMENT);
    fv_ctx_destroy(&ctx);
}

/* ---- training ------------------------------------------------------------------------------- */

static const run_setting copying[] = {{"train.task", "bit-sequences"},
                                      {"bits.longest", "3"},
                                      {"bits.width", "4"},
                                      {"bits.valid_count", "30"},
                                      {"bits.test_lengths", "4"},
                                      {"bits.curriculum", "100"},
                                      {"ntm.slots", "12"},
                                      {"ntm.width", "8"},
                                      {"ntm.hidden", "32"},
                                      {"train.steps", "3000"},
                                      {"train.optimizer", "rmsprop"},
                                      {"train.lr", "0.001"},
                                      {"train.momentum", "0.9"},
                                      {"train.clip", "10"},
                                      {"train.batch_examples", "2"},
                                      {"train.eval_every", "1500"},
                                      {"train.save_every", "0"},
                                      {"eval.samples", "0"},
                                      {0}};

static void training_learns_to_copy(void)
{
    fv_ctx *ctx = run_context(1, 1);
    run_watch w = {.stop = 0};
    CHECK_EQ(run_text(ctx, run_recipe(ctx, copying), folder_sub("copy"), &w), FV_OK);
    CHECK_EQ(w.count, 3);
    CHECK_STR(w.last[0].name, "bits");
    CHECK_STR(w.last[2].name, "wrong_4");
    printf("bits a sequence: %.3f, then %.3f\n", w.first[0].value, w.last[0].value);
    CHECK(w.last[0].value < 0.5);
}

static void a_resumed_run_has_the_same_bits(void)
{
    char folders[2][512];
    for (int cut = 0; cut < 2; cut++) {
        char *folder = folders[cut];
        snprintf(folder, sizeof folders[cut], "%s", folder_sub(cut ? "cut" : "whole"));
        for (int part = cut ? 0 : 1; part < 2; part++) {
            fv_ctx *ctx = run_context(1, 1);
            fv_recipe *recipe = run_recipe(ctx, copying);
            run_set(ctx, recipe,
                    (run_setting[]){{"train.steps", "60"},
                                    {"train.eval_every", "60"},
                                    {"train.save_every", "20"},
                                    {0}});
            run_watch w = {.stop = part == 0 ? 33 : 0};
            CHECK_EQ(run_text(ctx, recipe, folder, &w), part == 0 ? FV_ERR_CANCELLED : FV_OK);
        }
    }
    CHECK(file_same_in(folders[0], folders[1], "model.safetensors"));
}

static void settings_that_do_not_fit_are_refused(void)
{
    static const struct {
        run_setting setting;
        const char *message;
    } cases[] = {
        {{"bits.shortest", "9"}, "bits.shortest is 9, expected at most bits.longest, 3"},
        {{"bits.longest", "4000"}, "gives 8001 steps"},
        {{"bits.test_lengths", "4;5"}, "bits.test_lengths: expected numbers"},
        {{"bits.test_lengths", "1,2,3,4,5,6"}, "expected at most 5 lengths"},
        {{"train.batch_examples", "5000"}, "train.batch_examples is 5000"},
        {{"ntm.shifts", "4"}, "ntm.shifts is 4, expected an odd number"},
        {{"model.kind", "cnn"}, "cnn"},
    };
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_sub("refused"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fv_ctx *ctx = run_context(1, 1);
        fv_recipe *recipe = run_recipe(ctx, copying);
        fv_run *run = NULL;
        run_set(ctx, recipe, (run_setting[]){cases[i].setting, {0}});
        CHECK_EQ(fv_run_create(ctx, recipe, folder, NULL, NULL, &run), FV_ERR_ARGUMENT);
        if (!strstr(fv_ctx_message(ctx), cases[i].message))
            test_failed(__FILE__, __LINE__, "%s", fv_ctx_message(ctx));
        fv_run_destroy(&run);
        fv_recipe_destroy(&recipe);
        fv_ctx_destroy(&ctx);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    RUN(copies_and_repeats);
    RUN(recalls_and_sorts);
    RUN(ngrams_have_an_optimum);
    RUN(impossible_sequences_are_refused);
    RUN(a_row_does_not_depend_on_others);
    RUN(losses_add_up);
    RUN(captures_show_the_heads);
    RUN(traces_are_taken_apart);
    RUN(wrong_batches_are_refused);
    RUN(training_learns_to_copy);
    RUN(a_resumed_run_has_the_same_bits);
    RUN(settings_that_do_not_fit_are_refused);
    folder_remove();
    return TEST_END();
}
