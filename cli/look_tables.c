/* The captured attention as tables. */
#include <stdlib.h>
#include <string.h>

#include "look_model.h"
#include "output.h"

enum { SHOWN_HEADS = 10, SHOWN_KEYS = 3 };

/* A word, or its index if the tokens came without text. */
static void print_word(FILE *to, const look_words *words, int64_t i)
{
    if (i < words->count)
        cli_safe_text(to, words->labels[i]);
    else
        fprintf(to, "%lld", (long long)i);
}

fv_status look_print_entropy(const look_work *w, FILE *to)
{
    fprintf(to, "mean entropy of each head, in nats\n%-18s", "site");
    for (int64_t h = 0; h < w->sites[0].heads; h++)
        fprintf(to, " %6lld", (long long)h);
    fprintf(to, "\n");
    for (int i = 0; i < w->count; i++) {
        fprintf(to, "%-18s", w->sites[i].name);
        for (int64_t h = 0; h < w->sites[i].heads; h++)
            fprintf(to, " %6.3f", (double)w->sites[i].values[h]);
        fprintf(to, "\n");
    }
    return FV_OK;
}

fv_status look_print_top(const look_work *w, FILE *to)
{
    const look_site *s = &w->sites[0];
    const look_words *rows = look_rows(w), *cols = look_cols(w);
    const int64_t first = w->head < 0 ? 0 : w->head, last = w->head < 0 ? s->heads - 1 : w->head;
    const look_range shown = s->shown_rows;
    for (int64_t h = first; h <= last; h++) {
        fprintf(to, "%s%s, head %lld: the largest weights of each token\n", h > first ? "\n" : "",
                s->name, (long long)h);
        for (int64_t r = shown.first; r < shown.first + shown.count; r++) {
            print_word(to, rows, r);
            for (int64_t k = 0; k < s->cols; k++) {
                const int64_t at = (h * s->rows + r) * s->cols + k;
                if (s->index[at] < 0) break;
                fprintf(to, "\t%.3f ", (double)s->values[at]);
                print_word(to, cols, s->index[at]);
            }
            fprintf(to, "\n");
        }
    }
    return FV_OK;
}

/* ---- one word -------------------------------------------------------------------------------- */

/* Of one head: the weight from the first word to the second, and how many tokens get more. */
typedef struct finding {
    const look_site *site;
    int64_t head, before;
    float weight;
} finding;

static int64_t heavier(const float *row, int64_t cols, look_range but, float weight)
{
    int64_t count = 0;
    for (int64_t j = 0; j < cols; j++)
        if (row[j] > weight && (j < but.first || j >= but.first + but.count)) count++;
    return count;
}

/* The positions of the two words with the largest weight between them. */
static finding find_in_head(const look_work *w, const look_site *s, int64_t head)
{
    finding best = {.site = s, .head = head, .weight = -1};
    for (int64_t a = 0; a < s->rows; a++) {
        const float *row = s->values + (head * s->rows + a) * s->cols;
        for (int b = 0; b < w->to_count; b++) {
            float sum = 0;
            for (int64_t j = 0; j < w->to[b].count; j++)
                sum += row[w->to[b].first + j];
            if (sum <= best.weight) continue;
            best.weight = sum;
            best.before = heavier(row, s->cols, w->to[b], sum);
        }
    }
    return best;
}

static int by_weight(const void *a, const void *b)
{
    const float x = ((const finding *)a)->weight, y = ((const finding *)b)->weight;
    return (x < y) - (x > y);
}

static fv_status print_pair(const look_work *w, int64_t max_rows, FILE *to)
{
    const int64_t first = w->head < 0 ? 0 : w->head, heads = w->head < 0 ? w->sites[0].heads : 1,
                  count = heads * w->count;
    finding *all = malloc((size_t)(count + 1) * sizeof *all);
    if (!all) return FV_ERR_MEMORY;
    for (int64_t i = 0; i < count; i++)
        all[i] = find_in_head(w, &w->sites[i / heads], first + i % heads);
    qsort(all, (size_t)count, sizeof *all, by_weight);
    cli_safe_text(to, cli_text(w->call, "from"));
    fprintf(to, " looks at ");
    cli_safe_text(to, cli_text(w->call, "to"));
    fprintf(to, ", in each head of %lld\n%-7s %-6s %-18s %s\n", (long long)count, "weight", "place",
            "site", "head");
    for (int64_t i = 0; i < count && i < max_rows; i++)
        fprintf(to, "%-7.3f %-6lld %-18s %lld\n", (double)all[i].weight,
                (long long)all[i].before + 1, all[i].site->name, (long long)all[i].head);
    free(all);
    return FV_OK;
}

/* Prints up to `max_keys` keys with the largest weights of a row. */
static void print_strongest(const look_work *w, const float *row, int64_t cols, int64_t max_keys,
                            FILE *to)
{
    int64_t chosen[64];
    for (int64_t k = 0; k < max_keys && k < cols; k++) {
        int64_t best = -1;
        for (int64_t j = 0; j < cols; j++) {
            bool taken = false;
            for (int64_t i = 0; i < k; i++)
                taken |= chosen[i] == j;
            if (!taken && (best < 0 || row[j] > row[best])) best = j;
        }
        chosen[k] = best;
        fprintf(to, "\t%.3f ", (double)row[best]);
        print_word(to, look_cols(w), best);
    }
    fprintf(to, "\n");
}

fv_status look_print_word(const look_work *w, FILE *to)
{
    const int64_t given = cli_given(w->call, "top") ? cli_int(w->call, "top") : 0;
    if (w->to_count) return print_pair(w, given ? given : SHOWN_HEADS, to);
    cli_safe_text(to, cli_text(w->call, "from"));
    fprintf(to, ": its largest weights in every head\n");
    for (int i = 0; i < w->count; i++) {
        const look_site *s = &w->sites[i];
        for (int64_t h = w->head < 0 ? 0 : w->head; h < (w->head < 0 ? s->heads : w->head + 1);
             h++) {
            fprintf(to, "%s, head %lld", s->name, (long long)h);
            print_strongest(w, s->values + h * s->rows * s->cols, s->cols,
                            given ? given : SHOWN_KEYS, to);
        }
    }
    return FV_OK;
}
