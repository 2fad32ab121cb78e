/*
 * Encoders from recipe to folder: hidden words, pairs of texts and classes; interruptions that
 * change no bit, tables with quotes, and what is wrong with an input.
 */
#include "fovea/transformer.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/run.h"
#include "train/tasks/text.h"

/* Verses with one possible continuation, and a table of questions that a word decides. */
static void write_data(void)
{
    static const char *const starts[] = {"rose is red", "sky is blue", "sun is hot", "ice is cold"};
    static char text[40000], table[40000];
    size_t n = 0, m = (size_t)snprintf(table, sizeof table, "id,text,label\n");
    for (int i = 0; i < 200; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "number %d the %s and the %s\n", i % 7,
                              starts[i % 4], starts[i % 4]);
        m += (size_t)snprintf(table + m, sizeof table - m,
                              "%d,\"number %d, the \"\"%s\"\"\nor not\",class %d\n", i, i % 7,
                              starts[i % 4], i % 4);
    }
    file_write(folder_path("text.txt"), text, n);
    file_write(folder_path("table.csv"), table, m);
}

static fv_recipe *make_recipe(fv_ctx *ctx, const run_setting *more)
{
    const run_setting usual[] = {
        {"data.documents", "lines"},    {"data.valid_share", "0.2"},
        {"tokens.kind", "bytes"},       {"tokens.vocabulary", "300"},
        {"transformer.family", "bert"}, {"transformer.encoder_layers", "1"},
        {"transformer.width", "16"},    {"transformer.heads", "2"},
        {"transformer.hidden", "32"},   {"transformer.length", "40"},
        {"transformer.dropout", "0.1"}, {"train.batch_tokens", "400"},
        {"train.accumulate", "2"},      {"train.steps", "40"},
        {"train.lr", "0.01"},           {"train.eval_every", "20"},
        {"train.save_every", "7"},      {NULL, NULL}};
    fv_recipe *recipe = run_recipe(ctx, usual);
    if (recipe) run_set(ctx, recipe, more);
    return recipe;
}

static fv_status train(const char *folder, int threads, const run_setting *more, run_watch *w)
{
    fv_ctx *ctx = run_context(threads, 5);
    return run_text(ctx, make_recipe(ctx, more), folder, w);
}

/* Whole and in pieces, the same bits; w sees the whole run. */
static void train_twice(const char *name, const run_setting *more, run_watch *w)
{
    char whole[512], pieces[512], sub[64];
    snprintf(whole, sizeof whole, "%s", folder_sub(name));
    snprintf(sub, sizeof sub, "%s-pieces", name);
    snprintf(pieces, sizeof pieces, "%s", folder_sub(sub));
    CHECK_EQ(train(whole, 1, more, w), FV_OK);
    CHECK_EQ(train(pieces, 2, more, &(run_watch){.stop = 5}), FV_ERR_CANCELLED);
    CHECK_EQ(train(pieces, 4, more, &(run_watch){.stop = 23}), FV_ERR_CANCELLED);
    CHECK_EQ(train(pieces, 1, more, &(run_watch){0}), FV_OK);
    CHECK(file_same_in(whole, pieces, "model.safetensors"));
}

static void hidden_words_are_learnt(void)
{
    const run_setting more[] = {{"train.task", "masked"},
                                {"data.train_text", folder_path("text.txt")},
                                {"data.train_csv", folder_path("table.csv")},
                                {NULL, NULL}};
    run_watch w = {0};
    train_twice("words", more, &w);
    CHECK_EQ(w.count, 2);
    CHECK_STR(w.last[0].name, "loss");
    CHECK_STR(w.last[1].name, "accuracy");
    CHECK(w.last[0].value < w.first[0].value && w.last[0].value < 4);
    CHECK(w.last[1].value > 0.2);
}

/* The same words in bf16: nearly the same loss. */
static void hidden_words_are_learnt_in_bf16(void)
{
    char text[512], table[512]; /* paths that outlive other ones */
    snprintf(text, sizeof text, "%s", folder_path("text.txt"));
    snprintf(table, sizeof table, "%s", folder_path("table.csv"));
    run_setting more[] = {{"train.task", "masked"},
                          {"data.train_text", text},
                          {"data.train_csv", table},
                          {NULL, NULL},
                          {NULL, NULL}};
    run_watch w = {0}, plain = {0};
    CHECK_EQ(train(folder_sub("words-f32"), 2, more, &plain), FV_OK);
    more[3] = (run_setting){"train.compute_dtype", "bf16-always"};
    train_twice("words-bf16", more, &w);
    CHECK(w.last[0].value != plain.last[0].value);
    CHECK_NEAR(w.last[0].value, plain.last[0].value, 0.05);
}

static void pairs_are_learnt(void)
{
    const run_setting more[] = {{"train.task", "masked"},
                                {"train.next_sentence", "true"},
                                {"data.train_text", folder_path("text.txt")},
                                {NULL, NULL}};
    run_watch w = {0};
    train_twice("pairs", more, &w);
    CHECK_EQ(w.count, 3);
    CHECK_STR(w.last[2].name, "next_sentence");
    CHECK(w.last[2].value > 0 && w.last[2].value <= 1);
    CHECK(w.last[0].value < w.first[0].value);
}

/* The loss of the first evaluation, by so many of the texts held out in a file. */
static double first_loss(const char *folder, const char *held_out, const char *most)
{
    char text[512]; /* a path that outlives other ones */
    snprintf(text, sizeof text, "%s", folder_path("text.txt"));
    const run_setting more[] = {{"train.task", "masked"},      {"data.train_text", text},
                                {"data.valid_text", held_out}, {"eval.max_texts", most},
                                {"train.steps", "1"},          {NULL, NULL}};
    run_watch w = {0};
    CHECK_EQ(train(folder_sub(folder), 1, more, &w), FV_OK);
    CHECK_EQ(w.count, 2);
    return w.first[0].value;
}

/* Evaluating on the first three texts of a file equals evaluating on a file of three. */
static void evaluation_can_be_limited_to_few_texts(void)
{
    static const char text[] = "number 3 the ice is hot\nnumber 4 the sky\nrose is cold and blue\n"
                               "the the the sun\nnumber is red\n";
    char all[512], three[512];
    snprintf(all, sizeof all, "%s", folder_path("held-out.txt"));
    snprintf(three, sizeof three, "%s", folder_path("three.txt"));
    file_write(all, text, sizeof text - 1);
    file_write(three, text, (size_t)(strstr(text, "the the") - text));
    const double wanted = first_loss("by-three", three, "0");
    CHECK(first_loss("by-all", all, "0") != wanted);
    CHECK(first_loss("by-most", all, "3") == wanted);
    CHECK(first_loss("by-more", three, "9") == wanted);
}

/* ---- what an encoder reads ------------------------------------------------------------- */

typedef struct tally {
    double words, hidden, masked, stayed, strange, wrong;
} tally;

/* Where the second part of a pair of `run` begins. */
static int64_t second_part(const fv_text_task *run)
{
    int64_t at = 0;
    while (run->tokens[0][at] != run->sep)
        at++;
    return at + 1;
}

static void count_example(const fv_text_task *run, const fv_text_piece *piece, tally *t)
{
    const int64_t *text = run->part[FV_TEXT_TRAIN].tokens + piece->at;
    const int64_t n = run->length[0], second = second_part(run);
    bool follows = true;
    CHECK_EQ(run->tokens[0][0], run->cls);
    CHECK_EQ(run->tokens[0][n - 1], run->sep);
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = run->tokens[0][i], wanted = run->targets[0][i];
        const int64_t was = wanted == -1 ? id : wanted;
        CHECK_EQ(run->types[0][i], i >= second);
        CHECK(i > 0 || wanted == -1); /* marks stay */
        t->hidden += wanted != -1;
        t->masked += wanted != -1 && id == run->mask;
        t->stayed += wanted != -1 && id == wanted;
        t->words += was != run->cls && was != run->sep;
        if (i > 0 && i < second - 1) CHECK_EQ(was, text[i - 1]);
        if (i >= second && i < n - 1) follows = follows && was == text[i - 2];
    }
    /* A random text may happen to match the continuation, but a true continuation is never labelled
     * as random. */
    t->wrong += run->label[0] == 0 && !follows;
    t->strange += run->label[0] == 1;
}

static void shares_are_as_promised(void)
{
    const run_setting more[] = {{"train.task", "masked"},
                                {"train.next_sentence", "true"},
                                {"data.train_text", folder_path("text.txt")},
                                {NULL, NULL}};
    enum { EXAMPLES = 4000 };
    fv_ctx *ctx = run_context(1, 5);
    fv_recipe *recipe = make_recipe(ctx, more);
    fv_run *whole = NULL;
    tally t = {0};
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("shares"), NULL, NULL, &whole));
    fv_text_task *run = fv_run_task(whole);
    const fv_text_part *p = &run->part[FV_TEXT_TRAIN];
    for (int64_t i = 0; i < EXAMPLES; i++) {
        run->count = run->masked = 0;
        CHECK_OK(ctx, fv_text_add_made(run, p, i % p->piece_count, 7, (uint64_t)i));
        fv_text_point(run);
        count_example(run, &p->pieces[i % p->piece_count], &t);
    }
    /* Several thousand draws: bounds of four deviations and more. */
    CHECK_NEAR(t.hidden / t.words, 0.15, 0.02);
    CHECK_NEAR(t.masked / t.hidden, 0.8, 0.03);
    CHECK_NEAR(t.stayed / t.hidden, 0.1, 0.03);
    CHECK_NEAR(t.strange / EXAMPLES, 0.5, 0.04);
    CHECK_EQ((int64_t)t.wrong, 0);
    fv_run_destroy(&whole);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

/* What the folder says of itself, as another program would read it. */
static void the_tokenizer_marks_texts(void)
{
    fv_ctx *ctx = run_context(1, 5);
    fv_tokenizer *tok = NULL;
    fv_tokenizer_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    CHECK_OK(ctx, fv_tokenizer_load(ctx, folder_path("words"), &tok));
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, tok, &enc));
    const fv_string a = {"the rose", 8}, b = {"is [MASK]", 9};
    CHECK_OK(ctx, fv_tokenizer_encode_pair(enc, a, b, FV_TOKENIZER_ADD_SPECIALS, &e));
    const int64_t cls = fv_tokenizer_token_to_id(tok, "[CLS]", 5),
                  sep = fv_tokenizer_token_to_id(tok, "[SEP]", 5);
    CHECK(e.count > 5 && e.ids[0] == cls && e.ids[e.count - 1] == sep);
    CHECK_EQ(e.ids[e.count - 2], fv_tokenizer_token_to_id(tok, "[MASK]", 6));
    CHECK_EQ(e.type_ids[0], 0);
    CHECK_EQ(e.type_ids[e.count - 1], 1);
    size_t bytes = 0;
    char *config = file_read(folder_path("words/tokenizer_config.json"), &bytes);
    CHECK(config && strstr(config, "\"tokenizer_class\":\"PreTrainedTokenizerFast\""));
    CHECK(config && strstr(config, "\"mask_token\":\"[MASK]\"") && !strstr(config, "bos_token"));
    free(config);
    int seps = 0;
    for (size_t i = 0; i < e.count; i++)
        seps += e.ids[i] == sep;
    CHECK_EQ(seps, 2);
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    fv_ctx_destroy(&ctx);
}

static void classes_are_learnt(void)
{
    const run_setting more[] = {{"train.task", "classify"},
                                {"data.train_csv", folder_path("table.csv")},
                                {"train.init_from", folder_path("words")},
                                {"train.steps", "120"},
                                {NULL, NULL}};
    run_watch w = {0};
    train_twice("classes", more, &w);
    CHECK_STR(w.last[0].name, "accuracy");
    CHECK(w.last[0].value > 0.9); /* one in four by chance */
    fv_ctx *ctx = run_context(1, 5);
    fv_model *model = NULL;
    size_t bytes = 0;
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("classes"), &model));
    const fv_transformer_config *c = fv_transformer_settings(fv_model_transformer(model));
    CHECK_EQ(c->labels, 4);
    CHECK(c->label_names && strcmp(c->label_names[3], "class 3") == 0);
    fv_model_close(&model);
    char *config = file_read(folder_path("classes/config.json"), &bytes);
    CHECK(config && strstr(config, "\"id2label\":{\"0\":\"class 0\",\"1\":\"class 1\""));
    CHECK(config && strstr(config, "\"label2id\":{\"class 0\":0,\"class 1\":1"));
    free(config);
    fv_ctx_destroy(&ctx);
}

static void only_the_heads_are_initialised_randomly(void)
{
    const run_setting more[] = {{"train.task", "classify"},
                                {"data.train_csv", folder_path("table.csv")},
                                {"train.init_from", folder_path("words")},
                                {NULL, NULL}};
    fv_ctx *ctx = run_context(1, 5);
    fv_recipe *recipe = make_recipe(ctx, more);
    fv_run *run = NULL;
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("fresh"), NULL, NULL, &run));
    const fv_init_report taken = fv_run_init_report(run);
    CHECK_EQ(taken.random, 4);
    CHECK(strstr(taken.names, "classifier.weight") && strstr(taken.names, "pooler.dense.bias"));
    CHECK(taken.loaded > 10 && !taken.names_truncated);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    fv_ctx_destroy(&ctx);
}

/* ---- what is wrong ----------------------------------------------------------------------- */

static fv_status start(fv_ctx *ctx, const run_setting *more)
{
    fv_recipe *recipe = make_recipe(ctx, more);
    fv_run *run = NULL;
    const fv_status status = fv_run_create(ctx, recipe, folder_path("."), NULL, NULL, &run);
    fv_run_destroy(&run);
    fv_recipe_destroy(&recipe);
    return status;
}

static void bad_tables_are_reported(void)
{
    static const struct {
        const char *table, *message;
    } bad[] = {{"", "empty table"},
               {"text,category\na,b\n", "no column is named 'label'"},
               {"words,label\na,b\n", "no column is named 'text'"},
               {"text,label\na,b\nc\n", "bad.csv:3: 1 fields"},
               {"text,label\na,b\nc,d,e\n", "bad.csv:3: 3 fields"},
               {"text,label\n\"a,b\nc,d\n", "bad.csv:2: a quote is never closed"},
               {"text,label\n\"a\"x,b\n", "bad.csv:2: text after a closing quote"},
               {"text,label\na,b\nc,b\n", "1 classes"},
               {"text,label\n\xff,b\n", "bad.csv"}};
    fv_ctx *ctx = run_context(1, 5);
    char path[512];
    snprintf(path, sizeof path, "%s", folder_path("bad.csv"));
    const run_setting more[] = {{"train.task", "classify"}, {"data.train_csv", path}, {NULL, NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        file_write(path, bad[i].table, strlen(bad[i].table));
        CHECK_EQ(start(ctx, more), FV_ERR_FORMAT);
        if (!strstr(fv_ctx_message(ctx), bad[i].message))
            test_failed(__FILE__, __LINE__, "table %zu: %s", i, fv_ctx_message(ctx));
    }
    fv_ctx_destroy(&ctx);
}

static void bad_recipes_are_reported(void)
{
    fv_ctx *ctx = run_context(1, 5);
    char table[512], text[512], other[512];
    snprintf(table, sizeof table, "%s", folder_path("table.csv"));
    snprintf(text, sizeof text, "%s", folder_path("text.txt"));
    snprintf(other, sizeof other, "%s", folder_path("other.csv"));
    file_write(other, "text,label\nthe rose,class 9\n", 28);
    const struct {
        run_setting more[4];
        fv_status status;
        const char *message;
    } bad[] = {
        {{{"train.task", "classify"}}, FV_ERR_ARGUMENT, "data.train_csv"},
        {{{"train.task", "masked"}}, FV_ERR_ARGUMENT, "data.train_text"},
        {{{"train.task", "masked"}, {"data.train_text", text}, {"transformer.family", "gpt2"}},
         FV_ERR_ARGUMENT,
         "must be bert"},
        {{{"train.task", "masked"}, {"data.train_text", text}, {"data.length", "3"}},
         FV_ERR_ARGUMENT,
         "too short"},
        {{{"train.task", "classify"}, {"data.train_csv", table}, {"data.valid_csv", other}},
         FV_ERR_FORMAT,
         "class 9"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(start(ctx, bad[i].more), bad[i].status);
        if (!strstr(fv_ctx_message(ctx), bad[i].message))
            test_failed(__FILE__, __LINE__, "recipe %zu: %s", i, fv_ctx_message(ctx));
    }
    fv_ctx_destroy(&ctx);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    write_data();
    RUN(hidden_words_are_learnt);
    RUN(hidden_words_are_learnt_in_bf16);
    RUN(pairs_are_learnt);
    RUN(evaluation_can_be_limited_to_few_texts);
    RUN(shares_are_as_promised);
    RUN(the_tokenizer_marks_texts);
    RUN(classes_are_learnt);
    RUN(only_the_heads_are_initialised_randomly);
    RUN(bad_tables_are_reported);
    RUN(bad_recipes_are_reported);
    folder_remove();
    return TEST_END();
}
