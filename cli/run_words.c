/* fovea run MODEL WORD ...: the nearest words of a model of word vectors. */
#include <stdlib.h>
#include <string.h>

#include "fovea/words.h"
#include "input.h"
#include "output.h"
#include "run.h"

enum { DEFAULT_NEAR = 10, MOST_NEAR = 400, MOST_WORDS = 32 };

typedef struct words_run {
    const cli_call *call;
    fv_ctx *ctx;
    fv_model *model;
    int count; /* nearest words to print */
    fv_word_match near[MOST_NEAR];
} words_run;

/* "king woman" as numbers, at most MOST_WORDS. */
static int find_all(const words_run *r, const char *text, int64_t *ids, int *count)
{
    char word[256];
    while (*(text += strspn(text, " \t,"))) {
        const size_t bytes = strcspn(text, " \t,");
        if (bytes >= sizeof word || *count == MOST_WORDS) {
            cli_error("run: expected at most %d words of less than %zu bytes", MOST_WORDS,
                      sizeof word);
            return CLI_USAGE;
        }
        cli_format(word, sizeof word, "%.*s", (int)bytes, text);
        const fv_status status = fv_words_find(r->model, word, &ids[*count]);
        if (status != FV_OK) {
            const int code = cli_library_error("run", r->ctx, status);
            return status == FV_ERR_ARGUMENT ? CLI_USAGE : code;
        }
        ++*count;
        text += bytes;
    }
    return CLI_DONE;
}

static void print_json(const char *text, const fv_word_match *near, int found)
{
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "text", text);
    cli_json_open(&j, "nearest", '[');
    for (int i = 0; i < found; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "word", near[i].word);
        cli_json_real(&j, "cosine", near[i].cosine);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static int answer(words_run *r, const char *text, const fv_words_query *query)
{
    int found = 0;
    const fv_status status = fv_words_nearest(r->model, query, r->count, r->near, &found);
    if (status != FV_OK) return cli_library_error("run", r->ctx, status);
    if (cli_flag(r->call, "json")) {
        print_json(text, r->near, found);
        return CLI_DONE;
    }
    for (int i = 0; i < found; i++) {
        printf("%.4f ", r->near[i].cosine);
        cli_safe_text(stdout, r->near[i].word);
        printf("\n");
    }
    return CLI_DONE;
}

/* A cli_texts_fn: the nearest words of each text's sum of words. */
static int take_texts(void *user, int64_t count, const fv_string *texts)
{
    words_run *r = user;
    int code = CLI_DONE;
    for (int64_t i = 0; i < count && !code; i++) {
        int64_t plus[MOST_WORDS], minus[MOST_WORDS];
        fv_words_query query = {.plus = plus, .minus = minus};
        const char *less = cli_text(r->call, "minus");
        code = find_all(r, texts[i].text, plus, &query.plus_count);
        if (!code && less) code = find_all(r, less, minus, &query.minus_count);
        if (code || query.plus_count + query.minus_count == 0) continue;
        if (count > 1 && !cli_flag(r->call, "json")) {
            printf("%s", i > 0 ? "\n" : "");
            cli_safe_text(stdout, texts[i].text);
            printf("\n");
        }
        code = answer(r, texts[i].text, &query);
    }
    return code;
}

/* With --minus all words of the command line are one sum. */
static int run_sum(words_run *r)
{
    char text[4096] = "";
    for (int i = 1; i < r->call->word_count; i++) {
        const size_t used = strlen(text);
        cli_format(text + used, sizeof text - used, "%s%s", used ? " " : "", r->call->words[i]);
    }
    return take_texts(r, 1, &(fv_string){text, strlen(text)});
}

int cli_run_words(const cli_call *call, fv_ctx *ctx, fv_model **model)
{
    words_run r = {.call = call, .ctx = ctx, .model = *model, .count = DEFAULT_NEAR};
    if (cli_int(call, "tokens") > 0) r.count = (int)cli_int(call, "tokens");
    if (r.count > MOST_NEAR) {
        cli_error("run: -n %d: expected at most %d nearest words", r.count, MOST_NEAR);
        return CLI_USAGE;
    }
    if (cli_given(call, "minus") && call->word_count > 1) return run_sum(&r);
    return cli_for_each_batch(call, ctx, MOST_WORDS, take_texts, &r);
}
