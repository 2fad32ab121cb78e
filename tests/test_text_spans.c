/*
 * Span corruption: what a step's rows hold, the shares that a recipe asks for, interruptions that
 * change no bit, and what is wrong with an input.
 */
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/run.h"
#include "train/tasks/text.h"

enum { LINES = 120 };

static char text_path[512];

static void write_text(void)
{
    static const char *const starts[] = {"rose is red", "sky is blue", "sun is hot", "ice is cold"};
    static char text[40000];
    size_t n = 0;
    for (int i = 0; i < LINES; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "number %d the %s and the %s\n", i % 7,
                              starts[i % 4], starts[i % 4]);
    snprintf(text_path, sizeof text_path, "%s", folder_path("text.txt"));
    file_write(text_path, text, n);
}

static fv_recipe *make_recipe(fv_ctx *ctx, const run_setting *more)
{
    const run_setting usual[] = {{"train.task", "spans"},
                                 {"data.documents", "lines"},
                                 {"data.valid_share", "0.2"},
                                 {"tokens.kind", "bytes"},
                                 {"tokens.vocabulary", "290"},
                                 {"transformer.encoder_layers", "1"},
                                 {"transformer.decoder_layers", "1"},
                                 {"transformer.width", "16"},
                                 {"transformer.heads", "2"},
                                 {"transformer.hidden", "32"},
                                 {"transformer.length", "48"},
                                 {"transformer.dropout", "0.1"},
                                 {"train.batch_tokens", "300"},
                                 {"train.accumulate", "2"},
                                 {"train.steps", "30"},
                                 {"train.lr", "0.01"},
                                 {"train.eval_every", "15"},
                                 {"train.save_every", "7"},
                                 {NULL, NULL}};
    fv_recipe *recipe = run_recipe(ctx, usual);
    if (recipe) run_set(ctx, recipe, (run_setting[]){{"data.train_text", text_path}, {NULL, NULL}});
    if (recipe && more) run_set(ctx, recipe, more);
    return recipe;
}

static fv_status train(const char *folder, int threads, run_watch *w)
{
    fv_ctx *ctx = run_context(threads, 5);
    return run_text(ctx, make_recipe(ctx, NULL), folder, w);
}

static void training_resumes_to_the_bit(void)
{
    char whole[512], parts[512];
    run_watch w = {0};
    snprintf(whole, sizeof whole, "%s", folder_sub("whole"));
    snprintf(parts, sizeof parts, "%s", folder_sub("parts"));
    CHECK_EQ(train(whole, 1, &w), FV_OK);
    CHECK_EQ(w.count, 1);
    CHECK_STR(w.last[0].name, "loss");
    CHECK(w.last[0].value < w.first[0].value && w.last[0].value < 4);
    CHECK_EQ(train(parts, 2, &(run_watch){.stop = 5}), FV_ERR_CANCELLED);
    CHECK_EQ(train(parts, 4, &(run_watch){.stop = 18}), FV_ERR_CANCELLED);
    CHECK_EQ(train(parts, 1, &(run_watch){0}), FV_OK);
    CHECK(file_same_in(whole, parts, "model.safetensors"));
}

/* ---- what a row holds ------------------------------------------------------------------------ */

typedef struct tally {
    int64_t tokens, removed, spans, at_start, at_end;
} tally;

static int64_t sentinel(const fv_text_task *task, int i)
{
    char name[32];
    snprintf(name, sizeof name, "<extra_id_%d>", i);
    return fv_tokenizer_token_to_id(task->tokenizer, name, strlen(name));
}

/* The text whose spans were removed: the source with each sentinel replaced by what follows it in
 * the target. Returns its length. */
static int64_t restore(const fv_text_task *task, const fv_sequences *x, const fv_sequences *y,
                       int64_t i, int64_t *out, tally *t)
{
    const int64_t *source = x->tokens[i], *target = y->tokens[i];
    int64_t n = 0, at = 0, end = x->length[i] - 1;
    int next = 0;
    CHECK_EQ(source[end], fv_tokenizer_token_to_id(task->tokenizer, "</s>", 4));
    t->at_start += source[0] == sentinel(task, 0);
    for (int64_t j = 0; j < end; j++) {
        if (source[j] != sentinel(task, next)) {
            out[n++] = source[j];
            continue;
        }
        CHECK(j == 0 || source[j - 1] != sentinel(task, next - 1)); /* spans do not touch */
        CHECK_EQ(target[at++], sentinel(task, next++));
        const int64_t before = n;
        while (at < y->length[i] && target[at] != sentinel(task, next))
            out[n++] = target[at++];
        CHECK(n > before);
        t->removed += n - before;
        t->spans++;
        t->at_end += j == end - 1;
    }
    CHECK_EQ(at, y->length[i] - 1);
    CHECK_EQ(target[at], sentinel(task, next)); /* the last one ends the target */
    t->tokens += n;
    return n;
}

static bool is_piece(const fv_text_part *p, const int64_t *tokens, int64_t n)
{
    for (int64_t i = 0; i < p->piece_count; i++)
        if (p->pieces[i].length == n &&
            memcmp(p->tokens + p->pieces[i].at, tokens, (size_t)n * sizeof *tokens) == 0)
            return true;
    return false;
}

/* All rows of a step, one after the other, ended by -1; returns their number. */
static int64_t rows_of(fv_run *run, const fv_task_kind *kind, uint64_t step, int64_t *out, tally *t)
{
    const fv_text_task *task = fv_run_task(run);
    fv_step_plan plan = {.parts = 1};
    int64_t rows = 0;
    double targets = 0;
    CHECK_EQ(kind->begin(fv_run_task(run), fv_run_model(run), step, 0, &plan), FV_OK);
    for (int64_t part = 0; part < plan.parts; part++) {
        fv_batch batch;
        CHECK_EQ(kind->batch(fv_run_task(run), fv_run_model(run), step, 0, part, &batch), FV_OK);
        const fv_sequences x = fv_batch_sequences(&batch, "source"),
                           y = fv_batch_sequences(&batch, "target");
        targets += (double)fv_batch_target_tokens(&batch);
        for (int64_t i = 0; i < x.count; i++, rows++) {
            int64_t text[64];
            const int64_t n = restore(task, &x, &y, i, text, t);
            CHECK(is_piece(&task->part[FV_TEXT_TRAIN], text, n));
            for (int64_t j = 0; j < x.length[i]; j++)
                *out++ = x.tokens[i][j];
        }
    }
    *out = -1;
    CHECK(targets == plan.tokens);
    return rows;
}

static void rows_are_texts_without_spans(void)
{
    enum { STEPS = 60 };
    static int64_t first[5000], again[5000], other[5000];
    fv_ctx *ctx = run_context(1, 5);
    fv_recipe *recipe = make_recipe(ctx, (run_setting[]){{"data.length", "40"}, {NULL, NULL}});
    fv_run *run = NULL;
    tally t = {0};
    int64_t rows = 0;
    const fv_task_kind *kind = fv_task_kind_find(ctx, "spans");
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("rows"), NULL, NULL, &run));
    int64_t place[FV_TASK_POSITION] = {0};
    kind->get_position(fv_run_task(run), place);
    for (uint64_t step = 0; step < STEPS; step++)
        rows += rows_of(run, kind, step, step == 0 ? first : other, &t);
    CHECK(rows > 500);
    CHECK_NEAR((double)t.removed / (double)t.tokens, 0.15, 0.02);
    CHECK_NEAR((double)t.removed / (double)t.spans, 3, 0.5);
    CHECK(t.at_start > 0 && t.at_end > 0); /* every place of a text can be removed */
    /* A step's rows follow from its number and the place in the data. */
    tally rest = {0};
    CHECK_EQ(kind->set_position(fv_run_task(run), place), FV_OK);
    rows_of(run, kind, 0, again, &rest);
    CHECK(memcmp(first, again, sizeof first) == 0);
    CHECK_EQ(kind->set_position(fv_run_task(run), place), FV_OK);
    rows_of(run, kind, 1, again, &rest);
    CHECK(memcmp(first, again, sizeof first) != 0);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

static void keys_change_shares(void)
{
    static int64_t rows[5000];
    fv_ctx *ctx = run_context(1, 5);
    fv_recipe *recipe = make_recipe(ctx, (run_setting[]){{"train.span_share", "0.5"},
                                                         {"train.span_length", "2"},
                                                         {"data.length", "20"},
                                                         {NULL, NULL}});
    fv_run *run = NULL;
    tally t = {0};
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("shares"), NULL, NULL, &run));
    for (uint64_t step = 0; step < 30; step++)
        rows_of(run, fv_task_kind_find(ctx, "spans"), step, rows, &t);
    CHECK_NEAR((double)t.removed / (double)t.tokens, 0.5, 0.03);
    CHECK_NEAR((double)t.removed / (double)t.spans, 2, 0.3);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

/* ---- what is wrong ----------------------------------------------------------------------------
 */

static void bad_recipes_are_named(void)
{
    static const struct {
        run_setting more[3];
        const char *message;
    } bad[] = {
        {{{"data.train_text", ""}}, "data.train_text is missing"},
        {{{"data.length", "46"}}, "data.length is 46, expected at most 45"},
        {{{"data.length", "1"}}, "expected at least 2"},
        {{{"transformer.length", "512"}, {"data.length", "300"}}, "the tokenizer 12 sentinels"},
        {{{"transformer.family", "gpt2"}}, "gpt2 models do not have an encoder"}};
    fv_ctx *ctx = run_context(1, 5);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fv_recipe *recipe = make_recipe(ctx, bad[i].more);
        fv_run *run = NULL;
        CHECK_EQ(fv_run_create(ctx, recipe, folder_path("."), NULL, NULL, &run), FV_ERR_ARGUMENT);
        if (!strstr(fv_ctx_message(ctx), bad[i].message))
            test_failed(__FILE__, __LINE__, "recipe %zu: %s", i, fv_ctx_message(ctx));
        fv_run_destroy(&run);
        fv_recipe_destroy(&recipe);
    }
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    write_text();
    RUN(training_resumes_to_the_bit);
    RUN(rows_are_texts_without_spans);
    RUN(keys_change_shares);
    RUN(bad_recipes_are_named);
    folder_remove();
    return TEST_END();
}
