/*
 * What a tokenizer may make of its input: each stage stops at its limit, with a message that names
 * the file and the stage, and texts within the limits are not refused.
 */
#include "fovea/tokenizer.h"
#include "support/test.h"

#define WORDS ",\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1}}}"

static fv_ctx *make_context(const fv_limits *limits)
{
    fv_ctx_config cfg;
    fv_ctx *ctx = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    if (limits) cfg.limits = *limits;
    CHECK_EQ(fv_ctx_create(&cfg, &ctx), FV_OK);
    return ctx;
}

/* Encodes `bytes` letters "a" and decodes the result; the status of the first call that fails. */
static fv_status run(fv_ctx *ctx, const char *json, size_t bytes)
{
    fv_tokenizer *tok = NULL;
    fv_tokenizer_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    fv_text out = {0};
    char *text = malloc(bytes + 1);
    memset(text, 'a', bytes);
    fv_status s = fv_tokenizer_parse(ctx, "some.json", json, strlen(json), &tok);
    if (s == FV_OK) s = fv_tokenizer_encoder_create(ctx, tok, &enc);
    if (s == FV_OK) s = fv_tokenizer_encode(enc, text, bytes, FV_TOKENIZER_ADD_SPECIALS, &e);
    if (s == FV_OK) s = fv_tokenizer_decode(ctx, tok, e.ids, e.count, 0, &out);
    fv_text_free(ctx, &out);
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    free(text);
    return s;
}

#define TWENTY "aaaaaaaaaaaaaaaaaaaa"
#define REPLACE(pattern, content)                                                                  \
    "{\"type\":\"Replace\",\"pattern\":{" pattern "},\"content\":\"" content "\"}"
#define SPLIT(pattern)                                                                             \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\"}"
#define MARKS(mark) "{\"type\":\"Metaspace\",\"split\":false,\"replacement\":\"" mark "\"}"
#define SEVEN_MARKS                                                                                \
    MARKS("\\u4e01")                                                                               \
    "," MARKS("\\u4e02") "," MARKS("\\u4e03") "," MARKS("\\u4e04") "," MARKS("\\u4e05") "," MARKS( \
        "\\u4e06") "," MARKS("\\u4e07")
#define SEQUENCE "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}"
#define SIX      SEQUENCE "," SEQUENCE "," SEQUENCE "," SEQUENCE "," SEQUENCE "," SEQUENCE
#define LETTERS  TWENTY TWENTY TWENTY TWENTY TWENTY TWENTY

/* For each stage: one file that is over a limit for 20,000 letters. */
static void every_stage_has_a_limit(void)
{
    static const struct {
        const char *json, *stage, *what;
    } cases[] = {
        {"{\"normalizer\":" REPLACE("\"String\":\"a\"", TWENTY) WORDS, "normalizer Replace",
         "makes more"},
        {"{\"normalizer\":" REPLACE("\"Regex\":\"a\"", TWENTY) WORDS, "normalizer Replace",
         "makes more"},
        {"{\"normalizer\":" REPLACE("\"Regex\":\"(?>a*)b\"", "") WORDS, "normalizer Replace",
         "too many steps"},
        {"{\"normalizer\":" REPLACE("\"String\":\"" LETTERS LETTERS LETTERS "b\"", "") WORDS,
         "normalizer Replace", "too many steps"},
        {"{\"pre_tokenizer\":" SPLIT("(?>a*)b") WORDS, "pre-tokenizer Split", "too many steps"},
        {"{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" SPLIT("a") "," SEVEN_MARKS
                                                                                    "]}" WORDS,
         "pre-tokenizer Metaspace", "makes more"},
        {"{\"added_tokens\":[{\"id\":7,\"content\":\"" LETTERS LETTERS
         "b\"},{\"id\":8,\"special\":true,\"content\":\"" LETTERS LETTERS "c\"}]" WORDS,
         "added tokens", "too many steps"},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"pair\":[],\"single\":[" SIX "," SIX
         "," SIX "," SIX "]},\"pre_tokenizer\":" SPLIT("a") WORDS,
         "post-processor", "makes more"},
        {"{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"}," REPLACE(
             "\"String\":\"a\"", LETTERS LETTERS LETTERS LETTERS LETTERS LETTERS LETTERS LETTERS
                                     LETTERS) "]},\"pre_tokenizer\":" SPLIT("a") WORDS,
         "decoder Replace", "makes more"},
        {"{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"}," REPLACE(
             "\"Regex\":\"(?>a*)b\"", "") "]},\"pre_tokenizer\":" SPLIT("a") WORDS,
         "decoder Replace", "too many steps"},
    };
    fv_ctx *ctx = make_context(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const fv_status s = run(ctx, cases[i].json, 20000);
        const char *m = fv_ctx_message(ctx);
        if (s != FV_ERR_LIMIT || !strstr(m, "some.json: ") || !strstr(m, cases[i].stage) ||
            !strstr(m, cases[i].what))
            test_failed(__FILE__, __LINE__, "%s (%s): %s, \"%s\"", cases[i].stage, cases[i].what,
                        fv_status_name(s), m);
    }
    fv_ctx_destroy(&ctx);
}

/* The limits are those of the context. */
static void limits_can_be_set(void)
{
    static const char doubles[] = "{\"normalizer\":" REPLACE("\"String\":\"a\"", "aa") WORDS;
    static const char splits[] = "{\"pre_tokenizer\":" SPLIT("a*b") WORDS;
    static const char decodes[] =
        "{\"decoder\":" REPLACE("\"String\":\"a\"", LETTERS) ","
                                                             "\"pre_tokenizer\":" SPLIT("a") WORDS;
    static const char *const files[] = {doubles, splits, decodes};
    for (int i = 0; i < 3; i++) {
        fv_limits limits;
        fv_limits_init(&limits, sizeof limits);
        for (int tight = 0; tight < 2; tight++) {
            uint64_t *limit = i == 0   ? &limits.text_growth
                              : i == 1 ? &limits.text_steps
                                       : &limits.decoded_bytes;
            if (tight) *limit = 1;
            fv_ctx *ctx = make_context(&limits);
            CHECK_EQ(run(ctx, files[i], 100000), tight ? FV_ERR_LIMIT : FV_OK);
            /* A short text is never refused. */
            CHECK_OK(ctx, run(ctx, files[i], 100));
            fv_ctx_destroy(&ctx);
        }
    }
}

/* No Unicode normal form is refused: the longest makes 33 bytes of 3. */
static void normal_forms_fit(void)
{
    enum { COUNT = 30000 };
    static const char json[] = "{\"normalizer\":{\"type\":\"NFKD\"}" WORDS;
    fv_ctx *ctx = make_context(NULL);
    fv_tokenizer *tok = NULL;
    fv_tokenizer_encoder *enc = NULL;
    fv_encoding e = {.struct_size = sizeof e};
    char *text = malloc(3 * COUNT);
    for (size_t i = 0; i < COUNT; i++)
        memcpy(text + 3 * i, "\xEF\xB7\xBA", 3);
    CHECK_OK(ctx, fv_tokenizer_parse(ctx, "t", json, sizeof json - 1, &tok));
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, tok, &enc));
    CHECK_OK(ctx, fv_tokenizer_encode(enc, text, 3 * COUNT, 0, &e));
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    free(text);
    fv_ctx_destroy(&ctx);
}

static int warnings;
static char warning[256];

static void count_warning(void *user, fv_log_level level, const char *text)
{
    (void)user;
    if (level != FV_LOG_WARN) return;
    warnings++;
    snprintf(warning, sizeof warning, "%s", text);
}

/* A model may have more outputs than its tokenizer has tokens: such ids are left out, as Hugging
 * Face does, with one warning. */
static void ids_without_a_token(void)
{
    static const char *const files[] = {
        "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0,\"b\":5}}}",
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":2,\"vocab\":[[\"a\",-1],[\"b\",-1],"
        "[\"u\",0]],\"sentencepiece\":{\"kinds\":\"112\"}},\"decoder\":{\"type\":\"Metaspace\","
        "\"sentencepiece\":{\"unk_surface\":\"?\"}}}"};
    for (int i = 0; i < 2; i++) {
        fv_ctx_config cfg;
        fv_ctx *own = NULL;
        fv_tokenizer *made = NULL;
        fv_text out = {0};
        fv_ctx_config_init(&cfg, sizeof cfg);
        cfg.log = count_warning;
        warnings = 0;
        CHECK_EQ(fv_ctx_create(&cfg, &own), FV_OK);
        CHECK_OK(own, fv_tokenizer_parse(own, "t.json", files[i], strlen(files[i]), &made));
        CHECK_OK(own, fv_tokenizer_decode(own, made, (int64_t[]){0, 7, 3, 0}, 4, 0, &out));
        CHECK_STR(out.data, i == 0 ? "a a" : "aa");
        CHECK_OK(own, fv_tokenizer_decode(own, made, (int64_t[]){1000000, 0}, 2, 0, &out));
        CHECK_STR(out.data, "a");
        CHECK_EQ(warnings, 1);
        CHECK(strstr(warning, "t.json: no token has id 7"));
        CHECK_EQ(fv_tokenizer_decode(own, made, (int64_t[]){-1}, 1, 0, &out), FV_ERR_INDEX);
        fv_text_free(own, &out);
        fv_tokenizer_destroy(&made);
        fv_ctx_destroy(&own);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(every_stage_has_a_limit);
    RUN(limits_can_be_set);
    RUN(normal_forms_fit);
    RUN(ids_without_a_token);
    return TEST_END();
}
