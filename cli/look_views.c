/* What was seen at the sites of attention: as a file of numbers, pictures, and text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/npy.h"
#include "fovea/ops.h"
#include "heatmap.h"
#include "look_model.h"
#include "output.h"

static const char *const *labels_of(const look_words *words)
{
    return words->count ? (const char *const *)words->labels : NULL;
}

/* ---- numbers --------------------------------------------------------------------------- */

static fv_status save_arrays(look_work *w, const char *path)
{
    const char **names = calloc((size_t)w->count + 1, sizeof *names);
    fv_tensor **tensors = calloc((size_t)w->count + 1, sizeof *tensors);
    fv_status status = FV_ERR_MEMORY;
    for (int i = 0; names && tensors && i < w->count; i++) {
        names[i] = w->sites[i].name;
        tensors[i] = w->sites[i].tensor;
    }
    if (names && tensors) status = fv_npz_save(w->ctx, path, names, tensors, (size_t)w->count);
    free(names);
    free(tensors);
    return status;
}

static fv_status print_entropy(const look_work *w)
{
    printf("mean entropy of each head, in nats\n%-18s", "site");
    for (int64_t h = 0; h < w->sites[0].heads; h++)
        printf(" %6lld", (long long)h);
    printf("\n");
    for (int i = 0; i < w->count; i++) {
        printf("%-18s", w->sites[i].name);
        for (int64_t h = 0; h < w->sites[i].heads; h++)
            printf(" %6.3f", (double)w->sites[i].values[h]);
        printf("\n");
    }
    return FV_OK;
}

/* A word, or its number where tokens came without words. */
static void print_word(const look_words *words, int64_t i)
{
    if (i < words->count)
        cli_safe_text(stdout, words->labels[i]);
    else
        printf("%lld", (long long)i);
}

static fv_status print_top(const look_work *w)
{
    const look_site *s = &w->sites[0];
    const look_words *rows = look_rows(w), *cols = look_cols(w);
    const int64_t head = w->head < 0 ? 0 : w->head;
    printf("%s, head %lld: who looks, and where most\n", s->name, (long long)head);
    for (int64_t r = 0; r < s->rows; r++) {
        print_word(rows, r);
        for (int64_t k = 0; k < s->cols; k++) {
            const int64_t at = (head * s->rows + r) * s->cols + k;
            if (s->index[at] < 0) break;
            printf("\t%.3f ", (double)s->values[at]);
            print_word(cols, s->index[at]);
        }
        printf("\n");
    }
    return FV_OK;
}

/* ---- pictures --------------------------------------------------------------------------- */

static fv_status save_picture(fv_status status, fv_picture *picture, const char *path)
{
    if (status == FV_OK) status = fv_picture_save(picture, path);
    fv_picture_free(&picture);
    return status;
}

/* A map on the terminal, or in a file. */
static fv_status draw_map(const look_work *w, const float *values, const char *title,
                          const char *path)
{
    const look_words *rows = look_rows(w), *cols = look_cols(w);
    const fv_look_map map = {.rows = w->sites[0].rows,
                             .cols = w->sites[0].cols,
                             .values = values,
                             .row_labels = labels_of(rows),
                             .col_labels = labels_of(cols),
                             .title = title,
                             .row_title = "who looks",
                             .col_title = "at whom"};
    if (!path) return cli_heatmap_print(w->ctx, stdout, &map, NULL);
    fv_look_form form;
    fv_picture *picture = NULL;
    fv_status status = fv_look_form_of(w->ctx, path, &form);
    if (status == FV_OK) status = fv_look_map_draw(w->ctx, &map, form, NULL, &picture);
    return save_picture(status, picture, path);
}

static fv_status draw_links(const look_work *w, const float *values, int64_t heads,
                            const char *title, const char *path)
{
    const fv_look_links links = {.heads = heads,
                                 .rows = w->sites[0].rows,
                                 .cols = w->sites[0].cols,
                                 .values = values,
                                 .row_labels = labels_of(look_rows(w)),
                                 .col_labels = labels_of(look_cols(w)),
                                 .title = title,
                                 .only_row = -1};
    fv_look_form form;
    fv_picture *picture = NULL;
    fv_status status = fv_look_form_of(w->ctx, path, &form);
    if (status == FV_OK) status = fv_look_links_draw(w->ctx, &links, form, &picture);
    return save_picture(status, picture, path);
}

/* Layers x heads; the sites follow each other, so one array holds them. */
static fv_status draw_grid(const look_work *w, const char *path)
{
    const look_site *first = &w->sites[0];
    const int64_t each = first->heads * first->rows * first->cols;
    float *all = malloc((size_t)each * (size_t)w->count * sizeof *all);
    const char **names = malloc((size_t)w->count * sizeof *names);
    fv_status status = FV_ERR_MEMORY;
    if (all && names) {
        for (int i = 0; i < w->count; i++) {
            memcpy(all + i * each, w->sites[i].values, (size_t)each * sizeof *all);
            names[i] = w->sites[i].name;
        }
        const bool whole = first->rows == look_rows(w)->count && first->cols == look_cols(w)->count;
        const fv_look_heads heads = {.layers = w->count,
                                     .heads = first->heads,
                                     .rows = first->rows,
                                     .cols = first->cols,
                                     .values = all,
                                     .row_labels = whole ? labels_of(look_rows(w)) : NULL,
                                     .col_labels = whole ? labels_of(look_cols(w)) : NULL,
                                     .layer_names = names};
        fv_look_form form;
        fv_picture *picture = NULL;
        status = fv_look_form_of(w->ctx, path, &form);
        if (status == FV_OK) status = fv_look_heads_draw(w->ctx, &heads, form, NULL, &picture);
        status = save_picture(status, picture, path);
    }
    free(names);
    free(all);
    return status;
}

/* ---- sums of maps ------------------------------------------------------------------------ */

/* The chosen head, or the mean of all: [rows][cols]; free() it. */
static float *one_map(const look_work *w)
{
    const look_site *s = &w->sites[0];
    const int64_t n = s->rows * s->cols;
    float *map = calloc((size_t)n + 1, sizeof *map);
    const int64_t from = w->head < 0 ? 0 : w->head, to = w->head < 0 ? s->heads : w->head + 1;
    for (int64_t h = from; map && h < to; h++)
        for (int64_t i = 0; i < n; i++)
            map[i] += s->values[h * n + i] / (float)(to - from);
    return map;
}

/* Abnar and Zuidema 2020: the product over the layers of (mean map + identity) / 2, so that paths
 * through residuals count too. free() it. */
static float *rolled_out(const look_work *w)
{
    const int64_t n = w->sites[0].rows;
    float *now = calloc((size_t)(n * n) + 1, sizeof *now),
          *next = malloc(sizeof *next * (size_t)(n * n + 1));
    for (int64_t i = 0; now && i < n; i++)
        now[i * n + i] = 1;
    for (int l = 0; now && next && l < w->count; l++) {
        const float *map = w->sites[l].values;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = now[i * n + j];
                for (int64_t k = 0; k < n; k++)
                    sum += (double)map[i * n + k] * (double)now[k * n + j];
                next[i * n + j] = (float)(sum / 2);
            }
        memcpy(now, next, (size_t)(n * n) * sizeof *now);
    }
    if (!next) {
        free(now);
        now = NULL;
    }
    free(next);
    return now;
}

static fv_status draw_one(const look_work *w, const char *path)
{
    const bool rollout = w->mode == LOOK_ROLLOUT;
    float *map = rollout ? rolled_out(w) : one_map(w);
    char title[96];
    if (!map) return FV_ERR_MEMORY;
    if (rollout)
        snprintf(title, sizeof title, "rollout over %d layers", w->count);
    else if (w->head < 0)
        snprintf(title, sizeof title, "%s, mean of %lld heads", w->sites[0].name,
                 (long long)w->sites[0].heads);
    else
        snprintf(title, sizeof title, "%s, head %lld", w->sites[0].name, (long long)w->head);
    const fv_status status = path && cli_flag(w->call, "links") ? draw_links(w, map, 1, title, path)
                                                                : draw_map(w, map, title, path);
    free(map);
    return status;
}

fv_status look_show(look_work *w)
{
    const char *path = cli_text(w->call, "output");
    switch (w->mode) {
    case LOOK_ARRAYS:
        return save_arrays(w, path);
    case LOOK_ENTROPY:
        return print_entropy(w);
    case LOOK_TOP:
        return print_top(w);
    case LOOK_GRID:
        return draw_grid(w, path);
    case LOOK_LAYER:
        return cli_flag(w->call, "links")
                   ? draw_links(w, w->sites[0].values, w->sites[0].heads, w->sites[0].name, path)
                   : draw_grid(w, path);
    default:
        return draw_one(w, path);
    }
}
