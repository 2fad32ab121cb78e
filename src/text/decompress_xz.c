/* xz, where the build has liblzma; several streams in a file follow each other. */
#include "text/source.h"

#ifdef FV_HAVE_LibLZMA
#include <lzma.h>

/* Dictionaries above this are refused: xz -9 needs 64 MiB. */
enum { UNPACK_MEMORY = 256 << 20 };

struct fv_unpacker {
    lzma_stream stream;
    lzma_allocator allocator;
    bool ended, finishing;
};

static void *take(void *opaque, size_t items, size_t size)
{
    return fv_mem_take(opaque, items, size);
}

static void give(void *opaque, void *ptr) { fv_mem_give(opaque, ptr); }

static fv_status begin(fv_source *source)
{
    fv_mem *mem = &source->ctx->mem;
    struct fv_unpacker *u = fv_mem_zalloc(mem, sizeof *u);
    if (u) {
        u->allocator = (lzma_allocator){.alloc = take, .free = give, .opaque = mem};
        u->stream = (lzma_stream)LZMA_STREAM_INIT;
        u->stream.allocator = &u->allocator;
        if (lzma_stream_decoder(&u->stream, UNPACK_MEMORY, LZMA_CONCATENATED) == LZMA_OK) {
            source->unpacker = u;
            return FV_OK;
        }
        fv_mem_free(mem, u, sizeof *u);
    }
    return fv_fail(source->ctx, FV_ERR_MEMORY, "%s: out of memory", source->name);
}

static void end(fv_source *source)
{
    lzma_end(&source->unpacker->stream);
    fv_mem_free(&source->ctx->mem, source->unpacker, sizeof *source->unpacker);
}

static fv_status check(const fv_source *source, lzma_ret code)
{
    switch (code) {
    case LZMA_OK:
    case LZMA_STREAM_END:
        return FV_OK;
    case LZMA_MEM_ERROR:
        return fv_fail(source->ctx, FV_ERR_MEMORY, "%s: out of memory", source->name);
    case LZMA_MEMLIMIT_ERROR:
        return fv_fail(source->ctx, FV_ERR_LIMIT, "%s: needs more than %d MiB to unpack",
                       source->name, UNPACK_MEMORY >> 20);
    case LZMA_BUF_ERROR:
        return fv_source_damaged(source, "the xz data ends too early");
    default:
        return fv_source_damaged(source, "damaged xz data");
    }
}

static fv_status unpack(fv_source *source, void *out, size_t n, size_t *got)
{
    struct fv_unpacker *u = source->unpacker;
    u->stream.next_out = out;
    u->stream.avail_out = n;
    while (u->stream.avail_out == n && !u->ended) {
        if (u->stream.avail_in == 0 && !u->finishing) {
            size_t more = 0;
            FV_FORWARD(fv_source_more(source, &more));
            u->stream.next_in = source->input;
            u->stream.avail_in = more;
            u->finishing = more == 0;
        }
        lzma_ret code = lzma_code(&u->stream, u->finishing ? LZMA_FINISH : LZMA_RUN);
        FV_FORWARD(check(source, code));
        u->ended = code == LZMA_STREAM_END;
    }
    *got = n - u->stream.avail_out;
    return FV_OK;
}

#define FUNCTIONS .begin = begin, .read = unpack, .end = end
#else
#define FUNCTIONS .begin = NULL
#endif

const fv_unpacker_kind fv_unpack_xz = {.name = "xz",
                                       .library = "liblzma",
                                       .magic = {0xFD, '7', 'z', 'X', 'Z', 0},
                                       .magic_bytes = 6,
                                       FUNCTIONS};
