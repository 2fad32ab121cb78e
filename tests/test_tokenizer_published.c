/*
 * Published vocabularies under $FOVEA_DATA/tokenizers: GPT-2, BERT and two SentencePiece models
 * must give, for 491 texts each, what Hugging Face's and Google's libraries give.
 */
#include <unistd.h>

#include "support/files.h"
#include "support/test.h"
#include "support/tokens.h"

static fv_ctx *ctx;
static tokens_with with;
static int equal;

enum { SKIPPED = 77 }; /* what ctest takes for skipped */

static const char *data_path(const char *rest)
{
    static char path[512];
    const char *data = getenv("FOVEA_DATA");
    snprintf(path, sizeof path, "%s/tokenizers/%s", data ? data : ".", rest);
    return path;
}

/* Unpacks a file of the set into our folder. */
static void unpack(const char *packed, const char *plain)
{
    tokens_unpack(ctx, data_path(packed), folder_path(plain));
}

static void use_line(const fv_doc *doc) { equal += tokens_compare(&with, doc); }

static void compare(const char *model, const char *expected, const char *pair)
{
    fv_tokenizer *tok = NULL;
    fv_tokenizer_encoder *enc = NULL;
    equal = 0;
    CHECK_OK(ctx, fv_tokenizer_load(ctx, folder_path(model), &tok));
    if (tok) CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, tok, &enc));
    with = (tokens_with){.ctx = ctx, .tok = tok, .enc = enc, .name = expected, .pair = pair};
    if (enc) CHECK_EQ(tokens_each_line(ctx, data_path(expected), use_line), 491);
    CHECK_EQ(equal, 491);
    fv_tokenizer_encoder_destroy(&enc);
    fv_tokenizer_destroy(&tok);
}

static void gpt2(void)
{
    folder_sub("gpt2");
    unpack("gpt2/vocab.json.xz", "gpt2/vocab.json");
    unpack("gpt2/merges.txt.xz", "gpt2/merges.txt");
    compare("gpt2", "expected/gpt2.jsonl.xz", NULL);
}

static void bert(void)
{
    static const char pair[] = "a second sentence.";
    folder_sub("bert");
    unpack("bert-base-uncased/vocab.txt.xz", "bert/vocab.txt");
    compare("bert", "expected/bert-base-uncased.jsonl.xz", NULL);
    compare("bert", "expected/bert-base-uncased-pair.jsonl.xz", pair);
    unpack("bert-base-uncased/tokenizer.json.xz", "bert/tokenizer.json");
    compare("bert", "expected/bert-base-uncased.jsonl.xz", NULL);
    compare("bert", "expected/bert-base-uncased-pair.jsonl.xz", pair);
}

static void sentencepiece(void)
{
    unpack("sentencepiece/en.model.xz", "en.model");
    compare("en.model", "expected/sentencepiece-en.jsonl.xz", NULL);
    unpack("sentencepiece/ja.model.xz", "ja.model");
    compare("ja.model", "expected/sentencepiece-ja.jsonl.xz", NULL);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (!getenv("FOVEA_DATA") || access(data_path("expected"), R_OK) != 0) {
        printf("skipped: no tokenizers under FOVEA_DATA\n");
        return SKIPPED;
    }
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    folder_make();
    RUN(gpt2);
    RUN(bert);
    RUN(sentencepiece);
    folder_remove();
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
