/* Parallel files as tokens: what is kept, what is left out and counted, what is refused, and that
 * batches of them can be gone back to. */
#include "fovea/batches.h"
#include "fovea/corpus.h"
#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;
static fv_tokenizer *tok; /* words: the a cat dog sat ran, 0 unknown */

static void text_file(const char *name, const char *text)
{
    file_write(folder_path(name), text, strlen(text));
}

static fv_status load(const char *first, const char *second, const fv_corpus_config *cfg,
                      fv_corpus **out)
{
    char a[300], b[300];
    snprintf(a, sizeof a, "%s", folder_path(first));
    snprintf(b, sizeof b, "%s", folder_path(second ? second : first));
    const char *paths[] = {a, b};
    const fv_tokenizer *tokenizers[] = {tok, tok};
    return fv_corpus_load(ctx, paths, tokenizers, second ? 2 : 1, cfg, out);
}

static fv_corpus_config defaults(void)
{
    fv_corpus_config cfg;
    fv_corpus_config_init(&cfg, sizeof cfg);
    return cfg;
}

static void check_example(const fv_corpus *c, int64_t example, size_t side, int64_t count,
                          const int64_t *want)
{
    const int64_t *tokens = NULL;
    int64_t length = -1;
    CHECK_OK(ctx, fv_corpus_sequences(c, side, &example, 1, &tokens, &length));
    CHECK_EQ(length, count);
    for (int64_t i = 0; i < count && i < length; i++)
        CHECK_EQ(tokens[i], want[i]);
}

static void pairs(void)
{
    fv_corpus_config cfg = defaults();
    fv_corpus *c = NULL;
    text_file("x", "the cat sat\n\na dog\nthe dog ran ran ran\n");
    text_file("y", "a cat\nempty\n\na\n");
    CHECK_OK(ctx, load("x", "y", &cfg, &c));
    CHECK_EQ(fv_corpus_count(c), 2);
    check_example(c, 0, 0, 3, (int64_t[]){1, 3, 5});
    check_example(c, 0, 1, 2, (int64_t[]){2, 3});
    check_example(c, 1, 0, 5, (int64_t[]){1, 4, 6, 6, 6});
    check_example(c, 1, 1, 1, (int64_t[]){2});
    CHECK_EQ(fv_corpus_lengths(c)[0], 5);
    CHECK_EQ(fv_corpus_line(c, 1), 4);
    CHECK_EQ(fv_corpus_line(c, 2), 0);
    fv_corpus_stats stats = {.struct_size = sizeof stats};
    fv_corpus_stats_get(c, &stats);
    CHECK(stats.lines == 4 && stats.empty == 2 && stats.invalid == 0 && stats.too_long == 0);
    CHECK(stats.tokens[0] == 8 && stats.tokens[1] == 3);
    const int64_t *tokens;
    int64_t length, bad = 2, good = 0;
    CHECK_EQ(fv_corpus_sequences(c, 0, &bad, 1, &tokens, &length), FV_ERR_INDEX);
    CHECK_EQ(fv_corpus_sequences(c, 2, &good, 1, &tokens, &length), FV_ERR_INDEX);
    fv_corpus_destroy(&c);
    CHECK(c == NULL);

    cfg.keep_empty = true;
    cfg.max_tokens = 4;
    CHECK_OK(ctx, load("x", "y", &cfg, &c));
    CHECK_EQ(fv_corpus_count(c), 3);
    check_example(c, 1, 0, 0, NULL);
    check_example(c, 1, 1, 1, (int64_t[]){0});
    fv_corpus_stats_get(c, &stats);
    CHECK(stats.too_long == 1 && stats.empty == 0);
    fv_corpus_destroy(&c);

    cfg.max_examples = 1;
    CHECK_OK(ctx, load("x", NULL, &cfg, &c));
    CHECK_EQ(fv_corpus_count(c), 1);
    fv_corpus_destroy(&c);
}

static void what_is_not_text(void)
{
    fv_corpus_config cfg = defaults();
    fv_corpus *c = NULL;
    text_file("x", "the cat\nthe dog\na cat\n");
    text_file("y", "a\n\xff\na\n");
    CHECK_EQ(load("x", "y", &cfg, &c), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "y:2: not valid UTF-8"));
    cfg.invalid = FV_LINES_MARK;
    CHECK_OK(ctx, load("x", "y", &cfg, &c));
    CHECK_EQ(fv_corpus_count(c), 2);
    CHECK_EQ(fv_corpus_line(c, 1), 3);
    fv_corpus_stats stats = {.struct_size = sizeof stats};
    fv_corpus_stats_get(c, &stats);
    CHECK_EQ(stats.invalid, 1);
    fv_corpus_destroy(&c);
}

static void what_is_refused(void)
{
    fv_corpus_config cfg = defaults();
    fv_corpus *c = NULL;
    text_file("two", "the\na\n");
    text_file("three", "the\na\ncat\n");
    text_file("none", "");
    text_file("blank", "\n\n");
    CHECK_EQ(load("two", "three", &cfg, &c), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "three has more lines than"));
    CHECK(strstr(fv_ctx_message(ctx), "two, which ends after line 2"));
    CHECK_EQ(load("three", "two", &cfg, &c), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "three has more lines than"));
    CHECK_EQ(load("none", NULL, &cfg, &c), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "no example to learn from in 0 lines"));
    CHECK_EQ(load("blank", NULL, &cfg, &c), FV_ERR_FORMAT);
    CHECK_EQ(load("absent", "two", &cfg, &c), FV_ERR_IO);
    CHECK_EQ(fv_corpus_load(ctx, NULL, NULL, 0, &cfg, &c), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_corpus_load(ctx, NULL, NULL, 5, &cfg, &c), FV_ERR_ARGUMENT);
    CHECK(c == NULL);
}

/* Batches of a corpus: every example once an epoch, and a place gives the same examples again. */
static void batches(void)
{
    enum { EXAMPLES = 300 };
    static char text[EXAMPLES * 40];
    size_t used = 0;
    for (int i = 0; i < EXAMPLES; i++) {
        for (int k = 0; k <= i % 7; k++)
            used += (size_t)snprintf(text + used, sizeof text - used, "cat ");
        text[used - 1] = '\n';
    }
    text[used] = '\0';
    text_file("many", text);
    fv_corpus_config cfg = defaults();
    fv_corpus *c = NULL;
    CHECK_OK(ctx, load("many", "many", &cfg, &c));
    fv_batches_config how;
    fv_batches_config_init(&how, sizeof how);
    how.tokens = 50;
    how.seed = 9;
    fv_batches *all = NULL;
    CHECK_OK(ctx, fv_batches_create(ctx, fv_corpus_count(c), fv_corpus_lengths(c), &how, &all));
    int seen[EXAMPLES] = {0}, examples = 0;
    int64_t epoch = 0, index = 0, first = -1;
    fv_batch b;
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
    fv_corpus_destroy(&c);
}

int main(int argc, char **argv)
{
    static const char json[] =
        "{\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},\"model\":{\"type\":\"WordLevel\","
        "\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"the\":1,\"a\":2,\"cat\":3,\"dog\":4,\"sat\":5,"
        "\"ran\":6}}}";
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    if (fv_tokenizer_parse(ctx, "t", json, sizeof json - 1, &tok) != FV_OK) return 1;
    folder_make();
    RUN(pairs);
    RUN(what_is_not_text);
    RUN(what_is_refused);
    RUN(batches);
    folder_remove();
    fv_tokenizer_destroy(&tok);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
