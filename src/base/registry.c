#include "base/registry.h"

#include <string.h>

#include "base/ctx.h"

fv_status fv_registry_fill(fv_ctx *ctx, const void *item, void *out, size_t bytes)
{
    size_t size;
    memcpy(&size, item, sizeof size);
    FV_RETURN_IF(size < sizeof size, ctx, FV_ERR_ARGUMENT,
                 "register: struct_size is %zu; set it to the size of the struct", size);
    FV_RETURN_IF(size > bytes, ctx, FV_ERR_ARGUMENT,
                 "register: struct_size is %zu, this version of the library supports %zu", size,
                 bytes);
    memset(out, 0, bytes);
    memcpy(out, item, size);
    return FV_OK;
}

bool fv_registry_is_name(const char *name)
{
    return name && *name && strcspn(name, "| \t\r\n\"\\") == strlen(name);
}

fv_status fv_registry_add(fv_ctx *ctx, fv_registry *registry, const void *item, size_t bytes)
{
    void **grown = fv_mem_grow(&ctx->mem, registry->items, &registry->room, registry->count + 1,
                               sizeof *grown);
    if (grown) registry->items = grown;
    void *copy = grown ? fv_mem_zalloc(&ctx->mem, bytes) : NULL;
    FV_RETURN_IF(!copy, ctx, FV_ERR_MEMORY, "no memory to register");
    memcpy(copy, item, bytes);
    registry->bytes = bytes;
    registry->items[registry->count++] = copy;
    return FV_OK;
}

void fv_registry_free(fv_ctx *ctx, fv_registry *registry)
{
    for (size_t i = 0; i < registry->count; i++)
        fv_mem_free(&ctx->mem, registry->items[i], registry->bytes);
    if (registry->items)
        fv_mem_free(&ctx->mem, registry->items, registry->room * sizeof *registry->items);
    *registry = (fv_registry){.count = 0};
}
