/*
 * What a run over points measures and shows: its metrics are those of a plain count over the same
 * sets, answered one at a time.
 */
#include "data/points.h"
#include "fovea/task.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"
#include "text/codepoints.h"

enum { COUNT = 70, ASKED = 40, SHOWN = 3 };

typedef struct counted {
    double exact, covered, length, best;
    fv_text shown;
} counted;

static fv_batch batch_of(fv_problem problem, const fv_instance *set, const void **row)
{
    fv_batch b;
    fv_batch_init(&b, 1);
    row[0] = set->values;
    fv_batch_add(&b, (fv_field){.name = "points",
                                .dtype = FV_F32,
                                .rank = 1,
                                .shape = {fv_problem_width(problem)},
                                .row = row,
                                .length = &set->n});
    return b;
}

static void add_line(fv_ctx *ctx, const char *name, int64_t count, const int64_t *list,
                     fv_text *out)
{
    char line[200];
    int n = snprintf(line, sizeof line, "%s", name);
    for (int64_t k = 0; k < count; k++)
        n += snprintf(line + n, sizeof line - (size_t)n, " %d", (int)list[k]);
    n += snprintf(line + n, sizeof line - (size_t)n, "\n");
    CHECK_OK(ctx, fv_text_append(ctx, out, line, (size_t)n));
}

/* Answers set i of the held-out part by itself. */
static void count_set(fv_ctx *ctx, fv_model *model, const fv_points_source *from, int64_t i,
                      counted *sum)
{
    const void *row[1];
    fv_instance *set = NULL;
    fv_search_config how;
    fv_outputs *out = NULL;
    fv_points_score score = {.exact = false};
    fv_search_config_init(&how, sizeof how);
    CHECK_OK(ctx, fv_instance_draw(ctx, from, FV_POINTS_VALID, (uint64_t)i, &set));
    const fv_batch one = batch_of(from->problem, set, row);
    CHECK_OK(ctx, fv_point(model, &one, &how, &out));
    const fv_output *o = fv_outputs_get(out, 0, 0);
    CHECK_OK(ctx, fv_points_compare(ctx, from->problem, set->n, set->values, set->answer,
                                    set->count, o->tokens, o->count, &score));
    sum->exact += score.exact;
    sum->covered += score.covered;
    if (from->problem == FV_PROBLEM_TSP) {
        sum->length += fv_tour_length(o->count, set->values, o->tokens);
        sum->best += fv_tour_length(set->n, set->values, set->answer);
    }
    if (i < SHOWN) {
        add_line(ctx, "answer", set->count, set->answer, &sum->shown);
        add_line(ctx, "output", o->count, o->tokens, &sum->shown);
    }
    fv_outputs_free(&out);
    fv_instance_free(&set);
}

static void check_metrics(fv_ctx *ctx, fv_run *run, fv_problem problem, const counted *c, double n)
{
    static const char *const names[FV_PROBLEM_COUNT] = {[FV_PROBLEM_SORT] = "places",
                                                        [FV_PROBLEM_HULL] = "area",
                                                        [FV_PROBLEM_DELAUNAY] = "triangles",
                                                        [FV_PROBLEM_TSP] = "length"};
    const bool tour = problem == FV_PROBLEM_TSP;
    fv_metric m[FV_MAX_METRICS];
    int count = 0;
    CHECK_OK(ctx, fv_run_evaluate(run, m, &count));
    CHECK_EQ(count, 2);
    CHECK_STR(m[0].name, tour ? "above" : "exact");
    CHECK_STR(m[1].name, names[problem]);
    CHECK(m[0].higher_is_better == !tour && m[1].higher_is_better == !tour);
    CHECK_NEAR(m[0].value, tour ? 100 * (c->length / c->best - 1) : 100 * c->exact / n, 1e-9);
    CHECK_NEAR(m[1].value, tour ? c->length / n : 100 * c->covered / n, 1e-9);
}

static void measure(fv_problem problem, bool limited)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_recipe *recipe =
        run_recipe(ctx, (run_setting[]){{"train.task", "points"},
                                        {"points.problem", fv_problem_name(problem)},
                                        {"points.min_size", "3"},
                                        {"points.max_size", "3"},
                                        {"points.valid_count", "70"},
                                        {"points.seed", "7"},
                                        {"eval.max_texts", limited ? "40" : "0"},
                                        {"pointer.width", "8"},
                                        {"pointer.layers", "1"},
                                        {"pointer.heads", "2"},
                                        {0}});
    const int64_t size = problem == FV_PROBLEM_SORT ? 3 : 4;
    const fv_points_source from = {.problem = problem, .min = size, .max = size, .seed = 7};
    fv_run *run = NULL;
    counted sum = {.exact = 0};
    fv_text shown = {0};
    if (size == 4) run_set(ctx, recipe, (run_setting[]){{"points.test_size", "4"}, {0}});
    folder_make();
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("run"), NULL, NULL, &run));
    const int64_t all = limited ? ASKED : COUNT;
    for (int64_t i = 0; i < all; i++)
        count_set(ctx, fv_run_model(run), &from, i, &sum);
    check_metrics(ctx, run, problem, &sum, (double)all);
    CHECK_OK(ctx, run_samples(ctx, recipe, fv_run_model(run), SHOWN, &shown));
    CHECK(shown.bytes == sum.shown.bytes && shown.bytes > 0 &&
          memcmp(shown.data, sum.shown.data, shown.bytes) == 0);
    fv_text_free(ctx, &shown);
    fv_text_free(ctx, &sum.shown);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
    folder_remove();
}

static void all_sets_are_measured(void)
{
    for (fv_problem problem = 0; problem < FV_PROBLEM_COUNT; problem++)
        measure(problem, false);
}

static void fewer_sets_are_measured_when_asked(void) { measure(FV_PROBLEM_SORT, true); }

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    RUN(all_sets_are_measured);
    RUN(fewer_sets_are_measured_when_asked);
    return TEST_END();
}
