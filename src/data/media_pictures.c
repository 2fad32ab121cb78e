/*
 * Pictures from files: a TSV list "file<TAB>class or text", the files relative to the list's folder
 * or to the folder that is given. All are resized to one square; the variant "classes" has the
 * second column as a class, "texts" as a text to predict. Which part a line belongs to depends on
 * its file name alone (fv_media_part_of_name).
 */
#include <stdio.h>
#include <string.h>

#include "data/media.h"
#include "fovea/tensor.h"
#include "io/file.h"

enum { SIDE = 64, MAX_SIDE = 1024, CHANNELS = 3 };
enum { CLASSES, TEXTS };

typedef struct picture_set {
    fv_ctx *ctx;
    fv_pictures *list;
    size_t folder; /* bytes of a file's path that are not its name in the list */
    int64_t *line[FV_MEDIA_PARTS], count[FV_MEDIA_PARTS], lines;
    const char **labels;
    int64_t classes;
    int variant;
    fv_augment augment;
    int64_t shape[3];
    float *values;
    size_t value_bytes;
} picture_set;

static void close_set(void *self)
{
    picture_set *p = self;
    fv_mem *mem = &p->ctx->mem;
    for (int part = 0; part < FV_MEDIA_PARTS; part++)
        if (p->line[part]) fv_mem_free(mem, p->line[part], (size_t)p->lines * sizeof **p->line);
    if (p->labels) fv_mem_free(mem, p->labels, (size_t)p->classes * sizeof *p->labels);
    if (p->values) fv_mem_free(mem, p->values, p->value_bytes);
    fv_pictures_close(&p->list);
    fv_mem_free(mem, p, sizeof *p);
}

static fv_status split(picture_set *p)
{
    fv_mem *mem = &p->ctx->mem;
    for (int part = 0; part < FV_MEDIA_PARTS; part++) {
        p->line[part] = fv_mem_alloc(mem, (size_t)p->lines * sizeof **p->line);
        FV_RETURN_IF(!p->line[part], p->ctx, FV_ERR_MEMORY, "no memory for %lld lines",
                     (long long)p->lines);
    }
    for (int64_t i = 0; i < p->lines; i++) {
        const fv_media_part part = fv_media_part_of_name(fv_pictures_file(p->list, i) + p->folder);
        p->line[part][p->count[part]++] = i;
    }
    return FV_OK;
}

static fv_status name_classes(picture_set *p)
{
    p->classes = fv_pictures_classes(p->list);
    p->labels = fv_mem_alloc(&p->ctx->mem, (size_t)p->classes * sizeof *p->labels);
    FV_RETURN_IF(!p->labels, p->ctx, FV_ERR_MEMORY, "no memory for %lld classes",
                 (long long)p->classes);
    for (int64_t i = 0; i < p->classes; i++)
        p->labels[i] = fv_pictures_class(p->list, i);
    return FV_OK;
}

/* The list's path: the list itself, in the folder where one is given. */
static fv_status read_list(picture_set *p, const fv_media_config *cfg)
{
    char path[FV_PATH_BYTES];
    fv_ctx *ctx = p->ctx;
    FV_RETURN_IF(!cfg->list || !*cfg->list, ctx, FV_ERR_ARGUMENT,
                 "media set pictures needs a list: a TSV of files and their classes or texts");
    const bool inside = cfg->folder && *cfg->folder && cfg->list[0] != '/';
    if (inside) FV_TRY(fv_path_join(ctx, path, cfg->folder, cfg->list));
    const char *list = inside ? path : cfg->list, *slash = strrchr(list, '/');
    p->folder = slash ? (size_t)(slash - list) + 1 : 0;
    FV_TRY(fv_pictures_open(ctx, list, &p->list));
    p->lines = fv_pictures_count(p->list);
    FV_RETURN_IF(p->lines < 1, ctx, FV_ERR_FORMAT, "%.200s: no line with a picture", list);
    FV_TRY(split(p));
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        FV_RETURN_IF(p->count[part] == 0, ctx, FV_ERR_FORMAT,
                     "%.200s: none of its %lld files is for %s; more files are needed", list,
                     (long long)p->lines, fv_media_part_name(part));
    return p->variant == CLASSES ? name_classes(p) : FV_OK;
}

static fv_status open_set(fv_ctx *ctx, const fv_media_config *cfg, fv_media_facts *facts,
                          void **self)
{
    const int64_t side = cfg->size ? cfg->size : SIDE;
    FV_RETURN_IF(side < 1 || side > MAX_SIDE, ctx, FV_ERR_ARGUMENT,
                 "media set pictures: size %lld, expected 1 to %d", (long long)side, MAX_SIDE);
    picture_set *p = fv_mem_zalloc(&ctx->mem, sizeof *p);
    FV_RETURN_IF(!p, ctx, FV_ERR_MEMORY, "no memory for media set pictures");
    *self = p;
    *p = (picture_set){.ctx = ctx,
                       .augment = cfg->augment,
                       .shape = {CHANNELS, side, side},
                       .variant = fv_media_variant(cfg, fv_media_kind_find(cfg->name)->variants)};
    p->value_bytes = (size_t)(CHANNELS * side * side) * sizeof *p->values;
    p->values = fv_mem_alloc(&ctx->mem, p->value_bytes);
    FV_RETURN_IF(!p->values, ctx, FV_ERR_MEMORY, "no memory for a picture");
    FV_TRY(read_list(p, cfg));
    *facts = (fv_media_facts){.field = "pixels",
                              .rank = 3,
                              .shape = {CHANNELS, side, side},
                              .longest = 1,
                              .labels = p->labels,
                              .label_count = p->classes,
                              .has_text = p->variant == TEXTS};
    return fv_media_set_counts(ctx, cfg, p->count, facts);
}

static fv_status get(void *self, fv_media_part part, int64_t number, const fv_media_draw *draw,
                     fv_media_example *out)
{
    picture_set *p = self;
    fv_ctx *ctx = p->ctx;
    const int64_t line = p->line[part][number], label = fv_pictures_label(p->list, line);
    fv_scope_begin(ctx);
    fv_tensor *x = fv_picture_load(ctx, fv_pictures_file(p->list, line), CHANNELS);
    x = fv_picture_floats(ctx, x, p->shape[1], p->shape[2]);
    fv_status status = fv_tensor_read(ctx, x, p->values, p->value_bytes);
    fv_scope_end(ctx);
    FV_TRY(status);
    FV_TRY(fv_media_augment(ctx, &p->augment, draw, p->shape, p->values));
    const char *text = fv_pictures_class(p->list, label);
    FV_RETURN_IF(strlen(text) >= sizeof out->text, ctx, FV_ERR_LIMIT,
                 "%.200s: its text has %zu bytes, expected at most %zu",
                 fv_pictures_file(p->list, line), strlen(text), sizeof out->text - 1);
    snprintf(out->text, sizeof out->text, "%s", text);
    out->values = p->values;
    if (p->variant == CLASSES) out->label = label;
    return FV_OK;
}

const fv_media_kind fv_media_pictures = {
    .name = "pictures",
    .summary = "pictures that a TSV lists with their classes or texts",
    .variants = "classes|texts",
    .open = open_set,
    .get = get,
    .close = close_set,
};
