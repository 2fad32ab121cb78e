#include "io/zip.h"

#include <string.h>

#include "base/checked_math.h"
#include "io/sort.h"
#include "io/utf8.h"

enum {
    LOCAL_MARK = 0x04034B50,
    CENTRAL_MARK = 0x02014B50,
    END_MARK = 0x06054B50,
    END64_MARK = 0x06064B50,
    LOCATOR_MARK = 0x07064B50,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    EXTRA_ZIP64 = 1,
    LARGEST_COMMENT = 65535,
    FLAG_ENCRYPTED = 1,
    FLAG_UTF8 = 1 << 11,
    METHOD_STORED = 0,
    METHOD_DEFLATED = 8,
    /* Deflate expands a byte to at most about 1032 bytes. */
    LARGEST_RATIO = 1040
};

static uint32_t get16(const unsigned char *p) { return (uint32_t)(p[0] | p[1] << 8); }
static uint32_t get32(const unsigned char *p) { return get16(p) | get16(p + 2) << 16; }
static uint64_t get64(const unsigned char *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

/* A field of ones: the number is in a record of ZIP64. */
static bool is_elsewhere(uint64_t field) { return field == UINT32_MAX; }

static void put16(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)v;
    p[1] = (unsigned char)(v >> 8);
}

static void put32(unsigned char *p, uint32_t v)
{
    put16(p, v);
    put16(p + 2, v >> 16);
}

/* ---- directory ------------------------------------------------------------------- */

typedef struct directory {
    uint64_t offset, bytes;
    uint64_t end; /* offset of the end record, which lies after the directory */
    uint64_t count, count_here;
} directory;

/* The larger end record of ZIP64, which a locator right before the plain one points to. */
static fv_status read_end64(const fv_file *file, uint64_t end_offset, directory *out)
{
    fv_ctx *ctx = file->ctx;
    unsigned char locator[LOCATOR_BYTES], end[END64_BYTES];
    FV_RETURN_IF(end_offset < LOCATOR_BYTES + END64_BYTES, ctx, FV_ERR_FORMAT,
                 "%s: the archive has no ZIP64 end record", file->path);
    const uint64_t last = end_offset - LOCATOR_BYTES;
    FV_TRY(fv_file_read(file, locator, sizeof locator, last));
    const uint64_t at = get64(locator + 8);
    FV_RETURN_IF(get32(locator) != LOCATOR_MARK || at > last - END64_BYTES, ctx, FV_ERR_FORMAT,
                 "%s: the archive has no ZIP64 end record", file->path);
    FV_TRY(fv_file_read(file, end, sizeof end, at));
    FV_RETURN_IF(get32(end) != END64_MARK, ctx, FV_ERR_FORMAT,
                 "%s: the archive has no ZIP64 end record", file->path);
    FV_RETURN_IF(get32(end + 16) != 0 || get32(end + 20) != 0, ctx, FV_ERR_FORMAT,
                 "%s: multi-part archives are not supported", file->path);
    *out = (directory){.offset = get64(end + 48),
                       .bytes = get64(end + 40),
                       .end = at,
                       .count = get64(end + 32),
                       .count_here = get64(end + 24)};
    return FV_OK;
}

static fv_status parse_end(const fv_file *file, const unsigned char *end, uint64_t end_offset,
                           directory *out)
{
    fv_ctx *ctx = file->ctx;
    directory d = {.offset = get32(end + 16),
                   .bytes = get32(end + 12),
                   .end = end_offset,
                   .count = get16(end + 10),
                   .count_here = get16(end + 8)};
    FV_RETURN_IF(get16(end + 4) != 0 || get16(end + 6) != 0, ctx, FV_ERR_FORMAT,
                 "%s: multi-part archives are not supported", file->path);
    if (d.count == UINT16_MAX || is_elsewhere(d.bytes) || is_elsewhere(d.offset))
        FV_TRY(read_end64(file, end_offset, &d));
    FV_RETURN_IF(d.count_here != d.count, ctx, FV_ERR_FORMAT,
                 "%s: multi-part archives are not supported", file->path);
    FV_RETURN_IF(d.offset > d.end || d.bytes > d.end - d.offset, ctx, FV_ERR_FORMAT,
                 "%s: the archive's directory is outside the file", file->path);
    FV_RETURN_IF(d.count > d.bytes / FV_ZIP_CENTRAL_BYTES, ctx, FV_ERR_FORMAT,
                 "%s: the archive's directory has %llu bytes, too few for %llu entries", file->path,
                 (unsigned long long)d.bytes, (unsigned long long)d.count);
    FV_RETURN_IF(d.bytes > ctx->limits.header_bytes, ctx, FV_ERR_LIMIT,
                 "%s: the archive's directory has %llu bytes, the limit is %llu", file->path,
                 (unsigned long long)d.bytes, (unsigned long long)ctx->limits.header_bytes);
    FV_RETURN_IF(d.count > ctx->limits.tensors, ctx, FV_ERR_LIMIT,
                 "%s: the archive has %llu entries, the limit is %llu", file->path,
                 (unsigned long long)d.count, (unsigned long long)ctx->limits.tensors);
    *out = d;
    return FV_OK;
}

/* The end record is followed by a comment of unknown length, so it has to be searched for. */
static fv_status find_end(const fv_file *file, directory *out)
{
    fv_ctx *ctx = file->ctx;
    uint64_t tail = FV_ZIP_END_BYTES + LARGEST_COMMENT;
    if (tail > file->bytes) tail = file->bytes;
    FV_RETURN_IF(tail < FV_ZIP_END_BYTES, ctx, FV_ERR_FORMAT, "%s: too short for a zip archive",
                 file->path);
    unsigned char *buffer = fv_mem_alloc(&ctx->mem, (size_t)tail);
    FV_RETURN_IF(!buffer, ctx, FV_ERR_MEMORY, "%s: out of memory", file->path);
    fv_status status = fv_file_read(file, buffer, (size_t)tail, file->bytes - tail);
    if (status == FV_OK) {
        size_t at = (size_t)tail - FV_ZIP_END_BYTES + 1;
        bool found = false;
        while (at > 0 && !found) {
            at--;
            found = get32(buffer + at) == END_MARK &&
                    get16(buffer + at + 20) == tail - at - FV_ZIP_END_BYTES;
        }
        status = found
                     ? parse_end(file, buffer + at, file->bytes - tail + at, out)
                     : fv_fail(ctx, FV_ERR_FORMAT, "%s: the archive has no end record", file->path);
    }
    fv_mem_free(&ctx->mem, buffer, (size_t)tail);
    return status;
}

static fv_status check_sizes(const fv_file *file, const fv_zip_entry *e, uint32_t flags,
                             uint32_t method)
{
    fv_ctx *ctx = file->ctx;
    char name[FV_QUOTED_BYTES];
    fv_quote(e->name, e->name_bytes, name);
    FV_RETURN_IF(flags & FLAG_ENCRYPTED, ctx, FV_ERR_UNSUPPORTED, "%s: \"%s\" is encrypted",
                 file->path, name);
    FV_RETURN_IF(method != METHOD_STORED && method != METHOD_DEFLATED, ctx, FV_ERR_UNSUPPORTED,
                 "%s: \"%s\" uses compression method %u, expected stored or deflated", file->path,
                 name, method);
    FV_RETURN_IF(e->compressed_bytes > file->bytes || e->header > file->bytes, ctx, FV_ERR_FORMAT,
                 "%s: \"%s\" is outside the archive", file->path, name);
    FV_RETURN_IF(!e->deflated && e->compressed_bytes != e->bytes, ctx, FV_ERR_FORMAT,
                 "%s: \"%s\" is stored, but its two sizes differ", file->path, name);
    FV_RETURN_IF(e->bytes > e->compressed_bytes * LARGEST_RATIO, ctx, FV_ERR_FORMAT,
                 "%s: %llu bytes of \"%s\" cannot decompress to %llu", file->path,
                 (unsigned long long)e->compressed_bytes, name, (unsigned long long)e->bytes);
    return FV_OK;
}

/* Fields of ones take their number from the ZIP64 field of the record's extra data, in this order;
 * one that is not there stays as it is, and is outside of any archive below 4 GiB. */
static void read_extra(const unsigned char *p, size_t bytes, fv_zip_entry *e)
{
    uint64_t *const fields[] = {&e->bytes, &e->compressed_bytes, &e->header};
    for (size_t at = 0; bytes - at >= 4;) {
        const size_t length = get16(p + at + 2);
        if (length > bytes - at - 4) return;
        const unsigned char *next = p + at + 4, *stop = next + length;
        if (get16(p + at) == EXTRA_ZIP64) {
            for (int i = 0; i < 3; i++) {
                if (!is_elsewhere(*fields[i]) || stop - next < 8) continue;
                *fields[i] = get64(next);
                next += 8;
            }
            return;
        }
        at += 4 + length;
    }
}

/* Parses the record at `p`; `left` bytes of the directory remain. *used is its length. */
static fv_status parse_record(const fv_file *file, fv_arena *arena, const unsigned char *p,
                              size_t left, fv_zip_entry *e, size_t *used)
{
    fv_ctx *ctx = file->ctx;
    FV_RETURN_IF(left < FV_ZIP_CENTRAL_BYTES || get32(p) != CENTRAL_MARK, ctx, FV_ERR_FORMAT,
                 "%s: the archive's directory is corrupt", file->path);
    size_t name_bytes = get16(p + 28);
    size_t extra_bytes = get16(p + 30);
    size_t record = FV_ZIP_CENTRAL_BYTES + name_bytes + extra_bytes + get16(p + 32);
    FV_RETURN_IF(record > left, ctx, FV_ERR_FORMAT, "%s: the archive's directory is corrupt",
                 file->path);
    const char *name = (const char *)p + FV_ZIP_CENTRAL_BYTES;
    uint64_t limit = ctx->limits.name_bytes + sizeof ".npy" - 1;
    FV_RETURN_IF(name_bytes > limit, ctx, FV_ERR_LIMIT,
                 "%s: a name has %zu bytes, the limit is %llu", file->path, name_bytes,
                 (unsigned long long)limit);
    FV_RETURN_IF(!fv_utf8_valid(name, name_bytes) || memchr(name, '\0', name_bytes), ctx,
                 FV_ERR_FORMAT, "%s: a name is not UTF-8", file->path);
    uint32_t method = get16(p + 10);
    *e = (fv_zip_entry){.name = fv_arena_text(arena, name, name_bytes),
                        .name_bytes = name_bytes,
                        .deflated = method == METHOD_DEFLATED,
                        .crc = get32(p + 16),
                        .compressed_bytes = get32(p + 20),
                        .bytes = get32(p + 24),
                        .header = get32(p + 42)};
    FV_RETURN_IF(!e->name, ctx, FV_ERR_MEMORY, "%s: out of memory", file->path);
    read_extra(p + FV_ZIP_CENTRAL_BYTES + name_bytes, extra_bytes, e);
    *used = record;
    return check_sizes(file, e, get16(p + 8), method);
}

/* Finds the data from the local header, whose name must match. */
static fv_status find_data(const fv_file *file, const directory *dir, fv_zip_entry *e)
{
    fv_ctx *ctx = file->ctx;
    unsigned char local[FV_ZIP_LOCAL_BYTES];
    char name[256], quoted[FV_QUOTED_BYTES];
    fv_quote(e->name, e->name_bytes, quoted);
    FV_RETURN_IF(e->header + sizeof local + e->name_bytes > dir->offset, ctx, FV_ERR_FORMAT,
                 "%s: \"%s\" is outside the archive", file->path, quoted);
    FV_TRY(fv_file_read(file, local, sizeof local, e->header));
    FV_RETURN_IF(get32(local) != LOCAL_MARK || get16(local + 26) != e->name_bytes, ctx,
                 FV_ERR_FORMAT, "%s: \"%s\" has a corrupt header", file->path, quoted);
    for (size_t done = 0; done < e->name_bytes;) {
        size_t n = e->name_bytes - done < sizeof name ? e->name_bytes - done : sizeof name;
        FV_TRY(fv_file_read(file, name, n, e->header + sizeof local + done));
        FV_RETURN_IF(memcmp(name, e->name + done, n) != 0, ctx, FV_ERR_FORMAT,
                     "%s: \"%s\" has another name in its local header", file->path, quoted);
        done += n;
    }
    e->offset = e->header + sizeof local + e->name_bytes + get16(local + 28);
    FV_RETURN_IF(e->offset + e->compressed_bytes > dir->offset, ctx, FV_ERR_FORMAT,
                 "%s: \"%s\" is outside the archive", file->path, quoted);
    return FV_OK;
}

static int compare_headers(const void *entries, uint32_t a, uint32_t b)
{
    const fv_zip_entry *e = entries;
    return (e[a].header > e[b].header) - (e[a].header < e[b].header);
}

/* Overlapping entries are how zip bombs decompress to huge sizes. */
static fv_status check_overlap(const fv_file *file, const fv_zip_entry *entries, size_t count)
{
    fv_ctx *ctx = file->ctx;
    size_t bytes = 2 * count * sizeof(uint32_t); /* the directory bounds the count */
    uint32_t *order = fv_mem_alloc(&ctx->mem, bytes);
    FV_RETURN_IF(!order, ctx, FV_ERR_MEMORY, "%s: out of memory", file->path);
    fv_argsort(entries, count, compare_headers, order, order + count);
    bool disjoint = true;
    for (size_t i = 1; i < count; i++) {
        const fv_zip_entry *before = &entries[order[i - 1]];
        disjoint =
            disjoint && before->offset + before->compressed_bytes <= entries[order[i]].header;
    }
    fv_mem_free(&ctx->mem, order, bytes);
    FV_RETURN_IF(!disjoint, ctx, FV_ERR_FORMAT, "%s: entries of the archive overlap", file->path);
    return FV_OK;
}

static fv_status read_directory(const fv_file *file, fv_arena *arena, const directory *dir,
                                const unsigned char *records, fv_zip_entry *entries)
{
    size_t at = 0;
    uint64_t total = 0;
    for (size_t i = 0; i < dir->count; i++) {
        size_t used = 0;
        FV_TRY(
            parse_record(file, arena, records + at, (size_t)dir->bytes - at, &entries[i], &used));
        FV_TRY(find_data(file, dir, &entries[i]));
        FV_RETURN_IF(__builtin_add_overflow(total, entries[i].bytes, &total), file->ctx,
                     FV_ERR_FORMAT, "%s: the sizes of the archive's entries overflow", file->path);
        at += used;
    }
    FV_RETURN_IF(at != dir->bytes, file->ctx, FV_ERR_FORMAT,
                 "%s: the archive's directory has %llu extra bytes", file->path,
                 (unsigned long long)(dir->bytes - at));
    FV_RETURN_IF(total > file->ctx->limits.total_bytes, file->ctx, FV_ERR_LIMIT,
                 "%s: decompresses to %llu bytes, the limit is %llu", file->path,
                 (unsigned long long)total, (unsigned long long)file->ctx->limits.total_bytes);
    return check_overlap(file, entries, (size_t)dir->count);
}

fv_status fv_zip_list(const fv_file *file, fv_arena *arena, fv_zip_entry **entries, size_t *count)
{
    fv_ctx *ctx = file->ctx;
    directory dir = {0};
    FV_TRY(find_end(file, &dir));
    unsigned char *records = fv_mem_alloc(&ctx->mem, (size_t)dir.bytes);
    fv_zip_entry *list = fv_arena_array(arena, (size_t)dir.count, sizeof *list);
    fv_status status = FV_OK;
    if (!records || !list) status = fv_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", file->path);
    if (status == FV_OK) status = fv_file_read(file, records, (size_t)dir.bytes, dir.offset);
    if (status == FV_OK) status = read_directory(file, arena, &dir, records, list);
    fv_mem_free(&ctx->mem, records, (size_t)dir.bytes);
    FV_TRY(status);
    *entries = list;
    *count = (size_t)dir.count;
    return FV_OK;
}

/* ---- writing --------------------------------------------------------------------- */

/* 1980-01-01, the earliest date in ZIP: equal data gives equal files. */
enum { DOS_DATE = 1 << 5 | 1, VERSION = 20 };

/* Version, flags, method, time, date, CRC, sizes and length of the name are the same in both
 * headers.
 */
static void put_common(const fv_zip_entry *e, unsigned char *out)
{
    put16(out, VERSION);
    put16(out + 2, FLAG_UTF8);
    put16(out + 4, METHOD_STORED);
    put16(out + 6, 0);
    put16(out + 8, DOS_DATE);
    put32(out + 10, e->crc);
    put32(out + 14, (uint32_t)e->compressed_bytes);
    put32(out + 18, (uint32_t)e->bytes);
    put16(out + 22, (uint32_t)e->name_bytes);
}

void fv_zip_put_local(const fv_zip_entry *entry, unsigned char out[FV_ZIP_LOCAL_BYTES])
{
    memset(out, 0, FV_ZIP_LOCAL_BYTES);
    put32(out, LOCAL_MARK);
    put_common(entry, out + 4);
}

void fv_zip_put_central(const fv_zip_entry *entry, unsigned char out[FV_ZIP_CENTRAL_BYTES])
{
    memset(out, 0, FV_ZIP_CENTRAL_BYTES);
    put32(out, CENTRAL_MARK);
    put16(out + 4, VERSION);
    put_common(entry, out + 6);
    put32(out + 42, (uint32_t)entry->header);
}

void fv_zip_put_end(size_t count, uint64_t offset, uint64_t bytes,
                    unsigned char out[FV_ZIP_END_BYTES])
{
    memset(out, 0, FV_ZIP_END_BYTES);
    put32(out, END_MARK);
    put16(out + 8, (uint32_t)count);
    put16(out + 10, (uint32_t)count);
    put32(out + 12, (uint32_t)bytes);
    put32(out + 16, (uint32_t)offset);
}
