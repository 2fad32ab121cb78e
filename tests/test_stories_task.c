/*
 * What a run over stories measures and shows: its metrics are those of a plain count over the same
 * stories, answered one at a time.
 */
#include <string.h>

#include "fovea/task.h"
#include "models/kind_reader.h"
#include "models/story_batch.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/tensors.h"
#include "support/test.h"
#include "text/codepoints.h"

static fv_ctx *ctx;

typedef struct counted {
    double asked[2], right[2], hit, chosen, due, exact;
} counted;

/* One story at a time. */
static void count_story(fv_model *model, fv_story_batch *b, counted *sum)
{
    int64_t answer[1][FV_STORY_QUESTIONS];
    fv_tensor *summary = NULL;
    const fv_story_row *r = &b->row[0];
    CHECK_OK(ctx, fv_story_batch_answer(b, model, answer, NULL));
    for (int64_t k = 0; k < r->questions; k++) {
        sum->asked[r->follow_up[k]]++;
        if (answer[0][k] == r->answer[k]) sum->right[r->follow_up[k]]++;
    }
    const fv_batch batch = fv_story_batch_of(b, 0, 1);
    fv_scope_begin(ctx);
    fv_reader_run(ctx, fv_model_self(model), &batch, NULL, &summary);
    float *x = tensor_floats(ctx, summary);
    bool exact = true;
    for (int64_t k = 0; x && k < r->sentences; k++) {
        if (x[k] > 0) sum->chosen++;
        if (r->summary[k]) sum->due++;
        if (x[k] > 0 && r->summary[k]) sum->hit++;
        if ((x[k] > 0) != (r->summary[k] != 0)) exact = false;
    }
    if (exact) sum->exact++;
    free(x);
    fv_scope_end(ctx);
}

static void check_metrics(fv_run *run, const counted *c)
{
    fv_metric m[FV_MAX_METRICS];
    int count = 0;
    CHECK_OK(ctx, fv_run_evaluate(run, m, &count));
    CHECK_EQ(count, 4);
    CHECK_STR(m[0].name, "accuracy");
    CHECK_NEAR(m[0].value, c->right[0] / c->asked[0], 1e-12);
    CHECK_STR(m[1].name, "follow_up");
    CHECK_NEAR(m[1].value, c->right[1] / c->asked[1], 1e-12);
    CHECK_STR(m[2].name, "summary_f1");
    CHECK_NEAR(m[2].value, 2 * c->hit / (c->chosen + c->due), 1e-12);
    CHECK_STR(m[3].name, "summary_exact");
    CHECK_NEAR(m[3].value, c->exact / 21, 1e-12);
    for (int i = 0; i < count; i++)
        CHECK(m[i].higher_is_better);
}

static void metrics_are_those_of_a_plain_count(void)
{
    fv_recipe *recipe = run_recipe(ctx, (run_setting[]){{"train.task", "stories"},
                                                        {"data.train_count", "200"},
                                                        {"data.valid_count", "21"},
                                                        {"train.batch_examples", "16"},
                                                        {"train.optimizer", "adam"},
                                                        {"train.lr", "0.005"},
                                                        {"train.steps", "40"},
                                                        {"train.eval_every", "0"},
                                                        {"reader.width", "16"},
                                                        {"reader.heads", "2"},
                                                        {"reader.summary", "1"},
                                                        {0}});
    fv_run *run = NULL;
    fv_story_batch b;
    int64_t words[FV_STORY_VOCABULARY];
    counted sum = {.exact = 0};
    fv_text shown = {0};
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("run"), NULL, NULL, &run));
    fv_model *model = fv_run_model(run);
    CHECK_OK(ctx, fv_run_train(run));
    CHECK_OK(ctx, fv_story_batch_create(ctx, 1, &b));
    CHECK_OK(ctx, fv_story_tokens(ctx, fv_model_spec(model)->source, words));
    for (uint64_t i = 0; i < 21; i++) {
        fv_story s;
        fv_story_make(1, FV_MADE_VALID, i, &s);
        b.count = 0;
        fv_story_batch_add(&b, words, &s);
        count_story(model, &b, &sum);
        if (i > 1) continue;
        /* every question of the first two stories is shown */
        for (int k = 0; k < s.question_count; k++) {
            char text[FV_STORY_TEXT];
            fv_story_text(&s.question[k].words, text);
            fv_text_free(ctx, &shown);
            CHECK_OK(ctx, run_samples(ctx, recipe, model, 2, &shown));
            CHECK(shown.data && strstr(shown.data, text) != NULL);
        }
    }
    CHECK(sum.right[0] > 0 && sum.right[1] > 0 && sum.right[0] < sum.asked[0] && sum.hit > 0 &&
          sum.chosen != sum.due);
    check_metrics(run, &sum);
    fv_text_free(ctx, &shown);
    fv_story_batch_free(&b);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_prefer_memory();
    folder_make();
    ctx = run_context(1, 1);
    RUN(metrics_are_those_of_a_plain_count);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
