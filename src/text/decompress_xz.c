/* xz, if the build has liblzma. Several streams in a file are concatenated. */
#include "text/byte_stream.h"

#ifdef FV_HAVE_LibLZMA
#include <lzma.h>

/* Larger dictionaries are rejected; xz -9 needs 64 MiB. */
enum { DECODER_MEMORY = 256 << 20 };

struct fv_decompressor {
    lzma_stream stream;
    lzma_allocator allocator;
    bool ended, finishing;
};

static void *lib_alloc(void *opaque, size_t items, size_t size)
{
    return fv_mem_take(opaque, items, size);
}

static void lib_free(void *opaque, void *ptr) { fv_mem_give(opaque, ptr); }

static fv_status begin(fv_byte_stream *stream)
{
    fv_mem *mem = &stream->ctx->mem;
    struct fv_decompressor *u = fv_mem_zalloc(mem, sizeof *u);
    if (u) {
        u->allocator = (lzma_allocator){.alloc = lib_alloc, .free = lib_free, .opaque = mem};
        u->stream = (lzma_stream)LZMA_STREAM_INIT;
        u->stream.allocator = &u->allocator;
        if (lzma_stream_decoder(&u->stream, DECODER_MEMORY, LZMA_CONCATENATED) == LZMA_OK) {
            stream->decompressor = u;
            return FV_OK;
        }
        fv_mem_free(mem, u, sizeof *u);
    }
    return fv_fail(stream->ctx, FV_ERR_MEMORY, "%s: out of memory", stream->name);
}

static void end(fv_byte_stream *stream)
{
    lzma_end(&stream->decompressor->stream);
    fv_mem_free(&stream->ctx->mem, stream->decompressor, sizeof *stream->decompressor);
}

static fv_status check(const fv_byte_stream *stream, lzma_ret code)
{
    switch (code) {
    case LZMA_OK:
    case LZMA_STREAM_END:
        return FV_OK;
    case LZMA_MEM_ERROR:
        return fv_fail(stream->ctx, FV_ERR_MEMORY, "%s: out of memory", stream->name);
    case LZMA_MEMLIMIT_ERROR:
        return fv_fail(stream->ctx, FV_ERR_LIMIT, "%s: needs more than %d MiB to decompress",
                       stream->name, DECODER_MEMORY >> 20);
    case LZMA_BUF_ERROR:
        return fv_byte_stream_corrupt(stream, "truncated xz data");
    default:
        return fv_byte_stream_corrupt(stream, "corrupt xz data");
    }
}

static fv_status decompress(fv_byte_stream *stream, void *out, size_t n, size_t *got)
{
    struct fv_decompressor *u = stream->decompressor;
    u->stream.next_out = out;
    u->stream.avail_out = n;
    while (u->stream.avail_out == n && !u->ended) {
        if (u->stream.avail_in == 0 && !u->finishing) {
            size_t more = 0;
            FV_TRY(fv_byte_stream_refill(stream, &more));
            u->stream.next_in = stream->input;
            u->stream.avail_in = more;
            u->finishing = more == 0;
        }
        lzma_ret code = lzma_code(&u->stream, u->finishing ? LZMA_FINISH : LZMA_RUN);
        FV_TRY(check(stream, code));
        u->ended = code == LZMA_STREAM_END;
    }
    *got = n - u->stream.avail_out;
    return FV_OK;
}

#define FUNCTIONS .begin = begin, .read = decompress, .end = end
#else
#define FUNCTIONS .begin = NULL
#endif

const fv_decompressor_kind fv_decompress_xz = {.name = "xz",
                                               .library = "liblzma",
                                               .magic = {0xFD, '7', 'z', 'X', 'Z', 0},
                                               .magic_bytes = 6,
                                               FUNCTIONS};
