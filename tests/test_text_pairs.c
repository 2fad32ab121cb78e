/*
 * Classes of pairs of texts: tables with two columns of texts, what the model reads of them, runs
 * that resume, and the classifier of a folder. The generated pairs are checked by a solver of their
 * own.
 */
#include "data/generated.h"
#include "fovea/encode.h"
#include "fovea/ops.h"
#include "support/files.h"
#include "support/runs.h"
#include "support/test.h"
#include "train/run.h"
#include "train/tasks/text.h"

/* Whether both texts have the same word: neither column alone tells. */
static void write_table(const char *name, char tab)
{
    static const char *const words[] = {"rose", "sky", "sun", "ice"};
    static char table[40000];
    size_t n = (size_t)snprintf(table, sizeof table, "id%clabel%ca%cb\n", tab, tab, tab);
    for (int i = 0; i < 320; i++) {
        const int first = i % 4, second = (first + (i / 4 % 2 ? 0 : 1 + i / 8 % 3)) % 4;
        n += (size_t)snprintf(table + n, sizeof table - n, "%d%c%s%cthe %s%c%s %d\n", i, tab,
                              first == second ? "same" : "other", tab, words[first], tab,
                              words[second], i % 7);
    }
    file_write(folder_path(name), table, n);
}

static fv_recipe *make_recipe(fv_ctx *ctx, const run_setting *more)
{
    const run_setting usual[] = {
        {"train.task", "classify"},     {"data.text_column", "a"},
        {"data.second_column", "b"},    {"data.valid_share", "0.2"},
        {"tokens.kind", "bytes"},       {"tokens.vocabulary", "300"},
        {"transformer.family", "bert"}, {"transformer.encoder_layers", "1"},
        {"transformer.width", "16"},    {"transformer.heads", "1"},
        {"transformer.hidden", "32"},   {"transformer.length", "24"},
        {"transformer.dropout", "0"},   {"transformer.init_std", "0.3"},
        {"train.batch_tokens", "400"},  {"train.steps", "400"},
        {"train.lr", "0.003"},          {"train.eval_every", "100"},
        {"train.save_every", "25"},     {NULL, NULL}};
    fv_recipe *recipe = run_recipe(ctx, usual);
    if (recipe) run_set(ctx, recipe, more);
    return recipe;
}

/* ---- what is read ---------------------------------------------------------------------------- */

static fv_text_task *open_run(fv_ctx *ctx, const run_setting *more, fv_run **run)
{
    fv_recipe *recipe = make_recipe(ctx, more);
    tree_remove(folder_path("opened"));
    CHECK_OK(ctx, fv_run_create(ctx, recipe, folder_sub("opened"), NULL, NULL, run));
    fv_recipe_destroy(&recipe);
    return *run ? fv_run_task(*run) : NULL;
}

/* Decodes ids[0 .. count) and compares. */
static void check_tokens(const fv_text_task *t, const int64_t *ids, int64_t count, const char *want)
{
    fv_text text = {0};
    CHECK_OK(t->ctx, fv_tokenizer_decode(t->ctx, t->tokenizer, ids, (size_t)count, 0, &text));
    if (text.data) CHECK_STR(text.data, want);
    fv_text_free(t->ctx, &text);
}

/* [CLS] first [SEP] second [SEP], types 0 up to the first [SEP]. */
static void check_example(fv_text_task *t, int64_t number, const char *first, const char *second)
{
    t->count = t->masked = 0;
    CHECK_OK(t->ctx, fv_text_add_made(t, &t->part[FV_TEXT_TRAIN], number, 0, 0));
    fv_text_point(t);
    const int64_t *ids = t->tokens[0], n = t->length[0];
    int64_t middle = 1;
    while (middle < n - 1 && ids[middle] != t->sep)
        middle++;
    CHECK_EQ(ids[0], t->cls);
    CHECK_EQ(ids[n - 1], t->sep);
    CHECK(middle < n - 1);
    check_tokens(t, ids + 1, middle - 1, first);
    check_tokens(t, ids + middle + 1, n - middle - 2, second);
    for (int64_t i = 0; i < n; i++)
        CHECK_EQ(t->types[0][i], i > middle);
    const fv_batch batch = fv_text_batch(t, 0, 1);
    const fv_field *types = fv_batch_find(&batch, "types");
    CHECK(types && types->row[0] == t->types[0]);
}

/* A table with tabs is known by its name, whatever packs it. */
static void check_table(const char *name)
{
    static const char table[] = "b\tlabel\ta\n"
                                "say \"no\"\tx\tone\n"
                                "\tx\tempty\n"
                                "two\ty\t\"quoted\" word\n";
    fv_ctx *ctx = run_context(1, 5);
    char path[512];
    snprintf(path, sizeof path, "%s", folder_path(name));
    file_write(path, table, sizeof table - 1);
    const run_setting more[] = {{"data.train_csv", path}, {"data.valid_csv", path}, {NULL, NULL}};
    fv_run *run = NULL;
    fv_text_task *t = open_run(ctx, more, &run);
    if (t) {
        CHECK_EQ(t->part[FV_TEXT_TRAIN].piece_count, 2); /* a pair without a text is left out */
        check_example(t, 0, "one", "say \"no\"");
        check_example(t, 1, "\"quoted\" word", "two");
        CHECK_EQ(t->label[0], 1);
    }
    fv_run_destroy(&run);
    fv_ctx_destroy(&ctx);
}

static void both_columns_are_read(void)
{
    check_table("read.tsv");
    check_table("read.tsv.gz");
}

/* 12 tokens with three marks hold nine letters: the longer text gives way. */
static void long_pairs_are_cut(void)
{
    static const struct {
        const char *a, *b, *kept_a, *kept_b;
    } known[] = {{"abcde", "1234", "abcde", "1234"},        {"abcdef", "1234", "abcde", "1234"},
                 {"abc", "12345678", "abc", "123456"},      {"abcdefgh", "12", "abcdefg", "12"},
                 {"abcdefgh", "12345678", "abcd", "12345"}, {"abcd", "123456", "abcd", "12345"}};
    fv_ctx *ctx = run_context(1, 5);
    char path[512], table[1024];
    size_t n = (size_t)snprintf(table, sizeof table, "a,b,label\n");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        n += (size_t)snprintf(table + n, sizeof table - n, "%s,%s,%d\n", known[i].a, known[i].b,
                              (int)i % 2);
    snprintf(path, sizeof path, "%s", folder_path("long.csv"));
    file_write(path, table, n);
    const run_setting more[] = {{"data.train_csv", path},
                                {"data.valid_csv", path},
                                {"tokens.kind", "char"},
                                {"data.length", "12"},
                                {NULL, NULL}};
    fv_run *run = NULL;
    fv_text_task *t = open_run(ctx, more, &run);
    for (size_t i = 0; t && i < sizeof known / sizeof *known; i++)
        check_example(t, (int64_t)i, known[i].kept_a, known[i].kept_b);
    int64_t kept = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        kept += (int64_t)(strlen(known[i].kept_a) + strlen(known[i].kept_b));
    if (t) CHECK_EQ(t->part[FV_TEXT_TRAIN].count, kept);
    fv_run_destroy(&run);
    fv_ctx_destroy(&ctx);
}

/* Whether piece `i` of one part is piece `k` of another. */
static bool same_piece(const fv_text_part *a, int64_t i, const fv_text_part *b, int64_t k)
{
    if (k >= b->piece_count) return false;
    const fv_text_piece *x = &a->pieces[i], *y = &b->pieces[k];
    return x->length == y->length && x->second == y->second && x->label == y->label &&
           memcmp(a->tokens + x->at, b->tokens + y->at, (size_t)x->length * sizeof *a->tokens) == 0;
}

/* What is held out and what is left are all pairs of the table, each once and in their order. */
static void held_out_pairs_are_the_others(void)
{
    fv_ctx *ctx = run_context(1, 5);
    char path[512];
    snprintf(path, sizeof path, "%s", folder_path("table.tsv"));
    const run_setting whole[] = {{"data.train_csv", path}, {"data.valid_csv", path}, {NULL, NULL}};
    const run_setting share[] = {{"data.train_csv", path}, {NULL, NULL}};
    fv_run *run[2] = {NULL, NULL};
    const fv_text_task *all = open_run(ctx, whole, &run[0]), *split = open_run(ctx, share, &run[1]);
    if (all && split) {
        const fv_text_part *from = &all->part[FV_TEXT_TRAIN];
        int64_t next[FV_TEXT_PARTS] = {0}, tokens = 0;
        CHECK_EQ(from->piece_count, 320);
        for (int64_t i = 0; i < from->piece_count; i++) {
            int part = 0;
            while (part < FV_TEXT_PARTS && !same_piece(from, i, &split->part[part], next[part]))
                part++;
            CHECK(part < FV_TEXT_PARTS);
            if (part < FV_TEXT_PARTS) next[part]++;
        }
        for (int part = 0; part < FV_TEXT_PARTS; part++) {
            CHECK_EQ(next[part], split->part[part].piece_count);
            tokens += split->part[part].count;
        }
        CHECK_EQ(tokens, from->count);
        CHECK_NEAR((double)next[FV_TEXT_VALID], 0.2 * 320, 29); /* four deviations */
    }
    fv_run_destroy(&run[0]);
    fv_run_destroy(&run[1]);
    fv_ctx_destroy(&ctx);
}

/* Samples of training show both texts. */
static void samples_have_both_texts(void)
{
    static const char table[] = "a,b,label\nfirst,second,x\nthird,fourth,y\n";
    fv_ctx *ctx = run_context(1, 5);
    char path[512];
    snprintf(path, sizeof path, "%s", folder_path("samples.csv"));
    file_write(path, table, sizeof table - 1);
    const run_setting more[] = {{"data.train_csv", path}, {"data.valid_csv", path}, {NULL, NULL}};
    fv_run *run = NULL;
    fv_text_task *t = open_run(ctx, more, &run);
    fv_text out = {0};
    if (t) CHECK_OK(ctx, fv_text_show_classes(t, fv_run_model(run), 1, &out));
    static const char want[] = "text        first\nsecond text second\nclass       x\nprediction  ";
    CHECK(out.data && strncmp(out.data, want, sizeof want - 1) == 0);
    fv_text_free(ctx, &out);
    fv_run_destroy(&run);
    fv_ctx_destroy(&ctx);
}

static void bad_recipes_are_reported(void)
{
    fv_ctx *ctx = run_context(1, 5);
    char path[512], text[512];
    snprintf(path, sizeof path, "%s", folder_path("table.csv"));
    snprintf(text, sizeof text, "%s", folder_path("text.txt"));
    file_write(text, "a\nb\n", 4);
    const struct {
        run_setting more[4];
        fv_status status;
        const char *message;
    } bad[] = {{{{"data.train_csv", path}, {"data.second_column", "c"}},
                FV_ERR_FORMAT,
                "no column is named 'c'; it has id, label, a, b"},
               {{{"data.train_csv", path}, {"data.length", "4"}}, FV_ERR_ARGUMENT, "too short"},
               {{{"data.train_text", text}, {"train.task", "masked"}},
                FV_ERR_ARGUMENT,
                "only classify reads pairs"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fv_recipe *recipe = make_recipe(ctx, bad[i].more);
        fv_run *run = NULL;
        CHECK_EQ(fv_run_create(ctx, recipe, folder_path("."), NULL, NULL, &run), bad[i].status);
        if (!strstr(fv_ctx_message(ctx), bad[i].message))
            test_failed(__FILE__, __LINE__, "recipe %zu: %s", i, fv_ctx_message(ctx));
        fv_run_destroy(&run);
        fv_recipe_destroy(&recipe);
    }
    fv_ctx_destroy(&ctx);
}

/* ---- training -------------------------------------------------------------------------------- */

static fv_status train(const char *folder, int threads, const run_setting *more, run_watch *w)
{
    fv_ctx *ctx = run_context(threads, 5);
    return run_text(ctx, make_recipe(ctx, more), folder, w);
}

static void a_class_of_two_texts_is_learned(void)
{
    char whole[512], pieces[512], table[512];
    snprintf(table, sizeof table, "%s", folder_path("table.tsv"));
    snprintf(whole, sizeof whole, "%s", folder_sub("whole"));
    snprintf(pieces, sizeof pieces, "%s", folder_sub("pieces"));
    const run_setting more[] = {{"data.train_csv", table}, {NULL, NULL}},
                      one[] = {{"data.train_csv", table}, {"data.second_column", ""}, {NULL, NULL}};
    run_watch w = {0}, single = {0};
    CHECK_EQ(train(whole, 1, more, &w), FV_OK);
    CHECK_EQ(train(pieces, 2, more, &(run_watch){.stop = 31}), FV_ERR_CANCELLED);
    CHECK_EQ(train(pieces, 1, more, &(run_watch){0}), FV_OK);
    CHECK(file_same_in(whole, pieces, "model.safetensors"));
    CHECK_EQ(train(folder_sub("one"), 1, one, &single), FV_OK);
    CHECK_STR(w.last[0].name, "accuracy");
    CHECK(w.last[0].value > 0.95);
    CHECK(single.last[0].value < 0.75);
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* The model's probabilities for ids and types made by hand. */
static void by_hand(fv_ctx *ctx, const fv_text_pair *pair, bool typed, float p[2])
{
    fv_model *model = NULL;
    fv_tokenizer *tok = NULL;
    fv_tokenizer_encoder *enc = NULL;
    int64_t ids[64], types[64], n = 0;
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("whole"), &model));
    CHECK_OK(ctx, fv_tokenizer_load(ctx, folder_path("whole"), &tok));
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, tok, &enc));
    ids[n] = fv_tokenizer_token_to_id(tok, "[CLS]", 5);
    types[n++] = 0;
    for (int part = 0; part < 2; part++) {
        const fv_string text = part ? pair->second : pair->first;
        fv_encoding e = {.struct_size = sizeof e};
        CHECK_OK(ctx, fv_tokenizer_encode(enc, text.text, text.bytes, 0, &e));
        for (size_t i = 0; i < e.count; i++) {
            types[n] = typed && part;
            ids[n++] = e.ids[i];
        }
        types[n] = typed && part;
        ids[n++] = fv_tokenizer_token_to_id(tok, "[SEP]", 5);
    }
    const int64_t *id = ids, *type = types;
    const fv_sequences one = {.count = 1, .tokens = &id, .length = &n, .types = &type};
    const fv_batch batch = fv_batch_of_tokens(&one);
    fv_tensor *t = fv_softmax(ctx, fv_model_classify(model, &batch, NULL), -1);
    CHECK_OK(ctx, fv_tensor_read(ctx, t, p, 2 * sizeof *p));
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    fv_model_close(&model);
}

/* More pairs than one pass holds: each as in a call of its own. */
static void check_many(fv_ctx *ctx, fv_classifier *c)
{
    enum { PAIRS = 70 };
    static const char *const words[] = {"rose 0", "sky 1", "sun 2", "ice 3", "the sun 4"};
    fv_text_pair pairs[PAIRS];
    float p[PAIRS];
    const fv_classifications *found = NULL;
    for (int i = 0; i < PAIRS; i++) {
        const char *a = words[i % 5], *b = words[i / 5 % 5];
        pairs[i] = (fv_text_pair){{a, strlen(a)}, {b, strlen(b)}};
    }
    CHECK_OK(ctx, fv_classify_pairs(c, PAIRS, pairs, &found));
    CHECK(found && found->count == PAIRS);
    for (int i = 0; found && i < PAIRS; i++) {
        CHECK_EQ(found->row[i].text, i);
        p[i] = found->row[i].p[0];
    }
    for (int i = 0; i < PAIRS; i++) {
        CHECK_OK(ctx, fv_classify_pairs(c, 1, pairs + i, &found));
        CHECK(found && found->row[0].p[0] == p[i]);
    }
}

static void the_folder_classifies_pairs(void)
{
    const fv_text_pair pairs[] = {{{"the sun", 7}, {"sun 3", 5}},
                                  {{"the sun", 7}, {"ice 3", 5}},
                                  {{"the rose", 8}, {"rose 1", 6}}};
    static const char *const labels[] = {"same", "other", "same"};
    fv_ctx *ctx = run_context(1, 5);
    fv_classifier *c = NULL;
    const fv_classifications *found = NULL;
    float p[2] = {0}, plain[2] = {0};
    CHECK_OK(ctx, fv_classifier_open(ctx, folder_path("whole"), FV_WEIGHT_F32, &c));
    if (!c) return;
    CHECK(fv_classifier_reads_pairs(c));
    CHECK_OK(ctx, fv_classify_pairs(c, 3, pairs, &found));
    CHECK(found && found->count == 3 && found->classes == 2);
    for (int64_t i = 0; found && i < found->count; i++) {
        by_hand(ctx, &pairs[i], true, p);
        CHECK_EQ(found->row[i].text, i);
        CHECK_STR(found->row[i].label, labels[i]);
        for (int k = 0; k < 2; k++)
            CHECK_NEAR((double)found->row[i].p[k], (double)p[k], 1e-5);
    }
    by_hand(ctx, &pairs[2], false, plain); /* the types matter */
    CHECK(fabsf(plain[0] - p[0]) > 1e-4f);
    const float together = found ? found->row[1].p[0] : 0;
    CHECK_OK(ctx, fv_classify_pairs(c, 1, pairs + 1, &found));
    CHECK(found && found->row[0].p[0] == together); /* the bits do not depend on the call */
    check_many(ctx, c);
    CHECK_EQ(fv_classify_pairs(c, 0, pairs, &found), FV_ERR_ARGUMENT);
    const fv_text_pair bad[] = {{{"\xff", 1}, {"a", 1}}, {{"a", 1}, {"\xff", 1}}};
    for (int i = 0; i < 2; i++)
        CHECK_EQ(fv_classify_pairs(c, 1, bad + i, &found), FV_ERR_FORMAT);
    const char *long_text = "the sun is the sun is the sun is the sun is the sun is the sun is";
    const fv_text_pair long_pair = {{long_text, strlen(long_text)}, {"ice 3", 5}};
    CHECK_EQ(fv_classify_pairs(c, 1, &long_pair, &found), FV_ERR_LIMIT);
    fv_classifier_close(&c);
    fv_ctx_destroy(&ctx);
    ctx = run_context(1, 5);
    CHECK_OK(ctx, fv_classifier_open(ctx, folder_path("one"), FV_WEIGHT_F32, &c));
    CHECK(c && !fv_classifier_reads_pairs(c));
    fv_classifier_close(&c);
    fv_ctx_destroy(&ctx);
}

/* ---- generated pairs ------------------------------------------------------------------------- */

static const char *const kinds[] = {"animal",  "dog", "cat",  "horse", "goat",  "", /* 0 to 5 */
                                    "person",  "man", "girl", "boy",   "baker", "",
                                    "machine", "car", "bus",  "ship",  "crane", ""};
static const char *const facts[] = {
    " black ",        " white ",         " green ",        " red ",    " grey ",
    " blue ",         " waits",          " turns",         " moves",   " stops",
    " falls",         " returns",        " in the garden", " at home", " on the beach",
    " in the street", " near the river", " in the market"};

/* Number of the fact of a sort (0: colour, 1: deed, 2: place) that a sentence states; -1: none. */
static int fact_in(const char *sentence, int sort)
{
    char spaced[256]; /* "is white." ends in a blank, too */
    snprintf(spaced, sizeof spaced, "%.*s ", (int)strlen(sentence) - 1, sentence);
    for (int i = 0; i < 6; i++)
        if (strstr(spaced, facts[6 * sort + i])) return i;
    return -1;
}

/* Whether "the <second>" may be used for "the ... <first>": the same word, or its kind. */
static bool is_about(const char *first, const char *second)
{
    char word[64];
    int row = -1;
    for (int i = 0; i < 18; i++) {
        snprintf(word, sizeof word, " %s ", kinds[i]);
        if (*kinds[i] && strstr(first, word)) row = i;
    }
    if (row < 0) return false;
    snprintf(word, sizeof word, "the %s ", kinds[row]);
    if (strncmp(second, word, strlen(word)) == 0) return true;
    snprintf(word, sizeof word, "the %s ", kinds[row / 6 * 6]);
    return strncmp(second, word, strlen(word)) == 0;
}

static const char *solve(const char *first, const char *second)
{
    const char *class = NULL;
    for (int sort = 0; sort < 3; sort++) {
        const int known = fact_in(first, sort), stated = fact_in(second, sort);
        if (stated < 0) continue;
        if (class) return "two facts";
        class = known < 0 ? "neutral" : known == stated ? "entailment" : "contradiction";
    }
    return is_about(first, second) && class ? class : "another subject";
}

static void generated_pairs_have_the_class_of_their_facts(void)
{
    enum { DRAWN = 3000 };
    const fv_generated_set *set = fv_generated_set_find("entailment");
    int count[3] = {0}, second[3] = {0}, named[3] = {0};
    CHECK(set && set->has_labels && set->has_pairs);
    for (int i = 0; set && i < DRAWN; i++) {
        fv_drawn d;
        const bool held_out = i % 3 == 0;
        set->example(set, 7, (uint64_t)i, held_out, &d);
        CHECK_STR(d.label, solve(d.source, d.target));
        CHECK_EQ(d.part != FV_MADE_TRAIN, held_out);
        const int class = d.label[0] == 'e' ? 0 : d.label[0] == 'c' ? 1 : 2;
        count[class]++;
        second[class] += strstr(d.target, "white") != NULL;
        named[class] += !strstr(d.target, "animal") && !strstr(d.target, "person") &&
                        !strstr(d.target, "machine");
    }
    for (int k = 0; k < 3; k++) {
        CHECK_NEAR(count[k] / (double)DRAWN, 1.0 / 3, 0.04); /* four deviations */
        CHECK_NEAR(second[k] / (double)count[k], 1.0 / 18, 0.03);
        CHECK_NEAR(named[k] / (double)count[k], 0.5, 0.07); /* the subject, not its kind */
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    write_table("table.csv", ',');
    write_table("table.tsv", '\t');
    RUN(both_columns_are_read);
    RUN(long_pairs_are_cut);
    RUN(held_out_pairs_are_the_others);
    RUN(samples_have_both_texts);
    RUN(bad_recipes_are_reported);
    RUN(a_class_of_two_texts_is_learned);
    RUN(the_folder_classifies_pairs);
    RUN(generated_pairs_have_the_class_of_their_facts);
    folder_remove();
    return TEST_END();
}
