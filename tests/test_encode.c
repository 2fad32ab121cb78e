/* Vectors, classes and masked words of texts (fovea/encode.h): the folder's rule, truncation, and
 * results that do not depend on the other texts of a call. The reference is a pass over tokens
 * written by hand: the letters' ids are those of the tokenizer of support/encoders.h. */
#include <stdlib.h>

#include "fovea/encode.h"
#include "support/encoders.h"
#include "support/files.h"
#include "support/program.h"
#include "support/values.h"

enum { MANY = 70, CLS = 2, SEP = 3 };

#define MEAN  "{\"pooling_mode_mean_tokens\": true}"
#define FIRST "{\"pooling_mode\": \"cls\"}"

static const char *const topics[] = {"sport", "weather", "music"};

static fv_string text_of(const char *text) { return (fv_string){text, strlen(text)}; }

static void check_message(fv_ctx *ctx, const char *text)
{
    if (!strstr(fv_ctx_message(ctx), text))
        test_failed(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", fv_ctx_message(ctx), text);
}

/* ---- a pass by hand ------------------------------------------------------------------------ */

typedef struct by_hand {
    fv_model *model;
    fv_tokenizer *tok;
    int64_t ids[ENCODER_POSITIONS + 8], count;
    const int64_t *list;
    fv_sequences tokens;
} by_hand;

static void hand_open(fv_ctx *ctx, const char *folder, by_hand *h)
{
    *h = (by_hand){.count = 0};
    CHECK_OK(ctx, fv_model_open(ctx, folder, &h->model));
    CHECK_OK(ctx, fv_tokenizer_load(ctx, folder, &h->tok));
}

static void hand_close(by_hand *h)
{
    fv_tokenizer_destroy(&h->tok);
    fv_model_close(&h->model);
}

/* [CLS] letters [SEP] */
static fv_batch hand_batch(by_hand *h, const char *letters)
{
    h->count = 0;
    h->ids[h->count++] = CLS;
    for (; *letters; letters++)
        h->ids[h->count++] = fv_tokenizer_token_to_id(h->tok, letters, 1);
    h->ids[h->count++] = SEP;
    h->list = h->ids;
    h->tokens = (fv_sequences){.count = 1, .tokens = &h->list, .length = &h->count};
    return fv_batch_of_tokens(&h->tokens);
}

static void hand_embed(fv_ctx *ctx, by_hand *h, const char *letters, const fv_embedding_rule *rule,
                       float out[ENCODER_WIDTH])
{
    const fv_batch batch = hand_batch(h, letters);
    fv_tensor *t = fv_model_kind_of(h->model)->embed(ctx, fv_model_self(h->model), &batch, rule);
    CHECK_OK(ctx, fv_tensor_read(ctx, t, out, ENCODER_WIDTH * sizeof *out));
}

/* Checks one vector of a call against the pass by hand over these letters. */
static void check_vector(fv_ctx *ctx, by_hand *h, const fv_embeddings *got, int64_t row,
                         const char *letters, const fv_embedding_rule *rule)
{
    float wanted[ENCODER_WIDTH] = {0};
    hand_embed(ctx, h, letters, rule, wanted);
    CHECK_EQ(got->width, ENCODER_WIDTH);
    for (int64_t i = 0; i < ENCODER_WIDTH; i++)
        CHECK_NEAR((double)got->values[row * got->width + i], (double)wanted[i], 1e-5);
}

/* ---- vectors -------------------------------------------------------------------------------- */

static void vectors_follow_the_folder(void)
{
    static const struct {
        const char *pooling;
        fv_embedding_rule rule;
    } known[] = {{NULL, {FV_POOLING_MEAN, false, ENCODER_POSITIONS}},
                 {MEAN, {FV_POOLING_MEAN, true, 9}},
                 {FIRST, {FV_POOLING_FIRST, true, 9}}};
    const fv_string texts[] = {text_of("heron"), text_of(""), text_of("zq")};
    fv_ctx *ctx = values_begin();
    folder_make();
    encoder_folder_write(folder_sub("model"), 0, NULL);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        by_hand h;
        fv_embedder *embedder = NULL;
        const fv_embeddings *got = NULL;
        if (known[i].pooling)
            sentence_files_write(folder_path("model"), known[i].pooling, "{\"max_seq_length\": 9}");
        hand_open(ctx, folder_path("model"), &h);
        CHECK_OK(ctx, fv_embedder_open(ctx, folder_path("model"), FV_WEIGHT_F32, &embedder));
        if (!embedder) break;
        const fv_embedding_rule *rule = fv_embedder_rule(embedder);
        CHECK_EQ(rule->pooling, known[i].rule.pooling);
        CHECK_EQ(rule->normalize, known[i].rule.normalize);
        CHECK_EQ(rule->max_tokens, known[i].rule.max_tokens);
        CHECK_OK(ctx, fv_embed_texts(embedder, 3, texts, &got));
        CHECK(got && got->count == 3 && got->truncated == 0);
        for (int64_t k = 0; got && k < 3; k++)
            check_vector(ctx, &h, got, k, texts[k].text, &known[i].rule);
        fv_embedder_close(&embedder);
        CHECK(embedder == NULL);
        hand_close(&h);
    }
    folder_remove();
    values_end(&ctx);
}

static void another_rule_can_be_set(void)
{
    const fv_embedding_rule first = {FV_POOLING_FIRST, true, 0},
                            long_ = {FV_POOLING_MEAN, false, 99};
    const fv_embedding_rule bad[] = {{FV_POOLING_MEAN, false, -1}, {(fv_pooling)7, false, 0}};
    const fv_string text = text_of("heron");
    fv_ctx *ctx = values_begin();
    by_hand h;
    fv_embedder *embedder = NULL;
    const fv_embeddings *got = NULL;
    folder_make();
    encoder_folder_write(folder_sub("model"), 0, NULL);
    hand_open(ctx, folder_path("model"), &h);
    CHECK_OK(ctx, fv_embedder_open(ctx, folder_path("model"), FV_WEIGHT_F32, &embedder));
    CHECK_OK(ctx, fv_embedder_set_rule(embedder, &first));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_EQ(fv_embedder_set_rule(embedder, &bad[i]), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_embedder_rule(embedder)->max_tokens, ENCODER_POSITIONS);
    CHECK_OK(ctx, fv_embed_texts(embedder, 1, &text, &got));
    if (got) check_vector(ctx, &h, got, 0, "heron", &first);
    CHECK_OK(ctx, fv_embedder_set_rule(embedder, &long_));
    CHECK_EQ(fv_embedder_rule(embedder)->max_tokens, ENCODER_POSITIONS);
    CHECK_OK(ctx, fv_embed_texts(embedder, 1, &text, &got));
    if (got) check_vector(ctx, &h, got, 0, "heron", &long_);
    fv_embedder_close(&embedder);
    hand_close(&h);
    folder_remove();
    values_end(&ctx);
}

static void long_texts_are_cut(void)
{
    static const struct {
        int64_t max_tokens;
        const char *kept[3]; /* of the texts below */
        int64_t truncated;
    } known[] = {{5, {"abc", "abc", "ab"}, 1}, /* [CLS] a b c [SEP]: the end token stays */
                 {4, {"ab", "ab", "ab"}, 2},         {2, {"", "", ""}, 3},
                 {1, {"abcdefgh", "abc", "ab"}, 0}, /* no room beside [SEP]: not cut */
                 {10, {"abcdefgh", "abc", "ab"}, 0}, {0, {"abcdefgh", "abc", "ab"}, 0}};
    const fv_string texts[] = {text_of("abcdefgh"), text_of("abc"), text_of("ab")};
    fv_ctx *ctx = values_begin();
    by_hand h;
    fv_embedder *embedder = NULL;
    const fv_embeddings *got = NULL;
    folder_make();
    encoder_folder_write(folder_sub("model"), 0, NULL);
    hand_open(ctx, folder_path("model"), &h);
    CHECK_OK(ctx, fv_embedder_open(ctx, folder_path("model"), FV_WEIGHT_F32, &embedder));
    for (size_t i = 0; embedder && i < sizeof known / sizeof *known; i++) {
        const fv_embedding_rule rule = {FV_POOLING_MEAN, false, known[i].max_tokens};
        CHECK_OK(ctx, fv_embedder_set_rule(embedder, &rule));
        CHECK_OK(ctx, fv_embed_texts(embedder, 3, texts, &got));
        if (!got) break;
        CHECK_EQ(got->truncated, known[i].truncated);
        for (int64_t k = 0; k < 3; k++)
            check_vector(ctx, &h, got, k, known[i].kept[k], &rule);
    }
    /* 40 letters in 24 positions: the rule of the folder has no length. */
    const fv_string forty = text_of("abcdefghijklmnopqrstuvwxyzabcdefghijklmn");
    const fv_embedding_rule mean = {.pooling = FV_POOLING_MEAN};
    CHECK_OK(ctx, fv_embedder_set_rule(embedder, &mean));
    got = NULL;
    CHECK_OK(ctx, fv_embed_texts(embedder, 1, &forty, &got));
    if (got) check_vector(ctx, &h, got, 0, "abcdefghijklmnopqrstuv", &mean);
    fv_embedder_close(&embedder);
    hand_close(&h);
    folder_remove();
    values_end(&ctx);
}

/* More texts than one pass takes, of every length; alone, each has the same bits. */
static void company_changes_nothing(void)
{
    static char letters[MANY][ENCODER_POSITIONS];
    static float together[MANY][ENCODER_WIDTH];
    fv_string texts[MANY];
    for (int i = 0; i < MANY; i++) {
        const int length = i * 7 % (ENCODER_POSITIONS - 2);
        for (int k = 0; k < length; k++)
            letters[i][k] = (char)('a' + (i + 5 * k) % 26);
        texts[i] = (fv_string){letters[i], (size_t)length};
    }
    fv_ctx *ctx = values_begin();
    fv_embedder *embedder = NULL;
    const fv_embeddings *got = NULL;
    folder_make();
    encoder_folder_write(folder_sub("model"), 0, NULL);
    CHECK_OK(ctx, fv_embedder_open(ctx, folder_path("model"), FV_WEIGHT_F32, &embedder));
    CHECK_OK(ctx, fv_embed_texts(embedder, MANY, texts, &got));
    if (got) memcpy(together, got->values, sizeof together);
    for (int i = 0; got && i < MANY; i++) {
        CHECK_OK(ctx, fv_embed_texts(embedder, 1, &texts[i], &got));
        CHECK(memcmp(got->values, together[i], sizeof together[i]) == 0);
    }
    fv_embedder_close(&embedder);
    folder_remove();
    values_end(&ctx);
}

static void cosines(void)
{
    static const float values[4][2] = {{3, 0}, {0, 2}, {5, 5}, {0, 0}};
    const fv_embeddings vectors = {.count = 4, .width = 2, .values = values[0]};
    CHECK_NEAR(fv_embeddings_cosine(&vectors, 0, 0), 1, 1e-12);
    CHECK_NEAR(fv_embeddings_cosine(&vectors, 0, 1), 0, 1e-12);
    CHECK_NEAR(fv_embeddings_cosine(&vectors, 1, 2), sqrt(0.5), 1e-12);
    CHECK(fv_embeddings_cosine(&vectors, 2, 3) == 0);
}

/* ---- classes -------------------------------------------------------------------------------- */

static void check_class(const fv_classification *c, int64_t text, const float *p)
{
    int64_t best = 0;
    double sum = 0;
    for (int64_t i = 0; i < 3; i++) {
        if (p[i] > p[best]) best = i;
        CHECK_NEAR((double)c->p[i], (double)p[i], 1e-5);
        sum += (double)c->p[i];
    }
    CHECK_NEAR(sum, 1, 1e-5);
    CHECK_EQ(c->text, text);
    CHECK_EQ(c->best, best);
    CHECK(c->label != NULL);
    if (c->label) CHECK_STR(c->label, topics[best]);
}

static void texts_are_classified(void)
{
    const fv_string texts[] = {text_of("heron"), text_of(""), text_of("stands still")};
    fv_ctx *ctx = values_begin();
    by_hand h;
    fv_classifier *classifier = NULL;
    const fv_classifications *got = NULL;
    folder_make();
    encoder_head_write(folder_sub("model"), ENCODER_CLASSIFIES, 3, topics);
    hand_open(ctx, folder_path("model"), &h);
    CHECK_OK(ctx, fv_classifier_open(ctx, folder_path("model"), FV_WEIGHT_F32, &classifier));
    CHECK_OK(ctx, fv_classify_texts(classifier, 3, texts, &got));
    CHECK(got && got->count == 3 && got->classes == 3);
    for (int64_t i = 0; got && i < 3; i++) {
        float p[3] = {0};
        const fv_batch batch = hand_batch(&h, texts[i].text);
        fv_tensor *t = fv_softmax(ctx, fv_model_classify(h.model, &batch, NULL), -1);
        CHECK_OK(ctx, fv_tensor_read(ctx, t, p, sizeof p));
        check_class(&got->row[i], i, p);
        CHECK(got->row[i].token == NULL);
    }
    fv_classifier_close(&classifier);
    hand_close(&h);
    folder_remove();
    values_end(&ctx);
}

static void tokens_are_classified(void)
{
    const fv_string texts[] = {text_of("her"), text_of(""), text_of("on")};
    static const char *const letters[] = {"h", "e", "r", "o", "n"};
    static const int64_t numbers[] = {0, 0, 0, 2, 2}, rows[] = {1, 2, 3, 1, 2};
    fv_ctx *ctx = values_begin();
    by_hand h;
    fv_classifier *classifier = NULL;
    const fv_classifications *got = NULL;
    folder_make();
    encoder_head_write(folder_sub("model"), ENCODER_CLASSIFIES_TOKENS, 3, topics);
    hand_open(ctx, folder_path("model"), &h);
    CHECK_OK(ctx, fv_classifier_open(ctx, folder_path("model"), FV_WEIGHT_F32, &classifier));
    CHECK_OK(ctx, fv_classify_texts(classifier, 3, texts, &got));
    CHECK(got && got->count == 5); /* special tokens are left out */
    for (int64_t i = 0; got && got->count == 5 && i < 5; i++) {
        float p[5][3] = {{0}};
        const fv_batch batch = hand_batch(&h, texts[numbers[i]].text);
        fv_tensor *t = fv_softmax(ctx, fv_model_classify(h.model, &batch, NULL), -1);
        CHECK_OK(ctx, fv_tensor_read(ctx, t, p, (size_t)h.count * sizeof p[0]));
        check_class(&got->row[i], numbers[i], p[rows[i]]);
        CHECK_STR(got->row[i].token, letters[i]);
    }
    fv_classifier_close(&classifier);
    hand_close(&h);
    folder_remove();
    values_end(&ctx);
}

/* ---- masked words --------------------------------------------------------------------------- */

static void masks_are_filled(void)
{
    enum { BEST = 3 };
    const fv_string texts[] = {text_of("plain"), text_of("a[MASK]c[MASK]"), text_of("[MASK]")};
    static const int64_t numbers[] = {1, 1, 2}, positions[] = {2, 4, 1};
    fv_ctx *ctx = values_begin();
    fv_filler *filler = NULL;
    const fv_fillings *got = NULL;
    folder_make();
    encoder_head_write(folder_sub("model"), ENCODER_FILLS, 0, NULL);
    CHECK_OK(ctx, fv_filler_open(ctx, folder_path("model"), FV_WEIGHT_F32, &filler));
    CHECK_OK(ctx, fv_fill_masks(filler, 3, texts, BEST, &got));
    CHECK(got && got->count == 3 * BEST);
    for (int64_t i = 0; got && got->count == 3 * BEST && i < got->count; i++) {
        const fv_filling *row = &got->row[i];
        const int64_t mask = i / BEST;
        CHECK_EQ(row->text, numbers[mask]);
        CHECK_EQ(row->position, positions[mask]);
        CHECK(row->token != NULL && row->filled != NULL);
        if (i % BEST > 0) CHECK(row->p <= row[-1].p);
        if (row->id <= 4) continue; /* a special token is not part of the text */
        char wanted[16];
        snprintf(wanted, sizeof wanted, mask == 0 ? "a%sc" : mask == 1 ? "ac%s" : "%s", row->token);
        CHECK_STR(row->filled, wanted);
    }
    /* All of the vocabulary: the probabilities of a mask add up to one. */
    CHECK_OK(ctx, fv_fill_masks(filler, 1, &texts[2], 1000, &got));
    double sum = 0;
    for (int64_t i = 0; got && i < got->count; i++)
        sum += got->row[i].p;
    CHECK(got && got->count < 40);
    CHECK_NEAR(sum, 1, 1e-5);
    CHECK_OK(ctx, fv_fill_masks(filler, 1, &texts[0], BEST, &got));
    CHECK(got && got->count == 0);
    CHECK_EQ(fv_fill_masks(filler, 1, texts, 0, &got), FV_ERR_ARGUMENT);
    fv_filler_close(&filler);
    folder_remove();
    values_end(&ctx);
}

/* Each mask of a text has the logits of a pass with this position alone. */
static void masks_have_their_own_logits(void)
{
    const fv_string text = text_of("x[MASK]yy[MASK]");
    static const int64_t at[] = {2, 5};
    fv_ctx *ctx = values_begin();
    by_hand h;
    fv_filler *filler = NULL;
    const fv_fillings *got = NULL;
    folder_make();
    encoder_head_write(folder_sub("model"), ENCODER_FILLS, 0, NULL);
    hand_open(ctx, folder_path("model"), &h);
    CHECK_OK(ctx, fv_filler_open(ctx, folder_path("model"), FV_WEIGHT_F32, &filler));
    CHECK_OK(ctx, fv_fill_masks(filler, 1, &text, 1, &got));
    CHECK(got && got->count == 2);
    (void)hand_batch(&h, "x.yy.");
    h.ids[2] = h.ids[5] = fv_tokenizer_token_to_id(h.tok, "[MASK]", 6);
    for (int i = 0; got && got->count == 2 && i < 2; i++) {
        const int64_t one = 1;
        const void *row = &at[i];
        double best = 0;
        fv_batch batch = fv_batch_of_tokens(&h.tokens);
        fv_batch_add(&batch,
                     (fv_field){.name = "positions", .dtype = FV_I64, .row = &row, .length = &one});
        fv_tensor *logits =
            fv_model_kind_of(h.model)->fill_mask(ctx, fv_model_self(h.model), &batch, NULL);
        CHECK_OK(ctx, fv_tensor_item(ctx, fv_argmax(ctx, logits, -1, false), &best));
        CHECK_EQ(got->row[i].id, best);
        CHECK_OK(ctx,
                 fv_tensor_item(ctx, fv_topk(ctx, fv_softmax(ctx, logits, -1), 1, NULL), &best));
        CHECK_NEAR(got->row[i].p, best, 1e-5);
    }
    fv_filler_close(&filler);
    hand_close(&h);
    folder_remove();
    values_end(&ctx);
}

/* ---- errors --------------------------------------------------------------------------------- */

static void missing_parts_are_named(void)
{
    fv_ctx *ctx = values_begin();
    fv_embedder *embedder = NULL;
    fv_classifier *classifier = NULL;
    fv_filler *filler = NULL;
    fv_model *model = NULL;
    folder_make();
    encoder_folder_write(folder_sub("model"), 0, NULL);
    CHECK_EQ(fv_embedder_open(ctx, "/nowhere", FV_WEIGHT_F32, &embedder), FV_ERR_IO);
    CHECK_EQ(fv_classifier_open(ctx, folder_path("model"), FV_WEIGHT_F32, &classifier),
             FV_ERR_UNSUPPORTED);
    check_message(ctx, "a bert model cannot classify");
    CHECK_OK(ctx, fv_model_open(ctx, folder_path("model"), &model));
    CHECK_EQ(fv_filler_take(&model, folder_path("model"), FV_WEIGHT_F32, &filler),
             FV_ERR_UNSUPPORTED);
    check_message(ctx, "cannot fill");
    CHECK(model != NULL && !embedder && !classifier && !filler);
    CHECK_OK(ctx, fv_embedder_take(&model, folder_path("model"), FV_WEIGHT_BF16, &embedder));
    CHECK(model == NULL && embedder != NULL);
    fv_embedder_close(&embedder);
    fv_embedder_close(&embedder); /* NULL is fine */
    fv_classifier_close(&classifier);
    fv_filler_close(&filler);
    /* A head for masks, and a tokenizer without one. */
    size_t bytes = 0;
    char *letters = file_read(folder_path("model/tokenizer.json"), &bytes);
    encoder_head_write(folder_sub("fills"), ENCODER_FILLS, 0, NULL);
    file_write(folder_path("fills/tokenizer.json"), letters, bytes);
    CHECK_EQ(fv_filler_open(ctx, folder_path("fills"), FV_WEIGHT_F32, &filler), FV_ERR_UNSUPPORTED);
    check_message(ctx, "no token [MASK] or <mask>");
    program_run("run %s abc --task fill", folder_path("fills"));
    expect(4, "", "no token [MASK] or <mask>");
    program_run("run %s abc", folder_path("fills")); /* embeds instead */
    expect(0, " ", NULL);
    free(letters);
    folder_remove();
    values_end(&ctx);
}

static void bad_texts_are_errors(void)
{
    const fv_string good = text_of("abc"), binary = {"a\xff", 2};
    const fv_string texts[] = {good, text_of("abcdefghijklmnopqrstuvwxyz"), text_of("")};
    static const char plain[] = "{\"model\": {\"type\": \"WordLevel\", \"unk_token\": \"?\", "
                                "\"vocab\": {\"?\": 0, \"abc\": 1}}}";
    fv_ctx *ctx = values_begin();
    fv_classifier *classifier = NULL;
    const fv_classifications *got = NULL;
    folder_make();
    encoder_folder_write(folder_sub("model"), 3, NULL);
    CHECK_OK(ctx, fv_classifier_open(ctx, folder_path("model"), FV_WEIGHT_F32, &classifier));
    CHECK_EQ(fv_classify_texts(classifier, 0, texts, &got), FV_ERR_ARGUMENT);
    CHECK_EQ(fv_classify_texts(classifier, 1, &binary, &got), FV_ERR_FORMAT);
    CHECK_EQ(fv_classify_texts(classifier, 2, texts, &got), FV_ERR_LIMIT); /* not cut */
    check_message(ctx, "24 positions");
    CHECK(got == NULL);
    (void)fv_ctx_take_error(ctx);
    CHECK_OK(ctx, fv_classify_texts(classifier, 1, texts, &got));
    CHECK(got && got->count == 1);
    fv_classifier_close(&classifier);
    /* A tokenizer that adds no special tokens. */
    file_write(folder_path("model/tokenizer.json"), plain, sizeof plain - 1);
    CHECK_OK(ctx, fv_classifier_open(ctx, folder_path("model"), FV_WEIGHT_F32, &classifier));
    const fv_string empty[] = {good, text_of("")};
    CHECK_EQ(fv_classify_texts(classifier, 2, empty, &got), FV_ERR_ARGUMENT);
    check_message(ctx, "text 1 has no tokens");
    fv_classifier_close(&classifier);
    folder_remove();
    values_end(&ctx);
}

/* ---- examples/embed.c ------------------------------------------------------------------------ */

/* Where $FV_EXAMPLES names the folder of the built examples: see cmake/examples.cmake. */
static void the_example_prints_a_cosine(void)
{
    const char *examples = getenv("FV_EXAMPLES");
    if (!examples) return;
    char path[1024];
    snprintf(path, sizeof path, "%s/embed", examples);
    setenv("FV_PROGRAM", path, 1);
    folder_make();
    encoder_folder_write(folder_sub("model"), 0, NULL);
    program_run("%s heron heron", folder_path("model"));
    expect(0, "1.0000\n", NULL);
    program_run("%s heron stork", folder_path("model"));
    expect(0, "0.", NULL);
    CHECK(strstr(program.out, "1.0000") == NULL);
    program_run("/nowhere heron stork");
    expect(1, "", "/nowhere");
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(vectors_follow_the_folder);
    RUN(another_rule_can_be_set);
    RUN(long_texts_are_cut);
    RUN(company_changes_nothing);
    RUN(cosines);
    RUN(texts_are_classified);
    RUN(tokens_are_classified);
    RUN(masks_are_filled);
    RUN(masks_have_their_own_logits);
    RUN(missing_parts_are_named);
    RUN(bad_texts_are_errors);
    RUN(the_example_prints_a_cosine);
    program_end();
    return TEST_END();
}
