/* The verbs that work on text: what they print, what they refuse, and their exit codes. */
#include "support/files.h"
#include "support/program.h"

/* ---- score ----------------------------------------------------------------------- */

static void scores(void)
{
    program_text("hyp", "The cat sat on the mat.\nHello, world!\n");
    program_text("ref", "The cat is on the mat.\nHello world!\n");
    program_text("ref2", "the cat sat on a mat.\nHello, World!\n");
    program_run("score -i %s %s", program_path("hyp"), program_path("ref"));
    expect(0, "BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:fovea-", "");
    expect(0, " = 40.15 81.8/55.6/28.6/20.0 (BP = 1.000 ratio = 1.100 hyp_len = 11 ", NULL);
    program_run("score -i %s %s %s --lc --metric all", program_path("hyp"), program_path("ref"),
                program_path("ref2"));
    expect(0, "BLEU|nrefs:2|case:lc|eff:no|tok:13a|smooth:exp|version:fovea-", "");
    expect(0, "\nchrF2|nrefs:2|case:lc|eff:yes|nc:6|nw:0|space:no|version:fovea-", NULL);
    expect(0, "\nchrF2++|nrefs:2|case:lc|eff:yes|nc:6|nw:2|space:no|version:fovea-", NULL);
    program_run("score -i %s %s --bootstrap 100 --json", program_path("hyp"), program_path("hyp"));
    expect(0, "\"confidence_mean\": 100", NULL);
    expect(0, "nrefs:1|bs:100|seed:12345|case:mixed|", NULL);
    program_run("score -i %s %s --sentences --width 1", program_path("hyp"), program_path("hyp"));
    expect(0, "1: BLEU|", NULL);
    expect(0, "\n2: BLEU|", NULL);
    expect(0, "|eff:yes|", NULL);
}

static void scores_that_cannot_be(void)
{
    program_text("two", "a\nb\n");
    program_text("three", "a\nb\nc\n");
    program_text("none", "");
    program_text("latin1", "good\nna\xefve\n");
    program_run("score -i %s %s", program_path("two"), program_path("three"));
    expect(3, NULL, "three has more lines than ");
    expect(3, NULL, "two, which ends after line 2");
    program_run("score -i %s %s", program_path("three"), program_path("two"));
    expect(3, NULL, "three has more lines than ");
    program_run("score -i %s %s", program_path("none"), program_path("none"));
    expect(3, NULL, "the file is empty, expected one segment per line");
    program_run("score -i %s %s", program_path("latin1"), program_path("two"));
    expect(3, NULL, "latin1:2: invalid UTF-8 at byte 3 of the line");
    program_run("score -i %s %s", program_path("absent"), program_path("two"));
    expect(3, NULL, "cannot open");
    program_run("score");
    expect(2, NULL, "REFERENCE is missing");
    program_run("score -");
    expect(2, NULL, "cannot be both");
    program_run("score --tok 13b %s", program_path("two"));
    expect(2, NULL, "did you mean '13a'?");
}

/* ---- tokenize -------------------------------------------------------------------- */

static void tokens(void)
{
    char model[300], text[300], json[300], ids[300];
    snprintf(model, sizeof model, "%s", program_path("t.json"));
    snprintf(text, sizeof text, "%s", program_path("text"));
    snprintf(json, sizeof json, "%s", program_path("lines.jsonl"));
    snprintf(ids, sizeof ids, "%s", program_path("ids"));
    program_text("text", "the cat\nthe \xC3\xA9t\xC3\xA9\n");
    program_run("tokenize --learn words --around -o %s %s", model, text);
    expect(0, NULL, "t.json: 7 tokens");
    program_run("tokenize %s %s", model, text);
    expect(0, "<s> the cat </s>\n<s> the \xC3\xA9t\xC3\xA9 </s>\n", NULL);
    program_run("tokenize %s %s --ids --no-specials", model, text);
    expect(0, "4 5\n4 6\n", NULL);
    program_text("lines.jsonl", "{\"text\": \"the \xC3\xA9t\xC3\xA9 cat\", \"pair\": \"dog\"}\n");
    program_run("tokenize %s --jsonl %s", model, json);
    expect(
        0,
        "{\"ids\": [1, 4, 6, 5, 2, 3, 2], \"offsets\": [[0, 0], [0, 3], [4, 7], [8, 11], [0, 0], "
        "[0, 3], [0, 0]], \"type_ids\": [0, 0, 0, 0, 0, 1, 1]}\n",
        NULL);
    program_text("ids", "1 4 6 2\n\n4\n");
    program_run("tokenize %s --decode --no-specials %s", model, ids);
    expect(0, "the \xC3\xA9t\xC3\xA9\n\nthe\n", NULL);
}

/* A SentencePiece model in place of a tokenizer.json, and the bench of either. */
static void sentence_pieces(void)
{
    char text[300];
    const char *model = test_path("data/text/sentencepiece/unigram_user.model");
    snprintf(text, sizeof text, "%s", program_path("lines.jsonl"));
    program_text("lines.jsonl", "{\"text\": \"ll<sep>  l\"}\n");
    program_run("tokenize %s --jsonl %s", model, text);
    expect(0, "{\"ids\": [9, 29, 4, 46], \"offsets\": [[0, 0], [0, 2], [2, 7], [7, 10]]", NULL);
    program_text("text", "all bells\nring\n");
    snprintf(text, sizeof text, "%s", program_path("text"));
    program_run("bench tokenizer --json --model %s --text %s", model, text);
    expect(0,
           "{\"bench\": \"tokenizer\", \"name\": \"whole\", \"megabytes\": 1.5e-05, \"tokens\": ",
           NULL);
    expect(0, "\"name\": \"lines\"", NULL);
    program_run("bench tokenizer");
    expect(2, NULL, "needs --model and --text");
}

static void tokens_that_cannot_be(void)
{
    char model[300];
    snprintf(model, sizeof model, "%s", program_path("t.json"));
    program_text("two", "a\nb\n");
    program_run("tokenize %s %s --decode", model, program_path("two"));
    expect(3, NULL, "two:1: expected ids separated by blanks");
    program_text("far", "99\n");
    program_run("tokenize %s %s --decode", model, program_path("far"));
    expect(0, NULL, "t.json: no token has id 99");
    program_text("far", "-1\n");
    program_run("tokenize %s %s --decode", model, program_path("far"));
    expect(3, NULL, "far:1: ");
    program_run("tokenize %s %s --jsonl", model, program_path("two"));
    expect(3, NULL, "expected a value");
    program_text("textless.jsonl", "{\"pair\": \"a\"}\n");
    program_run("tokenize %s %s --jsonl", model, program_path("textless.jsonl"));
    expect(3, NULL, "textless.jsonl:1: no \"text\"");
    program_run("tokenize %s", program_path("two"));
    expect(3, NULL, "two:1:1: expected a value");
    program_run("tokenize %s", program_path("absent"));
    expect(3, NULL, "cannot open");
    program_text("strange.json", "{\"model\": {\"type\": \"Bigram\"}}");
    program_run("tokenize %s", program_path("strange.json"));
    expect(4, NULL, "the model \"Bigram\" is not supported");
    program_text("unigram.json", "{\"model\": {\"type\": \"Unigram\"}}");
    program_run("tokenize %s", program_path("unigram.json"));
    expect(3, NULL, "\"vocab\" is missing");
    program_run("tokenize --learn words %s", program_path("two"));
    expect(2, NULL, "--learn needs --output");
    program_run("tokenize");
    expect(2, NULL, "MODEL is missing");
}

TEST_MAIN(argc, argv)
{
    TEST_BEGIN(argc, argv);
    program_needed();
    RUN(scores);
    RUN(scores_that_cannot_be);
    RUN(tokens);
    RUN(sentence_pieces);
    RUN(tokens_that_cannot_be);
    program_end();
    return TEST_END();
}
