#include "io/scan.h"

#include <string.h>

#include "base/pool.h"

/* ---- values ---------------------------------------------------------------------------------- */

/* A float is not finite if all bits of its exponent are set. Branch-free, so that it vectorizes. */
#define ANY_NONFINITE(type, exponent)                                                              \
    do {                                                                                           \
        type x, any = 0;                                                                           \
        for (size_t i = 0; i + sizeof x <= bytes; i += sizeof x) {                                 \
            memcpy(&x, data + i, sizeof x); /* mapped files need not be aligned */                 \
            any |= (type)((x & (type)(exponent)) == (type)(exponent));                             \
        }                                                                                          \
        return any != 0;                                                                           \
    } while (0)

static bool any_nonfinite(fv_dtype dtype, const char *data, size_t bytes)
{
    switch (dtype) {
    case FV_F32:
        ANY_NONFINITE(uint32_t, 0x7F800000u);
    case FV_F64:
        ANY_NONFINITE(uint64_t, 0x7FF0000000000000u);
    case FV_BF16:
        ANY_NONFINITE(uint16_t, 0x7F80u);
    case FV_F16:
        ANY_NONFINITE(uint16_t, 0x7C00u);
    default:
        return false;
    }
}

/* ---- chunks ---------------------------------------------------------------------------------- */

typedef struct part {
    uint32_t sum;
    bool nonfinite;
    int64_t failed; /* result of fv_file_try_read */
    uint64_t at;    /* where */
} part;

typedef struct job {
    const fv_file *file; /* NULL: the bytes are in memory already */
    char *bytes;
    uint64_t offset;
    size_t first; /* bytes of the first chunk; the others have FV_CRC_CHUNK */
    const fv_scan *scan;
    part *parts;
} job;

static void chunk_at(const job *j, int64_t i, size_t *at, size_t *n)
{
    *at = i == 0 ? 0 : j->first + (size_t)(i - 1) * FV_CRC_CHUNK;
    *n = i == 0 ? j->first : FV_CRC_CHUNK;
}

/* A piece of it at a time stays in the second-level cache between reading and checking. */
static void check_chunk(const job *j, int64_t i)
{
    enum { PIECE = 1 << 18 };
    const fv_scan *scan = j->scan;
    part p = {.sum = 0};
    size_t at, n;
    chunk_at(j, i, &at, &n);
    for (size_t done = 0; done < n && !p.failed;) {
        char *data = j->bytes + at + done;
        const size_t piece = n - done < PIECE ? n - done : PIECE;
        size_t got = 0;
        if (j->file) p.failed = fv_file_try_read(j->file, data, piece, j->offset + at + done, &got);
        p.at = j->offset + at + done + got;
        if (!p.failed && scan->crc) p.sum = fv_crc32c_add(scan->crc, p.sum, data, piece);
        if (!p.failed && scan->values && !p.nonfinite)
            p.nonfinite = any_nonfinite(scan->dtype, data, piece);
        done += piece;
    }
    j->parts[i] = p;
}

static void check_chunks(const void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    for (int64_t i = begin; i < end; i++)
        check_chunk(arg, i);
}

/* Tables of a host or a test need not bear several threads. */
static bool is_system(const fv_io *io)
{
    fv_io system;
    fv_io_system(&system);
    return io->read == system.read;
}

/* Most arrays have few chunks. */
enum { FEW = 64 };

static fv_status run(fv_ctx *ctx, job *j, size_t n, fv_scan *scan)
{
    part few[FEW];
    const size_t rest = n % FV_CRC_CHUNK;
    const int64_t count = (int64_t)(n / FV_CRC_CHUNK + (rest > 0 || n == 0 ? 1 : 0));
    const size_t room = count > FEW ? (size_t)count * sizeof(part) : 0;
    j->first = rest > 0 || n == 0 ? rest : FV_CRC_CHUNK;
    j->scan = scan;
    j->parts = room ? fv_mem_alloc(&ctx->mem, room) : few;
    FV_RETURN_IF(!j->parts, ctx, FV_ERR_MEMORY, "out of memory");
    if (count > 1 && (!j->file || is_system(&ctx->io)))
        fv_pool_run(ctx->pool, count, 1, check_chunks, j);
    else
        check_chunks(j, 0, count, 0);
    fv_status status = FV_OK;
    scan->sum = 0;
    scan->nonfinite = false;
    for (int64_t i = 0; i < count && status == FV_OK; i++) {
        const part *p = &j->parts[i];
        if (p->failed) status = fv_file_read_error(j->file, p->failed, p->at, j->offset + n);
        scan->nonfinite = scan->nonfinite || p->nonfinite;
        if (scan->crc) scan->sum = i == 0 ? p->sum : fv_crc32c_join(scan->crc, scan->sum, p->sum);
    }
    if (room) fv_mem_free(&ctx->mem, j->parts, room);
    return status;
}

fv_status fv_scan_read(const fv_file *file, void *out, size_t n, uint64_t offset, fv_scan *scan)
{
    job j = {.file = file, .bytes = out, .offset = offset};
    return run(file->ctx, &j, n, scan);
}

fv_status fv_scan_memory(fv_ctx *ctx, const void *data, size_t n, fv_scan *scan)
{
    job j = {.bytes = (char *)(uintptr_t)data}; /* only read where there is no file */
    return run(ctx, &j, n, scan);
}
