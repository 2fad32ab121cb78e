#include "io/document.h"

#include <stdio.h>
#include <string.h>

#include "base/checked_math.h"
#include "io/sort.h"

/*
 * An object's members are followed, in the same block, by their indices sorted by key, one uint32_t
 * each. The sorted index finds duplicates while parsing and members later, and unlike a hash table
 * it has no worst-case input.
 */
static const uint32_t *order_of(const fv_value *object)
{
    return (const uint32_t *)(object->as.members + object->count);
}

static int compare_keys(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t shared = a_bytes < b_bytes ? a_bytes : b_bytes;
    int sign = memcmp(a, b, shared);
    if (sign != 0) return sign;
    return (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int compare_members(const void *members, uint32_t a, uint32_t b)
{
    const fv_member *x = (const fv_member *)members + a, *y = (const fv_member *)members + b;
    return compare_keys(x->key, x->key_bytes, y->key, y->key_bytes);
}

bool fv_doc_make_object(fv_doc *doc, const fv_member *members, size_t count, fv_value *at,
                        const fv_member **duplicate)
{
    *duplicate = NULL;
    size_t bytes;
    if (count > UINT32_MAX) return false;
    if (!fv_checked_mul_size(count, sizeof(fv_member) + sizeof(uint32_t), &bytes)) return false;
    fv_member *copy = fv_arena_alloc(&doc->arena, bytes);
    if (!copy) return false;
    if (count) memcpy(copy, members, count * sizeof *copy);
    uint32_t *order = (uint32_t *)(copy + count);

    uint32_t few[32], *spare = few;
    bool many = count > sizeof few / sizeof few[0];
    if (many) spare = fv_mem_alloc(doc->arena.mem, count * sizeof *spare);
    if (!spare) return false;
    fv_argsort(copy, count, compare_members, order, spare);
    if (many) fv_mem_free(doc->arena.mem, spare, count * sizeof *spare);

    for (size_t i = 1; i < count && !*duplicate; i++)
        if (compare_members(copy, order[i - 1], order[i]) == 0) *duplicate = &copy[order[i]];
    at->kind = FV_VALUE_OBJECT;
    at->count = (uint32_t)count;
    at->as.members = copy;
    return true;
}

const fv_value *fv_value_get(const fv_value *object, const char *key)
{
    if (!object || object->kind != FV_VALUE_OBJECT) return NULL;
    const uint32_t *order = order_of(object);
    size_t bytes = strlen(key), low = 0, high = object->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const fv_member *m = &object->as.members[order[middle]];
        int sign = compare_keys(key, bytes, m->key, m->key_bytes);
        if (sign == 0) return &m->value;
        if (sign < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* ---- documents ------------------------------------------------------------------- */

fv_doc *fv_doc_create(fv_ctx *ctx, const char *name)
{
    fv_doc *doc = fv_mem_zalloc(&ctx->mem, sizeof *doc);
    if (!doc) return NULL;
    doc->ctx = ctx;
    fv_arena_init(&doc->arena, &ctx->mem);
    doc->name = fv_arena_text(&doc->arena, name, strlen(name));
    if (!doc->name) fv_doc_free(&doc);
    return doc;
}

void fv_doc_free(fv_doc **doc)
{
    if (!*doc) return;
    fv_arena_free(&(*doc)->arena);
    fv_mem_free(&(*doc)->ctx->mem, *doc, sizeof **doc);
    *doc = NULL;
}

fv_status fv_doc_fail(const fv_doc *doc, const fv_value *where, fv_status status, const char *fmt,
                      ...)
{
    char text[FV_MESSAGE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return fv_fail(doc->ctx, status, "%s:%u:%u: %s", doc->name, where->line, where->column, text);
}

/* ---- typed access ---------------------------------------------------------------- */

const char *fv_value_kind_name(fv_value_kind kind)
{
    switch (kind) {
    case FV_VALUE_NULL:
        return "null";
    case FV_VALUE_BOOL:
        return "a boolean";
    case FV_VALUE_INT:
        return "an integer";
    case FV_VALUE_REAL:
        return "a number";
    case FV_VALUE_STRING:
        return "a string";
    case FV_VALUE_ARRAY:
        return "an array";
    case FV_VALUE_OBJECT:
        return "an object";
    }
    return "?";
}

static fv_status wrong_kind(const fv_doc *doc, const fv_value *v, fv_value_kind wanted)
{
    return fv_doc_fail(doc, v, FV_ERR_FORMAT, "expected %s, found %s", fv_value_kind_name(wanted),
                       fv_value_kind_name(v->kind));
}

fv_status fv_doc_kind(const fv_doc *doc, const fv_value *v, fv_value_kind kind)
{
    return v->kind == kind ? FV_OK : wrong_kind(doc, v, kind);
}

fv_status fv_doc_int(const fv_doc *doc, const fv_value *v, int64_t min, int64_t max, int64_t *out)
{
    int64_t value = 0;
    /* Up to 2^53, every integral double represents exactly one integer. */
    bool whole = v->kind == FV_VALUE_REAL && v->as.real >= -0x1p53 && v->as.real <= 0x1p53 &&
                 (double)(int64_t)v->as.real == v->as.real;
    if (v->kind == FV_VALUE_INT)
        value = v->as.integer;
    else if (whole)
        value = (int64_t)v->as.real;
    else
        return wrong_kind(doc, v, FV_VALUE_INT);
    if (value < min || value > max)
        return fv_doc_fail(doc, v, FV_ERR_FORMAT, "%lld is out of range, expected %lld to %lld",
                           (long long)value, (long long)min, (long long)max);
    *out = value;
    return FV_OK;
}

fv_status fv_doc_real(const fv_doc *doc, const fv_value *v, double *out)
{
    if (v->kind == FV_VALUE_INT)
        *out = (double)v->as.integer;
    else if (v->kind == FV_VALUE_REAL)
        *out = v->as.real;
    else
        return wrong_kind(doc, v, FV_VALUE_REAL);
    return FV_OK;
}

fv_status fv_doc_bool(const fv_doc *doc, const fv_value *v, bool *out)
{
    FV_TRY(fv_doc_kind(doc, v, FV_VALUE_BOOL));
    *out = v->as.boolean;
    return FV_OK;
}

fv_status fv_doc_string(const fv_doc *doc, const fv_value *v, const char **out)
{
    FV_TRY(fv_doc_kind(doc, v, FV_VALUE_STRING));
    if (memchr(v->as.text, '\0', v->count))
        return fv_doc_fail(doc, v, FV_ERR_FORMAT, "NUL character in a string");
    *out = v->as.text;
    return FV_OK;
}

/* *out is NULL if an optional member is absent. */
static fv_status find(const fv_doc *doc, const fv_value *object, const char *key, bool required,
                      const fv_value **out)
{
    FV_TRY(fv_doc_kind(doc, object, FV_VALUE_OBJECT));
    *out = fv_value_get(object, key);
    if (!*out && required) return fv_doc_fail(doc, object, FV_ERR_FORMAT, "\"%s\" is missing", key);
    return FV_OK;
}

fv_status fv_doc_get(const fv_doc *doc, const fv_value *object, const char *key, fv_value_kind kind,
                     const fv_value **out)
{
    const fv_value *v = NULL;
    FV_TRY(find(doc, object, key, true, &v));
    FV_TRY(fv_doc_kind(doc, v, kind));
    *out = v;
    return FV_OK;
}

fv_status fv_doc_get_int(const fv_doc *doc, const fv_value *object, const char *key, bool required,
                         int64_t min, int64_t max, int64_t *out)
{
    const fv_value *v = NULL;
    FV_TRY(find(doc, object, key, required, &v));
    return v ? fv_doc_int(doc, v, min, max, out) : FV_OK;
}

fv_status fv_doc_get_real(const fv_doc *doc, const fv_value *object, const char *key, bool required,
                          double *out)
{
    const fv_value *v = NULL;
    FV_TRY(find(doc, object, key, required, &v));
    return v ? fv_doc_real(doc, v, out) : FV_OK;
}

fv_status fv_doc_get_bool(const fv_doc *doc, const fv_value *object, const char *key, bool required,
                          bool *out)
{
    const fv_value *v = NULL;
    FV_TRY(find(doc, object, key, required, &v));
    return v ? fv_doc_bool(doc, v, out) : FV_OK;
}

fv_status fv_doc_get_string(const fv_doc *doc, const fv_value *object, const char *key,
                            bool required, const char **out)
{
    const fv_value *v = NULL;
    FV_TRY(find(doc, object, key, required, &v));
    return v ? fv_doc_string(doc, v, out) : FV_OK;
}
