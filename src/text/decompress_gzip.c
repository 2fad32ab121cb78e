/* gzip, where the build has zlib. A file may hold several members: their texts follow each other.
 */
#include "text/source.h"

#ifdef FV_HAVE_ZLIB
#define ZLIB_CONST
#include <limits.h>
#include <zlib.h>

struct fv_unpacker {
    z_stream stream;
    bool ended; /* the last member is complete */
};

static void *take(void *opaque, unsigned items, unsigned size)
{
    return fv_mem_take(opaque, items, size);
}

static void give(void *opaque, void *ptr) { fv_mem_give(opaque, ptr); }

static fv_status begin(fv_source *source)
{
    fv_mem *mem = &source->ctx->mem;
    struct fv_unpacker *u = fv_mem_zalloc(mem, sizeof *u);
    if (u) {
        u->stream = (z_stream){.zalloc = take, .zfree = give, .opaque = mem};
        if (inflateInit2(&u->stream, 16 + MAX_WBITS) == Z_OK) {
            source->unpacker = u;
            return FV_OK;
        }
        fv_mem_free(mem, u, sizeof *u);
    }
    return fv_fail(source->ctx, FV_ERR_MEMORY, "%s: out of memory", source->name);
}

static void end(fv_source *source)
{
    inflateEnd(&source->unpacker->stream);
    fv_mem_free(&source->ctx->mem, source->unpacker, sizeof *source->unpacker);
}

/* Takes in packed bytes; at the end of a member, another one may begin. *more: there are some. */
static fv_status feed(fv_source *source, bool *more)
{
    struct fv_unpacker *u = source->unpacker;
    size_t got = u->stream.avail_in;
    if (got == 0) {
        FV_FORWARD(fv_source_more(source, &got));
        u->stream.next_in = source->input;
        u->stream.avail_in = (unsigned)got;
    }
    *more = got > 0;
    if (got == 0 && !u->ended) return fv_source_damaged(source, "the gzip data ends too early");
    if (got > 0 && u->ended) {
        if (inflateReset(&u->stream) != Z_OK) return fv_source_damaged(source, "damaged gzip data");
        u->ended = false;
    }
    return FV_OK;
}

static fv_status unpack(fv_source *source, void *out, size_t n, size_t *got)
{
    struct fv_unpacker *u = source->unpacker;
    unsigned room = n < UINT_MAX ? (unsigned)n : UINT_MAX;
    u->stream.next_out = out;
    u->stream.avail_out = room;
    while (u->stream.avail_out == room) {
        bool more = false;
        FV_FORWARD(feed(source, &more));
        if (!more) break;
        int code = inflate(&u->stream, Z_NO_FLUSH);
        u->ended = code == Z_STREAM_END;
        FV_RETURN_IF(code == Z_MEM_ERROR, source->ctx, FV_ERR_MEMORY, "%s: out of memory",
                     source->name);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return fv_source_damaged(source, "damaged gzip data");
    }
    *got = room - u->stream.avail_out;
    return FV_OK;
}

#define FUNCTIONS .begin = begin, .read = unpack, .end = end
#else
#define FUNCTIONS .begin = NULL
#endif

const fv_unpacker_kind fv_unpack_gzip = {
    .name = "gzip", .library = "zlib", .magic = {0x1F, 0x8B}, .magic_bytes = 2, FUNCTIONS};
