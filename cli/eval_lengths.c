/* Metrics by source length: they show where a model with one fixed vector falls behind one with
 * attention. */
#include "eval.h"

#include <string.h>

int64_t eval_words(fv_string text)
{
    int64_t words = 0;
    bool inside = false;
    for (size_t i = 0; i < text.bytes; i++) {
        const bool blank = strchr(" \t\r\n", text.text[i]) && text.text[i];
        words += !blank && !inside;
        inside = !blank;
    }
    return words;
}

/* ---- spans ----------------------------------------------------------------------- */

static void take_text(eval_bucket *b, int64_t words)
{
    b->words = (b->words * (double)b->texts + (double)words) / (double)(b->texts + 1);
    b->texts++;
}

static void merge_spans(eval_lengths *l, int low, int high)
{
    eval_bucket *a = &l->bucket[low];
    const eval_bucket *b = &l->bucket[high];
    const int64_t texts = a->texts + b->texts;
    if (texts > 0)
        a->words = (a->words * (double)a->texts + b->words * (double)b->texts) / (double)texts;
    a->texts = texts;
    a->span.high = b->span.high;
    memmove(&l->bucket[high], &l->bucket[high + 1], (size_t)(l->count - high - 1) * sizeof *a);
    l->count--;
}

/* Lengths beyond the last span belong to it. A source without words is in no span. */
static void part_texts(const fv_parallel *pairs, int64_t width, eval_lengths *l)
{
    memset(l, 0, sizeof *l);
    for (int64_t i = 0; i < fv_parallel_count(pairs); i++) {
        const int64_t words = eval_words(fv_parallel_source(pairs, i));
        if (words == 0) continue;
        int64_t at = (words - 1) / width;
        if (at >= EVAL_MAX_SPANS) at = EVAL_MAX_SPANS - 1;
        take_text(&l->bucket[at], words);
        if (at >= l->count) l->count = (int)at + 1;
        eval_span *last = &l->bucket[at].span;
        if (words > last->high) last->high = words;
    }
    for (int k = 0; k < l->count; k++) {
        eval_span *span = &l->bucket[k].span;
        span->low = k * width + 1;
        if (k < l->count - 1) span->high = (k + 1) * width;
    }
    for (int k = l->count - 1; k > 0; k--)
        if (l->bucket[k].texts < EVAL_MIN_TEXTS) merge_spans(l, k - 1, k);
    if (l->count > 1 && l->bucket[0].texts < EVAL_MIN_TEXTS) merge_spans(l, 0, 1);
}

static fv_status score_span(fv_ctx *ctx, const cli_call *call, const fv_parallel *pairs,
                            const fv_translations *all, int model, eval_bucket *b)
{
    fv_text_metric_result bleu, chrf;
    const bool lower = cli_flag(call, "lc");
    fv_status status = eval_score(ctx, FV_TEXT_METRIC_BLEU, lower, pairs, all, b->span, &bleu);
    if (status == FV_OK)
        status = eval_score(ctx, FV_TEXT_METRIC_CHRF, lower, pairs, all, b->span, &chrf);
    if (status != FV_OK) return status;
    b->score[EVAL_BLEU][model] = bleu.score;
    b->score[EVAL_CHRF][model] = chrf.score;
    b->score[EVAL_EXACT][model] =
        100.0 * (double)eval_exact(pairs, all, b->span) / (double)b->texts;
    return FV_OK;
}

fv_status eval_lengths_find(fv_ctx *ctx, const cli_call *call, const fv_parallel *pairs,
                            const eval_model *models, int model_count, int64_t width,
                            eval_lengths *out)
{
    fv_status status = FV_OK;
    part_texts(pairs, width, out);
    for (int k = 0; k < out->count; k++)
        for (int m = 0; status == FV_OK && m < model_count; m++)
            status = score_span(ctx, call, pairs, models[m].all, m, &out->bucket[k]);
    return status;
}

/* ---- what is shown --------------------------------------------------------------- */

/* Keys of JSON and of --metric; names for readers. */
static const char *const keys[EVAL_METRICS] = {"bleu", "chrf", "exact"};
static const char *const names[EVAL_METRICS] = {"BLEU", "chrF", "exactly right, %"};

eval_metric eval_metric_of(const char *name)
{
    int metric = EVAL_METRICS - 1;
    while (metric > 0 && strcmp(keys[metric], name) != 0)
        metric--;
    return (eval_metric)metric;
}

/* "runs/fixed/" -> "fixed". */
static void name_of(char out[64], const char *folder)
{
    size_t end = strlen(folder);
    while (end > 1 && folder[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && folder[begin - 1] != '/')
        begin--;
    cli_format(out, 64, "%.*s", (int)(end - begin), folder + begin);
}

void eval_lengths_print(const eval_lengths *lengths, eval_metric metric, const eval_model *models,
                        int model_count)
{
    enum { LEAST = 12, MOST = 32 }; /* columns of a model */
    char name[64], span[48];
    int wide[EVAL_MAX_MODELS];
    printf("\n%-9s %6s", "words", "texts");
    for (int m = 0; m < model_count; m++) {
        name_of(name, models[m].folder);
        const int length = (int)strlen(name);
        wide[m] = length < LEAST ? LEAST : length > MOST ? MOST : length;
        printf("  %*.*s", wide[m], wide[m], name);
    }
    printf("   %s\n", names[metric]);
    for (int k = 0; k < lengths->count; k++) {
        const eval_bucket *b = &lengths->bucket[k];
        cli_format(span, sizeof span, "%lld-%lld", (long long)b->span.low, (long long)b->span.high);
        printf("%-9s %6lld", span, (long long)b->texts);
        for (int m = 0; m < model_count; m++)
            printf("  %*.2f", wide[m], b->score[metric][m]);
        printf("\n");
    }
}

void eval_lengths_json(const eval_lengths *lengths, int model, cli_json *j)
{
    cli_json_open(j, "lengths", '[');
    for (int k = 0; k < lengths->count; k++) {
        const eval_bucket *b = &lengths->bucket[k];
        cli_json_open(j, NULL, '{');
        cli_json_int(j, "from", b->span.low);
        cli_json_int(j, "to", b->span.high);
        cli_json_int(j, "texts", b->texts);
        cli_json_real(j, "words", b->words);
        for (int i = 0; i < EVAL_METRICS; i++)
            cli_json_real(j, keys[i], b->score[i][model]);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

fv_status eval_lengths_draw(fv_ctx *ctx, const eval_lengths *lengths, eval_metric metric,
                            const eval_model *models, int model_count, const char *path)
{
    char name[EVAL_MAX_MODELS][64];
    double x[EVAL_MAX_SPANS], y[EVAL_MAX_MODELS][EVAL_MAX_SPANS], highest = 1;
    fv_look_series series[EVAL_MAX_MODELS];
    for (int m = 0; m < model_count; m++) {
        name_of(name[m], models[m].folder);
        for (int k = 0; k < lengths->count; k++) {
            x[k] = lengths->bucket[k].words;
            y[m][k] = lengths->bucket[k].score[metric][m];
            if (y[m][k] > highest) highest = y[m][k];
        }
        series[m] = (fv_look_series){.name = name[m], .x = x, .y = y[m], .count = lengths->count};
    }
    char title[64];
    cli_format(title, sizeof title, "%s by the length of the source",
               metric == EVAL_EXACT ? "Exactly right" : names[metric]);
    const fv_look_plot plot = {.title = title,
                               .x = {.title = "words of the source (mean of a span)"},
                               .y = {.title = names[metric], .low = 0, .high = 1.05 * highest},
                               .series = series,
                               .series_count = model_count};
    fv_look_format form;
    fv_picture *picture = NULL;
    fv_status status = fv_look_format_from_path(ctx, path, &form);
    if (status == FV_OK) status = fv_look_plot_draw(ctx, &plot, form, &picture);
    if (status == FV_OK) status = fv_picture_save(picture, path);
    fv_picture_free(&picture);
    return status;
}
