/*
 * Models that point at their inputs: the loss of a step is what a search finds for the same
 * choices, outputs are valid and do not depend on the batch, permuted sets give permuted answers,
 * gradients are those of central differences, a run learns in seconds and resumes with the same
 * bits, and bad batches are named.
 */
#include "data/points.h"
#include "fovea/autograd.h"
#include "fovea/ops.h"
#include "support/failing.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"

enum { SETS = 5, LONGEST = 7 };

static fv_ctx *ctx;

static const struct {
    const char *kind, *setting, *value;
} kinds[] = {
    {"pointer", "pointer.encoder", "set"},
    {"pointer", "pointer.encoder", "lstm"},
    {"attention-tsp", "tsp.layers", "2"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool answers(int k, fv_problem problem)
{
    return k < 2 || problem == FV_PROBLEM_SORT || problem == FV_PROBLEM_TSP;
}

static fv_model *make_in(fv_ctx *in, int k, fv_problem problem, fv_status *status)
{
    fv_data_spec spec = {.ability = FV_CAN_POINT};
    fv_recipe *recipe = NULL;
    fv_model *model = NULL;
    fv_data_spec_set(&spec, "problem", problem);
    fv_data_spec_set(&spec, "point", fv_problem_width(problem));
    fv_ctx_set_step(in, 0, 0);
    const fv_key_table keys = fv_model_kind_find(in, kinds[k].kind)->keys();
    *status = fv_recipe_create(in, &keys, 1, &recipe);
    if (*status == FV_OK) *status = fv_recipe_set(recipe, kinds[k].setting, kinds[k].value);
    const char *const small[][2] = {{"pointer.width", "8"},  {"pointer.heads", "2"},
                                    {"pointer.layers", "2"}, {"pointer.frequencies", "2"},
                                    {"tsp.width", "8"},      {"tsp.heads", "2"},
                                    {"tsp.hidden", "16"}};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        if (*status == FV_OK && strncmp(small[i][0], k < 2 ? "p" : "t", 1) == 0)
            *status = fv_recipe_set(recipe, small[i][0], small[i][1]);
    if (*status == FV_OK) *status = fv_model_create(in, kinds[k].kind, recipe, &spec, &model);
    fv_recipe_destroy(&recipe);
    return model;
}

static fv_model *make(int k, fv_problem problem)
{
    fv_status status;
    fv_model *model = make_in(ctx, k, problem, &status);
    CHECK_OK(ctx, status);
    return model;
}

/* Sets of different sizes with their answers. */
typedef struct sets {
    fv_instance *list[SETS];
    const void *points[SETS], *answer[SETS];
    int64_t length[SETS], count[SETS];
    fv_problem problem;
} sets;

static fv_status draw(fv_ctx *in, fv_problem problem, sets *s)
{
    const fv_points_source from = {.problem = problem, .min = 3, .max = LONGEST, .seed = 11};
    *s = (sets){.problem = problem};
    for (int i = 0; i < SETS; i++) {
        const fv_status status =
            fv_instance_draw(in, &from, FV_POINTS_TRAIN, (uint64_t)i, &s->list[i]);
        if (status != FV_OK) return status;
        s->points[i] = s->list[i]->values;
        s->answer[i] = s->list[i]->answer;
        s->length[i] = s->list[i]->n;
        s->count[i] = s->list[i]->count;
    }
    return FV_OK;
}

static void free_sets(sets *s)
{
    for (int i = 0; i < SETS; i++)
        fv_instance_free(&s->list[i]);
}

static fv_batch batch_of(const sets *s, int first, int count)
{
    fv_batch batch;
    fv_batch_init(&batch, count);
    fv_batch_add(&batch, (fv_field){.name = "points",
                                    .dtype = FV_F32,
                                    .rank = 1,
                                    .shape = {fv_problem_width(s->problem)},
                                    .row = s->points + first,
                                    .length = s->length + first});
    fv_batch_add(&batch, (fv_field){.name = "target",
                                    .dtype = FV_I64,
                                    .row = s->answer + first,
                                    .length = s->count + first});
    return batch;
}

static fv_outputs *find(fv_model *model, const fv_batch *batch, int beam)
{
    fv_search_config how;
    fv_outputs *out = NULL;
    fv_search_config_init(&how, sizeof how);
    how.beam = beam;
    how.nbest = beam;
    how.want_weights = true;
    CHECK_OK(ctx, fv_point(model, batch, &how, &out));
    return out;
}

static double loss_of(fv_model *model, const fv_batch *batch, bool training)
{
    double loss = NAN;
    const fv_pass pass = {.training = training};
    fv_scope_begin(ctx);
    fv_tensor *t = fv_model_kind_of(model)->loss(ctx, fv_model_self(model), batch, &pass);
    CHECK_OK(ctx, fv_tensor_item(ctx, t, &loss));
    fv_scope_end(ctx);
    return loss;
}

/* ---- outputs -------------------------------------------------------------------------------- */

static bool is_valid(const sets *s, int i, const fv_output *o)
{
    int64_t rank[LONGEST];
    uint8_t valid[LONGEST + 1];
    const int64_t n = s->length[i];
    fv_points_rank(s->problem, n, s->points[i], rank);
    for (int64_t t = 0; t < o->count; t++) {
        fv_points_valid(s->problem, n, rank, t, o->tokens, valid);
        if (o->tokens[t] < 0 || o->tokens[t] >= n || !valid[1 + o->tokens[t]]) return false;
    }
    fv_points_valid(s->problem, n, rank, o->count, o->tokens, valid);
    const bool all = s->problem == FV_PROBLEM_SORT || s->problem == FV_PROBLEM_TSP;
    return all ? o->count == n : o->ended && valid[0];
}

/* Every output of every search is valid; probabilities of a step add up to 1. */
static void outputs_are_valid(void)
{
    for (int k = 0; k < KINDS; k++)
        for (int p = 0; p < FV_PROBLEM_COUNT; p++) {
            sets s;
            if (!answers(k, (fv_problem)p)) continue;
            fv_model *model = make(k, (fv_problem)p);
            if (!model || draw(ctx, (fv_problem)p, &s) != FV_OK) return;
            run_check_sites(model, 1);
            const fv_batch batch = batch_of(&s, 0, SETS);
            for (int beam = 1; beam <= 4; beam += 3) {
                fv_outputs *out = find(model, &batch, beam);
                for (int i = 0; out && i < SETS; i++)
                    for (int n = 0; n < beam; n++) {
                        const fv_output *o = fv_outputs_get(out, i, n);
                        CHECK(o || n > 0);
                        if (!o) continue;
                        CHECK(is_valid(&s, i, o));
                        for (int64_t t = 0; t < o->count; t++) {
                            double sum = 0;
                            for (int64_t j = 0; j < o->positions; j++)
                                sum += (double)o->weights[t * o->positions + j];
                            CHECK_NEAR(sum, 1, 1e-5);
                        }
                    }
                fv_outputs_free(&out);
            }
            free_sets(&s);
            fv_model_close(&model);
        }
}

/* A set alone and among others: the same choices, and the same bits of their probability. */
static void batches_change_nothing(void)
{
    for (int k = 0; k < KINDS; k++)
        for (int p = 0; p < FV_PROBLEM_COUNT; p++)
            for (int beam = 1; beam <= 3; beam += 2) {
                sets s;
                if (!answers(k, (fv_problem)p)) continue;
                fv_model *model = make(k, (fv_problem)p);
                if (!model || draw(ctx, (fv_problem)p, &s) != FV_OK) return;
                const fv_batch together = batch_of(&s, 0, SETS);
                fv_outputs *all = find(model, &together, beam);
                for (int i = 0; all && i < SETS; i++) {
                    const fv_batch one = batch_of(&s, i, 1);
                    fv_outputs *alone = find(model, &one, beam);
                    const fv_output *a = fv_outputs_get(all, i, 0),
                                    *b = alone ? fv_outputs_get(alone, 0, 0) : NULL;
                    CHECK(b && a->count == b->count && a->log_prob == b->log_prob);
                    if (b && a->count == b->count)
                        CHECK(memcmp(a->tokens, b->tokens, (size_t)a->count * sizeof *a->tokens) ==
                              0);
                    fv_outputs_free(&alone);
                }
                fv_outputs_free(&all);
                free_sets(&s);
                fv_model_close(&model);
            }
}

/* Inputs in another order: a model without positions gives the same points. */
static void sets_have_no_order(void)
{
    for (int k = 0; k < KINDS; k += 2)
        for (int p = 0; p < FV_PROBLEM_COUNT; p++) {
            sets s;
            float rotated[2 * LONGEST];
            if (!answers(k, (fv_problem)p)) continue;
            fv_model *model = make(k, (fv_problem)p);
            if (!model || draw(ctx, (fv_problem)p, &s) != FV_OK) return;
            const int64_t n = s.length[1], width = fv_problem_width((fv_problem)p);
            for (int64_t i = 0; i < n; i++)
                for (int64_t c = 0; c < width; c++)
                    rotated[((i + 2) % n) * width + c] = s.list[1]->values[i * width + c];
            const fv_batch one = batch_of(&s, 1, 1);
            fv_outputs *a = find(model, &one, 1);
            s.points[1] = rotated;
            const fv_batch two = batch_of(&s, 1, 1);
            fv_outputs *b = find(model, &two, 1);
            const fv_output *x = a ? fv_outputs_get(a, 0, 0) : NULL,
                            *y = b ? fv_outputs_get(b, 0, 0) : NULL;
            CHECK(x && y && x->count == y->count);
            for (int64_t t = 0; x && y && t < x->count; t++)
                CHECK_EQ((x->tokens[t] + 2) % n, y->tokens[t]);
            fv_outputs_free(&a);
            fv_outputs_free(&b);
            free_sets(&s);
            fv_model_close(&model);
        }
}

/* Larger keys: logits that the model's bound bends, as trained ones are. */
static void raise_logits(fv_model *model)
{
    fv_tensor *w = fv_params_find(fv_model_params(model), "project_node_embeddings.weight");
    if (!w) return;
    const size_t bytes = (size_t)fv_tensor_count(w) * sizeof(float);
    float *values = malloc(bytes);
    CHECK_OK(ctx, fv_tensor_read(ctx, w, values, bytes));
    for (size_t i = 0; i < bytes / sizeof *values; i++)
        values[i] *= 4;
    CHECK_OK(ctx, fv_tensor_write(ctx, w, values, bytes));
    free(values);
}

/* The loss over an output that a search found is minus its log-probability: all steps at once
 * compute what steps one by one do. */
static void loss_is_that_of_the_search(void)
{
    for (int k = 0; k < KINDS; k++)
        for (int p = 0; p < FV_PROBLEM_COUNT; p++) {
            sets s;
            double sum = 0;
            if (!answers(k, (fv_problem)p)) continue;
            fv_model *model = make(k, (fv_problem)p);
            if (!model || draw(ctx, (fv_problem)p, &s) != FV_OK) return;
            raise_logits(model);
            const fv_batch batch = batch_of(&s, 0, SETS);
            fv_outputs *out = find(model, &batch, 1);
            for (int i = 0; out && i < SETS; i++) {
                const fv_output *o = fv_outputs_get(out, i, 0);
                s.answer[i] = o->tokens;
                s.count[i] = o->count;
                sum -= o->log_prob;
            }
            const fv_batch found = batch_of(&s, 0, SETS);
            CHECK_NEAR(loss_of(model, &found, false), sum, 2e-4 * (1 + sum));
            CHECK(sum > 1);
            fv_outputs_free(&out);
            free_sets(&s);
            fv_model_close(&model);
        }
}

/* ---- gradients ------------------------------------------------------------------------------ */

/* Along the gradient of each weight, in float: a loss of about 50 is rounded to 4e-6, which makes
 * 0.01 of a slope over a step of 2 x 5e-4. */
static void gradients_are_central_differences(void)
{
    for (int k = 0; k < KINDS; k++) {
        sets s;
        fv_model *model = make(k, FV_PROBLEM_TSP);
        if (!model || draw(ctx, FV_PROBLEM_TSP, &s) != FV_OK) return;
        const fv_batch batch = batch_of(&s, 0, SETS);
        const fv_pass pass = {.training = true};
        fv_params *params = fv_model_params(model);
        fv_scope_begin(ctx);
        CHECK_OK(ctx, fv_backward(ctx, fv_model_kind_of(model)->loss(ctx, fv_model_self(model),
                                                                     &batch, &pass)));
        for (int i = 0; i < fv_params_count(params); i++) {
            fv_tensor *w = fv_params_tensor(params, i), *g = fv_grad(ctx, w);
            if (!g) continue;
            const int64_t n = fv_tensor_count(w);
            const size_t bytes = (size_t)n * sizeof(float);
            float *at = malloc(bytes), *moved = malloc(bytes), *grad = malloc(bytes);
            double slope = 0, norm = 0, side[2] = {0, 0};
            CHECK_OK(ctx, fv_tensor_read(ctx, w, at, bytes));
            CHECK_OK(ctx, fv_tensor_read(ctx, g, grad, bytes));
            for (int64_t j = 0; j < n; j++)
                norm += (double)grad[j] * (double)grad[j];
            norm = sqrt(norm);
            /* the steepest direction has the largest difference; a wrong gradient another one */
            const double step = 5e-4;
            for (int sign = 0; sign < 2 && norm > 1e-3; sign++) {
                for (int64_t j = 0; j < n; j++)
                    moved[j] = at[j] + (float)((sign ? -step : step) * (double)grad[j] / norm);
                CHECK_OK(ctx, fv_tensor_write(ctx, w, moved, bytes));
                side[sign] = loss_of(model, &batch, true);
            }
            CHECK_OK(ctx, fv_tensor_write(ctx, w, at, bytes));
            slope = (side[0] - side[1]) / (2 * step);
            if (norm > 1e-3 && !(fabs(slope - norm) <= 0.01 * norm + 0.02))
                test_failed(__FILE__, __LINE__, "%s: %s: slope %g, gradient %g", kinds[k].value,
                            fv_params_name(params, i), slope, norm);
            free(at);
            free(moved);
            free(grad);
        }
        fv_scope_end(ctx);
        free_sets(&s);
        fv_model_close(&model);
    }
}

/* ---- bad batches ---------------------------------------------------------------------------- */

static void bad_batches_are_named(void)
{
    sets s;
    fv_outputs *out = NULL;
    fv_search_config how;
    fv_model *model = make(0, FV_PROBLEM_HULL);
    if (!model || draw(ctx, FV_PROBLEM_HULL, &s) != FV_OK) return;
    fv_search_config_init(&how, sizeof how);
    const fv_batch good = batch_of(&s, 0, SETS);
    fv_batch bad = good;
    bad.field[0].name = "pixels";
    CHECK_EQ(fv_point(model, &bad, &how, &out), FV_ERR_ARGUMENT);
    bad = good;
    bad.field[0].shape[0] = 1;
    CHECK_EQ(fv_point(model, &bad, &how, &out), FV_ERR_ARGUMENT);
    s.length[2] = 2;
    CHECK_EQ(fv_point(model, &good, &how, &out), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "set 2 has 2 inputs"));
    s.length[2] = s.list[2]->n;
    const float kept = s.list[1]->values[3];
    s.list[1]->values[3] = NAN;
    CHECK_EQ(fv_point(model, &good, &how, &out), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "input 1 is not finite"));
    s.list[1]->values[3] = kept;
    CHECK(!out);
    const int64_t twice[] = {0, 1, 0}, outside[] = {0, 1, 9}, *const answer[] = {twice, outside};
    for (int i = 0; i < 2; i++) {
        s.answer[0] = answer[i];
        s.count[0] = 3;
        fv_scope_begin(ctx);
        fv_tensor *t = fv_model_kind_of(model)->loss(ctx, fv_model_self(model), &good, NULL);
        CHECK(!fv_tensor_valid(t));
        CHECK_EQ(fv_ctx_take_error(ctx), FV_ERR_ARGUMENT);
        fv_scope_end(ctx);
    }
    free_sets(&s);
    fv_model_close(&model);
    /* the attention model visits every input */
    fv_status status;
    fv_model *none = make_in(ctx, 2, FV_PROBLEM_HULL, &status);
    CHECK(!none && status == FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "expected sort or tsp"));
}

static fv_status learn_and_point(fv_ctx *in, const void *kind)
{
    fv_search_config how;
    fv_outputs *out = NULL;
    fv_status status;
    sets s = {.problem = FV_PROBLEM_TSP};
    fv_search_config_init(&how, sizeof how);
    how.beam = 2;
    fv_model *model = make_in(in, *(const int *)kind, FV_PROBLEM_TSP, &status);
    if (status == FV_OK) status = draw(in, FV_PROBLEM_TSP, &s);
    if (status == FV_OK) {
        const fv_batch batch = batch_of(&s, 0, SETS);
        fv_scope_begin(in);
        status =
            fv_backward(in, fv_model_kind_of(model)->loss(in, fv_model_self(model), &batch, NULL));
        fv_scope_end(in);
        if (status == FV_OK) status = fv_point(model, &batch, &how, &out);
        CHECK((status == FV_OK) == (out != NULL));
    }
    fv_outputs_free(&out);
    free_sets(&s);
    fv_model_close(&model);
    return status;
}

static void memory_may_run_out(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        CHECK(failing_everywhere(learn_and_point, &kind, 60) > 50);
}

/* A cancelled pass fails and keeps no memory: every op after the flag rises does nothing. */
static void a_cancelled_loss_keeps_no_memory(void)
{
    for (int k = 0; k < KINDS; k++) {
        failing_allocator f = {.fail_at = -1};
        int cancel = 0;
        fv_ctx_config cfg;
        fv_ctx *small = NULL;
        fv_status status;
        sets s;
        fv_ctx_config_init(&cfg, sizeof cfg);
        cfg.allocator = failing_allocator_table(&f);
        cfg.threads = 1;
        cfg.cancel = &cancel;
        CHECK(fv_ctx_create(&cfg, &small) == FV_OK);
        fv_model *model = make_in(small, k, FV_PROBLEM_TSP, &status);
        CHECK_OK(small, status);
        CHECK_OK(small, draw(small, FV_PROBLEM_TSP, &s));
        const fv_batch batch = batch_of(&s, 0, SETS);
        cancel = 1;
        fv_scope_begin(small);
        fv_tensor *t = fv_model_kind_of(model)->loss(small, fv_model_self(model), &batch, NULL);
        CHECK_EQ(fv_backward(small, t), FV_ERR_CANCELLED);
        fv_scope_end(small);
        (void)fv_ctx_take_error(small);
        free_sets(&s);
        fv_model_close(&model);
        fv_ctx_destroy(&small);
        CHECK_EQ(f.live, 0);
    }
}

/* ---- training ------------------------------------------------------------------------------- */

static const run_setting learning[] = {
    {"train.task", "points"},
    {"points.problem", "sort"},
    {"points.min_size", "3"},
    {"points.max_size", "4"},
    {"points.valid_count", "64"},
    {"pointer.width", "32"},
    {"pointer.layers", "1"},
    {"pointer.heads", "2"},
    {"pointer.frequencies", "5"},
    {"train.steps", "150"},
    {"train.batch_examples", "32"},
    {"train.lr", "0.004"},
    {"train.optimizer", "adam"},
    {"train.eval_every", "75"},
    {"train.save_every", "50"},
    {"eval.samples", "1"},
    {0},
};

static void sorting_is_learned_in_seconds(void)
{
    fv_ctx *own = run_context(1, 5);
    run_watch w = {.stop = 0};
    fv_recipe *recipe = run_recipe(own, learning);
    CHECK_EQ(run_text(own, recipe, folder_sub("sort"), &w), FV_OK);
    CHECK_STR(w.last[0].name, "exact");
    CHECK(w.first[0].value < w.last[0].value || w.first[0].value > 90);
    if (!(w.last[0].value > 90))
        test_failed(__FILE__, __LINE__, "%.1f %% are sorted", w.last[0].value);
}

/* Interrupted at step 60, between states, and run again: the weights of an uninterrupted run. */
static void a_resumed_run_has_the_same_bits(void)
{
    const struct {
        const char *folder;
        uint64_t stop;
    } runs[] = {{"whole", 0}, {"parts", 60}, {"parts", 0}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        fv_ctx *own = run_context(i == 2 ? 2 : 1, 5);
        run_watch w = {.stop = runs[i].stop};
        fv_recipe *recipe = run_recipe(own, learning);
        run_set(own, recipe,
                (run_setting[]){{"points.problem", "tsp"},
                                {"model.kind", "attention-tsp"},
                                {"tsp.width", "16"},
                                {"tsp.heads", "2"},
                                {"tsp.layers", "1"},
                                {"tsp.hidden", "32"},
                                {"train.steps", "80"},
                                {"train.accumulate", "2"},
                                {0}});
        CHECK_EQ(run_text(own, recipe,
                          i == 2 ? folder_path(runs[i].folder) : folder_sub(runs[i].folder), &w),
                 runs[i].stop ? FV_ERR_CANCELLED : FV_OK);
    }
    char a[512], b[512];
    snprintf(a, sizeof a, "%s", folder_path("whole"));
    snprintf(b, sizeof b, "%s", folder_path("parts"));
    CHECK(file_same_in(a, b, "model.safetensors"));
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(outputs_are_valid);
    RUN(batches_change_nothing);
    RUN(sets_have_no_order);
    RUN(loss_is_that_of_the_search);
    RUN(gradients_are_central_differences);
    RUN(bad_batches_are_named);
    RUN(memory_may_run_out);
    RUN(a_cancelled_loss_keeps_no_memory);
    RUN(sorting_is_learned_in_seconds);
    RUN(a_resumed_run_has_the_same_bits);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
