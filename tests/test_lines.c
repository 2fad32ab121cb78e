/*
 * Text files line by line: line ends, compressed files, what is not text, limits, and files that
 * are damaged or change under us.
 */
#include "fovea/context.h"
#include "fovea/data.h"
#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;

static bool has_feature(const char *name)
{
    fv_feature feature = {.struct_size = sizeof feature};
    for (int i = 0; fv_feature_get(i, &feature); i++)
        if (strcmp(feature.name, name) == 0) return feature.present;
    return false;
}

/* A reader of bytes, at most `step` at a time, that fails when it comes to `broken`. */
typedef struct giver {
    const char *data;
    size_t bytes, at, step, broken;
    int calls;
} giver;

static fv_status give(void *user, void *out, size_t room, size_t *got)
{
    giver *g = user;
    size_t n = g->bytes - g->at;
    g->calls++;
    if (g->broken && g->at >= g->broken) return FV_ERR_IO;
    if (n > g->step) n = g->step;
    if (n > room) n = room;
    memcpy(out, g->data + g->at, n);
    g->at += n;
    *got = n;
    return FV_OK;
}

enum { FROM_FILE, FROM_MEMORY, FROM_STREAM, WAYS = FROM_STREAM + 3 };

/* The bytes as a file, as memory, or as a stream of one, seven or very many bytes at a time. */
static fv_status open_way(int way, const void *data, size_t bytes, giver *g, fv_lines **out)
{
    static const size_t steps[] = {1, 7, SIZE_MAX};
    if (way == FROM_FILE)
        return fv_lines_open(ctx, folder_path("lines"), FV_LINES_POLICY_REJECT, out);
    if (way == FROM_MEMORY)
        return fv_lines_open_memory(ctx, "lines", data, bytes, FV_LINES_POLICY_REJECT, out);
    *g = (giver){.data = data, .bytes = bytes, .step = steps[way - FROM_STREAM]};
    return fv_lines_open_stream(ctx, "lines", give, g, FV_LINES_POLICY_REJECT, out);
}

/* Opens the bytes in every way, and expects these lines, NULL after the last. */
static void expect_lines(const void *data, size_t bytes, const char *const *want)
{
    file_write(folder_path("lines"), data, bytes);
    for (int way = 0; way < WAYS; way++) {
        fv_lines *lines = NULL;
        fv_line line = {0};
        giver g;
        CHECK_OK(ctx, open_way(way, data, bytes, &g, &lines));
        if (!lines) continue;
        uint64_t number = 0;
        for (; want[number]; number++) {
            CHECK_OK(ctx, fv_lines_next(lines, &line));
            if (!line.text) break;
            CHECK_STR(line.text, want[number]);
            CHECK_EQ(line.bytes, strlen(want[number]));
            CHECK_EQ(line.number, number + 1);
            CHECK(line.valid);
        }
        for (int again = 0; again < 2; again++) {
            CHECK_OK(ctx, fv_lines_next(lines, &line));
            CHECK(line.text == NULL);
            CHECK_EQ(line.number, number);
        }
        fv_lines_close(&lines);
        CHECK(lines == NULL);
    }
}

static void line_ends(void)
{
    static const struct {
        const char *text;
        const char *lines[5];
    } cases[] = {
        {"", {NULL}},
        {"\n", {"", NULL}},
        {"a", {"a", NULL}},
        {"a\n", {"a", NULL}},
        {"a\nb", {"a", "b", NULL}},
        {"a\r\nb\r\n", {"a", "b", NULL}},
        {"a\rb\n\r\n", {"a\rb", "", NULL}},
        {"a\r", {"a\r", NULL}},
        {"\n\n\xC3\xA9\n", {"", "", "\xC3\xA9", NULL}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_lines(cases[i].text, strlen(cases[i].text), cases[i].lines);
}

/* Longer than any buffer the reader begins with, up to the limit and one byte over it. */
/* A line is given as soon as it is whole, without a byte more being asked for. */
static void streams_are_not_read_ahead(void)
{
    giver g = {.data = "a\nbc\nd", .bytes = 6, .step = 2};
    fv_lines *lines = NULL;
    fv_line line = {0};
    CHECK_OK(ctx, fv_lines_open_stream(ctx, "pipe", give, &g, FV_LINES_POLICY_REJECT, &lines));
    if (!lines) return;
    CHECK_EQ(g.calls, 1);
    CHECK(!fv_lines_is_ready(lines));
    CHECK_OK(ctx, fv_lines_next(lines, &line));
    CHECK_STR(line.text, "a");
    CHECK_EQ(g.calls, 1);
    CHECK(!fv_lines_is_ready(lines));
    CHECK_OK(ctx, fv_lines_next(lines, &line));
    CHECK_STR(line.text, "bc");
    CHECK_EQ(g.calls, 3);
    CHECK_OK(ctx, fv_lines_next(lines, &line));
    CHECK_STR(line.text, "d");
    CHECK(fv_lines_is_ready(lines)); /* the end is known */
    CHECK_OK(ctx, fv_lines_next(lines, &line));
    CHECK(line.text == NULL);
    fv_lines_close(&lines);
    g = (giver){.data = "a\nb\n", .bytes = 4, .step = 4};
    CHECK_OK(ctx, fv_lines_open_stream(ctx, "pipe", give, &g, FV_LINES_POLICY_REJECT, &lines));
    CHECK_OK(ctx, fv_lines_next(lines, &line));
    CHECK(fv_lines_is_ready(lines));
    fv_lines_close(&lines);
}

static void streams_that_break(void)
{
    giver g = {.data = "a\nb\n", .bytes = 4, .step = 2, .broken = 2};
    fv_lines *lines = NULL;
    fv_line line = {0};
    CHECK_OK(ctx, fv_lines_open_stream(ctx, "pipe", give, &g, FV_LINES_POLICY_REJECT, &lines));
    CHECK_OK(ctx, fv_lines_next(lines, &line));
    CHECK_EQ(fv_lines_next(lines, &line), FV_ERR_IO);
    CHECK(strstr(fv_ctx_message(ctx), "pipe: the read callback failed"));
    fv_lines_close(&lines);
    g = (giver){.data = "\x1f", .bytes = 1, .step = 1, .broken = 1}; /* as gzip begins */
    CHECK_EQ(fv_lines_open_stream(ctx, "pipe", give, &g, FV_LINES_POLICY_REJECT, &lines),
             FV_ERR_IO);
    CHECK(lines == NULL);
}

static void long_lines(void)
{
    enum { LIMIT = 300000 };
    fv_ctx_config cfg;
    fv_ctx *small = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.limits.line_bytes = LIMIT;
    CHECK_EQ(fv_ctx_create(&cfg, &small), FV_OK);
    char *text = malloc(LIMIT + 8);
    for (int over = 0; over < 2; over++) {
        fv_lines *lines = NULL;
        fv_line line = {0};
        size_t n = LIMIT + (size_t)over;
        memset(text, 'x', n);
        memcpy(text + n, "\nend", 4);
        CHECK_OK(small,
                 fv_lines_open_memory(small, "long", text, n + 4, FV_LINES_POLICY_REJECT, &lines));
        fv_status s = fv_lines_next(lines, &line);
        CHECK_EQ(s, over ? FV_ERR_LIMIT : FV_OK);
        if (over)
            CHECK(strstr(fv_ctx_message(small), "long:1: the line is longer than 300000 bytes"));
        else
            CHECK_EQ(line.bytes, LIMIT);
        fv_lines_close(&lines);
    }
    free(text);
    fv_ctx_destroy(&small);
}

static void what_is_not_text(void)
{
    static const struct {
        const char *text;
        size_t bytes;
        const char *message;
    } cases[] = {
        {"good\nab\xff"
         "c\nend\n",
         13, "bad:2: invalid UTF-8 at byte 3 of the line"},
        {"good\nab\0c\nend\n", 14, "bad:2: NUL byte (a binary file?) at byte 3"},
        {"good\n\xed\xa0\x80\nend\n", 13, "bad:2: invalid UTF-8 at byte 1"},
        {"good\nab\xc3\nend", 12, "bad:2: invalid UTF-8 at byte 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fv_lines *lines = NULL;
        fv_line line = {0};
        CHECK_OK(ctx, fv_lines_open_memory(ctx, "bad", cases[i].text, cases[i].bytes,
                                           FV_LINES_POLICY_REJECT, &lines));
        CHECK_OK(ctx, fv_lines_next(lines, &line));
        CHECK_EQ(fv_lines_next(lines, &line), FV_ERR_FORMAT);
        CHECK(strstr(fv_ctx_message(ctx), cases[i].message) != NULL);
        fv_lines_close(&lines);
        CHECK_OK(ctx, fv_lines_open_memory(ctx, "bad", cases[i].text, cases[i].bytes,
                                           FV_LINES_POLICY_MARK, &lines));
        for (uint64_t n = 1; n <= 3; n++) {
            CHECK_OK(ctx, fv_lines_next(lines, &line));
            CHECK(line.valid == (n != 2) && line.number == n && line.text);
        }
        CHECK_STR(line.text, "end");
        fv_lines_close(&lines);
    }
}

static void files_that_cannot_be_opened(void)
{
    fv_lines *lines = NULL;
    CHECK_EQ(fv_lines_open(ctx, folder_path("absent"), FV_LINES_POLICY_REJECT, &lines), FV_ERR_IO);
    CHECK_EQ(fv_lines_open(ctx, folder_path("."), FV_LINES_POLICY_REJECT, &lines), FV_ERR_IO);
    CHECK_EQ(fv_lines_open_memory(ctx, "x", "", 0, (fv_lines_policy)7, &lines), FV_ERR_ARGUMENT);
    CHECK(lines == NULL);
    fv_lines_close(&lines);
}

/* ---- compressed ------------------------------------------------------------------ */

static const char *const compressed_names[] = {"data/text/lines.txt.gz", "data/text/lines.txt.xz"};
static const char *const compressed_features[] = {"zlib", "lzma"};

/* The files hold "line N: some words é 東京" for N from 1 to 4000, in two members. */
static void compressed_files(void)
{
    for (int i = 0; i < 2 * WAYS; i++) {
        fv_lines *lines = NULL;
        giver g;
        size_t bytes = 0;
        char *data = file_read(test_path(compressed_names[i % 2]), &bytes);
        file_write(folder_path("lines"), data, bytes);
        const fv_status s = open_way(i / 2, data, bytes, &g, &lines);
        if (!has_feature(compressed_features[i % 2])) {
            CHECK_EQ(s, FV_ERR_UNSUPPORTED);
            printf("skipped: no %s in this build\n", compressed_features[i % 2]);
            free(data);
            continue;
        }
        CHECK_OK(ctx, s);
        int count = 0;
        for (fv_line line; lines && fv_lines_next(lines, &line) == FV_OK && line.text;) {
            char want[64];
            snprintf(want, sizeof want, "line %d: some words \xC3\xA9 \xE6\x9D\xB1\xE4\xBA\xAC",
                     ++count);
            if (strcmp(line.text, want) != 0) CHECK_STR(line.text, want);
        }
        CHECK_EQ(count, 4000);
        fv_lines_close(&lines);
        free(data);
    }
}

/* A compressed file that is truncated anywhere is rejected, never read as a shorter one. */
static void truncated_compressed_files(void)
{
    for (int i = 0; i < 2; i++) {
        if (!has_feature(compressed_features[i])) continue;
        size_t bytes = 0;
        char *data = file_read(test_path(compressed_names[i]), &bytes);
        int accepted = 0;
        for (size_t n = 6; n < bytes; n++) {
            fv_lines *lines = NULL;
            fv_line line = {.text = ""};
            fv_status s = fv_lines_open_memory(ctx, "cut", data, n, FV_LINES_POLICY_MARK, &lines);
            while (s == FV_OK && line.text)
                s = fv_lines_next(lines, &line);
            accepted += s == FV_OK;
            CHECK(s == FV_OK || s == FV_ERR_FORMAT);
            fv_lines_close(&lines);
        }
        /* Exactly where the first of two members ends, what is left is a whole file. */
        CHECK_EQ(accepted, 1);
        free(data);
    }
}

/* What decompresses to more than the limit stops there. */
static void decompressed_size_is_limited(void)
{
    fv_ctx_config cfg;
    fv_ctx *small = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.limits.total_bytes = 50000;
    CHECK_EQ(fv_ctx_create(&cfg, &small), FV_OK);
    for (int i = 0; i < 2; i++) {
        if (!has_feature(compressed_features[i])) continue;
        fv_lines *lines = NULL;
        fv_line line = {.text = ""};
        fv_status s =
            fv_lines_open(small, test_path(compressed_names[i]), FV_LINES_POLICY_REJECT, &lines);
        while (s == FV_OK && line.text)
            s = fv_lines_next(lines, &line);
        CHECK_EQ(s, FV_ERR_LIMIT);
        fv_lines_close(&lines);
    }
    fv_ctx_destroy(&small);
}

static fv_status read_all(fv_ctx *with, const char *path)
{
    fv_lines *lines = NULL;
    fv_line line = {.text = ""};
    fv_status s = fv_lines_open(with, path, FV_LINES_POLICY_REJECT, &lines);
    while (s == FV_OK && line.text)
        s = fv_lines_next(lines, &line);
    fv_lines_close(&lines);
    return s;
}

/* So does what decompresses to too many times its size. Deflate cannot, unless the limit is lower.
 */
static void decompressed_ratio_is_limited(void)
{
    static const char *const names[] = {"data/text/same.txt.gz", "data/text/same.txt.xz"};
    static const uint64_t ratios[] = {0, 100, 100000};
    for (int r = 0; r < 3; r++) {
        fv_ctx_config cfg;
        fv_ctx *own = NULL;
        fv_ctx_config_init(&cfg, sizeof cfg);
        cfg.limits.decompressed_ratio = ratios[r];
        CHECK_EQ(fv_ctx_create(&cfg, &own), FV_OK);
        for (int i = 0; i < 2; i++) {
            if (!has_feature(compressed_features[i])) continue;
            const bool fits = ratios[r] == 100000 || (ratios[r] == 0 && i == 0);
            CHECK_EQ(read_all(own, test_path(names[i])), fits ? FV_OK : FV_ERR_LIMIT);
            if (!fits) CHECK(strstr(fv_ctx_message(own), i ? "same.txt.xz: " : "same.txt.gz: "));
        }
        fv_ctx_destroy(&own);
    }
}

/* Every call of the I/O table fails once: an error, no leak, no open file. */
static void failing_calls(void)
{
    const char *text = "one\ntwo\nthree\n";
    file_write(folder_path("f"), text, strlen(text));
    int before = open_files();
    for (int64_t n = 1;; n++) {
        fv_ctx_config cfg;
        fv_ctx *faulty = NULL;
        fault_io faults;
        fv_ctx_config_init(&cfg, sizeof cfg);
        fault_io_init(&faults, &cfg.io);
        faults.error = 5;
        faults.piece = 3;
        CHECK_EQ(fv_ctx_create(&cfg, &faulty), FV_OK);
        faults.fail_at = n;
        fv_lines *lines = NULL;
        fv_line line = {.text = ""};
        fv_status s = fv_lines_open(faulty, folder_path("f"), FV_LINES_POLICY_REJECT, &lines);
        while (s == FV_OK && line.text)
            s = fv_lines_next(lines, &line);
        fv_lines_close(&lines);
        bool harmless = !faults.failed || faults.failing == FAULT_CLOSE;
        CHECK_EQ(s, harmless ? FV_OK : FV_ERR_IO);
        fv_ctx_destroy(&faulty);
        CHECK_EQ(open_files(), before);
        if (!faults.failed) break;
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    folder_make();
    RUN(line_ends);
    RUN(streams_are_not_read_ahead);
    RUN(streams_that_break);
    RUN(long_lines);
    RUN(what_is_not_text);
    RUN(files_that_cannot_be_opened);
    RUN(compressed_files);
    RUN(truncated_compressed_files);
    RUN(decompressed_size_is_limited);
    RUN(decompressed_ratio_is_limited);
    RUN(failing_calls);
    folder_remove();
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
