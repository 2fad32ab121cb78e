/* Torch's storages and tensors as a pickle describes them. */
#include <string.h>

#include "base/checked_math.h"
#include "io/pickle_machine.h"
#include "io/tensor_file.h"
#include "io/utf8.h"

/* ---- storages and tensors -------------------------------------------------------------------- */

static bool is_text(const value *v, const char *text)
{
    return v->kind == TEXT && v->count == strlen(text) && memcmp(v->as.text, text, v->count) == 0;
}

/* ("storage", type, key, device, elements); older files add a part of a storage, or None. */
fv_status fv_pickle_make_storage(fv_pickle *p)
{
    value *id = NULL;
    uint32_t unused;
    FV_TRY(fv_pickle_peek(p, 0, &id));
    if (id->kind != TUPLE || id->count < 5 || id->count > 6 ||
        !is_text(item_of(p, id, 0), "storage"))
        return fv_pickle_fail(p, "a persistent id is not that of a storage");
    const value *type = item_of(p, id, 1), *key = item_of(p, id, 2), *count = item_of(p, id, 4);
    if (type->kind != GLOBAL || !type->as.global->dtype || key->kind != TEXT ||
        count->kind != INTEGER || count->as.integer < 0)
        return fv_pickle_fail(p, "a storage has no type, key or size");
    if (id->count == 6 && item_of(p, id, 5)->kind != NONE)
        return fv_pickle_fail(p, "a view of another storage");
    const storage s = {.key = {key->as.text, key->count},
                       .dtype = fv_safetensors_dtype_find(type->as.global->dtype),
                       .count = count->as.integer};
    storage *made = fv_pickle_add(p, &p->storages);
    if (!made) return FV_ERR_MEMORY;
    *made = s;
    FV_TRY(fv_pickle_pop(p, &unused));
    return fv_pickle_push(p,
                          &(value){.kind = STORAGE, .as.index = (uint32_t)(p->storages.count - 1)});
}

static fv_status read_axes(const fv_pickle *p, const value *tuple, int64_t out[FV_MAX_RANK])
{
    if (tuple->kind != TUPLE) return fv_pickle_fail(p, "a shape is not a tuple");
    FV_RETURN_IF(tuple->count > FV_MAX_RANK, p->ctx, FV_ERR_LIMIT,
                 "%s: pickle: a tensor has rank %u, the limit is %d", p->path, tuple->count,
                 FV_MAX_RANK);
    for (uint32_t i = 0; i < tuple->count; i++) {
        const value *v = item_of(p, tuple, i);
        if (v->kind != INTEGER || v->as.integer < 0)
            return fv_pickle_fail(p, "a size or stride is negative or not an integer");
        out[i] = v->as.integer;
    }
    return FV_OK;
}

/* The elements lie within the storage, and are not more than it has: a small file could describe an
 * enormous tensor by strides of 0. */
static fv_status check_view(const fv_pickle *p, const fv_pickle_tensor *t)
{
    int64_t count = 1, last = t->offset;
    bool fits = t->offset <= t->storage_count;
    for (int i = 0; i < t->rank; i++) {
        int64_t reach = 0;
        if (t->shape[i] == 0) count = 0;
        if (count == 0) continue;
        fits = fits && fv_checked_mul_i64(count, t->shape[i], &count) &&
               fv_checked_mul_i64(t->shape[i] - 1, t->stride[i], &reach) &&
               fv_checked_add_i64(last, reach, &last);
    }
    uint64_t bytes = 0;
    if (!fits || !fv_shape_bytes(t->rank, t->shape, t->dtype->bytes, &bytes) ||
        (count > 0 && last >= t->storage_count))
        return fv_pickle_fail(p, "a tensor is outside its storage");
    return count <= t->storage_count
               ? FV_OK
               : fv_pickle_fail(p, "a tensor has more elements than its storage");
}

/* (storage, offset, sizes, strides, needs gradient, hooks): the last two do not matter. */
fv_status fv_pickle_rebuild_tensor(fv_pickle *p, const value *args)
{
    fv_pickle_tensor t = {0};
    if (args->count < 6 || args->count > 7)
        return fv_pickle_fail(p, "a tensor has the wrong arguments");
    const value *from = item_of(p, args, 0), *offset = item_of(p, args, 1),
                *shape = item_of(p, args, 2), *stride = item_of(p, args, 3);
    if (from->kind != STORAGE || offset->kind != INTEGER || offset->as.integer < 0)
        return fv_pickle_fail(p, "a tensor has the wrong arguments");
    FV_RETURN_IF(p->tensors.count >= p->ctx->limits.tensors, p->ctx, FV_ERR_LIMIT,
                 "%s: has more than %llu tensors", p->path,
                 (unsigned long long)p->ctx->limits.tensors);
    const storage *s = (const storage *)p->storages.data + from->as.index;
    t = (fv_pickle_tensor){.storage = s->key,
                           .dtype = s->dtype,
                           .storage_count = s->count,
                           .offset = offset->as.integer};
    FV_TRY(read_axes(p, shape, t.shape));
    FV_TRY(read_axes(p, stride, t.stride));
    if (shape->count != stride->count)
        return fv_pickle_fail(p, "a tensor has another rank than its strides");
    t.rank = (int)shape->count;
    FV_TRY(check_view(p, &t));
    fv_pickle_tensor *made = fv_pickle_add(p, &p->tensors);
    if (!made) return FV_ERR_MEMORY;
    *made = t;
    return fv_pickle_push(p,
                          &(value){.kind = TENSOR, .as.index = (uint32_t)(p->tensors.count - 1)});
}

/* A parameter is its tensor. */
fv_status fv_pickle_rebuild_parameter(fv_pickle *p, const value *args)
{
    if (args->count != 3 || item_of(p, args, 0)->kind != TENSOR)
        return fv_pickle_fail(p, "a parameter has the wrong arguments");
    return fv_pickle_push(p, item_of(p, args, 0));
}

/* ---- results --------------------------------------------------------------------------------- */

static fv_status not_tensors(const fv_pickle *p, const char *what)
{
    return fv_fail(p->ctx, FV_ERR_FORMAT, "%s: %s, expected a state_dict: names and tensors",
                   p->path, what);
}

static fv_status take_name(const fv_pickle *p, const value *key, fv_pickle_text *out)
{
    char quoted[FV_QUOTED_BYTES];
    if (key->kind != TEXT) return not_tensors(p, "the pickle has a key that is not a string");
    FV_RETURN_IF(key->count > p->ctx->limits.name_bytes, p->ctx, FV_ERR_LIMIT,
                 "%s: a name has %u bytes, the limit is %llu", p->path, key->count,
                 (unsigned long long)p->ctx->limits.name_bytes);
    FV_RETURN_IF(!fv_utf8_valid(key->as.text, key->count) || memchr(key->as.text, '\0', key->count),
                 p->ctx, FV_ERR_FORMAT, "%s: the name \"%s\" is not UTF-8", p->path,
                 fv_quote(key->as.text, key->count, quoted));
    *out = (fv_pickle_text){key->as.text, key->count};
    return FV_OK;
}

fv_status fv_pickle_tensors(fv_pickle *p, uint32_t root, fv_arena *arena,
                            fv_pickle_tensor **tensors, size_t *count)
{
    const value *dict = value_at(p, root);
    if (dict->kind != DICT) return not_tensors(p, "the pickle is not a dictionary");
    FV_RETURN_IF(dict->count > p->ctx->limits.tensors, p->ctx, FV_ERR_LIMIT,
                 "%s: has %u tensors, the limit is %llu", p->path, dict->count,
                 (unsigned long long)p->ctx->limits.tensors);
    fv_pickle_tensor *all = fv_arena_array(arena, dict->count, sizeof *all);
    FV_RETURN_IF(!all, p->ctx, FV_ERR_MEMORY, "%s: out of memory", p->path);
    size_t n = 0;
    for (uint32_t i = dict->as.chain.head; i; i = link_at(p, i)->next) {
        const value *v = value_at(p, link_at(p, i)->value);
        fv_pickle_text name = {0};
        char quoted[FV_QUOTED_BYTES];
        FV_TRY(take_name(p, value_at(p, link_at(p, i)->key), &name));
        FV_RETURN_IF(v->kind != TENSOR, p->ctx, FV_ERR_FORMAT,
                     "%s: \"%s\" is not a tensor, expected a state_dict: names and tensors",
                     p->path, fv_quote(name.text, name.bytes, quoted));
        all[n] = ((const fv_pickle_tensor *)p->tensors.data)[v->as.index];
        all[n++].name = name;
    }
    *tensors = all;
    *count = n;
    return FV_OK;
}

fv_status fv_pickle_strings(fv_pickle *p, uint32_t root, fv_arena *arena, fv_pickle_text **strings,
                            size_t *count)
{
    const value *list = value_at(p, root);
    if (list->kind != LIST || list->count > p->ctx->limits.tensors)
        return not_tensors(p, "the pickle has no list of storages");
    fv_pickle_text *all = fv_arena_array(arena, list->count, sizeof *all);
    FV_RETURN_IF(!all, p->ctx, FV_ERR_MEMORY, "%s: out of memory", p->path);
    size_t n = 0;
    for (uint32_t i = list->as.chain.head; i; i = link_at(p, i)->next) {
        const value *v = value_at(p, link_at(p, i)->value);
        if (v->kind != TEXT) return not_tensors(p, "the key of a storage is not a string");
        all[n++] = (fv_pickle_text){v->as.text, v->count};
    }
    *strings = all;
    *count = n;
    return FV_OK;
}
