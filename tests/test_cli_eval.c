/* fovea eval: several models side by side, and scores by the length of the source. */
#include <stdlib.h>

#include "support/files.h"
#include "support/markup.h"
#include "support/program.h"

static const char recipe[] =
    "[data]\nmade = \"dates\"\ntrain_pairs = 60\nvalid_pairs = 5\n"
    "[tokens]\nkind = \"char\"\nmin_count = 1\n"
    "[model]\nhidden = 8\nencoder_hidden = 5\nembedding = 6\nattention_width = 6\nreadout_width = "
    "7\n[train]\nsteps = 2\nbatch_tokens = 200\neval_every = 0\n";

static void two_models(void)
{
    program_text("r.toml", recipe);
    program_run("train %s -o %s -t 1 -q", program_path("r.toml"), program_path("a"));
    expect(0, NULL, NULL);
    program_run("train %s -o %s -t 1 -q --model.decoder fixed", program_path("r.toml"),
                program_path("b"));
    expect(0, NULL, NULL);
}

/* Appends `count` lines of `words` words each to `text`. */
static void add_lines(char *text, int count, int words)
{
    char *end = text + strlen(text);
    for (int i = 0; i < count; i++)
        for (int w = 0; w < words; w++)
            end += sprintf(end, "%d%s", w + 1, w + 1 < words ? "  " : "\n");
}

/* 25 texts of one word, 30 of three, 5 of nine (too few for a span), an empty one,
 * which is left out. */
static void some_texts(void)
{
    char text[4096] = "";
    add_lines(text, 25, 1);
    add_lines(text, 30, 3);
    add_lines(text, 5, 9);
    strcat(text, "\n");
    program_text("x.txt", text);
    strcpy(text + strlen(text) - 1, "silence\n");
    program_text("y.txt", text);
}

static void lengths_are_split_at_the_option(void)
{
    program_run("eval %s %s %s %s -t 1 --beam 1 --by-length 2 -o %s", program_path("a"),
                program_path("b"), program_path("x.txt"), program_path("y.txt"),
                program_path("p.svg"));
    expect(0, "words      texts             a             b   BLEU\n", "");
    expect(0, "\n1-2           25 ", NULL);
    expect(0, "\n3-9           35 ", NULL);
    expect(0, "of 60 texts", NULL);
    size_t bytes = 0;
    char *svg = file_read(program_path("p.svg"), &bytes);
    CHECK(svg && bytes > 200);
    if (svg) {
        svg = realloc(svg, bytes + 1);
        svg[bytes] = '\0';
        const char *wrong = markup_wrong(svg);
        CHECK_STR(wrong ? wrong : "", "");
        CHECK_EQ(count_of(svg, "BLEU by the length of the source"), 1);
        CHECK_EQ(count_of(svg, ">a</text>"), 1);
        CHECK_EQ(count_of(svg, ">b</text>"), 1);
    }
    free(svg);
    program_run("eval %s %s %s -t 1 --beam 1 --by-length 100 --metric chrf", program_path("a"),
                program_path("x.txt"), program_path("y.txt"));
    expect(0, "a   chrF\n1-9           60 ", "");
    program_run("eval %s %s %s -t 1 --beam 1 --by-length 100 --metric exact", program_path("a"),
                program_path("x.txt"), program_path("y.txt"));
    expect(0, "a   exactly right, %\n1-9           60          0.00\n", "");
}

static void json_has_a_line_for_each_model(void)
{
    program_run("eval %s %s %s %s -t 1 --beam 1 --by-length 2 --json", program_path("a"),
                program_path("b"), program_path("x.txt"), program_path("y.txt"));
    expect(0, "\"lengths\": [{\"from\": 1, \"to\": 2, \"texts\": 25, \"words\": 1, \"bleu\": ", "");
    expect(0, "{\"from\": 3, \"to\": 9, \"texts\": 35, \"words\": 3.85714, \"bleu\": 0, \"chrf\": ",
           NULL);
    CHECK_EQ(count_of(program.out, "\n"), 2);
    CHECK_EQ(count_of(program.out, "\"bleu_signature\""), 2);
}

/* Published figures are cased or not: both are reported, or why one is meaningless. */
static void both_cases_are_reported(void)
{
    program_run("eval %s %s %s -t 1 --beam 1", program_path("a"), program_path("x.txt"),
                program_path("y.txt"));
    expect(0, "case:mixed|eff:no|tok:13a", "1 texts with an empty source are left out");
    expect(0, "the references have no capitals", NULL);
    CHECK(!strstr(program.out, "nrefs:1|case:lc|eff:no"));
    program_text("two.x", "3.5.79\n1.1.80\n");
    program_text("two.y", "On May 3rd\nOn New Year\n");
    program_run("eval %s %s %s -t 1 --beam 1", program_path("a"), program_path("two.x"),
                program_path("two.y"));
    const char *mixed = strstr(program.out, "nrefs:1|case:mixed|eff:no");
    const char *lower = strstr(program.out, "nrefs:1|case:lc|eff:no");
    CHECK(mixed && lower && mixed < lower);
    expect(0, "the model writes no capitals", NULL);
    program_run("eval %s %s %s -t 1 --beam 1 --lc --json", program_path("a"), program_path("two.x"),
                program_path("two.y"));
    expect(0, "\"bleu_cased_signature\": \"nrefs:1|case:mixed|eff:no", NULL);
    expect(0, "\"bleu_signature\": \"nrefs:1|case:lc|eff:no", NULL);
    expect(0, "\"capitals_in_references\": true, \"capitals_in_translations\": false", NULL);
}

/* References of one token each: a model equals them where its translations end after one token,
 * by the option and, for a run's own data, by the recipe's key. */
static void translations_end_at_the_most_tokens(void)
{
    char text[2048];
    program_text("cut.x", "3.5.79\n1.1.80\n");
    program_text("cut.y", "79-05-03\n80-01-01\n");
    snprintf(text, sizeof text,
             "[data]\ntrain_source = \"cut.x\"\ntrain_target = \"cut.y\"\n"
             "valid_source = \"cut.x\"\nvalid_target = \"cut.y\"\n"
             "[eval]\nmetric = \"exact\"\nmax_tokens = 1\n%s",
             strstr(recipe, "[tokens]"));
    program_text("cut.toml", text);
    program_run("train %s -o %s -t 1 -q", program_path("cut.toml"), program_path("cut"));
    expect(0, NULL, NULL);
    program_run("run %s -f %s -n 1 --beam 1", program_path("cut"), program_path("cut.x"));
    expect(0, NULL, NULL);
    CHECK(strlen(program.out) == 4); /* a letter and an end of line, twice */
    program_text("cut.y", program.out);
    program_run("eval %s %s %s -t 1 --beam 1 --tokens 1", program_path("cut"),
                program_path("cut.x"), program_path("cut.y"));
    expect(0, "2 of 2 texts", NULL);
    program_run("eval %s %s %s -t 1 --beam 1", program_path("cut"), program_path("cut.x"),
                program_path("cut.y"));
    expect(0, "0 of 2 texts", NULL);
    program_run("eval %s -t 1", program_path("cut"));
    expect(0, "exact      100", NULL);
}

static void mistakes_are_reported(void)
{
    program_run("eval %s %s %s -o %s", program_path("a"), program_path("x.txt"),
                program_path("y.txt"), program_path("p.svg"));
    expect(2, NULL, "it needs --by-length");
    program_run("eval %s %s %s -t 1 --beam 1 --by-length 2 -o %s", program_path("a"),
                program_path("x.txt"), program_path("y.txt"), program_path("p.gif"));
    expect(2, "", "-o ");
    expect(2, "", "p.gif: expected a name that ends with .svg, .png or .html");
    program_run("eval %s %s %s -t 1 --beam 1 --by-length 2 -o %s", program_path("a"),
                program_path("x.txt"), program_path("y.txt"), program_path("p.txt"));
    expect(2, "", "p.txt: expected a name that ends with .svg, .png or .html");
    program_run("eval %s %s", program_path("a"), program_path("x.txt"));
    expect(2, NULL, "SOURCES REFERENCES");
    program_run("eval %s %s %s %s -t 1 --beam 1", program_path("a"), program_path("none"),
                program_path("x.txt"), program_path("y.txt"));
    expect(3, NULL, "none");
    program_run("eval %s %s %s -t 1", test_path("fixtures/gpt2"), program_path("x.txt"),
                program_path("y.txt"));
    expect(3, NULL, "a gpt2 model does not translate");
    program_run("eval %s %s %s -t 1", test_path("fixtures/bert"), program_path("x.txt"),
                program_path("y.txt"));
    expect(3, NULL, "a bert model does not translate");
    program_text("e.txt", "");
    program_run("eval %s %s %s -t 1", program_path("a"), program_path("e.txt"),
                program_path("e.txt"));
    expect(3, NULL, "the file is empty");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    two_models();
    some_texts();
    RUN(lengths_are_split_at_the_option);
    RUN(json_has_a_line_for_each_model);
    RUN(both_cases_are_reported);
    RUN(translations_end_at_the_most_tokens);
    RUN(mistakes_are_reported);
    program_end();
    return TEST_END();
}
