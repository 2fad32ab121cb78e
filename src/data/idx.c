/*
 * IDX, the format of MNIST: two zero bytes, a type, the rank, each size as a big-endian word of 32
 * bits, then the elements, big-endian.
 */
#include <string.h>

#include "base/checked_math.h"
#include "fovea/image.h"
#include "tensor/tensor.h"
#include "text/byte_stream.h"

typedef struct idx_header {
    fv_dtype dtype;
    int rank;
    int64_t shape[FV_MAX_RANK];
    size_t bytes; /* of the elements */
} idx_header;

static fv_status read_exactly(fv_byte_stream *in, void *out, size_t n)
{
    for (size_t done = 0; done < n;) {
        size_t got = 0;
        FV_TRY(fv_byte_stream_read(in, (char *)out + done, n - done, &got));
        if (got == 0) return fv_byte_stream_corrupt(in, "IDX file ends early");
        done += got;
    }
    return FV_OK;
}

static bool dtype_of(uint8_t code, fv_dtype *out)
{
    enum { U8 = 8, I32 = 12, F32 = 13, F64 = 14 };
    switch (code) {
    case U8:
        *out = FV_U8;
        return true;
    case I32:
        *out = FV_I32;
        return true;
    case F32:
        *out = FV_F32;
        return true;
    case F64:
        *out = FV_F64;
        return true;
    default:
        return false;
    }
}

/* What a header may promise: a plain file has as many bytes, a compressed one at most as many as it
 * can hold. */
static fv_status check_size(const fv_byte_stream *in, const idx_header *h, size_t header)
{
    const fv_limits *limits = &in->ctx->limits;
    if (h->bytes > limits->total_bytes)
        return fv_fail(in->ctx, FV_ERR_LIMIT,
                       "%s: %zu bytes of elements, more than the limit of "
                       "%llu",
                       in->name, h->bytes, (unsigned long long)limits->total_bytes);
    uint64_t most = in->bytes;
    if (in->decompressor && (__builtin_mul_overflow(most, limits->decompressed_ratio, &most) ||
                             __builtin_add_overflow(most, (uint64_t)1 << 20, &most)))
        most = UINT64_MAX;
    const uint64_t needed = (uint64_t)h->bytes + header;
    if (needed > most || (!in->decompressor && needed < most))
        return fv_byte_stream_corrupt(in, "IDX header and size of the file do not match");
    return FV_OK;
}

static fv_status read_header(fv_byte_stream *in, idx_header *h)
{
    uint8_t magic[4], word[4];
    FV_TRY(read_exactly(in, magic, sizeof magic));
    if (magic[0] != 0 || magic[1] != 0 || !dtype_of(magic[2], &h->dtype) || magic[3] > FV_MAX_RANK)
        return fv_byte_stream_corrupt(in, "not an IDX file of u8, i32, f32 or f64");
    h->rank = magic[3];
    size_t bytes = fv_dtype_size(h->dtype);
    for (int i = 0; i < h->rank; i++) {
        FV_TRY(read_exactly(in, word, sizeof word));
        h->shape[i] = (int64_t)word[0] << 24 | word[1] << 16 | word[2] << 8 | word[3];
        if (!fv_checked_mul_size(bytes, (size_t)h->shape[i], &bytes))
            return fv_byte_stream_corrupt(in, "IDX header with too many elements");
    }
    h->bytes = bytes;
    return check_size(in, h, sizeof magic + (size_t)h->rank * sizeof word);
}

static void swap_bytes(uint8_t *data, size_t bytes, size_t element)
{
    for (size_t at = 0; at < bytes; at += element)
        for (size_t i = 0; i < element / 2; i++) {
            const uint8_t low = data[at + i];
            data[at + i] = data[at + element - 1 - i];
            data[at + element - 1 - i] = low;
        }
}

static fv_status read_elements(fv_byte_stream *in, const idx_header *h, fv_tensor **out)
{
    fv_ctx *ctx = in->ctx;
    uint8_t *data = fv_mem_alloc(&ctx->mem, h->bytes + 1);
    if (!data) return fv_fail(ctx, FV_ERR_MEMORY, "%s: out of memory", in->name);
    fv_status s = read_exactly(in, data, h->bytes);
    size_t more = 0;
    if (s == FV_OK) s = fv_byte_stream_read(in, data + h->bytes, 1, &more);
    if (s == FV_OK && more > 0) s = fv_byte_stream_corrupt(in, "bytes after the IDX elements");
    if (s == FV_OK) {
        const uint16_t one = 1;
        uint8_t low;
        memcpy(&low, &one, 1);
        if (low) swap_bytes(data, h->bytes, fv_dtype_size(h->dtype));
        *out = fv_from_host(ctx, h->dtype, h->rank, h->shape, data);
    }
    fv_mem_free(&ctx->mem, data, h->bytes + 1);
    return s;
}

fv_tensor *fv_idx_load(fv_ctx *ctx, const char *path)
{
    if (ctx->error != FV_OK) return ctx->invalid;
    fv_byte_stream in;
    fv_tensor *t = ctx->invalid;
    fv_status s = fv_byte_stream_open(ctx, path, &in);
    if (s == FV_OK) {
        idx_header h;
        s = read_header(&in, &h);
        if (s == FV_OK) s = read_elements(&in, &h, &t);
        fv_byte_stream_close(&in);
    }
    if (s != FV_OK) fv_make_last_failure_sticky(ctx, s);
    return t;
}
