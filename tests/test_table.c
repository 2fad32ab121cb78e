/* Tables: formats are found, rows are read, bad rows are reported with their line. */
#include "base/ctx.h"
#include "fovea/data.h"
#include "support/corrupt.h"
#include "support/files.h"
#include "support/test.h"

static fv_ctx *ctx;
static memory_file file;

static void fails(fv_status found, fv_status wanted, const char *message)
{
    CHECK_EQ(found, wanted);
    CHECK(strstr(fv_ctx_message(ctx), message) != NULL);
}

static fv_status open_text(const char *name, const char *text, fv_table **out)
{
    file = (memory_file){text, strlen(text)};
    return fv_table_open(ctx, name, FV_TABLE_HEADER_AUTO, out);
}

/* Checks format, separator, header and columns "a|b" of a text. */
static void check_info(const char *name, const char *text, fv_table_format format, char separator,
                       bool header, const char *columns)
{
    fv_table *t = NULL;
    char names[512] = "";
    CHECK_OK(ctx, open_text(name, text, &t));
    if (!t) return;
    const fv_table_info *info = fv_table_get_info(t);
    for (int i = 0; i < info->column_count; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? "|" : "",
                 info->column_names[i]);
    CHECK_EQ(info->format, format);
    CHECK_EQ(info->separator, separator);
    CHECK_EQ(info->has_header, header);
    CHECK_STR(names, columns);
    fv_table_close(&t);
}

static void formats_are_found(void)
{
    const fv_table_format table = FV_TABLE_SEPARATED, json = FV_TABLE_JSON_LINES;
    check_info("a.tsv", "Go.\tVa !\nHi, you.\tSalut !\n", table, '\t', false, "1|2");
    check_info("a.tsv", "en\tfr\nGo.\tVa !\nHi.\tSalut !\n", table, '\t', true, "en|fr");
    check_info("a.csv", "text,label\n\"a, b\",x\nc,y\n", table, ',', true, "text|label");
    check_info("a.csv", "Go on.;x\nStop, now.;y\nGo, go.;x\n", table, ';', false, "1|2");
    check_info("a", "\xEF\xBB\xBFtext,label\na,x\nb,y\n", table, ',', true, "text|label");
    check_info("a.csv", "name,n\nab,1\ncd,22\n", table, ',', true, "name|n"); /* numbers below */
    check_info("a.tsv", "dog\tchien\ncat\tchat\n", table, '\t', false, "1|2");
    check_info("a.csv", "text,text\na,b\nc,d\n", table, ',', true, "text|2");
    check_info("a.jsonl",
               "{\"en\": \"a\", \"n\": 1}\n{\"en\": \"b\", \"x\": [1], \"t\": {\"fr\": \"c\"}}\n",
               json, 0, false, "en|n|t.fr");
    check_info("a.txt", "One, two.\nThree, four.\n", FV_TABLE_TEXT, 0, false, "text");
    check_info("a.txt", "One\tUn\nTwo\tDeux\n", table, '\t', false, "1|2");
    check_info("a.csv", "one\ntwo\n", table, ',', false, "1");
}

static void headers_can_be_set(void)
{
    fv_table *t = NULL;
    file = (memory_file){"dog\tchien\ncat\tchat\n", 19};
    CHECK_OK(ctx, fv_table_open(ctx, "a.tsv", FV_TABLE_HEADER_YES, &t));
    CHECK_STR(fv_table_get_info(t)->column_names[1], "chien");
    fv_table_close(&t);
    file = (memory_file){"en\tfr\nGo.\tVa !\n", 15};
    CHECK_OK(ctx, fv_table_open(ctx, "a.tsv", FV_TABLE_HEADER_NO, &t));
    fv_table_row row;
    CHECK_OK(ctx, fv_table_next(t, &row));
    CHECK_STR(row.fields[0].text, "en");
    fv_table_close(&t);
}

static void next_is(fv_table *t, uint64_t line, const char *first, const char *second)
{
    fv_table_row row;
    CHECK_OK(ctx, fv_table_next(t, &row));
    CHECK_EQ(row.line, line);
    CHECK(row.fields && !row.problem);
    if (!row.fields) return;
    CHECK_STR(row.fields[0].text, first);
    CHECK_STR(row.fields[1].text, second);
    CHECK_EQ(row.fields[1].bytes, strlen(second));
}

static void next_is_bad(fv_table *t, uint64_t line, const char *problem)
{
    fv_table_row row;
    CHECK_OK(ctx, fv_table_next(t, &row));
    CHECK_EQ(row.line, line);
    CHECK(row.fields && row.problem);
    CHECK_STR(row.problem ? row.problem : "", problem);
}

static void next_is_end(fv_table *t)
{
    fv_table_row row;
    CHECK_OK(ctx, fv_table_next(t, &row));
    CHECK(!row.fields);
}

static void rows_are_read(void)
{
    fv_table *t = NULL;
    CHECK_OK(ctx, open_text("a.csv", "text,label\n\"a, \"\"b\"\"\nc\",x\n\nd,y\n", &t));
    for (int pass = 0; pass < 2; pass++) {
        next_is(t, 2, "a, \"b\"\nc", "x");
        next_is(t, 5, "d", "y");
        next_is_end(t);
        CHECK_OK(ctx, fv_table_rewind(t));
    }
    fv_table_close(&t);
    CHECK_OK(ctx, open_text("a.tsv", "\"Go\tVa\nHi\"\tSalut\n", &t)); /* no quotes with tabs */
    next_is(t, 1, "\"Go", "Va");
    next_is(t, 2, "Hi\"", "Salut");
    fv_table_close(&t);
    CHECK_OK(ctx,
             open_text("a.jsonl", "{\"t\": {\"en\": \"a\\nb\"}, \"n\": 3}\n{\"n\": false}\n", &t));
    next_is(t, 1, "a\nb", "3");
    next_is(t, 2, "", "false");
    next_is_end(t);
    fv_table_close(&t);
}

static void bad_rows_have_lines(void)
{
    fv_table *t = NULL;
    const char rows[] = "a\tb\na\tb\na\tb\na\tb\na\tb\na\tb\na\tb\na\tb\na\tb\na\tb\n"
                        "a\tb\na\tb\na\tb\na\tb\na\tb\na\tb\na\tb\na\tb\na\n\xff\tb\n";
    CHECK_OK(ctx, open_text("a.tsv", rows, &t));
    for (uint64_t line = 1; line <= 18; line++)
        next_is(t, line, "a", "b");
    next_is_bad(t, 19, "1 fields, expected 2");
    next_is_bad(t, 20, "invalid UTF-8");
    next_is_end(t);
    fv_table_close(&t);
    CHECK_OK(ctx, open_text("a.jsonl", "{\"a\": \"x\", \"b\": \"y\"}\n{\"a\"\n[1]\n", &t));
    next_is(t, 1, "x", "y");
    next_is_bad(t, 2, "not a JSON object");
    next_is_bad(t, 3, "not a JSON object");
    next_is_end(t);
    fv_table_close(&t);
}

static void failures_name_the_place(void)
{
    fv_table *t = NULL;
    fv_table_row row;
    fails(open_text("a.tsv", "\n\n", &t), FV_ERR_FORMAT, "the file is empty");
    fails(open_text("a.json", "[\n{\"a\": 1}]", &t), FV_ERR_UNSUPPORTED, "jq -c");
    CHECK_OK(ctx, open_text("a.csv", "text,label\na,b\n\"c,d\ne,f\n", &t));
    next_is(t, 2, "a", "b");
    fails(fv_table_next(t, &row), FV_ERR_FORMAT, "a.csv:3: a quote is never closed");
    fv_table_close(&t);
}

/* ---- damaged files --------------------------------------------------------------------------- */

static fv_status read_table(void *user, const void *data, size_t bytes)
{
    fv_table *t = NULL;
    fv_table_row row = {.fields = NULL};
    file = (memory_file){data, bytes};
    fv_status status = fv_table_open(ctx, user, FV_TABLE_HEADER_AUTO, &t);
    do {
        if (status == FV_OK) status = fv_table_next(t, &row);
    } while (status == FV_OK && row.fields);
    fv_table_close(&t);
    return status;
}

static void damaged_files_are_read_or_refused(void)
{
    static const char *const texts[][2] = {
        {"a.csv", "text,label\n\"a, \"\"b\"\"\nc\",x\nd,y\n"},
        {"a.tsv", "en\tfr\nGo.\tVa !\nHi.\tSalut !\n"},
        {"a.jsonl", "{\"t\": {\"en\": \"a\"}, \"n\": 3}\n{\"n\": 1e3}\n"}};
    fv_memory_stats before, after;
    fv_ctx_memory(ctx, &before);
    corrupt_report report = {0};
    for (size_t i = 0; i < 3; i++)
        corrupt_run(texts[i][1], strlen(texts[i][1]), read_table, (void *)(uintptr_t)texts[i][0],
                    &report);
    corrupt_conclude("tables", &report);
    fv_ctx_memory(ctx, &after);
    CHECK_EQ(before.used_bytes, after.used_bytes);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    fv_ctx_config cfg;
    fv_ctx_config_init(&cfg, sizeof cfg);
    memory_io(&cfg.io, &file);
    if (fv_ctx_create(&cfg, &ctx) != FV_OK) return 1;
    RUN(formats_are_found);
    RUN(headers_can_be_set);
    RUN(rows_are_read);
    RUN(bad_rows_have_lines);
    RUN(failures_name_the_place);
    RUN(damaged_files_are_read_or_refused);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
