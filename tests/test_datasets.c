/* Data sets: the rule that parts them, sets that are made, copies that are checked. */
#include <sys/stat.h>
#include <unistd.h>

#include "data/datasets.h"
#include "fovea/data.h"
#include "io/sha256.h"
#include "support/corrupt.h"
#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;

/* ---- checksums ---------------------------------------------------------------------- */

static const char *digest(const void *data, size_t n, size_t piece)
{
    static char out[FV_SHA256_TEXT];
    fv_sha256 sum;
    fv_sha256_init(&sum);
    for (size_t at = 0; at < n; at += piece)
        fv_sha256_add(&sum, (const char *)data + at, n - at < piece ? n - at : piece);
    fv_sha256_text(&sum, out);
    return out;
}

/* The examples of FIPS 180-4 and of NIST's set of short messages. */
static void sha256_is_the_published_one(void)
{
    static char million[1000000];
    memset(million, 'a', sizeof million);
    CHECK_STR(digest("", 0, 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK_STR(digest("abc", 3, 3),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK_STR(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, 56),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    for (size_t piece = 1; piece < 200; piece += 61)
        CHECK_STR(digest(million, sizeof million, piece),
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* ---- the rule ----------------------------------------------------------------------- */

static fv_made_part part_of(const char *text) { return fv_made_part_of(text, strlen(text)); }

/* Parts computed with Python's hashlib from the rule as the header states it. */
static void sources_belong_where_the_rule_says(void)
{
    static const struct {
        const char *source;
        fv_made_part part;
    } cases[] = {
        {"Run drink!", FV_MADE_VALID},     {"Run fall!", FV_MADE_VALID},
        {"Go fall!", FV_MADE_VALID},       {"Stop stop!", FV_MADE_TEST},
        {"Stop write!", FV_MADE_TEST},     {"Wait run!", FV_MADE_TEST},
        {"Run run!", FV_MADE_TRAIN},       {"Run go!", FV_MADE_TRAIN},
        {"Caf\xc3\xa9 28", FV_MADE_VALID}, {"Caf\xc3\xa9 68", FV_MADE_TEST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_EQ(part_of(cases[i].source), cases[i].part);
    CHECK_EQ(part_of("TWINLESS"), part_of("tw'in, less!"));
}

/* ---- making ------------------------------------------------------------------------- */

enum { MOST_LINES = 4000 };

typedef struct text_lines {
    char *list[MOST_LINES];
    int count;
} text_lines;

/* The lines of folder/name, in memory that is never freed before the program ends. */
static void read_lines(const char *folder, const char *name, text_lines *out)
{
    char path[1024];
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = file_read(path, &bytes);
    out->count = 0;
    CHECK(text != NULL);
    if (!text) return;
    CHECK(bytes > 0 && text[bytes - 1] == '\n');
    for (char *at = text, *end; at < text + bytes && out->count < MOST_LINES; at = end + 1) {
        end = memchr(at, '\n', (size_t)(text + bytes - at));
        if (!end) break;
        out->list[out->count++] = strndup(at, (size_t)(end - at));
    }
    free(text);
}

static void free_lines(text_lines *lines)
{
    while (lines->count > 0)
        free(lines->list[--lines->count]);
}

static fv_status make(const char *name, const fv_made_config *cfg, const char *folder,
                      fv_made_report *report)
{
    const fv_made_set *set = fv_made_set_find(name);
    CHECK(set != NULL);
    return set ? fv_made_set_write(ctx, set, cfg, folder, report) : FV_ERR_ARGUMENT;
}

static fv_made_config small_config(void)
{
    fv_made_config cfg;
    fv_made_config_init(&cfg, sizeof cfg);
    cfg.pairs = 300;
    cfg.held_out = 40;
    cfg.length = 7;
    cfg.seed = 5;
    return cfg;
}

static int by_letter(const void *a, const void *b) { return *(const char *)a - *(const char *)b; }

/* The target that the task asks for. */
static void expected_target(const char *task, const char *source, char *out)
{
    char letters[64];
    int n = 0;
    for (const char *c = source; *c; c++)
        if (*c != ' ') letters[n++] = *c;
    if (strcmp(task, "sort") == 0) qsort(letters, (size_t)n, 1, by_letter);
    for (int i = 0; i < n; i++) {
        out[2 * i] = letters[strcmp(task, "reverse") == 0 ? n - 1 - i : i];
        out[2 * i + 1] = i + 1 < n ? ' ' : '\0';
    }
}

static void letters_are_copied_reversed_and_sorted(void)
{
    static const char *const tasks[] = {"copy", "reverse", "sort"};
    static text_lines source, target;
    const fv_made_config cfg = small_config();
    for (int t = 0; t < 3; t++) {
        char folder[512];
        fv_made_report report;
        snprintf(folder, sizeof folder, "%s", folder_sub(tasks[t]));
        CHECK_OK(ctx, make(tasks[t], &cfg, folder, &report));
        CHECK_EQ(report.pairs[FV_MADE_TRAIN], 300);
        CHECK_EQ(report.pairs[FV_MADE_VALID], 40);
        CHECK_EQ(report.pairs[FV_MADE_TEST], 40);
        for (int part = 0; part < FV_MADE_PARTS; part++) {
            char name[64];
            snprintf(name, sizeof name, "%s.source", fv_made_part_name((fv_made_part)part));
            read_lines(folder, name, &source);
            snprintf(name, sizeof name, "%s.target", fv_made_part_name((fv_made_part)part));
            read_lines(folder, name, &target);
            CHECK_EQ(source.count, report.pairs[part]);
            CHECK_EQ(target.count, report.pairs[part]);
            for (int i = 0; i < source.count && i < target.count; i++) {
                char wanted[128];
                expected_target(tasks[t], source.list[i], wanted);
                CHECK_STR(target.list[i], wanted);
                CHECK(strlen(source.list[i]) <= 13);
                CHECK_EQ(part_of(source.list[i]), part);
            }
            free_lines(&source);
            free_lines(&target);
        }
        CHECK_OK(ctx, fv_made_set_check(ctx, folder, NULL, NULL));
    }
}

static void sentences_have_translations(void)
{
    static text_lines source, target;
    const fv_made_config cfg = small_config();
    fv_made_report report;
    char folder[512], name[64];
    snprintf(folder, sizeof folder, "%s", folder_sub("sentences"));
    CHECK_OK(ctx, make("sentences", &cfg, folder, &report));
    for (int part = 0; part < FV_MADE_PARTS; part++) {
        snprintf(name, sizeof name, "%s.en", fv_made_part_name((fv_made_part)part));
        read_lines(folder, name, &source);
        snprintf(name, sizeof name, "%s.fr", fv_made_part_name((fv_made_part)part));
        read_lines(folder, name, &target);
        CHECK_EQ(source.count, part == FV_MADE_TRAIN ? 300 : 40);
        CHECK_EQ(target.count, source.count);
        for (int i = 0; i < source.count && i < target.count; i++) {
            CHECK_EQ(part_of(source.list[i]), part);
            CHECK(strncmp(source.list[i], "the ", 4) == 0);
            CHECK(strncmp(target.list[i], "le ", 3) == 0 || strncmp(target.list[i], "la ", 3) == 0);
            /* The adjective agrees with its noun: both sides have it, or neither. */
            CHECK_EQ(strstr(source.list[i], "black cow") != NULL,
                     strstr(target.list[i], "vache noire") != NULL);
            CHECK_EQ(strstr(source.list[i], "black cat") != NULL,
                     strstr(target.list[i], "chat noir ") != NULL);
        }
        free_lines(&source);
        free_lines(&target);
    }
    CHECK_OK(ctx, fv_made_set_check(ctx, folder, NULL, NULL));
}

static void dates_are_split_by_calendar_date(void)
{
    static text_lines iso[FV_MADE_PARTS];
    char folder[512];
    const fv_made_config cfg = small_config();
    snprintf(folder, sizeof folder, "%s", folder_sub("dates"));
    CHECK_OK(ctx, make("dates", &cfg, folder, NULL));
    for (int part = 0; part < FV_MADE_PARTS; part++) {
        char name[64];
        snprintf(name, sizeof name, "%s.iso", fv_made_part_name((fv_made_part)part));
        read_lines(folder, name, &iso[part]);
        for (int i = 0; i < iso[part].count; i++) {
            int year, month, day;
            CHECK_EQ(sscanf(iso[part].list[i], "%d-%d-%d", &year, &month, &day), 3);
            CHECK_EQ(fv_date_part(year, month, day),
                     part == FV_MADE_TRAIN ? FV_DATES_TRAIN : FV_DATES_TEST);
        }
    }
    for (int i = 0; i < iso[FV_MADE_VALID].count; i++)
        for (int k = 0; k < iso[FV_MADE_TEST].count; k++)
            CHECK(strcmp(iso[FV_MADE_VALID].list[i], iso[FV_MADE_TEST].list[k]) != 0);
    for (int part = 0; part < FV_MADE_PARTS; part++)
        free_lines(&iso[part]);
    CHECK_OK(ctx, fv_made_set_check(ctx, folder, NULL, NULL));
}

static void the_same_seed_makes_the_same_files(void)
{
    char a[256], b[256], path[1024];
    size_t bytes[3];
    fv_made_config cfg = small_config();
    snprintf(a, sizeof a, "%s", folder_sub("seed-a"));
    snprintf(b, sizeof b, "%s", folder_sub("seed-b"));
    void *files[3] = {NULL};
    for (int i = 0; i < 3; i++) {
        cfg.seed = i < 2 ? 5 : 6;
        CHECK_OK(ctx, make("copy", &cfg, i % 2 ? b : a, NULL));
        snprintf(path, sizeof path, "%s/test.source", i % 2 ? b : a);
        files[i] = file_read(path, &bytes[i]);
        CHECK(files[i] != NULL);
    }
    CHECK(bytes[0] == bytes[1] && memcmp(files[0], files[1], bytes[0]) == 0);
    CHECK(bytes[0] != bytes[2] || memcmp(files[0], files[2], bytes[0]) != 0);
    for (int i = 0; i < 3; i++)
        free(files[i]);
}

static void bounds_are_reported(void)
{
    fv_made_config cfg = small_config();
    char folder[512];
    snprintf(folder, sizeof folder, "%s", folder_sub("bounds"));
    cfg.length = 1; /* 26 different sources, of which two in a hundred are held out */
    CHECK_EQ(make("copy", &cfg, folder, NULL), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "too few different sequences") != NULL);
    cfg.length = 1001;
    CHECK_EQ(make("copy", &cfg, folder, NULL), FV_ERR_ARGUMENT);
    cfg.length = 5;
    cfg.pairs = 0;
    CHECK_EQ(make("copy", &cfg, folder, NULL), FV_ERR_ARGUMENT);
    CHECK_EQ(make("tatoeba-en-fr", NULL, folder, NULL), FV_ERR_ARGUMENT);
    CHECK(strstr(fv_ctx_message(ctx), "tatoeba-eng-fra") != NULL);
    CHECK(fv_made_set_find("tatoba") == NULL && fv_dataset_find("multi") == NULL);
    cfg = small_config();
    CHECK_EQ(make("copy", &cfg, "/nowhere/at/all", NULL), FV_ERR_IO);
}

/* ---- the translation set ------------------------------------------------------------- */

/* A folder of public sets whose Tatoeba is `text`, plain: what is packed shows by its content. */
static const char *public_folder(const char *name, const char *text)
{
    static char data[256], path[1024];
    snprintf(data, sizeof data, "%s", folder_sub(name));
    snprintf(path, sizeof path, "%s/tatoeba-eng-fra", data);
    mkdir(path, 0700);
    strcat(path, "/fra.txt.xz");
    file_write(path, text, strlen(text));
    return data;
}

static fv_status make_tatoeba(const char *name, const char *text, char folder[512],
                              fv_made_report *report)
{
    fv_made_config cfg;
    fv_made_config_init(&cfg, sizeof cfg);
    cfg.data = public_folder(name, text);
    snprintf(folder, 512, "%s/made", cfg.data);
    mkdir(folder, 0700);
    return make("tatoeba-en-fr", &cfg, folder, report);
}

static void pairs_of_one_file_are_split(void)
{
    char folder[512];
    fv_made_report report;
    static text_lines lines;
    CHECK_OK(ctx, make_tatoeba("split",
                               "Run drink!\tpremier\n"
                               "Run drink!\tsecond\n"
                               "Stop stop!\tx\n"
                               "stop stop.\ty\n"
                               "Run run!\ta\n"
                               "Run run!\tb\n"
                               "Run run!\ta\n"
                               "Run go!\tc\n",
                               folder, &report));
    CHECK_EQ(report.pairs[FV_MADE_TRAIN], 3); /* a source may repeat, a pair may not */
    CHECK_EQ(report.pairs[FV_MADE_VALID], 1);
    CHECK_EQ(report.pairs[FV_MADE_TEST], 2); /* two spellings of one sentence */
    CHECK_EQ(report.repeated, 2);
    read_lines(folder, "valid.fr", &lines);
    CHECK_EQ(lines.count, 1);
    if (lines.count == 1) CHECK_STR(lines.list[0], "premier");
    free_lines(&lines);
    CHECK_OK(ctx, fv_made_set_check(ctx, folder, NULL, NULL));
}

static void damaged_pairs_are_refused(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a\tb\nno tab\n", "fra.txt.xz:2: expected two texts with one tab"},
        {"a\tb\tc\n", ":1: expected two texts"},
        {"\tb\n", ":1: expected two texts"},
        {"a\t\n", ":1: expected two texts"},
        {"a\tb\n\xff\tb\n", ":2: invalid UTF-8 at byte 1"},
    };
    char folder[512], name[32];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(name, sizeof name, "damaged-%zu", i);
        CHECK_EQ(make_tatoeba(name, cases[i].text, folder, NULL), FV_ERR_FORMAT);
        CHECK(strstr(fv_ctx_message(ctx), cases[i].message) != NULL);
        struct stat about;
        strcat(folder, "/train.en");
        CHECK(stat(folder, &about) != 0); /* nothing is written before all is read */
    }
}

/* ---- checking ------------------------------------------------------------------------ */

typedef struct tally {
    int files, whole;
    char message[256];
} tally;

static void count_finding(void *user, const fv_dataset_finding *f)
{
    tally *t = user;
    t->files++;
    t->whole += f->status == FV_OK;
    if (f->status != FV_OK) snprintf(t->message, sizeof t->message, "%s", f->message);
}

/* Spoils one file of a fresh set and wants the check to say so. */
static void expect_damage(const char *name, const char *file, const char *text, const char *message)
{
    char folder[512], path[1024];
    const fv_made_config cfg = small_config();
    snprintf(folder, sizeof folder, "%s", folder_sub(name));
    CHECK_OK(ctx, make("sort", &cfg, folder, NULL));
    snprintf(path, sizeof path, "%s/%s", folder, file);
    file_write(path, text, strlen(text));
    const fv_status status = fv_made_set_check(ctx, folder, NULL, NULL);
    if (status == FV_OK || !strstr(fv_ctx_message(ctx), message))
        test_failed(__FILE__, __LINE__, "%s: '%s', not '%s'", name, fv_ctx_message(ctx), message);
}

static void damage_is_found(void)
{
    expect_damage("cut", "test.source", "a b\n", "test.source: 1 lines, expected 40");
    expect_damage("bytes", "valid.target", "a\n\xc3(\n", "valid.target:2: invalid UTF-8");
    expect_damage("no-json", "dataset.json", "[", "dataset.json:1");
    expect_damage("no-files", "dataset.json", "{\"source\":\"source\",\"target\":\"target\"}",
                  "files");
    expect_damage("no-entry", "dataset.json",
                  "{\"source\":\"source\",\"target\":\"target\",\"files\":[]}",
                  "expected an entry for file 'train.source'");
    expect_damage("outside", "dataset.json",
                  "{\"source\":\"../x\",\"target\":\"target\",\"files\":[]}",
                  "expected file name endings");
    char folder[512], path[1024];
    const fv_made_config cfg = small_config();
    snprintf(folder, sizeof folder, "%s", folder_sub("flip"));
    CHECK_OK(ctx, make("sort", &cfg, folder, NULL));
    snprintf(path, sizeof path, "%s/valid.source", folder);
    size_t bytes = 0;
    char *text = file_read(path, &bytes);
    CHECK(text && bytes > 1);
    if (text) text[0] = text[0] == 'q' ? 'r' : 'q';
    if (text) file_write(path, text, bytes);
    free(text);
    tally t = {0, 0, ""};
    CHECK_EQ(fv_made_set_check(ctx, folder, count_finding, &t), FV_ERR_FORMAT);
    CHECK(t.files == 6 && t.whole == 5);
    CHECK(strstr(t.message, "valid.source: the checksum is") != NULL);
    unlink(path);
    CHECK_EQ(fv_made_set_check(ctx, folder, NULL, NULL), FV_ERR_IO);
}

/* A manifest as a stranger may send it: the files beside it are here the manifest itself. */
static fv_status read_manifest(void *user, const void *data, size_t bytes)
{
    static memory_file file;
    static fv_ctx *reader;
    if (!reader) {
        fv_ctx_config cfg;
        fv_ctx_config_init(&cfg, sizeof cfg);
        memory_io(&cfg.io, &file);
        CHECK_EQ(fv_ctx_create(&cfg, &reader), FV_OK);
    }
    if (!data) {
        fv_ctx_destroy(&reader);
        return FV_OK;
    }
    (void)user;
    file = (memory_file){.data = data, .bytes = bytes};
    return fv_made_set_check(reader, "set", NULL, NULL);
}

static void damaged_manifests_are_refused(void)
{
    static const char manifest[] = "{\"name\":\"x\",\"source\":\"s\",\"target\":\"t\",\"files\":["
                                   "{\"file\":\"train.s\",\"sha256\":\"00\",\"lines\":1},"
                                   "{\"file\":\"train.t\",\"sha256\":\"00\",\"lines\":1},"
                                   "{\"file\":\"valid.s\",\"sha256\":\"00\",\"lines\":1},"
                                   "{\"file\":\"valid.t\",\"sha256\":\"00\",\"lines\":2},"
                                   "{\"file\":\"test.s\",\"sha256\":\"00\",\"lines\":1},"
                                   "{\"file\":\"test.t\",\"sha256\":\"00\",\"lines\":1}]}";
    corrupt_report report = {0};
    corrupt_run(manifest, sizeof manifest - 1, read_manifest, NULL, &report);
    CHECK_EQ(read_manifest(NULL, NULL, 0), FV_OK);
    /* No file has that checksum: even a manifest that still makes sense is refused. */
    CHECK_EQ(report.answers[FV_ERR_FORMAT] + report.answers[FV_ERR_IO], report.reads);
    CHECK(report.slowest < 0.1);
    printf("manifests: %llu damaged ones\n", (unsigned long long)report.reads);
}

/* The checksums of the manifest are right, and a sentence is in two parts all the same. */
static void a_shared_source_is_found(void)
{
    static const char manifest[] = "{\"source\":\"s\",\"target\":\"t\",\"files\":["
                                   "{\"file\":\"train.s\",\"sha256\":\"%s\",\"lines\":2},"
                                   "{\"file\":\"train.t\",\"sha256\":\"%s\",\"lines\":2},"
                                   "{\"file\":\"valid.s\",\"sha256\":\"%s\",\"lines\":1},"
                                   "{\"file\":\"valid.t\",\"sha256\":\"%s\",\"lines\":1},"
                                   "{\"file\":\"test.s\",\"sha256\":\"%s\",\"lines\":1},"
                                   "{\"file\":\"test.t\",\"sha256\":\"%s\",\"lines\":1}]}";
    static const char *const names[] = {"train.s", "train.t", "valid.s",
                                        "valid.t", "test.s",  "test.t"};
    static const char *const texts[] = {"a\nb\n", "1\n2\n", "b\n", "2\n", "c\n", "3\n"};
    char folder[512], path[1024], sums[6][65], text[2048];
    snprintf(folder, sizeof folder, "%s", folder_sub("shared"));
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        file_write(path, texts[i], strlen(texts[i]));
        snprintf(sums[i], sizeof sums[i], "%s", digest(texts[i], strlen(texts[i]), 64));
    }
    snprintf(text, sizeof text, manifest, sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]);
    snprintf(path, sizeof path, "%s/dataset.json", folder);
    file_write(path, text, strlen(text));
    CHECK_EQ(fv_made_set_check(ctx, folder, NULL, NULL), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "line 2 of train and line 1 of valid are the same") != NULL);
}

static void public_sets_are_described(void)
{
    const fv_dataset *set;
    size_t count = 0;
    for (; (set = fv_dataset_at(count)); count++) {
        CHECK(fv_dataset_find(set->name) == set);
        CHECK(set->about[0] && set->licence[0] && set->source[0] && set->file_count > 0);
        for (size_t i = 0; i < set->file_count; i++) {
            CHECK_EQ(strlen(set->files[i].sha256), 64);
            CHECK_EQ(strspn(set->files[i].sha256, "0123456789abcdef"), 64);
            CHECK(strncmp(set->files[i].path, set->name, strlen(set->name)) == 0);
            CHECK(set->files[i].lines >= -1);
        }
        CHECK_EQ(fv_dataset_present(ctx, set, "/nowhere"), 0);
    }
    CHECK(count >= 10);
}

/* Real copies, where there are some. */
static void copies_here_are_whole(void)
{
    const char *data = getenv("FOVEA_DATA");
    const fv_dataset *set;
    int checked = 0;
    for (size_t i = 0; data && (set = fv_dataset_at(i)); i++) {
        if (fv_dataset_present(ctx, set, data) != set->file_count) continue;
        CHECK_OK(ctx, fv_dataset_check(ctx, set, data, NULL, NULL));
        checked++;
    }
    if (checked)
        printf("sets: %d public ones are whole\n", checked);
    else
        printf("skipped: no public sets under FOVEA_DATA\n");
}

/* ---- faults ---------------------------------------------------------------------------- */

/* Each file call of a second make fails once: the old set or whole new files are there. */
static void failing_files_leave_whole_ones(void)
{
    char folder[512];
    fv_made_config cfg = small_config();
    cfg.pairs = 5;
    cfg.held_out = 2;
    snprintf(folder, sizeof folder, "%s", folder_sub("faults"));
    CHECK_OK(ctx, make("copy", &cfg, folder, NULL));
    cfg.seed = 9;
    int64_t points = 0;
    for (int64_t at = 1;; at++) {
        fault_io faults;
        fv_ctx_config with;
        fv_ctx *failing = NULL;
        fv_ctx_config_init(&with, sizeof with);
        fault_io_init(&faults, &with.io);
        faults.fail_at = at;
        faults.error = 28; /* ENOSPC */
        faults.unsynced = true;
        CHECK_EQ(fv_ctx_create(&with, &failing), FV_OK);
        const fv_status status =
            fv_made_set_write(failing, fv_made_set_find("copy"), &cfg, folder, NULL);
        fv_ctx_destroy(&failing);
        if (!faults.failed) {
            CHECK_EQ(status, FV_OK);
            break;
        }
        if (faults.failing != FAULT_REMOVE && faults.failing != FAULT_CLOSE)
            CHECK_EQ(status, FV_ERR_IO);
        points++;
        for (int part = 0; part < FV_MADE_PARTS; part++) {
            static text_lines lines;
            char name[64];
            snprintf(name, sizeof name, "%s.source", fv_made_part_name((fv_made_part)part));
            read_lines(folder, name, &lines);
            CHECK_EQ(lines.count, part == FV_MADE_TRAIN ? 5 : 2);
            free_lines(&lines);
        }
        char temp[1024];
        struct stat about;
        snprintf(temp, sizeof temp, "%s/train.source.fovea-0.tmp", folder);
        CHECK(stat(temp, &about) != 0);
    }
    CHECK(points >= 7 * 6);
    CHECK_OK(ctx, fv_made_set_check(ctx, folder, NULL, NULL));
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    folder_make();
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(sha256_is_the_published_one);
    RUN(sources_belong_where_the_rule_says);
    RUN(letters_are_copied_reversed_and_sorted);
    RUN(sentences_have_translations);
    RUN(dates_are_split_by_calendar_date);
    RUN(the_same_seed_makes_the_same_files);
    RUN(bounds_are_reported);
    RUN(pairs_of_one_file_are_split);
    RUN(damaged_pairs_are_refused);
    RUN(damage_is_found);
    RUN(damaged_manifests_are_refused);
    RUN(a_shared_source_is_found);
    RUN(public_sets_are_described);
    RUN(copies_here_are_whole);
    RUN(failing_files_leave_whole_ones);
    fv_ctx_destroy(&ctx);
    folder_remove();
    return TEST_END();
}
