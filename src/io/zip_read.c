/* Reads one entry of an archive; deflated entries need zlib. */
#include <string.h>

#include "io/utf8.h"
#include "io/zip.h"

static fv_status corrupt(const fv_zip_reader *r, const char *what)
{
    char name[FV_QUOTED_BYTES];
    return fv_fail(r->file->ctx, FV_ERR_FORMAT, "%s: \"%s\" %s", r->file->path,
                   fv_quote(r->entry->name, r->entry->name_bytes, name), what);
}

#ifdef FV_HAVE_ZLIB
#define ZLIB_CONST
#include <zlib.h>

enum { INPUT = 16384 };

struct fv_zip_inflate {
    z_stream stream;
    uint64_t taken; /* compressed bytes handed to zlib */
    bool ended;
    unsigned char input[INPUT];
};

static void *zlib_alloc(void *opaque, unsigned items, unsigned size)
{
    return fv_mem_take(opaque, items, size);
}

static void zlib_free(void *opaque, void *ptr) { fv_mem_give(opaque, ptr); }

static fv_status inflate_begin(fv_zip_reader *r)
{
    fv_ctx *ctx = r->file->ctx;
    struct fv_zip_inflate *z = fv_mem_alloc(&ctx->mem, sizeof *z);
    FV_RETURN_IF(!z, ctx, FV_ERR_MEMORY, "%s: out of memory", r->file->path);
    z->stream = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free, .opaque = &ctx->mem};
    z->taken = 0;
    z->ended = false;
    if (inflateInit2(&z->stream, -MAX_WBITS) != Z_OK) {
        fv_mem_free(&ctx->mem, z, sizeof *z);
        return fv_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", r->file->path);
    }
    r->inflate = z;
    return FV_OK;
}

static fv_status more_input(fv_zip_reader *r)
{
    struct fv_zip_inflate *z = r->inflate;
    uint64_t left = r->entry->compressed_bytes - z->taken;
    size_t n = left < INPUT ? (size_t)left : INPUT;
    FV_TRY(fv_file_read(r->file, z->input, n, r->entry->offset + z->taken));
    z->taken += n;
    z->stream.next_in = z->input;
    z->stream.avail_in = (unsigned)n;
    return FV_OK;
}

static fv_status inflate_some(fv_zip_reader *r, void *out, size_t n)
{
    struct fv_zip_inflate *z = r->inflate;
    z->stream.next_out = out;
    z->stream.avail_out = (unsigned)n;
    while (z->stream.avail_out > 0) {
        if (z->ended) return corrupt(r, "decompresses to fewer bytes than it declares");
        if (z->stream.avail_in == 0) FV_TRY(more_input(r));
        int code = inflate(&z->stream, Z_NO_FLUSH);
        z->ended = code == Z_STREAM_END;
        bool stuck = code == Z_BUF_ERROR && z->taken == r->entry->compressed_bytes;
        if (stuck || (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR))
            return corrupt(r, "has corrupt deflate data");
    }
    return FV_OK;
}

/* Fails if compressed or decompressed bytes are left. */
static fv_status inflate_check(fv_zip_reader *r)
{
    struct fv_zip_inflate *z = r->inflate;
    unsigned char extra;
    while (!z->ended) {
        if (z->stream.avail_in == 0) FV_TRY(more_input(r));
        z->stream.next_out = &extra;
        z->stream.avail_out = 1;
        int code = inflate(&z->stream, Z_NO_FLUSH);
        z->ended = code == Z_STREAM_END;
        if (z->stream.avail_out == 0)
            return corrupt(r, "decompresses to more bytes than it declares");
        bool stuck = code == Z_BUF_ERROR && z->taken == r->entry->compressed_bytes;
        if (stuck || (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR))
            return corrupt(r, "has corrupt deflate data");
    }
    if (z->stream.avail_in > 0 || z->taken != r->entry->compressed_bytes)
        return corrupt(r, "has extra bytes after its deflate data");
    return FV_OK;
}

static void inflate_finish(fv_zip_reader *r)
{
    inflateEnd(&r->inflate->stream);
    fv_mem_free(&r->file->ctx->mem, r->inflate, sizeof *r->inflate);
}

#else

static fv_status inflate_begin(fv_zip_reader *r)
{
    char name[FV_QUOTED_BYTES];
    return fv_fail(r->file->ctx, FV_ERR_UNSUPPORTED,
                   "%s: \"%s\" is deflated, which needs a build with zlib", r->file->path,
                   fv_quote(r->entry->name, r->entry->name_bytes, name));
}

/* Never reached: fv_zip_begin has failed. */
static fv_status inflate_some(fv_zip_reader *r, void *out, size_t n)
{
    (void)out;
    (void)n;
    return inflate_begin(r);
}

static fv_status inflate_check(fv_zip_reader *r) { return inflate_begin(r); }
static void inflate_finish(fv_zip_reader *r) { r->inflate = NULL; }

#endif

fv_status fv_zip_begin(fv_zip_reader *r, const fv_file *file, const fv_zip_entry *entry,
                       const fv_crc *crc)
{
    *r = (fv_zip_reader){.file = file, .entry = entry, .crc = crc};
    return entry->deflated ? inflate_begin(r) : FV_OK;
}

fv_status fv_zip_read(fv_zip_reader *r, void *out, size_t n)
{
    /* In chunks: zlib counts in unsigned, and the CRC is faster while the bytes are in the cache.
     */
    enum { CHUNK = 1 << 18 };
    if (n > r->entry->bytes - r->done) return corrupt(r, "is shorter than its header declares");
    for (size_t done = 0; done < n;) {
        size_t chunk = n - done < CHUNK ? n - done : CHUNK;
        char *at = (char *)out + done;
        FV_TRY(r->inflate ? inflate_some(r, at, chunk)
                          : fv_file_read(r->file, at, chunk, r->entry->offset + r->done));
        r->sum = fv_crc_add(r->crc, r->sum, at, chunk);
        r->done += chunk;
        done += chunk;
    }
    return FV_OK;
}

fv_status fv_zip_check(fv_zip_reader *r)
{
    if (r->done != r->entry->bytes) return corrupt(r, "is longer than its array");
    if (r->inflate) FV_TRY(inflate_check(r));
    return r->sum == r->entry->crc ? FV_OK : corrupt(r, "has a wrong CRC-32");
}

void fv_zip_end(fv_zip_reader *r)
{
    if (r->inflate) inflate_finish(r);
    r->inflate = NULL;
}
