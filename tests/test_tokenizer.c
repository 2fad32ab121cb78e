/*
 * fovea/tokenizer.h: pipelines against what Hugging Face's library says of the texts in
 * data/text/tokenizer.jsonl (ids, offsets, types, decoding); learning; files; and what is refused.
 */
#include "fovea/tokenizer.h"

#include "support/files.h"
#include "support/test.h"
#include "support/tokens.h"

static fv_ctx *ctx;

/* ---- the recorded pipelines ------------------------------------------------------ */

static fv_tokenizer *tok;
static fv_tokenizer_encoder *enc;
static int pipeline_count, case_count;

static void next_pipeline(const fv_value *text)
{
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    CHECK_OK(ctx, fv_tokenizer_parse(ctx, "recorded", text->as.text, text->count, &tok));
    if (tok) CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, tok, &enc));
    pipeline_count++;
}

static void use_line(const fv_doc *doc)
{
    const fv_value *text = fv_value_get(&doc->root, "tokenizer");
    char name[40];
    snprintf(name, sizeof name, "pipeline %d", pipeline_count);
    const tokens_with with = {.ctx = ctx,
                              .tok = tok,
                              .enc = enc,
                              .name = name,
                              .decode_flags = FV_TOKENIZER_SKIP_SPECIALS};
    if (text) {
        next_pipeline(text);
        return;
    }
    for (int again = 0; again < 2 && enc; again++) /* the second time from the cache */
        case_count += tokens_compare(&with, doc);
}

static void as_hugging_face(void)
{
    tokens_each_line(ctx, test_path("data/text/tokenizer.jsonl"), use_line);
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    printf("tokenizers: %d pipelines, %d encodings\n", pipeline_count, case_count);
    CHECK(pipeline_count >= 34 && case_count >= 2500);
}

/* ---- learning -------------------------------------------------------------------- */

static const char *const lines[] = {"the cat sat on the mat", "the cats sat on the mats",
                                    "a cat and a mat",        "the \xC3\xA9l\xC3\xA8ve",
                                    "the the the hat",        "\xE6\x9D\xB1\xE4\xBA\xAC"};
enum { LINES = sizeof lines / sizeof lines[0] };

static fv_tokenizer *learn(const fv_tokenizer_trainer_config *cfg, int first)
{
    fv_tokenizer_trainer *trainer = NULL;
    fv_tokenizer *made = NULL;
    CHECK_OK(ctx, fv_tokenizer_trainer_create(ctx, cfg, &trainer));
    if (!trainer) return NULL;
    for (int i = 0; i < LINES; i++) {
        const char *line = lines[(first + i) % LINES];
        CHECK_OK(ctx, fv_tokenizer_trainer_add(trainer, line, strlen(line)));
    }
    CHECK_OK(ctx, fv_tokenizer_trainer_finish(trainer, &made));
    fv_tokenizer_trainer_destroy(&trainer);
    CHECK(trainer == NULL);
    return made;
}

static void saved_bytes(const fv_tokenizer *made, const char *name, char **data, size_t *bytes)
{
    CHECK_OK(ctx, fv_tokenizer_save(ctx, made, folder_path(name)));
    *data = file_read(folder_path(name), bytes);
}

/* What was learned decodes to the text; the order of the texts does not matter; saved and loaded it
 * is the same. */
static void learned_tokenizers(void)
{
    for (int kind = FV_TOKENIZER_CHARS; kind <= FV_TOKENIZER_BPE_METASPACE; kind++) {
        fv_tokenizer_trainer_config cfg;
        fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, (fv_tokenizer_kind)kind);
        cfg.vocabulary = 300;
        cfg.begin = "<s>";
        cfg.end = "</s>";
        fv_tokenizer *made = learn(&cfg, 0), *other = learn(&cfg, 3), *loaded = NULL;
        if (!made || !other) continue;
        char *a = NULL, *b = NULL;
        size_t na = 0, nb = 0;
        saved_bytes(made, "a.json", &a, &na);
        saved_bytes(other, "b.json", &b, &nb);
        CHECK(na == nb && a && b && memcmp(a, b, na) == 0);
        free(a);
        free(b);
        CHECK_OK(ctx, fv_tokenizer_load(ctx, folder_path("a.json"), &loaded));
        CHECK_EQ(fv_tokenizer_vocab_size(loaded), fv_tokenizer_vocab_size(made));
        CHECK_EQ(fv_tokenizer_token_to_id(loaded, "<pad>", 5), 0);
        CHECK_EQ(fv_tokenizer_token_to_id(loaded, "<unk>", 5), 3);
        CHECK(fv_tokenizer_is_special(loaded, 1) && !fv_tokenizer_is_special(loaded, 4));
        fv_tokenizer_encoder *with = NULL;
        fv_text out = {0};
        CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, loaded, &with));
        for (int i = 0; i < LINES; i++) {
            fv_encoding e = {.struct_size = sizeof e};
            CHECK_OK(ctx, fv_tokenizer_encode(with, lines[i], strlen(lines[i]),
                                              FV_TOKENIZER_ADD_SPECIALS, &e));
            CHECK(e.count > 2 && e.ids[0] == 1 && e.ids[e.count - 1] == 2);
            CHECK(e.special_tokens_mask[0] == 1 && e.special_tokens_mask[1] == 0);
            CHECK_OK(ctx, fv_tokenizer_decode(ctx, loaded, e.ids, e.count,
                                              FV_TOKENIZER_SKIP_SPECIALS, &out));
            CHECK_STR(out.data, lines[i]);
        }
        fv_text_free(ctx, &out);
        fv_tokenizer_encoder_destroy(&with);
        fv_tokenizer_destroy(&made);
        fv_tokenizer_destroy(&other);
        fv_tokenizer_destroy(&loaded);
    }
}

/* Pieces inside a word are marked once however they were joined, the longest is taken first, and a
 * word with an unseen letter is unknown as a whole. */
static void word_pieces_are_learned(void)
{
    static const char *const texts[] = {"Hugs, hugs, hugs!", "hug hug mug", "mugs\xC3\xA9"};
    static const char *const wanted[] = {"hugs", ",", "mug", "##s", "[UNK]", "!"};
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer *trainer = NULL;
    fv_tokenizer *made = NULL;
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_WORDPIECE);
    cfg.specials[0] = "[UNK]";
    cfg.specials[1] = NULL;
    cfg.vocabulary = 24;
    cfg.lowercase = true;
    CHECK_OK(ctx, fv_tokenizer_trainer_create(ctx, &cfg, &trainer));
    for (int i = 0; i < 3; i++)
        CHECK_OK(ctx, fv_tokenizer_trainer_add(trainer, texts[i], strlen(texts[i])));
    CHECK_OK(ctx, fv_tokenizer_trainer_finish(trainer, &made));
    fv_tokenizer_trainer_destroy(&trainer);
    CHECK(fv_tokenizer_token_to_id(made, "##ug", 4) > 0 &&
          fv_tokenizer_token_to_id(made, "ug", 2) < 0);
    CHECK_EQ(fv_tokenizer_vocab_size(made),
             13); /* 8 letters; ##ug hug mug hugs, and no pair that occurs once */
    fv_tokenizer_encoder *with = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_text out = {0};
    static const char text[] = "HUGS, mugs hugz!";
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, made, &with));
    CHECK_OK(ctx, fv_tokenizer_encode(with, text, sizeof text - 1, 0, &e));
    CHECK_EQ(e.count, 6);
    for (size_t i = 0; i < e.count && i < 6; i++)
        CHECK_STR(fv_tokenizer_id_to_token(made, e.ids[i]).text, wanted[i]);
    CHECK_OK(ctx, fv_tokenizer_decode(ctx, made, e.ids, 4, 0, &out));
    CHECK_STR(out.data, "hugs, mugs");
    fv_text_free(ctx, &out);
    fv_tokenizer_encoder_destroy(&with);
    fv_tokenizer_destroy(&made);
    for (int i = 0; i < FV_TOKENIZER_MAX_SPECIALS; i++)
        cfg.specials[i] = NULL;
    CHECK_EQ(fv_tokenizer_trainer_create(ctx, &cfg, &trainer), FV_ERR_ARGUMENT);
}

/* Merges in the order of their counts; a tie goes to the older tokens. */
static void merges_in_order(void)
{
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer *trainer = NULL;
    fv_tokenizer *made = NULL;
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_BPE_METASPACE);
    cfg.specials[0] = NULL;
    cfg.vocabulary = 9;
    CHECK_OK(ctx, fv_tokenizer_trainer_create(ctx, &cfg, &trainer));
    /* ab 4 times, cd 3 times, _ab 3, abab 1; then _ab before _cd. */
    CHECK_OK(ctx, fv_tokenizer_trainer_add(trainer, "ab ab abab cd cd cd", 19));
    CHECK_OK(ctx, fv_tokenizer_trainer_finish(trainer, &made));
    static const char *const want[] = {"a",
                                       "b",
                                       "c",
                                       "d",
                                       "\xE2\x96\x81",
                                       "ab",
                                       "cd",
                                       "\xE2\x96\x81"
                                       "ab",
                                       "\xE2\x96\x81"
                                       "cd"};
    CHECK_EQ(fv_tokenizer_vocab_size(made), 9);
    for (int32_t i = 0; i < 9 && made; i++) {
        fv_string token = fv_tokenizer_id_to_token(made, i);
        CHECK_STR(token.text ? token.text : "(none)", want[i]);
    }
    CHECK(fv_tokenizer_id_to_token(made, 9).text == NULL &&
          fv_tokenizer_id_to_token(made, -1).text == NULL &&
          fv_tokenizer_id_to_token(made, (int64_t)1 << 32).text == NULL);
    fv_tokenizer_trainer_destroy(&trainer);
    fv_tokenizer_destroy(&made);
}

static void frequent_words_are_kept(void)
{
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_WORDS);
    cfg.vocabulary = 6;
    fv_tokenizer *made = learn(&cfg, 0);
    CHECK_EQ(fv_tokenizer_vocab_size(made), 6);
    CHECK_EQ(fv_tokenizer_token_to_id(made, "the", 3), 4);
    fv_tokenizer_encoder *with = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, made, &with));
    CHECK_OK(ctx, fv_tokenizer_encode(with, "the zebra", 9, 0, &e));
    CHECK(e.count == 2 && e.ids[0] == 4 && e.ids[1] == 3);
    fv_tokenizer_encoder_destroy(&with);
    fv_tokenizer_destroy(&made);
}

static void learning_that_cannot_be(void)
{
    fv_tokenizer_trainer *trainer = NULL;
    fv_tokenizer *made = NULL;
    for (int i = 0; i < 5; i++) {
        fv_tokenizer_trainer_config cfg;
        fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_BPE_BYTES);
        if (i == 0) cfg.kind = (fv_tokenizer_kind)9;
        if (i == 1) cfg.specials[1] = "<pad>";
        if (i == 2) cfg.begin = "<bos>";
        if (i == 3) cfg.vocabulary = (size_t)1 << 40;
        if (i == 4) cfg.normalize = true, cfg.form = (fv_normal_form)9;
        CHECK_EQ(fv_tokenizer_trainer_create(ctx, &cfg, &trainer), FV_ERR_ARGUMENT);
        CHECK(trainer == NULL);
    }
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_BPE_BYTES);
    CHECK_OK(ctx, fv_tokenizer_trainer_create(ctx, &cfg, &trainer));
    CHECK_EQ(fv_tokenizer_trainer_finish(trainer, &made), FV_ERR_STATE);
    CHECK_EQ(fv_tokenizer_trainer_add(trainer, "\xff", 1), FV_ERR_FORMAT);
    fv_tokenizer_trainer_destroy(&trainer);
}

/* ---- long pieces ----------------------------------------------------------------- */

/* A long piece goes another way through BPE than a short one; both must join the same pairs. */
static void long_and_short_pieces_agree(void)
{
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"aa\":2,\"ab\":3,\"aab\":4,"
        "\"ba\":5,\"aaaa\":6,\"abab\":7},\"merges\":[\"a a\",\"a b\",\"aa b\",\"b a\",\"aa aa\","
        "[\"ab\",\"ab\"]]}}";
    fv_tokenizer *small = NULL;
    fv_tokenizer_encoder *with = NULL;
    CHECK_OK(ctx, fv_tokenizer_parse(ctx, "small", json, sizeof json - 1, &small));
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, small, &with));
    uint32_t state = 1;
    for (int round = 0; round < 200 && with; round++) {
        char text[200];
        size_t n = 41 + (size_t)round % 150;
        for (size_t i = 0; i < n; i++) {
            state = state * 1664525u + 1013904223u;
            text[i] = state >> 28 < 9 ? 'a' : 'b';
        }
        /* The plain way: the first of the lowest ranks, again and again. */
        int64_t ids[200];
        size_t count = n;
        static const int32_t merges[][3] = {{0, 0, 2}, {0, 1, 3}, {2, 1, 4},
                                            {1, 0, 5}, {2, 2, 6}, {3, 3, 7}};
        for (size_t i = 0; i < n; i++)
            ids[i] = text[i] == 'b';
        for (int m = 0; m < 6; m++)
            for (size_t i = 0; i + 1 < count; i++)
                if (ids[i] == merges[m][0] && ids[i + 1] == merges[m][1]) {
                    ids[i] = merges[m][2];
                    memmove(ids + i + 1, ids + i + 2, (count - i - 2) * sizeof *ids);
                    count--;
                    m = -1;
                    break;
                }
        fv_encoding e = {.struct_size = sizeof e};
        CHECK_OK(ctx, fv_tokenizer_encode(with, text, n, 0, &e));
        CHECK(e.count == count && memcmp(e.ids, ids, count * sizeof *ids) == 0);
    }
    fv_tokenizer_encoder_destroy(&with);
    fv_tokenizer_destroy(&small);
}

/* A million letters without a blank: time must not follow the square of the length. */
static void one_endless_word(void)
{
    enum { N = 1000000 };
    fv_tokenizer_trainer_config cfg;
    fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, FV_TOKENIZER_BPE_BYTES);
    cfg.vocabulary = 300;
    fv_tokenizer *made = learn(&cfg, 0);
    fv_tokenizer_encoder *with = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    char *text = malloc(N);
    for (size_t i = 0; i < N; i++)
        text[i] = "thecatsat"[i % 9];
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, made, &with));
    CHECK_OK(ctx, fv_tokenizer_encode(with, text, N, 0, &e));
    CHECK(e.count > 0 && e.count < N && e.offsets[e.count - 1].end == N);
    free(text);
    fv_tokenizer_encoder_destroy(&with);
    fv_tokenizer_destroy(&made);
}

/* Very many added tokens with one beginning, and a text that is nothing but that beginning: the
 * longest is found, and the time does not follow their number. */
static void many_added_tokens(void)
{
    enum { TOKENS = 20000, N = 300000 };
    char *json = malloc(TOKENS * 80 + 200), *text = malloc(N);
    size_t used = (size_t)sprintf(json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},"
                                        "\"merges\":[]},\"added_tokens\":[");
    for (int i = 0; i < TOKENS; i++)
        used +=
            (size_t)sprintf(json + used, "%s{\"id\":%d,\"content\":\"aaaaaaa%d\",\"special\":true}",
                            i ? "," : "", i + 1, i);
    used += (size_t)sprintf(json + used, "]}");
    fv_tokenizer *made = NULL;
    fv_tokenizer_encoder *with = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    CHECK_OK(ctx, fv_tokenizer_parse(ctx, "many", json, used, &made));
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, made, &with));
    memset(text, 'a', N);
    memcpy(text + N - 5, "19999", 5);
    CHECK_OK(ctx, fv_tokenizer_encode(with, text, N, 0, &e));
    CHECK_EQ(e.count, N - 12 + 1);
    CHECK_EQ(e.ids[e.count - 1], TOKENS);
    CHECK_EQ(e.offsets[e.count - 1].begin, N - 12);
    fv_tokenizer_encoder_destroy(&with);
    fv_tokenizer_destroy(&made);
    memset(text, 'b', 300);
    used = (size_t)sprintf(json,
                           "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},"
                           "\"added_tokens\":[{\"id\":1,\"content\":\"%.257s\"}]}",
                           text);
    CHECK_EQ(fv_tokenizer_parse(ctx, "long", json, used, &made), FV_ERR_LIMIT);
    free(json);
    free(text);
}

/* ---- files ----------------------------------------------------------------------- */

static void write_text(const char *name, const char *text)
{
    file_write(folder_path(name), text, strlen(text));
}

static void folders(void)
{
    fv_tokenizer *made = NULL;
    char path[300];
    snprintf(path, sizeof path, "%s", folder_path("."));
    CHECK_EQ(fv_tokenizer_load(ctx, path, &made), FV_ERR_IO);
    CHECK(strstr(fv_ctx_message(ctx), "no tokenizer found"));
    write_text("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n##s\n");
    CHECK_OK(ctx, fv_tokenizer_load(ctx, path, &made));
    fv_tokenizer_encoder *with = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, made, &with));
    CHECK_OK(ctx, fv_tokenizer_encode(with, "C\xC3\xA2ts", 5, FV_TOKENIZER_ADD_SPECIALS, &e));
    CHECK(e.count == 4 && e.ids[1] == 5 && e.ids[2] == 6 && e.offsets[2].begin == 4);
    fv_tokenizer_encoder_destroy(&with);
    fv_tokenizer_destroy(&made);
    write_text("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\nCat\n");
    write_text("tokenizer_config.json", "{\"do_lower_case\": false}");
    CHECK_OK(ctx, fv_tokenizer_load(ctx, path, &made));
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, made, &with));
    CHECK_OK(ctx, fv_tokenizer_encode(with, "Cat", 3, 0, &e));
    CHECK(e.count == 1 && e.ids[0] == 6);
    fv_tokenizer_encoder_destroy(&with);
    fv_tokenizer_destroy(&made);
    write_text("tokenizer_config.json", "{\"do_lower_case\": 1}");
    CHECK_EQ(fv_tokenizer_load(ctx, path, &made), FV_ERR_FORMAT);
    write_text("vocab.json", "{\"a\": 0, \"b\": 1, \"ab\": 2, \"\xC4\xA0\": 3}");
    write_text("merges.txt", "#version: 0.2\na b\n");
    CHECK_OK(ctx, fv_tokenizer_load(ctx, path, &made));
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, made, &with));
    CHECK_OK(ctx, fv_tokenizer_encode(with, "ab a", 4, 0, &e));
    CHECK(e.count == 3 && e.ids[0] == 2 && e.ids[1] == 3 && e.ids[2] == 0);
    fv_tokenizer_encoder_destroy(&with);
    fv_tokenizer_destroy(&made);
    write_text("merges.txt", "#version: 0.2\na b\na c\n");
    CHECK_EQ(fv_tokenizer_load(ctx, path, &made), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "merges.txt:3: expected two tokens"));
    CHECK_EQ(fv_tokenizer_load(ctx, folder_path("absent.json"), &made), FV_ERR_IO);
    CHECK(made == NULL);
}

/* ---- what is refused ------------------------------------------------------------- */

static void refused_files(void)
{
#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}"
    static const struct {
        const char *json;
        fv_status status;
        const char *message;
    } cases[] = {
        {"[]", FV_ERR_FORMAT, "an object"},
        {"{}", FV_ERR_FORMAT, "model"},
        {"{\"model\":{\"type\":\"Odd\",\"vocab\":{}}}", FV_ERR_UNSUPPORTED, "Odd"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", FV_ERR_FORMAT, "merges"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", FV_ERR_FORMAT, ""},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1048576},\"merges\":[]}}", FV_ERR_LIMIT,
         "id"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", FV_ERR_FORMAT,
         "duplicate token id 0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", FV_ERR_FORMAT,
         "\"b\", which is not a token"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", FV_ERR_FORMAT,
         "\"aa\", which is not a token"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"aa\"]}}", FV_ERR_FORMAT,
         "one blank"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", FV_ERR_FORMAT,
         "two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.5,\"vocab\":{},\"merges\":[]}}",
         FV_ERR_UNSUPPORTED, "dropout"},
        {"{\"normalizer\":{\"type\":\"Precompiled\"}," MODEL "}", FV_ERR_FORMAT,
         "precompiled_charsmap"},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"a?==\"}," MODEL "}",
         FV_ERR_FORMAT, "base64: invalid"},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAAAAAA\"}," MODEL
         "}",
         FV_ERR_FORMAT, "charsmap: 6 bytes"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",-1.0]]}}", FV_ERR_FORMAT,
         "1"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\"]]}}", FV_ERR_FORMAT,
         "a token and its score"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",0],[\"a\",0]]}}",
         FV_ERR_FORMAT, "duplicate"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",1e300]]}}", FV_ERR_FORMAT,
         "too large"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",0]],\"sentencepiece\":{"
         "\"kinds\":\"22\"}}}",
         FV_ERR_FORMAT, "has 2 digits, expected 1"},
        {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",0]],\"sentencepiece\":{"
         "\"kinds\":\"9\"}}}",
         FV_ERR_FORMAT, "invalid kind"},
        {"{\"decoder\":{\"type\":\"Sequence\",\"sentencepiece\":{}}," MODEL "}", FV_ERR_FORMAT,
         "SentencePiece model"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(a\"},\"content\":\"\"}"
         "," MODEL "}",
         FV_ERR_FORMAT, "missing ')'"},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"\"},\"content\":\"\"}"
         "," MODEL "}",
         FV_ERR_FORMAT, "pattern is empty"},
        {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"}," MODEL "}",
         FV_ERR_FORMAT, "one character"},
        {"{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"WordLevel\",\"vocab\":{"
         "}}}",
         FV_ERR_UNSUPPORTED, "ByteLevel"},
        {"{\"pre_tokenizer\":{\"type\":\"Punctuation\",\"behavior\":\"Odd\"}," MODEL "}",
         FV_ERR_UNSUPPORTED, "Odd"},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
         "\"id\":"
         "\"x\"}}],\"pair\":[],\"special_tokens\":{}}," MODEL "}",
         FV_ERR_FORMAT, "\"x\""},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":"
         "\"B\"}"
         "}],\"pair\":[]}," MODEL "}",
         FV_ERR_FORMAT, "single text"},
        {"{\"decoder\":{\"type\":\"CTC\"}," MODEL "}", FV_ERR_UNSUPPORTED, "CTC"},
        {"{\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]," MODEL "}", FV_ERR_FORMAT,
         "another token"},
        {"{\"added_tokens\":[{\"id\":2}]," MODEL "}", FV_ERR_FORMAT, "content"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fv_tokenizer *made = NULL;
        fv_status s =
            fv_tokenizer_parse(ctx, "t.json", cases[i].json, strlen(cases[i].json), &made);
        if (s != cases[i].status || made || !strstr(fv_ctx_message(ctx), cases[i].message))
            test_failed(__FILE__, __LINE__, "%s: %s, \"%s\"", cases[i].json, fv_status_name(s),
                        fv_ctx_message(ctx));
        fv_tokenizer_destroy(&made);
    }
}

/* Nesting beyond the reader's depth, more tokens than the context allows, and merges that lead
 * nowhere: the first two are refused, the last come to an end. */
static void hostile_files(void)
{
    enum { DEPTH = 100 };
    char deep[8192] = "{\"normalizer\":";
    for (int i = 0; i < DEPTH; i++)
        strcat(deep, "{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < DEPTH; i++)
        strcat(deep, "]}");
    strcat(deep, "," MODEL "}");
    fv_tokenizer *made = NULL;
    CHECK_EQ(fv_tokenizer_parse(ctx, "deep", deep, strlen(deep), &made), FV_ERR_LIMIT);
    fv_ctx_config cfg;
    fv_ctx *narrow = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.limits.vocabulary = 2;
    CHECK_EQ(fv_ctx_create(&cfg, &narrow), FV_OK);
    static const char *const large[] = {
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",0],[\"b\",0],[\"c\",0]]}}",
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2},\"merges\":[]}}",
        "\n\x03\n\x01x\n\x05\n\x01y\x18\x02\n\x03\n\x01z"};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(fv_tokenizer_parse(narrow, "large", large[i], strlen(large[i]), &made),
                 FV_ERR_LIMIT);
    fv_ctx_destroy(&narrow);
    /* "a" and nothing are "a" again, and "b" likewise. */
    static const char cycle[] = "{\"model\":{\"type\":\"BPE\",\"continuing_subword_prefix\":\"b\","
                                "\"vocab\":{\"\":0,\"a\":1,"
                                "\"b\":2,\"bb\":3,\"ba\":4},\"merges\":[[\"a\",\"b\"],[\"b\",\"b\"]"
                                ",[\"\",\"a\"],[\"a\",\"\"],"
                                "[\"bb\",\"b\"]]}}";
    fv_tokenizer_encoder *with = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    CHECK_OK(ctx, fv_tokenizer_parse(ctx, "cycle", cycle, sizeof cycle - 1, &made));
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, made, &with));
    char text[100];
    for (size_t n = 1; n < sizeof text; n++) {
        memset(text, n % 3 ? 'a' : 'b', n);
        CHECK_OK(ctx, fv_tokenizer_encode(with, text, n, 0, &e));
        CHECK(e.count <= n);
    }
    fv_tokenizer_encoder_destroy(&with);
    fv_tokenizer_destroy(&made);
}

static void refused_texts(void)
{
    static const char json[] = "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},"
                               "\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"}}";
    fv_tokenizer *made = NULL;
    fv_tokenizer_encoder *with = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_text out = {0};
    CHECK_OK(ctx, fv_tokenizer_parse(ctx, "t", json, sizeof json - 1, &made));
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, made, &with));
    CHECK_EQ(fv_tokenizer_encode(with, "a\xff", 2, 0, &e), FV_ERR_FORMAT);
    CHECK_EQ(fv_tokenizer_encode(with, "a b", 3, 0, &e), FV_ERR_STATE);
    CHECK_OK(ctx, fv_tokenizer_encode(with, "a a", 3, 0, &e));
    CHECK_EQ(e.count, 2);
    CHECK_OK(ctx, fv_tokenizer_encode(with, "", 0, FV_TOKENIZER_ADD_SPECIALS, &e));
    CHECK_EQ(e.count, 0);
    CHECK_EQ(fv_tokenizer_decode(ctx, made, (int64_t[]){-1}, 1, 0, &out), FV_ERR_INDEX);
    CHECK_OK(ctx, fv_tokenizer_decode(ctx, made, NULL, 0, 0, &out));
    CHECK_STR(out.data, "");
    fv_text_free(ctx, &out);
    fv_tokenizer_encoder_destroy(&with);
    fv_tokenizer_destroy(&made);
    fv_tokenizer_encoder_destroy(&with);
    fv_tokenizer_destroy(&made);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    folder_make();
    RUN(folders);
    RUN(as_hugging_face);
    RUN(learned_tokenizers);
    RUN(word_pieces_are_learned);
    RUN(merges_in_order);
    RUN(frequent_words_are_kept);
    RUN(learning_that_cannot_be);
    RUN(long_and_short_pieces_agree);
    RUN(one_endless_word);
    RUN(many_added_tokens);
    RUN(refused_files);
    RUN(hostile_files);
    RUN(refused_texts);
    folder_remove();
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
