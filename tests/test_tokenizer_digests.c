/*
 * Tokenizers over every code point and over whole corpora, against checksums of what Hugging Face's
 * library and SentencePiece make of them (data/text/make_digests.py). A single rank, piece or
 * category that differs changes a checksum.
 */
#include <unistd.h>

#include "fovea/data.h"
#include "io/crc.h"
#include "io/utf8.h"
#include "support/files.h"
#include "support/test.h"
#include "support/tokens.h"
#include "text/pretokenized.h"

static fv_ctx *ctx;
static fv_crc crc;

/* ---- expected checksums ------------------------------------------------------------ */

static void check_digest(const char *name, uint32_t have)
{
    char known[96];
    unsigned want;
    FILE *f = fopen(test_path("data/text/digests.txt"), "r");
    if (!f) {
        test_failed(__FILE__, __LINE__, "no digests.txt");
        return;
    }
    bool found = false;
    while (!found && fscanf(f, "%95s %x", known, &want) == 2)
        found = strcmp(known, name) == 0;
    fclose(f);
    if (!found || have != want)
        test_failed(__FILE__, __LINE__, "%s: checksum %08x, expected %08x", name, have,
                    found ? want : 0);
}

/* Texts of 256 code points, each between letters, so that none affects another. */
static size_t code_point_text(uint32_t first, char text[256 * 7])
{
    size_t used = 0;
    for (uint32_t c = first; c < first + 256; c++) {
        if (c >= 0xD800 && c < 0xE000) continue;
        text[used++] = 'a';
        used += fv_utf8_put(c, text + used);
        text[used++] = 'b';
        text[used++] = ' ';
    }
    return used;
}

/* ---- steps of the pipeline --------------------------------------------------------- */

static fv_tokenizer *parse(const char *part)
{
    char json[512];
    fv_tokenizer *tok = NULL;
    const int n = snprintf(json, sizeof json,
                           "{%s,\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}}}", part);
    CHECK_OK(ctx, fv_tokenizer_parse(ctx, "test", json, (size_t)n, &tok));
    return tok;
}

static uint32_t add_pieces(fv_pretokenized *w, const fv_tokenizer *tok, const char *text,
                           size_t bytes, uint32_t sum)
{
    fv_pretokenized_begin_call(w, tok, bytes);
    CHECK_OK(ctx, fv_pretokenized_begin(w, text, bytes, 0));
    CHECK_OK(ctx, fv_pretokenized_normalize(w, tok));
    for (size_t i = 0; i < tok->pre_tokenizer_count; i++)
        CHECK_OK(ctx, fv_pretokenized_split(w, &tok->pre_tokenizers[i]));
    for (size_t i = 0; i < w->count; i++) {
        sum = fv_crc_add(&crc, sum, w->text + w->pieces[i].begin,
                         w->pieces[i].end - w->pieces[i].begin);
        sum = fv_crc_add(&crc, sum, "\n", 1);
    }
    if (tok->pre_tokenizer_count == 0 && w->count == 0) sum = fv_crc_add(&crc, sum, "\n", 1);
    return sum;
}

#define BERT(clean, chinese, accents)                                                              \
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":" clean                            \
    ",\"handle_chinese_chars\":" chinese ",\"strip_accents\":" accents ",\"lowercase\":false}"
#define NORMALIZER(type)    "\"normalizer\":{\"type\":\"" type "\"}"
#define PRE_TOKENIZER(type) "\"pre_tokenizer\":{\"type\":\"" type "\"}"

static void every_code_point_in_every_step(void)
{
    static const struct {
        const char *name, *part;
    } steps[] = {{"NFC", NORMALIZER("NFC")},
                 {"NFD", NORMALIZER("NFD")},
                 {"NFKC", NORMALIZER("NFKC")},
                 {"NFKD", NORMALIZER("NFKD")},
                 {"Lowercase", NORMALIZER("Lowercase")},
                 {"Strip", NORMALIZER("Strip")},
                 {"StripAccents", NORMALIZER("StripAccents")},
                 {"clean", BERT("true", "false", "false")},
                 {"chinese", BERT("false", "true", "false")},
                 {"accents", BERT("false", "false", "true")},
                 {"BertNormalizer", NORMALIZER("BertNormalizer")},
                 {"BertPreTokenizer", PRE_TOKENIZER("BertPreTokenizer")},
                 {"Punctuation", PRE_TOKENIZER("Punctuation")},
                 {"Whitespace", PRE_TOKENIZER("Whitespace")},
                 {"WhitespaceSplit", PRE_TOKENIZER("WhitespaceSplit")},
                 {"Digits", PRE_TOKENIZER("Digits")}};
    char text[256 * 7], name[64];
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        fv_tokenizer *tok = parse(steps[i].part);
        fv_pretokenized w;
        fv_pretokenized_init(&w, ctx);
        for (uint32_t plane = 0; plane < 17 && tok; plane++) {
            uint32_t sum = 0;
            for (uint32_t block = 0; block < 256; block++)
                sum =
                    add_pieces(&w, tok, text, code_point_text(plane << 16 | block << 8, text), sum);
            snprintf(name, sizeof name, "%s/%u", steps[i].name, plane);
            check_digest(name, sum);
        }
        fv_pretokenized_free(&w);
        fv_tokenizer_destroy(&tok);
    }
}

/* ---- a generated corpus ------------------------------------------------------------ */

/* The first half is for training, too. */
enum { WORDS = 3000, TRAINED = 3000, LINES = 6000, LINE_BYTES = 512 };
static char corpus[LINES][LINE_BYTES];

static uint32_t next_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Words of syllables, the first ones frequent; then long words of any syllables, in which merges
 * compete. */
static void make_corpus(void)
{
    static const char *const syllables[] = {"ba",  "ko", "li", "men", "tu",       "ra", "\xC3\xA9",
                                            "shi", "on", "ve", "da",  "\xC3\x9F", "gu", "pe",
                                            "ya",  "or", "zu", "ni",  "te",       "x"};
    enum { SYLLABLES = sizeof syllables / sizeof syllables[0] };
    static char words[WORDS][16];
    uint64_t state = 7;
    for (int i = 0; i < WORDS; i++)
        for (uint32_t n = 1 + next_number(&state) % 4; n > 0; n--)
            strcat(words[i], syllables[next_number(&state) % SYLLABLES]);
    for (int i = 0; i < TRAINED; i++) {
        char *line = corpus[i];
        size_t used = 0;
        const uint32_t count = 5 + next_number(&state) % 10;
        for (uint32_t k = 0; k < count; k++) {
            const uint32_t number = next_number(&state), among = 1 + next_number(&state) % WORDS;
            const char *word = words[number % among];
            used += (size_t)snprintf(line + used, LINE_BYTES - used, "%s%s%s",
                                     next_number(&state) % 8 ? "" : ",", k ? " " : "", word);
        }
        snprintf(line + used, LINE_BYTES - used, ".");
    }
    for (int i = TRAINED; i < LINES; i++)
        for (int k = 0; k < 20; k++)
            strcat(corpus[i], syllables[next_number(&state) % SYLLABLES]);
}

static uint32_t add_ids(fv_tokenizer_encoder *enc, const char *text, size_t bytes, uint32_t sum)
{
    static const int32_t end = -1;
    fv_encoding e = {.struct_size = sizeof e};
    CHECK_OK(ctx, fv_tokenizer_encode(enc, text, bytes, 0, &e));
    for (size_t i = 0; i < e.count; i++) {
        const int32_t id = (int32_t)e.ids[i]; /* the digests are of 32-bit numbers */
        sum = fv_crc_add(&crc, sum, &id, sizeof id);
    }
    return fv_crc_add(&crc, sum, &end, sizeof end);
}

static void check_corpus(const char *name, const fv_tokenizer *tok)
{
    fv_tokenizer_encoder *enc = NULL;
    uint32_t sum = 0;
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, tok, &enc));
    for (int i = 0; enc && i < LINES; i++)
        sum = add_ids(enc, corpus[i], strlen(corpus[i]), sum);
    check_digest(name, sum);
    fv_tokenizer_encoder_destroy(&enc);
}

static void trained_tokenizers(void)
{
    static const char *const kinds[] = {"chars",     "words",         "bpe-bytes",
                                        "bpe-words", "bpe-metaspace", "wordpiece"};
    for (int kind = FV_TOKENIZER_CHARS; kind <= FV_TOKENIZER_WORDPIECE; kind++) {
        fv_tokenizer_trainer_config cfg;
        fv_tokenizer_trainer *trainer = NULL;
        fv_tokenizer *tok = NULL;
        fv_tokenizer_trainer_config_init(&cfg, sizeof cfg, (fv_tokenizer_kind)kind);
        cfg.vocabulary = 2500;
        CHECK_OK(ctx, fv_tokenizer_trainer_create(ctx, &cfg, &trainer));
        for (int i = 0; trainer && i < TRAINED; i++)
            CHECK_OK(ctx, fv_tokenizer_trainer_add(trainer, corpus[i], strlen(corpus[i])));
        CHECK_OK(ctx, fv_tokenizer_trainer_finish(trainer, &tok));
        if (tok) check_corpus(kinds[kind], tok);
        fv_tokenizer_destroy(&tok);
        fv_tokenizer_trainer_destroy(&trainer);
    }
}

static void sentencepiece_models(void)
{
    static const char *const names[] = {
        "bpe",           "bpe_bytes",     "char",           "unigram",
        "unigram_bytes", "unigram_plain", "unigram_suffix", "unigram_user"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[96], name[64];
        fv_tokenizer *tok = NULL;
        snprintf(path, sizeof path, "data/text/sentencepiece/%s.model", names[i]);
        snprintf(name, sizeof name, "%s.model", names[i]);
        CHECK_OK(ctx, fv_tokenizer_load(ctx, test_path(path), &tok));
        if (tok) check_corpus(name, tok);
        fv_tokenizer_destroy(&tok);
    }
}

/* ---- published tokenizers ---------------------------------------------------------- */

static const char *data_path(const char *rest)
{
    static char path[4][512];
    static int turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", getenv("FOVEA_DATA"), rest);
    return out;
}

static void check_published(const char *name, const fv_tokenizer *tok)
{
    static const char *const corpora[] = {"wikitext-2/valid.txt.xz", "tatoeba-eng-cmn/cmn.txt.xz",
                                          "multi30k/val.de.gz"};
    fv_tokenizer_encoder *enc = NULL;
    char text[256 * 7], digest[96];
    uint32_t sum = 0;
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, tok, &enc));
    if (!enc) return;
    for (uint32_t first = 0; first < 0x110000; first += 256)
        sum = add_ids(enc, text, code_point_text(first, text), sum);
    snprintf(digest, sizeof digest, "%s/code-points", name);
    check_digest(digest, sum);
    for (size_t i = 0; i < sizeof corpora / sizeof corpora[0]; i++) {
        fv_lines *lines = NULL;
        fv_line line = {.text = ""};
        if (access(data_path(corpora[i]), R_OK) != 0) {
            printf("skipped: no %s under FOVEA_DATA\n", corpora[i]);
            continue;
        }
        CHECK_OK(ctx, fv_lines_open(ctx, data_path(corpora[i]), FV_LINES_POLICY_REJECT, &lines));
        for (sum = 0; lines && fv_lines_next(lines, &line) == FV_OK && line.text;)
            sum = add_ids(enc, line.text, line.bytes, sum);
        fv_lines_close(&lines);
        snprintf(digest, sizeof digest, "%s/%s", name, corpora[i]);
        check_digest(digest, sum);
    }
    fv_tokenizer_encoder_destroy(&enc);
}

static void published_tokenizers(void)
{
    static const struct {
        const char *name, *folder, *files[2];
    } sets[] = {{"gpt2", "gpt2", {"vocab.json", "merges.txt"}},
                {"bert", "bert-base-uncased", {"tokenizer.json", NULL}},
                {"en", "sentencepiece", {"en.model", NULL}},
                {"ja", "sentencepiece", {"ja.model", NULL}}};
    if (!getenv("FOVEA_DATA") || access(data_path("tokenizers"), R_OK) != 0) {
        printf("skipped: published tokenizers (no tokenizers under FOVEA_DATA)\n");
        return;
    }
    folder_make();
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        fv_tokenizer *tok = NULL;
        char path[128];
        folder_sub(sets[i].name);
        for (int k = 0; k < 2 && sets[i].files[k]; k++) {
            snprintf(path, sizeof path, "tokenizers/%s/%s.xz", sets[i].folder, sets[i].files[k]);
            const char *packed = data_path(path);
            snprintf(path, sizeof path, "%s/%s", sets[i].name, sets[i].files[k]);
            tokens_unpack(ctx, packed, folder_path(path));
        }
        const bool alone = sets[i].files[1] == NULL;
        CHECK_OK(ctx, fv_tokenizer_load(ctx, folder_path(alone ? path : sets[i].name), &tok));
        if (tok) check_published(sets[i].name, tok);
        fv_tokenizer_destroy(&tok);
    }
    folder_remove();
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    fv_crc_init(&crc, FV_CRC32);
    make_corpus();
    RUN(every_code_point_in_every_step);
    RUN(trained_tokenizers);
    RUN(sentencepiece_models);
    RUN(published_tokenizers);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
