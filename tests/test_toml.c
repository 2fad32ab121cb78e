/* The TOML reader. */
#include "base/ctx.h"
#include "io/json_write.h"
#include "io/toml.h"
#include "support/files.h"
#include "support/test.h"
#include "support/tree.h"

static fv_ctx *ctx;

static fv_status parse(const char *text, fv_doc **doc)
{
    return fv_toml_parse(ctx, "t", text, strlen(text), doc);
}

/* text, and the tree as JSON. */
static const char *const ACCEPTED[][2] = {
    {"", "{}"},
    {"\n\n", "{}"},
    {"# only a comment", "{}"},
    {"# \xC3\xA9\ttab\r\n", "{}"},
    {"a = 1", "{\"a\":1}"},
    {"a=1\nb=2\r\nc=3", "{\"a\":1,\"b\":2,\"c\":3}"},
    {"  a  =  1  # why", "{\"a\":1}"},
    {"a-b_C9 = 1", "{\"a-b_C9\":1}"},
    {"1234 = 1", "{\"1234\":1}"},
    {"\"a b\" = 1", "{\"a b\":1}"},
    {"'a\\b' = 1", "{\"a\\\\b\":1}"},
    {"\"\" = 1", "{\"\":1}"},
    {"a.b.c = 1", "{\"a\":{\"b\":{\"c\":1}}}"},
    {"a . b = 1\na.c = 2", "{\"a\":{\"b\":1,\"c\":2}}"},
    {"a.\"b.c\".d = 1", "{\"a\":{\"b.c\":{\"d\":1}}}"},
    {"3.1 = 2", "{\"3\":{\"1\":2}}"},
    {"a = +1", "{\"a\":1}"},
    {"a = -17", "{\"a\":-17}"},
    {"a = 0", "{\"a\":0}"},
    {"a = -0", "{\"a\":0}"},
    {"a = 1_000_000", "{\"a\":1000000}"},
    {"a = 9223372036854775807", "{\"a\":9223372036854775807}"},
    {"a = -9223372036854775808", "{\"a\":-9223372036854775808}"},
    {"a = 0xDEAD_beef", "{\"a\":3735928559}"},
    {"a = 0o755", "{\"a\":493}"},
    {"a = 0b1101", "{\"a\":13}"},
    {"a = 0x7fffffffffffffff", "{\"a\":9223372036854775807}"},
    {"a = 1.5", "{\"a\":1.5}"},
    {"a = -0.0", "{\"a\":-0.0}"},
    {"a = 1e6", "{\"a\":1000000.0}"},
    {"a = 1e-06", "{\"a\":1e-6}"},
    {"a = 6.626e-34", "{\"a\":6.626e-34}"},
    {"a = 1_0.2_5e1_0", "{\"a\":102500000000.0}"},
    {"a = inf\nb = -inf\nc = +inf\nd = nan\ne = -nan",
     "{\"a\":\"inf\",\"b\":\"-inf\",\"c\":\"inf\",\"d\":\"nan\",\"e\":\"nan\"}"},
    {"a = true\nb = false", "{\"a\":true,\"b\":false}"},
    {"a = \"\"", "{\"a\":\"\"}"},
    {"a = ''", "{\"a\":\"\"}"},
    {"a = \"x\\ty\\\"\\\\\\u00e9\\U0001F600\"",
     "{\"a\":\"x\\ty\\\"\\\\\xC3\xA9\xF0\x9F\x98\x80\"}"},
    {"a = 'C:\\new'", "{\"a\":\"C:\\\\new\"}"},
    {"a = \"tab\there\"", "{\"a\":\"tab\\there\"}"},
    {"a = \"\"\"one\"\"\"", "{\"a\":\"one\"}"},
    {"a = \"\"\"\"\"\"", "{\"a\":\"\"}"},
    {"a = \"\"\"\none\r\ntwo\"\"\"", "{\"a\":\"one\\ntwo\"}"},
    {"a = \"\"\"one \\\n   \n  two\"\"\"", "{\"a\":\"one two\"}"},
    {"a = \"\"\"say \"hi\" \"\"!\"\"\"\"\"", "{\"a\":\"say \\\"hi\\\" \\\"\\\"!\\\"\\\"\"}"},
    {"a = \"\"\"x\\\"\"\"\"", "{\"a\":\"x\\\"\"}"},
    {"a = '''\na\\n'b''\n'''", "{\"a\":\"a\\\\n'b''\\n\"}"},
    {"a = '''x'''''", "{\"a\":\"x''\"}"},
    {"a = []", "{\"a\":[]}"},
    {"a = [1, 2, 3]", "{\"a\":[1,2,3]}"},
    {"a = [1, 2, ]", "{\"a\":[1,2]}"},
    {"a = [\n  1, # one\n  2\n  # end\n]", "{\"a\":[1,2]}"},
    {"a = [[1], [], [[2, 'x']]]", "{\"a\":[[1],[],[[2,\"x\"]]]}"},
    {"a = [{b = 1}, {b = 2}]", "{\"a\":[{\"b\":1},{\"b\":2}]}"},
    {"a = {}", "{\"a\":{}}"},
    {"a = { b = 1, c.d = 2, c.e = [3] }", "{\"a\":{\"b\":1,\"c\":{\"d\":2,\"e\":[3]}}}"},
    {"a = {b = {c = {}}}", "{\"a\":{\"b\":{\"c\":{}}}}"},
    {"[a]", "{\"a\":{}}"},
    {"[a]\nx = 1\n[b]\nx = 2", "{\"a\":{\"x\":1},\"b\":{\"x\":2}}"},
    {"[ a . 'b c' ] # t\nx = 1", "{\"a\":{\"b c\":{\"x\":1}}}"},
    {"[a.b]\nx = 1\n[a]\ny = 2", "{\"a\":{\"b\":{\"x\":1},\"y\":2}}"},
    {"[a]\ny = 2\n[a.b]\nx = 1\n[a.c]", "{\"a\":{\"y\":2,\"b\":{\"x\":1},\"c\":{}}}"},
    {"[a]\nb.c = 1\n[a.b.d]\ne = 2", "{\"a\":{\"b\":{\"c\":1,\"d\":{\"e\":2}}}}"},
    {"x = 1\n[a]\nx = 2\n[b]\nx = [3]", "{\"x\":1,\"a\":{\"x\":2},\"b\":{\"x\":[3]}}"},
    {"[model]\nname = \"sort\"\nheads = 4\n\n[train]\nrate = 3e-4\nsteps = 2_000\n"
     "betas = [0.9, 0.98]\n",
     "{\"model\":{\"name\":\"sort\",\"heads\":4},\"train\":{\"rate\":0.0003,\"steps\":2000,"
     "\"betas\":[0.9,0.98]}}"},
};

static void accepts(void)
{
    for (size_t i = 0; i < sizeof ACCEPTED / sizeof ACCEPTED[0]; i++) {
        fv_doc *doc = NULL;
        fv_json_writer w;
        const char *wanted = ACCEPTED[i][1];
        CHECK_OK(ctx, parse(ACCEPTED[i][0], &doc));
        if (!doc) continue;
        fv_json_begin(&w, ctx);
        tree_write(&w, &doc->root);
        CHECK_OK(ctx, fv_json_end(&w));
        if (w.bytes != strlen(wanted) || memcmp(w.text, wanted, w.bytes) != 0)
            test_failed(__FILE__, __LINE__, "%s became %.*s, not %s", ACCEPTED[i][0], (int)w.bytes,
                        w.text, wanted);
        fv_json_free(&w);
        fv_doc_free(&doc);
    }
}

/* text, and where the complaint must point. */
static const char *const REFUSED[][2] = {
    {"a", "1:2"},
    {"a 1", "1:3"},
    {"a =", "1:4"},
    {"a = # no", "1:5"},
    {"= 1", "1:1"},
    {"a = 1 b = 2", "1:7"},
    {"a = 1,", "1:6"},
    {"a = 1\rb = 2", "1:6"},
    {"a = 1\n\na = 2", "3:1"},
    {"a = 1\n'a' = 2", "2:1"},
    {"a.b = 1\na.b = 2", "2:3"},
    {"a = 1\na.b = 2", "2:1"},
    {"a.b = 1\na = 2", "2:1"},
    {"a = {b = 1}\na.c = 2", "2:1"},
    {"a = {b = 1}\n[a]", "2:2"},
    {"a = {b = 1}\n[a.c]", "2:2"},
    {"a = {b = 1, b = 2}", "1:13"},
    {"a = {b.c = 1, b = 2}", "1:15"},
    {"a = {b = 1, b.c = 2}", "1:13"},
    {"[a]\n[a]", "2:2"},
    {"[a]\nb = 1\n[a.b]", "3:4"},
    {"[a]\nb = 1\n[a.b.c]", "3:4"},
    {"[a.b]\n[a]\nb = 1", "3:1"},
    {"[a.b]\n[a]\nb.c = 1", "3:1"},
    {"a.b = 1\n[a]", "2:2"},
    {"[a]\nb.c = 1\n[a.b]", "3:4"},
    {"a = [1]\n[a]", "2:2"},
    {"a = [1]\na.b = 1", "2:1"},
    {"[]", "1:2"},
    {"[a", "1:3"},
    {"[a.]", "1:4"},
    {"[.a]", "1:2"},
    {"[a] b = 1", "1:5"},
    {"[a\n]", "1:3"},
    {".a = 1", "1:1"},
    {"a. = 1", "1:4"},
    {"a..b = 1", "1:3"},
    {"a! = 1", "1:2"},
    {"\xC3\xA9 = 1", "1:1"},
    {"\"a\nb\" = 1", "1:2"},
    {"\"\"\"a\"\"\" = 1", "1:3"},
    {"a = 01", "1:5"},
    {"a = +", "1:5"},
    {"a = 1__0", "1:5"},
    {"a = _1", "1:5"},
    {"a = 1_", "1:5"},
    {"a = 1.", "1:5"},
    {"a = .5", "1:5"},
    {"a = 1.e5", "1:5"},
    {"a = 1e", "1:5"},
    {"a = 1_.5", "1:5"},
    {"a = 0x", "1:5"},
    {"a = 0xG", "1:5"},
    {"a = 0x_1", "1:5"},
    {"a = +0x1", "1:5"},
    {"a = 0b2", "1:5"},
    {"a = 0o8", "1:5"},
    {"a = 0X1", "1:5"},
    {"a = 0x8000000000000000", "1:5"},
    {"a = 9223372036854775808", "1:5"},
    {"a = 1e400", "1:5"},
    {"a = Inf", "1:5"},
    {"a = infinity", "1:5"},
    {"a = True", "1:5"},
    {"a = yes", "1:5"},
    {"a = word", "1:5"},
    {"a = \"", "1:6"},
    {"a = \"x", "1:6"},
    {"a = \"x\ny\"", "1:6"},
    {"a = 'x", "1:6"},
    {"a = 'x\ny'", "1:6"},
    {"a = \"\"\"x", "1:8"},
    {"a = \"\"\"x\"\"", "1:8"},
    {"a = '''x''", "1:8"},
    {"a = \"\"\"x\"\"\"\"\"\"", "1:8"},
    {"a = \"\\x41\"", "1:7"},
    {"a = \"\\/\"", "1:7"},
    {"a = \"\\u12\"", "1:10"},
    {"a = \"\\ud800\"", "1:12"},
    {"a = \"\\U00110000\"", "1:16"},
    {"a = \"\x01\"", "1:6"},
    {"a = '\x1F'", "1:6"},
    {"a = \"\x7F\"", "1:6"},
    {"a = \"\xFF\"", "1:6"},
    {"a = '\xED\xA0\x80'", "1:6"},
    {"a = \"\"\"x\ry\"\"\"", "1:9"},
    {"# \x01", "1:3"},
    {"# \xC3", "1:3"},
    {"a = [", "1:6"},
    {"a = [1", "1:7"},
    {"a = [1,", "1:8"},
    {"a = [,]", "1:6"},
    {"a = [1,,2]", "1:8"},
    {"a = [1 2]", "1:8"},
    {"a = [1}", "1:7"},
    {"a = ]", "1:5"},
    {"a = {", "1:6"},
    {"a = {b}", "1:7"},
    {"a = {b = }", "1:10"},
    {"a = {b = 1", "1:11"},
    {"a = {b = 1,}", "1:12"},
    {"a = {b = 1\n}", "1:11"},
    {"a = {,}", "1:6"},
    {"a = {b = 1 c = 2}", "1:12"},
    {"a = {b = 1]", "1:11"},
    {"a = {b = [\n1,\n  x]}", "3:3"},
    {"[x]\ny = 1\nz = = 2", "3:5"},
};

static void refuses(void)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        fv_doc *doc = NULL;
        char where[32];
        fv_status s = parse(REFUSED[i][0], &doc);
        snprintf(where, sizeof where, "t:%s: ", REFUSED[i][1]);
        if (s != FV_ERR_FORMAT || strncmp(fv_ctx_message(ctx), where, strlen(where)) != 0)
            test_failed(__FILE__, __LINE__, "case %zu: %s, \"%s\", expected at %s", i,
                        fv_status_name(s), fv_ctx_message(ctx), where);
        CHECK(doc == NULL);
        fv_doc_free(&doc);
    }
}

/* Valid TOML that is not supported: distinguished from syntax errors. */
static void unsupported(void)
{
    static const char *const texts[] = {
        "a = 1979-05-27", "a = 1979-05-27T07:32:00Z", "a = 07:32:00", "a = [1979-05-27]", "[[a]]",
        "[[a]]\nb = 1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        fv_doc *doc = NULL;
        CHECK_EQ(parse(texts[i], &doc), FV_ERR_UNSUPPORTED);
        CHECK(strstr(fv_ctx_message(ctx), i < 4 ? "dates and times" : "arrays of tables"));
        CHECK(doc == NULL);
    }
}

static void messages(void)
{
    fv_doc *doc = NULL;
    CHECK_EQ(parse("[a]\nx = 1\nx = 2", &doc), FV_ERR_FORMAT);
    CHECK_STR(fv_ctx_message(ctx), "t:3:1: duplicate key \"x\"");
    CHECK_EQ(parse("a = word", &doc), FV_ERR_FORMAT);
    CHECK_STR(fv_ctx_message(ctx), "t:1:5: 'word' is not a value (strings need quotes)");
    CHECK_EQ(parse("a = {x = 1}\n[a.y]", &doc), FV_ERR_FORMAT);
    CHECK_STR(fv_ctx_message(ctx), "t:2:2: \"a\" is already defined and cannot be extended");
    CHECK_EQ(parse("a = 1\nb", &doc), FV_ERR_FORMAT);
    CHECK_STR(fv_ctx_message(ctx), "t:2:2: expected '.' or '=', found the end of the text");
}

static fv_ctx *limited(const fv_limits *limits)
{
    fv_ctx_config cfg;
    fv_ctx *made = NULL;
    fv_ctx_config_init(&cfg, sizeof cfg);
    cfg.threads = 1;
    cfg.limits = *limits;
    CHECK_EQ(fv_ctx_create(&cfg, &made), FV_OK);
    return made;
}

static void limit_boundaries(void)
{
    fv_limits limits;
    fv_limits_init(&limits, sizeof limits);
    limits.json_depth = 4;
    limits.string_bytes = 5;
    limits.text_bytes = 40;
    fv_ctx *c = limited(&limits);
    static const struct {
        const char *text;
        fv_status status;
    } cases[] = {
        /* The root table is the first level. */
        {"a = [[[1]]]", FV_OK},
        {"a = [[[[1]]]]", FV_ERR_LIMIT},
        {"a = {b = {c = {}}}", FV_OK},
        {"a = {b = {c = {d = {}}}}", FV_ERR_LIMIT},
        {"a.b.c.d = 1", FV_OK},
        {"a.b.c.d.e = 1", FV_ERR_LIMIT},
        {"[a.b.c]", FV_OK},
        {"[a.b.c.d]", FV_ERR_LIMIT},
        {"a = '12345'", FV_OK},
        {"a = '123456'", FV_ERR_LIMIT},
        {"a = \"12345\"", FV_OK},
        {"a = \"123456\"", FV_ERR_LIMIT},
        {"a = '''12345'''", FV_OK},
        {"a = '''123456'''", FV_ERR_LIMIT},
        {"abcde = 1", FV_OK},
        {"abcdef = 1", FV_ERR_LIMIT},
        {"# 4567890123456789012345678901234567890", FV_OK},
        {"# 45678901234567890123456789012345678901", FV_OK},
        {"# 456789012345678901234567890123456789012", FV_ERR_LIMIT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fv_doc *doc = NULL;
        fv_status got = fv_toml_parse(c, "t", cases[i].text, strlen(cases[i].text), &doc);
        if (got != cases[i].status)
            test_failed(__FILE__, __LINE__, "%s: %s %s", cases[i].text, fv_status_name(got),
                        fv_ctx_message(c));
        fv_doc_free(&doc);
    }
    fv_ctx_destroy(&c);
}

/* A hundred thousand keys in one table and in as many tables: no quadratic search. */
static void many_keys(void)
{
    enum { KEYS = 100000 };
    char *text = malloc(KEYS * 32);
    size_t used = 0;
    for (int i = 0; i < KEYS; i++)
        used += (size_t)sprintf(text + used, "k%d = %d\n", i, i);
    fv_doc *doc = NULL;
    CHECK_OK(ctx, fv_toml_parse(ctx, "t", text, used, &doc));
    CHECK(doc && doc->root.count == KEYS);
    CHECK(doc && fv_value_get(&doc->root, "k77777")->as.integer == 77777);
    fv_doc_free(&doc);
    used = 0;
    for (int i = 0; i < KEYS; i++)
        used += (size_t)sprintf(text + used, "[t.k%d]\nx = %d\n", i, i);
    CHECK_OK(ctx, fv_toml_parse(ctx, "t", text, used, &doc));
    CHECK(doc && fv_value_get(&doc->root, "t")->count == KEYS);
    fv_doc_free(&doc);
    free(text);
}

static void memory_caps(void)
{
    static const char text[] = "[a.b]\nx = [1, 2, [3, {y = 'a longer string'}]]\n[c]\nz.w = 1\n";
    int refused = 0, worked = 0;
    fv_memory_stats base, after;
    fv_ctx_memory_trim(ctx);
    fv_ctx_memory(ctx, &base);
    for (uint64_t cap = 64; cap < 16384; cap += 64) {
        ctx->mem.cap = base.used_bytes + cap;
        fv_doc *doc = NULL;
        fv_status s = parse(text, &doc);
        CHECK(s == FV_OK || s == FV_ERR_MEMORY);
        if (s == FV_OK)
            worked++;
        else
            refused++;
        fv_doc_free(&doc);
        fv_ctx_memory(ctx, &after);
        CHECK_EQ(after.used_bytes, base.used_bytes);
        fv_ctx_memory_trim(ctx);
    }
    ctx->mem.cap = 0;
    CHECK(refused > 5 && worked > 5);
}

static void loads_files(void)
{
    static const char text[] = "[train]\nrate = 3e-4\nname = 'x'\n";
    fv_doc *doc = NULL;
    double rate = 0;
    file_write(folder_path("r.toml"), text, sizeof text - 1);
    CHECK_OK(ctx, fv_toml_load(ctx, folder_path("r.toml"), &doc));
    if (doc) {
        const fv_value *train = fv_value_get(&doc->root, "train");
        CHECK_OK(ctx, fv_doc_get_real(doc, train, "rate", true, &rate));
        CHECK(rate == 3e-4);
        CHECK_EQ(fv_doc_get_real(doc, train, "name", true, &rate), FV_ERR_FORMAT);
        CHECK(strstr(fv_ctx_message(ctx), "r.toml:3:8: expected a number, found a string"));
    }
    fv_doc_free(&doc);
    CHECK_EQ(fv_toml_load(ctx, folder_path("none.toml"), &doc), FV_ERR_IO);
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    folder_make();
    RUN(accepts);
    RUN(refuses);
    RUN(unsupported);
    RUN(messages);
    RUN(limit_boundaries);
    RUN(many_keys);
    RUN(memory_caps);
    RUN(loads_files);
    folder_remove();
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
