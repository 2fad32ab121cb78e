/* WAV: RIFF chunks, of which "fmt " and "data" matter. */
#include <math.h>
#include <string.h>

#include "audio/sound.h"

enum { PCM = 1, FLOAT = 3, EXTENSIBLE = 0xFFFE, BLOCK = 4096 };

typedef struct wav_format {
    unsigned tag, channels, align, bits; /* as stored; align: bytes of one sample of all channels */
    uint32_t rate;
    unsigned bytes; /* of one sample */
} wav_format;

typedef struct wav_chunk {
    char name[4];
    uint64_t at, bytes; /* of its content */
} wav_chunk;

static uint32_t little(const unsigned char *p, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint32_t)p[i] << (8 * i);
    return value;
}

/* ---- chunks ----------------------------------------------------------------------- */

/* The chunk at *at, which moves past it; `end` is where the RIFF chunk ends. Content of odd size is
 * followed by a byte of padding, which some writers leave out at the end of the file. */
static fv_status next_chunk(const fv_file *file, uint64_t end, uint64_t *at, wav_chunk *out)
{
    unsigned char head[8];
    FV_RETURN_IF(end - *at < sizeof head, file->ctx, FV_ERR_FORMAT,
                 "%s: byte %llu: a chunk's header is cut off", file->path, (unsigned long long)*at);
    FV_TRY(fv_file_read(file, head, sizeof head, *at));
    memcpy(out->name, head, sizeof out->name);
    out->at = *at + sizeof head;
    out->bytes = little(head + 4, 4);
    FV_RETURN_IF(out->bytes > end - out->at, file->ctx, FV_ERR_FORMAT,
                 "%s: byte %llu: a chunk of %llu bytes, but only %llu are left", file->path,
                 (unsigned long long)*at, (unsigned long long)out->bytes,
                 (unsigned long long)(end - out->at));
    *at = out->at + out->bytes + (out->bytes & 1);
    return FV_OK;
}

/* ---- format ----------------------------------------------------------------------- */

static const char *encoding_name(unsigned tag)
{
    switch (tag) {
    case 2:
        return "ADPCM";
    case 6:
        return "A-law";
    case 7:
        return "mu-law";
    case 0x11:
        return "IMA ADPCM";
    case 0x55:
        return "MP3";
    default:
        return "unknown";
    }
}

/* The tag of an extensible format: the first two bytes of a GUID that otherwise never changes. */
static fv_status extended_tag(const fv_file *file, const unsigned char *fmt, uint64_t bytes,
                              wav_format *out)
{
    static const unsigned char guid[14] = {0, 0, 0,    0, 0x10, 0,    0x80,
                                           0, 0, 0xAA, 0, 0x38, 0x9B, 0x71};
    FV_RETURN_IF(bytes < 40, file->ctx, FV_ERR_FORMAT,
                 "%s: an extensible format of %llu bytes: expected 40", file->path,
                 (unsigned long long)bytes);
    FV_RETURN_IF(memcmp(fmt + 26, guid, sizeof guid) != 0, file->ctx, FV_ERR_UNSUPPORTED,
                 "%s: an encoding of its own (sub-format GUID) is not supported", file->path);
    out->tag = little(fmt + 24, 2);
    return FV_OK;
}

static fv_status check_format(const fv_file *file, wav_format *f)
{
    const bool is_float = f->tag == FLOAT;
    FV_RETURN_IF(f->tag != PCM && f->tag != FLOAT, file->ctx, FV_ERR_UNSUPPORTED,
                 "%s: encoding %u (%s) is not supported: expected PCM or float", file->path, f->tag,
                 encoding_name(f->tag));
    FV_RETURN_IF(is_float ? f->bits != 32 && f->bits != 64 : f->bits < 1 || f->bits > 32, file->ctx,
                 FV_ERR_UNSUPPORTED, "%s: %u-bit %s samples are not supported", file->path, f->bits,
                 is_float ? "float" : "PCM");
    f->bytes = (f->bits + 7) / 8;
    FV_RETURN_IF(f->align != f->channels * f->bytes, file->ctx, FV_ERR_FORMAT,
                 "%s: %u channels of %u bits in blocks of %u bytes: expected %u", file->path,
                 f->channels, f->bits, f->align, f->channels * f->bytes);
    const fv_sound_facts facts = {.rate = f->rate, .channels = f->channels};
    return fv_sound_check(file, &facts);
}

static fv_status read_format(const fv_file *file, const wav_chunk *chunk, wav_format *out)
{
    unsigned char fmt[40] = {0};
    FV_RETURN_IF(chunk->bytes < 16, file->ctx, FV_ERR_FORMAT,
                 "%s: a format of %llu bytes: expected at least 16", file->path,
                 (unsigned long long)chunk->bytes);
    FV_TRY(fv_file_read(file, fmt, chunk->bytes < sizeof fmt ? (size_t)chunk->bytes : sizeof fmt,
                        chunk->at));
    *out = (wav_format){.tag = little(fmt, 2),
                        .channels = little(fmt + 2, 2),
                        .rate = little(fmt + 4, 4),
                        .align = little(fmt + 12, 2),
                        .bits = little(fmt + 14, 2)};
    if (out->tag == EXTENSIBLE) FV_TRY(extended_tag(file, fmt, chunk->bytes, out));
    return check_format(file, out);
}

/* ---- samples ---------------------------------------------------------------------- */

/* One sample: integers of fewer bits than their bytes are stored in the upper ones. */
static float sample_of(const unsigned char *p, const wav_format *f)
{
    if (f->tag == FLOAT && f->bytes == 4) {
        float x;
        memcpy(&x, p, sizeof x);
        return x;
    }
    if (f->tag == FLOAT) {
        double x;
        memcpy(&x, p, sizeof x);
        return (float)x;
    }
    if (f->bytes == 1) return (float)(p[0] - 128) * 0x1p-7f;
    const uint32_t top = little(p, (int)f->bytes) << (8 * (4 - f->bytes));
    int32_t x;
    memcpy(&x, &top, sizeof x);
    return (float)((double)x * 0x1p-31);
}

typedef struct wav_block {
    unsigned char *raw;
    float *samples; /* [channels][count] */
    const float **by_channel;
    int64_t count; /* samples of a channel in a block */
    size_t raw_bytes, samples_bytes, by_channel_bytes;
} wav_block;

static void block_free(fv_ctx *ctx, wav_block *b)
{
    if (b->raw) fv_mem_free(&ctx->mem, b->raw, b->raw_bytes);
    if (b->samples) fv_mem_free(&ctx->mem, b->samples, b->samples_bytes);
    if (b->by_channel) fv_mem_free(&ctx->mem, b->by_channel, b->by_channel_bytes);
}

static fv_status block_make(fv_ctx *ctx, const wav_format *f, wav_block *b)
{
    *b = (wav_block){.count = BLOCK,
                     .raw_bytes = (size_t)BLOCK * f->align,
                     .samples_bytes = (size_t)BLOCK * f->channels * sizeof(float),
                     .by_channel_bytes = f->channels * sizeof(float *)};
    b->raw = fv_mem_alloc(&ctx->mem, b->raw_bytes);
    b->samples = fv_mem_alloc(&ctx->mem, b->samples_bytes);
    b->by_channel = fv_mem_alloc(&ctx->mem, b->by_channel_bytes);
    if (b->raw && b->samples && b->by_channel) {
        for (unsigned c = 0; c < f->channels; c++)
            b->by_channel[c] = b->samples + (size_t)c * BLOCK;
        return FV_OK;
    }
    block_free(ctx, b);
    return fv_fail(ctx, FV_ERR_MEMORY, "sound: out of memory");
}

static fv_status read_block(const fv_file *file, const wav_format *f, const wav_chunk *data,
                            int64_t first, int64_t count, const wav_block *b, fv_sound *sound)
{
    if (fv_cancelled(file->ctx)) return fv_fail(file->ctx, FV_ERR_CANCELLED, "cancelled");
    FV_TRY(fv_file_read(file, b->raw, (size_t)count * f->align,
                        data->at + (uint64_t)first * f->align));
    for (unsigned c = 0; c < f->channels; c++) {
        float *to = b->samples + (size_t)c * BLOCK;
        for (int64_t i = 0; i < count; i++) {
            to[i] = sample_of(b->raw + (size_t)i * f->align + (size_t)c * f->bytes, f);
            FV_RETURN_IF(!isfinite(to[i]), file->ctx, FV_ERR_FORMAT,
                         "%s: sample %lld of channel %u is not a finite float", file->path,
                         (long long)(first + i), c);
            FV_RETURN_IF(
                fabsf(to[i]) > FV_SOUND_MAX_SAMPLE, file->ctx, FV_ERR_FORMAT,
                "%s: sample %lld of channel %u is %g: expected at most 2^40, full scale is 1",
                file->path, (long long)(first + i), c, (double)to[i]);
        }
    }
    return fv_sound_append(file, sound, b->by_channel, count);
}

static fv_status read_data(const fv_file *file, const wav_format *f, const wav_chunk *data,
                           fv_sound_mix mix, fv_sound **out)
{
    FV_RETURN_IF(data->bytes % f->align != 0, file->ctx, FV_ERR_FORMAT,
                 "%s: %llu bytes of samples are no multiple of %u, the bytes of one sample of all "
                 "channels",
                 file->path, (unsigned long long)data->bytes, f->align);
    const fv_sound_facts facts = {.rate = f->rate,
                                  .channels = f->channels,
                                  .length = (int64_t)(data->bytes / f->align),
                                  .bits = (int)f->bits,
                                  .encoding = f->tag == FLOAT ? "float" : "PCM"};
    wav_block b;
    FV_TRY(fv_sound_begin(file, &facts, mix, out));
    FV_TRY(block_make(file->ctx, f, &b));
    fv_status s = FV_OK;
    for (int64_t at = 0; at < facts.length && s == FV_OK; at += BLOCK) {
        const int64_t left = facts.length - at;
        s = read_block(file, f, data, at, left < BLOCK ? left : BLOCK, &b, *out);
    }
    block_free(file->ctx, &b);
    return s;
}

/* ---- file ------------------------------------------------------------------------- */

/* Where the RIFF chunk ends; bytes after it are no part of the file's content. */
static fv_status riff_end(const fv_file *file, uint64_t *end)
{
    unsigned char head[12] = {0};
    FV_RETURN_IF(file->bytes < sizeof head, file->ctx, FV_ERR_FORMAT,
                 "%s: %llu bytes are too few for a WAV file", file->path,
                 (unsigned long long)file->bytes);
    FV_TRY(fv_file_read(file, head, sizeof head, 0));
    FV_RETURN_IF(memcmp(head + 8, "WAVE", 4) != 0, file->ctx, FV_ERR_FORMAT,
                 "%s: a RIFF file, but not a WAV file", file->path);
    *end = 8 + (uint64_t)little(head + 4, 4);
    /* The last chunk's padding may be counted though it is not there. */
    FV_RETURN_IF(*end < sizeof head || *end > file->bytes + 1, file->ctx, FV_ERR_FORMAT,
                 "%s: its header states %llu bytes, the file has %llu", file->path,
                 (unsigned long long)*end, (unsigned long long)file->bytes);
    if (*end > file->bytes) *end = file->bytes;
    return FV_OK;
}

fv_status fv_wav_read(const fv_file *file, fv_sound_mix mix, fv_sound **out)
{
    uint64_t at = 12, end = 0;
    wav_format format = {0};
    wav_chunk chunk;
    FV_TRY(riff_end(file, &end));
    while (at < end) {
        FV_TRY(next_chunk(file, end, &at, &chunk));
        if (memcmp(chunk.name, "fmt ", 4) == 0) {
            FV_RETURN_IF(format.bytes, file->ctx, FV_ERR_FORMAT, "%s: a second format", file->path);
            FV_TRY(read_format(file, &chunk, &format));
        } else if (memcmp(chunk.name, "data", 4) == 0) {
            FV_RETURN_IF(!format.bytes, file->ctx, FV_ERR_FORMAT,
                         "%s: samples come before their format", file->path);
            return read_data(file, &format, &chunk, mix, out);
        }
    }
    return fv_fail(file->ctx, FV_ERR_FORMAT, "%s: has no samples (no \"data\" chunk)", file->path);
}
