/* fovea run with an encoder that classifies words, or finds the answers to questions. */
#include <stdlib.h>
#include <string.h>

#include "look_model.h"
#include "output.h"
#include "run.h"

enum { MAX_SHOWN = 100 };

/* ---- classes of words ---------------------------------------------------------------- */

static bool words_of(const char *text, int64_t count, const fv_classification *rows,
                     look_words *words)
{
    if (!look_words_room(words, count, text)) return false;
    for (int64_t i = 0; i < count; i++) {
        const size_t bytes = rows[i].end - rows[i].begin;
        words->spans[i] = (look_range){(int64_t)rows[i].begin, (int64_t)bytes};
        words->labels[i] = strndup(text + rows[i].begin, bytes);
        if (!words->labels[i]) return false;
    }
    return true;
}

/*
 * A word and the class of its first token, which is how such models are trained. A token that is
 * only the blank before a word, as byte-level BPE may have it, is its first token but none of its
 * text.
 */
typedef struct word {
    const char *text;
    size_t begin, end;
    const fv_classification *first;
} word;

/* The next word from entry *at of the axis on; false: there is none. */
static bool next_word(const look_axis *axis, const fv_classification *rows, int64_t *at, word *out)
{
    *out = (word){.first = *at < axis->count ? &rows[axis->tokens[*at].first] : NULL};
    for (; *at < axis->count; (*at)++) {
        const look_range tokens = axis->tokens[*at];
        const fv_classification *row = &rows[tokens.first];
        if (row->end == row->begin) continue;
        out->text = axis->labels[(*at)++];
        out->begin = row->begin;
        out->end = row[tokens.count - 1].end;
        return true;
    }
    return false;
}

static void print_words(const look_axis *axis, const fv_classification *rows)
{
    word w;
    for (int64_t at = 0; next_word(axis, rows, &at, &w);) {
        const fv_classification *c = w.first;
        if (c->label)
            cli_safe_text(stdout, c->label);
        else
            printf("%lld", (long long)c->best);
        printf("\t%.4f\t%s\n", (double)c->p[c->best], w.text);
    }
}

static void print_json(const char *text, const look_axis *axis, const fv_classification *rows)
{
    word w;
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "text", text);
    cli_json_open(&j, "words", '[');
    for (int64_t at = 0; next_word(axis, rows, &at, &w);) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "word", w.text);
        cli_json_size(&j, "begin", w.begin);
        cli_json_size(&j, "end", w.end);
        cli_json_int(&j, "class", w.first->best);
        if (w.first->label) cli_json_text(&j, "label", w.first->label);
        cli_json_real(&j, "p", (double)w.first->p[w.first->best]);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

fv_status cli_print_words(const cli_call *call, fv_ctx *ctx, const char *text, int64_t count,
                          const fv_classification *rows)
{
    look_words words = {0};
    look_axis axis = {0};
    const bool made =
        words_of(text, count, rows, &words) && look_axis_make(&words, count, false, false, &axis);
    if (made && cli_flag(call, "json"))
        print_json(text, &axis, rows);
    else if (made)
        print_words(&axis, rows);
    look_axis_free(&axis);
    look_words_free(&words);
    return made ? FV_OK : fv_ctx_fail(ctx, FV_ERR_MEMORY, "out of memory");
}

/* ---- answers ------------------------------------------------------------------------- */

/* "question<tab>context" */
static fv_status split(fv_ctx *ctx, fv_string text, fv_question *out)
{
    const char *tab = memchr(text.text, '\t', text.bytes);
    if (!tab)
        return fv_ctx_fail(ctx, FV_ERR_FORMAT,
                           "no tab in \"%.40s\": a text is a question, a tab and the context that "
                           "has the answer",
                           text.text);
    out->question = (fv_string){text.text, (size_t)(tab - text.text)};
    out->context = (fv_string){tab + 1, text.bytes - out->question.bytes - 1};
    return FV_OK;
}

static void print_answer(const cli_call *call, const fv_question *q, const fv_answer *x,
                         double none)
{
    if (!cli_flag(call, "json")) {
        printf("%s\t%.4f\t%.*s\n", x->text, x->p, (int)q->question.bytes, q->question.text);
        return;
    }
    char *question = strndup(q->question.text, q->question.bytes);
    cli_json j = {.to = stdout};
    cli_json_open(&j, NULL, '{');
    cli_json_text(&j, "question", question);
    cli_json_text(&j, "answer", x->text);
    cli_json_size(&j, "begin", x->begin);
    cli_json_size(&j, "end", x->end);
    cli_json_real(&j, "p", x->p);
    cli_json_real(&j, "none", none);
    cli_json_close(&j, '}');
    free(question);
}

fv_status cli_print_answer(const cli_call *call, fv_ctx *ctx, fv_answerer *answerer, fv_string text)
{
    int64_t shown = cli_given(call, "top-k") ? cli_int(call, "top-k") : 1;
    if (shown < 1 || shown > MAX_SHOWN) shown = MAX_SHOWN;
    const fv_answers *found = NULL;
    fv_question q;
    fv_status status = split(ctx, text, &q);
    if (status == FV_OK) status = fv_answer_questions(answerer, 1, &q, shown, &found);
    for (int64_t i = 0; status == FV_OK && i < found->count; i++)
        print_answer(call, &q, &found->row[i], found->none[0]);
    return status;
}
