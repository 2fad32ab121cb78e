/* Reads the header of a safetensors file and checks every rule of the format before touching any
 * data.
 */
#include <string.h>

#include "base/checked_math.h"
#include "io/json.h"
#include "io/safetensors_file.h"
#include "io/sort.h"
#include "io/tensor_file.h"
#include "io/utf8.h"

static const fv_safetensors_dtype DTYPES[] = {
    {"F32", 4, true, FV_F32},     {"F64", 8, true, FV_F64},     {"BF16", 2, true, FV_BF16},
    {"F16", 2, true, FV_F16},     {"I32", 4, true, FV_I32},     {"I64", 8, true, FV_I64},
    {"U8", 1, true, FV_U8},       {"BOOL", 1, true, FV_U8},     {"I8", 1, false, FV_U8},
    {"I16", 2, false, FV_U8},     {"U16", 2, false, FV_U8},     {"U32", 4, false, FV_U8},
    {"U64", 8, false, FV_U8},     {"F8_E4M3", 1, false, FV_U8}, {"F8_E5M2", 1, false, FV_U8},
    {"F8_E8M0", 1, false, FV_U8}, {"C64", 8, false, FV_U8},
};

enum { DTYPE_COUNT = sizeof DTYPES / sizeof DTYPES[0] };

const fv_safetensors_dtype *fv_safetensors_dtype_find(const char *name)
{
    for (size_t i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(DTYPES[i].name, name) == 0) return &DTYPES[i];
    return NULL;
}

const char *fv_safetensors_dtype_name(fv_dtype dtype)
{
    for (size_t i = 0; i < DTYPE_COUNT; i++)
        if (DTYPES[i].loadable && DTYPES[i].dtype == dtype) return DTYPES[i].name;
    return "?";
}

/* ---- entry ----------------------------------------------------------------------- */

static fv_status read_shape(const fv_doc *doc, const fv_value *info, fv_file_entry *entry)
{
    const fv_value *shape = NULL;
    FV_TRY(fv_doc_get(doc, info, "shape", FV_VALUE_ARRAY, &shape));
    if (shape->count > FV_MAX_RANK)
        return fv_doc_fail(doc, shape, FV_ERR_LIMIT, "the tensor has rank %u, the limit is %d",
                           shape->count, FV_MAX_RANK);
    entry->rank = (int)shape->count;
    for (uint32_t i = 0; i < shape->count; i++)
        FV_TRY(fv_doc_int(doc, &shape->as.items[i], 0, INT64_MAX, &entry->shape[i]));
    return FV_OK;
}

/* entry->offset is still relative to the start of the data. */
static fv_status read_range(const fv_doc *doc, const fv_value *info, uint64_t data_bytes,
                            size_t element, fv_file_entry *entry)
{
    const fv_value *range = NULL;
    int64_t begin = 0, end = 0;
    uint64_t expected;
    FV_TRY(fv_doc_get(doc, info, "data_offsets", FV_VALUE_ARRAY, &range));
    if (range->count != 2)
        return fv_doc_fail(doc, range, FV_ERR_FORMAT, "data_offsets has %u numbers, expected 2",
                           range->count);
    FV_TRY(fv_doc_int(doc, &range->as.items[0], 0, (int64_t)data_bytes, &begin));
    FV_TRY(fv_doc_int(doc, &range->as.items[1], begin, (int64_t)data_bytes, &end));
    if (!fv_shape_bytes(entry->rank, entry->shape, element, &expected))
        return fv_doc_fail(doc, info, FV_ERR_FORMAT, "the size of the tensor overflows");
    if ((uint64_t)(end - begin) != expected)
        return fv_doc_fail(doc, range, FV_ERR_FORMAT,
                           "the shape needs %llu bytes, but data_offsets spans %lld",
                           (unsigned long long)expected, (long long)(end - begin));
    entry->offset = (uint64_t)begin;
    entry->bytes = entry->stored_bytes = expected;
    return FV_OK;
}

static fv_status read_entry(fv_safetensors *set, const fv_doc *doc, const fv_member *member,
                            uint64_t data_bytes, fv_file_entry *entry)
{
    const fv_value *info = &member->value;
    uint64_t limit = set->ctx->limits.name_bytes;
    const char *dtype_name = NULL;
    char quoted[FV_QUOTED_BYTES];
    if (member->key_bytes > limit)
        return fv_doc_fail(doc, info, FV_ERR_LIMIT, "the name has %u bytes, the limit is %llu",
                           member->key_bytes, (unsigned long long)limit);
    if (memchr(member->key, '\0', member->key_bytes))
        return fv_doc_fail(doc, info, FV_ERR_FORMAT, "NUL character in a name");
    FV_TRY(fv_doc_kind(doc, info, FV_VALUE_OBJECT));
    FV_TRY(fv_doc_get_string(doc, info, "dtype", true, &dtype_name));
    const fv_safetensors_dtype *dtype = fv_safetensors_dtype_find(dtype_name);
    if (!dtype)
        return fv_doc_fail(doc, info, FV_ERR_UNSUPPORTED, "unknown dtype \"%s\"",
                           fv_quote(dtype_name, strlen(dtype_name), quoted));
    *entry = (fv_file_entry){
        .dtype_name = dtype->name, .loadable = dtype->loadable, .dtype = dtype->dtype};
    FV_TRY(read_shape(doc, info, entry));
    FV_TRY(read_range(doc, info, data_bytes, dtype->bytes, entry));
    entry->name = fv_arena_text(&set->arena, member->key, member->key_bytes);
    FV_RETURN_IF(!entry->name, set->ctx, FV_ERR_MEMORY, "%s: out of memory", doc->name);
    return FV_OK;
}

/* ---- entries --------------------------------------------------------------------- */

static int compare_ranges(const void *entries, uint32_t a, uint32_t b)
{
    const fv_file_entry *x = (const fv_file_entry *)entries + a;
    const fv_file_entry *y = (const fv_file_entry *)entries + b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Copies `found` into the shard, sorted by data offset. */
static fv_status sort_entries(fv_safetensors *set, fv_safetensors_shard *shard,
                              const fv_file_entry *found)
{
    size_t bytes =
        2 * shard->count * sizeof(uint32_t); /* count is bounded by the header's length */
    shard->entries = fv_arena_array(&set->arena, shard->count, sizeof *shard->entries);
    uint32_t *order = fv_mem_alloc(&set->ctx->mem, bytes);
    bool enough = shard->entries && order;
    if (enough) {
        fv_argsort(found, shard->count, compare_ranges, order, order + shard->count);
        for (size_t i = 0; i < shard->count; i++)
            shard->entries[i] = found[order[i]];
    }
    fv_mem_free(&set->ctx->mem, order, bytes);
    FV_RETURN_IF(!enough, set->ctx, FV_ERR_MEMORY, "%s: out of memory", shard->file.path);
    return FV_OK;
}

/* Checks that the ranges cover the data exactly, then makes the offsets absolute. */
static fv_status check_cover(fv_safetensors *set, fv_safetensors_shard *shard, size_t number)
{
    fv_ctx *ctx = set->ctx;
    uint64_t covered = 0, data_bytes = shard->file.bytes - shard->data_start;
    for (size_t i = 0; i < shard->count; i++) {
        fv_file_entry *e = &shard->entries[i];
        char name[FV_QUOTED_BYTES];
        fv_quote(e->name, strlen(e->name), name);
        FV_RETURN_IF(e->offset < covered, ctx, FV_ERR_FORMAT,
                     "%s: \"%s\" overlaps the previous tensor", shard->file.path, name);
        FV_RETURN_IF(e->offset > covered, ctx, FV_ERR_FORMAT, "%s: gap of %llu bytes before \"%s\"",
                     shard->file.path, (unsigned long long)(e->offset - covered), name);
        covered += e->bytes;
        e->offset += shard->data_start;
        e->shard = number;
    }
    FV_RETURN_IF(covered != data_bytes, ctx, FV_ERR_FORMAT,
                 "%s: the file has %llu bytes of data, expected %llu from its header",
                 shard->file.path, (unsigned long long)data_bytes, (unsigned long long)covered);
    return FV_OK;
}

static fv_status read_metadata(fv_safetensors *set, const fv_doc *doc, const fv_value *map,
                               fv_safetensors_shard *shard)
{
    FV_TRY(fv_doc_kind(doc, map, FV_VALUE_OBJECT));
    shard->metadata = fv_arena_array(&set->arena, map->count, sizeof *shard->metadata);
    FV_RETURN_IF(!shard->metadata, set->ctx, FV_ERR_MEMORY, "%s: out of memory", doc->name);
    shard->metadata_count = map->count;
    for (uint32_t i = 0; i < map->count; i++) {
        const fv_member *m = &map->as.members[i];
        const char *value = NULL;
        if (memchr(m->key, '\0', m->key_bytes))
            return fv_doc_fail(doc, &m->value, FV_ERR_FORMAT, "NUL character in a key");
        FV_TRY(fv_doc_string(doc, &m->value, &value));
        shard->metadata[i].key = fv_arena_text(&set->arena, m->key, m->key_bytes);
        shard->metadata[i].value = fv_arena_text(&set->arena, value, m->value.count);
        FV_RETURN_IF(!shard->metadata[i].key || !shard->metadata[i].value, set->ctx, FV_ERR_MEMORY,
                     "%s: out of memory", doc->name);
    }
    return FV_OK;
}

static fv_status read_entries(fv_safetensors *set, const fv_doc *doc, size_t number)
{
    fv_safetensors_shard *shard = &set->shards[number];
    const fv_value *root = &doc->root;
    FV_TRY(fv_doc_kind(doc, root, FV_VALUE_OBJECT));
    const fv_value *metadata = fv_value_get(root, "__metadata__");
    uint64_t count = root->count - (metadata ? 1u : 0u);
    FV_RETURN_IF(count > set->ctx->limits.tensors, set->ctx, FV_ERR_LIMIT,
                 "%s: has %llu tensors, the limit is %llu", doc->name, (unsigned long long)count,
                 (unsigned long long)set->ctx->limits.tensors);
    if (metadata) FV_TRY(read_metadata(set, doc, metadata, shard));

    size_t bytes;
    fv_file_entry *found = fv_checked_mul_size((size_t)count, sizeof *found, &bytes)
                               ? fv_mem_alloc(&set->ctx->mem, bytes)
                               : NULL;
    FV_RETURN_IF(!found, set->ctx, FV_ERR_MEMORY, "%s: out of memory", doc->name);
    uint64_t data_bytes = shard->file.bytes - shard->data_start;
    fv_status status = FV_OK;
    for (uint32_t i = 0; i < root->count && status == FV_OK; i++)
        if (&root->as.members[i].value != metadata)
            status = read_entry(set, doc, &root->as.members[i], data_bytes, &found[shard->count++]);
    if (status == FV_OK) status = sort_entries(set, shard, found);
    fv_mem_free(&set->ctx->mem, found, bytes);
    FV_TRY(status);
    return check_cover(set, shard, number);
}

/* ---- checksums ------------------------------------------------------------------- */

static bool read_digits(const char *text, uint32_t *out)
{
    static const char hex[] = "0123456789abcdef";
    uint32_t value = 0;
    for (int i = 0; i < FV_SAFETENSORS_CRC_DIGITS; i++) {
        const char *at = text[i] ? strchr(hex, text[i]) : NULL;
        if (!at) return false;
        value = value << 4 | (uint32_t)(at - hex);
    }
    *out = value;
    return true;
}

/* Finds the checksums in the header's text; fv_safetensors_save writes them without escapes. */
static char *find_digits(char *text, size_t bytes, size_t digits)
{
    static const char key[] = "\"" FV_SAFETENSORS_CRC_KEY "\":\"";
    char *at = memmem(text, bytes, key, sizeof key - 1);
    if (!at) return NULL;
    at += sizeof key - 1;
    return (size_t)(text + bytes - at) > digits && at[digits] == '"' ? at : NULL;
}

/* Verifies the header's checksum and keeps those of the tensors. Overwrites the digits in `text`.
 */
static fv_status read_sums(fv_safetensors *set, fv_safetensors_shard *shard, char *text,
                           size_t bytes)
{
    fv_ctx *ctx = set->ctx;
    const char *path = shard->file.path, *checksums = NULL;
    for (size_t i = 0; i < shard->metadata_count; i++)
        if (strcmp(shard->metadata[i].key, FV_SAFETENSORS_CRC_KEY) == 0)
            checksums = shard->metadata[i].value;
    if (!checksums && !(set->flags & FV_SAFETENSORS_VERIFY)) return FV_OK;
    FV_RETURN_IF(!checksums, ctx, FV_ERR_FORMAT,
                 "%s: has no checksums (\"fovea.crc32c\") to verify", path);
    size_t digits = (shard->count + 1) * FV_SAFETENSORS_CRC_DIGITS;
    char *place = strlen(checksums) == digits ? find_digits(text, bytes, digits) : NULL;
    FV_RETURN_IF(!place, ctx, FV_ERR_FORMAT,
                 "%s: the number of checksums does not match the tensors", path);
    uint32_t *sums = fv_arena_array(&set->arena, shard->count + 1, sizeof *sums);
    FV_RETURN_IF(!sums, ctx, FV_ERR_MEMORY, "%s: out of memory", path);
    for (size_t i = 0; i <= shard->count; i++)
        FV_RETURN_IF(!read_digits(checksums + i * FV_SAFETENSORS_CRC_DIGITS, &sums[i]), ctx,
                     FV_ERR_FORMAT, "%s: the checksums are not hex digits", path);
    memset(place, '0', digits);
    FV_RETURN_IF(fv_crc32c_add(set->crc, 0, text, bytes) != sums[0], ctx, FV_ERR_FORMAT,
                 "%s: wrong checksum of the header", path);
    shard->sums = sums + 1;
    return FV_OK;
}

/* ---- header ---------------------------------------------------------------------- */

static fv_status read_length(fv_safetensors_shard *shard, uint64_t *out)
{
    fv_ctx *ctx = shard->file.ctx;
    const char *path = shard->file.path;
    unsigned char raw[8];
    FV_RETURN_IF(shard->file.bytes < sizeof raw, ctx, FV_ERR_FORMAT,
                 "%s: has %llu bytes, too short for a safetensors file", path,
                 (unsigned long long)shard->file.bytes);
    FV_TRY(fv_file_read(&shard->file, raw, sizeof raw, 0));
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | raw[i];
    FV_RETURN_IF(length > shard->file.bytes - sizeof raw, ctx, FV_ERR_FORMAT,
                 "%s: not a safetensors file, or truncated: the header length is %llu, but the "
                 "file has %llu bytes",
                 path, (unsigned long long)length, (unsigned long long)shard->file.bytes);
    FV_RETURN_IF(length > ctx->limits.header_bytes, ctx, FV_ERR_LIMIT,
                 "%s: the header has %llu bytes, the limit is %llu", path,
                 (unsigned long long)length, (unsigned long long)ctx->limits.header_bytes);
    *out = length;
    return FV_OK;
}

static fv_status read_text(fv_safetensors *set, size_t number, char *text, size_t bytes)
{
    fv_safetensors_shard *shard = &set->shards[number];
    const char *path = shard->file.path;
    FV_TRY(fv_file_read(&shard->file, text, bytes, sizeof(uint64_t)));
    FV_RETURN_IF(bytes == 0 || text[0] != '{', set->ctx, FV_ERR_FORMAT,
                 "%s: the header does not begin with '{'", path);
    fv_doc *doc = NULL;
    FV_TRY(fv_json_parse(set->ctx, path, text, bytes, &doc));
    fv_status status = read_entries(set, doc, number);
    fv_doc_free(&doc);
    if (status == FV_OK && set->crc) status = read_sums(set, shard, text, bytes);
    return status;
}

fv_status fv_safetensors_read_header(fv_safetensors *set, size_t number)
{
    uint64_t length = 0;
    fv_safetensors_shard *shard = &set->shards[number];
    FV_TRY(read_length(shard, &length));
    shard->data_start = sizeof length + length;
    char *text = fv_mem_alloc(&set->ctx->mem, (size_t)length);
    FV_RETURN_IF(!text, set->ctx, FV_ERR_MEMORY, "%s: out of memory", shard->file.path);
    fv_status status = read_text(set, number, text, (size_t)length);
    fv_mem_free(&set->ctx->mem, text, (size_t)length);
    return status;
}
