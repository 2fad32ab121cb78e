#include "look/png.h"

#include <string.h>

#include "io/crc.h"
#include "look/deflate.h"

static void put_big_endian(unsigned char out[4], uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(value >> (24 - 8 * i));
}

/* A chunk begins with the length of its data, which is filled in at the end. */
static size_t begin_chunk(fv_writer *o, const char type[5])
{
    const size_t at = o->bytes;
    fv_writer_bytes(o, "\0\0\0\0", 4);
    fv_writer_bytes(o, type, 4);
    return at;
}

static void end_chunk(fv_writer *o, size_t at, const fv_crc *crc)
{
    if (o->failed) return;
    unsigned char sum[4];
    put_big_endian((unsigned char *)o->data + at, (uint32_t)(o->bytes - at - 8));
    put_big_endian(sum, fv_crc_add(crc, 0, o->data + at + 4, o->bytes - at - 4));
    fv_writer_bytes(o, sum, sizeof sum);
}

/* Each row begins with its filter type: 0, none. Flat drawings compress best without a filter. */
static void put_rows(fv_writer *o, int64_t width, int64_t height, const unsigned char *rgb)
{
    const size_t row = 3 * (size_t)width, room = (row + 1) * (size_t)height;
    unsigned char *rows = fv_mem_alloc(&o->ctx->mem, room);
    if (!rows) {
        o->failed = true;
        return;
    }
    for (size_t y = 0; y < (size_t)height; y++) {
        rows[y * (row + 1)] = 0;
        memcpy(rows + y * (row + 1) + 1, rgb + y * row, row);
    }
    fv_deflate(o, rows, room, (size_t[]){3, row + 1});
    fv_mem_free(&o->ctx->mem, rows, room);
}

void fv_png_write(fv_writer *o, int64_t width, int64_t height, const unsigned char *rgb)
{
    fv_crc crc;
    fv_crc_init(&crc, FV_CRC32);
    fv_writer_bytes(o, "\x89PNG\r\n\x1a\n", 8);
    unsigned char header[13] = {[8] = 8, [9] = 2}; /* bit depth 8, colour type RGB */
    put_big_endian(header, (uint32_t)width);
    put_big_endian(header + 4, (uint32_t)height);
    size_t chunk = begin_chunk(o, "IHDR");
    fv_writer_bytes(o, header, sizeof header);
    end_chunk(o, chunk, &crc);
    chunk = begin_chunk(o, "IDAT");
    put_rows(o, width, height, rgb);
    end_chunk(o, chunk, &crc);
    chunk = begin_chunk(o, "IEND");
    end_chunk(o, chunk, &crc);
}
