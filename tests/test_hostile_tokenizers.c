/*
 * Tokenizer files made to explode: a hundred of them, and for every stage of the pipeline some that
 * would make far more text, tokens or work than they are given. Each must be refused or stay within
 * a bound of memory and of time in proportion to its input.
 */
#include <time.h>

#include "fovea/tokenizer.h"
#include "support/test.h"

enum {
    TEXT_BYTES = 32 << 10,
    BASE_MEMORY = 40 << 20, /* for the file and a text of one letter */
    MEMORY_PER_BYTE = 4096, /* for a byte of text */
    BASE_MILLISECONDS = 80, /* generous: the bound is a second per MiB, machines are busy */
    MICROSECONDS_PER_BYTE = 2
};

/* Sanitizers and builds without optimization take several times as long. */
#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||     \
    HAS_FEATURE(address_sanitizer) || HAS_FEATURE(memory_sanitizer) ||                             \
    HAS_FEATURE(thread_sanitizer)
enum { SLOWDOWN = 15 };
#else
enum { SLOWDOWN = 1 };
#endif

/* ---- writing the files ------------------------------------------------------------- */

static void times(FILE *f, const char *text, int count)
{
    for (int i = 0; i < count; i++)
        fputs(text, f);
}

/* Items with commas in between; %d is the number of the item. */
static void list(FILE *f, const char *format, int count)
{
    for (int i = 0; i < count; i++) {
        if (i) fputc(',', f);
        fprintf(f, format, i);
    }
}

static const char words[] =
    "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1}}}";

static void model(FILE *f) { fputs(words, f); }

/* Chains of replacements: "a" becomes 2, 10, 100 or 500 letters, one to six times; the pattern is a
 * string or a regular expression. */
static void replace_chain(FILE *f, int k)
{
    static const int lengths[] = {2, 10, 100, 500};
    const bool regex = k % 2, decoder = k / 2 % 2;
    const int steps = 1 + k / 8 % 6, length = lengths[k / 4 % 4];
    fprintf(f, "{\"%s\":{\"type\":\"Sequence\",\"%ss\":[", decoder ? "decoder" : "normalizer",
            decoder ? "decoder" : "normalizer");
    for (int i = 0; i < steps; i++) {
        fprintf(f, "%s{\"type\":\"Replace\",\"pattern\":{\"%s\":\"a\"},\"content\":\"",
                i ? "," : "", regex ? "Regex" : "String");
        times(f, "a", length);
        fputs("\"}", f);
    }
    fputs("]},", f);
    model(f);
}

/* Many steps that each do little, or add a little. */
static void many_steps(FILE *f, int k)
{
    static const struct {
        const char *part, *list, *step;
        int count;
    } kinds[] = {
        {"normalizer", "normalizers", "{\"type\":\"Lowercase\"}", 3000},
        {"normalizer", "normalizers", "{\"type\":\"NFKD\"}", 500},
        {"normalizer", "normalizers", "{\"type\":\"Prepend\",\"prepend\":\"abcdefghij\"}", 3000},
        {"normalizer", "normalizers", "{\"type\":\"Strip\"}", 3000},
        {"normalizer", "normalizers", "{\"type\":\"BertNormalizer\"}", 1000},
        {"pre_tokenizer", "pretokenizers", "{\"type\":\"Whitespace\"}", 3000},
        {"pre_tokenizer", "pretokenizers", "{\"type\":\"Digits\",\"individual_digits\":true}",
         3000},
        {"pre_tokenizer", "pretokenizers",
         "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a?\"},\"behavior\":\"Isolated\"}", 300},
        {"decoder", "decoders", "{\"type\":\"Fuse\"}", 3000},
        {"decoder", "decoders", "{\"type\":\"WordPiece\"}", 1000},
    };
    fprintf(f, "{\"%s\":{\"type\":\"Sequence\",\"%s\":[", kinds[k].part, kinds[k].list);
    list(f, kinds[k].step, kinds[k].count);
    fputs("]},", f);
    model(f);
}

/* Each Metaspace puts another mark before every piece. */
static void metaspace_chain(FILE *f, int k)
{
    static const int counts[] = {8, 200};
    fputs("{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
          "{\"type\":\"Split\",\"pattern\":{\"Regex\":\".\"},\"behavior\":\"Isolated\"}",
          f);
    for (int i = 0; i < counts[k]; i++)
        fprintf(f, ",{\"type\":\"Metaspace\",\"replacement\":\"\\u%04x\",\"split\":false}",
                0x4E00 + i);
    fputs("]},", f);
    model(f);
}

static const char *const patterns[] = {
    "a*b",
    "(a|a)+b",
    "(a|aa)+$b",
    "(a+)+b",
    "(?:a?){30}a{30}b",
    "(?>a*)b",
    "(?:a(?=a*b))*c",
    "a(?=a*b)",
    ".*.*.*x",
    "(.+)+\\\\d",
    "(?<=a{500})b",
    "\\\\s+$x",
    "a++b",
    "(?:(?:a{1,30}){1,30}){1,10}b",
    "(?i)(a|A|\\\\x61)*b",
    "((((((((((a*)a*)a*)a*)a*)a*)a*)a*)a*)a*)b",
    "a?",
    "\\\\b",
    "(?!)",
    "a{0,900}b",
};

static void pattern(FILE *f, int k)
{
    enum { PATTERNS = sizeof patterns / sizeof patterns[0] };
    const char *p = patterns[k % PATTERNS];
    if (k < PATTERNS)
        fprintf(f,
                "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},"
                "\"behavior\":\"Isolated\"},",
                p);
    else
        fprintf(f,
                "{\"%s\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"%s\"},\"content\":\"aa\"},",
                k % 2 ? "decoder" : "normalizer", p);
    model(f);
}

/* Pieces a, aa, aaa, ... up to a length. */
static void nested_pieces(FILE *f, int k)
{
    static const int lengths[] = {200, 800};
    const int length = lengths[k % 2], kind = k / 2;
    char *letters = malloc((size_t)length + 1);
    memset(letters, 'a', (size_t)length);
    letters[length] = '\0';
    static const char *const open[] = {
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"u\",-1]",
        "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\",\"vocab\":{\"u\":0",
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"u\":0",
        "{\"added_tokens\":[{\"id\":9999,\"content\":\"b\"}"};
    fputs(open[kind], f);
    for (int i = 1; i <= length; i++) {
        const char *text = letters + length - i;
        if (kind == 0)
            fprintf(f, ",[\"%s\",-%d]", text, 1 + i % 7);
        else if (kind == 3)
            fprintf(f, ",{\"id\":%d,\"content\":\"%sc\",\"special\":%s}", i + 1,
                    letters + length - (i > 250 ? 250 : i), i % 2 ? "true" : "false");
        else
            fprintf(f, ",\"%s%s\":%d", kind == 1 && i > 1 ? "##" : "", text, i);
    }
    if (kind == 2) {
        fputs("},\"merges\":[[\"a\",\"a\"]", f);
        for (int i = 2; i < length; i++)
            fprintf(f, ",[\"%s\",\"a\"]", letters + length - i);
    }
    fputs(kind == 0   ? "]}}"
          : kind == 1 ? "},\"max_input_chars_per_word\":99999}}"
          : kind == 2 ? "]}}"
                      : "],",
          f);
    if (kind == 3) model(f);
    free(letters);
}

/* SentencePiece: a charsmap that leads in a circle, and user-defined pieces inside each other. */
static void sentencepiece(FILE *f, int k)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    enum { UNITS = 128, LENGTH = 700 };
    unsigned char blob[4 + 4 * UNITS + 2] = {0};
    blob[1] = 4 * UNITS >> 8;
    /* From 'a' back to itself. */
    const uint32_t unit = (uint32_t)'a' << 10 | 'a';
    for (int i = 0; i < 4; i++)
        blob[4 + 4 * 'a' + i] = (unsigned char)(unit >> 8 * i);
    fputs("{\"normalizer\":{\"type\":\"Sequence\",\"sentencepiece\":{},\"normalizers\":[", f);
    if (k == 0) {
        fputs("{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"", f);
        for (size_t i = 0; i < sizeof blob; i += 3) {
            uint32_t three = 0;
            for (size_t j = 0; j < 3; j++)
                three = three << 8 | (i + j < sizeof blob ? blob[i + j] : 0u);
            for (int j = 3; j >= 0; j--)
                fputc(digits[three >> 6 * j & 63], f);
        }
        fputs("\"}", f);
    }
    fprintf(
        f,
        "]},\"model\":{\"type\":\"%s\",\"unk_id\":0,\"unk_token\":\"u\",\"merges\":[],\"vocab\":",
        k == 2 ? "BPE" : "Unigram");
    fputs(k == 2 ? "{\"u\":0" : "[[\"u\",0]", f);
    for (int i = 1; i < LENGTH; i++) {
        fputs(k == 2 ? ",\"" : ",[\"", f);
        times(f, "a", i);
        fprintf(f, k == 2 ? "\":%d" : "\",-1]", i);
    }
    fputs(k == 2 ? "},\"sentencepiece\":{\"scores\":[0" : "],\"sentencepiece\":{\"x\":[0", f);
    times(f, ",-1", LENGTH - 1);
    fputs("],\"kinds\":\"2", f);
    times(f, k == 1 ? "4" : "1", LENGTH - 1);
    fputs("\"", f);
    fputs("}}}", f);
}

/* Long strings where a character or a word is expected. */
static void long_strings(FILE *f, int k)
{
    enum { LONG = 400000 };
    static const char *const before[] = {
        "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1},"
        "\"continuing_subword_prefix\":\"",
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1},\"merges\":[]"
        ","
        "\"continuing_subword_prefix\":\"",
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1},\"merges\":[]"
        ","
        "\"end_of_word_suffix\":\"",
        "{\"added_tokens\":[{\"id\":7,\"content\":\"",
        "{\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"",
        "{\"normalizer\":{\"type\":\"Replace\",\"content\":\"\",\"pattern\":{\"String\":\"",
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Removed\",\"pattern\":{\"String\":"
        "\"",
        "{\"decoder\":{\"type\":\"Replace\",\"content\":\"\",\"pattern\":{\"String\":\"",
        "{\"post_processor\":{\"type\":\"ByteLevel\",\"trim_offsets\":true},\"model\":{\"type\":"
        "\"WordLevel\",\"unk_token\":\" \",\"vocab\":{\"a\":1,\" \":2,\"",
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Removed\",\"pattern\":{\"Regex\":"
        "\"["};
    static const char *const after[] = {"\"}}",   "\"}}",   "\"}}",   "x\"}],",  "\"},",
                                        "b\"}},", "b\"}},", "b\"}},", "\":0}}}", "]\"}},"};
    fputs(before[k], f);
    times(f, k == 8 ? "\\u0020" : "a", k == 8 ? LONG / 6 : LONG);
    fputs(after[k], f);
    if (after[k][strlen(after[k]) - 1] == ',') model(f);
}

static void templates(FILE *f, int k)
{
    static const int pieces[] = {500, 4000, 300, 100000};
    fputs("{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[", f);
    list(f,
         k == 2 ? "{\"SpecialToken\":{\"id\":\"s\",\"type_id\":0}}"
                : "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}",
         pieces[k]);
    fputs("],\"pair\":[],\"special_tokens\":{\"s\":{\"id\":\"s\",\"ids\":[", f);
    list(f, "%d", 1000);
    fputs("]}}},", f);
    model(f);
}

/* Ids, nesting and merges at their ends. */
static void odd_numbers(FILE *f, int k)
{
    switch (k) {
    case 0:
        fputs("{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":2147483647}}}", f);
        break;
    case 1:
        fputs("{\"added_tokens\":[{\"id\":1048575,\"content\":\"b\"}],", f);
        model(f);
        break;
    case 2:
        fputs("{\"normalizer\":", f);
        times(f, "{\"type\":\"Sequence\",\"normalizers\":[", 5000);
        times(f, "]}", 5000);
        fputs(",", f);
        model(f);
        break;
    case 3: /* merges that would lead in a circle */
        fputs(
            "{\"model\":{\"type\":\"BPE\",\"continuing_subword_prefix\":\"a\",\"vocab\":{\"\":0,"
            "\"a\":1,\"aa\":2},\"merges\":[[\"\",\"a\"],[\"a\",\"\"],[\"a\",\"a\"],[\"aa\",\"a\"],"
            "[\"a\",\"aa\"]]}}",
            f);
        break;
    default: /* a token of the vocabulary with a million letters, to be decoded */
        fputs("{\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"", f);
        times(f, "a", 1000000);
        fputs("\":1}}}", f);
        break;
    }
}

static const struct family {
    const char *name;
    int count;
    void (*write)(FILE *f, int k);
} families[] = {{"replace chain", 48, replace_chain},    {"many steps", 10, many_steps},
                {"metaspace chain", 2, metaspace_chain}, {"pattern", 40, pattern},
                {"nested pieces", 8, nested_pieces},     {"sentencepiece", 3, sentencepiece},
                {"long strings", 10, long_strings},      {"templates", 4, templates},
                {"odd numbers", 5, odd_numbers}};

/* ---- using them -------------------------------------------------------------------- */

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int accepted, limited;

/* A call may succeed, or fail with anything but a lack of memory, and must be quick. */
static void check_call(fv_ctx *ctx, const char *what, fv_status s, double began, size_t bytes)
{
    const double took = milliseconds() - began;
    const double bound =
        SLOWDOWN * (BASE_MILLISECONDS + (double)bytes * MICROSECONDS_PER_BYTE * 1e-3);
    if (s == FV_ERR_MEMORY) test_failed(__FILE__, __LINE__, "%s: out of memory", what);
    if (took > bound)
        test_failed(__FILE__, __LINE__, "%s: %.0f ms for %zu bytes, the bound is %.0f", what, took,
                    bytes, bound);
    if (s != FV_ERR_LIMIT) return;
    limited++;
    if (!strstr(fv_ctx_message(ctx), "file.json"))
        test_failed(__FILE__, __LINE__, "%s: the message does not name the file: %s", what,
                    fv_ctx_message(ctx));
}

static void decode_many(fv_ctx *ctx, const fv_tokenizer *tok, const char *what)
{
    enum { IDS = 4000 };
    static int64_t ids[IDS];
    fv_text out = {0};
    for (size_t i = 0; i < IDS; i++)
        ids[i] = i % 3 != 2;
    const double began = milliseconds();
    check_call(ctx, what, fv_tokenizer_decode(ctx, tok, ids, IDS, 0, &out), began, sizeof ids);
    fv_text_free(ctx, &out);
}

static void use_text(fv_ctx *ctx, const fv_tokenizer *tok, fv_tokenizer_encoder *enc,
                     const char *what, fv_string text)
{
    fv_encoding e = {.struct_size = sizeof e};
    fv_text out = {0};
    double began = milliseconds();
    fv_status s = fv_tokenizer_encode(enc, text.text, text.bytes, FV_TOKENIZER_ADD_SPECIALS, &e);
    check_call(ctx, what, s, began, text.bytes);
    if (s != FV_OK) return;
    if (e.count > 65536 + 16 * text.bytes)
        test_failed(__FILE__, __LINE__, "%s: %zu tokens of %zu bytes", what, e.count, text.bytes);
    began = milliseconds();
    check_call(ctx, what, fv_tokenizer_decode(ctx, tok, e.ids, e.count, 0, &out), began,
               text.bytes + e.count * 4);
    fv_text_free(ctx, &out);
}

static void use(fv_ctx *ctx, const fv_tokenizer *tok, const char *what)
{
    static char text[TEXT_BYTES];
    static const char *const fills[] = {"a", "ab", " ", "\xEF\xB7\xBA", "a b "};
    fv_tokenizer_encoder *enc = NULL;
    fv_memory_stats stats;
    CHECK_OK(ctx, fv_tokenizer_encoder_create(ctx, tok, &enc));
    if (!enc) return;
    use_text(ctx, tok, enc, what, (fv_string){"a", 1});
    fv_ctx_memory(ctx, &stats);
    if (stats.peak_bytes > BASE_MEMORY)
        test_failed(__FILE__, __LINE__, "%s: %llu bytes for one letter", what,
                    (unsigned long long)stats.peak_bytes);
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++) {
        const size_t n = strlen(fills[i]);
        for (size_t at = 0; at + n <= TEXT_BYTES; at += n)
            memcpy(text + at, fills[i], n);
        use_text(ctx, tok, enc, what, (fv_string){text, TEXT_BYTES / n * n});
    }
    decode_many(ctx, tok, what);
    fv_tokenizer_encoder_destroy(&enc);
}

static void try_file(const char *what, const char *json, size_t bytes)
{
    fv_ctx_config cfg;
    fv_ctx *ctx = NULL;
    fv_tokenizer *tok = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.memory_limit = BASE_MEMORY + (uint64_t)TEXT_BYTES * MEMORY_PER_BYTE;
    if (fv_ctx_create(&cfg, &ctx) != FV_OK) {
        test_failed(__FILE__, __LINE__, "no context");
        return;
    }
    const double began = milliseconds();
    const fv_status s = fv_tokenizer_parse(ctx, "file.json", json, bytes, &tok);
    check_call(ctx, what, s, began, bytes);
    if (s == FV_OK) {
        accepted++;
        use(ctx, tok, what);
    }
    fv_tokenizer_destroy(&tok);
    fv_ctx_destroy(&ctx);
}

static void hostile_files_stay_within_bounds(void)
{
    int files = 0;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        for (int k = 0; k < families[i].count; k++, files++) {
            char what[64];
            char *json = NULL;
            size_t bytes = 0;
            FILE *f = open_memstream(&json, &bytes);
            families[i].write(f, k);
            fclose(f);
            snprintf(what, sizeof what, "%s %d", families[i].name, k);
            try_file(what, json, bytes);
            free(json);
        }
    printf("%d hostile tokenizers, %d accepted, %d calls over a limit\n", files, accepted, limited);
    CHECK(files >= 100);
    /* The files must be what they are meant to be: mostly valid, and over some limit. */
    CHECK(accepted > files / 2);
    CHECK(limited > files / 3);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    RUN(hostile_files_stay_within_bounds);
    return TEST_END();
}
