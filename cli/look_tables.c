/* The captured attention as tables. */
#include <stdlib.h>
#include <string.h>

#include "look_model.h"
#include "output.h"

enum { SHOWN_HEADS = 10, SHOWN_KEYS = 3 };

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
    for (int64_t h = 0; h < s->heads; h++) {
        fprintf(to, "%s%s, head %lld: the largest weights of each %s\n", h > 0 ? "\n" : "", s->name,
                (long long)(w->head < 0 ? h : w->head), w->pieces || !w->text ? "token" : "word");
        for (int64_t r = 0; r < s->rows; r++) {
            cli_safe_text(to, w->row_axis.labels[s->shown_rows.first + r]);
            for (int64_t k = 0; k < s->cols; k++) {
                const int64_t at = (h * s->rows + r) * s->cols + k;
                if (s->index[at] < 0) break;
                fprintf(to, "\t%.3f ", (double)s->values[at]);
                cli_safe_text(to, w->col_axis.labels[s->index[at]]);
            }
            fprintf(to, "\n");
        }
    }
    return FV_OK;
}

/* ---- one word -------------------------------------------------------------------------------- */

/* Of one head: the weight from the first word to the second, and how many other words get more. */
typedef struct finding {
    const look_site *site;
    int64_t head, before;
    float weight;
} finding;

static float sum_of(const float *row, look_range tokens)
{
    float sum = 0;
    for (int64_t j = 0; j < tokens.count; j++)
        sum += row[tokens.first + j];
    return sum;
}

static bool overlap(look_range a, look_range b)
{
    return a.first < b.first + b.count && b.first < a.first + a.count;
}

static int64_t heavier(const look_axis *cols, const float *row, look_range but, float weight)
{
    int64_t count = 0;
    for (int64_t j = 0; j < cols->count; j++)
        if (!overlap(cols->tokens[j], but) && sum_of(row, cols->tokens[j]) > weight) count++;
    return count;
}

/* The positions of the two words with the largest weight between them. */
static finding find_in_head(const look_work *w, const look_site *s, int64_t head)
{
    finding best = {.site = s, .head = head, .weight = -1};
    for (int64_t a = 0; a < s->rows; a++) {
        const float *row = s->values + (head * s->rows + a) * s->cols;
        for (int b = 0; b < w->to_count; b++) {
            const float sum = sum_of(row, w->to[b]);
            if (sum <= best.weight) continue;
            best.weight = sum;
            best.before = heavier(&w->col_axis, row, w->to[b], sum);
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

/* Prints up to `max_keys` words with the largest weights of a row. */
static void print_strongest(const look_work *w, const float *row, int64_t max_keys, FILE *to)
{
    const look_axis *cols = &w->col_axis;
    int64_t chosen[64];
    for (int64_t k = 0; k < max_keys && k < cols->count; k++) {
        int64_t best = -1;
        float most = 0;
        for (int64_t j = 0; j < cols->count; j++) {
            const float weight = sum_of(row, cols->tokens[j]);
            bool taken = false;
            for (int64_t i = 0; i < k; i++)
                taken |= chosen[i] == j;
            if (taken || (best >= 0 && weight <= most)) continue;
            best = j;
            most = weight;
        }
        chosen[k] = best;
        fprintf(to, "\t%.3f ", (double)most);
        cli_safe_text(to, cols->labels[best]);
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
            print_strongest(w, s->values + h * s->rows * s->cols, given ? given : SHOWN_KEYS, to);
        }
    }
    return FV_OK;
}
