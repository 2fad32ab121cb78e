/* The JSON reader; its writer and numbers are in test_json_write.c. */
#include <dirent.h>
#include <unistd.h>

#include "base/ctx.h"
#include "io/json.h"
#include "io/json_write.h"
#include "support/files.h"
#include "support/test.h"
#include "support/tree.h"

static fv_ctx *ctx;

static fv_status parse(const char *text, size_t bytes, fv_doc **doc)
{
    return fv_json_parse(ctx, "t", text, bytes, doc);
}

/* ---- values ---------------------------------------------------------------------- */

/* text, and what it is when written again. */
static const char *const ACCEPTED[][2] = {
    {"null", "null"},
    {"true", "true"},
    {"false", "false"},
    {" \t\r\n null \n", "null"},
    {"0", "0"},
    {"-0", "-0.0"},
    {"1", "1"},
    {"-1", "-1"},
    {"1234567890", "1234567890"},
    {"9223372036854775807", "9223372036854775807"},
    {"-9223372036854775808", "-9223372036854775808"},
    {"9223372036854775808", "9.223372036854776e18"},
    {"0.5", "0.5"},
    {"-0.5", "-0.5"},
    {"1.0", "1.0"},
    {"1e0", "1.0"},
    {"1E2", "100.0"},
    {"1e+2", "100.0"},
    {"1e-2", "0.01"},
    {"0.1", "0.1"},
    {"3.141592653589793", "3.141592653589793"},
    {"1e-7", "1e-7"},
    {"0.00001", "0.00001"},
    {"0.000012345", "0.000012345"},
    {"123456789.125", "123456789.125"},
    {"1e16", "10000000000000000.0"},
    {"1e17", "1e17"},
    {"1.5e300", "1.5e300"},
    {"1.7976931348623157e308", "1.7976931348623157e308"},
    {"5e-324", "4.94065645841247e-324"},
    {"2.2250738585072014e-308", "2.2250738585072014e-308"},
    {"1e-400", "0.0"},
    {"-1e-400", "-0.0"},
    {"0e99999999999999999999", "0.0"},
    {"0.0000000000000000000000000000000000000000001e43", "1.0"},
    {"9007199254740993.0", "9007199254740992.0"},
    {"9007199254740993.00000000000000000000000000000000001", "9007199254740994.0"},
    {"\"\"", "\"\""},
    {"\"abc\"", "\"abc\""},
    {"\"a b\\tc\"", "\"a b\\tc\""},
    {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\""},
    {"\"\\u0041\"", "\"A\""},
    {"\"\\u00e9\"", "\"\xC3\xA9\""},
    {"\"\\u20AC\"", "\"\xE2\x82\xAC\""},
    {"\"\\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\""},
    {"\"\\uDBFF\\uDFFF\"", "\"\xF4\x8F\xBF\xBF\""},
    {"\"\\u0000\"", "\"\\u0000\""},
    {"\"\\u001f\"", "\"\\u001f\""},
    {"\"\x7F\"", "\"\x7F\""},
    {"\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"", "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\""},
    {"[]", "[]"},
    {"[ ]", "[]"},
    {"[1]", "[1]"},
    {"[1,2,3]", "[1,2,3]"},
    {"[ 1 , 2\n,\t3 ]", "[1,2,3]"},
    {"[[],[[]],[[],[]]]", "[[],[[]],[[],[]]]"},
    {"[null,true,false,0,\"\",[],{}]", "[null,true,false,0,\"\",[],{}]"},
    {"{}", "{}"},
    {"{ }", "{}"},
    {"{\"a\":1}", "{\"a\":1}"},
    {"{\"\":0}", "{\"\":0}"},
    {"{ \"b\" : 1 , \"a\" : 2 }", "{\"b\":1,\"a\":2}"},
    {"{\"a\":{\"a\":{\"a\":[{\"a\":{}}]}}}", "{\"a\":{\"a\":{\"a\":[{\"a\":{}}]}}}"},
    {"{\"a\":1,\"A\":2,\"aa\":3}", "{\"a\":1,\"A\":2,\"aa\":3}"},
    {"[\"\\u0022\",{\"k\\n\":[-1]}]", "[\"\\\"\",{\"k\\n\":[-1]}]"},
    {"[1e2,1E-2,10.25]", "[100.0,0.01,10.25]"},
};

static void accepts(void)
{
    for (size_t i = 0; i < sizeof ACCEPTED / sizeof ACCEPTED[0]; i++) {
        fv_doc *doc = NULL;
        fv_json_writer w;
        const char *text = ACCEPTED[i][0], *wanted = ACCEPTED[i][1];
        CHECK_OK(ctx, parse(text, strlen(text), &doc));
        if (!doc) continue;
        fv_json_begin(&w, ctx);
        tree_write(&w, &doc->root);
        CHECK_OK(ctx, fv_json_end(&w));
        if (w.bytes != strlen(wanted) || memcmp(w.text, wanted, w.bytes) != 0)
            test_failed(__FILE__, __LINE__, "%s became %.*s, not %s", text, (int)w.bytes, w.text,
                        wanted);
        fv_json_free(&w);
        fv_doc_free(&doc);
    }
}

/* text, and where the complaint must point ("line:column"). */
static const char *const REFUSED[][2] = {
    {"", "1:1"},
    {" ", "1:2"},
    {"\n\n", "3:1"},
    {"nul", "1:1"},
    {"nulll", "1:5"},
    {"Null", "1:1"},
    {"TRUE", "1:1"},
    {"tru", "1:1"},
    {"falsee", "1:6"},
    {"NaN", "1:1"},
    {"Infinity", "1:1"},
    {"-Infinity", "1:2"},
    {"undefined", "1:1"},
    {"01", "1:1"},
    {"-01", "1:2"},
    {"00", "1:1"},
    {"+1", "1:1"},
    {"-", "1:2"},
    {"--1", "1:2"},
    {".5", "1:1"},
    {"-.5", "1:2"},
    {"5.", "1:3"},
    {"5.e1", "1:3"},
    {"1e", "1:3"},
    {"1e+", "1:4"},
    {"1e1.5", "1:4"},
    {"0x10", "1:2"},
    {"1_000", "1:2"},
    {"1,2", "1:2"},
    {"1 2", "1:3"},
    {"1e400", "1:1"},
    {"[1e400]", "1:2"},
    {"-1e309", "1:1"},
    {"1.8e308", "1:1"},
    {"\"", "1:2"},
    {"\"abc", "1:2"},
    {"\"abc\\\"", "1:2"},
    {"'abc'", "1:1"},
    {"\"\\x41\"", "1:3"},
    {"\"\\a\"", "1:3"},
    {"\"\\ \"", "1:3"},
    {"\"\\u\"", "1:4"},
    {"\"\\u12\"", "1:6"},
    {"\"\\u12G4\"", "1:6"},
    {"\"\\U0041\"", "1:3"},
    {"\"\\ud800\"", "1:8"},
    {"\"\\ud800x\"", "1:8"},
    {"\"\\ud800\\n\"", "1:8"},
    {"\"\\ud800\\ud800\"", "1:14"},
    {"\"\\udc00\"", "1:8"},
    {"\"\\udc00\\ud800\"", "1:8"},
    {"\"a\nb\"", "1:3"},
    {"\"a\tb\"", "1:3"},
    {"\"\x01\"", "1:2"},
    {"\"\x1F\"", "1:2"},
    {"\"\x80\"", "1:2"},
    {"\"\xC0\x80\"", "1:2"},
    {"\"\xC1\xBF\"", "1:2"},
    {"\"\xC3\"", "1:2"},
    {"\"\xE0\x80\x80\"", "1:2"},
    {"\"\xE2\x82\"", "1:2"},
    {"\"\xED\xA0\x80\"", "1:2"},
    {"\"\xF0\x80\x80\x80\"", "1:2"},
    {"\"\xF4\x90\x80\x80\"", "1:2"},
    {"\"\xF5\x80\x80\x80\"", "1:2"},
    {"\"\xFE\"", "1:2"},
    {"\xEF\xBB\xBFnull", "1:1"},
    {"[", "1:2"},
    {"[[", "1:3"},
    {"]", "1:1"},
    {"[1", "1:3"},
    {"[1,", "1:4"},
    {"[1,]", "1:4"},
    {"[,1]", "1:2"},
    {"[,]", "1:2"},
    {"[1,,2]", "1:4"},
    {"[1 2]", "1:4"},
    {"[1]]", "1:4"},
    {"[1}", "1:3"},
    {"[1:2]", "1:3"},
    {"[\n1,\n  2\n  3]", "4:3"},
    {"{", "1:2"},
    {"}", "1:1"},
    {"{1:2}", "1:2"},
    {"{a:1}", "1:2"},
    {"{'a':1}", "1:2"},
    {"{\"a\"}", "1:5"},
    {"{\"a\":}", "1:6"},
    {"{\"a\" 1}", "1:6"},
    {"{\"a\"=1}", "1:5"},
    {"{\"a\":1", "1:7"},
    {"{\"a\":1,", "1:8"},
    {"{\"a\":1,}", "1:8"},
    {"{,}", "1:2"},
    {"{\"a\":1 \"b\":2}", "1:8"},
    {"{\"a\":1]", "1:7"},
    {"{\"a\":1}}", "1:8"},
    {"{\"a\"::1}", "1:6"},
    {"{\"a\":1,\"a\":2}", "1:12"},
    {"{\"a\":1,\n \"b\":2,\n \"\\u0061\":3}", "3:11"},
    {"{\"a\":{\"b\":1,\"b\":1}}", "1:17"},
    {"[1] // no", "1:5"},
    {"/* no */ 1", "1:1"},
    {"# no\n1", "1:1"},
    {"[1]\x01", "1:4"},
    {"\x0C[1]", "1:1"},
    {"\xC2\xA0[1]", "1:1"},
    {"<null>", "1:1"},
    {"*", "1:1"},
    {"\\u0031", "1:1"},
    {"{\"a\":\n  tru\n}", "2:3"},
};

static void refuses(void)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        fv_doc *doc = NULL;
        const char *text = REFUSED[i][0];
        char where[32];
        CHECK_EQ(parse(text, strlen(text), &doc), FV_ERR_FORMAT);
        CHECK(doc == NULL);
        snprintf(where, sizeof where, "t:%s: ", REFUSED[i][1]);
        if (strncmp(fv_ctx_message(ctx), where, strlen(where)) != 0)
            test_failed(__FILE__, __LINE__, "case %zu: \"%s\" is not at %s", i, fv_ctx_message(ctx),
                        where);
        fv_doc_free(&doc);
    }
}

/* A NUL is a byte like any other, not the end. */
static void nul_bytes(void)
{
    fv_doc *doc = NULL;
    CHECK_EQ(parse("[1]\0", 4, &doc), FV_ERR_FORMAT);
    CHECK_EQ(parse("\"\0\"", 3, &doc), FV_ERR_FORMAT);
    CHECK_EQ(parse("\0", 1, &doc), FV_ERR_FORMAT);
    CHECK(doc == NULL);
}

/* ---- access ---------------------------------------------------------------------- */

static void typed_access(void)
{
    static const char text[] = "{\"n\": 12, \"whole\": 3.0, \"x\": 0.5, \"s\": \"word\",\n"
                               " \"b\": true, \"a\": [1, 2], \"nul\": \"a\\u0000b\"}";
    fv_doc *doc = NULL;
    int64_t n = -7;
    double x = 0;
    bool b = false;
    const char *s = NULL;
    const fv_value *v = NULL;
    CHECK_OK(ctx, parse(text, sizeof text - 1, &doc));
    if (!doc) return;
    const fv_value *root = &doc->root;
    CHECK_OK(ctx, fv_doc_get_int(doc, root, "n", true, 0, 12, &n));
    CHECK_EQ(n, 12);
    CHECK_OK(ctx, fv_doc_get_int(doc, root, "whole", true, 0, 10, &n));
    CHECK_EQ(n, 3);
    CHECK_OK(ctx, fv_doc_get_int(doc, root, "absent", false, 0, 10, &n));
    CHECK_EQ(n, 3);
    CHECK_OK(ctx, fv_doc_get_real(doc, root, "x", true, &x));
    CHECK(x == 0.5);
    CHECK_OK(ctx, fv_doc_get_real(doc, root, "n", true, &x));
    CHECK(x == 12.0);
    CHECK_OK(ctx, fv_doc_get_bool(doc, root, "b", true, &b));
    CHECK(b);
    CHECK_OK(ctx, fv_doc_get_string(doc, root, "s", true, &s));
    CHECK_STR(s, "word");
    CHECK_OK(ctx, fv_doc_get(doc, root, "a", FV_VALUE_ARRAY, &v));
    CHECK_EQ(v->count, 2);

    CHECK_EQ(fv_doc_get_int(doc, root, "n", true, 13, 99, &n), FV_ERR_FORMAT);
    CHECK_STR(fv_ctx_message(ctx), "t:1:7: 12 is out of range, expected 13 to 99");
    CHECK_EQ(fv_doc_get_int(doc, root, "n", true, 0, 11, &n), FV_ERR_FORMAT);
    CHECK_EQ(fv_doc_get_int(doc, root, "x", true, 0, 11, &n), FV_ERR_FORMAT);
    CHECK_EQ(fv_doc_get_int(doc, root, "s", true, 0, 11, &n), FV_ERR_FORMAT);
    CHECK_STR(fv_ctx_message(ctx), "t:1:40: expected an integer, found a string");
    CHECK_EQ(fv_doc_get_string(doc, root, "b", true, &s), FV_ERR_FORMAT);
    CHECK_STR(fv_ctx_message(ctx), "t:2:7: expected a string, found a boolean");
    CHECK_EQ(fv_doc_get_string(doc, root, "nul", true, &s), FV_ERR_FORMAT);
    CHECK_EQ(fv_doc_get_bool(doc, root, "n", true, &b), FV_ERR_FORMAT);
    CHECK_EQ(fv_doc_get_real(doc, root, "absent", true, &x), FV_ERR_FORMAT);
    CHECK_STR(fv_ctx_message(ctx), "t:1:1: \"absent\" is missing");
    CHECK_EQ(fv_doc_get_int(doc, fv_value_get(root, "a"), "n", true, 0, 1, &n), FV_ERR_FORMAT);
    CHECK_EQ(n, 3);
    CHECK(fv_value_get(fv_value_get(root, "a"), "n") == NULL);
    fv_doc_free(&doc);
    CHECK(doc == NULL);
    fv_doc_free(&doc);
}

/* Many keys in no order; each is found, and one repeated at the far end is refused. */
static void large_objects(void)
{
    enum { KEYS = 5000 };
    char *text = malloc(KEYS * 24);
    size_t used = 0;
    text[used++] = '{';
    for (int i = 0; i < KEYS; i++)
        used += (size_t)sprintf(text + used, "%s\"k%d\":%d", i ? "," : "", i * 7919 % KEYS, i);
    size_t before = used;
    text[used++] = '}';
    fv_doc *doc = NULL;
    CHECK_OK(ctx, parse(text, used, &doc));
    for (int i = 0; doc && i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i * 7919 % KEYS);
        const fv_value *v = fv_value_get(&doc->root, key);
        CHECK(v && v->as.integer == i);
    }
    CHECK(doc && !fv_value_get(&doc->root, "k5000"));
    fv_doc_free(&doc);
    used = before + (size_t)sprintf(text + before, ",\"k17\":0}");
    CHECK_EQ(parse(text, used, &doc), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "duplicate key \"k17\""));
    free(text);
}

/* ---- limits ---------------------------------------------------------------------- */

static fv_ctx *limited(const fv_limits *limits, uint64_t memory)
{
    fv_ctx_config cfg;
    fv_ctx *made = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.limits = *limits;
    cfg.memory_limit = memory;
    CHECK_EQ(fv_ctx_create(&cfg, &made), FV_OK);
    return made;
}

static void limit_boundaries(void)
{
    fv_limits limits;
    fv_limits_init(&limits, sizeof limits);
    limits.json_depth = 3;
    limits.string_bytes = 5;
    limits.text_bytes = 40;
    fv_ctx *c = limited(&limits, 0);
    fv_doc *doc = NULL;
    static const struct {
        const char *text;
        fv_status status;
    } cases[] = {
        {"[[[1]]]", FV_OK},
        {"[[[[1]]]]", FV_ERR_LIMIT},
        {"{\"a\":[{}]}", FV_OK},
        {"{\"a\":[{\"b\":[]}]}", FV_ERR_LIMIT},
        {"\"12345\"", FV_OK},
        {"\"123456\"", FV_ERR_LIMIT},
        {"\"\\u0031\\u0032\\u0033\\u0034\\u0035\"", FV_OK},
        {"\"\\u0031\\u0032\\u0033\\u0034\\u0035\\u0036\"", FV_ERR_LIMIT},
        {"{\"12345\":0}", FV_OK},
        {"{\"123456\":0}", FV_ERR_LIMIT},
        {"                                       1", FV_OK},
        {"                                        1", FV_ERR_LIMIT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fv_status got = fv_json_parse(c, "t", cases[i].text, strlen(cases[i].text), &doc);
        if (got != cases[i].status)
            test_failed(__FILE__, __LINE__, "%s: %s", cases[i].text, fv_status_name(got));
        fv_doc_free(&doc);
    }
    fv_ctx_destroy(&c);
}

static void deep_texts(void)
{
    enum { DEEP = 100000 };
    char *text = malloc(2 * DEEP);
    fv_doc *doc = NULL;
    memset(text, '[', DEEP);
    CHECK_EQ(parse(text, DEEP, &doc), FV_ERR_LIMIT);
    memset(text + DEEP, ']', DEEP);
    CHECK_EQ(parse(text, 2 * DEEP, &doc), FV_ERR_LIMIT);
    /* 64 is the default limit. */
    CHECK_OK(ctx, parse(text + DEEP - 64, 128, &doc));
    fv_doc_free(&doc);
    CHECK_EQ(parse(text + DEEP - 65, 130, &doc), FV_ERR_LIMIT);
    /* Depth is memory, not stack: with a raised limit it just works. */
    fv_limits limits;
    fv_limits_init(&limits, sizeof limits);
    limits.json_depth = DEEP;
    fv_ctx *c = limited(&limits, 0);
    CHECK_OK(c, fv_json_parse(c, "t", text, 2 * DEEP, &doc));
    fv_doc_free(&doc);
    fv_ctx_destroy(&c);
    free(text);
}

/* With any cap on memory, parsing works or says MEMORY, and gives all back. */
static void memory_caps(void)
{
    static const char text[] =
        "{\"a\":[1,2,3,[4,5,{\"b\":\"a longer string to hold\"}]],\"c\":0.5}";
    int refused = 0, worked = 0;
    fv_memory_stats base, after;
    fv_limits limits;
    fv_limits_init(&limits, sizeof limits);
    fv_ctx *c = limited(&limits, 0);
    fv_ctx_memory(c, &base);
    for (uint64_t cap = 64; cap < 16384; cap += 64) {
        c->mem.cap = base.used_bytes + cap;
        fv_doc *doc = NULL;
        fv_status s = fv_json_parse(c, "t", text, sizeof text - 1, &doc);
        CHECK(s == FV_OK || s == FV_ERR_MEMORY);
        if (s == FV_OK)
            worked++;
        else
            refused++;
        fv_doc_free(&doc);
        fv_ctx_memory(c, &after);
        CHECK_EQ(after.used_bytes, base.used_bytes);
        fv_ctx_memory_trim(c);
    }
    CHECK(refused > 5 && worked > 5);
    fv_ctx_destroy(&c);
}

/* ---- files ----------------------------------------------------------------------- */

static void loads_files(void)
{
    fv_doc *doc = NULL;
    file_write(folder_path("a.json"), "{\"x\": }", 7);
    CHECK_EQ(fv_json_load(ctx, folder_path("a.json"), &doc), FV_ERR_FORMAT);
    CHECK(strstr(fv_ctx_message(ctx), "a.json:1:7: expected a value, found '}'"));
    file_write(folder_path("b.json"), "{\"x\": 3}", 8);
    CHECK_OK(ctx, fv_json_load(ctx, folder_path("b.json"), &doc));
    CHECK(doc && fv_value_get(&doc->root, "x")->as.integer == 3);
    fv_doc_free(&doc);
    CHECK_EQ(fv_json_load(ctx, folder_path("none.json"), &doc), FV_ERR_IO);
    CHECK_EQ(fv_json_load(ctx, folder_path(""), &doc), FV_ERR_IO);
}

/* ---- the public suite ------------------------------------------------------------ */

static void run_suite(const char *path, int counts[4], int *wrong)
{
    DIR *dir = opendir(path);
    if (!dir) return;
    for (struct dirent *e; (e = readdir(dir));) {
        char file[2048];
        size_t bytes = 0, n = strlen(e->d_name);
        if (n < 5 || strcmp(e->d_name + n - 5, ".json") != 0) continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        char *text = file_read(file, &bytes);
        fv_doc *doc = NULL;
        if (!text) continue;
        fv_status s = parse(text, bytes, &doc);
        fv_doc_free(&doc);
        free(text);
        char kind = e->d_name[0];
        counts[kind == 'y' ? 0 : kind == 'n' ? 1 : 2]++;
        /* Two files that the suite accepts hold a key twice, which we refuse for that reason. */
        if (strncmp(e->d_name, "y_object_duplicated_key", 23) == 0) {
            CHECK_EQ(s, FV_ERR_FORMAT);
            CHECK(strstr(fv_ctx_message(ctx), "duplicate key"));
            counts[3]++;
            continue;
        }
        if ((kind == 'y' && s != FV_OK) || (kind == 'n' && s == FV_OK)) {
            (*wrong)++;
            printf("%s: %s\n", e->d_name, fv_status_name(s));
        }
    }
    closedir(dir);
}

/* $FOVEA_DATA/json-test-suite holds the set as a folder or as the packed archive. */
static void public_suite(void)
{
    const char *data = getenv("FOVEA_DATA");
    char path[1024], command[2048], unpacked[256] = "/tmp/fovea-suite-XXXXXX";
    int counts[4] = {0}, wrong = 0;
    snprintf(path, sizeof path, "%s/json-test-suite/test_parsing", data ? data : "");
    if (data) run_suite(path, counts, &wrong);
    snprintf(path, sizeof path, "%s/json-test-suite/json-test-suite.tar.xz", data ? data : "");
    if (data && counts[0] == 0 && access(path, R_OK) == 0 && mkdtemp(unpacked)) {
        snprintf(command, sizeof command, "tar -xJf '%s' -C '%s'", path, unpacked);
        if (system(command) == 0) {
            snprintf(path, sizeof path, "%s/test_parsing", unpacked);
            run_suite(path, counts, &wrong);
        }
        snprintf(command, sizeof command, "rm -rf '%s'", unpacked);
        if (system(command) != 0) printf("could not remove %s\n", unpacked);
    }
    if (counts[0] + counts[1] == 0) {
        printf("skipped: no json-test-suite under FOVEA_DATA\n");
        return;
    }
    printf(
        "json-test-suite: %d accept (%d refused for a key twice), %d reject, %d free, %d wrong\n",
        counts[0], counts[3], counts[1], counts[2], wrong);
    CHECK_EQ(wrong, 0);
    CHECK_EQ(counts[0], 95);
    CHECK_EQ(counts[1], 188);
    CHECK_EQ(counts[2], 35);
    CHECK_EQ(counts[3], 2);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    folder_make();
    RUN(accepts);
    RUN(refuses);
    RUN(nul_bytes);
    RUN(typed_access);
    RUN(large_objects);
    RUN(limit_boundaries);
    RUN(deep_texts);
    RUN(memory_caps);
    RUN(loads_files);
    RUN(public_suite);
    folder_remove();
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
