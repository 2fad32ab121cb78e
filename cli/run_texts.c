/* Texts for 'fovea run' and 'fovea look'. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "output.h"
#include "run.h"

enum { MOST = 512 }; /* enough for full batches, few enough that answers to a pipe come soon */

typedef struct waiting {
    fv_string line[MOST];
    int64_t count;
} waiting;

static int flush(waiting *lines, cli_texts_fn *each, void *user)
{
    const int code = lines->count ? each(user, lines->count, lines->line) : CLI_DONE;
    for (int64_t i = 0; i < lines->count; i++)
        free((void *)(uintptr_t)lines->line[i].text);
    lines->count = 0;
    fflush(stdout);
    return code;
}

static int take_line(const char *verb, waiting *lines, const fv_line *line)
{
    char *copy = malloc(line->bytes + 1);
    if (!copy) {
        cli_error("%s: out of memory", verb);
        return CLI_FAILED;
    }
    memcpy(copy, line->text, line->bytes + 1);
    lines->line[lines->count++] = (fv_string){copy, line->bytes};
    return CLI_DONE;
}

static int run_lines(const cli_call *call, fv_ctx *ctx, int64_t together, cli_texts_fn *each,
                     void *user)
{
    static waiting lines;
    cli_input in;
    int code =
        cli_input_open(ctx, call->verb->name, cli_text(call, "file"), FV_LINES_POLICY_REJECT, &in);
    while (!code) {
        fv_line line;
        code = cli_input_next(&in, &line);
        if (code || !line.text) break;
        code = take_line(call->verb->name, &lines, &line);
        if (!code && (lines.count >= together || cli_input_waits(&in)))
            code = flush(&lines, each, user);
    }
    const int rest = code ? CLI_DONE : flush(&lines, each, user);
    cli_input_close(&in);
    return code ? code : rest;
}

int cli_for_each_batch(const cli_call *call, fv_ctx *ctx, int64_t together, cli_texts_fn *each,
                       void *user)
{
    const char *prompt = cli_text(call, "prompt");
    if (together > MOST) together = MOST;
    if (prompt) return each(user, 1, &(fv_string){prompt, strlen(prompt)});
    if (call->word_count == 1) return run_lines(call, ctx, together, each, user);
    int code = CLI_DONE;
    for (int first = 1; first < call->word_count && !code; first += (int)together) {
        fv_string texts[CLI_MAX_WORDS];
        int64_t count = 0;
        for (; count < together && first + count < call->word_count; count++) {
            const char *word = call->words[first + count];
            texts[count] = (fv_string){word, strlen(word)};
        }
        code = each(user, count, texts);
    }
    return code;
}

/* The words of a call two by two, with a tab between them; free() each. */
static int join_words(const cli_call *call, char *pair[CLI_MAX_WORDS], int *count)
{
    const int words = call->word_count - 1;
    if (words % 2) {
        cli_error("%s: %d texts, expected pairs: the model reads two texts at a time",
                  call->verb->name, words);
        return CLI_USAGE;
    }
    for (; *count < words / 2; ++*count) {
        const char *first = call->words[1 + 2 * *count], *second = call->words[2 + 2 * *count];
        const size_t bytes = strlen(first) + strlen(second) + 2;
        pair[*count] = malloc(bytes);
        if (!pair[*count]) {
            cli_error("%s: out of memory", call->verb->name);
            return CLI_FAILED;
        }
        cli_format(pair[*count], bytes, "%s\t%s", first, second);
    }
    return CLI_DONE;
}

int cli_for_each_pair(const cli_call *call, fv_ctx *ctx, int64_t together, cli_texts_fn *each,
                      void *user)
{
    char *pair[CLI_MAX_WORDS];
    int count = 0;
    bool joined = call->word_count == 1 || cli_text(call, "prompt");
    for (int i = 1; i < call->word_count && !joined; i++)
        joined = strchr(call->words[i], '\t') != NULL;
    if (joined) return cli_for_each_batch(call, ctx, together, each, user);
    int code = join_words(call, pair, &count);
    for (int i = 0; i < count; i++) {
        if (!code) code = each(user, 1, &(fv_string){pair[i], strlen(pair[i])});
        free(pair[i]);
    }
    return code;
}

fv_status cli_split_pair(fv_ctx *ctx, fv_string text, fv_text_pair *out)
{
    const char *tab = memchr(text.text, '\t', text.bytes);
    if (!tab)
        return fv_ctx_fail(ctx, FV_ERR_FORMAT,
                           "no tab in \"%.40s\": a pair is a text, a tab and the second text",
                           text.text);
    out->first = (fv_string){text.text, (size_t)(tab - text.text)};
    out->second = (fv_string){tab + 1, text.bytes - out->first.bytes - 1};
    return FV_OK;
}

bool cli_read_number(const cli_call *call, const char *what, const char *text, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    *out = (int64_t)number;
    if (errno == 0 && end != text && end[strspn(end, " \t\r")] == '\0' && number >= 0) return true;
    cli_error("%s: '%.60s' is not %s: expected a number, 0 or more", call->verb->name, text, what);
    return false;
}
