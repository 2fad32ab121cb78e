/*
 * SentencePiece's files against SentencePiece: small models of every kind with its ids, offsets and
 * decoding of many texts (data/text/sentencepiece.jsonl), saved and read again; broken files.
 */
#include "support/files.h"
#include "support/test.h"
#include "support/tokens.h"

static fv_ctx *ctx;
static fv_tokenizer *tok;
static fv_tokenizer_encoder *enc;
static char name[64];
static bool saved; /* read the model again from what was saved */
static int models, cases;

static void next_model(const fv_value *which)
{
    char path[100];
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    snprintf(name, sizeof name, "%s%s", which->as.text, saved ? " as JSON" : "");
    snprintf(path, sizeof path, "data/text/sentencepiece/%s.model", which->as.text);
    CHECK_OK(ctx, fv_tokenizer_load(ctx, test_path(path), &tok));
    if (tok && saved) {
        CHECK_OK(ctx, fv_tokenizer_save(ctx, tok, folder_path("tokenizer.json")));
        fv_tokenizer_destroy(&tok);
        CHECK_OK(ctx, fv_tokenizer_load(ctx, folder_path("tokenizer.json"), &tok));
    }
    if (tok) CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, tok, &enc));
    models++;
}

static void use_line(const fv_doc *doc)
{
    const fv_value *which = fv_value_get(&doc->root, "model");
    const tokens_with with = {.ctx = ctx, .tok = tok, .enc = enc, .name = name};
    if (which)
        next_model(which);
    else if (enc)
        cases += tokens_compare(&with, doc);
}

static void as_sentencepiece(void)
{
    for (int again = 0; again < 2; again++) {
        saved = again;
        models = cases = 0;
        int lines = tokens_each_line(ctx, test_path("data/text/sentencepiece.jsonl"), use_line);
        CHECK_EQ(models, 8);
        CHECK_EQ(cases, lines - models);
    }
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
    printf("SentencePiece: %d models, %d encodings\n", models, cases);
}

/* A folder is searched for the names that models have. */
static void folders(void)
{
    size_t bytes = 0;
    char *model = file_read(test_path("data/text/sentencepiece/bpe.model"), &bytes);
    fv_tokenizer *made = NULL;
    char path[300];
    CHECK(model != NULL);
    if (!model) return;
    snprintf(path, sizeof path, "%s", folder_sub("t5"));
    CHECK_EQ(fv_tokenizer_load(ctx, path, &made), FV_ERR_IO);
    file_write(folder_path("t5/spiece.model"), model, bytes);
    CHECK_OK(ctx, fv_tokenizer_load(ctx, path, &made));
    CHECK_EQ(fv_tokenizer_token_to_id(made, "<unk>", 5), 0);
    CHECK(fv_tokenizer_is_special(made, 1) && !fv_tokenizer_is_special(made, 20));
    fv_tokenizer_destroy(&made);
    free(model);
}

/* Cut off anywhere, a model is refused, or is a smaller model if only its last parts are gone. */
static void cut_off(void)
{
    size_t bytes = 0;
    char *model = file_read(test_path("data/text/sentencepiece/unigram.model"), &bytes);
    int refused = 0;
    CHECK(model != NULL);
    for (size_t n = 0; model && n < bytes; n++) {
        fv_tokenizer *made = NULL;
        fv_status s = fv_tokenizer_parse(ctx, "cut", model, n, &made);
        CHECK(s == FV_OK || s == FV_ERR_FORMAT);
        CHECK((s == FV_OK) == (made != NULL));
        refused += s != FV_OK;
        fv_tokenizer_destroy(&made);
    }
    CHECK(refused > (int)bytes * 9 / 10);
    free(model);
}

/* ---- models made by hand --------------------------------------------------------- */

typedef struct builder {
    char data[4096];
    size_t bytes;
} builder;

static void put(builder *b, const char *data, size_t bytes)
{
    memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
}

/* A piece; `kind` 0 leaves the field out. */
static void put_piece(builder *b, const char *text, float score, int kind)
{
    size_t n = strlen(text);
    char head[4] = {10, (char)(n + 7 + (kind ? 2 : 0)), 10, (char)n};
    put(b, head, 4);
    put(b, text, n);
    put(b, "\x15", 1);
    put(b, (const char *)&score, 4); /* the tests run on little-endian machines */
    if (kind) put(b, (char[]){0x18, (char)kind}, 2);
}

static void expect(const builder *b, fv_status status, const char *message)
{
    fv_tokenizer *made = NULL;
    fv_status s = fv_tokenizer_parse(ctx, "made", b->data, b->bytes, &made);
    if (s != status || made || !strstr(fv_ctx_message(ctx), message))
        test_failed(__FILE__, __LINE__, "%s: %s, \"%s\"", message, fv_status_name(s),
                    fv_ctx_message(ctx));
    fv_tokenizer_destroy(&made);
}

static void refused_models(void)
{
    builder b = {.bytes = 0};
    put_piece(&b, "a", -1, 0);
    expect(&b, FV_ERR_FORMAT, "exactly one unknown");
    put_piece(&b, "<unk>", 0, 2);
    const builder good = b;
    fv_tokenizer *made = NULL;
    CHECK_OK(ctx, fv_tokenizer_parse(ctx, "made", good.data, good.bytes, &made));
    CHECK_EQ(fv_tokenizer_vocab_size(made), 2);
    fv_tokenizer_destroy(&made);
    put_piece(&b, "a", -2, 0);
    expect(&b, FV_ERR_FORMAT, "duplicate");
    b = good;
    put_piece(&b, "", 0, 0);
    expect(&b, FV_ERR_FORMAT, "piece 2 is empty");
    b = good;
    put_piece(&b, "\xFF", 0, 0);
    expect(&b, FV_ERR_FORMAT, "not UTF-8");
    b = good;
    put_piece(&b, "b", (float)NAN, 0);
    expect(&b, FV_ERR_FORMAT, "not finite");
    b = good;
    put_piece(&b, "b", 0, 7);
    expect(&b, FV_ERR_FORMAT, "unknown type");
    b = good;
    put_piece(&b, "<0x41>", 0, 6);
    expect(&b, FV_ERR_FORMAT, "256 byte pieces");
    b = good;
    put_piece(&b, "A", 0, 6);
    expect(&b, FV_ERR_FORMAT, "a byte piece");
    b = good;
    put(&b, "\x12\x02\x18\x03", 4); /* words */
    expect(&b, FV_ERR_UNSUPPORTED, "word models");
    b = good;
    put(&b, "\x1A\x05\x12\x03xyz", 7); /* a charsmap of three bytes */
    expect(&b, FV_ERR_FORMAT, "charsmap: 3 bytes");
    b = good;
    put(&b, "\x2A\x03\x12\x01x", 5);
    expect(&b, FV_ERR_UNSUPPORTED, "denormalizer");
    b = good;
    put(&b, "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 10);
    expect(&b, FV_ERR_FORMAT, "is truncated");
    b = good;
    put(&b, "\x0B", 1);
    expect(&b, FV_ERR_FORMAT, "not a SentencePiece model");
}

/* Time and memory follow the length of a text without a blank. */
static void one_endless_word(void)
{
    enum { N = 300000 };
    static const char *const files[] = {"data/text/sentencepiece/unigram.model",
                                        "data/text/sentencepiece/bpe.model"};
    char *text = malloc(N);
    for (size_t i = 0; i < N; i++)
        text[i] = "theballs"[i % 8];
    for (int i = 0; i < 2; i++) {
        fv_tokenizer *made = NULL;
        fv_tokenizer_encoder *with = NULL;
        fv_encoding e = {.struct_size = sizeof e};
        CHECK_OK(ctx, fv_tokenizer_load(ctx, test_path(files[i]), &made));
        CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, made, &with));
        CHECK_OK(ctx, fv_tokenizer_encode(with, text, N, 0, &e));
        CHECK(e.count > 0 && e.count < N && e.offsets[e.count - 1].end == N);
        fv_tokenizer_encoder_destroy(&with);
        fv_tokenizer_destroy(&made);
    }
    free(text);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    folder_make();
    RUN(as_sentencepiece);
    RUN(folders);
    RUN(cut_off);
    RUN(refused_models);
    RUN(one_endless_word);
    folder_remove();
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
