/* The captured attention as arrays and as pictures. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fovea/file.h"
#include "look_model.h"
#include "output.h"

/* ---- labels ---------------------------------------------------------------------------------- */

/* Names of the rows or columns that are shown. One that covers several words has the index of the
 * first. */
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

static char *label_of(const char *word, int64_t i, bool numbered)
{
    const size_t bytes = strlen(word) + 24;
    char *text = malloc(bytes);
    if (!text) return NULL;
    if (numbered)
        cli_format(text, bytes, "%lld %s", (long long)i, word);
    else
        cli_format(text, bytes, "%s", word);
    return text;
}

static bool labels_make(const look_work *w, const look_axis *axis, look_range shown, int64_t part,
                        int64_t count, labels *out)
{
    *out = (labels){.count = count, .text = calloc((size_t)count + 1, sizeof *out->text)};
    for (int64_t i = 0; out->text && i < count; i++) {
        const int64_t at = shown.first + i * part;
        out->text[i] = label_of(axis->labels[at], at, part > 1 && w->text);
        if (!out->text[i]) return false;
    }
    return out->text != NULL;
}

/* The labels 0, 1, ... */
static bool labels_number(int64_t count, labels *out)
{
    *out = (labels){.count = count, .text = calloc((size_t)count + 1, sizeof *out->text)};
    for (int64_t i = 0; out->text && i < count; i++) {
        out->text[i] = label_of("", i, true);
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
    const bool made =
        labels_make(w, &w->row_axis, s->shown_rows, s->row_part, s->rows, &out->rows) &&
        labels_make(w, &w->col_axis, s->shown_cols, s->col_part, s->cols, &out->cols);
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
    return fv_npz_save(w->ctx, list, tensors, (size_t)count, w->path);
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
        cli_format(title, 128, "%s, mean of %lld heads%s", s->name, (long long)w->heads, part);
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
                             .title = look_title(w->call, title),
                             .row_title = "who looks",
                             .col_title = "at whom"};
    if (status == FV_OK) status = look_draw_map(w->ctx, &map, &w->how, w->path);
    axes_free(&a);
    return status;
}

/* Lines of the word in --from; without it, of all rows. */
static void clear_other_rows(const look_work *w, look_site *s)
{
    for (int64_t r = 0; w->from_count && r < s->rows; r++) {
        bool selected = false;
        for (int i = 0; i < w->from_count; i++) {
            const look_range row = w->row_axis.tokens[s->shown_rows.first + r], word = w->from[i];
            selected |= row.first < word.first + word.count && word.first < row.first + row.count;
        }
        for (int64_t h = 0; !selected && h < s->heads; h++)
            memset(s->values + (h * s->rows + r) * s->cols, 0, (size_t)s->cols * sizeof(float));
    }
}

/* The title of lines in several layers. */
static void title_of_layers(const look_work *w, char title[128])
{
    const char *head = w->head < 0 ? "all heads" : "head";
    char number[24] = "";
    if (w->head >= 0) cli_format(number, sizeof number, " %lld", (long long)w->head);
    cli_format(title, 128, "%.80s, %s%s", cli_text(w->call, "from"), head, number);
}

/* One layer, or with --from every layer. */
static fv_status draw_links(const look_work *w)
{
    const look_site *s = &w->sites[0];
    const char *path = w->path;
    char title[128];
    axes a;
    fv_look_format form;
    fv_picture *picture = NULL;
    fv_status status = axes_make(w, s, &a);
    const bool several = w->count > 1;
    if (several)
        title_of_layers(w, title);
    else
        title_of(w, title);
    for (int i = 0; i < w->count; i++)
        clear_other_rows(w, &w->sites[i]);
    const char **layers = site_names(w);
    float *all = joined(w, s->heads * s->rows * s->cols);
    if (!all || !layers) status = FV_ERR_MEMORY;
    const fv_look_links links = {.heads = s->heads,
                                 .rows = s->rows,
                                 .cols = s->cols,
                                 .values = all,
                                 .row_labels = names(&a.rows),
                                 .col_labels = names(&a.cols),
                                 .title = look_title(w->call, title),
                                 .only_row = -1,
                                 .layers = w->count,
                                 .layer_names = several ? layers : NULL,
                                 .font = w->how.font};
    if (status == FV_OK) status = fv_look_format_from_path(w->ctx, path, &form);
    if (status == FV_OK) status = fv_look_links_draw(w->ctx, &links, form, &picture);
    axes_free(&a);
    free(layers);
    free(all);
    return look_save_picture(status, picture, path);
}

/* Layers x heads. */
static fv_status draw_heads(const look_work *w)
{
    const look_site *s = &w->sites[0];
    const char *path = w->path;
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
                                 .title = look_title(w->call, w->text)};
    fv_look_format form;
    fv_picture *picture = NULL;
    if (status == FV_OK) status = fv_look_format_from_path(w->ctx, path, &form);
    if (status == FV_OK) status = fv_look_heads_draw(w->ctx, &heads, form, &w->how, &picture);
    axes_free(&a);
    free(layers);
    free(all);
    return look_save_picture(status, picture, path);
}

/* Layers x heads, one number each. */
static fv_status draw_entropy(const look_work *w)
{
    const int64_t heads = w->sites[0].heads;
    const char **layers = site_names(w);
    float *all = joined(w, heads);
    labels numbers;
    const bool made = labels_number(heads, &numbers);
    fv_look_options how = w->how;
    how.numbers = true;
    const fv_look_map map = {.rows = w->count,
                             .cols = heads,
                             .values = all,
                             .row_labels = layers,
                             .col_labels = names(&numbers),
                             .title = look_title(w->call, "mean entropy of each head, in nats"),
                             .col_title = "head"};
    const fv_status status =
        all && layers && made ? look_draw_map(w->ctx, &map, &how, w->path) : FV_ERR_MEMORY;
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
    const char *path = w->path;
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
    const char *path = w->path;
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
