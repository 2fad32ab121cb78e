/*
 * text/regex.h: what patterns find, and which are refused. What Oniguruma finds in many texts is
 * part of data/text/tokenizer.jsonl.
 */
#include "text/regex.h"

#include "support/test.h"

static fv_ctx *ctx;

/* The matches of a pattern, with '|' after each. */
static const char *matches(const char *pattern, const char *text, size_t bytes)
{
    static char out[256];
    fv_arena arena;
    const fv_regex *re = NULL;
    fv_regex_run run = {.ctx = ctx};
    size_t used = 0;
    fv_arena_init(&arena, &ctx->mem);
    CHECK_OK(ctx, fv_regex_compile(ctx, &arena, pattern, strlen(pattern), &re));
    bool found = re != NULL;
    fv_regex_begin(&run, text, bytes);
    for (size_t from = 0, begin = 0, end = 0; found; from = end) {
        CHECK_OK(ctx, fv_regex_find(&run, re, from, &found, &begin, &end));
        if (found)
            used += (size_t)snprintf(out + used, sizeof out - used, "%.*s|", (int)(end - begin),
                                     text + begin);
    }
    out[used] = '\0';
    fv_regex_end(&run);
    fv_arena_free(&arena);
    return out;
}

static void finds(void)
{
    static const struct {
        const char *pattern, *text, *want;
    } cases[] = {
        {"a", "banana", "a|a|a|"},
        {"a|ab|abc", "abc", "a|"},
        {"(?:a|ab)c", "abc", "abc|"},
        {"(?>a|ab)c", "abc ac", "ac|"},
        {"a*", "baac", "|aa||"},
        {"a+?", "aaa", "a|a|a|"},
        {"a{2}", "aaaaa", "aa|aa|"},
        {"a{2,}", "aaaaa a", "aaaaa|"},
        {"a{,2}b", "aaab", "aab|"},
        {"a{1,2}?", "aaa", "a|a|a|"},
        {"a++a", "aaa", ""},
        {"a{x", "a{x", "a{x|"},
        {"[a-c]+", "xabcd", "abc|"},
        {"[^a-c]+", "xabcd", "x|d|"},
        {"[]a]+", "a]b", "a]|"},
        {"[a-c&&[^b]]+", "abcb", "a|c|"},
        {"[\\d\\-]+", "1-2a", "1-2|"},
        {"[a\\]b]+", "a]b", "a]b|"},
        {".+", "ab\ncd", "ab|cd|"},
        {"(?m).+", "ab\ncd", "ab\ncd|"},
        {"(?i)straSSe", "STRASSE", "STRASSE|"},
        {"(?i:a)b", "Ab AB", "Ab|"},
        {"x(?i:[a-c])", "xA xC xD", "xA|xC|"},
        {"a(?=b)", "abac", "a|"},
        {"a(?!b)", "abac", "a|"},
        {"(?<=a)b", "ab cb", "b|"},
        {"(?<!a)b", "ab cb", "b|"},
        {"(?<=\xC3\xA9)b",
         "\xC3\xA9"
         "b",
         "b|"},
        {"^a", "ab\naa", "a|a|"},
        {"b$", "ab\nb", "b|b|"},
        {"\\Aa|b\\z", "aab", "a|b|"},
        {"\\bx", "x ax x", "x|x|"},
        {"\\p{Lu}\\p{Ll}*", "abCdeF", "Cde|F|"},
        {"\\p{^L}+", "ab12c", "12|"},
        {"\\P{N}+", "ab12c", "ab|c|"},
        {"\\x41\\x{e9}\\u672C", "A\xC3\xA9\xE6\x9C\xAC", "A\xC3\xA9\xE6\x9C\xAC|"},
        {"(?<name>a)(b)", "ab", "ab|"},
        {"\\.\\*\\\\", ".*\\", ".*\\|"},
        {"\\h+", "xyzAF09g", "AF09|"},
        {"\\s+", " \t\xC2\xA0x", " \t\xC2\xA0|"},
        {"(a|b)*c", "ababc", "ababc|"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *have = matches(cases[i].pattern, cases[i].text, strlen(cases[i].text));
        if (strcmp(have, cases[i].want) != 0)
            test_failed(__FILE__, __LINE__, "%s finds \"%s\", not \"%s\"", cases[i].pattern, have,
                        cases[i].want);
    }
    CHECK_STR(matches("b.a", "a\0b\0a", 5), "b|"); /* printing stops at the NUL, not the match */
}

static void refuses(void)
{
    static const struct {
        const char *pattern;
        fv_status status;
        const char *message;
    } cases[] = {
        {"(a", FV_ERR_FORMAT, "missing ')'"},
        {"a)", FV_ERR_FORMAT, "missing '('"},
        {"[a", FV_ERR_FORMAT, "missing ']'"},
        {"[b-a]", FV_ERR_FORMAT, "range ends before"},
        {"*a", FV_ERR_FORMAT, "nothing to repeat"},
        {"a{3,2}", FV_ERR_FORMAT, "reversed"},
        {"a{2000}", FV_ERR_LIMIT, "1000"},
        {"(a{1000}){1000}", FV_ERR_LIMIT, "too"},
        {"((((){1000}){1000}){1000}){1000}", FV_ERR_LIMIT, "too many repeats"},
        {"a*****", FV_ERR_LIMIT, "too many repeats"},
        {"(a*)*", FV_ERR_UNSUPPORTED, "can be empty"},
        {"(?<=a+)b", FV_ERR_UNSUPPORTED, "variable length"},
        {"(a)\\1", FV_ERR_UNSUPPORTED, "escape"},
        {"\\p{Han}", FV_ERR_UNSUPPORTED, "property"},
        {"\\pL", FV_ERR_FORMAT, "expected '{'"},
        {"\\p{L", FV_ERR_FORMAT, "'}'"},
        {"(?x: a)", FV_ERR_UNSUPPORTED, "group"},
        {"[[:alpha:]]", FV_ERR_UNSUPPORTED, "[:name:]"},
        {"\\x{110000}", FV_ERR_FORMAT, "invalid code point"},
        {"\\uD800", FV_ERR_FORMAT, "invalid code point"},
        {"\\", FV_ERR_FORMAT, "unexpected end"},
        {"((((((((((((((((((((((((((((((((((a))))))))))))))))))))))))))))))))))", FV_ERR_LIMIT,
         "nested too deeply"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fv_arena arena;
        const fv_regex *re = NULL;
        fv_arena_init(&arena, &ctx->mem);
        fv_status s =
            fv_regex_compile(ctx, &arena, cases[i].pattern, strlen(cases[i].pattern), &re);
        if (s != cases[i].status || re || !strstr(fv_ctx_message(ctx), cases[i].message))
            test_failed(__FILE__, __LINE__, "%s: %s, \"%s\"", cases[i].pattern, fv_status_name(s),
                        fv_ctx_message(ctx));
        fv_arena_free(&arena);
    }
}

/* The matches of a pattern in N letters "a" and `end`, and how many steps they took. */
enum { N = 20000 };
static fv_status in_many_letters(const char *pattern, const char *end_text, int *count,
                                 int64_t *steps)
{
    char *text = malloc(N + 8);
    fv_arena arena;
    const fv_regex *re = NULL;
    fv_regex_run run = {.ctx = ctx};
    bool found = true;
    fv_status s = FV_OK;
    memset(text, 'a', N);
    const size_t n = strlen(end_text);
    memcpy(text + N, end_text, n);
    fv_arena_init(&arena, &ctx->mem);
    CHECK_OK(ctx, fv_regex_compile(ctx, &arena, pattern, strlen(pattern), &re));
    fv_regex_begin(&run, text, N + n);
    const int64_t before = run.budget->steps_left;
    *count = -1;
    for (size_t from = 0, begin = 0, end = 0; found && s == FV_OK; from = end, ++*count)
        s = fv_regex_find(&run, re, from, &found, &begin, &end);
    *steps = before - run.budget->steps_left;
    fv_regex_end(&run);
    fv_arena_free(&arena);
    free(text);
    return s;
}

/* Patterns with very many ways to fail: each is tried once at each position, whatever the start. */
static void takes_linear_time(void)
{
    static const struct {
        const char *pattern, *end;
        int matches;
    } cases[] = {{"a+", "", 1},
                 {"a*b", "", 0},
                 {"a*b", "b", 1},
                 {"a*b|c", "cc", 2},
                 {"(a|a)+b", "", 0},
                 {"(a|aa)+b", "", 0},
                 {"(?:a+)+b", "c", 0},
                 {".*.*.*b", "", 0},
                 {"(?:a?){20}a{20}b", "", 0},
                 {"(?:a|a(?=b))+b", "", 0},
                 {"a*?b", "", 0},
                 {"(?:a*b)?", "", N + 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int count = 0;
        int64_t steps = 0;
        const fv_status s = in_many_letters(cases[i].pattern, cases[i].end, &count, &steps);
        if (s != FV_OK || count != cases[i].matches || steps > 256 * N)
            test_failed(__FILE__, __LINE__, "%s: %s, %d matches, %lld steps", cases[i].pattern,
                        fv_status_name(s), count, (long long)steps);
    }
}

/* What cannot be remembered gives up, and soon. */
static void gives_up(void)
{
    static const char *const cases[] = {"(?>a*)b", "(?:a(?=a*$))*b", "a++b"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int count = 0;
        int64_t steps = 0;
        CHECK_EQ(in_many_letters(cases[i], "", &count, &steps), FV_ERR_LIMIT);
        CHECK(strstr(fv_ctx_message(ctx), "too many steps"));
        CHECK(steps < 300 * N);
    }
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    if (fv_ctx_create(NULL, &ctx) != FV_OK) return 1;
    RUN(finds);
    RUN(refuses);
    RUN(takes_linear_time);
    RUN(gives_up);
    fv_ctx_destroy(&ctx);
    return TEST_END();
}
