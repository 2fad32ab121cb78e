/* A model in several files: "model.safetensors.index.json" maps each tensor to its file. */
#include <string.h>

#include "base/checked_math.h"
#include "io/json.h"
#include "io/safetensors_file.h"
#include "io/sort.h"
#include "io/utf8.h"

/* An index may only name files of its own folder. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           !strpbrk(name, "/\\");
}

static int compare_files(const void *members, uint32_t a, uint32_t b)
{
    const fv_member *m = members;
    return strcmp(m[a].value.as.text, m[b].value.as.text);
}

static fv_status check_map(const fv_doc *doc, const fv_value *map)
{
    fv_ctx *ctx = doc->ctx;
    char quoted[FV_QUOTED_BYTES];
    FV_RETURN_IF(map->count > ctx->limits.tensors, ctx, FV_ERR_LIMIT,
                 "%s: has %u tensors, the limit is %llu", doc->name, map->count,
                 (unsigned long long)ctx->limits.tensors);
    for (uint32_t i = 0; i < map->count; i++) {
        const fv_value *v = &map->as.members[i].value;
        const char *name = NULL;
        FV_TRY(fv_doc_string(doc, v, &name));
        if (!is_plain_name(name))
            return fv_doc_fail(doc, v, FV_ERR_FORMAT, "\"%s\" is not a plain file name",
                               fv_quote(name, strlen(name), quoted));
    }
    return FV_OK;
}

/* The path of `name` in the folder of `path`, in the arena. */
static const char *beside(fv_safetensors *set, const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0, length = strlen(name), room;
    if (!fv_checked_add_size(folder, length + 1, &room)) return NULL;
    char *joined = fv_arena_alloc(&set->arena, room);
    if (!joined) return NULL;
    memcpy(joined, path, folder);
    memcpy(joined + folder, name, length + 1);
    return joined;
}

/* Opens each file once; `order` sorts the members by file. */
static fv_status open_files(fv_safetensors *set, const char *path, const fv_value *map,
                            const uint32_t *order)
{
    const fv_member *m = map->as.members;
    size_t files = 0;
    for (size_t i = 0; i < map->count; i++)
        files += i == 0 || compare_files(m, order[i - 1], order[i]) != 0;
    set->shards = fv_arena_array(&set->arena, files, sizeof *set->shards);
    FV_RETURN_IF(!set->shards, set->ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    memset(set->shards, 0, files * sizeof *set->shards);
    for (size_t i = 0; i < map->count; i++) {
        if (i > 0 && compare_files(m, order[i - 1], order[i]) == 0) continue;
        const char *file = beside(set, path, m[order[i]].value.as.text);
        FV_RETURN_IF(!file, set->ctx, FV_ERR_MEMORY, "%s: out of memory", path);
        FV_TRY(fv_safetensors_open_shard(set, set->shard_count, file));
    }
    return FV_OK;
}

/* The index and the files must agree on which file has which tensor. */
static fv_status compare_with_files(const fv_safetensors *set, const fv_doc *doc,
                                    const fv_value *map)
{
    char quoted[FV_QUOTED_BYTES];
    for (uint32_t i = 0; i < map->count; i++) {
        const fv_member *m = &map->as.members[i];
        const fv_file_entry *e =
            memchr(m->key, '\0', m->key_bytes) ? NULL : fv_safetensors_find(set, m->key);
        const char *path = e ? set->shards[e->shard].file.path : "";
        const char *slash = strrchr(path, '/');
        if (!e || strcmp(slash ? slash + 1 : path, m->value.as.text) != 0)
            return fv_doc_fail(doc, &m->value, FV_ERR_FORMAT, "\"%s\" is not in that file",
                               fv_quote(m->key, m->key_bytes, quoted));
    }
    FV_RETURN_IF(set->count != map->count, set->ctx, FV_ERR_FORMAT,
                 "%s: lists %u tensors, but the files have %zu", doc->name, map->count, set->count);
    return FV_OK;
}

static fv_status open_documented(fv_safetensors *set, const char *path, const fv_doc *doc)
{
    const fv_value *map = NULL;
    FV_TRY(fv_doc_get(doc, &doc->root, "weight_map", FV_VALUE_OBJECT, &map));
    FV_TRY(check_map(doc, map));
    size_t bytes = 2 * (size_t)map->count * sizeof(uint32_t);
    uint32_t *order = fv_mem_alloc(&set->ctx->mem, bytes);
    FV_RETURN_IF(!order, set->ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    fv_argsort(map->as.members, map->count, compare_files, order, order + map->count);
    fv_status status = open_files(set, path, map, order);
    fv_mem_free(&set->ctx->mem, order, bytes);
    FV_TRY(status);
    FV_TRY(fv_safetensors_join(set, path));
    return compare_with_files(set, doc, map);
}

fv_status fv_safetensors_open_index(fv_safetensors *set, const char *path)
{
    fv_doc *doc = NULL;
    FV_TRY(fv_json_load(set->ctx, path, &doc));
    fv_status status = open_documented(set, path, doc);
    fv_doc_free(&doc);
    return status;
}
