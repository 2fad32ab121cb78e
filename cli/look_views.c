/* The captured attention as arrays and as pictures. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/file.h"
#include "heatmap.h"
#include "look_model.h"
#include "output.h"

/* ---- labels ---------------------------------------------------------------------------------- */

/* Names of the rows or columns that are shown. If one covers several tokens, or tokens have no
 * text, it is the index of the first token. */
typedef struct labels {
    int64_t count;
    char **text;
} labels;

static void labels_free(labels *l)
{
    for (int64_t i = 0; l->text && i < l->count; i++)
        free(l->text[i]);
    free(l->text);
}

static char *label_of(const look_words *words, int64_t i, bool numbered)
{
    const char *word = i < words->count ? words->labels[i] : "";
    const size_t bytes = strlen(word) + 24;
    char *text = malloc(bytes);
    if (!text) return NULL;
    if (numbered)
        cli_format(text, bytes, "%lld %s", (long long)i, word);
    else
        cli_format(text, bytes, "%s", word);
    return text;
}

static bool labels_make(const look_words *words, look_range shown, int64_t part, int64_t count,
                        labels *out)
{
    *out = (labels){.count = count, .text = calloc((size_t)count + 1, sizeof *out->text)};
    for (int64_t i = 0; out->text && i < count; i++) {
        out->text[i] = label_of(words, shown.first + i * part, part > 1 || words->count == 0);
        if (!out->text[i]) return false;
    }
    return out->text != NULL;
}

/* Both axes of a site. */
typedef struct axes {
    labels rows, cols;
} axes;

static fv_status axes_make(const look_work *w, const look_site *s, axes *out)
{
    *out = (axes){.rows = {0}};
    const bool made = labels_make(look_rows(w), s->shown_rows, s->row_part, s->rows, &out->rows) &&
                      labels_make(look_cols(w), s->shown_cols, s->col_part, s->cols, &out->cols);
    return made ? FV_OK : FV_ERR_MEMORY;
}

static void axes_free(axes *a)
{
    labels_free(&a->rows);
    labels_free(&a->cols);
}

static const char *const *names(const labels *l) { return (const char *const *)l->text; }

/* ---- numbers --------------------------------------------------------------------------------- */

static fv_status save(look_work *w, const char *const *list, fv_tensor *const *tensors, int count)
{
    return fv_npz_save(w->ctx, list, tensors, (size_t)count, cli_text(w->call, "output"));
}

static const char **site_names(const look_work *w)
{
    const char **list = calloc((size_t)w->count + 1, sizeof *list);
    for (int i = 0; list && i < w->count; i++)
        list[i] = w->sites[i].name;
    return list;
}

static fv_status save_arrays(look_work *w)
{
    const char **list = site_names(w);
    fv_tensor **tensors = calloc((size_t)w->count + 1, sizeof *tensors);
    for (int i = 0; tensors && i < w->count; i++)
        tensors[i] = w->sites[i].tensor;
    const fv_status status = list && tensors ? save(w, list, tensors, w->count) : FV_ERR_MEMORY;
    free(list);
    free(tensors);
    return status;
}

/* [tokens, tokens], whatever part the pictures show. */
static fv_status save_rollout(look_work *w)
{
    const int64_t n = w->sites[0].rows;
    fv_tensor *map = fv_from_host(w->ctx, FV_F32, 2, (int64_t[]){n, n}, w->rolled);
    return save(w, (const char *[]){"rollout"}, &map, 1);
}

/* [heads, tokens, k]: the largest weights and the indices of their keys. */
static fv_status save_top(look_work *w)
{
    const look_site *s = &w->sites[0];
    const int64_t shape[] = {s->heads, s->rows, s->cols};
    fv_tensor *const tensors[] = {fv_from_host(w->ctx, FV_F32, 3, shape, s->values),
                                  fv_from_host(w->ctx, FV_I64, 3, shape, s->index)};
    return save(w, (const char *[]){"weights", "keys"}, tensors, 2);
}

/* The values of all sites in one array; free() it. */
static float *joined(const look_work *w, int64_t each)
{
    float *all = malloc((size_t)(each * w->count + 1) * sizeof *all);
    for (int i = 0; all && i < w->count; i++)
        memcpy(all + i * each, w->sites[i].values, (size_t)each * sizeof *all);
    return all;
}

static fv_status save_entropy(look_work *w)
{
    const int64_t heads = w->sites[0].heads;
    float *all = joined(w, heads);
    if (!all) return FV_ERR_MEMORY;
    fv_tensor *map = fv_from_host(w->ctx, FV_F32, 2, (int64_t[]){w->count, heads}, all);
    free(all);
    return save(w, (const char *[]){"entropy"}, &map, 1);
}

/* ---- pictures ------------------------------------------------------------------------------- */

static fv_status save_picture(fv_status status, fv_picture *picture, const char *path)
{
    if (status == FV_OK) status = fv_picture_save(picture, path);
    fv_picture_free(&picture);
    return status;
}

/* A map on the terminal, or in a file. */
static fv_status draw_map(const look_work *w, const fv_look_map *map, const fv_look_options *how)
{
    const char *path = cli_text(w->call, "output");
    if (!path) return cli_heatmap_print(w->ctx, stdout, map, how);
    fv_look_format form;
    fv_picture *picture = NULL;
    fv_status status = fv_look_format_from_path(w->ctx, path, &form);
    if (status == FV_OK) status = fv_look_map_draw(w->ctx, map, form, how, &picture);
    return save_picture(status, picture, path);
}

/* The title of one map or one set of lines. */
static void title_of(const look_work *w, char title[128])
{
    const look_site *s = &w->sites[0];
    char part[48] = "";
    if (s->row_part > 1 || s->col_part > 1)
        cli_format(part, sizeof part, ", maxima of %lld x %lld", (long long)s->row_part,
                   (long long)s->col_part);
    if (w->mode == LOOK_ROLLOUT)
        cli_format(title, 128, "rollout over %lld layers%s", (long long)w->layers, part);
    else if (w->head >= 0)
        cli_format(title, 128, "%s, head %lld%s", s->name, (long long)w->head, part);
    else if (w->mode == LOOK_LINKS)
        cli_format(title, 128, "%s", s->name);
    else
        cli_format(title, 128, "%s, mean of %lld heads%s", s->name,
                   (long long)fv_transformer_settings(w->t)->heads, part);
}

static fv_status draw_one(const look_work *w)
{
    const look_site *s = &w->sites[0];
    char title[128];
    axes a;
    fv_status status = axes_make(w, s, &a);
    title_of(w, title);
    const fv_look_map map = {.rows = s->rows,
                             .cols = s->cols,
                             .values = s->values,
                             .row_labels = names(&a.rows),
                             .col_labels = names(&a.cols),
                             .title = title,
                             .row_title = "who looks",
                             .col_title = "at whom"};
    if (status == FV_OK) status = draw_map(w, &map, NULL);
    axes_free(&a);
    return status;
}

/* Lines of the word in --from; without it, of all rows. */
static void clear_other_rows(const look_work *w, look_site *s)
{
    for (int64_t r = 0; w->from_count && r < s->rows; r++) {
        bool selected = false;
        for (int i = 0; i < w->from_count; i++) {
            const int64_t at = s->shown_rows.first + r - w->from[i].first;
            selected |= at >= 0 && at < w->from[i].count;
        }
        for (int64_t h = 0; !selected && h < s->heads; h++)
            memset(s->values + (h * s->rows + r) * s->cols, 0, (size_t)s->cols * sizeof(float));
    }
}

static fv_status draw_links(const look_work *w)
{
    look_site *s = &w->sites[0];
    const char *path = cli_text(w->call, "output");
    char title[128];
    axes a;
    fv_look_format form;
    fv_picture *picture = NULL;
    fv_status status = axes_make(w, s, &a);
    title_of(w, title);
    clear_other_rows(w, s);
    const fv_look_links links = {.heads = s->heads,
                                 .rows = s->rows,
                                 .cols = s->cols,
                                 .values = s->values,
                                 .row_labels = names(&a.rows),
                                 .col_labels = names(&a.cols),
                                 .title = title,
                                 .only_row = -1};
    if (status == FV_OK) status = fv_look_format_from_path(w->ctx, path, &form);
    if (status == FV_OK) status = fv_look_links_draw(w->ctx, &links, form, &picture);
    axes_free(&a);
    return save_picture(status, picture, path);
}

/* Layers x heads. */
static fv_status draw_heads(const look_work *w)
{
    const look_site *s = &w->sites[0];
    const char *path = cli_text(w->call, "output");
    const char **layers = site_names(w);
    float *all = joined(w, s->heads * s->rows * s->cols);
    axes a;
    fv_status status = axes_make(w, s, &a);
    if (!all || !layers) status = FV_ERR_MEMORY;
    const fv_look_heads heads = {.layers = w->count,
                                 .heads = s->heads,
                                 .rows = s->rows,
                                 .cols = s->cols,
                                 .values = all,
                                 .row_labels = names(&a.rows),
                                 .col_labels = names(&a.cols),
                                 .layer_names = layers,
                                 .title = w->call->word_count > 1 ? w->call->words[1] : NULL};
    fv_look_format form;
    fv_picture *picture = NULL;
    if (status == FV_OK) status = fv_look_format_from_path(w->ctx, path, &form);
    if (status == FV_OK) status = fv_look_heads_draw(w->ctx, &heads, form, NULL, &picture);
    axes_free(&a);
    free(layers);
    free(all);
    return save_picture(status, picture, path);
}

/* Layers x heads, one number each. */
static fv_status draw_entropy(const look_work *w)
{
    const look_words none = {.count = 0};
    const int64_t heads = w->sites[0].heads;
    const char **layers = site_names(w);
    float *all = joined(w, heads);
    labels numbers;
    const bool made = labels_make(&none, (look_range){0, heads}, 1, heads, &numbers);
    fv_look_options how;
    fv_look_options_init(&how, sizeof how);
    how.numbers = true;
    const fv_look_map map = {.rows = w->count,
                             .cols = heads,
                             .values = all,
                             .row_labels = layers,
                             .col_labels = names(&numbers),
                             .title = "mean entropy of each head, in nats",
                             .col_title = "head"};
    const fv_status status = all && layers && made ? draw_map(w, &map, &how) : FV_ERR_MEMORY;
    labels_free(&numbers);
    free(layers);
    free(all);
    return status;
}

/* ---- which one ------------------------------------------------------------------------------- */

static fv_status write_table(look_work *w, const char *path, const char *text, size_t bytes)
{
    FILE *to = fopen(path, "we");
    const bool whole = to && fwrite(text, 1, bytes, to) == bytes;
    if (to && fclose(to) == 0 && whole) return FV_OK;
    cli_error("look: %s: cannot write the file: %s", path, strerror(errno));
    w->reported = true;
    return FV_ERR_IO;
}

/* Prints a table to the terminal or writes it to a file. The file is opened only when the table is
 * complete, so that a failure leaves an older one as it is. */
static fv_status print(look_work *w, fv_status (*table)(const look_work *w, FILE *to))
{
    const char *path = cli_text(w->call, "output");
    char *text = NULL;
    size_t bytes = 0;
    if (!path) return table(w, stdout);
    FILE *memory = open_memstream(&text, &bytes);
    fv_status status = memory ? table(w, memory) : FV_ERR_MEMORY;
    if (memory && fclose(memory) != 0) status = FV_ERR_MEMORY;
    if (status == FV_OK) status = write_table(w, path, text, bytes);
    free(text);
    return status;
}

fv_status look_show(look_work *w)
{
    const char *path = cli_text(w->call, "output");
    const size_t n = path ? strlen(path) : 0;
    const bool text = !path || (n >= 4 && strcmp(path + n - 4, ".txt") == 0);
    switch (w->mode) {
    case LOOK_ARRAYS:
        return save_arrays(w);
    case LOOK_ENTROPY:
        return w->arrays ? save_entropy(w) : text ? print(w, look_print_entropy) : draw_entropy(w);
    case LOOK_TOP:
        return w->arrays ? save_top(w) : print(w, look_print_top);
    case LOOK_WORD:
        return print(w, look_print_word);
    case LOOK_HEADS:
        return draw_heads(w);
    case LOOK_LINKS:
        return draw_links(w);
    case LOOK_ROLLOUT: {
        if (w->arrays) return save_rollout(w);
        const fv_status status = look_take_rollout(w);
        if (status != FV_OK) return status;
        return cli_flag(w->call, "links") && !text ? draw_links(w) : draw_one(w);
    }
    default:
        return draw_one(w);
    }
}
