#include "io/torch_file.h"

#include <string.h>

#include "base/checked_math.h"
#include "io/pickle.h"
#include "io/sort.h"
#include "io/tensor_file.h"
#include "io/utf8.h"
#include "io/zip.h"

/* What one header is read with. */
typedef struct reader {
    fv_safetensors *set;
    fv_safetensors_shard *shard;
    size_t number;
    const char *path;
    char *text; /* the pickle */
    size_t bytes;
    const uint32_t *by_key; /* order of the storages */
    size_t storage_count;
} reader;

/* The pickle of the magic number, then that of the version. */
static const unsigned char OLD_START[] = {0x80, 0x02, 0x8A, 0x0A, 0x6C, 0xFC, 0x9C,
                                          0x46, 0xF9, 0x20, 0x6A, 0xA8, 0x50, 0x19,
                                          '.',  0x80, 0x02, 'M',  0xE9, 0x03, '.'};

fv_status fv_torch_detect(const fv_file *file, fv_weights_form *out)
{
    unsigned char start[sizeof OLD_START] = {0};
    const size_t n = file->bytes < sizeof start ? (size_t)file->bytes : sizeof start;
    FV_TRY(fv_file_read(file, start, n, 0));
    *out = FV_WEIGHTS_SAFETENSORS;
    if (memcmp(start, "PK\3\4", 4) == 0) *out = FV_WEIGHTS_TORCH;
    if (memcmp(start, OLD_START, sizeof start) == 0) *out = FV_WEIGHTS_TORCH_OLD;
    return FV_OK;
}

/* ---- storages -------------------------------------------------------------------------------- */

static int compare_texts(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    const int sign = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return sign ? sign : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int compare_storages(const void *storages, uint32_t a, uint32_t b)
{
    const fv_torch_storage *s = storages;
    return compare_texts(s[a].key, s[a].key_bytes, s[b].key, s[b].key_bytes);
}

static fv_status sort_storages(reader *r)
{
    fv_ctx *ctx = r->set->ctx;
    const size_t n = r->storage_count, spare_bytes = n * sizeof(uint32_t);
    uint32_t *order = fv_arena_array(&r->set->arena, n, sizeof *order);
    uint32_t *spare = fv_mem_alloc(&ctx->mem, spare_bytes);
    if (order && spare) fv_argsort(r->shard->storages, n, compare_storages, order, spare);
    fv_mem_free(&ctx->mem, spare, spare_bytes);
    FV_RETURN_IF(!order || !spare, ctx, FV_ERR_MEMORY, "%s: out of memory", r->path);
    char key[FV_QUOTED_BYTES];
    for (size_t i = 1; i < n; i++) {
        const fv_torch_storage *s = &r->shard->storages[order[i]];
        FV_RETURN_IF(compare_storages(r->shard->storages, order[i - 1], order[i]) == 0, ctx,
                     FV_ERR_FORMAT, "%s: duplicate storage \"%s\"", r->path,
                     fv_quote(s->key, s->key_bytes, key));
    }
    r->by_key = order;
    return FV_OK;
}

static fv_status find_storage(const reader *r, fv_pickle_text key, uint32_t *out)
{
    size_t low = 0, high = r->storage_count;
    char quoted[FV_QUOTED_BYTES];
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const fv_torch_storage *s = &r->shard->storages[r->by_key[middle]];
        const int sign = compare_texts(key.text, key.bytes, s->key, s->key_bytes);
        *out = r->by_key[middle];
        if (sign == 0) return FV_OK;
        if (sign < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return fv_fail(r->set->ctx, FV_ERR_FORMAT, "%s: has no storage \"%s\"", r->path,
                   fv_quote(key.text, key.bytes, quoted));
}

/* ---- entries --------------------------------------------------------------------------------- */

/* Row-major without gaps; axes of one element may have any stride. */
static bool is_contiguous(const fv_pickle_tensor *t)
{
    int64_t expected = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->stride[i] != expected) return false;
        expected *= t->shape[i]; /* at most the storage's elements */
    }
    return true;
}

static fv_status make_entry(const reader *r, const fv_pickle_tensor *t, fv_file_entry *entry,
                            fv_torch_view *view)
{
    fv_ctx *ctx = r->set->ctx;
    const fv_torch_storage *s = &r->shard->storages[view->storage];
    uint64_t bytes = 0, all = 0;
    char name[FV_QUOTED_BYTES];
    fv_quote(t->name.text, t->name.bytes, name);
    FV_RETURN_IF(!fv_shape_bytes(1, &t->storage_count, t->dtype->bytes, &all) || all > s->bytes,
                 ctx, FV_ERR_FORMAT,
                 "%s: the storage of \"%s\" has %llu bytes, too few for %lld elements", r->path,
                 name, (unsigned long long)s->bytes, (long long)t->storage_count);
    FV_RETURN_IF(!fv_shape_bytes(t->rank, t->shape, t->dtype->bytes, &bytes), ctx, FV_ERR_FORMAT,
                 "%s: the size of \"%s\" overflows", r->path, name);
    *entry = (fv_file_entry){.name = fv_arena_text(&r->set->arena, t->name.text, t->name.bytes),
                             .dtype_name = t->dtype->name,
                             .loadable = t->dtype->loadable,
                             .dtype = t->dtype->dtype,
                             .rank = t->rank,
                             .offset = s->offset + (uint64_t)t->offset * t->dtype->bytes,
                             .bytes = bytes,
                             .stored_bytes = bytes,
                             .shard = r->number};
    FV_RETURN_IF(!entry->name, ctx, FV_ERR_MEMORY, "%s: out of memory", r->path);
    memcpy(entry->shape, t->shape, sizeof entry->shape);
    memcpy(view->stride, t->stride, sizeof view->stride);
    view->element = t->dtype->bytes;
    view->contiguous = bytes == 0 || is_contiguous(t);
    return FV_OK;
}

/* Many tensors of one storage must not make a small file a large model. */
static fv_status check_total(const reader *r)
{
    const fv_limits *limits = &r->set->ctx->limits;
    const uint64_t file = r->shard->file.bytes;
    uint64_t total = 0, most = 0;
    if (__builtin_mul_overflow(file, limits->decompressed_ratio, &most)) most = UINT64_MAX;
    if (most > limits->total_bytes) most = limits->total_bytes;
    for (size_t i = 0; i < r->shard->count; i++)
        if (__builtin_add_overflow(total, r->shard->entries[i].bytes, &total)) total = UINT64_MAX;
    FV_RETURN_IF(total > most, r->set->ctx, FV_ERR_LIMIT,
                 "%s: its tensors have %llu bytes, the limit for a file of %llu bytes is %llu",
                 r->path, (unsigned long long)total, (unsigned long long)file,
                 (unsigned long long)most);
    return FV_OK;
}

static fv_status make_entries(reader *r, const fv_pickle_tensor *tensors, size_t count)
{
    fv_safetensors_shard *shard = r->shard;
    shard->entries = fv_arena_array(&r->set->arena, count, sizeof *shard->entries);
    shard->views = fv_arena_array(&r->set->arena, count, sizeof *shard->views);
    FV_RETURN_IF(!shard->entries || !shard->views, r->set->ctx, FV_ERR_MEMORY, "%s: out of memory",
                 r->path);
    for (size_t i = 0; i < count; i++) {
        fv_torch_view view = {0};
        FV_TRY(find_storage(r, tensors[i].storage, &view.storage));
        FV_TRY(make_entry(r, &tensors[i], &shard->entries[i], &view));
        shard->views[i] = view;
    }
    shard->count = count;
    return check_total(r);
}

/* ---- archives -------------------------------------------------------------------------------- */

static const char PICKLE[] = "/data.pkl", DATA[] = "/data/", ORDER[] = "/byteorder";

/* The one entry NAME/data.pkl. */
static const fv_zip_entry *find_pickle(const fv_zip_entry *entries, size_t count)
{
    const fv_zip_entry *found = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *slash = memchr(entries[i].name, '/', entries[i].name_bytes);
        if (!slash || strcmp(slash, PICKLE) != 0) continue;
        if (found) return NULL;
        found = &entries[i];
    }
    return found;
}

/* The part of an entry's name after NAME, if it begins with `start`; NULL: another entry. */
static const char *after(const fv_zip_entry *entry, const fv_zip_entry *pickle, const char *start)
{
    const size_t base = pickle->name_bytes - (sizeof PICKLE - 1), n = strlen(start);
    if (entry->name_bytes < base + n || memcmp(entry->name, pickle->name, base) != 0) return NULL;
    return memcmp(entry->name + base, start, n) == 0 ? entry->name + base + n : NULL;
}

static fv_status list_storages(reader *r, const fv_zip_entry *entries, size_t count,
                               const fv_zip_entry *pickle)
{
    fv_ctx *ctx = r->set->ctx;
    fv_torch_storage *all = fv_arena_array(&r->set->arena, count, sizeof *all);
    FV_RETURN_IF(!all, ctx, FV_ERR_MEMORY, "%s: out of memory", r->path);
    r->shard->storages = all;
    for (size_t i = 0; i < count; i++) {
        const fv_zip_entry *e = &entries[i];
        const char *key = after(e, pickle, DATA);
        char name[FV_QUOTED_BYTES];
        if (!key) continue;
        FV_RETURN_IF(e->deflated, ctx, FV_ERR_FORMAT, "%s: \"%s\" is compressed, expected stored",
                     r->path, fv_quote(e->name, e->name_bytes, name));
        all[r->storage_count++] =
            (fv_torch_storage){.key = key,
                               .key_bytes = e->name_bytes - (size_t)(key - e->name),
                               .offset = e->offset,
                               .bytes = e->bytes,
                               .crc = e->crc};
    }
    return sort_storages(r);
}

static fv_status check_order(const reader *r, const fv_zip_entry *entries, size_t count,
                             const fv_zip_entry *pickle)
{
    char order[3];
    for (size_t i = 0; i < count; i++) {
        const char *rest = after(&entries[i], pickle, ORDER);
        if (!rest || *rest || entries[i].deflated || entries[i].bytes != sizeof order) continue;
        FV_TRY(fv_file_read(&r->shard->file, order, sizeof order, entries[i].offset));
        FV_RETURN_IF(memcmp(order, "big", sizeof order) == 0, r->set->ctx, FV_ERR_FORMAT,
                     "%s: saved on a big-endian machine, which is not supported", r->path);
    }
    return FV_OK;
}

static fv_status take_text(reader *r, uint64_t bytes)
{
    fv_ctx *ctx = r->set->ctx;
    r->text = fv_mem_alloc(&ctx->mem, (size_t)bytes);
    FV_RETURN_IF(!r->text, ctx, FV_ERR_MEMORY, "%s: out of memory", r->path);
    r->bytes = (size_t)bytes;
    return FV_OK;
}

static fv_status read_pickle(reader *r, const fv_zip_entry *pickle)
{
    fv_ctx *ctx = r->set->ctx;
    FV_RETURN_IF(pickle->deflated, ctx, FV_ERR_FORMAT,
                 "%s: data.pkl is compressed, expected stored", r->path);
    FV_RETURN_IF(pickle->bytes > ctx->limits.header_bytes, ctx, FV_ERR_LIMIT,
                 "%s: data.pkl has %llu bytes, the limit is %llu", r->path,
                 (unsigned long long)pickle->bytes, (unsigned long long)ctx->limits.header_bytes);
    FV_TRY(take_text(r, pickle->bytes));
    FV_TRY(fv_file_read(&r->shard->file, r->text, r->bytes, pickle->offset));
    FV_RETURN_IF(r->set->zip_crc &&
                     fv_crc32c_add(r->set->zip_crc, 0, r->text, r->bytes) != pickle->crc,
                 ctx, FV_ERR_FORMAT, "%s: data.pkl has a wrong CRC-32", r->path);
    return FV_OK;
}

static fv_status read_archive(reader *r, fv_pickle **pickle)
{
    fv_ctx *ctx = r->set->ctx;
    fv_zip_entry *entries = NULL;
    fv_pickle_tensor *tensors = NULL;
    size_t count = 0, tensor_count = 0;
    uint32_t root = 0;
    FV_TRY(fv_zip_list(&r->shard->file, &r->set->arena, &entries, &count));
    const fv_zip_entry *found = find_pickle(entries, count);
    FV_RETURN_IF(!found, ctx, FV_ERR_FORMAT,
                 "%s: a zip archive without data.pkl, so not saved by PyTorch", r->path);
    FV_TRY(check_order(r, entries, count, found));
    FV_TRY(list_storages(r, entries, count, found));
    FV_TRY(read_pickle(r, found));
    FV_TRY(fv_pickle_create(ctx, r->path, r->text, r->bytes, pickle));
    FV_TRY(fv_pickle_run(*pickle, &root));
    FV_TRY(fv_pickle_tensors(*pickle, root, &r->set->arena, &tensors, &tensor_count));
    return make_entries(r, tensors, tensor_count);
}

/* ---- the older form -------------------------------------------------------------------------- */

/* Notes the element size of every storage; the file does not repeat it. */
static fv_status note_elements(const reader *r, const fv_pickle_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t at = 0;
        FV_TRY(find_storage(r, tensors[i].storage, &at));
        fv_torch_storage *s = &r->shard->storages[at];
        FV_RETURN_IF(s->bytes && s->bytes != tensors[i].dtype->bytes, r->set->ctx, FV_ERR_FORMAT,
                     "%s: tensors of different types share a storage", r->path);
        s->bytes = tensors[i].dtype->bytes;
    }
    return FV_OK;
}

/* Turns element sizes into offsets and sizes: the storages follow each other from `at` on. */
static fv_status place_storages(const reader *r, uint64_t at)
{
    const fv_file *file = &r->shard->file;
    for (size_t i = 0; i < r->storage_count; i++) {
        fv_torch_storage *s = &r->shard->storages[i];
        unsigned char raw[8];
        uint64_t count = 0, bytes = 0;
        FV_RETURN_IF(s->bytes == 0 || file->bytes - at < sizeof raw, r->set->ctx, FV_ERR_FORMAT,
                     "%s: truncated, or a storage belongs to no tensor", r->path);
        FV_TRY(fv_file_read(file, raw, sizeof raw, at));
        at += sizeof raw;
        for (int k = 7; k >= 0; k--)
            count = count << 8 | raw[k];
        FV_RETURN_IF(__builtin_mul_overflow(count, s->bytes, &bytes) || bytes > file->bytes - at,
                     r->set->ctx, FV_ERR_FORMAT,
                     "%s: truncated: a storage of %llu elements is outside the file", r->path,
                     (unsigned long long)count);
        s->offset = at;
        s->bytes = bytes;
        at += bytes;
    }
    return FV_OK;
}

static fv_status read_old(reader *r, fv_pickle **pickle)
{
    fv_ctx *ctx = r->set->ctx;
    const fv_file *file = &r->shard->file;
    const uint64_t limit = ctx->limits.header_bytes;
    const uint64_t rest = file->bytes - sizeof OLD_START;
    fv_pickle_tensor *tensors = NULL;
    fv_pickle_text *keys = NULL;
    size_t count = 0;
    uint32_t root = 0;
    FV_RETURN_IF(r->set->flags & FV_SAFETENSORS_VERIFY, ctx, FV_ERR_FORMAT,
                 "%s: saved by torch older than 1.6, without checksums to verify", r->path);
    FV_TRY(take_text(r, rest < limit ? rest : limit));
    FV_TRY(fv_file_read(file, r->text, r->bytes, sizeof OLD_START));
    FV_TRY(fv_pickle_create(ctx, r->path, r->text, r->bytes, pickle));
    FV_TRY(fv_pickle_run(*pickle, &root)); /* the machine that saved it */
    FV_TRY(fv_pickle_run(*pickle, &root));
    FV_TRY(fv_pickle_tensors(*pickle, root, &r->set->arena, &tensors, &count));
    FV_TRY(fv_pickle_run(*pickle, &root));
    FV_TRY(fv_pickle_strings(*pickle, root, &r->set->arena, &keys, &r->storage_count));
    r->shard->storages =
        fv_arena_array(&r->set->arena, r->storage_count, sizeof *r->shard->storages);
    FV_RETURN_IF(!r->shard->storages, ctx, FV_ERR_MEMORY, "%s: out of memory", r->path);
    for (size_t i = 0; i < r->storage_count; i++)
        r->shard->storages[i] =
            (fv_torch_storage){.key = keys[i].text, .key_bytes = keys[i].bytes, .verified = true};
    FV_TRY(sort_storages(r));
    FV_TRY(note_elements(r, tensors, count));
    FV_TRY(place_storages(r, sizeof OLD_START + fv_pickle_done(*pickle)));
    return make_entries(r, tensors, count);
}

fv_status fv_torch_read_header(fv_safetensors *set, size_t number)
{
    fv_safetensors_shard *shard = &set->shards[number];
    reader r = {.set = set, .shard = shard, .number = number, .path = shard->file.path};
    fv_pickle *pickle = NULL;
    if (set->crc && !set->zip_crc) {
        set->zip_crc = fv_arena_alloc(&set->arena, sizeof *set->zip_crc);
        FV_RETURN_IF(!set->zip_crc, set->ctx, FV_ERR_MEMORY, "%s: out of memory", r.path);
        fv_crc32c_init_zip(set->zip_crc);
    }
    const fv_status status =
        shard->form == FV_WEIGHTS_TORCH ? read_archive(&r, &pickle) : read_old(&r, &pickle);
    fv_pickle_free(&pickle);
    fv_mem_free(&set->ctx->mem, r.text, r.bytes);
    return status;
}
