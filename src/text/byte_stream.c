#include "text/source.h"

#include <string.h>

fv_status fv_source_damaged(const fv_source *source, const char *what)
{
    return fv_fail(source->ctx, FV_ERR_FORMAT, "%s: %s", source->name, what);
}

static fv_status ask_reader(fv_source *source, void *out, size_t n, size_t *got)
{
    const fv_status status = source->reader(source->user, out, n, got);
    FV_RETURN_IF(status != FV_OK, source->ctx, status, "%s: cannot be read", source->name);
    FV_RETURN_IF(*got > n, source->ctx, FV_ERR_ARGUMENT, "%s: %zu bytes read, %zu asked for",
                 source->name, *got, n);
    return FV_OK;
}

static fv_status read_stream(fv_source *source, void *out, size_t n, size_t *got)
{
    const size_t kept = source->start_end - source->start_begin;
    size_t piece = kept < n ? kept : n;
    memcpy(out, source->start + source->start_begin, piece);
    source->start_begin += piece;
    if (piece == 0) FV_FORWARD(ask_reader(source, out, n, &piece));
    *got = piece;
    return FV_OK;
}

static fv_status read_packed(fv_source *source, void *out, size_t n, size_t *got)
{
    if (source->reader) return read_stream(source, out, n, got);
    uint64_t left = source->bytes - source->at;
    size_t piece = left < n ? (size_t)left : n;
    if (source->is_file)
        FV_FORWARD(fv_file_read(&source->file, out, piece, source->at));
    else if (piece)
        memcpy(out, source->memory + source->at, piece);
    source->at += piece;
    *got = piece;
    return FV_OK;
}

fv_status fv_source_more(fv_source *source, size_t *got)
{
    return read_packed(source, source->input, FV_SOURCE_INPUT, got);
}

static const fv_unpacker_kind *const kinds[] = {&fv_unpack_gzip, &fv_unpack_xz};

/* Reads the first bytes of a stream, no more of them than it takes to tell: somebody may be waiting
 * for an answer to a short line. */
static fv_status peek(fv_source *source)
{
    bool packed = true;
    for (size_t got = 1; packed && got > 0 && source->start_end < FV_SOURCE_START;) {
        FV_FORWARD(ask_reader(source, source->start + source->start_end,
                              FV_SOURCE_START - source->start_end, &got));
        source->start_end += got;
        packed = false;
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            packed = packed || source->start[0] == kinds[i]->magic[0];
    }
    return FV_OK;
}

static fv_status first_bytes(fv_source *source, unsigned char start[FV_SOURCE_START], size_t *got)
{
    if (!source->reader) {
        FV_FORWARD(read_packed(source, start, FV_SOURCE_START, got));
        source->at = 0;
        return FV_OK;
    }
    FV_FORWARD(peek(source));
    memcpy(start, source->start, FV_SOURCE_START);
    *got = source->start_end;
    return FV_OK;
}

/* Looks at the first bytes, and begins to unpack if they say so. */
static fv_status choose_unpacker(fv_source *source)
{
    unsigned char start[FV_SOURCE_START] = {0};
    size_t got = 0;
    FV_FORWARD(first_bytes(source, start, &got));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const fv_unpacker_kind *kind = kinds[i];
        if (got < kind->magic_bytes || memcmp(start, kind->magic, kind->magic_bytes) != 0) continue;
        FV_RETURN_IF(!kind->begin, source->ctx, FV_ERR_UNSUPPORTED,
                     "%s: %s data, and this build has no %s", source->name, kind->name,
                     kind->library);
        source->input = fv_mem_alloc(&source->ctx->mem, FV_SOURCE_INPUT);
        FV_RETURN_IF(!source->input, source->ctx, FV_ERR_MEMORY, "%s: out of memory", source->name);
        FV_FORWARD(kind->begin(source));
        source->kind = kind;
        return FV_OK;
    }
    return FV_OK;
}

static fv_status begin(fv_ctx *ctx, const char *name, fv_source *out)
{
    size_t n = strlen(name) + 1;
    *out = (fv_source){.ctx = ctx, .name = fv_mem_alloc(&ctx->mem, n), .name_room = n};
    FV_RETURN_IF(!out->name, ctx, FV_ERR_MEMORY, "%s: out of memory", name);
    memcpy(out->name, name, n);
    return FV_OK;
}

static fv_status finish_open(fv_source *source)
{
    fv_status s = choose_unpacker(source);
    if (s != FV_OK) fv_source_close(source);
    return s;
}

fv_status fv_source_open(fv_ctx *ctx, const char *path, fv_source *out)
{
    FV_FORWARD(begin(ctx, path, out));
    fv_status s = fv_file_open(ctx, out->name, &out->file);
    if (s != FV_OK) {
        fv_source_close(out);
        return s;
    }
    out->is_file = true;
    out->bytes = out->file.bytes;
    return finish_open(out);
}

fv_status fv_source_open_memory(fv_ctx *ctx, const char *name, const void *data, size_t bytes,
                                fv_source *out)
{
    FV_FORWARD(begin(ctx, name, out));
    out->memory = data;
    out->bytes = bytes;
    return finish_open(out);
}

fv_status fv_source_open_stream(fv_ctx *ctx, const char *name, fv_lines_reader read, void *user,
                                fv_source *out)
{
    FV_FORWARD(begin(ctx, name, out));
    out->reader = read;
    out->user = user;
    return finish_open(out);
}

void fv_source_close(fv_source *source)
{
    fv_mem *mem = &source->ctx->mem;
    if (source->kind) source->kind->end(source);
    if (source->is_file) fv_file_close(&source->file);
    fv_mem_free(mem, source->input, FV_SOURCE_INPUT);
    fv_mem_free(mem, source->name, source->name_room);
    *source = (fv_source){.ctx = source->ctx};
}

fv_status fv_source_read(fv_source *source, void *out, size_t n, size_t *got)
{
    const uint64_t limit = source->ctx->limits.total_bytes;
    FV_FORWARD(source->kind ? source->kind->read(source, out, n, got)
                            : read_packed(source, out, n, got));
    source->given += *got;
    FV_RETURN_IF(source->given > limit, source->ctx, FV_ERR_LIMIT,
                 "%s: more than %llu bytes of text", source->name, (unsigned long long)limit);
    return FV_OK;
}
