/* gzip, if the build has zlib. A file may have several members, which are concatenated. */
#include "text/byte_stream.h"

#ifdef FV_HAVE_ZLIB
#define ZLIB_CONST
#include <limits.h>
#include <zlib.h>

struct fv_decompressor {
    z_stream stream;
    bool ended; /* the last member is complete */
};

static void *lib_alloc(void *opaque, unsigned items, unsigned size)
{
    return fv_mem_take(opaque, items, size);
}

static void lib_free(void *opaque, void *ptr) { fv_mem_give(opaque, ptr); }

static fv_status begin(fv_byte_stream *stream)
{
    fv_mem *mem = &stream->ctx->mem;
    struct fv_decompressor *u = fv_mem_zalloc(mem, sizeof *u);
    if (u) {
        u->stream = (z_stream){.zalloc = lib_alloc, .zfree = lib_free, .opaque = mem};
        if (inflateInit2(&u->stream, 16 + MAX_WBITS) == Z_OK) {
            stream->decompressor = u;
            return FV_OK;
        }
        fv_mem_free(mem, u, sizeof *u);
    }
    return fv_fail(stream->ctx, FV_ERR_MEMORY, "%s: out of memory", stream->name);
}

static void end(fv_byte_stream *stream)
{
    inflateEnd(&stream->decompressor->stream);
    fv_mem_free(&stream->ctx->mem, stream->decompressor, sizeof *stream->decompressor);
}

/* Reads compressed bytes; after the end of a member, another one may begin. *more: there were some.
 */
static fv_status feed(fv_byte_stream *stream, bool *more)
{
    struct fv_decompressor *u = stream->decompressor;
    size_t got = u->stream.avail_in;
    if (got == 0) {
        FV_TRY(fv_byte_stream_refill(stream, &got));
        u->stream.next_in = stream->input;
        u->stream.avail_in = (unsigned)got;
    }
    *more = got > 0;
    if (got == 0 && !u->ended) return fv_byte_stream_corrupt(stream, "truncated gzip data");
    if (got > 0 && u->ended) {
        if (inflateReset(&u->stream) != Z_OK)
            return fv_byte_stream_corrupt(stream, "corrupt gzip data");
        u->ended = false;
    }
    return FV_OK;
}

static fv_status decompress(fv_byte_stream *stream, void *out, size_t n, size_t *got)
{
    struct fv_decompressor *u = stream->decompressor;
    unsigned room = n < UINT_MAX ? (unsigned)n : UINT_MAX;
    u->stream.next_out = out;
    u->stream.avail_out = room;
    while (u->stream.avail_out == room) {
        bool more = false;
        FV_TRY(feed(stream, &more));
        if (!more) break;
        int code = inflate(&u->stream, Z_NO_FLUSH);
        u->ended = code == Z_STREAM_END;
        FV_RETURN_IF(code == Z_MEM_ERROR, stream->ctx, FV_ERR_MEMORY, "%s: out of memory",
                     stream->name);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return fv_byte_stream_corrupt(stream, "corrupt gzip data");
    }
    *got = room - u->stream.avail_out;
    return FV_OK;
}

#define FUNCTIONS .begin = begin, .read = decompress, .end = end
#else
#define FUNCTIONS .begin = NULL
#endif

const fv_decompressor_kind fv_decompress_gzip = {
    .name = "gzip", .library = "zlib", .magic = {0x1F, 0x8B}, .magic_bytes = 2, FUNCTIONS};
