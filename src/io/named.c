#include "io/named.h"

#include <stdio.h>
#include <string.h>

fv_status fv_named_begin(fv_ctx *ctx, size_t room, fv_named *out)
{
    fv_named list = {.ctx = ctx, .room = room};
    list.name = fv_mem_alloc(&ctx->mem, room * sizeof *list.name);
    list.tensor = fv_mem_alloc(&ctx->mem, room * sizeof *list.tensor);
    if (!list.name || !list.tensor) {
        fv_named_end(&list);
        return fv_fail(ctx, FV_ERR_MEMORY, "out of memory for a list of tensors");
    }
    *out = list;
    return FV_OK;
}

void fv_named_add(fv_named *list, const char *prefix, const char *name, fv_tensor *t)
{
    if (list->count == list->room) return;
    snprintf(list->name[list->count], FV_NAMED_BYTES, "%s%s", prefix, name);
    list->tensor[list->count++] = t;
}

void fv_named_add_params(fv_named *list, const char *prefix, const fv_params *params)
{
    for (int i = 0; i < params->count; i++)
        fv_named_add(list, prefix, params->items[i].name, params->items[i].tensor);
}

void fv_named_end(fv_named *list)
{
    fv_mem *mem = &list->ctx->mem;
    if (list->name) fv_mem_free(mem, list->name, list->room * sizeof *list->name);
    if (list->tensor) fv_mem_free(mem, list->tensor, list->room * sizeof *list->tensor);
    *list = (fv_named){.ctx = list->ctx};
}

fv_status fv_named_save(const fv_named *list, const char *path, const fv_file_metadata *metadata,
                        size_t metadata_count)
{
    const size_t bytes = list->count * sizeof(char *);
    const char **names = fv_mem_alloc(&list->ctx->mem, bytes);
    FV_RETURN_IF(!names, list->ctx, FV_ERR_MEMORY, "%.100s: out of memory", path);
    for (size_t i = 0; i < list->count; i++)
        names[i] = list->name[i];
    fv_status status = fv_safetensors_save(list->ctx, names, list->tensor, list->count, metadata,
                                           metadata_count, path);
    fv_mem_free(&list->ctx->mem, names, bytes);
    return status;
}

static fv_status check_one(const fv_named *list, size_t i, const fv_safetensors *file)
{
    const char *path = fv_safetensors_shard_path(file, 0), *name = list->name[i];
    const fv_tensor *t = list->tensor[i];
    const fv_file_entry *entry = fv_safetensors_find(file, name);
    FV_RETURN_IF(!entry, list->ctx, FV_ERR_FORMAT, "%.80s: tensor '%.100s' is missing", path, name);
    const bool same = entry->loadable && entry->dtype == t->dtype && entry->rank == t->rank &&
                      memcmp(entry->shape, t->shape, (size_t)t->rank * sizeof *t->shape) == 0;
    char want[FV_SHAPE_TEXT], have[FV_SHAPE_TEXT];
    FV_RETURN_IF(!same, list->ctx, FV_ERR_FORMAT, "%.60s: tensor '%.60s' is %s %s, expected %s %s",
                 path, name, entry->dtype_name, fv_shape_text(have, entry->rank, entry->shape),
                 fv_dtype_name(t->dtype), fv_shape_text(want, t->rank, t->shape));
    return FV_OK;
}

static bool holds(const fv_named *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->name[i], name) == 0) return true;
    return false;
}

fv_status fv_named_check(const fv_named *list, const fv_safetensors *file, bool whole)
{
    for (size_t i = 0; i < list->count; i++)
        FV_TRY(check_one(list, i, file));
    for (size_t i = 0; whole && i < fv_safetensors_count(file); i++) {
        const char *name = fv_safetensors_entry(file, i)->name;
        FV_RETURN_IF(!holds(list, name), list->ctx, FV_ERR_FORMAT,
                     "%.80s: tensor '%.100s' does not belong to this model",
                     fv_safetensors_shard_path(file, 0), name);
    }
    return FV_OK;
}

static fv_status read_one(const fv_named *list, size_t i, fv_safetensors *file)
{
    fv_ctx *ctx = list->ctx;
    const fv_file_entry *entry = fv_safetensors_find(file, list->name[i]);
    const size_t bytes = (size_t)entry->bytes;
    void *room = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!room, ctx, FV_ERR_MEMORY, "out of memory to read '%.100s'", list->name[i]);
    fv_status status = fv_safetensors_read(file, entry, 0, room, bytes);
    if (status == FV_OK) status = fv_tensor_write(ctx, list->tensor[i], room, bytes);
    fv_mem_free(&ctx->mem, room, bytes);
    return status;
}

fv_status fv_named_read(const fv_named *list, fv_safetensors *file)
{
    for (size_t i = 0; i < list->count; i++)
        FV_TRY(read_one(list, i, file));
    return FV_OK;
}
