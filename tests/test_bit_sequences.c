/* The task of bit sequences: how long the sequences of a step are. */
#include "fovea/batch.h"
#include "support/runs.h"
#include "support/test.h"

enum { BATCH = 100, STEPS = 40, SHORTEST = 2, LONGEST = 12 };

typedef struct length_range {
    int64_t min, max;
} length_range;

/* Of the sequences of a step: copying n vectors takes 2 n + 1 inputs. */
static length_range lengths_at(const fv_task_kind *kind, void *task, uint64_t step)
{
    length_range all = {.min = INT64_MAX};
    fv_step_plan plan = {.parts = 0};
    fv_batch b;
    CHECK_EQ(kind->begin(task, NULL, step, 0, &plan), FV_OK);
    CHECK_EQ(kind->batch(task, NULL, step, 0, 0, &b), FV_OK);
    const fv_field *inputs = fv_batch_find(&b, "inputs");
    CHECK(inputs && b.rows == BATCH);
    for (int64_t i = 0; inputs && i < b.rows; i++) {
        const int64_t n = (inputs->length[i] - 1) / 2;
        all.min = n < all.min ? n : all.min;
        all.max = n > all.max ? n : all.max;
    }
    return all;
}

/* The longest at some steps, with lengths evenly drawn up to it. */
static void expect_longest(const run_setting *more, const uint64_t *step, const int64_t *longest,
                           int count)
{
    static const run_setting copying[] = {{"train.task", "bit-sequences"}, {"bits.shortest", "2"},
                                          {"bits.longest", "12"},          {"bits.width", "4"},
                                          {"train.batch_examples", "100"}, {0}};
    fv_ctx *ctx = run_context(1, 5);
    fv_recipe *recipe = run_recipe(ctx, copying);
    run_set(ctx, recipe, more);
    const fv_task_kind *kind = fv_task_kind_find(ctx, "bit-sequences");
    const fv_task_config cfg = {.ctx = ctx, .recipe = recipe, .folder = ""};
    fv_data_spec spec = {.ability = FV_CAN_PREDICT};
    void *task = NULL;
    CHECK_OK(ctx, kind->open(&cfg, &spec, &task));
    for (int i = 0; i < count; i++) {
        const length_range found = lengths_at(kind, task, step[i]);
        CHECK_EQ(found.min, SHORTEST);
        CHECK_EQ(found.max, longest[i]);
    }
    kind->close(task);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

static void the_curriculum_grows_to_the_longest(void)
{
    static const run_setting growing[] = {{"bits.curriculum", "40"}, {0}},
                             short_one[] = {{"bits.curriculum", "2"}, {0}}, none[] = {{0}};
    static const uint64_t steps[] = {0, 2, 3, STEPS / 2 - 1, STEPS - 2, STEPS - 1, STEPS, 1000};
    static const int64_t longest[] = {2, 2, 3, 7, 11, LONGEST, LONGEST, LONGEST},
                         always[] = {LONGEST, LONGEST};
    expect_longest(growing, steps, longest, sizeof steps / sizeof *steps);
    expect_longest(none, steps, always, 2);
    expect_longest(short_one, (uint64_t[]){0, 1, 2}, (int64_t[]){7, LONGEST, LONGEST}, 3);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(the_curriculum_grows_to_the_longest);
    return TEST_END();
}
