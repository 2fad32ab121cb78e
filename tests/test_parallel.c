/* Parallel files as tokens: what is kept, what is left out and counted, what is refused, and that
 * batches of them can be gone back to. */
#include "fovea/batch.h"
#include "fovea/task.h"
#include "fovea/translate.h"
#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;
static fv_model *words; /* 0 unknown, then: the a cat dog sat ran */

static void text_file(const char *name, const char *text)
{
    file_write(folder_path(name), text, strlen(text));
}

static fv_status load(const char *source, const char *target, const fv_parallel_config *cfg,
                      fv_parallel_report *report, fv_parallel **out)
{
    char a[300], b[300];
    snprintf(a, sizeof a, "%s", folder_path(source));
    snprintf(b, sizeof b, "%s", folder_path(target));
    fv_status status = fv_parallel_create(words, out);
    if (status == FV_OK) status = fv_parallel_read(*out, a, b, cfg, report);
    if (status != FV_OK) fv_parallel_destroy(out);
    return status;
}

static fv_parallel_config defaults(void)
{
    fv_parallel_config cfg;
    fv_parallel_config_init(&cfg, sizeof cfg);
    return cfg;
}

static void check_tokens(const int64_t *tokens, int64_t count, int64_t wanted, const int64_t *want)
{
    CHECK_EQ(count, wanted);
    for (int64_t i = 0; i < count && i < wanted; i++)
        CHECK_EQ(tokens[i], want[i]);
}

static void pairs(void)
{
    fv_parallel_config cfg = defaults();
    fv_parallel_report r;
    fv_parallel *p = NULL;
    fv_batch batch;
    text_file("x", "the cat sat\n\na dog\nthe dog ran ran ran\n");
    text_file("y", "a cat\nempty\n\na\n");
    CHECK_OK(ctx, load("x", "y", &cfg, &r, &p));
    CHECK(r.pairs == 2 && r.empty == 2 && r.too_long == 0 && r.invalid == 0);
    CHECK_EQ(fv_parallel_count(p), 2);
    CHECK_STR(fv_parallel_source(p, 1).text, "the dog ran ran ran");
    CHECK_EQ(fv_parallel_tokens(p, 0), 3 + 2 + 1);
    CHECK_OK(ctx, fv_parallel_pick(p, 2, (int64_t[]){1, 0}, &batch));
    const fv_sequences x = fv_batch_sequences(&batch, "source"),
                       y = fv_batch_sequences(&batch, "target");
    check_tokens(x.tokens[0], x.length[0], 5, (int64_t[]){1, 4, 6, 6, 6});
    check_tokens(y.tokens[0], y.length[0], 1, (int64_t[]){2});
    check_tokens(x.tokens[1], x.length[1], 3, (int64_t[]){1, 3, 5});
    check_tokens(y.tokens[1], y.length[1], 2, (int64_t[]){2, 3});
    CHECK_EQ(fv_parallel_pick(p, 1, (int64_t[]){2}, &batch), FV_ERR_INDEX);
    CHECK_EQ(fv_parallel_pick(p, 1, (int64_t[]){-1}, &batch), FV_ERR_INDEX);
    fv_parallel_destroy(&p);
    CHECK(p == NULL);

    cfg.keep_empty = true; /* a target may be empty, a source not */
    cfg.max_tokens = 4;
    CHECK_OK(ctx, load("x", "y", &cfg, &r, &p));
    CHECK(r.pairs == 2 && r.empty == 1 && r.too_long == 1);
    CHECK_OK(ctx, fv_parallel_pick(p, 1, (int64_t[]){1}, &batch));
    CHECK_EQ(fv_batch_sequences(&batch, "target").length[0], 0);
    fv_parallel_destroy(&p);
}

static void what_is_not_text(void)
{
    fv_parallel_config cfg = defaults();
    fv_parallel_report r;
    fv_parallel *p = NULL;
    text_file("x", "the cat\nthe dog\na cat\n");
    text_file("y", "a\n\xff\na\n");
    CHECK_EQ(load("x", "y", &cfg, &r, &p), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "y:2: invalid UTF-8"));
    cfg.skip_invalid = true;
    CHECK_OK(ctx, load("x", "y", &cfg, &r, &p));
    CHECK(r.pairs == 2 && r.invalid == 1);
    CHECK_STR(fv_parallel_source(p, 1).text, "a cat");
    fv_parallel_destroy(&p);
}

static void what_is_refused(void)
{
    fv_parallel *p = NULL;
    text_file("two", "the\na\n");
    text_file("three", "the\na\ncat\n");
    CHECK_EQ(load("two", "three", NULL, NULL, &p), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "two' has 2 lines"));
    CHECK(strstr(fv_ctx_message(ctx), "three' has 3: they must match line by line"));
    CHECK_EQ(load("three", "two", NULL, NULL, &p), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "three' has 3 lines"));
    CHECK_EQ(load("absent", "two", NULL, NULL, &p), FV_ERR_IO);
    CHECK_EQ(load("two", "absent", NULL, NULL, &p), FV_ERR_IO);
    fv_parallel_config cfg = defaults();
    cfg.struct_size = 3;
    CHECK_EQ(load("two", "two", &cfg, NULL, &p), FV_ERR_ARGUMENT);
    CHECK(p == NULL);
}

/* Batches of pairs: every pair once an epoch, and a place gives the same pairs again. */
static void batches(void)
{
    enum { EXAMPLES = 300 };
    static char text[EXAMPLES * 40];
    static int64_t lengths[EXAMPLES];
    size_t used = 0;
    for (int i = 0; i < EXAMPLES; i++) {
        for (int k = 0; k <= i % 7; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, "cat ");
        text[used - 1] = '\n';
    }
    text[used] = '\0';
    text_file("many", text);
    fv_parallel *p = NULL;
    CHECK_OK(ctx, load("many", "many", NULL, NULL, &p));
    CHECK_EQ(fv_parallel_count(p), EXAMPLES);
    for (int i = 0; i < EXAMPLES; i++)
        lengths[i] = fv_parallel_tokens(p, i);
    fv_batches_config how;
    fv_batches_config_init(&how, sizeof how);
    how.tokens = 50;
    how.seed = 9;
    fv_batches *all = NULL;
    CHECK_OK(ctx, fv_batches_create(ctx, EXAMPLES, lengths, &how, &all));
    int seen[EXAMPLES] = {0}, examples = 0;
    int64_t epoch = 0, index = 0, first = -1;
    fv_picked b;
    while (examples < EXAMPLES) {
        CHECK_OK(ctx, fv_batches_next(all, &b));
        CHECK(b.tokens <= 50);
        for (int64_t i = 0; i < b.count; i++)
            seen[b.example[i]]++, examples++;
        if (b.index == 3) {
            fv_batches_place(all, &epoch, &index);
            CHECK_OK(ctx, fv_batches_next(all, &b));
            first = b.example[0];
            CHECK_OK(ctx, fv_batches_seek(all, epoch, index));
            CHECK_OK(ctx, fv_batches_next(all, &b));
            CHECK_EQ(b.example[0], first);
            CHECK_OK(ctx, fv_batches_seek(all, epoch, index));
        }
    }
    for (int i = 0; i < EXAMPLES; i++)
        CHECK_EQ(seen[i], 1);
    CHECK(first >= 0);
    fv_batches_destroy(&all);
    fv_parallel_destroy(&p);
}

static bool make_translator(void)
{
    static const char json[] =
        "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"WordLevel\","
        "\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"the\":1,\"a\":2,\"cat\":3,\"dog\":4,\"sat\":5,"
        "\"ran\":6,\"<s>\":7,\"</s>\":8}}}";
    fv_tokenizer *tok = NULL;
    fv_recipe *recipe = NULL;
    const bool made =
        fv_run_recipe(ctx, &recipe) == FV_OK &&
        fv_recipe_set(recipe, "model.hidden", "4") == FV_OK &&
        fv_tokenizer_parse(ctx, "t", json, sizeof json - 1, &tok) == FV_OK &&
        fv_model_create(ctx, "recurrent", recipe,
                        &(fv_data_spec){.ability = FV_CAN_TRANSLATE, .source = tok, .target = tok},
                        &words) == FV_OK;
    fv_recipe_destroy(&recipe);
    return made;
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK || !make_translator()) return 1;
    folder_make();
    RUN(pairs);
    RUN(what_is_not_text);
    RUN(what_is_refused);
    RUN(batches);
    folder_remove();
    fv_model_close(&words);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
