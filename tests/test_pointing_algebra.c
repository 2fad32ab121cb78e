/*
 * What models that point at their inputs multiply together beforehand, against the plain formulas:
 * the embedding in the weight of an LSTM, the first layer's projections of points, the parts of a
 * query. Steps with one choice left add nothing to a loss, but their answers are checked.
 */
#include "fovea/ops.h"
#include "models/attention_tsp.h"
#include "models/model.h"
#include "models/pointer.h"
#include "nn/packed_sequences.h"
#include "support/test.h"

enum { SETS = 4, LONGEST = 6, WIDTH = 8, HEADS = 2, D = WIDTH / HEADS, HIDDEN = 16, LAYERS = 2 };

static const int64_t lengths[SETS] = {3, LONGEST, 1, 2};

static fv_ctx *ctx;

/* Sets of these lengths, and tours through them. */
typedef struct sets {
    float values[SETS][2 * LONGEST];
    int64_t tour[SETS][LONGEST], count[SETS];
    const void *points[SETS], *answers[SETS];
} sets;

static void make_sets(sets *s)
{
    for (int i = 0; i < SETS; i++) {
        for (int k = 0; k < 2 * LONGEST; k++)
            s->values[i][k] = (float)((13 * k + 29 * i + 5 * k * k) % 101) / 101.0F;
        for (int64_t t = 0; t < LONGEST; t++)
            s->tour[i][t] = (t + i + 1) % lengths[i];
        s->points[i] = s->values[i];
        s->answers[i] = s->tour[i];
        s->count[i] = lengths[i];
    }
}

static fv_batch batch_of(const sets *s, int first, int count)
{
    fv_batch batch;
    fv_batch_init(&batch, count);
    fv_batch_add(&batch, (fv_field){.name = "points",
                                    .dtype = FV_F32,
                                    .rank = 1,
                                    .shape = {2},
                                    .row = s->points + first,
                                    .length = lengths + first});
    fv_batch_add(&batch, (fv_field){.name = "target",
                                    .dtype = FV_I64,
                                    .row = s->answers + first,
                                    .length = s->count + first});
    return batch;
}

static fv_model *make(const char *kind, const char *const (*setting)[2])
{
    fv_data_spec spec = {.ability = FV_CAN_POINT};
    fv_recipe *recipe = NULL;
    fv_model *model = NULL;
    fv_data_spec_set(&spec, "problem", FV_PROBLEM_TSP);
    fv_data_spec_set(&spec, "point", 2);
    fv_ctx_set_step(ctx, 0, 0);
    const fv_key_table keys = fv_model_kind_find(ctx, kind)->keys();
    CHECK_OK(ctx, fv_recipe_create(ctx, &keys, 1, &recipe));
    for (; (*setting)[0]; setting++)
        CHECK_OK(ctx, fv_recipe_set(recipe, (*setting)[0], (*setting)[1]));
    CHECK_OK(ctx, fv_model_create(ctx, kind, recipe, &spec, &model));
    fv_recipe_destroy(&recipe);
    return model;
}

static fv_model *make_pointer(const char *encoder)
{
    const char *const settings[][2] = {{"pointer.width", "8"},       {"pointer.heads", "2"},
                                       {"pointer.layers", "2"},      {"pointer.frequencies", "1"},
                                       {"pointer.encoder", encoder}, {NULL, NULL}};
    return make("pointer", settings);
}

static fv_model *make_routes(void)
{
    static const char *const settings[][2] = {{"tsp.width", "8"},
                                              {"tsp.heads", "2"},
                                              {"tsp.hidden", "16"},
                                              {"tsp.layers", "2"},
                                              {NULL, NULL}};
    return make("attention-tsp", settings);
}

/* Other values than the ones a model begins with: no bias is 0, no norm does nothing. */
static void change_vectors(fv_model *model)
{
    fv_params *params = fv_model_params(model);
    for (int i = 0; i < fv_params_count(params); i++) {
        fv_tensor *w = fv_params_tensor(params, i);
        float values[4 * WIDTH];
        const int64_t count = fv_tensor_count(w);
        if (fv_tensor_rank(w) != 1 || count > 4 * WIDTH) continue;
        for (int64_t k = 0; k < count; k++)
            values[k] = 0.5F + 0.1F * (float)((7 * k + 3 * i) % 11);
        CHECK_OK(ctx, fv_tensor_write(ctx, w, values, (size_t)count * sizeof *values));
    }
}

static float *read_all(fv_tensor *t)
{
    const size_t bytes = (size_t)fv_tensor_count(t) * sizeof(float);
    float *values = calloc(1, bytes + 1);
    CHECK_OK(ctx, fv_tensor_read(ctx, fv_contiguous(ctx, t), values, bytes));
    return values;
}

/* Sums of at most 40 products of numbers near 1, in another order. */
static void check_near(fv_tensor *a, fv_tensor *b)
{
    CHECK(fv_tensor_count(a) == fv_tensor_count(b) && fv_tensor_count(a) > 0);
    if (fv_tensor_count(a) != fv_tensor_count(b)) return;
    float *x = read_all(a), *y = read_all(b);
    for (int64_t i = 0; i < fv_tensor_count(a); i++)
        CHECK_NEAR((double)x[i], (double)y[i], 1e-5 * (1 + fabs((double)y[i])));
    free(x);
    free(y);
}

/* ---- the pointer network -------------------------------------------------------------------- */

/* x with its sine and cosine of pi x. */
static fv_tensor *embed(const fv_pointer *m, const fv_point_sets *s)
{
    fv_tensor *x = fv_point_sets_values(ctx, s), *angle = fv_scale(ctx, x, 3.14159265358979323846);
    x = fv_concat(ctx, 3, (fv_tensor *[]){x, fv_sin(ctx, angle), fv_cos(ctx, angle)}, 1);
    return fv_linear(ctx, x, m->embed.weight, m->embed.bias);
}

static void fed_rows_give_the_gates_of_embedded_inputs(void)
{
    static const char *const encoders[] = {"set", "lstm"};
    for (int k = 0; k < 2; k++) {
        sets s;
        fv_point_sets made;
        fv_model *model = make_pointer(encoders[k]);
        if (!model) return;
        const fv_pointer *m = fv_model_self(model);
        change_vectors(model);
        make_sets(&s);
        const fv_batch batch = batch_of(&s, 0, SETS);
        CHECK_OK(ctx, fv_point_sets_make(ctx, FV_PROBLEM_TSP, &batch, &made));
        fv_scope_begin(ctx);
        const fv_pointer_memory memory = fv_pointer_encode(ctx, m, &made, false);
        const int64_t fed = fv_tensor_size(memory.table, 1);
        fv_tensor *h = fv_slice(ctx, memory.table, 1, fed - WIDTH, fed, 1);
        h = fv_slice(ctx, h, 0, 1, 1 + made.total, 1);
        fv_tensor *plain = fv_concat(ctx, 2, (fv_tensor *[]){embed(m, &made), h}, 1);
        plain = fv_concat(ctx, 2, (fv_tensor *[]){fv_unsqueeze(ctx, m->start, 0), plain}, 0);
        check_near(fv_linear(ctx, memory.table, memory.input, NULL),
                   fv_linear(ctx, plain, m->writer.weights[0][0].input, NULL));
        fv_scope_end(ctx);
        fv_point_sets_free(&made);
        fv_model_close(&model);
    }
}

/* One set after the other, through the LSTM as it is. */
static void an_lstm_reads_embedded_inputs(void)
{
    sets s;
    fv_model *model = make_pointer("lstm");
    if (!model) return;
    const fv_pointer *m = fv_model_self(model);
    change_vectors(model);
    make_sets(&s);
    for (int i = 0; i <= SETS; i++) { /* the last time, all of them */
        fv_point_sets made;
        fv_packed_sequences p;
        fv_rnn_state last;
        const int first = i < SETS ? i : 0;
        const fv_batch batch = batch_of(&s, first, i < SETS ? 1 : SETS);
        CHECK_OK(ctx, fv_point_sets_make(ctx, FV_PROBLEM_TSP, &batch, &made));
        fv_scope_begin(ctx);
        const fv_pointer_memory memory = fv_pointer_encode(ctx, m, &made, false);
        const int64_t fed = fv_tensor_size(memory.table, 1);
        fv_tensor *h = fv_slice(ctx, memory.table, 1, fed - WIDTH, fed, 1), *e = embed(m, &made);
        for (int k = 0; k < made.rows; k++) {
            CHECK_OK(ctx, fv_pack_sequences(ctx, 1, lengths + first + k, &p));
            fv_tensor *own = fv_slice(ctx, e, 0, made.begin[k], made.begin[k + 1], 1);
            own = fv_rnn_run(ctx, &m->reader, own, &p, NULL, false, &last);
            check_near(fv_slice(ctx, h, 0, 1 + made.begin[k], 1 + made.begin[k + 1], 1), own);
            check_near(fv_slice(ctx, memory.h, 0, k, k + 1, 1), last.h[1][0]);
            fv_packed_free(&p);
        }
        fv_scope_end(ctx);
        fv_point_sets_free(&made);
    }
    fv_model_close(&model);
}

/* ---- the attention model for routes --------------------------------------------------------- */

static fv_tensor *weight(fv_model *model, int layer, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "embedder.layers.%d.%s", layer, name);
    fv_tensor *w = fv_params_find(fv_model_params(model), full);
    CHECK(w != NULL);
    return w;
}

static fv_tensor *normed(fv_model *model, int layer, int which, fv_tensor *x)
{
    static const char *const name[] = {"running_mean", "running_var", "weight", "bias"};
    fv_tensor *part[4];
    for (int i = 0; i < 4; i++) {
        char full[64];
        snprintf(full, sizeof full, "%d.normalizer.%s", which, name[i]);
        part[i] = weight(model, layer, full);
    }
    x = fv_div(ctx, fv_sub(ctx, x, part[0]), fv_sqrt(ctx, fv_affine(ctx, part[1], 1, 1e-5)));
    return fv_add(ctx, fv_mul(ctx, x, part[2]), part[3]);
}

/* The layers of one set, head by head. */
static fv_tensor *encode(fv_model *model, fv_tensor *x)
{
    const fv_attention_tsp *m = fv_model_self(model);
    fv_tensor *h = fv_linear(ctx, x, m->embed.weight, m->embed.bias);
    for (int i = 0; i < LAYERS; i++) {
        const fv_attention_tsp_layer *l = &m->layer[i];
        fv_tensor *u = h;
        for (int64_t k = 0; k < HEADS; k++) {
            fv_tensor *const all[] = {l->w_query, l->w_key, l->w_val, l->w_out};
            fv_tensor *own[4];
            for (int j = 0; j < 4; j++)
                own[j] = fv_squeeze(ctx, fv_slice(ctx, all[j], 0, k, k + 1, 1), 0);
            fv_tensor *q = fv_matmul(ctx, h, own[0]), *key = fv_matmul(ctx, h, own[1]);
            fv_tensor *score = fv_matmul(ctx, q, fv_transpose(ctx, key, 0, 1));
            fv_tensor *p = fv_softmax(ctx, fv_scale(ctx, score, 1 / sqrt((double)D)), -1);
            fv_tensor *y = fv_matmul(ctx, p, fv_matmul(ctx, h, own[2]));
            u = fv_add(ctx, u, fv_matmul(ctx, y, own[3]));
        }
        h = normed(model, i, 1, u);
        fv_tensor *up = fv_relu(ctx, fv_linear(ctx, h, l->up.weight, l->up.bias));
        h = fv_add(ctx, h, fv_linear(ctx, up, l->down.weight, l->down.bias));
        h = normed(model, i, 3, h);
    }
    return h;
}

/* Rows of a set in a table with a place for every choice, which begins with that of the end. */
static fv_tensor *of_set(fv_tensor *table, int64_t i)
{
    fv_tensor *own = fv_squeeze(ctx, fv_slice(ctx, table, 0, i, i + 1, 1), 0);
    return fv_slice(ctx, own, -2, 1, 1 + lengths[i], 1);
}

/* Heads of x [n, WIDTH], as [HEADS, n, D]. */
static fv_tensor *heads_of(fv_tensor *x)
{
    return fv_transpose(ctx, fv_reshape(ctx, x, 3, (int64_t[]){-1, HEADS, D}), 0, 1);
}

static fv_tensor *rows_of(fv_tensor *w, int i)
{
    return fv_slice(ctx, w, 0, (int64_t)i * WIDTH, (int64_t)(i + 1) * WIDTH, 1);
}

static void parts_of_a_query_are_those_of_the_formula(void)
{
    sets s;
    fv_point_sets made;
    fv_model *model = make_routes();
    if (!model) return;
    fv_attention_tsp *m = fv_model_self(model);
    change_vectors(model);
    make_sets(&s);
    const fv_batch batch = batch_of(&s, 0, SETS);
    CHECK_OK(ctx, fv_point_sets_make(ctx, FV_PROBLEM_TSP, &batch, &made));
    fv_scope_begin(ctx);
    const fv_attention_tsp_memory memory = fv_attention_tsp_encode(ctx, m, &made, false);
    fv_tensor *x = fv_point_sets_values(ctx, &made);
    fv_tensor *step[2];
    for (int i = 0; i < 2; i++)
        step[i] = fv_slice(ctx, m->step, 1, (int64_t)i * WIDTH, (int64_t)(i + 1) * WIDTH, 1);
    int64_t first[SETS];
    for (int i = 0; i < SETS; i++)
        first[i] = made.begin[i] + lengths[i] - 1;
    fv_tensor *begun = fv_attention_tsp_begun(
        ctx, m, memory.h, memory.fixed, fv_from_host(ctx, FV_I64, 1, (int64_t[]){SETS}, first));
    for (int64_t i = 0; i < SETS; i++) {
        fv_tensor *h = encode(model, fv_slice(ctx, x, 0, made.begin[i], made.begin[i + 1], 1));
        check_near(fv_slice(ctx, memory.h, 0, made.begin[i], made.begin[i + 1], 1), h);
        check_near(of_set(memory.k, i), heads_of(fv_linear(ctx, h, rows_of(m->nodes, 0), NULL)));
        check_near(of_set(memory.v, i), heads_of(fv_linear(ctx, h, rows_of(m->nodes, 1), NULL)));
        fv_tensor *point = fv_linear(ctx, h, rows_of(m->nodes, 2), NULL);
        check_near(of_set(memory.point, i), fv_matmul(ctx, point, m->out));
        check_near(of_set(memory.last, i), fv_linear(ctx, h, step[1], NULL));
        fv_tensor *fixed = fv_linear(ctx, fv_mean(ctx, h, 1, (int[]){0}, true), m->fixed, NULL);
        check_near(fv_slice(ctx, memory.fixed, 0, i, i + 1, 1), fixed);
        fv_tensor *of_first = fv_slice(ctx, h, 0, lengths[i] - 1, lengths[i], 1);
        check_near(fv_slice(ctx, begun, 0, i, i + 1, 1),
                   fv_add(ctx, fixed, fv_linear(ctx, of_first, step[0], NULL)));
    }
    check_near(memory.none, fv_linear(ctx, fv_unsqueeze(ctx, m->before, 0), m->step, NULL));
    fv_scope_end(ctx);
    fv_point_sets_free(&made);
    fv_model_close(&model);
}

/* ---- losses --------------------------------------------------------------------------------- */

static double loss_of(fv_model *model, const fv_batch *batch)
{
    double loss = NAN;
    fv_scope_begin(ctx);
    fv_tensor *t = fv_model_kind_of(model)->loss(ctx, fv_model_self(model), batch, NULL);
    CHECK_OK(ctx, fv_tensor_item(ctx, t, &loss));
    fv_scope_end(ctx);
    return loss;
}

/* Of every output of a beam, also those whose first input is not the most likely one: the loss is
 * minus the log-probability that the search counted, the last and only choice included. */
static void every_output_of_a_beam_has_its_loss(void)
{
    enum { BEAM = 4 };
    for (int k = 0; k < 3; k++) {
        sets s;
        fv_search_config how;
        fv_outputs *out = NULL;
        fv_model *model = k < 2 ? make_pointer(k ? "lstm" : "set") : make_routes();
        if (!model) return;
        make_sets(&s);
        const fv_batch batch = batch_of(&s, 0, SETS);
        fv_search_config_init(&how, sizeof how);
        how.beam = how.nbest = BEAM;
        CHECK_OK(ctx, fv_point(model, &batch, &how, &out));
        int found = 0, firsts = 0;
        for (int i = 0; out && i < SETS; i++)
            for (int n = 0; n < BEAM; n++) {
                const fv_output *o = fv_outputs_get(out, i, n);
                if (!o) continue;
                s.answers[i] = o->tokens;
                s.count[i] = o->count;
                const fv_batch one = batch_of(&s, i, 1);
                CHECK_NEAR(loss_of(model, &one), -o->log_prob, 1e-5 * (1 - o->log_prob));
                if (lengths[i] == 1) CHECK_NEAR(o->log_prob, 0, 1e-6);
                firsts += o->tokens[0] != fv_outputs_get(out, i, 0)->tokens[0];
                found++;
            }
        CHECK(found > SETS && firsts > 0);
        fv_outputs_free(&out);
        fv_model_close(&model);
    }
}

/* There is no step for the last input of a tour; a wrong one is found all the same. */
static void a_last_input_is_checked(void)
{
    const struct {
        int64_t tour[3];
        const char *message;
    } bad[] = {{{2, 0, 2}, "choice 2 is not valid"},
               {{0, 1, 1}, "choice 2 is not valid"},
               {{0, 1, 3}, "input 3 of 3"},
               {{0, 1, -1}, "input -1 of 3"},
               {{0, 0, 1}, "choice 1 is not valid"}};
    fv_model *model = make_routes();
    sets s;
    if (!model) return;
    make_sets(&s);
    const fv_batch batch = batch_of(&s, 0, SETS);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        s.answers[0] = bad[i].tour;
        fv_scope_begin(ctx);
        fv_tensor *t = fv_model_kind_of(model)->loss(ctx, fv_model_self(model), &batch, NULL);
        CHECK(!fv_tensor_valid(t));
        CHECK(strstr(fv_ctx_message(ctx), bad[i].message));
        CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
        fv_scope_end(ctx);
    }
    fv_model_close(&model);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(fed_rows_give_the_gates_of_embedded_inputs);
    RUN(an_lstm_reads_embedded_inputs);
    RUN(parts_of_a_query_are_those_of_the_formula);
    RUN(every_output_of_a_beam_has_its_loss);
    RUN(a_last_input_is_checked);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
