#include "data/media_list.h"

#include <stdio.h>
#include <string.h>

#include "io/file.h"

void fv_media_list_close(fv_media_list *l)
{
    if (!l->ctx) return;
    fv_mem *mem = &l->ctx->mem;
    for (int part = 0; part < FV_MEDIA_PARTS; part++)
        if (l->line[part]) fv_mem_free(mem, l->line[part], (size_t)l->lines * sizeof **l->line);
    if (l->labels) fv_mem_free(mem, l->labels, (size_t)l->label_count * sizeof *l->labels);
    fv_pictures_close(&l->files);
}

/* `folder`: bytes of a file's path that are not its name in the list. */
static fv_status split(fv_media_list *l, const char *path, size_t folder)
{
    fv_ctx *ctx = l->ctx;
    for (int part = 0; part < FV_MEDIA_PARTS; part++) {
        l->line[part] = fv_mem_alloc(&ctx->mem, (size_t)l->lines * sizeof **l->line);
        FV_RETURN_IF(!l->line[part], ctx, FV_ERR_MEMORY, "no memory for %lld lines",
                     (long long)l->lines);
    }
    for (int64_t i = 0; i < l->lines; i++) {
        const fv_media_part part = fv_media_part_of_name(fv_pictures_file(l->files, i) + folder);
        l->line[part][l->count[part]++] = i;
    }
    for (fv_media_part part = 0; part < FV_MEDIA_PARTS; part++)
        FV_RETURN_IF(l->count[part] == 0, ctx, FV_ERR_FORMAT,
                     "%.200s: none of its %lld files is for %s; more files are needed", path,
                     (long long)l->lines, fv_media_part_name(part));
    return FV_OK;
}

static fv_status name_classes(fv_media_list *l)
{
    l->label_count = fv_pictures_classes(l->files);
    l->labels = fv_mem_alloc(&l->ctx->mem, (size_t)l->label_count * sizeof *l->labels);
    FV_RETURN_IF(!l->labels, l->ctx, FV_ERR_MEMORY, "no memory for %lld classes",
                 (long long)l->label_count);
    for (int64_t i = 0; i < l->label_count; i++)
        l->labels[i] = fv_pictures_class(l->files, i);
    return FV_OK;
}

fv_status fv_media_list_open(fv_ctx *ctx, const fv_media_config *cfg, const char *what,
                             bool classes, fv_media_list *out)
{
    char joined[FV_PATH_BYTES];
    *out = (fv_media_list){.ctx = ctx, .classes = classes};
    FV_RETURN_IF(!cfg->list || !*cfg->list, ctx, FV_ERR_ARGUMENT,
                 "media set %ss needs a list: a TSV of files and their classes or texts", what);
    const bool inside = cfg->folder && *cfg->folder && cfg->list[0] != '/';
    if (inside) FV_TRY(fv_path_join(ctx, joined, cfg->folder, cfg->list));
    const char *path = inside ? joined : cfg->list, *slash = strrchr(path, '/');
    FV_TRY(fv_pictures_open(ctx, path, &out->files));
    out->lines = fv_pictures_count(out->files);
    FV_RETURN_IF(out->lines < 1, ctx, FV_ERR_FORMAT, "%.200s: no line with a %s", path, what);
    FV_TRY(split(out, path, slash ? (size_t)(slash - path) + 1 : 0));
    return classes ? name_classes(out) : FV_OK;
}

fv_status fv_media_list_get(const fv_media_list *l, fv_media_part part, int64_t number,
                            fv_media_example *out, const char **file)
{
    const int64_t line = l->line[part][number], label = fv_pictures_label(l->files, line);
    const char *text = fv_pictures_class(l->files, label);
    *file = fv_pictures_file(l->files, line);
    FV_RETURN_IF(strlen(text) >= sizeof out->text, l->ctx, FV_ERR_LIMIT,
                 "%.200s: its text has %zu bytes, expected at most %zu", *file, strlen(text),
                 sizeof out->text - 1);
    snprintf(out->text, sizeof out->text, "%s", text);
    if (l->classes) out->label = label;
    return FV_OK;
}
